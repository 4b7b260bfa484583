/* SPDX-License-Identifier: ISC */
/* What clients, MTAs and delivering processes do, and what they are told. */
#include "tests/unit/engine/engine_world_state.h"

static const char *const names[] = { NULL, "a.example", "mx.net.example",
	"other.test" };
static const char *const hosts[] = { "a.example", "b.net.example", "c.test",
	"[203.0.113.7]" };

/* --- the law, by the world's count ------------------------------------------ */

bool holds(const struct process *process, const char *class) {
	for (unsigned h = 0; h < HOSTS; h++) {
		if (strcmp(process->host_class[h], class) == 0)
			return true;
	}
	for (unsigned k = 0; k < process->kept_count; k++) {
		if (strcmp(process->kept[k], class) == 0)
			return true;
	}
	return false;
}

/* Live sessions of which we know that they were admitted to the class. */
static uint32_t live_in(const char *class) {
	uint32_t count = 0;

	for (unsigned i = 0; i < CONNS; i++)
		count += conns[i].live && !conns[i].outbound &&
		    !conns[i].invisible && conns[i].standing == COUNTED &&
		    strcmp(conns[i].class, class) == 0;
	for (unsigned i = 0; i < PROCESSES; i++)
		count += processes[i].live && holds(&processes[i], class);
	return count;
}

static const char *class_name(const struct generation *generation,
    const struct answer *answer) {
	return generation_text(generation,
	    generation_class(generation, answer->class_index)->name);
}

static void check_limit(const struct generation *generation,
    const struct answer *answer, bool outbound) {
	const struct limits *limits;
	const char *class;

	if (answer->decision.verdict != VERDICT_ADMIT || answer->observed ||
	    answer->decision.reason != REASON_BELOW_LIMIT)
		return;
	class = class_name(generation, answer);
	limits = &generation_class(generation, answer->class_index)->limits;
	if (live_in(class) > (outbound ? limits->sessions : limits->inbound))
		wrong("admitted above the limit", class);
	if (atomic_load(&site_class(&site, class)->open) >
	    (outbound ? limits->sessions : limits->inbound))
		wrong("counted above the limit", class);
}

/* --- inbound ------------------------------------------------------------------ */

static bool tuple_is_taken(const struct address *client, uint16_t port) {
	for (unsigned i = 0; i < CONNS; i++) {
		if (conns[i].live && !conns[i].outbound &&
		    ((conns[i].port == port &&
			 address_equal(&conns[i].client, client)) ||
			(conns[i].key_port == port &&
			    address_equal(&conns[i].key, client))))
			return true;
	}
	return false;
}

static struct conn *free_conn(void) {
	for (unsigned i = 0; i < CONNS; i++) {
		if (!conns[i].live)
			return &conns[i];
	}
	return NULL;
}

static void take_answer(struct conn *conn, const struct generation *generation,
    const struct answer *answer) {
	struct session session;

	conn->ref = answer->session;
	conn->any_class = false;
	if (answer->decision.verdict == VERDICT_REFUSE) {
		conn->standing = REFUSED;
		conn->refused_ns = now_ns;
	} else if (answer->decision.verdict == VERDICT_DEFER) {
		conn->standing = DEFERRED;
	} else if (answer->decision.reason == REASON_KNOWN_SESSION) {
		session_load(site.segment, answer->session.slot - 1, &session);
		conn->any_class = true;
		conn->standing = session.control.state == SESSION_OPEN ? COUNTED :
		    session.control.state == SESSION_DEFERRED ? DEFERRED
							      : IN_NO_COUNT;
	} else if (answer->decision.reason == REASON_NO_CLASS ||
	    answer->decision.reason == REASON_EXEMPT) {
		conn->standing = IN_NO_COUNT;
	} else {
		conn->standing = COUNTED;
		snprintf(conn->class, sizeof(conn->class), "%s",
		    class_name(generation, answer));
		check_limit(generation, answer, false);
	}
}

static struct question question_of(const struct conn *conn, const char *name) {
	struct question question = { .client = conn->key,
		.client_port = conn->key_port,
		.server = address_of("192.0.2", 25), .server_port = 25,
		.name = name, .name_length = name == NULL ? 0 : strlen(name),
		.listener = conn->invisible ? site.lease_listener
					    : site.auto_listener,
		.owner = OWNER_POLICY };

	return question;
}

static void ask_milter(struct conn *conn, const char *name) {
	struct question question = question_of(conn, name);
	struct answer answer;
	bool known = conn->standing != UNASKED;

	question.owner = OWNER_MILTER;
	question.listener = site.milter_listener;
	question.connect_only = true;
	question.shown = conn->shown = !chance(3);
	milter.generation = pin(milter.engine, milter.generation);
	engine_session_open(milter.engine, milter.generation, &question, now_ns,
	    &answer);
	conn->milter = true;
	if (known && answer.decision.verdict == VERDICT_ADMIT &&
	    answer.decision.reason == REASON_KNOWN_SESSION)
		conn->ref = answer.session;
	else
		take_answer(conn, milter.generation, &answer);
}

void connect_in(void) {
	struct conn *conn = free_conn();
	const char *name = names[below(4)];
	struct question question;
	struct answer answer;
	unsigned ways = 1 + below(3);

	if (conn == NULL)
		return;
	*conn = (struct conn){ .live = true, .invisible = chance(10),
		.client = address_of("192.0.2", 6 + below(4)),
		.port = (uint16_t)(1 + below(20)) };
	if (chance(30))
		conn->client = address_of("203.0.113", 1 + below(3));
	if ((ways & 1) == 0)
		conn->invisible = false;
	/* who is let in unasked must not be taken for another one */
	if (((ways & 1) != 0 && policy.engine == NULL) ||
	    (ways == 2 && milter.engine == NULL) ||
	    tuple_is_taken(&conn->client, conn->port) || chance(20))
		conn->port = next_port++;
	conn->key = conn->client;
	conn->key_port = conn->port;
	if ((ways & 1) != 0 && policy.engine != NULL) {
		question = question_of(conn, name);
		policy.generation = pin(policy.engine, policy.generation);
		engine_session_open(policy.engine, policy.generation, &question,
		    now_ns, &answer);
		conn->policy = true;
		take_answer(conn, policy.generation, &answer);
	}
	if ((ways & 2) != 0 && milter.engine != NULL && !conn->invisible &&
	    conn->standing != REFUSED)
		ask_milter(conn, name);
	if (conn->invisible && conn->standing == UNASKED)
		conn->live = false;
}

void xclient(struct conn *conn) {
	/* then the engine's word for it is not the carrier's */
	bool renamed = conn->key_port != conn->port;
	struct question question;
	struct answer answer;

	if (policy.engine == NULL || !conn->policy || conn->milter ||
	    conn->outbound || conn->invisible || conn->standing == REFUSED)
		return;
	conn->key = address_of("198.51.100", below(4));
	conn->key_port = next_port++;
	question = question_of(conn, names[below(4)]);
	question.carried = true;
	question.carrier_client = conn->client;
	question.carrier_port = conn->port;
	if (renamed)
		engine_session_close(policy.engine, &conn->ref, now_ns);
	policy.generation = pin(policy.engine, policy.generation);
	engine_session_open(policy.engine, policy.generation, &question, now_ns,
	    &answer);
	take_answer(conn, policy.generation, &answer);
}

void recipient(struct conn *conn) {
	struct question question = question_of(conn, names[below(4)]);
	struct answer answer;

	if (policy.engine == NULL || conn->standing != DEFERRED)
		return;
	policy.generation = pin(policy.engine, policy.generation);
	engine_session_recipient(policy.engine, policy.generation, &question,
	    now_ns, &answer);
	/* decided by what it is called now */
	if (answer.decision.verdict == VERDICT_ADMIT &&
	    answer.decision.reason != REASON_NO_CLASS &&
	    answer.decision.reason != REASON_EXEMPT)
		take_answer(conn, policy.generation, &answer);
}

void disconnect(struct conn *conn) {
	struct connection ended;
	const struct generation *generation;

	conn->live = false;
	if (conn->outbound || !conn->invisible) {
		to_connection(conn, &ended);
		ended.alive = false;
		if (chance(20))
			memset(&ended.server, 0, sizeof(ended.server));
		if (chance(60)) {
			generation = engine_pin(keeper);
			witness_destroyed(witness, generation, &ended, now_ns);
			engine_unpin(keeper, generation);
		}
	}
	/* of what nobody ever saw, a role that lives has the only word: it keeps it */
	if (conn->milter && milter.engine != NULL && (!conn->shown || chance(90)))
		engine_session_ended(milter.engine, milter.generation,
		    &conn->ref, OWNER_MILTER, now_ns);
	if (!conn->policy)
		return;
	if (policy.engine != NULL && chance(60))
		engine_session_ended(policy.engine, policy.generation,
		    &conn->ref, chance(50) ? OWNER_POLICY : OWNER_POLICY_GONE,
		    now_ns);
	else
		stale[below(16)] = conn->ref;
}

/* The end of something long past. */
void say_stale_end(void) {
	const struct session_ref *ref = &stale[below(16)];

	if (policy.engine != NULL && ref->slot != 0 &&
	    !tuple_is_taken(&ref->client, ref->client_port))
		engine_session_ended(policy.engine, policy.generation, ref,
		    OWNER_POLICY, now_ns);
}

void policy_connection_ends(struct conn *conn) {
	if (policy.engine != NULL && conn->policy && !conn->outbound &&
	    !conn->invisible && conn->standing != REFUSED)
		engine_session_ended(policy.engine, policy.generation,
		    &conn->ref, OWNER_POLICY_GONE, now_ns);
}

/* --- outbound -------------------------------------------------------------------- */

void connect_out(void) {
	struct conn *conn = free_conn();

	if (conn == NULL)
		return;
	*conn = (struct conn){ .live = true, .outbound = true,
		.client = address_of("192.0.2", 25), .port = next_port++,
		.server = (uint8_t)below(8), .uid = chance(80) ? 89 : 0 };
}

void relay_is_named(void) {
	unsigned number = below(8);
	const char *name = names[1 + below(3)];
	struct delivery_seen seen = { .name = "d.example", .name_length = 9,
		.relay = server_of(number), .relay_name = name,
		.relay_name_length = strlen(name), .mta = 1 };

	if (destinations_note(site.segment, &seen, now_ns))
		snprintf(relay_names[number], sizeof(relay_names[number]), "%s",
		    name);
}

void process_asks(struct process *process) {
	unsigned host = below(HOSTS), number = below(8);
	const char *name = names[1 + below(3)];
	struct outbound_question question = { .mta = 0,
		.destination = hosts[host],
		.destination_length = strlen(hosts[host]) };
	struct outbound_answer answer;

	if (policy.engine == NULL)
		return;
	if (!process->live) {
		*process = (struct process){ .live = true,
			.identity = { next_pid++, 5 } };
	}
	if (process->handle == NULL)
		process->handle = outbound_process_open(policy.engine,
		    &process->identity);
	policy.generation = pin(policy.engine, policy.generation);
	if (chance(40)) {
		question.stage = OUTBOUND_CONNECTED;
		question.server = server_of(number);
		question.server_name = name;
		question.server_name_length = strlen(name);
		snprintf(relay_names[number], sizeof(relay_names[number]), "%s",
		    name);
	}
	outbound_process_ask(process->handle, policy.generation, &question,
	    now_ns, &answer);
	process->host_class[host][0] = '\0';
	if (answer.answer.decision.verdict == VERDICT_ADMIT &&
	    answer.answer.class_index != CLASS_NO_RULE)
		snprintf(process->host_class[host],
		    sizeof(process->host_class[host]), "%s",
		    class_name(policy.generation, &answer.answer));
	check_limit(policy.generation, &answer.answer, true);
}

void process_dies(struct process *process) {
	if (process->live && process->handle != NULL)
		outbound_process_close(&process->handle, policy.generation,
		    now_ns);
	process->live = false;
}
