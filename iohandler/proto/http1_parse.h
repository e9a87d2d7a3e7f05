/* HTTP/1 request heads (RFC 9112 2 to 5, RFC 9110 5): in place, without allocation, strict.
 *
 * The head lies in one piece in the receive buffer. While it is incomplete the parser is called again
 * with more bytes behind it; it does nothing until a new line has ended, so a head that dribbles in
 * is parsed at most once per line. Offsets count from the first byte given, including empty lines
 * before the request line (RFC 9112 2.2).
 */
#ifndef IOH_PROTO_HTTP1_PARSE_H
#define IOH_PROTO_HTTP1_PARSE_H

#include <iohandler/types.h>
#include <stdbool.h>

/* One field: offsets from the start of the bytes; the value is without white space around it. */
struct ioh__http1_field {
    uint16_t name, name_len;
    uint16_t value, value_len;
};

/* RFC 9112 3.2 */
enum ioh__http1_form {
    IOH__FORM_ORIGIN,
    IOH__FORM_ABSOLUTE,
    IOH__FORM_ASTERISK,
};

struct ioh__http1_limits {
    uint32_t max_head; /* at most 65,535: offsets are 16 bit */
    uint32_t max_uri;
    uint32_t max_headers;
};

struct ioh__http1_head {
    uint32_t len; /* of the whole head, with the empty lines before and the one behind */
    uint16_t method, method_len;
    uint16_t target, target_len;
    uint16_t path, path_len;   /* path_len 0 with form ABSOLUTE: the path is "/" */
    uint16_t query, query_len; /* query 0: none */
    uint8_t minor;             /* HTTP/1.0 or 1.1; a higher minor version counts as 1.1 */
    uint8_t form;              /* enum ioh__http1_form */
    bool is_head;              /* the method is HEAD */
    bool keep_alive;           /* what the client wants, by version and Connection (RFC 9112 9.3) */
    bool chunked;              /* the body is chunked */
    bool has_length;           /* Content-Length was given */
    bool expect_continue;      /* Expect: 100-continue on HTTP/1.1 (RFC 9110 10.1.1) */
    bool upgrade_websocket;    /* Connection has "upgrade", Upgrade has "websocket", HTTP/1.1 */
    uint64_t content_length;
    uint16_t count;                  /* fields */
    struct ioh__http1_field *fields; /* room for limits.max_headers; the caller's */
};

/* Why a message was refused. */
struct ioh__http1_fault {
    int status;         /* the answer: 400, 413, 414, 417, 431, 501, 505 */
    const char *reason; /* static text for the log */
    size_t offset;      /* where, in the bytes given */
};

enum ioh__http1_result { IOH__HTTP1_MORE, IOH__HTTP1_DONE, IOH__HTTP1_FAULT };

/* Parses the head at data[0..len). Up to room, at least len, may be read (it is quicker where that is 64 or
 * more), but what lies behind len does not matter. *scanned is how far earlier calls have looked for the end of a
 * line: 0 for a new head, kept by the caller between calls for the same bytes (which must not have
 * moved relative to the start). head->fields must be set; the rest of *head is written.
 * DONE: *head is filled. FAULT: *fault is. */
enum ioh__http1_result ioh__http1_parse(const char *data, size_t len, size_t room, size_t *scanned,
                                        const struct ioh__http1_limits *limits,
                                        struct ioh__http1_head *head,
                                        struct ioh__http1_fault *fault);

/* The same, and how bytes are looked at is chosen by the caller: the processor must have what it takes. The
 * result is the same in any way, which tests see to. */
enum ioh__scan_way { IOH__BY_BYTES, IOH__BY_SSSE3, IOH__BY_AVX2 };
enum ioh__http1_result ioh__http1_parse_by(enum ioh__scan_way way, const char *data, size_t len,
                                           size_t room, size_t *scanned,
                                           const struct ioh__http1_limits *limits,
                                           struct ioh__http1_head *head,
                                           struct ioh__http1_fault *fault);

/* The first field of that name (any case) from index from on: its index, or -1. */
int ioh__http1_find(const char *data, const struct ioh__http1_head *head, const char *name,
                    size_t name_len, size_t from);

/* ---- the small grammar, shared with answers and WebSocket handshakes */

bool ioh__is_token(const char *s, size_t len);       /* RFC 9110 5.6.2; false when empty */
bool ioh__is_field_value(const char *s, size_t len); /* RFC 9110 5.5: no control bytes but tab */

/* Is token (lower case) an element of the comma-separated list, any case (RFC 9110 5.6.1)? */
bool ioh__list_has(const char *list, size_t len, const char *token);

/* Equal but for case? b is lower case. */
bool ioh__equal_nocase(const char *a, size_t len, const char *b, size_t b_len);

#endif
