/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The keeper role: the witness, leases, the saved sessions and destinations,
 *          the hints file, windows whose time has come, the control socket.
 * MODEL    One event loop, with a turn of housekeeping each second.  Saving the
 *          sessions is put off where it took long, so that it never takes more
 *          than a twentieth of the time; a million take more than a second, and a
 *          disk may take any time, so it has a thread, as the destinations and the
 *          hints have: nobody is to take the keeper for hung.
 * ERRORS   Only a keeper that cannot start ends; the supervisor tries again.
 * THREADS  Five: the loop; two that save, which share nothing with it but the
 *          segment; one for the hints and one for windows, which share the engine.
 */
#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <sysexits.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/gate.h"
#include "engine/journal_decisions.h"
#include "engine/journal_manual.h"
#include "engine/queue_watch.h"
#include "engine/windows.h"
#include "front/control.h"
#include "front/hints.h"
#include "front/journal_news.h"
#include "front/window_log.h"
#include "front/witness.h"
#include "role/keeper_duties.h"
#include "role/netlink.h"
#include "role/role.h"
#include "segment/segment.h"

#define SAVING_SHARE	20
#define WINDOWS_TURN_NS	(500 * NS_PER_MS)

/* What a text file is for: the segment does not outlive another layout. */
struct saver {
	const struct segment *segment;
	int (*renew)(const struct segment *, struct segment_saved *, int64_t now_ns,
	    struct diag *);
	struct segment_saved saved;
};

struct keeper {
	const struct role_context *context;
	struct event_base *base;
	struct engine *engine;
	struct front_witness *witness;
	struct front_hints *hints;
	struct control *control;
	struct gate_watch gate;
	struct queue_watch queue;
	struct keeper_duties *duties;
	struct journal_manual_log *journal;	/* NULL: there is none */
	struct journal_decisions *decisions;	/* NULL: the same */
	struct event *beat;
	struct event *second;
	struct saver savers[2];
	bool stale;		/* a namespace of witness.netns was made anew */
};

static int give_up(const struct diag *diag) {
	log_event(EVENT_SYSTEM, "from=keeper text=\"%s\"", diag->text);
	return EX_OSERR;
}

static void rest(int64_t ns) {
	struct timespec time = { .tv_sec = (time_t)(ns / NS_PER_SECOND),
		.tv_nsec = (long)(ns % NS_PER_SECOND) };

	(void)nanosleep(&time, NULL);
}

static void *save_again_and_again(void *argument) {
	struct saver *saver = argument;
	bool had_failed = false;

	for (;;) {
		int64_t began_ns = clock_now_ns(), rest_ns;
		struct diag diag;
		bool failed = saver->renew(saver->segment, &saver->saved,
		    began_ns, &diag) != 0;

		if (failed && !had_failed)
			log_event(EVENT_SYSTEM, "from=keeper text=\"%s\"", diag.text);
		had_failed = failed;
		rest_ns = (SAVING_SHARE - 1) * (clock_now_ns() - began_ns);
		rest(rest_ns > NS_PER_SECOND ? rest_ns : NS_PER_SECOND);
	}
	return NULL;
}

/* What time does to windows: looks through all destinations. */
static void *turn_windows(void *argument) {
	struct engine *engine = argument;

	for (;;) {
		const struct generation *generation = engine_pin(engine);

		windows_turn(engine, generation, clock_now_ns());
		engine_unpin(engine, generation);
		rest(WINDOWS_TURN_NS);
	}
	return NULL;
}

static int start_thread(void *(*run)(void *), void *argument, struct diag *diag) {
	sigset_t all, before;
	pthread_t thread;
	int error;

	/* signals are for the loop's thread */
	sigfillset(&all);
	sigdelset(&all, SIGSYS);	/* tells what its sandbox stopped */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error != 0)
		return diag_set(diag, error, "cannot start a thread");
	pthread_detach(thread);
	return 0;
}

static void watch_gate(struct keeper *keeper, int64_t now_ns) {
	const struct generation *generation = engine_pin(keeper->engine);
	enum gate_news news = gate_watch_look(&keeper->gate, keeper->engine,
	    generation, now_ns);
	bool has_command = generation->gate_word_count > 0;

	if (news == GATE_SHUTS || news == GATE_OPENS)
		log_event(news == GATE_SHUTS ? EVENT_GATE_SHUT : EVENT_GATE_OPEN,
		    "classes=%u command=%s", generation->class_count,
		    has_command ? "yes" : "no");
	engine_unpin(keeper->engine, generation);
	if (has_command && news != GATE_NO_NEWS)
		control_tell_gate(keeper->control, news != GATE_OPENS);
}

static void do_duties(struct keeper *keeper, int64_t now_ns) {
	const struct generation *generation = engine_pin(keeper->engine);

	keeper_duties_beat(keeper->duties, generation, now_ns);
	engine_unpin(keeper->engine, generation);
}

/* Others take note when nobody can ask the kernel: more often than each second. */
static void on_beat(evutil_socket_t fd, short what, void *argument) {
	struct keeper *keeper = argument;

	(void)fd;
	(void)what;
	engine_heartbeat(keeper->engine, clock_now_ns());
	watch_gate(keeper, clock_now_ns());
	do_duties(keeper, clock_now_ns());
	journal_decisions_turn(keeper->decisions, clock_now_ns(), clock_wall_ns());
}

static void watch_queue(struct keeper *keeper) {
	const struct generation *generation = engine_pin(keeper->engine);
	int64_t away_ns = 0;
	enum queue_news news = queue_watch_look(&keeper->queue, keeper->engine, generation,
	    clock_now_ns(), &away_ns);

	engine_unpin(keeper->engine, generation);
	if (news != QUEUE_NO_NEWS)
		log_event(news == QUEUE_IS_AWAY ? EVENT_QUEUE_AWAY : EVENT_QUEUE_BACK,
		    "away=%llds", (long long)(away_ns / NS_PER_SECOND));
}

/* The successor is given sockets in the namespaces that are there now. */
static void end_when_stale(struct keeper *keeper) {
	const struct generation *generation = engine_pin(keeper->engine);
	bool stale = netlink_is_stale(generation, keeper->context);

	engine_unpin(keeper->engine, generation);
	if (!stale)
		return;
	log_event(EVENT_WITNESS,
	    "text=\"a network namespace was recreated; restarting to open it\"");
	keeper->stale = true;
	(void)event_base_loopbreak(keeper->base);
}

static void on_second(evutil_socket_t fd, short what, void *argument) {
	struct keeper *keeper = argument;

	(void)fd;
	(void)what;
	front_witness_second(keeper->witness, clock_now_ns());
	control_second(keeper->control, clock_now_ns());
	journal_manual_turn(keeper->journal, clock_now_ns(), clock_wall_ns());
	watch_queue(keeper);
	keeper_duties_second(keeper->duties);
	end_when_stale(keeper);
	log_flush();
}

static int open_journal(struct keeper *keeper, struct diag *diag) {
	const struct generation *generation = engine_pin(keeper->engine);
	int result = journal_manual_open(&keeper->journal, keeper->engine, generation,
	    &journal_news_log, clock_now_ns(), diag);

	if (result == 0)
		result = journal_decisions_open(&keeper->decisions, keeper->engine, generation,
		    &journal_news_log, clock_now_ns(), diag);
	engine_unpin(keeper->engine, generation);
	return result;
}

static int open_all(struct keeper *keeper, struct diag *diag) {
	static const struct timeval one_second = { .tv_sec = 1 };
	static const struct timeval fifth = { .tv_usec = 200000 };
	const struct role_context *context = keeper->context;

	if (role_open_engine(context, &keeper->engine, diag) != 0)
		return -1;
	window_log_listen(keeper->engine);
	if (open_journal(keeper, diag) != 0)
		return -1;
	engine_heartbeat(keeper->engine, clock_now_ns());
	keeper->base = event_base_new();
	if (keeper->base == NULL)
		return diag_set(diag, 0, "cannot create an event loop");
	if (front_witness_open(&keeper->witness, keeper->base, keeper->engine,
		context->netlink_fds, context->netlink_count, diag) != 0 ||
	    control_open(&keeper->control, keeper->base, keeper->engine,
		context->supervisor_fd, diag) != 0 ||
	    keeper_duties_open(&keeper->duties, context, keeper->base, diag) != 0)
		return -1;
	for (unsigned i = 0; i < context->socket_count; i++) {
		if (control_listen(keeper->control, context->sockets[i].fd,
			context->sockets[i].access, diag) != 0)
			return -1;
	}
	if (front_hints_open(&keeper->hints, keeper->engine, context->mta_fd,
		context->hints_group, diag) != 0)
		return -1;
	keeper->second = event_new(keeper->base, -1, EV_PERSIST, on_second,
	    keeper);
	keeper->beat = event_new(keeper->base, -1, EV_PERSIST, on_beat, keeper);
	if (keeper->second == NULL || keeper->beat == NULL ||
	    event_add(keeper->second, &one_second) != 0 ||
	    event_add(keeper->beat, &fifth) != 0)
		return diag_set(diag, 0, "no memory for a timer");
	if (start_thread(front_hints_run, keeper->hints, diag) != 0 ||
	    start_thread(turn_windows, keeper->engine, diag) != 0)
		return -1;
	keeper->savers[0] = (struct saver){ context->segment, segment_renew_sessions,
		{ .written = false } };
	keeper->savers[1] = (struct saver){ context->segment, segment_renew_destinations,
		{ .written = false } };
	for (unsigned i = 0; i < 2; i++) {
		if (start_thread(save_again_and_again, &keeper->savers[i],
			diag) != 0)
			return -1;
	}
	return 0;
}

int keeper_role_main(const struct role_context *context) {
	struct keeper keeper = { .context = context };
	struct diag diag;

	if (open_all(&keeper, &diag) != 0)
		return give_up(&diag);
	(void)event_base_dispatch(keeper.base);
	if (keeper.stale)
		return EX_OK;
	diag_set(&diag, 0, "the event loop ended");
	return give_up(&diag);
}
