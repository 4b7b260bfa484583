/* SPDX-License-Identifier: ISC */
/*
 * The outbound side of the world: a Postfix's queue manager, which asks postern-lookup by which
 * lane a message goes, the sites that it delivers to, and its log.
 */
#ifndef TESTS_MACHINE_MAIL_H
#define TESTS_MACHINE_MAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/hints/hints.h"
#include "tests/machine/plan.h"

#define MAIL_MTA	"out"
#define MAIL_LANES	"postern-site 1\nmta " MAIL_MTA "\nclone-limit 20\nlane 1\nlane 2\nlane 3\n" \
	"lane 5\nlane 10\nlane 20\n"
#define MAIL_LIMIT	20	/* of each window (window.destination_concurrency_limit) */
#define DOMAINS_MAX	9
/* Those from here on are Sendmail's. */
#define MAIL_SENDERS_FROM	6
#define MAIL_SENDERS_DOMAINS	3

void mail_begin(const struct plan *plan);
/* All sites are there, and nothing new comes. */
void mail_calm(void);
/* Nothing waits any more. */
bool mail_is_done(void);
/* Says what waits, and ends the run. */
void mail_stuck(const char *what) __attribute__((noreturn));

/* postern-lookup's answer to the question about that message. */
void mail_answered(unsigned number, uint32_t question, const struct hints_answer *answer);
/* It is gone, with what it was asked. */
void mail_lookup_lost(void);

/* Is there a place at that site?  Then one is taken. */
bool site_enter(unsigned domain);
void site_leave(unsigned domain);
/* Sendmail writes what became of a letter. */
void mail_told(uint32_t pid, unsigned letter, unsigned domain, bool sent);
/* Another one for each try: what comes soon after would be taken for the same. */
void mail_queue_id(uint32_t pid, char *out, size_t size);

/* --- the log ---------------------------------------------------------------------- */

struct mail_line {
	const char *text;
	size_t length;
	uint64_t offset;	/* behind it */
	int64_t at_ns;		/* when it was written */
	int64_t started_ns;	/* when the attempt began, that it is of, at the latest; 0: not told */
	bool is_aside;		/* of a filter on this host, or the DNS is away: none of the domain's */
	bool is_unknown;	/* the DNS does not know the host: counted, and no word of the site's */
	unsigned domain;
};
/* The line that begins there; false: there is none yet. */
bool mail_log_line(uint64_t offset, struct mail_line *line);
uint64_t mail_log_end(void);
/* A feed that knows no place in it begins at its end, which this returns: what was before is none of
 * the truth. */
uint64_t mail_log_begin(void);
/* It is dealt with, and was.  check_result.c. */
void check_result_begins(const struct mail_line *line);
void check_result(const struct mail_line *line);
/* No canary is awaited that was given up. */
void check_canaries(void);
/* The feed dealt with this line; a lock stood in the way, and it was not learned. */
void mail_line_lost(const struct mail_line *line);

/* --- what is true ----------------------------------------------------------------- */

const char *mail_domain(unsigned domain);
struct mail_truth {
	uint32_t ok, failed;	/* lines of the log */
	uint32_t lost;		/* of these that could not be learned */
};
struct mail_truth mail_truth(unsigned domain);

#endif
