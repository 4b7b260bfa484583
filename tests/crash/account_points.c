/* SPDX-License-Identifier: ISC */
/*
 * A process dies at each store of what it does with accounts, one after the other: charges,
 * what is given back, logins that are new, evicted or forgotten, the limit of all.  After each
 * death no count is below what was answered, none above what was asked, no lock is stuck, and
 * the next question is answered.
 *
 * Then the race of account_race.c.
 *
 *	account_points [-q QUESTIONS] [-s SEED]
 *
 * Needs a build with failpoints; says so and is skipped otherwise.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "engine/account/accounts.h"
#include "segment/account/account_health.h"
#include "segment/file/internal.h"
#include "tests/crash/account_points.h"
#include "tests/unit/random.h"
#include "tests/unit/site_account.h"

#define SKIPPED 77

#ifdef POSTERN_FAILPOINTS
#define MINUTE	(60 * NS_PER_SECOND)
#define HOUR	(60 * MINUTE)
#define LIMIT	6	/* recipients of a login in an hour */
#define TIGHT	3	/* of all logins of an entry */
#define MOST_POINTS	5000

struct site site;
int64_t now_ns;
unsigned points_serial;
static char login[32];		/* of this point */

/* What was answered, as far as the process lived: it does not die with it. */
static struct told {
	_Atomic uint32_t recipients;	/* charged, by what the answer says */
	_Atomic uint32_t expired;	/* of them: need not count for the hour any more */
	_Atomic uint32_t back;		/* of them: may be given back from now on */
	_Atomic uint32_t sent;		/* of them: their message was accepted */
	_Atomic uint32_t messages, networks;
} *told;

/* --- questions ------------------------------------------------------------------------ */

struct account_answer points_ask(struct account_question question) {
	struct account_answer answer;

	question.sender = "a@b";
	question.sender_length = 3;
	question.login_length = strlen(question.login);
	question.instance_length = strlen(question.instance);
	question.recipient_length = question.recipient == NULL ? 0 : strlen(question.recipient);
	engine_account_ask(site.engine, site.generation, &question, now_ns, &answer);
	return answer;
}

/* The transaction of this number, of the point's smtpd process of this one. */
static const char *instance_of(unsigned process, unsigned transaction) {
	static char text[64];

	snprintf(text, sizeof(text), "%x.1.%x.0", 16 * points_serial + process, transaction);
	return text;
}

static struct account_answer rcpt_of(const char *whose, const char *instance, const char *to) {
	struct account_answer answer = points_ask((struct account_question){ .login = whose,
		.instance = instance, .recipient = to });

	if (answer.is_charged && strcmp(whose, login) == 0)
		atomic_fetch_add(&told->recipients, 1);
	return answer;
}

static struct account_answer rcpt(unsigned process, unsigned transaction, const char *to) {
	return rcpt_of(login, instance_of(process, transaction), to);
}

static void end(unsigned process, unsigned transaction, uint32_t count, uint32_t missing,
    uint64_t size) {
	struct account_answer answer = points_ask((struct account_question){ .login = login,
		.instance = instance_of(process, transaction), .at_end = true,
		.recipient_count = count, .size = size });

	if (!answer.is_charged)
		return;
	atomic_fetch_add(&told->recipients, missing);
	atomic_fetch_add(&told->sent, count);
	atomic_fetch_add(&told->messages, 1);
}

/* From another network than before. */
static void rcpt_from(unsigned network) {
	struct account_question question = { .login = login, .recipient = "x@x",
		.instance = instance_of(network, 1),
		.client.bytes = { [10] = 0xff, [11] = 0xff, 192, 0, (uint8_t)network, 7 } };

	if (points_ask(question).is_charged) {
		atomic_fetch_add(&told->recipients, 1);
		atomic_fetch_add(&told->networks, 1);
	}
}

/* --- what is looked at ------------------------------------------------------------------ */

static uint64_t count_in(struct quota_counter counters[], uint32_t period_s,
    enum quota_kind kind) {
	const struct quota_limit limit = { period_s, 1, (uint32_t)kind };
	const struct quota_counter *counter = quota_find(counters, GENERATION_QUOTA_COUNTERS,
	    &limit);

	return counter == NULL ? 0 : quota_used(counter, now_ns);
}

struct points_used points_look(const char *whose) {
	struct login_key key = login_key(whose, strlen(whose));
	struct account_health health;
	struct site_account view;
	struct points_used used;

	if (!site_account(&site, whose, &view))
		abort();
	used = (struct points_used){
		.hour = count_in(view.account.counters, 3600, QUOTA_RECIPIENTS),
		.day = count_in(view.account.counters, 86400, QUOTA_RECIPIENTS),
		.messages = count_in(view.account.counters, 3600, QUOTA_MESSAGES),
		.pool = count_in(view.pool, 3600, QUOTA_RECIPIENTS) };
	/* the first one stands beside the counters until there is a second */
	if (account_health_find(site.segment, &key, &health))
		used.networks = health_count(&health.health, &view.rules.account->health,
		    now_ns).networks;
	else
		used.networks = view.account.network != 0;
	return used;
}

uint64_t points_uncounted(void) {
	return atomic_load(&site.segment->header->counters[COUNTER_ACCOUNT_UNCOUNTED]);
}

static void count_one(void *context, const void *account) {
	++*(uint64_t *)context;
	(void)account;
}

static bool table_adds_up(void) {
	uint64_t listed = 0;

	return accounts_each(site.segment, &account_kind, count_one, &listed) == 0 &&
	    listed == accounts_used(site.segment);
}

/* --- scenes ------------------------------------------------------------------------------- */

struct scene {
	const char *name;
	void (*prepare)(void);		/* before it: by a process that lives */
	void (*act)(void);		/* by the one that dies */
	uint32_t recipients, messages;	/* that it asks for */
	bool is_tight;			/* of the entry whose logins have a limit together */
	bool is_full;			/* its table has no free place */
};

static void one_open(void) {
	(void)rcpt(0, 1, "a@x");
}

static void three_open(void) {
	(void)rcpt(0, 1, "a@x");
	(void)rcpt(0, 1, "b@x");
	(void)rcpt(0, 1, "c@x");
}

static void charge(void) {
	(void)rcpt(0, 1, "z@x");
}

/* One stays, of another process. */
static void one_done_two_open(void) {
	(void)rcpt(1, 1, "a@x");
	end(1, 1, 1, 0, 10);
	(void)rcpt(0, 1, "b@x");
	(void)rcpt(0, 1, "c@x");
}

static void end_message(void) {
	end(0, 1, 1, 0, 10);
}

static void end_with_fewer(void) {
	atomic_store(&told->back, 2);
	end(0, 1, 1, 0, 10);
}

static void end_with_more(void) {
	end(0, 1, 3, 2, 10);
}

static void end_too_large(void) {
	atomic_store(&told->back, 3);
	end(0, 1, 3, 0, UINT64_C(101) << 20);
}

static void next_transaction(void) {
	atomic_store(&told->back, 2);
	(void)rcpt(0, 2, "z@x");
}

static void process_over(void) {
	struct account_answer answer = { .process = 0 };

	/* asked again: nothing is charged */
	answer = rcpt(0, 1, "c@x");
	atomic_store(&told->back, 2);
	engine_account_process_over(site.engine, answer.process, false, now_ns);
}

static void an_hour_later(void) {
	one_done_two_open();
	now_ns += HOUR + MINUTE;
	atomic_store(&told->expired, 1);
}

static void keeper_turn(void) {
	atomic_store(&told->back, 2);
	engine_accounts_turn(site.engine, site.generation, now_ns);
}

/* Of three the first one is older than an hour, but not its twelfth. */
static void over_some_twelfths(void) {
	(void)rcpt(0, 1, "a@x");
	now_ns += 25 * MINUTE;
	(void)rcpt(0, 1, "b@x");
	(void)rcpt(0, 1, "c@x");
	now_ns += 36 * MINUTE;
	atomic_store(&told->expired, 1);
}

static void over_a_period(void) {
	three_open();
	now_ns += 3 * HOUR;
	atomic_store(&told->expired, 3);
}

static void up_to_the_limit(void) {
	three_open();
	(void)rcpt(1, 1, "a@x");
	(void)rcpt(1, 1, "b@x");
	(void)rcpt(1, 1, "c@x");
}

static void two_networks(void) {
	rcpt_from(1);
	rcpt_from(2);
}

static void third_network(void) {
	rcpt_from(3);
}

static void forget(void) {
	atomic_store(&told->back, 3);
	(void)engine_account_forget(site.engine, login, strlen(login), now_ns);
}

/* Nothing of the points before counts. */
static void two_of_the_pool(void) {
	now_ns += 2 * HOUR;
	(void)rcpt_of("tight-other", instance_of(2, 1), "a@x");
	(void)rcpt_of("tight-other", instance_of(2, 1), "b@x");
}

static void nothing(void) {
}

static const struct scene scenes[] = {
	{ "a recipient", one_open, charge, 1, 0, false, false },
	{ "a new login", nothing, charge, 1, 0, false, false },
	{ "a new login in a full table", nothing, charge, 1, 0, false, true },
	{ "the end of a message", one_open, end_message, 0, 1, false, false },
	{ "an end with fewer recipients", three_open, end_with_fewer, 0, 1, false, false },
	{ "an end with more recipients", one_open, end_with_more, 2, 1, false, false },
	{ "an end that is refused", three_open, end_too_large, 0, 0, false, false },
	{ "another transaction of a process", one_done_two_open, next_transaction, 1, 0, false, false },
	{ "the end of a process", one_done_two_open, process_over, 0, 0, false, false },
	{ "nothing heard for an hour", an_hour_later, keeper_turn, 0, 0, false, false },
	{ "a recipient some twelfths later", over_some_twelfths, charge, 1, 0, false, false },
	{ "a recipient a period later", over_a_period, charge, 1, 0, false, false },
	{ "a refusal", up_to_the_limit, charge, 0, 0, false, false },
	{ "another network", two_networks, third_network, 1, 0, false, false },
	{ "a login is forgotten", three_open, forget, 0, 0, false, false },
	{ "the last place of all", two_of_the_pool, charge, 1, 0, true, false },
};

/* Those of an eviction, all above half of their limit. */
#define KEPT		8
#define KEPT_EACH	4

static void fill_table(void) {
	char name[32], instance[32];

	for (unsigned i = 0; i < KEPT * KEPT_EACH; i++) {
		snprintf(name, sizeof(name), "own-kept%u", i % KEPT);
		snprintf(instance, sizeof(instance), "f%x.1.1.%u", i, i);
		(void)rcpt_of(name, instance, "x@x");
	}
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "own-guest%u", i);
		snprintf(instance, sizeof(instance), "e%x.1.1.%u", i, i);
		(void)rcpt_of(name, instance, "x@x");
	}
}

static bool kept_are_there(void) {
	char name[32];

	for (unsigned i = 0; i < KEPT; i++) {
		snprintf(name, sizeof(name), "own-kept%u", i);
		if (points_look(name).hour != KEPT_EACH)
			return false;
	}
	return true;
}

/* --- after a death ------------------------------------------------------------------------ */

static bool complain(const struct scene *scene, uint64_t point, const char *what,
    uint64_t found, uint64_t wanted) {
	fprintf(stderr, "%s, point %llu: %s: %llu beside %llu\n", scene->name,
	    (unsigned long long)point, what, (unsigned long long)found,
	    (unsigned long long)wanted);
	return false;
}

static bool counts_hold(const struct scene *scene, uint64_t point, const struct points_used *before) {
	struct points_used used = points_look(login);
	uint32_t yes = told->recipients, back = told->back;
	uint32_t least = yes - back, least_hour = least - told->expired;
	uint64_t since = yes - before->day;
	uint64_t pool_least = before->pool < back ? 0 : before->pool - back;

	if (!scene->is_tight && (used.hour < least_hour || used.day < least))
		return complain(scene, point, "recipients that count", used.hour, least_hour);
	if (used.hour < (scene->is_tight ? yes : 0))
		return complain(scene, point, "recipients that count", used.hour, yes);
	if (used.hour > before->hour + scene->recipients ||
	    used.day > before->day + scene->recipients)
		return complain(scene, point, "too many count", used.hour, before->hour);
	if ((used.messages < told->messages && told->expired == 0) ||
	    used.messages > before->messages + scene->messages)
		return complain(scene, point, "messages", used.messages, told->messages);
	if (used.networks < told->networks || used.networks > told->networks + 1)
		return complain(scene, point, "networks", used.networks, told->networks);
	if (scene->is_tight)
		since = yes;
	if (used.pool < pool_least + since || used.pool > before->pool + scene->recipients)
		return complain(scene, point, "of all", used.pool, pool_least + since);
	if (used.hour > LIMIT || (scene->is_tight && used.pool > TIGHT))
		return complain(scene, point, "above the limit", used.hour, LIMIT);
	return true;
}

/* Somebody else's question is charged, and given back; then the dead process's next one. */
static bool next_is_answered(const struct scene *scene, uint64_t point) {
	struct points_used before = points_look(login), after;
	uint64_t faults = points_uncounted();
	struct account_answer answer = rcpt(8, 1, "next@x");
	bool is_full = before.hour >= LIMIT || (scene->is_tight && before.pool >= TIGHT);

	after = points_look(login);
	if (answer.is_charged == is_full || after.hour != before.hour + !is_full ||
	    after.pool != before.pool + !is_full)
		return complain(scene, point, "the next question", after.hour, before.hour);
	engine_account_process_over(site.engine, answer.process, false, now_ns);
	after = points_look(login);
	if (after.hour != before.hour || after.pool != before.pool)
		return complain(scene, point, "and given back", after.hour, before.hour);
	answer = rcpt(0, 9, "next@x");
	after = points_look(login);
	engine_account_process_over(site.engine, answer.process, false, now_ns);
	if (points_look(login).day < told->sent)
		return complain(scene, point, "given back twice", points_look(login).day, told->sent);
	if (points_uncounted() != faults)
		return complain(scene, point, "a lock is stuck", points_uncounted(), faults);
	if (after.hour > LIMIT || (scene->is_tight && after.pool > TIGHT))
		return complain(scene, point, "above the limit afterwards", after.hour, LIMIT);
	return table_adds_up() || complain(scene, point, "the table", 0, 0);
}

/* 1: it died at the point; 0: it has no such point; -1: something is wrong. */
static int one_point(const struct scene *scene, uint64_t point) {
	struct points_used before;
	int status;
	pid_t pid;

	snprintf(login, sizeof(login), "%s-%u", scene->is_tight ? "tight" : "own", ++points_serial);
	memset(told, 0, sizeof(*told));
	scene->prepare();
	before = points_look(login);
	pid = fork();
	if (pid == 0) {
		failpoint_arm(point);
		scene->act();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid ||
	    !(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0))
		return -1;
	if (!counts_hold(scene, point, &before) || !next_is_answered(scene, point) ||
	    (scene->is_full && !kept_are_there()))
		return -1;
	return WIFSIGNALED(status);
}

static bool play(const struct scene *scene) {
	uint64_t point = 0;
	int result = 1;

	site_accounts = scene->is_full ? "64" : "16k";
	site_open(&site, 64, ACCOUNTS);
	now_ns = clock_now_ns();
	if (scene->is_full)
		fill_table();
	while (result > 0 && ++point < MOST_POINTS)
		result = one_point(scene, point);
	site_close(&site);
	printf("%-34s %llu stores\n", scene->name, (unsigned long long)point - 1);
	/* one that passes none was not asked */
	return result == 0 && point > 1;
}

/* --- all ------------------------------------------------------------------------------------ */

void *points_shared(size_t size) {
	void *found = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (found == MAP_FAILED)
		abort();
	return found;
}

int main(int argc, char **argv) {
	uint64_t questions = 50000, seed = random_seed();
	bool ok = true;
	int option;

	while ((option = getopt(argc, argv, "q:s:")) != -1) {
		if (option == 'q')
			questions = strtoull(optarg, NULL, 10);
		else if (option == 's')
			seed = strtoull(optarg, NULL, 10);
		else
			return 2;
	}
	told = points_shared(sizeof(*told));
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		ok &= play(&scenes[i]);
	ok = ok && account_race(questions, seed);
	printf("seed %llu: %s\n", (unsigned long long)seed, ok ? "ok" : "FAILED");
	return ok ? 0 : 1;
}
#else
int main(void) {
	printf("skipped: not built with --enable-failpoints\n");
	return SKIPPED;
}
#endif
