/* SPDX-License-Identifier: ISC */
/* How far log files were read, as the segment keeps it for the next feed process
 * (segment/file/feed_position.h, whose contracts these are).  One process writes. */
#ifndef ENGINE_FEED_FILES_H
#define ENGINE_FEED_FILES_H

#include "engine/engine.h"
#include "segment/file/feed_position.h"

unsigned engine_feed_files(const struct engine *engine, uint64_t log,
    struct feed_position out[FEED_FILES_MAX], uint32_t records[FEED_FILES_MAX]);
/* Keeps positions for the next process; a record is what `begin` returned. */
struct feed_keeper {
	uint32_t (*begin)(struct segment *segment, const struct feed_position *position);
	void (*move)(struct segment *segment, uint32_t record, const struct feed_spot *spot);
	void (*cut)(struct segment *segment, uint32_t record);
	void (*forget)(struct segment *segment, uint32_t record);
	struct segment *segment;
};
/* That of the segment. */
struct feed_keeper engine_feed_keeper(struct engine *engine);
void engine_feed_reading(struct engine *engine, uint64_t origin);
uint64_t engine_feed_read_last(const struct engine *engine);
void engine_feed_logs_keep(struct engine *engine, const uint64_t logs[], unsigned count);

#endif
