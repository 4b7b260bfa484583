/* SPDX-License-Identifier: ISC */
/* The driven queue against chance: servers come and go, roles are killed, processes cannot be
 * started, messages are locked and held; in the end each recipient was delivered once and
 * nothing is stuck. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "tests/unit/engine/queue/queue_world.h"
#include "tests/unit/engine/queue/queue_world_journal.h"
#include "tests/unit/random.h"

#define S	NS_PER_SECOND
#define SERVERS	12
#define LIMIT	4

static struct random chance;

static unsigned below(unsigned n) {
	return random_below(&chance, n);
}

static void file(void) {
	char text[1024] = "";
	unsigned count = below(3) != 0 ? 1 + below(2) : 1 + below(SERVERS);
	size_t at = 0;

	for (unsigned i = 0; i < count; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%sd%u.example*%u",
		    i == 0 ? "" : " ", below(SERVERS), 1 + below(below(4) == 0 ? 60 : 2));
	if (below(10) == 0)
		(void)snprintf(text + at, sizeof(text) - at, " -");
	(void)world_mail_in(below(WORLD_DIRECTORIES), text);
}

/* One file, or some that Sendmail has cut a message into. */
static void mail(void) {
	static unsigned number;
	char origin[32];

	(void)snprintf(origin, sizeof(origin), "7AK%011u", ++number);
	world.envelope = origin;
	for (unsigned i = below(8) == 0 ? 2 + below(3) : 1; i > 0; i--)
		file();
	world.envelope = NULL;
}

static void something(unsigned files) {
	struct server *s = &world.servers[below(SERVERS)];

	switch (below(40)) {
	case 0:
		s->mode = SERVER_HANGS;
		break;
	case 1:
		s->mode = SERVER_REFUSES;
		break;
	case 2:
		s->mode = SERVER_PUTS_OFF;
		break;
	case 3:
	case 4:
	case 5:
		s->mode = SERVER_TAKES;
		break;
	case 6:
		world.no_process = below(3) == 0;
		break;
	case 7:
		world_restart_role(true);
		break;
	case 8:
		world_lock(below(files), world.now_ns + below(30) * S);
		break;
	case 9:
		world_disk_error = below(3) == 0 ? ENOSPC : 0;
		world_disk_is_gone = below(2) == 0;
		break;
	case 10:
		if (below(8) == 0)
			world_journal_empty();
		break;
	case 11:
		world_scan();
		break;
	default:
		mail();
	}
}

static void run(uint64_t with, enum schedule_discipline discipline, uint32_t active) {
	unsigned processes = 1 + (unsigned)(with % 7);
	char name[32];

	chance = (struct random){ with };
	world_open("window = { destination_concurrency_limit = 4; "
	    "initial_destination_concurrency = 2; };\n", processes);
	world.settings.schedule.discipline = discipline;
	world.settings.mtas[0].retry_ns = 20 * S;
	world.settings.mtas[0].retry_most_ns = 60 * S;
	world.settings.schedule.pool.message_active_limit = active;
	world.settings.schedule.pool.message_recipient_limit = 40;
	world.settings.schedule.job.recipient_limit = 40;
	world.settings.schedule.pool.message_recipient_minimum = 3;
	world.settings.schedule.job.extra_recipient_limit = 10;
	world.hang_timeout_s = 60;
	world.directories[WORLD_LOCAL].is_local = with % 2 == 0;
	world.settings.schedule.job.destination_recipient_limit = with % 5 == 4 ? 7 : 1;
	world_restart_role(true);
	for (unsigned i = 0; i < SERVERS; i++) {
		(void)snprintf(name, sizeof(name), "d%u.example", i);
		(void)world_server(name, (1 + below(200)) * NS_PER_MS);
	}
	mail();
	for (unsigned i = 0; i < 400; i++) {
		something(1);
		world_run(world.now_ns + (int64_t)below(800) * NS_PER_MS);
		world_check();
		assert_true(world.processes_most <= (world.directories[WORLD_LOCAL].is_local ? 4 : 2) * processes);
		for (unsigned j = 0; j < SERVERS; j++)
			assert_true(world.servers[j].most <= LIMIT + 1);
	}
	world.no_process = false;
	world_disk_error = 0;
	for (unsigned i = 0; i < SERVERS; i++)
		world.servers[i].mode = SERVER_TAKES;
	if (!world_drain(3000 * S))
		world_tell();
	if (world_files_left() > 0)
		fail_msg("%u files are left", world_files_left());
	world_check();
	world_close();
}

TEST(each_recipient_gets_it_once) {
	struct random first = random_seeded("t_queue_random");
	unsigned runs = getenv("TEST_SEED") != NULL ? 1 : 12;

	for (unsigned i = 0; i < runs; i++) {
		uint64_t with = first.state + i;

		printf("# TEST_SEED=%" PRIu64 "\n", with);
		run(with, with % 4 == 3 ? DISCIPLINE_FIRST_COME : DISCIPLINE_PREEMPTIVE,
		    with % 3 == 2 ? 8 : 1000);
	}
}
