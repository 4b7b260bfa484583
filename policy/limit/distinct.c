/* SPDX-License-Identifier: ISC */
/* Counting what is different (distinct.h).  Threads: no state. */
#include "policy/limit/distinct.h"

#include <string.h>

#define NS		INT64_C(1000000000)
#define PARTS		12
#define ESTIMATED	(DISTINCT_EXACT + 1)
#define RANK_BITS	56	/* of a hash, behind the number of its register */

static uint32_t number_at(int64_t now_ns, int64_t each_ns) {
	return now_ns <= 0 || each_ns <= 0 ? 0 : (uint32_t)(now_ns / each_ns);
}

static int64_t part_ns(uint32_t period_s) {
	return (period_s * NS + PARTS - 1) / PARTS;
}

static bool counts(uint32_t part, uint32_t now_part) {
	return part > now_part || now_part - part <= PARTS;
}

static void note_register(uint8_t registers[DISTINCT_REGISTERS], uint64_t hash) {
	uint64_t rest = hash << (64 - RANK_BITS);
	uint8_t rank = rest == 0 ? RANK_BITS + 1 : (uint8_t)(__builtin_clzll(rest) + 1);
	uint8_t *place = &registers[hash >> RANK_BITS];

	if (rank > *place)
		*place = rank;
}

/* The same 64 bits of an entry's 32: registers need no more of so few. */
static uint64_t spread(uint32_t hash) {
	uint64_t x = hash;

	x = (x ^ x >> 16) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ x >> 32;
}

static void become_estimate(struct distinct *set, int64_t now_ns) {
	struct distinct_entry entries[DISTINCT_EXACT];
	int64_t turn_began_ns;

	memcpy(entries, set->entries, sizeof(entries));
	memset(set->registers, 0, sizeof(set->registers));
	set->turn = number_at(now_ns, set->period_s * NS);
	set->count = ESTIMATED;
	turn_began_ns = (int64_t)set->turn * set->period_s * NS;
	for (unsigned i = 0; i < DISTINCT_EXACT; i++) {
		bool is_now = ((int64_t)entries[i].part + 1) * part_ns(set->period_s) >
		    turn_began_ns;

		note_register(set->registers[(set->turn + !is_now) % 2],
		    spread(entries[i].hash));
	}
}

/* Forgets periods that are over. */
static void roll(struct distinct *set, int64_t now_ns) {
	uint32_t turn = number_at(now_ns, set->period_s * NS);

	if (set->count <= DISTINCT_EXACT || turn <= set->turn)
		return;
	if (turn - set->turn > 1)
		*set = (struct distinct){ .period_s = set->period_s };
	else
		memset(set->registers[turn % 2], 0, sizeof(set->registers[0]));
	set->turn = turn;
}

/* A place for one more; NULL: all are in use. */
static struct distinct_entry *make_place(struct distinct *set, uint32_t part) {
	for (unsigned i = 0; i < set->count; i++)
		if (!counts(set->entries[i].part, part))
			return &set->entries[i];
	return set->count < DISTINCT_EXACT ? &set->entries[set->count++] : NULL;
}

void distinct_add(struct distinct *set, uint64_t hash, uint32_t period_s, int64_t now_ns) {
	uint32_t part = number_at(now_ns, part_ns(period_s)), short_hash = (uint32_t)hash;
	struct distinct_entry *place;

	if (set->period_s != period_s)
		*set = (struct distinct){ .period_s = period_s };
	roll(set, now_ns);
	for (unsigned i = 0; set->count <= DISTINCT_EXACT && i < set->count; i++)
		if (set->entries[i].hash == short_hash) {
			if (part > set->entries[i].part)
				set->entries[i].part = part;
			return;
		}
	place = set->count > DISTINCT_EXACT ? NULL : make_place(set, part);
	if (place != NULL) {
		*place = (struct distinct_entry){ short_hash, part };
		return;
	}
	if (set->count <= DISTINCT_EXACT)
		become_estimate(set, now_ns);
	note_register(set->registers[set->turn % 2], spread(short_hash));
}

/* ln(registers / empty), by sums of 1/n, which are logarithms but for these corrections. */
static double log_of_part(unsigned empty) {
	const double m = DISTINCT_REGISTERS, v = empty;
	double sum = 1 / (2 * v) - 1 / (2 * m) - 1 / (12 * v * v) + 1 / (12 * m * m);

	for (unsigned n = empty + 1; n <= DISTINCT_REGISTERS; n++)
		sum += 1.0 / n;
	return sum;
}

static uint32_t estimate(const struct distinct *set) {
	const double m = DISTINCT_REGISTERS, alpha = 0.7213 / (1 + 1.079 / m);
	double sum = 0, e;
	unsigned empty = 0;

	for (unsigned i = 0; i < DISTINCT_REGISTERS; i++) {
		uint8_t a = set->registers[0][i], b = set->registers[1][i];
		uint8_t rank = a > b ? a : b;

		sum += 1.0 / (double)(UINT64_C(1) << (rank < 63 ? rank : 63));
		empty += rank == 0;
	}
	e = alpha * m * m / sum;
	if (e <= 2.5 * m && empty > 0)
		e = m * log_of_part(empty);
	return e >= UINT32_MAX ? UINT32_MAX : (uint32_t)(e + 0.5);
}

uint32_t distinct_count(const struct distinct *set, uint32_t period_s, int64_t now_ns) {
	uint32_t part = number_at(now_ns, part_ns(period_s)), count = 0;
	struct distinct rolled;

	if (set->period_s != period_s)
		return 0;
	rolled = *set;
	roll(&rolled, now_ns);
	if (rolled.count > DISTINCT_EXACT)
		return estimate(&rolled);
	for (unsigned i = 0; i < rolled.count; i++)
		count += counts(rolled.entries[i].part, part);
	return count;
}
