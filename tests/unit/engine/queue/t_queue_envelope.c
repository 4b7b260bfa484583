/* SPDX-License-Identifier: ISC */
/* The driven queue where Sendmail has cut a message into files: they are one job, and run side
 * by side; local mail is a transport of its own. */
#include "tests/unit/test.h"
#include "engine/queue/queue_internal.h"
#include "tests/unit/engine/queue/queue_steps.h"
#include "tests/unit/policy/schedule/job_look.h"

/* One message: a file for each of these servers. */
static void envelope(const char *origin, unsigned first, unsigned end, unsigned recipients) {
	char text[64];

	world.envelope = origin;
	for (unsigned i = first; i < end; i++) {
		(void)snprintf(text, sizeof(text), "d%u.example*%u", i, recipients);
		(void)world_mail_in(i % WORLD_DIRECTORIES, text);
	}
	world.envelope = NULL;
}

static uint32_t jobs(void) {
	return world.queue->board->messages.used;
}

/* 40 servers of 500 ms, 22 processes: two rounds, a process each. */
TEST_IN(NULL, tear_down, files_of_a_message_run_side_by_side) {
	begin_queue(22, 40, 500 * MS);
	envelope("7AK00000000001", 0, 40, 1);
	world_run(world.now_ns + 200 * MS);
	assert_int_equal(world.processes, 22);
	assert_int_equal(jobs(), 1);
	all_is_delivered(2 * S);
	assert_int_equal(world.processes_most, 22);
	assert_int_equal(jobs(), 0);
}

/* 50 files of 8, 200 ms each: two processes need 40 s for them.  A file takes 1.6 s, and has
 * saved a slot and more when it goes. */
TEST_IN(NULL, tear_down, small_mail_passes_a_message_of_many_files) {
	unsigned single;
	int64_t came_ns;

	begin_queue(2, 51, 200 * MS);
	envelope("7AK00000000001", 0, 50, 8);
	world_run(world.now_ns + 1 * S);
	came_ns = world.now_ns;
	single = world_mail("d50.example");
	world_run(world.now_ns + 3 * S);
	assert_true(world_is_gone(single));
	assert_in_range(world_delivered_ns(single) - came_ns, 1, 3 * S);
	all_is_delivered(60 * S);
}

/* The same files without anything in common are 50 jobs of 8, older than it: nothing passes. */
TEST_IN(NULL, tear_down, files_of_other_messages_are_other_jobs) {
	char text[64];

	begin_queue(2, 51, 200 * MS);
	for (unsigned i = 0; i < 50; i++) {
		(void)snprintf(text, sizeof(text), "d%u.example*8", i);
		(void)world_mail(text);
	}
	world_run(world.now_ns + 100 * MS);
	assert_int_equal(jobs(), 48);
	all_is_delivered(90 * S);
}

/* One of the servers hangs: the others' recipients do not wait for it. */
TEST_IN(NULL, tear_down, one_that_hangs_holds_up_no_other) {
	begin_queue(8, 20, 200 * MS);
	world.servers[7].mode = SERVER_HANGS;
	world.hang_timeout_s = 300;
	envelope("7AK00000000001", 0, 20, 1);
	world_run(world.now_ns + 2 * S);
	assert_int_equal(world_files_left(), 1);
	world.servers[7].mode = SERVER_TAKES;
	all_is_delivered(2000 * S);
}

/* What fails of a message comes back to its job, and its files end one by one. */
TEST_IN(NULL, tear_down, failures_and_removals_leave_nothing_behind) {
	begin_queue(4, 30, 100 * MS);
	world.servers[3].mode = SERVER_PUTS_OFF;
	world.servers[4].mode = SERVER_REFUSES;
	envelope("7AK00000000001", 0, 30, 3);
	envelope("7AK00000000002", 0, 30, 1);
	world_run(world.now_ns + 300 * MS);
	world_remove(20);
	world_remove(59);
	world_kill_runs();
	world_run(world.now_ns + 20 * S);
	/* two for each of the two servers; and where the four processes were that were killed */
	assert_in_range(world_files_left(), 4, 8);
	assert_int_equal(jobs(), 0);
	world.servers[3].mode = world.servers[4].mode = SERVER_TAKES;
	all_is_delivered(7200 * S);
	assert_int_equal(jobs(), 0);
}

/* Entries of up to 50: files of 3 recipients each are less than one, and yet each is run. */
TEST_IN(NULL, tear_down, files_smaller_than_an_entry) {
	world_open("", 4);
	world.settings.schedule.job.destination_recipient_limit = 50;
	queue_configure(world.queue, &world.settings);
	servers(4, 50 * MS);
	world.envelope = "7AK00000000001";
	for (unsigned i = 0; i < 40; i++)
		(void)world_mail(i % 2 == 0 ? "d0.example*3 d1.example" : "d0.example*60");
	world.envelope = NULL;
	(void)world_mail("d0.example");
	world_run(world.now_ns + 1 * S);
	all_is_delivered(200 * S);
	assert_int_equal(jobs(), 0);
}

static const struct envelope *envelope_of(const char *id) {
	const struct message *message = queue_find_message(world.queue, 0, id);

	assert_non_null(message);
	return message->envelope;
}

static const struct envelope *file(const char *id, const char *sender, int64_t made_s,
    const char *origin) {
	const struct queue_file facts = { .stamp = 1, .inode = 1, .made_s = made_s,
		.arrival_ns = world.now_ns, .recipients = 1, .sender = sender,
		.sender_length = sender == NULL ? 0 : strlen(sender), .origin = origin };

	assert_true(queue_read_begin(world.queue, 0, id, &facts));
	assert_true(queue_read_recipient(world.queue, "d0.example", 10));
	queue_read_end(world.queue, true, 1, world.now_ns);
	return envelope_of(id);
}

TEST_IN(NULL, tear_down, what_makes_files_one_message) {
	const struct envelope *first, *other;

	begin_queue(1, 1, S);
	first = file("7AL000AA000123", "a@example.org", 100, "7AL000AA000123");
	assert_ptr_equal(file("7AL000AB000123", "a@example.org", 100, "7AL000AA000123"), first);
	assert_ptr_equal(file("7AL000AC000999", "a@example.org", 100, "7AL000AA000123"), first);
	/* the same process took another message in the same second */
	other = file("7AL000AD000123", "a@example.org", 100, "7AL000AD000123");
	assert_ptr_not_equal(other, first);
	/* another sender, another second */
	assert_ptr_not_equal(file("7AL000AE000123", "b@example.org", 100, "7AL000AA000123"), first);
	assert_ptr_not_equal(file("7AL000AF000123", "a@example.org", 101, "7AL000AA000123"), first);
	/* not known: of the same process, sender and second */
	first = file("7AL000AG000777", "c@example.org", 100, NULL);
	assert_ptr_equal(file("7AL000AH000777", "c@example.org", 100, NULL), first);
	assert_ptr_not_equal(file("7AL000AI000778", "c@example.org", 100, NULL), first);
	/* bounces: by the origin alone */
	first = file("7AL000AJ000777", NULL, 100, NULL);
	assert_ptr_not_equal(file("7AL000AK000777", NULL, 100, NULL), first);
	first = file("7AL000AL000777", NULL, 100, "7AL000AL000777");
	assert_ptr_equal(file("7AL000AM000777", NULL, 100, "7AL000AL000777"), first);
}

/* Two processes, and as many for local mail: what is local needs 20 s, and others do not wait. */
TEST_IN(NULL, tear_down, local_mail_has_processes_of_its_own) {
	unsigned single;

	world_open("", 2);
	world.directories[WORLD_LOCAL].is_local = true;
	(void)world_server("slow.example", 2 * S);
	servers(4, 100 * MS);
	for (unsigned i = 0; i < 20; i++)
		(void)world_mail_in(WORLD_LOCAL, "slow.example");
	world_run(world.now_ns + 3 * S);
	assert_int_equal(world.processes, 2);
	single = world_mail("d0.example");
	world_run(world.now_ns + 500 * MS);
	assert_true(world_is_gone(single));
	for (unsigned i = 0; i < 4; i++)
		(void)world_mail_in(i, i == WORLD_LOCAL ? "slow.example" : "d1.example*20");
	world_run(world.now_ns + 500 * MS);
	assert_int_equal(world.queue->mtas[0].mailers[QUEUE_LOCAL].running, 2);
	assert_in_range(world.queue->mtas[0].mailers[QUEUE_REMOTE].running, 1, 2);
	all_is_delivered(100 * S);
	assert_true(world.processes_most <= 4);
}

/* Bulk that is local, with a cost of 0, lets nothing past; remote bulk does, by the parameters of
 * all.  A file takes 1.6 s, 20 of them 32 s. */
TEST_IN(NULL, tear_down, each_transport_has_its_own_parameters) {
	struct job_settings job = job_defaults;
	unsigned remote, local;

	job.delivery_slot_cost = 0;
	job.destination_recipient_limit = 1;
	world_open("", 1);
	world.directories[WORLD_LOCAL].is_local = true;
	world.settings.mtas[0].transports[QUEUE_LOCAL] =
	    job;
	queue_configure(world.queue, &world.settings);
	servers(24, 200 * MS);
	world.envelope = "7AK00000000001";
	for (unsigned i = 0; i < 20; i++)
		(void)world_mail_in(WORLD_LOCAL, "d22.example*8");
	envelope("7AK00000000002", 0, 20, 8);
	world_run(world.now_ns + 2 * S);
	local = world_mail_in(WORLD_LOCAL, "d23.example");
	remote = world_mail("d21.example");
	world_run(world.now_ns + 5 * S);
	assert_true(world_is_gone(remote));
	assert_int_equal(world_delivered(local), 0);
	world_run(world.now_ns + 20 * S);
	assert_int_equal(world_delivered(local), 0);
	all_is_delivered(100 * S);
}
