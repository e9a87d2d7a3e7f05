/* Lent wslay contexts (see ws_loan.h). The thread that holds the loop. */
#include "proto/ws_loan.h"

#include "proto/ws_frame.h"

#include <stdlib.h>
#include <string.h>

enum {
    IDLE_MAX = 16,         /* contexts at rest in one loop: 16 of 9.4 kB */
    BUFFER_MIN = 1024,     /* first size of a message's buffer */
    BUFFER_KEPT = 1 << 16, /* a larger buffer is not kept by a context at rest */
};

/* ---- wslay */

static ssize_t on_read(wslay_event_context_ptr context, uint8_t *to, size_t len, int flags,
                       void *user)
{
    struct ioh__ws_loan *loan = user;
    size_t n = (size_t)(loan->in_end - loan->in);
    (void)flags;
    if (n == 0) {
        wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    n = n < len ? n : len;
    memcpy(to, loan->in, n);
    loan->in += n;
    return (ssize_t)n;
}

static void on_start(wslay_event_context_ptr context,
                     const struct wslay_event_on_frame_recv_start_arg *arg, void *user)
{
    struct ioh__ws_loan *loan = user;
    loan->started = true;
    if (!(arg->opcode & 8) && arg->payload_length > loan->room) {
        loan->too_big = true;
        wslay_event_shutdown_read(context);
    }
}

static void on_chunk(wslay_event_context_ptr context,
                     const struct wslay_event_on_frame_recv_chunk_arg *arg, void *user)
{
    struct ioh__ws_loan *loan = user;
    (void)context;
    if (arg->data_length > 0) {
        memcpy(loan->out, arg->data, arg->data_length);
        loan->out += arg->data_length;
    }
}

int ioh__ws_judge(struct ioh__ws_loan *loan, const uint8_t *bytes, size_t len)
{
    loan->in = bytes;
    loan->in_end = bytes + len;
    int r = wslay_event_recv(loan->context);
    if (r == WSLAY_ERR_NOMEM) {
        return IOH__CODE_INTERNAL;
    }
    if (r == 0 && (wslay_event_get_read_enabled(loan->context) ||
                   wslay_event_get_close_received(loan->context))) {
        return 0;
    }
    return loan->too_big ? IOH__CODE_TOO_BIG : loan->started ? IOH__CODE_TEXT : IOH__CODE_PROTOCOL;
}

/* ---- loans */

void ioh__ws_free_loan(struct ioh__ws_loan *loan)
{
    wslay_event_context_free(loan->context);
    free(loan->buffer);
    free(loan);
}

static struct ioh__ws_loan *new_loan(void)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_read,
        .on_frame_recv_start_callback = on_start,
        .on_frame_recv_chunk_callback = on_chunk,
    };
    struct ioh__ws_loan *loan = calloc(1, sizeof *loan);
    if (!loan) {
        return NULL;
    }
    if (wslay_event_context_server_init(&loan->context, &callbacks, loan) != 0) {
        free(loan);
        return NULL;
    }
    wslay_event_config_set_no_buffering(loan->context, 1);
    wslay_event_config_set_max_recv_msg_length(loan->context, UINT64_MAX); /* the limit is ours */
    wslay_event_shutdown_write(loan->context); /* no Pong and no Close is ever queued */
    return loan;
}

struct ioh__ws_loan *ioh__ws_lend(struct ioh__ws_engine *engine, struct ioh__ws *ws)
{
    struct ioh__ws_loan *loan = engine->idle;
    if (loan) {
        engine->idle = loan->next;
        engine->idle_count--;
    } else {
        loan = new_loan();
        if (!loan) {
            return NULL;
        }
    }
    loan->next = NULL;
    loan->len = loan->checked = 0;
    ws->loan = loan;
    engine->lent++;
    return loan;
}

void ioh__ws_return_inflater(struct ioh__ws_engine *engine, struct ioh__ws *ws)
{
    ioh__ws_give_inflater(&engine->contexts, &ws->terms, ws->loan->inflater);
    ws->loan->inflater = NULL;
}

void ioh__ws_take_back(struct ioh__ws_engine *engine, struct ioh__ws *ws, bool as_new)
{
    struct ioh__ws_loan *loan = ws->loan;
    if (!loan) {
        return;
    }
    ioh__ws_return_inflater(engine, ws);
    loan->packed = loan->pieces = loan->ending = false;
    loan->carried = 0;
    ws->loan = NULL;
    engine->lent--;
    if (!as_new || engine->idle_count == IDLE_MAX) {
        ioh__ws_free_loan(loan);
        return;
    }
    if (loan->cap > BUFFER_KEPT) {
        free(loan->buffer);
        loan->buffer = NULL;
        loan->cap = 0;
    }
    loan->next = engine->idle;
    engine->idle = loan;
    engine->idle_count++;
}

bool ioh__ws_reserve(struct ioh__ws_loan *loan, size_t n, uint64_t max_message)
{
    size_t want = loan->len + n;
    if (want <= loan->cap) {
        return true;
    }
    uint64_t most = loan->fin ? loan->len + loan->left : max_message;
    size_t cap = loan->cap < BUFFER_MIN / 2 ? BUFFER_MIN : loan->cap * 2;
    cap = cap > most ? (size_t)most : cap;
    cap = cap < want ? want : cap;
    uint8_t *buffer = realloc(loan->buffer, cap);
    if (!buffer) {
        return false;
    }
    loan->buffer = buffer;
    loan->cap = cap;
    return true;
}
