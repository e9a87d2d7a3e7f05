/* Passing publications along the subscriptions of a loop (see topics.h). The thread that holds it. */
#include <iohandler/error.h>
#include <iohandler/ws.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "conn/conn.h"
#include "conn/crew.h"
#include "conn/topics.h"
#include "conn/ws_conn.h"
#include "conn/ws_pack.h"

#define BATCH_MAX 64u /* publications of one pass */
#define JOIN_MAX \
    65536u /* bytes of a batch that are laid together; longer frames cost more than their number */
#define RELAY_MAX 16u /* visits under the lock: what publishers may have to wait for */
#define OWED_MAX 256u
#define TRY_AGAIN_LATER 1013

struct ioh__owed {
    struct ioh__owed *next;
    struct ioh__sub *sub;
    struct ioh__publication *pub;
};

/* ---- counting */

static void count_fate(struct ioh__topics *topics, struct ioh__topic *topic, enum ioh__fate fate,
                       uint64_t n)
{
    if (!n)
        return;
    atomic_fetch_add_explicit(&topic->fates[fate], n, memory_order_relaxed);
    atomic_fetch_add_explicit(&topics->fates[fate], n, memory_order_relaxed);
}

/* What happened in a part of a pass. */
struct tally {
    uint64_t fates[IOH__FATES];
};

static void count_all(struct ioh__topics *topics, struct ioh__topic *topic, const struct tally *t)
{
    for (int i = 0; i < IOH__FATES; i++)
        count_fate(topics, topic, (enum ioh__fate)i, t->fates[i]);
}

/* ---- what is owed; under the lock with IOH_THREADS */

static void append_owed(struct ioh__member *m, struct ioh__owed *owed)
{
    owed->next = NULL;
    if (m->last)
        m->last->next = owed;
    else
        m->first = owed;
    m->last = owed;
    m->owed_count++;
    m->owed_bytes += ioh__publication_weight(owed->pub);
}

/* Takes out the one behind `before`, or the first. */
static struct ioh__owed *take_owed(struct ioh__member *m, struct ioh__owed *before)
{
    struct ioh__owed *owed = before ? before->next : m->first;
    if (before)
        before->next = owed->next;
    else
        m->first = owed->next;
    if (m->last == owed)
        m->last = before;
    m->owed_count--;
    m->owed_bytes -= ioh__publication_weight(owed->pub);
    return owed;
}

static void free_owed(struct ioh__owed *list)
{
    while (list) {
        struct ioh__owed *next = list->next;
        ioh__publication_unref(list->pub);
        free(list);
        list = next;
    }
}

static void discard(struct ioh__owed *owed, struct ioh__owed **trash)
{
    owed->next = *trash;
    *trash = owed;
}

void ioh__owed_forget(struct ioh__member *m, const struct ioh__sub *sub)
{
    struct ioh__owed *trash = NULL, *before = NULL;
    struct ioh__topics *topics = &m->conn->hub->crew->topics;
    pthread_mutex_lock(&topics->lock);
    for (struct ioh__owed *owed = m->first, *next; owed; owed = next) {
        next = owed->next;
        if (!sub || owed->sub == sub)
            discard(take_owed(m, before), &trash);
        else
            before = owed;
    }
    pthread_mutex_unlock(&topics->lock);
    free_owed(trash);
}

/* false: out of memory. */
static bool owe(struct ioh__sub *sub, struct ioh__publication *pub)
{
    struct ioh__owed *owed = malloc(sizeof *owed);
    if (!owed)
        return false;
    owed->sub = sub;
    owed->pub = ioh__publication_ref(pub);
    append_owed(sub->member, owed);
    return true;
}

/* IOH_TOPIC_LATEST: it is kept in place of what the same topic's last one was. */
static void keep_latest(struct ioh__sub *sub, struct ioh__publication *pub, struct tally *tally,
                        struct ioh__owed **trash)
{
    struct ioh__member *m = sub->member;
    struct ioh__owed *owed = m->first, *before = NULL;
    while (owed && strcmp(owed->pub->name, pub->name) != 0) {
        before = owed;
        owed = owed->next;
    }
    if (owed) {
        discard(take_owed(m, before), trash);
        tally->fates[IOH__FATE_COALESCED]++;
    }
    uint64_t most = m->conn->hub->options->send_max;
    while (m->first &&
           (m->owed_count >= OWED_MAX || m->owed_bytes + ioh__publication_weight(pub) > most)) {
        discard(take_owed(m, NULL), trash);
        tally->fates[IOH__FATE_SKIPPED]++;
    }
    if (!owe(sub, pub))
        tally->fates[IOH__FATE_SKIPPED]++;
}

/* ---- one subscriber */

/* Each is visited once for a publication, whatever the number of its subscriptions that match. */
static bool is_for(const struct ioh__sub *sub, const struct ioh__publication *pub)
{
    struct ioh__member *m = sub->member;
    if (pub->serial <= sub->since || pub->serial <= m->seen || pub->except == m->id)
        return false;
    m->seen = pub->serial;
    return true;
}

static bool is_slow(ioh_conn *conn, const struct ioh__publication *pub)
{
    const struct ioh_options *o = conn->hub->options;
    size_t waits = conn->out.bytes + ioh__ws_held_bytes(conn);
    return waits > o->send_high || waits + pub->size > o->send_max;
}

/* Frames into its out queue, behind a header if the first one's is not with them. false: out of memory, the
 * connection is dead. */
static bool put(ioh_conn *conn, const uint8_t *head, size_t head_len, ioh_buf *body, unsigned count)
{
    struct ioh__mem *mem = &conn->hub->loop.mem;
    struct ioh__outq *q = ioh__ws_queue(conn);
    if (!q || !ioh__outq_copy(q, mem, head, head_len, false) ||
        !ioh__outq_take_buf(q, mem, ioh_buf_ref(body), false)) {
        ioh__conn_no_memory(conn);
        return false;
    }
    atomic_store_explicit(&conn->queued, conn->out.bytes, memory_order_relaxed);
    ioh__count(&conn->hub->loop.count.ws_messages_sent, count);
    ioh__conn_touch(conn);
    return true;
}

/* Compressed or not. */
static bool send_now(ioh_conn *conn, struct ioh__publication *pub)
{
    ioh_buf *body = pub->body;
    ioh_buf *form = !pub->head_len
                        ? ioh__ws_frame_form_ref(conn, body)
                        : ioh__ws_form_ref(conn, body, pub->head[0] & 15, body->data, body->len);
    if (!form)
        return put(conn, pub->head, pub->head_len, body, 1);
    bool sent = put(conn, NULL, 0, form, 1);
    ioh_buf_unref(form);
    return sent;
}

static void close_slow(ioh_conn *conn)
{
    static const char reason[] = "reads too slowly";
    ioh__ws_close_now(conn, TRY_AGAIN_LATER, reason, sizeof reason - 1);
}

/* The loop's holder. false: the subscription has ended by that. */
static bool offer(struct ioh__sub *sub, struct ioh__publication *pub, struct tally *tally)
{
    ioh_conn *conn = sub->member->conn;
    struct ioh__owed *trash = NULL;
    if (!is_for(sub, pub))
        return true;
    if (!is_slow(conn, pub) && !(conn->owes && sub->full == IOH_TOPIC_LATEST)) {
        tally->fates[IOH__FATE_DELIVERED]++;
        return send_now(conn, pub);
    }
    if (sub->full == IOH_TOPIC_CLOSE) {
        tally->fates[IOH__FATE_CLOSED]++;
        close_slow(conn);
        return false;
    }
    if (sub->full == IOH_TOPIC_LATEST) {
        keep_latest(sub, pub, tally, &trash);
        conn->owes = true;
        free_owed(trash);
    } else {
        tally->fates[IOH__FATE_SKIPPED]++;
    }
    return true;
}

/* IOH_THREADS, under the lock: it is laid ready for the connection's thread. */
static void lay_ready(struct ioh__sub *sub, struct ioh__publication *pub, struct tally *tally,
                      struct ioh__owed **trash)
{
    struct ioh__member *m = sub->member;
    if (!is_for(sub, pub))
        return;
    if (m->owed_bytes <= m->conn->hub->options->send_high) {
        if (!owe(sub, pub))
            tally->fates[IOH__FATE_SKIPPED]++;
    } else if (sub->full == IOH_TOPIC_LATEST) {
        keep_latest(sub, pub, tally, trash);
    } else if (sub->full == IOH_TOPIC_SKIP) {
        tally->fates[IOH__FATE_SKIPPED]++;
    } else if (!m->too_slow) {
        m->too_slow = true;
        tally->fates[IOH__FATE_CLOSED]++;
    }
    if (!m->rung) {
        struct ioh__message *ring = ioh__message_new(IOH__MESSAGE_TOPIC_RING, m->id, 0);
        m->rung = ioh__message_give(sub->hub, ring) == 0;
    }
}

/* What is to be done with what is owed first. NULL: nothing, or it has to wait. Under the lock, if need be. */
static struct ioh__owed *next_owed(ioh_conn *conn)
{
    struct ioh__member *m = conn->topics;
    struct ioh__owed *owed = m->first;
    if (!owed || (is_slow(conn, owed->pub) && owed->sub->full == IOH_TOPIC_LATEST)) {
        conn->owes = owed != NULL; /* then it comes here again, when there is room */
        m->rung = owed != NULL;
        return NULL;
    }
    return take_owed(m, NULL);
}

void ioh__topics_drain(ioh_conn *conn)
{
    struct ioh__topics *topics = &conn->hub->crew->topics;
    while (conn->topics) {
        pthread_mutex_lock(&topics->lock);
        bool too_slow = conn->topics->too_slow;
        struct ioh__owed *owed = too_slow ? NULL : next_owed(conn);
        pthread_mutex_unlock(&topics->lock);
        if (too_slow)
            close_slow(conn);
        if (!owed)
            return;
        owed->next = NULL;
        enum ioh__fate fate = IOH__FATE_DELIVERED;
        if (is_slow(conn, owed->pub))
            fate = owed->sub->full == IOH_TOPIC_CLOSE ? IOH__FATE_CLOSED : IOH__FATE_SKIPPED;
        count_fate(topics, owed->sub->topic, fate, 1);
        if (fate == IOH__FATE_DELIVERED)
            send_now(conn, owed->pub);
        else if (fate == IOH__FATE_CLOSED)
            close_slow(conn);
        free_owed(owed);
    }
}

/* ---- the pass */

void ioh__topics_take(struct ioh__hub *hub, struct ioh__delivery *d)
{
    struct ioh__pass *p = &hub->own_pass;
    d->head.mail.next = NULL;
    if (p->last)
        p->last->head.mail.next = &d->head.mail;
    else
        p->first = d;
    p->last = d;
}

static struct ioh__delivery *next_delivery(const struct ioh__delivery *d)
{
    struct ioh__mail *next = d->head.mail.next;
    return next ? ioh__container(next, struct ioh__delivery, head.mail) : NULL;
}

static bool same_topics(const struct ioh__publication *a, const struct ioh__publication *b)
{
    return a->topic_count == b->topic_count &&
           memcmp(a->topics, b->topics, a->topic_count * sizeof *a->topics) == 0;
}

/* A batch is mostly sent as a whole: its frames are laid together once, instead of once for each subscriber. */
static ioh_buf *join(const struct ioh__pass *p)
{
    const struct ioh__delivery *d = p->first;
    size_t len = 0;
    for (unsigned i = 0; i < p->batch; i++, d = next_delivery(d))
        len += d->pub->size;
    ioh_buf *joined = p->batch > 1 && len <= JOIN_MAX ? ioh__buf_new(len) : NULL;
    if (!joined)
        return NULL;
    uint8_t *at = joined->data;
    d = p->first;
    for (unsigned i = 0; i < p->batch; i++, d = next_delivery(d))
        at = mempcpy(at, d->pub->body->data, d->pub->size);
    return joined;
}

static void begin(struct ioh__hub *hub, struct ioh__pass *p)
{
    const struct ioh__delivery *d = p->first;
    p->topic = 0;
    for (p->batch = 1; p->batch < BATCH_MAX; p->batch++) {
        d = next_delivery(d);
        if (!d || !same_topics(d->pub, p->first->pub))
            break;
    }
    p->joined = hub->options->type == IOH_EPOLL ? join(p) : NULL;
}

static void end(struct ioh__hub *hub, struct ioh__pass *p)
{
    struct ioh__topics *topics = &hub->crew->topics;
    struct ioh__delivery *d = p->first, *past = d;
    pthread_mutex_lock(&topics->lock);
    for (unsigned i = 0; i < p->batch; i++, past = next_delivery(past)) {
        if (--past->pub->loops_left == 0) {
            topics->backlog -= ioh__publication_weight(past->pub);
            ioh__publication_drop_topics(past->pub);
        }
    }
    pthread_mutex_unlock(&topics->lock);
    ioh_buf_unref(p->joined);
    p->joined = NULL;
    p->first = past;
    if (!past)
        p->last = NULL;
    for (; p->batch; p->batch--) {
        struct ioh__delivery *next = next_delivery(d);
        ioh__publication_unref(d->pub);
        d = next;
    }
}

/* The whole batch in one piece, if all of it is for this subscriber as it is and there is room. */
static bool offer_joined(const struct ioh__pass *p, const struct ioh__sub *sub, struct tally *tally)
{
    struct ioh__member *m = sub->member;
    ioh_conn *conn = m->conn;
    const struct ioh__delivery *d = p->first;
    uint64_t serial = d->pub->serial;
    if (sub->since >= serial || m->seen >= serial || conn->owes || ioh__ws_packs(conn) ||
        conn->out.bytes + ioh__ws_held_bytes(conn) + p->joined->len > conn->hub->options->send_high)
        return false;
    for (unsigned i = 0; i < p->batch; i++, d = next_delivery(d)) {
        if (d->pub->except == m->id)
            return false;
        serial = d->pub->serial;
    }
    m->seen = serial;
    tally->fates[IOH__FATE_DELIVERED] += p->batch;
    put(conn, NULL, 0, p->joined, p->batch);
    return true;
}

/* Visits the connections of this loop. true: that was the last. */
static bool visit_own(struct ioh__pass *p, struct ioh__list *subs, size_t *left,
                      struct tally *tally)
{
    if (!p->at)
        p->at = subs->next;
    for (; p->at != subs && *left; --*left) {
        struct ioh__sub *sub = ioh__container(p->at, struct ioh__sub, link);
        struct ioh__delivery *d = p->first;
        bool there = true;
        p->at = sub->link.next;
        if (p->joined && offer_joined(p, sub, tally))
            continue;
        for (unsigned i = 0; i < p->batch && there; i++, d = next_delivery(d))
            there = offer(sub, d->pub, tally);
    }
    if (p->at != subs)
        return false;
    p->at = NULL;
    return true;
}

/* IOH_THREADS: tells some connections' threads. true: that was the last. */
static bool visit_others(struct ioh__topics *topics, struct ioh__pass *p, struct ioh__list *subs,
                         size_t *left, struct tally *tally)
{
    struct ioh__owed *trash = NULL;
    pthread_mutex_lock(&topics->lock);
    if (!p->at)
        p->at = subs->next;
    for (unsigned n = 0; p->at != subs && *left && n < RELAY_MAX; n++, --*left) {
        struct ioh__sub *sub = ioh__container(p->at, struct ioh__sub, link);
        struct ioh__delivery *d = p->first;
        p->at = sub->link.next;
        for (unsigned i = 0; i < p->batch; i++, d = next_delivery(d))
            lay_ready(sub, d->pub, tally, &trash);
    }
    bool over = p->at == subs;
    if (over)
        p->at = NULL;
    pthread_mutex_unlock(&topics->lock);
    free_owed(trash);
    return over;
}

void ioh__topics_pass(struct ioh__hub *hub, size_t visits)
{
    struct ioh__topics *topics = &hub->crew->topics;
    struct ioh__pass *p = &hub->own_pass;
    while (p->first && visits) {
        struct tally tally = {{0}};
        if (!p->batch)
            begin(hub, p);
        if (p->topic == p->first->pub->topic_count) {
            end(hub, p);
            continue;
        }
        struct ioh__topic *topic = p->first->pub->topics[p->topic];
        struct ioh__list *subs = &topic->audiences[hub->loop.index].subs;
        bool over = hub->options->type == IOH_THREADS
                        ? visit_others(topics, p, subs, &visits, &tally)
                        : visit_own(p, subs, &visits, &tally);
        count_all(topics, topic, &tally);
        if (over)
            p->topic++;
    }
}
