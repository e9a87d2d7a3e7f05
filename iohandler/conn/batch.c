/* Sending in batches (see batch.h). The thread that holds the loop. */
#include "conn/batch.h"

#include "conn/conn.h"

#define MOST 128u         /* connections */
#define BYTES_MOST 65536u /* so many are still in the cache when they are sent */
#define PER_MS 2u         /* batches in a millisecond, at least */

void ioh__batch_tune(struct ioh__hub *hub)
{
    struct ioh__batch *b = &hub->batch;
    uint64_t ms = hub->loop.now - b->counted_from;
    if (ms == 0)
        return;
    uint64_t most = b->fed / (ms * PER_MS);
    b->most = most < MOST ? (unsigned)most : MOST;
    b->counted_from = hub->loop.now;
    b->fed = 0;
}

void ioh__batch_add(struct ioh__hub *hub, ioh_conn *conn)
{
    struct ioh__batch *b = &hub->batch;
    b->fed++;
    /* One that is in a list already, or will not send now, gains nothing. */
    if (conn->state != IOH__CONN_OPEN || conn->out.bytes == 0 || conn->blocked || conn->corked ||
        !ioh__list_empty(&conn->work)) {
        ioh__conn_settle(conn);
        return;
    }
    if (b->count++ == 0)
        b->began = hub->loop.now;
    b->bytes += conn->out.bytes;
    ioh__list_append(&b->conns, &conn->work);
    if (b->count >= b->most || b->bytes >= BYTES_MOST || b->began != hub->loop.now)
        ioh__batch_send(hub);
}

void ioh__batch_send(struct ioh__hub *hub)
{
    struct ioh__batch *b = &hub->batch;
    while (!ioh__list_empty(&b->conns)) {
        ioh_conn *conn = ioh__container(b->conns.next, ioh_conn, work);
        ioh__list_remove(&conn->work);
        if (conn->state == IOH__CONN_DEAD)
            ioh__conn_touch(conn);
        else
            ioh__conn_settle(conn);
    }
    b->count = 0;
    b->bytes = 0;
}
