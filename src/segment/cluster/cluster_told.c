/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The cluster role's told in the segment.
 * MODEL    Words, as a plain copy would race.  Whoever died while it wrote leaves an odd
 *          number: its successor begins with the next one.  One that lives writes for some
 *          microseconds, or for longer where it was stopped in between: that is waited for.
 * THREADS  One writer, any readers.
 */
#include "segment/cluster/cluster_told.h"

#include <string.h>

#include "base/clock.h"
#include "base/relaxed.h"

#define TRIES	100
#define PAUSE_NS	50000

void cluster_told_write(struct cluster_record *record, const struct cluster_told *told) {
	uint64_t words[CLUSTER_TOLD_WORDS];
	uint64_t seq = RELAXED(record->seq) | 1;

	memcpy(words, told, sizeof(words));
	STORE(record->seq, seq);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < CLUSTER_TOLD_WORDS; i++)
		STORE(record->words[i], words[i]);
	atomic_store_explicit(&record->seq, seq + 1, memory_order_release);
}

static void bound_text(char *text, size_t size) {
	text[size - 1] = '\0';
	for (size_t i = 0; text[i] != '\0'; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
}

static void bound_times(struct cluster_told *told) {
	int64_t *times[] = { &told->since_ns, &told->told_ns, &told->renewed_ns,
		&told->until_ns, &told->error_ns, &told->next_ns, &told->wait_until_ns,
		&told->compared_ns };

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		*times[i] = clock_bounded_ns(*times[i]);
}

static void told_bound(struct cluster_told *told) {
	bound_times(told);
	if (told->state >= CLUSTER_STATE_COUNT)
		told->state = CLUSTER_STATE_OFF;
	if (told->error > CLUSTER_ERRORS)
		told->error = 0;
	bound_text(told->why, sizeof(told->why));
	bound_text(told->server, sizeof(told->server));
	bound_text(told->epoch, sizeof(told->epoch));
	bound_text(told->differs, sizeof(told->differs));
	bound_text(told->differs_why, sizeof(told->differs_why));
	if (told->order_outcome >= CLUSTER_OUTCOMES)
		told->order_outcome = CLUSTER_OUTCOME_UNSURE;
	if (told->node_count > CLUSTER_TOLD_NODES)
		told->node_count = CLUSTER_TOLD_NODES;
	if (told->cell_count > CLUSTER_TOLD_CELLS)
		told->cell_count = CLUSTER_TOLD_CELLS;
	for (uint32_t i = 0; i < told->node_count; i++) {
		struct cluster_told_node *node = &told->nodes[i];

		bound_text(node->name, sizeof(node->name));
		node->word_ns = clock_bounded_ns(node->word_ns);
	}
	for (uint32_t i = 0; i < told->cell_count; i++)
		if (told->cells[i].node >= told->node_count)
			told->cells[i].node = 0;
	if (told->node_count == 0)
		told->cell_count = 0;
}

bool cluster_told_read(const struct cluster_record *record, struct cluster_told *told) {
	uint64_t words[CLUSTER_TOLD_WORDS];

	for (unsigned tried = 0; tried < TRIES; tried++) {
		uint64_t seq = atomic_load_explicit(&record->seq, memory_order_acquire);

		if ((seq & 1) != 0) {
			clock_pause(PAUSE_NS);
			continue;
		}
		for (size_t i = 0; i < CLUSTER_TOLD_WORDS; i++)
			words[i] = RELAXED(record->words[i]);
		atomic_thread_fence(memory_order_acquire);
		if (RELAXED(record->seq) != seq)
			continue;
		memcpy(told, words, sizeof(*told));
		told_bound(told);
		return true;
	}
	memset(told, 0, sizeof(*told));
	return false;
}

const char *cluster_state_word(enum cluster_state state) {
	static const char *const words[CLUSTER_STATE_COUNT] = {
		[CLUSTER_STATE_OFF] = "off",
		[CLUSTER_STATE_CONNECTING] = "connecting",
		[CLUSTER_STATE_REFUSED] = "refused",
		[CLUSTER_STATE_WAITING] = "waiting",
		[CLUSTER_STATE_JOINED] = "joined",
		[CLUSTER_STATE_WITHOUT] = "without",
	};

	return words[state];
}

enum { REFUSED, AWAY };

static const struct {
	const char *word;
	unsigned kind;
} errors[CLUSTER_ERRORS] = {
#define CLUSTER_ERROR(symbol, word, kind, text) { word, kind },
#include "defs/cluster_errors.def"
#undef CLUSTER_ERROR
};

const char *cluster_error_word(enum cluster_error error) {
	return errors[error].word;
}

bool cluster_error_refuses(enum cluster_error error) {
	return errors[error].kind == REFUSED;
}
