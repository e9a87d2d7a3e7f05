/* The smallest host that proves an installed library: it serves one request to itself. */
#include <iohandler/iohandler.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void hello(ioh_req *req, void *state)
{
    (void)state;
    ioh_respond(req, 200, NULL, 0, "hello", 5);
}

/* Does the server at 127.0.0.1:port say hello? */
static int ask(unsigned port)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char answer[1024];
    size_t have = 0;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        return 0;
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, request, sizeof request - 1, 0) == (ssize_t)(sizeof request - 1)) {
        ssize_t n;
        while (have < sizeof answer - 1 &&
               (n = recv(fd, answer + have, sizeof answer - 1 - have, 0)) > 0)
            have += (size_t)n;
    }
    close(fd);
    answer[have] = '\0';
    return strncmp(answer, "HTTP/1.1 200 ", 13) == 0 && strstr(answer, "\r\n\r\nhello") != NULL;
}

int main(void)
{
    struct ioh_handler handler = {.size = sizeof(struct ioh_handler)};
    ioh_server *server;
    char address[128];
    int ok = 0;

    handler.on_request = hello;
    if (ioh_server_create(&server, &handler, NULL, NULL) == 0 &&
        ioh_server_listen(server, "127.0.0.1:0", NULL) == 0 && ioh_server_start(server) == 0 &&
        ioh_server_address(server, 0, address, sizeof address) == 0) {
        ok = ask((unsigned)strtoul(strrchr(address, ':') + 1, NULL, 10));
        ok = ioh_server_stop(server, 5000) == 0 && ok;
    }
    ioh_server_destroy(server);
    puts(ok ? "served" : "failed");
    return ok ? 0 : 1;
}
