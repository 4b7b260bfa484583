/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The mail servers whose log is systemd's journal.
 * MODEL    As of log files: an event says that entries came, and a look each second finds the
 *          rest.  Anybody on this host can write there under any name; so a line counts only for
 *          those mail servers whose users' processes wrote it, as the kernel told journald.
 * ERRORS   A journal that cannot be read is told once, and once when it can be again.  One that
 *          came with a new configuration ends us, as the right to read it is given at a start.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sd_log.h"
#include "engine/feed/feed_files.h"
#include "front/feed/feed_internal.h"
#include "front/feed/followed_journal.h"
#include "wire/mail/mail_log.h"
#include "wire/mail/sd_entry.h"

#define ENTRIES_AT_ONCE	256	/* in one turn of the loop */
#define LINE_BYTES	(FOLLOWED_LINE_MAX + SD_ENTRY_HEAD_MAX)
#define TELL_FORGED_NS	(600 * NS_PER_SECOND)
#define ASK_AGAIN_NS	(600 * NS_PER_SECOND)

struct feed_journal {
	struct feed_source source;
	struct followed_journal journal;
	struct feed *feed;
	struct event *changed;
	bool is_granted;	/* this process was started with the right to read it */
	uint64_t forged;	/* lines since the last time that this was told */
	uint32_t forger;
	int64_t forged_told_ns;
};

struct feed_journals {
	struct feed_sources journals;	/* struct feed_journal */
	bool is_first;		/* what is taken up now was there when we were started */
	struct event *soon;
	const struct sd_calls *calls;	/* NULL: there are none */
	struct diag why;
	char line[LINE_BYTES];
};

/* --- lines -------------------------------------------------------------------------- */

/* Those of its mail servers that this user may write for. */
static unsigned mtas_of(const struct feed_journal *j, uint32_t uid) {
	const struct generation *g = j->feed->generation;
	unsigned mtas = 0;

	for (unsigned i = 0; i < g->mta_count; i++)
		if ((j->source.mtas >> i & 1) != 0 && generation_logs_as(&g->mtas[i], uid))
			mtas |= 1U << i;
	return mtas;
}

static void tell_forged(struct feed_journal *j) {
	struct feed *feed = j->feed;
	char log[256];

	if (j->forged == 0 || (j->forged_told_ns != 0 &&
	    feed->now_ns - j->forged_told_ns < TELL_FORGED_NS))
		return;
	log_event(EVENT_FEED_FORGED, "log=%s lines=%llu uid=%lld text=\"lines in the name of a mail "
	    "server were written by another user, and are ignored\"", log_quote(log, sizeof(log),
	    j->journal.log, strlen(j->journal.log)), (unsigned long long)j->forged,
	    j->forger == UINT32_MAX ? -1LL : (long long)j->forger);
	j->forged = 0;
	j->forged_told_ns = feed->now_ns;
}

/* Other programs log as facility mail, too: what a delivery would have come of is forged. */
static void count_forged(struct feed_journal *j, const struct log_line *line, uint32_t uid) {
	/* what users submit to a Sendmail is logged by their own processes */
	if ((line->kind != LOG_LINE_DELIVERY && line->kind != LOG_LINE_BROKEN) ||
	    engine_feed_postfix(j->feed->generation, j->source.mtas, line->program) ==
	    GENERATION_MTAS_MAX)
		return;
	engine_count(j->feed->engine, COUNTER_FEED_FORGED, 1);
	j->forged++;
	j->forger = uid;
}

static bool on_line(void *context, const struct followed_journal *journal,
    const struct followed_journal_line *line) {
	struct feed_journal *j = context;
	struct feed_origin origin = { .log = journal->origin,
		.offset = journal->position.spot.offset };
	unsigned mtas = mtas_of(j, line->uid);
	struct log_line read;

	if (mail_log_scan(line->text, line->length, &read) == LOG_LINE_DELIVERY)
		engine_feed_reading(j->feed->engine, journal->origin);
	j->feed->tally.lines += mtas != 0;
	if (mtas != 0)
		return feed_line(j->feed, mtas, &read, &origin, j->source.behind);
	count_forged(j, &read, line->uid);
	return false;
}

/* --- telling ------------------------------------------------------------------------ */

static void count(struct feed_journal *j) {
	struct engine *engine = j->feed->engine;
	struct followed_journal_counts *counts = &j->journal.counts;
	char log[256], unit[256];

	log_quote(log, sizeof(log), j->journal.log, strlen(j->journal.log));
	if (counts->lost > 0)
		feed_source_log(&j->source, EVENT_FEED_FAILED, "entries were deleted before they "
		    "were read: results among them are lost");
	if (counts->suppressed > 0)
		log_event(EVENT_FEED_FAILED, "log=%s unit=%s messages=%llu text=\"journald dropped "
		    "messages of this unit, by its rate limit: their results are lost; set "
		    "LogRateLimitIntervalSec=0 for the unit\"", log, log_quote(unit, sizeof(unit),
		    j->journal.suppressed_unit, strlen(j->journal.suppressed_unit)),
		    (unsigned long long)counts->suppressed);
	engine_count(engine, COUNTER_FEED_LOST, counts->lost);
	engine_count(engine, COUNTER_FEED_SUPPRESSED, counts->suppressed);
	j->feed->tally.broken += counts->long_lines;
	*counts = (struct followed_journal_counts){ 0 };
	tell_forged(j);
}

static const char *remedy(int error) {
	switch (error) {
	case ENOENT:
		return "no journal of systemd in this directory";
	case EACCES:
	case EPERM:
		return "only root and group " SD_LOG_GROUP " can read it";
	default:
		return strerror(error);
	}
}

/* Our successor gets what a start gives: group, library, files. */
static void ask_for_help(struct feed *feed, const char *text) {
	feed_source_log(&(struct feed_source){ .log = text }, EVENT_FEED, "needs rights that only "
	    "a new process has; restarting to read it");
	feed->wants_help = true;
}

/* --- the journals of the configuration ------------------------------------------------ */

static void on_changed(evutil_socket_t fd, short what, void *argument) {
	static const struct timeval at_once;
	struct feed_journal *j = argument;

	(void)fd, (void)what;
	followed_journal_changed(&j->journal);
	(void)event_add(j->feed->journals->soon, &at_once);
}

static void watch(struct feed_journal *j) {
	int fd = followed_journal_fd(&j->journal);

	if (j->changed != NULL)
		event_free(j->changed);
	j->changed = fd < 0 ? NULL : event_new(j->feed->base, fd, EV_READ | EV_PERSIST, on_changed, j);
	/* who has no event has the look each second */
	if (j->changed != NULL)
		(void)event_add(j->changed, NULL);
}

static void close_journal(struct feed_source *source) {
	struct feed_journal *j = (struct feed_journal *)source;

	if (j->changed != NULL)
		event_free(j->changed);
	followed_journal_close(&j->journal);
	free(j);
}

/* In a sandbox nothing is loaded any more. */
static bool is_journal(struct feed *feed, const char *text) {
	struct feed_journals *journals = feed->journals;

	if (!sd_log_is(text))
		return false;
	if (journals->calls == NULL)
		journals->calls = sd_library(&journals->why);
	if (journals->calls == NULL && journals->is_first)
		feed_source_tell(&(struct feed_source){ .log = text }, -1, journals->why.text);
	else if (journals->calls == NULL)
		ask_for_help(feed, text);
	return journals->calls != NULL;
}

static struct feed_source *open_journal(struct feed *feed, const char *text, bool from_begin) {
	struct feed_journals *journals = feed->journals;
	struct feed_position known[FEED_FILES_MAX];
	uint32_t records[FEED_FILES_MAX];
	struct followed_journal_start start = { .known = known, .records = records,
		.from_begin = from_begin, .wall_us = feed->wall_ms * 1000 };
	struct feed_journal *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return NULL;
	j->feed = feed;
	j->is_granted = journals->is_first;
	start.known_count = engine_feed_files(feed->engine, feed_log_id(text), known, records);
	j->source = (struct feed_source){ .log = j->journal.log, .told = -1,
		/* what was written while nobody read is old */
		.behind = start.known_count > 0 || from_begin };
	feed_beat_now(feed);	/* many files, perhaps, on a slow disk */
	followed_journal_open(&j->journal, text, &start, journals->calls, &feed->keeper,
	    feed->now_ns);
	watch(j);
	return &j->source;
}

/* --- turns -------------------------------------------------------------------------- */

/* True: there is more. */
static bool read_journal(struct feed_journal *j) {
	const struct followed_journal_reader reader = { .buffer = j->feed->journals->line,
		.buffer_size = LINE_BYTES, .each = on_line, .context = j };

	j->source.behind = followed_journal_read(&j->journal, &reader, ENTRIES_AT_ONCE,
	    clock_wall_ns() / 1000);
	return j->source.behind;
}

static bool lacks_rights(const struct feed_journal *j) {
	int64_t age_ns = j->feed->now_ns - j->feed->began_ns;

	return (j->journal.error == EACCES || j->journal.error == ENOENT) &&
	    (j->is_granted ? age_ns > ASK_AGAIN_NS : age_ns > NS_PER_SECOND);
}

void feed_journals_take_up(struct feed *feed) {
	static const struct feed_source_calls calls = { is_journal, open_journal, close_journal };
	struct feed_journals *journals = feed->journals;

	if (feed->generation->number == journals->journals.taken_up)
		return;
	feed_sources_take_up(feed, &journals->journals, &calls);
	journals->is_first = false;
	for (unsigned i = 0; i < journals->journals.count; i++) {
		struct feed_journal *j = (struct feed_journal *)journals->journals.list[i];

		if (feed->read_first != 0 && j->journal.origin == feed->read_first)
			(void)read_journal(j);
	}
}

void feed_journals_turn(struct feed *feed) {
	static const struct timeval at_once;
	struct feed_journals *journals = feed->journals;
	bool more = false;

	feed_journals_take_up(feed);
	for (unsigned i = 0; i < journals->journals.count; i++) {
		struct feed_journal *j = (struct feed_journal *)journals->journals.list[i];

		if (read_journal(j))
			more = true;
		else if (followed_journal_look(&j->journal, feed->now_ns))
			watch(j);
		count(j);
		feed_source_tell(&j->source, j->journal.error, remedy(j->journal.error));
		if (lacks_rights(j))
			ask_for_help(feed, j->journal.log);
	}
	if (more)
		(void)event_add(journals->soon, &at_once);
}

static void on_soon(evutil_socket_t fd, short what, void *argument) {
	struct feed *feed = argument;

	(void)fd, (void)what;
	feed_begin(feed);
	feed_journals_turn(feed);
	feed_end(feed);
}

int feed_journals_open(struct feed *feed, struct diag *diag) {
	struct feed_journals *journals = calloc(1, sizeof(*journals));

	if (journals == NULL)
		return diag_set(diag, 0, "no memory for journals");
	feed->journals = journals;
	journals->is_first = true;
	journals->soon = event_new(feed->base, -1, 0, on_soon, feed);
	return journals->soon != NULL ? 0 : diag_set(diag, 0, "no memory for journals");
}

void feed_journals_close(struct feed *feed) {
	struct feed_journals *journals = feed->journals;

	if (journals == NULL)
		return;
	for (unsigned i = 0; i < journals->journals.count; i++)
		close_journal(journals->journals.list[i]);
	if (journals->soon != NULL)
		event_free(journals->soon);
	free(journals);
	feed->journals = NULL;
}
