/* A job: one callback of the host, described as data.
 *
 * Protocol code never calls the host. It fills a job and returns; one place at the top of the loop
 * runs it (conn/turn.c). So nothing stands on the stack between the loop and the host, and who
 * runs the callback, the holder of the loop or another thread, is decided in one place.
 */
#ifndef IOH_EXEC_JOB_H
#define IOH_EXEC_JOB_H

#include <iohandler/handler.h>
#include <iohandler/req.h>

enum ioh__job_kind {
    IOH__JOB_OPEN,
    IOH__JOB_PEER_GONE,
    IOH__JOB_CLASSIFY,
    IOH__JOB_REQUEST,
    IOH__JOB_BODY,
    IOH__JOB_REQUEST_END,
    IOH__JOB_PULL, /* ioh_respond_pull(): more(req, len, user) */
    IOH__JOB_COMPLETE,
    IOH__JOB_DRAIN,
    IOH__JOB_WS_UPGRADE,
    IOH__JOB_WS_OPEN,
    IOH__JOB_WS_MESSAGE,
    IOH__JOB_WS_PIECE,
    IOH__JOB_WS_PING,
    IOH__JOB_WS_PONG,
    IOH__JOB_WS_CLOSE,
    IOH__JOB_CLOSE,
    IOH__JOB_RUN,  /* ioh_run_on(): run(conn, user) */
    IOH__JOB_GONE, /* ioh_run_on(): gone(user) */
    IOH__JOB_LOG,
};

struct ioh__job {
    enum ioh__job_kind kind;
    int code;       /* opcode, close code, status, log level */
    int result;     /* what the callback answered: OPEN and WS_UPGRADE */
    int last;       /* WS_PIECE */
    ioh_conn *conn; /* NULL for GONE and LOG */
    ioh_req *req;
    void *data; /* body, message, reason, log line */
    size_t len;
    uint64_t bytes; /* of body sent: COMPLETE; PULL: before it */
    struct ioh_ws_accept accept;
    struct ioh_route route;
    void (*run)(ioh_conn *conn, void *user);
    void (*gone)(void *user);
    ioh_more_fn more;
    void *user;
};

/* Fills in what all kinds have; the other fields keep what was there. */
static inline void ioh__job_of_req(struct ioh__job *job, enum ioh__job_kind kind, ioh_conn *conn,
                                   ioh_req *req)
{
    job->kind = kind;
    job->conn = conn;
    job->req = req;
    job->data = NULL;
    job->len = 0;
}

/* Calls the host. A job is only made for a callback that the host has. */
void ioh__job_run(struct ioh__job *job, const struct ioh_handler *handler, void *state);

#endif
