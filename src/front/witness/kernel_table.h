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
#include "engine/session/witness.h"
#include "wire/link/inet_diag.h"

struct kernel_table;

/* Takes over `fds`.  0, or -1 with *diag. */
int kernel_table_open(struct kernel_table **table, const int *fds,
    unsigned count, struct diag *diag);
void kernel_table_close(struct kernel_table **table);

/* All connections, of all namespaces, whose local port is one of ports->local
 * (inbound) or, else, whose remote port is one of ports->remote (outbound).
 * Announced ends are chosen by the same ports from then on.  *list is the
 * table's own until the next call.  -1 with *diag: not all could be read.
 *
 * The answer, and what follows from it, is in proportion to these connections.
 * To find them the kernel walks its hash table of all connections: that is in
 * proportion to the table's size (fixed at boot, shared by all namespaces; a
 * nanosecond a bucket) and to all sockets of the host (some hundred nanoseconds
 * each, as against a microsecond for each connection told). */
int kernel_table_dump(struct kernel_table *table,
    const struct inet_diag_ports *ports, struct connection **list,
    size_t *count, struct diag *diag);

/* As witness_calls.lookup; within 200 ms for each namespace. `context` is the
 * table.  One exact question costs the same however many connections there are.
 * Without the server half (or on a link-local address) the kernel's whole table
 * is walked: when that took a twentieth of the time, LOOKUP_UNKNOWN for a while. */
enum lookup_result kernel_table_lookup(void *context,
    const struct connection *which, struct connection *found);

/* As witness_calls.sockets: of all namespaces, within a second.  The list is the table's
 * own until the next call. */
bool kernel_table_sockets(void *context, const uint32_t **list, size_t *count);

/* As witness_calls.socket. */
enum lookup_result kernel_table_socket(void *context, uint32_t inode, uint32_t *peer);

/* Takes in what a socket has to tell; to be called when it is readable. */
void kernel_table_read(struct kernel_table *table, int fd);

/* The next announced end.  Those of ports that the last dump did not ask for were
 * dropped, but for a few after each dump, as a service port may be new.  The other
 * functions take announcements in, too: ask after each. */
bool kernel_table_next_end(struct kernel_table *table, struct connection *which);

/* Were announcements lost since the last call? */
bool kernel_table_lost(struct kernel_table *table);

#endif
