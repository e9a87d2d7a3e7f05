/* What the parts of the load tool share: clock, sockets, the WebSocket handshake, frames. One thread. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_S 1000000000ull

enum { OP_TEXT = 1, OP_BINARY = 2, OP_PING = 9, OP_PONG = 10 };

uint64_t load_now(void); /* monotonic, ns */
uint64_t load_random(void);

/* Prints the message and exits with 1. */
void load_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* A connected blocking socket whose calls give up after five seconds, or -1 with errno. from is the
 * source address in host order, 0 for any. */
int load_connect(uint16_t port, uint32_t from);

/* Sends all of it; false when the socket is broken or stuck. */
bool load_send(int fd, const void *data, size_t len);

/* Upgrades fd and checks the answer. */
bool load_shake(int fd, uint16_t port, const char *path);

/* Writes the header of a final, unfragmented frame (RFC 6455 5.2), with key when it is not NULL, in
 * the shortest form; answers its length, at most 14. */
size_t load_header(uint8_t *out, int opcode, size_t len, const uint8_t *key);

/* ns on a processor of all threads of pid, also of those that have ended; 0 when it cannot be read. */
uint64_t load_process_ns(int pid);

/* One WebSocket publishes, conns others hear it; see load_fan.c. The exit status. */
int load_fan(uint16_t port, const char *path, int conns, double seconds, size_t depth, size_t bytes,
             int pid);

/* Opens conns WebSockets and holds them until the input ends; see load_idle.c. The exit status. */
int load_idle(uint16_t port, const char *path, int conns);

/* Opens conns WebSockets at once; see load_burst.c. The exit status. */
int load_burst(uint16_t port, const char *path, int conns);

/* What goes on beside a measurement, until the input ends; see load_beside.c. The exit status. */
int load_loop(uint16_t port, const char *path, int conns);
int load_deaf(uint16_t port, const char *path, int conns);

#endif
