/* Conditional requests (see http_validators.h). Owns nothing, any thread. */
#include "proto/http_validators.h"

#include <string.h>

#include "proto/http1_field.h"
#include "proto/http_date.h"

/* ---- finding the fields */

struct place {
    const char *name;
    size_t len;
    int *index;
    bool once;
};

void ioh__http_conditions(const char *data, const struct ioh__http1_head *head,
                          struct ioh__conditions *c)
{
    const struct place places[] = {
        {"range", 5, &c->range, true},
        {"if-match", 8, &c->if_match, false},
        {"if-range", 8, &c->if_range, true},
        {"if-none-match", 13, &c->if_none_match, false},
        {"if-modified-since", 17, &c->if_modified_since, true},
        {"if-unmodified-since", 19, &c->if_unmodified_since, true},
    };
    *c = (struct ioh__conditions){-1, -1, -1, -1, -1, -1};
    for (int i = 0; i < head->count; i++) {
        const char *name = data + head->fields[i].name;
        size_t len = head->fields[i].name_len;
        char first = ioh__lower(*name);
        if (first != 'i' && first != 'r') /* most fields end here */
            continue;
        for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
            const struct place *p = &places[k];
            if (ioh__equal_nocase(name, len, p->name, p->len))
                *p->index = *p->index == -1 ? i : p->once ? IOH__REPEATED : *p->index;
        }
    }
}

/* ---- entity tags (RFC 9110 8.8.3) */

struct tag {
    const char *opaque; /* with its quotes */
    size_t len;
    bool weak;
};

/* The tag at *at, which is moved behind it; false: there stands none. */
static bool take_tag(const char **at, const char *end, struct tag *tag)
{
    const char *p = *at;
    tag->weak = end - p >= 2 && p[0] == 'W' && p[1] == '/';
    if (tag->weak)
        p += 2;
    if (p == end || *p != '"')
        return false;
    tag->opaque = p++;
    while (p < end && *p != '"' && (unsigned char)*p > 0x20 && *p != 0x7f)
        p++;
    if (p == end || *p != '"')
        return false;
    p++;
    tag->len = (size_t)(p - tag->opaque);
    *at = p;
    return true;
}

/* RFC 9110 8.8.3.2 */
static bool tags_match(const struct tag *a, const struct tag *b, bool strong)
{
    return a->len == b->len && memcmp(a->opaque, b->opaque, a->len) == 0 &&
           (!strong || (!a->weak && !b->weak));
}

/* Is the tag in one line of a list? A list with a fault ends there. */
static bool line_has(const char *p, const char *end, const struct tag *own, bool strong)
{
    struct tag tag;
    for (;;) {
        while (p < end && (*p == ' ' || *p == '\t' || *p == ','))
            p++;
        if (p == end || !take_tag(&p, end, &tag))
            return false;
        if (p < end && *p != ',' && *p != ' ' && *p != '\t')
            return false;
        if (tags_match(&tag, own, strong))
            return true;
    }
}

/* Does If-Match or If-None-Match name the representation, in the line at index `at` or a later one? */
static bool names_us(const char *data, const struct ioh__http1_head *head, int at, const char *name,
                     const struct ioh__validators *v, bool strong)
{
    struct tag own;
    const char *etag = v->etag;
    if (!take_tag(&etag, v->etag + v->etag_len, &own))
        return false;
    for (; at >= 0; at = ioh__http1_find(data, head, name, strlen(name), (size_t)at + 1)) {
        const char *value = data + head->fields[at].value;
        size_t len = head->fields[at].value_len;
        if ((len == 1 && *value == '*') || line_has(value, value + len, &own, strong))
            return true;
    }
    return false;
}

/* ---- dates */

static bool date_at(const char *data, const struct ioh__http1_head *head, int at, int64_t now,
                    int64_t *date)
{
    return at >= 0 && ioh__http_date_parse(data + head->fields[at].value,
                                           head->fields[at].value_len, now, date);
}

int ioh__http_evaluate(const char *data, const struct ioh__http1_head *head,
                       const struct ioh__conditions *c, const struct ioh__validators *v,
                       int64_t now)
{
    int64_t date;
    if (c->if_match >= 0) {
        if (!names_us(data, head, c->if_match, "if-match", v, true))
            return 412;
    } else if (date_at(data, head, c->if_unmodified_since, now, &date) && v->modified > date) {
        return 412;
    }
    if (c->if_none_match >= 0)
        return names_us(data, head, c->if_none_match, "if-none-match", v, false) ? 304 : 200;
    return date_at(data, head, c->if_modified_since, now, &date) && v->modified <= date ? 304 : 200;
}

bool ioh__http_range_holds(const char *data, const struct ioh__http1_head *head,
                           const struct ioh__conditions *c, const struct ioh__validators *v,
                           int64_t now)
{
    struct tag own, asked;
    int64_t date;
    if (c->range < 0)
        return false;
    if (c->if_range < 0)
        return c->if_range == -1;
    const char *p = data + head->fields[c->if_range].value, *etag = v->etag;
    const char *end = p + head->fields[c->if_range].value_len;
    if (take_tag(&p, end, &asked))
        return p == end && take_tag(&etag, v->etag + v->etag_len, &own) &&
               tags_match(&asked, &own, true);
    /* A date is a strong validator only when nothing can have changed within its second since
     * (RFC 9110 8.8.2.2). */
    return date_at(data, head, c->if_range, now, &date) && date == v->modified &&
           v->modified + 1 < now;
}
