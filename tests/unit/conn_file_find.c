/* Which file is meant: with the kernel's help, without it, and when it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "conn/file_find.h"
#include "support/folder.h"

/* ---- openat2 as it is told to be */

static bool old_kernel;  /* there is none */
static int fail_with;    /* this error, */
static int fail_times;   /* so often */
static unsigned opened;  /* calls */
static bool fstat_fails; /* with EIO */
static bool no_openat2;  /* valgrind does not know it, nor do some sandboxes */

long __real_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long),
         d = va_arg(list, long);
    va_end(list);
    opened += number == SYS_openat2;
    if (number == SYS_openat2 && fail_times > 0) {
        fail_times--;
        errno = fail_with;
        return -1;
    }
    if (number == SYS_openat2 && old_kernel) {
        errno = ENOSYS;
        return -1;
    }
    return __real_syscall(number, a, b, c, d);
}

int __real_fstat(int fd, struct stat *st);

int __wrap_fstat(int fd, struct stat *st)
{
    if (!fstat_fails)
        return __real_fstat(fd, st);
    errno = EIO;
    return -1;
}

static struct ioh_file_options options;
static struct ioh__codings codings;
static struct ioh__found found;

static int set_up(void **state)
{
    (void)state;
    options = (struct ioh_file_options)IOH_FILE_OPTIONS_INIT;
    memset(&codings, 0, sizeof codings);
    old_kernel = fstat_fails = false;
    fail_times = 0;
    opened = 0;
    return 0;
}

static void make_files(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    folder_make();
    folder_text("a.txt", "1");
    folder_text("a.txt.gz", "22");
    folder_text("a.txt.zst", "333");
    folder_text("gone.txt.gz", "4444");
    mkdirat(dir, "sub", 0755);
    mkdirat(dir, "sub/deep", 0755);
    mkdirat(dir, "sub.gz", 0755);
    mkdirat(dir, "a.txt.br", 0755); /* no file */
    folder_text("sub/index.html", "55555");
    folder_text("sub/deep/b", "666666");
    if (symlinkat("sub/deep/b", dir, "link") || symlinkat("../a.txt", dir, "sub/up") ||
        symlinkat("../../../etc/passwd", dir, "sub/out") || symlinkat("sub", dir, "way") ||
        symlinkat(folder, dir, "absolute") || symlinkat("/proc/self/root", dir, "magic"))
        abort();
    snprintf(un.sun_path, sizeof un.sun_path, "%.60s/socket", folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (mkfifoat(dir, "fifo", 0644) || fd < 0 || bind(fd, (struct sockaddr *)&un, sizeof un))
        abort();
    close(fd);
}

/* The status; of 200 the file must have that size. */
static void assert_found(const char *path, int status, off_t size)
{
    int have = ioh__file_find(dir, path, &options, &codings, &found);
    if (have == 200)
        close(found.fd);
    if (have != status || (status == 200 && found.st.st_size != size))
        fail_msg("%s: %d, not %d; %d bytes", path, have, status, (int)found.st.st_size);
}

static void check_paths(void)
{
    assert_found("a.txt", 200, 1);
    assert_found("/a.txt", 200, 1);
    assert_found("//a.txt", 200, 1);
    assert_string_equal(found.name, "a.txt");
    assert_found("sub/deep/b", 200, 6);
    assert_found("sub//deep///b", 200, 6);
    assert_found("sub/", 200, 5);
    assert_string_equal(found.name, "sub/index.html");
    assert_found("sub", 301, 0);
    assert_found("", 301, 0);
    assert_found("/", 404, 0);
    assert_found("sub/deep/", 404, 0);
    assert_found("a.txt/", 404, 0);
    assert_found("a.txt/b", 404, 0);
    assert_found("nothing", 404, 0);
    assert_found("nothing/at/all", 404, 0);
    assert_found("../tmp", 404, 0);
    assert_found("sub/../a.txt", 404, 0);
    assert_found("sub/out", 404, 0);
    assert_found("absolute/a.txt", 404, 0);
    assert_found("magic/etc/passwd", 404, 0);
    assert_found("fifo", 404, 0);
    assert_found("socket", 404, 0);
}

static void files_beneath_are_found_and_no_others(void **state)
{
    (void)state;
    check_paths();
    assert_found("link", no_openat2 ? 404 : 200, 6);
    assert_found("sub/up", no_openat2 ? 404 : 200, 1);
    assert_found("way/deep/b", no_openat2 ? 404 : 200, 6);
}

/* Then without links: following them safely is what the kernel is needed for. */
static void an_old_kernel_finds_the_same_without_links(void **state)
{
    (void)state;
    old_kernel = true;
    check_paths();
    assert_found("link", 404, 0);
    assert_found("sub/up", 404, 0);
    assert_found("way/deep/b", 404, 0);
    char name[300];
    memset(name, 'x', sizeof name);
    memcpy(name + 270, "/a.txt", 7);
    assert_found(name, 404, 0);
}

static void links_are_refused_or_followed_as_told(void **state)
{
    (void)state;
    options.symlinks = IOH_SYMLINKS_NONE;
    check_paths();
    assert_found("link", 404, 0);
    assert_found("way/deep/b", 404, 0);
    options.symlinks = IOH_SYMLINKS_ALL;
    assert_found("link", 200, 6);
    assert_found("way/", 200, 5);
    assert_found("absolute/a.txt", 200, 1);
    assert_found("../tmp", 404, 0);
}

static void another_index_or_none(void **state)
{
    (void)state;
    options.index = "deep/b";
    assert_found("sub/", 200, 6);
    assert_found("sub", 301, 0);
    options.index = "";
    assert_found("sub/", 404, 0);
    assert_found("sub", 404, 0);
    assert_found("", 404, 0);
    assert_found("a.txt", 200, 1);
}

static void names_that_are_too_long_are_not_found(void **state)
{
    static char path[IOH__FILE_NAME_MAX + 100];
    (void)state;
    options.precompressed = IOH_FILE_GZIP;
    codings.q[IOH__CODING_GZIP] = 1000;
    for (size_t len = IOH__FILE_NAME_MAX - 20; len < IOH__FILE_NAME_MAX + 20; len++) {
        memset(path, '/', len);
        path[len] = 0;
        assert_found(path, 404, 0);
        memset(path, 'x', len);
        assert_found(path, 404, 0);
    }
}

static void siblings_are_what_the_client_likes_best(void **state)
{
    (void)state;
    options.precompressed = IOH_FILE_BR | IOH_FILE_ZSTD | IOH_FILE_GZIP;
    codings.q[IOH__CODING_IDENTITY] = 1;
    assert_found("a.txt", 200, 1);
    assert_int_equal(opened, 1);
    codings.q[IOH__CODING_BR] = codings.q[IOH__CODING_GZIP] = codings.q[IOH__CODING_ZSTD] = 1000;
    assert_found("a.txt", 200, 3); /* .br is a directory */
    assert_int_equal(found.coding, IOH__CODING_ZSTD);
    assert_string_equal(found.name, "a.txt");
    options.precompressed = IOH_FILE_GZIP;
    assert_found("a.txt", 200, 2);
    assert_int_equal(found.coding, IOH__CODING_GZIP);
    assert_found("gone.txt", 200, 4);
    assert_found("sub", 301, 0);
    assert_found("sub/", 200, 5);
    assert_int_equal(found.coding, IOH__CODING_IDENTITY);
    codings.q[IOH__CODING_IDENTITY] = 1001;
    assert_found("a.txt", 200, 1);
    assert_found("gone.txt", 404, 0);
}

static void the_kernels_errors_have_their_status(void **state)
{
    static const struct {
        int error, status;
    } cases[] = {
        {ENOENT, 404}, {ENOTDIR, 404}, {ELOOP, 404},  {EXDEV, 404},  {ENAMETOOLONG, 404},
        {ENXIO, 404},  {ENODEV, 404},  {EACCES, 403}, {EPERM, 403},  {EMFILE, 503},
        {ENFILE, 503}, {ENOMEM, 503},  {EIO, 500},    {EINVAL, 500}, {EOVERFLOW, 500},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fail_with = cases[i].error;
        fail_times = 1;
        assert_found("a.txt", cases[i].status, 0);
    }
    fstat_fails = true;
    assert_found("a.txt", 500, 0);
}

/* openat2(2): EAGAIN when a rename anywhere could have led out. */
static void what_was_upset_by_a_rename_is_tried_again(void **state)
{
    (void)state;
    fail_with = EAGAIN;
    fail_times = 2;
    assert_found("a.txt", 200, 1);
    fail_times = 1000;
    opened = 0;
    assert_found("a.txt", 503, 0);
    assert_in_range(opened, 2, 10);
    fail_with = EINTR;
    fail_times = 1;
    assert_found("a.txt", 200, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(files_beneath_are_found_and_no_others, set_up),
        cmocka_unit_test_setup(an_old_kernel_finds_the_same_without_links, set_up),
        cmocka_unit_test_setup(links_are_refused_or_followed_as_told, set_up),
        cmocka_unit_test_setup(another_index_or_none, set_up),
        cmocka_unit_test_setup(names_that_are_too_long_are_not_found, set_up),
        cmocka_unit_test_setup(siblings_are_what_the_client_likes_best, set_up),
        cmocka_unit_test_setup(the_kernels_errors_have_their_status, set_up),
        cmocka_unit_test_setup(what_was_upset_by_a_rename_is_tried_again, set_up),
    };
    no_openat2 = __real_syscall(SYS_openat2, -1, "", NULL, 0L) < 0 && errno == ENOSYS;
    make_files();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
