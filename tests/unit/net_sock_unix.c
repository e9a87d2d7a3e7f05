/* Sockets of unix: whose file it is that lies there, and what becomes of it; listening that fails. */
#include "support/listen.h"

/* ---- system calls that fail when told */

static int chmod_fails, listen_fails, socket_fails; /* errno, 0: works */

int __real_listen(int fd, int backlog);
int __real_chmod(const char *file, mode_t mode);
int __real_socket(int domain, int type, int protocol);

int __wrap_listen(int fd, int backlog)
{
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

static bool exists(const char *file)
{
    struct stat st;
    return lstat(file, &st) == 0;
}

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

static int nothing_fails(void **state)
{
    chmod_fails = listen_fails = socket_fails = 0;
    return remove_dir(state);
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

#define failing(test) cmocka_unit_test_setup_teardown(test, make_dir, nothing_fails)

int main(void)
{
    sock.fd = -1;
    const struct CMUnitTest tests[] = {
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
        failing(a_failure_after_bind_leaves_no_file),
        failing(without_a_descriptor_the_error_says_so),
        in_dir(a_path_of_107_bytes_works_and_one_more_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
