/* SPDX-License-Identifier: ISC */
/* Mail that waits for its pace, in a build without paces (configure --disable-pace): none does. */
#include "engine/requeue/requeue_internal.h"

void requeue_pace_address(const struct requeue *requeue, struct requeue_entry *e,
    const char *address) {
	(void)requeue, (void)e, (void)address;
}

void requeue_pace_look(struct requeue *requeue, const struct generation *generation,
    struct requeue_destination *d, const struct window_owner *owner,
    const struct window_view *view, int64_t now_ns) {
	(void)requeue, (void)generation, (void)d, (void)owner, (void)view, (void)now_ns;
}

void requeue_pace_went(struct requeue_destination *d) {
	(void)d;
}

void requeue_pace_end(struct requeue_destination *d) {
	(void)d;
}

int64_t requeue_pace_send(struct requeue *requeue, const struct generation *generation,
    uint32_t entry, const struct window_owner *owner, int64_t now_ns) {
	(void)requeue, (void)generation, (void)entry, (void)owner, (void)now_ns;
	return 0;
}

uint32_t requeue_pace_passes(const struct requeue *requeue, uint32_t destination) {
	(void)requeue, (void)destination;
	return 0;
}

int64_t requeue_pace_turn(struct requeue *requeue, const struct generation *generation,
    int64_t now_ns) {
	(void)requeue, (void)generation, (void)now_ns;
	return INT64_MAX;
}

void requeue_pace_forget(struct requeue *requeue, unsigned mta) {
	(void)requeue, (void)mta;
}
