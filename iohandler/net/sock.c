/* Sockets (see sock.h). Any thread; nothing is shared. */
#include "net/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <iohandler/error.h>
#include <iohandler/server.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define DEFAULT_BACKLOG 4096u /* the kernel cuts it to net.core.somaxconn */

union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
};

static int fail(char *error, int code, const char *what, const char *address)
{
    snprintf(error, IOH__ERROR_TEXT, "%s: %s: %s", address, what, strerror(errno));
    return code;
}

/* "1.2.3.4:80", "[::1]:80", "unix:/path" into a sockaddr; 0 is an unreadable address. */
static socklen_t parse_address(const char *text, union address *to)
{
    memset(to, 0, sizeof *to);
    if (strncmp(text, "unix:", 5) == 0) {
        size_t len = strlen(text + 5);
        if (len == 0 || len >= sizeof to->un.sun_path)
            return 0;
        to->un.sun_family = AF_UNIX;
        memcpy(to->un.sun_path, text + 5, len + 1);
        return (socklen_t)sizeof to->un;
    }
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN + 2], *end;
    if (!colon || colon == text || colon[1] < '0' || colon[1] > '9')
        return 0;
    unsigned long port = strtoul(colon + 1, &end, 10);
    size_t len = (size_t)(colon - text);
    if (*end || port > 65535 || len >= sizeof host)
        return 0;
    memcpy(host, text, len);
    host[len] = '\0';
    if (host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        to->in6.sin6_family = AF_INET6;
        to->in6.sin6_port = htons((uint16_t)port);
        return inet_pton(AF_INET6, host + 1, &to->in6.sin6_addr) == 1 ? (socklen_t)sizeof to->in6
                                                                      : 0;
    }
    to->in.sin_family = AF_INET;
    to->in.sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &to->in.sin_addr) == 1 ? (socklen_t)sizeof to->in : 0;
}

/* A socket file that nobody listens on is left over from a process that was killed: it is removed.
 * Anything else stays, and bind() will say so. */
static void remove_stale_file(const struct sockaddr_un *un)
{
    struct stat st;
    if (lstat(un->sun_path, &st) || !S_ISSOCK(st.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)un, sizeof *un) && errno == ECONNREFUSED)
        unlink(un->sun_path);
    close(fd);
}

static void bound_address(struct ioh__listen_socket *sock, const char *address)
{
    union address at;
    socklen_t len = sizeof at;
    char host[INET6_ADDRSTRLEN] = "";
    memset(&at, 0, sizeof at);
    if (getsockname(sock->fd, &at.any, &len) || at.any.sa_family == AF_UNIX)
        snprintf(sock->address, sizeof sock->address, "%s", address);
    else if (at.any.sa_family == AF_INET6)
        snprintf(sock->address, sizeof sock->address, "[%s]:%u",
                 inet_ntop(AF_INET6, &at.in6.sin6_addr, host, sizeof host),
                 ntohs(at.in6.sin6_port));
    else
        snprintf(sock->address, sizeof sock->address, "%s:%u",
                 inet_ntop(AF_INET, &at.in.sin_addr, host, sizeof host), ntohs(at.in.sin_port));
}

static int set_up_socket(struct ioh__listen_socket *sock, const union address *at, socklen_t len,
                         const struct ioh_listen_options *options, const char *address, char *error)
{
    int one = 1;
    if (at->any.sa_family != AF_UNIX &&
        setsockopt(sock->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one))
        return fail(error, IOH_ESYS, "SO_REUSEADDR", address);
    if (at->any.sa_family == AF_INET6 &&
        setsockopt(sock->fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one))
        return fail(error, IOH_ESYS, "IPV6_V6ONLY", address);
    if (bind(sock->fd, &at->any, len))
        return fail(error, errno == EADDRINUSE ? IOH_EADDRINUSE : IOH_ESYS, "bind", address);
    if (at->any.sa_family == AF_UNIX) {
        struct stat st;
        if (stat(at->un.sun_path, &st) == 0) {
            sock->file_dev = st.st_dev;
            sock->file_ino = st.st_ino;
        }
        if (options->unix_mode && chmod(at->un.sun_path, (mode_t)options->unix_mode))
            return fail(error, IOH_ESYS, "chmod", address);
    } else {
        /* Accepted sockets inherit it: one system call less per connection. */
        setsockopt(sock->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    unsigned backlog = options->backlog ? options->backlog : DEFAULT_BACKLOG;
    if (listen(sock->fd, backlog > 65535u ? 65535 : (int)backlog))
        return fail(error, errno == EADDRINUSE ? IOH_EADDRINUSE : IOH_ESYS, "listen", address);
    return 0;
}

int ioh__sock_listen(struct ioh__listen_socket *sock, const char *address,
                     const struct ioh_listen_options *options, char error[IOH__ERROR_TEXT])
{
    union address at;
    socklen_t len = parse_address(address, &at);
    memset(sock, 0, sizeof *sock);
    sock->fd = -1;
    if (len == 0) {
        snprintf(error, IOH__ERROR_TEXT,
                 "%.100s: not an address: 1.2.3.4:80, [::1]:80 or unix:/path is", address);
        return IOH_EADDR;
    }
    sock->tcp = at.any.sa_family != AF_UNIX;
    if (!sock->tcp)
        remove_stale_file(&at.un);
    sock->fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (sock->fd < 0)
        return fail(error, IOH_ESYS, "socket", address);
    snprintf(sock->address, sizeof sock->address, "%s", address);
    int rc = set_up_socket(sock, &at, len, options, address, error);
    if (rc) {
        ioh__sock_listen_close(sock);
        return rc;
    }
    bound_address(sock, address);
    return 0;
}

void ioh__sock_refuse(struct ioh__listen_socket *sock)
{
    shutdown(sock->fd, SHUT_RDWR);
    if (sock->tcp)
        return;
    /* Who waits in the queue of a unix socket is not told by that: it would wait until the close. */
    for (;;) {
        int fd = accept4(sock->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

void ioh__sock_listen_close(struct ioh__listen_socket *sock)
{
    struct stat st;
    const char *path = sock->address + 5;
    if (sock->fd < 0)
        return;
    if (!sock->tcp && sock->file_ino && lstat(path, &st) == 0 && st.st_dev == sock->file_dev &&
        st.st_ino == sock->file_ino)
        unlink(path);
    close(sock->fd);
    sock->fd = -1;
}

int ioh__sock_accept(int listen_fd, bool tcp, struct ioh__peer *peer)
{
    union address from = {.any.sa_family = AF_UNIX};
    socklen_t len = sizeof from;
    memset(peer, 0, sizeof *peer);
    peer->family = AF_UNIX;
    if (!tcp)
        return accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int fd = accept4(listen_fd, &from.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return -1;
    if (from.any.sa_family == AF_INET6) {
        peer->family = AF_INET6;
        peer->port = ntohs(from.in6.sin6_port);
        memcpy(peer->address, &from.in6.sin6_addr, 16);
    } else {
        peer->family = AF_INET;
        peer->port = ntohs(from.in.sin_port);
        memcpy(peer->address, &from.in.sin_addr, 4);
    }
    return fd;
}

void ioh__peer_text(const struct ioh__peer *peer, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";
    if (peer->family == AF_UNIX)
        snprintf(text, size, "unix:");
    else
        snprintf(text, size, peer->family == AF_INET6 ? "[%s]:%u" : "%s:%u",
                 inet_ntop(peer->family, peer->address, host, sizeof host), peer->port);
}

void ioh__sock_set_reset(int fd)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

uint64_t ioh__fd_limit(bool raise)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    if (raise && limit.rlim_cur < limit.rlim_max) {
        struct rlimit more = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            limit = more;
    }
    return (uint64_t)limit.rlim_cur;
}
