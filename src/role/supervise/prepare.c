/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  See prepare.h.
 * MODEL    One process makes the segment, reports, and where it was newly built reads the
 *          journal, which may take long or fail without harm.
 * ERRORS   A process that is killed, or reports what is no report, is started again, a few
 *          times, the last time without the text file that roles wrote; what it left is what
 *          a crash leaves.  Without the journal it is served all the same.
 * THREADS  One.
 */
#include "role/supervise/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sd_notify.h"
#include "role/run/prepare_begin.h"
#include "role/supervise/spawn.h"
#include "segment/file/segment.h"

#define PREPARE_WAIT_NS	(30 * NS_PER_SECOND)
#define RESTORE_WAIT_NS	(40 * NS_PER_SECOND)	/* it takes half of that by itself */
#define LOOK_NS		(NS_PER_MS / 2)
#define STOP_LOOK_MS	50		/* whether we are to stop */
#define TRIES		3

static bool prepare_stop_is_wanted(void) {
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	    (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT));
}

/* What the process has reported, and what became of it. */
struct preparation {
	int fd;			/* where it reports */
	struct prepare_result result;
	bool reported;
	int status;		/* -1: it took too long, or we are to stop */
};

/* True: it is over. */
static bool prepare_look(struct preparation *work, pid_t child, int64_t *end_ns) {
	struct pollfd report = { .fd = work->fd, .events = POLLIN };
	pid_t ended;

	(void)poll(&report, 1, STOP_LOOK_MS);
	if ((report.revents & POLLIN) != 0 && !work->reported) {
		work->reported = read(work->fd, &work->result, sizeof(work->result)) ==
		    (ssize_t)sizeof(work->result);
		/* piece by piece it could hold us for ever */
		*end_ns = work->reported ? clock_now_ns() + RESTORE_WAIT_NS : 0;
		return false;
	}
	if (report.revents == 0)
		return false;
	/* its end is closed: it has ended, or is about to */
	ended = waitpid(child, &work->status, WNOHANG);
	if (ended < 0 && errno != EINTR)
		work->status = -1;
	if (ended == 0)
		clock_pause(LOOK_NS);
	return ended != 0;
}

static void wait_for(struct preparation *work, pid_t child) {
	int64_t now_ns = clock_now_ns(), end_ns = now_ns + PREPARE_WAIT_NS, said_ns = now_ns;

	for (; now_ns < end_ns && !prepare_stop_is_wanted(); now_ns = clock_now_ns()) {
		if (prepare_look(work, child, &end_ns))
			return;
		if (now_ns - said_ns > NS_PER_SECOND) {
			sd_notify_send("WATCHDOG=1");
			said_ns = now_ns;
		}
	}
	(void)kill(child, SIGKILL);
	if (!process_await(child, clock_now_ns() + NS_PER_SECOND))
		log_event(EVENT_SYSTEM, "pid=%ld text=\"killed, but the process does not end\"",
		    (long)child);
	work->status = -1;
}

/* False: no process could be made. */
static bool preparation_run(struct supervisor *supervisor, bool damaged, bool without_text,
    struct preparation *work) {
	struct diag diag;
	pid_t child;
	int fds[2];

	*work = (struct preparation){ .status = -1 };
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	work->fd = fds[0];
	child = spawn_helper(supervisor, damaged, without_text, fds[1], &diag);
	close(fds[1]);
	if (child > 0)
		wait_for(work, child);
	else
		log_event(EVENT_SYSTEM, "text=\"%s\"", diag.text);
	close(fds[0]);
	return true;
}

/* False: it did not say. */
static bool take_result(struct supervisor *supervisor, const struct preparation *work) {
	if (!work->reported)
		return false;
	/* which number an adopted state had before is known there alone: it may be as high as
	 * may be, as there is room for ours above it */
	if (supervisor->last_number == 0 && work->result.generation > 0 &&
	    work->result.generation <= SEGMENT_GENERATION_MAX)
		supervisor->last_number = work->result.generation;
	if (work->result.generation != supervisor->last_number)
		return false;
	supervisor->generation->number = supervisor->last_number;
	return true;
}

/* It made the segment: then what it did not read of the journal is no reason not to start. */
static void tell_unread(const struct preparation *work) {
	if (work->status == -1)
		log_event(EVENT_JOURNAL_FAILED,
		    "text=\"cannot restore learned state: timeout\"");
	else if (WIFSIGNALED(work->status))
		log_event(EVENT_JOURNAL_FAILED,
		    "text=\"cannot restore learned state: signal %d\"",
		    WTERMSIG(work->status));
	else if (work->status != 0)
		log_event(EVENT_JOURNAL_FAILED, "text=\"learned state was restored in part; "
		    "the rest stays in its files\"");
}

static int make_segment(struct supervisor *supervisor, bool damaged) {
	int code = EX_SOFTWARE;

	for (int i = 0; i < TRIES && !prepare_stop_is_wanted(); i++) {
		struct preparation work;

		if (supervisor->last_number != 0)
			supervisor->last_number++;
		/* it may be one of them that it dies of */
		if (!preparation_run(supervisor, damaged, i == TRIES - 1, &work))
			return EX_OSERR;
		if (take_result(supervisor, &work)) {
			tell_unread(&work);
			return 0;
		}
		if (work.status > 0 && WIFEXITED(work.status))
			return WEXITSTATUS(work.status);
		log_event(EVENT_SYSTEM, "text=\"cannot prepare the state: %s %d\"",
		    work.status > 0 ? "signal" : "timeout",
		    work.status > 0 ? WTERMSIG(work.status) : 0);
	}
	return code;
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
	int code = make_segment(supervisor, damaged);

	return code == 0 ? keep_segment(supervisor) : code;
}
