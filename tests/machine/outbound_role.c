/* SPDX-License-Identifier: ISC */
/* What front/outbound/socketmap.c does with a question of Sendmail, and when its connection ends. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "segment/destination/states.h"
#include "segment/file/layout.h"
#include "segment/file/segment.h"
#include "tests/machine/mail.h"
#include "tests/machine/orders.h"
#include "tests/machine/role.h"
#include "tests/machine/senders.h"

/* How many may run there at once. */
static uint32_t window_of(const struct role *role, unsigned domain) {
	struct destination_window found;

	return states_find(role->segment, mail_domain(domain), strlen(mail_domain(domain)), &found) &&
	    found.state.begun ? found.state.window.concurrency : MAIL_LIMIT;
}

static void outbound_ask(const struct role *role, const struct generation *generation,
    struct policy_link *link, bool connected) {
	char recipient[64], server[64], id[24];
	const char *domain = mail_domain(link->domain);
	struct outbound_question question = { .stage = OUTBOUND_BEFORE_CONNECT,
		.destination = domain, .destination_length = strlen(domain), .mta = 1,
		.recipient = recipient, .queue_id = id };
	struct outbound_answer answer;
	const _Atomic uint64_t *notes_lost =
	    &segment_header(roles_segment())->counters[COUNTER_NOTES_LOST];
	int64_t held_ns;
	uint64_t lost;
	uint32_t window;

	snprintf(recipient, sizeof(recipient), "u%u@%s", link->letter, domain);
	question.recipient_length = strlen(recipient);
	mail_queue_id(link->try, id, sizeof(id));
	question.queue_id_length = strlen(id);
	if (connected) {
		question.stage = OUTBOUND_CONNECTED;
		snprintf(server, sizeof(server), "mx.%s", domain);
		question.server_name = server;
		question.server_name_length = strlen(server);
		memcpy(question.server.bytes + 10, (const uint8_t[]){ 0xff, 0xff, 198, 51, 100,
		    (uint8_t)(10 + link->domain) }, 6);
	}
	held_ns = orders_held_ns(link->domain);
	lost = atomic_load(notes_lost);
	window = window_of(role, link->domain);
	outbound_process_ask(link->process, generation, &question, clock_now_ns(), &answer);
	/* a lock that is stuck holds nobody */
	if (!connected && held_ns != 0 && lost == atomic_load(notes_lost) && held_ns == orders_held_ns(link->domain) &&
	    answer.answer.decision.verdict == VERDICT_ADMIT &&
	    answer.answer.decision.reason != REASON_UNUSABLE)
		world_fail("orders", "%s is held, and sender %u may connect (reason %d)", domain,
		    link->identity.pid, (int)answer.answer.decision.reason);
	if (!connected && lost == atomic_load(notes_lost))
		check_place(link, window, window_of(role, link->domain), &answer);
	check_sender(link, generation, &answer);
	sender_answered(link, &answer);
}

void outbound_turn(struct role *role, const struct generation *generation,
    struct policy_link *link, const char *request) {
	if (request == NULL) {
		outbound_process_close(&link->process, generation, clock_now_ns());
		return;
	}
	if (link->process == NULL)
		link->process = outbound_process_open(role->engine, &link->identity);
	MUST(link->process != NULL);
	outbound_ask(role, generation, link, strcmp(request, "connected") == 0);
}
