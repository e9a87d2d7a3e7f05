/* Lists of address prefixes. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include <iohandler/error.h>

#include "net/prefix.h"

static bool poor;
static char error[IOH__ERROR_TEXT];

void *__real_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return poor ? NULL : __real_malloc(size);
}

static struct ioh__prefixes *read_list(const char *text)
{
    struct ioh__prefixes *list = NULL;
    if (ioh__prefixes_read(&list, text, error))
        fail_msg("%s: %s", text, error);
    return list;
}

static struct ioh__peer peer_of(const char *text)
{
    struct ioh__peer peer = {.family = AF_UNIX, .port = 4711};
    if (strcmp(text, "unix:") != 0) {
        peer.family = strchr(text, ':') ? AF_INET6 : AF_INET;
        assert_int_equal(inet_pton(peer.family, text, peer.address), 1);
    }
    return peer;
}

static void expect(const char *text, const char *address, bool there)
{
    struct ioh__prefixes *list = read_list(text);
    struct ioh__peer peer = peer_of(address);
    if (ioh__prefixes_have(list, &peer) != there)
        fail_msg("%s in %s: %d", address, text, !there);
    free(list);
}

static void an_address_alone_is_only_itself(void **state)
{
    (void)state;
    expect("127.0.0.1", "127.0.0.1", true);
    expect("127.0.0.1", "127.0.0.2", false);
    expect("127.0.0.1", "::1", false);
    expect("127.0.0.1", "unix:", false);
    expect("::1", "::1", true);
    expect("::1", "::2", false);
    expect("::1", "0.0.0.1", false);
    expect("unix:", "unix:", true);
    expect("unix:", "0.0.0.0", false);
    expect("unix:", "::", false);
    expect("0.0.0.0", "unix:", false);
}

static void a_prefix_is_all_that_begin_with_its_bits(void **state)
{
    (void)state;
    expect("10.0.0.0/8", "10.255.1.2", true);
    expect("10.0.0.0/8", "11.0.0.0", false);
    expect("10.16.0.0/12", "10.31.255.255", true);
    expect("10.16.0.0/12", "10.32.0.0", false);
    expect("10.16.0.0/12", "10.15.255.255", false);
    expect("192.0.2.0/31", "192.0.2.1", true);
    expect("192.0.2.0/31", "192.0.2.2", false);
    expect("192.0.2.3/32", "192.0.2.3", true);
    expect("192.0.2.3/32", "192.0.2.2", false);
    expect("0.0.0.0/0", "255.1.2.3", true);
    expect("0.0.0.0/0", "::1", false);
    expect("::/0", "2001:db8::1", true);
    expect("::/0", "1.2.3.4", false);
    expect("2001:db8::/33", "2001:db8:7fff::1", true);
    expect("2001:db8::/33", "2001:db8:8000::1", false);
    expect("2001:db8::1/128", "2001:db8::1", true);
    expect("2001:db8::/127", "2001:db8::2", false);
}

static void a_list_has_any_of_its_entries(void **state)
{
    (void)state;
    static const char list[] = " 127.0.0.1,10.0.0.0/8 ,\t::1 , unix:,2001:db8::/32\t";
    static const char *const in[] = {"127.0.0.1", "10.1.1.1", "::1", "unix:", "2001:db8:ffff::"};
    static const char *const out[] = {"127.0.0.2", "9.255.255.255", "::", "2001:db7::"};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        expect(list, in[i], true);
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        expect(list, out[i], false);
}

static void what_cannot_be_read_is_refused_with_the_entry(void **state)
{
    (void)state;
    static const struct {
        const char *list, *entry;
    } bad[] = {
        {"", "\"\""},
        {" ", "\"\""},
        {",", "\"\""},
        {"127.0.0.1,", "\"\""},
        {"127.0.0.1,,::1", "\"\""},
        {"127.0.0.1 ::1", "\"127.0.0.1 ::1\""},
        {"::1, localhost", "\"localhost\""},
        {"127.0.0.1:80", "\"127.0.0.1:80\""},
        {"[::1]", "\"[::1]\""},
        {"10.0.0.0/", "\"10.0.0.0/\""},
        {"10.0.0.0/33", "/33\""},
        {"::/129", "/129\""},
        {"10.0.0.0/-1", "/-1\""},
        {"10.0.0.0/+8", "/+8\""},
        {"10.0.0.0/8x", "/8x\""},
        {"10.0.0.0/0008", "/0008\""},
        {"10.0.0.0/4294967304", "/4294967304\""},
        {"10.0.0.0/8/8", "/8/8\""},
        {"10.0.0.1/8", "bits behind the prefix"},
        {"10.0.0.1/31", "bits behind the prefix"},
        {"2001:db8::1/64", "bits behind the prefix"},
        {"1.2.3.4/0", "bits behind the prefix"},
        {"unix", "\"unix\""},
        {"unix:/8", "\"unix:/8\""},
        {"unix:/run/x", "\"unix:/run/x\""},
        {"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000", "too long"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ioh__prefixes *list = NULL;
        assert_int_equal(ioh__prefixes_read(&list, bad[i].list, error), IOH_EADDR);
        assert_null(list);
        if (!strstr(error, bad[i].entry))
            fail_msg("%s: %s", bad[i].list, error);
    }
}

static void without_memory_it_says_so(void **state)
{
    (void)state;
    struct ioh__prefixes *list = NULL;
    poor = true;
    int rc = ioh__prefixes_read(&list, "::1", error);
    poor = false;
    assert_int_equal(rc, IOH_ENOMEM);
    assert_non_null(strstr(error, "memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_alone_is_only_itself),
        cmocka_unit_test(a_prefix_is_all_that_begin_with_its_bits),
        cmocka_unit_test(a_list_has_any_of_its_entries),
        cmocka_unit_test(what_cannot_be_read_is_refused_with_the_entry),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
