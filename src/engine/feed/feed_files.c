/* SPDX-License-Identifier: ISC */
/* Hands places in log files on to the segment. */
#include "engine/feed/feed_files.h"

#include "engine/internal.h"

unsigned engine_feed_files(const struct engine *engine, uint64_t log,
    struct feed_position out[FEED_FILES_MAX], uint32_t records[FEED_FILES_MAX]) {
	return feed_positions(engine->segment, log, out, records);
}

struct feed_keeper engine_feed_keeper(struct engine *engine) {
	return (struct feed_keeper){ feed_position_begin, feed_position_move, feed_position_cut,
		feed_position_forget, engine->segment };
}

void engine_feed_reading(struct engine *engine, uint64_t origin) {
	feed_position_reading(engine->segment, origin);
}

uint64_t engine_feed_read_last(const struct engine *engine) {
	return feed_position_read_last(engine->segment);
}

void engine_feed_logs_keep(struct engine *engine, const uint64_t logs[], unsigned count) {
	feed_positions_keep(engine->segment, logs, count);
}
