/* SPDX-License-Identifier: ISC */
/* What the cluster role is asked to do by hand. */
#include "tests/unit/test.h"
#include "engine/cluster/cluster.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"

static char name[CLUSTER_TOLD_NAME];
static uid_t uid;

static uint64_t order(const char *node) {
	char full[CLUSTER_TOLD_NAME] = "";

	snprintf(full, sizeof(full), "%s", node);
	return engine_cluster_order(site.engine, full, 1000);
}

TEST_IN(site_begin, site_end, the_last_order_is_found) {
	uint64_t first, last;

	assert_int_equal(engine_cluster_ordered(site.engine, name, &uid), 0);
	first = order("mx1.example");
	assert_true(first > 0);
	assert_int_equal(engine_cluster_ordered(site.engine, name, &uid), first);
	assert_string_equal(name, "mx1.example");
	assert_int_equal(uid, 1000);
	last = order("mx2.example");
	assert_true(last > first);
	assert_int_equal(engine_cluster_ordered(site.engine, name, &uid), last);
	assert_string_equal(name, "mx2.example");
}

/* "outer-mx1.example" and "inner-mx2.example" were "inner-mx1.example" for a moment. */
TEST_IN(site_begin, site_end, two_orders_are_never_mixed) {
	struct cluster_order *there = &site.segment->header->cluster_order;
	uint64_t inner, first, last;

	(void)order("inner-mx2.example");
	inner = atomic_load(&there->name[0]);
	first = order("outer-mx1.example");
	/* as whoever gives it, and dies then, leaves it */
	atomic_store(&there->number, first + 1);
	atomic_store(&there->name[0], inner);
	assert_int_equal(engine_cluster_ordered(site.engine, name, &uid), 0);
	last = order("inner-mx2.example");
	assert_true(last > first);
	assert_int_equal(engine_cluster_ordered(site.engine, name, &uid), last);
	assert_string_equal(name, "inner-mx2.example");
}
