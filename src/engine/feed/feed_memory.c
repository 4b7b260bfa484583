/* SPDX-License-Identifier: ISC */
/* The life of what the process that feeds keeps (feed_internal.h).  One thread. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/feed/feed_internal.h"
#include "segment/file/delays.h"

uint64_t feed_hash(const struct feed_memory *memory, const void *data, size_t length) {
	uint64_t hash = siphash13(&memory->engine->segment->header->key, data, length);

	return hash == 0 ? 1 : hash;
}

uint64_t feed_hash_of(const struct feed_memory *memory, struct span span) {
	return span.length == 0 ? 0 : feed_hash(memory, span.text, span.length);
}

bool feed_was_noted(struct feed_memory *memory, const struct delivery_seen *seen,
    bool whole, int64_t now_ns) {
	const char marks[4] = { whole, (char)seen->mta, seen->cloned,
		whole ? (char)seen->name_length : 0 };
	char text[2 * SEGMENT_NAME_MAX + sizeof(seen->relay) + sizeof(marks)];
	struct feed_noted *noted;
	uint64_t key;
	size_t length = 0;

	if (seen->name_length > SEGMENT_NAME_MAX || seen->relay_name_length > SEGMENT_NAME_MAX)
		return false;
	memcpy(text, marks, sizeof(marks));
	length = sizeof(marks);
	memcpy(text + length, &seen->relay, sizeof(seen->relay));
	length += sizeof(seen->relay);
	if (whole) {
		memcpy(text + length, seen->name, seen->name_length);
		length += seen->name_length;
	}
	if (seen->relay_name != NULL)
		memcpy(text + length, seen->relay_name, seen->relay_name_length);
	length += seen->relay_name_length;
	key = feed_hash(memory, text, length);
	noted = whole ? &memory->noted[key % FEED_NOTED] : feed_noted_near(memory, &seen->relay);
	if (noted->key == key && now_ns - noted->at_ns < NS_PER_SECOND &&
	    now_ns >= noted->at_ns)
		return true;
	*noted = (struct feed_noted){ key, now_ns };
	return false;
}

/* A judge for a generation that the old one is not of.  Where it cannot be had the old one
 * goes on. */
static bool take_up(struct feed_memory *memory, const struct generation *generation) {
	struct judge *judge;
	struct diag ignored;

	if (memory->generation == generation)
		return true;
	if (judge_open(&judge, generation, &ignored) != 0)
		return false;
	engine_pin_again(memory->engine, generation);
	if (memory->judge != NULL) {
		judge_close(&memory->judge);
		engine_unpin(memory->engine, memory->generation);
	}
	memory->judge = judge;
	memory->generation = generation;
	memory->given_up = 0;
	delays_take_up(memory->engine->segment, generation);
	return true;
}

/* Of what we have heard of ourselves we know it. */
static bool is_ours(const struct feed_memory *memory, uint64_t hash) {
	const struct map *table = &memory->table->by_hash;
	const struct map_cell *cell = map_find(table, hash);

	for (; cell != NULL; cell = map_next(table, cell))
		if (((const struct feed_destination *)cell->item)->told_running > 0)
			return true;
	return false;
}

static void forget_running(void *context, const struct destination_window *window) {
	struct feed_memory *memory = context;
	struct state_lock lock;
	enum states_locked locked;

	if (window->state.running == 0 ||
	    !states_aim(memory->engine->segment, window->name, strlen(window->name), &lock) ||
	    is_ours(memory, lock.key.hash))
		return;
	locked = states_lock(&lock, window->state.seen_ns, STATES_KNOWN_ONLY);
	memory->must_forget |= locked == STATES_BUSY;
	if (locked != STATES_HELD)
		return;
	lock.state.running = 0;
	states_store(&lock);
	states_unlock(&lock);
}

void feed_forget_running(struct feed_memory *memory) {
	if (!memory->must_forget)
		return;
	memory->must_forget = false;
	(void)states_each(memory->engine->segment, forget_running, memory);
}

static void memory_close(struct feed_memory **memory) {
	struct feed_memory *old = *memory;

	if (old == NULL)
		return;
	if (old->judge != NULL) {
		judge_close(&old->judge);
		engine_unpin(old->engine, old->generation);
	}
	feed_table_close(&old->table);
	feed_matches_close(&old->matches);
	feed_starts_close(&old->starts);
	free(old);
	*memory = NULL;
}

static struct feed_memory *open_memory(struct engine *engine) {
	struct feed_memory *memory = calloc(1, sizeof(*memory));

	if (memory == NULL)
		return NULL;
	memory->engine = engine;
	memory->must_forget = true;
	TAILQ_INIT(&memory->waiting);
	memory->table = feed_table_open();
	memory->matches = feed_matches_open();
	if (memory->table == NULL || memory->matches == NULL)
		memory_close(&memory);
	else
		feed_forget_running(memory);
	return memory;
}

struct feed_memory *feed_memory(struct engine *engine, const struct generation *generation) {
	if (engine->feed == NULL)
		engine->feed = open_memory(engine);
	if (engine->feed == NULL || !take_up(engine->feed, generation))
		return NULL;
	return engine->feed;
}

void engine_feed_close(struct engine *engine) {
	memory_close(&engine->feed);
}
