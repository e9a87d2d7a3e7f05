/* `peer_mhd PORT`: GET /ping by libmicrohttpd as it is fastest, one internal thread over epoll. Prints
 * `listening PORT` and runs until its input ends. */
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct MHD_Response *pong;

static enum MHD_Result answer(void *cls, struct MHD_Connection *conn, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *len, void **request)
{
    (void)cls;
    (void)method;
    (void)version;
    (void)data;
    (void)len;
    if (strcmp(url, "/ping") != 0)
        return MHD_NO;
    if (!*request) { /* an answer to a bare head would be taken for an early one, and close */
        *request = pong;
        return MHD_YES;
    }
    return MHD_queue_response(conn, MHD_HTTP_OK, pong);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    unsigned port = argc == 2 ? (unsigned)atoi(argv[1]) : 0;
    pong = MHD_create_response_from_buffer(4, (void *)"pong", MHD_RESPMEM_PERSISTENT);
    if (!pong || MHD_add_response_header(pong, "Content-Type", "text/plain") != MHD_YES)
        return 1;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD, (uint16_t)port, NULL, NULL, answer, NULL,
        MHD_OPTION_CONNECTION_LIMIT, 12000u, MHD_OPTION_LISTEN_BACKLOG_SIZE, 4096u, MHD_OPTION_END);
    if (!daemon)
        return 1;
    printf("listening %u\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    MHD_stop_daemon(daemon);
    MHD_destroy_response(pong);
    return 0;
}
