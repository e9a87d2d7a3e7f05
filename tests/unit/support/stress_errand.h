/* Threads that are not the library's: they reach connections and requests by their ids (stress.h). */
#ifndef IOH_TESTS_STRESS_ERRAND_H
#define IOH_TESTS_STRESS_ERRAND_H

enum errand_kind {
    GO_RUN,
    GO_RESUME,
    GO_REPLY,
    GO_PIECES,
    GO_POST,
    GO_CLOSE,
    GO_ABORT,
};

struct errand {
    struct errand *next;
    enum errand_kind kind;
    ioh_conn_id conn;
    struct ioh_req_id req;
    uint32_t n;
    atomic_int ran;
};

enum { ERRAND_THREADS = 2 };

static struct {
    pthread_t threads[ERRAND_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t ready;
    struct errand *first, *last;
    bool over;
} errands = {.lock = PTHREAD_MUTEX_INITIALIZER, .ready = PTHREAD_COND_INITIALIZER};

/* In a callback; req is of a request that has been deferred, or all zero. */
static inline void give(enum errand_kind kind, ioh_conn *conn, struct ioh_req_id req, uint32_t n)
{
    struct errand *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->kind = kind;
    e->conn = ioh_conn_get_id(conn);
    e->req = req;
    e->n = n;
    pthread_mutex_lock(&errands.lock);
    if (errands.last)
        errands.last->next = e;
    else
        errands.first = e;
    errands.last = e;
    pthread_cond_signal(&errands.ready);
    pthread_mutex_unlock(&errands.lock);
}

/* ---- ioh_run_on() */

static inline void errand_run(ioh_conn *conn, void *user)
{
    struct errand *e = user;
    struct link_seen *l = enter(conn);
    SURE(atomic_exchange(&e->ran, 1) == 0);
    SURE(l->id == e->conn);
    if (e->kind == GO_RESUME)
        ioh_resume(conn);
    bump(&stress.runs);
    free(e);
    leave(conn, l);
}

static inline void errand_gone(void *user)
{
    static _Thread_local uint32_t seed = 9;
    struct errand *e = user;
    SURE(atomic_exchange(&e->ran, 1) == 0);
    bump(&stress.callbacks);
    bump(&stress.gones);
    free(e);
    linger(&seed);
}

/* ---- answers */

static inline void errand_reply(const struct errand *e, uint32_t *seed)
{
    char text[12], *body = malloc(body_len(e->n) + 1);
    struct ioh_header field = {"X-N", text};
    size_t len = body_len(e->n), at = 0;
    ioh_server *s = stress.server;
    if (!body)
        abort();
    snprintf(text, sizeof text, "%u", e->n);
    fill_pattern(body, e->n, 0, len);
    if (e->kind == GO_REPLY) {
        SENT(ioh_reply(s, e->req, 200, &field, 1, body, len));
    } else {
        SENT(ioh_reply_start(s, e->req, 200, &field, 1, e->n % 2 ? (int64_t)len : -1));
        while (at < len) {
            size_t piece = 1 + roll(seed) % (1 + len / 3);
            piece = piece < len - at ? piece : len - at;
            linger(seed);
            SENT(ioh_reply_data(s, e->req, body + at, piece));
            at += piece;
        }
        linger(seed);
        SENT(ioh_reply_end(s, e->req));
    }
    free(body);
}

static inline void do_errand(struct errand *e, uint32_t *seed)
{
    char text[16];
    int rc;
    switch (e->kind) {
    case GO_RUN:
    case GO_RESUME:
        bump(&stress.given);
        rc = ioh_run_on(stress.server, e->conn, errand_run, e, errand_gone);
        if (rc == 0)
            return; /* it is freed there */
        SENT(rc);
        bump(&stress.gones);
        break;
    case GO_REPLY:
    case GO_PIECES:
        errand_reply(e, seed);
        break;
    case GO_POST:
        snprintf(text, sizeof text, "P:%u", e->n);
        SENT(ioh_ws_post(stress.server, e->conn, ioh_ws_frame(IOH_WS_TEXT, text, strlen(text))));
        break;
    case GO_CLOSE:
        SENT(ioh_post_close(stress.server, e->conn));
        break;
    case GO_ABORT:
        SENT(ioh_post_abort(stress.server, e->conn));
        break;
    }
    free(e);
}

static inline void *run_errands(void *arg)
{
    uint32_t seed = 1000 + (uint32_t)(uintptr_t)arg;
    for (;;) {
        pthread_mutex_lock(&errands.lock);
        while (!errands.first && !errands.over)
            pthread_cond_wait(&errands.ready, &errands.lock);
        struct errand *e = errands.first;
        if (e) {
            errands.first = e->next;
            if (!errands.first)
                errands.last = NULL;
        }
        pthread_mutex_unlock(&errands.lock);
        if (!e)
            return NULL;
        linger(&seed);
        do_errand(e, &seed);
    }
}

/* What was given after the end concerns a server that is no more. */
static inline void drop_errands(void)
{
    while (errands.first) {
        struct errand *e = errands.first;
        errands.first = e->next;
        free(e);
    }
    errands.last = NULL;
}

static inline void start_errands(void)
{
    drop_errands();
    errands.over = false;
    for (int i = 0; i < ERRAND_THREADS; i++)
        assert_int_equal(
            pthread_create(&errands.threads[i], NULL, run_errands, (void *)(uintptr_t)i), 0);
}

/* All of them are done. */
static inline void end_errands(void)
{
    pthread_mutex_lock(&errands.lock);
    errands.over = true;
    pthread_cond_broadcast(&errands.ready);
    pthread_mutex_unlock(&errands.lock);
    for (int i = 0; i < ERRAND_THREADS; i++)
        pthread_join(errands.threads[i], NULL);
}

#endif
