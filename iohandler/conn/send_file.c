/* Files as answers (include/iohandler/file.h): which one, in which state, which part of it, and under which
 * head. Runs in the callback's thread, which may wait for the disk; only what is to be sent then goes to the
 * thread that holds the loop.
 *
 *     find -- conditions (304, 412) -- ranges (416) --+-- small: read, one piece with its head
 *                                                     +-- else: the open file, into the out queue
 */
#include <errno.h>
#include <iohandler/error.h>
#include <iohandler/file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "conn/file_find.h"
#include "conn/req.h"
#include "proto/http_date.h"
#include "proto/http_mime.h"
#include "proto/http_path.h"
#include "proto/http_range.h"
#include "proto/http_validators.h"

/* Read and copied: one send with its head, no descriptor in the queue. */
#define SMALL 16384u

#define OWN_FIELDS 8u
#define HOST_FIELDS 64u
#define OPTIONS_VERSION_1 (offsetof(struct ioh_file_options, symlinks) + sizeof(int32_t))

#define BOUNDARY_LEN 32u

/* What is said about the file. The strings are those that the fields point to. */
struct shown {
    struct ioh_header list[OWN_FIELDS + HOST_FIELDS];
    size_t count;
    struct ioh__validators validators;
    char etag[48], modified[IOH__DATE_LEN + 1], range[IOH__CONTENT_RANGE_MAX + 1];
    char parts_type[48 + BOUNDARY_LEN];
};

static void add(struct shown *s, const char *name, const char *value)
{
    s->list[s->count++] = (struct ioh_header){name, value};
}

static bool is_get(const ioh_req *req)
{
    struct ioh_str method = ioh_req_method(req);
    return method.len == 3 && memcmp(method.ptr, "GET", 3) == 0;
}

/* ---- answers without a file */

static int refuse(ioh_req *req, int status, const struct ioh_header *more)
{
    struct ioh_header fields[2] = {{"Content-Type", "text/plain"}};
    char text[IOH__STATUS_LINE_MAX];
    if (more)
        fields[1] = *more;
    int len = snprintf(text, sizeof text, "%d %s\n", status, ioh_reason(status));
    return ioh_respond(req, status, fields, more ? 2 : 1, text, (size_t)len);
}

static int refuse_plainly(ioh_req *req, int status)
{
    static const struct ioh_header allow = {"Allow", "GET, HEAD"}, again = {"Retry-After", "1"};
    return refuse(req, status, status == 405 ? &allow : status == 503 ? &again : NULL);
}

/* A directory without its slash: links in its index would lead astray. Two slashes at the begin would name a
 * host (RFC 3986 4.2). */
static int redirect(ioh_req *req)
{
    struct ioh_str path = ioh_req_path(req), query = ioh_req_query(req);
    char *to = malloc(path.len + query.len + 3), *at = to;
    if (!to)
        return IOH_ENOMEM;
    while (path.len > 1 && path.ptr[1] == '/') {
        path.ptr++;
        path.len--;
    }
    at = mempcpy(at, path.ptr, path.len);
    *at++ = '/';
    if (query.ptr) {
        *at++ = '?';
        at = mempcpy(at, query.ptr, query.len);
    }
    *at = 0;
    struct ioh_header location = {"Location", to};
    int rc = refuse(req, 301, &location);
    free(to);
    return rc;
}

/* ---- about the file */

/* Strong, unless the file could change again without its time doing so: then W/. The sibling's coding is
 * part of it, since its bytes are others. */
static void make_validators(struct shown *s, const struct ioh__found *found, int64_t now)
{
    int64_t modified = found->st.st_mtim.tv_sec;
    uint64_t ns = (uint64_t)modified * 1000000000u + (uint64_t)found->st.st_mtim.tv_nsec;
    char *at = s->etag;
    if (modified >= now - 1 && modified <= now + 1) {
        *at++ = 'W';
        *at++ = '/';
    }
    *at++ = '"';
    at = ioh__write_hex(at, ns);
    *at++ = '-';
    at = ioh__write_hex(at, (uint64_t)found->st.st_size);
    if (found->coding != IOH__CODING_IDENTITY) {
        *at++ = '-';
        at = stpcpy(at, ioh__coding_name(found->coding));
    }
    *at++ = '"';
    *at = 0;
    if (modified > now) /* RFC 9110 8.8.2.1: never later than Date */
        modified = now;
    s->validators = (struct ioh__validators){s->etag, (size_t)(at - s->etag), modified};
    ioh__http_date(modified, s->modified);
    s->modified[IOH__DATE_LEN] = 0;
}

/* The fields of 304 (RFC 9110 15.4.5), which 200 and 206 have, too. */
static void show_validators(struct shown *s, const struct ioh_file_options *o)
{
    add(s, "ETag", s->etag);
    if (o->cache_control)
        add(s, "Cache-Control", o->cache_control);
    if (o->precompressed)
        add(s, "Vary", "Accept-Encoding");
    for (size_t i = 0; i < o->header_count; i++)
        s->list[s->count++] = o->headers[i];
}

static void show_file(struct shown *s, const struct ioh__found *found, const char *type)
{
    add(s, "Content-Type", type);
    add(s, "Last-Modified", s->modified);
    add(s, "Accept-Ranges", "bytes");
    if (found->coding != IOH__CODING_IDENTITY)
        add(s, "Content-Encoding", ioh__coding_name(found->coding));
}

/* ---- the body */

/* false: it ended before len. */
static bool read_all(int fd, char *to, size_t len, uint64_t at)
{
    while (len) {
        ssize_t n = pread(fd, to, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        len -= (size_t)n;
        at += (uint64_t)n;
    }
    return true;
}

/* One part that is read here and now. */
static int say_small(ioh_req *req, struct ioh__reply *r, int fd, uint64_t at, size_t len)
{
    char bytes[SMALL];
    bool ok = read_all(fd, bytes, len, at);
    close(fd);
    if (!ok)
        return refuse_plainly(req, 500);
    r->data = bytes;
    r->len = len;
    return ioh__reply_say(req, r);
}

/* The disk is waited for here, where nobody else has to: the kernel reads ahead from now on. false: nothing
 * can be read. */
static bool begin_reading(int fd, uint64_t at)
{
    char first;
    return read_all(fd, &first, 1, at);
}

static int say_one(ioh_req *req, struct ioh__reply *r, int fd, const struct ioh__range *range)
{
    uint64_t len = range->end - range->first;
    if (len <= SMALL && !req->head.is_head)
        return say_small(req, r, fd, range->first, (size_t)len);
    if (len && !req->head.is_head && !begin_reading(fd, range->first)) {
        close(fd);
        return refuse_plainly(req, 500);
    }
    r->file = ioh__file_new(fd, 1, 0);
    if (!r->file)
        return IOH_ENOMEM;
    r->kind = IOH__REPLY_FILE;
    r->file->parts[0] = (struct ioh__file_part){.at = range->first, .len = len};
    r->file->total = len;
    return ioh__reply_say(req, r);
}

/* What no file is likely to have in it, and whoever writes one cannot know. */
static void make_boundary(char *out)
{
    uint8_t bytes[BOUNDARY_LEN / 2];
    if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != (ssize_t)sizeof bytes) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        memset(bytes, 0, sizeof bytes);
        memcpy(bytes, &t.tv_nsec, sizeof t.tv_nsec);
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        *out++ = "0123456789abcdef"[bytes[i] >> 4];
        *out++ = "0123456789abcdef"[bytes[i] & 15];
    }
    *out = 0;
}

/* RFC 9110 14.6 */
static struct ioh__file *make_parts(int fd, const struct ioh__range *ranges, int count,
                                    uint64_t size, const char *type, const char *boundary)
{
    static const char format[] = "%s--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n";
    size_t most = sizeof format + BOUNDARY_LEN + strlen(type) + IOH__CONTENT_RANGE_MAX;
    struct ioh__file *file = ioh__file_new(fd, (uint32_t)count + 1, most * ((size_t)count + 1));
    if (!file)
        return NULL;
    char *at = ioh__file_text(file);
    for (int i = 0; i <= count; i++) {
        struct ioh__file_part *part = &file->parts[i];
        part->head = at;
        if (i < count) {
            char range[IOH__CONTENT_RANGE_MAX + 1];
            *ioh__write_content_range(range, &ranges[i], size) = 0;
            part->at = ranges[i].first;
            part->len = ranges[i].end - ranges[i].first;
            at += sprintf(at, format, i ? "\r\n" : "", boundary, type, range);
        } else {
            at += sprintf(at, "\r\n--%s--\r\n", boundary);
        }
        part->head_len = (size_t)(at - part->head);
        file->total += part->head_len + part->len;
    }
    return file;
}

static int say_parts(ioh_req *req, struct ioh__reply *r, int fd, const struct ioh__range *ranges,
                     int count, uint64_t size, const char *type, const char *boundary)
{
    r->kind = IOH__REPLY_FILE;
    r->file = make_parts(fd, ranges, count, size, type, boundary);
    return r->file ? ioh__reply_say(req, r) : IOH_ENOMEM;
}

/* ---- the whole answer */

static int refuse_range(ioh_req *req, struct shown *s, uint64_t size)
{
    struct ioh_header field = {"Content-Range", s->range};
    *ioh__write_content_range(s->range, NULL, size) = 0;
    return refuse(req, 416, &field);
}

/* found->fd is consumed. */
static int answer(ioh_req *req, const struct ioh__found *found, const struct ioh_file_options *o)
{
    int64_t now = ioh__wall_seconds();
    uint64_t size = (uint64_t)found->st.st_size;
    const char *type = o->content_type ? o->content_type : ioh__mime_type(found->name, o->types);
    const char *part_type = type;
    struct shown s;
    struct ioh__conditions conditions;
    struct ioh__range ranges[IOH__RANGES_MAX];
    struct ioh__reply r = {.kind = IOH__REPLY_WHOLE, .status = 200};
    char boundary[BOUNDARY_LEN + 1];
    int count = 0;

    s.count = 0;
    make_validators(&s, found, now);
    ioh__http_conditions(req->base, &req->head, &conditions);
    int verdict = ioh__http_evaluate(req->base, &req->head, &conditions, &s.validators, now);
    if (verdict == 200 && !req->head.is_head &&
        ioh__http_range_holds(req->base, &req->head, &conditions, &s.validators, now)) {
        const struct ioh__http1_field *range = &req->fields[conditions.range];
        count = ioh__http_ranges(req->base + range->value, range->value_len, size, ranges);
    }
    if (verdict == 412 || count < 0) {
        close(found->fd);
        return count < 0 ? refuse_range(req, &s, size) : refuse_plainly(req, 412);
    }
    show_validators(&s, o);
    if (count == 1) {
        *ioh__write_content_range(s.range, &ranges[0], size) = 0;
        add(&s, "Content-Range", s.range);
    } else if (count > 1) {
        make_boundary(boundary);
        snprintf(s.parts_type, sizeof s.parts_type, "multipart/byteranges; boundary=%s", boundary);
        type = s.parts_type;
    }
    if (verdict == 200)
        show_file(&s, found, type);
    if (count || verdict != 200)
        r.status = count ? 206 : verdict;
    int rc = ioh__reply_check(&r, s.list, s.count);
    if (rc || verdict == 304) {
        close(found->fd);
        return rc ? rc : ioh__reply_say(req, &r);
    }
    if (count > 1)
        return say_parts(req, &r, found->fd, ranges, count, size, part_type, boundary);
    if (count == 0)
        ranges[0] = (struct ioh__range){0, size};
    return say_one(req, &r, found->fd, &ranges[0]);
}

static int take_options(const struct ioh_file_options *given, struct ioh_file_options *o)
{
    memset(o, 0, sizeof *o);
    if (!given)
        return 0;
    if (given->size < OPTIONS_VERSION_1)
        return IOH_EVERSION;
    memcpy(o, given, given->size < sizeof *o ? given->size : sizeof *o);
    const struct ioh_header own[] = {
        {"Content-Type", o->content_type ? o->content_type : ""},
        {"Cache-Control", o->cache_control ? o->cache_control : ""},
    };
    size_t len;
    if (o->precompressed & ~(IOH_FILE_BR | IOH_FILE_ZSTD | IOH_FILE_GZIP) ||
        o->header_count > HOST_FIELDS || o->dot_files < 0 || o->dot_files > IOH_DOT_FILES_SEND ||
        o->symlinks < 0 || o->symlinks > IOH_SYMLINKS_ALL)
        return IOH_EINVAL;
    int rc = ioh__http1_check_fields(own, 2, &len);
    return rc ? rc : ioh__http1_check_fields(o->headers, o->header_count, &len);
}

int ioh_send_file(ioh_req *req, int dir, const char *path, const struct ioh_file_options *options)
{
    struct ioh_file_options o;
    struct ioh__codings codings;
    struct ioh__found found;
    int rc = take_options(options, &o);
    if (rc == 0 && (dir < 0 || !path))
        rc = IOH_EINVAL;
    if (rc == 0)
        rc = ioh__reply_may_begin(req);
    if (rc)
        return rc;
    if (!req->head.is_head && !is_get(req))
        return refuse_plainly(req, 405);
    if (o.precompressed)
        ioh__http_codings(req->base, &req->head, &codings);
    int status = ioh__file_find(dir, path, &o, &codings, &found);
    if (status == 200 && (uint64_t)found.st.st_size > SIZE_MAX / 2) { /* where size_t has 32 bits */
        close(found.fd);
        status = 500;
    }
    if (status == 200)
        return answer(req, &found, &o);
    static const struct ioh_header vary = {"Vary", "Accept-Encoding"};
    if (status == 404 && o.precompressed) /* a sibling may be there for others */
        return refuse(req, 404, &vary);
    return status == 301 ? redirect(req) : refuse_plainly(req, status);
}

int ioh_req_path_decode(const ioh_req *req, const char *prefix, char *out, size_t size)
{
    return ioh__path_decode(ioh_req_path(req), prefix, out, size);
}
