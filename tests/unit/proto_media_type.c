/* Media types and parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/form.h>

#include "proto/media_type.h"

static struct ioh_str str(const char *text)
{
    return (struct ioh_str){text, text ? strlen(text) : 0};
}

static void a_type_is_told_whatever_its_case_and_parameters(void **state)
{
    (void)state;
    assert_true(ioh_media_type_is(str("text/html"), "text/html"));
    assert_true(ioh_media_type_is(str("Text/HTML; charset=utf-8"), "text/html"));
    assert_true(ioh_media_type_is(str("text/html ;charset=utf-8"), "text/html"));
    assert_true(ioh_media_type_is(str("text/html;"), "TEXT/html"));
    assert_true(ioh_media_type_is(str("text/plain"), "text/*"));
    assert_true(ioh_media_type_is(str("text/plain"), "*"));
    assert_false(ioh_media_type_is(str("text/html"), "text/htm"));
    assert_false(ioh_media_type_is(str("text/htm"), "text/html"));
    assert_false(ioh_media_type_is(str("text/"), "text/*"));
    assert_false(ioh_media_type_is(str("texts/html"), "text/*"));
    assert_false(ioh_media_type_is(str("image/svg+xml"), "text/*"));
    assert_false(ioh_media_type_is(str(""), "text/html"));
    assert_false(ioh_media_type_is(str("; text/html"), "text/html"));
    assert_false(ioh_media_type_is(str(NULL), "*"));
}

/* Parameters as "[name=value]", quoted ones as "[name:value]" after unescaping; "!" when malformed. */
static void expect_params(const char *text, const char *want)
{
    char got[256];
    size_t len = 0;
    struct ioh_str rest = str(text);
    struct ioh__param param;
    enum ioh__params result;
    while ((result = ioh__params_next(&rest, &param)) == IOH__PARAMS_ONE) {
        char value[64];
        memcpy(value, param.value.ptr, param.value.len);
        size_t value_len =
            param.quoted ? ioh__params_unescape(value, param.value.len) : param.value.len;
        len += (size_t)snprintf(got + len, sizeof got - len, "[%.*s%c%.*s]", (int)param.name.len,
                                param.name.ptr, param.quoted ? ':' : '=', (int)value_len, value);
    }
    if (result == IOH__PARAMS_BAD)
        got[len++] = '!';
    got[len] = '\0';
    assert_string_equal(got, want);
}

static void parameters_are_tokens_or_quoted(void **state)
{
    (void)state;
    expect_params("", "");
    expect_params(";", "");
    expect_params("; a=1", "[a=1]");
    expect_params(";a=1;b=2", "[a=1][b=2]");
    expect_params(" ;\ta=1 ; ; b=\"2\" ;", "[a=1][b:2]");
    expect_params("; a=\"x;y=z, \"", "[a:x;y=z, ]");
    expect_params("; a=\"\"", "[a:]");
    expect_params("; a=\"q\\\"q\\\\b\"; b=1", "[a:q\"q\\b][b=1]");
    expect_params("; f=\"C:\\dir\\file.txt\"", "[f:C:\\dir\\file.txt]");
}

static void what_is_no_parameter_is_refused(void **state)
{
    static const char *const bad[] = {
        "a=1",        " a=1",       "; a",        "; a=",        "; =1",
        "; a =1",     "; a= 1",     "; a=\"",     "; a=\"x\\\"", "; a=1 b=2",
        "; a=\"x\"y", "; a=x\"y\"", "; a=1, b=2", "; a b=1",     "; \"a\"=1"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ioh_str rest = str(bad[i]);
        struct ioh__param param;
        enum ioh__params result;
        do
            result = ioh__params_next(&rest, &param);
        while (result == IOH__PARAMS_ONE);
        if (result != IOH__PARAMS_BAD)
            fail_msg("%s", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_type_is_told_whatever_its_case_and_parameters),
        cmocka_unit_test(parameters_are_tokens_or_quoted),
        cmocka_unit_test(what_is_no_parameter_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
