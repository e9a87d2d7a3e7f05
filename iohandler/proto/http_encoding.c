/* Accept-Encoding (see http_encoding.h). Owns nothing, any thread. */
#include "proto/http_encoding.h"

#include <stdbool.h>
#include <string.h>

#include "proto/http1_field.h"

static const struct ioh_str names[IOH__CODINGS] = {
    {"br", 2}, {"zstd", 4}, {"gzip", 4}, {"deflate", 7}, {"identity", 8}};

/* What was said so far; -1: nothing. */
struct said {
    int q[IOH__CODINGS];
    int others; /* "*" */
};

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p;
}

/* ";q=0.5" (RFC 9110 12.4.2), nothing: 1,000; anything else: -1. */
static int parse_weight(const char *p, const char *end)
{
    p = skip_space(p, end);
    if (p == end)
        return 1000;
    if (*p != ';')
        return -1;
    p = skip_space(p + 1, end);
    if (end - p < 3 || ioh__lower(p[0]) != 'q' || p[1] != '=' || (p[2] != '0' && p[2] != '1'))
        return -1;
    int q = p[2] == '1' ? 1000 : 0, unit = 100;
    p += 3;
    if (p < end && *p++ != '.')
        return -1;
    for (; p < end; p++, unit /= 10) {
        if (!ioh__is_ch(*p, IOH__CH_DIGIT) || unit == 0)
            return -1;
        q += (*p - '0') * unit;
    }
    return q <= 1000 ? q : -1;
}

static void hear(struct said *said, const char *name, size_t len, int q)
{
    if (len == 1 && *name == '*') {
        said->others = q;
        return;
    }
    if (ioh__equal_nocase(name, len, "x-gzip", 6)) { /* RFC 9110 8.4.1.3 */
        name += 2;
        len -= 2;
    }
    for (int i = 0; i < IOH__CODINGS; i++)
        if (ioh__equal_nocase(name, len, names[i].ptr, names[i].len))
            said->q[i] = q;
}

static void hear_list(struct said *said, const char *text, size_t len)
{
    const char *p = text, *element;
    size_t element_len;
    while (ioh__list_next(&p, text + len, &element, &element_len)) {
        const char *end = element + element_len, *at = element;
        while (at < end && ioh__is_ch(*at, IOH__CH_TOKEN))
            at++;
        int q = parse_weight(at, end);
        if (q >= 0)
            hear(said, element, (size_t)(at - element), q);
    }
}

void ioh__http_codings(const char *data, const struct ioh__http1_head *head,
                       struct ioh__codings *codings)
{
    struct said said = {{-1, -1, -1, -1, -1}, -1};
    for (int i = -1; (i = ioh__http1_find(data, head, "Accept-Encoding", 15, (size_t)i + 1)) >= 0;)
        hear_list(&said, data + head->fields[i].value, head->fields[i].value_len);
    for (int i = 0; i < IOH__CODINGS; i++) {
        int q = said.q[i] >= 0 ? said.q[i] : said.others;
        if (i == IOH__CODING_IDENTITY && said.q[i] < 0)
            q = said.others == 0 ? 0 : 1;
        codings->q[i] = (uint16_t)(q > 0 ? q : 0);
    }
}

enum ioh__coding ioh__coding_choose(const struct ioh__codings *codings, unsigned have)
{
    int best = IOH__CODING_IDENTITY;
    for (int i = IOH__CODING_IDENTITY - 1; i >= 0; i--)
        if (have >> i & 1 && codings->q[i] && codings->q[i] >= codings->q[best])
            best = i;
    return (enum ioh__coding)best;
}

const char *ioh__coding_name(enum ioh__coding coding)
{
    return names[coding].ptr;
}
