/* SPDX-License-Identifier: ISC */
/* The driven queue in virtual time: what runs when, with whom, and what is left. */
#include "tests/unit/test.h"
#include "engine/queue/queue_internal.h"
#include "tests/unit/engine/queue/queue_steps.h"

TEST_IN(NULL, tear_down, a_message_goes_at_once) {
	unsigned mail;

	begin_queue(4, 2, 10 * MS);
	mail = world_mail("d0.example*2 d1.example -");
	all_is_delivered(S);
	assert_int_equal(world_delivered(mail), 4);
	assert_int_equal(world.runs, 1);
	assert_int_equal(world.waits + world.put_off, 0);
}

/* Nothing is known of a server yet: one run tries it. */
TEST_IN(NULL, tear_down, a_server_that_nobody_knows_is_tried_by_one_run) {
	begin_queue(8, 1, S);
	for (int i = 0; i < 8; i++)
		(void)world_mail("d0.example*5");
	world_run(world.now_ns + 2 * S);
	assert_int_equal(world.processes, 1);
	all_is_delivered(60 * S);
	assert_in_range(world_find_server("d0.example")->most, 2, 5);
}

TEST_IN(NULL, tear_down, small_mail_goes_past_bulk) {
	char text[4096] = "";
	unsigned small[4];
	int64_t begin_ns;

	begin_queue(4, 50, 200 * MS);
	for (int i = 0; i < 50; i++) {
		(void)snprintf(text, sizeof(text), "d%d.example*40", i);
		(void)world_mail(text);
	}
	world_run(world.now_ns + 3 * S);
	assert_int_equal(world.processes, 4);
	begin_ns = world.now_ns;
	for (int i = 0; i < 4; i++) {
		(void)snprintf(text, sizeof(text), "d%d.example", 10 * i + 9);
		small[i] = world_mail(text);
		world_run(world.now_ns + 3 * S);
	}
	world_run(begin_ns + 25 * S);
	/* 100 s of bulk: each waited for the next free process */
	for (int i = 0; i < 4; i++) {
		assert_true(world_is_gone(small[i]));
		assert_in_range(world_delivered_ns(small[i]) - begin_ns, 0,
		    (i * 3 + 9) * S);
	}
	assert_int_equal(world.processes_most, 4);
	all_is_delivered(140 * S);
	assert_true(world.now_ns - begin_ns < 110 * S);
}

TEST_IN(NULL, tear_down, first_come_lets_nothing_past) {
	unsigned small;

	world_open("", 1);
	world.settings.schedule.discipline = DISCIPLINE_FIRST_COME;
	queue_configure(world.queue, &world.settings);
	servers(4, 100 * MS);
	(void)world_mail("d0.example*40");
	(void)world_mail("d1.example*40");
	(void)world_mail("d2.example*40");
	world_run(world.now_ns + S);
	small = world_mail("d3.example");
	world_run(world.now_ns + 10 * S);
	assert_int_equal(world_delivered(small), 0);
	all_is_delivered(60 * S);
}

/* A hanging server holds one process, and not the mail that stands beside it. */
TEST_IN(NULL, tear_down, a_server_that_hangs_stops_one_process_only) {
	char text[64];
	int64_t begin_ns;

	begin_queue(4, 20, 100 * MS);
	world_find_server("d7.example")->mode = SERVER_HANGS;
	begin_ns = world.now_ns;
	for (int i = 0; i < 400; i++) {
		(void)snprintf(text, sizeof(text), "d%d.example d%d.example*2", i % 20,
		    (i + 3) % 20);
		(void)world_mail(text);
	}
	/* 1200 recipients, 60 of them hang: 1140 by 4 processes, 29 s and what runs cost */
	world_run(begin_ns + 60 * S);
	for (int i = 0; i < 20; i++) {
		(void)snprintf(text, sizeof(text), "d%d.example", i);
		if (i != 7)
			assert_int_equal(world_find_server(text)->got, 60);
	}
	assert_int_equal(world_find_server("d7.example")->most, 1);
	assert_int_equal(world_find_server("d7.example")->got, 0);
	world_find_server("d7.example")->mode = SERVER_TAKES;
	all_is_delivered(4000 * S);
}

/* Any role can write when its run got on last. */
TEST_IN(NULL, tear_down, a_run_that_gets_on_in_times_to_come_stalls_all_the_same) {
	struct grant_table *table;

	begin_queue(1, 2, MS);
	world.servers[0].mode = SERVER_HANGS;
	world_mail("d0.example");
	world_run(world.now_ns + S);
	assert_int_equal(world.queue->mtas[0].mailers[QUEUE_REMOTE].running, 1);
	table = (void *)((char *)world.site.segment->header +
	    world.site.segment->header->grants_offset);
	for (unsigned i = 0; i < GRANT_PLACES; i++)
		atomic_store(&table->places[i].progress_ns, INT64_MAX);
	world_run(world.now_ns + 15 * S);
	assert_int_equal(world.queue->mtas[0].mailers[QUEUE_REMOTE].stalled, 1);
	world.servers[0].mode = SERVER_TAKES;
	all_is_delivered(2000 * S);
}

TEST_IN(NULL, tear_down, windows_are_respected) {
	world_open("window = { initial_destination_concurrency = 2; "
	    "destination_concurrency_limit = 2; };\n", 10);
	servers(3, 200 * MS);
	for (int i = 0; i < 120; i++)
		(void)world_mail(i % 2 != 0 ? "d0.example" : "d1.example d2.example");
	all_is_delivered(60 * S);
	for (int i = 0; i < 3; i++) {
		assert_in_range(world.servers[i].most, 1, 2);
		assert_int_equal(world.servers[i].got, 60);
	}
	assert_int_equal(world.put_off, 0);
}

TEST_IN(NULL, tear_down, classes_are_respected) {
	begin_queue(10, 4, 200 * MS);
	site_reload(&world.site, "classes = ( { name = \"few\"; match = [ \"d0.example\", "
	    "\"d1.example\" ]; hold_at = 2; refuse_at = 2; }, { name = \"all\"; match = \"*\"; "
	    "hold_at = 1000; refuse_at = 1000; } );\n"
	    "mta = ( { name = \"s\"; kind = \"sendmail\"; log = \"/a\"; } );\n");
	for (int i = 0; i < 80; i++)
		(void)world_mail(i % 2 != 0 ? "d0.example" : "d1.example");
	all_is_delivered(60 * S);
	assert_true(world.servers[0].most + world.servers[1].most <= 4);
	assert_true(world.put_off <= 4);
}

/* The window says dead: nothing runs; it is back: all is due at once. */
TEST_IN(NULL, tear_down, mail_of_a_dead_server_is_due_when_it_is_back) {
	struct server *s;
	unsigned connections;
	int64_t back_ns;

	begin_queue(4, 2, 10 * MS);
	s = world_find_server("d0.example");
	s->mode = SERVER_REFUSES;
	for (int i = 0; i < 30; i++)
		(void)world_mail("d0.example");
	for (int i = 0; i < 30; i++)
		(void)world_mail("d1.example");
	world_run(world.now_ns + 60 * S);
	assert_int_equal(world_find_server("d1.example")->got, 30);
	assert_int_equal(world_wait(29, NULL), QUEUE_WAITS_SUSPENDED);
	connections = s->connections;
	assert_in_range(connections, 1, 12);
	world_run(world.now_ns + 200 * S);
	assert_int_equal(s->connections, connections);
	s->mode = SERVER_TAKES;
	/* dead for 300 s */
	world_run(world.now_ns + 60 * S);
	back_ns = world.now_ns;
	all_is_delivered(10 * S);
	assert_true(world.now_ns - back_ns < 10 * S);
}

TEST_IN(NULL, tear_down, what_is_held_by_hand_goes_when_it_is_resumed) {
	const struct by_hand hold = { .verb = MANUAL_HOLD, .name = "d0.example",
		.name_length = 10, .reason = "moving" };
	const struct by_hand resume = { .verb = MANUAL_RESUME, .name = "d0.example",
		.name_length = 10, .window = BY_HAND_UNSET };
	struct window_owner owner;

	begin_queue(4, 2, 10 * MS);
	(void)world_mail("d0.example");
	all_is_delivered(S);
	assert_int_equal(windows_by_hand(world.site.engine, world.site.generation, &hold,
	    world.now_ns, &owner), BY_HAND_DONE);
	(void)world_mail("d0.example d1.example");
	world_run(world.now_ns + 3600 * S);
	assert_int_equal(world_find_server("d1.example")->got, 1);
	assert_int_equal(world_find_server("d0.example")->got, 1);
	assert_int_equal(world.put_off, 0);
	assert_int_equal(windows_by_hand(world.site.engine, world.site.generation, &resume,
	    world.now_ns, &owner), BY_HAND_DONE);
	all_is_delivered(2 * S);
}

/* Whenever that happens between two looks. */
TEST_IN(NULL, tear_down, a_resume_is_noticed_at_any_moment) {
	struct by_hand hold = { .verb = MANUAL_HOLD, .name = "d0.example",
		.name_length = 10, .reason = "moving" };
	struct by_hand resume = { .verb = MANUAL_RESUME, .name = "d0.example",
		.name_length = 10, .window = BY_HAND_UNSET };
	struct window_owner owner;

	begin_queue(4, 2, 10 * MS);
	(void)world_mail("d0.example d1.example");
	all_is_delivered(S);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(windows_by_hand(world.site.engine, world.site.generation,
		    &hold, world.now_ns, &owner), BY_HAND_DONE);
		(void)world_mail("d0.example");
		world_run(world.now_ns + (3000 + 77 * i) * MS);
		(void)world_mail("d0.example");
		world_run(world.now_ns + 13 * i * MS);
		assert_int_equal(windows_by_hand(world.site.engine, world.site.generation,
		    &resume, world.now_ns, &owner), BY_HAND_DONE);
		all_is_delivered(2 * S);
	}
}

/* 5 minutes at first, then as long as the message is old, 30 minutes at most. */
TEST_IN(NULL, tear_down, what_failed_is_tried_again_by_its_age) {
	static const int64_t tries_s[] = { 0, 300, 600, 1200, 2400, 4200, 6000 };
	int64_t begin_ns, due_ns;
	struct server *s;

	begin_queue(4, 1, 10 * MS);
	s = world_find_server("d0.example");
	(void)world_mail("d0.example");
	all_is_delivered(S);
	s->mode = SERVER_PUTS_OFF;
	begin_ns = world.now_ns;
	(void)world_mail("d0.example");
	for (size_t i = 0; i < sizeof(tries_s) / sizeof(tries_s[0]); i++) {
		world_run(begin_ns + tries_s[i] * S + 3 * S);
		assert_int_equal(world.runs, 2 + i);
		assert_int_equal(world_wait(1, &due_ns), QUEUE_WAITS_RETRY);
		if (i + 1 < sizeof(tries_s) / sizeof(tries_s[0]))
			assert_in_range(due_ns - begin_ns, tries_s[i + 1] * S,
			    tries_s[i + 1] * S + S);
	}
}

TEST_IN(NULL, tear_down, a_message_that_somebody_else_has_is_tried_again_soon) {
	unsigned mail;

	begin_queue(4, 1, 10 * MS);
	mail = world_mail("d0.example");
	world_lock(mail, world.now_ns + 3 * S);
	world_run(world.now_ns + 100 * MS);
	assert_int_equal(world_wait(mail, NULL), QUEUE_WAITS_LOCKED);
	all_is_delivered(5 * S);
	/* after 0.5, 1, 2 s */
	assert_in_range(world.runs, 3, 4);
}

TEST_IN(NULL, tear_down, many_for_one_server_share_processes) {
	begin_queue(10, 1, 10 * MS);
	(void)world_mail("d0.example");
	all_is_delivered(S);
	for (int i = 0; i < 400; i++)
		(void)world_mail("d0.example");
	all_is_delivered(60 * S);
	assert_true(world_find_server("d0.example")->most >= 3);
	/* several in one run, over one connection */
	assert_in_range(world.runs, 20, 110);
	assert_true(world_find_server("d0.example")->connections <= world.runs);
}

/* Many small messages to many places: a process for each is too much. */
TEST_IN(NULL, tear_down, a_long_queue_takes_few_runs) {
	char text[64];

	begin_queue(10, 64, 2 * MS);
	for (int i = 0; i < 6400; i++) {
		(void)snprintf(text, sizeof(text), "d%d.example", i * 7 % 64);
		(void)world_mail_in((unsigned)i % WORLD_DIRECTORIES, text);
	}
	all_is_delivered(120 * S);
	assert_in_range(world.runs, 100, 900);
	assert_int_equal(world.processes_most, 10);
}

TEST_IN(NULL, tear_down, a_process_table_that_is_full_is_tried_again) {
	begin_queue(4, 1, 10 * MS);
	world.no_process = true;
	for (int i = 0; i < 20; i++)
		(void)world_mail("d0.example");
	world_run(world.now_ns + 60 * S);
	/* 0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5 s */
	assert_int_equal(world.runs, 7);
	assert_int_equal(world_find_server("d0.example")->got, 0);
	world.no_process = false;
	all_is_delivered(40 * S);
}

TEST_IN(NULL, tear_down, a_role_that_is_killed_leaves_nothing_behind) {
	char text[64];

	begin_queue(6, 10, 50 * MS);
	for (int i = 0; i < 200; i++) {
		(void)snprintf(text, sizeof(text), "d%d.example*3 d%d.example -", i % 10,
		    (i + 5) % 10);
		(void)world_mail(text);
	}
	for (int i = 0; i < 5; i++) {
		world_run(world.now_ns + S);
		world_restart_role(true);
	}
	all_is_delivered(100 * S);
}

/* Its role is gone, and nobody says that it goes on: it changed the file, and left some. */
TEST_IN(NULL, tear_down, a_run_that_ends_while_postern_is_away_counts_no_failure) {
	unsigned mail, locked;

	begin_queue(4, 2, 10 * MS);
	world.no_process = true;
	mail = world_mail("d0.example");
	locked = world_mail("d1.example");
	world_run(world.now_ns + 2 * S);
	world_restart_role(true);
	world_run(world.now_ns + S);
	world_touch(mail);
	world_scan();
	world_run(world.now_ns + S);
	assert_int_not_equal(world_wait(mail, NULL), QUEUE_WAITS_RETRY);
	/* it has the other one still, when a run of the new role comes */
	world.no_process = false;
	world_lock(locked, world.now_ns + 3 * S);
	world_run(world.now_ns + 2 * S);
	world_touch(locked);
	world_scan();
	all_is_delivered(20 * S);
}

TEST_IN(NULL, tear_down, what_fails_after_a_restart_waits_for_its_retry_time) {
	unsigned mail;

	begin_queue(4, 1, 10 * MS);
	world_find_server("d0.example")->mode = SERVER_PUTS_OFF;
	world.no_process = true;
	mail = world_mail("d0.example");
	world_run(world.now_ns + 2 * S);
	world_restart_role(true);
	world.no_process = false;
	world.runs = 0;
	world_run(world.now_ns + 10 * S);
	assert_int_equal(world.runs, 1);
	assert_int_equal(world_wait(mail, NULL), QUEUE_WAITS_RETRY);
}

/* It delivers, and cannot write its file: the old role's runs are no excuse for long. */
TEST_IN(NULL, tear_down, what_cannot_be_written_after_a_restart_is_not_repeated_for_long) {
	unsigned mail;

	begin_queue(4, 1, 10 * MS);
	world.no_process = true;
	mail = world_mail("d0.example");
	world_run(world.now_ns + 2 * S);
	world_restart_role(true);
	world.no_process = false;
	world.no_disk = true;
	world_run(world.now_ns + 100 * S);
	assert_in_range(world_find_server("d0.example")->got, 1, 3);
	assert_int_equal(world_wait(mail, NULL), QUEUE_WAITS_RETRY);
}

/* What stands beside it in the file is not locked for minutes. */
TEST_IN(NULL, tear_down, a_server_that_hangs_goes_last_in_its_message) {
	unsigned mail[3];

	begin_queue(2, 3, 100 * MS);
	(void)world_mail("d1.example d2.example");
	all_is_delivered(S);
	world.servers[0].mode = SERVER_HANGS;
	for (int i = 0; i < 3; i++)
		mail[i] = world_mail("d0.example*11 d1.example*29 d2.example");
	world_run(world.now_ns + 40 * S);
	for (int i = 0; i < 3; i++)
		assert_int_equal(world_delivered(mail[i]), 30);
}

/* It answers, after 30 s: tried alone from then on, with the time that the site gives it. */
TEST_IN(NULL, tear_down, a_server_that_is_slow_goes_alone_for_an_hour) {
	unsigned got;

	begin_queue(4, 3, 10 * MS);
	(void)world_mail("d0.example d1.example d2.example");
	all_is_delivered(S);
	world.servers[0].mode = SERVER_SLOW;
	for (int i = 0; i < 4; i++)
		(void)world_mail("d0.example d1.example d2.example");
	all_is_delivered(400 * S);
	got = world.servers[0].connections;
	for (int i = 0; i < 4; i++) {
		(void)world_mail("d0.example d1.example d2.example");
		world_run(world.now_ns + 100 * S);
	}
	all_is_delivered(100 * S);
	/* each at its first try */
	assert_int_equal(world.servers[0].connections, got + 4);
}

/* From the first time on, when nothing is known of it yet. */
TEST_IN(NULL, tear_down, a_server_that_is_new_and_slow_gets_its_time) {
	begin_queue(4, 1, 10 * MS);
	world.servers[0].mode = SERVER_SLOW;
	(void)world_mail("d0.example");
	all_is_delivered(60 * S);
	assert_int_equal(world.runs, 2);
}

/* A brief run, then one that waits as long as the site says, then the retry time. */
TEST_IN(NULL, tear_down, a_server_that_is_new_and_hangs_is_not_tried_again_at_once) {
	int64_t due_ns;

	begin_queue(4, 1, 10 * MS);
	world.servers[0].mode = SERVER_HANGS;
	world.hang_timeout_s = 60;
	(void)world_mail("d0.example");
	world_run(world.now_ns + 90 * S);
	assert_int_equal(world.runs, 2);
	assert_int_equal(world.processes, 0);
	assert_int_equal(world_wait(0, &due_ns), QUEUE_WAITS_RETRY);
	world_run(world.now_ns + 200 * S);
	assert_int_equal(world.runs, 2);
}

/* What was read after the first batch is remembered, too. */
TEST_IN(NULL, tear_down, what_stands_behind_a_batch_that_is_held_has_its_retry_time) {
	world_open("", 4);
	world.settings.schedule.pool.message_recipient_limit = 20;
	world_restart_role(true);
	servers(3, 10 * MS);
	(void)world_mail("d0.example d1.example d2.example");
	all_is_delivered(S);
	by_hand(MANUAL_HOLD, "d0.example");
	world.servers[1].mode = SERVER_PUTS_OFF;
	(void)world_mail("d0.example*30");
	(void)world_mail("d0.example*30 d1.example*3 d2.example*3");
	world.runs = 0;
	world_run(world.now_ns + 250 * S);
	assert_int_equal(world_find_server("d2.example")->got, 4);
	assert_in_range(world.runs, 1, 2);
}

TEST_IN(NULL, tear_down, a_file_of_which_nothing_can_be_taken_is_read_each_second) {
	world_open("", 4);
	world.settings.schedule.pool.message_recipient_limit = 20;
	world_restart_role(true);
	servers(2, 10 * MS);
	(void)world_mail("d0.example d1.example");
	all_is_delivered(S);
	by_hand(MANUAL_HOLD, "d0.example");
	(void)world_mail("d0.example*30");
	world_run(world.now_ns + S);
	world.mores = 0;
	world.no_room = true;
	(void)world_mail("d0.example*30 d1.example*3");
	world_run(world.now_ns + 10 * S);
	assert_in_range(world.mores, 9, 11);
	world.no_room = false;
	world_run(world.now_ns + 5 * S);
	assert_int_equal(world_find_server("d1.example")->got, 4);
}

/* Windows are observed only, and a class is not: no run after the other. */
TEST_IN(NULL, tear_down, a_class_that_is_full_is_not_asked_again_at_once) {
	begin_queue(4, 2, 10 * MS);
	world.servers[0].host = "mx.few.example";
	site_reload(&world.site, "observe = true;\n"
	    "classes = ( { name = \"few\"; match = [ \"*.few.example\" ]; hold_at = 0; "
	    "observe = false; }, { name = \"all\"; match = \"*\"; hold_at = 1000; } );\n"
	    "mta = ( { name = \"s\"; kind = \"sendmail\"; log = \"/a\"; } );\n");
	(void)world_mail("d0.example");
	world_run(world.now_ns + 100 * S);
	/* after 0.2, 0.4 ... 25.6 s */
	assert_in_range(world.runs, 5, 12);
}

/* Nobody answered: that its file is gone says nothing. */
TEST_IN(NULL, tear_down, a_file_that_is_removed_proves_no_server) {
	unsigned first;

	begin_queue(4, 1, 10 * MS);
	world.servers[0].mode = SERVER_HANGS;
	first = world_mail("d0.example");
	(void)world_mail("d0.example");
	world_run(world.now_ns + 5 * S);
	assert_int_equal(world_wait(first, NULL), QUEUE_WAITS_RUNNING);
	world_remove(first);
	world_run(world.now_ns + 5 * S);
	assert_false(world_is_proven("d0.example"));
	world.servers[0].mode = SERVER_TAKES;
	assert_true(world_drain(4000 * S));
}

/* Not by what is known of the destination: by the class of the host that takes its mail. */
TEST_IN(NULL, tear_down, a_class_that_is_held_is_asked_again_at_retry_times) {
	const struct by_hand order = { .verb = MANUAL_HOLD, .name = "few", .name_length = 3,
		.class = true, .reason = "moving", .window = BY_HAND_UNSET,
		.ceiling = BY_HAND_UNSET };
	struct by_hand resume = order;
	struct window_owner owner;

	begin_queue(4, 2, 10 * MS);
	world.servers[0].host = "mx.few.example";
	site_reload(&world.site, "classes = ( { name = \"few\"; match = [ \"*.few.example\" ]; "
	    "hold_at = 9; }, { name = \"all\"; match = \"*\"; hold_at = 1000; } );\n"
	    "mta = ( { name = \"s\"; kind = \"sendmail\"; log = \"/a\"; } );\n");
	assert_int_equal(windows_by_hand(world.site.engine, world.site.generation, &order,
	    world.now_ns, &owner), BY_HAND_DONE);
	(void)world_mail("d0.example d1.example");
	world_run(world.now_ns + 1000 * S);
	assert_int_equal(world_find_server("d1.example")->got, 1);
	assert_in_range(world.runs, 4, 5);
	assert_int_equal(world_wait(0, NULL), QUEUE_WAITS_RETRY);
	resume.verb = MANUAL_RESUME;
	assert_int_equal(windows_by_hand(world.site.engine, world.site.generation, &resume,
	    world.now_ns, &owner), BY_HAND_DONE);
	all_is_delivered(301 * S);
}

/* All processes hang with the role's predecessor: its successor goes on all the same. */
TEST_IN(NULL, tear_down, runs_of_an_earlier_role_that_hang_hold_nobody_up) {
	char text[64];

	begin_queue(2, 3, 10 * MS);
	(void)world_mail("d0.example");
	(void)world_mail("d1.example");
	all_is_delivered(2 * S);
	world.servers[0].mode = world.servers[1].mode = SERVER_HANGS;
	world.hang_timeout_s = 3600;
	(void)world_mail("d0.example");
	(void)world_mail("d1.example");
	world_run(world.now_ns + S);
	assert_int_equal(world.processes, 2);
	world_restart_role(true);
	for (int i = 0; i < 10; i++) {
		(void)snprintf(text, sizeof(text), "d2.example");
		(void)world_mail(text);
	}
	world_run(world.now_ns + 40 * S);
	assert_int_equal(world_find_server("d2.example")->got, 10);
}

/* Half of the processes, and as many as may hang besides, are left to the others. */
TEST_IN(NULL, tear_down, many_servers_that_hang_leave_processes_to_the_rest) {
	char text[64];

	begin_queue(4, 40, 10 * MS);
	world.hang_timeout_s = 3600;
	for (int i = 0; i < 30; i++) {
		world.servers[i].mode = SERVER_HANGS;
		(void)snprintf(text, sizeof(text), "d%d.example", i);
		(void)world_mail(text);
	}
	/* each is tried by a brief run first, then some alone */
	world_run(world.now_ns + 400 * S);
	for (int i = 30; i < 40; i++) {
		(void)snprintf(text, sizeof(text), "d%d.example", i);
		(void)world_mail(text);
	}
	world_run(world.now_ns + 5 * S);
	for (int i = 30; i < 40; i++)
		assert_int_equal(world.servers[i].got, 1);
	assert_in_range(world.processes, 1, 4);
}

TEST_IN(NULL, tear_down, a_message_of_100000_recipients) {
	static char text[4096];
	size_t at = 0;
	unsigned mail;

	begin_queue(4, 60, MS / 50);
	for (int i = 0; i < 50; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%sd%d.example*2000",
		    i == 0 ? "" : " ", i);
	world_find_server("d3.example")->mode = SERVER_PUTS_OFF;
	mail = world_mail(text);
	world_run(world.now_ns + 20 * S);
	assert_int_equal(world_delivered(mail), 98000);
	world_find_server("d3.example")->mode = SERVER_TAKES;
	all_is_delivered(2000 * S);
	assert_in_range(world.runs, 2, 60);
}
