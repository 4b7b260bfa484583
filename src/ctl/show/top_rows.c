/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  How the rows of posternctl top read.
 * MODEL    Columns of fixed width, and a last one that takes what is left.  A narrow screen
 *          has fewer columns.  Numbers are those of posternctl --json.
 * THREADS  One.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/log.h"
#include "base/text.h"
#include "ctl/show/top.h"
#include "view/decided_line.h"

#define NAME_LEAST	15
#define NAME_MOST	40
#define BAR_WIDTH	10
#define NUMBER_MAX	24
#define ESCAPED_MAX	(4 * TOP_NAME_MAX + 4)

/* --- pieces -------------------------------------------------------------------------- */

/* A row, or the heading of its columns. */
struct line {
	char *out;
	size_t length;
	bool is_heading;
};

static void gap(struct line *line) {
	if (line->length > 0)
		line->length = text_append(line->out, TOP_TEXT_MAX, line->length, "  ");
}

/* Exactly so wide; what is cut ends with "+". */
static void cell(struct line *line, const char *heading, int width, const char *text) {
	gap(line);
	if (line->is_heading)
		text = heading;
	line->length = (int)strlen(text) <= width ?
	    text_append(line->out, TOP_TEXT_MAX, line->length, "%-*s", width, text) :
	    text_append(line->out, TOP_TEXT_MAX, line->length, "%.*s+", width - 1, text);
}

/* To the right. */
static void words(struct line *line, const char *heading, int width, const char *text) {
	gap(line);
	line->length = text_append(line->out, TOP_TEXT_MAX, line->length, "%*s", width,
	    line->is_heading ? heading : text);
}

static void number(struct line *line, const char *heading, int width, bool known,
    uint64_t value) {
	char text[NUMBER_MAX];

	snprintf(text, sizeof(text), known ? "%" PRIu64 : "-", value);
	words(line, heading, width, text);
}

static void rate(struct line *line, const char *heading, double a_second) {
	char text[NUMBER_MAX];

	snprintf(text, sizeof(text), a_second > 0 && a_second < 9.95 ? "%.1f" : "%.0f", a_second);
	words(line, heading, 7, text);
}

/* The last one, as wide as it is. */
static void rest(struct line *line, const char *heading, const char *text) {
	line->length = text_append(line->out, TOP_TEXT_MAX, line->length, "  %s",
	    line->is_heading ? heading : text);
}

static void seconds(int64_t s, char out[NUMBER_MAX]) {
	writer_seconds_text(out, NUMBER_MAX, s < 0 ? 0 : (uint64_t)s);
}

/* Names take what a wide screen has to spare. */
static int name_width(int width, int others) {
	int left = width - others;

	return left < NAME_LEAST ? NAME_LEAST : left > NAME_MOST ? NAME_MOST : left;
}

/* --- the header ------------------------------------------------------------------------ */

static void utc_time(int64_t at_ns, int64_t now_ns, char out[NUMBER_MAX]) {
	time_t then = (time_t)((clock_wall_ns() - (now_ns - at_ns)) / NS_PER_SECOND);
	struct tm tm;

	if (gmtime_r(&then, &tm) == NULL || strftime(out, NUMBER_MAX, "%H:%M:%SZ", &tm) == 0)
		snprintf(out, NUMBER_MAX, "-");
}

static enum screen_style health_row(const struct top *top, char out[TOP_TEXT_MAX]) {
	const struct reader_status *status = &top->view.status;
	const struct generation *g = top->view.generation;
	char text[NUMBER_MAX], clock[NUMBER_MAX];

	if (!top->is_there) {
		text_append(out, TOP_TEXT_MAX, 0, "posternd is not running: %s", top->trouble);
		return SCREEN_BAD;
	}
	if (status->health != READER_LIVE) {
		seconds((status->now_ns - status->heartbeat_ns) / NS_PER_SECOND, text);
		text_append(out, TOP_TEXT_MAX, 0, "posternd is not running (last heartbeat %s "
		    "ago); showing stale data", status->heartbeat_ns <= 0 ? "long" : text);
		return SCREEN_BAD;
	}
	seconds((status->now_ns - status->started_ns) / NS_PER_SECOND, text);
	utc_time(status->now_ns, status->now_ns, clock);
	text_append(out, TOP_TEXT_MAX, 0, "postern live  %s  up %s  generation %" PRIu64 "  "
	    "sessions %" PRIu64 " of %" PRIu64 "  gate %s%s", clock, text, status->generation,
	    status->sessions_used, status->sessions_size, status->gate_shut ? "SHUT" : "open",
	    g == NULL ? "" : g->observe && g->outbound_observe ? "  OBSERVE MODE: nothing is "
	        "refused or held" :
	    g->observe ? "  OBSERVE MODE: no session is refused" :
	    g->outbound_observe ? "  OBSERVE MODE: no mail is held" : "");
	return status->gate_shut ? SCREEN_BAD :
	    g != NULL && (g->observe || g->outbound_observe) ? SCREEN_WARN : SCREEN_GOOD;
}

static void rates_row(const struct top *top, char out[TOP_TEXT_MAX]) {
	static const struct {
		enum top_rate rate;
		const char *word;
	} shown[] = {
		{ TOP_QUESTIONS, "questions" }, { TOP_REFUSED, "refused" },
		{ TOP_DEFERRED, "deferred" }, { TOP_OBSERVED, "observed" },
		{ TOP_RESULTS, "deliveries" },
	};
	size_t length = 0;

	out[0] = '\0';
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		double value = top->rates[shown[i].rate];

		length = text_append(out, TOP_TEXT_MAX, length,
		    value > 0 && value < 9.95 ? "%s%s %.1f/s" : "%s%s %.0f/s",
		    i > 0 ? "  " : "", shown[i].word, value);
	}
}

static enum screen_style faults_row(const struct top *top, char out[TOP_TEXT_MAX]) {
	const uint64_t *counters = top->view.status.counters;
	size_t length = text_append(out, TOP_TEXT_MAX, 0, "faults %" PRIu64 "  untracked %" PRIu64
	    "  workers %u of %u", counters[COUNTER_FAULTS], counters[COUNTER_UNTRACKED],
	    top->roles - top->roles_away, top->roles);

	if (top->roles_old > 0)
		length = text_append(out, TOP_TEXT_MAX, length, " (%u not responding)",
		    top->roles_old);
	if (top->roles_behind > 0)
		length = text_append(out, TOP_TEXT_MAX, length, " (%u behind)",
		    top->roles_behind);
	if (top->journal_ill)
		length = text_append(out, TOP_TEXT_MAX, length, "  journal FAILED");
	if (counters[COUNTER_ALERTS_TOLD] + counters[COUNTER_ALERTS_LEFT_OUT] > 0)
		text_append(out, TOP_TEXT_MAX, length, "  alerts %" PRIu64,
		    counters[COUNTER_ALERTS_TOLD] + counters[COUNTER_ALERTS_LEFT_OUT]);
	return top->roles_away + top->roles_old + top->roles_behind > 0 || top->journal_ill ? SCREEN_BAD :
	    counters[COUNTER_FAULTS] > 0 ? SCREEN_WARN : SCREEN_PLAIN;
}

static enum screen_style cluster_row(const struct top *top, char out[TOP_TEXT_MAX]) {
	const struct top_cluster *cluster = &top->cluster;
	const struct cluster_told *told = &cluster->told;
	bool joined = cluster->state.tone == TONE_GOOD, alone = told->alone != 0;
	char node[4 * CLUSTER_TOLD_NAME], why[4 * TOP_MESSAGE_MAX];
	size_t length;

	log_quote(node, sizeof(node), cluster->node, strlen(cluster->node));
	length = text_append(out, TOP_TEXT_MAX, 0, "cluster %s  node %s",
	    strcmp(cluster->state.text, "without") == 0 ? "without Redis" : cluster->state.text,
	    node);
	if (joined)
		length = text_append(out, TOP_TEXT_MAX, length, "  %" PRIu32 " of %" PRIu32
		    " alive", told->nodes_alive, cluster->most);
	length = text_append(out, TOP_TEXT_MAX, length, "  overhang %" PRIu64,
	    cluster->overhang);
	if (alone)
		length = text_append(out, TOP_TEXT_MAX, length, "  ALONE: uses the whole limits");
	if (!joined && told->why[0] != '\0')
		(void)text_append(out, TOP_TEXT_MAX, length, "  %s",
		    log_sentence(why, sizeof(why), told->why));
	return cluster->state.tone == TONE_BAD || alone ? SCREEN_BAD :
	    cluster->state.tone == TONE_WARN || cluster->overhang > 0 ? SCREEN_WARN : SCREEN_PLAIN;
}

#define PROBLEM_ROWS	7	/* the worst; posternctl status lists all */

static unsigned problem_rows(const struct top *top) {
	return top->verdict.count == 0 || top->looked_ns == 0 ? 1 :
	    top->verdict.count < PROBLEM_ROWS ? top->verdict.count : PROBLEM_ROWS;
}

unsigned top_header_rows(const struct top *top) {
	return 3 + problem_rows(top) + (top->cluster.is_there ? 1 : 0);
}

#define PROBLEM_LEAST	40	/* columns of its text; the command behind it is never cut */
#define VERDICT_COMMAND_SHOWN	160

/* A problem, and behind it the command that shows more. */
static enum screen_style problem_row(const struct top *top, unsigned row, int width,
    char out[TOP_TEXT_MAX]) {
	const struct view_verdict *verdict = &top->verdict;
	const struct verdict_part *part = &verdict->parts[row];
	char behind[VERDICT_COMMAND_SHOWN] = "";
	size_t room = (size_t)width, text_length;

	if (verdict->count == 0) {
		(void)text_append(out, TOP_TEXT_MAX, 0, "no problems");
		return SCREEN_GOOD;
	}
	text_length = strlen(part->text);
	if (row + 1 == PROBLEM_ROWS && verdict->count > PROBLEM_ROWS)
		(void)text_append(behind, sizeof(behind), 0, "  +%u more: posternctl status",
		    verdict->count - PROBLEM_ROWS);
	else if (PROBLEM_LEAST + 2 + strlen(part->command) <= room)
		(void)text_append(behind, sizeof(behind), 0, "  %s", part->command);
	room = room > strlen(behind) ? room - strlen(behind) : 0;
	if (text_length > room && room > 0)
		(void)text_append(out, TOP_TEXT_MAX, 0, "%.*s+%s", (int)room - 1, part->text,
		    behind);
	else
		(void)text_append(out, TOP_TEXT_MAX, 0, "%s%s", part->text, behind);
	return part->tone == TONE_BAD ? SCREEN_BAD : SCREEN_WARN;
}

enum screen_style top_header(const struct top *top, unsigned row, int width,
    char out[TOP_TEXT_MAX]) {
	unsigned problems = problem_rows(top);

	out[0] = '\0';
	if (row == 0)
		return health_row(top, out);
	if (top->looked_ns == 0)
		return SCREEN_PLAIN;
	if (row <= problems)
		return problem_row(top, row - 1, width, out);
	if (row == problems + 1) {
		rates_row(top, out);
		return SCREEN_PLAIN;
	}
	return row == problems + 2 ? faults_row(top, out) : cluster_row(top, out);
}

/* --- classes ----------------------------------------------------------------------------- */

#define CLASS_OTHERS	(2 + BAR_WIDTH + 2 + 2 * 9 + 2 * 9 + 10 + 10)
#define CLASS_MORE	(8 + 11 + 11)
#define CLASS_WIDE	124	/* from so many columns on all of them are shown */

/* A share takes the place of what was refused in all, where not all has room. */
static bool shows_refused(const struct top *top, int width) {
	return !top->shares || width >= 90;
}

static int class_others(const struct top *top, int width) {
	return CLASS_OTHERS + (top->shares ? 8 : 0) - (shows_refused(top, width) ? 0 : 11) +
	    (width >= CLASS_WIDE ? CLASS_MORE : 0);
}

/* "[#####.....]" of the limit that is nearest. */
static const char *bar(uint32_t open, uint32_t limit, char out[BAR_WIDTH + 3]) {
	uint64_t full = limit == LIMIT_NONE || limit == 0 ? (limit == 0 ? BAR_WIDTH : 0) :
	    ((uint64_t)open * BAR_WIDTH + limit - 1) / limit;

	for (uint64_t i = 0; i < BAR_WIDTH; i++)
		out[1 + i] = i < full ? '#' : '.';
	out[0] = '[';
	out[1 + BAR_WIDTH] = ']';
	out[2 + BAR_WIDTH] = '\0';
	return out;
}

/* The nearest one; of a class that is shared all that its share can come to. */
static uint32_t limit_of(const struct reader_class *class) {
	return (class->inbound < class->sessions) != class->shared ? class->inbound :
	    class->sessions;
}

static const char *mode_of(const struct top_class *shown, bool is_wide) {
	const struct reader_class *class = &shown->class;

	if (class->removed)
		return "gone";
	if (class->observe)
		return is_wide ? "observe" : "obs";
	if (!class->shared || strcmp(shown->share.lease, "held") == 0)
		return "";
	return strcmp(shown->share.lease, "alone") == 0 ? "alone" : is_wide ? "no lease" : "fixed";
}

static enum screen_style class_row(const struct top *top, const struct top_class *shown,
    int width, struct line *line) {
	const struct reader_class *class = &shown->class;
	uint32_t limit = limit_of(class);
	uint32_t most = class->shared ? (uint32_t)shown->share.share : limit;
	char name[ESCAPED_MAX], text[BAR_WIDTH + 3];

	log_quote(name, sizeof(name), class->name, strlen(class->name));
	cell(line, "CLASS", name_width(width, class_others(top, width)), name);
	cell(line, "", BAR_WIDTH + 2, bar(class->open, most, text));
	number(line, "OPEN", 6, true, class->open);
	if (top->shares)
		number(line, "SHARE", 6, class->shared, most);
	number(line, "LIMIT", 6, limit != LIMIT_NONE, limit);
	rate(line, "IN/s", shown->admitted);
	rate(line, "REF/s", shown->refused);
	if (shows_refused(top, width))
		number(line, "REFUSED", 9, true, class->refused);
	if (width >= CLASS_WIDE) {
		number(line, "PEAK", 6, true, class->peak);
		number(line, "ADMITTED", 9, true, class->admitted);
		number(line, "OBSERVED", 9, true, class->observed);
	}
	rest(line, "MODE", mode_of(shown, width >= CLASS_WIDE));
	if (most == LIMIT_NONE)
		return SCREEN_PLAIN;
	return class->open >= most ? SCREEN_BAD :
	    (uint64_t)class->open * 10 >= (uint64_t)most * 8 ? SCREEN_WARN : SCREEN_PLAIN;
}

/* --- destinations -------------------------------------------------------------------------- */

#define STATE_WIDTH	13
#define DESTINATION_OTHERS	(STATE_WIDTH + 2 + 8 + 9 + 8 + 9 + 2 + 20)

static enum screen_style destination_row(const struct top *top,
    const struct view_destination *shown, int width, struct line *line) {
	char name[ESCAPED_MAX], until[NUMBER_MAX] = "-", reason[TOP_TEXT_MAX];
	bool stopped = view_destination_stops(shown);
	bool applied = shown->enforcement.kind == ENFORCEMENT_APPLIED;

	log_quote(name, sizeof(name), shown->name, shown->name == NULL ? 0 : strlen(shown->name));
	cell(line, "DESTINATION", name_width(width, DESTINATION_OTHERS), name);
	cell(line, "STATE", STATE_WIDTH, shown->begun ? view_destination_effect(shown) : "-");
	number(line, "WINDOW", 6, shown->has_window, shown->window);
	number(line, "CEILING", 7, shown->has_window && shown->ceiling != 0, shown->ceiling);
	number(line, "FLIGHT", 6, shown->has_window, shown->in_flight);
	if (stopped && applied && shown->until_ns != INT64_MAX)
		seconds((shown->until_ns - top->view.status.now_ns) / NS_PER_SECOND, until);
	words(line, "UNTIL", 7, until);
	rest(line, "REASON", log_sentence(reason, sizeof(reason), shown->reason == NULL ? "" :
	    shown->reason));
	return !shown->begun ? SCREEN_DIM : shown->state == WINDOW_DEAD && applied ? SCREEN_BAD :
	    stopped ? SCREEN_WARN : SCREEN_PLAIN;
}

/* --- decisions --------------------------------------------------------------------------- */

static enum screen_style decision_row(const struct top *top, const struct decided *decided,
    unsigned alike, int width, struct line *line) {
	char time[NUMBER_MAX], subject[DECIDED_LINE_MAX], text[DECIDED_LINE_MAX];
	char id[DECISION_ID_MAX], times[NUMBER_MAX] = "";

	utc_time(decided->at_ns, top->view.status.now_ns, time);
	cell(line, "TIME", 9, time);
	cell(line, "ID", 12, decision_id_text(decided->id, id));
	cell(line, "DECISION", 13, decided_shown_word(decided));
	cell(line, "WHOSE", name_width(width, 2 * NAME_MOST),
	    decided_line_subject(decided, subject));
	if (alike > 1)
		snprintf(times, sizeof(times), "%u times: ", alike);
	rest(line, "WHY", times);
	if (!line->is_heading)
		(void)text_append(line->out, TOP_TEXT_MAX, line->length, "%s",
		    decided_line_text(decided, text));
	return decided->flags & DECIDED_OBSERVED_ONLY ? SCREEN_DIM :
	    decided->kind == DECIDED_SUSPENDED || decided->kind == DECIDED_FAULT ||
	    decided->kind == DECIDED_ALERT || decided->kind == DECIDED_ACCOUNT_HELD ? SCREEN_BAD :
	    decided->kind == DECIDED_BACK ? SCREEN_GOOD :
	    decided->kind == DECIDED_REFUSED || decided->kind == DECIDED_RECIPIENT_HELD ?
	    SCREEN_WARN : SCREEN_PLAIN;
}

/* --- all ------------------------------------------------------------------------------------ */

void top_heading(const struct top *top, enum top_pane pane, int width,
    char out[TOP_TEXT_MAX]) {
	static const struct top_class no_class;
	static const struct view_destination no_destination;
	static const struct decided no_decision;
	struct line line = { .out = out, .is_heading = true };

	if (pane == TOP_CLASSES)
		(void)class_row(top, &no_class, width, &line);
	else if (pane == TOP_DESTINATIONS)
		(void)destination_row(top, &no_destination, width, &line);
	else
		(void)decision_row(top, &no_decision, 1, width, &line);
}

enum screen_style top_row(const struct top *top, enum top_pane pane, size_t row, int width,
    char out[TOP_TEXT_MAX]) {
	struct line line = { .out = out };

	if (pane == TOP_CLASSES)
		return class_row(top, &top->classes[row], width, &line);
	if (pane == TOP_DESTINATIONS)
		return destination_row(top, &top->destinations[row], width, &line);
	return decision_row(top, &top->decisions.list[top->shown[row]], top->alike[row], width,
	    &line);
}
