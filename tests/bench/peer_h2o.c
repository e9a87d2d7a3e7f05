/* `peer_h2o PORT`: GET /ping by libh2o over its own epoll loop, one thread. Prints `listening PORT` and runs
 * until it is killed. */
#define H2O_USE_LIBUV 0
#include <arpa/inet.h>
#include <h2o.h>
#include <h2o/http1.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static h2o_globalconf_t config;
static h2o_context_t ctx;
static h2o_accept_ctx_t accept_ctx;

static int on_ping(h2o_handler_t *self, h2o_req_t *req)
{
    static h2o_generator_t generator = {NULL, NULL};
    (void)self;
    h2o_iovec_t body = h2o_iovec_init(H2O_STRLIT("pong"));
    req->res.status = 200;
    req->res.reason = "OK";
    req->res.content_length = body.len;
    h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
                   H2O_STRLIT("text/plain"));
    h2o_start_response(req, &generator);
    h2o_send(req, &body, 1, 1);
    return 0;
}

static void on_accept(h2o_socket_t *listener, const char *error)
{
    for (int i = 0; !error && i < 16; i++) {
        h2o_socket_t *sock = h2o_evloop_socket_accept(listener);
        if (!sock)
            return;
        h2o_accept(&accept_ctx, sock);
    }
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof addr;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(fd, (struct sockaddr *)&addr, sizeof addr) || listen(fd, 4096) ||
        getsockname(fd, (struct sockaddr *)&addr, &len))
        return -1;
    printf("listening %u\n", ntohs(addr.sin_port));
    fflush(stdout);
    h2o_socket_t *sock = h2o_evloop_socket_create(ctx.loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    h2o_socket_read_start(sock, on_accept);
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    h2o_config_init(&config);
    h2o_hostconf_t *host =
        h2o_config_register_host(&config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_pathconf_t *path = h2o_config_register_path(host, "/ping", 0);
    h2o_create_handler(path, sizeof(h2o_handler_t))->on_req = on_ping;
    h2o_context_init(&ctx, h2o_evloop_create(), &config);
    accept_ctx.ctx = &ctx;
    accept_ctx.hosts = config.hosts;
    if (listen_on((uint16_t)(argc == 2 ? atoi(argv[1]) : 0)))
        return 1;
    while (h2o_evloop_run(ctx.loop, INT32_MAX) == 0)
        continue;
    return 0;
}
