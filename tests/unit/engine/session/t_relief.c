/* SPDX-License-Identifier: ISC */
/* A full class: who has gone makes room, who lives does not, whether the keeper is
 * away, has just been stopped, or is at work. */
#include "tests/unit/test.h"
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/session/witness.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/unit/own_site.h"

#define LIMIT	3
#define THREE "classes = ( { name = \"net\"; match = [ \"203.0.113.0/24\" ]; " \
	"hold_at = 1; refuse_at = 1; }, { name = \"all\"; match = [ \"*\" ]; " \
	"hold_at = 3; refuse_at = 3; } );"
#define CLIENT	"198.51.100.1"

static struct witness *keeper;
static uint16_t gone;		/* the client port that the kernel does not show */
static bool kernel_is_silent;
static unsigned lookups;
static int lookup_takes_ms;
static int64_t now_ns;
static struct role_record *keeper_role;

static enum lookup_result look_up(void *context, const struct connection *which,
    struct connection *found) {
	lookups++;
	poll(NULL, 0, lookup_takes_ms);
	if (kernel_is_silent)
		return LOOKUP_UNKNOWN;
	if (found != NULL) {
		*found = *which;
		found->alive = true;
	}
	return which->client_port == gone ? LOOKUP_GONE : LOOKUP_ALIVE;
}

static enum verdict open_one(uint16_t port) {
	struct question question = site_question(CLIENT, port, NULL);
	struct answer answer;

	question.listener = site.auto_listener;
	answer = site_ask(&question, now_ns);
	return answer.decision.verdict;
}

/* The keeper's dump shows so many of them. */
static void dump(uint16_t count) {
	struct connection *list = calloc(count, sizeof(*list));
	uint32_t sequence = witness_dump_begin(keeper);

	assert_non_null(list);
	for (uint16_t i = 0; i < count; i++) {
		struct question question = site_question(CLIENT,
		    (uint16_t)(1001 + i), NULL);

		list[i] = (struct connection){ .client = question.client,
			.client_port = question.client_port,
			.server = question.server, .server_port = 25,
			.alive = true };
	}
	witness_dump_end(keeper, site.generation, sequence, list, count, now_ns);
	free(list);
}

static int set_up(void **state) {
	const struct witness_calls calls = { .lookup = look_up };
	struct diag diag;

	site_open(&site, 1000, THREE);
	now_ns = clock_now_ns();
	gone = 0;
	kernel_is_silent = false;
	lookup_takes_ms = 0;
	assert_int_equal(witness_open(&keeper, site.engine, &calls, 16, &diag), 0);
	assert_int_equal(engine_lend_witness(site.engine, &calls, &diag), 0);
	segment_role_starting(site.segment, ROLE_KEEPER, 0, now_ns);
	keeper_role = &segment_header(site.segment)->roles[
	    segment_role_place(ROLE_KEEPER, 0)];
	atomic_store(&keeper_role->incarnation, 77);
	atomic_store(&keeper_role->heartbeat_ns, now_ns);
	for (uint16_t i = 0; i < LIMIT; i++)
		assert_int_equal(open_one((uint16_t)(1001 + i)), VERDICT_ADMIT);
	dump(LIMIT);
	lookups = 0;
	return 0;
}

static struct session_ref ref_of_port(uint16_t port) {
	struct question question = site_question(CLIENT, port, NULL);

	return site_ask(&question, now_ns).session;
}

static int tear_down(void **state) {
	bool consistent = site_is_consistent(&site);

	witness_close(&keeper);
	site_close(&site);
	return consistent ? 0 : -1;
}

/* It may have been stopped an instant ago: nobody is to be refused for that. */
TEST_IN(set_up, tear_down, test_nobody_knows_yet_that_the_keeper_was_stopped) {
	gone = 1002;
	assert_int_equal(open_one(2001), VERDICT_ADMIT);
	assert_int_equal(lookups, LIMIT);
}

TEST_IN(set_up, tear_down, test_keeper_silent) {
	gone = 1002;
	now_ns += NS_PER_SECOND;
	assert_int_equal(open_one(2001), VERDICT_ADMIT);
	assert_int_equal(lookups, LIMIT);
}

TEST_IN(set_up, tear_down, test_keeper_dead) {
	gone = 1003;
	atomic_store(&keeper_role->incarnation, 0);
	assert_int_equal(open_one(2001), VERDICT_ADMIT);
}

/* Postfix closes idle policy connections in the middle of sessions. */
TEST_IN(set_up, tear_down, a_live_session_stays_counted_though_its_policy_connection_ends_while_the_keeper_is_away) {
	struct session_ref lives, over;

	keeper_role->incarnation = 0;
	lives = ref_of_port(1001);
	over = ref_of_port(1002);
	gone = 1002;
	engine_session_ended(site.engine, site.generation, &lives, OWNER_POLICY_GONE, now_ns);
	assert_int_equal(open_of("all"), LIMIT);
	engine_session_ended(site.engine, site.generation, &over, OWNER_POLICY_GONE, now_ns);
	assert_int_equal(open_of("all"), LIMIT - 1);
}

/* Nobody else comes to that shard. */
TEST_IN(set_up, tear_down, an_ended_session_makes_room_though_a_writer_died_in_its_shard) {
	struct question question = site_question(CLIENT, 1003, NULL);
	const struct session_key key = { question.client, 1003, SESSION_INBOUND };
	struct session_lock lock;
	pid_t writer = fork();

	if (writer == 0) {
		sessions_aim(site.segment, &key, now_ns, &lock);
		if (sessions_lock(&lock))
			sessions_change_begin(&lock);
		_exit(0);
	}
	assert_int_equal(waitpid(writer, NULL, 0), writer);
	gone = 1003;
	atomic_store(&keeper_role->incarnation, 0);
	assert_int_equal(open_one(2001), VERDICT_ADMIT);
}

TEST_IN(set_up, tear_down, test_all_alive) {
	now_ns += NS_PER_SECOND;
	assert_int_equal(open_one(2001), VERDICT_REFUSE);
	assert_int_equal(lookups, LIMIT);
	/* not again at once */
	assert_int_equal(open_one(2002), VERDICT_REFUSE);
	assert_int_equal(lookups, LIMIT);
}

TEST_IN(set_up, tear_down, test_room_costs_nothing) {
	struct question question = site_question(CLIENT, 1001, NULL);
	struct answer answer;

	question.listener = site.auto_listener;
	answer = site_ask(&question, now_ns);
	engine_session_close(site.engine, &answer.session, now_ns);
	now_ns += NS_PER_SECOND;
	lookups = 0;
	assert_int_equal(open_one(2001), VERDICT_ADMIT);
	assert_int_equal(lookups, 0);
}

TEST_IN(set_up, tear_down, test_silent_kernel) {
	gone = 1002;
	kernel_is_silent = true;
	now_ns += NS_PER_SECOND;
	assert_int_equal(open_one(2001), VERDICT_REFUSE);
}

/* Nobody proves anything then: what the owner says is final. */
TEST_IN(set_up, tear_down, test_end_is_final) {
	struct question question = site_question(CLIENT, 1001, NULL);
	struct answer answer;

	question.listener = site.auto_listener;
	answer = site_ask(&question, now_ns);
	engine_session_ended(site.engine, site.generation, &answer.session,
	    OWNER_POLICY, now_ns);
	assert_int_equal(open_one(2001), VERDICT_REFUSE);
	atomic_store(&keeper_role->incarnation, 0);
	kernel_is_silent = true;
	answer = site_ask(&question, now_ns);
	engine_session_ended(site.engine, site.generation, &answer.session,
	    OWNER_POLICY, now_ns);
	assert_int_equal(open_one(2002), VERDICT_ADMIT);
}

/* Whoever fills two classes cannot have each question pay for a look. */
TEST_IN(set_up, tear_down, test_full_classes_by_turns) {
	struct question question = site_question("203.0.113.1", 1, NULL);
	struct answer answer;

	question.listener = site.auto_listener;
	answer = site_ask(&question, now_ns);
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	lookup_takes_ms = 20;
	for (uint16_t i = 0; i < 5; i++) {
		assert_int_equal(open_one((uint16_t)(2001 + i)), VERDICT_REFUSE);
		question.client_port++;
		answer = site_ask(&question, now_ns);
		assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
	}
	assert_int_equal(lookups, LIMIT);
}

#define MANY	40000
#define AT_ONCE	500	/* lookups of one step */

static void open_world(const char *classes) {
	const struct witness_calls calls = { .lookup = look_up };
	struct diag diag;

	site_open(&site, MANY + 10, classes);
	now_ns = clock_now_ns();
	gone = 0;
	kernel_is_silent = false;
	lookup_takes_ms = 0;
	assert_int_equal(witness_open(&keeper, site.engine, &calls, 16, &diag), 0);
	assert_int_equal(engine_lend_witness(site.engine, &calls, &diag), 0);
}

static enum verdict ask(const char *client, uint16_t port) {
	struct question question = site_question(client, port, NULL);
	struct answer answer;

	question.listener = site.auto_listener;
	answer = site_ask(&question, now_ns);
	return answer.decision.verdict;
}

/* A full class of very many: no question waits for more than a step, and whoever has gone
 * is found when as many steps were taken as there are sessions for. */
TEST_IN(NULL, tear_down, test_full_class_of_many_sessions) {
	unsigned tries = 0, before = 0;
	enum verdict verdict;

	open_world("classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 20000; refuse_at = 20000; } );");
	for (uint16_t i = 0; i < 20000; i++)
		assert_int_equal(open_one((uint16_t)(1001 + i)), VERDICT_ADMIT);
	dump(20000);
	gone = 14711;
	lookups = 0;
	do {
		verdict = open_one(30001);
		assert_true(lookups - before <= AT_ONCE);
		before = lookups;
		poll(NULL, 0, 1);
		now_ns = clock_now_ns();
	} while (verdict != VERDICT_ADMIT && ++tries < 10000);
	assert_int_equal(verdict, VERDICT_ADMIT);
	assert_true(lookups <= 20000);
}

/* A dump that shows this connection. */
static void show(const char *client, uint16_t port) {
	struct question question = site_question(client, port, NULL);
	struct connection shown = { .client = question.client, .client_port = port,
		.server = question.server, .server_port = 25, .alive = true };
	uint32_t sequence = witness_dump_begin(keeper);

	witness_dump_end(keeper, site.generation, sequence, &shown, 1, now_ns);
}

/* A port whose session lies in the last part of the table. */
static uint16_t last_port(const char *client) {
	struct session_lock lock;

	for (uint16_t port = 1;; port++) {
		struct question question = site_question(client, port, NULL);
		struct session_key key = { question.client, port, SESSION_INBOUND };

		sessions_aim(site.segment, &key, now_ns, &lock);
		if (lock.shard_number == site.segment->header->shard_count - 1)
			return port;
	}
}

/* The table is not walked in one go either, and each class goes on where it was. */
TEST_IN(NULL, tear_down, test_full_class_beside_very_many_sessions) {
	enum verdict verdict = VERDICT_REFUSE;
	uint16_t port;

	open_world("classes = ( { name = \"net\"; match = [ \"203.0.113.0/24\" ]; "
	    "hold_at = 1; refuse_at = 1; }, { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 40000; refuse_at = 40000; } );");
	for (uint16_t i = 0; i < MANY; i++)
		assert_int_equal(open_one((uint16_t)(1001 + i)), VERDICT_ADMIT);
	port = last_port("203.0.113.1");
	assert_int_equal(ask("203.0.113.1", port), VERDICT_ADMIT);
	show("203.0.113.1", port);
	gone = port;
	lookups = 0;
	assert_int_equal(ask("203.0.113.1", 60001), VERDICT_REFUSE);
	assert_int_equal(lookups, 0);
	for (unsigned tries = 0; verdict != VERDICT_ADMIT && tries < 10000; tries++) {
		poll(NULL, 0, 1);
		now_ns = clock_now_ns();
		verdict = ask("203.0.113.1", 60001);
	}
	assert_int_equal(verdict, VERDICT_ADMIT);
	assert_int_equal(lookups, 1);
}
