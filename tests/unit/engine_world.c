/* SPDX-License-Identifier: ISC */
#include "engine_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/outbound.h"
#include "engine/witness.h"
#include "random.h"
#include "segment/destinations.h"
#include "segment/internal.h"
#include "segment/sessions.h"
#include "site.h"

#define MTAS "mta = ( { kind = \"sendmail\"; user = \"root\"; }, " \
	"{ kind = \"postfix\"; } ); adopt = \"always\"; exempt = [ \"192.0.2.9\" ];"
#define CLASS(name, mask, sessions, inbound, more) "{ name = \"" name "\"; " \
	"match = [ " mask " ]; sessions = " #sessions "; inbound = " #inbound \
	"; " more "}"
#define NET	"\"203.0.113.0/25\", \"*.net.example\""

static const char *const configurations[] = {
	"classes = ( " CLASS("net", NET, 4, 3, "") ", "
	CLASS("dom", "\"*.example\"", 3, 3, "") ", "
	CLASS("all", "\"*\"", 9, 7, "client = { sessions = 3; }; ") " ); " MTAS,
	/* other limits, other order */
	"classes = ( " CLASS("dom", "\"*.example\"", 2, 4, "") ", "
	CLASS("net", NET, 2, 2, "action = \"defer\"; ") ", "
	CLASS("all", "\"*\"", 20, 5, "") " ); " MTAS,
	/* one is gone, one renamed, some match nothing */
	"classes = ( " CLASS("nets", NET, 5, 5, "client = { sessions = 2; }; ") ", "
	CLASS("dom", "\"*.example\"", 3, 2, "observe = true; ") " ); " MTAS,
	"classes = ( " CLASS("all", "\"*\"", 6, 6, "action = \"defer\"; ") " ); "
	MTAS,
};
#define CONFIGURATIONS	(sizeof(configurations) / sizeof(configurations[0]))

static const char *const names[] = { NULL, "a.example", "mx.net.example",
	"other.test" };
static const char *const hosts[] = { "a.example", "b.net.example", "c.test",
	"[203.0.113.7]" };
#define HOSTS	4

enum standing { UNASKED, COUNTED, IN_NO_COUNT, DEFERRED, REFUSED };

struct conn {
	bool live;
	bool outbound;
	bool invisible;			/* the kernel does not show it: a proxy's */
	bool any_class;			/* the engine may choose it */
	bool policy, milter;		/* who knows of it */
	uint8_t server;			/* outbound: number of the address */
	enum standing standing;
	uint32_t uid;
	int64_t refused_ns;
	char class[16];
	struct address client;		/* as the kernel has it */
	uint16_t port;
	struct address key;		/* as we were told */
	uint16_t key_port;
	struct session_ref ref;
};

struct process {
	bool live;
	struct process_identity identity;
	struct outbound_process *handle;	/* NULL: no map connection */
	char host_class[HOSTS][16];		/* "": not admitted, or no class */
	char kept[16][16];			/* of earlier map connections */
	unsigned kept_count;
};

struct role {
	unsigned place;
	struct engine *engine;			/* NULL: away */
	const struct generation *generation;
};

#define CONNS		96
#define PROCESSES	8
#define LOST_MAX	4096

static struct site site;
static struct role policy, milter;
static struct witness *witness;
static struct engine *keeper;
static struct conn conns[CONNS];
static struct process processes[PROCESSES];
static char relay_names[8][16];
static struct engine *lost_engines[LOST_MAX];
static struct outbound_process *lost_handles[LOST_MAX];
static unsigned lost_engine_count, lost_handle_count;
static struct session_ref stale[16];
static int64_t now_ns;
static struct random random_state;
static uint64_t seed;
static uint16_t next_port;
static int32_t next_pid;
static struct connection late_list[CONNS];	/* a dump on its way */
static size_t late_count;
static uint32_t late_sequence;
static bool late;
static int64_t read_ns;			/* the last good dump */

static unsigned below(unsigned limit) {
	return random_below(&random_state, limit);
}

static bool chance(unsigned percent) {
	return below(100) < percent;
}

static void wrong(const char *what, const char *class) {
	fprintf(stderr, "TEST_SEED=%llu: %s (class %s)\n", (unsigned long long)seed,
	    what, class);
	abort();
}

static struct address address_of(const char *net, unsigned last) {
	char text[40];
	struct address address;

	snprintf(text, sizeof(text), "%s.%u", net, last);
	if (!address_parse(text, strlen(text), &address))
		wrong("address", text);
	return address;
}

static struct address server_of(unsigned number) {
	/* half of them in the class of networks */
	return address_of("203.0.113", 60 + number * 20);
}

/* --- the kernel ----------------------------------------------------------- */

static void to_connection(const struct conn *conn, struct connection *out) {
	*out = (struct connection){ .client = conn->client,
		.client_port = conn->port, .server_port = 25, .alive = true,
		.outbound = conn->outbound, .uid = conn->uid,
		.server = conn->outbound ? server_of(conn->server)
					 : address_of("192.0.2", 25) };
}

static enum lookup_result look_up(void *context, const struct connection *which,
    struct connection *found) {
	struct connection there;

	(void)context;
	if (chance(3))
		return LOOKUP_UNKNOWN;
	for (unsigned i = 0; i < CONNS; i++) {
		if (!conns[i].live || conns[i].invisible)
			continue;
		to_connection(&conns[i], &there);
		if (there.outbound != which->outbound ||
		    there.client_port != which->client_port ||
		    !address_equal(&there.client, &which->client) ||
		    (which->server_port != 0 &&
			!address_equal(&there.server, &which->server)))
			continue;
		if (found != NULL)
			*found = there;
		return LOOKUP_ALIVE;
	}
	return LOOKUP_GONE;
}

static bool process_lives(void *context, const struct process_identity *who) {
	(void)context;
	for (unsigned i = 0; i < PROCESSES; i++) {
		if (processes[i].live &&
		    processes[i].identity.pid == who->pid &&
		    processes[i].identity.start_ticks == who->start_ticks)
			return true;
	}
	return false;
}

static size_t kernel_list(struct connection *list, unsigned missing_percent) {
	size_t count = 0;

	read_ns = now_ns;
	for (unsigned i = 0; i < CONNS; i++) {
		if (conns[i].live && !conns[i].invisible &&
		    !chance(missing_percent))
			to_connection(&conns[i], &list[count++]);
	}
	return count;
}

static const struct generation *pin(struct engine *engine,
    const struct generation *held) {
	if (held != NULL)
		engine_unpin(engine, held);
	return engine_pin(engine);
}

static void dump(unsigned missing_percent) {
	struct connection list[CONNS];
	uint32_t sequence = witness_dump_begin(witness);
	size_t count = kernel_list(list, missing_percent);
	const struct generation *generation = engine_pin(keeper);

	witness_dump_end(witness, generation, sequence, list, count, now_ns);
	engine_unpin(keeper, generation);
}

static void late_dump(void) {
	const struct generation *generation;

	if (!late) {
		late_sequence = witness_dump_begin(witness);
		late_count = kernel_list(late_list, 0);
		late = true;
		return;
	}
	generation = engine_pin(keeper);
	witness_dump_end(witness, generation, late_sequence, late_list,
	    late_count, now_ns);
	engine_unpin(keeper, generation);
	late = false;
}

static void expire(void) {
	const struct generation *generation = engine_pin(keeper);

	witness_expire(witness, generation, now_ns);
	engine_unpin(keeper, generation);
}

/* --- the law, by the world's count ------------------------------------------ */

static bool holds(const struct process *process, const char *class) {
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

static void connect_in(void) {
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

static void xclient(struct conn *conn) {
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

static void recipient(struct conn *conn) {
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

static void disconnect(struct conn *conn) {
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
	if (conn->milter && milter.engine != NULL && chance(90))
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
static void say_stale_end(void) {
	const struct session_ref *ref = &stale[below(16)];

	if (policy.engine != NULL && ref->slot != 0 &&
	    !tuple_is_taken(&ref->client, ref->client_port))
		engine_session_ended(policy.engine, policy.generation, ref,
		    OWNER_POLICY, now_ns);
}

static void policy_connection_ends(struct conn *conn) {
	if (policy.engine != NULL && conn->policy && !conn->outbound &&
	    !conn->invisible && conn->standing != REFUSED)
		engine_session_ended(policy.engine, policy.generation,
		    &conn->ref, OWNER_POLICY_GONE, now_ns);
}

/* --- outbound -------------------------------------------------------------------- */

static void connect_out(void) {
	struct conn *conn = free_conn();

	if (conn == NULL)
		return;
	*conn = (struct conn){ .live = true, .outbound = true,
		.client = address_of("192.0.2", 25), .port = next_port++,
		.server = (uint8_t)below(8), .uid = chance(80) ? 89 : 0 };
}

static void relay_is_named(void) {
	unsigned number = below(8);
	const char *name = names[1 + below(3)];
	struct delivery_seen seen = { .name = "d.example", .name_length = 9,
		.relay = server_of(number), .relay_name = name,
		.relay_name_length = strlen(name), .mta = 1 };

	if (destinations_note(site.segment, &seen, now_ns))
		snprintf(relay_names[number], sizeof(relay_names[number]), "%s",
		    name);
}

static void process_asks(struct process *process) {
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

static void process_dies(struct process *process) {
	if (process->live && process->handle != NULL)
		outbound_process_close(&process->handle, policy.generation,
		    now_ns);
	process->live = false;
}

/* Its map connection is lost with the role: what it holds is kept to its end. */
static void lose_handle(struct process *process) {
	if (process->handle == NULL)
		return;
	lost_handles[lost_handle_count++] = process->handle;
	process->handle = NULL;
	for (unsigned h = 0; h < HOSTS; h++) {
		char class[16];

		memcpy(class, process->host_class[h], sizeof(class));
		process->host_class[h][0] = '\0';
		if (class[0] != '\0' && !holds(process, class) &&
		    process->kept_count < 16)
			memcpy(process->kept[process->kept_count++], class,
			    sizeof(class));
	}
}

/* --- roles and configurations ------------------------------------------------------ */

static void role_starts(struct role *role) {
	struct diag diag;

	segment_role_starting(site.segment, role->place, now_ns);
	segment_role_started(site.segment, role->place, 1);
	if (engine_open(&role->engine, site.segment, role->place, &diag) != 0)
		wrong("engine_open", diag.text);
	role->generation = engine_pin(role->engine);
	engine_heartbeat(role->engine, now_ns);
}

static void role_dies(struct role *role) {
	if (role->engine == NULL || lost_engine_count == LOST_MAX ||
	    lost_handle_count + PROCESSES > LOST_MAX)
		return;
	for (unsigned i = 0; role == &policy && i < PROCESSES; i++)
		lose_handle(&processes[i]);
	segment_role_died(site.segment, role->place, now_ns);
	engine_unpin(role->engine, role->generation);
	lost_engines[lost_engine_count++] = role->engine;
	*role = (struct role){ .place = role->place };
}

static void restart(struct role *role) {
	if (role->engine == NULL)
		role_starts(role);
}

static void beat(void) {
	if (policy.engine != NULL)
		engine_heartbeat(policy.engine, now_ns);
	if (milter.engine != NULL)
		engine_heartbeat(milter.engine, now_ns);
	engine_heartbeat(keeper, now_ns);
}

static void pass(int64_t ns) {
	now_ns += ns;
	beat();
}

void world_open(uint64_t with_seed) {
	const struct witness_calls calls = { .lookup = look_up,
		.process_lives = process_lives };
	struct diag diag;

	seed = random_state.state = with_seed;
	memset(conns, 0, sizeof(conns));
	memset(processes, 0, sizeof(processes));
	memset(relay_names, 0, sizeof(relay_names));
	memset(stale, 0, sizeof(stale));
	lost_engine_count = lost_handle_count = 0;
	late = false;
	next_port = 1000;
	next_pid = 1;
	site_open(&site, 4000, configurations[0]);
	now_ns = clock_now_ns();
	keeper = site.engine;
	policy = (struct role){ .place =
		segment_role_place(site.segment, ROLE_POLICY, 1) };
	milter = (struct role){ .place =
		segment_role_place(site.segment, ROLE_MILTER, 0) };
	role_starts(&policy);
	role_starts(&milter);
	if (witness_open(&witness, keeper, &calls, 4 * CONNS, &diag) != 0)
		wrong("witness_open", diag.text);
}

static void role_step(void) {
	switch (below(5)) {
	case 0:
		role_dies(&policy);
		break;
	case 1:
		role_dies(&milter);
		break;
	case 2:
		restart(&milter);
		break;
	default:
		restart(&policy);
	}
}

/* The keeper is never blind for long: then hints would be final, as they must. */
static void keeper_step(void) {
	unsigned what = below(12);

	if (what < 5)
		dump(0);
	else if (what < 7)
		dump(30);
	else if (what < 9)
		late_dump();
	else if (what == 9 && now_ns - read_ns < 5 * NS_PER_SECOND)
		witness_dump_failed(witness, now_ns);
	else
		expire();
}

static void conn_step(struct conn *conn) {
	if (!conn->live)
		return;
	/* who is told 421 goes away */
	if (conn->standing == REFUSED && !conn->outbound &&
	    now_ns - conn->refused_ns > 5 * NS_PER_SECOND) {
		disconnect(conn);
		return;
	}
	switch (below(6)) {
	case 0:
		xclient(conn);
		break;
	case 1:
		recipient(conn);
		break;
	case 2:
		policy_connection_ends(conn);
		break;
	default:
		disconnect(conn);
	}
}

void world_step(void) {
	unsigned what = below(100);

	pass((int64_t)below(300) * NS_PER_MS);
	if (now_ns - read_ns > 5 * NS_PER_SECOND)
		dump(0);
	if (what < 30)
		connect_in();
	else if (what < 55)
		conn_step(&conns[below(CONNS)]);
	else if (what < 62)
		connect_out();
	else if (what < 74)
		process_asks(&processes[below(PROCESSES)]);
	else if (what < 77)
		process_dies(&processes[below(PROCESSES)]);
	else if (what < 79)
		relay_is_named();
	else if (what < 92)
		keeper_step();
	else if (what < 95)
		say_stale_end();
	else if (what < 98)
		role_step();
	else
		site_reload(&site, configurations[below(CONFIGURATIONS)]);
}

/* --- at rest ------------------------------------------------------------------------ */

void world_rest(void) {
	restart(&policy);
	restart(&milter);
	late = false;
	for (int i = 0; i < 12; i++) {
		pass(600 * NS_PER_MS);
		dump(0);
		expire();
	}
}

void world_wait_for_leases(void) {
	for (int i = 0; i < 80; i++) {
		pass(60 * NS_PER_SECOND);
		dump(0);
		expire();
	}
	for (unsigned i = 0; i < CONNS; i++) {
		if (conns[i].invisible)
			conns[i].live = false;
	}
}

static bool is_slot_of(const struct session *session, const struct conn *conn) {
	struct address server = server_of(conn->server);

	if (session->control.direction !=
		(conn->outbound ? SESSION_OUTBOUND : SESSION_INBOUND) ||
	    (session->control.flags & SESSION_FLAG_PROCESS) != 0)
		return false;
	if (conn->outbound)
		return session->client_port == conn->port &&
		    address_equal(&session->server, &server);
	return (session->client_port == conn->key_port &&
		   address_equal(&session->client, &conn->key));
}

struct tally {
	unsigned slots[CONNS];		/* counted, of each connection */
	unsigned of_process[PROCESSES];
	bool good;
};

static void disagree(struct tally *tally, const char *what,
    const struct session *session, const char *class) {
	char client[ADDRESS_TEXT_MAX];

	address_format(&session->client, client);
	fprintf(stderr, "TEST_SEED=%llu: %s: class %s direction %u client %s:%u "
	    "proof %u flags %x\n", (unsigned long long)seed, what, class,
	    session->control.direction, client, session->client_port,
	    session->control.proof, session->control.flags);
	tally->good = false;
}

static void tally_process(struct tally *tally, const struct session *session,
    const char *class) {
	for (unsigned i = 0; i < PROCESSES; i++) {
		int32_t pid;

		memcpy(&pid, session->proof_address.bytes, sizeof(pid));
		if (!processes[i].live || processes[i].identity.pid != pid)
			continue;
		if (!holds(&processes[i], class))
			disagree(tally, "a class that the process left",
			    session, class);
		tally->of_process[i]++;
		return;
	}
	disagree(tally, "slot of a dead process", session, class);
}

static void tally_conn(struct tally *tally, const struct session *session,
    const char *class) {
	for (unsigned i = 0; i < CONNS; i++) {
		const struct conn *conn = &conns[i];

		if (!conn->live || !is_slot_of(session, conn))
			continue;
		tally->slots[i]++;
		if (!conn->outbound && conn->standing == COUNTED &&
		    !conn->any_class && strcmp(conn->class, class) != 0)
			disagree(tally, "another class", session, class);
		return;
	}
	if (session->control.listener != site.lease_listener ||
	    session->control.direction == SESSION_OUTBOUND)
		disagree(tally, "nobody's slot", session, class);
}

static void tally_slots(struct tally *tally) {
	struct segment *segment = site.segment;
	uint32_t first, count;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t i = 0; i < count; i++) {
			struct session session;
			const char *class;

			session_load(segment, first + i, &session);
			if (session.control.state != SESSION_OPEN)
				continue;
			class = segment->records[session.control.class_record].name;
			if ((session.control.flags & SESSION_FLAG_PROCESS) != 0)
				tally_process(tally, &session, class);
			else
				tally_conn(tally, &session, class);
		}
	}
}

/* Of an outbound connection: counted where its address and name belong. */
static const char *outbound_class_name(const struct conn *conn) {
	const char *name = relay_names[conn->server];
	struct address server = server_of(conn->server);
	uint32_t rule = generation_match_outbound(policy.generation, &server,
	    name, strlen(name));

	return rule == CLASS_NO_RULE || conn->uid == 0 ? NULL :
	    generation_text(policy.generation, generation_class(
		policy.generation, generation_rule(policy.generation,
		    rule)->class_index)->name);
}

static uint32_t outbound_expected(const char *class) {
	uint32_t count = 0;

	for (unsigned i = 0; i < CONNS; i++) {
		const char *in = conns[i].live && conns[i].outbound ?
		    outbound_class_name(&conns[i]) : NULL;

		count += in != NULL && strcmp(in, class) == 0;
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		count += processes[i].live && holds(&processes[i], class);
	return count;
}

static bool has_failed(const struct conn *conn, unsigned slots) {
	if (!conn->live || conn->invisible)
		return false;
	if (conn->outbound)
		return slots != (outbound_class_name(conn) != NULL);
	if (conn->standing == UNASKED)
		return slots > 1;
	return slots != (conn->standing == COUNTED);
}

bool world_agrees(void) {
	struct tally tally = { .good = site_is_consistent(&site) };

	policy.generation = pin(policy.engine, policy.generation);
	tally_slots(&tally);
	for (unsigned i = 0; i < CONNS; i++) {
		if (!has_failed(&conns[i], tally.slots[i]))
			continue;
		fprintf(stderr, "TEST_SEED=%llu: connection %u: outbound %d standing "
		    "%d port %u uid %u: %u slots\n", (unsigned long long)seed, i,
		    conns[i].outbound, conns[i].standing, conns[i].port,
		    conns[i].uid, tally.slots[i]);
		tally.good = false;
	}
	for (uint32_t r = 0; r < site.segment->header->record_count; r++) {
		const struct class_record *record = &site.segment->records[r];
		uint32_t outbound = atomic_load(&record->open) -
		    atomic_load(&record->open_inbound);

		if (atomic_load(&record->in_use) == 0 ||
		    outbound == outbound_expected(record->name))
			continue;
		fprintf(stderr, "TEST_SEED=%llu: class %s counts %u outbound, not %u\n",
		    (unsigned long long)seed, record->name, outbound,
		    outbound_expected(record->name));
		tally.good = false;
	}
	return tally.good;
}

void world_end_all(void) {
	for (unsigned i = 0; i < CONNS; i++) {
		if (conns[i].live)
			disconnect(&conns[i]);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		process_dies(&processes[i]);
}

bool world_is_empty(void) {
	bool empty = world_agrees();

	for (uint32_t r = 0; r < site.segment->header->record_count; r++) {
		if (atomic_load(&site.segment->records[r].open) != 0) {
			fprintf(stderr, "TEST_SEED=%llu: class %s is not empty\n",
			    (unsigned long long)seed,
			    site.segment->records[r].name);
			empty = false;
		}
	}
	return empty;
}

void world_close(void) {
	role_dies(&policy);
	role_dies(&milter);
	for (unsigned i = 0; i < lost_handle_count; i++)
		outbound_process_close(&lost_handles[i], site.generation, now_ns);
	for (unsigned i = 0; i < lost_engine_count; i++)
		engine_close(&lost_engines[i]);
	witness_close(&witness);
	site_close(&site);
}
