/* Media types and paths of files. */
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
#include <iohandler/file.h>

#include "proto/http_mime.h"
#include "proto/http_path.h"

static void a_type_follows_from_the_extension(void **state)
{
    (void)state;
    assert_string_equal(ioh_mime_type("index.html"), "text/html; charset=utf-8");
    assert_string_equal(ioh_mime_type("/a/b.c/d.JPG"), "image/jpeg");
    assert_string_equal(ioh_mime_type("a.tar.gz"), "application/gzip");
    assert_string_equal(ioh_mime_type("a.3gp"), "video/3gpp");
    assert_string_equal(ioh_mime_type("a.zst"), "application/zstd");
    assert_string_equal(ioh_mime_type("a.webmanifest"), "application/manifest+json");
}

static void what_has_no_known_extension_is_bytes(void **state)
{
    static const char *const names[] = {
        "",     "a",     "a.",       "/",     "x.unheard-of",
        "html", ".html", "a.html/b", "b/.js", "a.htmlhtmlhtmlhtmlhtml"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_string_equal(ioh_mime_type(names[i]), "application/octet-stream");
}

/* Each is found only if the table is sorted. */
static void every_common_extension_is_found(void **state)
{
    static const char *const known[] = {
        "7z",   "aac",  "avif", "bmp",  "css",   "csv",   "doc",  "docx", "eot",  "flac", "gif",
        "gz",   "htm",  "ico",  "ics",  "jpeg",  "js",    "json", "m3u8", "map",  "md",   "mid",
        "mjs",  "mkv",  "mov",  "mp3",  "mp4",   "mpd",   "oga",  "ogg",  "opus", "otf",  "pdf",
        "png",  "rss",  "svg",  "tar",  "tif",   "ts",    "ttf",  "txt",  "vtt",  "wasm", "wav",
        "weba", "webm", "webp", "woff", "woff2", "xhtml", "xml",  "yaml", "yml",  "zip",  "zst"};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char name[32];
        snprintf(name, sizeof name, "x.%s", known[i]);
        assert_string_not_equal(ioh_mime_type(name), "application/octet-stream");
    }
}

static void the_hosts_own_types_come_first(void **state)
{
    static const struct ioh_mime own[] = {{"html", "text/x-mine"}, {"foo", "x/foo"}, {NULL, NULL}};
    (void)state;
    assert_string_equal(ioh__mime_type("a.HTML", own), "text/x-mine");
    assert_string_equal(ioh__mime_type("a.foo", own), "x/foo");
    assert_string_equal(ioh__mime_type("a.css", own), "text/css; charset=utf-8");
    assert_string_equal(ioh__mime_type("a", own), "application/octet-stream");
}

static void assert_decoded(const char *path, const char *prefix, const char *wanted)
{
    char out[100];
    int len = ioh__path_decode((struct ioh_str){path, strlen(path)}, prefix, out, sizeof out);
    if (len < 0)
        fail_msg("%s: %d", path, len);
    assert_string_equal(out, wanted);
    assert_int_equal(len, strlen(wanted));
}

static int decode_error(const char *path, const char *prefix, size_t size)
{
    char out[100];
    return ioh__path_decode((struct ioh_str){path, strlen(path)}, prefix, out, size);
}

static void paths_are_decoded_behind_their_prefix(void **state)
{
    (void)state;
    assert_decoded("/files/a%20b", "/files", "/a b");
    assert_decoded("/files/a%20b", "/files/", "a b");
    assert_decoded("/files", "/files", "");
    assert_decoded("/files/", "/files", "/");
    assert_decoded("/a/b", "", "/a/b");
    assert_decoded("/a/b", "/", "a/b");
    assert_decoded("/%C3%a4%25%2e%2E+", "", "/\xc3\xa4%..+");
}

static void what_names_no_file_is_refused(void **state)
{
    (void)state;
    assert_int_equal(decode_error("/filesystem", "/files", 100), IOH_EINVAL);
    assert_int_equal(decode_error("/fil", "/files", 100), IOH_EINVAL);
    assert_int_equal(decode_error("/Files/a", "/files", 100), IOH_EINVAL);
    assert_int_equal(decode_error("*", "", 100), IOH_EINVAL);
    assert_int_equal(decode_error("/a%00b", "", 100), IOH_EINVAL);
    assert_int_equal(decode_error("/a%2fb", "", 100), IOH_EINVAL);
    assert_int_equal(decode_error("/a%2Fb", "", 100), IOH_EINVAL);
    char out[10];
    assert_int_equal(ioh__path_decode((struct ioh_str){"/a\0b", 4}, "", out, 10), IOH_EINVAL);
    assert_int_equal(decode_error("/a%", "", 100), IOH_EINVAL);
    assert_int_equal(decode_error("/a%2", "", 100), IOH_EINVAL);
    assert_int_equal(decode_error("/a%g0", "", 100), IOH_EINVAL);
    assert_int_equal(decode_error("/a%0g", "", 100), IOH_EINVAL);
    assert_int_equal(decode_error("/abc", "", 5), 4);
    assert_int_equal(decode_error("/abc", "", 4), IOH_ETOOBIG);
    assert_int_equal(decode_error("/files", "/files", 1), 0);
    assert_int_equal(decode_error("/files", "/files", 0), IOH_ETOOBIG);
}

static void dots_do_not_climb_and_do_not_show(void **state)
{
    static const char *const always[] = {
        "", "/", "a", "a.b", "a..", "a/b.c", "//a", "/.well-known/acme", ".well-known"};
    static const char *const never[] = {"..", "/..",  "../a", "a/..", "a/../b", "/a//..",
                                        ".",  "/./a", "a/.",  "..//", "../..",  "a/./b"};
    static const char *const hidden[] = {".git", "/.git/config",  "a/.htpasswd",  "...",
                                         "/..a", "a/.well-known", ".well-knownx", ".well-know"};
    (void)state;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        assert_true(ioh__path_is_public(always[i], false));
        assert_true(ioh__path_is_public(always[i], true));
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        assert_false(ioh__path_is_public(never[i], false));
        assert_false(ioh__path_is_public(never[i], true));
    }
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        assert_false(ioh__path_is_public(hidden[i], false));
        assert_true(ioh__path_is_public(hidden[i], true));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_type_follows_from_the_extension),
        cmocka_unit_test(what_has_no_known_extension_is_bytes),
        cmocka_unit_test(every_common_extension_is_found),
        cmocka_unit_test(the_hosts_own_types_come_first),
        cmocka_unit_test(paths_are_decoded_behind_their_prefix),
        cmocka_unit_test(what_names_no_file_is_refused),
        cmocka_unit_test(dots_do_not_climb_and_do_not_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
