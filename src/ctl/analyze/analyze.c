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
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/analyze/analyze.h"

#define COUNT_OF(array)		(sizeof(array) / sizeof((array)[0]))
#define TEXT_MAX		1024
#define LEAST_SLACK_NS		(50 * NS_PER_MS)

struct analyze {
	struct ctl *ctl;
	struct analyze_site site;
	struct analyze_learning *learning;
	struct analyze_clock clock;
	struct analyze_lines lines;
	int64_t now_ns;		/* never goes back */
	uint64_t kinds[LOG_LINE_BROKEN + 1];
	uint64_t classes[RESULT_CLASS_COUNT];
	bool several;		/* files */
};

/* --- deliveries --------------------------------------------------------------------- */

/* "event" is for JSON alone, "file" for people only where there are several. */
static const struct column delivery_columns[] = {
	{ "event", COLUMN_TEXT },
	{ "file", COLUMN_TEXT },
	{ "line", COLUMN_NUMBER },
	{ "mta", COLUMN_TEXT },
	{ "queue_id", COLUMN_TEXT },
	{ "recipient", COLUMN_TEXT },
	{ "relay", COLUMN_TEXT },
	{ "dsn", COLUMN_TEXT },
	{ "status", COLUMN_TEXT },
	{ "class", COLUMN_TEXT },
	/* JSON alone */
	{ "time", COLUMN_TEXT },
	{ "program", COLUMN_TEXT },
	{ "phase", COLUMN_TEXT },
	{ "destination", COLUMN_TEXT },
	{ "rule", COLUMN_TEXT },
	{ "reply", COLUMN_TEXT },
};
#define TEXT_COLUMNS	10
static const size_t delivery_widths[TEXT_COLUMNS] = { 0, 12, 6, 8, 14, 36, 48, 6, 9, 0 };

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

static void write_delivery(struct analyze *analyze, const struct analyze_line *at,
    const struct log_line *line, const struct judgement *judgement, bool dated) {
	const struct delivery *d = &line->delivery;
	struct writer *writer = &analyze->ctl->writer;
	char texts[8][TEXT_MAX], time[ANALYZE_TIME_MAX];
	bool of_sendmail = d->source == DELIVERY_OF_SENDMAIL;
	const struct value values[COUNT_OF(delivery_columns)] = {
		value_text("delivery"),
		value_text(at->file),
		value_number(at->number),
		value_text(of_sendmail ? "sendmail" : "postfix"),
		span_value(d->queue_id, texts[0]),
		span_value(of_sendmail ? d->list : d->recipient, texts[1]),
		span_value(d->relay, texts[2]),
		dsn_value(d->dsn, texts[3]),
		status_value(line, texts[4]),
		value_toned_if(value_text(result_class_word(judgement->reply.class)),
		    judgement->reply.class == RESULT_SITE_FAILURE ||
		    judgement->reply.class == RESULT_REMOTE_THROTTLE, TONE_WARN),
		dated ? value_text(analyze_time(analyze->clock.last_ms, time)) : value_unknown(),
		span_value(d->program, texts[5]),
		value_text(delivery_phase_word(judgement->reply.phase)),
		judgement->kind == DESTINATION_NONE ? value_unknown() :
		    value_text(judgement->destination),
		rule_value(analyze, judgement->rule, texts[6]),
		span_value(judgement->reply.words, texts[7]),
	};
	size_t skipped = analyze->several ? 1 : 2;

	if (writer->json)
		writer_row(writer, values);
	else
		writer_row(writer, values + skipped);
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
	write_delivery(analyze, at, &line, &judgement, dated);
	moment = moment_of(analyze, at);
	analyze_learn(analyze->learning, &line.delivery, &judgement, &moment);
}

static void begin_deliveries(struct analyze *analyze) {
	size_t skipped = analyze->several ? 1 : 2;

	if (analyze->ctl->writer.json)
		writer_stream(&analyze->ctl->writer, delivery_columns, NULL,
		    COUNT_OF(delivery_columns));
	else
		writer_stream(&analyze->ctl->writer, delivery_columns + skipped,
		    delivery_widths + skipped, TEXT_COLUMNS - skipped);
}

/* --- what was learned ---------------------------------------------------------------- */

static const struct column destination_columns[] = {
	{ "event", COLUMN_TEXT },
	{ "line", COLUMN_NUMBER },
	{ "name", COLUMN_TEXT },
	{ "law", COLUMN_TEXT },
	{ "state", COLUMN_TEXT },
	{ "window", COLUMN_NUMBER },
	{ "ceiling", COLUMN_NUMBER },
	{ "ok", COLUMN_NUMBER },
	{ "failed", COLUMN_NUMBER },
	{ "suspended", COLUMN_NUMBER },
	{ "deaths", COLUMN_NUMBER },
	{ "held", COLUMN_NUMBER },
	{ "saved", COLUMN_NUMBER },
	{ "delayed", COLUMN_NUMBER },
	{ "reason", COLUMN_TEXT },
};

static void write_destination(struct writer *writer, const struct analyze_destination *shown) {
	const struct value values[COUNT_OF(destination_columns)] = {
		value_text("destination"),
		value_unknown(),
		value_text(shown->name),
		value_text(window_law_word(shown->settings.law)),
		value_toned_if(value_text(window_state_word((enum window_state)shown->window.state)),
		    shown->window.state == WINDOW_DEAD, TONE_BAD),
		value_number(shown->window.concurrency),
		shown->window.ceiling == 0 ? value_unknown() :
		    value_number(shown->window.ceiling),
		value_number(shown->ok),
		value_number(shown->failed),
		value_number(shown->suspended),
		value_number(shown->deaths),
		value_number(shown->held),
		value_number(shown->saved),
		value_number(shown->delayed),
		value_text(shown->reason),
	};

	analyze_write_row(writer, values);
}

struct learned_list {
	const struct analyze_destination *const *list;
	size_t count;
};

/* People see those that something went wrong with. */
static bool is_worth_it(const struct analyze_destination *shown) {
	return shown->failed > 0 || shown->suspended > 0 || shown->deaths > 0 ||
	    shown->held > 0;
}

static void write_list(void *context, struct writer *writer) {
	const struct learned_list *learned = context;

	for (size_t i = 0; i < learned->count; i++)
		if (writer->json || is_worth_it(learned->list[i]))
			write_destination(writer, learned->list[i]);
}

static void write_destinations(struct writer *writer, struct learned_list *learned) {
	bool any = false;

	for (size_t i = 0; i < learned->count; i++)
		any = any || is_worth_it(learned->list[i]);
	if (any || writer->json)
		analyze_write_table(writer, "destinations", destination_columns,
		    COUNT_OF(destination_columns), write_list, learned);
}

/* --- summary ------------------------------------------------------------------------- */

static struct analyze_destination sum_of(const struct learned_list *learned) {
	struct analyze_destination sum = { .held = 0 };

	for (size_t i = 0; i < learned->count; i++) {
		sum.deaths += learned->list[i]->deaths;
		sum.held += learned->list[i]->held;
		sum.saved += learned->list[i]->saved;
		sum.delayed += learned->list[i]->delayed;
	}
	return sum;
}

static void write_summary(const struct analyze *analyze, const struct learned_list *learned) {
	const struct analyze_destination sum = sum_of(learned);
	struct writer *writer = &analyze->ctl->writer;
	const uint64_t *kinds = analyze->kinds;
	struct analyze_actions actions;

	analyze_learned_actions(analyze->learning, &actions);
	analyze_summary_begin(writer, &analyze->lines, &analyze->clock);
	analyze_summary_number(writer, "deliveries", kinds[LOG_LINE_DELIVERY]);
	analyze_summary_number(writer, "broken", kinds[LOG_LINE_BROKEN]);
	analyze_summary_number(writer, "too_long", analyze->lines.long_lines);
	analyze_summary_number(writer, "sessions", kinds[LOG_LINE_SESSION]);
	analyze_summary_number(writer, "other", kinds[LOG_LINE_OTHER] + kinds[LOG_LINE_ACTIVE] +
	    kinds[LOG_LINE_REMOVED]);
	analyze_summary_number(writer, "foreign", kinds[LOG_LINE_FOREIGN]);
	for (unsigned i = 0; i < RESULT_CLASS_COUNT; i++)
		analyze_summary_number(writer, result_class_word((enum result_class)i),
		    analyze->classes[i]);
	analyze_summary_number(writer, "destinations", learned->count);
	analyze_summary_number(writer, "deaths", sum.deaths);
	analyze_summary_number(writer, "held", sum.held);
	analyze_summary_number(writer, "saved", sum.saved);
	analyze_summary_number(writer, "delayed", sum.delayed);
	analyze_summary_number(writer, "rule_suspensions", actions.suspensions);
	analyze_summary_number(writer, "rule_ceilings", actions.ceilings);
	analyze_summary_number(writer, "recipients_held", actions.recipients_held);
	analyze_summary_number(writer, "alerts", actions.alerts);
	analyze_summary_end(writer, NULL, NULL);
}

/* --- the command ----------------------------------------------------------------------- */

static int analyze(struct analyze *analyze) {
	struct learned_list learned;
	int result;

	begin_deliveries(analyze);
	result = analyze_lines(analyze->ctl, &analyze->lines, on_line, analyze);
	analyze_learn_end(analyze->learning);
	learned.list = analyze_destinations(analyze->learning, &learned.count);
	writer_stream_end(&analyze->ctl->writer);
	write_destinations(&analyze->ctl->writer, &learned);
	write_summary(analyze, &learned);
	return result;
}

int command_ANALYZE(struct ctl *ctl) {
	struct analyze state = { .ctl = ctl, .several = ctl->word_count > 1 };
	int result = analyze_lines_look(ctl);

	if (result != EX_OK)
		return result;
	if (ctl->sessions)
		return analyze_sessions(ctl);
#ifdef WITH_ACCOUNTS
	if (ctl->accounts)
		return analyze_accounts(ctl);
#endif
	result = analyze_clock_begin(ctl, &state.clock);
	if (result == EX_OK)
		result = analyze_site_open(ctl, &state.site);
	if (result != EX_OK)
		return result;
	state.learning = analyze_learning_open(state.site.generation);
	if (state.learning == NULL) {
		ctl_complain("%s", strerror(errno));
		result = EX_OSERR;
	} else {
		result = analyze(&state);
	}
	analyze_learning_close(&state.learning);
	analyze_site_close(&state.site);
	return result;
}
