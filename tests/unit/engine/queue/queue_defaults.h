/* SPDX-License-Identifier: ISC */
/* A queue's settings as they are shipped. */
#ifndef TESTS_UNIT_QUEUE_DEFAULTS_H
#define TESTS_UNIT_QUEUE_DEFAULTS_H

#include "base/clock.h"
#include "engine/queue/queue.h"

/* No mta is driven. */
static const struct queue_settings queue_defaults = { .schedule = {
	.discipline = DISCIPLINE_PREEMPTIVE,
	.pool = { .message_active_limit = 20000, .message_recipient_limit = 20000,
	    .message_recipient_minimum = 10 }, .backlog = 10,
	.max_message_concurrency = 5, .scale_max_concurrency = 10,
	.job = { .delivery_slot_cost = 5, .delivery_slot_discount = 50, .delivery_slot_loan = 3,
	    .minimum_delivery_slots = 3, .destination_recipient_limit = 1,
	    .recipient_limit = 20000, .extra_recipient_limit = 1000,
	    .recipient_refill_limit = 100, .recipient_refill_delay_ns = 5 * NS_PER_SECOND },
} };

#endif
