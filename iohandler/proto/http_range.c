/* Byte ranges (see http_range.h). Owns nothing, any thread. */
#include "proto/http_range.h"

#include <stdbool.h>
#include <string.h>

#include "proto/http1_field.h"
#include "proto/http1_head.h"

#define PART_HEAD 80u /* what the head of a part takes, about */

/* Digits from *at on, at least one; what does not fit counts as the largest number. */
static bool take_number(const char **at, const char *end, uint64_t *number)
{
    const char *p = *at;
    uint64_t value = 0;
    for (; p < end && ioh__is_ch(*p, IOH__CH_DIGIT); p++) {
        unsigned digit = (unsigned)(*p - '0');
        value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
    }
    bool any = p > *at;
    *at = p;
    *number = value;
    return any;
}

enum spec { SPEC_BAD, SPEC_ABSENT, SPEC_THERE };

/* "0-499", "500-", "-500" (RFC 9110 14.1.2). ABSENT: well said, but those bytes are not there. */
static enum spec parse_spec(const char *at, size_t len, uint64_t size, struct ioh__range *range)
{
    const char *end = at + len;
    uint64_t first, last = UINT64_MAX;
    if (*at == '-') {
        uint64_t suffix;
        at++;
        if (!take_number(&at, end, &suffix) || at != end)
            return SPEC_BAD;
        *range = (struct ioh__range){suffix < size ? size - suffix : 0, size};
        return suffix ? SPEC_THERE : SPEC_ABSENT;
    }
    if (!take_number(&at, end, &first) || at == end || *at++ != '-')
        return SPEC_BAD;
    if (at < end && (!take_number(&at, end, &last) || at != end || last < first))
        return SPEC_BAD;
    *range = (struct ioh__range){first, last < size ? last + 1 : size};
    return first < size ? SPEC_THERE : SPEC_ABSENT;
}

/* Adds a range to those in out, or makes it one with its neighbours, which stands where the first of them
 * stood. */
static bool add(struct ioh__range *out, int *count, struct ioh__range more)
{
    int place = *count;
    for (int i = 0; i < *count;) {
        if (more.first > out[i].end + PART_HEAD || out[i].first > more.end + PART_HEAD) {
            i++;
            continue;
        }
        if (out[i].first < more.first)
            more.first = out[i].first;
        if (out[i].end > more.end)
            more.end = out[i].end;
        --*count;
        memmove(out + i, out + i + 1, (size_t)(*count - i) * sizeof *out);
        if (place > i)
            place = i;
        i = 0; /* it has grown: what was too far may be near now */
    }
    if (*count == IOH__RANGES_MAX)
        return false;
    memmove(out + place + 1, out + place, (size_t)(*count - place) * sizeof *out);
    out[place] = more;
    ++*count;
    return true;
}

int ioh__http_ranges(const char *text, size_t len, uint64_t size, struct ioh__range *out)
{
    const char *end = text + len, *p = text + 6, *element;
    size_t element_len;
    bool any = false;
    int count = 0;
    /* RFC 9110 14.1: the name of the unit in any case */
    if (len < 6 || !ioh__equal_any_case(text, "bytes=", 6) || size == 0)
        return 0;
    while (ioh__list_next(&p, end, &element, &element_len)) {
        struct ioh__range range;
        if (element_len == 0)
            continue;
        any = true;
        enum spec spec = parse_spec(element, element_len, size, &range);
        if (spec == SPEC_BAD || (spec == SPEC_THERE && !add(out, &count, range)))
            return 0;
    }
    return count || !any ? count : -1;
}

char *ioh__write_content_range(char *out, const struct ioh__range *range, uint64_t size)
{
    memcpy(out, "bytes ", 6);
    out += 6;
    if (range) {
        out = ioh__write_decimal(out, range->first);
        *out++ = '-';
        out = ioh__write_decimal(out, range->end - 1);
    } else {
        *out++ = '*';
    }
    *out++ = '/';
    return ioh__write_decimal(out, size);
}
