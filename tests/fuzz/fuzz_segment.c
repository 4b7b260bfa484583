/* SPDX-License-Identifier: ISC */
/*
 * Adoption of a state file that anybody may have written.  Input: records of
 * 4 bytes offset (in 8-byte words, of the file), 1 byte count, then so many
 * bytes that are put there.  Whatever comes out must count what its slots say
 * and answer questions, and each destination that it lists must be found.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/destination/destinations.h"
#include "segment/file/feed_position.h"
#include "segment/destination/flights.h"
#include "segment/file/internal.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"
#include "tests/unit/site.h"

#define ALL "classes = ( { name = \"mail\"; match = [ \"*.example\" ]; " \
	"hold_at = 5; refuse_at = 5; client = { sessions = 3; }; }, " \
	"{ name = \"all\"; match = [ \"*\" ]; hold_at = 100; refuse_at = 100; } );"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct site site;

static void close_site(void) {
	site_close(&site);
}

/* Writes to the file: the mapping's sizes are its own. */
static void spoil(const uint8_t *data, size_t size) {
	int fd = open(segment_path(site.segment), O_WRONLY | O_CLOEXEC);
	uint64_t bytes = site.segment->header->bytes;

	while (size > 5) {
		uint32_t word;
		size_t count = data[4], offset;

		memcpy(&word, data, 4);
		offset = (size_t)(((uint64_t)word * 8) % bytes);
		data += 5;
		size -= 5;
		if (count > size)
			count = size;
		if (count > bytes - offset)
			count = (size_t)(bytes - offset);
		/* the site unmaps by this number, as nobody else does */
		if (offset <= offsetof(struct segment_header, bytes) + 8 &&
		    offset + count > offsetof(struct segment_header, bytes))
			count = 0;
		if (pwrite(fd, data, count, (off_t)offset) != (ssize_t)count)
			abort();
		data += count;
		size -= count;
	}
	close(fd);
}

static void note(unsigned number) {
	char name[32], relay_name[32];
	struct delivery_seen seen = { .name = name, .relay_name = relay_name,
		.mta = (uint8_t)(number % 8), .cloned = number % 2 == 0 };

	seen.name_length = (size_t)snprintf(name, sizeof(name),
	    "name%u.example", number);
	seen.relay_name_length = (size_t)snprintf(relay_name,
	    sizeof(relay_name), "mx%u.example", number);
	seen.relay = (struct address){ .bytes = { 1, [15] = (uint8_t)number } };
	if (!destinations_note(site.segment, &seen, clock_now_ns()))
		abort();
}

/* A window that is dead, its reason, a delivery in flight, a recipient that is held. */
static void hold(unsigned number) {
	const struct flight_process process = { (int32_t)number + 1, 1 };
	const struct flight_attempt attempt = { .queue_hash = number + 1,
		.level = 1 };
	char name[32];
	struct recipient_hold recipient = { .address = name, .until_ns = INT64_MAX,
		.reason = name };
	struct flight_ref ref;
	struct state_lock lock;
	size_t length = (size_t)snprintf(name, sizeof(name), "name%u.example",
	    number);

	recipient.length = length;
	if (!recipients_hold(site.segment, &recipient, clock_now_ns()))
		abort();
	if (!states_aim(site.segment, name, length, &lock) ||
	    states_lock(&lock, clock_now_ns(), STATES_CREATE) != STATES_HELD)
		return;	/* full of those in flight */
	window_begin(&lock.state.window, &window_defaults);
	window_suspend(&lock.state.window, WINDOW_CAUSE_RULE, INT64_MAX);
	lock.state.begun = true;
	lock.reason = name;
	(void)flights_take(&lock, &process, &attempt, &ref);
	states_store(&lock);
	states_unlock(&lock);
}

struct listed {
	unsigned windows, in_flight;
};

static void look_at_state(void *context, const struct destination_window *window) {
	struct destination_window found;
	struct listed *listed = context;

	listed->windows++;
	listed->in_flight += window->state.in_flight;
	if (!states_find(site.segment, window->name, strlen(window->name), &found) ||
	    strcmp(found.reason, window->reason) != 0 ||
	    strlen(window->reason) > SEGMENT_REASON_MAX ||
	    (window->state.begun && !window_is_sound(&window->state.window)) ||
	    window->state.resumed_ns > clock_now_ns() + NS_PER_SECOND)
		abort();
	for (const char *c = window->reason; *c != '\0'; c++) {
		if (*c < ' ' || *c >= 0x7f)
			abort();
	}
}

static void look_at_held(void *context, const struct recipient_held *held) {
	struct recipient_held found;

	(void)context;
	if (!recipients_find(site.segment, held->address, strlen(held->address),
		0, &found))
		abort();
}

static bool nobody_lives(void *context, const struct flight_process *process) {
	(void)context;
	(void)process;
	return false;
}

static void look_at_states(void) {
	struct listed listed = { 0, 0 }, left = { 0, 0 };
	uint32_t used, size;

	if (states_each(site.segment, look_at_state, &listed) != 0)
		abort();
	recipients_each(site.segment, 0, look_at_held, NULL);
	flights_used(site.segment, &used, &size);
	if (used != listed.in_flight ||
	    flights_sweep(site.segment, &(uint32_t){ 0 }, UINT32_MAX, nobody_lives, NULL,
		clock_now_ns()) != used)
		abort();
	(void)states_each(site.segment, look_at_state, &left);
	if (left.in_flight != 0)
		abort();
}

static void look_at_one(void *context, const struct destination_seen *seen) {
	struct destination_seen found;
	char relay_name[SEGMENT_NAME_MAX + 1];

	(*(unsigned *)context)++;
	if (!destinations_find(site.segment, seen->name, strlen(seen->name),
		&found) || strcmp(found.name, seen->name) != 0 ||
	    seen->relay_count > DESTINATION_RELAYS ||
	    seen->seen_ns > clock_now_ns() + NS_PER_SECOND)
		abort();
	for (unsigned i = 0; i < seen->relay_count; i++)
		(void)relays_find(site.segment, &seen->relays[i], relay_name);
}

static void look_at_destinations(void) {
	struct feed_position positions[FEED_FILES_MAX];
	uint32_t records[FEED_FILES_MAX];
	uint64_t destinations, relays;
	unsigned listed = 0;

	destinations_each(site.segment, look_at_one, &listed);
	destinations_used(site.segment, &destinations, &relays);
	if (destinations != listed || relays > site.segment->header->destination_count)
		abort();
	(void)feed_positions(site.segment, 1, positions, records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const struct feed_position start = { .log = 1, .device = 2, .inode = 3 };

	if (site.segment == NULL) {
		site_open_sized(&site, 64, 64, ALL);
		atexit(close_site);
	}
	for (uint16_t i = 1; i <= 8; i++)
		(void)site_inbound(&site, "192.0.2.1", i,
		    i % 2 ? "a.example" : NULL, NULL);
	for (unsigned i = 0; i < 40; i++)
		note(i);
	for (unsigned i = 0; i < 20; i++)
		hold(i);
	(void)feed_position_begin(site.segment, &start);
	spoil(data, size);
	site_restart(&site, 64, ALL);
	(void)site_inbound(&site, "192.0.2.9", 9, NULL, NULL);
	if (!site_is_consistent(&site))
		abort();
	look_at_destinations();
	look_at_states();
	for (unsigned i = 30; i < 200; i++)
		note(i);
	look_at_destinations();
	for (unsigned i = 0; i < 100; i++)
		hold(i);
	look_at_states();
	return 0;
}
