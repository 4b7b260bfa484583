/* SPDX-License-Identifier: ISC */
/* Since when the oldest mail waits that Postern keeps, for metrics.  One thread. */
#include "engine/requeue/requeue_internal.h"

#include "engine/internal.h"
#include "segment/file/delays.h"

#define LOOK_NS		(2 * NS_PER_SECOND)	/* all messages that wait are looked at */

/* False: it waits for the mail server's own schedule, or was handed out. */
static bool kind_of(const struct requeue_destination *d, const struct requeue_entry *e,
    enum waiting_kind *kind) {
	if (e->place == REQUEUE_OUT || d->observed)
		return false;
	*kind = d->is_paced ? WAITING_PACE : d->by_sources && d->ready == 0 ? WAITING_WARM :
	    WAITING_WINDOW;
	return d->is_paced || d->down || e->place == REQUEUE_DUE;
}

void requeue_note_oldest(struct requeue *requeue, int64_t now_ns) {
	const struct requeue_store *store = &requeue->store;
	int64_t oldest_ns[WAITING_KINDS] = { 0 };
	enum waiting_kind kind;

	if (store->entry_count > 0 && now_ns < requeue->oldest_again_ns)
		return;
	requeue->oldest_again_ns = store->entry_count > 0 ? now_ns + LOOK_NS : now_ns;
	for (uint32_t i = 0; store->entry_count > 0 && i < store->entry_end; i++) {
		const struct requeue_entry *e = &store->entries[i];

		if (e->id[0] == '\0' || !kind_of(&store->destinations[e->destination], e, &kind))
			continue;
		if (oldest_ns[kind] == 0 || e->arrival_ns < oldest_ns[kind])
			oldest_ns[kind] = e->arrival_ns;
	}
	for (unsigned i = 0; i < WAITING_KINDS; i++)
		waiting_note(requeue->engine->segment, (enum waiting_kind)i, oldest_ns[i]);
}
