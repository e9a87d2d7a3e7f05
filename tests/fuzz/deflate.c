/* The inflating side against zlib in one piece, and whatever is deflated must come back.
 *
 *     input: flags(1) cut(1) room(1) bytes
 *
 * The bytes are taken for a compressed message that comes in pieces, into rooms of some bytes: what comes out and
 * whether it is a message must not depend on either. They are also sent twice, with and without a context, and
 * read again.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <iohandler/buf.h>
#include <iohandler/handler.h>

#include "base/buf.h"
#include "proto/deflate.h"
#include "proto/ws_frame.h"

enum { PREFIX = 3, MOST = 1 << 16 }; /* of what is inflated */

static uint8_t outs[2][MOST + 256];

/* Answers how much came out, up to MOST; *whole: it was a message. */
static size_t inflate_in(struct ioh__inflater *z, const uint8_t *in, size_t len, size_t cut,
                         size_t room, uint8_t *out, bool *whole)
{
    size_t made = 0, used, n;
    enum ioh__inflated got = IOH__INFLATED_ALL;
    while (len > 0 && made <= MOST && got <= IOH__INFLATED_FULL) {
        size_t piece = len < cut ? len : cut;
        got = ioh__inflate(z, in, piece, &used, out + made, room, &n);
        assert(used <= piece && n <= room && (used || n || got > IOH__INFLATED_FULL));
        in += used;
        len -= used;
        made += n;
    }
    for (bool more = got <= IOH__INFLATED_FULL; more && made <= MOST;
         more = got == IOH__INFLATED_FULL) {
        got = ioh__inflate_end(z, out + made, room, &n);
        made += n;
    }
    *whole = made <= MOST && got == IOH__INFLATED_ALL;
    return made < MOST ? made : MOST;
}

static void inflate_any(const uint8_t *data, size_t len, bool keep, size_t cut, size_t room)
{
    bool whole[2];
    size_t made[2];
    for (int i = 0; i < 2; i++) {
        struct ioh__inflater *z = ioh__inflater_new(15);
        assert(z && ioh__inflater_begin(z, keep));
        made[i] = inflate_in(z, data, len, i ? cut : len + 1, i ? room : 256, outs[i], &whole[i]);
        if (keep && whole[i]) { /* and once more, behind itself */
            assert(ioh__inflater_begin(z, true));
            made[i] =
                inflate_in(z, data, len, i ? cut : len + 1, i ? room : 256, outs[i], &whole[i]);
        }
        ioh__inflater_free(z);
    }
    assert(whole[0] == whole[1] && made[0] == made[1]);
    assert(memcmp(outs[0], outs[1], made[0]) == 0);
}

static void there_and_back(const uint8_t *data, size_t len, bool keep, unsigned bits, int level,
                           size_t cut)
{
    struct ioh__deflater *d = ioh__deflater_new(bits, level);
    struct ioh__inflater *z = ioh__inflater_new(bits);
    assert(d && z);
    for (int i = 0; i < 3; i++) {
        size_t n = i == 1 ? len / 2 : len;
        ioh_buf *frame = ioh__deflate_frame(d, keep, IOH_WS_BINARY, data, n);
        struct ioh__ws_header h;
        bool whole;
        if (!frame)
            continue;
        assert(frame->len < n + IOH__WS_SERVER_HEADER_MAX);
        assert(ioh__ws_header_read(frame->data, frame->len, &h) && h.payload < n);
        assert(ioh__inflater_begin(z, keep));
        size_t made =
            inflate_in(z, frame->data + h.len, (size_t)h.payload, cut, 256, outs[0], &whole);
        assert(whole && made == n && memcmp(outs[0], data, n) == 0);
        ioh_buf_unref(frame);
    }
    ioh__inflater_free(z);
    ioh__deflater_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < PREFIX || len > MOST)
        return 0;
    uint8_t flags = data[0];
    size_t cut = data[1] + 1u, room = data[2] + 1u;
    inflate_any(data + PREFIX, len - PREFIX, flags & 1, cut, room);
    there_and_back(data + PREFIX, len - PREFIX, flags & 1, 9 + (flags >> 1) % 7, 1 + (flags >> 5),
                   cut);
    return 0;
}
