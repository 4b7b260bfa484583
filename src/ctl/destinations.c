/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl destinations.
 * MODEL    Those whose name fits the pattern (a mask, as in classes) are copied out of
 *          the state file and shown by name: their windows, as they stand at this very
 *          moment by the settings in force, and what is held besides (recipients,
 *          classes); or with --relays how mail goes there.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/ctl.h"
#include "ctl/name_pattern.h"
#include "ctl/state.h"
#include "policy/window.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define RELAYS_TEXT_MAX	(DESTINATION_RELAYS * (ADDRESS_TEXT_MAX + 1))
#define MTAS_TEXT_MAX	(SEGMENT_MTAS * (SEGMENT_NAME_MAX + 1))
#define PROVIDER_PREFIX	"provider:"
#define CLASS_PREFIX	"class:"

/* Copies of one kind, as long as there is memory. */
struct copies {
	char *list;
	size_t each, count, size;
	const struct mask *pattern;	/* NULL: all */
	bool no_memory;
};

/* Every copy begins with its name. */
static void copy(struct copies *copies, const void *one) {
	size_t size = copies->size == 0 ? 256 : copies->size * 2;
	char *list;

	if (copies->no_memory || (copies->pattern != NULL && !name_fits(one, copies->pattern)))
		return;
	if (copies->count == copies->size) {
		list = reallocarray(copies->list, size, copies->each);
		copies->no_memory = list == NULL;
		if (list == NULL)
			return;
		copies->list = list;
		copies->size = size;
	}
	memcpy(copies->list + copies->count++ * copies->each, one, copies->each);
}

static void copy_seen(void *context, const struct destination_seen *seen) {
	_Static_assert(offsetof(struct destination_seen, name) == 0, "first");
	copy(context, seen);
}

static void copy_window(void *context, const struct destination_window *window) {
	_Static_assert(offsetof(struct destination_window, name) == 0, "first");
	copy(context, window);
}

static void copy_recipient(void *context, const struct recipient_held *held) {
	_Static_assert(offsetof(struct recipient_held, address) == 0, "first");
	copy(context, held);
}

static const void *at(const struct copies *copies, size_t i) {
	return copies->list + i * copies->each;
}

static int compare_names(const void *a, const void *b) {
	return strcmp(a, b);
}

static void sort(struct copies *copies) {
	if (copies->count > 1)
		qsort(copies->list, copies->count, copies->each, compare_names);
}

/* --- how mail goes there ---------------------------------------------------------- */

static struct value relays_value(const struct destination_seen *seen,
    char out[RELAYS_TEXT_MAX]) {
	char address[ADDRESS_TEXT_MAX];
	size_t length = 0;

	for (unsigned i = 0; i < seen->relay_count; i++) {
		address_format(&seen->relays[i], address);
		length = text_append(out, RELAYS_TEXT_MAX, length, "%s%s",
		    i > 0 ? "," : "", address);
	}
	return seen->relay_count > 0 ? value_text(out) : value_unknown();
}

/* The mail servers of some bits, by their names in the configuration in force. */
static struct value mtas_value(const struct generation *g, uint8_t bits,
    char out[MTAS_TEXT_MAX]) {
	size_t length = 0;

	for (unsigned i = 0; i < SEGMENT_MTAS; i++) {
		const char *comma = length > 0 ? "," : "";

		if ((bits >> i & 1) == 0)
			continue;
		if (g != NULL && i < g->mta_count)
			length = text_append(out, MTAS_TEXT_MAX, length, "%s%s", comma,
			    generation_text(g, g->mtas[i].name));
		else
			length = text_append(out, MTAS_TEXT_MAX, length, "%s%u", comma,
			    i);
	}
	return length > 0 ? value_text(out) : value_unknown();
}

static struct value age_value(int64_t now_ns, int64_t then_ns) {
	return value_number(now_ns > then_ns ?
	    (uint64_t)((now_ns - then_ns) / NS_PER_SECOND) : 0);
}

/* What is shown, all of it. */
struct shown {
	struct state state;
	struct copies seen, windows, recipients;
};

static const void *find(const struct copies *copies, const char *name) {
	return copies->count == 0 ? NULL :
	    bsearch(name, copies->list, copies->count, copies->each, compare_names);
}

static void relay_rows(void *context, struct writer *writer) {
	static const struct destination_window none;
	const struct shown *all = context;

	for (size_t i = 0; i < all->seen.count; i++) {
		const struct destination_seen *seen = at(&all->seen, i);
		const struct destination_window *window = find(&all->windows, seen->name);
		const struct destination_state *state =
		    window == NULL ? &none.state : &window->state;
		char relays[RELAYS_TEXT_MAX], cloned[MTAS_TEXT_MAX],
		    other[MTAS_TEXT_MAX];
		const struct value values[] = {
			value_text(seen->name), relays_value(seen, relays),
			mtas_value(all->state.generation, seen->cloned_by,
			    cloned),
			mtas_value(all->state.generation, seen->other_by, other),
			age_value(all->state.status.now_ns, seen->seen_ns),
			value_number(state->ok), value_number(state->failed),
			value_number(state->held),
		};

		writer_row(writer, values);
	}
}

static void list_relays(struct ctl *ctl, struct shown *all) {
	static const struct column columns[] = {
		{ "name", COLUMN_TEXT },
		{ "relays", COLUMN_TEXT },
		{ "cloned_by", COLUMN_TEXT },
		{ "other_by", COLUMN_TEXT },
		{ "seen_age", COLUMN_SECONDS },
		{ "ok", COLUMN_NUMBER },
		{ "failed", COLUMN_NUMBER },
		{ "held", COLUMN_NUMBER },
	};

	writer_table(&ctl->writer, NULL, columns, COUNT_OF(columns), relay_rows, all);
}

/* --- windows ------------------------------------------------------------------------ */

/* Order of the columns and values. */
enum shown_column { SHOWN_NAME, SHOWN_LAW, SHOWN_STATE, SHOWN_WINDOW, SHOWN_CEILING,
	SHOWN_IN_FLIGHT, SHOWN_SUCCESS, SHOWN_FAILURE, SHOWN_FAIL_COHORTS, SHOWN_UNTIL,
	SHOWN_REASON, SHOWN_COLUMNS };

static struct value until_value(int64_t until_ns, int64_t now_ns) {
	if (until_ns <= now_ns || until_ns == INT64_MAX)
		return value_unknown();
	return value_number((uint64_t)((until_ns - now_ns + NS_PER_SECOND - 1) / NS_PER_SECOND));
}

static struct value reason_value(const char *reason) {
	return value_text(reason[0] == '\0' ? NULL : reason);
}

/* The mail server whose settings count: the first that was seen to deliver there. */
static unsigned mta_of(const struct shown *all, const char *name) {
	const struct generation *g = all->state.generation;
	const struct destination_seen *seen = find(&all->seen, name);

	for (unsigned i = 0; seen != NULL && i < g->mta_count; i++)
		if (((seen->cloned_by | seen->other_by) >> i & 1) != 0)
			return i;
	return g->mta_count == 1 ? 0 : GENERATION_MTAS_MAX;
}

static void find_settings(const struct shown *all, const char *name,
    struct window_settings *out) {
	const struct generation *g = all->state.generation;
	size_t prefix = sizeof(PROVIDER_PREFIX) - 1;
	uint32_t provider = GENERATION_NO_PROVIDER;

	if (strncmp(name, PROVIDER_PREFIX, prefix) == 0)
		provider = generation_find_provider(g, name + prefix, strlen(name) - prefix);
	(void)generation_window_settings(g, mta_of(all, name), name, strlen(name), provider,
	    out);
}

static void window_values(const struct shown *all, const struct destination_window *one,
    struct value *values) {
	int64_t now_ns = all->state.status.now_ns;
	const struct destination_state *state = &one->state;
	uint32_t running = (uint32_t)state->in_flight + state->running;
	struct window_settings settings = window_defaults;
	struct window window = state->window;
	struct window_change ignored;

	if (all->state.generation != NULL)
		find_settings(all, one->name, &settings);
	window_adjust(&window, &settings);
	window_turn(&window, &settings, running, now_ns, &ignored);
	values[SHOWN_STATE] = value_text(window_state_word((enum window_state)window.state));
	values[SHOWN_UNTIL] = until_value(window.until_ns, now_ns);
	values[SHOWN_REASON] = reason_value(one->reason);
	if (strncmp(one->name, CLASS_PREFIX, sizeof(CLASS_PREFIX) - 1) == 0)
		return;
	values[SHOWN_LAW] = value_text(window_law_word(settings.law));
	values[SHOWN_WINDOW] = value_number(window_now(&window, &settings, now_ns));
	if (window.ceiling != 0)
		values[SHOWN_CEILING] = value_number(window.ceiling);
	values[SHOWN_IN_FLIGHT] = value_number(running);
	values[SHOWN_SUCCESS] = value_decimal(window.success);
	values[SHOWN_FAILURE] = value_decimal(window.failure);
	values[SHOWN_FAIL_COHORTS] = value_decimal(window.fail_cohorts);
}

static void window_rows(void *context, struct writer *writer) {
	const struct shown *all = context;

	for (size_t i = 0; i < all->windows.count; i++) {
		const struct destination_window *one = at(&all->windows, i);
		struct value values[SHOWN_COLUMNS] = { { .known = false } };

		values[SHOWN_NAME] = value_text(one->name);
		if (one->state.begun)
			window_values(all, one, values);
		writer_row(writer, values);
	}
	for (size_t i = 0; i < all->recipients.count; i++) {
		const struct recipient_held *held = at(&all->recipients, i);
		struct value values[SHOWN_COLUMNS] = { { .known = false } };

		values[SHOWN_NAME] = value_text(held->address);
		values[SHOWN_STATE] = value_text(window_state_word(WINDOW_HELD));
		values[SHOWN_UNTIL] = until_value(held->until_ns, all->state.status.now_ns);
		values[SHOWN_REASON] = reason_value(held->reason);
		writer_row(writer, values);
	}
}

static void list_windows(struct ctl *ctl, struct shown *all) {
	static const struct column columns[SHOWN_COLUMNS] = {
		[SHOWN_NAME] = { "name", COLUMN_TEXT },
		[SHOWN_LAW] = { "law", COLUMN_TEXT },
		[SHOWN_STATE] = { "state", COLUMN_TEXT },
		[SHOWN_WINDOW] = { "window", COLUMN_NUMBER },
		[SHOWN_CEILING] = { "ceiling", COLUMN_NUMBER },
		[SHOWN_IN_FLIGHT] = { "in_flight", COLUMN_NUMBER },
		[SHOWN_SUCCESS] = { "success", COLUMN_DECIMAL },
		[SHOWN_FAILURE] = { "failure", COLUMN_DECIMAL },
		[SHOWN_FAIL_COHORTS] = { "fail_cohorts", COLUMN_DECIMAL },
		[SHOWN_UNTIL] = { "until", COLUMN_SECONDS },
		[SHOWN_REASON] = { "reason", COLUMN_TEXT },
	};

	writer_table(&ctl->writer, NULL, columns, COUNT_OF(columns), window_rows, all);
}

/* --- both ----------------------------------------------------------------------------- */

static bool copy_all(struct shown *all, const struct mask *pattern, bool relays) {
	const struct reader *reader = all->state.reader;

	all->seen = (struct copies){ .each = sizeof(struct destination_seen), .pattern = pattern };
	all->windows = (struct copies){ .each = sizeof(struct destination_window),
		.pattern = pattern };
	all->recipients = (struct copies){ .each = sizeof(struct recipient_held),
		.pattern = pattern };
	state_torn(reader_destinations(reader, copy_seen, &all->seen), "destinations");
	state_torn(reader_windows(reader, copy_window, &all->windows), "windows");
	if (!relays)
		state_torn(reader_recipients(reader, copy_recipient, &all->recipients),
		    "recipients");
	sort(&all->seen);
	sort(&all->windows);
	sort(&all->recipients);
	return !all->seen.no_memory && !all->windows.no_memory && !all->recipients.no_memory;
}

/* The state says what would be done. */
static void tell_observed(const struct ctl *ctl, const struct shown *all) {
	bool stopped = all->recipients.count > 0;

	for (size_t i = 0; i < all->windows.count && !stopped; i++) {
		const struct destination_state *state =
		    &((const struct destination_window *)at(&all->windows, i))->state;

		stopped = state->begun && (state->window.state == WINDOW_DEAD ||
		    state->window.state == WINDOW_HELD);
	}
	if (stopped && !ctl->writer.json && all->state.generation != NULL &&
	    all->state.generation->outbound_observe)
		ctl_complain("nobody is held: outbound actions are only observed "
		    "(outbound.observe)");
}

static int list(struct ctl *ctl, const struct mask *pattern) {
	struct shown all = { .seen = { .count = 0 } };
	int result = state_open(ctl, &all.state);

	if (result == EX_OK && !copy_all(&all, pattern, ctl->relays)) {
		ctl_complain("%s", strerror(ENOMEM));
		result = EX_OSERR;
	}
	if (result == EX_OK && ctl->relays)
		list_relays(ctl, &all);
	else if (result == EX_OK) {
		list_windows(ctl, &all);
		tell_observed(ctl, &all);
	}
	free(all.seen.list);
	free(all.windows.list);
	free(all.recipients.list);
	state_close(&all.state);
	return result;
}

int command_DESTINATIONS(struct ctl *ctl) {
	struct mask pattern;
	const char *why;

	if (ctl->argument_count == 0)
		return list(ctl, NULL);
	if (!name_pattern(ctl->arguments[0], &pattern, &why))
		return ctl_usage(COMMAND_DESTINATIONS, "bad pattern %s: %s",
		    ctl->arguments[0], why);
	return list(ctl, &pattern);
}
