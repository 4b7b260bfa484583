/* SPDX-License-Identifier: ISC */
/* What must hold, whatever happens. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/internal.h"
#include "tests/machine/nodes.h"
#include "tests/machine/role.h"
#include "tests/machine/senders.h"

#define CLASSES_MAX 8

static struct segment *segment;
static int64_t wrong_since_ns[CLASSES_MAX];	/* a class turns away though it has room; 0: not */
static const struct generation *generation;

void check_begin(struct segment *of, const struct generation *in_force) {
	segment = of;
	generation = in_force;
}

static const char *client_text(const struct address *client, uint16_t port) {
	static char text[ADDRESS_TEXT_MAX + 8];
	char address[ADDRESS_TEXT_MAX];

	address_format(client, address);
	snprintf(text, sizeof(text), "%s[%u]", address, port);
	return text;
}

static bool is_admitted(const struct tcp *tcp) {
	return tcp->state == TCP_OPEN && tcp->heard == HEARD_ADMIT && !tcp->let_go;
}

uint32_t check_open(uint32_t class_index) {
	uint32_t count = senders_open(class_index);

	for (unsigned i = 0; i < TCP_MAX; i++)
		count += is_admitted(&tcps[i]) && tcps[i].class_index == class_index;
	return count;
}

static bool has_slot(const struct tcp *tcp) {
	uint32_t first, count;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t slot = first; slot < first + count; slot++) {
			struct session session;

			session_load(segment, slot, &session);
			if (session.control.state == SESSION_OPEN &&
			    session.client_port == tcp->client_port &&
			    address_equal(&session.client, &tcp->client))
				return true;
		}
	}
	return false;
}

/* Of one host, where the class limits its clients. */
static void check_client(const struct tcp *tcp) {
	const struct generation_class *class = generation_class(generation, tcp->class_index);
	uint32_t count = 0;

	for (unsigned i = 0; i < TCP_MAX; i++)
		count += is_admitted(&tcps[i]) && tcps[i].class_index == tcp->class_index &&
		    address_equal(&tcps[i].client, &tcp->client);
	if (count > class->limits.client_sessions)
		world_fail("client", "%s has %u sessions of %u",
		    client_text(&tcp->client, tcp->client_port), count,
		    class->limits.client_sessions);
}

/* No session of the listener was ever shown: then its mail server tells the end, at its next
 * client or its own end, or time does. */
static bool owner_has_it(const struct session *session) {
	const struct listener_record *record = segment_listener(segment,
	    session->control.listener, session->server_port);

	return record != NULL && record->seen == 0 &&
	    (session->control.proof == SESSION_PROOF_LEASE ||
		(session->control.proof == SESSION_PROOF_OWNER && !servers_are_gone()));
}

/* So many of the class nobody but their owners can end. */
static uint32_t owned(uint16_t record) {
	uint32_t first, count, owned = 0;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t slot = first; slot < first + count; slot++) {
			struct session session;

			session_load(segment, slot, &session);
			owned += session.control.state == SESSION_OPEN &&
			    session.control.class_record == record && owner_has_it(&session);
		}
	}
	return owned;
}

/* What is counted may be over for a while, before anybody has seen it.  While the keeper is away
 * who refuses looks, but not each time. */
#define SEEN_NS (500 * NS_PER_MS)
#define LOOKS_NS (300 * NS_PER_MS)
static void check_refusal(uint32_t class_index) {
	const struct generation_class *class = generation_class(generation, class_index);
	uint32_t count = tcps_ended(class_index, NULL, fibers_now_ns() - SEEN_NS) +
	    owned((uint16_t)class->record) + senders_slots(segment, (uint16_t)class->record);

	if (world_plan()->lies > 0)
		return;		/* nobody knows when an end is seen */
	MUST(class_index < CLASSES_MAX);
	for (unsigned i = 0; i < TCP_MAX; i++)
		count += tcps[i].state == TCP_OPEN && tcp_may_count(&tcps[i], class_index);
	if (count >= class->limits.inbound)
		wrong_since_ns[class_index] = 0;
	else if (wrong_since_ns[class_index] == 0)
		wrong_since_ns[class_index] = fibers_now_ns();
	else if (fibers_now_ns() - wrong_since_ns[class_index] > LOOKS_NS)
		world_fail("refused", "class %s has %u sessions of %u, and turns one away",
		    generation_text(generation, class->name), count, class->limits.inbound);
}

/* Of those that live, and did not fail open. */
static void check_limit(uint32_t class_index) {
	const struct generation_class *class = generation_class(generation, class_index);
	char names[128] = "";
	uint32_t count = 0;

	for (unsigned i = 0; i < TCP_MAX; i++) {
		if (!is_admitted(&tcps[i]) || tcps[i].class_index != class_index)
			continue;
		count++;
		text_append(names, sizeof(names), strlen(names), " %u%s", tcps[i].number,
		    has_slot(&tcps[i]) ? "" : " (without a slot)");
	}
	if (count > class->limits.inbound && !class->observe)
		world_fail("limit", "class %s has %u sessions of %u:%s",
		    generation_text(generation, class->name), count, class->limits.inbound, names);
}

/* A milter is told that it is known, and each recipient is asked about. */
static bool is_deferred(const struct session_ref *ref) {
	return ref->slot != 0 &&
	    session_load_control(segment, ref->slot - 1).state == SESSION_DEFERRED;
}

void check_decision(struct policy_link *link, const struct answer *answer, bool at_recipient) {
	struct tcp *tcp = link->tcp;
	enum verdict verdict = answer->decision.verdict;

	if (tcp == NULL || tcp->number != link->number || tcp->state != TCP_OPEN) {
		link->late = true;
		if (answer->class_index != CLASS_NO_RULE)
			tcp_was_admitted_late(answer->class_index);
		return;
	}
	world_log("session %u: %s: verdict %d reason %d count %u of %u", tcp->number,
	    process_current()->name, (int)verdict,
	    (int)answer->decision.reason, answer->decision.count, answer->decision.limit);
	check_law(link, generation, answer, at_recipient);
	if (answer->newly_decided && (verdict == VERDICT_REFUSE ||
	    (verdict == VERDICT_DEFER && at_recipient) || answer->observed ||
	    answer->decision.reason == REASON_UNUSABLE))
		check_why(segment, tcp, generation, answer);
	if (answer->decision.reason == REASON_UNUSABLE)
		tcp->waited |= tcp->shown;
	if (answer->decision.reason == REASON_UNUSABLE || answer->decision.reason == REASON_UNTRACKED)
		tcp->heard = tcp->heard == HEARD_ADMIT ? HEARD_ADMIT : HEARD_FAILED_OPEN;
	else if (verdict == VERDICT_DEFER || is_deferred(&answer->session))
		tcp->heard = HEARD_DEFER;
	else if (verdict == VERDICT_ADMIT && answer->class_index != CLASS_NO_RULE &&
	    (answer->newly_decided || tcp->heard == HEARD_NOTHING)) {
		tcp->heard = HEARD_ADMIT;
		tcp->class_index = answer->class_index;
		check_limit(answer->class_index);
		check_client(tcp);
		/* (one that is taken for another, of the same tuple, has its place) */
		if (answer->newly_decided)
			check_nodes_admitted(0, answer->class_index, true,
			    ((const struct role *)process_current()->own)->asked_ns);
	}
	if (verdict == VERDICT_ADMIT && answer->class_index != CLASS_NO_RULE)
		wrong_since_ns[answer->class_index] = 0;
	if (answer->decision.reason == REASON_CLASS_INBOUND && verdict != VERDICT_ADMIT)
		check_refusal(answer->class_index);
}

/* --- quiet ------------------------------------------------------------------------- */

static const struct tcp *tcp_of(const struct session *session) {
	for (unsigned i = 0; i < TCP_MAX; i++)
		if (tcps[i].state == TCP_OPEN && tcps[i].client_port == session->client_port &&
		    address_equal(&tcps[i].client, &session->client))
			return &tcps[i];
	return NULL;
}

struct found {
	uint32_t count;
	bool has[TCP_MAX];
};

static void check_slot(uint32_t slot, struct found *found) {
	struct session session;
	const struct tcp *tcp;

	session_load(segment, slot, &session);
	if (session.control.state == SESSION_FREE || session.control.direction == SESSION_OUTBOUND)
		return;
	found->count++;
	tcp = tcp_of(&session);
	if (tcp == NULL && owner_has_it(&session))
		return;
	if (tcp == NULL)
		world_fail("kept", "%s is over, and still held (state %d, proof %d, flags %x)",
		    client_text(&session.client, session.client_port), session.control.state,
		    session.control.proof, session.control.flags);
	if (found->has[tcp - tcps])
		world_fail("twice", "%s has two slots",
		    client_text(&session.client, session.client_port));
	found->has[tcp - tcps] = true;
	if (is_admitted(tcp) && (session.control.state != SESSION_OPEN ||
	    session.control.class_record != generation_class(generation,
		tcp->class_index)->record))
		world_fail("class", "%s is in state %d of class %d",
		    client_text(&session.client, session.client_port), session.control.state,
		    session.control.class_record);
}

static void check_class(uint16_t number) {
	const struct class_record *record = &segment->records[number];
	uint32_t first, count, open = 0;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t slot = first; slot < first + count; slot++) {
			struct session_control control = session_load_control(segment, slot);

			open += control.state == SESSION_OPEN && control.class_record == number;
		}
	}
	if (open != record->open || open != record->open_inbound + senders_slots(segment, number))
		world_fail("count", "class %s counts %u (%u inbound), and has %u", record->name,
		    record->open, record->open_inbound, open);
}

static uint32_t count_of_clients(void) {
	struct learned clients = clients_table(segment);
	struct learned_cursor at = { 0 };
	struct client_slot client;
	uint32_t sum = 0;

	while (learned_each(&clients, &at, (uint64_t *)&client))
		sum += client.open;
	return sum;
}

static void check_clients(void) {
	uint32_t counted = count_of_clients(), slots = 0, first, count;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t slot = first; slot < first + count; slot++) {
			struct session_control control = session_load_control(segment, slot);

			slots += control.state == SESSION_OPEN && control.client_bits != 255;
		}
	}
	if (counted != slots)
		world_fail("clients", "clients count %u sessions, and have %u", counted, slots);
}

static void check_adopted(const struct found *found) {
	for (unsigned i = 0; i < TCP_MAX; i++)
		if (tcps[i].state == TCP_OPEN && tcps[i].heard == HEARD_FAILED_OPEN &&
		    !tcps[i].waited && !tcps[i].let_go && !found->has[i])
			world_fail("unseen", "session %u of %s failed open, and is not counted",
			    tcps[i].number, client_text(&tcps[i].client, tcps[i].client_port));
}

void check_quiet(bool adopts) {
	struct found found = { 0 };
	uint32_t first, count;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t slot = first; slot < first + count; slot++)
			check_slot(slot, &found);
	}
	for (unsigned i = 0; i < TCP_MAX; i++)
		if (is_admitted(&tcps[i]) && !found.has[i])
			world_fail("lost", "session %u of %s was admitted, lives, and is not counted",
			    tcps[i].number, client_text(&tcps[i].client, tcps[i].client_port));
	/* a dump that missed it may have been the only one in time */
	if (adopts && world_plan()->lies == 0)
		check_adopted(&found);
	for (uint32_t i = 0; i < segment->header->record_count; i++)
		if (segment->records[i].in_use != 0)
			check_class((uint16_t)i);
	check_clients();
	world_log("quiet: %u sessions", found.count);
}

/* --- locks --------------------------------------------------------------------------- */

static void touch(struct lock *lock, const char *what, uint32_t number) {
	if (lock_acquire(lock, clock_now_ns()) == LOCK_TIMED_OUT)
		world_fail("lock", "that of %s %u is stuck", what, number);
	lock_release(lock);
}

/* Each slot that was in use once is in use, or in the free list. */
static void check_free(uint32_t shard) {
	uint32_t first, count, used = 0, free = 0;
	uint32_t at = segment->session_shards[shard].free_head;

	sessions_range(segment, shard, &first, &count);
	for (uint32_t slot = first; slot < first + count; slot++)
		used += session_load_control(segment, slot).state != SESSION_FREE;
	for (; at != SEGMENT_NO_SLOT && free <= count; free++)
		at = (uint32_t)segment->session_slots[at].words[1];
	if (used + free != count || used != segment->session_shards[shard].used)
		world_fail("slots", "shard %u has %u slots, %u in use (%u counted), %u free", shard,
		    count, used, segment->session_shards[shard].used, free);
}

void check_end(void) {
	struct learned clients = clients_table(segment);

	check_senders_end(segment);
	for (uint32_t i = 0; i < segment->header->shard_count; i++) {
		check_free(i);
		touch(&segment->session_shards[i].lock, "session shard", i);
	}
	for (uint32_t i = 0; i < clients.place->shards; i++)
		touch(&clients.shards[i].lock, "client shard", i);
	for (uint32_t i = 0; i < segment->header->record_count; i++)
		touch(&segment->records[i].lock, "class", i);
}
