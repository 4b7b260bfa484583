/* SPDX-License-Identifier: ISC */
/*
 * What nodes tell each other of destinations.
 *
 * MODEL: fields between blanks, their parts between commas; each reader takes a part off
 * the front of what is left, and says whether it made sense.
 * ERRORS: one part without sense, and there is no record.
 * THREADS: pure.
 */
#include "wire/cluster/knowledge_text.h"

#include <string.h>

#include "base/decision_id.h"
#include "base/text.h"
#include "wire/ask/span.h"

#define MS_NS		INT64_C(1000000)
#define STATEMENTS	(KNOWLEDGE_RESUME + 1)

static const char *const statements[STATEMENTS] = {
	[KNOWLEDGE_SUSPEND] = "suspend", [KNOWLEDGE_HOLD] = "hold",
	[KNOWLEDGE_RESUME] = "resume",
};

/* Of what was learned; "": it is not told. */
static const char *const bys[] = {
	[KNOWLEDGE_BY_UNKNOWN] = "", [KNOWLEDGE_BY_COHORTS] = "cohorts",
	[KNOWLEDGE_BY_RULE] = "rule",
};
#define BYS	(sizeof(bys) / sizeof(bys[0]))

/* --- writing -------------------------------------------------------------------------- */

static bool is_plain(char c) {
	return c > ' ' && c <= '~' && c != '%' && c != ',';
}

static size_t append_reason(char *out, size_t size, size_t length, const char *reason) {
	for (size_t i = 0; reason[i] != '\0' && i < KNOWLEDGE_REASON_MAX; i++)
		length = text_append(out, size, length, is_plain(reason[i]) ? "%c" : "%%%02X",
		    (unsigned char)reason[i]);
	return length;
}

/* "12000", or "-" for ever. */
static size_t append_left(char *out, size_t size, size_t length, int64_t until_ns,
    int64_t now_ns) {
	int64_t left = until_ns <= now_ns ? 0 : (until_ns - now_ns) / MS_NS;

	if (until_ns == INT64_MAX)
		return text_append(out, size, length, "-");
	return text_append(out, size, length, "%lld",
	    (long long)(left < KNOWLEDGE_LEFT_MAX_MS ? left : KNOWLEDGE_LEFT_MAX_MS));
}

/* Which decisions of that node they were. */
static size_t append_decisions(char *out, size_t size, size_t length,
    const struct knowledge_told *told) {
	char id[DECISION_ID_MAX];

	if (told->record.manual.stamp != 0 && told->manual_id != 0)
		length = text_append(out, size, length, " i=%s",
		    decision_id_text(told->manual_id, id));
	if (told->record.learned.stamp != 0 && told->learned_by != KNOWLEDGE_BY_UNKNOWN)
		length = text_append(out, size, length, " j=%s,%s",
		    decision_id_text(told->learned_id, id), bys[told->learned_by]);
	return length;
}

size_t knowledge_text_write(const struct knowledge_told *told, int64_t now_ns, char *out) {
	const struct knowledge_record *r = &told->record;
	const size_t size = KNOWLEDGE_TEXT_MAX;
	size_t length = 0;

	out[0] = '\0';
	if (r->manual.stamp != 0) {
		length = text_append(out, size, length, "m=%s,%llu,",
		    statements[r->manual.what], (unsigned long long)r->manual.stamp);
		length = append_left(out, size, length, r->manual.what == KNOWLEDGE_RESUME ?
		    0 : r->manual.until_ns, now_ns);
		length = text_append(out, size, length, ",");
		length = append_reason(out, size, length, told->manual_reason);
	}
	if (r->learned.stamp != 0) {
		length = text_append(out, size, length, "%sl=%llu,", length > 0 ? " " : "",
		    (unsigned long long)r->learned.stamp);
		length = append_left(out, size, length, r->learned.until_ns, now_ns);
		length = text_append(out, size, length, ",");
		length = append_reason(out, size, length, told->learned_reason);
	}
	if (r->ceiling.stamp != 0)
		length = text_append(out, size, length, "%sc=%llu,%u,%s", length > 0 ? " " : "",
		    (unsigned long long)r->ceiling.stamp, r->ceiling.level,
		    r->ceiling.by_hand ? "told" : "found");
	if (r->raised.stamp != 0)
		length = text_append(out, size, length, "%sr=%llu,%u", length > 0 ? " " : "",
		    (unsigned long long)r->raised.stamp, r->raised.level);
	return append_decisions(out, size, length, told);
}

/* --- reading --------------------------------------------------------------------------- */

/* Decimal digits, at most `most`. */
static bool read_number(struct span digits, uint64_t most, uint64_t *out) {
	*out = 0;
	if (digits.length == 0 || digits.length > 19)
		return false;
	for (size_t i = 0; i < digits.length; i++) {
		if (digits.text[i] < '0' || digits.text[i] > '9')
			return false;
		*out = *out * 10 + (uint64_t)(digits.text[i] - '0');
	}
	return *out <= most;
}

static bool read_stamp(struct span *rest, uint64_t *out) {
	return read_number(span_until(rest, ','), KNOWLEDGE_STAMP_MAX, out) && *out != 0;
}

static bool read_level(struct span *rest, uint16_t *out) {
	uint64_t level;

	if (!read_number(span_until(rest, ','), UINT16_MAX, &level))
		return false;
	*out = (uint16_t)level;
	return true;
}

struct reading {
	int64_t age_ms, now_ns;
	struct knowledge_told *told;
};

static bool read_until(const struct reading *reading, struct span *rest, int64_t *until_ns) {
	struct span left = span_until(rest, ',');
	uint64_t ms;

	*until_ns = INT64_MAX;
	if (span_is(left, "-"))
		return true;
	if (!read_number(left, (uint64_t)KNOWLEDGE_LEFT_MAX_MS, &ms))
		return false;
	*until_ns = (int64_t)ms <= reading->age_ms ? reading->now_ns :
	    reading->now_ns + ((int64_t)ms - reading->age_ms) * MS_NS;
	return true;
}

/* What is not printable is a question mark, as in the state. */
static bool read_reason(struct span from, char out[KNOWLEDGE_REASON_MAX + 1]) {
	size_t length = 0;

	for (size_t i = 0; i < from.length; i++) {
		int c = (unsigned char)from.text[i];

		if (c == '%') {
			c = text_hex_byte(from.text + i + 1, from.text + from.length);
			if (c < 0)
				return false;
			i += 2;
		}
		if (length == KNOWLEDGE_REASON_MAX)
			return false;
		out[length++] = c >= ' ' && c <= '~' ? (char)c : '?';
	}
	out[length] = '\0';
	return true;
}

static bool read_manual(const struct reading *reading, struct span rest) {
	struct knowledge_told *told = reading->told;
	struct span word = span_until(&rest, ',');
	unsigned what = 0;

	while (what < STATEMENTS && !span_is(word, statements[what]))
		what++;
	if (what == STATEMENTS || told->record.manual.stamp != 0)
		return false;
	told->record.manual.what = (enum knowledge_what)what;
	return read_stamp(&rest, &told->record.manual.stamp) &&
	    read_until(reading, &rest, &told->record.manual.until_ns) &&
	    read_reason(rest, told->manual_reason);
}

static bool read_learned(const struct reading *reading, struct span rest) {
	struct knowledge_told *told = reading->told;

	return told->record.learned.stamp == 0 &&
	    read_stamp(&rest, &told->record.learned.stamp) &&
	    read_until(reading, &rest, &told->record.learned.until_ns) &&
	    told->record.learned.until_ns != INT64_MAX &&
	    read_reason(rest, told->learned_reason);
}

static bool read_ceiling(const struct reading *reading, struct span rest) {
	struct knowledge_record *r = &reading->told->record;

	if (r->ceiling.stamp != 0 || !read_stamp(&rest, &r->ceiling.stamp) ||
	    !read_level(&rest, &r->ceiling.level))
		return false;
	r->ceiling.by_hand = span_is(rest, "told");
	return r->ceiling.by_hand || span_is(rest, "found");
}

static bool read_raised(const struct reading *reading, struct span rest) {
	struct knowledge_record *r = &reading->told->record;

	return r->raised.stamp == 0 && read_stamp(&rest, &r->raised.stamp) &&
	    read_level(&rest, &r->raised.level) && rest.length == 0;
}

static bool read_id(struct span word, uint64_t *id) {
	return *id == 0 && word.length < DECISION_ID_MAX &&
	    decision_id_parse(word.text, word.length, id) && *id != 0;
}

static bool read_learned_by(const struct reading *reading, struct span rest) {
	struct knowledge_told *told = reading->told;
	struct span id = span_until(&rest, ',');
	unsigned by = KNOWLEDGE_BY_COHORTS;

	while (by < BYS && !span_is(rest, bys[by]))
		by++;
	if (by == BYS || told->learned_by != KNOWLEDGE_BY_UNKNOWN)
		return false;
	told->learned_by = (enum knowledge_by)by;
	return span_is(id, "-") || read_id(id, &told->learned_id);
}

static bool read_field(const struct reading *reading, struct span field) {
	struct span value = { field.text + 2, field.length - 2 };

	if (field.length < 2 || field.text[1] != '=' || field.text[0] < 'a' ||
	    field.text[0] > 'z')
		return false;
	switch (field.text[0]) {
	case 'm':
		return read_manual(reading, value);
	case 'l':
		return read_learned(reading, value);
	case 'c':
		return read_ceiling(reading, value);
	case 'r':
		return read_raised(reading, value);
	case 'i':
		return read_id(value, &reading->told->manual_id);
	case 'j':
		return read_learned_by(reading, value);
	default:
		return true;
	}
}

bool knowledge_text_read(const char *text, size_t length, int64_t age_ms, int64_t now_ns,
    struct knowledge_told *out) {
	struct reading reading = { age_ms < 0 ? 0 : age_ms, now_ns, out };
	struct span rest = { text, length };

	memset(out, 0, sizeof(*out));
	if (length == 0 || length > 2 * KNOWLEDGE_TEXT_MAX)
		return false;
	while (rest.length > 0)
		if (!read_field(&reading, span_until(&rest, ' ')))
			return false;
	return true;
}

bool knowledge_news_read(const char *text, size_t length, struct knowledge_news *out) {
	struct span rest = { text, length };

	if (!read_number(span_until(&rest, ' '), INT64_MAX, &out->number))
		return false;
	out->node = span_until(&rest, ' ');
	out->name = span_until(&rest, ' ');
	out->record = rest;
	return out->node.length > 0 && out->name.length > 0;
}

bool knowledge_stored_read(const char *text, size_t length, int64_t *written_ms,
    struct span *record) {
	struct span rest = { text, length };
	uint64_t ms;

	if (!read_number(span_until(&rest, ' '), INT64_MAX, &ms))
		return false;
	*written_ms = (int64_t)ms;
	*record = rest;
	return rest.length > 0;
}
