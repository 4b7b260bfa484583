/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Tell the files of a log by their names.
 * MODEL    A pattern is matched piece by piece; only * can match in several ways, and
 *          is tried from the longest to the shortest.
 */
#include "base/path_pattern.h"

#include <string.h>

#define STARS_MAX	4	/* each multiplies the ways */

static const char month_names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

enum field { YEAR, MONTH, WEEK, YEAR_DAY, DAY, HOUR, MINUTE, SECOND, FIELDS };

/* A number of a fixed width. */
struct conversion {
	char letter;
	uint8_t digits;
	uint8_t field;
	uint16_t max;
};

static const struct conversion conversions[] = {
	{ 'Y', 4, YEAR, 9999 }, { 'G', 4, YEAR, 9999 }, { 'y', 2, YEAR, 99 },
	{ 'm', 2, MONTH, 12 }, { 'b', 0, MONTH, 12 }, { 'd', 2, DAY, 31 },
	{ 'H', 2, HOUR, 23 }, { 'M', 2, MINUTE, 59 }, { 'S', 2, SECOND, 60 },
	{ 'j', 3, YEAR_DAY, 366 }, { 'U', 2, WEEK, 53 }, { 'W', 2, WEEK, 53 },
	{ 'V', 2, WEEK, 53 },
};

struct order {
	uint64_t field[FIELDS];
	uint64_t seconds;	/* %s */
	bool dated;
};

static const struct conversion *find_conversion(char letter) {
	for (size_t i = 0; i < sizeof(conversions) / sizeof(conversions[0]); i++)
		if (conversions[i].letter == letter)
			return &conversions[i];
	return NULL;
}

static bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

bool path_pattern_is_plain(const char *pattern) {
	return strpbrk(pattern, "%*?[") == NULL;
}

/* Behind the ] of a set that begins at `set`, or NULL. */
static const char *set_end(const char *set) {
	const char *at = set + 1;

	if (*at == '!' || *at == '^')
		at++;
	if (*at == ']')
		at++;
	while (*at != ']' && *at != '\0' && *at != '/')
		at++;
	return *at == ']' ? at + 1 : NULL;
}

const char *path_pattern_fault(const char *pattern) {
	bool dated = false, year = false;
	unsigned stars = 0;

	for (const char *at = pattern; *at != '\0'; at++) {
		const struct conversion *conversion;

		if (*at == '*' && ++stars > STARS_MAX)
			return "has more than 4 *";
		if (*at == '[' && set_end(at) == NULL)
			return "has a [ without a ]";
		if (*at != '%')
			continue;
		conversion = find_conversion(*++at);
		if (conversion == NULL && (*at == '\0' || strchr("%Fs", *at) == NULL))
			return "has a % that is not followed by one of Y y m b d H M S j U V W "
			    "G F s %";
		dated |= conversion != NULL;
		year |= *at == 'F' || (conversion != NULL && conversion->field == YEAR);
	}
	/* such names come again, and which is the last one nobody can tell */
	return dated && !year ? "has a date without a year (%Y or %y)" : NULL;
}

/* --- for glob(3) ------------------------------------------------------------- */

struct text {
	char *out;
	size_t size, length;
	bool cut;
};

static void glob_add(struct text *text, const char *piece, size_t length) {
	if (text->length + length >= text->size) {
		text->cut = true;
		return;
	}
	memcpy(text->out + text->length, piece, length);
	text->length += length;
	text->out[text->length] = '\0';
}

static void add_digits(struct text *text, unsigned count) {
	while (count-- > 0)
		glob_add(text, "[0-9]", 5);
}

static void add_conversion(struct text *text, char letter) {
	const struct conversion *conversion = find_conversion(letter);

	if (letter == '%')
		glob_add(text, "%", 1);
	else if (letter == 's')
		glob_add(text, "[0-9]*", 6);
	else if (letter == 'F') {
		add_digits(text, 4);
		glob_add(text, "-", 1);
		add_digits(text, 2);
		glob_add(text, "-", 1);
		add_digits(text, 2);
	} else if (letter == 'b')
		glob_add(text, "???", 3);
	else if (conversion != NULL)
		add_digits(text, conversion->digits);
}

bool path_pattern_glob(const char *pattern, char *out, size_t size) {
	struct text text = { out, size, 0, false };

	if (size == 0)
		return false;
	*out = '\0';
	for (const char *at = pattern; *at != '\0'; at++) {
		if (*at == '%' && at[1] != '\0')
			add_conversion(&text, *++at);
		else
			glob_add(&text, at, 1);
	}
	return !text.cut;
}

/* --- matching ------------------------------------------------------------------ */

/* The conversion's digits: moves *path behind them. */
static bool take_number(const struct conversion *conversion, const char **path,
    struct order *order) {
	uint64_t number = 0;

	if (conversion->letter == 'b') {
		while (number < 12 && memcmp(month_names + 3 * number, *path,
		    strnlen(*path, 3) == 3 ? 3 : 0) != 0)
			number++;
		if (strnlen(*path, 3) < 3 || number++ == 12)
			return false;
		*path += 3;
	} else {
		for (unsigned i = 0; i < conversion->digits; i++, ++*path) {
			if (!is_digit(**path))
				return false;
			number = number * 10 + (uint64_t)(**path - '0');
		}
	}
	if (number > conversion->max)
		return false;
	order->field[conversion->field] = conversion->letter == 'y' ? number + 2000 : number;
	order->dated = true;
	return true;
}

static bool take_conversion(char letter, const char **path, struct order *order) {
	const struct conversion *conversion = find_conversion(letter);

	switch (letter) {
	case '%':
		return *(*path)++ == '%';
	case 'F':
		return take_number(find_conversion('Y'), path, order) && *(*path)++ == '-' &&
		    take_number(find_conversion('m'), path, order) && *(*path)++ == '-' &&
		    take_number(find_conversion('d'), path, order);
	case 's':
		if (!is_digit(**path))
			return false;
		for (order->seconds = 0; is_digit(**path); ++*path)
			order->seconds = order->seconds * 10 + (uint64_t)(**path - '0');
		return true;
	default:
		return conversion != NULL && take_number(conversion, path, order);
	}
}

static bool is_in_set(const char *set, const char *end, char c) {
	bool negated = set[1] == '!' || set[1] == '^', found = false;
	const char *at = set + 1 + negated;

	do {
		bool range = at[1] == '-' && at + 2 < end - 1;

		if (range ? *at <= c && c <= at[2] : *at == c)
			found = true;
		at += range ? 3 : 1;
	} while (at < end - 1);
	return found != negated;
}

static bool is_compressed(const char *path) {
	static const char *const ends[] = { ".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z" };
	size_t length = strlen(path);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t end = strlen(ends[i]);

		if (length >= end && strcmp(path + length - end, ends[i]) == 0)
			return true;
	}
	return false;
}

static bool path_match(const char *pattern, const char *path, struct order *order);

static bool match_star(const char *pattern, const char *path, struct order *order) {
	size_t most = strcspn(path, "/");

	if (*pattern == '\0')
		return path[most] == '\0' && !is_compressed(path);
	do {
		struct order ahead = *order;

		if (path_match(pattern, path + most, &ahead)) {
			*order = ahead;
			return true;
		}
	} while (most-- > 0);
	return false;
}

static bool path_match(const char *pattern, const char *path, struct order *order) {
	for (; *pattern != '\0' && *pattern != '*'; pattern++) {
		const char *end;

		if (*path == '\0')
			return false;
		if (*pattern == '%') {
			if (!take_conversion(*++pattern, &path, order))
				return false;
			continue;
		}
		end = *pattern == '[' ? set_end(pattern) : NULL;
		if (end != NULL) {
			if (*path == '/' || !is_in_set(pattern, end, *path))
				return false;
			pattern = end - 1;
		} else if (*pattern == '?' ? *path == '/' : *pattern != *path) {
			return false;
		}
		path++;
	}
	return *pattern == '*' ? match_star(pattern + 1, path, order) : *path == '\0';
}

bool path_pattern_match(const char *pattern, const char *path, uint64_t *order) {
	static const uint64_t sizes[FIELDS] = { 10000, 13, 54, 367, 32, 24, 60, 61 };
	struct order found = { .dated = false };

	if (path_pattern_fault(pattern) != NULL || !path_match(pattern, path, &found))
		return false;
	*order = found.seconds;
	for (unsigned i = 0; found.dated && i < FIELDS; i++)
		*order = i == 0 ? found.field[i] : *order * sizes[i] + found.field[i];
	return true;
}

/* strverscmp(3) without its rules for leading zeros. */
static int compare_names(const char *a, const char *b) {
	while (*a != '\0' && *b != '\0') {
		size_t digits_a, digits_b;
		int order;

		if (!is_digit(*a) || !is_digit(*b)) {
			if (*a != *b)
				return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
			a++;
			b++;
			continue;
		}
		a += strspn(a, "0");
		b += strspn(b, "0");
		digits_a = strspn(a, "0123456789");
		digits_b = strspn(b, "0123456789");
		if (digits_a != digits_b)
			return digits_a < digits_b ? -1 : 1;
		order = memcmp(a, b, digits_a);
		if (order != 0)
			return order < 0 ? -1 : 1;
		a += digits_a;
		b += digits_b;
	}
	return (*a != '\0') - (*b != '\0');
}

int path_pattern_compare(const char *a, uint64_t order_a, const char *b, uint64_t order_b) {
	if (order_a != order_b)
		return order_a < order_b ? -1 : 1;
	return compare_names(a, b);
}
