// All headers, as a host in C++ sees them.
#include <iohandler/iohandler.h>

static void hello(ioh_req *req, void *)
{
    ioh_respond(req, 200, nullptr, 0, "hello", 5);
}

int main()
{
    ioh_handler handler = IOH_HANDLER_INIT;
    ioh_options options = IOH_OPTIONS_INIT;
    ioh_listen_options listen = IOH_LISTEN_OPTIONS_INIT;
    ioh_stats stats = IOH_STATS_INIT;
    ioh_server *server = nullptr;

    handler.on_request = hello;
    if (ioh_server_create(&server, &handler, &options, nullptr) == 0 &&
        ioh_server_listen(server, "127.0.0.1:0", &listen) >= 0)
        ioh_server_stats(server, &stats);
    ioh_server_destroy(server);
}
