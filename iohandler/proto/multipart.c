/* multipart/form-data (see multipart.h). Owns nothing, one thread at a time. */
#include "proto/multipart.h"

#include <assert.h>
#include <iohandler/error.h>
#include <string.h>

#include "proto/http1_field.h"
#include "proto/http1_parse.h"
#include "proto/media_type.h"

static enum ioh__multipart_event fail(struct ioh__multipart *m, int error, const char *why)
{
    m->step = IOH__MULTIPART_FAILED;
    m->error = error;
    m->why = why;
    return IOH__MULTIPART_FAULT;
}

static bool is_named(struct ioh_str name, const char *lower)
{
    return ioh__equal_nocase(name.ptr, name.len, lower, strlen(lower));
}

/* ---- the boundary */

/* RFC 2046 5.1.1: bchars, of which the last is no space. */
static bool is_boundary(struct ioh_str b)
{
    if (b.len == 0 || b.len > IOH__BOUNDARY_MAX || b.ptr[b.len - 1] == ' ')
        return false;
    for (size_t i = 0; i < b.len; i++) {
        char c = b.ptr[i], lower = (char)(c | 0x20);
        bool alnum = (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z');
        if (!alnum && (c == '\0' || !strchr("'()+_,-./:=? ", c)))
            return false;
    }
    return true;
}

int ioh__multipart_init(struct ioh__multipart *m, struct ioh_str content_type, char *head,
                        uint32_t head_max, uint32_t max_parts)
{
    struct ioh_str type = ioh__media_type(content_type), boundary = {NULL, 0};
    struct ioh__param param;
    enum ioh__params got;
    memset(m, 0, sizeof *m);
    if (type.len == 0 || !is_named(type, "multipart/form-data"))
        return IOH_EINVAL;
    const char *behind = type.ptr + type.len;
    struct ioh_str rest = {behind, (size_t)(content_type.ptr + content_type.len - behind)};
    while ((got = ioh__params_next(&rest, &param)) == IOH__PARAMS_ONE) {
        if (!is_named(param.name, "boundary"))
            continue;
        if (boundary.ptr) /* two: which one would another reader take? */
            return IOH_EINVAL;
        boundary = param.value;
    }
    if (got == IOH__PARAMS_BAD || !boundary.ptr || !is_boundary(boundary))
        return IOH_EINVAL;
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary.ptr, boundary.len);
    m->delimiter_len = (uint8_t)(4 + boundary.len);
    m->matched = m->assumed = 2; /* the body begins as if behind a line's end */
    m->head = head;
    m->head_max = head_max;
    m->max_parts = max_parts;
    return 0;
}

/* ---- a part's head */

/* A parameter that may come once. In place: an escaped value becomes shorter. */
static bool take_once(struct ioh__multipart *m, struct ioh_str *to, const struct ioh__param *param)
{
    if (to->ptr)
        return false;
    *to = param->value;
    if (param->quoted)
        to->len = ioh__params_unescape(m->head + (to->ptr - m->head), to->len);
    return true;
}

/* RFC 7578 4.2. filename* must not be used, and is passed over like all that is not known. */
static bool take_disposition(struct ioh__multipart *m, struct ioh_str value)
{
    struct ioh__param param;
    enum ioh__params got;
    struct ioh_str what = ioh__media_type(value);
    if (what.len == 0 || !is_named(what, "form-data"))
        return false;
    const char *behind = what.ptr + what.len;
    struct ioh_str rest = {behind, (size_t)(value.ptr + value.len - behind)};
    while ((got = ioh__params_next(&rest, &param)) == IOH__PARAMS_ONE) {
        if (is_named(param.name, "name") && !take_once(m, &m->name, &param))
            return false;
        if (is_named(param.name, "filename") && !take_once(m, &m->filename, &param))
            return false;
    }
    return got == IOH__PARAMS_END && m->name.ptr;
}

/* RFC 7578 4.7: not used with HTTP; content in another encoding would be taken for what it is not. */
static bool is_plain_encoding(struct ioh_str value)
{
    return is_named(value, "binary") || is_named(value, "8bit") || is_named(value, "7bit");
}

/* One line of the head, without its CRLF. NULL, or why it is none. */
static const char *take_line(struct ioh__multipart *m, const char *line, size_t len, bool *disposed)
{
    const char *colon = memchr(line, ':', len);
    struct ioh_str name = {line, colon ? (size_t)(colon - line) : 0};
    if (!colon || !ioh__is_token(name.ptr, name.len))
        return "a line of a part's head is no field";
    const char *from = colon + 1, *to = line + len;
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (from < to && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    struct ioh_str value = {from, (size_t)(to - from)};
    if (!ioh__is_field_value(value.ptr, value.len))
        return "a control byte in a part's head";
    if (is_named(name, "content-disposition")) {
        if (*disposed || !take_disposition(m, value))
            return "a Content-Disposition that is not form-data with one name";
        *disposed = true;
    } else if (is_named(name, "content-type")) {
        if (m->type.ptr)
            return "two Content-Types in a part's head";
        m->type = value;
    } else if (is_named(name, "content-transfer-encoding") && !is_plain_encoding(value)) {
        return "a part in a transfer encoding";
    }
    return NULL;
}

/* The head is whole, and ends with an empty line. */
static enum ioh__multipart_event take_head(struct ioh__multipart *m)
{
    bool disposed = false;
    m->name = m->filename = m->type = (struct ioh_str){NULL, 0};
    const char *end = m->head + m->head_len - 2;
    for (const char *line = m->head; line < end;) {
        const char *to = memchr(line, '\n', (size_t)(end - line));
        assert(to); /* feed_head() has seen it */
        const char *why = take_line(m, line, (size_t)(to - 1 - line), &disposed);
        if (why)
            return fail(m, IOH_EINVAL, why);
        line = to + 1;
    }
    if (!disposed)
        return fail(m, IOH_EINVAL, "a part without Content-Disposition");
    if (m->parts++ >= m->max_parts)
        return fail(m, IOH_ETOOBIG, "too many parts");
    m->step = IOH__MULTIPART_DATA_STEP;
    m->in_part = true;
    m->matched = m->assumed = 2; /* the empty line's end may be a delimiter's (RFC 2046 5.1.1) */
    return IOH__MULTIPART_PART;
}

static enum ioh__multipart_event feed_head(struct ioh__multipart *m, const char *data, size_t len,
                                           size_t *used)
{
    while (*used < len) {
        const char *from = data + *used, *lf = memchr(from, '\n', len - *used);
        size_t n = lf ? (size_t)(lf + 1 - from) : len - *used;
        if (n > m->head_max - m->head_len)
            return fail(m, IOH_ETOOBIG, "the head of a part is too long");
        memcpy(m->head + m->head_len, from, n);
        m->head_len += (uint32_t)n;
        *used += n;
        if (!lf)
            break;
        uint32_t line_len = m->head_len - m->line;
        if (line_len < 2 || m->head[m->head_len - 2] != '\r')
            return fail(m, IOH_EINVAL, "a bare LF in a part's head");
        if (line_len == 2)
            return take_head(m);
        m->line = m->head_len;
    }
    return IOH__MULTIPART_MORE;
}

/* ---- the delimiter */

/* How many bytes of data can be no delimiter's: up to the next one, or to what may be its beginning. */
static size_t before_delimiter(const struct ioh__multipart *m, const char *data, size_t len)
{
    const char *found = memmem(data, len, m->delimiter, m->delimiter_len);
    if (found)
        return (size_t)(found - data);
    /* CR stands in a delimiter only once, so the last one decides. */
    size_t tail = len < m->delimiter_len - 1u ? len : m->delimiter_len - 1u;
    const char *from = data + len - tail, *cr = memrchr(from, '\r', tail);
    if (cr && memcmp(cr, m->delimiter, (size_t)(data + len - cr)) == 0)
        return (size_t)(cr - data);
    return len;
}

/* Up to the next delimiter: content of a part, or of the preamble, which nobody wants. */
static enum ioh__multipart_event feed_content(struct ioh__multipart *m, const char *data,
                                              size_t len, size_t *used, struct ioh_str *piece)
{
    bool wanted = m->step == IOH__MULTIPART_DATA_STEP;
    while (*used < len) {
        if (m->matched == 0) {
            size_t n = before_delimiter(m, data + *used, len - *used);
            *piece = (struct ioh_str){data + *used, n};
            *used += n;
            if (n > 0 && wanted)
                return IOH__MULTIPART_DATA;
        }
        while (m->matched < m->delimiter_len && *used < len &&
               data[*used] == m->delimiter[m->matched]) {
            m->matched++;
            ++*used;
        }
        if (m->matched == m->delimiter_len) {
            m->step = IOH__MULTIPART_LINE;
            return IOH__MULTIPART_MORE;
        }
        if (*used == len)
            break;
        /* It was none after all. */
        *piece = (struct ioh_str){m->delimiter + m->assumed, (size_t)(m->matched - m->assumed)};
        m->matched = m->assumed = 0;
        if (piece->len > 0 && wanted)
            return IOH__MULTIPART_DATA;
    }
    return IOH__MULTIPART_MORE;
}

/* The delimiter's line is whole, or the closing "--" has come. */
static enum ioh__multipart_event end_part(struct ioh__multipart *m, enum ioh__multipart_step next)
{
    bool due = m->in_part;
    m->step = (uint8_t)next;
    m->in_part = false;
    m->matched = m->assumed = 0;
    m->head_len = m->line = 0;
    return due ? IOH__MULTIPART_END : IOH__MULTIPART_MORE;
}

/* One byte behind a boundary (RFC 2046 5.1.1: transport-padding CRLF, or "--"). What stands there else
 * makes it a boundary to some readers and content to others. */
static enum ioh__multipart_event feed_line(struct ioh__multipart *m, char c)
{
    bool space = c == ' ' || c == '\t';
    switch ((enum ioh__multipart_step)m->step) {
    case IOH__MULTIPART_LINE:
        if (c == '-') {
            m->step = IOH__MULTIPART_LINE_DASH;
            return IOH__MULTIPART_MORE;
        }
        /* fall through */
    case IOH__MULTIPART_LINE_PADDING:
        if (space || c == '\r') {
            m->step = space ? IOH__MULTIPART_LINE_PADDING : IOH__MULTIPART_LINE_CR;
            return IOH__MULTIPART_MORE;
        }
        break;
    case IOH__MULTIPART_LINE_DASH:
        if (c == '-')
            return end_part(m, IOH__MULTIPART_CLOSING);
        break;
    case IOH__MULTIPART_LINE_CR:
        if (c == '\n')
            return end_part(m, IOH__MULTIPART_HEAD);
        break;
    case IOH__MULTIPART_CLOSING:
        if (space)
            return IOH__MULTIPART_MORE;
        if (c == '\r') {
            m->step = IOH__MULTIPART_CLOSING_CR;
            return IOH__MULTIPART_MORE;
        }
        break;
    default: /* CLOSING_CR */
        if (c == '\n') {
            m->step = IOH__MULTIPART_EPILOGUE;
            return IOH__MULTIPART_MORE;
        }
        break;
    }
    return fail(m, IOH_EINVAL, "a boundary with something else behind it");
}

/* ---- the whole */

static enum ioh__multipart_event feed_step(struct ioh__multipart *m, const char *data, size_t len,
                                           size_t *used, struct ioh_str *piece)
{
    switch ((enum ioh__multipart_step)m->step) {
    case IOH__MULTIPART_PREAMBLE:
    case IOH__MULTIPART_DATA_STEP:
        return feed_content(m, data, len, used, piece);
    case IOH__MULTIPART_HEAD:
        return feed_head(m, data, len, used);
    case IOH__MULTIPART_EPILOGUE: /* RFC 2046 5.1.1: is to be ignored */
        *used = len;
        return IOH__MULTIPART_MORE;
    case IOH__MULTIPART_FAILED:
        return IOH__MULTIPART_FAULT;
    default:
        return feed_line(m, data[(*used)++]);
    }
}

enum ioh__multipart_event ioh__multipart_next(struct ioh__multipart *m, const char *data,
                                              size_t len, size_t *used, struct ioh_str *piece)
{
    *used = 0;
    *piece = (struct ioh_str){NULL, 0};
    while (*used < len) {
        enum ioh__multipart_event got = feed_step(m, data, len, used, piece);
        if (got != IOH__MULTIPART_MORE)
            return got;
    }
    return m->step == IOH__MULTIPART_FAILED ? IOH__MULTIPART_FAULT : IOH__MULTIPART_MORE;
}

bool ioh__multipart_whole(const struct ioh__multipart *m)
{
    return m->step == IOH__MULTIPART_CLOSING || m->step == IOH__MULTIPART_EPILOGUE;
}
