/* Answers as they go to the peer: heads and bodies into the out queue. The thread that holds the loop. */
#include <iohandler/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conn/req.h"

#define LENGTH_MAX (sizeof "Content-Length: 18446744073709551615\r\n")
#define CHUNK_HEAD_MAX 18u /* 16 hex digits, CRLF */
/* An answer up to this is reserved as one piece; a larger body follows its head by itself. */
#define ONE_PIECE_MAX 65536u
#define SQUEEZE_ROOM 8192u /* a chunk of a compressed answer */

static const char close_field[] = "Connection: close\r\n";
static const char keep_field[] = "Connection: keep-alive\r\n";
static const char chunked_field[] = "Transfer-Encoding: chunked\r\n";

static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

static char *put_fields(char *at, const struct ioh__fields *fields)
{
    if (fields->text)
        return put(at, fields->text, fields->len);
    return ioh__http1_write_fields(at, fields->list, fields->count);
}

/* ---- the head */

/* May an answer begin? */
static int check_begin(const ioh_req *req)
{
    if (req->answer != IOH__ANSWER_NONE)
        return IOH_EDONE;
    return req->conn->state == IOH__CONN_OPEN ? 0 : IOH_EGONE;
}

static bool is_stopping(const ioh_req *req)
{
    return atomic_load_explicit(&req->conn->hub->stopping, memory_order_relaxed);
}

/* What follows from status, request and connection, before the first byte. */
static void decide(ioh_req *req, int status)
{
    bool early = !req->body_whole;
    if (ioh__timed(req->conn->hub))
        req->times.first = ioh__exact_ns();
    req->status = status;
    req->send_body = !req->head.is_head && !ioh__status_bodyless(status) && status != 205;
    /* The client is told before it sends what nobody will read (RFC 9110 10.1.1). */
    if (early &&
        (req->continue_pending || (req->head.has_length && req->body.left > IOH__DRAIN_MAX)))
        req->close = true;
    if (is_stopping(req))
        req->close = true;
}

/* The Connection field, where one is needed (RFC 9112 9.3). */
static char *put_connection(char *at, const ioh_req *req)
{
    if (req->close)
        return put(at, close_field, sizeof close_field - 1);
    if (req->head.minor == 0)
        return put(at, keep_field, sizeof keep_field - 1);
    return at;
}

/* What a head with fields_len bytes of fields and `more` bytes behind it may take at most. */
static size_t head_room(size_t fields_len, size_t more)
{
    return IOH__STATUS_LINE_MAX + IOH__DATE_LINE + sizeof keep_field + LENGTH_MAX +
           sizeof chunked_field + fields_len + 2 + more;
}

static char *reserve_head(ioh_req *req, size_t fields_len, size_t more)
{
    return ioh__outq_reserve(&req->conn->out, &req->conn->hub->loop.mem,
                             head_room(fields_len, more), true);
}

/* length: of the body, -1 chunked, -2 neither (no body, or until the close). */
static char *put_head(char *at, const ioh_req *req, const struct ioh__fields *fields,
                      int64_t length)
{
    at += ioh__http1_status_line(req->status, at);
    at = put(at, req->conn->hub->date, IOH__DATE_LINE);
    at = put_connection(at, req);
    at = put_fields(at, fields);
    if (length >= 0) {
        at = put(at, "Content-Length: ", 16);
        at = ioh__write_decimal(at, (uint64_t)length);
        at = put(at, "\r\n", 2);
    } else if (length == -1) {
        at = put(at, chunked_field, sizeof chunked_field - 1);
    }
    return put(at, "\r\n", 2);
}

/* Content-Length of a fixed answer: never with 1xx and 204 (RFC 9110 8.6). For 304 it would speak of
 * the answer to an unconditional GET, which is not known here. */
static int64_t fixed_length(int status, size_t len)
{
    if (status == 205)
        return 0; /* RFC 9110 15.3.6: no content, and that is said */
    return ioh__status_bodyless(status) ? -2 : (int64_t)len;
}

static int answered(ioh_req *req, size_t body_len)
{
    if (ioh__timed(req->conn->hub))
        req->times.last = req->answer == IOH__ANSWER_NONE ? req->times.first : ioh__exact_ns();
    req->answer = IOH__ANSWER_DONE;
    req->body_sent += body_len;
    return ioh__conn_queued(req->conn);
}

static int queue_buf(ioh_req *req, ioh_buf *buf)
{
    return ioh__outq_take_buf(&req->conn->out, &req->conn->hub->loop.mem, buf, true);
}

/* ---- whole answers */

static int apply_whole(ioh_req *req, struct ioh__reply *r)
{
    decide(req, r->status);
    size_t len = r->buf ? r->buf->len : r->len;
    size_t body_len = req->send_body ? len : 0;
    size_t inside = !r->buf && body_len <= ONE_PIECE_MAX ? body_len : 0;
    char *begin = reserve_head(req, r->fields.len, inside);
    if (!begin)
        return ioh__conn_no_memory(req->conn);
    char *at = put_head(begin, req, &r->fields, fixed_length(r->status, len));
    if (inside)
        at = put(at, r->data, inside);
    ioh__outq_trim(&req->conn->out, head_room(r->fields.len, inside) - (size_t)(at - begin));
    bool ok = true;
    if (body_len > inside && r->buf) {
        ok = queue_buf(req, r->buf);
        r->buf = NULL;
    } else if (body_len > inside) {
        ok = ioh__outq_copy(&req->conn->out, &req->conn->hub->loop.mem, r->data, body_len, true);
    }
    return ok ? answered(req, body_len) : ioh__conn_no_memory(req->conn);
}

static bool says_connection(const ioh_req *req)
{
    return req->close || req->head.minor == 0;
}

int ioh__reply_apply_shared(ioh_req *req, const ioh_response *r)
{
    int rc = check_begin(req);
    if (rc)
        return rc;
    decide(req, r->status);
    size_t body_len = req->send_body ? r->body_len : 0;
    size_t first = r->date + IOH__DATE_LINE, rest = r->fields_len + body_len;
    size_t most = first + sizeof keep_field + rest;
    char *begin = ioh__outq_reserve(&req->conn->out, &req->conn->hub->loop.mem, most, true);
    if (!begin)
        return ioh__conn_no_memory(req->conn);
    char *at = begin;
    if (says_connection(req)) {
        at = put_connection(put(at, r->bytes, first), req);
        at = put(at, r->bytes + first, rest);
    } else {
        at = put(at, r->bytes, first + rest);
    }
    memcpy(begin + r->date, req->conn->hub->date, IOH__DATE_LINE);
    ioh__outq_trim(&req->conn->out, most - (size_t)(at - begin));
    return answered(req, body_len);
}

/* The head and the parts of a file, which are read when they stand first in the queue. */
static int apply_file(ioh_req *req, struct ioh__reply *r)
{
    struct ioh__outq *out = &req->conn->out;
    struct ioh__mem *mem = &req->conn->hub->loop.mem;
    struct ioh__file *file = r->file;
    decide(req, r->status);
    char *begin = reserve_head(req, r->fields.len, 0);
    if (!begin)
        return ioh__conn_no_memory(req->conn);
    char *at = put_head(begin, req, &r->fields, (int64_t)file->total);
    ioh__outq_trim(out, head_room(r->fields.len, 0) - (size_t)(at - begin));
    req->conn->has_file = req->send_body;
    for (uint32_t i = 0; i < file->count && req->send_body; i++) {
        const struct ioh__file_part *part = &file->parts[i];
        bool ok = ioh__outq_copy(out, mem, part->head, part->head_len, true) &&
                  (part->len == 0 ||
                   ioh__outq_take_file(out, mem, ioh__file_ref(file), part->at, (size_t)part->len));
        if (!ok)
            return ioh__conn_no_memory(req->conn);
    }
    return answered(req, req->send_body ? (size_t)file->total : 0);
}

/* ---- streamed answers */

static bool queue_text(ioh_req *req, const char *text, size_t len)
{
    return ioh__outq_copy(&req->conn->out, &req->conn->hub->loop.mem, text, len, true);
}

/* len bytes, of *buf or at data, as a chunk where the body is chunked (RFC 9112 7.1). *buf is NULL once it is
 * consumed. false: out of memory. */
static bool queue_piece(ioh_req *req, ioh_buf **buf, const void *data, size_t len)
{
    bool ok = true;
    if (req->chunked) {
        char line[CHUNK_HEAD_MAX], *end = ioh__write_hex(line, len);
        end = put(end, "\r\n", 2);
        ok = queue_text(req, line, (size_t)(end - line));
    }
    if (ok && *buf) {
        ok = queue_buf(req, *buf);
        *buf = NULL;
    } else if (ok) {
        ok = queue_text(req, data, len);
    }
    if (!ok || (req->chunked && !queue_text(req, "\r\n", 2)))
        return false;
    req->body_sent += len;
    return true;
}

/* The same, compressed. The peer can read all of it at once; end: and it was the last. */
static bool queue_squeezed(ioh_req *req, const void *data, size_t len, bool end)
{
    char room[SQUEEZE_ROOM];
    size_t n;
    ioh_buf *none = NULL;
    do {
        n = ioh__squeeze(req->squeeze, &data, &len, end, room, sizeof room);
        if (n > 0 && !queue_piece(req, &none, room, n))
            return false;
    } while (n == sizeof room || len > 0);
    return true;
}

/* The last chunk, the trailers and the empty line (RFC 9112 7.1). */
static bool queue_last_chunk(ioh_req *req, const struct ioh__fields *trailers)
{
    char *at =
        ioh__outq_reserve(&req->conn->out, &req->conn->hub->loop.mem, trailers->len + 5, true);
    if (!at)
        return false;
    at = put(at, "0\r\n", 3);
    if (trailers->len)
        at = put_fields(at, trailers);
    put(at, "\r\n", 2);
    return true;
}

static int apply_end(ioh_req *req, const struct ioh__fields *trailers)
{
    if (req->left > 0 && req->send_body) {
        ioh__conn_die(req->conn, IOH__END_LOCAL, true);
        return IOH_ELENGTH;
    }
    if (req->squeeze && req->send_body && !queue_squeezed(req, NULL, 0, true))
        return ioh__conn_no_memory(req->conn);
    if (req->chunked && !queue_last_chunk(req, trailers))
        return ioh__conn_no_memory(req->conn);
    return answered(req, 0);
}

/* Would an event stream that begins now have to be ended at once, since it would not end by itself? */
static bool events_are_over(const ioh_req *req)
{
    return !req->send_body || is_stopping(req) ||
           atomic_load_explicit(&req->conn->gone, memory_order_relaxed);
}

static int apply_start(ioh_req *req, struct ioh__reply *r)
{
    int64_t length = r->squeeze ? -1 : r->length; /* nobody knows how long it will be */
    decide(req, r->status);
    req->left = r->length;
    req->squeeze = r->squeeze;
    r->squeeze = NULL;
    if (ioh__status_bodyless(r->status))
        length = -2; /* RFC 9112 6.1: no Transfer-Encoding either */
    if (r->status == 205)
        length = 0;
    if (length == -1 && req->head.minor == 0) {
        req->close = true; /* RFC 9112 6.3: the body ends with the connection */
        length = -2;
    }
    req->chunked = length == -1 && req->send_body;
    char *begin = reserve_head(req, r->fields.len, 0);
    if (!begin)
        return ioh__conn_no_memory(req->conn);
    char *at = put_head(begin, req, &r->fields, length);
    ioh__outq_trim(&req->conn->out, head_room(r->fields.len, 0) - (size_t)(at - begin));
    req->answer = IOH__ANSWER_STREAMING;
    req->event_stream = r->comment_ms != 0;
    req->comment_ms = r->comment_ms;
    if (req->event_stream && events_are_over(req))
        return apply_end(req, &(struct ioh__fields){.len = 0});
    if (req->event_stream && req->body_whole)
        req->conn->phase_at = ioh__comment_at(req);
    return ioh__conn_queued(req->conn);
}

static int check_streaming(const ioh_req *req)
{
    if (req->answer != IOH__ANSWER_STREAMING)
        return req->answer == IOH__ANSWER_DONE ? IOH_EDONE : IOH_ESTATE;
    return req->conn->state == IOH__CONN_OPEN ? 0 : IOH_EGONE;
}

static int apply_data(ioh_req *req, struct ioh__reply *r)
{
    size_t len = r->buf ? r->buf->len : r->len;
    if (req->left >= 0 && len > (uint64_t)req->left)
        return IOH_ELENGTH;
    if (req->left >= 0)
        req->left -= (int64_t)len;
    if (len == 0 || !req->send_body)
        return 0;
    bool ok = req->squeeze ? queue_squeezed(req, r->buf ? r->buf->data : r->data, len, false)
                           : queue_piece(req, &r->buf, r->data, len);
    if (!ok)
        return ioh__conn_no_memory(req->conn);
    if (req->event_stream && req->body_whole)
        req->conn->phase_at = ioh__comment_at(req);
    return ioh__conn_queued(req->conn);
}

/* Asks for more from now on. Where no body is sent nobody needs to ask: the answer is whole. */
static int apply_pull(ioh_req *req, const struct ioh__reply *r)
{
    if (!req->send_body)
        return apply_end(req, &r->fields);
    req->more = r->more;
    req->more_user = r->user;
    req->more_wanted = true;
    req->conn->pulled = true;
    ioh__conn_touch(req->conn);
    return 0;
}

static int apply_more(ioh_req *req)
{
    if (!req->more)
        return IOH_ESTATE;
    req->more_wanted = true;
    ioh__conn_touch(req->conn);
    return 0;
}

/* 1xx: a head without an answer behind it (RFC 9110 15.2). HTTP/1.0 knows none. */
static int apply_inform(ioh_req *req, const struct ioh__reply *r)
{
    size_t most = IOH__STATUS_LINE_MAX + r->fields.len + 2;
    if (req->head.minor == 0)
        return 0;
    char *begin = ioh__outq_reserve(&req->conn->out, &req->conn->hub->loop.mem, most, true);
    if (!begin)
        return ioh__conn_no_memory(req->conn);
    char *at = begin + ioh__http1_status_line(r->status, begin);
    at = put_fields(at, &r->fields);
    at = put(at, "\r\n", 2);
    ioh__outq_trim(&req->conn->out, most - (size_t)(at - begin));
    return ioh__conn_queued(req->conn);
}

/* Does this step begin an answer, or stand before one? Else it goes on with a streamed one. */
static bool begins(enum ioh__reply_kind kind)
{
    return kind == IOH__REPLY_WHOLE || kind == IOH__REPLY_FILE || kind == IOH__REPLY_START ||
           kind == IOH__REPLY_INFORM;
}

static int apply(ioh_req *req, struct ioh__reply *r)
{
    if (r->kind == IOH__REPLY_CLOSE) {
        if (req->answer == IOH__ANSWER_NONE)
            req->close = true;
        return 0;
    }
    if (r->kind == IOH__REPLY_SHARED)
        return ioh__reply_apply_shared(req, r->shared);
    int rc = begins(r->kind) ? check_begin(req) : check_streaming(req);
    if (rc)
        return rc;
    switch (r->kind) {
    case IOH__REPLY_WHOLE:
        return apply_whole(req, r);
    case IOH__REPLY_FILE:
        return apply_file(req, r);
    case IOH__REPLY_START:
        return apply_start(req, r);
    case IOH__REPLY_DATA:
        return apply_data(req, r);
    case IOH__REPLY_END:
        return apply_end(req, &r->fields);
    case IOH__REPLY_INFORM:
        return apply_inform(req, r);
    case IOH__REPLY_PULL:
        return apply_pull(req, r);
    case IOH__REPLY_MORE:
        return apply_more(req);
    case IOH__REPLY_SHARED:
    case IOH__REPLY_CLOSE:
        break;
    }
    return IOH_EINVAL;
}

int ioh__reply_apply(ioh_req *req, struct ioh__reply *r)
{
    int rc = apply(req, r);
    ioh_buf_unref(r->buf);
    ioh__file_unref(r->file);
    if (r->squeeze)
        ioh__squeeze_put(r->squeeze);
    return rc;
}

/* ---- the library's own answers */

void ioh__respond_refusal(ioh_req *req, int status)
{
    /* The last three with 426 only: RFC 6455 4.4, RFC 9110 15.5.22 and 7.8. */
    static const struct ioh_header fields[] = {{"Content-Type", "text/plain"},
                                               {"Sec-WebSocket-Version", "13"},
                                               {"Upgrade", "websocket"},
                                               {"Connection", "upgrade"}};
    static const struct ioh_header busy[] = {{"Content-Type", "text/plain"}, {"Retry-After", "1"}};
    struct ioh__reply r = {.kind = IOH__REPLY_WHOLE, .status = status};
    char body[IOH__STATUS_LINE_MAX];
    r.fields.list = status == 503 ? busy : fields;
    r.fields.count = status == 426 ? 4 : status == 503 ? 2 : 1;
    for (size_t i = 0; i < r.fields.count; i++)
        r.fields.len += strlen(r.fields.list[i].name) + strlen(r.fields.list[i].value) + 4;
    r.data = body;
    r.len = (size_t)snprintf(body, sizeof body, "%d %s\n", status, ioh_reason(status));
    ioh__count(&req->conn->hub->loop.count.requests_refused, 1);
    if (status != 404) /* of a good request: nobody listens here, and the connection may go on */
        req->close = true;
    ioh__reply_apply(req, &r);
}

void ioh__respond_continue(ioh_req *req)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    req->continue_pending = false;
    if (queue_text(req, line, sizeof line - 1))
        ioh__conn_queued(req->conn);
    else
        ioh__conn_no_memory(req->conn);
}

/* A line alone, so that it does no harm inside an event that the host sends in pieces of whole lines (WHATWG HTML
 * 9.2.6). With bytes still queued there is no silence to break. */
void ioh__respond_comment(ioh_req *req)
{
    struct ioh__reply r = {.kind = IOH__REPLY_DATA, .data = ":\n", .len = 2};
    req->conn->phase_at = ioh__comment_at(req);
    if (req->conn->out.bytes == 0)
        ioh__reply_apply(req, &r);
}
