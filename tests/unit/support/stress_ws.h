/* The WebSocket callbacks of a host under stress (stress.h).
 *
 * The first frame of each WebSocket is "G". A message comes back as "1" + message, "2" + message and so on; what another
 * thread posts is "P:N".
 */
#ifndef IOH_TESTS_STRESS_WS_H
#define IOH_TESTS_STRESS_WS_H

static inline int ws_copies(char kind, uint32_t n)
{
    return kind == WS_ECHO ? 1 + (int)(n % 3) : kind == WS_BUF ? 2 : kind == WS_ABORT ? 0 : 1;
}

static inline int ws_close_code(uint32_t n)
{
    return 4000 + (int)(n % 900);
}

static inline struct link_seen *enter_ws(ioh_conn *conn)
{
    struct link_seen *l = enter(conn);
    if (!(l->ws_opens == 1 && l->ws_closes == 0))
        stress_fault(__FILE__, __LINE__,
                     "%s: a callback of a WebSocket opened %d times, closed %d times",
                     stress.config->name, l->ws_opens, l->ws_closes);
    return l;
}

static inline int stress_on_ws_upgrade(ioh_req *req, struct ioh_ws_accept *accept, void *state)
{
    ioh_conn *conn = ioh_req_conn(req);
    struct link_seen *l = enter(conn);
    char kind = 0;
    uint32_t n = 0;
    (void)state;
    SURE(l->ws_opens == 0 && l->req == NULL && accept->protocol == NULL);
    SURE(read_target(req, &kind, &n) && kind == 'w');
    linger(&l->seed);
    int status = ws_refusal(n);
    if (status == 409) {
        SENT(ioh_respond(req, 409, NULL, 0, "no", 2));
        status = 0;
    }
    leave(conn, l);
    return status;
}

static inline void stress_on_ws_open(ioh_conn *conn, void *state)
{
    struct link_seen *l = enter(conn);
    (void)state;
    SURE(l->ws_opens++ == 0);
    linger(&l->seed);
    SENT(ioh_ws_send(conn, IOH_WS_TEXT, "G", 1));
    bump(&stress.ws_opens);
    leave(conn, l);
}

/* "K:N:" */
static inline bool read_message(const char *text, size_t len, char *kind, uint32_t *n)
{
    size_t at = 2;
    if (len < 4 || text[1] != ':')
        return false;
    *kind = text[0];
    for (*n = 0; at < len && text[at] >= '0' && text[at] <= '9'; at++)
        *n = *n * 10 + (uint32_t)(text[at] - '0');
    return at < len && text[at] == ':';
}

/* What others post meanwhile must not come in between. */
static inline void send_pieces(ioh_conn *conn, struct link_seen *l, int op, const char *copy,
                               size_t len)
{
    size_t third = len / 3;
    SENT(ioh_ws_send_piece(conn, op, copy, third, 0));
    linger(&l->seed);
    SENT(ioh_ws_send(conn, IOH_WS_PONG, "ping", 4));
    SENT(ioh_ws_send_piece(conn, op, copy + third, third, 0));
    linger(&l->seed);
    SENT(ioh_ws_send_piece(conn, op, copy + 2 * third, len - 2 * third, 1));
}

static inline void send_copy(ioh_conn *conn, struct link_seen *l, int op, char kind, int i,
                             char *copy, size_t len)
{
    copy[0] = (char)('1' + i);
    linger(&l->seed);
    if (kind == WS_BUF && i == 0) {
        SENT(ioh_ws_send_buf(conn, op, ioh_buf_copy(copy, len)));
    } else if (kind == WS_BUF) {
        SENT(ioh_ws_send_frame(conn, ioh_ws_frame(op, copy, len)));
    } else if (kind == WS_PIECES) {
        send_pieces(conn, l, op, copy, len);
    } else if (kind == WS_WAIT) {
        int rc = ioh_ws_send_wait(conn, ioh_ws_frame(op, copy, len), 10000);
        SENT(rc == IOH_ESTATE && !conn->hub->guarded ? ioh_ws_send(conn, op, copy, len) : rc);
    } else {
        SENT(ioh_ws_send(conn, op, copy, len));
    }
}

static inline void end_websocket(ioh_conn *conn, struct link_seen *l, char kind, uint32_t n)
{
    linger(&l->seed);
    if (kind == WS_CLOSE) {
        SENT(ioh_ws_close(conn, ws_close_code(n), "bye", 3));
        SURE(ioh_ws_send(conn, IOH_WS_TEXT, "late", 4) < 0);
    } else if (kind == WS_SHUT) {
        ioh_close(conn);
        SURE(ioh_ws_send(conn, IOH_WS_TEXT, "late", 4) == IOH_EGONE);
    } else if (kind == WS_ABORT) {
        ioh_abort(conn);
        SURE(ioh_ws_send(conn, IOH_WS_TEXT, "late", 4) == IOH_EGONE);
    }
}

static inline void stress_on_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    struct link_seen *l = enter_ws(conn);
    char kind = 0, *copy = malloc(len + 1);
    uint32_t n = 0;
    (void)state;
    if (!copy)
        abort();
    SURE(op == IOH_WS_TEXT || op == IOH_WS_BINARY);
    SURE(read_message(data, len, &kind, &n));
    memcpy(copy + 1, data, len);
    if (kind == WS_POST || kind == WS_PIECES)
        give(GO_POST, conn, (struct ioh_req_id){0}, n);
    for (int i = 0; i < ws_copies(kind, n); i++)
        send_copy(conn, l, op, kind, i, copy, len + 1);
    end_websocket(conn, l, kind, n);
    SURE(memcmp(copy + 1, data, len) == 0);
    memset(data, '?', len); /* it may be changed */
    free(copy);
    bump(&stress.messages);
    leave(conn, l);
}

static inline void stress_on_ws_ping(ioh_conn *conn, const void *data, size_t len, void *state)
{
    struct link_seen *l = enter_ws(conn);
    (void)state;
    linger(&l->seed);
    SURE(len == 4 && memcmp(data, "ping", 4) == 0);
    leave(conn, l);
}

static inline void stress_on_ws_close(ioh_conn *conn, int code, const char *reason, size_t len,
                                      void *state)
{
    struct link_seen *l = enter_ws(conn);
    (void)state;
    SURE(code >= 1000 && code < 5000 && len <= 123 && (!len || reason));
    SURE(ioh_ws_send(conn, IOH_WS_TEXT, "late", 4) < 0);
    l->ws_closes++;
    bump(&stress.ws_closes);
    leave(conn, l);
}

#endif
