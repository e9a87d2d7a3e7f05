/* Sockets: addresses, listening, unix socket files, accepting, peers as text, the descriptor limit. */
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

/* ---- system calls that fail when told, and what was asked of them */

static int listen_backlog;
static int chmod_fails, listen_fails, socket_fails; /* errno, 0: works */

int __real_listen(int fd, int backlog);
int __real_chmod(const char *file, mode_t mode);
int __real_socket(int domain, int type, int protocol);

int __wrap_listen(int fd, int backlog)
{
    listen_backlog = backlog;
    errno = listen_fails;
    return listen_fails ? -1 : __real_listen(fd, backlog);
}

int __wrap_chmod(const char *file, mode_t mode)
{
    errno = chmod_fails;
    return chmod_fails ? -1 : __real_chmod(file, mode);
}

int __wrap_socket(int domain, int type, int protocol)
{
    errno = socket_fails;
    return socket_fails ? -1 : __real_socket(domain, type, protocol);
}

/* ---- helpers */

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/net_sock.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(address, sizeof address, "unix:%s", path);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    chmod_fails = listen_fails = socket_fails = 0;
    ioh__sock_listen_close(&sock);
    unlink(path);
    return rmdir(dir);
}

static int listen_at(struct ioh__listen_socket *s, const char *text, uint32_t backlog,
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
static socklen_t own_address(int fd)
{
    socklen_t len = sizeof at;
    memset(&at, 0, sizeof at);
    assert_int_equal(getsockname(fd, &at.any, &len), 0);
    return len;
}

static int connect_to(int listen_fd)
{
    socklen_t len = own_address(listen_fd);
    int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, &at.any, len) == 0)
        return fd;
    close(fd);
    return -1;
}

static int accept_one(struct ioh__peer *peer)
{
    struct pollfd p = {.fd = sock.fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 5000), 1);
    return ioh__sock_accept(sock.fd, sock.tcp, peer);
}

static bool exists(const char *file)
{
    struct stat st;
    return lstat(file, &st) == 0;
}

static void assert_flags(int fd)
{
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void skip_without_ipv6(void)
{
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&loopback, sizeof loopback);
    if (fd >= 0)
        close(fd);
    if (rc)
        skip();
}

/* ---- addresses */

static void an_address_that_cannot_be_read_is_refused_with_a_text_that_names_it(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      ":",
                                      ":80",
                                      "80",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:x",
                                      "127.0.0.1:80x",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:+80",
                                      "127.0.0.1: 80",
                                      "127.0.0.1:80 ",
                                      " 127.0.0.1:80",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:4294967376",
                                      "127.0.0.1:99999999999999999999999",
                                      "127.1:80",
                                      "256.0.0.1:80",
                                      "1.2.3.4.5:80",
                                      "localhost:80",
                                      "*:80",
                                      "::1:80",
                                      "[::1]",
                                      "[::1]80",
                                      "[::1]:",
                                      "[::1]:65536",
                                      "[]:80",
                                      "[:80",
                                      "]:80",
                                      "[::1:80",
                                      "::1]:80",
                                      "[127.0.0.1]:80",
                                      "[::g]:80",
                                      "[[::1]]:80",
                                      "[::1]x:80",
                                      "[fe80::1%lo]:80",
                                      "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:80",
                                      "http://127.0.0.1:80",
                                      "unix",
                                      "unix:",
                                      "Unix:/tmp/x",
                                      "/tmp/x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int rc = listen_at(&sock, bad[i], 0, 0);
        if (rc != IOH_EADDR)
            print_error("\"%s\": %d\n", bad[i], rc);
        assert_int_equal(rc, IOH_EADDR);
        assert_int_equal(sock.fd, -1);
        assert_memory_equal(error, bad[i], strlen(bad[i]));
        assert_non_null(strstr(error, "not an address"));
    }
}

static void an_endless_address_is_refused(void **state)
{
    (void)state;
    char *text = malloc(100001);
    assert_non_null(text);
    memset(text, '1', 100000);
    strcpy(text + 99997, ":80");
    assert_int_equal(listen_at(&sock, text, 0, 0), IOH_EADDR);
    memcpy(text, "unix:/", 6);
    assert_int_equal(listen_at(&sock, text, 0, 0), IOH_EADDR);
    assert_true(strlen(error) < IOH__ERROR_TEXT);
    free(text);
}

static void port_0_reports_the_port_that_was_bound(void **state)
{
    (void)state;
    char want[64];
    static const char *const hosts[] = {"127.0.0.1", "0.0.0.0"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(want, sizeof want, "%s:0", hosts[i]);
        assert_int_equal(listen_at(&sock, want, 0, 0), 0);
        assert_true(sock.tcp);
        own_address(sock.fd);
        assert_int_not_equal(at.in.sin_port, 0);
        snprintf(want, sizeof want, "%s:%u", hosts[i], ntohs(at.in.sin_port));
        assert_string_equal(sock.address, want);
        ioh__sock_listen_close(&sock);
    }
}

static void a_port_with_a_number_is_the_one_that_is_bound(void **state)
{
    (void)state;
    assert_int_equal(listen_at(&sock, "127.0.0.1:0", 0, 0), 0);
    char text[IOH__ADDRESS_TEXT];
    strcpy(text, sock.address);
    ioh__sock_listen_close(&sock);
    assert_int_equal(listen_at(&sock, text, 0, 0), 0); /* SO_REUSEADDR: at once */
    assert_string_equal(sock.address, text);
}

static void a_port_that_somebody_listens_on_is_in_use(void **state)
{
    (void)state;
    struct ioh__listen_socket second;
    assert_int_equal(listen_at(&sock, "127.0.0.1:0", 0, 0), 0);
    assert_int_equal(listen_at(&second, sock.address, 0, 0), IOH_EADDRINUSE);
    assert_int_equal(second.fd, -1);
    assert_non_null(strstr(error, sock.address));
    assert_non_null(strstr(error, strerror(EADDRINUSE)));
}

static void an_address_of_another_machine_is_a_system_error(void **state)
{
    (void)state;
    assert_int_equal(listen_at(&sock, "192.0.2.1:0", 0, 0), IOH_ESYS);
    assert_string_equal(error, "192.0.2.1:0: bind: Cannot assign requested address");
    assert_int_equal(sock.fd, -1);
}

static void ipv6_any_leaves_the_port_free_for_ipv4(void **state)
{
    (void)state;
    skip_without_ipv6();
    char text[64];
    struct ioh__listen_socket v4;
    assert_int_equal(listen_at(&sock, "[::]:0", 0, 0), 0);
    own_address(sock.fd);
    unsigned port = ntohs(at.in6.sin6_port);
    snprintf(text, sizeof text, "[::]:%u", port);
    assert_string_equal(sock.address, text);
    snprintf(text, sizeof text, "0.0.0.0:%u", port);
    assert_int_equal(listen_at(&v4, text, 0, 0), 0);
    int fd = connect_to(v4.fd);
    struct pollfd p[2] = {{.fd = sock.fd, .events = POLLIN}, {.fd = v4.fd, .events = POLLIN}};
    assert_int_equal(poll(p, 2, 5000), 1);
    assert_int_equal(p[0].revents, 0);
    close(fd);
    ioh__sock_listen_close(&v4);
}

static void an_ipv6_peer_is_told_with_brackets(void **state)
{
    (void)state;
    skip_without_ipv6();
    struct ioh__peer peer;
    char text[64], want[64];
    assert_int_equal(listen_at(&sock, "[::1]:0", 0, 0), 0);
    int client = connect_to(sock.fd);
    int fd = accept_one(&peer);
    assert_flags(fd);
    own_address(client);
    snprintf(want, sizeof want, "[::1]:%u", ntohs(at.in6.sin6_port));
    ioh__peer_text(&peer, text, sizeof text);
    assert_string_equal(text, want);
    close(fd);
    close(client);
}

/* ---- what is asked of the kernel */

static void every_descriptor_is_nonblocking_and_close_on_exec(void **state)
{
    (void)state;
    const char *const addresses[] = {"127.0.0.1:0", address};
    for (size_t i = 0; i < 2; i++) {
        struct ioh__peer peer;
        assert_int_equal(listen_at(&sock, addresses[i], 0, 0), 0);
        assert_flags(sock.fd);
        int client = connect_to(sock.fd);
        int fd = accept_one(&peer);
        assert_flags(fd);
        close(fd);
        close(client);
        ioh__sock_listen_close(&sock);
        assert_int_equal(sock.fd, -1);
    }
}

static void the_backlog_is_handed_on_and_4096_by_default(void **state)
{
    (void)state;
    static const uint32_t given[] = {0, 1, 7, 65535, 65536, UINT32_MAX};
    static const int want[] = {4096, 1, 7, 65535, 65535, 65535};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(listen_at(&sock, "127.0.0.1:0", given[i], 0), 0);
        assert_int_equal(listen_backlog, want[i]);
        ioh__sock_listen_close(&sock);
    }
}

static void after_a_refusal_nobody_gets_in(void **state)
{
    (void)state;
    struct ioh__peer peer;
    const char *const addresses[] = {"127.0.0.1:0", address};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(listen_at(&sock, addresses[i], 0, 0), 0);
        ioh__sock_refuse(&sock);
        assert_int_equal(connect_to(sock.fd), -1);
        assert_true(sock.fd >= 0);
        assert_int_equal(ioh__sock_accept(sock.fd, sock.tcp, &peer), -1);
        /* Linux tells it apart from "nobody is there" for TCP only. */
        assert_int_equal(errno, sock.tcp ? EINVAL : EAGAIN);
        ioh__sock_listen_close(&sock);
    }
}

static void accepting_without_a_client_says_again(void **state)
{
    (void)state;
    struct ioh__peer peer;
    assert_int_equal(listen_at(&sock, "127.0.0.1:0", 0, 0), 0);
    assert_int_equal(ioh__sock_accept(sock.fd, sock.tcp, &peer), -1);
    assert_int_equal(errno, EAGAIN);
}

static void a_descriptor_set_to_reset_resets_when_closed(void **state)
{
    (void)state;
    struct ioh__peer peer;
    char byte;
    assert_int_equal(listen_at(&sock, "127.0.0.1:0", 0, 0), 0);
    int client = connect_to(sock.fd);
    int fd = accept_one(&peer);
    ioh__sock_set_reset(fd);
    close(fd);
    assert_int_equal(recv(client, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    close(client);
}

/* ---- unix sockets */

static void a_stale_socket_file_is_replaced(void **state)
{
    (void)state;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memcpy(un.sun_path, path, strlen(path) + 1);
    int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(dead, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen(dead, 1), 0);
    close(dead);
    assert_true(exists(path));
    assert_int_equal(listen_at(&sock, address, 0, 0), 0);
    assert_false(sock.tcp);
    assert_string_equal(sock.address, address);
    int client = connect_to(sock.fd);
    assert_true(client >= 0);
    close(client);
}

static void a_socket_file_in_use_is_refused_and_kept(void **state)
{
    (void)state;
    struct ioh__listen_socket second;
    assert_int_equal(listen_at(&sock, address, 0, 0), 0);
    assert_int_equal(listen_at(&second, address, 0, 0), IOH_EADDRINUSE);
    assert_int_equal(second.fd, -1);
    assert_non_null(strstr(error, path));
    int client = connect_to(sock.fd);
    assert_true(client >= 0); /* the file still leads to the first */
    close(client);
}

static void a_socket_file_in_use_with_a_full_backlog_is_kept_too(void **state)
{
    (void)state;
    struct ioh__listen_socket second;
    int clients[8], count = 0;
    assert_int_equal(listen_at(&sock, address, 1, 0), 0);
    own_address(sock.fd);
    while (count < 8) { /* until the next one would have to wait */
        clients[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(clients[count++], &at.any, sizeof at.un))
            break;
    }
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(listen_at(&second, address, 0, 0), IOH_EADDRINUSE);
    assert_true(exists(path));
    while (count > 0)
        close(clients[--count]);
}

static void a_datagram_socket_in_the_way_is_kept(void **state)
{
    (void)state;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memcpy(un.sun_path, path, strlen(path) + 1);
    int other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(other, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen_at(&sock, address, 0, 0), IOH_EADDRINUSE);
    assert_true(exists(path));
    close(other);
}

static void a_regular_file_in_the_way_is_not_removed(void **state)
{
    (void)state;
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    assert_int_equal(listen_at(&sock, address, 0, 0), IOH_EADDRINUSE);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 8);
}

static void a_symbolic_link_in_the_way_is_not_removed(void **state)
{
    (void)state;
    assert_int_equal(symlink("/nowhere", path), 0);
    assert_int_equal(listen_at(&sock, address, 0, 0), IOH_EADDRINUSE);
    assert_true(exists(path));
}

static void a_directory_that_does_not_exist_is_a_system_error(void **state)
{
    (void)state;
    assert_int_equal(listen_at(&sock, "unix:/nowhere/at/all", 0, 0), IOH_ESYS);
    assert_string_equal(error, "unix:/nowhere/at/all: bind: No such file or directory");
}

static void the_own_file_goes_on_close(void **state)
{
    (void)state;
    assert_int_equal(listen_at(&sock, address, 0, 0), 0);
    assert_true(exists(path));
    ioh__sock_listen_close(&sock);
    assert_false(exists(path));
    ioh__sock_listen_close(&sock); /* harmless */
}

static void a_file_that_somebody_else_put_there_since_stays(void **state)
{
    (void)state;
    struct ioh__listen_socket second;
    assert_int_equal(listen_at(&sock, address, 0, 0), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(listen_at(&second, address, 0, 0), 0);
    ioh__sock_listen_close(&sock);
    assert_true(exists(path));
    int client = connect_to(second.fd);
    assert_true(client >= 0);
    close(client);
    ioh__sock_listen_close(&second);
    assert_false(exists(path));
}

static unsigned mode_of(const char *file)
{
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    return st.st_mode & 07777;
}

static void unix_mode_sets_the_permissions_and_0_leaves_them_to_the_umask(void **state)
{
    (void)state;
    mode_t before = umask(027);
    int first = listen_at(&sock, address, 0, 0);
    unsigned by_umask = first ? 0 : mode_of(path);
    ioh__sock_listen_close(&sock);
    int second = listen_at(&sock, address, 0, 0662);
    umask(before);
    assert_int_equal(first, 0);
    assert_int_equal(by_umask, 0750);
    assert_int_equal(second, 0);
    assert_int_equal(mode_of(path), 0662);
}

static void a_failure_after_bind_leaves_no_file(void **state)
{
    (void)state;
    chmod_fails = EPERM;
    assert_int_equal(listen_at(&sock, address, 0, 0600), IOH_ESYS);
    assert_non_null(strstr(error, "chmod: Operation not permitted"));
    assert_false(exists(path));
    assert_int_equal(sock.fd, -1);
    chmod_fails = 0;
    listen_fails = EADDRINUSE;
    assert_int_equal(listen_at(&sock, address, 0, 0), IOH_EADDRINUSE);
    assert_false(exists(path));
    listen_fails = ENOBUFS;
    assert_int_equal(listen_at(&sock, "127.0.0.1:0", 0, 0), IOH_ESYS);
    assert_non_null(strstr(error, "listen: "));
    assert_int_equal(sock.fd, -1);
}

static void without_a_descriptor_the_error_says_so(void **state)
{
    (void)state;
    socket_fails = EMFILE;
    assert_int_equal(listen_at(&sock, "127.0.0.1:0", 0, 0), IOH_ESYS);
    assert_string_equal(error, "127.0.0.1:0: socket: Too many open files");
    assert_int_equal(listen_at(&sock, address, 0, 0), IOH_ESYS);
    assert_int_equal(sock.fd, -1);
}

static void a_path_of_107_bytes_works_and_one_more_is_refused(void **state)
{
    (void)state;
    char text[5 + 108 + 1];
    int n = snprintf(text, sizeof text, "unix:%s/", dir);
    memset(text + n, 'x', sizeof text - (size_t)n);
    text[5 + 107] = '\0';
    assert_int_equal(listen_at(&sock, text, 0, 0), 0);
    assert_string_equal(sock.address, text);
    assert_true(exists(text + 5));
    ioh__sock_listen_close(&sock);
    assert_false(exists(text + 5));
    text[5 + 107] = 'x';
    text[5 + 108] = '\0';
    assert_int_equal(listen_at(&sock, text, 0, 0), IOH_EADDR);
}

/* ---- peers */

static void a_peer_is_told_as_text(void **state)
{
    (void)state;
    static const struct {
        struct ioh__peer peer;
        const char *text;
    } cases[] = {
        {{.family = AF_INET, .address = {192, 0, 2, 1}, .port = 4711}, "192.0.2.1:4711"},
        {{.family = AF_INET, .address = {255, 255, 255, 255}, .port = 65535},
         "255.255.255.255:65535"},
        {{.family = AF_INET6, .address = {0x20, 1, 0xd, 0xb8, [15] = 1}, .port = 80},
         "[2001:db8::1]:80"},
        {{.family = AF_INET6, .port = 1}, "[::]:1"},
        {{.family = AF_UNIX}, "unix:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        ioh__peer_text(&cases[i].peer, text, sizeof text);
        assert_string_equal(text, cases[i].text);
        char cut[6] = "??????";
        ioh__peer_text(&cases[i].peer, cut, 5);
        assert_memory_equal(cut, cases[i].text, 4);
        assert_int_equal(cut[4], '\0');
        assert_int_equal(cut[5], '?');
    }
}

static void an_accepted_client_is_known_by_its_address(void **state)
{
    (void)state;
    struct ioh__peer peer;
    char text[64], want[64];
    assert_int_equal(listen_at(&sock, "127.0.0.1:0", 0, 0), 0);
    int client = connect_to(sock.fd);
    int fd = accept_one(&peer);
    own_address(client);
    snprintf(want, sizeof want, "127.0.0.1:%u", ntohs(at.in.sin_port));
    ioh__peer_text(&peer, text, sizeof text);
    assert_string_equal(text, want);
    close(fd);
    close(client);
    ioh__sock_listen_close(&sock);

    assert_int_equal(listen_at(&sock, address, 0, 0), 0);
    client = connect_to(sock.fd);
    fd = accept_one(&peer);
    ioh__peer_text(&peer, text, sizeof text);
    assert_string_equal(text, "unix:");
    close(fd);
    close(client);
}

/* ---- the descriptor limit; in a child, since it cannot be raised again */

static int limits_of_a_child(void)
{
    struct rlimit limit = {.rlim_cur = 64, .rlim_max = 128};
    if (setrlimit(RLIMIT_NOFILE, &limit))
        return 1;
    if (ioh__fd_limit(false) != 64 || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur != 64)
        return 2;
    if (ioh__fd_limit(true) != 128 || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur != 128)
        return 3;
    return ioh__fd_limit(true) == 128 && ioh__fd_limit(false) == 128 ? 0 : 4;
}

static void the_descriptor_limit_is_raised_to_the_hard_one_only_if_asked(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(limits_of_a_child());
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define in_dir(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    sock.fd = -1;
    const struct CMUnitTest tests[] = {
        in_dir(an_address_that_cannot_be_read_is_refused_with_a_text_that_names_it),
        in_dir(an_endless_address_is_refused),
        in_dir(port_0_reports_the_port_that_was_bound),
        in_dir(a_port_with_a_number_is_the_one_that_is_bound),
        in_dir(a_port_that_somebody_listens_on_is_in_use),
        in_dir(an_address_of_another_machine_is_a_system_error),
        in_dir(ipv6_any_leaves_the_port_free_for_ipv4),
        in_dir(an_ipv6_peer_is_told_with_brackets),
        in_dir(every_descriptor_is_nonblocking_and_close_on_exec),
        in_dir(the_backlog_is_handed_on_and_4096_by_default),
        in_dir(after_a_refusal_nobody_gets_in),
        in_dir(accepting_without_a_client_says_again),
        in_dir(a_descriptor_set_to_reset_resets_when_closed),
        in_dir(a_stale_socket_file_is_replaced),
        in_dir(a_socket_file_in_use_is_refused_and_kept),
        in_dir(a_socket_file_in_use_with_a_full_backlog_is_kept_too),
        in_dir(a_datagram_socket_in_the_way_is_kept),
        in_dir(a_regular_file_in_the_way_is_not_removed),
        in_dir(a_symbolic_link_in_the_way_is_not_removed),
        in_dir(a_directory_that_does_not_exist_is_a_system_error),
        in_dir(the_own_file_goes_on_close),
        in_dir(a_file_that_somebody_else_put_there_since_stays),
        in_dir(unix_mode_sets_the_permissions_and_0_leaves_them_to_the_umask),
        in_dir(a_failure_after_bind_leaves_no_file),
        in_dir(without_a_descriptor_the_error_says_so),
        in_dir(a_path_of_107_bytes_works_and_one_more_is_refused),
        in_dir(a_peer_is_told_as_text),
        in_dir(an_accepted_client_is_known_by_its_address),
        cmocka_unit_test(the_descriptor_limit_is_raised_to_the_hard_one_only_if_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
