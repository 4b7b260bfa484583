/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Classes and recipients whose mail is held: what the hints file says of them.
 * MODEL    Groups of the file are the classes of the configuration.
 * ERRORS   None.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/hints/hints_internal.h"
#include "segment/destination/recipients.h"

#define UNKNOWN_TEXT	"\1"	/* no class has it */

struct recipient_said {
	char address[RECIPIENT_MAX + 1];
	uint8_t mta;
};

void hint_classes_renew(struct engine_hints *hints, int64_t now_ns) {
	char text[HINT_TEXT_MAX + 1];

	if (!hint_file_is_current(hints))
		return;
	for (uint32_t i = 0; i < hints->class_count; i++) {
		bool held = hint_class_holds(hints->engine, hints->generation, i, now_ns,
		    &hints->class_full[i], text);

		hint_class_tell_room(hints, i);
		if (strcmp(text, hints->class_texts[i]) == 0)
			continue;
		hints_writer_hold_group(hints->writer, i, held ? text : NULL);
		memcpy(hints->class_texts[i], text, sizeof(text));
	}
	hints_writer_beat(hints->writer, now_ns);
}

bool hint_classes_begin(struct engine_hints *hints, const char **texts) {
	uint32_t count = hints->generation->class_count;
	char (*grown)[HINT_TEXT_MAX + 1] = calloc(count + 1, sizeof(*grown));
	struct hint_full *full = calloc(count + 1, sizeof(*full));

	if (grown == NULL || full == NULL || !hint_classes_begin_bounds(hints, count)) {
		free(grown);
		free(full);
		return false;
	}
	/* tried again as no file could be made: what is full has its id */
	if (hints->class_generation == hints->generation->number && hints->class_count == count &&
	    count > 0)
		memcpy(full, hints->class_full, count * sizeof(*full));
	hints->class_generation = hints->generation->number;
	free(hints->class_texts);
	free(hints->class_full);
	hints->class_texts = grown;
	hints->class_full = full;
	hints->class_count = count;
	for (uint32_t i = 0; i < count; i++)
		texts[i] = hint_class_holds(hints->engine, hints->generation, i, clock_now_ns(),
		    &full[i], grown[i]) ? grown[i] : NULL;
	return true;
}

void hint_classes_forget(struct engine_hints *hints) {
	for (uint32_t i = 0; i < hints->class_count; i++)
		memcpy(hints->class_texts[i], UNKNOWN_TEXT, sizeof(UNKNOWN_TEXT));
}

/* --- recipients ------------------------------------------------------------------------ */

struct holding {
	struct engine_hints *hints;
	struct recipient_said *list;
	size_t count, size;
};

static void hold_for(struct holding *holding, const struct recipient_held *held,
    uint8_t mta) {
	char text[HINTS_TEXT_MAX + 1], until[HINT_TIME_MAX], id[HINT_ID_MAX];
	struct recipient_said *grown;

	if (holding->count == holding->size) {
		holding->size = holding->size == 0 ? 16 : 2 * holding->size;
		grown = reallocarray(holding->list, holding->size, sizeof(*grown));
		if (grown == NULL) {
			holding->size = holding->count;
			return;
		}
		holding->list = grown;
	}
	grown = &holding->list[holding->count++];
	memcpy(grown->address, held->address, sizeof(grown->address));
	grown->mta = mta;
	(void)text_append(text, sizeof(text), 0, "Postern: recipient is held%s%s%s%s%s",
	    held->until_ns == INT64_MAX ? "" : " until ",
	    hint_time(held->until_ns, holding->hints->now_ns, until), hint_id(held->event, id),
	    held->reason[0] == '\0' ? "" : ": ", held->reason);
	if (!hints_writer_hold_recipient(holding->hints->writer, mta, held->address,
		held->until_ns, text))
		holding->hints->crowded = true;
}

static void hold(void *context, const struct recipient_held *held) {
	struct holding *holding = context;
	const struct generation *generation = holding->hints->generation;
	const char *at = strrchr(held->address, '@'), *detail;
	struct destination_seen seen;

	if (at == NULL || !destinations_find(holding->hints->engine->segment, at + 1,
	    strlen(at + 1), &seen))
		return;
	for (uint8_t mta = 0; mta < generation->mta_count; mta++)
		if (hint_destination_doubt(generation, mta, at + 1, strlen(at + 1), &seen,
			&detail) == HINT_DOUBT_NONE)
			hold_for(holding, held, mta);
}

static int compare_said(const void *a, const void *b) {
	const struct recipient_said *x = a, *y = b;

	return x->mta != y->mta ? x->mta - y->mta : strcmp(x->address, y->address);
}

/* The list is sorted. */
static bool is_listed(const struct holding *holding, const struct recipient_said *said) {
	return holding->count > 0 && bsearch(said, holding->list, holding->count,
	    sizeof(*said), compare_said) != NULL;
}

void hint_recipients_renew(struct engine_hints *hints, bool anew, bool looked) {
	struct holding holding = { .hints = hints };
	uint64_t version = recipients_version(hints->engine->segment);

	if (!anew && !looked && version == hints->recipients_version)
		return;
	hints->recipients_version = version;
	if (!hints->generation->outbound_observe)
		recipients_each(hints->engine->segment, hints->now_ns, hold, &holding);
	if (holding.count > 0)
		qsort(holding.list, holding.count, sizeof(*holding.list), compare_said);
	for (size_t i = 0; !anew && i < hints->recipient_count; i++)
		if (!is_listed(&holding, &hints->recipients[i]))
			(void)hints_writer_hold_recipient(hints->writer,
			    hints->recipients[i].mta, hints->recipients[i].address, 0, NULL);
	free(hints->recipients);
	hints->recipients = holding.list;
	hints->recipient_count = holding.count;
}
