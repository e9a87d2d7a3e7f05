/* Files on their way to a peer (see file.h). */
#include "conn/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ioh__file *ioh__file_new(int fd, uint32_t count, size_t text_len)
{
    struct ioh__file *file = malloc(sizeof *file + count * sizeof *file->parts + text_len);
    if (!file) {
        close(fd);
        return NULL;
    }
    memset(file, 0, sizeof *file + count * sizeof *file->parts);
    file->refs = 1;
    file->fd = fd;
    file->count = count;
    return file;
}

void ioh__file_unref(struct ioh__file *file)
{
    if (!file || --file->refs > 0)
        return;
    close(file->fd);
    free(file);
}
