/* SPDX-License-Identifier: ISC */
/* Class records and clients over reloads and floods; files of another time. */
#include "tests/unit/test.h"
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "config/compile/compile.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/unit/own_site.h"

#define CLASS(name) "classes = ( { name = \"" name "\"; match = [ \"*\" ]; " \
	"hold_at = 5; refuse_at = 5; } );"

static struct answer ask(struct engine *engine,
    const struct generation *generation, uint16_t port) {
	struct question question = site_question("192.0.2.1", port, NULL);
	struct answer answer;

	engine_session_open(engine, generation, &question, clock_now_ns(),
	    &answer);
	return answer;
}

#define MANY 40	/* of the site's 64 records */

/* So many classes, NAME0 and so on. */
static const char *many(const char *name) {
	static char text[MANY * 80];
	size_t at = (size_t)snprintf(text, sizeof(text), "classes = ( ");

	for (unsigned i = 0; i < MANY; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
		    "{ name = \"%s%u\"; match = \"h%u.example\"; hold_at = 5; }%s", name, i, i,
		    i + 1 < MANY ? ", " : " );");
	return text;
}

static struct answer ask_of(unsigned host) {
	struct question question;
	struct answer answer;
	char name[32];

	snprintf(name, sizeof(name), "h%u.example", host);
	question = site_question("192.0.2.1", (uint16_t)(1000 + host), name);
	answer = site_ask(&question, clock_now_ns());
	return answer;
}

static int open_all(void **state) {
	site_open(&site, 1000, CLASS("all"));
	return 0;
}

/* There are not enough for the old ones and the new ones at once. */
TEST_IN(NULL, site_end, all_classes_renamed_find_records_though_few_are_free) {
	static const char *const names[] = { "second", "third", "first" };
	struct answer answer;

	site_open(&site, 1000, many("first"));
	for (unsigned i = 0; i < 3; i++) {
		site_reload(&site, many(names[i]));
		assert_true(segment_generation_is_there(site.segment, site.generation->number));
	}
	answer = ask_of(39);
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(open_of("first39"), 1);
	assert_int_equal(atomic_load(&site.segment->counters[COUNTER_FAULTS]), 0);
	engine_session_close(site.engine, &answer.session, clock_now_ns());
}

/* A record is nobody else's while it counts; the configuration before stays in force. */
TEST_IN(NULL, site_end, renamed_classes_are_refused_where_sessions_hold_the_records) {
	struct config_messages messages;
	struct answer answers[30];
	struct generation *wanted;
	struct diag diag;
	uint64_t number;

	site_open(&site, 1000, many("first"));
	for (unsigned i = 0; i < 30; i++)
		answers[i] = ask_of(i);
	number = site.generation->number;
	wanted = config_compile_text(many("second"), "test", &messages);
	assert_non_null(wanted);
	assert_int_equal(segment_publish(site.segment, wanted, &diag), -1);
	assert_non_null(strstr(diag.text, "all 64 class records are in use"));
	assert_int_equal(atomic_load(&segment_header(site.segment)->generation), number);
	for (unsigned i = 0; i < 30; i++)
		engine_session_close(site.engine, &answers[i].session, clock_now_ns());
	assert_int_equal(ask_of(39).decision.verdict, VERDICT_ADMIT);
	assert_int_equal(open_of("first39"), 1);
	config_messages_free(&messages);
	free(wanted);
}

/* A role with its own handle, which stays with the first configuration. */
static struct engine *late;
static const struct generation *before;

static int open_late(void **state) {
	struct diag diag;

	site_open(&site, 1000, CLASS("first"));
	assert_int_equal(engine_open(&late, site.segment, site.place, &diag), 0);
	before = engine_pin(late);
	return 0;
}

static int close_late(void **state) {
	engine_unpin(late, before);
	engine_close(&late);
	return site_end(state);
}

/* A role that works with the configuration before: a removed class stays known
 * while it counts. */
TEST_IN(open_late, close_late, a_late_session_keeps_its_removed_class) {
	struct class_record *record = site_class(&site, "first");
	struct answer answer;

	site_reload(&site, CLASS("second"));
	answer = ask(late, before, 1);
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(atomic_load(&record->open), 1);
	assert_int_equal(atomic_load(&record->in_use), 2);
	site_reload(&site, CLASS("third"));
	assert_string_equal(record->name, "first");
	assert_int_equal(open_of("third"), 0);
	engine_session_close(late, &answer.session, clock_now_ns());
}

TEST_IN(open_late, close_late, a_reused_record_takes_no_session_of_the_class_before) {
	struct class_record *record = site_class(&site, "first");
	struct answer answer;

	site_reload(&site, CLASS("second"));
	site_reload(&site, CLASS("third"));
	assert_string_equal(record->name, "third");
	answer = ask(late, before, 1);
	assert_int_equal(answer.decision.reason, REASON_UNUSABLE);
	assert_int_equal(atomic_load(&record->open), 0);
}

/* Who is refused and stays is remembered, but not in everybody's place. */
TEST_IN(NULL, site_end, refused_sessions_leave_room_for_counted_ones) {
	struct session_ref ref;

	site_open(&site, 100, CLASS("all"));
	for (uint16_t i = 1; i <= 5; i++)
		(void)site_inbound(&site, "192.0.2.1", i, NULL, &ref);
	for (uint16_t i = 1; i <= 2000; i++)
		assert_int_equal(site_verdict("192.0.2.2", i, NULL), VERDICT_REFUSE);
	for (uint16_t i = 1; i <= 100; i++) {
		engine_session_close(site.engine, &ref, clock_now_ns());
		assert_int_equal(site_inbound(&site, "192.0.2.3", i, NULL, &ref),
		    VERDICT_ADMIT);
		assert_int_equal(site_verdict("192.0.2.4", i, NULL), VERDICT_REFUSE);
	}
	assert_true(site_is_consistent(&site));
}

/* A flood of addresses whose rates are remembered must not make room for more
 * sessions of one client than it may have. */
TEST_IN(NULL, site_end, a_full_client_table_still_counts_clients) {
	struct question question;
	struct answer answer;

	site_open(&site, 100, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 90; refuse_at = 90; "
	    "client = { sessions = 1; rate = \"5/1h\"; }; } );");
	question = site_question("10.0.0.0", 1, NULL);
	for (unsigned i = 0; i < 2000; i++) {
		question.client.bytes[14] = (uint8_t)(i >> 8);
		question.client.bytes[15] = (uint8_t)i;
		answer = site_ask(&question, clock_now_ns());
		assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
		if (i % 2 == 0) {
			question.client_port = 2;
			engine_session_open(site.engine, site.generation,
			    &question, clock_now_ns(), &(struct answer){ 0 });
			question.client_port = 1;
			assert_int_equal(atomic_load(&site_class(&site,
			    "all")->open), 1);
		}
		engine_session_close(site.engine, &answer.session,
		    clock_now_ns());
	}
	assert_true(site_is_consistent(&site));
}

TEST_IN(open_all, site_end, two_outages_in_a_row_are_one_gap) {
	struct role_record *role;
	int64_t now_ns = clock_now_ns();

	role = &site.segment->header->roles[site.place];
	engine_heartbeat(site.engine, now_ns);
	assert_true(segment_role_died(site.segment, site.place, getpid()));
	assert_false(segment_role_died(site.segment, site.place, getpid()));
	atomic_store(&role->gap_end_ns, now_ns + 300 * NS_PER_MS);
	atomic_store(&role->heartbeat_ns, now_ns + 300 * NS_PER_MS);
	atomic_store(&role->pid, getpid());
	assert_true(segment_role_died(site.segment, site.place, getpid()));
	assert_int_equal(atomic_load(&role->gap_begin_ns), now_ns);
	/* but not for ever */
	atomic_store(&role->gap_end_ns, now_ns + NS_PER_SECOND);
	atomic_store(&role->heartbeat_ns, now_ns + 9 * NS_PER_SECOND);
	atomic_store(&role->pid, getpid());
	assert_true(segment_role_died(site.segment, site.place, getpid()));
	assert_int_equal(atomic_load(&role->gap_begin_ns),
	    now_ns + 9 * NS_PER_SECOND);
}

/* What follows it in the segment is not taken for a part of it. */
TEST_IN(open_all, site_end, a_name_without_an_end_is_cut) {
	char path[PATH_MAX], word[256], *at;
	char names[2][sizeof(word)] = { "", "" };
	struct class_record *record;
	struct mta_record *mta;
	FILE *file;

	(void)site_verdict("192.0.2.1", 1, NULL);
	record = site_class(&site, "all");
	memset(record->name, 'c', sizeof(record->name));
	atomic_store(&record->share_until_ns, INT64_C(0x6363636363636363));
	mta = &site.segment->header->mtas[0];
	memset(mta, 'm', 2 * sizeof(*mta));
	site_save();
	snprintf(path, sizeof(path), "%s.sessions", segment_path(site.segment));
	file = fopen(path, "r");
	assert_non_null(file);
	while (fscanf(file, "%255s", word) == 1)
		if ((at = strchr("cm", word[0])) != NULL && strspn(word, at) > 2)
			snprintf(names[*at == 'm'], sizeof(word), "%s", word);
	fclose(file);
	assert_int_equal(strlen(names[0]), SEGMENT_NAME_MAX);
	assert_int_equal(strlen(names[1]), SEGMENT_NAME_MAX);
	memset(mta, 0, 2 * sizeof(*mta));
}

TEST_IN(open_all, site_end, a_file_of_another_time_is_replaced) {
	(void)site_verdict("192.0.2.1", 1, NULL);
	site.segment->header->created_ns = INT64_MIN;
	site_restart(&site, 1000, CLASS("all"));
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	site.segment->header->created_ns = clock_now_ns() + 9 * NS_PER_SECOND;
	site_restart(&site, 1000, CLASS("all"));
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
}

TEST_IN(open_all, site_end, a_session_of_a_later_dump_is_taken_over_as_one_of_today) {
	struct session_ref ref;
	struct session session;

	(void)site_inbound(&site, "192.0.2.1", 1, NULL, &ref);
	session_load(site.segment, ref.slot - 1, &session);
	session.dump_sequence = 1u << 30;
	session_store(site.segment, ref.slot - 1, &session);
	site_restart(&site, 1000, CLASS("all"));
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	session_load(site.segment, ref.slot - 1, &session);
	assert_int_equal(session.control.state, SESSION_OPEN);
	assert_int_equal(session.dump_sequence,
	    atomic_load(&site.segment->header->dump_sequence));
}

TEST_IN(open_all, site_end, what_was_learned_of_listeners_outlives_another_size) {
	struct listener_record *record;

	record = segment_listener(site.segment, 3, 2525);
	atomic_store(&record->seen, 7);
	atomic_store(&record->unseen, 8);
	atomic_store(&record->absent, 9);
	site_restart(&site, 3000, CLASS("all"));
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	record = segment_listener(site.segment, 3, 2525);
	assert_int_equal(atomic_load(&record->seen), 7);
	assert_int_equal(atomic_load(&record->unseen), 8);
	assert_int_equal(atomic_load(&record->absent), 9);
}

/* What lies in slots that were never used is not believed. */
TEST_IN(open_all, site_end, slots_above_the_water_are_empty_when_taken) {
	struct session junk = { .control = { .state = SESSION_OPEN,
	    .class_record = 0, .client_bits = 255 } };
	const struct segment_header *header;
	struct session_lock lock;
	struct session_key key = { .client_port = 1 };
	uint32_t slot;

	header = site.segment->header;
	for (uint32_t i = 0; i < header->shard_count * header->slots_per_shard; i++)
		session_store(site.segment, i, &junk);
	site_restart(&site, 1000, CLASS("all"));
	sessions_aim(site.segment, &key, 0, &lock);
	assert_true(sessions_lock(&lock));
	slot = sessions_take(&lock);
	assert_int_equal(session_load_control(site.segment, slot).state,
	    SESSION_FREE);
	sessions_put_back(&lock, slot);
	sessions_unlock(&lock);
	assert_true(site_is_consistent(&site));
}

TEST_IN(NULL, site_end, a_file_with_holes_is_filled_before_it_is_used) {
	char path[128];
	struct stat status;
	int fd;

	site_open(&site, 10000, CLASS("all"));
	snprintf(path, sizeof(path), "%s/state", site.directory);
	fd = open(path, O_RDWR);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	    (off_t)site.segment->header->clients.slots_offset + 4096, 65536), 0);
	site_restart(&site, 10000, CLASS("all"));
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_int_equal(stat(path, &status), 0);
	assert_true(status.st_blocks * 512 >= status.st_size);
	close(fd);
}

/* The record that a class was just given looks like one of a class that was removed. */
TEST_IN(NULL, site_end, classes_that_come_together_get_a_record_each) {
	struct class_record *records;
	uint32_t count;

	site_open(&site, 64, CLASS("first"));
	records = site.segment->records;
	count = segment_header(site.segment)->record_count;
	for (uint32_t i = 0; i + 2 < count; i++)
		if (atomic_load(&records[i].in_use) == 0) {
			snprintf(records[i].name, sizeof(records[i].name), "x%u", i);
			atomic_store(&records[i].in_use, 1);
		}
	for (uint32_t i = count - 5; i < count - 2; i++)
		atomic_store(&records[i].in_use, 2);
	site_reload(&site, "classes = ( { name = \"a\"; match = \"192.0.2.1\"; }, "
	    "{ name = \"b\"; match = \"192.0.2.2\"; }, { name = \"c\"; match = \"192.0.2.3\"; }, "
	    "{ name = \"d\"; match = \"*\"; } );");
	for (unsigned i = 0; i < 4; i++) {
		const char name[] = { (char)('a' + i), '\0' };

		assert_string_equal(records[generation_class(site.generation, i)->record].name, name);
	}
}

TEST_IN(open_late, close_late, a_held_generation_gives_way_to_a_newer_one) {
	const struct generation *held = engine_pin_newer(late, NULL);
	uint64_t number = held->number;

	assert_ptr_equal(engine_pin_newer(late, held), held);
	site_reload(&site, CLASS("second"));
	held = engine_pin_newer(late, held);
	assert_int_equal(held->number, number + 1);
	assert_ptr_equal(engine_pin_newer(late, held), held);
	engine_unpin(late, held);
}
