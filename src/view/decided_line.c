/* SPDX-License-Identifier: ISC */
/* Decisions in words and in columns.  What strangers wrote is escaped here for people; the
 * writer does it for programs. */
#include "view/decided_line.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/log.h"
#include "base/manual.h"
#include "base/pace_text.h"
#include "base/text.h"
#include "policy/limit/decision.h"
#include "policy/reply/reply.h"

#define QUOTED_MAX	340	/* a name, escaped */

/* By what it was suspended, or what somebody did by hand; NULL: neither. */
static const char *decided_by(const struct decided *decided) {
	if (decided->kind == DECIDED_BY_HAND)
		return decided->by < MANUAL_VERBS && decided->by != MANUAL_NONE ?
		    manual_word(decided->by) : NULL;
	if (decided->kind != DECIDED_SUSPENDED)
		return NULL;
	return decided_by_word(decided->by);
}

static const char *quoted(const struct decided *decided, enum decided_text which,
    char out[QUOTED_MAX]) {
	const char *text = decided_text(decided, which);

	return log_quote(out, QUOTED_MAX, text, strlen(text));
}

/* How long it is held, in whole seconds; 0: that is not told, or has no end. */
static uint64_t held_s(const struct decided *decided) {
	int64_t ns = decided->until_ns == INT64_MAX || decided->at_ns < 0 ? 0 :
	    decided->until_ns - decided->at_ns;

	return ns <= 0 ? 0 : (uint64_t)(ns / NS_PER_SECOND) + (ns % NS_PER_SECOND > 0);
}

/* Of an order by an administrator: does it stop mail, for a time or until further notice? */
static bool has_time(const struct decided *decided) {
	return decided->kind != DECIDED_BY_HAND || manual_stops(decided->by);
}

/* --- for people ------------------------------------------------------------------------- */

/* Nothing else tells whom it is about. */
static bool subject_is_class(const struct decided *decided) {
	return !decided_is_of_client(decided) && *decided_text(decided, DECIDED_NAME) == '\0' &&
	    *decided_text(decided, DECIDED_CLASS) != '\0';
}

const char *decided_line_subject(const struct decided *decided, char out[DECIDED_LINE_MAX]) {
	char name[QUOTED_MAX], client[ADDRESS_TEXT_MAX];
	size_t length;

	quoted(decided, subject_is_class(decided) ? DECIDED_CLASS : DECIDED_NAME, name);
	if (!decided_is_of_client(decided)) {
		text_append(out, DECIDED_LINE_MAX, 0, "%s%s", subject_is_class(decided) ||
		    (decided->flags & DECIDED_IS_CLASS) != 0 ? "class " : "", name);
		return out;
	}
	address_format(&decided->client, client);
	length = text_append(out, DECIDED_LINE_MAX, 0, "%s",
	    address_is_unknown(&decided->client) ? "-" : client);
	if (*decided_text(decided, DECIDED_NAME) != '\0')
		text_append(out, DECIDED_LINE_MAX, length, " %s", name);
	return out;
}

static size_t add_text(char *out, size_t length, const char *before, const char *text) {
	return *text == '\0' ? length :
	    text_append(out, DECIDED_LINE_MAX, length, "%s%s", length > 0 ? before : "", text);
}

/* A name or a word, as strangers or the configuration spell it. */
static size_t add_name(char *out, size_t length, const char *before,
    const struct decided *decided, enum decided_text which) {
	char name[QUOTED_MAX];

	if (*decided_text(decided, which) == '\0')
		return length;
	length = text_append(out, DECIDED_LINE_MAX, length, "%s%s", length > 0 ? " " : "", before);
	return text_append(out, DECIDED_LINE_MAX, length, "%s", quoted(decided, which, name));
}

static size_t add_sentence(char *out, size_t length, const struct decided *decided,
    enum decided_text which) {
	char sentence[DECIDED_LINE_MAX];

	log_sentence(sentence, sizeof(sentence), decided_text(decided, which));
	return add_text(out, length, ": ", sentence);
}

static size_t add_time(char *out, size_t length, const struct decided *decided) {
	uint64_t for_s = held_s(decided);

	if (decided->until_ns == INT64_MAX)
		return add_text(out, length, " ", "until it is resumed");
	return for_s == 0 ? length : text_append(out, DECIDED_LINE_MAX, length,
	    "%sfor %" PRIu64 " s", length > 0 ? " " : "", for_s);
}

static size_t add_changes(char *out, size_t length, const struct decided *decided) {
	if (decided->window != decided->before)
		length = text_append(out, DECIDED_LINE_MAX, length, "%swindow %u to %u",
		    length > 0 ? ", " : "", (unsigned)decided->before, (unsigned)decided->window);
	else if (decided->window != 0)
		length = text_append(out, DECIDED_LINE_MAX, length, "%swindow %u",
		    length > 0 ? ", " : "", (unsigned)decided->window);
	if (decided->ceiling == decided->ceiling_before)
		return length;
	if (decided->ceiling_before != 0 && decided->ceiling != 0)
		return text_append(out, DECIDED_LINE_MAX, length, "%sceiling %u to %u",
		    length > 0 ? ", " : "", (unsigned)decided->ceiling_before,
		    (unsigned)decided->ceiling);
	return text_append(out, DECIDED_LINE_MAX, length,
	    decided->ceiling != 0 ? "%sceiling %u" : "%sceiling %u reset",
	    length > 0 ? ", " : "",
	    (unsigned)(decided->ceiling != 0 ? decided->ceiling : decided->ceiling_before));
}

static size_t add_pace(char *out, size_t length, const struct decided *decided) {
	char before[PACE_TEXT_MAX], now[PACE_TEXT_MAX];

	return text_append(out, DECIDED_LINE_MAX, length, "%space %s to %s", length > 0 ? ", " : "",
	    pace_text(decided->before * DECIDED_PACE_NS, before),
	    pace_text(decided->window * DECIDED_PACE_NS, now));
}

static size_t add_number(char *out, size_t length, const struct decided *decided) {
	return decided->window == 0 ? text_append(out, DECIDED_LINE_MAX, length, "no maximum") :
	    text_append(out, DECIDED_LINE_MAX, length, "%u messages a day", (unsigned)decided->window);
}

/* Of a session or a recipient. */
static size_t describe_session(char *out, const struct decided *decided) {
	const char *reason = decided_reason_word(decided->reason);
	size_t length = add_text(out, 0, "", reason == NULL ? "" : reason);

	if (decided->count != 0 || decided->limit != 0)
		length = text_append(out, DECIDED_LINE_MAX, length, "%s%u of %u",
		    length > 0 ? " " : "", (unsigned)decided->count, (unsigned)decided->limit);
	if (decided->reason == REASON_CLASS_SHARE)
		length = text_append(out, DECIDED_LINE_MAX, length, "%sshare of %u",
		    length > 0 ? ", " : "", (unsigned)decided->before);
	if (decided_lease_word(decided) != NULL)
		length = text_append(out, DECIDED_LINE_MAX, length, ", lease %s",
		    decided_lease_word(decided));
	if (!subject_is_class(decided))
		length = add_name(out, length, "class ", decided, DECIDED_CLASS);
	length = add_name(out, length, "to ", decided, DECIDED_RECIPIENT);
	length = add_name(out, length, "window of ", decided, DECIDED_WINDOW_OF);
	length = add_time(out, length, decided);
	return add_sentence(out, length, decided, DECIDED_REASON);
}

static size_t describe_destination(char *out, const struct decided *decided) {
	const char *by = decided_by(decided);
	size_t length = 0;

	if (decided->kind == DECIDED_BY_HAND)
		length = text_append(out, DECIDED_LINE_MAX, 0, "%s by uid %u",
		    by == NULL ? "something" : by, (unsigned)decided->uid);
	else if (decided->kind == DECIDED_SUSPENDED && by != NULL)
		length = text_append(out, DECIDED_LINE_MAX, 0, "by %s", by);
	length = add_name(out, length, "at ", decided, DECIDED_NODE);
	if (has_time(decided))
		length = add_time(out, length, decided);
	length = add_name(out, length, "rule ", decided, DECIDED_RULE);
	if (decided->kind == DECIDED_FAILURE)
		length = add_name(out, length, "by ", decided, DECIDED_RELAY);
	else if (decided->kind == DECIDED_PACE)
		length = add_pace(out, length, decided);
	else if (decided->kind == DECIDED_SOURCE_DAY)
		length = add_number(out, length, decided);
	else if (decided->kind != DECIDED_ALERT && decided->kind != DECIDED_ACCOUNT_HELD)
		length = add_changes(out, length, decided);
	length = add_sentence(out, length, decided, DECIDED_NOTE);
	return add_sentence(out, length, decided, DECIDED_REASON);
}

const char *decided_line_text(const struct decided *decided, char out[DECIDED_LINE_MAX]) {
	char why[ENFORCEMENT_TEXT_MAX];
	size_t length;

	out[0] = '\0';
	if (decided_is_of_sessions(decided))
		length = describe_session(out, decided);
	else
		length = describe_destination(out, decided);
	if ((decided->flags & DECIDED_OBSERVED_ONLY) != 0)
		(void)text_append(out, DECIDED_LINE_MAX, length, "%s(%s)", length > 0 ? " " : "",
		    decided_not_applied(decided, why));
	return out;
}

/* --- each value ------------------------------------------------------------------------- */

/* The texts that values point at, each until the next value of its kind. */
struct decided_texts {
	char id[DECISION_ID_MAX], time[VIEW_TIME_MAX], client[ADDRESS_TEXT_MAX], rate[64];
	char what[VIEW_DECIDED_MAX], place[DECIDED_PLACE_MAX];
	char pace[PACE_TEXT_MAX];
};

static struct value text_value(const struct decided *decided, enum decided_text which) {
	return value_text_if(decided_text(decided, which));
}

static struct value number_value(uint64_t number) {
	return value_number_if(number != 0, number);
}

static struct value id_value(uint64_t id, char out[DECISION_ID_MAX]) {
	return id == 0 ? value_unknown() : value_text(decision_id_text(id, out));
}

static struct value relay_value(const struct decided *decided, const char *address) {
	struct value relay = text_value(decided, DECIDED_RELAY);

	return relay.known ? relay : value_text(address);
}

/* Of a limit per time. */
static struct value rate_value(const struct decided *decided, char out[64]) {
	bool of_account = decided->kind == DECIDED_ACCOUNT || decided->kind == DECIDED_ACCOUNT_HELD;

	if (decided->reason != REASON_CLASS_RATE && decided->reason != REASON_CLIENT_RATE &&
	    (!of_account || decided->window == 0))
		return value_unknown();
	(void)text_append(out, 64, 0, "%u/%ums", decided->before, decided->window);
	return value_text(out);
}

static struct value pace_value(const struct decided *decided, uint32_t interval,
    char out[PACE_TEXT_MAX]) {
	return decided->kind != DECIDED_PACE || interval == 0 ? value_unknown() :
	    value_text(pace_text(interval * DECIDED_PACE_NS, out));
}

const char *decided_place(const struct decided *decided, uint32_t line,
    char out[DECIDED_PLACE_MAX]) {
	const char *file = decided_text(decided, DECIDED_FILE);

	out[0] = '\0';
	if (line != 0 && *file != '\0')
		(void)text_append(out, DECIDED_PLACE_MAX, 0, "%s:%u", file, line);
	return out;
}

static struct value place_value(const struct decided *decided, uint32_t line,
    char out[DECIDED_PLACE_MAX]) {
	return value_text_if(decided_place(decided, line, out));
}

#define TAIL	DECIDED_FOR_TAIL
#define WHY	DECIDED_FOR_WHY
#define BOTH	(TAIL | WHY)
#define JSON	(TAIL | (writer->json ? WHY : 0))

void decided_write(const struct decided_shown *shown, enum decided_list list,
    struct writer *writer, decided_put_value *put) {
	const struct decided *d = shown->d, *origin = shown->origin == NULL ? d : shown->origin;
	const struct decided_now *now = &shown->now;
	bool of_destinations = decided_ring_of((enum decided_kind)d->kind) ==
	    DECIDED_OF_DESTINATIONS;
	bool is_outbound = (d->flags & DECIDED_OUTBOUND) != 0;
	bool is_observed = (d->flags & DECIDED_OBSERVED_ONLY) != 0;
	bool is_of_window = of_destinations && d->kind != DECIDED_ALERT &&
	    d->kind != DECIDED_RECIPIENT_HELD && d->kind != DECIDED_ACCOUNT_HELD &&
	    d->kind != DECIDED_PACE && d->kind != DECIDED_SOURCE_DAY;
	bool is_of_share = !of_destinations && d->reason == REASON_CLASS_SHARE;
	bool is_compared = d->count != 0 || d->limit != 0 || is_of_share;
	bool is_by_defaults = d->kind == DECIDED_SUSPENDED && d->by == DECIDED_BY_COHORTS &&
	    d->line == 0;
	struct decided_texts texts;
	const char *address = address_is_unknown(&d->client) ? NULL : texts.client;

	address_format(&d->client, texts.client);
	view_decided_say(d, texts.what);
	(void)view_time(shown->wall_ns, texts.time);
#define FIELD(name, where, kind, value) \
	if (((where) & list) != 0) \
		put(writer, name, COLUMN_##kind, value);
#include "defs/decision.def"
#undef FIELD
}
