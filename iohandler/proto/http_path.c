/* Paths of requests as names of files (see http_path.h). Owns nothing, any thread. */
#include "proto/http_path.h"

#include <iohandler/error.h>
#include <limits.h>
#include <string.h>

#include "proto/http1_field.h"

static unsigned hex_value(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(ioh__lower(c) - 'a') + 10;
}

int ioh__path_decode(struct ioh_str path, const char *prefix, char *out, size_t size)
{
    size_t prefix_len = strlen(prefix), len = 0;
    const char *p = path.ptr, *end = p + path.len;
    if (path.len < prefix_len || memcmp(p, prefix, prefix_len) != 0)
        return IOH_EINVAL;
    p += prefix_len;
    if (p < end && *p != '/' && (prefix_len == 0 || p[-1] != '/'))
        return IOH_EINVAL;
    for (; p < end; p++, len++) {
        char c = *p;
        if (c == '%') {
            if (end - p < 3 || !ioh__is_ch(p[1], IOH__CH_HEX) || !ioh__is_ch(p[2], IOH__CH_HEX))
                return IOH_EINVAL;
            c = (char)(hex_value(p[1]) << 4 | hex_value(p[2]));
            p += 2;
            if (c == '/')
                return IOH_EINVAL;
        }
        if (c == 0)
            return IOH_EINVAL;
        if (len + 1 >= size || len == INT_MAX)
            return IOH_ETOOBIG;
        out[len] = c;
    }
    if (len >= size)
        return IOH_ETOOBIG;
    out[len] = 0;
    return (int)len;
}

bool ioh__path_is_public(const char *path, bool dot_files)
{
    bool first = true;
    while (*path) {
        size_t len = strcspn(path, "/");
        if (len && *path == '.') {
            bool dots = len == 1 || (len == 2 && path[1] == '.');
            bool known = first && len == 11 && memcmp(path, ".well-known", 11) == 0;
            if (dots || (!dot_files && !known))
                return false;
        }
        first = first && len == 0;
        path += len + (path[len] == '/');
    }
    return true;
}
