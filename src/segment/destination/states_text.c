/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What is known of destinations as text, for the day when the layout is
 *          another one, or the boot.
 * MODEL    PATH.destinations, renewed through a rename:
 *
 *	postern-destinations 1
 *	boot BOOT-ID
 *	saved BOOTTIME-NS WALL-S
 *	mta NUMBER NAME
 *	log ID DEVICE INODE EPOCH RANK OFFSET TAIL SKIPPING
 *	seen NAME ...			(seen_text.h)
 *	destination NAME KEY=VALUE ...
 *	reason NAME TEXT TO THE END OF THE LINE
 *	flight NAME PID START-TICKS LEVEL MARKS AGE-NS RANK
 *	recipient ADDRESS MTA LEFT-NS AGE-NS TEXT TO THE END OF THE LINE
 *	ruled ADDRESS MTA LEFT-NS AGE-NS TEXT TO THE END OF THE LINE
 *	held-by ADDRESS MTA ID
 *	end LINES
 *
 *          Keys that are not known are passed over, those that are missing are 0.
 *          A recipient is held by hand, or ruled: by a provider rule.
 *          MARKS of a flight: 1 for a canary, 2 more for one that is connected.
 *          Times are what is left or passed since then, so that they hold in
 *          another boot, too, by the wall clock; there flights are none and levels
 *          are forgotten.  How far logs were read stands before the destinations: so
 *          their slots know of each event up to there, and no other.  Where there is
 *          too little room for all, windows count more than relays, which stand before
 *          them.  All that has a
 *          ceiling, is dead or held, or has flags stands there; of the windows that
 *          are open so many at most.
 * ERRORS   A line that makes no sense is passed over.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/destination/destination_table.h"
#include "segment/file/feed_position.h"
#include "segment/destination/flights.h"
#include "segment/file/name.h"
#include "segment/destination/recipients.h"
#include "segment/destination/seen_text.h"
#include "segment/destination/state_text.h"
#include "segment/file/text_file.h"

#define LINE_BYTES	1024
#define OPEN_LINES_MOST	200000
#define LOG_NUMBERS	9	/* feed_position.h */
#define FOREVER		STATE_TEXT_EVER

/* --- writing ------------------------------------------------------------------- */

struct writing {
	const struct segment *segment;
	FILE *file;
	int64_t now_ns;
	unsigned lines;
	unsigned open_lines;
};

static bool is_open(const struct destination_state *s) {
	return s->flags == 0 && s->window.state == WINDOW_OPEN &&
	    s->window.ceiling == 0;
}

static void write_destination(void *context,
    const struct destination_window *window) {
	struct writing *writing = context;
	const struct destination_state *s = &window->state;
	char text[STATE_TEXT_MAX];

	if (!s->begun && s->flags == 0)
		return;
	if (is_open(s) && writing->open_lines++ >= OPEN_LINES_MOST)
		return;
	(void)state_text_write(window, writing->now_ns, text);
	fprintf(writing->file, "destination %s %s%sorigin=%" PRIu64 "\n", window->name,
	    text, text[0] == '\0' ? "" : " ", window->origin);
	writing->lines++;
	if (window->reason[0] != '\0') {
		fprintf(writing->file, "reason %s %s\n", window->name,
		    window->reason);
		writing->lines++;
	}
}

static void write_flight(void *context, const struct flight_seen *seen) {
	struct writing *writing = context;

	fprintf(writing->file, "flight %s %" PRId32 " %" PRIu64 " %u %u %" PRId64
	    " %u\n", seen->destination, seen->process.pid, seen->process.start_ticks,
	    seen->attempt.level, seen->attempt.canary | seen->attempt.connected << 1,
	    writing->now_ns - seen->started_ns, seen->attempt.rank);
	writing->lines++;
}

static void write_recipient(void *context, const struct recipient_held *held) {
	struct writing *writing = context;

	fprintf(writing->file, "%s %s ", held->rule == RECIPIENT_NO_RULE ? "recipient" :
	    "ruled", held->address);
	if (held->until_ns == INT64_MAX)
		fputs(FOREVER, writing->file);
	else
		fprintf(writing->file, "%" PRId64,
		    held->until_ns - writing->now_ns);
	fprintf(writing->file, " %" PRId64 " %s\n",
	    writing->now_ns - held->since_ns, held->reason);
	writing->lines++;
	if (held->event == 0)
		return;
	fprintf(writing->file, "held-by %s %" PRIu64 "\n", held->address, held->event);
	writing->lines++;
}

static void write_all(const struct segment *segment, FILE *file, int64_t now_ns) {
	struct writing writing = { segment, file, now_ns, 0, 0 };

	fprintf(file, "postern-destinations 1\nboot %s\nsaved %" PRId64 " %" PRId64
	    "\n", segment->header->boot_id, now_ns, (int64_t)clock_wall_s());
	for (unsigned i = 0; i < SEGMENT_MTAS; i++) {
		char name[SEGMENT_NAME_MAX + 1];

		name_copy(segment->header->mtas[i].name, name);
		if (name[0] != '\0') {
			fprintf(file, "mta %u %s\n", i, name);
			writing.lines++;
		}
	}
	writing.lines += feed_positions_write(segment, file);
	writing.lines += seen_write(segment, file, now_ns);
	(void)states_each(segment, write_destination, &writing);
	flights_each(segment, write_flight, &writing);
	recipients_each(segment, now_ns, write_recipient, &writing);
	fprintf(file, "end %u\n", writing.lines);
}

int segment_save_destinations(const struct segment *segment, int64_t now_ns,
    struct diag *diag) {
	char temporary[PATH_MAX + 32], path[PATH_MAX + 32];
	FILE *file;
	bool failed;
	int fd;

	snprintf(path, sizeof(path), "%s.destinations", segment->path);
	snprintf(temporary, sizeof(temporary), "%s.destinations.new",
	    segment->path);
	unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	    0640);
	if (fd < 0)
		return diag_set(diag, errno, "cannot create %s", temporary);
	file = fdopen(fd, "w");
	if (file == NULL) {
		close(fd);
		return diag_set(diag, errno, "cannot write to %s", temporary);
	}
	write_all(segment, file, now_ns);
	failed = ferror(file) != 0;
	failed |= fclose(file) != 0;
	if (failed) {
		unlink(temporary);
		return diag_set(diag, EIO, "cannot write to %s", temporary);
	}
	if (rename(temporary, path) != 0) {
		diag_set(diag, errno, "cannot renew %s", path);
		unlink(temporary);
		return -1;
	}
	return 0;
}

/* --- reading -------------------------------------------------------------------- */

struct reading {
	struct segment *segment;
	int64_t now_ns;
	int64_t then_ns;	/* when it was saved, by the clock of now */
	bool same_boot;
};

/* The next word of a line, or NULL. */
static char *next_word(char **line) {
	char *word = *line, *end;

	if (*word == '\0')
		return NULL;
	end = strchr(word, ' ');
	if (end == NULL) {
		*line = word + strlen(word);
	} else {
		*end = '\0';
		*line = end + 1;
	}
	return word;
}

static bool unsigned_of(const char *text, uint64_t max, uint64_t *out) {
	char *end;

	if (text == NULL || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' && *out <= max;
}

static bool time_of(const struct reading *reading, const char *text,
    int64_t *out) {
	return state_text_time(text, reading->then_ns, out);
}

static bool read_destination(const struct reading *reading, char *line) {
	struct destination_window window = { .number = 0 };
	const char *name = next_word(&line);
	struct state_lock lock;

	if (name == NULL || !state_text_read(line, reading->then_ns,
		reading->same_boot, &window) ||
	    !states_aim(reading->segment, name, strlen(name), &lock) ||
	    states_lock(&lock, reading->now_ns, STATES_CREATE) != STATES_HELD)
		return false;
	lock.state = window.state;
	lock.raw_origin = window.origin;
	lock.event = window.event;
	states_store(&lock);
	states_unlock(&lock);
	return true;
}

static bool read_reason(const struct reading *reading, char *line) {
	const char *name = next_word(&line);
	struct state_lock lock;

	if (name == NULL ||
	    !states_aim(reading->segment, name, strlen(name), &lock) ||
	    states_lock(&lock, reading->now_ns, STATES_KNOWN_ONLY) != STATES_HELD)
		return false;
	lock.reason = line;
	states_store(&lock);
	states_unlock(&lock);
	return true;
}

static bool read_flight(const struct reading *reading, char *line) {
	static const uint64_t max[5] = { INT32_MAX, UINT64_MAX, UINT16_MAX, 3,
		INT64_MAX / 4 };
	const char *name = next_word(&line);
	struct flight_process process;
	struct flight_attempt attempt;
	struct flight_ref ref;
	struct state_lock lock;
	uint64_t v[5], rank = 0;
	const char *word;

	for (unsigned i = 0; i < 5; i++) {
		if (!unsigned_of(next_word(&line), max[i], &v[i]))
			return false;
	}
	word = next_word(&line);
	if (word != NULL && !unsigned_of(word, UINT16_MAX, &rank))
		return false;
	if (!reading->same_boot)
		return true;
	if (v[0] == 0 ||
	    !states_aim(reading->segment, name, strlen(name), &lock) ||
	    states_lock(&lock, reading->then_ns - (int64_t)v[4],
		STATES_CREATE) != STATES_HELD)
		return false;
	process = (struct flight_process){ (int32_t)v[0], v[1] };
	attempt = (struct flight_attempt){ .level = (uint16_t)v[2],
		.rank = (uint16_t)rank, .canary = (v[3] & 1) != 0 };
	if (flights_take(&lock, &process, &attempt, &ref) && (v[3] & 2) != 0)
		(void)flights_connect(&lock, &process, &attempt, &ref);
	states_unlock(&lock);
	return true;
}

static bool read_held(const struct reading *reading, char *line, uint16_t rule) {
	struct recipient_hold hold = { .address = next_word(&line), .rule = rule };
	int64_t since_ns;

	if (hold.address == NULL ||
	    !time_of(reading, next_word(&line), &hold.until_ns) ||
	    !time_of(reading, next_word(&line), &since_ns))
		return false;
	hold.length = strlen(hold.address);
	hold.reason = line;
	return hold.until_ns <= reading->now_ns ||
	    recipients_hold(reading->segment, &hold, reading->now_ns);
}

static bool read_held_by(const struct reading *reading, char *line) {
	const char *address = next_word(&line);
	uint64_t event;

	if (address == NULL ||
	    !unsigned_of(next_word(&line), UINT64_MAX, &event))
		return false;
	recipients_set_event(reading->segment, address, strlen(address), event,
	    reading->now_ns);
	return true;
}

static bool read_recipient(const struct reading *reading, char *line) {
	return read_held(reading, line, RECIPIENT_NO_RULE);
}

static bool read_ruled(const struct reading *reading, char *line) {
	return read_held(reading, line, RECIPIENT_A_RULE);
}

/* A number means whom it meant then; the sessions' text, where there is one, says
 * the same. */
static bool read_mta(const struct reading *reading, char *line) {
	struct mta_record *record;
	const char *name;
	uint64_t mta;

	if (!unsigned_of(next_word(&line), SEGMENT_MTAS - 1, &mta))
		return false;
	record = &reading->segment->header->mtas[mta];
	name = next_word(&line);
	if (name == NULL || strlen(name) > SEGMENT_NAME_MAX)
		return false;
	if (record->name[0] == '\0')
		snprintf(record->name, sizeof(record->name), "%s", name);
	return true;
}

static bool read_log(const struct reading *reading, char *line) {
	char log[] = "log", *words[1 + LOG_NUMBERS] = { log };
	unsigned count = 1;

	while (count <= LOG_NUMBERS && (words[count] = next_word(&line)) != NULL)
		count++;
	return feed_position_restore(reading->segment, words, count);
}

static bool read_seen(const struct reading *reading, char *line) {
	char seen[] = "seen", *words[SEEN_WORDS_MAX + 1] = { seen };
	unsigned count = 1;

	while (count <= SEEN_WORDS_MAX && (words[count] = next_word(&line)) != NULL)
		count++;
	return seen_restore(reading->segment, words, count, reading->then_ns);
}

static bool read_line(const struct reading *reading, char *line) {
	static const struct {
		const char *word;
		bool (*read)(const struct reading *, char *line);
	} kinds[] = {
		{ "seen", read_seen },
		{ "destination", read_destination },
		{ "reason", read_reason },
		{ "flight", read_flight },
		{ "recipient", read_recipient },
		{ "ruled", read_ruled },
		{ "held-by", read_held_by },
		{ "mta", read_mta },
		{ "log", read_log },
	};
	const char *word = next_word(&line);

	for (unsigned i = 0; word != NULL && i < sizeof(kinds) / sizeof(kinds[0]);
	     i++) {
		if (strcmp(word, kinds[i].word) == 0)
			return kinds[i].read(reading, line);
	}
	return false;
}

static bool read_head(struct reading *reading, FILE *file) {
	long long saved_ns, saved_s;
	char boot[64];
	unsigned form;

	if (fscanf(file, "postern-destinations %u\nboot %39s\nsaved %lld %lld\n",
		&form, boot, &saved_ns, &saved_s) != 4 || form != 1)
		return false;
	reading->same_boot = strcmp(boot, reading->segment->header->boot_id) == 0;
	reading->then_ns = saved_ns;
	if (!reading->same_boot) {
		int64_t passed_s = saved_s < 0 ? 0 : clock_wall_s() - saved_s;

		/* a wall clock that went back tells nothing */
		if (passed_s < 0 || passed_s > INT32_MAX)
			passed_s = 0;
		reading->then_ns = reading->now_ns - passed_s * NS_PER_SECOND;
	}
	return reading->then_ns <= reading->now_ns && (!reading->same_boot || saved_ns >= 0);
}

int64_t segment_restore_destinations(struct segment *segment, int64_t now_ns,
    struct diag *diag) {
	struct reading reading = { segment, now_ns, 0, false };
	char path[PATH_MAX + 32], line[LINE_BYTES];
	struct text_file text;
	int64_t lines = 0;

	snprintf(path, sizeof(path), "%s.destinations", segment->path);
	if (text_file_open(&text, path, diag) != 0)
		return -1;
	if (!read_head(&reading, text.file)) {
		text_file_close(&text);
		return diag_set(diag, 0, "%s: unknown format", path);
	}
	while (text_file_line(&text, line, sizeof(line), diag))
		lines += read_line(&reading, line);
	text_file_close(&text);
	if (reading.same_boot)
		segment_has_learned(segment, true);
	return lines;
}
