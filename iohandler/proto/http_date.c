/* Dates of HTTP. Owns nothing, any thread. */
#include "proto/http_date.h"

#include <string.h>

#define DAY 86400
#define LAST_SECOND 253402300799 /* 9999-12-31 23:59:59: the year has four digits */

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

static void two_digits(char *out, unsigned value)
{
    out[0] = (char)('0' + value / 10);
    out[1] = (char)('0' + value % 10);
}

/* Year, month (0 to 11) and day of the month (from 1) of a count of days since 1970-01-01. Years are
 * counted from March, so that the leap day is the last of its year; 400 years are 146,097 days, and
 * five months from March on always 153. */
static void civil(unsigned days, unsigned *year, unsigned *month, unsigned *day)
{
    unsigned since = days + 719468; /* days since 0000-03-01 */
    unsigned era = since / 146097, of_era = since % 146097;
    unsigned y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * y + y / 4 - y / 100);
    unsigned m = (5 * of_year + 2) / 153; /* 0 is March */
    *day = of_year - (153 * m + 2) / 5 + 1;
    *month = (m + 2) % 12;
    *year = era * 400 + y + (*month < 2);
}

void ioh__http_date(int64_t seconds, char *out)
{
    static const char days[] = "ThuFriSatSunMonTueWed"; /* 1970-01-01 was a Thursday */
    if (seconds < 0)
        seconds = 0;
    if (seconds > LAST_SECOND)
        seconds = LAST_SECOND;
    unsigned since = (unsigned)(seconds / DAY), clock = (unsigned)(seconds % DAY);
    unsigned year, month, day;
    civil(since, &year, &month, &day);

    memcpy(out, "Thu, 01 Jan 1970 00:00:00 GMT", IOH__DATE_LEN);
    memcpy(out, days + since % 7 * 3, 3);
    two_digits(out + 5, day);
    memcpy(out + 8, months + month * 3, 3);
    two_digits(out + 12, year / 100);
    two_digits(out + 14, year % 100);
    two_digits(out + 17, clock / 3600);
    two_digits(out + 20, clock / 60 % 60);
    two_digits(out + 23, clock % 60);
}

/* ---- reading */

struct date {
    unsigned year, month, day, hour, minute, second; /* month 0 to 11, day from 1 */
};

/* Days from 1970-01-01 to the first day of a year. */
static int64_t days_before(unsigned year)
{
    int64_t y = (int64_t)year - 1; /* whole years since the year 1 */
    return y * 365 + y / 4 - y / 100 + y / 400 - 719162;
}

static bool is_leap(unsigned year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static bool to_seconds(const struct date *d, int64_t *seconds)
{
    static const uint16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    if (d->year == 0 || d->hour > 23 || d->minute > 59 || d->second > 60 || d->day == 0)
        return false;
    unsigned leap = is_leap(d->year);
    unsigned in_month = before[d->month + 1] - before[d->month] + (d->month == 1 ? leap : 0u);
    if (d->day > in_month)
        return false;
    int64_t days = days_before(d->year) + before[d->month] + (d->month > 1 ? leap : 0) + d->day - 1;
    *seconds = days * DAY + d->hour * 3600 + d->minute * 60 + d->second;
    return true;
}

/* Moves *p over what the form says, and fills the date; false: the text is another.
 *   a to z, A to Z but those below, and signs: themselves
 *   %d %Y %y %H %M %S   the parts, with as many digits as they have; %e: a day with a space for the zero
 *   %b                  the month's name */
static bool follow(const char *form, const char *p, const char *end, struct date *d)
{
    for (; *form; form++) {
        if (*form != '%') {
            if (p == end || *p++ != *form)
                return false;
            continue;
        }
        char part = *++form;
        if (part == 'b') {
            unsigned m = 0;
            while (m < 12 && (end - p < 3 || memcmp(p, months + (size_t)m * 3, 3) != 0))
                m++;
            if (m == 12)
                return false;
            d->month = m;
            p += 3;
            continue;
        }
        unsigned value = 0;
        for (int digits = part == 'Y' ? 4 : 2; digits > 0; digits--, p++) {
            if (p == end)
                return false;
            if (*p >= '0' && *p <= '9')
                value = value * 10 + (unsigned)(*p - '0');
            else if (part != 'e' || digits != 2 || *p != ' ')
                return false;
        }
        unsigned *to = part == 'Y' || part == 'y'   ? &d->year
                       : part == 'd' || part == 'e' ? &d->day
                       : part == 'H'                ? &d->hour
                       : part == 'M'                ? &d->minute
                                                    : &d->second;
        *to = value;
    }
    return p == end;
}

/* Moves *p over one of the names of days; false: there stands none. */
static bool skip_day(const char **p, const char *end, bool full)
{
    static const char *const names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
    for (size_t i = 0; i < 7; i++) {
        size_t len = full ? strlen(names[i]) : 3;
        if ((size_t)(end - *p) >= len && memcmp(*p, names[i], len) == 0) {
            *p += len;
            return true;
        }
    }
    return false;
}

bool ioh__http_date_parse(const char *text, size_t len, int64_t now, int64_t *seconds)
{
    const char *end = text + len, *p = text;
    struct date d;
    if (skip_day(&p, end, true) && follow(", %d-%b-%y %H:%M:%S GMT", p, end, &d)) {
        unsigned year, month, day;
        civil((unsigned)((now < 0 ? 0 : now) / DAY), &year, &month, &day);
        d.year += year - year % 100;
        if (d.year > year + 50)
            d.year -= 100;
        else if (d.year + 100 <= year + 50)
            d.year += 100;
        return to_seconds(&d, seconds);
    }
    p = text;
    if (!skip_day(&p, end, false))
        return false;
    if (follow(", %d %b %Y %H:%M:%S GMT", p, end, &d) || follow(" %b %e %H:%M:%S %Y", p, end, &d))
        return to_seconds(&d, seconds);
    return false;
}
