/* Subscriptions (see topics.h), and the public functions that make and end them. */
#include "conn/topics.h"

#include <iohandler/error.h>
#include <stdlib.h>
#include <string.h>

#include "conn/conn.h"
#include "conn/crew.h"
#include "conn/reach.h"

void ioh__topics_init(struct ioh__topics *t)
{
    pthread_mutex_init(&t->lock, NULL);
}

void ioh__topics_destroy(struct ioh__topics *t)
{
    pthread_mutex_destroy(&t->lock);
}

static struct ioh__topics *topics_of(const struct ioh__hub *hub)
{
    return &hub->crew->topics;
}

static unsigned audience_of(const struct ioh__hub *hub)
{
    return hub->single ? 0 : hub->loop.index;
}

/* ---- any thread */

/* A subscription that nobody has yet; from now on publications come to the loop for it. NULL: out of memory. */
static struct ioh__sub *make_sub(struct ioh__hub *hub, const char *name, int32_t full)
{
    struct ioh__topics *topics = topics_of(hub);
    struct ioh__sub *sub = calloc(1, sizeof *sub);
    if (!sub)
        return NULL;
    ioh__list_init(&sub->link);
    sub->hub = hub;
    sub->full = full;
    pthread_mutex_lock(&topics->lock);
    sub->topic = ioh__topic_get(&topics->root, name, hub->single ? 1 : hub->all_count);
    if (sub->topic) {
        sub->topic->audiences[audience_of(hub)].interest++;
        sub->topic->subscribers++;
        sub->since = topics->serial;
        ioh__count(&topics->subscriptions, 1);
    }
    pthread_mutex_unlock(&topics->lock);
    if (sub->topic)
        return sub;
    free(sub);
    return NULL;
}

/* Under the lock. A pass that would visit it next visits the one behind it. */
static void unlink_sub(struct ioh__sub *sub)
{
    struct ioh__pass *pass = sub->hub->pass;
    if (!ioh__list_empty(&sub->link)) {
        if (pass->at == &sub->link)
            pass->at = sub->link.next;
        ioh__list_remove(&sub->link);
    }
    sub->topic->audiences[audience_of(sub->hub)].interest--;
    sub->topic->subscribers--;
    ioh__count(&topics_of(sub->hub)->subscriptions, (uint64_t)-1);
    ioh__topic_put(sub->topic);
}

void ioh__sub_drop(struct ioh__sub *sub)
{
    struct ioh__topics *topics = topics_of(sub->hub);
    pthread_mutex_lock(&topics->lock);
    unlink_sub(sub);
    pthread_mutex_unlock(&topics->lock);
    free(sub);
}

void ioh__topics_put(struct ioh__topics *topics, struct ioh__topic *topic)
{
    pthread_mutex_lock(&topics->lock);
    ioh__topic_put(topic);
    pthread_mutex_unlock(&topics->lock);
}

/* ---- the thread that holds the loop */

static struct ioh__member *member_of(ioh_conn *conn)
{
    if (conn->topics)
        return conn->topics;
    struct ioh__member *m = calloc(1, sizeof *m);
    if (m) {
        m->conn = conn;
        m->id = ioh__make_id(conn->hub, &conn->chan);
        conn->topics = m;
    }
    return m;
}

/* Where a member's subscription to a topic stands; *at is NULL when there is none. */
static struct ioh__sub **find_sub(struct ioh__member *m, const struct ioh__topic *topic)
{
    struct ioh__sub **at = &m->subs;
    while (*at && (*at)->topic != topic)
        at = &(*at)->next;
    return at;
}

int ioh__topics_subscribe(ioh_conn *conn, struct ioh__sub *sub)
{
    struct ioh__topics *topics = topics_of(conn->hub);
    struct ioh__member *m = NULL;
    int rc = ioh__ws_may_send(conn);
    if (rc == 0) {
        m = member_of(conn);
        rc = m ? 0 : IOH_ENOMEM;
    }
    if (rc) {
        ioh__sub_drop(sub);
        return rc;
    }
    struct ioh__sub *old = *find_sub(m, sub->topic);
    pthread_mutex_lock(&topics->lock);
    if (old) {
        old->full = sub->full;
    } else {
        sub->member = m;
        sub->next = m->subs;
        m->subs = sub;
        ioh__list_append(&sub->topic->audiences[audience_of(conn->hub)].subs, &sub->link);
    }
    pthread_mutex_unlock(&topics->lock);
    if (old)
        ioh__sub_drop(sub);
    return 0;
}

void ioh__topics_unsubscribe(ioh_conn *conn, struct ioh__topic *topic)
{
    struct ioh__member *m = conn->topics;
    struct ioh__sub **at = m ? find_sub(m, topic) : NULL;
    if (!at || !*at)
        return;
    struct ioh__sub *sub = *at;
    if (!sub->next && at == &m->subs) {
        ioh__topics_leave(conn);
        return;
    }
    *at = sub->next;
    ioh__owed_forget(m, sub);
    ioh__sub_drop(sub);
}

void ioh__topics_leave(ioh_conn *conn)
{
    struct ioh__member *m = conn->topics;
    if (!m)
        return;
    struct ioh__topics *topics = topics_of(conn->hub);
    pthread_mutex_lock(&topics->lock);
    for (struct ioh__sub *sub = m->subs; sub; sub = sub->next)
        unlink_sub(sub);
    pthread_mutex_unlock(&topics->lock);
    ioh__owed_forget(m, NULL);
    while (m->subs) {
        struct ioh__sub *sub = m->subs;
        m->subs = sub->next;
        free(sub);
    }
    conn->topics = NULL;
    conn->owes = false;
    free(m);
}

/* ---- the public face */

int ioh_subscribe(ioh_conn *conn, const char *topic, const struct ioh_topic_options *options)
{
    struct ioh_topic_options o = IOH_TOPIC_OPTIONS_INIT;
    if (options && options->size < sizeof o)
        return IOH_EVERSION;
    if (options)
        o.full = options->full;
    if (!ioh__topic_valid(topic, true) || o.full < IOH_TOPIC_SKIP || o.full > IOH_TOPIC_LATEST)
        return IOH_EINVAL;
    int rc = ioh__ws_check_send(conn);
    if (rc)
        return rc;
    struct ioh__sub *sub = make_sub(conn->hub, topic, o.full);
    if (!sub)
        return IOH_ENOMEM;
    if (ioh__reach(conn->hub)) {
        rc = ioh__topics_subscribe(conn, sub);
        ioh__unreach(conn->hub);
        return rc;
    }
    struct ioh__message *m = ioh__message_new(IOH__MESSAGE_SUBSCRIBE, 0, 0);
    if (!m) {
        ioh__sub_drop(sub);
        return IOH_ENOMEM;
    }
    m->as.sub = sub;
    return ioh__conn_post(conn, m, 0);
}

/* The topic with a reference for whoever asks; NULL: nobody is subscribed to it. */
static struct ioh__topic *ref_topic(struct ioh__topics *topics, const char *name)
{
    pthread_mutex_lock(&topics->lock);
    struct ioh__topic *topic = ioh__topic_find(&topics->root, name);
    if (topic)
        topic->refs++;
    pthread_mutex_unlock(&topics->lock);
    return topic;
}

int ioh_unsubscribe(ioh_conn *conn, const char *topic)
{
    struct ioh__topics *topics = topics_of(conn->hub);
    if (!ioh__topic_valid(topic, true))
        return IOH_EINVAL;
    int rc = ioh__ws_check_send(conn);
    struct ioh__topic *t = rc ? NULL : ref_topic(topics, topic);
    if (!t)
        return rc;
    if (ioh__reach(conn->hub)) {
        ioh__topics_unsubscribe(conn, t);
        ioh__unreach(conn->hub);
        ioh__topics_put(topics, t);
        return 0;
    }
    struct ioh__message *m = ioh__message_new(IOH__MESSAGE_UNSUBSCRIBE, 0, 0);
    if (!m) {
        ioh__topics_put(topics, t);
        return IOH_ENOMEM;
    }
    m->as.unsubscribe.topics = topics;
    m->as.unsubscribe.topic = t;
    return ioh__conn_post(conn, m, 0);
}
