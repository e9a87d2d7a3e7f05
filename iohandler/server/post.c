/* From any thread to a connection named by its id (include/iohandler/server.h, ws.h, req.h). */
#include <iohandler/error.h>
#include <iohandler/req.h>
#include <iohandler/ws.h>

#include "base/buf.h"
#include "conn/req.h"
#include "conn/single.h"
#include "server/server.h"

/* NULL: out of memory. The message is consumed. */
static int give(ioh_server *s, struct ioh__message *m)
{
    if (!m)
        return IOH_ENOMEM;
    unsigned loop = ioh__id_loop(m->id);
    bool running = ioh__server_phase(s) == IOH__SERVER_RUNNING;
    if (running && s->options.type == IOH_THREADS)
        return ioh__single_give(&s->crew, m);
    if (running && m->id >> 32 && loop < s->hub_count)
        return ioh__message_give(s->hubs[loop], m);
    ioh__message_free(m);
    return IOH_EGONE;
}

int ioh_run_on(ioh_server *s, ioh_conn_id id, void (*fn)(ioh_conn *conn, void *user), void *user,
               void (*gone)(void *user))
{
    struct ioh__message *m = fn ? ioh__message_new(IOH__MESSAGE_RUN, id, 0) : NULL;
    if (!fn)
        return IOH_EINVAL;
    if (m) {
        m->as.run.fn = fn;
        m->as.run.gone = gone;
        m->as.run.user = user;
    }
    return give(s, m);
}

int ioh_ws_post(ioh_server *s, ioh_conn_id id, ioh_buf *frame)
{
    bool ok = frame && frame->is_frame;
    struct ioh__message *m = ok ? ioh__message_new(IOH__MESSAGE_FRAME, id, 0) : NULL;
    if (!m) {
        ioh_buf_unref(frame);
        return ok ? IOH_ENOMEM : IOH_EINVAL;
    }
    m->as.frame = frame;
    return give(s, m);
}

int ioh_post_close(ioh_server *s, ioh_conn_id id)
{
    return give(s, ioh__message_new(IOH__MESSAGE_CLOSE, id, 0));
}

int ioh_post_abort(ioh_server *s, ioh_conn_id id)
{
    return give(s, ioh__message_new(IOH__MESSAGE_ABORT, id, 0));
}

/* ---- answers that were deferred */

static int reply(ioh_server *s, struct ioh_req_id id, struct ioh__reply *r,
                 const struct ioh_header *headers, size_t count)
{
    int rc = ioh__reply_check(r, headers, count);
    if (rc)
        return rc;
    struct ioh__coded coded = {.list = NULL};
    bool begins = r->kind == IOH__REPLY_WHOLE || r->kind == IOH__REPLY_START;
    if (begins && s->compress && ioh__compress_suits(s->compress, r, &coded))
        ioh__compress_reply(s->compress, (id.number & IOH__TAKES_GZIP) != 0, r, &coded);
    struct ioh__message *m = ioh__reply_message(id, r);
    ioh__coded_free(&coded);
    if (m)
        m->deferred = true;
    return give(s, m);
}

int ioh_reply(ioh_server *server, struct ioh_req_id id, int status,
              const struct ioh_header *headers, size_t count, const void *body, size_t len)
{
    struct ioh__reply r = {.kind = IOH__REPLY_WHOLE, .status = status, .data = body, .len = len};
    return reply(server, id, &r, headers, count);
}

int ioh_reply_start(ioh_server *server, struct ioh_req_id id, int status,
                    const struct ioh_header *headers, size_t count, int64_t length)
{
    struct ioh__reply r = {.kind = IOH__REPLY_START, .status = status, .length = length};
    return reply(server, id, &r, headers, count);
}

int ioh_reply_data(ioh_server *server, struct ioh_req_id id, const void *data, size_t len)
{
    struct ioh__reply r = {.kind = IOH__REPLY_DATA, .data = data, .len = len};
    return reply(server, id, &r, NULL, 0);
}

int ioh_reply_data_buf(ioh_server *server, struct ioh_req_id id, ioh_buf *buf)
{
    struct ioh__reply r = {.kind = IOH__REPLY_DATA, .buf = buf};
    return buf ? reply(server, id, &r, NULL, 0) : IOH_EINVAL;
}

int ioh_reply_end(ioh_server *server, struct ioh_req_id id)
{
    return ioh_reply_end_trailers(server, id, NULL, 0);
}

int ioh_reply_end_trailers(ioh_server *server, struct ioh_req_id id,
                           const struct ioh_header *headers, size_t count)
{
    struct ioh__reply r = {.kind = IOH__REPLY_END};
    return reply(server, id, &r, headers, count);
}

int ioh_reply_informational(ioh_server *server, struct ioh_req_id id, int status,
                            const struct ioh_header *headers, size_t count)
{
    struct ioh__reply r = {.kind = IOH__REPLY_INFORM, .status = status};
    return reply(server, id, &r, headers, count);
}

int ioh_reply_more(ioh_server *server, struct ioh_req_id id)
{
    struct ioh__reply r = {.kind = IOH__REPLY_MORE};
    return reply(server, id, &r, NULL, 0);
}
