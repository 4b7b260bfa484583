/* SPDX-License-Identifier: ISC */
/* What the queue role and the supervisor say to each other: what is taken is all of the
 * datagram, and its ids are queue ids. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/queue/queue_order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_ids(const struct queue_order_ids *ids, unsigned least) {
	MUST(ids->count >= least && ids->count <= QUEUE_ORDER_IDS_MAX);
	for (unsigned i = 0; i < ids->count; i++)
		MUST(sendmail_queue_id_is_sound(ids->list[i], strlen(ids->list[i])));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static struct queue_order order;
	static struct queue_tell tell;
	const char *why = NULL;

	if (queue_order_read(data, size, &order, &why)) {
		check_ids(&order.ids, 1);
		MUST(queue_order_length(&order) == size && memcmp(&order, data, size) == 0);
	} else {
		MUST(why != NULL);
	}
	if (queue_tell_read(data, size, &tell, &why)) {
		check_ids(&tell.ids, tell.news == QUEUE_LIVES ? 1 : 0);
		MUST(queue_tell_length(&tell) == size && memcmp(&tell, data, size) == 0);
	}
	return 0;
}
