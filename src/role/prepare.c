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
#include <signal.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sd_notify.h"
#include "role/prepare_begin.h"
#include "role/spawn.h"
#include "segment/segment.h"

#define PREPARE_WAIT_NS	(30 * NS_PER_SECOND)
#define RESTORE_WAIT_NS	(40 * NS_PER_SECOND)	/* it takes half of that by itself */
#define LOOK_NS		(NS_PER_MS / 2)
#define TRIES		3

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
	if (!process_await(child, clock_now_ns() + NS_PER_SECOND))
		log_event(EVENT_SYSTEM, "pid=%ld text=\"it was killed, and does not end\"",
		    (long)child);
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
