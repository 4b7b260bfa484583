/* SPDX-License-Identifier: ISC */
/* What was answered to an outbound question, noted for posternctl why.  Any thread; no lock of the
 * segment may be held. */
#include <string.h>

#include "engine/decision/decided.h"
#include "engine/outbound/outbound_internal.h"

void outbound_note(struct engine *engine, const struct generation *generation,
    const struct outbound_question *question, int32_t pid, int64_t now_ns,
    struct outbound_answer *out) {
	bool connected = question->stage == OUTBOUND_CONNECTED;
	struct decided d;

	/* what waits for its turn is not held: it is next some time */
	if (!decided_is_worth_it(&out->answer) ||
	    out->answer.decision.reason == REASON_NOT_ITS_TURN)
		return;
	out->answer.id = decisions_claim(engine->segment, DECIDED_OF_SESSIONS);
	decided_begin(&d, out->answer.id, decided_kind_of(&out->answer),
	    connected ? DECIDED_CONNECTED : DECIDED_BEFORE_CONNECT, now_ns);
	decided_put_answer(&d, &out->answer);
	d.flags |= DECIDED_OUTBOUND;
	d.cause = out->cause;
	d.until_ns = out->until_ns;
	d.pid = pid;
	d.client = connected ? question->server : out->found.relay;
	decided_put_string(&d, DECIDED_WINDOW_OF, out->owner);
	decided_put(&d, DECIDED_NAME, question->destination, question->destination_length);
	decided_put_class(&d, generation, out->answer.class_index, out->answer.rule, true);
	decided_put(&d, DECIDED_RECIPIENT, question->recipient, question->recipient_length);
	decided_put(&d, DECIDED_QUEUE_ID, question->queue_id, question->queue_id_length);
	decided_put_string(&d, DECIDED_REASON, out->why);
	decisions_write(engine->segment, &d);
}
