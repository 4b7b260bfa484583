/* SPDX-License-Identifier: ISC */
/* Destinations and relays that were seen: what is remembered, what is given up,
 * what survives a restart; against a model; readers while others write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "random.h"
#include "segment/destinations.h"
#include "segment/feed_position.h"
#include "segment/internal.h"
#include "segment/name.h"
#include "site.h"

#define CLASSES "classes = ( { name = \"all\"; match = [ \"*\" ]; sessions = 10; } );"
#define MTAS(a, b) "mta = ( { name = \"" a "\"; }, { name = \"" b "\"; " \
	"syslog_name = \"second\"; } );"

static struct site site;

static int open_site(void **state) {
	(void)state;
	site_open(&site, 64, CLASSES);
	return 0;
}

static int close_site(void **state) {
	(void)state;
	site_close(&site);
	return 0;
}

static struct address address_of(const char *text) {
	struct address address = { 0 };

	assert_true(address_parse(text, strlen(text), &address));
	return address;
}

/* A delivery; relay and name may be NULL. */
static bool note_at(const char *name, const char *relay, const char *relay_name,
    uint8_t mta, bool cloned, int64_t now_ns) {
	struct delivery_seen seen = { .name = name, .name_length = strlen(name),
		.relay_name = relay_name, .mta = mta, .cloned = cloned };

	if (relay != NULL)
		seen.relay = address_of(relay);
	if (relay_name != NULL)
		seen.relay_name_length = strlen(relay_name);
	return destinations_note(site.segment, &seen, now_ns);
}

static bool note(const char *name, const char *relay, const char *relay_name) {
	return note_at(name, relay, relay_name, 0, true, clock_now_ns());
}

static bool find(const char *name, struct destination_seen *seen) {
	return destinations_find(site.segment, name, strlen(name), seen);
}

static uint64_t counted(enum counter counter) {
	return atomic_load(&site.segment->header->counters[counter]);
}

static void assert_relays(const char *name, unsigned count, const char *first,
    const char *second, const char *third) {
	const char *const wanted[] = { first, second, third };
	struct destination_seen seen;

	assert_true(find(name, &seen));
	assert_int_equal(seen.relay_count, count);
	for (unsigned i = 0; i < count; i++) {
		char text[ADDRESS_TEXT_MAX];

		address_format(&seen.relays[i], text);
		assert_string_equal(text, wanted[i]);
	}
}

static void names_are_folded(void **state) {
	struct destination_seen seen;
	char name[SEGMENT_NAME_MAX + 1];
	struct address relay = address_of("192.0.2.1");

	(void)state;
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
static void each_byte_is_folded_or_refused(void **state) {
	(void)state;
	for (unsigned c = 0; c < 256; c++) {
		for (size_t at = 0; at < 17; at++) {
			char name[18] = "abcdefghijklmnopq", folded[SEGMENT_NAME_MAX];
			bool bad = c <= ' ' || c == 0x7f;
			uint64_t words[NAME_WORDS];

			if (at == 16 && c == '.')
				continue;
			name[at] = (char)c;
			assert_int_equal(name_fold(name, 17, words), !bad);
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

static void relays_are_most_recent_first(void **state) {
	(void)state;
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

static void transports_are_bits_of_each_mta(void **state) {
	struct destination_seen seen;
	int64_t now_ns = clock_now_ns();

	(void)state;
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

static void the_version_rises_with_what_a_list_would_not_show(void **state) {
	uint64_t version = destinations_version(site.segment);

	(void)state;
#define RISES(by, ...) do { \
	__VA_ARGS__; \
	assert_int_equal(destinations_version(site.segment), version + (by)); \
	version = destinations_version(site.segment); \
} while (0)
	RISES(1, note("a.example", "192.0.2.1", NULL));
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

static void what_is_no_name_is_not_remembered(void **state) {
	char name[SEGMENT_NAME_MAX + 3];
	struct destination_seen seen;

	(void)state;
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

static void a_full_table_gives_up_the_oldest(void **state) {
	struct listing listing = { 0 };
	struct destination_seen seen;
	int64_t now_ns = clock_now_ns();
	unsigned kept = 0;
	char name[32], relay[32];

	(void)state;
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
			assert_true(i >= 1500);
			kept++;
		}
	}
	assert_int_equal(kept, 255);
}

static void it_survives_a_restart(void **state) {
	struct destination_seen seen;
	char name[SEGMENT_NAME_MAX + 1];
	struct address relay = address_of("192.0.2.1");

	(void)state;
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

static void it_survives_other_sizes(void **state) {
	char name[SEGMENT_NAME_MAX + 1];
	struct address relay = address_of("192.0.2.1");

	(void)state;
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

	for (uint32_t i = 0; i < header->learned_shards *
	     header->learned_per_shard; i++) {
		if (strcmp(slots[i].name, name) == 0)
			return (_Atomic uint64_t *)(void *)&slots[i];
	}
	fail();
	return NULL;
}

/* Each row spoils one thing of a slot, and the entry is not believed. */
static void a_scribbled_slot_is_not_adopted(void **state) {
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

	(void)state;
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

static void another_mta_of_the_same_number_saw_nothing(void **state) {
	const struct feed_position written = { 1, 2, 3 };
	struct feed_position position;
	struct destination_seen seen;
	uint64_t version;

	(void)state;
	site_reload(&site, CLASSES MTAS("one", "two"));
	note_at("a.example", NULL, NULL, 0, true, clock_now_ns());
	note_at("a.example", NULL, NULL, 1, false, clock_now_ns());
	feed_position_set(site.segment, 0, &written);
	feed_position_set(site.segment, 1, &written);
	site_reload(&site, CLASSES MTAS("one", "two"));
	assert_true(find("a.example", &seen));
	assert_int_equal(seen.cloned_by, 1);
	assert_int_equal(seen.other_by, 2);
	assert_true(feed_position_get(site.segment, 1, &position));
	version = destinations_version(site.segment);
	site_reload(&site, CLASSES MTAS("one", "three"));
	assert_true(find("a.example", &seen));
	assert_int_equal(seen.cloned_by, 1);
	assert_int_equal(seen.other_by, 0);
	assert_true(destinations_version(site.segment) > version);
	assert_true(feed_position_get(site.segment, 0, &position));
	assert_false(feed_position_get(site.segment, 1, &position));
}

static void a_log_position_is_whole_or_unknown(void **state) {
	struct feed_position written = { 7, 8, 9 }, position;

	(void)state;
	assert_false(feed_position_get(site.segment, 3, &position));
	feed_position_set(site.segment, 3, &written);
	feed_position_set(site.segment, SEGMENT_MTAS, &written);
	assert_false(feed_position_get(site.segment, SEGMENT_MTAS, &position));
	site_restart(&site, 64, CLASSES);
	assert_true(feed_position_get(site.segment, 3, &position));
	assert_memory_equal(&position, &written, sizeof(position));
	atomic_store(&site.segment->header->mtas[3].offset, 10);
	assert_false(feed_position_get(site.segment, 3, &position));
	atomic_store(&site.segment->header->mtas[3].offset, 9);
	assert_true(feed_position_get(site.segment, 3, &position));
	atomic_store(&site.segment->header->mtas[3].check, 0);
	assert_false(feed_position_get(site.segment, 3, &position));
}

/* What the tables should hold, written plainly: arrays that are searched. */
#define MODEL_NAMES 24
#define MODEL_RELAYS 6
struct model {
	struct {
		bool known;
		unsigned relays[DESTINATION_RELAYS], count;
		uint8_t cloned_by, other_by;
	} names[MODEL_NAMES];
	int relay_names[MODEL_RELAYS];	/* -1: none */
};

static void model_note(struct model *model, unsigned name, int relay,
    unsigned mta, bool cloned, int relay_name) {
	unsigned *list = model->names[name].relays, count, at;

	model->names[name].known = true;
	if (cloned)
		model->names[name].cloned_by |= (uint8_t)(1u << mta);
	else
		model->names[name].other_by |= (uint8_t)(1u << mta);
	if (relay < 0)
		return;
	count = model->names[name].count;
	for (at = 0; at < count && list[at] != (unsigned)relay; at++)
		;
	if (at == count && count < DESTINATION_RELAYS)
		model->names[name].count++;
	else if (at == count)
		at--;
	for (; at > 0; at--)
		list[at] = list[at - 1];
	list[0] = (unsigned)relay;
	if (relay_name >= 0)
		model->relay_names[relay] = relay_name;
}

static void assert_is_model(const struct model *model) {
	char name[32], wanted[32], found[SEGMENT_NAME_MAX + 1];
	struct address relay = address_of("192.0.2.0");

	for (unsigned i = 0; i < MODEL_NAMES; i++) {
		struct destination_seen seen;

		snprintf(name, sizeof(name), "name%u.example", i);
		assert_int_equal(find(name, &seen), model->names[i].known);
		if (!model->names[i].known)
			continue;
		assert_int_equal(seen.cloned_by, model->names[i].cloned_by);
		assert_int_equal(seen.other_by, model->names[i].other_by);
		assert_int_equal(seen.relay_count, model->names[i].count);
		for (unsigned k = 0; k < seen.relay_count; k++)
			assert_int_equal(seen.relays[k].bytes[15],
			    model->names[i].relays[k]);
	}
	for (unsigned i = 0; i < MODEL_RELAYS; i++) {
		relay.bytes[15] = (uint8_t)i;
		snprintf(wanted, sizeof(wanted), "relay%d.example",
		    model->relay_names[i]);
		assert_int_equal(relays_find(site.segment, &relay, found),
		    model->relay_names[i] >= 0);
		if (model->relay_names[i] >= 0)
			assert_string_equal(found, wanted);
	}
}

static void it_does_as_the_model_does(void **state) {
	struct model model = { 0 };
	struct random random = random_seeded("it_does_as_the_model_does");

	(void)state;
	for (unsigned i = 0; i < MODEL_RELAYS; i++)
		model.relay_names[i] = -1;
	for (unsigned step = 0; step < 4000; step++) {
		unsigned name = random_below(&random, MODEL_NAMES);
		int relay = (int)random_below(&random, MODEL_RELAYS + 1) - 1;
		int relay_name = (int)random_below(&random, 4) - 1;
		unsigned mta = random_below(&random, 8);
		bool cloned = random_below(&random, 2) == 0;
		char text[32], relay_text[32], address[32];

		snprintf(text, sizeof(text), "name%u.example", name);
		snprintf(address, sizeof(address), "192.0.2.%d", relay);
		snprintf(relay_text, sizeof(relay_text), "relay%d.example",
		    relay_name);
		assert_true(note_at(text, relay < 0 ? NULL : address,
		    relay_name < 0 ? NULL : relay_text, (uint8_t)mta, cloned,
		    clock_now_ns()));
		model_note(&model, name, relay, mta, cloned, relay_name);
		if (step % 10 == 0)
			assert_is_model(&model);
		if (step % 1000 == 999) {
			site_restart(&site, 64, CLASSES);
			assert_is_model(&model);
		}
	}
}

/* Writers use relays 10.N.*.* for name N alone, so that a reader can tell. */
struct racing {
	_Atomic bool stop;
	_Atomic unsigned torn, looked;
};

static void write_randomly(uint64_t seed, unsigned steps) {
	struct random random = { seed };

	for (unsigned i = 0; i < steps; i++) {
		unsigned name = random_below(&random, 600);
		unsigned low = random_below(&random, 5);
		char text[32], relay[32], relay_name[32];

		snprintf(text, sizeof(text), "name%u.example", name);
		snprintf(relay, sizeof(relay), "10.%u.%u.%u", name / 256,
		    name % 256, low);
		/* two names of one address by turns, of one byte each */
		snprintf(relay_name, sizeof(relay_name), "%.*s",
		    8 + (int)(i % 2) * 16, i % 2 ? "bbbbbbbbbbbbbbbbbbbbbbbb" :
		    "aaaaaaaaaaaaaaaaaaaaaaaa");
		assert_true(note(text, relay, relay_name));
	}
}

static bool is_whole(const struct destination_seen *seen) {
	unsigned name;

	if (sscanf(seen->name, "name%u.example", &name) != 1)
		return false;
	for (unsigned i = 0; i < seen->relay_count; i++) {
		const uint8_t *bytes = seen->relays[i].bytes;

		if (bytes[12] != 10 || bytes[13] != name / 256 ||
		    bytes[14] != name % 256)
			return false;
		for (unsigned k = 0; k < i; k++) {
			if (address_equal(&seen->relays[i], &seen->relays[k]))
				return false;
		}
	}
	return true;
}

static void check_one(void *context, const struct destination_seen *seen) {
	struct racing *racing = context;

	atomic_fetch_add(&racing->looked, 1);
	if (!is_whole(seen))
		atomic_fetch_add(&racing->torn, 1);
}

static void *read_all_the_time(void *context) {
	struct racing *racing = context;
	struct random random = { 99 };

	while (!atomic_load(&racing->stop)) {
		unsigned number = random_below(&random, 600);
		struct address relay = { .bytes = { [10] = 0xff, 0xff, 10,
			(uint8_t)(number / 256), (uint8_t)(number % 256), 1 } };
		char name[SEGMENT_NAME_MAX + 1];
		struct destination_seen seen;

		snprintf(name, sizeof(name), "name%u.example", number);
		if (find(name, &seen)) {
			check_one(racing, &seen);
			if (strcmp(name, seen.name) != 0)
				atomic_fetch_add(&racing->torn, 1);
		}
		if (relays_find(site.segment, &relay, name) &&
		    strcmp(name, "aaaaaaaa") != 0 &&
		    strcmp(name, "bbbbbbbbbbbbbbbbbbbbbbbb") != 0)
			atomic_fetch_add(&racing->torn, 1);
		if (number == 0)
			destinations_each(site.segment, check_one, racing);
	}
	return NULL;
}

static void *write_all_the_time(void *context) {
	write_randomly((uint64_t)(uintptr_t)context, 40000);
	return NULL;
}

static void readers_never_see_half_of_a_change(void **state) {
	struct racing racing = { false, 0, 0 };
	pthread_t reader, writers[2];

	(void)state;
	assert_int_equal(pthread_create(&reader, NULL, read_all_the_time,
	    &racing), 0);
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&writers[i], NULL,
		    write_all_the_time, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(writers[i], NULL);
	atomic_store(&racing.stop, true);
	pthread_join(reader, NULL);
	assert_int_equal(atomic_load(&racing.torn), 0);
	assert_true(atomic_load(&racing.looked) > 0);
}

/* What stays is found at any moment, whatever else comes and goes. */
static void *look_for_one(void *context) {
	struct racing *racing = context;

	while (!atomic_load(&racing->stop)) {
		struct destination_seen seen;

		atomic_fetch_add(&racing->looked, 1);
		if (!find("stays.example", &seen))
			atomic_fetch_add(&racing->torn, 1);
	}
	return NULL;
}

static void what_stays_is_always_found(void **state) {
	struct racing racing = { false, 0, 0 };
	pthread_t reader, writer;

	(void)state;
	/* younger than all that come: never given up */
	assert_true(note_at("stays.example", "192.0.2.1", NULL, 0, true,
	    clock_now_ns() + INT64_C(1000) * NS_PER_SECOND));
	assert_int_equal(pthread_create(&reader, NULL, look_for_one, &racing), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_all_the_time,
	    (void *)(uintptr_t)5), 0);
	pthread_join(writer, NULL);
	atomic_store(&racing.stop, true);
	pthread_join(reader, NULL);
	assert_true(counted(COUNTER_DESTINATIONS_EVICTED) > 1000);
	assert_int_equal(atomic_load(&racing.torn), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_site, close_site)

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(names_are_folded),
		cmocka_unit_test(each_byte_is_folded_or_refused),
		TEST(relays_are_most_recent_first),
		TEST(transports_are_bits_of_each_mta),
		TEST(the_version_rises_with_what_a_list_would_not_show),
		TEST(what_is_no_name_is_not_remembered),
		TEST(a_full_table_gives_up_the_oldest),
		TEST(it_survives_a_restart),
		TEST(it_survives_other_sizes),
		TEST(a_scribbled_slot_is_not_adopted),
		TEST(another_mta_of_the_same_number_saw_nothing),
		TEST(a_log_position_is_whole_or_unknown),
		TEST(it_does_as_the_model_does),
		TEST(readers_never_see_half_of_a_change),
		TEST(what_stays_is_always_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
