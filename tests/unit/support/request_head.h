/* Parsing a request's head in tests of what reads its fields. */
#ifndef IOH_TESTS_REQUEST_HEAD_H
#define IOH_TESTS_REQUEST_HEAD_H

#include "proto/http1_parse.h"

struct request_head {
    char text[4096];
    struct ioh__http1_head head;
    struct ioh__http1_field fields[40];
};

/* A GET with these field lines, each with its CRLF. */
static inline void request_head(struct request_head *r, const char *fields)
{
    static const struct ioh__http1_limits limits = {
        .max_head = 4096, .max_uri = 1024, .max_headers = 40};
    struct ioh__http1_fault fault;
    size_t scanned = 0;
    int n = snprintf(r->text, sizeof r->text, "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", fields);
    assert_true(n > 0 && (size_t)n < sizeof r->text);
    r->head.fields = r->fields;
    if (ioh__http1_parse(r->text, (size_t)n, sizeof r->text, &scanned, &limits, &r->head, &fault) !=
        IOH__HTTP1_DONE)
        fail_msg("no request: %s", r->text);
}

#endif
