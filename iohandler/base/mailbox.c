/* The mailbox: senders push, the owner takes all at once and turns the list round. It owns the
 * eventfd; the mails belong to their senders until post() answers true, then to the owner.
 *
 * Why no wake-up is lost: a sender first pushes (P), then looks whether the owner sleeps (S); the owner
 * first says that it sleeps (s), then looks for mail (p). All four are sequentially consistent, so
 * they have one order, and in it S comes after s or p comes after P: the sender sees the sleeper, or
 * the sleeper sees the mail.
 */
#include "base/mailbox.h"

#include <errno.h>
#include <iohandler/error.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum state { AWAKE, SLEEPING };

/* What `last` points to in a closed box: the box itself, which is nobody's mail. */
static struct ioh__mail *closed_mark(struct ioh__mailbox *box)
{
    return (struct ioh__mail *)(void *)box;
}

/* Oldest first. */
static struct ioh__mail *reverse(struct ioh__mail *mail)
{
    struct ioh__mail *first = NULL;
    while (mail) {
        struct ioh__mail *next = mail->next;
        mail->next = first;
        first = mail;
        mail = next;
    }
    return first;
}

void ioh__mailbox_ring(struct ioh__mailbox *box)
{
    /* A full counter (EAGAIN) wakes as well as a fresh one. */
    uint64_t one = 1;
    while (write(box->fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

int ioh__mailbox_init(struct ioh__mailbox *box)
{
    atomic_init(&box->last, NULL);
    atomic_init(&box->state, AWAKE);
    box->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return box->fd < 0 ? IOH_ESYS : 0;
}

void ioh__mailbox_destroy(struct ioh__mailbox *box)
{
    if (box->fd >= 0)
        close(box->fd);
    box->fd = -1;
}

bool ioh__mailbox_post(struct ioh__mailbox *box, struct ioh__mail *mail)
{
    struct ioh__mail *last = atomic_load_explicit(&box->last, memory_order_relaxed);
    do {
        if (last == closed_mark(box))
            return false;
        mail->next = last;
    } while (!atomic_compare_exchange_weak_explicit(&box->last, &last, mail, memory_order_seq_cst,
                                                    memory_order_relaxed));
    /* A plain look first: an awake owner's cache line stays where it is. Of several senders only the
     * one that changes the state writes. */
    int state = SLEEPING;
    if (atomic_load(&box->state) == SLEEPING &&
        atomic_compare_exchange_strong(&box->state, &state, AWAKE))
        ioh__mailbox_ring(box);
    return true;
}

struct ioh__mail *ioh__mailbox_take(struct ioh__mailbox *box)
{
    struct ioh__mail *last = atomic_load_explicit(&box->last, memory_order_relaxed);
    if (!last || last == closed_mark(box))
        return NULL;
    return reverse(atomic_exchange_explicit(&box->last, NULL, memory_order_acquire));
}

bool ioh__mailbox_sleep(struct ioh__mailbox *box)
{
    atomic_store(&box->state, SLEEPING);
    struct ioh__mail *last = atomic_load(&box->last);
    if (!last || last == closed_mark(box))
        return true;
    ioh__mailbox_wake(box);
    return false;
}

/* A busy loop, which never slept, gets by with a look. Mail is taken with an acquire of its own. */
void ioh__mailbox_wake(struct ioh__mailbox *box)
{
    if (atomic_load_explicit(&box->state, memory_order_relaxed) != AWAKE)
        atomic_store_explicit(&box->state, AWAKE, memory_order_relaxed);
}

void ioh__mailbox_clear(struct ioh__mailbox *box)
{
    uint64_t count;
    while (read(box->fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

struct ioh__mail *ioh__mailbox_close(struct ioh__mailbox *box)
{
    struct ioh__mail *last =
        atomic_exchange_explicit(&box->last, closed_mark(box), memory_order_acq_rel);
    return last == closed_mark(box) ? NULL : reverse(last);
}
