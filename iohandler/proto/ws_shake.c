/* The server's side of the WebSocket handshake (RFC 6455 4.2). It owns nothing; any thread. */
#include "proto/ws_shake.h"

#include "proto/http1_field.h"

#include <iohandler/error.h>
#include <openssl/evp.h>
#include <string.h>

#define KEY_FIELD "sec-websocket-key"
#define VERSION_FIELD "sec-websocket-version"
#define PROTOCOL_FIELD "sec-websocket-protocol"

enum { KEY_LEN = 24, KEY_DIGITS = 22 }; /* base64 of 16 bytes: 22 digits and two '=' */

static struct ioh_str value_of(const char *data, const struct ioh__http1_field *field)
{
    return (struct ioh_str){data + field->value, field->value_len};
}

/* The value of a field that must stand there once; ptr is NULL when it does not. *at is where it
 * stands, or where the one too many does. */
static struct ioh_str only_value(const char *data, const struct ioh__http1_head *head,
                                 const char *name, size_t *at)
{
    size_t name_len = strlen(name);
    int first = ioh__http1_find(data, head, name, name_len, 0);
    *at = 0;
    if (first < 0) {
        return (struct ioh_str){NULL, 0};
    }
    int second = ioh__http1_find(data, head, name, name_len, (size_t)first + 1);
    *at = head->fields[second < 0 ? first : second].name;
    if (second >= 0) {
        return (struct ioh_str){NULL, 0};
    }
    return value_of(data, &head->fields[first]);
}

static bool is_base64_digit(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/';
}

/* Does it decode to 16 bytes (RFC 6455 4.2.1 5)? The unused bits of the last digit may be anything: a
 * server need not decode the key at all (4.2.2 5), so nothing depends on them. */
static bool is_key(struct ioh_str s)
{
    if (s.len != KEY_LEN || s.ptr[KEY_DIGITS] != '=' || s.ptr[KEY_DIGITS + 1] != '=') {
        return false;
    }
    for (size_t i = 0; i < KEY_DIGITS; i++) {
        if (!is_base64_digit(s.ptr[i])) {
            return false;
        }
    }
    return true;
}

static bool refuse(struct ioh__http1_fault *fault, int status, const char *reason, size_t offset)
{
    *fault = (struct ioh__http1_fault){.status = status, .reason = reason, .offset = offset};
    return false;
}

bool ioh__ws_shake_check(const char *data, const struct ioh__http1_head *head, struct ioh_str *key,
                         struct ioh__http1_fault *fault)
{
    size_t at;
    if (head->method_len != 3 || memcmp(data + head->method, "GET", 3) != 0) {
        return refuse(fault, 400, "WebSocket handshake: the method is not GET", head->method);
    }
    if (head->chunked || head->content_length > 0) {
        return refuse(fault, 400, "WebSocket handshake: the request has a body", 0);
    }
    struct ioh_str version = only_value(data, head, VERSION_FIELD, &at);
    if (!version.ptr) {
        return refuse(fault, 400, "WebSocket handshake: not exactly one version", at);
    }
    if (version.len != 2 || memcmp(version.ptr, "13", 2) != 0) {
        return refuse(fault, 426, "WebSocket handshake: not version 13", at);
    }
    struct ioh_str value = only_value(data, head, KEY_FIELD, &at);
    if (!value.ptr) {
        return refuse(fault, 400, "WebSocket handshake: not exactly one key", at);
    }
    if (!is_key(value)) {
        return refuse(fault, 400, "WebSocket handshake: the key is not 16 bytes in base64", at);
    }
    *key = value;
    return true;
}

int ioh__ws_accept_key(struct ioh_str key, char *out)
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455 1.3 */
    char both[KEY_LEN + sizeof guid - 1];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_len = 0;
    unsigned char text[IOH__WS_ACCEPT_LEN + 1]; /* EVP_EncodeBlock ends it with NUL */

    if (key.len != KEY_LEN) {
        return IOH_EINVAL;
    }
    memcpy(both, key.ptr, KEY_LEN);
    memcpy(both + KEY_LEN, guid, sizeof guid - 1);
    if (EVP_Digest(both, sizeof both, digest, &digest_len, EVP_sha1(), NULL) != 1) {
        return IOH_ENOMEM;
    }
    EVP_EncodeBlock(text, digest, (int)digest_len);
    memcpy(out, text, IOH__WS_ACCEPT_LEN);
    return IOH_OK;
}

/* Like ioh__list_has(), but case-sensitive, as clients compare what was chosen (RFC 6455 4.1). */
static bool list_has_exactly(struct ioh_str list, const char *want, size_t want_len)
{
    const char *element;
    size_t len;
    for (const char *p = list.ptr; ioh__list_next(&p, list.ptr + list.len, &element, &len);) {
        if (len == want_len && memcmp(element, want, len) == 0) {
            return true;
        }
    }
    return false;
}

bool ioh__ws_protocol_offered(const char *data, const struct ioh__http1_head *head,
                              const char *protocol)
{
    size_t want_len = strlen(protocol);
    size_t from = 0;
    if (want_len == 0) { /* a list may have empty elements; they offer nothing */
        return false;
    }
    for (;;) {
        int i = ioh__http1_find(data, head, PROTOCOL_FIELD, sizeof PROTOCOL_FIELD - 1, from);
        if (i < 0) {
            return false;
        }
        if (list_has_exactly(value_of(data, &head->fields[i]), protocol, want_len)) {
            return true;
        }
        from = (size_t)i + 1;
    }
}
