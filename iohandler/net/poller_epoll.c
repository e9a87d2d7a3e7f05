/* The poller (see poller.h), and its kind over epoll(7). */
#include "net/poller.h"

#include <iohandler/error.h>
#include <unistd.h>

int ioh__poller_init(struct ioh__poller *p, bool small)
{
    *p = (struct ioh__poller){.fd = -1};
    if (small)
        return 0;
    p->fd = epoll_create1(EPOLL_CLOEXEC);
    return p->fd < 0 ? IOH_ESYS : 0;
}

void ioh__poller_destroy(struct ioh__poller *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

int ioh__poller_add(struct ioh__poller *p, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event ev = {.events = events, .data.u64 = tag};
    return p->fd < 0 ? ioh__poll_add(p, fd, events, tag) : epoll_ctl(p->fd, EPOLL_CTL_ADD, fd, &ev);
}

int ioh__poller_change(struct ioh__poller *p, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event ev = {.events = events, .data.u64 = tag};
    return p->fd < 0 ? ioh__poll_change(p, fd, events) : epoll_ctl(p->fd, EPOLL_CTL_MOD, fd, &ev);
}

void ioh__poller_remove(struct ioh__poller *p, int fd)
{
    if (p->fd < 0)
        ioh__poll_remove(p, fd);
    else
        epoll_ctl(p->fd, EPOLL_CTL_DEL, fd, NULL);
}

int ioh__poller_wait(struct ioh__poller *p, struct epoll_event *events, int max, int timeout_ms)
{
    int n = p->fd < 0 ? ioh__poll_wait(p, events, max, timeout_ms)
                      : epoll_wait(p->fd, events, max, timeout_ms);
    /* EINTR: a signal, a debugger, a suspend; the caller comes again. Other errors cannot happen. */
    return n < 0 ? 0 : n;
}
