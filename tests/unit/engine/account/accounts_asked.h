/* SPDX-License-Identifier: ISC */
/* Questions about accounts in virtual time; included by one test program, behind its STAFF: the
 * configuration. */
#ifndef TESTS_UNIT_ACCOUNTS_ASKED_H
#define TESTS_UNIT_ACCOUNTS_ASKED_H

#include "base/clock.h"
#include "engine/account/accounts.h"
#include "tests/unit/own_site.h"
#include "tests/unit/site_account.h"

#define MINUTE	(60 * NS_PER_SECOND)
#define HOUR	(60 * MINUTE)

static int64_t now_ns;

static inline int begin(void **state) {
	site_open(&site, 64, STAFF);
	now_ns = clock_now_ns();
	return 0;
}

static inline struct account_answer ask(struct account_question question) {
	struct account_answer answer;

	question.sender = "a@b";
	question.sender_length = 3;
	question.login_length = strlen(question.login);
	question.recipient_length = question.recipient == NULL ? 0 : strlen(question.recipient);
	question.instance_length = question.instance == NULL ? 0 : strlen(question.instance);
	engine_account_ask(site.engine, site.generation, &question, now_ns, &answer);
	return answer;
}

static inline struct account_answer rcpt(const char *login, const char *instance,
    const char *recipient) {
	return ask((struct account_question){ .login = login, .instance = instance,
		.recipient = recipient });
}

static inline struct account_answer eom(const char *login, const char *instance, uint32_t count,
    uint64_t size) {
	return ask((struct account_question){ .login = login, .instance = instance,
		.at_end = true, .recipient_count = count, .size = size });
}

static inline void is_yes(struct account_answer answer) {
	assert_int_equal(answer.verdict, VERDICT_ADMIT);
	assert_false(answer.observed);
}

static inline void is_no(struct account_answer answer, enum reason reason, uint64_t used,
    uint64_t limit) {
	assert_int_equal(answer.verdict, VERDICT_DEFER);
	assert_int_equal(answer.reason, reason);
	assert_int_equal(answer.used, used);
	assert_int_equal(answer.limit, limit);
	assert_true(answer.id != 0);
}

/* So many recipients of the login count in the hour. */
static inline uint64_t used(const char *login) {
	static const struct quota_limit hour = { 3600, 1, QUOTA_RECIPIENTS };
	struct site_account view;
	const struct quota_counter *counter;

	assert_true(site_account(&site, login, &view));
	counter = quota_find(view.account.counters, GENERATION_QUOTA_COUNTERS, &hour);
	return counter == NULL ? 0 : quota_used(counter, now_ns);
}

#endif
