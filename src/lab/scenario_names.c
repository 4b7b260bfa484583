/* SPDX-License-Identifier: ISC */
/*
 * Scenarios: names of destinations.
 *
 * Model: one block of texts, and a map.
 * Errors and bounds: as scenario.c.
 */
#include <string.h>

#include "base/siphash.h"
#include "base/text.h"
#include "lab/scenario_internal.h"

static uint64_t name_hash(const char *name, size_t length) {
	static const struct siphash_key key = { 1, 2 };

	return siphash13(&key, name, length);
}

uint32_t scenario_find(const struct scenario_work *w, const char *name, size_t length) {
	const struct map_cell *cell = map_find(&w->by_name, name_hash(name, length));

	for (; cell != NULL; cell = map_next(&w->by_name, cell)) {
		const char *there = scenario_name(w->scenario, cell->index);

		if (strncmp(there, name, length) == 0 && there[length] == '\0')
			return cell->index;
	}
	return SCENARIO_NONE;
}

uint32_t scenario_add(struct scenario_work *w, const char *name, size_t length,
    uint32_t transport) {
	struct scenario *s = w->scenario;
	uint32_t number = s->destination_count;
	struct map_cell *cell = memory_is_there(map_add(&w->by_name, name_hash(name, length)));

	memory_grow(&s->destinations, &w->destination_room, number, sizeof(*s->destinations));
	memory_grow(&s->names, &w->names_room, w->names_used + length, 1);
	cell->index = number;
	s->destinations[number] = (struct scenario_destination){
		.name = (uint32_t)w->names_used, .transport = transport, .service_ns = -1,
		.refusal_ns = w->refusal_ns };
	memcpy(s->names + w->names_used, name, length);
	w->names_used += length;
	s->names[w->names_used++] = '\0';
	s->destination_count++;
	return number;
}

bool scenario_good_name(const char *name, size_t length) {
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "0123456789.-_";
	char copy[SCENARIO_NAME_MAX + 1];
	int64_t time;

	return length > 0 && text_copy(copy, sizeof(copy), name, length) &&
	    strspn(copy, letters) == length && !text_to_duration_ns(copy, &time);
}
