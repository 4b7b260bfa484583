/* SPDX-License-Identifier: ISC */
/* What front/outbound/socketmap.c does with a question of Sendmail, and when its connection ends. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/machine/mail.h"
#include "tests/machine/role.h"
#include "tests/machine/senders.h"

static void outbound_ask(const struct generation *generation, struct policy_link *link,
    bool connected) {
	char recipient[64], server[64], id[24];
	const char *domain = mail_domain(link->domain);
	struct outbound_question question = { .stage = OUTBOUND_BEFORE_CONNECT,
		.destination = domain, .destination_length = strlen(domain), .mta = 1,
		.recipient = recipient, .queue_id = id };
	struct outbound_answer answer;

	snprintf(recipient, sizeof(recipient), "u%u@%s", link->letter, domain);
	question.recipient_length = strlen(recipient);
	mail_queue_id((uint32_t)link->identity.pid, id, sizeof(id));
	question.queue_id_length = strlen(id);
	if (connected) {
		question.stage = OUTBOUND_CONNECTED;
		snprintf(server, sizeof(server), "mx.%s", domain);
		question.server_name = server;
		question.server_name_length = strlen(server);
		memcpy(question.server.bytes + 10, (const uint8_t[]){ 0xff, 0xff, 198, 51, 100,
		    (uint8_t)(10 + link->domain) }, 6);
	}
	outbound_process_ask(link->process, generation, &question, clock_now_ns(), &answer);
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
	outbound_ask(generation, link, strcmp(request, "connected") == 0);
}
