/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Run sendmail.
 * MODEL    base/subprocess.h; it does not die with us.  Where its directory's disk is full
 *          nothing is started.
 * ERRORS   A process table that is full, or a program that cannot be executed, is logged
 *          once until a start succeeds; the engine tries later and later.
 * THREADS  The supervisor's.
 */
#include "role/queue/queue_runs.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"

#define TERM_NS		(60 * NS_PER_SECOND)	/* from SIGTERM to SIGKILL */
#define ROOM_LEAST	(1 << 20)	/* bytes that are free */
#define ROOM_TIMES	4		/* or so often the largest file of the run */
#define OPTIONS_MAX	20

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
    const struct queue_directory *place, const struct queue_order *order) {
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
		struct queue_program *program = &runs->programs[i];
		const struct passwd *entry = mta->drive == 0 ? NULL :
		    getpwnam(generation_text(generation, mta->user));

		if (entry == NULL || !text_copy(program->user, sizeof(program->user), entry->pw_name,
		    strlen(entry->pw_name)))
			continue;
		program->uid = entry->pw_uid;
		program->gid = entry->pw_gid;
	}
}

static unsigned count_of(const struct queue_runs *runs, const char *mta) {
	const struct queue_run_process *run;
	unsigned count = 0;

	LIST_FOREACH(run, &runs->list, next)
		count += strcmp(run->mta, mta) == 0;
	return count;
}

static void free_run(struct queue_run_process *run) {
	free(run->mta);
	free(run->path);
	free(run);
}

static struct queue_run_process *make_run(const char *mta, const char *path,
    const struct queue_order *order) {
	struct queue_run_process *run = calloc(1, sizeof(*run));

	if (run == NULL)
		return NULL;
	run->mta = strdup(mta);
	run->path = strdup(path);
	run->ids = order->ids;
	if (run->mta != NULL && run->path != NULL)
		return run;
	free_run(run);
	errno = ENOMEM;
	return NULL;
}

/* False: it is not to be logged. */
static bool note_end(struct queue_runs *runs, const struct queue_run_process *run,
    const struct subprocess_end *end) {
	struct queue_program *program = &runs->programs[run->place];
	int error = end->how == SUBPROCESS_NOT_RUN ? end->number : 0;
	bool is_news = end->how != SUBPROCESS_EXIT || end->number != 0;

	if (run->generation != runs->generation)
		return is_news;
	is_news = is_news && (error == 0 || error != program->exec_error);
	program->exec_error = error;
	return is_news;
}

static void run_ended(void *owner, struct subprocess *child, const struct subprocess_end *end) {
	const struct queue_tell news = { .news = QUEUE_ENDED, .pid = (uint32_t)end->pid,
		.how = end->how, .number = (uint32_t)end->number };
	struct queue_run_process *run = (struct queue_run_process *)child;
	struct queue_runs *runs = owner;
	char text[SUBPROCESS_END_TEXT_MAX];

	if (note_end(runs, run, end))
		log_event(EVENT_MTA_COMMAND, "command=sendmail mta=%s ids=%u first=%s %s", run->mta,
		    run->ids.count, run->ids.list[0], subprocess_end_text(end, text));
	LIST_REMOVE(run, next);
	free_run(run);
	runs->tell(&news);
}

static void run_is_late(void *owner, const struct subprocess *child) {
	const struct queue_run_process *run = (const struct queue_run_process *)child;

	(void)owner;
	log_event(EVENT_MTA_COMMAND, "command=sendmail mta=%s pid=%ld ids=%u first=%s text=\"run "
	    "time exceeds run_limit; ending the process\"", run->mta, (long)child->pid,
	    run->ids.count, run->ids.list[0]);
}

/* That we put a recipient off explains no end. */
static const struct subprocess_calls run_calls = { .ended = run_ended, .late = run_is_late,
	.except = "deferred by Postern" };

static int start_run(struct queue_runs *runs, struct queue_run_process *run,
    const struct words *words,
    const struct generation_mta *mta, const struct queue_program *as, int64_t now_ns) {
	const struct subprocess_program program = {
		.arguments = (const char *const *)words->list, .user = as->user,
		.uid = as->uid, .gid = as->gid, .drop = true, .outlives_us = true,
		.life_ns = mta->run_limit_ns, .grace_ns = TERM_NS,
		.stdout_fd = SUBPROCESS_KEPT, .stderr_fd = SUBPROCESS_KEPT,
		.list = runs->processes, .calls = &run_calls, .owner = runs };

	return subprocess_start(&run->child, &program, now_ns);
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
static bool has_room(const struct queue_program *as, int directory_fd,
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
	blocks = as->uid == 0 ? system.f_bfree : system.f_bavail;
	return blocks >= wanted / (system.f_frsize == 0 ? 1 : system.f_frsize) &&
	    (system.f_files == 0 || (as->uid == 0 ? system.f_ffree : system.f_favail) > 0);
}

static void note_room(struct queue_directory *place, const char *mta, bool has_room_now) {
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
    struct queue_program *program, const char *name, struct queue_directory *place,
    const struct queue_order *order) {
	bool room;

	if (*program->user == '\0')
		return EPERM;
	/* as many again may be stalled */
	if (count_of(runs, name) >= 2 * (mta->processes + mta->local_processes))
		return EAGAIN;
	room = has_room(program, place->fd, order);
	note_room(place, name, room);
	return room ? 0 : ENOSPC;
}

pid_t queue_runs_start(struct queue_runs *runs, const struct generation *generation,
    const struct generation_mta *mta, struct queue_directory *place,
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
	error = start_run(runs, run, &words, mta, program, now_ns) == 0 ? 0 : errno;
	note_fork(runs, name, error != 0, error);
	if (error != 0) {
		free_run(run);
		errno = error;
		return -1;
	}
	LIST_INSERT_HEAD(&runs->list, run, next);
	return run->child.pid;
}
