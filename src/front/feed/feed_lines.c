/* SPDX-License-Identifier: ISC */
/* Lines of logs on their way to the engine.  A turn reads a chunk of each log file; while there
 * is more the next one follows at once.  Anything may stand in a line; the readers of wire/ say
 * what it is. */
#include "front/feed/feed_internal.h"

#include <string.h>

#include "base/clock.h"
#include "engine/account/account_health.h"
#include "engine/session/told_sessions.h"
#include "wire/mail/mail_log.h"
#include "wire/mail/sendmail_sent.h"

/* Dates further from now than this are of a clock that is wrong, or of another zone. */
#define WRONG_MS	(INT64_C(300) * 1000)
#define DAY_MS		(INT64_C(86400) * 1000)
/* What was written just now is not told by a date in whole seconds. */
#define JUST_NOW_MS	2000
/* From the end to the line, where the date tells parts of seconds. */
#define EXACT_NS	(5 * NS_PER_MS)

/* Without a zone of its own. */
static bool is_local(struct span head) {
	size_t at = 0;

	if (head.length > 0 && head.text[0] == '<')
		while (at < head.length && head.text[at++] != '>')
			;
	return at < head.length && (head.text[at] < '0' || head.text[at] > '9');
}

static bool read_date(const struct feed *feed, struct span head, int64_t *ms) {
	int64_t zone_ms = is_local(head) ? feed->zone_ms : 0;

	if (!log_date_read(head, feed->year, ms))
		return false;
	*ms -= zone_ms;
	/* December's lines, read in January */
	if (*ms - feed->wall_ms > DAY_MS && is_local(head) &&
	    log_date_read(head, feed->year - 1, ms))
		*ms -= zone_ms;
	return true;
}

/* When the line says that it was written, in ms since 1970. */
static bool told_ms(struct feed *feed, struct span head, int64_t *ms) {
	struct feed_date *last = &feed->date;

	if (head.length == 0 || head.length > sizeof(last->head))
		return read_date(feed, head, ms);
	if (head.length != last->length || memcmp(head.text, last->head, head.length) != 0) {
		last->is_date = read_date(feed, head, &last->ms);
		last->length = head.length;
		memcpy(last->head, head.text, head.length);
	}
	*ms = last->ms;
	return last->is_date;
}

/* When the delivery ended, if that was not just now: what is read as it is written ended
 * now, unless its date tells parts of seconds and is as good as now. */
static void date(struct feed *feed, struct span head, bool behind, struct feed_origin *origin) {
	int64_t ms, ago_ms;
	bool exact;

	if (!told_ms(feed, head, &ms))
		return;
	exact = ms % 1000 != 0;
	ago_ms = feed->wall_ms - ms - (exact ? 0 : 500);
	if (ago_ms < -WRONG_MS || (!behind && ago_ms > WRONG_MS)) {
		feed->tally.wrong_clocks++;
		return;
	}
	if (ago_ms < 0 || ago_ms > feed->now_ns / NS_PER_MS ||
	    (behind ? ago_ms < JUST_NOW_MS && !exact : ago_ms > JUST_NOW_MS || !exact))
		return;
	origin->ended_ns = feed->now_ns - ago_ms * NS_PER_MS;
	origin->slack_ns = exact ? EXACT_NS : NS_PER_SECOND / 2;
}

/* Messages that wait in a Postfix's queue are handed out when their destination is back. */
static void tell_requeue(struct feed *feed, const struct delivery *delivery,
    const struct judgement *judgement, const struct feed_origin *origin) {
	int64_t ended = origin->ended_ns == 0 ? feed->now_ns : origin->ended_ns;
	struct requeue_result result;

	if (judgement->mta >= feed->generation->mta_count ||
	    feed->generation->mtas[judgement->mta].kind != MTA_POSTFIX)
		return;
	result = (struct requeue_result){
		.mta = generation_parent(feed->generation, judgement->mta),
		.queue_id = delivery->queue_id, .recipient = delivery->recipient,
		.ended_ns = ended, .destination = judgement->owner.name,
		.status = delivery->status, .class = judgement->reply.class,
		.words = judgement->reply.words, .arrival_ns = ended };
	if (delivery->delay_ms > 0 && delivery->delay_ms < ended / NS_PER_MS)
		result.arrival_ns -= delivery->delay_ms * NS_PER_MS;
	front_requeue_result(feed->requeue, feed->generation, &result, feed->now_ns);
}

/* When it was written, at the latest; INT64_MIN: long ago, nobody knows when. */
static int64_t written_ns(struct feed *feed, struct span head, bool behind) {
	int64_t ms, ago_ms;

	if (!told_ms(feed, head, &ms))
		return behind ? INT64_MIN : feed->now_ns;
	if (ms % 1000 == 0)
		ms += 999;	/* it tells whole seconds */
	ago_ms = feed->wall_ms - ms;
	if (ago_ms > feed->now_ns / NS_PER_MS)
		return INT64_MIN;
	return ago_ms > 0 ? feed->now_ns - ago_ms * NS_PER_MS : feed->now_ns;
}

/* What smtpd says of an end is a hint (DESIGN section 6).  Only with the client's port
 * (smtpd_client_port_logging) does it tell which session that was.  What postscreen has
 * is none yet, and Sendmail tells no port. */
static void tell_end(struct feed *feed, unsigned mtas, const struct log_line *line, bool behind) {
	const struct log_session *session = &line->session;
	const struct question question = { .client = session->address,
		.client_port = session->port, .owner = OWNER_POLICY };
	int64_t said_ns;

	if (session->event != LOG_SESSION_DISCONNECT || session->postscreen ||
	    session->port == 0 ||
	    engine_feed_postfix(feed->generation, mtas, line->program) == GENERATION_MTAS_MAX)
		return;
	said_ns = written_ns(feed, line->head, behind);
	if (said_ns == INT64_MIN)
		return;
	feed_beat(feed);
	engine_session_gone(feed->engine, feed->generation, &question, said_ns, feed->now_ns);
}

/* A line of a Sendmail that is driven: the queue role may learn who has got the mail. */
static void tell_queue(struct feed *feed, unsigned mtas, const struct log_line *line,
    const struct feed_origin *origin) {
	struct feed_told_line told = { .pid = line->pid };
	int64_t ms;

	if (line->delivery.source != DELIVERY_OF_SENDMAIL ||
	    !engine_feed_wants_told(feed->generation, mtas))
		return;
	told.goes_on = sendmail_list_goes_on(line);
	if (line->kind == LOG_LINE_DELIVERY && line->delivery.status != DELIVERY_SENT)
		told.what = TOLD_NOT;
	else if (line->kind == LOG_LINE_DELIVERY && sendmail_line_is_sent(line) &&
	    told_ms(feed, line->head, &ms)) {
		told.what = TOLD_SENT;
		told.written_s = ms / 1000;
	}
	engine_feed_told(feed->engine, &line->delivery, &told, origin);
}

/* What else a log tells. */
static void tell_other(struct feed *feed, unsigned mtas, const struct log_line *line,
    const struct feed_origin *origin, bool behind) {
	unsigned mta;

	switch (line->kind) {
	case LOG_LINE_FOREIGN:
	case LOG_LINE_OTHER:
	case LOG_LINE_DELIVERY:
		break;
	case LOG_LINE_SESSION:
		tell_end(feed, mtas, line, behind);
		break;
	case LOG_LINE_ACTIVE:
		mta = engine_feed_postfix(feed->generation, mtas, line->program);
		if (mta < GENERATION_MTAS_MAX)
			front_requeue_active(feed->requeue, feed->generation, mta, line->queue_id,
			    line->sender);
		break;
	case LOG_LINE_REMOVED:
		mta = engine_feed_postfix(feed->generation, mtas, line->program);
		if (mta < GENERATION_MTAS_MAX)
			front_requeue_removed(feed->requeue, mta, line->queue_id);
#ifdef WITH_ACCOUNTS
		if (mta < GENERATION_MTAS_MAX && feed->generation->accounts.count > 0)
			engine_account_removed(feed->engine, feed->generation, mta,
			    line->queue_id.text, line->queue_id.length, feed->now_ns);
#endif
		break;
	case LOG_LINE_BROKEN:
		feed->tally.broken++;
		tell_queue(feed, mtas, line, origin);
		break;
	}
}

/* --- the way of a line -------------------------------------------------------------- */

bool feed_line(struct feed *feed, unsigned mtas, const struct log_line *line,
    struct feed_origin *origin, bool behind) {
	const struct delivery *delivery = &line->delivery;
	struct feed_outcome outcome;

	if (line->kind != LOG_LINE_DELIVERY) {
		tell_other(feed, mtas, line, origin, behind);
		return false;
	}
	date(feed, line->head, behind, origin);
	feed->tally.deliveries++;
	feed_beat(feed);
	outcome = engine_feed_delivery(feed->engine, feed->generation, mtas, delivery, origin,
	    feed->now_ns);
	if (outcome.judgement != NULL)
		tell_requeue(feed, delivery, outcome.judgement, origin);
#ifdef WITH_ACCOUNTS
	if (outcome.judgement != NULL && feed->generation->accounts.count > 0 &&
	    !outcome.repeated)
		engine_account_result(feed->engine, feed->generation, mtas, delivery,
		    outcome.judgement, feed->now_ns);
#endif
	tell_queue(feed, mtas, line, origin);
	return true;
}

bool feed_text(struct feed *feed, unsigned mtas, struct span text, struct feed_origin *origin,
    bool behind) {
	struct log_line line;

	feed->tally.lines++;
	(void)mail_log_scan(text.text, text.length, &line);
	return feed_line(feed, mtas, &line, origin, behind);
}

/* Several lines are read before the first is used: what is known of all their destinations is
 * fetched at once. */
void feed_file(struct feed *feed, unsigned mtas, struct followed_file *file,
    struct followed_reader *reader, bool behind) {
	struct followed_line lines[FOLLOWED_LINES];
	unsigned count;

	while ((count = followed_file_lines(file, reader, feed->now_ns, lines)) > 0) {
		const struct delivery *coming[FOLLOWED_LINES];
		unsigned expected[FOLLOWED_LINES] = { 0 }, deliveries = 0;

		for (unsigned i = 0; i < count; i++) {
			struct log_line *line = &feed->lines[i];

			if (mail_log_scan(lines[i].text, lines[i].length, line) !=
			    LOG_LINE_DELIVERY)
				continue;
			coming[deliveries++] = &line->delivery;
			expected[i] = deliveries;
		}
		if (deliveries > 0) {
			engine_feed_reading(feed->engine, file->origin);
			engine_feed_expect(feed->engine, coming, deliveries);
		}
		feed->tally.lines += count;
		for (unsigned i = 0; i < count; i++) {
			struct feed_origin origin = { .log = file->origin,
				.offset = lines[i].offset, .expected = expected[i] };

			if (feed_line(feed, mtas, &feed->lines[i], &origin, behind))
				followed_file_keep(file, reader, &lines[i]);
		}
	}
}

static struct followed_reader reader_of(struct feed *feed, struct feed_log *log) {
	return (struct followed_reader){ .buffer = feed->logs->chunk,
		.buffer_size = FEED_CHUNK_BYTES, .keeper = &feed->keeper,
		.counts = &log->log.counts };
}

/* A buffer of the file that was read when our predecessor died: it died within one. */
static void read_first(struct feed *feed) {
	const struct feed_sources *logs = &feed->logs->logs;

	for (unsigned i = 0; i < logs->count; i++) {
		struct feed_log *log = (struct feed_log *)logs->list[i];
		struct followed_reader reader = reader_of(feed, log);

		for (unsigned k = 0; k < log->log.count; k++)
			if (log->log.files[k].origin == feed->read_first)
				feed_file(feed, log->source.mtas, &log->log.files[k], &reader,
				    log->source.behind);
	}
	feed->read_first = 0;
}

/* A buffer of the first file of each log that there is more of. */
void feed_logs_turn(struct feed *feed) {
	static const struct timeval at_once;
	struct feed_logs *logs = feed->logs;
	bool more = false;

	feed_logs_take_up(feed);
	if (feed->read_first != 0)
		read_first(feed);
	for (unsigned i = 0; i < logs->logs.count; i++) {
		struct feed_log *log = (struct feed_log *)logs->logs.list[i];
		struct followed_reader reader = reader_of(feed, log);

		for (unsigned k = 0; k < log->log.count && !reader.more; k++)
			feed_file(feed, log->source.mtas, &log->log.files[k], &reader,
			    log->source.behind);
		log->source.behind = reader.more;
		more = more || reader.more;
		feed_log_tend(feed, log);
	}
	if (more)
		(void)event_add(logs->soon, &at_once);
	else
		engine_feed_reached(feed->engine, feed->now_ns);
}

void feed_count(struct feed *feed) {
	engine_count(feed->engine, COUNTER_FEED_LINES, feed->tally.lines);
	engine_count(feed->engine, COUNTER_FEED_DELIVERIES, feed->tally.deliveries);
	engine_count(feed->engine, COUNTER_FEED_BAD_LINES, feed->tally.broken);
	engine_count(feed->engine, COUNTER_FEED_WRONG_CLOCKS, feed->tally.wrong_clocks);
	engine_count(feed->engine, COUNTER_FEED_EVENTS, feed->tally.events);
	feed->tally = (struct feed_tally){ 0 };
}
