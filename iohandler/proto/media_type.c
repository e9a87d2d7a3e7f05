/* Media types and parameters (see media_type.h). Owns nothing, any thread. */
#include "proto/media_type.h"

#include <iohandler/form.h>
#include <string.h>

#include "proto/http1_field.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static struct ioh_str trimmed(const char *from, const char *to)
{
    while (from < to && is_space(*from))
        from++;
    while (from < to && is_space(to[-1]))
        to--;
    return (struct ioh_str){from, (size_t)(to - from)};
}

/* ---- types */

struct ioh_str ioh__media_type(struct ioh_str value)
{
    if (value.len == 0)
        return value;
    const char *semicolon = memchr(value.ptr, ';', value.len);
    return trimmed(value.ptr, semicolon ? semicolon : value.ptr + value.len);
}

bool ioh__media_type_matches(struct ioh_str type, struct ioh_str wanted)
{
    bool all = wanted.len > 0 && wanted.ptr[wanted.len - 1] == '*';
    size_t len = all ? wanted.len - 1 : wanted.len;
    if (all ? type.len <= len : type.len != len)
        return false;
    return ioh__equal_any_case(type.ptr, wanted.ptr, len);
}

int ioh_media_type_is(struct ioh_str value, const char *type)
{
    struct ioh_str found = ioh__media_type(value);
    return found.len > 0 && ioh__media_type_matches(found, (struct ioh_str){type, strlen(type)});
}

/* ---- parameters */

static const char *skip_token(const char *p, const char *end)
{
    while (p < end && ioh__is_ch(*p, IOH__CH_TOKEN))
        p++;
    return p;
}

/* Of a string whose first quote stands before p: where the last one is, or NULL. */
static const char *closing_quote(const char *p, const char *end)
{
    for (; p < end && *p != '"'; p++)
        if (*p == '\\' && end - p > 1 && (p[1] == '"' || p[1] == '\\'))
            p++;
    return p < end ? p : NULL;
}

/* name "=" ( token / quoted-string ) from p on; its end, or NULL. */
static const char *one_param(const char *p, const char *end, struct ioh__param *param)
{
    const char *to = skip_token(p, end);
    param->name = (struct ioh_str){p, (size_t)(to - p)};
    if (to == p || to == end || *to != '=')
        return NULL;
    p = to + 1;
    param->quoted = p < end && *p == '"';
    if (param->quoted) {
        to = closing_quote(++p, end);
        param->value = (struct ioh_str){p, to ? (size_t)(to - p) : 0};
        return to ? to + 1 : NULL;
    }
    to = skip_token(p, end);
    param->value = (struct ioh_str){p, (size_t)(to - p)};
    return to > p ? to : NULL;
}

enum ioh__params ioh__params_next(struct ioh_str *rest, struct ioh__param *param)
{
    const char *p = rest->ptr, *end = rest->len ? p + rest->len : p;
    /* RFC 9110 5.6.6: *( OWS ";" OWS [ parameter ] ) */
    bool parted = false;
    while (p < end && (is_space(*p) || *p == ';')) {
        parted = parted || *p == ';';
        p++;
    }
    if (p < end && !parted)
        return IOH__PARAMS_BAD;
    if (p < end) {
        p = one_param(p, end, param);
        if (!p)
            return IOH__PARAMS_BAD;
        *rest = (struct ioh_str){p, (size_t)(end - p)};
        return IOH__PARAMS_ONE;
    }
    *rest = (struct ioh_str){end, 0};
    return IOH__PARAMS_END;
}

size_t ioh__params_unescape(char *value, size_t len)
{
    size_t to = 0;
    for (size_t i = 0; i < len; i++) {
        if (value[i] == '\\' && i + 1 < len && (value[i + 1] == '"' || value[i + 1] == '\\'))
            i++;
        value[to++] = value[i];
    }
    return to;
}
