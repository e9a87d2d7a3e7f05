/* The PROXY protocol (see proxy_header.h). Sections are those of its specification. Any thread. */
#include "proto/proxy_header.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t signature[12] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d,
                                      0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a};
static const char v1_begin[] = "PROXY ";

#define V1_BEGIN_LEN (sizeof v1_begin - 1)
#define V2_FIXED 16u

static enum ioh__proxy_result fault(const char **why, const char *text)
{
    *why = text;
    return IOH__PROXY_FAULT;
}

/* Do the bytes so far begin like that? */
static bool begins(const uint8_t *data, size_t len, const void *like, size_t like_len)
{
    return memcmp(data, like, len < like_len ? len : like_len) == 0;
}

/* ---- version 1, section 2.1: a line of text */

/* The next word, up to exactly one space or the end of the line; "" when there is none or it is too long. */
static void take_word(const char **at, const char *end, char *word, size_t size)
{
    size_t n = 0;
    const char *from = *at;
    while (from + n < end && from[n] != ' ')
        n++;
    *at = from + n < end ? from + n + 1 : end + 1; /* beyond: nothing may follow */
    if (n >= size || memchr(from, '\0', n))
        n = 0;
    memcpy(word, from, n);
    word[n] = '\0';
}

static bool read_port(const char *word, uint16_t *port)
{
    uint32_t value = 0;
    size_t n = strlen(word);
    if (n == 0 || n > 5 || (word[0] == '0' && n > 1))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (word[i] < '0' || word[i] > '9')
            return false;
        value = value * 10 + (uint32_t)(word[i] - '0');
    }
    *port = (uint16_t)value;
    return value <= UINT16_MAX;
}

/* What stands behind "PROXY ", without its CRLF. */
static bool read_line(const char *at, const char *end, struct ioh__proxy_header *to)
{
    char kind[8], source[INET6_ADDRSTRLEN], target[INET6_ADDRSTRLEN], ports[2][8];
    uint8_t ignored[16];
    uint16_t target_port;
    take_word(&at, end, kind, sizeof kind);
    if (strcmp(kind, "UNKNOWN") == 0) /* the rest of the line must be ignored */
        return true;
    if (strcmp(kind, "TCP4") == 0)
        to->family = AF_INET;
    else if (strcmp(kind, "TCP6") == 0)
        to->family = AF_INET6;
    else
        return false;
    char *words[] = {source, target, ports[0], ports[1]};
    for (int i = 0; i < 4; i++) {
        if (at > end)
            return false;
        take_word(&at, end, words[i], i < 2 ? sizeof source : sizeof ports[0]);
    }
    return at > end && inet_pton(to->family, source, to->address) == 1 &&
           inet_pton(to->family, target, ignored) == 1 && read_port(ports[0], &to->port) &&
           read_port(ports[1], &target_port);
}

static enum ioh__proxy_result parse_v1(const uint8_t *data, size_t len,
                                       struct ioh__proxy_header *to, const char **why)
{
    size_t most = len < IOH__PROXY_V1_MAX ? len : IOH__PROXY_V1_MAX, n = 0;
    while (n < most && data[n] != '\r' && data[n] != '\n')
        n++;
    if (n == most)
        return len < IOH__PROXY_V1_MAX ? IOH__PROXY_MORE
                                       : fault(why, "the line of the PROXY header is too long");
    if (data[n] == '\n')
        return fault(why, "a bare LF ends the PROXY header");
    if (n + 1 == IOH__PROXY_V1_MAX)
        return fault(why, "the line of the PROXY header is too long");
    if (n + 1 == len)
        return IOH__PROXY_MORE;
    if (data[n + 1] != '\n')
        return fault(why, "a bare CR in the PROXY header");
    if (!read_line((const char *)data + V1_BEGIN_LEN, (const char *)data + n, to))
        return fault(why, "the PROXY header cannot be read");
    to->len = n + 2;
    return IOH__PROXY_DONE;
}

/* ---- version 2, section 2.2: binary */

/* The bytes an address block has; 0: none that we take. */
static size_t block_of(uint8_t family, uint8_t transport)
{
    static const uint8_t blocks[] = {0, 12, 36, 216};
    return transport == 1 ? blocks[family] : 0; /* STREAM; of others the address must not be used */
}

static void read_block(const uint8_t *block, uint8_t family, struct ioh__proxy_header *to)
{
    switch (family) {
    case 1:
        to->family = AF_INET;
        memcpy(to->address, block, 4);
        to->port = (uint16_t)(block[8] << 8 | block[9]);
        break;
    case 2:
        to->family = AF_INET6;
        memcpy(to->address, block, 16);
        to->port = (uint16_t)(block[32] << 8 | block[33]);
        break;
    default:
        to->family = AF_UNIX;
        break;
    }
}

static enum ioh__proxy_result parse_v2(const uint8_t *data, size_t len,
                                       struct ioh__proxy_header *to, const char **why)
{
    if (len < 13)
        return IOH__PROXY_MORE;
    if (data[12] >> 4 != 2)
        return fault(why, "an unknown version of the PROXY header");
    bool local = (data[12] & 15) == 0; /* the proxy's own connection; all that follows is ignored */
    if ((data[12] & 15) > 1)
        return fault(why, "an unknown command in the PROXY header");
    if (len < 14)
        return IOH__PROXY_MORE;
    uint8_t family = data[13] >> 4, transport = data[13] & 15;
    if (!local && (family > 3 || transport > 2))
        return fault(why, "an unknown family or transport in the PROXY header");
    if (len < V2_FIXED)
        return IOH__PROXY_MORE;
    size_t rest = (size_t)(data[14] << 8 | data[15]),
           block = local ? 0 : block_of(family, transport);
    if (rest < block)
        return fault(why, "the PROXY header is too short for its addresses");
    if (len < V2_FIXED + rest)
        return IOH__PROXY_MORE;
    if (block)
        read_block(data + V2_FIXED, family, to);
    to->len = V2_FIXED + rest; /* what else it carries is skipped */
    return IOH__PROXY_DONE;
}

enum ioh__proxy_result ioh__proxy_parse(const uint8_t *data, size_t len,
                                        struct ioh__proxy_header *to, const char **why)
{
    memset(to, 0, sizeof *to);
    to->family = AF_UNSPEC;
    if (len == 0)
        return IOH__PROXY_MORE;
    if (begins(data, len, signature, sizeof signature))
        return parse_v2(data, len, to, why);
    if (!begins(data, len, v1_begin, V1_BEGIN_LEN))
        return fault(why, "no PROXY header");
    return parse_v1(data, len, to, why);
}
