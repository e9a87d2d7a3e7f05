/* Messages (see message.h): posting them from any thread, and doing what they say on the thread that
 * holds the loop. */
#include "conn/message.h"

#include <iohandler/error.h>
#include <iohandler/ws.h>
#include <stdlib.h>
#include <string.h>

#include "conn/acceptor.h"
#include "conn/req.h"
#include "conn/topics.h"
#include "conn/turn.h"
#include "conn/work.h"
#include "conn/ws_conn.h"

/* ---- any thread */

struct ioh__message *ioh__message_new(enum ioh__message_kind kind, ioh_conn_id id, size_t text_len)
{
    struct ioh__message *m = malloc(sizeof *m + text_len);
    if (m) {
        memset(m, 0, sizeof *m);
        m->head.kind = kind;
        m->id = id;
    }
    return m;
}

static void give_back(struct ioh__message *m)
{
    if (m->head.kind == IOH__MESSAGE_FRAME || m->head.kind == IOH__MESSAGE_WS_PIECE)
        ioh_buf_unref(m->as.frame);
    if (m->head.kind == IOH__MESSAGE_REPLY) {
        ioh_buf_unref(m->as.reply.reply.buf);
        ioh__file_unref(m->as.reply.reply.file);
        ioh_response_destroy(m->as.reply.reply.shared);
        ioh__squeeze_put(m->as.reply.reply.squeeze);
    }
    if (m->head.kind == IOH__MESSAGE_SUBSCRIBE)
        ioh__sub_drop(m->as.sub);
    if (m->head.kind == IOH__MESSAGE_UNSUBSCRIBE)
        ioh__topics_put(m->as.unsubscribe.topics, m->as.unsubscribe.topic);
}

void ioh__message_free(struct ioh__message *m)
{
    give_back(m);
    free(m);
}

int ioh__message_give(struct ioh__hub *hub, struct ioh__message *m)
{
    if (!m)
        return IOH_ENOMEM;
    if (ioh__mailbox_post(&hub->loop.mailbox, &m->head.mail))
        return 0;
    ioh__message_free(m);
    return IOH_EGONE;
}

/* ---- the thread that holds the loop */

static ioh_conn *find_conn(struct ioh__hub *hub, ioh_conn_id id)
{
    struct ioh__chan *chan;
    if (hub->single) {
        if (id != ((uint64_t)hub->era << 32 | hub->number))
            return NULL;
        chan = hub->only;
    } else {
        chan =
            ioh__loop_find(&hub->loop, (uint32_t)id & (IOH__MAX_SLOTS - 1), (uint32_t)(id >> 32));
    }
    return chan && chan->kind == IOH__CHAN_CONN ? ioh__container(chan, ioh_conn, chan) : NULL;
}

/* fn is a callback of the connection, so it waits for the one that runs. */
static bool handle_run(ioh_conn *conn, struct ioh__message *m, struct ioh__job *job)
{
    if (conn && (conn->busy || conn->runs)) {
        struct ioh__message *copy = malloc(sizeof *copy);
        if (copy) {
            *copy = *m;
            copy->head.mail.next = NULL;
            struct ioh__message **end = &conn->runs;
            while (*end)
                end = (struct ioh__message **)&(*end)->head.mail.next;
            *end = copy;
            ioh__conn_touch(conn);
            return false;
        }
        conn = NULL; /* out of memory: at least gone() is called */
    }
    *job = (struct ioh__job){.kind = conn ? IOH__JOB_RUN : IOH__JOB_GONE,
                             .conn = conn,
                             .run = m->as.run.fn,
                             .gone = m->as.run.gone,
                             .user = m->as.run.user};
    return conn || job->gone;
}

static void handle_reply(struct ioh__hub *hub, ioh_conn *conn, struct ioh__message *m)
{
    ioh_req *req = conn ? ioh__http1_request(conn, m->as.reply.number) : NULL;
    struct ioh__reply *reply = &m->as.reply.reply;
    if (reply->fields.len)
        reply->fields.text = ioh__message_text(m);
    int rc = IOH_EGONE;
    if (req) {
        rc = ioh__reply_apply(req, reply);
        reply->buf = NULL;
        reply->file = NULL;
        reply->squeeze = NULL;
    }
    give_back(m);
    if (rc < 0 && m->deferred) {
        ioh__count(&hub->loop.count.late_answers, 1);
        ioh__log_add(&hub->loop.log, IOH_LOG_DEBUG, "a deferred answer is dropped: %s",
                     ioh_strerror(rc));
    }
}

/* Nobody can be told any more that there is no memory for it, so the connection ends, as it does when it sends. */
static void handle_subscribe(ioh_conn *conn, struct ioh__message *m)
{
    if (!conn)
        ioh__sub_drop(m->as.sub);
    else if (ioh__topics_subscribe(conn, m->as.sub) == IOH_ENOMEM)
        ioh__conn_no_memory(conn);
}

static void handle_for_conn(struct ioh__hub *hub, ioh_conn *conn, struct ioh__message *m)
{
    switch (m->head.kind) {
    case IOH__MESSAGE_FRAME:
        if (conn)
            ioh__ws_send_frame_now(conn, m->as.frame);
        else
            ioh_buf_unref(m->as.frame);
        break;
    case IOH__MESSAGE_WS_PIECE:
        if (conn)
            ioh__ws_piece_now(conn, m->as.frame);
        else
            ioh_buf_unref(m->as.frame);
        break;
    case IOH__MESSAGE_WS_PIECES:
        if (conn)
            ioh__ws_pieces_now(conn, m->as.pieces);
        break;
    case IOH__MESSAGE_WS_CLOSE:
        if (conn)
            ioh__ws_close_now(conn, m->as.ws_close.code, m->as.ws_close.reason, m->as.ws_close.len);
        break;
    case IOH__MESSAGE_CLOSE:
        if (conn)
            ioh__conn_close(conn, true);
        break;
    case IOH__MESSAGE_ABORT:
        if (conn)
            ioh__conn_die(conn, IOH__END_LOCAL, true);
        break;
    case IOH__MESSAGE_PAUSE:
        if (conn)
            conn->paused = true;
        break;
    case IOH__MESSAGE_RESUME:
        if (conn)
            ioh__conn_resume(conn);
        break;
    case IOH__MESSAGE_SUBSCRIBE:
        handle_subscribe(conn, m);
        break;
    case IOH__MESSAGE_UNSUBSCRIBE:
        if (conn)
            ioh__topics_unsubscribe(conn, m->as.unsubscribe.topic);
        give_back(m);
        break;
    case IOH__MESSAGE_TOPIC_RING:
        if (conn)
            ioh__topics_drain(conn);
        break;
    default:
        handle_reply(hub, conn, m);
        break;
    }
    if (conn && m->full && conn->state != IOH__CONN_DEAD)
        ioh__conn_too_much(conn);
    if (conn) /* before it is no longer counted as posted: it must never be counted nowhere */
        atomic_store_explicit(&conn->queued, conn->out.bytes, memory_order_relaxed);
    if (m->conn) /* of a callback that has not come back yet: the struct is there, dead or alive */
        atomic_fetch_sub_explicit(&m->conn->posted, m->posted, memory_order_relaxed);
    if (conn && m->want_drain)
        conn->want_drain = true;
    if (conn)
        ioh__conn_touch(conn);
}

bool ioh__mail_handle(struct ioh__hub *hub, struct ioh__mail *mail, struct ioh__job *job)
{
    struct ioh__envelope *head = ioh__container(mail, struct ioh__envelope, mail);
    if (head->kind == IOH__MESSAGE_DONE) {
        ioh__work_done(hub, ioh__container(head, struct ioh__work, done));
        return false;
    }
    if (head->kind == IOH__MESSAGE_PUBLISH) {
        ioh__topics_take(hub, ioh__container(head, struct ioh__delivery, head));
        return false;
    }
    struct ioh__message *m = ioh__container(head, struct ioh__message, head);
    bool made = false;
    switch (head->kind) {
    case IOH__MESSAGE_ACCEPTED:
        ioh__accepted(hub, m->as.accepted.fd, &m->as.accepted.peer, m->as.accepted.listener);
        break;
    case IOH__MESSAGE_STOP:
        ioh__turn_stop(hub, m->as.drain_ms);
        break;
    case IOH__MESSAGE_RUN:
        made = handle_run(find_conn(hub, m->id), m, job);
        break;
    default:
        handle_for_conn(hub, find_conn(hub, m->id), m);
        break;
    }
    free(m);
    return made;
}
