/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The arithmetic of the segment's layout.
 * MODEL    As few shards as keep locks short (16384 slots each, 8 to 64), each a
 *          little larger than its share, as a hash does not deal evenly (five
 *          standard deviations).  An index line of 15 places serves 13 slots.  Tables
 *          that forget what they cannot hold are dealt out in buckets (tags.h).
 */
#include "segment/geometry.h"

#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "segment/destination/learned.h"
#include "segment/destination/shared.h"
#include "segment/layout_text.inc"

#define SLOTS_PER_SHARD_WANTED	16384
#define SHARDS_MIN		8
#define SLOTS_PER_LINE		13
#define ROOM_OF_BUCKETS		20	/* of so many slots one more */
#define SLOTS_PER_SHARD_MAX	((1u << 20) - 2)
#define PAGE_BYTES		4096
#define DESTINATIONS_PER_RECIPIENT 64
#define RECIPIENTS_LEAST	64
#define RECIPIENTS_MOST		4096
#define DESTINATIONS_PER_REASON	16
#define REASONS_LEAST		32
#define SESSIONS_PER_FLIGHT	8	/* flights.h tells it */
#define FLIGHTS_LEAST		256
#define FLIGHTS_MOST		65536
#define ACCOUNTS_PER_MAIL	4
#define MAILS_LEAST		1024	/* processes of smtpd that have a transaction */
#define MAILS_MOST		65536
#define ACCOUNTS_PER_HEALTH	32	/* as most logins do nothing that is worth a note */
#define HEALTHS_LEAST		256
#define HEALTHS_MOST		32768
#define ACCOUNTS_PER_QUEUED	4
#define QUEUED_LEAST		4096
#define QUEUED_MOST		262144
#define SLOTS_PER_DECISION	8
#define DECISIONS_LEAST		512
#define DECISIONS_MOST		8192
#define DESTINATIONS_PER_SHARED	2	/* shared.h tells it */
#define SHARED_LEAST		64
/* Three for each that a cluster shares at most (engine/cluster/knowledge.h), so that no bucket is full. */
#define SHARED_MOST		32768

/* What the compiler makes of the declarations, whose text stands in LAYOUT_TEXT. */
static const size_t sizes[] = {
	sizeof(struct segment_header), sizeof(struct lock), sizeof(struct session),
	sizeof(struct destination), sizeof(struct account), sizeof(struct decided_slot),
};

uint64_t segment_layout_hash(void) {
	/* only has to differ, not to resist anybody */
	return text_hash(LAYOUT_TEXT, sizes, sizeof(sizes));
}

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
	return (bytes + unit - 1) / unit * unit;
}

static uint32_t square_root(uint64_t value) {
	uint32_t root = 0;

	while ((uint64_t)(root + 1) * (root + 1) <= value)
		root++;
	return root;
}

/* How a table of `wanted` slots is dealt out to shards. */
struct share {
	uint32_t shards;
	uint64_t each;		/* without the room for an uneven deal */
	uint32_t root;		/* of it: one standard deviation */
};

static bool deal_slots(uint64_t wanted, struct share *share) {
	if (wanted == 0 ||
	    wanted > (uint64_t)SEGMENT_SHARDS_MAX * SLOTS_PER_SHARD_MAX)
		return false;
	share->shards = SHARDS_MIN;
	while (share->shards < SEGMENT_SHARDS_MAX &&
	    wanted / share->shards > SLOTS_PER_SHARD_WANTED)
		share->shards *= 2;
	share->each = (wanted + share->shards - 1) / share->shards;
	share->root = square_root(share->each);
	return true;
}

static uint32_t lines_for(uint64_t slots) {
	return (uint32_t)((slots + SLOTS_PER_LINE - 1) / SLOTS_PER_LINE);
}

/* The next part, of so many bytes; *end moves behind it. */
static uint64_t place_bytes(uint64_t *end, uint64_t bytes) {
	uint64_t begin = round_up(*end, PAGE_BYTES);

	*end = begin + bytes;
	return begin;
}

static void place_sessions(struct segment_header *header, uint64_t *end) {
	uint64_t shards = header->shard_count;

	header->shards_offset = place_bytes(end, shards * sizeof(struct shard));
	header->lines_offset = place_bytes(end, shards * header->lines_per_shard *
	    sizeof(struct index_line));
	header->slots_offset = place_bytes(end, shards * header->slots_per_shard *
	    sizeof(struct session_slot));
}

/* A key whose buckets are full has something forgotten: with this room hardly any are before
 * their shard is. */
static void deal_buckets(struct table_place *place, uint64_t each) {
	uint64_t slots = each <= TAG_PLACES ? each : each + each / ROOM_OF_BUCKETS;

	place->buckets_per_shard = (uint32_t)((slots + TAG_PLACES - 1) / TAG_PLACES);
	place->places_per_bucket = (uint32_t)((slots + place->buckets_per_shard - 1) /
	    place->buckets_per_shard);
	place->per_shard = place->buckets_per_shard * place->places_per_bucket;
}

/* False: it cannot have so many. */
static bool place_learned(struct table_place *to, uint64_t wanted, uint64_t slot_bytes,
    uint64_t *end) {
	struct share share;

	if (!deal_slots(wanted, &share) || share.each > SLOTS_PER_SHARD_MAX)
		return false;
	to->shards = share.shards;
	deal_buckets(to, share.each);
	to->shards_offset = place_bytes(end, to->shards * sizeof(struct shard));
	to->tags_offset = place_bytes(end, (uint64_t)to->shards * to->buckets_per_shard *
	    sizeof(struct tag_line));
	to->slots_offset = place_bytes(end, (uint64_t)to->shards * to->per_shard * slot_bytes);
	return true;
}

static uint64_t place_set(const struct table_place *of, uint64_t *end) {
	return place_bytes(end, (uint64_t)of->shards * learned_set_words(of) * 8);
}

static uint64_t within(uint64_t value, uint64_t least, uint64_t most) {
	return value < least ? least : value > most ? most : value;
}

/* A cluster shares a part of the destinations at most. */
static uint32_t buckets_for(uint64_t destination_count) {
	uint64_t wanted = within(destination_count / DESTINATIONS_PER_SHARED, SHARED_LEAST,
	    SHARED_MOST) / SHARED_PLACES;
	uint32_t count = 1;

	while (count < wanted)
		count *= 2;
	return count;
}

static bool place_accounts(struct segment_header *header, uint64_t *end) {
	uint64_t count = header->account_count;

	if (count == 0)
		return true;
	header->pools_offset = place_bytes(end, ACCOUNT_POOLS * sizeof(struct account_pool));
	if (!place_learned(&header->accounts, count, sizeof(struct account), end) ||
	    !place_learned(&header->account_mails, within(count / ACCOUNTS_PER_MAIL,
		MAILS_LEAST, MAILS_MOST), sizeof(struct account_mail), end) ||
	    !place_learned(&header->account_healths, within(count / ACCOUNTS_PER_HEALTH,
		HEALTHS_LEAST, HEALTHS_MOST), sizeof(struct account_health), end) ||
	    !place_learned(&header->account_queued, within(count / ACCOUNTS_PER_QUEUED,
		QUEUED_LEAST, QUEUED_MOST), sizeof(struct account_queued), end))
		return false;
	header->accounts_unkept_offset = place_set(&header->accounts, end);
	return true;
}

/* What stands beside the destinations, the flights, the grants, and what is shared. */
static void place_states(struct segment_header *header, uint64_t *end) {
	const struct table_place *destinations = &header->destinations;
	uint64_t shards = destinations->shards;
	uint32_t each = destinations->per_shard;

	header->states_offset = place_bytes(end, shards * sizeof(struct state_shard));
	for (unsigned i = 0; i < STATE_SETS; i++)
		header->state_sets[i] = place_set(destinations, end);
	header->reasons_per_shard = (uint32_t)within(
	    each / DESTINATIONS_PER_REASON, REASONS_LEAST, each);
	header->reasons_offset = place_bytes(end, shards * header->reasons_per_shard *
	    sizeof(struct reason_text));
	header->flight_count = (uint32_t)within(
	    header->session_count / SESSIONS_PER_FLIGHT, FLIGHTS_LEAST,
	    FLIGHTS_MOST);
	header->flights_offset = place_bytes(end, header->flight_count * sizeof(struct flight));
	header->attempt_lines = header->flight_count;
	header->attempts_offset = place_bytes(end, (uint64_t)header->attempt_lines * ATTEMPT_PLACES *
	    sizeof(struct attempt));
	header->grants_offset = place_bytes(end, sizeof(struct grant_table));
	header->told_offset = place_bytes(end, sizeof(struct told_table));
	header->shared_buckets = buckets_for(header->destination_count);
	header->shared_offset = place_bytes(end, shared_bytes(header->shared_buckets));
}

/* Enough of them for some seconds of a flood, where there is room for one. */
static uint32_t decisions_for(uint64_t slots) {
	uint64_t wanted = within(slots / SLOTS_PER_DECISION, DECISIONS_LEAST,
	    DECISIONS_MOST);
	uint32_t count = DECISIONS_LEAST;

	while (count * UINT64_C(2) <= wanted)
		count *= 2;
	return count;
}

static void place_decisions(struct segment_header *header, uint64_t *end) {
	header->decided_slots[DECIDED_OF_SESSIONS] =
	    decisions_for(header->session_count);
	header->decided_slots[DECIDED_OF_DESTINATIONS] =
	    decisions_for(header->destination_count);
	for (unsigned i = 0; i < DECIDED_RINGS; i++)
		header->decided_offset[i] = place_bytes(end, header->decided_slots[i] *
		    sizeof(struct decided_slot));
}

/* The sizes of shards of sessions, and how many clients are wanted.  The numbers may come from a
 * file that anybody wrote. */
static bool deal_sessions(struct segment_header *header, uint64_t *clients) {
	struct share share;
	uint64_t slots;

	if (!deal_slots(header->session_count, &share))
		return false;
	slots = share.each + 5 * (uint64_t)share.root + 1;
	if (slots > SLOTS_PER_SHARD_MAX)
		return false;
	header->shard_count = share.shards;
	header->slots_per_shard = (uint32_t)slots;
	header->lines_per_shard = lines_for(slots);
	*clients = share.shards * (share.each + 2 * (uint64_t)share.root + 1);
	return true;
}

#define GEOMETRY_AT	offsetof(struct segment_header, record_count)
#define GEOMETRY_END	(offsetof(struct segment_header, accounts_unkept_offset) + sizeof(uint64_t))

bool segment_geometry(struct segment_header *header, uint32_t record_count,
    uint64_t session_count, uint64_t destination_count, uint64_t account_count) {
	uint64_t end = sizeof(struct segment_header), clients;

	memset((char *)header + GEOMETRY_AT, 0, GEOMETRY_END - GEOMETRY_AT);
	header->record_count = record_count;
	header->session_count = session_count;
	header->destination_count = destination_count;
	header->account_count = account_count;
	if (record_count == 0 || record_count > SEGMENT_RECORDS_MAX || 
	    !deal_sessions(header, &clients))
		return false;
	header->records_offset = place_bytes(&end, (uint64_t)record_count * sizeof(struct class_record));
	header->lane_uses_offset = place_bytes(&end, SEGMENT_LANE_USES * sizeof(struct lane_use_slot));
	header->paced_offset = place_bytes(&end, SEGMENT_PACED * sizeof(struct paced_slot));
	header->sources_offset = place_bytes(&end, SEGMENT_SOURCES * sizeof(struct source_slot));
	place_sessions(header, &end);
	if (!place_learned(&header->clients, clients, sizeof(struct client_slot), &end) ||
	    !place_learned(&header->destinations, destination_count, sizeof(struct destination),
		&end) ||
	    !place_learned(&header->relays, destination_count, sizeof(struct relay), &end) ||
	    !place_learned(&header->recipients, within(destination_count /
		DESTINATIONS_PER_RECIPIENT, RECIPIENTS_LEAST, RECIPIENTS_MOST),
		sizeof(struct recipient), &end) ||
	    !place_accounts(header, &end))
		return false;
	place_states(header, &end);
	place_decisions(header, &end);
	header->bytes = round_up(end, PAGE_BYTES);
	return header->bytes < SIZE_MAX;
}

bool segment_geometry_valid(const struct segment_header *header,
    uint64_t file_bytes) {
	struct segment_header right;

	return segment_geometry(&right, header->record_count, header->session_count,
		   header->destination_count, header->account_count) &&
	    memcmp((const char *)header + GEOMETRY_AT, (const char *)&right + GEOMETRY_AT,
		GEOMETRY_END - GEOMETRY_AT) == 0 &&
	    header->bytes == right.bytes && header->bytes == file_bytes;
}
