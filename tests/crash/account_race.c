/* SPDX-License-Identifier: ISC */
/*
 * Processes race for the last places of one login, and die at random stores.  What was answered
 * yes, and not begun to be given back, is counted beside them: it is never above the limit, nor
 * above what counts for the login.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "tests/crash/account_points.h"
#include "tests/unit/random.h"

#ifdef POSTERN_FAILPOINTS
#define RACERS	8
#define ROUND	1000	/* questions before the limit is empty again */

static struct race {
	_Atomic uint64_t questions;
	_Atomic uint32_t held;		/* answered yes, and nobody has begun to give it back */
	_Atomic uint32_t most;		/* of that, at a time */
	_Atomic uint32_t yes;
} *race;

static void note_yes(void) {
	uint32_t held = atomic_fetch_add(&race->held, 1) + 1, most = atomic_load(&race->most);

	while (held > most && !atomic_compare_exchange_weak(&race->most, &most, held))
		;
	atomic_fetch_add(&race->yes, 1);
}

/* Messages of up to 3 recipients, one of 4 of which is sent. */
static void run(struct random random, unsigned process) {
	for (unsigned i = 0;; i++) {
		unsigned count = 1 + random_below(&random, 3), charged = 0;
		char instance[32], to[16];

		now_ns = clock_now_ns();
		snprintf(instance, sizeof(instance), "%x.1.1.%x", process, i);
		for (unsigned k = 0; k < count; k++) {
			snprintf(to, sizeof(to), "r%u@x", k);
			if (points_ask((struct account_question){ .login = "raced",
				.instance = instance, .recipient = to }).is_charged) {
				note_yes();
				charged++;
			}
			atomic_fetch_add(&race->questions, 1);
		}
		if (charged > 0 && random_below(&random, 4) == 0) {
			(void)points_ask((struct account_question){ .login = "raced",
				.instance = instance, .at_end = true, .recipient_count = charged });
			atomic_fetch_add(&race->questions, 1);
		} else {
			/* the next question gives it back */
			atomic_fetch_sub(&race->held, charged);
		}
	}
}

static pid_t start_racer(struct random *random) {
	struct random own = { random_next(random) };
	uint64_t die_at = 1 + random_below(random, random_below(random, 2) == 0 ? 400 : 2000);
	unsigned process = ++points_serial;
	pid_t pid = fork();

	if (pid == 0) {
		failpoint_arm(die_at);
		run(own, process);
	}
	if (pid < 0)
		abort();
	return pid;
}

/* As many questions as a round has; whoever dies has a successor. */
static unsigned one_round(struct random *random, uint64_t until) {
	pid_t racers[RACERS];
	unsigned deaths = 0;

	for (unsigned i = 0; i < RACERS; i++)
		racers[i] = start_racer(random);
	while (atomic_load(&race->questions) < until) {
		pid_t dead = waitpid(-1, NULL, 0);

		deaths++;
		for (unsigned i = 0; i < RACERS; i++)
			if (racers[i] == dead)
				racers[i] = start_racer(random);
	}
	for (unsigned i = 0; i < RACERS; i++) {
		kill(racers[i], SIGKILL);
		waitpid(racers[i], NULL, 0);
	}
	return deaths;
}

bool account_race(uint64_t questions, uint64_t seed) {
	struct random random = { seed };
	uint64_t deaths = 0, rounds = 0, full = 0;
	bool ok = true;

	race = points_shared(sizeof(*race));
	site_accounts = "64";
	site_open(&site, 64, ACCOUNTS);
	for (; ok && atomic_load(&race->questions) < questions; rounds++) {
		struct points_used used;

		deaths += one_round(&random, atomic_load(&race->questions) + ROUND);
		now_ns = clock_now_ns();
		used = points_look("raced");
		full += used.hour == RACED;
		ok = used.hour >= atomic_load(&race->held) && used.hour <= RACED &&
		    used.pool >= atomic_load(&race->held) && used.pool <= RACED &&
		    atomic_load(&race->most) <= RACED;
		if (!ok)
			fprintf(stderr, "round %llu: %llu count for the login, %llu for all; %u were "
			    "answered yes, %u at most\n", (unsigned long long)rounds,
			    (unsigned long long)used.hour, (unsigned long long)used.pool,
			    atomic_load(&race->held), atomic_load(&race->most));
		/* the limit of all is forgotten with the state file alone */
		site_close(&site);
		site_open(&site, 64, ACCOUNTS);
		atomic_store(&race->held, 0);
	}
	printf("%llu questions of %u processes, %u answered yes, %llu deaths, %llu rounds, %llu of them "
	    "to the limit; most at a time %u of %u, uncounted %llu\n",
	    (unsigned long long)atomic_load(&race->questions), RACERS, atomic_load(&race->yes),
	    (unsigned long long)deaths, (unsigned long long)rounds, (unsigned long long)full,
	    atomic_load(&race->most), RACED, (unsigned long long)points_uncounted());
	site_close(&site);
	return ok && full > rounds / 2 && deaths > rounds;
}
#else
extern int account_race_unused;	/* ISO C wants something in each file */
#endif
