/* The access log: its lines, and that nobody waits for its file. */
#include <fcntl.h>
#include <iohandler/access_log.h>
#include <sys/stat.h>

#include "support/common.h"

static char folder[] = "/tmp/ioh-access-XXXXXX";
static char path[64];
static ioh_access_log *log_file;

static void add_line(ioh_req *req, int status, uint64_t bytes, void *state)
{
    (void)state;
    ioh_access_log_add(log_file, req, status, bytes);
}

static struct host *logging_host(void **state, int32_t format, uint32_t buffer_bytes)
{
    struct ioh_access_log_options o = IOH_ACCESS_LOG_OPTIONS_INIT;
    struct host *h = host_new(state);
    o.path = path;
    o.format = format;
    o.buffer_bytes = buffer_bytes;
    o.flush_ms = 1;
    assert_int_equal(ioh_access_log_open(&log_file, &o), 0);
    h->on.on_request = answer_ok;
    h->on.on_complete = add_line;
    h->options.timings = 1;
    host_start(h);
    return h;
}

static char text[200000];

static void read_log(const char *from)
{
    int fd = open(from, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, text, sizeof text - 1);
    assert_true(n >= 0);
    text[n] = '\0';
    close(fd);
}

/* What the log holds after its end; the file goes. */
static void end_and_read(struct host *h)
{
    client_close_all();
    host_end(h);
    ioh_access_log_close(log_file);
    read_log(path);
    unlink(path);
}

static size_t count_of(const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static const char *skip_to(const char *at, const char *what)
{
    const char *found = strstr(at, what);
    if (!found)
        fail_msg("no %s in %s", what, text);
    return found + strlen(what);
}

#define assert_starts(at, what) assert_memory_equal(at, what, strlen(what))

static void common_lines_are_as_every_reader_knows_them(void **state)
{
    struct host *h = logging_host(state, IOH_ACCESS_COMMON, 0);
    struct client *c = client_open(h);
    bool tcp = !h->config->unix_socket;
    assert_int_equal(client_get(c, "/a?b=c"), 200);
    client_request(c, "HEAD", "/", "");
    assert_int_equal(client_read(c, true), 200);
    end_and_read(h);
    int day, year, hour, minute, second, end = 0;
    char month[4];
    const char *line = text;
    assert_starts(line, tcp ? "127.0.0.1 - - [" : "unix - - [");
    line = skip_to(line, "[");
    assert_int_equal(sscanf(line, "%2d/%3[A-Za-z]/%4d:%2d:%2d:%2d +0000] %n", &day, month, &year,
                            &hour, &minute, &second, &end),
                     6);
    assert_true(end > 0 && year > 2000);
    line += end;
    assert_starts(line, "\"GET /a?b=c HTTP/1.1\" 200 2\n");
    line = skip_to(line, "] ");
    assert_string_equal(line, "\"HEAD / HTTP/1.1\" 200 -\n");
}

static void combined_lines_say_who_and_whence_and_stay_one_line(void **state)
{
    struct host *h = logging_host(state, IOH_ACCESS_COMBINED, 0);
    struct client *c = client_open(h);
    client_request(c, "GET", "/", "Referer: http://a/\"b\\\tc\x80\r\n");
    assert_int_equal(client_answer(c), 200);
    client_send(c, "GET /old HTTP/1.0\r\nUser-Agent: x (y)\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    end_and_read(h);
    const char *line = skip_to(text, "\"GET / HTTP/1.1\" 200 2 ");
    assert_starts(line, "\"http://a/\\x22b\\x5c\\x09c\\x80\" \"-\"\n");
    line = skip_to(line, "\"GET /old HTTP/1.0\" 200 2 ");
    assert_string_equal(line, "\"-\" \"x (y)\"\n");
}

static void json_lines_are_json_and_tell_the_times(void **state)
{
    struct host *h = logging_host(state, IOH_ACCESS_JSON, 0);
    struct client *c = client_open(h);
    client_request(c, "GET", "/x", "User-Agent: \"\\\t\xc3\xa4\r\nReferer: \xff\r\n");
    assert_int_equal(client_answer(c), 200);
    end_and_read(h);
    assert_starts(text, "{\"time\":\"2");
    const char *line = skip_to(text, "Z\",\"peer\":\"");
    line =
        skip_to(line, "\",\"method\":\"GET\",\"target\":\"/x\",\"version\":\"1.1\",\"status\":200,"
                      "\"bytes\":2,\"queued_us\":");
    line = skip_to(line, ",\"handler_us\":");
    line = skip_to(line, ",\"first_byte_us\":");
    line = skip_to(line, ",\"last_byte_us\":");
    line = skip_to(line, ",\"referer\":\"\\u00ff\",\"user_agent\":\"\\\"\\\\\\u0009\xc3\xa4\"}\n");
    assert_string_equal(line, "");
}

static void a_long_field_is_cut_and_the_rest_is_there(void **state)
{
    struct host *h = logging_host(state, IOH_ACCESS_COMBINED, 0);
    struct client *c = client_open(h);
    char request[12000];
    int n = snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: x\r\nReferer: ");
    memset(request + n, 0x80, 4000); /* four bytes of log each */
    n += 4000;
    n += snprintf(request + n, sizeof request - (size_t)n, "\r\nUser-Agent: ");
    memset(request + n, 'u', 6000);
    n += 6000;
    snprintf(request + n, sizeof request - (size_t)n, "\r\n\r\n");
    client_send(c, request);
    assert_int_equal(client_answer(c), 200);
    end_and_read(h);
    assert_true(strlen(text) < 8192);
    skip_to(text, "\"GET / HTTP/1.1\" 200 2 \"\\x80\\x80");
    assert_int_equal(text[strlen(text) - 2], '"');
    assert_int_equal(count_of("\n"), 1);
}

static void every_request_of_many_connections_has_its_line(void **state)
{
    struct host *h = logging_host(state, IOH_ACCESS_COMMON, 0);
    struct client *c[4];
    for (int i = 0; i < 4; i++)
        c[i] = client_open(h);
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < 4; i++)
            client_request(c[i], "GET", "/", "");
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < 4; i++)
            assert_int_equal(client_answer(c[i]), 200);
    assert_int_equal(ioh_access_log_dropped(log_file), 0);
    end_and_read(h);
    assert_int_equal(count_of("\"GET / HTTP/1.1\" 200 2\n"), 200);
}

static void reopening_goes_on_in_a_new_file(void **state)
{
    struct host *h = logging_host(state, IOH_ACCESS_COMMON, 0);
    struct client *c = client_open(h);
    char old[80];
    snprintf(old, sizeof old, "%s.1", path);
    assert_int_equal(client_get(c, "/before"), 200);
    WAIT(h, (read_log(path), count_of("/before") == 1));
    assert_int_equal(rename(path, old), 0);
    ioh_access_log_reopen(log_file);
    assert_int_equal(client_get(c, "/after"), 200);
    end_and_read(h);
    assert_int_equal(count_of("/after"), 1);
    read_log(old);
    unlink(old);
    assert_int_equal(count_of("\n"), 1);
    assert_int_equal(count_of("/before"), 1);
}

/* A pipe whose reader does not read is a disk that hangs. */
static void a_file_that_hangs_costs_lines_and_nobodys_time(void **state)
{
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    struct host *h = logging_host(state, IOH_ACCESS_COMMON, 16384);
    struct client *c = client_open(h);
    for (int i = 0; ioh_access_log_dropped(log_file) == 0; i++) {
        assert_true(i < 10000);
        assert_int_equal(client_get(c, "/0123456789012345678901234567890123456789"), 200);
    }
    assert_int_equal(client_get(c, "/"), 200);
    close(reader); /* what waits is lost with it, and counted */
    client_close_all();
    host_end(h);
    uint64_t dropped = ioh_access_log_dropped(log_file);
    ioh_access_log_close(log_file);
    assert_true(dropped > 0);
    unlink(path);
}

static void what_cannot_be_opened_is_refused(void **state)
{
    (void)state;
    struct ioh_access_log_options o = IOH_ACCESS_LOG_OPTIONS_INIT;
    ioh_access_log *log = (ioh_access_log *)(void *)text;
    assert_int_equal(ioh_access_log_open(&log, &o), IOH_EINVAL);
    assert_null(log);
    o.path = "/nonexistent/log";
    assert_int_equal(ioh_access_log_open(&log, &o), IOH_ESYS);
    assert_int_equal(errno, ENOENT);
    assert_null(log);
    o.path = path;
    o.format = 3;
    assert_int_equal(ioh_access_log_open(&log, &o), IOH_EINVAL);
    o.format = 0;
    o.buffer_bytes = 16383;
    assert_int_equal(ioh_access_log_open(&log, &o), IOH_EINVAL);
    o.size--;
    assert_int_equal(ioh_access_log_open(&log, &o), IOH_EVERSION);
    ioh_access_log_close(NULL);
}

static void format_by_hand(ioh_req *req, int status, uint64_t bytes, void *state)
{
    struct host *h = state;
    char line[1024];
    int len = ioh_access_log_format(req, status, bytes, IOH_ACCESS_COMMON, line, sizeof line);
    CHECK(h,
          len > 0 && (size_t)len == strlen(line) && strstr(line, "\"GET /hand HTTP/1.1\" 200 2"));
    CHECK(h,
          ioh_access_log_format(req, status, bytes, IOH_ACCESS_COMMON, line, 1023) == IOH_EINVAL);
    CHECK(h, ioh_access_log_format(req, status, bytes, 3, line, sizeof line) == IOH_EINVAL);
}

static void a_host_may_log_by_itself(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = answer_ok;
    h->on.on_complete = format_by_hand;
    host_start(h);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/hand"), 200);
    WAIT(h, h->completes == 1);
    client_close_all();
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(common_lines_are_as_every_reader_knows_them),
    HOST_TEST_ONCE(combined_lines_say_who_and_whence_and_stay_one_line),
    HOST_TEST_IN(json_lines_are_json_and_tell_the_times, IN_TCP),
    HOST_TEST_ONCE(a_long_field_is_cut_and_the_rest_is_there),
    HOST_TEST(every_request_of_many_connections_has_its_line),
    HOST_TEST_ONCE(reopening_goes_on_in_a_new_file),
    HOST_TEST_IN(a_file_that_hangs_costs_lines_and_nobodys_time, IN_TCP),
    HOST_TEST_ONCE(what_cannot_be_opened_is_refused),
    HOST_TEST_IN(a_host_may_log_by_itself, IN_TCP),
};

int main(int argc, char **argv)
{
    snprintf(path, sizeof path, "%s/log", mkdtemp(folder));
    int rc = host_run_tests(__FILE__, tests, sizeof tests / sizeof *tests, argc, argv);
    return rmdir(folder) || rc;
}
