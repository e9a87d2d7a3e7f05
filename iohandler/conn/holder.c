/* What the library's threads do (see holder.h). */
#include "conn/holder.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/share.h"
#include "conn/batch.h"
#include "conn/reach.h"
#include "conn/req.h"
#include "conn/turn.h"

static uint64_t now_us(void)
{
    return ioh__exact_ns() / 1000u;
}

__attribute__((noinline)) static void run_timed(struct ioh__hub *hub, struct ioh__job *job)
{
    uint64_t begin = ioh__exact_ns();
    ioh__job_run(job, hub->handler, hub->state);
    if (job->kind == IOH__JOB_REQUEST)
        job->req->times.called = begin;
    job->req->times.busy += ioh__exact_ns() - begin;
}

static inline void run_job(struct ioh__hub *hub, struct ioh__job *job)
{
    if (job->kind == IOH__JOB_WS_MESSAGE) /* of these there are most */
        hub->handler->on_ws_message(job->conn, job->code, job->data, job->len, hub->state);
    else if (ioh__timed(hub) && job->kind >= IOH__JOB_REQUEST && job->kind <= IOH__JOB_PULL)
        run_timed(hub, job);
    else
        ioh__job_run(job, hub->handler, hub->state);
}

/* The connection has ended while the job waited: what it is about can interest nobody any more. Callbacks that end
 * something always run. */
static bool is_pointless(const struct ioh__job *job)
{
    switch (job->kind) {
    case IOH__JOB_REQUEST:
    case IOH__JOB_BODY:
    case IOH__JOB_REQUEST_END:
    case IOH__JOB_PULL:
    case IOH__JOB_WS_UPGRADE:
    case IOH__JOB_WS_MESSAGE:
    case IOH__JOB_WS_PIECE:
    case IOH__JOB_WS_PING:
    case IOH__JOB_WS_PONG:
    case IOH__JOB_DRAIN:
        return atomic_load_explicit(&job->conn->face, memory_order_acquire) == IOH__FACE_OVER;
    default:
        return false;
    }
}

/* ---- holding a loop */

/* Runs the job under the watcher's eyes; false: it was late, and the loop is somebody else's now. */
static bool run_guarded(struct ioh__hub *hub, struct ioh__work *w)
{
    uint64_t ticket = ++hub->ticket;
    ioh__self.ticket = ticket;
    /* Before the watcher's sleep is looked at; sequentially consistent on both sides, so that one of the
     * two sees the other. */
    atomic_exchange(&hub->watch, ioh__watch_word(ticket, IOH__WATCH_CALLBACK));
    ioh__watch_wake(hub->crew);
    run_job(hub, &w->job);
    uint64_t mine = ioh__watch_word(ticket, IOH__WATCH_CALLBACK);
    if (atomic_compare_exchange_strong_explicit(&hub->watch, &mine,
                                                ioh__watch_word(ticket, IOH__WATCH_OUT),
                                                memory_order_acq_rel, memory_order_relaxed))
        return true;
    ioh__self.hub = NULL;
    ioh__mailbox_post(&hub->loop.mailbox, &w->done.mail); /* open as long as a job is out */
    return false;
}

/* Callbacks of which many may come together: the clock is read once for all of them, or where a deadline begins. */
static bool is_of_batch(const struct ioh__hub *hub, const struct ioh__job *job)
{
    const unsigned kinds =
        1u << IOH__JOB_WS_MESSAGE | 1u << IOH__JOB_REQUEST | 1u << IOH__JOB_COMPLETE;
    return hub->cur && kinds >> job->kind & 1;
}

/* false: the loop was lost. */
static bool run_here(struct ioh__hub *hub, struct ioh__work *w)
{
    /* The last messages of a hub that has ended have no connection, and nobody could take it over any more. */
    bool ended = hub->phase == IOH__PHASE_ENDED;
    ioh__self.hub = ended ? NULL : hub;
    if (hub->guarded && !ended && !run_guarded(hub, w))
        return false;
    if (!hub->guarded || ended)
        run_job(hub, &w->job);
    ioh__self.hub = NULL;
    /* Deadlines that begin now must not be short by what the callback took. */
    if (is_of_batch(hub, &w->job))
        hub->now_is_old = true;
    else
        hub->loop.now = ioh__now_ms();
    return true;
}

/* Is the drain time of a stop over? Asked before and after each callback. */
static bool late_stop(struct ioh__hub *hub)
{
    return atomic_load_explicit(&hub->crew->stop_at, memory_order_relaxed) &&
           ioh__turn_late_stop(hub);
}

/* The same, and then the messages that lie behind it. */
static bool run_messages(struct ioh__hub *hub, struct ioh__work *w)
{
    do {
        if (!run_here(hub, w))
            return false;
    } while (w->job.kind == IOH__JOB_WS_MESSAGE && hub->cur == w->job.conn && !late_stop(hub) &&
             ioh__ws_next(w->job.conn, &w->job));
    return true;
}

/* Is the job that follows there without the turn? Most often it is on_complete. */
static bool goes_on(struct ioh__hub *hub, struct ioh__job *job)
{
    return job->kind == IOH__JOB_REQUEST && hub->cur == job->conn && !hub->loop.log.count &&
           ioh__http1_next(job->conn, job);
}

bool ioh__hold(struct ioh__hub *hub)
{
    bool there = false;
    for (;;) {
        struct ioh__work *w = hub->running;
        if (!there && !ioh__turn_next(hub, &w->job))
            break;
        there = false;
        if (ioh__work_away(hub, w))
            continue;
        if (late_stop(hub) && is_pointless(&w->job))
            ioh__work_skipped(w);
        else if (!run_messages(hub, w))
            return false;
        there = goes_on(hub, &w->job);
        if (!there)
            ioh__turn_done(hub, &w->job);
    }
    return true;
}

bool ioh__step(struct ioh__hub *hub, int timeout_ms)
{
    hub->step_wait = timeout_ms;
    hub->step_over = false;
    if (hub->phase == IOH__PHASE_ENDED && !hub->mail)
        return false;
    ioh__mailbox_wake(&hub->loop.mailbox);
    ioh__hold(hub);
    if (hub->step_over)
        ioh__turn_expose(hub);
    return hub->step_over;
}

/* The loop of a late callback, at the moment it was taken: the connection waits for the callback, which
 * keeps the receive buffer it reads from. */
static void take_over(struct ioh__work *fresh)
{
    struct ioh__hub *hub = fresh->hub;
    struct ioh__work *late = hub->running;
    int key = ioh__crew_late_key(&late->job);
    late->rx = fresh->rx;
    fresh->rx = NULL;
    hub->running = fresh;
    fresh->take_over = false;
    if (late->job.conn)
        ioh__crew_was_late(hub->crew, late->job.conn, key);
    ioh__work_park(hub, late, true);
    ioh__batch_send(hub); /* has waited long enough */
}

/* ---- serving a queue */

static void run_work(struct ioh__work *w)
{
    struct ioh__hub *hub = w->hub;
    uint64_t begin = w->timed ? now_us() : 0;
    w->skipped = is_pointless(&w->job);
    if (!w->skipped)
        run_job(hub, &w->job);
    w->quick = w->timed && now_us() - begin < hub->options->handoff_us;
    ioh__mailbox_post(&hub->loop.mailbox, &w->done.mail);
}

/* What this thread wants of the cores: all that is its due while it holds a hub. */
struct shares {
    struct ioh__share full, less;
    bool differ, is_less;
};

static void begin_share(struct shares *s, unsigned nice)
{
    s->is_less = false;
    s->differ = nice && ioh__share_read(&s->full);
    if (s->differ)
        s->less = ioh__share_less(&s->full, nice);
}

/* A system call only where it changes. */
static void change_share(struct shares *s, bool less)
{
    if (!s->differ || s->is_less == less)
        return;
    s->is_less = less;
    ioh__share_take(less ? &s->less : &s->full);
}

void ioh__serve(struct ioh__queue *queue, unsigned nice, void (*hub_ended)(void *arg), void *arg)
{
    struct ioh__task *task;
    struct shares shares;
    begin_share(&shares, nice);
    while ((task = ioh__queue_pop(queue))) {
        struct ioh__work *w = ioh__container(task, struct ioh__work, task);
        change_share(&shares, !w->take_over);
        if (!w->take_over) {
            run_work(w);
            continue;
        }
        struct ioh__hub *hub = w->hub;
        take_over(w);
        if (ioh__hold(hub))
            hub_ended(arg);
    }
}
