/* Jobs: each kind calls exactly its callback, with what the job says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/options.h>

#include "exec/job.h"

/* What a callback was given; absent arguments stay zero. */
struct call {
    const char *name; /* NULL: nobody was called */
    const void *conn, *req, *data, *state, *accept, *route;
    size_t len;
    int code;
    uint64_t bytes;
};

static struct call got;
static int calls, answer;

static void note(struct call call)
{
    got = call;
    calls++;
}

static int on_open(ioh_conn *conn, void *state)
{
    note((struct call){.name = "open", .conn = conn, .state = state});
    return answer;
}

static void on_peer_gone(ioh_conn *conn, void *state)
{
    note((struct call){.name = "peer gone", .conn = conn, .state = state});
}

static void on_classify(ioh_req *req, struct ioh_route *route, void *state)
{
    note((struct call){.name = "classify", .req = req, .route = route, .state = state});
    route->exec = IOH_EXEC_AFFINE;
}

static void on_drain(ioh_conn *conn, void *state)
{
    note((struct call){.name = "drain", .conn = conn, .state = state});
}

static void on_close(ioh_conn *conn, void *state)
{
    note((struct call){.name = "close", .conn = conn, .state = state});
}

static void on_log(int level, const char *text, void *state)
{
    note((struct call){.name = "log", .code = level, .data = text, .state = state});
}

static void on_request(ioh_req *req, void *state)
{
    note((struct call){.name = "request", .req = req, .state = state});
}

static void on_body(ioh_req *req, const void *data, size_t len, void *state)
{
    note((struct call){.name = "body", .req = req, .data = data, .len = len, .state = state});
}

static void on_request_end(ioh_req *req, void *state)
{
    note((struct call){.name = "request end", .req = req, .state = state});
}

static void on_complete(ioh_req *req, int status, uint64_t bytes, void *state)
{
    note((struct call){
        .name = "complete", .req = req, .code = status, .bytes = bytes, .state = state});
}

static int on_ws_upgrade(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    note((struct call){.name = "upgrade", .req = req, .accept = accept, .state = state});
    accept->protocol = "chosen";
    return answer;
}

static void on_ws_open(ioh_conn *conn, void *state)
{
    note((struct call){.name = "ws open", .conn = conn, .state = state});
}

static void on_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    note((struct call){
        .name = "message", .conn = conn, .code = op, .data = data, .len = len, .state = state});
}

static void on_ws_piece(ioh_conn *conn, int op, void *data, size_t len, int last, void *state)
{
    assert_int_equal(last, 1);
    note((struct call){
        .name = "piece", .conn = conn, .code = op, .data = data, .len = len, .state = state});
}

static void on_ws_ping(ioh_conn *conn, const void *data, size_t len, void *state)
{
    note((struct call){.name = "ping", .conn = conn, .data = data, .len = len, .state = state});
}

static void on_ws_pong(ioh_conn *conn, const void *data, size_t len, void *state)
{
    note((struct call){.name = "pong", .conn = conn, .data = data, .len = len, .state = state});
}

static void on_ws_close(ioh_conn *conn, int code, const char *reason, size_t len, void *state)
{
    note((struct call){.name = "ws close",
                       .conn = conn,
                       .code = code,
                       .data = reason,
                       .len = len,
                       .state = state});
}

static void on_thread(void *state)
{
    note((struct call){.name = "thread", .state = state});
}

static void run(ioh_conn *conn, void *user)
{
    note((struct call){.name = "run", .conn = conn, .state = user});
}

static void gone(void *user)
{
    note((struct call){.name = "gone", .state = user});
}

static const struct ioh_handler handler = {
    .size = sizeof handler,
    .on_thread_start = on_thread,
    .on_thread_stop = on_thread,
    .on_open = on_open,
    .on_drain = on_drain,
    .on_peer_gone = on_peer_gone,
    .on_close = on_close,
    .on_log = on_log,
    .on_classify = on_classify,
    .on_request = on_request,
    .on_body = on_body,
    .on_request_end = on_request_end,
    .on_complete = on_complete,
    .on_ws_upgrade = on_ws_upgrade,
    .on_ws_open = on_ws_open,
    .on_ws_message = on_ws_message,
    .on_ws_piece = on_ws_piece,
    .on_ws_ping = on_ws_ping,
    .on_ws_pong = on_ws_pong,
    .on_ws_close = on_ws_close,
};

static void more(ioh_req *req, size_t room, void *user)
{
    note((struct call){.name = "pull", .req = req, .len = room, .state = user});
}

/* Only their addresses matter. */
static char conn_place, req_place, data_place, state_place, user_place;

static struct ioh__job job_of(enum ioh__job_kind kind)
{
    return (struct ioh__job){.kind = kind,
                             .code = 4711,
                             .last = 1,
                             .conn = (ioh_conn *)(void *)&conn_place,
                             .req = (ioh_req *)(void *)&req_place,
                             .data = &data_place,
                             .len = 12345,
                             .bytes = UINT64_MAX - 1,
                             .run = run,
                             .gone = gone,
                             .more = more,
                             .user = &user_place};
}

enum {
    CONN = 1,
    REQ = 2,
    DATA = 4,
    LEN = 8,
    CODE = 16,
    BYTES = 32,
    ACCEPT = 64,
    USER = 128,
    ROUTE = 256
};

static const struct {
    enum ioh__job_kind kind;
    const char *name;
    int takes;
} kinds[] = {
    {IOH__JOB_OPEN, "open", CONN},
    {IOH__JOB_PEER_GONE, "peer gone", CONN},
    {IOH__JOB_CLASSIFY, "classify", REQ | ROUTE},
    {IOH__JOB_REQUEST, "request", REQ},
    {IOH__JOB_BODY, "body", REQ | DATA | LEN},
    {IOH__JOB_REQUEST_END, "request end", REQ},
    {IOH__JOB_PULL, "pull", REQ | LEN | USER},
    {IOH__JOB_COMPLETE, "complete", REQ | CODE | BYTES},
    {IOH__JOB_DRAIN, "drain", CONN},
    {IOH__JOB_WS_UPGRADE, "upgrade", REQ | ACCEPT},
    {IOH__JOB_WS_OPEN, "ws open", CONN},
    {IOH__JOB_WS_MESSAGE, "message", CONN | CODE | DATA | LEN},
    {IOH__JOB_WS_PIECE, "piece", CONN | CODE | DATA | LEN},
    {IOH__JOB_WS_PING, "ping", CONN | DATA | LEN},
    {IOH__JOB_WS_PONG, "pong", CONN | DATA | LEN},
    {IOH__JOB_WS_CLOSE, "ws close", CONN | CODE | DATA | LEN},
    {IOH__JOB_CLOSE, "close", CONN},
    {IOH__JOB_RUN, "run", CONN | USER},
    {IOH__JOB_GONE, "gone", USER},
    {IOH__JOB_LOG, "log", CODE | DATA},
};

static void each_kind_calls_its_callback_once_with_its_arguments(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int takes = kinds[i].takes;
        struct ioh__job job = job_of(kinds[i].kind);
        got = (struct call){0};
        calls = 0;
        ioh__job_run(&job, &handler, &state_place);
        assert_int_equal(calls, 1);
        assert_string_equal(got.name, kinds[i].name);
        assert_ptr_equal(got.conn, takes & CONN ? &conn_place : NULL);
        assert_ptr_equal(got.req, takes & REQ ? &req_place : NULL);
        assert_ptr_equal(got.data, takes & DATA ? &data_place : NULL);
        assert_ptr_equal(got.accept, takes & ACCEPT ? (char *)&job.accept : NULL);
        assert_ptr_equal(got.route, takes & ROUTE ? (char *)&job.route : NULL);
        assert_ptr_equal(got.state, takes & USER ? &user_place : &state_place);
        assert_int_equal(got.len, takes & LEN ? 12345 : 0);
        assert_int_equal(got.code, takes & CODE ? 4711 : 0);
        assert_true(got.bytes == (takes & BYTES ? UINT64_MAX - 1 : 0));
    }
}

static void every_kind_of_job_is_in_the_table(void **state)
{
    (void)state;
    assert_int_equal(sizeof kinds / sizeof *kinds, IOH__JOB_LOG + 1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_int_equal(kinds[i].kind, i);
}

static void what_open_and_upgrade_answer_is_in_the_job(void **state)
{
    (void)state;
    static const int answers[] = {0, 1, -1, 403};
    for (size_t i = 0; i < 4; i++) {
        struct ioh__job open = job_of(IOH__JOB_OPEN), upgrade = job_of(IOH__JOB_WS_UPGRADE);
        answer = answers[i];
        ioh__job_run(&open, &handler, NULL);
        ioh__job_run(&upgrade, &handler, NULL);
        assert_int_equal(open.result, answers[i]);
        assert_int_equal(upgrade.result, answers[i]);
        assert_string_equal(upgrade.accept.protocol, "chosen");
    }
}

static void what_classify_chose_is_in_the_job(void **state)
{
    (void)state;
    struct ioh__job job = job_of(IOH__JOB_CLASSIFY);
    ioh__job_run(&job, &handler, NULL);
    assert_int_equal(job.route.exec, IOH_EXEC_AFFINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_calls_its_callback_once_with_its_arguments),
        cmocka_unit_test(every_kind_of_job_is_in_the_table),
        cmocka_unit_test(what_open_and_upgrade_answer_is_in_the_job),
        cmocka_unit_test(what_classify_chose_is_in_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
