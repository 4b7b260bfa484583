/* SPDX-License-Identifier: ISC */
#include "tests/unit/engine/hints/hints_world.h"
#include "config/compile/compile.h"
#include "engine/hints/hints_internal.h"

#define CLASSES	"classes = ( " \
	"{ name = \"slow\"; match = [ \"*.slow.example\" ]; hold_at = 2; }, " \
	"{ name = \"seen\"; match = [ \"seen.example\" ]; hold_at = 1; observe = true; }, " \
	"{ name = \"rate\"; match = [ \"rate.example\" ]; rate = \"9/1m\"; } );\n"

struct hints_world *world;

static void write_file(const char *path, const char *text) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

void publish(const char *facts) {
	const struct site *site = &world->site;
	struct config_messages messages;
	struct generation *generation;
	char text[1024];
	struct diag diag;

	write_file(world->facts, facts);
	snprintf(text, sizeof(text), "version = 1; state = { path = \"%s/state\"; "
	    "sessions = \"1k\"; };\n" CLASSES "mta = ( { name = \"other\"; kind = "
	    "\"sendmail\"; }, { name = \"out\"; kind = \"postfix\"; site = \"%s\"; "
	    "reload = %s; } );\n%s", site->directory, world->facts,
	    world->may_reload ? "true" : "false", world->more == NULL ? "" : world->more);
	write_file(world->file, text);
	generation = config_compile(world->file, &messages);
	if (generation == NULL)
		fail_msg("%s", messages.list[0].text);
	config_messages_free(&messages);
	assert_int_equal(segment_publish(site->segment, generation, &diag), 0);
	free(world->generation);
	world->generation = generation;
}

static bool note_reload(void *context, unsigned mta, uint64_t generation) {
	assert_int_equal(mta, 1);
	assert_true(generation > 0);
	world->reloads++;
	return true;
}

static const struct hints_calls calls = { note_reload, NULL };

int world_open(void **state) {
	static struct hints_world opened;
	struct diag diag;

	memset(&opened, 0, sizeof(opened));
	world = &opened;
	site_open(&opened.site, 1024, CLASSES);
	snprintf(opened.file, sizeof(opened.file), "%s/conf", opened.site.directory);
	snprintf(opened.facts, sizeof(opened.facts), "%s/facts", opened.site.directory);
	snprintf(opened.path, sizeof(opened.path), "%s.hints", segment_path(opened.site.segment));
	opened.reader = hints_reader_open(opened.path);
	assert_int_equal(engine_hints_open(&opened.hints, opened.site.engine,
	    (gid_t)-1, &calls, &diag), 0);
	opened.now_ns = clock_now_ns();
	return 0;
}

int world_close(void **state) {
	engine_hints_close(&world->hints);
	hints_reader_close(&world->reader);
	free(world->generation);
	site_close(&world->site);
	return 0;
}

void see(const char *name, uint8_t mta, bool cloned) {
	const struct delivery_seen seen = { .name = name, .name_length = strlen(name),
		.mta = mta, .cloned = cloned };

	assert_true(destinations_note(world->site.segment, &seen, clock_now_ns()));
}

enum hint_doubt doubt(const char *name) {
	const char *detail;
	struct destination_seen seen;
	bool found = destinations_find(world->site.segment, name, strlen(name), &seen);

	return hint_destination_doubt(world->generation, 1, name, strlen(name),
	    found ? &seen : NULL, &detail);
}

int try_turn(int64_t ns) {
	struct diag diag;

	world->now_ns += ns;
	return engine_hints_turn(world->hints, world->now_ns, &diag);
}

void turn(int64_t ns) {
	assert_int_equal(try_turn(ns), 0);
}

const struct hints_answer *look_up(const char *domain) {
	static struct hints_answer answer;
	char address[300];

	snprintf(address, sizeof(address), "u@%s", domain);
	hints_reader_ask(world->reader, "out", address, strlen(address), false, world->now_ns,
	    &answer);
	return &answer;
}

const char *ask(const char *domain, int64_t ns) {
	const struct hints_answer *answer;

	turn(ns);
	answer = look_up(domain);
	return answer->kind == HINTS_HELD ? answer->text : NULL;
}

const char *lanes(const char *domain) {
	static char text[64];
	bool seen[32] = { false };
	size_t used = 0;

	for (unsigned i = 0; i < 200; i++) {
		const struct hints_answer *answer = look_up(domain);

		if (answer->kind != HINTS_LANE)
			return answer->kind == HINTS_HELD ? "held" : "-";
		/* as postern-lookup, which asks root's file */
		if (answer->unknown && doubt(domain) != HINT_DOUBT_NEVER_SEEN)
			return "-";
		assert_in_range(answer->width, 1, 31);
		seen[answer->width] = true;
	}
	for (unsigned width = 31; width > 0; width--)
		if (seen[width])
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u",
			    used == 0 ? "" : "+", width);
	return text;
}

const char *lanes_after(const char *domain, int64_t ns) {
	turn(ns);
	return lanes(domain);
}

void note_use(const char *domain, struct lane_use use) {
	use.mta = 1;
	use.domain = lane_uses_hash(world->site.segment, domain, strlen(domain));
	if (use.ended_ns == 0)
		use.ended_ns = world->now_ns;
	lane_uses_note(world->site.segment, &use);
}

void result(const char *domain, uint16_t width, uint32_t waited_ms, int64_t ns) {
	world->now_ns += ns;
	note_use(domain, (struct lane_use){ .waited_ms = waited_ms, .took_ms = 200,
		.width = width, .tried = true });
}

void fails(uint16_t width, int64_t ns) {
	world->now_ns += ns;
	for (unsigned i = 0; i < width; i++)
		note_use("a.example", (struct lane_use){ .took_ms = 10, .width = width,
			.tried = true, .failed = true });
}

static void by_hand_window(enum manual_verb verb, const char *name, uint32_t window,
    uint32_t ceiling) {
	const struct by_hand request = { .verb = verb, .name = name,
		.name_length = strlen(name), .window = window, .ceiling = ceiling,
		.for_ns = verb == MANUAL_SUSPEND ? 60 * S : 0 };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(world->site.engine, world->generation, &request,
	    world->now_ns, &owner), BY_HAND_DONE);
}

void by_hand(enum manual_verb verb, const char *name) {
	by_hand_window(verb, name, BY_HAND_UNSET, BY_HAND_UNSET);
}

void resume_with(const char *name, uint32_t window) {
	by_hand_window(MANUAL_RESUME, name, window, BY_HAND_UNSET);
}

void set_window(const char *name, uint32_t window) {
	by_hand_window(MANUAL_LIMIT, name, window, window);
}

void begin_with(uint32_t window, const char *expected) {
	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", window);
	assert_string_equal(lanes_after("a.example", S), expected);
}
