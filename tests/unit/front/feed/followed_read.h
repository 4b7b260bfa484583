/* SPDX-License-Identifier: ISC */
/* A log's lines, one by one, as feed_logs.c reads them. */
#ifndef TESTS_UNIT_FOLLOWED_READ_H
#define TESTS_UNIT_FOLLOWED_READ_H

#include "front/feed/followed_log.h"

/* A buffer at most; `each`: something came of it.  True: there is more. */
static inline bool followed_read(struct followed_log *log, char *buffer, size_t size,
    bool (*each)(const struct followed_file *file, const struct followed_line *line),
    int64_t now_ns) {
	struct followed_reader reader = { .buffer = buffer, .buffer_size = size,
		.keeper = log->keeper, .counts = &log->counts };
	struct followed_line lines[FOLLOWED_LINES];
	bool more = false;
	unsigned count;

	for (unsigned i = 0; i < log->count && !more; i++) {
		struct followed_file *file = &log->files[i];

		while ((count = followed_file_lines(file, &reader, now_ns, lines)) > 0)
			for (unsigned k = 0; k < count; k++)
				if (each(file, &lines[k]))
					followed_file_keep(file, &reader, &lines[k]);
		more = reader.more;
	}
	return more;
}

#endif
