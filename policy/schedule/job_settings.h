/* SPDX-License-Identifier: ISC */
/* A transport's parameters (job.h), under the document's names (less "default_" and "transport_"). */
#ifndef POLICY_JOB_SETTINGS_H
#define POLICY_JOB_SETTINGS_H

#include <stdint.h>

struct job_settings {
	uint32_t delivery_slot_cost;		/* 5; below 2: nothing is preempted */
	uint32_t minimum_delivery_slots;	/* 3 */
	uint32_t delivery_slot_discount;	/* 50 percent */
	uint32_t delivery_slot_loan;		/* 3 */
	uint32_t destination_recipient_limit;	/* 50 recipients an entry; 0: no limit.  1: give
						 * each recipient a queue of its own */
	uint32_t process_limit;			/* 100 entries at a time; 0: none */
	uint32_t recipient_limit;		/* 20000 (policy/schedule/pool.h, as what follows) */
	uint32_t extra_recipient_limit;		/* 1000 */
	uint32_t recipient_refill_limit;	/* 100 */
	int64_t recipient_refill_delay_ns;	/* 5 s; of its whole seconds */
};
extern const struct job_settings job_defaults;

/* For the whole board. */
struct pool_settings {
	uint32_t message_recipient_limit;	/* qmgr_message_recipient_limit, 20000 */
	uint32_t message_recipient_minimum;	/* qmgr_message_recipient_minimum, 10 */
	uint32_t message_active_limit;		/* qmgr_message_active_limit, 20000 */
	uint32_t batch_most;			/* recipients in one reading, 5000; 0: that */
};
extern const struct pool_settings pool_defaults;

#endif
