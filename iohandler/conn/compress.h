/* Answers compressed with gzip (RFC 9110 8.4.1, RFC 1952), of the types that options.compress names.
 *
 * What is to be done with an answer is decided where it begins, on the thread that gives it: a whole body
 * is compressed there and then, in no loop's time but that of an inline callback, so under AUTO a large
 * one is seen as a late callback. A streamed answer is only given its stream there; its pieces are
 * compressed on the thread that holds the loop, where they are put in order, and flushed one by one.
 *
 * A stream of zlib's takes 268 KB. It is lent for a whole body or until a streamed answer has ended. Of
 * streamed answers IOH__COMPRESS_STREAMS at a time are compressed, the others go plain.
 */
#ifndef IOH_CONN_COMPRESS_H
#define IOH_CONN_COMPRESS_H

#include <iohandler/options.h>
#include <iohandler/types.h>
#include <stdbool.h>

#include "net/sock.h"

#define IOH__COMPRESS_STREAMS 120u /* 32 MB */
#define IOH__COMPRESS_IDLE 4u      /* that nobody uses are kept */

struct ioh__compress; /* one server's; any thread */
struct ioh__squeeze;  /* a stream of zlib's, lent */
struct ioh__reply;

/* The flag of a request's number in its public name: its client takes gzip. So those who answer from
 * elsewhere need not look at the request. */
#define IOH__TAKES_GZIP 0x80000000u

/* *out NULL: options.compress names nothing. 0, IOH_ENOMEM, or IOH_EINVAL with a text. */
int ioh__compress_create(struct ioh__compress **out, const struct ioh_options *options,
                         char error[IOH__ERROR_TEXT]);
void ioh__compress_destroy(struct ioh__compress *c); /* all streams are back; NULL is allowed */

/* ---- where an answer begins */

/* What was found out about an answer, and its fields as they are to be sent. */
struct ioh__coded {
    struct ioh_header *list; /* NULL: they stay as they are */
    size_t etag, ranges;     /* which fields these are; SIZE_MAX: absent */
    bool varies;             /* Vary says so already */
};

/* May this answer (WHOLE or START) be compressed, as far as it says itself? Then ioh__compress_reply() is
 * to follow. */
bool ioh__compress_suits(const struct ioh__compress *c, const struct ioh__reply *r,
                         struct ioh__coded *coded);

/* Changes the answer: Vary in any case, and if accepted its body or stream, with the fields that speak of
 * it. It refers to coded until ioh__coded_free(). Out of memory: it stays as it is. */
void ioh__compress_reply(struct ioh__compress *c, bool accepted, struct ioh__reply *r,
                         struct ioh__coded *coded);
void ioh__coded_free(struct ioh__coded *coded);

/* ---- a streamed answer's */

/* Compresses *len bytes at *data and moves them on; answers how much came out into room. To be called again
 * while bytes are left or size bytes came out; then all that went in has come out. end: nothing more goes
 * in, and *len is 0. size is at least 7. */
size_t ioh__squeeze(struct ioh__squeeze *z, const void **data, size_t *len, bool end, void *room,
                    size_t size);

/* Gives it back; NULL is allowed. */
void ioh__squeeze_put(struct ioh__squeeze *z);

#endif
