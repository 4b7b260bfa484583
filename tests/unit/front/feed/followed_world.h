/* SPDX-License-Identifier: ISC */
/* A log in a directory of the test's own, followed in the test's time; included by one
 * test program, behind cmocka.h. */
#ifndef TESTS_UNIT_FOLLOWED_WORLD_H
#define TESTS_UNIT_FOLLOWED_WORLD_H

#include "base/clock.h"
#include "front/feed/followed_log.h"
#include "tests/unit/front/feed/feed_records.h"
#include "tests/unit/front/feed/followed_read.h"
#include "tests/unit/scratch.h"

#define CHUNK (4 * FOLLOWED_LINE_MAX)

static char path[96], other[96], third[96];
static struct followed_log followed;
static struct feed_records records;
static struct feed_keeper keeper;
static char *chunk, *seen;
static size_t seen_length;
static int64_t now_ns;

static inline int prepare(void **state) {
	if (scratch_open(state) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/log", scratch);
	snprintf(other, sizeof(other), "%s/log.1", scratch);
	snprintf(third, sizeof(third), "%s/log.2", scratch);
	chunk = malloc(CHUNK);
	seen = calloc(1, 1 << 20);
	seen_length = 0;
	now_ns = 1000 * NS_PER_SECOND;
	feed_records_begin(&records, &keeper);
	return chunk == NULL || seen == NULL;
}

static inline int clean(void **state) {
	followed_log_close(&followed);
	free(chunk);
	free(seen);
	return scratch_close(state);
}

static inline void put(const char *file, const char *text) {
	FILE *out = fopen(file, "a");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

/* Lines come out with a | behind each. */
static inline bool keep(const struct followed_file *file, const struct followed_line *line) {
	assert_true(line->offset > 0 && file->origin != 0);
	memcpy(seen + seen_length, line->text, line->length);
	seen_length += line->length;
	seen[seen_length++] = '|';
	seen[seen_length] = '\0';
	return seen_length % 2 == 0;
}

static inline void begin_with(const char *log, bool from_begin) {
	struct feed_position known[FEED_FILES_MAX];
	uint32_t numbers[FEED_FILES_MAX];
	const struct followed_start start = { .known = known, .records = numbers,
		.known_count = feed_records_list(&records, feed_log_id(log), known, numbers),
		.from_begin = from_begin };

	followed_log_open(&followed, log, &start, &keeper, now_ns);
}

static inline void begin(void) {
	begin_with(path, false);
}

static inline void begin_again(void) {
	followed_log_close(&followed);
	begin();
}

static inline void read_all(void) {
	while (followed_read(&followed, chunk, CHUNK, keep, now_ns))
		continue;
}

/* A second goes by. */
static inline bool second(void) {
	bool help;

	now_ns += NS_PER_SECOND;
	read_all();
	help = followed_log_look(&followed, now_ns);
	read_all();
	return help;
}

static inline void expect(const char *lines) {
	assert_false(second());
	assert_string_equal(seen, lines);
	seen_length = 0;
	seen[0] = '\0';
}

/* The log grows by that, and these lines come of it. */
static inline void log_grows(const char *text, const char *lines) {
	put(path, text);
	expect(lines);
}

#endif
