/* The WebSocket handshake (RFC 6455 4.2): requests as text, and what becomes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/error.h>

#include "proto/ws_shake.h"

#define HOST "Host: h\r\n"
#define UPGRADE "Connection: Upgrade\r\nUpgrade: websocket\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define GET "GET /chat HTTP/1.1\r\n" HOST UPGRADE
#define END "\r\n"

static struct ioh__http1_field fields[32];

static struct ioh__http1_head parse(const char *text)
{
    static const struct ioh__http1_limits limits = {
        .max_head = 4096, .max_uri = 1024, .max_headers = 32};
    struct ioh__http1_head head = {.fields = fields};
    struct ioh__http1_fault fault;
    size_t scanned = 0, len = strlen(text);
    if (ioh__http1_parse(text, len, len, &scanned, &limits, &head, &fault) != IOH__HTTP1_DONE)
        fail_msg("not a request: %s", text);
    return head;
}

struct shake_case {
    const char *request;
    int status; /* 0: accepted */
};

static const struct shake_case shake_cases[] = {
    {GET KEY VERSION END, 0},
    {GET VERSION KEY END, 0},
    {GET "SEC-WEBSOCKET-KEY: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version:13\r\n" END, 0},
    {GET "Sec-WebSocket-Key:   dGhlIHNhbXBsZSBub25jZQ==\t \r\n" VERSION END, 0},
    {GET KEY VERSION "Content-Length: 0\r\n" END, 0},
    {GET "Sec-WebSocket-Key: ++//AAAAzzzzZZZZaaaa9A==\r\n" VERSION END, 0},

    /* the method, and a body */
    {"POST / HTTP/1.1\r\n" HOST UPGRADE KEY VERSION END, 400},
    {"HEAD / HTTP/1.1\r\n" HOST UPGRADE KEY VERSION END, 400},
    {"get / HTTP/1.1\r\n" HOST UPGRADE KEY VERSION END, 400},
    {"GETS / HTTP/1.1\r\n" HOST UPGRADE KEY VERSION END, 400},
    {GET KEY VERSION "Content-Length: 1\r\n" END, 400},
    {GET KEY VERSION "Transfer-Encoding: chunked\r\n" END, 400},

    /* the key: once, 16 bytes in base64 */
    {GET VERSION END, 400},
    {GET KEY KEY VERSION END, 400},
    {GET KEY "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" VERSION END, 400},
    {GET "Sec-WebSocket-Key:\r\n" VERSION END, 400},
    {GET "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=\r\n" VERSION END, 400},
    {GET "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ\r\n" VERSION END, 400},
    {GET "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ===\r\n" VERSION END, 400},
    {GET "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ== x\r\n" VERSION END, 400},
    {GET "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWFh\r\n" VERSION END, 400}, /* 18 bytes */
    {GET "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWE=\r\n" VERSION END, 400}, /* 17 bytes */
    {GET "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j====\r\n" VERSION END, 400},
    {GET "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZ=Q=\r\n" VERSION END, 400},
    {GET "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZ-==\r\n" VERSION END, 400},
    {GET "Sec-WebSocket-Key: dGhlIHNhbXBs SBub25jZQ==\r\n" VERSION END, 400},
    {GET "Sec-WebSocket-Key: dGhl=HNhbXBsZSBub25jZQ==\r\n" VERSION END, 400},

    /* the version: once, 13 */
    {GET KEY END, 400},
    {GET KEY VERSION VERSION END, 400},
    {GET KEY "Sec-WebSocket-Version: 8\r\n" END, 426},
    {GET KEY "Sec-WebSocket-Version: 14\r\n" END, 426},
    {GET KEY "Sec-WebSocket-Version: 013\r\n" END, 426},
    {GET KEY "Sec-WebSocket-Version: 130\r\n" END, 426},
    {GET KEY "Sec-WebSocket-Version: 1\r\n" END, 426},
    {GET KEY "Sec-WebSocket-Version: 13, 8\r\n" END, 426},
    {GET KEY "Sec-WebSocket-Version: \r\n" END, 426},
    {GET "Sec-WebSocket-Version: 8\r\n" END, 426}, /* another version may have another key */
};

static void each_request_is_accepted_or_refused_with_its_status(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shake_cases / sizeof shake_cases[0]; i++) {
        const struct shake_case *c = &shake_cases[i];
        struct ioh__http1_head head = parse(c->request);
        struct ioh__http1_fault fault = {0};
        struct ioh_str key = {NULL, 0};
        assert_true(head.upgrade_websocket);
        bool accepted = ioh__ws_shake_check(c->request, &head, &key, &fault);
        if (accepted != (c->status == 0) || fault.status != c->status)
            fail_msg("case %zu: %d instead of %d", i, fault.status, c->status);
        if (accepted) {
            assert_int_equal(key.len, 24);
        } else {
            assert_non_null(fault.reason);
            assert_true(fault.offset < head.len);
        }
    }
}

static void the_key_that_is_answered_points_into_the_request(void **state)
{
    (void)state;
    static const char request[] = GET KEY VERSION END;
    struct ioh__http1_head head = parse(request);
    struct ioh__http1_fault fault;
    struct ioh_str key;
    assert_true(ioh__ws_shake_check(request, &head, &key, &fault));
    assert_ptr_equal(key.ptr, strstr(request, "dGhl"));
}

static void the_key_of_the_rfc_gets_the_answer_of_the_rfc(void **state)
{
    (void)state;
    char out[IOH__WS_ACCEPT_LEN + 1];
    memset(out, 'x', sizeof out);
    struct ioh_str key = {"dGhlIHNhbXBsZSBub25jZQ==", 24};
    assert_int_equal(ioh__ws_accept_key(key, out), IOH_OK);
    assert_memory_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", IOH__WS_ACCEPT_LEN); /* RFC 6455 1.3 */
    assert_int_equal(out[IOH__WS_ACCEPT_LEN], 'x');
}

static void a_key_of_another_length_has_no_answer(void **state)
{
    (void)state;
    char out[IOH__WS_ACCEPT_LEN];
    struct ioh_str key = {"dGhlIHNhbXBsZSBub25jZQ===", 25};
    assert_int_equal(ioh__ws_accept_key(key, out), IOH_EINVAL);
    key.len = 23;
    assert_int_equal(ioh__ws_accept_key(key, out), IOH_EINVAL);
}

static void a_subprotocol_is_found_in_any_field_and_only_as_a_whole(void **state)
{
    (void)state;
    static const char request[] =
        GET KEY VERSION "Sec-WebSocket-Protocol: chat,superchat ,\tv1.x\r\n"
                        "Accept: soap\r\n"
                        "sec-websocket-protocol: ,, mqtt\r\n" END;
    static const struct {
        const char *protocol;
        bool offered;
    } cases[] = {
        {"chat", true},   {"superchat", true},       {"v1.x", true},
        {"mqtt", true},   {"Chat", false},           {"MQTT", false},
        {"super", false}, {"soap", false},           {"cha", false},
        {"chats", false}, {"chat,superchat", false}, {"", false},
    };
    struct ioh__http1_head head = parse(request);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(ioh__ws_protocol_offered(request, &head, cases[i].protocol),
                         cases[i].offered);
}

static void without_the_field_no_subprotocol_is_offered(void **state)
{
    (void)state;
    static const char request[] = GET KEY VERSION END;
    struct ioh__http1_head head = parse(request);
    assert_false(ioh__ws_protocol_offered(request, &head, "chat"));
    assert_false(ioh__ws_protocol_offered(request, &head, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_is_accepted_or_refused_with_its_status),
        cmocka_unit_test(the_key_that_is_answered_points_into_the_request),
        cmocka_unit_test(the_key_of_the_rfc_gets_the_answer_of_the_rfc),
        cmocka_unit_test(a_key_of_another_length_has_no_answer),
        cmocka_unit_test(a_subprotocol_is_found_in_any_field_and_only_as_a_whole),
        cmocka_unit_test(without_the_field_no_subprotocol_is_offered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
