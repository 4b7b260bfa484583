/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Keep every role running.
 * MODEL    A role that dies is started again at once; one that keeps dying
 *          within a second of its start waits 100 ms, then twice as long each
 *          time, a second at most, until it has lived for 10 s.  A role whose last
 *          heartbeat is 4 s old is killed, but time in which the supervisor
 *          itself was stopped or suspended does not count: the roles may have
 *          been stopped with it.
 * ERRORS   A fork that fails is tried again each second.
 * THREADS  One.
 */
#include "role/supervise/children.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/nudge.h"
#include "base/process.h"
#include "base/text.h"
#include "role/run/feed_role.h"
#include "role/confine/sandbox.h"
#include "role/supervise/alerts.h"
#include "role/supervise/prepare.h"
#include "role/supervise/spawn.h"
#include "segment/file/segment.h"

#define SILENCE_NS	(4 * NS_PER_SECOND)	/* a second more than ENGINE_REST_NS */
#define QUICK_NS	NS_PER_SECOND
#define SETTLED_NS	(10 * NS_PER_SECOND)
#define DELAY_FIRST_NS	(100 * NS_PER_MS)
/* Sessions end unseen while the keeper is away: never for long. */
#define DELAY_LAST_NS	NS_PER_SECOND
#define HUNG_SOON_NS	(5 * NS_PER_SECOND)	/* after its start */
#define KILLED_NS	(3 * NS_PER_SECOND)	/* that a killed one has to end */
#define END_NS		(200 * NS_PER_MS)	/* for the keeper to say that all ended */
#define FIRST_ROLES	2		/* in the order of their plan */
#define FIRST_NS	(100 * NS_PER_MS)	/* that they have for themselves */
#define QUICK_ENDS	3		/* that a role may have to be started again for */

_Static_assert(GENERATION_ROLES_MAX + SEGMENT_ROLES_SINGLE <= SEGMENT_ROLES_MAX,
    "the compiler refuses what has no place");

static void add_child(struct supervisor *supervisor, enum role_kind kind, unsigned number,
    unsigned listener) {
	struct child *child = &supervisor->children[supervisor->child_count];

	MUST(supervisor->child_count < SEGMENT_ROLES_MAX);
	supervisor->child_count++;
	*child = (struct child){ .kind = kind, .number = number,
		.listener = listener, .place = segment_role_place(kind, number) };
	text_append(child->name, sizeof(child->name), 0, "%s.%u", role_word(kind), number);
}

static bool is_planned(const struct supervisor *supervisor, enum role_kind kind) {
	for (unsigned i = 0; i < supervisor->child_count; i++)
		if (supervisor->children[i].kind == kind)
			return true;
	return false;
}

void children_plan(struct supervisor *supervisor) {
	const struct generation *generation = supervisor->generation;
	unsigned i, policies = 0, milters = 0;
	bool metrics = false;

	supervisor->child_count = 0;
	for (i = 0; i < generation->listener_count; i++) {
		uint8_t kind = generation->listeners[i].kind;

		if (supervisor->sockets.list[i].fd < 0)
			continue;	/* left out */
		if (kind == LISTENER_POLICY || kind == LISTENER_SOCKETMAP)
			policies = generation->policy_processes;
		metrics |= kind == LISTENER_METRICS;
	}
	/* in the order of their start: those that mail waits for come first, and the keeper, by
	 * which they wait until the sessions that were adopted are confirmed */
	if (policies > 0)
		add_child(supervisor, ROLE_POLICY, 0, 0);
	add_child(supervisor, ROLE_KEEPER, 0, 0);
	for (i = 1; i < policies; i++)
		add_child(supervisor, ROLE_POLICY, i, 0);
	for (i = 0; i < generation->listener_count; i++)
		if ((generation->listeners[i].kind == LISTENER_MILTER ||
		    generation->listeners[i].kind == LISTENER_MILTER_ACCOUNTS) &&
		    supervisor->sockets.list[i].fd >= 0)
			add_child(supervisor, ROLE_MILTER, milters++, i);
	if (feed_role_needed(generation))
		add_child(supervisor, ROLE_FEED, 0, 0);
	if (generation_drives(generation))
		add_child(supervisor, ROLE_QUEUE, 0, 0);
	if (generation_has_cluster(generation))
		add_child(supervisor, ROLE_CLUSTER, 0, 0);
	if (metrics)
		add_child(supervisor, ROLE_METRICS, 0, 0);
}

static void add_later(struct supervisor *supervisor, enum role_kind kind, bool needed) {
	if (needed && !is_planned(supervisor, kind))
		add_child(supervisor, kind, 0, 0);
}

void children_replan(struct supervisor *supervisor) {
	const struct generation *generation = supervisor->generation;

	add_later(supervisor, ROLE_FEED, feed_role_needed(generation));
	add_later(supervisor, ROLE_QUEUE, generation_drives(generation));
}

/* It ends by itself where a reload leaves it nothing to do, and comes back with one
 * that does. */
static bool is_idle(const struct supervisor *supervisor, const struct child *child) {
	return child->kind == ROLE_QUEUE && !generation_drives(supervisor->generation);
}

/* Zeros: it is not there. */
static void look_at_journal(const struct supervisor *supervisor, uint64_t found[2]) {
	const struct generation *generation = supervisor->generation;
	struct stat status;

	found[0] = found[1] = 0;
	if (stat(generation_text(generation, generation->journal.path), &status) != 0)
		return;
	found[0] = status.st_dev;
	found[1] = status.st_ino;
}

/* Those that no keeper has heard of.  Their successors find out by themselves, too. */
static void report_deaths(struct supervisor *supervisor) {
	for (unsigned i = 0; i < supervisor->child_count; i++) {
		struct child *child = &supervisor->children[i];

		if (child->dead_pid != 0 && keeper_orders_send(&supervisor->orders,
			&(struct keeper_order){ .kind = KEEPER_ORDER_DIED, .place = child->place,
			    .pid = child->dead_pid }, -1))
			child->dead_pid = 0;
	}
}

/* Metrics cannot write that itself; other roles do. */
static void report_start(struct supervisor *supervisor) {
	for (unsigned i = 0; i < supervisor->child_count; i++) {
		struct child *child = &supervisor->children[i];

		if (child->kind == ROLE_METRICS && child->pid != child->reported_pid &&
		    child->pid != 0 && keeper_orders_send(&supervisor->orders,
			&(struct keeper_order){ .kind = KEEPER_ORDER_STARTED, .pid = child->pid,
			    .amount = (uint64_t)child->started_ns }, -1))
			child->reported_pid = child->pid;
	}
}

/* Of a new keeper nothing is known. */
static void forget_reports(struct supervisor *supervisor) {
	for (unsigned i = 0; i < supervisor->child_count; i++)
		supervisor->children[i].reported_pid = 0;
}

/* At the daemon's start mail waits for the first ones: until they serve, or should, the others
 * leave them the processors. */
static bool waits_for_first(const struct supervisor *supervisor, unsigned number,
    int64_t now_ns) {
	if (supervisor->ready || number < FIRST_ROLES ||
	    now_ns - supervisor->began_ns >= FIRST_NS)
		return false;
	for (unsigned i = 0; i < FIRST_ROLES; i++) {
		const struct child *child = &supervisor->children[i];

		if (child->pid != 0 && child->beat_ns <= child->started_ns)
			return true;
	}
	return false;
}

bool children_start(struct supervisor *supervisor, int64_t now_ns) {
	bool keeper_started = false;
	struct diag diag;
	unsigned i;

	if (supervisor->has_no_state)
		return false;
	for (i = 0; i < supervisor->child_count; i++) {
		struct child *child = &supervisor->children[i];

		if (child->pid != 0 || child->start_ns > now_ns ||
		    is_idle(supervisor, child) || waits_for_first(supervisor, i, now_ns))
			continue;
		child->killed = NULL;
		child->started_ns = child->beat_ns = now_ns;
		child->stopped_call = -1;
		look_at_journal(supervisor, child->journal);
		if (spawn_role(supervisor, child, &diag) == 0) {
			if (child->kind != ROLE_KEEPER)
				continue;
			forget_reports(supervisor);
			report_deaths(supervisor);
			keeper_started = true;
			continue;
		}
		log_event(EVENT_SYSTEM, "role=%s text=\"cannot start: %s\"",
		    child->name, diag.text);
		child->start_ns = now_ns + NS_PER_SECOND;
	}
	report_start(supervisor);
	return keeper_started;
}

static int64_t delay_ns(const struct child *child) {
	int64_t delay = DELAY_FIRST_NS;
	unsigned i;

	if (child->quick_deaths <= 1)
		return 0;
	for (i = 2; i < child->quick_deaths && delay < DELAY_LAST_NS; i++)
		delay *= 2;
	return delay < DELAY_LAST_NS ? delay : DELAY_LAST_NS;
}

/* The feed ends by itself to have a log opened, the keeper to have a network
 * namespace opened, the queue to have directories opened, the cluster to have its password
 * read; one that does so again and again at once is ill. */
static enum event_kind event_of(const struct child *child, int status) {
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || child->quick_deaths > QUICK_ENDS)
		return EVENT_ROLE_DIED;
	return child->kind == ROLE_FEED ? EVENT_FEED :
	    child->kind == ROLE_QUEUE ? EVENT_QUEUE :
	    child->kind == ROLE_CLUSTER ? EVENT_CLUSTER :
	    child->kind == ROLE_KEEPER ? EVENT_WITNESS : EVENT_ROLE_DIED;
}

/* The system call that its sandbox stopped it for; NULL: it died of something else. */
static const char *stopped_by(const struct child *child, int status) {
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
		return NULL;
	return child->stopped_call < 0 ? "unknown" : sandbox_call_name(child->stopped_call);
}

static void listen_to(struct child *child, int64_t now_ns) {
	struct lifeline_news news = lifeline_read(child->lifeline_fd);

	if (news.beat)
		child->beat_ns = now_ns;
	if (news.stopped_call >= 0)
		child->stopped_call = news.stopped_call;
}

/* One word that somebody wrote into a lock ends each role that comes to it, one in a list may
 * lead it round and round, and one in the header keeps it from mapping the segment. */
static bool is_of_damage(const struct child *child, int status, int64_t now_ns) {
	if (WIFEXITED(status))
		return WEXITSTATUS(status) == EX_DATAERR;
	if (child->killed != NULL)
		return now_ns - child->started_ns < HUNG_SOON_NS;
	return WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGSEGV ||
	    WTERMSIG(status) == SIGBUS;
}

static void child_bury(struct supervisor *supervisor, struct child *child, int status,
    int64_t now_ns) {
	int64_t life_ns = now_ns - child->started_ns;
	const char *call;
	int64_t delay;

	listen_to(child, now_ns);
	call = stopped_by(child, status);
	child->dead_pid = child->pid;
	/* metrics only reads it */
	if (child->kind != ROLE_METRICS && is_of_damage(child, status, now_ns))
		damage_note(&supervisor->damage, child->place, now_ns);
	if (life_ns < QUICK_NS)
		child->quick_deaths++;
	else if (life_ns >= SETTLED_NS)
		child->quick_deaths = 0;
	delay = life_ns < QUICK_NS ? delay_ns(child) : 0;
	log_event(event_of(child, status),
	    "name=%s pid=%ld %s=%d%s%s life_ms=%lld restart_in_ms=%lld", child->name,
	    (long)child->pid, WIFSIGNALED(status) ? "signal" : "exit",
	    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
	    call == NULL ? "" : " syscall=", call == NULL ? "" : call,
	    (long long)(life_ns / NS_PER_MS), (long long)(delay / NS_PER_MS));
	if (event_of(child, status) == EVENT_ROLE_DIED)
		alerts_tell_death(supervisor, child, status, now_ns);
	child->pid = child->reported_pid = 0;
	child->start_ns = now_ns + delay;
	spawn_unlink(supervisor, child);
	report_deaths(supervisor);
}

void children_bury(struct supervisor *supervisor, pid_t pid, int status, int64_t now_ns) {
	for (unsigned i = 0; i < supervisor->child_count; i++)
		if (supervisor->children[i].pid == pid)
			child_bury(supervisor, &supervisor->children[i], status, now_ns);
}

static void end_child(struct child *child, const char *why) {
	if (kill(child->pid, SIGKILL) == 0)
		child->killed = why;
}

void children_check(struct supervisor *supervisor, int64_t now_ns) {
	unsigned i;

	for (i = 0; i < supervisor->child_count; i++) {
		struct child *child = &supervisor->children[i];
		int64_t silent_ns, awake_ns = now_ns - supervisor->present_ns;

		if (child->pid == 0 || child->killed != NULL)
			continue;
		listen_to(child, now_ns);
		silent_ns = now_ns - child->beat_ns;
		if (silent_ns < SILENCE_NS || awake_ns < SILENCE_NS)
			continue;
		log_event(EVENT_ROLE_HUNG, "name=%s pid=%ld silent_ms=%lld",
		    child->name, (long)child->pid,
		    (long long)(silent_ns / NS_PER_MS));
		end_child(child, "no heartbeat");
	}
}

static bool has_journal(const struct child *child) {
	return child->kind == ROLE_KEEPER || child->kind == ROLE_FEED ||
	    child->kind == ROLE_QUEUE;
}

void children_check_journal(struct supervisor *supervisor) {
	bool has_landlock = supervisor->generation->sandbox != SANDBOX_OFF &&
	    supervisor->generation->sandbox != SANDBOX_LOG && sandbox_lacks_files() == NULL;
	uint64_t there[2];

	look_at_journal(supervisor, there);
	for (unsigned i = 0; has_landlock && there[1] != 0 && i < supervisor->child_count;
	     i++) {
		struct child *child = &supervisor->children[i];

		if (child->pid == 0 || child->killed != NULL || !has_journal(child) ||
		    memcmp(there, child->journal, sizeof(there)) == 0)
			continue;
		log_event(EVENT_JOURNAL, "name=%s pid=%ld text=\"the directory of journal.path "
		    "was replaced; restarting this worker\"", child->name,
		    (long)child->pid);
		end_child(child, "it used the previous directory of journal.path");
	}
}

void children_nudge(const struct supervisor *supervisor) {
	for (unsigned i = 0; i < supervisor->child_count; i++)
		if (supervisor->children[i].pid != 0)
			nudge_give(supervisor->children[i].nudge_fd);
}

bool children_ready(const struct supervisor *supervisor) {
	unsigned i;

	for (i = 0; i < supervisor->child_count; i++) {
		const struct child *child = &supervisor->children[i];

		if (child->pid == 0 || child->beat_ns <= child->started_ns)
			return false;
	}
	return true;
}

int64_t children_next_ns(const struct supervisor *supervisor, int64_t now_ns) {
	int64_t next_ns = INT64_MAX;
	unsigned i;

	if (supervisor->has_no_state)
		return supervisor->damage.from_ns;
	for (i = 0; i < supervisor->child_count; i++) {
		const struct child *child = &supervisor->children[i];

		/* a first one's heartbeat wakes nobody: turns are short until all are ready */
		if (child->pid == 0 && child->start_ns < next_ns &&
		    !is_idle(supervisor, child) && !waits_for_first(supervisor, i, now_ns))
			next_ns = child->start_ns;
	}
	return next_ns;
}

/* Once it was killed; afterwards there is none. */
static void await_end(struct child *child, int64_t until_ns) {
	if (child->pid != 0 && !process_await(child->pid, until_ns))
		log_event(EVENT_SYSTEM, "name=%s pid=%ld text=\"killed, but the process does "
		    "not end\"",
		    child->name, (long)child->pid);
	child->pid = 0;
}

static void kill_all(const struct supervisor *supervisor, bool keeper_too) {
	for (unsigned i = 0; i < supervisor->child_count; i++)
		if (supervisor->children[i].pid != 0 &&
		    (keeper_too || supervisor->children[i].kind != ROLE_KEEPER))
			(void)kill(supervisor->children[i].pid, SIGKILL);
}

void children_end(struct supervisor *supervisor) {
	int64_t until_ns = clock_now_ns() + END_NS;
	unsigned i;

	kill_all(supervisor, false);
	if (keeper_orders_send(&supervisor->orders,
		&(struct keeper_order){ .kind = KEEPER_ORDER_END }, -1))
		for (i = 0; i < supervisor->child_count; i++)
			if (supervisor->children[i].kind == ROLE_KEEPER &&
			    supervisor->children[i].pid != 0 &&
			    process_await(supervisor->children[i].pid, until_ns))
				supervisor->children[i].pid = 0;
	kill_all(supervisor, true);
	until_ns = clock_now_ns() + KILLED_NS;
	for (i = 0; i < supervisor->child_count; i++)
		await_end(&supervisor->children[i], until_ns);
}

/* All at once, whatever they do. */
static void end_all(struct supervisor *supervisor, int64_t now_ns) {
	unsigned i;

	kill_all(supervisor, true);
	for (i = 0; i < supervisor->child_count; i++) {
		struct child *child = &supervisor->children[i];

		if (child->pid != 0) {
			await_end(child, now_ns + KILLED_NS);
			spawn_unlink(supervisor, child);
		}
		child->dead_pid = 0;
		child->quick_deaths = 0;
		child->start_ns = now_ns;
	}
}

void children_rebuild(struct supervisor *supervisor, int64_t now_ns) {
	if (!supervisor->has_no_state)
		log_event(EVENT_STATE, "deaths=%u within_ms=%lld text=\"workers keep dying "
		    "because of the state file; rebuilding it from its saved sessions and the "
		    "journal\"", supervisor->damage.deaths,
		    (long long)((now_ns - supervisor->damage.since_ns) / NS_PER_MS));
	end_all(supervisor, now_ns);
	/* its room is needed */
	if (supervisor->state_fd >= 0)
		close(supervisor->state_fd);
	supervisor->state_fd = -1;
	supervisor->alerts_from = 0;
	supervisor->has_no_state = prepare(supervisor, true) != 0;
	now_ns = clock_now_ns();
	if (!supervisor->has_no_state) {
		damage_mended(&supervisor->damage, now_ns);
		return;
	}
	damage_put_off(&supervisor->damage, now_ns);
	log_event(EVENT_STATE, "retry_in_ms=%lld text=\"cannot build the state file; no "
	    "service until this succeeds\"",
	    (long long)((supervisor->damage.from_ns - now_ns) / NS_PER_MS));
}
