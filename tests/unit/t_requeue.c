/* SPDX-License-Identifier: ISC */
/* Mail that waits for destinations, with windows of the test's own: what is handed out,
 * in which order, how fast, and what is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"
#include "engine/requeue.h"
#include "engine/windows.h"
#include "segment/internal.h"
#include "tests/unit/random.h"

#define MS	NS_PER_MS
#define S	NS_PER_SECOND

/* --- the engine's windows, as far as they are asked --------------------------------- */

#define DESTINATIONS 8
static struct fake_destination {
	const char *name;
	uint32_t window;
	bool observed;
} destinations[DESTINATIONS];
static unsigned destination_count;

static struct fake_destination *find(const char *name, size_t length) {
	for (unsigned i = 0; i < destination_count; i++)
		if (strlen(destinations[i].name) == length &&
		    memcmp(destinations[i].name, name, length) == 0)
			return &destinations[i];
	return NULL;
}

static void window_is(const char *name, uint32_t window) {
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
    const char *host, size_t length, struct window_owner *out) {
	windows_owner(engine, generation, host, length, out);
}

bool windows_view(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, int64_t now_ns, struct window_view *out) {
	const struct fake_destination *d = find(owner->name, strlen(owner->name));

	(void)engine;
	(void)generation;
	(void)now_ns;
	*out = (struct window_view){ .known = d != NULL, .window = d == NULL ? 5 : d->window };
	out->state = out->window == 0 ? WINDOW_DEAD : WINDOW_OPEN;
	return out->known;
}

bool windows_observed(const struct generation *generation,
    const struct window_owner *owner) {
	const struct fake_destination *d = find(owner->name, strlen(owner->name));

	(void)generation;
	return d != NULL && d->observed;
}

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
static struct segment_header header;
static struct segment segment = { .header = &header };
static struct engine engine = { .segment = &segment };
static struct requeue *requeue;
static int64_t now_ns;

#define OUT_MAX 4096
static char out[OUT_MAX][REQUEUE_ID_MAX + 1];
static unsigned out_count, lists, returns;
static bool refuses;

static bool flush(void *context, unsigned mta, const char *queue_id) {
	(void)context;
	assert_int_equal(mta, 0);
	if (refuses)
		return false;
	assert_true(out_count < OUT_MAX);
	snprintf(out[out_count++], sizeof(out[0]), "%s", queue_id);
	return true;
}

static bool list(void *context, unsigned mta) {
	(void)context;
	(void)mta;
	if (refuses)
		return false;
	lists++;
	return true;
}

static void returned(void *context, const char *destination, uint32_t messages) {
	(void)context;
	assert_true(*destination != '\0' && messages > 0);
	returns++;
}

static int begin(void **state) {
	static const struct requeue_calls calls = { flush, list, returned, NULL };
	struct diag diag;

	(void)state;
	memset(&block, 0, sizeof(block));
	memcpy(block.texts, "out\0in\0etc", 11);
	block.generation.number = 1;
	block.generation.mta_count = 1;
	block.generation.mtas[0].name = offsetof(__typeof__(block), texts);
	block.generation.requeue_rate = (struct rate_limit){ .count = 1000, .period_ns = S };
	destination_count = out_count = lists = returns = 0;
	refuses = false;
	requeued = 0;
	now_ns = 1000 * S;
	return requeue_open(&requeue, &engine, &calls, &diag);
}

static int end(void **state) {
	(void)state;
	requeue_close(&requeue);
	assert_null(requeue);
	return 0;
}

static struct span span(const char *text) {
	return (struct span){ text, strlen(text) };
}

static void note(const char *id, const char *destination, enum delivery_status status,
    enum result_class class, const char *words, int64_t age_ns) {
	const struct requeue_result result = { .queue_id = span(id),
		.destination = destination, .status = status, .class = class,
		.words = span(words), .arrival_ns = now_ns - age_ns };

	(void)requeue_note(requeue, &block.generation, &result, now_ns);
}

/* Refused: "connect to ..." */
static void failed(const char *id, const char *destination, int64_t age_ns) {
	note(id, destination, DELIVERY_DEFERRED, RESULT_SITE_FAILURE,
	    "connect to mx[192.0.2.1]:25: Connection refused", age_ns);
}

static void sent(const char *id, const char *destination) {
	note(id, destination, DELIVERY_SENT, RESULT_OK, "250 ok", 0);
}

static void held(const char *id, const char *destination) {
	note(id, destination, DELIVERY_DEFERRED, RESULT_SUSPENDED,
	    "Postern: b.example is suspended for 5 s", 60 * S);
}

/* Lets the time pass, with a turn as often as is asked for. */
static void pass(int64_t ns) {
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

static void counts_are(uint32_t waiting, uint32_t due, uint32_t handed_out) {
	struct requeue_counts counts;

	requeue_count(requeue, &counts);
	assert_int_equal(counts.waiting, waiting);
	assert_int_equal(counts.due, due);
	assert_int_equal(counts.out, handed_out);
}

/* --- tests ----------------------------------------------------------------------------- */

static void oldest_first_and_no_more_than_the_window(void **state) {
	(void)state;
	window_is("b.example", 0);
	failed("AAAAAA3", "b.example", 30 * S);
	failed("AAAAAA5", "b.example", 50 * S);
	failed("AAAAAA1", "b.example", 10 * S);
	failed("AAAAAA4", "b.example", 40 * S);
	failed("AAAAAA2", "b.example", 20 * S);
	failed("CCCCCC1", "c.example", 90 * S);		/* is not down */
	pass(60 * S);
	assert_int_equal(out_count, 0);
	window_is("b.example", 2);
	pass(S);
	assert_int_equal(returns, 1);
	assert_int_equal(out_count, 2);
	assert_string_equal(out[0], "AAAAAA5");
	assert_string_equal(out[1], "AAAAAA4");
	pass(20 * S);
	assert_int_equal(out_count, 2);
	sent("AAAAAA5", "b.example");
	pass(200 * MS);
	assert_int_equal(out_count, 3);
	assert_string_equal(out[2], "AAAAAA3");
	sent("AAAAAA4", "b.example");
	sent("AAAAAA3", "b.example");
	pass(200 * MS);
	assert_string_equal(out[4], "AAAAAA1");
	sent("AAAAAA1", "b.example");
	sent("AAAAAA2", "b.example");
	pass(100 * S);
	assert_int_equal(out_count, 5);
	assert_int_equal(requeued, 5);
	counts_are(1, 0, 0);
}

static void a_moment_for_the_hints(void **state) {
	(void)state;
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	pass(S);
	window_is("b.example", 1);
	pass(300 * MS);
	assert_int_equal(out_count, 0);
	pass(300 * MS);
	assert_int_equal(out_count, 1);
}

/* What fails again waits for the next return. */
static void once_for_each_return(void **state) {
	(void)state;
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	pass(S);
	for (unsigned i = 1; i <= 3; i++) {
		window_is("b.example", 1);
		pass(2 * S);
		assert_int_equal(out_count, i);
		failed("AAAAAA1", "b.example", 0);
		pass(1000 * S);
		assert_int_equal(out_count, i);
		counts_are(1, 0, 0);
		window_is("b.example", 0);
		pass(S);
	}
}

static void other_reasons_wait_for_postfix(void **state) {
	(void)state;
	window_is("b.example", 0);
	note("AAAAAA1", "b.example", DELIVERY_DEFERRED, RESULT_RCPT_TEMPORARY,
	    "450 4.2.0 greylisted", 0);
	note("AAAAAA2", "b.example", DELIVERY_DEFERRED, RESULT_LOCAL, "disk full", 0);
	note("AAAAAA3", "b.example", DELIVERY_BOUNCED, RESULT_PERMANENT, "550 no", 0);
	counts_are(0, 0, 0);
	failed("AAAAAA4", "b.example", 0);
	window_is("b.example", 5);
	pass(S);
	assert_int_equal(out_count, 1);
	note("AAAAAA4", "b.example", DELIVERY_DEFERRED, RESULT_RCPT_TEMPORARY,
	    "450 4.2.0 greylisted", 0);
	counts_are(0, 0, 0);
}

/* Several that were held together make one pause. */
static void held_together(void **state) {
	(void)state;
	window_is("b.example", 0);
	held("AAAAAA1", "b.example");
	held("AAAAAA2", "b.example");
	held("AAAAAA3", "b.example");
	pass(S);
	window_is("b.example", 3);
	pass(S);
	assert_int_equal(out_count, 3);
	held("AAAAAA1", "b.example");
	held("AAAAAA2", "b.example");
	held("AAAAAA3", "b.example");
	pass(S);
	assert_int_equal(out_count, 6);
}

/* An answer of before its return: again, with pauses that grow to 31 s. */
static void held_by_an_old_answer(void **state) {
	static const int64_t pauses[] = { 1, 2, 4, 8, 16, 31, 31 };

	(void)state;
	window_is("b.example", 0);
	held("AAAAAA1", "b.example");
	pass(S);
	window_is("b.example", 5);
	pass(S);
	assert_int_equal(out_count, 1);
	for (unsigned i = 0; i < 7; i++) {
		held("AAAAAA1", "b.example");
		pass(pauses[i] * S - 1);
		assert_int_equal(out_count, i + 1);
		pass(1);
		assert_int_equal(out_count, i + 2);
	}
	sent("AAAAAA1", "b.example");
	/* new mail that was held too late */
	held("AAAAAA2", "b.example");
	pass(S);
	assert_int_equal(out_count, 9);
	/* what a class holds is left to Postfix */
	note("AAAAAA4", "b.example", DELIVERY_DEFERRED, RESULT_SUSPENDED,
	    "Postern: class x holds 2 of 2 sessions", 0);
	note("AAAAAA5", "b.example", DELIVERY_DEFERRED, RESULT_SUSPENDED,
	    "Postern: recipient held", 0);
	pass(100 * S);
	assert_int_equal(out_count, 9);
}

/* The window is open, but the queue manager gave up a lane after a few refusals, and
 * deferred all that waited there: it goes by other lanes, no more than the window. */
static void a_lane_that_postfix_suspended(void **state) {
	static const char *const ids[] = { "AAAAAA1", "AAAAAA2", "AAAAAA3" };

	(void)state;
	window_is("b.example", 2);
	for (unsigned i = 0; i < 3; i++)
		note(ids[i], "b.example", DELIVERY_DEFERRED, RESULT_SUSPENDED,
		    "421 too many connections", 0);
	pass(S);
	assert_int_equal(out_count, 2);
	sent("AAAAAA1", "b.example");
	pass(S);
	assert_int_equal(out_count, 3);
	/* suspended still: again after a pause; not at all while the destination is */
	note("AAAAAA2", "b.example", DELIVERY_DEFERRED, RESULT_SUSPENDED,
	    "421 too many connections", 0);
	window_is("b.example", 0);
	pass(100 * S);
	assert_int_equal(out_count, 3);
}

static void a_window_that_doubles(void **state) {
	(void)state;
	window_is("b.example", 2);
	failed("AAAAAA1", "b.example", 0);
	pass(10 * S);
	window_is("b.example", 3);
	pass(10 * S);
	assert_int_equal(out_count, 0);
	window_is("b.example", 4);
	pass(2 * S);
	assert_int_equal(out_count, 1);
	failed("AAAAAA1", "b.example", 0);
	window_is("b.example", 7);
	pass(10 * S);
	assert_int_equal(out_count, 1);
	window_is("b.example", 3);
	pass(10 * S);
	window_is("b.example", 6);
	pass(10 * S);
	assert_int_equal(out_count, 2);
}

static void no_faster_than_the_rate(void **state) {
	(void)state;
	block.generation.requeue_rate = (struct rate_limit){ .count = 10, .period_ns = S };
	window_is("b.example", 0);
	for (unsigned i = 0; i < 100; i++) {
		char id[16];

		snprintf(id, sizeof(id), "AAAA%03u", i);
		failed(id, "b.example", (100 - i) * S);
	}
	window_is("b.example", 1000);
	pass(450 * MS);
	assert_int_equal(out_count, 10);
	pass(2 * S);
	assert_in_range(out_count, 29, 31);
	pass(20 * S);
	assert_int_equal(out_count, 100);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(strtol(out[i] + 4, NULL, 10), i);
}

static void observed_ones_are_left_alone(void **state) {
	(void)state;
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	find("b.example", 9)->observed = true;
	pass(S);
	window_is("b.example", 5);
	pass(100 * S);
	assert_int_equal(out_count, 0);
	find("b.example", 9)->observed = false;
	pass(2 * S);
	assert_int_equal(out_count, 1);
}

static void what_has_left_is_forgotten(void **state) {
	(void)state;
	window_is("b.example", 0);
	window_is("c.example", 0);
	failed("AAAAAA1", "b.example", 0);
	failed("AAAAAA1", "c.example", 0);
	failed("AAAAAA2", "b.example", 0);
	requeue_removed(requeue, 0, span("AAAAAA1"));
	counts_are(1, 0, 0);
	requeue_removed(requeue, 1, span("AAAAAA2"));	/* another server's */
	counts_are(1, 0, 0);
	requeue_removed(requeue, 0, span("AAAAAA2"));
	counts_are(0, 0, 0);
	window_is("b.example", 5);
	pass(100 * S);
	assert_int_equal(out_count, 0);
}

/* One of two recipients: the line of the other may stand before or behind it. */
static void several_recipients(void **state) {
	(void)state;
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	window_is("b.example", 1);
	pass(S);
	sent("AAAAAA1", "b.example");
	failed("AAAAAA1", "b.example", 0);
	counts_are(1, 0, 0);
	sent("AAAAAA1", "b.example");
	counts_are(1, 0, 0);
}

static void a_flush_that_failed(void **state) {
	(void)state;
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	pass(S);
	refuses = true;
	window_is("b.example", 5);
	pass(2 * S);
	assert_int_equal(out_count, 0);
	refuses = false;
	pass(200 * MS);
	assert_int_equal(out_count, 1);
	requeue_flush_failed(requeue, 0, "AAAAAA1", now_ns);
	requeue_flush_failed(requeue, 0, "AAAAAA2", now_ns);
	counts_are(0, 1, 0);
	pass(900 * MS);
	assert_int_equal(out_count, 1);
	pass(200 * MS);
	assert_int_equal(out_count, 2);
	/* nothing is ever heard of it */
	pass(299 * S);
	counts_are(0, 0, 1);
	pass(3 * S);
	counts_are(0, 0, 0);
}

static void the_list(void **state) {
	(void)state;
	refuses = true;
	pass(S);
	refuses = false;
	requeue_turn(requeue, &block.generation, now_ns);
	assert_int_equal(lists, 1);
	requeue_turn(requeue, &block.generation, now_ns);
	assert_int_equal(lists, 1);
	window_is("provider:a", 0);
	requeue_list_recipient(requeue, &block.generation, 0, span("AAAAAA1"),
	    span("u@a.example"), span("connect to mx[192.0.2.1]:25: Connection refused"),
	    now_ns - 5 * S, now_ns);
	requeue_list_recipient(requeue, &block.generation, 0, span("AAAAAA1"),
	    span("v@a.example"), span("Postern: provider:a is suspended"), now_ns, now_ns);
	requeue_list_recipient(requeue, &block.generation, 0, span("AAAAAA2"),
	    span("u@d.example"), span("Postern: d.example is suspended"), now_ns, now_ns);
	requeue_list_recipient(requeue, &block.generation, 0, span("AAAAAA3"),
	    span("nobody"), span("connect to mx[192.0.2.1]:25: refused"), now_ns, now_ns);
	requeue_list_recipient(requeue, &block.generation, 0, span("AAAAAA4"),
	    span("u@a.example"), span(""), now_ns, now_ns);
	requeue_list_recipient(requeue, &block.generation, 0, span("AAAAAA5"),
	    span("u@a.example"), span("host mx[192.0.2.1] said: 450 4.2.0 greylisted "
	    "(in reply to RCPT TO command)"), now_ns, now_ns);
	requeue_listed(requeue, 0, true, now_ns);
	/* d.example came back while nobody looked */
	counts_are(1, 1, 0);
	pass(10 * S);
	assert_int_equal(out_count, 1);
	assert_string_equal(out[0], "AAAAAA2");
	pass(10000 * S);
	assert_int_equal(lists, 1);
}

static void a_list_that_fails_is_asked_for_again(void **state) {
	(void)state;
	for (unsigned i = 1; i < 10; i++) {
		requeue_turn(requeue, &block.generation, now_ns);
		assert_int_equal(lists, i < 5 ? i : 5);
		if (i <= 5)
			requeue_listed(requeue, 0, false, now_ns);
		now_ns += 300 * S;
	}
}

static void no_list_in_observe_mode(void **state) {
	(void)state;
	block.generation.outbound_observe = 1;
	pass(10 * S);
	requeue_turn(requeue, &block.generation, now_ns);
	assert_int_equal(lists, 0);
}

static void another_server_of_that_number(void **state) {
	(void)state;
	window_is("b.example", 0);
	failed("AAAAAA1", "b.example", 0);
	block.generation.number++;
	requeue_turn(requeue, &block.generation, now_ns);
	counts_are(1, 0, 0);
	block.generation.number++;
	block.generation.mtas[0].name += 4;
	requeue_turn(requeue, &block.generation, now_ns);
	counts_are(0, 0, 0);
	assert_int_equal(lists, 2);
}

static void what_is_no_queue_id(void **state) {
	(void)state;
	window_is("b.example", 0);
	failed("", "b.example", 0);
	failed("AAAA;AA", "b.example", 0);
	failed("-f", "b.example", 0);
	/* the supervisor takes no such order, and whoever sends it loses the link */
	failed("ABCDE", "b.example", 0);
	failed("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "b.example", 0);
	failed("AAAAAA1", "", 0);
	counts_are(0, 0, 0);
}

/* More than can be remembered: the rest is found in the list. */
static void too_many(void **state) {
	uint32_t seen = 0;
	struct requeue_counts counts;

	(void)state;
	block.generation.requeue_rate = (struct rate_limit){ .count = 100000000,
		.period_ns = S };
	requeue_turn(requeue, &block.generation, now_ns);
	requeue_listed(requeue, 0, true, now_ns);
	assert_int_equal(lists, 1);
	window_is("b.example", 0);
	for (unsigned i = 0; i < 200000; i++) {
		char id[16];

		snprintf(id, sizeof(id), "A%07u", i);
		failed(id, "b.example", 0);
	}
	requeue_count(requeue, &counts);
	assert_int_equal(counts.waiting, 128 << 10);
	window_is("b.example", 100);
	pass(400 * S);
	assert_int_equal(lists, 1);
	while (seen < 100000) {
		for (; seen < 100000 && out_count > 0; seen++)
			sent(out[--out_count], "b.example");
		pass(100 * MS);
	}
	assert_int_equal(lists, 2);
}

/* Whatever happens: never more out than the window, each message once at a time, and
 * all goes when all is well at last. */
static void chance(void **state) {
	struct random random = random_seeded("chance");
	char name[4][16];
	unsigned running[4] = { 0 };
	struct { unsigned destination; bool queued, out; } messages[200] = { { 0 } };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		snprintf(name[i], sizeof(name[i]), "d%u.example", i);
		window_is(name[i], 0);
	}
	for (unsigned i = 0; i < 200; i++) {
		char id[16];

		messages[i].destination = random_below(&random, 4);
		messages[i].queued = true;
		snprintf(id, sizeof(id), "AAAA%03u", i);
		failed(id, name[messages[i].destination], i * S);
	}
	for (unsigned step = 0; step < 20000; step++) {
		unsigned d = random_below(&random, 4), m = random_below(&random, 200);
		bool well = step > 15000;
		char id[16];

		snprintf(id, sizeof(id), "AAAA%03u", m);
		if (well && step % 1000 < 4)
			window_is(name[step % 4], step % 2000 < 1000 ? 0 : 5);
		else if (!well && random_below(&random, 40) == 0)
			window_is(name[d], random_below(&random, 2) * random_below(&random, 9));
		if (messages[m].out) {
			messages[m].out = false;
			running[messages[m].destination]--;
			if (well || random_below(&random, 10) == 0) {
				messages[m].queued = false;
				sent(id, name[messages[m].destination]);
				requeue_removed(requeue, 0, span(id));
			} else if (random_below(&random, 2) == 0) {
				failed(id, name[messages[m].destination], m * S);
			} else {
				held(id, name[messages[m].destination]);
			}
		}
		out_count = 0;
		pass((int64_t)random_below(&random, 200) * MS);
		for (unsigned i = 0; i < out_count; i++) {
			m = (unsigned)strtol(out[i] + 4, NULL, 10);
			d = messages[m].destination;
			assert_true(messages[m].queued && !messages[m].out);
			messages[m].out = true;
			running[d]++;
			assert_true(running[d] <= destinations[d].window);
		}
	}
	for (unsigned i = 0; i < 200; i++)
		assert_false(messages[i].queued);
	counts_are(0, 0, 0);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		T(oldest_first_and_no_more_than_the_window),
		T(a_moment_for_the_hints),
		T(once_for_each_return),
		T(other_reasons_wait_for_postfix),
		T(held_by_an_old_answer),
		T(held_together),
		T(a_lane_that_postfix_suspended),
		T(a_window_that_doubles),
		T(no_faster_than_the_rate),
		T(observed_ones_are_left_alone),
		T(what_has_left_is_forgotten),
		T(several_recipients),
		T(a_flush_that_failed),
		T(the_list),
		T(a_list_that_fails_is_asked_for_again),
		T(no_list_in_observe_mode),
		T(another_server_of_that_number),
		T(what_is_no_queue_id),
		T(too_many),
		T(chance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
