/* The small grammar of HTTP/1: tokens, values, lists, hosts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/http1_field.h"
#include "proto/http1_parse.h"

static void a_token_is_made_of_the_bytes_of_the_grammar(void **state)
{
    static const char tchar[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    (void)state;
    for (int c = 0; c < 256; c++) {
        char s[2] = {'a', (char)c};
        bool is = c != 0 && strchr(tchar, c) != NULL;
        assert_int_equal(ioh__is_token(s, 2), is);
        assert_int_equal(ioh__is_token(s + 1, 1), is);
    }
    assert_false(ioh__is_token("", 0));
}

static void a_value_has_no_control_byte_wherever_it_stands(void **state)
{
    (void)state;
    for (size_t len = 0; len <= 20; len++) {
        for (size_t at = 0; at < len; at++) {
            for (int c = 0; c < 256; c++) {
                char *s = malloc(len);
                assert_non_null(s);
                memset(s, c & 1 ? '\xff' : 'a', len);
                if (c % 3 == 0)
                    memset(s, '\t', at);
                s[at] = (char)c;
                bool is = c == '\t' || (c >= 0x20 && c != 0x7f);
                assert_int_equal(ioh__is_field_value(s, len), is);
                assert_ptr_equal(ioh__skip_value(s, s + len), s + (is ? len : at));
                free(s);
            }
        }
    }
    assert_true(ioh__is_field_value("", 0));
}

static void a_list_has_what_stands_between_its_commas(void **state)
{
    (void)state;
    assert_true(ioh__list_has("a", 1, "a"));
    assert_true(ioh__list_has("x,\t A ,y", 8, "a"));
    assert_true(ioh__list_has(",,a", 3, "a"));
    assert_true(ioh__list_has("keep-alive, Upgrade", 19, "upgrade"));
    assert_false(ioh__list_has("keep-alive, Upgrade", 18, "upgrade"));
    assert_false(ioh__list_has("ab, b a, a=1", 12, "a"));
    assert_false(ioh__list_has("", 0, "a"));
    assert_false(ioh__list_has(NULL, 0, "a"));
}

static void only_letters_are_equal_in_another_case(void **state)
{
    (void)state;
    assert_true(ioh__equal_nocase("HoSt", 4, "host", 4));
    assert_false(ioh__equal_nocase("HoS", 3, "host", 4));
    assert_false(ioh__equal_nocase("[", 1, "{", 1));
    assert_false(ioh__equal_nocase("@", 1, "`", 1));
    assert_false(ioh__equal_any_case("\r", "-", 1));
}

static void hosts_are_told_from_what_is_none(void **state)
{
    static const struct {
        const char *text;
        bool is;
    } hosts[] = {
        {"a", true},          {"a.b-c_d~e", true},  {"1.2.3.4:80", true},
        {"a:", true},         {"a%20b", true},      {"!$&'()*+,;=", true},
        {"[::1]", true},      {"[::1]:8080", true}, {"[::ffff:1.2.3.4]", true},
        {"[v1.a:b]", true},   {"", false},          {":80", false},
        {"a:b", false},       {"a:80:90", false},   {"a:-1", false},
        {"a/b", false},       {"a?b", false},       {"a#b", false},
        {"u@a", false},       {"a b", false},       {"a,b c", false},
        {"a%2", false},       {"a%zz", false},      {"a\\b", false},
        {"a\"b", false},      {"\xc3\xa4", false},  {"[", false},
        {"[]", false},        {"[]:80", false},     {"[::1", false},
        {"[::1]x", false},    {"[::1]:x", false},   {"[a]", false},
        {"[a:b]", false},     {"[v]", false},       {"[:]", false},
        {"[1.2.3.4]", false}, {"[::g]", false},     {"[::%25eth0]", false},
        {"[v.a]", false},     {"[v1.]", false},     {"[v1a]", false},
        {"[v1.a/b]", false},  {"a[::1]", false},    {"::1", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        size_t len = strlen(hosts[i].text);
        char *s = malloc(len ? len : 1);
        assert_non_null(s);
        memcpy(s, hosts[i].text, len);
        if (ioh__is_host(s, len) != hosts[i].is)
            fail_msg("host \"%s\"", hosts[i].text);
        free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_made_of_the_bytes_of_the_grammar),
        cmocka_unit_test(a_value_has_no_control_byte_wherever_it_stands),
        cmocka_unit_test(a_list_has_what_stands_between_its_commas),
        cmocka_unit_test(only_letters_are_equal_in_another_case),
        cmocka_unit_test(hosts_are_told_from_what_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
