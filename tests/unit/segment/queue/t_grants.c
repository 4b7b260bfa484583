/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "segment/queue/grants.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"

static int64_t now_ns;

static int set_up(void **state) {
	site_open(&site, 1024, "classes = ();");
	now_ns = clock_now_ns();
	engine_heartbeat(site.engine, now_ns);
	grants_begin(site.segment, site.place);
	return 0;
}

static uint32_t domain(const char *name) {
	return grants_domain(site.segment, name, strlen(name));
}

static struct grant_ref put(const char *id, enum grant_mode mode, unsigned count,
    const uint32_t *domains) {
	struct grant grant = { .queue_id = id, .queue_id_length = strlen(id), .run = 7,
		.mode = mode, .domains = domains, .count = count };
	struct grant_ref ref;

	assert_true(grants_put(site.segment, &grant, &ref));
	return ref;
}

static enum grant_answer ask_as(const char *id, const char *name, struct grant_asked *asked) {
	return grants_ask(site.segment, id, strlen(id), name, strlen(name), now_ns, asked);
}

static enum grant_answer ask(const char *id, const char *name) {
	struct grant_asked asked;

	return ask_as(id, name, &asked);
}

TEST_IN(set_up, site_end, only_what_is_listed_goes) {
	const uint32_t list[] = { domain("a.example"), domain("b.example") };

	(void)put("7AL1", GRANT_ONLY, 2, list);
	assert_int_equal(ask("7AL1", "a.example"), GRANT_GO);
	assert_int_equal(ask("7AL1", "B.Example."), GRANT_GO);
	assert_int_equal(ask("7AL1", "c.example"), GRANT_WAIT);
	assert_int_equal(ask("7AL1", ""), GRANT_WAIT);
	assert_int_equal(ask("7AL2", "a.example"), GRANT_NONE);
	assert_int_equal(ask("7al1", "a.example"), GRANT_NONE);
	assert_int_equal(ask("", "a.example"), GRANT_NONE);
}

TEST_IN(set_up, site_end, all_but_what_is_listed_goes) {
	const uint32_t list[] = { domain("a.example") };

	(void)put("7AL1", GRANT_EXCEPT, 1, list);
	(void)put("7AL2", GRANT_EXCEPT, 0, list);
	assert_int_equal(ask("7AL1", "a.example"), GRANT_WAIT);
	assert_int_equal(ask("7AL1", "b.example"), GRANT_GO);
	assert_int_equal(ask("7AL2", "a.example"), GRANT_GO);
}

TEST_IN(set_up, site_end, a_grant_can_be_withdrawn) {
	const uint32_t list[] = { domain("a.example"), domain("b.example") };
	struct grant_ref only, except;

	only = put("7AL1", GRANT_ONLY, 2, list);
	except = put("7AL2", GRANT_EXCEPT, 2, list);
	assert_true(grants_withdraw(site.segment, &only, domain("a.example")));
	assert_true(grants_withdraw(site.segment, &only, domain("x.example")));
	assert_int_equal(ask("7AL1", "a.example"), GRANT_WAIT);
	assert_int_equal(ask("7AL1", "b.example"), GRANT_GO);
	assert_true(grants_withdraw(site.segment, &except, domain("c.example")));
	assert_true(grants_withdraw(site.segment, &except, domain("c.example")));
	assert_int_equal(ask("7AL2", "c.example"), GRANT_WAIT);
	assert_int_equal(ask("7AL2", "d.example"), GRANT_GO);
	for (uint32_t i = 3; i < GRANT_DOMAINS; i++)
		assert_true(grants_withdraw(site.segment, &except, i));
	assert_false(grants_withdraw(site.segment, &except, 1000));
}

TEST_IN(set_up, site_end, it_ends_with_its_run) {
	struct grant_seen seen;
	struct grant_asked asked;
	struct grant_ref ref, again;
	struct grant twice = { .queue_id = "7AL1", .queue_id_length = 4, .run = 8,
		.mode = GRANT_EXCEPT };

	ref = put("7AL1", GRANT_EXCEPT, 0, NULL);
	assert_false(grants_put(site.segment, &twice, &again));
	assert_int_equal(ask_as("7AL1", "a.example", &asked), GRANT_GO);
	assert_int_equal(asked.run, 7);
	grants_remove(site.segment, &ref, &seen);
	assert_int_equal(ask("7AL1", "a.example"), GRANT_NONE);
	again = put("7AL1", GRANT_EXCEPT, 0, NULL);
	/* marks of the run that is over, and its end once more, touch nothing */
	grants_mark(site.segment, &asked, GRANT_ASKED, now_ns);
	grants_remove(site.segment, &ref, NULL);
	assert_int_equal(ask("7AL1", "a.example"), GRANT_GO);
	grants_see(site.segment, &again, &seen);
	assert_int_equal(seen.asked, 0);
}

TEST_IN(set_up, site_end, the_role_sees_what_was_asked) {
	struct grant_ref ref = put("7AL1", GRANT_EXCEPT, 0, NULL);
	struct grant_asked asked;
	struct grant_seen seen;
	char name[32];

	grants_see(site.segment, &ref, &seen);
	assert_int_equal(seen.progress_ns, 0);
	(void)ask_as("7AL1", "a.example", &asked);
	grants_mark(site.segment, &asked, GRANT_TURN, now_ns + 1);
	grants_see(site.segment, &ref, &seen);
	assert_int_equal(seen.progress_ns, now_ns + 1);
	assert_int_equal(seen.asked, 0);
	assert_int_equal(seen.current, 0);
	grants_mark(site.segment, &asked, GRANT_ASKED, now_ns + 2);
	grants_see(site.segment, &ref, &seen);
	assert_int_equal(seen.asked, 1);
	assert_int_equal(seen.current, domain("a.example"));
	assert_false(seen.is_connected);
	grants_mark(site.segment, &asked, GRANT_CONNECTED, now_ns + 3);
	grants_see(site.segment, &ref, &seen);
	assert_true(seen.is_connected);
	for (int i = 0; i < GRANT_PUT_OFF; i++) {
		(void)snprintf(name, sizeof(name), "d%d.example", i);
		(void)ask_as("7AL1", name, &asked);
		grants_mark(site.segment, &asked, GRANT_DEFERRED, now_ns + 4);
		grants_mark(site.segment, &asked, GRANT_DEFERRED, now_ns + 4);
	}
	grants_see(site.segment, &ref, &seen);
	assert_int_equal(seen.deferred_count, GRANT_PUT_OFF);
	assert_int_equal(seen.deferred[0], domain("d0.example"));
	(void)ask_as("7AL1", "more.example", &asked);
	grants_mark(site.segment, &asked, GRANT_DEFERRED, now_ns + 4);
	grants_see(site.segment, &ref, &seen);
	assert_int_equal(seen.deferred_count, GRANT_PUT_OFF);	/* no room for it */
	assert_int_equal(seen.current, domain("a.example"));
}

/* All of them: nothing can be stuck by a role that died, hangs, or came anew. */
TEST_IN(set_up, site_end, they_end_with_the_role) {
	(void)put("7AL1", GRANT_ONLY, 0, NULL);
	assert_int_equal(ask("7AL1", "a.example"), GRANT_WAIT);
	now_ns += 6 * NS_PER_SECOND;
	assert_int_equal(ask("7AL1", "a.example"), GRANT_NONE);
	engine_heartbeat(site.engine, now_ns);
	assert_int_equal(ask("7AL1", "a.example"), GRANT_WAIT);
	segment_role_died(site.segment, site.place, getpid());
	assert_int_equal(ask("7AL1", "a.example"), GRANT_NONE);
	segment_role_starting(site.segment, ROLE_POLICY, 0, now_ns);
	assert_int_equal(ask("7AL1", "a.example"), GRANT_NONE);
	grants_begin(site.segment, site.place);
	assert_int_equal(ask("7AL1", "a.example"), GRANT_NONE);
	(void)put("7AL1", GRANT_ONLY, 0, NULL);
	assert_int_equal(ask("7AL1", "a.example"), GRANT_WAIT);
	/* all of the daemon died, and another one goes on with the file */
	site_restart(&site, 1024, "classes = ();");
	engine_heartbeat(site.engine, now_ns);
	assert_int_equal(ask("7AL1", "a.example"), GRANT_NONE);
}

TEST_IN(set_up, site_end, a_full_table_takes_no_more) {
	struct grant grant = { .run = 7, .mode = GRANT_ONLY };
	struct grant_ref ref, last = { 0, 0 };
	unsigned taken = 0, refused = 0;
	char id[16];

	for (unsigned i = 0; i < 2 * GRANT_PLACES; i++) {
		grant.queue_id_length = (size_t)snprintf(id, sizeof(id), "7AL%u", i);
		grant.queue_id = id;
		if (!grants_put(site.segment, &grant, &ref)) {
			refused++;
			assert_int_equal(ref.number, 0);
			continue;
		}
		taken++;
		last = ref;
		assert_int_equal(ask(id, "a.example"), GRANT_WAIT);
	}
	assert_true(refused > 0);
	assert_true(taken > GRANT_PLACES / 2 && taken <= GRANT_PLACES);
	grants_remove(site.segment, &last, NULL);
	grants_begin(site.segment, site.place);
	assert_int_equal(ask("7AL0", "a.example"), GRANT_NONE);
	(void)put("7AL0", GRANT_ONLY, 0, NULL);
	assert_int_equal(ask("7AL0", "a.example"), GRANT_WAIT);
}

/* A count that a role made up leads into no other grant's place. */
TEST_IN(set_up, site_end, a_count_beyond_the_domains_leads_nowhere) {
	const uint32_t first[] = { 1 }, other = 77;
	struct grant_ref ref = put("4711", GRANT_EXCEPT, 1, first);
	struct grant_table *table = (void *)((char *)site.segment->header +
	    site.segment->header->grants_offset);
	struct grant_place *place = &table->places[ref.number - 1];
	const struct grant_place *end = place + 1;
	uint64_t control = atomic_load(&place->control) & ~UINT64_C(0xff00);
	struct grant_place was;

	for (unsigned count = GRANT_DOMAINS; count <= 0xff; count++) {
		struct grant_asked asked;

		atomic_store(&place->control, control | (uint64_t)count << 8);
		memcpy(&was, place, sizeof(was));
		assert_false(grants_withdraw(site.segment, &ref, other));
		assert_memory_equal(place, &was, sizeof(was));
		assert_int_equal(ask_as("4711", "a.example", &asked), GRANT_GO);
	}
	/* nor is what stands behind them taken for one */
	atomic_store(&place->deferred[0], other);
	atomic_store(&place->control, control | 0xff00);
	assert_false(grants_withdraw(site.segment, &ref, other));
	if (ref.number < GRANT_PLACES)
		assert_int_equal(atomic_load(&end->control), 0);
}
