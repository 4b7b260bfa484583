/* SPDX-License-Identifier: ISC */
/*
 * Orders and outcomes of commands on a Postfix.
 *
 * MODEL: a struct each, of a program of the same build, which is not trusted.
 * ERRORS: static text; nothing of a bad datagram is used.
 * THREADS: pure.
 */
#include "wire/link/mta_order.h"

#include <string.h>

#define QUEUE_ID_LEAST	6
#define MTAS		256	/* numbers below; whoever obeys knows how many there are */
#define EXIT_CODES	256

static const char *const verb_words[] = {
	[MTA_REQUEUE] = "requeue", [MTA_LIST] = "list", [MTA_RELOAD] = "reload-mta",
};
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

static bool order_bad(const char **why, const char *reason) {
	*why = reason;
	return false;
}

static bool is_sound(uint32_t verb, uint32_t mta, const char id[MTA_ORDER_ID_MAX + 1],
    const char **why) {
	size_t length = strnlen(id, MTA_ORDER_ID_MAX + 1);

	if (verb >= MTA_VERB_COUNT)
		return order_bad(why, "unknown command");
	if (mta >= MTAS)
		return order_bad(why, "mta is not a mail server's number");
	if (verb == MTA_REQUEUE ? !mta_queue_id_is_sound(id, length) : length != 0)
		return order_bad(why, "id is not a queue id");
	return true;
}

bool mta_order_read(const void *data, size_t length, struct mta_order *order,
    const char **why) {
	if (length != sizeof(*order))
		return order_bad(why, "it has another size");
	memcpy(order, data, sizeof(*order));
	return is_sound(order->verb, order->mta, order->queue_id, why);
}

bool mta_outcome_read(const void *data, size_t length, struct mta_outcome *outcome,
    const char **why) {
	if (length != sizeof(*outcome))
		return order_bad(why, "it has another size");
	memcpy(outcome, data, sizeof(*outcome));
	if (!is_sound(outcome->verb, outcome->mta, outcome->queue_id, why))
		return false;
	if (outcome->code < MTA_KILLED || outcome->code >= EXIT_CODES)
		return order_bad(why, "code is not one of a command");
	if (outcome->is_output > 1 || (outcome->is_output == 1 && outcome->verb != MTA_LIST))
		return order_bad(why, "it has no output");
	return true;
}
