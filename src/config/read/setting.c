/* SPDX-License-Identifier: ISC */
/*
 * The table of settings, and values against it.
 *
 * Whatever libconfig made of a bare integer is taken as it is: numbers that do
 * not fit were refused before libconfig saw them, and replaced by one value that
 * is passed over here in silence (source.c).  No state; any thread.
 */
#include "config/read/setting.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sd_log.h"
#include "base/text.h"
#include "config/generation/generation.h"
#include "config/read/listen_address.h"

#define AT_NONE		PLACE_NONE, 0, 0, false
#define AT_FIELD(owner, field) offsetof(struct owner, field), sizeof(((struct owner *)0)->field)
#define AT_TEXT(field)	PLACE_TEXT, AT_FIELD(generation, field), false
#define AT_NUMBER(field) PLACE_NUMBER, AT_FIELD(generation, field), false
#define AT_RATE(field)	PLACE_RATE, AT_FIELD(generation, field), false
#define AT_LISTENERS(kind) PLACE_LISTENERS, (kind), 0, false
/* In what is made of the element of a list, or of a group. */
#define TEXT_IN(owner, field) PLACE_TEXT, AT_FIELD(owner, field), true
#define NUMBER_IN(owner, field) PLACE_NUMBER, AT_FIELD(owner, field), true
#define RATE_IN(owner, field) PLACE_RATE, AT_FIELD(owner, field), true

#define SETTING_ROW(path, type, fallback, allowed, effect, place, offset, bytes, is_in_element, \
    help) \
	{ path, SETTING_##type, fallback, allowed, EFFECT_##effect, place, offset, bytes, \
	    is_in_element, help },
#define SETTING_SPREAD(row) SETTING_ROW row
#define SETTING(path, type, fallback, allowed, effect, at, help) \
	SETTING_SPREAD((path, type, fallback, allowed, effect, at, help))

static const struct setting main_table[] = {
#include "defs/settings.def"

};
static const struct setting providers_table[] = {
#include "defs/providers.def"

};
static const struct setting scenario_table[] = {
#include "defs/scenario.def"

};

static const struct {
	const struct setting *rows;
	size_t count;
} books[] = {
	[BOOK_MAIN] = { main_table, sizeof(main_table) / sizeof(main_table[0]) },
	[BOOK_PROVIDERS] = { providers_table,
	    sizeof(providers_table) / sizeof(providers_table[0]) },
	[BOOK_SCENARIO] = { scenario_table, sizeof(scenario_table) / sizeof(scenario_table[0]) },
};

const struct setting *settings_in(enum setting_book book, size_t *count) {
	*count = books[book].count;
	return books[book].rows;
}

const struct setting *settings(size_t *count) {
	return settings_in(BOOK_MAIN, count);
}

#define PLACES 2048	/* a power of two, far above the number of settings */

/* A site may have 60,000 classes, each asked about 50 times.  1 + row, by hash; 0: free. */
static uint16_t rows_by_hash[sizeof(books) / sizeof(books[0])][PLACES];

static uint32_t hash_path(const char *path) {
	uint32_t hash = UINT32_C(0x811c9dc5);

	for (; *path != '\0'; path++)
		hash = (hash ^ (unsigned char)*path) * UINT32_C(0x01000193);
	return (hash ^ hash >> 15) & (PLACES - 1);
}

/* Where the path is, or where it belongs. */
static uint16_t *find_place(enum setting_book book, const char *path) {
	uint32_t at = hash_path(path);

	while (rows_by_hash[book][at] != 0 &&
	    strcmp(books[book].rows[rows_by_hash[book][at] - 1].path, path) != 0)
		at = (at + 1) & (PLACES - 1);
	return &rows_by_hash[book][at];
}

static void fill_places(enum setting_book book) {
	for (size_t i = books[book].count; i-- > 0;)
		*find_place(book, books[book].rows[i].path) = (uint16_t)(i + 1);
}

const struct setting *setting_find_in(enum setting_book book, const char *path) {
	static bool filled[sizeof(books) / sizeof(books[0])];
	uint16_t row;

	if (!filled[book])
		fill_places(book);
	filled[book] = true;
	row = *find_place(book, path);
	return row == 0 ? NULL : &books[book].rows[row - 1];
}

const struct setting *setting_find(const char *path) {
	return setting_find_in(BOOK_MAIN, path);
}

static const struct {
	const char *path, *old_name;
} renamed[] = {
#define RENAMED_SETTING(path, old_name) { path, old_name },
#include "defs/renamed.def"
};

const char *setting_old_name(const char *path) {
	for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
		if (strcmp(renamed[i].path, path) == 0)
			return renamed[i].old_name;
	return NULL;
}

/* The last word of the path, if it stands in this group; else NULL. */
static const char *word_in_group(const char *path, const char *group) {
	const char *point = strrchr(path, '.');
	size_t length = strlen(group);

	if ((point == NULL ? 0 : (size_t)(point - path)) != length ||
	    strncmp(path, group, length) != 0)
		return NULL;
	return point == NULL ? path : point + 1;
}

const struct setting *setting_renamed(const char *group, const char *old_name) {
	for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
		if (strcmp(renamed[i].old_name, old_name) == 0 &&
		    word_in_group(renamed[i].path, group) != NULL)
			return setting_find(renamed[i].path);
	return NULL;
}

const char *setting_nearest(enum setting_book book, const char *group, const char *name) {
	const struct setting *table = books[book].rows;
	size_t length = strlen(name);
	unsigned nearest = length < 4 ? 2 : length < 8 ? 3 : 4;
	const char *found = NULL;

	for (size_t i = 0; i < books[book].count; i++) {
		const char *word = word_in_group(table[i].path, group);
		unsigned distance = word == NULL ? nearest : text_distance(name, word);

		if (distance < nearest) {
			nearest = distance;
			found = word;
		}
	}
	for (size_t i = 0; book == BOOK_MAIN && i < sizeof(renamed) / sizeof(renamed[0]); i++) {
		const char *word = word_in_group(renamed[i].path, group);
		unsigned distance = word == NULL ? nearest :
		    text_distance(name, renamed[i].old_name);

		if (distance < nearest) {
			nearest = distance;
			found = word;
		}
	}
	return found;
}

const char *setting_spoken(const char *path, char out[SETTING_PATH_MAX]) {
	size_t length = 0;

	for (; *path != '\0' && length < SETTING_PATH_MAX - 1; path++) {
		if (*path == '[' || *path == ']')
			continue;
		if (*path == '*')
			length -= length > 0;	/* the point before it */
		else
			out[length++] = *path;
	}
	out[length] = '\0';
	return out;
}

const struct setting *setting_elsewhere(enum setting_book book, const char *name) {
	const struct setting *table = books[book].rows;
	const struct setting *found = NULL;
	unsigned nearest = strlen(name) < 4 ? 1 : 2;

	for (size_t i = 0; i < books[book].count; i++) {
		const char *point = strrchr(table[i].path, '.');
		unsigned distance = text_distance(name, point ? point + 1 : table[i].path);

		if (distance < nearest) {
			nearest = distance;
			found = &table[i];
		}
	}
	return found;
}

static void explain(char *why, size_t size, const char *what, const char *text,
    const char *should) {
	char quoted[128];

	snprintf(why, size, "\"%s\" %s %s",
	    log_sentence(quoted, sizeof(quoted), text), what, should);
}

/* The bounds of a row in the type's own units. */
static bool bounds(const struct setting *setting, int64_t *low, int64_t *high) {
	const char *dots = strstr(setting->allowed, "..");
	char first[32];
	uint64_t number;

	if (dots == NULL ||
	    !text_copy(first, sizeof(first), setting->allowed, (size_t)(dots - setting->allowed)))
		return false;
	if (setting->type == SETTING_DURATION)
		return text_to_duration_ns(first, low) && text_to_duration_ns(dots + 2, high);
	if (!text_to_size(first, &number))
		return false;
	*low = (int64_t)number;
	if (!text_to_size(dots + 2, &number))
		return false;
	*high = (int64_t)number;
	return true;
}

static bool within_bounds(const struct setting *setting, int64_t number,
    const char *written, char *why, size_t why_size) {
	int64_t low, high;

	if (!bounds(setting, &low, &high) || (number >= low && number <= high))
		return true;
	explain(why, why_size, "is not within", written, setting->allowed);
	return false;
}

static bool parse_word(const struct setting *setting, const char *text,
    struct setting_value *out, char *why, size_t why_size) {
	const char *word = setting->allowed;

	for (int64_t place = 0; word != NULL; place++) {
		const char *end = strchr(word, '|');
		size_t length = end ? (size_t)(end - word) : strlen(word);

		if (strlen(text) == length && memcmp(word, text, length) == 0) {
			out->number = place;
			return true;
		}
		word = end ? end + 1 : NULL;
	}
	explain(why, why_size, "is not one of", text, setting->allowed);
	return false;
}

static bool parse_mode(const char *text, struct setting_value *out,
    char *why, size_t why_size) {
	size_t length = strspn(text, "01234567");
	int64_t mode = 0;

	if (length < 3 || length > 4 || text[length] != '\0' ||
	    (length == 4 && text[0] != '0')) {
		explain(why, why_size, "is not a mode such as", text, "\"0660\"");
		return false;
	}
	for (size_t i = 0; i < length; i++)
		mode = mode * 8 + (text[i] - '0');
	out->number = mode;
	return true;
}

static bool parse_words_of_text(const struct setting *setting, const char *text,
    struct setting_value *out, char *why, size_t why_size) {
	size_t length = strlen(text);
	int64_t low, high;
	char lowest = setting->type == SETTING_TEXT ? ' ' : '!';
	bool is_path = setting->type == SETTING_PATH || setting->type == SETTING_LOG ||
	    setting->type == SETTING_PATH_OR_NONE;

	for (size_t i = 0; i < length; i++)
		if (text[i] < lowest || text[i] > '~') {
			explain(why, why_size, "may only have printable ASCII characters",
			    text, lowest == ' ' ? "on one line" : "without spaces");
			return false;
		}
	if (bounds(setting, &low, &high) && ((int64_t)length < low || (int64_t)length > high)) {
		snprintf(why, why_size, "must have %s characters, not %zu",
		    setting->allowed, length);
		return false;
	}
	if (setting->type == SETTING_PATH_OR_NONE && strcmp(text, "none") == 0) {
		out->text = NULL;
		return true;
	}
	/* where it may be empty it stands for none */
	if (is_path && text[0] != '/' && (length > 0 || setting->type == SETTING_PATH_OR_NONE) &&
	    (setting->type != SETTING_LOG || !sd_log_is(text))) {
		explain(why, why_size, "must be an absolute path,", text,
		    setting->type == SETTING_PATH ? "beginning with /" :
		    setting->type == SETTING_LOG ? "beginning with /, or journal:" :
		    "beginning with /, or none");
		return false;
	}
	out->text = text;
	return true;
}

static bool parse_address(const char *text, struct setting_value *out,
    char *why, size_t why_size) {
	struct listen_address address;
	const char *reason;

	if (!listen_address_parse(text, &address, &reason)) {
		explain(why, why_size, "is not an address:", text, reason);
		return false;
	}
	out->text = text;
	return true;
}

static bool parse_feedback(const char *text, struct setting_value *out,
    char *why, size_t why_size) {
	memset(&out->feedback, 0, sizeof(out->feedback));	/* its padding, too, is stored */
	if (window_feedback_parse(text, strlen(text), &out->feedback))
		return true;
	explain(why, why_size, "is not a feedback: it must be", text,
	    "a number or fraction from 0 to 1, \"1/concurrency\" or \"1/sqrt_concurrency\"");
	return false;
}

static bool parse_quota(const struct setting *setting, const char *text,
    struct setting_value *out, char *why, size_t why_size) {
	const char *slash = strchr(text, '/');
	char number[32], period[32];
	uint64_t count = 0;

	if (slash == NULL || !text_copy(number, sizeof(number), text, (size_t)(slash - text)) ||
	    !text_to_size(number, &count) || count > INT64_MAX ||
	    snprintf(period, sizeof(period), "%s%s", strchr("0123456789", slash[1]) == NULL ?
		"1" : "", slash + 1) >= (int)sizeof(period) ||
	    !text_to_duration_ns(period, &out->period_ns)) {
		explain(why, why_size, "is not a limit such as", text, "\"100/1h\" or \"500/1d\"");
		return false;
	}
	if (out->period_ns < QUOTA_PERIOD_LEAST_S * NS_PER_SECOND ||
	    out->period_ns > QUOTA_PERIOD_MOST_S * NS_PER_SECOND ||
	    out->period_ns % NS_PER_SECOND != 0) {
		explain(why, why_size, "has a time that is not", text,
		    "within 1m..31d, in whole seconds");
		return false;
	}
	out->number = (int64_t)count;
	return within_bounds(setting, out->number, text, why, why_size);
}

bool setting_parse_text(const struct setting *setting, const char *text,
    struct setting_value *out, char *why, size_t why_size) {
	uint64_t size;
	uint32_t count;

	switch (setting->type) {
	case SETTING_FLAG:
		out->number = strcmp(text, "true") == 0;
		return true;
	case SETTING_NUMBER: case SETTING_NUMBERS: case SETTING_PORTS: case SETTING_SIZE:
		if (!text_to_size(text, &size) || size > INT64_MAX) {
			explain(why, why_size, "is not a number such as", text, "\"300\" or \"64k\"");
			return false;
		}
		out->number = (int64_t)size;
		return within_bounds(setting, out->number, text, why, why_size);
	case SETTING_DURATION:
		if (!text_to_duration_ns(text, &out->number)) {
			explain(why, why_size, "is not a time such as", text, "\"90s\" or \"10m\"");
			return false;
		}
		return within_bounds(setting, out->number, text, why, why_size);
	case SETTING_RATE:
		if (!text_to_rate(text, &count, &out->period_ns)) {
			explain(why, why_size, "is not a rate such as", text, "\"60/1m\"");
			return false;
		}
		out->number = count;
		return true;
	case SETTING_QUOTAS:
		return parse_quota(setting, text, out, why, why_size);
	case SETTING_WORD: case SETTING_WORDS:
		return parse_word(setting, text, out, why, why_size);
	case SETTING_MODE:
		return parse_mode(text, out, why, why_size);
	case SETTING_ADDRESS: case SETTING_LISTEN:
		return parse_address(text, out, why, why_size);
	case SETTING_MASKS:
		out->text = text;	/* classes.c knows masks */
		return true;
	case SETTING_TEXT: case SETTING_WORD_TEXT: case SETTING_PATH: case SETTING_PATH_OR_NONE:
	case SETTING_LOG:
	case SETTING_TEXTS:
		return parse_words_of_text(setting, text, out, why, why_size);
	case SETTING_FEEDBACK:
		return parse_feedback(text, out, why, why_size);
	case SETTING_GROUP: case SETTING_GROUPS: case SETTING_WINDOW:
	case SETTING_REPLIES:
		break;
	}
	snprintf(why, why_size, "must be a group");
	return false;
}

/* What a value of this type looks like. */
static const char *shape(const struct setting *setting) {
	switch (setting->type) {
	case SETTING_FLAG:
		return "true or false";
	case SETTING_NUMBER: case SETTING_NUMBERS:
		return "a number";
	case SETTING_PORTS:
		return "port numbers, such as [ 25 ]";
	case SETTING_SIZE:
		return "a size in quotes, such as \"64k\"";
	case SETTING_DURATION:
		return "a time in quotes, such as \"90s\"";
	case SETTING_QUOTAS:
		return "limits in quotes, such as [ \"100/1h\", \"500/1d\" ]";
	case SETTING_RATE:
		return "a rate in quotes, such as \"60/1m\"";
	case SETTING_MODE:
		return "a mode in quotes, such as \"0660\"";
	case SETTING_MASKS:
		return "masks in quotes, such as [ \"*.example\", \"192.0.2.0/24\" ]";
	case SETTING_FEEDBACK:
		return "a number from 0 to 1, or text such as \"1/concurrency\"";
	case SETTING_ADDRESS: case SETTING_LISTEN:
		return "an address in quotes, such as \"unix:/path\"";
	default:
		return "text in quotes";
	}
}

static const char *found(const config_setting_t *value) {
	switch (config_setting_type(value)) {
	case CONFIG_TYPE_GROUP:
		return "a group { }";
	case CONFIG_TYPE_LIST:
		return "a list ( )";
	case CONFIG_TYPE_ARRAY:
		return "an array [ ]";
	case CONFIG_TYPE_INT: case CONFIG_TYPE_INT64:
		return "a bare number";
	case CONFIG_TYPE_FLOAT:
		return "a number with a decimal point";
	case CONFIG_TYPE_BOOL:
		return "true or false";
	default:
		return "text";
	}
}

bool setting_parse(const struct setting *setting, const config_setting_t *value,
    struct setting_value *out, char *why, size_t why_size) {
	int type = config_setting_type(value);
	char digits[32];

	memset(out, 0, sizeof(*out));
	if (type == CONFIG_TYPE_BOOL && setting->type == SETTING_FLAG) {
		out->number = config_setting_get_bool(value) != 0;
		return true;
	}
	if (type == CONFIG_TYPE_STRING && setting->type != SETTING_FLAG &&
	    setting->type != SETTING_GROUP && setting->type != SETTING_GROUPS &&
	    setting->type != SETTING_WINDOW && setting->type != SETTING_REPLIES)
		return setting_parse_text(setting, config_setting_get_string(value), out,
		    why, why_size);
	if (type == CONFIG_TYPE_INT || type == CONFIG_TYPE_INT64) {
		out->number = config_setting_get_int64(value);
		if (type == CONFIG_TYPE_INT && out->number == SETTING_UNREADABLE) {
			out->number = 1;
			return true;
		}
		snprintf(digits, sizeof(digits), "%lld", (long long)out->number);
		switch (setting->type) {
		case SETTING_NUMBER: case SETTING_NUMBERS: case SETTING_PORTS:
		case SETTING_SIZE:
			return within_bounds(setting, out->number, digits, why, why_size);
		case SETTING_MODE:	/* source.c has 0660 read as 660; 0x1b0 is no mode */
			if (config_setting_get_format(value) == CONFIG_FORMAT_DEFAULT)
				return parse_mode(digits, out, why, why_size);
			break;
		case SETTING_FEEDBACK:
			return parse_feedback(digits, out, why, why_size);
		default:
			break;
		}
	}
	if (type == CONFIG_TYPE_FLOAT && setting->type == SETTING_FEEDBACK) {
		snprintf(digits, sizeof(digits), "%.9f", config_setting_get_float(value));
		return parse_feedback(digits, out, why, why_size);
	}
	snprintf(why, why_size, "must be %s, not %s", shape(setting), found(value));
	return false;
}

unsigned setting_element_count(const config_setting_t *value) {
	switch (config_setting_type(value)) {
	case CONFIG_TYPE_LIST: case CONFIG_TYPE_ARRAY:
		return (unsigned)config_setting_length(value);
	default:
		return 1;
	}
}

const config_setting_t *setting_element(const config_setting_t *value, unsigned index) {
	switch (config_setting_type(value)) {
	case CONFIG_TYPE_LIST: case CONFIG_TYPE_ARRAY:
		return config_setting_get_elem(value, index);
	default:
		return value;
	}
}
