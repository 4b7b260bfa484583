/* SPDX-License-Identifier: ISC */
/* Operations of roles on a live segment. */
#include "tests/fuzz/live_segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/feed/feed.h"
#include "engine/session/gate.h"
#include "engine/hints/hints.h"
#include "engine/destination/windows.h"
#include "segment/cluster/cluster_told.h"
#include "segment/file/feed_position.h"
#include "segment/file/internal.h"
#include "segment/reader.h"
#include "segment/destination/recipients.h"
#include "segment/destination/shared.h"
#include "segment/file/timings.h"
#include "segment/queue/told.h"

static enum lookup_result answers;	/* of the kernel, for now */

static size_t name_of(uint8_t number, char out[32]) {
	return (size_t)snprintf(out, 32, "name%u.example", number % 32);
}

static int64_t time_of(uint8_t number) {
	return clock_now_ns() + (number % 4 == 3 ? 100 * NS_PER_SECOND : 0);
}

/* --- sessions --------------------------------------------------------------------------- */

static struct question question_of(uint8_t number) {
	struct question question = site_question(number % 3 == 0 ? "192.0.2.1" : "192.0.2.2",
	    (uint16_t)(1 + number), number % 2 ? "a.example" : NULL);

	question.owner = number % 5 == 0 ? OWNER_MILTER : OWNER_POLICY;
	question.listener = number % 7 == 0 ? 200 : number % 4;
	question.owner_socket = number % 4 == 0 ? number : 0;
	return question;
}

static void open_session(struct live *live, uint8_t number) {
	const struct question question = question_of(number);
	struct answer answer;

	engine_session_open(live->site.engine, live->site.generation, &question,
	    time_of(number), &answer);
	live->sessions[number % LIVE_KEPT] = answer.session;
}

static void ask_recipient(struct live *live, uint8_t number) {
	const struct question question = question_of(number);
	struct answer answer;
	uint32_t open, client_open;

	engine_session_recipient(live->site.engine, live->site.generation, &question,
	    time_of(number), &answer);
	engine_explain(live->site.engine, live->site.generation, &question, time_of(number),
	    &answer, &open, &client_open);
	engine_session_kept(live->site.engine, &question, time_of(number), &answer.session);
}

static void end_session(struct live *live, uint8_t number) {
	const struct session_ref *ref = &live->sessions[number % LIVE_KEPT];

	if (ref->slot == 0)
		return;
	if (number % 3 == 0)
		engine_session_close(live->site.engine, ref, time_of(number));
	else
		engine_session_ended(live->site.engine, live->site.generation, ref,
		    (enum session_owner)(number % 3), time_of(number));
}

static void expire(struct live *live, uint8_t number) {
	struct witness_news news;

	answers = (enum lookup_result)(number % 3);
	witness_expire(live->witness, live->site.generation, time_of(number));
	witness_news(live->witness, &news);
}

static void dump(struct live *live, uint8_t number) {
	struct connection list[6] = { 0 };
	uint32_t sequence;
	uint16_t ports[64];
	bool at_once;

	answers = (enum lookup_result)(number % 3);
	(void)witness_wants_dump(live->witness, live->site.generation, time_of(number),
	    &at_once);
	(void)witness_ports(live->witness, live->site.generation, ports, 64);
	sequence = witness_dump_begin(live->witness);
	for (unsigned i = 0; i < 6; i++) {
		const struct question q = question_of((uint8_t)(number + i * 3));

		list[i] = (struct connection){ .client = q.client, .server = q.server,
			.client_port = q.client_port, .server_port = 25,
			.alive = i % 3 != 2, .outbound = i == 5 };
	}
	witness_dump_end(live->witness, live->site.generation, sequence, list, number % 7,
	    time_of(number));
	witness_destroyed(live->witness, live->site.generation, &list[0], time_of(number));
}

static void beat(struct live *live, uint8_t number) {
	struct gate_watch watch = { .told = false };

	segment_role_starting(live->site.segment, ROLE_MILTER, number % 2, time_of(number));
	(void)segment_role_died(live->site.segment, number % SEGMENT_ROLES_MAX, getpid());
	engine_heartbeat(live->site.engine, time_of(number));
	segment_beat(live->site.segment, time_of(number));
	(void)gate_watch_look(&watch, live->site.engine, live->site.generation, time_of(number));
	(void)engine_timed(live->site.engine, (enum timing_kind)(number % TIMING_KINDS),
	    1u + number, clock_now_ns() - number);
	(void)segment_listener(live->site.segment, number, 25);
}

static void reload(struct live *live, uint8_t number) {
	struct generation *generation;
	struct diag diag;

	(void)number;
	if (live->reloaded)
		return;
	live->reloaded = true;
	generation = malloc((size_t)live->site.generation->bytes);
	if (generation == NULL)
		return;
	memcpy(generation, live->site.generation,
	    (size_t)live->site.generation->bytes);
	generation->number = live->first + 1;
	/* for want of a record it may not be had */
	(void)segment_publish(live->site.segment, generation, &diag);
	free(generation);
	engine_unpin(live->site.engine, live->site.generation);
	live->site.generation = engine_pin(live->site.engine);
}

/* --- what was learned --------------------------------------------------------------------- */

static void note(struct live *live, uint8_t number) {
	char relay_name[32];
	char name[32];
	size_t length = name_of(number, name);
	struct delivery_seen seen = { .name = name, .name_length = length,
		.relay_name = relay_name,
		.mta = number % 9, .cloned = number % 2 == 0 };
	struct destination_seen found;

	seen.relay_name_length = (size_t)snprintf(relay_name, sizeof(relay_name),
	    "mx%u.example", number);
	seen.relay = (struct address){ .bytes = { 1, [15] = number % 64 } };
	(void)destinations_note(live->site.segment, &seen, time_of(number));
	(void)destinations_find(live->site.segment, name, length, &found);
	(void)relays_find(live->site.segment, &seen.relay, (char[SEGMENT_NAME_MAX + 1]){ 0 });
}

static void hold_recipient(struct live *live, uint8_t number) {
	char name[32];
	size_t length = name_of(number, name);
	struct recipient_hold hold = { .address = name, .length = length,
		.rule = number,
		.until_ns = number % 2 ? INT64_MAX : time_of(number), .reason = name,
		.event = number };
	struct recipient_held held;

	(void)recipients_hold(live->site.segment, &hold, time_of(number));
	(void)recipients_find(live->site.segment, name, length, 0, &held);
}

static void release_recipient(struct live *live, uint8_t number) {
	struct segment *segment = live->site.segment;
	char name[32];
	size_t length = name_of(number, name);

	(void)recipients_release(segment, name, length, time_of(number));
	(void)recipients_expire(segment, time_of(number));
}

static bool is_even(void *context, const struct flight_process *process) {
	(void)context;
	return process->pid % 2 == 0;
}

static void look_at_flight(void *context, const struct flight_seen *seen) {
	(void)context;
	if (strlen(seen->destination) > SEGMENT_NAME_MAX)
		abort();
}

static void fly(struct live *live, uint8_t number) {
	const struct flight_process process = { 1 + number % 4, 1 };
	const struct flight_attempt attempt = { .queue_hash = 1 + number, .level = 1 };
	struct flight_ref *ref = &live->flights[number % LIVE_KEPT];
	struct flight_attempt found;
	struct state_lock lock;
	char name[32];
	size_t length = name_of(number, name);

	if (!states_aim(live->site.segment, name, length, &lock) ||
	    states_lock(&lock, time_of(number), number % 5 == 0 ? STATES_KNOWN_ONLY :
		STATES_CREATE) != STATES_HELD)
		return;
	if (!lock.state.begun)
		window_begin(&lock.state.window, &window_defaults);
	lock.state.begun = true;
	if (number % 4 == 0)
		window_suspend(&lock.state.window, WINDOW_CAUSE_RULE, time_of(number));
	lock.reason = number % 3 == 0 ? name : NULL;
	lock.event = number % 2;
	if (!flights_again(&lock, &process, &attempt, ref))
		(void)flights_take(&lock, &process, &attempt, ref);
	(void)flights_connect(&lock, &process, &attempt, ref);
	(void)flights_others_connected(&lock, &process, ref);
	states_store(&lock);
	states_unlock(&lock);
	(void)flights_find_attempt(live->site.segment, name, length, attempt.queue_hash,
	    time_of(number), &found);
	flights_each_of(live->site.segment, &process, look_at_flight, NULL);
}

static void land(struct live *live, uint8_t number) {
	uint32_t next = number, used, size;
	char name[32];
	size_t length = name_of(number, name);

	(void)flights_end(live->site.segment, &live->flights[number % LIVE_KEPT],
	    time_of(number));
	(void)flights_end_attempt(live->site.segment, name, length,
	    1 + number, time_of(number));
	(void)flights_sweep(live->site.segment, &next, 64, is_even, NULL, time_of(number));
	flights_each(live->site.segment, look_at_flight, NULL);
	flights_used(live->site.segment, &used, &size);
}

static void look_at_window(void *context, const struct destination_window *window) {
	(void)context;
	if (strlen(window->name) > SEGMENT_NAME_MAX ||
	    strlen(window->reason) > SEGMENT_REASON_MAX ||
	    (window->state.begun && !window_is_sound(&window->state.window)))
		abort();
}

static void follow(struct live *live, uint8_t number) {
	struct segment *segment = live->site.segment;
	struct destination_window window;

	for (enum state_set set = 0; set < STATE_SETS; set++) {
		struct learned_follower at = { .word = 0 };

		while (states_next(segment, set, &at, &window))
			look_at_window(NULL, &window);
	}
	(void)states_each(segment, look_at_window, NULL);
	if (number % 8 == 0) {
		states_mark_all(segment, STATES_UNKEPT);
		destinations_forget_mta(segment, number % SEGMENT_MTAS, time_of(number));
	}
}

static void take_share(struct live *live, uint8_t number) {
	struct segment *segment = live->site.segment;
	struct shared_seen seen;
	struct state_key key;
	struct shared_slot *slot;
	char name[32];
	size_t length = name_of(number, name);

	if (!states_key(segment, name, length, &key))
		return;
	slot = shared_take(segment, key.hash);
	if (slot != NULL) {
		shared_set_share(slot, number, 1);
		shared_set_canary(slot, time_of(number));
		shared_set_hold(slot, shared_node(segment, name, length), time_of(number));
		shared_set_ceiling(slot, number, number);
	}
	shared_ask(segment, key.hash, time_of(number));
	(void)shared_find(segment, key.hash, &seen);
	(void)shared_node_name(segment, number, (char[SHARED_NODE_NAME_MAX + 1]){ 0 });
	if (number % 4 == 0)
		shared_drop(segment, key.hash);
	if (number % 16 == 0)
		shared_forget_nodes(segment);
}

/* --- windows ------------------------------------------------------------------------------ */

static struct span span_of(const char *text) {
	return (struct span){ text, strlen(text) };
}

static void feed(struct live *live, uint8_t number) {
	static const char *const replies[] = { "250 2.0.0 Ok", "421 4.7.0 try again later",
		"450 4.2.1 too many connections", "550 5.1.1 no such user" };
	const struct feed_origin origin = { .log = number % 4, .offset = number };
	char name[32];
	size_t length = name_of(number, name);
	struct delivery d = { .source = DELIVERY_OF_POSTFIX, .agent = AGENT_SMTP,
		.status = number % 4 == 0 ? DELIVERY_SENT : DELIVERY_DEFERRED,
		.program = span_of("postfix/smtp"), .recipient = span_of("user@a.example"),
		.queue_id = span_of("4ZQ"), .relay = span_of("mx.example.net"),
		.relay_name = span_of("mx.example.net"), .relay_port = 25,
		.relay_address = { .bytes = { 1, [15] = 1 } },
		.text = span_of(replies[number % 4]), .dsn = { number % 4 == 0 ? 2 : 4, 0, 0 },
		.delays_ms = { 0, 0, 10, 10 }, .recipients = 1 };

	d.domain = (struct span){ name, length };
	engine_feed_start(live->site.engine, live->site.generation, 1, &d, time_of(number));
	(void)engine_feed_delivery(live->site.engine, live->site.generation, 1, &d, &origin,
	    time_of(number));
	engine_feed_turn(live->site.engine, live->site.generation, time_of(number));
}

static void do_by_hand(struct live *live, uint8_t number) {
	char name[32];
	size_t length = name_of(number, name);
	const struct by_hand request = { .verb = (enum manual_verb)(1 + number % 5),
		.name = name, .name_length = length,
		.window = number % 5 == 4 ? 2 : BY_HAND_UNSET, .ceiling = BY_HAND_UNSET,
		.reason = name, .for_ns = number % 2 ? NS_PER_SECOND : 0 };
	struct window_owner owner;

	(void)windows_by_hand(live->site.engine, live->site.generation, &request,
	    time_of(number), &owner);
}

static void view(struct live *live, uint8_t number) {
	char text[WINDOW_TEXT_MAX + 1];
	char name[32];
	size_t length = name_of(number, name);
	struct window_owner owner;
	struct window_view seen;
	struct window_held held;
	uint32_t open;
	struct outbound_answer answer;

	windows_owner(live->site.engine, live->site.generation, name, length, &owner);
	(void)windows_view(live->site.engine, live->site.generation, &owner, time_of(number),
	    &seen);
	(void)windows_text(&owner, &seen, time_of(number), text);
	windows_want(live->site.engine, &owner, &seen, number, time_of(number));
	(void)windows_issue_canary(live->site.engine, live->site.generation, &owner, 0, 1,
	    time_of(number));
	(void)windows_recipient_held(live->site.engine, live->site.generation, name,
	    length, time_of(number), &held);
	outbound_explain(live->site.engine, live->site.generation, name, length, &answer,
	    &open);
}

static void pass_time(struct live *live, uint8_t number) {
	windows_turn(live->site.engine, live->site.generation, time_of(number));
}

static void ask_outbound(struct live *live, uint8_t number) {
	struct outbound_process **process = &live->processes[number % 2];
	const struct process_identity identity = { 1 + number % 2, 7 };
	char name[32];
	size_t length = name_of(number, name);
	const struct outbound_question question = { .destination = name,
		.destination_length = length, .mta = 1, .queue_id = name,
		.queue_id_length = length, .recipient = "user@a.example",
		.recipient_length = 14,
		.stage = number % 3 == 0 ? OUTBOUND_CONNECTED : OUTBOUND_BEFORE_CONNECT,
		.server = { .bytes = { 1, [15] = number % 3 == 0 } } };
	struct outbound_answer answer;

	if (*process == NULL)
		*process = outbound_process_open(live->site.engine, &identity);
	if (*process == NULL)
		return;
	outbound_process_ask(*process, live->site.generation, &question, time_of(number),
	    &answer);
	if (number % 8 == 0)
		outbound_process_leave(*process, live->site.generation, time_of(number));
}

static void make_hints(struct live *live, uint8_t number) {
	static const struct hints_calls calls = { NULL, NULL };
	struct engine_hints *hints;
	struct diag diag;

	if (number % 4 != 0 ||
	    engine_hints_open(&hints, live->site.engine, (gid_t)-1, &calls, &diag) != 0)
		return;
	(void)engine_hints_turn(hints, time_of(number), &diag);
	engine_hints_close(&hints);
}

/* --- rings, grants, positions ------------------------------------------------------------- */

#ifdef WITH_QUEUE
static void grant(struct live *live, uint8_t number) {
	struct segment *segment = live->site.segment;
	char name[32];
	size_t length = name_of(number, name);
	const uint32_t domains[2] = { number, grants_domain(segment, "a.example", 9) };
	const struct grant grant = { .queue_id = name,
		.queue_id_length = length, .run = number,
		.mode = number % 2 ? GRANT_ONLY : GRANT_EXCEPT, .domains = domains, .count = 2 };

	if (number % 8 == 0)
		grants_begin(segment, live->site.place);
	told_publish(segment, told_key(segment, name, length, number, "u@a.example", 11));
	if (!grants_put(segment, &grant, &live->grants[number % LIVE_KEPT]))
		grants_remove(segment, &live->grants[(number + 1) % LIVE_KEPT], NULL);
}

static void ask_grant(struct live *live, uint8_t number) {
	struct segment *segment = live->site.segment;
	const struct grant_ref *ref = &live->grants[number % LIVE_KEPT];
	struct grant_asked asked;
	struct grant_seen seen;
	struct told_line line = { .pid = number, .what = number % 4 };
	char name[32];
	size_t length = name_of(number, name);

	line.id_length = (uint16_t)length;
	line.list_length = number;
	memcpy(line.id, name, length);
	(void)told_put(segment, &line);
	while (told_take(segment, &line))
		if (line.id_length > TOLD_ID_MAX || line.list_length > TOLD_LIST_MAX)
			abort();
	told_withdraw(segment, told_key(segment, name, length, number, "u@a.example", 11));
	(void)grants_ask(segment, name, length, "a.example", 9, time_of(number), &asked);
	grants_mark(segment, &asked, (enum grant_mark)(number % 6), time_of(number));
	grants_see(segment, ref, &seen);
	if (seen.deferred_count > GRANT_PUT_OFF)
		abort();
	(void)grants_withdraw(segment, ref, 7u + number);
}
#else
static void grant(struct live *live, uint8_t number) {
	(void)live, (void)number;
}

static void ask_grant(struct live *live, uint8_t number) {
	(void)live, (void)number;
}
#endif

static void decide(struct live *live, uint8_t number) {
	struct decided found;
	uint64_t lost = 0;

	for (unsigned ring = 0; ring < DECIDED_RINGS; ring++)
		for (unsigned i = 0; i < 20 && decisions_next(live->site.segment,
		    (enum decided_ring)ring, &live->decisions[ring], time_of(number), &found,
		    NULL, &lost); i++)
			if (!decided_is_sound(&found))
				abort();
	engine_decision_logged(live->site.engine, number);
}

static void use_lane(struct live *live, uint8_t number) {
	const struct lane_use use = { .domain = number, .ended_ns = clock_now_ns() };
	struct lane_use found;
	bool lost;

	lane_uses_note(live->site.segment, &use);
	for (unsigned i = 0; i < 8 && lane_uses_next(live->site.segment, &live->lanes, &found,
	    &lost); i++)
		if (found.ended_ns < 0 || found.mta >= SEGMENT_MTAS)
			abort();
}

static void read_log(struct live *live, uint8_t number) {
	const struct feed_position start = { .log = 1 + number % 2, .device = 2,
		.inode = number };
	struct feed_position positions[SEGMENT_LOG_FILES];
	const uint64_t logs[1] = { 1 };
	uint32_t records[FEED_FILES_MAX], record = feed_position_begin(live->site.segment, &start);

	feed_position_move(live->site.segment, record, &start.spot);
	feed_position_cut(live->site.segment, record);
	(void)feed_positions(live->site.segment, 1, positions, records);
	(void)feed_positions_all(live->site.segment, positions);
	(void)feed_position_counts(live->site.segment, number, number);
	if (number % 4 == 0)
		feed_positions_keep(live->site.segment, logs, 1);
}

/* Written first: whoever finds it half written waits for the writer. */
static void tell_cluster(struct live *live, uint8_t number) {
	struct cluster_record *record = &live->site.segment->header->cluster;
	struct cluster_told told = { .node_count = number % CLUSTER_TOLD_NODES };

#ifdef WITH_CLUSTER
	cluster_told_write(record, &told);
#endif
	(void)cluster_told_read(record, &told);
}

/* --- readers, and what is saved ------------------------------------------------------------- */

static void save(struct live *live, uint8_t number) {
	struct segment_saved sessions = { .written = false };
	struct diag diag;

	(void)segment_renew_sessions(live->site.segment, &sessions, time_of(number), &diag);
	(void)segment_renew_sessions(live->site.segment, &sessions, time_of(number), &diag);
}

static void see_class(void *context, const struct reader_class *class) {
	(void)context;
	if (strlen(class->name) > SEGMENT_NAME_MAX)
		abort();
}

static void see_session(void *context, const struct session *session) {
	(void)context;
	if (session->control.state >= SESSION_STATES)
		abort();
}

static void see_destination(void *context, const struct destination_seen *seen) {
	(void)context;
	if (seen->relay_count > DESTINATION_RELAYS)
		abort();
}

static void see_recipient(void *context, const struct recipient_held *held) {
	(void)context;
	if (strlen(held->reason) > SEGMENT_REASON_MAX)
		abort();
}

static void see_decision(void *context, const struct decided *decided) {
	(void)context;
	if (!decided_is_sound(decided))
		abort();
}

static void see_lane_use(void *context, const struct lane_use *use) {
	(void)context;
	(void)use;
}

static void look(struct live *live, uint8_t number) {
	struct feed_position positions[FEED_FILES_MAX];
	struct reader_status status;
	struct reader_timing timing;
	struct reader_role role;
	struct cluster_told told;
	struct segment *reader;
	struct diag diag;

	(void)number;
	if (reader_open(&reader, segment_path(live->site.segment), &diag) != 0)
		abort();
	reader_status(reader, &status);
	for (uint32_t i = 0; reader_role(reader, i, &role); i++)
		if (role.kind >= ROLE_KINDS)
			abort();
	reader_timing(reader, TIMING_KINDS - 1, &timing);
	(void)reader_cluster(reader, &told);
	(void)reader_classes(reader, see_class, NULL);
	(void)reader_sessions(reader, see_session, NULL);
	(void)destinations_each(reader, see_destination, NULL);
	(void)states_each(reader, look_at_window, NULL);
	(void)reader_log(reader, "/a", positions);
	reader_lane_uses(reader, see_lane_use, NULL);
	reader_decisions(reader, DECIDED_OF_SESSIONS, see_decision, NULL);
	(void)recipients_each(reader, clock_now_ns(), see_recipient, NULL);
	segment_unmap(&reader);
}

/* --- all of it ------------------------------------------------------------------------------ */

static enum lookup_result lookup(void *context, const struct connection *which,
    struct connection *found) {
	(void)context;
	if (found != NULL)
		*found = *which;
	return answers;
}

static bool process_lives(void *context, const struct process_identity *process) {
	(void)context;
	return process->pid % 2 == 0;
}

void live_begin(struct live *live) {
	const struct witness_calls calls = { .lookup = lookup, .process_lives = process_lives };
	struct diag diag;

	answers = LOOKUP_GONE;
	if (witness_open(&live->witness, live->site.engine, &calls, 64, &diag) != 0)
		abort();
	for (uint8_t i = 0; i < 12; i++) {
		open_session(live, i);
		note(live, i);
		fly(live, i);
		hold_recipient(live, i);
		use_lane(live, i);
		grant(live, i);
	}
}

void live_end(struct live *live) {
	for (unsigned i = 0; i < 2; i++)
		if (live->processes[i] != NULL)
			outbound_process_close(&live->processes[i], live->site.generation,
			    clock_now_ns());
	witness_close(&live->witness);
}

void live_operate(struct live *live, uint8_t which, uint8_t number) {
	static void (*const operations[LIVE_OPERATIONS])(struct live *, uint8_t number) = {
		open_session, ask_recipient, end_session, expire, dump, beat, reload, note,
		hold_recipient, release_recipient, fly, land, follow, take_share, feed,
		do_by_hand, view, pass_time, ask_outbound, make_hints, grant, ask_grant, decide,
		use_lane, read_log, tell_cluster, save, look,
	};

	operations[which % LIVE_OPERATIONS](live, number);
}
