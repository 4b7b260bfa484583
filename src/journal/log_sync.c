/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Syncs of the log, in a thread of their own where it is wished: a disk may take
 *          seconds for one.
 * MODEL    One job at a time.  The owner fills it and does not touch it until it has ended;
 *          the thread calls nothing but sync and sync_directory of the storage, and tells
 *          the end by an eventfd.
 * ERRORS   Without a thread (it could not be begun) the owner does it itself.
 * THREADS  The mutex is for has_work, has_ended and quits; whoever set one of them hands
 *          the job over by it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/array.h"
#include "journal/log_internal.h"

bool journal_job_add(struct journal_log *log, int handle) {
	struct log_job *job = &log->job;

	if (!array_grow(&job->handles, &job->room, job->count, sizeof(job->handles[0])))
		return false;
	job->handles[job->count++] = handle;
	return true;
}

int journal_job_add_file(struct journal_log *log, uint32_t i) {
	int handle = journal_log_handle(log, i);

	return handle < 0 ? handle : journal_job_add(log, handle) ? 0 : -ENOMEM;
}

static void do_job(struct journal_log *log) {
	const struct journal_storage *storage = &log->storage;
	struct log_job *job = &log->job;

	job->error = 0;
	for (uint32_t i = 0; i < job->count && job->error == 0; i++)
		job->error = storage->calls->sync(storage->context, job->handles[i]);
	if (job->error == 0 && job->directory)
		job->error = storage->calls->sync_directory(storage->context);
}

static void *thread_work(void *context) {
	struct journal_log *log = context;
	struct log_thread *thread = &log->thread;
	uint64_t one = 1;

	pthread_mutex_lock(&thread->mutex);
	for (;;) {
		while (!thread->has_work && !thread->quits)
			pthread_cond_wait(&thread->changed, &thread->mutex);
		if (thread->quits)
			break;
		thread->has_work = false;
		pthread_mutex_unlock(&thread->mutex);
		do_job(log);
		pthread_mutex_lock(&thread->mutex);
		thread->has_ended = true;
		pthread_cond_broadcast(&thread->changed);
		if (write(thread->event, &one, sizeof(one)) < 0)
			continue;	/* it is readable already */
	}
	pthread_mutex_unlock(&thread->mutex);
	return NULL;
}

static bool begin_thread(struct journal_log *log) {
	struct log_thread *thread = &log->thread;
	sigset_t all, before;

	if (thread->runs)
		return true;
	if (!log->options.threaded || thread->event < 0)
		return false;
	sigfillset(&all);
	sigdelset(&all, SIGSYS);	/* tells what its sandbox stopped */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	thread->runs = pthread_create(&thread->thread, NULL, thread_work, log) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return thread->runs;
}

void journal_job_begin(struct journal_log *log, enum job_kind kind) {
	struct log_thread *thread = &log->thread;
	struct log_job *job = &log->job;

	job->kind = kind;
	job->void_now = false;
	if (kind == JOB_GROUP || kind == JOB_MARKS || kind == JOB_PROBE)
		log->counts.syncs += job->count;
	else
		log->counts.position_syncs += job->count;
	log->counts.directory_syncs += job->directory;
	if (!begin_thread(log)) {
		do_job(log);
		thread->has_ended = true;
		return;
	}
	pthread_mutex_lock(&thread->mutex);
	thread->has_work = true;
	pthread_cond_broadcast(&thread->changed);
	pthread_mutex_unlock(&thread->mutex);
}

bool journal_job_take(struct journal_log *log, struct log_job *ended) {
	struct log_thread *thread = &log->thread;
	uint64_t told;

	if (log->job.kind == JOB_NONE)
		return false;
	pthread_mutex_lock(&thread->mutex);
	if (!thread->has_ended) {
		pthread_mutex_unlock(&thread->mutex);
		return false;
	}
	thread->has_ended = false;
	if (thread->event >= 0 && read(thread->event, &told, sizeof(told)) < 0)
		errno = 0;	/* nothing was written, without a thread */
	pthread_mutex_unlock(&thread->mutex);
	*ended = log->job;
	log->job.kind = JOB_NONE;
	log->job.count = 0;
	log->job.directory = false;
	return true;
}

void journal_job_close(struct journal_log *log) {
	struct log_thread *thread = &log->thread;

	if (thread->runs) {
		pthread_mutex_lock(&thread->mutex);
		thread->quits = true;
		pthread_cond_broadcast(&thread->changed);
		pthread_mutex_unlock(&thread->mutex);
		pthread_join(thread->thread, NULL);
	}
	if (thread->event >= 0)
		close(thread->event);
	pthread_cond_destroy(&thread->changed);
	pthread_mutex_destroy(&thread->mutex);
	free(log->job.handles);
}
