/* The turn (see turn.h; the phases are drawn in hub.h). The thread that holds the loop. */
#include "conn/turn.h"

#include <iohandler/ws.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "conn/acceptor.h"
#include "conn/conn.h"
#include "proto/http_date.h"

static ioh_conn *conn_of(struct ioh__chan *chan)
{
    return ioh__container(chan, ioh_conn, chan);
}

/* ---- mail */

static ioh_conn *find_conn(struct ioh__hub *hub, ioh_conn_id id)
{
    struct ioh__chan *chan =
        ioh__loop_find(&hub->loop, (uint32_t)id & (IOH__MAX_SLOTS - 1), (uint32_t)(id >> 32));
    return chan && chan->kind == IOH__CHAN_CONN ? conn_of(chan) : NULL;
}

/* Calls fn for every connection; fn may end it. */
static void for_each_conn(struct ioh__hub *hub, void (*fn)(struct ioh__hub *, ioh_conn *))
{
    for (uint32_t i = 0; i < hub->loop.slot_count; i++) {
        struct ioh__chan *chan = hub->loop.slots[i].chan;
        if (chan && chan->kind == IOH__CHAN_CONN)
            fn(hub, conn_of(chan));
    }
}

static void stop_one(struct ioh__hub *hub, ioh_conn *conn)
{
    (void)hub;
    if (conn->state <= IOH__CONN_OPEN)
        conn->proto->stop(conn);
}

static void cut_one(struct ioh__hub *hub, ioh_conn *conn)
{
    if (conn->state != IOH__CONN_LINGERING)
        hub->aborted++;
    ioh__conn_die(conn, IOH__END_LOCAL, true);
}

static void begin_stop(struct ioh__hub *hub, uint32_t drain_ms)
{
    hub->stopping = true;
    hub->drain_until = hub->loop.now + drain_ms;
    ioh__acceptors_stop(hub);
    for_each_conn(hub, stop_one);
}

static bool handle_run(struct ioh__hub *hub, const struct ioh__message *m, struct ioh__job *job)
{
    ioh_conn *conn = find_conn(hub, m->id);
    *job = (struct ioh__job){.kind = conn ? IOH__JOB_RUN : IOH__JOB_GONE,
                             .conn = conn,
                             .run = m->as.run.fn,
                             .gone = m->as.run.gone,
                             .user = m->as.run.user};
    return conn || job->gone;
}

static void handle_frame(struct ioh__hub *hub, const struct ioh__message *m)
{
    ioh_conn *conn = find_conn(hub, m->id);
    if (conn)
        ioh_ws_send_frame(conn, m->as.frame);
    else
        ioh_buf_unref(m->as.frame);
}

/* One message; true: it is a job. */
static bool handle_mail(struct ioh__hub *hub, struct ioh__job *job)
{
    struct ioh__message *m = ioh__container(hub->mail, struct ioh__message, mail);
    bool yields = false;
    hub->mail = hub->mail->next;
    switch (m->kind) {
    case IOH__MESSAGE_ACCEPTED:
        ioh__accepted(hub, m->as.accepted.fd, &m->as.accepted.peer, m->as.accepted.listener);
        break;
    case IOH__MESSAGE_RUN:
        yields = handle_run(hub, m, job);
        break;
    case IOH__MESSAGE_FRAME:
        handle_frame(hub, m);
        break;
    case IOH__MESSAGE_STOP:
        begin_stop(hub, m->as.drain_ms);
        break;
    }
    free(m);
    return yields;
}

/* ---- events */

/* Begins to feed what lies in the receive buffer; feed_current() goes on with it. */
static void begin_feed(struct ioh__hub *hub, ioh_conn *conn)
{
    conn->waiting = false;
    conn->held = false;
    hub->cur = conn;
}

static void conn_event(struct ioh__hub *hub, ioh_conn *conn, uint32_t events)
{
    bool broken = events & (EPOLLHUP | EPOLLERR);
    if (events & EPOLLOUT)
        conn->blocked = false; /* settle() tries again */
    if (conn->state == IOH__CONN_LINGERING) {
        ioh__conn_discard(conn);
    } else if ((events & EPOLLIN || broken) && !conn->peer_eof && ioh__conn_may_feed(conn)) {
        if (ioh__conn_read(conn)) {
            begin_feed(hub, conn);
            return;
        }
    } else if (broken) {
        /* Nothing may be read and nothing can be written: without an end it would be told again and
         * again (level-triggered HUP cannot be switched off). */
        ioh__conn_die(conn, IOH__END_PEER, false);
    } else if (events & EPOLLIN && conn->state == IOH__CONN_OPEN) {
        conn->waiting = conn->held = true;
    }
    ioh__conn_settle(conn);
}

static void handle_event(struct ioh__hub *hub, struct ioh__chan *chan, uint32_t events)
{
    switch ((enum ioh__chan_kind)chan->kind) {
    case IOH__CHAN_CONN:
        conn_event(hub, conn_of(chan), events);
        break;
    case IOH__CHAN_LISTENER:
        if (events & EPOLLHUP) /* shut down: the server is about to say stop */
            ioh__loop_unwatch(&hub->loop, chan);
        else
            ioh__accept_some(hub, ioh__container(chan, struct ioh__acceptor, chan));
        break;
    case IOH__CHAN_MAILBOX:
        ioh__mailbox_clear(&hub->loop.mailbox);
        break;
    }
}

/* Feeds the current connection on; true: a job. */
static bool feed_current(struct ioh__hub *hub, struct ioh__job *job)
{
    ioh_conn *conn = hub->cur;
    if (conn->state == IOH__CONN_OPEN) {
        size_t used = 0;
        enum ioh__feed got = conn->proto->feed(conn, hub->loop.rx + hub->rx_at,
                                               hub->rx_len - hub->rx_at, &used, job);
        hub->rx_at += used;
        if (got == IOH__FEED_JOB)
            return true;
        conn->waiting = got == IOH__FEED_WAIT;
    }
    hub->cur = NULL;
    ioh__conn_keep(conn, hub->loop.rx + hub->rx_at, hub->rx_len - hub->rx_at);
    ioh__conn_settle(conn);
    return false;
}

/* ---- work: connections that something was done to */

/* The last callbacks of a dead connection, then its end; true: a job. */
static bool bury(ioh_conn *conn, struct ioh__job *job)
{
    if (conn->proto->gone(conn, job))
        return true;
    bool opened = conn->opened;
    conn->opened = false;
    if (opened && conn->hub->handler->on_close) {
        *job = (struct ioh__job){.kind = IOH__JOB_CLOSE, .conn = conn};
        return true;
    }
    ioh__conn_free(conn);
    return false;
}

static bool open_new(ioh_conn *conn, struct ioh__job *job)
{
    if (conn->hub->handler->on_open) {
        *job = (struct ioh__job){.kind = IOH__JOB_OPEN, .conn = conn};
        return true;
    }
    conn->opened = true;
    conn->state = IOH__CONN_OPEN;
    ioh__conn_settle(conn);
    return false;
}

/* The first connection of work_now; true: a job. */
static bool work_one(struct ioh__hub *hub, struct ioh__job *job)
{
    ioh_conn *conn = ioh__container(hub->work_now.next, ioh_conn, work);
    if (conn->state == IOH__CONN_DEAD)
        return bury(conn, job); /* it stays first in the list until it is freed */
    ioh__list_remove(&conn->work);
    if (conn->state == IOH__CONN_NEW)
        return open_new(conn, job);
    if (conn->want_drain && conn->out.bytes <= hub->options->send_low) {
        conn->want_drain = false;
        if (hub->handler->on_drain && conn->state == IOH__CONN_OPEN) {
            *job = (struct ioh__job){.kind = IOH__JOB_DRAIN, .conn = conn};
            return true;
        }
    }
    if (conn->waiting && ioh__conn_may_feed(conn)) {
        ioh__conn_recall(conn);
        begin_feed(hub, conn);
    } else {
        ioh__conn_settle(conn);
    }
    return false;
}

/* What was touched so far is this turn's; what is touched from now on, the next one's: a connection
 * that keeps finding work cannot keep the others waiting. */
static void take_work(struct ioh__hub *hub)
{
    if (ioh__list_empty(&hub->work))
        return;
    hub->work_now = hub->work;
    hub->work_now.next->prev = hub->work_now.prev->next = &hub->work_now;
    ioh__list_init(&hub->work);
}

/* ---- waiting */

static void sooner(uint64_t now, uint64_t at, int *timeout)
{
    uint64_t wait = at > now ? at - now : 0;
    if (*timeout < 0 || wait < (uint64_t)*timeout)
        *timeout = (int)(wait < 60000 ? wait : 60000);
}

static void update_date(struct ioh__hub *hub)
{
    int64_t second = ioh__wall_seconds();
    if (second == hub->date_second)
        return;
    hub->date_second = second;
    ioh__http_date(second, hub->date + 6); /* behind "Date: " */
}

static void poll_once(struct ioh__hub *hub)
{
    int timeout = -1;
    if (hub->accepting_paused)
        sooner(hub->loop.now, hub->accept_again_at, &timeout);
    if (hub->stopping && !hub->cut)
        sooner(hub->loop.now, hub->drain_until, &timeout);
    if (!ioh__list_empty(&hub->work))
        timeout = 0;
    ioh__loop_poll(&hub->loop, timeout);
    update_date(hub);
    ioh__acceptors_resume(hub);
    hub->mail = ioh__mailbox_take(&hub->loop.mailbox);
}

/* A stopping hub before it waits: cut what the drain time did not end, and leave when all is gone. */
static void go_on_stopping(struct ioh__hub *hub)
{
    if (!hub->cut && hub->loop.now >= hub->drain_until) {
        hub->cut = true;
        for_each_conn(hub, cut_one);
    }
    if (atomic_load_explicit(&hub->loop.count.connections, memory_order_relaxed) == 0) {
        hub->mail = ioh__mailbox_close(&hub->loop.mailbox);
        hub->phase = IOH__PHASE_ENDED;
    }
}

bool ioh__turn_next(struct ioh__hub *hub, struct ioh__job *job)
{
    struct ioh__chan *chan;
    struct ioh__timer *timer;
    uint32_t events;
    for (;;) {
        if (hub->loop.log.count && ioh__log_take(&hub->loop.log, &hub->log_line)) {
            *job = (struct ioh__job){.kind = IOH__JOB_LOG,
                                     .code = hub->log_line.level,
                                     .data = hub->log_line.text};
            return true;
        }
        if (hub->cur) {
            if (feed_current(hub, job))
                return true;
            continue;
        }
        switch (hub->phase) {
        case IOH__PHASE_MAIL:
            if (!hub->mail)
                hub->phase = IOH__PHASE_EVENTS;
            else if (handle_mail(hub, job))
                return true;
            break;
        case IOH__PHASE_EVENTS:
            chan = ioh__loop_next(&hub->loop, &events);
            if (chan)
                handle_event(hub, chan, events);
            else
                hub->phase = IOH__PHASE_TIMERS;
            break;
        case IOH__PHASE_TIMERS:
            timer = ioh__wheel_expired(&hub->loop.wheel, hub->loop.now);
            if (timer) {
                ioh__conn_expired(ioh__container(timer, ioh_conn, timer));
            } else {
                take_work(hub);
                hub->phase = IOH__PHASE_WORK;
            }
            break;
        case IOH__PHASE_WORK:
            if (ioh__list_empty(&hub->work_now))
                hub->phase = IOH__PHASE_POLL;
            else if (work_one(hub, job))
                return true;
            break;
        case IOH__PHASE_POLL:
            if (hub->stopping)
                go_on_stopping(hub);
            if (hub->phase == IOH__PHASE_POLL) {
                poll_once(hub);
                hub->phase = IOH__PHASE_MAIL;
            }
            break;
        case IOH__PHASE_ENDED:
            if (!hub->mail)
                return false;
            if (handle_mail(hub, job))
                return true;
            break;
        }
    }
}

void ioh__turn_done(struct ioh__hub *hub, struct ioh__job *job)
{
    ioh_conn *conn = job->conn;
    (void)hub;
    if (!conn)
        return;
    switch (job->kind) {
    case IOH__JOB_OPEN:
        if (job->result == 0)
            conn->opened = true;
        else
            ioh__conn_die(conn, IOH__END_LOCAL, true);
        if (conn->state == IOH__CONN_NEW)
            conn->state = IOH__CONN_OPEN;
        ioh__conn_settle(conn);
        break;
    case IOH__JOB_DRAIN:
    case IOH__JOB_RUN:
        ioh__conn_settle(conn);
        break;
    default:
        if (conn->state == IOH__CONN_OPEN)
            conn->proto->done(conn, job);
        break;
    }
}
