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
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>

#define LATE_MAX	65536
#define LATE_FIRST	64

static void keep_for_later(struct late_ends *late, const struct late_end *end) {
	pthread_mutex_lock(&late->mutex);
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
    enum session_owner owner, int64_t now_ns) {
	bool may;

	/* A milter that was asked about the connect alone is left when the session
	 * ends or when XCLIENT makes it another one: exact, and after XCLIENT the
	 * kernel would tell otherwise. */
	if (owner == OWNER_MILTER)
		return false;
	may = session_is_visible(engine->segment, generation, session) ||
	    (owner == OWNER_POLICY_GONE &&
		session_may_be_visible(engine->segment, generation, session));
	return may && !keeper_is_away(engine->segment, now_ns);
}

/* Under the shard's mutex: ends it, or writes down what was said.  False: to be
 * tried again. */
static bool end_or_mark(struct engine *engine, const struct generation *generation,
    struct session_lock *lock, uint32_t slot, struct session *session,
    enum session_owner owner) {
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
	keep = session->milter_owner != 0 &&
	    incarnation_lives(engine->segment, session->milter_owner);
	if (!keep && kernel_decides(engine, generation, session, owner,
			 lock->now_ns)) {
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
	struct session_lock lock;
	struct session session;
	enum ref_state state = session_lock_ref(engine, &end->ref, now_ns, &lock,
	    &session);
	uint32_t slot = end->ref.slot - 1;
	bool done;

	if (state != REF_HELD)
		return state == REF_OVER;
	done = is_anothers(end, &session) ? true :
	    end->outright ? slot_close(&lock, slot, &session) :
	    end_or_mark(engine, generation, &lock, slot, &session, end->owner);
	sessions_unlock(&lock);
	return done;
}

static void end_now_or_later(struct engine *engine,
    const struct generation *generation, const struct late_end *end,
    int64_t now_ns) {
	if (!try_end(engine, generation, end, now_ns))
		keep_for_later(&engine->late, end);
}

void engine_session_ended(struct engine *engine,
    const struct generation *generation, const struct session_ref *ref,
    enum session_owner owner, int64_t now_ns) {
	end_now_or_later(engine, generation,
	    &(struct late_end){ .ref = *ref, .owner = owner }, now_ns);
}

void engine_session_close(struct engine *engine, const struct session_ref *ref,
    int64_t now_ns) {
	end_now_or_later(engine, NULL,
	    &(struct late_end){ .ref = *ref, .outright = true }, now_ns);
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
		end_now_or_later(engine, generation, &list[i], now_ns);
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
