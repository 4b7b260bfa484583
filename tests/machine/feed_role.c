/* SPDX-License-Identifier: ISC */
/* The feed: what front/feed does with one log, without files. */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/feed/feed.h"
#include "engine/journal/journal_state.h"
#include "segment/file/feed_position.h"
#include "segment/file/layout.h"
#include "segment/file/segment.h"
#include "tests/machine/mail.h"
#include "tests/machine/orders.h"
#include "tests/machine/role.h"
#include "wire/mail/mail_log.h"

#define AT_ONCE	8
#define TURN_NS	(250 * NS_PER_MS)

struct feed {
	struct role *role;
	struct feed_position position;
	uint32_t record;
	uint64_t origin;
	int64_t beat_ns;
	struct journal_states *journal;
};

static void find_place(struct feed *feed) {
	struct segment *segment = feed->role->segment;
	struct feed_position known[FEED_FILES_MAX];
	uint32_t records[FEED_FILES_MAX];
	uint64_t log = feed_log_id("/var/log/mail.log");

	if (feed_positions(segment, log, known, records) > 0) {
		feed->position = known[0];
		feed->record = records[0];
	} else {
		if (kept_has_place())
			world_fail("kept", "the feed's place is lost");
		feed->position = (struct feed_position){ .log = log, .device = 1, .inode = 1,
			.spot = { .offset = mail_log_begin() } };
		feed->record = feed_position_begin(segment, &feed->position);
		MUST(feed->record != FEED_NO_RECORD);
	}
	feed->origin = feed_origin_id(&feed->position);
}

static void feed_line(struct feed *feed, const struct generation *generation,
    const struct mail_line *line, const struct log_line *read, unsigned expected) {
	struct engine *engine = feed->role->engine;
	const struct feed_origin origin = { .log = feed->origin, .offset = line->offset,
		.ended_ns = line->at_ns, .slack_ns = 5 * NS_PER_MS, .expected = expected };
	const _Atomic uint64_t *busy = &segment_header(feed->role->segment)->counters[COUNTER_NOTES_LOST];
	uint64_t was_busy = atomic_load(busy);
	struct feed_outcome outcome;
	bool lost;

	check_result_begins(line);
	outcome = engine_feed_delivery(engine, generation, 3, &read->delivery, &origin,
	    clock_now_ns());
	if (outcome.judgement == NULL)
		world_fail("feed", "a line is nobody's: %.*s", (int)line->length, line->text);
	/* a lock that was not to be had in time; its relay may have been noted all the same */
	lost = !outcome.repeated && (!outcome.learned || atomic_load(busy) != was_busy);
	if (lost && !line->is_aside)
		mail_line_lost(line);
	if (!lost && line->started_ns != 0 && !line->is_aside && !line->is_unknown)
		orders_see(line->domain);
	check_result(line);
	world_log("feed: %llu of %s: %s", (unsigned long long)line->offset, mail_domain(line->domain),
	    outcome.repeated ? "repeated" : lost ? "lost" : "learned");
	check_window(engine, generation, &outcome.judgement->owner);
	feed->position.spot.offset = line->offset;
	feed_position_move(feed->role->segment, feed->record, &feed->position.spot);
}

static void feed_beat(struct feed *feed) {
	if (clock_now_ns() < feed->beat_ns)
		return;
	feed->beat_ns = clock_now_ns() + BEAT_NS;
	kept_turns(feed->role->segment);
	journal_states_turn(feed->journal, clock_now_ns(), clock_wall_ns());
	kept_turned(feed->role->segment);
	engine_heartbeat(feed->role->engine, clock_now_ns());
}

static bool feed_lines(struct feed *feed) {
	const struct generation *generation = engine_pin(feed->role->engine);
	const struct delivery *coming[AT_ONCE];
	struct mail_line lines[AT_ONCE];
	struct log_line read[AT_ONCE];
	uint64_t offset = feed->position.spot.offset;
	unsigned count = 0;

	for (; count < AT_ONCE && mail_log_line(offset, &lines[count]); count++) {
		if (mail_log_scan(lines[count].text, lines[count].length, &read[count]) !=
		    LOG_LINE_DELIVERY)
			world_fail("feed", "no delivery: %.*s", (int)lines[count].length,
			    lines[count].text);
		coming[count] = &read[count].delivery;
		offset = lines[count].offset;
	}
	if (count > 0)
		engine_feed_expect(feed->role->engine, coming, count);
	for (unsigned i = 0; i < count; i++)
		feed_line(feed, generation, &lines[i], &read[i], i + 1);
	engine_unpin(feed->role->engine, generation);
	return count > 0;
}

static void feed_turn(struct feed *feed) {
	const struct generation *generation = engine_pin(feed->role->engine);

	engine_feed_turn(feed->role->engine, generation, clock_now_ns());
	engine_unpin(feed->role->engine, generation);
}

void feed_main(struct role *role) {
	struct feed feed = { .role = role };
	const struct generation *generation;
	struct diag diag;

	kept_feed_begins();
	generation = engine_pin(role->engine);
	MUST(journal_states_open(&feed.journal, role->engine, generation, &journal_tells,
	    clock_now_ns(), &diag) == 0);
	engine_unpin(role->engine, generation);
	find_place(&feed);
	do
		feed_beat(&feed);
	while (feed_lines(&feed));
	journal_states_begin(feed.journal);
	for (;;) {
		do
			feed_beat(&feed);
		while (feed_lines(&feed));
		feed_turn(&feed);
		if (feed.position.spot.offset == mail_log_end())
			fiber_sleep(clock_now_ns() + TURN_NS);
	}
}
