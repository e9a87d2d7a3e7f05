/* The decoder of HTTP/1 request bodies. Owns nothing; used by the thread that holds the loop.
 *
 *     by length:  LENGTH --all bytes--> DONE
 *
 *     chunked:    SIZE --digit--> SIZE_MORE --CR--> SIZE_LF --LF--> DATA --> DATA_CR --> DATA_LF --> SIZE
 *                                  |      ^            |
 *                                  ';'    CR, ';'      the size was 0
 *                                  v      |            v
 *                                 EXT_... -+          LINE --name ':' value CR LF--> LINE
 *                                                      |
 *                                                      CR LF --> DONE
 *
 *     any --fault--> BROKEN
 *
 * One byte at a time but for the data, so that it does not matter how the bytes are cut. All that has
 * to be remembered between calls is in struct ioh__http1_body.
 */
#include "proto/http1_body.h"

#include <string.h>

#include "proto/http1_field.h"

#define SIZE_DIGITS_MAX 16u

enum state {
    DONE, /* also of a message without body */
    BROKEN,
    LENGTH,
    SIZE,      /* the first digit of a chunk-size is due */
    SIZE_MORE, /* more digits, an extension or the end of the line */
    EXT_NAME,  /* the first byte of an extension's name is due (RFC 9112 7.1.1) */
    EXT_NAME_MORE,
    EXT_VALUE, /* behind '=' */
    EXT_TOKEN,
    EXT_QUOTED,
    EXT_ESCAPED, /* behind a backslash */
    EXT_END,     /* behind a quoted string */
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    LINE, /* the first byte of a trailer field, or the end */
    NAME,
    VALUE,
    VALUE_LF,
    LAST_LF,
};

static enum ioh__http1_body_result refuse(struct ioh__http1_body *body,
                                          struct ioh__http1_fault *fault, size_t offset, int status,
                                          const char *reason)
{
    body->state = BROKEN;
    fault->status = status;
    fault->reason = reason;
    fault->offset = offset;
    return IOH__BODY_FAULT;
}

static bool is(char c, unsigned kind)
{
    return ioh__is_ch(c, kind);
}

static uint64_t hex(char c)
{
    return (uint64_t)(is(c, IOH__CH_DIGIT) ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* What may stand between quotes, behind a backslash or not: in RFC 9110 5.6.4 both are the bytes of a
 * field value, but for the quote and the backslash themselves. */
static bool is_quoted(char c)
{
    return is(c, IOH__CH_VALUE);
}

/* One byte of the line with a chunk's size. NULL: taken. Else why not. Where white space may stand
 * around extensions (BWS), RFC 9112 7.1.1 lets only a recipient allow it: we do not. */
static const char *take_size_line(struct ioh__http1_body *body, char c)
{
    switch ((enum state)body->state) {
    case SIZE:
    case SIZE_MORE:
        if (is(c, IOH__CH_HEX)) {
            if (body->line > SIZE_DIGITS_MAX || body->left >> 59) /* times 16: 2^63 or more */
                return "the chunk size is too large";
            body->left = body->left << 4 | hex(c);
            body->state = SIZE_MORE;
            return NULL;
        }
        if (body->state == SIZE)
            return "a chunk without size";
        break;
    case EXT_NAME:
        if (!is(c, IOH__CH_TOKEN))
            return "a chunk extension without name";
        body->state = EXT_NAME_MORE;
        return NULL;
    case EXT_NAME_MORE:
        if (is(c, IOH__CH_TOKEN))
            return NULL;
        if (c == '=') {
            body->state = EXT_VALUE;
            return NULL;
        }
        break;
    case EXT_VALUE:
        if (c != '"' && !is(c, IOH__CH_TOKEN))
            return "a chunk extension without value";
        body->state = c == '"' ? EXT_QUOTED : EXT_TOKEN;
        return NULL;
    case EXT_TOKEN:
        if (is(c, IOH__CH_TOKEN))
            return NULL;
        break;
    case EXT_QUOTED:
        if (!is_quoted(c))
            return "a bad byte in a quoted chunk extension";
        if (c == '"' || c == '\\')
            body->state = c == '"' ? EXT_END : EXT_ESCAPED;
        return NULL;
    case EXT_ESCAPED:
        if (!is_quoted(c))
            return "a bad byte in a quoted chunk extension";
        body->state = EXT_QUOTED;
        return NULL;
    default:
        break;
    }
    /* Here an extension may begin or the line end. */
    if (c != ';' && c != '\r')
        return "a bad byte behind the chunk size";
    body->state = c == ';' ? EXT_NAME : SIZE_LF;
    return NULL;
}

/* One byte of the trailer section (RFC 9112 7.1.2): fields as in the head, and the empty line. */
static const char *take_trailer(struct ioh__http1_body *body, char c)
{
    switch ((enum state)body->state) {
    case LINE:
        if (c == '\r') {
            body->state = LAST_LF;
            return NULL;
        }
        if (!is(c, IOH__CH_TOKEN))
            return "neither a trailer field nor the end of the body";
        body->state = NAME;
        return NULL;
    case NAME:
        if (c == ':')
            body->state = VALUE;
        else if (!is(c, IOH__CH_TOKEN))
            return "a bad byte in the name of a trailer field";
        return NULL;
    case VALUE:
        if (c == '\r')
            body->state = VALUE_LF;
        else if (!is(c, IOH__CH_VALUE))
            return "a bad byte in the value of a trailer field";
        return NULL;
    case VALUE_LF:
        if (c != '\n')
            return "bare CR in a trailer field";
        body->state = LINE;
        return NULL;
    default: /* LAST_LF */
        if (c != '\n')
            return "bare CR at the end of the body";
        body->state = DONE;
        return NULL;
    }
}

/* One byte that is framing, not data. NULL: taken. */
static const char *take_framing(struct ioh__http1_body *body, char c, uint64_t max_body,
                                int *status)
{
    *status = 400;
    switch ((enum state)body->state) {
    case SIZE_LF:
        if (c != '\n')
            return "bare CR behind the chunk size";
        body->line = 0;
        body->state = body->left > 0 ? DATA : LINE;
        if (body->left <= max_body - body->total)
            return NULL;
        *status = 413;
        return "the chunks are larger than the limit";
    case DATA_CR:
        body->state = DATA_LF;
        return c == '\r' ? NULL : "a chunk is longer than its size";
    case DATA_LF:
        body->state = SIZE;
        return c == '\n' ? NULL : "bare CR behind a chunk";
    case LINE:
    case NAME:
    case VALUE:
    case VALUE_LF:
    case LAST_LF:
        if (++body->line > IOH__TRAILER_MAX) {
            *status = 431;
            return "the trailers are too large";
        }
        return take_trailer(body, c);
    default:
        if (++body->line > IOH__CHUNK_LINE_MAX && c != '\r')
            return "the line of a chunk is too long";
        return take_size_line(body, c);
    }
}

static bool in_trailer_field(const struct ioh__http1_body *body)
{
    return body->state == NAME || body->state == VALUE || body->state == VALUE_LF;
}

void ioh__http1_body_init(struct ioh__http1_body *body, const struct ioh__http1_head *head)
{
    *body = (struct ioh__http1_body){.chunked = head->chunked};
    if (head->chunked) {
        body->state = SIZE;
    } else if (head->has_length && head->content_length > 0) {
        body->state = LENGTH;
        body->left = head->content_length;
    }
}

enum ioh__http1_body_result ioh__http1_body_next(struct ioh__http1_body *body, const char *data,
                                                 size_t len, uint64_t max_body, size_t *used,
                                                 struct ioh_str *piece,
                                                 struct ioh__http1_fault *fault)
{
    size_t at = 0, field = 0; /* where the bytes of a trailer field begin */
    *used = 0;
    if (body->state == BROKEN)
        return refuse(body, fault, 0, 400, "a body that was refused");
    /* total is within max_body but when the caller lowers the limit on the way */
    if (body->total > max_body || (body->state == LENGTH && body->left > max_body - body->total))
        return refuse(body, fault, 0, 413, "the body is larger than the limit");

    while (body->state != DONE) {
        bool was_in_field = in_trailer_field(body);
        if (at == len) {
            *used = at;
            *piece = (struct ioh_str){data + field, at - field};
            return was_in_field && at > field ? IOH__BODY_TRAILER : IOH__BODY_MORE;
        }
        if (body->state == DATA || body->state == LENGTH) {
            size_t take = body->left < len - at ? (size_t)body->left : len - at;
            *piece = (struct ioh_str){data + at, take};
            *used = at + take;
            body->left -= take;
            body->total += take;
            if (body->left == 0)
                body->state = body->chunked ? DATA_CR : DONE;
            return IOH__BODY_PIECE;
        }
        int status;
        const char *reason = take_framing(body, data[at], max_body, &status);
        if (reason) {
            *used = at;
            return refuse(body, fault, at, status, reason);
        }
        at++;
        if (was_in_field && !in_trailer_field(body)) {
            *piece = (struct ioh_str){data + field, at - field};
            *used = at;
            return IOH__BODY_TRAILER;
        }
        if (!was_in_field)
            field = at - 1;
    }
    *used = at;
    return IOH__BODY_END;
}

/* ---- trailer fields that were kept */

bool ioh__http1_trailer_next(const char **p, const char *end, struct ioh_str *name,
                             struct ioh_str *value)
{
    const char *line = *p, *to = line;
    while (to < end && *to != '\r') /* it stands nowhere else: take_trailer() */
        to++;
    const char *colon = memchr(line, ':', (size_t)(to - line));
    if (to == end || !colon)
        return false;
    *p = to + 2;
    *name = (struct ioh_str){line, (size_t)(colon - line)};
    for (colon++; colon < to && (*colon == ' ' || *colon == '\t');)
        colon++;
    while (to > colon && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    *value = (struct ioh_str){colon, (size_t)(to - colon)};
    return true;
}

bool ioh__http1_trailer_allowed(const char *name, size_t len)
{
    static const char *const never[] = {
        "age",
        "authorization",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-range",
        "content-type",
        "cookie",
        "date",
        "expect",
        "expires",
        "forwarded",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "keep-alive",
        "location",
        "max-forwards",
        "pragma",
        "proxy-authenticate",
        "proxy-authorization",
        "range",
        "retry-after",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "vary",
        "www-authenticate",
    };
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        if (ioh__equal_nocase(name, len, never[i], strlen(never[i])))
            return false;
    }
    return true;
}
