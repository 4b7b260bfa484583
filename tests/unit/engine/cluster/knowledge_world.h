/* SPDX-License-Identifier: ISC */
/* Three machines in virtual time, whose records of destinations go to and fro as Redis would
 * carry them; included by one test program, behind cmocka.h. */
#ifndef TESTS_UNIT_KNOWLEDGE_WORLD_H
#define TESTS_UNIT_KNOWLEDGE_WORLD_H

#include <unistd.h>

#include "tests/unit/check.h"
#include "base/process.h"
#include "engine/cluster/knowledge.h"
#include "tests/unit/random.h"
#include "tests/unit/engine/feed/results.h"

#define NODES		3
#define MESSAGES	4096
#define OF_KIND(kind) "classes = ( { name = \"c\"; match = \"*\"; } );\n" \
    "mta = ( { name = \"a\"; kind = \"" kind "\"; log = \"/a\"; } );\n" \
    "cluster = { redis = \"unix:/run/redis\"; node = \"mx0\"; nodes = 3; lease = \"15s\"; };\n"

struct message {
	unsigned from;
	char name[128];
	struct knowledge_told told;
};

static struct site sites[NODES];
static struct knowledge_store *stores[NODES];
static const char *const names[NODES] = { "mx0", "mx1", "mx2" };
static struct message messages[MESSAGES];
static unsigned message_count;

/* The helpers of results.h work on this one from now on. */
static inline void at(unsigned node) {
	site = sites[node];
}

static inline void open_store(unsigned node) {
	struct diag diag;

	assert_int_equal(knowledge_open(&stores[node], sites[node].engine, names[node], &diag),
	    0);
}

static inline void begin_sized(const char *configuration, uint64_t destinations) {
	site_providers = NULL;
	for (unsigned i = 0; i < NODES; i++) {
		site_open_sized(&sites[i], 64, destinations, configuration);
		open_store(i);
		knowledge_begin_hearing(stores[i]);
		knowledge_heard_all(stores[i], true, 1);
	}
	message_count = 0;
	now_ns = clock_now_ns();
}

static inline void begin_with(const char *configuration) {
	begin_sized(configuration, 256);
}

static inline int begin(void **state) {
	begin_with(OF_KIND("postfix"));
	return 0;
}

static inline int end(void **state) {
	for (unsigned i = 0; i < NODES; i++) {
		knowledge_close(&stores[i]);
		site_close(&sites[i]);
	}
	return 0;
}

static inline void turn(unsigned node) {
	knowledge_turn(stores[node], sites[node].generation, now_ns);
}

/* What a node has to tell, as messages. */
static inline unsigned tell(unsigned node) {
	struct knowledge_own own;
	unsigned count = 0;

	turn(node);
	now_ns += NS_PER_SECOND / 2;
	while (knowledge_next(stores[node], now_ns, &own)) {
		struct message *message = &messages[message_count++];

		assert_true(message_count < MESSAGES);
		message->from = node;
		snprintf(message->name, sizeof(message->name), "%s", own.name);
		message->told = *own.told;
		count++;
	}
	return count;
}

static inline enum knowledge_heard hear(unsigned node, const struct message *message) {
	return knowledge_hear(stores[node], sites[node].generation, names[message->from],
	    strlen(names[message->from]), message->name, strlen(message->name),
	    &message->told, now_ns);
}

/* All that was ever told reaches everybody, the latest last. */
static inline void exchange(void) {
	for (unsigned i = 0; i < NODES; i++)
		(void)tell(i);
	for (unsigned i = 0; i < NODES; i++) {
		for (unsigned j = 0; j < message_count; j++)
			assert_int_equal(hear(i, &messages[j]), KNOWLEDGE_TAKEN);
		turn(i);
	}
}

static inline void hand(unsigned node, enum manual_verb verb, const char *name, int64_t seconds,
    uint32_t ceiling) {
	struct by_hand request = { .verb = verb, .name = name, .name_length = strlen(name),
		.for_ns = seconds * NS_PER_SECOND, .window = BY_HAND_UNSET,
		.ceiling = ceiling };
	struct window_owner owner;

	(void)windows_by_hand(sites[node].engine, sites[node].generation, &request, now_ns,
	    &owner);
}

/* Held, for this reason. */
static inline void hand_because(unsigned node, const char *name, const char *reason) {
	struct by_hand request = { .verb = MANUAL_HOLD, .name = name,
		.name_length = strlen(name), .window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET,
		.reason = reason };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(sites[node].engine, sites[node].generation, &request,
	    now_ns, &owner), BY_HAND_DONE);
}

static inline struct window_view view_at(unsigned node, const char *name) {
	at(node);
	return view_of(name);
}

#endif
