/* SPDX-License-Identifier: ISC */
/* The feed's loop, with an engine of the test's own: its signs of life, and how it
 * ends. */
#include "tests/unit/test.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/account/account_health.h"
#include "engine/feed/feed.h"
#include "engine/journal/journal_state.h"
#include "engine/feed/feed_files.h"
#include "engine/requeue/requeue.h"
#include "engine/session/told_sessions.h"
#include "front/feed/feed.h"
#include "tests/unit/front/outbound/fake_engine.h"

#define ENDS	3000

static struct {
	unsigned ends;		/* of sessions, that were told */
	unsigned last_beat;	/* ends then */
	unsigned most;		/* between two signs of life */
	unsigned beats;
	int link_fd;		/* the supervisor's; closed when all were told */
} seen;

/* --- the engine ------------------------------------------------------------------------ */

void engine_session_gone(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t said_ns, int64_t now_ns) {
	(void)generation, (void)question, (void)said_ns, (void)now_ns;
	if (engine->heartbeats != seen.beats) {
		seen.beats = engine->heartbeats;
		seen.last_beat = seen.ends;
	}
	seen.ends++;
	if (seen.ends - seen.last_beat > seen.most)
		seen.most = seen.ends - seen.last_beat;
	if (seen.ends == ENDS)
		close(seen.link_fd);
}

struct feed_outcome engine_feed_delivery(struct engine *engine,
    const struct generation *generation, unsigned mtas, const struct delivery *delivery,
    const struct feed_origin *origin, int64_t now_ns) {
	(void)engine, (void)generation, (void)mtas, (void)delivery, (void)origin, (void)now_ns;
	return (struct feed_outcome){ .judgement = NULL };
}

void engine_feed_expect(struct engine *engine, const struct delivery *const *deliveries,
    unsigned count) {
	(void)engine, (void)deliveries, (void)count;
}

void engine_account_result(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *delivery, const struct judgement *judgement,
    int64_t at_ns) {
	(void)engine, (void)generation, (void)mtas, (void)delivery, (void)judgement, (void)at_ns;
}

void engine_account_suspects_turn(struct engine *engine, const struct generation *generation,
    int64_t now_ns) {
	(void)engine, (void)generation, (void)now_ns;
}

void engine_account_removed(struct engine *engine, const struct generation *generation,
    unsigned mta, const char *queue_id, size_t length, int64_t at_ns) {
	(void)engine, (void)generation, (void)mta, (void)queue_id, (void)length, (void)at_ns;
}

void engine_account_listen(struct engine *engine, void (*tell)(
    const struct generation *generation, const struct account_trip *trip)) {
	(void)engine, (void)tell;
}

unsigned engine_feed_postfix(const struct generation *generation, unsigned mtas,
    struct span program) {
	(void)generation, (void)mtas, (void)program;
	return GENERATION_MTAS_MAX;
}

void engine_feed_start(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *delivery, int64_t now_ns) {
	(void)engine, (void)generation, (void)mtas, (void)delivery, (void)now_ns;
}

int journal_states_open(struct journal_states **states, struct engine *engine,
    const struct generation *generation, const struct journal_listener *listener,
    int64_t now_ns, struct diag *diag) {
	(void)engine, (void)generation, (void)listener, (void)now_ns, (void)diag;
	*states = NULL;
	return 0;
}

void journal_states_begin(struct journal_states *state) {
	(void)state;
}

void journal_states_turn(struct journal_states *states, int64_t now_ns, int64_t wall_ns) {
	(void)states, (void)now_ns, (void)wall_ns;
}

void journal_states_close(struct journal_states **states) {
	(void)states;
}

bool engine_feed_wants_told(const struct generation *generation, unsigned mtas) {
	(void)generation, (void)mtas;
	return false;
}

void engine_feed_told(struct engine *engine, const struct delivery *delivery,
    const struct feed_told_line *line, const struct feed_origin *origin) {
	(void)engine, (void)delivery, (void)line, (void)origin;
}

void engine_feed_reached(struct engine *engine, int64_t ns) {
	(void)engine, (void)ns;
}

void engine_feed_turn(struct engine *engine, const struct generation *generation,
    int64_t now_ns) {
	(void)engine, (void)generation, (void)now_ns;
}

unsigned engine_feed_files(const struct engine *engine, uint64_t log,
    struct feed_position out[FEED_FILES_MAX], uint32_t records[FEED_FILES_MAX]) {
	(void)engine, (void)log, (void)out, (void)records;
	return 0;
}

static uint32_t no_record(struct segment *segment, const struct feed_position *position) {
	(void)segment, (void)position;
	return FEED_NO_RECORD;
}

static void not_moved(struct segment *segment, uint32_t record, const struct feed_spot *spot) {
	(void)segment, (void)record, (void)spot;
}

static void not_kept(struct segment *segment, uint32_t record) {
	(void)segment, (void)record;
}

void engine_feed_reading(struct engine *engine, uint64_t origin) {
	(void)engine, (void)origin;
}

uint64_t engine_feed_read_last(const struct engine *engine) {
	(void)engine;
	return 0;
}

struct feed_keeper engine_feed_keeper(struct engine *engine) {
	(void)engine;
	return (struct feed_keeper){ no_record, not_moved, not_kept, not_kept, NULL };
}

void engine_feed_logs_keep(struct engine *engine, const uint64_t logs[], unsigned count) {
	(void)engine, (void)logs, (void)count;
}

void windows_listen(struct engine *engine,
    bool (*report)(void *context, const struct window_report *), void *context) {
	(void)engine, (void)report, (void)context;
}

const char *windows_by_word(unsigned by) {
	(void)by;
	return "";
}

int requeue_open(struct requeue **requeue, struct engine *engine,
    const struct requeue_calls *calls, struct diag *diag) {
	(void)engine, (void)calls, (void)diag;
	*requeue = NULL;
	return 0;
}

void requeue_close(struct requeue **requeue) {
	(void)requeue;
}

bool requeue_note(struct requeue *requeue, const struct generation *generation,
    const struct requeue_result *result, int64_t now_ns) {
	(void)requeue, (void)generation, (void)result, (void)now_ns;
	return false;
}

bool requeue_active(struct requeue *requeue, const struct generation *generation, unsigned mta,
    struct span id, struct span sender) {
	(void)requeue, (void)generation, (void)mta, (void)id, (void)sender;
	return false;
}

bool requeue_removed(struct requeue *requeue, unsigned mta, struct span queue_id) {
	(void)requeue, (void)mta, (void)queue_id;
	return false;
}

void requeue_list_recipient(struct requeue *requeue, const struct generation *generation,
    unsigned mta, struct span queue_id, struct span recipient, struct span reason,
    int64_t arrival_ns, int64_t now_ns) {
	(void)requeue, (void)generation, (void)mta, (void)queue_id, (void)recipient;
	(void)reason, (void)arrival_ns, (void)now_ns;
}

void requeue_listed(struct requeue *requeue, unsigned mta, bool whole, int64_t now_ns) {
	(void)requeue, (void)mta, (void)whole, (void)now_ns;
}

void requeue_flush_failed(struct requeue *requeue, unsigned mta, const char *queue_id,
    int64_t now_ns) {
	(void)requeue, (void)mta, (void)queue_id, (void)now_ns;
}

int64_t requeue_turn(struct requeue *requeue, const struct generation *generation,
    int64_t now_ns) {
	(void)requeue, (void)generation, (void)now_ns;
	return INT64_MAX;
}

/* --- tests ------------------------------------------------------------------------------- */

static void no_line(void *context, const char *text) {
	(void)context, (void)text;
}

/* A feed with a link and, where `listening` is not -1, an event socket.  Says why it
 * ended. */
static const char *run(int listening) {
	static struct diag diag;
	const struct feed_socket socket = { .fd = listening, .kind = LISTENER_EVENTS };
	struct feed_setup setup = { .sockets = &socket, .socket_count = listening >= 0 };
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	setup.mta_fd = fds[0];
	seen.link_fd = fds[1];
	if (listening < 0)
		close(fds[1]);
	assert_int_equal(feed_run(&fake, &setup, &diag), -1);
	return diag.text;
}

static int set_up(void **state) {
	(void)state;
	memset(&seen, 0, sizeof(seen));
	fake_reset();
	log_redirect(no_line, NULL);
	return 0;
}

/* Who is started in its place has a new one; else mail that waits would never be asked
 * for again. */
TEST_IN(set_up, NULL, a_feed_that_lost_its_link_ends) {
	assert_string_equal(run(-1), "the supervisor closed its link");
	assert_int_equal(fake.pins, 0);
}

/* One read has thousands of them, each of which may wait for a lock. */
TEST_IN(set_up, NULL, ends_of_sessions_do_not_silence_the_heartbeat) {
	static const char text[] = "close client=203.0.113.5 client_port=4000\n";
	struct sockaddr_un place = { .sun_family = AF_UNIX };
	int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	socklen_t length = sizeof(place);
	static char all[ENDS * sizeof(text)];

	assert_int_equal(bind(listening, (struct sockaddr *)&place, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(listening, 1), 0);
	assert_int_equal(getsockname(listening, (struct sockaddr *)&place, &length), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&place, length), 0);
	for (unsigned i = 0; i < ENDS; i++)
		memcpy(all + i * (sizeof(text) - 1), text, sizeof(text) - 1);
	assert_int_equal(send(fd, all, ENDS * (sizeof(text) - 1), 0), ENDS * (sizeof(text) - 1));
	assert_string_equal(run(listening), "the supervisor closed its link");
	assert_int_equal(seen.ends, ENDS);
	/* of 50 ms each: far from 3 s */
	assert_true(seen.most <= 20);
	close(fd);
}
