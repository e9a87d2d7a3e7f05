/* The texts of the error list. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/error.h>

static void every_error_has_its_own_text(void **state)
{
    (void)state;
#define CHECK(name, value, text)   \
    assert_int_equal(name, value); \
    assert_true((name) < 0);       \
    assert_string_equal(ioh_strerror(name), text);
    IOH_ERRORS(CHECK)
#undef CHECK
#define TEXT(name, value, text) text,
    const char *texts[] = {IOH_ERRORS(TEXT)};
#undef TEXT
    size_t count = sizeof(texts) / sizeof(texts[0]);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(texts[i], texts[k]);
}

static void the_numbers_have_no_gap(void **state)
{
    (void)state;
    int error = 0;
#define COUNT(name, value, text) assert_int_equal(name, --error);
    IOH_ERRORS(COUNT)
#undef COUNT
    assert_string_equal(ioh_strerror(error - 1), "unknown error");
}

static void zero_and_above_is_ok(void **state)
{
    (void)state;
    assert_string_equal(ioh_strerror(IOH_OK), "ok");
    assert_string_equal(ioh_strerror(IOH_QUEUED), "ok");
    assert_string_equal(ioh_strerror(INT_MAX), "ok");
}

static void a_number_outside_the_list_is_an_unknown_error(void **state)
{
    (void)state;
    assert_string_equal(ioh_strerror(-9999), "unknown error");
    assert_string_equal(ioh_strerror(INT_MIN), "unknown error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_its_own_text),
        cmocka_unit_test(the_numbers_have_no_gap),
        cmocka_unit_test(zero_and_above_is_ok),
        cmocka_unit_test(a_number_outside_the_list_is_an_unknown_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
