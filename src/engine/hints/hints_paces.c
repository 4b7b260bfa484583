/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Paces of destinations in the hints file (DESIGN section 16).
 * MODEL    Each window with a pace, whose mail has keys, has a place in the file for each mail
 *          server.  There the reader has a bucket of its own.  Tokens that others took (for mail
 *          that waits, a Sendmail, another Postfix) are known by the window's bucket, where those
 *          that the reader took are counted, too, as results come: so that bucket's time counts
 *          where others take tokens; else only to a reader that begins.
 * ERRORS   A pace without a place keeps nothing back until the file is made anew.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/pace_text.h"
#include "base/text.h"
#include "engine/destination/windows_internal.h"
#include "engine/hints/hints_internal.h"
#include "segment/hints/paced.h"

#define PACES_LEAST	16U
#define LOOKS_A_TURN	32U	/* of those whose mail does not wait */

static uint64_t pace_hash(uint64_t owner, uint8_t mta) {
	return owner ^ (mta + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
}

uint32_t hint_paces_wanted(const struct engine_hints *hints) {
	uint32_t wanted = PACES_LEAST;

	while (wanted < HINTS_PACES_MAX && wanted < 2 * hints->pace_count +
	    (hints->paces_lack ? hints->pace_count : 0))
		wanted *= 2;
	return wanted;
}

void hint_paces_begin(struct engine_hints *hints) {
	map_free(&hints->pace_of);
	hints->pace_count = 0;
	hints->paces_lack = false;
}

void hint_paces_free(struct engine_hints *hints) {
	hint_paces_begin(hints);
	free(hints->paces);
	hints->paces = NULL;
	hints->pace_size = 0;
}

/* NULL: no room. */
static struct hint_paced *add(struct engine_hints *hints, uint64_t hash) {
	uint32_t at = hints->pace_count;

	if (at >= hints_writer_pace_count(hints->writer)) {
		hints->paces_lack = at < HINTS_PACES_MAX;
		return NULL;
	}
	if (at == hints->pace_size) {
		uint32_t size = at == 0 ? PACES_LEAST : 2 * at;
		struct hint_paced *grown = reallocarray(hints->paces, size, sizeof(*grown));

		if (grown == NULL)
			return NULL;
		hints->paces = grown;
		hints->pace_size = size;
	}
	if (!map_set_index(&hints->pace_of, hash, at))
		return NULL;
	hints->pace_count++;
	return &hints->paces[at];
}

/* Records of one window share its burst. */
static uint32_t sharers(const struct engine_hints *hints, const struct hint_paced *paced) {
	uint32_t count = 0;

	for (uint8_t mta = 0; mta < hints->generation->mta_count; mta++)
		count += map_index(&hints->pace_of, pace_hash(paced->owner_hash, mta)) != NO_INDEX;
	return count == 0 ? 1 : count;
}

static void say_pace(const struct engine_hints *hints, const struct hint_paced *paced,
    bool waits, struct hint_pace *say) {
	struct destination_window found = { .number = 0 };
	struct window_rules rules;
	struct pace_view view;
	uint32_t count = sharers(hints, paced);
	char text[PACE_TEXT_MAX];

	memset(say, 0, sizeof(*say));	/* it is compared */
	say->waits = waits;
	say->row = hint_source_row(hints, &paced->owner);
	if (!states_find(hints->engine->segment, paced->owner.name, strlen(paced->owner.name),
		&found))
		memset(&found.state, 0, sizeof(found.state));
	windows_rules(hints->generation, windows_mta(hints->engine, hints->generation,
	    &paced->owner), &paced->owner, &rules);
	pace_look(&found.state.pace, &rules.pace, hints->now_ns, &view);
	if (view.interval_ns == 0 || windows_observed(hints->generation, &paced->owner))
		return;
	say->interval_ns = view.interval_ns;
	say->burst = rules.pace.limit.burst / count > 1 ? rules.pace.limit.burst / count : 1;
	say->counted_ns = pace_taken_ns(&found.state.pace, &rules.pace, hints->now_ns);
	say->taken_ns = waits || count > 1 || hints->generation->mta_count > 1 ?
	    say->counted_ns : paced->said.taken_ns;
	(void)text_append(say->text, sizeof(say->text), 0, ENGINE_PACE_BEGINS "%s is %s%s",
	    paced->owner.name, pace_text(view.interval_ns, text), !view.is_learned ? "" :
	    (found.state.flags & DESTINATION_PACE) != 0 ? " (manual)" : " (learned)");
}

static void renew(struct engine_hints *hints, uint32_t number) {
	struct hint_paced *paced = &hints->paces[number];
	struct paced_slot *slot = paced_find(hints->engine->segment, paced->owner_hash,
	    hints->now_ns);
	struct hint_pace say;
	uint64_t word;
	uint32_t at;

	say_pace(hints, paced, slot != NULL, &say);
	/* a pass is there before mail without one is held */
	if (slot == NULL) {
		paced->pass = 0;
	} else {
		int64_t before = paced->pass;

		for (unsigned i = 0; i < SEGMENT_PASSES && paced_next(slot, hints->now_ns,
			&paced->pass, &at, &word); i++)
			hints_writer_pass(hints->writer, number, at, paced->pass, word);
		if (paced->pass != before)
			paced_written(slot, paced->pass);
	}
	if (memcmp(&say, &paced->said, sizeof(say)) == 0)
		return;
	memcpy(&paced->said, &say, sizeof(say));
	hints_writer_set_pace(hints->writer, number, &say);
}

void hint_pace_follow(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner, bool is_paced) {
	uint64_t hash = pace_hash(key->owner, key->mta);
	uint32_t number;

	is_paced = is_paced || hint_source_row(hints, owner) != 0;
	if (!is_paced && hints->pace_count == 0)
		return;
	number = map_index(&hints->pace_of, hash);
	if (number == NO_INDEX && is_paced && key->live) {
		struct hint_paced *paced = add(hints, hash);

		if (paced != NULL) {
			number = (uint32_t)(paced - hints->paces);
			memset(paced, 0, sizeof(*paced));
			paced->owner_hash = key->owner;
			paced->owner = *owner;
			hints_writer_begin_pace(hints->writer, number);
		}
	}
	if (number != NO_INDEX && key->live)
		renew(hints, number);
	hints_writer_follow_pace(hints->writer, key->place,
	    number == NO_INDEX || !key->live ? HINTS_NO_PACE : number);
}

void hint_paces_turn(struct engine_hints *hints) {
	for (uint32_t i = 0; i < hints->pace_count; i++) {
		bool waits = paced_find(hints->engine->segment, hints->paces[i].owner_hash,
		    hints->now_ns) != NULL;

		if (waits || hints->paces[i].said.waits ||
		    (i - hints->pace_next) % hints->pace_count < LOOKS_A_TURN)
			renew(hints, i);
	}
	if (hints->pace_count > 0)
		hints->pace_next = (hints->pace_next + LOOKS_A_TURN) % hints->pace_count;
}
