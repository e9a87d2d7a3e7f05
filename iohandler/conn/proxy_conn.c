/* The PROXY header at the beginning of a connection (listeners with proxy_from): whose connection it is. The
 * thread that holds the loop.
 *
 *     HEADER --whole--> the connection begins: on_open, HTTP      (a fault, the head's deadline: reset)
 *
 * The host hears of the connection only once it is known whose it is, so ioh_conn_peer() tells the same from on_open
 * to on_close. The header is looked for once, and never again.
 */
#include <string.h>
#include <sys/socket.h>

#include "conn/conn.h"
#include "conn/crew.h"
#include "proto/proxy_header.h"

static void refuse(ioh_conn *conn, const char *why)
{
    ioh__hub_hit(conn->hub, IOH__LIMIT_PROXY, &conn->peer, "%s: closed", why);
    ioh__conn_die(conn, IOH__END_LOCAL, true);
}

/* The real peer takes the proxy's place; false: it is one too many of its address. The proxy's own connections are not
 * counted. */
static bool take_peer(ioh_conn *conn, const struct ioh__proxy_header *header)
{
    struct ioh__gate *gate = &conn->hub->crew->gate;
    if (header->family == AF_UNSPEC)
        return true;
    memcpy(conn->peer.address, header->address, sizeof conn->peer.address);
    conn->peer.port = header->port;
    conn->peer.family = header->family;
    switch (ioh__gate_enter_address(gate, &conn->peer)) {
    case IOH__GATE_OPEN:
        return true;
    case IOH__GATE_FULL:
        ioh__hub_hit(conn->hub, IOH__LIMIT_MAX_PER_ADDRESS, &conn->peer,
                     "%u connections of this address are open: closed", gate->max_per_address);
        break;
    case IOH__GATE_NO_MEMORY:
        ioh__log_add(&conn->hub->loop.log, IOH_LOG_WARN,
                     "out of memory: a new connection is closed");
        break;
    }
    return false;
}

static enum ioh__feed proxy_feed(ioh_conn *conn, uint8_t *data, size_t len, size_t *used,
                                 struct ioh__job *job)
{
    struct ioh__proxy_header header;
    const char *why;
    (void)job;
    switch (ioh__proxy_parse(data, len, &header, &why)) {
    case IOH__PROXY_MORE:
        return IOH__FEED_MORE;
    case IOH__PROXY_FAULT:
        refuse(conn, why);
        return IOH__FEED_MORE;
    case IOH__PROXY_DONE:
        break;
    }
    *used = header.len;
    if (!take_peer(conn, &header)) {
        ioh__conn_die(conn, IOH__END_LOCAL, true);
        return IOH__FEED_MORE;
    }
    ioh__conn_begin(conn);
    return IOH__FEED_WAIT; /* for on_open; what lies behind the header is fed after it */
}

static bool proxy_ready(const ioh_conn *conn)
{
    (void)conn;
    return true;
}

/* Without a byte it was somebody who looks whether the port is open: no fault. */
static void proxy_eof(ioh_conn *conn)
{
    if (conn->in_len)
        refuse(conn, "the PROXY header is cut off");
    else
        ioh__conn_die(conn, IOH__END_LOCAL, false);
}

static void proxy_timeout(ioh_conn *conn)
{
    ioh__hub_hit(conn->hub, IOH__LIMIT_HEAD_TIME, &conn->peer, "no PROXY header came");
    ioh__conn_die(conn, IOH__END_DEADLINE, true);
}

static void proxy_stop(ioh_conn *conn)
{
    ioh__conn_die(conn, IOH__END_LOCAL, false);
}

static void proxy_keep(ioh_conn *conn)
{
    (void)conn; /* the host has seen nothing yet */
}

static struct ioh_str proxy_path(const ioh_conn *conn)
{
    (void)conn;
    return (struct ioh_str){NULL, 0};
}

static bool proxy_engaged(const ioh_conn *conn)
{
    (void)conn;
    return false;
}

static void proxy_overloaded(ioh_conn *conn)
{
    (void)conn; /* there is no job that could be refused */
}

static bool proxy_gone(ioh_conn *conn, struct ioh__job *job)
{
    (void)conn;
    (void)job;
    return false;
}

const struct ioh__proto_ops ioh__proto_proxy = {
    proxy_feed, NULL,       proxy_ready,   proxy_eof,        proxy_timeout, proxy_stop,
    proxy_keep, proxy_path, proxy_engaged, proxy_overloaded, proxy_gone};
