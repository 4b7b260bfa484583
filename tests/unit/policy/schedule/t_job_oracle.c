/* SPDX-License-Identifier: ISC */
/* Delivery orders of a real qmgr: $POSTERN_SHARED/qmgr-oracle.json, or ../shared beside the
 * sources; skipped without. */
#include "tests/unit/test.h"
#include "policy/schedule/job.h"
#include "tests/unit/material.h"

#define ORDER_MOST	1000

/* The numbers behind "name": of a list, or one.  How many. */
static uint32_t numbers(const char *from, const char *name, uint32_t *out, uint32_t most) {
	const char *at = strstr(from, name);
	uint32_t count = 0;
	bool list;

	assert_non_null(at);
	at += strlen(name) + 1;
	at += strspn(at, ": ");
	list = *at == '[';
	at += list;
	for (;;) {
		char *end;

		out[count++] = (uint32_t)strtoul(at, &end, 10);
		assert_true(end != at && count <= most);
		at = end + strspn(end, " ");
		if (!list || *at != ',')
			return count;
		at++;
	}
}

/* One process, one recipient a delivery, each recipient a destination of its own, all
 * messages queued in the same second. */
static uint32_t deliver(const struct job_settings *settings, const uint32_t *sizes,
    uint32_t count, uint32_t *order) {
	struct job_capacity capacity = { .transports = 1, .queues = ORDER_MOST, .messages = 100,
		.jobs = 100, .peers = ORDER_MOST };
	void *memory = calloc(1, job_board_bytes(&capacity));
	struct job_board *board = job_board_begin(memory, &capacity, &pool_defaults);
	uint32_t transport = job_transport_open(board, settings, 0), delivered = 0;
	struct job_taken taken;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t message = job_message_open(board, i + 1, 0);

		job_batch_begin(board, message, 0, 0);
		for (uint32_t recipient = 0; recipient < sizes[i]; recipient++)
			assert_true(job_batch_add(board, message,
			    job_queue_open(board, transport, 20, recipient), 1));
		assert_true(job_batch_end(board, message));
	}
	while (job_next(board, JOB_NONE, NULL, 0, &taken)) {
		assert_true(delivered < ORDER_MOST);
		order[delivered++] = (uint32_t)job_message_word(board, taken.message);
		if (job_done(board, &taken) == JOB_LEFT_NONE)
			job_message_close(board, taken.message);
	}
	free(memory);
	return delivered;
}

TEST(as_a_real_qmgr) {
	FILE *file = open_shared("qmgr-oracle.json");
	uint32_t cases = 0;
	const char *at;
	char *text;

	if (file == NULL) {
		printf("there is no ../shared/qmgr-oracle.json, and no POSTERN_SHARED\n");
		skip();
	}
	at = text = read_and_close(file);
	while ((at = strstr(at, "\"case\"")) != NULL) {
		static uint32_t sizes[100], wanted[ORDER_MOST], order[ORDER_MOST];
		struct job_settings settings = job_defaults;
		uint32_t count = numbers(at, "\"sizes\"", sizes, 100), length;

		numbers(at, "\"cost\"", &settings.delivery_slot_cost, 1);
		numbers(at, "\"minslots\"", &settings.minimum_delivery_slots, 1);
		numbers(at, "\"discount\"", &settings.delivery_slot_discount, 1);
		numbers(at, "\"loan\"", &settings.delivery_slot_loan, 1);
		settings.destination_recipient_limit = settings.process_limit = 1;
		length = numbers(at, "\"order\"", wanted, ORDER_MOST);
		assert_int_equal(deliver(&settings, sizes, count, order), length);
		assert_memory_equal(order, wanted, length * sizeof order[0]);
		cases++;
		at++;
	}
	free(text);
	assert_true(cases >= 8);
}
