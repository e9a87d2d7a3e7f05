/* Singles (see single.h). */
#include "conn/single.h"

#include <errno.h>
#include <iohandler/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conn/acceptor.h"
#include "conn/holder.h"
#include "conn/reach.h"

struct start {
    struct ioh__hub *hub;
    struct ioh__single_end *end;
    int fd, listener;
    struct ioh__peer peer;
};

/* ---- the list; under single_lock */

static bool enlist(struct ioh__crew *crew, struct ioh__hub *hub)
{
    uint32_t i = 0;
    while (i < crew->single_room && crew->singles[i].hub)
        i++;
    if (i == crew->single_room) {
        uint32_t room = i ? i * 2 : 64;
        struct ioh__single_slot *more = realloc(crew->singles, room * sizeof *more);
        if (!more)
            return false;
        memset(more + i, 0, (room - i) * sizeof *more);
        crew->singles = more;
        crew->single_room = room;
    }
    crew->singles[i].hub = hub;
    hub->number = i;
    hub->era = ++crew->singles[i].era;
    crew->single_count++;
    return true;
}

static void add_counters(struct ioh__counters *sum, const struct ioh__counters *c)
{
    _Atomic uint64_t *to = &sum->connections;
    const _Atomic uint64_t *from = &c->connections;
    size_t n =
        (offsetof(struct ioh__counters, limits) - offsetof(struct ioh__counters, connections)) /
            sizeof *to +
        IOH__LIMIT_KINDS;
    for (size_t i = 0; i < n; i++)
        ioh__count(&to[i], atomic_load_explicit(&from[i], memory_order_relaxed));
}

static void strike(struct ioh__crew *crew, struct ioh__hub *hub)
{
    pthread_mutex_lock(&crew->single_lock);
    crew->singles[hub->number].hub = NULL;
    crew->singles_aborted += hub->aborted;
    add_counters(&crew->retired, &hub->loop.count);
    pthread_mutex_unlock(&crew->single_lock);
}

/* ---- the thread */

static void free_hub(struct ioh__hub *hub)
{
    ioh__hub_destroy(hub);
    free(hub);
}

/* The thread's last word: from here on it only has to be joined. NULL: it never ran. */
static void ended(struct ioh__crew *crew, struct ioh__single_end *end)
{
    pthread_mutex_lock(&crew->single_lock);
    if (end) {
        end->thread = pthread_self();
        end->next = crew->single_ends;
        crew->single_ends = end;
    }
    crew->single_count--;
    pthread_cond_broadcast(&crew->single_ended);
    pthread_mutex_unlock(&crew->single_lock);
}

/* Joins those that have ended, so that nothing of them is left: thread-local destructors have run, too. */
static void join_ended(struct ioh__crew *crew)
{
    pthread_mutex_lock(&crew->single_lock);
    struct ioh__single_end *end = crew->single_ends;
    crew->single_ends = NULL;
    pthread_mutex_unlock(&crew->single_lock);
    while (end) {
        struct ioh__single_end *next = end->next;
        pthread_join(end->thread, NULL);
        free(end);
        end = next;
    }
}

static void *run(void *arg)
{
    struct start start = *(struct start *)arg;
    struct ioh__hub *hub = start.hub;
    struct ioh__crew *crew = hub->crew;
    const struct ioh_handler *handler = hub->handler;
    void *state = hub->state;
    free(arg);
    char name[16];
    ioh__self.server = hub->server;
    snprintf(name, sizeof name, "ioh-conn-%u", hub->number % 1000000);
    pthread_setname_np(pthread_self(), name);
    if (handler->on_thread_start)
        handler->on_thread_start(state);
    hub->served = true; /* also when the connection cannot be made */
    ioh__accepted(hub, start.fd, &start.peer, start.listener);
    ioh__hold(hub);
    strike(crew, hub);
    if (handler->on_thread_stop)
        handler->on_thread_stop(state);
    free_hub(hub);
    ended(crew, start.end);
    return NULL;
}

static struct ioh__hub *make_hub(const struct ioh__hub *like)
{
    struct ioh__hub *hub = aligned_alloc(_Alignof(struct ioh__hub), sizeof *hub);
    if (!hub)
        return NULL;
    memset(hub, 0, sizeof *hub);
    hub->single = true;
    hub->handler = like->handler;
    hub->state = like->state;
    hub->options = like->options;
    hub->server = like->server;
    hub->crew = like->crew;
    hub->compress = like->compress;
    hub->pass = like->pass;
    hub->load = 1;
    if (ioh__hub_init(hub, 0) == 0)
        return hub;
    free_hub(hub);
    return NULL;
}

static bool start_thread(struct start *start)
{
    pthread_t id;
    return pthread_create(&id, NULL, run, start) == 0;
}

int ioh__single_prepare(struct ioh__hub *acceptor)
{
    errno = ENOMEM;
    if (!acceptor->next_single)
        acceptor->next_single = make_hub(acceptor);
    return acceptor->next_single ? 0 : errno;
}

void ioh__single_unprepare(struct ioh__hub *acceptor)
{
    if (acceptor->next_single)
        free_hub(acceptor->next_single);
    acceptor->next_single = NULL;
}

void ioh__single_start(struct ioh__hub *acceptor, int fd, const struct ioh__peer *peer,
                       int listener)
{
    struct ioh__crew *crew = acceptor->crew;
    struct ioh__hub *hub = acceptor->next_single;
    struct start *start = malloc(sizeof *start);
    struct ioh__single_end *end = malloc(sizeof *end);
    bool listed = false;
    join_ended(crew);
    pthread_mutex_lock(&crew->single_lock);
    if (start && end)
        listed = enlist(crew, hub);
    pthread_mutex_unlock(&crew->single_lock);
    if (listed) {
        *start =
            (struct start){.hub = hub, .end = end, .fd = fd, .listener = listener, .peer = *peer};
        acceptor->next_single = NULL;
        if (start_thread(start))
            return;
        strike(crew, hub);
        free_hub(hub);
        ended(crew, NULL);
    }
    ioh__log_add(&acceptor->loop.log, IOH_LOG_WARN, "no thread for a connection: it is closed");
    free(start);
    free(end);
    ioh__accept_undo(crew, fd, peer);
}

/* ---- from outside */

int ioh__single_give(struct ioh__crew *crew, struct ioh__message *m)
{
    uint32_t number = (uint32_t)m->id, era = (uint32_t)(m->id >> 32);
    int rc = IOH_EGONE;
    pthread_mutex_lock(&crew->single_lock);
    struct ioh__single_slot *slot = number < crew->single_room ? &crew->singles[number] : NULL;
    bool there = slot && slot->hub && slot->era == era;
    if (there &&
        m->head.kind == IOH__MESSAGE_ABORT) /* also for a callback that waits (ioh_wait_sent) */
        atomic_store_explicit(&slot->hub->aborting, true, memory_order_relaxed);
    if (there)
        rc = ioh__message_give(slot->hub, m);
    pthread_mutex_unlock(&crew->single_lock);
    if (!there)
        ioh__message_free(m);
    return rc;
}

void ioh__singles_stop(struct ioh__crew *crew, uint32_t drain_ms)
{
    pthread_mutex_lock(&crew->single_lock);
    for (uint32_t i = 0; i < crew->single_room; i++)
        if (crew->singles[i].hub)
            ioh__hub_stop(crew->singles[i].hub, drain_ms);
    pthread_mutex_unlock(&crew->single_lock);
}

bool ioh__singles_wait(struct ioh__crew *crew, const struct timespec *until)
{
    int rc = 0;
    pthread_mutex_lock(&crew->single_lock);
    while (crew->single_count && rc == 0)
        rc = until ? pthread_cond_timedwait(&crew->single_ended, &crew->single_lock, until)
                   : pthread_cond_wait(&crew->single_ended, &crew->single_lock);
    bool none = crew->single_count == 0;
    pthread_mutex_unlock(&crew->single_lock);
    join_ended(crew);
    return none;
}

uint32_t ioh__singles_count(struct ioh__crew *crew,
                            void (*add)(void *sum, const struct ioh__counters *c), void *sum)
{
    pthread_mutex_lock(&crew->single_lock);
    uint32_t count = crew->single_count;
    if (add) {
        add(sum, &crew->retired);
        for (uint32_t i = 0; i < crew->single_room; i++)
            if (crew->singles[i].hub)
                add(sum, &crew->singles[i].hub->loop.count);
    }
    pthread_mutex_unlock(&crew->single_lock);
    return count;
}
