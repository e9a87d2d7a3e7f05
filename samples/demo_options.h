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
    "  --pool-nice N           the pool's threads are so much nicer than the others\n"
    "  --slow-threads N        a pool of its own for /slow and /burn\n"
    "  --head-timeout-ms N     --idle-timeout-ms N   --body-timeout-ms N\n"
    "  --write-timeout-ms N    --close-timeout-ms N  0 or absent: the library's own\n"
    "  --max-connections N     --max-per-address N   beyond: reset (default: no limit)\n"
    "  --max-body N            bytes of a request's body (default 1 GiB)\n"
    "  --compress TYPES        answers of these: 'text/html, application/json'; a star at an end\n"
    "  --compress-min N        --compress-level N    bytes; 1 to 9\n"
    "  --ws-max-message N      bytes of a WebSocket message (default 16 MiB)\n"
    "  --deflate[=MODE]        permessage-deflate: shared (default), or takeover\n"
    "  --deflate-min N         --deflate-level N     --deflate-window N\n"
    "  --ws-ping-ms N          --ws-dead-ms N        heartbeat; 0 or absent: the library's own\n"
    "  --files DIR             what lies in DIR, under /files/\n"
    "  --drain-ms N            what a stop waits for work under way (default 5000)\n"
    "  --verbose               log everything, not only warnings and errors\n";

struct settings {
    struct ioh_options options;
    const char *listen[MAX_LISTENERS], *proxy_from[MAX_LISTENERS];
    int listeners;
    const char *files; /* NULL: none */
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

static struct settings parse_command_line(int argc, char **argv)
{
    struct settings set = {.options = IOH_OPTIONS_INIT, .drain_ms = 5000};
    struct ioh_options *opt = &set.options;
    const struct {
        const char *name;
        uint32_t *number;
    } numbers[] = {{"epoll-threads", &opt->epoll_threads},
                   {"work-op-threads", &opt->work_op_threads},
                   {"pool-threads", &opt->pool_threads},
                   {"pool-queue", &opt->pool_queue},
                   {"handoff-us", &opt->handoff_us},
                   {"pool-nice", &opt->pool_nice},
                   {"slow-threads", &set.slow_threads},
                   {"head-timeout-ms", &opt->head_timeout_ms},
                   {"idle-timeout-ms", &opt->idle_timeout_ms},
                   {"body-timeout-ms", &opt->body_timeout_ms},
                   {"write-timeout-ms", &opt->write_timeout_ms},
                   {"close-timeout-ms", &opt->close_timeout_ms},
                   {"deflate-min", &opt->ws_deflate_min},
                   {"deflate-level", &opt->ws_deflate_level},
                   {"deflate-window", &opt->ws_deflate_window},
                   {"ws-ping-ms", &opt->ws_ping_ms},
                   {"ws-dead-ms", &opt->ws_dead_ms},
                   {"max-connections", &opt->max_connections},
                   {"max-per-address", &opt->max_per_address},
                   {"compress-min", &opt->compress_min},
                   {"compress-level", &opt->compress_level},
                   {"drain-ms", &set.drain_ms}};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    enum {
        LISTEN = 'a',
        PROXY_FROM,
        TYPE,
        EXEC,
        FULL,
        MAX_BODY,
        WS_MAX,
        FILES,
        COMPRESS,
        DEFLATE,
        VERBOSE,
        HELP,
        NUMBER,
        OTHERS = NUMBER - LISTEN
    };
    struct option longs[NUMBERS + OTHERS + 1] = {{"listen", 1, NULL, LISTEN},
                                                 {"proxy-from", 1, NULL, PROXY_FROM},
                                                 {"type", 1, NULL, TYPE},
                                                 {"exec", 1, NULL, EXEC},
                                                 {"pool-full", 1, NULL, FULL},
                                                 {"max-body", 1, NULL, MAX_BODY},
                                                 {"ws-max-message", 1, NULL, WS_MAX},
                                                 {"files", 1, NULL, FILES},
                                                 {"deflate", 2, NULL, DEFLATE},
                                                 {"compress", 1, NULL, COMPRESS},
                                                 {"verbose", 0, NULL, VERBOSE},
                                                 {"help", 0, NULL, HELP}};
    for (int i = 0; i < NUMBERS; i++)
        longs[OTHERS + i] = (struct option){numbers[i].name, 1, NULL, NUMBER};
    opt->max_body_bytes = (uint64_t)1 << 30;
    opt->ws_max_message = WS_MAX_DEFAULT;

    const char *proxy_from = NULL;
    for (int which, index; (which = getopt_long(argc, argv, "", longs, &index)) != -1;) {
        switch (which) {
        case LISTEN:
            if (set.listeners == MAX_LISTENERS) {
                fprintf(stderr, "demo: at most %d listeners\n", MAX_LISTENERS);
                exit(2);
            }
            set.proxy_from[set.listeners] = proxy_from;
            set.listen[set.listeners++] = optarg;
            break;
        case PROXY_FROM:
            proxy_from = *optarg ? optarg : NULL;
            break;
        case TYPE:
            opt->type = parse_word("type", optarg, types);
            break;
        case EXEC:
            opt->exec = parse_word("exec", optarg, execs);
            break;
        case FULL:
            opt->pool_full = parse_word("pool-full", optarg, fulls);
            break;
        case MAX_BODY:
            opt->max_body_bytes = parse_number("max-body", optarg, INT64_MAX);
            break;
        case WS_MAX:
            opt->ws_max_message = parse_number("ws-max-message", optarg, INT64_MAX);
            break;
        case FILES:
            set.files = optarg;
            break;
        case COMPRESS:
            opt->compress = optarg;
            break;
        case DEFLATE:
            opt->ws_deflate = optarg ? parse_word("deflate", optarg, deflates) : IOH_DEFLATE_SHARED;
            break;
        case VERBOSE:
            set.verbose = true;
            break;
        case HELP:
            fputs(usage, stdout);
            exit(0);
        case NUMBER:
            *numbers[index - OTHERS].number =
                (uint32_t)parse_number(longs[index].name, optarg, UINT32_MAX);
            break;
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "demo: what is %s?\n%s", argv[optind], usage);
        exit(2);
    }
    if (set.listeners == 0)
        set.listen[set.listeners++] = "127.0.0.1:8080";
    if (opt->ws_max_message == 0)
        opt->ws_max_message = WS_MAX_DEFAULT;
    return set;
}

#endif
