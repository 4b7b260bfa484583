/* SPDX-License-Identifier: ISC */
/* The kernel, our roles, the configurations, and what happens next. */
#include "tests/unit/engine/engine_world_state.h"

#include <unistd.h>

#define MTAS "mta = ( { kind = \"sendmail\"; user = \"root\"; }, " \
	"{ kind = \"postfix\"; } ); count_unannounced = \"always\"; exempt = [ \"192.0.2.9\" ];"
/* Longer than a world may be without the keeper. */
#define LEASE "lease = { orphan = \"10m\"; }; "
#define CLASS(name, mask, sessions, inbound, more) "{ name = \"" name "\"; " \
	"match = [ " mask " ]; hold_at = " #sessions "; refuse_at = " #inbound \
	"; " more "}"
#define NET	"\"203.0.113.0/25\", \"*.net.example\""

static const char *const configurations[] = {
	LEASE "classes = ( " CLASS("net", NET, 4, 3, "") ", "
	CLASS("dom", "\"*.example\"", 3, 3, "") ", "
	CLASS("all", "\"*\"", 9, 7, "client = { sessions = 3; }; ") " ); " MTAS,
	/* other limits, other order */
	LEASE "classes = ( " CLASS("dom", "\"*.example\"", 2, 4, "") ", "
	CLASS("net", NET, 2, 2, "action = \"defer\"; ") ", "
	CLASS("all", "\"*\"", 20, 5, "") " ); " MTAS,
	/* one is gone, one renamed, some match nothing */
	LEASE "classes = ( " CLASS("nets", NET, 5, 5, "client = { sessions = 2; }; ") ", "
	CLASS("dom", "\"*.example\"", 3, 2, "observe = true; ") " ); " MTAS,
	LEASE "classes = ( " CLASS("all", "\"*\"", 6, 6, "action = \"defer\"; ") " ); "
	MTAS,
};
#define CONFIGURATIONS	(sizeof(configurations) / sizeof(configurations[0]))

struct site site;
struct role policy, milter;
struct witness *witness;
struct engine *keeper;
struct conn conns[CONNS];
struct process processes[PROCESSES];
char relay_names[8][16];
static struct engine *lost_engines[LOST_MAX];
static struct outbound_process *lost_handles[LOST_MAX];
static unsigned lost_engine_count, lost_handle_count;
struct session_ref stale[16];
int64_t now_ns;
struct random random_state;
uint64_t seed;
uint16_t next_port;
int32_t next_pid;
static struct connection late_list[CONNS];	/* a dump on its way */
static size_t late_count;
static uint32_t late_sequence;
static bool late;
static int64_t read_ns;			/* the last good dump */

void wrong(const char *what, const char *class) {
	fprintf(stderr, "TEST_SEED=%llu: %s (class %s)\n", (unsigned long long)seed,
	    what, class);
	abort();
}

struct address address_of(const char *net, unsigned last) {
	char text[40];
	struct address address;

	snprintf(text, sizeof(text), "%s.%u", net, last);
	if (!address_parse(text, strlen(text), &address))
		wrong("address", text);
	return address;
}

struct address server_of(unsigned number) {
	/* half of them in the class of networks */
	return address_of("203.0.113", 60 + number * 20);
}

/* --- the kernel ----------------------------------------------------------- */

void to_connection(const struct conn *conn, struct connection *out) {
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

const struct generation *pin(struct engine *engine,
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

/* --- roles and configurations ------------------------------------------------------ */

static void role_starts(struct role *role) {
	struct diag diag;

	segment_role_starting(site.segment, role->kind, role->number, now_ns);
	if (engine_open(&role->engine, site.segment, role->place, &diag) != 0)
		wrong("engine_open", diag.text);
	role->generation = engine_pin(role->engine);
	engine_heartbeat(role->engine, now_ns);
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

static void role_dies(struct role *role) {
	if (role->engine == NULL || lost_engine_count == LOST_MAX ||
	    lost_handle_count + PROCESSES > LOST_MAX)
		return;
	for (unsigned i = 0; role == &policy && i < PROCESSES; i++)
		lose_handle(&processes[i]);
	(void)segment_role_died(site.segment, role->place, getpid());
	engine_unpin(role->engine, role->generation);
	lost_engines[lost_engine_count++] = role->engine;
	*role = (struct role){ .kind = role->kind, .number = role->number,
		.place = role->place };
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
	policy = (struct role){ .kind = ROLE_POLICY, .number = 1,
		.place = segment_role_place(ROLE_POLICY, 1) };
	milter = (struct role){ .kind = ROLE_MILTER,
		.place = segment_role_place(ROLE_MILTER, 0) };
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

void world_end_all(void) {
	for (unsigned i = 0; i < CONNS; i++) {
		if (conns[i].live)
			disconnect(&conns[i]);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		process_dies(&processes[i]);
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
