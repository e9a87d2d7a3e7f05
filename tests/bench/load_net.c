/* Sockets, clock and handshake of the load tool. Everything here is set-up: it may block, and it is not
 * part of what is measured. */
#include "load.h"

#include "accept.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

uint64_t load_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t load_process_ns(int pid)
{
    clockid_t id;
    struct timespec t;
    if (!pid || clock_getcpuclockid(pid, &id) || clock_gettime(id, &t))
        return 0;
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* xorshift: the payload only has to differ from message to message, and be the same in each run. */
uint64_t load_random(void)
{
    static uint64_t x = 0x9e3779b97f4a7c15u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x;
}

void load_fail(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

int load_connect(uint16_t port, uint32_t from)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)}, src = to;
    struct timeval patience = {5, 0};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    src.sin_addr.s_addr = htonl(from);
    src.sin_port = 0;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    /* The port is then chosen at connect, where it need only be unique with the other side's. */
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if ((from && bind(fd, (struct sockaddr *)&src, sizeof src)) ||
        connect(fd, (struct sockaddr *)&to, sizeof to)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool load_send(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

bool load_shake(int fd, uint16_t port, const char *path)
{
    char key[25], sum[ACCEPT_SIZE], head[2048];
    uint64_t nonce[2] = {load_random(), load_random()};
    EVP_EncodeBlock((unsigned char *)key, (unsigned char *)nonce, 16);
    if (!ws_accept(key, 24, sum))
        load_fail("no SHA-1 in libcrypto");
    int n = snprintf(head, sizeof head,
                     "GET %s HTTP/1.1\r\n"
                     "Host: 127.0.0.1:%d\r\n"
                     "Upgrade: websocket\r\n"
                     "Connection: Upgrade\r\n"
                     "Sec-WebSocket-Key: %s\r\n"
                     "Sec-WebSocket-Version: 13\r\n"
                     "\r\n",
                     path, port, key);
    if (n >= (int)sizeof head || !load_send(fd, head, (size_t)n))
        return false;
    size_t len = 0;
    do {
        ssize_t got = recv(fd, head + len, sizeof head - 1 - len, 0);
        if (got <= 0)
            return false;
        len += (size_t)got;
        head[len] = 0;
    } while (len < 4 || strcmp(head + len - 4, "\r\n\r\n") != 0);

    static const char name[] = "\r\nSec-WebSocket-Accept:";
    const char *value = strcasestr(head, name);
    if (strncmp(head, "HTTP/1.1 101 ", 13) != 0 || !value)
        return false;
    value += sizeof name - 1;
    value += strspn(value, " \t");
    return strncmp(value, sum, ACCEPT_SIZE - 1) == 0;
}

size_t load_header(uint8_t *out, int opcode, size_t len, const uint8_t *key)
{
    size_t n = 2, ext = len < 126 ? 0 : len < 65536 ? 2 : 8;
    out[0] = (uint8_t)(0x80 | opcode);
    out[1] = (uint8_t)((key ? 0x80u : 0) | (ext == 0 ? len : ext == 2 ? 126 : 127));
    for (size_t i = ext; i-- > 0;)
        out[n++] = (uint8_t)((uint64_t)len >> (8 * i));
    if (key) {
        memcpy(out + n, key, 4);
        n += 4;
    }
    return n;
}
