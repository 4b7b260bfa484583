/* SPDX-License-Identifier: ISC */
/* Destinations and relays against a plain model, and readers while others write. */
#include "tests/unit/test.h"
#include <pthread.h>

#include "tests/unit/random.h"
#include "tests/unit/segment/destination/noted_deliveries.h"

#define CLASSES "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 10; } );"

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

TEST_IN(site_begin, site_end, it_does_as_the_model_does) {
	struct model model = { 0 };
	struct random random = random_seeded("it_does_as_the_model_does");

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
		/* a lock that is not to be had in time loses one note */
		(void)note(text, relay, relay_name);
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

TEST_IN(site_begin, site_end, readers_never_see_half_of_a_change) {
	struct racing racing = { false, 0, 0 };
	pthread_t reader, writers[2];

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

TEST_IN(site_begin, site_end, what_stays_is_always_found) {
	struct racing racing = { false, 0, 0 };
	pthread_t reader, writer;

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
