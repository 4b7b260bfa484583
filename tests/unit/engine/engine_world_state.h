/* SPDX-License-Identifier: ISC */
/* What the files of the world share: one world at a time. */
#ifndef TESTS_ENGINE_WORLD_STATE_H
#define TESTS_ENGINE_WORLD_STATE_H

#include "tests/unit/engine/engine_world.h"

#include <string.h>

#include "base/clock.h"
#include "engine/outbound/outbound.h"
#include "engine/session/witness.h"
#include "tests/unit/random.h"
#include "segment/destination/destinations.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/unit/site.h"

#define HOSTS	4

enum standing { UNASKED, COUNTED, IN_NO_COUNT, DEFERRED, REFUSED };

struct conn {
	bool live;
	bool outbound;
	bool invisible;			/* the kernel does not show it: a proxy's */
	bool any_class;			/* the engine may choose it */
	bool policy, milter;		/* who knows of it */
	bool shown;			/* the milter's role saw it in the kernel's table */
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
	enum role_kind kind;
	unsigned number;
	unsigned place;
	struct engine *engine;			/* NULL: away */
	const struct generation *generation;
};

#define CONNS		96
#define PROCESSES	8
#define LOST_MAX	4096

extern struct site site;
extern struct role policy, milter;
extern struct witness *witness;
extern struct engine *keeper;
extern struct conn conns[CONNS];
extern struct process processes[PROCESSES];
extern char relay_names[8][16];
extern int64_t now_ns;
extern uint64_t seed;
extern uint16_t next_port;
extern struct random random_state;
extern struct session_ref stale[16];
extern int32_t next_pid;

static inline unsigned below(unsigned limit) {
	return random_below(&random_state, limit);
}

static inline bool chance(unsigned percent) {
	return below(100) < percent;
}

/* Ends the test. */
void wrong(const char *what, const char *class);

/* "NET.LAST" */
struct address address_of(const char *net, unsigned last);
struct address server_of(unsigned number);

void to_connection(const struct conn *conn, struct connection *out);

/* The generation in force, for the one that is held (or NULL). */
const struct generation *pin(struct engine *engine,
    const struct generation *held);

/* Is the process counted in the class, as far as we were told? */
bool holds(const struct process *process, const char *class);

/* What clients, MTAs and their processes do. */
void connect_in(void);
void xclient(struct conn *conn);
void recipient(struct conn *conn);
void disconnect(struct conn *conn);
void say_stale_end(void);
void policy_connection_ends(struct conn *conn);
void connect_out(void);
void relay_is_named(void);
void process_asks(struct process *process);
void process_dies(struct process *process);

#endif
