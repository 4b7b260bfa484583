/* SPDX-License-Identifier: ISC */
/* Shares of a limit in what people see: decisions, the table of classes, metrics. */
#include "tests/unit/test.h"
#include "engine/cluster/shares.h"
#include "engine/hints/hints_internal.h"
#include "front/decision/decision_log.h"
#include "segment/decision/decisions.h"
#include "tests/unit/view/metrics_site.h"
#include "view/classes.h"
#include "view/decided.h"
#include "view/decided_line.h"

/* 1 of 30 is fixed for each of 3. */
#define SITE "cluster = { redis = \"unix:/nowhere\"; node = \"a\"; nodes = 3; };\n" \
	"classes = ( { name = \"c\"; match = [ \"192.0.2.0/24\" ]; hold_at = 30;\n" \
	"refuse_at = 30;\nscope = \"cluster\"; },\n" \
	"{ name = \"room\"; match = [ \"*\" ]; hold_at = 9; } );\n"

static int open_site(void **state) {
	return open_viewed(1000, SITE);
}

static void lease(uint32_t sessions) {
	const struct share_pools all = { UINT32_MAX, UINT32_MAX };

	assert_true(shares_grant(site.engine, site.generation, 0,
	    (struct share_pools){ sessions, 0 }, all, clock_now_ns() + 60 * NS_PER_SECOND,
	    clock_now_ns()));
}

/* Two more than the fixed one come in, the fourth does not. */
static struct answer refused(void) {
	struct question question = site_question("192.0.2.1", 4, "h.example");
	struct answer answer;

	lease(2);
	for (uint16_t port = 1; port <= 3; port++)
		assert_int_equal(site_verdict("192.0.2.1", port, NULL), VERDICT_ADMIT);
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_REFUSE);
	return answer;
}

TEST_IN(open_site, close_site, a_refusal_tells_the_share_and_the_limit) {
	char said[VIEW_DECIDED_MAX], line[DECIDED_LINE_MAX], share[DECISION_SHARE_SHOWN];
	struct answer answer = refused();
	struct decided d;

	assert_string_equal(decided_reason_word(answer.decision.reason), "class-share");
	assert_string_equal(decision_share_words(&answer, share),
	    " cluster_limit=30 lease=held");
	answer.decision.reason = REASON_CLASS_INBOUND;
	assert_string_equal(decision_share_words(&answer, share), "");
	assert_true(decisions_find(site.segment, answer.id, &d));
	assert_int_equal(d.reason, REASON_CLASS_SHARE);
	assert_int_equal(d.count, 3);
	assert_int_equal(d.limit, 3);
	assert_int_equal(d.before, 30);
	assert_true(d.limit_line > 0);
	assert_int_equal(d.limit_line, d.line + 1);	/* where inbound stands */
	view_decided_say(&d, said);
	assert_string_equal(said, "192.0.2.1 (h.example) was refused with 421: class c had 3 of "
	    "3 sessions, this node's share of 30: the other nodes have the rest");
	assert_string_equal(decided_line_text(&d, line), "class-share 3 of 3, share of 30, lease held "
	    "class c");
}

TEST_IN(open_site, close_site, a_refusal_tells_that_no_lease_was_held) {
	char said[VIEW_DECIDED_MAX], line[DECIDED_LINE_MAX], share[DECISION_SHARE_SHOWN];
	struct question question = site_question("192.0.2.1", 5, "h.example");
	struct answer answer;
	struct decided d;

	(void)refused();
	atomic_store(&site_class(&site, "c")->share_until_ns, clock_now_ns());
	answer = site_ask(&question, clock_now_ns());
	assert_string_equal(decision_share_words(&answer, share),
	    " cluster_limit=30 lease=ended");
	assert_true(decisions_find(site.segment, answer.id, &d));
	assert_string_equal(decided_lease_word(&d), "ended");
	view_decided_say(&d, said);
	assert_string_equal(said, "192.0.2.1 (h.example) was refused with 421: class c had 3 of "
	    "1 sessions, this node's share of 30: no lease was held, so only this node's "
	    "part of cluster.fraction counted; posternctl cluster shows why");
	assert_string_equal(decided_line_text(&d, line), "class-share 3 of 1, share of 30, lease "
	    "ended class c");
	/* and of mail that a queue holds */
	assert_true(decisions_find(site.segment, hint_note_class_full(site.engine,
	    site.generation, 0, 3, 1, clock_now_ns()), &d));
	assert_string_equal(decided_lease_word(&d), "ended");
	d.by = 99;		/* whoever wrote it */
	assert_null(decided_lease_word(&d));
}

/* Another machine's file says 20: all that was shown went on to say 30. */
TEST_IN(open_site, close_site, the_lowest_limit_of_all_machines_is_shown) {
	char share[DECISION_SHARE_SHOWN];
	struct limits whole;
	struct answer answer;
	struct decided d;

	shares_told(site.engine, site.generation, 0, (struct share_pools){ 20, 0 },
	    clock_now_ns());
	answer = refused();
	assert_string_equal(decision_share_words(&answer, share), " cluster_limit=20 lease=held");
	assert_true(decisions_find(site.segment, answer.id, &d));
	assert_int_equal(d.before, 20);
	shares_whole(site.engine, site.generation, 0, clock_now_ns(), &whole);
	assert_int_equal(whole.sessions, 20);
	assert_int_equal(whole.inbound, 20);
	atomic_store(&site_class(&site, "c")->share_until_ns, clock_now_ns());
	shares_whole(site.engine, site.generation, 0, clock_now_ns(), &whole);
	assert_int_equal(whole.inbound, 30);	/* nothing is known of them any more */
}

static void find_class(void *context, const struct reader_class *class) {
	if (strcmp(class->name, "c") == 0)
		*(struct reader_class *)context = *class;
}

static void shown(const char *lease_word, unsigned share, unsigned overhang,
    unsigned in_force) {
	struct reader_class class = { .shared = false };
	struct view_share out;
	struct view_limits limits;
	struct diag diag;

	assert_int_equal(view_refresh(&view, &diag), 0);
	assert_int_equal(reader_classes(view.reader, find_class, &class), 0);
	assert_true(view_class_share(&view, &class, &out));
	assert_string_equal(out.lease, lease_word);
	assert_int_equal(out.share, share);
	assert_int_equal(out.fixed, 1);
	assert_int_equal(out.overhang, overhang);
	limits = view_class_limits(&view, &class);
	assert_int_equal(limits.sessions, in_force);
	assert_int_equal(limits.inbound, in_force);
}

TEST_IN(open_site, close_site, the_table_tells_lease_share_and_overhang) {
	struct class_record *record = site_class(&site, "c");

	shown("ended", 1, 0, 30);
	(void)refused();
	shown("held", 3, 0, 30);
	shares_told(site.engine, site.generation, 0, (struct share_pools){ 20, 0 },
	    clock_now_ns());
	shown("held", 3, 0, 20);
	atomic_store(&record->share_until_ns, clock_now_ns());
	shown("ended", 1, 2, 30);
	atomic_store(&record->share_alone, 1);
	shown("ended", 1, 2, 30);		/* not yet for as long as a lease */
	atomic_store(&record->share_since_ns, clock_now_ns() - 15 * NS_PER_SECOND);
	shown("alone", 30, 0, 30);
}

TEST_IN(open_site, close_site, metrics_are_of_shared_classes) {
	(void)refused();
	atomic_store(&site_class(&site, "c")->share_until_ns, clock_now_ns());
	scrape();
	expect("postern_class_share_sessions{class=\"c\"} 1");
	expect("postern_class_share_fixed_sessions{class=\"c\"} 1");
	expect("postern_class_share_leased{class=\"c\"} 0");
	expect("postern_class_overhang_sessions{class=\"c\"} 2");
	expect("postern_class_share_refused_total{class=\"c\",direction=\"inbound\"} 1");
	expect("postern_class_share_refused_total{class=\"c\",direction=\"outbound\"} 0");
	assert_null(strstr(text, "postern_class_share_sessions{class=\"room\"}"));
}
