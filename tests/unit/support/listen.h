/* Listening sockets for tests, and a directory for those of unix. */
#ifndef IOH_TESTS_LISTEN_H
#define IOH_TESTS_LISTEN_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <iohandler/error.h>
#include <iohandler/server.h>

#include "net/sock.h"

static struct ioh__listen_socket sock;
static char error[IOH__ERROR_TEXT];
static char dir[64], path[128], address[140]; /* of a unix socket */

static inline int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/net_sock.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(address, sizeof address, "unix:%s", path);
    return 0;
}

static inline int remove_dir(void **state)
{
    (void)state;
    ioh__sock_listen_close(&sock);
    unlink(path);
    return rmdir(dir);
}

static inline int listen_at(struct ioh__listen_socket *s, const char *text, uint32_t backlog,
                            uint32_t mode)
{
    struct ioh_listen_options o = IOH_LISTEN_OPTIONS_INIT;
    o.backlog = backlog;
    o.unix_mode = mode;
    error[0] = '\0';
    return ioh__sock_listen(s, text, &o, error);
}

static union any_address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
} at;

/* The address that `fd` is bound to; its length is answered. */
static inline socklen_t own_address(int fd)
{
    socklen_t len = sizeof at;
    memset(&at, 0, sizeof at);
    assert_int_equal(getsockname(fd, &at.any, &len), 0);
    return len;
}

static inline int connect_to(int listen_fd)
{
    socklen_t len = own_address(listen_fd);
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, &at.any, len) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline int accept_one(struct ioh__peer *peer)
{
    struct pollfd p = {.fd = sock.fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 5000), 1);
    return ioh__sock_accept(sock.fd, sock.tcp, peer);
}

static inline void assert_flags(int fd)
{
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

#define in_dir(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

#endif
