/* SPDX-License-Identifier: ISC */
/*
 * What the laws of windows come to, in virtual time: the published table of the seed
 * document, what a real Postfix was measured at, and what the law probe promises.  Means
 * of seeds 1 to 5, or of other five: SEED tells the first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"
#include "lab/simulate.h"

#define SEEDS	5

struct outcome {
	double deferred, mean, deviation, seconds, deaths;
};

/* "--option value ..." as on the command line. */
static void take(struct simulation *simulation, const char *words) {
	char copy[256], *rest = copy, *word, *value;
	char should[OPTION_SHOULD_BYTES];

	simulate_window_defaults(simulation);
	snprintf(copy, sizeof(copy), "%s", words);
	while ((word = strsep(&rest, " ")) != NULL && *word != '\0') {
		const struct option_row *row = option_find(&simulate_window_options, word);

		value = strsep(&rest, " ");
		assert_non_null(value);
		assert_non_null(row);
		assert_true(option_parse(row, value, simulation, should));
	}
}

static void each_state(struct simulation_result *result,
    void (*note)(void *context, const struct simulated_state *state), void *context) {
	const struct simulated_state *states = (const void *)result->states.list;

	for (size_t i = 0; i < result->states.count; i++)
		note(context, &states[i]);
	free(result->states.list);
}

static struct outcome mean_of(const char *words) {
	const char *seed = getenv("SEED");
	struct outcome mean = { .deferred = 0 };
	struct simulation simulation;
	struct simulation_result result;

	take(&simulation, words);
	for (unsigned i = 0; i < SEEDS; i++) {
		simulation.seed = (seed != NULL ? strtoul(seed, NULL, 10) : 1) + i;
		simulate_window(&simulation, &result);
		mean.deferred += 100.0 * (double)result.deferred /
		    (double)simulation.deliveries / SEEDS;
		mean.mean += result.mean / SEEDS;
		mean.deviation += result.deviation / SEEDS;
		mean.seconds += (double)result.duration_ns / 1e9 / SEEDS;
		mean.deaths += (double)result.deaths / SEEDS;
	}
	printf("     %-68s %6.2f %% %6.2f +- %4.2f %6.0f s\n", words, mean.deferred,
	    mean.mean, mean.deviation, mean.seconds);
	return mean;
}

static void near(double got, double wanted, double within) {
	if (got < wanted - within || got > wanted + within) {
		printf("     %g is not %g within %g\n", got, wanted, within);
		assert_true(false);
	}
}

static void most(double got, double wanted) {
	if (got > wanted) {
		printf("     %g is more than %g\n", got, wanted);
		assert_true(false);
	}
}

/* The last table of "Results for delivery to concurrency limited servers". */
TEST(the_published_table) {
	struct outcome o;

	o = mean_of("--law document --feedback 1/concurrency");
	near(o.deferred, 16.5, 1);
	near(o.mean, 5.17, 0.25);
	o = mean_of("--law document --feedback 1/sqrt_concurrency");
	near(o.deferred, 24.5, 1);
	near(o.mean, 5.25, 0.25);
	o = mean_of("--law document --feedback 1");
	near(o.deferred, 49.7, 1);
	near(o.mean, 5.5, 0.25);
}

/* As a Postfix 3.7 was measured. */
TEST(the_code_of_today) {
	near(mean_of("--law postfix --feedback 1/concurrency").deferred, 100.0 / 6, 2.5);
	near(mean_of("--law postfix --feedback 1/sqrt_concurrency").deferred, 100.0 / 3, 2.5);
	near(mean_of("--law postfix --feedback 1").deferred, 100.0 / 3, 2.5);
}

TEST(probe_against_a_limiter) {
	most(mean_of("--law probe").deferred, 0.7);
	most(mean_of("--law probe --deliveries 10000").deferred, 0.15);
	most(mean_of("--law probe --deliveries 10000 --ceiling 5").deferred, 0.1);
	most(mean_of("--law probe --report-delay 3s").deferred, 2.5);
	most(mean_of("--law probe --server-limit 1").deferred, 1.5);
	most(mean_of("--law probe --server-limit 3").deferred, 1);
	most(mean_of("--law probe --server-limit 15").deferred, 0.7);
	most(mean_of("--law probe --server-limit 3 --initial 20").deferred, 3);
	most(mean_of("--law probe --server-limit 100 --limit 0 --deliveries 20000").deferred,
	    0.1);
}

/* As a Postfix's log tells it: levels known seconds later, and rounded. */
TEST(probe_from_a_log) {
	struct outcome o;

	most(mean_of("--levels log").deferred, 1);
	most(mean_of("--levels log --server-limit 3").deferred, 1.5);
	most(mean_of("--levels log --server-limit 12").deferred, 1);
	most(mean_of("--levels log --report-delay 3s").deferred, 4);
	most(mean_of("--levels log --server-limit 20,3@300s --deliveries 5000").deferred, 5);
	/* Without levels, as good as the best that Postfix has. */
	o = mean_of("--levels none");
	near(o.deferred, 100.0 / 6, 2.5);
}

/* Drains as fast as the best of postfix does, nearly; also where a refusal takes as long
 * as a delivery, and where it is heard of late. */
TEST(probe_among_chance) {
	static const char *const others[] = { "1", "1/4", "1/concurrency" };
	static const char *const servers[] = { "", "--refusal 500ms", "--refusal 2s",
		"--report-delay 3s", "--initial 20", "--jitter 0" };
	char words[160];
	struct outcome o;

	for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
		double best = 1e9;

		for (size_t j = 0; j < 3; j++) {
			snprintf(words, sizeof(words), "--law postfix --feedback %s --noise 25%% "
			    "--server-limit 20 --deliveries 5000 %s", others[j], servers[i]);
			o = mean_of(words);
			best = o.seconds < best ? o.seconds : best;
		}
		snprintf(words, sizeof(words), "--law probe --noise 25%% --server-limit 20 "
		    "--deliveries 5000 %s", servers[i]);
		most(mean_of(words).seconds, (i == 0 ? 1.15 : 1.25) * best);
	}
	/* A limiter and chance: not much worse than chance alone. */
	o = mean_of("--law probe --noise 5% --server-limit 7 --deliveries 5000");
	most(o.deferred, 7);
}

struct changed {
	int64_t reached_ns;
};

static void note_18(void *context, const struct simulated_state *state) {
	struct changed *changed = context;

	if (changed->reached_ns == 0 && state->at_ns > 600 * INT64_C(1000000000) &&
	    state->in_flight >= 18)
		changed->reached_ns = state->at_ns;
}

TEST(probe_when_the_limit_changes) {
	struct simulation simulation;
	struct simulation_result result;
	double reached = 0;

	take(&simulation, "--server-limit 5,20@600s --deliveries 10000 --every 1s");
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct changed changed = { .reached_ns = 0 };

		simulation.seed = seed;
		simulate_window(&simulation, &result);
		each_state(&result, note_18, &changed);
		assert_int_not_equal(changed.reached_ns, 0);
		most((double)changed.reached_ns / 1e9, 600 + 1200);
		reached += (double)changed.reached_ns / 1e9 / SEEDS;
	}
	printf("     5, then 20: 18 after %.0f s\n", reached - 600);
	most(mean_of("--server-limit 20,3@300s --deliveries 5000").deferred, 4);
	most(mean_of("--server-limit 20,3@300s --deliveries 5000 --report-delay 3s").deferred,
	    4);
}

/* A limit that rises and falls while mail always waits. */
struct phases {
	int64_t canary_ns;	/* when the first canary after the rise was accepted */
	int64_t reached_ns;	/* 11 of 12 */
	uint64_t done[4], deferred[4];	/* at 180, 660, 720 s and at the end */
};

static void note_phase(void *context, const struct simulated_state *state) {
	static const int64_t starts[] = { 180, 660, 720, INT64_MAX };
	struct phases *phases = context;
	int64_t seconds = state->at_ns / INT64_C(1000000000);

	if (seconds >= 120 && phases->canary_ns == 0 && state->window > 3)
		phases->canary_ns = state->at_ns;
	if (seconds >= 120 && phases->reached_ns == 0 && state->in_flight >= 11)
		phases->reached_ns = state->at_ns;
	for (int i = 0; i < 4; i++)
		if (seconds <= starts[i]) {
			phases->done[i] = state->done;
			phases->deferred[i] = state->deferred;
		}
}

static double share(const struct phases *phases, int from, int to) {
	return 100.0 * (double)(phases->deferred[to] - phases->deferred[from]) /
	    (double)(phases->done[to] - phases->done[from]);
}

/* `seconds`: from the first canary to 11; `deferred`: from the second minute after each
 * change, in percent. */
static void follows(const char *words, double seconds, double risen, double fallen) {
	char all[256];
	struct simulation simulation;
	struct simulation_result result;
	double took = 0, rise = 0, fall = 0, wait = 0;

	snprintf(all, sizeof(all), "--server-limit 3,12@120s,7@660s --service 1s --initial 3 "
	    "--deliveries 8600 --every 1s %s", words);
	take(&simulation, all);
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct phases phases = { .canary_ns = 0 };

		simulation.seed = seed;
		simulate_window(&simulation, &result);
		each_state(&result, note_phase, &phases);
		assert_int_not_equal(phases.reached_ns, 0);
		wait += ((double)phases.canary_ns / 1e9 - 120) / SEEDS;
		took += (double)(phases.reached_ns - phases.canary_ns) / 1e9 / SEEDS;
		rise += share(&phases, 0, 1) / SEEDS;
		fall += share(&phases, 2, 3) / SEEDS;
		assert_int_equal(result.deaths, 0);
	}
	printf("     3, 12, 7 %-40s 11 after %.0f + %.0f s; %.2f, %.2f %%\n", words, wait,
	    took, rise, fall);
	most(wait, 60);
	most(took, seconds);
	most(rise, risen);
	most(fall, fallen);
}

TEST(probe_follows_a_limit) {
	follows("", 12, 0.2, 0.5);
	follows("--levels log", 12, 0.2, 0.5);
	follows("--levels log --report-delay 1s", 20, 0.3, 0.5);
}

/* A limit falls while a log tells of it, and mail in lanes goes on by the old window for a
 * while: the site is not dead, and once the new limit is known, or was told, the window
 * stays. */
struct drained {
	int64_t from_ns;
	uint32_t least, most;
};

static void note_drained(void *context, const struct simulated_state *state) {
	struct drained *drained = context;

	if (state->at_ns < drained->from_ns)
		return;
	if (state->window < drained->least)
		drained->least = state->window;
	if (state->window > drained->most)
		drained->most = state->window;
}

static void drains(const char *words, int64_t from_s, uint32_t least) {
	char all[256];
	struct simulation simulation;
	struct simulation_result result;

	snprintf(all, sizeof(all), "--server-limit 12,7@120s --service 1s --levels log "
	    "--deliveries 5000 --every 50ms %s", words);
	take(&simulation, all);
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct drained drained = { from_s * INT64_C(1000000000), 100, 0 };

		simulation.seed = seed;
		simulate_window(&simulation, &result);
		each_state(&result, note_drained, &drained);
		printf("     12, then 7 %-60s %u to %u, %.1f %%\n", words, drained.least,
		    drained.most, 100.0 * (double)result.deferred / 5000);
		assert_int_equal(result.deaths, 0);
		assert_true(drained.least >= least);
		assert_true(drained.most <= 7);
	}
}

TEST(probe_while_lanes_drain) {
	drains("", 123, 7);
	drains("--obey-delay 5s", 123, 6);
	drains("--ceiling 12,7@120s", 120, 7);
	drains("--ceiling 12,7@120s --obey-delay 5s", 120, 7);
	drains("--ceiling 12,7@120s --obey-delay 20s", 120, 6);
}

/* 1/N stalls near K; 1/4 does not. */
TEST(one_bad_server_of_four) {
	struct outcome per_n, fixed, probe;

	per_n = mean_of("--law document --feedback 1/concurrency --bad-servers 1/4 "
	    "--server-limit 100");
	fixed = mean_of("--law document --feedback 1/4 --bad-servers 1/4 --server-limit 100");
	probe = mean_of("--law probe --bad-servers 1/4 --server-limit 100");
	most(per_n.mean, 9);
	most(1.5 * per_n.mean, fixed.mean);
	most(fixed.mean, probe.mean + 2);
}

/* A server that does not refuse, but takes 30 s longer above its limit: whoever counts answers
 * alone goes up to the limit of its own, for 3000 in 4800 s instead of 1200. */
TEST(a_tarpit) {
	most(mean_of("--server-mode tarpit --deliveries 3000").seconds, 1400);
	most(mean_of("--server-mode tarpit --deliveries 3000 --levels log").seconds, 1500);
	most(4500, mean_of("--server-mode tarpit --deliveries 3000 --law postfix").seconds);
}

/* Congestion: the feedback makes no difference, the concurrency stays. */
TEST(timeouts) {
	static const char *const modes[] = { "connect-timeout", "greeting-timeout" };
	static const char *const laws[] = { "document", "postfix" };
	static const char *const forms[] = { "1/concurrency", "1/sqrt_concurrency", "1" };
	char words[160];

	for (size_t mode = 0; mode < 2; mode++) {
		for (size_t law = 0; law < 2; law++) {
			double least = 100, greatest = 0;

			for (size_t form = 0; form < 3; form++) {
				struct outcome o;

				snprintf(words, sizeof(words), "--law %s --feedback %s "
				    "--server-mode %s --initial 20 --deliveries %d",
				    laws[law], forms[form], modes[mode],
				    mode == 0 ? 2000 : 20000);
				o = mean_of(words);
				most(19, o.mean);
				least = o.deferred < least ? o.deferred : least;
				greatest = o.deferred > greatest ? o.deferred : greatest;
			}
			most(greatest - least, 1);
			near(greatest, mode == 0 ? 10 : 1.2, mode == 0 ? 1.5 : 0.3);
		}
	}
}

/* 5-10-20 by +1 feedback. */
struct course {
	uint32_t windows[8];
	size_t count;
};

static void note_window(void *context, const struct simulated_state *state) {
	struct course *course = context;

	if (course->count < 8)
		course->windows[course->count++] = state->window;
}

TEST(overshoot) {
	struct course course = { .count = 0 };
	struct simulation simulation;
	struct simulation_result result;

	take(&simulation, "--law document --feedback 1 --server-limit 100 --deliveries 200 "
	    "--jitter 0 --every 2s");
	simulate_window(&simulation, &result);
	each_state(&result, note_window, &course);
	assert_int_equal(course.windows[0], 5);
	assert_int_equal(course.windows[1], 10);
	assert_int_equal(course.windows[2], 20);
}

/* A server that takes nothing: the fifth failure (the sixth in the document's law) ends
 * it, when as many attempts but one have begun again; then 300 s of silence. */
TEST(a_server_that_is_down) {
	struct simulation simulation;
	struct simulation_result result;

	for (unsigned law = 0; law < WINDOW_LAW_COUNT; law++) {
		take(&simulation, "--server-limit 0 --deliveries 11 --feedback 0");
		simulation.window.law = (enum window_law)law;
		simulate_window(&simulation, &result);
		assert_int_equal(result.deferred, 11);
		assert_int_equal(result.deaths, 1);
		most(300, (double)result.duration_ns / 1e9);
		most((double)result.duration_ns / 1e9, 301);
	}
}
