/* SPDX-License-Identifier: ISC */
/*
 * What lies in the shared memory segment (DESIGN section 4): one file, no
 * pointers, every place fixed when it is made.
 *
 *	header | roles | listeners | class records | ring of lane uses | mail that waits for paces |
 *	session shards
 *	| clients | destinations | relays | recipients held | accounts | what stands beside
 *	the destinations' shards | reasons | flights | attempts | grants | told | decisions
 *
 * Locks, in this order: session shard, class, client shard.  A class's counters,
 * and the class of any slot that belongs to it, change only under that class's
 * mutex.  A session slot is made of 64-bit words; its control word is stored
 * last, in one piece, so that whoever dies in the middle leaves a slot that is
 * either counted or not.  The same holds for all other tables, whose
 * locks are never held together with any other.
 */
#ifndef SEGMENT_LAYOUT_H
#define SEGMENT_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"
#include "policy/limit/address.h"
#include "segment/file/layout_accounts.h"
#include "segment/file/layout_cluster.h"
#include "segment/file/layout_decisions.h"
#include "segment/file/layout_destinations.h"
#include "segment/file/layout_shared.h"
#include "segment/file/lock.h"

#define SEGMENT_MAGIC		UINT64_C(0x31304e5245545350)
#define SEGMENT_VERSION		12
#define SEGMENT_ROLES_MAX	48
#define SEGMENT_ROLES_SINGLE	5	/* places of kinds that have one process */
#define SEGMENT_LISTENERS	256
#define SEGMENT_CARRIERS	16
#define SEGMENT_NO_CLASS	UINT16_MAX
#define SEGMENT_NO_SLOT		UINT32_MAX
#define SEGMENT_RECORDS_MAX	65000
#define SEGMENT_MTAS		8
#define SEGMENT_LOG_FILES	80
#define SEGMENT_JOURNALS	5	/* enum journal_room of config/generation/generation.h */

enum role_kind {
	ROLE_NONE, ROLE_SUPERVISOR, ROLE_POLICY, ROLE_MILTER, ROLE_KEEPER,
	ROLE_FEED, ROLE_QUEUE, ROLE_METRICS, ROLE_CLUSTER,
};
#define ROLE_KINDS	(ROLE_CLUSTER + 1)

static inline const char *role_word(enum role_kind kind) {
	static const char *const words[ROLE_KINDS] = {
		[ROLE_NONE] = "none",
		[ROLE_SUPERVISOR] = "supervisor",
		[ROLE_POLICY] = "policy",
		[ROLE_MILTER] = "milter",
		[ROLE_KEEPER] = "keeper",
		[ROLE_FEED] = "feed",
		[ROLE_QUEUE] = "queue",
		[ROLE_METRICS] = "metrics",
		[ROLE_CLUSTER] = "cluster",
	};

	return words[kind];
}

/* What restricts a role. */
enum role_sandbox {
	ROLE_SANDBOX_CALLS = 1,		/* its system calls */
	ROLE_SANDBOX_FILES = 2,		/* the files that it may open */
	ROLE_SANDBOX_LOG = 4,		/* other system calls are logged by the kernel */
};

enum counter {
#define COUNTER(symbol, name, text) COUNTER_##symbol,
#include "defs/counters.def"
#undef COUNTER
	COUNTER_COUNT
};

enum timing_kind {
#define TIMING(symbol, name, text) TIMING_##symbol,
#include "defs/timings.def"
#undef TIMING
	TIMING_KINDS
};

/* Sets of destinations: what a follower is to look at, taken out as it does; TIMED stays. */
enum state_set {
	STATES_CHANGED,		/* as a hint is made from it: for the keeper's thread */
	STATES_UNSHARED,	/* the same, for the cluster role */
	STATES_UNKEPT,		/* the journal does not have it as it is */
	STATES_TIMED,		/* time will change it: dead, held, or a canary out */
	STATE_SETS
};

/* What a slot stands for.  Only OPEN is in a class's count. */
enum session_state {
	SESSION_FREE = 0,
	SESSION_OPEN,		/* admitted and counted */
	SESSION_DEFERRED,	/* let in, each RCPT is decided anew; in no count */
	SESSION_UNCOUNTED,	/* admitted: exempt, no class */
	SESSION_REFUSED,	/* answered 421; remembered until its connection ends */
	SESSION_STATES
};

enum session_direction { SESSION_INBOUND, SESSION_OUTBOUND };

/* What would prove that the session ended. */
enum session_proof {
	SESSION_PROOF_OWNER,	/* the policy or milter connection that opened it */
	SESSION_PROOF_WITNESS,	/* the kernel's table has shown the connection */
	SESSION_PROOF_LEASE,	/* time */
};

#define SESSION_FLAG_ENDED_HINT	0x01	/* somebody said that it ended */
#define SESSION_FLAG_ADOPTED	0x02	/* found after an outage */
#define SESSION_FLAG_RESTORED	0x08	/* rebuilt from the text file */
#define SESSION_FLAG_CARRIED	0x10	/* XCLIENT: proof_address/port are the kernel's */
#define SESSION_FLAG_PROCESS	0x20	/* outbound, asked: proof_address holds the process */
#define SESSION_FLAG_LEFT	0x40	/* its policy connection was gone at the last look (engine/session/owners.h) */

/* The control word: stored in one piece, last when a slot is taken and first
 * when it is given back. */
struct session_control {
	uint16_t class_record;	/* or SEGMENT_NO_CLASS */
	uint8_t state;		/* enum session_state */
	uint8_t direction;	/* enum session_direction */
	uint8_t proof;		/* enum session_proof */
	uint8_t flags;		/* SESSION_FLAG_* */
	uint8_t listener;	/* number in the generation that opened it; outbound: its mta's */
	uint8_t client_bits;	/* what was one client (of 128), or 255: not counted */
};

/* 80 bytes. Times are tenths of seconds since the segment was made. */
struct session {
	struct session_control control;
	struct address client;		/* the client as told (after XCLIENT: that one) */
	struct address server;		/* or unknown */
	union {
		struct address proof_address;	/* CARRIED only: client of the kernel's tuple */
		/* Inbound, without a proof_address: the inodes of the mail server's ends of
		 * the unix connections that asked, 0: not known (session_has_sockets). */
		struct {
			uint32_t policy_socket;
			uint32_t milter_socket;
			uint32_t process;	/* that serves the client; 0: not known */
		};
	};
	uint16_t client_port;
	uint16_t server_port;		/* 0: unknown */
	uint16_t proof_port;
	uint16_t policy_owner;		/* incarnation of the role, 0: none */
	uint16_t milter_owner;
	uint16_t serial;		/* of this slot: rises with each use (session_serial_next) */
	uint32_t opened_ds;
	uint32_t until_ds;		/* lease: ends then, unless witnessed */
	uint32_t dump_sequence;		/* header's when it was opened */
};
_Static_assert(sizeof(struct session_control) == 8, "one word");
_Static_assert(sizeof(struct session) == 80, "ten words");
#define SESSION_WORDS 10

/* Of the next use of the slot; and of the same one, once another connection of a policy role, or
 * of a milter's, has found the session open: that one is to tell its end from then on. */
#define SESSION_SERIAL_POLICY	0x07
#define SESSION_SERIAL_MILTER	0x38
#define SESSION_SERIAL_ASKED	(SESSION_SERIAL_POLICY | SESSION_SERIAL_MILTER)
static inline uint16_t session_serial_next(uint16_t serial) {
	return (uint16_t)((serial | SESSION_SERIAL_ASKED) + 1);
}
static inline uint16_t session_serial_asked(uint16_t serial, uint16_t part) {
	return (uint16_t)((serial & ~part) | (((serial | ~part) + 1) & part));
}

/* Are policy_socket and milter_socket its own? */
static inline bool session_has_sockets(const struct session *session) {
	return session->control.direction == SESSION_INBOUND &&
	    ((session->control.flags & SESSION_FLAG_CARRIED) == 0 ||
		session->proof_port == 0);
}

struct session_slot {
	_Atomic uint64_t words[SESSION_WORDS];
};

/* Sub-limits and rates of one client in one class. 32 bytes. */
struct client_slot {
	struct learned_control control;
	uint32_t open;			/* in the place of `seen` */
	uint32_t class_record;
	uint64_t key;			/* a hash of class and client */
	int64_t rate_tat_ns;
};
_Static_assert(sizeof(struct client_slot) == 32, "four words");

/* One cache line of an index: 15 places and how many keys passed on. */
#define INDEX_PLACES 15
struct index_line {
	uint32_t place[INDEX_PLACES];	/* 0: empty; else tag and slot + 1 */
	uint32_t passed;
};
_Static_assert(sizeof(struct index_line) == 64, "a cache line");

/* The tags of a bucket's places (segment/destination/tags.h). */
#define TAG_PLACES 32
struct tag_line {
	uint16_t tag[TAG_PLACES];	/* 0: the place is free */
};
_Static_assert(sizeof(struct tag_line) == 64, "a cache line");

/* What holds a lock is whole cache lines, which offsets in the segment keep. */
#define CACHE_LINE	64
/* Processes share them: a lock within the C library would be of one alone. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit words change in one piece");
_Static_assert(offsetof(struct { char c; _Atomic uint64_t word; }, word) == 8,
    "and lie in one cache line (i386: GCC 11 or newer)");

/* A shard of any table; its lines and slots follow elsewhere. */
struct shard {
	_Alignas(CACHE_LINE) struct lock lock;
	_Atomic uint32_t seq;		/* odd while a slot changes */
	_Atomic uint32_t free_head;	/* slot number or SEGMENT_NO_SLOT */
	_Atomic uint32_t high_water;	/* slots below it were used once */
	_Atomic uint32_t used;
	uint32_t hand;			/* where the search for one to give up goes on */
	_Atomic uint32_t given;		/* what was learned: how often the mutex was given back */
};

enum class_use {
	CLASS_FREE,
	CLASS_IN_FORCE,
	CLASS_REMOVED,		/* by a reload, and sessions of it live */
	CLASS_USE_COUNT
};

struct class_record {
	_Alignas(CACHE_LINE) struct lock lock;
	_Atomic uint32_t seq;		/* odd while the counters change */
	_Atomic uint32_t open;
	_Atomic uint32_t open_inbound;
	_Atomic uint32_t torn;		/* 1: to be recounted before anything else */
	_Atomic uint32_t in_use;	/* enum class_use */
	_Atomic uint32_t uses;		/* rises with each class that it is given to */
	_Atomic uint32_t peak;
	_Atomic uint32_t sessions;	/* for display; decisions use the generation's */
	_Atomic uint32_t inbound;
	_Atomic uint32_t observe;
	_Atomic uint64_t admitted;
	_Atomic uint64_t refused;
	_Atomic uint64_t deferred;
	_Atomic uint64_t observed;
	_Atomic uint64_t adopted;
	_Atomic int64_t rate_tat_ns;
	char name[SEGMENT_NAME_MAX + 1];
	/* This node's share of limits that hold for all nodes (engine/cluster/shares.h): under the
	 * mutex.  The part that is always the node's is the generation's. */
	_Atomic int64_t share_until_ns;	/* what is leased ends then */
	_Atomic int64_t share_since_ns;	/* the class is shared since then; 0: it is not */
	_Atomic uint32_t share[2];	/* leased: base, extra */
	_Atomic uint32_t share_most[2];	/* of those, up to which something new is let in */
	/* For want of a share, inbound and outbound: decisions (observed ones too), and signs of
	 * demand that are none: a gate that is shut, mail that is held. */
	_Atomic uint64_t share_refused[2];
	_Atomic uint64_t share_wanted[2];
	/* generation by which it left the scope, while the server may have something recorded
	 * for it still; 0: it does not */
	_Atomic uint64_t share_parted;
	/* for display; decisions use the generation's */
	_Atomic uint32_t share_fixed[2];
	_Atomic uint32_t share_alone;	/* 1: the whole limit counts without a share */
	/* for display: inbound, sessions that count for all nodes together (the lowest of all),
	 * until share_until_ns; UINT32_MAX: none lower than this one's are known */
	_Atomic uint32_t share_whole[2];
	/* for display, by the keeper: refused, deferred or observed in 1000 seconds, of late */
	_Atomic uint32_t refusing;
};

struct role_record {
	_Atomic uint32_t kind;		/* enum role_kind */
	_Atomic uint32_t number;	/* policy.0, policy.1 ... */
	_Atomic int32_t pid;		/* 0: away */
	_Atomic uint32_t incarnation;	/* low 16 bits are in slots; never 0 */
	_Atomic int64_t heartbeat_ns;
	_Atomic int64_t started_ns;
	_Atomic uint64_t generation;	/* that it works with */
	_Atomic int64_t gap_begin_ns;	/* last outage: from the last heartbeat before it */
	_Atomic int64_t gap_end_ns;	/* to the successor's first; INT64_MAX: lasts */
	_Atomic uint32_t restarts;
	_Atomic uint32_t sandbox;	/* bits of enum role_sandbox */
};

/* How long questions of one kind took one role (timings.h). */
#define TIMING_BUCKETS 20
struct timing_record {
	_Atomic uint64_t buckets[TIMING_BUCKETS];
	_Atomic uint64_t sum_ns;
	uint64_t reserved[3];
};
_Static_assert(sizeof(struct timing_record) == 192, "three cache lines");

/* How long deliveries to one provider took (delays.h). */
#define SEGMENT_DELAYS	64
#define DELAY_BUCKETS	13
struct delay_record {
	_Atomic uint64_t key;		/* of its name; 0: nobody's */
	_Atomic uint64_t buckets[DELAY_BUCKETS];
	_Atomic uint64_t sum_ms;
	uint64_t reserved;
};
_Static_assert(sizeof(struct delay_record) == 128, "two cache lines");

/* Why mail waits by our word. */
enum waiting_kind {
	WAITING_PACE,
	WAITING_WARM,		/* for a number of a source that is warmed up */
	WAITING_WINDOW,
	WAITING_KINDS
};

/* What the witness learned of one listener: (number, service port). */
struct listener_record {
	_Atomic uint32_t key;		/* 0: free; listener << 16 | port, + 1 << 31 */
	_Atomic uint32_t seen;		/* sessions that the kernel's table showed */
	_Atomic uint32_t unseen;	/* alive by their owner, and not shown */
	_Atomic uint32_t absent;	/* held by policy connections, and never shown */
	_Atomic int64_t fault_begin_ns;	/* a lock timed out: a gap from here */
	_Atomic int64_t fault_until_ns;	/* to 1 s after the last time */
};

/* A proxy: its connections to this port stay without a session of their own while all
 * roles are at work (engine/session/carriers.h). */
struct carrier_record {
	struct address address;
	_Atomic int64_t seen_ns;	/* when one was seen last; 0: free */
	uint16_t port;			/* the service's */
	uint16_t reserved[3];
};
_Static_assert(sizeof(struct carrier_record) == 32, "four words");

/* A mail server of the configuration: whom its number meant last. */
struct mta_record {
	char name[SEGMENT_NAME_MAX + 8];
};

/* How far a log file was read (feed_position.h). */
struct log_record {
	_Atomic uint64_t check;		/* of log, device, inode, rank; anything else: free */
	_Atomic uint64_t log;
	_Atomic uint64_t device;
	_Atomic uint64_t inode;
	_Atomic uint64_t place;
	_Atomic uint64_t time_us;
	_Atomic uint32_t rank;
	_Atomic uint32_t epoch;
};

/* How a directory of the journal fares, as its writer tells (engine/journal/journal_status.h). */
enum journal_fares {
	JOURNAL_FARES_NONE,	/* nobody writes it */
	JOURNAL_FARES_WELL,
	JOURNAL_FARES_ILL,	/* it cannot be written */
};
struct journal_record {
	_Atomic uint32_t fares;		/* enum journal_fares */
	_Atomic uint32_t error;		/* an errno, while ILL */
	_Atomic int64_t since_ns;	/* it fares so */
	_Atomic int64_t told_ns;	/* the last time that this was told */
	_Atomic uint64_t bytes;		/* of all its files */
	_Atomic uint64_t files;
	/* of its writer's life */
	_Atomic uint64_t records, syncs, lost;
	/* queue: messages that it holds, and those of them that are in no memory */
	_Atomic uint64_t messages, waiting;
	/* The journal that this state was restored from, or is written to: its number (0: not
	 * known; JOURNAL_IS_NONE: there was none; JOURNAL_IS_UNREAD: its disk failed then), and
	 * the last of its files that is known. */
	_Atomic uint64_t journal;
	_Atomic uint64_t last_file;
};
#define JOURNAL_IS_NONE		UINT64_MAX
#define JOURNAL_IS_UNREAD	(UINT64_MAX - 1)	/* numbers are odd */

/* A place of the ring of lane_uses.h: its number first (0: half written). */
#define SEGMENT_LANE_USES	16384	/* a power of two */
struct lane_use_slot {
	_Atomic uint64_t number;
	_Atomic uint64_t words[3];
};
_Static_assert(sizeof(struct lane_use_slot) == 32, "four words");

/* A destination whose mail waits for its pace (segment/hints/paced.h). */
#define SEGMENT_PACED		128	/* a power of two */
#define SEGMENT_PASSES		64	/* messages that may go, on their way to the hints file */
struct paced_slot {
	_Atomic uint64_t owner;
	_Atomic int64_t beat_ns;	/* 0: nothing waits */
	_Atomic uint64_t count;		/* of passes */
	_Atomic int64_t last_ns;	/* the last pass */
	_Atomic int64_t written_ns;	/* the last one that the hints file has */
	uint64_t reserved[3];
	struct {
		_Atomic int64_t issued_ns;	/* stored last; 0: none */
		_Atomic uint64_t word;
	} passes[SEGMENT_PASSES];
};
_Static_assert(sizeof(struct paced_slot) % 64 == 0, "whole cache lines");

/* A message that the queue role has a run made for (grants.h): the control word names
 * how many domains count and how; without a mode the place is free. */
#define GRANT_PLACES		2048u	/* a power of two */
#define GRANT_DOMAINS		32
#define GRANT_PUT_OFF		32
struct grant_place {
	_Atomic uint64_t control;
	_Atomic int64_t progress_ns;
	_Atomic uint32_t run;
	_Atomic uint32_t asked;
	_Atomic uint32_t connected;
	_Atomic uint32_t current;
	_Atomic uint32_t is_connected;
	_Atomic uint32_t deferred_count;
	_Atomic uint32_t domains[GRANT_DOMAINS];
	_Atomic uint32_t deferred[GRANT_PUT_OFF];
	_Atomic uint32_t lasting;	/* bits of those that are put off for long */
	_Atomic uint32_t once;		/* what is known as delivered: enum grant_once */
	_Atomic uint32_t made_s;	/* when the message was made; the low bits of its wall clock */
	uint32_t reserved[3];
};
_Static_assert(sizeof(struct grant_place) == 320, "five cache lines");
struct grant_table {
	_Atomic uint64_t owner;		/* role and incarnation; 0: no grant is in force */
	uint64_t reserved[7];
	_Atomic uint64_t keys[GRANT_PLACES];
	struct grant_place places[GRANT_PLACES];
};

/* What lines of a driven Sendmail's log told of deliveries (told.h): a ring of bytes from the
 * feed role to the queue role, and which recipients that one knows as delivered. */
#define TOLD_RING_BYTES		(UINT32_C(1) << 18)
#define TOLD_SETS		8192u	/* powers of two */
#define TOLD_PLACES		8u
struct told_table {
	_Atomic uint64_t head;		/* words written ever; the feed's */
	_Atomic int64_t reached_ns;	/* all logs were read to their ends, then */
	uint64_t reserved[6];
	_Atomic uint64_t tail;		/* words read ever; the queue role's */
	_Atomic uint64_t works;		/* bit i: a line of mail server i was believed */
	uint64_t reserved_too[6];
	_Atomic uint64_t keys[TOLD_SETS][TOLD_PLACES];
	_Atomic uint64_t ring[TOLD_RING_BYTES / 8];
};

/* Mail of a source that is warmed up, or of one provider by it (segment/hints/sources.h).  Of two
 * states that counts which the lowest bit of the serial names. */
#define SEGMENT_SOURCES		2048	/* a power of two, above all of a configuration */
#define SOURCE_WORDS		7
struct source_slot {
	_Alignas(CACHE_LINE) struct lock lock;
	_Atomic uint64_t key;		/* 0: free */
	_Atomic uint64_t serial;	/* rises with each state; stored last */
	/* the state that the journal has: its day, and (0 while that changes) 1 << 63, what was
	 * sent, from bit 31 on, and what was taken ahead */
	_Atomic int64_t kept_day_ns;
	_Atomic uint64_t kept;
	_Atomic uint64_t words[2][SOURCE_WORDS];
};
_Static_assert(sizeof(struct source_slot) == 192, "three cache lines");

/* Where a table of segment/destination/learned.h lies. */
struct table_place {
	uint64_t shards_offset;
	uint64_t tags_offset;		/* struct tag_line, one a bucket */
	uint64_t slots_offset;
	uint32_t shards;
	uint32_t per_shard;		/* slots: buckets times places */
	uint32_t buckets_per_shard;
	uint32_t places_per_bucket;	/* TAG_PLACES at most */
};

/* What tells sizes and places lies in pages of its own, of any of this platform's sizes: a
 * process that attaches the segment has a private copy of them (segment_attach). */
#define SEGMENT_FIXED_BYTES	65536

struct segment_header {
	union {
	struct {
	_Atomic uint64_t magic;		/* stored last when the segment is made */
	uint32_t version;
	uint32_t header_bytes;
	uint64_t layout;		/* hash of these declarations */
	uint64_t bytes;			/* of the file */
	char boot_id[40];
	int64_t created_ns;
	int64_t created_wall_s;
	struct siphash_key key;

	/* from here on as segment_geometry works it out of the counts */
	uint32_t record_count;		/* class records */
	uint32_t shard_count;		/* of sessions */
	uint32_t slots_per_shard;
	uint32_t lines_per_shard;
	uint64_t session_count;		/* as configured */
	uint64_t records_offset;
	uint64_t shards_offset;		/* of sessions */
	uint64_t lines_offset;
	uint64_t slots_offset;
	struct table_place clients;
	uint64_t destination_count;	/* as configured; as many relays */
	struct table_place destinations;
	struct table_place relays;
	struct table_place recipients;
	uint64_t lane_uses_offset;
	uint64_t paced_offset;		/* struct paced_slot */
	uint64_t sources_offset;	/* struct source_slot */
	uint64_t states_offset;		/* struct state_shard, one a shard of destinations */
	uint64_t state_sets[STATE_SETS];	/* a bit for each destination */
	uint64_t reasons_offset;
	uint64_t flights_offset;
	uint64_t attempts_offset;
	uint64_t grants_offset;		/* struct grant_table */
	uint64_t told_offset;		/* struct told_table */
	uint64_t shared_offset;		/* struct shared_head, and buckets */
	uint32_t shared_buckets;	/* a power of two */
	uint32_t reasons_per_shard;
	uint32_t flight_count;
	uint32_t attempt_lines;
	uint64_t decided_offset[DECIDED_RINGS];	/* struct decided_slot */
	uint32_t decided_slots[DECIDED_RINGS];	/* powers of two */
	uint64_t account_count;		/* as configured; 0: there are no tables of accounts */
	struct table_place accounts;
	struct table_place account_mails;
	struct table_place account_healths;
	struct table_place account_queued;
	uint64_t pools_offset;		/* struct account_pool[ACCOUNT_POOLS] */
	uint64_t accounts_unkept_offset;	/* a bit for each login: the journal does not have it
						 * as it is */
	};
	unsigned char fixed[SEGMENT_FIXED_BYTES];
	};

	_Atomic uint64_t generation;	/* published configuration */
	_Atomic int64_t published_ns;	/* when */
	_Atomic int64_t heartbeat_ns;	/* of any role, each second */
	_Atomic int64_t started_ns;	/* the supervisor that serves now */
	_Atomic int32_t supervisor_pid;
	_Atomic uint32_t replaced;	/* 1: another file took its place */
	_Atomic uint32_t next_incarnation;
	_Atomic uint32_t dump_sequence;
	_Atomic uint32_t unconfirmed;	/* 1: taken-over sessions wait for a first look at the kernel's table */
	_Atomic uint32_t unlearned;	/* 1: it was newly built, and what was learned is to come from
					 * the journal; 2: not all of it came */
	_Atomic uint32_t unproven;	/* inbound sessions that only their lease ends */
	_Atomic uint64_t witness_scope;	/* network namespaces that listeners[] was learned from; 0: our own */
	_Atomic uint32_t room_hint;	/* a class that had room for inbound sessions */
	_Atomic uint32_t gate_shut;	/* 1: no class has (engine/session/gate.h) */
	_Atomic int64_t gate_since_ns;	/* its last change, 0: none yet */
	_Atomic int64_t queue_away_ns;	/* the queue role's last sign of life, told of as too
					 * long ago (engine/queue/queue_watch.h); 0: it is well */
	_Atomic uint32_t queue_paused;	/* a bit for each mail server of which nothing is run, as
					 * nothing comes of it (engine/queue/queue.h) */
	/* Who leases shares (engine/cluster/shares.h), 0: nobody yet; and for which node of which cluster
	 * (a hash): under another name nothing that was leased counts. */
	_Atomic uint64_t cluster_instance;
	_Atomic uint64_t cluster_identity;
	_Atomic uint64_t destinations_version;
	_Atomic uint64_t lane_uses_next;
	_Atomic uint32_t paced_used;	/* 0: no mail ever waited for a pace */
	_Atomic uint64_t states_version;
	_Atomic uint64_t recipients_version;
	_Atomic int64_t accounts_since_ns;	/* logins are known since then; 0: there are no tables */
	_Atomic int64_t accounts_full_ns;	/* when a login last found no room; 0: never */
	_Atomic uint64_t feed_slotless;	/* the line that was counted last without a slot */
	_Atomic uint64_t feed_reading;	/* the file whose lines are dealt with (feed_origin_id) */
	_Atomic uint64_t counters[COUNTER_COUNT];

	struct mta_record mtas[SEGMENT_MTAS];
	struct log_record logs[SEGMENT_LOG_FILES];
	struct role_record roles[SEGMENT_ROLES_MAX];
	struct listener_record listeners[SEGMENT_LISTENERS];
	struct carrier_record carriers[SEGMENT_CARRIERS];	/* the keeper's */
	struct journal_record journals[SEGMENT_JOURNALS];
	_Alignas(64) struct cluster_record cluster;
	struct cluster_order cluster_order;
	/* how many decisions of each ring there were; each in a cache line of its own */
	_Alignas(64) struct decided_next decided_next[DECIDED_RINGS];
	/* STIR_RESTS: the keeper is to be told of changes (stir.h); everybody looks at it */
	_Alignas(64) _Atomic uint32_t stir;
	_Atomic int64_t keeper_rest_ns;	/* its next heartbeat comes so long after the last one */
	/* A role's place, as in roles[]. */
	_Alignas(64) struct timing_record timings[SEGMENT_ROLES_MAX][TIMING_KINDS];
	_Alignas(64) struct delay_record delays[SEGMENT_DELAYS];
	_Atomic int64_t waiting_ns[WAITING_KINDS];	/* when the oldest arrived; 0: none waits */
};

#endif
