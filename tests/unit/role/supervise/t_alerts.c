/* SPDX-License-Identifier: ISC */
/* Alerts: which are told, what the command is given, and what becomes of one that hangs or
 * fails. */
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "tests/unit/scratch.h"
#include "role/supervise/alerts.h"
#include "tests/unit/role/supervise/supervised.h"

#define BEGUN_NS	(1000 * NS_PER_SECOND)
#define HOSTILE		"x\";touch${IFS}/tmp/postern-was-here;`id`|$(id)"

static _Atomic uint64_t counters[COUNTER_COUNT];

static void program(const char *script) {
	char text[4096];

	snprintf(text, sizeof(text), "cd %s || exit 1\n%s", scratch, script);
	scratch_write_program("tell", text);
}

static int begin(void **state) {
	struct generation_alert *alert = &block_begin()->alert;

	memset((void *)counters, 0, sizeof(counters));
	*alert = (struct generation_alert){ .word_count = 2, .on = (1u << ALERT_KINDS) - 1,
		.processes = 2, .interval_ns = 600 * NS_PER_SECOND,
		.timeout_ns = 10 * NS_PER_SECOND,
		.rate = { .count = 10, .period_ns = 60 * NS_PER_SECOND } };
	alert->words[0] = text("%s/tell", scratch);
	alert->words[1] = text("root");
	alerts_init(&supervisor.alerts, counters);
	unlink(scratch_path("told"));
	return catch_log(state);
}

static int end(void **state) {
	subprocess_list_stop(&supervisor.programs);
	return release_log(state);
}

static void tell(enum alert_kind kind, const char *subject, int64_t now_ns) {
	struct alert alert = { .kind = kind, .text = "421 4.7.0 busy", .id = "0fq3k9tm2a7x",
		.rule = "google-rate", .for_s = 300, .wall_s = 0 };

	log_quote(alert.subject, sizeof(alert.subject), subject, strlen(subject));
	alerts_tell(&supervisor.alerts, &block.generation, &alert, now_ns);
}

static unsigned running(void) {
	unsigned count = 0;

	for (unsigned i = 0; i < ALERTS_AT_ONCE_MAX; i++)
		count += supervisor.alerts.running[i].child.pid != 0;
	return count;
}

/* Lets the supervisor work at this time until nothing runs or waits. */
static void work(int64_t now_ns) {
	for (unsigned i = 0; i < 4000; i++) {
		static const struct timespec turn = { .tv_nsec = 5 * NS_PER_MS };
		int status;
		pid_t pid;

		subprocess_list_turn(&supervisor.programs, now_ns);
		alerts_turn(&supervisor, now_ns);
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			assert_true(subprocess_list_bury(&supervisor.programs, pid, status));
		if (running() == 0 && supervisor.alerts.count == 0)
			return;
		(void)nanosleep(&turn, NULL); /* LINT-SLEEP: another process works */
	}
	fail_msg("a command does not end");
}

static uint64_t counted(enum counter counter) {
	return counters[counter];
}

/* --- what it is given -------------------------------------------------------------- */

TEST_IN(begin, end, every_fact_is_one_argument_or_variable) {
	const char *file;

	program("{ echo $#; echo \"$1\"; echo \"$2\"; env | grep ^POSTERN | sort; } >told");
	tell(ALERT_SUSPENDED, HOSTILE, BEGUN_NS);
	work(BEGUN_NS);
	file = scratch_take("told");
	assert_non_null(strstr(file, "2\nroot\nsuspended x\\x22;touch${IFS}"
	    "/tmp/postern-was-here;`id`|$(id): 421 4.7.0 busy (id 0fq3k9tm2a7x)\n"));
	assert_non_null(strstr(file, "POSTERN_ALERT_FOR=300\n"
	    "POSTERN_ALERT_ID=0fq3k9tm2a7x\n"
	    "POSTERN_ALERT_KIND=suspended\n"
	    "POSTERN_ALERT_LEFT_OUT=0\n"
	    "POSTERN_ALERT_OBSERVED=no\n"
	    "POSTERN_ALERT_RULE=google-rate\n"
	    "POSTERN_ALERT_SUBJECT=x\\x22;touch${IFS}/tmp/postern-was-here;`id`|$(id)\n"
	    "POSTERN_ALERT_TEXT=421 4.7.0 busy\n"
	    "POSTERN_ALERT_TIME=1970-01-01T00:00:00Z\n"));
	assert_int_equal(access("/tmp/postern-was-here", F_OK), -1);
	assert_int_equal(counted(COUNTER_ALERTS_TOLD), 1);
	assert_int_equal(counted(COUNTER_ALERT_FAILURES), 0);
}

TEST_IN(begin, end, the_longest_facts_fit) {
	char subject[ALERT_SUBJECT_MAX];
	struct alert alert = { .kind = ALERT_CEILING };

	program("printf %s \"$2\" >told");
	memset(subject, 'x', sizeof(subject));
	memset(alert.subject, 's', sizeof(alert.subject) - 1);
	memset(alert.text, 't', sizeof(alert.text) - 1);
	memset(alert.rule, 'r', sizeof(alert.rule) - 1);
	memset(alert.id, 'i', sizeof(alert.id) - 1);
	alerts_tell(&supervisor.alerts, &block.generation, &alert, BEGUN_NS);
	work(BEGUN_NS);
	assert_int_equal(strlen(scratch_take("told")), strlen("ceiling ") + ALERT_SUBJECT_MAX + 2 +
	    ALERT_TEXT_MAX + strlen(" (id )") + sizeof(alert.id) - 1);
}

/* --- which are told ---------------------------------------------------------------- */

/* A keeper that reports all the time uses up alert.rate, and all places. */
TEST_IN(begin, end, a_death_is_told_whatever_the_keeper_reports) {
	struct child one = { .name = "policy.0" }, other = { .name = "policy.1" };
	char subject[16];

	for (unsigned i = 0; i < 100; i++) {
		snprintf(subject, sizeof(subject), "d%u.example", i);
		tell(ALERT_SUSPENDED, subject, BEGUN_NS);
	}
	assert_int_equal(supervisor.alerts.count, 10);
	alerts_tell_death(&supervisor, &one, SIGKILL, BEGUN_NS);
	assert_int_equal(supervisor.alerts.count, 11);
	block.generation.alert.rate.count = 10000;
	for (unsigned i = 0; i < 100; i++) {
		snprintf(subject, sizeof(subject), "e%u.example", i);
		tell(ALERT_SUSPENDED, subject, BEGUN_NS + 100 * NS_PER_SECOND);
	}
	assert_int_equal(supervisor.alerts.count, ALERTS_WAITING_MAX);
	alerts_tell_death(&supervisor, &other, SIGKILL, BEGUN_NS + 100 * NS_PER_SECOND);
	assert_int_equal(supervisor.alerts.count, ALERTS_WAITING_MAX + 1);
}

/* Its 64-bit FNV-1a, with that kind, is that of the death of policy.0: where that was the key
 * of what was told, a keeper that reported it once in the interval had no death told. */
TEST_IN(begin, end, no_alert_of_another_kind_hides_a_death) {
	static const char subject[] =
	    "hfhdqwsczrnfsguxcfjqcqvwhrbhmvxqitgxrhtqhhqxjmztvicmkuiykbzxludgnbmljl"
	    "ljhtuokdqokzgkypaqiyfmgehgmrrhrfghjlxebhlmcjtksmnxisseisdahyfrurkcrrcd"
	    "neeouqhjisqjwvjovppecpwnywqrulxxjolqoxmeuqzvrbqjgxnikhoxengsqgpozqtdvr"
	    "sqrhjcalcebftsoqidoksppyxguthhewmfutowvcrotgbwigmvctbnjpuzhb";
	struct child child = { .name = "policy.0" };

	tell(ALERT_CEILING, subject, BEGUN_NS);
	assert_int_equal(supervisor.alerts.count, 1);
	alerts_tell_death(&supervisor, &child, SIGKILL, BEGUN_NS);
	assert_int_equal(supervisor.alerts.count, 2);
	/* nor where the hashes are the same */
	supervisor.alerts.remembered[0].hash = supervisor.alerts.remembered[1].hash;
	supervisor.alerts.remembered[1].told_ns = 0;
	alerts_tell_death(&supervisor, &child, SIGKILL, BEGUN_NS);
	assert_int_equal(supervisor.alerts.count, 3);
}

/* Strangers choose destinations: none could find two of one hash. */
TEST_IN(begin, end, the_key_of_subjects_is_another_in_each_daemon) {
	static struct alerts other;

	alerts_init(&other, counters);
	assert_memory_not_equal(&other.key, &supervisor.alerts.key, sizeof(other.key));
	tell(ALERT_CEILING, "a.example", BEGUN_NS);
	assert_int_equal(supervisor.alerts.remembered[0].hash,
	    siphash13(&supervisor.alerts.key, "a.example", strlen("a.example")));
}

TEST_IN(begin, end, the_same_is_told_once_in_the_interval) {
	program("echo \"$2\" $POSTERN_ALERT_LEFT_OUT >>told");
	for (unsigned i = 0; i < 4; i++)
		tell(ALERT_SUSPENDED, "a.example", BEGUN_NS + i * 100 * NS_PER_SECOND);
	work(BEGUN_NS);
	assert_string_equal(scratch_take("told"), "suspended a.example: 421 4.7.0 busy (id 0fq3k9tm2a7x) (3 "
	    "more suppressed) 3\n");
	assert_int_equal(counted(COUNTER_ALERTS_LEFT_OUT), 3);
	/* another kind, and another subject, are not the same */
	tell(ALERT_CEILING, "a.example", BEGUN_NS + NS_PER_SECOND);
	work(BEGUN_NS);
	tell(ALERT_SUSPENDED, "b.example", BEGUN_NS + NS_PER_SECOND);
	work(BEGUN_NS);
	assert_string_equal(scratch_take("told"), "ceiling a.example: 421 4.7.0 busy (id 0fq3k9tm2a7x) 0\n"
	    "suspended b.example: 421 4.7.0 busy (id 0fq3k9tm2a7x) 0\n");
	/* the interval is over, to the second */
	tell(ALERT_SUSPENDED, "a.example", BEGUN_NS + 600 * NS_PER_SECOND - 1);
	assert_int_equal(counted(COUNTER_ALERTS_LEFT_OUT), 4);
	assert_true(alerts_due(&supervisor.alerts, &block.generation, ALERT_SUSPENDED,
	    "a.example", BEGUN_NS + 600 * NS_PER_SECOND));
	tell(ALERT_SUSPENDED, "a.example", BEGUN_NS + 600 * NS_PER_SECOND);
	work(BEGUN_NS);
	assert_int_equal(counted(COUNTER_ALERTS_TOLD), 4);
	assert_int_equal(counted(COUNTER_ALERTS_LEFT_OUT), 4);
}

TEST_IN(begin, end, a_storm_is_cut_to_the_rate) {
	char name[32];

	program("echo >>told");
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "d%u.example", i);
		tell(ALERT_SUSPENDED, name, BEGUN_NS);
	}
	assert_int_equal(supervisor.alerts.count, 10);
	work(BEGUN_NS);
	assert_int_equal(strlen(scratch_take("told")), 10);
	assert_int_equal(counted(COUNTER_ALERTS_TOLD), 10);
	assert_int_equal(counted(COUNTER_ALERTS_LEFT_OUT), 990);
	/* 10 in a minute: the next one 6 s later */
	tell(ALERT_SUSPENDED, "late.example", BEGUN_NS + 6 * NS_PER_SECOND - 1);
	assert_int_equal(supervisor.alerts.count, 0);
	tell(ALERT_SUSPENDED, "late.example", BEGUN_NS + 6 * NS_PER_SECOND);
	assert_int_equal(supervisor.alerts.count, 1);
}

TEST_IN(begin, end, what_waits_is_bounded) {
	char name[32];

	program("exit 0");
	block.generation.alert.rate.count = 10000;
	for (unsigned i = 0; i < ALERTS_REMEMBERED + 100; i++) {
		snprintf(name, sizeof(name), "d%u.example", i);
		tell(ALERT_SUSPENDED, name, BEGUN_NS + i);
	}
	assert_int_equal(supervisor.alerts.count, ALERTS_WAITING_MAX);
	assert_int_equal(counted(COUNTER_ALERTS_LEFT_OUT),
	    ALERTS_REMEMBERED + 100 - ALERTS_WAITING_MAX);
	/* one that was left out may be told when it comes again */
	assert_true(alerts_due(&supervisor.alerts, &block.generation, ALERT_SUSPENDED,
	    "d40.example", BEGUN_NS));
}

TEST_IN(begin, end, what_nobody_asked_for_is_not_told) {
	program("echo >>told");
	block.generation.alert.on = 1u << ALERT_GATE;
	tell(ALERT_SUSPENDED, "a.example", BEGUN_NS);
	work(BEGUN_NS);
	assert_string_equal(scratch_take("told"), "");
	tell(ALERT_GATE, "gate", BEGUN_NS);
	block.generation.alert.word_count = 0;	/* by a reload */
	work(BEGUN_NS);
	tell(ALERT_GATE, "gate", BEGUN_NS + 900 * NS_PER_SECOND);
	work(BEGUN_NS);
	assert_string_equal(scratch_take("told"), "");
	assert_int_equal(counted(COUNTER_ALERTS_TOLD), 0);
	assert_int_equal(counted(COUNTER_ALERTS_LEFT_OUT), 0);
}

/* --- how it ends ---------------------------------------------------------------------- */

TEST_IN(begin, end, as_many_at_once_as_may_and_none_hangs) {
	/* LINT-SLEEP: it is to hang */
	program("case \"$2\" in *hangs*) sleep 1000 & sleep 1000;; *) echo \"$2\" >>told;; esac");
	tell(ALERT_SUSPENDED, "hangs.example", BEGUN_NS);
	tell(ALERT_CEILING, "hangs.example", BEGUN_NS);
	tell(ALERT_SUSPENDED, "a.example", BEGUN_NS);
	alerts_turn(&supervisor, BEGUN_NS);
	assert_int_equal(running(), 2);
	assert_int_equal(supervisor.alerts.count, 1);
	assert_int_equal(subprocess_list_next_ns(&supervisor.programs), BEGUN_NS + 10 * NS_PER_SECOND);
	work(BEGUN_NS + 10 * NS_PER_SECOND);
	assert_string_equal(scratch_take("told"), "suspended a.example: 421 4.7.0 busy (id 0fq3k9tm2a7x)\n");
	assert_non_null(strstr(last_line, "event=alert-command kind="));
	assert_non_null(strstr(last_line, "signal=9 killed=yes"));
	assert_int_equal(counted(COUNTER_ALERT_FAILURES), 2);
	assert_int_equal(subprocess_list_next_ns(&supervisor.programs), INT64_MAX);
}

TEST_IN(begin, end, what_fails_is_logged_and_counted) {
	program("echo 'no \"luck\"' >&2; exit 3");
	tell(ALERT_ROLE, "policy.0", BEGUN_NS);
	work(BEGUN_NS);
	assert_non_null(strstr(last_line, "event=alert-command kind=role "));
	assert_non_null(strstr(last_line, "exit=3 text=\"no 'luck'\""));
	assert_int_equal(unlink(scratch_path("tell")), 0);
	tell(ALERT_ROLE, "policy.1", BEGUN_NS);
	work(BEGUN_NS);
	assert_int_equal(counted(COUNTER_ALERT_FAILURES), 2);
}

TEST_IN(begin, end, it_runs_as_whom_the_roles_run) {
	if (geteuid() != 0)
		skip();
	supervisor.identity = (struct identity){ .drop = true, .uid = 65534, .gid = 65534 };
	program("echo $(id -u) $(id -g) $(id -G) >told");
	assert_int_equal(chmod(scratch, 0777), 0);
	tell(ALERT_GATE, "gate", BEGUN_NS);
	work(BEGUN_NS);
	assert_string_equal(scratch_take("told"), "65534 65534 65534\n");
}

TEST_GROUP(scratch_open, scratch_close)
