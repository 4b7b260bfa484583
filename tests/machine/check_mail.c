/* SPDX-License-Identifier: ISC */
/* What must hold of destinations, whatever happens. */
#include <stdio.h>
#include <string.h>

#include "base/decision_id.h"
#include "engine/feed/feed.h"
#include "engine/internal.h"
#include "segment/decision/decisions.h"
#include "segment/destination/states.h"
#include "segment/hints/hints.h"
#include "tests/machine/mail.h"
#include "tests/machine/orders.h"
#include "tests/machine/world.h"

#define SHARE_TRIES	20

static const struct segment *segment;
static bool is_new;

void check_mail_begin(const struct segment *of, bool made_anew) {
	segment = of;
	is_new |= made_anew;
}

void check_window(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner) {
	struct window_view view;

	if (owner->kind == DESTINATION_NONE || !windows_view(engine, generation, owner,
	    fibers_now_ns(), &view))
		return;
	if (view.stored > MAIL_LIMIT || (view.ceiling != 0 && view.stored > view.ceiling))
		world_fail("window", "%s has a window of %u, a ceiling of %u", owner->name,
		    view.stored, view.ceiling);
	for (unsigned i = 0; i < DOMAINS_MAX; i++)
		if (strcmp(owner->name, mail_domain(i)) == 0 &&
		    !orders_allow_ceiling(i, view.ceiling))
			world_fail("orders", "%s has a ceiling of %u, and was given a lower one",
			    owner->name, view.ceiling);
}

void check_hold(const char *text) {
	const char *id = strstr(text, "(id=");
	struct decided why;
	uint64_t number;

	/* in a state that was made anew nobody finds those of the one before */
	if (id == NULL || is_new)
		return;
	id += strlen("(id=");
	if (!decision_id_parse(id, strcspn(id, ")"), &number) ||
	    !decisions_find(segment, number, &why) || !decided_is_sound(&why))
		world_fail("why", "mail is held, and the decision is not there: %s", text);
}

static void check_counts(unsigned domain, const struct destination_state *state) {
	struct mail_truth truth = mail_truth(domain);
	uint32_t missing = truth.ok + truth.failed - (uint32_t)(state->ok + state->failed);

	if (state->ok > truth.ok || state->failed > truth.failed || missing > truth.lost)
		world_fail("results", "%s counts %llu and %llu failed, and has %u and %u (%u not "
		    "learned)", mail_domain(domain), (unsigned long long)state->ok,
		    (unsigned long long)state->failed, truth.ok, truth.failed, truth.lost);
}

static void check_destination(unsigned domain) {
	const char *name = mail_domain(domain);
	struct mail_truth truth = mail_truth(domain);
	struct destination_window window;

	if (!states_find(segment, name, strlen(name), &window)) {
		if (truth.ok + truth.failed > truth.lost)
			world_fail("results", "%s is not known", name);
		return;
	}
	check_counts(domain, &window.state);
	if (window.state.window.state != WINDOW_OPEN && window.state.window.state != WINDOW_LIMITED)
		world_fail("held", "%s is in state %d", name, (int)window.state.window.state);
}

/* Of a ceiling that is divided an idle node may have no place, until it asks; and a share comes and
 * goes, and lanes with it. */
static bool is_held(struct hints_reader *reader, const char *address, struct hints_answer *answer) {
	hints_reader_ask(reader, MAIL_MTA, address, strlen(address), false, fibers_now_ns(), answer);
	return answer->kind == HINTS_HELD && (world_plan()->nodes == 0 ||
	    strstr(answer->text, "other nodes use its window") == NULL);
}

void check_mail(const char *state_path) {
	struct hints_answer answer;
	char text[200], path[200];

	snprintf(path, sizeof(path), "%s.hints", state_path);
	for (unsigned i = 0; i < DOMAINS_MAX; i++) {
		/* a new one: what it lets begin takes a place in the class for a while */
		struct hints_reader *reader = hints_reader_open(path);

		check_destination(i);
		snprintf(text, sizeof(text), "u@%s", mail_domain(i));
		for (unsigned tries = 0; is_held(reader, text, &answer); tries++) {
			if (world_plan()->nodes == 0 || tries == SHARE_TRIES)
				world_fail("held", "mail for %s: %s", mail_domain(i), answer.text);
			fibers_run(fibers_now_ns() + 300 * NS_PER_MS);
		}
		hints_reader_close(&reader);
	}
}
