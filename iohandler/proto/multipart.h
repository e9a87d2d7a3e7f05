/* multipart/form-data, taken apart as it comes (RFC 7578, RFC 2046 5.1.1): bytes in, events out, no
 * allocation, each byte looked at once or twice however the input is cut.
 *
 * The content of a part is handed over where it lies. What may be the beginning of a delimiter at the end
 * of the input is not kept: it is known, so only its length is, and when it turns out to be content it is
 * handed over out of the delimiter itself.
 *
 *     PREAMBLE --delimiter--> LINE --CRLF--> HEAD --empty line--> DATA --delimiter--> LINE
 *                              |
 *                              +--"--"--> CLOSING --CRLF--> EPILOGUE        from everywhere: --> FAILED
 */
#ifndef IOH_PROTO_MULTIPART_H
#define IOH_PROTO_MULTIPART_H

#include <iohandler/types.h>
#include <stdbool.h>

#define IOH__BOUNDARY_MAX 70u /* RFC 2046 5.1.1 */
#define IOH__DELIMITER_MAX (4u + IOH__BOUNDARY_MAX)

enum ioh__multipart_event {
    IOH__MULTIPART_MORE,  /* all bytes were used */
    IOH__MULTIPART_PART,  /* a part's head is whole: name, filename, type */
    IOH__MULTIPART_DATA,  /* a piece of its content */
    IOH__MULTIPART_END,   /* the part is whole */
    IOH__MULTIPART_FAULT, /* now, or before */
};

enum ioh__multipart_step {
    IOH__MULTIPART_PREAMBLE,
    IOH__MULTIPART_LINE,         /* right behind a boundary */
    IOH__MULTIPART_LINE_DASH,    /* one '-' came */
    IOH__MULTIPART_LINE_PADDING, /* spaces came */
    IOH__MULTIPART_LINE_CR,
    IOH__MULTIPART_HEAD,
    IOH__MULTIPART_DATA_STEP,
    IOH__MULTIPART_CLOSING,
    IOH__MULTIPART_CLOSING_CR,
    IOH__MULTIPART_EPILOGUE,
    IOH__MULTIPART_FAILED,
};

struct ioh__multipart {
    uint8_t step;    /* enum ioh__multipart_step */
    uint8_t matched; /* bytes of the delimiter that came last; */
    uint8_t assumed; /* of these, how many only count as if they had come */
    uint8_t delimiter_len;
    bool in_part;                       /* END is due for it */
    char delimiter[IOH__DELIMITER_MAX]; /* CRLF "--" boundary */

    char *head; /* the caller's room for the head of one part */
    uint32_t head_len, head_max, line;
    uint32_t parts, max_parts;

    /* of the part under way, in head */
    struct ioh_str name, filename, type;

    int error;       /* FAILED: IOH_EINVAL or IOH_ETOOBIG */
    const char *why; /* and in words, static */
};

/* 0, or IOH_EINVAL: content_type is not multipart/form-data with a boundary. */
int ioh__multipart_init(struct ioh__multipart *m, struct ioh_str content_type, char *head,
                        uint32_t head_max, uint32_t max_parts);

/* Takes bytes up to the next event; *used says how many. DATA: *piece, which lies in data or in m. */
enum ioh__multipart_event ioh__multipart_next(struct ioh__multipart *m, const char *data,
                                              size_t len, size_t *used, struct ioh_str *piece);

/* Has the closing delimiter come? */
bool ioh__multipart_whole(const struct ioh__multipart *m);

#endif
