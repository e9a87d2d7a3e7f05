/* The log of one loop: lines wait here until the top of the loop hands them to the host's on_log, so
 * that no code below ever calls the host. Bounded: what does not fit is counted and said later. Only
 * the thread that holds the loop touches it. */
#ifndef IOH_BASE_LOG_H
#define IOH_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define IOH__LOG_TEXT 224u /* longer lines are cut */
#define IOH__LOG_LINES 32u /* a turn that says more is a flood */

struct ioh__log_line {
    int level; /* IOH_LOG_... of iohandler/handler.h */
    char text[IOH__LOG_TEXT];
};

struct ioh__log {
    bool on; /* false: the host has no on_log, lines are dropped at once */
    uint32_t first, count;
    uint64_t lost;
    struct ioh__log_line line[IOH__LOG_LINES];
};

void ioh__log_add(struct ioh__log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Takes the oldest line; false when there is none. After lost lines comes one that counts them. */
bool ioh__log_take(struct ioh__log *log, struct ioh__log_line *line);

#endif
