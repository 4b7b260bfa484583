/* SPDX-License-Identifier: ISC */
/* Destinations and relays that were seen: what is remembered, what is given up,
 * what survives a restart. */
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"

#include "segment/file/name.h"
#include "tests/unit/segment/destination/noted_deliveries.h"

#define CLASSES "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 10; } );"
#define MTAS(a, b) "mta = ( { name = \"" a "\"; }, { name = \"" b "\"; " \
	"syslog_name = \"second\"; } );"

static void assert_relays(const char *name, unsigned count, const char *first,
    const char *second, const char *third) {
	const char *const wanted[] = { first, second, third };
	struct destination_seen seen;

	assert_true(find(name, &seen));
	assert_int_equal(seen.relay_count, count);
	for (unsigned i = 0; i < count; i++) {
	
		address_is(&seen.relays[i], wanted[i]);
	}
}

TEST_IN(site_begin, site_end, names_are_folded) {
	struct destination_seen seen;
	char name[SEGMENT_NAME_MAX + 1];
	struct address relay = address_of("192.0.2.1");

	assert_false(find("example.com", &seen));
	assert_true(note("Example.COM.", "192.0.2.1", "MX1.Example.COM."));
	assert_true(find("example.com", &seen));
	assert_string_equal(seen.name, "example.com");
	assert_true(find("EXAMPLE.com.", &seen));
	assert_false(find("example.co", &seen));
	assert_false(find("xexample.com", &seen));
	assert_true(relays_find(site.segment, &relay, name));
	assert_string_equal(name, "mx1.example.com");
	relay = address_of("192.0.2.2");
	assert_false(relays_find(site.segment, &relay, name));
	assert_string_equal(name, "");
	memset(&relay, 0, sizeof(relay));
	assert_false(relays_find(site.segment, &relay, name));
}

/* Each byte at each place, against the plain way. */
TEST(each_byte_is_folded_or_refused) {
	for (unsigned c = 0; c < 256; c++) {
		for (size_t at = 0; at < 17; at++) {
			char name[18] = "abcdefghijklmnopq", folded[SEGMENT_NAME_MAX];
			bool bad = c <= ' ' || c == 0x7f;
			uint64_t words[NAME_WORDS];

			if (at == 16 && c == '.')
				continue;
			name[at] = (char)c;
			assert_int_equal(name_fold(name, 17, words), bad ? 0 : 3);
			if (bad)
				continue;
			memcpy(folded, words, sizeof(folded));
			name[at] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
			assert_memory_equal(folded, name, 17);
			assert_true(name_is_folded(folded));
			folded[at] = (char)c;
			assert_int_equal(name_is_folded(folded),
			    c < 'A' || c > 'Z');
		}
	}
}

TEST_IN(site_begin, site_end, relays_are_most_recent_first) {
	assert_true(note("a.example", NULL, "mx.example"));
	assert_relays("a.example", 0, NULL, NULL, NULL);
	note("a.example", "192.0.2.1", NULL);
	assert_relays("a.example", 1, "192.0.2.1", NULL, NULL);
	note("a.example", "192.0.2.2", NULL);
	note("a.example", "192.0.2.2", NULL);
	assert_relays("a.example", 2, "192.0.2.2", "192.0.2.1", NULL);
	note("a.example", "2001:db8::3", NULL);
	assert_relays("a.example", 3, "2001:db8::3", "192.0.2.2", "192.0.2.1");
	/* known ones come to the front, the one longest ago goes */
	note("a.example", "192.0.2.1", NULL);
	assert_relays("a.example", 3, "192.0.2.1", "2001:db8::3", "192.0.2.2");
	note("a.example", "192.0.2.4", NULL);
	assert_relays("a.example", 3, "192.0.2.4", "192.0.2.1", "2001:db8::3");
	note("a.example", "192.0.2.1", NULL);
	assert_relays("a.example", 3, "192.0.2.1", "192.0.2.4", "2001:db8::3");
	note("a.example", NULL, NULL);
	assert_relays("a.example", 3, "192.0.2.1", "192.0.2.4", "2001:db8::3");
}

TEST_IN(site_begin, site_end, transports_are_bits_of_each_mta) {
	struct destination_seen seen;
	int64_t now_ns = clock_now_ns();

	note_at("a.example", NULL, NULL, 0, true, now_ns);
	assert_true(find("a.example", &seen));
	assert_int_equal(seen.cloned_by, 1);
	assert_int_equal(seen.other_by, 0);
	note_at("a.example", NULL, NULL, 7, false, now_ns + 1000000000);
	note_at("a.example", NULL, NULL, 8, true, now_ns + 1000000000);
	note_at("a.example", NULL, NULL, 255, false, now_ns + 1000000000);
	assert_true(find("a.example", &seen));
	assert_int_equal(seen.cloned_by, 1);
	assert_int_equal(seen.other_by, 0x80);
	/* tenths of seconds */
	assert_true(seen.seen_ns <= now_ns + 1000000000 &&
	    seen.seen_ns > now_ns + 900000000 - 1);
}

TEST_IN(site_begin, site_end, the_version_rises_with_what_a_list_would_not_show) {
	uint64_t version = destinations_version(site.segment);

#define RISES(by, ...) do { \
	__VA_ARGS__; \
	assert_int_equal(destinations_version(site.segment), version + (by)); \
	version = destinations_version(site.segment); \
} while (0)
	/* it is made, and then its relay is known */
	RISES(2, note("a.example", "192.0.2.1", NULL));
	RISES(0, note("a.example", "192.0.2.1", NULL));
	RISES(0, note("A.Example.", NULL, NULL));
	RISES(1, note("a.example", "192.0.2.2", NULL));
	RISES(0, note("a.example", "192.0.2.1", NULL));
	RISES(1, note("a.example", "192.0.2.1", "mx1.example"));
	RISES(0, note("a.example", "192.0.2.1", "MX1.example"));
	RISES(1, note("a.example", "192.0.2.1", "mx9.example"));
	RISES(1, note_at("a.example", NULL, NULL, 0, false, clock_now_ns()));
	RISES(1, note_at("a.example", NULL, NULL, 1, true, clock_now_ns()));
	RISES(0, note("", NULL, NULL));
#undef RISES
}

TEST_IN(site_begin, site_end, what_is_no_name_is_not_remembered) {
	char name[SEGMENT_NAME_MAX + 3];
	struct destination_seen seen;

	memset(name, 'x', sizeof(name));
	name[SEGMENT_NAME_MAX] = '\0';
	assert_true(note(name, "192.0.2.1", name));
	assert_true(find(name, &seen));
	assert_string_equal(seen.name, name);
	name[SEGMENT_NAME_MAX] = '.';
	name[SEGMENT_NAME_MAX + 1] = '\0';
	assert_true(note(name, NULL, NULL));
	assert_int_equal(counted(COUNTER_NAMES_UNUSABLE), 0);
	name[SEGMENT_NAME_MAX] = 'x';
	assert_false(note(name, NULL, NULL));
	assert_false(find(name, &seen));
	assert_false(note("", NULL, NULL));
	assert_false(note(".", NULL, NULL));
	assert_false(note("a..", NULL, NULL));
	assert_false(note("a b", NULL, NULL));
	assert_false(note("a\nb", NULL, NULL));
	assert_int_equal(counted(COUNTER_NAMES_UNUSABLE), 6);
	/* the destination is, without the relay's name */
	assert_false(note("b.example", "192.0.2.7", name));
	assert_relays("b.example", 1, "192.0.2.7", NULL, NULL);
	assert_int_equal(counted(COUNTER_NAMES_UNUSABLE), 7);
}

struct listing {
	unsigned count;
	uint8_t cloned_by;
	char last[SEGMENT_NAME_MAX + 1];
};

static void list_one(void *context, const struct destination_seen *seen) {
	struct listing *listing = context;

	listing->count++;
	listing->cloned_by |= seen->cloned_by;
	memcpy(listing->last, seen->name, sizeof(listing->last));
}

TEST_IN(site_begin, site_end, a_full_table_gives_up_the_oldest) {
	struct listing listing = { 0 };
	struct destination_seen seen;
	int64_t now_ns = clock_now_ns();
	unsigned kept = 0;
	char name[32], relay[32];

	/* 8 shards of 32, and 32 are looked at: the very oldest of its shard */
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "d%u.example", i);
		snprintf(relay, sizeof(relay), "10.0.%u.%u", i / 256, i % 256);
		assert_true(note_at(name, relay, "mx.example", 0, true,
		    now_ns + (int64_t)i * 1000000000));
		/* this one is used all the time */
		assert_true(note_at("kept.example", NULL, NULL, 0, true,
		    now_ns + (int64_t)i * 1000000000));
	}
	destinations_each(site.segment, list_one, &listing);
	assert_int_equal(listing.count, 256);
	assert_true(find("kept.example", &seen));
	assert_int_equal(counted(COUNTER_DESTINATIONS_EVICTED), 2001 - 256);
	assert_int_equal(counted(COUNTER_RELAYS_EVICTED), 2000 - 256);
	/* no entry outlived one that came long after it in the same shard */
	for (unsigned i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "d%u.example", i);
		if (find(name, &seen)) {
			assert_true(i >= 1350);
			kept++;
		}
	}
	assert_int_equal(kept, 255);
}

TEST_IN(site_begin, site_end, it_survives_a_restart) {
	struct destination_seen seen;
	char name[SEGMENT_NAME_MAX + 1];
	struct address relay = address_of("192.0.2.1");

	note("a.example", "192.0.2.1", "mx.example");
	note("a.example", "192.0.2.2", NULL);
	site_restart(&site, 64, CLASSES);
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_relays("a.example", 2, "192.0.2.2", "192.0.2.1", NULL);
	assert_true(relays_find(site.segment, &relay, name));
	assert_string_equal(name, "mx.example");
	note("b.example", "192.0.2.1", NULL);
	assert_true(find("b.example", &seen));
}

TEST_IN(site_begin, site_end, it_survives_other_sizes) {
	char name[SEGMENT_NAME_MAX + 1];
	struct address relay = address_of("192.0.2.1");

	note("a.example", "192.0.2.1", "mx.example");
	note("a.example", "192.0.2.2", NULL);
	site.destinations = 1024;
	site_restart(&site, 64, CLASSES);
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_int_equal(site.segment->header->destination_count, 1024);
	assert_relays("a.example", 2, "192.0.2.2", "192.0.2.1", NULL);
	assert_true(relays_find(site.segment, &relay, name));
	assert_string_equal(name, "mx.example");
}

static _Atomic uint64_t *slot_of(const char *name) {
	const struct segment_header *header = site.segment->header;
	struct destination *slots = (void *)((char *)header +
	    header->destinations.slots_offset);

	for (uint32_t i = 0; i < header->destinations.shards *
	     header->destinations.per_shard; i++) {
		if (strcmp(slots[i].name, name) == 0)
			return (_Atomic uint64_t *)(void *)&slots[i];
	}
	fail();
	return NULL;
}

/* Each row spoils one thing of a slot, and the entry is not believed. */
TEST_IN(site_begin, site_end, a_scribbled_slot_is_not_adopted) {
	static const struct {
		size_t at;
		uint8_t byte;
	} rows[] = {
		{ 0, 2 }, { 1, 4 }, { 2, 0x00 }, { 2, 0xe0 },
		{ offsetof(struct destination, name), 'A' },
		{ offsetof(struct destination, name) + 1, ' ' },
		{ offsetof(struct destination, name) + 1, 'y' },
		{ offsetof(struct destination, name) + 79, 'y' },
	};
	struct destination_seen seen;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		note("a.example", "192.0.2.1", NULL);
		note("a.example", "192.0.2.2", NULL);
		assert_true(find("a.example", &seen));
		((uint8_t *)(void *)slot_of("a.example"))[rows[i].at] =
		    rows[i].byte;
		site_restart(&site, 64, CLASSES);
		assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
		assert_false(find("a.example", &seen));
	}
	/* two relays that are the same */
	note("a.example", "192.0.2.1", NULL);
	note("a.example", "192.0.2.2", NULL);
	memcpy((char *)(void *)slot_of("a.example") +
	    offsetof(struct destination, relays) + 16,
	    (char *)(void *)slot_of("a.example") +
	    offsetof(struct destination, relays), 16);
	site_restart(&site, 64, CLASSES);
	assert_false(find("a.example", &seen));
	/* a time of the future would never be given up */
	note("a.example", "192.0.2.1", NULL);
	atomic_store(&slot_of("a.example")[1], UINT64_MAX / 3);
	site_restart(&site, 64, CLASSES);
	assert_true(find("a.example", &seen));
	assert_true(seen.seen_ns <= clock_now_ns());
}

TEST_IN(site_begin, site_end, another_mta_of_the_same_number_saw_nothing) {
	struct destination_seen seen;
	uint64_t version;

	site_reload(&site, CLASSES MTAS("one", "two"));
	note_at("a.example", NULL, NULL, 0, true, clock_now_ns());
	note_at("a.example", NULL, NULL, 1, false, clock_now_ns());
	site_reload(&site, CLASSES MTAS("one", "two"));
	assert_true(find("a.example", &seen));
	assert_int_equal(seen.cloned_by, 1);
	assert_int_equal(seen.other_by, 2);
	version = destinations_version(site.segment);
	site_reload(&site, CLASSES MTAS("one", "three"));
	assert_true(find("a.example", &seen));
	assert_int_equal(seen.cloned_by, 1);
	assert_int_equal(seen.other_by, 0);
	assert_true(destinations_version(site.segment) > version);
}
