/* A mailbox: any thread posts to the thread that holds a loop. An MPSC list and an eventfd that is
 * written only if the loop sleeps and nobody has woken it already.
 *
 *     AWAKE ---sleep()---> SLEEPING ---post(), writes the eventfd---> AWAKE
 *                              +------wake()------------------------> AWAKE
 *
 * sleep() answers false when mail is there, and leaves AWAKE.
 *
 * A closed mailbox takes nothing: post() answers false and the sender keeps the mail.
 */
#ifndef IOH_BASE_MAILBOX_H
#define IOH_BASE_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* The head of every message; the message's owner embeds it first. */
struct ioh__mail {
    struct ioh__mail *next;
};

struct ioh__mailbox {
    _Atomic(struct ioh__mail *) last; /* newest first */
    _Atomic int state;                /* AWAKE 0, SLEEPING */
    int fd;                           /* the eventfd, nonblocking, close-on-exec */
};

int ioh__mailbox_init(struct ioh__mailbox *box);     /* 0 or IOH_ESYS */
void ioh__mailbox_destroy(struct ioh__mailbox *box); /* no call of another thread is under way */

/* Any thread. false: closed. Mails of one sender arrive in order. */
bool ioh__mailbox_post(struct ioh__mailbox *box, struct ioh__mail *mail);

/* The owner: has mail come? */
static inline bool ioh__mailbox_any(struct ioh__mailbox *box)
{
    return atomic_load_explicit(&box->last, memory_order_relaxed) != NULL;
}

/* The owner: takes all mail, oldest first, linked by next; NULL when there is none. */
struct ioh__mail *ioh__mailbox_take(struct ioh__mailbox *box);

/* The owner, before it waits: true = nothing is there and senders will now write the eventfd. */
bool ioh__mailbox_sleep(struct ioh__mailbox *box);

/* The owner: makes the eventfd readable. */
void ioh__mailbox_ring(struct ioh__mailbox *box);

/* The owner, after it waited. */
void ioh__mailbox_wake(struct ioh__mailbox *box);

/* The owner, when the eventfd is readable: empties it. */
void ioh__mailbox_clear(struct ioh__mailbox *box);

/* The owner: takes what is left and closes for ever. */
struct ioh__mail *ioh__mailbox_close(struct ioh__mailbox *box);

#endif
