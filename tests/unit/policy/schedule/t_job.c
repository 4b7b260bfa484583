/* SPDX-License-Identifier: ISC */
/* The scheduler's choices, worked out by hand from the document. */
#include "tests/unit/test.h"
#include "tests/unit/policy/schedule/job_bench.h"
#include "tests/unit/policy/schedule/job_look.h"

/* Each k = 2 entries save a slot, nothing is lent; an entry is a recipient. */
static const struct job_settings plain = { .delivery_slot_cost = 2,
	.minimum_delivery_slots = 1, .destination_recipient_limit = 1, .process_limit = 0,
	.recipient_limit = 20000, .extra_recipient_limit = 1000, .recipient_refill_limit = 100,
	.recipient_refill_delay_ns = INT64_C(5000000000) };

static uint32_t queue[10];		/* of the message with that number */

/* Messages `from` .. `to`, of so many entries, each for a queue of its own. */
static void arrive(uint32_t from, uint32_t to, const uint32_t *sizes) {
	for (uint32_t i = from; i <= to; i++) {
		queue[i] = bench_queue(100);
		bench_mail(i, queue[i], sizes[i - from]);
	}
}

static int open_plain(void **state) {
	bench_open(&plain, &pool_defaults);
	return 0;
}

static bool peek(struct job_would *why) {
	return job_peek(bench.board, 0, bench.now_s * BENCH_NS, why);
}

/* Ten recipients, then twice two.  A slot for two entries: 4 entries pay for a message of
 * two; with half of the price later, 2 entries do. */
TEST_IN(open_plain, bench_close, the_documents_sequences) {
	static const uint32_t sizes[] = { 10, 2, 2 };
	struct job_settings half = plain;

	arrive(1, 3, sizes);
	assert_string_equal(bench_run(99), "1*4 2*2 1*4 3*2 1*2");
	half.delivery_slot_discount = 50;
	bench_open(&half, &pool_defaults);
	arrive(1, 3, sizes);
	assert_string_equal(bench_run(99), "1*2 2*2 1*4 3*2 1*4");
}

/* No slots are saved below a cost of 2: first come, first served. */
TEST_IN(NULL, bench_close, cost_one_preempts_nothing) {
	static const uint32_t sizes[] = { 10, 2, 1 };
	struct job_settings settings = plain;

	for (settings.delivery_slot_cost = 0; settings.delivery_slot_cost < 2;
	    settings.delivery_slot_cost++) {
		bench_open(&settings, &pool_defaults);
		arrive(1, 3, sizes);
		assert_string_equal(bench_run(99), "1*10 2*2 3");
	}
}

/* One slot is lent: 2 entries pay for a message of two; the debt is paid before the next one. */
TEST_IN(NULL, bench_close, a_slot_that_is_lent_is_paid_for_later) {
	static const uint32_t sizes[] = { 10, 2, 2 };
	struct job_settings settings = plain;

	settings.delivery_slot_loan = 1;
	bench_open(&settings, &pool_defaults);
	arrive(1, 3, sizes);
	assert_string_equal(bench_run(99), "1*2 2*2 1*4 3*2 1*4");
}

/* 10 entries save 5 slots at most. */
TEST_IN(NULL, bench_close, below_the_minimum_of_slots_nothing_preempts) {
	static const uint32_t sizes[] = { 10, 2, 2 };
	struct job_settings settings = plain;

	for (settings.minimum_delivery_slots = 5; settings.minimum_delivery_slots < 7;
	    settings.minimum_delivery_slots++) {
		bench_open(&settings, &pool_defaults);
		arrive(1, 3, sizes);
		assert_string_equal(bench_run(99),
		    settings.minimum_delivery_slots == 5 ? "1*4 2*2 1*4 3*2 1*2" : "1*10 2*2 3*2");
	}
}

/* "Not worse than (k+1)/k if only non-recursive preemption happens": single messages cannot be
 * preempted, and 60 of them wait from the beginning. */
TEST_IN(NULL, bench_close, without_recursion_k_entries_pay_for_one) {
	struct job_settings settings = plain;
	struct job_taken taken;
	uint32_t done, left;

	for (settings.delivery_slot_cost = 2; settings.delivery_slot_cost <= 10;
	    settings.delivery_slot_cost++) {
		bench_open(&settings, &pool_defaults);
		bench_mail(1, bench_queue(100), 60);
		for (uint32_t i = 2; i <= 61; i++)
			bench_mail(i, bench_queue(100), 1);
		for (done = 0, left = 60; left > 0; done++) {
			left -= bench_take(&taken) == 1;
			(void)bench_done(&taken);
		}
		assert_in_range(done, 61, 60 + 60 / settings.delivery_slot_cost);
	}
}

/* 4 of 8 entries costs 8 slots of 2: 16 entries of 1.  7 of 2 costs 2 slots: 4 entries of 4.
 * When 7 is done 4 goes on, then 1. */
TEST_IN(open_plain, bench_close, stack_of_1_4_7) {
	static const uint32_t first[] = { 40, 40, 40, 8, 40, 40 }, then[] = { 2, 40 };

	arrive(1, 6, first);
	assert_string_equal(bench_run(17), "1*16 4");
	arrive(7, 8, then);
	assert_string_equal(bench_run(4), "4*3 7");
	assert_string_equal(bench_list(), "7-4-1-2-3-5-6-8");
	assert_int_equal(bench_parent(7), 4);
	assert_int_equal(bench_parent(4), 1);
	assert_int_equal(bench_view(7).level, 2);
	assert_int_equal(bench_view(4).level, 1);
	assert_int_equal(bench_view(1).level, 0);
	assert_true(bench_view(7).current);
	assert_string_equal(bench_run(30), "7 4*4 1*24 2");
}

/* The same stack; then 7, 4, 1 and 2 are blocked, and 3 becomes the current job.  6, of 6
 * entries, preempts it after 12. */
TEST_IN(open_plain, bench_close, three_is_preempted_by_six_behind_blockers) {
	static const uint32_t first[] = { 40, 40, 40, 8, 40 }, then[] = { 6, 2, 40 };

	arrive(1, 5, first);
	assert_string_equal(bench_run(17), "1*16 4");
	arrive(6, 8, then);
	assert_string_equal(bench_run(4), "4*3 7");
	job_queue_window(bench.board, queue[7], 0);
	job_queue_window(bench.board, queue[4], 0);
	job_queue_window(bench.board, queue[1], 0);
	job_queue_window(bench.board, queue[2], 0);
	assert_string_equal(bench_run(13), "3*12 6");
	assert_string_equal(bench_list(), "7-4-1-2-6-3-5-8");
	assert_int_equal(bench_parent(6), 3);
	assert_int_equal(bench_view(6).level, 1);
	for (uint32_t i = 1; i <= 8; i++)
		assert_int_equal(bench_view(i).blocker,
		    i == 7 || i == 4 || i == 1 || i == 2);
	/* 7 has a place again: all are looked at anew, 7 first. */
	job_queue_window(bench.board, queue[7], 1);
	assert_false(bench_view(2).blocker);
	assert_string_equal(bench_run(3), "7 6*2");
}

/* 7 and 8 preempt 4, are blocked, and 4 is done: 1, which 4 has preempted, adopts them. */
TEST_IN(open_plain, bench_close, list_7_8_1_2_6_3_5) {
	static const uint32_t first[] = { 80, 80, 80, 16, 80 }, then[] = { 10, 2, 2 };
	int32_t slots;

	arrive(1, 5, first);
	assert_string_equal(bench_run(33), "1*32 4");
	arrive(6, 8, then);
	assert_string_equal(bench_run(4), "4*3 7");
	job_queue_window(bench.board, queue[7], 0);
	assert_string_equal(bench_run(5), "4*4 8");
	assert_string_equal(bench_list(), "7-8-4-1-2-3-5-6");
	assert_int_equal(bench_parent(7), 4);
	assert_int_equal(bench_parent(8), 4);
	job_queue_window(bench.board, queue[8], 0);
	assert_string_equal(bench_run(8), "4*8");
	assert_string_equal(bench_list(), "7-8-1-2-3-5-6");
	job_queue_window(bench.board, queue[1], 0);
	job_queue_window(bench.board, queue[2], 0);
	assert_string_equal(bench_run(21), "3*20 6");
	assert_string_equal(bench_list(), "7-8-1-2-6-3-5");
	assert_int_equal(bench_parent(7), 1);
	assert_int_equal(bench_parent(8), 1);
	assert_int_equal(bench_parent(6), 3);
	assert_int_equal(bench_view(7).level, 2);
	assert_int_equal(bench_view(8).level, 2);
	assert_int_equal(bench_view(6).level, 1);
	/* An adoptive parent neither pays nor gets anything. */
	slots = bench_view(1).slots;
	job_queue_window(bench.board, queue[7], 1);
	assert_string_equal(bench_run(1), "7");
	assert_int_equal(bench_view(1).slots, slots);
	assert_string_equal(bench_list(), "8-1-2-6-3-5");
}

/* The current job's slots: one more with each of its entries, times the cost; taken at
 * once when it is preempted. */
TEST_IN(open_plain, bench_close, slots_are_saved_and_spent) {
	static const uint32_t sizes[] = { 20, 3 };

	arrive(1, 2, sizes);
	(void)bench_run(6);
	assert_int_equal(bench_view(1).slots, 6);
	assert_string_equal(bench_run(1), "2");
	assert_int_equal(bench_view(1).slots, 0);
	assert_string_equal(bench_run(3), "2*2 1");
	assert_int_equal(bench_view(1).slots, 1);
}

/* 12 entries are expected of it at most, when 4 are read and 8 are not; they turn out to be 5: what
 * it did not use goes back to its parent. */
TEST_IN(open_plain, bench_close, what_an_unread_job_did_not_use_comes_back) {
	static const uint32_t sizes[] = { 60 };

	arrive(1, 1, sizes);
	queue[2] = bench_queue(100);
	bench_batch(2, queue[2], 4, 8);
	assert_int_equal(bench_view(2).least_entries, 4);
	assert_int_equal(bench_view(2).most_entries, 12);
	assert_string_equal(bench_run(25), "1*24 2");
	assert_int_equal(bench_view(1).slots, 0);
	bench_batch(2, queue[2], 1, 0);
	assert_int_equal(bench_view(2).most_entries, 5);
	assert_string_equal(bench_run(5), "2*4 1");
	assert_int_equal(bench_view(1).slots, 2 * (12 - 5) + 1);
}

/* A job is a candidate by what it has at most, and the current one saves by what it has at
 * least. */
TEST_IN(open_plain, bench_close, estimates_err_on_the_safe_side) {
	struct job_would why;

	queue[1] = bench_queue(100);
	queue[2] = bench_queue(100);
	bench_batch(1, queue[1], 10, 50);	/* it saves 5 slots for sure */
	bench_batch(2, queue[2], 2, 4);		/* it may need 6 */
	assert_string_equal(bench_run(1), "1");
	assert_true(peek(&why));
	assert_int_equal(why.candidate, JOB_NONE);
	bench_batch(2, queue[2], 1, 2);		/* 5 */
	assert_true(peek(&why));
	assert_int_equal(why.candidate, bench.message[2]);
	assert_false(why.preempts);
	assert_int_equal(why.message, bench.message[1]);
}

/* Age over size: 3 entries that wait for 31 s (10.3 a s) before 1 that waits for 9 (9), but not
 * before 1 that waits for 11. */
TEST_IN(NULL, bench_close, older_and_bigger_before_younger_and_smaller) {
	static const uint32_t big[] = { 40 }, three[] = { 3 }, one[] = { 1 };

	for (int64_t later = 20; later <= 22; later += 2) {
		open_plain(NULL);
		arrive(1, 1, big);
		arrive(2, 2, three);
		bench.now_s += later;
		arrive(3, 3, one);
		bench.now_s += 30 - later;
		assert_string_equal(bench_run(7),
		    later == 20 ? "1*2 3 1*4" : "1*6 2");
	}
}

/* An older job stands behind a younger one.  4 preempts 1, which then is done; 2 preempts 4, and
 * is blocked; 5 (waits since 1030 s) is put before all, as 2 (since 1020) is 4's child; 6 (since
 * 1025) is put before 5.  6 has slots for one: qmgr's walk meets 5 first, whose age is the best
 * that any behind it on the ground level can have, and ends there; 2 would be better. */
TEST_IN(open_plain, bench_close, the_walk_for_candidates_ends_early) {
	static const uint32_t ten[] = { 10 }, thirty[] = { 30 }, four[] = { 4 }, one[] = { 1 };

	arrive(1, 1, ten);
	bench.now_s = 1020;
	queue[2] = bench_queue(0);
	bench_batch(2, queue[2], 1, 50);
	bench.now_s = 1040;
	arrive(3, 3, thirty);
	bench.now_s = 1100;
	arrive(4, 4, four);
	assert_string_equal(bench_run(9), "1*8 4");
	job_queue_window(bench.board, queue[4], 0);
	assert_string_equal(bench_run(2), "1*2");
	assert_string_equal(bench_list(), "4-2-3");
	assert_int_equal(bench_parent(4), 0);
	assert_int_equal(bench_view(4).level, 1);
	job_queue_window(bench.board, queue[4], 9);
	assert_string_equal(bench_run(1), "4");
	bench_batch(2, queue[2], 0, 0);
	assert_string_equal(bench_run(1), "4");
	assert_string_equal(bench_list(), "2-4-3");
	assert_int_equal(bench_parent(2), 4);
	job_queue_window(bench.board, queue[2], 9);
	bench.now_s = 1030;
	arrive(5, 5, one);
	bench.now_s = 1025;
	arrive(6, 6, ten);
	bench.now_s = 1200;
	assert_string_equal(bench_list(), "6-5-2-4-3");
	assert_string_equal(bench_run(4), "6*2 5 6");
	assert_string_equal(bench_run(3), "6 2 6");
}

TEST_IN(open_plain, bench_close, transports_and_destinations_take_turns) {
	uint32_t second, other, a, b, c;
	struct job_taken taken;

	a = bench_queue(10);
	b = bench_queue(10);
	c = bench_queue(10);
	second = job_transport_open(bench.board, &plain, 7);
	other = job_queue_open(bench.board, second, 10, 0);
	bench_mail(1, a, 2);
	bench_batch(1, b, 1, 0);
	bench_batch(1, c, 1, 0);
	bench_mail(2, other, 4);
	for (uint32_t i = 0; i < 4; i++) {
		const uint32_t wanted[] = { a, b, c, a };

		/* The transport that was opened last has the first turn. */
		assert_int_equal(bench_take(&taken), 2);
		assert_int_equal(bench_take(&taken), 1);
		assert_int_equal(taken.queue, wanted[i]);
	}
	assert_int_equal(bench_take(&taken), 0);
}

TEST_IN(NULL, bench_close, recipients_are_batched_in_entries) {
	struct job_settings settings = plain;
	struct job_taken taken[4], more;
	uint32_t to;

	settings.destination_recipient_limit = 3;
	bench_open(&settings, &pool_defaults);
	to = bench_queue(10);
	bench_mail(1, to, 7);
	assert_int_equal(bench_view(1).waiting_entries, 3);
	bench_batch(1, to, 1, 0);		/* into the last: 3, 3, 2 */
	assert_int_equal(bench_view(1).waiting_entries, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(bench_take(&taken[i]), 1);
		assert_int_equal(taken[i].recipients, i < 2 ? 3 : 2);
		assert_int_equal(taken[i].entries, 1);
	}
	bench_batch(1, to, 1, 0);		/* a new one: 1 */
	job_put_back(bench.board, &taken[2]);		/* 2, 1 */
	assert_int_equal(job_part(bench.board, bench.message[1], to).waiting, 2);
	job_put_back(bench.board, &taken[0]);		/* 3, 2, 1 */
	bench_batch(1, to, 1, 0);		/* 3, 2, 2 */
	assert_int_equal(job_part(bench.board, bench.message[1], to).waiting, 3);
	assert_true(job_take(bench.board, bench.message[1], to, 99, 0, &more));
	assert_int_equal(more.entries, 3);
	assert_int_equal(more.recipients, 7);
	assert_int_equal(job_done(bench.board, &more), JOB_LEFT_SOME);
	assert_int_equal(job_done(bench.board, &taken[1]), JOB_LEFT_NONE);
	settings.destination_recipient_limit = 0;
	bench_open(&settings, &pool_defaults);
	bench_mail(1, bench_queue(1), 1000);
	assert_int_equal(bench_take(&taken[0]), 1);
	assert_int_equal(taken[0].recipients, 1000);
}

/* Two that were put back and are not full make one. */
TEST_IN(NULL, bench_close, small_entries_that_come_back_are_merged) {
	struct job_settings settings = plain;
	struct job_taken taken[3];
	uint32_t to;

	settings.destination_recipient_limit = 3;
	bench_open(&settings, &pool_defaults);
	to = bench_queue(10);
	bench_mail(1, to, 1);
	(void)bench_take(&taken[0]);
	bench_batch(1, to, 2, 0);
	(void)bench_take(&taken[1]);
	bench_batch(1, to, 2, 0);
	assert_int_equal(bench_view(1).least_entries, 3);
	job_put_back(bench.board, &taken[0]);		/* 1, 2 */
	job_put_back(bench.board, &taken[1]);		/* 3, 2 */
	assert_int_equal(bench_view(1).least_entries, 2);
	assert_int_equal(bench_view(1).slots, 0);
	(void)bench_take(&taken[0]);
	assert_int_equal(taken[0].recipients, 3);
	(void)bench_take(&taken[1]);
	assert_int_equal(taken[1].recipients, 2);
	assert_int_equal(bench_take(&taken[2]), 0);
	(void)bench_done(&taken[0]);
	assert_int_equal(job_done(bench.board, &taken[1]), JOB_LEFT_NONE);
}

TEST_IN(open_plain, bench_close, full_destinations_block_and_unblock) {
	struct job_taken first, second, third;
	uint32_t one, many;
	struct job_would why;

	one = bench_queue(1);
	many = bench_queue(9);
	bench_mail(1, one, 1);
	bench_mail(2, one, 1);
	bench_mail(3, many, 1);
	assert_int_equal(bench_take(&first), 1);
	assert_true(peek(&why));
	assert_int_equal(why.message, bench.message[3]);
	assert_int_equal(bench_take(&second), 3);
	assert_true(bench_view(2).blocker);
	assert_int_equal(bench_take(&third), 0);
	assert_false(peek(&why));
	(void)bench_done(&first);
	assert_false(bench_view(2).blocker);
	assert_int_equal(bench_take(&third), 2);
	assert_false(peek(&why));
}

TEST_IN(NULL, bench_close, processes_are_limited) {
	struct job_settings settings = plain;
	struct job_taken taken[3];
	struct job_would why;

	settings.process_limit = 2;
	bench_open(&settings, &pool_defaults);
	bench_mail(1, bench_queue(9), 4);
	assert_int_equal(bench_take(&taken[0]), 1);
	assert_int_equal(bench_take(&taken[1]), 1);
	assert_int_equal(bench_take(&taken[2]), 0);
	assert_false(job_peek(bench.board, 0, bench.now_s * BENCH_NS, &why));
	(void)bench_done(&taken[0]);
	assert_int_equal(bench_take(&taken[0]), 1);
}

/* A run takes along what else waits for the destination, and needs one place for it. */
TEST_IN(open_plain, bench_close, a_run_takes_others_along) {
	struct job_taken lead, along;
	struct job_queue_view view;
	uint32_t to;

	to = bench_queue(1);
	bench_mail(1, to, 2);
	bench_mail(2, to, 1);
	assert_int_equal(bench_take(&lead), 1);
	assert_int_equal(job_waiting_next(bench.board, to, JOB_NONE), bench.message[1]);
	assert_int_equal(job_waiting_next(bench.board, to, bench.message[1]), bench.message[2]);
	assert_int_equal(job_waiting_next(bench.board, to, bench.message[2]), JOB_NONE);
	assert_true(job_take(bench.board, bench.message[2], to, 1, 0, &along));
	job_queue_view(bench.board, to, &view);
	assert_int_equal(view.busy, 1);
	assert_int_equal(view.running_entries, 2);
	assert_int_equal(bench_done(&along), 2);
	job_queue_view(bench.board, to, &view);
	assert_int_equal(view.busy, 1);
	assert_int_equal(bench_done(&lead), 1);
	assert_string_equal(bench_run(9), "1");
	assert_true(job_queue_close(bench.board, to));
}

/* 120 recipients in entries of 50: 50, 50, 20.  With 30 less 90 are left, in 2 entries; with 40
 * less 50, in one; the last 50 are one. */
TEST_IN(NULL, bench_close, a_part_of_what_waits_is_taken_or_withdrawn) {
	struct job_settings settings = plain;
	struct job_taken taken;
	struct job_queue_view view;
	uint32_t to;

	settings.destination_recipient_limit = 50;
	bench_open(&settings, &pool_defaults);
	to = bench_queue(9);
	bench_mail(1, to, 120);
	assert_int_equal(bench_view(1).waiting_entries, 3);
	assert_true(job_take_recipients(bench.board, bench.message[1], to, 30, 0, &taken));
	assert_int_equal(taken.entries, 1);
	assert_int_equal(taken.recipients, 30);
	assert_int_equal(bench_done(&taken), 1);
	assert_int_equal(job_withdraw_recipients(bench.board, bench.message[1], to, 40), 40);
	job_queue_view(bench.board, to, &view);
	assert_int_equal(view.waiting_entries, 1);
	assert_int_equal(view.waiting_recipients, 50);
	assert_int_equal(view.running_recipients, 0);
	/* of one entry that stays none is taken */
	assert_true(job_take_recipients(bench.board, bench.message[1], to, 10, 0, &taken));
	assert_int_equal(taken.entries, 0);
	assert_int_equal(bench_done(&taken), 1);
	/* not more than there are; what was taken saved slots, what was withdrawn did not */
	assert_int_equal(bench_view(1).slots, 1);
	assert_true(job_take_recipients(bench.board, bench.message[1], to, 1000, 1, &taken));
	assert_int_equal(taken.entries, 1);
	assert_int_equal(taken.recipients, 40);
	assert_false(job_take_recipients(bench.board, bench.message[1], to, 1, 0, &taken));
	assert_int_equal(job_withdraw_recipients(bench.board, bench.message[1], to, 1), 0);
}

TEST_IN(open_plain, bench_close, withdrawn_and_closed) {
	struct job_taken taken;
	uint32_t a, b;

	a = bench_queue(9);
	b = bench_queue(9);
	bench_mail(1, a, 3);
	bench_batch(1, b, 2, 0);
	bench_mail(2, b, 1);
	assert_int_equal(job_withdraw(bench.board, bench.message[1], b), 2);
	assert_int_equal(bench_take(&taken), 1);
	assert_int_equal(taken.queue, a);
	job_message_close(bench.board, taken.message);
	assert_false(job_queue_close(bench.board, a));
	assert_int_equal(job_done(bench.board, &taken), JOB_LEFT_CLOSED);
	assert_true(job_queue_close(bench.board, a));
	assert_string_equal(bench_run(9), "2");
	assert_int_equal(bench.board->messages.used + bench.board->jobs.used +
	    bench.board->peers.used, 0);
	assert_int_equal(bench.board->in_core, 0);
}

TEST(full_tables_say_so) {
	struct job_capacity capacity = { .transports = 1, .queues = 2, .messages = 2, .jobs = 2,
		.peers = 2 };
	void *memory = calloc(1, job_board_bytes(&capacity));
	struct job_board *board = job_board_begin(memory, &capacity, &pool_defaults);
	uint32_t transport = job_transport_open(board, &plain, 0), a, b, first, second;

	assert_int_equal(job_transport_open(board, &plain, 0), JOB_NONE);
	a = job_queue_open(board, transport, 1, 0);
	b = job_queue_open(board, transport, 1, 0);
	assert_int_equal(job_queue_open(board, transport, 1, 0), JOB_NONE);
	first = job_message_open(board, 1, 0);
	second = job_message_open(board, 2, 0);
	assert_int_equal(job_message_open(board, 3, 0), JOB_NONE);
	job_batch_begin(board, first, 0, 0);
	assert_true(job_batch_add(board, first, a, 1));
	assert_true(job_batch_add(board, first, b, 1));
	assert_true(job_batch_end(board, first));
	job_batch_begin(board, second, 0, 0);
	assert_false(job_batch_add(board, second, a, 1));
	assert_false(job_batch_end(board, second));
	job_message_close(board, second);
	second = job_message_open(board, 3, 0);
	assert_true(second != JOB_NONE);
	job_message_close(board, first);
	job_batch_begin(board, second, 0, 0);
	assert_true(job_batch_add(board, second, a, 1));
	assert_true(job_batch_end(board, second));
	free(memory);
}

/* Many that are put in front of one another and never leave: places are made again and
 * again, and the order is kept. */
TEST_IN(NULL, bench_close, hundreds_of_blocked_children) {
	struct job_settings settings = plain;
	uint32_t hung, free_one, last = JOB_NONE, count = 0;

	settings.delivery_slot_loan = 50;
	bench_open(&settings, &pool_defaults);
	hung = bench_queue(9);
	free_one = bench_queue(9);
	bench_mail(1, free_one, 1000);
	(void)bench_run(300);
	for (uint32_t i = 2; i < 90; i++)
		bench_mail(i, hung, 2);
	job_queue_window(bench.board, hung, 0);
	(void)bench_run(300);
	/* All that fit into its slots stand before 1, in the order in which they came. */
	for (uint32_t message = JOB_NONE; (message = job_list_next(bench.board, bench.transport,
	    message)) != bench.message[1]; count++) {
		assert_true(last == JOB_NONE || job_message_word(bench.board, last) <
		    job_message_word(bench.board, message));
		assert_int_equal(bench_view((uint32_t)job_message_word(bench.board,
		    message)).level, 1);
		last = message;
	}
	assert_true(count > 80);
	job_queue_window(bench.board, hung, 1);
	assert_string_equal(bench_run(4), "2*2 3*2");
}
