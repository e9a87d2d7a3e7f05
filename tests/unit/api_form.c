/* Queries, cookies and forms as a host reads them in its callbacks. */
#include "support/common.h"

/* ---- queries and cookies */

static void look_at_query(ioh_req *req, void *state)
{
    struct host *h = state;
    char out[32];
    struct ioh_str query = ioh_req_query(req);
    CHECK(h,
          ioh_pair_get(query, "name", 0, out, sizeof out) == 5 && strcmp(out, "J\xc3\xb6 S") == 0);
    CHECK(h, ioh_pair_get(query, "x", 1, out, sizeof out) == 1 && out[0] == '2');
    CHECK(h, ioh_pair_get(query, "x", 2, out, sizeof out) == IOH_ENOENT);
    CHECK(h, ioh_media_type_is(ioh_req_header(req, "Content-Type"), "text/plain"));
    CHECK(h, !ioh_media_type_is(ioh_req_header(req, "Accept"), "*"));
    answer_ok(req, state);
}

static void a_query_is_read_by_name(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = look_at_query;
    host_start(h);
    struct client *c = client_open(h);
    client_send(c, "GET /?x=1&name=J%C3%B6+S&x=2 HTTP/1.1\r\nHost: h\r\n"
                   "Content-Type: text/plain;charset=utf-8\r\n\r\n");
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

static void look_at_cookies(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_cookies it;
    struct ioh_str name, value;
    char seen[256];
    size_t len = 0;
    ioh_cookies_init(&it, req);
    while (ioh_cookies_next(&it, &name, &value))
        len += (size_t)snprintf(seen + len, sizeof seen - len, "[%.*s|%.*s]", (int)name.len,
                                name.ptr, (int)value.len, value.ptr);
    seen[len] = '\0';
    CHECK(h, !ioh_cookies_next(&it, &name, &value));
    CHECK(h, str_is(ioh_req_cookie(req, "a"), "1") == (strstr(seen, "[a|1]") != NULL));
    CHECK(h, ioh_req_cookie(req, "A").ptr == NULL);
    CHECK(h, ioh_req_cookie(req, "aa").ptr == NULL);
    CHECK(h, ioh_respond(req, 200, NULL, 0, seen, len) == 0);
}

static const struct {
    const char *fields, *seen;
} cookies[] = {
    {"", ""},
    {"Cookie:\r\n", ""},
    {"Cookie: a=1\r\n", "[a|1]"},
    {"Cookie: a=1; b=2;c=3 ;  a=4\r\n", "[a|1][b|2][c|3][a|4]"},
    {"Cookie: x=y\r\nX-Other: a=2\r\ncookie: a=1\r\nCOOKIE: z=\r\n", "[x|y][a|1][z|]"},
    {"Cookie: ; ;; a=1;\r\n", "[a|1]"},
    {"Cookie: a=1=2; nameless; =empty; b=\"q\"\r\n", "[a|1=2][|nameless][|empty][b|\"q\"]"},
    {"Cookie: q=\"x; a=1; y\"\r\n", "[q|\"x][a|1][|y\"]"}, /* quotes part nothing */
    {"Cookie: a=1,b=2\r\n", "[a|1,b=2]"},
    {"Cookie: a = 1\r\n", "[a|1]"},
    {"Cookie2: a=1\r\n", ""},
};

static void cookies_are_read_in_order_from_all_fields(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = look_at_cookies;
    host_start(h);
    struct client *c = client_open(h);
    for (size_t i = 0; i < sizeof cookies / sizeof *cookies; i++) {
        char request[300];
        snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", cookies[i].fields);
        client_send(c, request);
        assert_int_equal(client_answer(c), 200);
        assert_string_equal((char *)c->body, cookies[i].seen);
    }
    client_close(c);
    host_end(h);
}

/* ---- forms */

struct form {
    ioh_multipart *reader;
    size_t parts, ended, bytes;
    bool is_pattern;
};

static int form_part(const struct ioh_part *part, void *user)
{
    struct form *f = user;
    f->parts++;
    f->is_pattern = f->is_pattern && str_is(part->name, "f") && str_is(part->filename, "x.bin");
    return 0;
}

static int form_data(const struct ioh_part *part, const void *data, size_t len, void *user)
{
    struct form *f = user;
    const uint8_t *bytes = data;
    (void)part;
    for (size_t i = 0; i < len; i++)
        f->is_pattern = f->is_pattern && bytes[i] == pattern_at(f->bytes + i);
    f->bytes += len;
    return 0;
}

static int form_part_end(const struct ioh_part *part, void *user)
{
    struct form *f = user;
    f->ended += str_is(part->name, "f");
    return 0;
}

static void form_begin(ioh_req *req, void *state)
{
    struct host *h = state;
    struct ioh_multipart_handler on = IOH_MULTIPART_HANDLER_INIT;
    on.on_part = form_part;
    on.on_data = form_data;
    on.on_part_end = form_part_end;
    struct form *f = calloc(1, sizeof *f);
    CHECK(h, f != NULL);
    f->is_pattern = true;
    ioh_req_set_user(req, f);
    if (ioh_multipart_create(&f->reader, ioh_req_header(req, "Content-Type"), &on, f))
        CHECK(h, ioh_respond(req, 415, NULL, 0, NULL, 0) == 0);
}

static void form_body(ioh_req *req, const void *data, size_t len, void *state)
{
    struct host *h = state;
    struct form *f = ioh_req_user(req);
    if (ioh_multipart_feed(f->reader, data, len))
        CHECK(h, ioh_respond(req, 400, NULL, 0, NULL, 0) == 0);
}

static void form_end(ioh_req *req, void *state)
{
    struct host *h = state;
    struct form *f = ioh_req_user(req);
    char text[80];
    int rc = ioh_multipart_end(f->reader);
    int len = snprintf(text, sizeof text, "%zu parts, %zu ended, %zu bytes%s", f->parts, f->ended,
                       f->bytes, f->is_pattern ? "" : ", wrong");
    CHECK(h, ioh_respond(req, rc ? 400 : 200, NULL, 0, text, (size_t)len) == 0);
}

static void form_complete(ioh_req *req, int status, uint64_t bytes, void *state)
{
    struct form *f = ioh_req_user(req);
    (void)status;
    (void)bytes;
    (void)state;
    ioh_multipart_destroy(f->reader);
    free(f);
    ioh_req_set_user(req, NULL);
}

static struct host *form_host(void **state)
{
    struct host *h = host_new(state);
    h->on.on_request = form_begin;
    h->on.on_body = form_body;
    h->on.on_request_end = form_end;
    h->on.on_complete = form_complete;
    host_start(h);
    return h;
}

static void post(struct client *c, const char *type, const void *body, size_t len)
{
    char head[200];
    snprintf(head, sizeof head,
             "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n", type,
             len);
    client_send(c, head);
    client_write(c, body, len);
}

#define TYPE "multipart/form-data; boundary=b-b"
#define HEAD "--b-b\r\nContent-Disposition: form-data; name=f; filename=x.bin\r\n\r\n"
#define TAIL "\r\n--b-b--\r\n"

static void a_file_streams_through_the_callbacks(void **state)
{
    enum { LEN = 1000000 };
    struct host *h = form_host(state);
    struct client *c = client_open(h);
    uint8_t *data = pattern(LEN);
    uint8_t *body = malloc(LEN + 200);
    assert_non_null(body);
    for (int turn = 0; turn < 3; turn++) {
        size_t len = 0;
        len += (size_t)sprintf((char *)body, HEAD);
        memcpy(body + len, data, LEN);
        len += LEN;
        len += (size_t)sprintf((char *)body + len, TAIL);
        post(c, TYPE, body, len);
        assert_int_equal(client_answer(c), 200);
        assert_string_equal((char *)c->body, "1 parts, 1 ended, 1000000 bytes");
    }
    free(body);
    free(data);
    client_close(c);
    host_end(h);
}

static void malformed_forms_are_told_and_the_next_one_is_read(void **state)
{
    static const char whole[] = HEAD "ABC" TAIL;
    struct host *h = form_host(state);
    struct client *c = client_open(h);
    post(c, TYPE, whole, sizeof whole - 1);
    assert_int_equal(client_answer(c), 200);
    assert_string_equal((char *)c->body, "1 parts, 1 ended, 3 bytes");
    post(c, TYPE, whole, sizeof whole - 6); /* cut off */
    assert_int_equal(client_answer(c), 400);
    assert_string_equal((char *)c->body, "1 parts, 0 ended, 3 bytes");
    post(c, TYPE, "--b-bx\r\n", 8);
    assert_int_equal(client_answer(c), 400);
    post(c, "multipart/mixed; boundary=b-b", whole, sizeof whole - 1);
    assert_int_equal(client_answer(c), 415);
    post(c, TYPE, whole, sizeof whole - 1);
    assert_int_equal(client_answer(c), 200);
    client_close(c);
    host_end(h);
}

/* A second form without a single boundary, as long as a usual receive buffer and a little more or less. */
static void a_form_without_a_boundary_is_told_whatever_its_length(void **state)
{
    static char filler[9000];
    struct host *h = form_host(state);
    struct client *c = client_open(h);
    static const char whole[] = HEAD "ABC" TAIL;
    memset(filler, '-', sizeof filler);
    for (size_t len = 8000; len < 8400; len += 7) {
        post(c, TYPE, whole, sizeof whole - 1);
        assert_int_equal(client_answer(c), 200);
        post(c, TYPE, filler, len);
        assert_int_equal(client_answer(c), 400);
        assert_string_equal((char *)c->body, "0 parts, 0 ended, 0 bytes");
    }
    client_close(c);
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST(a_query_is_read_by_name),
    HOST_TEST(cookies_are_read_in_order_from_all_fields),
    HOST_TEST(a_file_streams_through_the_callbacks),
    HOST_TEST(malformed_forms_are_told_and_the_next_one_is_read),
    HOST_TEST_IN(a_form_without_a_boundary_is_told_whatever_its_length, IN_TCP),
};

HOST_MAIN(tests)
