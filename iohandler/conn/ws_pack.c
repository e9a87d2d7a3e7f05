/* The form of outgoing messages (see ws_pack.h).
 *
 * Without context takeover whoever sends compresses, with a state that is lent for the message: pool threads beside
 * each other, and a loop is not kept by what its pool threads send. A context of its own belongs to the
 * connection's loop, where the order of messages is made; so there the loop compresses.
 *
 * A frame that was built once is compressed once, on the first loop that has a use for it. It refers to nothing
 * before it; but what a connection's own context says next would be counted from behind it, so that begins anew.
 */
#include "conn/ws_pack.h"

#include "base/buf.h"
#include "conn/crew.h"
#include "proto/ws_frame.h"

static struct ioh__deflaters *deflaters_of(const ioh_conn *conn)
{
    return &conn->hub->crew->deflaters;
}

static bool keeps(const ioh_conn *conn)
{
    return conn->as.ws.engine.terms.flags & IOH__DEFLATE_SERVER_KEEPS;
}

ioh_buf *ioh__ws_pack_alone(const ioh_conn *conn, int op, const void *data, size_t len)
{
    if (!ioh__ws_packs(conn) || keeps(conn) || op >= 8)
        return NULL;
    return ioh__deflaters_frame(deflaters_of(conn), conn->as.ws.engine.terms.server_bits, op, data,
                                len);
}

ioh_buf *ioh__ws_pack_own(ioh_conn *conn, int op, const void *data, size_t len)
{
    struct ioh__ws *ws = &conn->as.ws.engine;
    const struct ioh__deflaters *all = deflaters_of(conn);
    if (!ioh__ws_packs(conn) || !keeps(conn) || op >= 8 || len < all->min)
        return NULL;
    struct ioh__ws_own *own = ioh__ws_own(&conn->hub->ws_engine.contexts, &ws->own);
    if (own && !own->deflater)
        own->deflater = ioh__deflater_new(ws->terms.server_bits, all->level);
    return own && own->deflater ? ioh__deflate_frame(own->deflater, true, op, data, len) : NULL;
}

static void forget_own(ioh_conn *conn)
{
    struct ioh__ws *ws = &conn->as.ws.engine;
    struct ioh__ws_own *own =
        ws->own ? ioh__ws_own(&conn->hub->ws_engine.contexts, &ws->own) : NULL;
    if (own && own->deflater)
        ioh__deflater_forget(own->deflater);
}

ioh_buf *ioh__ws_form_ref(ioh_conn *conn, ioh_buf *buf, int op, const uint8_t *payload, size_t len)
{
    if (!ioh__ws_packs(conn))
        return NULL;
    ioh_buf *form = ioh__deflaters_form(deflaters_of(conn), conn->as.ws.engine.terms.server_bits,
                                        buf, op, payload, len);
    if (!form)
        return NULL;
    forget_own(conn);
    return ioh_buf_ref(form);
}

ioh_buf *ioh__ws_frame_form_ref(ioh_conn *conn, ioh_buf *frame)
{
    struct ioh__ws_header h;
    if (!ioh__ws_packs(conn) || frame->data[0] & IOH__WS_RSV1 ||
        !ioh__ws_header_read(frame->data, frame->len, &h))
        return NULL;
    if (!frame->once)
        return ioh__ws_form_ref(conn, frame, h.op, frame->data + h.len, (size_t)h.payload);
    /* what ioh_ws_send() said on another thread */
    return ioh__ws_pack_own(conn, h.op, frame->data + h.len, (size_t)h.payload);
}
