/* SPDX-License-Identifier: ISC */
/* Destinations over places (spread.h): where its hash says, or the next that is free. */
#include "policy/schedule/spread.h"

#include <stdbool.h>

static bool is_taken(const struct spread *spread, uint32_t place) {
	for (uint32_t i = 0; i < spread->count; i++)
		if (spread->places[i] == place)
			return true;
	return false;
}

uint32_t spread_place(struct spread *spread, uint64_t key, uint32_t places) {
	uint32_t start, place;

	for (uint32_t i = 0; i < spread->count; i++)
		if (spread->keys[i] == key)
			return spread->places[i];
	if (places == 0)
		return 0;
	start = place = (uint32_t)(key % places) + 1;
	if (spread->count == SPREAD_MOST)
		return start;
	if (spread->count == 0)
		place = 0;
	while (place != 0 && is_taken(spread, place)) {
		place = place % places + 1;
		if (place == start)
			break;
	}
	spread->keys[spread->count] = key;
	spread->places[spread->count++] = place;
	return place;
}
