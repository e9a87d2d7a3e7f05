/* Reading a request (include/iohandler/req.h). Strings point into the request's head. */
#include <iohandler/error.h>
#include <iohandler/ws.h>
#include <stdlib.h>
#include <string.h>

#include "conn/req.h"
#include "proto/http1_field.h"
#include "proto/ws_origin.h"
#include "proto/ws_shake.h"

static struct ioh_str part(const ioh_req *req, size_t offset, size_t len)
{
    return (struct ioh_str){req->base + offset, len};
}

ioh_conn *ioh_req_conn(const ioh_req *req)
{
    return req->conn;
}

struct ioh_str ioh_req_method(const ioh_req *req)
{
    return part(req, req->head.method, req->head.method_len);
}

struct ioh_str ioh_req_target(const ioh_req *req)
{
    return part(req, req->head.target, req->head.target_len);
}

struct ioh_str ioh_req_path(const ioh_req *req)
{
    if (req->head.path_len == 0)
        return (struct ioh_str){"/", 1};
    return part(req, req->head.path, req->head.path_len);
}

struct ioh_str ioh_req_query(const ioh_req *req)
{
    if (req->head.query == 0)
        return (struct ioh_str){NULL, 0};
    return part(req, req->head.query, req->head.query_len);
}

int ioh_req_minor_version(const ioh_req *req)
{
    return req->head.minor;
}

struct ioh_str ioh_req_header(const ioh_req *req, const char *name)
{
    int i = ioh__http1_find(req->base, &req->head, name, strlen(name), 0);
    if (i < 0)
        return (struct ioh_str){NULL, 0};
    return part(req, req->fields[i].value, req->fields[i].value_len);
}

size_t ioh_req_header_count(const ioh_req *req)
{
    return req->head.count;
}

int ioh_req_header_at(const ioh_req *req, size_t index, struct ioh_str *name, struct ioh_str *value)
{
    if (index >= req->head.count)
        return IOH_EINVAL;
    const struct ioh__http1_field *f = &req->fields[index];
    *name = part(req, f->name, f->name_len);
    *value = part(req, f->value, f->value_len);
    return 0;
}

int ioh_ws_offers(const ioh_req *req, const char *protocol)
{
    return ioh__ws_protocol_offered(req->base, &req->head, protocol);
}

int ioh_ws_same_origin(const ioh_req *req)
{
    return ioh__ws_same_origin(req->base, &req->head);
}

int ioh_ws_add_header(ioh_req *req, const char *name, const char *value)
{
    static const char ours[] = "sec-websocket-";
    const struct ioh_header field = {name, value};
    size_t len;
    if (!req->upgrading)
        return IOH_ESTATE;
    int rc = ioh__http1_check_fields(&field, 1, &len);
    if (rc)
        return rc;
    if (strlen(name) >= sizeof ours - 1 && ioh__equal_any_case(name, ours, sizeof ours - 1))
        return IOH_EHEADER;
    char *fields = realloc(req->ws_fields, req->ws_fields_len + len);
    if (!fields)
        return IOH_ENOMEM;
    req->ws_fields = fields;
    ioh__http1_write_fields(fields + req->ws_fields_len, &field, 1);
    req->ws_fields_len += len;
    return 0;
}

int64_t ioh_req_content_length(const ioh_req *req)
{
    if (req->head.chunked)
        return -1;
    return req->head.has_length ? (int64_t)req->head.content_length : 0;
}

int ioh_req_expects_continue(const ioh_req *req)
{
    return req->continue_pending;
}

/* ---- what comes behind the head */

int ioh_req_gather(ioh_req *req, size_t max)
{
    if (!req->fresh)
        return IOH_ESTATE;
    req->gathers = true;
    req->gather_max = max;
    return 0;
}

struct ioh_str ioh_req_body(const ioh_req *req)
{
    if (!req->gathers || !req->body_whole)
        return (struct ioh_str){NULL, 0};
    return (struct ioh_str){req->gathered.len ? req->gathered.data : "", req->gathered.len};
}

/* The trailers' lines, once they are whole. */
static const char *trailer_lines(const ioh_req *req, const char **end)
{
    size_t len = req->body_whole ? req->trailers.len : 0;
    const char *lines = len ? req->trailers.data : "";
    *end = lines + len;
    return lines;
}

struct ioh_str ioh_req_trailer(const ioh_req *req, const char *name)
{
    struct ioh_str found, value;
    const char *end, *at = trailer_lines(req, &end);
    while (ioh__http1_trailer_next(&at, end, &found, &value))
        if (found.len == strlen(name) && ioh__equal_any_case(found.ptr, name, found.len))
            return value;
    return (struct ioh_str){NULL, 0};
}

size_t ioh_req_trailer_count(const ioh_req *req)
{
    struct ioh_str name, value;
    const char *end, *at = trailer_lines(req, &end);
    size_t count = 0;
    while (ioh__http1_trailer_next(&at, end, &name, &value))
        count++;
    return count;
}

int ioh_req_trailer_at(const ioh_req *req, size_t index, struct ioh_str *name,
                       struct ioh_str *value)
{
    const char *end, *at = trailer_lines(req, &end);
    while (ioh__http1_trailer_next(&at, end, name, value))
        if (index-- == 0)
            return 0;
    return IOH_EINVAL;
}

/* ---- timings */

static uint64_t us_after(uint64_t begin, uint64_t at)
{
    return at > begin ? (at - begin) / 1000u : 0;
}

int ioh_req_timing(const ioh_req *req, struct ioh_timing *timing)
{
    const struct ioh__times *t = &req->times;
    size_t size = timing->size;
    if (!req->completing || !ioh__timed(req->conn->hub))
        return IOH_ESTATE;
    if (size < offsetof(struct ioh_timing, last_byte_us) + sizeof timing->last_byte_us)
        return IOH_EVERSION;
    struct ioh_timing found = {
        .size = size,
        .begin_ns = t->begin,
        .queued_us = us_after(t->begin, t->called),
        .handler_us = t->busy / 1000u,
        .first_byte_us = us_after(t->begin, t->first),
        .last_byte_us = us_after(t->begin, t->last),
    };
    memcpy(timing, &found, size < sizeof found ? size : sizeof found);
    return 0;
}

/* ---- the host's own */

void *ioh_req_user(const ioh_req *req)
{
    return req->user;
}

void ioh_req_set_user(ioh_req *req, void *user)
{
    req->user = user;
}
