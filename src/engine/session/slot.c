/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Counting and uncounting one session: the only places where a slot and
 *          the counters change together.
 * THREADS  Any; the caller holds the locks that each function names.
 */
#include "engine/internal.h"

#include "base/failpoint.h"

/* Is the session still the one that the ref names?  Under the shard's mutex. */
static bool slot_matches(const struct session *session, const struct session_ref *ref) {
	return session->control.state != SESSION_FREE &&
	    (session->serial | SESSION_SERIAL_ASKED) == (ref->serial | SESSION_SERIAL_ASKED) &&
	    session->control.direction == ref->direction &&
	    session->client_port == ref->client_port &&
	    address_equal(&session->client, &ref->client);
}

enum ref_state session_lock_ref(struct engine *engine,
    const struct session_ref *ref, int64_t now_ns, struct session_lock *lock,
    struct session *session) {
	struct session_key key = { ref->client, ref->client_port,
		ref->direction };
	const struct segment_header *header = engine->segment->header;

	if (ref->slot == 0 ||
	    ref->slot > header->shard_count * header->slots_per_shard)
		return REF_OVER;
	sessions_aim(engine->segment, &key, now_ns, lock);
	if (!sessions_may_have(lock, ref->slot - 1))
		return REF_OVER;
	__builtin_prefetch(&engine->segment->session_slots[ref->slot - 1]);
	__builtin_prefetch(
	    &engine->segment->session_slots[ref->slot - 1].words[SESSION_WORDS - 1]);
	if (!sessions_lock(lock))
		return REF_BUSY;
	session_load(engine->segment, ref->slot - 1, session);
	if (slot_matches(session, ref))
		return REF_HELD;
	sessions_unlock(lock);
	return REF_OVER;
}

bool class_lock_for(struct segment *segment, const struct generation_class *class,
    int64_t now_ns) {
	struct class_record *record = &segment->records[class->record];

	if (!class_lock(segment, (uint16_t)class->record, now_ns))
		return false;
	if (atomic_load_explicit(&record->uses, memory_order_relaxed) !=
	    class->record_use) {
		class_unlock(segment, (uint16_t)class->record);
		return false;
	}
	/* removed and idle, but a role works with the configuration before */
	if (atomic_load_explicit(&record->in_use, memory_order_relaxed) == CLASS_FREE)
		atomic_store(&record->in_use, CLASS_REMOVED);
	return true;
}

unsigned client_bits(const struct generation_class *class,
    const struct address *client) {
	return address_is_v4(client) ? 96u + class->client_bits_v4
				     : class->client_bits_v6;
}

void limit_state_read(const struct segment *segment, uint16_t record,
    struct limit_state *state) {
	const struct class_record *class = &segment->records[record];

	*state = (struct limit_state){
		.open = atomic_load_explicit(&class->open, memory_order_relaxed),
		.rate_tat_ns = atomic_load_explicit(&class->rate_tat_ns,
		    memory_order_relaxed),
	};
}

void slot_commit(struct session_lock *lock, uint32_t slot,
    const struct session *session, struct client_lock *client,
    int64_t client_tat_ns) {
	struct segment *segment = lock->segment;
	enum session_direction direction = session->control.direction;

	sessions_change_begin(lock);
	session_store(segment, slot, session);
	FAILPOINT();
	class_add(segment, session->control.class_record, direction, 1);
	FAILPOINT();
	if (client != NULL)
		client_add(client, 1, client_tat_ns);
	sessions_change_end(lock);
}

static void free_slot(struct session_lock *lock, uint32_t slot) {
	struct session_control none = { .class_record = SEGMENT_NO_CLASS };

	session_store_control(lock->segment, slot, none);
	FAILPOINT();
}

static bool uncount(struct session_lock *lock, uint32_t slot,
    const struct session *session) {
	struct segment *segment = lock->segment;
	uint16_t record = session->control.class_record;
	bool has_client = session->control.client_bits != 255;
	struct client_lock client;

	if (has_client)
		client_aim(segment, record, &session->client,
		    session->control.client_bits, lock->now_ns, &client);
	if (!class_lock(segment, record, lock->now_ns))
		return false;
	if (has_client && !client_lock(&client)) {
		class_unlock(segment, record);
		return false;
	}
	sessions_change_begin(lock);
	free_slot(lock, slot);
	class_add(segment, record, session->control.direction, -1);
	FAILPOINT();
	if (has_client) {
		client_add(&client, -1, 0);
		client_unlock(&client);
	}
	sessions_change_end(lock);
	class_unlock(segment, record);
	return true;
}

bool slot_uncount(struct session_lock *lock, uint32_t slot,
    struct session *session) {
	uint16_t record = session->control.class_record;

	if (!class_lock(lock->segment, record, lock->now_ns))
		return false;
	session->control.class_record = SEGMENT_NO_CLASS;
	session->control.state = SESSION_UNCOUNTED;
	sessions_change_begin(lock);
	session_store_control(lock->segment, slot, session->control);
	FAILPOINT();
	class_add(lock->segment, record, session->control.direction, -1);
	FAILPOINT();
	sessions_change_end(lock);
	class_unlock(lock->segment, record);
	return true;
}

bool slot_close(struct session_lock *lock, uint32_t slot,
    const struct session *session) {
	if (session->control.state == SESSION_OPEN) {
		if (!uncount(lock, slot, session))
			return false;
	} else {
		sessions_change_begin(lock);
		free_slot(lock, slot);
		sessions_change_end(lock);
	}
	sessions_release(lock, slot);
	segment_count(lock->segment, COUNTER_ENDED, 1);
	return true;
}

static uint8_t proof_of(const struct generation *generation,
    const struct session *session) {
	if (session->control.direction != SESSION_INBOUND)
		return PROOF_OWNER;
	/* renamed by XCLIENT, and we never heard who it was before */
	if ((session->control.flags & SESSION_FLAG_CARRIED) != 0 &&
	    session->proof_port == 0)
		return PROOF_OWNER;
	if (session->control.listener >= generation->listener_count)
		return PROOF_AUTO;
	return generation->listeners[session->control.listener].proof;
}

bool session_is_visible(const struct segment *segment,
    const struct generation *generation, const struct session *session) {
	uint8_t setting = proof_of(generation, session);
	const struct listener_record *learned;

	if (setting != PROOF_AUTO)
		return setting == PROOF_WITNESS;
	if (session->control.proof == SESSION_PROOF_WITNESS)
		return true;
	learned = segment_listener(segment, session->control.listener,
	    session->server_port);
	return learned != NULL && atomic_load(&learned->seen) > 0 &&
	    atomic_load(&learned->unseen) == 0;
}

bool session_may_be_visible(const struct segment *segment,
    const struct generation *generation, const struct session *session) {
	const struct listener_record *learned;

	if (proof_of(generation, session) != PROOF_AUTO)
		return false;
	learned = segment_listener(segment, session->control.listener,
	    session->server_port);
	return learned != NULL && atomic_load(&learned->unseen) == 0 &&
	    atomic_load(&learned->absent) == 0;
}
