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
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "view/cluster.h"
#include "view/health.h"
#include "view/status_mtas.h"

#define BEHIND_S	5		/* a log that is read has less */
#define BEHIND_BYTES	(UINT64_C(1) << 20)	/* for who looks once */
#define NAME_SHOWN	100

static struct verdict_part *verdict_add(struct view_verdict *out, enum tone tone,
    const char *about, const char *command) {
	/* the last one is written over: what comes first counts */
	struct verdict_part *part = &out->parts[out->count < VERDICT_PARTS ? out->count++ :
	    VERDICT_PARTS - 1];

	*part = (struct verdict_part){ .tone = tone, .about = about, .command = command };
	if (tone > out->tone)
		out->tone = tone;
	return part;
}

#define SAY(part, ...) (void)text_append((part)->text, sizeof((part)->text), 0, __VA_ARGS__)

static const char *shown(const char *name, char out[NAME_SHOWN]) {
	return log_quote(out, NAME_SHOWN, name, strlen(name));
}

/* --- Postern itself ----------------------------------------------------------------------- */

static void look_at_daemon(const struct view *view, struct view_verdict *out) {
	const struct reader_status *status = &view->status;
	int64_t silent_s = (status->now_ns - status->heartbeat_ns) / NS_PER_SECOND;

	if (status->health == READER_LIVE)
		return;
	if (status->heartbeat_ns <= 0 || silent_s < 0)
		SAY(verdict_add(out, TONE_BAD, "workers", "systemctl status posternd"),
		    "posternd is not running");
	else
		SAY(verdict_add(out, TONE_BAD, "workers", "systemctl status posternd"),
		    "posternd is not running (last heartbeat %" PRId64 " s ago)", silent_s);
}

static void look_at_roles(const struct view *view, struct view_verdict *out) {
	char down_name[VIEW_ROLE_NAME_MAX], behind_name[VIEW_ROLE_NAME_MAX];
	unsigned down = 0, behind = 0;
	struct reader_role role;

	for (uint32_t i = 0; reader_role(view->reader, i, &role); i++)
		if (!health_role_is_up(view, &role) && down++ == 0)
			(void)view_role_name(&role, down_name);
		else if (health_role_is_behind(view, &role) && behind++ == 0)
			(void)view_role_name(&role, behind_name);
	if (down == 1)
		SAY(verdict_add(out, TONE_BAD, "workers", "posternctl status"),
		    "worker %s is not running", down_name);
	else if (down > 1)
		SAY(verdict_add(out, TONE_BAD, "workers", "posternctl status"),
		    "%u workers are not running", down);
	if (behind > 0)
		SAY(verdict_add(out, TONE_BAD, "workers", "posternctl status"),
		    "worker %s uses an old configuration", behind_name);
}

static void look_at_journal(const struct view *view, struct view_verdict *out) {
	for (unsigned i = 0; i < JOURNAL_ROOMS; i++)
		if (view->status.journals[i].fares == JOURNAL_FARES_ILL)
			SAY(verdict_add(out, TONE_BAD, "faults", "posternctl status"),
			    "journal %s cannot be written: %s",
			    generation_journal_word((enum journal_room)i),
			    strerror(view->status.journals[i].error));
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

static void take_class(void *context, const struct reader_class *class) {
	struct refusing *refusing = context;
	bool observe = class->observe;

	if (class->refusing == 0)
		return;
	if (refusing->count[observe]++ == 0)
		memcpy(refusing->name[observe], class->name, sizeof(refusing->name[0]));
	refusing->rate[observe] += class->refusing;
}

/* "(30/s)", "(0.4/s)". */
static void say_refusing(const struct refusing *refusing, bool observe, struct view_verdict *out) {
	uint64_t rate = refusing->rate[observe];
	const char *word = observe ? "would refuse" : "refusing";
	struct verdict_part *part;
	char name[NAME_SHOWN], speed[32] = "";

	if (refusing->count[observe] == 0)
		return;
	part = verdict_add(out, observe ? TONE_WARN : TONE_BAD, "classes", "posternctl classes");
	(void)text_append(speed, sizeof(speed), 0, rate >= 9950 ? "%" PRIu64 :
	    "%" PRIu64 ".%" PRIu64, rate >= 9950 ? (rate + 500) / 1000 : rate / 1000,
	    rate % 1000 / 100);
	if (refusing->count[observe] == 1)
		SAY(part, "class %s %s (%s/s)", shown(refusing->name[observe], name), word, speed);
	else
		SAY(part, "%u classes %s (%s/s)", refusing->count[observe], word, speed);
}

static void look_at_classes(const struct view *view, struct view_verdict *out, bool observe) {
	struct refusing refusing = { .count = { 0, 0 } };

	(void)reader_classes(view->reader, take_class, &refusing);
	say_refusing(&refusing, observe, out);
}

/* --- outbound mail ------------------------------------------------------------------------------ */

static void say_count(struct view_verdict *out, enum tone tone, uint64_t count, const char *one,
    const char *many, const char *what) {
	if (count > 0)
		SAY(verdict_add(out, tone, "destinations", "posternctl destinations"),
		    "%" PRIu64 " %s %s", count, count == 1 ? one : many, what);
}

static void look_at_stopped(const struct view_stopped *stopped, struct view_verdict *out) {
	say_count(out, TONE_BAD, stopped->suspended, "destination", "destinations", "suspended");
	say_count(out, TONE_WARN, stopped->held, "destination", "destinations", "held");
	say_count(out, TONE_WARN, stopped->classes, "class", "classes", "held");
	say_count(out, TONE_WARN, stopped->recipients, "recipient", "recipients", "held");
}

static void look_at_lacking(const struct view_stopped *stopped, struct view_verdict *out) {
	uint64_t would = stopped->would_suspend + stopped->would_hold;
	char why[ENFORCEMENT_TEXT_MAX];

	if (would > 0)
		SAY(verdict_add(out, TONE_WARN, "destinations", "posternctl destinations"),
		    "would suspend %" PRIu64 " %s (%s)", would, would == 1 ? "destination" :
		    "destinations", enforcement_text(stopped->lacking.kind, stopped->lacking.mta,
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
	char name[NAME_SHOWN];

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
		else if (log.known && log.unread >= BEHIND_BYTES)
			SAY(verdict_add(out, TONE_WARN, "mail", "posternctl status"),
			    "log of %s %" PRIu64 " MB behind", name, log.unread >> 20);
		else if (status_mta_is_unread(view, i))
			SAY(verdict_add(out, TONE_WARN, "mail", "posternctl status"),
			    "no deliveries of %s are read", name);
		if (mta->kind == MTA_POSTFIX && mta->site_known != 0 && mta->site_changed != 0)
			SAY(verdict_add(out, TONE_BAD, "mail", generation_site_reader(mta)),
			    "settings of %s changed: its lanes are out of date", name);
	}
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
		    "nothing is refused or held" : g->observe ? "no session is refused" :
		    "no mail is held");
	}
}

void view_verdict(struct view *view, struct view_verdict *out) {
	struct view_stopped stopped = view_stopped(view);

	*out = (struct view_verdict){ .tone = TONE_GOOD };
	look_at_daemon(view, out);
	/* the rest is what it left */
	if (view->status.health != READER_LIVE)
		return;
	look_at_roles(view, out);
	if (view->status.gate_shut)
		SAY(verdict_add(out, TONE_BAD, "classes", "posternctl classes"),
		    "all classes are full: new sessions are refused");
	look_at_classes(view, out, false);
	look_at_stopped(&stopped, out);
	look_at_journal(view, out);
	look_at_queue(view, out);
	look_at_cluster(view, out);
	look_at_logs(view, out);
	look_at_classes(view, out, true);
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

/* --- for programs -------------------------------------------------------------------------- */

static void problem_rows(void *context, struct writer *writer) {
	const struct view_verdict *verdict = context;

	for (unsigned i = 0; i < verdict->count; i++) {
		const struct verdict_part *part = &verdict->parts[i];

		writer_row(writer, (const struct value[]){
			value_text(part->tone == TONE_BAD ? "bad" : "warn"),
			value_text(part->text), value_text(part->about),
			value_text(part->command) });
	}
}

void view_verdict_write(const struct view_verdict *verdict, struct writer *writer) {
	static const struct column columns[] = { { "severity", COLUMN_TEXT },
		{ "text", COLUMN_TEXT }, { "about", COLUMN_TEXT }, { "command", COLUMN_TEXT } };
	static const struct column member = { "verdict", COLUMN_TEXT };
	char line[VERDICT_LINE_MAX];
	const struct value value = value_toned(value_text(view_verdict_line(verdict, "; ", line)),
	    verdict->tone);

	writer_members(writer, &member, &value, 1);
	if (writer->json)
		writer_table(writer, "problems", columns, 4, problem_rows,
		    (void *)(uintptr_t)verdict);
}
