/* Which threads a server makes: by its options, by the environment, by named pools. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iohandler/iohandler.h>

#include "base/cpu.h"
#include "server/server.h"

static char error[IOH__ERROR_TEXT];
static struct ioh_options given, got;

/* What the environment may say. */
static const char *const variables[] = {"IOH_TYPE",          "IOH_EXEC",
                                        "IOH_EPOLL_THREADS", "IOH_WORK_OP_THREADS",
                                        "IOH_POOL_THREADS",  "IOH_POOL_QUEUE"};
enum { VARIABLES = sizeof variables / sizeof *variables };

static int forget(void **state)
{
    (void)state;
    error[0] = '\0';
    given = (struct ioh_options)IOH_OPTIONS_INIT;
    for (int i = 0; i < VARIABLES; i++)
        unsetenv(variables[i]);
    return 0;
}

static int read_given(void)
{
    return ioh__options_read(&got, &given, error);
}

/* ---- type and exec */

static const struct {
    const char *what;
    int32_t type, exec;
    uint32_t epoll, work, pool;
    int32_t exec_got;
    uint32_t epoll_got, work_got, pool_got;
} threads[] = {
    {"auto", IOH_EPOLL, IOH_EXEC_AUTO, 3, 0, 0, IOH_EXEC_AUTO, 3, 0, 24},
    {"auto, small pool", IOH_EPOLL, IOH_EXEC_AUTO, 3, 0, 1, IOH_EXEC_AUTO, 3, 0, 1},
    {"inline", IOH_EPOLL, IOH_EXEC_INLINE, 3, 0, 0, IOH_EXEC_INLINE, 3, 0, 0},
    {"pool", IOH_EPOLL, IOH_EXEC_POOL, 2, 0, 0, IOH_EXEC_POOL, 2, 0, 16},
    {"affine", IOH_EPOLL, IOH_EXEC_AFFINE, 5, 0, 0, IOH_EXEC_AFFINE, 5, 5, 0},
    {"affine, told how many", IOH_EPOLL, IOH_EXEC_AFFINE, 5, 7, 0, IOH_EXEC_AFFINE, 5, 7, 0},
    {"work threads alone", IOH_EPOLL, 0, 2, 6, 0, IOH_EXEC_AFFINE, 2, 6, 0},
    {"both, for on_classify", IOH_EPOLL, 0, 2, 6, 4, IOH_EXEC_AFFINE, 2, 6, 4},
    {"inline with a pool", IOH_EPOLL, IOH_EXEC_INLINE, 1, 2, 3, IOH_EXEC_INLINE, 1, 2, 3},
    {"pool with work threads", IOH_EPOLL, IOH_EXEC_POOL, 1, 2, 0, IOH_EXEC_POOL, 1, 2, 8},
    {"a thread each", IOH_THREADS, 0, 0, 0, 0, IOH_EXEC_AUTO, 1, 0, 0},
    {"a thread each, whatever else", IOH_THREADS, IOH_EXEC_POOL, 9, 9, 9, IOH_EXEC_POOL, 1, 0, 0},
};

static void numbers_of_threads_follow_from_type_and_exec(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        given.type = threads[i].type;
        given.exec = threads[i].exec;
        given.epoll_threads = threads[i].epoll;
        given.work_op_threads = threads[i].work;
        given.pool_threads = threads[i].pool;
        assert_int_equal(read_given(), 0);
        if (got.exec != threads[i].exec_got || got.pool_threads != threads[i].pool_got)
            print_error("%s\n", threads[i].what);
        assert_int_equal(got.type, threads[i].type);
        assert_int_equal(got.exec, threads[i].exec_got);
        assert_int_equal(got.epoll_threads, threads[i].epoll_got);
        assert_int_equal(got.work_op_threads, threads[i].work_got);
        assert_int_equal(got.pool_threads, threads[i].pool_got);
    }
}

/* What ioh_server_threads() tells of them: and AUTO's watcher. */
static void a_server_makes_the_threads_that_its_options_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        struct ioh_handler handler = IOH_HANDLER_INIT;
        ioh_server *server = NULL;
        given.type = threads[i].type;
        given.exec = threads[i].exec;
        given.epoll_threads = threads[i].epoll;
        given.work_op_threads = threads[i].work;
        given.pool_threads = threads[i].pool;
        given.keep_fd_limit = 1;
        assert_int_equal(ioh_server_create(&server, &handler, &given, NULL), 0);
        assert_int_equal(ioh_server_start(server), 0);
        bool watcher = given.type == IOH_EPOLL && threads[i].exec_got == IOH_EXEC_AUTO;
        assert_int_equal(ioh_server_threads(server), threads[i].epoll_got + threads[i].work_got +
                                                         threads[i].pool_got + (watcher ? 1u : 0u));
        assert_int_equal(ioh_server_stop(server, 0), 0);
        ioh_server_destroy(server);
    }
}

/* ---- named pools */

static void a_pool_has_a_name_threads_and_a_queue_or_is_not_made(void **state)
{
    (void)state;
    given.exec = IOH_EXEC_INLINE;
    given.epoll_threads = 1;
    ioh_server *server = NULL;
    struct ioh_handler handler = IOH_HANDLER_INIT;
    assert_int_equal(ioh_server_create(&server, &handler, &given, NULL), 0);
    assert_null(ioh_pool_create(server, NULL, 1, 0));
    assert_null(ioh_pool_create(server, "", 1, 0));
    assert_null(ioh_pool_create(server, "elevenbytes", 1, 0));
    assert_null(ioh_pool_create(server, "none", 0, 0));
    assert_null(ioh_pool_create(server, "many", 10001, 0));
    assert_non_null(ioh_pool_create(server, "tenbytes10", 2, 0));
    assert_non_null(ioh_pool_create(server, "other", 3, 1));
    assert_int_equal(ioh_server_start(server), 0);
    assert_int_equal(ioh_server_threads(server), 1 + 2 + 3);
    assert_null(ioh_pool_create(server, "late", 1, 0));
    assert_int_equal(ioh_server_stop(server, 0), 0);
    assert_null(ioh_pool_create(server, "later", 1, 0));
    ioh_server_destroy(server);
}

/* ---- the environment's word */

static void environment_overrides_the_host(void **state)
{
    (void)state;
    given.type = IOH_THREADS;
    given.exec = IOH_EXEC_INLINE;
    given.epoll_threads = 5;
    given.work_op_threads = 6;
    given.pool_threads = 7;
    given.pool_queue = 8;
    setenv("IOH_TYPE", "epoll", 1);
    setenv("IOH_EXEC", "pool", 1);
    setenv("IOH_EPOLL_THREADS", "2", 1);
    setenv("IOH_WORK_OP_THREADS", "0", 1);
    setenv("IOH_POOL_THREADS", "33", 1);
    setenv("IOH_POOL_QUEUE", "4294967295", 1);
    assert_int_equal(read_given(), 0);
    assert_int_equal(got.type, IOH_EPOLL);
    assert_int_equal(got.exec, IOH_EXEC_POOL);
    assert_int_equal(got.epoll_threads, 2);
    assert_int_equal(got.work_op_threads, 0);
    assert_int_equal(got.pool_threads, 33);
    assert_int_equal(got.pool_queue, UINT32_MAX);
    assert_int_equal(ioh__options_read(&got, NULL, error), 0); /* also over no options at all */
    assert_int_equal(got.pool_threads, 33);
}

static void each_choice_has_its_word_in_the_environment(void **state)
{
    (void)state;
    static const struct {
        const char *name, *word;
        int value;
    } words[] = {
        {"IOH_TYPE", "epoll", IOH_EPOLL},    {"IOH_TYPE", "threads", IOH_THREADS},
        {"IOH_EXEC", "auto", IOH_EXEC_AUTO}, {"IOH_EXEC", "inline", IOH_EXEC_INLINE},
        {"IOH_EXEC", "pool", IOH_EXEC_POOL}, {"IOH_EXEC", "affine", IOH_EXEC_AFFINE},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        forget(state);
        given.exec = IOH_EXEC_INLINE;
        setenv(words[i].name, words[i].word, 1);
        assert_int_equal(read_given(), 0);
        bool type = strcmp(words[i].name, "IOH_TYPE") == 0;
        assert_int_equal(type ? got.type : got.exec, words[i].value);
    }
}

/* Zero means the default, as in the struct; and what follows from a number follows here too. */
static void what_the_environment_says_is_completed_as_the_hosts_word_would_be(void **state)
{
    (void)state;
    given.epoll_threads = 5;
    setenv("IOH_EPOLL_THREADS", "0", 1);
    assert_int_equal(read_given(), 0);
    assert_int_equal(got.epoll_threads, ioh__cpu_count());
    setenv("IOH_EPOLL_THREADS", "3", 1);
    setenv("IOH_WORK_OP_THREADS", "4", 1);
    assert_int_equal(read_given(), 0);
    assert_int_equal(got.exec, IOH_EXEC_AFFINE);
    assert_int_equal(got.work_op_threads, 4);
    assert_int_equal(got.pool_threads, 0);
}

static void a_bad_word_in_the_environment_is_an_error_that_names_it(void **state)
{
    (void)state;
    static const char *const words[] = {
        "",   " ",  "x",  "Epoll", "AUTO", "-1",         "+1",
        " 1", "1 ", "1x", "0x10",  "1.5",  "4294967296", "99999999999999999999"};
    char text[100];
    for (int i = 0; i < VARIABLES; i++) {
        for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
            forget(state);
            setenv(variables[i], words[k], 1);
            if (read_given() != IOH_EINVAL)
                print_error("%s='%s'\n", variables[i], words[k]);
            assert_int_equal(read_given(), IOH_EINVAL);
            snprintf(text, sizeof text, "%s=%s", variables[i], words[k]);
            assert_non_null(strstr(error, text));
        }
    }
    forget(state);
    setenv("IOH_TYPE", "0", 1); /* words, not numbers */
    assert_int_equal(read_given(), IOH_EINVAL);
    forget(state);
    setenv("IOH_EXEC", "2", 1);
    assert_int_equal(read_given(), IOH_EINVAL);
}

static void a_number_out_of_range_in_the_environment_is_refused_as_the_hosts(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *option;
    } cases[] = {{"IOH_EPOLL_THREADS", "257", "options.epoll_threads: 257"},
                 {"IOH_WORK_OP_THREADS", "10001", "options.work_op_threads: 10001"},
                 {"IOH_POOL_THREADS", "4294967295", "options.pool_threads: 4294967295"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        forget(state);
        setenv(cases[i].name, cases[i].value, 1);
        assert_int_equal(read_given(), IOH_EINVAL);
        assert_non_null(strstr(error, cases[i].option));
    }
}

static void no_environment_does_not_look_at_it(void **state)
{
    (void)state;
    for (int i = 0; i < VARIABLES; i++)
        setenv(variables[i], "nonsense", 1);
    given.no_environment = 1;
    assert_int_equal(read_given(), 0);
    assert_int_equal(got.type, IOH_EPOLL);
    assert_int_equal(got.pool_queue, 1024);
    given.no_environment = 2; /* out of range; but the host wants none of it */
    assert_int_equal(read_given(), IOH_EINVAL);
    assert_non_null(strstr(error, "options.no_environment: 2"));
}

static void a_bad_environment_makes_create_fail_with_its_text(void **state)
{
    (void)state;
    struct ioh_handler handler = IOH_HANDLER_INIT;
    ioh_server *server = NULL;
    setenv("IOH_EXEC", "fast", 1);
    assert_int_equal(ioh_server_create(&server, &handler, NULL, NULL), IOH_EINVAL);
    assert_non_null(server);
    assert_non_null(strstr(ioh_server_error(server), "IOH_EXEC=fast"));
    assert_int_equal(ioh_server_start(server), IOH_ESTATE);
    assert_int_equal(ioh_server_fd(server), IOH_ESTATE);
    assert_null(ioh_pool_create(server, "p", 1, 0));
    ioh_server_destroy(server);
}

#define test_of(test) cmocka_unit_test_setup_teardown(test, forget, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_of(numbers_of_threads_follow_from_type_and_exec),
        test_of(a_server_makes_the_threads_that_its_options_say),
        test_of(a_pool_has_a_name_threads_and_a_queue_or_is_not_made),
        test_of(environment_overrides_the_host),
        test_of(each_choice_has_its_word_in_the_environment),
        test_of(what_the_environment_says_is_completed_as_the_hosts_word_would_be),
        test_of(a_bad_word_in_the_environment_is_an_error_that_names_it),
        test_of(a_number_out_of_range_in_the_environment_is_refused_as_the_hosts),
        test_of(no_environment_does_not_look_at_it),
        test_of(a_bad_environment_makes_create_fail_with_its_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
