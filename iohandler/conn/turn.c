/* The turn (see turn.h; the phases are drawn in hub.h). The thread that holds the loop. */
#include "conn/turn.h"

#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "conn/acceptor.h"
#include "conn/batch.h"
#include "conn/crew.h"
#include "conn/conn.h"
#include "conn/topics.h"
#include "conn/work.h"
#include "proto/http_date.h"

#define TOPIC_VISITS 256 /* subscribers a turn: half a millisecond, then the others have theirs */
#define AWAIT_ROUNDS 16  /* some 5 us when nobody else wants the core */
/* Whoever computes keeps the core until the kernel's slice or tick is over, 1 to 4 ms, and all of them do so in turn.
 * A yield longer than callbacks that are quick can take is taken for that, and there are none for a while. */
#define AWAIT_NS 1000000u
#define AWAIT_EACH_NS 20000u
#define AWAIT_PAUSE_MS 1000u
#define STALL_RETRY_MS 1u /* with a full queue this often; nothing tells when there is room */

static ioh_conn *conn_of(struct ioh__chan *chan)
{
    return ioh__container(chan, ioh_conn, chan);
}

/* ---- stopping */

/* Calls fn for every connection; fn may end it. */
static void for_each_conn(struct ioh__hub *hub, void (*fn)(struct ioh__hub *, ioh_conn *))
{
    for (uint32_t i = 0; i < hub->loop.slot_count; i++) {
        struct ioh__chan *chan = hub->loop.slots[i].chan;
        if (chan && chan->kind == IOH__CHAN_CONN)
            fn(hub, conn_of(chan));
    }
}

static bool is_stopping(const struct ioh__hub *hub)
{
    return atomic_load_explicit(&hub->stopping, memory_order_relaxed);
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

/* Ends what the drain time did not end. */
static void cut(struct ioh__hub *hub)
{
    hub->cut = true;
    if (hub->busy)
        ioh__log_add(&hub->loop.log, IOH_LOG_WARN,
                     "stop: %u callbacks have not returned, their connections are aborted",
                     hub->busy);
    for_each_conn(hub, cut_one);
}

bool ioh__turn_late_stop(struct ioh__hub *hub)
{
    uint64_t at = atomic_load_explicit(&hub->crew->stop_at, memory_order_relaxed);
    if (at == 0)
        return false;
    if (!hub->cut && ioh__now_ms() >= at) {
        atomic_store_explicit(&hub->stopping, true, memory_order_relaxed);
        ioh__acceptors_stop(hub);
        cut(hub);
    }
    return true;
}

void ioh__turn_stop(struct ioh__hub *hub, uint32_t drain_ms)
{
    atomic_store_explicit(&hub->stopping, true, memory_order_relaxed);
    hub->drain_until = hub->loop.now + drain_ms;
    ioh__acceptors_stop(hub);
    ioh__topics_finish(hub); /* what was published before gets there */
    for_each_conn(hub, stop_one);
}

/* One message; true: it is a job. */
static bool handle_mail(struct ioh__hub *hub, struct ioh__job *job)
{
    struct ioh__mail *mail = hub->mail;
    hub->mail = mail->next;
    return ioh__mail_handle(hub, mail, job);
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
    if (events & EPOLLRDHUP && !ioh__conn_may_read(conn))
        ioh__conn_peer_left(conn);
    if (events & EPOLLOUT)
        conn->blocked = false; /* settle() tries again */
    if (conn->state == IOH__CONN_LINGERING) {
        ioh__conn_discard(conn);
    } else if ((events & EPOLLIN || broken) && !conn->peer_eof && ioh__conn_may_read(conn)) {
        if (conn->waiting) { /* what was read before comes first; this event will come again */
            ioh__conn_recall(conn);
            begin_feed(hub, conn);
            return;
        }
        if (ioh__conn_read(conn)) {
            begin_feed(hub, conn);
            return;
        }
    } else if (broken) {
        /* Nothing may be read and nothing can be written: without an end it would be told again and
         * again (level-triggered HUP cannot be switched off). */
        ioh__conn_die(conn, IOH__END_PEER, false);
    } else if (events & EPOLLIN && conn->state == IOH__CONN_OPEN) {
        conn->held = true;
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
        if (hub->single) /* poll(2) has no edges */
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
    ioh__hub_now(hub);
    hub->cur = NULL;
    conn->proto->keep(conn);
    ioh__conn_keep(conn, hub->loop.rx + hub->rx_at, hub->rx_len - hub->rx_at);
    ioh__batch_add(hub, conn);
    return false;
}

/* ---- work: connections that something was done to */

/* An ioh_run_on() that waited for another callback of the connection to end; gone: for the connection. */
static bool next_run(ioh_conn *conn, bool gone, struct ioh__job *job)
{
    while (conn->runs) {
        struct ioh__message *m = conn->runs;
        conn->runs = (struct ioh__message *)m->head.mail.next;
        *job = (struct ioh__job){.kind = gone ? IOH__JOB_GONE : IOH__JOB_RUN,
                                 .conn = conn,
                                 .run = m->as.run.fn,
                                 .gone = m->as.run.gone,
                                 .user = m->as.run.user};
        free(m);
        if (!gone || job->gone)
            return true;
    }
    return false;
}

static bool peer_gone_due(ioh_conn *conn, struct ioh__job *job)
{
    bool due = conn->gone_due && conn->opened;
    conn->gone_due = false;
    *job = (struct ioh__job){.kind = IOH__JOB_PEER_GONE, .conn = conn};
    return due;
}

/* The last callbacks of a dead connection, then its end; true: a job, after which it comes here again. */
static bool bury(ioh_conn *conn, struct ioh__job *job)
{
    if (peer_gone_due(conn, job) || conn->proto->gone(conn, job) || next_run(conn, true, job))
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
    ioh__list_remove(&conn->work);
    if (conn->busy) { /* its callback runs elsewhere; when that is back, it is touched again */
        ioh__conn_settle(conn);
        return false;
    }
    if (conn->state == IOH__CONN_DEAD)
        return bury(conn, job);
    if (conn->state == IOH__CONN_NEW)
        return open_new(conn, job);
    if (peer_gone_due(conn, job) || next_run(conn, false, job))
        return true;
    if (conn->want_drain && conn->out.bytes <= hub->options->send_low) {
        conn->want_drain = false;
        if (hub->handler->on_drain && conn->state == IOH__CONN_OPEN) {
            *job = (struct ioh__job){.kind = IOH__JOB_DRAIN, .conn = conn};
            return true;
        }
    }
    if (conn->pulled && ioh__http1_pull_due(conn)) {
        ioh__http1_pull(conn, job);
        return true;
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
    struct ioh__list *now = &hub->work_now, *more = &hub->work;
    if (ioh__list_empty(more))
        return;
    more->next->prev = now->prev;
    now->prev->next = more->next;
    more->prev->next = now;
    now->prev = more->prev;
    ioh__list_init(more);
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

/* Most callbacks are back within microseconds: before the loop sleeps, it lets the threads run that have them, so that
 * many come back at once and none has to wake it. */
static void await_work(struct ioh__hub *hub)
{
    uint64_t longest = AWAIT_NS + (uint64_t)hub->awaited * AWAIT_EACH_NS;
    hub->awaited = 0;
    if (hub->loop.now < hub->await_from_ms)
        return;
    uint64_t begin = ioh__exact_ns();
    for (int i = 0; i < AWAIT_ROUNDS && !ioh__mailbox_any(&hub->loop.mailbox); i++) {
        sched_yield();
        if (ioh__exact_ns() - begin > longest) {
            hub->await_from_ms = hub->loop.now + AWAIT_PAUSE_MS;
            return;
        }
    }
}

static void poll_once(struct ioh__hub *hub)
{
    int timeout = hub->stepping ? hub->step_wait : -1;
    if (hub->accepting_paused)
        sooner(hub->loop.now, hub->accept_again_at, &timeout);
    if (is_stopping(hub) && !hub->cut)
        sooner(hub->loop.now, hub->drain_until, &timeout);
    if (hub->stalled)
        sooner(hub->loop.now, hub->loop.now + STALL_RETRY_MS, &timeout);
    uint64_t tail_at = atomic_load_explicit(&hub->crew->limits.tail_at, memory_order_relaxed);
    if (tail_at && !hub->single)
        sooner(hub->loop.now, tail_at, &timeout);
    if (!ioh__list_empty(&hub->work) || hub->own_pass.first)
        timeout = 0;
    if (timeout != 0 && hub->awaited && !hub->stepping)
        await_work(hub);
    ioh__loop_poll(&hub->loop, timeout);
    ioh__batch_tune(hub);
    update_date(hub);
    ioh__acceptors_resume(hub);
    ioh__work_retry(hub);
    hub->mail = ioh__mailbox_take(&hub->loop.mailbox);
}

static bool is_empty(const struct ioh__hub *hub)
{
    return hub->busy == 0 &&
           atomic_load_explicit(&hub->loop.count.connections, memory_order_relaxed) == 0;
}

/* A stopping hub before it waits: leave when all is gone. */
static void go_on_stopping(struct ioh__hub *hub)
{
    if (is_stopping(hub) && !hub->cut && hub->loop.now >= hub->drain_until)
        cut(hub);
    if (is_empty(hub) && (is_stopping(hub) || (hub->single && hub->served))) {
        hub->mail = ioh__mailbox_close(&hub->loop.mailbox);
        hub->phase = IOH__PHASE_ENDED;
        if (!hub->single) /* there may be no later */
            ioh__limit_tails(&hub->crew->limits, &hub->loop.log, UINT64_MAX);
    }
}

/* AUTO: late callbacks that nobody could take over from; said once a second at most. */
static void log_stalls(struct ioh__hub *hub)
{
    uint64_t stalled = atomic_load_explicit(&hub->crew->stalled, memory_order_relaxed);
    if (stalled == hub->stalls_logged || hub->loop.index != 0 ||
        hub->loop.now < hub->stall_logged_at + 1000)
        return;
    ioh__log_add(&hub->loop.log, IOH_LOG_WARN,
                 "no pool thread was left for %llu late callbacks: their loops had to wait",
                 (unsigned long long)(stalled - hub->stalls_logged));
    hub->stalls_logged = stalled;
    hub->stall_logged_at = hub->loop.now;
}

/* Between two turns; false: turn_next() is to return. */
static bool between_turns(struct ioh__hub *hub)
{
    go_on_stopping(hub);
    if (hub->phase == IOH__PHASE_ENDED)
        return true;
    if (hub->guarded)
        log_stalls(hub);
    if (!hub->single)
        ioh__limit_tails(&hub->crew->limits, &hub->loop.log, hub->loop.now);
    if (hub->loop.log.count) /* before it sleeps */
        return true;
    if (hub->stepping && hub->step_over)
        return false;
    poll_once(hub);
    hub->step_over = true;
    hub->phase = IOH__PHASE_MAIL;
    return true;
}

bool ioh__turn_next(struct ioh__hub *hub, struct ioh__job *job)
{
    struct ioh__chan *chan;
    struct ioh__timer *timer;
    uint32_t events;
    for (;;) {
        if (hub->loop.log.count && ioh__log_take(&hub->loop.log, &hub->log_line)) {
            *job = (struct ioh__job){
                .kind = IOH__JOB_LOG, .code = hub->log_line.level, .data = hub->log_line.text};
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
            if (chan) {
                handle_event(hub, chan, events);
            } else {
                ioh__batch_send(hub);
                ioh__work_flush(hub);
                hub->phase = IOH__PHASE_TIMERS;
            }
            break;
        case IOH__PHASE_TIMERS:
            timer = ioh__wheel_expired(&hub->loop.wheel, hub->loop.now);
            if (timer) {
                ioh__conn_expired(ioh__container(timer, ioh_conn, timer));
            } else {
                if (hub->own_pass.first)
                    ioh__topics_pass(hub, TOPIC_VISITS);
                take_work(hub);
                hub->phase = IOH__PHASE_WORK;
            }
            break;
        case IOH__PHASE_WORK:
            if (!ioh__list_empty(&hub->work_now)) {
                if (work_one(hub, job))
                    return true;
            } else {
                ioh__batch_send(hub);
                ioh__work_flush(hub);
                hub->phase = IOH__PHASE_POLL;
            }
            break;
        case IOH__PHASE_POLL:
            if (!between_turns(hub))
                return false;
            break;
        case IOH__PHASE_ENDED:
            hub->step_over = false;
            if (!hub->mail) {
                ioh__topics_finish(hub); /* of the connections' threads, some may still be there */
                return false;
            }
            if (handle_mail(hub, job))
                return true;
            break;
        }
    }
}

void ioh__turn_expose(struct ioh__hub *hub)
{
    bool more = !ioh__list_empty(&hub->work) || hub->stalled || hub->mail || hub->own_pass.first;
    if (!ioh__mailbox_sleep(&hub->loop.mailbox) || more)
        ioh__mailbox_ring(&hub->loop.mailbox);
}

/* The outcome of a callback that came from somewhere else than feed(). */
static void done_beside(ioh_conn *conn, struct ioh__job *job)
{
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
    case IOH__JOB_PULL:
        conn->proto->done(conn, job);
        ioh__conn_settle(conn);
        break;
    case IOH__JOB_DRAIN:
    case IOH__JOB_RUN:
    case IOH__JOB_PEER_GONE:
        ioh__conn_settle(conn);
        ioh__conn_touch(conn); /* there may be more of them */
        break;
    default:
        break;
    }
}

void ioh__turn_done(struct ioh__hub *hub, struct ioh__job *job)
{
    ioh_conn *conn = job->conn;
    if (!conn)
        return;
    const unsigned beside = 1u << IOH__JOB_OPEN | 1u << IOH__JOB_PULL | 1u << IOH__JOB_DRAIN |
                            1u << IOH__JOB_RUN | 1u << IOH__JOB_PEER_GONE;
    if (beside >> job->kind & 1) {
        done_beside(conn, job);
    } else {
        conn->corked = false;
        if (conn->state == IOH__CONN_OPEN && conn->proto->done)
            conn->proto->done(conn, job);
    }
    if (conn->state == IOH__CONN_DEAD && hub->cur != conn) {
        /* Its next callback comes in this turn, if its connections are still being looked at. */
        ioh__list_remove(&conn->work);
        ioh__list_append(&hub->work_now, &conn->work);
    }
}
