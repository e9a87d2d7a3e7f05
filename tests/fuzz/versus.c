/* Our parsers of heads and bodies against Debian's http-parser, another reading of the same RFCs by other
 * people: whatever both take they understand alike, and where only one refuses there is a reason, which
 * stands in the tables below (and for readers in tests/wire/DEVIATIONS.md).
 *
 * Input: the bytes of a client. Built where http_parser.h is.
 */
#include <http_parser.h>

#include "proto/http1_body.h"
#include "support/text.h"
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { MESSAGES = 8, FIELDS = 100 };

/* What we refuse and http-parser takes, by our reason. */
static const char *const stricter[] = {
    /* a line ends with CRLF, and CR stands nowhere else (RFC 9112 2.2 lets a recipient choose) */
    "bare LF in the request line",
    "bare LF in a field line",
    "bare LF instead of the empty line",
    "bare CR instead of the empty line",
    "bare CR or LF before the request",
    "too many empty lines",
    "the method is too long", /* many bare CRs are no end of a line, but many bytes without a space */
    /* the request line has single spaces and one version of HTTP (RFC 9112 2.3, 3) */
    "more than one space before the target",
    "bytes behind the version",
    "no version in the request line",
    "not a version",
    "not version 1",
    /* targets (RFC 9112 3.2) */
    "a byte that a target may not have",
    "a fragment in the target",
    "not a form of target",
    "userinfo in the target",
    "bad host in the target",
    "the asterisk is for OPTIONS",
    "CONNECT: no tunnels here",
    "the target is too long",
    /* Host, which http-parser does not look at (RFC 9112 3.2) */
    "no Host",
    "more than one Host",
    "Host is not a host",
    "Host is not the host of the target",
    /* fields (RFC 9112 5.1, 5.2, RFC 9110 5.5) */
    "white space before the first field",
    "white space in or behind a field name",
    "a folded field line",
    "a control byte in a field value",
    "bare CR in a field line",
    "too many fields",
    "the head is too large",
    /* framing (RFC 9112 6) */
    "more than one Content-Length",
    "Content-Length is too large",
    "Content-Length without a number",
    "Content-Length with Transfer-Encoding",
    "Transfer-Encoding with HTTP/1.0",
    "an unknown transfer coding",
    "a bad transfer coding",
    "a transfer coding behind chunked",
    "an unknown expectation",
    /* chunks (RFC 9112 7.1); it takes bytes above ASCII for the digit 0 */
    "a chunk without size",
    "a bad byte behind the chunk size",
    "a chunk extension without name",
    "a chunk extension without value",
    "a bad byte in a quoted chunk extension",
    "bare CR behind the chunk size",
    "bare CR behind a chunk",
    "bare CR at the end of the body",
    "bare CR in a trailer field",
    "a chunk is longer than its size",
    "a bad byte in the name of a trailer field",
    "a bad byte in the value of a trailer field",
    "neither a trailer field nor the end of the body",
    "the line of a chunk is too long",
    "the trailers are too large",
    "the chunk size is too large",
};

/* ---- what a parser saw */

enum stage { NAMES, VALUE, BODY, WHOLE };

struct message {
    enum stage stage;            /* NAMES and VALUE: only of http-parser */
    bool chunked, tab, odd_name; /* of ours: a tab in it or behind it, a name Transfer-EncodingX */
    bool keep;                   /* the connection goes on */
    bool close_1_0;              /* of ours: HTTP/1.0, and some Connection field is "close" */
    bool last;                   /* nothing behind it is compared */
    struct text head, body;
};

struct view {
    struct message of[MESSAGES];
    size_t count;       /* begun */
    bool refused;       /* the one behind the last whole message */
    const char *reason; /* ours */
    enum http_errno error;
    struct text name, value, fields; /* of the head that http-parser is at */
};

static void free_view(struct view *v)
{
    for (size_t i = 0; i < MESSAGES; i++) {
        text_free(&v->of[i].head);
        text_free(&v->of[i].body);
    }
    text_free(&v->name);
    text_free(&v->value);
    text_free(&v->fields);
}

/* A field without the white space around its value: http-parser keeps it behind. */
static void add_field(struct text *head, const char *name, size_t name_len, const char *value,
                      size_t value_len)
{
    while (value_len > 0 && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t'))
        value_len--;
    text_add(head, name, name_len);
    text_say(head, ": ");
    text_add(head, value, value_len);
    text_say(head, "\n");
}

/* ---- ours */

static void our_head(struct message *m, const char *data, const struct ioh__http1_head *h)
{
    text_add(&m->head, data + h->method, h->method_len);
    text_say(&m->head, " ");
    text_add(&m->head, data + h->target, h->target_len);
    text_say(&m->head, " 1.%d%s\n", h->minor, h->chunked ? " chunked" : "");
    for (size_t i = 0; i < h->count; i++) {
        const char *name = data + h->fields[i].name;
        if (h->fields[i].name_len > 17 && strncasecmp(name, "Transfer-Encoding", 17) == 0)
            m->odd_name = true;
        if (h->minor == 0 && h->fields[i].name_len == 10 && h->fields[i].value_len == 5 &&
            strncasecmp(name, "Connection", 10) == 0 &&
            strncasecmp(data + h->fields[i].value, "close", 5) == 0)
            m->close_1_0 = true;
        add_field(&m->head, name, h->fields[i].name_len, data + h->fields[i].value,
                  h->fields[i].value_len);
    }
    m->chunked = h->chunked;
    m->keep = h->keep_alive;
    m->last = !m->keep;
}

/* true: the message is whole, *at is behind it. */
static bool our_message(struct view *v, struct message *m, const char *data, size_t len, size_t *at)
{
    static const struct ioh__http1_limits limits = {
        .max_head = 65535, .max_uri = 8192, .max_headers = FIELDS};
    struct ioh__http1_field fields[FIELDS];
    struct ioh__http1_head head = {.fields = fields};
    struct ioh__http1_fault fault = {.status = 0};
    struct ioh__http1_body body;
    size_t scanned = 0;
    enum ioh__http1_result got = IOH__HTTP1_MORE;
    m->tab = *at < len && memchr(data + *at, '\t', len - *at);
    if (*at < len)
        got = ioh__http1_parse(data + *at, len - *at, len - *at, &scanned, &limits, &head, &fault);
    v->refused = got == IOH__HTTP1_FAULT;
    v->reason = fault.reason;
    if (got != IOH__HTTP1_DONE)
        return false;
    our_head(m, data + *at, &head);
    *at += head.len;
    ioh__http1_body_init(&body, &head);
    for (;;) {
        struct ioh_str piece = {NULL, 0};
        size_t used = 0;
        enum ioh__http1_body_result result =
            ioh__http1_body_next(&body, data + *at, len - *at, UINT64_MAX, &used, &piece, &fault);
        *at += used;
        if (result == IOH__BODY_PIECE)
            text_add(&m->body, piece.ptr, piece.len);
        v->refused = result == IOH__BODY_FAULT;
        v->reason = fault.reason;
        if (result != IOH__BODY_PIECE && result != IOH__BODY_TRAILER)
            return result == IOH__BODY_END;
    }
}

static void see_ours(struct view *v, const char *data, size_t len)
{
    size_t at = 0;
    *v = (struct view){.count = 0};
    for (; v->count < MESSAGES; v->count++) {
        struct message *m = &v->of[v->count];
        if (our_message(v, m, data, len, &at))
            m->stage = WHOLE;
        if (m->stage != WHOLE || m->last)
            return;
    }
}

/* ---- theirs */

static struct message *current(http_parser *p)
{
    struct view *v = p->data;
    return v->count > 0 && v->count <= MESSAGES ? &v->of[v->count - 1] : NULL;
}

static int on_begin(http_parser *p)
{
    struct view *v = p->data;
    return ++v->count > MESSAGES; /* enough: an error of its own */
}

static int on_url(http_parser *p, const char *at, size_t len)
{
    struct message *m = current(p);
    if (m->head.len == 0)
        text_say(&m->head, "%s ", http_method_str((enum http_method)p->method));
    text_add(&m->head, at, len);
    return 0;
}

static void end_field(struct view *v, struct message *m)
{
    if (m->stage == VALUE)
        add_field(&v->fields, v->name.bytes, v->name.len, v->value.bytes, v->value.len);
    v->name.len = v->value.len = 0;
    m->stage = NAMES;
}

static int on_name(http_parser *p, const char *at, size_t len)
{
    struct view *v = p->data;
    struct message *m = current(p);
    if (m->stage == BODY) /* a trailer */
        return 0;
    if (m->stage == VALUE)
        end_field(v, m);
    text_add(&v->name, at, len);
    return 0;
}

static int on_value(http_parser *p, const char *at, size_t len)
{
    struct view *v = p->data;
    struct message *m = current(p);
    if (m->stage == BODY)
        return 0;
    m->stage = VALUE;
    text_add(&v->value, at, len);
    return 0;
}

static int on_head(http_parser *p)
{
    struct view *v = p->data;
    struct message *m = current(p);
    end_field(v, m);
    /* a higher minor version is 1.1 to us (RFC 9110 2.5) */
    text_say(&m->head, " %u.%u%s\n", p->http_major, p->http_minor > 0,
             p->flags & F_CHUNKED ? " chunked" : "");
    text_add(&m->head, v->fields.bytes, v->fields.len);
    v->fields.len = 0;
    m->keep = http_should_keep_alive(p);
    m->last = !m->keep || p->upgrade;
    m->stage = BODY;
    return 0;
}

static int on_body(http_parser *p, const char *at, size_t len)
{
    text_add(&current(p)->body, at, len);
    return 0;
}

static int on_complete(http_parser *p)
{
    current(p)->stage = WHOLE;
    if (current(p)->last)
        http_parser_pause(p, 1);
    return 0;
}

static void see_theirs(struct view *v, const char *data, size_t len)
{
    static const http_parser_settings settings = {.on_message_begin = on_begin,
                                                  .on_url = on_url,
                                                  .on_header_field = on_name,
                                                  .on_header_value = on_value,
                                                  .on_headers_complete = on_head,
                                                  .on_body = on_body,
                                                  .on_message_complete = on_complete};
    http_parser parser;
    *v = (struct view){.count = 0};
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = v;
    http_parser_execute(&parser, &settings, data, len);
    v->error = HTTP_PARSER_ERRNO(&parser);
    v->refused = v->error != HPE_OK && v->error != HPE_PAUSED && v->error != HPE_CB_message_begin;
}

/* ---- comparing */

static void explain(const char *what, const char *reason, const char *data, size_t len)
{
    fprintf(stderr, "versus: %s: %s\n", what, reason);
    fwrite(data, 1, len, stderr);
    fprintf(stderr, "\n");
    abort();
}

static bool is_stricter(const char *reason)
{
    for (size_t i = 0; i < sizeof stricter / sizeof stricter[0]; i++) {
        if (strcmp(stricter[i], reason) == 0)
            return true;
    }
    return false;
}

/* What http-parser refuses and we take. m: as far as we saw it. */
static bool is_broader(enum http_errno error, const struct message *m)
{
    switch (error) {
    case HPE_INVALID_METHOD: /* it knows a list of them; a method is any token (RFC 9110 9.1) */
        return true;
    case HPE_INVALID_CONTENT_LENGTH:    /* a tab is white space like any other (RFC 9110 5.6.3) */
        return m->tab || m->chunked;    /* and it reads Content-Length among trailers, too */
    case HPE_INVALID_TRANSFER_ENCODING: /* it takes Transfer-EncodingX for Transfer-Encoding */
        return m->tab || m->odd_name;
    case HPE_UNEXPECTED_CONTENT_LENGTH: /* both of these: by such a name, and among trailers */
        return m->head.len > 0;
    default:
        return false;
    }
}

static bool same(const struct text *a, const struct text *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->bytes, b->bytes, a->len) == 0);
}

static bool is_whole(const struct view *v, size_t i)
{
    return v->of[i].stage == WHOLE;
}

/* Why we shall refuse this when its line has ended, before which we tell no fault; NULL: we shall not. */
static const char *coming_reason(const char *data, size_t len)
{
    struct view v;
    char *more = malloc(len + 4);
    CHECK(more);
    memcpy(more, data, len);
    memcpy(more + len, "\r\n\r\n", 4);
    see_ours(&v, more, len + 4);
    const char *reason = v.refused ? v.reason : NULL;
    free_view(&v);
    free(more);
    return reason;
}

static void compare(const struct view *ours, const struct view *theirs, const char *data,
                    size_t len)
{
    size_t i = 0;
    for (; i < MESSAGES && is_whole(ours, i) && is_whole(theirs, i); i++) {
        const struct message *a = &ours->of[i], *b = &theirs->of[i];
        if (!same(&a->head, &b->head))
            explain("heads differ", b->head.bytes, a->head.bytes, a->head.len);
        /* http-parser overlooks words of Connection: with a tab behind them, and behind a comma that ends
         * the beginning of a word it knows ("ke, close"); and in HTTP/1.0 it asks for keep-alive alone, where close
         * in another field outweighs it (RFC 9112 9.3) */
        bool theirs_errs = a->tab || memchr(a->head.bytes, ',', a->head.len) ||
                           (a->close_1_0 && !a->keep && b->keep);
        if (a->keep != b->keep && !theirs_errs)
            explain("only for one the connection goes on", "", data, len);
        if (b->last && b->keep) /* an upgrade to whatever: it stops there */
            return;
        if (!same(&a->body, &b->body))
            explain("bodies differ", "", data, len);
        if (a->last || b->last)
            return;
    }
    if (i == MESSAGES)
        return;
    const char *reason = ours->refused ? ours->reason : NULL;
    if (!reason && !is_whole(ours, i))
        reason = coming_reason(data, len);
    if (theirs->refused && !reason && !is_broader(theirs->error, &ours->of[i]))
        explain("only they refuse", http_errno_name(theirs->error), data, len);
    if (reason && !theirs->refused && (ours->refused || is_whole(theirs, i)) &&
        !is_stricter(reason))
        explain("only we refuse", reason, data, len);
    if (!reason && !theirs->refused && is_whole(ours, i) != is_whole(theirs, i))
        explain(is_whole(ours, i) ? "only for us it is whole" : "only for them it is whole", "",
                data, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct view ours, theirs;
    if (len == 0)
        return 0;
    see_ours(&ours, (const char *)data, len);
    see_theirs(&theirs, (const char *)data, len);
    compare(&ours, &theirs, (const char *)data, len);
    free_view(&ours);
    free_view(&theirs);
    return 0;
}
