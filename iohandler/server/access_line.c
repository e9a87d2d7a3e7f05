/* The lines of the access log (see access_log.h): formatting without allocation. Any thread; the request is the
 * caller's. */
#include <inttypes.h>
#include <iohandler/access_log.h>
#include <iohandler/conn.h>
#include <iohandler/error.h>
#include <iohandler/req.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/utf8.h"

#define LEAST 1024u    /* all but the client's fields fits in half of it */
#define FIELD_MAX 2048 /* bytes of one field of the client's; more are cut */

struct line {
    char *at, *end; /* end: where the NUL goes at the latest */
    char *soft;     /* the client's fields stop here, so that what follows them fits */
};

static void put(struct line *l, const char *text, size_t len)
{
    size_t room = (size_t)(l->end - l->at);
    if (len > room)
        len = room;
    memcpy(l->at, text, len);
    l->at += len;
}

static void put_text(struct line *l, const char *text)
{
    put(l, text, strlen(text));
}

static void put_number(struct line *l, uint64_t value)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, value);
    put(l, digits, (size_t)n);
}

/* One byte of a client's, as common log readers expect it: \xHH where it could end a field or a line. */
static size_t escape_plain(unsigned char c, char out[8])
{
    if (c >= ' ' && c < 0x7f && c != '"' && c != '\\') {
        out[0] = (char)c;
        return 1;
    }
    return (size_t)snprintf(out, 8, "\\x%02x", c);
}

/* RFC 8259 7. utf8: the whole field is valid, so bytes above ASCII stay; else each stands for its code point. */
static size_t escape_json(unsigned char c, bool utf8, char out[8])
{
    if (c == '"' || c == '\\') {
        out[0] = '\\';
        out[1] = (char)c;
        return 2;
    }
    if (c >= ' ' && (c < 0x7f || (c >= 0x80 && utf8))) {
        out[0] = (char)c;
        return 1;
    }
    return (size_t)snprintf(out, 8, "\\u%04x", c);
}

/* Cut at FIELD_MAX or where the rest needs the room; never inside an escape or a UTF-8 sequence. */
static void put_client(struct line *l, struct ioh_str s, bool json)
{
    char piece[8];
    size_t len = s.len < FIELD_MAX ? s.len : FIELD_MAX;
    while (json && len < s.len && len > 0 && ((unsigned char)s.ptr[len] & 0xc0) == 0x80)
        len--;
    bool utf8 = json && ioh__utf8_valid(s.ptr, len);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool begins = (c & 0xc0) != 0x80; /* the longest sequence must fit whole */
        size_t n = json ? escape_json(c, utf8, piece) : escape_plain(c, piece);
        if (l->soft - l->at < (ptrdiff_t)(utf8 && begins ? 6 : n))
            return;
        put(l, piece, n);
    }
}

/* The peer's address without its port. */
static struct ioh_str host_of(const char *peer)
{
    struct ioh_str host = {peer, strlen(peer)};
    const char *colon = strrchr(peer, ':');
    if (colon)
        host.len = (size_t)(colon - peer);
    if (host.len > 1 && host.ptr[0] == '[') {
        host.ptr++;
        host.len -= 2;
    }
    return host;
}

static void put_quoted(struct line *l, struct ioh_str s)
{
    put_text(l, " \"");
    if (s.ptr)
        put_client(l, s, false);
    else
        put_text(l, "-");
    put_text(l, "\"");
}

static void common(struct line *l, const ioh_req *req, int status, uint64_t bytes, bool combined)
{
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    char peer[64], text[64];
    struct tm tm;
    time_t now = time(NULL);
    gmtime_r(&now, &tm);
    ioh_conn_peer(ioh_req_conn(req), peer, sizeof peer);
    struct ioh_str host = host_of(peer), method = ioh_req_method(req), target = ioh_req_target(req);
    put(l, host.ptr, host.len);
    int n = snprintf(text, sizeof text, " - - [%02d/%s/%d:%02d:%02d:%02d +0000] \"", tm.tm_mday,
                     months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
    put(l, text, (size_t)n);
    put_client(l, method, false);
    put_text(l, " ");
    put_client(l, target, false);
    put_text(l, ioh_req_minor_version(req) ? " HTTP/1.1\" " : " HTTP/1.0\" ");
    put_number(l, (uint64_t)status);
    put_text(l, " ");
    if (bytes)
        put_number(l, bytes);
    else
        put_text(l, "-");
    if (!combined)
        return;
    put_quoted(l, ioh_req_header(req, "Referer"));
    put_quoted(l, ioh_req_header(req, "User-Agent"));
}

static void member(struct line *l, const char *name, struct ioh_str value)
{
    if (!value.ptr)
        return;
    put_text(l, ",\"");
    put_text(l, name);
    put_text(l, "\":\"");
    put_client(l, value, true);
    put_text(l, "\"");
}

static void number(struct line *l, const char *name, uint64_t value)
{
    put_text(l, ",\"");
    put_text(l, name);
    put_text(l, "\":");
    put_number(l, value);
}

static void json(struct line *l, const ioh_req *req, int status, uint64_t bytes)
{
    char peer[64], text[64];
    struct timespec now;
    struct tm tm;
    struct ioh_timing timing = IOH_TIMING_INIT;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    ioh_conn_peer(ioh_req_conn(req), peer, sizeof peer);
    int n = snprintf(text, sizeof text, "{\"time\":\"%d-%02d-%02dT%02d:%02d:%02d.%03ldZ\"",
                     tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                     now.tv_nsec / 1000000);
    put(l, text, (size_t)n);
    member(l, "peer", (struct ioh_str){peer, strlen(peer)});
    member(l, "method", ioh_req_method(req));
    member(l, "target", ioh_req_target(req));
    put_text(l, ioh_req_minor_version(req) ? ",\"version\":\"1.1\"" : ",\"version\":\"1.0\"");
    number(l, "status", (uint64_t)status);
    number(l, "bytes", bytes);
    if (ioh_req_timing(req, &timing) == 0) {
        number(l, "queued_us", timing.queued_us);
        number(l, "handler_us", timing.handler_us);
        number(l, "first_byte_us", timing.first_byte_us);
        number(l, "last_byte_us", timing.last_byte_us);
    }
    member(l, "referer", ioh_req_header(req, "Referer"));
    member(l, "user_agent", ioh_req_header(req, "User-Agent"));
    put_text(l, "}");
}

int ioh_access_log_format(const ioh_req *req, int status, uint64_t bytes, int32_t format,
                          char *text, size_t size)
{
    if (size < LEAST || format < IOH_ACCESS_COMMON || format > IOH_ACCESS_JSON)
        return IOH_EINVAL;
    struct line l = {text, text + size - 1, text + size - LEAST / 2};
    if (format == IOH_ACCESS_JSON)
        json(&l, req, status, bytes);
    else
        common(&l, req, status, bytes, format == IOH_ACCESS_COMBINED);
    *l.at = '\0';
    return (int)(l.at - text);
}
