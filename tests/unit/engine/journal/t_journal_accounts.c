/* SPDX-License-Identifier: ISC */
/* accounts/ of the journal: counters and holds over the loss of the state, of the boot, and with
 * a wall clock that steps. */
#include <sys/stat.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/account/accounts.h"
#include "engine/journal/journal_accounts.h"
#include "engine/journal/journal_keep.h"
#include "engine/journal/journal_restore.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"
#include "tests/unit/site_account.h"

#define MINUTE	(60 * NS_PER_SECOND)
#define HOUR	(60 * MINUTE)
#define SITE \
	"classes = ();\n" \
	"accounts = ( { name = \"staff\"; match = \"*\"; each = { recipients = [ \"5/1h\", \"9/1d\" ]; };\n" \
	"  all = { recipients = \"8/1h\"; }; new = { recipients = \"1/1h\"; for = \"7d\"; };\n" \
	"  health = {}; } );\n"

static int64_t now_ns, wall_ns;
static struct journal_accounts *journal;
static struct journal_news news;
static unsigned damaged;

static void note_news(void *context, const struct journal_news *one) {
	if (one->kind == JOURNAL_NEWS_RESTORED)
		news = *one;
	damaged += one->kind == JOURNAL_NEWS_DAMAGED;
}

static const struct journal_listener listener = { note_news, NULL };

static void open_journal(void) {
	struct diag diag;

	assert_int_equal(journal_accounts_open(&journal, site.engine, site.generation, &listener,
	    now_ns, &diag), 0);
	assert_non_null(journal);
}

static int begin(void **state) {
	char path[160];

	site_open(&site, 64, SITE);
	snprintf(path, sizeof(path), "%s/journal", site.directory);
	(void)mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/journal/accounts", site.directory);
	(void)mkdir(path, 0700);
	now_ns = clock_now_ns();
	wall_ns = clock_wall_ns();
	damaged = 0;
	open_journal();
	return 0;
}

static int end(void **state) {
	journal_keep_close(&journal);
	site_close(&site);
	return 0;
}

static void turns(unsigned count) {
	while (count-- > 0) {
		now_ns += NS_PER_SECOND;
		wall_ns += NS_PER_SECOND;
		journal_accounts_turn(journal, now_ns, wall_ns);
		usleep(2000);	/* its thread syncs meanwhile: the next turn waits for nothing */
	}
}

/* The state file is lost, and all processes; the boot's clock, too, where it is moved. */
static void lose_all(int64_t clock_moves_ns, int64_t wall_moves_ns, bool boots) {
	static const char *const names[] = { "state", "state.sessions" };
	char path[160];

	journal_keep_close(&journal);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", site.directory, names[i]);
		(void)unlink(path);
	}
	site_restart(&site, 64, SITE);
	now_ns += clock_moves_ns;
	wall_ns += wall_moves_ns;
	if (boots)
		site.segment->header->boot_id[0] ^= 1;
	memset(&news, 0, sizeof(news));
	assert_true(engine_journal_restore(site.engine, site.generation, &listener, now_ns,
	    wall_ns));
	segment_has_learned(site.segment, true);
	open_journal();
}

static struct account_answer rcpt(const char *login) {
	static unsigned serial;
	struct account_question question = { .login = login, .login_length = strlen(login),
		.sender = "a@b", .sender_length = 3, .recipient = "r@x", .recipient_length = 3 };
	struct account_answer answer;
	char instance[32];

	serial++;
	snprintf(instance, sizeof(instance), "%x.1.1.%u", serial, serial);
	question.instance = instance;
	question.instance_length = strlen(instance);
	engine_account_ask(site.engine, site.generation, &question, now_ns, &answer);
	return answer;
}

static uint64_t used(const char *login, uint32_t period_s) {
	const struct quota_limit limit = { period_s, 1, QUOTA_RECIPIENTS };
	const struct quota_counter *counter;
	struct site_account view;

	assert_true(site_account(&site, login, &view));
	counter = quota_find(view.account.counters, GENERATION_QUOTA_COUNTERS, &limit);
	return counter == NULL ? 0 : quota_used(counter, now_ns);
}

static void hold(const char *login) {
	const struct login_key key = login_key(login, strlen(login));
	struct accounts_held held;

	assert_int_equal(accounts_take(site.segment, &key, NULL, 0, now_ns, &held), ACCOUNTS_HELD);
	held.account.held_by = 4711;
	accounts_put(site.segment, &held, -1, now_ns);
	accounts_release(&held);
}

TEST_IN(begin, end, counts_survive_a_reboot) {
	turns(2);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(rcpt("alice").verdict, VERDICT_ADMIT);
	assert_int_equal(rcpt("bob").verdict, VERDICT_ADMIT);
	hold("bob");
	turns(3);
	/* the boot's clock begins anew; ten minutes without power */
	lose_all(-now_ns + 30 * NS_PER_SECOND, 10 * MINUTE, true);
	assert_int_equal(news.logins, 2);
	assert_int_equal(damaged, 0);
	assert_int_equal(used("alice", 3600), 5);
	assert_int_equal(rcpt("alice").reason, REASON_ACCOUNT_RECIPIENTS);
	assert_int_equal(rcpt("bob").reason, REASON_ACCOUNT_HELD);
	/* the pool of 8 has 6 of them */
	assert_int_equal(rcpt("carol").verdict, VERDICT_ADMIT);
	assert_int_equal(rcpt("dave").verdict, VERDICT_ADMIT);
	assert_int_equal(rcpt("erin").reason, REASON_ACCOUNT_POOL);
	/* 49 minutes later those of the hour count still, 56 later they do not */
	now_ns += 49 * MINUTE;
	assert_int_equal(used("alice", 3600), 5);
	now_ns += 7 * MINUTE;
	assert_int_equal(used("alice", 3600), 0);
	assert_int_equal(used("alice", 86400), 5);
}

/* Within a boot the wall clock may say what it likes. */
TEST_IN(begin, end, steps_open_no_window) {
	static const int64_t steps[] = { 0, 400 * HOUR, -400 * HOUR };

	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(rcpt("alice").verdict, VERDICT_ADMIT);
	turns(3);
	for (unsigned i = 0; i < 3; i++) {
		/* while it runs */
		wall_ns += steps[i];
		turns(3);
		assert_int_equal(used("alice", 3600), 5);
		/* and while it is down */
		lose_all(NS_PER_SECOND, NS_PER_SECOND - steps[i], false);
		assert_int_equal(used("alice", 3600), 5);
		assert_int_equal(rcpt("alice").reason, REASON_ACCOUNT_RECIPIENTS);
		turns(3);
	}
	now_ns += 66 * MINUTE;
	assert_int_equal(used("alice", 3600), 0);
	/* over a reboot, to a time before: it was just now */
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rcpt("alice").verdict, VERDICT_ADMIT);
	turns(3);
	lose_all(-now_ns + 30 * NS_PER_SECOND, -400 * HOUR, true);
	assert_int_equal(used("alice", 3600), 4);
	now_ns += 54 * MINUTE;
	assert_int_equal(used("alice", 3600), 4);
	now_ns += 12 * MINUTE;
	assert_int_equal(used("alice", 3600), 0);
}

/* Each `step`th of 60,000 logins asks once more. */
static void ask_of_many(unsigned step) {
	char login[32];

	for (unsigned i = 0; i < 60000; i += step) {
		snprintf(login, sizeof(login), "u%05u", i);
		(void)rcpt(login);
	}
}

#define PLAIN \
	"classes = ();\naccounts = ( { name = \"staff\"; match = \"*\"; each = { recipients = \"5/1h\"; }; } );\n"

/* 60,000 logins, whose checkpoint takes some seconds. */
static void begin_with_many(void) {
	journal_keep_close(&journal);
	site_accounts = "128k";
	site_restart(&site, 64, PLAIN);
	open_journal();
	ask_of_many(1);
	turns(20);
}

/* A second later all is lost: what each 2000th asked last is known. */
static void nothing_waited(void) {
	char login[32];

	turns(1);
	ask_of_many(2000);
	turns(1);
	lose_all(NS_PER_SECOND, NS_PER_SECOND, false);
	for (unsigned i = 0; i < 60000; i += 2000) {
		snprintf(login, sizeof(login), "u%05u", i);
		assert_int_equal(used(login, 3600), 2);
	}
	site_accounts = "64";
}

TEST_IN(begin, end, what_changes_during_a_checkpoint_does_not_wait_for_its_end) {
	begin_with_many();
	wall_ns += HOUR;	/* a step: all times are written again */
	nothing_waited();
}

TEST_IN(begin, end, what_changes_after_a_restore_does_not_wait_either) {
	begin_with_many();
	lose_all(NS_PER_SECOND, NS_PER_SECOND, false);
	site_reload(&site, PLAIN);
	nothing_waited();
}

TEST_IN(begin, end, what_was_forgotten_stays_so) {
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(rcpt("alice").verdict, VERDICT_ADMIT);
	assert_int_equal(rcpt("bob").verdict, VERDICT_ADMIT);
	turns(3);
	assert_true(engine_account_forget(site.engine, "alice", 5, now_ns));
	turns(3);
	lose_all(NS_PER_SECOND, NS_PER_SECOND, false);
	assert_int_equal(used("alice", 3600), 0);
	assert_int_equal(used("bob", 3600), 1);
	/* what is not whole or makes no sense is passed over: the rest stands */
	assert_int_equal(news.logins, 2);
}

/* A login of long ago is not new because the state is. */
TEST_IN(begin, end, who_is_new) {
	now_ns += 8 * 24 * HOUR;
	wall_ns += 8 * 24 * HOUR;
	assert_int_equal(rcpt("newcomer").verdict, VERDICT_ADMIT);
	assert_int_equal(rcpt("newcomer").reason, REASON_ACCOUNT_RECIPIENTS);
	turns(3);
	lose_all(-now_ns + 30 * NS_PER_SECOND, 24 * HOUR, true);
	assert_int_equal(rcpt("newcomer").verdict, VERDICT_ADMIT);
	assert_int_equal(rcpt("newcomer").reason, REASON_ACCOUNT_RECIPIENTS);
	now_ns += 7 * 24 * HOUR;
	assert_int_equal(rcpt("newcomer").verdict, VERDICT_ADMIT);
	assert_int_equal(rcpt("newcomer").verdict, VERDICT_ADMIT);
}

TEST_IN(begin, end, many_logins_and_checkpoints) {
	site_reload(&site, "classes = (); accounts = ( { name = \"x\"; match = \"*\";\n"
	    "each = { recipients = \"50000/1h\"; }; } );");
	for (unsigned i = 0; i < 40000; i++) {
		char login[16];

		snprintf(login, sizeof(login), "user%u", i % 10);
		assert_int_equal(rcpt(login).verdict, VERDICT_ADMIT);
		if (i % 200 == 0)
			turns(1);
	}
	turns(3);
	lose_all(NS_PER_SECOND, NS_PER_SECOND, false);
	for (unsigned i = 0; i < 10; i++) {
		char login[16];

		snprintf(login, sizeof(login), "user%u", i);
		assert_int_equal(used(login, 3600), 4000);
	}
}
