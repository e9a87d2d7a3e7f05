/* The step UPGRADE of HTTP/1 (http1_conn.c): a request that wants to become a WebSocket, from on_ws_upgrade to the 101 or
 * a refusal. The thread that holds the loop. */
#include <string.h>

#include "conn/http1.h"
#include "proto/ws_shake.h"

/* false: no extensions but something else stands there (RFC 6455 9.1). */
static bool agree_on_deflate(const ioh_req *req, struct ioh__deflate_terms *terms,
                             struct ioh__http1_fault *fault)
{
    const struct ioh_options *o = req->conn->hub->options;
    *fault = (struct ioh__http1_fault){400, "WebSocket handshake: malformed extensions", 0};
    return ioh__deflate_agree(req->base, &req->head, (enum ioh__deflate_mode)o->ws_deflate,
                              o->ws_deflate_window, terms, &fault->offset);
}

static bool put_extension(ioh_conn *conn, const struct ioh__deflate_terms *terms)
{
    static const char name[] = "\r\nSec-WebSocket-Extensions: ";
    struct ioh__mem *mem = &conn->hub->loop.mem;
    char value[IOH__DEFLATE_ANSWER_MAX];
    size_t len = ioh__deflate_answer(terms, value);
    return ioh__outq_copy(&conn->out, mem, name, sizeof name - 1, false) &&
           ioh__outq_copy(&conn->out, mem, value, len, false);
}

static void accept_websocket(ioh_conn *conn, const struct ioh_ws_accept *accept)
{
    static const char head[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                               "Connection: Upgrade\r\nSec-WebSocket-Accept: ";
    static const char protocol[] = "\r\nSec-WebSocket-Protocol: ";
    ioh_req *req = conn->as.http1.req;
    struct ioh__mem *mem = &conn->hub->loop.mem;
    struct ioh__http1_fault fault;
    struct ioh_str key;
    char accept_key[IOH__WS_ACCEPT_LEN];
    const char *name = accept->protocol;
    struct ioh__deflate_terms terms;
    if (!ioh__ws_shake_check(req->base, &req->head, &key, &fault) ||
        !agree_on_deflate(req, &terms, &fault) || ioh__ws_accept_key(key, accept_key)) {
        ioh__conn_no_memory(conn);
        return;
    }
    bool ok = ioh__outq_copy(&conn->out, mem, head, sizeof head - 1, false) &&
              ioh__outq_copy(&conn->out, mem, accept_key, sizeof accept_key, false);
    if (ok && name)
        ok = ioh__outq_copy(&conn->out, mem, protocol, sizeof protocol - 1, false) &&
             ioh__outq_copy(&conn->out, mem, name, strlen(name), false);
    if (ok && terms.server_bits)
        ok = put_extension(conn, &terms);
    ok = ok && ioh__outq_copy(&conn->out, mem, "\r\n", 2, false) &&
         ioh__outq_copy(&conn->out, mem, req->ws_fields, req->ws_fields_len, false);
    if (!ok || !ioh__outq_copy(&conn->out, mem, "\r\n", 2, false)) {
        ioh__conn_no_memory(conn);
        return;
    }
    ioh__http1_free_req(conn);
    ioh__ws_begin(conn, &terms);
}

void ioh__http1_upgrade_decided(ioh_conn *conn, const struct ioh__job *job)
{
    struct ioh__http1_conn *h = &conn->as.http1;
    ioh_req *req = h->req;
    const char *protocol = job->accept.protocol;
    int status = job->result;
    h->step = IOH__HTTP1_FINISH;
    req->upgrading = false;
    if (req->answer == IOH__ANSWER_STREAMING) {
        ioh__conn_die(conn, IOH__END_LOCAL, true);
        return;
    }
    if (req->answer == IOH__ANSWER_DONE)
        return;
    if (status == 0 && protocol && !ioh__ws_protocol_offered(req->base, &req->head, protocol)) {
        ioh__log_add(&conn->hub->loop.log, IOH_LOG_WARN,
                     "on_ws_upgrade chose a subprotocol that was not offered: 500 is sent");
        status = 500;
    }
    if (status == 0)
        accept_websocket(conn, &job->accept);
    else
        ioh__respond_refusal(req, status >= 400 && status < 600 ? status : 500);
}

enum ioh__feed ioh__http1_begin_upgrade(ioh_conn *conn, struct ioh__job *job)
{
    ioh_req *req = conn->as.http1.req;
    struct ioh__http1_fault fault;
    struct ioh__deflate_terms terms;
    struct ioh_str key;
    ioh__hub_now(conn->hub); /* for the WebSocket's first deadline */
    req->close = true;       /* a refused upgrade ends the connection: frames may follow in it */
    if (!ioh__ws_shake_check(req->base, &req->head, &key, &fault) ||
        !agree_on_deflate(req, &terms, &fault)) {
        ioh__http1_refuse(conn, &fault);
        return IOH__FEED_MORE;
    }
    conn->as.http1.step = IOH__HTTP1_UPGRADE;
    req->upgrading = true;
    req->ws_fields_len = 0;
    *job = (struct ioh__job){.kind = IOH__JOB_WS_UPGRADE, .conn = conn, .req = req};
    job->accept.size = sizeof job->accept;
    if (conn->hub->handler->on_ws_upgrade)
        return IOH__FEED_JOB;
    ioh__http1_upgrade_decided(conn, job);
    return IOH__FEED_MORE;
}
