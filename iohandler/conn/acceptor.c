/* Accepting (see acceptor.h). The thread that holds the loop. */
#include "conn/acceptor.h"

#include <errno.h>
#include <iohandler/error.h>
#include <string.h>
#include <unistd.h>

#include "conn/conn.h"
#include "conn/crew.h"
#include "conn/message.h"
#include "conn/single.h"
#include "net/prefix.h"

static int watch(struct ioh__hub *hub, struct ioh__acceptor *a)
{
    return ioh__loop_watch(&hub->loop, &a->chan, EPOLLIN | EPOLLEXCLUSIVE);
}

static void pause_accepting(struct ioh__hub *hub, int error)
{
    ioh__count(&hub->loop.count.accept_pauses, 1);
    hub->accepting_paused = true;
    hub->accept_again_at = hub->loop.now + IOH__ACCEPT_PAUSE_MS;
    for (unsigned i = 0; i < hub->acceptor_count; i++)
        ioh__loop_unwatch(&hub->loop, &hub->acceptors[i].chan);
    if (hub->loop.now < hub->accept_logged_at + 1000)
        return;
    hub->accept_logged_at = hub->loop.now;
    ioh__log_add(&hub->loop.log, IOH_LOG_WARN, "accepting pauses: %s", strerror(error));
}

void ioh__acceptors_resume(struct ioh__hub *hub)
{
    if (!hub->accepting_paused || hub->loop.now < hub->accept_again_at)
        return;
    hub->accepting_paused = false;
    for (unsigned i = 0; i < hub->acceptor_count; i++)
        if (watch(hub, &hub->acceptors[i]))
            pause_accepting(hub, errno);
}

void ioh__acceptors_stop(struct ioh__hub *hub)
{
    for (unsigned i = 0; i < hub->acceptor_count; i++)
        ioh__loop_leave(&hub->loop, &hub->acceptors[i].chan);
    ioh__single_unprepare(hub);
    hub->acceptor_count = 0;
    hub->accepting_paused = false;
}

static uint32_t load_of(struct ioh__hub *hub)
{
    return atomic_load_explicit(&hub->load, memory_order_relaxed);
}

static struct ioh__hub *least_loaded(struct ioh__hub *self)
{
    struct ioh__hub *best = self;
    uint32_t least = load_of(self);
    for (unsigned i = 0; i < self->all_count && least; i++) {
        uint32_t load = load_of(self->all[i]);
        if (load < least) {
            best = self->all[i];
            least = load;
        }
    }
    return best;
}

void ioh__accept_undo(struct ioh__crew *crew, int fd, const struct ioh__peer *peer)
{
    struct ioh__peer gone = *peer;
    close(fd);
    ioh__gate_leave(&crew->gate, &gone);
}

void ioh__accepted(struct ioh__hub *hub, int fd, const struct ioh__peer *peer, int listener)
{
    if (atomic_load_explicit(&hub->stopping, memory_order_relaxed)) {
        ioh__accept_undo(hub->crew, fd, peer);
        atomic_fetch_sub_explicit(&hub->load, 1, memory_order_relaxed);
        return;
    }
    ioh_conn *conn = ioh__conn_create(hub, fd, peer, listener);
    if (conn)
        ioh__conn_touch(conn);
    else
        ioh__log_add(&hub->loop.log, IOH_LOG_WARN, "out of memory: a new connection is closed");
}

static void send_to(struct ioh__hub *from, struct ioh__hub *to, int fd,
                    const struct ioh__peer *peer, int listener)
{
    struct ioh__message *m = ioh__message_new(IOH__MESSAGE_ACCEPTED, 0, 0);
    if (m) {
        m->as.accepted.fd = fd;
        m->as.accepted.listener = listener;
        m->as.accepted.peer = *peer;
    }
    if (ioh__message_give(to, m) == 0)
        return;
    if (!m)
        ioh__log_add(&from->loop.log, IOH_LOG_WARN, "out of memory: a new connection is closed");
    ioh__accept_undo(from->crew, fd, peer);
    atomic_fetch_sub_explicit(&to->load, 1, memory_order_relaxed);
}

/* May it come in, and is there room for it? Else it is closed at once: by a reset, so that a flood leaves nothing in the
 * kernel. */
static bool let_in(struct ioh__hub *hub, const struct ioh__acceptor *a, int fd,
                   struct ioh__peer *peer)
{
    struct ioh__gate *gate = &hub->crew->gate;
    if (a->proxy_from && !ioh__prefixes_have(a->proxy_from, peer)) {
        ioh__hub_hit(hub, IOH__LIMIT_PROXY, peer, "it is not among the listed proxies: closed");
        ioh__sock_set_reset(fd);
        close(fd);
        return false;
    }
    if (!ioh__gate_enter(gate)) {
        ioh__hub_hit(hub, IOH__LIMIT_MAX_CONNECTIONS, peer, "%u connections are open: closed",
                     gate->max_connections);
        ioh__sock_set_reset(fd);
        close(fd);
        return false;
    }
    peer->proxied = a->proxy_from != NULL; /* then the address that counts is not known yet */
    if (peer->proxied)
        return true;
    enum ioh__gate_answer answer = ioh__gate_enter_address(gate, peer);
    if (answer == IOH__GATE_OPEN)
        return true;
    if (answer == IOH__GATE_FULL)
        ioh__hub_hit(hub, IOH__LIMIT_MAX_PER_ADDRESS, peer,
                     "%u connections of this address are open: closed", gate->max_per_address);
    else
        ioh__log_add(&hub->loop.log, IOH_LOG_WARN, "out of memory: a new connection is closed");
    ioh__sock_set_reset(fd);
    ioh__accept_undo(hub->crew, fd, peer);
    return false;
}

void ioh__accept_some(struct ioh__hub *hub, struct ioh__acceptor *a)
{
    for (int i = 0; i < IOH__ACCEPT_BATCH; i++) {
        struct ioh__peer peer;
        bool single = hub->options->type == IOH_THREADS;
        int error = single ? ioh__single_prepare(hub) : 0;
        if (error) {
            pause_accepting(hub, error);
            return;
        }
        int fd = ioh__sock_accept(a->chan.fd, a->tcp, &peer);
        if (fd >= 0 && !let_in(hub, a, fd, &peer))
            continue;
        if (fd >= 0 && single) {
            ioh__single_start(hub, fd, &peer, a->number);
            continue;
        }
        if (fd >= 0) {
            struct ioh__hub *to = least_loaded(hub);
            atomic_fetch_add_explicit(&to->load, 1, memory_order_relaxed);
            if (to == hub)
                ioh__accepted(hub, fd, &peer, a->number);
            else
                send_to(hub, to, fd, &peer, a->number);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(hub, errno);
            return;
        }
        if (errno == EINVAL) /* the server stops: the socket has been shut down */
            return;
        /* Else the connection broke while it waited (ECONNABORTED, network errors): the next one. */
    }
}

int ioh__hub_accept_from(struct ioh__hub *hub, unsigned position,
                         const struct ioh__listen_socket *sock, int number)
{
    struct ioh__acceptor *a = &hub->acceptors[position];
    *a = (struct ioh__acceptor){.tcp = sock->tcp, .number = number, .proxy_from = sock->proxy_from};
    a->chan = (struct ioh__chan){.fd = sock->fd, .kind = IOH__CHAN_LISTENER};
    int rc = ioh__loop_enter(&hub->loop, &a->chan);
    if (rc)
        return rc;
    hub->acceptor_count = position + 1;
    return watch(hub, a) ? IOH_ESYS : 0;
}
