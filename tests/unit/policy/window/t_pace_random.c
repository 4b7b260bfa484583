/* SPDX-License-Identifier: ISC */
/*
 * The law of paces by property, under virtual time: never above it, the way back to the whole
 * pace, one lowering for each flight, nothing starves, any bytes.
 */
#include "tests/unit/test.h"
#include "tests/unit/policy/window/pace_bench.h"
#include "tests/unit/random.h"

static struct pace_settings some_settings(struct random *random) {
	uint32_t count = 1 + random_below(random, 500), seconds = 1 + random_below(random, 3600);

	if (count > 1000 * seconds)
		count = 1000 * seconds;
	return (struct pace_settings){
		.limit = { .period_ns = seconds * SECOND, .count = count,
		    .burst = random_below(random, 2) == 0 ? 0 : random_below(random, 30) },
		.by = 0.05 + random_below(random, 90) / 100.0,
		.floor = { .period_ns = HOUR, .count = 1 + random_below(random, 100) },
		.up = 0.01 + random_below(random, 100) / 100.0,
		.up_ns = (1 + random_below(random, 3600)) * SECOND,
	};
}

/* Never above pace * t + burst, in any window that begins with a message: what is configured,
 * and what is in force, wherever it did not change.  Chances are told in any order. */
TEST(never_above_the_pace) {
	struct random random = random_seeded("never_above_the_pace");
	static int64_t at[3000];

	for (int round = 0; round < 200; round++) {
		struct pace_settings settings = some_settings(&random);
		struct pace pace = { { 0 } };
		int64_t now = BEGIN, burst = settings.limit.burst > 0 ? settings.limit.burst : 1;
		unsigned count = 0, same = 0;
		int64_t in_force = 0;

		while (count < sizeof(at) / sizeof(at[0])) {
			struct pace_view view;
			int64_t wait = pace_take(&pace, &settings, now);

			pace_look(&pace, &settings, now, &view);
			if (view.interval_ns != in_force)
				same = count;
			in_force = view.interval_ns;
			assert_true(in_force * settings.limit.count >= settings.limit.period_ns);
			if (wait == 0)
				at[count++] = now;
			for (unsigned i = count > 100 ? count - 100 : 0; wait == 0 && i < count; i++) {
				int64_t more = (int64_t)(count - i) - burst;

				assert_true(more * settings.limit.period_ns <=
				    (now - at[i]) * settings.limit.count);
				assert_true(i < same || more * in_force <= now - at[i]);
			}
			switch (random_below(&random, 20)) {
			case 0: case 1: case 2:
				pace_accepted(&pace, &settings, now - random_below(&random, 60) * SECOND, now);
				break;
			case 3:
				pace_refused(&pace, &settings, now - random_below(&random, 60) * SECOND, now);
				break;
			default:
				break;
			}
			now += wait > 0 && random_below(&random, 10) > 0 ? wait :
			    (int64_t)random_below(&random, 1000) * random_below(&random, 20000) * 1000;
		}
	}
}

struct flight {
	int64_t sent, heard;
	bool refused;
};

/* A site, whose answers are heard some time later. */
struct site {
	struct flight list[256];
	unsigned first, end;
};

static void site_send(struct site *site, int64_t now, int64_t late, bool refused) {
	assert_true(site->end - site->first < 256);
	site->list[site->end++ % 256] = (struct flight){ now, now + late, refused };
}

/* What is heard until now.  Returns how often that lowered the pace, once for each flight. */
static unsigned site_hear(struct site *site, struct world *world, int64_t *lowered_ns) {
	unsigned lowered = 0;

	while (site->first != site->end && site->list[site->first % 256].heard <= world->now) {
		struct flight *flight = &site->list[site->first++ % 256];

		if (!flight->refused) {
			pace_accepted(&world->pace, &world->settings, flight->sent, world->now);
		} else if (pace_refused(&world->pace, &world->settings, flight->sent, world->now)) {
			assert_true(flight->sent > *lowered_ns);
			*lowered_ns = world->now;
			lowered++;
		}
	}
	return lowered;
}

/* A site that takes all for a quarter of an hour, says "slower" once, wants half for a time, and
 * forgives: the way back to the whole pace brings no second refusal.  So much is heard in between, and is of one flight. */
TEST(back_to_full_without_a_second_refusal) {
	struct random random = random_seeded("back_to_full");

	for (int round = 0; round < 100; round++) {
		struct site site = { .first = 0 };
		int64_t late = random_below(&random, 20000) * MS, since = 0, lowered_ns = 0;
		int64_t forgives = HOUR / 2 + random_below(&random, 1800) * SECOND;
		int64_t refuses = BEGIN + HOUR / 4 + random_below(&random, 7200) * SECOND;
		unsigned lowered = 0;

		begin(60 + random_below(&random, 600), 10 * MINUTE, 1 + random_below(&random, 5));
		w.settings.up = 0.1;
		w.settings.floor.count = 1;
		while (w.now < BEGIN + 6 * HOUR) {
			int64_t wait = take();
			bool penal = w.now >= refuses && w.now < refuses + forgives;
			bool is_half = since > 0 && w.now - since >= late + SECOND;

			/* all that was under way is refused, then what comes faster than a tenth below
			 * the whole pace */
			if (wait == 0)
				site_send(&site, w.now, late, penal && !(is_half && interval() *
				    w.settings.limit.count * 100 >= w.settings.limit.period_ns * 111));
			w.now += wait > 0 ? wait < SECOND ? wait : SECOND : 0;
			lowered += site_hear(&site, &w, &lowered_ns);
			since = lowered_ns;
		}
		assert_int_equal(lowered, 1);
		assert_int_equal(interval(), (w.settings.limit.period_ns / w.settings.limit.count + 99999) /
		    100000 * 100000);
	}
}

/* Whatever the site says, the next try comes within 8 periods or floor's interval; so any backlog
 * is tried, and what a site takes at last drains. */
TEST(nothing_starves) {
	struct random random = random_seeded("nothing_starves");

	for (int round = 0; round < 100; round++) {
		struct site site = { .first = 0 };
		int64_t angry = BEGIN + random_below(&random, 48) * HOUR, lowered_ns = 0, longest, last;
		unsigned left = 300;

		w = (struct world){ .settings = some_settings(&random), .now = BEGIN };
		longest = 8 * w.settings.up_ns;
		if (longest < HOUR / w.settings.floor.count)
			longest = HOUR / w.settings.floor.count;
		if (longest < w.settings.limit.period_ns / w.settings.limit.count)
			longest = w.settings.limit.period_ns / w.settings.limit.count;
		longest += longest / 400 + MS;	/* as it is stored */
		if (random_below(&random, 3) == 0)
			w.settings.limit.count = 0;
		for (last = w.now; left > 0;) {
			bool refused = w.now < angry && random_below(&random, 8) > 0;
			int64_t wait = take();

			assert_true(wait <= longest);
			if (wait == 0) {
				assert_true(w.now - last <= longest);
				last = w.now;
				site_send(&site, w.now, 10 * MS, refused);
				left -= !refused;
				wait = 20 * MS;
			}
			w.now += wait;
			site_hear(&site, &w, &lowered_ns);
		}
	}
}

/* Any bytes, any order: waits stay short, and it goes on like one that is sound. */
TEST(any_bytes) {
	struct random random = random_seeded("any_bytes");

	for (int round = 0; round < 20000; round++) {
		struct pace_view view;

		w = (struct world){ .settings = some_settings(&random), .now = BEGIN };
		if (random_below(&random, 2) == 0)
			w.settings.limit.count = 0;
		w.pace = (struct pace){ { random_next(&random), random_next(&random) } };
		for (int i = 0; i < 10; i++) {
			int64_t wait = pace_take(&w.pace, &w.settings, w.now);

			pace_look(&w.pace, &w.settings, w.now, &view);
			assert_true(view.interval_ns >= 0 && view.interval_ns <= PACE_INTERVAL_MOST_NS);
			assert_true(wait >= 0 && wait <= view.interval_ns);
			if (random_below(&random, 2) == 0)
				pace_refused(&w.pace, &w.settings, w.now, w.now);
			else
				pace_accepted(&w.pace, &w.settings, w.now, w.now);
			w.now += random_below(&random, 100) * MINUTE;
		}
	}
}
