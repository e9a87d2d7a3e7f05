/* Which system calls a file costs, and what becomes of it when they fail. */
#include "support/common.h"
#include "support/folder.h"

#include <sys/sendfile.h>
#include <sys/syscall.h>

#define LARGE 3000000u

/* ---- the calls of the server's threads */

static _Thread_local bool is_client; /* the test's own thread */
static atomic_int opens, stats, reads, closes, sends, more_sends, sendfiles;
static atomic_int sendfile_error; /* what sendfile() fails with; 0: it works */
static atomic_int sendfile_most;  /* so much at most; 0: all */
static atomic_int read_most;      /* of pread(); 0: all, -1: nothing is there */
static atomic_int failing_malloc; /* the n-th from now in the server's threads; 0: none */

static void count(atomic_int *calls)
{
    if (!is_client)
        atomic_fetch_add(calls, 1);
}

long __real_syscall(long number, ...);
int __real_fstat(int fd, struct stat *st);
ssize_t __real_pread(int fd, void *data, size_t len, off_t at);
int __real_close(int fd);
ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_sendfile(int to, int from, off_t *at, size_t len);
void *__real_malloc(size_t size);

long __wrap_syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long),
         d = va_arg(list, long);
    va_end(list);
    if (number == SYS_openat2)
        count(&opens);
    return __real_syscall(number, a, b, c, d);
}

int __wrap_fstat(int fd, struct stat *st)
{
    count(&stats);
    return __real_fstat(fd, st);
}

ssize_t __wrap_pread(int fd, void *data, size_t len, off_t at)
{
    count(&reads);
    if (read_most < 0)
        return 0;
    if (read_most > 0 && reads % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    return __real_pread(fd, data,
                        read_most > 0 && len > (size_t)read_most ? (size_t)read_most : len, at);
}

int __wrap_close(int fd)
{
    count(&closes);
    return __real_close(fd);
}

static void count_send(int flags)
{
    count(flags & MSG_MORE ? &more_sends : &sends);
}

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    count_send(flags);
    return __real_send(fd, data, len, flags);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    count_send(flags);
    return __real_sendmsg(fd, message, flags);
}

ssize_t __wrap_sendfile(int to, int from, off_t *at, size_t len)
{
    count(&sendfiles);
    if (sendfile_error) {
        errno = sendfile_error;
        return -1;
    }
    size_t most = (size_t)sendfile_most;
    return __real_sendfile(to, from, at, most && len > most ? most : len);
}

void *__wrap_malloc(size_t size)
{
    if (!is_client && failing_malloc > 0 && atomic_fetch_sub(&failing_malloc, 1) == 1)
        return NULL;
    return __real_malloc(size);
}

static void forget_calls(void)
{
    opens = stats = reads = closes = sends = more_sends = sendfiles = 0;
}

/* ---- the server */

static void send_path(ioh_req *req, void *state)
{
    char path[100];
    CHECK((struct host *)state, ioh_req_path_decode(req, "", path, sizeof path) > 0);
    ioh_send_file(req, dir, path, NULL);
}

static struct host *file_host(void **state)
{
    struct host *h = host_new(state);
    is_client = true;
    sendfile_error = sendfile_most = read_most = failing_malloc = 0;
    h->on.on_request = send_path;
    host_start(h);
    return h;
}

static void end(struct host *h, struct client *c)
{
    sendfile_error = sendfile_most = read_most = failing_malloc = 0;
    client_close(c);
    host_end(h);
}

static void assert_large(struct client *c)
{
    assert_int_equal(c->body_len, LARGE);
    assert_true(is_pattern(c->body, LARGE));
}

/* ---- tests */

static void a_small_file_costs_four_calls_and_one_send(void **state)
{
    struct host *h = file_host(state);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/small.txt"), 200);
    forget_calls();
    for (int i = 1; i <= 10; i++) {
        assert_int_equal(client_get(c, "/small.txt"), 200);
        assert_body(c, "small");
        assert_int_equal(opens, i);
        assert_int_equal(stats, i);
        assert_int_equal(reads, i);
        assert_int_equal(closes, i);
        assert_int_equal(sends, i);
    }
    assert_int_equal(more_sends, 0);
    assert_int_equal(sendfiles, 0);
    end(h, c);
}

static void small_files_in_a_pipeline_leave_in_one_send(void **state)
{
    struct host *h = file_host(state);
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/small.txt"), 200);
    forget_calls();
    char requests[1000] = "";
    for (int i = 0; i < 8; i++)
        strcat(requests, "GET /small.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    client_send(c, requests);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(client_answer(c), 200);
        assert_body(c, "small");
    }
    assert_int_equal(sends, 1);
    end(h, c);
}

/* The head waits for the first bytes of the file, and those are never read. */
static void a_large_file_is_a_head_and_sendfile(void **state)
{
    struct host *h = file_host(state);
    struct client *c = client_open(h);
    forget_calls();
    assert_int_equal(client_get(c, "/large.bin"), 200);
    assert_large(c);
    assert_int_equal(more_sends, 1);
    assert_int_equal(sends, 0);
    assert_int_equal(reads, 1); /* its first byte, so that the disk is waited for by the callback */
    assert_true(sendfiles >= 2);
    end(h, c);
}

static void a_file_that_sendfile_cannot_send_is_read(void **state)
{
    static const int errors[] = {EINVAL, ENOSYS, EOPNOTSUPP};
    struct host *h = file_host(state);
    struct client *c = client_open(h);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        sendfile_error = errors[i];
        forget_calls();
        assert_int_equal(client_get(c, "/large.bin"), 200);
        assert_large(c);
        assert_int_equal(sendfiles, 1); /* not tried again */
        assert_in_range(reads, LARGE / 65536, LARGE / 60000);
        client_request(c, "GET", "/large.bin", "Range: bytes=0-9,100000-2000000,-5\r\n");
        assert_int_equal(client_answer(c), 206);
    }
    end(h, c);
}

static void small_steps_of_sendfile_are_enough(void **state)
{
    struct host *h = file_host(state);
    struct client *c = client_open(h);
    sendfile_most = 50001;
    assert_int_equal(client_get(c, "/large.bin"), 200);
    assert_large(c);
    end(h, c);
}

static void a_small_file_is_read_to_its_end(void **state)
{
    struct host *h = file_host(state);
    struct client *c = client_open(h);
    read_most = 2;
    assert_int_equal(client_get(c, "/small.txt"), 200);
    assert_body(c, "small");
    end(h, c);
}

/* Nothing has been promised yet. */
static void a_file_that_cannot_be_read_is_a_500(void **state)
{
    struct host *h = file_host(state);
    struct client *c = client_open(h);
    forget_calls();
    read_most = -1;
    assert_int_equal(client_get(c, "/small.txt"), 500);
    assert_int_equal(client_get(c, "/large.bin"), 500);
    assert_int_equal(opens, closes);
    read_most = 0;
    assert_int_equal(client_get(c, "/small.txt"), 200);
    end(h, c);
}

static void an_error_of_the_disk_ends_the_connection(void **state)
{
    static const int errors[] = {EIO, EBADF};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct host *h = file_host(state);
        struct client *c = client_open(h);
        sendfile_error = errors[i];
        client_request(c, "GET", "/large.bin", "");
        client_wait_end(c);
        assert_true(c->len < LARGE);
        end(h, c);
    }
}

/* Whatever is refused: the file is closed, and the server goes on. */
static void without_memory_no_file_stays_open(void **state)
{
    static const char *const fields[] = {"", "Range: bytes=0-0,1000-1000,5000-900000\r\n"};
    struct host *h = file_host(state);
    for (int kind = 0; kind < 2; kind++) {
        int refused = 0;
        for (int n = 1; n <= 6; n++) {
            struct client *c = client_open(h);
            assert_int_equal(client_get(c, "/small.txt"), 200);
            forget_calls();
            failing_malloc = n;
            client_request(c, "GET", "/large.bin", fields[kind]);
            int status = client_read(c, false);
            refused += status != 200 && status != 206;
            failing_malloc = 0;
            client_close(c);
            WAIT(h, h->opens == h->closes);
            assert_int_equal(opens, 1);
            WAIT(h, closes >= 2); /* the file, and the connection */
        }
        assert_true(refused > 0);
    }
    struct client *c = client_open(h);
    assert_int_equal(client_get(c, "/large.bin"), 200);
    end(h, c);
}

static const struct host_test tests[] = {
    HOST_TEST_IN(a_small_file_costs_four_calls_and_one_send, IN_INLINE | IN_THREADS),
    HOST_TEST_IN(small_files_in_a_pipeline_leave_in_one_send, IN_INLINE | IN_THREADS),
    HOST_TEST_IN(a_large_file_is_a_head_and_sendfile, IN_TCP),
    HOST_TEST(a_file_that_sendfile_cannot_send_is_read),
    HOST_TEST_IN(small_steps_of_sendfile_are_enough, IN_TCP),
    HOST_TEST_IN(a_small_file_is_read_to_its_end, IN_TCP),
    HOST_TEST_IN(a_file_that_cannot_be_read_is_a_500, IN_TCP),
    HOST_TEST(an_error_of_the_disk_ends_the_connection),
    HOST_TEST_IN(without_memory_no_file_stays_open, IN_INLINE | IN_AWAY),
};

int main(int argc, char **argv)
{
    folder_make();
    uint8_t *large = pattern(LARGE);
    folder_write("large.bin", large, LARGE);
    folder_text("small.txt", "small");
    free(large);
    return host_run_tests(__FILE__, tests, sizeof tests / sizeof *tests, argc, argv);
}
