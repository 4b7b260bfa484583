/* SPDX-License-Identifier: ISC */
/*
 *	[<22>] Nov 21 [2026] 05:48:22[.123] [2026]
 *	[<22>1 ] 2026-11-21T05:48:22[.123][Z | +01:00], "T" may be a blank
 *	1795240102.123456
 */
#include "wire/mail/log_cursor.h"
#include "wire/mail/log_line.h"

struct date {
	uint32_t year, month, day, hour, minute, second;
	int64_t ms, zone_minutes;
};

static const char month_names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* Days since 1970 of the proleptic Gregorian calendar, as in Hinnant's
 * days_from_civil: years begin in March, eras are of 400 years. */
static int64_t days_since_1970(const struct date *date) {
	int64_t year = (int64_t)date->year - (date->month <= 2);
	int64_t era = year / 400, of_era = year % 400;
	int64_t month = ((int64_t)date->month + 9) % 12;
	int64_t of_year = (153 * month + 2) / 5 + (int64_t)date->day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* ".123456", ",123", or nothing */
static void take_fraction(struct cursor *c, struct date *out) {
	int64_t scale = 100;

	if (left(c) < 2 || (*c->at != '.' && *c->at != ',') || !is_digit(c->at[1]))
		return;
	for (c->at++; c->at < c->end && is_digit(*c->at); c->at++, scale /= 10)
		out->ms += (*c->at - '0') * scale;
}

static bool take_clock(struct cursor *c, struct date *out) {
	if (!take_number(c, 23, &out->hour) || !TAKE(c, ":") ||
	    !take_number(c, 59, &out->minute) || !TAKE(c, ":") ||
	    !take_number(c, 60, &out->second))
		return false;
	take_fraction(c, out);
	return true;
}

/* "Z", "+01:00", "+0100", or nothing */
static bool take_zone(struct cursor *c, struct date *out) {
	bool west = BEGINS(c, "-");
	uint32_t hours, minutes = 0;

	if (TAKE(c, "Z") || (!west && !BEGINS(c, "+")))
		return true;
	c->at++;
	if (!take_number(c, 9999, &hours))
		return false;
	if (hours > 99) {
		minutes = hours % 100;
		hours /= 100;
	} else if (TAKE(c, ":") && !take_number(c, 59, &minutes)) {
		return false;
	}
	if (hours > 15 || minutes > 59)
		return false;
	out->zone_minutes = (int64_t)hours * 60 + minutes;
	if (west)
		out->zone_minutes = -out->zone_minutes;
	return true;
}

static bool take_numeric(struct cursor *c, struct date *out) {
	return take_number(c, 9999, &out->year) && out->year >= 1970 && TAKE(c, "-") &&
	    take_number(c, 12, &out->month) && out->month > 0 && TAKE(c, "-") &&
	    take_number(c, 31, &out->day) && out->day > 0 && (TAKE(c, "T") || TAKE(c, " ")) &&
	    take_clock(c, out) && take_zone(c, out);
}

static void pass_blanks(struct cursor *c) {
	while (TAKE(c, " "))
		;
}

static bool take_named(struct cursor *c, uint32_t year, struct date *out) {
	struct cursor ahead;
	uint32_t told;

	while (out->month < 12 && !begins(c, month_names + out->month * 3, 3))
		out->month++;
	if (left(c) < 4 || out->month++ == 12)
		return false;
	c->at += 3;
	pass_blanks(c);
	if (!take_number(c, 31, &out->day) || out->day == 0)
		return false;
	pass_blanks(c);
	out->year = year;
	ahead = *c;
	if (take_number(&ahead, 9999, &told) && TAKE(&ahead, " ")) {
		*c = ahead;
		out->year = told;
	}
	if (!take_clock(c, out))
		return false;
	ahead = *c;
	if (TAKE(&ahead, " ") && take_number(&ahead, 9999, &told) && told >= 1970 &&
	    (left(&ahead) == 0 || *ahead.at == ' '))
		out->year = told;
	return out->year >= 1970;
}

static bool take_date(struct cursor *c, uint32_t year, struct date *out) {
	*out = (struct date){ .year = 0 };
	return c->at < c->end && (is_digit(*c->at) ? take_numeric(c, out) :
	    take_named(c, year, out));
}

bool log_date_pass(struct span *head) {
	struct cursor c = { head->text, head->text + head->length };
	struct date date;
	uint32_t priority;

	if (TAKE(&c, "<") && (!take_number(&c, 191, &priority) || !TAKE(&c, ">")))
		return false;
	if (!take_date(&c, 1970, &date) || (left(&c) > 0 && *c.at != ' '))
		return false;
	*head = span_of(c.at, c.end);
	return true;
}

/* Seconds since 1970, as journals tell them on demand: of ten digits, and a fraction. */
static bool take_seconds_since_1970(struct cursor c, int64_t *ms) {
	struct date date = { .year = 0 };
	const char *start = c.at;
	uint32_t seconds;

	if (!take_number(&c, UINT32_MAX, &seconds) || c.at - start != 10 || !BEGINS(&c, "."))
		return false;
	take_fraction(&c, &date);
	*ms = (int64_t)seconds * 1000 + date.ms;
	return left(&c) > 0 && *c.at == ' ';
}

bool log_date_read(struct span head, int year, int64_t *ms) {
	struct cursor c = { head.text, head.text + head.length }, ahead;
	struct date date;
	uint32_t priority;

	if (TAKE(&c, "<") && (!take_number(&c, 999, &priority) || !TAKE(&c, ">")))
		return false;
	pass_blanks(&c);
	if (take_seconds_since_1970(c, ms))
		return true;
	/* collectors put words of their own before it */
	for (ahead = c; !take_date(&ahead, year > 1970 ? (uint32_t)year : 1970, &date);
	     ahead = c) {
		const char *blank = left(&c) == 0 ? NULL : memchr(c.at, ' ', left(&c));

		if (blank == NULL)
			return false;
		c.at = blank;
		pass_blanks(&c);
	}
	*ms = (((days_since_1970(&date) * 24 + date.hour) * 60 + date.minute -
	    date.zone_minutes) * 60 + date.second) * 1000 + date.ms;
	return true;
}
