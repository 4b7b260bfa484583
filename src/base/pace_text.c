/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A pace as people write it.
 * ERRORS   None.
 * THREADS  No state.
 */
#include "base/pace_text.h"

#include <inttypes.h>
#include <stdio.h>

#define SECOND_NS	INT64_C(1000000000)
#define ENOUGH		100	/* is rounded */

const char *pace_text(int64_t interval_ns, char out[PACE_TEXT_MAX]) {
	static const struct { int64_t ns; char letter; } units[] = { { SECOND_NS, 's' },
		{ 60 * SECOND_NS, 'm' }, { 3600 * SECOND_NS, 'h' }, { 86400 * SECOND_NS, 'd' } };
	const unsigned last = sizeof(units) / sizeof(units[0]) - 1;
	int64_t count = 0;
	unsigned i = 0;

	if (interval_ns <= 0) {
		snprintf(out, PACE_TEXT_MAX, "none");
		return out;
	}
	for (;; i++) {
		int64_t off;

		count = (units[i].ns + interval_ns / 2) / interval_ns;
		off = units[i].ns - count * interval_ns;
		if (i == last || count >= ENOUGH ||
		    (count > 0 && (off < 0 ? -off : off) <= units[i].ns / 200))
			break;
	}
	snprintf(out, PACE_TEXT_MAX, "%" PRId64 "/1%c", count > 0 ? count : 1, units[i].letter);
	return out;
}
