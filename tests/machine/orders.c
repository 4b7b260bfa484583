/* SPDX-License-Identifier: ISC */
/*
 * Orders by hand.  They come to the keeper, as posternctl's do; one that dies in the middle leaves
 * open whether its order was carried out.
 */
#include "tests/machine/orders.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/destination/windows.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"
#include "segment/file/layout.h"
#include "segment/file/segment.h"
#include "tests/machine/mail.h"

#define STALE_NS	(HINTS_STALE_NS + NS_PER_SECOND)

#define LONGER_NS	(200 * NS_PER_MS)
#define RECIPIENTS	3
#define NAMES_MAX	(DOMAINS_MAX + RECIPIENTS)

enum ordered { ORDERED_OPEN, ORDERED_HELD, ORDERED_PERHAPS };

static struct {
	struct draws draws;
	bool calm;
	struct {
		enum ordered is;
		bool is_kept;		/* in the journal */
		int64_t since_ns;
		bool is_seen;		/* a delivery by the queue manager was learned */
		int64_t ordered_ns, resumed_ns;
		uint32_t ceiling;
		int64_t ceiling_until_ns;
		int64_t most_until_ns;	/* the latest end that was ordered */
	} of[NAMES_MAX];
} all;

/* A destination, or behind them a recipient. */
static const char *name_of(unsigned number) {
	static char text[64];

	if (number < DOMAINS_MAX)
		return mail_domain(number);
	snprintf(text, sizeof(text), "u%u@%s", number - DOMAINS_MAX, mail_domain(number -
	    DOMAINS_MAX));
	return text;
}

/* The first recipient is only ever held for a time. */
static bool is_for_a_time(unsigned number, enum manual_verb verb) {
	return verb == MANUAL_SUSPEND || (verb == MANUAL_HOLD && number == DOMAINS_MAX);
}

static unsigned domain_of(unsigned number) {
	return number < DOMAINS_MAX ? number : number - DOMAINS_MAX;
}

bool orders_bind_mail(unsigned domain) {
	return all.of[domain].is_seen;
}

void orders_see(unsigned domain) {
	all.of[domain].is_seen = true;
}

int64_t orders_ordered_ns(unsigned domain) {
	return all.of[domain].ordered_ns;
}

int64_t orders_resumed_ns(unsigned domain) {
	return all.of[domain].resumed_ns;
}

int64_t orders_held_ns(unsigned domain) {
	return all.of[domain].is == ORDERED_HELD ? all.of[domain].since_ns : 0;
}

int64_t orders_open_ns(unsigned domain) {
	return all.of[domain].is == ORDERED_OPEN ? all.of[domain].since_ns : 0;
}

bool orders_allow_ceiling(unsigned domain, uint32_t ceiling) {
	uint32_t ordered = all.of[domain].ceiling;

	if (fibers_now_ns() >= all.of[domain].ceiling_until_ns || ceiling == ordered)
		return true;
	all.of[domain].ceiling_until_ns = 0;
	return ceiling < ordered;
}

static void order(unsigned domain, enum manual_verb verb) {
	keeper_order(domain, verb);
}

static void order_comes(void *argument) {
	static const enum manual_verb verbs[] = { MANUAL_HOLD, MANUAL_HOLD, MANUAL_SUSPEND,
		MANUAL_RESUME, MANUAL_LIMIT };
	unsigned domain = draw_below(&all.draws, NAMES_MAX);
	enum manual_verb verb = verbs[draw_below(&all.draws, 5)];

	(void)argument;
	if (domain >= DOMAINS_MAX && verb != MANUAL_HOLD)
		verb = MANUAL_RESUME;
	if (!all.calm)
		order(domain, verb);
}

static void note(unsigned domain, enum ordered is, bool is_kept) {
	all.of[domain].is = is;
	all.of[domain].is_kept = is_kept;
	all.of[domain].since_ns = fibers_now_ns();
}

static void was_done(unsigned domain, const struct by_hand *request, bool is_kept) {
	switch (request->verb) {
	case MANUAL_HOLD:
		if (is_for_a_time(domain, MANUAL_HOLD))
			note(domain, ORDERED_PERHAPS, false);
		else
			note(domain, ORDERED_HELD, is_kept);
		break;
	case MANUAL_RESUME:
		note(domain, ORDERED_OPEN, is_kept);
		break;
	case MANUAL_LIMIT:
		all.of[domain].ceiling = request->ceiling;
		all.of[domain].ceiling_until_ns = fibers_now_ns() + request->for_ns / 2;
		break;
	default:
		note(domain, ORDERED_PERHAPS, false);
	}
}

void orders_carry_out(struct role *role, const struct message *message) {
	unsigned domain = message->place;
	const char *name = name_of(domain);
	struct by_hand request = { .verb = (enum manual_verb)message->pid, .name = name,
		.name_length = strlen(name), .window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
	const struct generation *generation = engine_pin(role->engine);
	const _Atomic uint32_t *fares =
	    &segment_header(role->segment)->journals[JOURNAL_ROOM_KEEPER].fares;
	enum ordered was = all.of[domain].is;
	bool was_kept = all.of[domain].is_kept;
	int64_t began_ns = fibers_now_ns();
	enum by_hand_error error;
	struct window_owner owner;

	if (is_for_a_time(domain, request.verb) || request.verb == MANUAL_LIMIT)
		request.for_ns = draw_scale(&all.draws, 100 * NS_PER_MS, 6 * NS_PER_SECOND);
	if (is_for_a_time(domain, request.verb) &&
	    began_ns + request.for_ns > all.of[domain].most_until_ns)
		all.of[domain].most_until_ns = began_ns + request.for_ns;
	all.of[domain].ordered_ns = began_ns;
	if (request.verb == MANUAL_LIMIT) {
		request.ceiling = 3 + draw_below(&all.draws, 10);
		all.of[domain].ceiling_until_ns = 0;
	} else {
		all.of[domain].is = ORDERED_PERHAPS;
	}
	error = windows_by_hand(role->engine, generation, &request, clock_now_ns(), &owner);
	engine_unpin(role->engine, generation);
	all.of[domain].ordered_ns = fibers_now_ns();
	if (request.verb == MANUAL_RESUME && error == BY_HAND_DONE)
		all.of[domain].resumed_ns = began_ns;
	world_log("order: %s %s: %d", manual_word(request.verb), name, (int)error);
	if (error == BY_HAND_DONE)
		was_done(domain, &request, *fares == JOURNAL_FARES_WELL);
	else if (error == BY_HAND_NOTHING && request.verb == MANUAL_RESUME)
		note(domain, ORDERED_OPEN, was != ORDERED_PERHAPS && was_kept);
	else if (error == BY_HAND_BUSY || error == BY_HAND_NOTHING)
		all.of[domain].is = was;
	else
		world_fail("orders", "%s %s: error %d", manual_word(request.verb), name, (int)error);
}

static int64_t stops_until_ns(const struct segment *segment, unsigned number) {
	const char *name = name_of(number);
	struct destination_window window;
	struct recipient_held held;

	if (number >= DOMAINS_MAX)
		return recipients_find(segment, name, strlen(name), fibers_now_ns(), &held) ?
		    held.until_ns : 0;
	return states_find(segment, name, strlen(name), &window) &&
	    window.state.window.state == WINDOW_DEAD &&
	    window_is_by_hand(&window.state.window) ? window.state.window.until_ns : 0;
}

/* By clocks that nobody set, and where no other machine tells. */
static void check_ends(const struct segment *segment, unsigned number) {
	int64_t longer_ns = stops_until_ns(segment, number) - all.of[number].most_until_ns;

	if (number <= DOMAINS_MAX && world_plan()->nodes == 0 && world_plan()->steps == 0 &&
	    longer_ns > LONGER_NS)
		world_fail("orders", "%s is stopped for %lld ms longer than it was ordered",
		    name_of(number), (long long)(longer_ns / NS_PER_MS));
}

void orders_are_lost(const struct segment *segment) {
	for (unsigned i = 0; i < NAMES_MAX; i++) {
		check_ends(segment, i);
		all.of[i].ceiling_until_ns = all.of[i].resumed_ns = 0;
		all.of[i].is_seen = false;
		if (!all.of[i].is_kept)
			all.of[i].is = ORDERED_PERHAPS;
	}
}

static void ask(const char *state_path, unsigned number, struct hints_answer *answer) {
	struct hints_reader *reader;
	char text[128];

	snprintf(text, sizeof(text), "%s.hints", state_path);
	reader = hints_reader_open(text);
	snprintf(text, sizeof(text), number < DOMAINS_MAX ? "u@%s" : "%s", name_of(number));
	hints_reader_ask(reader, MAIL_MTA, text, strlen(text), false, fibers_now_ns(), answer);
	hints_reader_close(&reader);
}

static bool is_held(const struct segment *segment, unsigned number) {
	const char *name = name_of(number);
	struct destination_window window;
	struct recipient_held held;

	if (number >= DOMAINS_MAX)
		return recipients_find(segment, name, strlen(name), fibers_now_ns(), &held);
	return states_find(segment, name, strlen(name), &window) &&
	    window.state.window.state == WINDOW_HELD && window_is_by_hand(&window.state.window);
}

/* By its own order, and no other. */
static bool names(const struct hints_answer *answer, unsigned number) {
	return answer->kind == HINTS_HELD && strstr(answer->text, name_of(number)) != NULL;
}

void orders_check(const struct segment *segment, const char *state_path) {
	struct hints_answer answer;

	for (unsigned i = 0; i < NAMES_MAX; i++) {
		enum ordered is = all.of[i].is;

		/* of what several machines say of one the later stands, by clocks that were set */
		if (is == ORDERED_PERHAPS || (world_plan()->nodes > 0 && world_plan()->steps > 0))
			continue;
		if (is_held(segment, i) != (is == ORDERED_HELD))
			world_fail("orders", "%s is %s", name_of(i), is == ORDERED_HELD ?
			    "not held as it was ordered" : "held, and was resumed");
		/* where looks took long the next one is put off */
		if (!orders_bind_mail(domain_of(i)) || world_plan()->pace < PACE_BRISK)
			continue;
		ask(state_path, i, &answer);
		if (is == ORDERED_HELD && answer.kind != HINTS_HELD)
			world_fail("orders", "%s is held, and its mail may go", name_of(i));
		if (is == ORDERED_OPEN && i >= DOMAINS_MAX && names(&answer, i))
			world_fail("orders", "%s was resumed: %s", name_of(i), answer.text);
	}
}

void orders_outlive_keeper(const char *state_path) {
	struct hints_answer answer;
	unsigned domain = 0;

	while (domain < DOMAINS_MAX && !orders_bind_mail(domain))
		domain++;
	if (domain == DOMAINS_MAX)
		return;
	order(domain, MANUAL_HOLD);
	fibers_run(fibers_now_ns() + NS_PER_SECOND);
	ask(state_path, domain, &answer);
	if (answer.kind != HINTS_HELD)
		world_fail("orders", "%s is held, and its mail may go", mail_domain(domain));
	roles_lose_keeper();
	fibers_run(fibers_now_ns() + STALE_NS);
	ask(state_path, domain, &answer);
	if (answer.kind != HINTS_NOTHING)
		world_fail("hints", "%s is held, and no keeper lives", mail_domain(domain));
}

bool orders_release(void) {
	bool all_are = true;

	for (unsigned i = 0; i < NAMES_MAX; i++) {
		if (all.of[i].is == ORDERED_OPEN)
			continue;
		all_are = false;
		order(i, MANUAL_RESUME);
	}
	return all_are;
}

void orders_calm(void) {
	all.calm = true;
}

void orders_begin(const struct plan *plan) {
	all.draws.state = plan->seed ^ UINT64_C(0x04de4);
	for (unsigned i = 0; i < NAMES_MAX; i++)
		all.of[i].is_kept = true;
	for (uint32_t i = 0; plan_has_mail(plan) && i < plan->orders; i++)
		timer_at(fibers_now_ns() + NS_PER_MS + (int64_t)draw_below(&all.draws,
		    plan->spread * 1000) * 1000, order_comes, NULL);
}
