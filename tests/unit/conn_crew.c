/* The crew: AUTO's memory of what was late, which queue a connection's callbacks go to, and the pools. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/error.h>
#include <iohandler/options.h>

#include "conn/conn.h"
#include "conn/crew.h"

static bool calloc_fails;

void *__real_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    return calloc_fails ? NULL : __real_calloc(count, size);
}

static int cores_counted;

unsigned __real_ioh__cpu_count(void);

unsigned __wrap_ioh__cpu_count(void)
{
    cores_counted++;
    return __real_ioh__cpu_count();
}

/* ---- a crew, and connections that only have a path */

static struct ioh_options options;
static struct ioh__crew crew;
static struct ioh__hub hub;
static struct ioh_handler handler = IOH_HANDLER_INIT;

static const char *path; /* of every connection; NULL: no request */

static struct ioh_str path_of(const ioh_conn *conn)
{
    (void)conn;
    return (struct ioh_str){path, path ? strlen(path) : 0};
}

static const struct ioh__proto_ops proto = {.path = path_of};

static int set_up(void **state)
{
    (void)state;
    memset(&hub, 0, sizeof hub);
    options = (struct ioh_options){.exec = IOH_EXEC_AUTO, .pool_threads = 2, .pool_queue = 10};
    hub.options = &options;
    hub.handler = &handler;
    hub.crew = &crew;
    hub.guarded = true;
    hub.loop.log.on = true;
    path = "/";
    return ioh__crew_init(&crew, &options);
}

static int tear_down(void **state)
{
    (void)state;
    ioh__crew_destroy(&crew);
    return 0;
}

/* A crew as these options make it. */
static void begin(int32_t exec, uint32_t pool_threads, uint32_t work_op_threads)
{
    ioh__crew_destroy(&crew);
    options = (struct ioh_options){.exec = exec,
                                   .pool_threads = pool_threads,
                                   .work_op_threads = work_op_threads,
                                   .pool_queue = 10};
    hub.guarded = exec == IOH_EXEC_AUTO;
    assert_int_equal(ioh__crew_init(&crew, &options), 0);
}

static ioh_conn new_conn(void)
{
    return (ioh_conn){.hub = &hub, .proto = &proto};
}

static struct ioh__job job_of(ioh_conn *conn, enum ioh__job_kind kind)
{
    return (struct ioh__job){.kind = kind, .conn = conn};
}

static bool known(ioh_conn *conn, enum ioh__job_kind kind)
{
    struct ioh__job job = job_of(conn, kind);
    return ioh__crew_known_late(&crew, &job);
}

static void late(ioh_conn *conn, enum ioh__job_kind kind)
{
    struct ioh__job job = job_of(conn, kind);
    ioh__crew_was_late(&crew, conn, ioh__crew_late_key(&job));
}

static void quick(ioh_conn *conn, enum ioh__job_kind kind)
{
    struct ioh__job job = job_of(conn, kind);
    ioh__crew_was_quick(&crew, conn, ioh__crew_late_key(&job));
}

/* ---- AUTO's memory */

static void a_path_is_remembered_for_all_connections_and_counted_down(void **state)
{
    (void)state;
    ioh_conn a = new_conn(), b = new_conn();
    path = "/slow";
    assert_false(known(&a, IOH__JOB_REQUEST));
    late(&a, IOH__JOB_REQUEST);
    assert_int_equal(crew.late_known, 1);
    for (unsigned i = 0; i < IOH__LATE_CALLS; i++) {
        assert_true(known(&a, IOH__JOB_REQUEST));
        assert_true(known(&b, IOH__JOB_REQUEST));
        quick(&b, IOH__JOB_REQUEST);
    }
    assert_false(known(&a, IOH__JOB_REQUEST));
    assert_int_equal(crew.late_known, 0);
    quick(&a, IOH__JOB_REQUEST); /* one too many */
    assert_int_equal(crew.late_known, 0);
    assert_false(known(&a, IOH__JOB_REQUEST));
}

static void another_late_call_begins_the_count_anew(void **state)
{
    (void)state;
    ioh_conn conn = new_conn();
    late(&conn, IOH__JOB_REQUEST);
    for (unsigned i = 1; i < IOH__LATE_CALLS; i++)
        quick(&conn, IOH__JOB_REQUEST);
    late(&conn, IOH__JOB_REQUEST);
    assert_int_equal(crew.late_known, 1);
    for (unsigned i = 1; i < IOH__LATE_CALLS; i++)
        quick(&conn, IOH__JOB_REQUEST);
    assert_true(known(&conn, IOH__JOB_REQUEST));
    quick(&conn, IOH__JOB_REQUEST);
    assert_false(known(&conn, IOH__JOB_REQUEST));
}

static void other_paths_and_other_callbacks_of_a_path_are_not_meant(void **state)
{
    (void)state;
    ioh_conn conn = new_conn();
    path = "/slow";
    late(&conn, IOH__JOB_REQUEST);
    assert_false(known(&conn, IOH__JOB_COMPLETE));
    assert_false(known(&conn, IOH__JOB_REQUEST_END));
    for (unsigned i = 0; i < 2 * IOH__LATE_CALLS; i++)
        quick(&conn, IOH__JOB_COMPLETE); /* does not count on_request down */
    assert_true(known(&conn, IOH__JOB_REQUEST));
    path = "/ping";
    assert_false(known(&conn, IOH__JOB_REQUEST));
    path = "/slow/";
    assert_false(known(&conn, IOH__JOB_REQUEST));
}

/* More paths than slots: some share one. That may send a quick path to the pool, no more. */
static void paths_that_share_a_slot_do_no_harm(void **state)
{
    (void)state;
    enum { PATHS = 3 * IOH__LATE_SLOTS };
    static char paths[PATHS][16];
    ioh_conn conn = new_conn();
    unsigned in_use = 0;
    for (int i = 0; i < PATHS; i++) {
        snprintf(paths[i], sizeof paths[i], "/p%d", i);
        path = paths[i];
        late(&conn, IOH__JOB_REQUEST);
        assert_true(known(&conn, IOH__JOB_REQUEST));
    }
    for (unsigned i = 0; i < IOH__LATE_SLOTS; i++)
        in_use += crew.late_paths[i] != 0;
    assert_int_equal(crew.late_known, in_use);
    assert_true(in_use > IOH__LATE_SLOTS / 2 && in_use < PATHS);
    for (unsigned round = 0; round < IOH__LATE_CALLS; round++) {
        for (int i = 0; i < PATHS; i++) {
            path = paths[i];
            quick(&conn, IOH__JOB_REQUEST);
        }
    }
    assert_int_equal(crew.late_known, 0);
    for (int i = 0; i < PATHS; i++) {
        path = paths[i];
        assert_false(known(&conn, IOH__JOB_REQUEST));
    }
}

static void a_long_path_is_told_apart_by_its_beginning(void **state)
{
    (void)state;
    ioh_conn conn = new_conn();
    char one[200], other[200];
    memset(one, 'a', sizeof one - 1);
    one[0] = '/';
    one[sizeof one - 1] = '\0';
    memcpy(other, one, sizeof other);
    other[150] = 'b';
    path = one;
    late(&conn, IOH__JOB_REQUEST);
    path = other;
    assert_true(known(&conn, IOH__JOB_REQUEST));
}

static void without_a_path_the_connection_is_remembered(void **state)
{
    (void)state;
    ioh_conn a = new_conn(), b = new_conn();
    struct ioh__job job = job_of(&a, IOH__JOB_WS_MESSAGE);
    path = NULL;
    assert_int_equal(ioh__crew_late_key(&job), -1);
    late(&a, IOH__JOB_WS_MESSAGE);
    assert_int_equal(crew.late_known, 0);
    for (unsigned i = 0; i < IOH__LATE_CALLS; i++) {
        assert_true(known(&a, IOH__JOB_WS_MESSAGE));
        assert_false(known(&b, IOH__JOB_WS_MESSAGE));
        quick(&a, IOH__JOB_WS_MESSAGE);
    }
    assert_false(known(&a, IOH__JOB_WS_MESSAGE));
    quick(&a, IOH__JOB_WS_MESSAGE);
    assert_false(known(&a, IOH__JOB_WS_MESSAGE));
}

static void a_job_without_a_connection_is_never_known(void **state)
{
    (void)state;
    struct ioh__job job = {.kind = IOH__JOB_LOG};
    assert_int_equal(ioh__crew_late_key(&job), -1);
    assert_false(ioh__crew_known_late(&crew, &job));
}

/* Two loops at a time. */
enum { ROUNDS = 20000 };

static void *count_up_and_down(void *arg)
{
    ioh_conn conn = new_conn();
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        int key = (int)(seed >> 8) % 3;
        if (seed >> 28 < 4)
            ioh__crew_was_late(&crew, &conn, key);
        else
            ioh__crew_was_quick(&crew, &conn, key);
    }
    return NULL;
}

static void loops_that_remember_at_the_same_time_keep_the_count(void **state)
{
    (void)state;
    pthread_t threads[3];
    uint32_t in_use = 0;
    for (uintptr_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up_and_down, (void *)(i + 1)), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        in_use += crew.late_paths[i] != 0;
    assert_int_equal(crew.late_known, in_use);
}

/* ---- work threads */

static void connections_go_to_the_least_loaded_work_thread_and_stay(void **state)
{
    (void)state;
    enum { CONNS = 31, WORKERS = 4 };
    ioh_conn conns[CONNS];
    begin(IOH_EXEC_AFFINE, 0, WORKERS);
    for (int i = 0; i < CONNS; i++) {
        conns[i] = new_conn();
        conns[i].queue = ioh__crew_queue(&crew, &conns[i]);
        assert_non_null(conns[i].queue);
        assert_ptr_equal(ioh__crew_queue(&crew, &conns[i]), conns[i].queue);
        assert_ptr_equal(ioh__crew_affine(&crew, &conns[i]), conns[i].queue);
    }
    for (int w = 0; w < WORKERS; w++)
        assert_true(crew.workers[w].load == 7 || crew.workers[w].load == 8);
    /* Everybody of one work thread leaves: the next ones go there. */
    struct ioh__queue *left = &crew.workers[2].queue;
    for (int i = 0; i < CONNS; i++)
        if (conns[i].queue == left)
            ioh__crew_leave(&crew, &conns[i]);
    assert_int_equal(crew.workers[2].load, 0);
    for (int i = 0; i < 7; i++) {
        ioh_conn conn = new_conn();
        assert_ptr_equal(ioh__crew_queue(&crew, &conn), left);
    }
}

static void a_connection_without_a_work_thread_leaves_no_trace(void **state)
{
    (void)state;
    ioh_conn conn = new_conn();
    begin(IOH_EXEC_POOL, 2, 2);
    assert_ptr_equal(ioh__crew_queue(&crew, &conn), &crew.pool->queue);
    ioh__crew_leave(&crew, &conn);
    assert_int_equal(crew.workers[0].load + crew.workers[1].load, 0);
    begin(IOH_EXEC_POOL, 2, 0);
    assert_null(ioh__crew_affine(&crew, &conn));
}

/* ---- routes */

static void the_default_queue_is_as_exec_says(void **state)
{
    (void)state;
    ioh_conn conn = new_conn();
    assert_null(ioh__crew_queue(&crew, &conn)); /* AUTO */
    begin(IOH_EXEC_INLINE, 0, 0);
    assert_null(ioh__crew_queue(&crew, &conn));
    begin(IOH_EXEC_POOL, 3, 0);
    assert_ptr_equal(ioh__crew_queue(&crew, &conn), &crew.pool->queue);
    options.type = IOH_THREADS;
    assert_null(ioh__crew_queue(&crew, &conn));
}

static void route(ioh_conn *conn, int32_t exec, ioh_pool *pool)
{
    struct ioh_route r = {.size = sizeof r, .exec = exec, .pool = pool};
    ioh__crew_route(&crew, conn, &r);
}

static bool has_logged(void)
{
    struct ioh__log_line line;
    return ioh__log_take(&hub.loop.log, &line);
}

static void a_request_goes_where_on_classify_says_and_the_next_one_back(void **state)
{
    (void)state;
    ioh_conn conn = new_conn();
    begin(IOH_EXEC_POOL, 2, 2);
    struct ioh_pool *named = ioh__pool_make(&crew, "slow", 1, 5);
    named->next = crew.named;
    crew.named = named;
    conn.queue = ioh__crew_queue(&crew, &conn);
    route(&conn, IOH_EXEC_INLINE, NULL);
    assert_null(conn.queue);
    assert_true(conn.classified && conn.stays);
    ioh__crew_reset(&crew, &conn);
    assert_ptr_equal(conn.queue, &crew.pool->queue);
    assert_false(conn.classified || conn.stays);
    route(&conn, IOH_EXEC_POOL, named);
    assert_ptr_equal(conn.queue, &named->queue);
    assert_true(conn.classified && !conn.stays);
    route(&conn, IOH_EXEC_POOL, NULL);
    assert_ptr_equal(conn.queue, &crew.pool->queue);
    route(&conn, IOH_EXEC_AFFINE, NULL);
    struct ioh__queue *own = conn.queue;
    assert_true(own == &crew.workers[0].queue || own == &crew.workers[1].queue);
    ioh__crew_reset(&crew, &conn);
    route(&conn, IOH_EXEC_AFFINE, NULL); /* the same one again */
    assert_ptr_equal(conn.queue, own);
    assert_int_equal(crew.workers[0].load + crew.workers[1].load, 1);
    ioh__crew_leave(&crew, &conn);
    assert_int_equal(crew.workers[0].load + crew.workers[1].load, 0);
    assert_false(has_logged());
}

static void a_route_without_threads_is_told_and_left(void **state)
{
    (void)state;
    ioh_conn conn = new_conn();
    static const int32_t wrong[] = {IOH_EXEC_AFFINE, IOH_EXEC_AUTO, 77, -1};
    begin(IOH_EXEC_POOL, 2, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        conn.queue = NULL;
        route(&conn, wrong[i], NULL);
        assert_ptr_equal(conn.queue, &crew.pool->queue);
        assert_false(conn.classified || conn.stays);
        assert_true(has_logged());
    }
    begin(IOH_EXEC_INLINE, 0, 0);
    route(&conn, IOH_EXEC_POOL, NULL);
    assert_null(conn.queue);
    assert_true(has_logged());
    assert_false(has_logged());
}

static void under_auto_a_route_may_ask_for_auto(void **state)
{
    (void)state;
    ioh_conn conn = new_conn();
    route(&conn, IOH_EXEC_AUTO, NULL);
    assert_null(conn.queue);
    assert_true(conn.classified && !conn.stays);
    route(&conn, IOH_EXEC_POOL, NULL);
    assert_ptr_equal(conn.queue, &crew.pool->queue);
    assert_false(has_logged());
}

static void with_a_thread_per_connection_routes_change_nothing(void **state)
{
    (void)state;
    ioh_conn conn = new_conn();
    begin(IOH_EXEC_POOL, 2, 0);
    options.type = IOH_THREADS;
    route(&conn, IOH_EXEC_POOL, NULL);
    assert_null(conn.queue);
    assert_false(conn.classified);
}

/* ---- making one */

/* That takes a dozen files to be read. */
static void cores_are_counted_once_however_many_queues_there_are(void **state)
{
    (void)state;
    cores_counted = 0;
    begin(IOH_EXEC_AFFINE, 4, 100);
    assert_int_equal(cores_counted, 1);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(crew.workers[i].queue.cores, crew.cores);
    assert_int_equal(crew.pool->queue.cores, crew.cores);
}

static void a_crew_without_memory_says_so_and_can_be_destroyed(void **state)
{
    (void)state;
    struct ioh__crew poor;
    struct ioh_options o = {.pool_threads = 1, .pool_queue = 1};
    calloc_fails = true;
    assert_int_equal(ioh__crew_init(&poor, &o), IOH_ENOMEM);
    ioh__crew_destroy(&poor);
    o = (struct ioh_options){.work_op_threads = 2, .pool_queue = 1};
    assert_int_equal(ioh__crew_init(&poor, &o), IOH_ENOMEM);
    ioh__crew_destroy(&poor);
    assert_null(ioh__pool_make(&crew, "slow", 1, 1));
    calloc_fails = false;
    assert_int_equal(ioh__crew_init(&poor, &o), 0);
    assert_null(poor.pool);
    assert_int_equal(poor.worker_count, 2);
    ioh__crew_destroy(&poor);
}

#define with_crew(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_crew(a_path_is_remembered_for_all_connections_and_counted_down),
        with_crew(another_late_call_begins_the_count_anew),
        with_crew(other_paths_and_other_callbacks_of_a_path_are_not_meant),
        with_crew(paths_that_share_a_slot_do_no_harm),
        with_crew(a_long_path_is_told_apart_by_its_beginning),
        with_crew(without_a_path_the_connection_is_remembered),
        with_crew(a_job_without_a_connection_is_never_known),
        with_crew(loops_that_remember_at_the_same_time_keep_the_count),
        with_crew(connections_go_to_the_least_loaded_work_thread_and_stay),
        with_crew(a_connection_without_a_work_thread_leaves_no_trace),
        with_crew(the_default_queue_is_as_exec_says),
        with_crew(a_request_goes_where_on_classify_says_and_the_next_one_back),
        with_crew(a_route_without_threads_is_told_and_left),
        with_crew(under_auto_a_route_may_ask_for_auto),
        with_crew(with_a_thread_per_connection_routes_change_nothing),
        with_crew(cores_are_counted_once_however_many_queues_there_are),
        with_crew(a_crew_without_memory_says_so_and_can_be_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
