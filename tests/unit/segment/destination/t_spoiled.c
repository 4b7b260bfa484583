/* SPDX-License-Identifier: ISC */
/* Words of the segment that a role which was taken over wrote: what they cover is mended, and
 * no other role ends by them. */
#include "tests/unit/test.h"

#include "segment/destination/flights.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"
#include "tests/unit/engine/session/witness_world.h"

#define CLIENTS "classes = ( { name = \"all\"; match = [ \"*\" ]; " \
	"hold_at = 100; refuse_at = 100; client = { sessions = 50; }; } );"

static uint64_t repairs(void) {
	return counted(COUNTER_REPAIRS);
}

static struct session *slot_of(const struct session_ref *ref) {
	return (void *)&site.segment->session_slots[ref->slot - 1];
}

/* Gives the session the port of a key that belongs (or not) to its own shard. */
static void move_key(const struct session_ref *ref, bool to_another_shard) {
	uint32_t shard = (ref->slot - 1) / site.segment->header->slots_per_shard;
	struct session_key key = { ref->client, 1, SESSION_INBOUND };
	struct session_lock lock;

	for (;; key.client_port++) {
		sessions_aim(site.segment, &key, now_ns, &lock);
		if ((lock.shard_number != shard) == to_another_shard &&
		    key.client_port != ref->client_port)
			break;
	}
	slot_of(ref)->client_port = key.client_port;
}

TEST_IN(set_up, tear_down, a_key_of_another_shard_does_not_end_the_keeper) {
	struct session_ref one = open_one("192.0.2.1", 1001), two;

	kernel_has("192.0.2.1", 1001);
	dump();
	move_key(&one, true);
	kernel_count = 0;
	dump();
	assert_int_equal(slot_of(&one)->control.state, SESSION_FREE);
	assert_int_equal(repairs(), 1);
	/* whoever asks next counts anew */
	two = open_one("192.0.2.2", 1002);
	assert_int_equal(open_of("all"), 1);
	witness_expire(witness, site.generation, now_ns);
	assert_lives(&two);
	assert_int_equal(repairs(), 2);	/* the shard's, the class's */
}

TEST_IN(set_up, tear_down, a_key_that_the_index_does_not_know_does_not_end_the_keeper) {
	struct session_ref one = open_one("192.0.2.1", 1001);

	kernel_has("192.0.2.1", 1001);
	dump();
	move_key(&one, false);
	kernel_count = 0;
	dump();
	assert_int_equal(slot_of(&one)->control.state, SESSION_FREE);
	assert_int_equal(repairs(), 1);
	assert_int_equal(open_of("all"), 0);
}

static void fill_session_lines(int byte) {
	const struct segment_header *header = site.segment->header;

	memset(site.segment->session_lines, byte,
	    (size_t)(header->slots_offset - header->lines_offset));
}

static void spoil_tags(const struct table_place *place, int byte) {
	memset((char *)site.segment->header + place->tags_offset, byte,
	    (size_t)place->shards * place->buckets_per_shard * sizeof(struct tag_line));
}

TEST_IN(set_up, tear_down, sessions_that_the_index_lost_end) {
	struct session_ref refs[8];

	site_reload(&site, CLIENTS);
	for (uint16_t i = 0; i < 8; i++)
		refs[i] = open_one("192.0.2.1", (uint16_t)(1000 + i));
	fill_session_lines(0);
	spoil_tags(&site.segment->header->clients, 0);
	for (unsigned i = 0; i < 8; i++) {
		engine_session_close(site.engine, &refs[i], now_ns);
		assert_over(&refs[i]);
	}
	assert_int_equal(open_of("all"), 0);
	assert_true(repairs() > 0);
}

TEST_IN(set_up, tear_down, a_full_index_takes_sessions) {
	struct session_ref one, same;

	site_reload(&site, CLIENTS);
	fill_session_lines(0xff);
	spoil_tags(&site.segment->header->clients, 0xff);
	one = open_one("192.0.2.1", 1000);
	assert_lives(&one);
	assert_int_equal(repairs(), 2);
	same = open_one("192.0.2.1", 1000);
	assert_int_equal(same.slot, one.slot);
	assert_int_equal(open_of("all"), 1);
	engine_session_close(site.engine, &one, now_ns);
	assert_int_equal(repairs(), 2);
}

/* Numbers that there are not, and those of slots that are used. */
TEST_IN(set_up, tear_down, a_spoiled_free_list_gives_no_used_slot) {
	static const uint32_t heads[] = { 1u << 30, SEGMENT_NO_SLOT - 1, 0 };
	struct segment *segment = site.segment;
	struct session_ref refs[64];
	unsigned count = 0;

	site_reload(&site, CLIENTS);
	for (; count < 32; count++)
		refs[count] = open_one("192.0.2.1", (uint16_t)(1000 + count));
	for (unsigned h = 0; h < 3; h++) {
		for (uint32_t i = 0; i < segment->header->shard_count; i++)
			segment->session_shards[i].free_head = heads[h] == 0 ?
			    i * segment->header->slots_per_shard : heads[h];
		for (unsigned i = 0; i < 8; i++, count++)
			refs[count] = open_as(OWNER_POLICY, site.auto_listener,
			    h == 2 ? "192.0.2.1" : "192.0.2.2", (uint16_t)(1000 + count));
	}
	for (unsigned i = 0; i < count; i++)
		assert_lives(&refs[i]);
	assert_int_equal(open_of("all"), count);
	assert_true(repairs() > 0);
}

/* Slots above the high water would be lost when the shard is mended. */
TEST_IN(set_up, tear_down, a_free_list_of_slots_never_used_loses_no_session) {
	struct segment *segment = site.segment;
	uint32_t all = segment->header->slots_per_shard;
	struct session_ref refs[8];
	unsigned count = 0;

	site_reload(&site, CLIENTS);
	for (uint32_t i = 0; i < segment->header->shard_count; i++)
		segment->session_shards[i].free_head = i * all + all - 1;
	for (uint16_t port = 1; count < 8; port++) {
		struct session_key key = { tuple("192.0.2.1", port).client, port, SESSION_INBOUND };
		struct session_lock lock;

		sessions_aim(segment, &key, now_ns, &lock);
		if (lock.shard_number == 1)
			refs[count++] = open_one("192.0.2.1", port);
	}
	for (unsigned i = 0; i < count; i++)
		assert_lives(&refs[i]);
	assert_int_equal(open_of("all"), count);
}

TEST_IN(set_up, tear_down, a_count_below_none_is_counted_again) {
	struct session_ref one = open_one("192.0.2.1", 1001), two = open_one("192.0.2.1", 1002);

	atomic_store(&site_class(&site, "all")->open, 0);
	engine_session_close(site.engine, &one, now_ns);
	assert_lives(&two);
	(void)open_one("192.0.2.1", 1003);
	assert_int_equal(open_of("all"), 2);
}

/* An odd one says that it is being written. */
TEST_IN(set_up, tear_down, a_spoiled_sequence_lasts_until_the_next_change) {
	struct session session;
	struct session_ref one;
	uint32_t shard;

	for (uint32_t i = 0; i < site.segment->header->shard_count; i++)
		atomic_store(&site.segment->session_shards[i].seq, 7);
	one = open_one("192.0.2.1", 1001);
	shard = (one.slot - 1) / site.segment->header->slots_per_shard;
	assert_true(session_read(site.segment, shard, one.slot - 1, &session));
}

static struct shard *shards_at(uint64_t offset) {
	return (void *)((char *)site.segment->header + offset);
}

static void spoil_used(const struct table_place *place, uint32_t used) {
	struct shard *shards = shards_at(place->shards_offset);

	for (uint32_t i = 0; i < place->shards; i++)
		shards[i].used = used;
}

static bool hold_once(unsigned number) {
	char address[32];
	const struct recipient_hold it = { .address = address, .until_ns = INT64_MAX,
		.length = (size_t)snprintf(address, sizeof(address), "u%u@a.example", number) };
	struct recipient_held held;

	return recipients_hold(site.segment, &it, now_ns) &&
	    recipients_find(site.segment, address, it.length, now_ns, &held);
}

/* The first try may be what finds the damage. */
static bool hold(unsigned number) {
	return hold_once(number) || hold_once(number);
}

TEST_IN(set_up, tear_down, spoiled_counts_of_recipients_keep_none_from_being_held) {
	const struct table_place *place = &site.segment->header->recipients;

	spoil_used(place, UINT32_MAX);
	for (unsigned i = 0; i < 8; i++)
		assert_true(hold(i));
	/* none: whoever looks for one does not look */
	for (uint32_t i = 0; i < place->shards; i++)
		assert_int_not_equal(shards_at(place->shards_offset)[i].used, 0);
	spoil_used(place, 1);
	spoil_tags(place, 0xff);
	for (unsigned i = 8; i < 16; i++)
		assert_true(hold(i));
	spoil_used(place, UINT32_MAX - 2);
	for (unsigned i = 16; i < 24; i++)
		assert_true(hold(i));
	assert_true(repairs() > 0);
	for (unsigned i = 8; i < 24; i++)
		assert_true(hold(i));
}

static bool note(unsigned number) {
	char name[32], found[SEGMENT_NAME_MAX + 1];
	struct delivery_seen seen = { .name = "a.example", .name_length = 9, .relay_name = name,
		.relay = { .bytes = { 1, [14] = (uint8_t)(number >> 8), [15] = (uint8_t)number } } };

	seen.relay_name_length = (size_t)snprintf(name, sizeof(name), "mx%u.example", number);
	return destinations_note(site.segment, &seen, now_ns) &&
	    relays_find(site.segment, &seen.relay, found) && strcmp(found, name) == 0;
}

TEST_IN(set_up, tear_down, spoiled_tags_keep_no_relay_from_being_noted) {
	spoil_tags(&site.segment->header->relays, 0xff);
	for (unsigned i = 0; i < 300; i++)
		assert_true(note(i));
	assert_true(repairs() > 0);
}

TEST_IN(set_up, tear_down, spoiled_tags_of_destinations_are_made_again) {
	static const int bytes[] = { 0, 0xff };
	const struct table_place *place = &site.segment->header->destinations;
	struct destination_window found;
	struct state_lock lock;
	char name[32];

	for (unsigned i = 0; i < 1000; i++) {
		size_t length = (size_t)snprintf(name, sizeof(name), "d%u.example", i);

		if (i % 300 == 0)
			spoil_tags(place, bytes[i / 300 % 2]);
		assert_true(states_aim(site.segment, name, length, &lock));
		assert_int_equal(states_lock(&lock, now_ns, STATES_CREATE), STATES_HELD);
		/* odd for whoever reads */
		atomic_fetch_or(&lock.slot[1], UINT64_C(1) << 32);
		lock.state.ok = 7;
		states_store(&lock);
		states_unlock(&lock);
		assert_true(states_find(site.segment, name, length, &found));
		assert_int_equal(found.state.ok, 7);
	}
	assert_true(repairs() > 0);
}

static void aim(const char *name, struct state_lock *lock) {
	assert_true(states_aim(site.segment, name, strlen(name), lock));
}

/* Whoever mends the tags counts deliveries of those that had lost theirs, too. */
TEST_IN(set_up, tear_down, spoiled_tags_lose_no_delivery_in_flight) {
	const struct flight_process process = { .pid = 4711, .start_ticks = 1 };
	const struct flight_attempt attempt = { .level = 1 };
	struct destination_window found;
	struct flight_ref ref;
	struct state_lock lock;
	char name[32];

	aim("busy.example", &lock);
	assert_int_equal(states_lock(&lock, now_ns, STATES_CREATE), STATES_HELD);
	assert_true(flights_take(&lock, &process, &attempt, &ref));
	states_unlock(&lock);
	spoil_tags(&site.segment->header->destinations, 0);
	/* one of them is going to be written where it lies */
	for (unsigned i = 0; !states_find(site.segment, "busy.example", 12, &found); i++) {
		assert_true(i < 5000);
		snprintf(name, sizeof(name), "d%u.example", i);
		aim(name, &lock);
		if (states_lock(&lock, now_ns, STATES_CREATE) == STATES_HELD)
			states_unlock(&lock);
	}
	assert_true(repairs() > 0);
	assert_int_equal(found.state.in_flight, 1);
	assert_true(flights_end(site.segment, &ref, now_ns));
	assert_true(states_find(site.segment, "busy.example", 12, &found));
	assert_int_equal(found.state.in_flight, 0);
}
