/* Lists of address prefixes: "127.0.0.1, 10.0.0.0/8, ::1, 2001:db8::/32, unix:". Read once, then constant. */
#ifndef IOH_NET_PREFIX_H
#define IOH_NET_PREFIX_H

#include "net/sock.h"

struct ioh__prefix {
    uint8_t address[16]; /* as in struct ioh__peer */
    uint8_t bits;
    uint8_t family;
};

struct ioh__prefixes {
    size_t count;
    struct ioh__prefix at[];
};

/* Reads a list, which has one entry at least; unix: stands for all peers on unix sockets. 0, IOH_EADDR (error
 * names the entry) or IOH_ENOMEM. The list is freed by free(). */
int ioh__prefixes_read(struct ioh__prefixes **list, const char *text, char error[IOH__ERROR_TEXT]);

bool ioh__prefixes_have(const struct ioh__prefixes *list, const struct ioh__peer *peer);

#endif
