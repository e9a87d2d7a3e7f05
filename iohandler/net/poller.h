/* A poller: which descriptors are ready. One thread at a time; level triggered. Two kinds: epoll(7) for
 * a loop with many, and poll(2) for the loop of a single connection, which costs no descriptor. */
#ifndef IOH_NET_POLLER_H
#define IOH_NET_POLLER_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#define IOH__POLL_MAX 2 /* what a poll(2) poller can watch: a mailbox and a connection */

/* Interest and readiness are epoll's bits: EPOLLIN, EPOLLOUT, EPOLLRDHUP; EPOLLHUP and EPOLLERR come
 * unasked. data.u64 is the tag. */
struct ioh__poller {
    int fd; /* of epoll; -1: poll(2) */
    int count;
    struct pollfd fds[IOH__POLL_MAX];
    uint64_t tags[IOH__POLL_MAX];
};

int ioh__poller_init(struct ioh__poller *p, bool small); /* small: poll(2). 0 or IOH_ESYS */
void ioh__poller_destroy(struct ioh__poller *p);

/* 0, or -1 with errno. */
int ioh__poller_add(struct ioh__poller *p, int fd, uint32_t events, uint64_t tag);
int ioh__poller_change(struct ioh__poller *p, int fd, uint32_t events, uint64_t tag);

/* Before the descriptor is closed: a copy of it in another process would keep the events coming. */
void ioh__poller_remove(struct ioh__poller *p, int fd);

/* Waits at most timeout_ms (-1: for ever); answers the number of events, 0 also when a signal came. */
int ioh__poller_wait(struct ioh__poller *p, struct epoll_event *events, int max, int timeout_ms);

/* poll(2)'s part, in poller_poll.c */
int ioh__poll_add(struct ioh__poller *p, int fd, uint32_t events, uint64_t tag);
int ioh__poll_change(struct ioh__poller *p, int fd, uint32_t events);
void ioh__poll_remove(struct ioh__poller *p, int fd);
int ioh__poll_wait(struct ioh__poller *p, struct epoll_event *events, int max, int timeout_ms);

#endif
