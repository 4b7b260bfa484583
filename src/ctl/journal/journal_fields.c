/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What stands in a record of a journal, as members of a line.
 * MODEL    Names are those of journal/record.h; times are UTC; a place is FILE:OFFSET.
 * ERRORS   None: what is too long for a line is cut.
 * THREADS  One.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/decision_id.h"
#include "ctl/journal/journal_record.h"
#include "segment/reader.h"
#include "view/decided.h"

#define TEXT_ROOM	8192

struct value journal_time_value(int64_t wall_ns, char space[JOURNAL_TIME_MAX]) {
	if (wall_ns == 0)
		return value_unknown();
	if (wall_ns == INT64_MAX)
		return value_text("for-ever");
	return value_text(wall_ns < 0 ? "nonsense" : view_time(wall_ns, space));
}

/* A NUL would end it: it is left out. */
static void show_text(struct writer *writer, const char *name, struct journal_text value) {
	char space[TEXT_ROOM];
	size_t length = 0;

	for (uint16_t i = 0; i < value.length && length + 1 < sizeof(space); i++)
		if (value.text[i] != '\0')
			space[length++] = value.text[i];
	space[length] = '\0';
	writer_text(writer, name, space);
}

/* Of a decision, named as posternctl why does. */
static void show_texts(struct writer *writer, const struct journal_decision *decision) {
	static const char *const names[DECIDED_TEXTS] = {
		[DECIDED_NAME] = "name", [DECIDED_CLASS] = "class",
		[DECIDED_FILE] = "file", [DECIDED_RULE] = "rule",
		[DECIDED_WINDOW_OF] = "window_of", [DECIDED_QUEUE_ID] = "queue_id",
		[DECIDED_RELAY] = "relay", [DECIDED_RECIPIENT] = "recipient",
		[DECIDED_MTA] = "mta", [DECIDED_REASON] = "text",
		[DECIDED_NOTE] = "note", [DECIDED_NODE] = "node",
		[DECIDED_ORIGIN] = "origin_id",
	};
	struct decided decided;

	if (!journal_decision_get(decision, &decided))
		return;
	for (unsigned which = 1; which < DECIDED_TEXTS; which++) {
		const char *text = decided_text(&decided, (enum decided_text)which);

		if (text[0] != '\0')
			writer_text(writer, names[which], text);
	}
}

static void show_fields(struct writer *writer, const struct journal_shape *shape,
    const void *record);

static void show_list(struct writer *writer, const struct journal_field *field,
    const void *record) {
	const struct journal_shape *element = field->element();
	const char *at = (const char *)record + field->at;
	union journal_any one;

	writer_line_list_begin(writer, field->word);
	if (field->kind == JOURNAL_list) {
		struct journal_list list = *(const struct journal_list *)(const void *)at;

		while (journal_list_next(element, &list, &one)) {
			writer_line_item(writer);
			show_fields(writer, element, &one);
		}
	} else {
		uint32_t count = *(const uint32_t *)(const void *)
		    ((const char *)record + field->count_at);

		for (uint32_t i = 0; i < count && i < field->count; i++) {
			writer_line_item(writer);
			show_fields(writer, element, at + i * element->size);
		}
	}
	writer_line_list_end(writer);
}

static void show_number_as(struct writer *writer, const struct journal_field *field,
    uint64_t number) {
	char space[JOURNAL_TIME_MAX > DECISION_ID_MAX ? JOURNAL_TIME_MAX : DECISION_ID_MAX];
	const char *name = field->word;

	switch (field->shown) {
	case JOURNAL_AS_NUMBER:
		writer_number(writer, name, number);
		break;
	case JOURNAL_AS_NUMBER_IF:
		if (number != 0)
			writer_number(writer, name, number);
		break;
	case JOURNAL_AS_NUMBER_KNOWN:
		writer_number_if(writer, name, number != 0, number);
		break;
	case JOURNAL_AS_NUMBER_SET:
		writer_number_if(writer, name, number != UINT32_MAX, number);
		break;
	case JOURNAL_AS_QUOTA:
		writer_number(writer, name, (number >> 28) - 1);
		writer_number(writer, "period", number & 0xfffffff);
		break;
	case JOURNAL_AS_KEY:
		snprintf(space, sizeof(space), "%016" PRIx64, number);
		writer_text(writer, name, space);
		break;
	case JOURNAL_AS_ID_IF:
		if (number != 0)
			writer_text(writer, name, decision_id_text(number, space));
		break;
	case JOURNAL_AS_ID:
		writer_text(writer, name, decision_id_text(number, space));
		break;
	case JOURNAL_AS_TRUTH:
		writer_truth(writer, name, number != 0);
		break;
	case JOURNAL_AS_TIME_US:
		number = number > INT64_MAX / 1000 ? 0 : number * 1000;
		/* fall through */
	case JOURNAL_AS_TIME:
		writer_member(writer, name, COLUMN_TEXT,
		    journal_time_value((int64_t)number, space));
		break;
	default:
		break;
	}
}

static void show_place(struct writer *writer, const char *name, struct journal_place value) {
	char space[32];

	snprintf(space, sizeof(space), "%" PRIu32 ":%" PRIu32, value.file, value.offset);
	writer_text(writer, name, value.file == 0 ? NULL : space);
}

static void show_field(struct writer *writer, const struct journal_field *field,
    const void *record) {
	const void *at = (const char *)record + field->at;
	const struct journal_text *text = at;
	uint64_t sum = 0;

	switch (field->shown) {
	case JOURNAL_AS_HIDDEN:
		break;
	case JOURNAL_AS_SUM:
		for (unsigned i = 0; i < field->count; i++)
			sum += journal_field_number(field, record, i);
		writer_number(writer, field->word, sum);
		break;
	case JOURNAL_AS_PLACE:
		show_place(writer, field->word, *(const struct journal_place *)at);
		break;
	case JOURNAL_AS_TEXT_IF:
		if (text->length > 0)
			show_text(writer, field->word, *text);
		break;
	case JOURNAL_AS_STATE:
		writer_truth(writer, "forgotten", text->length == 0);
		/* fall through */
	case JOURNAL_AS_TEXT:
		show_text(writer, field->word, *text);
		break;
	case JOURNAL_AS_NAME:
		writer_text(writer, field->word, at);
		break;
	case JOURNAL_AS_TEXTS:
		show_texts(writer, record);
		break;
	case JOURNAL_AS_WORD:
		writer_text(writer, field->word, journal_field_word(field, record));
		break;
	case JOURNAL_AS_LIST:
		show_list(writer, field, record);
		break;
	default:
		show_number_as(writer, field, journal_field_number(field, record, 0));
		break;
	}
}

static void show_fields(struct writer *writer, const struct journal_shape *shape,
    const void *record) {
	for (const struct journal_field *field = shape->fields; field->word != NULL; field++)
		show_field(writer, field, record);
}

void decoded_write(const struct decoded *decoded, const char *id, struct writer *writer) {
	const struct journal_delivery *delivery = &decoded->record.delivery;

	/* only envelopes, and what a log showed, say it themselves */
	if (decoded->type == JOURNAL_DELIVERY && delivery->id.length > 0)
		show_text(writer, "id", delivery->id);
	else if (decoded->type == JOURNAL_START || decoded->type == JOURNAL_DELIVERY ||
	    decoded->type == JOURNAL_FINISH)
		writer_text(writer, "id", id);
	show_fields(writer, journal_shape_of(decoded->type), &decoded->record);
}
