/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The keeper role: the witness, leases, the saved sessions,
 *          the hints file, windows whose time has come, the control socket.
 * MODEL    One event loop, with a turn of housekeeping each second.  All threads rest while
 *          nobody changes anything (base/rest.h): one waits for a change (segment/file/stir.h), and
 *          the loop's turns find one that it was not told of.  Saving the sessions is
 *          put off where it took long, so that it never takes more than a twentieth of the time;
 *          a million take more than a second, so it has a thread, as the hints have: nobody is
 *          to take the keeper for hung.
 * ERRORS   Only a keeper that cannot start ends; the supervisor tries again.
 * THREADS  Five: the loop; one that saves, which shares nothing with it but the
 *          segment; one for the hints and one for windows, which share the engine; one that
 *          is stirred.  And one at the beginning, for large pages.
 */
#include <errno.h>
#include <event2/event.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/nudge.h"
#include "base/rest.h"
#include "base/thread.h"
#include "engine/account/accounts.h"
#include "engine/engine.h"
#include "engine/session/gate.h"
#include "engine/journal/journal_accounts.h"
#include "engine/journal/journal_decisions.h"
#include "engine/journal/journal_manual.h"
#include "engine/destination/windows.h"
#include "front/control/control.h"
#include "front/hints/hints.h"
#include "front/decision/journal_news.h"
#include "front/decision/window_log.h"
#include "front/witness/witness.h"
#include "role/run/keeper_duties.h"
#include "role/link/netlink.h"
#include "role/link/role.h"
#include "role/link/row.h"
#include "segment/file/segment.h"
#include "segment/file/stir.h"

#define SAVING_SHARE	20
#define WINDOWS_TURN_NS	(500 * NS_PER_MS)
#define ACCOUNTS_NS	(10 * NS_PER_SECOND)
#define LEAST_REST_NS	(20 * NS_PER_MS)
#define BEAT_NS		(200 * NS_PER_MS)
#define TURN_NS		(BEAT_NS / 2)
#define EARLY_NS	(TURN_NS / 2)	/* what is due with the next turn but one is so now */
#define SESSIONS_REST_NS	(10 * NS_PER_SECOND)
/* After a stir: until all have seen what came while nobody waited for another one. */
#define DEAF_NS		(REST_LIVELY_NS / 2)
#define ENLARGE_APART_NS	(5 * NS_PER_MS)

struct keeper {
	const struct role_context *context;
	struct event_base *base;
	struct engine *engine;
	struct front_witness *witness;
	struct front_hints *hints;
	struct control *control;
	struct gate_watch gate;
	struct keeper_duties *duties;
	struct journal_manual_log *journal;	/* NULL: there is none */
	struct journal_decisions *decisions;	/* NULL: the same */
#ifdef WITH_ACCOUNTS
	struct journal_accounts *accounts;	/* NULL: the same */
#endif
	struct rest rest;
	int stirred_fd;		/* an eventfd */
	struct event *stirred;
	struct event *turn;
	struct event *nudged;
	int64_t beat_ns, second_ns;	/* when these were done last */
	struct segment_saved saved;	/* PATH.sessions: the segment does not outlive another layout */
	bool stale;		/* a namespace of witness.netns was made anew */
};

static int64_t longer(int64_t a_ns, int64_t b_ns) {
	return a_ns > b_ns ? a_ns : b_ns;
}

static void *save_sessions(void *argument) {
	struct keeper *keeper = argument;
	bool had_failed = false;

	for (;;) {
		int64_t began_ns = clock_now_ns(), rest_ns;
		struct diag diag;
		bool failed = segment_renew_sessions(keeper->context->segment, &keeper->saved,
		    began_ns, &diag) != 0;

		if (failed && !had_failed)
			log_event(EVENT_SYSTEM, "from=keeper text=\"%s\"", diag.text);
		had_failed = failed;
		rest_ns = longer(NS_PER_SECOND,
		    (SAVING_SHARE - 1) * (clock_now_ns() - began_ns));
		rest_take(&keeper->rest, rest_ns, failed ? rest_ns :
		    longer(rest_ns, SESSIONS_REST_NS));
	}
	return NULL;
}

/* What time does to windows: looks through all destinations. */
static void *turn_windows(void *argument) {
	struct keeper *keeper = argument;
	int64_t accounts_ns = 0;

	for (;;) {
		const struct generation *generation = engine_pin(keeper->engine);
		int64_t now_ns = clock_now_ns();
		int64_t next_ns = windows_turn(keeper->engine, generation, now_ns);

		if (now_ns - accounts_ns >= ACCOUNTS_NS) {
			accounts_ns = now_ns;
#ifdef WITH_ACCOUNTS
			engine_accounts_turn(keeper->engine, generation, now_ns);
#endif
		}
		engine_unpin(keeper->engine, generation);
		rest_take(&keeper->rest, WINDOWS_TURN_NS,
		    longer(LEAST_REST_NS, next_ns - clock_now_ns()));
	}
	return NULL;
}

/* Somebody changes something: all look for it. */
static void keeper_stir(struct keeper *keeper) {
	const uint64_t one = 1;

	rest_stir(&keeper->rest, clock_now_ns());
	(void)!write(keeper->stirred_fd, &one, sizeof(one));
}

static void *await_stirs(void *argument) {
	struct keeper *keeper = argument;

	for (;;) {
		segment_await_stir(segment_header(keeper->context->segment));
		keeper_stir(keeper);
		clock_pause(DEAF_NS);
	}
	return NULL;
}

/* Others wait for a page that is made larger: each of them is done by itself. */
static void *enlarge_pages(void *argument) {
	const struct segment *segment = argument;
	uint64_t done = 0;

	while (segment_enlarge_pages(segment, &done))
		clock_pause(ENLARGE_APART_NS);
	return NULL;
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
		keeper_duties_gate(keeper->duties, news != GATE_OPENS);
}

static void do_duties(struct keeper *keeper, int64_t now_ns) {
	const struct generation *generation = engine_pin(keeper->engine);

	keeper_duties_beat(keeper->duties, generation, now_ns);
	engine_unpin(keeper->engine, generation);
}

/* Others take note when nobody can ask the kernel: more often than each second. */
static void keeper_beat(struct keeper *keeper, int64_t next_ns) {
	engine_keeper_heartbeat(keeper->engine, clock_now_ns(), longer(BEAT_NS, next_ns));
	watch_gate(keeper, clock_now_ns());
	do_duties(keeper, clock_now_ns());
	journal_decisions_turn(keeper->decisions, clock_now_ns(), clock_wall_ns());
	journal_manual_hurry(keeper->journal, clock_now_ns(), clock_wall_ns());
}

static void watch_rows(struct keeper *keeper) {
	for (const struct role_row *const *row = role_rows; *row != NULL; row++)
		if ((*row)->watch != NULL)
			(*row)->watch(keeper->engine, clock_now_ns());
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

static void once_a_second(struct keeper *keeper) {
	front_witness_second(keeper->witness, clock_now_ns());
	control_second(keeper->control, clock_now_ns());
	journal_manual_turn(keeper->journal, clock_now_ns(), clock_wall_ns());
#ifdef WITH_ACCOUNTS
	journal_accounts_turn(keeper->accounts, clock_now_ns(), clock_wall_ns());
#endif
	watch_rows(keeper);
	keeper_duties_second(keeper->duties);
	end_when_stale(keeper);
	log_flush();
}

static bool is_due(int64_t *done_ns, int64_t every_ns, int64_t now_ns) {
	if (now_ns - *done_ns < every_ns - EARLY_NS)
		return false;
	*done_ns = now_ns;
	return true;
}

/* All that time brings.  While nobody stirs, turns are far apart. */
static void keeper_turn(struct keeper *keeper) {
	const struct segment_header *header = segment_header(keeper->context->segment);
	int64_t now_ns = clock_now_ns(), next_ns, duties_ns;
	struct timeval next;

	/* the word may have been changed by one that died then, or by whoever likes to */
	if (!rest_is_lively(&keeper->rest, now_ns) && !segment_is_at_rest(header))
		keeper_stir(keeper);
	duties_ns = keeper_duties_turn(keeper->duties, now_ns);
	next_ns = front_witness_turn(keeper->witness, !rest_is_lively(&keeper->rest, now_ns));
	if (duties_ns < next_ns)
		next_ns = duties_ns;
	if (rest_is_lively(&keeper->rest, now_ns))
		next_ns = TURN_NS;
	if (next_ns > TURN_NS || is_due(&keeper->beat_ns, BEAT_NS, now_ns))
		keeper_beat(keeper, next_ns);
	if (is_due(&keeper->second_ns, NS_PER_SECOND, now_ns))
		once_a_second(keeper);
	next = (struct timeval){ .tv_sec = (time_t)(next_ns / NS_PER_SECOND),
		.tv_usec = (suseconds_t)(next_ns % NS_PER_SECOND / 1000) };
	(void)evtimer_add(keeper->turn, &next);
}

static void on_turn(evutil_socket_t fd, short what, void *argument) {
	(void)fd;
	(void)what;
	keeper_turn(argument);
}

static void on_stirred(evutil_socket_t fd, short what, void *argument) {
	uint64_t times;

	(void)what;
	(void)!read(fd, &times, sizeof(times));
	keeper_turn(argument);
}

/* What it has published is in force, here too. */
static void on_nudge(evutil_socket_t fd, short what, void *argument) {
	struct keeper *keeper = argument;

	(void)what;
	if (!nudge_take(fd))
		(void)event_del(keeper->nudged);
	keeper->beat_ns = 0;
	keeper_turn(keeper);
}

static int open_turns(struct keeper *keeper, struct diag *diag) {
	rest_init(&keeper->rest, clock_now_ns());
	keeper->stirred_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (keeper->stirred_fd < 0)
		return diag_set(diag, errno, "cannot make an eventfd");
	keeper->stirred = event_new(keeper->base, keeper->stirred_fd, EV_READ | EV_PERSIST,
	    on_stirred, keeper);
	keeper->turn = evtimer_new(keeper->base, on_turn, keeper);
	if (keeper->stirred == NULL || keeper->turn == NULL ||
	    event_add(keeper->stirred, NULL) != 0)
		return diag_set(diag, 0, "no memory for a timer");
	keeper->nudged = event_new(keeper->base, keeper->context->fds[ROLE_FD_NUDGE],
	    EV_READ | EV_PERSIST, on_nudge, keeper);
	if (keeper->nudged == NULL || event_add(keeper->nudged, NULL) != 0)
		return diag_set(diag, 0, "no memory for an event");
	return 0;
}

static int start_threads(struct keeper *keeper, struct diag *diag) {
	if (thread_start(save_sessions, keeper, diag) != 0 ||
	    thread_start(front_hints_run, keeper->hints, diag) != 0 ||
	    thread_start(turn_windows, keeper, diag) != 0 ||
	    thread_start(await_stirs, keeper, diag) != 0 ||
	    thread_start(enlarge_pages, keeper->context->segment, diag) != 0)
		return -1;
	return 0;
}

static int open_journal(struct keeper *keeper, struct diag *diag) {
	const struct generation *generation = engine_pin(keeper->engine);
	int result = journal_manual_open(&keeper->journal, keeper->engine, generation,
	    &journal_news_log, clock_now_ns(), diag);

	if (result == 0)
		result = journal_decisions_open(&keeper->decisions, keeper->engine, generation,
		    &journal_news_log, clock_now_ns(), diag);
#ifdef WITH_ACCOUNTS
	if (result == 0)
		result = journal_accounts_open(&keeper->accounts, keeper->engine, generation,
		    &journal_news_log, clock_now_ns(), diag);
#endif
	engine_unpin(keeper->engine, generation);
	return result;
}

static int open_all(struct keeper *keeper, struct diag *diag) {
	const struct role_context *context = keeper->context;

	window_log_listen(keeper->engine);
	if (open_journal(keeper, diag) != 0)
		return -1;
	engine_keeper_heartbeat(keeper->engine, clock_now_ns(), BEAT_NS);
	keeper->base = event_base_new();
	if (keeper->base == NULL)
		return diag_set(diag, 0, "cannot create an event loop");
	if (open_turns(keeper, diag) != 0 ||
	    front_witness_open(&keeper->witness, keeper->base, keeper->engine,
		context->netlink_fds, context->netlink_count, diag) != 0 ||
	    keeper_duties_open(&keeper->duties, context, keeper->base, diag) != 0 ||
	    control_open(&keeper->control, keeper->base, keeper->engine,
		keeper_duties_reload, keeper->duties, diag) != 0)
		return -1;
	keeper_duties_serve(keeper->duties, keeper->control);
	for (unsigned i = 0; i < context->socket_count; i++) {
		if (control_listen(keeper->control, context->sockets[i].fd,
			&context->sockets[i].access, diag) != 0)
			return -1;
	}
	if (front_hints_open(&keeper->hints, keeper->engine, context->fds[ROLE_FD_MTA],
		context->hints_group, &keeper->rest, diag) != 0)
		return -1;
	keeper_turn(keeper);
	return start_threads(keeper, diag);
}

int keeper_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag) {
	struct keeper keeper = { .context = context, .engine = engine };

	if (open_all(&keeper, diag) != 0)
		return -1;
	(void)event_base_dispatch(keeper.base);
	return keeper.stale ? 0 : diag_set(diag, 0, "the event loop ended");
}
