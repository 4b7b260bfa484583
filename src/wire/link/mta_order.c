/* SPDX-License-Identifier: ISC */
/*
 * Orders and outcomes of commands on a Postfix.
 *
 * MODEL: a control frame each, written and taken apart whole.
 * ERRORS: static text; nothing of a bad datagram is used.
 * THREADS: pure.
 */
#include "wire/link/mta_order.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "wire/link/control_frame.h"

#define QUEUE_ID_LEAST	6
#define MTAS		256	/* numbers below; whoever obeys knows how many there are */
#define EXIT_CODES	256

static const char *const verb_words[] = {
	[MTA_REQUEUE] = "requeue", [MTA_LIST] = "list", [MTA_RELOAD] = "reload-mta",
};
static const char *const failures[] = {
	[-MTA_NOT_RUN] = "not-run", [-MTA_TOO_SOON] = "too-soon", [-MTA_KILLED] = "killed",
};
#define FAILURES ((int)(sizeof(failures) / sizeof(failures[0])))

const char *mta_verb_word(enum mta_verb verb) {
	return verb_words[verb];
}

bool mta_queue_id_is_sound(const char *text, size_t length) {
	if (length < QUEUE_ID_LEAST || length > MTA_ORDER_ID_MAX)
		return false;
	for (size_t i = 0; i < length; i++) {
		char c = text[i];

		if (!(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z'))
			return false;
	}
	return true;
}

size_t mta_order_write(const struct mta_order *order, char out[MTA_ORDER_MAX]) {
	struct control_writer writer;

	control_writer_begin(&writer, out, MTA_ORDER_MAX);
	control_writer_add(&writer, "command", "%s", mta_verb_word(order->verb));
	control_writer_add(&writer, "mta", "%u", order->mta);
	control_writer_add(&writer, "generation", "%" PRIu64, order->generation);
	if (order->verb == MTA_REQUEUE)
		control_writer_add(&writer, "id", "%s", order->queue_id);
	return control_writer_finish(&writer);
}

size_t mta_outcome_write(const struct mta_outcome *outcome, char out[MTA_ORDER_MAX]) {
	struct control_writer writer;

	control_writer_begin(&writer, out, MTA_ORDER_MAX);
	control_writer_add(&writer, "done", "%s", mta_verb_word(outcome->verb));
	control_writer_add(&writer, "mta", "%u", outcome->mta);
	if (outcome->code >= 0)
		control_writer_add(&writer, "exit", "%d", outcome->code);
	else
		control_writer_add(&writer, "failed", "%s", failures[-outcome->code]);
	if (outcome->verb == MTA_REQUEUE)
		control_writer_add(&writer, "id", "%s", outcome->queue_id);
	return control_writer_finish(&writer);
}

size_t mta_output_write(unsigned mta, char out[MTA_ORDER_MAX]) {
	struct control_writer writer;

	control_writer_begin(&writer, out, MTA_ORDER_MAX);
	control_writer_add(&writer, "output", "%s", mta_verb_word(MTA_LIST));
	control_writer_add(&writer, "mta", "%u", mta);
	return control_writer_finish(&writer);
}

static bool take_verb(const char *word, enum mta_verb *verb) {
	for (unsigned i = 0; word != NULL && i < MTA_VERB_COUNT; i++)
		if (strcmp(word, verb_words[i]) == 0) {
			*verb = (enum mta_verb)i;
			return true;
		}
	return false;
}

static bool take_small(const struct control_frame *frame, const char *key, uint32_t limit,
    uint32_t *out) {
	const char *text = control_frame_get(frame, key);

	return text != NULL && text_to_u32(text, strlen(text), limit - 1, out);
}

static bool take_number(const struct control_frame *frame, const char *key, uint64_t *out) {
	const char *text = control_frame_get(frame, key);

	return text != NULL && text_to_u64(text, out);
}

static bool take_id(const struct control_frame *frame, char out[MTA_ORDER_ID_MAX + 1]) {
	const char *text = control_frame_get(frame, "id");

	return text != NULL && mta_queue_id_is_sound(text, strlen(text)) &&
	    text_copy(out, MTA_ORDER_ID_MAX + 1, text, strlen(text));
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

bool mta_order_parse(char *data, size_t length, struct mta_order *order, const char **why) {
	struct control_frame frame;

	memset(order, 0, sizeof(*order));
	if (!take_frame(data, length, &frame, why))
		return false;
	if (!take_verb(control_frame_get(&frame, "command"), &order->verb))
		return bad(why, "unknown command");
	if (!take_small(&frame, "mta", MTAS, &order->mta))
		return bad(why, "mta is not a mail server's number");
	if (!take_number(&frame, "generation", &order->generation))
		return bad(why, "generation is not a number");
	if (order->verb == MTA_REQUEUE && !take_id(&frame, order->queue_id))
		return bad(why, "id is not a queue id");
	return true;
}

static bool take_code(const struct control_frame *frame, int *code) {
	const char *word = control_frame_get(frame, "failed");
	uint32_t number;

	if (take_small(frame, "exit", EXIT_CODES, &number)) {
		*code = (int)number;
		return true;
	}
	for (int i = 1; word != NULL && i < FAILURES; i++)
		if (strcmp(word, failures[i]) == 0) {
			*code = -i;
			return true;
		}
	return false;
}

bool mta_outcome_parse(char *data, size_t length, struct mta_outcome *outcome,
    bool *is_output, const char **why) {
	struct control_frame frame;

	memset(outcome, 0, sizeof(*outcome));
	if (!take_frame(data, length, &frame, why))
		return false;
	*is_output = take_verb(control_frame_get(&frame, "output"), &outcome->verb) &&
	    outcome->verb == MTA_LIST;
	if (!*is_output && !take_verb(control_frame_get(&frame, "done"), &outcome->verb))
		return bad(why, "unknown command");
	if (!take_small(&frame, "mta", MTAS, &outcome->mta))
		return bad(why, "mta is not a mail server's number");
	if (*is_output)
		return true;
	if (!take_code(&frame, &outcome->code))
		return bad(why, "exit or failed is required");
	if (outcome->verb == MTA_REQUEUE && !take_id(&frame, outcome->queue_id))
		return bad(why, "id is not a queue id");
	return true;
}
