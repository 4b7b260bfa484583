/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  When the kernel's table is read.
 * MODEL    The keeper's turns ask the engine whether a dump is wanted; a timer makes
 *          what is due before the next turn.
 *          Ordinary ones come at least half a second after the one before, a second where
 *          there is neither session nor connection, urgent ones 20 ms.
 *          Where a dump takes long (the kernel walks its whole table
 *          for it), the next one of either kind comes so much later that dumps
 *          never take more than a twentieth of the time, and one of more than 20 ms, while no
 *          session changes, a four-hundredth.  Announced ends are
 *          passed on as they come: one question to the kernel each, and none for
 *          those of ports that are not asked for.
 * ERRORS   Counted and logged; the next dump makes up for them.
 * THREADS  The keeper's one.
 */
#include "front/witness/witness.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "engine/session/witness.h"
#include "front/witness/kernel_table.h"
#include "wire/link/inet_diag.h"

#define SOURCES_MAX	16
#define UNANNOUNCED_MAX	65536
#define TURN_NS		(NS_PER_SECOND / 2)
#define URGENT_NS	(20 * NS_PER_MS)
#define REST_TURN_NS	(9 * NS_PER_SECOND / 10)
#define TURN_LEAST_NS	(100 * NS_PER_MS)
#define DUMP_SHARE	20
#define QUIET_SHARE	400
#define SMALL_SHARE	200
#define SMALL_NS	(20 * NS_PER_MS)	/* of some 20,000 connections */

struct front_witness {
	struct engine *engine;
	struct witness *witness;
	struct kernel_table *table;
	struct event *timer;
	struct event *readers[SOURCES_MAX];
	unsigned count;
	int64_t dumped_ns;	/* when the last dump was made; 0: none yet */
	int64_t spent_ns;	/* CPU time that it took */
	uint32_t version;	/* of the sessions, as it began */
	int64_t expired_ns;	/* when leases were looked at last, and what that took */
	int64_t expiry_spent_ns;
	bool urgent;		/* announcements were lost */
	bool shown;		/* the last dump showed connections */
	bool rests;
	int64_t turn_ns;	/* the next turn comes by then */
};

static void witness_arm(struct front_witness *front, int64_t after_ns) {
	struct timeval after = {
		.tv_sec = (time_t)(after_ns / NS_PER_SECOND),
		.tv_usec = (suseconds_t)(after_ns % NS_PER_SECOND / 1000) };

	(void)evtimer_add(front->timer, &after);
}

static void pass_on_ends(struct front_witness *front,
    const struct generation *generation) {
	struct connection ended;

	while (kernel_table_next_end(front->table, &ended))
		witness_destroyed(front->witness, generation, &ended,
		    clock_now_ns());
	if (kernel_table_lost(front->table)) {
		engine_count(front->engine, COUNTER_WITNESS_ERRORS, 1);
		log_event(EVENT_WITNESS,
		    "text=\"lost announcements of ended connections\"");
		front->urgent = true;
	}
}

static void read_table(struct front_witness *front,
    const struct generation *generation) {
	uint16_t local[INET_DIAG_PORTS_AT_MOST];
	struct inet_diag_ports ports = { .local = local,
		.remote = generation->remote_ports,
		.remote_count = generation->remote_port_count };
	struct connection *list;
	struct diag diag;
	uint32_t sequence;
	size_t count;

	ports.local_count = witness_ports(front->witness, generation, local,
	    INET_DIAG_PORTS_AT_MOST);
	sequence = witness_dump_begin(front->witness);
	if (kernel_table_dump(front->table, &ports, &list, &count, &diag) == 0) {
		front->shown = false;
		for (size_t i = 0; i < count; i++)
			front->shown |= list[i].alive;
		witness_dump_end(front->witness, generation, sequence, list,
		    count, clock_now_ns());
	} else {
		witness_dump_failed(front->witness, clock_now_ns());
		if (front->count > 0)
			log_event(EVENT_WITNESS, "text=\"%s\"", diag.text);
	}
}

/* The kernel's part is done in our calls, so our CPU time is what it costs. */
static void witness_dump(struct front_witness *front,
    const struct generation *generation) {
	int64_t began_ns = clock_thread_cpu_ns();

	front->urgent = false;
	front->version = witness_version(front->witness);
	read_table(front, generation);
	front->spent_ns = clock_thread_cpu_ns() - began_ns;
	front->dumped_ns = clock_now_ns();
	pass_on_ends(front, generation);
}

static int64_t later(int64_t a_ns, int64_t b_ns) {
	return a_ns > b_ns ? a_ns : b_ns;
}

/* How long after the last dump the next may come. */
static int64_t distance_ns(const struct front_witness *front, bool urgent) {
	int64_t least_ns = (DUMP_SHARE - 1) * front->spent_ns;
	int64_t quiet_ns = (QUIET_SHARE - 1) * front->spent_ns;

	if (urgent)
		return later(URGENT_NS, least_ns);
	if (front->rests)
		return later(REST_TURN_NS, quiet_ns);
	if (front->version != witness_version(front->witness))
		return later(TURN_NS, least_ns);
	/* of what a dump of a small table leaves open only the next one tells */
	return front->spent_ns <= SMALL_NS ?
	    later(TURN_NS, (SMALL_SHARE - 1) * front->spent_ns) : quiet_ns;
}

/* Makes a dump where one is due, and arms the timer for one that is before the next turn. */
static void witness_turn(struct front_witness *front,
    const struct generation *generation) {
	bool urgent = false;
	int64_t left_ns;
	bool wants = witness_wants_dump(front->witness, generation,
	    clock_now_ns(), &urgent);

	urgent = urgent || front->urgent;
	if (!wants && !urgent)
		return;
	left_ns = front->dumped_ns + distance_ns(front, urgent) - clock_now_ns();
	if (left_ns <= 0)
		witness_dump(front, generation);
	else if (left_ns < front->turn_ns && (urgent || !front->rests))
		witness_arm(front, left_ns);
}

int64_t front_witness_turn(struct front_witness *front, bool rests) {
	const struct generation *generation = engine_pin(front->engine);
	bool looks = generation->remote_port_count > 0 ||
	    generation->count_unannounced != UNANNOUNCED_NEVER;
	int64_t most_ns = looks ? NS_PER_SECOND : ENGINE_REST_NS;

	/* who has connected before an outage is to be known before */
	front->rests = rests && !front->urgent && !front->shown &&
	    !witness_has_sessions(front->witness);
	front->turn_ns = front->rests ? most_ns : TURN_LEAST_NS;
	witness_turn(front, generation);
	engine_unpin(front->engine, generation);
	return front->turn_ns;
}

static void on_timer(evutil_socket_t fd, short what, void *context) {
	struct front_witness *front = context;
	const struct generation *generation = engine_pin(front->engine);

	(void)fd;
	(void)what;
	witness_turn(front, generation);
	engine_unpin(front->engine, generation);
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
	struct front_witness *front = context;
	const struct generation *generation = engine_pin(front->engine);

	(void)what;
	kernel_table_read(front->table, fd);
	pass_on_ends(front, generation);
	witness_turn(front, generation);
	engine_unpin(front->engine, generation);
}

static int open_events(struct front_witness *front, struct event_base *base,
    const int *fds, struct diag *diag) {
	front->timer = evtimer_new(base, on_timer, front);
	if (front->timer == NULL)
		return diag_set(diag, 0, "no memory for a timer");
	for (unsigned i = 0; i < front->count; i++) {
		front->readers[i] = event_new(base, fds[i], EV_READ | EV_PERSIST,
		    on_readable, front);
		if (front->readers[i] == NULL ||
		    event_add(front->readers[i], NULL) != 0)
			return diag_set(diag, 0, "no memory for an event");
	}
	return 0;
}

static bool process_lives(void *context, const struct process_identity *process) {
	(void)context;
	return !process_is_over((pid_t)process->pid, process->start_ticks);
}

int front_witness_open(struct front_witness **result, struct event_base *base,
    struct engine *engine, const int *fds, unsigned count, struct diag *diag) {
	struct front_witness *front = calloc(1, sizeof(*front));
	struct witness_calls calls = { .lookup = kernel_table_lookup,
		.socket = kernel_table_socket, .sockets = kernel_table_sockets,
		.process_lives = process_lives };
	const struct generation *generation;

	*result = NULL;
	if (front == NULL)
		return diag_set(diag, 0, "no memory for the witness");
	MUST(count <= SOURCES_MAX);
	front->engine = engine;
	front->count = count;
	front->urgent = true;	/* the first look */
	if (kernel_table_open(&front->table, fds, count, diag) != 0 ||
	    open_events(front, base, fds, diag) != 0) {
		front_witness_close(&front);
		return -1;
	}
	calls.context = front->table;
	if (witness_open(&front->witness, engine, &calls, UNANNOUNCED_MAX,
		diag) != 0) {
		front_witness_close(&front);
		return -1;
	}
	generation = engine_pin(engine);
	witness_scope(front->witness, generation, count > 1 ? count - 1 : 0);
	engine_unpin(engine, generation);
	if (count == 0)
		log_event(EVENT_WITNESS,
		    "text=\"no netlink socket: only owners and leases end sessions\"");
	(void)front_witness_turn(front, false);
	*result = front;
	return 0;
}

void front_witness_close(struct front_witness **front) {
	if (*front == NULL)
		return;
	for (unsigned i = 0; i < (*front)->count; i++) {
		if ((*front)->readers[i] != NULL)
			event_free((*front)->readers[i]);
	}
	if ((*front)->timer != NULL)
		event_free((*front)->timer);
	witness_close(&(*front)->witness);
	kernel_table_close(&(*front)->table);
	free(*front);
	*front = NULL;
}

/* Of a million sessions that is not done each second. */
static void expire(struct front_witness *front, const struct generation *generation,
    int64_t now_ns) {
	int64_t began_ns;

	if (now_ns - front->expired_ns < (QUIET_SHARE - 1) * front->expiry_spent_ns)
		return;
	began_ns = clock_thread_cpu_ns();
	witness_expire(front->witness, generation, now_ns);
	front->expired_ns = now_ns;
	front->expiry_spent_ns = clock_thread_cpu_ns() - began_ns;
}

void front_witness_second(struct front_witness *front, int64_t now_ns) {
	const struct generation *generation = engine_pin(front->engine);
	struct witness_news news;

	expire(front, generation, now_ns);
	engine_unpin(front->engine, generation);
	witness_news(front->witness, &news);
	if (news.adopted > 0)
		log_event(EVENT_ADOPTED, "sessions=%" PRIu64, news.adopted);
	if (news.repairs > 0)
		log_event(EVENT_REPAIRED, "repairs=%" PRIu64, news.repairs);
}
