/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Takes tokens of paces.
 * MODEL    A bucket for each pace in this process's memory, as it was left or as the file counts
 *          it where this process begins; the file's own time goes before both.  A pass lets one
 *          message go, whose token was taken before: it is known by the bits of its addresses.
 * ERRORS   None: what makes no sense keeps nothing back.
 * THREADS  One.
 */
#include "segment/hints/hints_reader_internal.h"

#include <stdlib.h>
#include <string.h>

#define INTERVAL_MOST_NS	(INT64_C(86400) * NS_PER_SECOND)
#define BURST_MOST	1000
/* A message that was counted so long ago is the last one that was taken. */
#define SETTLED_NS	(10 * NS_PER_SECOND)
/* All addresses of one message are asked for within that. */
#define MESSAGE_NS	(100 * NS_PER_MS)

uint64_t hints_pass_bits(const struct siphash_key *key, const char *address, size_t length) {
	uint64_t hash = siphash13(key, address, length);

	return UINT64_C(1) << (uint32_t)hash % HINTS_PASS_BITS |
	    UINT64_C(1) << (uint32_t)(hash >> 32) % HINTS_PASS_BITS;
}

uint64_t hints_pass_add(const struct siphash_key *key, uint64_t word, const char *address,
    size_t length) {
	uint64_t bits = hints_pass_bits(key, address, length), count = word >> HINTS_PASS_BITS;

	if ((word & bits) == bits)
		return word;
	/* of many, some have no bits of their own */
	count = count < HINTS_PASS_EXACT ? count + 1 : HINTS_PASS_MANY;
	return count << HINTS_PASS_BITS | (word & HINTS_PASS_MASK) | bits;
}

static uint32_t find_pass(const struct hints_reader *reader, const struct hints_pace *pace,
    const struct pace_taken *taken, uint64_t bits) {
	for (uint32_t i = 0; i < HINTS_PASSES; i++) {
		int64_t issued_ns = atomic_load_explicit(&pace->passes[i].issued_ns,
		    memory_order_acquire);
		uint64_t word = RELAXED(pace->passes[i].word);
		bool begun = taken->passes[i].issued_ns == issued_ns;

		atomic_thread_fence(memory_order_acquire);
		if ((word & bits) != bits || RELAXED(pace->passes[i].issued_ns) != issued_ns ||
		    issued_ns <= 0 || reader->now_ns < issued_ns - NS_PER_SECOND ||
		    reader->now_ns - issued_ns >= HINTS_PASS_NS)
			continue;
		if (!begun || (word >> HINTS_PASS_BITS == HINTS_PASS_MANY ?
			reader->now_ns - taken->passes[i].first_ns < MESSAGE_NS :
			taken->passes[i].used < word >> HINTS_PASS_BITS))
			return i;
	}
	return HINTS_PASSES;
}

/* The bucket as it is met first. */
static void begin(const struct hints_reader *reader, const struct hints_pace *pace,
    struct pace_taken *taken, uint32_t stamp, int64_t interval_ns, int64_t kept_ns) {
	int64_t counted_ns = RELAXED(pace->counted_ns);

	memset(taken, 0, sizeof(*taken));
	taken->stamp = stamp;
	taken->until_ns = counted_ns;
	/* the process before us may have taken some that had no result yet: one is left */
	if (counted_ns > 0 && reader->now_ns < clock_bounded_ns(counted_ns) - interval_ns + SETTLED_NS &&
	    taken->until_ns < reader->now_ns + kept_ns)
		taken->until_ns = reader->now_ns + kept_ns;
}

/* Is it the question about the address before without its extension? */
static bool is_asked_again(const struct hints_reader *reader, const char *address, size_t length) {
	const char *at = memrchr(address, '@', length), *before = reader->paced;
	size_t local = (size_t)(at - address), more;

	if (reader->paced_length <= length || reader->now_ns - reader->paced_ns >= MESSAGE_NS)
		return false;
	more = reader->paced_length - length;
	return (before[local] == '+' || before[local] == '-') &&
	    memcmp(before, address, local) == 0 &&
	    memcmp(before + local + more, at, length - local) == 0 &&
	    memchr(before + local, '@', more) == NULL;
}

/* NULL: it keeps nothing back.  *kept_ns: the burst after the first message, in time. */
static const struct hints_pace *find_pace(const struct hints_reader *reader, uint32_t number,
    int64_t *interval_ns, int64_t *kept_ns) {
	const struct hints_pace *pace = (const void *)((const char *)reader->live +
	    reader->header.paces_offset);
	uint32_t burst;

	if (number >= reader->header.pace_count)
		return NULL;
	pace += number;
	burst = RELAXED(pace->burst);
	*interval_ns = RELAXED(pace->interval_ns);
	if (*interval_ns <= 0 || *interval_ns > INTERVAL_MOST_NS || burst == 0 ||
	    burst > BURST_MOST)
		return NULL;
	*kept_ns = (burst - 1) * *interval_ns;
	return pace;
}

/* Its bucket; NULL: no memory. */
static struct pace_taken *find_taken(struct hints_reader *reader, const struct hints_pace *pace,
    uint32_t number, int64_t interval_ns, int64_t kept_ns) {
	uint32_t stamp = atomic_load_explicit(&pace->text.stamp, memory_order_acquire) | 1;
	struct pace_taken *taken;

	if (reader->taken == NULL)
		reader->taken = calloc(reader->header.pace_count, sizeof(*reader->taken));
	if (reader->taken == NULL)
		return NULL;
	taken = &reader->taken[number];
	if (taken->stamp != stamp)
		begin(reader, pace, taken, stamp, interval_ns, kept_ns);
	return taken;
}

/* False: there is none. */
static bool find_token(const struct hints_reader *reader, const struct hints_pace *pace,
    int64_t interval_ns, int64_t kept_ns, struct pace_token *token) {
	int64_t until_ns = token->from->until_ns, strict_ns = RELAXED(pace->taken_ns);

	if (until_ns < strict_ns)
		until_ns = strict_ns;
	/* neither another pace nor a wrong time keeps all back for longer than an empty bucket */
	if (until_ns > reader->now_ns + kept_ns + interval_ns)
		until_ns = reader->now_ns + kept_ns + interval_ns;
	if (RELAXED(pace->waits) != 0 || until_ns - reader->now_ns > kept_ns)
		return false;
	token->pass = HINTS_PASSES;
	token->until_ns = (until_ns > reader->now_ns ? until_ns : reader->now_ns) + interval_ns;
	return true;
}

bool hints_reader_may_go(struct hints_reader *reader, uint32_t number, const char *address,
    size_t length, struct pace_token *token, char text[HINTS_TEXT_MAX + 1]) {
	bool is_again = is_asked_again(reader, address, length);
	int64_t interval_ns = 0, kept_ns = 0;
	const struct hints_pace *pace = find_pace(reader, number, &interval_ns, &kept_ns);
	uint64_t bits;

	*token = (struct pace_token){ .from = NULL };
	reader->paced_length = 0;
	if (pace != NULL && !is_again)
		token->from = find_taken(reader, pace, number, interval_ns, kept_ns);
	if (token->from == NULL)
		return true;
	memcpy(reader->paced, address, length);
	token->length = length;
	bits = hints_pass_bits(&reader->header.pass_key, address, length);
	token->pass = find_pass(reader, pace, token->from, bits);
	if (token->pass < HINTS_PASSES) {
		token->until_ns = RELAXED(pace->passes[token->pass].issued_ns);
		return true;
	}
	/* without a text nobody could tell why */
	return find_token(reader, pace, interval_ns, kept_ns, token) ||
	    !hints_reader_text(&pace->text, text);
}

void hints_reader_take(struct hints_reader *reader, const struct pace_token *token) {
	struct pace_taken *taken = token->from;

	if (taken == NULL)
		return;
	reader->paced_length = token->length;
	reader->paced_ns = reader->now_ns;
	if (token->pass == HINTS_PASSES) {
		taken->until_ns = token->until_ns;
		return;
	}
	if (taken->passes[token->pass].issued_ns != token->until_ns) {
		taken->passes[token->pass].issued_ns = token->until_ns;
		taken->passes[token->pass].first_ns = reader->now_ns;
		taken->passes[token->pass].used = 0;
	}
	taken->passes[token->pass].used++;
}
