/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Have the journal read into a new segment.
 * MODEL    Forked like a role, and ended like one: what it changed in the segment before
 *          it died is repaired by whoever locks next.
 * ERRORS   Logged; nothing stops the start.
 * THREADS  One.
 */
#include "role/journal_restore.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/journal_restore.h"
#include "front/journal_news.h"
#include "role/sandbox.h"
#include "role/spawn.h"
#include "segment/segment.h"

#define WAIT_NS		(40 * NS_PER_SECOND)	/* it takes half of that by itself */
#define LOOK_NS		(2 * NS_PER_MS)

static int restore(struct supervisor *supervisor) {
	unsigned place = segment_role_place(supervisor->segment, ROLE_KEEPER, 0);
	const struct generation *generation;
	struct engine *engine;
	struct diag diag;
	uint32_t what;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return EX_OSERR;
	log_set_role("restore");
	if (privileges_drop(&supervisor->identity, &diag) != 0) {
		log_event(EVENT_SYSTEM, "text=\"cannot drop privileges: %s\"", diag.text);
		return EX_NOPERM;
	}
	/* the change of user has cleared it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != supervisor->pid)
		return EX_TEMPFAIL;
	spawn_reset_signals();
	if (sandbox_enter(supervisor->generation, ROLE_KEEPER, supervisor->sandbox, place,
		&what, &diag) != 0) {
		log_event(EVENT_SYSTEM, "text=\"cannot enter its sandbox: %s\"", diag.text);
		return EX_NOPERM;
	}
	if (engine_open(&engine, supervisor->segment, place, &diag) != 0) {
		log_event(EVENT_SYSTEM, "text=\"%s\"", diag.text);
		return EX_OSERR;
	}
	generation = engine_pin(engine);
	return engine_journal_restore(engine, generation, &journal_news_log, clock_now_ns(),
	    clock_wall_ns()) ? EX_OK : EX_TEMPFAIL;
}

static bool stop_is_wanted(void) {
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	    (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT));
}

/* 0, a signal or a code; -1: it took too long. */
static int wait_for(pid_t child) {
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	int64_t end_ns = clock_now_ns() + WAIT_NS;
	int status;

	while (clock_now_ns() < end_ns && !stop_is_wanted()) {
		pid_t ended = waitpid(child, &status, WNOHANG);

		if (ended == child)
			return status;
		if (ended < 0 && errno != EINTR)
			return -1;
		(void)nanosleep(&pause, NULL);
	}
	(void)kill(child, SIGKILL);
	(void)waitpid(child, &status, 0);
	return -1;
}

static void tell(int status) {
	if (status == -1)
		log_event(EVENT_JOURNAL_FAILED,
		    "text=\"what was learned could not be read: it took too long\"");
	else if (WIFSIGNALED(status))
		log_event(EVENT_JOURNAL_FAILED,
		    "text=\"what was learned could not be read: signal %d\"", WTERMSIG(status));
	else
		log_event(EVENT_JOURNAL_FAILED, "text=\"not all that was learned could be read: "
		    "what was not stays in its files\"");
}

void journal_restore(struct supervisor *supervisor) {
	const struct generation *generation = supervisor->generation;
	int status = 0;
	pid_t child;

	if (!segment_is_unlearned(supervisor->segment))
		return;
	if (generation_text(generation, generation->journal.path)[0] != '\0') {
		child = fork();
		if (child == 0)
			_exit(restore(supervisor));
		status = child < 0 ? -1 : wait_for(child);
		if (status != 0)
			tell(status);
	}
	segment_has_learned(supervisor->segment, status == 0);
}
