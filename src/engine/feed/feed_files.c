/* SPDX-License-Identifier: ISC */
/* Hands places in log files on to the segment. */
#include "engine/feed/feed_files.h"

#include "engine/internal.h"

unsigned engine_feed_files(const struct engine *engine, uint64_t log,
    struct feed_position out[FEED_FILES_MAX], uint32_t records[FEED_FILES_MAX]) {
	return feed_positions(engine->segment, log, out, records);
}

uint32_t engine_feed_file_begin(struct engine *engine, const struct feed_position *position) {
	return feed_position_begin(engine->segment, position);
}

void engine_feed_file_move(struct engine *engine, uint32_t record,
    const struct feed_spot *spot) {
	feed_position_move(engine->segment, record, spot);
}

void engine_feed_file_cut(struct engine *engine, uint32_t record) {
	feed_position_cut(engine->segment, record);
}

void engine_feed_file_forget(struct engine *engine, uint32_t record) {
	feed_position_forget(engine->segment, record);
}

void engine_feed_logs_keep(struct engine *engine, const uint64_t logs[], unsigned count) {
	feed_positions_keep(engine->segment, logs, count);
}
