/* Bufs: immutable bytes with a reference count.
 *
 * One buf may be sent to any number of connections from any threads; each send consumes one
 * reference and the bytes are not copied. When the last reference goes, the release function of
 * whoever made the buf runs, on whichever thread that is.
 */
#ifndef IOHANDLER_BUF_H
#define IOHANDLER_BUF_H

#include <iohandler/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gives the bytes back to their owner; called once, on any thread. */
typedef void (*ioh_release_fn)(void *data, size_t len, void *user);

/* A buf holding a copy of len bytes at data (NULL only with len 0). NULL when out of memory.
 * [any thread] */
IOH_API ioh_buf *ioh_buf_copy(const void *data, size_t len);

/* A buf over len bytes at data, which stay where they are and must not change until release(data,
 * len, user) runs; release may be NULL for static data. NULL when out of memory (release is then
 * not called). [any thread] */
IOH_API ioh_buf *ioh_buf_wrap(void *data, size_t len, ioh_release_fn release, void *user);

/* One more reference; answers buf. [any thread] */
IOH_API ioh_buf *ioh_buf_ref(ioh_buf *buf);

/* One reference fewer; NULL is allowed. [any thread] */
IOH_API void ioh_buf_unref(ioh_buf *buf);

/* The bytes, valid while the caller holds a reference. [any thread] */
IOH_API const void *ioh_buf_data(const ioh_buf *buf);
IOH_API size_t ioh_buf_len(const ioh_buf *buf);

#ifdef __cplusplus
}
#endif
#endif
