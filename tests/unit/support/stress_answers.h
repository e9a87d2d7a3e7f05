/* The HTTP callbacks of a host under stress (stress.h). */
#ifndef IOH_TESTS_STRESS_ANSWERS_H
#define IOH_TESTS_STRESS_ANSWERS_H

#include "stress_errand.h"

/* "/K/N", also "/ws/N" as 'W'; the strings of a request must be as they were until on_complete returns. */
static inline bool read_target(const ioh_req *req, char *kind, uint32_t *n)
{
    struct ioh_str path = ioh_req_path(req);
    size_t at = path.len > 3 && memcmp(path.ptr, "/ws/", 4) == 0 ? 4 : 3;
    if (!path.ptr || path.len <= at || path.ptr[at - 1] != '/')
        return false;
    *kind = path.ptr[1];
    for (*n = 0; at < path.len; at++) {
        if (path.ptr[at] < '0' || path.ptr[at] > '9')
            return false;
        *n = *n * 10 + (uint32_t)(path.ptr[at] - '0');
    }
    return true;
}

static inline struct link_seen *enter_request(ioh_req *req)
{
    struct link_seen *l = enter(ioh_req_conn(req));
    char kind = 0;
    uint32_t n = 0;
    SURE(l->req == req);
    SURE(ioh_req_user(req) == l);
    SURE(read_target(req, &kind, &n) && kind == l->kind && n == l->n);
    return l;
}

/* ---- answers */

static inline void answer_whole(struct link_seen *l, ioh_req *req, const char *bytes, size_t len)
{
    char text[12];
    struct ioh_header field = {"X-N", text};
    snprintf(text, sizeof text, "%u", l->n);
    linger(&l->seed);
    if (l->n % 2)
        SENT(ioh_respond(req, 200, &field, 1, bytes, len));
    else
        SENT(ioh_respond_buf(req, 200, &field, 1, ioh_buf_copy(bytes, len)));
    l->answered = true;
    SURE(ioh_respond(req, 200, NULL, 0, NULL, 0) < 0);
}

static inline void answer_pattern(struct link_seen *l, ioh_req *req)
{
    size_t len = body_len(l->n);
    char *bytes = malloc(len + 1);
    if (!bytes)
        abort();
    fill_pattern(bytes, l->n, 0, len);
    answer_whole(l, req, bytes, len);
    free(bytes);
}

static inline void wait_sent(ioh_conn *conn)
{
    bool may = stress.config->type == IOH_EPOLL && !conn->hub->guarded;
    int rc = ioh_wait_sent(conn, 10000);
    SURE(rc == 0 || rc == IOH_EGONE || (may && rc == IOH_ESTATE));
}

static inline void answer_in_pieces(struct link_seen *l, ioh_req *req)
{
    size_t len = body_len(l->n), at = 0;
    char text[12], *bytes = malloc(len + 1);
    struct ioh_header field = {"X-N", text};
    if (!bytes)
        abort();
    snprintf(text, sizeof text, "%u", l->n);
    fill_pattern(bytes, l->n, 0, len);
    SENT(ioh_respond_start(req, 200, &field, 1, l->n % 2 ? (int64_t)len : -1));
    while (at < len) {
        size_t piece = 1 + roll(&l->seed) % (1 + len / 3);
        piece = piece < len - at ? piece : len - at;
        linger(&l->seed);
        if (l->kind == WAIT_SENT)
            wait_sent(ioh_req_conn(req));
        if (roll(&l->seed) % 2)
            SENT(ioh_respond_data(req, bytes + at, piece));
        else
            SENT(ioh_respond_data_buf(req, ioh_buf_copy(bytes + at, piece)));
        at += piece;
    }
    linger(&l->seed);
    SENT(ioh_respond_end(req));
    l->answered = true;
    free(bytes);
}

/* Answers that end the connection, and what ends it. */
static inline void answer_last(struct link_seen *l, ioh_req *req)
{
    const struct ioh_req_id none = {0};
    ioh_conn *conn = ioh_req_conn(req);
    switch (l->kind) {
    case LAST:
        ioh_respond_close(req);
        answer_pattern(l, req);
        break;
    case CLOSE:
        answer_pattern(l, req);
        linger(&l->seed);
        ioh_close(conn);
        break;
    case ANSWER_ABORT:
        answer_pattern(l, req);
        linger(&l->seed);
        ioh_abort(conn);
        break;
    case ABORT:
        linger(&l->seed);
        ioh_abort(conn);
        SURE(ioh_respond(req, 200, NULL, 0, NULL, 0) == IOH_EGONE);
        break;
    case FAR_CLOSE:
    case FAR_ABORT:
        answer_pattern(l, req);
        give(l->kind == FAR_CLOSE ? GO_CLOSE : GO_ABORT, conn, none, l->n);
        break;
    default: /* SILENCE */
        break;
    }
}

static inline void answer(struct link_seen *l, ioh_req *req)
{
    const struct ioh_req_id none = {0};
    ioh_conn *conn = ioh_req_conn(req);
    switch (l->kind) {
    case STREAM:
    case WAIT_SENT:
        answer_in_pieces(l, req);
        break;
    case SHARED:
        SENT(ioh_respond_shared(req, stress.shared));
        l->answered = true;
        break;
    case LATER:
    case PIECES:
        l->deferred = true;
        give(l->kind == LATER ? GO_REPLY : GO_PIECES, conn, ioh_defer(req), l->n);
        break;
    case ERRAND:
        if (l->n % 2)
            give(GO_RUN, conn, none, l->n);
        answer_pattern(l, req);
        if (l->n % 2 == 0)
            give(GO_RUN, conn, none, l->n);
        break;
    case PAUSE:
        ioh_pause(conn);
        answer_pattern(l, req);
        give(GO_RESUME, conn, none, l->n);
        break;
    case RESUME:
        ioh_pause(conn);
        linger(&l->seed);
        answer_pattern(l, req);
        linger(&l->seed);
        ioh_resume(conn);
        break;
    case WHOLE:
    case EARLY:
        answer_pattern(l, req);
        break;
    default:
        answer_last(l, req);
        break;
    }
}

/* ---- the callbacks */

static inline void stress_on_request(ioh_req *req, void *state)
{
    ioh_conn *conn = ioh_req_conn(req);
    struct link_seen *l = enter(conn);
    (void)state;
    SURE(l->req == NULL && ioh_req_user(req) == NULL && l->ws_opens == 0);
    l->req = req;
    ioh_req_set_user(req, l);
    SURE(read_target(req, &l->kind, &l->n));
    l->answered = l->body_ended = l->deferred = false;
    l->body_len = 0;
    bump(&stress.requests);
    if (l->kind == EARLY || (l->kind != ECHO && mix(l->n) % 2))
        answer(l, req);
    leave(conn, l);
}

static inline void stress_on_body(ioh_req *req, const void *data, size_t len, void *state)
{
    struct link_seen *l = enter_request(req);
    (void)state;
    SURE(l->kind == ECHO && !l->answered && !l->body_ended && len > 0);
    SURE(l->body_len + len <= request_len(l->n));
    SURE(is_pattern(data, l->n, l->body_len, len));
    l->body = realloc(l->body, l->body_len + len);
    if (!l->body)
        abort();
    linger(&l->seed);
    memcpy(l->body + l->body_len, data, len);
    l->body_len += len;
    leave(ioh_req_conn(req), l);
}

static inline void stress_on_request_end(ioh_req *req, void *state)
{
    struct link_seen *l = enter_request(req);
    (void)state;
    SURE(!l->answered && !l->body_ended);
    l->body_ended = true;
    if (l->kind == ECHO) {
        SURE(l->body_len == request_len(l->n));
        answer_whole(l, req, l->body, l->body_len);
    } else if (!l->deferred) {
        answer(l, req);
    }
    leave(ioh_req_conn(req), l);
}

static inline void stress_on_complete(ioh_req *req, int status, uint64_t bytes, void *state)
{
    struct link_seen *l = enter_request(req);
    (void)state;
    SURE(status == 200 || status == 0 || (l->kind == SILENCE && status == 500));
    SURE(bytes <= 80000);
    SURE(ioh_respond(req, 200, NULL, 0, NULL, 0) < 0);
    free(l->body);
    l->body = NULL;
    l->req = NULL;
    bump(&stress.completes);
    leave(ioh_req_conn(req), l);
}

#endif
