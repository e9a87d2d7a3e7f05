/* Options: reading a host's struct, of whatever version, and filling in the defaults. */
#include <assert.h>
#include <iohandler/error.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/share.h"
#include "server/server.h"

/* Version 1: a host's struct is never smaller. Its layout is free until 1.0, and from then on nothing in it
 * moves and new fields come behind. */
static_assert(offsetof(struct ioh_options, size) == 0, "size first");
#define VERSION_1_SIZE (offsetof(struct ioh_options, keep_fd_limit) + sizeof(uint32_t))

static void set_default32(uint32_t *option, uint32_t value)
{
    if (*option == 0)
        *option = value;
}

static void set_default64(uint64_t *option, uint64_t value)
{
    if (*option == 0)
        *option = value;
}

static void fill_thread_defaults(struct ioh_options *o)
{
    if (o->epoll_threads == 0)
        o->epoll_threads = ioh__cpu_count() < IOH__MAX_LOOPS ? ioh__cpu_count() : IOH__MAX_LOOPS;
    if (o->type == IOH_THREADS) {
        o->epoll_threads = 1; /* it only accepts */
        o->work_op_threads = o->pool_threads = 0;
    } else {
        if (o->work_op_threads && o->exec == IOH_EXEC_AUTO)
            o->exec = IOH_EXEC_AFFINE;
        if (o->exec == IOH_EXEC_AFFINE)
            set_default32(&o->work_op_threads, o->epoll_threads);
        if (o->exec == IOH_EXEC_AUTO || o->exec == IOH_EXEC_POOL)
            set_default32(&o->pool_threads, 8 * o->epoll_threads);
    }
    set_default32(&o->pool_queue, 1024);
    set_default32(&o->handoff_us, 500);
}

static void fill_defaults(struct ioh_options *o)
{
    fill_thread_defaults(o);
    set_default32(&o->max_head_bytes, 16384);
    set_default32(&o->max_uri_bytes, o->max_head_bytes < 8192 ? o->max_head_bytes : 8192);
    set_default32(&o->max_headers, 100);
    set_default64(&o->max_body_bytes, 64u << 20);
    set_default32(&o->compress_min, 1024);
    set_default32(&o->compress_level, 4);
    set_default32(&o->head_timeout_ms, 10000);
    set_default32(&o->idle_timeout_ms, 60000);
    set_default32(&o->body_timeout_ms, 30000);
    set_default32(&o->write_timeout_ms, 30000);
    set_default32(&o->close_timeout_ms, 5000);
    set_default32(&o->min_rate, 1024);
    set_default64(&o->ws_max_message, 16u << 20);
    set_default32(&o->ws_ping_ms, 25000);
    set_default32(&o->ws_dead_ms, o->ws_ping_ms < UINT32_MAX / 2 ? 2 * o->ws_ping_ms : UINT32_MAX);
    set_default32(&o->ws_deflate_min, 256);
    set_default32(&o->ws_deflate_level, 1);
    set_default32(&o->ws_deflate_window, 15);
    set_default64(&o->send_high, 256u << 10);
    set_default64(&o->send_low, o->send_high / 4);
    set_default64(&o->send_max, o->send_high > 16u << 20 ? o->send_high : 16u << 20);
}

struct bound {
    const char *name;
    uint64_t value, least, most;
};

static int check_choice(const char *name, int32_t value, int32_t least, int32_t most, char *error)
{
    if (value >= least && value <= most)
        return 0;
    snprintf(error, IOH__ERROR_TEXT, "options.%s: %d is not between %d and %d", name, (int)value,
             (int)least, (int)most);
    return IOH_EINVAL;
}

/* Answers the first option that is out of its bounds. */
static const struct bound *out_of_bounds(const struct bound *bounds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bounds[i].value < bounds[i].least || bounds[i].value > bounds[i].most)
            return &bounds[i];
    return NULL;
}

static int check(const struct ioh_options *o, char *error)
{
    const struct bound bounds[] = {
        {"epoll_threads", o->epoll_threads, 1, IOH__MAX_LOOPS},
        {"work_op_threads", o->work_op_threads, 0, 10000},
        {"pool_threads", o->pool_threads, 0, 10000},
        {"pool_nice", o->pool_nice, 0, IOH__SHARE_LEFTOVER},
        {"no_environment", o->no_environment, 0, 1},
        {"max_head_bytes", o->max_head_bytes, 64, 65535},
        {"max_uri_bytes", o->max_uri_bytes, 1, o->max_head_bytes},
        {"max_headers", o->max_headers, 1, 1000},
        {"timings", o->timings, 0, 1},
        {"compress_level", o->compress_level, 1, 9},
        {"ws_dead_ms", o->ws_dead_ms, o->ws_ping_ms < UINT32_MAX ? o->ws_ping_ms + 1 : 1,
         UINT32_MAX},
        {"ws_deflate_level", o->ws_deflate_level, 1, 9},
        {"ws_deflate_window", o->ws_deflate_window, 9, 15},
        {"send_low", o->send_low, 0, o->send_high},
        {"send_max", o->send_max, o->send_high, UINT64_MAX},
        {"keep_fd_limit", o->keep_fd_limit, 0, 1},
    };
    const struct bound *bad = out_of_bounds(bounds, sizeof bounds / sizeof *bounds);
    if (!bad)
        return 0;
    snprintf(error, IOH__ERROR_TEXT, "options.%s: %llu is not between %llu and %llu", bad->name,
             (unsigned long long)bad->value, (unsigned long long)bad->least,
             (unsigned long long)bad->most);
    return IOH_EINVAL;
}

/* Before the defaults are derived from them. */
static int check_choices(const struct ioh_options *o, char *error)
{
    int rc = check_choice("type", o->type, IOH_EPOLL, IOH_THREADS, error);
    if (rc == 0)
        rc = check_choice("exec", o->exec, IOH_EXEC_AUTO, IOH_EXEC_AFFINE, error);
    if (rc == 0)
        rc = check_choice("pool_full", o->pool_full, IOH_FULL_DEFAULT, IOH_FULL_CLOSE, error);
    if (rc == 0)
        rc =
            check_choice("ws_deflate", o->ws_deflate, IOH_DEFLATE_OFF, IOH_DEFLATE_TAKEOVER, error);
    if (rc == 0)
        rc =
            check_choice("send_full", o->send_full, IOH_SEND_FULL_CLOSE, IOH_SEND_FULL_DROP, error);
    return rc;
}

int ioh__options_read(struct ioh_options *to, const struct ioh_options *from,
                      char error[IOH__ERROR_TEXT])
{
    memset(to, 0, sizeof *to);
    if (from) {
        if (from->size < VERSION_1_SIZE)
            return IOH_EVERSION;
        memcpy(to, from, from->size < sizeof *to ? from->size : sizeof *to);
    }
    to->size = sizeof *to;
    int rc = to->no_environment ? 0 : ioh__options_environment(to, error);
    if (rc == 0)
        rc = check_choices(to, error);
    if (rc)
        return rc;
    fill_defaults(to);
    return check(to, error);
}
