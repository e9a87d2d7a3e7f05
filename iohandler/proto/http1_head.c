/* Status lines, fields and numbers of HTTP/1 answers. Owns nothing, any thread. */
#include "proto/http1_head.h"

#include "proto/http1_field.h"
#include "proto/http1_parse.h"
#include <iohandler/error.h>
#include <iohandler/req.h>
#include <string.h>

/* IANA's list of statuses; 306 and 418 are "(Unused)" there. */
#define STATUSES(X)                           \
    X(100, "Continue")                        \
    X(101, "Switching Protocols")             \
    X(102, "Processing")                      \
    X(103, "Early Hints")                     \
    X(104, "Upload Resumption Supported")     \
    X(200, "OK")                              \
    X(201, "Created")                         \
    X(202, "Accepted")                        \
    X(203, "Non-Authoritative Information")   \
    X(204, "No Content")                      \
    X(205, "Reset Content")                   \
    X(206, "Partial Content")                 \
    X(207, "Multi-Status")                    \
    X(208, "Already Reported")                \
    X(226, "IM Used")                         \
    X(300, "Multiple Choices")                \
    X(301, "Moved Permanently")               \
    X(302, "Found")                           \
    X(303, "See Other")                       \
    X(304, "Not Modified")                    \
    X(305, "Use Proxy")                       \
    X(307, "Temporary Redirect")              \
    X(308, "Permanent Redirect")              \
    X(400, "Bad Request")                     \
    X(401, "Unauthorized")                    \
    X(402, "Payment Required")                \
    X(403, "Forbidden")                       \
    X(404, "Not Found")                       \
    X(405, "Method Not Allowed")              \
    X(406, "Not Acceptable")                  \
    X(407, "Proxy Authentication Required")   \
    X(408, "Request Timeout")                 \
    X(409, "Conflict")                        \
    X(410, "Gone")                            \
    X(411, "Length Required")                 \
    X(412, "Precondition Failed")             \
    X(413, "Content Too Large")               \
    X(414, "URI Too Long")                    \
    X(415, "Unsupported Media Type")          \
    X(416, "Range Not Satisfiable")           \
    X(417, "Expectation Failed")              \
    X(421, "Misdirected Request")             \
    X(422, "Unprocessable Content")           \
    X(423, "Locked")                          \
    X(424, "Failed Dependency")               \
    X(425, "Too Early")                       \
    X(426, "Upgrade Required")                \
    X(428, "Precondition Required")           \
    X(429, "Too Many Requests")               \
    X(431, "Request Header Fields Too Large") \
    X(451, "Unavailable For Legal Reasons")   \
    X(500, "Internal Server Error")           \
    X(501, "Not Implemented")                 \
    X(502, "Bad Gateway")                     \
    X(503, "Service Unavailable")             \
    X(504, "Gateway Timeout")                 \
    X(505, "HTTP Version Not Supported")      \
    X(506, "Variant Also Negotiates")         \
    X(507, "Insufficient Storage")            \
    X(508, "Loop Detected")                   \
    X(510, "Not Extended")                    \
    X(511, "Network Authentication Required")

#define LINE(status, reason) "HTTP/1.1 " #status " " reason "\r\n"
#define LINE_MEMBER(status, reason) char of_##status[sizeof(LINE(status, reason))];
union longest_line {
    STATUSES(LINE_MEMBER)
};
_Static_assert(sizeof(union longest_line) - 1 <= IOH__STATUS_LINE_MAX,
               "callers give that much room");

const char *ioh_reason(int status)
{
    switch (status) {
#define REASON_CASE(status, reason) \
    case status:                    \
        return reason;
        STATUSES(REASON_CASE)
#undef REASON_CASE
    default:
        return "";
    }
}

/* The whole line of a known status; ptr is NULL for others. */
static struct ioh_str known_line(int status)
{
    switch (status) {
#define LINE_CASE(status, reason) \
    case status:                  \
        return (struct ioh_str){LINE(status, reason), sizeof(LINE(status, reason)) - 1};
        STATUSES(LINE_CASE)
#undef LINE_CASE
    default:
        return (struct ioh_str){NULL, 0};
    }
}

size_t ioh__http1_status_line(int status, char *out)
{
    struct ioh_str line = known_line(status);
    if (!line.ptr) { /* RFC 9112 4: the space stays when there is no reason */
        memcpy(out, "HTTP/1.1 ", 9);
        char *end = ioh__write_decimal(out + 9, (uint64_t)status);
        memcpy(end, " \r\n", 3);
        return (size_t)(end + 3 - out);
    }
    memcpy(out, line.ptr, line.len);
    return line.len;
}

/* ---- fields */

/* The library frames the answer; a second word on it would be a smuggled answer. */
static bool is_own(const char *name, size_t len)
{
    static const struct ioh_str own[] = {
        {"date", 4},        {"upgrade", 7},         {"connection", 10},
        {"keep-alive", 10}, {"content-length", 14}, {"transfer-encoding", 17},
    };
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (ioh__equal_nocase(name, len, own[i].ptr, own[i].len))
            return true;
    }
    return false;
}

int ioh__http1_check_fields(const struct ioh_header *headers, size_t count, size_t *bytes)
{
    size_t sum = 0;
    if (count > 0 && !headers)
        return IOH_EINVAL;
    for (size_t i = 0; i < count; i++) {
        const char *name = headers[i].name, *value = headers[i].value;
        if (!name || !value)
            return IOH_EINVAL;
        size_t name_len = strlen(name), value_len = strlen(value);
        if (!ioh__is_token(name, name_len) || !ioh__is_field_value(value, value_len) ||
            is_own(name, name_len))
            return IOH_EHEADER;
        sum += name_len + 2 + value_len + 2;
    }
    *bytes = sum;
    return 0;
}

char *ioh__http1_write_fields(char *out, const struct ioh_header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t name_len = strlen(headers[i].name), value_len = strlen(headers[i].value);
        memcpy(out, headers[i].name, name_len);
        out += name_len;
        *out++ = ':';
        *out++ = ' ';
        memcpy(out, headers[i].value, value_len);
        out += value_len;
        *out++ = '\r';
        *out++ = '\n';
    }
    return out;
}

/* ---- numbers */

char *ioh__write_decimal(char *out, uint64_t value)
{
    char digits[20], *p = digits + sizeof digits;
    do {
        *--p = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    size_t len = (size_t)(digits + sizeof digits - p);
    memcpy(out, p, len);
    return out + len;
}

char *ioh__write_hex(char *out, uint64_t value)
{
    char digits[16], *p = digits + sizeof digits;
    do {
        *--p = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value);
    size_t len = (size_t)(digits + sizeof digits - p);
    memcpy(out, p, len);
    return out + len;
}
