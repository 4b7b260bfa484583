/* SPDX-License-Identifier: ISC */
/* Lines and deliveries on their way to the engine.  Anything may stand in a line; the
 * readers of wire/ say what it is. */
#include "front/feed_internal.h"

#include "base/clock.h"
#include "wire/mail_log.h"

/* A sign of life at each: a lock may take 50 ms, and after 3 s we count as hung. */
#define BEAT_DELIVERIES	16
/* Dates further from now than this are of a clock that is wrong, or of another zone. */
#define WRONG_MS	(INT64_C(300) * 1000)
#define DAY_MS		(INT64_C(86400) * 1000)
/* What was written just now is not told by a date in whole seconds. */
#define JUST_NOW_MS	2000

/* Without a zone of its own. */
static bool is_local(struct span head)
{
	size_t at = 0;

	if (head.length > 0 && head.text[0] == '<')
		while (at < head.length && head.text[at++] != '>')
			;
	return at < head.length && (head.text[at] < '0' || head.text[at] > '9');
}

/* How long ago the line says that it was written, in ms; 0 where it does not say. */
static int64_t age_ms(const struct feed *feed, struct span head)
{
	int64_t told_ms, zone_ms = is_local(head) ? feed->zone_ms : 0, ms;

	if (!log_date_read(head, feed->year, &told_ms))
		return 0;
	ms = feed->wall_ms - (told_ms - zone_ms);
	/* December's lines, read in January */
	if (ms < -DAY_MS && is_local(head) &&
	    log_date_read(head, feed->year - 1, &told_ms))
		ms = feed->wall_ms - (told_ms - zone_ms);
	return ms;
}

/* When the delivery ended, if that was not just now.  What is read as it is written
 * ended now, whatever its clock says. */
static int64_t ended_ns(struct feed *feed, struct span head, bool behind)
{
	int64_t ms = age_ms(feed, head);

	if (ms < -WRONG_MS || (!behind && ms > WRONG_MS)) {
		feed->tally.wrong_clocks++;
		return 0;
	}
	if (!behind || ms < JUST_NOW_MS || ms > feed->now_ns / NS_PER_MS)
		return 0;
	return feed->now_ns - ms * NS_PER_MS;
}

void feed_delivery(struct feed *feed, unsigned mtas, const struct delivery *delivery,
    const struct feed_origin *origin)
{
	feed->tally.deliveries++;
	(void)engine_feed_delivery(feed->engine, feed->generation, mtas, delivery, origin,
	    feed->now_ns);
	if (++feed->unbeaten >= BEAT_DELIVERIES) {
		feed->unbeaten = 0;
		feed->now_ns = clock_now_ns();
		engine_heartbeat(feed->engine, feed->now_ns);
	}
}

bool feed_line(struct feed *feed, unsigned mtas, const char *line, size_t length,
    struct feed_origin *origin, bool behind)
{
	struct log_line out;

	feed->tally.lines++;
	switch (mail_log_scan(line, length, &out)) {
	case LOG_LINE_FOREIGN:
	case LOG_LINE_OTHER:
	case LOG_LINE_SESSION:
	case LOG_LINE_REMOVED:
		break;
	case LOG_LINE_BROKEN:
		feed->tally.broken++;
		break;
	case LOG_LINE_DELIVERY:
		origin->ended_ns = ended_ns(feed, out.head, behind);
		feed_delivery(feed, mtas, &out.delivery, origin);
		return true;
	}
	return false;
}

void feed_count(struct feed *feed)
{
	engine_count(feed->engine, COUNTER_FEED_LINES, feed->tally.lines);
	engine_count(feed->engine, COUNTER_FEED_DELIVERIES, feed->tally.deliveries);
	engine_count(feed->engine, COUNTER_FEED_BAD_LINES, feed->tally.broken);
	engine_count(feed->engine, COUNTER_FEED_WRONG_CLOCKS, feed->tally.wrong_clocks);
	engine_count(feed->engine, COUNTER_FEED_EVENTS, feed->tally.events);
	feed->tally = (struct feed_tally){ 0 };
}
