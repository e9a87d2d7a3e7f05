/* Files as answers.
 *
 *     static void on_request(ioh_req *req, void *state)
 *     {
 *         char path[1024];
 *         if (ioh_req_path_decode(req, "/files", path, sizeof path) < 0)
 *             ioh_respond(req, 404, NULL, 0, NULL, 0);
 *         else
 *             ioh_send_file(req, my_directory, path, NULL);
 *     }
 *
 * The host keeps a directory open and says which path beneath it is wanted; the library does what
 * RFC 9110 wants of a file: Content-Type by the extension, ETag and Last-Modified, conditional
 * requests (304, 412), one range or several (206, 416), HEAD, precompressed siblings, a redirect for a
 * directory without its slash. Nothing outside the directory is ever opened, whatever the path or a
 * symbolic link says. options.compress does not touch files.
 *
 * Small files leave in one piece with their head, others go from the page cache to the socket without
 * a copy. A file that shrinks meanwhile ends the connection, since the length was promised; of one that
 * grows the promised length is sent.
 */
#ifndef IOHANDLER_FILE_H
#define IOHANDLER_FILE_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An extension without its dot, any case, and the media type of such files. */
struct ioh_mime {
    const char *ext;
    const char *type;
};

/* ioh_file_options.precompressed: which siblings may be sent instead, with Content-Encoding, to clients
 * that accept it (RFC 9110 12.5.3). "a.js" has the siblings "a.js.br", "a.js.zst" and "a.js.gz"; of
 * those the client likes equally, the first in this order. They are taken as they are: who changes a
 * file makes them anew. */
#define IOH_FILE_BR 1
#define IOH_FILE_ZSTD 2
#define IOH_FILE_GZIP 4

/* ioh_file_options.dot_files: names that begin with a dot */
#define IOH_DOT_FILES_REFUSE 0 /* 404, but for a leading ".well-known" (RFC 8615) */
#define IOH_DOT_FILES_SEND 1

/* ioh_file_options.symlinks */
#define IOH_SYMLINKS_INSIDE 0 /* followed as long as they stay beneath the directory; else 404 */
#define IOH_SYMLINKS_NONE 1   /* 404 */
#define IOH_SYMLINKS_ALL 2    /* followed wherever they lead */

/* All zero: the defaults. Strings and tables are used during the call only. */
struct ioh_file_options {
    size_t size; /* set by IOH_FILE_OPTIONS_INIT */

    const char *index;            /* of a directory. NULL = "index.html"; "" = none: 404 */
    const char *content_type;     /* of this file. NULL = by its extension */
    const struct ioh_mime *types; /* before the built-in table; ends with a NULL ext. NULL = none */
    const char *cache_control;    /* the field's value. NULL = no such field */
    const struct ioh_header *headers; /* further fields of 200, 206 and 304; */
    size_t header_count;              /* at most 64 */
    int32_t precompressed;            /* IOH_FILE_BR | IOH_FILE_ZSTD | IOH_FILE_GZIP. 0 = none */
    int32_t dot_files;                /* IOH_DOT_FILES_... */
    int32_t symlinks;                 /* IOH_SYMLINKS_... */
};

#define IOH_FILE_OPTIONS_INIT                   \
    {                                           \
        .size = sizeof(struct ioh_file_options) \
    }

/* Answers req with the file at path beneath the directory dir, a descriptor of the host's that stays open
 * during the call (O_PATH will do). path is decoded; a '/' at its begin is allowed, one at its end asks
 * for a directory. options may be NULL. The whole answer is given, errors among it: 404, 403 (no
 * permission), 405 (neither GET nor HEAD), 503 (out of descriptors), 500.
 *
 * The disk is waited for in the calling thread up to a small body, or the first bytes of a large one; the
 * rest is read ahead by the kernel and sent when the socket has room, by the thread that holds the loop. An open file counts in ioh_conn_queued(), not against
 * options.send_max, and the connection's next request waits for its end.
 *
 * 0, IOH_QUEUED, IOH_EINVAL (dir is negative, path is NULL, an option is unknown), IOH_EVERSION
 * (options->size), IOH_EHEADER, IOH_EDONE, IOH_EGONE, IOH_EFULL, IOH_ENOMEM as ioh_respond(); after
 * the first three nothing was sent. [in a callback] */
IOH_API int ioh_send_file(ioh_req *req, int dir, const char *path,
                          const struct ioh_file_options *options);

/* The path of the request behind a prefix, decoded: of "/files/a%20b" with the prefix "/files" it is
 * "/a b". A prefix ends where a segment does; "" is a prefix of every path. out gets at most size bytes
 * with the NUL. Answers the length, IOH_EINVAL (another prefix; a bad '%'; an encoded NUL or '/', which
 * no file has in its name) or IOH_ETOOBIG. [in a callback] */
IOH_API int ioh_req_path_decode(const ioh_req *req, const char *prefix, char *out, size_t size);

/* The built-in media type for a path's extension, "application/octet-stream" when there is none. Static,
 * never NULL. [any thread] */
IOH_API const char *ioh_mime_type(const char *path);

#ifdef __cplusplus
}
#endif
#endif
