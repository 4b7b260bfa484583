/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Payloads of records.
 * MODEL    One writer and one reader walk over the descriptions that record_fields.def makes.
 *          The reader tells an end at a field's begin (zeros for the rest: an older writer) from
 *          one within a field (spoiled); elements of lists are whole.
 * ERRORS   Both remember a failure and do nothing from there on.
 * THREADS  Pure.
 */
#include "journal/record.h"

#include <string.h>

#include "journal/bytes.h"
#include "policy/reply/reply.h"

/* --- words ------------------------------------------------------------------------------ */

const char *journal_type_word(unsigned type) {
	switch (type) {
#define RECORD(symbol, number, word, what) case number: return word;
#include "defs/records.def"
#undef RECORD
	default: return NULL;
	}
}

#define WORDS(name, ...) \
	static const char *name(unsigned number) { \
		static const char *const words[] = { __VA_ARGS__ }; \
		return number < sizeof(words) / sizeof(words[0]) ? words[number] : "unknown"; \
	}
WORDS(record_on, "unknown", "destination", "recipient", "class")
WORDS(record_result, "gone", "waits")
WORDS(record_finish, "done", "gone")
WORDS(record_account, "unknown", "login", "pool", "table", "forgotten")

static const char *record_class(unsigned number) {
	return result_class_word((enum result_class)number);
}

/* --- descriptions ----------------------------------------------------------------------- */

#define JOURNAL_AS_VERB		JOURNAL_AS_WORD, .words = manual_word
#define JOURNAL_AS_ON		JOURNAL_AS_WORD, .words = record_on
#define JOURNAL_AS_RESULT	JOURNAL_AS_WORD, .words = record_result
#define JOURNAL_AS_FINISH	JOURNAL_AS_WORD, .words = record_finish
#define JOURNAL_AS_ACCOUNT	JOURNAL_AS_WORD, .words = record_account
#define JOURNAL_AS_KIND		JOURNAL_AS_WORD, .words = decided_word
#define JOURNAL_AS_STAGE	JOURNAL_AS_WORD, .words = decided_stage_word
#define JOURNAL_AS_REASON	JOURNAL_AS_WORD, .words = decided_reason_word
#define JOURNAL_AS_CLASS	JOURNAL_AS_HIDDEN, .words = record_class

#define BEGIN(shape) \
	const struct journal_shape *journal_##shape##_shape(void) { \
		typedef struct journal_##shape record; \
		static const struct journal_shape shape_ = { sizeof(record), {
#define PARTS(kind_, path, count_, shown_, word_) \
	{ .kind = JOURNAL_##kind_, .word = word_, .at = offsetof(record, path), .count = count_, \
	    .shown = JOURNAL_AS_##shown_ },
#define PART(kind, path, shown, word)		PARTS(kind, path, 1, shown, word)
#define FIELD(kind, name, shown, word)		PARTS(kind, name, 1, shown, word)
#define ROW(kind, name, count, shown, word)	PARTS(kind, name, count, shown, word)
#define LIST(element_, name, word_) \
	{ .kind = JOURNAL_list, .word = word_, .at = offsetof(record, name), .count = 1, \
	    .element = journal_##element_##_shape, .shown = JOURNAL_AS_LIST },
#define ARRAY(element_, name, most, word_) \
	{ .kind = JOURNAL_array, .word = word_, .at = offsetof(record, name), .count = most, \
	    .count_at = offsetof(record, name##_count), \
	    .element = journal_##element_##_shape, .shown = JOURNAL_AS_LIST },
#define END(shape)		{ .word = NULL } } }; return &shape_; }
#define OF(shape)		BEGIN(shape)
#define END_OF(shape)		END(shape)
#include "defs/record_fields.def"

const struct journal_shape *journal_shape_of(unsigned type) {
	switch (type) {
#define TYPE(symbol, shape)	case JOURNAL_##symbol: return journal_##shape##_shape();
#include "defs/record_fields.def"
	default: return NULL;
	}
}

/* Bytes of one of its numbers; 0: it has none. */
static size_t field_size(const struct journal_field *field) {
	static const uint8_t sizes[JOURNAL_array + 1] = { [JOURNAL_u8] = 1, [JOURNAL_truth] = 1,
		[JOURNAL_kind] = 1, [JOURNAL_u16] = 2, [JOURNAL_u32] = 4, [JOURNAL_place] = 4,
		[JOURNAL_u64] = 8, [JOURNAL_time] = 8 };

	return sizes[field->kind];
}

/* How many in a row; a place is two. */
static unsigned field_numbers(const struct journal_field *field) {
	return field->kind == JOURNAL_place ? 2 : field->count;
}

uint64_t journal_field_number(const struct journal_field *field, const void *record,
    unsigned i) {
	size_t size = field_size(field);
	const char *at = (const char *)record + field->at + i * size;
	uint64_t u64;
	uint32_t u32;
	uint16_t u16;

	switch (size) {
	case 1:
		return *(const uint8_t *)at;
	case 2:
		memcpy(&u16, at, sizeof(u16));
		return u16;
	case 4:
		memcpy(&u32, at, sizeof(u32));
		return u32;
	default:
		memcpy(&u64, at, sizeof(u64));
		return u64;
	}
}

static void field_set(const struct journal_field *field, void *record, unsigned i,
    uint64_t value) {
	size_t size = field_size(field);
	char *at = (char *)record + field->at + i * size;
	uint32_t u32 = (uint32_t)value;
	uint16_t u16 = (uint16_t)value;

	switch (size) {
	case 1:
		*(uint8_t *)at = (uint8_t)(field->kind == JOURNAL_truth ? value != 0 : value);
		break;
	case 2:
		memcpy(at, &u16, sizeof(u16));
		break;
	case 4:
		memcpy(at, &u32, sizeof(u32));
		break;
	default:
		memcpy(at, &value, sizeof(value));
		break;
	}
}

const char *journal_field_word(const struct journal_field *field, const void *record) {
	return field->words((unsigned)journal_field_number(field, record, 0));
}

/* --- writing ------------------------------------------------------------------------------ */

struct record_writer {
	uint8_t *at, *end;
	bool full;
};

static void write_bytes(struct record_writer *w, const void *bytes, size_t length) {
	w->full = w->full || (size_t)(w->end - w->at) < length;
	if (w->full || length == 0)
		return;
	memcpy(w->at, bytes, length);
	w->at += length;
}

static void write_number(struct record_writer *w, uint64_t value, size_t size) {
	uint8_t bytes[8];

	put_u64(bytes, value);
	write_bytes(w, bytes, size);
}

static void write_text(struct record_writer *w, const char *text, size_t length) {
	write_number(w, length, 2);
	write_bytes(w, text, length);
}

static void write_fields(struct record_writer *w, const struct journal_shape *shape,
    const void *record);

static void write_elements(struct record_writer *w, const struct journal_shape *element,
    const void *items, uint32_t count) {
	write_number(w, count, 4);
	for (uint32_t i = 0; i < count && !w->full; i++)
		write_fields(w, element, (const char *)items + i * element->size);
}

static void write_field(struct record_writer *w, const struct journal_field *field,
    const void *record) {
	const void *at = (const char *)record + field->at;
	const struct journal_text *text = at;
	const struct journal_list *list = at;
	const char *word;
	uint32_t count;

	switch (field->kind) {
	case JOURNAL_text:
		write_text(w, text->text, text->length);
		break;
	case JOURNAL_name:
		write_text(w, at, strnlen(at, JOURNAL_POSITION_NAME));
		break;
	case JOURNAL_kind:
		word = journal_field_word(field, record);
		write_text(w, word, word == NULL ? 0 : strlen(word));
		break;
	case JOURNAL_list:
		write_elements(w, field->element(), list->items, list->count);
		break;
	case JOURNAL_array:
		count = *(const uint32_t *)(const void *)((const char *)record + field->count_at);
		write_elements(w, field->element(), at, count < field->count ? count :
		    field->count);
		break;
	default:
		for (unsigned i = 0; i < field_numbers(field); i++)
			write_number(w, journal_field_number(field, record, i),
			    field_size(field));
		break;
	}
}

static void write_fields(struct record_writer *w, const struct journal_shape *shape,
    const void *record) {
	for (const struct journal_field *field = shape->fields; field->word != NULL; field++)
		write_field(w, field, record);
}

size_t journal_record_write(const struct journal_shape *shape, uint8_t *out, size_t size,
    const void *record) {
	struct record_writer w = { .at = out, .end = out + size };

	write_fields(&w, shape, record);
	return w.full ? 0 : (size_t)(w.at - out);
}

/* --- reading ------------------------------------------------------------------------------ */

struct record_reader {
	const uint8_t *at, *end;
	bool whole;		/* an element: no field may be missing */
	bool spoiled;
};

/* NULL: they are not there. */
static const uint8_t *read_bytes(struct record_reader *r, size_t bytes) {
	const uint8_t *at = r->at;
	size_t left = (size_t)(r->end - at);

	r->spoiled = r->spoiled || (left < bytes && (left > 0 || r->whole));
	if (r->spoiled || left == 0)
		return NULL;
	r->at += bytes;
	return at;
}

static uint32_t read_count(struct record_reader *r) {
	const uint8_t *at = read_bytes(r, 4);

	return at == NULL ? 0 : get_u32(at);
}

static struct journal_text read_text(struct record_reader *r) {
	const uint8_t *at = read_bytes(r, 2);
	uint16_t length = at == NULL ? 0 : get_u16(at);

	if (length == 0)
		return (struct journal_text){ "", 0 };
	if ((size_t)(r->end - r->at) < length) {
		r->spoiled = true;
		return (struct journal_text){ "", 0 };
	}
	return (struct journal_text){ (const char *)read_bytes(r, length), length };
}

static void read_numbers(struct record_reader *r, const struct journal_field *field,
    void *record) {
	unsigned count = field_numbers(field);
	size_t size = field_size(field);
	const uint8_t *at = read_bytes(r, count * size);

	for (unsigned i = 0; i < count; i++) {
		uint8_t bytes[8] = { 0 };

		if (at != NULL)
			memcpy(bytes, at + i * size, size);
		field_set(field, record, i, get_u64(bytes));
	}
}

/* UINT8_MAX: of none, or of another build. */
static void read_kind(struct record_reader *r, const struct journal_field *field,
    void *record) {
	struct journal_text text = read_text(r);
	unsigned number = text.length == 0 ? UINT8_MAX : 0;
	const char *word;

	for (; number < UINT8_MAX; number++) {
		word = field->words(number);
		if (word == NULL)
			number = UINT8_MAX - 1;
		else if (strlen(word) == text.length &&
		    memcmp(word, text.text, text.length) == 0)
			break;
	}
	field_set(field, record, 0, number);
}

static void read_name(struct record_reader *r, char *out) {
	struct journal_text text = read_text(r);

	r->spoiled = r->spoiled || text.length > JOURNAL_POSITION_NAME;
	memset(out, 0, JOURNAL_POSITION_NAME + 1);
	if (!r->spoiled)
		memcpy(out, text.text, text.length);
}

static void read_fields(struct record_reader *r, const struct journal_shape *shape,
    void *record);

static bool read_element(struct record_reader *r, const struct journal_shape *element,
    void *out) {
	bool whole = r->whole;

	r->whole = true;
	read_fields(r, element, out);
	r->whole = whole;
	return !r->spoiled;
}

/* Looks through it: the loop ends with the bytes, whatever the count says. */
static void read_list(struct record_reader *r, const struct journal_shape *element,
    struct journal_list *out) {
	union journal_any ignored;

	out->items = NULL;
	out->count = read_count(r);
	out->at = r->at;
	for (uint32_t i = 0; i < out->count && read_element(r, element, &ignored); i++)
		;
	out->end = r->at;
}

static void read_array(struct record_reader *r, const struct journal_field *field,
    void *record) {
	const struct journal_shape *element = field->element();
	uint32_t *count = (void *)((char *)record + field->count_at);
	char *at = (char *)record + field->at;

	*count = read_count(r);
	r->spoiled = r->spoiled || *count > field->count;
	for (uint32_t i = 0; !r->spoiled && i < *count; i++)
		(void)read_element(r, element, at + i * element->size);
}

static void read_field(struct record_reader *r, const struct journal_field *field,
    void *record) {
	void *at = (char *)record + field->at;

	switch (field->kind) {
	case JOURNAL_text:
		*(struct journal_text *)at = read_text(r);
		break;
	case JOURNAL_name:
		read_name(r, at);
		break;
	case JOURNAL_kind:
		read_kind(r, field, record);
		break;
	case JOURNAL_list:
		read_list(r, field->element(), at);
		break;
	case JOURNAL_array:
		read_array(r, field, record);
		break;
	default:
		read_numbers(r, field, record);
		break;
	}
}

static void read_fields(struct record_reader *r, const struct journal_shape *shape,
    void *record) {
	for (const struct journal_field *field = shape->fields; field->word != NULL; field++)
		read_field(r, field, record);
}

bool journal_record_read(const struct journal_shape *shape, const uint8_t *payload,
    size_t length, void *record) {
	struct record_reader r = { .at = payload, .end = payload + length };

	memset(record, 0, shape->size);
	read_fields(&r, shape, record);
	return !r.spoiled;
}

bool journal_list_next(const struct journal_shape *element, struct journal_list *list,
    void *out) {
	struct record_reader r = { .at = list->at, .end = list->end };

	if (list->count == 0 || !read_element(&r, element, out))
		return false;
	list->at = r.at;
	list->count--;
	return true;
}

/* --- decisions ------------------------------------------------------------------------- */

struct journal_decision journal_decision_of(const struct decided *decided) {
	return (struct journal_decision){ .d = *decided,
		.texts = { decided->texts, decided->text_bytes } };
}

bool journal_decision_get(const struct journal_decision *decision, struct decided *out) {
	*out = decision->d;
	out->at_ns = out->until_ns = 0;
	if (decision->texts.length > sizeof(out->texts))
		return false;
	memcpy(out->texts, decision->texts.text, decision->texts.length);
	out->text_bytes = decision->texts.length;
	if (out->stage >= DECIDED_STAGES)
		out->stage = 0;
	if (out->result >= RESULT_CLASS_COUNT)
		out->result = 0;
	return decided_is_sound(out);
}
