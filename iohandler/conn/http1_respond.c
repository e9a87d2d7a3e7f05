/* The public face of answers (include/iohandler/req.h): what a host says is checked and, where the caller
 * may touch the connection, applied at once; elsewhere it travels by mailbox. Any thread. */
#include <iohandler/conn.h>
#include <iohandler/error.h>
#include <stdlib.h>
#include <string.h>

#include "conn/reach.h"
#include "conn/req.h"
#include "proto/http_encoding.h"

/* ---- checks */

int ioh__reply_check(struct ioh__reply *r, const struct ioh_header *headers, size_t count)
{
    bool begins = r->kind == IOH__REPLY_WHOLE || r->kind == IOH__REPLY_START;
    if ((r->len && !r->data) || r->length < -1 || (begins && (r->status < 200 || r->status > 599)))
        return IOH_EINVAL;
    if (r->kind == IOH__REPLY_INFORM && (r->status < 102 || r->status > 199))
        return IOH_EINVAL;
    r->fields = (struct ioh__fields){.list = headers, .count = count};
    int rc = ioh__http1_check_fields(headers, count, &r->fields.len);
    if (rc || r->kind != IOH__REPLY_END)
        return rc;
    for (size_t i = 0; i < count; i++)
        if (!ioh__http1_trailer_allowed(headers[i].name, strlen(headers[i].name)))
            return IOH_EHEADER;
    return 0;
}

/* An answer begins: nothing has been said yet? */
static int say_begin(const ioh_req *req)
{
    if (req->said != IOH__ANSWER_NONE)
        return IOH_EDONE;
    uint8_t face = atomic_load_explicit(&req->conn->face, memory_order_acquire);
    return face == IOH__FACE_OVER ? IOH_EGONE : 0;
}

/* len more bytes of a streamed answer. */
static int say_data(const ioh_req *req, size_t len)
{
    uint8_t face = atomic_load_explicit(&req->conn->face, memory_order_acquire);
    if (face == IOH__FACE_OVER)
        return IOH_EGONE;
    if (req->said != IOH__ANSWER_STREAMING)
        return req->said == IOH__ANSWER_DONE ? IOH_EDONE : IOH_ESTATE;
    return req->said_left >= 0 && len > (uint64_t)req->said_left ? IOH_ELENGTH : 0;
}

/* ---- on their way */

/* Makes a reply independent of the caller's memory: data becomes a buf. false: out of memory. */
static bool take_along(struct ioh__reply *r)
{
    if (r->len) {
        r->buf = ioh_buf_copy(r->data, r->len);
        if (!r->buf)
            return false;
    }
    r->data = NULL;
    r->len = 0;
    return true;
}

struct ioh__message *ioh__reply_message(struct ioh_req_id id, struct ioh__reply *r)
{
    struct ioh__message *m = ioh__message_new(IOH__MESSAGE_REPLY, id.conn, r->fields.len);
    if (!m || !take_along(r)) {
        ioh_buf_unref(r->buf);
        ioh__file_unref(r->file);
        ioh__squeeze_put(r->squeeze);
        free(m);
        return NULL;
    }
    if (r->shared)
        atomic_fetch_add_explicit(&r->shared->refs, 1, memory_order_relaxed);
    ioh__http1_write_fields(ioh__message_text(m), r->fields.list, r->fields.count);
    r->fields.list = NULL;
    m->as.reply.number = id.number;
    m->as.reply.reply = *r;
    return m;
}

static int post(ioh_req *req, struct ioh__reply *r)
{
    size_t bytes = r->fields.len + r->len + (r->buf ? ioh_buf_len(r->buf) : 0) +
                   (r->shared ? r->shared->body_len : 0);
    if (r->file && !req->head.is_head)
        bytes += (size_t)r->file->total;
    struct ioh_req_id id = {.number = req->number};
    return ioh__conn_post(req->conn, ioh__reply_message(id, r), bytes);
}

static int post_shared(ioh_req *req, const ioh_response *response)
{
    struct ioh__reply r = {.kind = IOH__REPLY_SHARED, .shared = (ioh_response *)response};
    return post(req, &r);
}

/* Applies or posts what req's callback says. */
static int say(ioh_req *req, struct ioh__reply *r)
{
    struct ioh__hub *hub = req->conn->hub;
    if (!ioh__reach(hub))
        return post(req, r);
    int rc = ioh__reply_apply(req, r);
    ioh__unreach(hub);
    return rc;
}

/* ---- compressed answers */

/* Does the client like gzip better than nothing (RFC 9110 12.5.3)? */
static bool takes_gzip(const ioh_req *req)
{
    const unsigned have = 1u << IOH__CODING_GZIP | 1u << IOH__CODING_IDENTITY;
    struct ioh__codings codings;
    ioh__http_codings(req->base, &req->head, &codings);
    return ioh__coding_choose(&codings, have) == IOH__CODING_GZIP;
}

/* Applies or posts what begins an answer. It is compressed before the loop is asked for, which others may
 * have meanwhile. */
static int say_first(ioh_req *req, struct ioh__reply *r)
{
    struct ioh__compress *c = req->conn->hub->compress;
    struct ioh__coded coded;
    if (!c || !ioh__compress_suits(c, r, &coded))
        return say(req, r);
    ioh__compress_reply(c, takes_gzip(req), r, &coded);
    int rc = say(req, r);
    ioh__coded_free(&coded);
    return rc;
}

/* ---- in a callback */

int ioh__reply_may_begin(const ioh_req *req)
{
    return say_begin(req);
}

int ioh__reply_say(ioh_req *req, struct ioh__reply *r)
{
    req->said = IOH__ANSWER_DONE;
    return say(req, r);
}

int ioh_respond(ioh_req *req, int status, const struct ioh_header *headers, size_t count,
                const void *body, size_t len)
{
    struct ioh__reply r = {.kind = IOH__REPLY_WHOLE, .status = status, .data = body, .len = len};
    int rc = ioh__reply_check(&r, headers, count);
    if (rc == 0)
        rc = say_begin(req);
    if (rc)
        return rc;
    req->said = IOH__ANSWER_DONE;
    return say_first(req, &r);
}

int ioh_respond_buf(ioh_req *req, int status, const struct ioh_header *headers, size_t count,
                    ioh_buf *body)
{
    struct ioh__reply r = {.kind = IOH__REPLY_WHOLE, .status = status, .buf = body};
    int rc = body ? ioh__reply_check(&r, headers, count) : IOH_EINVAL;
    if (rc == 0)
        rc = say_begin(req);
    if (rc) {
        ioh_buf_unref(body);
        return rc;
    }
    req->said = IOH__ANSWER_DONE;
    return say_first(req, &r);
}

int ioh_respond_shared(ioh_req *req, const ioh_response *response)
{
    struct ioh__hub *hub = req->conn->hub;
    int rc = say_begin(req);
    if (rc)
        return rc;
    req->said = IOH__ANSWER_DONE;
    if (!ioh__reach(hub))
        return post_shared(req, response);
    rc = ioh__reply_apply_shared(req, response);
    ioh__unreach(hub);
    return rc;
}

static int say_start(ioh_req *req, struct ioh__reply *r, const struct ioh_header *headers,
                     size_t count)
{
    int rc = ioh__reply_check(r, headers, count);
    if (rc == 0)
        rc = say_begin(req);
    if (rc)
        return rc;
    req->said = IOH__ANSWER_STREAMING;
    req->said_left = r->length;
    return say_first(req, r);
}

int ioh_respond_start(ioh_req *req, int status, const struct ioh_header *headers, size_t count,
                      int64_t length)
{
    struct ioh__reply r = {.kind = IOH__REPLY_START, .status = status, .length = length};
    return say_start(req, &r, headers, count);
}

int ioh__respond_events(ioh_req *req, const struct ioh_header *headers, size_t count,
                        uint32_t comment_ms)
{
    struct ioh__reply r = {
        .kind = IOH__REPLY_START, .status = 200, .length = -1, .comment_ms = comment_ms};
    return say_start(req, &r, headers, count);
}

static int say_piece(ioh_req *req, struct ioh__reply *r, size_t len)
{
    int rc = say_data(req, len);
    if (rc) {
        ioh_buf_unref(r->buf);
        return rc;
    }
    if (req->said_left >= 0)
        req->said_left -= (int64_t)len;
    return say(req, r);
}

int ioh_respond_data(ioh_req *req, const void *data, size_t len)
{
    struct ioh__reply r = {.kind = IOH__REPLY_DATA, .data = data, .len = len};
    return len && !data ? IOH_EINVAL : say_piece(req, &r, len);
}

int ioh_respond_data_buf(ioh_req *req, ioh_buf *buf)
{
    struct ioh__reply r = {.kind = IOH__REPLY_DATA, .buf = buf};
    return buf ? say_piece(req, &r, ioh_buf_len(buf)) : IOH_EINVAL;
}

int ioh_respond_end(ioh_req *req)
{
    return ioh_respond_end_trailers(req, NULL, 0);
}

int ioh_respond_end_trailers(ioh_req *req, const struct ioh_header *headers, size_t count)
{
    struct ioh__reply r = {.kind = IOH__REPLY_END};
    int rc = ioh__reply_check(&r, headers, count);
    if (rc == 0)
        rc = say_data(req, 0);
    if (rc)
        return rc;
    bool missing = req->said_left > 0 && !req->head.is_head;
    req->said = IOH__ANSWER_DONE;
    rc = say(req, &r);
    return missing && rc >= 0 ? IOH_ELENGTH : rc;
}

int ioh_respond_pull(ioh_req *req, ioh_more_fn fn, void *user)
{
    struct ioh__reply r = {.kind = IOH__REPLY_PULL, .more = fn, .user = user};
    int rc = fn ? say_data(req, 0) : IOH_EINVAL;
    return rc ? rc : say(req, &r);
}

int ioh_respond_more(ioh_req *req)
{
    struct ioh__reply r = {.kind = IOH__REPLY_MORE};
    int rc = say_data(req, 0);
    return rc ? rc : say(req, &r);
}

int ioh_respond_informational(ioh_req *req, int status, const struct ioh_header *headers,
                              size_t count)
{
    struct ioh__reply r = {.kind = IOH__REPLY_INFORM, .status = status};
    int rc = ioh__reply_check(&r, headers, count);
    if (rc == 0)
        rc = say_begin(req);
    return rc ? rc : say(req, &r);
}

void ioh_respond_close(ioh_req *req)
{
    struct ioh__reply r = {.kind = IOH__REPLY_CLOSE};
    if (req->said == IOH__ANSWER_NONE)
        say(req, &r);
}

/* ---- later */

struct ioh_req_id ioh_defer(ioh_req *req)
{
    struct ioh_req_id id = {.conn = ioh_conn_get_id(req->conn), .number = req->number};
    req->deferred = true;
    if (req->conn->hub->compress && takes_gzip(req))
        id.number |= IOH__TAKES_GZIP;
    return id;
}

/* ---- shared answers */

static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

ioh_response *ioh_response_create(int status, const struct ioh_header *headers, size_t count,
                                  const void *body, size_t len)
{
    size_t fields_len;
    if ((len && !body) || status < 200 || status > 599 ||
        ioh__http1_check_fields(headers, count, &fields_len))
        return NULL;
    if (ioh__status_bodyless(status) || status == 205) /* RFC 9110 15.3.6 */
        len = 0;
    ioh_response *r =
        malloc(sizeof *r + IOH__STATUS_LINE_MAX + IOH__DATE_LINE + fields_len + 64 + len);
    if (!r)
        return NULL;
    char *at = r->bytes;
    atomic_init(&r->refs, 1);
    r->status = status;
    at += ioh__http1_status_line(status, at);
    r->date = (size_t)(at - r->bytes);
    at += IOH__DATE_LINE;
    at = ioh__http1_write_fields(at, headers, count);
    if (!ioh__status_bodyless(status)) {
        at = put(at, "Content-Length: ", 16);
        at = ioh__write_decimal(at, len);
        at = put(at, "\r\n", 2);
    }
    at = put(at, "\r\n", 2);
    r->fields_len = (size_t)(at - r->bytes) - r->date - IOH__DATE_LINE;
    r->body_len = len;
    if (r->body_len)
        memcpy(at, body, len);
    return r;
}

void ioh_response_destroy(ioh_response *response)
{
    if (response && atomic_fetch_sub_explicit(&response->refs, 1, memory_order_acq_rel) == 1)
        free(response);
}
