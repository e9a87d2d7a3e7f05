/* Options and the other structs that a host hands in: defaults, ranges, sizes of other versions. No
 * server is started here except to see that it starts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/iohandler.h>

#include "base/cpu.h"
#include "server/server.h"

static char error[IOH__ERROR_TEXT];
static struct ioh_options given, got;

static int forget(void **state)
{
    (void)state;
    error[0] = '\0';
    given = (struct ioh_options)IOH_OPTIONS_INIT;
    return 0;
}

static int read_given(void)
{
    return ioh__options_read(&got, &given, error);
}

/* ---- one by one */

/* Field, width and documented default; 0: depends on the machine. */
#define FIELD(name) #name, offsetof(struct ioh_options, name), sizeof(given.name)
static const struct {
    const char *name;
    size_t offset, width;
    uint64_t by_default;
} fields[] = {
    {FIELD(type), IOH_EPOLL},
    {FIELD(exec), IOH_EXEC_AUTO},
    {FIELD(epoll_threads), 0},
    {FIELD(work_op_threads), 0},
    {FIELD(pool_threads), 0},
    {FIELD(pool_queue), 1024},
    {FIELD(pool_full), IOH_FULL_DEFAULT},
    {FIELD(handoff_us), 500},
    {FIELD(pool_nice), 0},
    {FIELD(no_environment), 0},
    {FIELD(max_head_bytes), 16384},
    {FIELD(max_uri_bytes), 8192},
    {FIELD(max_headers), 100},
    {FIELD(max_body_bytes), 67108864},
    {FIELD(max_requests), 0},
    {FIELD(timings), 0},
    {FIELD(max_connections), 0},
    {FIELD(max_per_address), 0},
    {FIELD(compress), 0}, /* a pointer, which is only looked at by the server */
    {FIELD(compress_min), 1024},
    {FIELD(compress_level), 4},
    {FIELD(head_timeout_ms), 10000},
    {FIELD(idle_timeout_ms), 60000},
    {FIELD(body_timeout_ms), 30000},
    {FIELD(write_timeout_ms), 30000},
    {FIELD(close_timeout_ms), 5000},
    {FIELD(min_rate), 1024},
    {FIELD(ws_max_message), 16777216},
    {FIELD(ws_ping_ms), 25000},
    {FIELD(ws_dead_ms), 50000},
    {FIELD(ws_deflate), IOH_DEFLATE_OFF},
    {FIELD(ws_deflate_min), 256},
    {FIELD(ws_deflate_level), 1},
    {FIELD(ws_deflate_window), 15},
    {FIELD(send_high), 262144},
    {FIELD(send_low), 65536},
    {FIELD(send_max), 16777216},
    {FIELD(send_full), IOH_SEND_FULL_CLOSE},
    {FIELD(keep_fd_limit), 0},
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)

static size_t find_field(const char *name)
{
    size_t i = 0;
    while (i < FIELD_COUNT && strcmp(fields[i].name, name) != 0)
        i++;
    assert_true(i < FIELD_COUNT);
    return i;
}

static uint64_t get(const struct ioh_options *o, size_t field)
{
    uint32_t narrow;
    uint64_t wide;
    const char *at = (const char *)o + fields[field].offset;
    memcpy(&narrow, at, sizeof narrow);
    if (fields[field].width == sizeof narrow)
        return narrow;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static void set(struct ioh_options *o, size_t field, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    char *at = (char *)o + fields[field].offset;
    if (fields[field].width == sizeof narrow)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &value, sizeof value);
}

static void the_table_of_this_test_has_every_option(void **state)
{
    (void)state;
    size_t at = sizeof(size_t);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        at = (at + fields[i].width - 1) / fields[i].width * fields[i].width;
        assert_int_equal(fields[i].offset, at);
        at += fields[i].width;
    }
    assert_int_equal(sizeof(struct ioh_options), (at + 7) / 8 * 8);
}

static void check_defaults(void)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        uint64_t want = fields[i].by_default;
        if (i == find_field("epoll_threads"))
            want = ioh__cpu_count();
        if (i == find_field("pool_threads"))
            want = 8 * ioh__cpu_count();
        if (get(&got, i) != want)
            print_error("options.%s\n", fields[i].name);
        assert_int_equal(get(&got, i), want);
    }
    assert_int_equal(got.size, sizeof got);
}

static void zeros_and_no_options_at_all_mean_every_default(void **state)
{
    (void)state;
    assert_int_equal(read_given(), 0);
    check_defaults();
    memset(&got, 0xff, sizeof got);
    assert_int_equal(ioh__options_read(&got, NULL, error), 0);
    check_defaults();
    assert_string_equal(error, "");
}

/* What a host may say of each option while it leaves the others alone. */
static const struct range {
    const char *name;
    uint64_t least, most; /* the least beside 0 */
} ranges[] = {
    {"type", IOH_EPOLL, IOH_THREADS},
    {"exec", IOH_EXEC_AUTO, IOH_EXEC_AFFINE},
    {"epoll_threads", 1, 256},
    {"work_op_threads", 1, 10000},
    {"pool_threads", 1, 10000},
    {"pool_queue", 1, UINT32_MAX},
    {"pool_full", IOH_FULL_DEFAULT, IOH_FULL_CLOSE},
    {"handoff_us", 1, UINT32_MAX},
    {"pool_nice", 1, 20},
    {"no_environment", 0, 1},
    {"max_head_bytes", 64, 65535},
    {"max_uri_bytes", 1, 16384},
    {"max_headers", 1, 1000},
    {"max_body_bytes", 1, UINT64_MAX},
    {"max_requests", 1, UINT32_MAX},
    {"timings", 0, 1},
    {"max_connections", 1, UINT32_MAX},
    {"max_per_address", 1, UINT32_MAX},
    {"compress", 0, UINTPTR_MAX},
    {"compress_min", 1, UINT32_MAX},
    {"compress_level", 1, 9},
    {"head_timeout_ms", 1, UINT32_MAX},
    {"idle_timeout_ms", 1, UINT32_MAX},
    {"body_timeout_ms", 1, UINT32_MAX},
    {"write_timeout_ms", 1, UINT32_MAX},
    {"close_timeout_ms", 1, UINT32_MAX},
    {"min_rate", 1, UINT32_MAX},
    {"ws_max_message", 1, UINT64_MAX},
    {"ws_ping_ms", 1, UINT32_MAX},
    {"ws_dead_ms", 25001, UINT32_MAX},
    {"ws_deflate", IOH_DEFLATE_OFF, IOH_DEFLATE_TAKEOVER},
    {"ws_deflate_min", 1, UINT32_MAX},
    {"ws_deflate_level", 1, 9},
    {"ws_deflate_window", 9, 15},
    {"send_high", 1, UINT64_MAX},
    {"send_low", 1, 262144},
    {"send_max", 262144, UINT64_MAX},
    {"send_full", IOH_SEND_FULL_CLOSE, IOH_SEND_FULL_DROP},
    {"keep_fd_limit", 0, 1},
};

static int read_with(const char *name, uint64_t value)
{
    given = (struct ioh_options)IOH_OPTIONS_INIT;
    set(&given, find_field(name), value);
    error[0] = '\0';
    return read_given();
}

static void an_option_within_its_range_is_taken_as_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        const uint64_t values[] = {ranges[i].least, ranges[i].most};
        for (size_t k = 0; k < 2; k++) {
            if (read_with(ranges[i].name, values[k]))
                print_error("%s\n", error);
            assert_int_equal(read_with(ranges[i].name, values[k]), 0);
            assert_true(get(&got, find_field(ranges[i].name)) == values[k]);
        }
    }
}

static void an_option_beyond_its_range_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        size_t field = find_field(ranges[i].name);
        uint64_t top = fields[field].width == 4 ? UINT32_MAX : UINT64_MAX;
        const uint64_t values[] = {ranges[i].least - 1, ranges[i].most + 1, top};
        for (size_t k = 0; k < 3; k++) {
            if (values[k] == 0 || (values[k] >= ranges[i].least && values[k] <= ranges[i].most) ||
                values[k] > top)
                continue;
            assert_int_equal(read_with(ranges[i].name, values[k]), IOH_EINVAL);
            char want[64];
            snprintf(want, sizeof want, "options.%s: ", ranges[i].name);
            assert_memory_equal(error, want, strlen(want));
        }
    }
}

static void every_option_has_a_range_here(void **state)
{
    (void)state;
    assert_int_equal(sizeof ranges / sizeof *ranges, FIELD_COUNT);
    for (size_t i = 0; i < FIELD_COUNT; i++)
        assert_string_equal(ranges[i].name, fields[i].name);
}

static void an_unknown_or_negative_choice_is_refused_and_told_as_given(void **state)
{
    (void)state;
    static const int32_t bad[] = {-1, 4, 77, INT32_MIN, INT32_MAX};
    static const char *const choices[] = {"type", "exec", "pool_full", "send_full"};
    char text[40];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (size_t k = 0; k < sizeof choices / sizeof *choices; k++) {
            snprintf(text, sizeof text, "options.%s: %d is not", choices[k], bad[i]);
            assert_int_equal(read_with(choices[k], (uint32_t)bad[i]), IOH_EINVAL);
            assert_memory_equal(error, text, strlen(text));
        }
    }
    assert_int_equal(read_with("type", 2), IOH_EINVAL);
    assert_int_equal(read_with("send_full", 2), IOH_EINVAL);
}

/* ---- options that depend on each other */

static void the_default_of_send_low_is_a_quarter_of_send_high(void **state)
{
    (void)state;
    given.send_high = 1000;
    assert_int_equal(read_given(), 0);
    assert_int_equal(got.send_low, 250);
    given.send_low = 1000;
    assert_int_equal(read_given(), 0);
    given.send_low = 1001;
    assert_int_equal(read_given(), IOH_EINVAL);
    given.send_low = 0;
    given.send_max = 999;
    assert_int_equal(read_given(), IOH_EINVAL);
    given.send_max = 1000;
    assert_int_equal(read_given(), 0);
}

/* A host that makes one limit smaller or larger has not asked for the default of the other. */
static void a_default_gives_way_to_what_the_host_asked_for(void **state)
{
    (void)state;
    given.max_head_bytes = 4096;
    if (read_given())
        print_error("%s\n", error);
    assert_int_equal(read_given(), 0);
    assert_int_equal(got.max_uri_bytes, 4096);
    given = (struct ioh_options)IOH_OPTIONS_INIT;
    given.send_high = 64u << 20;
    if (read_given())
        print_error("%s\n", error);
    assert_int_equal(read_given(), 0);
    assert_true(got.send_max >= got.send_high);
}

/* ---- hosts of other versions */

#define VERSION_1_OPTIONS (offsetof(struct ioh_options, keep_fd_limit) + sizeof(uint32_t))

static void options_of_a_size_below_version_1_are_refused(void **state)
{
    (void)state;
    for (size_t size = 0; size < VERSION_1_OPTIONS; size++) {
        given.size = size;
        assert_int_equal(read_given(), IOH_EVERSION);
    }
}

static void options_of_an_older_host_count_as_zero_where_it_has_none(void **state)
{
    (void)state;
    /* Behind the host's struct lies something else. */
    char *old = malloc(sizeof given + 64);
    assert_non_null(old);
    memset(old, 0xff, sizeof given + 64);
    given.size = VERSION_1_OPTIONS;
    given.max_headers = 7;
    memcpy(old, &given, VERSION_1_OPTIONS);
    assert_int_equal(ioh__options_read(&got, (struct ioh_options *)(void *)old, error), 0);
    assert_int_equal(got.max_headers, 7);
    assert_int_equal(got.size, sizeof got);
    got.max_headers = 100;
    check_defaults();
    free(old);
}

static void options_of_a_newer_host_are_read_as_far_as_they_are_known(void **state)
{
    (void)state;
    char *newer = malloc(sizeof given + 64);
    assert_non_null(newer);
    memset(newer, 0xff, sizeof given + 64);
    given.size = sizeof given + 64;
    given.max_headers = 7;
    memcpy(newer, &given, sizeof given);
    assert_int_equal(ioh__options_read(&got, (struct ioh_options *)(void *)newer, error), 0);
    assert_int_equal(got.max_headers, 7);
    assert_int_equal(got.size, sizeof got);
    free(newer);
}

/* A handler on the heap, exactly as long as it says, so that a read beyond is seen. */
static int create_with_handler(size_t size, ioh_server **server)
{
    struct ioh_handler whole = IOH_HANDLER_INIT;
    whole.size = size;
    size_t room = size < sizeof(size_t) ? sizeof(size_t) : size;
    char *mine = malloc(room);
    assert_non_null(mine);
    memset(mine, 0, room);
    memcpy(mine, &whole, size < sizeof whole ? (size ? size : sizeof(size_t)) : sizeof whole);
    memcpy(mine, &size, sizeof size);
    int rc = ioh_server_create(server, (struct ioh_handler *)(void *)mine, NULL, NULL);
    free(mine);
    return rc;
}

#define VERSION_1_HANDLER (offsetof(struct ioh_handler, on_ws_close) + sizeof(void (*)(void)))

static void handlers_of_a_size_below_version_1_are_refused(void **state)
{
    (void)state;
    for (size_t size = 0; size < VERSION_1_HANDLER; size++) {
        ioh_server *server = (ioh_server *)(void *)error;
        int rc = create_with_handler(size, &server);
        if (rc != IOH_EVERSION) {
            print_error("a handler of %zu bytes: %d\n", size, rc);
            ioh_server_destroy(server);
        }
        assert_int_equal(rc, IOH_EVERSION);
        assert_null(server);
    }
}

static void handlers_of_version_1_and_of_newer_hosts_are_taken(void **state)
{
    (void)state;
    static const size_t sizes[] = {VERSION_1_HANDLER, sizeof(struct ioh_handler),
                                   sizeof(struct ioh_handler) + 64};
    for (size_t i = 0; i < 3; i++) {
        ioh_server *server = NULL;
        assert_int_equal(create_with_handler(sizes[i], &server), 0);
        assert_int_equal(server->handler.size, sizeof(struct ioh_handler));
        ioh_server_destroy(server);
    }
}

static ioh_server *create(const struct ioh_options *options)
{
    struct ioh_handler handler = IOH_HANDLER_INIT;
    ioh_server *server = NULL;
    assert_int_equal(ioh_server_create(&server, &handler, options, NULL), 0);
    assert_non_null(server);
    return server;
}

static void listen_options_below_version_1_are_refused_and_newer_ones_taken(void **state)
{
    (void)state;
    ioh_server *server = create(NULL);
    struct {
        struct ioh_listen_options known;
        uint64_t unknown;
    } newer = {{.size = sizeof newer}, UINT64_MAX};
    for (newer.known.size = 0; newer.known.size < 16; newer.known.size++)
        assert_int_equal(ioh_server_listen(server, "127.0.0.1:0", &newer.known), IOH_EVERSION);
    assert_int_equal(ioh_server_listen(server, "127.0.0.1:0", &newer.known), 0);
    newer.known.size = sizeof newer;
    assert_int_equal(ioh_server_listen(server, "127.0.0.1:0", &newer.known), 1);
    assert_int_equal(ioh_server_listen(server, "127.0.0.1:0", NULL), 2);
    ioh_server_destroy(server);
}

static void stats_below_version_1_are_refused_and_newer_ones_filled_as_far_as_known(void **state)
{
    (void)state;
    ioh_server *server = create(NULL);
    struct {
        struct ioh_stats known;
        uint64_t unknown;
    } newer;
    size_t version_1 = offsetof(struct ioh_stats, fd_limit) + sizeof(uint64_t);
    memset(&newer, 0xff, sizeof newer);
    for (size_t size = 0; size < version_1; size++) {
        newer.known.size = size;
        assert_int_equal(ioh_server_stats(server, &newer.known), IOH_EVERSION);
        assert_true(newer.known.accepted == UINT64_MAX);
    }
    newer.known.size = sizeof newer;
    assert_int_equal(ioh_server_stats(server, &newer.known), 0);
    assert_int_equal(newer.known.size, sizeof newer);
    assert_int_equal(newer.known.accepted, 0);
    assert_true(newer.unknown == UINT64_MAX);
    ioh_server_destroy(server);
}

/* ---- the server object */

static void arguments_that_are_missing_are_refused(void **state)
{
    (void)state;
    struct ioh_handler handler = IOH_HANDLER_INIT;
    ioh_server *server = (ioh_server *)(void *)error;
    assert_int_equal(ioh_server_create(NULL, &handler, NULL, NULL), IOH_EINVAL);
    assert_int_equal(ioh_server_create(&server, NULL, NULL, NULL), IOH_EINVAL);
    assert_null(server);
    ioh_server_destroy(NULL);
}

static void options_too_small_leave_no_server(void **state)
{
    (void)state;
    struct ioh_handler handler = IOH_HANDLER_INIT;
    ioh_server *server = (ioh_server *)(void *)error;
    given.size = VERSION_1_OPTIONS - 1;
    assert_int_equal(ioh_server_create(&server, &handler, &given, NULL), IOH_EVERSION);
    assert_null(server);
}

static void a_bad_option_leaves_a_server_that_tells_it_and_can_only_be_destroyed(void **state)
{
    (void)state;
    struct ioh_handler handler = IOH_HANDLER_INIT;
    ioh_server *server = NULL;
    given.max_headers = 1001;
    assert_int_equal(ioh_server_create(&server, &handler, &given, NULL), IOH_EINVAL);
    assert_non_null(server);
    assert_string_equal(ioh_server_error(server),
                        "options.max_headers: 1001 is not between 1 and 1000");
    assert_int_equal(ioh_server_listen(server, "127.0.0.1:0", NULL), IOH_ESTATE);
    assert_int_equal(ioh_server_start(server), IOH_ESTATE);
    assert_int_equal(ioh_server_stop(server, 0), IOH_ESTATE);
    assert_int_equal(ioh_server_threads(server), 0);
    ioh_server_destroy(server);
}

static void a_good_server_has_no_error_text(void **state)
{
    (void)state;
    ioh_server *server = create(NULL);
    assert_string_equal(ioh_server_error(server), "");
    ioh_server_destroy(server);
}

static void the_options_are_copied(void **state)
{
    (void)state;
    given.max_headers = 9;
    ioh_server *server = create(&given);
    given.max_headers = 10;
    assert_int_equal(server->options.max_headers, 9);
    ioh_server_destroy(server);
}

static void a_bad_address_is_told_and_the_server_goes_on(void **state)
{
    (void)state;
    char text[128], small[10];
    ioh_server *server = create(NULL);
    assert_int_equal(ioh_server_listen(server, "nowhere", NULL), IOH_EADDR);
    assert_non_null(strstr(ioh_server_error(server), "nowhere"));
    assert_int_equal(ioh_server_listen(server, NULL, NULL), IOH_EINVAL);
    assert_int_equal(ioh_server_listen(server, "127.0.0.1:0", NULL), 0);
    assert_int_equal(ioh_server_address(server, 0, text, sizeof text), 0);
    assert_int_equal(ioh_server_listen(server, text, NULL), IOH_EADDRINUSE);
    assert_non_null(strstr(ioh_server_error(server), text));
    assert_int_equal(ioh_server_listen(server, "127.0.0.1:0", NULL), 1);
    assert_int_equal(ioh_server_address(server, 2, text, sizeof text), IOH_EINVAL);
    assert_int_equal(ioh_server_address(server, -1, text, sizeof text), IOH_EINVAL);
    assert_int_equal(ioh_server_address(server, 0, NULL, 0), IOH_EINVAL);
    assert_int_equal(ioh_server_address(server, 0, small, sizeof small), IOH_ETOOBIG);
    assert_string_equal(small, "127.0.0.1");
    ioh_server_destroy(server);
}

static void a_server_is_started_and_stopped_once(void **state)
{
    (void)state;
    given.exec = IOH_EXEC_INLINE;
    given.epoll_threads = 3;
    given.keep_fd_limit = 1;
    ioh_server *server = create(&given);
    assert_int_equal(ioh_server_stop(server, 0), IOH_ESTATE);
    assert_int_equal(ioh_server_start(server), 0);
    assert_int_equal(ioh_server_threads(server), 3);
    assert_int_equal(ioh_server_loop_connections(server, NULL, 0), 3);
    assert_int_equal(ioh_server_start(server), IOH_ESTATE);
    assert_int_equal(ioh_server_listen(server, "127.0.0.1:0", NULL), IOH_ESTATE);
    assert_int_equal(ioh_server_stop(server, 0), 0);
    assert_int_equal(ioh_server_threads(server), 0);
    assert_int_equal(ioh_server_stop(server, 0), IOH_ESTATE);
    assert_int_equal(ioh_server_start(server), IOH_ESTATE);
    ioh_server_destroy(server);
}

static void smallest_and_largest_values_together_make_a_server_that_starts(void **state)
{
    (void)state;
    for (int largest = 0; largest < 2; largest++) {
        given = (struct ioh_options)IOH_OPTIONS_INIT;
        for (size_t i = 0; i < FIELD_COUNT; i++)
            set(&given, i, largest ? ranges[i].most : ranges[i].least);
        given.max_uri_bytes = largest ? 65535 : 1;
        given.send_low = largest ? UINT64_MAX : 1;
        given.type = IOH_EPOLL;
        given.epoll_threads = largest ? 8 : 1;
        given.work_op_threads = given.pool_threads = largest ? 16 : 1;
        given.keep_fd_limit = 1;
        given.compress = largest ? "*" : NULL;
        ioh_server *server = create(&given);
        assert_int_equal(ioh_server_listen(server, "127.0.0.1:0", NULL), 0);
        assert_int_equal(ioh_server_start(server), 0);
        assert_int_equal(ioh_server_stop(server, UINT32_MAX), 0);
        ioh_server_destroy(server);
    }
}

#define test_of(test) cmocka_unit_test_setup(test, forget)

int main(void)
{
    static const char *const variables[] = {"IOH_TYPE",          "IOH_EXEC",
                                            "IOH_EPOLL_THREADS", "IOH_WORK_OP_THREADS",
                                            "IOH_POOL_THREADS",  "IOH_POOL_QUEUE"};
    const struct CMUnitTest tests[] = {
        test_of(the_table_of_this_test_has_every_option),
        test_of(zeros_and_no_options_at_all_mean_every_default),
        test_of(an_option_within_its_range_is_taken_as_it_is),
        test_of(an_option_beyond_its_range_is_refused_by_name),
        test_of(every_option_has_a_range_here),
        test_of(an_unknown_or_negative_choice_is_refused_and_told_as_given),
        test_of(the_default_of_send_low_is_a_quarter_of_send_high),
        test_of(a_default_gives_way_to_what_the_host_asked_for),
        test_of(options_of_a_size_below_version_1_are_refused),
        test_of(options_of_an_older_host_count_as_zero_where_it_has_none),
        test_of(options_of_a_newer_host_are_read_as_far_as_they_are_known),
        test_of(handlers_of_a_size_below_version_1_are_refused),
        test_of(handlers_of_version_1_and_of_newer_hosts_are_taken),
        test_of(listen_options_below_version_1_are_refused_and_newer_ones_taken),
        test_of(stats_below_version_1_are_refused_and_newer_ones_filled_as_far_as_known),
        test_of(arguments_that_are_missing_are_refused),
        test_of(options_too_small_leave_no_server),
        test_of(a_bad_option_leaves_a_server_that_tells_it_and_can_only_be_destroyed),
        test_of(a_good_server_has_no_error_text),
        test_of(the_options_are_copied),
        test_of(a_bad_address_is_told_and_the_server_goes_on),
        test_of(a_server_is_started_and_stopped_once),
        test_of(smallest_and_largest_values_together_make_a_server_that_starts),
    };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]); /* server_environment.c is about them */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
