/* Media types by the extension of a name. */
#ifndef IOH_PROTO_HTTP_MIME_H
#define IOH_PROTO_HTTP_MIME_H

#include <iohandler/file.h>

/* The type of the file at path: by the host's own table, which ends with a NULL ext (NULL: it has none), then
 * by the built-in one; never NULL. */
const char *ioh__mime_type(const char *path, const struct ioh_mime *own);

#endif
