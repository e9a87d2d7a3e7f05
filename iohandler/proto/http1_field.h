/* The grammar below HTTP/1: which byte may stand where (RFC 9110 5.6, RFC 9112 3, RFC 3986), as one
 * table, so that the parsers ask one look-up per byte. The functions over whole strings are declared
 * in http1_parse.h. */
#ifndef IOH_PROTO_HTTP1_FIELD_H
#define IOH_PROTO_HTTP1_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IOH__CH_TOKEN 0x01u  /* tchar */
#define IOH__CH_VALUE 0x02u  /* in a field value: visible, SP, HTAB, obs-text */
#define IOH__CH_TARGET 0x04u /* in a request target: visible ASCII without '#' and '\' */
#define IOH__CH_PATH 0x08u   /* the same without '?' */
#define IOH__CH_HOST 0x10u   /* in a reg-name, '%' left out: unreserved, sub-delims */
#define IOH__CH_HEX 0x20u    /* HEXDIG, both cases */
#define IOH__CH_DIGIT 0x40u  /* DIGIT */

/* The same for constants: ioh__is_ch() is quicker. RFC 9110 5.6.2; 5.5, what a value may not have; RFC 9112 3.2, a
 * target has no fragment. A backslash is no URI byte, and some take it for a slash. Others that no URI may hold,
 * like '"' and '|', are left to the host: browsers send them. */
#define IOH__IS_TOKEN(c)                                                                       \
    (((c) >= '0' && (c) <= '9') || ((c) >= 'a' && (c) <= 'z') || ((c) >= 'A' && (c) <= 'Z') || \
     (c) == '!' || (c) == '#' || (c) == '$' || (c) == '%' || (c) == '&' || (c) == '\'' ||      \
     (c) == '*' || (c) == '+' || (c) == '-' || (c) == '.' || (c) == '^' || (c) == '_' ||       \
     (c) == '`' || (c) == '|' || (c) == '~')
#define IOH__IS_CONTROL(c) ((c) == 0x7f || ((c) < 0x20 && (c) != '\t'))
#define IOH__IS_TARGET(c) ((c) > 0x20 && (c) < 0x7f && (c) != '#' && (c) != '\\')
#define IOH__IS_PATH(c) (IOH__IS_TARGET(c) && (c) != '?')

extern const uint8_t ioh__ch[256];

static inline bool ioh__is_ch(char c, unsigned kind)
{
    return (ioh__ch[(unsigned char)c] & kind) != 0;
}

static inline char ioh__lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Equal but for case? Neither side is known to be lower case. */
static inline bool ioh__equal_any_case(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (a[i] != b[i] && ioh__lower(a[i]) != ioh__lower(b[i]))
            return false;
    }
    return true;
}

/* The first byte from p on that may not stand in a field value, or end. */
const char *ioh__skip_value(const char *p, const char *end);

/* The next element of a comma-separated list from *p on (RFC 9110 5.6.1), without the white space
 * around it, maybe empty; *p is moved behind its comma. false: there is none left. Begin with *p at
 * the list; a list without bytes has one empty element. *p is NULL after the last. */
bool ioh__list_next(const char **p, const char *end, const char **element, size_t *len);

/* Is it uri-host [ ":" port ] and not empty (RFC 9110 7.2, RFC 3986 3.2.2)? Of an IPv6 address only
 * the bytes are looked at, not how they are grouped. */
bool ioh__is_host(const char *s, size_t len);

#endif
