/* Sockets: listening, accepting, addresses as text, the descriptor limit. Every descriptor made here
 * is nonblocking and close-on-exec. */
#ifndef IOH_NET_SOCK_H
#define IOH_NET_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IOH__ADDRESS_TEXT 128u /* longest: "unix:" and 107 bytes of path */
#define IOH__ERROR_TEXT 256u

struct ioh_listen_options;

/* Who is at the other end, in 20 bytes. */
struct ioh__peer {
    uint8_t address[16]; /* IPv4 in the first four */
    uint16_t port;       /* host byte order */
    uint8_t family;      /* AF_INET, AF_INET6, AF_UNIX */
    bool proxied : 1;    /* a PROXY header is to come, which tells whose connection it is */
    bool counted : 1;    /* among the connections of its address (conn/gate.h) */
};

struct ioh__prefixes;

struct ioh__listen_socket {
    int fd;
    bool tcp;
    char address[IOH__ADDRESS_TEXT]; /* as bound, with its port */
    dev_t file_dev;                  /* of a unix socket's file: only our own is unlinked */
    ino_t file_ino;
    struct ioh__prefixes *proxy_from; /* prefix.h; NULL: no PROXY protocol */
};

/* 0, IOH_EADDR, IOH_EADDRINUSE or IOH_ESYS; then error says what. */
int ioh__sock_listen(struct ioh__listen_socket *sock, const char *address,
                     const struct ioh_listen_options *options, char error[IOH__ERROR_TEXT]);

/* No more connections: who connects from now on is refused, who waits to be accepted is let go. The descriptor
 * stays. */
void ioh__sock_refuse(struct ioh__listen_socket *sock);

/* Closes and removes the file of a unix socket. */
void ioh__sock_listen_close(struct ioh__listen_socket *sock);

/* accept4(2): a descriptor, or -1 with errno. */
int ioh__sock_accept(int listen_fd, bool tcp, struct ioh__peer *peer);

void ioh__peer_text(const struct ioh__peer *peer, char *text, size_t size);

/* Makes the close that follows send a reset. */
void ioh__sock_set_reset(int fd);

/* The soft RLIMIT_NOFILE, raised to the hard limit first if raise is set. */
uint64_t ioh__fd_limit(bool raise);

#endif
