/* SPDX-License-Identifier: ISC */
/* Recipients in memory: the document's scheme, worked out by hand. */
#include "tests/unit/test.h"
#include "tests/unit/policy/schedule/job_bench.h"
#include "tests/unit/policy/schedule/job_look.h"

static const struct pool_settings small = { .message_recipient_limit = 8,
	.message_recipient_minimum = 2, .message_active_limit = 50, .batch_most = 1000 };

/* An entry is a recipient; nothing is preempted. */
static struct job_settings with_slots(uint32_t slots, uint32_t extra) {
	return (struct job_settings){ .destination_recipient_limit = 1,
		.recipient_limit = slots, .extra_recipient_limit = extra,
		.recipient_refill_limit = 100, .recipient_refill_delay_ns = INT64_C(5000000000) };
}

static void open_with(uint32_t slots, uint32_t extra) {
	struct job_settings settings = with_slots(slots, extra);

	bench_open(&settings, &small);
}

static struct job_view job_slots(uint32_t number, uint32_t transport) {
	struct job_view view;

	assert_true(job_view(bench.board, bench.message[number], transport, &view));
	return view;
}

static int64_t unused(uint32_t transport) {
	return pool_unused(bench.board, transport);
}

/* Delivers one entry and counts what the board asks for. */
struct asked {
	uint32_t message, most, times;
	uint32_t queue, give;		/* adds so many at once */
	uint32_t unread;
};

static void note(void *context, uint32_t message, uint32_t most) {
	struct asked *asked = context;

	asked->message = message;
	asked->most = most;
	asked->times++;
	if (asked->give > 0)
		bench_batch((uint32_t)job_message_word(bench.board, message),
		    asked->queue, asked->give < most ? asked->give : most, asked->unread);
}

static uint32_t take_reading(struct asked *asked, struct job_taken *taken) {
	struct job_reader reader = { note, asked };

	return job_next(bench.board, JOB_NONE, &reader, bench.now_s * BENCH_NS, taken) ?
	    (uint32_t)job_message_word(bench.board, taken->message) : 0;
}

/* What message_recipient_limit leaves, and message_recipient_minimum at least. */
TEST_IN(NULL, bench_close, first_batches) {
	uint32_t queue;

	open_with(0, 0);
	queue = bench_queue(9);
	(void)bench_message(1);
	assert_int_equal(pool_first(bench.board, bench.message[1]), 8);
	bench_batch(1, queue, 5, 0);
	(void)bench_message(2);
	assert_int_equal(pool_first(bench.board, bench.message[2]), 3);
	bench_batch(2, queue, 3, 100);
	(void)bench_message(3);
	assert_int_equal(pool_first(bench.board, bench.message[3]), 2);
}

/* The document's example.  In memory are 1, 5 and 2 recipients of three jobs, which hold 4, 5
 * and 0 slots.  The document reckons 1 + 5 + 2 = 7 and so reads 2 + minimum; that is a slip, its
 * rule gives 9 - 8 = 1 + minimum.  With 1 of the third job, which makes 7, it is 2. */
TEST_IN(NULL, bench_close, the_documents_example) {
	const uint32_t slots[] = { 4, 5, 0 }, in_core[] = { 1, 5, 2 };
	struct job_settings settings = with_slots(4, 0);
	uint32_t transport[3], queue[3];
	struct job_taken taken;

	bench_open(&settings, &small);
	for (uint32_t i = 0; i < 3; i++) {
		settings.recipient_limit = slots[i];
		transport[i] = i == 0 ? bench.transport :
		    job_transport_open(bench.board, &settings, i);
		queue[i] = job_queue_open(bench.board, transport[i], 9, 0);
	}
	(void)bench_message(1);
	assert_int_equal(pool_first(bench.board, bench.message[1]), 8);
	job_batch_begin(bench.board, bench.message[1], 100, bench.now_s * BENCH_NS);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(job_batch_add(bench.board, bench.message[1], queue[i], in_core[i]));
	assert_true(job_batch_end(bench.board, bench.message[1]));
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(job_slots(1, transport[i]).in_core, in_core[i]);
		assert_int_equal(job_slots(1, transport[i]).recipient_slots, slots[i]);
	}
	assert_int_equal(pool_room(bench.board, bench.message[1]),
	    1 + small.message_recipient_minimum);
	assert_true(job_next(bench.board, transport[2], NULL, bench.now_s * BENCH_NS, &taken));
	assert_int_equal(job_done(bench.board, &taken), JOB_LEFT_SOME);
	assert_int_equal(pool_room(bench.board, bench.message[1]),
	    2 + small.message_recipient_minimum);
}

/* All slots to the oldest unread job; when it is read, what it does not use to the next
 * unread, one more with each of its recipients that is done; in the end back to the
 * transport. */
TEST_IN(NULL, bench_close, slots_go_along_the_list) {
	struct job_taken taken;
	uint32_t queue;

	open_with(20, 0);
	queue = bench_queue(9);
	for (uint32_t i = 1; i <= 4; i++)
		(void)bench_message(i);
	bench_batch(1, queue, 4, 3);
	bench_batch(2, queue, 2, 0);	/* is read */
	bench_batch(3, queue, 2, 9);
	bench_batch(4, queue, 2, 9);
	assert_int_equal(job_slots(1, bench.transport).recipient_slots, 20);
	assert_int_equal(job_slots(3, bench.transport).recipient_slots, 0);
	assert_int_equal(unused(bench.transport), 0);
	assert_int_equal(pool_next_unread(bench.board, bench.transport), bench.message[1]);
	assert_int_equal(pool_room(bench.board, bench.message[1]), 20 + 2 - 4);
	assert_int_equal(pool_room(bench.board, bench.message[3]), 0);
	bench_batch(1, queue, 3, 0);
	/* 7 of 20 are used, so 13 go to the third. */
	assert_int_equal(job_slots(1, bench.transport).recipient_slots, 7);
	assert_int_equal(job_slots(2, bench.transport).recipient_slots, 0);
	assert_int_equal(job_slots(3, bench.transport).recipient_slots, 13);
	assert_int_equal(pool_next_unread(bench.board, bench.transport), bench.message[3]);
	assert_int_equal(bench_take(&taken), 1);
	(void)bench_done(&taken);
	assert_int_equal(job_slots(1, bench.transport).recipient_slots, 6);
	assert_int_equal(job_slots(3, bench.transport).recipient_slots, 14);
	bench_batch(3, queue, 9, 0);
	assert_int_equal(job_slots(3, bench.transport).recipient_slots, 11);
	assert_int_equal(job_slots(4, bench.transport).recipient_slots, 3);
	bench_batch(4, queue, 1, 0);
	assert_int_equal(job_slots(4, bench.transport).recipient_slots, 3);
	(void)bench_run(99);
	assert_int_equal(unused(bench.transport), 20);
	assert_int_equal(pool_next_unread(bench.board, bench.transport), JOB_NONE);
}

/* A job that is made late, in front of the first unread one, takes that one's unused slots. */
TEST_IN(NULL, bench_close, an_older_job_comes_first) {
	struct job_settings settings = with_slots(20, 0);
	uint32_t second, there, here;

	bench_open(&settings, &small);
	second = job_transport_open(bench.board, &settings, 0);
	here = bench_queue(9);
	there = job_queue_open(bench.board, second, 9, 0);
	(void)bench_message(1);
	bench.now_s++;
	(void)bench_message(2);
	bench_batch(1, here, 3, 50);
	bench_batch(2, there, 3, 50);
	assert_int_equal(job_slots(2, second).recipient_slots, 20);
	bench_batch(1, there, 2, 48);
	assert_int_equal(job_slots(2, second).recipient_slots, 3);
	assert_int_equal(job_slots(1, second).recipient_slots, 17);
	assert_int_equal(pool_next_unread(bench.board, second), bench.message[1]);
	/* 20 of one transport and 17 of the other, its minimum, less 5 in memory. */
	assert_int_equal(pool_room(bench.board, bench.message[1]), 20 + 17 + 2 - 5);
}

/* Half of the normal pool (nothing is left of it) and the extra pool, rounded up: of 9, 5; of 4
 * that are left, 2. */
TEST_IN(NULL, bench_close, an_unread_job_that_preempts_gets_half) {
	struct job_settings settings = with_slots(10, 9);
	uint32_t queue;

	settings.delivery_slot_cost = 2;
	settings.minimum_delivery_slots = 1;
	bench_open(&settings, &small);
	queue = bench_queue(9);
	bench_batch(1, queue, 50, 1);
	bench_batch(2, queue, 1, 1);		/* at most 2: preempts after 4 */
	assert_int_equal(job_slots(1, bench.transport).recipient_slots, 10);
	assert_int_equal(job_slots(2, bench.transport).recipient_slots, 0);
	assert_string_equal(bench_run(4), "1*4");
	bench_batch(3, queue, 2, 1);		/* at most 3 */
	assert_int_equal(unused(bench.transport), 0);
	assert_string_equal(bench_run(1), "2");
	assert_int_equal(job_slots(2, bench.transport).recipient_slots, 5);
	assert_int_equal(unused(bench.transport), -5);
	assert_int_equal(pool_room(bench.board, bench.message[2]), 5 + 2);
	bench_batch(2, queue, 1, 0);
	assert_string_equal(bench_run(1), "2");
	assert_int_equal(unused(bench.transport), 0);
	assert_string_equal(bench_run(7), "1*6 3");
	assert_int_equal(job_slots(3, bench.transport).recipient_slots, 5);
	assert_int_equal(unused(bench.transport), -5);
}

/* More is read when recipient_refill_limit slots are free, when recipient_refill_delay is
 * over, or when there is nothing else to take. */
TEST_IN(NULL, bench_close, refill_limit_and_delay) {
	struct job_settings settings = with_slots(10, 0);
	struct asked asked = { .times = 0 };
	struct job_taken taken;
	uint32_t queue;

	settings.recipient_refill_limit = 5;
	bench_open(&settings, &small);
	queue = bench_queue(100);
	bench_batch(1, queue, 8, 60);
	bench_mail(2, queue, 9);
	/* 10 + 2 slots less 8: too few, and it is too early. */
	for (uint32_t i = 1; i <= 2; i++) {
		assert_int_equal(take_reading(&asked, &taken), 1);
		assert_int_equal(asked.times, i == 1 ? 0 : 1);
		(void)bench_done(&taken);	/* 5 are free now */
	}
	assert_int_equal(asked.most, 5);
	assert_int_equal(asked.message, bench.message[1]);
	/* It is asked for once until it comes. */
	assert_int_equal(take_reading(&asked, &taken), 1);
	(void)bench_done(&taken);
	assert_int_equal(asked.times, 1);
	bench_batch(1, queue, 5, 55);		/* 10 in memory, 2 are free */
	assert_int_equal(take_reading(&asked, &taken), 1);
	bench.now_s += 4;
	assert_int_equal(take_reading(&asked, &taken), 1);
	assert_int_equal(asked.times, 1);
	bench.now_s++;
	assert_int_equal(take_reading(&asked, &taken), 1);
	assert_int_equal(asked.times, 2);
	assert_int_equal(asked.most, 2);
	bench_batch(1, queue, 2, 53);
}

/* All that is in memory waits for a full destination, and slots are free: read on, for there
 * may be others. */
TEST_IN(NULL, bench_close, reads_on_behind_a_slow_destination) {
	struct asked asked = { .give = 3, .unread = 40 };
	struct job_taken taken;
	uint32_t slow, fast;

	open_with(10, 0);
	slow = bench_queue(1);
	fast = bench_queue(9);
	asked.queue = fast;
	bench_batch(1, slow, 8, 60);
	bench_mail(2, fast, 1);
	assert_int_equal(take_reading(&asked, &taken), 1);
	assert_int_equal(taken.queue, slow);
	assert_int_equal(asked.times, 0);
	assert_int_equal(take_reading(&asked, &taken), 1);
	assert_int_equal(taken.queue, fast);
	assert_int_equal(asked.times, 1);
}

/* All in memory is done: the rest is read, by the slots that it has; without any, at least
 * its minimum. */
TEST_IN(NULL, bench_close, goes_on_when_all_in_memory_is_done) {
	struct job_taken taken[8];
	uint32_t queue;

	open_with(0, 0);
	queue = bench_queue(9);
	bench_batch(1, queue, 8, 5);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(bench_take(&taken[i]), 1);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(job_done(bench.board, &taken[i]), JOB_LEFT_SOME);
	assert_int_equal(job_done(bench.board, &taken[7]), JOB_LEFT_UNREAD);
	assert_int_equal(pool_room(bench.board, bench.message[1]), 2);
	bench_batch(1, queue, 2, 0);
	assert_string_equal(bench_run(9), "1*2");
}

/* max(2 x 3 + 4 + 1, 8) = 11 in all: a message that would break it is not opened. */
TEST_IN(NULL, bench_close, nothing_breaks_the_bound) {
	struct job_settings settings = with_slots(4, 1);
	struct pool_settings pool = small;
	struct job_taken taken;
	uint32_t queue;

	pool.message_active_limit = 3;
	bench_open(&settings, &pool);
	queue = bench_queue(9);
	bench_batch(1, queue, 8, 90);		/* holds 6 slots, 8 in memory */
	(void)bench_message(2);
	bench_batch(2, queue, pool_first(bench.board, bench.message[2]), 7);
	(void)bench_message(3);
	assert_int_equal(pool_first(bench.board, bench.message[3]), 1);
	bench_batch(3, queue, 1, 7);
	assert_int_equal(bench.board->in_core, 11);
	assert_int_equal(pool_room(bench.board, bench.message[3]), 0);
	assert_int_equal(bench_message(4), JOB_NONE);
	assert_int_equal(bench_take(&taken), 1);
	(void)bench_done(&taken);
	assert_int_equal(pool_room(bench.board, bench.message[3]), 1);
}

/* Another recipient_limit: more goes to the first unread job at once, less is taken back as
 * recipients are done; a smaller extra pool that is given out already gives nothing. */
TEST_IN(NULL, bench_close, a_changed_limit_reaches_the_pool) {
	struct job_settings settings = with_slots(10, 0);
	struct job_taken taken;
	uint32_t queue;

	bench_open(&settings, &small);
	queue = bench_queue(9);
	bench_batch(1, queue, 8, 50);
	settings.recipient_limit = 15;
	job_transport_adjust(bench.board, bench.transport, &settings);
	assert_int_equal(job_slots(1, bench.transport).recipient_slots, 15);
	settings.recipient_limit = 4;
	job_transport_adjust(bench.board, bench.transport, &settings);
	assert_int_equal(job_slots(1, bench.transport).recipient_slots, 15);
	assert_int_equal(unused(bench.transport), -11);
	bench_batch(1, queue, 0, 0);
	assert_int_equal(job_slots(1, bench.transport).recipient_slots, 8);
	assert_int_equal(unused(bench.transport), -4);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(bench_take(&taken), 1);
		(void)bench_done(&taken);
	}
	assert_int_equal(unused(bench.transport), 4);
}

/* recipient limit 1: each recipient is a destination of its own, so a window of 1 for each
 * lets them run side by side. */
TEST_IN(NULL, bench_close, recipient_limit_one) {
	struct job_taken taken[4];

	open_with(20, 0);
	(void)bench_message(1);
	for (uint32_t i = 0; i < 3; i++)
		bench_batch(1, bench_queue(1), 1, 0);
	bench_batch(1, 0, 1, 0);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(bench_take(&taken[i]), 1);
		assert_int_equal(taken[i].queue, i);
	}
	assert_int_equal(bench_take(&taken[3]), 0);
	(void)bench_done(&taken[0]);
	assert_int_equal(bench_take(&taken[3]), 1);
	assert_int_equal(taken[3].queue, 0);
}
