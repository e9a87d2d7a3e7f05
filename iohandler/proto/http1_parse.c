/* The parser of HTTP/1 request heads. Owns nothing, any thread.
 *
 *     empty lines -> request line -> fields -> the head as a whole -> DONE
 *          |              |            |                |
 *          +--------------+-- FAULT ---+----------------+
 *
 * It has no state between calls: with a new line it starts again from the first byte. So what it says
 * must not depend on how the bytes were cut, and two rules see to that:
 *   - A fault of the grammar is told when its line has ended, never before, and lines are judged in
 *     order. So a line that has not ended is always MORE ...
 *   - ... unless a limit is passed: the method, the target and the head are limited by how many bytes
 *     are there, whatever they hold, and a limit passed goes before a fault of the same line.
 */
#include "proto/http1_parse.h"

#include "proto/http1_framing.h"
#include "proto/http1_scan.h"
#include <string.h>

#define METHOD_MAX 32u    /* the longest registered one has 17 bytes */
#define EMPTY_LINES_MAX 4 /* RFC 9112 2.2 asks for at least one */

/* Refuses if the line in which at lies has ended; else more bytes are needed. Answers 0, for functions
 * that say where to go on. */
IOH__SCAN_RARE static size_t refuse(struct ioh__http1_parsing *s, const char *at, int status,
                                    const char *reason)
{
    if (at < s->end && memchr(at, '\n', (size_t)(s->end - at)))
        ioh__http1_refuse_now(s, at, status, reason);
    return 0;
}

static uint16_t offset(const struct ioh__http1_parsing *s, const char *p)
{
    return (uint16_t)(p - s->data);
}

static inline bool is_crlf(const char *p)
{
    return p[0] == '\r' && p[1] == '\n';
}

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* ---- limits that do not wait for the end of a line */

IOH__SCAN_RARE static const char *skip_empty_lines(const char *p, const char *end)
{
    for (int n = 0; n < EMPTY_LINES_MAX && end - p >= 2 && p[0] == '\r' && p[1] == '\n'; n++)
        p += 2;
    return p;
}

/* Is the method or the target of a request line too long, by the bytes there are? */
IOH__SCAN_RARE static void check_request_line_limits(struct ioh__http1_parsing *s)
{
    const char *line = skip_empty_lines(s->data, s->end);
    size_t len = (size_t)(s->end - line);
    if (len == 0)
        return;
    const char *eol = memchr(line, '\n', len);
    if (eol)
        len = (size_t)(eol - line);
    const char *space = memchr(line, ' ', len <= METHOD_MAX ? len : METHOD_MAX + 1);
    if (!space) {
        if (len > METHOD_MAX)
            ioh__http1_refuse_now(s, line + METHOD_MAX, 400, "the method is too long");
        return;
    }
    const char *target = space + 1;
    size_t max = s->limits->max_uri;
    len -= (size_t)(target - line);
    if (len > max && !memchr(target, ' ', max + 1))
        ioh__http1_refuse_now(s, target + max, 414, "the target is too long");
}

/* ---- the request line (RFC 9112 3) */

/* A version that is not "HTTP/1.x" CRLF at p. */
IOH__SCAN_RARE static size_t refuse_version(struct ioh__http1_parsing *s, const char *p)
{
    static const char form[] = "HTTP/d.d";
    for (const char *f = form; *f; f++, p++) {
        if (p == s->end)
            return 0;
        if (*f == 'd' ? !ioh__is_ch(*p, IOH__CH_DIGIT) : *p != *f)
            return refuse(s, p, 400, "not a version");
    }
    if (s->end - p >= 2 && p[0] == '\r' && p[1] == '\n')
        return refuse(s, p - 3, 505, "not version 1");
    if (p < s->end && *p == '\n')
        return refuse(s, p, 400, "bare LF in the request line");
    if (p < s->end && *p == '\r')
        return refuse(s, p, 400, "bare CR in the request line");
    return refuse(s, p, 400, "bytes behind the version");
}

IOH__SCAN_RARE static size_t refuse_target(struct ioh__http1_parsing *s, const char *target,
                                           const char *p)
{
    if (p == s->end)
        return 0;
    if (p == target && *p == ' ')
        return refuse(s, p, 400, "more than one space before the target");
    if (*p == '\r' || *p == '\n')
        return refuse(s, p, 400, "no version in the request line");
    if (*p == '#')
        return refuse(s, p, 400, "a fragment in the target");
    return refuse(s, p, 400, "a byte that a target may not have");
}

/* "http://" or "https://" authority path-abempty [ "?" query ] (RFC 9112 3.2.2, RFC 9110 4.2). */
IOH__SCAN_RARE static bool absolute_form(struct ioh__http1_parsing *s, const char *target,
                                         const char *end)
{
    struct ioh__http1_head *head = s->head;
    size_t len = (size_t)(end - target), scheme = 0;
    if (len > 7 && ioh__equal_nocase(target, 7, "http://", 7))
        scheme = 7;
    else if (len > 8 && ioh__equal_nocase(target, 8, "https://", 8))
        scheme = 8;
    if (!scheme)
        return ioh__http1_refuse_now(s, target, 400, "not a form of target");
    const char *authority = target + scheme, *p = authority;
    while (p < end && *p != '/' && *p != '?')
        p++;
    size_t authority_len = (size_t)(p - authority);
    if (!ioh__is_host(authority, authority_len)) {
        bool userinfo = memchr(authority, '@', authority_len) != NULL; /* RFC 9110 4.2.4 */
        return ioh__http1_refuse_now(
            s, authority, 400, userinfo ? "userinfo in the target" : "bad host in the target");
    }
    s->authority = offset(s, authority);
    s->authority_len = (uint16_t)authority_len;
    head->form = IOH__FORM_ABSOLUTE;
    head->path = offset(s, p);
    head->path_len = (uint16_t)((head->query ? s->data + head->query - 1 : end) - p);
    return true;
}

static inline bool is_method(const struct ioh__http1_parsing *s, const char *name, size_t len)
{
    return s->head->method_len == len && memcmp(s->data + s->head->method, name, len) == 0;
}

/* The forms but "/..." (RFC 9112 3.2). */
IOH__SCAN_RARE static bool other_form(struct ioh__http1_parsing *s, const char *target,
                                      const char *end)
{
    if (end - target != 1 || *target != '*')
        return absolute_form(s, target, end);
    if (!is_method(s, "OPTIONS", 7)) /* RFC 9112 3.2.4 */
        return ioh__http1_refuse_now(s, target, 400, "the asterisk is for OPTIONS");
    s->head->form = IOH__FORM_ASTERISK;
    s->head->path = offset(s, target);
    s->head->path_len = 1;
    return true;
}

/* method SP request-target SP HTTP-version CRLF from p on: where the next line begins, 0 if it does not. */
IOH__SCAN_INLINE size_t parse_request_line(struct ioh__http1_parsing *s, struct ioh__scan_cursor *c,
                                           enum ioh__scan_way way, size_t p)
{
    struct ioh__http1_head *head = s->head;
    const char *data = c->data;
    size_t end = c->end, method = p;
    ioh__scan_begin(c, way, p);
    p = ioh__scan_next(c, way, p, IOH__SCAN_TOKEN);
    if (p == end)
        return 0;
    if (data[p] != ' ' || p == method)
        return refuse(s, data + p, 400, "the method is not a token");
    if (p - method > METHOD_MAX)
        return refuse(s, data + method + METHOD_MAX, 400, "the method is too long");
    head->method = (uint16_t)method;
    head->method_len = (uint16_t)(p - method);

    size_t target = ++p;
    p = ioh__scan_next(c, way, p, IOH__SCAN_PATH);
    head->path = head->target = (uint16_t)target;
    head->path_len = (uint16_t)(p - target);
    if (p < end && data[p] == '?') {
        size_t query = p + 1;
        do
            p = ioh__scan_next(c, way, p + 1, IOH__SCAN_PATH);
        while (p < end && data[p] == '?');
        head->query = (uint16_t)query;
        head->query_len = (uint16_t)(p - query);
    }
    if (p == end || data[p] != ' ' || p == target)
        return refuse_target(s, data + target, data + p);
    head->target_len = (uint16_t)(p - target);
    if (head->target_len > s->limits->max_uri)
        return refuse(s, data + target + s->limits->max_uri, 414, "the target is too long");

    size_t version = ++p;
    if (end - p < 10 || memcmp(data + p, "HTTP", 4) != 0 || memcmp(data + p + 3, "P/1.", 4) != 0 ||
        !ioh__is_ch(data[p + 7], IOH__CH_DIGIT) || !is_crlf(data + p + 8))
        return refuse_version(s, data + p);
    head->minor = data[p + 7] != '0';
    p += 10;

    if (is_method(s, "CONNECT", 7)) /* RFC 9110 9.3.6; its target has a form of its own */
        return refuse(s, data + method, 501, "CONNECT: no tunnels here");
    head->is_head = is_method(s, "HEAD", 4);
    if (data[target] != '/' && !other_form(s, data + target, data + version - 1))
        return 0;
    return p;
}

/* ---- field lines (RFC 9112 5) */

IOH__SCAN_RARE static size_t refuse_name(struct ioh__http1_parsing *s, const char *name,
                                         const char *p)
{
    if (p == s->end)
        return 0;
    if (p == name && is_blank(*p)) { /* RFC 9112 2.2, 5.2 */
        bool first = s->head->count == 0;
        return refuse(s, p, 400,
                      first ? "white space before the first field" : "a folded field line");
    }
    if (p == name && *p == ':')
        return refuse(s, p, 400, "an empty field name");
    if (p == name && *p == '\n')
        return refuse(s, p, 400, "bare LF instead of the empty line");
    if (p == name && *p == '\r')
        return refuse(s, p, 400, "bare CR instead of the empty line");
    if (is_blank(*p)) /* RFC 9112 5.1 */
        return refuse(s, p, 400, "white space in or behind a field name");
    if (*p == '\r' || *p == '\n')
        return refuse(s, p, 400, "a field line without a colon");
    return refuse(s, p, 400, "a byte that a field name may not have");
}

IOH__SCAN_RARE static size_t refuse_value(struct ioh__http1_parsing *s, const char *p)
{
    if (p == s->end || (*p == '\r' && p + 1 == s->end))
        return 0;
    if (*p == '\n')
        return refuse(s, p, 400, "bare LF in a field line");
    if (*p == '\r')
        return refuse(s, p, 400, "bare CR in a field line");
    return refuse(s, p, 400, "a control byte in a field value");
}

/* Does the field mean something for the message as a whole? Most do not, by length and first letter. */
static inline bool may_be_known(const char *name, size_t len)
{
    static const char first[] = {
        [4] = 'h', [6] = 'e', [7] = 'u', [10] = 'c', [14] = 'c', [17] = 't'};
    return len < sizeof first && first[len] == (*name | 0x20);
}

/* All lines up to the empty one: where the body begins, or 0. */
IOH__SCAN_INLINE size_t parse_fields(struct ioh__http1_parsing *s, struct ioh__scan_cursor *c,
                                     enum ioh__scan_way way, size_t p)
{
    const char *data = c->data;
    size_t end = c->end;
    struct ioh__http1_field *f = s->head->fields, *full = f + s->limits->max_headers;
    for (;; f++) {
        size_t name = p;
        p = ioh__scan_next(c, way, p, IOH__SCAN_TOKEN);
        if (p == end || data[p] != ':' || p == name) {
            s->head->count = (uint16_t)(f - s->head->fields);
            if (p == name && end - p >= 2 && is_crlf(data + p))
                return p + 2;
            return refuse_name(s, data + name, data + p);
        }
        size_t colon = p, value = p + 1;
        p = ioh__scan_next(c, way, value, IOH__SCAN_VALUE);
        if (end - p < 2 || !is_crlf(data + p))
            return refuse_value(s, data + p);
        size_t value_end = p;
        p += 2;
        if (f == full)
            return refuse(s, data + name, 431, "too many fields");
        while (is_blank(data[value])) /* ends at the CR */
            value++;
        while (is_blank(data[value_end - 1]) && value_end > value)
            value_end--;
        f->name = (uint16_t)name;
        f->name_len = (uint16_t)(colon - name);
        f->value = (uint16_t)value;
        f->value_len = (uint16_t)(value_end - value);
        if (may_be_known(data + name, colon - name) && !ioh__http1_take_field(s, f))
            return 0;
    }
}

/* ---- */

IOH__SCAN_INLINE bool parse(struct ioh__http1_parsing *s, enum ioh__scan_way way)
{
    struct ioh__scan_cursor c = {
        .data = s->data, .end = (size_t)(s->end - s->data), .room = s->room};
    size_t p = 0;
    if (*c.data == '\r' || *c.data == '\n') {
        p = (size_t)(skip_empty_lines(s->data, s->end) - s->data);
        if (p == c.end)
            return false;
        if (c.data[p] == '\r' || c.data[p] == '\n') {
            bool crlf = c.end - p >= 2 && is_crlf(c.data + p);
            return refuse(s, c.data + p, 400,
                          crlf ? "too many empty lines" : "bare CR or LF before the request");
        }
    }
    p = parse_request_line(s, &c, way, p);
    if (p == 0)
        return false;
    s->in_fields = true;
    p = parse_fields(s, &c, way, p);
    return p > 0 && ioh__http1_finish(s, s->data + p);
}

/* One each, so that the masks are made inside the loops. */
#if IOH__SCAN_VECTORS
IOH__SCAN_FLAT IOH__AVX2 static bool parse_by_avx2(struct ioh__http1_parsing *s)
{
    return parse(s, IOH__BY_AVX2);
}

IOH__SCAN_FLAT IOH__SSSE3 static bool parse_by_ssse3(struct ioh__http1_parsing *s)
{
    return parse(s, IOH__BY_SSSE3);
}
#endif

IOH__SCAN_FLAT static bool parse_by_bytes(struct ioh__http1_parsing *s)
{
    return parse(s, IOH__BY_BYTES);
}

static bool parse_by(struct ioh__http1_parsing *s, enum ioh__scan_way way)
{
#if IOH__SCAN_VECTORS
    if (way == IOH__BY_AVX2)
        return parse_by_avx2(s);
    if (way == IOH__BY_SSSE3)
        return parse_by_ssse3(s);
#endif
    (void)way;
    return parse_by_bytes(s);
}

enum ioh__http1_result ioh__http1_parse_by(enum ioh__scan_way way, const char *data, size_t len,
                                           size_t room, size_t *scanned,
                                           const struct ioh__http1_limits *limits,
                                           struct ioh__http1_head *head,
                                           struct ioh__http1_fault *fault)
{
    size_t max = limits->max_head < UINT16_MAX ? limits->max_head : UINT16_MAX;
    size_t visible = len < max ? len : max;
    if (len == 0) /* data may be NULL */
        return IOH__HTTP1_MORE;
    struct ioh__http1_field *fields = head->fields;
    struct ioh__http1_parsing s = {.data = data,
                                   .end = data + visible,
                                   .room = room,
                                   .limits = limits,
                                   .head = head,
                                   .fault = fault};
    *head = (struct ioh__http1_head){.fields = fields};

    size_t from = *scanned < visible ? *scanned : visible;
    if ((visible > 0 && from == 0) || memchr(data + from, '\n', visible - from)) {
        if (parse_by(&s, room < IOH__SCAN_WIDTH ? IOH__BY_BYTES : way))
            return IOH__HTTP1_DONE;
    }
    if (!s.in_fields)
        check_request_line_limits(&s);
    if (!s.refused && len >= max)
        ioh__http1_refuse_now(&s, data + max, 431, "the head is too large");
    if (s.refused)
        return IOH__HTTP1_FAULT;
    *scanned = len;
    return IOH__HTTP1_MORE;
}

enum ioh__http1_result ioh__http1_parse(const char *data, size_t len, size_t room, size_t *scanned,
                                        const struct ioh__http1_limits *limits,
                                        struct ioh__http1_head *head,
                                        struct ioh__http1_fault *fault)
{
    return ioh__http1_parse_by(ioh__scan_best(), data, len, room, scanned, limits, head, fault);
}

int ioh__http1_find(const char *data, const struct ioh__http1_head *head, const char *name,
                    size_t name_len, size_t from)
{
    for (size_t i = from; i < head->count; i++) {
        const struct ioh__http1_field *f = &head->fields[i];
        if (f->name_len == name_len && ioh__equal_any_case(data + f->name, name, name_len))
            return (int)i;
    }
    return -1;
}
