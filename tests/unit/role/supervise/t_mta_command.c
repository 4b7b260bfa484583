/* SPDX-License-Identifier: ISC */
/* Commands on a Postfix: orders and outcomes, what the supervisor runs of them and
 * what it refuses, and both ends of the link. */
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "front/link/mta_link.h"
#include "tests/unit/scratch.h"
#include "role/supervise/mta_command.h"
#include "tests/unit/role/supervise/supervised.h"
#include "wire/link/mta_order.h"

#define NUMBER	7	/* of the generation */

/* --- a supervisor with two mail servers, the first of which is a Postfix ---------- */

static struct mta_link role;

static int begin(void **state) {
	struct generation *g = block_begin();
	struct diag diag;

	g->number = NUMBER;
	g->mta_count = 2;
	g->mtas[0].kind = MTA_POSTFIX;
	g->mtas[0].name = text("out");
	g->mtas[0].config_directory = text("/etc/postfix-out");
	g->mtas[0].command_directory = text("%s", scratch);
	g->mtas[1].kind = MTA_SENDMAIL;
	g->mtas[1].name = text("sendmail");
	g->requeue_rate = (struct rate_limit){ .count = 100,
		.period_ns = NS_PER_SECOND };
	mta_commands_init(&supervisor.mta);
	role.fd = mta_commands_link(&supervisor.mta, MTA_ASKER_FEED, &diag);
	catch_log(state);
	return role.fd >= 0 ? 0 : -1;
}

static int end(void **state) {
	subprocess_list_stop(&supervisor.programs);
	for (unsigned i = 0; i < MTA_ASKER_COUNT; i++)
		mta_commands_unlink(&supervisor.mta, (enum mta_asker)i);
	if (role.fd >= 0)
		close(role.fd);
	return release_log(state);
}

/* Lets the supervisor work until the role hears something. */
static enum mta_news news(struct mta_outcome *outcome, int *output_fd, int64_t now_ns) {
	for (unsigned i = 0; i < 2000; i++) {
		static const struct timespec turn = { .tv_nsec = 5 * NS_PER_MS };
		enum mta_news there;
		int status;
		pid_t pid;

		subprocess_list_turn(&supervisor.programs, now_ns);
		mta_commands_turn(&supervisor, now_ns);
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			assert_true(subprocess_list_bury(&supervisor.programs, pid, status));
		there = mta_link_next(&role, outcome, output_fd);
		if (there != MTA_NO_NEWS)
			return there;
		(void)nanosleep(&turn, NULL); /* LINT-SLEEP: another process works */
	}
	fail_msg("nothing was heard");
	return MTA_NO_NEWS;
}

static int outcome_at(enum mta_verb verb, const char *id, int64_t now_ns) {
	struct mta_outcome outcome;
	int fd;

	assert_int_equal(news(&outcome, &fd, now_ns), MTA_OUTCOME);
	assert_int_equal(outcome.verb, verb);
	assert_int_equal(outcome.mta, 0);
	assert_string_equal(outcome.queue_id, id == NULL ? "" : id);
	return outcome.code;
}

static bool ask(enum mta_verb verb, unsigned mta, uint64_t generation, const char *id) {
	return mta_link_ask(&role, verb, mta, generation, id);
}

/* --- orders -------------------------------------------------------------------------- */

TEST(orders_are_read_as_written) {
	static const enum mta_verb verbs[] = { MTA_REQUEUE, MTA_LIST, MTA_RELOAD };

	for (unsigned i = 0; i < 3; i++) {
		struct mta_order order = { .verb = verbs[i], .mta = 5,
			.generation = UINT64_MAX }, read;
		const char *why;

		if (verbs[i] == MTA_REQUEUE)
			snprintf(order.queue_id, sizeof(order.queue_id),
			    "4V7xXy0Z1zzzzzzzzzzzzzzzzzzzzzz");
		assert_true(mta_order_read(&order, sizeof(order), &read, &why));
		assert_memory_equal(&read, &order, sizeof(order));
	}
}

TEST(outcomes_are_read_as_written) {
	static const int codes[] = { 0, 1, 69, 255, MTA_NOT_RUN, MTA_TOO_SOON,
		MTA_KILLED };

	for (unsigned i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct mta_outcome outcome = { .verb = MTA_REQUEUE, .mta = 7,
			.code = codes[i], .queue_id = "ABCDEF" }, read;
		const char *why;

		assert_true(mta_outcome_read(&outcome, sizeof(outcome), &read, &why));
		assert_memory_equal(&read, &outcome, sizeof(outcome));
	}
}

TEST(queue_ids) {
	static const char *const bad[] = { "", "ABCDE", "ABCDE;", "-iABCDEF", "ALL 123",
		"../../x", "ABCDEF\n", "0123456789012345678901234567890X" };

	assert_true(mta_queue_id_is_sound("3F9A21C04D", 10));
	assert_true(mta_queue_id_is_sound("4V7xXy0Z1zzzz", 13));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(mta_queue_id_is_sound(bad[i], strlen(bad[i])));
}

TEST(what_is_no_order) {
	static const struct mta_order bad[] = {
		{ .verb = MTA_VERB_COUNT }, { .verb = UINT32_MAX }, { .verb = MTA_LIST, .mta = 256 },
		{ .verb = MTA_LIST, .mta = UINT32_MAX }, { .verb = MTA_LIST, .queue_id = "ABCDEF" },
		{ .verb = MTA_REQUEUE }, { .verb = MTA_REQUEUE, .queue_id = "ABC -f" },
	};
	struct mta_order order = { .verb = MTA_LIST }, read;
	char longer[sizeof(order) + 1] = { 0 };
	const char *why;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = NULL;
		assert_false(mta_order_read(&bad[i], sizeof(bad[i]), &read, &why));
		assert_non_null(why);
	}
	assert_false(mta_order_read(&order, 0, &read, &why));
	assert_false(mta_order_read(&order, sizeof(order) - 1, &read, &why));
	memcpy(longer, &order, sizeof(order));
	assert_false(mta_order_read(longer, sizeof(longer), &read, &why));
	/* an id that does not end */
	order.verb = MTA_REQUEUE;
	memset(order.queue_id, 'A', sizeof(order.queue_id));
	assert_false(mta_order_read(&order, sizeof(order), &read, &why));
}

TEST(what_is_no_outcome) {
	static const struct mta_outcome bad[] = {
		{ .verb = MTA_VERB_COUNT }, { .verb = MTA_LIST, .mta = 256 },
		{ .verb = MTA_LIST, .code = 256 }, { .verb = MTA_LIST, .code = MTA_KILLED - 1 },
		{ .verb = MTA_RELOAD, .is_output = 1 }, { .verb = MTA_LIST, .is_output = 2 },
		{ .verb = MTA_REQUEUE, .queue_id = "ABC" },
	};
	struct mta_outcome read;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *why = NULL;

		assert_false(mta_outcome_read(&bad[i], sizeof(bad[i]), &read, &why));
		assert_non_null(why);
	}
}

/* --- what is run ---------------------------------------------------------------------- */

TEST_IN(begin, end, an_id_is_requeued) {
	scratch_write_program("postqueue", "cd `dirname $0`\n"
	    "{ echo \"$@\"; env | sort; ls -l /proc/$$/fd | wc -l; cat; } >told");
	assert_true(ask(MTA_REQUEUE, 0, NUMBER, "3F9A21C04D"));
	assert_int_equal(outcome_at(MTA_REQUEUE, "3F9A21C04D", clock_now_ns()), 0);
	{
		const char *said = scratch_take("told");

		assert_non_null(strstr(said, "-c /etc/postfix-out -i 3F9A21C04D\n"));
		assert_non_null(strstr(said,
		    "PATH=/usr/sbin:/usr/bin:/sbin:/bin\n"));
		assert_non_null(strstr(said, "LC_ALL=C\n"));
		assert_null(strstr(said, "HOME="));
	}
	assert_int_equal(logged, 0);
}

TEST_IN(begin, end, what_is_not_run) {
	static const struct {
		enum mta_verb verb;
		unsigned mta;
		uint64_t generation;
	} refused[] = {
		{ MTA_REQUEUE, 0, NUMBER - 1 },	/* of another generation */
		{ MTA_LIST, 0, NUMBER + 1 },
		{ MTA_REQUEUE, 1, NUMBER },	/* no Postfix */
		{ MTA_REQUEUE, 2, NUMBER },	/* there is none */
		{ MTA_REQUEUE, 255, NUMBER },
	};
	struct mta_outcome outcome;
	int fd;

	for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_true(ask(refused[i].verb, refused[i].mta, refused[i].generation,
		    refused[i].verb == MTA_REQUEUE ? "ABCDEF" : NULL));
		assert_int_equal(news(&outcome, &fd, clock_now_ns()), MTA_OUTCOME);
		assert_int_equal(outcome.code, MTA_NOT_RUN);
		assert_int_equal(subprocess_list_next_ns(&supervisor.programs), INT64_MAX);
	}
}

static void as_the_keeper(void) {
	struct diag diag;

	close(role.fd);
	role.fd = mta_commands_link(&supervisor.mta, MTA_ASKER_KEEPER, &diag);
	assert_true(role.fd >= 0);
}

static void is_refused(enum mta_verb verb) {
	struct mta_outcome outcome;
	int fd;

	assert_true(ask(verb, 0, NUMBER, verb == MTA_REQUEUE ? "ABCDEF" : NULL));
	assert_int_equal(news(&outcome, &fd, clock_now_ns()), MTA_OUTCOME);
	assert_int_equal(outcome.code, MTA_NOT_RUN);
	assert_int_equal(subprocess_list_next_ns(&supervisor.programs), INT64_MAX);
}

TEST_IN(begin, end, no_role_has_run_what_is_another_roles) {
	scratch_write_program("postqueue", "exit 0");
	scratch_write_program("postfix", "exit 0");
	block.generation.mtas[0].may_reload = 1;
	is_refused(MTA_RELOAD);
	as_the_keeper();
	is_refused(MTA_REQUEUE);
	is_refused(MTA_LIST);
	block.generation.mtas[0].may_reload = 0;	/* reload is off */
	is_refused(MTA_RELOAD);
}

TEST_IN(begin, end, a_failure_is_told) {
	scratch_write_program("postqueue", "echo 'fatal: no \"such\" file' >&2; exit 69");
	assert_true(ask(MTA_REQUEUE, 0, NUMBER, "ABCDEF"));
	assert_int_equal(outcome_at(MTA_REQUEUE, "ABCDEF", clock_now_ns()), 69);
	assert_int_equal(logged, 1);
	assert_non_null(strstr(last_line, "mta=out queue_id=ABCDEF"));
	assert_non_null(strstr(last_line, "exit=69 text=\"fatal: no 'such' file\""));
}

TEST_IN(begin, end, a_program_that_is_not_there) {
	block.generation.mtas[0].command_directory = text("/nowhere");
	assert_true(ask(MTA_REQUEUE, 0, NUMBER, "ABCDEF"));
	assert_int_equal(outcome_at(MTA_REQUEUE, "ABCDEF", clock_now_ns()), 71);
	assert_non_null(strstr(last_line, "cannot be run: No such file"));
}

TEST_IN(begin, end, one_that_hangs_is_killed) {
	int64_t now_ns = clock_now_ns();

	/* LINT-SLEEP: it is to hang */
	scratch_write_program("postqueue", "sleep 1000 & sleep 1000");
	assert_true(ask(MTA_REQUEUE, 0, NUMBER, "ABCDEF"));
	subprocess_list_turn(&supervisor.programs, now_ns);
	mta_commands_turn(&supervisor, now_ns);
	assert_int_equal(subprocess_list_next_ns(&supervisor.programs),
	    now_ns + 10 * NS_PER_SECOND);
	assert_int_equal(outcome_at(MTA_REQUEUE, "ABCDEF", now_ns + 10 * NS_PER_SECOND),
	    MTA_KILLED);
	assert_non_null(strstr(last_line, "signal=9 killed=yes"));
}

static void copy_file(const char *from, const char *to) {
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0700);
	struct stat status;

	assert_true(in >= 0 && out >= 0 && fstat(in, &status) == 0);
	while (sendfile(out, in, NULL, (size_t)status.st_size) > 0)
		continue;
	close(in);
	close(out);
}

/* Such a program is not killed with us, as others are: it is when its time is over. */
TEST_IN(begin, end, a_set_group_id_program_does_not_outlive_us_for_long) {
	char program[256], c;
	const char *const arguments[] = { program, "1000", NULL };
	int fds[2], status;
	pid_t pid;

	snprintf(program, sizeof(program), "%s/setgid", scratch);
	if (geteuid() != 0)
		skip();
	copy_file("/bin/sleep", program);
	assert_int_equal(chown(program, 0, 65534), 0);
	assert_int_equal(chmod(program, 02755), 0);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		const struct subprocess_program what = { .arguments = arguments,
			.life_ns = NS_PER_SECOND, .stdout_fd = fds[1],
			.stderr_fd = SUBPROCESS_KEPT };
		struct subprocess command;

		_exit(subprocess_start(&command, &what, clock_now_ns()) == 0 ? 0 : 1);
	}
	close(fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	/* it ends, or this suite does not */
	assert_int_equal(read(fds[0], &c, 1), 0);
	close(fds[0]);
	assert_int_equal(unlink(program), 0);
}

TEST_IN(begin, end, no_faster_than_the_rate) {
	int64_t now_ns = clock_now_ns();

	scratch_write_program("postqueue", "exit 0");
	block.generation.requeue_rate = (struct rate_limit){ .count = 2,
		.period_ns = NS_PER_SECOND };
	for (unsigned i = 0; i < 3; i++) {
		assert_true(ask(MTA_REQUEUE, 0, NUMBER, "ABCDEF"));
		assert_int_equal(outcome_at(MTA_REQUEUE, "ABCDEF", now_ns),
		    i < 2 ? 0 : MTA_TOO_SOON);
	}
	assert_true(ask(MTA_REQUEUE, 0, NUMBER, "ABCDEF"));
	assert_int_equal(outcome_at(MTA_REQUEUE, "ABCDEF", now_ns + NS_PER_SECOND / 2), 0);
}

TEST_IN(begin, end, as_many_at_once_as_may) {
	unsigned running = 0;

	/* LINT-SLEEP: it is to hang */
	scratch_write_program("postqueue", "sleep 1000");
	for (unsigned i = 0; i < MTA_COMMANDS_AT_ONCE + 3; i++)
		assert_true(ask(MTA_REQUEUE, 0, NUMBER, "ABCDEF"));
	for (unsigned i = 0; i < 5; i++)
		mta_commands_turn(&supervisor, clock_now_ns());
	for (unsigned i = 0; i < MTA_COMMANDS_AT_ONCE; i++)
		running += supervisor.mta.running[i].child.pid != 0;
	assert_int_equal(running, MTA_COMMANDS_AT_ONCE - MTA_KEEPER_AT_ONCE);
	/* and the role is told in time that there is no more room */
	for (unsigned i = 0; ask(MTA_REQUEUE, 0, NUMBER, "ABCDEF"); i++)
		assert_true(i < 100000);
}

/* Lists that it does not read hold their places for two minutes. */
TEST_IN(begin, end, a_feed_that_has_all_its_places_does_not_starve_the_keeper) {
	/* LINT-SLEEP: it is to hang */
	scratch_write_program("postqueue", "sleep 1000");
	scratch_write_program("postfix", "exit 0");
	block.generation.mtas[0].may_reload = 1;
	for (unsigned i = 0; i < MTA_COMMANDS_AT_ONCE; i++)
		assert_true(ask(MTA_REQUEUE, 0, NUMBER, "ABCDEF"));
	mta_commands_turn(&supervisor, clock_now_ns());
	as_the_keeper();
	assert_true(ask(MTA_RELOAD, 0, NUMBER, NULL));
	assert_int_equal(outcome_at(MTA_RELOAD, NULL, clock_now_ns()), 0);
}

TEST_IN(begin, end, a_list_comes_by_a_pipe) {
	struct mta_outcome outcome;
	char said[64] = "";
	size_t length = 0;
	int fd, other;

	scratch_write_program("postqueue", "echo \"$@\"; echo warning >&2");
	assert_true(ask(MTA_LIST, 0, NUMBER, NULL));
	assert_int_equal(news(&outcome, &fd, clock_now_ns()), MTA_OUTPUT);
	assert_int_equal(outcome.mta, 0);
	assert_int_equal(news(&outcome, &other, clock_now_ns()), MTA_OUTCOME);
	assert_int_equal(outcome.code, 0);
	for (;;) {
		ssize_t got = read(fd, said + length, sizeof(said) - 1 - length);

		if (got <= 0)
			break;
		length += (size_t)got;
	}
	close(fd);
	assert_string_equal(said, "-c /etc/postfix-out -j\n");
	/* not twice in a minute */
	assert_true(ask(MTA_LIST, 0, NUMBER, NULL));
	assert_int_equal(outcome_at(MTA_LIST, NULL, clock_now_ns()), MTA_TOO_SOON);
}

static void is_listed(int64_t now_ns) {
	struct mta_outcome outcome;
	int fd;

	assert_true(ask(MTA_LIST, 0, NUMBER, NULL));
	assert_int_equal(news(&outcome, &fd, now_ns), MTA_OUTPUT);
	close(fd);
	assert_int_equal(news(&outcome, &fd, now_ns), MTA_OUTCOME);
	assert_int_equal(outcome.code, 0);
}

/* Who was killed twice in a second has forgotten it twice. */
TEST_IN(begin, end, a_feed_that_is_started_anew_gets_the_list_soon) {
	int64_t now_ns = clock_now_ns();
	struct diag diag;

	scratch_write_program("postqueue", "exit 0");
	is_listed(now_ns);
	for (int i = 1; i <= 3; i++) {
		close(role.fd);
		role.fd = mta_commands_link(&supervisor.mta, MTA_ASKER_FEED, &diag);
		assert_true(ask(MTA_LIST, 0, NUMBER, NULL));
		assert_int_equal(outcome_at(MTA_LIST, NULL, now_ns + i * NS_PER_SECOND),
		    MTA_TOO_SOON);
	}
	is_listed(now_ns + 5 * NS_PER_SECOND);
	assert_true(ask(MTA_LIST, 0, NUMBER, NULL));
	assert_int_equal(outcome_at(MTA_LIST, NULL, now_ns + 64 * NS_PER_SECOND), MTA_TOO_SOON);
}

TEST_IN(begin, end, one_reload_a_minute) {
	int64_t now_ns = clock_now_ns();

	scratch_write_program("postfix", "cd `dirname $0`; echo \"$@\" >>told");
	block.generation.mtas[0].may_reload = 1;
	as_the_keeper();
	assert_true(ask(MTA_RELOAD, 0, NUMBER, NULL));
	assert_int_equal(outcome_at(MTA_RELOAD, NULL, now_ns), 0);
	assert_true(ask(MTA_RELOAD, 0, NUMBER, NULL));
	assert_int_equal(outcome_at(MTA_RELOAD, NULL, now_ns + 59 * NS_PER_SECOND),
	    MTA_TOO_SOON);
	assert_string_equal(scratch_take("told"), "-c /etc/postfix-out reload\n");
	assert_true(ask(MTA_RELOAD, 0, NUMBER, NULL));
	assert_int_equal(outcome_at(MTA_RELOAD, NULL, now_ns + 60 * NS_PER_SECOND), 0);
}

/* --- links ------------------------------------------------------------------------------ */

TEST_IN(begin, end, garbage_costs_the_link) {
	struct mta_outcome outcome;
	int fd;

	assert_int_equal(send(role.fd, "garbage", 7, 0), 7);
	assert_int_equal(news(&outcome, &fd, clock_now_ns()), MTA_LINK_ENDED);
	mta_link_close(&role);
	assert_false(ask(MTA_LIST, 0, NUMBER, NULL));
	assert_non_null(strstr(last_line, "from=feed"));
}

TEST_IN(begin, end, another_role_hears_nothing) {
	struct mta_outcome outcome;
	struct diag diag;
	int fd, status;

	scratch_write_program("postqueue", "exit 0");
	assert_true(ask(MTA_REQUEUE, 0, NUMBER, "ABCDEF"));
	mta_commands_turn(&supervisor, clock_now_ns());
	close(role.fd);
	role.fd = mta_commands_link(&supervisor.mta, MTA_ASKER_FEED, &diag);
	assert_true(subprocess_list_bury(&supervisor.programs, waitpid(-1, &status, 0),
	    status));
	assert_int_equal(mta_link_next(&role, &outcome, &fd), MTA_NO_NEWS);
}

TEST_GROUP(scratch_open, scratch_close)
