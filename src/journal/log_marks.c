/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Marks of garbage, the only writes in place.
 * MODEL    A mark that came to the disk before what allows it would, after a crash, be an
 *          envelope that is garbage without the start record that says who works on it:
 *          its message would be lost.  So they wait in a ring until that is synced.
 *          They need no sync of their own; positions see to it before they rely on them.
 * ERRORS   A fault of the disk is the log's.  A file that is gone needs no mark.
 * THREADS  The owner's.
 */
#include <errno.h>
#include <stdlib.h>

#include "journal/log_internal.h"

#define EXPECTED	4096	/* bytes: most envelopes */
#define ROOM_MOST	(UINT32_C(1) << 22)	/* 16 B each; what does not fit is dropped */

static bool marks_grow(struct log_marks *marks) {
	uint32_t room = marks->room == 0 ? 256 : 2 * marks->room;
	struct log_mark *more;

	if (room > ROOM_MOST)
		return false;
	more = malloc(room * sizeof(*more));
	if (more == NULL)
		return false;
	for (uint32_t i = 0; i < marks->count; i++)
		more[i] = marks->marks[(marks->first + i) & (marks->room - 1)];
	free(marks->marks);
	marks->marks = more;
	marks->room = room;
	marks->first = 0;
	return true;
}

bool journal_log_mark(struct journal_log *log, struct journal_place place,
    uint64_t allowed_by) {
	struct log_marks *marks = &log->marks;

	if (log->state != JOURNAL_GOOD || !journal_log_holds(log, place) ||
	    allowed_by > log->last || (marks->count == marks->room && !marks_grow(marks)))
		return false;
	marks->marks[(marks->first + marks->count++) & (marks->room - 1)] =
	    (struct log_mark){ place, allowed_by };
	marks->asked++;
	return true;
}

void journal_log_expect(struct journal_log *log, struct journal_place place) {
	const struct journal_storage *storage = &log->storage;
	uint32_t i = journal_log_index(log, place.file);
	int handle;

	if (storage->calls->expect == NULL || i == log->files.count ||
	    log->state != JOURNAL_GOOD)
		return;
	handle = journal_log_handle(log, i);
	if (handle >= 0)
		storage->calls->expect(storage->context, handle, place.offset, EXPECTED);
}

/* Its own record must be written, too: it is synced with what allows it, or before. */
static bool is_allowed(const struct journal_log *log, const struct log_mark *mark) {
	if (mark->allowed_by > log->synced)
		return false;
	return mark->place.file != log->current || mark->place.offset < log->offset;
}

static bool mark_apply(struct journal_log *log, struct journal_place place) {
	static const uint8_t garbage = JOURNAL_GARBAGE;
	uint32_t i = journal_log_index(log, place.file);
	int handle, error;

	/* its head may be read only now, and tell that it counts no more */
	if (i == log->files.count || !journal_log_holds(log, place) ||
	    (i < log->files.unread && journal_files_need(&log->files, place.file) == 0 &&
		!journal_log_holds(log, place)))
		return true;
	handle = journal_log_handle(log, i);
	if (handle == -ENOENT)
		return true;
	if (handle < 0)
		return journal_log_fail(log, -handle, "open");
	error = log->storage.calls->write(log->storage.context, handle, &garbage, 1,
	    (uint64_t)place.offset + JOURNAL_MARK_AT);
	if (error != 0)
		return journal_log_fail(log, -error, "mark");
	log->files.files[i].marks = true;
	log->counts.marks++;
	return true;
}

bool journal_marks_apply(struct journal_log *log) {
	struct log_marks *marks = &log->marks;

	while (marks->count > 0 && marks->left > 0) {
		struct log_mark mark = marks->marks[marks->first];

		if (!is_allowed(log, &mark))
			break;
		marks->first = (marks->first + 1) & (marks->room - 1);
		marks->count--;
		marks->done++;
		marks->left--;
		if (!mark_apply(log, mark.place))
			return false;
	}
	return true;
}

bool journal_marks_wait(const struct journal_log *log) {
	const struct log_marks *marks = &log->marks;

	return marks->count > 0 && is_allowed(log, &marks->marks[marks->first]);
}

void journal_marks_drop(struct journal_log *log) {
	log->marks.done = log->marks.asked;
	log->marks.first = log->marks.count = 0;
}
