/* SPDX-License-Identifier: ISC */
/* Decisions in words and in columns.  What strangers wrote is escaped here for people; the
 * writer does it for programs. */
#include "view/decided_line.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/log.h"
#include "base/text.h"

#define QUOTED_MAX	340	/* a name, escaped */

/* In the order of enum by_hand_verb of engine/destination/windows.h. */
static const char *const hand_words[] = { "suspend", "hold", "resume", "forget", "limit" };

static const char *hand_word(const struct decided *decided) {
	unsigned verb = decided->by - 1u;

	return verb < sizeof(hand_words) / sizeof(hand_words[0]) ? hand_words[verb] : NULL;
}

const char *decided_by(const struct decided *decided) {
	if (decided->kind == DECIDED_BY_HAND)
		return hand_word(decided);
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
	return decided->kind != DECIDED_BY_HAND || decided->by == 1 || decided->by == 2;
}

/* --- for people ------------------------------------------------------------------------- */

static bool is_of_client(const struct decided *decided) {
	return decided_ring_of((enum decided_kind)decided->kind) == DECIDED_OF_SESSIONS &&
	    (decided->flags & DECIDED_OUTBOUND) == 0;
}

/* Nothing else tells whom it is about. */
static bool subject_is_class(const struct decided *decided) {
	return !is_of_client(decided) && *decided_text(decided, DECIDED_NAME) == '\0' &&
	    *decided_text(decided, DECIDED_CLASS) != '\0';
}

const char *decided_line_subject(const struct decided *decided, char out[DECIDED_LINE_MAX]) {
	char name[QUOTED_MAX], client[ADDRESS_TEXT_MAX];
	size_t length;

	quoted(decided, subject_is_class(decided) ? DECIDED_CLASS : DECIDED_NAME, name);
	if (!is_of_client(decided)) {
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

static size_t add(char *out, size_t length, const char *before, const char *text) {
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
	return add(out, length, ": ", sentence);
}

static size_t add_time(char *out, size_t length, const struct decided *decided) {
	uint64_t for_s = held_s(decided);

	if (decided->until_ns == INT64_MAX)
		return add(out, length, " ", "until it is resumed");
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

/* Of a session or a recipient. */
static size_t describe_session(char *out, const struct decided *decided) {
	const char *reason = decided_reason_word(decided->reason);
	size_t length = add(out, 0, "", reason == NULL ? "" : reason);

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
	else if (decided->kind != DECIDED_ALERT && decided->kind != DECIDED_ACCOUNT_HELD)
		length = add_changes(out, length, decided);
	length = add_sentence(out, length, decided, DECIDED_NOTE);
	return add_sentence(out, length, decided, DECIDED_REASON);
}

const char *decided_line_text(const struct decided *decided, char out[DECIDED_LINE_MAX]) {
	char why[ENFORCEMENT_TEXT_MAX];
	size_t length;

	out[0] = '\0';
	if (decided_ring_of((enum decided_kind)decided->kind) == DECIDED_OF_SESSIONS)
		length = describe_session(out, decided);
	else
		length = describe_destination(out, decided);
	if ((decided->flags & DECIDED_OBSERVED_ONLY) != 0)
		(void)text_append(out, DECIDED_LINE_MAX, length, "%s(%s)", length > 0 ? " " : "",
		    decided_not_applied(decided, why));
	return out;
}

/* --- for programs ----------------------------------------------------------------------- */

const struct column decided_columns[DECIDED_COLUMNS] = {
	{ "id", COLUMN_TEXT },
	{ "time", COLUMN_TEXT },
	{ "kind", COLUMN_TEXT },
	{ "stage", COLUMN_TEXT },
	{ "observed", COLUMN_TRUTH },
	{ "outbound", COLUMN_TRUTH },
	{ "class", COLUMN_TEXT },
	{ "client", COLUMN_TEXT },
	{ "client_port", COLUMN_NUMBER },
	{ "name", COLUMN_TEXT },
	{ "recipient", COLUMN_TEXT },
	{ "queue_id", COLUMN_TEXT },
	{ "mta", COLUMN_TEXT },
	{ "relay", COLUMN_TEXT },
	{ "reason", COLUMN_TEXT },
	{ "count", COLUMN_NUMBER },
	{ "limit", COLUMN_NUMBER },
	{ "rule", COLUMN_TEXT },
	{ "file", COLUMN_TEXT },
	{ "line", COLUMN_NUMBER },
	{ "by", COLUMN_TEXT },
	{ "for", COLUMN_SECONDS },
	{ "window_before", COLUMN_NUMBER },
	{ "window", COLUMN_NUMBER },
	{ "ceiling_before", COLUMN_NUMBER },
	{ "ceiling", COLUMN_NUMBER },
	{ "code", COLUMN_NUMBER },
	{ "uid", COLUMN_NUMBER },
	{ "text", COLUMN_TEXT },
	{ "note", COLUMN_TEXT },
	{ "cause", COLUMN_TEXT },
	{ "what", COLUMN_TEXT },
	{ "lease", COLUMN_TEXT },
	{ "node", COLUMN_TEXT },
	{ "origin_id", COLUMN_TEXT },
	{ "port", COLUMN_NUMBER },
};

static struct value text_or_unknown(const struct decided *decided, enum decided_text which) {
	const char *text = decided_text(decided, which);

	return *text == '\0' ? value_unknown() : value_text(text);
}

static struct value number_or_unknown(uint64_t number) {
	return number == 0 ? value_unknown() : value_number(number);
}

static struct value id_value(uint64_t id, char out[24]) {
	return id == 0 ? value_unknown() : value_text(decision_id_text(id, out));
}

void decided_values(const struct decided *decided, int64_t now_ns, int64_t wall_ns,
    struct decided_texts *texts, struct value values[DECIDED_COLUMNS]) {
	bool compared = decided->count != 0 || decided->limit != 0;
	bool windowed = decided_ring_of((enum decided_kind)decided->kind) ==
	    DECIDED_OF_DESTINATIONS && decided->kind != DECIDED_FAILURE &&
	    decided->kind != DECIDED_ALERT && decided->kind != DECIDED_ACCOUNT_HELD;

	address_format(&decided->client, texts->client);
	values[0] = id_value(decided->id, texts->id);
	values[1] = value_text(view_time(wall_ns - (now_ns - decided->at_ns), texts->time));
	values[2] = value_text(decided_word(decided->kind));
	values[3] = value_text(decided_stage_word(decided->stage));
	values[4] = value_truth((decided->flags & DECIDED_OBSERVED_ONLY) != 0);
	values[5] = value_truth((decided->flags & DECIDED_OUTBOUND) != 0);
	values[6] = text_or_unknown(decided, DECIDED_CLASS);
	values[7] = address_is_unknown(&decided->client) ? value_unknown() :
	    value_text(texts->client);
	values[8] = number_or_unknown(decided->client_port);
	values[9] = text_or_unknown(decided, DECIDED_NAME);
	values[10] = text_or_unknown(decided, DECIDED_RECIPIENT);
	values[11] = text_or_unknown(decided, DECIDED_QUEUE_ID);
	values[12] = text_or_unknown(decided, DECIDED_MTA);
	values[13] = text_or_unknown(decided, DECIDED_RELAY);
	values[14] = value_text(decided_reason_word(decided->reason));
	values[15] = compared ? value_number(decided->count) : value_unknown();
	values[16] = compared ? value_number(decided->limit) : value_unknown();
	values[17] = text_or_unknown(decided, DECIDED_RULE);
	values[18] = text_or_unknown(decided, DECIDED_FILE);
	values[19] = number_or_unknown(decided->line);
	values[20] = value_text(decided_by(decided));
	values[21] = number_or_unknown(held_s(decided));
	values[22] = windowed ? value_number(decided->before) : value_unknown();
	values[23] = windowed ? value_number(decided->window) : value_unknown();
	values[24] = number_or_unknown(decided->ceiling_before);
	values[25] = number_or_unknown(decided->ceiling);
	values[26] = number_or_unknown(decided->code);
	values[27] = decided->kind == DECIDED_BY_HAND ? value_number(decided->uid) :
	    value_unknown();
	values[28] = text_or_unknown(decided, DECIDED_REASON);
	values[29] = text_or_unknown(decided, DECIDED_NOTE);
	values[30] = id_value(decided->cause, texts->cause);
	view_decided_say(decided, texts->what);
	values[31] = value_text(texts->what);
	values[32] = value_text(decided_lease_word(decided));
	values[33] = text_or_unknown(decided, DECIDED_NODE);
	values[34] = text_or_unknown(decided, DECIDED_ORIGIN);
	values[35] = number_or_unknown(decided->server_port);
}
