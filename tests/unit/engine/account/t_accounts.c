/* SPDX-License-Identifier: ISC */
/* Accounts: what is charged, given back and answered, in virtual time; what a death leaves. */
#include <sys/mman.h>
#include <sys/wait.h>
#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/account/accounts.h"
#include "segment/file/internal.h"
#include "tests/unit/random.h"

#define STAFF \
	"classes = ();\n" \
	"accounts = ( { name = \"staff\"; match = [ \"*@example.org\", \"alice\" ];\n" \
	"  each = { recipients = [ \"5/1h\", \"20/1d\" ]; messages = \"3/1h\"; bytes = \"100k/1h\";\n" \
	"           recipients_per_message = 4; };\n" \
	"  all = { recipients = \"12/1h\"; }; free = \"local.example\"; },\n" \
	"  { name = \"seen\"; match = \"obs*\"; observe = true; each = { recipients = \"1/1h\"; }; },\n" \
	"  { name = \"hard\"; match = \"*\"; action = \"reject\"; each = { recipients = \"2/1h\"; }; } );\n"

#include "tests/unit/engine/account/accounts_asked.h"

TEST_IN(begin, site_end, a_login_at_its_limit) {
	struct account_answer answer;

	for (unsigned i = 0; i < 5; i++) {
		char instance[16], to[16];

		snprintf(instance, sizeof(instance), "%x.1.1.%u", 10 + i, i);
		snprintf(to, sizeof(to), "r%u@x", i);
		is_yes(rcpt("alice", instance, to));
	}
	answer = rcpt("ALICE", "20.1.1.1", "x@x");
	is_no(answer, REASON_ACCOUNT_RECIPIENTS, 5, 5);
	assert_int_equal(answer.window_s, 3600);
	assert_true(answer.wait_ns > 55 * MINUTE && answer.wait_ns <= 65 * MINUTE);
	assert_int_equal(answer.line, 10);
	/* others are not touched; from then on there is room */
	is_yes(rcpt("bob@example.org", "21.1.1.1", "x@x"));
	now_ns += answer.wait_ns - 1;
	is_no(rcpt("alice", "20.1.1.2", "x@x"), REASON_ACCOUNT_RECIPIENTS, 5, 5);
	now_ns += 1;
	is_yes(rcpt("alice", "20.1.1.2", "x@x"));
}

TEST_IN(begin, site_end, what_is_given_back) {
	/* another transaction of the same process */
	is_yes(rcpt("alice", "a1.5.5.0", "x@x"));
	is_yes(rcpt("alice", "a1.5.5.0", "y@x"));
	assert_int_equal(used("alice"), 2);
	is_yes(rcpt("bob@example.org", "a1.5.6.1", "y@x"));
	assert_int_equal(used("alice"), 0);
	assert_int_equal(used("bob@example.org"), 1);
	/* its connection ends */
	is_yes(rcpt("alice", "a2.5.5.0", "x@x"));
	engine_account_process_over(site.engine, rcpt("alice", "a2.5.5.0", "y@x").process, false, now_ns);
	assert_int_equal(used("alice"), 0);
	/* nothing is heard of it for an hour */
	is_yes(rcpt("alice", "a3.5.5.0", "x@x"));
	engine_accounts_turn(site.engine, site.generation, now_ns + HOUR - NS_PER_SECOND);
	assert_int_equal(used("alice"), 1);
	engine_accounts_turn(site.engine, site.generation, now_ns + HOUR + NS_PER_SECOND);
	assert_int_equal(used("alice"), 0);
	/* what ended well is not; some were turned away by others */
	is_yes(rcpt("alice", "a4.5.5.0", "x@x"));
	is_yes(rcpt("alice", "a4.5.5.0", "y@x"));
	is_yes(rcpt("alice", "a4.5.5.0", "z@x"));
	is_yes(eom("alice", "a4.5.5.0", 2, 1000));
	assert_int_equal(used("alice"), 2);
	is_yes(rcpt("bob@example.org", "a4.5.5.1", "y@x"));
	engine_account_process_over(site.engine, rcpt("bob@example.org", "a4.5.5.1", "y@x").process, false,
	    now_ns);
	assert_int_equal(used("alice"), 2);
}

TEST_IN(begin, site_end, asked_again) {
	is_yes(rcpt("alice", "b1.5.5.0", "x@x"));
	is_yes(rcpt("alice", "b1.5.5.0", "x@x"));
	assert_int_equal(used("alice"), 1);
	is_yes(eom("alice", "b1.5.5.0", 1, 1000));
	is_yes(eom("alice", "b1.5.5.0", 1, 1000));
	is_yes(eom("alice", "b2.5.5.0", 1, 1000));
	is_yes(eom("alice", "b2.5.5.1", 1, 1000));
	/* three messages, the third of which two processes were asked about */
	is_no(rcpt("alice", "b2.5.5.2", "x@x"), REASON_ACCOUNT_MESSAGES, 3, 3);
	assert_int_equal(used("alice"), 3);
	/* without an instance each question counts, and the end adds no recipient */
	is_yes(rcpt("carol@example.org", NULL, "x@x"));
	is_yes(eom("carol@example.org", NULL, 1, 10));
	assert_int_equal(used("carol@example.org"), 1);
}

TEST_IN(begin, site_end, messages_and_bytes) {
	struct account_answer answer;

	is_yes(rcpt("alice", "c1.5.5.0", "x@x"));
	is_yes(eom("alice", "c1.5.5.0", 1, 60 * 1024 + 1));
	is_yes(rcpt("alice", "c1.5.5.1", "x@x"));
	/* 61 of 100 KiB: the recipient is given back, too */
	is_no(eom("alice", "c1.5.5.1", 1, 40 * 1024), REASON_ACCOUNT_BYTES, 61, 100);
	assert_int_equal(used("alice"), 1);
	/* announced: it is not begun */
	answer = ask((struct account_question){ .login = "alice", .instance = "c1.5.5.2",
		.recipient = "x@x", .size = 101 * 1024 });
	assert_int_equal(answer.reason, REASON_ACCOUNT_BYTES);
	assert_true(answer.wait_ns == INT64_MAX);
	is_yes(eom("alice", "c1.5.5.3", 1, 39 * 1024));
}

/* Later it is as much too large. */
TEST_IN(begin, site_end, a_message_above_its_whole_limit_is_not_asked_to_come_again) {
	struct account_answer answer;

	is_yes(rcpt("alice", "c2.5.5.0", "x@x"));
	answer = eom("alice", "c2.5.5.0", 1, 100 * 1024 + 1);
	assert_int_equal(answer.verdict, VERDICT_REFUSE);
	assert_true(answer.rejects);
	assert_int_equal(used("alice"), 0);
	answer = eom("obs1", "c2.5.5.1", 2, 1);
	assert_int_equal(answer.verdict, VERDICT_ADMIT);
	assert_true(answer.observed && !answer.rejects);
}

TEST_IN(begin, site_end, postmaster_is_never_too_many) {
	for (unsigned i = 0; i < 4; i++) {
		char to[32];

		snprintf(to, sizeof(to), "u%u@local.example", i);
		is_yes(rcpt("alice", "d2.5.5.0", to));
	}
	is_no(rcpt("alice", "d2.5.5.0", "u5@local.example"), REASON_ACCOUNT_PER_MESSAGE, 4, 4);
	is_yes(rcpt("alice", "d2.5.5.0", "postmaster@x"));
	is_yes(rcpt("alice", "d2.5.5.0", "Abuse@x"));
}

TEST_IN(begin, site_end, free_and_many) {
	struct account_answer answer;

	for (unsigned i = 0; i < 4; i++)
		is_yes(rcpt("alice", "d1.5.5.0", i % 2 == 0 ? "x@local.example" : "postmaster@x"));
	assert_int_equal(used("alice"), 0);
	answer = rcpt("alice", "d1.5.5.0", "x@x");
	is_no(answer, REASON_ACCOUNT_PER_MESSAGE, 4, 4);
	assert_int_equal(answer.window_s, 0);
	is_yes(eom("alice", "d1.5.5.0", 4, 10));
	assert_int_equal(used("alice"), 0);
}

TEST_IN(begin, site_end, all_together) {
	struct account_answer answer;

	for (unsigned i = 0; i < 12; i++) {
		char login[32], instance[16];

		snprintf(login, sizeof(login), "u%u@example.org", i);
		snprintf(instance, sizeof(instance), "%x.1.1.1", 0x100 + i);
		is_yes(rcpt(login, instance, "x@x"));
	}
	answer = rcpt("alice", "200.1.1.1", "x@x");
	is_no(answer, REASON_ACCOUNT_POOL, 12, 12);
	assert_int_equal(answer.line, 12);
	assert_int_equal(used("alice"), 0);
	/* one of them is given back */
	is_yes(rcpt("zoe", "100.1.1.2", "x@x"));
	is_yes(rcpt("alice", "200.1.1.1", "x@x"));
}

TEST_IN(begin, site_end, observed_and_rejected) {
	struct account_answer answer;

	is_yes(rcpt("obs1", "e1.5.5.0", "x@x"));
	answer = rcpt("obs1", "e1.5.5.0", "y@x");
	assert_int_equal(answer.verdict, VERDICT_ADMIT);
	assert_true(answer.observed);
	assert_int_equal(used("obs1"), 1);
	is_yes(eom("obs1", "e1.5.5.0", 2, 10));
	assert_int_equal(used("obs1"), 1);
	is_yes(rcpt("zoe", "e2.5.5.0", "x@x"));
	is_yes(rcpt("zoe", "e2.5.5.0", "y@x"));
	answer = rcpt("zoe", "e2.5.5.0", "z@x");
	assert_int_equal(answer.verdict, VERDICT_REFUSE);
	/* a bounce is free */
	engine_account_ask(site.engine, site.generation, &(struct account_question){
		.login = "zoe", .login_length = 3, .recipient = "q@x", .recipient_length = 3 },
	    now_ns, &answer);
	is_yes(answer);
	assert_int_equal(used("zoe"), 2);
}

TEST_IN(begin, site_end, strange_logins) {
	static char long_login[LOGIN_MAX + 2];

	memset(long_login, 'L', LOGIN_MAX + 1);
	for (unsigned i = 0; i < 5; i++)
		is_yes(rcpt(long_login, "f1.5.5.0", "x@x"));
	long_login[1000] = '\0';
	is_yes(rcpt(long_login, "f2.5.5.0", "x@x"));
	long_login[0] = 'l';
	is_yes(rcpt(long_login, "f2.5.5.0", "y@x"));
	assert_int_equal(used(long_login), 2);
	is_yes(rcpt("\xc3\x84@\x01", "f3.5.5.0", "x@x"));
	assert_int_equal(used("\xc3\x84@\x01"), 1);
	assert_int_equal(used("\xc3\xa4@\x01"), 0);
}

TEST_IN(begin, site_end, counts_survive) {
	for (unsigned i = 0; i < 2; i++)
		is_yes(eom("alice", i == 0 ? "71.1.1.0" : "71.1.1.1", 2, 10));
	/* adopted, then rebuilt for another size */
	site_restart(&site, 64, STAFF);
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_int_equal(used("alice"), 4);
	site_restart(&site, 4096, STAFF);
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_int_equal(used("alice"), 4);
	assert_true(engine_account_forget(site.engine, "Alice", 5, now_ns));
	assert_false(engine_account_forget(site.engine, "alicia", 6, now_ns));
	assert_int_equal(used("alice"), 0);
	/* limits change: counts stay */
	is_yes(rcpt("alice", "72.1.1.0", "x@x"));
	site_reload(&site, "classes = (); accounts = ( { name = \"x\"; match = \"*\";\n"
	    "each = { recipients = \"1/1h\"; }; } );");
	is_no(rcpt("alice", "73.1.1.0", "x@x"), REASON_ACCOUNT_RECIPIENTS, 1, 1);
	/* none at all */
	site_reload(&site, "classes = ();");
	is_yes(rcpt("alice", "73.1.1.1", "x@x"));
}

/* The state was adopted, which had no tables of accounts: nobody was counted. */
TEST_IN(begin, site_end, the_first_entry_counts_after_a_restart) {
	site_restart(&site, 64, "classes = ();\n");
	is_yes(rcpt("alice", "74.1.1.0", "x@x"));
	site_restart(&site, 64, STAFF);
	for (unsigned i = 0; i < 5; i++) {
		char instance[16];

		snprintf(instance, sizeof(instance), "%x.1.1.0", 0x7500 + i);
		is_yes(rcpt("alice", instance, "x@x"));
	}
	is_no(rcpt("alice", "76.1.1.0", "x@x"), REASON_ACCOUNT_RECIPIENTS, 5, 5);
}

/* A table of 64 places: whoever is above half of a limit stays. */
TEST_IN(begin, site_end, who_is_evicted) {
	is_yes(rcpt("zoe", "81.1.1.1", "x@x"));
	is_yes(rcpt("zoe", "82.1.1.1", "x@x"));
	for (unsigned i = 0; i < 2000; i++) {
		char login[32], instance[16];

		now_ns += NS_PER_SECOND / 10;
		snprintf(login, sizeof(login), "guest%u", i);
		snprintf(instance, sizeof(instance), "%x.1.1.1", 0x1000 + i);
		is_yes(rcpt(login, instance, "x@x"));
	}
	assert_int_equal(used("zoe"), 2);
	assert_true(atomic_load(&site.segment->header->counters[COUNTER_ACCOUNTS_EVICTED]) > 0);
	assert_int_equal(rcpt("zoe", "83.1.1.1", "x@x").verdict, VERDICT_REFUSE);
}

/* Processes that race for the last places, and are killed: never one above. */
static _Atomic uint64_t *questions;	/* of all processes */

static void race(unsigned number, int64_t until) {
	struct random random = { number };
	uint64_t yes = 0;

	for (unsigned i = 0; clock_now_ns() < until; i++) {
		char login[32], instance[32];

		snprintf(login, sizeof(login), "racer%u", random_below(&random, 4));
		snprintf(instance, sizeof(instance), "%x.1.1.%x", number, i);
		yes += rcpt(login, instance, "x@x").verdict == VERDICT_ADMIT;
		yes += eom(login, instance, 1, 10).verdict == VERDICT_ADMIT;
		atomic_fetch_add(questions, 2);
	}
	_exit(yes > 0 ? 0 : 1);
}

/* RACE_QUESTIONS: the long form has so many. */
TEST_IN(begin, site_end, never_one_above) {
	const char *wanted = getenv("RACE_QUESTIONS");
	uint64_t least = wanted == NULL ? 0 : strtoull(wanted, NULL, 10);
	int64_t until = clock_now_ns() + NS_PER_SECOND;
	struct random random = random_seeded("never_one_above");
	pid_t children[8];

	questions = mmap(NULL, sizeof(*questions), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(questions != MAP_FAILED);
	for (unsigned i = 0; i < 8; i++)
		if ((children[i] = fork()) == 0)
			race(100 + i, until + 1000 * NS_PER_SECOND);
	for (unsigned killed = 0; clock_now_ns() < until || atomic_load(questions) < least;
	     killed++) {
		unsigned i = random_below(&random, 8);

		usleep(random_below(&random, 4000));
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
		if ((children[i] = fork()) == 0)
			race(200 + killed, until + 1000 * NS_PER_SECOND);
		for (unsigned j = 0; j < 4; j++) {
			char login[16];

			snprintf(login, sizeof(login), "racer%u", j);
			assert_true(used(login) <= 2);
		}
	}
	for (unsigned i = 0; i < 8; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	/* nothing is stuck */
	is_yes(rcpt("late", "91.1.1.1", "x@x"));
}
