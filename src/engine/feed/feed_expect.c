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
		if (address_is_unknown(&memory->expected[i].relay))
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
	unsigned known = 0;

	if (memory == NULL)
		return;
	memory->expected_at = 0;
	for (unsigned i = 0; i < count && known < ENGINE_FEED_EXPECTED; i++) {
		struct span domain = deliveries[i]->domain;

		if (domain.length == 0 || !states_key(engine->segment, domain.text,
		    domain.length, &keys[known]))
			continue;
		memory->expected[known].text = domain.text;
		memory->expected[known].relay = deliveries[i]->relay_address;
		memory->expected[known].relay_key = (struct relay_key){ 0, 0 };
		__builtin_prefetch(feed_noted_near(memory, &deliveries[i]->relay_address));
		feed_destination_near(memory->table, keys[known++].hash);
	}
	memory->expected_count = known;
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
		memory->expected[i].key = keys[i];
}

const struct feed_expected *feed_expected(struct feed_memory *memory, const char *text) {
	for (unsigned i = memory->expected_at; i < memory->expected_count; i++) {
		if (memory->expected[i].text != text)
			continue;
		memory->expected_at = i + 1;
		return &memory->expected[i];
	}
	return NULL;
}

const struct state_key *feed_expected_key(const struct feed_expected *expected,
    const char *name) {
	return expected != NULL && strncmp((const char *)expected->key.name, name,
	    sizeof(expected->key.name)) == 0 ? &expected->key : NULL;
}
