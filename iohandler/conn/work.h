/* Work: a job on its way to a thread that does not hold the loop, and back.
 *
 * Made by the hub, run by one thread, given back to the hub by mailbox: so its memory goes home. What
 * the callback reads goes with it: a small piece as a copy behind the struct, a large one with the
 * whole receive buffer, which then belongs to the work and not to the loop.
 */
#ifndef IOH_CONN_WORK_H
#define IOH_CONN_WORK_H

#include "conn/message.h"

#define IOH__WORK_COPY_MAX 4096u /* copying so much costs less than changing the receive buffer */

struct ioh__work {
    struct ioh__task task; /* first: queues hand it out */
    struct ioh__envelope done;
    struct ioh__job job;
    struct ioh__hub *hub;
    struct ioh__queue *queue; /* where it is to run */
    struct ioh__work *next;   /* in hub->handoff */
    uint8_t *rx;              /* the receive buffer it took along; NULL: none */
    size_t block;             /* of the hub's memory; 0: malloc's */
    bool take_over;           /* not a job: take hub's loop over from a late callback */
    bool skipped;             /* its connection had ended, the callback did not run */
    bool timed, quick; /* AUTO sent it to the pool for being late lately; it was not, this time */
    int late_key;      /* ioh__crew_late_key() */
    _Alignas(16) char data[]; /* what the callback reads */
};

/* A work for jobs to run in where the loop is held: with room for a line of the log. malloc's; NULL: out of
 * memory. */
struct ioh__work *ioh__work_running(struct ioh__hub *hub);

/* Does the job run elsewhere? Then it has been put on its way, and its connection waits for it. false:
 * the caller runs it. */
bool ioh__work_away(struct ioh__hub *hub, struct ioh__work *running);

/* Hands over what this batch made. */
void ioh__work_flush(struct ioh__hub *hub);

/* Tries again with what found its queue full. */
void ioh__work_retry(struct ioh__hub *hub);

/* Its callback did not run: what would have followed from it does not follow. */
void ioh__work_skipped(struct ioh__work *work);

/* It came back. */
void ioh__work_done(struct ioh__hub *hub, struct ioh__work *work);

/* The job's connection is not the loop's to feed until the work is done: its unread bytes are kept. taken:
 * the callback still reads from the receive buffer, which goes with it. */
void ioh__work_park(struct ioh__hub *hub, struct ioh__work *work, bool taken);

#endif
