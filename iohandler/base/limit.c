/* Limits that were hit (see limit.h). Any thread. */
#include "base/limit.h"

#include <inttypes.h>
#include <iohandler/handler.h>

struct known {
    const char *name;
    int level;
};

#define KNOWN(name, option, level) {option, level},
static const struct known known[IOH__LIMIT_KINDS] = {IOH__LIMITS(KNOWN)};
#undef KNOWN

const char *ioh__limit_name(enum ioh__limit kind)
{
    return known[kind].name;
}

int ioh__limit_level(enum ioh__limit kind)
{
    return known[kind].level;
}

/* Only one thread gets the line of a second. */
static bool claim(struct ioh__limit_kind *k, uint64_t now)
{
    uint64_t next = atomic_load_explicit(&k->next_at, memory_order_relaxed);
    uint64_t after = now < UINT64_MAX - IOH__LIMIT_LINE_MS ? now + IOH__LIMIT_LINE_MS : next;
    return now >= next &&
           atomic_compare_exchange_strong_explicit(&k->next_at, &next, after, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* The count goes first: whoever clears tail_at looks at the counts afterwards. */
static void leave_untold(struct ioh__limits *limits, struct ioh__limit_kind *k, uint64_t at)
{
    atomic_fetch_add(&k->untold, 1);
    if (atomic_load(&limits->tail_at) == 0)
        atomic_store(&limits->tail_at, at);
}

bool ioh__limit_pass(struct ioh__limits *limits, enum ioh__limit kind, uint64_t now,
                     uint64_t *untold)
{
    struct ioh__limit_kind *k = &limits->kind[kind];
    if (claim(k, now)) {
        *untold = atomic_exchange(&k->untold, 0);
        return true;
    }
    leave_untold(limits, k, atomic_load_explicit(&k->next_at, memory_order_relaxed));
    return false;
}

void ioh__limit_untold(struct ioh__limits *limits, enum ioh__limit kind, uint64_t now)
{
    leave_untold(limits, &limits->kind[kind], now + IOH__LIMIT_LINE_MS);
}

void ioh__limit_tails(struct ioh__limits *limits, struct ioh__log *log, uint64_t now)
{
    uint64_t at = atomic_load_explicit(&limits->tail_at, memory_order_relaxed), later = 0;
    if (at == 0 || now < at || !atomic_compare_exchange_strong(&limits->tail_at, &at, 0))
        return;
    for (int i = 0; i < IOH__LIMIT_KINDS; i++) {
        struct ioh__limit_kind *k = &limits->kind[i];
        if (atomic_load(&k->untold) == 0)
            continue;
        if (!claim(k, now)) {
            uint64_t next = atomic_load_explicit(&k->next_at, memory_order_relaxed);
            later = later && later < next ? later : next;
            continue;
        }
        uint64_t untold = atomic_exchange(&k->untold, 0);
        if (untold)
            ioh__log_add(log, known[i].level, "%s: hit %" PRIu64 " time%s more", known[i].name,
                         untold, untold == 1 ? "" : "s");
    }
    if (later)
        atomic_store(&limits->tail_at, later);
}
