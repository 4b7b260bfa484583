/* SPDX-License-Identifier: ISC */
/*
 * Other machines that share limits with the whole one (which is node 0), and what they share them
 * by.  Each has a segment, a clock that goes wrong, a cluster role as node 0 has, workers that
 * open and close sessions, and nothing else.
 */
#ifndef TESTS_MACHINE_NODES_H
#define TESTS_MACHINE_NODES_H

#include "policy/window/share.h"
#include "tests/machine/world.h"

#define NODES_MAX	(1 + NODES_OTHERS_MAX)
#define NODES_LEASE	"2s"

/* What is added to the configuration of each. */
void nodes_settings(unsigned node, const char *directory, const char *mtas, char *out,
    size_t size);
extern const char nodes_classes[];
/* Compiled for the others, before any seed. */
void nodes_configure(unsigned node, const struct generation *generation);
const struct generation *nodes_configured(unsigned node);

void nodes_begin(const struct plan *plan);
/* Node 0 has another segment; `anew`: without what it was leased. */
void nodes_main_is(struct segment *segment, const struct generation *generation, bool anew);
/* No more trouble: from now on they want all there is, then one of them, then nobody. */
void nodes_calm(void);
/* Runs until that was tried. */
void nodes_finish(void);
void nodes_member_died(struct process *process);

/* CLOCK_BOOTTIME of who asks: of the process, or of the machine that the world is busy with. */
int64_t nodes_clock_ns(void);
int64_t nodes_clock_of(unsigned node);
/* When that clock will show it. */
int64_t nodes_world_ns(unsigned node, int64_t clock_ns);

/* Sessions of a class that a node has let in, and that are not over. */
uint32_t nodes_open(unsigned node, uint32_t class_index);
struct segment *nodes_segment(unsigned node);
const struct generation *nodes_generation(unsigned node);

/* --- cluster_role.c ------------------------------------------------------------------ */

struct engine;
/* The loop of front/cluster/cluster.c, of the process that runs. */
void cluster_serve(struct engine *engine) __attribute__((noreturn));

/* --- check_nodes.c -------------------------------------------------------------------- */

void check_nodes_begin(const struct plan *plan);
/* A node let a session in: by a question that it read at that time of its clock. */
void check_nodes_admitted(unsigned node, uint32_t class_index, bool inbound, int64_t asked_ns);
/* At any time; the second in the world, now and then. */
void check_nodes(void);
void check_nodes_tick(void);
/* Its segment was made anew, or its state is older than what it has open. */
void check_nodes_lost(unsigned node);
/* All want all they can have, and nothing stands in their way any more. */
void check_nodes_full(void);
/* Only this one wants anything. */
void check_nodes_one(unsigned node);
/* The most that is open is looked at from now on. */
void check_nodes_watch(void);
/* Nothing is open any more. */
void check_nodes_end(void);

#endif
