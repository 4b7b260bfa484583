/* SPDX-License-Identifier: ISC */
/* The rings of decisions, and the text of ids. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include "tests/unit/test.h"
#include "base/clock.h"
#include "base/decision_id.h"
#include "segment/decision/decisions.h"
#include "segment/file/internal.h"
#include "segment/reader.h"
#include "tests/unit/random.h"
#include "tests/unit/own_site.h"

#define ALL "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 9; } );"
#define SLOTS	512	/* of a ring in a small segment */

static int set_up(void **state) {
	site_open_sized(&site, 64, 64, ALL);
	return 0;
}

/* --- ids ---------------------------------------------------------------------------- */

/* By hand: 1 is ten zeros and "1", and 1 modulo 29 is "1".  2^51 is 2 * 32^10; 32^10 is 3^10
 * = 59049 = 29 * 2036 + 5, so it is 10 modulo 29, "a".  3 * 2^51 + 31: 3 * 10 + 31 = 61 = 2 *
 * 29 + 3. */
TEST(an_id_is_twelve_letters_of_which_the_last_checks) {
	static const struct {
		uint64_t id;
		const char *text;
	} known[] = {
		{ 1, "000000000011" },
		{ UINT64_C(1) << 51, "20000000000a" },
		{ (UINT64_C(3) << 51) + 31, "6000000000z3" },
		{ UINT64_MAX, "fzzzzzzzzzzzz" },	/* and its check, below */
	};
	char text[DECISION_ID_MAX];
	uint64_t id;

	for (unsigned i = 0; i < 3; i++) {
		assert_string_equal(decision_id_text(known[i].id, text), known[i].text);
		assert_true(decision_id_parse(text, strlen(text), &id));
		assert_true(id == known[i].id);
	}
	(void)decision_id_text(UINT64_MAX, text);
	assert_int_equal(strlen(text), 14);
	assert_memory_equal(text, known[3].text, 13);
	assert_true(decision_id_parse(text, strlen(text), &id));
	assert_true(id == UINT64_MAX);
	assert_string_equal(decision_id_text(0, text), "-");
}

static bool reads(const char *text) {
	uint64_t id = 0;

	return decision_id_parse(text, strlen(text), &id) && id == UINT64_C(1) << 51;
}

TEST(an_id_is_read_as_people_copy_it) {
	static const char *const good[] = { "20000000000a", "20000000000A", "2OOoo000000a",
		"id=20000000000a", "(20000000000a)", "id=20000000000a,", "\"20000000000a\".",
		"(20000000000a):" };
	static const char *const bad[] = { "", "id=", "20000000000b", "30000000000a",
		"02000000000a", "2000000000a", "200000000000a", "20000000000u", "-",
		"2000000 0000a", "20000000000a20000000000a", "zzzzzzzzzzzzzzz" };

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!reads(good[i]))
			fail_msg("\"%s\" is an id", good[i]);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (reads(bad[i]))
			fail_msg("\"%s\" is no id", bad[i]);
}

/* One wrong letter, or two neighbours exchanged: told but where they are 29 apart. */
TEST(a_slip_of_a_finger_is_told) {
	static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
	char text[DECISION_ID_MAX], slipped[DECISION_ID_MAX];
	unsigned missed = 0, tried = 0;
	struct random random = random_seeded("decisions");
	uint64_t ignored;

	for (unsigned round = 0; round < 2000; round++) {
		unsigned at = (unsigned)random_below(&random, 11);

		(void)decision_id_text((UINT64_C(1) << 50) + random_next(&random) %
		    (UINT64_C(1) << 48), text);
		memcpy(slipped, text, sizeof(text));
		if (round % 2 == 0) {
			slipped[at] = digits[random_below(&random, 32)];
		} else {
			slipped[at] = text[at + 1];
			slipped[at + 1] = text[at];
		}
		if (strcmp(text, slipped) == 0)
			continue;
		tried++;
		missed += decision_id_parse(slipped, strlen(slipped), &ignored);
	}
	assert_true(tried > 1500);
	/* three pairs of 496 are 29 apart; at the end the check letter itself changes place */
	assert_true(missed * 50 < tried);
}

/* --- texts --------------------------------------------------------------------------- */

static struct decided sample(enum decided_kind kind, uint64_t id, const char *name) {
	struct decided d;

	memset(&d, 0, sizeof(d));
	d.id = id;
	d.kind = (uint8_t)kind;
	d.reason = DECIDED_NO_REASON;
	d.at_ns = 1000;
	decided_put(&d, DECIDED_NAME, name, strlen(name));
	return d;
}

TEST(texts_are_cut_and_never_beyond) {
	struct decided d = sample(DECIDED_REFUSED, 2, "a.example");
	char long_text[400];

	memset(long_text, 'x', sizeof(long_text));
	decided_put(&d, DECIDED_CLASS, "with\0nul", 8);
	decided_put(&d, DECIDED_REASON, long_text, sizeof(long_text));
	decided_put(&d, DECIDED_NOTE, long_text, sizeof(long_text));
	decided_put(&d, DECIDED_MTA, "no room", 7);
	assert_string_equal(decided_text(&d, DECIDED_NAME), "a.example");
	assert_string_equal(decided_text(&d, DECIDED_CLASS), "with?nul");
	assert_int_equal(strlen(decided_text(&d, DECIDED_REASON)), 255);
	assert_string_equal(decided_text(&d, DECIDED_REASON) + 250, "xx...");
	/* 376 bytes: 9 + 3, 8 + 3, 255 + 3, and 3 of the last */
	assert_int_equal(strlen(decided_text(&d, DECIDED_NOTE)), 92);
	assert_string_equal(decided_text(&d, DECIDED_NOTE) + 87, "xx...");
	assert_string_equal(decided_text(&d, DECIDED_MTA), "");
	assert_string_equal(decided_text(&d, DECIDED_FILE), "");
	assert_true(decided_is_sound(&d));
}

/* A part of a name would be the name of somebody else, and commands are made of these. */
TEST(a_name_that_does_not_fit_is_left_out) {
	struct decided d = sample(DECIDED_BACK_PRESSURE, 2, "");
	char long_name[300];

	memset(long_name, 'x', sizeof(long_name));
	decided_put(&d, DECIDED_RECIPIENT, long_name, 256);
	assert_string_equal(decided_text(&d, DECIDED_RECIPIENT), "");
	decided_put(&d, DECIDED_NAME, long_name, 256);
	assert_int_equal(strlen(decided_text(&d, DECIDED_NAME)), 255);
	/* 376 bytes less 255 + 3, and 3 of its own */
	decided_put(&d, DECIDED_CLASS, long_name, 116);
	assert_string_equal(decided_text(&d, DECIDED_CLASS), "");
	decided_put(&d, DECIDED_WINDOW_OF, long_name, 115);
	assert_int_equal(strlen(decided_text(&d, DECIDED_WINDOW_OF)), 115);
	assert_true(decided_is_sound(&d));
}

/* It was "m" for "more mail than usual, or complaints". */
TEST(a_note_of_one_letter) {
	struct decided d = sample(DECIDED_FAILURE, 3, "a.example");
	char long_text[400];

	memset(long_text, 'x', sizeof(long_text));
	decided_put(&d, DECIDED_RELAY, long_text, 255);
	decided_put(&d, DECIDED_FILE, long_text, 88);
	/* 376 - 12 - 258 - 91: room for 12 bytes, of which 3 are its own */
	decided_put(&d, DECIDED_NOTE, "more mail than usual, or complaints", 35);
	assert_string_equal(decided_text(&d, DECIDED_NOTE), "more mail...");
	d = sample(DECIDED_FAILURE, 3, "a.example");
	decided_put(&d, DECIDED_RELAY, long_text, 255);
	decided_put(&d, DECIDED_FILE, long_text, 100);
	decided_put(&d, DECIDED_NOTE, "more mail than usual, or complaints", 35);
	assert_string_equal(decided_text(&d, DECIDED_NOTE), "");
	/* no half of a character: the last one that fits is of two bytes */
	d = sample(DECIDED_FAILURE, 3, "a.example");
	for (size_t i = 0; i + 1 < sizeof(long_text); i += 2)
		memcpy(long_text + i, "\xc3\xa9", 2);
	decided_put(&d, DECIDED_REASON, long_text + 1, sizeof(long_text) - 1);
	assert_int_equal(strlen(decided_text(&d, DECIDED_REASON)) % 2, 0);
	assert_true(decided_is_sound(&d));
}

TEST(what_makes_no_sense_is_none) {
	struct decided good = sample(DECIDED_SUSPENDED, 3, "a.example"), d;
	struct random random = random_seeded("decisions");

	assert_true(decided_is_sound(&good));
#define WITH(field, value) d = good; d.field = value; assert_false(decided_is_sound(&d))
	WITH(id, 2);			/* of the other ring */
	WITH(kind, DECIDED_KINDS);
	WITH(reason, REASON_COUNT);
	WITH(verdict, 4);
	WITH(stage, DECIDED_STAGES);
	WITH(at_ns, -1);
	WITH(until_ns, -1);
	WITH(at_ns, INT64_MAX);		/* no sum with it may overflow */
	WITH(until_ns, INT64_MAX - 1);
	WITH(success, NAN);
	WITH(fail_cohorts, -INFINITY);
	WITH(text_bytes, DECIDED_TEXT_BYTES + 1);
	WITH(text_bytes, 2);
	WITH(texts[1], 8);		/* its length: "a.example" */
#undef WITH
	/* whatever stands there, the texts end within */
	for (unsigned i = 0; i < 20000; i++) {
		d = good;
		d.text_bytes = (uint16_t)random_below(&random, DECIDED_TEXT_BYTES + 2);
		for (unsigned at = 0; at < sizeof(d.texts); at++)
			d.texts[at] = (char)random_below(&random, i % 2 ? 4 : 256);
		if (decided_is_sound(&d))
			for (unsigned which = 1; which < DECIDED_TEXTS; which++)
				assert_true(strlen(decided_text(&d, which)) < sizeof(d.texts));
	}
}

/* --- rings --------------------------------------------------------------------------- */

static uint64_t note(enum decided_kind kind, const char *name) {
	struct decided d = sample(kind, decisions_claim(site.segment, decided_ring_of(kind)),
	    name);

	decisions_write(site.segment, &d);
	return d.id;
}

/* Ids begin with the second in which the segment was made, 20 bits to the left, and somewhere
 * in the first half of it; the lowest tells the ring. */
TEST_IN(set_up, site_end, ids_begin_with_the_time) {
	uint64_t second = (uint64_t)site.segment->header->created_wall_s << 20;
	uint64_t begin = 2 * atomic_load(&site.segment->header->decided_next[0].number);

	assert_in_range(begin, second, second + (1 << 19) - 1);
	assert_true(note(DECIDED_REFUSED, "a") == begin + 2);
	assert_true(note(DECIDED_REFUSED, "b") == begin + 4);
	assert_true(note(DECIDED_SUSPENDED, "c") == begin + 3);
	assert_true(note(DECIDED_BACK, "c") == begin + 5);
	decisions_begin_after(site.segment, begin + 1000);
	assert_true(note(DECIDED_REFUSED, "d") == begin + 1004);
	assert_true(note(DECIDED_BACK, "d") == begin + 1005);
	decisions_begin_after(site.segment, begin);
	assert_true(note(DECIDED_REFUSED, "e") == begin + 1006);
}

TEST_IN(set_up, site_end, one_is_found_until_it_is_overwritten) {
	struct decided found;
	uint64_t id = note(DECIDED_REFUSED, "first.example"), other;

	assert_int_equal(decisions_size(site.segment, DECIDED_OF_SESSIONS), SLOTS);
	assert_true(decisions_find(site.segment, id, &found));
	assert_string_equal(decided_text(&found, DECIDED_NAME), "first.example");
	assert_int_equal(found.at_ns, 1000);
	assert_false(decisions_find(site.segment, id + 2, &found));
	assert_false(decisions_find(site.segment, id + 1, &found));
	assert_false(decisions_find(site.segment, 0, &found));
	/* a storm of refusals leaves what is said of destinations alone */
	other = note(DECIDED_SUSPENDED, "d.example");
	for (unsigned i = 1; i < SLOTS; i++)
		(void)note(DECIDED_REFUSED, "x");
	assert_true(decisions_find(site.segment, id, &found));
	for (unsigned i = 0; i < 3 * SLOTS; i++)
		(void)note(DECIDED_REFUSED, "x");
	assert_false(decisions_find(site.segment, id, &found));
	assert_true(decisions_find(site.segment, other, &found));
}

static unsigned follow(struct decisions_cursor *cursor, int64_t now_ns, uint64_t *lost) {
	struct decided found;
	unsigned count = 0;

	while (decisions_next(site.segment, DECIDED_OF_SESSIONS, cursor, now_ns, &found, NULL,
	    lost))
		count++;
	return count;
}

TEST_IN(set_up, site_end, a_follower_gets_all_and_waits_for_what_is_being_written) {
	struct decisions_cursor cursor = { .begun = false };
	struct decided d;
	uint64_t lost = 0, claimed;

	(void)note(DECIDED_REFUSED, "a");
	(void)note(DECIDED_OBSERVED, "b");
	assert_int_equal(follow(&cursor, 0, &lost), 2);
	claimed = decisions_claim(site.segment, DECIDED_OF_SESSIONS);
	(void)note(DECIDED_REFUSED, "d");
	assert_int_equal(follow(&cursor, NS_PER_SECOND, &lost), 0);
	assert_int_equal(follow(&cursor, NS_PER_SECOND + 900 * NS_PER_MS, &lost), 0);
	d = sample(DECIDED_REFUSED, claimed, "c");
	decisions_write(site.segment, &d);
	assert_int_equal(follow(&cursor, 2 * NS_PER_SECOND, &lost), 2);
	/* its writer died: it stands for no decision, and none is lost */
	(void)decisions_claim(site.segment, DECIDED_OF_SESSIONS);
	(void)note(DECIDED_REFUSED, "e");
	assert_int_equal(follow(&cursor, 3 * NS_PER_SECOND, &lost), 0);
	assert_int_equal(lost, 0);
	assert_int_equal(follow(&cursor, 4 * NS_PER_SECOND, &lost), 1);
	assert_int_equal(lost, 0);
	/* overrun: the last ones are there */
	for (unsigned i = 0; i < SLOTS + 10; i++)
		(void)note(DECIDED_REFUSED, "f");
	assert_int_equal(follow(&cursor, 5 * NS_PER_SECOND, &lost), SLOTS);
	assert_int_equal(lost, 10);
}

TEST_IN(set_up, site_end, what_is_logged_is_marked) {
	struct decisions_cursor cursor = { .begun = false };
	struct decided found;
	uint64_t first = note(DECIDED_REFUSED, "a"), lost = 0;
	bool logged;

	(void)note(DECIDED_REFUSED, "b");
	decisions_mark_logged(site.segment, first);
	assert_true(decisions_next(site.segment, DECIDED_OF_SESSIONS, &cursor, 0, &found,
	    &logged, &lost));
	assert_true(logged);
	assert_true(decisions_next(site.segment, DECIDED_OF_SESSIONS, &cursor, 0, &found,
	    &logged, &lost));
	assert_false(logged);
}

/* Half of one and half of another has no right check sum. */
TEST_IN(set_up, site_end, two_writers_of_one_place_make_none) {
	struct decided_slot *slot;
	struct decided found;
	uint64_t id = note(DECIDED_REFUSED, "first.example");

	slot = (struct decided_slot *)(void *)((char *)site.segment->header +
	    site.segment->header->decided_offset[DECIDED_OF_SESSIONS]) +
	    (id / DECIDED_RINGS & (SLOTS - 1));
	assert_true(decisions_find(site.segment, id, &found));
	for (unsigned i = 1; i < 15; i++) {
		uint64_t was = slot->words[i];

		slot->words[i] ^= 1u << i;
		assert_false(decisions_find(site.segment, id, &found));
		slot->words[i] = was;
	}
	assert_true(decisions_find(site.segment, id, &found));
}

TEST_IN(set_up, site_end, a_reader_finds_and_follows_them) {
	struct decisions_cursor cursor = { .begun = false };
	struct segment *reader;
	struct decided found;
	struct diag diag;
	uint64_t id = note(DECIDED_SUSPENDED, "d.example"), lost = 0;

	assert_int_equal(reader_open(&reader, segment_path(site.segment), &diag), 0);
	assert_true(decisions_find(reader, id, &found));
	assert_string_equal(decided_text(&found, DECIDED_NAME), "d.example");
	assert_true(decisions_next(reader, DECIDED_OF_DESTINATIONS, &cursor, 0, &found,
	    NULL, &lost));
	assert_true(found.id == id);
	assert_false(decisions_next(reader, DECIDED_OF_DESTINATIONS, &cursor, 0, &found,
	    NULL, &lost));
	segment_unmap(&reader);
}

struct moving {
	struct decisions_cursor cursor;
	unsigned count;
	uint64_t end;
};

static void move_the_end(void *context, const struct decided *decided) {
	struct moving *moving = context;

	assert_in_range(++moving->count, 1, 100 * SLOTS);
	site.segment->header->decided_next[DECIDED_OF_SESSIONS].number = moving->end -
	    (moving->cursor.next == moving->end);
}

/* All records of the ring are valid; its end goes back behind whoever has come to it, and forth. */
TEST_IN(set_up, site_end, an_end_that_goes_back_and_forth_keeps_nobody) {
	struct moving moving = { .count = 0 };
	struct segment *reader;
	struct diag diag;
	uint64_t lost = 0;

	for (unsigned i = 0; i < SLOTS; i++)
		(void)note(DECIDED_REFUSED, "d.example");
	moving.end = site.segment->header->decided_next[DECIDED_OF_SESSIONS].number;
	assert_int_equal(reader_open(&reader, segment_path(site.segment), &diag), 0);
	reader_decisions_follow(reader, DECIDED_OF_SESSIONS, &moving.cursor, 0, move_the_end,
	    &moving, &lost);
	assert_int_equal(moving.count, 2 * SLOTS);
	segment_unmap(&reader);
}

static void count_one(void *context, const struct decided *decided) {
	++*(unsigned *)context;
}

/* Whoever died before it had written one: what came later is listed all the same, and the
 * follower that begins now does not wait for it. */
TEST_IN(set_up, site_end, who_died_hides_nothing_that_came_later) {
	struct decisions_cursor cursor = { .begun = false };
	struct segment *reader;
	struct diag diag;
	unsigned listed = 0;
	uint64_t lost = 0;

	for (unsigned i = 0; i < 3; i++) {
		(void)note(DECIDED_REFUSED, "a");
		(void)decisions_claim(site.segment, DECIDED_OF_SESSIONS);
	}
	(void)note(DECIDED_REFUSED, "b");
	assert_int_equal(reader_open(&reader, segment_path(site.segment), &diag), 0);
	reader_decisions(reader, DECIDED_OF_SESSIONS, count_one, &listed);
	assert_int_equal(listed, 4);
	segment_unmap(&reader);
	assert_int_equal(follow(&cursor, NS_PER_SECOND, &lost), 4);
	assert_int_equal(lost, 0);
}

/* They are there after a restart of the daemon, and ids go on. */
TEST_IN(set_up, site_end, they_outlive_a_restart) {
	struct decided found;
	uint64_t id = note(DECIDED_SUSPENDED, "d.example");

	site_restart(&site, 64, ALL);
	assert_true(decisions_find(site.segment, id, &found));
	assert_true(note(DECIDED_BACK, "d.example") == id + 2);
	/* other sizes: another file, and no id twice */
	site_restart(&site, 128, ALL);
	assert_true(note(DECIDED_BACK, "d.example") > id + 2);
}

#define LIMIT_NS	(60 * NS_PER_SECOND)	/* on a machine that is busy with other things */

static uint64_t claimed(void) {
	return atomic_load(&site.segment->header->decided_next[DECIDED_OF_SESSIONS].number);
}

static void wait_until_claimed(uint64_t number) {
	int64_t limit_ns = clock_now_ns() + LIMIT_NS;

	while (claimed() < number && clock_now_ns() < limit_ns)
		sched_yield();
	assert_true(claimed() >= number);
}

/* Killed anywhere: what is found is whole, and others go on. */
TEST_IN(set_up, site_end, a_writer_may_be_killed_at_any_time) {
	struct decisions_cursor cursor = { .begun = false };
	struct random random = random_seeded("decisions");
	struct decided found;
	uint64_t lost = 0;
	unsigned whole = 0;

	for (unsigned round = 0; round < 50; round++) {
		uint64_t before = claimed();
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0) {
			for (unsigned i = 0;; i++)
				(void)note(DECIDED_REFUSED, i % 2 ?
				    "some-longer-name-of-a-client.example" : "x.example");
		}
		wait_until_claimed(before + 2);	/* one is whole */
		usleep((useconds_t)random_below(&random, 1500));	/* LINT-SLEEP: a moment of chance */
		kill(child, SIGKILL);
		(void)waitpid(child, NULL, 0);
		while (decisions_next(site.segment, DECIDED_OF_SESSIONS, &cursor,
		    (int64_t)round * 2 * NS_PER_SECOND, &found, NULL, &lost)) {
			const char *name = decided_text(&found, DECIDED_NAME);

			assert_true(strcmp(name, "x.example") == 0 ||
			    strcmp(name, "some-longer-name-of-a-client.example") == 0);
			whole++;
		}
		(void)note(DECIDED_REFUSED, "x.example");
	}
	assert_true(whole > 50);
}

/* Threads that write and read as fast as they can: what is found is what was written under
 * that id, and nothing else. */
#define WRITERS		4
#define WRITTEN		20000

static uint32_t number_of(uint64_t id) {
	return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

static _Atomic size_t found_by[2];
static _Atomic bool readers_end;

/* Readers may get no processor as long as writers have them all. */
static bool readers_wait(int64_t limit_ns) {
	return (atomic_load(&found_by[0]) == 0 || atomic_load(&found_by[1]) == 0) &&
	    clock_now_ns() < limit_ns;
}

static void *write_many(void *argument) {
	int64_t limit_ns = clock_now_ns() + LIMIT_NS;
	static const char name[] = "a-name-of-some-length.of-a-host.example";
	struct random random = { (uint64_t)(uintptr_t)argument };

	for (unsigned i = 0; i < WRITTEN || readers_wait(limit_ns); i++) {
		struct decided d = sample(DECIDED_REFUSED,
		    decisions_claim(site.segment, DECIDED_OF_SESSIONS), "");

		d.count = number_of(d.id);
		d.limit = ~d.count;
		decided_put(&d, DECIDED_NAME, name, 1 + d.count % (sizeof(name) - 1));
		decided_put(&d, DECIDED_REASON, name, d.count / 64 % sizeof(name));
		/* some die before they have written it */
		if (random_below(&random, 50) > 0)
			decisions_write(site.segment, &d);
	}
	return NULL;
}

static void is_whole(const struct decided *d) {
	size_t length = strlen(decided_text(d, DECIDED_NAME));

	assert_true(d->count == number_of(d->id) && d->limit == ~d->count);
	assert_true(length == 1 + d->count % 39);
	assert_true(strlen(decided_text(d, DECIDED_REASON)) == d->count / 64 % 40);
}

static void *read_many(void *argument) {
	struct decisions_cursor cursor = { .begun = false };
	uint64_t lost = 0, last = 0;
	struct decided d, again;
	_Atomic size_t *found = argument;
	int64_t time_ns = 0;

	while (!atomic_load(&readers_end)) {
		time_ns += NS_PER_SECOND;
		while (decisions_next(site.segment, DECIDED_OF_SESSIONS, &cursor, time_ns, &d,
		    NULL, &lost)) {
			is_whole(&d);
			assert_true(d.id > last);
			last = d.id;
			atomic_fetch_add(found, 1);
			if (decisions_find(site.segment, d.id, &again))
				is_whole(&again);
		}
	}
	return NULL;
}

TEST_IN(set_up, site_end, many_write_and_read_at_once) {
	pthread_t writers[WRITERS], readers[2];

	atomic_store(&readers_end, false);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, read_many, &found_by[i]),
		    0);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, write_many,
		    (void *)(uintptr_t)(i + 1)), 0);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(writers[i], NULL);
	atomic_store(&readers_end, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	for (unsigned i = 0; i < 2; i++)
		assert_true(atomic_load(&found_by[i]) > 0);
}

/* One that is written just as it is looked for is not taken for lost. */
#define FOLLOWED	100000
static _Atomic uint64_t seen;

static void *write_in_step(void *argument) {
	for (uint64_t i = 0; i < FOLLOWED; i++) {
		while (i - atomic_load(&seen) > SLOTS / 2)
			sched_yield();
		(void)note(DECIDED_REFUSED, "a");
	}
	return NULL;
}

TEST_IN(set_up, site_end, what_is_written_while_it_is_looked_for_is_not_lost) {
	struct decisions_cursor cursor = { .begun = false };
	struct decided d;
	pthread_t writer;
	uint64_t lost = 0, got = 0;

	atomic_store(&seen, 0);
	assert_int_equal(follow(&cursor, NS_PER_SECOND, &lost), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_in_step, NULL), 0);
	while (got + lost < FOLLOWED) {
		got += decisions_next(site.segment, DECIDED_OF_SESSIONS, &cursor, NS_PER_SECOND,
		    &d, NULL, &lost);
		atomic_store(&seen, got + lost);
	}
	pthread_join(writer, NULL);
	assert_int_equal(lost, 0);
}
