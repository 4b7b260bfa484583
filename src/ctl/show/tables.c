/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl classes and posternctl sessions.
 * MODEL    Sessions are read slot by slot, twice where the text wants aligning.
 * THREADS  One.
 */
#include <errno.h>
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "ctl/cli/ctl.h"
#include "ctl/act/state.h"
#include "view/classes.h"

#define MTA_TEXT_MAX		(ADDRESS_TEXT_MAX + 16)

int command_CLASSES(struct ctl *ctl) {
	struct state state;
	unsigned torn = 0;
	int result = state_open(ctl, &state);

	if (result == EX_OK && view_classes_write(&state.view, &ctl->writer, &torn) != 0)
		result = ctl_os_error(errno);
	state_torn(torn, "classes");
	return state_close(&state, result);
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

static bool is_wanted(const struct session_listing *listing, const struct session *session) {
	const struct session_control *control = &session->control;
	char class[SEGMENT_NAME_MAX + 1];

	if (control->state == SESSION_REFUSED && !listing->ctl->all)
		return false;
	return listing->ctl->class == NULL || (control->class_record != SEGMENT_NO_CLASS &&
	    strcmp(reader_class_name(listing->state->view.reader, control->class_record, class),
	    listing->ctl->class) == 0);
}

static void session_row(void *context, struct writer *writer, const void *item) {
	static const char *const proofs[] = { "owner", "witness", "lease" };
	const struct session_listing *listing = context;
	const struct view *view = &listing->state->view;
	const struct session *session = item;
	const struct session_control *control = &session->control;
	char class[SEGMENT_NAME_MAX + 1], client[ADDRESS_TEXT_MAX], mta[MTA_TEXT_MAX];
	bool inbound = control->direction == SESSION_INBOUND;
	/* the other end, in both directions */
	const struct address *host = inbound ? &session->client : &session->server;
	uint16_t client_port = inbound ? session->client_port : 0;

	address_format(host, client);
	writer_text(writer, "class", control->class_record == SEGMENT_NO_CLASS ? NULL :
	    reader_class_name(view->reader, control->class_record, class));
	writer_text(writer, "direction", inbound ? "inbound" : "outbound");
	writer_text(writer, "client", address_is_unknown(host) ? NULL : client);
	writer_number_if(writer, "client_port", client_port != 0, client_port);
	writer_number_if(writer, "port", session->server_port != 0, session->server_port);
	writer_member(writer, "mta", COLUMN_TEXT, inbound ? mta_value(session, mta) :
	    mta_name(view->generation, control->listener));
	writer_seconds(writer, "age", value_since_ds(view, session->opened_ds));
	writer_text(writer, "proof", proofs[control->proof]);
	writer_text(writer, "state", view_session_state(session));
}

static void take_session(void *context, const struct session *session) {
	const struct session_listing *listing = context;

	if (is_wanted(listing, session))
		writer_row(listing->writer, session);
}

static void session_rows(void *context, struct writer *writer) {
	struct session_listing *listing = context;

	listing->writer = writer;
	listing->torn = reader_sessions(listing->state->view.reader, take_session, listing);
}

int command_SESSIONS(struct ctl *ctl) {
	struct state state;
	struct session_listing listing = { ctl, &state, NULL, 0 };
	struct reader_class class;
	int result = state_open(ctl, &state);

	if (result == EX_OK && ctl->class != NULL &&
	    !view_class_find(&state.view, ctl->class, &class)) {
		ctl_complain("unknown class %s", ctl->class);
		result = EX_DATAERR;
	}
	if (result == EX_OK) {
		writer_table(&ctl->writer, &(const struct table){ .row = session_row,
		    .rows = session_rows, .context = &listing });
		state_torn(listing.torn, "sessions");
	}
	return state_close(&state, result);
}
