/* The public face of connections (include/iohandler/conn.h): at the connection itself where the caller may
 * touch it, by mailbox elsewhere. Any thread that runs a callback. */
#include <errno.h>
#include <iohandler/conn.h>
#include <iohandler/error.h>
#include <poll.h>
#include <time.h>

#include "base/clock.h"
#include "conn/crew.h"
#include "conn/reach.h"
#include "conn/turn.h"

#define LOOK_MS 20u /* how late a wait may hear of an abort */

_Thread_local struct ioh__self ioh__self __attribute__((tls_model("initial-exec")));

int ioh__conn_post(ioh_conn *conn, struct ioh__message *m, size_t bytes)
{
    const struct ioh_options *o = conn->hub->options;
    if (!m) { /* what the host says has a hole: no more of it, and ioh__work_done() ends the connection */
        atomic_store_explicit(&conn->face, IOH__FACE_OVER, memory_order_release);
        return IOH_ENOMEM;
    }
    m->id = ioh_conn_get_id(conn);
    if (m->head.kind != IOH__MESSAGE_ABORT &&
        atomic_load_explicit(&conn->face, memory_order_acquire) == IOH__FACE_OVER) {
        ioh__message_free(m);
        return IOH_EGONE;
    }
    if (bytes == 0)
        return ioh__message_give(conn->hub, m);
    size_t posted = atomic_fetch_add_explicit(&conn->posted, bytes, memory_order_relaxed) + bytes;
    size_t total = posted + atomic_load_explicit(&conn->queued, memory_order_relaxed);
    bool is_file = m->head.kind == IOH__MESSAGE_REPLY &&
                   m->as.reply.reply.kind == IOH__REPLY_FILE; /* which takes no memory */
    bool full = total > o->send_max && !is_file, high = total > o->send_high;
    if (full && o->send_full == IOH_SEND_FULL_DROP && m->head.kind == IOH__MESSAGE_FRAME) {
        atomic_fetch_sub_explicit(&conn->posted, bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&conn->hub->crew->refused, 1, memory_order_relaxed);
        ioh__limit_untold(&conn->hub->crew->limits, IOH__LIMIT_SEND_MAX, ioh__now_ms());
        ioh__message_free(m);
        return IOH_EFULL;
    }
    m->want_drain = high;
    m->full = full;
    m->conn = conn; /* it cannot be freed before this callback is known to have ended */
    m->posted = bytes;
    int rc = ioh__message_give(conn->hub, m);
    if (rc) {
        atomic_fetch_sub_explicit(&conn->posted, bytes, memory_order_relaxed);
        return rc;
    }
    if (full)
        return IOH_EFULL;
    return high ? IOH_QUEUED : 0;
}

static void post_plain(ioh_conn *conn, enum ioh__message_kind kind)
{
    ioh__conn_post(conn, ioh__message_new(kind, 0, 0), 0);
    if (kind == IOH__MESSAGE_CLOSE || kind == IOH__MESSAGE_ABORT) /* nothing may follow */
        atomic_store_explicit(&conn->face, IOH__FACE_OVER, memory_order_release);
}

ioh_conn_id ioh_conn_get_id(const ioh_conn *conn)
{
    return ioh__make_id(conn->hub, &conn->chan);
}

void *ioh_conn_user(const ioh_conn *conn)
{
    return conn->user;
}

void ioh_conn_set_user(ioh_conn *conn, void *user)
{
    conn->user = user;
}

ioh_server *ioh_conn_server(const ioh_conn *conn)
{
    return conn->hub->server;
}

int ioh_conn_listener(const ioh_conn *conn)
{
    return conn->listener;
}

void ioh_conn_peer(const ioh_conn *conn, char *text, size_t size)
{
    ioh__peer_text(&conn->peer, text, size);
}

size_t ioh_conn_queued(const ioh_conn *conn)
{
    struct ioh__hub *hub = conn->hub;
    if (ioh__reach(hub)) {
        size_t bytes = conn->out.bytes;
        ioh__unreach(hub);
        return bytes;
    }
    return atomic_load_explicit(&conn->queued, memory_order_relaxed) +
           atomic_load_explicit(&conn->posted, memory_order_relaxed);
}

int ioh_conn_gone(const ioh_conn *conn)
{
    return atomic_load_explicit(&conn->gone, memory_order_relaxed);
}

void ioh_close(ioh_conn *conn)
{
    if (!ioh__reach(conn->hub)) {
        post_plain(conn, IOH__MESSAGE_CLOSE);
        return;
    }
    ioh__conn_close(conn, true);
    ioh__unreach(conn->hub);
}

void ioh_abort(ioh_conn *conn)
{
    if (!ioh__reach(conn->hub)) {
        post_plain(conn, IOH__MESSAGE_ABORT);
        return;
    }
    ioh__conn_die(conn, IOH__END_LOCAL, true);
    ioh__unreach(conn->hub);
}

void ioh_pause(ioh_conn *conn)
{
    if (!ioh__reach(conn->hub)) {
        post_plain(conn, IOH__MESSAGE_PAUSE);
        return;
    }
    conn->paused = true;
    ioh__unreach(conn->hub);
}

void ioh__conn_resume(ioh_conn *conn)
{
    conn->paused = false;
    conn->waiting = true; /* what was read meanwhile is fed, whether more comes or not */
    ioh__conn_touch(conn);
}

void ioh_resume(ioh_conn *conn)
{
    if (!ioh__reach(conn->hub)) {
        post_plain(conn, IOH__MESSAGE_RESUME);
        return;
    }
    ioh__conn_resume(conn);
    ioh__unreach(conn->hub);
}

/* ---- waiting */

static bool is_over(const ioh_conn *conn)
{
    return atomic_load_explicit(&conn->face, memory_order_acquire) == IOH__FACE_OVER;
}

/* The thread of a single connection writes by itself. Nobody wakes it, so it looks around now and then. */
static void look_around(ioh_conn *conn)
{
    if (atomic_load_explicit(&conn->hub->aborting, memory_order_relaxed))
        ioh__conn_die(conn, IOH__END_LOCAL, true);
    ioh__turn_late_stop(conn->hub);
}

static uint64_t exact_ms(void)
{
    return ioh__exact_ns() / 1000000u;
}

static int write_here(ioh_conn *conn, uint64_t until)
{
    size_t low = conn->hub->options->send_low;
    while (conn->state != IOH__CONN_DEAD && conn->out.bytes > low) {
        struct pollfd fd = {.fd = conn->chan.fd, .events = POLLOUT};
        uint64_t now = exact_ms();
        if (now >= until)
            return IOH_ETIMEOUT;
        poll(&fd, 1, (int)(until - now < LOOK_MS ? until - now : LOOK_MS));
        look_around(conn);
        conn->blocked = false;
        ioh__conn_settle(conn);
    }
    return conn->state == IOH__CONN_DEAD ? IOH_EGONE : 0;
}

static bool still_high(const ioh_conn *conn)
{
    return atomic_load_explicit(&conn->queued, memory_order_relaxed) +
               atomic_load_explicit(&conn->posted, memory_order_relaxed) >
           conn->hub->options->send_low;
}

/* The loop writes while this thread sleeps; under AUTO it is taken over for that. */
static int wait_for_loop(ioh_conn *conn, uint32_t timeout_ms)
{
    struct ioh__crew *crew = conn->hub->crew;
    struct timespec until = ioh__moment_in((uint64_t)timeout_ms * 1000u);
    int rc = 0;
    pthread_mutex_lock(&crew->wait_lock);
    atomic_fetch_add(&crew->waiters, 1);
    while (rc == 0 && !is_over(conn) && still_high(conn))
        rc = pthread_cond_timedwait(&crew->wait_change, &crew->wait_lock, &until);
    atomic_fetch_sub(&crew->waiters, 1);
    pthread_mutex_unlock(&crew->wait_lock);
    if (is_over(conn))
        return IOH_EGONE;
    return rc == 0 || !still_high(conn) ? 0 : IOH_ETIMEOUT;
}

int ioh_wait_sent(ioh_conn *conn, uint32_t timeout_ms)
{
    struct ioh__hub *hub = conn->hub;
    if (is_over(conn))
        return IOH_EGONE;
    if (hub->single)
        return write_here(conn, exact_ms() + timeout_ms + 1);
    if (ioh__self.hub == hub && !hub->guarded)
        return IOH_ESTATE;
    if (ioh__reach(hub)) { /* AUTO: what this callback has queued so far is shown and sent */
        ioh__conn_settle(conn);
        ioh__unreach(hub);
    }
    return wait_for_loop(conn, timeout_ms);
}
