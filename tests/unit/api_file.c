/* ioh_send_file(), ioh_req_path_decode(): what is refused, what each option does, large files and the queue. */
#include "support/common.h"

#include "support/folder.h"

#define LARGE 3000000u

/* ---- a folder */

static void make_folder(void)
{
    folder_make();
    uint8_t *large = pattern(LARGE);
    folder_write("large.bin", large, LARGE);
    free(large);
    folder_text("a.txt", "a text");
    folder_text("a.txt.gz", "zipped");
    folder_text("index.html", "the index");
    folder_text("home.html", "at home");
    assert_int_equal(mkdirat(dir, "sub", 0755), 0);
    folder_text("sub/index.html", "below");
    folder_text(".dotted", "dotted");
    assert_int_equal(symlinkat("a.txt", dir, "inside"), 0);
    assert_int_equal(symlinkat("/etc/hostname", dir, "outside"), 0);
}

/* ---- what a test has answered */

/* on_request: the path beneath the folder, with host->data as options. */
static void send_path(ioh_req *req, void *state)
{
    struct host *h = state;
    char path[1000];
    CHECK(h, ioh_req_path_decode(req, "", path, sizeof path) > 0);
    CHECK(h, ioh_send_file(req, dir, path, h->data) >= 0);
}

static struct host *file_host(void **state, struct ioh_file_options *options)
{
    struct host *h = host_new(state);
    h->on.on_request = send_path;
    h->data = options;
    host_start(h);
    return h;
}

static int get(struct client *c, const char *path, const char *fields)
{
    client_request(c, "GET", path, fields);
    return client_answer(c);
}

static void assert_large(struct client *c)
{
    assert_int_equal(c->body_len, LARGE);
    assert_true(is_pattern(c->body, LARGE));
}

static void files_are_sent_without_options(void **state)
{
    struct host *h = file_host(state, NULL);
    struct client *c = client_open(h);
    assert_int_equal(get(c, "/a.txt", "Accept-Encoding: gzip\r\n"), 200);
    assert_body(c, "a text");
    assert_string_equal(client_field(c, "Content-Type"), "text/plain; charset=utf-8");
    assert_string_equal(client_field(c, "Last-Modified"), "Sun, 09 Sep 2001 01:46:40 GMT");
    assert_null(client_field(c, "Vary"));
    assert_null(client_field(c, "Cache-Control"));
    assert_int_equal(get(c, "/large.bin", ""), 200);
    assert_large(c);
    assert_int_equal(get(c, "/", ""), 200);
    assert_body(c, "the index");
    assert_int_equal(get(c, "/sub/", ""), 200);
    assert_body(c, "below");
    assert_int_equal(get(c, "/sub", ""), 301);
    assert_string_equal(client_field(c, "Location"), "/sub/");
    assert_int_equal(get(c, "/nothing", ""), 404);
    client_request(c, "POST", "/a.txt", "Content-Length: 0\r\n");
    assert_int_equal(client_answer(c), 405);
    assert_string_equal(client_field(c, "Allow"), "GET, HEAD");
    client_close(c);
    host_end(h);
}

/* RFC 3986 4.2: "//sub/" would be the root of a host named sub. */
static void a_redirect_never_names_another_host(void **state)
{
    struct host *h = file_host(state, NULL);
    struct client *c = client_open(h);
    assert_int_equal(get(c, "//sub", ""), 301);
    assert_string_equal(client_field(c, "Location"), "/sub/");
    assert_int_equal(get(c, "////sub?//x", ""), 301);
    assert_string_equal(client_field(c, "Location"), "/sub/?//x");
    client_close(c);
    host_end(h);
}

static void each_option_does_what_it_says(void **state)
{
    static const struct ioh_mime types[] = {{"txt", "text/x-own"}, {NULL, NULL}};
    static const struct ioh_header fields[] = {{"X-One", "1"}, {"X-Two", "2"}};
    struct ioh_file_options o = IOH_FILE_OPTIONS_INIT;
    o.index = "home.html";
    o.types = types;
    o.cache_control = "max-age=60";
    o.headers = fields;
    o.header_count = 2;
    o.precompressed = IOH_FILE_GZIP;
    o.dot_files = IOH_DOT_FILES_SEND;
    o.symlinks = IOH_SYMLINKS_NONE;
    struct host *h = file_host(state, &o);
    struct client *c = client_open(h);
    assert_int_equal(get(c, "/", ""), 200);
    assert_body(c, "at home");
    assert_int_equal(get(c, "/a.txt", "Accept-Encoding: gzip\r\n"), 200);
    assert_body(c, "zipped");
    assert_string_equal(client_field(c, "Content-Encoding"), "gzip");
    assert_string_equal(client_field(c, "Content-Type"), "text/x-own");
    assert_string_equal(client_field(c, "Cache-Control"), "max-age=60");
    assert_string_equal(client_field(c, "Vary"), "Accept-Encoding");
    assert_string_equal(client_field(c, "X-One"), "1");
    assert_int_equal(get(c, "/a.txt", "If-None-Match: *\r\n"), 304);
    assert_string_equal(client_field(c, "X-Two"), "2");
    assert_int_equal(get(c, "/a.txt", "Range: bytes=0-0\r\n"), 206);
    assert_string_equal(client_field(c, "X-Two"), "2");
    assert_int_equal(get(c, "/.dotted", ""), 200);
    assert_body(c, "dotted");
    assert_int_equal(get(c, "/inside", ""), 404);
    client_close(c);
    host_end(h);
}

static void other_values_do_the_opposite(void **state)
{
    struct ioh_file_options o = IOH_FILE_OPTIONS_INIT;
    o.index = "";
    o.content_type = "x/y";
    o.precompressed = IOH_FILE_BR | IOH_FILE_ZSTD;
    o.symlinks = IOH_SYMLINKS_ALL;
    struct host *h = file_host(state, &o);
    struct client *c = client_open(h);
    assert_int_equal(get(c, "/", ""), 404);
    assert_int_equal(get(c, "/sub", ""), 404);
    assert_int_equal(get(c, "/a.txt", "Accept-Encoding: gzip, br, zstd\r\n"), 200);
    assert_body(c, "a text");
    assert_string_equal(client_field(c, "Content-Type"), "x/y");
    assert_int_equal(get(c, "/outside", ""), access("/etc/hostname", R_OK) == 0 ? 200 : 404);
    assert_int_equal(get(c, "/inside", ""), 200);
    assert_int_equal(get(c, "/.dotted", ""), 404);
    client_close(c);
    host_end(h);
}

/* ---- what is refused */

#define TRY(h, error, ...) CHECK(h, ioh_send_file(req, __VA_ARGS__) == (error))

static void refuse_all(ioh_req *req, void *state)
{
    struct host *h = state;
    const struct ioh_header bad[] = {{"X", "a\r\nb"}}, own[] = {{"Content-Length", "1"}};
    struct ioh_file_options good = IOH_FILE_OPTIONS_INIT, o;
    char out[8];
    TRY(h, IOH_EINVAL, -1, "a.txt", NULL);
    TRY(h, IOH_EINVAL, AT_FDCWD, "a.txt", NULL);
    TRY(h, IOH_EINVAL, dir, NULL, NULL);
    o = good, o.size = 8;
    TRY(h, IOH_EVERSION, dir, "a.txt", &o);
    o = good, o.precompressed = 8;
    TRY(h, IOH_EINVAL, dir, "a.txt", &o);
    o = good, o.precompressed = -1;
    TRY(h, IOH_EINVAL, dir, "a.txt", &o);
    o = good, o.dot_files = 2;
    TRY(h, IOH_EINVAL, dir, "a.txt", &o);
    o = good, o.dot_files = -1;
    TRY(h, IOH_EINVAL, dir, "a.txt", &o);
    o = good, o.symlinks = 3;
    TRY(h, IOH_EINVAL, dir, "a.txt", &o);
    o = good, o.symlinks = -1;
    TRY(h, IOH_EINVAL, dir, "a.txt", &o);
    o = good, o.header_count = 1;
    TRY(h, IOH_EINVAL, dir, "a.txt", &o);
    o = good, o.headers = bad, o.header_count = 65;
    TRY(h, IOH_EINVAL, dir, "a.txt", &o);
    o = good, o.headers = bad, o.header_count = 1;
    TRY(h, IOH_EHEADER, dir, "nothing", &o); /* whether the file is there or not */
    o = good, o.headers = own, o.header_count = 1;
    TRY(h, IOH_EHEADER, dir, "a.txt", &o);
    o = good, o.content_type = "a\nb";
    TRY(h, IOH_EHEADER, dir, "a.txt", &o);
    o = good, o.cache_control = "a\rb";
    TRY(h, IOH_EHEADER, dir, "a.txt", &o);
    const struct ioh_mime types[] = {{"txt", "a\nb"}, {NULL, NULL}};
    o = good, o.types = types;
    TRY(h, IOH_EHEADER, dir, "a.txt", &o);

    CHECK(h, ioh_req_path_decode(req, "/b", out, sizeof out) == IOH_EINVAL);
    CHECK(h, ioh_req_path_decode(req, "", out, 3) == IOH_ETOOBIG);
    CHECK(h, ioh_req_path_decode(req, "/a", out, sizeof out) == 5 && strcmp(out, "/b c%") == 0);

    TRY(h, 0, dir, "a.txt", &good);
    TRY(h, IOH_EDONE, dir, "a.txt", &good);
}

static void bad_calls_are_refused_and_a_good_one_may_follow(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = refuse_all;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client_get(c, "/a/b%20c%25"), 200);
        assert_body(c, "a text");
    }
    client_close(c);
    host_end(h);
}

static void close_first(ioh_req *req, void *state)
{
    struct host *h = state;
    ioh_close(ioh_req_conn(req));
    TRY(h, IOH_EGONE, dir, "a.txt", NULL);
}

static void a_closing_connection_gets_no_file(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = close_first;
    host_start(h);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "");
    client_expect_end(c);
    client_close(c);
    host_end(h);
}

/* ---- large files and the queue */

static atomic_int drains;

static void count_drain(ioh_conn *conn, void *state)
{
    (void)conn;
    (void)state;
    atomic_fetch_add(&drains, 1);
}

/* send_max is about memory, which a file in the queue does not take; it does count as queued. */
static void send_large(ioh_req *req, void *state)
{
    struct host *h = state;
    ioh_conn *conn = ioh_req_conn(req);
    CHECK(h, ioh_send_file(req, dir, "large.bin", NULL) == IOH_QUEUED);
    if (host_is_direct(h))
        CHECK(h, ioh_conn_queued(conn) > LARGE);
}

static void a_file_beyond_send_max_is_sent(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = send_large;
    h->on.on_drain = count_drain;
    h->options.send_high = 10000;
    h->options.send_max = 100000;
    drains = 0;
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(client_get(c, "/"), 200);
        assert_large(c);
        WAIT(h, drains == i);
    }
    client_close(c);
    host_end(h);
}

static void wait_for_it(ioh_req *req, void *state)
{
    struct host *h = state;
    CHECK(h, ioh_send_file(req, dir, "large.bin", NULL) == IOH_QUEUED);
    CHECK(h, ioh_wait_sent(ioh_req_conn(req), PATIENCE_MS) == 0);
    CHECK(h, ioh_conn_queued(ioh_req_conn(req)) <= h->options.send_low);
}

static void a_callback_may_wait_until_its_file_is_sent(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = wait_for_it;
    h->options.send_low = 65536;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/"), 200);
    assert_large(c);
    client_close(c);
    host_end(h);
}

static void head_of_a_large_file_queues_next_to_nothing(void **state)
{
    struct host *h = file_host(state, NULL);
    struct client *c = client_open(h);
    client_request(c, "HEAD", "/large.bin", "");
    assert_int_equal(client_read(c, true), 200);
    assert_string_equal(client_field(c, "Content-Length"), "3000000");
    assert_int_equal(get(c, "/a.txt", ""), 200);
    client_close(c);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(files_are_sent_without_options),
    HOST_TEST(a_redirect_never_names_another_host),
    HOST_TEST(each_option_does_what_it_says),
    HOST_TEST(other_values_do_the_opposite),
    HOST_TEST(bad_calls_are_refused_and_a_good_one_may_follow),
    HOST_TEST(a_closing_connection_gets_no_file),
    HOST_TEST(a_file_beyond_send_max_is_sent),
    HOST_TEST_IN(a_callback_may_wait_until_its_file_is_sent, IN_WAITING | IN_THREADS),
    HOST_TEST(head_of_a_large_file_queues_next_to_nothing),
};

int main(int argc, char **argv)
{
    make_folder();
    return host_run_tests(__FILE__, tests, sizeof tests / sizeof *tests, argc, argv);
}
