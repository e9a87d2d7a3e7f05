/* The origin of a WebSocket (see ws_origin.h; RFC 6454 6.1). It owns nothing; any thread.
 *
 *     Origin: scheme "://" host [ ":" port ]  |  "null"  |  anything else, which is never the same
 *     Host:                host [ ":" port ]
 *
 * Which port a missing one means is said by the origin's scheme on both sides: a client leaves the default out,
 * and the server behind a proxy does not know by which scheme it was called.
 */
#include "proto/ws_origin.h"

#include <string.h>

#include "proto/http1_field.h"

enum { NO_PORT = -1, PORT_MAX = 65535 };

struct authority {
    const char *host;
    size_t host_len;
    int port;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "" is no port (RFC 3986 3.2.3). */
static bool read_port(const char *s, size_t len, int *port)
{
    int value = 0;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(s[i]))
            return false;
        value = value * 10 + (s[i] - '0');
        if (value > PORT_MAX)
            return false;
    }
    *port = len ? value : NO_PORT;
    return true;
}

static bool read_authority(const char *s, size_t len, struct authority *a)
{
    if (!ioh__is_host(s, len))
        return false;
    const char *end = s + len;
    const char *host_end = *s == '[' ? memchr(s, ']', len) : memchr(s, ':', len);
    if (!host_end)
        host_end = end;
    else if (*s == '[')
        host_end++;
    *a = (struct authority){s, (size_t)(host_end - s), NO_PORT};
    return host_end == end || read_port(host_end + 1, (size_t)(end - host_end) - 1, &a->port);
}

/* The default port of the scheme that the origin begins with, and what its length is with "://"; 0: another. */
static int scheme_port(const char *s, size_t len, size_t *skip)
{
    static const char http[] = "http://", https[] = "https://";
    *skip = sizeof https - 1;
    if (len >= *skip && ioh__equal_any_case(s, https, *skip))
        return 443;
    *skip = sizeof http - 1;
    return len >= *skip && ioh__equal_any_case(s, http, *skip) ? 80 : 0;
}

bool ioh__ws_same_origin(const char *data, const struct ioh__http1_head *head)
{
    struct authority from, to;
    size_t skip;
    int origin = ioh__http1_find(data, head, "origin", 6, 0);
    if (origin < 0)
        return true;
    int host = ioh__http1_find(data, head, "host", 4, 0);
    if (host < 0 || ioh__http1_find(data, head, "origin", 6, (size_t)origin + 1) >= 0)
        return false;
    const struct ioh__http1_field *o = &head->fields[origin], *h = &head->fields[host];
    int port = scheme_port(data + o->value, o->value_len, &skip);
    if (port == 0 || !read_authority(data + o->value + skip, o->value_len - skip, &from) ||
        !read_authority(data + h->value, h->value_len, &to))
        return false;
    return from.host_len == to.host_len && ioh__equal_any_case(from.host, to.host, from.host_len) &&
           (from.port == NO_PORT ? port : from.port) == (to.port == NO_PORT ? port : to.port);
}
