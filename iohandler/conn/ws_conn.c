/* WebSocket on a connection: messages in and out, the close handshake. The thread that holds the loop.
 *
 *     OPENING --on_ws_open--> OPEN --peer's Close: echoed--> TELL --on_ws_close--> OVER: FIN, linger
 *                              |                              ^
 *                              +--ioh_ws_close()--> CLOSING --+  peer's Close, or its deadline
 *                              +--fault: Close with its code--+
 *
 * What breaks off anywhere ends in gone(), which tells on_ws_close 1006 if nobody has told it yet.
 *
 * The heartbeat needs no field of its own: while the WebSocket is open phase_at is moved on by whatever the
 * peer sends, and says when it is to be pinged, or (pinged) when it is dead.
 */
#include <iohandler/conn.h>
#include <iohandler/error.h>
#include <iohandler/ws.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "conn/message.h"
#include "conn/reach.h"
#include "conn/topics.h"
#include "conn/ws_pack.h"
#include "proto/utf8.h"
#include "proto/ws_frame.h"

#define CONTROL_MAX 125u /* RFC 6455 5.5 */
#define GOING_AWAY 1001
#define ABNORMAL 1006
#define TOO_BIG 1009
#define NEVER UINT32_MAX /* options.ws_ping_ms, ws_dead_ms */
#define TRY_AGAIN_LATER 1013

enum step { STEP_OPENING, STEP_OPEN, STEP_CLOSING, STEP_OVER };

static const struct ioh_handler *handler_of(const ioh_conn *conn)
{
    return conn->hub->handler;
}

/* ---- sending */

/* A frame's header and a copy of its payload, in one piece: one iovec less. */
static int queue_frame(ioh_conn *conn, int op, const void *data, size_t len)
{
    struct ioh__mem *mem = &conn->hub->loop.mem;
    bool roomy = ioh__conn_is_current(conn);
    uint8_t header[IOH__WS_SERVER_HEADER_MAX];
    size_t header_len = ioh__ws_header_write(header, op, len);
    char *at = ioh__outq_reserve(&conn->out, mem, header_len + len, roomy);
    if (!at)
        return ioh__conn_no_memory(conn);
    memcpy(at, header, header_len);
    if (len)
        memcpy(at + header_len, data, len);
    return ioh__conn_queued(conn);
}

/* Close frame (RFC 6455 5.5.1); code 0: without one. */
static void queue_close(ioh_conn *conn, int code, const void *reason, size_t len)
{
    uint8_t payload[CONTROL_MAX] = {(uint8_t)(code >> 8), (uint8_t)code};
    if (code && len)
        memcpy(payload + 2, reason, len);
    queue_frame(conn, 8, payload, code ? len + 2 : 0);
}

/* May a message be sent now? As far as this thread can know. */
static int check_send(const ioh_conn *conn)
{
    switch ((enum ioh__face)atomic_load_explicit(&conn->face, memory_order_acquire)) {
    case IOH__FACE_WS:
        return 0;
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
        return IOH_ENOMEM;
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
    count_sent(conn, op);
    if (!ioh__outq_take_buf(&conn->out, &conn->hub->loop.mem, frame, ioh__conn_is_current(conn)))
        return ioh__conn_no_memory(conn);
    return ioh__conn_queued(conn);
}

/* packed: see ioh__ws_pack_alone(). */
static int send_now(ioh_conn *conn, int op, const void *data, size_t len, ioh_buf *packed)
{
    if (ioh__conn_drops(conn, packed ? packed->len : len)) {
        ioh_buf_unref(packed);
        return IOH_EFULL;
    }
    if (!packed)
        packed = ioh__ws_pack_own(conn, op, data, len);
    if (packed)
        return queue_made(conn, op, packed);
    count_sent(conn, op);
    return queue_frame(conn, op, data, len);
}

int ioh_ws_send(ioh_conn *conn, int op, const void *data, size_t len)
{
    int rc = valid_message(op, len) && (data || !len) ? check_send(conn) : IOH_EINVAL;
    if (rc)
        return rc;
    ioh_buf *packed = ioh__ws_pack_alone(conn, op, data, len);
    if (!ioh__reach(conn->hub))
        return post_message(conn, op, data, len, packed);
    rc = send_now(conn, op, data, len, packed);
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
    int rc = payload && valid_message(op, payload->len) ? check_send(conn) : IOH_EINVAL;
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
    return conn->proto == &ioh__proto_ws && conn->as.ws.step <= STEP_OPEN ? 0 : IOH_ESTATE;
}

int ioh__ws_check_send(const ioh_conn *conn)
{
    return check_send(conn);
}

int ioh__ws_may_send(const ioh_conn *conn)
{
    return check_now(conn);
}

int ioh__ws_send_frame_now(ioh_conn *conn, ioh_buf *frame)
{
    int rc = check_now(conn);
    if (rc == 0 && ioh__conn_drops(conn, frame->len))
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
    int rc = frame && frame->is_frame ? check_send(conn) : IOH_EINVAL;
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
    queue_close(conn, code, reason, len);
    if (conn->state != IOH__CONN_OPEN)
        return;
    ioh__conn_show(conn, IOH__FACE_WS_CLOSED);
    conn->as.ws.step = STEP_CLOSING;
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
    int rc = check_send(conn);
    if (rc)
        return rc;
    if (ioh__reach(conn->hub)) {
        ioh__ws_close_now(conn, code, reason, len);
        ioh__unreach(conn->hub);
        return 0;
    }
    /* From now on this callback's sends are refused, as they would be after a close on the loop. */
    uint8_t open = IOH__FACE_WS;
    if (!atomic_compare_exchange_strong(&conn->face, &open, IOH__FACE_WS_CLOSED))
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

/* ---- heartbeat */

static uint64_t deadline_in(const ioh_conn *conn, uint32_t ms)
{
    return ms == NEVER ? 0 : conn->hub->loop.now + ms;
}

/* The peer has sent something. */
static void heard(ioh_conn *conn)
{
    const struct ioh_options *o = conn->hub->options;
    conn->as.ws.pinged = o->ws_ping_ms == NEVER; /* then only the end is to come */
    conn->phase_at = deadline_in(conn, conn->as.ws.pinged ? o->ws_dead_ms : o->ws_ping_ms);
}

/* Those that came in one burst would be pinged in one burst, for ever: the first ping comes up to a quarter
 * earlier. */
static void begin_beat(ioh_conn *conn)
{
    const struct ioh_options *o = conn->hub->options;
    heard(conn);
    if (!conn->as.ws.pinged) {
        uint32_t scattered = (uint32_t)ioh_conn_get_id(conn) * 2654435761u;
        conn->phase_at -= (uint64_t)(o->ws_ping_ms / 4) * (scattered >> 16) >> 16;
    }
}

/* Is the peer's silence ours? What it sent may lie in the kernel, since nobody reads it or the loop was
 * late. */
static bool may_have_spoken(const ioh_conn *conn)
{
    int waiting;
    return conn->held || !ioh__conn_may_read(conn) ||
           (ioctl(conn->chan.fd, FIONREAD, &waiting) == 0 && waiting > 0);
}

/* phase_at has passed while the WebSocket is open. */
static void beat(ioh_conn *conn)
{
    const struct ioh_options *o = conn->hub->options;
    struct ioh__ws_conn *w = &conn->as.ws;
    bool silent = !may_have_spoken(conn);
    if (w->pinged && silent) {
        ioh__hub_hit(conn->hub, IOH__LIMIT_WS_DEAD, &conn->peer, "not a sign of life");
        ioh__conn_die(conn, IOH__END_DEADLINE, true);
        return;
    }
    heard(conn);
    if (w->pinged)
        return;
    if (conn->out.bytes ==
        0) /* else it has something to read already, and the write deadline runs */
        queue_frame(conn, IOH_WS_PING, NULL, 0);
    if (o->ws_dead_ms != NEVER && silent && conn->state == IOH__CONN_OPEN) {
        w->pinged = true;
        conn->phase_at = deadline_in(conn, o->ws_dead_ms - o->ws_ping_ms);
    }
}

void ioh__ws_begin(ioh_conn *conn, const struct ioh__deflate_terms *terms)
{
    conn->proto = &ioh__proto_ws;
    conn->as.ws = (struct ioh__ws_conn){.engine.terms = *terms, .step = STEP_OPENING};
    begin_beat(conn);
    ioh__conn_show(conn, IOH__FACE_WS);
    ioh__count(&conn->hub->loop.count.websockets, 1);
}

int ioh_ws_closed_by(const ioh_conn *conn)
{
    /* Written before the job of on_ws_close was made, and not since. */
    return conn->proto == &ioh__proto_ws ? conn->as.ws.ended : IOH_WS_BY_NOBODY;
}

/* ---- receiving */

/* Makes the job that tells the host the end; false when it does not want to know. */
static bool tell_close(ioh_conn *conn, int code, void *reason, size_t len, struct ioh__job *job)
{
    conn->as.ws.step = STEP_OVER;
    conn->phase_at = 0;
    ioh__topics_leave(conn);
    if (conn->state == IOH__CONN_OPEN)
        ioh__conn_show(conn, IOH__FACE_WS_CLOSED);
    ioh__count(&conn->hub->loop.count.websockets, (uint64_t)-1);
    *job = (struct ioh__job){
        .kind = IOH__JOB_WS_CLOSE, .conn = conn, .code = code, .data = reason, .len = len};
    return conn->as.ws.told_open && handler_of(conn)->on_ws_close;
}

/* The peer's Close frame: answered with its own code unless ours is out already. */
static enum ioh__feed closed_by_peer(ioh_conn *conn, struct ioh__ws_event *ev, struct ioh__job *job)
{
    if (conn->as.ws.step != STEP_CLOSING) {
        conn->as.ws.ended = IOH_WS_BY_PEER;
        queue_close(conn, ev->code == 1005 ? 0 : ev->code, NULL, 0);
    }
    if (tell_close(conn, ev->code, ev->data, ev->len, job))
        return IOH__FEED_JOB;
    ioh__conn_close(conn, true);
    return IOH__FEED_MORE;
}

/* RFC 6455 7.1.7: fail the WebSocket. */
static enum ioh__feed failed(ioh_conn *conn, struct ioh__ws_event *ev, struct ioh__job *job)
{
    char peer[64];
    ioh__count(&conn->hub->loop.count.ws_failed, 1);
    ioh__peer_text(&conn->peer, peer, sizeof peer);
    if (ev->code == TOO_BIG)
        ioh__hub_hit(conn->hub, IOH__LIMIT_WS_MESSAGE, &conn->peer, "1009: %.*s", (int)ev->len,
                     (const char *)ev->data);
    else
        ioh__log_add(&conn->hub->loop.log, IOH_LOG_DEBUG, "%s: WebSocket closed with %d: %.*s",
                     peer, ev->code, (int)ev->len, (const char *)ev->data);
    if (conn->as.ws.step != STEP_CLOSING) {
        conn->as.ws.ended = IOH_WS_BY_US;
        queue_close(conn, ev->code, NULL, 0);
    }
    if (conn->state == IOH__CONN_OPEN && tell_close(conn, ev->code, ev->data, ev->len, job))
        return IOH__FEED_JOB;
    ioh__conn_close(conn, true);
    return IOH__FEED_MORE;
}

static bool deliver(ioh_conn *conn, struct ioh__ws_event *ev, struct ioh__job *job)
{
    const struct ioh_handler *h = handler_of(conn);
    *job = (struct ioh__job){.conn = conn, .code = ev->op, .data = ev->data, .len = ev->len};
    switch (ev->kind) {
    case IOH__WS_MESSAGE:
        ioh__count(&conn->hub->loop.count.ws_messages_received, 1);
        job->kind = IOH__JOB_WS_MESSAGE;
        return h->on_ws_message && conn->as.ws.step == STEP_OPEN;
    case IOH__WS_PING:
        if (conn->as.ws.step == STEP_OPEN)
            queue_frame(conn, IOH_WS_PONG, ev->data, ev->len);
        job->kind = IOH__JOB_WS_PING;
        return h->on_ws_ping && conn->as.ws.told_open && conn->state == IOH__CONN_OPEN;
    default:
        job->kind = IOH__JOB_WS_PONG;
        return h->on_ws_pong && conn->as.ws.told_open;
    }
}

static enum ioh__feed ws_feed(ioh_conn *conn, uint8_t *data, size_t len, size_t *used,
                              struct ioh__job *job)
{
    struct ioh__ws_conn *w = &conn->as.ws;
    const struct ioh_options *o = conn->hub->options;
    struct ioh__ws_event ev;
    if (len && w->step == STEP_OPEN)
        heard(conn);
    if (w->step == STEP_OPENING) {
        w->step = STEP_OPEN;
        w->told_open = true;
        if (handler_of(conn)->on_ws_open) {
            conn->corked = true;
            *job = (struct ioh__job){.kind = IOH__JOB_WS_OPEN, .conn = conn};
            return IOH__FEED_JOB;
        }
    }
    if (w->step == STEP_OVER) { /* on_ws_close has run */
        ioh__conn_close(conn, true);
        return IOH__FEED_MORE;
    }
    for (size_t n; conn->state == IOH__CONN_OPEN; *used += n) {
        if (conn->out.bytes > o->send_high || conn->paused)
            return IOH__FEED_WAIT;
        ioh__ws_feed(&conn->hub->ws_engine, &w->engine, data + *used, len - *used,
                     o->ws_max_message, &n, &ev);
        if (ev.kind == IOH__WS_MORE) {
            *used += n;
            break;
        }
        if (ev.kind == IOH__WS_CLOSE || ev.kind == IOH__WS_FAULT) {
            *used += n;
            return ev.kind == IOH__WS_CLOSE ? closed_by_peer(conn, &ev, job)
                                            : failed(conn, &ev, job);
        }
        if (deliver(conn, &ev, job)) {
            *used += n;
            return IOH__FEED_JOB;
        }
    }
    return IOH__FEED_MORE;
}

static void ws_done(ioh_conn *conn, struct ioh__job *job)
{
    (void)conn;
    (void)job; /* turn_done() uncorks */
}

static bool ws_ready(const ioh_conn *conn)
{
    return !conn->paused && conn->out.bytes <= conn->hub->options->send_low;
}

static void ws_eof(ioh_conn *conn)
{
    ioh__conn_die(conn, IOH__END_PEER, false);
}

/* The peer is silent, or has not answered our Close frame in time. */
static void ws_timeout(ioh_conn *conn)
{
    if (conn->as.ws.step <= STEP_OPEN) {
        beat(conn);
        return;
    }
    ioh__hub_hit(conn->hub, IOH__LIMIT_CLOSE_TIME, &conn->peer, "it does not answer a Close frame");
    ioh__conn_die(conn, IOH__END_DEADLINE, false);
}

static void ws_stop(ioh_conn *conn)
{
    static const char reason[] = "the server stops";
    ioh__ws_close_now(conn, GOING_AWAY, reason, sizeof reason - 1);
}

static void ws_overloaded(ioh_conn *conn)
{
    ioh__ws_close_now(conn, TRY_AGAIN_LATER, NULL, 0);
}

static void ws_keep(ioh_conn *conn)
{
    (void)conn; /* a message goes with its work, or lies in the engine */
}

static struct ioh_str ws_path(const ioh_conn *conn)
{
    (void)conn; /* AUTO remembers the connection instead */
    return (struct ioh_str){NULL, 0};
}

static bool ws_engaged(const ioh_conn *conn)
{
    return conn->as.ws.step != STEP_OVER;
}

static bool ws_gone(ioh_conn *conn, struct ioh__job *job)
{
    struct ioh__ws_conn *w = &conn->as.ws;
    if (w->step != STEP_OVER && tell_close(conn, ABNORMAL, NULL, 0, job))
        return true;
    ioh__ws_release(&conn->hub->ws_engine, &w->engine);
    return false;
}

const struct ioh__proto_ops ioh__proto_ws = {ws_feed,    ws_done,       ws_ready, ws_eof,
                                             ws_timeout, ws_stop,       ws_keep,  ws_path,
                                             ws_engaged, ws_overloaded, ws_gone};
