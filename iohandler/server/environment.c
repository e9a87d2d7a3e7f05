/* The environment's word on options: an administrator's, over the host's. A value that cannot be read is an
 * error: a server that ran otherwise than it was told would be worse than one that does not start. */
#include <errno.h>
#include <iohandler/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/server.h"

struct choice {
    const char *name;
    int32_t value;
};

static const struct choice types[] = {{"epoll", IOH_EPOLL}, {"threads", IOH_THREADS}};
static const struct choice execs[] = {{"auto", IOH_EXEC_AUTO},
                                      {"inline", IOH_EXEC_INLINE},
                                      {"pool", IOH_EXEC_POOL},
                                      {"affine", IOH_EXEC_AFFINE}};

static int bad(const char *name, const char *text, const char *wanted, char *error)
{
    snprintf(error, IOH__ERROR_TEXT, "environment: %s=%.60s: %s", name, text, wanted);
    return IOH_EINVAL;
}

static int read_choice(const char *name, const struct choice *choices, size_t count,
                       const char *wanted, int32_t *option, char *error)
{
    const char *text = getenv(name);
    if (!text)
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, choices[i].name) == 0) {
            *option = choices[i].value;
            return 0;
        }
    }
    return bad(name, text, wanted, error);
}

static int read_number(const char *name, uint32_t *option, char *error)
{
    const char *text = getenv(name);
    char *end;
    if (!text)
        return 0;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value > UINT32_MAX)
        return bad(name, text, "a number is wanted", error);
    *option = (uint32_t)value;
    return 0;
}

int ioh__options_environment(struct ioh_options *o, char error[IOH__ERROR_TEXT])
{
    int rc = read_choice("IOH_TYPE", types, 2, "epoll or threads is wanted", &o->type, error);
    if (rc == 0)
        rc = read_choice("IOH_EXEC", execs, 4, "auto, inline, pool or affine is wanted", &o->exec,
                         error);
    if (rc == 0)
        rc = read_number("IOH_EPOLL_THREADS", &o->epoll_threads, error);
    if (rc == 0)
        rc = read_number("IOH_WORK_OP_THREADS", &o->work_op_threads, error);
    if (rc == 0)
        rc = read_number("IOH_POOL_THREADS", &o->pool_threads, error);
    if (rc == 0)
        rc = read_number("IOH_POOL_QUEUE", &o->pool_queue, error);
    return rc;
}
