/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Run sendmail.
 * MODEL    The child leads a session of its own, and does not die with us.  Whether it
 *          could be executed is told by a pipe that closes when it was; what it says goes
 *          to a file in memory, of which the first line is logged if it fails.
 *          Where its directory's disk is full nothing is started.
 * ERRORS   A process table that is full, or a program that cannot be executed, is logged
 *          once until a start succeeds; the engine tries later and later.
 * THREADS  The supervisor's.
 */
#include "role/queue/queue_runs.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"

#define TERM_NS		(60 * NS_PER_SECOND)	/* from SIGTERM to SIGKILL */
#define SAID_SHOWN	400
#define SAID_MOST	65536
#define SAID_READ	4096
#define ROOM_LEAST	(1 << 20)	/* bytes that are free */
#define ROOM_TIMES	4		/* or so often the largest file of the run */
#define OPTIONS_MAX	20
#define OPTION_SIZE	64
#define FILES		1024

/* What a run must not have from the site: children that outlive it, a queue that is cut
 * off, a host for one process alone.  Its QueueLA stays: where the load is above it nothing is
 * delivered, and the engine tries later and later. */
static const char *const options[] = {
	"-qf", "-OForkEachJob=False", "-OMaxQueueRunSize=0", "-OSingleThreadDelivery=False",
	"-OQueueSortOrder=filename", "-OConnectionCacheSize=1",
};
/* Of a run with more than one destination: one that hangs stops the others. */
static const char *const brief_options[] = {
	"-OTimeout.connect=10s", "-OTimeout.iconnect=10s", "-OTimeout.initial=20s",
	"-OTimeout.helo=20s",
};
#define COUNT(list)	(sizeof(list) / sizeof((list)[0]))

struct words {
	char *list[OPTIONS_MAX + QUEUE_ORDER_IDS_MAX];
	char ids[QUEUE_ORDER_IDS_MAX][SENDMAIL_QUEUE_ID_MAX + 4];
	char directory[4096 + 32];
	char checkpoint[40];
};

/* execve takes what it will not change. */
static char *word(const char *text) {
	return (char *)(uintptr_t)text;
}

static void make_words(struct words *words, const char *program, const char *cf,
    const struct queue_place *place, const struct queue_order *order) {
	size_t count = 0;

	words->list[count++] = word(program);
	words->list[count++] = word("-C");
	words->list[count++] = word(cf);
	for (size_t i = 0; i < COUNT(options); i++)
		words->list[count++] = word(options[i]);
	for (size_t i = 0; order->brief && i < COUNT(brief_options); i++)
		words->list[count++] = word(brief_options[i]);
	/* Sendmail wants the directories of all of its queue groups below the directory of this;
	 * with a * that is the one above, and the group mqueue has this directory alone. */
	text_append(words->directory, sizeof(words->directory), 0, "-OQueueDirectory=%s%s",
	    place->path, place->has_namesake ? "" : "*");
	words->list[count++] = words->directory;
	if (!place->has_namesake)
		words->list[count++] = word("-qGmqueue");
	text_append(words->checkpoint, sizeof(words->checkpoint), 0,
	    "-OCheckpointInterval=%u", order->checkpoint);
	words->list[count++] = words->checkpoint;
	for (unsigned i = 0; i < order->ids.count; i++) {
		text_append(words->ids[i], sizeof(words->ids[i]), 0, "-qI%s",
		    order->ids.list[i]);
		words->list[count++] = words->ids[i];
	}
	words->list[count] = NULL;
}

void queue_runs_forget(struct queue_runs *runs) {
	runs->known = false;
}

/* Names are looked up once: a directory service that hangs must not hold up each run. */
static void take_generation(struct queue_runs *runs, const struct generation *generation) {
	/* not by the number, which a keeper can have raised each second */
	if (runs->known)
		return;
	runs->known = true;
	runs->generation = generation->number;
	memset(runs->programs, 0, sizeof(runs->programs));
	for (uint32_t i = 0; i < generation->mta_count; i++) {
		const struct generation_mta *mta = &generation->mtas[i];
		struct queue_user *user = &runs->programs[i].user;
		const struct passwd *entry = mta->drive == 0 ? NULL :
		    getpwnam(generation_text(generation, mta->user));

		if (entry == NULL || !text_copy(user->name, sizeof(user->name), entry->pw_name,
		    strlen(entry->pw_name)))
			continue;
		user->uid = entry->pw_uid;
		user->gid = entry->pw_gid;
	}
}

/* --- in the new process ----------------------------------------------------------- */

static bool become(const struct queue_user *who) {
	if (geteuid() == who->uid && who->uid != 0)
		return true;
	return initgroups(who->name, who->gid) == 0 &&
	    setresgid(who->gid, who->gid, who->gid) == 0 &&
	    setresuid(who->uid, who->uid, who->uid) == 0;
}

static bool leave_parent(int error_fd, int output_fd) {
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (setsid() < 0 || null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(output_fd >= 0 ? output_fd : null_fd, STDOUT_FILENO) < 0 ||
	    dup2(STDOUT_FILENO, STDERR_FILENO) < 0 ||
	    (error_fd != STDERR_FILENO + 1 && dup3(error_fd, STDERR_FILENO + 1, O_CLOEXEC) < 0) ||
	    chdir("/") != 0)
		return false;
	/* all are close-on-exec; should one not be, it stays here */
#ifdef SYS_close_range
	(void)syscall(SYS_close_range, (unsigned)STDERR_FILENO + 2, ~0U, 0U);
#endif
	umask(022);
	return true;
}

static void execute(const struct words *words, const struct queue_user *who, int error_fd,
    int output_fd) __attribute__((noreturn));

/* Ours is high, and Sendmail closes all that it may have: as any service has it. */
static void lower_files(void) {
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur <= FILES)
		return;
	files.rlim_cur = FILES;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

static void execute(const struct words *words, const struct queue_user *who, int error_fd,
    int output_fd) {
	char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", locale[] = "LC_ALL=C";
	char *environment[] = { path, locale, NULL };
	int error = 0;

	if (!leave_parent(error_fd, output_fd)) {
		error = errno;
	} else {
		error_fd = STDERR_FILENO + 1;
		if (!become(who))
			error = errno;
	}
	if (error == 0) {
		process_reset_signals();
		lower_files();
		(void)signal(SIGPIPE, SIG_DFL);
		execve(words->list[0], words->list, environment);
		error = errno;
	}
	(void)!write(error_fd, &error, sizeof(error));
	_exit(EX_OSERR);
}

/* --- in ours ---------------------------------------------------------------------- */

static unsigned count_of(const struct queue_runs *runs, const char *mta) {
	const struct queue_run_process *run;
	unsigned count = 0;

	LIST_FOREACH(run, &runs->list, next)
		count += strcmp(run->mta, mta) == 0;
	return count;
}

static void free_run(struct queue_run_process *run) {
	if (run->error_fd >= 0)
		close(run->error_fd);
	if (run->output_fd >= 0)
		close(run->output_fd);
	free(run->mta);
	free(run->path);
	free(run);
}

static struct queue_run_process *make_run(const char *mta, const char *path,
    const struct queue_order *order) {
	struct queue_run_process *run = calloc(1, sizeof(*run));

	if (run == NULL)
		return NULL;
	run->error_fd = run->output_fd = -1;
	run->mta = strdup(mta);
	run->path = strdup(path);
	run->ids = order->ids;
	if (run->mta != NULL && run->path != NULL)
		return run;
	free_run(run);
	errno = ENOMEM;
	return NULL;
}

/* Of so much room that it never grows: it may run for hours, and say anything. */
static int output_file(void) {
	int fd = memfd_create("sendmail", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || (ftruncate(fd, SAID_MOST) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0))
		return fd;
	close(fd);
	return -1;
}

static pid_t fork_run(struct queue_run_process *run, const struct words *words,
    const struct queue_user *who) {
	int fds[2], error;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return -1;
	run->error_fd = fds[0];
	run->output_fd = output_file();
	pid = fork();
	if (pid == 0)
		execute(words, who, fds[1], run->output_fd);
	error = errno;
	close(fds[1]);
	errno = error;
	return pid;
}

static void note_fork(struct queue_runs *runs, const char *mta, bool fails, int error) {
	if (fails && !runs->fork_fails)
		log_event(EVENT_MTA_COMMAND, "command=sendmail mta=%s text=\"cannot start "
		    "processes; retrying: %s\"", mta, strerror(error));
	else if (!fails && runs->fork_fails)
		log_event(EVENT_QUEUE, "command=sendmail mta=%s text=\"processes can be "
		    "started again\"", mta);
	runs->fork_fails = fails;
}

/* A file that was delivered is written anew: without room for that its recipients would be
 * delivered again, run after run.  What cannot be looked at holds nothing up. */
static bool has_room(const struct queue_user *user, int directory_fd,
    const struct queue_order *order) {
	char name[SENDMAIL_QUEUE_ID_MAX + 3];
	uint64_t largest = 0, wanted, blocks;
	struct statvfs system;
	struct stat file;

	if (fstatvfs(directory_fd, &system) != 0 || system.f_blocks == 0)
		return true;
	for (unsigned i = 0; i < order->ids.count; i++) {
		snprintf(name, sizeof(name), "qf%s", order->ids.list[i]);
		if (fstatat(directory_fd, name, &file, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (uint64_t)file.st_size > largest)
			largest = (uint64_t)file.st_size;
	}
	wanted = largest < ROOM_LEAST / ROOM_TIMES ? ROOM_LEAST : ROOM_TIMES * largest;
	blocks = user->uid == 0 ? system.f_bfree : system.f_bavail;
	return blocks >= wanted / (system.f_frsize == 0 ? 1 : system.f_frsize) &&
	    (system.f_files == 0 || (user->uid == 0 ? system.f_ffree : system.f_favail) > 0);
}

static void note_room(struct queue_place *place, const char *mta, bool has_room_now) {
	char quoted[512];

	log_quote(quoted, sizeof(quoted), place->path, strlen(place->path));
	if (!has_room_now && !place->no_room)
		log_event(EVENT_MTA_COMMAND, "command=sendmail mta=%s directory=%s text=\"file "
		    "system full: no mail is delivered from here, because Sendmail could not "
		    "record deliveries\"", mta, quoted);
	else if (has_room_now && place->no_room)
		log_event(EVENT_QUEUE, "command=sendmail mta=%s directory=%s text=\"the file "
		    "system has room again\"", mta, quoted);
	place->no_room = !has_room_now;
}

/* 0, or why not. */
static int fault_of(struct queue_runs *runs, const struct generation_mta *mta,
    struct queue_program *program, const char *name, struct queue_place *place,
    const struct queue_order *order) {
	bool room;

	if (*program->user.name == '\0')
		return EPERM;
	/* as many again may be stalled */
	if (count_of(runs, name) >= 2 * (mta->processes + mta->local_processes))
		return EAGAIN;
	room = has_room(&program->user, place->fd, order);
	note_room(place, name, room);
	return room ? 0 : ENOSPC;
}

pid_t queue_runs_start(struct queue_runs *runs, const struct generation *generation,
    const struct generation_mta *mta, struct queue_place *place,
    const struct queue_order *order, int64_t now_ns) {
	const char *name = generation_text(generation, mta->name);
	unsigned number = (unsigned)(mta - generation->mtas);
	struct queue_program *program = &runs->programs[number];
	struct queue_run_process *run;
	static struct words words;
	int error;

	take_generation(runs, generation);
	error = fault_of(runs, mta, program, name, place, order);
	if (error != 0) {
		errno = error;
		return -1;
	}
	run = make_run(name, place->path, order);
	if (run == NULL)
		return -1;
	make_words(&words, generation_text(generation, mta->sendmail),
	    generation_text(generation, mta->cf), place, order);
	run->place = number;
	run->generation = runs->generation;
	run->pid = fork_run(run, &words, &program->user);
	error = errno;
	note_fork(runs, name, run->pid < 0, error);
	if (run->pid < 0) {
		free_run(run);
		errno = error;
		return -1;
	}
	run->started_ns = now_ns;
	run->ends_ns = now_ns + mta->run_limit_ns;
	LIST_INSERT_HEAD(&runs->list, run, next);
	return run->pid;
}

/* The first line that it said; not that we put a recipient off, which explains no end. */
static void said(const struct queue_run_process *run, char text[SAID_SHOWN]) {
	char all[SAID_READ], *line, *rest;
	ssize_t length = run->output_fd < 0 ? 0 :
	    pread(run->output_fd, all, sizeof(all) - 1, 0);

	all[length > 0 ? length : 0] = '\0';
	text[0] = '\0';
	for (line = strtok_r(all, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
		if (strstr(line, "deferred by Postern") == NULL) {
			text_append(text, SAID_SHOWN, 0, "%s", line);
			return;
		}
}

static void report(const struct queue_run_process *run, const struct queue_tell *tell) {
	static const char *const words[] = { [QUEUE_END_EXIT] = "exit",
		[QUEUE_END_SIGNAL] = "signal", [QUEUE_END_NOT_RUN] = "errno" };
	char text[SAID_SHOWN], sentence[2 * SAID_SHOWN];

	said(run, text);
	if (tell->how == QUEUE_END_NOT_RUN)
		text_append(text, sizeof(text), 0, "cannot be run: %s",
		    strerror((int)tell->number));
	log_event(EVENT_MTA_COMMAND, "command=sendmail mta=%s pid=%ld %s=%u%s ids=%u first=%s "
	    "text=\"%s\"", run->mta, (long)run->pid, words[tell->how], tell->number,
	    run->terminated ? " killed=yes" : "", run->ids.count, run->ids.list[0],
	    log_sentence(sentence, sizeof(sentence), text));
}

/* False: it is not to be logged. */
static bool note_end(struct queue_runs *runs, const struct queue_run_process *run,
    const struct queue_tell *tell) {
	struct queue_program *program = &runs->programs[run->place];
	int error = tell->how == QUEUE_END_NOT_RUN ? (int)tell->number : 0;
	bool is_news = error == 0 ? tell->how == QUEUE_END_SIGNAL || tell->number != 0 : true;

	if (run->generation != runs->generation)
		return is_news;
	is_news = is_news && (error == 0 || error != program->exec_error);
	program->exec_error = error;
	return is_news;
}

bool queue_runs_bury(struct queue_runs *runs, pid_t pid, int status,
    struct queue_tell *tell) {
	struct queue_run_process *run;
	int error;

	LIST_FOREACH(run, &runs->list, next)
		if (run->pid == pid)
			break;
	if (run == NULL)
		return false;
	memset(tell, 0, sizeof(*tell));
	tell->news = QUEUE_ENDED;
	tell->pid = (uint32_t)pid;
	if (read(run->error_fd, &error, sizeof(error)) == (ssize_t)sizeof(error)) {
		tell->how = QUEUE_END_NOT_RUN;
		tell->number = (uint32_t)error;
	} else if (WIFSIGNALED(status)) {
		tell->how = QUEUE_END_SIGNAL;
		tell->number = (uint32_t)WTERMSIG(status);
	} else {
		tell->how = QUEUE_END_EXIT;
		tell->number = (uint32_t)WEXITSTATUS(status);
	}
	if (note_end(runs, run, tell))
		report(run, tell);
	LIST_REMOVE(run, next);
	free_run(run);
	return true;
}

static void end_run(struct queue_run_process *run, int64_t now_ns) {
	if (run->terminated) {
		(void)kill(-run->pid, SIGKILL);
		(void)kill(run->pid, SIGKILL);
	} else {
		log_event(EVENT_MTA_COMMAND, "command=sendmail mta=%s pid=%ld ids=%u first=%s "
		    "text=\"run time exceeds run_limit; ending the process\"", run->mta,
		    (long)run->pid, run->ids.count, run->ids.list[0]);
		(void)kill(run->pid, SIGTERM);
		run->terminated = true;
	}
	run->ends_ns = now_ns + TERM_NS;
}

void queue_runs_turn(struct queue_runs *runs, int64_t now_ns) {
	struct queue_run_process *run;

	LIST_FOREACH(run, &runs->list, next)
		if (now_ns >= run->ends_ns)
			end_run(run, now_ns);
}

int64_t queue_runs_next_ns(const struct queue_runs *runs) {
	const struct queue_run_process *run;
	int64_t next_ns = INT64_MAX;

	LIST_FOREACH(run, &runs->list, next)
		if (run->ends_ns < next_ns)
			next_ns = run->ends_ns;
	return next_ns;
}

