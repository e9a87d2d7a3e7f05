/* The tree of topics (see topic_tree.h). */
#include "conn/topic_tree.h"

#include <iohandler/topic.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Where a level ends; *next: the level behind it, NULL if it is the last. */
static size_t level_len(const char *level, const char **next)
{
    const char *end = strchrnul(level, '/');
    *next = *end ? end + 1 : NULL;
    return (size_t)(end - level);
}

static bool level_is(const char *level, size_t len, char c)
{
    return len == 1 && *level == c;
}

bool ioh__topic_valid(const char *name, bool open)
{
    size_t all = name ? strnlen(name, IOH_TOPIC_MAX + 1) : 0;
    if (all == 0 || all > IOH_TOPIC_MAX)
        return false;
    for (const char *level = name, *next; level; level = next) {
        size_t len = level_len(level, &next);
        bool plain = !memchr(level, '+', len) && !memchr(level, '#', len);
        bool wild = level_is(level, len, '+') || (level_is(level, len, '#') && !next);
        if (!plain && !(open && wild))
            return false;
    }
    return true;
}

/* ---- children */

static int compare(const void *a, const void *b)
{
    const struct ioh__topic *x = a, *y = b;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return memcmp(x->level, y->level, x->len);
}

static struct ioh__topic *child(struct ioh__topic *at, const char *level, size_t len)
{
    if (level_is(level, len, '+'))
        return at->one;
    if (level_is(level, len, '#'))
        return at->rest;
    struct ioh__topic key = {.len = len, .level = level};
    void *node = tfind(&key, &at->others, compare);
    return node ? *(struct ioh__topic **)node : NULL;
}

static struct ioh__topic *make(struct ioh__topic *parent, const char *level, size_t len)
{
    struct ioh__topic *t = malloc(sizeof *t + len);
    if (!t)
        return NULL;
    memset(t, 0, sizeof *t);
    t->parent = parent;
    t->len = len;
    t->level = (char *)(t + 1);
    memcpy(t + 1, level, len);
    if (level_is(level, len, '+')) {
        parent->one = t;
    } else if (level_is(level, len, '#')) {
        parent->rest = t;
    } else if (!tsearch(t, &parent->others, compare)) {
        free(t);
        return NULL;
    }
    parent->refs++;
    return t;
}

/* ---- for others */

void ioh__topic_put(struct ioh__topic *t)
{
    while (--t->refs == 0 && t->parent) {
        struct ioh__topic *parent = t->parent;
        if (parent->one == t)
            parent->one = NULL;
        else if (parent->rest == t)
            parent->rest = NULL;
        else
            tdelete(t, &parent->others, compare);
        free(t->audiences);
        free(t);
        t = parent;
    }
}

static bool make_audiences(struct ioh__topic *t, unsigned count)
{
    if (t->audiences)
        return true;
    t->audiences = calloc(count, sizeof *t->audiences);
    for (unsigned i = 0; t->audiences && i < count; i++)
        ioh__list_init(&t->audiences[i].subs);
    return t->audiences != NULL;
}

struct ioh__topic *ioh__topic_get(struct ioh__topic *root, const char *name, unsigned audiences)
{
    struct ioh__topic *t = root;
    root->refs++;
    for (const char *level = name, *next; level; level = next) {
        size_t len = level_len(level, &next);
        struct ioh__topic *below = child(t, level, len);
        if (!below)
            below = make(t, level, len);
        if (below)
            below->refs++;
        ioh__topic_put(t); /* its child holds it now */
        if (!below)
            return NULL;
        t = below;
    }
    if (make_audiences(t, audiences))
        return t;
    ioh__topic_put(t);
    return NULL;
}

struct ioh__topic *ioh__topic_find(struct ioh__topic *root, const char *name)
{
    struct ioh__topic *t = root;
    for (const char *level = name, *next; level && t; level = next) {
        size_t len = level_len(level, &next);
        t = child(t, level, len);
    }
    return t;
}

struct search {
    void (*found)(struct ioh__topic *topic, void *arg);
    void *arg;
};

static void tell(const struct search *s, struct ioh__topic *t)
{
    if (t && t->subscribers)
        s->found(t, s->arg);
}

/* As deep as the name has levels, at most IOH_TOPIC_MAX + 1, and only where somebody is subscribed. */
static void walk(const struct search *s, struct ioh__topic *at, const char *level)
{
    const char *next;
    if (!level) {
        tell(s, at);
        tell(s, at->rest); /* MQTT 3.1.1, 4.7.1.2: also the level above '#' */
        return;
    }
    size_t len = level_len(level, &next);
    struct ioh__topic *below = child(at, level, len);
    if (below)
        walk(s, below, next);
    if (at->one)
        walk(s, at->one, next);
    tell(s, at->rest);
}

void ioh__topic_match(struct ioh__topic *root, const char *name,
                      void (*found)(struct ioh__topic *topic, void *arg), void *arg)
{
    const struct search s = {found, arg};
    walk(&s, root, name);
}
