/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Envelopes to records and back.
 * ERRORS   What is too large for a record goes without its groups, or with its sender cut.
 *          A record with names that are too long is none of ours: as if it were damaged.
 * THREADS  One.
 */
#include <string.h>

#include "journal/queue/messages_internal.h"

static struct journal_text text_of(const char *text, size_t most) {
	struct journal_text out = { .text = text != NULL ? text : "" };

	out.length = (uint16_t)strnlen(out.text, most);
	return out;
}

/* As many of "A,B" as there is room for: those that are left out come twice at worst. */
static size_t messages_whole(const char *delivered, size_t length) {
	if (length <= MESSAGES_DELIVERED_MAX)
		return length;
	length = MESSAGES_DELIVERED_MAX;
	while (length > 0 && delivered[length] != ',')
		length--;
	return length;
}

/* False: too many, or a domain that is too long. */
static bool take_groups(struct messages *m, const struct messages_envelope *envelope) {
	if (envelope->group_count > MESSAGES_GROUPS_MAX)
		return false;
	for (unsigned i = 0; i < envelope->group_count; i++) {
		const struct messages_group *group = &envelope->groups[i];

		if (group->length > MESSAGES_DOMAIN_MAX)
			return false;
		m->groups[i] = (struct journal_group){ .count = group->recipients,
			.due_ns = group->due_ns,
			.domain = { group->domain, (uint16_t)group->length } };
	}
	return true;
}

size_t messages_write_envelope(struct messages *m, const struct messages_envelope *envelope,
    uint64_t key, uint64_t replaces, struct journal_place old) {
	struct journal_envelope e = { .key = key, .replaces = replaces, .old = old,
		.written_ns = m->wall_ns, .due_ns = envelope->due_ns,
		.stamp = envelope->stamp, .arrival_ns = envelope->arrival_ns,
		.tried_ns = envelope->tried_ns, .tries = envelope->tries,
		.recipients = envelope->recipients, .rest = envelope->rest,
		.mta = text_of(envelope->mta, MESSAGES_DOMAIN_MAX),
		.directory = text_of(envelope->directory, MESSAGES_DIRECTORY_MAX),
		.id = text_of(envelope->id, MESSAGES_DOMAIN_MAX),
		.sender = text_of(envelope->sender, MESSAGES_SENDER_MAX),
		.groups = { .count = envelope->group_count, .items = m->groups },
		.pid = envelope->pid,
		.delivered = { envelope->delivered,
		    (uint16_t)messages_whole(envelope->delivered, envelope->delivered_length) } };
	size_t length = 0;

	e.interval = (uint8_t)messages_interval_of(m, e.due_ns, e.written_ns);
	if (e.due_ns == INT64_MAX)
		e.suspended = true;
	if (take_groups(m, envelope)) {
		if (e.groups.count == 0 && e.rest == 0 && e.recipients > 0)
			e.unread = true;
		length = journal_envelope_write(m->payload, sizeof(m->payload), &e);
	}
	if (length == 0) {
		e.unread = true;
		e.groups.count = 0;
		e.rest = 0;
		length = journal_envelope_write(m->payload, sizeof(m->payload), &e);
	}
	MUST(length > 0);
	return length;
}

bool messages_is_envelope(struct messages *m, const struct journal_found *found,
    struct journal_envelope *out) {
	const struct journal_frame *frame = &found->frame;

	if (found->kind != JOURNAL_FOUND_RECORD ||
	    (frame->type != JOURNAL_ENVELOPE && frame->type != JOURNAL_REPLACEMENT))
		return false;
	if (journal_envelope_read(frame->payload, frame->length, out) &&
	    out->written_ns >= 0 && out->mta.length <= MESSAGES_DOMAIN_MAX &&
	    out->directory.length <= MESSAGES_DIRECTORY_MAX &&
	    out->id.length <= MESSAGES_DOMAIN_MAX && out->sender.length <= MESSAGES_SENDER_MAX &&
	    out->key == messages_key_of((const struct journal_text[])
		{ out->mta, out->directory, out->id }))
		return true;
	m->totals.unreadable++;
	return false;
}

static const char *text_copy_out(char *out, struct journal_text text) {
	memcpy(out, text.text, text.length);
	out[text.length] = '\0';
	return out;
}

int64_t messages_due(const struct messages *m, int64_t due_ns, int64_t written_ns) {
	return due_ns == 0 || due_ns == INT64_MAX || written_ns <= m->wall_ns ? due_ns :
	    due_ns <= written_ns ? m->wall_ns : due_ns - (written_ns - m->wall_ns);
}

void messages_read_envelope(struct messages *m, const struct journal_envelope *e,
    struct messages_envelope *out) {
	struct parts *parts = &m->parts;
	struct journal_list list = e->groups;
	struct journal_group group;

	*out = (struct messages_envelope){ .mta = text_copy_out(parts->mta, e->mta),
		.directory = text_copy_out(parts->directory, e->directory), .id = text_copy_out(parts->id, e->id),
		.stamp = e->stamp, .sender = text_copy_out(parts->sender, e->sender),
		.arrival_ns = e->arrival_ns, .tried_ns = e->tried_ns,
		.due_ns = messages_due(m, e->due_ns, e->written_ns),
		.tries = e->tries, .recipients = e->recipients, .rest = e->rest,
		.groups = parts->groups, .delivered = e->delivered.text,
		.delivered_length = e->delivered.length, .pid = e->pid,
		.written_ns = e->written_ns };
	while (journal_group_next(&list, &group)) {
		if (out->group_count == MESSAGES_GROUPS_MAX) {
			/* not written by us: its file tells */
			out->group_count = 0;
			out->rest = 0;
			return;
		}
		parts->groups[out->group_count++] = (struct messages_group){
			.domain = group.domain.text, .length = group.domain.length,
			.recipients = group.count,
			.due_ns = messages_due(m, group.due_ns, e->written_ns) };
	}
}
