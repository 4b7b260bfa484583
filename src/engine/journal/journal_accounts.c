/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The counters of accounts/.
 * MODEL    Marks in the segment say what changed.  A checkpoint marks all, and is over when a
 *          pass over the marks is: then older files go.
 * ERRORS   Without a disk nothing is looked at: all of it is written when there is one.
 * THREADS  One.
 */
#include "engine/journal/journal_accounts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"
#include "engine/journal/journal_keep.h"
#include "engine/journal/journal_state.h"
#include "segment/account/accounts.h"

#define RECORD_BYTES		256	/* of a login, about */
#define A_TURN			(JOURNAL_STATE_RATE / RECORD_BYTES)	/* logins */
#define CHECKPOINT_A_TURN	(A_TURN / 2)
#define CHECKPOINT_BYTES	(UINT64_C(16) << 20)

struct journal_accounts {
	struct journal_keep keep;
	struct learned_cursor at;	/* of the walk over logins, */
	struct learned_follower changed_at;	/* and of that over marks */
	bool in_checkpoint, wants_checkpoint;
};

_Static_assert(JOURNAL_BUCKETS == QUOTA_BUCKETS, "all of them");
_Static_assert(JOURNAL_COUNTERS_MAX >= GENERATION_QUOTA_COUNTERS, "all of them");

static uint64_t boot_of(const struct engine *engine) {
	const struct segment_header *header = engine->segment->header;

	return login_key(header->boot_id, strnlen(header->boot_id,
	    sizeof(header->boot_id))).words[0];
}

int journal_accounts_open(struct journal_accounts **accounts, struct engine *engine,
    const struct generation *generation, const struct journal_listener *listener,
    int64_t now_ns, struct diag *diag) {
	*accounts = NULL;
	if (engine->segment->header->accounts.shards == 0) {
		journal_status_none(engine, JOURNAL_ROOM_ACCOUNTS);
		return 0;
	}
	return journal_keep_open(accounts, sizeof(**accounts), engine, generation,
	    JOURNAL_ROOM_ACCOUNTS, listener, now_ns, diag);
}

/* --- writing ------------------------------------------------------------------------------ */

static void append(struct journal_accounts *accounts, struct journal_account *record) {
	record->when_ns = accounts->keep.wall_ns;
	record->boot = boot_of(accounts->keep.engine);
	record->clock_ns = accounts->keep.now_ns;
	journal_keep_append(&accounts->keep, JOURNAL_ACCOUNT, record);
}

static void put_counters(const struct journal_accounts *accounts,
    const struct quota_counter counters[], struct journal_account *record) {
	for (unsigned i = 0; i < GENERATION_QUOTA_COUNTERS; i++) {
		struct journal_counter *out = &record->counters[record->counters_count];

		if (counters[i].key == 0 || quota_used(&counters[i], accounts->keep.now_ns) == 0)
			continue;
		out->key = counters[i].key;
		out->end_ns = journal_keep_wall_ns(&accounts->keep, quota_end_ns(&counters[i]));
		for (uint32_t n = 0; n < QUOTA_BUCKETS; n++)
			out->buckets[n] = counters[i].buckets[(counters[i].part +
			    QUOTA_BUCKETS - n) % QUOTA_BUCKETS];
		record->counters_count++;
	}
}

static void write_login(void *context, const void *entry) {
	const struct account *account = entry;
	struct journal_accounts *accounts = context;
	const struct segment_header *header = accounts->keep.engine->segment->header;
	struct journal_account record = { .what = JOURNAL_ACCOUNT_LOGIN,
		.key = { account->key[0], account->key[1] },
		.name = { account->name, (uint16_t)strnlen(account->name, ACCOUNT_NAME_MAX) },
		.first_ns = journal_keep_wall_ns(&accounts->keep, account->first_s * NS_PER_SECOND),
		.guard_ns = account->guard_ds == 0 ? 0 : journal_keep_wall_ns(&accounts->keep,
		    header->created_ns + account->guard_ds * (NS_PER_SECOND / 10)),
		.accepted = account->accepted, .refused = account->refused, .entry = account->entry,
		.held_by = account->held_by };

	put_counters(accounts, account->counters, &record);
	append(accounts, &record);
}

static void write_pool(void *context, uint64_t name, const struct quota_counter counters[]) {
	struct journal_accounts *accounts = context;
	struct journal_account record = { .what = JOURNAL_ACCOUNT_POOL, .key = { name, 0 },
		.name = { "", 0 } };

	put_counters(accounts, counters, &record);
	if (record.counters_count > 0)	/* those of entries that are gone would take room */
		append(accounts, &record);
}

static void begin_checkpoint(struct journal_accounts *accounts) {
	struct engine *engine = accounts->keep.engine;
	struct journal_account record = { .what = JOURNAL_ACCOUNT_TABLE, .name = { "", 0 },
		.first_ns = journal_keep_wall_ns(&accounts->keep, accounts_since_s(engine->segment) *
		    NS_PER_SECOND) };

	accounts->wants_checkpoint = false;
	accounts->in_checkpoint = true;
	accounts->at = (struct learned_cursor){ .torn = 0 };
	journal_keep_checkpoint(&accounts->keep);
	append(accounts, &record);
	account_pools_unkeep(engine->segment);
}

static void write_changed(struct journal_accounts *accounts) {
	struct journal_keep *keep = &accounts->keep;
	struct segment *segment = keep->engine->segment;
	uint64_t before = keep->bytes;

	account_pools_unkept(segment, write_pool, accounts);
	/* what changes does not wait for the checkpoint */
	accounts_unkept(segment, &accounts->changed_at, A_TURN - CHECKPOINT_A_TURN,
	    write_login, accounts);
	if (accounts->in_checkpoint && accounts_walk(segment, &accounts->at, CHECKPOINT_A_TURN,
	    write_login, accounts)) {
		journal_keep_checkpoint_end(keep);
		accounts->in_checkpoint = false;
	}
	if (keep->bytes > before)
		journal_log_sync_by(keep->log, keep->now_ns);
	if (!accounts->in_checkpoint && journal_keep_has_grown(keep, CHECKPOINT_BYTES))
		accounts->wants_checkpoint = true;
}

static void turn(struct journal_accounts *accounts) {
	struct journal_keep *keep = &accounts->keep;

	if (journal_log_state(keep->log) == JOURNAL_GOOD) {
		if (keep->renew || keep->failed || accounts->wants_checkpoint)
			begin_checkpoint(accounts);
		write_changed(accounts);
	}
	(void)journal_keep_turn(keep);
}

void journal_accounts_turn(struct journal_accounts *accounts, int64_t now_ns,
    int64_t wall_ns) {
	if (accounts == NULL)
		return;
	/* what was dated by a wall clock that was wrong is dated anew */
	if (journal_keep_begin(&accounts->keep, now_ns, wall_ns))
		accounts->wants_checkpoint = true;
	turn(accounts);
	/* it has just become possible */
	if (journal_keep_can_renew(&accounts->keep))
		turn(accounts);
}

/* --- restoring ---------------------------------------------------------------------------- */

struct accounts_restore {
	struct engine *engine;
	uint64_t boot;
	int64_t now_ns, wall_ns, deadline_ns;
	uint64_t records;
	struct journal_bad *bad;
};

/* A record's time by the clock of now.  Of a wall clock that went back, or is of a time that
 * cannot be, nothing follows but that it was before. */
static int64_t time_of(const struct accounts_restore *r, const struct journal_account *record,
    int64_t time_ns) {
	int64_t ago_ns = r->boot == record->boot ? r->now_ns - record->clock_ns :
	    r->wall_ns - record->when_ns;

	if (time_ns == 0 || time_ns < record->when_ns - INT64_MAX / 4)
		return 0;
	if (ago_ns < 0)
		ago_ns = 0;
	if (time_ns > record->when_ns + INT64_MAX / 4)
		time_ns = record->when_ns + INT64_MAX / 4;
	return r->now_ns - ago_ns + (time_ns - record->when_ns);
}

static bool key_is_sound(uint32_t key) {
	uint32_t kind = key >> 28, period_s = key & ((1u << 28) - 1);

	return kind >= 1 && kind <= QUOTA_KINDS && period_s >= QUOTA_PERIOD_LEAST_S &&
	    period_s <= QUOTA_PERIOD_MOST_S;
}

/* False: nonsense. */
static bool take_counters(const struct accounts_restore *r,
    const struct journal_account *record, struct quota_counter out[]) {
	if (record->counters_count > GENERATION_QUOTA_COUNTERS)
		return false;
	for (uint32_t i = 0; i < record->counters_count; i++) {
		if (!key_is_sound(record->counters[i].key))
			return false;
		quota_restore(&out[i], record->counters[i].key, record->counters[i].buckets,
		    time_of(r, record, record->counters[i].end_ns), r->now_ns);
	}
	return true;
}

static bool take_login(struct accounts_restore *r, const struct journal_account *record) {
	int64_t first_s = time_of(r, record, record->first_ns) / NS_PER_SECOND;
	struct account account = { .key = { record->key[0], record->key[1] },
		.accepted = record->accepted, .refused = record->refused, .entry = record->entry,
		.held_by = record->held_by };

	if (record->key[0] == 0 || record->name.length > sizeof(account.name) ||
	    !take_counters(r, record, account.counters))
		return false;
	account.first_s = first_s < INT32_MIN ? INT32_MIN :
	    first_s > r->now_ns / NS_PER_SECOND ? (int32_t)(r->now_ns / NS_PER_SECOND) :
	    (int32_t)first_s;
	memcpy(account.name, record->name.text, record->name.length);
	(void)accounts_restore(r->engine->segment, &account,
	    time_of(r, record, record->guard_ns), r->now_ns);
	return true;
}

static bool take_record(struct accounts_restore *r, const struct journal_frame *frame) {
	struct quota_counter pool[GENERATION_QUOTA_COUNTERS] = { { .key = 0 } };
	struct journal_account record;

	if (!journal_account_read(frame->payload, frame->length, &record) ||
	    record.when_ns < 0 || record.clock_ns < 0)
		return false;
	switch (record.what) {
	case JOURNAL_ACCOUNT_LOGIN:
		return take_login(r, &record);
	case JOURNAL_ACCOUNT_POOL:
		if (!take_counters(r, &record, pool))
			return false;
		(void)account_pool_restore(r->engine->segment, record.key[0], pool,
		    quota_is_idle, r->now_ns);
		return true;
	case JOURNAL_ACCOUNT_TABLE:
		accounts_restore_since(r->engine->segment,
		    time_of(r, &record, record.first_ns));
		return true;
	default:
		return false;
	}
}

static bool take_found(void *context, const struct journal_found *found) {
	struct accounts_restore *r = context;

	journal_bad_note(r->bad, found);
	if (found->kind == JOURNAL_FOUND_RECORD && found->frame.type == JOURNAL_ACCOUNT)
		r->bad->places += !take_record(r, &found->frame);
	if (++r->records % 1024 != 0 || clock_now_ns() <= r->deadline_ns)
		return true;
	r->bad->faults++;
	return false;
}

uint64_t journal_accounts_restore(struct engine *engine, struct journal_files *files,
    struct journal_place begin, int64_t now_ns, int64_t wall_ns, int64_t deadline_ns,
    struct journal_bad *bad) {
	struct accounts_restore r = { .engine = engine, .boot = boot_of(engine),
		.now_ns = now_ns, .wall_ns = wall_ns, .deadline_ns = deadline_ns, .bad = bad };

	if (!journal_each(files, begin, take_found, &r))
		journal_bad_no_memory(bad);
	return accounts_used(engine->segment);
}
