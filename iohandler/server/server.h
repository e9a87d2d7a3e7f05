/* The inside of ioh_server. */
#ifndef IOH_SERVER_SERVER_H
#define IOH_SERVER_SERVER_H

#include <iohandler/server.h>
#include <pthread.h>

#include "conn/hub.h"

#define IOH__MAX_LOOPS 256u /* the loop's part of a connection id */

enum ioh__server_state { IOH__SERVER_CREATED, IOH__SERVER_RUNNING, IOH__SERVER_STOPPED };

struct ioh_server {
    struct ioh_handler handler;
    struct ioh_options options; /* every default filled in */
    void *state;
    char error[IOH__ERROR_TEXT];
    bool broken; /* an option is out of range: only good for its error text */

    struct ioh__listen_socket *listeners;
    unsigned listener_count;

    struct ioh__hub **hubs;
    pthread_t *threads;
    struct ioh__message **stops; /* one for each hub, made before they run */
    unsigned hub_count;
    uint64_t fd_limit;

    pthread_mutex_t lock;    /* start and stop */
    pthread_cond_t changed;  /* running_threads, state */
    _Atomic int phase;       /* enum ioh__server_state */
    unsigned running_threads;
    bool stopping;
};

/* Copies what the host's struct has, fills in every default. 0, IOH_EVERSION or IOH_EINVAL with a text.
 */
int ioh__options_read(struct ioh_options *to, const struct ioh_options *from,
                      char error[IOH__ERROR_TEXT]);

#endif
