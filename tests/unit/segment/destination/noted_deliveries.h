/* SPDX-License-Identifier: ISC */
/* Deliveries that are noted, in a site of the test's own. */
#ifndef TESTS_NOTED_DELIVERIES_H
#define TESTS_NOTED_DELIVERIES_H

#include "segment/destination/destinations.h"
#include "tests/unit/own_site.h"

static inline struct address address_of(const char *text) {
	struct address address = { 0 };

	assert_true(address_parse(text, strlen(text), &address));
	return address;
}

/* A delivery; relay and name may be NULL. */
static inline bool note_at(const char *name, const char *relay, const char *relay_name,
    uint8_t mta, bool cloned, int64_t now_ns) {
	struct delivery_seen seen = { .name = name, .name_length = strlen(name),
		.relay_name = relay_name, .mta = mta, .cloned = cloned };

	if (relay != NULL)
		seen.relay = address_of(relay);
	if (relay_name != NULL)
		seen.relay_name_length = strlen(relay_name);
	return destinations_note(site.segment, &seen, now_ns);
}

static inline bool note(const char *name, const char *relay, const char *relay_name) {
	return note_at(name, relay, relay_name, 0, true, clock_now_ns());
}

static inline bool find(const char *name, struct destination_seen *seen) {
	return destinations_find(site.segment, name, strlen(name), seen);
}

#endif
