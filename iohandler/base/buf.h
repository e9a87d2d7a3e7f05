/* The inside of ioh_buf (include/iohandler/buf.h). */
#ifndef IOH_BASE_BUF_H
#define IOH_BASE_BUF_H

#include <iohandler/buf.h>
#include <stdatomic.h>
#include <stdbool.h>

struct ioh_buf {
    _Atomic uint32_t refs;
    bool is_frame;  /* made by ioh_ws_frame(): the bytes are a whole WebSocket frame, */
    bool once;      /* and for one connection only */
    uint8_t window; /* of a compressed form: bits that the peer's window must have */
    _Atomic(ioh_buf *)
        form; /* its message compressed (proto/deflate.h); itself: it does not become shorter */
    uint8_t *data; /* behind this struct, or the owner's */
    size_t len;
    ioh_release_fn release;
    void *user;
};

/* A buf with room for len bytes behind it, to be filled before anyone else sees it. */
ioh_buf *ioh__buf_new(size_t len);

#endif
