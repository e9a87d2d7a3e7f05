/* The gate: counting to a limit, in all and of one address, also from many threads and without memory. */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "conn/gate.h"

static struct ioh__gate gate;
static int poor;      /* so many callocs fail */
static int no_random; /* getrandom() fails */

void *__real_calloc(size_t count, size_t size);
ssize_t __real_getrandom(void *data, size_t len, unsigned flags);

void *__wrap_calloc(size_t count, size_t size)
{
    if (poor > 0 && poor--)
        return NULL;
    return __real_calloc(count, size);
}

ssize_t __wrap_getrandom(void *data, size_t len, unsigned flags)
{
    return no_random ? -1 : __real_getrandom(data, len, flags);
}

static int tear_down(void **state)
{
    (void)state;
    poor = no_random = 0;
    ioh__gate_destroy(&gate);
    return 0;
}

static struct ioh__peer peer_of(const char *text)
{
    struct ioh__peer peer = {.family = strchr(text, ':') ? AF_INET6 : AF_INET, .port = 7};
    if (strcmp(text, "unix:") == 0)
        peer.family = AF_UNIX;
    else
        assert_int_equal(inet_pton(peer.family, text, peer.address), 1);
    return peer;
}

/* The n-th of many addresses, of both families. */
static struct ioh__peer numbered(uint32_t n)
{
    struct ioh__peer peer = {.family = n & 1 ? AF_INET6 : AF_INET};
    n >>= 1;
    memcpy(peer.address, &n, sizeof n);
    return peer;
}

static enum ioh__gate_answer enter(struct ioh__peer *peer)
{
    return ioh__gate_enter_address(&gate, peer);
}

static void expect_same(const char *one, const char *other, bool same)
{
    struct ioh__peer a = peer_of(one), b = peer_of(other);
    ioh__gate_init(&gate, 0, 1);
    assert_int_equal(enter(&a), IOH__GATE_OPEN);
    assert_int_equal(enter(&b), same ? IOH__GATE_FULL : IOH__GATE_OPEN);
    assert_int_equal(b.counted, !same);
    ioh__gate_leave(&gate, &b);
    ioh__gate_leave(&gate, &a);
    assert_int_equal(gate.used, 0);
    ioh__gate_destroy(&gate);
}

/* ---- */

static void without_limits_everybody_enters_and_nothing_is_kept(void **state)
{
    (void)state;
    ioh__gate_init(&gate, 0, 0);
    struct ioh__peer peer = peer_of("192.0.2.1");
    for (int i = 0; i < 1000; i++) {
        assert_true(ioh__gate_enter(&gate));
        assert_int_equal(enter(&peer), IOH__GATE_OPEN);
        assert_false(peer.counted);
    }
    assert_int_equal(gate.connections, 0);
    assert_null(gate.slots);
    for (int i = 0; i < 1000; i++)
        ioh__gate_leave(&gate, &peer);
    assert_int_equal(gate.connections, 0);
}

static void so_many_connections_as_the_limit_says(void **state)
{
    (void)state;
    ioh__gate_init(&gate, 3, 0);
    struct ioh__peer peer = peer_of("unix:");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++)
            assert_true(ioh__gate_enter(&gate));
        assert_false(ioh__gate_enter(&gate));
        assert_false(ioh__gate_enter(&gate));
        ioh__gate_leave(&gate, &peer);
        assert_true(ioh__gate_enter(&gate));
        assert_false(ioh__gate_enter(&gate));
        for (int i = 0; i < 3; i++)
            ioh__gate_leave(&gate, &peer);
    }
}

static void so_many_of_one_address_whatever_its_port(void **state)
{
    (void)state;
    ioh__gate_init(&gate, 0, 2);
    struct ioh__peer some[3], other = peer_of("192.0.2.2");
    for (int i = 0; i < 3; i++) {
        some[i] = peer_of("192.0.2.1");
        some[i].port = (uint16_t)(i * 1000);
    }
    assert_int_equal(enter(&some[0]), IOH__GATE_OPEN);
    assert_int_equal(enter(&some[1]), IOH__GATE_OPEN);
    assert_int_equal(enter(&some[2]), IOH__GATE_FULL);
    assert_false(some[2].counted);
    assert_int_equal(enter(&other), IOH__GATE_OPEN);
    ioh__gate_leave(&gate, &some[2]); /* was never counted: no effect */
    assert_int_equal(enter(&some[2]), IOH__GATE_FULL);
    ioh__gate_leave(&gate, &some[0]);
    assert_int_equal(enter(&some[2]), IOH__GATE_OPEN);
    ioh__gate_leave(&gate, &some[1]);
    ioh__gate_leave(&gate, &some[2]);
    ioh__gate_leave(&gate, &other);
    assert_int_equal(gate.used, 0);
}

static void an_ipv6_host_is_its_64_and_a_mapped_address_is_ipv4(void **state)
{
    (void)state;
    expect_same("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true);
    expect_same("2001:db8:1:2::1", "2001:db8:1:3::1", false);
    expect_same("::ffff:192.0.2.1", "192.0.2.1", true);
    expect_same("::ffff:192.0.2.1", "::ffff:192.0.2.2", false);
    expect_same("192.0.2.1", "192.0.2.2", false);
    expect_same("::1", "0.0.0.1", false);
    expect_same("::", "0.0.0.0", false);
    ioh__gate_init(&gate, 0, 0);
}

static void peers_on_unix_sockets_have_no_address(void **state)
{
    (void)state;
    ioh__gate_init(&gate, 0, 1);
    struct ioh__peer peer = peer_of("unix:");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(enter(&peer), IOH__GATE_OPEN);
        assert_false(peer.counted);
    }
}

static void the_table_grows_and_shrinks_with_the_addresses(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    ioh__gate_init(&gate, 0, 2);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            struct ioh__peer peer = numbered(i);
            assert_int_equal(enter(&peer), IOH__GATE_OPEN);
        }
        assert_int_equal(gate.used, MANY);
        assert_in_range(gate.room, MANY, 4 * MANY);
        for (uint32_t i = 0; i < MANY; i++) {
            struct ioh__peer peer = numbered(i * 7919 % MANY); /* another order */
            assert_int_equal(enter(&peer), IOH__GATE_OPEN);
            assert_int_equal(enter(&peer), IOH__GATE_FULL);
        }
        for (uint32_t i = 0; i < 2 * MANY; i++) {
            struct ioh__peer peer = numbered(i % MANY);
            peer.counted = true;
            ioh__gate_leave(&gate, &peer);
        }
        assert_int_equal(gate.used, 0);
        assert_in_range(gate.room, 1, 64);
    }
}

/* Against a plain array of counts, in a table that is always nearly full. */
static void any_order_of_coming_and_going_keeps_the_counts(void **state)
{
    (void)state;
    enum { ADDRESSES = 96, MOST = 3 };
    uint32_t counts[ADDRESSES] = {0}, used = 0;
    srand(1);
    ioh__gate_init(&gate, 0, MOST);
    for (int i = 0; i < 200000; i++) {
        uint32_t n = (uint32_t)rand() % ADDRESSES;
        struct ioh__peer peer = numbered(n);
        if (rand() % 2) {
            bool full = counts[n] == MOST;
            assert_int_equal(enter(&peer), full ? IOH__GATE_FULL : IOH__GATE_OPEN);
            used += counts[n] == 0;
            counts[n] += !full;
        } else if (counts[n]) {
            peer.counted = true;
            ioh__gate_leave(&gate, &peer);
            used -= --counts[n] == 0;
        }
        assert_int_equal(gate.used, used);
    }
}

static void without_memory_nobody_is_let_in_uncounted(void **state)
{
    (void)state;
    struct ioh__peer peer = numbered(0);
    no_random = 1; /* still works */
    ioh__gate_init(&gate, 0, 1);
    poor = 1;
    assert_int_equal(enter(&peer), IOH__GATE_NO_MEMORY);
    assert_false(peer.counted);
    uint32_t n = 0;
    for (;; n++) { /* a table that cannot grow takes one less than it has room for */
        peer = numbered(n);
        poor = n ? 1 : 0;
        if (enter(&peer) != IOH__GATE_OPEN)
            break;
    }
    assert_int_equal(n, gate.room - 1);
    peer = numbered(1);
    assert_int_equal(enter(&peer), IOH__GATE_FULL);
    poor = 0;
    peer = numbered(n);
    assert_int_equal(enter(&peer), IOH__GATE_OPEN);
    poor = 1000000; /* nor shrink: no harm */
    for (uint32_t i = 0; i <= n; i++) {
        peer = numbered(i);
        peer.counted = true;
        ioh__gate_leave(&gate, &peer);
    }
    assert_int_equal(gate.used, 0);
}

/* ---- threads */

enum { THREADS = 4, TURNS = 20000, MAX_ALL = 3, MAX_ONE = 2 };
static _Atomic int inside, of_one[4], wrong, refused;

static void *come_and_go(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < TURNS; i++) {
        unsigned n = (i + number) % 4;
        struct ioh__peer peer = numbered(n);
        if (!ioh__gate_enter(&gate)) {
            refused++;
            continue;
        }
        wrong += ++inside > MAX_ALL;
        if (enter(&peer) == IOH__GATE_OPEN) {
            wrong += ++of_one[n] > MAX_ONE;
            of_one[n]--;
        }
        inside--;
        ioh__gate_leave(&gate, &peer);
    }
    return NULL;
}

static void no_thread_gets_in_beyond_a_limit(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    ioh__gate_init(&gate, MAX_ALL, MAX_ONE);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, come_and_go, (void *)(uintptr_t)(unsigned)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    assert_int_equal(gate.connections, 0);
    assert_int_equal(gate.used, 0);
}

#define test_of(function) cmocka_unit_test_teardown(function, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of(without_limits_everybody_enters_and_nothing_is_kept),
        test_of(so_many_connections_as_the_limit_says),
        test_of(so_many_of_one_address_whatever_its_port),
        test_of(an_ipv6_host_is_its_64_and_a_mapped_address_is_ipv4),
        test_of(peers_on_unix_sockets_have_no_address),
        test_of(the_table_grows_and_shrinks_with_the_addresses),
        test_of(any_order_of_coming_and_going_keeps_the_counts),
        test_of(without_memory_nobody_is_let_in_uncounted),
        test_of(no_thread_gets_in_beyond_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
