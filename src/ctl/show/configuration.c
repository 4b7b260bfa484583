/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl check, reload and import-xla: what a configuration says, and
 *          what the daemon makes of it.
 * MODEL    The same messages from two sources: config_compile here, or the rows of
 *          the daemon's reply.  Text is "file:line: error: text", JSON a list.
 * THREADS  One (libconfig).
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/act/control_client.h"
#include "ctl/cli/ctl.h"
#include "ctl/act/state.h"

#define RELOAD_TIMEOUT_MS	60000
#define NAMES_BYTES		4096
#define ROLES_FOLLOW_NS		(5 * NS_PER_SECOND)	/* their heartbeats are a second apart */
#define ROLES_STEP_MS		10

/* line 0: the file as a whole */
static void write_message(struct writer *writer, const char *file, uint32_t line,
    const char *severity, const char *text) {
	char place[PATH_MAX + 16];

	if (writer->json) {
		writer_row_begin(writer);
		writer_text(writer, "file", file);
		writer_number_if(writer, "line", line != 0, line);
		writer_text(writer, "severity", severity);
		writer_text(writer, "text", text);
		writer_row_end(writer);
		return;
	}
	(void)text_append(place, sizeof(place), 0, line != 0 && file[0] != '\0' ? "%s:%u" : "%s",
	    file, (unsigned)line);
	writer_message(writer, place, severity, text);
}

static void write_messages(struct writer *writer, const struct config_messages *messages) {
	for (size_t i = 0; i < messages->count; i++) {
		const struct config_message *message = &messages->list[i];

		write_message(writer, message->file,
		    message->line > 0 ? (uint32_t)message->line : 0,
		    message_severity_word(message->severity), message->text);
	}
}

/* What no file tells: posternd, as its service runs it now, refuses to drive. */
static void note_refused(struct writer *writer, const struct view *view, const char *file) {
	char text[512];

	snprintf(text, sizeof(text), "mta.drive: the queue is not managed and Sendmail's own "
	    "queue runs deliver, because under this service Sendmail would bounce mail (%s); "
	    "install posternd-sendmail.conf (SERVICE in posternd(8))",
	    view->generation->confined);
	write_message(writer, file, 0, "note", text);
}

/* The same of a configuration that is not loaded yet.  Returns the number of notes. */
static size_t look_at_service(struct writer *writer, const struct generation *generation,
    const char *file) {
	bool is_refused = false;
	struct diag ignored;
	struct view view;

	if (generation == NULL || !generation_drives(generation))
		return 0;
	if (view_open(&view, generation_text(generation, generation->state_path), &ignored) == 0 &&
	    view.generation != NULL && view.status.health == READER_LIVE)
		is_refused = view.generation->confined[0] != '\0';
	if (is_refused)
		note_refused(writer, &view, file);
	view_close(&view);
	return is_refused;
}

/* The last line for people: what it all comes to. */
static void write_verdict(struct writer *writer, const char *path,
    const struct generation *generation, const struct config_messages *messages) {
	bool others = false;

	for (size_t i = 0; i < messages->count; i++)
		others |= messages->list[i].severity == MESSAGE_ERROR &&
		    strcmp(messages->list[i].file, path) != 0;
	writer_print(writer->out, path);
	if (generation == NULL && others)
		fputs(" and included files", writer->out);
	if (generation == NULL)
		fprintf(writer->out, ": %zu error%s, %zu note%s", messages->errors,
		    messages->errors == 1 ? "" : "s", messages->notes,
		    messages->notes == 1 ? "" : "s");
	else
		fprintf(writer->out, ": no errors, %zu note%s; %u class%s, %u rule%s",
		    messages->notes, messages->notes == 1 ? "" : "s",
		    (unsigned)generation->class_count,
		    generation->class_count == 1 ? "" : "es",
		    (unsigned)generation->rule_count,
		    generation->rule_count == 1 ? "" : "s");
	if (generation != NULL && generation->providers_file != 0)
		fprintf(writer->out, "; %u provider%s, %u reply rule%s",
		    (unsigned)generation->provider_count,
		    generation->provider_count == 1 ? "" : "s",
		    (unsigned)generation->reply_rule_count,
		    generation->reply_rule_count == 1 ? "" : "s");
	putc('\n', writer->out);
}

int command_CHECK(struct ctl *ctl) {
	const char *path = ctl->argument_count > 0 ? ctl->arguments[0] : ctl->config_path;
	struct config_messages messages;
	struct generation *generation = config_compile(path, &messages);
	int result = generation == NULL ? EX_CONFIG : EX_OK;

	if (ctl->writer.json)
		writer_list_begin(&ctl->writer, NULL);
	write_messages(&ctl->writer, &messages);
	messages.notes += look_at_service(&ctl->writer, generation, path);
	if (ctl->writer.json)
		writer_list_end(&ctl->writer);
	else
		write_verdict(&ctl->writer, path, generation, &messages);
	config_messages_free(&messages);
	free(generation);
	return result;
}

/* Names, one after the other with a NUL each. */
struct names {
	size_t length;
	char text[NAMES_BYTES];
};

static void add_name(struct names *names, const char *name) {
	size_t length = strlen(name) + 1;

	if (length > sizeof(names->text) - names->length)
		return;
	memcpy(names->text + names->length, name, length);
	names->length += length;
}

/* The one behind `name`, or the first (NULL); NULL: it is the last. */
static const char *next_name(const struct names *names, const char *name) {
	name = name == NULL ? names->text : name + strlen(name) + 1;
	return name == names->text + names->length ? NULL : name;
}

/* The daemon's rows: messages are written as they come, settings kept for the end. */
struct reload {
	struct writer *writer;
	struct names settings;		/* that wait for a restart */
	struct names behind;		/* roles that have not taken up the generation */
	unsigned roles, roles_behind;
};

static void reload_row(void *context, const struct control_frame *frame) {
	struct reload *reload = context;
	const char *setting = control_frame_get(frame, "needs_restart");
	const char *text = control_frame_get(frame, "text");
	const char *file = control_frame_get(frame, "file");
	const char *line = control_frame_get(frame, "line");
	const char *severity = control_frame_get(frame, "severity");
	uint32_t number = 0;

	if (setting != NULL && setting[0] != '\0') {
		add_name(&reload->settings, setting);
		return;
	}
	if (text == NULL)
		return;
	if (line != NULL && !text_to_u32(line, strlen(line), INT32_MAX, &number))
		number = 0;
	write_message(reload->writer, file == NULL ? "" : file, number,
	    severity == NULL ? "note" : severity, text);
}

/* Which roles run with a generation before this one? */
static void look_at_roles(struct reload *reload, const struct view *view, uint32_t generation) {
	char name[VIEW_ROLE_NAME_MAX];
	struct reader_role role;

	reload->roles = reload->roles_behind = 0;
	memset(&reload->behind, 0, sizeof(reload->behind));
	for (uint32_t i = 0; reader_role(view->reader, i, &role); i++) {
		reload->roles += role.pid > 0;
		if (role.pid <= 0 || role.generation >= generation)
			continue;
		reload->roles_behind++;
		add_name(&reload->behind, view_role_name(&role, name));
	}
}

/* The daemon has published the generation; each role maps it for itself, an idle one with
 * its next heartbeat.  Without the right to read the state nothing is known of that, nor where
 * the daemon has another state than the configuration: it waits for a restart, or a role that
 * is compromised answers. */
static void await_roles(struct reload *reload, struct places *places, bool may_name,
    uint32_t generation) {
	int64_t until_ns = clock_now_ns() + ROLES_FOLLOW_NS;
	char configured[sizeof(places->state)];
	struct diag ignored;
	struct view view;

	text_copy(configured, sizeof(configured), places->state, strlen(places->state));
	if (state_ask_place(places, &ignored) != 0 ||
	    (!may_name && strcmp(configured, places->state) != 0))
		return;
	if (view_open(&view, places->state, &ignored) == 0) {
		look_at_roles(reload, &view, generation);
		while (reload->roles_behind > 0 && clock_now_ns() < until_ns) {
			poll(NULL, 0, ROLES_STEP_MS);
			look_at_roles(reload, &view, generation);
		}
		if (view_refresh(&view, &ignored) == 0 && view.generation != NULL &&
		    generation_drive_is_refused(view.generation))
			note_refused(reload->writer, &view,
			    generation_text(view.generation, view.generation->file));
	}
	view_close(&view);
}

static void write_reloaded_text(const struct reload *reload, bool reloaded, uint32_t generation) {
	FILE *out = reload->writer->out;
	const char *name = NULL;

	while ((name = next_name(&reload->settings, name)) != NULL) {
		writer_print(out, name);
		fputs(": changed; takes effect after a restart of posternd\n", out);
	}
	if (!reloaded)
		return;
	fputs("reloaded", out);
	if (generation != 0)
		fprintf(out, ": generation %u", (unsigned)generation);
	if (reload->roles_behind > 0)
		fprintf(out, "; %u of %u workers still use the old configuration (see the "
		    "log):",
		    reload->roles_behind, reload->roles);
	while ((name = next_name(&reload->behind, name)) != NULL) {
		putc(' ', out);
		writer_print(out, name);
	}
	putc('\n', out);
}

static void write_names(struct writer *writer, const char *member, const struct names *names) {
	writer_values_begin(writer, member);
	for (const char *name = NULL; (name = next_name(names, name)) != NULL;)
		writer_value(writer, COLUMN_TEXT, value_text(name));
	writer_values_end(writer);
}

static void write_reloaded(struct reload *reload, const struct control_reply *reply,
    uint32_t generation) {
	bool reloaded = reply->exit == EX_OK;

	if (!reload->writer->json) {
		write_reloaded_text(reload, reloaded, generation);
		return;
	}
	write_names(reload->writer, "needs_restart", &reload->settings);
	write_names(reload->writer, "roles_behind", &reload->behind);
	writer_truth(reload->writer, "reloaded", reloaded);
	writer_number_if(reload->writer, "generation", generation != 0, generation);
	writer_text(reload->writer, "error", reloaded ? NULL : reply->error);
}

int command_RELOAD(struct ctl *ctl) {
	static const struct control_field request = { "command", "reload" };
	struct writer *writer = &ctl->writer;
	struct reload reload = { .writer = writer };
	struct control_reply reply;
	uint32_t generation = 0;
	struct places places;
	struct diag diag;
	int result = places_find(ctl, &places);

	if (result != EX_OK)
		return result;
	if (writer->json) {
		writer_object_begin(writer, NULL);
		writer_list_begin(writer, "messages");
	}
	result = control_ask(places.control, &request, 1, RELOAD_TIMEOUT_MS, reload_row,
	    &reload, &reply, &diag);
	if (result != 0) {
		text_copy(reply.error, sizeof(reply.error), diag.text, strlen(diag.text));
		reply.exit = ctl_fail(&diag);
	} else if (reply.exit != EX_OK) {
		ctl_complain("%s", reply.error[0] == '\0' ? "refused" : reply.error);
	}
	if (!text_to_u32(reply.generation, strlen(reply.generation), UINT32_MAX, &generation))
		generation = 0;
	if (reply.exit == EX_OK && generation != 0)
		await_roles(&reload, &places, state_is_asked_for(ctl), generation);
	if (writer->json)
		writer_list_end(writer);
	write_reloaded(&reload, &reply, generation);
	if (writer->json)
		writer_object_end(writer);
	return reply.exit == EX_OK && reload.roles_behind > 0 ? EX_TEMPFAIL : reply.exit;
}
