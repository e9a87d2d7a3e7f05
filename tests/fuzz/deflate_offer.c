/* Sec-WebSocket-Extensions: any bytes as the fields of an upgrade. What is answered must follow the rules of RFC 7692
 * 7.1, and be accepted as an offer again.
 *
 *     input: flags(1) value; a line feed begins a further field
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/deflate_offer.h"

enum { FIELDS = 8, MOST = 4096 };

#define NAME "sec-websocket-extensions"

static char text[MOST];

static bool agree(struct ioh__http1_head *head, int mode, unsigned window,
                  struct ioh__deflate_terms *terms)
{
    size_t at = 0;
    bool ok = ioh__deflate_agree(text, head, (enum ioh__deflate_mode)mode, window, terms, &at);
    assert(ok || at > 0);
    return ok;
}

static void check(struct ioh__http1_head *head, int mode, unsigned window)
{
    struct ioh__deflate_terms terms, again;
    char answer[IOH__DEFLATE_ANSWER_MAX];
    if (!agree(head, mode, window, &terms) || terms.server_bits == 0)
        return;
    assert(mode != IOH__DEFLATE_OFF);
    assert(terms.server_bits >= 9 && terms.server_bits <= window);
    assert(terms.client_bits >= 8 && terms.client_bits <= 15);
    bool keeps = terms.flags & IOH__DEFLATE_CLIENT_KEEPS;
    assert(!keeps || terms.client_bits <= window);
    assert(mode == IOH__DEFLATE_TAKEOVER || !(terms.flags & ~IOH__DEFLATE_SAYS_BITS));

    size_t len = ioh__deflate_answer(&terms, answer);
    assert(len > 0 && len <= sizeof answer);
    struct ioh__http1_field field = {0, sizeof NAME - 1, sizeof NAME, (uint16_t)len};
    struct ioh__http1_head reply = {.fields = &field, .count = 1};
    memcpy(text + sizeof NAME, answer, len);
    assert(agree(&reply, mode, window, &again) && again.server_bits == terms.server_bits);
    assert((again.flags | IOH__DEFLATE_SAYS_BITS) == (terms.flags | IOH__DEFLATE_SAYS_BITS));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ioh__http1_field fields[FIELDS];
    struct ioh__http1_head head = {.fields = fields};
    if (len < 1 || len > MOST - sizeof NAME - IOH__DEFLATE_ANSWER_MAX)
        return 0;
    memcpy(text, NAME, sizeof NAME);
    memcpy(text + sizeof NAME, data + 1, len - 1);
    size_t begin = sizeof NAME, end = begin + len - 1;
    while (begin < end && head.count < FIELDS) {
        const char *lf = memchr(text + begin, '\n', end - begin);
        size_t next = lf ? (size_t)(lf - text) : end;
        fields[head.count++] = (struct ioh__http1_field){0, sizeof NAME - 1, (uint16_t)begin,
                                                         (uint16_t)(next - begin)};
        begin = next + 1;
    }
    check(&head, data[0] % 3, 9 + (data[0] >> 2) % 7);
    return 0;
}
