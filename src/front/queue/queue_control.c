/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What posternctl asks the queue role.
 * MODEL    The sockets are those of control.c.  What is in memory is told at once and whole, as
 *          the queue may not change under it.  Before it comes what waits in the journal alone:
 *          where that is much, in pieces, so that the queue goes on.  An answer is bounded,
 *          and says when it was cut.
 * ERRORS   All are answers.
 * THREADS  The role's one.
 */
#include "front/queue/queue_control.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/queue/queue.h"
#include "engine/queue/queue_journal.h"
#include "front/control/control_internal.h"
#include "view/name_pattern.h"

#define ROW_BYTES	4096
#define NEXT_MOST	10000
#define PATTERN_MAX	1023
#define AT_ONCE_NS	(50 * NS_PER_MS)	/* of what is to come in pieces */
#define PAUSE_US	2000			/* between two of them */

struct queue_control {
	struct control *control;
	struct queue *queue;
	bool is_reading;	/* not all that is queued is known yet */
	TAILQ_HEAD(, listing) listings;	/* that are made in pieces, by turns */
	struct event *pieces;
};

/* An answer while it is made. */
struct rows {
	struct client *client;
	const struct generation *generation;
	const struct mask *pattern;	/* of the destination; NULL: all */
	int64_t now_ns, began_ns;
	size_t bytes, most;	/* so far, and that there may be */
	bool cut;		/* there was no room for all */
	bool is_next;		/* of what is next: says why */
	uint64_t more;		/* messages that are in the journal alone, and were not listed */
	char frame[ROW_BYTES];
};

/* Of what waits, while it is made. */
struct listing {
	TAILQ_ENTRY(listing) all;
	struct queue_journal_list *journal;	/* NULL: there is no more of it */
	bool sums_up;
	struct rows rows;
	struct mask pattern;
	char text[PATTERN_MAX + 1];		/* of it */
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
	rows->bytes += length;
	if (rows->bytes > rows->most - ROW_BYTES ||
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

static bool is_wanted(const struct rows *rows, const char *destination) {
	return rows->pattern == NULL || name_fits(destination, rows->pattern);
}

static bool put_part(void *context, const struct queue_row *row) {
	struct rows *rows = context;
	struct control_writer writer;

	if (!is_wanted(rows, row->destination))
		return true;
	row_begin(rows, &writer);
	add_part(&writer, rows, row);
	if (rows->is_next)
		control_writer_add(&writer, "why", "%s", queue_why_word(row->why));
	else
		control_writer_add(&writer, "since_ms", "%lld", rows->began_ns > row->arrival_ns ?
		    (long long)((rows->began_ns - row->arrival_ns) / NS_PER_MS) : 0);
	return row_end(rows, &writer);
}

static bool put_destination(void *context, const struct queue_destination_row *row) {
	struct rows *rows = context;
	struct control_writer writer;

	if (!is_wanted(rows, row->destination))
		return true;
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

static const char *answer_next(struct queue *queue, const struct control_frame *frame,
    struct rows *rows) {
	const char *text = control_frame_get(frame, "most");
	uint32_t most = 1;

	if (text != NULL && (!text_to_u32(text, strlen(text), NEXT_MOST, &most) || most == 0))
		return "most: 1 to 10000";
	rows->is_next = true;
	queue_each_next(queue, rows->now_ns, most, put_part, rows);
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
		    "messages are in the journal",
		    (unsigned long long)rows->more);
	return client_put(rows->client, frame, control_writer_finish(&writer));
}

/* --- what waits ------------------------------------------------------------------------- */

static void listing_free(struct queue_control *self, struct listing *listing) {
	TAILQ_REMOVE(&self->listings, listing, all);
	queue_journal_list_close(&listing->journal);
	free(listing);
}

/* Some of the journal, until then at the latest.  False: that was all. */
static bool listing_step(const struct queue_control *self, struct listing *listing,
    int64_t until_ns) {
	struct rows *rows = &listing->rows;
	bool more = listing->journal != NULL;

	rows->generation = engine_pin(self->control->engine);
	while (more && !rows->cut) {
		rows->now_ns = clock_now_ns();
		more = queue_journal_list_step(listing->journal, rows->now_ns, put_part, rows);
		if (more && rows->now_ns >= until_ns)
			break;
	}
	engine_unpin(self->control->engine, rows->generation);
	return more && !rows->cut;
}

/* Memory, and the end.  False: the connection is over. */
static bool listing_end(struct queue_control *self, struct listing *listing) {
	struct rows *rows = &listing->rows;
	bool ended;

	rows->most = self->control->out_most;
	rows->generation = engine_pin(self->control->engine);
	rows->now_ns = clock_now_ns();
	if (listing->sums_up)
		queue_each_destination(self->queue, listing->journal, rows->now_ns,
		    put_destination, rows);
	else
		queue_each(self->queue, put_part, rows);
	rows->cut = rows->cut || (listing->journal != NULL &&
	    queue_journal_list_is_cut(listing->journal));
	engine_unpin(self->control->engine, rows->generation);
	ended = put_end(rows, self->is_reading);
	listing_free(self, listing);
	return ended;
}

static void on_pieces(evutil_socket_t fd, short what, void *context) {
	static const struct timeval pause = { .tv_usec = PAUSE_US };
	struct queue_control *self = context;
	struct listing *listing = TAILQ_FIRST(&self->listings);
	struct client *client;

	(void)fd;
	(void)what;
	if (listing == NULL)
		return;
	client = listing->rows.client;
	client_progressed(client);
	if (listing_step(self, listing, 0)) {
		/* others have their turn, too */
		TAILQ_REMOVE(&self->listings, listing, all);
		TAILQ_INSERT_TAIL(&self->listings, listing, all);
		if (!client_flush(client))
			client_free(client);
	} else {
		client->waits = false;
		if (!listing_end(self, listing) || !client_flush(client))
			client_free(client);
		else
			client_resume(client);
	}
	if (!TAILQ_EMPTY(&self->listings))
		(void)event_add(self->pieces, &pause);
}

static void on_gone(struct client *client) {
	struct queue_control *self = client->control->context;
	struct listing *listing, *next;

	for (listing = TAILQ_FIRST(&self->listings); listing != NULL; listing = next) {
		next = TAILQ_NEXT(listing, all);
		if (listing->rows.client == client)
			listing_free(self, listing);
	}
}

/* NULL, or what is wrong with it. */
static const char *listing_set(struct listing *listing, const struct control_frame *frame) {
	const char *view = control_frame_get(frame, "view");
	const char *pattern = control_frame_get(frame, "pattern"), *why;

	listing->sums_up = view != NULL && strcmp(view, "destinations") == 0;
	if (!listing->sums_up && view != NULL && strcmp(view, "parts") != 0)
		return "view: must be parts, destinations or runs";
	if (pattern == NULL)
		return NULL;
	if (!text_copy(listing->text, sizeof(listing->text), pattern, strlen(pattern)) ||
	    !name_pattern(listing->text, &listing->pattern, &why))
		return "pattern: must be a mask or a name";
	listing->rows.pattern = &listing->pattern;
	return NULL;
}

/* False: the connection is over. */
static bool serve_listing(struct client *client, const struct control_frame *frame) {
	static const struct timeval pause = { .tv_usec = PAUSE_US };
	struct queue_control *self = client->control->context;
	struct listing *listing = calloc(1, sizeof(*listing));
	const char *wrong;

	if (listing == NULL)
		return client_end(client, EX_OSERR, strerror(ENOMEM));
	TAILQ_INSERT_TAIL(&self->listings, listing, all);
	listing->rows.client = client;
	listing->rows.began_ns = clock_now_ns();
	/* memory, which comes after it, is told in any case */
	listing->rows.most = self->control->out_most / 4 * 3;
	wrong = listing_set(listing, frame);
	if (wrong != NULL) {
		listing_free(self, listing);
		return client_end(client, EX_USAGE, wrong);
	}
	listing->journal = queue_journal_list_open(self->queue, listing->sums_up);
	if (listing->journal == NULL)
		listing->rows.more = queue_journal_waiting(self->queue);
	if (!listing_step(self, listing, clock_now_ns() + AT_ONCE_NS))
		return listing_end(self, listing);
	client->waits = true;
	client_progressed(client);
	return event_add(self->pieces, &pause) == 0;
}

/* --- requests ---------------------------------------------------------------------------- */

static bool serve_queue(struct client *client, const struct control_frame *frame) {
	struct queue_control *self = client->control->context;
	const char *command = control_frame_get(frame, "command");
	const char *view = control_frame_get(frame, "view"), *wrong = NULL;
	struct rows rows = { .client = client, .now_ns = clock_now_ns(),
		.most = client->control->out_most };
	bool lists = strcmp(command, "queue") == 0;

	if (lists && (view == NULL || strcmp(view, "runs") != 0))
		return serve_listing(client, frame);
	rows.generation = engine_pin(client->control->engine);
	if (lists)
		queue_each_run(self->queue, put_run, &rows);
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
	self->control->gone = on_gone;
	self->control->out_most = CONTROL_REPLY_MAX;
	TAILQ_INIT(&self->listings);
	*control = self;
	self->pieces = event_new(base, -1, 0, on_pieces, self);
	if (self->pieces != NULL)
		return 0;
	queue_control_close(control);
	return diag_set(diag, 0, "no memory for an event");
}

void queue_control_reading(struct queue_control *control, bool is_reading) {
	control->is_reading = is_reading;
}

void queue_control_close(struct queue_control **control) {
	if (*control == NULL)
		return;
	control_close(&(*control)->control);
	if ((*control)->pieces != NULL)
		event_free((*control)->pieces);
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
