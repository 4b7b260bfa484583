/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl classes and posternctl sessions.
 * MODEL    Classes are copied first and shown in the order of the configuration
 *          in force (it decides who matches first), removed ones behind them.
 *          Sessions are read slot by slot, twice where the text wants aligning.
 * THREADS  One.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/ctl.h"
#include "ctl/state.h"

#define COUNT_OF(array)		(sizeof(array) / sizeof((array)[0]))
#define NS_PER_DS		(NS_PER_SECOND / 10)
#define MTA_TEXT_MAX		(ADDRESS_TEXT_MAX + 16)

struct placed_class {
	uint32_t place;
	struct reader_class class;
};

struct class_list {
	struct placed_class *list;
	size_t count, size;
};

static void keep_class(void *context, const struct reader_class *class) {
	struct class_list *classes = context;

	if (classes->count == classes->size)
		return;
	classes->list[classes->count].place = UINT32_MAX;
	classes->list[classes->count++].class = *class;
}

static int compare_places(const void *a, const void *b) {
	const struct placed_class *one = a, *other = b;

	if (one->place != other->place)
		return one->place < other->place ? -1 : 1;
	return (int)one->class.record - (int)other->class.record;
}

static int compare_records(const void *a, const void *b) {
	const struct placed_class *one = a, *other = b;

	return (int)one->class.record - (int)other->class.record;
}

/* By the configuration in force; without it they stay in order of record. */
static void place_classes(struct class_list *classes,
    const struct generation *generation) {
	if (generation == NULL)
		return;
	for (uint32_t i = 0; i < generation->class_count; i++) {
		struct placed_class key, *found;

		key.class.record = (uint16_t)generation_class(generation, i)->record;
		found = bsearch(&key, classes->list, classes->count,
		    sizeof(key), compare_records);
		if (found != NULL)
			found->place = i;
	}
	qsort(classes->list, classes->count, sizeof(*classes->list), compare_places);
}

static void class_rows(void *context, struct writer *writer) {
	const struct class_list *classes = context;

	for (size_t i = 0; i < classes->count; i++) {
		const struct reader_class *c = &classes->list[i].class;
		uint32_t inbound = c->open_inbound <= c->open ? c->open_inbound : c->open;
		const struct value values[] = {
			value_text(c->name), value_number(c->open),
			value_number(inbound), value_number(c->open - inbound),
			value_limit(c->sessions), value_limit(c->inbound),
			value_number(c->peak), value_number(c->admitted),
			value_number(c->refused), value_number(c->observed),
			value_number(c->deferred), value_number(c->adopted),
			value_truth(c->observe), value_truth(c->removed),
		};

		writer_row(writer, values);
	}
}

int command_CLASSES(struct ctl *ctl) {
	static const struct column columns[] = {
		{ "name", COLUMN_TEXT },
		{ "open", COLUMN_NUMBER },
		{ "open_inbound", COLUMN_NUMBER },
		{ "open_outbound", COLUMN_NUMBER },
		{ "sessions", COLUMN_NUMBER },
		{ "inbound", COLUMN_NUMBER },
		{ "peak", COLUMN_NUMBER },
		{ "admitted", COLUMN_NUMBER },
		{ "refused", COLUMN_NUMBER },
		{ "observed", COLUMN_NUMBER },
		{ "deferred", COLUMN_NUMBER },
		{ "adopted", COLUMN_NUMBER },
		{ "observe", COLUMN_TRUTH },
		{ "removed", COLUMN_TRUTH },
	};
	struct class_list classes = { NULL, 0, 0 };
	struct state state;
	int result = state_open(ctl, &state);

	if (result == EX_OK) {
		classes.size = state.status.records_size;
		classes.list = calloc(classes.size, sizeof(*classes.list));
		if (classes.list == NULL) {
			ctl_complain("%s", strerror(errno));
			result = EX_OSERR;
		}
	}
	if (result == EX_OK) {
		state_torn(reader_classes(state.reader, keep_class, &classes), "classes");
		place_classes(&classes, state.generation);
		writer_table(&ctl->writer, NULL, columns, COUNT_OF(columns),
		    class_rows, &classes);
	}
	free(classes.list);
	state_close(&state);
	return result;
}

struct session_listing {
	const struct ctl *ctl;
	const struct state *state;
	struct writer *writer;
	unsigned torn;
};

/* "192.0.2.1:25", "[2001:db8::1]:25", "*:25", or not known. */
static struct value mta_value(const struct session *session, char out[MTA_TEXT_MAX]) {
	unsigned port = session->server_port;
	char address[ADDRESS_TEXT_MAX];

	if (address_is_unknown(&session->server)) {
		if (port == 0)
			return value_unknown();
		text_append(out, MTA_TEXT_MAX, 0, "*:%u", port);
		return value_text(out);
	}
	address_format(&session->server, address);
	if (address_is_v4(&session->server))
		text_append(out, MTA_TEXT_MAX, 0, "%s:%u", address, port);
	else
		text_append(out, MTA_TEXT_MAX, 0, "[%s]:%u", address, port);
	return value_text(out);
}

/* Of an outbound session: by its number in the configuration. */
static struct value mta_name(const struct generation *generation, uint8_t number) {
	if (generation == NULL || number >= generation->mta_count)
		return value_unknown();
	return value_text(generation_text(generation, generation->mtas[number].name));
}

static struct value age_value(const struct reader_status *status,
    const struct session *session) {
	int64_t opened_ns = status->created_ns + session->opened_ds * NS_PER_DS;

	if (opened_ns > status->now_ns)
		return value_number(0);
	return value_number((uint64_t)((status->now_ns - opened_ns) / NS_PER_SECOND));
}

static void session_row(void *context, const struct session *session) {
	static const char *const states[SESSION_STATES] = {
		"free", "open", "deferred", "uncounted", "refused",
	};
	static const char *const proofs[] = { "owner", "witness", "lease" };
	const struct session_listing *listing = context;
	const struct session_control *control = &session->control;
	char class[SEGMENT_NAME_MAX + 1], client[ADDRESS_TEXT_MAX], mta[MTA_TEXT_MAX];
	bool inbound = control->direction == SESSION_INBOUND;
	/* the other end, in both directions */
	const struct address *host = inbound ? &session->client : &session->server;
	uint16_t port = inbound ? session->client_port : session->server_port;
	bool classless = control->class_record == SEGMENT_NO_CLASS;

	if (control->state == SESSION_REFUSED && !listing->ctl->all)
		return;
	if (!classless)
		reader_class_name(listing->state->reader, control->class_record, class);
	if (listing->ctl->class != NULL &&
	    (classless || strcmp(class, listing->ctl->class) != 0))
		return;
	address_format(host, client);
	const struct value values[] = {
		classless ? value_unknown() : value_text(class),
		value_text(inbound ? "inbound" : "outbound"),
		address_is_unknown(host) ? value_unknown() : value_text(client),
		port == 0 ? value_unknown() : value_number(port),
		inbound ? mta_value(session, mta) :
		    mta_name(listing->state->generation, control->listener),
		age_value(&listing->state->status, session),
		value_text(proofs[control->proof]),
		value_text(states[control->state]),
	};
	writer_row(listing->writer, values);
}

static void session_rows(void *context, struct writer *writer) {
	struct session_listing *listing = context;

	listing->writer = writer;
	listing->torn = reader_sessions(listing->state->reader, session_row, listing);
}

struct name_search {
	const char *name;
	bool found;
};

static void compare_name(void *context, const struct reader_class *class) {
	struct name_search *search = context;

	if (strcmp(class->name, search->name) == 0)
		search->found = true;
}

static bool class_exists(const struct reader *reader, const char *name) {
	struct name_search search = { name, false };

	reader_classes(reader, compare_name, &search);
	return search.found;
}

int command_SESSIONS(struct ctl *ctl) {
	static const struct column columns[] = {
		{ "class", COLUMN_TEXT },
		{ "direction", COLUMN_TEXT },
		{ "client", COLUMN_TEXT },
		{ "port", COLUMN_NUMBER },
		{ "mta", COLUMN_TEXT },
		{ "age", COLUMN_SECONDS },
		{ "proof", COLUMN_TEXT },
		{ "state", COLUMN_TEXT },
	};
	struct state state;
	struct session_listing listing = { ctl, &state, NULL, 0 };
	int result = state_open(ctl, &state);

	if (result == EX_OK && ctl->class != NULL &&
	    !class_exists(state.reader, ctl->class)) {
		ctl_complain("no class is named %s", ctl->class);
		result = EX_DATAERR;
	}
	if (result == EX_OK) {
		writer_table(&ctl->writer, NULL, columns, COUNT_OF(columns),
		    session_rows, &listing);
		state_torn(listing.torn, "sessions");
	}
	state_close(&state);
	return result;
}
