/* Compressed messages as they come in (see ws_unpack.h). The thread that holds the loop. */
#include "proto/ws_unpack.h"

#include "proto/utf8.h"
#include "proto/ws_frame.h"

#include <stdlib.h>

enum {
    ROOM_MIN = 1024,
    RATIO = 4, /* of plain to compressed, a first guess */
};

/* ---- contexts */

void ioh__ws_contexts_destroy(struct ioh__ws_contexts *all)
{
    while (all->idle_count > 0)
        ioh__inflater_free(all->idle[--all->idle_count]);
    free(all->own);
    all->own = NULL;
    all->own_room = all->own_free = 0;
}

static bool grow(struct ioh__ws_contexts *all)
{
    uint32_t room = all->own_room ? all->own_room * 2 : 16;
    struct ioh__ws_own *own = realloc(all->own, room * sizeof *own);
    if (!own)
        return false;
    all->own = own;
    for (uint32_t i = room - 1; i >= all->own_room && i > 0; i--) {
        own[i] = (struct ioh__ws_own){.next = all->own_free};
        all->own_free = i;
    }
    all->own_room = room;
    return true;
}

struct ioh__ws_own *ioh__ws_own(struct ioh__ws_contexts *all, uint32_t *index)
{
    if (*index == 0) {
        if (all->own_free == 0 && !grow(all))
            return NULL;
        *index = all->own_free;
        all->own_free = all->own[*index].next;
        all->own_count++;
    }
    return &all->own[*index];
}

void ioh__ws_disown(struct ioh__ws_contexts *all, uint32_t *index)
{
    if (*index == 0)
        return;
    struct ioh__ws_own *own = &all->own[*index];
    ioh__inflater_free(own->inflater);
    ioh__deflater_free(own->deflater);
    *own = (struct ioh__ws_own){.next = all->own_free};
    all->own_free = *index;
    all->own_count--;
    *index = 0;
}

static bool keeps(const struct ioh__deflate_terms *terms)
{
    return terms->flags & IOH__DEFLATE_CLIENT_KEEPS;
}

static struct ioh__inflater *own_inflater(struct ioh__ws_contexts *all,
                                          const struct ioh__deflate_terms *terms, uint32_t *index)
{
    struct ioh__ws_own *own = ioh__ws_own(all, index);
    if (own && !own->inflater)
        own->inflater = ioh__inflater_new(terms->client_bits < IOH__DEFLATE_MIN_BITS
                                              ? IOH__DEFLATE_MIN_BITS /* as zlib's peers do */
                                              : terms->client_bits);
    return own ? own->inflater : NULL;
}

struct ioh__inflater *ioh__ws_lend_inflater(struct ioh__ws_contexts *all,
                                            const struct ioh__deflate_terms *terms, uint32_t *index)
{
    struct ioh__inflater *z;
    if (keeps(terms))
        z = own_inflater(all, terms, index);
    else if (all->idle_count > 0)
        z = all->idle[--all->idle_count];
    else
        z = ioh__inflater_new(IOH__DEFLATE_MAX_BITS);
    if (z && !ioh__inflater_begin(z, keeps(terms))) /* out of memory; only own ones can have that */
        return NULL;
    return z;
}

void ioh__ws_give_inflater(struct ioh__ws_contexts *all, const struct ioh__deflate_terms *terms,
                           struct ioh__inflater *z)
{
    if (!z || keeps(terms))
        return;
    if (all->idle_count == IOH__INFLATERS_KEPT)
        ioh__inflater_free(z);
    else
        all->idle[all->idle_count++] = z;
}

/* ---- messages */

/* Room for at least one more byte than there is, up to one more than there may be. */
static bool make_room(struct ioh__ws_unpack *u, size_t more_in)
{
    if (u->len < u->cap)
        return true;
    size_t most = (size_t)u->max + 1;
    size_t cap = u->cap < ROOM_MIN / 2 ? ROOM_MIN : u->cap * 2;
    if (more_in < most / RATIO && cap < u->len + more_in * RATIO)
        cap = u->len + more_in * RATIO;
    cap = cap < most ? cap : most;
    uint8_t *buffer = realloc(u->buffer, cap);
    if (!buffer)
        return false;
    u->buffer = buffer;
    u->cap = cap;
    return true;
}

static int fault(struct ioh__ws_unpack *u, int code, const char *why)
{
    u->why = why;
    return code;
}

/* What has come out is looked at before what went wrong behind it. */
static int check(struct ioh__ws_unpack *u, enum ioh__inflated got, bool last)
{
    size_t len = u->len < u->max ? u->len : (size_t)u->max;
    bool broken = false;
    if (u->text)
        u->checked += ioh__utf8_whole(u->buffer + u->checked, len - u->checked, &broken);
    if (broken)
        return fault(u, IOH__CODE_TEXT, "text is not UTF-8");
    if (u->len > u->max)
        return fault(u, IOH__CODE_TOO_BIG, "the message is too big when inflated");
    if (got == IOH__INFLATED_BAD)
        return fault(u, IOH__CODE_TEXT, "a compressed message that cannot be inflated");
    if (got == IOH__INFLATED_NOMEM)
        return fault(u, IOH__CODE_INTERNAL, "out of memory");
    if (last && got == IOH__INFLATED_ALL && u->text && u->checked < u->len)
        return fault(u, IOH__CODE_TEXT, "text ends inside a character");
    return 0;
}

static int run(struct ioh__ws_unpack *u, const uint8_t *in, size_t len, bool last)
{
    enum ioh__inflated got = IOH__INFLATED_FULL;
    while (got == IOH__INFLATED_FULL) {
        size_t used = 0, made = 0;
        if (!make_room(u, len))
            return fault(u, IOH__CODE_INTERNAL, "out of memory");
        uint8_t *out = u->buffer + u->len;
        got = last ? ioh__inflate_end(u->inflater, out, u->cap - u->len, &made)
                   : ioh__inflate(u->inflater, in, len, &used, out, u->cap - u->len, &made);
        in += used;
        len -= used;
        u->len += made;
        int code = check(u, got, last);
        if (code)
            return code;
    }
    return 0;
}

int ioh__ws_unpack(struct ioh__ws_unpack *u, const uint8_t *in, size_t len, bool last)
{
    int code = run(u, in, len, false);
    return code || !last ? code : run(u, in, 0, true);
}
