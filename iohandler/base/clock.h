/* Clocks. Deadlines use the coarse one: a read costs about 3 ns instead of 80 and is at most one
 * kernel tick (1 to 10 ms) late, which no deadline notices. */
#ifndef IOH_BASE_CLOCK_H
#define IOH_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ioh__now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* To be exact, in nanoseconds, of the same clock. */
static inline uint64_t ioh__exact_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The moment so many microseconds from now, for pthread_cond_timedwait() with a condition on that clock. */
static inline struct timespec ioh__moment_in(uint64_t us)
{
    uint64_t at = ioh__exact_ns() + us * 1000u;
    return (struct timespec){.tv_sec = (time_t)(at / 1000000000u),
                             .tv_nsec = (long)(at % 1000000000u)};
}

/* Wall clock, in seconds: for the Date field. */
static inline int64_t ioh__wall_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME_COARSE, &t);
    return (int64_t)t.tv_sec;
}

#endif
