/* SPDX-License-Identifier: ISC */
/*
 * A configuration generation: the checked configuration as one immutable block
 * without pointers.  The supervisor compiles it (compile.h); the keeper writes it
 * beside the segment and publishes its number there; every role maps it read-only and
 * keeps the old mapping for as long as anything uses it.
 *
 * Offsets are bytes from the start of the block; offset 0 is "none" (text: "").
 */
#ifndef CONFIG_GENERATION_H
#define CONFIG_GENERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "config/generation/account_settings.h"
#include "config/generation/mta_settings.h"
#include "policy/limit/class.h"
#include "policy/limit/limit.h"
#include "policy/window/pace.h"
#include "policy/window/warm.h"
#include "policy/window/window.h"

#define GENERATION_MAGIC	UINT64_C(0x31524e4745545350)
#define GENERATION_BYTES_MAX	((size_t)1 << 29)	/* each process has a copy */
#define GENERATION_LISTENERS_MAX 32
#define GENERATION_ROLES_MAX 43	/* of policy and milter, as the segment has places for */
#define GENERATION_CLASS_NAME_MAX 80	/* bytes, without NUL */
#define GENERATION_DESTINATION_MAX 80	/* bytes of a destination's name */
#define GENERATION_NO_RECORD	UINT32_MAX
#define GENERATION_CONFINED	160	/* bytes, with NUL */
#define GENERATION_NO_PROVIDER	UINT32_MAX

enum listener_kind { LISTENER_POLICY, LISTENER_MILTER, LISTENER_SOCKETMAP,
	LISTENER_CONTROL, LISTENER_METRICS, LISTENER_SYSLOG, LISTENER_EVENTS, LISTENER_QUEUE,
	LISTENER_MILTER_ACCOUNTS };
enum proof_setting { PROOF_AUTO, PROOF_WITNESS, PROOF_OWNER, PROOF_LEASE };
/* What becomes of a role that asks the kernel for what it has no need of (sandbox). */
enum sandbox_setting { SANDBOX_ON, SANDBOX_REQUIRED, SANDBOX_LOG, SANDBOX_OFF };
enum unannounced_setting { UNANNOUNCED_OUTAGE, UNANNOUNCED_ALWAYS, UNANNOUNCED_NEVER };
enum fail_mode { FAIL_OPEN, FAIL_CLOSED };
enum class_action { CLASS_ACTION_421, CLASS_ACTION_DEFER };
enum schedule_discipline { DISCIPLINE_PREEMPTIVE, DISCIPLINE_FIRST_COME };
/* What a node goes on with when its shares cannot be renewed. */
enum cluster_when_unreachable { CLUSTER_FRACTION, CLUSTER_ALONE };
#define CLUSTER_PASSWORD_MAX	255	/* bytes */

/* A socket to listen on, from listen.*; its place in the table is its number
 * (the `listener` of a question). */
struct generation_listener {
	uint8_t kind;		/* enum listener_kind */
	uint8_t proof;		/* enum proof_setting */
	uint16_t mode;		/* of a unix socket: permission bits */
	uint32_t address;	/* text as configured, "unix:/path" ... */
	uint32_t owner;		/* user name, or 0 */
	uint32_t group;		/* group name, or 0 */
	uint32_t read_group;	/* control, queue: who may ask, and who may act */
	uint32_t write_group;
	uint32_t mta;		/* name of the mail server that asks here; 0: not said */
	uint32_t line;
};

/* Where a class's setting is written; line 0: nowhere. */
enum generation_class_place {
	CLASS_AT_SESSIONS, CLASS_AT_INBOUND, CLASS_AT_RATE, CLASS_AT_CLIENT_SESSIONS,
	CLASS_AT_CLIENT_RATE,
	/* the innermost that counts, which may stand outside of the class */
	CLASS_AT_OBSERVE, CLASS_AT_CLIENT_OBSERVE, CLASS_AT_OUTBOUND_OBSERVE,
	CLASS_PLACES
};
struct generation_place {
	uint32_t file;
	uint32_t line;
};

struct generation_class {
	uint32_t name;
	uint32_t text;		/* for the client, after "421 4.7.0 " (base/reply_text.h) */
	uint32_t file;		/* where the class is written */
	uint32_t line;
	/* Its record in the segment: filled just before the
	 * generation is published, GENERATION_NO_RECORD until then. */
	uint32_t record;
	uint8_t action;		/* enum class_action */
	uint8_t observe;	/* decides and logs, but admits (innermost setting applied) */
	uint8_t client_observe;	/* the same for limits of one client */
	uint8_t outbound_observe;
	uint8_t client_bits_v4;	/* 0..32: what is one client */
	uint8_t client_bits_v6;	/* 0..128 */
	uint8_t has_client_limit; /* client sessions or client rate is set */
	uint8_t any_port;	/* no `ports`: every service */
	uint32_t ports;		/* offset of uint16_t[port_count] */
	uint32_t port_count;
	uint32_t record_use;	/* filled with `record`: which of its uses this is */
	uint32_t retry_s;	/* what {retry} in the text stands for */
	uint8_t bulk;		/* its clients' mail may be deferred for suspended destinations */
	uint8_t shared;		/* sessions and inbound hold for all nodes of the cluster */
	uint8_t wants_shared;	/* scope says so; shared follows where there is a cluster */
	uint8_t has_quotas;	/* an entry of accounts stands for it (account_settings.h) */
	/* shared: the part that is always this node's (policy/window/share.h) */
	uint32_t fixed_base;
	uint32_t fixed_extra;
	struct limits limits;
	struct generation_place places[CLASS_PLACES];
};

/* One mask of one class, in file order. */
struct generation_rule {
	uint32_t class_index;
	uint32_t file;
	uint32_t line;
	uint32_t text;		/* the mask as written */
};

/* A group of window parameters: window, mta[].window, destinations[].window, a
 * provider's window. */
struct generation_window {
	uint32_t given;		/* bit of each parameter that the group sets; the
				 * rest of the fields means nothing */
	uint32_t file;		/* where the group is written */
	uint32_t line;
	uint8_t debug;		/* each change is logged */
	uint8_t reserved[3];
	struct window_settings settings;
};

/* Destinations with window parameters or a pace of their own: destinations[]. */
struct generation_destinations {
	uint32_t file;
	uint32_t line;
	uint32_t window;	/* struct generation_window, or 0 */
	uint32_t reserved;
	struct rate_limit pace;	/* count 0: none */
};

/* A site that several domains share, out of the file of providers. */
struct generation_provider {
	uint32_t name;		/* "google"; its destination is "provider:google" */
	uint32_t file;
	uint32_t line;
	uint32_t window;	/* struct generation_window, or 0 */
	uint32_t rules;		/* number of its first reply rule */
	uint32_t rule_count;
	uint32_t ceiling;	/* of deliveries at once, by its own word; 0: not known */
	uint32_t pace;		/* of its first rule with action slow, or 0 */
};

enum reply_action {
	REPLY_ACTION_NONE,		/* the class alone */
	REPLY_ACTION_CEILING,		/* so many at once, no more */
	REPLY_ACTION_SUSPEND,		/* the destination, for a time */
	REPLY_ACTION_HOLD_RECIPIENT,	/* this recipient alone, for a time */
	REPLY_ACTION_ALERT,		/* tells people; the window learns nothing of it */
	REPLY_ACTION_SLOW,		/* fewer messages per time; without a class the window learns
					 * nothing of it */
};

/* What a reply of a provider (or of anybody) means. */
struct generation_reply_rule {
	uint32_t provider;	/* GENERATION_NO_PROVIDER: anybody's */
	uint32_t name;		/* "", where it has none */
	uint32_t pattern;	/* of PCRE2 (base/pattern.h), checked */
	uint32_t note;
	uint32_t file;
	uint32_t line;
	uint8_t has_class;
	uint8_t class;		/* enum result_class, if has_class */
	uint8_t action;		/* enum reply_action */
	uint8_t pace_alone;	/* of SLOW: the window does not hear of it */
	uint32_t ceiling;	/* of CEILING: 1 or more */
	uint32_t count;		/* so many within period_ns before anything is done: 1 or more */
	uint32_t pace;		/* of SLOW: struct pace_settings without a limit; else 0 */
	int64_t period_ns;	/* 0 where count is 1 */
	int64_t for_ns;		/* of the action; 0: window.suspend of the destination */
	uint64_t identity;	/* the same after a reload while provider and pattern are */
};

/* Which queued mail is next: schedule.  Names as settings.def has them. */
struct generation_schedule {
	uint32_t discipline;	/* enum schedule_discipline */
	struct pool_settings pool;	/* qmgr_...; batch_most 0 */
	uint32_t backlog;
	uint32_t max_message_concurrency;
	uint32_t scale_max_concurrency;
	struct job_settings job;	/* of the transports that say nothing else */
};

/* What people are told of (defs/alerts.def), and by what: alert. */
enum alert_kind {
#define ALERT(symbol, word, subject, text) ALERT_##symbol,
#include "defs/alerts.def"
#undef ALERT
	ALERT_KINDS
};
/* "suspended" ... Static. */
const char *generation_alert_word(enum alert_kind kind);

#define GENERATION_COMMAND_WORDS 16
struct generation_alert {
	struct rate_limit rate;
	int64_t interval_ns;
	int64_t timeout_ns;
	uint32_t word_count;	/* of the command; 0: nothing is told */
	uint32_t words[GENERATION_COMMAND_WORDS];	/* texts */
	uint32_t on;		/* a bit for each enum alert_kind */
	uint32_t processes;
	uint32_t reserved;
};

/* The journal: journal. */
struct generation_journal {
	uint32_t path;		/* directory, absolute; "": there is none */
	uint32_t reserved;
	uint64_t file_size;
	int64_t sync_delay_ns;
	int64_t envelope_delay_ns;
	uint64_t decisions_size;	/* of all files of decisions/ */
};

/* The other machines: cluster. */
struct generation_cluster {
	uint32_t redis;		/* "unix:/path", "inet:host:port"; "": there is no cluster */
	uint32_t user;		/* by which it is asked; "": the default one */
	uint32_t password_file;	/* path, or "" */
	uint32_t node;		/* name of this machine */
	uint32_t prefix;	/* of all keys, as written: "postern:" */
	uint32_t nodes;		/* that there may be */
	uint32_t fraction;	/* percent of a limit that is divided for good */
	uint32_t when_unreachable;	/* enum cluster_when_unreachable */
	uint32_t line;		/* where the group is written */
	uint32_t reserved;
	int64_t lease_ns;
};

/* A source address that is warmed up (DESIGN section 17): sources[]. */
#define GENERATION_SOURCES_MAX		16
#define GENERATION_SOURCE_NAME_MAX	32	/* bytes, also of a transport */
struct generation_source {
	uint32_t name;
	uint32_t transport;	/* of Postfix, with an address of its own */
	uint32_t over;		/* transport of what is above the number; "": that mail waits */
	uint32_t line;
	uint32_t is_per_provider;	/* else the plan is for all its mail */
	uint32_t reserved;
	struct warm_settings warm;
};

struct generation {
	uint64_t magic;
	uint64_t layout;	/* generation_layout() of the code that wrote it */
	uint64_t bytes;		/* of the whole block */
	uint64_t number;	/* rises by one with each publication */
	int64_t loaded_wall_s;

	uint32_t file;		/* name of the configuration file */
	uint32_t class_count;
	uint32_t classes;	/* struct generation_class[] */
	uint32_t rule_count;
	uint32_t rules;		/* struct generation_rule[] */
	uint32_t listener_count;
	struct generation_listener listeners[GENERATION_LISTENERS_MAX];

	/* Matching: an index over the classes that serve `port`, for each port
	 * that some class names; one for every other port; one for outbound
	 * sessions (all classes).  Equal indexes share one offset. */
	uint32_t port_count;
	uint16_t ports[GENERATION_PORTS_MAX];
	uint32_t port_index[GENERATION_PORTS_MAX];
	uint32_t other_index;
	uint32_t outbound_index;
	uint32_t exempt_index;	/* rule numbers mean nothing but "exempt" */

	/* Settings of the whole daemon (settings.def tells each). */
	uint8_t observe;
	uint8_t outbound_observe;
	uint8_t fail_mode;	/* enum fail_mode */
	uint8_t count_unannounced;	/* enum unannounced_setting */
	uint8_t log_facility;	/* place in the words of settings.def */
	uint8_t back_pressure;	/* bulk is deferred at RCPT while its destination is suspended */
	uint8_t sandbox;	/* enum sandbox_setting */
	uint8_t reserved;
	int64_t lease_owner_ns;		/* an owner lives: 1 h */
	int64_t lease_orphan_ns;	/* none does: 1 min */
	uint32_t policy_processes;
	uint32_t policy_connections;	/* at most, for each process */
	uint32_t witness_port_count;	/* service ports to watch besides those seen */
	uint16_t witness_ports[GENERATION_PORTS_MAX];
	uint32_t netns_count;
	uint32_t netns[8];		/* witness.netns: names or paths */
	uint32_t mta_count;
	uint32_t reserved2;
	/* What Sendmail's deliveries would lack if the supervisor started them (set by it, see
	 * role/confine/confinement.h): no queue is driven then.  "": nothing. */
	char confined[GENERATION_CONFINED];
	struct generation_mta mtas[GENERATION_MTAS_MAX];
	uint32_t remote_port_count;	/* of all mtas: outbound connections to them count */
	uint16_t remote_ports[GENERATION_PORTS_MAX];
	struct rate_limit requeue_rate;	/* of each mta */
	struct generation_schedule schedule;
	/* gate.command: texts, none: 0. */
	uint32_t gate_word_count;
	uint32_t gate_words[GENERATION_COMMAND_WORDS];
	/* Address prefixes of `exempt`, with a space between them, or "". */
	uint32_t gate_exempt4;
	uint32_t gate_exempt6;
	struct generation_alert alert;

	/* Windows, and the providers (generation_windows.c reads them). */
	struct generation_window window;	/* for all: every parameter is set */
	uint32_t destinations_count;
	uint32_t destinations;		/* struct generation_destinations[] */
	uint32_t destinations_index;	/* of their masks */
	uint32_t destinations_mask_count;
	uint32_t destinations_masks;	/* uint32_t[]: the place in destinations of each mask */
	uint32_t destinations_names;	/* uint32_t[]: of each mask the text, in lower case, where it
					 * is the name of one destination; else 0 */
	uint32_t providers_file;	/* name of the file, or "": there is none */
	uint32_t provider_count;
	uint32_t providers;		/* struct generation_provider[] */
	uint32_t provider_index;	/* of their relays */
	uint32_t provider_mask_count;
	uint32_t provider_masks;	/* uint32_t[]: the provider of each mask */
	uint32_t reply_rule_count;
	uint32_t reply_rules;		/* struct generation_reply_rule[] */
	uint32_t common_rules;		/* number of the first one that is anybody's; those
					 * are the last */
	uint32_t common_pace;		/* of the first of these with action slow, or 0 */

	/* Those that wait for a restart. */
	uint32_t state_path;
	uint32_t user;
	uint32_t group;
	uint32_t hints_group;		/* who may read the hints; 0: everybody */
	uint32_t record_count;		/* class records in the segment */
	uint64_t session_count;
	uint64_t destination_count;
	struct generation_journal journal;
	struct generation_cluster cluster;
	uint64_t account_count;	/* places for logins in the segment; 0: there are no accounts */
	struct generation_accounts accounts;
	uint32_t accounts_named;	/* by metrics and the status page */
	uint64_t history_bytes;		/* 0: none is kept */
	uint32_t source_count;
	uint32_t sources;		/* struct generation_source[] */
};

/* A hash over the text of the declarations above and of the settings' table, which the build
 * makes, so that a block of another build is never read. */
uint64_t generation_layout(void);

/* 0, or -1 with *diag: wrong magic, layout, size, or an offset outside. */
int generation_verify(const void *block, size_t bytes, struct diag *diag);

/* It ends inside, as the block ends with a NUL; "" for an offset that is none of a text. */
static inline const char *
generation_text(const struct generation *g, uint32_t offset) {
	return offset < sizeof(*g) || offset >= g->bytes ? "" : (const char *)g + offset;
}

static inline const struct generation_class *
generation_class(const struct generation *g, uint32_t index) {
	return (const struct generation_class *)(const void *)
	    ((const char *)g + g->classes) + index;
}
/* The number of the class of this name, or UINT32_MAX. */
uint32_t generation_find_class(const struct generation *g, const char *name);

static inline const struct generation_rule *
generation_rule(const struct generation *g, uint32_t index) {
	return (const struct generation_rule *)(const void *)
	    ((const char *)g + g->rules) + index;
}

/* The rule for an inbound session on service port `port` (0: not known, then
 * only classes without `ports` match), or CLASS_NO_RULE.  name may be NULL. */
uint32_t generation_match_inbound(const struct generation *g, uint16_t port,
    const struct address *client, const char *name, size_t name_length);
uint32_t generation_match_outbound(const struct generation *g,
    const struct address *server, const char *name, size_t name_length);
bool generation_is_exempt(const struct generation *g,
    const struct address *client, const char *name, size_t name_length);

/* The mail server that a row is, or is a transport of. */
static inline unsigned generation_parent(const struct generation *g, unsigned mta) {
	return g->mtas[mta].transport != 0 ? g->mtas[mta].parent : mta;
}

/* The window parameters of a destination: each from the innermost group that sets
 * it, of destinations[], its provider, the mail server, all; the provider's ceiling cuts
 * the limit where destinations[] does not give it.  `mta`: its number, or
 * GENERATION_MTAS_MAX; `destination`: its name as the judge writes it (a domain,
 * "provider:NAME", "[address]:port", "TRANSPORT:" before any), compared without case and
 * without the transport; `provider`: its
 * number, or GENERATION_NO_PROVIDER.  Returns whether each change of the window is
 * to be logged.  Any thread; about 60 ns. */
bool generation_window_settings(const struct generation *g, unsigned mta,
    const char *destination, size_t length, uint32_t provider, struct window_settings *out);

/* The same, and its pace: as destinations[] limits it, with `by`, `floor` and `up` of the first
 * rule with action slow, of its provider or of all.  *is_paced: one may be in force. */
bool generation_settings(const struct generation *g, unsigned mta, const char *destination,
    size_t length, uint32_t provider, struct window_settings *out, struct pace_settings *pace,
    bool *is_paced);

/* What a rule with action slow says of the pace, its limit apart; of others NULL. */
const struct pace_settings *generation_rule_pace(const struct generation *g,
    const struct generation_reply_rule *rule);

/* Does any destination have a configured pace? */
bool generation_has_paces(const struct generation *g);

/* Can a configuration limit a pace so?  For generation_verify, too. */
bool generation_pace_is_sound(const struct rate_limit *limit);

/* Are all parameters at `offset` (0: none) such as a configuration can give?  For
 * generation_verify: the place itself is known to fit. */
bool generation_window_is_sound(const struct generation *g, uint32_t offset);

/* The groups that it looks at for those, innermost first: "destinations", "provider",
 * "transport", "mta", "window".  Fills out and returns how many; `file` is "" and `line` 0 for the
 * defaults. */
struct generation_window_source {
	const char *what;
	const char *file;
	uint32_t line;
};
#define GENERATION_WINDOW_SOURCES 5
unsigned generation_window_sources(const struct generation *g, unsigned mta,
    const char *destination, size_t length, uint32_t provider,
    struct generation_window_source out[GENERATION_WINDOW_SOURCES]);

/* "destinations FILE:LINE, window FILE:LINE", "defaults". */
void generation_window_sources_text(const struct generation *g, unsigned mta,
    const char *destination, uint32_t provider, char *out, size_t size);

/* The provider whose relays match, or GENERATION_NO_PROVIDER.  Either may be unknown
 * (NULL). */
uint32_t generation_match_provider(const struct generation *g,
    const char *relay_name, size_t length, const struct address *relay);

/* The one whose window has this name, or GENERATION_NO_PROVIDER. */
uint32_t generation_window_provider(const struct generation *g, const char *name);

/* The provider of this name, or GENERATION_NO_PROVIDER. */
uint32_t generation_find_provider(const struct generation *g, const char *name,
    size_t length);

/* The name of one destination that mask `number` of destinations[] is, as the judge writes
 * it; "": the mask is for many, or there is no such mask. */
const char *generation_destination_name(const struct generation *g, uint32_t number);

const struct generation_provider *generation_provider(const struct generation *g,
    uint32_t index);
const struct generation_reply_rule *generation_reply_rule(const struct generation *g,
    uint32_t index);

static inline const struct generation_source *
generation_source(const struct generation *g, uint32_t index) {
	return (const struct generation_source *)(const void *)
	    ((const char *)g + g->sources) + index;
}

/* The journal's directories, each with one writer. */
enum journal_room {
#define JOURNAL(symbol, word) JOURNAL_ROOM_##symbol,
#include "defs/journals.def"
#undef JOURNAL
	JOURNAL_ROOMS
};
/* "feed" and so on. Static. */
const char *generation_journal_word(enum journal_room room);
/* Its path in `out`, of PATH_MAX bytes; false: there is no journal, and out is "". */
bool generation_journal_directory(const struct generation *g, enum journal_room room,
    char *out);

/* Is there a cluster?  Then classes may be `shared`. */
static inline bool generation_has_cluster(const struct generation *g) {
	return g->cluster.redis != 0;
}

/* Which classes are shared, and the parts that are always this node's: to be called once
 * cluster, classes and limits stand, before the generation is published. */
void generation_share_out(struct generation *g);

/* Is there a socket of this kind? */
bool generation_has_listener(const struct generation *g, enum listener_kind kind);
/* Do sockets bring what mail servers tell, besides their logs (listen.syslog, listen.events)? */
bool generation_is_fed(const struct generation *g);
/* Is the log of one systemd's journal? */
bool generation_reads_sd_journal(const struct generation *g);

/* Is there a mail server whose queue is driven? */
bool generation_drives(const struct generation *g);
/* Or one whose queue would be, if mail did not bounce then (`confined`)? */
bool generation_drive_is_refused(const struct generation *g);

/* The LOG_* facility of log.facility. */
int generation_log_facility(const struct generation *g);

#endif
