/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What a line of Sendmail's log says of a message of the driven queue.
 * MODEL    queue_told.c.  A list that Sendmail has cut into several lines counts when its end
 *          is read and every recipient of it is plain: it may have been cut within quotes.
 * ERRORS   What is in doubt is not known.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/plain_recipient.h"
#include "engine/queue/queue_journal_internal.h"

#define SLACK_S		2	/* whole seconds, of two clocks that were read at two times */
#define PIECES_MOST	65536u	/* bytes of a list */

/* Behind what there is: "A,B".  False: no memory. */
static bool append_text(char **list, size_t *length, const char *text, size_t text_length) {
	char *more = realloc(*list, *length + text_length + 1);

	if (more == NULL)
		return false;
	*list = more;
	if (*length > 0 && more[*length - 1] != ',')
		more[(*length)++] = ',';
	memcpy(more + *length, text, text_length);
	*length += text_length;
	return true;
}

static void drop_pieces(struct told_message *told, bool spoiled) {
	free(told->pieces);
	told->pieces = NULL;
	told->pieces_length = 0;
	told->pieces_spoiled = spoiled;
}

/* --- the journal ------------------------------------------------------------------------ */

/* As many recipients of the message's part are known to be counted. */
static uint32_t count_part(struct queue *queue, const struct told_message *told,
    struct span domain, uint32_t recipients) {
	const struct message *m = queue_find_message(queue, told->directory, told->id);
	uint32_t hash = grants_domain(queue->engine->segment, domain.text, domain.length);

	if (m == NULL || told->state != TOLD_RUNS)
		return 0;
	for (struct part *p = m->parts; p != NULL; p = p->next_of_message) {
		if (p->domain->hash != hash || (p->state != PART_RUNNING && !p->ran))
			continue;
		if (recipients > p->recipients - p->told)
			recipients = p->recipients - p->told;
		p->told += recipients;
		return recipients;
	}
	return 0;
}

static void write_down(struct queue *queue, const struct told_message *told,
    const struct told_line *from, struct journal_delivery *what) {
	const struct queue_journal *j = queue->journal;

	what->id = journal_text_of(told->id);
	what->pid = told->pid;
	what->log = from->log;
	what->offset = from->offset;
	if (j != NULL)
		(void)messages_delivered(j->messages, queue_journal_key(j, told->directory, told->id),
		    what, queue_journal_now(j));
}

/* What is too long stays so: the journal refuses it. */
static uint16_t text_length(struct span text) {
	return text.length < UINT16_MAX ? (uint16_t)text.length : UINT16_MAX;
}

/* Recipients in a row that share a domain: a record, as the journal counts by domain. */
static void write_domain(struct queue *queue, const struct told_message *told,
    const struct told_line *from, struct span domain, uint32_t count, struct span to) {
	struct journal_delivery what = { .recipients = count_part(queue, told, domain, count),
		.domain = { domain.text, text_length(domain) }, .to = { to.text, text_length(to) } };

	write_down(queue, told, from, &what);
}

/* --- lines ------------------------------------------------------------------------------ */

static bool is_plain(struct span list) {
	struct span one;

	while (list.length > 0)
		if (!queue_told_next(&list, &one))
			return false;
	return true;
}

/* Those that are new; false: there is no room for it. */
static bool take_one(struct queue *queue, struct told_message *told, struct span recipient) {
	if (told->state == TOLD_OVER)
		return true;
	if (queue_told_has(told, recipient) || told->length + recipient.length >=
	    MESSAGES_DELIVERED_MAX ||
	    !append_text(&told->to, &told->length, recipient.text, recipient.length))
		return false;
	queue_told_publish(queue, told, recipient);
	return true;
}

static void take_list(struct queue *queue, struct told_message *told,
    const struct told_line *from, struct span list) {
	struct span one, domain, last = { "", 0 };
	char *bare = NULL;
	size_t length = 0, begins = 0;
	uint32_t count = 0;

	while (queue_told_next(&list, &one)) {
		if (!take_one(queue, told, one))
			continue;
		domain.text = plain_recipient_domain(one.text, one.length);
		domain.length = (size_t)(one.text + one.length - domain.text);
		if (count > 0 && (domain.length != last.length ||
		    memcmp(domain.text, last.text, domain.length) != 0)) {
			write_domain(queue, told, from, last, count,
			    (struct span){ bare + begins, length - begins });
			begins = length + 1;	/* behind the comma to come */
			count = 0;
		}
		if (!append_text(&bare, &length, one.text, one.length))
			break;
		last = domain;
		count++;
		engine_count(queue->engine, COUNTER_TOLD_RECORDED, 1);
	}
	if (count > 0)
		write_domain(queue, told, from, last, count,
		    (struct span){ bare + begins, length - begins });
	free(bare);
}

/* Sendmail says of nobody in one run that it was delivered, and that it was not. */
static bool contradicts(const struct told_message *told, struct span list) {
	struct span one;

	while (queue_told_next(&list, &one))
		if (queue_told_has(told, one))
			return true;
	return false;
}

static void make_void(struct queue *queue, struct told_message *told,
    const struct told_line *from) {
	struct journal_delivery what = { .result = JOURNAL_RESULT_WAITS, .to = { "", 0 },
		.domain = { "", 0 } };

	queue_told_clear(queue, told);
	write_down(queue, told, from, &what);
	told->pid = 0;
}

static bool is_of_its_age(const struct told_message *told, const struct told_line *line) {
	int64_t made_s;

	if (line->written_s < 0 || line->delay_s < 0 || line->delay_s > line->written_s)
		return false;
	made_s = line->written_s - line->delay_s;
	return made_s >= told->made_s - SLACK_S && made_s <= told->made_s + SLACK_S;
}

static void take_sent(struct queue *queue, struct told_message *told,
    const struct told_line *line) {
	struct span list = { line->list, line->list_length };
	bool is_whole = told->pieces_length == 0;

	if (told->pieces_spoiled) {
		drop_pieces(told, line->goes_on);
		return;
	}
	if (line->goes_on || !is_whole) {
		if (told->pieces_length + list.length > PIECES_MOST ||
		    !append_text(&told->pieces, &told->pieces_length, list.text, list.length)) {
			drop_pieces(told, line->goes_on);
			return;
		}
		list = (struct span){ told->pieces, told->pieces_length };
	}
	if (line->goes_on)
		return;
	told_works(queue->engine->segment, queue->directories[told->directory].mta);
	take_list(queue, told, line, list);
	drop_pieces(told, false);
}

void queue_told_judge(struct queue *queue, const struct told_line *line) {
	struct told_message *told = queue_told_find(queue, line->id);
	struct span list = { line->list, line->list_length };

	if (told == NULL || told->pid == 0 || line->pid != told->pid)
		return;
	if (line->what == TOLD_NOT && contradicts(told, list))
		make_void(queue, told, line);
	else if (line->what == TOLD_SENT && is_plain(list) && is_of_its_age(told, line))
		take_sent(queue, told, line);
	else
		drop_pieces(told, line->goes_on);
}
