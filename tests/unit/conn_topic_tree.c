/* The tree of topics: which names are valid, who is found, what is freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <iohandler/topic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn/topic_tree.h"

static bool fail_allocations;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return fail_allocations ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return fail_allocations ? NULL : __real_calloc(count, size);
}

static void names_are_levels_and_only_who_subscribes_leaves_them_open(void **state)
{
    static const char *const plain[] = {"a", "a/b", "/", "//", "a//b", "/a", "a/", "a b/\xff", "."};
    static const char *const open[] = {"+", "#", "+/+", "a/+", "a/+/b", "a/#", "/#", "+/#", "/+/"};
    static const char *const bad[] = {"",      "a+", "+a",   "a/b+",   "#/a", "a#",
                                      "a/#/b", "##", "a/#b", "a/++/b", "#/",  "a/+b/c"};
    char longest[IOH_TOPIC_MAX + 2];
    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        assert_true(ioh__topic_valid(plain[i], false));
        assert_true(ioh__topic_valid(plain[i], true));
    }
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        assert_false(ioh__topic_valid(open[i], false));
        assert_true(ioh__topic_valid(open[i], true));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(ioh__topic_valid(bad[i], false));
        assert_false(ioh__topic_valid(bad[i], true));
    }
    assert_false(ioh__topic_valid(NULL, true));
    memset(longest, '/', sizeof longest);
    longest[IOH_TOPIC_MAX + 1] = 0;
    assert_false(ioh__topic_valid(longest, true));
    longest[IOH_TOPIC_MAX] = 0;
    assert_true(ioh__topic_valid(longest, true));
}

/* ---- matching */

static struct ioh__topic root;
static char found[4096];

static struct ioh__topic *subscribe(const char *name)
{
    struct ioh__topic *t = ioh__topic_get(&root, name, 2);
    assert_non_null(t);
    t->subscribers++;
    return t;
}

static void unsubscribe(struct ioh__topic *t)
{
    t->subscribers--;
    ioh__topic_put(t);
}

static void full_name(const struct ioh__topic *t, char name[IOH_TOPIC_MAX + 1])
{
    char rest[IOH_TOPIC_MAX + 1];
    for (const struct ioh__topic *at = t; at->parent; at = at->parent) {
        int n = at == t ? snprintf(name, sizeof rest, "%.*s", (int)at->len, at->level)
                        : snprintf(name, sizeof rest, "%.*s/%s", (int)at->len, at->level, rest);
        assert_true(n >= 0 && (size_t)n < sizeof rest);
        memcpy(rest, name, sizeof rest);
    }
}

/* "[a/+]" for each that is found */
static void note(struct ioh__topic *t, void *arg)
{
    char name[IOH_TOPIC_MAX + 1];
    (void)arg;
    full_name(t, name);
    strcat(strcat(strcat(found, "["), name), "]");
}

static const char *match(const char *name)
{
    *found = 0;
    ioh__topic_match(&root, name, note, NULL);
    return found;
}

static void names_match_as_in_mqtt(void **state)
{
    static const char *const names[] = {"a",   "a/b", "a/+", "+/b", "+/+",   "#",
                                        "a/#", "+",   "/",   "/+",  "a/b/#", "a/b/c"};
    struct ioh__topic *topics[sizeof names / sizeof *names];
    (void)state;
    assert_string_equal(match("a"), "");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        topics[i] = subscribe(names[i]);
    assert_string_equal(match("a"), "[a][a/#][+][#]");
    assert_string_equal(match("b"), "[+][#]");
    assert_string_equal(match("a/b"), "[a/b][a/b/#][a/+][a/#][+/b][+/+][#]");
    assert_string_equal(match("a/b/c"), "[a/b/c][a/b/#][a/#][#]");
    assert_string_equal(match("a/c"), "[a/+][a/#][+/+][#]");
    assert_string_equal(match("c/b"), "[+/b][+/+][#]");
    assert_string_equal(match("/"), "[/][/+][+/+][#]");
    assert_string_equal(match("/x"), "[/+][+/+][#]");
    assert_string_equal(match("x//y"), "[#]");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_ptr_equal(ioh__topic_find(&root, names[i]), topics[i]);
    assert_null(ioh__topic_find(&root, "a/b/c/d"));
    assert_null(ioh__topic_find(&root, "+/c"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsubscribe(topics[i]);
    assert_string_equal(match("a/b"), "");
    assert_int_equal(root.refs, 0);
}

static void topics_live_as_long_as_something_refers_to_them(void **state)
{
    (void)state;
    struct ioh__topic *deep = subscribe("a/b/c/d");
    struct ioh__topic *again = ioh__topic_get(&root, "a/b/c/d", 2);
    assert_ptr_equal(deep, again);
    struct ioh__topic *above = ioh__topic_find(&root, "a/b");
    assert_non_null(above);
    assert_null(above->audiences); /* nobody ever subscribed there */
    assert_string_equal(match("a/b"), "");
    struct ioh__topic *beside = subscribe("a/b/x");
    unsubscribe(deep);
    assert_string_equal(match("a/b/c/d"), ""); /* held, but without subscribers */
    ioh__topic_put(again);
    assert_null(ioh__topic_find(&root, "a/b/c"));
    assert_ptr_equal(ioh__topic_find(&root, "a/b"), above);
    unsubscribe(beside);
    assert_null(ioh__topic_find(&root, "a"));
    assert_int_equal(root.refs, 0);
}

static void many_children_are_told_apart(void **state)
{
    static struct ioh__topic *topics[2000];
    char name[32], expected[40];
    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "user/%u/in", i);
        topics[i] = subscribe(name);
    }
    for (unsigned i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "user/%u/in", i);
        snprintf(expected, sizeof expected, "[%s]", name);
        assert_string_equal(match(name), expected);
    }
    for (unsigned i = 0; i < 2000; i += 2)
        unsubscribe(topics[i]);
    assert_string_equal(match("user/1000/in"), "");
    assert_string_equal(match("user/1001/in"), "[user/1001/in]");
    for (unsigned i = 1; i < 2000; i += 2)
        unsubscribe(topics[i]);
    assert_int_equal(root.refs, 0);
}

/* As the words of MQTT 4.7 say it, without a tree. */
static bool matches(const char *filter, const char *name)
{
    for (;;) {
        size_t f = strcspn(filter, "/"), n = strcspn(name, "/");
        if (f == 1 && *filter == '#')
            return true;
        if (!(f == 1 && *filter == '+') && (f != n || memcmp(filter, name, n) != 0))
            return false;
        filter += f;
        name += n;
        if (!*filter || !*name)
            return *filter ? strcmp(filter, "/#") == 0 : !*name;
        filter++;
        name++;
    }
}

static uint32_t random_state = 1;

static uint32_t roll(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static void random_name(char *out, bool open)
{
    static const char *const levels[] = {"", "a", "b", "ab", "+", "+", "#"};
    uint32_t count = 1 + roll(4);
    *out = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *level = levels[roll(open ? (i + 1 == count ? 7 : 6) : 4)];
        strcat(strcat(out, i ? "/" : ""), level);
    }
    if (!*out)
        strcpy(out, "a");
}

static int found_count;
static bool found_all;

static void check_found(struct ioh__topic *t, void *arg)
{
    const char *name = arg;
    char full[IOH_TOPIC_MAX + 1];
    full_name(t, full);
    found_count++;
    found_all = found_all && matches(full, name);
}

static void the_tree_finds_what_the_rule_says(void **state)
{
    enum { FILTERS = 60 };
    static char filters[FILTERS][64];
    static struct ioh__topic *topics[FILTERS];
    (void)state;
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < FILTERS; i++) {
            random_name(filters[i], true);
            topics[i] = subscribe(filters[i]);
        }
        for (int k = 0; k < 30; k++) {
            char name[64];
            int wanted = 0;
            random_name(name, false);
            for (int i = 0; i < FILTERS; i++) {
                bool again = false;
                for (int j = 0; j < i; j++)
                    again = again || topics[j] == topics[i];
                wanted += !again && matches(filters[i], name);
            }
            found_count = 0;
            found_all = true;
            ioh__topic_match(&root, name, check_found, name);
            assert_true(found_all);
            assert_int_equal(found_count, wanted);
        }
        for (int i = 0; i < FILTERS; i++)
            unsubscribe(topics[(i * 7) % FILTERS]);
        assert_int_equal(root.refs, 0);
    }
}

static void without_memory_nothing_is_left(void **state)
{
    (void)state;
    fail_allocations = true;
    assert_null(ioh__topic_get(&root, "a/+/b", 2));
    fail_allocations = false;
    assert_int_equal(root.refs, 0);
    struct ioh__topic *t = subscribe("a/+");
    fail_allocations = true;
    assert_null(ioh__topic_get(&root, "a", 2)); /* it is there, but its audiences are not */
    assert_null(ioh__topic_get(&root, "a/+/b", 2));
    fail_allocations = false;
    assert_int_equal(t->refs, 1);
    unsubscribe(t);
    assert_int_equal(root.refs, 0);
    assert_null(root.others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_levels_and_only_who_subscribes_leaves_them_open),
        cmocka_unit_test(names_match_as_in_mqtt),
        cmocka_unit_test(topics_live_as_long_as_something_refers_to_them),
        cmocka_unit_test(many_children_are_told_apart),
        cmocka_unit_test(the_tree_finds_what_the_rule_says),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
