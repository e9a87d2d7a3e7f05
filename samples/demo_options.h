/* The command line of the demo. A bad one ends the program with 2. */
#ifndef DEMO_OPTIONS_H
#define DEMO_OPTIONS_H

#include "demo.h"

#include <getopt.h>

static const char usage[] =
    "usage: demo [options]\n"
    "  --listen ADDR           127.0.0.1:8080 (default), [::1]:0, unix:/path; repeatable\n"
    "  --proxy-from LIST       of the listeners that follow: proxies that send a PROXY header,\n"
    "                          as 127.0.0.1,10.0.0.0/8,unix:; \"\": none any more\n"
    "  --epoll-threads N       threads that wait for sockets; 0 (default): one a core\n"
    "  --type T                epoll (default), or threads: one for each connection\n"
    "  --exec E                who runs the callbacks: auto (default), inline, pool, affine\n"
    "  --work-op-threads N     connection-affine threads; > 0 selects affine\n"
    "  --pool-threads N        --pool-queue N        of auto and pool\n"
    "  --pool-full P           a full queue: default, refuse, wait, close\n"
    "  --handoff-us N          auto: a callback is late after this\n"
    "  --pool-nice N           the pool's threads are so much nicer; 20: get what is left\n"
    "  --slow-threads N        a pool of its own for /slow and /burn\n"
    "  --head-timeout-ms N     --idle-timeout-ms N   --body-timeout-ms N\n"
    "  --write-timeout-ms N    --close-timeout-ms N  0 or absent: the library's own\n"
    "  --max-requests N        of a connection (default: no limit)\n"
    "  --max-connections N     --max-per-address N   beyond: reset (default: no limit)\n"
    "  --max-body N            bytes of a request's body (default 1 GiB)\n"
    "  --compress TYPES        answers of these: 'text/html, application/json'; a star at an end\n"
    "  --compress-min N        --compress-level N    bytes; 1 to 9\n"
    "  --ws-max-message N      bytes of a WebSocket message (default 16 MiB)\n"
    "  --deflate[=MODE]        permessage-deflate: shared (default), or takeover\n"
    "  --deflate-min N         --deflate-level N     --deflate-window N\n"
    "  --ws-ping-ms N          --ws-dead-ms N        heartbeat; 0 or absent: the library's own\n"
    "  --files DIR             what lies in DIR, under /files/\n"
    "  --access-log FILE       a line for each request; SIGHUP opens it anew\n"
    "  --access-format F       common (default), combined, json\n"
    "  --drain-ms N            what a stop waits for work under way (default 5000)\n"
    "  --verbose               log everything, not only warnings and errors\n";

struct settings {
    struct ioh_options options;
    const char *listen[MAX_LISTENERS], *proxy_from[MAX_LISTENERS];
    int listeners;
    const char *files;      /* NULL: none */
    const char *access_log; /* likewise */
    int32_t access_format;  /* IOH_ACCESS_... */
    uint32_t drain_ms, slow_threads;
    bool verbose;
};

static uint64_t parse_number(const char *option, const char *text, uint64_t max)
{
    int64_t value;
    if (!parse_length((struct ioh_str){text, strlen(text)}, &value) || (uint64_t)value > max) {
        fprintf(stderr, "demo: --%s: not a number from 0 to %" PRIu64 ": %s\n", option, max, text);
        exit(2);
    }
    return (uint64_t)value;
}

static int32_t parse_word(const char *option, const char *text, const char *const *words)
{
    for (int32_t i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    fprintf(stderr, "demo: --%s: not known: %s\n", option, text);
    exit(2);
}

static const char *const types[] = {"epoll", "threads", NULL}; /* IOH_EPOLL, ... */
static const char *const execs[] = {"auto", "inline", "pool", "affine",
                                    NULL}; /* IOH_EXEC_AUTO, ... */

static const char *const deflates[] = {"off", "shared", "takeover", NULL}; /* IOH_DEFLATE_... */
static const char *const fulls[] = {"default", "refuse", "wait", "close", NULL}; /* IOH_FULL_... */

static const char *const access_formats[] = {"common", "combined", "json",
                                             NULL}; /* IOH_ACCESS_... */

/* A switch and where its value goes. */
struct row {
    const char *name;
    enum { NUMBER, LARGE, WORD, SOME_WORD, TEXT, LISTEN, PROXY_FROM, VERBOSE, HELP } kind;
    void *to; /* uint32_t, uint64_t, int32_t (twice), const char * */
    const char *const *words;
};

#define MAX_ROWS 48

static void add_listener(struct settings *set, const char *address, const char *proxy_from)
{
    if (set->listeners == MAX_LISTENERS) {
        fprintf(stderr, "demo: at most %d listeners\n", MAX_LISTENERS);
        exit(2);
    }
    set->proxy_from[set->listeners] = proxy_from;
    set->listen[set->listeners++] = address;
}

/* value NULL: the switch stands alone. */
static void take(struct settings *set, const struct row *row, const char *value,
                 const char **proxy_from)
{
    switch (row->kind) {
    case NUMBER:
        *(uint32_t *)row->to = (uint32_t)parse_number(row->name, value, UINT32_MAX);
        break;
    case LARGE:
        *(uint64_t *)row->to = parse_number(row->name, value, INT64_MAX);
        break;
    case WORD:
    case SOME_WORD: /* alone it means the first that is not "off" */
        *(int32_t *)row->to = value ? parse_word(row->name, value, row->words) : 1;
        break;
    case TEXT:
        *(const char **)row->to = value;
        break;
    case LISTEN:
        add_listener(set, value, *proxy_from);
        break;
    case PROXY_FROM:
        *proxy_from = *value ? value : NULL;
        break;
    case VERBOSE:
        set->verbose = true;
        break;
    case HELP:
        fputs(usage, stdout);
        exit(0);
    }
}

static void parse_rows(int argc, char **argv, struct settings *set, const struct row *rows,
                       int count)
{
    struct option longs[MAX_ROWS + 1] = {{0}};
    const char *proxy_from = NULL;
    for (int i = 0; i < count; i++) {
        int argument = rows[i].kind >= VERBOSE ? 0 : rows[i].kind == SOME_WORD ? 2 : 1;
        longs[i] = (struct option){rows[i].name, argument, NULL, 1};
    }
    for (int found, index; (found = getopt_long(argc, argv, "", longs, &index)) != -1;) {
        if (found != 1) {
            fputs(usage, stderr);
            exit(2);
        }
        take(set, &rows[index], optarg, &proxy_from);
    }
    if (optind < argc) {
        fprintf(stderr, "demo: what is %s?\n%s", argv[optind], usage);
        exit(2);
    }
}

static struct settings parse_command_line(int argc, char **argv)
{
    struct settings set = {.options = IOH_OPTIONS_INIT, .drain_ms = 5000};
    struct ioh_options *opt = &set.options;
    const struct row rows[] = {{"listen", LISTEN, NULL, NULL},
                               {"proxy-from", PROXY_FROM, NULL, NULL},
                               {"type", WORD, &opt->type, types},
                               {"exec", WORD, &opt->exec, execs},
                               {"epoll-threads", NUMBER, &opt->epoll_threads, NULL},
                               {"work-op-threads", NUMBER, &opt->work_op_threads, NULL},
                               {"pool-threads", NUMBER, &opt->pool_threads, NULL},
                               {"pool-queue", NUMBER, &opt->pool_queue, NULL},
                               {"pool-full", WORD, &opt->pool_full, fulls},
                               {"handoff-us", NUMBER, &opt->handoff_us, NULL},
                               {"pool-nice", NUMBER, &opt->pool_nice, NULL},
                               {"slow-threads", NUMBER, &set.slow_threads, NULL},
                               {"head-timeout-ms", NUMBER, &opt->head_timeout_ms, NULL},
                               {"idle-timeout-ms", NUMBER, &opt->idle_timeout_ms, NULL},
                               {"body-timeout-ms", NUMBER, &opt->body_timeout_ms, NULL},
                               {"write-timeout-ms", NUMBER, &opt->write_timeout_ms, NULL},
                               {"close-timeout-ms", NUMBER, &opt->close_timeout_ms, NULL},
                               {"max-requests", NUMBER, &opt->max_requests, NULL},
                               {"max-connections", NUMBER, &opt->max_connections, NULL},
                               {"max-per-address", NUMBER, &opt->max_per_address, NULL},
                               {"max-body", LARGE, &opt->max_body_bytes, NULL},
                               {"compress", TEXT, &opt->compress, NULL},
                               {"compress-min", NUMBER, &opt->compress_min, NULL},
                               {"compress-level", NUMBER, &opt->compress_level, NULL},
                               {"ws-max-message", LARGE, &opt->ws_max_message, NULL},
                               {"ws-ping-ms", NUMBER, &opt->ws_ping_ms, NULL},
                               {"ws-dead-ms", NUMBER, &opt->ws_dead_ms, NULL},
                               {"deflate", SOME_WORD, &opt->ws_deflate, deflates},
                               {"deflate-min", NUMBER, &opt->ws_deflate_min, NULL},
                               {"deflate-level", NUMBER, &opt->ws_deflate_level, NULL},
                               {"deflate-window", NUMBER, &opt->ws_deflate_window, NULL},
                               {"files", TEXT, &set.files, NULL},
                               {"access-log", TEXT, &set.access_log, NULL},
                               {"access-format", WORD, &set.access_format, access_formats},
                               {"drain-ms", NUMBER, &set.drain_ms, NULL},
                               {"verbose", VERBOSE, NULL, NULL},
                               {"help", HELP, NULL, NULL}};
    _Static_assert(sizeof rows / sizeof *rows <= MAX_ROWS, "room for all");
    opt->max_body_bytes = (uint64_t)1 << 30;
    opt->ws_max_message = WS_MAX_DEFAULT;
    parse_rows(argc, argv, &set, rows, sizeof rows / sizeof *rows);
    opt->timings = set.access_log != NULL;
    if (set.listeners == 0)
        add_listener(&set, "127.0.0.1:8080", NULL);
    if (opt->ws_max_message == 0)
        opt->ws_max_message = WS_MAX_DEFAULT;
    return set;
}

#endif
