/* What one parse of a request head knows beside the head, and what its fields say of the message. Between
 * http1_parse.c, which reads the lines, and http1_framing.c.
 */
#ifndef IOH_PROTO_HTTP1_FRAMING_H
#define IOH_PROTO_HTTP1_FRAMING_H

#include "proto/http1_parse.h"

struct ioh__http1_parsing {
    const char *data;
    const char *end; /* of the bytes to look at: of those given, or max_head */
    size_t room;     /* how far it may be read */
    const struct ioh__http1_limits *limits;
    struct ioh__http1_head *head;
    struct ioh__http1_fault *fault;
    bool refused;              /* *fault is set; else the bytes ended too early */
    bool in_fields;            /* the request line is over */
    bool close, keep, upgrade; /* seen in Connection */
    bool websocket;            /* seen in Upgrade */
    const struct ioh__http1_field *host, *coding; /* the first Transfer-Encoding */
    const struct ioh__http1_field *expect;        /* the last one */
    bool expect_again;
    uint16_t authority, authority_len; /* of the absolute form */
};

/* The length of a name and its first letter: few fields have one of these keys and are not the one meant. */
static inline unsigned ioh__http1_field_key(const char *name, size_t len)
{
    return (unsigned)len << 8 | (unsigned char)(*name | 0x20);
}

enum {
    IOH__KEY_HOST = 4 << 8 | 'h',
    IOH__KEY_EXPECT = 6 << 8 | 'e',
    IOH__KEY_UPGRADE = 7 << 8 | 'u',
    IOH__KEY_CONNECTION = 10 << 8 | 'c',
    IOH__KEY_CONTENT_LENGTH = 14 << 8 | 'c',
    IOH__KEY_TRANSFER_ENCODING = 17 << 8 | 't',
};

/* Sets the fault; the first byte of what is wrong is at. Answers false, for functions that say whether to go
 * on. */
bool ioh__http1_refuse_now(struct ioh__http1_parsing *s, const char *at, int status,
                           const char *reason);

/* Keeps what a field with one of the keys above says of the message; false: refused. */
bool ioh__http1_take_field(struct ioh__http1_parsing *s, const struct ioh__http1_field *f);

/* Judges the head as a whole, when the empty line is over: behind it the body begins. false: refused. */
bool ioh__http1_finish(struct ioh__http1_parsing *s, const char *behind);

#endif
