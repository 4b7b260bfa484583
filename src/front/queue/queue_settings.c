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
	out->schedule = g->schedule;
	memcpy(out->mtas, g->mtas, sizeof(out->mtas));
	for (uint32_t i = 0; i < GENERATION_MTAS_MAX; i++)
		if (out->mtas[i].exactly_once == EXACTLY_ONCE_ENFORCE && g->outbound_observe)
			out->mtas[i].exactly_once = EXACTLY_ONCE_OBSERVE;
}
