/* SPDX-License-Identifier: ISC */
/* Outbound connections that the kernel's table shows: which are counted, where,
 * and until when. */
#include "tests/unit/test.h"

#include "base/clock.h"
#include "engine/session/witness.h"
#include "segment/destination/destinations.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/unit/own_site.h"

#define MTAS "mta = ( { name = \"in\"; kind = \"sendmail\"; user = \"root\"; }, " \
	"{ name = \"out\"; kind = \"postfix\"; ports = [ 25, 587 ]; } ); count_unannounced = \"never\"; "
#define CLASS(name, mask) "{ name = \"" name "\"; match = [ " mask " ]; " \
	"hold_at = 2; refuse_at = 2; }"
#define THREE "classes = ( " CLASS("net", "\"198.51.100.0/24\"") ", " \
	CLASS("named", "\"*.example\"") ", " CLASS("rest", "\"*\"") " ); "
#define SMTP_UID 89

static struct witness *witness;
static struct connection kernel[16];
static size_t kernel_count;
static bool kernel_is_silent;
static int64_t now_ns;

static enum lookup_result look_up(void *context, const struct connection *which,
    struct connection *found) {
	if (kernel_is_silent)
		return LOOKUP_UNKNOWN;
	for (size_t i = 0; i < kernel_count; i++) {
		const struct connection *there = &kernel[i];

		if (there->alive && there->outbound == which->outbound &&
		    there->client_port == which->client_port &&
		    there->server_port == which->server_port &&
		    address_equal(&there->client, &which->client) &&
		    address_equal(&there->server, &which->server))
			return LOOKUP_ALIVE;
	}
	return LOOKUP_GONE;
}

static void with(const char *classes) {
	const struct witness_calls calls = { .lookup = look_up };
	struct diag diag;

	site_open(&site, 1000, classes);
	kernel_count = 0;
	kernel_is_silent = false;
	now_ns = clock_now_ns();
	engine_heartbeat(site.engine, now_ns);
	assert_int_equal(witness_open(&witness, site.engine, &calls, 16, &diag), 0);
}

static int tear_down(void **state) {
	bool consistent = site_is_consistent(&site);

	witness_close(&witness);
	site_close(&site);
	return consistent ? 0 : -1;
}

static struct address address(const char *text) {
	struct address parsed;

	assert_true(address_parse(text, strlen(text), &parsed));
	return parsed;
}

static struct connection *kernel_has(const char *server, uint16_t local_port) {
	kernel[kernel_count] = (struct connection){
		.client = address("192.0.2.25"), .client_port = local_port,
		.server = address(server), .server_port = 25, .alive = true,
		.outbound = true, .uid = SMTP_UID };
	return &kernel[kernel_count++];
}

/* A dump that does not list what is hidden. */
static void dump_without(uint16_t hidden) {
	uint32_t sequence = witness_dump_begin(witness);
	struct connection list[16];
	size_t count = 0;

	for (size_t i = 0; i < kernel_count; i++) {
		if (kernel[i].client_port != hidden)
			list[count++] = kernel[i];
	}
	witness_dump_end(witness, site.generation, sequence, list, count, now_ns);
}

static void dump(void) {
	dump_without(0);
}

/* How many a class has after a dump. */
static uint32_t open_in_dump(const char *class) {
	dump();
	return open_of(class);
}

static struct session session_of(uint16_t local_port) {
	for (uint32_t shard = 0; shard < site.segment->header->shard_count;
	     shard++) {
		uint32_t first, count;
		struct session session;

		sessions_range(site.segment, shard, &first, &count);
		for (uint32_t i = 0; i < count; i++) {
			if (session_read(site.segment, shard, first + i, &session) &&
			    session.client_port == local_port)
				return session;
		}
	}
	fail_msg("no session of port %u", local_port);
	return (struct session){ 0 };
}

static void relay_becomes_known(const char *relay, const char *name) {
	struct delivery_seen seen = { .name = "domain.example",
		.name_length = 14, .relay = address(relay), .relay_name = name,
		.relay_name_length = strlen(name), .mta = 1 };

	assert_true(destinations_note(site.segment, &seen, now_ns));
}

TEST_IN(NULL, tear_down, live_connections_are_counted_and_never_refused) {
	with(THREE MTAS);
	kernel_has("203.0.113.1", 1000);
	kernel_has("203.0.113.1", 1001);
	kernel_has("203.0.113.2", 1000);	/* the same local half */
	kernel_has("198.51.100.1", 1002);
	kernel_has("203.0.113.9", 1003)->alive = false;
	assert_int_equal(open_in_dump("rest"), 3);
	assert_int_equal(open_of("net"), 1);
	assert_int_equal(atomic_load(&site_class(&site, "rest")->open_inbound), 0);
	assert_int_equal(counted(COUNTER_ADMITTED), 4);
	assert_int_equal(atomic_load(&site_class(&site, "rest")->admitted), 3);
	assert_int_equal(open_in_dump("rest"), 3);
	assert_int_equal(counted(COUNTER_ADMITTED), 4);
	/* inbound and outbound together */
	assert_int_equal(site_verdict("192.0.2.1", 1, NULL), VERDICT_REFUSE);
	kernel_count = 0;
	assert_int_equal(open_in_dump("rest"), 0);
	assert_int_equal(open_of("net"), 0);
}

TEST_IN(NULL, tear_down, a_dump_that_lacks_one_does_not_end_it) {
	with(THREE MTAS);
	kernel_has("203.0.113.1", 1000);
	dump();
	dump_without(1000);
	assert_int_equal(open_of("rest"), 1);
	kernel_count = 0;
	kernel_is_silent = true;
	assert_int_equal(open_in_dump("rest"), 1);
	kernel_is_silent = false;
	assert_int_equal(open_in_dump("rest"), 0);
}

TEST_IN(NULL, tear_down, announced_ends_are_looked_up) {
	struct connection ended;
	bool at_once;

	with(THREE MTAS);
	ended = *kernel_has("203.0.113.1", 1000);
	dump();
	witness_destroyed(witness, site.generation, &ended, now_ns);
	assert_int_equal(open_of("rest"), 1);
	kernel_count = 0;
	/* not the inbound session of the same four numbers */
	ended.outbound = false;
	witness_destroyed(witness, site.generation, &ended, now_ns);
	assert_int_equal(open_of("rest"), 1);
	ended.outbound = true;
	witness_destroyed(witness, site.generation, &ended, now_ns);
	assert_int_equal(open_of("rest"), 0);
	(void)witness_dump_begin(witness);
	assert_true(witness_wants_dump(witness, site.generation, now_ns,
	    &at_once));
	assert_false(at_once);
	memset(&ended.server, 0, sizeof(ended.server));
	witness_destroyed(witness, site.generation, &ended, now_ns);
	assert_true(witness_wants_dump(witness, site.generation, now_ns,
	    &at_once));
	assert_true(at_once);
}

TEST_IN(NULL, tear_down, who_asks_is_not_counted_twice) {
	with(THREE MTAS);
	kernel_has("203.0.113.1", 1000)->uid = 0;
	assert_int_equal(open_in_dump("rest"), 0);
	/* counted before the configuration told so */
	kernel[0].uid = SMTP_UID;
	assert_int_equal(open_in_dump("rest"), 1);
	kernel[0].uid = 0;
	assert_int_equal(open_in_dump("rest"), 0);
}

TEST_IN(NULL, tear_down, a_client_of_our_own_server_is_inbound) {
	struct connection *server;

	with(THREE MTAS);
	kernel_has("192.0.2.25", 1000);
	/* the server's end comes into the list late */
	assert_int_equal(open_in_dump("rest"), 1);
	server = kernel_has("192.0.2.25", 1000);
	server->outbound = false;
	server->alive = false;		/* not even accepted */
	assert_int_equal(open_in_dump("rest"), 0);
	server->alive = true;
	assert_int_equal(site_verdict("192.0.2.25", 1000, NULL), VERDICT_ADMIT);
	assert_int_equal(open_in_dump("rest"), 1);
	assert_int_equal(atomic_load(&site_class(&site, "rest")->open_inbound), 1);
	kernel_count = 0;
	assert_int_equal(open_in_dump("rest"), 0);
}

TEST_IN(NULL, tear_down, what_does_not_leave_the_host_is_never_outbound) {
	uint16_t ports[16];

	with(THREE MTAS "witness = { ports = [ 25 ]; };");
	assert_true(witness_ports(witness, site.generation, ports, 16) > 0);
	/* of none the server's end is listed */
	kernel_has("192.0.2.25", 1000);
	kernel_has("127.0.0.1", 1001)->client = address("127.0.0.2");
	assert_int_equal(open_in_dump("rest"), 0);
	/* a port that is nobody's service here */
	kernel_has("192.0.2.25", 1000)->server_port = 587;
	kernel_has("127.0.0.1", 1001)->server_port = 587;
	/* and another host's */
	kernel_has("192.0.2.26", 1000);
	assert_int_equal(open_in_dump("rest"), 3);
	kernel_count = 0;
	assert_int_equal(open_in_dump("rest"), 0);
}

TEST_IN(NULL, tear_down, a_name_that_becomes_known_moves_it) {
	with(THREE MTAS);
	kernel_has("203.0.113.1", 1000);
	kernel_has("198.51.100.1", 1001);
	assert_int_equal(open_in_dump("rest"), 1);
	now_ns += 10 * NS_PER_SECOND;
	relay_becomes_known("203.0.113.1", "mx.example");
	relay_becomes_known("198.51.100.1", "mx.example");
	assert_int_equal(open_in_dump("rest"), 0);
	assert_int_equal(open_of("named"), 1);
	assert_int_equal(open_of("net"), 1);	/* the first match is as before */
	assert_int_equal(counted(COUNTER_ADMITTED), 2);
	assert_int_equal(counted(COUNTER_ENDED), 0);
	assert_int_equal(atomic_load(&site_class(&site, "named")->admitted), 1);
	/* its age is what it was */
	assert_true(session_of(1000).opened_ds < 50);
}

TEST_IN(NULL, tear_down, a_reload_moves_what_is_connected) {
	with(THREE MTAS);
	kernel_has("203.0.113.1", 1000);
	kernel_has("198.51.100.1", 1001);
	dump();
	site_reload(&site, "classes = ( " CLASS("wide", "\"203.0.0.0/8\"") ", "
	    CLASS("net", "\"10.0.0.0/8\"") " ); " MTAS);
	assert_int_equal(open_in_dump("wide"), 1);
	assert_int_equal(open_of("rest"), 0);
	assert_int_equal(open_of("net"), 0);	/* of no class now */
	site_reload(&site, THREE MTAS);
	assert_int_equal(open_in_dump("wide"), 0);
	assert_int_equal(open_of("rest"), 1);
	assert_int_equal(open_of("net"), 1);
	/* the same class, another number of the mail server */
	assert_int_equal(session_of(1000).control.listener, 1);
	site_reload(&site, THREE "mta = ( { name = \"out\"; kind = \"postfix\"; } );");
	dump();
	assert_int_equal(session_of(1000).control.listener, 0);
	assert_int_equal(open_of("rest"), 1);
	kernel_count = 0;
	dump();
	assert_int_equal(counted(COUNTER_ENDED), 2);
}

TEST_IN(NULL, tear_down, without_sight_a_lease_runs) {
	with(THREE MTAS);
	kernel_has("203.0.113.1", 1000);
	dump();
	/* as old as it may be: the witness stands for it */
	now_ns += 2 * site.generation->lease_orphan_ns;
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_of("rest"), 1);
	witness_dump_failed(witness, now_ns);
	now_ns += 11 * NS_PER_SECOND;
	witness_expire(witness, site.generation, now_ns);
	now_ns += site.generation->lease_orphan_ns / 2;
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_of("rest"), 1);
	/* sight comes back */
	dump();
	now_ns += site.generation->lease_orphan_ns;
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_of("rest"), 1);
	witness_dump_failed(witness, now_ns);
	now_ns += 11 * NS_PER_SECOND;
	witness_expire(witness, site.generation, now_ns);
	now_ns += site.generation->lease_orphan_ns + NS_PER_SECOND;
	witness_expire(witness, site.generation, now_ns);
	assert_int_equal(open_of("rest"), 0);
}

TEST_IN(NULL, tear_down, at_rest_there_is_a_dump_where_an_mta_is_known) {
	bool at_once;

	with(THREE "count_unannounced = \"never\";");
	(void)witness_dump_begin(witness);
	assert_false(witness_wants_dump(witness, site.generation, now_ns,
	    &at_once));
	site_reload(&site, THREE MTAS);
	assert_true(witness_wants_dump(witness, site.generation, now_ns,
	    &at_once));
}

TEST_IN(NULL, tear_down, taken_over_ones_are_confirmed_by_the_first_dump) {
	struct connection *lives;
	struct diag diag;

	with(THREE MTAS);
	kernel_has("203.0.113.1", 1000);
	lives = kernel_has("203.0.113.2", 1001);
	dump();
	assert_int_equal(segment_save_sessions(site.segment, now_ns, &diag), 0);
	witness_close(&witness);
	site_restart(&site, 4000, THREE MTAS);
	assert_int_equal(open_of("rest"), 2);
	assert_int_equal(witness_open(&witness, site.engine,
	    &(const struct witness_calls){ .lookup = look_up }, 16, &diag), 0);
	kernel[0] = *lives;
	kernel_count = 1;
	now_ns = clock_now_ns();
	assert_int_equal(open_in_dump("rest"), 1);
}
