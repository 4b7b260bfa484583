/* SPDX-License-Identifier: ISC */
/*
 * A Sendmail in memory and virtual time whose queue is driven: queue files, processes that
 * ask as the real one does (turn, check_compat, tls_server), servers that take their time,
 * hang or refuse, and the log that is read.  Truth is what the servers got.
 */
#ifndef TESTS_QUEUE_WORLD_H
#define TESTS_QUEUE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/queue/queue.h"
#include "tests/unit/site.h"

#define WORLD_SERVERS	64
#define WORLD_FILES	40000
#define WORLD_DIRECTORIES 4
#define WORLD_LOCAL	3

enum server_mode {
	SERVER_TAKES,
	SERVER_HANGS,		/* takes the connection, and never answers */
	SERVER_REFUSES,		/* the connection */
	SERVER_PUTS_OFF,	/* each recipient: 450 */
	SERVER_SLOW,		/* greets after 30 s */
};

struct server {
	char name[64];
	const char *host;	/* or NULL: as the domain */
	const char *canonical;	/* what the domain is an alias of; NULL: none */
	enum server_mode mode;
	int64_t takes_ns;	/* each recipient */
	unsigned now, most;	/* connections at a time */
	unsigned connections;	/* ever */
	unsigned got;		/* recipients */
};

struct world {
	struct site site;
	struct queue *queue;
	struct queue_settings settings;
	int64_t now_ns;
	struct server servers[WORLD_SERVERS];
	unsigned server_count;
	unsigned processes, processes_most, runs;
	unsigned waits;		/* recipients that were told to wait at the turn */
	unsigned put_off;	/* recipients that check_compat put off */
	unsigned reads;
	unsigned mores;		/* times that a file, or more of it, was asked for */
	struct queue_directory directories[WORLD_DIRECTORIES];
	const char *envelope;	/* what arrives was cut out of that message; NULL: each is one */
	bool no_room;		/* nothing is taken of what is read */
	bool loses_reads;	/* what is to be read is forgotten: no memory */
	bool no_scan;		/* of the directories */
	bool no_process;	/* none can be started */
	bool does_nothing;	/* each ends at once, and has touched nothing */
	bool no_disk;		/* it delivers, and cannot write its file anew */
	enum queue_run_end ends; /* how a run ends */
	unsigned hang_timeout_s; /* of Sendmail itself; a brief run: 20 s */
};
extern struct world world;

/* `text`: configuration behind classes and mta.  Nothing may be left of an earlier one. */
void world_open(const char *text, uint32_t processes);
void world_close(void);
/* The role dies and another one starts; its processes live on. */
void world_restart_role(bool beats);

struct server *world_server(const char *name, int64_t takes_ns);
struct server *world_find_server(const char *name);

/* A message arrives: "u@a.example" is told as "a.example*3 b.example" (so many recipients
 * each; "-" is a local one).  Returns its number. */
unsigned world_mail(const char *recipients);
unsigned world_mail_in(unsigned directory, const char *recipients);
/* Somebody removes it, in the middle of a run perhaps. */
void world_remove(unsigned file);
/* Somebody else has it locked until then. */
void world_lock(unsigned file, int64_t until_ns);
/* kill -9 of all that run, which have written down what they delivered. */
void world_kill_runs(void);
/* A look through all directories, as soon as one may begin. */
void world_scan(void);
/* Somebody else has taken it out of the queue, or tried it; nobody is told. */
void world_vanish(unsigned file);
void world_touch(unsigned file);
/* So many of its recipients got it. */
unsigned world_delivered(unsigned file);
bool world_is_gone(unsigned file);
/* When the last of them did. */
int64_t world_delivered_ns(unsigned file);
const char *world_id(unsigned file);
/* How often it was tried, as its file says. */
unsigned world_tries(unsigned file);

/* Time goes by until then, or (world_drain: true) until all is delivered. */
void world_run(int64_t until_ns);
bool world_drain(int64_t for_ns);
unsigned world_files_left(void);
/* Each recipient got it once, or waits; places and claims agree at rest. */
void world_check(void);

/* What all waits for, on stdout. */
void world_tell(void);

/* Has mail of that destination been accepted, as far as the queue knows? */
bool world_is_proven(const char *destination);

/* What the first part of the file waits for. */
enum queue_wait world_wait(unsigned file, int64_t *due_ns);

#endif
