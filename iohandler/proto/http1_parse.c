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

#include "proto/http1_field.h"
#include <string.h>

#define METHOD_MAX 32u    /* the longest registered one has 17 bytes */
#define EMPTY_LINES_MAX 4 /* RFC 9112 2.2 asks for at least one */

/* What one parse knows beside *head. */
struct parse {
    const char *data;
    const char *end; /* of the bytes to look at: of those given, or max_head */
    const struct ioh__http1_limits *limits;
    struct ioh__http1_head *head;
    struct ioh__http1_fault *fault;
    bool refused;              /* *fault is set; else the bytes ended too early */
    bool in_fields;            /* the request line is over */
    bool close, keep, upgrade; /* seen in Connection */
    bool websocket;            /* seen in Upgrade */
    const struct ioh__http1_field *host, *coding; /* the first Transfer-Encoding */
    const struct ioh__http1_field *expect;        /* the last one */
    bool expect_again;
    uint16_t authority, authority_len; /* of the absolute form */
};

/* Answers false, for functions that say whether to go on. */
static bool refuse_now(struct parse *s, const char *at, int status, const char *reason)
{
    s->fault->status = status;
    s->fault->reason = reason;
    s->fault->offset = (size_t)(at - s->data);
    s->refused = true;
    return false;
}

/* Refuses if the line in which at lies has ended; else more bytes are needed. Answers NULL, for
 * functions that say where to go on. */
static const char *refuse(struct parse *s, const char *at, int status, const char *reason)
{
    if (at < s->end && memchr(at, '\n', (size_t)(s->end - at)))
        refuse_now(s, at, status, reason);
    return NULL;
}

static uint16_t offset(const struct parse *s, const char *p)
{
    return (uint16_t)(p - s->data);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* ---- limits that do not wait for the end of a line */

static const char *skip_empty_lines(const char *p, const char *end)
{
    for (int n = 0; n < EMPTY_LINES_MAX && end - p >= 2 && p[0] == '\r' && p[1] == '\n'; n++)
        p += 2;
    return p;
}

/* Is the method or the target of a request line too long, by the bytes there are? */
static void check_request_line_limits(struct parse *s)
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
            refuse_now(s, line + METHOD_MAX, 400, "the method is too long");
        return;
    }
    const char *target = space + 1;
    size_t max = s->limits->max_uri;
    len -= (size_t)(target - line);
    if (len > max && !memchr(target, ' ', max + 1))
        refuse_now(s, target + max, 414, "the target is too long");
}

/* ---- the request line (RFC 9112 3) */

/* A version that is not "HTTP/1.x" CRLF at p. */
static const char *refuse_version(struct parse *s, const char *p)
{
    static const char form[] = "HTTP/d.d";
    for (const char *f = form; *f; f++, p++) {
        if (p == s->end)
            return NULL;
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

static const char *refuse_target(struct parse *s, const char *target, const char *p)
{
    if (p == s->end)
        return NULL;
    if (p == target && *p == ' ')
        return refuse(s, p, 400, "more than one space before the target");
    if (*p == '\r' || *p == '\n')
        return refuse(s, p, 400, "no version in the request line");
    if (*p == '#')
        return refuse(s, p, 400, "a fragment in the target");
    return refuse(s, p, 400, "a byte that a target may not have");
}

/* "http://" or "https://" authority path-abempty [ "?" query ] (RFC 9112 3.2.2, RFC 9110 4.2). */
static bool absolute_form(struct parse *s, const char *target, const char *end)
{
    struct ioh__http1_head *head = s->head;
    size_t len = (size_t)(end - target), scheme = 0;
    if (len > 7 && ioh__equal_nocase(target, 7, "http://", 7))
        scheme = 7;
    else if (len > 8 && ioh__equal_nocase(target, 8, "https://", 8))
        scheme = 8;
    if (!scheme)
        return refuse_now(s, target, 400, "not a form of target");
    const char *authority = target + scheme, *p = authority;
    while (p < end && *p != '/' && *p != '?')
        p++;
    size_t authority_len = (size_t)(p - authority);
    if (!ioh__is_host(authority, authority_len)) {
        bool userinfo = memchr(authority, '@', authority_len) != NULL; /* RFC 9110 4.2.4 */
        return refuse_now(s, authority, 400,
                          userinfo ? "userinfo in the target" : "bad host in the target");
    }
    s->authority = offset(s, authority);
    s->authority_len = (uint16_t)authority_len;
    head->form = IOH__FORM_ABSOLUTE;
    head->path = offset(s, p);
    head->path_len = (uint16_t)((head->query ? s->data + head->query - 1 : end) - p);
    return true;
}

static bool is_method(const struct parse *s, const char *name, size_t len)
{
    return s->head->method_len == len && memcmp(s->data + s->head->method, name, len) == 0;
}

/* The forms but "/..." (RFC 9112 3.2). */
static bool other_form(struct parse *s, const char *target, const char *end)
{
    if (end - target != 1 || *target != '*')
        return absolute_form(s, target, end);
    if (!is_method(s, "OPTIONS", 7)) /* RFC 9112 3.2.4 */
        return refuse_now(s, target, 400, "the asterisk is for OPTIONS");
    s->head->form = IOH__FORM_ASTERISK;
    s->head->path = offset(s, target);
    s->head->path_len = 1;
    return true;
}

/* method SP request-target SP HTTP-version CRLF: where the next line begins. */
static const char *parse_request_line(struct parse *s, const char *p)
{
    struct ioh__http1_head *head = s->head;
    const char *end = s->end, *method = p;
    while (p < end && ioh__is_ch(*p, IOH__CH_TOKEN))
        p++;
    if (p == end)
        return NULL;
    if (*p != ' ' || p == method)
        return refuse(s, p, 400, "the method is not a token");
    if ((size_t)(p - method) > METHOD_MAX)
        return refuse(s, method + METHOD_MAX, 400, "the method is too long");
    head->method = offset(s, method);
    head->method_len = (uint16_t)(p - method);

    const char *target = ++p;
    while (p < end && ioh__is_ch(*p, IOH__CH_PATH))
        p++;
    head->path = head->target = offset(s, target);
    head->path_len = (uint16_t)(p - target);
    if (p < end && *p == '?') {
        const char *query = ++p;
        while (p < end && ioh__is_ch(*p, IOH__CH_TARGET))
            p++;
        head->query = offset(s, query);
        head->query_len = (uint16_t)(p - query);
    }
    if (p == end || *p != ' ' || p == target)
        return refuse_target(s, target, p);
    const char *target_end = p++;
    head->target_len = (uint16_t)(target_end - target);
    if (head->target_len > s->limits->max_uri)
        return refuse(s, target + s->limits->max_uri, 414, "the target is too long");

    if (end - p < 10 || memcmp(p, "HTTP/1.", 7) != 0 || !ioh__is_ch(p[7], IOH__CH_DIGIT) ||
        p[8] != '\r' || p[9] != '\n')
        return refuse_version(s, p);
    head->minor = p[7] != '0';
    p += 10;

    if (is_method(s, "CONNECT", 7)) /* RFC 9110 9.3.6; its target has a form of its own */
        return refuse(s, method, 501, "CONNECT: no tunnels here");
    head->is_head = is_method(s, "HEAD", 4);
    if (*target != '/' && !other_form(s, target, target_end))
        return NULL;
    return p;
}

/* ---- fields with a meaning for framing */

static const char *field_value(const struct parse *s, const struct ioh__http1_field *f)
{
    return s->data + f->value;
}

/* RFC 9110 8.6: 1*DIGIT. Repeated or as a list it is refused even when all are equal, which RFC 9112
 * 6.3 allows. */
static bool take_length(struct parse *s, const struct ioh__http1_field *f)
{
    struct ioh__http1_head *head = s->head;
    const char *p = field_value(s, f), *end = p + f->value_len;
    uint64_t length = 0;
    if (head->has_length)
        return refuse_now(s, p, 400, "more than one Content-Length");
    if (s->coding) /* RFC 9112 6.1 */
        return refuse_now(s, p, 400, "Content-Length with Transfer-Encoding");
    if (p == end)
        return refuse_now(s, p, 400, "Content-Length without a number");
    for (; p < end; p++) {
        if (!ioh__is_ch(*p, IOH__CH_DIGIT))
            return refuse_now(s, p, 400, "Content-Length is not a number");
        uint64_t digit = (uint64_t)(*p - '0');
        if (length > ((uint64_t)INT64_MAX - digit) / 10)
            return refuse_now(s, p, 400, "Content-Length is too large");
        length = length * 10 + digit;
    }
    head->has_length = true;
    head->content_length = length;
    return true;
}

/* RFC 9112 3.2 */
static bool take_host(struct parse *s, const struct ioh__http1_field *f)
{
    if (s->host)
        return refuse_now(s, field_value(s, f), 400, "more than one Host");
    if (!ioh__is_host(field_value(s, f), f->value_len))
        return refuse_now(s, field_value(s, f), 400, "Host is not a host");
    s->host = f;
    return true;
}

/* The codings are judged when all of them are there: check_codings(). */
static bool take_coding(struct parse *s, const struct ioh__http1_field *f)
{
    if (s->head->minor == 0) /* RFC 9112 6.1 */
        return refuse_now(s, field_value(s, f), 400, "Transfer-Encoding with HTTP/1.0");
    if (s->head->has_length)
        return refuse_now(s, field_value(s, f), 400, "Content-Length with Transfer-Encoding");
    if (!s->coding)
        s->coding = f;
    return true;
}

/* RFC 9110 7.6.1 */
static void take_connection(struct parse *s, const struct ioh__http1_field *f)
{
    const char *p = field_value(s, f), *end = p + f->value_len, *element;
    size_t len;
    while (ioh__list_next(&p, end, &element, &len)) {
        if (len == 5)
            s->close = s->close || ioh__equal_nocase(element, len, "close", 5);
        else if (len == 7)
            s->upgrade = s->upgrade || ioh__equal_nocase(element, len, "upgrade", 7);
        else if (len == 10)
            s->keep = s->keep || ioh__equal_nocase(element, len, "keep-alive", 10);
    }
}

static bool is_name(const struct parse *s, const struct ioh__http1_field *f, const char *name)
{
    return ioh__equal_nocase(s->data + f->name, f->name_len, name, f->name_len);
}

/* The lengths of the names below, as bits: most fields end here. */
#define KNOWN_LENGTHS (1u << 4 | 1u << 6 | 1u << 7 | 1u << 10 | 1u << 14 | 1u << 17)

/* Keeps what a field says of the message; false: refused. */
static bool take_field(struct parse *s, const struct ioh__http1_field *f)
{
    if (f->name_len > 17 || !(KNOWN_LENGTHS >> f->name_len & 1u))
        return true;
    switch ((unsigned)f->name_len << 8 | (unsigned char)(s->data[f->name] | 0x20)) {
    case 4 << 8 | 'h':
        return !is_name(s, f, "host") || take_host(s, f);
    case 14 << 8 | 'c':
        return !is_name(s, f, "content-length") || take_length(s, f);
    case 17 << 8 | 't':
        return !is_name(s, f, "transfer-encoding") || take_coding(s, f);
    case 10 << 8 | 'c':
        if (is_name(s, f, "connection"))
            take_connection(s, f);
        return true;
    case 7 << 8 | 'u':
        if (is_name(s, f, "upgrade") && ioh__list_has(field_value(s, f), f->value_len, "websocket"))
            s->websocket = true;
        return true;
    case 6 << 8 | 'e':
        if (is_name(s, f, "expect")) {
            s->expect_again = s->expect != NULL;
            s->expect = f;
        }
        return true;
    default:
        return true;
    }
}

/* ---- field lines (RFC 9112 5) */

static const char *refuse_name(struct parse *s, const char *name, const char *p)
{
    if (p == s->end)
        return NULL;
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

static const char *refuse_value(struct parse *s, const char *p)
{
    if (p == s->end || (*p == '\r' && p + 1 == s->end))
        return NULL;
    if (*p == '\n')
        return refuse(s, p, 400, "bare LF in a field line");
    if (*p == '\r')
        return refuse(s, p, 400, "bare CR in a field line");
    return refuse(s, p, 400, "a control byte in a field value");
}

/* All lines up to the empty one: where the body begins. */
static const char *parse_fields(struct parse *s, const char *p)
{
    struct ioh__http1_head *head = s->head;
    const char *end = s->end;
    for (;;) {
        const char *name = p;
        while (p < end && ioh__is_ch(*p, IOH__CH_TOKEN))
            p++;
        if (p == end || *p != ':' || p == name) {
            if (p == name && end - p >= 2 && p[0] == '\r' && p[1] == '\n')
                return p + 2;
            return refuse_name(s, name, p);
        }
        const char *colon = p++;
        while (p < end && is_blank(*p))
            p++;
        const char *value = p;
        p = ioh__skip_value(p, end);
        if (end - p < 2 || p[0] != '\r' || p[1] != '\n')
            return refuse_value(s, p);
        const char *value_end = p;
        while (value_end > value && is_blank(value_end[-1]))
            value_end--;
        p += 2;
        if (head->count >= s->limits->max_headers)
            return refuse(s, name, 431, "too many fields");
        struct ioh__http1_field *f = &head->fields[head->count++];
        f->name = offset(s, name);
        f->name_len = (uint16_t)(colon - name);
        f->value = offset(s, value);
        f->value_len = (uint16_t)(value_end - value);
        if (!take_field(s, f))
            return NULL;
    }
}

/* ---- the head as a whole */

/* The elements of all Transfer-Encoding fields (RFC 9112 6.1, 7): only "chunked" is known here, and it
 * must be the last, once. */
static bool check_codings(struct parse *s)
{
    const struct ioh__http1_field *fields_end = s->head->fields + s->head->count;
    bool chunked = false, unknown = false;
    for (const struct ioh__http1_field *f = s->coding; f < fields_end; f++) {
        if (f->name_len != 17 || !is_name(s, f, "transfer-encoding"))
            continue;
        const char *p = field_value(s, f), *end = p + f->value_len, *coding;
        size_t len;
        while (ioh__list_next(&p, end, &coding, &len)) {
            if (chunked)
                return refuse_now(s, coding, 400, "a transfer coding behind chunked");
            if (!ioh__is_token(coding, len))
                return refuse_now(s, coding, 400, "a bad transfer coding");
            if (ioh__equal_nocase(coding, len, "chunked", 7))
                chunked = true;
            else
                unknown = true;
        }
    }
    if (unknown)
        return refuse_now(s, field_value(s, s->coding), 501, "an unknown transfer coding");
    s->head->chunked = true;
    return true;
}

/* RFC 9112 3.2, 3.2.2 */
static bool check_host(struct parse *s, const char *behind)
{
    if (!s->host) {
        if (s->head->minor == 0)
            return true;
        return refuse_now(s, behind - 2, 400, "no Host");
    }
    if (s->head->form != IOH__FORM_ABSOLUTE)
        return true;
    const char *host = field_value(s, s->host), *authority = s->data + s->authority;
    if (s->host->value_len != s->authority_len ||
        !ioh__equal_any_case(host, authority, s->authority_len))
        return refuse_now(s, host, 400, "Host is not the host of the target");
    return true;
}

/* RFC 9110 10.1.1; HTTP/1.0 knows no expectations. */
static bool check_expect(struct parse *s)
{
    if (!s->expect || s->head->minor == 0)
        return true;
    const char *value = field_value(s, s->expect);
    if (s->expect_again || !ioh__equal_nocase(value, s->expect->value_len, "100-continue", 12))
        return refuse_now(s, value, 417, "an unknown expectation");
    s->head->expect_continue = true;
    return true;
}

static bool finish(struct parse *s, const char *behind)
{
    struct ioh__http1_head *head = s->head;
    if (!check_host(s, behind))
        return false;
    if (s->coding && !check_codings(s))
        return false;
    if (!check_expect(s))
        return false;
    head->keep_alive = !s->close && (head->minor > 0 || s->keep);
    head->upgrade_websocket = s->upgrade && s->websocket && head->minor > 0;
    head->len = (uint32_t)(behind - s->data);
    return true;
}

/* ---- */

static bool parse(struct parse *s)
{
    const char *p = s->data;
    if (p < s->end && (*p == '\r' || *p == '\n')) {
        p = skip_empty_lines(p, s->end);
        if (p < s->end && (*p == '\r' || *p == '\n')) {
            bool crlf = s->end - p >= 2 && p[0] == '\r' && p[1] == '\n';
            return refuse(s, p, 400,
                          crlf ? "too many empty lines" : "bare CR or LF before the request");
        }
    }
    p = parse_request_line(s, p);
    if (!p)
        return false;
    s->in_fields = true;
    p = parse_fields(s, p);
    return p && finish(s, p);
}

enum ioh__http1_result ioh__http1_parse(const char *data, size_t len, size_t *scanned,
                                        const struct ioh__http1_limits *limits,
                                        struct ioh__http1_head *head,
                                        struct ioh__http1_fault *fault)
{
    if (len == 0) /* data may be NULL */
        return IOH__HTTP1_MORE;
    size_t max = limits->max_head < UINT16_MAX ? limits->max_head : UINT16_MAX;
    size_t visible = len < max ? len : max;
    struct ioh__http1_field *fields = head->fields;
    struct parse s = {
        .data = data, .end = data + visible, .limits = limits, .head = head, .fault = fault};
    *head = (struct ioh__http1_head){.fields = fields};

    size_t from = *scanned < visible ? *scanned : visible;
    if (from == 0 || memchr(data + from, '\n', visible - from)) {
        if (parse(&s))
            return IOH__HTTP1_DONE;
    }
    if (!s.in_fields)
        check_request_line_limits(&s);
    if (!s.refused && len >= max)
        refuse_now(&s, data + max, 431, "the head is too large");
    if (s.refused)
        return IOH__HTTP1_FAULT;
    *scanned = len;
    return IOH__HTTP1_MORE;
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
