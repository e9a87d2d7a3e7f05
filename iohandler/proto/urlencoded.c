/* Pairs and percent-encoding (include/iohandler/form.h; WHATWG URL 5.1, RFC 3986 2.1). Owns nothing, any
 * thread. */
#include <iohandler/error.h>
#include <iohandler/form.h>
#include <stdbool.h>
#include <string.h>

/* ---- bytes */

/* The value of a hex digit, or -1. */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The next byte of text, decoded, 0 to 255; *p moves behind it. -1: a broken '%'. */
static int next_byte(const char **p, const char *end, bool plus)
{
    const char *at = *p;
    *p = at + 1;
    if (*at != '%')
        return *at == '+' && plus ? ' ' : (unsigned char)*at;
    int high = end - at > 2 ? hex_digit(at[1]) : -1;
    int low = high >= 0 ? hex_digit(at[2]) : -1;
    *p = at + 3;
    return low < 0 ? -1 : high * 16 + low;
}

int64_t ioh_url_decode(char *out, size_t size, struct ioh_str text, int plus)
{
    const char *end = text.len ? text.ptr + text.len : text.ptr;
    size_t len = 0;
    for (const char *p = text.ptr; p < end;) {
        int byte = next_byte(&p, end, plus != 0);
        if (byte < 0)
            return IOH_EINVAL;
        if (len + 1 >= size)
            return IOH_ETOOBIG;
        out[len++] = (char)byte;
    }
    if (size == 0)
        return IOH_ETOOBIG;
    out[len] = '\0';
    return (int64_t)len;
}

/* ---- pairs */

void ioh_pairs_init(struct ioh_pairs *it, struct ioh_str text)
{
    it->_rest = text;
}

int ioh_pairs_next(struct ioh_pairs *it, struct ioh_str *name, struct ioh_str *value)
{
    while (it->_rest.len > 0) {
        const char *at = it->_rest.ptr;
        const char *amp = memchr(at, '&', it->_rest.len);
        size_t len = amp ? (size_t)(amp - at) : it->_rest.len;
        size_t taken = amp ? len + 1 : len;
        it->_rest = (struct ioh_str){at + taken, it->_rest.len - taken};
        if (len == 0)
            continue;
        const char *equals = memchr(at, '=', len);
        *name = (struct ioh_str){at, equals ? (size_t)(equals - at) : len};
        *value = (struct ioh_str){NULL, 0};
        if (equals)
            *value = (struct ioh_str){equals + 1, len - name->len - 1};
        return 1;
    }
    return 0;
}

/* Is it, decoded, this name? What cannot be decoded is no name. */
static bool is_called(struct ioh_str encoded, const char *name)
{
    const char *end = encoded.ptr + encoded.len;
    for (const char *p = encoded.ptr; p < end; name++) {
        int byte = next_byte(&p, end, true);
        if (byte <= 0 || byte != (unsigned char)*name)
            return false;
    }
    return *name == '\0';
}

int64_t ioh_pair_get(struct ioh_str pairs, const char *name, size_t nth, char *out, size_t size)
{
    struct ioh_pairs it;
    struct ioh_str found, value;
    ioh_pairs_init(&it, pairs);
    while (ioh_pairs_next(&it, &found, &value)) {
        if (!is_called(found, name) || nth-- > 0)
            continue;
        int64_t len = ioh_url_decode(out, size, value, 1);
        return len > 0 && memchr(out, '\0', (size_t)len) ? IOH_EINVAL : len;
    }
    return IOH_ENOENT;
}
