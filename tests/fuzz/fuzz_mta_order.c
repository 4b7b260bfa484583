/* SPDX-License-Identifier: ISC */
/*
 * Orders and outcomes of commands on a Postfix: what is taken for one has only what one may
 * have.
 */
#include <stdint.h>
#include <string.h>

#include "base/diag.h"
#include "wire/link/mta_order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct mta_order order;
	struct mta_outcome outcome;
	const char *why = NULL;

	if (mta_order_read(data, size, &order, &why))
		MUST(order.verb < MTA_VERB_COUNT && order.mta < 256 && (order.verb != MTA_REQUEUE ||
		    mta_queue_id_is_sound(order.queue_id, strlen(order.queue_id))));
	else
		MUST(why != NULL);
	if (mta_outcome_read(data, size, &outcome, &why))
		MUST(outcome.verb < MTA_VERB_COUNT && outcome.code >= MTA_KILLED &&
		    outcome.code < 256);
	return 0;
}
