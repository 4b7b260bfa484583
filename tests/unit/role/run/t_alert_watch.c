/* SPDX-License-Identifier: ISC */
/* What people are told of, out of the segment: each once, and no more than happened. */
#include <stdatomic.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "base/text.h"
#include "role/run/alert_watch.h"
#include "role/run/keeper_orders.h"
#include "role/supervise/alerts.h"
#include "segment/decision/decisions.h"
#include "tests/unit/own_site.h"

static struct supervisor supervisor;
static struct alert_watch watch;
static bool socket_is_full;
static int64_t now_ns;

static struct segment_header *header(void) {
	return segment_header(site.segment);
}

/* As it goes from the keeper to the supervisor. */
static bool found(void *context, const struct alert *alert) {
	const char *why;
	struct keeper_report report = { .kind = KEEPER_REPORT_ALERT, .alert = *alert };

	assert_ptr_equal(context, &watch);
	if (socket_is_full)
		return false;
	assert_true(keeper_report_is_sound(&report, &why));
	alerts_tell(&supervisor.alerts, supervisor.generation, alert, now_ns);
	return true;
}

static void watch_begins(uint64_t from) {
	watch = (struct alert_watch){ .found = found, .context = &watch };
	alert_watch_begin(&watch, site.segment, from);
}

static int begin(void **state) {
	site_open(&site, 64, "alert = { command = \"/bin/true\"; rate = \"1000/1s\"; };\n"
	    "classes = ( { name = \"all\"; match = \"*\"; hold_at = 4; } );");
	supervisor = (struct supervisor){ .generation = (struct generation *)(uintptr_t)site.generation };
	now_ns = clock_now_ns();
	alerts_init(&supervisor.alerts, header()->counters);
	watch_begins(0);
	return 0;
}

static struct decided event(enum decided_kind kind, const char *name, const char *reason) {
	struct decided decided = { .kind = (uint8_t)kind, .reason = DECIDED_NO_REASON,
		.stage = DECIDED_BY_RESULT, .at_ns = now_ns };

	decided_put(&decided, DECIDED_NAME, name, strlen(name));
	decided_put(&decided, DECIDED_REASON, reason, strlen(reason));
	return decided;
}

static uint64_t happens(struct decided *decided) {
	decided->id = decisions_claim(site.segment, DECIDED_OF_DESTINATIONS);
	decisions_write(site.segment, decided);
	return decided->id;
}

/* Looks; the one alert that waits then, which is taken away, or NULL. */
static const struct alert *told(void) {
	static struct alert one;
	struct alerts *alerts = &supervisor.alerts;

	alert_watch_turn(&watch, supervisor.generation, now_ns);
	assert_true(alerts->count <= 1);
	if (alerts->count == 0)
		return NULL;
	one = alerts->waiting[alerts->first];
	alerts->first = (alerts->first + 1) % ALERTS_WAITING_MAX;
	alerts->count = 0;
	return &one;
}

TEST_IN(begin, site_end, a_suspension) {
	struct decided decided = event(DECIDED_SUSPENDED, "x.example\x1b[2J", "421 busy \"x\"\n");
	const struct alert *alert;

	assert_null(told());
	decided.by = DECIDED_BY_COHORTS;
	decided.until_ns = now_ns + 300 * NS_PER_SECOND;
	happens(&decided);
	alert = told();
	assert_non_null(alert);
	assert_int_equal(alert->kind, ALERT_SUSPENDED);
	assert_string_equal(alert->subject, "x.example\\x1b[2J");
	assert_string_equal(alert->text,
	    "mail is suspended for 300 s because its deliveries fail: 421 busy 'x'\\x0a");
	assert_int_equal(alert->for_s, 300);
	assert_int_equal(strlen(alert->id), 12);
	assert_false(alert->observed);
	assert_null(told());
	/* by a rule, and only observed */
	decided = event(DECIDED_SUSPENDED, "y.example", "421 rate");
	decided.by = DECIDED_BY_RULE;
	decided.flags = DECIDED_OBSERVED_ONLY;
	decided.until_ns = now_ns + 60 * NS_PER_SECOND;
	decided_put(&decided, DECIDED_RULE, "google-rate", strlen("google-rate"));
	happens(&decided);
	alert = told();
	assert_non_null(alert);
	assert_string_equal(alert->text, "mail would be suspended for 60 s by rule "
	    "google-rate: 421 rate");
	assert_string_equal(alert->rule, "google-rate");
	assert_true(alert->observed);
	/* who does it by hand knows */
	decided = event(DECIDED_SUSPENDED, "z.example", "");
	decided.by = DECIDED_BY_HAND_OF;
	happens(&decided);
	assert_null(told());
}

TEST_IN(begin, site_end, a_ceiling_that_falls) {
	struct decided decided = event(DECIDED_WINDOW, "x.example", "421 too many");
	const struct alert *alert;

	decided.ceiling = 5;
	happens(&decided);
	alert = told();
	assert_non_null(alert);
	assert_int_equal(alert->kind, ALERT_CEILING);
	assert_string_equal(alert->text, "at most 5 concurrent deliveries are accepted: 421 "
	    "too many");
	decided = event(DECIDED_WINDOW, "y.example", "421 too many");
	decided.ceiling_before = 20;
	decided.ceiling = 19;
	happens(&decided);
	alert = told();
	assert_non_null(alert);
	assert_string_equal(alert->text,
	    "at most 19 concurrent deliveries are accepted (previously 20): 421 too many");
	/* one that rises, or is forgotten, is no bad news; nor is a window */
	decided = event(DECIDED_WINDOW, "z.example", "");
	decided.ceiling_before = 5;
	decided.ceiling = 6;
	happens(&decided);
	decided.ceiling = 0;
	happens(&decided);
	decided.ceiling_before = 0;
	decided.before = 20;
	decided.window = 1;
	happens(&decided);
	assert_null(told());
}

TEST_IN(begin, site_end, a_reply_that_a_rule_tells_of) {
	struct decided decided = event(DECIDED_ALERT, "x.example", "554 blocked using z");
	const struct alert *alert;

	decided_put(&decided, DECIDED_NOTE, "on a blocklist", strlen("on a blocklist"));
	decided_put(&decided, DECIDED_RULE, "blocklist", strlen("blocklist"));
	happens(&decided);
	alert = told();
	assert_non_null(alert);
	assert_int_equal(alert->kind, ALERT_REPLY);
	assert_string_equal(alert->text, "on a blocklist: 554 blocked using z");
	assert_string_equal(alert->rule, "blocklist");
}

TEST_IN(begin, site_end, what_was_before_is_not_told) {
	struct decided decided = event(DECIDED_ALERT, "x.example", "554");

	happens(&decided);
	atomic_store(&header()->counters[COUNTER_FAULTS], 7);
	atomic_store(&header()->gate_shut, 1);
	watch_begins(0);
	/* but what is wrong still is */
	assert_int_equal(told()->kind, ALERT_GATE);
	assert_null(told());
}

TEST_IN(begin, site_end, the_gate_each_time) {
	atomic_store(&header()->gate_shut, 1);
	assert_int_equal(told()->kind, ALERT_GATE);
	assert_null(told());
	atomic_store(&header()->gate_shut, 0);
	assert_null(told());
	atomic_store(&header()->gate_shut, 1);
	assert_null(told());		/* too soon, and counted */
	assert_int_equal(atomic_load(&header()->counters[COUNTER_ALERTS_LEFT_OUT]), 1);
	atomic_store(&header()->gate_shut, 0);
	assert_null(told());
	now_ns += 600 * NS_PER_SECOND;
	atomic_store(&header()->gate_shut, 1);
	assert_int_equal(told()->kind, ALERT_GATE);
}

TEST_IN(begin, site_end, faults_in_numbers) {
	atomic_fetch_add(&header()->counters[COUNTER_FAULTS], 1);
	assert_string_equal(told()->text, "the shared state could not answer 1 question in time; "
	    "it was answered by the setting fail_mode");
	atomic_fetch_add(&header()->counters[COUNTER_FAULTS], 2);
	assert_null(told());		/* it waits, and is not left out */
	now_ns += 600 * NS_PER_SECOND;
	assert_string_equal(told()->text, "the shared state could not answer 2 questions in "
	    "time; they were answered by the setting fail_mode");
	assert_int_equal(atomic_load(&header()->counters[COUNTER_ALERTS_LEFT_OUT]), 0);
}

TEST_IN(begin, site_end, a_journal_and_a_queue) {
	struct journal_record *journal = &header()->journals[JOURNAL_ROOM_KEEPER];
	const struct alert *alert;

	atomic_store(&journal->error, ENOSPC);
	atomic_store(&journal->fares, JOURNAL_FARES_ILL);
	alert = told();
	assert_non_null(alert);
	assert_int_equal(alert->kind, ALERT_JOURNAL);
	assert_string_equal(alert->subject, "keeper");
	assert_non_null(strstr(alert->text, strerror(ENOSPC)));
	assert_null(told());
	atomic_store(&header()->queue_away_ns, 1);
	alert = told();
	assert_non_null(alert);
	assert_int_equal(alert->kind, ALERT_ROLE);
	assert_string_equal(alert->subject, "queue");
}

TEST_IN(begin, site_end, a_process) {
	struct child child = { .name = "policy.1", .started_ns = now_ns - 90 * NS_PER_SECOND };
	const struct alert *alert;

	alerts_tell_death(&supervisor, &child, 9, now_ns);
	alert = told();
	assert_non_null(alert);
	assert_int_equal(alert->kind, ALERT_ROLE);
	assert_string_equal(alert->subject, "policy.1");
	assert_string_equal(alert->text, "ended with signal 9 after 90 s; being restarted");
	text_append(child.name, sizeof(child.name), 0, "feed.0");
	child.killed = "no heartbeat";
	alerts_tell_death(&supervisor, &child, 9, now_ns);
	assert_string_equal(told()->text, "no heartbeat; it was killed and is being restarted");
}

TEST_IN(begin, site_end, a_full_socket_loses_no_alert) {
	struct decided decided = event(DECIDED_ALERT, "x.example", "554");

	happens(&decided);
	atomic_store(&header()->gate_shut, 1);
	socket_is_full = true;
	assert_null(told());
	assert_null(told());
	socket_is_full = false;
	alert_watch_turn(&watch, supervisor.generation, now_ns);
	assert_int_equal(supervisor.alerts.count, 2);
}

TEST_IN(begin, site_end, what_happens_while_there_is_no_keeper_is_found_by_the_next) {
	struct decided decided = event(DECIDED_ALERT, "x.example", "554");
	uint64_t from;

	happens(&decided);
	assert_non_null(told());
	from = watch.events.next;
	happens(&decided);
	watch_begins(from);
	now_ns += 600 * NS_PER_SECOND;
	assert_non_null(told());
	/* what any role could have written there */
	watch_begins(UINT64_MAX);
	alert_watch_turn(&watch, supervisor.generation, now_ns);
}
