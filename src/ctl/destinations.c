/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl destinations.
 * MODEL    Those whose name fits the pattern (a mask, as in classes) are copied, with
 *          the names of their relays' mail servers, and shown by name.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/ctl.h"
#include "ctl/state.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define RELAYS_TEXT_MAX	(DESTINATION_RELAYS * (ADDRESS_TEXT_MAX + 1))
#define MTAS_TEXT_MAX	(SEGMENT_MTAS * (SEGMENT_NAME_MAX + 1))

struct destination_list {
	struct destination_seen *list;
	size_t count, size;
	const struct mask *pattern;	/* NULL: all */
	const struct state *state;
	bool no_memory;
};

static bool ends_with(const char *name, const struct mask *mask) {
	size_t length = strlen(name);
	const char *end = name + length - mask->name_length;

	return length >= mask->name_length &&
	    text_equal_nocase(end, mask->name, mask->name_length) &&
	    (end == name || end[-1] == '.');
}

static bool fits(const char *name, const struct mask *mask) {
	size_t length = strlen(name);
	struct address address;

	switch (mask->kind) {
	case MASK_ALL:
		return true;
	case MASK_NAME:
		return length == mask->name_length &&
		    text_equal_nocase(name, mask->name, length);
	case MASK_DOMAIN:
		return ends_with(name, mask);
	case MASK_NAME_PREFIX:
		return length > mask->name_length &&
		    text_equal_nocase(name, mask->name, mask->name_length) &&
		    name[mask->name_length] == '.';
	case MASK_ADDRESS:
		return address_parse(name, length, &address) &&
		    prefix_contains(&mask->prefix, &address);
	}
	return false;
}

static void keep(void *context, const struct destination_seen *seen) {
	struct destination_list *all = context;
	size_t size = all->size == 0 ? 256 : all->size * 2;
	struct destination_seen *list;

	if (all->no_memory ||
	    (all->pattern != NULL && !fits(seen->name, all->pattern)))
		return;
	if (all->count == all->size) {
		list = realloc(all->list, size * sizeof(*list));
		all->no_memory = list == NULL;
		if (list == NULL)
			return;
		all->list = list;
		all->size = size;
	}
	all->list[all->count++] = *seen;
}

static int compare_names(const void *a, const void *b) {
	const struct destination_seen *one = a, *other = b;

	return strcmp(one->name, other->name);
}

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

static void destination_rows(void *context, struct writer *writer) {
	const struct destination_list *all = context;

	for (size_t i = 0; i < all->count; i++) {
		const struct destination_seen *seen = &all->list[i];
		char relays[RELAYS_TEXT_MAX], cloned[MTAS_TEXT_MAX],
		    other[MTAS_TEXT_MAX];
		const struct value values[] = {
			value_text(seen->name), relays_value(seen, relays),
			mtas_value(all->state->generation, seen->cloned_by,
			    cloned),
			mtas_value(all->state->generation, seen->other_by, other),
			age_value(all->state->status.now_ns, seen->seen_ns),
		};

		writer_row(writer, values);
	}
}

static int list(struct ctl *ctl, const struct mask *pattern) {
	static const struct column columns[] = {
		{ "name", COLUMN_TEXT },
		{ "relays", COLUMN_TEXT },
		{ "cloned_by", COLUMN_TEXT },
		{ "other_by", COLUMN_TEXT },
		{ "seen_age", COLUMN_SECONDS },
	};
	struct state state;
	struct destination_list all = { .pattern = pattern, .state = &state };
	int result = state_open(ctl, &state);

	if (result == EX_OK) {
		state_torn(reader_destinations(state.reader, keep, &all),
		    "destinations");
		if (all.no_memory) {
			ctl_complain("%s", strerror(ENOMEM));
			result = EX_OSERR;
		}
	}
	if (result == EX_OK) {
		if (all.count > 1)
			qsort(all.list, all.count, sizeof(*all.list),
			    compare_names);
		writer_table(&ctl->writer, NULL, columns, COUNT_OF(columns),
		    destination_rows, &all);
	}
	free(all.list);
	state_close(&state);
	return result;
}

int command_DESTINATIONS(struct ctl *ctl) {
	struct mask pattern;
	const char *why;

	if (ctl->argument_count == 0)
		return list(ctl, NULL);
	if (!mask_parse(ctl->arguments[0], strlen(ctl->arguments[0]), &pattern, &why))
		return ctl_usage(COMMAND_DESTINATIONS, "bad pattern %s: %s",
		    ctl->arguments[0], why);
	return list(ctl, &pattern);
}
