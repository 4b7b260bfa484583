/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Reloads that clients ask for.
 * MODEL    The supervisor is asked for one at a time, each with a number that comes back with
 *          its outcome: one for which nobody waits any more holds up none.
 * ERRORS   A supervisor that cannot be asked now is asked again each second; clients give up.
 * THREADS  The keeper's one.
 */
#include "front/control/control_internal.h"

#include <inttypes.h>
#include <sysexits.h>

#include "front/control/control_row.h"
#include "front/serve/service.h"

/* Asks for who has waited longest, unless one is on its way. */
void control_reload_turn(struct control *control) {
	struct client *next = NULL;
	struct stream *stream;

	TAILQ_FOREACH(stream, service_connections(control->service), all) {
		struct client *client = (struct client *)stream;

		if (!client->waits)
			continue;
		if (client->reload != 0)
			return;
		if (next == NULL || stream->waits_since_ns < next->stream.waits_since_ns)
			next = client;
	}
	if (next == NULL || control->reload == NULL ||
	    !control->reload(control->reload_context, control->reloads + 1))
		return;
	next->reload = ++control->reloads;
}

/* The client goes on with what else it asked. */
static void client_reloaded(struct client *client, bool fits) {
	client->waits = false;
	if (!fits || !client_flush(client))
		client_free(client);
	else
		client_resume(client);
}

void client_reload(struct client *client) {
	client->waits = true;
	client->reload = 0;
	client_progressed(client);
	control_reload_turn(client->control);
}

static bool client_put_frame(struct client *client, struct control_writer *writer) {
	return client_put(client, writer->out, control_writer_finish(writer));
}

static bool client_answer_reload(struct client *client, const struct control_reloaded *reloaded) {
	char *out = client->control->answer;
	struct control_writer writer;
	bool fits = true;

	for (size_t i = 0; fits && i < reloaded->messages->count; i++) {
		const struct config_message *message = &reloaded->messages->list[i];

		control_answer_begin(&writer, out);
		control_writer_add(&writer, "severity", "%s",
		    message_severity_word(message->severity));
		control_writer_add(&writer, "file", "%s", message->file);
		control_writer_add(&writer, "line", "%d", message->line);
		control_writer_add(&writer, "text", "%s", message->text);
		fits = client_put_frame(client, &writer);
	}
	for (size_t i = 0; fits && i < reloaded->needs_count; i++) {
		control_answer_begin(&writer, out);
		control_writer_add(&writer, "needs_restart", "%s", reloaded->needs_restart[i]);
		fits = client_put_frame(client, &writer);
	}
	control_writer_begin(&writer, out, CONTROL_ANSWER_BYTES);
	control_writer_add(&writer, "end", "1");
	control_writer_add(&writer, "exit", "%d", reloaded->exit_code);
	control_writer_add(&writer, "generation", "%" PRIu64, reloaded->generation);
	if (reloaded->exit_code != EX_OK)
		control_writer_add(&writer, "error", "%s", reloaded->error);
	return fits && client_put_frame(client, &writer);
}

void control_reloaded(struct control *control, const struct control_reloaded *reloaded) {
	struct stream *stream;

	TAILQ_FOREACH(stream, service_connections(control->service), all) {
		struct client *client = (struct client *)stream;

		if (!client->waits || client->reload != reloaded->number)
			continue;
		client_reloaded(client, client_answer_reload(client, reloaded));
		break;
	}
	control_reload_turn(control);
}
