/* SPDX-License-Identifier: ISC */
/* The driven queue in virtual time: what its runs are granted, and the table of that. */
#include "tests/unit/test.h"
#include "segment/queue/grants.h"
#include "tests/unit/engine/queue/queue_steps.h"

TEST_IN(NULL, tear_down, lists_that_are_too_long_for_a_grant) {
	static char text[4096];
	size_t at = 0;
	unsigned mail;

	begin_queue(4, 64, MS);
	/* 40 of them put it off, 24 take it */
	for (int i = 0; i < 64; i++) {
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%sd%d.example",
		    i == 0 ? "" : " ", i);
		world.servers[i].mode = i < 40 ? SERVER_PUTS_OFF : SERVER_TAKES;
	}
	mail = world_mail(text);
	world_run(world.now_ns + 10 * S);
	assert_int_equal(world_delivered(mail), 24);
	for (int i = 0; i < 40; i++)
		world.servers[i].mode = SERVER_TAKES;
	all_is_delivered(1000 * S);
}

/* Whose turn it is Sendmail asks by the name that an alias stands for; the grant has it as
 * it is written. */
TEST_IN(NULL, tear_down, an_alias_is_tried_though_its_grant_is_a_short_list) {
	static char text[4096];
	struct server *alias;
	size_t at = 0;
	unsigned mail;

	begin_queue(4, 64, MS);
	for (int i = 0; i < 64; i++) {
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%sd%d.example",
		    i == 0 ? "" : " ", i);
		world.servers[i].mode = SERVER_PUTS_OFF;
	}
	alias = world_find_server("d63.example");
	alias->canonical = "real.example";
	alias->mode = SERVER_HANGS;
	mail = world_mail(text);
	world_run(world.now_ns + 120 * S);
	alias->mode = SERVER_TAKES;
	assert_int_equal(world_delivered(mail), 0);
	/* it is doubtful, and goes alone: 63 others do not */
	world_run(world.now_ns + 900 * S);
	assert_int_equal(world_delivered(mail), 1);
	assert_int_equal(alias->got, 1);
	for (int i = 0; i < 64; i++)
		world.servers[i].mode = SERVER_TAKES;
	all_is_delivered(2000 * S);
}

/* --- the table ------------------------------------------------------------------------ */

#define FOREIGN_MOST	1024
static struct grant_ref foreign[FOREIGN_MOST];
static unsigned foreign_count, next_foreign;

static bool put_as(const char *id, struct grant_ref *ref) {
	const struct grant grant = { .queue_id = id, .queue_id_length = strlen(id), .run = 9,
		.mode = GRANT_EXCEPT };

	return grants_put(world.site.segment, &grant, ref);
}

/* Somebody's grant that stands in this very place. */
static void take_place(uint32_t number) {
	struct grant_ref *ref = &foreign[foreign_count++];
	char id[16];

	assert_in_range(foreign_count, 1, FOREIGN_MOST);
	for (;;) {
		(void)snprintf(id, sizeof(id), "9ZZ%u", next_foreign++);
		if (put_as(id, ref) && ref->number == number)
			return;
		grants_remove(world.site.segment, ref, NULL);
	}
}

/* All places where that message's grant may be are others'. */
static void leave_no_place(const char *id) {
	struct grant_ref ref;

	foreign_count = 0;
	while (put_as(id, &ref)) {
		grants_remove(world.site.segment, &ref, NULL);
		take_place(ref.number);
	}
}

static void without_a_place(enum schedule_discipline discipline) {
	char text[32];
	unsigned first;

	world_open("", 1);
	world.settings.schedule.discipline = discipline;
	queue_configure(world.queue, &world.settings);
	servers(20, 10 * MS);
	first = world_mail("d0.example");
	leave_no_place(world_id(first));
	for (unsigned i = 0; i < 40; i++) {
		(void)snprintf(text, sizeof(text), "d%u.example", i / 2);
		(void)world_mail(text);
	}
	world_run(world.now_ns + 10 * S);
	assert_false(world_is_gone(first));
	/* one of them in fifty has the same places */
	assert_in_range(world_files_left(), 1, 3);
	while (foreign_count > 0)
		grants_remove(world.site.segment, &foreign[--foreign_count], NULL);
	all_is_delivered(10 * S);
}

/* It waits, and what comes after it goes. */
TEST_IN(NULL, tear_down, a_message_without_a_place_for_its_grant_holds_nobody_up) {
	without_a_place(DISCIPLINE_PREEMPTIVE);
}

TEST_IN(NULL, tear_down, nor_does_it_where_the_first_come_goes_first) {
	without_a_place(DISCIPLINE_FIRST_COME);
}

/* Many long runs would want more places than there are. */
TEST_IN(NULL, tear_down, all_processes_run_though_grants_are_bounded) {
	char text[32];

	begin_queue(250, 60, 500 * MS);
	for (unsigned i = 0; i < 60; i++) {
		(void)snprintf(text, sizeof(text), "d%u.example", i);
		(void)world_mail(text);
	}
	all_is_delivered(20 * S);
	for (unsigned i = 0; i < 12000; i++) {
		(void)snprintf(text, sizeof(text), "d%u.example", i % 60);
		(void)world_mail(text);
	}
	world_run(world.now_ns + S);
	assert_int_equal(world.processes, 250);
	all_is_delivered(100 * S);
}
