/* SPDX-License-Identifier: ISC */
/* What is needed for results that are to come is fetched for all of them at once: each
 * would wait for memory several times, one after the other.  Nothing is changed.  One
 * thread. */
#include <string.h>

#include "engine/feed/feed_internal.h"

struct feed_noted *feed_noted_near(struct feed_memory *memory, const struct address *relay) {
	uint64_t words[2], mixed;

	memcpy(words, relay, sizeof(words));
	mixed = words[0] ^ words[1];
	/* each bit counts: what differs in an IPv4 address are the uppermost */
	mixed = (mixed ^ mixed >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	return &memory->noted[(mixed >> 32) % FEED_NOTED];
}

/* Relays that were noted just now are not looked at again: where all were, nothing is fetched. */
static void expect_relays(struct feed_memory *memory) {
	struct address relays[ENGINE_FEED_EXPECTED];
	struct relay_key keys[ENGINE_FEED_EXPECTED];
	unsigned at[ENGINE_FEED_EXPECTED], count = 0;

	for (unsigned i = 0; i < memory->expected_count; i++) {
		if (!memory->expected[i].is_known ||
		    address_is_unknown(&memory->expected[i].relay))
			continue;
		relays[count] = memory->expected[i].relay;
		at[count++] = i;
	}
	relays_expect(memory->engine->segment, relays, keys, count);
	for (unsigned i = 0; i < count; i++)
		memory->expected[at[i]].relay_key = keys[i];
}

void engine_feed_expect(struct engine *engine, const struct delivery *const *deliveries,
    unsigned count) {
	struct feed_memory *memory = engine->feed;
	const struct feed_destination *found[ENGINE_FEED_EXPECTED];
	struct state_key keys[ENGINE_FEED_EXPECTED];
	unsigned at[ENGINE_FEED_EXPECTED], known = 0;

	if (memory == NULL)
		return;
	memory->expected_count = count < ENGINE_FEED_EXPECTED ? count : ENGINE_FEED_EXPECTED;
	for (unsigned i = 0; i < memory->expected_count; i++) {
		struct feed_expected *expected = &memory->expected[i];
		struct span domain = deliveries[i]->domain;

		expected->is_known = domain.length > 0 && states_key(engine->segment, domain.text,
		    domain.length, &keys[known]);
		if (!expected->is_known)
			continue;
		expected->relay = deliveries[i]->relay_address;
		expected->relay_key = (struct relay_key){ 0, 0 };
		__builtin_prefetch(feed_noted_near(memory, &expected->relay));
		feed_destination_near(memory->table, keys[known].hash);
		at[known++] = i;
	}
	if (memory->notes_relays)
		expect_relays(memory);
	memory->notes_relays = false;
	for (unsigned i = 0; i < known; i++)
		found[i] = feed_destination_likely(memory->table, keys[i].hash);
	for (unsigned i = 0; i < known; i++) {
		if (found[i] != NULL) {
			keys[i].place = found[i]->place;
			__builtin_prefetch(found[i]->level.entries);
		}
	}
	states_expect(engine->segment, keys, known);
	for (unsigned i = 0; i < known; i++)
		memory->expected[at[i]].key = keys[i];
}

const struct feed_expected *feed_expected(const struct feed_memory *memory, unsigned number) {
	if (number == 0 || number > memory->expected_count)
		return NULL;
	return memory->expected[number - 1].is_known ? &memory->expected[number - 1] : NULL;
}
