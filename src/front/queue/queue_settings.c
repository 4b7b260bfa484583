/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the configuration says of the queues that are driven, as the engine wants it.
 * THREADS  Any.
 */
#include "front/queue/queue_drive_internal.h"

static uint64_t mix_text(uint64_t hash, const char *text) {
	do
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	while (*text++ != '\0');
	return hash;
}

uint64_t queue_settings_shape(const struct generation *g) {
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ g->mta_count;

	for (uint32_t i = 0; i < g->mta_count; i++) {
		const struct generation_mta *mta = &g->mtas[i];

		hash = mix_text(hash, generation_text(g, mta->name)) * 31 + mta->drive;
		for (uint32_t k = 0; mta->drive != 0 && k < mta->queue_count; k++)
			hash = mix_text(hash, generation_text(g, mta->queues[k]));
	}
	hash = hash * 31 + g->schedule.pool.message_active_limit;
	hash = hash * 31 + g->schedule.pool.message_recipient_limit;
	return hash * 31 + g->schedule.pool.message_recipient_minimum;
}

void queue_settings_of(const struct generation *g, struct queue_settings *out) {
	_Static_assert(QUEUE_MAILERS == GENERATION_TRANSPORTS, "each has settings");
	*out = (struct queue_settings){ .schedule = g->schedule };
	for (uint32_t i = 0; i < g->mta_count; i++) {
		const struct generation_mta *mta = &g->mtas[i];
		uint32_t once = mta->exactly_once;

		if (once == EXACTLY_ONCE_ENFORCE && g->outbound_observe)
			once = EXACTLY_ONCE_OBSERVE;
		out->mtas[i] = (struct queue_mta_settings){ .driven = mta->drive != 0,
			.processes = { mta->processes, mta->local_processes },
			.retry_ns = mta->retry_ns, .retry_most_ns = mta->retry_most_ns,
			.stall_ns = mta->stall_ns, .once = (uint8_t)once };
		for (unsigned k = 0; k < QUEUE_MAILERS; k++)
			out->mtas[i].transports[k] = mta->transports[k];
	}
}
