/* SPDX-License-Identifier: ISC */
/*
 * Quotas (quota.h).
 *
 * Model: a ring of 13 buckets, of which the newest has the twelfth's number.  A clock that
 * seems to go back (readings taken before waiting for a lock) counts into the newest.
 * Errors: a number further ahead than that is none of ours; all that was counted counts as
 * counted now.  Threads: no state.
 */
#include "policy/limit/quota.h"

#include <stddef.h>
#include <string.h>

#define NS		INT64_C(1000000000)
#define NS_PER_MS	INT64_C(1000000)
#define PERIOD_MASK	((UINT32_C(1) << 28) - 1)
/* Two processes read the clock before they wait for the same lock. */
#define AHEAD_NS	(2 * NS)

/* Rounded up, so that 12 of them are no less than the period. */
static int64_t part_ns_of(const struct quota_counter *counter) {
	int64_t period_s = counter->key & PERIOD_MASK;

	return period_s == 0 ? 1 : (period_s * NS + QUOTA_PARTS - 1) / QUOTA_PARTS;
}

static uint32_t part_at(const struct quota_counter *counter, int64_t time_ns) {
	int64_t part = time_ns <= 0 ? 0 :
	    (time_ns + counter->phase_ms * NS_PER_MS) / part_ns_of(counter);

	return part > UINT32_MAX ? UINT32_MAX : (uint32_t)part;
}

static uint32_t capped(uint64_t sum) {
	return sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
}

static uint64_t sum_of(const struct quota_counter *counter) {
	uint64_t sum = 0;

	for (unsigned i = 0; i < QUOTA_BUCKETS; i++)
		sum += counter->buckets[i];
	return sum;
}

/* Another clock's, or nonsense: all that was counted counts as counted now. */
static void begin_anew(struct quota_counter *counter, uint32_t part) {
	uint32_t sum = capped(sum_of(counter));

	memset(counter->buckets, 0, sizeof(counter->buckets));
	counter->buckets[part % QUOTA_BUCKETS] = sum;
	counter->part = part;
}

/* Empties the buckets of twelfths that are over; mostly there are none. */
static void roll(struct quota_counter *counter, int64_t now_ns) {
	uint64_t part_ns = (uint64_t)part_ns_of(counter);
	uint32_t part;

	/* without a division, mostly; a part of another clock may be any number */
	if ((uint64_t)(now_ns + counter->phase_ms * NS_PER_MS) - counter->part * part_ns < part_ns)
		return;
	part = part_at(counter, now_ns);
	if (part == counter->part)
		return;
	if (part < counter->part) {
		if (counter->part > part_at(counter, now_ns + AHEAD_NS))
			begin_anew(counter, part);
		return;
	}
	if (part - counter->part >= QUOTA_BUCKETS)
		memset(counter->buckets, 0, sizeof(counter->buckets));
	else
		for (uint32_t i = counter->part; i < part; i++)
			counter->buckets[(i + 1) % QUOTA_BUCKETS] = 0;
	counter->part = part;
}

uint64_t quota_used(const struct quota_counter *counter, int64_t now_ns) {
	struct quota_counter rolled = *counter;

	if (counter->key == 0)
		return 0;
	roll(&rolled, now_ns);
	return sum_of(&rolled);
}

int64_t quota_wait_ns(const struct quota_counter *counter, uint32_t most, uint32_t amount,
    int64_t now_ns) {
	struct quota_counter rolled = *counter;
	uint64_t used;
	uint32_t part;

	if (amount > most)
		return INT64_MAX;
	if (counter->key == 0)
		return 0;
	roll(&rolled, now_ns);
	used = sum_of(&rolled);
	if (used + amount <= most)
		return 0;
	/* the oldest is over when the twelfth after the newest begins, and so on */
	for (part = rolled.part + 1; part - rolled.part <= QUOTA_BUCKETS; part++) {
		used -= rolled.buckets[part % QUOTA_BUCKETS];
		if (used + amount <= most)
			break;
	}
	return (int64_t)part * part_ns_of(counter) - counter->phase_ms * NS_PER_MS - now_ns;
}

void quota_add(struct quota_counter *counter, uint32_t amount, int64_t now_ns) {
	uint32_t *newest;

	roll(counter, now_ns);
	newest = &counter->buckets[counter->part % QUOTA_BUCKETS];
	*newest = capped((uint64_t)*newest + amount);
}

void quota_take_off(struct quota_counter *counter, uint32_t amount, int64_t since_ns,
    int64_t now_ns) {
	uint32_t since = part_at(counter, since_ns), part;

	roll(counter, now_ns);
	part = since > counter->part ? counter->part : since;
	/* some of it counts no more, and nobody knows how much */
	if (counter->part - part >= QUOTA_BUCKETS)
		return;
	for (; amount > 0 && part - 1 != counter->part; part++) {
		uint32_t *bucket = &counter->buckets[part % QUOTA_BUCKETS];
		uint32_t taken = amount < *bucket ? amount : *bucket;

		*bucket -= taken;
		amount -= taken;
	}
}

int64_t quota_end_ns(const struct quota_counter *counter) {
	return ((int64_t)counter->part + 1) * part_ns_of(counter) -
	    counter->phase_ms * NS_PER_MS;
}

void quota_restore(struct quota_counter *counter, uint32_t key,
    const uint32_t buckets[QUOTA_BUCKETS], int64_t end_ns, int64_t now_ns) {
	int64_t part_ns, passed = 0;

	*counter = (struct quota_counter){ .key = key };
	part_ns = part_ns_of(counter);
	if (end_ns <= now_ns)
		passed = (now_ns - end_ns) / part_ns + 1;
	if (end_ns > now_ns + part_ns)
		end_ns = now_ns + part_ns;
	end_ns += passed * part_ns;
	/* rounded down: what counts does so for a part of a ms longer */
	counter->phase_ms = (uint32_t)((part_ns - end_ns % part_ns) % part_ns / NS_PER_MS);
	counter->part = part_at(counter, now_ns);
	/* that of a twelfth before the clock began, too, is emptied when its time has come */
	for (int64_t age = passed; age < QUOTA_BUCKETS; age++)
		counter->buckets[(counter->part + QUOTA_BUCKETS - (uint32_t)age) %
		    QUOTA_BUCKETS] = buckets[age - passed];
}

struct quota_counter *quota_find(struct quota_counter counters[], unsigned counter_count,
    const struct quota_limit *limit) {
	uint32_t key = quota_key(limit);

	for (unsigned i = 0; i < counter_count; i++)
		if (counters[i].key == key)
			return &counters[i];
	return NULL;
}

static bool is_named(uint32_t key, const struct quota_limit limits[], unsigned limit_count) {
	for (unsigned i = 0; i < limit_count; i++)
		if (quota_key(&limits[i]) == key)
			return true;
	return false;
}

static struct quota_counter *find_room(struct quota_counter counters[],
    unsigned counter_count, const struct quota_limit limits[], unsigned limit_count) {
	struct quota_counter *room = NULL;

	for (unsigned i = 0; i < counter_count; i++) {
		if (counters[i].key == 0)
			return &counters[i];
		if (!is_named(counters[i].key, limits, limit_count))
			room = &counters[i];
	}
	return room;
}

bool quota_prepare(struct quota_counter counters[], unsigned counter_count,
    const struct quota_limit limits[], unsigned limit_count) {
	for (unsigned i = 0; i < limit_count; i++) {
		struct quota_counter *room;

		if (quota_find(counters, counter_count, &limits[i]) != NULL)
			continue;
		room = find_room(counters, counter_count, limits, limit_count);
		if (room == NULL)
			return false;
		*room = (struct quota_counter){ .key = quota_key(&limits[i]) };
	}
	return true;
}

bool quota_allows(struct quota_counter counters[], unsigned counter_count,
    const struct quota_limit limits[], unsigned limit_count,
    const struct quota_amounts *amounts, int64_t now_ns, struct quota_refusal *refusal) {
	*refusal = (struct quota_refusal){ .wait_ns = 0 };
	for (unsigned i = 0; i < limit_count; i++) {
		const struct quota_counter *counter = quota_find(counters, counter_count,
		    &limits[i]);
		uint32_t amount = amounts->of[limits[i].kind % QUOTA_KINDS];
		int64_t wait_ns;

		if (counter == NULL || amount == 0)
			continue;
		wait_ns = quota_wait_ns(counter, limits[i].most, amount, now_ns);
		if (wait_ns > refusal->wait_ns)
			*refusal = (struct quota_refusal){ i, quota_used(counter, now_ns),
				wait_ns };
	}
	return refusal->wait_ns == 0;
}

static uint32_t amount_for(const struct quota_counter *counter,
    const struct quota_amounts *amounts) {
	uint32_t kind = (counter->key >> 28) - 1;

	return counter->key == 0 || kind >= QUOTA_KINDS ? 0 : amounts->of[kind];
}

bool quota_is_idle(const struct quota_counter counters[], unsigned counter_count, int64_t now_ns) {
	for (unsigned i = 0; i < counter_count; i++)
		if (counters[i].key != 0 && quota_used(&counters[i], now_ns) != 0)
			return false;
	return true;
}

uint32_t quota_set_mark(const struct quota_counter counters[], unsigned counter_count) {
	uint32_t mark = UINT32_C(0x811c9dc5);

	for (unsigned i = 0; i < counter_count; i++)
		mark = (mark ^ counters[i].key) * UINT32_C(0x01000193);
	return mark | 1;
}

void quota_charge(struct quota_counter counters[], unsigned counter_count,
    const struct quota_amounts *amounts, int64_t now_ns) {
	for (unsigned i = 0; i < counter_count; i++) {
		uint32_t amount = amount_for(&counters[i], amounts);

		if (amount > 0)
			quota_add(&counters[i], amount, now_ns);
	}
}

void quota_give_back(struct quota_counter counters[], unsigned counter_count,
    const struct quota_amounts *amounts, int64_t since_ns, int64_t now_ns) {
	for (unsigned i = 0; i < counter_count; i++) {
		uint32_t amount = amount_for(&counters[i], amounts);

		if (amount > 0)
			quota_take_off(&counters[i], amount, since_ns, now_ns);
	}
}

int64_t quota_half_ns(struct quota_counter counters[], unsigned counter_count,
    const struct quota_limit limits[], unsigned limit_count, int64_t now_ns) {
	int64_t longest = 0;

	for (unsigned i = 0; i < limit_count; i++) {
		const struct quota_counter *counter = quota_find(counters, counter_count,
		    &limits[i]);
		int64_t wait_ns = counter == NULL ? 0 :
		    quota_wait_ns(counter, limits[i].most / 2, 0, now_ns);

		if (wait_ns > longest)
			longest = wait_ns;
	}
	return longest;
}
