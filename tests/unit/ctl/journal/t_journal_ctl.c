/* SPDX-License-Identifier: ISC */
/* posternctl journal, on journals that are made here byte by byte: what check finds and what
 * it means, what dump writes of each type, what stat counts. */
#include <sysexits.h>

#include "tests/unit/test.h"
#include "ctl/cli/arguments.h"
#include "ctl/cli/ctl.h"
#include "ctl/journal/journal_record.h"
#include "ctl/ask/why.h"
#include "journal/record.h"
#include "tests/unit/scratch.h"

#define SALT	UINT32_C(0x5eed5a17)
#define SECOND	INT64_C(1000000000)
#define NOON	(INT64_C(1795348800) * SECOND)	/* 2026-11-22T12:00:00Z */

/* --- a journal ---------------------------------------------------------------------------- */

static struct {
	const char *directory;		/* with queue/ below it */
	uint8_t *bytes;			/* of the file that is being made */
	size_t length;
	uint64_t sequence, synced;
	uint32_t number;
	uint32_t at;			/* where the last record begins */
} made;

/* Below the scratch directory. */
static const char *name_of(uint32_t number) {
	static char path[64];
	char name[JOURNAL_NAME_MAX + 1] = JOURNAL_POSITIONS_NAME;

	if (number != 0)
		journal_file_name(number, name);
	snprintf(path, sizeof(path), "queue/%s", name);
	return path;
}

static void begin_file(uint32_t previous, uint32_t previous_end) {
	const struct journal_head head = { .salt = SALT, .kind = JOURNAL_QUEUE, .journal = 77,
		.created_ns = NOON, .number = ++made.number, .previous = previous,
		.previous_end = previous_end };

	made.at = 0;
	made.sequence++;
	journal_head_write(made.bytes, &head, made.sequence,
	    (uint32_t)(made.sequence - made.synced));
	made.length = JOURNAL_HEAD_SIZE;
}

static int begin(void **state) {
	memset(&made, 0, sizeof(made));
	assert_int_equal(scratch_open(state), 0);
	made.directory = scratch;
	assert_int_equal(mkdir(scratch_path("queue"), 0700), 0);
	made.bytes = malloc(1 << 20);
	assert_non_null(made.bytes);
	begin_file(0, 0);
	return 0;
}

static struct journal_place put_record(uint8_t type, uint8_t version,
    const void *payload, size_t length) {
	const struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = type,
		.version = version, .length = (uint32_t)length, .sequence = ++made.sequence,
		.behind = (uint32_t)(made.sequence - made.synced), .payload = payload };

	made.at = (uint32_t)made.length;
	made.length += journal_frame_write(made.bytes + made.length, &frame, SALT);
	return (struct journal_place){ made.number, made.at };
}

static void write_file(size_t length) {
	scratch_write_bytes(name_of(made.number), made.bytes, length);
}

static int forget(void **state) {
	free(made.bytes);
	return scratch_close(state);
}

/* --- records in it ------------------------------------------------------------------------ */

#define TEXT(text)	{ text, sizeof(text) - 1 }

static struct journal_place put_envelope(uint64_t key,
    struct journal_text id, uint8_t type) {
	const struct journal_group groups[] = { { TEXT("far.example"), 3, 0 },
		{ TEXT(""), 1, INT64_MAX } };
	const struct journal_envelope envelope = { .key = key, .written_ns = NOON,
		.stamp = 4711, .arrival_ns = NOON - 60 * SECOND, .tries = 2, .recipients = 4,
		.tried_ns = NOON - SECOND / 4, .mta = TEXT("out"), .directory = TEXT("/q/q1"),
		.id = id, .sender = TEXT("a\x1b[2J\"b@x.example"),
		.groups = { .count = 2, .items = groups },
		.replaces = type == JOURNAL_REPLACEMENT ? 3 : 0 };
	uint8_t payload[512];
	size_t length = journal_envelope_write(payload, sizeof(payload), &envelope);

	assert_true(length > 0);
	return put_record(type, 1, payload, length);
}

static void put_start(uint64_t key, struct journal_place envelope) {
	const struct journal_start start = { .key = key, .envelope = envelope,
		.when_ns = NOON, .run = 9 };
	uint8_t payload[128];

	put_record(JOURNAL_START, 1, payload,
	    journal_start_write(payload, sizeof(payload), &start));
}

static void put_delivery(uint64_t key) {
	const struct journal_delivery delivery = { .key = key, .start = 3, .when_ns = NOON,
		.recipients = 3, .domain = TEXT("far.example") };
	uint8_t payload[128];

	put_record(JOURNAL_DELIVERY, 1, payload,
	    journal_delivery_write(payload, sizeof(payload), &delivery));
}

static void put_finish(uint64_t key) {
	const struct journal_finish finish = { .key = key, .start = 3, .when_ns = NOON };
	uint8_t payload[128];

	put_record(JOURNAL_FINISH, 1, payload,
	    journal_finish_write(payload, sizeof(payload), &finish));
}

static void put_manual(void) {
	const struct journal_manual manual = { .when_ns = NOON, .until_ns = NOON + 60 * SECOND,
		.verb = MANUAL_SUSPEND, .what = JOURNAL_ON_DESTINATION, .who = 0,
		.window = UINT32_MAX, .ceiling = 7, .name = TEXT("slow.example"),
		.reason = TEXT("ask noc") };
	uint8_t payload[256];

	put_record(JOURNAL_MANUAL, 1, payload,
	    journal_manual_write(payload, sizeof(payload), &manual));
}

/* --- a run of posternctl ------------------------------------------------------------------ */

struct said {
	int code;
	char *text;
	size_t length;
};

static struct said run(const char *options) {
	static char words[256];
	char *argv[16] = { NULL }, *rest = words;
	struct ctl ctl = { .config_path = "/nonexistent" };
	int (*const calls[])(struct ctl *) = { command_JOURNAL_CHECK, command_JOURNAL_DUMP,
		command_JOURNAL_STAT };
	enum command command;
	struct said said = { .code = -1 };
	bool json = false, as_json;
	int argc = 0;
	FILE *out;

	as_json = strncmp(options, "--json ", 7) == 0;
	snprintf(words, sizeof(words), "posternctl %sjournal %s", as_json ? "--json " : "",
	    as_json ? options + 7 : options);
	while (argc < 14 && (argv[argc] = strsep(&rest, " ")) != NULL)
		argc++;
	argv[argc++] = (char *)(uintptr_t)made.directory;
	assert_int_equal(arguments_parse(argc, argv, &ctl, &json, &command), REQUEST_RUN);
	out = open_memstream(&said.text, &said.length);
	assert_non_null(out);
	writer_init(&ctl.writer, out, json);
	said.code = calls[command - COMMAND_JOURNAL_CHECK](&ctl);
	fclose(out);
	return said;
}

static void expect(const char *options, int code, const char *part) {
	struct said said = run(options);

	if (said.code != code || strstr(said.text, part) == NULL)
		fprintf(stderr, "%s: exit code %d\n%s", options, said.code, said.text);
	assert_int_equal(said.code, code);
	assert_non_null(strstr(said.text, part));
	free(said.text);
}

static size_t count_lines(const char *options) {
	struct said said = run(options);
	size_t lines = 0;

	for (const char *c = said.text; *c != '\0'; c++)
		lines += *c == '\n';
	free(said.text);
	return lines;
}

/* A message in work, one that waits, one that is done; all is synced but the last two. */
static int make_five(void **state) {
	struct journal_place envelope;

	begin(state);
	envelope = put_envelope(0xabc, (struct journal_text)TEXT("6AM3A1"),
	    JOURNAL_ENVELOPE);
	put_start(0xabc, envelope);
	put_delivery(0xabc);
	made.bytes[envelope.offset + JOURNAL_MARK_AT] = JOURNAL_GARBAGE;
	put_envelope(0xdef, (struct journal_text)TEXT("6AM3A2"), JOURNAL_ENVELOPE);
	made.synced = made.sequence;
	put_envelope(0x123, (struct journal_text)TEXT("6AM3A3"), JOURNAL_REPLACEMENT);
	put_finish(0x123);
	return 0;
}

/* --- check -------------------------------------------------------------------------------- */

TEST_IN(make_five, forget, a_whole_journal_is_whole) {
	write_file(made.length);
	expect("check", EX_OK, "/queue: 1 file, 7 records: intact\n");
	expect("--json check", EX_OK, "[]\n");
}

/* Cut anywhere within what was not synced: torn, and never damage. */
TEST_IN(make_five, forget, what_was_not_synced_is_torn_at_most) {
	for (size_t length = made.at + 1; length < made.length; length++) {
		char place[64];

		write_file(length);
		snprintf(place, sizeof(place), "0000000001.log:%u: note: torn tail: ",
		    (unsigned)made.at);
		expect("check", EX_OK, place);
	}
	expect("check", EX_OK, "1 file, 6 records, 1 torn tail: intact\n");
	expect("--json check", EX_OK, "\"finding\": \"torn\", \"severity\": \"note\"");
}

/* Every byte of it but its mark. */
TEST_IN(make_five, forget, what_was_synced_is_damage) {
	uint32_t at = JOURNAL_HEAD_SIZE, end;

	end = at + JOURNAL_HEADER + 40;
	for (uint32_t i = at; i < end; i++) {
		char place[64];

		if (i == at + JOURNAL_MARK_AT)
			continue;
		made.bytes[i] ^= 0x10;
		write_file(made.length);
		made.bytes[i] ^= 0x10;
		snprintf(place, sizeof(place), "0000000001.log:%u: error: damage: ", (unsigned)at);
		expect("check", EX_DATAERR, place);
	}
	expect("check", EX_DATAERR, "1 damaged place\n");
}

TEST_IN(make_five, forget, a_bit_of_a_mark_is_damage_that_changes_nothing) {
	made.bytes[made.at + JOURNAL_MARK_AT] ^= 0x04;
	write_file(made.length);
	expect("check", EX_DATAERR,
	    "damage: the garbage mark is fb; most of its bits mark the record as live");
	expect("dump --type finish", EX_OK, " garbage=false ");
}

TEST_IN(make_five, forget, what_a_later_version_wrote_is_told) {
	put_record(JOURNAL_START, 2, "new", 3);
	write_file(made.length);
	expect("check", EX_PROTOCOL, "has version 2 of a later Postern; this version "
	    "skips it");
	put_record(200, 1, "new", 3);
	write_file(made.length);
	expect("check", EX_PROTOCOL, "has type 200 of a later Postern; this version "
	    "skips it");
	expect("check", EX_PROTOCOL, "9 records, 2 of a later version\n");
	expect("dump", EX_OK, " type=200 version=1 bytes=27 garbage=false ");
}

TEST_IN(make_five, forget, a_right_checksum_over_nonsense_is_damage) {
	put_record(JOURNAL_FINISH, 1, "xyz", 3);
	write_file(made.length);
	expect("check", EX_DATAERR, "has no valid finish; skipped");
	expect("dump --type finish", EX_OK, " spoiled=true\n");
}

TEST(where_none_is_a_mistake_is_told) {
	made.directory = "/nonexistent/journal";
	expect("check", EX_NOINPUT, "");
	expect("stat", EX_NOINPUT, "");
	made.directory = "/etc";
	expect("dump", EX_NOINPUT, "");
	made.directory = "/etc/passwd";
	expect("dump", EX_NOINPUT, "");
}

/* --- dump --------------------------------------------------------------------------------- */

TEST_IN(make_five, forget, a_record_is_a_line) {
	put_manual();
	write_file(made.length);
	assert_int_equal(count_lines("dump"), 8);
	expect("dump --type start", EX_OK, " sequence=3 type=start version=1 bytes=52 "
	    "garbage=false synced=0 id=6AM3A1 key=0000000000000abc envelope=1:84 "
	    "when=2026-11-22T12:00:00.000Z pid=9\n");
	expect("--json dump --type delivery", EX_OK, "\"id\": \"6AM3A1\", "
	    "\"key\": \"0000000000000abc\", \"start\": 3, \"when\": \"2026-11-22T12:00:00.000Z\", "
	    "\"domain\": \"far.example\", \"result\": \"gone\", \"recipients\": 3, \"left\": 0}\n");
	expect("dump --type manual", EX_OK, " verb=suspend on=destination "
	    "name=slow.example when=2026-11-22T12:00:00.000Z "
	    "until=2026-11-22T12:01:00.000Z uid=0 ceiling=7 reason=\"ask noc\"\n");
}

TEST_IN(make_five, forget, names_from_outside_harm_no_terminal) {
	write_file(made.length);
	expect("dump --id 6AM3A2", EX_OK,
	    " sender=\"a\\x1b[2J\\\"b@x.example\" recipients=4 ");
	expect("dump --id 6AM3A2", EX_OK, " groups=[domain=far.example recipients=3; "
	    "domain=\"\" recipients=1 due=for-ever]\n");
	expect("--json dump --id 6AM3A2", EX_OK,
	    "\"sender\": \"a\\u001b[2J\\\"b@x.example\"");
	expect("--json dump --id 6AM3A2", EX_OK, "\"groups\": [{\"domain\": "
	    "\"far.example\", \"recipients\": 3, \"due\": null}, {\"domain\": \"\", "
	    "\"recipients\": 1, \"due\": \"for-ever\"}]}\n");
}

TEST_IN(make_five, forget, filters) {
	put_manual();
	write_file(made.length);
	assert_int_equal(count_lines("dump --id 6AM3A1"), 3);
	assert_int_equal(count_lines("dump --id 6AM3A3"), 2);
	assert_int_equal(count_lines("dump --id 6AM3A"), 0);
	assert_int_equal(count_lines("dump --id 6AM3A1 --type start"), 1);
	assert_int_equal(count_lines("dump --destination far.example"), 4);
	assert_int_equal(count_lines("dump --destination *.example"), 5);
	assert_int_equal(count_lines("dump --destination SLOW.example"), 1);
	assert_int_equal(count_lines("dump --destination other.example"), 0);
	expect("dump --type frobnicate", EX_USAGE, "");
	expect("dump --destination a..b", EX_USAGE, "");
}

/* --- stat --------------------------------------------------------------------------------- */

/* Live are the head, the envelope that waits, and what stands of the message in work since
 * its envelope, which it needs, too. */
TEST_IN(make_five, forget, stat_counts_what_is_live) {
	write_file(made.length);
	expect("--json stat", EX_OK, "\"files\": 1,\n");
	expect("--json stat", EX_OK, "\"records\": 7,\n");
	expect("--json stat", EX_OK, "\"queued\": 2,\n");
	expect("--json stat", EX_OK, "\"working\": 1,\n");
	expect("--json stat", EX_OK, "\"syncs_per_delivery\": null,\n");
	/* the replacement of the one that is done (24 + 171 bytes), and its finish (24 + 33) */
	expect("--json stat", EX_OK, "\"garbage_bytes\": 252,\n");
	expect("stat", EX_OK, "queue:\n  directory ");
}

TEST_IN(make_five, forget, positions_are_told) {
	struct journal_positions positions = { .when_ns = NOON, .journal = 77, .synced = 5,
		.first_file = 1, .syncs = 30, .results = 400, .positions_count = 2,
		.positions = { { .place = { 1, JOURNAL_HEAD_SIZE }, .name = "suffix" } } };
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = JOURNAL_POSITIONS,
		.version = 1, .sequence = 12 };
	uint8_t payload[JOURNAL_SLOT], slots[2 * JOURNAL_SLOT] = { 0 };

	write_file(made.length);
	frame.payload = payload;
	frame.length = (uint32_t)journal_positions_write(payload, sizeof(payload), &positions);
	journal_frame_write(slots + JOURNAL_SLOT, &frame, 0);
	scratch_write_bytes(name_of(0), slots, sizeof(slots));
	expect("check", EX_OK, "intact\n");
	expect("--json stat", EX_OK, "\"syncs_per_delivery\": 0.075,\n");
	expect("--json stat", EX_OK, "\"suffix_records\": 6,\n");
	expect("--json stat", EX_OK,
	    "{\"position\": \"suffix\", \"file\": 1, \"offset\": 84}");
	expect("dump --type positions", EX_OK, " offset=4096 sequence=12 type=positions "
	    "counts=true when=2026-11-22T12:00:00.000Z synced=5 first_file=1 syncs=30 "
	    "results=400 positions=[name=suffix place=1:84; name=\"\"]\n");
	/* the last file is gone */
	assert_int_equal(unlink(scratch_path(name_of(1))), 0);
	expect("check", EX_DATAERR, "positions:0: error: damage: record 5 and those "
	    "before it, from 1 on, were synced but are missing");
	expect("stat", EX_DATAERR, "damaged                  1\n");
	/* the disk had more */
	made.bytes[made.at] ^= 1;
	write_file(made.length);
	positions.synced = made.sequence;
	journal_positions_write(payload, sizeof(payload), &positions);
	journal_frame_write(slots + JOURNAL_SLOT, &frame, 0);
	scratch_write_bytes(name_of(0), slots, sizeof(slots));
	expect("check", EX_DATAERR, "damage: ");
	/* being written: the other one counts; and none */
	slots[JOURNAL_SLOT + 30] ^= 1;
	scratch_write_bytes(name_of(0), slots, sizeof(slots));
	expect("check", EX_DATAERR, "positions:4096: error: damage: ");
	memcpy(slots, slots + JOURNAL_SLOT, JOURNAL_SLOT);
	slots[30] ^= 1;
	scratch_write_bytes(name_of(0), slots, sizeof(slots));
	expect("check", EX_DATAERR, "positions:4096: note: ");
}

/* The first file that counts is gone: only the positions know. */
TEST_IN(make_five, forget, a_first_file_that_is_gone_is_damage) {
	struct journal_positions positions = { .when_ns = NOON, .journal = 77, .synced = 5,
		.first_file = 1 };
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = JOURNAL_POSITIONS,
		.version = 1, .sequence = 1 };
	uint8_t payload[JOURNAL_SLOT], slot[JOURNAL_SLOT] = { 0 };

	begin_file(1, (uint32_t)made.length);
	write_file(made.length);
	expect("check", EX_OK, "1 file, 1 record: intact\n");
	frame.payload = payload;
	frame.length = (uint32_t)journal_positions_write(payload, sizeof(payload), &positions);
	journal_frame_write(slot, &frame, 0);
	scratch_write_bytes(name_of(0), slot, sizeof(slot));
	expect("check", EX_DATAERR, "0000000001.log:0: error: damage: this file and all "
	    "files up to the first existing one are missing\n");
	expect("stat", EX_DATAERR, "damaged                  1\n");
	positions.first_file = 2;
	journal_positions_write(payload, sizeof(payload), &positions);
	journal_frame_write(slot, &frame, 0);
	scratch_write_bytes(name_of(0), slot, sizeof(slot));
	expect("check", EX_OK, "1 file, 1 record: intact\n");
}

/* Also as a user who may do no more. */
TEST_IN(make_five, forget, nothing_is_changed) {
	struct stat before, after;
	char below[80];

	write_file(made.length - 3);
	snprintf(below, sizeof(below), "%s", scratch_path("queue"));
	assert_int_equal(chmod(scratch_path(name_of(1)), 0400), 0);
	assert_int_equal(chmod(below, 0500), 0);
	assert_int_equal(stat(below, &before), 0);
	expect("check", EX_OK, "torn");
	expect("dump", EX_OK, "envelope");
	expect("stat", EX_OK, "queue");
	assert_int_equal(stat(below, &after), 0);
	assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
	assert_int_equal(chmod(below, 0700), 0);
}

static uint64_t id_of(uint64_t i) {
	return (i + 1) * DECIDED_RINGS + DECIDED_OF_DESTINATIONS;
}

/* Whoever writes the journal of decisions chooses the times in it. */
TEST_IN(begin, forget, why_reckons_with_no_time_that_overflows) {
	static const int64_t times[] = { INT64_MIN, -1, NOON, INT64_MAX - 1, INT64_MAX };
	static const int64_t untils[] = { 0, 0, NOON, INT64_MAX / 2, INT64_MAX };
	static const struct ctl plain;
	struct state seen = { .view.reader = NULL };
	struct why_sources sources;
	struct why_event event;
	struct why_undo undo;

	for (uint64_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		const struct journal_decision decision = { .d = { .id = id_of(i),
			.kind = DECIDED_BY_HAND, .at_ns = times[i], .until_ns = times[i],
			.by = 3, .flags = DECIDED_WAS_HELD } };
		uint8_t payload[512];

		put_record(JOURNAL_DECISION, 1, payload,
		    journal_decision_write(payload, sizeof(payload), &decision));
	}
	write_file(made.length);
	why_sources_begin(&sources, &seen, scratch_path("queue"));
	for (uint64_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		assert_true(why_find(&sources, id_of(i), &event));
		assert_in_range(event.wall_ns, 0, INT64_MAX / 2);
		assert_true(event.until_wall_ns == untils[i]);
		/* built with UBSan */
		why_undo(&plain, &event, NULL, sources.wall_ns, &undo);
	}
	why_sources_end(&sources);
}
