/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Open addressing by cache lines.
 * ERRORS   Whoever dies in the middle leaves a torn index; the inheritor of the
 *          shard's mutex clears it and inserts every slot anew.
 */
#include "segment/file/index.h"

#include <string.h>

#include "base/failpoint.h"

bool index_insert(struct index *index, uint64_t hash, uint32_t slot) {
	uint32_t at = index_home(index, hash);

	for (uint32_t tries = 0; tries < index->line_count; tries++) {
		struct index_line *line = &index->lines[at];

		for (unsigned i = 0; i < INDEX_PLACES; i++) {
			if (line->place[i] == 0) {
				FAILPOINT();
				line->place[i] = index_tag(hash) | (slot + 1);
				FAILPOINT();
				return true;
			}
		}
		line->passed++;
		FAILPOINT();
		at = index_next_line(index, at);
	}
	return false;
}

/* Finds the place; the lines before it are those that the key passed. */
bool index_remove(struct index *index, uint64_t hash, uint32_t slot) {
	uint32_t wanted = index_tag(hash) | (slot + 1);
	uint32_t home = index_home(index, hash), at = home;

	for (uint32_t tries = 0; tries < index->line_count; tries++) {
		struct index_line *line = &index->lines[at];

		uint32_t found = index_places(line, UINT32_MAX, wanted);

		if (found != 0) {
			line->place[__builtin_ctz(found)] = 0;
			FAILPOINT();
			for (; home != at; home = index_next_line(index, home)) {
				index->lines[home].passed--;
				FAILPOINT();
			}
			return true;
		}
		if (line->passed == 0)
			return false;
		at = index_next_line(index, at);
	}
	return false;
}

void index_clear(struct index *index) {
	static const struct index_line empty;

	for (uint32_t i = 0; i < index->line_count; i++) {
		/* in a new file nothing is to be written, and no page to be made for it */
		if (memcmp(&index->lines[i], &empty, sizeof(empty)) == 0)
			continue;
		for (unsigned p = 0; p < INDEX_PLACES; p++)
			index->lines[i].place[p] = 0;
		index->lines[i].passed = 0;
	}
}
