/* A folder of files for a test program, gone at its end. */
#ifndef IOH_TESTS_FOLDER_H
#define IOH_TESTS_FOLDER_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static int dir = -1; /* O_PATH */

/* Its last change was on 2001-09-09 at 01:46:40. */
static inline void folder_write(const char *name, const void *data, size_t len)
{
    const struct timespec past[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len || futimens(fd, past))
        abort();
    close(fd);
}

static inline void folder_text(const char *name, const char *text)
{
    folder_write(name, text, strlen(text));
}

static inline int folder_remove_one(const char *path, const struct stat *st, int flag,
                                    struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline void folder_remove(void)
{
    close(dir);
    nftw(folder, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void folder_make(void)
{
    snprintf(folder, sizeof folder, "/tmp/ioh-test-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        abort();
    atexit(folder_remove);
}

#endif
