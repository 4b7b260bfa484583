/* SPDX-License-Identifier: ISC */
/* What must hold of Sendmail's processes: counted while they live, and no longer. */
#include <string.h>

#include "engine/internal.h"
#include "segment/destination/flights.h"
#include "segment/destination/states.h"
#include "segment/session/sessions.h"
#include "tests/machine/mail.h"
#include "tests/machine/nodes.h"
#include "tests/machine/role.h"
#include "tests/machine/senders.h"

void senders_are_lost(void) {
	for (unsigned i = 0; i < SENDERS_MAX; i++)
		senders[i].counted = senders[i].placed = false;
}

uint32_t senders_open(uint32_t class_index) {
	uint32_t count = 0;

	for (unsigned i = 0; i < SENDERS_MAX; i++)
		count += senders[i].alive && senders[i].counted &&
		    senders[i].class_index == class_index;
	return count;
}

void check_place(struct policy_link *link, uint32_t before, uint32_t after,
    const struct outbound_answer *answer) {
	struct sender *sender = link->sender;
	uint32_t count = 0;

	if (!sender->alive || sender->link != link || sender->placed ||
	    answer->answer.decision.verdict != VERDICT_ADMIT ||
	    answer->answer.decision.reason == REASON_UNUSABLE ||
	    strcmp(answer->owner, mail_domain(link->domain)) != 0)
		return;
	sender->placed = true;
	for (unsigned i = 0; i < SENDERS_MAX; i++)
		count += senders[i].alive && senders[i].placed && senders[i].domain == link->domain;
	/* a canary goes where more are there already, as the window has fallen */
	if (!answer->canary && count > (before > after ? before : after))
		world_fail("places", "%s has a window of %u, and %u processes may go",
		    mail_domain(link->domain), after, count);
}

void check_sender(struct policy_link *link, const struct generation *generation,
    const struct outbound_answer *answer) {
	const struct generation_class *class;
	struct sender *sender = link->sender;
	uint32_t count;
	bool is_new;

	world_log("sender %u: %s: verdict %d reason %d count %u of %u", link->identity.pid,
	    process_current()->name, (int)answer->answer.decision.verdict,
	    (int)answer->answer.decision.reason, answer->answer.decision.count,
	    answer->answer.decision.limit);
	if (!sender->alive || sender->pid != (int32_t)link->identity.pid)
		return;
	if (answer->answer.decision.verdict != VERDICT_ADMIT) {
		sender->counted = false;
		return;
	}
	if (answer->found.class_index == CLASS_NO_RULE ||
	    answer->answer.decision.reason == REASON_UNUSABLE ||
	    answer->answer.decision.reason == REASON_UNTRACKED)
		return;
	is_new = !sender->counted;
	sender->counted = true;
	sender->class_index = answer->found.class_index;
	class = generation_class(generation, sender->class_index);
	count = senders_open(sender->class_index);
	if (count > class->limits.sessions)
		world_fail("senders", "class %s has %u of %u",
		    generation_text(generation, class->name), count, class->limits.sessions);
	if (is_new)
		check_nodes_admitted(0, sender->class_index, false,
		    ((const struct role *)process_current()->own)->asked_ns);
}

uint32_t senders_slots(const struct segment *segment, uint16_t record) {
	uint32_t first, count, slots = 0;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t slot = first; slot < first + count; slot++) {
			struct session_control control = session_load_control(segment, slot);

			slots += control.state == SESSION_OPEN &&
			    control.direction == SESSION_OUTBOUND && control.class_record == record;
		}
	}
	return slots;
}

void senders_stuck(const struct segment *segment, unsigned domain) {
	struct destination_window window = { .number = 0 };
	const struct window *is = &window.state.window;

	(void)states_find(segment, mail_domain(domain), strlen(mail_domain(domain)), &window);
	world_fail("mail", "letters for %s are not delivered: window %u, ceiling %u, state %u; %u in "
	    "flight, %u by the log", mail_domain(domain), is->concurrency, is->ceiling, is->state,
	    window.state.in_flight, window.state.running);
}

void check_senders_end(const struct segment *segment) {
	struct destination_window window;
	uint32_t used, size;

	for (uint32_t i = 0; i < segment->header->record_count; i++)
		if (segment->records[i].in_use != 0 && senders_slots(segment, (uint16_t)i) > 0)
			world_fail("senders", "one that is over is counted in class %s",
			    segment->records[i].name);
	flights_used(segment, &used, &size);
	if (used > 0)
		world_fail("senders", "%u places are kept", used);
	for (unsigned i = 0; i < DOMAINS_MAX; i++)
		if (states_find(segment, mail_domain(i), strlen(mail_domain(i)), &window) &&
		    (window.state.in_flight > 0 || window.state.connected > 0))
			world_fail("senders", "%s has %u in flight, %u connected", mail_domain(i),
			    window.state.in_flight, window.state.connected);
}
