/* Compressed answers (options.compress): which ones, for whom, with which fields, whole and streamed. */
#include "support/common.h"

#include <zlib.h>

#define GZIP "Accept-Encoding: gzip\r\n"

/* ---- what a client does with it */

static void begin_inflate(z_stream *z)
{
    memset(z, 0, sizeof *z);
    assert_int_equal(inflateInit2(z, 15 + 16), Z_OK);
}

/* What these bytes give, at most room of it; *ended: the stream's end with its sum was among them. */
static size_t inflate_some(z_stream *z, const void *data, size_t len, void *to, size_t room,
                           bool *ended)
{
    z->next_in = (Bytef *)(uintptr_t)data;
    z->avail_in = (uInt)len;
    z->next_out = to;
    z->avail_out = (uInt)room;
    int rc = inflate(z, Z_SYNC_FLUSH);
    assert_true(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR);
    assert_int_equal(z->avail_in, 0);
    *ended = rc == Z_STREAM_END;
    return room - z->avail_out;
}

/* The last answer is gzip and holds the pattern, or the bytes. */
static void expect_inflated(const struct client *c, const void *want, size_t len)
{
    z_stream z;
    bool ended;
    uint8_t *out = malloc(len + 1);
    assert_non_null(out);
    assert_field(c, "Content-Encoding", "gzip");
    assert_field(c, "Vary", "Accept-Encoding");
    begin_inflate(&z);
    assert_int_equal(inflate_some(&z, c->body, c->body_len, out, len + 1, &ended), len);
    assert_true(ended);
    if (want)
        assert_memory_equal(out, want, len);
    else
        assert_true(is_pattern(out, len));
    inflateEnd(&z);
    free(out);
}

static void get(struct client *c, const char *path, const char *fields)
{
    client_request(c, "GET", path, fields);
    assert_int_equal(client_answer(c), 200);
}

static struct host *compressing_host(void **state)
{
    struct host *h = host_new(state);
    h->options.compress = " text/*, Application/JSON ,";
    return h;
}

/* ---- whole answers */

enum { LEN = 20000 };

static const struct ioh_header plain_fields[] = {{"Content-Type", "text/plain"},
                                                 {"ETag", "\"v1\""},
                                                 {"Accept-Ranges", "bytes"},
                                                 {"X-Last", "x"}};

static void answer_pattern(ioh_req *req, void *state)
{
    struct host *h = state;
    uint8_t *bytes = malloc(LEN);
    CHECK(h, bytes != NULL);
    for (size_t i = 0; i < LEN; i++)
        bytes[i] = pattern_at(i);
    if (path_is(req, "/buf"))
        CHECK(h, ioh_respond_buf(req, 200, plain_fields, 4, ioh_buf_copy(bytes, LEN)) == 0);
    else
        CHECK(h, ioh_respond(req, 200, plain_fields, 4, bytes, LEN) == 0);
    free(bytes);
}

static void a_whole_answer_is_compressed_for_who_takes_it(void **state)
{
    static const char *const paths[] = {"/", "/buf"};
    struct host *h = compressing_host(state);
    h->on.on_request = answer_pattern;
    host_start(h);
    struct client *c = client_open(h);
    for (size_t i = 0; i < 2; i++) {
        get(c, paths[i], GZIP);
        assert_true(c->body_len < LEN / 10);
        expect_inflated(c, NULL, LEN);
        assert_field(c, "ETag", "W/\"v1\"");
        assert_field(c, "X-Last", "x");
        assert_null(client_field(c, "Accept-Ranges"));
        size_t packed = c->body_len;

        get(c, paths[i], ""); /* a cache must know that there is another one */
        assert_field(c, "Vary", "Accept-Encoding");
        assert_null(client_field(c, "Content-Encoding"));
        assert_field(c, "ETag", "\"v1\"");
        assert_field(c, "Accept-Ranges", "bytes");
        assert_int_equal(c->body_len, LEN);
        assert_true(is_pattern(c->body, LEN));

        client_request(c, "HEAD", paths[i], GZIP); /* RFC 9110 9.3.2: the same fields */
        assert_int_equal(client_read(c, true), 200);
        assert_int_equal(atoi(client_field(c, "Content-Length")), packed);
        assert_field(c, "Content-Encoding", "gzip");
        assert_field(c, "ETag", "W/\"v1\"");
    }
    WAIT(h, h->completes == 6);
    client_close(c);
    host_end(h);
}

static const struct {
    const char *accept;
    bool gzip;
} accepts[] = {
    {"Accept-Encoding: gzip\r\n", true},
    {"Accept-Encoding: deflate, GZIP;q=0.1, br\r\n", true},
    {"Accept-Encoding: x-gzip\r\n", true},
    {"Accept-Encoding: *\r\n", true},
    {"Accept-Encoding: identity;q=0.5, *;q=0.9\r\n", true},
    {"Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n", true},
    {"Accept-Encoding: gzip;q=0\r\n", false},
    {"Accept-Encoding: gzip;q=0, *\r\n", false},
    {"Accept-Encoding: *;q=0\r\n", false},
    {"Accept-Encoding: br, deflate\r\n", false},
    {"Accept-Encoding: identity, gzip;q=0.5\r\n", false},
    {"Accept-Encoding:\r\n", false},
    {"Accept-Encoding: gzipped\r\n", false},
};

static void weights_are_heeded(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = answer_pattern;
    host_start(h);
    struct client *c = client_open(h);
    for (size_t i = 0; i < sizeof accepts / sizeof *accepts; i++) {
        get(c, "/", accepts[i].accept);
        if ((client_field(c, "Content-Encoding") != NULL) != accepts[i].gzip)
            fail_msg("%s", accepts[i].accept);
        assert_field(c, "Vary", "Accept-Encoding");
    }
    client_close(c);
    host_end(h);
}

/* ---- which answers */

static const struct {
    int status;
    size_t len;
    struct ioh_header fields[3];
    const char *coding, *vary;
} answers[] = {
    {200, 2000, {{"Content-Type", "text/html; charset=utf-8"}}, "gzip", "Accept-Encoding"},
    {200, 2000, {{"content-type", "application/json"}}, "gzip", "Accept-Encoding"},
    {404, 2000, {{"Content-Type", "TEXT/HTML"}}, "gzip", "Accept-Encoding"},
    {200, 1024, {{"Content-Type", "text/html"}}, "gzip", "Accept-Encoding"},
    {200, 1023, {{"Content-Type", "text/html"}}, NULL, NULL},
    {200, 2000, {{"Content-Type", "image/png"}}, NULL, NULL},
    {200, 2000, {{"Content-Type", "application/jsonp"}}, NULL, NULL},
    {200, 2000, {{"X-Type", "text/html"}}, NULL, NULL},
    {206, 2000, {{"Content-Type", "text/html"}}, NULL, NULL},
    {200, 2000, {{"Content-Type", "text/html"}, {"Content-Encoding", "br"}}, "br", NULL},
    {416, 2000, {{"Content-Type", "text/html"}, {"Content-Range", "bytes */9"}}, NULL, NULL},
    {200, 2000, {{"Content-Type", "text/html"}, {"Cache-Control", "a, NO-transform"}}, NULL, NULL},
    {200, 2000, {{"Content-Type", "text/html"}, {"Repr-Digest", "sha-256=:x:"}}, NULL, NULL},
    {200, 2000, {{"Content-Type", "text/html"}, {"content-digest", "x"}}, NULL, NULL},
    {200, 2000, {{"Content-Type", "text/html"}, {"Digest", "x"}}, NULL, NULL},
    {200, 2000, {{"Content-Type", "text/html"}, {"Content-MD5", "x"}}, NULL, NULL},
    {200,
     2000,
     {{"Content-Type", "text/html"}, {"Cache-Control", "no-store"}},
     "gzip",
     "Accept-Encoding"},
    {200,
     2000,
     {{"Content-Type", "text/html"}, {"Vary", "a, accept-encoding"}},
     "gzip",
     "a, accept-encoding"},
    {200, 2000, {{"Content-Type", "text/html"}, {"Vary", "*"}}, "gzip", "*"},
    {200, 2000, {{"Content-Type", "text/html"}, {"Vary", "Origin"}}, "gzip", "Origin"},
    {200, 2000, {{"Content-Type", "text/html"}, {"ETag", "W/\"v\""}}, "gzip", "Accept-Encoding"},
};

static void answer_of_number(ioh_req *req, void *state)
{
    struct host *h = state;
    static const char bytes[2000];
    struct ioh_str query = ioh_req_query(req);
    size_t i = (size_t)atoi(query.ptr), count = 0;
    while (count < 3 && answers[i].fields[count].name)
        count++;
    CHECK(h, ioh_respond(req, answers[i].status, answers[i].fields, count, bytes, answers[i].len) ==
                 0);
}

static void only_what_is_named_and_may_be_changed_is_compressed(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = answer_of_number;
    host_start(h);
    struct client *c = client_open(h);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        char path[16];
        snprintf(path, sizeof path, "/?%zu", i);
        client_request(c, "GET", path, GZIP);
        assert_int_equal(client_answer(c), answers[i].status);
        const char *coding = client_field(c, "Content-Encoding");
        if (answers[i].coding ? !coding || strcmp(coding, answers[i].coding) != 0 : coding != NULL)
            fail_msg("%zu: %s", i, coding ? coding : "(none)");
        if (!coding || strcmp(coding, "gzip") != 0)
            assert_int_equal(c->body_len, answers[i].len);
        const char *vary = client_field(c, "Vary");
        if (answers[i].vary ? !vary || strcmp(vary, answers[i].vary) != 0 : vary != NULL)
            fail_msg("%zu: %s", i, vary ? vary : "(none)");
        if (client_field(c, "ETag"))
            assert_field(c, "ETag", "W/\"v\"");
    }
    /* a host's own Vary stays beside ours */
    assert_non_null(strstr(c->head, "ETag"));
    client_request(c, "GET", "/?19", GZIP);
    client_answer(c);
    assert_non_null(strstr(c->head, "Vary: Origin\r\n"));
    assert_non_null(strstr(c->head, "Vary: Accept-Encoding\r\n"));
    client_close(c);
    host_end(h);
}

/* Random bytes, which no compression makes shorter. */
static void answer_noise(ioh_req *req, void *state)
{
    struct host *h = state;
    static uint8_t noise[5000];
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof noise; i++) {
        x = x * 1664525u + 1013904223u;
        noise[i] = (uint8_t)(x >> 24);
    }
    CHECK(h, ioh_respond(req, 200, plain_fields, 4, noise, sizeof noise) == 0);
}

static void what_would_not_become_shorter_stays_as_it_is(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = answer_noise;
    host_start(h);
    struct client *c = client_open(h);
    get(c, "/", GZIP);
    assert_null(client_field(c, "Content-Encoding"));
    assert_field(c, "Vary", "Accept-Encoding");
    assert_field(c, "ETag", "\"v1\"");
    assert_field(c, "Accept-Ranges", "bytes");
    assert_int_equal(c->body_len, 5000);
    client_close(c);
    host_end(h);
}

static void answer_shared(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_shared(req, h->data) == 0);
}

static void a_shared_answer_is_left_alone(void **state)
{
    static char bytes[5000];
    struct host *h = compressing_host(state);
    h->data = ioh_response_create(200, plain_fields, 1, bytes, sizeof bytes);
    assert_non_null(h->data);
    h->on.on_request = answer_shared;
    host_start(h);
    struct client *c = client_open(h);
    get(c, "/", GZIP);
    assert_null(client_field(c, "Content-Encoding"));
    assert_null(client_field(c, "Vary"));
    assert_int_equal(c->body_len, sizeof bytes);
    client_close(c);
    ioh_response_destroy(h->data);
    host_end(h);
}

static void without_the_option_nothing_is_compressed(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_pattern;
    host_start(h);
    struct client *c = client_open(h);
    get(c, "/", GZIP);
    assert_null(client_field(c, "Content-Encoding"));
    assert_null(client_field(c, "Vary"));
    assert_true(is_pattern(c->body, c->body_len));
    client_close(c);
    host_end(h);
}

static void a_small_minimum_and_each_level_work(void **state)
{
    for (uint32_t level = 1; level <= 9; level++) {
        struct host *h = compressing_host(state);
        h->options.compress = "*/*";
        h->options.compress_min = 1;
        h->options.compress_level = level;
        h->on.on_request = level == 1 ? answer_ok : answer_pattern;
        host_start(h);
        struct client *c = client_open(h);
        get(c, "/", GZIP);
        if (level > 1)
            expect_inflated(c, NULL, LEN);
        client_close(c);
        host_end(h);
    }
}

static void a_list_that_is_none_is_refused(void **state)
{
    static const char *const bad[] = {"text",          "text/", "/html", "text/html json",
                                      "text/html;q=1", ",",     " ",     "text/ht ml",
                                      "text//html"};
    struct ioh_handler handler = IOH_HANDLER_INIT;
    struct ioh_options options = IOH_OPTIONS_INIT;
    ioh_server *server;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options.compress = bad[i];
        assert_int_equal(ioh_server_create(&server, &handler, &options, NULL), IOH_EINVAL);
        assert_non_null(strstr(ioh_server_error(server), "options.compress"));
        ioh_server_destroy(server);
    }
    options.compress = "text/*,*/*,*,application/problem+json";
    options.compress_level = 10;
    assert_int_equal(ioh_server_create(&server, &handler, &options, NULL), IOH_EINVAL);
    assert_non_null(strstr(ioh_server_error(server), "compress_level"));
    ioh_server_destroy(server);
    options.compress_level = 9;
    assert_int_equal(ioh_server_create(&server, &handler, &options, NULL), 0);
    ioh_server_destroy(server);
    options.compress = "";
    assert_int_equal(ioh_server_create(&server, &handler, &options, NULL), 0);
    ioh_server_destroy(server);
}

/* ---- streamed answers */

static void stream_begin(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_str query = ioh_req_query(req);
    int64_t length = query.ptr ? atoll(query.ptr) : -1;
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 4, length) == 0);
}

static void stream_back(ioh_req *req, const void *data, size_t len, void *state)
{
    CHECK((struct host *)state, ioh_respond_data(req, data, len) >= 0);
}

static void stream_end(ioh_req *req, void *state)
{
    CHECK((struct host *)state, ioh_respond_end(req) >= 0);
}

static struct host *stream_host(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = stream_begin;
    h->on.on_body = stream_back;
    h->on.on_request_end = stream_end;
    host_start(h);
    return h;
}

static size_t read_chunk(struct client *c)
{
    char *end;
    size_t line = client_find(c, "\r\n");
    assert_true(line > 0);
    size_t size = strtoul((char *)c->in, &end, 16);
    client_drop(c, line);
    c->body_len = 0;
    assert_true(client_take_all(c, size + 2));
    c->body_len -= 2;
    return size;
}

/* What a peer sends comes back before it sends more: each piece is flushed. */
static void each_piece_can_be_read_when_it_comes(void **state)
{
    struct host *h = stream_host(state);
    struct client *c = client_open(h);
    z_stream z;
    bool ended;
    char text[80], out[200];
    begin_inflate(&z);
    client_send(c, "POST / HTTP/1.1\r\nHost: h\r\n" GZIP "Transfer-Encoding: chunked\r\n\r\n");
    client_forget(c);
    size_t head = client_find(c, "\r\n\r\n");
    assert_true(head > 0);
    client_drop(c, head);
    for (int i = 0; i < 20; i++) {
        int len = snprintf(text, sizeof text, "event number %d of many\n", i);
        char chunk[100];
        snprintf(chunk, sizeof chunk, "%x\r\n%s\r\n", (unsigned)len, text);
        client_send(c, chunk);
        size_t got = 0;
        while (got < (size_t)len) {
            size_t size = read_chunk(c);
            assert_true(size > 0);
            got += inflate_some(&z, c->body, size, out + got, sizeof out - got, &ended);
            assert_false(ended);
        }
        assert_int_equal(got, len);
        assert_memory_equal(out, text, got);
    }
    client_send(c, "0\r\n\r\n");
    size_t size = read_chunk(c);
    assert_int_equal(inflate_some(&z, c->body, size, out, sizeof out, &ended), 0);
    assert_true(ended);
    assert_int_equal(read_chunk(c), 0);
    inflateEnd(&z);
    client_close(c);
    host_end(h);
}

/* With a length known to the host, without, and for HTTP/1.0. */
static void a_stream_is_compressed_whatever_was_said_of_its_length(void **state)
{
    enum { STREAM = 300000 };
    static const char *const versions[] = {"1.1", "1.1", "1.0", "1.0"};
    struct host *h = stream_host(state);
    uint8_t *bytes = pattern(STREAM);
    for (size_t i = 0; i < 4; i++) {
        struct client *c = client_open(h);
        char head[300];
        snprintf(head, sizeof head,
                 "POST /%s HTTP/%s\r\nHost: h\r\n" GZIP "Content-Length: %d\r\n\r\n",
                 i % 2 ? "?300000" : "", versions[i], STREAM);
        client_send(c, head);
        client_write(c, bytes, STREAM);
        assert_int_equal(client_answer(c), 200);
        expect_inflated(c, NULL, STREAM);
        assert_field(c, "ETag", "W/\"v1\"");
        assert_int_equal(c->chunked, i < 2);
        assert_null(client_field(c, "Content-Length"));
        client_close(c);
    }
    free(bytes);
    WAIT(h, h->completes == 4);
    host_end(h);
}

static void stream_too_little(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 1, 2000) == 0);
    CHECK(h, ioh_respond_data(req, "abc", 3) >= 0);
    if (path_is(req, "/more")) {
        static const char rest[1998];
        CHECK(h, ioh_respond_data(req, rest, 1998) == IOH_ELENGTH);
        CHECK(h, ioh_respond_data(req, rest, 1997) >= 0);
        CHECK(h, ioh_respond_end(req) >= 0);
    } else if (path_is(req, "/less")) {
        CHECK(h, ioh_respond_end(req) == IOH_ELENGTH);
    }
}

static void the_announced_length_is_held_to_before_compression(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = stream_too_little;
    host_start(h);
    struct client *c = client_open(h);
    get(c, "/more", GZIP);
    char want[2000] = "abc";
    expect_inflated(c, want, 2000);
    client_request(c, "GET", "/less", GZIP);
    client_read(c, false);
    assert_false(c->whole);
    client_close(c);
    host_end(h);
}

static void stream_small(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 4, 3) == 0);
    CHECK(h, ioh_respond_data(req, "abc", 3) >= 0);
    CHECK(h, ioh_respond_end(req) >= 0);
}

static void a_short_stream_of_known_length_stays_plain(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = stream_small;
    host_start(h);
    struct client *c = client_open(h);
    get(c, "/", GZIP);
    assert_null(client_field(c, "Content-Encoding"));
    assert_field(c, "Content-Length", "3");
    assert_body(c, "abc");
    client_close(c);
    host_end(h);
}

static void stream_of_head(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 4, -1) == 0);
    CHECK(h, ioh_respond_data(req, "abc", 3) >= 0);
    CHECK(h, ioh_respond_end(req) >= 0);
}

static void a_streamed_answer_to_head_has_the_fields_and_no_body(void **state)
{
    struct host *h = compressing_host(state);
    h->on.on_request = stream_of_head;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 2; i++) {
        client_request(c, "HEAD", "/", GZIP);
        assert_int_equal(client_read(c, true), 200);
        assert_field(c, "Content-Encoding", "gzip");
        assert_field(c, "Transfer-Encoding", "chunked");
        get(c, "/", GZIP);
        expect_inflated(c, "abc", 3);
    }
    client_close(c);
    host_end(h);
}

/* ---- answers from elsewhere */

static void deferred_answers_are_compressed_too(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = compressing_host(state);
    uint8_t *bytes = pattern(LEN);
    h->on.on_request = park;
    h->data = &parked;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 4; i++) {
        bool gzip = i % 2 == 0;
        client_request(c, "GET", "/", gzip ? GZIP : "");
        WAIT(h, parked.count == i + 1);
        struct ioh_req_id id = parked.ids[i];
        if (i < 2) {
            assert_int_equal(ioh_reply(h->server, id, 200, plain_fields, 4, bytes, LEN), 0);
        } else {
            assert_int_equal(ioh_reply_start(h->server, id, 200, plain_fields, 4, -1), 0);
            assert_int_equal(ioh_reply_data(h->server, id, bytes, 100), 0);
            assert_int_equal(ioh_reply_data(h->server, id, bytes + 100, LEN - 100), 0);
            assert_int_equal(ioh_reply_end(h->server, id), 0);
        }
        assert_int_equal(client_answer(c), 200);
        assert_field(c, "Vary", "Accept-Encoding");
        if (gzip) {
            expect_inflated(c, NULL, LEN);
        } else {
            assert_null(client_field(c, "Content-Encoding"));
            assert_true(c->body_len == LEN && is_pattern(c->body, LEN));
        }
    }
    free(bytes);
    client_close(c);
    host_end(h);
}

/* A stream that came too late, or whose peer has left, is given back: the server's end checks it. */
static void what_is_not_sent_is_given_back(void **state)
{
    struct parked parked = {.count = 0};
    struct host *h = compressing_host(state);
    h->on.on_request = park;
    h->data = &parked;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", GZIP);
    WAIT(h, parked.count == 1);
    struct ioh_req_id id = parked.ids[0];
    assert_int_equal(ioh_reply_start(h->server, id, 200, plain_fields, 4, -1), 0);
    assert_int_equal(ioh_reply_start(h->server, id, 200, plain_fields, 4, -1), 0); /* dropped */
    assert_int_equal(ioh_reply_data(h->server, id, "abc", 3), 0);
    client_forget(c);
    assert_true(client_find(c, "\r\n\r\n") > 0);
    client_abort(c);
    WAIT(h, h->closes == 1);
    int rc = ioh_reply_start(h->server, id, 200, plain_fields, 4, -1);
    assert_int_equal(rc, gone_answer(h));
    host_end(h);
}

static void stream_and_wait(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_respond_start(req, 200, plain_fields, 1, -1) == 0);
    CHECK(h, ioh_respond_data(req, "first", 5) >= 0);
    park(req, state);
}

/* Streams of zlib's are large, so there is a limit; beyond it answers stay plain, and they come back. */
static void so_many_streams_at_a_time_are_compressed(void **state)
{
    enum { CLIENTS = 130, PACKED = 120 };
    struct parked parked = {.count = 0};
    struct client *clients[CLIENTS];
    struct host *h = compressing_host(state);
    h->on.on_request = stream_and_wait;
    h->data = &parked;
    host_start(h);
    for (int round = 0; round < 2; round++) {
        int packed = 0;
        for (int i = 0; i < CLIENTS; i++) {
            clients[i] = client_open(h);
            client_request(clients[i], "GET", "/", GZIP);
            client_forget(clients[i]);
            WAIT(h, parked.count == round * CLIENTS + i + 1);
        }
        for (int i = 0; i < CLIENTS; i++)
            assert_int_equal(ioh_reply_end(h->server, parked.ids[round * CLIENTS + i]), 0);
        for (int i = 0; i < CLIENTS; i++) {
            assert_int_equal(client_answer(clients[i]), 200);
            if (client_field(clients[i], "Content-Encoding")) {
                expect_inflated(clients[i], "first", 5);
                packed++;
            } else {
                assert_body(clients[i], "first");
                assert_field(clients[i], "Vary", "Accept-Encoding");
            }
            client_close(clients[i]);
        }
        assert_int_equal(packed, PACKED);
        WAIT(h, h->closes == (round + 1) * CLIENTS);
    }
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(a_whole_answer_is_compressed_for_who_takes_it),
    HOST_TEST_IN(weights_are_heeded, IN_INLINE | IN_POOL),
    HOST_TEST_IN(only_what_is_named_and_may_be_changed_is_compressed, IN_INLINE | IN_POOL),
    HOST_TEST_IN(what_would_not_become_shorter_stays_as_it_is, IN_INLINE | IN_POOL),
    HOST_TEST_IN(a_shared_answer_is_left_alone, IN_INLINE | IN_POOL),
    HOST_TEST_ONCE(without_the_option_nothing_is_compressed),
    HOST_TEST_ONCE(a_small_minimum_and_each_level_work),
    HOST_TEST_ONCE(a_list_that_is_none_is_refused),
    HOST_TEST(each_piece_can_be_read_when_it_comes),
    HOST_TEST(a_stream_is_compressed_whatever_was_said_of_its_length),
    HOST_TEST(the_announced_length_is_held_to_before_compression),
    HOST_TEST_IN(a_short_stream_of_known_length_stays_plain, IN_INLINE | IN_POOL),
    HOST_TEST(a_streamed_answer_to_head_has_the_fields_and_no_body),
    HOST_TEST(deferred_answers_are_compressed_too),
    HOST_TEST(what_is_not_sent_is_given_back),
    HOST_TEST_IN(so_many_streams_at_a_time_are_compressed, IN_INLINE | IN_POOL | IN_THREADS),
};

HOST_MAIN(tests)
