/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The table of grants.
 * MODEL    A place is in force while its control word says so; it is taken away first and
 *          stored last, with another serial each time, so that a reader knows what changed
 *          while it read.  The keys stand apart, a few cache lines for each look.  The
 *          header names role and incarnation that all of them are of: while the role's
 *          record says the same and its heartbeat is fresh they hold.
 * ERRORS   Whatever is torn, foreign or stale is no grant: the message goes by windows and
 *          classes alone.  Marks are told to whoever has the place by then: a hint at most.
 * THREADS  One writer; any number of askers.
 */
#include "segment/queue/grants.h"

#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "base/text.h"
#include "segment/file/internal.h"

#define PROBES		64u	/* with 5/8 of the places taken all of them are once in 500 */
#define SILENCE_NS	(5 * NS_PER_SECOND)	/* of the role */
#define DOMAIN_MAX	255

/* Bits of a control word; 0 in all: the place is free. */
#define MODE_OF(word)	((unsigned)((word) & 0xff))
#define COUNT_BITS_OF(word) ((unsigned)((word) >> 8 & 0xff))
#define SERIAL_OF(word)	((uint32_t)((word) >> 32))
#define CONTROL(mode, count, serial) \
	((uint64_t)(serial) << 32 | (uint64_t)(count) << 8 | (uint64_t)(mode))
#define SERIAL_ALONE(word) ((word) & ~UINT64_C(0xffffffff))

/* Any role can write another number. */
static unsigned count_of(uint64_t control) {
	unsigned count = COUNT_BITS_OF(control);

	return count < GRANT_DOMAINS ? count : GRANT_DOMAINS;
}

static bool is_only(uint64_t control) {
	return MODE_OF(control) != GRANT_EXCEPT;
}

static struct grant_table *table_of(const struct segment *segment) {
	return (void *)((char *)segment->header + segment->header->grants_offset);
}

/* For whose life they hold: place of the role + 1, and its incarnation; 0: nobody's. */
static uint64_t owner_word(unsigned role, uint32_t incarnation) {
	return (uint64_t)(role + 1) << 32 | incarnation;
}

uint32_t grants_domain(const struct segment *segment, const char *domain, size_t length) {
	char text[DOMAIN_MAX];
	uint32_t hash;

	length = text_bare_host(&domain, length);
	if (length > sizeof(text))
		length = sizeof(text);
	text_lower(text, domain, length);
	hash = (uint32_t)siphash13(&segment->header->key, text, length);
	return hash == 0 ? 1 : hash;
}

static uint64_t key_of(const struct segment *segment, const char *queue_id, size_t length) {
	uint64_t key = siphash13(&segment->header->key, queue_id, length);

	return key == 0 ? 1 : key;
}

/* --- the queue role ------------------------------------------------------------------ */

void grants_begin(struct segment *segment, unsigned role) {
	struct grant_table *table = table_of(segment);
	struct role_record *record = &segment->header->roles[role];

	atomic_store(&table->owner, 0);
	for (uint32_t i = 0; i < GRANT_PLACES; i++) {
		struct grant_place *place = &table->places[i];

		STORE(table->keys[i], 0);
		STORE(place->control, SERIAL_ALONE(RELAXED(place->control)));
	}
	atomic_store(&table->owner, owner_word(role, atomic_load(&record->incarnation)));
}

void grants_scrub(struct segment *segment) {
	atomic_store(&table_of(segment)->owner, 0);
}

bool grants_put(struct segment *segment, const struct grant *grant, struct grant_ref *ref) {
	struct grant_table *table = table_of(segment);
	uint64_t key = key_of(segment, grant->queue_id, grant->queue_id_length);
	uint32_t number = GRANT_PLACES, serial;
	struct grant_place *place;

	*ref = (struct grant_ref){ 0, 0 };
	if (grant->count > GRANT_DOMAINS)
		return false;
	for (uint32_t i = PROBES; i-- > 0;) {
		uint32_t at = (uint32_t)(key + i) % GRANT_PLACES;
		uint64_t there = RELAXED(table->keys[at]);

		if (there == key)
			return false;
		if (there == 0)
			number = at;
	}
	if (number == GRANT_PLACES)
		return false;
	place = &table->places[number];
	serial = SERIAL_OF(RELAXED(place->control)) + 1;
	/* whoever finds one of the new domains finds that the old grant is over, too */
	atomic_thread_fence(memory_order_release);
	for (unsigned i = 0; i < grant->count; i++)
		STORE(place->domains[i], grant->domains[i]);
	STORE(place->run, grant->run);
	STORE(place->once, (uint32_t)grant->once);
	STORE(place->made_s, grant->made_s);
	STORE(place->progress_ns, 0);
	STORE(place->asked, 0);
	STORE(place->connected, 0);
	STORE(place->current, 0);
	STORE(place->deferred_count, 0);
	STORE(place->lasting, 0);
	for (unsigned i = 0; i < GRANT_PUT_OFF; i++)
		STORE(place->deferred[i], 0);
	atomic_store_explicit(&place->control, CONTROL(grant->mode, grant->count, serial),
	    memory_order_release);
	atomic_store_explicit(&table->keys[number], key, memory_order_release);
	*ref = (struct grant_ref){ number + 1, serial };
	return true;
}

/* NULL: it names none. */
static struct grant_place *place_of(const struct segment *segment,
    const struct grant_ref *ref, uint64_t *control) {
	struct grant_place *place;

	if (ref->number == 0 || ref->number > GRANT_PLACES)
		return NULL;
	place = &table_of(segment)->places[ref->number - 1];
	*control = atomic_load_explicit(&place->control, memory_order_acquire);
	return MODE_OF(*control) != 0 && SERIAL_OF(*control) == ref->serial ? place : NULL;
}

bool grants_withdraw(struct segment *segment, const struct grant_ref *ref, uint32_t domain) {
	uint64_t control;
	struct grant_place *place = place_of(segment, ref, &control);
	unsigned count = place == NULL ? 0 : count_of(control);

	if (place == NULL)
		return true;
	for (unsigned i = 0; i < count; i++) {
		if (RELAXED(place->domains[i]) != domain)
			continue;
		if (is_only(control))
			STORE(place->domains[i], 0);
		return true;
	}
	if (is_only(control))
		return true;
	if (count == GRANT_DOMAINS)
		return false;
	STORE(place->domains[count], domain);
	atomic_store_explicit(&place->control,
	    CONTROL(GRANT_EXCEPT, count + 1, ref->serial), memory_order_release);
	return true;
}

void grants_see(const struct segment *segment, const struct grant_ref *ref,
    struct grant_seen *out) {
	uint64_t control;
	const struct grant_place *place = place_of(segment, ref, &control);
	uint32_t count;

	memset(out, 0, sizeof(*out));
	if (place == NULL)
		return;
	out->progress_ns = segment_time_ns(&place->progress_ns);
	out->asked = RELAXED(place->asked);
	out->connected = RELAXED(place->connected);
	out->current = RELAXED(place->current);
	out->is_connected = RELAXED(place->is_connected) != 0;
	count = RELAXED(place->deferred_count);
	for (uint32_t i = 0; i < GRANT_PUT_OFF && i < count; i++) {
		uint32_t domain = RELAXED(place->deferred[i]);

		if (domain == 0)
			continue;
		out->lasting[out->deferred_count] = (RELAXED(place->lasting) >> i & 1) != 0;
		out->deferred[out->deferred_count++] = domain;
	}
}

void grants_remove(struct segment *segment, const struct grant_ref *ref,
    struct grant_seen *out) {
	struct grant_table *table = table_of(segment);
	struct grant_place *place;
	uint64_t control;

	if (out != NULL)
		grants_see(segment, ref, out);
	place = place_of(segment, ref, &control);
	if (place == NULL)
		return;
	STORE(table->keys[ref->number - 1], 0);
	atomic_store_explicit(&place->control, SERIAL_ALONE(control), memory_order_release);
}

/* --- whoever is asked ------------------------------------------------------------------- */

/* Does the role live that they are of? */
static bool in_force(const struct segment *segment, int64_t now_ns) {
	uint64_t owner = atomic_load_explicit(&table_of(segment)->owner, memory_order_acquire);
	uint32_t role = (uint32_t)(owner >> 32);
	const struct role_record *record;

	if (role == 0 || role > SEGMENT_ROLES_MAX)
		return false;
	record = &segment->header->roles[role - 1];
	return (uint32_t)owner != 0 &&
	    RELAXED(record->incarnation) == (uint32_t)owner &&
	    now_ns - segment_time_ns(&record->heartbeat_ns) < SILENCE_NS;
}

/* Is the domain granted there?  False, and *torn: the grant ended meanwhile. */
static bool is_granted(const struct grant_place *place, uint64_t control, uint32_t domain,
    bool *torn) {
	unsigned count = count_of(control);
	bool listed = false;

	for (unsigned i = 0; i < count && !listed; i++)
		listed = RELAXED(place->domains[i]) == domain;
	atomic_thread_fence(memory_order_acquire);
	*torn = SERIAL_OF(RELAXED(place->control)) != SERIAL_OF(control) ||
	    MODE_OF(RELAXED(place->control)) == 0;
	return !*torn && is_only(control) == listed;
}

enum grant_answer grants_ask(const struct segment *segment, const char *queue_id,
    size_t queue_id_length, const char *domain, size_t length, int64_t now_ns,
    struct grant_asked *asked) {
	const struct grant_table *table = table_of(segment);
	uint64_t key;

	*asked = (struct grant_asked){ .domain = 0 };
	if (queue_id_length == 0 || !in_force(segment, now_ns))
		return GRANT_NONE;
	key = key_of(segment, queue_id, queue_id_length);
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t at = (uint32_t)(key + i) % GRANT_PLACES;
		const struct grant_place *place = &table->places[at];
		uint64_t control;
		bool torn, granted;

		if (atomic_load_explicit(&table->keys[at], memory_order_acquire) != key)
			continue;
		control = atomic_load_explicit(&place->control, memory_order_acquire);
		if (MODE_OF(control) == 0)
			return GRANT_NONE;
		asked->domain = grants_domain(segment, domain, length);
		asked->run = RELAXED(place->run);
		asked->once = RELAXED(place->once);
		asked->made_s = RELAXED(place->made_s);
		asked->ref = (struct grant_ref){ at + 1, SERIAL_OF(control) };
		asked->at_last = MODE_OF(control) == GRANT_ONLY_AT_LAST;
		granted = is_granted(place, control, asked->domain, &torn);
		if (torn)
			return GRANT_NONE;
		return granted ? GRANT_GO : GRANT_WAIT;
	}
	return GRANT_NONE;
}

static void mark_deferred(struct grant_place *place, uint32_t domain, bool lasting) {
	uint32_t count = RELAXED(place->deferred_count);

	for (uint32_t i = 0; i < count && i < GRANT_PUT_OFF; i++)
		if (RELAXED(place->deferred[i]) == domain)
			return;
	count = atomic_fetch_add_explicit(&place->deferred_count, 1, memory_order_relaxed);
	if (count >= GRANT_PUT_OFF)
		return;
	if (lasting)
		atomic_fetch_or_explicit(&place->lasting, UINT32_C(1) << count,
		    memory_order_relaxed);
	STORE(place->deferred[count], domain);
}

void grants_mark(struct segment *segment, const struct grant_asked *asked,
    enum grant_mark mark, int64_t now_ns) {
	uint64_t control;
	struct grant_place *place = place_of(segment, &asked->ref, &control);

	if (place == NULL)
		return;
	switch (mark) {
	case GRANT_TURN:
		break;
	case GRANT_ASKED:
		STORE(place->current, asked->domain);
		STORE(place->is_connected, 0);
		atomic_fetch_add_explicit(&place->asked, 1, memory_order_relaxed);
		break;
	case GRANT_HELD:
		atomic_fetch_add_explicit(&place->asked, 1, memory_order_relaxed);
		break;
	case GRANT_DEFERRED:
	case GRANT_DEFERRED_LONG:
		atomic_fetch_add_explicit(&place->asked, 1, memory_order_relaxed);
		mark_deferred(place, asked->domain, mark == GRANT_DEFERRED_LONG);
		break;
	case GRANT_CONNECTED:
		STORE(place->is_connected, 1);
		atomic_fetch_add_explicit(&place->connected, 1, memory_order_relaxed);
		break;
	}
	STORE(place->progress_ns, now_ns);
}
