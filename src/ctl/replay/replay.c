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
#include "ctl/replay/replay.h"

#define COUNT_OF(array)		(sizeof(array) / sizeof((array)[0]))
#define TEXT_MAX		1024
#define LEAST_SLACK_NS		(50 * NS_PER_MS)

struct replay {
	struct ctl *ctl;
	struct replay_site site;
	struct replay_learning *learning;
	struct replay_clock clock;
	struct replay_lines lines;
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

static struct value rule_value(const struct replay *replay, uint32_t number,
    char space[TEXT_MAX]) {
	struct judge_rule rule;

	if (number == JUDGE_NONE)
		return value_unknown();
	judge_rule(replay->site.generation, number, &rule);
	if (*rule.name != '\0')
		return value_text(rule.name);
	text_append(space, TEXT_MAX, 0, "%s:%u", rule.file, rule.line);
	return value_text(space);
}

static void write_delivery(struct replay *replay, const struct replay_line *at,
    const struct log_line *line, const struct judgement *judgement, bool dated) {
	const struct delivery *d = &line->delivery;
	struct writer *writer = &replay->ctl->writer;
	char texts[8][TEXT_MAX], time[REPLAY_TIME_MAX];
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
		dated ? value_text(replay_time(replay->clock.last_ms, time)) : value_unknown(),
		span_value(d->program, texts[5]),
		value_text(delivery_phase_word(judgement->reply.phase)),
		judgement->kind == DESTINATION_NONE ? value_unknown() :
		    value_text(judgement->destination),
		rule_value(replay, judgement->rule, texts[6]),
		span_value(judgement->reply.words, texts[7]),
	};
	size_t skipped = replay->several ? 1 : 2;

	if (writer->json)
		writer_row(writer, values);
	else
		writer_row(writer, values + skipped);
}

/* A date of whole seconds: lines are in order, and spread over it more or less. */
static struct replay_moment moment_of(struct replay *replay, const struct replay_line *at) {
	const struct replay_clock *clock = &replay->clock;
	struct replay_moment moment = { .end_ns = clock->last_ms * NS_PER_MS,
		.slack_ns = NS_PER_MS };

	if (!clock->fine) {
		moment.end_ns += NS_PER_SECOND * (2 * (int64_t)at->place + 1) / (2 * at->of);
		moment.slack_ns = NS_PER_SECOND / (1 + (int64_t)at->of);
		if (moment.slack_ns < LEAST_SLACK_NS)
			moment.slack_ns = LEAST_SLACK_NS;
	}
	if (moment.end_ns > replay->now_ns)
		replay->now_ns = moment.end_ns;
	moment.now_ns = replay->now_ns;
	return moment;
}

static void on_line(void *context, const struct replay_line *at) {
	struct replay *replay = context;
	struct judgement judgement;
	struct replay_moment moment;
	struct log_line line;
	bool dated;

	mail_log_scan(at->text, at->length, &line);
	replay->kinds[line.kind]++;
	if (line.kind == LOG_LINE_FOREIGN)
		return;
	dated = replay_clock_read(&replay->clock, line.head);
	if (line.kind != LOG_LINE_DELIVERY)
		return;
	replay_site_judge(&replay->site, &line, &judgement);
	replay->classes[judgement.reply.class]++;
	write_delivery(replay, at, &line, &judgement, dated);
	moment = moment_of(replay, at);
	replay_learn(replay->learning, &line.delivery, &judgement, &moment);
}

static void begin_deliveries(struct replay *replay) {
	size_t skipped = replay->several ? 1 : 2;

	if (replay->ctl->writer.json)
		writer_stream(&replay->ctl->writer, delivery_columns, NULL,
		    COUNT_OF(delivery_columns));
	else
		writer_stream(&replay->ctl->writer, delivery_columns + skipped,
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
#define DESTINATION_TEXT_FROM	2

static void write_destination(struct writer *writer, const struct replay_destination *shown) {
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

	writer_row(writer, writer->json ? values : values + DESTINATION_TEXT_FROM);
}

struct learned_list {
	const struct replay_destination *const *list;
	size_t count;
};

/* People see those that something went wrong with. */
static bool is_worth_it(const struct replay_destination *shown) {
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
	if (writer->json) {
		writer_stream(writer, destination_columns, NULL, COUNT_OF(destination_columns));
		write_list(learned, writer);
	} else if (any) {
		writer_table(writer, "destinations", destination_columns + DESTINATION_TEXT_FROM,
		    COUNT_OF(destination_columns) - DESTINATION_TEXT_FROM, write_list, learned);
	}
}

/* --- summary ------------------------------------------------------------------------- */

static const struct column summary_columns[] = {
	{ "event", COLUMN_TEXT },
	{ "line", COLUMN_NUMBER },
	{ "lines", COLUMN_NUMBER },
	{ "from", COLUMN_TEXT },
	{ "until", COLUMN_TEXT },
	{ "deliveries", COLUMN_NUMBER },
	{ "broken", COLUMN_NUMBER },
	{ "too_long", COLUMN_NUMBER },
	{ "sessions", COLUMN_NUMBER },
	{ "other", COLUMN_NUMBER },
	{ "foreign", COLUMN_NUMBER },
#define RESULT(symbol, word, text) { word, COLUMN_NUMBER },
#include "defs/results.def"
#undef RESULT
	{ "destinations", COLUMN_NUMBER },
	{ "deaths", COLUMN_NUMBER },
	{ "held", COLUMN_NUMBER },
	{ "saved", COLUMN_NUMBER },
	{ "delayed", COLUMN_NUMBER },
	{ "rule_suspensions", COLUMN_NUMBER },
	{ "rule_ceilings", COLUMN_NUMBER },
	{ "recipients_held", COLUMN_NUMBER },
	{ "alerts", COLUMN_NUMBER },
};
#define SUMMARY_TEXT_FROM	2
#define SUMMARY_CLASSES		11	/* the first of them */

static struct replay_destination sum_of(const struct learned_list *learned) {
	struct replay_destination sum = { .held = 0 };

	for (size_t i = 0; i < learned->count; i++) {
		sum.deaths += learned->list[i]->deaths;
		sum.held += learned->list[i]->held;
		sum.saved += learned->list[i]->saved;
		sum.delayed += learned->list[i]->delayed;
	}
	return sum;
}

static void fill_summary(const struct replay *replay, const struct learned_list *learned,
    char times[2][REPLAY_TIME_MAX], struct value *out) {
	const struct replay_destination sum = sum_of(learned);
	const struct replay_clock *clock = &replay->clock;
	struct replay_actions actions;
	const uint64_t *kinds = replay->kinds;

	replay_learned_actions(replay->learning, &actions);
	*out++ = value_text("summary");
	*out++ = value_unknown();
	*out++ = value_number(replay->lines.lines);
	*out++ = clock->started ? value_text(replay_time(clock->first_ms, times[0])) :
	    value_unknown();
	*out++ = clock->started ? value_text(replay_time(clock->now_ms, times[1])) :
	    value_unknown();
	*out++ = value_number(kinds[LOG_LINE_DELIVERY]);
	*out++ = value_number(kinds[LOG_LINE_BROKEN]);
	*out++ = value_number(replay->lines.long_lines);
	*out++ = value_number(kinds[LOG_LINE_SESSION]);
	*out++ = value_number(kinds[LOG_LINE_OTHER] + kinds[LOG_LINE_ACTIVE] +
	    kinds[LOG_LINE_REMOVED]);
	*out++ = value_number(kinds[LOG_LINE_FOREIGN]);
	for (unsigned i = 0; i < RESULT_CLASS_COUNT; i++)
		*out++ = value_number(replay->classes[i]);
	*out++ = value_number(learned->count);
	*out++ = value_number(sum.deaths);
	*out++ = value_number(sum.held);
	*out++ = value_number(sum.saved);
	*out++ = value_number(sum.delayed);
	*out++ = value_number(actions.suspensions);
	*out++ = value_number(actions.ceilings);
	*out++ = value_number(actions.recipients_held);
	*out++ = value_number(actions.alerts);
}

static void write_summary(const struct replay *replay, const struct learned_list *learned) {
	struct writer *writer = &replay->ctl->writer;
	struct value values[COUNT_OF(summary_columns)];
	char times[2][REPLAY_TIME_MAX];

	fill_summary(replay, learned, times, values);
	if (writer->json) {
		writer_stream(writer, summary_columns, NULL, COUNT_OF(summary_columns));
		writer_row(writer, values);
		return;
	}
	writer_object_begin(writer, "summary");
	writer_members(writer, summary_columns + SUMMARY_TEXT_FROM,
	    values + SUMMARY_TEXT_FROM, COUNT_OF(summary_columns) - SUMMARY_TEXT_FROM);
	writer_object_end(writer);
}

/* --- the command ----------------------------------------------------------------------- */

static int replay(struct replay *replay) {
	struct learned_list learned;
	int result;

	begin_deliveries(replay);
	result = replay_lines(replay->ctl, &replay->lines, on_line, replay);
	replay_learn_end(replay->learning);
	learned.list = replay_destinations(replay->learning, &learned.count);
	writer_stream_end(&replay->ctl->writer);
	write_destinations(&replay->ctl->writer, &learned);
	write_summary(replay, &learned);
	return result;
}

int command_ANALYZE(struct ctl *ctl) {
	struct replay state = { .ctl = ctl, .several = ctl->word_count > 1 };
	int result = replay_lines_look(ctl);

	if (result != EX_OK)
		return result;
	if (ctl->sessions)
		return replay_sessions(ctl);
#ifdef WITH_ACCOUNTS
	if (ctl->accounts)
		return replay_accounts(ctl);
#endif
	result = replay_clock_begin(ctl, &state.clock);
	if (result == EX_OK)
		result = replay_site_open(ctl, &state.site);
	if (result != EX_OK)
		return result;
	state.learning = replay_learning_open(state.site.generation);
	if (state.learning == NULL) {
		ctl_complain("%s", strerror(errno));
		result = EX_OSERR;
	} else {
		result = replay(&state);
	}
	replay_learning_close(&state.learning);
	replay_site_close(&state.site);
	return result;
}
