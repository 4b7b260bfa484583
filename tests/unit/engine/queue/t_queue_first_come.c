/* SPDX-License-Identifier: ISC */
/* The driven queue where the discipline is first-come: an envelope's share of the
 * processes, by the numbers of the scheduler notes. */
#include "tests/unit/test.h"
#include "tests/unit/engine/queue/queue_steps.h"

static void begin(uint32_t processes) {
	char name[32];

	world_open("", processes);
	world.settings.schedule.discipline = DISCIPLINE_FIRST_COME;
	queue_configure(world.queue, &world.settings);
	for (unsigned i = 0; i < WORLD_SERVERS; i++) {
		(void)snprintf(name, sizeof(name), "d%u.example", i);
		(void)world_server(name, S);
	}
}

/* One envelope that Sendmail has cut: a file for each of these servers. */
static void envelope(unsigned first, unsigned end, unsigned recipients) {
	static unsigned number;
	char text[64], origin[32];

	(void)snprintf(origin, sizeof(origin), "7AK%011u", ++number);
	world.envelope = origin;
	for (unsigned i = first; i < end; i++) {
		(void)snprintf(text, sizeof(text), "d%u.example*%u", i, recipients);
		(void)world_mail(text);
	}
	world.envelope = NULL;
}

/* Servers of these that something is delivered to now: so many processes. */
static unsigned busy(unsigned first, unsigned end) {
	unsigned count = 0;

	for (unsigned i = first; i < end; i++)
		count += world.servers[i].now;
	return count;
}

TEST_IN(NULL, tear_down, an_envelope_has_its_share_of_the_processes) {
	begin(22);
	envelope(0, 44, 20);
	world_run(world.now_ns + 5 * S);
	/* 19 < 10 x 3, 20 is not < 10 x 2: 91 % */
	assert_int_equal(busy(0, 44), 20);
	assert_int_equal(world.processes_most, 20);
	/* the next one takes the rest, then what the first gives up, to its maximum and on */
	envelope(44, 64, 20);
	world_run(world.now_ns + 2 * S);
	assert_int_equal(busy(0, 44), 20);
	assert_int_equal(busy(44, 64), 2);
	world_run(world.now_ns + 25 * S);
	assert_in_range(busy(0, 44), 8, 12);
	assert_in_range(busy(44, 64), 8, 12);
	assert_true(world_drain(200 * S));
	world_check();
}

static bool take_first(void *context, const struct queue_row *next) {
	*(struct queue_row *)context = *next;
	return false;
}

/* Files of an envelope that has its share are not next, though they are the oldest. */
TEST_IN(NULL, tear_down, next_is_what_may_have_a_process) {
	struct queue_row next = { .why = QUEUE_WHY_COUNT };

	begin(2);
	world.settings.schedule.max_message_concurrency = 1;
	world.settings.schedule.scale_max_concurrency = 0;
	queue_configure(world.queue, &world.settings);
	envelope(0, 4, 20);
	world_run(world.now_ns + 3 * S);
	assert_int_equal(world.processes, 1);
	queue_each_next(world.queue, world.now_ns, 10, take_first, &next);
	assert_int_equal(next.why, QUEUE_WHY_COUNT);
	envelope(4, 8, 20);
	world_run(world.now_ns + 2 * S);
	assert_int_equal(world.processes, 2);
	(void)world_mail("d9.example");
	/* of a third one, which is as yet in no process */
	world_run(world.now_ns + S / 10);
	queue_each_next(world.queue, world.now_ns, 10, take_first, &next);
	assert_int_equal(next.why, QUEUE_WHY_FIRST);
	assert_string_equal(next.destination, "d9.example");
	assert_true(world_drain(400 * S));
	world_check();
}

TEST_IN(NULL, tear_down, whoever_comes_next_finds_a_process) {
	unsigned small;

	begin(8);
	envelope(0, 60, 20);
	world_run(world.now_ns + 5 * S);
	/* 7 < 10 x 1: all of them */
	assert_int_equal(busy(0, 60), 8);
	world.settings.schedule.scale_max_concurrency = 1;
	queue_configure(world.queue, &world.settings);
	world_run(world.now_ns + 40 * S);
	/* 5 in any case */
	assert_int_equal(busy(0, 60), 5);
	small = world_mail("d63.example");
	world_run(world.now_ns + 3 * S);
	assert_true(world_is_gone(small));
	assert_true(world_drain(600 * S));
	world_check();
}

TEST_IN(NULL, tear_down, the_oldest_goes_first_among_those_that_may) {
	unsigned first, second;

	begin(1);
	envelope(0, 1, 10);
	world_run(world.now_ns + 2 * S);
	first = world_mail("d1.example*5");
	world_run(world.now_ns + 2 * S);
	second = world_mail("d2.example");
	world_run(world.now_ns + 9 * S);
	assert_int_equal(world_delivered(second), 0);
	assert_true(world_drain(60 * S));
	assert_true(world_delivered_ns(first) < world_delivered_ns(second));
	world_check();
}
