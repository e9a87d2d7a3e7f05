/* Sockets: addresses, listening, accepting, peers as text, the descriptor limit. */
#include "support/listen.h"

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
    static const char bad[] =
        "\n:\n:80\n80\n127.0.0.1\n127.0.0.1:\n127.0.0.1:x\n127.0.0.1:80x\n127.0.0.1:-1\n"
        "127.0.0.1:+80\n127.0.0.1: 80\n127.0.0.1:80 \n 127.0.0.1:80\n127.0.0.1:65536\n"
        "127.0.0.1:4294967376\n127.0.0.1:99999999999999999999999\n127.1:80\n"
        "256.0.0.1:80\n1.2.3.4.5:80\nlocalhost:80\n*:80\n::1:80\n[::1]\n[::1]80\n[::1]:\n"
        "[::1]:65536\n[]:80\n[:80\n]:80\n[::1:80\n::1]:80\n[127.0.0.1]:80\n[::g]:80\n"
        "[[::1]]:80\n[::1]x:80\n[fe80::1%lo]:80\n"
        "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:80\nhttp://127.0.0.1:80\n"
        "unix\nunix:\nUnix:/tmp/x\n/tmp/x\n";
    char text[128];
    for (const char *line = bad, *end; *line; line = end + 1) { /* one a line */
        end = strchr(line, '\n');
        snprintf(text, sizeof text, "%.*s", (int)(end - line), line);
        int rc = listen_at(&sock, text, 0, 0);
        if (rc != IOH_EADDR)
            print_error("\"%s\": %d\n", text, rc);
        assert_int_equal(rc, IOH_EADDR);
        assert_int_equal(sock.fd, -1);
        assert_memory_equal(error, text, strlen(text));
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

static int listen_backlog;

int __real_listen(int fd, int backlog);

int __wrap_listen(int fd, int backlog)
{
    listen_backlog = backlog;
    return __real_listen(fd, backlog);
}

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

/* ---- the descriptor limit; in a child, so that this process keeps its own */

static int limits_of_a_child(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 1;
    rlim_t hard = limit.rlim_max;
    limit.rlim_cur = 64; /* the hard one stays: valgrind does not let it be lowered */
    if (hard <= 64 || setrlimit(RLIMIT_NOFILE, &limit))
        return 2;
    if (ioh__fd_limit(false) != 64 || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur != 64)
        return 3;
    if (ioh__fd_limit(true) != hard || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur != hard)
        return 4;
    return ioh__fd_limit(true) == hard && ioh__fd_limit(false) == hard ? 0 : 5;
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
        in_dir(a_peer_is_told_as_text),
        in_dir(an_accepted_client_is_known_by_its_address),
        cmocka_unit_test(the_descriptor_limit_is_raised_to_the_hard_one_only_if_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
