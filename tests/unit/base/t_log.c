/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>

#include "base/clock.h"
#include "tests/unit/caught_log.h"

TEST_IN(catch_log, release_log, one_line_an_event) {
	log_event(EVENT_STARTED, "pid=%d", 17);
	assert_string_equal(last_line, "event=started pid=17");
	log_set_role("policy.1");
	errno = EXDEV;
	log_event(EVENT_STARTED, "text=%s", "a\nb\x7f\x01");
	assert_int_equal(errno, EXDEV);
	assert_string_equal(last_line, "event=started role=policy.1 text=a?b??");
	log_set_role("a-role-name-that-is-longer-than-it-may-be");
	log_event(EVENT_STARTED, "x=1");
	assert_string_equal(last_line,
	    "event=started role=a-role-name-that-is-longer-than x=1");
	log_set_role("");
	assert_int_equal(logged, 3);
}

TEST_IN(catch_log, release_log, a_long_line_is_cut) {
	char text[3000];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_event(EVENT_STARTED, "%s", text);
	assert_int_equal(strlen(last_line), 2047);
}

/* refused: 20 a second.  Two windows may be touched while the test runs. */
TEST_IN(catch_log, release_log, a_flood_is_cut_and_told) {
	unsigned passed, told;
	const char *at;

	for (int i = 0; i < 1000; i++)
		log_event(EVENT_REFUSED, "n=%d", i);
	passed = logged;
	assert_in_range(passed, 20, 200);
	log_flush();
	assert_int_equal(logged, passed + 1);
	at = strstr(last_line, "left_out=");
	assert_non_null(at);
	assert_ptr_equal(strstr(last_line, "event=refused "), last_line);
	told = (unsigned)strtoul(at + 9, NULL, 10);
	assert_in_range(told + passed, 980, 1000);
	log_flush();
	assert_int_equal(logged, passed + 1);
}

TEST_IN(catch_log, release_log, the_next_line_tells_what_was_left_out) {
	int64_t begin;
	unsigned lines;

	for (int i = 0; i < 100; i++)
		log_event(EVENT_DEFERRED, "n=%d", i);
	lines = logged;
	begin = clock_now_ns();
	while (logged == lines && clock_now_ns() - begin < 20 * NS_PER_SECOND) {
		poll(NULL, 0, 20);
		log_event(EVENT_DEFERRED, "n=%d", -1);
	}
	assert_int_equal(logged, lines + 1);
	assert_non_null(strstr(last_line, "event=deferred left_out="));
	assert_non_null(strstr(last_line, " n=-1"));
}

/* Asked first, as many pass and as many are told as left out as if none had asked. */
TEST_IN(catch_log, release_log, whoever_asks_before_a_flood_loses_no_count) {
	unsigned passed;

	log_flush();
	catch_log(NULL);
	for (int i = 0; i < 1000; i++)
		if (log_wants(EVENT_OBSERVED))
			log_event(EVENT_OBSERVED, "n=%d", i);
	passed = logged;
	assert_in_range(passed, 20, 200);
	log_flush();
	assert_in_range((unsigned)strtoul(strstr(last_line, "left_out=") + 9, NULL, 10) + passed,
	    980, 1000);
}

TEST_IN(catch_log, release_log, one_flood_does_not_silence_another_event) {
	for (int i = 0; i < 100; i++)
		log_event(EVENT_REFUSED, "n=%d", i);
	log_event(EVENT_STATE, "n=1");
	assert_string_equal(last_line, "event=state n=1");
	log_flush();
}

static void check_quote(size_t size, const char *text, size_t length, const char *wanted) {
	char *out = malloc(size);

	assert_non_null(out);
	assert_ptr_equal(log_quote(out, size, text, length), out);
	assert_string_equal(out, wanted);
	free(out);
}

TEST(quoted_values_are_one_safe_token) {
	check_quote(64, "mx.example.com", 14, "mx.example.com");
	check_quote(64, "", 0, "-");
	check_quote(64, "a b\"c\\d\n", 8, "a\\x20b\\x22c\\x5cd\\x0a");
	check_quote(64, "\0\x80\xff%s=[]", 8, "\\x00\\x80\\xff%s=[]");
	check_quote(8, "abcdefg", 7, "abcdefg");
	check_quote(8, "abcdefgh", 8, "abcd...");
	check_quote(8, "\n\n", 2, "\\x0a...");
	check_quote(9, "\n\n", 2, "\\x0a\\x0a");
	check_quote(8, "abcd\n", 5, "abcd...");
	check_quote(2, "", 0, "-");
	check_quote(1, "abc", 3, "");
	check_quote(2, "abc", 3, ".");
	check_quote(4, "\n", 1, "...");
}

TEST(a_sentence_does_not_end_its_quotes) {
	char out[16];

	assert_ptr_equal(log_sentence(out, sizeof(out), "say \"yes\"\n"), out);
	assert_string_equal(out, "say 'yes'\\x0a");
	assert_string_equal(log_sentence(out, sizeof(out), "\xff\xff\xff\xff"), "\\xff\\xff\\xff");
	assert_string_equal(log_sentence(out, sizeof(out), "abcdefghijklmnopq"), "abcdefghijkl");
	assert_string_equal(log_sentence(out, 4, "abc"), "");
}

/* A reader that never reads must not stop us. */
TEST(a_full_pipe_does_not_block) {
	int fds[2], saved;

	assert_int_equal(pipe(fds), 0);
	saved = dup(STDERR_FILENO);
	assert_true(saved >= 0);
	assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	log_open(LOG_TO_STDERR, "t_log", LOG_MAIL);
	alarm(30);
	for (int i = 0; i < 5000; i++)
		log_event(EVENT_STARTED, "some=%d words=here and=there", i);
	alarm(0);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	close(fds[0]);
	close(fds[1]);
	catch_log(NULL);
	log_flush();
	release_log(NULL);
}

TEST(a_line_on_stderr_is_whole) {
	char text[512];
	int fds[2], saved;
	ssize_t n;

	assert_int_equal(pipe(fds), 0);
	saved = dup(STDERR_FILENO);
	assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	log_open(LOG_TO_STDERR, "t_log", LOG_MAIL);
	log_event(EVENT_STATE, "x=1");
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "Z t_log["));
	assert_non_null(strstr(text, "]: event=state x=1\n"));
	close(saved);
	close(fds[0]);
	close(fds[1]);
}

/* JOURNAL_STREAM counts for the very file that it names. */
TEST(a_line_in_the_journal_has_its_severity) {
	char stream[64], text[512];
	struct stat status;
	int fds[2], saved;
	ssize_t n;

	assert_int_equal(pipe(fds), 0);
	saved = dup(STDERR_FILENO);
	assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(fstat(STDERR_FILENO, &status), 0);
	for (unsigned other = 0; other < 2; other++) {
		snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev,
		    (uintmax_t)status.st_ino + other);
		assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
		log_open(LOG_TO_STDERR, "t_log", LOG_MAIL);
		log_event(EVENT_SYSTEM, "x=2");
	}
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(unsetenv("JOURNAL_STREAM"), 0);
	log_open(LOG_TO_STDERR, "t_log", LOG_MAIL);
	n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_ptr_equal(strstr(text, "<3>event=system x=2\n"), text);
	assert_non_null(strstr(text, "]: event=system x=2\n"));
	close(saved);
	close(fds[0]);
	close(fds[1]);
}

/* With a /dev of its own: 77 where there can be none, or what failed. */
static int logs_to_a_full_disk(void) {
	const struct sockaddr_un log = { .sun_family = AF_UNIX, .sun_path = "/dev/log" };
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	int daemon = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char text[512] = "";

	if (full < 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/dev", "tmpfs", 0, NULL) != 0)
		return 77;
	if (bind(daemon, (const struct sockaddr *)&log, sizeof(log)) != 0)
		return 1;
	(void)dup2(full, STDERR_FILENO);
	log_open(LOG_TO_STDERR, "t_log", LOG_MAIL);
	if (!log_event(EVENT_STATE, "x=3"))
		return 2;
	(void)recv(daemon, text, sizeof(text) - 1, MSG_DONTWAIT);
	return strstr(text, ": event=state x=3") != NULL ? 0 : 3;
}

TEST(a_line_that_a_file_does_not_take_is_in_syslog) {
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(logs_to_a_full_disk());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}
