/* Work for other threads (see work.h): sending jobs away and taking them back. The thread that holds the
 * loop. */
#include "conn/work.h"

#include <stdlib.h>
#include <string.h>

#include "conn/conn.h"
#include "conn/crew.h"
#include "conn/req.h"
#include "conn/turn.h"

/* ---- receive buffers */

static uint8_t *get_rx(struct ioh__hub *hub)
{
    for (size_t i = 0; i < sizeof hub->spare_rx / sizeof *hub->spare_rx; i++) {
        uint8_t *rx = hub->spare_rx[i];
        if (rx) {
            hub->spare_rx[i] = NULL;
            return rx;
        }
    }
    return malloc(IOH__RX_SIZE);
}

static void put_rx(struct ioh__hub *hub, uint8_t *rx)
{
    for (size_t i = 0; i < sizeof hub->spare_rx / sizeof *hub->spare_rx; i++) {
        if (!hub->spare_rx[i]) {
            hub->spare_rx[i] = rx;
            return;
        }
    }
    free(rx);
}

struct ioh__work *ioh__work_running(struct ioh__hub *hub)
{
    struct ioh__work *w = calloc(1, sizeof *w + sizeof hub->log_line.text);
    if (!w)
        return NULL;
    w->done.kind = IOH__MESSAGE_DONE;
    w->hub = hub;
    return w;
}

void ioh__work_park(struct ioh__hub *hub, struct ioh__work *w, bool taken)
{
    ioh_conn *conn = w->job.conn;
    hub->busy++;
    if (!conn)
        return;
    conn->busy = true;
    if (hub->cur != conn)
        return;
    ioh__hub_now(hub);
    hub->cur = NULL;
    conn->waiting = true;
    ioh__conn_keep(conn, hub->loop.rx + hub->rx_at, hub->rx_len - hub->rx_at);
    if (!taken)
        conn->proto->keep(conn);
    if (taken) { /* the new holder brought a buffer */
        uint8_t *fresh = w->rx;
        w->rx = hub->loop.rx;
        hub->loop.rx = fresh;
    }
    ioh__conn_settle(conn);
}

/* ---- away */

/* Which threads run this job; NULL: this one. */
static struct ioh__queue *queue_for(struct ioh__hub *hub, const struct ioh__job *job, bool *timed)
{
    *timed = false;
    if (!job->conn || job->kind == IOH__JOB_CLASSIFY)
        return NULL;
    if (job->conn->queue)
        return job->conn->queue;
    if (!hub->guarded || job->conn->stays || !ioh__crew_known_late(hub->crew, job))
        return NULL;
    *timed = true;
    return &hub->crew->pool->queue;
}

static bool in_rx(const struct ioh__hub *hub, const void *data)
{
    const uint8_t *at = data;
    return at >= hub->loop.rx && at < hub->loop.rx + IOH__RX_SIZE;
}

/* A work for the job, with what it reads; NULL: out of memory. */
static struct ioh__work *make_work(struct ioh__hub *hub, const struct ioh__job *job)
{
    bool moves = job->len && in_rx(hub, job->data);
    size_t copied = moves && job->len <= IOH__WORK_COPY_MAX ? job->len : 0;
    size_t block;
    struct ioh__work *w = ioh__mem_get(&hub->loop.mem, sizeof *w + copied, &block);
    uint8_t *fresh = NULL;
    if (w && moves && !copied) {
        fresh = get_rx(hub);
        if (!fresh) {
            ioh__mem_put(&hub->loop.mem, w, block);
            w = NULL;
        }
    }
    if (!w)
        return NULL;
    memset(w, 0, sizeof *w);
    w->done.kind = IOH__MESSAGE_DONE;
    w->job = *job;
    w->hub = hub;
    w->block = block;
    if (copied) {
        memcpy(w->data, job->data, copied);
        w->job.data = w->data;
    }
    if (fresh) { /* the bytes behind stay with the connection, the buffer goes with the job */
        ioh__conn_keep(job->conn, hub->loop.rx + hub->rx_at, hub->rx_len - hub->rx_at);
        hub->rx_at = hub->rx_len;
        job->conn->proto->keep(job->conn);
        w->rx = hub->loop.rx;
        hub->loop.rx = fresh;
    }
    return w;
}

/* Is it likely to be back in a moment? Not what was late lately, nor what has a pool of its own. */
static bool is_quick(const struct ioh__hub *hub, const struct ioh__work *w)
{
    const struct ioh_pool *pool = hub->crew->pool;
    return !w->timed && (w->queue == w->job.conn->own_queue || (pool && w->queue == &pool->queue));
}

bool ioh__work_away(struct ioh__hub *hub, struct ioh__work *running)
{
    struct ioh__job *job = &running->job;
    bool timed;
    if (job->kind == IOH__JOB_LOG) { /* the hub's line is about to be used again */
        memcpy(running->data, hub->log_line.text, sizeof hub->log_line.text);
        job->data = running->data;
    }
    struct ioh__queue *queue = queue_for(hub, job, &timed);
    if (!queue)
        return false;
    int key = timed ? ioh__crew_late_key(job) : -1;
    struct ioh__work *w = make_work(hub, job);
    if (!w) {
        ioh__log_add(&hub->loop.log, IOH_LOG_WARN, "out of memory: a callback runs on its loop");
        return false;
    }
    w->queue = queue;
    w->timed = timed;
    w->late_key = key;
    ioh__work_park(hub, w, false);
    if (hub->handoff_last)
        hub->handoff_last->next = w;
    else
        hub->handoff = w;
    hub->handoff_last = w;
    hub->awaited += is_quick(hub, w);
    return true;
}

/* ---- full */

static void forget(struct ioh__hub *hub, struct ioh__work *w)
{
    if (w->rx)
        put_rx(hub, w->rx);
    if (w->block)
        ioh__mem_put(&hub->loop.mem, w, w->block);
    else
        free(w);
}

void ioh__work_skipped(struct ioh__work *w)
{
    if (w->job.kind == IOH__JOB_REQUEST) { /* for the host it never was */
        w->job.req->called = false;
        w->job.conn->gone_due = false;
    }
    if (w->job.kind == IOH__JOB_WS_UPGRADE)
        w->job.result = 503;
}

/* The job will not run. */
static void cancel(struct ioh__hub *hub, struct ioh__work *w, bool reset)
{
    ioh_conn *conn = w->job.conn;
    hub->busy--;
    conn->busy = false;
    ioh__work_skipped(w);
    if (reset)
        ioh__conn_die(conn, IOH__END_LOCAL, true);
    else if (conn->state == IOH__CONN_OPEN)
        conn->proto->overloaded(conn);
    ioh__conn_touch(conn);
    forget(hub, w);
}

/* What its queue had no room for. Only what begins something can be refused; a callback in the middle or at the
 * end of it must run, and waits. */
static void found_full(struct ioh__hub *hub, struct ioh__work *w)
{
    int policy = hub->options->pool_full;
    bool begins = w->job.kind == IOH__JOB_REQUEST || w->job.kind == IOH__JOB_WS_UPGRADE;
    bool message = w->job.kind == IOH__JOB_WS_MESSAGE || w->job.kind == IOH__JOB_WS_PIECE;
    ioh__hub_hit(hub, IOH__LIMIT_POOL_QUEUE, &w->job.conn->peer, "the pool's queue is full");
    if (policy == IOH_FULL_DEFAULT)
        policy = begins ? IOH_FULL_REFUSE : IOH_FULL_WAIT;
    if (policy == IOH_FULL_REFUSE && (begins || message)) {
        cancel(hub, w, false);
        return;
    }
    if (policy == IOH_FULL_CLOSE && (begins || message || w->job.kind == IOH__JOB_BODY)) {
        cancel(hub, w, true);
        return;
    }
    struct ioh__work **end = &hub->stalled;
    while (*end)
        end = &(*end)->next;
    w->next = NULL;
    *end = w;
}

/* Puts a chain for one queue; what does not fit is answered to. */
static void put_chain(struct ioh__hub *hub, struct ioh__work *chain)
{
    struct ioh__queue *queue = chain->queue;
    for (struct ioh__work *w = chain; w; w = w->next)
        w->task.next = w->next ? &w->next->task : NULL;
    struct ioh__task *rest = ioh__queue_put(queue, &chain->task);
    while (rest) {
        struct ioh__work *w = ioh__container(rest, struct ioh__work, task);
        rest = rest->next;
        found_full(hub, w);
    }
}

static void put_all(struct ioh__hub *hub, struct ioh__work *list)
{
    while (list) {
        struct ioh__work *chain = list, *last = list;
        size_t count = 1;
        while (last->next && last->next->queue == chain->queue) {
            last = last->next;
            count++;
        }
        list = last->next;
        last->next = NULL;
        ioh__count(&hub->loop.count.pool_jobs, count);
        put_chain(hub, chain);
    }
}

void ioh__work_flush(struct ioh__hub *hub)
{
    struct ioh__work *list = hub->handoff;
    hub->handoff = hub->handoff_last = NULL;
    put_all(hub, list);
}

void ioh__work_retry(struct ioh__hub *hub)
{
    struct ioh__work *list = hub->stalled;
    hub->stalled = NULL;
    while (list) {
        struct ioh__work *w = list;
        list = w->next;
        w->next = NULL;
        w->task.next = NULL;
        if (ioh__queue_put(w->queue, &w->task)) {
            w->next = list;
            hub->stalled = w; /* still full: the others wait, too */
            return;
        }
    }
}

/* ---- back */

void ioh__work_done(struct ioh__hub *hub, struct ioh__work *w)
{
    ioh_conn *conn = w->job.conn;
    hub->busy--;
    if (conn) {
        conn->busy = false;
        if (w->timed && w->quick)
            ioh__crew_was_quick(hub->crew, conn, w->late_key);
        else if (w->timed)
            ioh__crew_was_late(hub->crew, conn, w->late_key);
        if (w->skipped)
            ioh__work_skipped(w);
        conn->proto->keep(conn); /* of a taken loop: the head may still lie in the old buffer */
        /* Closed by its callback, and nothing has come that says so: there was no memory for that, or for what was to
         * be sent. */
        if (conn->state <= IOH__CONN_OPEN &&
            atomic_load_explicit(&conn->face, memory_order_acquire) == IOH__FACE_OVER)
            ioh__conn_no_memory(conn);
        ioh__turn_done(hub, &w->job);
        ioh__conn_touch(conn);
    }
    forget(hub, w);
}
