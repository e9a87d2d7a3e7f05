/* What the fields of a request say of the message: its framing, its host, what becomes of the connection (RFC
 * 9112 3.2, 6, 9; RFC 9110 7.6.1, 7.8, 8.6, 10.1.1). Owns nothing, any thread.
 *
 * Each known field is judged when its line has ended, the head as a whole at its end.
 */
#include "proto/http1_framing.h"

#include "proto/http1_field.h"
#include <string.h>

bool ioh__http1_refuse_now(struct ioh__http1_parsing *s, const char *at, int status,
                           const char *reason)
{
    s->fault->status = status;
    s->fault->reason = reason;
    s->fault->offset = (size_t)(at - s->data);
    s->refused = true;
    return false;
}

/* ---- words */

static uint64_t lower_8(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word | 0x2020202020202020u;
}

static uint32_t lower_4(const char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word | 0x20202020u;
}

/* Are the len bytes at p, of a token or a value, this word but for case? It is of lower-case letters and '-',
 * and len is constant, 4 to 24: with bit 5 set only CR becomes one of them besides. */
static inline bool is_name(const char *p, const char *name, size_t len)
{
    if (len < 8)
        return lower_4(p) == lower_4(name) && lower_4(p + len - 4) == lower_4(name + len - 4);
    return lower_8(p) == lower_8(name) && lower_8(p + len - 8) == lower_8(name + len - 8) &&
           (len <= 16 || lower_8(p + 8) == lower_8(name + 8));
}

/* ---- fields with a meaning for framing */

static const char *field_value(const struct ioh__http1_parsing *s, const struct ioh__http1_field *f)
{
    return s->data + f->value;
}

/* RFC 9110 8.6: 1*DIGIT. Repeated or as a list it is refused even when all are equal, which RFC 9112
 * 6.3 allows. */
static bool take_length(struct ioh__http1_parsing *s, const struct ioh__http1_field *f)
{
    struct ioh__http1_head *head = s->head;
    const char *p = field_value(s, f), *end = p + f->value_len;
    uint64_t length = 0;
    if (head->has_length)
        return ioh__http1_refuse_now(s, p, 400, "more than one Content-Length");
    if (s->coding) /* RFC 9112 6.1 */
        return ioh__http1_refuse_now(s, p, 400, "Content-Length with Transfer-Encoding");
    if (p == end)
        return ioh__http1_refuse_now(s, p, 400, "Content-Length without a number");
    for (; p < end; p++) {
        if (!ioh__is_ch(*p, IOH__CH_DIGIT))
            return ioh__http1_refuse_now(s, p, 400, "Content-Length is not a number");
        uint64_t digit = (uint64_t)(*p - '0');
        if (length > ((uint64_t)INT64_MAX - digit) / 10)
            return ioh__http1_refuse_now(s, p, 400, "Content-Length is too large");
        length = length * 10 + digit;
    }
    head->has_length = true;
    head->content_length = length;
    return true;
}

/* RFC 9112 3.2 */
static bool take_host(struct ioh__http1_parsing *s, const struct ioh__http1_field *f)
{
    if (s->host)
        return ioh__http1_refuse_now(s, field_value(s, f), 400, "more than one Host");
    if (!ioh__is_host(field_value(s, f), f->value_len))
        return ioh__http1_refuse_now(s, field_value(s, f), 400, "Host is not a host");
    s->host = f;
    return true;
}

/* The codings are judged when all of them are there: check_codings(). */
static bool take_coding(struct ioh__http1_parsing *s, const struct ioh__http1_field *f)
{
    if (s->head->minor == 0) /* RFC 9112 6.1 */
        return ioh__http1_refuse_now(s, field_value(s, f), 400, "Transfer-Encoding with HTTP/1.0");
    if (s->head->has_length)
        return ioh__http1_refuse_now(s, field_value(s, f), 400,
                                     "Content-Length with Transfer-Encoding");
    if (!s->coding)
        s->coding = f;
    return true;
}

/* RFC 9110 7.6.1 */
static void take_connection(struct ioh__http1_parsing *s, const struct ioh__http1_field *f)
{
    const char *p = field_value(s, f), *end = p + f->value_len, *element;
    size_t len;
    if (f->value_len == 10 && is_name(p, "keep-alive", 10)) { /* what most say */
        s->keep = true;
        return;
    }
    while (ioh__list_next(&p, end, &element, &len)) {
        if (len == 5)
            s->close = s->close || ioh__equal_nocase(element, len, "close", 5);
        else if (len == 7)
            s->upgrade = s->upgrade || ioh__equal_nocase(element, len, "upgrade", 7);
        else if (len == 10)
            s->keep = s->keep || ioh__equal_nocase(element, len, "keep-alive", 10);
    }
}

bool ioh__http1_take_field(struct ioh__http1_parsing *s, const struct ioh__http1_field *f)
{
    const char *name = s->data + f->name;
    switch (ioh__http1_field_key(name, f->name_len)) {
    case IOH__KEY_HOST:
        return !is_name(name, "host", 4) || take_host(s, f);
    case IOH__KEY_CONTENT_LENGTH:
        return !is_name(name, "content-length", 14) || take_length(s, f);
    case IOH__KEY_TRANSFER_ENCODING:
        return !is_name(name, "transfer-encoding", 17) || take_coding(s, f);
    case IOH__KEY_CONNECTION:
        if (is_name(name, "connection", 10))
            take_connection(s, f);
        return true;
    case IOH__KEY_UPGRADE:
        if (is_name(name, "upgrade", 7) &&
            ioh__list_has(field_value(s, f), f->value_len, "websocket"))
            s->websocket = true;
        return true;
    case IOH__KEY_EXPECT:
        if (is_name(name, "expect", 6)) {
            s->expect_again = s->expect != NULL;
            s->expect = f;
        }
        return true;
    default:
        return true;
    }
}

/* ---- the head as a whole */

/* The elements of all Transfer-Encoding fields (RFC 9112 6.1, 7): only "chunked" is known here, and it
 * must be the last, once. */
static bool check_codings(struct ioh__http1_parsing *s)
{
    const struct ioh__http1_field *fields_end = s->head->fields + s->head->count;
    bool chunked = false, unknown = false;
    for (const struct ioh__http1_field *f = s->coding; f < fields_end; f++) {
        if (f->name_len != 17 || !is_name(s->data + f->name, "transfer-encoding", 17))
            continue;
        const char *p = field_value(s, f), *end = p + f->value_len, *coding;
        size_t len;
        while (ioh__list_next(&p, end, &coding, &len)) {
            if (chunked)
                return ioh__http1_refuse_now(s, coding, 400, "a transfer coding behind chunked");
            if (!ioh__is_token(coding, len))
                return ioh__http1_refuse_now(s, coding, 400, "a bad transfer coding");
            if (ioh__equal_nocase(coding, len, "chunked", 7))
                chunked = true;
            else
                unknown = true;
        }
    }
    if (unknown)
        return ioh__http1_refuse_now(s, field_value(s, s->coding), 501,
                                     "an unknown transfer coding");
    s->head->chunked = true;
    return true;
}

/* RFC 9112 3.2, 3.2.2 */
static bool check_host(struct ioh__http1_parsing *s, const char *behind)
{
    if (!s->host) {
        if (s->head->minor == 0)
            return true;
        return ioh__http1_refuse_now(s, behind - 2, 400, "no Host");
    }
    if (s->head->form != IOH__FORM_ABSOLUTE)
        return true;
    const char *host = field_value(s, s->host), *authority = s->data + s->authority;
    if (s->host->value_len != s->authority_len ||
        !ioh__equal_any_case(host, authority, s->authority_len))
        return ioh__http1_refuse_now(s, host, 400, "Host is not the host of the target");
    return true;
}

/* RFC 9110 10.1.1; HTTP/1.0 knows no expectations. */
static bool check_expect(struct ioh__http1_parsing *s)
{
    if (!s->expect || s->head->minor == 0)
        return true;
    const char *value = field_value(s, s->expect);
    if (s->expect_again || !ioh__equal_nocase(value, s->expect->value_len, "100-continue", 12))
        return ioh__http1_refuse_now(s, value, 417, "an unknown expectation");
    s->head->expect_continue = true;
    return true;
}

bool ioh__http1_finish(struct ioh__http1_parsing *s, const char *behind)
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
