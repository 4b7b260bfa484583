/* SPDX-License-Identifier: ISC */
/*
 * The kernel's table of TCP connections, read over netlink sockets: one for each
 * network namespace, already bound and joined to the groups that announce ends.
 * Reads are short and blocking.  One thread.
 */
#ifndef FRONT_KERNEL_TABLE_H
#define FRONT_KERNEL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "engine/witness.h"

struct kernel_table;

/* Takes over `fds`.  0, or -1 with *diag. */
int kernel_table_open(struct kernel_table **table, const int *fds,
    unsigned count, struct diag *diag);
void kernel_table_close(struct kernel_table **table);

/* All connections, of all namespaces, on these service ports.  *list is the
 * table's own until the next call.  -1 with *diag: not all could be read. */
int kernel_table_dump(struct kernel_table *table, const uint16_t *ports,
    size_t port_count, struct connection **list, size_t *count,
    struct diag *diag);

/* As witness_calls.lookup; within 200 ms for each namespace. `context` is the
 * table. */
enum lookup_result kernel_table_lookup(void *context,
    const struct connection *which, struct connection *found);

/* Takes in what a socket has to tell; to be called when it is readable. */
void kernel_table_read(struct kernel_table *table, int fd);

/* The next announced end, of any connection of the host.  The other functions
 * take announcements in, too: ask after each. */
bool kernel_table_next_end(struct kernel_table *table, struct connection *which);

/* Were announcements lost since the last call? */
bool kernel_table_lost(struct kernel_table *table);

#endif
