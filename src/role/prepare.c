/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  See prepare.h.
 * MODEL    One process makes the segment and ends; where it was newly built, another reads
 *          the journal, which may take long or fail without harm.
 * ERRORS   A process that is killed is started again, a few times; what it left is what a
 *          crash leaves.  Without the journal it is served all the same.
 * THREADS  One in each.
 */
#include "role/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sd_notify.h"
#include "engine/engine.h"
#include "engine/journal_restore.h"
#include "front/journal_news.h"
#include "role/generation_memory.h"
#include "role/sandbox.h"
#include "role/spawn.h"
#include "segment/segment.h"

#define PREPARE_WAIT_NS	(30 * NS_PER_SECOND)
#define RESTORE_WAIT_NS	(40 * NS_PER_SECOND)	/* it takes half of that by itself */
#define LOOK_NS		(NS_PER_MS / 2)
#define TRIES		3

struct prepare_result {
	uint64_t generation;
	uint64_t is_unlearned;
};

/* --- in the processes ------------------------------------------------------------------- */

static int failed(const struct handover *handover, int code, const struct diag *diag) {
	char text[sizeof(diag->text)];

	log_event(EVENT_SYSTEM, "text=\"cannot start: %s\"",
	    log_sentence(text, sizeof(text), diag->text));
	if (handover->has_terminal)
		fprintf(stderr, "posternd: %s\n", diag->text);
	return code;
}

static void log_segment(const struct segment_report *report, const char *path) {
	static const char *const origins[] = {
		[SEGMENT_MADE] = "made", [SEGMENT_ADOPTED] = "adopted",
		[SEGMENT_REBUILT] = "rebuilt" };
	char quoted[PATH_MAX];

	log_quote(quoted, sizeof(quoted), path, strlen(path));
	log_event(EVENT_STATE, "path=%s origin=%s sessions=%" PRIu64 "%s%s%s", quoted,
	    origins[report->origin], report->sessions,
	    report->reason[0] == '\0' ? "" : " reason=\"", report->reason,
	    report->reason[0] == '\0' ? "" : "\"");
	if (report->not_tmpfs)
		log_event(EVENT_CONFIG_NOTE, "text=\"state.path is not on a tmpfs; disk writes "
		    "may slow down decisions\" path=%s", quoted);
}

static int prepare_segment(const struct handover *handover, struct generation *generation) {
	struct prepare_result result = { 0 };
	struct segment_report report;
	struct segment *segment;
	struct diag diag;

	if (segment_prepare(&segment, generation, geteuid(), handover->readers,
		handover->supervisor_pid, handover->damaged, &report, &diag) != 0) {
		if (diag.error == EACCES)
			diag_set(&diag, 0, "the roles, which run as uid %u, cannot reach the "
			    "directory of %s, or write there", geteuid(), handover->state_path);
		return failed(handover, EX_CANTCREAT, &diag);
	}
	log_segment(&report, handover->state_path);
	if (generation_text(generation, generation->journal.path)[0] == '\0' &&
	    segment_is_unlearned(segment))
		segment_has_learned(segment, true);
	generation->number = handover->context.generation_number;
	if (segment_publish(segment, generation, &diag) != 0)
		return failed(handover, EX_CANTCREAT, &diag);
	result.generation = generation->number;
	result.is_unlearned = segment_is_unlearned(segment);
	return write(handover->result_fd, &result, sizeof(result)) ==
	    (ssize_t)sizeof(result) ? EX_OK : EX_OSERR;
}

static int restore_journal(const struct handover *handover) {
	const struct generation *generation;
	struct engine *engine;
	struct segment *segment;
	struct diag diag;
	bool all;
	int fd = segment_open_file(handover->state_path, geteuid(), &diag);

	if (fd < 0 || segment_attach(&segment, fd, handover->state_path, &diag) != 0 ||
	    engine_open(&engine, segment, segment_role_place(ROLE_KEEPER, 0), &diag) != 0) {
		log_event(EVENT_SYSTEM, "text=\"%s\"", diag.text);
		return EX_OSERR;
	}
	generation = engine_pin(engine);
	all = engine_journal_restore(engine, generation, &journal_news_log, clock_now_ns(),
	    clock_wall_ns());
	segment_has_learned(segment, all);
	return all ? EX_OK : EX_TEMPFAIL;
}

int prepare_begin(const struct handover *handover) {
	struct generation *generation;
	struct diag diag;
	uint32_t what;

	generation = generation_memory_read(handover->context.generation_fd, &diag);
	if (generation == NULL)
		return failed(handover, EX_OSERR, &diag);
	tzset();
	if (sandbox_enter(generation, ROLE_KEEPER, handover->context.lifeline_fd, &what,
		&diag) != 0)
		return failed(handover, EX_NOPERM, &diag);
	return handover->duty == HANDOVER_PREPARE ? prepare_segment(handover, generation) :
	    restore_journal(handover);
}

/* --- in the supervisor -------------------------------------------------------------------- */

bool prepare_stop_is_wanted(void) {
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	    (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT));
}

/* Its status; -1: it took too long, or we are to stop. */
static int wait_for(pid_t child, int64_t most_ns) {
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	int64_t now_ns = clock_now_ns(), end_ns = now_ns + most_ns, said_ns = now_ns;
	int status;

	for (; now_ns < end_ns && !prepare_stop_is_wanted(); now_ns = clock_now_ns()) {
		pid_t ended = waitpid(child, &status, WNOHANG);

		if (ended == child)
			return status;
		if (ended < 0 && errno != EINTR)
			return -1;
		if (now_ns - said_ns > NS_PER_SECOND) {
			sd_notify_send("WATCHDOG=1");
			said_ns = now_ns;
		}
		(void)nanosleep(&pause, NULL);
	}
	(void)kill(child, SIGKILL);
	(void)waitpid(child, &status, 0);
	return -1;
}

/* Its status, or -1. */
static int run(struct supervisor *supervisor, enum handover_duty duty, bool damaged,
    int result_fd, int64_t most_ns) {
	struct diag diag;
	pid_t child = spawn_helper(supervisor, duty, damaged, result_fd, &diag);

	if (child > 0)
		return wait_for(child, most_ns);
	log_event(EVENT_SYSTEM, "text=\"%s\"", diag.text);
	return -1;
}

/* False: it did not say. */
static bool read_result(struct supervisor *supervisor, int fd, bool *is_unlearned) {
	struct prepare_result result;

	if (read(fd, &result, sizeof(result)) != (ssize_t)sizeof(result) ||
	    result.generation == 0 || result.generation > SEGMENT_GENERATION_MAX)
		return false;
	/* which number an adopted state had before is known there alone */
	if (supervisor->last_number == 0)
		supervisor->last_number = result.generation;
	supervisor->generation->number = supervisor->last_number;
	*is_unlearned = result.is_unlearned != 0;
	return true;
}

static int make_segment(struct supervisor *supervisor, bool damaged, bool *is_unlearned) {
	int code = EX_SOFTWARE;

	for (int i = 0; i < TRIES && !prepare_stop_is_wanted(); i++) {
		int fds[2], status;
		bool done;

		if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
			return EX_OSERR;
		if (supervisor->last_number != 0)
			supervisor->last_number++;
		status = run(supervisor, HANDOVER_PREPARE, damaged, fds[1],
		    PREPARE_WAIT_NS);
		close(fds[1]);
		done = status == 0 && read_result(supervisor, fds[0], is_unlearned);
		close(fds[0]);
		if (done)
			return 0;
		if (status > 0 && WIFEXITED(status))
			return WEXITSTATUS(status);
		log_event(EVENT_SYSTEM, "text=\"the state could not be prepared: %s %d\"",
		    status > 0 ? "signal" : "no end within its time",
		    status > 0 ? WTERMSIG(status) : 0);
	}
	return code;
}

static void restore(struct supervisor *supervisor) {
	int status = run(supervisor, HANDOVER_RESTORE, false, -1, RESTORE_WAIT_NS);

	if (status == -1)
		log_event(EVENT_JOURNAL_FAILED,
		    "text=\"what was learned could not be read: it took too long\"");
	else if (WIFSIGNALED(status))
		log_event(EVENT_JOURNAL_FAILED,
		    "text=\"what was learned could not be read: signal %d\"", WTERMSIG(status));
	else if (status != 0)
		log_event(EVENT_JOURNAL_FAILED, "text=\"not all that was learned could be read: "
		    "what was not stays in its files\"");
}

/* It is not mapped here: roles get it, whoever has removed its name meanwhile. */
static int keep_segment(struct supervisor *supervisor) {
	const struct generation *generation = supervisor->generation;
	struct diag diag;

	if (supervisor->state_fd >= 0)
		close(supervisor->state_fd);
	supervisor->state_fd = segment_open_file(generation_text(generation,
	    generation->state_path), supervisor->identity.uid, &diag);
	if (supervisor->state_fd >= 0)
		return 0;
	log_event(EVENT_SYSTEM, "text=\"%s\"", diag.text);
	return EX_CANTCREAT;
}

int prepare(struct supervisor *supervisor, bool damaged) {
	bool is_unlearned = false;
	int code = make_segment(supervisor, damaged, &is_unlearned);

	if (code == 0)
		code = keep_segment(supervisor);
	if (code == 0 && is_unlearned)
		restore(supervisor);
	return code;
}
