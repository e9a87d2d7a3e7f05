/* The PROXY header. Whatever the bytes: cut anywhere they give the same answer as whole, once it is given
 * it does not change with what follows, and nothing beyond the header is used. A list of prefixes reads any
 * text, or names what is wrong.
 *
 * Input: the first bytes of a connection; also read as a list.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/prefix.h"
#include "proto/proxy_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            abort();                                                   \
        }                                                              \
    } while (0)

struct answer {
    enum ioh__proxy_result result;
    struct ioh__proxy_header header;
    const char *why;
};

/* In a block of their own, so that a read beyond them is seen. */
static struct answer parse(const uint8_t *data, size_t len)
{
    struct answer a = {.why = NULL};
    uint8_t *copy = malloc(len ? len : 1);
    CHECK(copy);
    if (len)
        memcpy(copy, data, len);
    a.result = ioh__proxy_parse(copy, len, &a.header, &a.why);
    free(copy);
    return a;
}

static bool is_same(const struct ioh__proxy_header *a, const struct ioh__proxy_header *b)
{
    return a->len == b->len && a->family == b->family && a->port == b->port &&
           memcmp(a->address, b->address, sizeof a->address) == 0;
}

static void check_header(const struct answer *a, size_t len)
{
    const struct ioh__proxy_header *h = &a->header;
    CHECK(h->len >= 15 && h->len <= len && h->len <= IOH__PROXY_MAX);
    CHECK(h->family == AF_UNSPEC || h->family == AF_INET || h->family == AF_INET6 ||
          h->family == AF_UNIX);
    if (h->family == AF_UNSPEC || h->family == AF_UNIX) {
        CHECK(h->port == 0);
        for (size_t i = 0; i < sizeof h->address; i++)
            CHECK(h->address[i] == 0);
    }
}

static void check_list(const uint8_t *data, size_t len)
{
    char error[IOH__ERROR_TEXT] = "";
    char *text = malloc(len + 1);
    struct ioh__prefixes *list = NULL;
    CHECK(text);
    if (len)
        memcpy(text, data, len);
    text[len] = '\0';
    if (ioh__prefixes_read(&list, text, error) == 0) {
        struct ioh__peer peer = {.family = list->at[0].family};
        CHECK(list->count > 0);
        memcpy(peer.address, list->at[0].address, sizeof peer.address);
        CHECK(ioh__prefixes_have(list, &peer));
        free(list);
    } else {
        CHECK(!list && error[0]);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct answer whole = parse(data, len);
    size_t step = len > 600 ? len / 300 : 1;
    CHECK((whole.result == IOH__PROXY_FAULT) == (whole.why != NULL));
    if (whole.result == IOH__PROXY_DONE)
        check_header(&whole, len);
    for (size_t n = 0; n < len; n += step) {
        struct answer part = parse(data, n);
        if (part.result == IOH__PROXY_MORE) {
            CHECK(whole.result != IOH__PROXY_DONE || n < whole.header.len);
            continue;
        }
        CHECK(part.result == whole.result);
        if (part.result == IOH__PROXY_FAULT)
            CHECK(strcmp(part.why, whole.why) == 0);
        else
            CHECK(n >= whole.header.len && is_same(&part.header, &whole.header));
    }
    check_list(data, len);
    return 0;
}
