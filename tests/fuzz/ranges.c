/* What a request says about which part of which state of a file it wants: Range against a naive reading of
 * it, byte by byte; conditions, accepted codings, dates and paths for what must always hold.
 *
 * Input: a byte chooses one of these, the next the size of the file or a prefix; the rest is the text.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/http1_field.h"
#include "proto/http_date.h"
#include "proto/http_encoding.h"
#include "proto/http_path.h"
#include "proto/http_range.h"
#include "proto/http_validators.h"

#define SIZE_LIMIT 1024u
#define NOW 1780000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            abort();                                                   \
        }                                                              \
    } while (0)

/* ---- ranges */

/* The digits of one number, the largest there is for what does not fit; NULL: none. */
static const char *naive_number(const char *p, uint64_t *value)
{
    const char *begin = p;
    bool fits = true;
    for (*value = 0; *p >= '0' && *p <= '9'; p++)
        fits = fits && !__builtin_mul_overflow(*value, 10u, value) &&
               !__builtin_add_overflow(*value, (unsigned)(*p - '0'), value);
    if (!fits)
        *value = UINT64_MAX;
    return p > begin ? p : NULL;
}

/* Marks what one element wants; false: it is none. */
static bool naive_element(char *text, unsigned size, bool *wanted)
{
    uint64_t first, last = UINT64_MAX;
    const char *p = text;
    if (*p == '-') {
        p = naive_number(p + 1, &first);
        if (!p || *p)
            return false;
        for (unsigned i = 0; i < size; i++)
            wanted[i] |= size - i <= first;
        return true;
    }
    p = naive_number(p, &first);
    if (!p || *p++ != '-')
        return false;
    if (*p) {
        p = naive_number(p, &last);
        if (!p || *p || last < first)
            return false;
    }
    for (uint64_t i = first; i < size && i <= last; i++)
        wanted[i] = true;
    return true;
}

/* false: the field is to be ignored. */
static bool naive_ranges(char *text, unsigned size, bool *wanted)
{
    bool any = false;
    for (char *next, *p = text; p; p = next) {
        next = strchr(p, ',');
        if (next)
            *next++ = 0;
        while (*p == ' ' || *p == '\t')
            p++;
        for (char *end = p + strlen(p); end > p && (end[-1] == ' ' || end[-1] == '\t');)
            *--end = 0;
        if (!*p)
            continue;
        any = true;
        if (!naive_element(p, size, wanted))
            return false;
    }
    return any;
}

static void check_ranges(unsigned size, const char *text, size_t len)
{
    struct ioh__range out[IOH__RANGES_MAX];
    bool wanted[SIZE_LIMIT] = {false}, given[SIZE_LIMIT] = {false};
    int n = ioh__http_ranges(text, len, size, out);
    CHECK(n >= -1 && n <= IOH__RANGES_MAX && (n <= 0 || size > 0));
    for (int i = 0; i < n; i++) {
        char range[IOH__CONTENT_RANGE_MAX];
        CHECK(out[i].first < out[i].end && out[i].end <= size);
        CHECK(ioh__write_content_range(range, &out[i], size) <= range + sizeof range);
        for (uint64_t k = out[i].first; k < out[i].end; k++) {
            CHECK(!given[k]);
            given[k] = true;
        }
    }
    char *copy = malloc(len + 1);
    CHECK(copy);
    memcpy(copy, text, len);
    copy[len] = 0;
    bool plain =
        len >= 6 && size > 0 && ioh__equal_any_case(copy, "bytes=", 6) && !memchr(copy, 0, len);
    if (plain && naive_ranges(copy + 6, size, wanted)) {
        bool some = false;
        for (unsigned i = 0; i < size; i++)
            some |= wanted[i];
        CHECK(some ? n >= 0 : n == -1); /* 0: too many */
        for (unsigned i = 0; i < size && n > 0; i++)
            CHECK(given[i] || !wanted[i]);
        for (int i = 0; i < n; i++)
            CHECK(wanted[out[i].first] && wanted[out[i].end - 1]);
    } else {
        CHECK(n <= 0 && (n == 0 || !plain));
        CHECK(n == 0);
    }
    free(copy);
}

/* ---- fields */

static void check_fields(const char *text, size_t len)
{
    static const struct ioh__http1_limits limits = {
        .max_head = 8192, .max_uri = 100, .max_headers = 30};
    static const char *const tags[] = {"\"a\"", "W/\"a\"", "\"a,b\"", "\"\""};
    struct ioh__http1_field fields[30];
    struct ioh__http1_head head = {.fields = fields};
    struct ioh__http1_fault fault;
    struct ioh__conditions c;
    struct ioh__codings codings;
    char data[4200];
    size_t scanned = 0, at;
    if (len > 4000)
        return;
    at = (size_t)sprintf(data, "GET / HTTP/1.1\r\nHost: h\r\n");
    memcpy(data + at, text, len);
    memcpy(data + at + len, "\r\n\r\n", 4);
    if (ioh__http1_parse(data, at + len + 4, sizeof data, &scanned, &limits, &head, &fault) !=
        IOH__HTTP1_DONE)
        return;
    ioh__http_conditions(data, &head, &c);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        struct ioh__validators v = {tags[i], strlen(tags[i]), 784111777};
        int verdict = ioh__http_evaluate(data, &head, &c, &v, NOW);
        CHECK(verdict == 200 || verdict == 304 || verdict == 412);
        CHECK(verdict != 412 || c.if_match >= 0 || c.if_unmodified_since >= 0);
        CHECK(verdict != 304 || c.if_none_match >= 0 || c.if_modified_since >= 0);
        if (ioh__http_range_holds(data, &head, &c, &v, NOW))
            CHECK(c.range >= 0 &&
                  (c.if_range == -1 || tags[i][0] == '"' || data[fields[c.if_range].value] != '"'));
    }
    ioh__http_codings(data, &head, &codings);
    for (unsigned have = 0; have < 1u << IOH__CODING_IDENTITY; have++) {
        enum ioh__coding chosen = ioh__coding_choose(&codings, have);
        CHECK(chosen == IOH__CODING_IDENTITY || (have >> chosen & 1 && codings.q[chosen] > 0));
        CHECK(codings.q[chosen] <= 1000);
        for (int i = 0; i < IOH__CODING_IDENTITY; i++)
            CHECK(!(have >> i & 1) || codings.q[i] <= codings.q[chosen] ||
                  (chosen == IOH__CODING_IDENTITY && codings.q[i] < codings.q[chosen]));
    }
}

/* ---- dates and paths */

static void check_date(const char *text, size_t len)
{
    int64_t seconds, again;
    char out[IOH__DATE_LEN];
    if (!ioh__http_date_parse(text, len, NOW, &seconds) || seconds < 0 ||
        seconds > INT64_C(253402300799))
        return;
    ioh__http_date(seconds, out);
    CHECK(ioh__http_date_parse(out, sizeof out, NOW, &again) && again == seconds);
}

static void check_path(unsigned choice, const char *text, size_t len)
{
    static const char *const prefixes[] = {"", "/", "/a", "/a/"};
    char out[200];
    size_t size = choice / 4;
    int n = ioh__path_decode((struct ioh_str){text, len}, prefixes[choice % 4], out, size);
    if (n < 0)
        return;
    CHECK((size_t)n < size && strlen(out) == (size_t)n && (size_t)n <= len);
    bool climbs = strcmp(out, "..") == 0 || strncmp(out, "../", 3) == 0 || strstr(out, "/../") ||
                  (n >= 3 && strcmp(out + n - 3, "/..") == 0);
    bool hides = *out == '.' || strstr(out, "/.");
    if (climbs)
        CHECK(!ioh__path_is_public(out, true));
    if (!hides)
        CHECK(ioh__path_is_public(out, false));
    if (ioh__path_is_public(out, false))
        CHECK(ioh__path_is_public(out, true) && (!hides || strstr(out, ".well-known")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < 2)
        return 0;
    const char *text = (const char *)data + 2;
    switch (data[0] % 4) {
    case 0:
        check_ranges((data[0] / 4u * 256u + data[1]) % SIZE_LIMIT, text, len - 2);
        break;
    case 1:
        check_fields(text, len - 2);
        break;
    case 2:
        check_date(text, len - 2);
        break;
    default:
        check_path(data[1] % 200u * 4u % 800u + data[1] % 4u, text, len - 2);
        break;
    }
    return 0;
}
