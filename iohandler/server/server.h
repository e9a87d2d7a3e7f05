/* The inside of ioh_server. */
#ifndef IOH_SERVER_SERVER_H
#define IOH_SERVER_SERVER_H

#include <iohandler/server.h>
#include <pthread.h>

#include "conn/crew.h"

#define IOH__MAX_LOOPS 256u /* the loop's part of a connection id */

enum ioh__server_state { IOH__SERVER_CREATED, IOH__SERVER_RUNNING, IOH__SERVER_STOPPED };

/* One of the fixed threads. */
struct ioh__thread {
    ioh_server *server;
    pthread_t id;
    struct ioh__hub *hub;     /* an epoll thread's, to begin with */
    struct ioh__queue *queue; /* what it serves, after that, */
    unsigned nice;            /* and by how much nicer */
    char name[16];
};

struct ioh_server {
    struct ioh_handler handler;
    struct ioh_options options; /* every default filled in */
    void *state;
    char error[IOH__ERROR_TEXT];
    bool broken; /* an option is out of range: only good for its error text */
    bool driven; /* by the host: ioh_server_fd() */

    struct ioh__listen_socket *listeners;
    unsigned listener_count;

    struct ioh__crew crew;
    struct ioh__compress *compress; /* NULL: answers are not */
    struct ioh__hub **hubs;
    unsigned hub_count;
    struct ioh__thread *threads;
    unsigned thread_count, threads_made;
    uint64_t fd_limit;

    _Atomic int phase; /* enum ioh__server_state */

    pthread_mutex_t lock;   /* all below */
    pthread_cond_t changed; /* monotonic */
    unsigned threads_ready, hubs_left;
    bool stopping, joined;
};

/* Copies what the host's struct has, the environment's overrides, and fills in every default. 0, IOH_EVERSION or
 * IOH_EINVAL with a text. */
int ioh__options_read(struct ioh_options *to, const struct ioh_options *from,
                      char error[IOH__ERROR_TEXT]);

/* Takes IOH_TYPE and the others over what is in *o. 0, or IOH_EINVAL with a text. */
int ioh__options_environment(struct ioh_options *o, char error[IOH__ERROR_TEXT]);

static inline enum ioh__server_state ioh__server_phase(const ioh_server *s)
{
    return (enum ioh__server_state)atomic_load_explicit(&s->phase, memory_order_acquire);
}

/* Writes "what: text of errno" as the server's error; answers code. */
int ioh__server_failed(ioh_server *s, int code, const char *what, int error);

/* Makes the hubs (threads.c). 0, IOH_ENOMEM, IOH_ESYS. */
int ioh__hubs_make(ioh_server *s);
void ioh__hubs_free(ioh_server *s);

/* The hub's ends of all listeners. 0, IOH_ENOMEM, IOH_ESYS. */
int ioh__hub_listen(ioh_server *s, struct ioh__hub *hub);

/* Starts all threads and waits until they run. 0, IOH_ENOMEM or IOH_ESYS: none runs. */
int ioh__threads_start(ioh_server *s);

/* Tells everybody to stop and waits: 0; IOH_ETIMEOUT: something was aborted, or has not come back. */
int ioh__threads_stop(ioh_server *s, uint32_t drain_ms);

/* Waits for whatever still runs; afterwards all threads have ended. */
void ioh__threads_join(ioh_server *s);

bool ioh__threads_own_this(const ioh_server *s);

#endif
