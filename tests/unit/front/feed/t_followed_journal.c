/* SPDX-License-Identifier: ISC */
/* systemd's journal, followed: what is read, once, and what is counted.  The real one is in
 * tests/mta/test_feed_journal.py. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "tests/unit/front/serve/fake_sd_journal.h"
#include "tests/unit/front/feed/feed_records.h"
#include "front/feed/followed_journal.h"

#define S		UINT64_C(1000000)
#define NOW		(1000 * S)
#define MAIL(text)	"SYSLOG_FACILITY=2|SYSLOG_IDENTIFIER=postfix/smtp|SYSLOG_PID=1|_UID=106|" \
	"_SYSTEMD_UNIT=postfix.service|MESSAGE=" text
#define OTHER		"SYSLOG_FACILITY=3|MESSAGE=other"
#define DROPPED(unit)	"MESSAGE_ID=a596d6fe7bfa4994828e72309e95d61e|_TRANSPORT=driver|" \
	"SYSLOG_IDENTIFIER=systemd-journald|N_DROPPED=12|MESSAGE=Suppressed 12 messages from " unit

static struct world {
	struct followed_journal journal;
	struct feed_records records;
	struct feed_keeper keeper;
	char read[256];		/* messages, each with a blank behind it */
	uint32_t uid;		/* of the last one */
	uint64_t wall_us;
	int64_t now_ns;
	unsigned die_after;	/* lines; 0: never */
} world;

static bool on_line(void *context, const struct followed_journal *journal,
    const struct followed_journal_line *line) {
	const char *message = memmem(line->text, line->length, "]: ", 3);

	(void)context, (void)journal;
	assert_non_null(message);
	message += 3;
	snprintf(world.read + strlen(world.read), sizeof(world.read) - strlen(world.read), "%.*s ",
	    (int)(line->text + line->length - message), message);
	world.uid = line->uid;
	if (world.die_after > 0 && --world.die_after == 0)
		world.records.dead = true;
	return true;
}

static void open_it(bool from_begin) {
	struct feed_position known[FEED_FILES_MAX];
	uint32_t numbers[FEED_FILES_MAX];
	struct followed_journal_start start = { .known = known, .records = numbers,
		.from_begin = from_begin, .wall_us = (int64_t)world.wall_us };

	world.records.dead = false;
	start.known_count = feed_records_list(&world.records, feed_log_id("journal:"), known,
	    numbers);
	followed_journal_open(&world.journal, "journal:", &start, &fake_sd_calls, &world.keeper,
	    world.now_ns);
}

/* Reads all there is: what was read? */
static const char *all_read(void) {
	static char buffer[70000], read[256];
	const struct followed_journal_reader reader = { .buffer = buffer,
		.buffer_size = sizeof(buffer), .each = on_line };

	while (followed_journal_read(&world.journal, &reader, 2, (int64_t)world.wall_us))
		;
	snprintf(read, sizeof(read), "%s", world.read);
	world.read[0] = '\0';
	return read;
}

static void open_again(void) {
	followed_journal_close(&world.journal);
	open_it(false);
}

static int set_up(void **state) {
	memset(&world, 0, sizeof(world));
	fake_reset();
	feed_records_begin(&world.records, &world.keeper);
	world.wall_us = NOW;
	fake_add(1, 1, NOW - 9 * S, MAIL("a"));
	fake_add(1, 2, NOW - 8 * S, OTHER);
	fake_add(1, 3, NOW - 7 * S, MAIL("b"));
	return 0;
}

static int tear_down(void **state) {
	followed_journal_close(&world.journal);
	assert_int_equal(fake_journals.open, 0);
	return 0;
}

TEST_IN(set_up, tear_down, a_new_log_is_read_from_its_end_or_begin) {
	open_it(false);
	assert_string_equal(all_read(), "");
	fake_add(1, 4, NOW + 1, MAIL("c"));
	assert_string_equal(all_read(), "c ");
	assert_int_equal(world.uid, 106);
	followed_journal_close(&world.journal);
	feed_records_begin(&world.records, &world.keeper);
	open_it(true);
	assert_string_equal(all_read(), "a b c ");
}

TEST_IN(set_up, tear_down, it_is_gone_on_with_behind_the_last_line) {
	open_it(true);
	assert_string_equal(all_read(), "a b ");
	open_again();
	assert_string_equal(all_read(), "");
	fake_add(1, 4, NOW - 7 * S, MAIL("of the same time"));
	open_again();
	assert_string_equal(all_read(), "of the same time ");
}

/* It was counted, and nobody noted that: it is read once more, from the same place. */
TEST_IN(set_up, tear_down, a_line_whose_reader_died_is_read_again) {
	uint64_t origin;

	open_it(true);
	world.die_after = 2;
	assert_string_equal(all_read(), "a b ");
	origin = world.journal.origin;
	open_again();
	assert_string_equal(all_read(), "b ");
	assert_true(world.journal.origin == origin);
	assert_int_equal(world.journal.position.spot.offset, 3);
}

/* journald moved what was read to another file, under other numbers. */
TEST_IN(set_up, tear_down, what_was_moved_to_disk_is_not_read_again) {
	open_it(true);
	assert_string_equal(all_read(), "a b ");
	fake_vacuum(3);
	fake_add(2, 101, NOW - 9 * S, MAIL("a"));
	fake_add(2, 102, NOW - 7 * S, MAIL("b"));
	fake_add(2, 103, NOW + 1, MAIL("c"));
	open_again();
	assert_string_equal(all_read(), "c ");
	open_again();
	assert_string_equal(all_read(), "");
	assert_int_equal(world.journal.position.spot.offset, 103);
	assert_int_equal(world.journal.position.inode, 2);
	assert_int_equal(world.journal.counts.lost, 0);
}

/* Nothing was read for long; the journal began again meanwhile. */
TEST_IN(set_up, tear_down, a_journal_that_began_again_is_read_from_its_begin) {
	open_it(true);
	assert_string_equal(all_read(), "a b ");
	world.wall_us += 100 * S;
	assert_string_equal(all_read(), "");
	fake_vacuum(3);
	fake_add(5, 1, NOW + 99 * S, MAIL("c"));
	fake_add(5, 2, NOW + 101 * S, MAIL("d"));
	open_again();
	assert_string_equal(all_read(), "c d ");
}

TEST_IN(set_up, tear_down, entries_that_were_deleted_unread_are_told) {
	open_it(true);
	assert_string_equal(all_read(), "a b ");
	fake_add(1, 4, NOW + S, MAIL("c"));
	fake_add(1, 5, NOW + 2 * S, MAIL("d"));
	fake_vacuum(4);
	open_again();
	assert_string_equal(all_read(), "d ");
	assert_int_equal(world.journal.counts.lost, 1);
}

/* Those of others were, and all that was of interest had been read. */
TEST_IN(set_up, tear_down, entries_that_were_deleted_long_after_are_not) {
	open_it(true);
	assert_string_equal(all_read(), "a b ");
	fake_add(1, 4, NOW + S, OTHER);
	fake_add(1, 5, NOW + 2 * S, OTHER);
	world.wall_us += 100 * S;
	assert_string_equal(all_read(), "");
	fake_vacuum(4);
	open_again();
	assert_string_equal(all_read(), "");
	assert_int_equal(world.journal.counts.lost, 0);
}

TEST_IN(set_up, tear_down, a_clock_that_was_set_back_hides_nothing) {
	open_it(true);
	assert_string_equal(all_read(), "a b ");
	fake_add(1, 4, NOW + 5000 * S, MAIL("future"));
	assert_string_equal(all_read(), "future ");
	fake_add(1, 5, NOW + S, MAIL("c"));
	world.wall_us = NOW + 10 * S;
	assert_string_equal(all_read(), "c ");
	open_again();
	fake_add(9, 1, NOW + 11 * S, MAIL("d"));
	assert_string_equal(all_read(), "d ");
}

TEST_IN(set_up, tear_down, what_journald_dropped_is_counted) {
	open_it(true);
	assert_string_equal(all_read(), "a b ");
	fake_add(1, 4, NOW + 1, DROPPED("postfix.service"));
	fake_add(1, 5, NOW + 2, DROPPED("other.service"));
	assert_string_equal(all_read(), "");
	assert_int_equal(world.journal.counts.suppressed, 12);
	assert_string_equal(world.journal.suppressed_unit, "postfix.service");
}

/* Whose it is shows in the line behind it. */
TEST_IN(set_up, tear_down, what_journald_dropped_before_the_first_line_is_counted) {
	open_it(false);
	fake_add(1, 4, NOW + 1, DROPPED("postfix.service"));
	assert_string_equal(all_read(), "");
	assert_int_equal(world.journal.counts.suppressed, 0);
	fake_add(1, 5, NOW + 2, MAIL("c"));
	assert_string_equal(all_read(), "c ");
	assert_int_equal(world.journal.counts.suppressed, 12);
}

/* A user can write all but the transport. */
TEST_IN(set_up, tear_down, dropped_messages_cannot_be_forged) {
	open_it(true);
	fake_add(1, 4, NOW + 1, "SYSLOG_FACILITY=2|MESSAGE_ID=a596d6fe7bfa4994828e72309e95d61e|"
	    "_TRANSPORT=journal|_UID=1000|SYSLOG_PID=2|SYSLOG_IDENTIFIER=systemd-journald|"
	    "N_DROPPED=12|MESSAGE=Suppressed 12 messages from postfix.service");
	assert_string_equal(all_read(), "a b Suppressed 12 messages from postfix.service ");
	assert_int_equal(world.journal.counts.suppressed, 0);
	assert_int_equal(world.uid, 1000);
}

TEST_IN(set_up, tear_down, one_that_cannot_be_read_is_opened_again) {
	open_it(true);
	assert_string_equal(all_read(), "a b ");
	fake_add(1, 4, NOW + 1, MAIL("c"));
	fake_journals.next_fails = EBADMSG;
	assert_string_equal(all_read(), "");
	assert_int_equal(world.journal.error, EBADMSG);
	assert_false(followed_journal_look(&world.journal, world.now_ns + NS_PER_SECOND));
	assert_true(followed_journal_look(&world.journal, world.now_ns + 6 * NS_PER_SECOND));
	assert_int_equal(world.journal.error, 0);
	assert_string_equal(all_read(), "c ");
}

TEST_IN(set_up, tear_down, one_that_is_not_there_yet_is_read_from_its_begin) {
	fake_journals.without_files = true;
	open_it(false);
	assert_int_not_equal(world.journal.error, 0);
	assert_string_equal(all_read(), "");
	fake_vacuum(3);
	fake_journals.without_files = false;
	fake_add(1, 1, NOW + 1, MAIL("a"));
	assert_true(followed_journal_look(&world.journal, world.now_ns + 6 * NS_PER_SECOND));
	assert_int_equal(world.journal.error, 0);
	assert_string_equal(all_read(), "a ");
}
