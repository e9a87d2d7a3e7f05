/* What the parts of HTTP/1 on a connection share: http1_conn.c (the steps), http1_upgrade.c, http1_input.c (bodies).
 * The thread that holds the loop.
 */
#ifndef IOH_CONN_HTTP1_H
#define IOH_CONN_HTTP1_H

#include "conn/req.h"

/* as.http1.step; drawn in http1_conn.c */
enum ioh__http1_step {
    IOH__HTTP1_HEAD,
    IOH__HTTP1_START,
    IOH__HTTP1_UPGRADE,
    IOH__HTTP1_BODY,
    IOH__HTTP1_ANSWER,
    IOH__HTTP1_FINISH,
};

/* Answers for the host and ends the connection; what still comes is dropped. */
void ioh__http1_refuse(ioh_conn *conn, const struct ioh__http1_fault *fault);

/* The request is over, for whatever reason: gives back what it holds; none: nothing. */
void ioh__http1_free_req(ioh_conn *conn);

/* ---- upgrades (http1_upgrade.c) */

/* The request wants a WebSocket: as ioh__proto_ops.feed. */
enum ioh__feed ioh__http1_begin_upgrade(ioh_conn *conn, struct ioh__job *job);

/* on_ws_upgrade has answered. */
void ioh__http1_upgrade_decided(ioh_conn *conn, const struct ioh__job *job);

/* ---- bodies */

/* Step BODY: as ioh__proto_ops.feed. */
enum ioh__feed ioh__http1_feed_body(ioh_conn *conn, uint8_t *data, size_t len, size_t *used,
                                    struct ioh__job *job);

/* Head and gathered body move out of the receive buffer; the connection ends when there is no memory. */
void ioh__http1_keep(ioh_conn *conn);

/* Gives back what the request holds. */
void ioh__http1_drop_input(struct ioh__mem *mem, ioh_req *req);

#endif
