/* SPDX-License-Identifier: ISC */
/* Mail that waits, with windows of the test's own; included by one test program, behind
 * cmocka.h. */
#ifndef TESTS_UNIT_REQUEUE_WORLD_H
#define TESTS_UNIT_REQUEUE_WORLD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"
#include "engine/outbound/outbound.h"
#include "engine/requeue/requeue_internal.h"
#include "engine/destination/sources.h"
#include "engine/destination/windows.h"
#include "segment/file/internal.h"

#define MS	NS_PER_MS
#define S	NS_PER_SECOND

static struct pace pace;	/* of p.example */
static struct pace_settings pace_settings;

/* --- the engine's windows, as far as they are asked --------------------------------- */

#define DESTINATIONS 8
static struct fake_destination {
	const char *name;
	uint32_t window;
	bool observed;
} destinations[DESTINATIONS];
static unsigned destination_count;

static inline struct fake_destination *find(const char *name, size_t length) {
	for (unsigned i = 0; i < destination_count; i++)
		if (strlen(destinations[i].name) == length &&
		    memcmp(destinations[i].name, name, length) == 0)
			return &destinations[i];
	return NULL;
}

static inline void window_is(const char *name, uint32_t window) {
	struct fake_destination *d = find(name, strlen(name));

	if (d == NULL) {
		d = &destinations[destination_count++];
		*d = (struct fake_destination){ .name = name };
	}
	d->window = window;
}

void windows_owner(const struct engine *engine, const struct generation *generation,
    const char *destination, size_t length, struct window_owner *out) {
	(void)engine;
	(void)generation;
	*out = (struct window_owner){ .kind = DESTINATION_DOMAIN };
	/* a domain of a provider */
	if (length == 9 && memcmp(destination, "a.example", 9) == 0)
		snprintf(out->name, sizeof(out->name), "provider:a");
	else
		snprintf(out->name, sizeof(out->name), "%.*s", (int)length, destination);
}

void windows_owner_of_host(const struct engine *engine, const struct generation *generation,
    const char *host, size_t length, unsigned mta, struct window_owner *out) {
	(void)mta;
	windows_owner(engine, generation, host, length, out);
}

void windows_owner_by(const struct engine *engine, const struct generation *generation,
    const char *name, size_t length, unsigned mta, struct window_owner *out) {
	(void)mta;
	windows_owner(engine, generation, name, length, out);
}

bool windows_view(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, int64_t now_ns, struct window_view *out) {
	const struct fake_destination *d = find(owner->name, strlen(owner->name));

	(void)engine;
	(void)generation;
	(void)now_ns;
	*out = (struct window_view){ .known = d != NULL, .window = d == NULL ? 5 : d->window };
	out->state = out->window == 0 ? WINDOW_DEAD : WINDOW_OPEN;
	if (strcmp(owner->name, "p.example") == 0)
		pace_look(&pace, &pace_settings, now_ns, &out->pace);
	return out->known;
}

bool windows_observed(const struct generation *generation,
    const struct window_owner *owner) {
	const struct fake_destination *d = find(owner->name, strlen(owner->name));

	(void)generation;
	return d != NULL && d->observed;
}

static const char *held_recipient;	/* one at most */

bool windows_recipient_held(const struct engine *engine, const struct generation *generation,
    const char *address, size_t length, int64_t now_ns, struct window_held *out) {
	(void)engine;
	(void)generation;
	(void)now_ns;
	(void)out;
	return held_recipient != NULL && strlen(held_recipient) == length &&
	    memcmp(held_recipient, address, length) == 0;
}

static bool class_held;		/* of mail for every domain */

void outbound_class_find(const struct engine *engine, const struct generation *generation,
    const char *destination, size_t length, struct outbound_class *found) {
	(void)engine;
	(void)generation;
	assert_true(length > 0 && destination[0] != '@');
	*found = (struct outbound_class){ .class_index = 3 };
}

bool windows_class_held(const struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct window_held *out) {
	(void)engine;
	(void)generation;
	(void)now_ns;
	assert_int_equal(class_index, 3);
	out->observed = false;
	return class_held;
}

void windows_pace_take(struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, uint32_t most, int64_t now_ns, struct window_tokens *out) {
	(void)engine;
	(void)generation;
	assert_string_equal(owner->name, "p.example");
	*out = (struct window_tokens){ .is_paced = true };
	while (out->taken < most &&
	    (out->wait_ns = pace_take(&pace, &pace_settings, now_ns)) == 0)
		out->taken++;
}

static uint32_t sources_ready;	/* numbers of sources */

uint32_t engine_sources_ready(const struct engine *engine, const struct generation *generation,
    uint32_t provider) {
	(void)engine;
	(void)generation;
	(void)provider;
	return sources_ready;
}

static unsigned wanted;		/* most places, since it was set to 0 */

#ifdef WITH_CLUSTER
void windows_want(const struct engine *engine, const struct window_owner *owner,
    const struct window_view *view, uint32_t places, int64_t now_ns) {
	(void)engine;
	(void)owner;
	(void)view;
	(void)now_ns;
	if (places > wanted)
		wanted = places;
}
#endif

static uint64_t requeued;

void engine_count(struct engine *engine, enum counter counter, uint64_t amount) {
	(void)engine;
	assert_int_equal(counter, COUNTER_REQUEUED);
	requeued += amount;
}

/* --- the world ------------------------------------------------------------------------- */

static struct {
	struct generation generation;
	char texts[64];
} block;
static struct {
	struct segment_header header;
	struct paced_slot slots[SEGMENT_PACED];
} memory;
static struct segment segment = { .header = &memory.header };
static struct engine engine = { .segment = &segment };
static struct requeue *requeue;
static int64_t now_ns;

#define OUT_MAX 4096
static char out[OUT_MAX][REQUEUE_ID_MAX + 1];
static unsigned out_count, lists, returns;
static bool refuses;

static inline bool flush(void *context, unsigned mta, const char *queue_id) {
	(void)context;
	assert_int_equal(mta, 0);
	if (refuses)
		return false;
	assert_true(out_count < OUT_MAX);
	snprintf(out[out_count++], sizeof(out[0]), "%s", queue_id);
	return true;
}

static inline bool list(void *context, unsigned mta) {
	(void)context;
	(void)mta;
	if (refuses)
		return false;
	lists++;
	return true;
}

static inline void returned(void *context, const char *destination, uint32_t messages) {
	(void)context;
	assert_true(*destination != '\0' && messages > 0);
	returns++;
}

static inline int begin(void **state) {
	static const struct requeue_calls calls = { flush, list, returned, NULL };
	struct diag diag;

	(void)state;
	memset(&block, 0, sizeof(block));
	memcpy(block.texts, "out\0in\0etc", 11);
	block.generation.bytes = sizeof(block);
	block.generation.number = 1;
	block.generation.mta_count = 1;
	block.generation.mtas[0].name = offsetof(__typeof__(block), texts);
	block.generation.requeue_rate = (struct rate_limit){ .count = 1000, .period_ns = S };
	destination_count = out_count = lists = returns = 0;
	refuses = false;
	requeued = wanted = 0;
	held_recipient = NULL;
	class_held = false;
	now_ns = 1000 * S;
	memset(&memory, 0, sizeof(memory));
	memory.header.paced_offset = offsetof(__typeof__(memory), slots);
	memset(&pace, 0, sizeof(pace));
	pace_settings = pace_defaults;
	return requeue_open(&requeue, &engine, &calls, &diag);
}

static inline int end(void **state) {
	(void)state;
	requeue_close(&requeue);
	assert_null(requeue);
	return 0;
}

static inline struct span span(const char *text) {
	return (struct span){ text, strlen(text) };
}

static inline void note(const char *id, const char *destination, enum delivery_status status,
    enum result_class class, const char *words, int64_t age_ns) {
	const struct requeue_result result = { .queue_id = span(id),
		.destination = destination, .status = status, .class = class,
		.words = span(words), .arrival_ns = now_ns - age_ns };

	(void)requeue_note(requeue, &block.generation, &result, now_ns);
}

static inline void note_for(const char *id, const char *recipient, enum delivery_status status,
    enum result_class class, const char *words) {
	const struct requeue_result result = { .queue_id = span(id),
		.recipient = span(recipient), .destination = strchr(recipient, '@') + 1,
		.status = status, .class = class, .words = span(words),
		.arrival_ns = now_ns - 60 * S, .ended_ns = now_ns };

	(void)requeue_note(requeue, &block.generation, &result, now_ns);
}

static inline void held_for(const char *id, const char *recipient, const char *words) {
	note_for(id, recipient, DELIVERY_DEFERRED, RESULT_SUSPENDED, words);
}

static inline bool taken_up(const char *id, const char *sender) {
	return requeue_active(requeue, &block.generation, 0, span(id), span(sender));
}

/* Refused: "connect to ..." */
static inline void failed(const char *id, const char *destination, int64_t age_ns) {
	note(id, destination, DELIVERY_DEFERRED, RESULT_SITE_FAILURE,
	    "connect to mx[192.0.2.1]:25: Connection refused", age_ns);
}

static inline void sent(const char *id, const char *destination) {
	note(id, destination, DELIVERY_SENT, RESULT_OK, "250 ok", 0);
}

static inline void held(const char *id, const char *destination) {
	note(id, destination, DELIVERY_DEFERRED, RESULT_SUSPENDED,
	    "Postern: b.example is suspended for 5 s", 60 * S);
}

/* Lets the time pass, with a turn as often as is asked for. */
/* It is on the queue's list, with this text. */
static inline void listed(const char *id, const char *recipient, const char *text) {
	requeue_list_recipient(requeue, &block.generation, 0, span(id), span(recipient), span(text),
	    now_ns, now_ns);
}

static inline void pass(int64_t ns) {
	int64_t end_ns = now_ns + ns;

	for (;;) {
		int64_t next_ns = requeue_turn(requeue, &block.generation, now_ns);

		assert_true(next_ns > now_ns);
		if (next_ns > end_ns)
			break;
		now_ns = next_ns;
	}
	now_ns = end_ns;
}

struct requeue_counts {
	uint32_t waiting;	/* messages x destinations: until those return */
	uint32_t due;		/* to be handed out */
	uint32_t out;		/* handed out, nothing was heard of them yet */
};

/* How many were handed out when that time has passed. */
static inline unsigned out_after(int64_t ns) {
	pass(ns);
	return out_count;
}

static inline struct requeue_counts requeue_count(void) {
	struct requeue_counts sum = { .waiting = 0 };

	for (uint32_t i = 0; i < requeue->store.destination_end; i++) {
		const struct requeue_list *places = requeue->store.destinations[i].places;

		sum.waiting += places[REQUEUE_WAITING].count;
		sum.due += places[REQUEUE_DUE].count;
		sum.out += places[REQUEUE_OUT].count;
	}
	return sum;
}

static inline void counts_are(uint32_t waiting, uint32_t due, uint32_t handed_out) {
	struct requeue_counts counts = requeue_count();

	assert_int_equal(counts.waiting, waiting);
	assert_int_equal(counts.due, due);
	assert_int_equal(counts.out, handed_out);
}

#endif
