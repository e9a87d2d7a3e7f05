/* Answers: heads and bodies into the out queue (include/iohandler/req.h). The thread that runs the
 * connection's callbacks. */
#include <iohandler/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn/req.h"

#define LENGTH_MAX (sizeof "Content-Length: 18446744073709551615\r\n")
#define CHUNK_HEAD_MAX 18u /* 16 hex digits, CRLF */
/* An answer up to this is reserved as one piece; a larger body follows its head by itself. */
#define ONE_PIECE_MAX 65536u

static const char close_field[] = "Connection: close\r\n";
static const char keep_field[] = "Connection: keep-alive\r\n";
static const char chunked_field[] = "Transfer-Encoding: chunked\r\n";

static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

/* ---- the head */

/* May an answer begin? */
static int check_begin(const ioh_req *req, int status)
{
    if (status < 200 || status > 599)
        return IOH_EINVAL;
    if (req->answer != IOH__ANSWER_NONE)
        return IOH_EDONE;
    return req->conn->state == IOH__CONN_OPEN ? 0 : IOH_EGONE;
}

/* What follows from status, request and connection, before the first byte. */
static void decide(ioh_req *req, int status)
{
    bool early = !req->body_whole;
    req->status = status;
    req->send_body = !req->head.is_head && !ioh__status_bodyless(status);
    /* The client is told before it sends what nobody will read (RFC 9110 10.1.1). */
    if (early && (req->continue_pending ||
                  (req->head.has_length && req->body.left > IOH__DRAIN_MAX)))
        req->close = true;
    if (req->conn->hub->stopping)
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
static char *put_head(char *at, const ioh_req *req, const struct ioh_header *headers, size_t count,
                      int64_t length)
{
    at += ioh__http1_status_line(req->status, at);
    at = put(at, req->conn->hub->date, IOH__DATE_LINE);
    at = put_connection(at, req);
    at = ioh__http1_write_fields(at, headers, count);
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
    return ioh__status_bodyless(status) ? -2 : (int64_t)len;
}

static int answered(ioh_req *req, size_t body_len)
{
    req->answer = IOH__ANSWER_DONE;
    req->body_sent += body_len;
    return ioh__conn_queued(req->conn);
}

/* ---- whole answers */

static int respond_whole(ioh_req *req, int status, const struct ioh_header *headers, size_t count,
                         size_t fields_len, const void *body, size_t len)
{
    decide(req, status);
    size_t body_len = req->send_body ? len : 0;
    size_t inside = body_len <= ONE_PIECE_MAX ? body_len : 0;
    char *begin = reserve_head(req, fields_len, inside);
    if (!begin)
        return ioh__conn_no_memory(req->conn);
    char *at = put_head(begin, req, headers, count, fixed_length(status, len));
    if (inside)
        at = put(at, body, inside);
    ioh__outq_trim(&req->conn->out, head_room(fields_len, inside) - (size_t)(at - begin));
    if (body_len > inside && !ioh__outq_copy(&req->conn->out, &req->conn->hub->loop.mem, body,
                                             body_len, true))
        return ioh__conn_no_memory(req->conn);
    return answered(req, body_len);
}

int ioh_respond(ioh_req *req, int status, const struct ioh_header *headers, size_t count,
                const void *body, size_t len)
{
    size_t fields_len;
    int rc = check_begin(req, status);
    if (rc == 0 && len && !body)
        rc = IOH_EINVAL;
    if (rc == 0)
        rc = ioh__http1_check_fields(headers, count, &fields_len);
    return rc ? rc : respond_whole(req, status, headers, count, fields_len, body, len);
}

int ioh_respond_buf(ioh_req *req, int status, const struct ioh_header *headers, size_t count,
                    ioh_buf *body)
{
    size_t fields_len;
    int rc = body ? check_begin(req, status) : IOH_EINVAL;
    if (rc == 0)
        rc = ioh__http1_check_fields(headers, count, &fields_len);
    if (rc) {
        ioh_buf_unref(body);
        return rc;
    }
    decide(req, status);
    char *begin = reserve_head(req, fields_len, 0);
    if (!begin) {
        ioh_buf_unref(body);
        return ioh__conn_no_memory(req->conn);
    }
    char *at = put_head(begin, req, headers, count, fixed_length(status, body->len));
    ioh__outq_trim(&req->conn->out, head_room(fields_len, 0) - (size_t)(at - begin));
    if (!req->send_body) {
        ioh_buf_unref(body);
        return answered(req, 0);
    }
    size_t len = body->len;
    if (!ioh__outq_take_buf(&req->conn->out, &req->conn->hub->loop.mem, body, true))
        return ioh__conn_no_memory(req->conn);
    return answered(req, len);
}

/* ---- shared answers */

ioh_response *ioh_response_create(int status, const struct ioh_header *headers, size_t count,
                                  const void *body, size_t len)
{
    size_t fields_len;
    if (status < 200 || status > 599 || (len && !body) ||
        ioh__http1_check_fields(headers, count, &fields_len))
        return NULL;
    ioh_response *r = malloc(sizeof *r + IOH__STATUS_LINE_MAX + fields_len + LENGTH_MAX + 2 + len);
    if (!r)
        return NULL;
    char *at = r->bytes;
    r->status = status;
    at += ioh__http1_status_line(status, at);
    r->status_len = (size_t)(at - r->bytes);
    at = ioh__http1_write_fields(at, headers, count);
    if (fixed_length(status, len) >= 0) {
        at = put(at, "Content-Length: ", 16);
        at = ioh__write_decimal(at, len);
        at = put(at, "\r\n", 2);
    }
    at = put(at, "\r\n", 2);
    r->fields_len = (size_t)(at - r->bytes) - r->status_len;
    r->body_len = ioh__status_bodyless(status) ? 0 : len;
    if (r->body_len)
        memcpy(at, body, len);
    return r;
}

void ioh_response_destroy(ioh_response *response)
{
    free(response);
}

int ioh_respond_shared(ioh_req *req, const ioh_response *r)
{
    int rc = check_begin(req, r->status);
    if (rc)
        return rc;
    decide(req, r->status);
    size_t body_len = req->send_body ? r->body_len : 0;
    size_t rest = r->fields_len + body_len;
    size_t most = r->status_len + IOH__DATE_LINE + sizeof keep_field + rest;
    char *begin = ioh__outq_reserve(&req->conn->out, &req->conn->hub->loop.mem, most, true);
    if (!begin)
        return ioh__conn_no_memory(req->conn);
    char *at = put(begin, r->bytes, r->status_len);
    at = put(at, req->conn->hub->date, IOH__DATE_LINE);
    at = put_connection(at, req);
    at = put(at, r->bytes + r->status_len, rest);
    ioh__outq_trim(&req->conn->out, most - (size_t)(at - begin));
    return answered(req, body_len);
}

/* ---- streamed answers */

int ioh_respond_start(ioh_req *req, int status, const struct ioh_header *headers, size_t count,
                      int64_t length)
{
    size_t fields_len;
    int rc = length < -1 ? IOH_EINVAL : check_begin(req, status);
    if (rc == 0)
        rc = ioh__http1_check_fields(headers, count, &fields_len);
    if (rc)
        return rc;
    decide(req, status);
    req->left = length;
    if (ioh__status_bodyless(status))
        length = -2; /* RFC 9112 6.1: no Transfer-Encoding either */
    if (length == -1 && req->head.minor == 0) {
        req->close = true; /* RFC 9112 6.3: the body ends with the connection */
        length = -2;
    }
    req->chunked = length == -1 && req->send_body;
    char *begin = reserve_head(req, fields_len, 0);
    if (!begin)
        return ioh__conn_no_memory(req->conn);
    char *at = put_head(begin, req, headers, count, length);
    ioh__outq_trim(&req->conn->out, head_room(fields_len, 0) - (size_t)(at - begin));
    req->answer = IOH__ANSWER_STREAMING;
    return ioh__conn_queued(req->conn);
}

/* Counts len bytes of body: 0, or why they may not be sent. */
static int check_data(ioh_req *req, size_t len)
{
    if (req->answer == IOH__ANSWER_DONE)
        return IOH_EDONE;
    if (req->answer == IOH__ANSWER_NONE)
        return IOH_ESTATE;
    if (req->conn->state != IOH__CONN_OPEN)
        return IOH_EGONE;
    if (req->left < 0)
        return 0;
    if (len > (uint64_t)req->left)
        return IOH_ELENGTH;
    req->left -= (int64_t)len;
    return 0;
}

/* The chunk's size line (RFC 9112 7.1). */
static bool put_chunk_head(ioh_req *req, size_t len)
{
    char line[CHUNK_HEAD_MAX], *end = ioh__write_hex(line, len);
    end = put(end, "\r\n", 2);
    return ioh__outq_copy(&req->conn->out, &req->conn->hub->loop.mem, line, (size_t)(end - line),
                          true);
}

static bool put_chunk_end(ioh_req *req)
{
    return ioh__outq_copy(&req->conn->out, &req->conn->hub->loop.mem, "\r\n", 2, true);
}

int ioh_respond_data(ioh_req *req, const void *data, size_t len)
{
    int rc = len && !data ? IOH_EINVAL : check_data(req, len);
    if (rc || len == 0 || !req->send_body)
        return rc;
    if ((req->chunked && !put_chunk_head(req, len)) ||
        !ioh__outq_copy(&req->conn->out, &req->conn->hub->loop.mem, data, len, true) ||
        (req->chunked && !put_chunk_end(req)))
        return ioh__conn_no_memory(req->conn);
    req->body_sent += len;
    return ioh__conn_queued(req->conn);
}

int ioh_respond_data_buf(ioh_req *req, ioh_buf *buf)
{
    int rc = buf ? check_data(req, buf->len) : IOH_EINVAL;
    size_t len = buf ? buf->len : 0;
    if (rc || len == 0 || !req->send_body) {
        ioh_buf_unref(buf);
        return rc;
    }
    if (req->chunked && !put_chunk_head(req, len)) {
        ioh_buf_unref(buf);
        return ioh__conn_no_memory(req->conn);
    }
    if (!ioh__outq_take_buf(&req->conn->out, &req->conn->hub->loop.mem, buf, true) ||
        (req->chunked && !put_chunk_end(req)))
        return ioh__conn_no_memory(req->conn);
    req->body_sent += len;
    return ioh__conn_queued(req->conn);
}

int ioh_respond_end(ioh_req *req)
{
    int rc = check_data(req, 0);
    if (rc)
        return rc;
    if (req->left > 0 && req->send_body) {
        ioh__conn_die(req->conn, IOH__END_LOCAL, true);
        return IOH_ELENGTH;
    }
    if (req->chunked &&
        !ioh__outq_copy(&req->conn->out, &req->conn->hub->loop.mem, "0\r\n\r\n", 5, true))
        return ioh__conn_no_memory(req->conn);
    return answered(req, 0);
}

void ioh_respond_close(ioh_req *req)
{
    if (req->answer == IOH__ANSWER_NONE)
        req->close = true;
}

/* ---- the library's own answers */

void ioh__respond_refusal(ioh_req *req, int status)
{
    /* The last three with 426 only: RFC 6455 4.4, RFC 9110 15.5.22 and 7.8. */
    static const struct ioh_header fields[] = {{"Content-Type", "text/plain"},
                                               {"Sec-WebSocket-Version", "13"},
                                               {"Upgrade", "websocket"},
                                               {"Connection", "upgrade"}};
    size_t count = status == 426 ? 4 : 1, fields_len = 0;
    char body[IOH__STATUS_LINE_MAX];
    int len = snprintf(body, sizeof body, "%d %s\n", status, ioh_reason(status));
    for (size_t i = 0; i < count; i++)
        fields_len += strlen(fields[i].name) + strlen(fields[i].value) + 4;
    ioh__count(&req->conn->hub->loop.count.requests_refused, 1);
    if (status != 404) /* of a good request: nobody listens here, and the connection may go on */
        req->close = true;
    respond_whole(req, status, fields, count, fields_len, body, (size_t)len);
}

void ioh__respond_continue(ioh_req *req)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    ioh_conn *conn = req->conn;
    req->continue_pending = false;
    if (ioh__outq_copy(&conn->out, &conn->hub->loop.mem, line, sizeof line - 1, true))
        ioh__conn_queued(conn);
    else
        ioh__conn_no_memory(conn);
}
