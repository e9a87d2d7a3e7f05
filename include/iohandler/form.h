/* Forms: what clients put into queries, bodies and cookies, read out of the request's own bytes.
 *
 * Nothing here is copied or decoded until it is asked for, and nothing depends on a connection but the
 * cookies. Three shapes:
 *
 *   pairs      "a=1&b=two+words": the query, and a body of application/x-www-form-urlencoded
 *              (WHATWG URL 5). ioh_pair_get() when a name is known, struct ioh_pairs to see them all.
 *   cookies    "a=1; b=2": the Cookie fields (RFC 6265 4.2).
 *   multipart  a body of multipart/form-data (RFC 7578, RFC 2046 5.1): a stream that is fed from on_body
 *              and calls back part by part, so that a file of any size passes in constant memory.
 *
 * All take what the grammar allows and nothing else: what two readers could take for two things is an
 * error, and the host should answer 400.
 */
#ifndef IOHANDLER_FORM_H
#define IOHANDLER_FORM_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Is value, a Content-Type field, of this media type, any case and whatever its parameters (RFC 9110
 * 8.3.1)? type is like "text/html"; one that ends with a star stands for all that begin so. 1 or 0; an
 * absent value (ptr NULL) is of no type. [any thread] */
IOH_API int ioh_media_type_is(struct ioh_str value, const char *type);

/* ---- pairs */

/* A walk over pairs. Its member is the library's; the text must stay while it is used. */
struct ioh_pairs {
    struct ioh_str _rest;
};

/* Begins a walk; text may be absent (ptr NULL): then there are no pairs. [any thread] */
IOH_API void ioh_pairs_init(struct ioh_pairs *it, struct ioh_str text);

/* The next pair in order: 1, and both as they stand in the text, not decoded; 0: there is none left.
 * Parted at '&', at the first '=' of each; empty pieces are passed over. value.ptr is NULL when there
 * was no '='. [any thread] */
IOH_API int ioh_pairs_next(struct ioh_pairs *it, struct ioh_str *name, struct ioh_str *value);

/* Decodes %XX, and '+' to a space when plus is not 0 (pairs: 1; a path: 0). Writes at most size bytes
 * to out with a NUL at the end, which is not counted; out may be where text is. Answers the length
 * (the bytes may hold NULs of their own, and need not be UTF-8), or:
 *   IOH_EINVAL   a '%' without two hex digits behind it (RFC 3986 2.1)
 *   IOH_ETOOBIG  size is too small; text.len + 1 never is
 * Then what out holds is not defined. [any thread] */
IOH_API int64_t ioh_url_decode(char *out, size_t size, struct ioh_str text, int plus);

/* The nth value, from 0, of those called name, decoded as ioh_url_decode() does; names are compared
 * decoded, and a value without '=' is "". Answers its length, or:
 *   IOH_ENOENT   there is none
 *   IOH_EINVAL   its encoding is broken, or it holds a NUL and would be cut for whoever reads it as
 *                a string
 *   IOH_ETOOBIG  as above
 * [any thread] */
IOH_API int64_t ioh_pair_get(struct ioh_str pairs, const char *name, size_t nth, char *out,
                             size_t size);

/* ---- cookies */

/* A walk over all cookies of a request. Its members are the library's. */
struct ioh_cookies {
    const ioh_req *_req;
    size_t _field; /* where to look for the next Cookie field */
    struct ioh_str _rest;
};

/* Begins a walk. [in a callback] */
IOH_API void ioh_cookies_init(struct ioh_cookies *it, const ioh_req *req);

/* The next cookie in order, of whatever Cookie field: 1 and both strings, or 0. The value is as sent,
 * quotes included (they part nothing: RFC 6265 4.1.1); a cookie without '=' has the name "".
 * [in a callback] */
IOH_API int ioh_cookies_next(struct ioh_cookies *it, struct ioh_str *name, struct ioh_str *value);

/* The value of the first cookie of that name, which is the one with the longest path (RFC 6265 5.4);
 * case matters. ptr is NULL when there is none. [in a callback] */
IOH_API struct ioh_str ioh_req_cookie(const ioh_req *req, const char *name);

/* ---- multipart */

typedef struct ioh_multipart ioh_multipart;

/* One part, as its head says. Valid from its on_part until its on_part_end returns. All of it is the
 * client's word: a file name may hold "../", a backslash, or anything but a control byte, and is no
 * name for a file of yours (RFC 7578 4.2); a type says nothing about the content. Browsers write a
 * double quote as %22, CR as %0D and LF as %0A, others \" and \\: of these the last two are undone. */
struct ioh_part {
    size_t size;             /* set by the library: what it knows of */
    struct ioh_str name;     /* of the form's field */
    struct ioh_str filename; /* ptr NULL: it is no file */
    struct ioh_str type;     /* its Content-Type field; ptr NULL: none, and that means text/plain */
};

/* What a host wants of a form. on_part comes first, then on_data for each piece of the part's content,
 * then on_part_end, then the next part. An absent one is not called. Each answers 0 to go on; any other
 * number ends the reading and becomes the answer of ioh_multipart_feed(). They may not touch the
 * ioh_multipart. */
struct ioh_multipart_handler {
    size_t size; /* set by IOH_MULTIPART_HANDLER_INIT */
    int (*on_part)(const struct ioh_part *part, void *user);
    /* len > 0 bytes; valid until it returns */
    int (*on_data)(const struct ioh_part *part, const void *data, size_t len, void *user);
    int (*on_part_end)(const struct ioh_part *part, void *user);
    uint32_t max_parts;      /* beyond: IOH_ETOOBIG. 0 = 1,000 */
    uint32_t max_head_bytes; /* of the head of one part; beyond: IOH_ETOOBIG. 0 = 4,096 */
};

#define IOH_MULTIPART_HANDLER_INIT                   \
    {                                                \
        .size = sizeof(struct ioh_multipart_handler) \
    }

/* Begins to read a form; content_type is the request's field and is not used afterwards. The handler is
 * copied. *out takes about max_head_bytes of memory until ioh_multipart_destroy(). 0, or with *out NULL:
 *   IOH_EINVAL    content_type is not multipart/form-data with one boundary (RFC 2046 5.1.1); answer 415
 *   IOH_EVERSION  handler->size is below version 1
 *   IOH_ENOMEM
 * [any thread] */
IOH_API int ioh_multipart_create(ioh_multipart **out, struct ioh_str content_type,
                                 const struct ioh_multipart_handler *handler, void *user);

/* The next len bytes of the body, in pieces of any size; calls the handler. 0, or:
 *   IOH_EINVAL   the form is malformed
 *   IOH_ETOOBIG  a limit of the handler
 *   or what a callback answered
 * and the same again from then on. [any thread, one at a time] */
IOH_API int ioh_multipart_feed(ioh_multipart *m, const void *data, size_t len);

/* The body has ended, in on_request_end. 0: so has the form. IOH_ELENGTH: it was cut off. Or what feed
 * answered last. [any thread, one at a time] */
IOH_API int ioh_multipart_end(ioh_multipart *m);

/* In words, why feed or end gave an error; "" when they did not, or a callback did. Static. [any thread,
 * one at a time] */
IOH_API const char *ioh_multipart_error(const ioh_multipart *m);

/* Gives it back, at any time but in its own callbacks; NULL is allowed. No callback follows. [any thread,
 * one at a time] */
IOH_API void ioh_multipart_destroy(ioh_multipart *m);

#ifdef __cplusplus
}
#endif
#endif
