/* The access log's buffer and its thread (see include/iohandler/access_log.h). Any thread adds lines to one
 * buffer; the log's own thread exchanges it for the other, empty one, and writes it out. The lock is held for a
 * copy of a line or the exchange of two pointers, never while anything is written.
 *
 *     EMPTY --first line--> GATHERING --flush_ms, or half full--> exchanged, written --> EMPTY
 */
#include <errno.h>
#include <fcntl.h>
#include <iohandler/access_log.h>
#include <iohandler/error.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LINE_MAX_BYTES 8192

struct buffer {
    char *bytes;
    size_t len;
};

struct ioh_access_log {
    char *path;
    int32_t format;
    size_t room; /* of each buffer */
    uint32_t flush_ms;
    pthread_t thread;
    int fd; /* the thread's, once it runs */

    pthread_mutex_t lock; /* all below */
    pthread_cond_t work;  /* monotonic */
    struct buffer filling, spare;
    uint64_t dropped;
    bool reopen, over;
};

/* ---- the thread */

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
}

static bool is_urgent(const struct ioh_access_log *log)
{
    return log->over || log->filling.len >= log->room / 2;
}

/* Waits for lines, and then for more of them; takes what there is. false: it is over, and nothing is left. */
static bool next(struct ioh_access_log *log, struct buffer *full, bool *reopen)
{
    struct timespec until;
    pthread_mutex_lock(&log->lock);
    while (!log->filling.len && !log->over && !log->reopen)
        pthread_cond_wait(&log->work, &log->lock);
    until = ioh__moment_in((uint64_t)log->flush_ms * 1000u);
    while (!is_urgent(log) && !log->reopen)
        if (pthread_cond_timedwait(&log->work, &log->lock, &until))
            break;
    *full = log->filling;
    log->filling = log->spare;
    *reopen = log->reopen;
    log->reopen = false;
    bool more = full->len || !log->over;
    pthread_mutex_unlock(&log->lock);
    return more;
}

static void give_back(struct ioh_access_log *log, struct buffer *empty, uint64_t dropped)
{
    empty->len = 0;
    pthread_mutex_lock(&log->lock);
    log->spare = *empty;
    log->dropped += dropped;
    pthread_mutex_unlock(&log->lock);
}

static uint64_t count_lines(const char *bytes, size_t len)
{
    uint64_t lines = 0;
    for (const char *at = bytes; (at = memchr(at, '\n', len - (size_t)(at - bytes))); at++)
        lines++;
    return lines;
}

/* The lines that could not be written; a broken one among them. */
static uint64_t write_out(int fd, const struct buffer *full)
{
    size_t at = 0;
    while (at < full->len) {
        ssize_t n = write(fd, full->bytes + at, full->len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return count_lines(full->bytes + at, full->len - at);
        at += (size_t)n;
    }
    return 0;
}

static void *run(void *arg)
{
    struct ioh_access_log *log = arg;
    struct buffer full;
    bool reopen, failed = false;
    while (next(log, &full, &reopen)) {
        if (reopen || failed) {
            int fd = open_file(log->path);
            failed = fd < 0;
            if (fd >= 0) {
                close(log->fd);
                log->fd = fd;
            }
        }
        give_back(log, &full, write_out(log->fd, &full));
    }
    give_back(log, &full, 0);
    return NULL;
}

/* ---- the public face */

static int start_thread(struct ioh_access_log *log)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&log->thread, NULL, run, log);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        errno = error;
        return IOH_ESYS;
    }
    pthread_setname_np(log->thread, "ioh-log");
    return 0;
}

static void free_log(struct ioh_access_log *log)
{
    int error = errno;
    if (log->fd >= 0)
        close(log->fd);
    pthread_cond_destroy(&log->work);
    pthread_mutex_destroy(&log->lock);
    free(log->filling.bytes);
    free(log->spare.bytes);
    free(log->path);
    free(log);
    errno = error;
}

static int check(const struct ioh_access_log_options *o)
{
    if (o->size < sizeof *o)
        return IOH_EVERSION;
    bool ok = o->path && o->format >= IOH_ACCESS_COMMON && o->format <= IOH_ACCESS_JSON &&
              (o->buffer_bytes == 0 || o->buffer_bytes >= 2 * LINE_MAX_BYTES);
    return ok ? 0 : IOH_EINVAL;
}

int ioh_access_log_open(ioh_access_log **out, const struct ioh_access_log_options *o)
{
    pthread_condattr_t monotonic;
    *out = NULL;
    int rc = check(o);
    if (rc)
        return rc;
    struct ioh_access_log *log = calloc(1, sizeof *log);
    if (!log)
        return IOH_ENOMEM;
    pthread_mutex_init(&log->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&log->work, &monotonic);
    pthread_condattr_destroy(&monotonic);
    log->format = o->format;
    log->room = o->buffer_bytes ? o->buffer_bytes : 1u << 20;
    log->flush_ms = o->flush_ms ? o->flush_ms : 500;
    log->path = strdup(o->path);
    log->filling.bytes = malloc(log->room);
    log->spare.bytes = malloc(log->room);
    log->fd = -1;
    rc = log->path && log->filling.bytes && log->spare.bytes ? 0 : IOH_ENOMEM;
    if (rc == 0) {
        log->fd = open_file(log->path);
        rc = log->fd < 0 ? IOH_ESYS : start_thread(log);
    }
    if (rc)
        free_log(log);
    else
        *out = log;
    return rc;
}

void ioh_access_log_add(ioh_access_log *log, const ioh_req *req, int status, uint64_t bytes)
{
    char line[LINE_MAX_BYTES];
    int len = ioh_access_log_format(req, status, bytes, log->format, line, sizeof line);
    line[len++] = '\n';
    pthread_mutex_lock(&log->lock);
    struct buffer *b = &log->filling;
    bool fits = b->len + (size_t)len <= log->room;
    bool was_empty = b->len == 0, was_urgent = is_urgent(log);
    if (fits) {
        memcpy(b->bytes + b->len, line, (size_t)len);
        b->len += (size_t)len;
    } else {
        log->dropped++;
    }
    bool wake = was_empty || (!was_urgent && is_urgent(log));
    pthread_mutex_unlock(&log->lock);
    if (wake)
        pthread_cond_signal(&log->work);
}

void ioh_access_log_reopen(ioh_access_log *log)
{
    pthread_mutex_lock(&log->lock);
    log->reopen = true;
    pthread_mutex_unlock(&log->lock);
    pthread_cond_signal(&log->work);
}

uint64_t ioh_access_log_dropped(ioh_access_log *log)
{
    pthread_mutex_lock(&log->lock);
    uint64_t dropped = log->dropped;
    pthread_mutex_unlock(&log->lock);
    return dropped;
}

void ioh_access_log_close(ioh_access_log *log)
{
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    log->over = true;
    pthread_mutex_unlock(&log->lock);
    pthread_cond_signal(&log->work);
    pthread_join(log->thread, NULL);
    free_log(log);
}
