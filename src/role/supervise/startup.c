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
#include "role/supervise/reload.h"
#include "role/confine/sandbox.h"
#include "role/supervise/state_directory.h"
#include "segment/onlooker.h"
#include "segment/file/segment.h"

static int startup_failed(const struct supervisor *supervisor, int code,
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

/* --- steps: 0, or an exit code with *diag ------------------------------------------- */

static int find_identity(struct supervisor *supervisor, struct diag *diag) {
	if (identity_find(&supervisor->identity, supervisor->generation, diag) != 0)
		return EX_NOUSER;
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

static int make_directory(struct supervisor *supervisor, struct diag *diag) {
	return state_directory_make(supervisor->generation, &supervisor->identity, diag) == 0 ? 0 :
	    EX_CANTCREAT;
}

static int lock_state(struct supervisor *supervisor, struct diag *diag) {
	const char *path = generation_text(supervisor->generation,
	    supervisor->generation->state_path);

	if (sockets_reader_group(supervisor->generation, &supervisor->identity,
		&supervisor->readers, diag) != 0)
		return EX_NOUSER;
	if (segment_lock(path, &supervisor->lock_fd, diag) != 0)
		return diag->error == 0 ? EX_TEMPFAIL : EX_CANTCREAT;
	supervisor->onlooker_fd = onlooker_make(diag);
	return supervisor->onlooker_fd >= 0 ? 0 : EX_OSERR;
}

/* What is missing here is told once, as each role would say the same. */
static int prepare_sandbox(struct supervisor *supervisor, struct diag *diag) {
	uint8_t wanted = supervisor->generation->sandbox;
	const char *lacks = sandbox_lacks_calls();

	if (wanted == SANDBOX_REQUIRED && lacks != NULL) {
		diag_set(diag, 0, "sandbox is required, but %s", lacks);
		return EX_UNAVAILABLE;
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
static int make_journal(struct supervisor *supervisor, struct diag *diag) {
	(void)diag;
	journal_places_turn(&supervisor->journal, supervisor->generation,
	    &supervisor->identity, true, clock_now_ns());
	return 0;
}

static int open_signals(struct supervisor *supervisor, struct diag *diag) {
	static const int numbers[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP };
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
	diag_set(diag, errno, "cannot wait for signals");
	return EX_OSERR;
}

/* An upgrade replaces the file while its roles still come and go: they stay of one program. */
static int open_program(struct supervisor *supervisor, struct diag *diag) {
	supervisor->exe_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	if (supervisor->exe_fd >= 0)
		return 0;
	diag_set(diag, errno, "cannot open /proc/self/exe (is /proc mounted?)");
	return EX_OSERR;
}

/* From where roles and the keeper get it. */
static int keep_generation(struct supervisor *supervisor, struct diag *diag) {
	struct generation *given = supervisor->generation;

	supervisor->generation_fd = generation_memory_make(given, diag);
	supervisor->generation = supervisor->generation_fd < 0 ? NULL :
	    generation_memory_map(supervisor->generation_fd, diag);
	generation_memory_unmap(given);
	return supervisor->generation != NULL ? 0 : EX_OSERR;
}

int startup(struct supervisor *supervisor,
    const struct config_messages *messages) {
	/* signals early: a stop that is asked for now must not be lost */
	static int (*const steps[])(struct supervisor *, struct diag *) = { keep_generation,
		open_signals, open_program, find_identity, make_directory, lock_state,
		prepare_sandbox, make_journal };
	struct diag diag;
	int code;

	open_log(supervisor);
	reload_log_messages(messages);
	confinement_find(supervisor->generation->confined,
	    sizeof(supervisor->generation->confined));
	confinement_note(supervisor->generation);
	umask(022);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if ((code = steps[i](supervisor, &diag)) != 0)
			return startup_failed(supervisor, code, &diag);
	if ((code = prepare(supervisor, false)) != 0)
		return code;
	/* from here on clients wait for an answer */
	if (sockets_open(&supervisor->sockets, supervisor->generation,
		&supervisor->identity, &diag) != 0)
		return startup_failed(supervisor, EX_UNAVAILABLE, &diag);
	children_plan(supervisor);
	return 0;
}
