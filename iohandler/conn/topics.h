/* Topics: subscriptions of connections, publications on their way to them (include/iohandler/topic.h).
 *
 *     ioh_publish() -- a delivery in the mailbox of each loop with subscribers
 *         -- the loop's pass (hub.h) goes along its own subscriptions, some in each turn -- out queues
 *
 * A loop's list of subscriptions is touched only by who holds it, so a pass takes no lock. Who is interested where,
 * and the tree, is under the registry's lock; so is the posting, hence all loops get publications in the same order.
 * Publications that come together for the same topics make one pass: a subscriber is visited once for all of them.
 *
 * IOH_THREADS: there is one list, and the accepting loop passes along it: it lays what is published into the
 * connections' `owed` and rings. Lists, members and what is owed are under the lock then.
 */
#ifndef IOH_CONN_TOPICS_H
#define IOH_CONN_TOPICS_H

#include <iohandler/topic.h>
#include <pthread.h>

#include "conn/message.h"
#include "conn/topic_tree.h"
#include "proto/ws_frame.h"

struct ioh__publication;

/* A publication for one loop. */
struct ioh__delivery {
    struct ioh__envelope head;
    struct ioh__publication *pub;
};

struct ioh__publication {
    _Atomic uint32_t refs; /* loops that have not passed it on, and what is owed */

    /* constant once it is posted */
    uint64_t serial;
    ioh_conn_id except;
    const char *name;
    size_t size;                             /* of the frame */
    uint8_t head[IOH__WS_SERVER_HEADER_MAX]; /* its header, */
    uint8_t head_len;                        /* 0: it stands in the body already */
    ioh_buf *body;
    struct ioh__topic **topics; /* it matches; NULL once it is passed on */
    unsigned topic_count, topic_room;
    struct ioh__topic *few[4]; /* where they lie if they fit */

    uint32_t loops_left; /* under the lock: that have not passed it on */
    struct ioh__delivery deliveries[];
};

/* One of a server, in its crew. */
struct ioh__topics {
    pthread_mutex_t lock; /* all below */
    struct ioh__topic root;
    uint64_t serial;  /* of the last publication */
    uint64_t backlog; /* bytes of publications that not all loops have passed on */
    _Atomic uint64_t subscriptions, published, fates[IOH__FATES]; /* read by any thread */
};

/* A publication that waits for room in a subscriber's queue (IOH_TOPIC_LATEST), or (IOH_THREADS) for its thread. */
struct ioh__owed;

/* A connection that is subscribed to something. */
struct ioh__member {
    ioh_conn *conn;
    ioh_conn_id id;
    struct ioh__sub *subs;
    uint64_t seen; /* the last publication it was visited for */
    struct ioh__owed *first, *last;
    size_t owed_bytes;
    unsigned owed_count;
    bool rung;     /* IOH_THREADS: its thread has been told to look */
    bool too_slow; /* IOH_THREADS: and to close it */
};

struct ioh__sub {
    struct ioh__list link; /* in its audience */
    struct ioh__sub *next; /* of the same member */
    struct ioh__member *member;
    struct ioh__hub *hub; /* the connection's */
    struct ioh__topic *topic;
    uint64_t since; /* what was published before is not for it */
    int32_t full;
};

void ioh__topics_init(struct ioh__topics *topics);
void ioh__topics_destroy(struct ioh__topics *topics);

/* ---- subscriptions (topics.c); the thread that holds the loop, unless said otherwise */

/* What IOH__MESSAGE_SUBSCRIBE and _UNSUBSCRIBE say. sub is consumed. 0, IOH_ESTATE, IOH_EGONE, IOH_ENOMEM. */
int ioh__topics_subscribe(ioh_conn *conn, struct ioh__sub *sub);
void ioh__topics_unsubscribe(ioh_conn *conn, struct ioh__topic *topic);

/* The connection may get no more messages: it is subscribed to nothing any more. */
void ioh__topics_leave(ioh_conn *conn);

/* Any thread: a subscription that never came to be. */
void ioh__sub_drop(struct ioh__sub *sub);

/* Any thread: gives back a message's reference to a topic. */
void ioh__topics_put(struct ioh__topics *topics, struct ioh__topic *topic);

/* What is owed for a subscription, or all of it (NULL), is forgotten. */
void ioh__owed_forget(struct ioh__member *member, const struct ioh__sub *sub);

/* ---- publications (topic_post.c); any thread */

/* The payload is consumed. NULL: out of memory. */
struct ioh__publication *ioh__publication_new(const char *name, int op, ioh_buf *payload,
                                              ioh_conn_id except, unsigned loops);

/* Posts it to the loops whose connections want it; it is consumed. 0, IOH_EFULL, IOH_ENOMEM. */
int ioh__topics_publish(struct ioh__topics *topics, struct ioh__hub *const *hubs, unsigned count,
                        struct ioh__publication *pub);

static inline struct ioh__publication *ioh__publication_ref(struct ioh__publication *pub)
{
    atomic_fetch_add_explicit(&pub->refs, 1, memory_order_relaxed);
    return pub;
}

void ioh__publication_unref(struct ioh__publication *pub);

/* What it counts as while it is on its way. */
static inline uint64_t ioh__publication_weight(const struct ioh__publication *pub)
{
    return pub->size + sizeof *pub;
}

/* All loops have passed it on. Under the lock. */
void ioh__publication_drop_topics(struct ioh__publication *pub);

/* ---- passes (topic_pass.c); the thread that holds the loop */

/* A delivery has come. */
void ioh__topics_take(struct ioh__hub *hub, struct ioh__delivery *delivery);

/* Goes on with what has come, for so many visits to subscribers; */
void ioh__topics_pass(struct ioh__hub *hub, size_t visits);

/* to the end. */
static inline void ioh__topics_finish(struct ioh__hub *hub)
{
    ioh__topics_pass(hub, SIZE_MAX);
}

/* The connection has room again, or (IOH_THREADS) something is owed to it. */
void ioh__topics_drain(ioh_conn *conn);

#endif
