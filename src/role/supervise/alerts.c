/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Tell people by alert.command.
 * MODEL    An alert of a kind and subject that was told within alert.interval, one above
 *          alert.rate and one for which there is no room are left out; the next one that is
 *          told says how many.  Deaths of roles have a rate of their own, and more room.  The others wait for a place among alert.processes.
 * ERRORS   A command that fails, cannot be run or is killed is counted and logged; nothing
 *          else comes of it.
 * THREADS  The supervisor's.
 */
#include "role/supervise/alerts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#define RING		(ALERTS_WAITING_MAX + ALERTS_OWN_MAX)
#define LINE_MAX_BYTES	(ALERT_SUBJECT_MAX + ALERT_TEXT_MAX + 200)
#define VARIABLES	9
#define VARIABLE_MAX	(ALERT_TEXT_MAX + 64)

void alerts_init(struct alerts *alerts, _Atomic uint64_t *counters) {
	memset(alerts, 0, sizeof(*alerts));
	alerts->counters = counters;
	(void)!getrandom(&alerts->key, sizeof(alerts->key), 0);
}

static void alert_count(const struct alerts *alerts, enum counter counter) {
	atomic_fetch_add(&alerts->counters[counter], 1);
}

/* --- which are told ---------------------------------------------------------------- */

/* Strangers choose subjects, and none is to be taken for another. */
static uint64_t hash_of(const struct alerts *alerts, const char *subject) {
	return siphash13(&alerts->key, subject, strlen(subject));
}

static bool is_of(const struct alert_told *told, enum alert_kind kind, uint64_t hash) {
	return told->told_ns != 0 && told->kind == kind && told->hash == hash;
}

bool alerts_due(const struct alerts *alerts, const struct generation *generation,
    enum alert_kind kind, const char *subject, int64_t now_ns) {
	uint64_t hash = hash_of(alerts, subject);

	for (unsigned i = 0; i < ALERTS_REMEMBERED; i++)
		if (is_of(&alerts->remembered[i], kind, hash))
			return now_ns - alerts->remembered[i].told_ns >=
			    generation->alert.interval_ns;
	return true;
}

/* In its old place, or that of the one that was told longest ago. */
static void alert_remember(struct alerts *alerts, const struct alert *alert, int64_t now_ns) {
	uint64_t hash = hash_of(alerts, alert->subject);
	unsigned oldest = 0;

	for (unsigned i = 0; i < ALERTS_REMEMBERED; i++) {
		if (is_of(&alerts->remembered[i], alert->kind, hash)) {
			oldest = i;
			break;
		}
		if (alerts->remembered[i].told_ns < alerts->remembered[oldest].told_ns)
			oldest = i;
	}
	alerts->remembered[oldest] = (struct alert_told){ .kind = alert->kind, .hash = hash,
		.told_ns = now_ns };
}

static void alert_tell(struct alerts *alerts, const struct generation *generation,
    const struct alert *alert, int64_t *tat_ns, unsigned most, int64_t now_ns) {
	const struct generation_alert *setting = &generation->alert;

	if (setting->word_count == 0 || (setting->on >> alert->kind & 1) == 0)
		return;
	if (alerts->count >= most ||
	    !alerts_due(alerts, generation, alert->kind, alert->subject, now_ns) ||
	    !rate_allows(&setting->rate, *tat_ns, now_ns)) {
		alert_count(alerts, COUNTER_ALERTS_LEFT_OUT);
		alerts->left_out++;
		return;
	}
	*tat_ns = rate_after(&setting->rate, *tat_ns, now_ns);
	alert_remember(alerts, alert, now_ns);
	alerts->waiting[(alerts->first + alerts->count++) % RING] = *alert;
}

void alerts_tell(struct alerts *alerts, const struct generation *generation,
    const struct alert *alert, int64_t now_ns) {
	alert_tell(alerts, generation, alert, &alerts->rate_tat_ns, ALERTS_WAITING_MAX, now_ns);
}

void alerts_tell_death(struct supervisor *supervisor, const struct child *child, int status,
    int64_t now_ns) {
	struct alert alert;

	alert_begin(&alert, ALERT_ROLE, child->name);
	if (child->killed != NULL)
		text_append(alert.text, sizeof(alert.text), 0,
		    "%s; it was killed and is being restarted", child->killed);
	else
		text_append(alert.text, sizeof(alert.text), 0,
		    "ended with %s %d after %" PRId64 " s; being restarted",
		    WIFSIGNALED(status) ? "signal" : "exit code",
		    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		    (now_ns - child->started_ns) / NS_PER_SECOND);
	alert_tell(&supervisor->alerts, supervisor->generation, &alert, &supervisor->alerts.own_tat_ns,
	    RING, now_ns);
}

/* --- how -------------------------------------------------------------------------- */

/* For people; it begins with our own word, so that no program takes it for an option. */
static void write_line(const struct alert *alert, uint64_t left_out,
    char out[LINE_MAX_BYTES]) {
	size_t length = text_append(out, LINE_MAX_BYTES, 0, "%s %s: %s",
	    generation_alert_word(alert->kind), alert->subject, alert->text);

	if (alert->id[0] != '\0')
		length = text_append(out, LINE_MAX_BYTES, length, " (id %s)", alert->id);
	if (left_out > 0)
		(void)text_append(out, LINE_MAX_BYTES, length, " (%" PRIu64 " more suppressed)",
		    left_out);
}

static void write_time(int64_t wall_s, char *out, size_t size) {
	time_t time = (time_t)wall_s;
	struct tm tm;

	out[0] = '\0';
	if (gmtime_r(&time, &tm) != NULL)
		(void)strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void alert_ended(void *owner, struct subprocess *child, const struct subprocess_end *end) {
	const struct alert_run *run = (const struct alert_run *)child;
	char text[SUBPROCESS_END_TEXT_MAX];

	if (end->status == 0)
		return;
	alert_count(owner, COUNTER_ALERT_FAILURES);
	log_event(EVENT_ALERT_COMMAND, "kind=%s %s", generation_alert_word(run->kind),
	    subprocess_end_text(end, text));
}

static const struct subprocess_calls alert_calls = { .ended = alert_ended };

static int alert_run(struct alert_run *run, struct supervisor *supervisor,
    const struct alert *alert, int64_t now_ns) {
	const struct generation *generation = supervisor->generation;
	const struct generation_alert *setting = &generation->alert;
	const char *arguments[GENERATION_COMMAND_WORDS + 1] = { NULL };
	char variables[VARIABLES][VARIABLE_MAX], line[LINE_MAX_BYTES], time[32];
	const char *given[VARIABLES + 1] = { NULL };
	const struct identity *identity = &supervisor->identity;
	const struct subprocess_program command = { .arguments = arguments, .variables = given,
		.user = identity->user[0] != '\0' ? identity->user : NULL,
		.uid = identity->uid, .gid = identity->gid, .drop = identity->drop,
		.life_ns = setting->timeout_ns,
		.stdout_fd = SUBPROCESS_KEPT, .stderr_fd = SUBPROCESS_KEPT,
		.list = &supervisor->programs, .calls = &alert_calls,
		.owner = &supervisor->alerts };
	uint32_t words = setting->word_count;

	for (uint32_t i = 0; i < words; i++)
		arguments[i] = generation_text(generation, setting->words[i]);
	write_line(alert, supervisor->alerts.left_out, line);
	arguments[words] = line;
	write_time(alert->wall_s, time, sizeof(time));
#define VARIABLE(i, ...) (void)text_append(variables[i], VARIABLE_MAX, 0, __VA_ARGS__)
	VARIABLE(0, "POSTERN_ALERT_KIND=%s", generation_alert_word(alert->kind));
	VARIABLE(1, "POSTERN_ALERT_SUBJECT=%s", alert->subject);
	VARIABLE(2, "POSTERN_ALERT_TEXT=%s", alert->text);
	VARIABLE(3, "POSTERN_ALERT_RULE=%s", alert->rule);
	VARIABLE(4, "POSTERN_ALERT_ID=%s", alert->id);
	VARIABLE(5, "POSTERN_ALERT_FOR=%" PRId64, alert->for_s);
	VARIABLE(6, "POSTERN_ALERT_OBSERVED=%s", alert->observed ? "yes" : "no");
	VARIABLE(7, "POSTERN_ALERT_TIME=%s", time);
	VARIABLE(8, "POSTERN_ALERT_LEFT_OUT=%" PRIu64, supervisor->alerts.left_out);
#undef VARIABLE
	for (unsigned i = 0; i < VARIABLES; i++)
		given[i] = variables[i];
	run->kind = alert->kind;
	return subprocess_start(&run->child, &command, now_ns);
}

static void alert_start(struct supervisor *supervisor, struct alert_run *place, int64_t now_ns) {
	struct alerts *alerts = &supervisor->alerts;
	const struct alert *alert = &alerts->waiting[alerts->first];

	if (alert_run(place, supervisor, alert, now_ns) != 0) {
		alert_count(alerts, COUNTER_ALERT_FAILURES);
		log_event(EVENT_ALERT_COMMAND, "kind=%s text=\"cannot start: %s\"",
		    generation_alert_word(alert->kind), strerror(errno));
	} else {
		alert_count(alerts, COUNTER_ALERTS_TOLD);
		alerts->left_out = 0;
	}
	alerts->first = (alerts->first + 1) % RING;
	alerts->count--;
}

void alerts_turn(struct supervisor *supervisor, int64_t now_ns) {
	const struct generation_alert *setting = &supervisor->generation->alert;
	struct alerts *alerts = &supervisor->alerts;
	uint32_t busy = 0;

	if (setting->word_count == 0)
		alerts->count = 0;	/* a reload took the command away */
	for (unsigned i = 0; i < ALERTS_AT_ONCE_MAX; i++)
		busy += alerts->running[i].child.pid != 0;
	for (unsigned i = 0; i < ALERTS_AT_ONCE_MAX; i++)
		if (alerts->running[i].child.pid == 0 && alerts->count > 0 &&
		    busy < setting->processes) {
			alert_start(supervisor, &alerts->running[i], now_ns);
			busy++;
		}
}
