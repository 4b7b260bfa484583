/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Asking the daemon to explain something.
 * THREADS  One.
 */
#include "ctl/ask/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/generation/enforcement.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define TIMEOUT_MS	10000

static const struct reason_words {
	const char *word, *text;
} reasons[] = {
#define REASON(symbol, word, text) [REASON_##symbol] = { word, text },
#include "defs/reasons.def"
#undef REASON
};

static const char *reason_text(const char *word) {
	for (size_t i = 0; word != NULL && i < COUNT_OF(reasons); i++)
		if (strcmp(reasons[i].word, word) == 0)
			return reasons[i].text;
	return NULL;
}

/* Of a share: the reason, and what the share goes by. */
static const char *lease_text(const char *lease, const char *reason, char *out, size_t size) {
	static const struct reason_words leases[] = {
#define LEASE(symbol, word, text) { word, text },
#include "defs/leases.def"
#undef LEASE
	};

	for (size_t i = 0; lease != NULL && reason != NULL && i < COUNT_OF(leases); i++) {
		if (strcmp(leases[i].word, lease) != 0)
			continue;
		(void)text_append(out, size, 0, "%s: %s", reason, leases[i].text);
		return out;
	}
	return reason;
}

struct value explain_reason_word(enum reason reason) {
	return value_text(reasons[reason].word);
}

struct value explain_reason_text(enum reason reason) {
	return value_text(reasons[reason].text);
}

void explain_write(struct explanation *explanation, const struct value *values) {
	writer_object_begin(explanation->writer, NULL);
	writer_members(explanation->writer, explanation->columns, values,
	    explanation->column_count);
	writer_object_end(explanation->writer);
}

/* People read what becomes of the mail. */
static struct value shown_value(const struct control_frame *frame, const char *name,
    struct value value, char said[ENFORCEMENT_TEXT_MAX + 32]) {
	const char *enforced = control_frame_get(frame, "enforced");
	bool applied = enforced == NULL || strcmp(enforced, "1") == 0;

	if (enforced == NULL || !value.known)
		return value;
	if (strcmp(name, "state") == 0)
		return value_text(enforcement_effect(strcmp(value.text, "held") == 0 ?
		    WINDOW_HELD : WINDOW_DEAD, applied));
	if (applied)
		return value;
	if (strcmp(name, "window_answer") == 0)
		return value_text("would suspend");
	if (strcmp(name, "text") == 0) {
		said[0] = '\0';
		(void)text_append(said, ENFORCEMENT_TEXT_MAX + 32, 0, "its mail flows: %s",
		    control_frame_get(frame, "not_enforced"));
		return value_text(said);
	}
	return value;
}

static void explain_row(void *context, const struct control_frame *frame) {
	struct explanation *explanation = context;
	struct value values[EXPLAIN_VALUES_MAX];
	char shared[512], said[ENFORCEMENT_TEXT_MAX + 32];

	if (explanation->answered)
		return;
	for (size_t i = 0; i < explanation->column_count; i++) {
		const struct column *column = &explanation->columns[i];

		if (strcmp(column->name, "source") == 0)
			values[i] = value_text("daemon");
		else if (strcmp(column->name, "note") == 0)
			values[i] = value_text(explanation->note);
		else if (strcmp(column->name, "text") == 0)
			values[i] = value_text(lease_text(control_frame_get(frame, "lease"),
			    reason_text(control_frame_get(frame, "reason")), shared,
			    sizeof(shared)));
		else
			values[i] = control_value(frame, column->name, column->kind);
		if (!explanation->writer->json)
			values[i] = shown_value(frame, column->name, values[i], said);
	}
	explain_write(explanation, values);
	explanation->answered = true;
}

static bool is_away(const struct diag *diag) {
	return diag->error == ENOENT || diag->error == ECONNREFUSED ||
	    diag->error == ETIMEDOUT || diag->error == ECONNRESET;
}

int explain_ask(struct places *places, struct explanation *explanation,
    const struct control_field *fields, size_t field_count) {
	struct control_reply reply;
	struct diag diag;

	if (control_ask(places->control, fields, field_count, TIMEOUT_MS,
		explain_row, explanation, &reply, &diag) == 0) {
		if (reply.exit != EX_OK || !explanation->answered)
			ctl_complain("%s", reply.error[0] == '\0' ?
			    "the daemon sent no answer" : reply.error);
		return reply.exit == EX_OK && !explanation->answered ?
		    EX_PROTOCOL : reply.exit;
	}
	if (explanation->answered || !is_away(&diag))
		return ctl_fail(&diag);
	ctl_complain("%s", diag.text);
	if (!places_compile(places)) {
		ctl_complain("the configuration has errors; run \"posternctl check\" to list "
		    "them");
		return EX_CONFIG;
	}
	ctl_complain("without the daemon: class and rule from the configuration file, no "
	    "counts");
	return EXPLAIN_AWAY;
}
