/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl check, reload and import-xla: what a configuration says, and
 *          what the daemon makes of it.
 * MODEL    The same messages from two sources: config_compile here, or the rows of
 *          the daemon's reply.  Text is "file:line: error: text", JSON a list.
 * THREADS  One (libconfig).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "ctl/control_client.h"
#include "ctl/ctl.h"

#define COUNT_OF(array)		(sizeof(array) / sizeof((array)[0]))
#define RELOAD_TIMEOUT_MS	60000
#define SETTINGS_BYTES		4096

static const struct column message_columns[] = {
	{ "file", COLUMN_TEXT },
	{ "line", COLUMN_NUMBER },
	{ "severity", COLUMN_TEXT },
	{ "text", COLUMN_TEXT },
};

/* line 0: the file as a whole */
static void write_message(struct writer *writer, const char *file, uint32_t line,
    const char *severity, const char *text) {
	const struct value values[] = {
		value_text(file),
		line == 0 ? value_unknown() : value_number(line),
		value_text(severity),
		value_text(text),
	};

	if (writer->json) {
		writer_row(writer, values);
		return;
	}
	if (file[0] != '\0') {
		writer_print(writer->out, file);
		if (line != 0)
			fprintf(writer->out, ":%u", (unsigned)line);
		fputs(": ", writer->out);
	}
	writer_tone(writer, strcmp(severity, "error") == 0 ? TONE_BAD : TONE_WARN);
	writer_print(writer->out, severity);
	writer_tone(writer, TONE_NONE);
	fputs(": ", writer->out);
	writer_print(writer->out, text);
	putc('\n', writer->out);
}

static void write_messages(struct writer *writer, const struct config_messages *messages) {
	for (size_t i = 0; i < messages->count; i++) {
		const struct config_message *message = &messages->list[i];

		write_message(writer, message->file,
		    message->line > 0 ? (uint32_t)message->line : 0,
		    message->severity == MESSAGE_ERROR ? "error" : "note", message->text);
	}
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
		fputs(" and the files that it names", writer->out);
	if (generation == NULL)
		fprintf(writer->out, ": %zu error%s, %zu note%s\n", messages->errors,
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
		fprintf(writer->out, "; %u provider%s, %u rule%s for replies",
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
		writer_table_begin(&ctl->writer, NULL, message_columns,
		    COUNT_OF(message_columns));
	write_messages(&ctl->writer, &messages);
	if (ctl->writer.json)
		writer_table_end(&ctl->writer);
	else
		write_verdict(&ctl->writer, path, generation, &messages);
	config_messages_free(&messages);
	free(generation);
	return result;
}

/* The daemon's rows: messages are written as they come, settings kept for the
 * end, one after the other with a NUL each. */
struct reload {
	struct writer *writer;
	size_t length;		/* of settings */
	size_t read;
	char settings[SETTINGS_BYTES];
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
		size_t length = strlen(setting) + 1;

		if (length <= sizeof(reload->settings) - reload->length) {
			memcpy(reload->settings + reload->length, setting, length);
			reload->length += length;
		}
		return;
	}
	if (text == NULL)
		return;
	if (line != NULL && !text_to_u32(line, strlen(line), INT32_MAX, &number))
		number = 0;
	write_message(reload->writer, file == NULL ? "" : file, number,
	    severity == NULL ? "note" : severity, text);
}

static const char *next_setting(void *context) {
	struct reload *reload = context;
	const char *setting = reload->settings + reload->read;

	if (reload->read == reload->length)
		return NULL;
	reload->read += strlen(setting) + 1;
	return setting;
}

static void write_reloaded(struct reload *reload, const struct control_reply *reply) {
	static const struct column columns[] = {
		{ "reloaded", COLUMN_TRUTH },
		{ "generation", COLUMN_NUMBER },
		{ "error", COLUMN_TEXT },
	};
	uint32_t generation = 0;
	bool known = text_to_u32(reply->generation, strlen(reply->generation),
	    UINT32_MAX, &generation);
	const struct value values[] = {
		value_truth(reply->exit == EX_OK),
		known ? value_number(generation) : value_unknown(),
		reply->exit == EX_OK ? value_unknown() : value_text(reply->error),
	};
	const char *setting;

	if (reload->writer->json) {
		writer_strings(reload->writer, "needs_restart", next_setting, reload);
		writer_members(reload->writer, columns, values, COUNT_OF(columns));
		return;
	}
	while ((setting = next_setting(reload)) != NULL) {
		writer_print(reload->writer->out, setting);
		fputs(": changed, but waits for a restart of posternd\n",
		    reload->writer->out);
	}
	if (reply->exit == EX_OK && known)
		fprintf(reload->writer->out, "reloaded: generation %u\n",
		    (unsigned)generation);
	else if (reply->exit == EX_OK)
		fputs("reloaded\n", reload->writer->out);
}

int command_RELOAD(struct ctl *ctl) {
	static const struct control_field request = { "command", "reload" };
	struct writer *writer = &ctl->writer;
	struct reload reload = { .writer = writer };
	struct control_reply reply;
	struct places places;
	struct diag diag;
	int result = places_find(ctl, &places);

	places_free(&places);
	if (result != EX_OK)
		return result;
	if (writer->json) {
		writer_object_begin(writer, NULL);
		writer_table_begin(writer, "messages", message_columns,
		    COUNT_OF(message_columns));
	}
	result = control_ask(places.control, &request, 1, RELOAD_TIMEOUT_MS, reload_row,
	    &reload, &reply, &diag);
	if (result != 0) {
		text_copy(reply.error, sizeof(reply.error), diag.text, strlen(diag.text));
		reply.exit = ctl_fail(&diag);
	} else if (reply.exit != EX_OK) {
		ctl_complain("%s", reply.error[0] == '\0' ? "refused" : reply.error);
	}
	if (writer->json)
		writer_table_end(writer);
	write_reloaded(&reload, &reply);
	if (writer->json)
		writer_object_end(writer);
	return reply.exit;
}
