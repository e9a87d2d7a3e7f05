/* The body of a request on its way to the host: piece by piece to on_body, or gathered; with trailers; or
 * dropped, once the answer is there. Owns what a request keeps of the bytes read. The thread that holds the
 * loop.
 *
 * A gathered body that arrived in one piece stays where it was read and is not copied, as long as its
 * request's callbacks run on the loop; ioh__http1_keep() moves it before the receive buffer is used again.
 */
#include <string.h>

#include "conn/http1.h"

/* ---- bytes that are kept */

/* Room for `more` bytes behind those that are there. most: what there will be in the end. Grows by doubling,
 * and not at once to what a client has announced: announcing is cheap. */
static bool grow(struct ioh__mem *mem, struct ioh__block *block, size_t more, uint64_t most)
{
    size_t need = block->len + more, room = need;
    if (need <= block->room)
        return true;
    if (room < most)
        room = room < most / 2 ? room * 2 : (size_t)most;
    char *data = ioh__mem_get(mem, room, &room);
    if (!data)
        return false;
    if (block->len)
        memcpy(data, block->data, block->len);
    if (block->room)
        ioh__mem_put(mem, block->data, block->room);
    block->data = data;
    block->room = room;
    return true;
}

static bool append(struct ioh__mem *mem, struct ioh__block *block, struct ioh_str piece,
                   uint64_t most)
{
    if (!grow(mem, block, piece.len, most))
        return false;
    memcpy(block->data + block->len, piece.ptr, piece.len);
    block->len += piece.len;
    return true;
}

static void drop(struct ioh__mem *mem, struct ioh__block *block)
{
    if (block->room)
        ioh__mem_put(mem, block->data, block->room);
    *block = (struct ioh__block){NULL, 0, 0};
}

void ioh__http1_drop_input(struct ioh__mem *mem, ioh_req *req)
{
    ioh__mem_put(mem, req->copy, req->copy_room);
    drop(mem, &req->gathered);
    drop(mem, &req->trailers);
}

static bool keep_head(struct ioh__mem *mem, ioh_req *req)
{
    req->copy = ioh__mem_get(mem, req->head.len, &req->copy_room);
    if (!req->copy) { /* what the last callbacks may ask for is empty */
        req->copy_room = 0;
        req->head = (struct ioh__http1_head){.fields = req->fields};
        req->base = "";
        return false;
    }
    memcpy(req->copy, req->base, req->head.len);
    req->base = req->copy;
    return true;
}

static bool keep_gathered(struct ioh__mem *mem, ioh_req *req)
{
    struct ioh__block *g = &req->gathered;
    uint64_t most = req->head.chunked || req->body_whole ? g->len : req->head.content_length;
    if (grow(mem, g, 0, most))
        return true;
    *g = (struct ioh__block){NULL, 0, 0};
    return false;
}

void ioh__http1_keep(ioh_conn *conn)
{
    ioh_req *req = conn->as.http1.req;
    struct ioh__mem *mem = &conn->hub->loop.mem;
    if (!req || !req->base)
        return;
    if ((!req->copy && !keep_head(mem, req)) || (req->gathered.len && !keep_gathered(mem, req)))
        ioh__conn_no_memory(conn);
}

/* ---- gathering */

/* false: out of memory. */
static bool gather(ioh_conn *conn, struct ioh_str piece)
{
    ioh_req *req = conn->as.http1.req;
    struct ioh__block *g = &req->gathered;
    if (g->len == 0) {
        *g = (struct ioh__block){(char *)(uintptr_t)piece.ptr, piece.len, 0};
        return true;
    }
    return append(&conn->hub->loop.mem, g, piece,
                  req->head.chunked ? UINT64_MAX : req->head.content_length);
}

/* Only what may be told is kept; in place. */
static void sift_trailers(struct ioh__block *trailers)
{
    struct ioh_str name, value;
    const char *at = trailers->data, *end = at + trailers->len;
    char *to = trailers->data;
    for (const char *line = at; ioh__http1_trailer_next(&at, end, &name, &value); line = at) {
        if (!ioh__http1_trailer_allowed(name.ptr, name.len))
            continue;
        memmove(to, line, (size_t)(at - line));
        to += at - line;
    }
    trailers->len = (size_t)(to - trailers->data);
}

/* ---- the step BODY */

/* An answer came before the body was whole: how much more may be read and dropped? */
static bool too_much_to_drain(const ioh_req *req)
{
    return req->close || req->drained > IOH__DRAIN_MAX;
}

static enum ioh__feed body_ended(ioh_conn *conn, struct ioh__job *job)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    ioh_req *req = h->req;
    req->body_whole = true;
    conn->phase_at = ioh__comment_at(req); /* else 0: from here on it is the host's time */
    h->step = IOH__HTTP1_ANSWER;
    if (req->trailers.len)
        sift_trailers(&req->trailers);
    if (req->answer == IOH__ANSWER_DONE || !conn->hub->handler->on_request_end)
        return IOH__FEED_MORE;
    *job = (struct ioh__job){.kind = IOH__JOB_REQUEST_END, .conn = conn, .req = req};
    return IOH__FEED_JOB;
}

/* A piece of the body or of its trailers; true: a job. */
static bool take_piece(ioh_conn *conn, bool trailer, struct ioh_str piece, struct ioh__job *job)
{
    ioh_req *req = conn->as.http1.req;
    struct ioh__mem *mem = &conn->hub->loop.mem;
    bool ok = true;
    if (req->answer == IOH__ANSWER_DONE)
        return false;
    if (trailer) {
        ok = append(mem, &req->trailers, piece, IOH__TRAILER_MAX);
    } else if (req->gathers) {
        ok = gather(conn, piece);
    } else if (conn->hub->handler->on_body) {
        *job = (struct ioh__job){.kind = IOH__JOB_BODY, .conn = conn, .req = req};
        job->data = (void *)(uintptr_t)piece.ptr;
        job->len = piece.len;
        return true;
    }
    if (!ok)
        ioh__conn_no_memory(conn);
    return false;
}

/* How long the body may be. */
static uint64_t body_max(const ioh_conn *conn)
{
    const ioh_req *req = conn->as.http1.req;
    uint64_t most = conn->hub->options->max_body_bytes;
    return req->gathers && req->gather_max < most ? req->gather_max : most;
}

enum ioh__feed ioh__http1_feed_body(ioh_conn *conn, uint8_t *data, size_t len, size_t *used,
                                    struct ioh__job *job)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    ioh_req *req = h->req;
    struct ioh__http1_fault fault;
    struct ioh_str piece;
    uint64_t most = body_max(conn);
    while (conn->state == IOH__CONN_OPEN) {
        size_t n = 0;
        enum ioh__http1_body_result got = ioh__http1_body_next(
            &req->body, (const char *)data + *used, len - *used, most, &n, &piece, &fault);
        *used += n;
        if (req->answer == IOH__ANSWER_DONE)
            req->drained += n;
        if (got == IOH__BODY_END)
            return body_ended(conn, job);
        if (req->answer == IOH__ANSWER_DONE && too_much_to_drain(req)) {
            h->step = IOH__HTTP1_FINISH;
            req->close = true;
            return IOH__FEED_MORE;
        }
        if (got == IOH__BODY_FAULT) {
            fault.offset += req->head.len;
            ioh__http1_refuse(conn, &fault);
            return IOH__FEED_MORE;
        }
        if (n) {
            req->continue_pending = false; /* it did not wait */
            conn->phase_at =
                ioh__conn_prolong(conn, conn->phase_at, n, conn->hub->options->body_timeout_ms);
        }
        if (got == IOH__BODY_MORE)
            break;
        if (take_piece(conn, got == IOH__BODY_TRAILER, piece, job))
            return IOH__FEED_JOB;
    }
    if (req->continue_pending && req->answer == IOH__ANSWER_NONE)
        ioh__respond_continue(req);
    return IOH__FEED_MORE;
}
