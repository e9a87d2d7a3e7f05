/* A file on its way to a peer: the descriptor, and which parts of it are wanted.
 *
 * The thread that answers makes it and gives it away; from then on only the thread that holds the loop has
 * it. One reference is the answer's, one each part's in the out queue; with the last the file is closed.
 */
#ifndef IOH_CONN_FILE_H
#define IOH_CONN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `head` stands before the bytes [at, at + len) of the file; len 0: it stands alone. */
struct ioh__file_part {
    uint64_t at, len;
    const char *head;
    size_t head_len;
};

struct ioh__file {
    uint32_t refs;
    int fd;
    bool unable; /* it cannot go to the socket by itself: it is read */
    uint32_t count;
    uint64_t total; /* of all parts, with their heads */
    struct ioh__file_part parts[];
};

/* With room for count parts, and text_len bytes behind them for their heads; it owns fd, also when the answer
 * is NULL (out of memory): then fd is closed. */
struct ioh__file *ioh__file_new(int fd, uint32_t count, size_t text_len);

static inline char *ioh__file_text(struct ioh__file *file)
{
    return (char *)(file->parts + file->count);
}

static inline struct ioh__file *ioh__file_ref(struct ioh__file *file)
{
    file->refs++;
    return file;
}

void ioh__file_unref(struct ioh__file *file); /* NULL is allowed */

#endif
