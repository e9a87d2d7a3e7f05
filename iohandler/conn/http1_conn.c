/* HTTP/1 on a connection: requests in, callbacks out, answers in order. The thread that holds the
 * loop.
 *
 *     HEAD --head whole, on_classify--> START --> BODY --body whole--> ANSWER --answered--> FINISH
 *      ^ |                                |                              |                   |   |
 *      | |      UPGRADE <---upgrade-------+                   ioh_defer(): waits       close <   |
 *      | |         +--accepted--> the WebSocket protocol takes over                              |
 *      | +--refused--> answer, FINISH     (from every step: a fault ends the connection)         |
 *      +-----------------------------------------------------------------------------------------+
 *
 * One request at a time: while its answer is due, pipelined input waits (RFC 9112 9.3.2).
 */
#include <iohandler/error.h>
#include <iohandler/stats.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conn/crew.h"
#include "conn/http1.h"

static const struct ioh_handler *handler_of(const ioh_conn *conn)
{
    return conn->hub->handler;
}

/* Most requests hold nothing but themselves. */
static bool holds_more(const ioh_req *req)
{
    return req->copy || req->gathered.room || req->trailers.room || req->ws_fields || req->squeeze;
}

void ioh__http1_free_req(ioh_conn *conn)
{
    struct ioh__hub *hub = conn->hub;
    ioh_req *req = conn->as.http1.req;
    if (!req)
        return;
    if (holds_more(req)) {
        ioh__http1_drop_input(&hub->loop.mem, req);
        free(req->ws_fields);
        if (req->squeeze)
            ioh__squeeze_put(req->squeeze);
    }
    conn->pulled = false;
    conn->as.http1.req = NULL;
    if (!hub->spare_req)
        hub->spare_req = req;
    else
        ioh__pool_put(&hub->reqs, req);
}

/* In pieces, since of more than 80 bytes gcc makes a `rep stos`, which is slow to begin. */
static void clear(ioh_req *req)
{
    memset(&req->user, 0, offsetof(ioh_req, copy_room) - offsetof(ioh_req, user));
    memset(&req->gathered, 0, offsetof(ioh_req, body_whole) - offsetof(ioh_req, gathered));
    memset(&req->body_whole, 0, offsetof(ioh_req, body) - offsetof(ioh_req, body_whole));
}

/* A request to parse a head into. */
static ioh_req *blank_req(ioh_conn *conn)
{
    struct ioh__hub *hub = conn->hub;
    ioh_req *req = hub->spare_req ? hub->spare_req : ioh__pool_get(&hub->reqs);
    hub->spare_req = NULL;
    if (!req) {
        ioh__conn_no_memory(conn);
        return NULL;
    }
    clear(req);
    req->conn = conn;
    req->number = conn->as.http1.number;
    req->head.fields = req->fields;
    req->send_body = true;
    return req;
}

static void log_refusal(ioh_conn *conn, const struct ioh__http1_fault *fault)
{
    char peer[64];
    enum ioh__limit hit;
    switch (fault->status) {
    case 408: /* told by the deadline, */
    case 503: /* and by the queue */
        return;
    case 413:
        hit = IOH__LIMIT_BODY;
        break;
    case 414:
        hit = IOH__LIMIT_URI;
        break;
    case 431:
        hit = IOH__LIMIT_HEAD;
        break;
    default:
        if (conn->hub->loop.log.on) {
            ioh__peer_text(&conn->peer, peer, sizeof peer);
            ioh__log_add(&conn->hub->loop.log, IOH_LOG_DEBUG, "%s: %d: %s, at byte %zu", peer,
                         fault->status, fault->reason, fault->offset);
        }
        return;
    }
    ioh__hub_hit(conn->hub, hit, &conn->peer, "%d: %s, at byte %zu", fault->status, fault->reason,
                 fault->offset);
}

void ioh__http1_refuse(ioh_conn *conn, const struct ioh__http1_fault *fault)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    log_refusal(conn, fault);
    if (!h->req) {
        h->req = blank_req(conn);
        if (!h->req)
            return;
        h->req->head = (struct ioh__http1_head){.fields = h->req->fields};
    }
    h->req->close = true;
    if (h->req->answer == IOH__ANSWER_STREAMING) {
        /* Too late for a status: the answer under way is cut, the peer sees that it is not whole. */
        ioh__conn_die(conn, IOH__END_LOCAL, true);
        return;
    }
    if (h->req->answer == IOH__ANSWER_NONE)
        ioh__respond_refusal(h->req, fault->status);
    if (conn->state == IOH__CONN_OPEN)
        h->step = IOH__HTTP1_FINISH;
}

/* ---- reading the request */

static bool speaks_websocket(const struct ioh_handler *h)
{
    return h->on_ws_upgrade || h->on_ws_message || h->on_ws_piece;
}

/* Has the connection made as many requests as it may? */
static bool was_last(const ioh_conn *conn)
{
    uint32_t most = conn->hub->options->max_requests;
    return most && conn->as.http1.number >= most;
}

/* When the first byte of the head that has just been read came. Of one that came in pieces only the deadline
 * tells, to a tick of the coarse clock. */
static uint64_t head_began(const ioh_conn *conn)
{
    if (!conn->as.http1.begun)
        return ioh__exact_ns();
    return (conn->phase_at - conn->hub->options->head_timeout_ms) * 1000000u;
}

/* Is this request the last that options.max_requests allows? */
static bool is_last(ioh_conn *conn)
{
    if (!was_last(conn))
        return false;
    ioh__hub_hit(conn->hub, IOH__LIMIT_MAX_REQUESTS, &conn->peer, "the last of %u requests",
                 conn->hub->options->max_requests);
    return true;
}

static bool has_body(const ioh_req *req)
{
    return req->head.chunked || req->head.content_length > 0;
}

static enum ioh__feed start_request(ioh_conn *conn, struct ioh__job *job)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    const struct ioh_handler *handler = handler_of(conn);
    ioh_req *req = h->req;
    if (req->head.upgrade_websocket && speaks_websocket(handler))
        return ioh__http1_begin_upgrade(conn, job);
    if (req->head.has_length && req->head.content_length > conn->hub->options->max_body_bytes) {
        struct ioh__http1_fault fault = {413, "announced body above max_body_bytes", 0};
        ioh__http1_refuse(conn, &fault);
        return IOH__FEED_MORE;
    }
    /* Without a body only a timer that runs already is kept busy: the time of the batch will do. */
    uint64_t now = has_body(req) ? ioh__hub_now(conn->hub) : conn->hub->loop.now;
    conn->phase_at = now + conn->hub->options->body_timeout_ms;
    h->step = IOH__HTTP1_BODY;
    if (!handler->on_request) {
        ioh__respond_refusal(req, 404);
        return IOH__FEED_MORE;
    }
    req->called = req->fresh = true;
    ioh__job_of_req(job, IOH__JOB_REQUEST, conn, req);
    return IOH__FEED_JOB;
}

/* A whole head lies at data. */
static enum ioh__feed take_head(ioh_conn *conn, const uint8_t *data, struct ioh__job *job)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    ioh_req *req = h->req;
    req->base = (const char *)data;
    req->drained = 0;
    ioh__http1_body_init(&req->body, &req->head);
    h->number = (h->number + 1) & ~IOH__TAKES_GZIP;
    req->number = h->number;
    req->close = !req->head.keep_alive || is_last(conn);
    req->continue_pending = req->head.expect_continue && has_body(req);
    if (ioh__timed(conn->hub))
        req->times = (struct ioh__times){.begin = head_began(conn)};
    h->scanned = 0;
    h->begun = false;
    h->step = IOH__HTTP1_START;
    ioh__count(&conn->hub->loop.count.requests, 1);
    if (!handler_of(conn)->on_classify)
        return start_request(conn, job);
    *job = (struct ioh__job){.kind = IOH__JOB_CLASSIFY, .conn = conn, .req = req};
    job->route.size = sizeof job->route;
    job->route.exec = conn->hub->options->exec;
    return IOH__FEED_JOB;
}

static enum ioh__feed feed_head(ioh_conn *conn, uint8_t *data, size_t len, size_t *used,
                                struct ioh__job *job)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    struct ioh__hub *hub = conn->hub;
    struct ioh__http1_fault fault;
    size_t scanned = h->scanned;
    if (len == 0) {
        conn->phase_at = ioh__hub_now(hub) + hub->options->idle_timeout_ms;
        return IOH__FEED_MORE;
    }
    ioh_req *req = blank_req(conn);
    if (!req)
        return IOH__FEED_MORE;
    size_t room = (size_t)(hub->loop.rx + IOH__RX_SIZE - data);
    switch (ioh__http1_parse((const char *)data, len, room, &scanned, &hub->limits, &req->head,
                             &fault)) {
    case IOH__HTTP1_DONE:
        h->req = req;
        *used = req->head.len;
        return take_head(conn, data, job);
    case IOH__HTTP1_FAULT:
        hub->spare_req = req;
        ioh__http1_refuse(conn, &fault);
        return IOH__FEED_MORE;
    case IOH__HTTP1_MORE:
        break;
    }
    hub->spare_req = req;
    h->scanned = (uint32_t)scanned;
    if (!h->begun) {
        h->begun = true;
        conn->phase_at = ioh__hub_now(hub) + hub->options->head_timeout_ms;
    }
    return IOH__FEED_MORE;
}

/* ---- answering and what comes after */

static bool complete_due(ioh_conn *conn, struct ioh__job *job)
{
    ioh_req *req = conn->as.http1.req;
    if (!req || !req->called || !handler_of(conn)->on_complete)
        return false;
    conn->gone_due = false; /* nothing is under way any more that on_peer_gone could be about */
    req->called = false;
    req->completing = true;
    req->said = IOH__ANSWER_DONE; /* whoever gave the answer: there is no other */
    ioh__job_of_req(job, IOH__JOB_COMPLETE, conn, req);
    job->code = req->status;
    job->bytes = req->body_sent;
    return true;
}

static enum ioh__feed feed_finish(ioh_conn *conn, struct ioh__job *job)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    if (complete_due(conn, job))
        return IOH__FEED_JOB;
    conn->gone_due = false;
    bool close = h->req->close || conn->peer_eof, whole = h->req->body_whole;
    ioh__http1_free_req(conn);
    if (conn->classified)
        ioh__crew_reset(conn->hub->crew, conn);
    conn->gone_told = false;
    h->step = IOH__HTTP1_HEAD;
    /* After a whole request nothing unread is left that could turn the close into a reset, unless the client did not
     * know that it was the last. */
    if (close)
        ioh__conn_close(conn, !whole || was_last(conn));
    return IOH__FEED_MORE;
}

static enum ioh__feed feed_answer(ioh_conn *conn, struct ioh__job *job)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    ioh_req *req = h->req;
    if (req->answer == IOH__ANSWER_NONE && req->deferred)
        return IOH__FEED_WAIT;
    if (req->answer == IOH__ANSWER_NONE) {
        ioh__log_add(&conn->hub->loop.log, IOH_LOG_WARN, "the host gave no answer: 500 is sent");
        ioh__respond_refusal(req, 500);
    }
    if (req->answer == IOH__ANSWER_STREAMING)
        return IOH__FEED_WAIT;
    h->step = IOH__HTTP1_FINISH;
    return feed_finish(conn, job);
}

static enum ioh__feed feed_step(ioh_conn *conn, uint8_t *data, size_t len, size_t *used,
                                struct ioh__job *job)
{
    enum ioh__feed got;
    switch ((enum ioh__http1_step)conn->as.http1.step) {
    case IOH__HTTP1_HEAD:
        return feed_head(conn, data, len, used, job);
    case IOH__HTTP1_START:
        return start_request(conn, job);
    case IOH__HTTP1_BODY:
        got = ioh__http1_feed_body(conn, data, len, used, job);
        if (got != IOH__FEED_MORE || conn->as.http1.step != IOH__HTTP1_ANSWER ||
            conn->state != IOH__CONN_OPEN)
            return got;
        return feed_answer(conn, job);
    case IOH__HTTP1_ANSWER:
        return feed_answer(conn, job);
    case IOH__HTTP1_FINISH:
        return feed_finish(conn, job);
    case IOH__HTTP1_UPGRADE: /* done() has not been told: cannot happen */
        break;
    }
    return IOH__FEED_WAIT;
}

static bool http1_ready(const ioh_conn *conn)
{
    const struct ioh__http1_conn *h = &conn->as.http1;
    if (h->step == IOH__HTTP1_HEAD)
        return !conn->paused && !conn->has_file && conn->out.bytes <= conn->hub->options->send_low;
    if (h->step == IOH__HTTP1_BODY)
        return !conn->paused || h->req->answer == IOH__ANSWER_DONE;
    if (h->step != IOH__HTTP1_ANSWER)
        return true;
    return h->req->answer == IOH__ANSWER_DONE ||
           (h->req->answer == IOH__ANSWER_NONE && !h->req->deferred);
}

/* Must the next step wait, since the peer does not read, or the host does not want to? */
static bool must_wait(const ioh_conn *conn)
{
    if (conn->paused)
        return !http1_ready(conn);
    return conn->as.http1.step == IOH__HTTP1_HEAD &&
           (conn->has_file || conn->out.bytes > conn->hub->options->send_high);
}

__attribute__((noinline)) static enum ioh__feed
feed_steps(ioh_conn *conn, uint8_t *data, size_t len, size_t *used, struct ioh__job *job)
{
    size_t at = 0;
    enum ioh__feed got = IOH__FEED_WAIT;
    while (!must_wait(conn)) {
        size_t n = 0;
        uint8_t before = conn->as.http1.step;
        got = feed_step(conn, data + at, len - at, &n, job);
        at += n;
        if (got != IOH__FEED_MORE)
            break;
        if (conn->proto != &ioh__proto_http1) {
            n = 0;
            got = conn->proto->feed(conn, data + at, len - at, &n, job);
            at += n;
            break;
        }
        if (conn->state != IOH__CONN_OPEN || before == conn->as.http1.step)
            break;
        got = IOH__FEED_WAIT;
    }
    *used = at;
    return got;
}

static enum ioh__feed http1_feed(ioh_conn *conn, uint8_t *data, size_t len, size_t *used,
                                 struct ioh__job *job)
{
    /* the shortest way to the callback that most often follows another */
    if (conn->as.http1.step == IOH__HTTP1_FINISH && complete_due(conn, job))
        return IOH__FEED_JOB;
    return feed_steps(conn, data, len, used, job);
}

/* After on_request: the straight way of most, with nothing to read any more, and all said. */
static bool is_straight(const ioh_conn *conn, const ioh_req *req)
{
    return conn->as.http1.step == IOH__HTTP1_BODY && req->answer == IOH__ANSWER_DONE &&
           !has_body(req);
}

static void finish_straight(ioh_conn *conn, ioh_req *req)
{
    req->body_whole = true;
    conn->phase_at = 0;
    conn->as.http1.step = IOH__HTTP1_FINISH;
}

bool ioh__http1_next(ioh_conn *conn, struct ioh__job *job)
{
    ioh_req *req = job->req;
    if (conn->state != IOH__CONN_OPEN || !handler_of(conn)->on_complete || !is_straight(conn, req))
        return false;
    req->fresh = false;
    finish_straight(conn, req);
    return complete_due(conn, job);
}

static void http1_done(ioh_conn *conn, struct ioh__job *job)
{
    if (job->kind == IOH__JOB_REQUEST) {
        job->req->fresh = false;
        if (is_straight(conn, job->req))
            finish_straight(conn, job->req);
        return;
    }
    switch (job->kind) {
    case IOH__JOB_CLASSIFY:
        ioh__crew_route(conn->hub->crew, conn, &job->route);
        break;
    case IOH__JOB_PULL:
        if (job->req->body_sent != job->bytes)
            job->req->more_wanted = true; /* else it has nothing now, and will tell when it has */
        break;
    case IOH__JOB_WS_UPGRADE:
        ioh__http1_upgrade_decided(conn, job);
        break;
    default:
        break;
    }
}

/* ---- what else happens to a connection */

static void http1_eof(ioh_conn *conn)
{
    /* Half-closed by a client that still waits for its answer (RFC 9112 9.6 allows it to). */
    if (conn->as.http1.step == IOH__HTTP1_HEAD)
        ioh__conn_close(conn, false);
    else if (conn->as.http1.step < IOH__HTTP1_ANSWER && !conn->as.http1.req->deferred)
        ioh__conn_die(conn, IOH__END_PEER, false);
}

static void http1_timeout(ioh_conn *conn)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    static const struct ioh__http1_fault late = {.status = 408};
    if (h->req && ioh__comment_at(h->req)) {
        ioh__respond_comment(h->req);
        return;
    }
    if (conn->busy ||
        conn->waiting) { /* a callback that takes long, or has just come back, is not the peer's fault */
        conn->phase_at = conn->hub->loop.now + conn->hub->options->body_timeout_ms;
        return;
    }
    ioh__count(&conn->hub->loop.count.closed_by_deadline, 1);
    conn->counted = true;
    if (h->step == IOH__HTTP1_HEAD && !h->begun) {
        ioh__hub_hit(conn->hub, IOH__LIMIT_IDLE_TIME, &conn->peer, "it was idle for too long");
        ioh__conn_die(conn, IOH__END_LOCAL, false);
    } else {
        bool head = h->step == IOH__HTTP1_HEAD;
        ioh__hub_hit(conn->hub, head ? IOH__LIMIT_HEAD_TIME : IOH__LIMIT_BODY_TIME, &conn->peer,
                     "408: the %s took too long", head ? "head" : "body");
        ioh__http1_refuse(conn, &late);
    }
    if (conn->state == IOH__CONN_OPEN) {
        conn->waiting = true; /* lets the turn feed it: the answer is there, FINISH is next */
        conn->phase_at = 0;
    }
}

void ioh__http1_end_events(ioh_conn *conn)
{
    ioh_req *req = conn->as.http1.req;
    struct ioh__reply r = {.kind = IOH__REPLY_END};
    if (!req || !req->event_stream)
        return;
    req->close = true;
    ioh__reply_apply(req, &r);
}

static void http1_stop(ioh_conn *conn)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    if (h->req)
        h->req->close = true;
    ioh__http1_end_events(conn);
    if (!h->req && !h->begun && conn->in_len == 0)
        ioh__conn_close(conn, false);
}

/* ---- answers that are asked for */

bool ioh__http1_pull_due(const ioh_conn *conn)
{
    const ioh_req *req = conn->as.http1.req;
    return !conn->busy && conn->state == IOH__CONN_OPEN && req->more_wanted &&
           req->answer == IOH__ANSWER_STREAMING && conn->out.bytes <= conn->hub->options->send_low;
}

void ioh__http1_pull(ioh_conn *conn, struct ioh__job *job)
{
    ioh_req *req = conn->as.http1.req;
    uint64_t room = conn->hub->options->send_high - conn->out.bytes;
    if (req->left >= 0 && (uint64_t)req->left < room)
        room = (uint64_t)req->left;
    req->more_wanted = false;
    *job = (struct ioh__job){.kind = IOH__JOB_PULL,
                             .conn = conn,
                             .req = req,
                             .len = room,
                             .bytes = req->body_sent,
                             .more = req->more,
                             .user = req->more_user};
}

static struct ioh_str http1_path(const ioh_conn *conn)
{
    const ioh_req *req = conn->as.http1.req;
    return req && req->base ? ioh_req_path(req) : (struct ioh_str){NULL, 0};
}

static bool http1_engaged(const ioh_conn *conn)
{
    return conn->as.http1.req && conn->as.http1.req->called;
}

/* RFC 9110 15.6.4. The callback that was to run was the request's first. */
static void http1_overloaded(ioh_conn *conn)
{
    struct ioh__http1_fault full = {503, "the pool's queue is full", 0};
    conn->as.http1.req->called = false;
    ioh__http1_refuse(conn, &full);
}

ioh_req *ioh__http1_request(ioh_conn *conn, uint32_t number)
{
    ioh_req *req = conn->proto == &ioh__proto_http1 ? conn->as.http1.req : NULL;
    return req && req->number == (number & ~IOH__TAKES_GZIP) ? req : NULL;
}

static bool http1_gone(ioh_conn *conn, struct ioh__job *job)
{
    if (complete_due(conn, job)) {
        if (conn->as.http1.req->answer == IOH__ANSWER_NONE)
            job->code = 0;
        return true;
    }
    ioh__http1_free_req(conn);
    return false;
}

const struct ioh__proto_ops ioh__proto_http1 = {
    http1_feed,      http1_done, http1_ready,   http1_eof,        http1_timeout, http1_stop,
    ioh__http1_keep, http1_path, http1_engaged, http1_overloaded, http1_gone};
