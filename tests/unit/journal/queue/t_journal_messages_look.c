/* SPDX-License-Identifier: ISC */
/* What the owner of a queue's log may look at, what comes back of what it told, and faults. */
#include "tests/unit/test.h"
#include "tests/unit/journal/queue/messages_world.h"
#include "journal/queue/messages_internal.h"

#include <dirent.h>
#include <fcntl.h>

/* --- looks --------------------------------------------------------------------------------- */

static char seen[256];

/* All that a walk shows; the rest of the world has its turns in between. */
static void walk_on(struct messages_walk *walk) {
	struct messages_envelope e;
	enum messages_answer answer;

	seen[0] = '\0';
	while ((answer = messages_walk_next(world.m, walk, &e)) != MESSAGES_NONE) {
		if (answer == MESSAGES_ONE)
			snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s ", e.id);
		world_turn();
	}
}

TEST_IN(world_begin, world_end, test_what_a_walk_shows_can_be_taken_behind_it) {
	struct messages_walk *walk;
	struct messages_envelope e;

	put("q1", "a.example", SUSPENDED, !HELD);
	put("q2", "a.example", 300, !HELD);
	put("q3", "a.example", 0, HELD);
	put("q4", "a.example", 0, !HELD);
	walk = messages_walk_open(world.m);
	walk_on(walk);
	messages_walk_close(&walk);
	assert_string_equal(seen, "q1 q2 q4 ");
	assert_true(messages_take(world.m, messages_key("m", "/q", "q2"), &e));
	assert_int_equal(totals().held, 2);
	world_pass(300);
	assert_string_equal(all_next(), "q4 a.example*1");
}

/* And takes nothing; what is put meanwhile comes, too. */
TEST_IN(world_begin, world_end, test_a_walk_shows_what_waits) {
	struct messages_walk *walk;

	put("q1", "a.example", SUSPENDED, !HELD);
	put("q2", "a.example", 300, !HELD);
	put("q3", "a.example", 0, HELD);
	walk = messages_walk_open(world.m);
	assert_non_null(walk);
	put("q4", "a.example", 0, !HELD);
	walk_on(walk);
	messages_walk_close(&walk);
	assert_null(walk);
	assert_string_equal(seen, "q1 q2 q4 ");
	assert_int_equal(totals().held, 1);
}

TEST_IN(world_begin, world_end, test_one_that_waits_can_be_taken) {
	struct messages_envelope e;

	put("q1", "a.example*3", 300, !HELD);
	put("q2", "a.example", 0, HELD);
	assert_false(messages_take(world.m, messages_key("m", "/q", "q0"), &e));
	assert_false(messages_take(world.m, messages_key("m", "/q", "q2"), &e));
	assert_true(messages_take(world.m, messages_key("m", "/q", "q1"), &e));
	assert_string_equal(e.id, "q1");
	assert_int_equal(e.groups[0].recipients, 3);
	assert_int_equal(e.due_ns, WORLD_EPOCH + 300 * S);
	assert_false(messages_take(world.m, messages_key("m", "/q", "q1"), &e));
	world_pass(400);
	assert_string_equal(next(), "");
	put("q1", "a.example", 0, !HELD);
	world_turn();
	assert_string_equal(next(), "q1 a.example*1");
}

static void unseen(void *context, const char *mta, const char *directory, const char *id) {
	assert_string_equal(mta, "m");
	assert_string_equal(directory, "/q");
	snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s ", id);
}

TEST_IN(world_begin, world_end, test_what_is_in_no_directory_is_told) {
	put("q1", "a.example", 0, !HELD);
	put("q2", "a.example", 0, !HELD);
	put("q3", "a.example", 0, HELD);
	put("q4", "a.example", 0, HELD);
	world_turn();
	start("q4");
	messages_seen_begin(world.m);
	assert_true(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
	assert_false(messages_knows(world.m, messages_key("m", "/q", "q2"), 2));	/* it has changed */
	assert_false(messages_knows(world.m, messages_key("m", "/other", "q1"), 1));
	put("q5", "a.example", 0, !HELD);
	seen[0] = '\0';
	messages_seen_end(world.m, unseen, NULL);
	world_turn();
	assert_false(world.m->telling);
	/* what is held, too: not what is working, of which its run tells */
	assert_string_equal(seen, "q3 q2 ");
	messages_seen_begin(world.m);
	messages_seen(world.m, messages_key("m", "/q", "q2"));
	messages_seen(world.m, messages_key("m", "/q", "q3"));
	messages_seen(world.m, messages_key("m", "/q", "q1"));
	seen[0] = '\0';
	messages_seen_end(world.m, unseen, NULL);
	world_turn();
	assert_string_equal(seen, "q5 ");
}

/* --- limits ---------------------------------------------------------------------------------- */

TEST_IN(world_begin, world_end, test_what_is_too_large_is_to_be_read_from_its_file) {
	static struct messages_group groups[MESSAGES_GROUPS_MAX];
	static char domain[MESSAGES_DOMAIN_MAX];
	struct messages_envelope e = { .mta = "m", .directory = "/q", .id = "q1",
		.recipients = 5000, .groups = groups, .group_count = MESSAGES_GROUPS_MAX };
	int64_t next_ns;

	memset(domain, 'a', sizeof(domain));
	for (unsigned i = 0; i < MESSAGES_GROUPS_MAX; i++)
		groups[i] = (struct messages_group){ domain, sizeof(domain), 1, 0 };
	assert_int_not_equal(messages_put(world.m, &e, !HELD, world.wall_ns), 0);
	e.id = "q2";
	for (unsigned i = 0; i < MESSAGES_GROUPS_MAX; i++)
		groups[i].length = 20;
	assert_int_not_equal(messages_put(world.m, &e, !HELD, world.wall_ns), 0);
	world_turn();
	assert_int_equal(messages_next(world.m, world.wall_ns, &e, &next_ns), MESSAGES_ONE);
	assert_string_equal(e.id, "q1");
	assert_int_equal(e.group_count, 0);
	assert_int_equal(e.rest, 0);
	assert_int_equal(e.recipients, 5000);
	assert_int_equal(messages_next(world.m, world.wall_ns, &e, &next_ns), MESSAGES_ONE);
	assert_int_equal(e.group_count, MESSAGES_GROUPS_MAX);
	assert_int_equal(e.groups[MESSAGES_GROUPS_MAX - 1].length, 20);
}

TEST_IN(world_begin, world_end, test_an_envelope_comes_back_as_it_was_told) {
	struct messages_group groups[] = { { "a.example", 9, 3, 0 },
		{ "", 0, 2, WORLD_EPOCH + 7 }, { "b.example", 9, 1, INT64_MAX } };
	struct messages_envelope e = { .mta = "m", .directory = "/q", .id = "q1",
		.stamp = UINT64_MAX, .sender = "a b\n@x", .arrival_ns = 5, .tried_ns = 6,
		.tries = 7, .recipients = 10, .rest = 1234, .groups = groups,
		.group_count = 3 };
	struct messages_envelope out;
	int64_t next_ns;

	messages_put(world.m, &e, !HELD, world.wall_ns);
	world_turn();
	assert_int_equal(messages_next(world.m, world.wall_ns, &out, &next_ns), MESSAGES_ONE);
	assert_string_equal(out.sender, e.sender);
	assert_true(out.stamp == UINT64_MAX && out.arrival_ns == 5 && out.tried_ns == 6);
	assert_true(out.tries == 7 && out.recipients == 10 && out.rest == 1234);
	assert_true(out.written_ns == WORLD_EPOCH && out.due_ns == 0 && out.group_count == 3);
	assert_true(out.groups[1].length == 0 && out.groups[1].due_ns == WORLD_EPOCH + 7);
	assert_true(out.groups[2].due_ns == INT64_MAX && out.groups[2].recipients == 1);
}

TEST_IN(world_begin, world_end, test_intervals_must_rise) {
	struct messages_settings settings = world.settings;
	struct messages_calls calls = { NULL, NULL, NULL, NULL };
	struct messages *m;
	struct diag diag;

	settings.intervals_ns[2] = settings.intervals_ns[1];
	assert_int_equal(messages_open(&m, world.storage, &settings, &calls, 0, 0, &diag), -1);
	settings = world.settings;
	settings.intervals = 1;
	assert_int_equal(messages_open(&m, world.storage, &settings, &calls, 0, 0, &diag), -1);
}

/* --- faults ------------------------------------------------------------------------------------ */

static void remove_files(void) {
	DIR *directory = opendir(world.path);
	struct dirent *entry;

	while ((entry = readdir(directory)) != NULL)
		unlinkat(dirfd(directory), entry->d_name, 0);
	closedir(directory);
}

/* The journal goes on without durability, and its owner puts all anew. */
TEST_IN(world_begin, world_end, test_files_that_were_removed_underneath) {
	put("q1", "a.example", 0, !HELD);
	put("q2", "a.example", 0, HELD);
	world_sync();
	remove_files();
	world_pass(1.0);
	assert_int_equal(world.failed, 1);
	world_pass(2.0);
	assert_int_equal(world.good, 1);
	assert_int_equal(world.renewed, 1);
	assert_false(messages_is_degraded(world.m));
	assert_true(messages_is_recovered(world.m) && messages_is_indexed(world.m));
	assert_int_equal(totals().messages, 0);
	assert_false(messages_knows(world.m, messages_key("m", "/q", "q1"), 1));
	put("q2", "a.example", 0, !HELD);
	world_sync();
	assert_string_equal(records(), "E:q2");
	assert_string_equal(next(), "q2 a.example*1");
	world_kill();
	world_open();
	world_turn();
	assert_string_equal(all_next(), "q2 a.example*1");
}
