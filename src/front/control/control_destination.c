/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The control server's answer to "explain destination".
 * ERRORS   All are answers.
 * THREADS  The keeper's one.
 */
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/pace_text.h"
#include "base/text.h"
#include "engine/hints/hints.h"
#include "engine/outbound/outbound.h"
#include "engine/destination/sources.h"
#include "engine/destination/windows.h"
#include "front/control/control_answer.h"
#include "front/control/control_row.h"

#define SOURCES_TEXT_MAX	2048	/* more than ENFORCEMENT_TEXT_MAX */

struct explain_asked {
	const char *recipient;	/* NULL: a destination was named */
	const char *domain;
	size_t length;
};

static void add_seconds(struct control_writer *writer, const char *name, int64_t ns) {
	if (ns > 0)
		control_writer_add(writer, name, "%lld",
		    (long long)((ns + NS_PER_SECOND - 1) / NS_PER_SECOND));
}

static void add_relay(struct control_writer *writer,
    const struct outbound_class *found) {
	char address[ADDRESS_TEXT_MAX];

	if (address_is_unknown(&found->relay))
		return;
	address_format(&found->relay, address);
	control_writer_add(writer, "relay", "%s", address);
	if (found->relay_name[0] != '\0')
		control_writer_add(writer, "relay_name", "%s",
		    found->relay_name);
}

void control_answer_doubt(struct control_writer *writer, const struct generation *generation,
    const struct hint_explained *hint) {
	control_writer_add(writer, "hint_mta", "%s", generation_text(generation,
	    generation->mtas[hint->mta].name));
	control_writer_add(writer, "doubt", "%s", hint_doubt_word(hint->doubt));
	control_writer_add(writer, "doubt_text", "%s", hint->why);
}

/* --- sources that are warmed up ----------------------------------------------------------------- */

/* Which of them its mail goes by now. */
struct source_now {
	bool applies;			/* nothing but a pace, a hold or a limit comes first */
	bool decides;			/* and none of these does now */
	uint32_t number;		/* source_count: none has a number left */
	bool waits;			/* then its mail does */
	struct source_view view;	/* of that one, or of the one whose next day comes first */
};

static void look_at_sources(const struct engine *engine, const struct generation *g,
    const struct explain_asked *asked, const struct hint_explained *hint,
    struct source_now *out) {
	int64_t now_ns = clock_now_ns();
	struct window_owner owner;
	struct source_view view;
	uint32_t provider;

	*out = (struct source_now){ .applies = g->source_count > 0 && !g->outbound_observe &&
		hint->mta != UINT8_MAX && (hint->doubt == HINT_DOUBT_NONE ||
		hint->doubt == HINT_DOUBT_NEVER_SEEN) && strcmp(hint->kind, "none") != 0 };
	if (!out->applies)
		return;
	out->decides = strcmp(hint->kind, "lane") == 0;
	windows_owner(engine, g, asked->domain, asked->length, &owner);
	provider = owner.kind == DESTINATION_PROVIDER ? owner.provider : SOURCE_OTHERS;
	out->number = engine_source_choose(engine, g, provider, now_ns);
	out->waits = out->number == g->source_count && engine_sources_make_wait(g);
	if (out->number < g->source_count) {
		engine_source_look(engine, g, out->number, provider, now_ns, &out->view);
		return;
	}
	for (uint32_t i = 0; i < g->source_count; i++) {
		engine_source_look(engine, g, i, provider, now_ns, &view);
		if (i == 0 || view.next_ns < out->view.next_ns)
			out->view = view;
	}
}

static void add_source(struct control_writer *writer, const struct generation *g,
    const struct source_now *now) {
	if (!now->applies)
		return;
	if (now->number < g->source_count) {
		control_writer_add(writer, "warm_up_source", "%s",
		    generation_text(g, generation_source(g, now->number)->name));
		if (now->view.left != UINT32_MAX)
			control_writer_add(writer, "warm_up_left", "%u", (unsigned)now->view.left);
	} else {
		control_writer_add(writer, "warm_up_left", "0");
		add_seconds(writer, "warm_up_wait", now->view.next_ns - clock_now_ns());
	}
}

/* What a Postfix's queue manager is told about mail for it. */
static void add_hint(struct control_writer *writer, const struct generation *g,
    const struct hint_explained *hint, const struct source_now *now) {
	const struct generation_source *source = g->source_count == 0 ? NULL :
	    generation_source(g, now->number < g->source_count ? now->number : g->source_count - 1);
	const char *over = source == NULL ? "" : generation_text(g, source->over);

	if (hint->mta == UINT8_MAX)
		return;
	control_answer_doubt(writer, g, hint);
	if (now->decides && now->number < g->source_count) {
		control_writer_add(writer, "hint", "source");
		control_writer_add(writer, "hint_answer", "%s:", generation_text(g, source->transport));
	} else if (now->decides && now->waits) {
		control_writer_add(writer, "hint", "retry");
		control_writer_add(writer, "hint_answer", "retry:4.7.1 Postern: warm-up of %s: the "
		    "number of the day is used", generation_text(g, source->name));
	} else if (now->decides && strcmp(over, generation_text(g,
		g->mtas[hint->mta].clone)) != 0) {
		control_writer_add(writer, "hint", "source");
		control_writer_add(writer, "hint_answer", "%s:", over);
	} else {
		control_writer_add(writer, "hint", "%s", hint->kind);
		control_writer_add(writer, "hint_answer", "%s", hint->answer);
	}
}

/* --- windows and paces ------------------------------------------------------------------------------ */

static bool is_stopped(const struct window_view *view) {
	return view->state == WINDOW_DEAD || view->state == WINDOW_HELD;
}

/* What a mail server that asks before it connects would be answered. */
static const char *window_answer(const struct window_view *view) {
	if (is_stopped(view))
		return "suspended";
	if (view->in_flight < view->window)
		return "go";
	return view->canary_due ? "go-canary" : "full";
}

static void add_why(struct control_writer *writer, uint64_t id) {
	char text[DECISION_ID_MAX];

	control_answer_id(writer, id);
	if (id != 0)
		control_writer_add(writer, "why", "posternctl why %s",
		    decision_id_text(id, text));
}

/* What stopped it, here or at the node that said so. */
static const char *stopped_by(const struct window_view *view) {
	if (!is_stopped(view))
		return "nothing";
	if (view->hold_node != SHARED_OURS)
		return windows_by_word(view->hold_by);
	return windows_by_word(view->by);
}

/* What the nodes of a cluster make of it. */
static void add_shared(struct control_writer *writer, const struct engine *engine,
    const struct window_view *view) {
	bool stopped = is_stopped(view);
	char node[SHARED_NODE_NAME_MAX + 1], origin[DECISION_ID_MAX];
	unsigned number = stopped ? view->hold_node : view->ceiling != 0 ?
	    view->ceiling_node : SHARED_OURS;

	if (view->divided)
		control_writer_add(writer, "share", "%u", view->share);
	if (number != SHARED_OURS)
		control_writer_add(writer, "node", "%s", windows_node_name(engine, number, node));
	if (stopped && number != SHARED_OURS && view->hold_id != 0)
		control_writer_add(writer, "origin_id", "%s",
		    decision_id_text(view->hold_id, origin));
}

/* The pace in force, which may be a learned one, and the configured one. */
static void add_pace(struct control_writer *writer, const struct window_view *view,
    int64_t now_ns) {
	char text[PACE_TEXT_MAX];

	if (view->pace.interval_ns == 0)
		return;
	control_writer_add(writer, "pace", "%s", pace_text(view->pace.interval_ns, text));
	if (view->pace_limit_ns != 0)
		control_writer_add(writer, "pace_limit", "%s",
		    pace_text(view->pace_limit_ns, text));
	add_seconds(writer, "pace_wait", view->pace_wait_ns);
	control_writer_add(writer, "pace_by", "%s", view->pace_by_hand ? "hand" :
	    view->pace.is_learned ? "replies" : "setting");
	if (view->pace.is_learned && !view->pace_by_hand)
		add_seconds(writer, "pace_rises", view->pace.raise_ns - now_ns);
}

/* What the next message waits for. */
static const char *binds(const struct answer *answer, const struct window_view *view,
    const struct source_now *now) {
	switch (answer->decision.reason) {
	case REASON_CLASS_SESSIONS:
	case REASON_CLASS_SHARE:
	case REASON_CLASS_HELD:
		return "class";
	case REASON_RECIPIENT_HELD:
		return "recipient";
	default:
		break;
	}
	if (is_stopped(view) || view->in_flight >= view->window)
		return "window";
	if (view->pace_wait_ns > 0)
		return "pace";
	return now->waits ? "warm-up" : "nothing";
}

/* Whose window mail for it runs by, and what that says; `held_by`: what holds the recipient or
 * the class, or 0. */
static void add_window(struct control_writer *writer, const struct engine *engine,
    const struct generation *generation, const struct explain_asked *asked,
    const struct answer *answer, uint64_t held_by, const struct source_now *now) {
	struct window_owner owner;
	struct window_view view;
	struct enforcement enforcement;
	char text[SOURCES_TEXT_MAX];
	int64_t now_ns = clock_now_ns();

	windows_owner(engine, generation, asked->domain, asked->length, &owner);
	if (owner.kind == DESTINATION_NONE)
		return;
	(void)windows_view(engine, generation, &owner, now_ns, &view);
	control_writer_add(writer, "owner", "%s", owner.name);
	control_writer_add(writer, "law", "%s", window_law_word(view.law));
	generation_window_sources_text(generation, view.mta, owner.name, owner.provider, text,
	    sizeof(text));
	control_writer_add(writer, "settings", "%s", text);
	control_answer_window(writer, &view, now_ns);
	add_pace(writer, &view, now_ns);
	control_writer_add(writer, "binds", "%s", binds(answer, &view, now));
	control_writer_add(writer, "success", "%.3f", view.success);
	control_writer_add(writer, "failure", "%.3f", view.failure);
	control_writer_add(writer, "fail_cohorts", "%.3f", view.fail_cohorts);
	control_writer_add(writer, "stopped_by", "%s", stopped_by(&view));
	control_writer_add(writer, "canary", "%s", view.canary_out ? "out" :
	    view.canary_due ? "due" : view.canary_waits ? "waits" : "none");
	add_shared(writer, engine, &view);
	add_why(writer, held_by != 0 ? held_by : view.event);
	if (view.reason[0] != '\0')
		control_writer_add(writer, "last_reason", "%s", view.reason);
	control_writer_add(writer, "window_answer", "%s", window_answer(&view));
	control_writer_add(writer, "window_observed", "%d", view.observed);
	if (!is_stopped(&view))
		return;
	enforcement = windows_enforcement(engine, generation, asked->domain, asked->length);
	control_writer_add(writer, "enforced", "%d", enforcement.kind == ENFORCEMENT_APPLIED);
	if (enforcement.kind != ENFORCEMENT_APPLIED)
		control_writer_add(writer, "not_enforced", "%s", enforcement_text(
		    enforcement.kind, enforcement.mta, text));
}

/* The recipient or class that is held, or the window, whatever the class's counts say. */
static void add_suspension(struct answer *answer, const struct engine *engine,
    const struct generation *generation, const struct explain_asked *asked,
    struct window_held *held) {
	int64_t now_ns = clock_now_ns();
	struct window_owner owner;
	struct window_view view;
	enum reason reason = REASON_SUSPENDED;

	*held = (struct window_held){ .event = 0 };
	if (asked->recipient != NULL && windows_recipient_held(engine, generation,
		asked->recipient, strlen(asked->recipient), now_ns, held)) {
		reason = REASON_RECIPIENT_HELD;
	} else if (answer->class_index != CLASS_NO_RULE && windows_class_held(engine, generation,
		answer->class_index, now_ns, held)) {
		reason = REASON_CLASS_HELD;
	} else {
		windows_owner(engine, generation, asked->domain, asked->length, &owner);
		if (answer->decision.verdict != VERDICT_ADMIT ||
		    owner.kind == DESTINATION_NONE ||
		    !windows_view(engine, generation, &owner, now_ns, &view) || view.window != 0)
			return;
	}
	answer->decision.reason = reason;
	answer->observed = held->observed || windows_enforcement(engine, generation,
	    asked->domain, asked->length).kind != ENFORCEMENT_APPLIED;
	answer->decision.verdict = answer->observed ? VERDICT_ADMIT : VERDICT_DEFER;
}

static size_t destination_explain(struct engine *engine, const struct generation *generation,
    const struct explain_asked *asked, char *out) {
	struct control_writer writer;
	struct outbound_answer explained;
	struct answer *answer = &explained.answer;
	struct window_held held;
	struct hint_explained hint;
	struct source_now now;
	uint32_t open;

	outbound_explain(engine, generation, asked->domain, asked->length, &explained, &open);
	control_answer_begin(&writer, out);
	control_writer_add(&writer, "destination", "%.*s", (int)asked->length, asked->domain);
	if (answer->rule != CLASS_NO_RULE)
		control_answer_class(&writer, generation, answer);
	control_writer_add(&writer, "found_by", "%s",
	    class_source_word(explained.found.source));
	add_relay(&writer, &explained.found);
	if (answer->rule != CLASS_NO_RULE)
		control_answer_counts(&writer, engine, generation, answer, open);
	add_suspension(answer, engine, generation, asked, &held);
	control_answer_decision(&writer, answer);
	hint_explain(engine, generation, asked->domain, asked->length, answer->class_index,
	    clock_now_ns(), &hint);
	look_at_sources(engine, generation, asked, &hint, &now);
	add_window(&writer, engine, generation, asked, answer, held.event, &now);
	add_source(&writer, generation, &now);
	add_hint(&writer, generation, &hint, &now);
	return control_answer_finish(&writer, out);
}

size_t control_answer_destination(struct engine *engine,
    const struct control_frame *request, char *out) {
	const char *name = control_frame_get(request, "destination");
	const struct generation *generation;
	struct explain_asked asked = { .domain = name };
	const char *at;
	size_t length;

	if (name != NULL && (at = strrchr(name, '@')) != NULL) {
		asked.recipient = name;
		asked.domain = at + 1;
	}
	asked.length = name == NULL ? 0 : text_bare_host(&asked.domain, strlen(asked.domain));
	if (asked.length == 0 || asked.length > MASK_NAME_MAX)
		return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_USAGE,
		    "destination: must be a name of 1 to 255 characters, or an address");
	generation = engine_pin(engine);
	length = destination_explain(engine, generation, &asked, out);
	engine_unpin(engine, generation);
	return length;
}
