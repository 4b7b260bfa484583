/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the configuration says of the queues that are driven, as the engine wants it.
 * MODEL    Parameters of all, of one mail server, and of one of its transports: the last that
 *          is given counts.
 * THREADS  Any.
 */
#include "front/queue/queue_drive_internal.h"

#include "base/clock.h"

static uint64_t mix(uint64_t hash, const char *text) {
	do
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	while (*text++ != '\0');
	return hash;
}

uint64_t queue_settings_shape(const struct generation *g) {
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ g->mta_count;

	for (uint32_t i = 0; i < g->mta_count; i++) {
		const struct generation_mta *mta = &g->mtas[i];

		hash = mix(hash, generation_text(g, mta->name)) * 31 + mta->drive;
		for (uint32_t k = 0; mta->drive != 0 && k < mta->queue_count; k++)
			hash = mix(hash, generation_text(g, mta->queues[k]));
	}
	hash = hash * 31 + g->schedule.message_active_limit;
	hash = hash * 31 + g->schedule.message_recipient_limit;
	return hash * 31 + g->schedule.message_recipient_minimum;
}

/* Those of all, but for what the transport says. */
static void transport_of(const struct generation_transport *own,
    const struct queue_settings *all, unsigned mta, unsigned mailer,
    struct queue_transport_settings *out) {
	struct job_settings job = queue_job_settings(all, mta, mailer);
	uint32_t *const numbers[] = {
		[TRANSPORT_SLOT_COST] = &job.delivery_slot_cost,
		[TRANSPORT_MINIMUM_SLOTS] = &job.minimum_delivery_slots,
		[TRANSPORT_SLOT_DISCOUNT] = &job.delivery_slot_discount,
		[TRANSPORT_SLOT_LOAN] = &job.delivery_slot_loan,
		[TRANSPORT_RECIPIENT_LIMIT] = &job.recipient_limit,
		[TRANSPORT_EXTRA_RECIPIENT_LIMIT] = &job.extra_recipient_limit,
		[TRANSPORT_REFILL_LIMIT] = &job.recipient_refill_limit,
		[TRANSPORT_DESTINATION_RECIPIENT_LIMIT] = &job.destination_recipient_limit,
	};

	for (unsigned i = 0; i < GENERATION_TRANSPORT_NUMBERS; i++)
		if ((own->given >> i & 1) != 0)
			*numbers[i] = own->numbers[i];
	if (own->recipient_refill_delay_ns != 0)
		job.recipient_refill_delay_s =
		    (uint32_t)(own->recipient_refill_delay_ns / NS_PER_SECOND);
	*out = (struct queue_transport_settings){ .job = job,
		.given = own->given != 0 || own->recipient_refill_delay_ns != 0 };
}

void queue_settings_of(const struct generation *g, struct queue_settings *out) {
	const struct generation_schedule *s = &g->schedule;

	*out = (struct queue_settings){
		.discipline = s->discipline == DISCIPLINE_FIRST_COME ? QUEUE_FIRST_COME :
		    QUEUE_PREEMPTIVE,
		.delivery_slot_cost = s->delivery_slot_cost,
		.delivery_slot_discount = s->delivery_slot_discount,
		.delivery_slot_loan = s->delivery_slot_loan,
		.minimum_delivery_slots = s->minimum_delivery_slots,
		.destination_recipient_limit = s->destination_recipient_limit,
		.message_active_limit = s->message_active_limit,
		.message_recipient_limit = s->message_recipient_limit,
		.message_recipient_minimum = s->message_recipient_minimum,
		.recipient_limit = s->recipient_limit,
		.extra_recipient_limit = s->extra_recipient_limit,
		.recipient_refill_limit = s->recipient_refill_limit,
		.recipient_refill_delay_ns = s->recipient_refill_delay_ns,
		.backlog = s->backlog,
		.max_message_concurrency = s->max_message_concurrency,
		.scale_max_concurrency = s->scale_max_concurrency,
	};
	for (uint32_t i = 0; i < g->mta_count; i++) {
		uint32_t once = g->mtas[i].exactly_once;

		if (once == EXACTLY_ONCE_ENFORCE && g->outbound_observe)
			once = EXACTLY_ONCE_OBSERVE;
		out->mtas[i] = (struct queue_mta_settings){ .driven = g->mtas[i].drive != 0,
			.processes = { g->mtas[i].processes, g->mtas[i].local_processes },
			.retry_ns = g->mtas[i].retry_ns,
			.retry_most_ns = g->mtas[i].retry_most_ns,
			.stall_ns = g->mtas[i].stall_ns,
			.once = (uint8_t)once };
	}
	_Static_assert(QUEUE_MAILERS == GENERATION_TRANSPORTS, "each has settings");
	for (uint32_t i = 0; i < g->mta_count * QUEUE_MAILERS; i++)
		transport_of(&g->mtas[i / QUEUE_MAILERS].transports[i % QUEUE_MAILERS], out,
		    i / QUEUE_MAILERS, i % QUEUE_MAILERS,
		    &out->mtas[i / QUEUE_MAILERS].transports[i % QUEUE_MAILERS]);
}
