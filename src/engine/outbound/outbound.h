/* SPDX-License-Identifier: ISC */
/*
 * Outbound connections in the counts of their classes (DESIGN section 5, rows 3
 * to 5; contrib/documents.md).  Each MTA by one source: *asked* (Sendmail, for
 * each delivering process) or *witnessed* (everything else, in the kernel's
 * table).  Whoever asks is held by the windows of destinations (windows.h), too.
 * As all of the engine: any thread, never blocks longer than 50 ms, fails open.
 */
#ifndef ENGINE_OUTBOUND_H
#define ENGINE_OUTBOUND_H

#include "engine/engine.h"
#include "policy/schedule/spread.h"

/* By what the class was found. */
enum class_source {
	CLASS_SOURCE_NONE,		/* no class */
	CLASS_SOURCE_CONNECTION,	/* name and address of the connection itself */
	CLASS_SOURCE_ADDRESS,		/* its address alone */
	CLASS_SOURCE_RELAY,		/* the relay last seen for the destination */
	CLASS_SOURCE_DOMAIN,		/* the destination's own name */
};
/* "none", "connection", "address", "relay", "domain" */
const char *class_source_word(enum class_source source);

struct outbound_class {
	uint32_t rule;			/* of the generation, or CLASS_NO_RULE */
	uint32_t class_index;		/* or CLASS_NO_RULE */
	enum class_source source;
	struct address relay;		/* that was used, or unknown */
	char relay_name[SEGMENT_NAME_MAX + 1];
};

/* The class of mail for this destination: a recipient domain, a host, or
 * "[address]"; a trailing dot does not matter. */
void outbound_class_find(const struct engine *engine,
    const struct generation *generation, const char *destination,
    size_t length, struct outbound_class *out);

/* The class of a connection to this address (or unknown).  `name`: of the host,
 * or NULL, or in [ ]: then the name under which the address was reached last. */
void outbound_class_of(const struct engine *engine,
    const struct generation *generation, const struct address *address,
    const char *name, size_t length, struct outbound_class *out);

/* --- asked ---------------------------------------------------------------- */

/* What one delivering process was admitted to; held by its map connection.  One
 * thread.  NULL: no memory.  A process that comes again on another connection,
 * as a role died, goes on with the slots that it has; they are that connection's
 * then, and the end of the older one does not touch them. */
struct outbound_process;
struct outbound_process *outbound_process_open(struct engine *engine,
    const struct process_identity *identity);

enum outbound_stage {
	OUTBOUND_BEFORE_CONNECT,	/* check_compat: the destination is known */
	OUTBOUND_CONNECTED,		/* tls_server: name and address, too */
};

struct outbound_question {
	enum outbound_stage stage;
	const char *destination;
	size_t destination_length;
	const char *server_name;	/* CONNECTED only; or NULL */
	size_t server_name_length;
	struct address server;		/* CONNECTED only; or unknown */
	uint8_t mta;			/* of the generation, or UINT8_MAX */
	struct address client;		/* of the session that the message came by, or unknown */
	struct address client_server;
	uint16_t client_port, client_server_port;
	const char *recipient;		/* without < >, or NULL */
	size_t recipient_length;
	const char *queue_id;		/* or NULL */
	size_t queue_id_length;
};

#define OUTBOUND_WHY_MAX	160

struct outbound_answer {
	/* VERDICT_ADMIT, VERDICT_DEFER or (BEFORE_CONNECT) VERDICT_DISCARD; count and limit are of the class or, with
	 * REASON_WINDOW_FULL, of the window. */
	struct answer answer;
	struct outbound_class found;
	char owner[SEGMENT_NAME_MAX + 1]; /* of the window that was asked; "": none was */
	bool canary;			/* admitted above the window, to find out */
	int64_t until_ns;		/* what is held, suspended: INT64_MAX: until resumed */
	int64_t interval_ns;		/* what its pace holds: between two messages */
	uint64_t cause;			/* id of the suspension or hold; 0: none, or not known */
	char why[OUTBOUND_WHY_MAX + 1];	/* the reason of that, printable; or "" */
};

/* One question.  BEFORE_CONNECT takes a slot of the class for the process, unless
 * it has one, and a place in the destination's window; CONNECTED puts right what
 * was taken by a wrong class or from a wrong window, or defers, and teaches which
 * relay the destination has.  A host that the process was admitted to is not asked
 * about again, as far as the class goes; where another configuration has put it
 * into another class, it is counted there from then on.  answer.newly_decided is
 * false where nothing was decided. */
void outbound_process_ask(struct outbound_process *process,
    const struct generation *generation, const struct outbound_question *question,
    int64_t now_ns, struct outbound_answer *answer);

/* May a recipient of this domain go out in the run of a driven Sendmail that asks, as far
 * as its turn goes?  Asked before anything is connected; true, too, where no run of ours
 * has the message.  Any thread, no lock. */
bool outbound_is_its_turn(struct engine *engine, const struct generation *generation,
    const char *queue_id, size_t queue_id_length, const char *domain, size_t length,
    int64_t now_ns);

/* Which of a Sendmail's queue groups a recipient of this domain goes to that it accepts: 0 the
 * usual one, else 1 to `groups`.  `spread`: of the message (zeros: no recipient yet). */
uint32_t outbound_group(const struct engine *engine, const struct generation *generation,
    const char *domain, size_t length, uint8_t mta, uint32_t groups, struct spread *spread);

/* Where it is not: why, for whoever reads the queue: decision.reason is REASON_SUSPENDED (with
 * owner, until_ns and why) or REASON_NOT_ITS_TURN. */
void outbound_turn_why(struct engine *engine, const struct generation *generation,
    const char *domain, size_t length, uint8_t mta, int64_t now_ns,
    struct outbound_answer *out);

/* Its map connection ended: its slots are free.  Its places in windows are, when it
 * is over itself (outbound_process_is_over): it may go on by another connection. */
void outbound_process_leave(struct outbound_process *process,
    const struct generation *generation, int64_t now_ns);
bool outbound_process_is_over(const struct outbound_process *process);

/* As outbound_process_leave, and forgets it: the keeper finds out that it is over,
 * where it is not yet.  Nulls *process. */
void outbound_process_close(struct outbound_process **process,
    const struct generation *generation, int64_t now_ns);

/* What would be answered to BEFORE_CONNECT for the destination now, by a process
 * that holds nothing, without doing it.  `open`: of the class. */
void outbound_explain(struct engine *engine, const struct generation *generation,
    const char *destination, size_t length, struct outbound_answer *answer,
    uint32_t *open);

#endif
