/* SPDX-License-Identifier: ISC */
/* What a run is made of.  A seed gives a plan; shrinking makes its numbers smaller. */
#ifndef TESTS_MACHINE_PLAN_H
#define TESTS_MACHINE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers that may be shrunk, by the names of option -w. */
#define PLAN_NUMBERS(NUMBER) \
	NUMBER(policies)	/* policy roles */ \
	NUMBER(milters)		/* milter roles */ \
	NUMBER(servers)		/* smtpd processes */ \
	NUMBER(sessions)	/* that begin */ \
	NUMBER(hosts)		/* that they come from, */ \
	NUMBER(ports)		/* and so many ports of each */ \
	NUMBER(kills)		/* of roles, at a store, load or lock */ \
	NUMBER(stops)		/* the same, for a while */ \
	NUMBER(restarts)	/* of all roles at once, and of the state */ \
	NUMBER(deaths)		/* of smtpd processes */ \
	NUMBER(steps)		/* of the wall clock */ \
	NUMBER(lies)		/* of the kernel's table, in 1000 of its answers */ \
	NUMBER(mails)		/* messages that leave */ \
	NUMBER(domains)		/* that they go to */ \
	NUMBER(outages)		/* of their sites */ \
	NUMBER(letters)		/* that Sendmail's processes deliver */ \
	NUMBER(chains)		/* letters in 1000 after which a process takes another */ \
	NUMBER(filters)		/* deliveries in 1000 that go by one on this host, which fails */ \
	NUMBER(typos)		/* messages in 1000 for a host that the DNS does not know */ \
	NUMBER(rules)		/* refusals in 1000 that a provider rule is about */ \
	NUMBER(deletions)	/* of messages in the queue, in 1000 */ \
	NUMBER(orders)		/* by hand */ \
	NUMBER(switches)	/* between roles where none waits */ \
	NUMBER(pace)		/* loads and stores between two of them */ \
	NUMBER(spread)		/* of the sessions' times, in ms */ \
	NUMBER(nodes)		/* other machines that share limits with this one */ \
	NUMBER(cuts)		/* of a machine from Redis */ \
	NUMBER(failures)	/* of Redis */ \
	NUMBER(falls)		/* of other machines, or of their roles */ \
	NUMBER(damages)		/* in 1000 answers of Redis */

#define NODES_OTHERS_MAX	2

struct plan {
	uint64_t seed;
#define NUMBER(name) uint32_t name;
	PLAN_NUMBERS(NUMBER)
#undef NUMBER
};

/* From this pace on roles get as much done as on a machine that is not busy. */
#define PACE_BRISK	100

struct draws {
	uint64_t state;
};

static inline uint64_t draw(struct draws *draws) {
	uint64_t z = draws->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 ... bound - 1 */
static inline uint32_t draw_below(struct draws *draws, uint32_t bound) {
	return bound == 0 ? 0 : (uint32_t)((draw(draws) >> 32) * bound >> 32);
}

/* least ... most, each power of two as likely as the next. */
static inline int64_t draw_scale(struct draws *draws, int64_t least, int64_t most) {
	uint32_t doubles = 1;
	int64_t low, high;

	while (least << doubles < most)
		doubles++;
	low = least << draw_below(draws, doubles);
	high = 2 * low < most ? 2 * low : most;
	return low + (int64_t)(draw(draws) % (uint64_t)(high - low + 1));
}

struct plan plan_of(uint64_t seed);

/* "kills=1,stops=0": changes those numbers.  False: not understood. */
bool plan_change(struct plan *plan, const char *text);
/* Is there anything to run? */
bool plan_is_sound(const struct plan *plan);
static inline bool plan_has_mail(const struct plan *plan) {
	return plan->mails > 0 || plan->letters > 0;
}

void plan_print(const struct plan *plan);

#define PLAN_COUNT_ONE(name) + 1
#define PLAN_COUNT (0 PLAN_NUMBERS(PLAN_COUNT_ONE))
uint32_t *plan_number(struct plan *plan, size_t index);

#endif
