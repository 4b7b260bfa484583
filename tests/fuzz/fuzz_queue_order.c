/* SPDX-License-Identifier: ISC */
/* What the queue role and the supervisor say to each other: what is taken is the same when
 * it is written and read again, and its ids are queue ids. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/queue/queue_order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy_of(const void *data, size_t size) {
	char *copy = malloc(size + 1);

	if (copy == NULL)
		abort();
	if (size > 0)
		memcpy(copy, data, size);
	return copy;
}

static void check_ids(const struct queue_order_ids *ids, unsigned least) {
	MUST(ids->count >= least && ids->count <= QUEUE_ORDER_IDS_MAX);
	for (unsigned i = 0; i < ids->count; i++)
		MUST(sendmail_queue_id_is_sound(ids->list[i], strlen(ids->list[i])));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static struct queue_order order, same_order;
	static struct queue_tell tell, same_tell;
	char *copy = copy_of(data, size), *again = copy_of(data, size);
	char written[QUEUE_ORDER_MAX];
	const char *why = NULL;
	size_t length;

	if (queue_order_parse(copy, size, &order, &why)) {
		check_ids(&order.ids, 1);
		length = queue_order_write(&order, written);
		MUST(length > 0 && queue_order_parse(written, length, &same_order, &why));
		MUST(memcmp(&order, &same_order, sizeof(order)) == 0);
	} else {
		MUST(why != NULL);
	}
	if (queue_tell_parse(again, size, &tell, &why)) {
		check_ids(&tell.ids, tell.news == QUEUE_LIVES ? 1 : 0);
		length = queue_tell_write(&tell, written);
		MUST(length > 0 && queue_tell_parse(written, length, &same_tell, &why));
		MUST(memcmp(&tell, &same_tell, sizeof(tell)) == 0);
	}
	free(copy);
	free(again);
	return 0;
}
