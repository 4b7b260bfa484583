/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Destinations of an analysis by name.
 * MODEL    Nothing is ever forgotten.
 * ERRORS   Without memory a destination is left out.
 * THREADS  One.
 */
#include "ctl/analyze/analyze_learned.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/text.h"

void analyze_learning_begin(struct analyze_learning *learning, const struct generation *generation) {
	/* who chooses the names does not know what time it is by this clock */
	*learning = (struct analyze_learning){ .generation = generation,
		.key = { (uint64_t)clock_now_ns(), (uint64_t)clock_thread_cpu_ns() } };
}

void analyze_learning_end(struct analyze_learning *learning) {
	for (size_t i = 0; i < learning->count; i++) {
		free(learning->all[i]->level.entries);
		free(learning->all[i]);
	}
	map_free(&learning->by_name);
	free(learning->all);
}

static uint64_t hash_of(const struct analyze_learning *learning, const char *name) {
	return siphash13(&learning->key, name, strlen(name));
}

struct learned *analyze_learned_find(const struct analyze_learning *learning, const char *name) {
	const struct map_cell *cell = map_find(&learning->by_name, hash_of(learning, name));

	while (cell != NULL && strcmp(((struct learned *)cell->item)->name, name) != 0)
		cell = map_next(&learning->by_name, cell);
	return cell == NULL ? NULL : cell->item;
}

struct learned *analyze_learned_get(struct analyze_learning *learning, const char *name) {
	struct learned *own = analyze_learned_find(learning, name);
	struct map_cell *cell;

	if (own != NULL || !array_grow(&learning->all, &learning->size, learning->count,
	    sizeof(*learning->all)) || (own = calloc(1, sizeof(*own))) == NULL)
		return own;
	cell = map_add(&learning->by_name, hash_of(learning, name));
	if (cell == NULL) {
		free(own);
		return NULL;
	}
	cell->item = learning->all[learning->count++] = own;
	own->rolls_up = own->provider = JUDGE_NONE;
	own->mta = GENERATION_MTAS_MAX;
	text_copy(own->name, sizeof(own->name), name, strlen(name));
	return own;
}

static int by_failures(const void *a, const void *b) {
	const struct learned *left = *(struct learned *const *)a;
	const struct learned *right = *(struct learned *const *)b;

	if (left->failed != right->failed)
		return left->failed < right->failed ? 1 : -1;
	if (left->ok != right->ok)
		return left->ok < right->ok ? 1 : -1;
	return strcmp(left->name, right->name);
}

void analyze_learned_sort(struct analyze_learning *learning) {
	if (learning->count > 1)
		qsort(learning->all, learning->count, sizeof(*learning->all), by_failures);
}
