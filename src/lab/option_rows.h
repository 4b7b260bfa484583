/* SPDX-License-Identifier: ISC */
/*
 * Makes rows of defs/simulate_WORD.def, whose first column says how a value is read, between
 * what, and into which field of OPTIONS_OF:
 *
 *	#define OPTIONS_OF struct simulation
 *	static const struct option_row rows[] = {
 *	#include "defs/simulate_window.def"
 *	};
 *
 * For the .c file that includes the table.
 */
#ifndef LAB_OPTION_ROWS_H
#define LAB_OPTION_ROWS_H

#include <stddef.h>

#include "base/clock.h"
#include "lab/options.h"

#define MS	NS_PER_MS
#define HOUR	(3600 * NS_PER_SECOND)
#define DAY	(24 * HOUR)

#define OPTION(reader, option, value, meaning) \
	{ .name = option, .argument = value, .text = meaning, reader },
#define OPTION_FIELD(field) \
	.offset = offsetof(OPTIONS_OF, field), .size = sizeof(((OPTIONS_OF *)NULL)->field)
#define COUNT(field, from, to)	.kind = OPTION_COUNT, OPTION_FIELD(field), .least = from, .most = to
#define DURATION(field, from, to) \
	.kind = OPTION_DURATION, OPTION_FIELD(field), .least = from, .most = to
#define SHARE(field)		.kind = OPTION_SHARE, OPTION_FIELD(field)
#define CHOICE(field, ...)	.kind = OPTION_CHOICE, OPTION_FIELD(field), .words = { __VA_ARGS__ }
#define TEXT(field)		.kind = OPTION_TEXT, OPTION_FIELD(field)
#define FLAG(field)		.kind = OPTION_FLAG, OPTION_FIELD(field)
#define OWN(function, form)	.kind = OPTION_OWN, .parse = function, .should = form

#endif
