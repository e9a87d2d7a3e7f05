/* A loop, pipes for it to look at, and a letter from another thread. */
#ifndef IOH_TESTS_TUBE_H
#define IOH_TESTS_TUBE_H

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/loop.h"

static struct ioh__loop loop;

struct tube {
    struct ioh__chan chan; /* the reading end */
    int write_fd;
};

static void open_tube(struct tube *t)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    t->chan = (struct ioh__chan){.fd = ends[0], .kind = IOH__CHAN_CONN};
    t->write_fd = ends[1];
    assert_int_equal(ioh__loop_enter(&loop, &t->chan), 0);
}

static void close_tube(struct tube *t)
{
    ioh__loop_leave(&loop, &t->chan);
    close(t->chan.fd);
    close(t->write_fd);
}

static void fill_tube(struct tube *t)
{
    assert_int_equal(write(t->write_fd, "x", 1), 1);
}

static struct ioh__mail letter;

/* arg is not used. */
static void *post_when_it_sleeps(void *arg)
{
    (void)arg;
    while (atomic_load(&loop.mailbox.state) == 0)
        usleep(100);
    ioh__mailbox_post(&loop.mailbox, &letter);
    return NULL;
}

#endif
