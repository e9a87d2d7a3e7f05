/* Hubs (see hub.h): making and freeing. */
#include "conn/hub.h"

#include <inttypes.h>
#include <iohandler/error.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn/conn.h"
#include "conn/crew.h"
#include "conn/req.h"
#include "conn/topics.h"
#include "conn/work.h"

#define CONNS_PER_SLAB 128u
#define REQS_PER_SLAB 16u

int ioh__hub_init(struct ioh__hub *hub, unsigned index)
{
    const struct ioh_options *o = hub->options;
    hub->limits = (struct ioh__http1_limits){
        .max_head = o->max_head_bytes, .max_uri = o->max_uri_bytes, .max_headers = o->max_headers};
    ioh__pool_init(&hub->conns, sizeof(ioh_conn), CONNS_PER_SLAB);
    ioh__pool_init(&hub->reqs, sizeof(ioh_req) + o->max_headers * sizeof(struct ioh__http1_field),
                   REQS_PER_SLAB);
    ioh__ws_engine_init(&hub->ws_engine);
    ioh__list_init(&hub->batch.conns);
    ioh__list_init(&hub->work);
    ioh__list_init(&hub->work_now);
    memcpy(hub->date, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n", sizeof hub->date);
    hub->date_second = 0;
    hub->phase = IOH__PHASE_POLL;
    if (!hub->single)
        hub->pass = &hub->own_pass;
    int rc = ioh__loop_init(&hub->loop, index, hub->single);
    if (rc)
        return rc;
    hub->loop.log.on = hub->handler->on_log != NULL;
    hub->running = ioh__work_running(hub);
    hub->stop = calloc(1, sizeof *hub->stop);
    if (!hub->running || !hub->stop)
        return IOH_ENOMEM;
    hub->stop->head.kind = IOH__MESSAGE_STOP;
    return 0;
}

void ioh__hub_destroy(struct ioh__hub *hub)
{
    free(hub->running);
    free(hub->stop);
    free(hub->spare_rx[0]);
    free(hub->spare_rx[1]);
    if (hub->spare_req)
        ioh__pool_put(&hub->reqs, hub->spare_req);
    ioh__ws_engine_destroy(&hub->ws_engine);
    ioh__pool_destroy(&hub->reqs);
    ioh__pool_destroy(&hub->conns);
    ioh__loop_destroy(&hub->loop);
}

bool ioh__hub_stop(struct ioh__hub *hub, uint32_t drain_ms)
{
    struct ioh__message *stop = hub->stop;
    hub->stop = NULL;
    if (!stop)
        return false;
    stop->as.drain_ms = drain_ms;
    if (ioh__mailbox_post(&hub->loop.mailbox, &stop->head.mail))
        return true;
    free(stop);
    return false;
}

void ioh__hub_hit(struct ioh__hub *hub, enum ioh__limit kind, const struct ioh__peer *peer,
                  const char *format, ...)
{
    char who[64], what[IOH__LOG_TEXT], more[40] = "";
    uint64_t untold;
    ioh__count(&hub->loop.count.limits[kind], 1);
    if (!hub->loop.log.on || !ioh__limit_pass(&hub->crew->limits, kind, hub->loop.now, &untold))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (untold)
        snprintf(more, sizeof more, " (and %" PRIu64 " more)", untold);
    ioh__peer_text(peer, who, sizeof who);
    ioh__log_add(&hub->loop.log, ioh__limit_level(kind), "%s: %s: %s%s", ioh__limit_name(kind), who,
                 what, more);
}
