/* IMF-fixdate. Owns nothing, any thread. */
#include "proto/http_date.h"

#include <string.h>

#define DAY 86400
#define LAST_SECOND 253402300799 /* 9999-12-31 23:59:59: the year has four digits */

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
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
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
