/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What goes on with each mail server: a row each.
 * MODEL    How far its log was read, and by what its mail went of late, from the segment;
 *          what its site's file said, from the configuration in force; the files of the
 *          log from the disk.  postern-lookup leaves no trace: that it is asked shows in
 *          deliveries by lanes.
 * ERRORS   What cannot be found out is not known.
 * THREADS  One.
 */
#include "view/status_mtas.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/path_pattern.h"
#include "base/sd_log.h"
#include "base/text.h"
#include "view/log_date.h"

#define STATUS_MTAS_MAX	8	/* bits of destination_seen.cloned_by */
#define LOG_ENTRIES_MOST 16384	/* of directories that are looked at for a log */
#define JOURNAL_LATE_S	60
#define SILENT_SESSIONS	20	/* that ended: each of them is logged */
#define SILENT_LINES	1000

struct mta_use {
	int64_t lane_ns, other_ns;	/* the last delivery by a lane, by what they clone; 0 */
	bool seen;			/* results of it came in */
};

struct mtas {
	const struct view *view;
	struct mta_use uses[STATUS_MTAS_MAX];
};

static void take_use(void *context, const struct lane_use *use) {
	struct mtas *mtas = context;
	struct mta_use *of = &mtas->uses[use->mta % STATUS_MTAS_MAX];
	int64_t *last = use->width != 0 ? &of->lane_ns : &of->other_ns;

	if (use->ended_ns > *last)
		*last = use->ended_ns;
}

static void take_seen(void *context, const struct destination_seen *seen) {
	struct mtas *mtas = context;

	for (unsigned i = 0; i < STATUS_MTAS_MAX; i++)
		if (((seen->cloned_by | seen->other_by) >> i & 1) != 0)
			mtas->uses[i].seen = true;
}

/* --- its log ---------------------------------------------------------------- */

static void take_file(struct view_log *use, const char *path, const struct stat *st,
    uint64_t read) {
	uint64_t size = (uint64_t)st->st_size;
	int64_t now_s = clock_wall_s(), date_s = size > read ? log_date_at(path, read, now_s) : 0;

	if (date_s > 0 && now_s - date_s > use->behind_s)
		use->behind_s = now_s - date_s;
	use->unread += size > read ? size - read : 0;
	use->read += read < size ? read : size;
	if (st->st_mtim.tv_sec > use->written_s)
		use->written_s = st->st_mtim.tv_sec;
	use->known = true;
}

#ifdef GLOB_ALTDIRFUNC
static _Thread_local unsigned entries_left;

static void *open_directory(const char *path) {
	return opendir(path);
}

static struct dirent *read_entry(void *directory) {
	return entries_left == 0 || --entries_left == 0 ? NULL : readdir(directory);
}

static void close_directory(void *directory) {
	(void)closedir(directory);
}
#endif

/* A role wrote the pattern: it must not have root walk through all there is. */
static bool find_logs(const char *pattern, glob_t *found) {
	int flags = GLOB_NOSORT;

#ifdef GLOB_ALTDIRFUNC
	entries_left = LOG_ENTRIES_MOST;
	found->gl_opendir = open_directory;
	found->gl_readdir = read_entry;
	found->gl_closedir = close_directory;
	found->gl_lstat = lstat;
	found->gl_stat = stat;
	flags |= GLOB_ALTDIRFUNC;
#endif
	if (glob(pattern, flags, NULL, found) != 0)
		return false;
#ifdef GLOB_ALTDIRFUNC
	if (entries_left == 0) {
		globfree(found);
		return false;
	}
#endif
	return true;
}

/* Files that were begun, wherever rotation has renamed them to, and the one at the path. */
struct view_log view_log(const struct segment *reader, const char *log) {
	struct feed_position begun[FEED_FILES_MAX];
	unsigned count = reader_log(reader, log, begun);
	struct view_log use = { .known = false };
	char pattern[PATH_MAX] = "";
	glob_t found;

	if (sd_log_is(log))
		return use;
	if (path_pattern_is_plain(log))
		(void)text_append(pattern, sizeof(pattern), 0, "%s*", log);
	else if (path_pattern_fault(log) != NULL ||
	    !path_pattern_glob(log, pattern, sizeof(pattern)))
		return use;
	if (log[0] == '\0' || !find_logs(pattern, &found))
		return use;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct stat st;
		unsigned at = 0;

		if (stat(found.gl_pathv[i], &st) != 0 || !S_ISREG(st.st_mode))
			continue;
		while (at < count && (begun[at].inode != st.st_ino ||
			begun[at].device != st.st_dev))
			at++;
		if (at < count)
			take_file(&use, found.gl_pathv[i], &st, begun[at].spot.offset);
		else if (strcmp(found.gl_pathv[i], log) == 0)
			take_file(&use, log, &st, 0);
	}
	globfree(&found);
	return use;
}

/* --- a line ------------------------------------------------------------------- */

static unsigned lanes_there(const struct generation_mta *mta) {
	return (unsigned)__builtin_popcount(mta->site_lanes);
}

static const char *site_word(const struct generation *g, const struct generation_mta *mta) {
	if (mta->kind != MTA_POSTFIX)
		return NULL;
	if (mta->site_known == 0)
		return "missing";
	return generation_text(g, mta->site_refusal)[0] != '\0' ? "refused" :
	    mta->site_changed != 0 ? "changed" : "read";
}

const char *status_queue_word(const struct view *view) {
	struct reader_role role;

	if (view->generation == NULL)
		return NULL;
	if (generation_drive_is_refused(view->generation))
		return "refused";
	if (!generation_drives(view->generation))
		return "none";
	if (view->status.queue_away_ns != 0)
		return "away";
	for (uint32_t i = 0; reader_role(view->reader, i, &role); i++)
		if (role.kind == ROLE_QUEUE && role.pid > 0 &&
		    role.heartbeat_ns > role.started_ns)
			return "driven";
	return "starting";
}

/* systemd's journal is read to its end at least each second. */
static bool is_journal_read(const struct view *view, const char *log) {
	struct feed_position at[FEED_FILES_MAX];
	unsigned count = reader_log(view->reader, log, at);
	int64_t now_s = clock_wall_s();

	return count > 0 && (int64_t)(at[count - 1].spot.time_us / 1000000) > now_s - JOURNAL_LATE_S;
}

static bool journald_runs(void) {
	struct stat st;

	return stat(SD_LOG_SOCKET, &st) == 0;
}

/* Of a plain path alone: what a pattern stands for may come and go, or be out of our sight. */
static bool log_is_missing(const char *log) {
	struct stat status;

	return log[0] == '/' && path_pattern_is_plain(log) && stat(log, &status) != 0 &&
	    (errno == ENOENT || errno == ENOTDIR);
}

/* Why nothing is learned from its log, or NULL. */
static const char *log_note(const struct view *view, const char *text,
    const struct view_log *log) {
	const uint64_t *counters = view->status.counters;

	if (text[0] == '\0')
		return NULL;
	if (log_is_missing(text))
		return !generation_is_fed(view->generation) && journald_runs() ?
		    "no deliveries are read: the log does not exist; if no syslog daemon "
		    "writes one, set log = \"journal:\"" :
		    "no deliveries are read: the log does not exist";
	if (sd_log_is(text) && view->status.health == READER_LIVE && !is_journal_read(view, text))
		return "no deliveries are read: the log, the systemd journal, cannot be read: see event "
		    "feed-failed in the log";
	if (sd_log_is(text) && counters[COUNTER_FEED_SUPPRESSED] > 0)
		return "journald dropped lines of its log by its rate limit (feed_suppressed): set "
		    "LogRateLimitIntervalSec=0 for its unit";
	if (generation_is_fed(view->generation))
		return NULL;
	if (!sd_log_is(text) && !log->known)
		return "no deliveries are read: there is no such log yet (mta.log)";
	if (counters[COUNTER_FEED_LINES] == 0 && (counters[COUNTER_ENDED] >= SILENT_SESSIONS ||
	    counters[COUNTER_OUTBOUND_QUESTIONS] >= SILENT_SESSIONS))
		return "no deliveries are read: no log line came, although there were sessions; the "
		    "mail server logs elsewhere (mta.log)";
	if (counters[COUNTER_FEED_LINES] >= SILENT_LINES && counters[COUNTER_FEED_DELIVERIES] == 0)
		return "no deliveries are read: no line of the log reports one";
	return NULL;
}

const char *status_mta_unread(const struct view *view, unsigned mta) {
	const char *text = generation_text(view->generation, view->generation->mtas[mta].log);
	struct view_log log = view_log(view->reader, text);

	return log_note(view, text, &log);
}

size_t status_mtas_unread(const struct view *view, char *out, size_t size) {
	const struct generation *g = view->generation;
	size_t length = 0;

	out[0] = '\0';
	for (unsigned i = 0; g != NULL && i < g->mta_count; i++) {
		const char *note = status_mta_unread(view, i);

		if (note != NULL)
			length = text_append(out, size, length, "%s%s: %s",
			    length > 0 ? "; " : "", generation_text(g, g->mtas[i].name), note);
	}
	return length;
}

/* What an admin should know, or NULL. */
static const char *note_of(const struct mtas *mtas, const struct generation_mta *mta,
    const struct mta_use *use) {
	const struct generation *g = mtas->view->generation;
	unsigned number = (unsigned)(mta - g->mtas);

	if (mta->kind != MTA_POSTFIX && mta->drive && g->confined[0] != '\0')
		return "the queue is not managed, because under this service Sendmail would "
		    "bounce mail; install posternd-sendmail.conf (SERVICE in posternd(8))";
	if (mta->kind != MTA_POSTFIX && mta->drive && mtas->view->status.queue_away_ns != 0)
		return "the worker of its queue is not running: mail waits for Sendmail's own "
		    "queue runs";
	if (mta->kind != MTA_POSTFIX && mta->drive &&
	    (mtas->view->status.queue_paused >> number & 1) != 0)
		return "the queue is paused: sendmail cannot be run, or leaves all queue files "
		    "unchanged, as above its QueueLA (event mta-command in the log)";
	if (mta->kind != MTA_POSTFIX)
		return use->seen && mtas->view->status.counters[
		    COUNTER_OUTBOUND_QUESTIONS] == 0 ? "Sendmail asks no questions: "
		    "sendmail-outbound.mc is missing in its configuration, or its socket is "
		    "unsafe for Sendmail" : NULL;
	if (mta->site_known == 0)
		return "no hints: run posternctl postfix-lanes to read its settings";
	if (generation_text(g, mta->site_refusal)[0] != '\0')
		return "no hints: posternctl postfix-lanes shows why";
	if (mta->site_changed != 0)
		return mta->site_by_setup ?
		    "no hints: its settings have changed; run postern-postfix-setup make" :
		    "no hints: its settings have changed; run posternctl postfix-lanes";
	if (lanes_there(mta) == 0)
		return mta->site_by_setup ?
		    "windows are not enforced: Postfix has no lanes; run postern-postfix-setup "
		    "make --lanes" :
		    "windows are not enforced: Postfix has no lanes; add those that posternctl "
		    "postfix-lanes prints";
	if (g->outbound_observe)
		return "observe mode (outbound.observe)";
	if (use->lane_ns == 0 && use->other_ns != 0)
		return "no mail has used a lane yet";
	return NULL;
}

static void mta_row(void *context, struct writer *writer, const void *item) {
	static const struct generation nothing;	/* without one the table has no rows, but names */
	const struct mtas *mtas = context;
	const struct generation *g = mtas->view->generation == NULL ? &nothing :
	    mtas->view->generation;
	unsigned number = *(const unsigned *)item;
	const struct generation_mta *mta = &g->mtas[number];
	const struct mta_use *use = &mtas->uses[number % STATUS_MTAS_MAX];
	const char *text = generation_text(g, mta->log);
	struct view_log log = view_log(mtas->view->reader, text);
	const char *note = log_note(mtas->view, text, &log);
	int64_t now_ns = mtas->view->status.now_ns, now_s = clock_wall_s();
	bool postfix = mta->kind == MTA_POSTFIX;
	char lanes[32];

	snprintf(lanes, sizeof(lanes), "%u/%u", lanes_there(mta), (unsigned)mta->lane_count);
	writer_text(writer, "mta", generation_text(g, mta->name));
	writer_text(writer, "kind", postfix ? "postfix" : "sendmail");
	writer_member(writer, "log_unread", COLUMN_BYTES, value_number_if(log.known, log.unread));
	writer_seconds(writer, "log_behind", value_number_if(log.behind_s > 0,
	    (uint64_t)log.behind_s));
	writer_seconds(writer, "log_age", value_number_if(log.known && log.written_s <= now_s,
	    (uint64_t)(now_s - log.written_s)));
	writer_truth(writer, "observe", g->outbound_observe != 0);
	writer_text(writer, "site", site_word(g, mta));
	writer_text(writer, "lanes", postfix ? lanes : NULL);
	writer_seconds(writer, "lane_age", value_since(now_ns, use->lane_ns));
	writer_seconds(writer, "other_age", value_since(now_ns, use->other_ns));
	writer_member(writer, "reload", COLUMN_TRUTH, postfix ? value_truth(mta->may_reload != 0) :
	    value_unknown());
	writer_text(writer, "note", note != NULL ? note : note_of(mtas, mta, use));
}

static void mta_rows(void *context, struct writer *writer) {
	const struct generation *g = ((const struct mtas *)context)->view->generation;

	for (unsigned i = 0; g != NULL && i < g->mta_count; i++)
		writer_row(writer, &i);
}

void status_mtas_write(struct writer *writer, const struct view *view) {
	struct mtas mtas = { .view = view };

	reader_lane_uses(view->reader, take_use, &mtas);
	(void)destinations_each(view->reader, take_seen, &mtas);
	writer_table(writer, &(const struct table){ .name = "mtas", .row = mta_row,
	    .rows = mta_rows, .context = &mtas });
}
