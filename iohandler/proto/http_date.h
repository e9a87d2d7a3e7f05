/* Dates (RFC 9110 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT". */
#ifndef IOH_PROTO_HTTP_DATE_H
#define IOH_PROTO_HTTP_DATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IOH__DATE_LEN 29u

/* seconds since 1970 UTC (years 1970 to 9999); writes IOH__DATE_LEN bytes, no NUL. */
void ioh__http_date(int64_t seconds, char *out);

/* Reads a date in any of the three forms that are in use; of the form with two digits for the year, it is the
 * last such year that is not more than 50 years after now. false: it is no date. Years before 1970 are
 * negative. */
bool ioh__http_date_parse(const char *text, size_t len, int64_t now, int64_t *seconds);

#endif
