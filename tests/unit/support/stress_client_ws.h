/* WebSocket clients of a server under stress (stress_client.h). */
#ifndef IOH_TESTS_STRESS_CLIENT_WS_H
#define IOH_TESTS_STRESS_CLIENT_WS_H

enum { WS_MESSAGES = 24, MESSAGE_ROOM = 40000 };

struct told {
    char kind;
    uint32_t n;
    bool posted; /* its "P:N" has come */
};

struct ws {
    struct told told[WS_MESSAGES];
    int sent, heard, copies; /* messages; whose copies have all come; copies of the next one */
    int pings, pongs, posts_owed;
    bool greeted;
    int code;    /* of the Close frame, 0 without one */
    int part_op; /* of a message in fragments, 0: none is under way */
    size_t part_len;
    char part[MESSAGE_ROOM + 1];
};

static inline void put_frame(struct peer *p, int b0, const char *data, size_t len)
{
    uint8_t head[14] = {(uint8_t)b0};
    size_t n = 2;
    uint32_t key = roll(&p->seed);
    if (len < 126) {
        head[1] = (uint8_t)(0x80 | len);
    } else if (len < 65536) {
        head[1] = 0x80 | 126;
        head[n++] = (uint8_t)(len >> 8);
        head[n++] = (uint8_t)len;
    } else {
        abort();
    }
    memcpy(head + n, &key, 4);
    put_bytes(p, head, n + 4);
    size_t from = p->out_len;
    put_bytes(p, data, len);
    for (size_t i = 0; i < len; i++)
        p->out[from + i] = (char)(p->out[from + i] ^ (char)head[n + i % 4]);
}

/* "K:N:" and the pattern. */
static inline size_t message_of(const struct told *t, char *text, size_t room)
{
    size_t len = (size_t)snprintf(text, room, "%c:%u:", t->kind, t->n),
           more = request_len(t->n) - 1;
    fill_pattern(text + len, t->n, 0, more);
    return len + more;
}

static inline void put_message(struct peer *p, struct ws *w, char kind)
{
    char *text = malloc(MESSAGE_ROOM);
    struct told *t = &w->told[w->sent++];
    if (!text)
        abort();
    *t = (struct told){.kind = kind, .n = new_number()};
    w->posts_owed += kind == WS_POST || kind == WS_PIECES;
    w->pings += kind == WS_PIECES; /* a pong stands between its pieces */
    size_t len = message_of(t, text, MESSAGE_ROOM), half = len / 2;
    int op = t->n % 2 ? 1 : 2;
    if (roll(&p->seed) % 8) {
        put_frame(p, 0x80 | op, text, len);
    } else { /* in two fragments, and a ping between */
        put_frame(p, op, text, half);
        put_frame(p, 0x89, "ping", 4);
        put_frame(p, 0x80, text + half, len - half);
        w->pings++;
    }
    free(text);
}

/* ---- frames that come */

static inline void check_copy(struct peer *p, struct ws *w, const char *data, size_t len)
{
    char *text = malloc(MESSAGE_ROOM);
    if (!text)
        abort();
    while (w->heard < w->sent &&
           w->copies == ws_copies(w->told[w->heard].kind, w->told[w->heard].n)) {
        w->heard++;
        w->copies = 0;
    }
    if (w->heard == w->sent) {
        WRONG(p, "a message that nobody sent");
    } else {
        const struct told *t = &w->told[w->heard];
        size_t want = message_of(t, text, MESSAGE_ROOM);
        p->kind = t->kind;
        p->n = t->n;
        if (data[0] != '1' + w->copies || len != want + 1 || memcmp(data + 1, text, want) != 0)
            WRONG(p, "another message than the next one");
        w->copies++;
        atomic_fetch_add(&frames_checked, 1);
    }
    free(text);
}

static inline void check_post(struct peer *p, struct ws *w, const char *data, size_t len)
{
    char text[16];
    for (int i = 0; i < w->sent; i++) {
        size_t want = (size_t)snprintf(text, sizeof text, "P:%u", w->told[i].n);
        if ((w->told[i].kind == WS_POST || w->told[i].kind == WS_PIECES) && !w->told[i].posted &&
            len == want && memcmp(data, text, len) == 0) {
            w->told[i].posted = true;
            w->posts_owed--;
            return;
        }
    }
    WRONG(p, "a post that nobody wanted");
}

static inline void check_frame(struct peer *p, struct ws *w, int op, const char *data, size_t len)
{
    if (op == 10) {
        if (len != 4 || memcmp(data, "ping", 4) != 0 || ++w->pongs > w->pings)
            WRONG(p, "a pong for nothing");
    } else if (op == 8) {
        w->code = len < 2 ? 1005 : (uint8_t)data[0] << 8 | (uint8_t)data[1];
    } else if (len == 1 && data[0] == 'G') {
        if (w->greeted)
            WRONG(p, "greeted twice");
        w->greeted = true;
    } else if (!w->greeted || len == 0) {
        WRONG(p, "a message before the first one");
    } else if (data[0] == 'P') {
        check_post(p, w, data, len);
    } else {
        check_copy(p, w, data, len);
    }
}

/* A data frame that is part of a message. */
static inline void hear_fragment(struct peer *p, struct ws *w, int op, bool fin, const char *data,
                                 size_t len)
{
    if ((op == 0) != (w->part_op != 0) || w->part_len + len > sizeof w->part) {
        WRONG(p, "a fragment that must not stand here");
        return;
    }
    if (op)
        w->part_op = op;
    memcpy(w->part + w->part_len, data, len);
    w->part_len += len;
    if (!fin)
        return;
    check_frame(p, w, w->part_op, w->part, w->part_len);
    w->part_op = 0;
    w->part_len = 0;
}

/* false: the connection has ended. */
static inline bool hear_frame(struct peer *p, struct ws *w)
{
    if (!need(p, 2))
        return false;
    int b0 = (uint8_t)p->in[p->at];
    size_t len = (uint8_t)p->in[p->at + 1], head = 2;
    if ((b0 & 0x70) != 0 || len > 127) {
        WRONG(p, "no frame of a server");
        return false;
    }
    if (len >= 126) {
        size_t more = len == 126 ? 2 : 8;
        if (!need(p, 2 + more))
            return false;
        for (len = 0; head < 2 + more; head++)
            len = len << 8 | (uint8_t)p->in[p->at + head];
    }
    if (!need(p, head + len))
        return false;
    if (b0 & 8)
        check_frame(p, w, b0 & 15, p->in + p->at + head, len);
    else
        hear_fragment(p, w, b0 & 15, b0 & 0x80, p->in + p->at + head, len);
    p->at += head + len;
    return true;
}

/* All copies of all messages have come. */
static inline bool has_all(const struct ws *w)
{
    int heard = w->heard, copies = w->copies;
    while (heard < w->sent && copies == ws_copies(w->told[heard].kind, w->told[heard].n)) {
        heard++;
        copies = 0;
    }
    return heard == w->sent && w->greeted && w->pongs == w->pings;
}

/* There was too little room. */
static inline bool was_turned_away(const struct ws *w)
{
    return w->code == 1013 ? may_refuse() : w->code == 0 && may_reset();
}

/* Hears until all is there; false: the session is over. */
static inline bool hear_all(struct peer *p, struct ws *w, bool posts)
{
    p->waits_for = "the messages";
    while (!has_all(w) || (posts && w->posts_owed)) {
        bool more = hear_frame(p, w);
        if (more && !w->code)
            continue;
        if (was_turned_away(w))
            return turn_away();
        CUT(p, more ? "a Close frame" : "the connection ended");
        return false;
    }
    return !atomic_load(&stress.faults);
}

/* ---- the session */

static inline bool upgrade(struct peer *p, struct ws *w)
{
    char text[300];
    uint32_t n = new_number();
    int status = ws_refusal(n);
    p->kind = 'w';
    p->n = n;
    p->waits_for = "the upgrade";
    put_bytes(p, text,
              (size_t)snprintf(text, sizeof text,
                               "GET /ws/%u HTTP/1.1\r\nHost: stress\r\nUpgrade: websocket\r\n"
                               "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                               "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n\r\n",
                               n));
    if (roll(&p->seed) % 2) /* right behind it */
        put_message(p, w, WS_ECHO);
    send_all(p);
    size_t len = find(p, "\r\n\r\n");
    struct reply r = {0};
    if (!len) {
        if (p->got == 0 && !may_reset() && !atomic_load(&stress.stopping))
            atomic_fetch_add(&refusals_seen, 1);
        else if (!may_reset())
            CUT(p, "cut off");
        return false;
    }
    read_head(p, &r, len);
    if (r.status == 101 && !status)
        return true;
    if (!take_body(p, &r, r.len, false))
        CUT(p, "a refusal is cut off");
    if (r.status == 503 && may_refuse())
        turn_away();
    else if (r.status != status)
        CUT(p, "another status");
    expect_end(p, "the end after a refused upgrade");
    return false;
}

/* The host ends it. */
static inline void hear_host_end(struct peer *p, struct ws *w, char kind)
{
    put_message(p, w, kind);
    uint32_t n = w->told[w->sent - 1].n;
    if (kind == WS_ABORT)
        w->sent--; /* it does not come back */
    if (roll(&p->seed) % 2 && kind != WS_ABORT)
        put_frame(p, 0x81, "e:1:never delivered", 19);
    send_all(p);
    if (kind != WS_ABORT && !hear_all(p, w, false))
        return;
    p->waits_for = "the end of a WebSocket";
    if (kind == WS_CLOSE) {
        while (!w->code && hear_frame(p, w))
            ;
        if (w->code != ws_close_code(n) && !was_turned_away(w))
            CUT(p, "another Close frame");
        put_frame(p, 0x88, "\x0f\xa0", 2);
        send_all(p);
    }
    while (hear_frame(p, w)) /* posts may still come before the end */
        if (w->code && kind != WS_CLOSE)
            return;
}

static inline void close_politely(struct peer *p, struct ws *w)
{
    put_frame(p, 0x88,
              "\x03\xe8"
              "bye",
              5);
    send_all(p);
    p->waits_for = "the answer to a Close frame";
    while (!w->code && hear_frame(p, w))
        ;
    if (w->code != 1000 && !was_turned_away(w))
        CUT(p, "another Close frame");
    if (w->code && p->len > p->at)
        WRONG(p, "more came");
    expect_end(p, "the end after the Close frames");
}

static inline void ws_session(struct peer *p)
{
    static const char kinds[] = {WS_ECHO, WS_ECHO, WS_POST, WS_BUF, WS_WAIT, WS_PIECES};
    static const char ends[] = {WS_CLOSE, WS_SHUT, WS_ABORT};
    struct ws w = {0};
    if (!upgrade(p, &w))
        return;
    for (int round = (int)(roll(&p->seed) % 4); round >= 0; round--) {
        int count = 1 + (int)(roll(&p->seed) % 5);
        while (count-- > 0 && w.sent < WS_MESSAGES - 1)
            put_message(p, &w, kinds[roll(&p->seed) % sizeof kinds]);
        send_all(p);
        if (roll(&p->seed) % 32 == 0) {
            atomic_fetch_add(&resets_made, 1);
            return;
        }
        if (!hear_all(p, &w, roll(&p->seed) % 2))
            return;
    }
    if (roll(&p->seed) % 3 == 0)
        hear_host_end(p, &w, ends[roll(&p->seed) % sizeof ends]);
    else
        close_politely(p, &w);
}

#endif
