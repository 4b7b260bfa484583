/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  PATH.sessions is written again only after something in it changed.
 * MODEL    Whoever changes a slot raises a number of its shard after that: sessions their
 *          sequence (sessions_change_end).  A mark is taken from these numbers, and from the
 *          lines before those of the sessions, before a file is written: what changes meanwhile
 *          changes the next mark.
 * ERRORS   A file that is not the one that was written is written again.
 * THREADS  One for each struct segment_saved.
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "segment/file/internal.h"

static uint64_t mark_mix(uint64_t mark, uint64_t word) {
	mark = (mark ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return mark ^ mark >> 29;
}

static uint64_t mark_table(const struct segment *segment, const struct table_place *place,
    uint64_t mark) {
	const struct shard *shards = (const void *)((const char *)segment->header +
	    place->shards_offset);

	for (uint32_t i = 0; i < place->shards; i++)
		mark = mark_mix(mark, atomic_load(&shards[i].given));
	return mark;
}

uint64_t segment_destinations_mark(const struct segment *segment) {
	uint64_t mark = mark_table(segment, &segment->header->destinations, 0);

	return mark_table(segment, &segment->header->relays, mark);
}

/* Is the file the one that was written? */
static bool is_there(const struct segment_saved *saved, const char *path) {
	struct stat status;

	return saved->written && lstat(path, &status) == 0 &&
	    status.st_dev == saved->device && status.st_ino == saved->inode;
}

static void saved_remember(struct segment_saved *saved, const char *path, uint64_t mark) {
	struct stat status;

	*saved = (struct segment_saved){ .mark = mark };
	if (lstat(path, &status) != 0)
		return;
	saved->written = true;
	saved->device = status.st_dev;
	saved->inode = status.st_ino;
}

int segment_renew_sessions(const struct segment *segment, struct segment_saved *saved,
    int64_t now_ns, struct diag *diag) {
	uint64_t mark = segment_sessions_head_mark(segment);
	char path[PATH_MAX + 32];

	for (uint32_t i = 0; i < segment->header->shard_count; i++)
		mark = mark_mix(mark, atomic_load(&segment->session_shards[i].seq));
	snprintf(path, sizeof(path), "%s.sessions", segment->path);
	if (saved->mark == mark && is_there(saved, path) &&
	    segment_sessions_heard(segment, now_ns))
		return 0;
	saved->written = false;
	if (segment_save_sessions(segment, now_ns, diag) != 0)
		return -1;
	saved_remember(saved, path, mark);
	return 0;
}
