/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl suspend, hold, resume, forget, limit.
 * MODEL    The daemon does it and answers what stands then; only values are checked
 *          here, where their option can be named.
 * ERRORS   Where outbound actions are only observed, that is complained about: the exit
 *          code is 0, as it was noted.
 * THREADS  One.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/act/control_client.h"
#include "ctl/cli/ctl.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define FOR_MOST_NS	(366 * 86400 * NS_PER_SECOND)
#define COUNT_MAX	10000	/* as the settings of windows allow */
#define REASON_MAX	160
#define FIELDS_MAX	8

static const struct column columns[] = {
	{ "name", COLUMN_TEXT },
	{ "kind", COLUMN_TEXT },
	{ "state", COLUMN_TEXT },
	{ "window", COLUMN_NUMBER },
	{ "ceiling", COLUMN_NUMBER },
	{ "pace", COLUMN_TEXT },
	{ "in_flight", COLUMN_NUMBER },
	{ "until", COLUMN_SECONDS },
	{ "id", COLUMN_TEXT },
	{ "reason", COLUMN_TEXT },
	{ "observed", COLUMN_TRUTH },
	{ "hint_mta", COLUMN_TEXT },
	{ "doubt", COLUMN_TEXT },
	{ "doubt_text", COLUMN_TEXT },
	{ "untold", COLUMN_TEXT },
};

struct answer_rows {
	struct writer *writer;
	bool observed;
	char doubt[512];	/* why a Postfix does not hold it, or "" */
	char untold[320];	/* why other machines are not told, or "" */
};

struct manual_request {
	struct control_field fields[FIELDS_MAX];
	size_t count;
	char seconds[24];
};

static void answer_row(void *context, const struct control_frame *frame) {
	struct answer_rows *rows = context;
	const char *observed = control_frame_get(frame, "observed");

	writer_object_begin(rows->writer, NULL);
	for (size_t i = 0; i < COUNT_OF(columns); i++)
		writer_member(rows->writer, columns[i].name, columns[i].kind,
		    control_value(frame, columns[i].name, columns[i].kind));
	writer_object_end(rows->writer);
	rows->observed = observed != NULL && strcmp(observed, "1") == 0;
	if (control_frame_get(frame, "doubt_text") != NULL)
		text_append(rows->doubt, sizeof(rows->doubt), 0, "%s: %s",
		    control_frame_get(frame, "hint_mta"), control_frame_get(frame, "doubt_text"));
	if (control_frame_get(frame, "untold") != NULL)
		text_append(rows->untold, sizeof(rows->untold), 0, "%s",
		    control_frame_get(frame, "untold"));
}

static void request_add(struct manual_request *request, const char *key, const char *value) {
	if (value != NULL)
		request->fields[request->count++] = (struct control_field){ key, value };
}

static int check_count(enum command command, const char *option, const char *text,
    uint32_t least) {
	uint32_t number;

	if (text == NULL || (text_to_u32(text, strlen(text), COUNT_MAX, &number) &&
		number >= least))
		return EX_OK;
	return ctl_usage(command, "%s %s: must be a number from %u to %d", option, text,
	    least, COUNT_MAX);
}

static int check_pace(enum command command, const char *text) {
	uint32_t count;
	int64_t period_ns;

	if (text == NULL || strcmp(text, "none") == 0 ||
	    (text_to_rate(text, &count, &period_ns) && count > 0))
		return EX_OK;
	return ctl_usage(command, "--pace %s: must be messages per time, such as 30/1m, or none", text);
}

static int check_reason(enum command command, const char *reason) {
	for (const char *at = reason; at != NULL && *at != '\0'; at++)
		if (*at < ' ' || *at > '~')
			return ctl_usage(command, "--reason: must be printable ASCII");
	if (reason != NULL && (*reason == '\0' || strlen(reason) > REASON_MAX))
		return ctl_usage(command, "--reason: must have 1 to %d characters", REASON_MAX);
	return EX_OK;
}

static int check_duration(enum command command, const char *text, char out[24]) {
	int64_t ns;

	if (text == NULL)
		return EX_OK;
	if (!text_to_duration_ns(text, &ns) || ns < NS_PER_SECOND || ns > FOR_MOST_NS)
		return ctl_usage(command,
		    "--for %s: must be a time from 1s to 366d, such as 90s, 15m, 2h or 1d",
		    text);
	snprintf(out, 24, "%lld", (long long)((ns + NS_PER_SECOND - 1) / NS_PER_SECOND));
	return EX_OK;
}

/* A usage error, or EX_OK with *request filled. */
static int request_make(const struct ctl *ctl, enum command command, const char *word,
    struct manual_request *request) {
	const char *name = ctl->argument_count > 0 ? ctl->arguments[0] : NULL;
	int result;

	if ((name == NULL) == (ctl->class == NULL))
		return ctl_usage(command, "%s: needs a destination, or --class with a class",
		    word);
	if ((name != NULL ? name : ctl->class)[0] == '\0')
		return ctl_usage(command, "%s: the name is empty", word);
	if (command == COMMAND_LIMIT && ctl->window == NULL && ctl->ceiling == NULL && ctl->pace == NULL)
		return ctl_usage(command, "limit: needs --window, --ceiling or --pace");
	if ((result = check_count(command, "--window", ctl->window, 1)) != EX_OK ||
	    (result = check_count(command, "--ceiling", ctl->ceiling, 0)) != EX_OK ||
	    (result = check_pace(command, ctl->pace)) != EX_OK ||
	    (result = check_reason(command, ctl->reason)) != EX_OK ||
	    (result = check_duration(command, ctl->duration, request->seconds)) != EX_OK)
		return result;
	request_add(request, "command", word);
	request_add(request, "name", name);
	request_add(request, "class", ctl->class);
	request_add(request, "for", ctl->duration == NULL ? NULL : request->seconds);
	request_add(request, "reason", ctl->reason);
	request_add(request, "window", ctl->window);
	request_add(request, "ceiling", ctl->ceiling);
	request_add(request, "pace", ctl->pace);
	return EX_OK;
}

static int manual_ask(struct ctl *ctl, const struct manual_request *request) {
	struct answer_rows rows = { .writer = &ctl->writer };
	struct places places;
	int result = places_find(ctl, &places);

	if (result == EX_OK)
		result = control_order(places.control, request->fields, request->count,
		    answer_row, &rows);
	if (result == EX_OK && rows.observed)
		ctl_complain("recorded but not enforced: observe mode is on for outbound mail "
		    "(outbound.observe)");
	if (result == EX_OK && rows.doubt[0] != '\0')
		ctl_complain("recorded but not enforced for mail already in this Postfix (mta "
		    "%s)",
		    rows.doubt);
	if (result == EX_OK && rows.untold[0] != '\0')
		ctl_complain("recorded, but the other nodes cannot be notified now (cluster: "
		    "%s); they will be when the connection is back", rows.untold);
	return result;
}

static int manual_run(struct ctl *ctl, enum command command, const char *word) {
	struct manual_request request = { .count = 0 };
	int result = request_make(ctl, command, word, &request);

	return result == EX_OK ? manual_ask(ctl, &request) : result;
}

#define MANUAL(symbol, word, done) \
int command_##symbol(struct ctl *ctl) { \
	return manual_run(ctl, COMMAND_##symbol, word); \
}
#include "defs/manual.def"
#undef MANUAL
