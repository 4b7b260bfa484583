/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The queue's loop.
 * MODEL    Every event reads a bounded piece, tells the engine, and then starts whatever
 *          that lets run.  Long work is cut into parts of a timer that is due at once, so
 *          that there is a sign of life in between: with it the grants stay in force.
 * ERRORS   A run that the system refuses is told to the engine, which tries again later and
 *          later.
 * THREADS  One.
 */
#include "front/queue/queue_drive_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/queue/queue_journal.h"
#include "front/decision/journal_news.h"
#include "front/queue/queue_control.h"

#define BEAT_EVERY_NS	(NS_PER_SECOND / 5)
#define NEWS_A_TURN	256
#define RUNS_A_TURN	64
/* A file is written so often while it is delivered; a large one more often. */
#define CHECKPOINTS	40u
#define CHECKPOINT_MOST	10u

/* --- settings ------------------------------------------------------------------------- */

static uint64_t mix_text(uint64_t hash, const char *text) {
	do
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	while (*text++ != '\0');
	return hash;
}

/* What our directories were opened for, and what sizes the engine's memory: with another one a
 * new role is to come. */
static uint64_t settings_shape(const struct generation *g) {
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ g->mta_count;

	for (uint32_t i = 0; i < g->mta_count; i++) {
		const struct generation_mta *mta = &g->mtas[i];

		hash = mix_text(hash, generation_text(g, mta->name)) * 31 + mta->drive;
		for (uint32_t k = 0; mta->drive != 0 && k < mta->queue_count; k++)
			hash = mix_text(hash, generation_text(g, mta->queues[k]));
	}
	hash = hash * 31 + g->schedule.pool.message_active_limit;
	hash = hash * 31 + g->schedule.pool.message_recipient_limit;
	return hash * 31 + g->schedule.pool.message_recipient_minimum;
}

static void settings_of(const struct generation *g, struct queue_settings *out) {
	_Static_assert(QUEUE_MAILERS == GENERATION_TRANSPORTS, "each has settings");
	out->schedule = g->schedule;
	memcpy(out->mtas, g->mtas, sizeof(out->mtas));
	for (uint32_t i = 0; i < GENERATION_MTAS_MAX; i++)
		if (out->mtas[i].exactly_once == EXACTLY_ONCE_ENFORCE && g->outbound_observe)
			out->mtas[i].exactly_once = EXACTLY_ONCE_OBSERVE;
}

/* --- a reload ------------------------------------------------------------------------ */

static void take_reload(struct queue_drive *drive) {
	const struct generation *generation = engine_pin(drive->engine);
	struct queue_settings settings;

	if (generation->number != drive->generation) {
		drive->generation = generation->number;
		if (settings_shape(generation) != drive->shape) {
			log_event(EVENT_QUEUE, "text=\"the set of managed queues changed\"");
			drive->is_over = true;
		} else {
			settings_of(generation, &settings);
			queue_configure(drive->queue, &settings);
		}
	}
	engine_unpin(drive->engine, generation);
}

/* --- around all work ------------------------------------------------------------------- */

void queue_drive_begin(struct queue_drive *drive) {
	drive->now_ns = clock_now_ns();
	drive->wall_s = clock_wall_s();
}

void queue_drive_beat(struct queue_drive *drive) {
	int64_t now_ns = clock_now_ns();

	if (now_ns - drive->beat_ns < BEAT_EVERY_NS)
		return;
	drive->beat_ns = now_ns;
	engine_heartbeat(drive->engine, now_ns);
}

static void sleep_until(struct queue_drive *drive, int64_t next_ns) {
	int64_t wait_ns = next_ns - clock_now_ns();
	struct timeval wait;

	if (next_ns == INT64_MAX) {
		(void)event_del(drive->turn);
		return;
	}
	if (wait_ns < 0)
		wait_ns = 0;
	wait.tv_sec = (time_t)(wait_ns / NS_PER_SECOND);
	wait.tv_usec = (suseconds_t)(wait_ns % NS_PER_SECOND / 1000 + (wait_ns > 0));
	(void)event_add(drive->turn, &wait);
}

static uint32_t checkpoint_of(const struct queue_run *run) {
	uint32_t interval = run->recipients / CHECKPOINTS;

	/* Sendmail logs a delivery only after it has written the file for it */
	if (run->is_told)
		return QUEUE_CHECKPOINT_MOST;
	return interval < 1 ? 1 : interval > CHECKPOINT_MOST ? CHECKPOINT_MOST : interval;
}

static bool ask_for_run(struct queue_drive *drive, const struct queue_run *run) {
	static struct queue_order order;

	order = (struct queue_order){ .verb = QUEUE_ORDER_RUN, .directory = run->directory,
		.ticket = run->run, .generation = drive->generation, .brief = run->brief,
		.checkpoint = checkpoint_of(run) };
	for (unsigned i = 0; i < run->count; i++)
		(void)queue_order_add_id(&order.ids, run->ids[i]);
	return order.ids.count == run->count && queue_link_ask(drive->setup->link_fd, &order);
}

static void start_runs(struct queue_drive *drive) {
	struct queue_run run;

	for (unsigned i = 0; i < RUNS_A_TURN &&
	     queue_next_run(drive->queue, drive->now_ns, &run); i++)
		if (!ask_for_run(drive, &run))
			queue_run_ended(drive->queue, run.run, QUEUE_RUN_NOT_STARTED,
			    drive->now_ns);
}

void queue_drive_end(struct queue_drive *drive) {
	int64_t next_ns, other_ns;

	if (drive->is_over || drive->broken != NULL) {
		(void)event_base_loopbreak(drive->base);
		return;
	}
	(void)queue_directory_step(drive);
	/* all that was there at the start */
	if (!drive->scan.first && drive->reads.by_file.count == 0)
		queue_control_reading(drive->control, false);
	next_ns = queue_turn(drive->queue, drive->now_ns);
	start_runs(drive);
	other_ns = queue_turn(drive->queue, drive->now_ns);
	if (other_ns < next_ns)
		next_ns = other_ns;
	queue_reads_ask(drive);
	other_ns = queue_directory_next_ns(drive);
	sleep_until(drive, other_ns < next_ns ? other_ns : next_ns);
	queue_drive_beat(drive);
}

/* --- what the supervisor says ------------------------------------------------------------ */

static void take_started(struct queue_drive *drive, const struct queue_tell *tell) {
	if (tell->error == 0)
		queue_run_started(drive->queue, tell->ticket, (pid_t)tell->pid, drive->now_ns);
	else
		queue_run_ended(drive->queue, tell->ticket, QUEUE_RUN_NOT_STARTED,
		    drive->now_ns);
}

static enum queue_run_end end_of(const struct queue_tell *tell) {
	if (tell->how != SUBPROCESS_EXIT)
		return tell->how == SUBPROCESS_SIGNAL ? QUEUE_RUN_KILLED : QUEUE_RUN_NOT_STARTED;
	switch (tell->number) {
	case EX_OK:
		return QUEUE_RUN_OVER;
	case EX_OSERR:
	case EX_CANTCREAT:
	case EX_IOERR:
		return QUEUE_RUN_NOT_WRITTEN;
	default:
		return QUEUE_RUN_FAILED;
	}
}

static void take_ended(struct queue_drive *drive, const struct queue_tell *tell) {
	queue_run_ended(drive->queue, queue_run_of(drive->queue, (pid_t)tell->pid), end_of(tell),
	    drive->now_ns);
}

static void take_lives(struct queue_drive *drive, const struct queue_tell *tell) {
	const char *ids[QUEUE_ORDER_IDS_MAX];

	for (unsigned i = 0; i < tell->ids.count; i++)
		ids[i] = tell->ids.list[i];
	(void)queue_run_adopt(drive->queue, tell->directory, ids, tell->ids.count,
	    (pid_t)tell->pid, drive->now_ns);
}

/* False: there is no more. */
static bool take_news(struct queue_drive *drive) {
	static struct queue_tell tell;
	bool ended;
	int fd;

	if (!queue_link_next(drive->setup->link_fd, &tell, &fd, &ended)) {
		if (ended)
			drive->broken = "the supervisor closed its link";
		return false;
	}
	switch (tell.news) {
	case QUEUE_OPENED:
		queue_reads_opened(drive, tell.ticket, fd, tell.error);
		break;
	case QUEUE_STARTED:
		take_started(drive, &tell);
		break;
	case QUEUE_ENDED:
		take_ended(drive, &tell);
		break;
	case QUEUE_LIVES:
		take_lives(drive, &tell);
		break;
	case QUEUE_AGAIN:
		log_event(EVENT_QUEUE, "text=\"the set of queue directories changed; "
		    "restarting to open them\"");
		drive->is_over = true;
		return false;
	}
	return true;
}

/* --- events ------------------------------------------------------------------------------ */

static void on_link(evutil_socket_t fd, short what, void *argument) {
	struct queue_drive *drive = argument;

	(void)fd, (void)what;
	queue_drive_begin(drive);
	for (unsigned i = 0; i < NEWS_A_TURN && take_news(drive); i++)
		queue_drive_beat(drive);
	queue_drive_end(drive);
}

static void on_notify(evutil_socket_t fd, short what, void *argument) {
	struct queue_drive *drive = argument;

	(void)fd, (void)what;
	queue_drive_begin(drive);
	queue_directory_notified(drive);
	queue_drive_end(drive);
}

static void on_turn(evutil_socket_t fd, short what, void *argument) {
	struct queue_drive *drive = argument;

	(void)fd, (void)what;
	queue_drive_begin(drive);
	queue_drive_end(drive);
}

static void on_beat(evutil_socket_t fd, short what, void *argument) {
	(void)fd, (void)what;
	queue_drive_beat(argument);
}

/* Logged once, when it begins and when it ends; the supervisor tells what a run said. */
static void tell_pauses(struct queue_drive *drive) {
	static const char *const texts[] = {
		[QUEUE_NOT_PAUSED] = "works again",
		[QUEUE_PAUSE_NOT_STARTED] = "cannot be run; retrying at increasing intervals",
		[QUEUE_PAUSE_FRUITLESS] =
		    ("its runs leave all queue files unchanged, as above its QueueLA; retrying at "
			"increasing intervals"),
		[QUEUE_PAUSE_NOT_WRITTEN] =
		    "cannot write its queue files; retrying at increasing intervals",
	};
	const struct generation *generation = engine_pin(drive->engine);

	for (unsigned i = 0; i < generation->mta_count; i++) {
		enum queue_pause pause = queue_paused(drive->queue, i);

		if (pause == drive->told_pause[i])
			continue;
		drive->told_pause[i] = (uint8_t)pause;
		log_event(pause == QUEUE_NOT_PAUSED ? EVENT_STARTED : EVENT_MTA_COMMAND,
		    "command=sendmail mta=%s text=\"%s\"",
		    generation_text(generation, generation->mtas[i].name), texts[pause]);
	}
	engine_unpin(drive->engine, generation);
}

static void on_second(evutil_socket_t fd, short what, void *argument) {
	struct queue_drive *drive = argument;

	(void)fd, (void)what;
	queue_drive_begin(drive);
	take_reload(drive);
	queue_journal_wall(drive->queue, drive->now_ns, clock_wall_ns());
	queue_journal_tell(drive->queue, &journal_news_log, drive->now_ns);
	queue_reads_second(drive);
	queue_directory_second(drive);
	queue_control_second(drive->control, drive->now_ns);
	tell_pauses(drive);
	queue_drive_end(drive);
	log_flush();
}

/* --- life -------------------------------------------------------------------------------- */

static int add_event(struct event **event, struct queue_drive *drive, int fd, short what,
    event_callback_fn call, const struct timeval *time, struct diag *diag) {
	*event = event_new(drive->base, fd, what, call, drive);
	if (*event == NULL || event_add(*event, time) != 0)
		return diag_set(diag, 0, "no memory for an event");
	return 0;
}

static int open_queue(struct queue_drive *drive, struct diag *diag) {
	const struct queue_calls calls = { .read = queue_reads_want,
		.room = queue_directory_room, .context = drive };
	const struct generation *generation = engine_pin(drive->engine);
	struct queue_settings settings;

	settings_of(generation, &settings);
	drive->generation = generation->number;
	drive->shape = settings_shape(generation);
	engine_unpin(drive->engine, generation);
	return queue_open(&drive->queue, drive->engine, &settings, drive->setup->directories,
	    drive->setup->directory_count, &calls, diag);
}

static int open_journal_at(struct queue_drive *drive, const struct generation *generation,
    const char *path, struct diag *diag) {
	const struct queue_journal_setup setup = { .path = path,
		.file_size = generation->journal.file_size,
		.sync_delay_ns = generation->journal.sync_delay_ns,
		.envelope_delay_ns = generation->journal.envelope_delay_ns, .threaded = true };

	return queue_journal_open(drive->queue, &setup, drive->now_ns, clock_wall_ns(), diag);
}

/* A journal that cannot be opened is logged: all works without. */
static void open_journal(struct queue_drive *drive) {
	const struct generation *generation = engine_pin(drive->engine);
	char path[PATH_MAX], text[256];
	struct diag why;

	if (generation_journal_directory(generation, JOURNAL_ROOM_QUEUE, path) &&
	    open_journal_at(drive, generation, path, &why) != 0)
		log_event(EVENT_JOURNAL_FAILED, "room=queue text=\"%s\"",
		    log_sentence(text, sizeof(text), why.text));
	engine_unpin(drive->engine, generation);
}

static int open_control(struct queue_drive *drive, struct diag *diag) {
	if (queue_control_open(&drive->control, drive->base, drive->engine, drive->queue,
	    diag) != 0)
		return -1;
	queue_control_reading(drive->control, true);
	for (unsigned i = 0; i < drive->setup->control_count; i++)
		if (queue_control_listen(drive->control, drive->setup->control_fds[i],
		    drive->setup->control_access == NULL ? NULL :
		    drive->setup->control_access[i], diag) != 0)
			return -1;
	return 0;
}

static int prepare_loop(struct queue_drive *drive, struct diag *diag) {
	static const struct timeval second = { .tv_sec = 1 }, fifth = { .tv_usec = 200000 },
	    now = { 0 };
	int sync_fd;

	drive->base = event_base_new();
	if (drive->base == NULL)
		return diag_set(diag, 0, "cannot create an event loop");
	if (open_queue(drive, diag) != 0)
		return -1;
	open_journal(drive);
	queue_directory_open(drive);
	sync_fd = queue_journal_fd(drive->queue);
	if (open_control(drive, diag) != 0 || (sync_fd >= 0 && add_event(&drive->sync_event, drive,
	    sync_fd, EV_READ | EV_PERSIST, on_turn, NULL, diag) != 0))
		return -1;
	if (add_event(&drive->beat, drive, -1, EV_PERSIST, on_beat, &fifth, diag) != 0 ||
	    add_event(&drive->second, drive, -1, EV_PERSIST, on_second, &second, diag) != 0 ||
	    add_event(&drive->turn, drive, -1, 0, on_turn, &now, diag) != 0 ||
	    add_event(&drive->link_event, drive, drive->setup->link_fd, EV_READ | EV_PERSIST, on_link,
	    NULL, diag) != 0)
		return -1;
	return drive->setup->notify_fd < 0 ? 0 : add_event(&drive->notify_event, drive,
	    drive->setup->notify_fd, EV_READ | EV_PERSIST, on_notify, NULL, diag);
}

static void free_event(struct event *event) {
	if (event != NULL)
		event_free(event);
}

static void release_loop(struct queue_drive *drive) {
	free_event(drive->beat);
	free_event(drive->second);
	free_event(drive->turn);
	free_event(drive->link_event);
	free_event(drive->notify_event);
	free_event(drive->sync_event);
	queue_control_close(&drive->control);
	queue_directory_close(drive);
	queue_reads_close(drive);
	if (drive->queue != NULL)
		queue_close(&drive->queue);
	if (drive->base != NULL)
		event_base_free(drive->base);
	close(drive->setup->link_fd);
}

/* The runs that live come first: before anything is started. */
static void hear_of_runs(struct queue_drive *drive) {
	queue_drive_begin(drive);
	while (take_news(drive))
		queue_drive_beat(drive);
}

int queue_drive_run(struct engine *engine, const struct queue_drive_setup *setup,
    struct diag *diag) {
	static struct queue_drive drive;
	int result;

	drive = (struct queue_drive){ .engine = engine, .setup = setup };
	queue_reads_open(&drive);
	queue_drive_begin(&drive);
	queue_drive_beat(&drive);
	result = prepare_loop(&drive, diag);
	if (result == 0)
		hear_of_runs(&drive);
	if (result == 0 && !drive.is_over && drive.broken == NULL)
		(void)event_base_dispatch(drive.base);
	if (result == 0 && !drive.is_over)
		result = diag_set(diag, 0, "%s",
		    drive.broken != NULL ? drive.broken : "the event loop ended");
	release_loop(&drive);
	return result;
}
