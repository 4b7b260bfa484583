/* SPDX-License-Identifier: ISC */
/* The table of clients against somebody with very many addresses: it is bounded,
 * nobody is refused for want of a place, and no count goes wrong. */
#include "tests/unit/test.h"

#include "base/clock.h"
#include "segment/session/sessions.h"
#include "tests/unit/own_site.h"

/* A rate that no test outlives: one session uses up half an hour of it. */
#define RATED "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 1000000; " \
	"client = { sessions = 3; rate = \"2/1h\"; }; } );"

static uint64_t clients_used(void) {
	struct learned clients = clients_table(site.segment);

	return learned_used(&clients);
}

static uint64_t clients_size(void) {
	const struct table_place *place = &site.segment->header->clients;

	return (uint64_t)place->shards * place->per_shard;
}

/* Number n of very many: IPv6 /64 networks and IPv4 addresses by turns. */
static void address_of(uint32_t n, char text[48]) {
	if (n % 2 == 0)
		snprintf(text, 48, "2001:db8:%x:%x::1", n >> 16,
		    n & 0xffff);
	else
		snprintf(text, 48, "10.%u.%u.%u", n >> 16 & 255,
		    n >> 8 & 255, n & 255);
}

static enum verdict open_from(uint32_t n, struct session_ref *ref) {
	char text[48];

	address_of(n, text);
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

/* Any role could write a time that makes an entry worth more than all others, for ever. */
TEST(times_that_make_no_sense_do_not_keep_clients_for_ever) {
	struct session_ref ref;
	struct learned table;

	site_open(&site, 64, RATED);
	for (uint32_t n = 0; n < 5000; n++) {
		assert_int_equal(open_from(n, &ref), VERDICT_ADMIT);
		engine_session_close(site.engine, &ref, clock_now_ns());
	}
	table = clients_table(site.segment);
	for (uint32_t shard = 0; shard < table.place->shards; shard++)
		for (uint32_t i = 0; i < table.place->per_shard; i++)
			STORE(learned_slot(&table, shard, i)[WORD_OF(client_slot, rate_tat_ns)],
			    UINT64_MAX);
	for (uint32_t n = 10000; n < 12000; n++) {
		assert_int_equal(open_from(n, &ref), VERDICT_ADMIT);
		engine_session_close(site.engine, &ref, clock_now_ns());
	}
	assert_int_equal(counted(COUNTER_CLIENTS_UNCOUNTED), 0);
	site_close(&site);
}

/* Any role could write one where no tag is, to be found by the next repair. */
TEST(a_client_without_a_tag_does_not_come_back) {
	struct client_slot planted = { .control.used = 1, .open = 5 };
	struct learned table;

	site_open(&site, 64, RATED);
	table = clients_table(site.segment);
	do {	/* one that belongs there */
		planted.key += table.place->shards;
		memcpy((void *)(uintptr_t)learned_slot(&table, 0, 3), &planted, sizeof(planted));
	} while (!learned_retag(&table, 0, 3));
	table.tags[0].tag[3] = TAG_FREE;
	site_restart(&site, 64, RATED);
	table = clients_table(site.segment);
	learned_mend(&table, 0);
	assert_false(learned_has_tag(&table, 0, 3));
	assert_int_equal(clients_used(), 0);
	site_close(&site);
}

/* From number n on, the next whose count lies in the first shard. */
static uint32_t next_of_shard(uint32_t n) {
	for (;; n++) {
		struct client_lock lock;
		struct address client;
		char text[48];

		address_of(n, text);
		assert_true(address_parse(text, strlen(text), &client));
		client_aim(site.segment, 0, &client, n % 2 == 0 ? 64 : 128, 0, &lock);
		if (lock.key.shard == 0)
			return n;
	}
}

/* More open clients than the table has places for: those without a place are
 * admitted, and their ends take nothing off others. */
TEST(a_table_full_of_open_clients_refuses_nobody) {
	enum { SESSIONS = 2000 };
	static struct session_ref refs[SESSIONS];
	uint32_t per_shard, first, last;

	site_open(&site, SESSIONS * 2, RATED);
	per_shard = site.segment->header->clients.per_shard;
	for (uint32_t i = 0, n = 0; i < SESSIONS; i++, n++) {
		n = next_of_shard(n);
		assert_int_equal(open_from(n, &refs[i]), VERDICT_ADMIT);
	}
	assert_int_equal(counted(COUNTER_REFUSED), 0);
	assert_int_equal(counted(COUNTER_CLIENTS_UNCOUNTED), SESSIONS - clients_used());
	assert_int_equal(counted(COUNTER_CLIENT_EVICTIONS), 0);
	assert_true(clients_used() <= per_shard && clients_used() > per_shard / 10 * 9);
	assert_int_equal(open_of("all"), SESSIONS);
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
