/* Bufs: immutable bytes with a reference count. A buf owns itself and the bytes behind it, or hands
 * foreign bytes back by its release function. Any thread.
 */
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

ioh_buf *ioh__buf_new(size_t len)
{
    if (len > SIZE_MAX - sizeof(ioh_buf))
        return NULL;
    ioh_buf *buf = malloc(sizeof(*buf) + len);
    if (!buf)
        return NULL;
    atomic_init(&buf->refs, 1);
    buf->is_frame = buf->once = false;
    buf->window = 0;
    atomic_init(&buf->form, NULL);
    buf->data = (uint8_t *)(buf + 1);
    buf->len = len;
    buf->release = NULL;
    buf->user = NULL;
    return buf;
}

ioh_buf *ioh_buf_copy(const void *data, size_t len)
{
    ioh_buf *buf = ioh__buf_new(len);
    if (buf && len > 0)
        memcpy(buf->data, data, len);
    return buf;
}

ioh_buf *ioh_buf_wrap(void *data, size_t len, ioh_release_fn release, void *user)
{
    ioh_buf *buf = ioh__buf_new(0);
    if (!buf)
        return NULL;
    buf->data = data;
    buf->len = len;
    buf->release = release;
    buf->user = user;
    return buf;
}

/* Relaxed: whoever passes the new reference to another thread orders that itself. */
ioh_buf *ioh_buf_ref(ioh_buf *buf)
{
    atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);
    return buf;
}

/* Every unref releases what its thread did with the bytes; the last one acquires all of that before
 * it frees. A count of 1 that we read is our own reference, so nobody can raise it: no locked
 * instruction is needed, and most bufs have only ever one. */
void ioh_buf_unref(ioh_buf *buf)
{
    if (!buf)
        return;
    if (atomic_load_explicit(&buf->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel) != 1)
        return;
    ioh_buf *form = atomic_load_explicit(&buf->form, memory_order_relaxed);
    if (form && form != buf)
        ioh_buf_unref(form);
    if (buf->release)
        buf->release(buf->data, buf->len, buf->user);
    free(buf);
}

const void *ioh_buf_data(const ioh_buf *buf)
{
    return buf->data;
}

size_t ioh_buf_len(const ioh_buf *buf)
{
    return buf->len;
}
