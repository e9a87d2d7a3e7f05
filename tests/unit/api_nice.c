/* options.pool_nice: callbacks of pools beside the others run nicer, whoever holds a loop never does. The nice values are this
 * program's own, so that it needs no privilege. */
#include "base/share.h"
#include "support/common.h"

#define BASE 3
#define NICE 7

static _Thread_local int raised; /* of this thread, beyond BASE */
static _Atomic bool may_lower;

bool __wrap_ioh__share_read(struct ioh__share *share);
bool __wrap_ioh__share_take(const struct ioh__share *share);

bool __wrap_ioh__share_read(struct ioh__share *share)
{
    *share = (struct ioh__share){.nice = BASE + raised};
    return true;
}

bool __wrap_ioh__share_take(const struct ioh__share *share)
{
    if (share->nice - BASE < raised && !may_lower)
        return false;
    raised = share->nice - BASE;
    return true;
}

static void tell_nice(ioh_req *req, void *state)
{
    char text[16];
    struct ioh_str path = ioh_req_path(req);
    if (path.len == 5 && memcmp(path.ptr, "/late", 5) == 0)
        usleep(20000);
    int len = snprintf(text, sizeof text, "%d", raised);
    CHECK((struct host *)state, ioh_respond(req, 200, NULL, 0, text, (size_t)len) >= 0);
}

static int nice_of(struct client *c, const char *path)
{
    assert_int_equal(client_get(c, path), 200);
    return atoi((const char *)c->body);
}

static atomic_int left_alone;

static void note_left_alone(int level, const char *text, void *state)
{
    (void)state;
    if (level == IOH_LOG_WARN && strstr(text, "pool_nice is left alone"))
        atomic_fetch_add(&left_alone, 1);
}

static struct host *new_host(void **state, bool lower)
{
    struct host *h = host_new(state);
    may_lower = lower;
    h->options.pool_nice = NICE;
    h->on.on_request = tell_nice;
    h->on.on_log = note_left_alone;
    left_alone = 0;
    return h;
}

static struct host *nice_host(void **state, bool lower)
{
    struct host *h = new_host(state, lower);
    host_start(h);
    return h;
}

static ioh_pool *named;

static void choose_named(ioh_req *req, struct ioh_route *route, void *state)
{
    (void)state;
    if (ioh_req_path(req).len == 6) {
        route->exec = IOH_EXEC_POOL;
        route->pool = named;
    }
}

static void only_named_pools_run_nicer(void **state)
{
    struct host *h = new_host(state, false);
    h->on.on_classify = choose_named;
    host_create(h);
    named = host_pool(h, "named", 2, 0);
    host_start(h);
    struct client *c = client_open(h);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(nice_of(c, "/"), 0);
        assert_int_equal(nice_of(c, "/named"), host_has_threads_for_each(h) ? 0 : NICE);
    }
    client_close_all();
    host_end(h);
}

static void late_callbacks_run_nicer_and_those_who_hold_loops_do_not(void **state)
{
    struct host *h = nice_host(state, true);
    struct client *c = client_open(h);
    for (int i = 0; i < 5; i++) {
        /* The first is late where it stands; it is remembered, and the next ones go to the pool. */
        int late = nice_of(c, "/late");
        assert_true(late == NICE || (i == 0 && late == 0));
        assert_int_equal(nice_of(c, "/"), 0);
    }
    client_close_all();
    host_end(h);
}

static void without_the_right_to_go_back_it_is_left_alone_and_said(void **state)
{
    struct host *h = nice_host(state, false);
    struct client *c = client_open(h);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(nice_of(c, "/late"), 0);
        assert_int_equal(nice_of(c, "/"), 0);
    }
    WAIT(h, left_alone == 1);
    client_close_all();
    host_end(h);
}

static const struct host_test tests[] = {
    HOST_TEST_IN(only_named_pools_run_nicer, IN_INLINE | IN_POOL | IN_AFFINE | IN_THREADS),
    HOST_TEST_IN(late_callbacks_run_nicer_and_those_who_hold_loops_do_not, IN_AUTO),
    HOST_TEST_IN(without_the_right_to_go_back_it_is_left_alone_and_said, IN_AUTO),
};

HOST_MAIN(tests)
