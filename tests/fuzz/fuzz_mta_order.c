/* SPDX-License-Identifier: ISC */
/*
 * Orders and outcomes of commands on a Postfix: what is taken for one is the same when
 * it is written and read again, and its queue id is one.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/link/mta_order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy_of(const void *data, size_t size) {
	char *copy = malloc(size + 1);

	if (copy == NULL)
		abort();
	if (size > 0)
		memcpy(copy, data, size);
	return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	char *copy = copy_of(data, size), *again = copy_of(data, size);
	char written[MTA_ORDER_MAX];
	struct mta_order order, same;
	struct mta_outcome outcome, same_outcome;
	const char *why = NULL;
	bool is_output, other;

	if (mta_order_parse(copy, size, &order, &why)) {
		size_t length = mta_order_write(&order, written);

		MUST(order.verb != MTA_REQUEUE ||
		    mta_queue_id_is_sound(order.queue_id, strlen(order.queue_id)));
		MUST(length > 0 && mta_order_parse(written, length, &same, &why));
		MUST(memcmp(&order, &same, sizeof(order)) == 0);
	} else {
		MUST(why != NULL);
	}
	if (mta_outcome_parse(again, size, &outcome, &is_output, &why)) {
		size_t length = is_output ? mta_output_write(outcome.mta, written) :
		    mta_outcome_write(&outcome, written);

		MUST(length > 0);
		MUST(mta_outcome_parse(written, length, &same_outcome, &other, &why));
		MUST(other == is_output && (is_output ||
		    memcmp(&outcome, &same_outcome, sizeof(outcome)) == 0));
	}
	free(copy);
	free(again);
	return 0;
}
