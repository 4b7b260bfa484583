/* SPDX-License-Identifier: ISC */
/* Hands places in log files on to the segment. */
#include "engine/feed/feed_files.h"

#include "engine/internal.h"

unsigned engine_feed_files(const struct engine *engine, uint64_t log,
    struct feed_position out[FEED_FILES_MAX], uint32_t records[FEED_FILES_MAX]) {
	return feed_positions(engine->segment, log, out, records);
}

static uint32_t begin_position(void *segment, const struct feed_position *position) {
	return feed_position_begin(segment, position);
}

static void move_position(void *segment, uint32_t record, const struct feed_spot *spot) {
	feed_position_move(segment, record, spot);
}

static void cut_position(void *segment, uint32_t record) {
	feed_position_cut(segment, record);
}

static void forget_position(void *segment, uint32_t record) {
	feed_position_forget(segment, record);
}

struct feed_keeper engine_feed_keeper(struct engine *engine) {
	return (struct feed_keeper){ begin_position, move_position, cut_position, forget_position,
		engine->segment };
}

void engine_feed_logs_keep(struct engine *engine, const uint64_t logs[], unsigned count) {
	feed_positions_keep(engine->segment, logs, count);
}
