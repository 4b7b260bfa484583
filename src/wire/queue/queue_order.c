/* SPDX-License-Identifier: ISC */
/*
 * Orders of the queue role, and what the supervisor tells it.
 *
 * MODEL: a control frame each, written and taken apart whole.
 * ERRORS: static text; nothing of a bad datagram is used.
 * THREADS: pure.
 */
#include "wire/queue/queue_order.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "wire/link/control_frame.h"

#define RUN_ID_LEAST	6	/* Sendmail's have 8 and more */

static const char *const end_words[] = {
	[QUEUE_END_EXIT] = "exit", [QUEUE_END_SIGNAL] = "signal", [QUEUE_END_NOT_RUN] = "error",
};
#define ENDS	(sizeof(end_words) / sizeof(end_words[0]))

static bool add_id(struct queue_order_ids *ids, const char *id, size_t length) {
	return ids->count < QUEUE_ORDER_IDS_MAX && sendmail_queue_id_is_sound(id, length) &&
	    text_copy(ids->list[ids->count++], sizeof(ids->list[0]), id, length);
}

bool queue_order_add_id(struct queue_order_ids *ids, const char *id) {
	return add_id(ids, id, strlen(id));
}

/* --- writing ----------------------------------------------------------------------- */

static void write_ids(struct control_writer *writer, const char *key,
    const struct queue_order_ids *ids) {
	char text[QUEUE_ORDER_IDS_MAX * (SENDMAIL_QUEUE_ID_MAX + 1) + 1] = "";
	size_t length = 0;

	for (unsigned i = 0; i < ids->count; i++)
		length = text_append(text, sizeof(text), length, "%s%s", i > 0 ? "," : "",
		    ids->list[i]);
	control_writer_add(writer, key, "%s", text);
}

size_t queue_order_write(const struct queue_order *order, char out[QUEUE_ORDER_MAX]) {
	struct control_writer writer;

	control_writer_begin(&writer, out, QUEUE_ORDER_MAX);
	if (order->verb == QUEUE_ORDER_OPEN) {
		control_writer_add(&writer, "open", "qf%s", order->ids.list[0]);
	} else {
		write_ids(&writer, "run", &order->ids);
		control_writer_add(&writer, "generation", "%" PRIu64, order->generation);
		control_writer_add(&writer, "brief", "%d", order->brief);
		control_writer_add(&writer, "checkpoint", "%" PRIu32, order->checkpoint);
	}
	control_writer_add(&writer, "directory", "%" PRIu32, order->directory);
	control_writer_add(&writer, "ticket", "%" PRIu32, order->ticket);
	return control_writer_finish(&writer);
}

size_t queue_tell_write(const struct queue_tell *tell, char out[QUEUE_ORDER_MAX]) {
	struct control_writer writer;

	control_writer_begin(&writer, out, QUEUE_ORDER_MAX);
	switch (tell->news) {
	case QUEUE_OPENED:
		control_writer_add(&writer, "opened", "%" PRIu32, tell->ticket);
		control_writer_add(&writer, "error", "%" PRIu32, tell->error);
		break;
	case QUEUE_STARTED:
		control_writer_add(&writer, "started", "%" PRIu32, tell->ticket);
		control_writer_add(&writer, "pid", "%" PRIu32, tell->pid);
		control_writer_add(&writer, "error", "%" PRIu32, tell->error);
		break;
	case QUEUE_ENDED:
		control_writer_add(&writer, "ended", "%" PRIu32, tell->pid);
		control_writer_add(&writer, end_words[tell->how], "%" PRIu32, tell->number);
		break;
	case QUEUE_LIVES:
		control_writer_add(&writer, "lives", "%" PRIu32, tell->pid);
		control_writer_add(&writer, "directory", "%" PRIu32, tell->directory);
		write_ids(&writer, "ids", &tell->ids);
		break;
	case QUEUE_AGAIN:
		control_writer_add(&writer, "again", "1");
		break;
	}
	return control_writer_finish(&writer);
}

/* --- reading ----------------------------------------------------------------------- */

static bool take_number(const struct control_frame *frame, const char *key, uint32_t *out) {
	const char *text = control_frame_get(frame, key);

	return text != NULL && text_to_u32(text, strlen(text), UINT32_MAX, out);
}

static bool take_long_number(const struct control_frame *frame, const char *key, uint64_t *out) {
	const char *text = control_frame_get(frame, key);

	return text != NULL && text_to_u64(text, out);
}

/* For runs.  Sendmail takes each message whose id contains one: "0" would be most of them. */
static bool take_ids(const char *text, struct queue_order_ids *ids) {
	for (;;) {
		size_t length = strcspn(text, ",");

		if (length < RUN_ID_LEAST)
			return false;
		if (!add_id(ids, text, length))
			return false;
		if (text[length] == '\0')
			return true;
		text += length + 1;
	}
}

/* One frame, and no more than that. */
static bool take_frame(char *data, size_t length, struct control_frame *frame,
    const char **why) {
	long used = control_frame_parse(data, length, frame, why);

	if (used >= 0)
		*why = used == 0 ? "the frame is incomplete" : "data follows the frame";
	return used > 0 && (size_t)used == length;
}

static bool bad(const char **why, const char *reason) {
	*why = reason;
	return false;
}

static bool take_run(const struct control_frame *frame, const char *ids,
    struct queue_order *order, const char **why) {
	uint32_t brief;

	order->verb = QUEUE_ORDER_RUN;
	if (!take_ids(ids, &order->ids))
		return bad(why, "run has an invalid queue id, or too many");
	if (!take_long_number(frame, "generation", &order->generation))
		return bad(why, "generation is not a number");
	if (!take_number(frame, "brief", &brief) || brief > 1)
		return bad(why, "brief must be 0 or 1");
	order->brief = brief == 1;
	if (!take_number(frame, "checkpoint", &order->checkpoint) || order->checkpoint == 0 ||
	    order->checkpoint > QUEUE_CHECKPOINT_MOST)
		return bad(why, "checkpoint must be from 1 to 1000");
	return true;
}

bool queue_order_parse(char *data, size_t length, struct queue_order *order,
    const char **why) {
	struct control_frame frame;
	const char *name, *ids;

	memset(order, 0, sizeof(*order));
	if (!take_frame(data, length, &frame, why))
		return false;
	name = control_frame_get(&frame, "open");
	ids = control_frame_get(&frame, "run");
	if ((name == NULL) == (ids == NULL))
		return bad(why, "open or run is required");
	if (!take_number(&frame, "directory", &order->directory))
		return bad(why, "directory is not a number");
	if (!take_number(&frame, "ticket", &order->ticket))
		return bad(why, "ticket is not a number");
	if (ids != NULL)
		return take_run(&frame, ids, order, why);
	order->verb = QUEUE_ORDER_OPEN;
	if (!sendmail_queue_is_name(name) || !queue_order_add_id(&order->ids, name + 2))
		return bad(why, "open does not name a queue file");
	return true;
}

static bool take_end(const struct control_frame *frame, struct queue_tell *tell) {
	for (unsigned i = 0; i < ENDS; i++)
		if (take_number(frame, end_words[i], &tell->number)) {
			tell->how = (enum queue_end)i;
			return true;
		}
	return false;
}

static bool take_lives(const struct control_frame *frame, struct queue_tell *tell) {
	const char *ids = control_frame_get(frame, "ids");

	return take_number(frame, "directory", &tell->directory) && ids != NULL &&
	    take_ids(ids, &tell->ids);
}

bool queue_tell_parse(char *data, size_t length, struct queue_tell *tell, const char **why) {
	struct control_frame frame;
	bool whole = false;

	memset(tell, 0, sizeof(*tell));
	if (!take_frame(data, length, &frame, why))
		return false;
	if (take_number(&frame, "opened", &tell->ticket)) {
		tell->news = QUEUE_OPENED;
		whole = take_number(&frame, "error", &tell->error);
	} else if (take_number(&frame, "started", &tell->ticket)) {
		tell->news = QUEUE_STARTED;
		whole = take_number(&frame, "pid", &tell->pid) &&
		    take_number(&frame, "error", &tell->error);
	} else if (take_number(&frame, "ended", &tell->pid)) {
		tell->news = QUEUE_ENDED;
		whole = take_end(&frame, tell);
	} else if (take_number(&frame, "lives", &tell->pid)) {
		tell->news = QUEUE_LIVES;
		whole = take_lives(&frame, tell);
	} else if (control_frame_get(&frame, "again") != NULL) {
		tell->news = QUEUE_AGAIN;
		whole = true;
	}
	return whole || bad(why, "not a report, or incomplete");
}
