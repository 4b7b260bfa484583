/* SPDX-License-Identifier: ISC */
/* The table of clients against somebody with very many addresses: it is bounded,
 * nobody is refused for want of a place, and no count goes wrong. */
#include "tests/unit/test.h"

#include "base/clock.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"

/* A rate that no test outlives: one session uses up half an hour of it. */
#define RATED "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 1000000; " \
	"client = { sessions = 3; rate = \"2/1h\"; }; } );"

static uint64_t clients_used(void) {
	uint64_t used = 0;

	for (uint32_t i = 0; i < site.segment->header->shard_count; i++)
		used += atomic_load(&site.segment->client_shards[i].used);
	return used;
}

static uint64_t clients_size(void) {
	return (uint64_t)site.segment->header->shard_count *
	    site.segment->header->clients_per_shard;
}

/* Number n of very many: IPv6 /64 networks and IPv4 addresses by turns. */
static enum verdict open_from(uint32_t n, struct session_ref *ref) {
	char text[48];

	if (n % 2 == 0)
		snprintf(text, sizeof(text), "2001:db8:%x:%x::1", n >> 16,
		    n & 0xffff);
	else
		snprintf(text, sizeof(text), "10.%u.%u.%u", n >> 16 & 255,
		    n >> 8 & 255, n & 255);
	return site_inbound(&site, text, (uint16_t)(1 + n % 60000), NULL, ref);
}

TEST(many_addresses_do_not_wash_away_anything) {
	struct session_ref ref, busy, open[3];
	uint32_t addresses = 50000;

	site_open(&site, 64, RATED);
	/* one who used up his rate, and one with as many open as he may have */
	for (uint16_t i = 0; i < 2; i++) {
		assert_int_equal(site_inbound(&site, "192.0.2.1",
		    (uint16_t)(i + 1), NULL, &busy), VERDICT_ADMIT);
		engine_session_close(site.engine, &busy, clock_now_ns());
	}
	assert_int_equal(site_verdict("192.0.2.1", 3, NULL), VERDICT_REFUSE);
	assert_int_equal(site_inbound(&site, "192.0.2.9", 1, NULL, &open[0]),
	    VERDICT_ADMIT);
	for (uint32_t n = 0; n < addresses; n++) {
		assert_int_equal(open_from(n, &ref), VERDICT_ADMIT);
		assert_true(ref.slot != 0);
		engine_session_close(site.engine, &ref, clock_now_ns());
		assert_true(clients_used() <= clients_size());
	}
	assert_true(counted(COUNTER_CLIENT_EVICTIONS) >=
	    addresses - clients_size());
	assert_int_equal(counted(COUNTER_CLIENTS_UNCOUNTED), 0);
	assert_int_equal(counted(COUNTER_REFUSED), 1);
	assert_int_equal(counted(COUNTER_UNTRACKED), 0);
	/* the busy one is nearest to no rest, the open one is in use: both stayed */
	assert_int_equal(site_verdict("192.0.2.1", 4, NULL), VERDICT_REFUSE);
	assert_int_equal(site_inbound(&site, "192.0.2.9", 2, NULL, &open[1]),
	    VERDICT_ADMIT);
	assert_int_equal(site_inbound(&site, "192.0.2.9", 3, NULL, &open[2]),
	    VERDICT_REFUSE);
	assert_true(site_is_consistent(&site));
	assert_int_equal(open_of("all"), 2);
	site_close(&site);
}

/* More open clients than the table has places for: those without a place are
 * admitted, and their ends take nothing off others. */
TEST(a_table_full_of_open_clients_refuses_nobody) {
	enum { SESSIONS = 2000 };
	static struct session_ref refs[SESSIONS];
	uint32_t admitted = 0, first, last;

	/* sessions for all, but clients of a few: as if most shared a shard */
	site_open(&site, SESSIONS * 2, RATED);
	for (uint32_t i = 0; i < site.segment->header->shard_count; i++) {
		struct shard *shard = &site.segment->client_shards[i];

		/* the rest of its places were used once and lost */
		atomic_store(&shard->high_water,
		    site.segment->header->clients_per_shard - 10);
	}
	for (uint32_t n = 0; n < SESSIONS; n++) {
		assert_int_equal(open_from(n, &refs[n]), VERDICT_ADMIT);
		admitted++;
	}
	assert_int_equal(counted(COUNTER_REFUSED), 0);
	assert_int_equal(counted(COUNTER_CLIENTS_UNCOUNTED), SESSIONS -
	    10 * site.segment->header->shard_count);
	assert_int_equal(counted(COUNTER_CLIENT_EVICTIONS), 0);
	assert_int_equal(clients_used(), 10 * site.segment->header->shard_count);
	assert_int_equal(open_of("all"), admitted);
	assert_true(site_is_consistent(&site));
	/* one with a place, one without, each with a second session */
	assert_int_equal(site_verdict("10.0.0.1", 50000, NULL), VERDICT_ADMIT);
	assert_true(site_is_consistent(&site));
	first = 0;
	last = SESSIONS;
	while (first < last) {
		engine_session_close(site.engine, &refs[first++], clock_now_ns());
		engine_session_close(site.engine, &refs[--last], clock_now_ns());
		if (first % 100 == 0)
			assert_true(site_is_consistent(&site));
	}
	assert_true(site_is_consistent(&site));
	assert_int_equal(open_of("all"), 1);
	site_close(&site);
}
