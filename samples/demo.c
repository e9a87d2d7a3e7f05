/* The demo host: every part of the public face in one program, which all black-box tests drive.
 * Here: the WebSocket side, start and stop. The other parts are demo_http.h (the paths),
 * demo_topics.h (who hears whom), demo_live.h (statistics) and demo_options.h (the command line).
 *
 * Threads: callbacks run on the server's threads; the main thread starts the server, then waits for
 * a signal and wakes twice a second to post the statistics to those who watch.
 *
 *     on_ws_upgrade: which kind -- on_ws_open: subscribe -- messages -- on_close: free what it is
 *
 * An /echo WebSocket subscribes to nothing and shares a static `struct work`: it costs no memory here.
 */
#include "demo.h"
#include "demo_http.h"
#include "demo_live.h"
#include "demo_options.h"
#include "demo_topics.h"

#include <errno.h>
#include <signal.h>

#include "demo_html.h"

/* What the connection is to become once its WebSocket is open. Never changed. */
static struct work echo_work = {.kind = ECHO};
static struct work pieces_work = {.kind = ECHO}; /* messages of any length, by pieces */
static struct work chat_work = {.kind = TOPIC, .u.topic = {.name = "chat"}};
static struct work live_work = {
    .kind = TOPIC, .u.topic = {.name = "live", .full = IOH_TOPIC_LATEST, .mute = true}};

/* ---- WebSocket */

static int on_ws_upgrade(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    struct ioh_str path = ioh_req_path(req);
    struct work *work;
    int status = 404;
    if (str_is(path, "/echo", 5))
        work = str_is(ioh_req_query(req), "pieces", 6) ? &pieces_work : &echo_work;
    else if (str_is(path, "/chat", 5))
        work = &chat_work;
    else if (str_is(path, "/live", 5))
        work = &live_work;
    else if (path.len > 7 && memcmp(path.ptr, "/topic/", 7) == 0)
        work = topic_work(state, req, (struct ioh_str){path.ptr + 7, path.len - 7}, &status);
    else
        work = NULL;
    if (work == NULL)
        return status;
    if (work->kind == ECHO && ioh_ws_offers(req, "echo"))
        accept->protocol = "echo";
    if (work->kind != ECHO && !ioh_ws_same_origin(req))
        return 403; /* no page of another site speaks here in a visitor's name */
    ioh_conn_set_user(ioh_req_conn(req), work);
    return 0;
}

static void on_ws_open(ioh_conn *conn, void *state)
{
    struct work *work = ioh_conn_user(conn);
    if (work->kind == TOPIC)
        topic_open(state, conn, work);
    else if (work == &pieces_work)
        check(state, "pieces", ioh_ws_receive_pieces(conn, 1));
}

static void on_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    const struct work *work = ioh_conn_user(conn);
    if (work->kind == ECHO)
        check(state, "echo", ioh_ws_send(conn, op, data, len));
    else
        topic_message(state, conn, work, op, data, len);
}

/* /echo?pieces: each piece goes back as it comes. Reading stops while too much is queued, so a message of any length
 * takes little memory. */
static void on_ws_piece(ioh_conn *conn, int op, void *data, size_t len, int last, void *state)
{
    check(state, "echo", ioh_ws_send_piece(conn, op, data, len, last));
}

/* Once for every connection, also for one that left before its WebSocket was open. */
static void on_close(ioh_conn *conn, void *state)
{
    struct work *work = ioh_conn_user(conn);
    (void)state;
    if (work && work->kind == TOPIC && work != &chat_work && work != &live_work)
        free(work);
}

/* ---- start and stop */

static void on_log(int level, const char *text, void *state)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    const struct demo *demo = state;
    if (demo->verbose || level <= IOH_LOG_WARN)
        fprintf(stderr, "demo: %s: %s\n", names[level], text);
}

static ioh_response *text_answer(int status, const char *text)
{
    return ioh_response_create(status, text_fields, 2, text, strlen(text));
}

/* The answers that never change, among them for each path which methods it takes. */
static bool make_answers(struct demo *demo)
{
    static const struct ioh_header plain[] = {
        {"Content-Type", "text/plain"}}; /* as others are measured */
    static const struct ioh_header page[] = {
        {"Content-Type", "text/html; charset=utf-8"},
        {"Cache-Control", "no-cache"},
        {"X-Content-Type-Options", "nosniff"},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
         "img-src data:; connect-src 'self' ws: wss:"}};
    demo->page = ioh_response_create(200, page, 4, demo_html, demo_html_len);
    demo->ping = ioh_response_create(200, plain, 1, "pong", 4);
    demo->done = text_answer(200, "done\n");
    demo->bad = text_answer(400, "a number is missing in the query, or is none\n");
    demo->missing = text_answer(404, "there is nothing here\n");
    demo->too_big = text_answer(413, "too big to be given back\n");
    demo->broken = text_answer(500, "out of memory\n");
    demo->not_implemented = text_answer(501, "this method is not known here\n");
    bool made = demo->page && demo->ping && demo->done && demo->bad && demo->missing &&
                demo->too_big && demo->broken && demo->not_implemented;

    for (size_t i = 0; i < ROUTES; i++) {
        char allow[128];
        size_t len = 0;
        for (size_t m = 0; m < METHODS; m++)
            if (routes[i].allowed & methods[m].bit)
                len += (size_t)sprintf(allow + len, "%s%s", len ? ", " : "", methods[m].name);
        struct ioh_header field = {"Allow", allow};
        demo->options[i] = ioh_response_create(204, &field, 1, NULL, 0);
        demo->refused[i] = ioh_response_create(405, &field, 1, NULL, 0);
        made = made && demo->options[i] && demo->refused[i];
    }

    static char pattern[PATTERN_LEN];
    for (size_t i = 0; i < PATTERN_LEN; i++)
        pattern[i] = "0123456789abcdef"[i % 16];
    demo->pattern = ioh_buf_wrap(pattern, PATTERN_LEN, NULL, NULL);
    return made && demo->pattern != NULL;
}

static void destroy_answers(struct demo *demo)
{
    ioh_response *all[] = {demo->ping,    demo->page,    demo->done,   demo->bad,
                           demo->missing, demo->too_big, demo->broken, demo->not_implemented};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ioh_response_destroy(all[i]);
    for (size_t i = 0; i < ROUTES; i++) {
        ioh_response_destroy(demo->options[i]);
        ioh_response_destroy(demo->refused[i]);
    }
    ioh_buf_unref(demo->pattern);
}

/* Opens the listeners and starts the threads; 0, or what main() is to end with. */
static int start(struct demo *demo, struct settings *set)
{
    struct ioh_handler handler = IOH_HANDLER_INIT;
    handler.on_log = on_log;
    handler.on_drain = on_drain;
    if (set->slow_threads > 0)
        handler.on_classify = on_classify;
    handler.on_request = on_request;
    handler.on_body = on_body;
    handler.on_request_end = on_request_end;
    handler.on_complete = on_complete;
    handler.on_ws_upgrade = on_ws_upgrade;
    handler.on_ws_open = on_ws_open;
    handler.on_ws_message = on_ws_message;
    handler.on_ws_piece = on_ws_piece;
    handler.on_close = on_close;
    /* Room for one whole echo behind a queue at its mark. */
    uint64_t longest = set->options.ws_max_message;
    set->options.send_max = (longest > GATHER_MAX ? longest : GATHER_MAX) + (4 << 20);

    int rc = ioh_server_create(&demo->server, &handler, &set->options, demo);
    if (rc < 0) {
        const char *why = demo->server ? ioh_server_error(demo->server) : ioh_strerror(rc);
        fprintf(stderr, "demo: %s\n", why);
        return rc == IOH_EINVAL ? 2 : 1;
    }
    if (set->slow_threads > 0) {
        demo->slow = ioh_pool_create(demo->server, "slow", set->slow_threads, 0);
        if (demo->slow == NULL) {
            fprintf(stderr, "demo: --slow-threads: %" PRIu32 " cannot be made\n",
                    set->slow_threads);
            return 2;
        }
    }
    for (int i = 0; i < set->listeners; i++) {
        struct ioh_listen_options how = IOH_LISTEN_OPTIONS_INIT;
        how.proxy_from = set->proxy_from[i];
        rc = ioh_server_listen(demo->server, set->listen[i], &how);
        if (rc < 0) {
            fprintf(stderr, "demo: %s\n", ioh_server_error(demo->server));
            return 1;
        }
    }
    demo->started_ms = now_ms();
    rc = ioh_server_start(demo->server);
    if (rc < 0) {
        fprintf(stderr, "demo: %s\n", ioh_server_error(demo->server));
        return 1;
    }
    for (int i = 0; i < set->listeners; i++) {
        char address[128];
        rc = ioh_server_address(demo->server, i, address, sizeof address);
        printf("listening %s\n", rc < 0 ? ioh_strerror(rc) : address);
    }
    printf("threads %d\n", ioh_server_threads(demo->server) + 1 + (demo->access != NULL));
    return fflush(stdout) == 0 ? 0 : 1;
}

static bool open_access_log(struct demo *demo, const struct settings *set)
{
    struct ioh_access_log_options o = IOH_ACCESS_LOG_OPTIONS_INIT;
    o.path = set->access_log;
    o.format = set->access_format;
    if (!set->access_log)
        return true;
    int rc = ioh_access_log_open(&demo->access, &o);
    if (rc)
        fprintf(stderr, "demo: --access-log %s: %s\n", o.path,
                rc == IOH_ESYS ? strerror(errno) : ioh_strerror(rc));
    return rc == 0;
}

/* Until a signal says that it is over. */
static void serve(struct demo *demo, const sigset_t *signals)
{
    const struct timespec half_second = {.tv_nsec = 500 * 1000 * 1000};
    for (;;) {
        int signal = sigtimedwait(signals, NULL, &half_second);
        if (signal == SIGHUP && demo->access)
            ioh_access_log_reopen(demo->access);
        else if (signal == SIGINT || signal == SIGTERM)
            return;
        else if (signal < 0 && errno == EAGAIN) {
            tick(demo);
            send_events(demo);
        }
    }
}

int main(int argc, char **argv)
{
    struct settings set = parse_command_line(argc, argv);
    struct demo demo = {.files = -1, .verbose = set.verbose};
    sigset_t signals; /* blocked before the threads start, so that only sigtimedwait() gets them */
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    if (set.access_log) /* else it ends the demo, as ever */
        sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    int status = 1;
    if (!make_answers(&demo))
        fprintf(stderr, "demo: %s\n", ioh_strerror(IOH_ENOMEM));
    else if (!open_files(&demo, set.files) || !open_access_log(&demo, &set))
        status = 2;
    else
        status = start(&demo, &set);
    if (status == 0) {
        serve(&demo, &signals);
        int rc = ioh_server_stop(demo.server, set.drain_ms);
        if (rc < 0 && rc != IOH_ETIMEOUT) { /* that one only says that something was aborted */
            fprintf(stderr, "demo: stop: %s\n", ioh_strerror(rc));
            status = 1;
        }
    }
    ioh_server_destroy(demo.server);
    ioh_access_log_close(demo.access);
    destroy_answers(&demo);
    if (demo.files >= 0)
        close(demo.files);
    return status;
}
