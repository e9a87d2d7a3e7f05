/* The small grammar of HTTP/1: the byte table and the checks over whole strings. Owns nothing, any
 * thread. */
#include "proto/http1_field.h"

#include "proto/http1_parse.h"
#include <string.h>

/* ---- the table, written as the grammar reads */

#define DIGIT(c) ((c) >= '0' && (c) <= '9')
#define ALPHA(c) (((c) >= 'a' && (c) <= 'z') || ((c) >= 'A' && (c) <= 'Z'))
#define HEXDIG(c) (DIGIT(c) || ((c) >= 'a' && (c) <= 'f') || ((c) >= 'A' && (c) <= 'F'))

/* RFC 3986 2.2, 2.3 */
#define HOST(c)                                                                                    \
    (DIGIT(c) || ALPHA(c) || (c) == '-' || (c) == '.' || (c) == '_' || (c) == '~' || (c) == '!' || \
     (c) == '$' || (c) == '&' || (c) == '\'' || (c) == '(' || (c) == ')' || (c) == '*' ||          \
     (c) == '+' || (c) == ',' || (c) == ';' || (c) == '=')

#define KINDS(c)                                                                                  \
    (uint8_t)((IOH__IS_TOKEN(c) ? IOH__CH_TOKEN : 0u) |                                           \
              (IOH__IS_CONTROL(c) ? 0u : IOH__CH_VALUE) |                                         \
              (IOH__IS_TARGET(c) ? IOH__CH_TARGET : 0u) | (IOH__IS_PATH(c) ? IOH__CH_PATH : 0u) | \
              (HOST(c) ? IOH__CH_HOST : 0u) | (HEXDIG(c) ? IOH__CH_HEX : 0u) |                    \
              (DIGIT(c) ? IOH__CH_DIGIT : 0u))
#define KINDS4(c) KINDS(c), KINDS((c) + 1), KINDS((c) + 2), KINDS((c) + 3)
#define KINDS16(c) KINDS4(c), KINDS4((c) + 4), KINDS4((c) + 8), KINDS4((c) + 12)
#define KINDS64(c) KINDS16(c), KINDS16((c) + 16), KINDS16((c) + 32), KINDS16((c) + 48)

const uint8_t ioh__ch[256] = {KINDS64(0), KINDS64(64), KINDS64(128), KINDS64(192)};

/* ---- values */

#define EACH_BYTE(x) (0x0101010101010101u * (uint64_t)(x))

const char *ioh__skip_value(const char *p, const char *end)
{
    for (;;) {
        /* Eight bytes at a time. The top bit of each byte of `bad` says: below 0x20 (a borrow can
         * spoil only bytes behind a true one), or 0x7f. */
        while (end - p >= 8) {
            uint64_t word;
            memcpy(&word, p, sizeof word);
            uint64_t control = word - EACH_BYTE(0x20);
            uint64_t del = (word & EACH_BYTE(0x7f)) + EACH_BYTE(0x01);
            uint64_t bad = (control | del) & ~word & EACH_BYTE(0x80);
            if (bad) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
                p += __builtin_ctzll(bad) / 8;
#endif
                break;
            }
            p += 8;
        }
        /* Here lies a bad byte, a tab, or less than eight bytes. */
        const char *from = p;
        while (p < end && p - from < 8 && ioh__is_ch(*p, IOH__CH_VALUE))
            p++;
        if (p == end || !ioh__is_ch(*p, IOH__CH_VALUE))
            return p;
    }
}

bool ioh__is_field_value(const char *s, size_t len)
{
    return len == 0 || ioh__skip_value(s, s + len) == s + len;
}

bool ioh__is_token(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!ioh__is_ch(s[i], IOH__CH_TOKEN))
            return false;
    }
    return len > 0;
}

bool ioh__equal_nocase(const char *a, size_t len, const char *b, size_t b_len)
{
    if (len != b_len)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (ioh__lower(a[i]) != b[i])
            return false;
    }
    return true;
}

/* ---- lists */

bool ioh__list_next(const char **p, const char *end, const char **element, size_t *len)
{
    const char *from = *p;
    if (!from)
        return false;
    const char *comma = from < end ? memchr(from, ',', (size_t)(end - from)) : NULL;
    const char *to = comma ? comma : end;
    *p = comma ? comma + 1 : NULL;
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (from < to && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    *element = from;
    *len = (size_t)(to - from);
    return true;
}

bool ioh__list_has(const char *list, size_t len, const char *token)
{
    const char *element;
    size_t element_len, token_len = strlen(token);
    if (len == 0) /* list may be NULL */
        return false;
    for (const char *p = list; ioh__list_next(&p, list + len, &element, &element_len);) {
        if (ioh__equal_nocase(element, element_len, token, token_len))
            return true;
    }
    return false;
}

/* ---- hosts */

/* "[" IPv6address or IPvFuture "]": where it ends, or NULL. */
static const char *skip_ip_literal(const char *p, const char *end)
{
    const char *close = memchr(p, ']', (size_t)(end - p));
    if (!close)
        return NULL;
    p++;
    if (*p == 'v' || *p == 'V') { /* "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" ) */
        const char *version = ++p;
        while (ioh__is_ch(*p, IOH__CH_HEX))
            p++;
        if (p == version || *p != '.' || ++p == close)
            return NULL;
        while (ioh__is_ch(*p, IOH__CH_HOST) || *p == ':')
            p++;
    } else {
        unsigned colons = 0;
        for (; ioh__is_ch(*p, IOH__CH_HEX) || *p == ':' || *p == '.'; p++)
            colons += *p == ':';
        if (colons < 2)
            return NULL;
    }
    return p == close ? close + 1 : NULL;
}

static inline bool four_are(const char *p, unsigned kind)
{
    return ioh__ch[(unsigned char)p[0]] & ioh__ch[(unsigned char)p[1]] &
           ioh__ch[(unsigned char)p[2]] & ioh__ch[(unsigned char)p[3]] & kind;
}

/* The first byte from p on that is not of that kind, or end. */
static inline const char *skip(const char *p, const char *end, unsigned kind)
{
    while (end - p >= 4 && four_are(p, kind))
        p += 4;
    while (p < end && ioh__is_ch(*p, kind))
        p++;
    return p;
}

static const char *skip_reg_name(const char *p, const char *end)
{
    for (;;) {
        p = skip(p, end, IOH__CH_HOST);
        if (end - p < 3 || *p != '%' || !ioh__is_ch(p[1], IOH__CH_HEX) ||
            !ioh__is_ch(p[2], IOH__CH_HEX))
            return p;
        p += 3;
    }
}

bool ioh__is_host(const char *s, size_t len)
{
    if (len == 0)
        return false;
    const char *end = s + len;
    const char *p = *s == '[' ? skip_ip_literal(s, end) : skip_reg_name(s, end);
    if (!p || p == s)
        return false;
    if (p < end && *p == ':')
        p = skip(p + 1, end, IOH__CH_DIGIT);
    return p == end;
}
