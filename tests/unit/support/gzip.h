/* What the tests of compressed answers share: a host that compresses, and the client's other end. */
#ifndef IOH_TESTS_GZIP_H
#define IOH_TESTS_GZIP_H

#include "common.h"

#include <zlib.h>

#define GZIP "Accept-Encoding: gzip\r\n"

/* ---- what a client does with it */

static inline void begin_inflate(z_stream *z)
{
    memset(z, 0, sizeof *z);
    assert_int_equal(inflateInit2(z, 15 + 16), Z_OK);
}

/* What these bytes give, at most room of it; *ended: the stream's end with its sum was among them. */
static inline size_t inflate_some(z_stream *z, const void *data, size_t len, void *to, size_t room,
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
static inline void expect_inflated(const struct client *c, const void *want, size_t len)
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

static inline void get(struct client *c, const char *path, const char *fields)
{
    client_request(c, "GET", path, fields);
    assert_int_equal(client_answer(c), 200);
}

static inline struct host *compressing_host(void **state)
{
    struct host *h = host_new(state);
    h->options.compress = " text/*, Application/JSON ,";
    return h;
}

/* What most answers have. */
static const struct ioh_header plain_fields[] = {{"Content-Type", "text/plain"},
                                                 {"ETag", "\"v1\""},
                                                 {"Accept-Ranges", "bytes"},
                                                 {"X-Last", "x"}};

#endif
