/* multipart/form-data as hosts read it, whole and cut at every byte (include/iohandler/form.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/error.h>
#include <iohandler/form.h>

#define LONG /* 70 */ "0123456789012345678901234567890123456789012345678901234567890123456789"
#define TYPE "multipart/form-data; boundary=XX"
#define HEAD(name) "Content-Disposition: form-data; name=\"" name "\"\r\n\r\n"
#define FILE_HEAD(name, file) \
    "Content-Disposition: form-data; name=\"" name "\"; filename=\"" file "\"\r\n\r\n"

static struct ioh_str str(const char *text)
{
    return (struct ioh_str){text, strlen(text)};
}

/* What a handler saw, in words: "<name[|file[|type]]:content>". */
struct seen {
    char text[4096];
    size_t len;
    bool inside;
    int stop_at, calls, answer; /* the call of that number gives that answer */
};

static int add(struct seen *s, const void *data, size_t len)
{
    if (len < sizeof s->text - s->len) {
        memcpy(s->text + s->len, data, len);
        s->len += len;
        s->text[s->len] = '\0';
    }
    return ++s->calls == s->stop_at ? s->answer : 0;
}

static int on_part(const struct ioh_part *part, void *user)
{
    struct seen *s = user;
    char line[300];
    assert_false(s->inside);
    s->inside = true;
    assert_int_equal(part->size, sizeof *part);
    assert_non_null(part->name.ptr);
    int len = snprintf(line, sizeof line, "<%.*s%s%.*s%s%.*s:", (int)part->name.len, part->name.ptr,
                       part->filename.ptr ? "|" : "", (int)part->filename.len,
                       part->filename.ptr ? part->filename.ptr : "", part->type.ptr ? "|" : "",
                       (int)part->type.len, part->type.ptr ? part->type.ptr : "");
    return add(s, line, (size_t)len);
}

static int on_data(const struct ioh_part *part, const void *data, size_t len, void *user)
{
    struct seen *s = user;
    (void)part;
    assert_true(s->inside && len > 0);
    return add(s, data, len);
}

static int on_part_end(const struct ioh_part *part, void *user)
{
    struct seen *s = user;
    assert_true(s->inside);
    assert_non_null(part->name.ptr);
    s->inside = false;
    return add(s, ">", 1);
}

static ioh_multipart *begin_limited(const char *type, struct seen *seen, uint32_t max_parts,
                                    uint32_t max_head)
{
    struct ioh_multipart_handler h = IOH_MULTIPART_HANDLER_INIT;
    ioh_multipart *m;
    h.on_part = on_part;
    h.on_data = on_data;
    h.on_part_end = on_part_end;
    h.max_parts = max_parts;
    h.max_head_bytes = max_head;
    memset(seen, 0, sizeof *seen);
    assert_int_equal(ioh_multipart_create(&m, str(type), &h, seen), 0);
    return m;
}

static ioh_multipart *begin(const char *type, struct seen *seen)
{
    return begin_limited(type, seen, 0, 0);
}

/* A copy of exactly that size, so that a sanitizer sees a read beyond it. */
static int feed(ioh_multipart *m, const char *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    int rc = ioh_multipart_feed(m, copy, len);
    free(copy);
    return rc;
}

/* Whole, cut in two at every byte, and byte by byte: always the same. */
static void expect_as(const char *type, const char *body, size_t len, int rc, const char *want)
{
    for (size_t cut = 0; cut <= len + 1; cut++) {
        struct seen seen;
        ioh_multipart *m = begin(type, &seen);
        int got = 0;
        if (cut <= len) {
            got = feed(m, body, cut);
            got = got ? got : feed(m, body + cut, len - cut);
        } else {
            for (size_t i = 0; i < len && got == 0; i++)
                got = feed(m, body + i, 1);
        }
        int end = ioh_multipart_end(m);
        assert_int_equal(end, rc);
        assert_int_equal(got, rc == IOH_ELENGTH ? 0 : rc);
        assert_string_equal(seen.text, want);
        assert_int_equal(*ioh_multipart_error(m) == '\0', rc == 0);
        assert_true(rc != 0 || !seen.inside);
        if (rc != 0 && rc != IOH_ELENGTH)
            assert_int_equal(feed(m, "x", 1), rc);
        ioh_multipart_destroy(m);
    }
}

static void expect(const char *body, int rc, const char *want)
{
    expect_as(TYPE, body, strlen(body), rc, want);
}

static void parts_come_one_after_the_other(void **state)
{
    (void)state;
    expect("--XX\r\n" HEAD("a") "1\r\n--XX--\r\n", 0, "<a:1>");
    expect("--XX\r\n" HEAD("a") "1\r\n--XX\r\n" HEAD("b") "two\r\nlines\r\n--XX\r\n" HEAD(
               "a") "3\r\n--XX--\r\n",
           0, "<a:1><b:two\r\nlines><a:3>");
    expect("--XX\r\n" FILE_HEAD("f", "x.txt") "data\r\n--XX--", 0, "<f|x.txt:data>");
    expect("--XX\r\nContent-Type: image/png\r\ncontent-DISPOSITION:form-data;name=f;filename=x\r\n"
           "X-Other: y\r\n\r\ndata\r\n--XX--\r\n",
           0, "<f|x|image/png:data>");
}

static void empty_forms_and_empty_parts_are_told(void **state)
{
    (void)state;
    expect("--XX--\r\n", 0, "");
    expect("--XX--", 0, "");
    expect("\r\n--XX--\r\n", 0, "");
    expect("--XX\r\n" HEAD("a") "\r\n--XX--\r\n", 0, "<a:>");
    expect("--XX\r\n" HEAD("a") "--XX--\r\n", 0,
           "<a:>"); /* RFC 2046 5.1.1: its CRLF is the head's */
    expect("--XX\r\n" FILE_HEAD("f", "") "\r\n--XX--\r\n", 0, "<f|:>");
    expect("--XX\r\n" HEAD("") "x\r\n--XX--\r\n", 0, "<:x>");
}

static void content_that_looks_like_a_boundary_is_content(void **state)
{
    (void)state;
    expect("--XX\r\n" HEAD("a") "\r\n-\r\n--\r\n--X\r\n--x\r\n\r\n--XX--\r\n", 0,
           "<a:\r\n-\r\n--\r\n--X\r\n--x\r\n>");
    expect("--XX\r\n" HEAD("a") "--X\r\n--XX--\r\n", 0, "<a:--X>");
    expect("--XX\r\n" HEAD("a") " --XX--XX\n--XX\r--XX--\r\r\n--XX--\r\n", 0,
           "<a: --XX--XX\n--XX\r--XX--\r>");
    expect("--XX\r\n" HEAD("a") "\r\r\n\r\n--X\r\n--XX--\r\n", 0, "<a:\r\r\n\r\n--X>");
    expect("--XX\r\n" HEAD("a") "x\r\n\r\n--XX--\r\n", 0, "<a:x\r\n>");
}

static void any_byte_may_stand_in_content(void **state)
{
    char body[1024], want[512];
    size_t len = (size_t)sprintf(body, "--XX\r\n" HEAD("a")), want_len = 3;
    (void)state;
    memcpy(want, "<a:", 3);
    for (int i = 0; i < 256; i++) {
        /* without NUL, since what was seen is compared as a string */
        body[len++] = want[want_len++] = (char)(i ? i : '\r');
    }
    want[want_len++] = '>';
    want[want_len] = '\0';
    len += (size_t)sprintf(body + len, "\r\n--XX--\r\n");
    expect_as(TYPE, body, len, 0, want);
}

static void preamble_epilogue_and_padding_are_passed_over(void **state)
{
    (void)state;
    expect(
        "preamble --XX \r\n-- \r\n--X\r\n--XX\r\n" HEAD("a") "1\r\n--XX--\r\nepilogue\r\n--XX\r\n",
        0, "<a:1>");
    expect("\r\n--XX \t\r\n" HEAD("a") "1\r\n--XX  \r\n" HEAD("b") "2\r\n--XX--\t \r\n", 0,
           "<a:1><b:2>");
}

static void a_form_that_is_cut_off_is_told(void **state)
{
    static const char whole[] = "--XX\r\n" HEAD("a") "1\r\n--XX--";
    (void)state;
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        struct seen seen;
        ioh_multipart *m = begin(TYPE, &seen);
        assert_int_equal(feed(m, whole, len), 0);
        assert_int_equal(ioh_multipart_end(m), IOH_ELENGTH);
        assert_string_equal(ioh_multipart_error(m), "the last boundary never came");
        ioh_multipart_destroy(m);
    }
    expect("no boundary at all", IOH_ELENGTH, "");
    expect("--XX\r\n" HEAD("a") "1\r\n--XX--\r", IOH_ELENGTH, "<a:1>");
}

static void a_boundary_with_something_behind_it_is_refused(void **state)
{
    (void)state;
    expect("--XXX\r\n" HEAD("a") "1\r\n--XX--\r\n", IOH_EINVAL, "");
    expect("--XX\r\n" HEAD("a") "1\r\n--XXY\r\n--XX--\r\n", IOH_EINVAL, "<a:1");
    expect("--XX\n" HEAD("a") "1\r\n--XX--\r\n", IOH_EINVAL, "");
    expect("--XX\r\r\n" HEAD("a") "1\r\n--XX--\r\n", IOH_EINVAL, "");
    expect("--XX -\r\n" HEAD("a") "1\r\n--XX--\r\n", IOH_EINVAL, "");
    expect("--XX-\r\n" HEAD("a") "1\r\n--XX--\r\n", IOH_EINVAL, "");
    expect("--XX\r\n" HEAD("a") "1\r\n--XX--x", IOH_EINVAL, "<a:1>");
    expect("--XX\r\n" HEAD("a") "1\r\n--XX--\n", IOH_EINVAL, "<a:1>");
    expect("--XX\r\n" HEAD("a") "1\r\n--XX--\rx", IOH_EINVAL, "<a:1>");
    expect("--XX\r\n" HEAD("a") "1\r\n--XX---\r\n", IOH_EINVAL, "<a:1>");
}

static void a_bad_head_of_a_part_is_refused(void **state)
{
    static const char *const heads[] = {
        "\r\n",                                   /* no name */
        "Content-Type: text/plain\r\n\r\n",       /* likewise */
        "Content-Disposition: form-data\r\n\r\n", /* likewise */
        "Content-Disposition: form-data; filename=\"x\"\r\n\r\n",
        "Content-Disposition: attachment; name=\"a\"\r\n\r\n",
        "Content-Disposition: ; name=\"a\"\r\n\r\n",
        "Content-Disposition:\r\n\r\n",
        "Content-Disposition: form-data; name=\"a\"; name=\"b\"\r\n\r\n",
        "Content-Disposition: form-data; name=\"a\"; filename=x; filename=y\r\n\r\n",
        "Content-Disposition: form-data; name=\"a\r\n\r\n",
        "Content-Disposition: form-data; name=\"a\"b\r\n\r\n",
        "Content-Disposition: form-data, name=\"a\"\r\n\r\n",
        "Content-Disposition: form-data; name=a b\r\n\r\n",
        "Content-Disposition: form-data; name=\"a\x01\"\r\n\r\n",
        "Content-Disposition: form-data; name=\"a\rb\"\r\n\r\n",
        "Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b\r\n\r\n",
        "Content-Disposition: form-data; name=a\r\nContent-Type: a/b\r\nContent-Type: c/d\r\n\r\n",
        "Content-Disposition: form-data;\r\n name=\"a\"\r\n\r\n", /* no folding */
        "Content-Disposition : form-data; name=\"a\"\r\n\r\n",
        " Content-Disposition: form-data; name=\"a\"\r\n\r\n",
        "Content-Disposition: form-data; name=\"a\"\n\r\n",
        "Content-Disposition: form-data; name=\"a\"\r\n\n",
        "Content-Disposition: form-data; name=\"a\"\r\nno colon\r\n\r\n",
        "Content-Disposition: form-data; name=\"a\"\r\n: x\r\n\r\n",
        "Content-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: base64\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char body[300];
        snprintf(body, sizeof body, "--XX\r\n%s1\r\n--XX--\r\n", heads[i]);
        expect(body, IOH_EINVAL, "");
    }
    static const char nul[] = "--XX\r\nContent-Disposition: form-data; name=\"a\0b\"\r\n\r\n";
    expect_as(TYPE, nul, sizeof nul - 1, IOH_EINVAL, "");
}

static void names_come_as_they_were_meant(void **state)
{
    (void)state;
    expect("--XX\r\n" FILE_HEAD("a\\\"b\\\\c", "C:\\dir\\f;x=\\\\y.txt") "1\r\n--XX--\r\n", 0,
           "<a\"b\\c|C:\\dir\\f;x=\\y.txt:1>");
    expect("--XX\r\n" FILE_HEAD("%22", "../../etc/p%0D") "1\r\n--XX--\r\n", 0,
           "<%22|../../etc/p%0D:1>");
    expect("--XX\r\n" FILE_HEAD("n\xc3\xa4me", "\xe2\x82\xac.txt") "1\r\n--XX--\r\n", 0,
           "<n\xc3\xa4me|\xe2\x82\xac.txt:1>");
    expect("--XX\r\nContent-Disposition: form-data; name=\"a\"; filename*=UTF-8''evil\r\n\r\n"
           "1\r\n--XX--\r\n",
           0, "<a:1>"); /* RFC 7578 4.2 */
    expect("--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n"
           "Content-Transfer-Encoding: 8BIT\r\n\r\n1\r\n--XX--\r\n",
           0, "<a:1>");
}

static void boundaries_are_those_of_the_grammar(void **state)
{
    static const char *const good[] = {
        "multipart/form-data; boundary=XX",
        "Multipart/Form-Data;BOUNDARY=XX",
        "multipart/form-data; charset=utf-8; boundary=\"XX\" ;",
    };
    static const char too_long[] = "multipart/form-data; boundary=" LONG "0";
    const char *const bad[] = {
        "",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=XX; boundary=XX",
        "multipart/form-data; boundary=XX; boundary=YY",
        "multipart/form-data; boundary=\"XX \"",
        "multipart/form-data; boundary=\"X;X\"",
        "multipart/form-data; boundary=\"X\\\"X\"",
        "multipart/form-data; boundary=X=X",
        "multipart/form-data; boundary=\"XX",
        "multipart/form-data, boundary=XX",
        "multipart/form-data boundary=XX",
        "multipart/mixed; boundary=XX",
        "application/x-www-form-urlencoded",
        too_long,
    };
    struct ioh_multipart_handler h = IOH_MULTIPART_HANDLER_INIT;
    ioh_multipart *m;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        expect_as(good[i], "--XX\r\n" HEAD("a") "1\r\n--XX--\r\n",
                  strlen("--XX\r\n" HEAD("a") "1\r\n--XX--\r\n"), 0, "<a:1>");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        m = (ioh_multipart *)&h;
        if (ioh_multipart_create(&m, str(bad[i]), &h, NULL) != IOH_EINVAL || m)
            fail_msg("%s", bad[i]);
    }
    assert_int_equal(ioh_multipart_create(&m, (struct ioh_str){NULL, 0}, &h, NULL), IOH_EINVAL);
    expect_as("multipart/form-data; boundary=\"'()+_,-./:=? x\"",
              "--'()+_,-./:=? x\r\n" HEAD("a") "1\r\n--'()+_,-./:=? x--",
              strlen("--'()+_,-./:=? x\r\n" HEAD("a") "1\r\n--'()+_,-./:=? x--"), 0, "<a:1>");
    expect_as("multipart/form-data; boundary=" LONG,
              "--" LONG "\r\n" HEAD("a") "\r\n--" LONG "\r\n" HEAD("b") "2\r\n--" LONG "--",
              strlen("--" LONG "\r\n" HEAD("a") "\r\n--" LONG "\r\n" HEAD("b") "2\r\n--" LONG "--"),
              0, "<a:><b:2>");
}

static void limits_hold_to_the_byte(void **state)
{
    static const char head[] = HEAD("a");
    static const char body[] = "--XX\r\n" HEAD("a") "1\r\n--XX\r\n" HEAD("a") "2\r\n--XX--\r\n";
    struct seen seen;
    (void)state;
    ioh_multipart *m = begin_limited(TYPE, &seen, 2, sizeof head - 1);
    assert_int_equal(feed(m, body, sizeof body - 1), 0);
    assert_int_equal(ioh_multipart_end(m), 0);
    ioh_multipart_destroy(m);

    m = begin_limited(TYPE, &seen, 1, 0);
    assert_int_equal(feed(m, body, sizeof body - 1), IOH_ETOOBIG);
    assert_string_equal(ioh_multipart_error(m), "too many parts");
    assert_string_equal(seen.text, "<a:1>");
    assert_int_equal(feed(m, "x", 1), IOH_ETOOBIG);
    assert_int_equal(ioh_multipart_end(m), IOH_ETOOBIG);
    ioh_multipart_destroy(m);

    m = begin_limited(TYPE, &seen, 0, sizeof head - 2);
    assert_int_equal(feed(m, body, sizeof body - 1), IOH_ETOOBIG);
    assert_string_equal(ioh_multipart_error(m), "the head of a part is too long");
    ioh_multipart_destroy(m);

    m = begin_limited(TYPE, &seen, 0, sizeof head - 2); /* no LF to be found */
    assert_int_equal(feed(m, body, 6), 0);
    for (size_t i = 0; i < sizeof head - 2; i++)
        assert_int_equal(feed(m, "x", 1), 0);
    assert_int_equal(feed(m, "x", 1), IOH_ETOOBIG);
    ioh_multipart_destroy(m);
}

static void a_callback_can_end_it(void **state)
{
    static const char body[] = "--XX\r\n" HEAD("a") "1\r\n--XX--\r\n";
    (void)state;
    for (int at = 1; at <= 3; at++) {
        struct seen seen;
        ioh_multipart *m = begin(TYPE, &seen);
        seen.stop_at = at;
        seen.answer = at == 2 ? 7 : IOH_ENOMEM;
        assert_int_equal(feed(m, body, sizeof body - 1), seen.answer);
        assert_int_equal(seen.calls, at);
        assert_int_equal(feed(m, body, sizeof body - 1), seen.answer);
        assert_int_equal(ioh_multipart_end(m), seen.answer);
        assert_string_equal(ioh_multipart_error(m), "");
        assert_int_equal(seen.calls, at);
        ioh_multipart_destroy(m);
    }
}

static void absent_callbacks_are_not_missed(void **state)
{
    static const char body[] = "--XX\r\n" HEAD("a") "1\r\n--XX--\r\n";
    struct ioh_multipart_handler h = IOH_MULTIPART_HANDLER_INIT;
    ioh_multipart *m;
    (void)state;
    assert_int_equal(ioh_multipart_create(&m, str(TYPE), &h, NULL), 0);
    assert_int_equal(ioh_multipart_feed(m, body, sizeof body - 1), 0);
    assert_int_equal(ioh_multipart_feed(m, NULL, 0), 0);
    assert_int_equal(ioh_multipart_end(m), 0);
    ioh_multipart_destroy(m);
    ioh_multipart_destroy(NULL);
    h.size = 8;
    assert_int_equal(ioh_multipart_create(&m, str(TYPE), &h, NULL), IOH_EVERSION);
    assert_null(m);
}

/* Content is handed over where it lies, in pieces as large as the input. */
static void a_large_file_passes_without_being_copied(void **state)
{
    enum { LEN = 1 << 20 };
    static const char head[] = "--XX\r\n" FILE_HEAD("f", "x");
    char *data = malloc(LEN);
    struct seen seen;
    (void)state;
    assert_non_null(data);
    for (size_t i = 0; i < LEN; i++)
        data[i] = "\r\n--X"[i % 5];
    ioh_multipart *m = begin(TYPE, &seen);
    assert_int_equal(feed(m, head, sizeof head - 1), 0);
    int calls = seen.calls;
    for (int i = 0; i < 16; i++)
        assert_int_equal(ioh_multipart_feed(m, data, LEN), 0);
    assert_true(seen.calls - calls <= 3 * 16);
    assert_int_equal(feed(m, "\r\n--XX--", 8), 0);
    assert_int_equal(ioh_multipart_end(m), 0);
    ioh_multipart_destroy(m);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_come_one_after_the_other),
        cmocka_unit_test(empty_forms_and_empty_parts_are_told),
        cmocka_unit_test(content_that_looks_like_a_boundary_is_content),
        cmocka_unit_test(any_byte_may_stand_in_content),
        cmocka_unit_test(preamble_epilogue_and_padding_are_passed_over),
        cmocka_unit_test(a_form_that_is_cut_off_is_told),
        cmocka_unit_test(a_boundary_with_something_behind_it_is_refused),
        cmocka_unit_test(a_bad_head_of_a_part_is_refused),
        cmocka_unit_test(names_come_as_they_were_meant),
        cmocka_unit_test(boundaries_are_those_of_the_grammar),
        cmocka_unit_test(limits_hold_to_the_byte),
        cmocka_unit_test(a_callback_can_end_it),
        cmocka_unit_test(absent_callbacks_are_not_missed),
        cmocka_unit_test(a_large_file_passes_without_being_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
