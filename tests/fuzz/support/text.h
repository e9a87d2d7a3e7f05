/* What the fuzzers share: CHECK, which ends the program with the place of what is wrong, and bytes that grow.
 * One thread. */
#ifndef FUZZ_TEXT_H
#define FUZZ_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                    \
    do {                                                               \
        if (!(what)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            abort();                                                   \
        }                                                              \
    } while (0)

struct text {
    char *bytes;
    size_t len, room;
};

/* Room for n more bytes; answers where they go. */
static char *text_room(struct text *t, size_t n)
{
    if (t->len + n > t->room) {
        t->room = (t->len + n) * 2;
        t->bytes = realloc(t->bytes, t->room);
        CHECK(t->bytes);
    }
    return t->bytes + t->len;
}

static void text_add(struct text *t, const void *data, size_t len)
{
    char *to = text_room(t, len + 1);
    if (len)
        memcpy(to, data, len);
    t->len += len;
}

__attribute__((format(printf, 2, 3))) static void text_say(struct text *t, const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    CHECK(len >= 0 && (size_t)len < sizeof line);
    text_add(t, line, (size_t)len);
}

static void text_free(struct text *t)
{
    free(t->bytes);
    *t = (struct text){NULL, 0, 0};
}

#endif
