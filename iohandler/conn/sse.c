/* Server-sent events (include/iohandler/sse.h): the bytes of events, and the beginning of a stream. Any thread. */
#include <iohandler/sse.h>
#include <iohandler/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "conn/req.h"

#define COMMENT_MS 15000u /* what WHATWG HTML 9.2.6 recommends */

/* ---- events */

/* How long a line of data is; *next: behind what ends it, NULL: it is the last. */
static size_t line_len(const char *at, const char *end, const char **next)
{
    const char *to = at;
    while (to < end && *to != '\r' && *to != '\n')
        to++;
    *next = to == end ? NULL : to + 1;
    if (end - to >= 2 && to[0] == '\r' && to[1] == '\n')
        *next = to + 2;
    return (size_t)(to - at);
}

/* "name: value\n" */
static size_t field_len(const char *name, size_t len)
{
    return strlen(name) + 2 + len + 1;
}

/* The space is always there: one that the value begins with would be taken for it. */
static uint8_t *put_field(uint8_t *at, const char *name, const char *value, size_t len)
{
    size_t name_len = strlen(name);
    memcpy(at, name, name_len);
    memcpy(at + name_len, ": ", 2);
    at += name_len + 2;
    if (len)
        memcpy(at, value, len);
    at[len] = '\n';
    return at + len + 1;
}

static bool is_line(const char *text)
{
    return !text || !text[strcspn(text, "\r\n")];
}

ioh_buf *ioh_sse_event(const char *event, const char *id, const void *data, size_t len)
{
    const char *end = data ? (const char *)data + len : NULL;
    size_t total = 1;
    if (!is_line(event) || !is_line(id) || (len && !data) || (!event && !id && !data))
        return NULL;
    if (id)
        total += field_len("id", strlen(id));
    if (event)
        total += field_len("event", strlen(event));
    for (const char *line = data, *next; line; line = next)
        total += field_len("data", line_len(line, end, &next));
    ioh_buf *buf = ioh__buf_new(total);
    if (!buf)
        return NULL;
    uint8_t *at = buf->data;
    if (id)
        at = put_field(at, "id", id, strlen(id));
    if (event)
        at = put_field(at, "event", event, strlen(event));
    for (const char *line = data, *next; line; line = next) {
        size_t n = line_len(line, end, &next);
        at = put_field(at, "data", line, n);
    }
    *at = '\n';
    return buf;
}

/* ---- streams */

/* The host's fields behind ours; NULL: out of memory. */
static struct ioh_header *all_fields(const struct ioh_sse_options *o, size_t *count)
{
    static const struct ioh_header ours[] = {{"Content-Type", "text/event-stream"},
                                             {"Cache-Control", "no-store"}};
    struct ioh_header *all = malloc(sizeof ours + o->header_count * sizeof *all);
    if (!all)
        return NULL;
    memcpy(all, ours, sizeof ours);
    if (o->header_count)
        memcpy(all + 2, o->headers, o->header_count * sizeof *all);
    *count = 2 + o->header_count;
    return all;
}

int ioh_sse_start(ioh_req *req, const struct ioh_sse_options *options)
{
    struct ioh_sse_options o = {0};
    char retry[32];
    size_t count;
    if (options && options->size < sizeof o.size)
        return IOH_EVERSION;
    if (options)
        memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    if (o.header_count && !o.headers)
        return IOH_EINVAL;
    struct ioh_header *fields = all_fields(&o, &count);
    if (!fields)
        return IOH_ENOMEM;
    int rc = ioh__respond_events(req, fields, count, o.keepalive_ms ? o.keepalive_ms : COMMENT_MS);
    free(fields);
    if (rc < 0 || !o.retry_ms)
        return rc;
    rc =
        ioh_respond_data(req, retry, (size_t)sprintf(retry, "retry: %u\n\n", (unsigned)o.retry_ms));
    return rc == IOH_EDONE ? 0 : rc; /* it has ended already */
}

int ioh_sse_send(ioh_req *req, ioh_buf *event)
{
    return ioh_respond_data_buf(req, event);
}
