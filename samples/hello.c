/* The smallest useful host: HTTP and WebSocket on 127.0.0.1:8080 until Ctrl-C. */
#include <iohandler/iohandler.h>
#include <signal.h>
#include <stdio.h>

static void on_request(ioh_req *req, void *state)
{
    struct ioh_header type = {"Content-Type", "text/plain"};
    (void)state;
    ioh_respond(req, 200, &type, 1, "hello\n", 6);
}

static void on_ws_message(ioh_conn *conn, int op, void *data, size_t len, void *state)
{
    (void)state;
    ioh_ws_send(conn, op, data, len); /* the message goes back to its sender */
}

int main(void)
{
    struct ioh_handler handler = IOH_HANDLER_INIT;
    handler.on_request = on_request;
    handler.on_ws_message = on_ws_message;

    sigset_t quit; /* blocked in all threads, so that sigwait() below gets it */
    sigemptyset(&quit);
    sigaddset(&quit, SIGINT);
    pthread_sigmask(SIG_BLOCK, &quit, NULL);

    ioh_server *server;
    if (ioh_server_create(&server, &handler, NULL, NULL) < 0 ||
        ioh_server_listen(server, "127.0.0.1:8080", NULL) < 0 || ioh_server_start(server) < 0)
        return fprintf(stderr, "hello: %s\n", server ? ioh_server_error(server) : "no memory"), 1;

    int signal_number;
    sigwait(&quit, &signal_number);
    ioh_server_stop(server, 1000); /* milliseconds for what is still under way */
    ioh_server_destroy(server);
}
