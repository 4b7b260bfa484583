/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Bring up everything that the roles will find when they are started.
 * MODEL    One step after the other, each with its own exit code.  The lock comes
 *          before the segment and the sockets, so that a second daemon on the
 *          same state touches nothing.
 * ERRORS   Any failure stops the start; what was taken ends with the process.
 * THREADS  One.
 */
#include "role/supervise/startup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "role/supervise/children.h"
#include "role/confine/confinement.h"
#include "role/link/generation_memory.h"
#include "role/supervise/prepare.h"
#include "role/confine/sandbox.h"
#include "role/supervise/state_directory.h"
#include "segment/onlooker.h"
#include "segment/file/segment.h"

static int failed(const struct supervisor *supervisor, int code,
    const struct diag *diag) {
	char text[sizeof(diag->text)];

	log_event(EVENT_SYSTEM, "text=\"cannot start: %s\"",
	    log_sentence(text, sizeof(text), diag->text));
	if (supervisor->ready_fd >= 0)
		fprintf(stderr, "posternd: %s\n", diag->text);
	return code;
}

static void open_log(struct supervisor *supervisor) {
	supervisor->log_target = supervisor->ready_fd < 0 ? LOG_TO_STDERR : LOG_TO_SYSLOG;
	/* roles open it once more: where a file is not appended to, lines lie over theirs */
	(void)fcntl(STDERR_FILENO, F_SETFL, fcntl(STDERR_FILENO, F_GETFL) | O_APPEND);
	log_open(supervisor->log_target, "posternd", generation_log_facility(supervisor->generation));
}

static int find_identity(struct supervisor *supervisor) {
	struct diag diag;

	if (identity_find(&supervisor->identity, supervisor->generation, &diag) != 0)
		return failed(supervisor, EX_NOUSER, &diag);
	if (!supervisor->identity.drop)
		log_event(EVENT_CONFIG_NOTE,
		    "text=\"not started as root: the workers run as uid %u, setting user is "
		    "not used\"",
		    supervisor->identity.uid);
	if (supervisor->identity.stand_in)
		log_event(EVENT_CONFIG_NOTE,
		    "text=\"there is no user %s: the workers run as %s (create the user, or "
		    "set user)\"",
		    generation_text(supervisor->generation,
			supervisor->generation->user),
		    supervisor->identity.user);
	return 0;
}

static int make_directory(const struct supervisor *supervisor) {
	struct diag diag;

	return state_directory_make(supervisor->generation, &supervisor->identity, &diag) == 0 ? 0 :
	    failed(supervisor, EX_CANTCREAT, &diag);
}

static int lock_state(struct supervisor *supervisor) {
	const char *path = generation_text(supervisor->generation,
	    supervisor->generation->state_path);
	struct diag diag;

	if (sockets_reader_group(supervisor->generation, &supervisor->identity,
		&supervisor->readers, &diag) != 0)
		return failed(supervisor, EX_NOUSER, &diag);
	if (segment_lock(path, &supervisor->lock_fd, &diag) != 0)
		return failed(supervisor, diag.error == 0 ? EX_TEMPFAIL :
			EX_CANTCREAT, &diag);
	supervisor->onlooker_fd = onlooker_make(&diag);
	return supervisor->onlooker_fd >= 0 ? 0 : failed(supervisor, EX_OSERR, &diag);
}

/* What is missing here is told once, as each role would say the same. */
static int prepare_sandbox(struct supervisor *supervisor) {
	uint8_t wanted = supervisor->generation->sandbox;
	const char *lacks = sandbox_lacks_calls();
	struct diag diag;

	if (wanted == SANDBOX_REQUIRED && lacks != NULL) {
		diag_set(&diag, 0, "sandbox is required, but %s", lacks);
		return failed(supervisor, EX_UNAVAILABLE, &diag);
	}
	if (wanted != SANDBOX_OFF && lacks != NULL)
		log_event(EVENT_CONFIG_NOTE,
		    "text=\"the system calls of workers are not restricted: %s\"", lacks);
	if (wanted == SANDBOX_ON && sandbox_lacks_files() != NULL)
		log_event(EVENT_CONFIG_NOTE, "text=\"only file permissions restrict the files "
		    "that workers can open: %s\"", sandbox_lacks_files());
	return 0;
}

/* A disk that is full or read-only is no reason not to start. */
static void make_journal(struct supervisor *supervisor) {
	journal_places_turn(&supervisor->journal, supervisor->generation,
	    &supervisor->identity, true, clock_now_ns());
}

static int open_signals(struct supervisor *supervisor) {
	static const int numbers[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP };
	struct diag diag;
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		/* an ignored SIGCHLD (inherited) would hide the dead */
		(void)signal(numbers[i], SIG_DFL);
		sigaddset(&set, numbers[i]);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_SETMASK, &set, NULL) == 0)
		supervisor->signal_fd = signalfd(-1, &set,
		    SFD_NONBLOCK | SFD_CLOEXEC);
	if (supervisor->signal_fd >= 0)
		return 0;
	diag_set(&diag, errno, "cannot wait for signals");
	return failed(supervisor, EX_OSERR, &diag);
}

/* An upgrade replaces the file while its roles still come and go: they stay of one program. */
static int open_program(struct supervisor *supervisor) {
	struct diag diag;

	supervisor->exe_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	if (supervisor->exe_fd >= 0)
		return 0;
	diag_set(&diag, errno, "cannot open /proc/self/exe (is /proc mounted?)");
	return failed(supervisor, EX_OSERR, &diag);
}

/* From where roles and the keeper get it. */
static int keep_generation(struct supervisor *supervisor) {
	struct generation *given = supervisor->generation;
	struct diag diag;

	supervisor->generation_fd = generation_memory_make(given, &diag);
	supervisor->generation = supervisor->generation_fd < 0 ? NULL :
	    generation_memory_map(supervisor->generation_fd, &diag);
	generation_memory_unmap(given);
	return supervisor->generation != NULL ? 0 : failed(supervisor, EX_OSERR, &diag);
}

int startup(struct supervisor *supervisor,
    const struct config_messages *messages) {
	struct diag diag;
	int code;

	open_log(supervisor);
	supervisor_log_messages(messages);
	confinement_find(supervisor->generation->confined,
	    sizeof(supervisor->generation->confined));
	confinement_note(supervisor->generation);
	umask(022);
	if ((code = keep_generation(supervisor)) != 0)
		return code;
	/* signals first: a stop that is asked for now must not be lost */
	if ((code = open_signals(supervisor)) != 0 ||
	    (code = open_program(supervisor)) != 0 ||
	    (code = find_identity(supervisor)) != 0 ||
	    (code = make_directory(supervisor)) != 0 ||
	    (code = lock_state(supervisor)) != 0 ||
	    (code = prepare_sandbox(supervisor)) != 0)
		return code;
	make_journal(supervisor);
	if ((code = prepare(supervisor, false)) != 0)
		return code;
	/* from here on clients wait for an answer */
	if (sockets_open(&supervisor->sockets, supervisor->generation,
		&supervisor->identity, &diag) != 0)
		return failed(supervisor, EX_UNAVAILABLE, &diag);
	children_plan(supervisor);
	return 0;
}
