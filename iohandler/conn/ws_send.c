/* Sending on a WebSocket (include/iohandler/ws.h): frames into the out queue, where the caller may touch it, or by
 * mailbox. Any thread that runs a callback, and (..._now) the thread that holds the loop. */
#include <iohandler/conn.h>
#include <iohandler/error.h>
#include <iohandler/ws.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "conn/message.h"
#include "conn/reach.h"
#include "conn/topics.h"
#include "conn/ws_conn.h"
#include "conn/ws_pack.h"
#include "proto/utf8.h"
#include "proto/ws_frame.h"

#define CONTROL_MAX 125u /* RFC 6455 5.5 */

/* A message as it is, or a control frame. Inside its callers, with all that it calls as a rule: together they are what
 * sending a small message costs. */
static inline __attribute__((always_inline)) int queue_frame(ioh_conn *conn, int op,
                                                             const void *data, size_t len)
{
    size_t header_len = ioh__ws_header_len(len);
    bool current = ioh__conn_is_current(conn);
    char *at = ioh__outq_reserve(&conn->out, &conn->hub->loop.mem, header_len + len, current);
    if (!at)
        return ioh__conn_no_memory(conn);
    if (len < 126) {
        at[0] = (char)(0x80 | op);
        at[1] = (char)len;
    } else {
        ioh__ws_header_write((uint8_t *)at, op, len);
    }
    if (len)
        memcpy(at + header_len, data, len);
    return ioh__conn_queued_here(conn);
}

int ioh__ws_queue_frame(ioh_conn *conn, int op, const void *data, size_t len)
{
    return queue_frame(conn, op, data, len);
}

void ioh__ws_queue_close(ioh_conn *conn, int code, const void *reason, size_t len)
{
    uint8_t payload[CONTROL_MAX] = {(uint8_t)(code >> 8), (uint8_t)code};
    if (code && len)
        memcpy(payload + 2, reason, len);
    ioh__ws_queue_frame(conn, 8, payload, code ? len + 2 : 0);
}

/* May such a message be sent now? As far as this thread can know. op 0: a piece, or a Close. */
static int check_send(const ioh_conn *conn, int op)
{
    switch ((enum ioh__face)atomic_load_explicit(&conn->face, memory_order_acquire)) {
    case IOH__FACE_WS:
        return 0;
    case IOH__FACE_WS_SENDING: /* control frames may stand between fragments (RFC 6455 5.4) */
        return op == IOH_WS_TEXT || op == IOH_WS_BINARY ? IOH_ESTATE : 0;
    case IOH__FACE_OVER:
        return IOH_EGONE;
    case IOH__FACE_HTTP:
    case IOH__FACE_WS_CLOSED:
        break;
    }
    return IOH_ESTATE;
}

static bool valid_message(int op, size_t len)
{
    return op == IOH_WS_TEXT || op == IOH_WS_BINARY ||
           ((op == IOH_WS_PING || op == IOH_WS_PONG) && len <= CONTROL_MAX);
}

static void count_sent(ioh_conn *conn, int op)
{
    if (op < 8)
        ioh__count(&conn->hub->loop.count.ws_messages_sent, 1);
}

static int post_frame(ioh_conn *conn, ioh_buf *frame)
{
    struct ioh__message *m = ioh__message_new(IOH__MESSAGE_FRAME, 0, 0);
    if (!m || !frame) {
        ioh_buf_unref(frame);
        free(m);
        return ioh__conn_post(conn, NULL, 0);
    }
    m->as.frame = frame;
    return ioh__conn_post(conn, m, frame->len);
}

/* On another thread: compressed already, or else as it is. */
static int post_message(ioh_conn *conn, int op, const void *data, size_t len, ioh_buf *packed)
{
    ioh_buf *frame = packed ? packed : ioh_ws_frame(op, data, len);
    if (frame)
        frame->once = true;
    return post_frame(conn, frame);
}

static int queue_made(ioh_conn *conn, int op, ioh_buf *frame)
{
    struct ioh__outq *q = op < 8 ? ioh__ws_queue(conn) : &conn->out;
    count_sent(conn, op);
    if (!q)
        ioh_buf_unref(frame);
    bool roomy = q == &conn->out && ioh__conn_is_current(conn);
    if (!q || !ioh__outq_take_buf(q, &conn->hub->loop.mem, frame, roomy))
        return ioh__conn_no_memory(conn);
    if (q != &conn->out && conn->out.bytes + q->bytes > conn->hub->options->send_max)
        return ioh__conn_too_much(conn);
    return ioh__conn_queued(conn);
}

/* A message as it is. */
static int send_plain(ioh_conn *conn, int op, const void *data, size_t len)
{
    if (ioh__conn_drops(conn, len))
        return IOH_EFULL;
    count_sent(conn, op);
    return queue_frame(conn, op, data, len);
}

/* packed: see ioh__ws_pack_alone(). */
static int send_now(ioh_conn *conn, int op, const void *data, size_t len, ioh_buf *packed)
{
    if (ioh__conn_drops(conn, packed ? packed->len : len)) {
        ioh_buf_unref(packed);
        return IOH_EFULL;
    }
    if (!packed && ioh__ws_packs(conn))
        packed = ioh__ws_pack_own(conn, op, data, len);
    if (packed)
        return queue_made(conn, op, packed);
    count_sent(conn, op);
    return ioh__ws_queue_frame(conn, op, data, len);
}

/* Where messages are compressed, or from another thread. */
__attribute__((noinline)) static int send_anyhow(ioh_conn *conn, int op, const void *data,
                                                 size_t len)
{
    ioh_buf *packed = ioh__ws_packs(conn) ? ioh__ws_pack_alone(conn, op, data, len) : NULL;
    if (!ioh__reach(conn->hub))
        return post_message(conn, op, data, len, packed);
    int rc = send_now(conn, op, data, len, packed);
    ioh__unreach(conn->hub);
    return rc;
}

int ioh_ws_send(ioh_conn *conn, int op, const void *data, size_t len)
{
    int rc = valid_message(op, len) && (data || !len) ? check_send(conn, op) : IOH_EINVAL;
    if (rc)
        return rc;
    if (ioh__ws_packs(conn) || !ioh__reach(conn->hub))
        return send_anyhow(conn, op, data, len);
    rc = send_plain(conn, op, data, len);
    ioh__unreach(conn->hub);
    return rc;
}

static int send_buf_now(ioh_conn *conn, int op, ioh_buf *payload, ioh_buf *packed)
{
    if (ioh__ws_packs(conn)) {
        int rc = send_now(conn, op, payload->data, payload->len, packed);
        ioh_buf_unref(payload);
        return rc;
    }
    struct ioh__mem *mem = &conn->hub->loop.mem;
    bool roomy = ioh__conn_is_current(conn);
    uint8_t header[IOH__WS_SERVER_HEADER_MAX];
    size_t header_len = ioh__ws_header_write(header, op, payload->len);
    if (ioh__conn_drops(conn, payload->len)) {
        ioh_buf_unref(payload);
        return IOH_EFULL;
    }
    if (!ioh__outq_copy(&conn->out, mem, header, header_len, roomy)) {
        ioh_buf_unref(payload);
        return ioh__conn_no_memory(conn);
    }
    if (!ioh__outq_take_buf(&conn->out, mem, payload, roomy))
        return ioh__conn_no_memory(conn);
    count_sent(conn, op);
    return ioh__conn_queued(conn);
}

int ioh_ws_send_buf(ioh_conn *conn, int op, ioh_buf *payload)
{
    int rc = payload && valid_message(op, payload->len) ? check_send(conn, op) : IOH_EINVAL;
    ioh_buf *packed = rc == 0 ? ioh__ws_pack_alone(conn, op, payload->data, payload->len) : NULL;
    if (rc == 0 && ioh__reach(conn->hub)) {
        rc = send_buf_now(conn, op, payload, packed);
        ioh__unreach(conn->hub);
        return rc;
    }
    if (rc == 0)
        rc = post_message(conn, op, payload->data, payload->len, packed);
    ioh_buf_unref(payload);
    return rc;
}

ioh_buf *ioh_ws_frame(int op, const void *data, size_t len)
{
    if (!valid_message(op, len) || (len && !data))
        return NULL;
    uint8_t header[IOH__WS_SERVER_HEADER_MAX];
    size_t header_len = ioh__ws_header_write(header, op, len);
    ioh_buf *frame = ioh__buf_new(header_len + len);
    if (!frame)
        return NULL;
    memcpy(frame->data, header, header_len);
    if (len)
        memcpy(frame->data + header_len, data, len);
    frame->is_frame = true;
    return frame;
}

/* The same on the thread that holds the loop, which knows better: `face` may say closed already while a
 * message that was sent before is still on its way here. */
static int check_now(const ioh_conn *conn)
{
    if (conn->state != IOH__CONN_OPEN)
        return IOH_EGONE;
    return conn->proto == &ioh__proto_ws && conn->as.ws.step <= IOH__WS_STEP_OPEN ? 0 : IOH_ESTATE;
}

int ioh__ws_check_send(const ioh_conn *conn)
{
    return check_send(conn, 0);
}

int ioh__ws_may_send(const ioh_conn *conn)
{
    return check_now(conn);
}

int ioh__ws_send_frame_now(ioh_conn *conn, ioh_buf *frame)
{
    int rc = check_now(conn);
    if (rc == 0 && ioh__conn_drops(conn, frame->len + ioh__ws_held_bytes(conn)))
        rc = IOH_EFULL;
    if (rc) {
        ioh_buf_unref(frame);
        return rc;
    }
    int op = frame->data[0] & 15;
    ioh_buf *form = ioh__ws_frame_form_ref(conn, frame);
    if (form)
        ioh_buf_unref(frame);
    return queue_made(conn, op, form ? form : frame);
}

int ioh_ws_send_frame(ioh_conn *conn, ioh_buf *frame)
{
    int rc = frame && frame->is_frame ? check_send(conn, frame->data[0] & 15) : IOH_EINVAL;
    if (rc) {
        ioh_buf_unref(frame);
        return rc;
    }
    if (!ioh__reach(conn->hub))
        return post_frame(conn, frame);
    rc = ioh__ws_send_frame_now(conn, frame);
    ioh__unreach(conn->hub);
    return rc;
}

int ioh_ws_send_wait(ioh_conn *conn, ioh_buf *frame, uint32_t timeout_ms)
{
    int rc = frame && frame->is_frame ? ioh_wait_sent(conn, timeout_ms) : IOH_EINVAL;
    if (rc == 0)
        return ioh_ws_send_frame(conn, frame);
    ioh_buf_unref(frame);
    return rc;
}

void ioh__ws_close_now(ioh_conn *conn, int code, const char *reason, size_t len)
{
    if (check_now(conn))
        return;
    ioh__ws_queue_close(conn, code, reason, len);
    if (conn->state != IOH__CONN_OPEN)
        return;
    ioh__conn_show(conn, IOH__FACE_WS_CLOSED);
    conn->as.ws.step = IOH__WS_STEP_CLOSING;
    conn->as.ws.ended = IOH_WS_BY_US;
    ioh__topics_leave(conn);
    conn->phase_at = conn->hub->loop.now + conn->hub->options->close_timeout_ms;
    ioh__conn_touch(conn); /* tells the timer */
}

int ioh_ws_close(ioh_conn *conn, int code, const char *reason, size_t len)
{
    bool ok = code == 0 ? len == 0 : ioh__ws_close_code_valid(code);
    if (!ok || len > CONTROL_MAX - 2 || (len && !ioh__utf8_valid(reason, len)))
        return IOH_EINVAL;
    int rc = check_send(conn, 0);
    if (rc)
        return rc;
    if (ioh__reach(conn->hub)) {
        ioh__ws_close_now(conn, code, reason, len);
        ioh__unreach(conn->hub);
        return 0;
    }
    /* From now on this callback's sends are refused, as they would be after a close on the loop. */
    uint8_t open = atomic_load(&conn->face);
    while (open == IOH__FACE_WS || open == IOH__FACE_WS_SENDING)
        if (atomic_compare_exchange_strong(&conn->face, &open, IOH__FACE_WS_CLOSED))
            break;
    if (open > IOH__FACE_WS_SENDING)
        return open == IOH__FACE_OVER ? IOH_EGONE : IOH_ESTATE;
    struct ioh__message *m = ioh__message_new(IOH__MESSAGE_WS_CLOSE, 0, 0);
    if (m) {
        m->as.ws_close.code = code;
        m->as.ws_close.len = (uint8_t)len;
        if (len)
            memcpy(m->as.ws_close.reason, reason, len);
    }
    return ioh__conn_post(conn, m, 0);
}
