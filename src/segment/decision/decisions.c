/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The rings of decisions.
 * MODEL    Number n of ring r has the id 2n + r and lies at place n modulo the size.  A
 *          writer takes the id away, stores the words, then the id.  A reader that sees the
 *          same id before and behind its copy, and whose check sum is right, has a whole one.
 * ERRORS   What was overwritten, or is half of one and half of another, is not found.
 * THREADS  Any, of any process.
 */
#include "segment/decision/decisions.h"

#include <string.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "policy/limit/decision.h"
#include "policy/reply/reply.h"
#include "segment/file/internal.h"
#include "segment/file/stir.h"

#define FIXED_BYTES	(offsetof(struct decided, texts))
#define HOLE_NS		NS_PER_SECOND
#define TIME_MOST	(INT64_MAX / 4)
#define NUMBER_MOST	1e12f

_Static_assert(sizeof(struct decided) == DECIDED_WORDS * 8, "whole words");
_Static_assert(FIXED_BYTES == 120, "no gaps");
_Static_assert(offsetof(struct decided, id) == 0, "the first word");
_Static_assert(REASON_COUNT < DECIDED_NO_REASON, "one byte");
_Static_assert(DECIDED_TEXTS < 32, "a small number");

static const struct {
	const char *word, *meaning;
	enum decided_ring ring;
} kinds[DECIDED_KINDS] = {
#define DECIDED(symbol, word, ring, text) \
	[DECIDED_##symbol] = { word, text, DECIDED_OF_##ring },
#include "defs/decisions.def"
#undef DECIDED
};

const char *decided_word(unsigned kind) {
	return kind < DECIDED_KINDS ? kinds[kind].word : "unknown";
}

const char *decided_meaning(unsigned kind) {
	return kind < DECIDED_KINDS ? kinds[kind].meaning : "";
}

enum decided_ring decided_ring_of(enum decided_kind kind) {
	return kinds[kind].ring;
}

bool decided_is_of_sessions(const struct decided *decided) {
	return kinds[decided->kind].ring == DECIDED_OF_SESSIONS;
}

bool decided_is_of_client(const struct decided *decided) {
	return decided_is_of_sessions(decided) && (decided->flags & DECIDED_OUTBOUND) == 0;
}

bool decided_is_change(const struct decided *decided) {
	return decided->kind == DECIDED_SUSPENDED || decided->kind == DECIDED_BACK ||
	    decided->kind == DECIDED_BY_HAND || decided->kind == DECIDED_ALERT;
}

static const struct reason_words {
	const char *word, *text;
} reasons[REASON_COUNT] = {
#define REASON(symbol, word, text) [REASON_##symbol] = { word, text },
#include "defs/reasons.def"
#undef REASON
}, leases[LEASE_COUNT] = {
#define LEASE(symbol, word, text) [LEASE_##symbol] = { word, text },
#include "defs/leases.def"
#undef LEASE
};

const char *decided_reason_word(unsigned reason) {
	return reason < REASON_COUNT ? reasons[reason].word : NULL;
}

const char *decided_reason_text(unsigned reason) {
	return reason < REASON_COUNT ? reasons[reason].text : "";
}

const char *lease_word(unsigned lease) {
	return lease != LEASE_NONE && lease < LEASE_COUNT ? leases[lease].word : "-";
}

const char *lease_text(const char *word) {
	for (unsigned i = 0; word != NULL && i < LEASE_COUNT; i++)
		if (leases[i].word != NULL && strcmp(leases[i].word, word) == 0)
			return leases[i].text;
	return NULL;
}

static const struct reason_words *lease_of(const struct decided *d) {
	bool shared = d->reason == REASON_CLASS_SHARE && d->by < LEASE_COUNT &&
	    decided_is_of_sessions(d);

	return &leases[shared ? d->by : LEASE_NONE];
}

const char *decided_lease_word(const struct decided *decided) {
	return lease_of(decided)->word;
}

const char *decided_lease_meaning(const struct decided *decided) {
	return lease_of(decided)->text;
}

const char *decided_stage_word(unsigned stage) {
	static const char *const words[DECIDED_STAGES] = {
		[DECIDED_AT_CONNECT] = "connect",
		[DECIDED_AT_RECIPIENT] = "recipient",
		[DECIDED_BEFORE_CONNECT] = "before-connect",
		[DECIDED_CONNECTED] = "connected",
		[DECIDED_IN_QUEUE] = "queue",
		[DECIDED_BY_RESULT] = "result",
		[DECIDED_BY_TIME] = "time",
		[DECIDED_BY_COMMAND] = "command",
		[DECIDED_BY_NODE] = "node",
	};

	return stage < DECIDED_STAGES ? words[stage] : "unknown";
}

const char *decided_by_word(unsigned by) {
	static const char *const words[] = {
		[DECIDED_BY_COHORTS] = "cohorts", [DECIDED_BY_RULE] = "rule",
		[DECIDED_BY_HAND_OF] = "hand", [DECIDED_BY_OTHERS] = "node",
	};

	return by < sizeof(words) / sizeof(words[0]) ? words[by] : NULL;
}

/* --- texts: which one (a byte), its length (a byte), the text, a NUL ------------- */

#define TEXT_HEAD	2
#define CUT_MARK	"..."
#define CUT_LEAST	12

/* Commands are made of these. */
static bool is_whole_or_none(enum decided_text which) {
	return which == DECIDED_CLASS || which == DECIDED_WINDOW_OF ||
	    which == DECIDED_RECIPIENT || which == DECIDED_NODE || which == DECIDED_ORIGIN;
}

/* Where a text of `length` is cut so that the mark fits behind it and no character is halved. */
static size_t cut_at(const char *text, size_t room) {
	size_t at = room - (sizeof(CUT_MARK) - 1);

	while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
		at--;
	return at;
}

/* Returns the length of what was taken, which is the last of the texts then. */
static size_t text_put(struct decided *decided, enum decided_text which, const char *text,
    size_t length) {
	size_t used = decided->text_bytes, room = DECIDED_TEXT_BYTES - used, kept = length;
	char *to = decided->texts + used;

	if (length == 0 || room <= TEXT_HEAD + 1)
		return 0;
	room -= TEXT_HEAD + 1;
	if (room > UINT8_MAX)
		room = UINT8_MAX;
	if (length > room) {
		/* a few letters of it say nothing */
		if (is_whole_or_none(which) || room < CUT_LEAST)
			return 0;
		kept = cut_at(text, room);
		length = kept + sizeof(CUT_MARK) - 1;
		memcpy(to + TEXT_HEAD + kept, CUT_MARK, sizeof(CUT_MARK) - 1);
	}
	to[0] = (char)which;
	to[1] = (char)(unsigned char)length;
	memcpy(to + TEXT_HEAD, text, kept);
	to[TEXT_HEAD + length] = '\0';
	decided->text_bytes = (uint16_t)(used + TEXT_HEAD + length + 1);
	return length;
}

void decided_put(struct decided *decided, enum decided_text which, const char *text,
    size_t length) {
	char *taken = decided->texts + decided->text_bytes + TEXT_HEAD, *nul;

	if (text == NULL)
		return;
	length = text_put(decided, which, text, length);
	while (length > 0 && (nul = memchr(taken, '\0', length)) != NULL)
		*nul = '?';
}

void decided_put_string(struct decided *decided, enum decided_text which, const char *text) {
	(void)text_put(decided, which, text, strlen(text));
}

const char *decided_text(const struct decided *decided, enum decided_text which) {
	size_t at = 0;

	while (at + TEXT_HEAD < decided->text_bytes) {
		const char *text = decided->texts + at;

		if (text[0] == (char)which)
			return text + TEXT_HEAD;
		at += TEXT_HEAD + (size_t)(unsigned char)text[1] + 1;
	}
	return "";
}

static bool texts_are_sound(const struct decided *decided) {
	size_t at = 0, end = decided->text_bytes;

	if (end > DECIDED_TEXT_BYTES)
		return false;
	while (at < end) {
		const char *text = decided->texts + at;
		size_t length;

		if (end - at <= TEXT_HEAD)
			return false;
		length = (unsigned char)text[1];
		if (end - at < TEXT_HEAD + length + 1 || text[TEXT_HEAD + length] != '\0' ||
		    memchr(text + TEXT_HEAD, '\0', length) != NULL)
			return false;
		at += TEXT_HEAD + length + 1;
	}
	return true;
}

static bool is_sane(float number) {
	return number >= -NUMBER_MOST && number <= NUMBER_MOST;
}

/* Sums and differences of such do not overflow. */
static bool numbers_are_sound(const struct decided *decided) {
	return decided->at_ns >= 0 && decided->at_ns <= TIME_MOST && decided->until_ns >= 0 &&
	    (decided->until_ns <= TIME_MOST || decided->until_ns == INT64_MAX) &&
	    is_sane(decided->success) && is_sane(decided->failure) &&
	    is_sane(decided->fail_cohorts);
}

bool decided_is_sound(const struct decided *decided) {
	return decided->kind < DECIDED_KINDS &&
	    (decided->id & 1) == (uint64_t)kinds[decided->kind].ring &&
	    (decided->reason < REASON_COUNT || decided->reason == DECIDED_NO_REASON) &&
	    decided->verdict <= VERDICT_DISCARD && decided->stage < DECIDED_STAGES &&
	    decided->result < RESULT_CLASS_COUNT && numbers_are_sound(decided) &&
	    texts_are_sound(decided);
}

/* --- places ---------------------------------------------------------------------- */

uint32_t decisions_size(const struct segment *segment, enum decided_ring ring) {
	return segment->header->decided_slots[ring];
}

static struct decided_slot *slot_at(const struct segment *segment, uint64_t id) {
	struct segment_header *header = segment->header;
	enum decided_ring ring = (enum decided_ring)(id % DECIDED_RINGS);
	uint64_t number = id / DECIDED_RINGS;

	return (struct decided_slot *)(void *)((char *)header + header->decided_offset[ring]) +
	    (number & (header->decided_slots[ring] - 1));
}

static unsigned words_of(const struct decided *decided) {
	return (unsigned)((FIXED_BYTES + decided->text_bytes + 7) / 8);
}

static uint64_t check_add(uint64_t sum, uint64_t word, unsigned number) {
	return ((sum << 7 | sum >> 57) ^ word) + number;
}

/* Rotated, so that words which changed places are seen; three at a time, as each waits
 * for the one before. */
static uint64_t check_of(const uint64_t *words, unsigned count) {
	uint64_t a = UINT64_C(0x9e3779b97f4a7c15), b = count, c = 1;
	unsigned i = 0;

	for (; i + 3 <= count; i += 3) {
		a = check_add(a, words[i], i);
		b = check_add(b, words[i + 1], i + 1);
		c = check_add(c, words[i + 2], i + 2);
	}
	if (i < count)
		a = check_add(a, words[i], i);
	if (i + 1 < count)
		b = check_add(b, words[i + 1], i + 1);
	return a ^ (b << 21 | b >> 43) ^ (c << 42 | c >> 22);
}

/* --- writing -------------------------------------------------------------------- */

uint64_t decisions_claim(struct segment *segment, enum decided_ring ring) {
	uint64_t number = 1 + atomic_fetch_add_explicit(
	    &segment->header->decided_next[ring].number, 1, memory_order_relaxed);

	return number * DECIDED_RINGS + ring;
}

/* It was used as long ago as the ring is large.  Few texts reach to the fifth line. */
static void prefetch_to_write(const struct decided_slot *slot) {
	for (unsigned i = 0; i < 4 * CACHE_LINE / sizeof(slot->words[0]);
	     i += CACHE_LINE / sizeof(slot->words[0]))
		__builtin_prefetch(&slot->words[i], 1);
	__builtin_prefetch(&slot->check, 1);
}

void decisions_write(struct segment *segment, const struct decided *decided) {
	struct decided_slot *slot = slot_at(segment, decided->id);
	uint64_t words[DECIDED_WORDS];
	unsigned count = words_of(decided);

	words[count - 1] = 0;
	memcpy(words, decided, FIXED_BYTES + decided->text_bytes);
	STORE(slot->words[0], 0);
	atomic_thread_fence(memory_order_release);
	FAILPOINT();
	for (unsigned i = 1; i < count; i++) {
		STORE(slot->words[i], words[i]);
		FAILPOINT();
	}
	STORE(slot->check, check_of(words, count));
	FAILPOINT();
	atomic_store_explicit(&slot->words[0], decided->id, memory_order_release);
	FAILPOINT();
	segment_stir(segment->header);
	prefetch_to_write(slot_at(segment, decided->id + DECIDED_RINGS));
}

void decisions_mark_logged(struct segment *segment, uint64_t id) {
	if (id != 0)
		STORE(slot_at(segment, id)->marks, id);
}

void decisions_begin_after(struct segment *segment, uint64_t id) {
	for (unsigned ring = 0; ring < DECIDED_RINGS; ring++) {
		_Atomic uint64_t *next = &segment->header->decided_next[ring].number;
		uint64_t number = RELAXED(*next), least = id / DECIDED_RINGS + 1;

		while (number < least && !atomic_compare_exchange_weak(next, &number, least))
			;
	}
}

/* --- reading -------------------------------------------------------------------- */

static bool slot_copy(const struct decided_slot *slot, uint64_t id, struct decided *out,
    bool *logged) {
	uint64_t words[DECIDED_WORDS], check;
	uint64_t before = atomic_load_explicit(&slot->words[0], memory_order_acquire);

	if (before != id)
		return false;
	words[0] = before;
	for (unsigned i = 1; i < DECIDED_WORDS; i++)
		words[i] = RELAXED(slot->words[i]);
	check = RELAXED(slot->check);
	if (logged != NULL)
		*logged = RELAXED(slot->marks) == id;
	atomic_thread_fence(memory_order_acquire);
	if (RELAXED(slot->words[0]) != before)
		return false;
	memcpy(out, words, sizeof(*out));
	if (!decided_is_sound(out) || check_of(words, words_of(out)) != check)
		return false;
	memset(out->texts + out->text_bytes, 0, DECIDED_TEXT_BYTES - out->text_bytes);
	return true;
}

bool decisions_find(const struct segment *segment, uint64_t id, struct decided *out) {
	return id != 0 && slot_copy(slot_at(segment, id), id, out, NULL);
}

/* Where a follower goes on: past what was overwritten, and not behind the end. */
static void cursor_settle(struct decisions_cursor *cursor, uint64_t end, uint32_t slots,
    uint64_t *lost) {
	uint64_t oldest = end > slots ? end - slots : 0;

	if (!cursor->begun || cursor->next > end) {
		cursor->next = oldest;
		cursor->old = end;
		cursor->begun = true;
		cursor->hole_ns = 0;
	}
	if (cursor->next < oldest) {
		*lost += oldest - cursor->next;
		cursor->next = oldest;
		cursor->hole_ns = 0;
	}
}

/* Is the place still that of an earlier one?  Then it will be written, or its writer died. */
static bool is_awaited(const struct decided_slot *slot, uint64_t id) {
	uint64_t stands = atomic_load_explicit(&slot->words[0], memory_order_acquire);

	return stands < id;
}

bool decisions_next(const struct segment *segment, enum decided_ring ring,
    struct decisions_cursor *cursor, int64_t now_ns, struct decided *out, bool *logged,
    uint64_t *lost) {
	uint32_t slots = decisions_size(segment, ring);

	/* a busy writer must not keep us for ever */
	for (uint32_t looked = 0; looked <= slots; looked++) {
		uint64_t end = atomic_load_explicit(
		    &segment->header->decided_next[ring].number, memory_order_acquire), id;
		const struct decided_slot *slot;
		bool old, awaited;

		cursor_settle(cursor, end, slots, lost);
		if (cursor->next >= end)
			return false;
		id = (cursor->next + 1) * DECIDED_RINGS + ring;
		slot = slot_at(segment, id);
		/* before it is copied: it may be written in between */
		awaited = is_awaited(slot, id);
		if (slot_copy(slot, id, out, logged)) {
			cursor->next++;
			cursor->hole_ns = 0;
			return true;
		}
		/* what was not there at the begin never will be */
		old = cursor->next < cursor->old;
		if (!old && awaited) {
			if (cursor->hole_ns == 0)
				cursor->hole_ns = now_ns;
			if (now_ns - cursor->hole_ns < HOLE_NS)
				return false;
		}
		/* a number whose writer was killed stands for no decision */
		*lost += !old && !awaited;
		cursor->next++;
		cursor->hole_ns = 0;
	}
	return false;
}
