/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Ends of sessions, as owners tell them and as the witness proves them.
 * MODEL    One shard transaction an end.  An end that a lock stood in the way of
 *          is kept by this process and carried out at a later heartbeat: an owner
 *          says it but once, and a session that nobody can see would be counted
 *          for as long as its owner's role lives.
 * THREADS  Any.
 * BUGS     What a process still keeps when it dies, or has no room to keep, is
 *          left to the witness and to leases.
 */
#include "engine/session/witness_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/session/relief.h"

#define LATE_MAX	65536
#define LATE_FIRST	64

/* A word that was late when it was said: its slot had the next session by then, or another
 * connection of the same tuple. */
static bool is_late(const struct late_end *end) {
	uint16_t part = end->outright ? 0 : asked_part(end->owner);

	return ((end->ref.serial ^ end->serial) & (uint16_t)(~SESSION_SERIAL_ASKED | part)) != 0;
}

/* Of one session the last word counts: without that one whose port came again as often as its serial
 * counts would be taken for the first of them.  `again`: this one was put off before, and the other
 * is the later word. */
static bool is_kept(struct late_ends *late, const struct late_end *end, bool again) {
	for (size_t i = late->count; i > 0 && late->count - i < LATE_FIRST; i--) {
		struct late_end *other = &late->list[i - 1];

		if (other->ref.slot == end->ref.slot && other->owner == end->owner &&
		    other->outright == end->outright && (other->ref.serial | SESSION_SERIAL_ASKED) ==
			(end->ref.serial | SESSION_SERIAL_ASKED)) {
			if (!again)
				*other = *end;
			return true;
		}
	}
	return false;
}

static void keep_for_later(struct late_ends *late, const struct late_end *end, bool again) {
	if (is_late(end))
		return;
	pthread_mutex_lock(&late->mutex);
	if (is_kept(late, end, again)) {
		pthread_mutex_unlock(&late->mutex);
		return;
	}
	if (late->count == late->size && late->size < LATE_MAX) {
		size_t size = late->size == 0 ? LATE_FIRST : 2 * late->size;
		struct late_end *larger =
		    realloc(late->list, size * sizeof(*larger));

		if (larger != NULL) {
			late->list = larger;
			late->size = size;
		}
	}
	if (late->count < late->size)
		late->list[late->count++] = *end;
	pthread_mutex_unlock(&late->mutex);
}

/* Shall the kernel be asked before the owner's word counts?  A policy connection
 * may end before its session does, so where nothing was learned yet, too. */
static bool kernel_decides(const struct engine *engine,
    const struct generation *generation, const struct session *session,
    enum session_owner owner) {
	/* A milter that was asked about the connect alone is left when the session
	 * ends or when XCLIENT makes it another one: exact, and after XCLIENT the
	 * kernel would tell otherwise. */
	if (owner == OWNER_MILTER)
		return false;
	return session_is_visible(engine->segment, generation, session) ||
	    (owner == OWNER_POLICY_GONE &&
		session_may_be_visible(engine->segment, generation, session));
}

/* May the session go on, and the keeper see its end?  While the keeper is away who ends a policy
 * connection looks himself.  Before locks are taken. */
static bool may_live(struct engine *engine, const struct generation *generation,
    const struct late_end *end, int64_t now_ns) {
	const struct segment_header *header = engine->segment->header;
	uint32_t slot = end->ref.slot - 1;
	struct connection tuple;
	struct session session;

	if (end->outright || end->owner == OWNER_MILTER || end->ref.slot == 0 ||
	    slot >= header->shard_count * header->slots_per_shard)
		return false;
	if (!keeper_is_away(engine->segment, now_ns))
		return true;
	if (engine->relief == NULL)
		return false;
	if (!session_read(engine->segment, slot / header->slots_per_shard, slot, &session))
		return true;
	proof_tuple(&session, &tuple);
	return tuple.server_port != 0 && proof_applies(generation, &session) &&
	    relief_lookup(engine->relief, &tuple, NULL) == LOOKUP_ALIVE;
}

/* Another owner has found the session open since this one's word: then that may be the next
 * connection of the same tuple. */
static bool was_joined(const struct late_end *end, const struct session *session) {
	return ((end->serial ^ session->serial) & SESSION_SERIAL_ASKED) != 0;
}

/* Under the shard's mutex: ends it, or writes down what was said.  False: to be
 * tried again. */
static bool end_or_mark(struct engine *engine, const struct generation *generation,
    struct session_lock *lock, const struct late_end *end, struct session *session,
    bool lives) {
	enum session_owner owner = end->owner;
	uint32_t slot = end->ref.slot - 1;
	bool keep;

	if (owner == OWNER_MILTER)
		session->milter_owner = 0;
	else
		session->policy_owner = 0;
	if (session_has_sockets(session))
		*(owner == OWNER_MILTER ? &session->milter_socket
					: &session->policy_socket) = 0;
	/* a milter that still holds the session knows better than a policy
	 * connection */
	keep = (was_joined(end, session) && session->policy_owner != 0) ||
	    (session->milter_owner != 0 &&
		incarnation_lives(engine->segment, session->milter_owner));
	if (!keep && lives && kernel_decides(engine, generation, session, owner)) {
		session->control.flags |= SESSION_FLAG_ENDED_HINT;
		keep = true;
	}
	if (!keep)
		return slot_close(lock, slot, session);
	sessions_change_begin(lock);
	session_store(engine->segment, slot, session);
	sessions_change_end(lock);
	return true;
}

/* A policy connection tells an end when it comes to its next session, or ends itself; a milter may
 * be late.  Another one may have asked about the same tuple meanwhile: then it is that one's to
 * end. */
static bool is_anothers(const struct late_end *end, const struct session *session) {
	return !end->outright &&
	    ((end->ref.serial ^ session->serial) & asked_part(end->owner)) != 0;
}

/* False: to be tried again. */
static bool try_end(struct engine *engine, const struct generation *generation,
    const struct late_end *end, int64_t now_ns) {
	bool lives = may_live(engine, generation, end, now_ns), done;
	struct session_lock lock;
	struct session session;
	enum ref_state state = session_lock_ref(engine, &end->ref, now_ns, &lock,
	    &session);

	if (state != REF_HELD)
		return state == REF_OVER;
	done = is_anothers(end, &session) ? true :
	    end->outright ? slot_close(&lock, end->ref.slot - 1, &session) :
	    end_or_mark(engine, generation, &lock, end, &session, lives);
	sessions_unlock(&lock);
	return done;
}

/* As it is while the word is said: a lock may be long in coming. */
static uint16_t serial_now(const struct engine *engine, const struct session_ref *ref) {
	const struct segment_header *header = engine->segment->header;

	return ref->slot == 0 || ref->slot > header->shard_count * header->slots_per_shard ? 0 :
	    session_load_serial(engine->segment, ref->slot - 1);
}

static void end_now_or_later(struct engine *engine,
    const struct generation *generation, const struct late_end *end,
    int64_t now_ns) {
	if (!try_end(engine, generation, end, now_ns))
		keep_for_later(&engine->late, end, false);
}

void engine_session_ended(struct engine *engine,
    const struct generation *generation, const struct session_ref *ref,
    enum session_owner owner, int64_t now_ns) {
	end_now_or_later(engine, generation,
	    &(struct late_end){ .ref = *ref, .owner = owner, .serial = serial_now(engine, ref) },
	    now_ns);
}

void engine_session_close(struct engine *engine, const struct session_ref *ref,
    int64_t now_ns) {
	end_now_or_later(engine, NULL,
	    &(struct late_end){ .ref = *ref, .outright = true, .serial = serial_now(engine, ref) },
	    now_ns);
}

void ends_retry(struct engine *engine, const struct generation *generation,
    int64_t now_ns) {
	struct late_ends *late = &engine->late;
	struct late_end *list;
	size_t count;

	pthread_mutex_lock(&late->mutex);
	list = late->list;
	count = late->count;
	late->list = NULL;
	late->count = late->size = 0;
	pthread_mutex_unlock(&late->mutex);
	for (size_t i = 0; i < count; i++)
		if (!try_end(engine, generation, &list[i], now_ns))
			keep_for_later(late, &list[i], true);
	free(list);
}

void session_close_unchanged(struct engine *engine, uint32_t slot,
    const struct session *seen, int64_t now_ns) {
	struct session_ref ref = ref_of(seen, slot);
	struct session_lock lock;
	struct session session;

	if (session_lock_ref(engine, &ref, now_ns, &lock, &session) != REF_HELD)
		return;
	/* a lock that is not to be had now: the next look comes */
	if (memcmp(&session, seen, sizeof(session)) == 0)
		(void)slot_close(&lock, slot, &session);
	sessions_unlock(&lock);
}
