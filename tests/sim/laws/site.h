/* SPDX-License-Identifier: ISC */
/*
 * A site in virtual time, and mail for it that a law lets go.  Two runs of each: a backlog that
 * waits at the start, and a stream of mail at 70 % of what the site takes.
 *
 * Refused mail comes again as with Postfix: after its age, 300 s at least and 4000 s at most.
 */
#ifndef TESTS_SIM_LAWS_SITE_H
#define TESTS_SIM_LAWS_SITE_H

#include "tests/sim/laws/law.h"

enum site_mode {
	SITE_REFUSES,	/* above its limit: 421 after 100 ms */
	SITE_QUEUES,	/* serves its limit, the rest waits for its turn, connected */
	SITE_TARPITS,	/* above its limit each one takes 30 s longer */
	SITE_HANGS,	/* above its limit there is no answer for 30 s */
};

struct site {
	const char *name;
	uint32_t limit;
	uint32_t later_limit;	/* from 200 s on; 0: the same */
	enum site_mode mode;
	double noise;		/* share of attempts refused at any level */
	uint32_t server_limit;	/* not 0: four servers behind one address take so many each, and one
				 * more refuses all; an attempt meets any of them */
	int64_t report_ns;	/* results are heard up to so much later */
	bool mixed;		/* 8.11 % permanent failures, 4.82 % temporary ones of recipients; 2 % of the
				 * mail takes 10 times as long */
};

/* Every site of the comparison. */
extern const struct site sites[];
extern const unsigned site_count;

struct site_result {
	double refused;		/* share of first attempts that the site refused or did not answer */
	double drain_s;		/* until 99 % of the backlog were taken */
	double used;		/* share of its limit that was in use while first attempts waited */
	double delay_s;		/* 99th percentile from arrival to taken, of the stream */
};

/* `law` NULL: an oracle, which knows the limit.  False: it never ended. */
bool site_run(const struct site *site, const struct law *law, uint64_t seed,
    struct site_result *out);

#endif
