/* SPDX-License-Identifier: ISC */
/* A site and a kernel of the test's own, for a witness; included by one test program,
 * behind cmocka.h. */
#ifndef TESTS_UNIT_WITNESS_WORLD_H
#define TESTS_UNIT_WITNESS_WORLD_H

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/session/witness.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/unit/own_site.h"

#define FOUR "classes = ( { name = \"net\"; match = [ \"198.51.100.0/24\" ]; " \
	"hold_at = 1; refuse_at = 1; }, " \
	"{ name = \"named\"; match = [ \"*.example\" ]; hold_at = 9; refuse_at = 9; }, " \
	"{ name = \"all\"; match = [ \"*\" ]; hold_at = 4; refuse_at = 4; } );"
#define MS NS_PER_MS

static struct witness *witness;
static struct connection kernel[64];	/* what lookups and dumps show */
static size_t kernel_count;
static bool kernel_is_silent;
static uint32_t sockets[8];	/* that the mail server holds, in order */
static size_t socket_count;
static unsigned lookups;
static void (*after_lookup)(void);	/* what happens once the kernel has answered "gone" */
static int64_t now_ns;

static inline enum lookup_result look_up(void *context, const struct connection *which,
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
	if (after_lookup != NULL)
		after_lookup();
	return LOOKUP_GONE;
}

static inline bool all_sockets(void *context, const uint32_t **list, size_t *count) {
	(void)context;
	*list = sockets;
	*count = socket_count;
	return !kernel_is_silent;
}

static inline enum lookup_result one_socket(void *context, uint32_t inode, uint32_t *peer) {
	(void)context;
	*peer = 0;
	for (size_t i = 0; i < socket_count; i++)
		if (sockets[i] == inode)
			return LOOKUP_ALIVE;
	return LOOKUP_GONE;
}

static inline int set_up(void **state) {
	const struct witness_calls calls = { .lookup = look_up, .sockets = all_sockets,
		.socket = one_socket };
	struct diag diag;

	(void)state;
	site_open(&site, 1000, FOUR);
	kernel_count = socket_count = 0;
	kernel_is_silent = false;
	after_lookup = NULL;
	now_ns = clock_now_ns();
	engine_heartbeat(site.engine, now_ns);
	assert_int_equal(engine_lend_witness(site.engine, &calls, &diag), 0);
	assert_int_equal(witness_open(&witness, site.engine, &calls, 16, &diag), 0);
	return 0;
}

static inline int tear_down(void **state) {
	bool consistent = site_is_consistent(&site);

	(void)state;
	witness_close(&witness);
	site_close(&site);
	return consistent ? 0 : -1;
}

static inline struct connection tuple(const char *client, uint16_t port) {
	struct question question = site_question(client, port, NULL);

	return (struct connection){ .client = question.client,
		.client_port = port, .server = question.server,
		.server_port = 25, .alive = true };
}

static inline void kernel_has(const char *client, uint16_t port) {
	kernel[kernel_count++] = tuple(client, port);
}

static inline void pass(int64_t ms) {
	now_ns += ms * MS;
	engine_heartbeat(site.engine, now_ns);
}

/* The kernel's table without what `hidden` names, as a dump of it. */
static inline void dump_without(uint16_t hidden) {
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

static inline void dump(void) {
	dump_without(0);
}

/* So many of them, half a second apart. */
static inline void dumps(unsigned count) {
	dump();
	for (; count > 1; count--) {
		pass(500);
		dump();
	}
}

/* How many a class has after a dump. */
static inline uint32_t open_in_dump(const char *class) {
	dump();
	return open_of(class);
}

static inline void destroyed(const char *client, uint16_t port) {
	struct connection which = tuple(client, port);

	witness_destroyed(witness, site.generation, &which, now_ns);
}

static inline struct session_ref open_as(enum session_owner owner, uint8_t listener,
    const char *client, uint16_t port) {
	struct question question = site_question(client, port, NULL);
	struct answer answer;

	question.owner = owner;
	question.listener = listener;
	answer = site_ask(&question, now_ns);
	return answer.session;
}

static inline struct session_ref open_one(const char *client, uint16_t port) {
	return open_as(OWNER_POLICY, site.auto_listener, client, port);
}

/* One that the kernel shows, in a dump too. */
static inline struct session_ref open_shown(const char *client, uint16_t port) {
	struct session_ref ref = open_one(client, port);

	kernel_has(client, port);
	dump();
	return ref;
}

static inline bool lives(const struct session_ref *ref, struct session *session) {
	session_load(site.segment, ref->slot - 1, session);
	return session->control.state != SESSION_FREE &&
	    (session->serial | SESSION_SERIAL_ASKED) == (ref->serial | SESSION_SERIAL_ASKED);
}

static inline void assert_lives(const struct session_ref *ref) {
	struct session session;

	assert_true(lives(ref, &session));
}

static inline void assert_over(const struct session_ref *ref) {
	struct session session;

	assert_false(lives(ref, &session));
}

static inline uint8_t proof_of(const struct session_ref *ref) {
	struct session session;

	assert_true(lives(ref, &session));
	return session.control.proof;
}

static inline struct role_record *role(void) {
	return &segment_header(site.segment)->roles[site.place];
}

/* A dump, at any time; one at once. */
static inline bool wants(bool *at_once) {
	return witness_wants_dump(witness, site.generation, now_ns, at_once);
}

static inline bool wants_at_once(void) {
	bool at_once;

	(void)wants(&at_once);
	return at_once;
}

#endif
