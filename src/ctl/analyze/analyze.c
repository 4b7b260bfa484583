/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl analyze: what the log readers make of a log, and what would have
 *          been learned from it.
 * MODEL    A row for each delivery result as it is read; behind them what each
 *          destination's window would have come to, and a summary.  JSON: one object a
 *          line, told apart by "event".
 * ERRORS   A file that cannot be read is complained about, the others are read.  Lines
 *          that cannot be understood are counted.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/analyze/analyze.h"
#include "ctl/analyze/analyze_learned.h"

#define TEXT_MAX		1024
#define LEAST_SLACK_NS		(50 * NS_PER_MS)

struct analyze {
	struct ctl *ctl;
	struct analyze_site site;
	struct analyze_learning learning;
	struct analyze_clock clock;
	struct analyze_lines lines;
	int64_t now_ns;		/* never goes back */
	uint64_t kinds[LOG_LINE_BROKEN + 1];
	uint64_t classes[RESULT_CLASS_COUNT];
	bool several;		/* files */
};

/* --- deliveries --------------------------------------------------------------------- */

/* Of the columns that people see. */
static const size_t delivery_widths[] = { 12, 6, 8, 14, 36, 48, 6, 9, 0 };

static struct value span_value(struct span span, char space[TEXT_MAX]) {
	size_t length = 0;

	for (size_t i = 0; i < span.length && length < TEXT_MAX - 1; i++)
		if (span.text[i] != '\0')
			space[length++] = span.text[i];
	space[length] = '\0';
	return value_text(space);
}

/* As the log says it, where it is Postfix's own word; but for one that means another. */
static struct value status_value(const struct log_line *line, char space[TEXT_MAX]) {
	switch (line->delivery.status) {
	case DELIVERY_SENT:
		return value_text("sent");
	case DELIVERY_DEFERRED:
		return value_text("deferred");
	case DELIVERY_BOUNCED:
		return value_text("bounced");
	case DELIVERY_EXPIRED:
		return value_text("expired");
	case DELIVERY_DELIVERABLE:
	case DELIVERY_UNDELIVERABLE:
	case DELIVERY_STATUS_OTHER:
		break;
	}
	return span_value(line->status_word, space);
}

static struct value dsn_value(const uint16_t dsn[3], char space[TEXT_MAX]) {
	space[0] = '\0';
	if (dsn[0] != 0)
		text_append(space, TEXT_MAX, 0, "%u.%u.%u", dsn[0], dsn[1], dsn[2]);
	return value_text(space);
}

static struct value rule_value(const struct analyze *analyze, uint32_t number,
    char space[TEXT_MAX]) {
	struct judge_rule rule;

	if (number == JUDGE_NONE)
		return value_unknown();
	judge_rule(analyze->site.generation, number, &rule);
	if (*rule.name != '\0')
		return value_text(rule.name);
	text_append(space, TEXT_MAX, 0, "%s:%u", rule.file, rule.line);
	return value_text(space);
}

struct shown_delivery {
	const struct analyze_line *at;
	const struct log_line *line;
	const struct judgement *judgement;
	bool dated;
};

/* "file" is for people only where there are several. */
static void delivery_row(void *context, struct writer *writer, const void *item) {
	static const struct analyze_line no_line;
	static const struct log_line no_log;
	static const struct judgement no_judgement = { .rule = JUDGE_NONE };
	static const struct shown_delivery nothing = { &no_line, &no_log, &no_judgement, false };
	const struct analyze *analyze = context;
	const struct shown_delivery *shown = writer->naming ? &nothing : item;
	const struct judgement *judgement = shown->judgement;
	const struct reply *reply = &judgement->reply;
	const struct delivery *d = &shown->line->delivery;
	bool of_sendmail = d->source == DELIVERY_OF_SENDMAIL;
	char text[TEXT_MAX], time[ANALYZE_TIME_MAX];

	if (writer->json)
		writer_text(writer, "event", "delivery");
	if (writer->json || analyze->several)
		writer_text(writer, "file", shown->at->file);
	writer_number(writer, "line", shown->at->number);
	writer_text(writer, "mta", of_sendmail ? "sendmail" : "postfix");
	writer_member(writer, "queue_id", COLUMN_TEXT, span_value(d->queue_id, text));
	writer_member(writer, "recipient", COLUMN_TEXT, span_value(of_sendmail ? d->list :
	    d->recipient, text));
	writer_member(writer, "relay", COLUMN_TEXT, span_value(d->relay, text));
	writer_member(writer, "dsn", COLUMN_TEXT, dsn_value(d->dsn, text));
	writer_member(writer, "status", COLUMN_TEXT, status_value(shown->line, text));
	writer_member(writer, "class", COLUMN_TEXT, value_toned_if(value_text(result_class_word(
	    reply->class)), reply->class == RESULT_SITE_FAILURE ||
	    reply->class == RESULT_REMOTE_THROTTLE, TONE_WARN));
	if (!writer->json)
		return;
	writer_text(writer, "time", shown->dated ? analyze_time(analyze->clock.last_ms, time) :
	    NULL);
	writer_member(writer, "program", COLUMN_TEXT, span_value(d->program, text));
	writer_text(writer, "phase", delivery_phase_word(reply->phase));
	writer_text(writer, "destination", judgement->owner.kind == DESTINATION_NONE ? NULL :
	    judgement->owner.name);
	writer_member(writer, "rule", COLUMN_TEXT, rule_value(analyze, judgement->rule, text));
	writer_member(writer, "reply", COLUMN_TEXT, span_value(reply->words, text));
}

/* A date of whole seconds: lines are in order, and spread over it more or less. */
static struct analyze_moment moment_of(struct analyze *analyze, const struct analyze_line *at) {
	const struct analyze_clock *clock = &analyze->clock;
	struct analyze_moment moment = { .end_ns = clock->last_ms * NS_PER_MS,
		.slack_ns = NS_PER_MS };

	if (!clock->fine) {
		moment.end_ns += NS_PER_SECOND * (2 * (int64_t)at->place + 1) / (2 * at->of);
		moment.slack_ns = NS_PER_SECOND / (1 + (int64_t)at->of);
		if (moment.slack_ns < LEAST_SLACK_NS)
			moment.slack_ns = LEAST_SLACK_NS;
	}
	if (moment.end_ns > analyze->now_ns)
		analyze->now_ns = moment.end_ns;
	moment.now_ns = analyze->now_ns;
	return moment;
}

static void on_line(void *context, const struct analyze_line *at) {
	struct analyze *analyze = context;
	struct judgement judgement;
	struct analyze_moment moment;
	struct log_line line;
	bool dated;

	mail_log_scan(at->text, at->length, &line);
	analyze->kinds[line.kind]++;
	if (line.kind == LOG_LINE_FOREIGN)
		return;
	dated = analyze_clock_read(&analyze->clock, line.head);
	if (line.kind != LOG_LINE_DELIVERY)
		return;
	analyze_site_judge(&analyze->site, &line, &judgement);
	analyze->classes[judgement.reply.class]++;
	writer_row(&analyze->ctl->writer, &(const struct shown_delivery){ at, &line, &judgement,
	    dated });
	moment = moment_of(analyze, at);
	analyze_learn(&analyze->learning, &line.delivery, &judgement, &moment);
}

/* --- what was learned ---------------------------------------------------------------- */

static void destination_row(void *context, struct writer *writer, const void *item) {
	const struct learned *shown = item;

	(void)context;
	analyze_event_put(writer, "destination");
	writer_text(writer, "name", shown->name);
	writer_text(writer, "law", window_law_word(shown->settings.law));
	writer_member(writer, "state", COLUMN_TEXT, value_toned_if(value_text(window_state_word(
	    (enum window_state)shown->window.state)), shown->window.state == WINDOW_DEAD,
	    TONE_BAD));
	writer_number(writer, "window", shown->window.concurrency);
	writer_number_if(writer, "ceiling", shown->window.ceiling != 0, shown->window.ceiling);
	writer_number(writer, "ok", shown->ok);
	writer_number(writer, "failed", shown->failed);
	writer_number(writer, "suspended", shown->suspended);
	writer_number(writer, "deaths", shown->deaths);
	writer_number(writer, "held", shown->held);
	writer_number(writer, "saved", shown->saved);
	writer_number(writer, "delayed", shown->delayed);
	writer_text(writer, "reason", shown->reason);
}

/* People see those that something went wrong with. */
static bool is_worth_it(const struct learned *shown) {
	return shown->failed > 0 || shown->suspended > 0 || shown->deaths > 0 ||
	    shown->held > 0;
}

static void write_list(void *context, struct writer *writer) {
	const struct analyze_learning *learning = context;

	for (size_t i = 0; i < learning->count; i++)
		if (learning->all[i]->has_window && (writer->json || is_worth_it(learning->all[i])))
			writer_row(writer, learning->all[i]);
}

static void write_destinations(struct writer *writer, struct analyze_learning *learning) {
	bool any = writer->json;

	for (size_t i = 0; i < learning->count; i++)
		any = any || is_worth_it(learning->all[i]);
	if (any)
		analyze_write_table(writer, &(const struct table){ .name = "destinations",
		    .row = destination_row, .rows = write_list, .context = learning });
}

/* --- summary ------------------------------------------------------------------------- */

static struct learned sum_of(const struct analyze_learning *learning, size_t *count) {
	struct learned sum = { .held = 0 };

	*count = 0;
	for (size_t i = 0; i < learning->count; i++) {
		*count += learning->all[i]->has_window;
		sum.deaths += learning->all[i]->deaths;
		sum.held += learning->all[i]->held;
		sum.saved += learning->all[i]->saved;
		sum.delayed += learning->all[i]->delayed;
	}
	return sum;
}

static void write_summary(const struct analyze *analyze) {
	size_t destinations;
	const struct learned sum = sum_of(&analyze->learning, &destinations);
	struct writer *writer = &analyze->ctl->writer;
	const uint64_t *kinds = analyze->kinds;
	const struct analyze_actions *actions = &analyze->learning.actions;

	analyze_summary_begin(writer, &analyze->lines, &analyze->clock);
	writer_number(writer, "deliveries", kinds[LOG_LINE_DELIVERY]);
	writer_number(writer, "broken", kinds[LOG_LINE_BROKEN]);
	writer_number(writer, "too_long", analyze->lines.long_lines);
	writer_number(writer, "sessions", kinds[LOG_LINE_SESSION]);
	writer_number(writer, "other", kinds[LOG_LINE_OTHER] + kinds[LOG_LINE_ACTIVE] +
	    kinds[LOG_LINE_REMOVED]);
	writer_number(writer, "foreign", kinds[LOG_LINE_FOREIGN]);
	for (unsigned i = 0; i < RESULT_CLASS_COUNT; i++)
		writer_number(writer, result_class_word((enum result_class)i),
		    analyze->classes[i]);
	writer_number(writer, "destinations", destinations);
	writer_number(writer, "deaths", sum.deaths);
	writer_number(writer, "held", sum.held);
	writer_number(writer, "saved", sum.saved);
	writer_number(writer, "delayed", sum.delayed);
	writer_number(writer, "rule_suspensions", actions->suspensions);
	writer_number(writer, "rule_ceilings", actions->ceilings);
	writer_number(writer, "recipients_held", actions->recipients_held);
	writer_number(writer, "alerts", actions->alerts);
	analyze_summary_end(writer, NULL, NULL);
}

/* --- the command ----------------------------------------------------------------------- */

static int analyze(struct analyze *analyze) {
	const struct table deliveries = { .row = delivery_row, .context = analyze };
	int result;

	writer_stream(&analyze->ctl->writer, &deliveries, delivery_widths + !analyze->several);
	result = analyze_lines(analyze->ctl, &analyze->lines, on_line, analyze);
	analyze_learn_end(&analyze->learning);
	analyze_learned_sort(&analyze->learning);
	writer_stream_end(&analyze->ctl->writer);
	write_destinations(&analyze->ctl->writer, &analyze->learning);
	write_summary(analyze);
	return result;
}

int command_ANALYZE(struct ctl *ctl) {
	struct analyze state = { .ctl = ctl, .several = ctl->word_count > 1 };
	int result = analyze_lines_look(ctl);

	if (result != EX_OK)
		return result;
	if (ctl->sessions)
		return analyze_sessions(ctl);
	if (ctl->accounts) {
#ifdef WITH_ACCOUNTS
		return analyze_accounts(ctl);
#else
		ctl_complain("this build has no accounts (configure --disable-accounts)");
		return EX_UNAVAILABLE;
#endif
	}
	result = analyze_clock_begin(ctl, &state.clock);
	if (result == EX_OK)
		result = analyze_site_open(ctl, &state.site);
	if (result != EX_OK)
		return result;
	analyze_learning_begin(&state.learning, state.site.generation);
	result = analyze(&state);
	analyze_learning_end(&state.learning);
	analyze_site_close(&state.site);
	return result;
}
