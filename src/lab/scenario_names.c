/* SPDX-License-Identifier: ISC */
/*
 * Scenarios: names of destinations.
 *
 * Model: one block of texts, and an index of open addressing that is never more than half full.
 * Errors and bounds: as scenario.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lab/scenario_work.h"

static uint32_t name_hash(const char *name, size_t length) {
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < length; i++)
		h = (h ^ (unsigned char)name[i]) * 16777619u;
	return h ^ h >> 15;
}

/* Where the name stands in the index, or would. */
static uint32_t slot_of(const struct scenario_work *w, const char *name, size_t length) {
	uint32_t at = name_hash(name, length) & (w->index_room - 1);

	for (;; at = (at + 1) & (w->index_room - 1)) {
		const char *there;

		if (w->index[at] == 0)
			return at;
		there = scenario_name(w->scenario, w->index[at] - 1);
		if (strncmp(there, name, length) == 0 && there[length] == '\0')
			return at;
	}
}

uint32_t scenario_find(const struct scenario_work *w, const char *name, size_t length) {
	return w->index_room == 0 ? SCENARIO_NONE :
	    w->index[slot_of(w, name, length)] - 1;
}

static bool grow_index(struct scenario_work *w) {
	uint32_t *old = w->index, room = w->index_room == 0 ? 64 : 2 * w->index_room;
	uint32_t *index = calloc(room, sizeof(*index));

	if (index == NULL)
		return false;
	w->index = index;
	w->index_room = room;
	for (uint32_t i = 0; i < w->scenario->destination_count; i++) {
		const char *name = scenario_name(w->scenario, i);

		w->index[slot_of(w, name, strlen(name))] = i + 1;
	}
	free(old);
	return true;
}

static bool keep_name(struct scenario_work *w, const char *name, size_t length) {
	if (length + 1 > w->names_room - w->names_used) {
		size_t room = 2 * w->names_room + length + 1024;
		char *names = realloc(w->scenario->names, room);

		if (names == NULL)
			return false;
		w->scenario->names = names;
		w->names_room = room;
	}
	memcpy(w->scenario->names + w->names_used, name, length);
	w->names_used += length;
	w->scenario->names[w->names_used++] = '\0';
	return true;
}

uint32_t scenario_add(struct scenario_work *w, const char *name, size_t length,
    uint32_t transport) {
	struct scenario *s = w->scenario;
	uint32_t number = s->destination_count;
	size_t start = w->names_used;

	if (!scenario_room(w, &s->destinations, number, 1, &w->destination_room,
	    sizeof(*s->destinations)) || !keep_name(w, name, length) ||
	    (2 * (number + 1) > w->index_room && !grow_index(w))) {
		w->failed = true;
		return SCENARIO_NONE;
	}
	s->destinations[number] = (struct scenario_destination){ .name = (uint32_t)start,
		.transport = transport, .service_ns = -1, .refusal_ns = w->refusal_ns };
	w->index[slot_of(w, name, length)] = ++s->destination_count;
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
