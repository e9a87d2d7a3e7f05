/* Files in the out queue, against a plain array of bytes; sent by whoever can, or read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conn/outq.h"

/* ---- memory that runs out when told */

static size_t fail_at; /* the n-th from now, 0: none */

void *__real_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return fail_at > 0 && --fail_at == 0 ? NULL : __real_malloc(size);
}

/* ---- the queue and its model */

#define FILE_LEN 300000u
#define MODEL_MAX (4u << 20)

static struct ioh__mem mem;
static struct ioh__outq q;
static uint8_t content[FILE_LEN], model[MODEL_MAX];
static size_t model_len;
static uint32_t seed;

static uint32_t chance(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static int set_up(void **state)
{
    (void)state;
    memset(&q, 0, sizeof q);
    ioh__mem_init(&mem);
    model_len = fail_at = 0;
    seed = 7;
    for (size_t i = 0; i < FILE_LEN; i++)
        content[i] = (uint8_t)chance(256);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    size_t live = 0;
    fail_at = 0;
    ioh__outq_clear(&q, &mem);
    for (size_t i = 0; i < sizeof mem.small / sizeof *mem.small; i++)
        live += mem.small[i].live;
    ioh__mem_destroy(&mem);
    return live == 0 && q.bytes == 0 && !q.first && !q.last ? 0 : -1;
}

static struct ioh__file *new_file(uint32_t parts)
{
    int fd = memfd_create("ioh-test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, FILE_LEN), FILE_LEN);
    struct ioh__file *file = ioh__file_new(fd, parts, 0);
    assert_non_null(file);
    return file;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void expect(const void *bytes, size_t len)
{
    assert_true(model_len + len <= MODEL_MAX);
    memcpy(model + model_len, bytes, len);
    model_len += len;
}

static void copy(size_t at, size_t len)
{
    expect(content + at, len);
    assert_true(ioh__outq_copy(&q, &mem, content + at, len, true));
}

static void take(struct ioh__file *file, size_t at, size_t len)
{
    expect(content + at, len);
    assert_true(ioh__outq_take_file(&q, &mem, ioh__file_ref(file), at, len));
}

/* The peer takes up to n bytes of what stands first, which has to be right. */
static void send_some(size_t n, bool by_reading)
{
    uint64_t at;
    size_t len;
    const struct ioh__file *file = ioh__outq_file(&q, &at, &len);
    assert_int_equal(q.bytes, model_len);
    if (file && by_reading) {
        assert_int_equal(ioh__outq_load(&q, &mem), IOH__LOAD_OK);
        assert_int_equal(q.bytes, model_len);
        file = ioh__outq_file(&q, &at, &len);
        assert_null(file);
    }
    if (file) {
        n = n < len ? n : len;
        assert_memory_equal(content + at, model, n);
    } else {
        struct iovec iov[1];
        assert_int_equal(ioh__outq_iov(&q, iov, 1), q.bytes ? 1 : 0);
        if (!q.bytes)
            return;
        n = n < iov[0].iov_len ? n : iov[0].iov_len;
        assert_memory_equal(iov[0].iov_base, model, n);
    }
    ioh__outq_consume(&q, &mem, n);
    model_len -= n;
    memmove(model, model + n, model_len);
}

/* ---- tests */

static void a_file_is_closed_after_its_last_part(void **state)
{
    (void)state;
    struct ioh__file *file = new_file(2);
    int fd = file->fd;
    take(file, 100, 1000);
    copy(0, 10);
    take(file, 0, 5);
    ioh__file_unref(file);
    send_some(1000, false);
    send_some(10, false);
    send_some(4, false);
    assert_true(is_open(fd));
    send_some(1, false);
    assert_false(is_open(fd));
    assert_null(q.first);
}

static void what_was_read_of_a_file_needs_it_no_more(void **state)
{
    (void)state;
    struct ioh__file *file = new_file(1);
    int fd = file->fd;
    take(file, 5, 2000);
    ioh__file_unref(file);
    send_some(1, true);
    assert_false(is_open(fd));
    send_some(1999, false);
    assert_null(q.first);
}

static void clearing_closes_the_file(void **state)
{
    (void)state;
    struct ioh__file *file = new_file(1);
    int fd = file->fd;
    take(file, 0, FILE_LEN);
    ioh__file_unref(file);
    send_some(1000, false);
    ioh__outq_clear(&q, &mem);
    assert_false(is_open(fd));
    model_len = 0;
}

static void nothing_is_appended_to_a_file_or_to_what_was_read_of_it(void **state)
{
    (void)state;
    struct ioh__file *file = new_file(1);
    take(file, 0, 100);
    copy(500, 100);
    take(file, 200, 50);
    assert_int_equal(ioh__outq_load(&q, &mem), IOH__LOAD_OK);
    copy(700, 100);
    ioh__outq_rest(&q, &mem);
    ioh__file_unref(file);
    while (q.bytes)
        send_some(33, false);
}

static void pieces_in_memory_end_before_a_file(void **state)
{
    (void)state;
    struct iovec iov[4];
    struct ioh__file *file = new_file(1);
    copy(0, 10);
    take(file, 0, 100);
    copy(10, 10);
    assert_int_equal(ioh__outq_iov(&q, iov, 4), 1);
    assert_int_equal(iov[0].iov_len, 10);
    send_some(10, false);
    assert_int_equal(ioh__outq_iov(&q, iov, 4), 0);
    ioh__file_unref(file);
}

static void a_file_that_has_ended_says_so(void **state)
{
    (void)state;
    struct ioh__file *file = new_file(1);
    int fd = file->fd;
    take(file, 0, FILE_LEN);
    ioh__file_unref(file);
    assert_int_equal(ftruncate(fd, 1000), 0);
    send_some(1000, true); /* what is there is sent, */
    assert_int_equal(ioh__outq_load(&q, &mem), IOH__LOAD_ENDED);
    assert_int_equal(q.bytes, FILE_LEN - 1000);
    assert_true(is_open(fd));
}

static void a_file_that_cannot_be_read_has_ended(void **state)
{
    (void)state;
    struct ioh__file *file = ioh__file_new(open("/", O_RDONLY | O_CLOEXEC), 1, 0);
    take(file, 0, 100);
    ioh__file_unref(file);
    assert_int_equal(ioh__outq_load(&q, &mem), IOH__LOAD_ENDED);
}

static void without_memory_nothing_is_lost_and_nothing_stays_open(void **state)
{
    (void)state;
    struct ioh__file *file = new_file(1);
    int fd = file->fd;
    fail_at = 1;
    assert_false(ioh__outq_take_file(&q, &mem, ioh__file_ref(file), 0, 10));
    take(file, 0, 50000);
    fail_at = 1;
    assert_int_equal(ioh__outq_load(&q, &mem), IOH__LOAD_NO_MEMORY);
    ioh__file_unref(file);
    send_some(50000, true);
    assert_false(is_open(fd));
    fd = memfd_create("ioh-test", MFD_CLOEXEC);
    fail_at = 1;
    assert_null(ioh__file_new(fd, 3, 100));
    assert_false(is_open(fd));
    ioh__file_unref(NULL);
}

static void random_operations_agree_with_a_plain_array(void **state)
{
    (void)state;
    struct ioh__file *file = new_file(1);
    int fd = file->fd;
    seed = 20240229;
    for (int i = 0; i < 8000; i++) {
        size_t len = chance(chance(2) ? 300 : 100000) + 1, at = chance(FILE_LEN - (uint32_t)len);
        switch (model_len > MODEL_MAX / 2 ? 4u : chance(6)) {
        case 0:
            copy(at, len);
            break;
        case 1:
        case 2:
            take(file, at, len);
            break;
        case 3:
            ioh__outq_rest(&q, &mem);
            break;
        default:
            for (uint32_t n = chance(10); n > 0; n--)
                send_some(len, chance(2));
        }
    }
    ioh__file_unref(file);
    while (q.bytes)
        send_some(100000, chance(2));
    assert_false(is_open(fd));
}

#define with_queue(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_queue(a_file_is_closed_after_its_last_part),
        with_queue(what_was_read_of_a_file_needs_it_no_more),
        with_queue(clearing_closes_the_file),
        with_queue(nothing_is_appended_to_a_file_or_to_what_was_read_of_it),
        with_queue(pieces_in_memory_end_before_a_file),
        with_queue(a_file_that_has_ended_says_so),
        with_queue(a_file_that_cannot_be_read_has_ended),
        with_queue(without_memory_nothing_is_lost_and_nothing_stays_open),
        with_queue(random_operations_agree_with_a_plain_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
