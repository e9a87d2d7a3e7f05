/* Publications (see topics.h): made, framed and posted. Any thread. */
#include <iohandler/error.h>
#include <iohandler/ws.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "conn/topics.h"

/* Payloads up to this are copied behind their header, which takes a few us; longer ones are not copied at all. */
#define FRAME_COPY_MAX 65536u

void ioh__publication_unref(struct ioh__publication *pub)
{
    if (atomic_fetch_sub_explicit(&pub->refs, 1, memory_order_acq_rel) != 1)
        return;
    ioh_buf_unref(pub->body);
    free(pub);
}

struct ioh__publication *ioh__publication_new(const char *name, int op, ioh_buf *payload,
                                              ioh_conn_id except, unsigned loops)
{
    size_t name_len = strlen(name) + 1, all = loops * sizeof(struct ioh__delivery);
    struct ioh__publication *pub = malloc(sizeof *pub + all + name_len);
    if (pub) {
        memset(pub, 0, sizeof *pub + all);
        pub->refs = 1;
        pub->except = except;
        pub->name = memcpy((char *)pub + sizeof *pub + all, name, name_len);
        pub->topics = pub->few;
        pub->topic_room = sizeof pub->few / sizeof *pub->few;
        if (payload->len <= FRAME_COPY_MAX) {
            pub->body = ioh_ws_frame(op, payload->data, payload->len);
        } else {
            pub->head_len = (uint8_t)ioh__ws_header_write(pub->head, op, payload->len);
            pub->body = ioh_buf_ref(payload);
        }
    }
    ioh_buf_unref(payload);
    if (!pub || pub->body) {
        if (pub)
            pub->size = pub->head_len + pub->body->len;
        return pub;
    }
    free(pub);
    return NULL;
}

/* ioh__topic_match(): a topic is noted and held. Out of memory: topic_room is 0 from then on. */
static void note_topic(struct ioh__topic *topic, void *arg)
{
    struct ioh__publication *pub = arg;
    if (pub->topic_count == pub->topic_room && pub->topic_room) {
        unsigned room = 2 * pub->topic_room;
        bool first = pub->topics == pub->few;
        struct ioh__topic **more = realloc(first ? NULL : pub->topics, room * sizeof *more);
        if (more && first)
            memcpy(more, pub->few, sizeof pub->few);
        pub->topics = more ? more : pub->topics;
        pub->topic_room = more ? room : 0;
    }
    if (!pub->topic_room)
        return;
    pub->topics[pub->topic_count++] = topic;
    topic->refs++;
}

void ioh__publication_drop_topics(struct ioh__publication *pub)
{
    for (unsigned i = 0; i < pub->topic_count; i++)
        ioh__topic_put(pub->topics[i]);
    if (pub->topics != pub->few)
        free(pub->topics);
    pub->topics = NULL;
}

static bool wanted_by(const struct ioh__publication *pub, unsigned loop)
{
    for (unsigned i = 0; i < pub->topic_count; i++)
        if (pub->topics[i]->audiences[loop].interest)
            return true;
    return false;
}

/* Under the lock. Posts it, and answers to how many. */
static uint32_t post(struct ioh__topics *topics, struct ioh__hub *const *hubs, unsigned count,
                     struct ioh__publication *pub)
{
    uint32_t posted = 0;
    pub->serial = ++topics->serial;
    for (unsigned i = 0; i < count; i++) {
        struct ioh__delivery *d = &pub->deliveries[i];
        if (!wanted_by(pub, i))
            continue;
        d->head.kind = IOH__MESSAGE_PUBLISH;
        d->pub = ioh__publication_ref(pub);
        if (ioh__mailbox_post(&hubs[i]->loop.mailbox, &d->head.mail))
            posted++;
        else
            atomic_fetch_sub_explicit(&pub->refs, 1,
                                      memory_order_relaxed); /* that loop has ended */
    }
    for (unsigned i = 0; i < pub->topic_count; i++)
        pub->topics[i]->published++;
    ioh__count(&topics->published, 1);
    return posted;
}

int ioh__topics_publish(struct ioh__topics *topics, struct ioh__hub *const *hubs, unsigned count,
                        struct ioh__publication *pub)
{
    int rc = 0;
    pthread_mutex_lock(&topics->lock);
    ioh__topic_match(&topics->root, pub->name, note_topic, pub);
    if (!pub->topic_room)
        rc = IOH_ENOMEM;
    else if (topics->backlog &&
             topics->backlog + ioh__publication_weight(pub) > hubs[0]->options->send_max)
        rc = IOH_EFULL;
    else if (pub->topic_count)
        pub->loops_left = post(topics, hubs, count, pub);
    if (pub->loops_left)
        topics->backlog += ioh__publication_weight(pub);
    else
        ioh__publication_drop_topics(pub);
    pthread_mutex_unlock(&topics->lock);
    ioh__publication_unref(pub);
    return rc;
}
