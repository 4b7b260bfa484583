/* SPDX-License-Identifier: ISC */
/* The witness against a real segment and a kernel of our own: what closes a
 * session, what leaves it alone, and what is adopted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/witness.h"
#include "segment/internal.h"
#include "segment/sessions.h"
#include "site.h"

#define FOUR "classes = ( { name = \"net\"; match = [ \"198.51.100.0/24\" ]; " \
	"sessions = 1; inbound = 1; }, " \
	"{ name = \"named\"; match = [ \"*.example\" ]; sessions = 9; inbound = 9; }, " \
	"{ name = \"all\"; match = [ \"*\" ]; sessions = 4; inbound = 4; } );"
#define MS NS_PER_MS

static struct site site;
static struct witness *witness;
static struct connection kernel[64];	/* what lookups and dumps show */
static size_t kernel_count;
static bool kernel_is_silent;
static unsigned lookups;
static int64_t now_ns;

static enum lookup_result look_up(void *context, const struct connection *which,
    struct connection *found) {
	(void)context;
	lookups++;
	if (kernel_is_silent)
		return LOOKUP_UNKNOWN;
	for (size_t i = 0; i < kernel_count; i++) {
		const struct connection *there = &kernel[i];

		if (!there->alive || there->client_port != which->client_port ||
		    !address_equal(&there->client, &which->client) ||
		    (which->server_port != 0 &&
			which->server_port != there->server_port))
			continue;
		if (found != NULL)
			*found = *there;
		return LOOKUP_ALIVE;
	}
	return LOOKUP_GONE;
}

static int set_up(void **state) {
	const struct witness_calls calls = { .lookup = look_up };
	struct diag diag;

	(void)state;
	site_open(&site, 1000, FOUR);
	kernel_count = 0;
	kernel_is_silent = false;
	now_ns = clock_now_ns();
	engine_heartbeat(site.engine, now_ns);
	assert_int_equal(witness_open(&witness, site.engine, &calls, 16, &diag), 0);
	return 0;
}

static int tear_down(void **state) {
	bool consistent = site_is_consistent(&site);

	(void)state;
	witness_close(&witness);
	site_close(&site);
	return consistent ? 0 : -1;
}

static struct connection tuple(const char *client, uint16_t port) {
	struct question question = site_question(client, port, NULL);

	return (struct connection){ .client = question.client,
		.client_port = port, .server = question.server,
		.server_port = 25, .alive = true };
}

static void kernel_has(const char *client, uint16_t port) {
	kernel[kernel_count++] = tuple(client, port);
}

static void pass(int64_t ms) {
	now_ns += ms * MS;
	engine_heartbeat(site.engine, now_ns);
}

/* The kernel's table without what `hidden` names, as a dump of it. */
static void dump_without(uint16_t hidden) {
	struct connection list[64];
	uint16_t ports[64];
	size_t count = 0;
	uint32_t sequence;

	(void)witness_ports(witness, site.generation, ports, 64);
	sequence = witness_dump_begin(witness);
	for (size_t i = 0; i < kernel_count; i++) {
		if (kernel[i].client_port != hidden)
			list[count++] = kernel[i];
	}
	witness_dump_end(witness, site.generation, sequence, list, count, now_ns);
}

static void dump(void) {
	dump_without(0);
}

static void destroyed(const char *client, uint16_t port) {
	struct connection which = tuple(client, port);

	witness_destroyed(witness, site.generation, &which, now_ns);
}

static struct session_ref open_as(enum session_owner owner, uint8_t listener,
    const char *client, uint16_t port) {
	struct question question = site_question(client, port, NULL);
	struct answer answer;

	question.owner = owner;
	question.listener = listener;
	engine_session_open(site.engine, site.generation, &question, now_ns,
	    &answer);
	return answer.session;
}

static struct session_ref open_one(const char *client, uint16_t port) {
	return open_as(OWNER_POLICY, site.auto_listener, client, port);
}

static bool lives(const struct session_ref *ref, struct session *session) {
	session_load(site.segment, ref->slot - 1, session);
	return session->control.state != SESSION_FREE &&
	    session->serial == ref->serial;
}

static void assert_lives(const struct session_ref *ref) {
	struct session session;

	assert_true(lives(ref, &session));
}

static void assert_over(const struct session_ref *ref) {
	struct session session;

	assert_false(lives(ref, &session));
}

static uint8_t proof_of(const struct session_ref *ref) {
	struct session session;

	assert_true(lives(ref, &session));
	return session.control.proof;
}

static uint32_t open_in(const char *class) {
	return atomic_load(&site_class(&site, class)->open);
}

static struct role_record *role(void) {
	return &segment_header(site.segment)->roles[site.place];
}

/* --- dumps ------------------------------------------------------------- */

static void a_shown_session_ends_when_its_connection_is_gone(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);

	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	assert_int_equal(proof_of(&one), SESSION_PROOF_WITNESS);
	kernel_count = 0;
	dump();
	assert_over(&one);
	assert_int_equal(open_in("all"), 0);
}

static void a_connection_that_no_process_holds_is_no_session(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);

	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	kernel[0].alive = false;
	dump();
	assert_over(&one);
}

static void a_session_never_shown_is_left_on_an_unknown_listener(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);

	(void)state;
	dump();
	pass(600);
	dump();
	assert_lives(&one);
	assert_int_equal(proof_of(&one), SESSION_PROOF_OWNER);
	/* the end of its policy connection is final with the next dump */
	engine_session_ended(site.engine, site.generation, &one,
	    OWNER_POLICY_GONE, now_ns);
	assert_lives(&one);
	dump();
	assert_over(&one);
}

static void a_listener_whose_sessions_were_visible_closes_unseen_ones(
    void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001), two;

	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	two = open_one("192.0.2.2", 1002);
	dump();
	assert_lives(&one);
	assert_over(&two);
}

static void a_dump_ends_only_what_was_opened_before_it(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001), two;
	uint32_t sequence;

	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	sequence = witness_dump_begin(witness);
	two = open_one("192.0.2.2", 1002);
	witness_dump_end(witness, site.generation, sequence, kernel, 1, now_ns);
	assert_lives(&two);
	dump();
	assert_over(&two);
	assert_lives(&one);
}

static void one_lookup_before_closing_can_save_a_session(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);

	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	lookups = 0;
	dump_without(1001);
	assert_lives(&one);
	assert_int_equal(lookups, 1);
	kernel_is_silent = true;
	kernel_count = 0;
	dump();
	assert_lives(&one);
	kernel_is_silent = false;
	dump();
	assert_over(&one);
}

static void a_hint_of_an_end_is_believed_when_the_kernel_agrees(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);

	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	engine_session_ended(site.engine, site.generation, &one, OWNER_POLICY, now_ns);
	assert_lives(&one);
	dump();
	assert_lives(&one);
	kernel_count = 0;
	dump();
	assert_over(&one);
}

static void sessions_in_no_count_end_likewise(void **state) {
	struct session_ref refused, kept[4];
	struct session session;

	(void)state;
	for (uint16_t i = 0; i < 4; i++) {
		kept[i] = open_one("192.0.2.1", (uint16_t)(1001 + i));
		kernel_has("192.0.2.1", (uint16_t)(1001 + i));
	}
	refused = open_one("192.0.2.1", 1005);
	kernel_has("192.0.2.1", 1005);
	dump();
	assert_true(lives(&refused, &session));
	assert_int_equal(session.control.state, SESSION_REFUSED);
	kernel_count = 4;
	dump();
	assert_over(&refused);
	assert_lives(&kept[0]);
	assert_int_equal(open_in("all"), 4);
}

static void an_unknown_server_half_is_found_and_filled_in(void **state) {
	struct question question = site_question("192.0.2.1", 1001, NULL);
	struct answer answer;
	struct session session;

	(void)state;
	memset(&question.server, 0, sizeof(question.server));
	question.server_port = 0;
	question.listener = site.auto_listener;
	engine_session_open(site.engine, site.generation, &question, now_ns,
	    &answer);
	kernel_has("192.0.2.1", 1001);
	kernel[0].server_port = 2525; /* no dump asks for it */
	dump_without(1001);
	assert_true(lives(&answer.session, &session));
	assert_int_equal(session.control.proof, SESSION_PROOF_WITNESS);
	assert_int_equal(session.server_port, 2525);
	kernel_count = 0;
	dump();
	assert_over(&answer.session);
}

/* --- what the listeners teach -------------------------------------------- */

static void a_session_of_a_proxy_is_held_by_its_milter(void **state) {
	struct session_ref held = open_as(OWNER_MILTER, site.milter_listener,
	    "192.0.2.1", 1001), direct;
	const struct listener_record *record = segment_listener(site.segment,
	    site.milter_listener, 25);

	(void)state;
	dump();
	assert_int_equal(atomic_load(&record->unseen), 0);
	pass(2500);
	dump();
	assert_int_equal(atomic_load(&record->unseen), 1);
	/* sessions that are shown are witnessed there all the same, but others
	 * are not closed */
	direct = open_as(OWNER_MILTER, site.milter_listener, "192.0.2.2", 1002);
	kernel_has("192.0.2.2", 1002);
	pass(600);
	dump();
	assert_int_equal(proof_of(&direct), SESSION_PROOF_WITNESS);
	assert_lives(&held);
	engine_session_ended(site.engine, site.generation, &held, OWNER_MILTER, now_ns);
	assert_over(&held);
}

static void a_stopped_milter_teaches_nothing(void **state) {
	const struct listener_record *record = segment_listener(site.segment,
	    site.milter_listener, 25);

	(void)state;
	(void)open_as(OWNER_MILTER, site.milter_listener, "192.0.2.1", 1001);
	now_ns += 2500 * MS;	/* no heartbeat */
	dump();
	assert_int_equal(atomic_load(&record->unseen), 0);
}

static void an_announced_end_teaches_that_the_listener_is_visible(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001), two;

	(void)state;
	destroyed("192.0.2.1", 1001);
	assert_over(&one);
	two = open_one("192.0.2.2", 1002);
	dump();
	assert_over(&two);
}

/* --- announcements --------------------------------------------------------- */

static bool wants(bool *at_once) {
	return witness_wants_dump(witness, site.generation, now_ns, at_once);
}

static void an_announced_end_closes_at_once(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);
	struct session_ref two = open_one("192.0.2.1", 1002);

	(void)state;
	kernel_has("192.0.2.1", 1001);
	kernel_has("192.0.2.1", 1002);
	dump();
	kernel_count = 1;
	destroyed("192.0.2.1", 1002);
	assert_lives(&one);
	assert_over(&two);
	assert_int_equal(open_in("all"), 1);
}

static void an_announced_end_of_a_live_tuple_closes_nothing(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);
	bool at_once;

	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	assert_true(wants(&at_once));
	assert_false(at_once);
	destroyed("192.0.2.1", 1001);
	assert_lives(&one);
	assert_true(wants(&at_once));
	assert_true(at_once);
}

static void an_announcement_without_the_remote_half_asks_for_a_dump(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);
	struct connection which = tuple("192.0.2.1", 0);
	bool at_once;

	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	memset(&which.client, 0, sizeof(which.client));
	witness_destroyed(witness, site.generation, &which, now_ns);
	assert_lives(&one);
	assert_true(wants(&at_once));
	assert_true(at_once);
	/* not for a port that nobody watches */
	dump();
	which.server_port = 12345;
	witness_destroyed(witness, site.generation, &which, now_ns);
	assert_true(wants(&at_once));
	assert_false(at_once);
}

static void xclient_lives_by_the_tuple_of_the_connect_before(void **state) {
	struct question question = site_question("203.0.113.9", 4444, NULL);
	struct connection carrier = tuple("192.0.2.1", 1001);
	struct answer answer;

	(void)state;
	question.listener = site.auto_listener;
	question.carried = true;
	question.carrier_client = carrier.client;
	question.carrier_port = 1001;
	(void)open_one("192.0.2.1", 1001);
	engine_session_open(site.engine, site.generation, &question, now_ns,
	    &answer);
	kernel_has("192.0.2.1", 1001);
	dump();
	assert_int_equal(proof_of(&answer.session), SESSION_PROOF_WITNESS);
	dump();
	/* an end of the told tuple is somebody else's */
	destroyed("203.0.113.9", 4444);
	assert_lives(&answer.session);
	kernel_count = 0;
	destroyed("192.0.2.1", 1001);
	assert_over(&answer.session);
	assert_int_equal(open_in("all"), 0);
}

/* --- leases ------------------------------------------------------------------ */

static void a_lease_listener_is_not_witnessed(void **state) {
	struct session_ref one = open_as(OWNER_POLICY, site.lease_listener,
	    "192.0.2.1", 1001);

	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	assert_int_equal(proof_of(&one), SESSION_PROOF_LEASE);
	kernel_count = 0;
	dump();
	destroyed("192.0.2.1", 1001);
	assert_lives(&one);
	pass(3590 * 1000);
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&one);
	pass(20 * 1000);
	witness_expire(witness, site.generation, now_ns);
	assert_over(&one);
	assert_int_equal(open_in("all"), 0);
}

static void an_owner_that_lives_renews_its_lease(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);

	(void)state;
	for (unsigned hour = 0; hour < 30; hour++) {
		pass(1000 * 1000);
		witness_expire(witness, site.generation, now_ns);
		assert_lives(&one);
	}
	/* its role dies: ten minutes are left */
	atomic_store(&role()->incarnation, 0);
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(proof_of(&one), SESSION_PROOF_LEASE);
	now_ns += 590 * NS_PER_SECOND;
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&one);
	now_ns += 20 * NS_PER_SECOND;
	witness_expire(witness, site.generation, now_ns);
	assert_over(&one);
}

static void a_witnessed_session_has_no_lease(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);

	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	atomic_store(&role()->incarnation, 0);
	now_ns += 7200 * NS_PER_SECOND;
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&one);
	kernel_count = 0;
	dump();
	assert_over(&one);
}

static void a_refused_session_that_cannot_be_seen_is_forgotten(void **state) {
	struct session_ref refused;

	(void)state;
	for (uint16_t i = 0; i < 4; i++)
		(void)open_one("192.0.2.1", (uint16_t)(1001 + i));
	refused = open_one("192.0.2.1", 1005);
	pass(50 * 1000);
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&refused);
	pass(15 * 1000);
	witness_expire(witness, site.generation, now_ns);
	assert_over(&refused);
	assert_int_equal(open_in("all"), 4);
}

static void without_a_readable_table_owners_decide(void **state) {
	struct session_ref one = open_one("192.0.2.1", 1001);
	struct session_ref two = open_one("192.0.2.2", 1002);

	(void)state;
	kernel_has("192.0.2.1", 1001);
	kernel_has("192.0.2.2", 1002);
	dump();
	engine_session_ended(site.engine, site.generation, &one, OWNER_POLICY, now_ns);
	witness_dump_failed(witness, now_ns);
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&one);
	pass(11 * 1000);
	witness_dump_failed(witness, now_ns);
	witness_expire(witness, site.generation, now_ns);
	assert_over(&one);
	assert_lives(&two);
	dump();
	assert_int_equal(proof_of(&two), SESSION_PROOF_WITNESS);
}

/* --- adoption ------------------------------------------------------------------ */

static void gap(int64_t begin_ms, int64_t end_ms) {
	atomic_store(&role()->gap_begin_ns, now_ns + begin_ms * MS);
	atomic_store(&role()->gap_end_ns, now_ns + end_ms * MS);
}

static void what_began_in_a_gap_is_adopted_by_address(void **state) {
	(void)state;
	gap(-3000, -100);
	kernel_has("198.51.100.1", 1001);
	kernel_has("198.51.100.2", 1002);
	kernel_has("192.0.2.1", 1003);
	dump();
	pass(499);
	dump();
	assert_int_equal(open_in("net"), 0);
	pass(1);
	dump();
	/* above its limit of 1; the name's class is never guessed */
	assert_int_equal(open_in("net"), 2);
	assert_int_equal(open_in("all"), 1);
	assert_int_equal(atomic_load(&site_class(&site, "net")->adopted), 2);
	kernel_count = 0;
	dump();
	assert_int_equal(open_in("net"), 0);
	assert_int_equal(open_in("all"), 0);
}

static void an_adopted_session_is_decided_without_its_own_count(void **state) {
	struct session_ref ref;

	(void)state;
	gap(-3000, -100);
	kernel_has("198.51.100.1", 1001);
	dump();
	pass(500);
	dump();
	assert_int_equal(open_in("net"), 1);
	assert_int_equal(site_inbound(&site, "198.51.100.1", 1001, NULL, &ref),
	    VERDICT_ADMIT);
	assert_int_equal(open_in("net"), 1);
}

static void what_was_there_before_the_gap_is_not_adopted(void **state) {
	(void)state;
	kernel_has("192.0.2.1", 1001);
	dump();
	pass(100);
	gap(-50, 200);
	pass(300);
	dump();
	pass(600);
	dump();
	assert_int_equal(open_in("all"), 0);
}

static void what_begins_long_after_the_gap_is_not_adopted(void **state) {
	(void)state;
	gap(-3000, -1001);
	kernel_has("192.0.2.1", 1001);
	for (unsigned i = 0; i < 4; i++) {
		dump();
		pass(500);
	}
	assert_int_equal(open_in("all"), 0);
}

static void what_was_answered_is_not_adopted(void **state) {
	(void)state;
	gap(-3000, 5000);
	for (uint16_t i = 0; i < 6; i++) {	/* two are refused */
		(void)open_one("192.0.2.1", (uint16_t)(1001 + i));
		kernel_has("192.0.2.1", (uint16_t)(1001 + i));
	}
	for (unsigned i = 0; i < 4; i++) {
		dump();
		pass(500);
	}
	assert_int_equal(open_in("all"), 4);
	assert_int_equal(atomic_load(&site_class(&site, "all")->adopted), 0);
}

static void what_carries_an_xclient_session_is_not_adopted(void **state) {
	struct question question = site_question("203.0.113.9", 4444, NULL);
	struct answer answer;

	(void)state;
	gap(-3000, 5000);
	question.carried = true;
	question.carrier_client = tuple("192.0.2.1", 1001).client;
	question.carrier_port = 1001;
	question.listener = site.auto_listener;
	engine_session_open(site.engine, site.generation, &question, now_ns,
	    &answer);
	kernel_has("192.0.2.1", 1001);
	for (unsigned i = 0; i < 4; i++) {
		dump();
		pass(500);
	}
	assert_int_equal(open_in("all"), 1);
}

static void a_backlog_is_not_adopted(void **state) {
	(void)state;
	gap(-3000, 5000);
	kernel_has("192.0.2.1", 1001);
	kernel[0].alive = false;	/* inode 0: not accepted yet */
	for (unsigned i = 0; i < 4; i++) {
		dump();
		pass(500);
	}
	assert_int_equal(open_in("all"), 0);
}

static void a_gap_of_a_role_that_serves_another_port_adopts_nothing(void **state) {
	struct session_ref one = open_as(OWNER_MILTER, site.milter_listener,
	    "192.0.2.1", 1001);

	(void)state;
	/* port 25 is known to be the milter's; the gap is the policy role's */
	kernel_has("192.0.2.1", 1001);
	dump();
	gap(-100, 5000);
	kernel_has("192.0.2.2", 1002);
	for (unsigned i = 0; i < 4; i++) {
		dump();
		pass(500);
	}
	assert_int_equal(open_in("all"), 1);
	assert_lives(&one);
}

static void connections_of_a_proxy_are_not_adopted(void **state) {
	const struct listener_record *record = segment_listener(site.segment,
	    site.auto_listener, 25);
	struct session_ref one = open_one("192.0.2.1", 1001);

	(void)state;
	pass(2500);
	dump();
	assert_int_equal(atomic_load(&record->absent), 1);
	assert_lives(&one);
	gap(-100, 5000);
	kernel_has("203.0.113.1", 1002);	/* the proxy's */
	for (unsigned i = 0; i < 4; i++) {
		dump();
		pass(500);
	}
	assert_int_equal(open_in("all"), 1);
}

static void a_lock_that_timed_out_is_a_gap_of_its_listener(void **state) {
	struct listener_record *record = segment_listener(site.segment,
	    site.auto_listener, 25);

	(void)state;
	atomic_store(&record->fault_until_ns, now_ns + NS_PER_SECOND);
	kernel_has("192.0.2.1", 1001);
	dump();
	pass(500);
	dump();
	assert_int_equal(open_in("all"), 1);
}

static void adopt_always_and_never(void **state) {
	(void)state;
	kernel_has("192.0.2.1", 1001);
	site_reload(&site, "adopt = \"never\"; " FOUR);
	gap(-3000, 100000);
	dump();
	pass(500);
	dump();
	assert_int_equal(open_in("all"), 0);
	gap(-3000, -2000);
	site_reload(&site, "adopt = \"always\"; " FOUR);
	dump();
	assert_int_equal(open_in("all"), 1);
}

static void too_many_unannounced_connections_are_left_alone(void **state) {
	(void)state;
	site_reload(&site, "adopt = \"always\"; " FOUR);
	for (uint16_t i = 0; i < 40; i++)	/* the memory holds 16 */
		kernel_has("192.0.2.1", (uint16_t)(1001 + i));
	for (unsigned i = 0; i < 2; i++) {
		dump();
		pass(500);
	}
	assert_int_equal(open_in("all"), 16);
}

/* --- when to look ------------------------------------------------------------ */

static void without_adoption_there_is_no_dump_at_rest(void **state) {
	bool at_once;

	(void)state;
	dump();
	assert_true(wants(&at_once));
	assert_false(at_once);
	site_reload(&site, "adopt = \"never\"; " FOUR);
	assert_false(wants(&at_once));
	(void)open_one("192.0.2.1", 1001);
	assert_true(wants(&at_once));
	assert_false(at_once);
}

static void begin_and_end_of_a_gap_ask_for_a_dump_at_once(void **state) {
	bool at_once;

	(void)state;
	dump();
	(void)wants(&at_once);
	assert_false(at_once);
	gap(-50, 0);
	atomic_store(&role()->gap_end_ns, INT64_MAX);
	(void)wants(&at_once);
	assert_true(at_once);
	dump();
	pass(1000);
	(void)wants(&at_once);
	assert_false(at_once);
	gap(-1000, 0);
	(void)wants(&at_once);
	assert_true(at_once);
	dump();
	(void)wants(&at_once);
	assert_false(at_once);
}

static void ports_of_sessions_are_watched_too(void **state) {
	struct question question = site_question("192.0.2.1", 1001, NULL);
	struct answer answer;
	uint16_t ports[64];
	bool at_once;

	(void)state;
	assert_int_equal(witness_ports(witness, site.generation, ports, 64), 1);
	assert_int_equal(ports[0], 25);
	question.server_port = 587;
	question.listener = site.auto_listener;
	engine_session_open(site.engine, site.generation, &question, now_ns,
	    &answer);
	dump();
	assert_lives(&answer.session);
	assert_true(wants(&at_once));
	assert_true(at_once);
	assert_int_equal(witness_ports(witness, site.generation, ports, 64), 2);
	assert_int_equal(ports[1], 587);
	dump();
	assert_true(wants(&at_once));
	assert_false(at_once);
}

static void sessions_taken_over_are_confirmed_by_the_first_dump(void **state) {
	bool at_once;

	(void)state;
	atomic_store(&segment_header(site.segment)->unconfirmed, 1);
	assert_true(wants(&at_once));
	assert_true(at_once);
	dump();
	assert_int_equal(atomic_load(&segment_header(site.segment)->unconfirmed), 0);
	atomic_store(&segment_header(site.segment)->unconfirmed, 1);
	witness_dump_failed(witness, now_ns);
	assert_int_equal(atomic_load(&segment_header(site.segment)->unconfirmed), 0);
}

static void news_are_told_once(void **state) {
	struct witness_news news;

	(void)state;
	gap(-3000, -100);
	kernel_has("192.0.2.1", 1001);
	dump();
	pass(500);
	dump();
	witness_news(witness, &news);
	assert_int_equal(news.adopted, 1);
	witness_news(witness, &news);
	assert_int_equal(news.adopted, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_shown_session_ends_when_its_connection_is_gone),
		TEST(a_connection_that_no_process_holds_is_no_session),
		TEST(a_session_never_shown_is_left_on_an_unknown_listener),
		TEST(a_listener_whose_sessions_were_visible_closes_unseen_ones),
		TEST(a_dump_ends_only_what_was_opened_before_it),
		TEST(one_lookup_before_closing_can_save_a_session),
		TEST(a_hint_of_an_end_is_believed_when_the_kernel_agrees),
		TEST(sessions_in_no_count_end_likewise),
		TEST(an_unknown_server_half_is_found_and_filled_in),
		TEST(a_session_of_a_proxy_is_held_by_its_milter),
		TEST(a_stopped_milter_teaches_nothing),
		TEST(an_announced_end_teaches_that_the_listener_is_visible),
		TEST(an_announced_end_closes_at_once),
		TEST(an_announced_end_of_a_live_tuple_closes_nothing),
		TEST(an_announcement_without_the_remote_half_asks_for_a_dump),
		TEST(xclient_lives_by_the_tuple_of_the_connect_before),
		TEST(a_lease_listener_is_not_witnessed),
		TEST(an_owner_that_lives_renews_its_lease),
		TEST(a_witnessed_session_has_no_lease),
		TEST(a_refused_session_that_cannot_be_seen_is_forgotten),
		TEST(without_a_readable_table_owners_decide),
		TEST(what_began_in_a_gap_is_adopted_by_address),
		TEST(an_adopted_session_is_decided_without_its_own_count),
		TEST(what_was_there_before_the_gap_is_not_adopted),
		TEST(what_begins_long_after_the_gap_is_not_adopted),
		TEST(what_was_answered_is_not_adopted),
		TEST(what_carries_an_xclient_session_is_not_adopted),
		TEST(a_backlog_is_not_adopted),
		TEST(a_gap_of_a_role_that_serves_another_port_adopts_nothing),
		TEST(connections_of_a_proxy_are_not_adopted),
		TEST(a_lock_that_timed_out_is_a_gap_of_its_listener),
		TEST(adopt_always_and_never),
		TEST(too_many_unannounced_connections_are_left_alone),
		TEST(without_adoption_there_is_no_dump_at_rest),
		TEST(begin_and_end_of_a_gap_ask_for_a_dump_at_once),
		TEST(ports_of_sessions_are_watched_too),
		TEST(sessions_taken_over_are_confirmed_by_the_first_dump),
		TEST(news_are_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
