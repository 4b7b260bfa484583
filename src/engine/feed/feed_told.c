/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Lines about deliveries of a driven Sendmail, for the queue role.
 * MODEL    segment/queue/told.h; what is not said in a form that leaves no doubt goes along as such,
 *          as it may take back what was.
 * ERRORS   Where there is no room the line is left out, and counted.
 * THREADS  One.
 */
#include <string.h>

#include "engine/feed/feed.h"
#include "engine/internal.h"

bool engine_feed_wants_told(const struct generation *generation, unsigned mtas) {
	for (uint32_t i = 0; i < generation->mta_count; i++)
		if ((mtas >> i & 1) != 0 && generation->mtas[i].drive != 0 &&
		    generation->mtas[i].exactly_once != EXACTLY_ONCE_OFF)
			return true;
	return false;
}

void engine_feed_told(struct engine *engine, const struct delivery *delivery,
    const struct feed_told_line *from, const struct feed_origin *origin) {
	struct told_line line = { .written_s = from->written_s,
		.delay_s = delivery->delay_ms / 1000, .log = origin->log,
		.offset = origin->offset, .pid = from->pid, .what = (uint8_t)from->what,
		.goes_on = from->goes_on };

	if (delivery->queue_id.length == 0 || delivery->queue_id.length > TOLD_ID_MAX)
		return;
	line.id_length = (uint16_t)delivery->queue_id.length;
	memcpy(line.id, delivery->queue_id.text, line.id_length);
	if (delivery->list.length <= TOLD_LIST_MAX) {
		line.list_length = (uint16_t)delivery->list.length;
		memcpy(line.list, delivery->list.text, line.list_length);
	} else {
		line.what = TOLD_UNSURE;
	}
	if (!told_put(engine->segment, &line))
		engine_count(engine, COUNTER_TOLD_LOST, 1);
}

void engine_feed_reached(struct engine *engine, int64_t ns) {
	told_reached(engine->segment, ns);
}

unsigned engine_feed_postfix(const struct generation *generation, unsigned mtas,
    struct span program) {
	size_t rest;

	return judge_postfix(generation, mtas, program, &rest);
}
