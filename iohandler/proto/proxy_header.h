/* The PROXY protocol, versions 1 and 2 (www.haproxy.org/download/2.9/doc/proxy-protocol.txt): the header that a
 * proxy puts before a connection's own bytes, to tell whose connection it is. No I/O, nothing is kept: the
 * bytes so far are given again, with more. */
#ifndef IOH_PROTO_PROXY_HEADER_H
#define IOH_PROTO_PROXY_HEADER_H

#include <stddef.h>
#include <stdint.h>

#define IOH__PROXY_V1_MAX 107u            /* with its CRLF; section 2.1 */
#define IOH__PROXY_MAX (16u + UINT16_MAX) /* version 2, with all it may carry */

struct ioh__proxy_header {
    size_t len; /* of the header: the connection's own bytes stand behind */
    uint8_t
        family; /* AF_INET, AF_INET6, AF_UNIX; AF_UNSPEC: the connection is the proxy's own, or its
                       origin is not known */
    uint16_t port;
    uint8_t address[16]; /* IPv4 in the first four */
};

enum ioh__proxy_result { IOH__PROXY_MORE, IOH__PROXY_DONE, IOH__PROXY_FAULT };

/* FAULT: *why tells the fault, which more bytes cannot mend; said as soon as it can be seen. */
enum ioh__proxy_result ioh__proxy_parse(const uint8_t *data, size_t len,
                                        struct ioh__proxy_header *to, const char **why);

#endif
