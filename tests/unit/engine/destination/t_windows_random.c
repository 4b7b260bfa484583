/* SPDX-License-Identifier: ISC */
/* Results of many destinations in any order, read again after any death, under another
 * configuration now and then: what stands in the segment is what the law alone makes
 * of them, each once. */
#include "tests/unit/test.h"
#include "segment/destination/states.h"
#include "tests/unit/random.h"
#include "tests/unit/engine/feed/results.h"

#define DESTINATIONS	24
#define STEPS		30000
#define LINES_AGAIN	8

static const char *const configurations[] = {
	"window = { law = \"postfix\"; };\n",
	"window = { law = \"document\"; destination_concurrency_negative_feedback = \"1/4\";\n"
	"  destination_concurrency_failed_cohort_limit = 5; };\n",
	"window = { law = \"postfix\"; initial_destination_concurrency = 10;\n"
	"  destination_concurrency_positive_feedback = \"1/concurrency\";\n"
	"  suspend = \"30s\"; };\n",
	"window = { law = \"probe\"; };\n",
};

struct model {
	struct window window;
	bool begun;
	uint32_t ok, failed;
	int64_t resumed_ns;
};

static struct model models[DESTINATIONS];
static struct line read_last[LINES_AGAIN];
static char names[DESTINATIONS][24];

static char *configuration(unsigned which) {
	static char text[512];

	snprintf(text, sizeof(text), "classes = ( { name = \"c\"; match = \"*\"; } );\n"
	    "mta = ( { name = \"a\"; log = \"/a\"; } );\n%s", configurations[which]);
	return text;
}

static struct window_settings settings_of(unsigned i) {
	struct window_settings settings;

	(void)generation_window_settings(site.generation, 0, names[i], strlen(names[i]),
	    GENERATION_NO_PROVIDER, &settings);
	return settings;
}

/* As windows_lock does. */
static void time_passes(struct model *model, const struct window_settings *settings) {
	struct window_change ignored;

	if (!model->begun) {
		window_begin(&model->window, settings);
		model->begun = true;
		return;
	}
	window_adjust(&model->window, settings);
	window_turn(&model->window, settings, 0, now_ns, &ignored);
}

static void learn(unsigned i, bool good) {
	struct model *model = &models[i];
	struct window_settings settings = settings_of(i);
	struct window_result result = { .class = good ? RESULT_OK : RESULT_SITE_FAILURE };
	struct window_change ignored;

	time_passes(model, &settings);
	if (good)
		model->ok++;
	else
		model->failed++;
	window_result(&model->window, &settings, &result, now_ns, &ignored);
}

static void check(unsigned i) {
	struct window_settings settings = settings_of(i);
	struct model copy = models[i];
	struct window_view view = view_of(names[i]);

	assert_int_equal(view.known, copy.begun);
	if (!copy.begun)
		return;
	time_passes(&copy, &settings);
	assert_int_equal(view.state, copy.window.state);
	assert_int_equal(view.stored, copy.window.concurrency);
	assert_int_equal(view.window, window_now(&copy.window, &settings, now_ns));
	assert_true(view.success == copy.window.success);
	assert_true(view.failure == copy.window.failure);
	assert_true(view.fail_cohorts == copy.window.fail_cohorts);
	assert_int_equal(view.ok, copy.ok);
	assert_int_equal(view.failed, copy.failed);
}

/* A delivery of which the log does not tell how long it took: no level is known. */
static void one_line(struct random *random, uint64_t offset) {
	unsigned i = random_below(random, DESTINATIONS);
	bool good = random_below(random, 3) > 0;
	struct line line = { .domain = names[i], .took_ms = DELIVERY_MS_UNKNOWN,
		.status = good ? DELIVERY_SENT : DELIVERY_DEFERRED,
		.text = good ? accepted : down, .relay_name = good ? "mx.example.net" : NULL,
		.relay = good ? "192.0.2.1" : NULL,
		.origin = { .log = 4711, .offset = offset } };

	(void)feed_line(&line);
	learn(i, good);
	read_last[offset % LINES_AGAIN] = line;
	check(i);
}

/* Who read it died before it had noted how far it was. */
static void read_again(struct random *random, uint64_t offset) {
	uint64_t first = offset > LINES_AGAIN ? offset - LINES_AGAIN + 1 : 1;

	first += random_below(random, (uint32_t)(offset - first + 1));
	for (uint64_t at = first; at <= offset; at++) {
		const struct line *line = &read_last[at % LINES_AGAIN];
		struct destination_window found;

		/* a slot knows the last one alone: those before it are known by that */
		assert_true(states_find(site.segment, line->domain, strlen(line->domain),
		    &found));
		assert_false(feed_line(line) && line->status != DELIVERY_SENT);
	}
}

static void by_hand(struct random *random) {
	unsigned i = random_below(random, DESTINATIONS);
	struct window_settings settings = settings_of(i);
	const struct by_hand resume = { .verb = MANUAL_RESUME, .name = names[i],
		.name_length = strlen(names[i]), .window = BY_HAND_UNSET,
		.ceiling = BY_HAND_UNSET };
	struct window_owner owner;

	if (windows_by_hand(site.engine, site.generation, &resume, now_ns, &owner) !=
	    BY_HAND_DONE)
		return;
	time_passes(&models[i], &settings);
	window_resume(&models[i].window, &settings, 0);
	/* what follows has begun after it */
	now_ns += NS_PER_SECOND;
}

/* The keeper writes down whose time has come. */
static void turn(void) {
	windows_turn(site.engine, site.generation, now_ns);
	for (unsigned i = 0; i < DESTINATIONS; i++) {
		const struct window *window = &models[i].window;
		struct window_settings settings = settings_of(i);

		if (models[i].begun && (window->state == WINDOW_DEAD ||
		    window->state == WINDOW_HELD) && window->until_ns <= now_ns)
			time_passes(&models[i], &settings);
	}
}

TEST(each_result_counts_once_by_the_law) {
	struct random random = random_seeded("each_result_counts_once_by_the_law");
	uint64_t offset = 0;
	unsigned which = 0;

	site_open(&site, 64, configuration(which));
	now_ns = clock_now_ns();
	for (unsigned i = 0; i < DESTINATIONS; i++)
		snprintf(names[i], sizeof(names[i]), "d%u.example", i);
	for (int step = 0; step < STEPS; step++) {
		now_ns += (int64_t)random_below(&random, 2000) * NS_PER_MS;
		switch (random_below(&random, 400)) {
		case 0:
			which = random_below(&random, sizeof(configurations) /
			    sizeof(configurations[0]));
			site_reload(&site, configuration(which));
			break;
		case 1:
			site_restart(&site, 64, configuration(which));
			break;
		case 2:
		case 3:
			by_hand(&random);
			break;
		case 4:
		case 5:
			if (offset > 0)
				read_again(&random, offset);
			break;
		case 6:
			turn();
			break;
		default:
			one_line(&random, ++offset);
		}
	}
	for (unsigned i = 0; i < DESTINATIONS; i++)
		check(i);
	site_close(&site);
}
