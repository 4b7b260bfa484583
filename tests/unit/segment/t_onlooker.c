/* SPDX-License-Identifier: ISC */
/* A role that only looks at the segment: what it can write, and what the keeper makes of it. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "segment/onlooker.h"
#include "tests/unit/own_site.h"

#define PID 4711

static struct onlooker *page;
static struct segment *looking;
static struct role_record *row;		/* of metrics, as others see it */
static struct diag diag;

static int set_up(void **state) {
	const char *path;
	int fd, look_fd;

	site_open(&site, 64, "classes = ( { name = \"all\"; match = \"*\"; } );");
	path = segment_path(site.segment);
	fd = onlooker_make(&diag);
	assert_true(fd >= 0 && (page = onlooker_map(fd, &diag)) != NULL);
	assert_int_equal(ftruncate(fd, 0), -1);
	close(fd);
	fd = segment_open_file(path, geteuid(), &diag);
	look_fd = segment_open_to_look(fd, &diag);
	close(fd);
	assert_int_equal(fcntl(look_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(segment_attach_to_look(&looking, look_fd, path, page, &diag), 0);
	row = &segment_header(site.segment)->roles[segment_role_place(ROLE_METRICS, 0)];
	return 0;
}

static int tear_down(void **state) {
	segment_unmap(&looking);
	munmap(page, sizeof(*page));
	site_close(&site);
	return 0;
}

/* All that the metrics role does with an engine, without a store to the segment. */
TEST_IN(set_up, tear_down, what_metrics_does_stores_nothing_in_the_segment) {
	unsigned place = segment_role_place(ROLE_METRICS, 0);
	const struct segment_header *header = segment_header(site.segment);
	uint64_t counted = atomic_load(&header->counters[COUNTER_BAD_HTTP_REQUESTS]);
	int64_t now_ns = clock_now_ns(), beat_ns = atomic_load(&header->heartbeat_ns);
	struct engine *engine;

	segment_role_starting(looking, ROLE_METRICS, 0, now_ns);
	assert_int_equal(engine_open(&engine, looking, place, &diag), 0);
	engine_heartbeat(engine, now_ns + 1);
	engine_count(engine, COUNTER_BAD_HTTP_REQUESTS, 3);
	engine_unpin(engine, engine_pin(engine));
	engine_close(&engine);
	assert_int_equal(atomic_load(&row->kind), ROLE_NONE);
	assert_int_equal(atomic_load(&header->counters[COUNTER_BAD_HTTP_REQUESTS]), counted);
	assert_int_equal(atomic_load(&header->heartbeat_ns), beat_ns);
	onlooker_started(site.segment, PID, now_ns);
	onlooker_carry(site.segment, page, now_ns + 2);
	onlooker_carry(site.segment, page, now_ns + 3);
	assert_int_equal(atomic_load(&row->heartbeat_ns), now_ns + 1);
	assert_int_equal(atomic_load(&row->generation), atomic_load(&header->generation));
	assert_int_equal(atomic_load(&header->counters[COUNTER_BAD_HTTP_REQUESTS]), counted + 3);
}

TEST_IN(set_up, tear_down, its_mapping_cannot_be_made_writable) {
	struct segment_header *header = segment_header(looking);
	char *live = (char *)header + SEGMENT_FIXED_BYTES;

	assert_int_equal(mprotect(live, SEGMENT_FIXED_BYTES, PROT_READ | PROT_WRITE), -1);
}

TEST_IN(set_up, tear_down, a_start_is_noted_once_and_ends_the_one_before) {
	int64_t now_ns = clock_now_ns();
	uint32_t incarnation;

	onlooker_started(site.segment, PID, now_ns);
	incarnation = atomic_load(&row->incarnation);
	onlooker_started(site.segment, PID, now_ns);
	assert_int_equal(atomic_load(&row->incarnation), incarnation);
	assert_int_equal(atomic_load(&row->restarts), 0);
	onlooker_started(site.segment, PID + 1, now_ns);
	assert_int_equal(atomic_load(&row->pid), PID + 1);
	assert_int_equal(atomic_load(&row->restarts), 1);
}

/* It may write anything into its page. */
TEST_IN(set_up, tear_down, what_makes_no_sense_is_not_carried) {
	int64_t now_ns = clock_now_ns();
	const int64_t beats[] = { INT64_MIN, -1, 0, now_ns, now_ns + 10, INT64_MAX };

	onlooker_started(site.segment, PID, now_ns);
	for (size_t i = 0; i < sizeof(beats) / sizeof(beats[0]); i++) {
		memset(page, 0xff, sizeof(*page));
		atomic_store(&page->role.heartbeat_ns, beats[i]);
		onlooker_carry(site.segment, page, now_ns + 9);
		assert_int_equal(atomic_load(&row->heartbeat_ns), now_ns);
		assert_int_equal(atomic_load(&row->pid), PID);
		assert_int_equal(atomic_load(&row->kind), ROLE_METRICS);
	}
	/* nor what one that is dead has left */
	assert_true(segment_role_died(site.segment, segment_role_place(ROLE_METRICS, 0), PID));
	atomic_store(&page->role.heartbeat_ns, now_ns + 5);
	onlooker_carry(site.segment, page, now_ns + 9);
	assert_int_equal(atomic_load(&row->heartbeat_ns), now_ns);
}
