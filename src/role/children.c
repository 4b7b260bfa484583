/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Keep every role running.
 * MODEL    A role that dies is started again at once; one that keeps dying
 *          within a second of its start waits 100 ms, then twice as long each
 *          time, a second at most, until it has lived for 10 s.  A role whose last
 *          heartbeat is 3 s old is killed, but time in which the supervisor
 *          itself was stopped or suspended does not count: the roles may have
 *          been stopped with it.
 * ERRORS   A fork that fails is tried again each second.
 * THREADS  One.
 */
#include "role/children.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "role/feed_role.h"
#include "role/spawn.h"
#include "segment/segment.h"

#define SILENCE_NS	(3 * NS_PER_SECOND)
#define QUICK_NS	NS_PER_SECOND
#define SETTLED_NS	(10 * NS_PER_SECOND)
#define DELAY_FIRST_NS	(100 * NS_PER_MS)
/* Sessions end unseen while the keeper is away: never for long. */
#define DELAY_LAST_NS	NS_PER_SECOND

_Static_assert(GENERATION_ROLES_MAX <= SEGMENT_ROLES_MAX,
    "the compiler refuses what has no place");

static void add_child(struct supervisor *supervisor, enum role_kind kind,
    const char *word, unsigned number, unsigned listener) {
	struct child *child = &supervisor->children[supervisor->child_count];

	MUST(supervisor->child_count < SEGMENT_ROLES_MAX);
	supervisor->child_count++;
	*child = (struct child){ .kind = kind, .number = number,
		.listener = listener };
	text_append(child->name, sizeof(child->name), 0, "%s.%u", word, number);
}

static bool is_planned(const struct supervisor *supervisor, uint32_t kind,
    uint32_t number) {
	unsigned i;

	for (i = 0; i < supervisor->child_count; i++)
		if ((uint32_t)supervisor->children[i].kind == kind &&
		    supervisor->children[i].number == number)
			return true;
	return false;
}

/* A configuration before this one may have had more roles. */
static void take_places(struct supervisor *supervisor) {
	struct role_record *roles = segment_header(supervisor->segment)->roles;
	unsigned i;

	for (i = 0; i < SEGMENT_ROLES_MAX; i++)
		if (!is_planned(supervisor, atomic_load(&roles[i].kind),
			atomic_load(&roles[i].number)))
			segment_role_forget(supervisor->segment, i);
	for (i = 0; i < supervisor->child_count; i++) {
		struct child *child = &supervisor->children[i];

		child->place = segment_role_place(supervisor->segment,
		    child->kind, child->number);
	}
}

void children_plan(struct supervisor *supervisor) {
	const struct generation *generation = supervisor->generation;
	unsigned i, milters = 0, policies = 0;
	bool metrics = false;

	supervisor->child_count = 0;
	add_child(supervisor, ROLE_KEEPER, "keeper", 0, 0);
	for (i = 0; i < generation->listener_count; i++) {
		uint8_t kind = generation->listeners[i].kind;

		if (supervisor->sockets.list[i].fd < 0)
			continue;	/* left out */
		if (kind == LISTENER_MILTER)
			add_child(supervisor, ROLE_MILTER, "milter", milters++, i);
		else if (kind == LISTENER_POLICY || kind == LISTENER_SOCKETMAP)
			policies = generation->policy_processes;
		metrics |= kind == LISTENER_METRICS;
	}
	for (i = 0; i < policies; i++)
		add_child(supervisor, ROLE_POLICY, "policy", i, 0);
	if (feed_role_needed(generation))
		add_child(supervisor, ROLE_FEED, "feed", 0, 0);
	if (generation_drives(generation))
		add_child(supervisor, ROLE_QUEUE, "queue", 0, 0);
	if (generation_has_cluster(generation))
		add_child(supervisor, ROLE_CLUSTER, "cluster", 0, 0);
	if (metrics)
		add_child(supervisor, ROLE_METRICS, "metrics", 0, 0);
	take_places(supervisor);
}

static void add_later(struct supervisor *supervisor, enum role_kind kind, const char *word,
    bool needed) {
	struct child *child = &supervisor->children[supervisor->child_count];

	if (!needed || is_planned(supervisor, kind, 0) ||
	    supervisor->child_count == SEGMENT_ROLES_MAX)
		return;
	add_child(supervisor, kind, word, 0, 0);
	child->place = segment_role_place(supervisor->segment, child->kind,
	    child->number);
}

void children_replan(struct supervisor *supervisor) {
	const struct generation *generation = supervisor->generation;

	add_later(supervisor, ROLE_FEED, "feed", feed_role_needed(generation));
	add_later(supervisor, ROLE_QUEUE, "queue", generation_drives(generation));
}

/* It ends by itself where a reload leaves it nothing to do, and comes back with one
 * that does. */
static bool is_idle(const struct supervisor *supervisor, const struct child *child) {
	return child->kind == ROLE_QUEUE && !generation_drives(supervisor->generation);
}

/* A role maps the published configuration when it starts; should its file be
 * gone or spoiled, it is published once more. */
static void heal_generation(struct supervisor *supervisor) {
	const struct generation *published;
	struct diag diag;

	if (segment_map_generation(supervisor->segment,
		supervisor->generation->number, &published, &diag) == 0) {
		segment_unmap_generation(published);
		return;
	}
	log_event(EVENT_SYSTEM, "text=\"published again: %s\"", diag.text);
	if (segment_publish(supervisor->segment, supervisor->generation, &diag) !=
	    0)
		log_event(EVENT_SYSTEM, "text=\"%s\"", diag.text);
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

void children_start(struct supervisor *supervisor, int64_t now_ns) {
	struct diag diag;
	unsigned i;

	for (i = 0; i < supervisor->child_count; i++) {
		struct child *child = &supervisor->children[i];

		if (child->pid != 0 || child->start_ns > now_ns ||
		    is_idle(supervisor, child))
			continue;
		child->killed = NULL;
		child->started_ns = now_ns;
		look_at_journal(supervisor, child->journal);
		heal_generation(supervisor);
		if (spawn_role(supervisor, child, &diag) == 0)
			continue;
		log_event(EVENT_SYSTEM, "role=%s text=\"cannot be started: %s\"",
		    child->name, diag.text);
		child->start_ns = now_ns + NS_PER_SECOND;
	}
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
 * read. */
static enum event_kind event_of(const struct child *child, int status) {
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return EVENT_ROLE_DIED;
	return child->kind == ROLE_FEED ? EVENT_FEED :
	    child->kind == ROLE_QUEUE ? EVENT_QUEUE :
	    child->kind == ROLE_CLUSTER ? EVENT_CLUSTER :
	    child->kind == ROLE_KEEPER ? EVENT_WITNESS : EVENT_ROLE_DIED;
}

/* The system call that its sandbox stopped it for; NULL: it died of something else. */
static const char *stopped_by(struct supervisor *supervisor, const struct child *child,
    int status) {
	const char *call = sandbox_stopped_by(supervisor->sandbox, child->place);

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
		return NULL;
	return call == NULL ? "unknown" : call;
}

static void bury(struct supervisor *supervisor, struct child *child, int status,
    int64_t now_ns) {
	int64_t life_ns = now_ns - child->started_ns;
	struct segment_header *header = segment_header(supervisor->segment);
	const char *call = stopped_by(supervisor, child, status);
	int64_t delay;

	segment_role_died(supervisor->segment, child->place, now_ns);
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
		alert_watch_died(supervisor, child, status, now_ns);
	child->pid = 0;
	child->start_ns = now_ns + delay;
	atomic_fetch_add(&header->counters[COUNTER_ROLE_RESTARTS], 1);
	spawn_unlink(supervisor, child);
}

void children_reap(struct supervisor *supervisor, int64_t now_ns) {
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		unsigned i;

		if (gate_command_bury(supervisor, pid, status) ||
		    alerts_bury(&supervisor->alerts, pid, status) ||
		    mta_commands_bury(supervisor, pid, status) ||
		    queue_link_bury(supervisor, pid, status))
			continue;
		for (i = 0; i < supervisor->child_count; i++)
			if (supervisor->children[i].pid == pid)
				bury(supervisor, &supervisor->children[i],
				    status, now_ns);
	}
}

/* A role can write anything into its heartbeat: a time to come is none. */
static int64_t last_sign_ns(const struct supervisor *supervisor,
    const struct child *child, int64_t now_ns) {
	struct role_record *role =
	    &segment_header(supervisor->segment)->roles[child->place];
	int64_t beat_ns = atomic_load(&role->heartbeat_ns);

	if (beat_ns > now_ns + NS_PER_SECOND || beat_ns < child->started_ns)
		return child->started_ns;
	return beat_ns;
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
		silent_ns = now_ns - last_sign_ns(supervisor, child, now_ns);
		if (silent_ns < SILENCE_NS || awake_ns < SILENCE_NS)
			continue;
		log_event(EVENT_ROLE_HUNG, "name=%s pid=%ld silent_ms=%lld",
		    child->name, (long)child->pid,
		    (long long)(silent_ns / NS_PER_MS));
		end_child(child, "it gave no sign of life");
	}
}

static bool has_journal(const struct child *child) {
	return child->kind == ROLE_KEEPER || child->kind == ROLE_FEED ||
	    child->kind == ROLE_QUEUE;
}

void children_check_journal(struct supervisor *supervisor) {
	struct segment_header *header = segment_header(supervisor->segment);
	uint64_t there[2];

	look_at_journal(supervisor, there);
	for (unsigned i = 0; there[1] != 0 && i < supervisor->child_count; i++) {
		struct child *child = &supervisor->children[i];

		if (child->pid == 0 || child->killed != NULL || !has_journal(child) ||
		    (atomic_load(&header->roles[child->place].sandbox) &
			ROLE_SANDBOX_FILES) == 0 ||
		    memcmp(there, child->journal, sizeof(there)) == 0)
			continue;
		log_event(EVENT_JOURNAL, "name=%s pid=%ld text=\"the directory of journal.path "
		    "is another one: its role is started again\"", child->name,
		    (long)child->pid);
		end_child(child, "it had the directory of journal.path that was there before");
	}
}

bool children_ready(const struct supervisor *supervisor) {
	unsigned i;

	for (i = 0; i < supervisor->child_count; i++) {
		const struct child *child = &supervisor->children[i];
		int64_t now_ns = clock_now_ns();

		if (child->pid == 0 || last_sign_ns(supervisor, child, now_ns) <=
		    child->started_ns)
			return false;
	}
	return true;
}

int64_t children_next_ns(const struct supervisor *supervisor) {
	int64_t next_ns = INT64_MAX;
	unsigned i;

	for (i = 0; i < supervisor->child_count; i++) {
		const struct child *child = &supervisor->children[i];

		if (child->pid == 0 && child->start_ns < next_ns &&
		    !is_idle(supervisor, child))
			next_ns = child->start_ns;
	}
	return next_ns;
}

void children_end(struct supervisor *supervisor) {
	unsigned i;

	for (i = 0; i < supervisor->child_count; i++)
		if (supervisor->children[i].pid != 0)
			(void)kill(supervisor->children[i].pid, SIGKILL);
	for (i = 0; i < supervisor->child_count; i++) {
		struct child *child = &supervisor->children[i];

		if (child->pid == 0)
			continue;
		while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
			;
		segment_role_died(supervisor->segment, child->place,
		    clock_now_ns());
		child->pid = 0;
	}
}
