/* Sec-WebSocket-Extensions (see deflate_offer.h).
 *
 *     1#( token *( ";" token [ "=" ( token | quoted-string ) ] ) )        RFC 6455 9.1
 *
 * Empty elements of the list are let pass (RFC 9110 5.6.1.2), all else must be as it says. An offer
 * with a parameter that is unknown, twice there or of a bad value is declined (RFC 7692 7.1), and the next
 * one is looked at.
 */
#include "proto/deflate_offer.h"

#include "proto/http1_field.h"

#include <stdio.h>
#include <string.h>

#define FIELD "sec-websocket-extensions"

enum { MIN_BITS = 8, OUR_MIN_BITS = 9, MAX_BITS = 15 };

/* One parameter; value NULL: it has none. */
struct parameter {
    const char *name, *value;
    size_t name_len, value_len;
};

/* An offer while it is read. */
struct offer {
    bool known, declined;
    bool server_alone, client_alone; /* ..._no_context_takeover */
    bool has_server_bits, has_client_bits;
    unsigned server_bits, client_bits;
};

static void skip_space(const char **p, const char *end)
{
    while (*p < end && (**p == ' ' || **p == '\t'))
        (*p)++;
}

static size_t token_len(const char *p, const char *end)
{
    const char *begin = p;
    while (p < end && ioh__is_ch(*p, IOH__CH_TOKEN))
        p++;
    return (size_t)(p - begin);
}

/* A quoted-string must hold a token (RFC 6455 9.1), so what is escaped in it cannot matter: with a backslash it
 * is refused as no token is. */
static bool take_value(const char **p, const char *end, struct parameter *to)
{
    bool quoted = *p < end && **p == '"';
    *p += quoted;
    to->value = *p;
    to->value_len = token_len(*p, end);
    *p += to->value_len;
    if (quoted) {
        if (*p == end || **p != '"')
            return false;
        (*p)++;
    }
    return to->value_len > 0;
}

static bool take_parameter(const char **p, const char *end, struct parameter *to)
{
    *to = (struct parameter){.name = *p, .name_len = token_len(*p, end)};
    *p += to->name_len;
    skip_space(p, end);
    if (to->name_len == 0)
        return false;
    if (*p == end || **p != '=')
        return true;
    (*p)++;
    skip_space(p, end);
    bool ok = take_value(p, end, to);
    skip_space(p, end);
    return ok;
}

static bool is_named(const struct parameter *p, const char *name)
{
    return ioh__equal_nocase(p->name, p->name_len, name, strlen(name));
}

/* RFC 7692 7.1.2.1: 8 to 15, without a zero in front. */
static bool read_bits(const struct parameter *p, unsigned *bits)
{
    if (p->value_len == 1 && (p->value[0] == '8' || p->value[0] == '9'))
        *bits = (unsigned)(p->value[0] - '0');
    else if (p->value_len == 2 && p->value[0] == '1' && p->value[1] >= '0' && p->value[1] <= '5')
        *bits = 10 + (unsigned)(p->value[1] - '0');
    else
        return false;
    return true;
}

static bool set_once(bool *flag)
{
    bool first = !*flag;
    *flag = true;
    return first;
}

/* false: the offer is declined. */
static bool take_into(struct offer *o, const struct parameter *p)
{
    if (is_named(p, "server_no_context_takeover"))
        return set_once(&o->server_alone) && !p->value;
    if (is_named(p, "client_no_context_takeover"))
        return set_once(&o->client_alone) && !p->value;
    if (is_named(p, "server_max_window_bits"))
        return set_once(&o->has_server_bits) && p->value && read_bits(p, &o->server_bits);
    if (is_named(p, "client_max_window_bits"))
        return set_once(&o->has_client_bits) && (!p->value || read_bits(p, &o->client_bits));
    return false;
}

/* One element of the list, up to its comma. false: it is malformed. */
static bool read_offer(const char **p, const char *end, struct offer *o)
{
    struct parameter name, parameter;
    *o = (struct offer){.server_bits = MAX_BITS, .client_bits = MAX_BITS};
    if (!take_parameter(p, end, &name) || name.value)
        return false;
    o->known = is_named(&name, "permessage-deflate");
    while (*p < end && **p == ';') {
        (*p)++;
        skip_space(p, end);
        if (!take_parameter(p, end, &parameter))
            return false;
        if (!take_into(o, &parameter))
            o->declined = true;
    }
    return *p == end || **p == ',';
}

/* false: it cannot be accepted. zlib has no raw deflate with a window of 8 bits. */
static bool accept_offer(const struct offer *o, enum ioh__deflate_mode mode, unsigned window,
                         struct ioh__deflate_terms *terms)
{
    if (!o->known || o->declined || o->server_bits < OUR_MIN_BITS)
        return false;
    bool keeps = mode == IOH__DEFLATE_TAKEOVER;
    terms->server_bits = (uint8_t)(o->server_bits < window ? o->server_bits : window);
    terms->client_bits = MAX_BITS; /* what is inflated alone has the widest window at hand */
    if (o->has_server_bits)
        terms->flags |= IOH__DEFLATE_SAYS_BITS;
    if (keeps && !o->server_alone)
        terms->flags |= IOH__DEFLATE_SERVER_KEEPS;
    unsigned client_bits = o->has_client_bits && window < o->client_bits ? window : o->client_bits;
    /* A client that cannot make its window smaller may not keep a larger one (7.1.1.2). */
    if (keeps && !o->client_alone && client_bits <= window) {
        terms->flags |= IOH__DEFLATE_CLIENT_KEEPS;
        terms->client_bits = (uint8_t)client_bits;
    }
    return true;
}

static bool read_list(const char *p, const char *end, enum ioh__deflate_mode mode, unsigned window,
                      struct ioh__deflate_terms *terms)
{
    struct offer offer;
    for (skip_space(&p, end); p < end; skip_space(&p, end)) {
        if (*p == ',') {
            p++;
            continue;
        }
        if (!read_offer(&p, end, &offer))
            return false;
        if (mode != IOH__DEFLATE_OFF && terms->server_bits == 0)
            accept_offer(&offer, mode, window, terms);
    }
    return true;
}

bool ioh__deflate_agree(const char *data, const struct ioh__http1_head *head,
                        enum ioh__deflate_mode mode, unsigned window,
                        struct ioh__deflate_terms *terms, size_t *at)
{
    *terms = (struct ioh__deflate_terms){0, 0, 0};
    for (size_t from = 0;;) {
        int i = ioh__http1_find(data, head, FIELD, sizeof FIELD - 1, from);
        if (i < 0)
            return true;
        const struct ioh__http1_field *field = &head->fields[i];
        const char *value = data + field->value;
        if (!read_list(value, value + field->value_len, mode, window, terms)) {
            *at = field->value;
            return false;
        }
        from = (size_t)i + 1;
    }
}

size_t ioh__deflate_answer(const struct ioh__deflate_terms *terms,
                           char out[IOH__DEFLATE_ANSWER_MAX])
{
    char text[IOH__DEFLATE_ANSWER_MAX + 1];
    char server_bits[32] = "", client_bits[32] = "";
    if (terms->flags & IOH__DEFLATE_SAYS_BITS || terms->server_bits < MAX_BITS)
        snprintf(server_bits, sizeof server_bits, "; server_max_window_bits=%u",
                 terms->server_bits);
    if (terms->client_bits < MAX_BITS) /* only a client that has offered it has fewer */
        snprintf(client_bits, sizeof client_bits, "; client_max_window_bits=%u",
                 terms->client_bits);
    int n = snprintf(text, sizeof text, "permessage-deflate%s%s%s%s",
                     terms->flags & IOH__DEFLATE_SERVER_KEEPS ? "" : "; server_no_context_takeover",
                     terms->flags & IOH__DEFLATE_CLIENT_KEEPS ? "" : "; client_no_context_takeover",
                     server_bits, client_bits);
    memcpy(out, text, (size_t)n);
    return (size_t)n;
}
