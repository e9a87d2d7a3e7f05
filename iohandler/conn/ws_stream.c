/* Messages sent in pieces (include/iohandler/ws.h), and what has to wait for their end.
 *
 *     what callbacks see:  conn->face  WS --first piece--> WS_SENDING --last piece--> WS
 *     the loop:            as.ws.sending                no, yes, yes and messages of others are held
 *
 * The two differ while pieces of a callback that runs elsewhere are on their way. Fragments of two messages must not
 * stand in turn (RFC 6455 5.4), so what ioh_ws_post() and ioh_publish() bring meanwhile goes to a queue of its own,
 * which is appended when the last piece has been queued. Few connections ever have one, so these queues are a list of
 * the hub's and not a field of the connection.
 */
#include <assert.h>
#include <iohandler/conn.h>
#include <iohandler/error.h>
#include <iohandler/ws.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "conn/message.h"
#include "conn/reach.h"
#include "conn/ws_conn.h"
#include "proto/ws_frame.h"

#define FIN 0x80u

struct ioh__ws_held {
    struct ioh__ws_held *next;
    ioh_conn *conn;
    struct ioh__outq out;
    size_t block; /* of the hub's memory */
};

/* ---- what others send meanwhile; the thread that holds the loop */

static struct ioh__ws_held **find_held(ioh_conn *conn)
{
    struct ioh__ws_held **at = &conn->hub->ws_held;
    while (*at && (*at)->conn != conn)
        at = &(*at)->next;
    return at;
}

struct ioh__outq *ioh__ws_queue(ioh_conn *conn)
{
    struct ioh__hub *hub = conn->hub;
    if (conn->as.ws.sending == IOH__WS_SENDING_NOT)
        return &conn->out;
    if (conn->as.ws.sending == IOH__WS_SENDING_HOLDS)
        return &(*find_held(conn))->out;
    size_t block;
    struct ioh__ws_held *held = ioh__mem_get(&hub->loop.mem, sizeof *held, &block);
    if (!held)
        return NULL;
    *held = (struct ioh__ws_held){.next = hub->ws_held, .conn = conn, .block = block};
    hub->ws_held = held;
    conn->as.ws.sending = IOH__WS_SENDING_HOLDS;
    return &held->out;
}

size_t ioh__ws_held_bytes(ioh_conn *conn)
{
    return conn->as.ws.sending == IOH__WS_SENDING_HOLDS ? (*find_held(conn))->out.bytes : 0;
}

static struct ioh__outq take_held(ioh_conn *conn)
{
    struct ioh__outq out = {NULL, NULL, 0};
    if (conn->as.ws.sending == IOH__WS_SENDING_HOLDS) {
        struct ioh__ws_held **at = find_held(conn), *held = *at;
        assert(held);
        *at = held->next;
        out = held->out;
        ioh__mem_put(&conn->hub->loop.mem, held, held->block);
    }
    conn->as.ws.sending = IOH__WS_SENDING_NOT;
    return out;
}

void ioh__ws_drop_held(ioh_conn *conn)
{
    struct ioh__outq out = take_held(conn);
    ioh__outq_clear(&out, &conn->hub->loop.mem);
}

/* ---- pieces */

static bool is_last(const uint8_t *header)
{
    return header[0] & FIN;
}

static void write_header(uint8_t *out, size_t *len, int op, size_t payload, bool last)
{
    *len = ioh__ws_header_write(out, op, payload);
    if (!last)
        out[0] &= (uint8_t)~FIN;
}

/* The header lies in the queue: what the piece means for others. */
static int queued(ioh_conn *conn, bool last)
{
    if (!last && conn->as.ws.sending == IOH__WS_SENDING_NOT)
        conn->as.ws.sending = IOH__WS_SENDING;
    if (last) {
        struct ioh__outq held = take_held(conn);
        ioh__outq_append(&conn->out, &held);
        ioh__count(&conn->hub->loop.count.ws_messages_sent, 1);
    }
    return ioh__conn_queued(conn);
}

int ioh__ws_piece_now(ioh_conn *conn, ioh_buf *frame)
{
    bool last = is_last(frame->data);
    int rc = ioh__ws_may_send(conn);
    if (rc) {
        ioh_buf_unref(frame);
        return rc;
    }
    if (!ioh__outq_take_buf(&conn->out, &conn->hub->loop.mem, frame, ioh__conn_is_current(conn)))
        return ioh__conn_no_memory(conn);
    return queued(conn, last);
}

static int piece_here(ioh_conn *conn, int op, const void *data, size_t len, bool last)
{
    uint8_t header[IOH__WS_SERVER_HEADER_MAX];
    size_t header_len;
    int rc = ioh__ws_may_send(conn);
    if (rc)
        return rc;
    write_header(header, &header_len, op, len, last);
    char *at = ioh__outq_reserve(&conn->out, &conn->hub->loop.mem, header_len + len,
                                 ioh__conn_is_current(conn));
    if (!at)
        return ioh__conn_no_memory(conn);
    memcpy(at, header, header_len);
    if (len)
        memcpy(at + header_len, data, len);
    return queued(conn, last);
}

static int post_piece(ioh_conn *conn, int op, const void *data, size_t len, bool last)
{
    uint8_t header[IOH__WS_SERVER_HEADER_MAX];
    size_t header_len;
    write_header(header, &header_len, op, len, last);
    struct ioh__message *m = ioh__message_new(IOH__MESSAGE_WS_PIECE, 0, 0);
    ioh_buf *frame = m ? ioh__buf_new(header_len + len) : NULL;
    if (!frame) {
        free(m);
        return ioh__conn_post(conn, NULL, 0);
    }
    memcpy(frame->data, header, header_len);
    if (len)
        memcpy(frame->data + header_len, data, len);
    m->as.frame = frame;
    return ioh__conn_post(conn, m, frame->len);
}

static bool change_face(ioh_conn *conn, uint8_t from, uint8_t to)
{
    return atomic_compare_exchange_strong(&conn->face, &from, to);
}

int ioh_ws_send_piece(ioh_conn *conn, int op, const void *data, size_t len, int last)
{
    bool first = atomic_load_explicit(&conn->face, memory_order_acquire) != IOH__FACE_WS_SENDING;
    if ((len && !data) || (last != 0 && last != 1) ||
        (first && op != IOH_WS_TEXT && op != IOH_WS_BINARY))
        return IOH_EINVAL;
    if (first && last)
        return ioh_ws_send(conn, op, data, len);
    int rc = ioh__ws_check_send(conn);
    if (rc)
        return rc;
    if (first && !change_face(conn, IOH__FACE_WS, IOH__FACE_WS_SENDING)) /* it ended just now */
        return ioh__ws_check_send(conn);
    op = first ? op : 0;
    if (ioh__reach(conn->hub)) {
        rc = piece_here(conn, op, data, len, last);
        ioh__unreach(conn->hub);
    } else {
        rc = post_piece(conn, op, data, len, last);
    }
    if (last)
        change_face(conn, IOH__FACE_WS_SENDING, IOH__FACE_WS);
    return rc;
}
