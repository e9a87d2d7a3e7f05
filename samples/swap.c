/* A host of the old kind, before and after the swap: handlers that wait, state kept per thread.
 *
 *     swap --type threads    before: a thread for each connection
 *     swap --type epoll      after: a fixed number of threads, and the same handlers
 *
 * Notes in a table behind one lock. Every request first asks a "database", which takes 20 ms of
 * sleep, over a handle that its thread opened when it began, since such handles cannot be shared. A
 * WebSocket at /watch is told of every change.
 *
 * Threads: the handlers run on whichever thread the library chooses, and nothing here knows how many
 * there are. The main thread starts the server and waits for a signal.
 */
#include <iohandler/iohandler.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOTES_MAX 1000
#define TEXT_MAX 1000 /* bytes of a note */
#define WATCHERS_MAX 10000

struct note {
    unsigned number; /* 0: free */
    size_t len;
    char text[TEXT_MAX];
};

static ioh_server *server;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct note notes[NOTES_MAX]; /* from here on under the lock */
static unsigned last_number;
static ioh_conn_id watchers[WATCHERS_MAX]; /* one just gone answers IOH_EGONE */
static size_t watcher_count;

/* ---- the database: a handle for each thread, and queries that wait */

static _Thread_local bool *handle; /* is it in use? */
static atomic_uint handles, queries;

static void on_thread_start(void *state)
{
    (void)state;
    handle = calloc(1, sizeof *handle);
    handles += handle != NULL;
}

static void on_thread_stop(void *state)
{
    (void)state;
    handles -= handle != NULL;
    free(handle);
    handle = NULL;
}

static bool query(void)
{
    const struct timespec round_trip = {.tv_nsec = 20 * 1000 * 1000};
    if (!handle)
        return false;
    if (*handle)
        abort(); /* two queries at a time on one handle: a thread-local that was shared */
    *handle = true;
    nanosleep(&round_trip, NULL);
    *handle = false;
    queries++;
    return true;
}

static bool method_is(const ioh_req *req, const char *method)
{
    struct ioh_str have = ioh_req_method(req);
    return have.len == strlen(method) && memcmp(have.ptr, method, have.len) == 0;
}

/* ---- the notes; all of these under the lock */

/* The note of that number, or a free one for 0; NULL: none. */
static struct note *find(unsigned number)
{
    for (size_t i = 0; i < NOTES_MAX; i++)
        if (notes[i].number == number)
            return &notes[i];
    return NULL;
}

/* All watchers hear of all changes in the same order, since the lock is held. Posting never waits. */
static void tell(const char *what, unsigned number)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%s %u", what, number);
    ioh_buf *frame = ioh_ws_frame(IOH_WS_TEXT, text, (size_t)len);
    for (size_t i = 0; frame && i < watcher_count; i++)
        ioh_ws_post(server, watchers[i], ioh_buf_ref(frame));
    ioh_buf_unref(frame);
}

/* Does what the request asks; number 0: of the whole table. Answers the status and writes the answer's
 * text. draft: the body of a POST. */
static int apply(const ioh_req *req, unsigned number, const struct note *draft, char *text,
                 size_t *len)
{
    bool get = method_is(req, "GET") || method_is(req, "HEAD");
    struct note *note = find(number);
    if (number && !note)
        return 404;
    if (number && get) {
        *len = note->len;
        memcpy(text, note->text, note->len);
        return 200;
    }
    if (number && method_is(req, "DELETE")) {
        note->number = 0;
        tell("removed", number);
        return 204;
    }
    if (get) {
        for (size_t i = 0; i < NOTES_MAX; i++)
            if (notes[i].number)
                *len += (size_t)sprintf(text + *len, "/notes/%u\n", notes[i].number);
        return 200;
    }
    if (number || !draft)
        return 405;
    if (!note)
        return 507;
    *note = *draft;
    note->number = ++last_number;
    *len = (size_t)sprintf(text, "/notes/%u\n", note->number);
    tell("added", note->number);
    return 201;
}

/* ---- HTTP */

/* What the old host ran once it had read a request; it may wait as long as it likes. */
static void serve(ioh_req *req, const struct note *draft)
{
    static const struct ioh_header plain = {"Content-Type", "text/plain; charset=utf-8"};
    char text[NOTES_MAX * sizeof "/notes/4294967295\n"], path[32], more;
    size_t len = 0;
    unsigned number = 0;

    snprintf(path, sizeof path, "%.*s", (int)ioh_req_path(req).len, ioh_req_path(req).ptr);
    bool one = sscanf(path, "/notes/%9u%c", &number, &more) == 1 && number > 0;
    int status = !query() ? 503 : one || strcmp(path, "/notes") == 0 ? 0 : 404;
    if (status == 0) {
        pthread_mutex_lock(&lock);
        status = apply(req, number, draft, text, &len);
        pthread_mutex_unlock(&lock);
    }
    const struct ioh_header allow = {"Allow", one ? "GET, HEAD, DELETE" : "GET, HEAD, POST"};
    ioh_respond(req, status, status == 405 ? &allow : &plain, 1, text, len);
}

static void on_request(ioh_req *req, void *state)
{
    (void)state;
    if (!method_is(req, "POST"))
        serve(req, NULL);
    else /* the body follows; out of memory: on_request_end leaves it to the library to say 500 */
        ioh_req_set_user(req, calloc(1, sizeof(struct note)));
}

/* What is longer than options.max_body_bytes does not come here: the library refuses it with 413. */
static void on_body(ioh_req *req, const void *data, size_t len, void *state)
{
    struct note *draft = ioh_req_user(req);
    (void)state;
    if (draft && len <= TEXT_MAX - draft->len) {
        memcpy(draft->text + draft->len, data, len);
        draft->len += len;
    }
}

static void on_request_end(ioh_req *req, void *state)
{
    const struct note *draft = ioh_req_user(req);
    (void)state;
    if (draft)
        serve(req, draft);
}

static void on_complete(ioh_req *req, int status, uint64_t sent, void *state)
{
    (void)status, (void)sent, (void)state;
    free(ioh_req_user(req));
}

/* ---- WebSocket */

static int on_ws_upgrade(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    struct ioh_str path = ioh_req_path(req);
    (void)accept, (void)state;
    return path.len == 6 && memcmp(path.ptr, "/watch", 6) == 0 ? 0 : 404;
}

static void on_ws_open(ioh_conn *conn, void *state)
{
    (void)state;
    pthread_mutex_lock(&lock);
    bool room = watcher_count < WATCHERS_MAX;
    if (room)
        watchers[watcher_count++] = ioh_conn_get_id(conn);
    pthread_mutex_unlock(&lock);
    if (!room)
        ioh_ws_close(conn, 1013, NULL, 0); /* try again later */
}

static void on_ws_close(ioh_conn *conn, int code, const char *reason, size_t len, void *state)
{
    (void)code, (void)reason, (void)len, (void)state;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < watcher_count; i++)
        if (watchers[i] == ioh_conn_get_id(conn))
            watchers[i] = watchers[--watcher_count];
    pthread_mutex_unlock(&lock);
}

/* ---- start and stop */

static void parse_command_line(int argc, char **argv, struct ioh_options *opt, const char **listen)
{
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(name, "--type") == 0 && strcmp(value, "threads") == 0) {
            opt->type = IOH_THREADS; /* the swap is this option, and nothing else */
        } else if (strcmp(name, "--type") == 0 && strcmp(value, "epoll") == 0) {
            opt->type = IOH_EPOLL;
        } else if (strcmp(name, "--listen") == 0 && *value) {
            *listen = value;
        } else if (strcmp(name, "--pool-threads") == 0 && strtoul(value, NULL, 10) > 0) {
            opt->pool_threads = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(name, "--work-op-threads") == 0 && strtoul(value, NULL, 10) > 0) {
            opt->work_op_threads = (uint32_t)strtoul(value, NULL, 10);
        } else {
            fputs("usage: swap [--type threads|epoll] [--listen ADDR] [--pool-threads N]\n"
                  "            [--work-op-threads N]\n",
                  stderr);
            exit(2);
        }
    }
}

static void on_log(int level, const char *text, void *state)
{
    (void)state;
    if (level <= IOH_LOG_WARN)
        fprintf(stderr, "swap: %s\n", text);
}

int main(int argc, char **argv)
{
    struct ioh_options options = IOH_OPTIONS_INIT;
    const char *listen = "127.0.0.1:8080";
    parse_command_line(argc, argv, &options, &listen);
    options.max_body_bytes = TEXT_MAX;
    notes[0] = (struct note){++last_number, 15, "the first note\n"};

    struct ioh_handler handler = {.size = sizeof handler,
                                  .on_thread_start = on_thread_start,
                                  .on_thread_stop = on_thread_stop,
                                  .on_log = on_log,
                                  .on_request = on_request,
                                  .on_body = on_body,
                                  .on_request_end = on_request_end,
                                  .on_complete = on_complete,
                                  .on_ws_upgrade = on_ws_upgrade,
                                  .on_ws_open = on_ws_open,
                                  .on_ws_close = on_ws_close};
    sigset_t quit; /* blocked in all threads, so that sigwait() below gets it */
    sigemptyset(&quit);
    sigaddset(&quit, SIGINT);
    sigaddset(&quit, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &quit, NULL);

    if (ioh_server_create(&server, &handler, &options, NULL) < 0 ||
        ioh_server_listen(server, listen, NULL) < 0 || ioh_server_start(server) < 0) {
        fprintf(stderr, "swap: %s\n", server ? ioh_server_error(server) : "no memory");
        ioh_server_destroy(server);
        return 1;
    }
    char address[128];
    ioh_server_address(server, 0, address, sizeof address);
    printf("listening %s\nthreads %d\n", address, ioh_server_threads(server) + 1);
    fflush(stdout);

    int signal_number;
    sigwait(&quit, &signal_number);
    ioh_server_stop(server, 5000);
    ioh_server_destroy(server);
    printf("queries %u, handles left open %u\n", queries, handles);
    return 0;
}
