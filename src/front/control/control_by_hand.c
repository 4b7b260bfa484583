/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The control server's answers to suspend, hold, resume, forget and set.
 * ERRORS   All are answers.
 * THREADS  The keeper's one.
 */
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/pace_text.h"
#include "base/text.h"
#include "engine/hints/hints.h"
#include "engine/cluster/knowledge.h"
#include "engine/destination/windows.h"
#include "front/control/control_answer.h"
#include "front/control/control_row.h"

#define FOR_MOST_S	(366 * 86400)
#define COUNT_MAX	10000

static bool read_count(const struct control_frame *request, const char *key, uint32_t least,
    uint32_t *out) {
	const char *text = control_frame_get(request, key);

	*out = BY_HAND_UNSET;
	return text == NULL || (text_to_u32(text, strlen(text), COUNT_MAX, out) &&
	    *out >= least);
}

/* "N/T", or "none". */
static bool read_pace(const char *text, int64_t *out) {
	struct rate_limit pace = { .burst = 0 };

	*out = 0;
	if (text == NULL)
		return true;
	*out = -1;
	if (strcmp(text, "none") == 0)
		return true;
	if (!text_to_rate(text, &pace.count, &pace.period_ns) || pace.count == 0 ||
	    !generation_pace_is_sound(&pace))
		return false;
	*out = pace.period_ns / pace.count;
	return true;
}

/* NULL, or what is wrong with the request. */
static const char *read_request(const struct control_frame *request, struct by_hand *out) {
	const char *name = control_frame_get(request, "name");
	const char *class = control_frame_get(request, "class");
	const char *duration = control_frame_get(request, "for");
	uint32_t seconds = 0;

	*out = (struct by_hand){ .name = name != NULL ? name : class, .class = class != NULL,
		.reason = control_frame_get(request, "reason") };
	out->verb = manual_find(control_frame_get(request, "command"));
	if (out->verb == MANUAL_NONE)
		return "unknown command";
	if ((name == NULL) == (class == NULL) || out->name[0] == '\0')
		return "name or class: exactly one is required";
	out->name_length = strlen(out->name);
	if (duration != NULL && (!text_to_u32(duration, strlen(duration), FOR_MOST_S,
	    &seconds) || seconds == 0))
		return "for: not a number of seconds";
	out->for_ns = seconds * NS_PER_SECOND;
	if (!read_count(request, "window", 1, &out->window))
		return "window: not a number from 1 to 10000";
	if (!read_count(request, "ceiling", 0, &out->ceiling))
		return "ceiling: not a number up to 10000";
	if (!read_pace(control_frame_get(request, "pace"), &out->pace_ns))
		return "pace: not a number per time from 1/1d to 1000/1s, or none";
	if (out->window != BY_HAND_UNSET && out->ceiling != BY_HAND_UNSET && out->ceiling != 0 &&
	    out->window > out->ceiling)
		return "window: larger than the ceiling";
	return NULL;
}

static const char *kind_word(const struct by_hand *request, const struct window_owner *owner) {
	switch (owner->kind) {
	case DESTINATION_DOMAIN:
		return "domain";
	case DESTINATION_PROVIDER:
		return "provider";
	case DESTINATION_RELAY:
		return "relay";
	case DESTINATION_NONE:
		break;
	}
	return request->class ? "class" : "recipient";
}

static void add_until(struct control_writer *writer, int64_t until_ns, int64_t now_ns) {
	if (until_ns > now_ns && until_ns != INT64_MAX)
		control_writer_add(writer, "until", "%lld",
		    (long long)((until_ns - now_ns + NS_PER_SECOND - 1) / NS_PER_SECOND));
}

/* What a recipient or a class stands at. */
static void add_held(struct control_writer *writer, bool held, const struct window_held *how,
    int64_t now_ns) {
	control_writer_add(writer, "state", "%s", held ? "held" : "open");
	if (!held)
		return;
	add_until(writer, how->until_ns, now_ns);
	control_answer_id(writer, how->event);
	control_writer_add(writer, "reason", "%s", how->reason);
	control_writer_add(writer, "observed", "%d", how->observed);
}

void control_answer_window(struct control_writer *writer, const struct window_view *view,
    int64_t now_ns) {
	control_writer_add(writer, "state", "%s", window_state_word(view->state));
	control_writer_add(writer, "window", "%u", view->window);
	if (view->ceiling != 0)
		control_writer_add(writer, "ceiling", "%u", view->ceiling);
	control_writer_add(writer, "in_flight", "%u", view->in_flight);
	add_until(writer, view->until_ns, now_ns);
}

void control_answer_id(struct control_writer *writer, uint64_t id) {
	char text[DECISION_ID_MAX];

	if (id != 0)
		control_writer_add(writer, "id", "%s", decision_id_text(id, text));
}

/* A Postfix holds mail by hints alone: why it will not, if it will not. */
static void add_doubt(struct control_writer *writer, const struct engine *engine,
    const struct generation *generation, const char *domain, int64_t now_ns) {
	struct hint_explained hint;

	hint_explain(engine, generation, domain, strlen(domain), CLASS_NO_RULE, now_ns, &hint);
	if (hint.mta == UINT8_MAX || hint.doubt == HINT_DOUBT_NONE ||
	    hint.doubt == HINT_DOUBT_NOT_POSTFIX || hint.doubt >= HINT_DOUBT_NO_CLASS)
		return;
	control_answer_doubt(writer, generation, &hint);
}

static size_t by_hand_answer(struct engine *engine, const struct generation *generation,
    const struct by_hand *request, const struct window_owner *owner, int64_t now_ns,
    char *out) {
	struct control_writer writer;
	struct window_view view;
	struct window_held held;
	char pace[PACE_TEXT_MAX];

	control_answer_begin(&writer, out);
	control_writer_add(&writer, "name", "%s",
	    owner->kind == DESTINATION_NONE ? request->name : owner->name);
	control_writer_add(&writer, "kind", "%s", kind_word(request, owner));
	if (request->class) {
		add_held(&writer, windows_class_held(engine, generation,
		    generation_find_class(generation, request->name), now_ns, &held), &held, now_ns);
	} else if (owner->kind == DESTINATION_NONE) {
		add_held(&writer, windows_recipient_held(engine, generation, request->name,
		    request->name_length, now_ns, &held), &held, now_ns);
		if (manual_stops(request->verb))
			add_doubt(&writer, engine, generation, strrchr(request->name, '@') + 1,
			    now_ns);
	} else {
		windows_view(engine, generation, owner, now_ns, &view);
		control_answer_window(&writer, &view, now_ns);
		if (view.pace.interval_ns != 0)
			control_writer_add(&writer, "pace", "%s", pace_text(view.pace.interval_ns, pace));
		control_answer_id(&writer, view.event);
		if (view.reason[0] != '\0')
			control_writer_add(&writer, "reason", "%s", view.reason);
		control_writer_add(&writer, "observed", "%d",
		    view.observed && view.window == 0);
		if (manual_stops(request->verb) && owner->kind != DESTINATION_PROVIDER)
			add_doubt(&writer, engine, generation, owner->name, now_ns);
		control_answer_untold(&writer, engine, generation, owner->name, now_ns);
	}
	return control_answer_finish(&writer, out);
}

/* Others are told of what stands here alone. */
static void say_no_room(char *text, size_t size, const struct generation *generation,
    const struct by_hand *request, const struct window_owner *owner) {
	bool shared = generation_has_cluster(generation) && knowledge_tells_of(generation,
	    owner->name, strlen(owner->name));

	if (owner->kind == DESTINATION_NONE && !request->class)
		text_append(text, size, 0, "%s: not changed, because the table of recipients "
		    "is full",
		    request->name);
	else
		text_append(text, size, 0, "%s: not changed%s, because the table of "
		    "destinations is full; raise state.destinations and restart", request->name,
		    shared ? " here or on other nodes (run the command on a node that has room)" :
		    "");
}

static size_t by_hand_refuse(const struct generation *generation, const struct by_hand *request,
    const struct window_owner *owner, enum by_hand_error error, char *out) {
	char text[512];
	int code = EX_USAGE;

	switch (error) {
	case BY_HAND_BAD_NAME:
		text_append(text, sizeof(text), 0, "%s: %s", request->name, request->class ?
		    "unknown class" : strncmp(request->name, "provider:", 9) == 0 ?
		    "unknown provider" : "not a valid destination name");
		code = request->class ? EX_DATAERR : EX_USAGE;
		break;
	case BY_HAND_SENSELESS:
		text_append(text, sizeof(text), 0, "%s: only destinations have a window",
		    request->name);
		break;
	case BY_HAND_SHARED:
		text_append(text, sizeof(text), 0, "%s uses the window of %s; name that "
		    "instead",
		    request->name, owner->name);
		break;
	case BY_HAND_NOTHING:
		text_append(text, sizeof(text), 0, "%s: %snothing to %s", request->name,
		    request->class ? "" : "unknown destination; ", manual_word(request->verb));
		code = EX_NOHOST;
		break;
	case BY_HAND_NO_ROOM:
		say_no_room(text, sizeof(text), generation, request, owner);
		code = EX_TEMPFAIL;
		break;
	default:
		text_append(text, sizeof(text), 0,
		    "the shared state was not available in time; try again");
		code = EX_TEMPFAIL;
	}
	return control_answer_end(out, CONTROL_ANSWER_BYTES, code, text);
}

size_t control_answer_by_hand(struct engine *engine, const struct control_frame *request,
    uid_t uid, char *out) {
	const struct generation *generation;
	struct window_owner owner;
	struct by_hand by_hand;
	const char *wrong = read_request(request, &by_hand);
	int64_t now_ns = clock_now_ns();
	enum by_hand_error error;
	size_t length;

	if (wrong != NULL)
		return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_USAGE, wrong);
	by_hand.uid = uid;
	generation = engine_pin(engine);
	error = windows_by_hand(engine, generation, &by_hand, now_ns, &owner);
	length = error == BY_HAND_DONE ?
	    by_hand_answer(engine, generation, &by_hand, &owner, now_ns, out) :
	    by_hand_refuse(generation, &by_hand, &owner, error, out);
	engine_unpin(engine, generation);
	return length;
}
