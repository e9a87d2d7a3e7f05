/* Errors: every function that can fail answers a negative number of this list. */
#ifndef IOHANDLER_ERROR_H
#define IOHANDLER_ERROR_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text). Values never change; new ones are appended. */
#define IOH_ERRORS(X)                                                      \
    X(IOH_EINVAL, -1, "invalid argument")                                  \
    X(IOH_ENOMEM, -2, "out of memory")                                     \
    X(IOH_ESYS, -3, "a system call failed")                                \
    X(IOH_ESTATE, -4, "not allowed in this state")                         \
    X(IOH_EADDR, -5, "the address cannot be read")                         \
    X(IOH_EADDRINUSE, -6, "the address is in use")                         \
    X(IOH_EVERSION, -7, "struct size is below version 1")                  \
    X(IOH_EGONE, -8, "the connection is gone")                             \
    X(IOH_EFULL, -9, "the connection's send queue is full")                \
    X(IOH_ETOOBIG, -10, "too big")                                         \
    X(IOH_EHEADER, -11, "a field name or value that must not be sent")     \
    X(IOH_EDONE, -12, "the request was answered already")                  \
    X(IOH_ETIMEOUT, -13, "the deadline passed; what was left was aborted") \
    X(IOH_ELENGTH, -14, "more or fewer bytes than the announced length")   \
    X(IOH_ENOENT, -15, "there is no such thing")

#define IOH_ERROR_ENUM_(name, value, text) name = (value),
enum ioh_error { IOH_ERRORS(IOH_ERROR_ENUM_) IOH_OK = 0 };
#undef IOH_ERROR_ENUM_

/* A positive answer of the sending functions: accepted, but the connection's queue now stands above
 * options.send_high; on_drain follows once it has fallen to options.send_low. */
#define IOH_QUEUED 1

/* The text for an error, "ok" for 0 and above, "unknown error" for a number that is none. Static,
 * never NULL. [any thread] */
IOH_API const char *ioh_strerror(int error);

#ifdef __cplusplus
}
#endif
#endif
