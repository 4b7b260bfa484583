/* SPDX-License-Identifier: ISC */
/* What one result may do to a window, and may not. */
#include <string.h>

#include "segment/destination/states.h"
#include "tests/machine/mail.h"
#include "tests/machine/orders.h"

static struct {
	struct destination_window window;
	int64_t resumed_ns, ordered_ns;
	bool is_known;
} before;

static bool find(const struct mail_line *line, struct destination_window *window) {
	const struct role *feed = process_current()->own;

	return states_find(feed->segment, mail_domain(line->domain),
	    strlen(mail_domain(line->domain)), window);
}

void check_result_begins(const struct mail_line *line) {
	before.is_known = find(line, &before.window);
	before.resumed_ns = orders_resumed_ns(line->domain);
	before.ordered_ns = orders_ordered_ns(line->domain);
}

/* Nobody asked the site: that is no answer of it, neither yes nor no. */
static void check_unknown(const struct mail_line *line, const struct window *was,
    const struct window *is) {
	if (was->state == WINDOW_DEAD && fibers_now_ns() < was->until_ns && !window_is_shut(is))
		world_fail("unknown", "%s was suspended, and an address that is unknown revives it",
		    mail_domain(line->domain));
	if (was->state == is->state && !window_is_shut(was) && !was->canary_out &&
	    (was->refused_run != is->refused_run || was->calm != is->calm))
		world_fail("unknown", "an address that is unknown counts for %s",
		    mail_domain(line->domain));
}

void check_result(const struct mail_line *line) {
	const struct window *was = &before.window.state.window, *is;
	struct destination_window after;

	/* others may change it, too: by hand, by time */
	if (!before.is_known || before.ordered_ns != orders_ordered_ns(line->domain) ||
	    !find(line, &after))
		return;
	is = &after.state.window;
	if (was->state == WINDOW_DEAD && was->cause == WINDOW_CAUSE_RULE &&
	    fibers_now_ns() < was->until_ns && !window_is_shut(is))
		world_fail("rule", "%s was suspended by a rule, and is open again",
		    mail_domain(line->domain));
	if (line->started_ns != 0 && line->started_ns < before.resumed_ns &&
	    !window_is_shut(was) && window_is_shut(is))
		world_fail("echo", "%s was resumed, and what began before suspends it again",
		    mail_domain(line->domain));
	if (line->is_unknown)
		check_unknown(line, was, is);
	if (line->is_aside && (after.state.ok != before.window.state.ok ||
		after.state.failed != before.window.state.failed))
		world_fail("aside", "a result of a filter or of the DNS counts for %s", mail_domain(line->domain));
}

void check_canaries(void) {
	struct destination_window window;

	for (unsigned i = 0; i < DOMAINS_MAX; i++) {
		if (!states_find(roles_segment(), mail_domain(i), strlen(mail_domain(i)), &window) ||
		    !window.state.window.canary_out)
			continue;
		if (fibers_now_ns() < window.state.window.canary_ns + NS_PER_SECOND)
			fibers_run(window.state.window.canary_ns + NS_PER_SECOND);
		if (states_find(roles_segment(), mail_domain(i), strlen(mail_domain(i)), &window) &&
		    window.state.window.canary_out &&
		    window.state.window.canary_ns + NS_PER_SECOND < fibers_now_ns())
			world_fail("canary", "that of %s is awaited for ever", mail_domain(i));
	}
}
