/* What arrives in a hub's mailbox: messages, made with malloc by any thread and freed by the hub, and work that
 * comes back (DONE, work.h). */
#ifndef IOH_CONN_MESSAGE_H
#define IOH_CONN_MESSAGE_H

#include <iohandler/req.h>

#include "conn/compress.h"
#include "conn/file.h"
#include "conn/hub.h"

enum ioh__message_kind {
    IOH__MESSAGE_ACCEPTED, /* a connection for this hub */
    IOH__MESSAGE_STOP,
    IOH__MESSAGE_DONE,    /* a job has run on another thread */
    IOH__MESSAGE_PUBLISH, /* a publication for this hub's subscribers (topics.h) */
    /* for the connection named id; they find it or are dropped */
    IOH__MESSAGE_RUN,
    IOH__MESSAGE_FRAME,
    IOH__MESSAGE_WS_PIECE,  /* as.frame, too */
    IOH__MESSAGE_WS_PIECES, /* ioh_ws_receive_pieces() */
    IOH__MESSAGE_WS_CLOSE,
    IOH__MESSAGE_CLOSE,
    IOH__MESSAGE_ABORT,
    IOH__MESSAGE_PAUSE,
    IOH__MESSAGE_RESUME,
    IOH__MESSAGE_REPLY,
    IOH__MESSAGE_SUBSCRIBE,
    IOH__MESSAGE_UNSUBSCRIBE,
    IOH__MESSAGE_TOPIC_RING, /* IOH_THREADS: something was published for it */
};

/* Fields to send: as the host gave them, or serialised already. */
struct ioh__fields {
    const struct ioh_header *list;
    size_t count;
    const char *text; /* not NULL: serialised, len bytes */
    size_t len;       /* what they take, in both cases */
};

enum ioh__reply_kind {
    IOH__REPLY_WHOLE,
    IOH__REPLY_SHARED,
    IOH__REPLY_FILE,
    IOH__REPLY_START,
    IOH__REPLY_DATA,
    IOH__REPLY_END,
    IOH__REPLY_CLOSE,  /* ioh_respond_close() */
    IOH__REPLY_INFORM, /* 1xx */
    IOH__REPLY_PULL,
    IOH__REPLY_MORE, /* of a pulled answer */
};

/* One step of an answer. */
struct ioh__reply {
    enum ioh__reply_kind kind;
    int status;
    struct ioh__fields fields;
    const void *data; /* the body, or a piece: copied when it is applied; */
    size_t len;
    ioh_buf *buf;                 /* or this: the reference goes to whoever applies it */
    struct ioh__file *file;       /* likewise */
    ioh_response *shared;         /* likewise */
    struct ioh__squeeze *squeeze; /* START: likewise: it compresses the body */
    int64_t length;               /* START: of the body, -1 unknown */
    uint32_t comment_ms; /* START: of an event stream: a comment after so much silence; 0: none */
    ioh_more_fn more;    /* PULL */
    void *user;
};

/* What every mail begins with. */
struct ioh__envelope {
    struct ioh__mail mail;
    enum ioh__message_kind kind;
};

struct ioh__message {
    struct ioh__envelope head;
    bool want_drain; /* the sender was told IOH_QUEUED, */
    bool full;       /* or IOH_EFULL */
    bool deferred;   /* REPLY: from ioh_reply(), nobody is told when it comes too late */
    ioh_conn_id id;
    ioh_conn *conn; /* sent by a callback of this connection: posted counts in it; else NULL */
    size_t posted;  /* bytes counted in conn->posted */
    union {
        struct {
            int fd, listener;
            struct ioh__peer peer;
        } accepted;
        struct {
            void (*fn)(ioh_conn *conn, void *user);
            void (*gone)(void *user);
            void *user;
        } run;
        struct {
            uint32_t number;
            struct ioh__reply reply;
        } reply;
        struct {
            int code;
            uint8_t len;
            char reason[123];
        } ws_close;
        struct ioh__sub *sub;
        struct {
            struct ioh__topics *topics;
            struct ioh__topic *topic;
        } unsubscribe;
        ioh_buf *frame;
        bool pieces;
        uint32_t drain_ms;
    } as;
};

/* REPLY: the serialised fields, behind the message. */
static inline char *ioh__message_text(struct ioh__message *m)
{
    return (char *)(m + 1);
}

/* On the thread that holds the loop: does what a mail says and frees it; true: it made a job. */
bool ioh__mail_handle(struct ioh__hub *hub, struct ioh__mail *mail, struct ioh__job *job);

/* Any thread. NULL: out of memory. */
struct ioh__message *ioh__message_new(enum ioh__message_kind kind, ioh_conn_id id, size_t text_len);

/* Gives back what it refers to, and it. */
void ioh__message_free(struct ioh__message *m);

/* Any thread: posts it. IOH_EGONE: the hub has ended, the message is freed. IOH_ENOMEM: m is NULL. */
int ioh__message_give(struct ioh__hub *hub, struct ioh__message *m);

#endif
