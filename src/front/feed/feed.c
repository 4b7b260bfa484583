/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The feed's loop.
 * MODEL    Each source has its events; a second's event looks at all that no event
 *          tells.  A source reads a bounded piece at a time, so that none waits for
 *          another one and there is a sign of life in between.
 * ERRORS   A log that only root may open ends us: the next process has it opened.
 * THREADS  One.
 */
#include "front/feed/feed_internal.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "engine/account/account_health.h"
#include "front/decision/journal_news.h"
#include "front/decision/window_log.h"

#define BEAT_EVERY_NS	(NS_PER_SECOND / 5)
#define BEAT_LOCKS	16	/* of 50 ms each */
#define ZONE_EVERY_NS	(60 * NS_PER_SECOND)

/* Log lines tell local time. */
static void look_up_zone(struct feed *feed) {
	time_t now = (time_t)(feed->wall_ms / 1000);
	struct tm local;

	if (feed->now_ns < feed->zone_until_ns || localtime_r(&now, &local) == NULL)
		return;
	feed->zone_ms = (int64_t)local.tm_gmtoff * 1000;
	feed->year = local.tm_year + 1900;
	feed->zone_until_ns = feed->now_ns + ZONE_EVERY_NS;
	feed->date.length = 0;
}

static void beat(struct feed *feed) {
	engine_heartbeat(feed->engine, feed->now_ns);
	feed->beat_ns = feed->now_ns;
}

void feed_begin(struct feed *feed) {
	feed->now_ns = clock_now_ns();
	feed->wall_ms = clock_wall_ms();
	look_up_zone(feed);
	feed->generation = engine_pin(feed->engine);
}

void feed_end(struct feed *feed) {
	feed_count(feed);
	engine_unpin(feed->engine, feed->generation);
	feed->generation = NULL;
	feed->now_ns = clock_now_ns();
	if (feed->now_ns - feed->beat_ns > BEAT_EVERY_NS)
		beat(feed);
	if (feed->wants_help)
		(void)event_base_loopbreak(feed->base);
}

static void on_second(void *context, int64_t now_ns) {
	struct feed *feed = context;

	(void)now_ns;
	feed_begin(feed);
	feed_logs_turn(feed);
	feed_journals_turn(feed);
	feed_events_second(feed);
	engine_feed_turn(feed->engine, feed->generation, feed->now_ns);
#ifdef WITH_ACCOUNTS
	engine_account_suspects_turn(feed->engine, feed->generation, feed->now_ns);
#endif
	feed_end(feed);
	journal_states_turn(feed->journal, feed->now_ns, clock_wall_ns());
	beat(feed);
}

void feed_beat_now(struct feed *feed) {
	feed->unbeaten = 0;
	feed->now_ns = clock_now_ns();
	beat(feed);
}

void feed_beat(struct feed *feed) {
	if (++feed->unbeaten >= BEAT_LOCKS)
		feed_beat_now(feed);
}

static int open_journal(struct feed *feed, struct diag *diag) {
	const struct generation *generation = engine_pin(feed->engine);
	int result = journal_states_open(&feed->journal, feed->engine, generation,
	    &journal_news_log, feed->now_ns, diag);

	engine_unpin(feed->engine, generation);
	return result;
}

static int prepare(struct feed *feed, const struct feed_setup *setup, struct diag *diag) {
	const struct beat_calls calls = { .each = on_second, .context = feed };

	feed->base = event_base_new();
	if (feed->base == NULL)
		return diag_set(diag, 0, "cannot create an event loop");
	if (beat_open(&feed->beat, feed->base, feed->engine, &calls, diag) != 0)
		return -1;
	if (open_journal(feed, diag) != 0 || front_requeue_open(&feed->requeue, feed->base, feed->engine, setup->mta_fd,
	    diag) != 0 || feed_logs_open(feed, diag) != 0 || feed_journals_open(feed, diag) != 0 ||
	    feed_syslog_open(feed, diag) != 0 ||
	    feed_events_open(feed, diag) != 0)
		return -1;
	for (unsigned i = 0; i < setup->socket_count; i++)
		if ((setup->sockets[i].kind == LISTENER_SYSLOG ?
		    feed_syslog_listen(feed, &setup->sockets[i], diag) :
		    feed_events_listen(feed, &setup->sockets[i], diag)) != 0)
			return -1;
	return 0;
}

static void release(struct feed *feed) {
	journal_states_close(&feed->journal);
	feed_events_close(feed);
	feed_syslog_close(feed);
	feed_logs_close(feed);
	feed_journals_close(feed);
	front_requeue_close(&feed->requeue);
	if (feed->base == NULL)
		return;
	beat_close(&feed->beat);
	event_base_free(feed->base);
}

int feed_run(struct engine *engine, const struct feed_setup *setup, struct diag *diag) {
	struct feed *feed = calloc(1, sizeof(*feed));
	int result;

	if (feed == NULL)
		return diag_set(diag, 0, "no memory for the log reader");
	feed->engine = engine;
	feed->keeper = engine_feed_keeper(engine);
	feed->read_first = engine_feed_read_last(engine);
	feed->began_ns = feed->now_ns = clock_now_ns();
	window_log_listen(engine);
	result = prepare(feed, setup, diag);
	if (result == 0) {
		feed_begin(feed);
		feed_journals_take_up(feed);
		feed_logs_begin(feed, setup);
		feed_journals_turn(feed);
		feed_end(feed);
		journal_states_begin(feed->journal);
		/* lines that are written from now on count, at a first start, too */
		beat(feed);
		if (!feed->wants_help)
			(void)event_base_dispatch(feed->base);
		if (!feed->wants_help)
			result = diag_set(diag, 0, front_requeue_is_cut_off(feed->requeue) ?
			    "the supervisor closed its link" : "the event loop ended");
	}
	release(feed);
	free(feed);
	return result;
}
