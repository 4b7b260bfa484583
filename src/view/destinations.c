/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Destinations as people see them.
 * MODEL    Copies are sorted by name first, so that what was seen of a destination is
 *          found for its window; then by what matters, where only some are wanted.
 * ERRORS   No memory.
 * THREADS  One.
 */
#include "view/destinations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/decision_id.h"
#include "base/order.h"
#include "base/pace_text.h"
#include "base/text.h"
#include "policy/window/window.h"
#include "segment/decision/decisions.h"

#define RELAYS_TEXT_MAX	(DESTINATION_RELAYS * (ADDRESS_TEXT_MAX + 1))
#define MTAS_TEXT_MAX	(SEGMENT_MTAS * (SEGMENT_NAME_MAX + 1))

/* Every copy begins with its name. */
static void copies_add(struct view_copies *copies, const void *one) {
	const struct view_choice *choice = copies->choice;

	if (copies->no_memory ||
	    (choice->wants != NULL && !choice->wants(choice->context, one)))
		return;
	copies->no_memory = !array_grow(&copies->list, &copies->size, copies->count,
	    copies->each);
	if (!copies->no_memory)
		memcpy(copies->list + copies->count++ * copies->each, one, copies->each);
}

static void copy_seen(void *context, const struct destination_seen *seen) {
	_Static_assert(offsetof(struct destination_seen, name) == 0, "first");
	copies_add(context, seen);
}

static void copy_window(void *context, const struct destination_window *window) {
	_Static_assert(offsetof(struct destination_window, name) == 0, "first");
	copies_add(context, window);
}

static void copy_recipient(void *context, const struct recipient_held *held) {
	_Static_assert(offsetof(struct recipient_held, address) == 0, "first");
	copies_add(context, held);
}

static const void *copies_at(const struct view_copies *copies, size_t i) {
	return copies->list + i * copies->each;
}

static int compare_names(const void *a, const void *b) {
	return strcmp(a, b);
}

static const void *copies_find(const struct view_copies *copies, const char *name) {
	return copies->count == 0 ? NULL :
	    bsearch(name, copies->list, copies->count, copies->each, compare_names);
}

static bool is_stopped(const struct destination_window *one) {
	return one->state.begun && window_is_shut(&one->state.window);
}

static uint32_t running(const struct destination_state *state) {
	return (uint32_t)state->in_flight + state->running;
}

struct view_trouble view_trouble_of(const struct view *view,
    const struct destination_window *one) {
	const struct window *window = &one->state.window;
	struct view_trouble out = { .has_reason = one->reason[0] != '\0',
		.in_flight = running(&one->state), .seen_ns = one->state.seen_ns };

	if (!one->state.begun)
		return out;
	if (!is_stopped(one) || window->until_ns <= view->status.now_ns)
		out.rank = window->ceiling != 0;
	else if (view_enforcement(view, one->name, one->mta_bits).kind != ENFORCEMENT_APPLIED)
		out.rank = 2;
	else
		out.rank = window->state == WINDOW_DEAD ? 4 : 3;
	return out;
}

int view_trouble_compare(const struct view_trouble *one, const struct view_trouble *other) {
	return order_then(order_then(ORDER(other->rank, one->rank),
	    ORDER(other->has_reason, one->has_reason)),
	    order_then(ORDER(other->in_flight, one->in_flight), ORDER(other->seen_ns, one->seen_ns)));
}

/* What matters most comes first. */
static int compare_weights(const void *a, const void *b) {
	const struct destination_window *one = a, *other = b;
	uint32_t of_one = running(&one->state), of_other = running(&other->state);

	if (is_stopped(one) != is_stopped(other))
		return is_stopped(one) ? -1 : 1;
	if (of_one != of_other)
		return of_one > of_other ? -1 : 1;
	if (one->state.seen_ns != other->state.seen_ns)
		return one->state.seen_ns > other->state.seen_ns ? -1 : 1;
	return strcmp(one->name, other->name);
}

static void copies_sort(struct view_copies *copies,
    int (*compare)(const void *a, const void *b)) {
	if (copies->count > 1)
		qsort(copies->list, copies->count, copies->each, compare);
}

static void copies_cut(struct view_copies *copies, size_t most) {
	if (copies->count > most)
		copies->count = most;
}

/* Of one that would be stopped, why it is not. */
static struct enforcement find_lacking(const struct view_destinations *all) {
	struct enforcement lacking = { ENFORCEMENT_APPLIED, "" };

	if (all->recipients.count > 0)
		lacking = view_enforcement(all->view, "", 0);
	for (size_t i = 0; lacking.kind == ENFORCEMENT_APPLIED && i < all->windows.count; i++) {
		const struct destination_window *one = copies_at(&all->windows, i);

		if (is_stopped(one))
			lacking = view_enforcement(all->view, one->name, one->mta_bits);
	}
	return lacking;
}

static bool find_pace(const struct view_destinations *all) {
	const struct generation *g = all->view->generation;

	if (g != NULL && generation_has_paces(g))
		return true;
	for (size_t i = 0; i < all->windows.count; i++) {
		const struct destination_window *one = copies_at(&all->windows, i);

		if (pace_is_learned(&one->state.pace))
			return true;
	}
	return false;
}

int view_destinations_gather(const struct view *view, const struct view_choice *choice,
    struct view_destinations *all) {
	*all = (struct view_destinations){ .view = view,
		.seen = { .each = sizeof(struct destination_seen), .choice = choice },
		.windows = { .each = sizeof(struct destination_window), .choice = choice },
		.recipients = { .each = sizeof(struct recipient_held), .choice = choice } };
	if (choice->relays)
		all->torn_seen = destinations_each(view->reader, copy_seen, &all->seen);
	all->torn_windows = states_each(view->reader, copy_window, &all->windows);
	if (!choice->no_recipients)
		all->torn_recipients = recipients_each(view->reader, clock_now_ns(), copy_recipient,
		    &all->recipients);
	if (all->seen.no_memory || all->windows.no_memory || all->recipients.no_memory) {
		errno = ENOMEM;
		return -1;
	}
	copies_sort(&all->seen, compare_names);
	copies_sort(&all->windows, choice->most == 0 ? compare_names : compare_weights);
	copies_sort(&all->recipients, compare_names);
	all->known = view_destinations_count(all);
	all->lacking = find_lacking(all);
	all->has_pace = find_pace(all);
	if (choice->most != 0) {
		copies_cut(&all->windows, choice->most);
		copies_cut(&all->recipients, choice->most);
	}
	return 0;
}

void view_destinations_free(struct view_destinations *all) {
	free(all->seen.list);
	free(all->windows.list);
	free(all->recipients.list);
	*all = (struct view_destinations){ .view = NULL };
}

/* --- how many ------------------------------------------------------------------------ */

static void count_stopped(void *context, const struct destination_window *one) {
	struct view_stopped *stopped = context;
	const struct window *window = &one->state.window;
	unsigned rank = view_trouble_of(stopped->view, one).rank;

	stopped->slowed += pace_is_learned(&one->state.pace);
	if (!one->state.begun)
		return;
	if (rank == 2) {
		*(window->state == WINDOW_DEAD ? &stopped->would_suspend :
		    &stopped->would_hold) += 1;
		stopped->lacking = view_enforcement(stopped->view, one->name, one->mta_bits);
	} else if (view_class_of(one->name) != NULL) {
		stopped->classes += rank > 2;
	} else if (rank == 4) {
		stopped->suspended++;
		text_copy(stopped->suspended_name, sizeof(stopped->suspended_name), one->name,
		    strlen(one->name));
		stopped->suspended_event = one->event;
	} else {
		*(rank == 3 ? &stopped->held : rank == 1 ? &stopped->limited :
		    &stopped->open) += 1;
	}
}

struct view_stopped view_stopped(const struct view *view) {
	struct view_stopped stopped = { .view = view, .lacking = view_enforcement(view, "", 0) };

	if (stopped.lacking.kind == ENFORCEMENT_APPLIED)
		stopped.recipients = view->status.recipients_used;
	else
		stopped.would_hold = view->status.recipients_used;
	if (stopped.would_hold == 0)
		stopped.lacking = (struct enforcement){ ENFORCEMENT_APPLIED, "" };
	(void)states_each(view->reader, count_stopped, &stopped);
	return stopped;
}

/* --- how mail goes there ---------------------------------------------------------- */

static struct value relays_value(const struct destination_seen *seen,
    char out[RELAYS_TEXT_MAX]) {
	char address[ADDRESS_TEXT_MAX];
	size_t length = 0;

	for (unsigned i = 0; i < seen->relay_count; i++) {
		address_format(&seen->relays[i], address);
		length = text_append(out, RELAYS_TEXT_MAX, length, "%s%s",
		    i > 0 ? "," : "", address);
	}
	return seen->relay_count > 0 ? value_text(out) : value_unknown();
}

/* The mail servers of some bits, by their names in the configuration in force. */
static struct value mtas_value(const struct generation *g, uint8_t bits,
    char out[MTAS_TEXT_MAX]) {
	size_t length = 0;

	for (unsigned i = 0; i < SEGMENT_MTAS; i++) {
		const char *comma = length > 0 ? "," : "";

		if ((bits >> i & 1) == 0)
			continue;
		if (g != NULL && i < g->mta_count)
			length = text_append(out, MTAS_TEXT_MAX, length, "%s%s", comma,
			    generation_text(g, g->mtas[i].name));
		else
			length = text_append(out, MTAS_TEXT_MAX, length, "%s%u", comma,
			    i);
	}
	return length > 0 ? value_text(out) : value_unknown();
}

/* Deliveries of all windows of its name. */
struct counted {
	uint64_t ok, failed, held;
};

static void count_window(const struct view_destinations *all, const char *name,
    struct counted *out) {
	const struct destination_window *window = copies_find(&all->windows, name);

	if (window == NULL)
		return;
	out->ok += window->state.ok;
	out->failed += window->state.failed;
	out->held += window->state.held;
}

/* That of all mail, and those of transports, of which several mail servers may have one. */
static struct counted count_of(const struct view_destinations *all, const char *name) {
	const struct generation *g = all->view->generation;
	struct counted out = { .ok = 0 };

	count_window(all, name, &out);
	for (unsigned i = 0; g != NULL && i < g->mta_count; i++) {
		const char *transport = generation_text(g, g->mtas[i].transport);
		char full[2 * SEGMENT_NAME_MAX + 2];

		if (*transport == '\0' || generation_find_transport(g, GENERATION_MTAS_MAX,
			transport, strlen(transport)) != i)
			continue;
		snprintf(full, sizeof(full), "%s:%s", transport, name);
		text_lower(full, full, strlen(transport));
		count_window(all, full, &out);
	}
	return out;
}

static void relay_row(void *context, struct writer *writer, const void *item) {
	const struct view_destinations *all = context;
	const struct generation *g = all->view->generation;
	const struct destination_seen *seen = item;
	struct counted counted = count_of(all, seen->name);
	char relays[RELAYS_TEXT_MAX], cloned[MTAS_TEXT_MAX], other[MTAS_TEXT_MAX];

	writer_text(writer, "name", seen->name);
	writer_member(writer, "relays", COLUMN_TEXT, relays_value(seen, relays));
	writer_member(writer, "cloned_by", COLUMN_TEXT, mtas_value(g, seen->cloned_by, cloned));
	writer_member(writer, "other_by", COLUMN_TEXT, mtas_value(g, seen->other_by, other));
	writer_seconds(writer, "seen_age", value_since(all->view->status.now_ns, seen->seen_ns));
	writer_number(writer, "ok", counted.ok);
	writer_number(writer, "failed", counted.failed);
	writer_number(writer, "held", counted.held);
}

void view_relays_write(const struct view_destinations *all, struct writer *writer) {
	writer_table(writer, &(const struct table){ .row = relay_row,
	    .context = (void *)(uintptr_t)all, .items = all->seen.list,
	    .count = all->seen.count, .each = all->seen.each });
}

/* --- windows ------------------------------------------------------------------------ */

/* Those of the mail server, or of its transport, that count. */
static void find_settings(const struct view *view, const char *name, unsigned mta_bits,
    struct window_settings *out, struct pace_settings *pace) {
	const struct generation *g = view->generation;
	bool is_paced;

	(void)generation_settings(g, generation_window_mta(g, name, strlen(name), mta_bits),
	    name, strlen(name), generation_window_provider(g, name), out, pace, &is_paced);
}

static void find_its_pace(const struct pace *pace, const struct pace_settings *settings,
    int64_t now_ns, struct view_destination *out) {
	pace_look(pace, settings, now_ns, &out->pace);
	if (settings->limit.count > 0)
		out->pace_limit_ns = settings->limit.period_ns / settings->limit.count;
	out->pace_wait_ns = pace_wait_ns(pace, settings, now_ns);
}

/* What stopped it. */
static void find_origin(const struct view *view, const struct destination_window *one,
    const struct window *window, struct view_destination *out) {
	if (!window_is_shut(window))
		return;
	out->enforcement = view_enforcement(view, one->name, one->mta_bits);
	out->by = decided_by_of(window);
	if (out->node == SHARED_OURS)
		return;
	out->by = one->shared.hold_by;
	out->origin = one->shared.hold_id;
}

struct view_destination view_destination_of(const struct view *view,
    const struct destination_window *one) {
	int64_t now_ns = view->status.now_ns;
	const struct destination_state *state = &one->state;
	struct view_destination out = { .name = one->name, .reason = one->reason,
		.begun = state->begun, .until_ns = 0, .in_flight = running(state),
		.share = UINT32_MAX, .trouble = view_trouble_of(view, one) };
	struct window_settings settings = window_defaults;
	struct pace_settings pace = pace_defaults;
	struct window window = state->window;
	struct window_change ignored;

	if (!state->begun)
		return out;
	if (view->generation != NULL)
		find_settings(view, one->name, one->mta_bits, &settings, &pace);
	window_adjust(&window, &settings);
	window_turn(&window, &settings, out.in_flight, now_ns, &ignored);
	out.state = (enum window_state)window.state;
	out.until_ns = window_is_shut(&window) ? window.until_ns : 0;
	out.share = shared_most(&one->shared, now_ns);
	out.node = window_is_shut(&window) ?
	    one->shared.hold_node : window.ceiling != 0 ? one->shared.ceiling_node : SHARED_OURS;
	find_origin(view, one, &window, &out);
	out.has_window = view_class_of(one->name) == NULL;
	out.law = settings.law;
	out.window = window_now(&window, &settings, now_ns);
	if (out.window > out.share)
		out.window = out.share;
	out.ceiling = window.ceiling;
	out.ceiling_slow = window.slow_ceiling;
	out.success = window.success;
	out.failure = window.failure;
	out.fail_cohorts = window.fail_cohorts;
	if (out.has_window)
		find_its_pace(&state->pace, &pace, now_ns, &out);
	out.pace_by_hand = (state->flags & DESTINATION_PACE) != 0;
	return out;
}

static struct view_destination recipient_of(const struct view *view,
    const struct recipient_held *held) {
	const struct enforcement enforcement = view_enforcement(view, "", 0);

	return (struct view_destination){ .name = held->address, .reason = held->reason,
		.begun = true, .state = WINDOW_HELD, .until_ns = held->until_ns,
		.share = UINT32_MAX, .enforcement = enforcement,
		.trouble = { .rank = enforcement.kind == ENFORCEMENT_APPLIED ? 3 : 2,
		    .has_reason = held->reason[0] != '\0' } };
}

size_t view_destinations_count(const struct view_destinations *all) {
	return all->windows.count + all->recipients.count;
}

struct view_destination view_destination_at(const struct view_destinations *all, size_t i) {
	return i < all->windows.count ?
	    view_destination_of(all->view, copies_at(&all->windows, i)) :
	    recipient_of(all->view, copies_at(&all->recipients, i - all->windows.count));
}

bool view_destination_stops(const struct view_destination *one) {
	return one->begun && (one->state == WINDOW_DEAD || one->state == WINDOW_HELD);
}

const char *view_destination_effect(const struct view_destination *one) {
	return enforcement_effect(one->state, one->enforcement.kind == ENFORCEMENT_APPLIED);
}

/* For programs the state is the window's own, and whether that is enforced stands beside it. */
static struct value state_value(const struct view_destination *one, bool json) {
	const char *word = json ? window_state_word(one->state) : view_destination_effect(one);

	if (!one->begun)
		return value_unknown();
	return value_toned_if(value_text(word), view_destination_stops(one),
	    one->enforcement.kind != ENFORCEMENT_APPLIED || one->state == WINDOW_HELD ?
	    TONE_WARN : TONE_BAD);
}

static void window_row(void *context, struct writer *writer, const void *item) {
	const struct view_destinations *all = context;
	const struct view *view = all->view;
	const struct view_destination *one = item;
	bool begun = one->begun, has = one->has_window, stopped = view_destination_stops(one);
	bool lacking = stopped && one->enforcement.kind != ENFORCEMENT_APPLIED;
	bool elsewhere = begun && one->node != SHARED_OURS;
	char node[SHARED_NODE_NAME_MAX + 1], origin[DECISION_ID_MAX], why[ENFORCEMENT_TEXT_MAX];
	char pace[PACE_TEXT_MAX];

	writer_text(writer, "name", one->name);
	writer_text(writer, "law", has ? window_law_word(one->law) : NULL);
	writer_member(writer, "state", COLUMN_TEXT, state_value(one, writer->json));
	writer_number_if(writer, "window", has, one->window);
	writer_number_if(writer, "ceiling", has && one->ceiling != 0, one->ceiling);
	writer_number_if(writer, "in_flight", has, one->in_flight);
	if (writer->json || all->has_pace)
		writer_text(writer, "pace", one->pace.interval_ns == 0 ? NULL :
		    pace_text(one->pace.interval_ns, pace));
	writer_decimal(writer, "success", value_decimal_if(has, one->success));
	writer_decimal(writer, "failure", value_decimal_if(has, one->failure));
	writer_decimal(writer, "fail_cohorts", value_decimal_if(has, one->fail_cohorts));
	writer_seconds(writer, "until", value_until(view->status.now_ns,
	    begun ? one->until_ns : 0));
	writer_number_if(writer, "share", has && one->share != UINT32_MAX, one->share);
	writer_text(writer, "stopped_by", begun ? decided_by_word(one->by) : NULL);
	writer_text(writer, "node", elsewhere ? shared_node_name(view->reader, one->node, node) :
	    NULL);
	writer_text(writer, "origin_id", begun && one->origin != 0 ?
	    decision_id_text(one->origin, origin) : NULL);
	writer_member(writer, "enforced", COLUMN_TRUTH, stopped ? value_truth(!lacking) :
	    value_unknown());
	writer_text(writer, "not_enforced", !lacking ? NULL : enforcement_text(
	    one->enforcement.kind, one->enforcement.mta, why));
	writer_text(writer, "reason", !begun || one->reason[0] == '\0' ? NULL : one->reason);
}

static void window_rows(void *context, struct writer *writer) {
	const struct view_destinations *all = context;

	for (size_t i = 0; i < view_destinations_count(all); i++) {
		struct view_destination one = view_destination_at(all, i);

		writer_row(writer, &one);
	}
}

void view_destinations_write(const struct view_destinations *all, struct writer *writer,
    const char *name) {
	writer_table(writer, &(const struct table){ .name = name, .row = window_row,
	    .context = (void *)(uintptr_t)all, .rows = window_rows });
}
