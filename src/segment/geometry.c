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
	/* FNV-1a over words: only has to differ, not to resist anybody */
	uint64_t hash = (UINT64_C(0xcbf29ce484222325) ^ LAYOUT_TEXT) * UINT64_C(0x100000001b3);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		hash = (hash ^ sizes[i]) * UINT64_C(0x100000001b3);
	return hash;
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

static bool deal(uint64_t wanted, struct share *share) {
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

static uint64_t place_sessions(struct segment_header *header,
    const struct share *share, uint64_t offset) {
	uint64_t shards = share->shards;

	header->shards_offset = offset;
	offset += 2 * shards * sizeof(struct shard);
	header->lines_offset = offset;
	offset += shards * header->lines_per_shard * sizeof(struct index_line);
	header->slots_offset = offset;
	offset = round_up(offset + shards * header->slots_per_shard *
	    sizeof(struct session_slot), sizeof(struct index_line));
	header->client_lines_offset = offset;
	offset += shards * header->client_lines_per_shard *
	    sizeof(struct index_line);
	header->clients_offset = offset;
	return offset + shards * header->clients_per_shard *
	    sizeof(struct client_slot);
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

static uint64_t place_learned(struct table_place *place, const struct share *share,
    uint64_t slot_bytes, uint64_t offset) {
	place->shards = share->shards;
	deal_buckets(place, share->each);
	offset = round_up(offset, PAGE_BYTES);
	place->shards_offset = offset;
	offset += place->shards * sizeof(struct shard);
	place->tags_offset = offset;
	offset += (uint64_t)place->shards * place->buckets_per_shard *
	    sizeof(struct tag_line);
	offset = round_up(offset, PAGE_BYTES);
	place->slots_offset = offset;
	return offset + (uint64_t)place->shards * place->per_shard * slot_bytes;
}

static uint64_t within(uint64_t value, uint64_t least, uint64_t most) {
	return value < least ? least : value > most ? most : value;
}

static bool deal_recipients(uint64_t destination_count, struct share *share) {
	return deal(within(destination_count / DESTINATIONS_PER_RECIPIENT,
	    RECIPIENTS_LEAST, RECIPIENTS_MOST), share);
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

static bool place_accounts(struct segment_header *header, uint64_t account_count,
    uint64_t *offset) {
	struct share accounts, mails, healths, queued;

	header->account_count = account_count;
	memset(&header->accounts, 0, sizeof(header->accounts));
	memset(&header->account_mails, 0, sizeof(header->account_mails));
	memset(&header->account_healths, 0, sizeof(header->account_healths));
	memset(&header->account_queued, 0, sizeof(header->account_queued));
	header->pools_offset = header->accounts_unkept_offset = header->account_words = 0;
	if (account_count == 0)
		return true;
	if (!deal(account_count, &accounts) || accounts.each > SLOTS_PER_SHARD_MAX ||
	    !deal(within(account_count / ACCOUNTS_PER_MAIL, MAILS_LEAST, MAILS_MOST), &mails) ||
	    !deal(within(account_count / ACCOUNTS_PER_HEALTH, HEALTHS_LEAST, HEALTHS_MOST),
		&healths) ||
	    !deal(within(account_count / ACCOUNTS_PER_QUEUED, QUEUED_LEAST, QUEUED_MOST),
		&queued))
		return false;
	*offset = place_learned(&header->accounts, &accounts, sizeof(struct account), *offset);
	*offset = place_learned(&header->account_mails, &mails, sizeof(struct account_mail),
	    *offset);
	header->pools_offset = *offset = round_up(*offset, PAGE_BYTES);
	*offset += ACCOUNT_POOLS * sizeof(struct account_pool);
	header->account_words = (header->accounts.per_shard + 63) / 64;
	header->accounts_unkept_offset = *offset;
	*offset += header->accounts.shards * header->account_words * 8;
	*offset = place_learned(&header->account_healths, &healths,
	    sizeof(struct account_health), *offset);
	*offset = place_learned(&header->account_queued, &queued, sizeof(struct account_queued),
	    *offset);
	return true;
}

/* What stands beside the destinations, the flights, the grants, and what is shared. */
static uint64_t place_states(struct segment_header *header, uint64_t offset) {
	uint64_t shards = header->destinations.shards;
	uint32_t each = header->destinations.per_shard;

	header->states_offset = offset = round_up(offset, PAGE_BYTES);
	offset += shards * sizeof(struct state_shard);
	header->bits_per_shard = (each + 63) / 64;
	header->changed_offset = offset;
	offset += shards * header->bits_per_shard * 8;
	header->timed_offset = offset;
	offset += shards * header->bits_per_shard * 8;
	header->unkept_offset = offset;
	offset += shards * header->bits_per_shard * 8;
	header->unshared_offset = offset;
	offset += shards * header->bits_per_shard * 8;
	header->reasons_per_shard = (uint32_t)within(
	    each / DESTINATIONS_PER_REASON, REASONS_LEAST, each);
	header->reasons_offset = offset = round_up(offset, PAGE_BYTES);
	offset += shards * header->reasons_per_shard * sizeof(struct reason_text);
	header->flight_count = (uint32_t)within(
	    header->session_count / SESSIONS_PER_FLIGHT, FLIGHTS_LEAST,
	    FLIGHTS_MOST);
	header->flights_offset = offset = round_up(offset, PAGE_BYTES);
	offset += header->flight_count * sizeof(struct flight);
	header->attempt_lines = header->flight_count;
	header->attempts_offset = offset;
	offset += (uint64_t)header->attempt_lines * ATTEMPT_PLACES *
	    sizeof(struct attempt);
	header->grants_offset = offset = round_up(offset, PAGE_BYTES);
	offset += sizeof(struct grant_table);
	header->told_offset = offset = round_up(offset, PAGE_BYTES);
	offset += sizeof(struct told_table);
	header->shared_buckets = buckets_for(header->destination_count);
	header->shared_offset = offset = round_up(offset, PAGE_BYTES);
	return offset + shared_bytes(header->shared_buckets);
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

static uint64_t place_decisions(struct segment_header *header, uint64_t offset) {
	header->decided_slots[DECIDED_OF_SESSIONS] =
	    decisions_for(header->session_count);
	header->decided_slots[DECIDED_OF_DESTINATIONS] =
	    decisions_for(header->destination_count);
	for (unsigned i = 0; i < DECIDED_RINGS; i++) {
		header->decided_offset[i] = offset = round_up(offset, PAGE_BYTES);
		offset += header->decided_slots[i] * sizeof(struct decided_slot);
	}
	return offset;
}

bool segment_geometry(struct segment_header *header, uint32_t record_count,
    uint64_t session_count, uint64_t destination_count, uint64_t account_count) {
	struct share sessions, learned, recipients;
	uint64_t slots, clients, offset;

	/* the numbers may come from a file that anybody wrote */
	if (record_count == 0 || record_count > SEGMENT_RECORDS_MAX ||
	    !deal(session_count, &sessions) ||
	    !deal(destination_count, &learned) ||
	    !deal_recipients(destination_count, &recipients))
		return false;
	slots = sessions.each + 5 * (uint64_t)sessions.root + 1;
	clients = sessions.each + 2 * (uint64_t)sessions.root + 1;
	if (slots > SLOTS_PER_SHARD_MAX || learned.each > SLOTS_PER_SHARD_MAX)
		return false;

	header->record_count = record_count;
	header->shard_count = sessions.shards;
	header->slots_per_shard = (uint32_t)slots;
	header->lines_per_shard = lines_for(slots);
	header->clients_per_shard = (uint32_t)clients;
	header->client_lines_per_shard = lines_for(clients);
	header->session_count = session_count;
	header->destination_count = destination_count;

	offset = round_up(sizeof(struct segment_header), PAGE_BYTES);
	header->records_offset = offset;
	offset += (uint64_t)record_count * sizeof(struct class_record);
	header->lane_uses_offset = round_up(offset, PAGE_BYTES);
	offset = header->lane_uses_offset +
	    SEGMENT_LANE_USES * sizeof(struct lane_use_slot);
	offset = place_sessions(header, &sessions, offset);
	offset = place_learned(&header->destinations, &learned,
	    sizeof(struct destination), offset);
	offset = place_learned(&header->relays, &learned, sizeof(struct relay),
	    offset);
	offset = place_learned(&header->recipients, &recipients,
	    sizeof(struct recipient), offset);
	if (!place_accounts(header, account_count, &offset))
		return false;
	offset = place_states(header, offset);
	offset = place_decisions(header, offset);
	header->bytes = round_up(offset, PAGE_BYTES);
	return header->bytes < SIZE_MAX;
}

static bool same_place(const struct table_place *a, const struct table_place *b) {
	return a->shards_offset == b->shards_offset &&
	    a->tags_offset == b->tags_offset &&
	    a->slots_offset == b->slots_offset && a->shards == b->shards &&
	    a->per_shard == b->per_shard &&
	    a->buckets_per_shard == b->buckets_per_shard &&
	    a->places_per_bucket == b->places_per_bucket;
}

bool segment_geometry_valid(const struct segment_header *header,
    uint64_t file_bytes) {
	struct segment_header right;

	memset(&right, 0, sizeof(right));
	return segment_geometry(&right, header->record_count,
		   header->session_count, header->destination_count, header->account_count) &&
	    header->shard_count == right.shard_count &&
	    header->slots_per_shard == right.slots_per_shard &&
	    header->lines_per_shard == right.lines_per_shard &&
	    header->clients_per_shard == right.clients_per_shard &&
	    header->client_lines_per_shard == right.client_lines_per_shard &&
	    header->records_offset == right.records_offset &&
	    header->shards_offset == right.shards_offset &&
	    header->lines_offset == right.lines_offset &&
	    header->slots_offset == right.slots_offset &&
	    header->client_lines_offset == right.client_lines_offset &&
	    header->clients_offset == right.clients_offset &&
	    same_place(&header->destinations, &right.destinations) &&
	    same_place(&header->relays, &right.relays) &&
	    header->lane_uses_offset == right.lane_uses_offset &&
	    same_place(&header->recipients, &right.recipients) &&
	    same_place(&header->accounts, &right.accounts) &&
	    same_place(&header->account_mails, &right.account_mails) &&
	    same_place(&header->account_healths, &right.account_healths) &&
	    same_place(&header->account_queued, &right.account_queued) &&
	    header->pools_offset == right.pools_offset &&
	    header->accounts_unkept_offset == right.accounts_unkept_offset &&
	    header->account_words == right.account_words &&
	    header->states_offset == right.states_offset &&
	    header->changed_offset == right.changed_offset &&
	    header->timed_offset == right.timed_offset &&
	    header->unkept_offset == right.unkept_offset &&
	    header->reasons_offset == right.reasons_offset &&
	    header->flights_offset == right.flights_offset &&
	    header->attempts_offset == right.attempts_offset &&
	    header->grants_offset == right.grants_offset &&
	    header->told_offset == right.told_offset &&
	    header->unshared_offset == right.unshared_offset &&
	    header->shared_offset == right.shared_offset &&
	    header->shared_buckets == right.shared_buckets &&
	    header->bits_per_shard == right.bits_per_shard &&
	    header->reasons_per_shard == right.reasons_per_shard &&
	    header->flight_count == right.flight_count &&
	    header->attempt_lines == right.attempt_lines &&
	    memcmp(header->decided_offset, right.decided_offset,
		sizeof(right.decided_offset)) == 0 &&
	    memcmp(header->decided_slots, right.decided_slots,
		sizeof(right.decided_slots)) == 0 &&
	    header->bytes == right.bytes && header->bytes == file_bytes;
}
