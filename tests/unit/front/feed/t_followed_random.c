/* SPDX-License-Identifier: ISC */
/*
 * Numbered lines, written while the log is renamed, made anew at once or late,
 * named by date, cut, and the reader killed at any line: whatever was not cut away
 * unread comes exactly once to somebody who knows the origin of the last line
 * that he took.
 */
#define TEST_OWN_MAIN
#include "tests/unit/test.h"
#include "base/clock.h"
#include "front/feed/followed_log.h"
#include "tests/unit/front/feed/feed_records.h"
#include "tests/unit/front/feed/followed_read.h"
#include "tests/unit/random.h"
#include "tests/unit/scratch.h"

#define LINES	4000
#define ROUNDS	12
#define CHUNK	FOLLOWED_BUFFER_MIN

static struct random random_source;
static char log_text[128];
static bool is_dated;
static struct followed_log followed;
static struct feed_records records;
static struct feed_keeper keeper;
static char chunk[CHUNK];
static int64_t now_ns;
static unsigned written;
static unsigned kills_left;
static uint8_t taken[LINES];
/* the engine: what it took last */
static uint64_t last_log, last_offset;

/* Writers keep a file open, by whatever name it goes now. */
static FILE *writer, *slow_writer;
static unsigned files;		/* so far */

static void name_of(char *out, size_t size, unsigned number) {
	if (is_dated)
		snprintf(out, size, "%s/m-2026%02u%02u.log", scratch, 1 + number / 28,
		    1 + number % 28);
	else
		snprintf(out, size, "%s/log", scratch);
}

static bool on_line(const struct followed_file *file, const struct followed_line *line) {
	unsigned number = 0;

	for (size_t i = 0; i < line->length && i < 6; i++)
		number = number * 10 + (unsigned)(line->text[i] - '0');
	assert_true(number < written);
	if (records.dead)
		return true;
	if (file->origin != last_log || line->offset > last_offset)
		taken[number]++;
	last_log = file->origin;
	last_offset = line->offset;
	if (kills_left > 0 && random_below(&random_source, 40) == 0) {
		kills_left--;
		records.dead = true;
	}
	return true;
}

static void start(void) {
	struct feed_position known[FEED_FILES_MAX];
	uint32_t numbers[FEED_FILES_MAX];
	struct followed_start begin = { .known = known, .records = numbers };

	followed_log_close(&followed);
	records.dead = false;
	begin.known_count = feed_records_list(&records, feed_log_id(log_text), known, numbers);
	followed_log_open(&followed, log_text, &begin, &keeper, now_ns);
}

static void follow(void) {
	do {
		if (records.dead)
			start();
		while (!records.dead && followed_read(&followed, chunk, CHUNK, on_line,
		    now_ns))
			;
		if (!records.dead)
			(void)followed_log_look(&followed, now_ns);
		while (!records.dead && followed_read(&followed, chunk, CHUNK, on_line,
		    now_ns))
			;
	} while (records.dead);
	now_ns += NS_PER_SECOND;
}

static void write_lines(FILE *out, unsigned count) {
	static const char rest[] = " nothing but a line of a log that is about as long as they are, "
	    "so that not all of them end within a few bytes of each other, of course";

	for (; count > 0 && written < LINES; count--)
		fprintf(out, "%06u%.*s\n", written++, (int)random_below(&random_source,
		    sizeof(rest) - 1), rest);
	fflush(out);
}

static void rotate(bool late) {
	char from[128], to[160];

	name_of(from, sizeof(from), files);
	files++;
	for (unsigned i = 9; !is_dated && i > 0; i--) {
		char older[160];

		snprintf(older, sizeof(older), "%s.%u", from, i);
		snprintf(to, sizeof(to), i == 1 ? "%s" : "%s.%u", from, i - 1);
		(void)rename(to, older);
	}
	name_of(to, sizeof(to), files);
	if (slow_writer != NULL)
		fclose(slow_writer);
	slow_writer = NULL;
	if (late)
		slow_writer = writer;
	else
		fclose(writer);
	writer = fopen(to, "a");
	assert_non_null(writer);
}

/* As logrotate does, when all was read; so nothing is lost. */
static void cut(void) {
	char name[128];

	follow();
	name_of(name, sizeof(name), files);
	assert_int_equal(truncate(name, 0), 0);
}

static void do_something(void) {
	switch (random_below(&random_source, 12)) {
	case 0:
		rotate(false);
		break;
	case 1:
		rotate(true);
		break;
	case 2:
		cut();
		break;
	case 3:
		records.dead = true;	/* killed between two looks */
		break;
	case 4:
	case 5:
		if (slow_writer != NULL)
			write_lines(slow_writer, 1 + random_below(&random_source, 20));
		break;
	case 6:
	case 7:
		follow();
		break;
	default:
		write_lines(writer, 1 + random_below(&random_source, 60));
		break;
	}
}

static void begin_round(bool dated) {
	char name[128];

	is_dated = dated;
	assert_int_equal(scratch_open(NULL), 0);
	name_of(log_text, sizeof(log_text), 0);
	if (dated)
		snprintf(log_text, sizeof(log_text), "%s/m-%%Y%%m%%d.log", scratch);
	feed_records_begin(&records, &keeper);
	memset(taken, 0, sizeof(taken));
	written = files = 0;
	last_log = last_offset = 0;
	kills_left = 200;
	now_ns = 1000 * NS_PER_SECOND;
	name_of(name, sizeof(name), 0);
	writer = fopen(name, "a");
	assert_non_null(writer);
	start();
}

static void end_round(void) {
	followed_log_close(&followed);
	fclose(writer);
	if (slow_writer != NULL)
		fclose(slow_writer);
	slow_writer = NULL;
	assert_int_equal(scratch_close(NULL), 0);
}

TEST(each_line_once) {
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned rotations = 0;

		begin_round(round % 2 != 0);
		while (written < LINES) {
			unsigned before = files;

			do_something();
			rotations += files != before;
			/* of the files before the last few nobody is told */
			if (rotations >= FEED_FILES_MAX - 2) {
				follow();
				rotations = 0;
			}
			now_ns += NS_PER_SECOND;
		}
		kills_left = 0;
		follow();
		follow();
		for (unsigned i = 0; i < LINES; i++)
			if (taken[i] != 1)
				fail_msg("round %u, line %u: %u times", round, i, taken[i]);
		end_round();
	}
}

int main(void) {
	random_source = random_seeded("t_followed_random");
	return test_run();
}
