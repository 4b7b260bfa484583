/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Destinations of a analyze by name.
 * MODEL    A table that grows; nothing is ever forgotten.
 * ERRORS   Without memory a destination is left out.
 * THREADS  One.
 */
#include "ctl/analyze/analyze_learned.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"

struct analyze_learning *analyze_learning_open(const struct generation *generation) {
	struct analyze_learning *learning = calloc(1, sizeof(*learning));

	if (learning == NULL)
		return NULL;
	learning->generation = generation;
	/* who chooses the names does not know what time it is by this clock */
	learning->key = (struct siphash_key){ (uint64_t)clock_now_ns(),
		(uint64_t)clock_thread_cpu_ns() };
	learning->bucket_count = 1024;
	learning->buckets = calloc(learning->bucket_count, sizeof(*learning->buckets));
	if (learning->buckets == NULL)
		analyze_learning_close(&learning);
	return learning;
}

void analyze_learning_close(struct analyze_learning **learning) {
	struct analyze_learning *old = *learning;

	if (old == NULL)
		return;
	for (size_t i = 0; old->buckets != NULL && i < old->bucket_count; i++)
		if (old->buckets[i] != NULL) {
			free(old->buckets[i]->level.entries);
			free(old->buckets[i]);
		}
	free(old->buckets);
	free(old->list);
	free(old);
	*learning = NULL;
}

static struct learned **find(const struct analyze_learning *learning, const char *name) {
	size_t mask = learning->bucket_count - 1;
	size_t at = (size_t)siphash13(&learning->key, name, strlen(name)) & mask;

	while (learning->buckets[at] != NULL &&
	    strcmp(learning->buckets[at]->shown.name, name) != 0)
		at = (at + 1) & mask;
	return &learning->buckets[at];
}

static bool grow(struct analyze_learning *learning) {
	struct learned **old = learning->buckets;
	size_t old_count = learning->bucket_count;
	struct learned **larger = calloc(4 * old_count, sizeof(*larger));

	if (larger == NULL)
		return false;
	learning->buckets = larger;
	learning->bucket_count = 4 * old_count;
	for (size_t i = 0; i < old_count; i++)
		if (old[i] != NULL)
			*find(learning, old[i]->shown.name) = old[i];
	free(old);
	return true;
}

struct learned *analyze_learned_find(const struct analyze_learning *learning, const char *name) {
	return *find(learning, name);
}

struct learned *analyze_learned_get(struct analyze_learning *learning, const char *name) {
	struct learned **place = find(learning, name);

	if (*place != NULL)
		return *place;
	if (2 * learning->count >= learning->bucket_count) {
		if (!grow(learning))
			return NULL;
		place = find(learning, name);
	}
	*place = calloc(1, sizeof(**place));
	if (*place == NULL)
		return NULL;
	learning->count++;
	(*place)->rolls_up = (*place)->provider = JUDGE_NONE;
	(*place)->mta = GENERATION_MTAS_MAX;
	text_copy((*place)->shown.name, sizeof((*place)->shown.name), name, strlen(name));
	return *place;
}

static int by_failures(const void *a, const void *b) {
	const struct analyze_destination *left = *(const struct analyze_destination *const *)a;
	const struct analyze_destination *right = *(const struct analyze_destination *const *)b;

	if (left->failed != right->failed)
		return left->failed < right->failed ? 1 : -1;
	if (left->ok != right->ok)
		return left->ok < right->ok ? 1 : -1;
	return strcmp(left->name, right->name);
}

const struct analyze_destination *const *analyze_destinations(struct analyze_learning *learning,
    size_t *count) {
	*count = 0;
	free(learning->list);
	learning->list = calloc(learning->count + 1, sizeof(*learning->list));
	for (size_t i = 0; learning->list != NULL && i < learning->bucket_count; i++)
		if (learning->buckets[i] != NULL && learning->buckets[i]->has_window)
			learning->list[(*count)++] = &learning->buckets[i]->shown;
	if (*count > 0)
		qsort(learning->list, *count, sizeof(*learning->list), by_failures);
	return learning->list;
}

void analyze_learned_actions(const struct analyze_learning *learning, struct analyze_actions *out) {
	*out = learning->actions;
}
