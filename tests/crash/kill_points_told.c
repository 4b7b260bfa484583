/* SPDX-License-Identifier: ISC */
/* Lines about deliveries, from a feed role that dies to a queue role that lives: what comes out
 * of the ring is whole and in its order, and of what was put in none is missing but where the
 * ring was full. */
#include "tests/crash/kill_points.h"

#include <stdio.h>
#include <string.h>

#include "segment/queue/told.h"

/* All parts of a line tell one number. */
static void line_of(uint32_t number, struct told_line *line) {
	*line = (struct told_line){ .pid = number, .written_s = number, .delay_s = number,
		.log = number, .offset = number, .what = number % 3, .goes_on = number % 2 != 0,
		.list_length = (uint16_t)(number % 300) };
	line->id_length = (uint16_t)snprintf(line->id, sizeof(line->id), "%u", number);
	memset(line->list, 'a' + (int)(number % 26), line->list_length);
}

void told_step(uint64_t *random) {
	struct told_line line;

	line_of(draw(random), &line);
	(void)told_put(site.segment, &line);
	told_reached(site.segment, line.written_s);
}

bool told_is_whole(void) {
	struct told_line line, same;

	while (told_take(site.segment, &line)) {
		line_of(line.pid, &same);
		if (line.written_s != same.written_s || line.delay_s != same.delay_s ||
		    line.log != same.log || line.offset != same.offset ||
		    line.what != same.what || line.goes_on != same.goes_on ||
		    line.id_length != same.id_length || line.list_length != same.list_length ||
		    memcmp(line.id, same.id, line.id_length) != 0 ||
		    memcmp(line.list, same.list, line.list_length) != 0) {
			printf("a line about deliveries is torn: %u\n", line.pid);
			return false;
		}
	}
	return told_is_empty(site.segment);
}
