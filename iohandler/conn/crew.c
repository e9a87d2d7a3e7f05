/* The crew (see crew.h): which thread runs which callback. Any thread, unless said otherwise. */
#include "conn/crew.h"

#include <iohandler/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "conn/conn.h"
#include "conn/single.h"

struct ioh_pool *ioh__pool_make(const struct ioh__crew *crew, const char *name, unsigned threads,
                                unsigned queue)
{
    struct ioh_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    ioh__queue_init(&pool->queue, queue, crew->cores);
    snprintf(pool->name, sizeof pool->name, "%s", name);
    pool->threads = threads;
    return pool;
}

static void free_pool(struct ioh_pool *pool)
{
    ioh__queue_destroy(&pool->queue);
    free(pool);
}

int ioh__crew_init(struct ioh__crew *crew, const struct ioh_options *o)
{
    pthread_condattr_t monotonic;
    memset(crew, 0, sizeof *crew);
    crew->options = o;
    crew->cores = ioh__cpu_count();
    ioh__gate_init(&crew->gate, o->max_connections, o->max_per_address);
    ioh__deflaters_init(&crew->deflaters, o->ws_deflate_window, (int)o->ws_deflate_level,
                        o->ws_deflate_min);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&crew->watcher_lock, NULL);
    pthread_cond_init(&crew->watcher_wake, &monotonic);
    pthread_mutex_init(&crew->wait_lock, NULL);
    pthread_cond_init(&crew->wait_change, &monotonic);
    pthread_mutex_init(&crew->single_lock, NULL);
    pthread_cond_init(&crew->single_ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    ioh__topics_init(&crew->topics);
    if (o->pool_threads) {
        crew->pool = ioh__pool_make(crew, "pool", o->pool_threads, o->pool_queue);
        if (!crew->pool)
            return IOH_ENOMEM;
    }
    if (o->work_op_threads) {
        crew->workers = calloc(o->work_op_threads, sizeof *crew->workers);
        if (!crew->workers)
            return IOH_ENOMEM;
        crew->worker_count = o->work_op_threads;
        for (unsigned i = 0; i < crew->worker_count; i++)
            ioh__queue_init(&crew->workers[i].queue, o->pool_queue, crew->cores);
    }
    return 0;
}

void ioh__crew_destroy(struct ioh__crew *crew)
{
    while (crew->named) {
        struct ioh_pool *pool = crew->named;
        crew->named = pool->next;
        free_pool(pool);
    }
    if (crew->pool)
        free_pool(crew->pool);
    for (unsigned i = 0; i < crew->worker_count; i++)
        ioh__queue_destroy(&crew->workers[i].queue);
    free(crew->workers);
    free(crew->looks);
    free(crew->singles);
    ioh__topics_destroy(&crew->topics);
    ioh__gate_destroy(&crew->gate);
    ioh__deflaters_destroy(&crew->deflaters);
    pthread_cond_destroy(&crew->single_ended);
    pthread_mutex_destroy(&crew->single_lock);
    pthread_cond_destroy(&crew->wait_change);
    pthread_mutex_destroy(&crew->wait_lock);
    pthread_cond_destroy(&crew->watcher_wake);
    pthread_mutex_destroy(&crew->watcher_lock);
}

/* ---- which queue; the thread that holds the loop */

static struct ioh__worker *worker_of(struct ioh__queue *queue)
{
    return ioh__container(queue, struct ioh__worker, queue);
}

struct ioh__queue *ioh__crew_affine(struct ioh__crew *crew, ioh_conn *conn)
{
    if (conn->own_queue || crew->worker_count == 0)
        return conn->own_queue;
    struct ioh__worker *best = &crew->workers[0];
    for (unsigned i = 1; i < crew->worker_count; i++)
        if (atomic_load_explicit(&crew->workers[i].load, memory_order_relaxed) <
            atomic_load_explicit(&best->load, memory_order_relaxed))
            best = &crew->workers[i];
    atomic_fetch_add_explicit(&best->load, 1, memory_order_relaxed);
    conn->own_queue = &best->queue;
    return conn->own_queue;
}

void ioh__crew_leave(struct ioh__crew *crew, ioh_conn *conn)
{
    (void)crew;
    if (conn->own_queue)
        atomic_fetch_sub_explicit(&worker_of(conn->own_queue)->load, 1, memory_order_relaxed);
}

struct ioh__queue *ioh__crew_queue(struct ioh__crew *crew, ioh_conn *conn)
{
    if (crew->options->type == IOH_THREADS)
        return NULL;
    if (crew->options->exec == IOH_EXEC_AFFINE)
        return ioh__crew_affine(crew, conn);
    return crew->options->exec == IOH_EXEC_POOL ? &crew->pool->queue : NULL;
}

void ioh__crew_reset(struct ioh__crew *crew, ioh_conn *conn)
{
    conn->classified = conn->stays = false;
    conn->queue = ioh__crew_queue(crew, conn);
}

void ioh__crew_route(struct ioh__crew *crew, ioh_conn *conn, const struct ioh_route *route)
{
    struct ioh_pool *pool = route->pool ? route->pool : crew->pool;
    if (crew->options->type == IOH_THREADS)
        return;
    conn->classified = true;
    conn->stays = false;
    switch (route->exec) {
    case IOH_EXEC_INLINE:
        conn->stays = true;
        conn->queue = NULL;
        return;
    case IOH_EXEC_POOL:
        if (pool) {
            conn->queue = &pool->queue;
            return;
        }
        break;
    case IOH_EXEC_AFFINE:
        if (crew->worker_count) {
            conn->queue = ioh__crew_affine(crew, conn);
            return;
        }
        break;
    case IOH_EXEC_AUTO:
        if (conn->hub->guarded) {
            conn->queue = NULL;
            return;
        }
        break;
    default:
        break;
    }
    ioh__log_add(&conn->hub->loop.log, IOH_LOG_WARN,
                 "on_classify chose exec %d, for which the server has no threads",
                 (int)route->exec);
    ioh__crew_reset(crew, conn);
}

/* ---- what was late lately; the thread that holds the loop */

/* FNV-1a over the callback and the path; at most its first 64 bytes. The callback, too: a quick on_complete says nothing
 * about on_request. */
static unsigned slot_of(const struct ioh__job *job, struct ioh_str path)
{
    uint32_t hash = 2166136261u ^ (uint32_t)job->kind;
    for (size_t i = 0; i < path.len && i < 64; i++)
        hash = (hash ^ (uint8_t)path.ptr[i]) * 16777619u;
    return (hash ^ hash >> 16) % IOH__LATE_SLOTS;
}

int ioh__crew_late_key(const struct ioh__job *job)
{
    struct ioh_str path = job->conn ? job->conn->proto->path(job->conn) : (struct ioh_str){NULL, 0};
    return path.len ? (int)slot_of(job, path) : -1;
}

bool ioh__crew_known_late(struct ioh__crew *crew, const struct ioh__job *job)
{
    if (!job->conn)
        return false;
    if (job->conn->late && (job->kind == IOH__JOB_WS_MESSAGE || job->kind == IOH__JOB_WS_PIECE))
        return true;
    if (atomic_load_explicit(&crew->late_known, memory_order_relaxed) == 0)
        return false;
    int key = ioh__crew_late_key(job);
    return key >= 0 && atomic_load_explicit(&crew->late_paths[key], memory_order_relaxed);
}

void ioh__crew_was_late(struct ioh__crew *crew, ioh_conn *conn, int key)
{
    if (key < 0) {
        conn->late = IOH__LATE_CALLS;
        return;
    }
    if (atomic_exchange_explicit(&crew->late_paths[key], IOH__LATE_CALLS, memory_order_relaxed) ==
        0)
        atomic_fetch_add_explicit(&crew->late_known, 1, memory_order_relaxed);
}

void ioh__crew_was_quick(struct ioh__crew *crew, ioh_conn *conn, int key)
{
    if (key < 0) {
        if (conn->late)
            conn->late = (conn->late - 1u) & 15u;
        return;
    }
    uint8_t calls = atomic_load_explicit(&crew->late_paths[key], memory_order_relaxed);
    if (calls &&
        atomic_compare_exchange_strong_explicit(&crew->late_paths[key], &calls,
                                                (uint8_t)(calls - 1), memory_order_relaxed,
                                                memory_order_relaxed) &&
        calls == 1)
        atomic_fetch_sub_explicit(&crew->late_known, 1, memory_order_relaxed);
}

/* ---- ioh_wait_sent() */

void ioh__crew_wake_waiters(struct ioh__crew *crew)
{
    /* A locked read: the queue's new size must be out before it is known that nobody waits. */
    if (atomic_fetch_or(&crew->waiters, 0) == 0)
        return;
    pthread_mutex_lock(&crew->wait_lock);
    pthread_cond_broadcast(&crew->wait_change);
    pthread_mutex_unlock(&crew->wait_lock);
}
