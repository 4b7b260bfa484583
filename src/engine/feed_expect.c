/* SPDX-License-Identifier: ISC */
/* What is needed for results that are to come is fetched for all of them at once: each
 * would wait for memory several times, one after the other.  Nothing is changed.  One
 * thread. */
#include <string.h>

#include "engine/feed_internal.h"

void engine_feed_expect(struct engine *engine, const struct span *domains, unsigned count)
{
	struct feed_memory *memory = engine->feed;
	const struct feed_destination *found[ENGINE_FEED_EXPECTED];
	struct state_key keys[ENGINE_FEED_EXPECTED];
	unsigned known = 0;

	if (memory == NULL)
		return;
	memory->expected_at = 0;
	for (unsigned i = 0; i < count && known < ENGINE_FEED_EXPECTED; i++) {
		if (domains[i].length == 0 || !states_key(engine->segment, domains[i].text,
		    domains[i].length, &keys[known]))
			continue;
		memory->expected[known].text = domains[i].text;
		feed_destination_near(memory->table, keys[known++].hash);
	}
	memory->expected_count = known;
	for (unsigned i = 0; i < known; i++)
		found[i] = feed_destination_likely(memory->table, keys[i].hash);
	for (unsigned i = 0; i < known; i++) {
		if (found[i] != NULL) {
			keys[i].place = found[i]->place;
			__builtin_prefetch(found[i]->level.entries);
		}
		memory->expected[i].key = keys[i];
	}
	states_expect(engine->segment, keys, known);
}

const struct state_key *feed_expected_key(struct feed_memory *memory, const char *text,
    const char *name)
{
	for (unsigned i = memory->expected_at; i < memory->expected_count; i++) {
		const struct feed_expected *one = &memory->expected[i];

		if (one->text != text)
			continue;
		memory->expected_at = i + 1;
		return strncmp((const char *)one->key.name, name, sizeof(one->key.name)) == 0 ?
		    &one->key : NULL;
	}
	return NULL;
}
