/* SPDX-License-Identifier: ISC */
/* No session is counted for ever, none is ended for what another one did, and
 * none is counted twice. */
#include "tests/unit/test.h"

#include "base/clock.h"
#include "engine/session/told_sessions.h"
#include "engine/session/witness.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/unit/own_site.h"

#define ALL "classes = ( { name = \"all\"; match = [ \"*\" ]; " \
	"hold_at = 5; refuse_at = 5; } ); exempt = [ \"192.0.2.99\" ];"

static struct witness *witness;
static int64_t now_ns;
static struct question returning;	/* asked in the middle of a lookup */

static void ask(const struct question *question, struct answer *answer) {
	engine_session_open(site.engine, site.generation, question, now_ns,
	    answer);
}

/* Gone; but before the caller hears of it the client is here again. */
static enum lookup_result look_up(void *context, const struct connection *which,
    struct connection *found) {
	struct answer answer;

	if (returning.client_port != 0)
		ask(&returning, &answer);
	return LOOKUP_GONE;
}

static int set_up(void **state) {
	const struct witness_calls calls = { .lookup = look_up };
	struct diag diag;

	memset(&returning, 0, sizeof(returning));
	site_open(&site, 1000, ALL);
	now_ns = clock_now_ns();
	engine_heartbeat(site.engine, now_ns);
	assert_int_equal(witness_open(&witness, site.engine, &calls, 16, &diag), 0);
	return 0;
}

static int tear_down(void **state) {
	bool consistent = site_is_consistent(&site);

	witness_close(&witness);
	site_close(&site);
	return consistent ? 0 : -1;
}

static uint32_t open_sessions(void) {
	return open_of("all");
}

TEST_IN(set_up, tear_down, a_port_that_is_used_again_is_not_ended_by_an_older_look) {
	struct connection shown;
	struct answer answer;
	uint32_t sequence;

	returning = site_question("192.0.2.1", 1, NULL);
	ask(&returning, &answer);
	shown = (struct connection){ .client = returning.client,
		.client_port = 1, .server = returning.server,
		.server_port = 25, .alive = true };
	sequence = witness_dump_begin(witness);
	witness_dump_end(witness, site.generation, sequence, &shown, 1, now_ns);
	sequence = witness_dump_begin(witness);
	witness_dump_end(witness, site.generation, sequence, NULL, 0, now_ns);
	assert_int_equal(open_sessions(), 1);
	/* the next dump has the say */
	returning.client_port = 0;
	sequence = witness_dump_begin(witness);
	witness_dump_end(witness, site.generation, sequence, NULL, 0, now_ns);
	assert_int_equal(open_sessions(), 0);
}

/* Lines of a log are read late: one of them says nothing of who came later by the same
 * port. */
TEST_IN(set_up, tear_down, an_end_that_was_told_ends_none_that_came_later) {
	struct question question = site_question("192.0.2.1", 1, NULL);
	int64_t said_ns = now_ns - NS_PER_SECOND;
	struct answer answer;

	question.listener = site.lease_listener;
	now_ns += 5 * NS_PER_SECOND;
	ask(&question, &answer);
	engine_session_gone(site.engine, site.generation, &question, said_ns, now_ns);
	assert_int_equal(open_sessions(), 1);
	engine_session_gone(site.engine, site.generation, &question, now_ns, now_ns);
	assert_int_equal(open_sessions(), 0);
}

/* Where the witness has no say, whoever said that it ended has. */
TEST_IN(set_up, tear_down, a_late_word_does_not_end_the_next_session_from_the_same_port) {
	const struct question question = site_question("192.0.2.1", 1001, NULL);
	struct answer first, between, second;

	ask(&question, &first);
	/* the server processes of the first ones have not had other clients yet */
	ask(&question, &between);
	ask(&question, &second);
	engine_session_ended(site.engine, site.generation, &first.session, OWNER_POLICY, now_ns);
	assert_int_equal(open_sessions(), 1);
	engine_session_ended(site.engine, site.generation, &between.session, OWNER_POLICY, now_ns);
	assert_int_equal(open_sessions(), 1);
	engine_session_ended(site.engine, site.generation, &second.session, OWNER_POLICY, now_ns);
	assert_int_equal(open_sessions(), 0);
}

TEST_IN(set_up, tear_down, a_late_milter_does_not_end_the_next_session_from_the_same_port) {
	struct question question = site_question("192.0.2.1", 1001, NULL);
	struct answer first, second, policy;

	question.owner = OWNER_MILTER;
	question.listener = site.milter_listener;
	ask(&question, &first);
	ask(&question, &second);
	question.owner = OWNER_POLICY;
	question.listener = site.auto_listener;
	ask(&question, &policy);
	engine_session_ended(site.engine, site.generation, &first.session, OWNER_MILTER, now_ns);
	assert_int_equal(open_sessions(), 1);
	engine_session_ended(site.engine, site.generation, &second.session, OWNER_MILTER, now_ns);
	assert_int_equal(open_sessions(), 0);
}

/* A stuck lock puts the word off; the client is here again, and no milter is asked this time. */
TEST_IN(set_up, tear_down, a_word_put_off_by_a_lock_does_not_end_the_next_session_of_its_port) {
	struct class_record *class = site_class(&site, "all");
	struct question question = site_question("192.0.2.1", 1001, NULL);
	struct answer first, second;

	question.owner = OWNER_MILTER;
	question.listener = site.milter_listener;
	ask(&question, &first);
	assert_int_not_equal(lock_acquire(&class->lock, now_ns), LOCK_TIMED_OUT);
	engine_session_ended(site.engine, site.generation, &first.session, OWNER_MILTER, now_ns);
	lock_release(&class->lock);
	assert_int_equal(open_sessions(), 1);
	question.owner = OWNER_POLICY;
	question.listener = site.auto_listener;
	ask(&question, &second);
	engine_heartbeat(site.engine, now_ns);
	assert_int_equal(open_sessions(), 1);
	engine_session_ended(site.engine, site.generation, &second.session, OWNER_POLICY, now_ns);
	assert_int_equal(open_sessions(), 0);
}

/* The policy connection of an earlier session of the slot comes to its next one only now. */
TEST_IN(set_up, tear_down, a_word_put_off_by_a_lock_is_not_forgotten_for_a_late_word_of_its_slot) {
	const struct question question = site_question("192.0.2.1", 1001, NULL);
	const struct session_key key = { question.client, 1001, SESSION_INBOUND };
	struct answer first, second;
	struct session_lock lock;

	ask(&question, &first);
	engine_session_ended(site.engine, site.generation, &first.session, OWNER_POLICY, now_ns);
	ask(&question, &second);
	assert_int_equal(first.session.slot, second.session.slot);
	sessions_aim(site.segment, &key, now_ns, &lock);
	assert_true(sessions_lock(&lock));
	engine_session_ended(site.engine, site.generation, &second.session, OWNER_POLICY, now_ns);
	engine_session_ended(site.engine, site.generation, &first.session, OWNER_POLICY, now_ns);
	sessions_unlock(&lock);
	assert_int_equal(open_sessions(), 1);
	engine_heartbeat(site.engine, now_ns);
	assert_int_equal(open_sessions(), 0);
}

TEST_IN(set_up, tear_down, a_word_put_off_by_a_lock_ends_its_session_later) {
	struct class_record *class = site_class(&site, "all");
	const struct question question = site_question("192.0.2.1", 1001, NULL);
	struct answer answer;

	ask(&question, &answer);
	assert_int_not_equal(lock_acquire(&class->lock, now_ns), LOCK_TIMED_OUT);
	engine_session_ended(site.engine, site.generation, &answer.session, OWNER_POLICY, now_ns);
	lock_release(&class->lock);
	assert_int_equal(open_sessions(), 1);
	engine_heartbeat(site.engine, now_ns);
	assert_int_equal(open_sessions(), 0);
}

TEST_IN(set_up, tear_down, an_end_that_was_noted_is_final_where_nobody_can_look) {
	struct question question = site_question("192.0.2.1", 1, NULL);
	struct session session;
	struct answer answer;

	question.listener = site.lease_listener;
	ask(&question, &answer);
	session_load(site.segment, answer.session.slot - 1, &session);
	session.control.flags |= SESSION_FLAG_ENDED_HINT;
	session_store(site.segment, answer.session.slot - 1, &session);
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_sessions(), 0);
}

TEST_IN(set_up, tear_down, outbound_sessions_of_a_dead_role_end_with_their_lease) {
	struct process_identity identity = { .pid = 7, .start_ticks = 7 };
	struct outbound_question question = { .destination = "a.example",
		.destination_length = 9, .mta = UINT8_MAX };
	struct outbound_process *process =
	    outbound_process_open(site.engine, &identity);
	struct outbound_answer answer;

	outbound_process_ask(process, site.generation, &question, now_ns,
	    &answer);
	assert_int_equal(open_sessions(), 1);
	/* its owner lives: no lease ends */
	now_ns += 2 * site.generation->lease_owner_ns / 3;
	witness_expire(witness, site.generation, now_ns);
	now_ns += 2 * site.generation->lease_owner_ns / 3;
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_sessions(), 1);
	segment_role_died(site.segment, site.place, getpid());
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_sessions(), 1);
	now_ns += site.generation->lease_orphan_ns + NS_PER_SECOND;
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_sessions(), 0);
	outbound_process_close(&process, site.generation, now_ns);
}

TEST_IN(set_up, tear_down, policy_and_milter_name_an_uncounted_session_once) {
	struct question question = site_question("192.0.2.99", 1, NULL);
	struct answer first, second;

	ask(&question, &first);
	assert_int_equal(first.decision.reason, REASON_EXEMPT);
	question.owner = OWNER_MILTER;
	question.listener = site.milter_listener;
	ask(&question, &second);
	assert_int_equal(second.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(second.session.slot, first.session.slot);
	assert_int_equal(counted(COUNTER_UNCOUNTED), 1);
	assert_int_equal(counted(COUNTER_ENDED), 0);
}

/* The fault of a question that did not tell its port concerns every port. */
TEST_IN(set_up, tear_down, a_fault_without_a_port_is_a_gap_of_every_port) {
	struct listener_record *record =
	    segment_listener(site.segment, site.auto_listener, 0);
	struct question question = site_question("192.0.2.1", 1, NULL);
	struct connection shown = { .client = question.client,
		.client_port = 1, .server = question.server,
		.server_port = 25, .alive = true };
	uint32_t sequence;

	atomic_store(&record->fault_begin_ns, now_ns);
	atomic_store(&record->fault_until_ns, now_ns + NS_PER_SECOND);
	(void)segment_listener(site.segment, site.auto_listener, 25);
	assert_non_null(record);
	for (int i = 0; i < 2; i++, now_ns += 600 * NS_PER_MS) {
		struct connection list[1] = { shown };

		sequence = witness_dump_begin(witness);
		witness_dump_end(witness, site.generation, sequence, list, 1,
		    now_ns);
	}
	/* our kernel says "gone" at the last moment: it was looked up */
	assert_int_equal(counted(COUNTER_WITNESS_LOOKUPS), 1);
}
