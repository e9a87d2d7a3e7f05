/* Compressed answers (options.compress): which ones, for whom, with which fields. Those that are streamed are in
 * api_compress_stream.c. */
#include "support/gzip.h"

enum { LEN = 20000 };

/* ---- whole answers */

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
    {205,
     2000,
     {{"Content-Type", "text/html"}},
     NULL,
     NULL}, /* it has no body, says RFC 9110 15.3.6 */
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
            assert_int_equal(c->body_len, answers[i].status == 205 ? 0 : answers[i].len);
        const char *vary = client_field(c, "Vary");
        if (answers[i].vary ? !vary || strcmp(vary, answers[i].vary) != 0 : vary != NULL)
            fail_msg("%zu: %s", i, vary ? vary : "(none)");
        if (client_field(c, "ETag"))
            assert_field(c, "ETag", "W/\"v\"");
    }
    /* a host's own Vary stays beside ours */
    assert_non_null(strstr(c->head, "ETag"));
    client_request(c, "GET", "/?20", GZIP);
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

static const struct host_test tests[] = {
    HOST_TEST(a_whole_answer_is_compressed_for_who_takes_it),
    HOST_TEST_IN(weights_are_heeded, IN_INLINE | IN_POOL),
    HOST_TEST_IN(only_what_is_named_and_may_be_changed_is_compressed, IN_INLINE | IN_POOL),
    HOST_TEST_IN(what_would_not_become_shorter_stays_as_it_is, IN_INLINE | IN_POOL),
    HOST_TEST_IN(a_shared_answer_is_left_alone, IN_INLINE | IN_POOL),
    HOST_TEST_ONCE(without_the_option_nothing_is_compressed),
    HOST_TEST_ONCE(a_small_minimum_and_each_level_work),
    HOST_TEST_ONCE(a_list_that_is_none_is_refused),
};

HOST_MAIN(tests)
