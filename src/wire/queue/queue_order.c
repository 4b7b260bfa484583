/* SPDX-License-Identifier: ISC */
/*
 * Orders of the queue role, and what the supervisor tells it.
 *
 * MODEL: a struct whose ids are its end.
 * ERRORS: static text; nothing of a bad datagram is used.
 * THREADS: pure.
 */
#include "wire/queue/queue_order.h"

#include <string.h>

#include "base/text.h"

#define RUN_ID_LEAST	6	/* Sendmail's have 8 and more */

_Static_assert(sizeof(struct queue_order) == 32 + sizeof(((struct queue_order *)0)->ids.list) &&
    sizeof(struct queue_tell) == 32 + sizeof(((struct queue_tell *)0)->ids.list), "no gaps");

bool queue_order_add_id(struct queue_order_ids *ids, const char *id) {
	size_t length = strlen(id);

	return ids->count < QUEUE_ORDER_IDS_MAX && sendmail_queue_id_is_sound(id, length) &&
	    text_copy(ids->list[ids->count++], sizeof(ids->list[0]), id, length);
}

size_t queue_order_length(const struct queue_order *order) {
	return offsetof(struct queue_order, ids.list) +
	    order->ids.count * sizeof(order->ids.list[0]);
}

size_t queue_tell_length(const struct queue_tell *tell) {
	return offsetof(struct queue_tell, ids.list) +
	    tell->ids.count * sizeof(tell->ids.list[0]);
}

static bool bad(const char **why, const char *reason) {
	*why = reason;
	return false;
}

/* Of `least` bytes each.  Sendmail runs each message whose id contains one: "0" would be most of
 * them. */
static bool ids_are_sound(const struct queue_order_ids *ids, size_t least) {
	for (uint32_t i = 0; i < ids->count; i++) {
		size_t length = strnlen(ids->list[i], sizeof(ids->list[i]));

		if (length < least || !sendmail_queue_id_is_sound(ids->list[i], length))
			return false;
	}
	return ids->count > 0;
}

static bool run_is_sound(const struct queue_order *order, const char **why) {
	if (!ids_are_sound(&order->ids, RUN_ID_LEAST))
		return bad(why, "run has an invalid queue id, or too many");
	if (order->brief > 1)
		return bad(why, "brief must be 0 or 1");
	if (order->checkpoint == 0 || order->checkpoint > QUEUE_CHECKPOINT_MOST)
		return bad(why, "checkpoint must be from 1 to 1000");
	return true;
}

bool queue_order_read(const void *data, size_t length, struct queue_order *order,
    const char **why) {
	memset(order, 0, sizeof(*order));
	if (length > sizeof(*order))
		return bad(why, "an order of the wrong length");
	memcpy(order, data, length);
	if (order->ids.count > QUEUE_ORDER_IDS_MAX || length != queue_order_length(order))
		return bad(why, "an order of the wrong length");
	if (order->verb == QUEUE_ORDER_RUN)
		return run_is_sound(order, why);
	if (order->verb != QUEUE_ORDER_OPEN || order->ids.count != 1 ||
	    !ids_are_sound(&order->ids, 1))
		return bad(why, "open does not name a queue file");
	return true;
}

bool queue_tell_read(const void *data, size_t length, struct queue_tell *tell,
    const char **why) {
	memset(tell, 0, sizeof(*tell));
	if (length > sizeof(*tell))
		return bad(why, "a report of the wrong length");
	memcpy(tell, data, length);
	if (tell->ids.count > QUEUE_ORDER_IDS_MAX || length != queue_tell_length(tell))
		return bad(why, "a report of the wrong length");
	if (tell->news >= QUEUE_NEWS_COUNT || tell->how > SUBPROCESS_NOT_RUN ||
	    (tell->news == QUEUE_LIVES ? !ids_are_sound(&tell->ids, RUN_ID_LEAST) :
		tell->ids.count != 0))
		return bad(why, "not a report");
	return true;
}
