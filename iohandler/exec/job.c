/* Running a job (see job.h): the only place that calls the host's handler. */
#include "exec/job.h"

void ioh__job_run(struct ioh__job *job, const struct ioh_handler *h, void *state)
{
    switch (job->kind) {
    case IOH__JOB_OPEN:
        job->result = h->on_open(job->conn, state);
        break;
    case IOH__JOB_PEER_GONE:
        h->on_peer_gone(job->conn, state);
        break;
    case IOH__JOB_CLASSIFY:
        h->on_classify(job->req, &job->route, state);
        break;
    case IOH__JOB_REQUEST:
        h->on_request(job->req, state);
        break;
    case IOH__JOB_BODY:
        h->on_body(job->req, job->data, job->len, state);
        break;
    case IOH__JOB_REQUEST_END:
        h->on_request_end(job->req, state);
        break;
    case IOH__JOB_PULL:
        job->more(job->req, job->len, job->user);
        break;
    case IOH__JOB_COMPLETE:
        h->on_complete(job->req, job->code, job->bytes, state);
        break;
    case IOH__JOB_DRAIN:
        h->on_drain(job->conn, state);
        break;
    case IOH__JOB_WS_UPGRADE:
        job->result = h->on_ws_upgrade(job->req, &job->accept, state);
        break;
    case IOH__JOB_WS_OPEN:
        h->on_ws_open(job->conn, state);
        break;
    case IOH__JOB_WS_MESSAGE:
        h->on_ws_message(job->conn, job->code, job->data, job->len, state);
        break;
    case IOH__JOB_WS_PIECE:
        h->on_ws_piece(job->conn, job->code, job->data, job->len, job->last, state);
        break;
    case IOH__JOB_WS_PING:
        h->on_ws_ping(job->conn, job->data, job->len, state);
        break;
    case IOH__JOB_WS_PONG:
        h->on_ws_pong(job->conn, job->data, job->len, state);
        break;
    case IOH__JOB_WS_CLOSE:
        h->on_ws_close(job->conn, job->code, job->data, job->len, state);
        break;
    case IOH__JOB_CLOSE:
        h->on_close(job->conn, state);
        break;
    case IOH__JOB_RUN:
        job->run(job->conn, job->user);
        break;
    case IOH__JOB_GONE:
        job->gone(job->user);
        break;
    case IOH__JOB_LOG:
        h->on_log(job->code, job->data, state);
        break;
    }
}
