/* SPDX-License-Identifier: ISC */
/*
 * Whose a delivery result is, and what it means there (DESIGN section 8): the
 * mail server that wrote it, the destination that was really tried, the class
 * after the provider rules.  For the engine, and for posternctl analyze, which
 * judges the same lines without a daemon.
 */
#ifndef JUDGE_JUDGE_H
#define JUDGE_JUDGE_H

#include <stdbool.h>

#include "base/diag.h"
#include "config/generation/generation.h"
#include "policy/reply/delivery.h"
#include "policy/reply/reply.h"

struct judge;

/* Compiles the patterns of a generation, which must outlive it.  One thread uses one
 * judge.  -1 with *diag: no memory (patterns were checked when it was compiled). */
int judge_open(struct judge **judge, const struct generation *generation,
    struct diag *diag);
void judge_close(struct judge **judge);

enum destination_kind {
	DESTINATION_NONE,	/* nobody's: local delivery, no domain, not our mail server */
	DESTINATION_DOMAIN,	/* a recipient domain, reached by its own MXs */
	DESTINATION_PROVIDER,	/* of providers.conf: several domains share it */
	DESTINATION_RELAY,	/* a fixed relay: "[127.0.0.1]:10024" */
};

#define JUDGE_NAME_MAX	80
#define JUDGE_NONE	UINT32_MAX	/* GENERATION_NO_PROVIDER, _NO_REPLY_RULE */

/* A relay that was really tried, out of relay= or out of the text. */
struct tried_relay {
	struct span name;	/* or empty */
	struct address address;	/* or unknown */
	uint16_t port;		/* 0: not told */
};

/* Whose window it is: the destination's name as it stands in the segment. */
struct window_owner {
	enum destination_kind kind;	/* DESTINATION_NONE: nobody's, the rest is unset */
	/* A domain in lower case without a dot at its end, "provider:NAME", "[address]:port";
	 * "TRANSPORT:" before any of these, if it is of mail of a transport's row. */
	char name[JUDGE_NAME_MAX + 1];
	uint32_t provider;		/* of the generation, or JUDGE_NONE */
};

struct judgement {
	unsigned mta;		/* of the generation; GENERATION_MTAS_MAX: nobody's, then
				 * all else is unset but reply (a delivery that was told
				 * over the event socket, DELIVERY_OF_OTHER, is judged
				 * all the same, for port 25) */
	struct reply reply;	/* its class as the provider rules refine it */
	/* As the result tells; where it tells no relay it is the domain: whoever knows by which
	 * relays that was reached last asks generation_match_provider. */
	struct window_owner owner;
	uint32_t rule;		/* that matched the reply, or JUDGE_NONE */
	struct tried_relay tried;
	bool cloned;		/* by the transport that the lanes of `mta` clone, or a lane */
	uint32_t lane;		/* the lane's concurrency; 0: none */
	uint32_t source;	/* of generation_source, and 1, by whose transport it went; 0: none */
};

/* `mtas`: bit i is mail server i of the generation, whose log it stood in. */
void judge_delivery(struct judge *judge, unsigned mtas, const struct delivery *delivery,
    struct judgement *out);

/* The Postfix of `mtas` whose syslog_name the program begins with, the longest one, or
 * GENERATION_MTAS_MAX.  *rest: where its own part of the program's name begins.  Any
 * thread. */
unsigned judge_postfix(const struct generation *generation, unsigned mtas,
    struct span program, size_t *rest);

/* Writes "provider:NAME" into out; false: it is too long to be a destination. */
bool judge_provider_destination(const struct generation *generation, uint32_t provider,
    char out[JUDGE_NAME_MAX + 1]);

/* Puts "TRANSPORT:" before the name of a destination, if `mta` (or NULL) is a transport's row
 * and it is not there yet.  False: it is too long then, and "". */
bool judge_transport_name(const struct generation *generation, const struct generation_mta *mta,
    char name[JUDGE_NAME_MAX + 1]);

/* Writes a recipient's domain as it names a destination: in lower case, without a dot at
 * its end, "[192.0.2.1]" for an address.  False: it is none; what is one cannot be taken
 * for a provider, a class or a relay on a port.  Any thread. */
bool judge_domain(struct span domain, char out[JUDGE_NAME_MAX + 1]);

/* The port of the relay that all mail goes to (relayhost, smart_host): as it says, by number
 * or name of a service, else the usual one of the mail server.  Any thread. */
uint16_t judge_relayhost_port(const struct generation *generation,
    const struct generation_mta *mta);

/* Refines the class of a reply by the rules of `provider` (or JUDGE_NONE) and those of
 * all, as judge_delivery does.  The rule that matched, or JUDGE_NONE. */
uint32_t judge_reply(struct judge *judge, uint32_t provider, struct reply *reply);

/* A rule for replies, for whoever acts by it.  Texts live as long as the generation. */
struct judge_rule {
	enum reply_action action;	/* config/generation/generation.h */
	int64_t for_ns;		/* of the action; 0: suspend_ns of the destination */
	uint32_t ceiling;	/* of REPLY_ACTION_CEILING */
	const struct pace_settings *pace;	/* of REPLY_ACTION_SLOW, without a limit; else NULL */
	/* The action is taken by the count-th reply of one destination (hold-recipient:
	 * of one recipient) within period_ns; count 1: by each. */
	uint32_t count;
	int64_t period_ns;
	uint64_t identity;	/* the same over reloads, while provider and pattern are */
	const char *provider;	/* "": a rule for everybody */
	const char *name;	/* "google-ip-rate"; without one "providers.conf:LINE" is
				 * for people: file and line */
	const char *note;	/* what the remote means by it, or "" */
	const char *file;
	unsigned line;
};
void judge_rule(const struct generation *generation, uint32_t rule, struct judge_rule *out);

/* How often a pattern was given up because it met its limits, since judge_open. */
uint64_t judge_patterns_given_up(const struct judge *judge);

/* Does the window learn from it?  Not from what only alerts (a blocklist, failed
 * authentication), even where the class is a site-failure; nor from what is about the pace,
 * unless its rule gives the class. */
bool judge_teaches(const struct generation *generation, const struct judgement *judgement);
/* As what the window hears of it: what was bounced before anybody was asked says nothing of the
 * site; nor does what does not teach. */
enum result_class judge_heard(const struct generation *generation,
    const struct judgement *judgement);
/* What a result of this class says of the site. */
enum judged_weight { JUDGED_NEUTRAL, JUDGED_POSITIVE, JUDGED_NEGATIVE };
enum judged_weight judged_weight(enum result_class class);

/* May its connection be kept for the next message?  It was one that was, or the lane keeps
 * all (mta[].cache_from). */
bool judge_keeps(const struct generation *generation, const struct judgement *judgement,
    const struct delivery *delivery);

#endif
