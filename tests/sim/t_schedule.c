/* SPDX-License-Identifier: ISC */
/* The scheduler's promises, in virtual time, on random workloads: bounded inflation, no
 * starvation, FIFO for each destination unless preempted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"
#include "policy/schedule/pool.h"
#include "tests/unit/random.h"

#define NS		INT64_C(1000000000)
#define MESSAGES	3000
#define QUEUES		64

struct mail {
	uint32_t index;			/* on the board */
	uint32_t entries, left;
	uint32_t first, last;		/* the slot of its first delivery, and of its last */
	uint32_t arrived;		/* slot */
	bool preempted_others;
};

static struct sim {
	struct random random;
	struct job_board *board;
	void *memory;
	uint32_t transport, queues;
	uint32_t slot;			/* deliveries so far */
	uint32_t mails;
	struct mail mail[MESSAGES];
} sim;

static void sim_open(const struct job_settings *settings, uint32_t queues, uint32_t window,
    uint64_t seed) {
	struct job_capacity capacity = { .transports = 1, .queues = QUEUES, .messages = MESSAGES,
		.jobs = MESSAGES, .peers = MESSAGES * 8 };

	memset(&sim, 0, sizeof sim);
	sim.random = (struct random){ seed };
	sim.memory = calloc(1, job_board_bytes(&capacity));
	sim.board = job_board_begin(sim.memory, &capacity, &pool_defaults);
	sim.transport = job_transport_open(sim.board, settings, 0);
	sim.queues = queues;
	for (uint32_t i = 0; i < queues; i++)
		(void)job_queue_open(sim.board, sim.transport, window, i);
}

/* 10 deliveries a second: ages are in seconds. */
static int64_t now_ns(void) {
	return 1000 * NS + sim.slot * (NS / 10);
}

static void arrive(uint32_t entries, uint32_t destinations) {
	struct mail *mail = &sim.mail[sim.mails];

	mail->index = job_message_open(sim.board, sim.mails++, now_ns());
	assert_true(mail->index != JOB_NONE);
	mail->entries = mail->left = entries;
	mail->arrived = sim.slot;
	job_batch_begin(sim.board, mail->index, 0, now_ns());
	for (uint32_t i = 0; i < entries; i++)
		assert_true(job_batch_add(sim.board, mail->index, destinations == 1 ?
		    random_below(&sim.random, sim.queues) : i * 7 % sim.queues, 1));
	assert_true(job_batch_end(sim.board, mail->index));
}

static void done(const struct job_taken *taken) {
	struct mail *mail = &sim.mail[job_message_word(sim.board, taken->message)];

	assert_true(mail->left > 0);
	mail->left--;
	if (job_done(sim.board, taken) == JOB_LEFT_NONE) {
		assert_int_equal(mail->left, 0);
		job_message_close(sim.board, taken->message);
	}
}

/* One delivery; false: nothing waits. */
static bool deliver(void) {
	struct job_taken taken;
	struct mail *mail;

	if (!job_next(sim.board, JOB_NONE, NULL, now_ns(), &taken))
		return false;
	mail = &sim.mail[job_message_word(sim.board, taken.message)];
	sim.slot++;
	if (mail->left == mail->entries)
		mail->first = sim.slot;
	mail->last = sim.slot;
	done(&taken);
	return true;
}

static uint32_t some_size(void) {
	uint32_t draw = random_below(&sim.random, 10);

	return draw < 6 ? 1 : draw < 8 ? 2 + random_below(&sim.random, 4) :
	    draw < 9 ? 5 + random_below(&sim.random, 30) : 1 + random_below(&sim.random, 300);
}

/* However deep they nest: of n entries, with a slot for each k, the last comes no later than
 * n k / (k - 1) deliveries after the first. */
static void inflation(const struct job_settings *settings, uint64_t seed) {
	uint32_t k = settings->delivery_slot_cost;

	sim_open(settings, QUEUES, 1000, seed);
	while (sim.mails < 400 || deliver()) {
		if (sim.mails < 400 && random_below(&sim.random, 4) == 0)
			arrive(some_size(), 2);
		else if (sim.mails < 400)
			(void)deliver();
	}
	for (uint32_t i = 0; i < sim.mails; i++) {
		const struct mail *mail = &sim.mail[i];
		uint64_t took = mail->last - mail->first + 1;

		assert_int_equal(mail->left, 0);
		if (took * (k - 1) > (uint64_t)mail->entries * k)
			print_error("TEST_SEED=%" PRIu64 ": %u entries took %u\n", seed,
			    mail->entries, (unsigned)took);
		assert_true(took * (k - 1) <= (uint64_t)mail->entries * k);
	}
	free(sim.memory);
}

TEST(inflation_is_bounded) {
	struct random random = random_seeded("inflation");

	for (uint32_t round = 0; round < 100; round++) {
		struct job_settings settings = job_defaults;

		settings.destination_recipient_limit = 1;
		settings.delivery_slot_cost = 2 + round % 5;
		settings.minimum_delivery_slots = round % 4;
		settings.delivery_slot_loan = round % 3 == 0 ? 0 : round % 7;
		settings.delivery_slot_discount = round % 3 * 50;
		inflation(&settings, random_next(&random));
	}
}

/* A bulk message, and small ones that arrive without end and use nearly all that is left:
 * the bulk is done in time, and none of the small ones waits for it. */
TEST(nobody_starves) {
	struct job_settings settings = job_defaults;
	struct random random = random_seeded("nobody starves");
	uint32_t worst = 0;

	settings.destination_recipient_limit = 1;
	for (uint32_t round = 0; round < 20; round++) {
		sim_open(&settings, QUEUES, 1000, random_next(&random));
		arrive(1000, 2);
		while (sim.mail[0].left > 0) {
			/* 1.33 entries a message: they want 13 of 100 deliveries, and get up to 16. */
			if (random_below(&sim.random, 1000) < 100 && sim.mails < MESSAGES)
				arrive(1 + random_below(&sim.random, 3) / 2, 2);
			assert_true(deliver());
		}
		assert_true(sim.mail[0].last <= 1250);
		for (uint32_t i = 1; i < sim.mails; i++) {
			uint32_t waited = (sim.mail[i].left > 0 ? sim.slot : sim.mail[i].last) -
			    sim.mail[i].arrived;

			worst = waited > worst ? waited : worst;
		}
		while (deliver())
			;
		for (uint32_t i = 0; i < sim.mails; i++)
			assert_int_equal(sim.mail[i].left, 0);
		free(sim.memory);
	}
	printf("# the longest wait of a small one behind 1000: %u deliveries\n", worst);
	assert_true(worst < 600);
}

/* A bigger one is not passed by smaller ones for ever: it gets older. */
TEST(three_entries_get_past_endless_single_ones) {
	struct job_settings settings = job_defaults;

	settings.destination_recipient_limit = 1;
	sim_open(&settings, QUEUES, 1000, 1);
	arrive(2000, 2);
	arrive(3, 2);
	for (uint32_t i = 0; sim.mail[1].left > 0; i++) {
		/* More than the slots that the bulk saves (18 of 100): the oldest single one waits
		 * for a quarter of the time, and a third of it is the score of three entries. */
		if (i % 100 * 24 % 100 < 24 && sim.mails < MESSAGES)
			arrive(1, 2);
		assert_true(deliver());
		assert_true(i < 1000);
	}
	free(sim.memory);
}

/* With full destinations everywhere: what is delivered at one is the oldest that waits there,
 * or has preempted. */
TEST(fifo_for_each_destination_unless_preempted) {
	struct random random = random_seeded("fifo");
	static struct job_taken running[QUEUES * 3];
	uint32_t preempted = 0;

	for (uint32_t round = 0; round < 40; round++) {
		struct job_settings settings = job_defaults;
		uint32_t count = 0;

		settings.destination_recipient_limit = 1;
		settings.delivery_slot_cost = round % 4;	/* 0, 1: never preempted */
		settings.minimum_delivery_slots = 1;
		sim_open(&settings, 8, 2, random_next(&random));
		while (sim.mails < 300 || count > 0) {
			struct job_taken taken;
			uint32_t at;

			if (sim.mails < 300 && random_below(&sim.random, 3) == 0)
				arrive(1 + random_below(&sim.random, random_below(&sim.random, 5) == 0 ?
				    40 : 3), 1);
			if (job_next(sim.board, JOB_NONE, NULL, now_ns(), &taken)) {
				uint64_t number = job_message_word(sim.board, taken.message);
				struct job_view view;

				/* Retired jobs leave the stack: of the others it can be told. */
				assert_true(job_view(sim.board, taken.message, sim.transport, &view));
				sim.mail[number].preempted_others |= view.level > 0 || !view.listed;
				for (uint32_t other = job_waiting_next(sim.board, taken.queue, JOB_NONE);
				    other != JOB_NONE;
				    other = job_waiting_next(sim.board, taken.queue, other)) {
					if (job_message_word(sim.board, other) >= number)
						continue;
					preempted++;
					assert_true(settings.delivery_slot_cost >= 2);
					assert_true(sim.mail[number].preempted_others);
				}
				sim.slot++;
				running[count++] = taken;
			}
			if (count == 0 || random_below(&sim.random, 2) == 0)
				continue;
			at = random_below(&sim.random, count);
			done(&running[at]);
			running[at] = running[--count];
		}
		free(sim.memory);
	}
	assert_true(preempted > 0);
}
