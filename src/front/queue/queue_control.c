/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What posternctl asks the queue role.
 * MODEL    The sockets are those of control.c.  An answer is made at once and whole, as
 *          the queue may not change under it; it is bounded, and says when it was cut.
 * ERRORS   All are answers.
 * THREADS  The role's one.
 */
#include "front/queue/queue_control.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/queue/queue.h"
#include "engine/queue/queue_journal.h"
#include "front/control/control_internal.h"

#define ROW_BYTES	4096
#define NEXT_MOST	10000

struct queue_control {
	struct control *control;
	struct queue *queue;
	bool is_reading;	/* not all that is queued is known yet */
};

/* An answer while it is made. */
struct rows {
	struct client *client;
	const struct generation *generation;
	int64_t now_ns;
	bool cut;		/* there was no room for all */
	uint64_t more;		/* messages that are in the journal alone */
	char frame[ROW_BYTES];
};

/* --- rows ------------------------------------------------------------------------------ */

static void row_begin(struct rows *rows, struct control_writer *writer) {
	control_writer_begin(writer, rows->frame, sizeof(rows->frame));
	control_writer_add(writer, "row", "1");
}

/* False: no more rows.  A row that is too long is left out. */
static bool row_end(struct rows *rows, struct control_writer *writer) {
	size_t length = control_writer_finish(writer);

	/* the end must find room, too */
	if (!client_has_room(rows->client, length + ROW_BYTES) ||
	    !client_put(rows->client, rows->frame, length)) {
		rows->cut = true;
		return false;
	}
	return true;
}

static const char *mta_name(const struct rows *rows, unsigned mta) {
	return mta < rows->generation->mta_count ?
	    generation_text(rows->generation, rows->generation->mtas[mta].name) : "";
}

/* How long ago; nothing where it is not known. */
static void add_age(struct control_writer *writer, const char *key, const struct rows *rows,
    int64_t then_ns) {
	int64_t age_ns = rows->now_ns - then_ns;

	control_writer_add(writer, key, "%lld",
	    age_ns > 0 ? (long long)(age_ns / NS_PER_SECOND) : 0);
}

/* How long still; nothing where it is not by time. */
static void add_until(struct control_writer *writer, const struct rows *rows, int64_t due_ns) {
	if (due_ns > rows->now_ns && due_ns != INT64_MAX)
		control_writer_add(writer, "until", "%lld",
		    (long long)((due_ns - rows->now_ns + NS_PER_SECOND - 1) / NS_PER_SECOND));
}

static void add_part(struct control_writer *writer, const struct rows *rows,
    const struct queue_row *row) {
	control_writer_add(writer, "destination", "%s", row->destination);
	control_writer_add(writer, "id", "%s", row->id);
	control_writer_add(writer, "mta", "%s", mta_name(rows, row->mta));
	control_writer_add(writer, "sender", "%s", row->sender);
	control_writer_add(writer, "recipients", "%u", row->recipients);
	control_writer_add(writer, "unread", "%u", row->unread);
	add_age(writer, "age", rows, row->arrival_ns);
	if (row->tried_ns != 0)
		add_age(writer, "tried", rows, row->tried_ns);
	control_writer_add(writer, "tries", "%u", row->tries);
	control_writer_add(writer, "wait", "%s", queue_wait_word(row->wait));
	add_until(writer, rows, row->due_ns);
	control_writer_add(writer, "run", "%u", row->run);
}

static bool put_part(void *context, const struct queue_row *row) {
	struct rows *rows = context;
	struct control_writer writer;

	row_begin(rows, &writer);
	add_part(&writer, rows, row);
	return row_end(rows, &writer);
}

static bool put_next(void *context, const struct queue_next *next) {
	struct rows *rows = context;
	struct control_writer writer;

	row_begin(rows, &writer);
	add_part(&writer, rows, &next->row);
	control_writer_add(&writer, "why", "%s", queue_why_word(next->why));
	return row_end(rows, &writer);
}

static bool put_destination(void *context, const struct queue_destination_row *row) {
	struct rows *rows = context;
	struct control_writer writer;

	row_begin(rows, &writer);
	control_writer_add(&writer, "destination", "%s", row->destination);
	control_writer_add(&writer, "messages", "%u", row->messages);
	control_writer_add(&writer, "recipients", "%u", row->recipients);
	control_writer_add(&writer, "running", "%u", row->running);
	control_writer_add(&writer, "window", "%u", row->window);
	control_writer_add(&writer, "wait", "%s", queue_wait_word(row->wait));
	control_writer_add(&writer, "doubtful", "%d", row->doubtful);
	control_writer_add(&writer, "proven", "%d", row->proven);
	if (row->messages > 0)
		add_age(&writer, "age", rows, row->oldest_ns);
	add_until(&writer, rows, row->due_ns);
	return row_end(rows, &writer);
}

static bool put_run(void *context, const struct queue_run_row *row) {
	struct rows *rows = context;
	struct control_writer writer;

	row_begin(rows, &writer);
	control_writer_add(&writer, "run", "%u", row->run);
	if (row->pid > 0)
		control_writer_add(&writer, "pid", "%d", (int)row->pid);
	control_writer_add(&writer, "mta", "%s", mta_name(rows, row->mta));
	control_writer_add(&writer, "messages", "%u", row->messages);
	control_writer_add(&writer, "recipients", "%u", row->recipients);
	control_writer_add(&writer, "destination", "%s", row->destination);
	add_age(&writer, "age", rows, row->started_ns);
	if (row->progress_ns != 0)
		add_age(&writer, "progress", rows, row->progress_ns);
	control_writer_add(&writer, "stalls", "%d", row->stalls);
	control_writer_add(&writer, "adopted", "%d", row->adopted);
	return row_end(rows, &writer);
}

/* --- requests ---------------------------------------------------------------------------- */

/* NULL, or what is wrong with the request. */
static const char *answer_queue(struct queue *queue, const struct control_frame *frame,
    struct rows *rows) {
	const char *view = control_frame_get(frame, "view");
	const char *destination = control_frame_get(frame, "destination");

	if (view == NULL || strcmp(view, "parts") == 0)
		queue_each(queue, destination, rows->now_ns, put_part, rows);
	else if (strcmp(view, "destinations") == 0)
		queue_each_destination(queue, rows->now_ns, put_destination, rows);
	else if (strcmp(view, "runs") == 0)
		queue_each_run(queue, rows->now_ns, put_run, rows);
	else
		return "view: must be parts, destinations or runs";
	if (view == NULL || strcmp(view, "runs") != 0) {
		struct queue_journal_view journal;

		queue_journal_look(queue, &journal);
		rows->more = journal.more;
	}
	return NULL;
}

static const char *answer_next(struct queue *queue, const struct control_frame *frame,
    struct rows *rows) {
	const char *text = control_frame_get(frame, "most");
	uint32_t most = 1;

	if (text != NULL && (!text_to_u32(text, strlen(text), NEXT_MOST, &most) || most == 0))
		return "most: 1 to 10000";
	queue_each_next(queue, rows->now_ns, most, put_next, rows);
	return NULL;
}

static bool put_end(const struct rows *rows, bool is_reading) {
	struct control_writer writer;
	char frame[256];

	control_writer_begin(&writer, frame, sizeof(frame));
	control_writer_add(&writer, "end", "1");
	control_writer_add(&writer, "exit", "%d", EX_OK);
	if (rows->more > 0)
		control_writer_add(&writer, "more", "%llu", (unsigned long long)rows->more);
	if (rows->cut)
		control_writer_add(&writer, "error", "%s", "the list is incomplete: too many "
		    "entries");
	else if (is_reading)
		control_writer_add(&writer, "error", "%s", "the list is incomplete: the queue "
		    "is being read for the first time");
	else if (rows->more > 0)
		control_writer_add(&writer, "error", "the list is incomplete: %llu more "
		    "messages wait in the journal for room in memory",
		    (unsigned long long)rows->more);
	return client_put(rows->client, frame, control_writer_finish(&writer));
}

static bool serve_queue(struct client *client, const struct control_frame *frame) {
	struct queue_control *self = client->control->context;
	const char *command = control_frame_get(frame, "command"), *wrong;
	struct rows rows = { .client = client, .now_ns = clock_now_ns() };

	rows.generation = engine_pin(client->control->engine);
	if (strcmp(command, "queue") == 0)
		wrong = answer_queue(self->queue, frame, &rows);
	else if (strcmp(command, "next") == 0)
		wrong = answer_next(self->queue, frame, &rows);
	else
		wrong = "unknown command";
	engine_unpin(client->control->engine, rows.generation);
	return wrong == NULL ? put_end(&rows, self->is_reading) :
	    client_end(client, EX_USAGE, wrong);
}

/* --- life ---------------------------------------------------------------------------------- */

int queue_control_open(struct queue_control **control, struct event_base *base,
    struct engine *engine, struct queue *queue, struct diag *diag) {
	struct queue_control *self = calloc(1, sizeof(*self));

	*control = NULL;
	if (self == NULL)
		return diag_set(diag, 0, "no memory for the control server");
	if (control_begin(&self->control, base, engine, serve_queue, diag) != 0) {
		free(self);
		return -1;
	}
	self->queue = queue;
	self->control->context = self;
	self->control->out_most = CONTROL_REPLY_MAX;
	*control = self;
	return 0;
}

void queue_control_reading(struct queue_control *control, bool is_reading) {
	control->is_reading = is_reading;
}

void queue_control_close(struct queue_control **control) {
	if (*control == NULL)
		return;
	control_close(&(*control)->control);
	free(*control);
	*control = NULL;
}

int queue_control_listen(struct queue_control *control, int fd,
    const struct control_access *access, struct diag *diag) {
	return control_listen(control->control, fd, access, diag);
}

void queue_control_second(struct queue_control *control, int64_t now_ns) {
	control_second(control->control, now_ns);
}
