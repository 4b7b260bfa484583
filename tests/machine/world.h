/* SPDX-License-Identifier: ISC */
/*
 * What there is outside of Postern: TCP connections, the kernel's table of them, mail server
 * processes that ask about them, the wall clock; and what must hold, whatever happens.
 */
#ifndef TESTS_MACHINE_WORLD_H
#define TESTS_MACHINE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/destination/windows.h"
#include "engine/engine.h"
#include "engine/journal/journal_status.h"
#include "front/policy/policy_session.h"
#include "tests/machine/fiber.h"
#include "tests/machine/plan.h"

enum tcp_state {
	TCP_FREE,
	TCP_WAITING,		/* not accepted yet: inode 0 */
	TCP_OPEN,
	TCP_CLOSED,		/* TIME_WAIT or an orphan: inode 0 */
};

/* What was decided about a session, as its mail server heard it. */
enum heard { HEARD_NOTHING, HEARD_ADMIT, HEARD_REFUSE, HEARD_DEFER, HEARD_UNCOUNTED,
	HEARD_FAILED_OPEN };

struct tcp {
	enum tcp_state state;
	struct address client;
	uint16_t client_port;
	const char *name;		/* of the client; NULL: unknown */
	int64_t since_ns;		/* of the state */
	enum heard heard;
	uint32_t class_index;		/* by which it was admitted */
	bool let_go;			/* a word that it is over was believed, as nobody could know better */
	bool shown;			/* in a dump */
	bool waited;			/* in one before its question met a stuck lock: then it is taken
					 * for one that waits for its smtpd, and nobody adopts it; nor if it
					 * came before Postern had ever run */
	bool at_milter;			/* one was asked about it */
	uint32_t number;		/* of the session, in the log of events */
};

#define TCP_MAX 64

/* A policy connection, or a milter's of one session.  What the role remembers of it dies with the role. */
struct policy_link {
	struct role *role;
	uint32_t start;			/* of the role: the how many-th */
	uint32_t socket;		/* inode of the mail server's end */
	struct policy_session session;	/* the role's */
	struct server *server;
	struct address client;		/* a milter's: of the session */
	uint16_t client_port;
	struct sender *sender;		/* a map connection's, */
	struct process_identity identity;	/* of this process, */
	struct outbound_process *process;	/* as the role knows it */
	unsigned domain, letter;		/* and what it asks about */
	uint32_t try;
	struct tcp *tcp;		/* whose questions it brings now, */
	uint32_t number;		/* and its number */
	int64_t asked_ns;		/* the time that its last question is answered by */
	bool late;			/* a question was heard when its session was over */
};

/* --- world.c ---------------------------------------------------------------------- */

struct draws *world_draws(void);
int64_t world_wall_offset_ns(void);
/* Writes a line of the log of events, which is what the digest is of. */
void world_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t world_digest(void);
/* Something does not hold: ends the run. */
void world_fail(const char *property, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
const struct plan *world_plan(void);
extern const struct journal_listener journal_tells;

/* Runs the plan; ends the process where something does not hold. */
#define WORLD_FAILED 3
void world_run(const struct plan *plan, const struct generation *generation, bool tells,
    int report_fd) __attribute__((noreturn));

/* --- kernel.c --------------------------------------------------------------------- */

extern struct tcp tcps[TCP_MAX];
/* NULL: all are in use. */
struct tcp *tcp_begin(struct draws *draws);
void tcp_accept(struct tcp *tcp);
void tcp_end(struct tcp *tcp);
/* The state is made anew: whoever is not in this text, PATH.sessions, which is up to a second old,
 * is counted only if he is adopted. */
void tcps_are_lost(const char *saved, const struct generation *generation);
/* It may be counted in that class: by adoption, too, or by a role that has not answered. */
bool tcp_may_count(const struct tcp *tcp, uint32_t class_index);
/* A session was admitted that was over by then. */
void tcp_was_admitted_late(uint32_t class_index);
/* How many of these ended since then; of one client, or NULL. */
uint32_t tcps_ended(uint32_t class_index, const struct address *client, int64_t since_ns);
const struct address *world_server(void);
/* Inodes of the mail server's ends of policy connections. */
uint32_t socket_open(void);
void socket_close(uint32_t inode);
void kernel_begin(const struct plan *plan);
void kernel_calm(void);

/* --- roles.c ---------------------------------------------------------------------- */

void roles_begin(const struct plan *plan, struct segment *segment, int fd, const char *path);
/* All die at once; those that come next attach this one. */
void roles_end(void);
void roles_reopen(struct segment *segment, int fd);
/* Opens a connection to some policy or milter role that lives; false: none does. */
bool role_connect(struct policy_link *link, bool milter, struct draws *draws);
bool link_lives(const struct policy_link *link);
/* A request of one policy connection: answered by server_answered, or never. */
void role_ask(struct policy_link *link, const char *request);
void role_end_link(struct policy_link *link);
/* Each policy and milter role, once since the state was made: of one that never was no outage is
 * known. */
bool roles_were_at_work(void);
/* All are there, none is stopped, and each has said so. */
bool roles_are_well(void);
/* Some process does. */
bool roles_stand_still(void);
/* As all have it that live. */
struct segment *roles_segment(void);
void roles_calm(void);
/* It does not come back. */
void roles_lose_keeper(void);
void keeper_hear(void);
/* An order by hand; of a keeper that does not live nothing is heard. */
void keeper_order(unsigned domain, int verb);
/* The log grew. */
void feed_hear(void);
/* Asks postern-lookup, which calls mail_answered; false: it does not live. */
bool lookup_ask(unsigned number, uint32_t question, const char *address);

/* --- disks.c ---------------------------------------------------------------------- */

/* The machine crashes: what was not synced may be lost. */
void disks_crash(struct draws *draws);

/* --- servers.c -------------------------------------------------------------------- */

void servers_begin(const struct plan *plan);
/* In the role's process. */
void server_answered(struct policy_link *link, const char *reply, size_t length);
/* Who has a link to this role notices that it is gone. */
void servers_lose(const struct role *role, uint32_t start);
/* Nothing new; all that are in a session stay. */
void servers_calm(void);
void servers_finish(void);
void servers_leave(void);
bool servers_are_quiet(void);
/* All have ended, and their connections with them. */
bool servers_are_gone(void);

/* --- check.c ---------------------------------------------------------------------- */

/* Sessions of a class that were admitted, and live; those of Sendmail's processes among them. */
uint32_t check_open(uint32_t class_index);
void check_begin(struct segment *segment, const struct generation *generation);
void check_mail_begin(const struct segment *segment, bool made_anew);
/* A decision reached the mail server. */
void check_decision(struct policy_link *link, const struct answer *answer, bool at_recipient);
void check_law(const struct policy_link *link, const struct generation *generation,
    const struct answer *answer, bool at_recipient);
void check_law_begins(void);
/* The decision can be found, and says the same. */
void check_why(const struct segment *segment, const struct tcp *tcp,
    const struct generation *generation, const struct answer *answer);
/* Nothing has changed for a while: what is counted is what there is; `adopts`: with those who
 * failed open. */
void check_quiet(bool adopts);
/* The feed dealt with a result of this destination. */
void check_window(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner);
/* Mail was held with this text: by the decision that it names. */
void check_hold(const char *text);
/* The feed begins; its journal's turn begins, and is over. */
void kept_feed_begins(void);
void kept_turns(const struct segment *segment);
void kept_turned(const struct segment *segment);
/* A place of the feed is in the journal for certain. */
bool kept_has_place(void);
/* The state was made anew. */
void kept_restored(const struct segment *before, const struct segment *segment);
/* All sites are there, and all mail is delivered. */
void check_mail(const char *state_path);
/* As check_quiet, and every lock can be had. */
void check_end(void);

#endif
