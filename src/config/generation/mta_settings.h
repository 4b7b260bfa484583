/* SPDX-License-Identifier: ISC */
/*
 * Mail servers in a configuration generation, and what their sites say of single domains.  Part
 * of config/generation/generation.h.  Offsets are bytes from the start of the block.
 */
#ifndef CONFIG_MTA_SETTINGS_H
#define CONFIG_MTA_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/schedule/job_settings.h"

struct generation;

#define GENERATION_LANES_MAX	16	/* of one mta */
#define GENERATION_LOG_UIDS_MAX	3
#define GENERATION_QUEUES_MAX	16	/* of one mta, as configured */
#define GENERATION_PORTS_MAX	64	/* distinct service ports named by classes */
#define GENERATION_MTAS_MAX	8

enum mta_kind { MTA_POSTFIX, MTA_SENDMAIL };
/* Recipients that the log says were delivered, and whose queue file lists them still. */
enum exactly_once { EXACTLY_ONCE_OFF, EXACTLY_ONCE_OBSERVE, EXACTLY_ONCE_ENFORCE };

#define GENERATION_TRANSPORTS	2

/* A mail server whose deliveries are counted and read: mta[].  Its place in the
 * table is its number.  Behind them all stand further transports of a Postfix that have
 * lanes and windows of their own (mta[].transports[]), each as if it were a mail server: what
 * it shares with its own it has a copy of, but no log. */
struct generation_mta {
	uint32_t name;		/* of a transport "MTA/TRANSPORT" */
	uint32_t transport;	/* its name; 0: a mail server */
	uint32_t parent;	/* of a transport: number of its mail server */
	uint32_t line;
	uint8_t kind;		/* enum mta_kind */
	/* What posternctl postfix-lanes wrote down about the site: 0: nothing, then
	 * no destination gets a hint. */
	uint8_t site_known;
	uint8_t site_only_listed; /* only destinations of site_listed_index qualify */
	uint8_t uid_known;
	uint32_t uid;		/* Sendmail: of its sockets; they are asked about */
	/* Path or pattern (base/path_pattern.h), systemd's journal (base/sd_log.h), or "". */
	uint32_t log;
	uint32_t log_from_begin; /* what stands in it when it is first read counts, too */
	/* Users besides root whose lines in systemd's journal are its own. */
	uint32_t log_uids[GENERATION_LOG_UIDS_MAX];
	uint32_t log_uid_count;
	uint32_t syslog_name;
	uint32_t config_directory;
	uint32_t command_directory; /* of postqueue and postfix */
	uint32_t may_reload;
	uint32_t clone;		/* transport that the lanes clone */
	uint32_t clone_program;	/* how its deliveries are named in the log, "postfix/smtp" */
	uint32_t site;		/* path of the file that tells about the site */
	uint32_t site_refusal;	/* why no destination at all gets a hint, or "" */
	uint32_t site_excluded_index;	/* masks that get none; 0: no such */
	uint32_t site_excluded_count;
	uint32_t site_reasons;	/* offset of uint32_t[site_excluded_count]: texts */
	uint32_t site_listed_index;
	/* The relay that all its mail goes to (relayhost, SMART_HOST), as written:
	 * "[host]:port", "host"; or "". */
	uint32_t relayhost;
	uint16_t lanes[GENERATION_LANES_MAX];	/* concurrency of each, rising */
	uint32_t lane_count;
	uint32_t cache_from;	/* lanes as wide as this cache connections; 0: none does */
	uint32_t site_lanes;	/* bit i: lanes[i] stands in the site's master.cf */
	uint32_t site_cohorts;	/* failed pseudo-cohorts (in 1/1000) after which Postfix itself
				 * suspends one of its lanes, but that of 1; 0: never */
	uint32_t site_backoff_s;	/* and for how long */
	uint32_t site_origin;	/* deliveries at once to one next hop by the cloned transport
				 * itself; 0: any number */
	uint32_t site_route_index;	/* masks of which the site names the next hop */
	uint32_t site_route_count;
	uint32_t site_routes;	/* offset of uint32_t[site_route_count]: next hops */
	uint32_t site_route_names; /* of a transport, the same: the domain, where the mask is one,
				 * else 0 */
	uint32_t reserved;
	/* Offset of uint32_t[site_watch_count]: files that the site's settings were read of
	 * (generation_site_watch). */
	uint32_t site_watches;
	uint32_t site_watch_count;
	uint32_t site_sources;	/* uint32_t[site_source_count]: transports of sources that are
				 * warmed up, and of what is above their numbers */
	uint32_t site_source_count;
	uint32_t site_changed;	/* 1 + the first of them that is another one by now; 0: none */
	uint32_t window;	/* struct generation_window, or 0 */
	/* The queue that is driven (Sendmail); the rest means nothing without `drive`. */
	uint32_t drive;
	uint32_t processes;	/* at a time, and as many again that are stalled */
	uint32_t local_processes;	/* besides these, for local mail */
	uint32_t cf;
	uint32_t sendmail;	/* the program */
	uint32_t user;		/* that it runs as: name */
	uint32_t queue_count;
	uint32_t queues[GENERATION_QUEUES_MAX];	/* directories, absolute; perhaps with a * at
						 * the end */
	uint32_t local_queues;	/* bit i: queues[i] is for local mail alone */
	uint32_t port_count;	/* remote ports that its mail leaves for */
	uint16_t ports[GENERATION_PORTS_MAX];
	uint32_t site_by_setup;	/* postern-postfix-setup put the site's lines in */
	uint32_t probes_total;	/* processes for all address verification probes; 0: as their
				 * transport */
	uint16_t probes;	/* of them at one destination; 0: as without us */
	uint16_t site_probes;	/* the same, as their lane in master.cf has it; 0: no lane */
	int64_t retry_ns;	/* of the queue that is driven */
	int64_t retry_most_ns;
	int64_t stall_ns;
	int64_t run_limit_ns;
	uint32_t exactly_once;	/* enum exactly_once */
	uint32_t queue_reserved;
	/* Of a queue that is driven: to other hosts; local. */
	struct job_settings transports[GENERATION_TRANSPORTS];
};

/* Transports of mail servers, and whose windows are whose.  The window of a destination in
 * mta[].transports[] is named "TRANSPORT:NAME": the length of that with its colon, or 0: the
 * name is that of a window of all mail servers. */
size_t generation_transport_prefix(const char *name, size_t length);
/* The row of transport `name` of mail server `parent`, or of the first that has one
 * (GENERATION_MTAS_MAX); GENERATION_MTAS_MAX: there is none. */
unsigned generation_find_transport(const struct generation *g, unsigned parent,
    const char *name, size_t length);
/* The row by whose transport the mail server `mta` sends mail for `domain`, as far as its site's
 * file tells: that of a transport, or `mta` itself. */
unsigned generation_site_transport(const struct generation *g, unsigned mta, const char *domain,
    size_t length);
/* The domain whose next hop route number `number` of a transport's row names, or "": it is for
 * many, another one counts for it, or it leads to the domain's own mail exchangers. */
const char *generation_site_listed(const struct generation *g, unsigned mta, uint32_t number);
/* The row whose settings count for the window of this name, if the rows of `bits` were seen to
 * deliver there: the first of them; else the only one that it can be; or
 * GENERATION_MTAS_MAX. */
unsigned generation_window_mta(const struct generation *g, const char *name, size_t length,
    unsigned bits);
/* Bits of the mail server and of its transports, if `mta` is one of these. */
unsigned generation_mta_bits(const struct generation *g, unsigned mta);

/* Has the site settings of its own for mail to `domain`, so that no hint may be
 * given?  *reason (or NULL): why, "" where the site's file does not say. */
bool generation_site_excludes(const struct generation *g,
    const struct generation_mta *mta, const char *domain, size_t length,
    const char **reason);

/* May `domain` have hints as far as the site's list of destinations goes?  True
 * where the site has none (site_only_listed is 0). */
bool generation_site_lists(const struct generation *g,
    const struct generation_mta *mta, const char *domain, size_t length);

/* Does a line of the site's file name the next hop? */
bool generation_site_routes(const struct generation *g, const struct generation_mta *mta,
    const char *domain, size_t length);

/* The next hop that the site names for mail to `domain` by the cloned transport, spelled
 * as it does: an entry of its transport maps, else relayhost; "": the domain itself. */
const char *generation_site_next_hop(const struct generation *g,
    const struct generation_mta *mta, const char *domain, size_t length);

/* File number `number` of site_watches, and its stamp (base/file_stamp.h) when it was
 * read; then the first one that has changed since, plus 1, or 0: looks at the disk. */
const char *generation_site_watch(const struct generation *g,
    const struct generation_mta *mta, uint32_t number, uint64_t *stamp);
/* The command that reads a site's settings again, and renews its lines. */
static inline const char *generation_site_reader(const struct generation_mta *mta) {
	return mta->site_by_setup ? "postern-postfix-setup make" : "posternctl postfix-lanes";
}
uint32_t generation_site_changed(const struct generation *g,
    const struct generation_mta *mta);

/* Does a line of systemd's journal that this user wrote count for the mail server? */
bool generation_logs_as(const struct generation_mta *mta, uint32_t uid);

#endif
