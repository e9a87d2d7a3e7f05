/* Connections (see conn.h): life, reading, writing, deadlines. The thread that holds the loop. */
#include "conn/conn.h"

#include <iohandler/error.h>
#include <iohandler/options.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "conn/acceptor.h"
#include "conn/crew.h"
#include "conn/topics.h"

#define FLUSH_MAX (512u * 1024u) /* one connection's share of a turn, */
#define FILE_MAX \
    (2048u * 1024u) /* and of a file: the larger the pieces, the less each byte costs */

ioh_conn *ioh__conn_create(struct ioh__hub *hub, int fd, const struct ioh__peer *peer, int listener)
{
    ioh_conn *conn = ioh__pool_get(&hub->conns);
    if (conn) {
        *conn = (ioh_conn){.hub = hub,
                           .proto = &ioh__proto_http1,
                           .xport = &ioh__xport_plain,
                           .peer = *peer,
                           .listener = (uint16_t)listener,
                           .state = IOH__CONN_NEW};
        if (peer->proxied) {
            conn->proto = &ioh__proto_proxy;
            conn->state = IOH__CONN_OPEN;
        }
        conn->chan = (struct ioh__chan){.fd = fd, .kind = IOH__CHAN_CONN};
        ioh__timer_init(&conn->timer);
        ioh__list_init(&conn->work);
        if (ioh__loop_enter(&hub->loop, &conn->chan) == 0) {
            conn->queue = ioh__crew_queue(hub->crew, conn);
            hub->only = &conn->chan;
            hub->served = true;
            conn->phase_at = hub->loop.now + (peer->proxied ? hub->options->head_timeout_ms
                                                            : hub->options->idle_timeout_ms);
            ioh__count(&hub->loop.count.connections, 1);
            ioh__count(&hub->loop.count.accepted, 1);
            return conn;
        }
        ioh__pool_put(&hub->conns, conn);
    }
    ioh__accept_undo(hub->crew, fd, peer);
    atomic_fetch_sub_explicit(&hub->load, 1, memory_order_relaxed);
    return NULL;
}

void ioh__conn_free(ioh_conn *conn)
{
    struct ioh__hub *hub = conn->hub;
    ioh__list_remove(&conn->work);
    ioh__crew_leave(hub->crew, conn);
    ioh__gate_leave(&hub->crew->gate, &conn->peer);
    ioh__count(&hub->loop.count.connections, (uint64_t)-1);
    atomic_fetch_sub_explicit(&hub->load, 1, memory_order_relaxed);
    ioh__pool_put(&hub->conns, conn);
}

void ioh__conn_touch(ioh_conn *conn)
{
    if (ioh__list_empty(&conn->work))
        ioh__list_append(&conn->hub->work, &conn->work);
}

void ioh__conn_begin(ioh_conn *conn)
{
    conn->proto = &ioh__proto_http1;
    conn->state = IOH__CONN_NEW;
    conn->phase_at = conn->hub->loop.now + conn->hub->options->idle_timeout_ms;
    /* on_open comes before whatever happens now. */
    ioh__timer_cancel(&conn->timer);
    ioh__loop_unwatch(&conn->hub->loop, &conn->chan);
    ioh__conn_touch(conn);
}

static void drop_input(ioh_conn *conn)
{
    ioh__mem_put(&conn->hub->loop.mem, conn->in, conn->in_room);
    conn->in = NULL;
    conn->in_len = conn->in_room = 0;
}

void ioh__conn_die(ioh_conn *conn, enum ioh__end why, bool reset)
{
    struct ioh__loop *loop = &conn->hub->loop;
    if (conn->state == IOH__CONN_DEAD)
        return;
    if (!conn->counted && why != IOH__END_LOCAL)
        ioh__count(why == IOH__END_PEER ? &loop->count.closed_by_peer
                                        : &loop->count.closed_by_deadline,
                   1);
    conn->state = IOH__CONN_DEAD;
    ioh__topics_leave(conn);
    ioh__conn_show(conn, IOH__FACE_OVER);
    atomic_store_explicit(&conn->gone, true, memory_order_relaxed);
    if (why == IOH__END_PEER)
        ioh__conn_peer_left(conn);
    if (reset)
        ioh__sock_set_reset(conn->chan.fd);
    ioh__loop_leave(loop, &conn->chan);
    conn->hub->only = NULL;
    close(conn->chan.fd);
    ioh__timer_cancel(&conn->timer);
    ioh__outq_clear(&conn->out, &loop->mem);
    drop_input(conn);
    atomic_store_explicit(&conn->queued, 0, memory_order_relaxed);
    ioh__crew_wake_waiters(conn->hub->crew);
    ioh__conn_touch(conn);
}

void ioh__conn_close(ioh_conn *conn, bool linger)
{
    if (conn->state > IOH__CONN_OPEN)
        return;
    conn->state = IOH__CONN_FLUSHING;
    ioh__topics_leave(conn);
    ioh__conn_show(conn, IOH__FACE_OVER);
    conn->linger = linger;
    conn->counted = true;
    conn->phase_at = 0;
    ioh__conn_touch(conn);
}

/* ---- reading */

bool ioh__conn_may_feed(const ioh_conn *conn)
{
    if (conn->state != IOH__CONN_OPEN || conn->busy)
        return false;
    return !conn->waiting || conn->proto->ready(conn);
}

bool ioh__conn_may_read(const ioh_conn *conn)
{
    return ioh__conn_may_feed(conn) && !conn->paused &&
           conn->out.bytes <= conn->hub->options->send_high;
}

void ioh__conn_peer_left(ioh_conn *conn)
{
    atomic_store_explicit(&conn->gone, true, memory_order_relaxed);
    if (conn->proto == &ioh__proto_http1 && conn->state == IOH__CONN_OPEN)
        ioh__http1_end_events(conn);
    if (conn->gone_told || !conn->hub->handler->on_peer_gone || !conn->proto->engaged(conn))
        return;
    conn->gone_told = conn->gone_due = true;
    ioh__conn_touch(conn);
}

void ioh__conn_recall(ioh_conn *conn)
{
    struct ioh__hub *hub = conn->hub;
    if (conn->in_len)
        memcpy(hub->loop.rx, conn->in, conn->in_len);
    hub->rx_at = 0;
    hub->rx_len = conn->in_len;
    drop_input(conn);
}

bool ioh__conn_read(ioh_conn *conn)
{
    struct ioh__hub *hub = conn->hub;
    ssize_t n = conn->xport->read(conn, hub->loop.rx + conn->in_len, IOH__RX_SIZE - conn->in_len);
    if (n > 0) {
        ioh__conn_recall(conn);
        hub->rx_len += (size_t)n;
        ioh__count(&hub->loop.count.bytes_received, (uint64_t)n);
        return true;
    }
    if (n == 0) {
        if (!conn->counted)
            ioh__count(&hub->loop.count.closed_by_peer, 1);
        conn->counted = conn->peer_eof = true;
        ioh__conn_peer_left(conn);
        conn->proto->eof(conn);
    } else if (n == IOH__XPORT_BROKEN) {
        ioh__conn_die(conn, IOH__END_PEER, false);
    }
    return false;
}

void ioh__conn_keep(ioh_conn *conn, const uint8_t *data, size_t len)
{
    if (len == 0 || conn->state > IOH__CONN_OPEN)
        return;
    size_t room;
    conn->in = ioh__mem_get(&conn->hub->loop.mem, len, &room);
    if (!conn->in) {
        ioh__log_add(&conn->hub->loop.log, IOH_LOG_WARN, "out of memory: connection reset");
        ioh__conn_die(conn, IOH__END_LOCAL, true);
        return;
    }
    memcpy(conn->in, data, len);
    conn->in_len = (uint32_t)len;
    conn->in_room = (uint32_t)room; /* a receive buffer, or little more */
}

void ioh__conn_discard(ioh_conn *conn)
{
    ssize_t n = conn->xport->read(conn, conn->hub->loop.rx, IOH__RX_SIZE);
    if (n == 0 || n == IOH__XPORT_BROKEN)
        ioh__conn_die(conn, IOH__END_LOCAL, false);
}

/* ---- writing */

uint64_t ioh__conn_prolong(const ioh_conn *conn, uint64_t at, size_t n, uint32_t full_ms)
{
    uint64_t most = ioh__hub_now(conn->hub) + full_ms;
    at += (uint64_t)n * 1000 / conn->hub->options->min_rate;
    return at < most ? at : most;
}

int ioh__conn_too_much(ioh_conn *conn)
{
    const struct ioh_options *o = conn->hub->options;
    ioh__hub_hit(conn->hub, IOH__LIMIT_SEND_MAX, &conn->peer,
                 "more than %llu bytes are queued: connection reset",
                 (unsigned long long)o->send_max);
    ioh__conn_die(conn, IOH__END_LOCAL, true);
    return IOH_EFULL;
}

int ioh__conn_queued(ioh_conn *conn)
{
    const struct ioh_options *o = conn->hub->options;
    if (!ioh__conn_is_current(conn))
        ioh__conn_touch(conn);
    /* At once, and not only when it settles: a callback that loses its loop now must not see less. */
    atomic_store_explicit(&conn->queued, conn->out.bytes, memory_order_relaxed);
    if (conn->out.bytes <= o->send_high)
        return 0;
    if (conn->out.bytes > o->send_max && !conn->has_file) /* what waits in a file takes no memory */
        return ioh__conn_too_much(conn);
    conn->want_drain = true;
    return IOH_QUEUED;
}

bool ioh__conn_drops(ioh_conn *conn, size_t len)
{
    const struct ioh_options *o = conn->hub->options;
    if (o->send_full != IOH_SEND_FULL_DROP || conn->out.bytes + len <= o->send_max)
        return false;
    ioh__hub_hit(conn->hub, IOH__LIMIT_SEND_MAX, &conn->peer,
                 "the queue is full: a message is dropped");
    return true;
}

int ioh__conn_no_memory(ioh_conn *conn)
{
    ioh__log_add(&conn->hub->loop.log, IOH_LOG_WARN, "out of memory: connection reset");
    ioh__conn_die(conn, IOH__END_LOCAL, true);
    return IOH_ENOMEM;
}

/* How much the kernel holds that the peer's has not got. */
static uint32_t in_kernel(const ioh_conn *conn)
{
    int left;
    return ioctl(conn->chan.fd, SIOCOUTQ, &left) || left < 0 ? 0 : (uint32_t)left;
}

/* The part of a file that stands first: sends of it, or reads of it what write_memory() sends then (UNABLE).
 * BROKEN: the connection has ended. */
static ssize_t write_file(ioh_conn *conn, size_t *offered)
{
    uint64_t at;
    size_t len;
    struct ioh__file *file = ioh__outq_file(&conn->out, &at, &len);
    if (!file)
        return IOH__XPORT_UNABLE;
    *offered = len < FILE_MAX ? len : FILE_MAX;
    ssize_t n = IOH__XPORT_UNABLE;
    if (conn->xport->send_file && !file->unable)
        n = conn->xport->send_file(conn, file->fd, at, *offered);
    enum ioh__load load = n == 0 ? IOH__LOAD_ENDED : IOH__LOAD_OK;
    if (n == IOH__XPORT_UNABLE) {
        file->unable = true;
        load = ioh__outq_load(&conn->out, &conn->hub->loop.mem);
    }
    if (load == IOH__LOAD_OK)
        return n;
    if (load == IOH__LOAD_NO_MEMORY) {
        ioh__conn_no_memory(conn);
    } else { /* the peer has been promised more: it must not take what it got for the whole */
        ioh__log_add(&conn->hub->loop.log, IOH_LOG_WARN,
                     "a file ended before its length while it was sent: connection reset");
        ioh__conn_die(conn, IOH__END_LOCAL, true);
    }
    return IOH__XPORT_BROKEN;
}

static ssize_t write_memory(ioh_conn *conn, size_t *offered)
{
    struct iovec iov[IOH__OUT_IOV];
    int count = ioh__outq_iov(&conn->out, iov, IOH__OUT_IOV);
    *offered = 0;
    for (int i = 0; i < count; i++)
        *offered += iov[i].iov_len;
    return conn->xport->write(conn, iov, count, conn->has_file && *offered < conn->out.bytes);
}

/* Writes until the queue is empty, the kernel takes no more, or the connection had its share. */
static void flush(ioh_conn *conn)
{
    struct ioh__loop *loop = &conn->hub->loop;
    size_t written = 0;
    bool again = true;
    while (again && conn->out.bytes && written < FLUSH_MAX) {
        size_t offered = 0;
        ssize_t n = conn->has_file ? write_file(conn, &offered) : IOH__XPORT_UNABLE;
        if (n == IOH__XPORT_UNABLE)
            n = write_memory(conn, &offered);
        if (n == IOH__XPORT_BROKEN) {
            ioh__conn_die(conn, IOH__END_PEER, false);
            return;
        }
        again = n > 0 && (size_t)n == offered;
        if (n > 0) {
            ioh__outq_consume(&conn->out, &loop->mem, (size_t)n);
            written += (size_t)n;
        }
    }
    ioh__count(&loop->count.bytes_sent, written);
    conn->blocked = conn->out.bytes != 0;
    if (!conn->blocked) {
        ioh__outq_clear(&conn->out, &loop->mem);
        conn->write_at = 0;
        conn->has_file = false;
        return;
    }
    uint32_t full = conn->hub->options->write_timeout_ms;
    conn->write_at =
        conn->write_at ? ioh__conn_prolong(conn, conn->write_at, written, full) : loop->now + full;
    conn->write_mark = in_kernel(conn);
}

/* The write deadline has passed. The poller tells of room only when a third of the kernel's buffer is free, so a peer
 * may have read for long without a sign: what left the kernel since then counts, too. */
static bool still_moving(ioh_conn *conn)
{
    uint32_t left = in_kernel(conn);
    if (left >= conn->write_mark)
        return false;
    conn->write_at = ioh__conn_prolong(conn, conn->write_at, conn->write_mark - left,
                                       conn->hub->options->write_timeout_ms);
    conn->write_mark = left;
    return conn->write_at > conn->hub->loop.now;
}

/* Everything is out: our end is closed, the peer's is waited for. What the peer's kernel has not got can be lost: bytes
 * that arrive after the close are answered with a reset, and a reset throws away what is still to be sent. */
static void finish(ioh_conn *conn)
{
    if (conn->peer_eof || (!conn->linger && in_kernel(conn) == 0)) {
        ioh__conn_die(conn, IOH__END_LOCAL, false);
        return;
    }
    conn->xport->finish(conn);
    conn->state = IOH__CONN_LINGERING;
    conn->phase_at = conn->hub->loop.now + conn->hub->options->close_timeout_ms;
    drop_input(conn);
}

static uint32_t interest(const ioh_conn *conn)
{
    uint32_t want = conn->blocked ? EPOLLOUT : 0;
    if (conn->state == IOH__CONN_LINGERING)
        want |= EPOLLIN;
    if (conn->state == IOH__CONN_OPEN && !conn->peer_eof) {
        if (!conn->held)
            want |= EPOLLIN;
        if (!atomic_load_explicit(&conn->gone, memory_order_relaxed))
            want |= EPOLLRDHUP;
    }
    return want;
}

/* What other threads see of the queue, and those who wait for it. */
static void show_queue(ioh_conn *conn)
{
    size_t before = atomic_load_explicit(&conn->queued, memory_order_relaxed);
    if (before == conn->out.bytes)
        return;
    atomic_store_explicit(&conn->queued, conn->out.bytes, memory_order_relaxed);
    if (before > conn->hub->options->send_low && conn->out.bytes <= conn->hub->options->send_low)
        ioh__crew_wake_waiters(conn->hub->crew);
}

static void set_timer(ioh_conn *conn)
{
    uint64_t at = conn->phase_at;
    if (conn->write_at && (!at || conn->write_at < at))
        at = conn->write_at;
    if (at)
        ioh__timer_set(&conn->hub->loop.wheel, &conn->timer, at);
    else
        ioh__timer_cancel(&conn->timer);
}

void ioh__conn_settle(ioh_conn *conn)
{
    struct ioh__hub *hub = conn->hub;
    if (conn->out.bytes && !conn->blocked && !conn->corked && conn->state != IOH__CONN_DEAD)
        flush(conn);
    if (conn->out.first && !ioh__outq_rest(&conn->out, &hub->loop.mem))
        ioh__conn_no_memory(conn);
    if (conn->state == IOH__CONN_FLUSHING && conn->out.bytes == 0)
        finish(conn);
    if (conn->state == IOH__CONN_DEAD || conn->state == IOH__CONN_NEW)
        return;
    show_queue(conn);
    if (conn->owes && conn->out.bytes <= hub->options->send_low) {
        ioh__topics_drain(conn);
        if (conn->state == IOH__CONN_DEAD)
            return;
    }
    if (conn->want_drain && conn->out.bytes <= hub->options->send_low)
        ioh__conn_touch(conn);
    if (conn->pulled && ioh__http1_pull_due(conn))
        ioh__conn_touch(conn);
    if ((conn->waiting && ioh__conn_may_feed(conn)) || (conn->runs && !conn->busy))
        ioh__conn_touch(conn);
    if (conn->held && !conn->waiting && !conn->busy && !conn->paused &&
        conn->out.bytes <= hub->options->send_low)
        conn->held = false;
    if (ioh__loop_watch(&hub->loop, &conn->chan, interest(conn))) {
        ioh__log_add(&hub->loop.log, IOH_LOG_WARN, "epoll refuses a connection: it is reset");
        ioh__conn_die(conn, IOH__END_LOCAL, true);
        return;
    }
    set_timer(conn);
}

static void write_too_slow(ioh_conn *conn)
{
    ioh__hub_hit(conn->hub, IOH__LIMIT_WRITE_TIME, &conn->peer,
                 "it reads too slowly, %zu bytes are left: connection reset", conn->out.bytes);
    ioh__conn_die(conn, IOH__END_DEADLINE, true);
}

static void linger_over(ioh_conn *conn)
{
    ioh__hub_hit(conn->hub, IOH__LIMIT_CLOSE_TIME, &conn->peer, "it does not close its end");
    ioh__conn_die(conn, IOH__END_LOCAL, false);
}

void ioh__conn_expired(ioh_conn *conn)
{
    uint64_t now = conn->hub->loop.now;
    if (conn->write_at && conn->write_at <= now && !still_moving(conn))
        write_too_slow(conn);
    else if (!conn->phase_at || conn->phase_at > now)
        set_timer(conn);
    else if (conn->state == IOH__CONN_OPEN)
        conn->proto->timeout(conn);
    else
        linger_over(conn);
    if (conn->state != IOH__CONN_DEAD)
        ioh__conn_settle(conn);
}
