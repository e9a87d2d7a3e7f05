/* Media types and the parameters behind them (RFC 9110 8.3.1, 5.6.6), as in Content-Type and
 * Content-Disposition. */
#ifndef IOH_PROTO_MEDIA_TYPE_H
#define IOH_PROTO_MEDIA_TYPE_H

#include <iohandler/types.h>
#include <stdbool.h>

/* What stands before the first ';', without white space around it; len 0: nothing. */
struct ioh_str ioh__media_type(struct ioh_str value);

/* Is the type that ioh__media_type() gave this one? type may end with a star behind its slash. */
bool ioh__media_type_matches(struct ioh_str type, struct ioh_str wanted);

/* A parameter of a field. */
struct ioh__param {
    struct ioh_str name;
    struct ioh_str value; /* between its quotes, not unescaped */
    bool quoted;
};

enum ioh__params { IOH__PARAMS_ONE, IOH__PARAMS_END, IOH__PARAMS_BAD };

/* The next of what stands from the first ';' on; *rest is moved behind it. In quotes a backslash keeps the
 * next quote or backslash from ending the string, and is an ordinary byte before any other: browsers send
 * file names with backslashes as they are (WHATWG HTML 4.10.21.8), all others escape them. */
enum ioh__params ioh__params_next(struct ioh_str *rest, struct ioh__param *param);

/* Takes the backslashes out that ioh__params_next() understood, in place; answers the new length. */
size_t ioh__params_unescape(char *value, size_t len);

#endif
