/* The host of the connection fuzzer: callbacks that do what the first letter of the path, or of a message, tells
 * them, check the order that handler.h promises, and write down what they see. It watches one connection at a
 * time. One thread: the host's own drives the loop. */
#ifndef FUZZ_PLAYHOST_H
#define FUZZ_PLAYHOST_H

#include "text.h"
#include <iohandler/iohandler.h>

enum phase { BEFORE, OPEN, REQUEST, UPGRADE, WEBSOCKET, WEBSOCKET_OVER, OVER };

#define MESSAGE_MAX 1000u
#define BODY_MAX 5000u

struct watch {
    ioh_server *server;
    enum phase phase;
    bool inside;   /* a callback runs */
    bool answered; /* the request under way, wholly */
    bool ended;    /* on_request_end has run for it */
    bool unsure;   /* the host cut something off: what had been queued may be lost */
    bool in_body;  /* the story ends with bytes of a body */
    char action;   /* the letter of the path */
    uint64_t body_len;
    ioh_conn_id id;
    struct ioh_req_id later;
    bool reply_due, resume_due;
    struct text story; /* what the callbacks saw, but for when the peer was gone or slow */
    struct text heads; /* as struct answers wants them */
};

static struct watch watch;

static void enter(bool allowed)
{
    CHECK(allowed && !watch.inside);
    watch.inside = true;
    watch.in_body = false;
}

static void leave(void)
{
    watch.inside = false;
}

static int on_open(ioh_conn *conn, void *state)
{
    (void)state;
    enter(watch.phase == BEFORE);
    watch.phase = OPEN;
    watch.id = ioh_conn_get_id(conn);
    leave();
    return 0;
}

static void on_close(ioh_conn *conn, void *state)
{
    (void)conn;
    (void)state;
    enter(watch.phase == OPEN || watch.phase == UPGRADE || watch.phase == WEBSOCKET_OVER);
    watch.phase = OVER;
    leave();
}

static void on_peer_gone(ioh_conn *conn, void *state)
{
    (void)state;
    CHECK(!watch.inside && (watch.phase == REQUEST || watch.phase == WEBSOCKET));
    CHECK(ioh_conn_gone(conn));
}

static void on_drain(ioh_conn *conn, void *state)
{
    (void)conn;
    (void)state;
    CHECK(!watch.inside && watch.phase != BEFORE && watch.phase != OVER);
}

/* ---- HTTP */

static void on_classify(ioh_req *req, struct ioh_route *route, void *state)
{
    (void)state;
    enter(watch.phase == OPEN);
    CHECK(route->exec == IOH_EXEC_INLINE);
    struct ioh_str method = ioh_req_method(req), path = ioh_req_path(req), name, value;
    bool is_head = method.len == 4 && memcmp(method.ptr, "HEAD", 4) == 0;
    char kind = is_head ? 'H' : ioh_req_minor_version(req) ? '1' : '0';
    text_add(&watch.heads, &kind, 1);
    watch.action = path.len > 1 ? path.ptr[1] : '/';
    text_say(&watch.story, "\nhead ");
    text_add(&watch.story, method.ptr, method.len);
    text_add(&watch.story, path.ptr, path.len);
    for (size_t i = 0; ioh_req_header_at(req, i, &name, &value) == 0; i++) {
        CHECK(name.len > 0 && !memchr(name.ptr, '\n', name.len));
        CHECK(value.len == 0 || !memchr(value.ptr, '\n', value.len));
        text_add(&watch.story, name.ptr, name.len);
        text_add(&watch.story, value.ptr, value.len);
    }
    leave();
}

/* An answer was given; rc is what the library said. */
static void said(int rc)
{
    watch.answered = true;
    CHECK(rc >= 0 || rc == IOH_EGONE || rc == IOH_EFULL);
    watch.unsure = watch.unsure || rc < 0;
}

static void answer(ioh_req *req, int status)
{
    static const struct ioh_header type = {"Content-Type", "text/plain"};
    said(ioh_respond(req, status, &type, 1, "a body", 6));
    CHECK(ioh_respond(req, 200, NULL, 0, NULL, 0) < 0); /* not twice */
}

static void stream(ioh_req *req, int64_t length)
{
    char piece[500];
    memset(piece, 's', sizeof piece);
    if (ioh_respond_start(req, 200, NULL, 0, length) < 0) {
        watch.answered = watch.unsure = true;
        return;
    }
    for (int i = 0; i < 4; i++)
        ioh_respond_data(req, piece, sizeof piece);
    int rc = ioh_respond_end(req);
    CHECK(length <= 2000 || rc < 0);
    watch.answered = true;
    watch.unsure = watch.unsure || rc < 0;
}

static void on_request(ioh_req *req, void *state)
{
    ioh_conn *conn = ioh_req_conn(req);
    (void)state;
    enter(watch.phase == OPEN);
    watch.phase = REQUEST;
    watch.answered = watch.ended = false;
    watch.body_len = 0;
    text_say(&watch.story, "\nrequest");
    switch (watch.action) {
    case 'i': /* immediately */
        answer(req, 200);
        break;
    case 'n': /* never has a body */
        answer(req, 204);
        break;
    case 'm':
        answer(req, 304);
        break;
    case 's':
        stream(req, -1);
        break;
    case 'l':
        stream(req, 2000);
        break;
    case 'L': /* promises too much */
        stream(req, 2001);
        break;
    case 'k': /* closes after the answer */
        ioh_respond_close(req);
        answer(req, 200);
        break;
    case 'p':
        ioh_pause(conn);
        watch.resume_due = true;
        break;
    case 'D': /* later, maybe before the body is whole: then there is no on_request_end */
        watch.later = ioh_defer(req);
        watch.reply_due = watch.unsure = true;
        break;
    case 'g':
        CHECK(ioh_req_gather(req, 100) == 0);
        break;
    case 'c':
        watch.unsure = true;
        ioh_close(conn);
        break;
    case 'x':
        watch.unsure = true;
        ioh_abort(conn);
        break;
    default: /* at its end */
        break;
    }
    leave();
}

static void on_body(ioh_req *req, const void *data, size_t len, void *state)
{
    bool goes_on = watch.in_body;
    (void)state;
    enter(watch.phase == REQUEST && !watch.answered && !watch.ended && len > 0);
    CHECK(watch.action != 'g');
    if (!goes_on)
        text_say(&watch.story, "\nbody ");
    if (watch.action != 'b') /* its first piece is as long as it happens to be */
        text_add(&watch.story, data, len);
    watch.body_len += len;
    CHECK(watch.body_len <= BODY_MAX);
    int64_t announced = ioh_req_content_length(req);
    CHECK(announced < 0 || watch.body_len <= (uint64_t)announced);
    if (watch.action == 'b') /* in the middle of the body */
        answer(req, 200);
    leave();
    watch.in_body = !watch.answered;
}

static void on_request_end(ioh_req *req, void *state)
{
    (void)state;
    enter(watch.phase == REQUEST && !watch.answered && !watch.ended);
    watch.ended = true;
    text_say(&watch.story, "\nend");
    int64_t announced = ioh_req_content_length(req);
    if (watch.action == 'g') {
        struct ioh_str body = ioh_req_body(req);
        CHECK(body.len <= 100 && (announced < 0 || body.len == (size_t)announced));
        text_add(&watch.story, body.ptr, body.len);
    } else {
        CHECK(announced < 0 || watch.body_len == (uint64_t)announced);
    }
    struct ioh_str name, value;
    for (size_t i = 0; ioh_req_trailer_at(req, i, &name, &value) == 0; i++) {
        text_add(&watch.story, name.ptr, name.len);
        text_add(&watch.story, value.ptr, value.len);
    }
    if (watch.action == 'f') { /* forgets it: the library says 500 */
        watch.answered = true;
    } else if (watch.action == 'd') {
        watch.later = ioh_defer(req);
        watch.reply_due = true;
    } else if (watch.action != 'D') {
        answer(req, 200);
    }
    leave();
}

static void on_complete(ioh_req *req, int status, uint64_t bytes, void *state)
{
    (void)req;
    (void)bytes;
    (void)state;
    enter(watch.phase == REQUEST);
    watch.phase = OPEN;
    watch.unsure = watch.unsure || status == 0;
    watch.reply_due = watch.resume_due = false;
    text_say(&watch.story, "\ncomplete %d", status);
    leave();
}

/* ---- WebSocket */

static int on_ws_upgrade(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    (void)state;
    enter(watch.phase == OPEN);
    text_say(&watch.story, "\nupgrade");
    int result = 0;
    if (watch.action == 'r')
        result = 403;
    if (watch.action == 'i') {
        answer(req, 200);
        result = 400;
    }
    if (ioh_ws_offers(req, "chat"))
        accept->protocol = "chat";
    watch.phase = result ? OPEN : UPGRADE;
    leave();
    return result;
}

static void on_ws_open(ioh_conn *conn, void *state)
{
    (void)state;
    enter(watch.phase == UPGRADE);
    watch.phase = WEBSOCKET;
    if (watch.action == 'h')
        ioh_ws_send(conn, IOH_WS_TEXT, "hello", 5);
    leave();
}

/* RFC 3629 4, written down once more. */
static bool is_utf8(const uint8_t *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint32_t c = s[i], more = c < 0x80 ? 0 : c >> 5 == 6 ? 1 : c >> 4 == 14 ? 2 : 3;
        if (more == 3 && c >> 3 != 30)
            return false;
        c &= more == 0 ? 0x7fu : 0x3fu >> more;
        for (uint32_t n = more; n > 0; n--) {
            if (++i == len || (s[i] & 0xc0) != 0x80)
                return false;
            c = c << 6 | (s[i] & 0x3fu);
        }
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            return false;
        i++;
    }
    return true;
}

static void on_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    (void)state;
    enter(watch.phase == WEBSOCKET && len <= MESSAGE_MAX);
    CHECK(op == IOH_WS_BINARY || (op == IOH_WS_TEXT && is_utf8(data, len)));
    text_say(&watch.story, "\nmessage %d ", op);
    text_add(&watch.story, data, len);
    char letter = len ? *(const char *)data : 0;
    if (letter == 'C') {
        ioh_ws_close(conn, 1000, "bye", 3);
        CHECK(ioh_ws_send(conn, op, "", 0) == IOH_ESTATE);
    } else if (letter == 'X') {
        watch.unsure = true;
        ioh_abort(conn);
    } else if (letter == 'K') {
        watch.unsure = true;
        ioh_close(conn);
    } else if (letter == 'Z') {
        ioh_pause(conn);
        watch.resume_due = true;
    } else {
        int rc = ioh_ws_send(conn, op, data, len);
        CHECK(rc >= 0 || rc == IOH_EGONE || rc == IOH_ESTATE || rc == IOH_EFULL);
        watch.unsure = watch.unsure || rc < 0;
    }
    leave();
}

static void on_ws_ping(ioh_conn *conn, const void *data, size_t len, void *state)
{
    (void)conn;
    (void)data;
    (void)state;
    enter(watch.phase == WEBSOCKET && len <= 125);
    text_say(&watch.story, "\nping %zu", len);
    leave();
}

static void on_ws_pong(ioh_conn *conn, const void *data, size_t len, void *state)
{
    (void)conn;
    (void)data;
    (void)state;
    enter(watch.phase == WEBSOCKET && len <= 125);
    text_say(&watch.story, "\npong %zu", len);
    leave();
}

static void on_ws_close(ioh_conn *conn, int code, const char *reason, size_t len, void *state)
{
    (void)conn;
    (void)state;
    enter(watch.phase == WEBSOCKET && len <= 123 && is_utf8((const uint8_t *)reason, len));
    CHECK(code >= 1000 && code < 5000);
    watch.phase = WEBSOCKET_OVER;
    text_say(&watch.story, "\nclose %d", code);
    leave();
}

/* ---- what the host does between callbacks */

static void resume(ioh_conn *conn, void *user)
{
    (void)user;
    CHECK(!watch.inside);
    ioh_resume(conn);
}

/* Answers whether there was anything to do. */
static bool do_what_is_due(void)
{
    bool due = watch.reply_due || watch.resume_due;
    if (watch.resume_due)
        (void)ioh_run_on(watch.server, watch.id, resume, NULL, NULL);
    if (watch.reply_due) {
        watch.answered = true;
        (void)ioh_reply(watch.server, watch.later, 200, NULL, 0, "later", 5);
    }
    watch.reply_due = watch.resume_due = false;
    return due;
}

static const struct ioh_handler playhost = {
    .size = sizeof(struct ioh_handler),
    .on_open = on_open,
    .on_drain = on_drain,
    .on_peer_gone = on_peer_gone,
    .on_close = on_close,
    .on_classify = on_classify,
    .on_request = on_request,
    .on_body = on_body,
    .on_request_end = on_request_end,
    .on_complete = on_complete,
    .on_ws_upgrade = on_ws_upgrade,
    .on_ws_open = on_ws_open,
    .on_ws_message = on_ws_message,
    .on_ws_ping = on_ws_ping,
    .on_ws_pong = on_ws_pong,
    .on_ws_close = on_ws_close,
};

#endif
