/* The HTTP side of the demo: one function per path, then the callbacks that lead to them. Runs on
 * the server's threads. Owns the `struct work` of a request, from on_request to on_complete.
 *
 *     POST /    on_request: gather                    -- on_request_end: answer
 *     /upload   on_request: UPLOAD -- on_body: hash   -- on_request_end: answer
 *     /form     on_request: FORM   -- on_body: read   -- on_request_end: answer
 *     /stream   on_request: STREAM -- data until IOH_QUEUED, on_drain: more, until nothing is left;
 *               with pull=1 whenever the library asks; hints=1, trailers=1: a 103 before, a trailer behind
 *     /events   (both in demo_stream.h)
 *     others    on_request: answer; with a short body: on_request_end
 */
#ifndef DEMO_HTTP_H
#define DEMO_HTTP_H

#include "demo.h"
#include "demo_form.h"
#include "demo_files.h"
#include "demo_live.h"
#include "demo_stream.h"

/* ---- HTTP: one function per path */

/* Too much is told when bytes come, or when the client asks first. */
static void gather_begin(struct demo *demo, ioh_req *req)
{
    bool too_much = ioh_req_content_length(req) > (int64_t)GATHER_MAX;
    if (work_begin(demo, req, too_much ? REFUSE : GATHER) == NULL)
        return;
    if (!too_much)
        check(demo, "gather", ioh_req_gather(req, GATHER_MAX));
    else if (ioh_req_expects_continue(req))
        answer(demo, req, demo->too_big);
}

static void refuse_body(struct demo *demo, ioh_req *req)
{
    ioh_respond_close(req);
    answer(demo, req, demo->too_big);
}

/* The body and, behind it, the trailers that came with it; as many as there is room for. */
static void answer_with_trailers(struct demo *demo, ioh_req *req, const struct ioh_header *fields,
                                 struct ioh_str body)
{
    struct ioh_header trailers[16];
    struct ioh_str name, value;
    char text[4096], *at = text;
    size_t count = 0;
    while (count < 16 && ioh_req_trailer_at(req, count, &name, &value) == 0 &&
           name.len + value.len + 2 <= sizeof text - (size_t)(at - text)) {
        trailers[count++] = (struct ioh_header){at, at + name.len + 1};
        at = mempcpy(at, name.ptr, name.len);
        *at++ = 0;
        at = mempcpy(at, value.ptr, value.len);
        *at++ = 0;
    }
    check(demo, "answer", ioh_respond_start(req, 200, fields, 2, -1));
    check(demo, "answer", ioh_respond_data(req, body.ptr, body.len));
    check(demo, "answer", ioh_respond_end_trailers(req, trailers, count));
}

static void gather_end(struct demo *demo, ioh_req *req)
{
    char type[128] = "application/octet-stream";
    struct ioh_str body = ioh_req_body(req), given = ioh_req_header(req, "Content-Type");
    if (given.len > 0 && given.len < sizeof type) {
        memcpy(type, given.ptr, given.len);
        type[given.len] = 0;
    }
    struct ioh_header fields[] = {{"Content-Type", type}, {"X-Content-Type-Options", "nosniff"}};
    if (ioh_req_trailer_count(req) > 0)
        answer_with_trailers(demo, req, fields, body);
    else
        check(demo, "answer", ioh_respond(req, 200, fields, 2, body.ptr, body.len));
}

static void get_page_or_gather(struct demo *demo, ioh_req *req)
{
    if (str_is(ioh_req_method(req), "POST", 4))
        gather_begin(demo, req);
    else
        answer(demo, req, demo->page);
}

static void get_ping(struct demo *demo, ioh_req *req)
{
    answer(demo, req, demo->ping);
}

static void get_echo(struct demo *demo, ioh_req *req)
{
    struct ioh_str name, value;
    size_t len = 0;
    for (size_t i = 0; ioh_req_header_at(req, i, &name, &value) == 0; i++)
        len += name.len + value.len + 3;
    char *lines = malloc(len + 1), *at = lines;
    if (lines == NULL) {
        answer(demo, req, demo->broken);
        return;
    }
    for (size_t i = 0; ioh_req_header_at(req, i, &name, &value) == 0; i++) {
        at = mempcpy(at, name.ptr, name.len);
        at = mempcpy(at, ": ", 2);
        at = mempcpy(at, value.ptr, value.len);
        *at++ = '\n';
    }
    answer_bytes_take(demo, req, text_fields, 2, lines, len);
}

static void get_cookie(struct demo *demo, ioh_req *req)
{
    struct ioh_cookies it;
    struct ioh_str name, value;
    size_t len = 0;
    ioh_cookies_init(&it, req);
    while (ioh_cookies_next(&it, &name, &value))
        len += name.len + value.len + 2;
    char *lines = malloc(len + 1), *at = lines;
    if (lines == NULL) {
        answer(demo, req, demo->broken);
        return;
    }
    ioh_cookies_init(&it, req);
    while (ioh_cookies_next(&it, &name, &value)) {
        at = mempcpy(at, name.ptr, name.len);
        *at++ = '=';
        at = mempcpy(at, value.ptr, value.len);
        *at++ = '\n';
    }
    answer_bytes_take(demo, req, text_fields, 2, lines, len);
}

static void upload_begin(struct demo *demo, ioh_req *req)
{
    struct work *work = work_begin(demo, req, UPLOAD);
    if (work == NULL)
        return;
    work->u.upload.md = EVP_MD_CTX_new();
    if (work->u.upload.md == NULL || EVP_DigestInit_ex(work->u.upload.md, EVP_sha256(), NULL) != 1)
        answer(demo, req, demo->broken);
}

static void upload_body(struct demo *demo, ioh_req *req, struct work *work, const void *data,
                        size_t len)
{
    work->u.upload.bytes += len;
    if (EVP_DigestUpdate(work->u.upload.md, data, len) != 1)
        answer(demo, req, demo->broken);
}

static void upload_end(struct demo *demo, ioh_req *req, struct work *work)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned hash_len = 0;
    char json[64 + 2 * EVP_MAX_MD_SIZE];
    if (EVP_DigestFinal_ex(work->u.upload.md, hash, &hash_len) != 1) {
        answer(demo, req, demo->broken);
        return;
    }
    int len = sprintf(json, "{\"bytes\":%" PRIu64 ",\"sha256\":\"", work->u.upload.bytes);
    for (unsigned i = 0; i < hash_len; i++)
        len += sprintf(json + len, "%02x", hash[i]);
    len += sprintf(json + len, "\"}\n");
    check(demo, "upload", ioh_respond(req, 200, json_fields, 2, json, (size_t)len));
}

static void get_or_post_form(struct demo *demo, ioh_req *req)
{
    if (!str_is(ioh_req_method(req), "POST", 4)) {
        form_of_query(demo, req);
        return;
    }
    struct work *work = work_begin(demo, req, FORM);
    if (work)
        work->u.form = form_begin(demo, req);
}

static void get_stats(struct demo *demo, ioh_req *req)
{
    size_t len;
    char *json = stats_json(demo, &len);
    if (json == NULL)
        answer(demo, req, demo->broken);
    else
        answer_bytes_take(demo, req, json_fields, 2, json, len);
}

/* ---- HTTP: handlers that take long, and who runs them */

/* ms=N of the query, at most a minute; false: answered with 400. */
static bool milliseconds(struct demo *demo, ioh_req *req, uint64_t *ms)
{
    int64_t value;
    if (!parse_length(query_value(ioh_req_query(req), "ms"), &value) || value > 60000) {
        answer(demo, req, demo->bad);
        return false;
    }
    *ms = (uint64_t)value;
    return true;
}

static void get_slow(struct demo *demo, ioh_req *req)
{
    uint64_t ms;
    if (!milliseconds(demo, req, &ms))
        return;
    struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR)
        ;
    answer(demo, req, demo->done);
}

static uint64_t exact_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* However the core is shared, the same is burnt: a gap is time that others had. The thread's own clock would tell as
 * much, but who reads that makes the kernel think about its slice. */
static void burn(uint64_t ns)
{
    const uint64_t gap = 20000;
    for (uint64_t burnt = 0, last = exact_ns(); burnt < ns;) {
        uint64_t now = exact_ns();
        burnt += now - last < gap ? now - last : 0;
        last = now;
    }
}

static void get_burn(struct demo *demo, ioh_req *req)
{
    uint64_t ms;
    if (!milliseconds(demo, req, &ms))
        return;
    burn(ms * 1000000u);
    answer(demo, req, demo->done);
}

/* The thread that runs this: its id and name. */
static void get_whoami(struct demo *demo, ioh_req *req)
{
    char name[16] = "", text[48];
    pthread_getname_np(pthread_self(), name, sizeof name);
    int len = snprintf(text, sizeof text, "%ld %s\n", (long)gettid(), name);
    check(demo, "whoami", ioh_respond(req, 200, text_fields, 2, text, (size_t)len));
}

static void get_peer(struct demo *demo, ioh_req *req)
{
    char text[64];
    ioh_conn_peer(ioh_req_conn(req), text, sizeof text);
    check(demo, "peer", ioh_respond(req, 200, text_fields, 2, text, strlen(text)));
}

/* ---- HTTP: dispatch */

enum method {
    GET = 1,
    HEAD = 2,
    POST = 4,
    PUT = 8,
    PATCH = 16,
    DELETE = 32,
    OPTIONS = 64,
    TRACE = 128
};

static const struct {
    const char *name;
    size_t len;
    unsigned bit;
} methods[] = {{"GET", 3, GET},         {"HEAD", 4, HEAD},   {"POST", 4, POST},
               {"PUT", 3, PUT},         {"PATCH", 5, PATCH}, {"DELETE", 6, DELETE},
               {"OPTIONS", 7, OPTIONS}, {"TRACE", 5, TRACE}};

#define METHODS (sizeof methods / sizeof *methods)

static const struct route {
    const char *path;
    size_t len;
    unsigned allowed;
    unsigned takes_body;                          /* methods whose body run() wants to see */
    void (*run)(struct demo *demo, ioh_req *req); /* OPTIONS never gets here, but for /echo */
} routes[ROUTES] = {
    {"/", 1, GET | HEAD | POST | OPTIONS, POST, get_page_or_gather},
    {"/ping", 5, GET | HEAD | OPTIONS, 0, get_ping},
    {"/echo", 5, GET | HEAD | POST | PUT | PATCH | DELETE | OPTIONS, 0, get_echo},
    {"/cookie", 7, GET | HEAD | OPTIONS, 0, get_cookie},
    {"/upload", 7, POST | PUT | OPTIONS, POST | PUT, upload_begin},
    {"/form", 5, GET | HEAD | POST | OPTIONS, POST, get_or_post_form},
    {"/stream", 7, GET | HEAD | OPTIONS, 0, stream_begin},
    {"/events", 7, GET | HEAD | OPTIONS, 0, events_begin},
    {"/stats", 6, GET | HEAD | OPTIONS, 0, get_stats},
    {"/slow", 5, GET | HEAD | OPTIONS, 0, get_slow},
    {"/burn", 5, GET | HEAD | OPTIONS, 0, get_burn},
    {"/whoami", 7, GET | HEAD | OPTIONS, 0, get_whoami},
    {"/peer", 5, GET | HEAD | OPTIONS, 0, get_peer},
    {"/files", 6, GET | HEAD | OPTIONS, 0, get_file}, /* and what lies below it */
    {"*", 1, OPTIONS, 0, NULL},
};

static unsigned method_bit(struct ioh_str method)
{
    for (size_t i = 0; i < METHODS; i++)
        if (str_is(method, methods[i].name, methods[i].len))
            return methods[i].bit;
    return 0;
}

static const struct route *find_route(struct ioh_str path)
{
    if (is_below_files(path))
        path.len = 6;
    for (size_t i = 0; i < ROUTES; i++)
        if (str_is(path, routes[i].path, routes[i].len))
            return &routes[i];
    return NULL;
}

static void dispatch(struct demo *demo, ioh_req *req, const struct route *route, unsigned method)
{
    if (method == 0)
        answer(demo, req, demo->not_implemented);
    else if (!route)
        answer(demo, req, demo->missing);
    else if (!(route->allowed & method))
        answer(demo, req, demo->refused[route - routes]);
    else if (method == OPTIONS && route->run != get_echo)
        answer(demo, req, demo->options[route - routes]);
    else
        route->run(demo, req);
}

/* A short body that nobody wants is read before the answer, so that a fault in it can still be told.
 * Who asks first, or has much to send, is answered at once. */
static bool body_comes_first(ioh_req *req)
{
    int64_t len = ioh_req_content_length(req);
    return len != 0 && len <= SHORT_BODY && !ioh_req_header(req, "Expect").ptr;
}

/* Only set when there is a pool for them. */
static void on_classify(ioh_req *req, struct ioh_route *route, void *state)
{
    const struct demo *demo = state;
    struct ioh_str path = ioh_req_path(req);
    if (str_is(path, "/slow", 5) || str_is(path, "/burn", 5)) {
        route->exec = IOH_EXEC_POOL;
        route->pool = demo->slow;
    }
}

static void on_request(ioh_req *req, void *state)
{
    struct demo *demo = state;
    struct ioh_str path = ioh_req_path(req), method = ioh_req_method(req);

    /* first what is measured */
    if (str_is(path, "/ping", 5) && str_is(method, "GET", 3) && !ioh_req_content_length(req)) {
        answer(demo, req, demo->ping);
        return;
    }
    const struct route *route = find_route(path);
    unsigned bit = method_bit(method);
    if ((route && route->takes_body & bit) || !body_comes_first(req))
        dispatch(demo, req, route, bit);
}

static void on_body(ioh_req *req, const void *data, size_t len, void *state)
{
    struct work *work = ioh_req_user(req);
    if (work && work->kind == REFUSE)
        refuse_body(state, req);
    else if (work && work->kind == UPLOAD)
        upload_body(state, req, work, data, len);
    else if (work && work->kind == FORM)
        form_body(state, req, work->u.form, data, len);
}

static void on_request_end(ioh_req *req, void *state)
{
    struct work *work = ioh_req_user(req);
    if (work && work->kind == GATHER)
        gather_end(state, req);
    else if (work && work->kind == UPLOAD)
        upload_end(state, req, work);
    else if (work && work->kind == FORM)
        form_end(state, req, work->u.form);
    else if (!work)
        dispatch(state, req, find_route(ioh_req_path(req)), method_bit(ioh_req_method(req)));
}

static void on_complete(ioh_req *req, int status, uint64_t body_bytes_sent, void *state)
{
    struct demo *demo = state;
    struct work *work = ioh_req_user(req);
    if (demo->access)
        ioh_access_log_add(demo->access, req, status, body_bytes_sent);
    if (work == NULL)
        return;
    if (work->kind == UPLOAD)
        EVP_MD_CTX_free(work->u.upload.md);
    if (work->kind == FORM)
        form_free(work->u.form);
    if (work->kind == EVENTS)
        events_free(work);
    if (work->kind == STREAM && ioh_conn_user(ioh_req_conn(req)) == work)
        ioh_conn_set_user(ioh_req_conn(req), NULL); /* broken off: on_drain must not find it */
    ioh_req_set_user(req, NULL);
    free(work);
}

static void on_drain(ioh_conn *conn, void *state)
{
    struct work *work = ioh_conn_user(conn);
    if (work && work->kind == STREAM)
        stream_more(state, work);
}

#endif
