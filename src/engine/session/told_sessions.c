/* SPDX-License-Identifier: ISC */
/* Finds the session of a tuple. */
#include "engine/session/told_sessions.h"

#include "engine/internal.h"

void engine_session_gone(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t said_ns, int64_t now_ns) {
	const struct session_key key = { question->client, question->client_port,
		SESSION_INBOUND };
	struct session_ref ref = { .slot = 0 };
	struct session_lock lock;
	struct session session;
	uint32_t slot;

	if (address_is_unknown(&question->client) || question->client_port == 0)
		return;
	sessions_aim(engine->segment, &key, now_ns, &lock);
	if (!sessions_lock(&lock))
		return;		/* the witness or its lease ends it */
	slot = sessions_find(&lock, &question->server, question->server_port);
	if (slot != SEGMENT_NO_SLOT) {
		session_load(engine->segment, slot, &session);
		if (session.opened_ds <= segment_ds(engine->segment, said_ns))
			ref = ref_of(&session, slot);
	}
	sessions_unlock(&lock);
	if (ref.slot != 0)
		engine_session_ended(engine, generation, &ref, OWNER_POLICY, now_ns);
}
