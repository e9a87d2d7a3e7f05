/* IMF-fixdate (RFC 9110 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT". */
#ifndef IOH_PROTO_HTTP_DATE_H
#define IOH_PROTO_HTTP_DATE_H

#include <stdint.h>

#define IOH__DATE_LEN 29u

/* seconds since 1970 UTC (years 1970 to 9999); writes IOH__DATE_LEN bytes, no NUL. */
void ioh__http_date(int64_t seconds, char *out);

#endif
