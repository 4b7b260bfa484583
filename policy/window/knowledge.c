/* SPDX-License-Identifier: ISC */
/* What several nodes know of one destination, made one: the rules stand in the header.
 * Each is a greatest or a least of a set under a total order (stamps differ), so the order
 * of the records cannot matter. */
#include "policy/window/knowledge.h"

uint64_t knowledge_next_stamp(uint64_t seen, unsigned node) {
	return (seen / KNOWLEDGE_NODES_MAX + 1) * KNOWLEDGE_NODES_MAX + node % KNOWLEDGE_NODES_MAX;
}

uint64_t knowledge_stamp(const struct knowledge_record *record) {
	uint64_t most = record->manual.stamp;

	if (record->learned.stamp > most)
		most = record->learned.stamp;
	if (record->ceiling.stamp > most)
		most = record->ceiling.stamp;
	if (record->raised.stamp > most)
		most = record->raised.stamp;
	return most;
}

bool knowledge_join(struct knowledge_record *into, const struct knowledge_record *from) {
	bool changed = false;

	if (from->manual.stamp > into->manual.stamp) {
		into->manual = from->manual;
		changed = true;
	}
	if (from->learned.stamp > into->learned.stamp) {
		into->learned = from->learned;
		changed = true;
	}
	if (from->ceiling.stamp > into->ceiling.stamp) {
		into->ceiling = from->ceiling;
		changed = true;
	}
	if (from->raised.stamp > into->raised.stamp) {
		into->raised = from->raised;
		changed = true;
	}
	return changed;
}

/* Returns the stamp of the statement by hand that counts; 0: there is none. */
static uint64_t merge_manual(const struct knowledge_record *records, size_t count,
    int64_t now_ns, struct knowledge *out) {
	const struct knowledge_manual *last = NULL;

	for (size_t i = 0; i < count; i++)
		if (records[i].manual.stamp > 0 &&
		    (last == NULL || records[i].manual.stamp > last->stamp))
			last = &records[i].manual;
	if (last == NULL)
		return 0;
	if (last->what == KNOWLEDGE_RESUME) {
		out->resumed_stamp = last->stamp;
	} else if (last->until_ns > now_ns) {
		out->state = last->what == KNOWLEDGE_HOLD ? KNOWLEDGE_HELD : KNOWLEDGE_DEAD;
		out->by_hand = true;
		out->until_ns = last->until_ns;
		out->stamp = last->stamp;
	}
	return last->stamp;
}

static void merge_learned(const struct knowledge_record *records, size_t count, int64_t now_ns,
    uint64_t by_hand, struct knowledge *out) {
	for (size_t i = 0; i < count; i++) {
		const struct knowledge_learned *learned = &records[i].learned;

		if (learned->stamp == 0 || learned->until_ns <= now_ns ||
		    learned->stamp < by_hand)
			continue;
		if (out->state == KNOWLEDGE_NONE || learned->until_ns > out->until_ns ||
		    (learned->until_ns == out->until_ns && learned->stamp > out->stamp)) {
			out->state = KNOWLEDGE_DEAD;
			out->until_ns = learned->until_ns;
			out->stamp = learned->stamp;
		}
	}
}

static bool was_raised(const struct knowledge_record *records, size_t count,
    const struct knowledge_ceiling *ceiling) {
	for (size_t i = 0; i < count; i++)
		if (records[i].raised.stamp > ceiling->stamp &&
		    records[i].raised.level > ceiling->level)
			return true;
	return false;
}

static void merge_ceilings(const struct knowledge_record *records, size_t count,
    struct knowledge *out) {
	uint64_t by_hand = 0;

	for (size_t i = 0; i < count; i++)
		if (records[i].ceiling.by_hand && records[i].ceiling.stamp > by_hand)
			by_hand = records[i].ceiling.stamp;
	out->ceiling_stamp = by_hand;
	out->ceiling_by_hand = by_hand > 0;
	for (size_t i = 0; i < count; i++) {
		const struct knowledge_ceiling *ceiling = &records[i].ceiling;

		if (ceiling->stamp == 0 || ceiling->level == 0 || ceiling->stamp < by_hand ||
		    was_raised(records, count, ceiling))
			continue;
		if (out->ceiling == 0 || ceiling->level < out->ceiling ||
		    (ceiling->level == out->ceiling && ceiling->stamp > out->ceiling_stamp)) {
			out->ceiling = ceiling->level;
			out->ceiling_by_hand = ceiling->by_hand;
			out->ceiling_stamp = ceiling->stamp;
		}
	}
}

void knowledge_merge(const struct knowledge_record *records, size_t count, int64_t now_ns,
    struct knowledge *out) {
	uint64_t by_hand;

	*out = (struct knowledge){ .state = KNOWLEDGE_NONE };
	by_hand = merge_manual(records, count, now_ns, out);
	if (out->state == KNOWLEDGE_NONE)
		merge_learned(records, count, now_ns, by_hand, out);
	merge_ceilings(records, count, out);
}
