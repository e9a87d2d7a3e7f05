/* Cookies (include/iohandler/form.h; RFC 6265 4.2.1, 5.4): a walk over the Cookie fields of a request. Runs
 * in a callback of the request. */
#include <iohandler/form.h>
#include <string.h>

#include "conn/req.h"

void ioh_cookies_init(struct ioh_cookies *it, const ioh_req *req)
{
    *it = (struct ioh_cookies){._req = req};
}

static struct ioh_str trimmed(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (from < to && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    return (struct ioh_str){from, (size_t)(to - from)};
}

/* The next piece between semicolons that is not empty, of this field or a later one. */
static bool next_piece(struct ioh_cookies *it, struct ioh_str *piece)
{
    static const char name[] = "Cookie";
    const ioh_req *req = it->_req;
    for (;;) {
        while (it->_rest.len > 0) {
            const char *at = it->_rest.ptr;
            const char *semicolon = memchr(at, ';', it->_rest.len);
            size_t len = semicolon ? (size_t)(semicolon - at) : it->_rest.len;
            size_t taken = semicolon ? len + 1 : len;
            it->_rest = (struct ioh_str){at + taken, it->_rest.len - taken};
            *piece = trimmed(at, at + len);
            if (piece->len > 0)
                return true;
        }
        int i = ioh__http1_find(req->base, &req->head, name, sizeof name - 1, it->_field);
        if (i < 0)
            return false;
        it->_field = (size_t)i + 1;
        it->_rest = (struct ioh_str){req->base + req->fields[i].value, req->fields[i].value_len};
    }
}

int ioh_cookies_next(struct ioh_cookies *it, struct ioh_str *name, struct ioh_str *value)
{
    struct ioh_str piece;
    if (!next_piece(it, &piece))
        return 0;
    const char *end = piece.ptr + piece.len, *equals = memchr(piece.ptr, '=', piece.len);
    /* Browsers send a cookie without a name as its value alone. */
    *name = equals ? trimmed(piece.ptr, equals) : (struct ioh_str){piece.ptr, 0};
    *value = equals ? trimmed(equals + 1, end) : piece;
    return 1;
}

struct ioh_str ioh_req_cookie(const ioh_req *req, const char *name)
{
    struct ioh_cookies it;
    struct ioh_str found, value;
    size_t len = strlen(name);
    ioh_cookies_init(&it, req);
    while (ioh_cookies_next(&it, &found, &value))
        if (found.len == len && memcmp(found.ptr, name, len) == 0)
            return value;
    return (struct ioh_str){NULL, 0};
}
