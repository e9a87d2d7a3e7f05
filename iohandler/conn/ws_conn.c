/* WebSocket on a connection: messages that come in, the close handshake, the heartbeat. The thread that holds the
 * loop. What goes out is ws_send.c's.
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
#include "conn/ws_conn.h"

#include <iohandler/conn.h>
#include <iohandler/error.h>
#include <iohandler/ws.h>
#include <sys/ioctl.h>

#include "conn/reach.h"
#include "conn/topics.h"

#define GOING_AWAY 1001
#define ABNORMAL 1006
#define TOO_BIG 1009
#define NEVER UINT32_MAX /* options.ws_ping_ms, ws_dead_ms */
#define TRY_AGAIN_LATER 1013

static const struct ioh_handler *handler_of(const ioh_conn *conn)
{
    return conn->hub->handler;
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
        ioh__ws_queue_frame(conn, IOH_WS_PING, NULL, 0);
    if (o->ws_dead_ms != NEVER && silent && conn->state == IOH__CONN_OPEN) {
        w->pinged = true;
        conn->phase_at = deadline_in(conn, o->ws_dead_ms - o->ws_ping_ms);
    }
}

void ioh__ws_begin(ioh_conn *conn, const struct ioh__deflate_terms *terms)
{
    conn->proto = &ioh__proto_ws;
    conn->as.ws = (struct ioh__ws_conn){.engine.terms = *terms, .step = IOH__WS_STEP_OPENING};
    conn->as.ws.engine.pieces = handler_of(conn)->on_ws_piece && !handler_of(conn)->on_ws_message;
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
    conn->as.ws.step = IOH__WS_STEP_OVER;
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
    if (conn->as.ws.step != IOH__WS_STEP_CLOSING) {
        conn->as.ws.ended = IOH_WS_BY_PEER;
        ioh__ws_queue_close(conn, ev->code == 1005 ? 0 : ev->code, NULL, 0);
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
    if (conn->as.ws.step != IOH__WS_STEP_CLOSING) {
        conn->as.ws.ended = IOH_WS_BY_US;
        ioh__ws_queue_close(conn, ev->code, NULL, 0);
    }
    if (conn->state == IOH__CONN_OPEN && tell_close(conn, ev->code, ev->data, ev->len, job))
        return IOH__FEED_JOB;
    ioh__conn_close(conn, true);
    return IOH__FEED_MORE;
}

void ioh__ws_pieces_now(ioh_conn *conn, bool on)
{
    if (conn->proto == &ioh__proto_ws)
        conn->as.ws.engine.pieces = on;
}

int ioh_ws_receive_pieces(ioh_conn *conn, int on)
{
    const struct ioh_handler *h = handler_of(conn);
    int rc = ioh__ws_check_send(conn);
    if (rc == 0 && !(on ? h->on_ws_piece != NULL : h->on_ws_message != NULL))
        rc = IOH_ESTATE;
    if (rc)
        return rc;
    if (ioh__reach(conn->hub)) {
        ioh__ws_pieces_now(conn, on);
        ioh__unreach(conn->hub);
        return 0;
    }
    struct ioh__message *m = ioh__message_new(IOH__MESSAGE_WS_PIECES, 0, 0);
    if (m)
        m->as.pieces = on;
    return ioh__conn_post(conn, m, 0);
}

/* Fills the job but for its kind. Only what is read: the whole would be cleared by a `rep stos`, slow to begin. */
static void fill_job(struct ioh__job *job, ioh_conn *conn, int op, uint8_t *data, size_t len)
{
    job->conn = conn;
    job->code = op;
    job->data = data;
    job->len = len;
}

static bool deliver(ioh_conn *conn, struct ioh__ws_event *ev, struct ioh__job *job)
{
    const struct ioh_handler *h = handler_of(conn);
    fill_job(job, conn, ev->op, ev->data, ev->len);
    switch (ev->kind) {
    case IOH__WS_MESSAGE:
        ioh__count(&conn->hub->loop.count.ws_messages_received, 1);
        job->kind = IOH__JOB_WS_MESSAGE;
        return h->on_ws_message && conn->as.ws.step == IOH__WS_STEP_OPEN;
    case IOH__WS_PIECE:
        ioh__count(&conn->hub->loop.count.ws_messages_received, ev->last);
        job->kind = IOH__JOB_WS_PIECE;
        job->last = ev->last;
        return h->on_ws_piece && conn->as.ws.step == IOH__WS_STEP_OPEN;
    case IOH__WS_PING:
        if (conn->as.ws.step == IOH__WS_STEP_OPEN)
            ioh__ws_queue_frame(conn, IOH_WS_PONG, ev->data, ev->len);
        job->kind = IOH__JOB_WS_PING;
        return h->on_ws_ping && conn->as.ws.told_open && conn->state == IOH__CONN_OPEN;
    default:
        job->kind = IOH__JOB_WS_PONG;
        return h->on_ws_pong && conn->as.ws.told_open;
    }
}

/* Must what comes in wait? */
static bool waits(const ioh_conn *conn)
{
    return conn->out.bytes > conn->hub->options->send_high || conn->paused;
}

/* The short way: a message that lies there as a whole, of an open WebSocket. false: something else, or not now. */
static inline __attribute__((always_inline)) bool
next_plain(ioh_conn *conn, uint8_t *data, size_t len, size_t *used, struct ioh__job *job)
{
    struct ioh__hub *hub = conn->hub;
    struct ioh__ws_conn *w = &conn->as.ws;
    if (conn->state != IOH__CONN_OPEN || w->step != IOH__WS_STEP_OPEN || waits(conn))
        return false;
    struct ioh__ws_plain plain =
        ioh__ws_plain(&hub->ws_engine, &w->engine, data, len, hub->options->ws_max_message);
    if (!plain.header)
        return false;
    *used += plain.header + plain.len;
    ioh__count(&hub->loop.count.ws_messages_received, 1);
    job->kind = IOH__JOB_WS_MESSAGE;
    fill_job(job, conn, data[0] & 15, data + plain.header, plain.len);
    return true;
}

__attribute__((noinline)) bool ioh__ws_next(ioh_conn *conn, struct ioh__job *job)
{
    struct ioh__hub *hub = conn->hub;
    return !conn->queue && !conn->late && !hub->loop.log.count &&
           next_plain(conn, hub->loop.rx + hub->rx_at, hub->rx_len - hub->rx_at, &hub->rx_at, job);
}

/* Whatever lies there, step by step. */
__attribute__((noinline)) static enum ioh__feed feed_any(ioh_conn *conn, uint8_t *data, size_t len,
                                                         size_t *used, struct ioh__job *job)
{
    struct ioh__ws_conn *w = &conn->as.ws;
    struct ioh__ws_event ev;
    if (w->step == IOH__WS_STEP_OPENING) {
        w->step = IOH__WS_STEP_OPEN;
        w->told_open = true;
        if (handler_of(conn)->on_ws_open) {
            conn->corked = true;
            *job = (struct ioh__job){.kind = IOH__JOB_WS_OPEN, .conn = conn};
            return IOH__FEED_JOB;
        }
    }
    if (w->step == IOH__WS_STEP_OVER) { /* on_ws_close has run */
        ioh__conn_close(conn, true);
        return IOH__FEED_MORE;
    }
    for (size_t n; conn->state == IOH__CONN_OPEN; *used += n) {
        if (waits(conn))
            return IOH__FEED_WAIT;
        ioh__ws_feed(&conn->hub->ws_engine, &w->engine, data + *used, len - *used,
                     conn->hub->options->ws_max_message, &n, &ev);
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

static enum ioh__feed ws_feed(ioh_conn *conn, uint8_t *data, size_t len, size_t *used,
                              struct ioh__job *job)
{
    struct ioh__ws_conn *w = &conn->as.ws;
    if (len && conn->hub->rx_at == 0 && w->step == IOH__WS_STEP_OPEN) /* once for what was read */
        heard(conn);
    if (handler_of(conn)->on_ws_message && next_plain(conn, data, len, used, job))
        return IOH__FEED_JOB;
    if (len == 0 && w->step == IOH__WS_STEP_OPEN && !w->engine.loan) /* all was on the short way */
        return waits(conn) ? IOH__FEED_WAIT : IOH__FEED_MORE;
    return feed_any(conn, data, len, used, job);
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
    if (conn->as.ws.step <= IOH__WS_STEP_OPEN) {
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
    return conn->as.ws.step != IOH__WS_STEP_OVER;
}

static bool ws_gone(ioh_conn *conn, struct ioh__job *job)
{
    struct ioh__ws_conn *w = &conn->as.ws;
    if (w->step != IOH__WS_STEP_OVER && tell_close(conn, ABNORMAL, NULL, 0, job))
        return true;
    ioh__ws_drop_held(conn);
    ioh__ws_release(&conn->hub->ws_engine, &w->engine);
    return false;
}

const struct ioh__proto_ops ioh__proto_ws = {ws_feed,    NULL,          ws_ready, ws_eof,
                                             ws_timeout, ws_stop,       ws_keep,  ws_path,
                                             ws_engaged, ws_overloaded, ws_gone};
