/* SPDX-License-Identifier: ISC */
/* Decisions of both rings in one list.  ERRORS: no memory; what there was room for stays. */
#include "view/decided_batch.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/order.h"

static void batch_keep(void *context, const struct decided *decided) {
	struct decided_batch *batch = context;
	size_t at = batch->begun + batch->taken;

	if (batch->wants != NULL && !batch->wants(batch->context, decided))
		return;
	if (batch->most != 0 && batch->taken >= batch->most)
		at = batch->begun + batch->taken % batch->most;
	if (!array_grow(&batch->list, &batch->size, at, sizeof(*batch->list))) {
		batch->no_memory = true;
		return;
	}
	batch->list[at] = *decided;
	batch->taken++;
	if (at == batch->count)
		batch->count++;
}

static void begin_ring(struct decided_batch *batch) {
	batch->begun = batch->count;
	batch->taken = 0;
}

void decided_batch_read(struct decided_batch *batch, const struct segment *reader) {
	for (unsigned ring = 0; ring < DECIDED_RINGS; ring++) {
		begin_ring(batch);
		reader_decisions(reader, (enum decided_ring)ring, batch_keep, batch);
	}
}

void decided_batch_follow(struct decided_batch *batch, const struct segment *reader,
    struct decisions_cursor cursors[DECIDED_RINGS], int64_t now_ns, uint64_t *lost) {
	for (unsigned ring = 0; ring < DECIDED_RINGS; ring++) {
		begin_ring(batch);
		reader_decisions_follow(reader, (enum decided_ring)ring, &cursors[ring], now_ns,
		    batch_keep, batch, lost);
	}
}

static int oldest_first(const void *a, const void *b) {
	const struct decided *one = a, *other = b;

	return order_then(ORDER(one->at_ns, other->at_ns), ORDER(one->id, other->id));
}

static int newest_first(const void *a, const void *b) {
	return oldest_first(b, a);
}

void decided_batch_sort(struct decided_batch *batch, bool newest) {
	if (batch->count > 1)
		qsort(batch->list, batch->count, sizeof(*batch->list),
		    newest ? newest_first : oldest_first);
}
