/* A poller: which descriptors are ready. One thread at a time; epoll(7), level triggered. */
#ifndef IOH_NET_POLLER_H
#define IOH_NET_POLLER_H

#include <stdint.h>
#include <sys/epoll.h>

/* Interest and readiness are epoll's bits: EPOLLIN, EPOLLOUT, EPOLLRDHUP; EPOLLHUP and EPOLLERR come
 * unasked. data.u64 is the tag. */
struct ioh__poller {
    int fd;
};

int ioh__poller_init(struct ioh__poller *p); /* 0 or IOH_ESYS */
void ioh__poller_destroy(struct ioh__poller *p);

/* 0, or -1 with errno. */
int ioh__poller_add(struct ioh__poller *p, int fd, uint32_t events, uint64_t tag);
int ioh__poller_change(struct ioh__poller *p, int fd, uint32_t events, uint64_t tag);

/* Before the descriptor is closed: a copy of it in another process would keep the events coming. */
void ioh__poller_remove(struct ioh__poller *p, int fd);

/* Waits at most timeout_ms (-1: for ever); answers the number of events, 0 also when a signal came. */
int ioh__poller_wait(struct ioh__poller *p, struct epoll_event *events, int max, int timeout_ms);

#endif
