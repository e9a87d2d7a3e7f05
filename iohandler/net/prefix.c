/* Lists of address prefixes (see prefix.h). Any thread. */
#include "net/prefix.h"

#include <arpa/inet.h>
#include <iohandler/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static bool bit_of(const uint8_t *address, unsigned n)
{
    return address[n / 8] >> (7 - n % 8) & 1;
}

/* NULL, or what is wrong with it. */
static const char *read_bits(const char *text, struct ioh__prefix *to)
{
    unsigned width = to->family == AF_INET ? 32 : 128, bits = 0;
    size_t n = strlen(text);
    if (n == 0 || n > 3 || strspn(text, "0123456789") != n)
        return "the length of a prefix is not a number";
    for (size_t i = 0; i < n; i++)
        bits = bits * 10 + (unsigned)(text[i] - '0');
    if (bits > width)
        return "the prefix is longer than an address";
    to->bits = (uint8_t)bits;
    for (unsigned i = bits; i < width; i++)
        if (bit_of(to->address, i)) /* a slip of the pen would let in who was not meant */
            return "the address has bits behind the prefix";
    return NULL;
}

static const char *read_entry(char *text, struct ioh__prefix *to)
{
    memset(to, 0, sizeof *to);
    to->family = AF_UNIX;
    if (strcmp(text, "unix:") == 0)
        return NULL;
    char *slash = strchr(text, '/');
    if (slash)
        *slash = '\0';
    to->family = strchr(text, ':') ? AF_INET6 : AF_INET;
    int ok = inet_pton(to->family, text, to->address);
    if (slash)
        *slash = '/';
    if (ok != 1)
        return "neither an address, a prefix (10.0.0.0/8) nor unix:";
    to->bits = to->family == AF_INET ? 32 : 128;
    return slash ? read_bits(slash + 1, to) : NULL;
}

int ioh__prefixes_read(struct ioh__prefixes **list, const char *text, char error[IOH__ERROR_TEXT])
{
    size_t most = 1;
    for (const char *at = text; *at; at++)
        most += *at == ',';
    struct ioh__prefixes *made = malloc(sizeof *made + most * sizeof made->at[0]);
    if (!made) {
        snprintf(error, IOH__ERROR_TEXT, "out of memory for a list of addresses");
        return IOH_ENOMEM;
    }
    made->count = 0;
    for (const char *at = text;;) {
        char entry[64];
        const char *wrong = "too long";
        at += strspn(at, " \t");
        size_t len = strcspn(at, ","), trimmed = len;
        while (trimmed && (at[trimmed - 1] == ' ' || at[trimmed - 1] == '\t'))
            trimmed--;
        snprintf(entry, sizeof entry, "%.*s", (int)(trimmed < 63 ? trimmed : 63), at);
        if (trimmed < sizeof entry)
            wrong = read_entry(entry, &made->at[made->count]);
        if (wrong) {
            snprintf(error, IOH__ERROR_TEXT, "\"%s\" in a list of addresses: %s", entry, wrong);
            free(made);
            return IOH_EADDR;
        }
        made->count++;
        at += len;
        if (!*at)
            break;
        at++;
    }
    *list = made;
    return 0;
}

static bool matches(const struct ioh__prefix *p, const struct ioh__peer *peer)
{
    unsigned whole = p->bits / 8u, rest = p->bits % 8u;
    if (p->family != peer->family || memcmp(p->address, peer->address, whole) != 0)
        return false;
    return rest == 0 || (p->address[whole] ^ peer->address[whole]) >> (8 - rest) == 0;
}

bool ioh__prefixes_have(const struct ioh__prefixes *list, const struct ioh__peer *peer)
{
    for (size_t i = 0; i < list->count; i++)
        if (matches(&list->at[i], peer))
            return true;
    return false;
}
