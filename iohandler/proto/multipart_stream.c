/* The public face of multipart/form-data (include/iohandler/form.h): the events of multipart.h as
 * callbacks. Owns the room for one part's head. One thread at a time. */
#include <iohandler/error.h>
#include <iohandler/form.h>
#include <stdlib.h>
#include <string.h>

#include "proto/multipart.h"

#define MAX_PARTS 1000u
#define MAX_HEAD 4096u

/* Version 1: a host's struct is never smaller. */
#define VERSION_1_SIZE (offsetof(struct ioh_multipart_handler, max_head_bytes) + sizeof(uint32_t))

struct ioh_multipart {
    struct ioh__multipart engine;
    struct ioh_multipart_handler on;
    void *user;
    struct ioh_part part;
    int stopped; /* what a callback answered, if not 0 */
    bool cut;    /* IOH_ELENGTH has been answered */
    char head[];
};

int ioh_multipart_create(ioh_multipart **out, struct ioh_str content_type,
                         const struct ioh_multipart_handler *handler, void *user)
{
    *out = NULL;
    if (handler->size < VERSION_1_SIZE)
        return IOH_EVERSION;
    uint32_t max_head = handler->max_head_bytes ? handler->max_head_bytes : MAX_HEAD;
    uint32_t max_parts = handler->max_parts ? handler->max_parts : MAX_PARTS;
    ioh_multipart *m = malloc(sizeof *m + max_head);
    if (!m)
        return IOH_ENOMEM;
    memset(m, 0, sizeof *m);
    memcpy(&m->on, handler, handler->size < sizeof m->on ? handler->size : sizeof m->on);
    m->user = user;
    m->part.size = sizeof m->part;
    int rc = ioh__multipart_init(&m->engine, content_type, m->head, max_head, max_parts);
    if (rc) {
        free(m);
        return rc;
    }
    *out = m;
    return 0;
}

/* 0, or what the callback answered. */
static int tell(ioh_multipart *m, enum ioh__multipart_event event, struct ioh_str piece)
{
    const struct ioh_multipart_handler *on = &m->on;
    switch (event) {
    case IOH__MULTIPART_PART:
        m->part.name = m->engine.name;
        m->part.filename = m->engine.filename;
        m->part.type = m->engine.type;
        return on->on_part ? on->on_part(&m->part, m->user) : 0;
    case IOH__MULTIPART_DATA:
        return on->on_data ? on->on_data(&m->part, piece.ptr, piece.len, m->user) : 0;
    case IOH__MULTIPART_END:
        return on->on_part_end ? on->on_part_end(&m->part, m->user) : 0;
    default:
        return 0;
    }
}

int ioh_multipart_feed(ioh_multipart *m, const void *data, size_t len)
{
    const char *at = data, *end = len ? at + len : at;
    while (at < end && !m->stopped) {
        struct ioh_str piece;
        size_t used;
        enum ioh__multipart_event event =
            ioh__multipart_next(&m->engine, at, (size_t)(end - at), &used, &piece);
        if (event == IOH__MULTIPART_FAULT)
            return m->engine.error;
        at += used;
        m->stopped = tell(m, event, piece);
    }
    return m->stopped ? m->stopped : m->engine.error;
}

int ioh_multipart_end(ioh_multipart *m)
{
    if (m->stopped || m->engine.error)
        return m->stopped ? m->stopped : m->engine.error;
    m->cut = !ioh__multipart_whole(&m->engine);
    return m->cut ? IOH_ELENGTH : 0;
}

const char *ioh_multipart_error(const ioh_multipart *m)
{
    if (m->engine.why)
        return m->engine.why;
    return m->cut ? "the last boundary never came" : "";
}

void ioh_multipart_destroy(ioh_multipart *m)
{
    free(m);
}
