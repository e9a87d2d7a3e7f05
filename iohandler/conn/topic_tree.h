/* The tree of topics: who is subscribed to what, level by level.
 *
 *     (root) -- "prices" -- "eur"      subscribed as "prices/eur"
 *                   |------ "+"        "prices/+"
 *                   `------ "#"        "prices/#"
 *
 * A topic lives as long as it is referred to: by its children, subscriptions, and what is being delivered. It owns
 * nothing but its place. Not thread-safe, but for the counts; `subs` see topics.h.
 */
#ifndef IOH_CONN_TOPIC_TREE_H
#define IOH_CONN_TOPIC_TREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* What became of a message for one subscriber. */
enum ioh__fate {
    IOH__FATE_DELIVERED,
    IOH__FATE_SKIPPED,
    IOH__FATE_COALESCED,
    IOH__FATE_CLOSED,
    IOH__FATES,
};

/* The subscriptions of one loop's connections. */
struct ioh__audience {
    struct ioh__list subs;
    uint32_t interest; /* how many are in it, or on their way */
};

struct ioh__topic {
    struct ioh__topic *parent; /* NULL: the root */
    struct ioh__topic *one;    /* the child "+", */
    struct ioh__topic *rest;   /* "#", */
    void *others;              /* and all others: tsearch(3) */
    uint32_t refs;
    uint32_t subscribers; /* of all audiences */
    uint64_t published;
    _Atomic uint64_t fates[IOH__FATES]; /* any thread */
    struct ioh__audience *audiences;    /* one for each loop; NULL: nobody has subscribed here */
    size_t len;
    const char *level; /* behind the struct */
};

/* Is it a name? open: may it have '+' and '#'? */
bool ioh__topic_valid(const char *name, bool open);

/* The topic of a valid name, made if need be, with one reference more and its audiences; NULL: out of memory. */
struct ioh__topic *ioh__topic_get(struct ioh__topic *root, const char *name, unsigned audiences);

/* Or NULL when there is none. */
struct ioh__topic *ioh__topic_find(struct ioh__topic *root, const char *name);

/* One reference fewer. */
void ioh__topic_put(struct ioh__topic *topic);

/* Calls found() for each topic with subscribers that a valid name without '+' and '#' belongs to, the most exact
 * first. */
void ioh__topic_match(struct ioh__topic *root, const char *name,
                      void (*found)(struct ioh__topic *topic, void *arg), void *arg);

#endif
