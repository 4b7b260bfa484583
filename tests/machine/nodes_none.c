/* SPDX-License-Identifier: ISC */
/* Without a cluster the machine is alone. */
#include "tests/machine/nodes.h"
#include "tests/machine/role.h"

const struct generation *nodes_configured(unsigned node) {
	(void)node;
	return NULL;
}

void nodes_begin(const struct plan *plan) {
	(void)plan;
}

void nodes_main_is(struct segment *segment, const struct generation *generation, bool anew) {
	(void)segment, (void)generation, (void)anew;
}

void nodes_calm(void) {
}

void nodes_finish(void) {
}

void nodes_member_died(struct process *process) {
	(void)process;
}

int64_t nodes_clock_ns(void) {
	return fibers_now_ns();
}

void check_nodes_admitted(unsigned node, uint32_t class_index, bool inbound, int64_t asked_ns) {
	(void)node, (void)class_index, (void)inbound, (void)asked_ns;
}

void cluster_main(struct role *role) {
	(void)role;
	world_fail("cluster", "there is none");
}
