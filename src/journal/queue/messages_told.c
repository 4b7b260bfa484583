/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What lines of the mail server's log told of a message: into the log, and after a
 *          start into the envelope that replaces it.
 * ERRORS   Those that there is no room for come twice, at worst.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "journal/queue/messages_internal.h"

uint64_t messages_append_delivery(struct messages *m, const struct journal_delivery *delivery) {
	struct journal_place place;
	uint64_t sequence = messages_record(m, JOURNAL_DELIVERY, delivery, &place);

	if (sequence != 0) {
		m->totals.deliveries += delivery->recipients;
		messages_sync_within(m, m->settings.sync_delay_ns);
	}
	return sequence;
}

uint64_t messages_told(struct messages *m, uint64_t key, const struct messages_line *line,
    int64_t wall_ns) {
	struct journal_delivery delivery = { .key = key, .when_ns = wall_ns, .recipients = line->recipients,
		.result = line->is_void ? JOURNAL_RESULT_WAITS : JOURNAL_RESULT_GONE,
		.domain = { line->domain, (uint16_t)line->domain_length },
		.id = { line->id, (uint16_t)strlen(line->id) }, .to = { line->to, (uint16_t)line->length },
		.pid = line->pid, .log = line->log, .offset = line->offset };
	const struct entry *entry;

	m->wall_ns = wall_ns;
	if (!messages_enter(m) || line->domain_length > MESSAGES_DOMAIN_MAX ||
	    line->length > MESSAGES_DELIVERED_MAX)
		return 0;
	entry = messages_index_find(m, delivery.key);
	if (entry != NULL && entry->state == ENTRY_WORKING)
		delivery.start = messages_work(m, entry)->start_sequence;
	return messages_append_delivery(m, &delivery);
}

/* --- after a start ---------------------------------------------------------------------- */

void messages_take_line(struct working *w,
    const struct journal_delivery *delivery) {
	size_t length = w->told_length + (w->told_length > 0) + delivery->to.length;
	char *more;

	if (delivery->to.length == 0)
		return;
	more = length > MESSAGES_DELIVERED_MAX ? NULL : realloc(w->told, length);
	if (more == NULL)
		return;		/* they come twice at worst */
	w->told = more;
	if (w->told_length > 0)
		more[w->told_length] = ',';
	memcpy(more + length - delivery->to.length, delivery->to.text, delivery->to.length);
	w->told_length = length;
}

char *messages_add_lines(const struct working *w, struct messages_envelope *envelope) {
	size_t before = w->is_void ? 0 : envelope->delivered_length;
	size_t told = w->is_void ? 0 : w->told_length;
	char *all = malloc(before + told + 1);

	envelope->pid = w->pid;
	if (all != NULL && before > 0)
		memcpy(all, envelope->delivered, before);
	if (all != NULL && before > 0 && told > 0)
		all[before++] = ',';
	if (all != NULL && told > 0)
		memcpy(all + before, w->told, told);
	envelope->delivered = all;
	envelope->delivered_length = all == NULL ? 0 : before + told;
	return all;
}
