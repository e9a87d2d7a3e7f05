/* An intrusive, circular, doubly linked list. An unlinked node points to itself. */
#ifndef IOH_BASE_LIST_H
#define IOH_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct ioh__list {
    struct ioh__list *next, *prev;
};

/* The object that holds a list node (or any member) at ptr. */
#define ioh__container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void ioh__list_init(struct ioh__list *l)
{
    l->next = l->prev = l;
}

static inline bool ioh__list_empty(const struct ioh__list *l)
{
    return l->next == l;
}

static inline void ioh__list_append(struct ioh__list *head, struct ioh__list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void ioh__list_remove(struct ioh__list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    ioh__list_init(node);
}

#endif
