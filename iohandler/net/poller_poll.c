/* The poller over poll(2) (see poller.h). */
#include <assert.h>
#include <errno.h>
#include <iohandler/error.h>

#include "net/poller.h"

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLRDHUP == POLLRDHUP &&
                  EPOLLHUP == POLLHUP && EPOLLERR == POLLERR,
              "both kinds have the same bits");

static int find(const struct ioh__poller *p, int fd)
{
    for (int i = 0; i < p->count; i++)
        if (p->fds[i].fd == fd)
            return i;
    return -1;
}

int ioh__poll_add(struct ioh__poller *p, int fd, uint32_t events, uint64_t tag)
{
    if (p->count == IOH__POLL_MAX) {
        errno = ENOSPC;
        return -1;
    }
    p->fds[p->count] = (struct pollfd){.fd = fd, .events = (short)events};
    p->tags[p->count++] = tag;
    return 0;
}

int ioh__poll_change(struct ioh__poller *p, int fd, uint32_t events)
{
    int i = find(p, fd);
    if (i < 0) {
        errno = ENOENT;
        return -1;
    }
    p->fds[i].events = (short)events;
    return 0;
}

void ioh__poll_remove(struct ioh__poller *p, int fd)
{
    int i = find(p, fd);
    if (i < 0)
        return;
    p->count--;
    p->fds[i] = p->fds[p->count];
    p->tags[i] = p->tags[p->count];
}

int ioh__poll_wait(struct ioh__poller *p, struct epoll_event *events, int max, int timeout_ms)
{
    int ready = 0;
    if (poll(p->fds, (nfds_t)p->count, timeout_ms) < 0)
        return -1;
    for (int i = 0; i < p->count && ready < max; i++)
        if (p->fds[i].revents)
            events[ready++] =
                (struct epoll_event){.events = (uint16_t)p->fds[i].revents, .data.u64 = p->tags[i]};
    return ready;
}
