/* Which file is meant by a path beneath a directory. */
#ifndef IOH_CONN_FILE_FIND_H
#define IOH_CONN_FILE_FIND_H

#include <iohandler/file.h>
#include <sys/stat.h>

#include "proto/http_encoding.h"

#define IOH__FILE_NAME_MAX 4096u

struct ioh__found {
    int fd;
    struct stat st;
    enum ioh__coding coding;       /* of a precompressed sibling, else identity */
    char name[IOH__FILE_NAME_MAX]; /* below the directory, without the sibling's ending */
};

/* Opens it: an index where a directory is meant, a sibling where the client takes it. Answers 200 (found is
 * filled, fd is the caller's), 301 (a directory without its slash), 403, 404, 500 or 503. Any thread; it may
 * wait for the disk. */
int ioh__file_find(int dir, const char *path, const struct ioh_file_options *options,
                   const struct ioh__codings *codings, struct ioh__found *found);

#endif
