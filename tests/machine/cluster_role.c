/* SPDX-License-Identifier: ISC */
/* The cluster role: front/cluster as it is, but for its connections (network.c). */
#include <event2/event.h>

#include "base/clock.h"
#include "front/cluster/cluster.h"
#include "tests/machine/events.h"
#include "tests/machine/network.h"
#include "tests/machine/role.h"

struct event_base *event_base_new(void) {
	return events_new();
}

int event_base_loopbreak(struct event_base *base) {
	(void)base;
	world_fail("cluster", "the role ends");
}

int event_base_dispatch(struct event_base *base) {
	unsigned node = process_current()->node;

	for (;;) {
		while (network_deliver())
			;
		events_fire_timers(base);
		while (network_deliver())
			;
		fiber_sleep(nodes_world_ns(node, events_next_ns(base)));
	}
}

void cluster_serve(struct engine *engine) {
	static const struct cluster_setup setup = { .password = "" };
	struct diag diag;

	(void)cluster_run(engine, &setup, &diag);
	world_fail("cluster", "%s", diag.text);
}

void cluster_main(struct role *role) {
	cluster_serve(role->engine);
}
