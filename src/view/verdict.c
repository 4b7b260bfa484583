/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What is wrong, in one line.
 * MODEL    What keeps Postern from its work, then what it does to mail, then what it would
 *          do, and what it lacks.  How fast a class refuses the keeper has noted (engine/
 *          history.h); how far behind a log is comes from two looks: what was its end then is
 *          not read yet.
 * THREADS  One.
 */
#include "view/verdict.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/log.h"
#include "base/text.h"
#include "view/accounts.h"
#include "view/cluster.h"
#include "view/destinations.h"
#include "view/health.h"
#include "view/status_mtas.h"

#define BEHIND_S	5		/* a log that is read has less */
#define BEHIND_BYTES	(UINT64_C(1) << 20)	/* for who looks once */
#define LATELY_NS	(600 * NS_PER_SECOND)
#define NAME_SHOWN	100

#define SAY_IN(text, ...) (void)text_append(text, sizeof(text), 0, __VA_ARGS__)

static struct verdict_part *verdict_add(struct view_verdict *out, enum tone tone,
    const char *about, const char *command) {
	/* the last one is written over: what comes first counts */
	struct verdict_part *part = &out->parts[out->count < VERDICT_PARTS ? out->count++ :
	    VERDICT_PARTS - 1];

	*part = (struct verdict_part){ .tone = tone, .about = about };
	SAY_IN(part->command, "%s", command);
	if (tone > out->tone)
		out->tone = tone;
	return part;
}

#define SAY(part, ...) SAY_IN((part)->text, __VA_ARGS__)

/* Adds a name to the command, where a shell takes it as it is. */
static void name_in_command(struct verdict_part *part, const char *command, const char *name) {
	if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:_/@-") ==
	    strlen(name) && name[0] != '-')
		SAY_IN(part->command, "%s %s", command, name);
}

static const char *shown(const char *name, char out[NAME_SHOWN]) {
	return log_quote(out, NAME_SHOWN, name, strlen(name));
}

/* --- Postern itself ----------------------------------------------------------------------- */

static void look_at_daemon(const struct view *view, struct view_verdict *out) {
	const struct reader_status *status = &view->status;
	bool has_beaten = status->heartbeat_ns > 0 && status->heartbeat_ns <= status->now_ns;
	char away[VIEW_AWAY_MAX];

	if (status->health != READER_LIVE)
		SAY(verdict_add(out, TONE_BAD, "workers", "systemctl status posternd"), "%s",
		    has_beaten ? view_away(view, away) : "posternd is not running");
}

/* Why it died is in the log. */
#define ROLE_COMMAND	"journalctl -u posternd"

static const char *what_stops(enum role_kind kind) {
	switch (kind) {
	case ROLE_POLICY:
	case ROLE_MILTER:
		return "its clients wait";
	case ROLE_FEED:
		return "no log is read";
	case ROLE_QUEUE:
		return "only Sendmail runs its queue";
	case ROLE_CLUSTER:
		return "the fixed share counts";
	case ROLE_METRICS:
		return "no metrics, no status page";
	default:
		return "ended sessions still count";
	}
}

static void look_at_roles(const struct view *view, struct view_verdict *out) {
	char down_name[VIEW_ROLE_NAME_MAX], behind_name[VIEW_ROLE_NAME_MAX];
	unsigned down = 0, behind = 0;
	enum role_kind down_kind = ROLE_KEEPER;
	struct reader_role role;
	bool is_silent = false;

	for (uint32_t i = 0; reader_role(view->reader, i, &role); i++)
		if (!health_role_is_up(view, &role) && down++ == 0) {
			(void)view_role_name(&role, down_name);
			down_kind = (enum role_kind)role.kind;
			is_silent = role.pid > 0;	/* a second later it is killed */
		} else if (health_role_is_behind(view, &role) && behind++ == 0)
			(void)view_role_name(&role, behind_name);
	if (down == 1)
		SAY(verdict_add(out, TONE_BAD, "workers", ROLE_COMMAND),
		    "worker %s %s: %s", down_name,
		    is_silent ? "does not respond" : "is not running", what_stops(down_kind));
	else if (down > 1)
		SAY(verdict_add(out, TONE_BAD, "workers", ROLE_COMMAND),
		    "%u workers are not running", down);
	if (behind > 0)
		SAY(verdict_add(out, TONE_BAD, "workers", "posternctl status"),
		    "worker %s uses an old configuration", behind_name);
}

static void look_at_journal(const struct view *view, struct view_verdict *out) {
	char path[PATH_MAX] = "";
	struct verdict_part *part;
	unsigned count = 0, first = 0;

	for (unsigned i = 0; i < JOURNAL_ROOMS; i++)
		if (view->status.journals[i].fares == JOURNAL_FARES_ILL && count++ == 0)
			first = i;
	if (count == 0)
		return;
	part = verdict_add(out, TONE_BAD, "faults", "posternctl status");
	if (view->generation != NULL &&
	    generation_journal_directory(view->generation, (enum journal_room)first, path))
		name_in_command(part, "df", path);
	if (count == 1)
		SAY(part, "journal %s cannot be written: %s",
		    generation_journal_word((enum journal_room)first),
		    strerror(view->status.journals[first].error));
	else
		SAY(part, "%u journals cannot be written: %s", count,
		    strerror(view->status.journals[first].error));
}

static void look_at_queue(const struct view *view, struct view_verdict *out) {
	const char *word = status_queue_word(view);

	if (word == NULL || (strcmp(word, "away") != 0 && strcmp(word, "refused") != 0))
		return;
	SAY(verdict_add(out, TONE_BAD, "mail", "posternctl status"), strcmp(word, "away") == 0 ?
	    "the queue worker is not running" :
	    "the queue is not managed: the service restricts posternd");
}

static void look_at_cluster(const struct view *view, struct view_verdict *out) {
	struct cluster_told told;
	struct value state;
	enum tone tone;

	(void)reader_cluster(view->reader, &told);
	state = view_cluster_state(view, &told);
	tone = (enum tone)state.tone;
	if (tone != TONE_WARN && tone != TONE_BAD)
		return;
	SAY(verdict_add(out, tone, "cluster", "posternctl cluster"),
	    strcmp(state.text, "without") == 0 ? "cluster without Redis" :
	    strcmp(state.text, "refused") == 0 ? "cluster: Redis refuses this node" :
	    strcmp(state.text, "away") == 0 ? "cluster worker is not running" :
	    "cluster: %s", state.text);
}

/* --- classes ---------------------------------------------------------------------------------- */

struct refusing {
	unsigned count[2];		/* classes; [1]: in observe mode */
	uint64_t rate[2];		/* in 1000 s */
	char name[2][SEGMENT_NAME_MAX + 1];
};

static uint64_t per_minute(uint64_t rate) {
	return (rate * 60 + 500) / 1000;
}

static void take_class(void *context, const struct reader_class *class) {
	struct refusing *refusing = context;
	bool observe = class->observe;

	if (per_minute(class->refusing) == 0)
		return;
	if (refusing->count[observe]++ == 0)
		memcpy(refusing->name[observe], class->name, sizeof(refusing->name[0]));
	refusing->rate[observe] += class->refusing;
}

/* "(30/s)", "(1.4/s)", "(20/min)". */
static void say_refusing(const struct refusing *refusing, bool observe, struct view_verdict *out) {
	uint64_t rate = refusing->rate[observe];
	const char *word = observe ? "would refuse" : "refusing";
	struct verdict_part *part;
	char name[NAME_SHOWN], speed[32] = "";

	if (refusing->count[observe] == 0)
		return;
	part = verdict_add(out, observe ? TONE_WARN : TONE_BAD, "classes", "posternctl classes");
	if (rate < 1000)
		SAY_IN(speed, "%" PRIu64 "/min", per_minute(rate));
	else if (rate < 9950)
		SAY_IN(speed, "%" PRIu64 ".%" PRIu64 "/s", rate / 1000, rate % 1000 / 100);
	else
		SAY_IN(speed, "%" PRIu64 "/s", (rate + 500) / 1000);
	if (refusing->count[observe] == 1) {
		SAY(part, "class %s %s (%s)", shown(refusing->name[observe], name), word, speed);
		name_in_command(part, "posternctl sessions --class", refusing->name[observe]);
	} else
		SAY(part, "%u classes %s (%s)", refusing->count[observe], word, speed);
}

/* --- outbound mail ------------------------------------------------------------------------------ */

static void say_count(struct view_verdict *out, enum tone tone, uint64_t count, const char *one,
    const char *many, const char *what) {
	if (count > 0)
		SAY(verdict_add(out, tone, "destinations", "posternctl destinations"),
		    "%" PRIu64 " %s %s", count, count == 1 ? one : many, what);
}

static void look_at_stopped(const struct view_stopped *stopped, struct view_verdict *out) {
	char name[NAME_SHOWN], id[DECISION_ID_MAX];
	struct verdict_part *part;

	if (stopped->suspended == 1) {
		part = verdict_add(out, TONE_BAD, "destinations", "posternctl destinations");
		SAY(part, "%s suspended", shown(stopped->suspended_name, name));
		if (stopped->suspended_event != 0)
			name_in_command(part, "posternctl why",
			    decision_id_text(stopped->suspended_event, id));
	} else {
		say_count(out, TONE_BAD, stopped->suspended, "destination", "destinations",
		    "suspended");
	}
	say_count(out, TONE_WARN, stopped->held, "destination", "destinations", "held");
	say_count(out, TONE_WARN, stopped->classes, "class", "classes", "held");
	say_count(out, TONE_WARN, stopped->recipients, "recipient", "recipients", "held");
}

static void look_at_lacking(const struct view_stopped *stopped, struct view_verdict *out) {
	uint64_t would = stopped->would_suspend + stopped->would_hold;
	/* the first step of what is lacking, where there is one */
	bool is_unread = stopped->lacking.kind == ENFORCEMENT_NO_HINTS;
	struct verdict_part *part;
	char why[ENFORCEMENT_TEXT_MAX];

	if (would == 0)
		return;
	part = verdict_add(out, TONE_WARN, "destinations", "posternctl destinations");
	if (is_unread)
		name_in_command(part, "posternctl postfix-lanes", stopped->lacking.mta);
	SAY(part, "would %s %" PRIu64 " %s (%s)", stopped->would_suspend == 0 ? "hold" :
		    "suspend", would, would == 1 ? "destination" : "destinations", enforcement_text(stopped->lacking.kind, stopped->lacking.mta,
		    why));
}

/* Seconds that its reader is behind; 0: it is not, or that is not known. */
static int64_t behind_s(struct view_log_look *look, const struct view_log *log,
    int64_t now_ns) {
	uint64_t end = log->read + log->unread;

	if (!log->known || look->end_ns == 0 || log->read >= look->end || log->read < look->read ||
	    end < look->end) {
		*look = (struct view_log_look){ .end = end, .end_ns = now_ns, .read = log->read };
		return 0;
	}
	look->read = log->read;
	return (now_ns - look->end_ns) / NS_PER_SECOND;
}

static void look_at_logs(struct view *view, struct view_verdict *out) {
	const struct generation *g = view->generation;
	char name[NAME_SHOWN], log_name[NAME_SHOWN];
	const char *note;

	for (unsigned i = 0; g != NULL && i < g->mta_count; i++) {
		const struct generation_mta *mta = &g->mtas[i];
		struct view_log log = view_log(view->reader, generation_text(g, mta->log));
		int64_t late_s = behind_s(&view->logs[i % VIEW_LOGS], &log, view->status.now_ns);

		if (mta->transport != 0)
			continue;
		(void)shown(generation_text(g, mta->name), name);
		if (late_s >= BEHIND_S)
			SAY(verdict_add(out, TONE_BAD, "mail", "posternctl status"),
			    "log of %s %" PRId64 " s behind", name, late_s);
		else if (log.known && log.unread >= BEHIND_BYTES && log.behind_s > 0)
			SAY(verdict_add(out, TONE_WARN, "mail", "posternctl status"),
			    "log of %s %" PRId64 " s behind (%" PRIu64 " MB)", name, log.behind_s,
			    log.unread >> 20);
		else if (log.known && log.unread >= BEHIND_BYTES)
			SAY(verdict_add(out, TONE_WARN, "mail", "posternctl status"),
			    "log of %s %" PRIu64 " MB behind", name, log.unread >> 20);
		else if ((note = status_mta_unread(view, i)) != NULL)
			SAY(verdict_add(out, TONE_WARN, "mail", "posternctl check"),
			    "%s: %.*s (%s)", name, (int)strcspn(note, ";"), note,
			    shown(generation_text(g, mta->log), log_name));
		if (mta->kind == MTA_POSTFIX && mta->site_known != 0 && mta->site_changed != 0)
			SAY(verdict_add(out, TONE_BAD, "mail", generation_site_reader(mta)),
			    "settings of %s changed: lanes out of date", name);
	}
}

static void look_at_accounts(struct view *view, struct view_verdict *out) {
#ifdef WITH_ACCOUNTS
	const struct view_accounts_top *top = view_accounts_top(view);
	char name[NAME_SHOWN];

	/* a full table is usual: who sent least recently makes room; not where all are near a limit */
	if (view_accounts_are_full(view))
		SAY(verdict_add(out, TONE_BAD, "accounts", "posternctl accounts"),
		    "table of logins full: some have no limits; raise state.accounts");
	if (top == NULL)
		return;
	if (top->held == 1 && view->generation->accounts_named > 0) {
		struct verdict_part *part = verdict_add(out, TONE_BAD, "accounts", "");

		SAY(part, "login %s is held", shown(top->rows[0].login, name));
		name_in_command(part, "posternctl account", top->rows[0].login);
	} else if (top->held > 0) {
		SAY(verdict_add(out, TONE_BAD, "accounts", "posternctl accounts --over"),
		    "%" PRIu64 " login%s held", top->held, top->held == 1 ? " is" : "s are");
	}
	if (top->full > 0)
		SAY(verdict_add(out, TONE_WARN, "accounts", "posternctl accounts --over"),
		    "%" PRIu64 " login%s at a limit", top->full, top->full == 1 ? "" : "s");
#else
	(void)view;
	(void)out;
#endif
}

/* Accounts have an observe mode of their own. */
static bool limits_accounts(const struct generation *g) {
#ifdef WITH_ACCOUNTS
	for (uint32_t i = 0; i < g->accounts.count; i++)
		if (!generation_account(g, i)->observe)
			return true;
#else
	(void)g;
#endif
	return false;
}

static void look_at_modes(const struct view *view, struct view_verdict *out) {
	const struct generation *g = view->generation;
	struct verdict_part *part;

	if (g == NULL) {
		SAY(verdict_add(out, TONE_WARN, "faults", "posternctl status"),
		    "the active configuration cannot be read");
		return;
	}
	if (g->observe || g->outbound_observe) {
		part = verdict_add(out, TONE_WARN, "classes", "posternctl status");
		part->is_mode = true;
		SAY(part, "observe mode: %s", g->observe && g->outbound_observe ?
		    limits_accounts(g) ? "sessions and destinations are not limited" :
		    "nothing is refused or held" : g->observe ? "no session is refused" :
		    "no mail is held");
	}
}

void view_verdict(struct view *view, struct view_verdict *out) {
	struct view_stopped stopped = view_stopped(view);
	struct refusing refusing = { .count = { 0, 0 } };

	*out = (struct view_verdict){ .tone = TONE_GOOD };
	look_at_daemon(view, out);
	/* the rest is what it left */
	if (view->status.health != READER_LIVE)
		return;
	look_at_roles(view, out);
	if (view->status.gate_shut)
		SAY(verdict_add(out, TONE_BAD, "classes", "posternctl classes"),
		    "all classes are full: new sessions are refused");
	(void)reader_classes(view->reader, take_class, &refusing);
	say_refusing(&refusing, false, out);
	look_at_stopped(&stopped, out);
	look_at_journal(view, out);
	look_at_queue(view, out);
	look_at_cluster(view, out);
	look_at_logs(view, out);
	look_at_accounts(view, out);
	say_refusing(&refusing, true, out);
	look_at_lacking(&stopped, out);
	look_at_modes(view, out);
}

const char *view_verdict_line(const struct view_verdict *verdict, const char *between,
    char out[VERDICT_LINE_MAX]) {
	size_t length = 0;

	out[0] = '\0';
	if (verdict->count == 0)
		(void)text_append(out, VERDICT_LINE_MAX, 0, "no problems");
	for (unsigned i = 0; i < verdict->count; i++)
		length = text_append(out, VERDICT_LINE_MAX, length, "%s%s", i > 0 ? between : "",
		    verdict->parts[i].text);
	return out;
}

/* --- one word of it: is it healthy? ----------------------------------------------------------- */

static void say_role(FILE *out, const struct view *view, const struct reader_role *role) {
	long long silent_s = (view->status.now_ns - role->heartbeat_ns) / NS_PER_SECOND;
	char name[VIEW_ROLE_NAME_MAX];

	view_role_name(role, name);
	if (role->pid <= 0)
		fprintf(out, "worker %s is not running\n", name);
	else if (health_role_is_up(view, role))
		fprintf(out, "worker %s uses configuration %llu instead of %llu (see the "
		    "log)\n",
		    name, (unsigned long long)role->generation,
		    (unsigned long long)view->status.generation);
	else
		fprintf(out, "worker %s is not responding (last heartbeat %lld s ago)\n",
		    name, silent_s);
}

static bool check_state(const struct view *view, FILE *out) {
	bool lives = view->status.health == READER_LIVE;
	char away[VIEW_AWAY_MAX];

	if (!lives && out != NULL)
		fprintf(out, "%s\n", view_away(view, away));
	return lives;
}

/* The verdict's, but for what was said above. */
static void write_notes(struct view *view, FILE *out) {
	struct view_verdict verdict;

	view_verdict(view, &verdict);
	for (unsigned i = 0; i < verdict.count; i++)
		if (strcmp(verdict.parts[i].about, "workers") != 0 && !verdict.parts[i].is_mode)
			fprintf(out, "note: %s\n", verdict.parts[i].text);
}

static bool check_drive(const struct view *view, FILE *out) {
	if (view->generation == NULL || !generation_drive_is_refused(view->generation))
		return true;
	if (out != NULL)
		fprintf(out, "the queue is not managed because the service restricts posternd: "
		    "%s\n",
		    view->generation->confined);
	return false;
}

bool health_check(struct view *view, FILE *out) {
	bool healthy = check_state(view, out);
	struct reader_role role;

	for (uint32_t i = 0; reader_role(view->reader, i, &role); i++) {
		if (health_role_is_up(view, &role) && !health_role_is_behind(view, &role))
			continue;
		healthy = false;
		if (out != NULL)
			say_role(out, view, &role);
	}
	healthy = check_drive(view, out) && healthy;
	if (out == NULL)
		return healthy;
	if (healthy)
		fputs("ok\n", out);
	write_notes(view, out);
	return healthy;
}

/* --- as rows -------------------------------------------------------------------------------- */

static void problem_row(void *context, struct writer *writer, const void *item) {
	const struct verdict_part *part = item;

	(void)context;
	writer_text(writer, "severity", part->tone == TONE_BAD ? "bad" : "warn");
	writer_text(writer, "text", part->text);
	writer_text(writer, "command", part->command);
	if (writer->json)	/* for the page */
		writer_text(writer, "about", part->about);
}

void view_verdict_write(const struct view_verdict *verdict, struct writer *writer) {
	bool wrong = verdict->count > 1 || (verdict->count == 1 && !verdict->parts[0].is_mode);
	char line[VERDICT_LINE_MAX];

	writer_member(writer, "verdict", COLUMN_TEXT, value_toned(value_text(view_verdict_line(
	    verdict, "; ", line)), verdict->tone));
	if (writer->json || wrong)
		writer_table(writer, &(const struct table){ .name = "problems",
		    .row = problem_row, .items = verdict->parts, .count = verdict->count,
		    .each = sizeof(verdict->parts[0]) });
	if (!writer->json && wrong)
		putc('\n', writer->out);
}
