/* What connections of a WebSocket engine hold and when; what happens when memory is short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <wslay/wslay.h>

#include "proto/ws_engine.h"
#include "ws_client.h"

/* ---- memory that runs out when told: the n-th request from now fails; 0: none */

static size_t fail_at;
static size_t requests;      /* of the engine's own memory */
static size_t largest;       /* of them, in bytes */
static size_t fresh_buffers; /* of them, those that did not grow another */
static bool init_fails, recv_fails;
static wslay_event_context_ptr last_context; /* made by the engine */

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
int __real_wslay_event_context_server_init(wslay_event_context_ptr *context,
                                           const struct wslay_event_callbacks *callbacks,
                                           void *user);
int __real_wslay_event_recv(wslay_event_context_ptr context);

static bool refuse(size_t size)
{
    requests++;
    largest = size > largest ? size : largest;
    return fail_at > 0 && --fail_at == 0;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refuse(count * size) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    fresh_buffers += !old;
    return refuse(size) ? NULL : __real_realloc(old, size);
}

int __wrap_wslay_event_context_server_init(wslay_event_context_ptr *context,
                                           const struct wslay_event_callbacks *callbacks,
                                           void *user)
{
    if (refuse(0) || init_fails)
        return WSLAY_ERR_NOMEM;
    int rc = __real_wslay_event_context_server_init(context, callbacks, user);
    last_context = *context;
    return rc;
}

int __wrap_wslay_event_recv(wslay_event_context_ptr context)
{
    return recv_fails ? WSLAY_ERR_NOMEM : __real_wslay_event_recv(context);
}

/* ---- what a connection holds */

static void too_big_a_message_is_refused_by_its_header_before_anything_is_allocated(void **state)
{
    (void)state;
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    for (uint64_t len = 1001; len < 1ull << 62; len *= 3) {
        wire.len = 0;
        put_header(&wire, FIN | BINARY, len, 0);
        struct client c = connect_client(&engine, &wire);
        requests = 0;
        arrive(&c, wire.len);
        assert_string_equal(c.log.text, "fault 1009\n");
        assert_int_equal(requests, 0);
    }
    ioh__ws_engine_destroy(&engine);
}

static void a_short_frame_that_is_not_whole_is_left_where_it_is(void **state)
{
    (void)state;
    static char payload[IOH__WS_WAIT_MAX];
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put(&wire, FIN | BINARY, payload, IOH__WS_WAIT_MAX - 8, 0); /* header: 8 */
    struct client c = connect_client(&engine, &wire);
    c.max_message = 1 << 20;
    for (size_t i = 0; i < 3; i++) {
        arrive(&c, 5000);
        assert_int_equal(c.at, 0);
        assert_null(c.ws.loan);
    }
    arrive(&c, wire.len - c.end);
    assert_string_equal(c.log.text, "binary 16376 bytes\n");
    ioh__ws_engine_destroy(&engine);
}

static void a_frame_above_that_is_taken_as_it_comes(void **state)
{
    (void)state;
    static char payload[IOH__WS_WAIT_MAX];
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put(&wire, FIN | TEXT, payload, IOH__WS_WAIT_MAX - 7, 0);
    struct client c = connect_client(&engine, &wire);
    c.max_message = 1 << 20;
    arrive(&c, 100);
    assert_int_equal(c.at, 100);
    assert_non_null(c.ws.loan);
    assert_int_equal(engine.lent, 1);
    arrive(&c, wire.len - c.end);
    assert_string_equal(c.log.text, "text 16377 bytes\n");
    assert_null(c.ws.loan);
    assert_int_equal(engine.lent, 0);
    assert_int_equal(engine.idle_count, 1);
    ioh__ws_engine_destroy(&engine);
}

static void an_announced_length_allocates_nothing_until_bytes_arrive(void **state)
{
    (void)state;
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put_header(&wire, FIN | BINARY, 16 << 20, 0);
    memset(wire.bytes + wire.len, 0, 100000);
    struct client c = connect_client(&engine, &wire);
    c.max_message = 16 << 20;
    largest = 0;
    arrive(&c, wire.len + 100);
    assert_non_null(c.ws.loan);
    assert_true(largest <= 1024);
    arrive(&c, 100000 - 100);
    assert_true(largest <= 200000);
    leave(&c);
    assert_true(c.ws.ended);
    assert_int_equal(engine.lent, 0);
    assert_int_equal(engine.idle_count, 0); /* inside a message a context is not fit for another */
    ioh__ws_engine_destroy(&engine);
}

static void a_message_stays_valid_until_the_next_call_for_its_connection(void **state)
{
    (void)state;
    struct ioh__ws_engine engine;
    struct ioh__ws one = {0}, other = {0};
    struct ioh__ws_event event, second;
    size_t used;
    uint8_t copy[64];
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put(&wire, TEXT, "one ", 4, 0);
    put(&wire, FIN | CONT, "message", 7, 0);
    memcpy(copy, wire.bytes, wire.len);
    ioh__ws_feed(&engine, &one, wire.bytes, wire.len, 1000, &used, &event);
    assert_int_equal(used, wire.len);
    memset(wire.bytes, 0xee, wire.len); /* the loop's buffer is used again */
    ioh__ws_feed(&engine, &other, copy, wire.len, 1000, &used, &second);
    assert_int_equal(event.len, 11);
    assert_memory_equal(event.data, "one message", 11);
    assert_ptr_not_equal(event.data, second.data);
    assert_int_equal(engine.lent, 2);

    ioh__ws_feed(&engine, &one, wire.bytes, 0, 1000, &used,
                 &event); /* nothing more: holds nothing */
    assert_int_equal(event.kind, IOH__WS_MORE);
    assert_null(one.loan);
    ioh__ws_release(&engine, &other);
    assert_null(other.loan);
    assert_false(other.ended);
    assert_int_equal(engine.lent, 0);
    assert_int_equal(engine.idle_count, 2);
    ioh__ws_engine_destroy(&engine);
}

static void contexts_and_small_buffers_are_used_again(void **state)
{
    (void)state;
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put(&wire, TEXT, "a", 1, 0);
    put(&wire, FIN | CONT, "b", 1, 0);
    struct client first = connect_client(&engine, &wire);
    arrive(&first, wire.len);
    requests = 0;
    for (size_t i = 0; i < 50; i++) {
        struct client c = connect_client(&engine, &wire);
        arrive(&c, wire.len);
        assert_string_equal(c.log.text, "text ab\n");
    }
    assert_int_equal(requests, 0);
    assert_int_equal(engine.idle_count, 1);
    ioh__ws_engine_destroy(&engine);
}

static void a_context_that_saw_a_fault_or_a_close_is_not_used_again(void **state)
{
    (void)state;
    static const struct {
        int b0;
        const char *payload;
    } ends[] = {{FIN | TEXT, "order"},
                {FIN | CONT, "\xff"},
                {FIN | RSV1 | CONT, ""},
                {FIN | CLOSE, ""},
                {FIN | CLOSE, "x"}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        for (int no_fast_path = 0; no_fast_path < 2; no_fast_path++) {
            struct ioh__ws_engine engine;
            ioh__ws_engine_init(&engine);
            engine.no_fast_path = no_fast_path;
            wire.len = 0;
            put(&wire, TEXT, "a", 1, 0);
            put(&wire, ends[i].b0, ends[i].payload, strlen(ends[i].payload), 0);
            struct client c = connect_client(&engine, &wire);
            arrive(&c, wire.len);
            assert_true(c.ws.ended);
            assert_int_equal(engine.lent, 0);
            assert_int_equal(engine.idle_count, 0);
            ioh__ws_engine_destroy(&engine);
        }
    }
}

static void a_lent_context_never_has_anything_to_send(void **state)
{
    (void)state;
    for (int no_fast_path = 0; no_fast_path < 2; no_fast_path++) {
        struct ioh__ws_engine engine;
        ioh__ws_engine_init(&engine);
        engine.no_fast_path = no_fast_path;
        wire.len = 0;
        put(&wire, TEXT, "a", 1, 0);
        put(&wire, FIN | PING, "ping", 4, 0);
        struct client c = connect_client(&engine, &wire);
        arrive(&c, wire.len);
        assert_string_equal(c.log.text, "ping ping\n");
        assert_non_null(c.ws.loan);
        assert_int_equal(wslay_event_get_queued_msg_count(last_context), 0);
        leave(&c);
        ioh__ws_engine_destroy(&engine);
    }
}

static void a_large_buffer_is_not_kept_at_rest(void **state)
{
    (void)state;
    static char payload[70000];
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    for (size_t len = 65536; len <= sizeof payload; len += sizeof payload - 65536) {
        wire.len = 0;
        put(&wire, BINARY, payload, len, 0);
        put(&wire, FIN | CONT, "", 0, 0);
        struct client c = connect_client(&engine, &wire);
        c.max_message = len;
        arrive(&c, wire.len);
        fresh_buffers = 0;
        struct client next = connect_client(&engine, &wire);
        next.max_message = len;
        arrive(&next, wire.len);
        assert_int_equal(fresh_buffers, len > 65536);
        assert_int_equal(engine.idle_count, 1);
    }
    ioh__ws_engine_destroy(&engine);
}

static void at_most_sixteen_contexts_are_kept_at_rest(void **state)
{
    (void)state;
    static struct client clients[40];
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put(&wire, TEXT, "a", 1, 0);
    put(&wire, FIN | CONT, "b", 1, 0);
    for (size_t i = 0; i < 40; i++) {
        clients[i] = connect_client(&engine, &wire);
        arrive(&clients[i], 7);
    }
    assert_int_equal(engine.lent, 40);
    for (size_t i = 0; i < 40; i++)
        arrive(&clients[i], wire.len - 7);
    assert_int_equal(engine.lent, 0);
    assert_int_equal(engine.idle_count, 16);
    ioh__ws_engine_destroy(&engine);
}

static void a_limit_that_sinks_inside_a_message_counts_for_the_next_frame(void **state)
{
    (void)state;
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put(&wire, BINARY, HUNDRED, 100, 0);
    put(&wire, CONT, "", 0, 0);
    put(&wire, CONT, "a", 1, 0);
    struct client c = connect_client(&engine, &wire);
    arrive(&c, 106);
    c.max_message = 50;
    arrive(&c, 6);
    assert_string_equal(c.log.text, "");
    arrive(&c, wire.len - c.end);
    assert_string_equal(c.log.text, "fault 1009\n");
    ioh__ws_engine_destroy(&engine);
}

/* ---- memory */

static void out_of_memory_at_any_place_is_a_fault_and_leaks_nothing(void **state)
{
    (void)state;
    static char payload[40000];
    wire.len = 0;
    put(&wire, TEXT, payload, 900, 0);
    put(&wire, CONT, payload, 2000, 0);
    put(&wire, FIN | PING, "p", 1, 0);
    put(&wire, FIN | CONT, payload, 40000, 0);
    size_t failures = 0;
    for (size_t n = 1;; n++) {
        struct ioh__ws_engine engine;
        ioh__ws_engine_init(&engine);
        struct client c = connect_client(&engine, &wire);
        c.max_message = 1 << 20;
        fail_at = n;
        while (c.end < wire.len)
            arrive(&c, wire.len - c.end < 1000 ? wire.len - c.end : 1000);
        bool reached = fail_at == 0;
        fail_at = 0;
        assert_int_equal(engine.lent, 0);
        assert_int_equal(c.at, wire.len);
        ioh__ws_engine_destroy(&engine);
        if (!reached) {
            assert_string_equal(c.log.text, "ping p\ntext 42900 bytes\n");
            break;
        }
        failures++;
        assert_non_null(strstr(c.log.text, "fault 1011\n"));
        assert_null(strstr(c.log.text, "text"));
    }
    assert_true(failures >= 6); /* the loan, its context, the buffer as it grows */
}

static void out_of_memory_inside_wslay_is_a_fault(void **state)
{
    (void)state;
    for (int no_fast_path = 0; no_fast_path < 2; no_fast_path++) {
        for (size_t cut = 0; cut < 9; cut++) {
            struct ioh__ws_engine engine;
            ioh__ws_engine_init(&engine);
            engine.no_fast_path = no_fast_path;
            wire.len = 0;
            put(&wire, TEXT, "abc", 3, 0);
            put(&wire, FIN | CONT, "def", 3, 0);
            struct client c = connect_client(&engine, &wire);
            arrive(&c, cut);
            recv_fails = true;
            arrive(&c, wire.len - cut);
            recv_fails = false;
            assert_string_equal(c.log.text, "fault 1011\n");
            assert_int_equal(engine.lent, 0);
            ioh__ws_engine_destroy(&engine);
        }
    }
}

static void without_a_context_whole_frames_still_work(void **state)
{
    (void)state;
    struct ioh__ws_engine engine;
    ioh__ws_engine_init(&engine);
    wire.len = 0;
    put(&wire, FIN | TEXT, "a", 1, 0);
    put(&wire, FIN | PING, "b", 1, 0);
    put(&wire, FIN | CLOSE, "\x03\xe8", 2, 0);
    init_fails = true;
    struct client c = connect_client(&engine, &wire);
    arrive(&c, wire.len);
    init_fails = false;
    assert_string_equal(c.log.text, "text a\nping b\nclose 1000 \n");
    ioh__ws_engine_destroy(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_big_a_message_is_refused_by_its_header_before_anything_is_allocated),
        cmocka_unit_test(a_short_frame_that_is_not_whole_is_left_where_it_is),
        cmocka_unit_test(a_frame_above_that_is_taken_as_it_comes),
        cmocka_unit_test(an_announced_length_allocates_nothing_until_bytes_arrive),
        cmocka_unit_test(a_message_stays_valid_until_the_next_call_for_its_connection),
        cmocka_unit_test(contexts_and_small_buffers_are_used_again),
        cmocka_unit_test(a_context_that_saw_a_fault_or_a_close_is_not_used_again),
        cmocka_unit_test(a_lent_context_never_has_anything_to_send),
        cmocka_unit_test(a_large_buffer_is_not_kept_at_rest),
        cmocka_unit_test(at_most_sixteen_contexts_are_kept_at_rest),
        cmocka_unit_test(a_limit_that_sinks_inside_a_message_counts_for_the_next_frame),
        cmocka_unit_test(out_of_memory_at_any_place_is_a_fault_and_leaks_nothing),
        cmocka_unit_test(out_of_memory_inside_wslay_is_a_fault),
        cmocka_unit_test(without_a_context_whole_frames_still_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
