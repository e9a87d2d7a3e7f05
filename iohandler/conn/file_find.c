/* Finding files (see file_find.h). Any thread. */
#include "conn/file_find.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/http_path.h"

#define TRIES 4 /* of what a rename at the wrong moment upsets */

/* A FIFO or a terminal must not hold us up. */
#define READING (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* For a kernel without openat2 (before 5.6, and some sandboxes): segment by segment, and no link is followed. */
static int walk(int dir, const char *name)
{
    int at = dir;
    for (;;) {
        char segment[256];
        name += strspn(name, "/");
        size_t len = strcspn(name, "/");
        const char *rest = name + len + strspn(name + len, "/");
        bool last = *rest == 0;
        if (len >= sizeof segment) {
            errno = ENAMETOOLONG;
            len = 0;
        }
        memcpy(segment, name, len);
        segment[len] = 0;
        int next = -1;
        if (len)
            next = openat(at, segment,
                          O_NOFOLLOW | (last ? READING : O_PATH | O_DIRECTORY | O_CLOEXEC));
        int error = errno;
        if (at != dir)
            close(at);
        errno = error;
        if (next < 0 || last)
            return next;
        at = next;
        name = rest;
    }
}

/* name is without a slash at its begin. */
static int open_name(int dir, const char *name, int32_t symlinks)
{
    static const uint64_t resolve[] = {
        [IOH_SYMLINKS_INSIDE] = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
        [IOH_SYMLINKS_NONE] = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    bool anywhere = symlinks == IOH_SYMLINKS_ALL;
    struct open_how how = {.flags = READING, .resolve = anywhere ? 0 : resolve[symlinks]};
    for (int i = 0; i < TRIES; i++) {
        int fd = anywhere ? openat(dir, name, READING)
                          : (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
        if (fd < 0 && errno == ENOSYS && !anywhere)
            return walk(dir, name);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
            return fd;
    }
    return -1;
}

static int status_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case EXDEV: /* beyond the directory */
    case ENAMETOOLONG:
    case ENXIO: /* a socket, or a device without one behind it */
    case ENODEV:
        return 404;
    case EACCES:
    case EPERM:
        return 403;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
        return 503;
    default:
        return 500;
    }
}

/* 200, an error's status, or 301: a directory. */
static int open_file(int dir, const char *name, int32_t symlinks, struct ioh__found *found)
{
    int fd = open_name(dir, name, symlinks);
    if (fd < 0)
        return status_of(errno);
    int status = fstat(fd, &found->st) ? status_of(errno) : 404;
    if (status == 404 && S_ISREG(found->st.st_mode)) {
        found->fd = fd;
        return 200;
    }
    if (status == 404 && S_ISDIR(found->st.st_mode))
        status = 301;
    close(fd);
    return status;
}

/* The best sibling that there is, of those that the client likes better than the file itself; else 404. */
static int open_sibling(int dir, const struct ioh_file_options *o,
                        const struct ioh__codings *codings, struct ioh__found *found)
{
    static const char endings[][5] = {
        [IOH__CODING_BR] = ".br", [IOH__CODING_ZSTD] = ".zst", [IOH__CODING_GZIP] = ".gz"};
    unsigned have = (o->precompressed & IOH_FILE_BR ? 1u << IOH__CODING_BR : 0) |
                    (o->precompressed & IOH_FILE_ZSTD ? 1u << IOH__CODING_ZSTD : 0) |
                    (o->precompressed & IOH_FILE_GZIP ? 1u << IOH__CODING_GZIP : 0);
    size_t len = strlen(found->name);
    if (len == 0 || len + sizeof endings[0] > sizeof found->name)
        return 404;
    while (have) {
        enum ioh__coding coding = ioh__coding_choose(codings, have);
        if (coding == IOH__CODING_IDENTITY)
            break;
        memcpy(found->name + len, endings[coding], sizeof endings[coding]);
        int status = open_file(dir, found->name, o->symlinks, found);
        found->name[len] = 0;
        if (status == 200) {
            found->coding = coding;
            return 200;
        }
        have &= ~(1u << coding);
    }
    return 404;
}

int ioh__file_find(int dir, const char *path, const struct ioh_file_options *o,
                   const struct ioh__codings *codings, struct ioh__found *found)
{
    const char *index = o->index ? o->index : "index.html";
    if (!ioh__path_is_public(path, o->dot_files == IOH_DOT_FILES_SEND))
        return 404;
    bool is_dir = *path && path[strlen(path) - 1] == '/';
    path += strspn(path, "/");
    size_t len = strlen(path), more = is_dir ? strlen(index) : 0;
    if (len + more >= sizeof found->name || (is_dir && !more))
        return 404;
    memcpy(found->name, path, len);
    memcpy(found->name + len, index, more);
    found->name[len + more] = 0;
    found->coding = IOH__CODING_IDENTITY;
    if (o->precompressed && open_sibling(dir, o, codings, found) == 200)
        return 200;
    int status = open_file(dir, *found->name ? found->name : ".", o->symlinks, found);
    if (status == 301 && (is_dir || !*index))
        return 404;
    return status;
}
