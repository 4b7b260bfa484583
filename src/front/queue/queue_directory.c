/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Know which queue files there are.
 * MODEL    inotify tells what comes, changes and goes; each directory is looked through at
 *          the start, when inotify lost something, and now and then.  That is done in
 *          parts, so that what was found is delivered meanwhile.
 * ERRORS   A directory that cannot be read is logged once, and tried again.
 * THREADS  The loop's.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/queue/queue_journal.h"
#include "front/queue/queue_drive_internal.h"
#include "wire/queue/sendmail_queue_file.h"

#define NAMES_A_STEP	1000
#define WAITING_MOST	4000	/* files that are to be read: no more are looked for */
#define SLOW_NS		(60 * NS_PER_SECOND)
#define UNWATCHED_NS	(2 * NS_PER_SECOND)
#define ROOM_NS		(2 * NS_PER_SECOND)
#define ROOM_SHARE	20	/* of the time may go to looking for what was refused */

static void begin_scan(struct queue_drive *drive) {
	struct queue_scan *scan = &drive->scan;

	scan->runs = true;
	scan->wanted = false;
	scan->anew = scan->next_anew;
	scan->next_anew = false;
	scan->directory = 0;
	scan->names = 0;
	scan->room_ns = 0;
	scan->began_ns = drive->now_ns;
	queue_scan_begin(drive->queue);
}

/* All directories are to be looked through, from the beginning; `anew`: what is known is read,
 * too. */
static void rescan(struct queue_drive *drive, bool anew) {
	struct queue_scan *scan = &drive->scan;

	scan->next_anew |= anew;
	if (scan->runs || !queue_scan_may_begin(drive->queue))
		scan->wanted = true;
	else
		begin_scan(drive);
}

void queue_directory_open(struct queue_drive *drive) {
	struct queue_scan *scan = &drive->scan;

	for (unsigned i = 0; i < drive->setup->directory_count; i++) {
		int watch = drive->setup->directories[i].watch;

		if (watch >= 0 && watch < QUEUE_WATCHES_MAX && drive->setup->notify_fd >= 0)
			scan->by_watch[watch] = (int16_t)(i + 1);
		else
			scan->any_unwatched = true;
	}
	scan->first = true;
	rescan(drive, false);
}

void queue_directory_close(struct queue_drive *drive) {
	if (drive->scan.stream != NULL)
		closedir(drive->scan.stream);
	drive->scan.stream = NULL;
}

/* --- looking through ----------------------------------------------------------------- */

static void end_scan(struct queue_drive *drive) {
	struct queue_scan *scan = &drive->scan;

	scan->runs = false;
	queue_scan_end(drive->queue, !scan->fails);
	scan->failed = scan->fails;
	scan->fails = false;
	scan->ended_ns = drive->now_ns;
	scan->next_ns = drive->now_ns + (scan->any_unwatched ? UNWATCHED_NS : SLOW_NS);
	if (scan->first)
		log_event(EVENT_QUEUE, "directories=%u files=%u ms=%lld text=\"read the "
		    "queue\"",
		    drive->setup->directory_count, scan->names,
		    (long long)((drive->now_ns - scan->began_ns) / NS_PER_MS));
	scan->first = false;
	if (scan->wanted)
		begin_scan(drive);
}

/* The next directory's names: its descriptor was opened for us, we could not open it. */
static void open_stream(struct queue_drive *drive) {
	struct queue_scan *scan = &drive->scan;
	const struct queue_directory *place = &drive->setup->directories[scan->directory];
	int fd = dup(place->fd);
	char path[512];

	scan->stream = fd < 0 ? NULL : fdopendir(fd);
	if (scan->stream != NULL) {
		rewinddir(scan->stream);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (!scan->failed)
		log_event(EVENT_SYSTEM, "directory=%s text=\"cannot read queue directory: %s\"",
		    log_quote(path, sizeof(path), place->path, strlen(place->path)),
		    strerror(errno));
	scan->fails = true;
	scan->directory++;
}

static void name_found(struct queue_drive *drive, const char *name, uint64_t inode) {
	struct queue_scan *scan = &drive->scan;
	const char *id = name + 2;
	bool known = queue_scan_found(drive->queue, scan->directory, id, inode);

	scan->names++;
	if (queue_reads_is_bad(drive, scan->directory, id, inode) || (!scan->anew && known) ||
	    !queue_wants(drive->queue, scan->directory, id))
		return;
	queue_reads_add(drive, scan->directory, id, scan->anew);
}

bool queue_directory_step(struct queue_drive *drive) {
	struct queue_scan *scan = &drive->scan;

	if (!scan->runs && scan->wanted && queue_scan_may_begin(drive->queue))
		begin_scan(drive);
	for (unsigned i = 0; i < NAMES_A_STEP && scan->runs; i++) {
		const struct dirent *name;

		if (drive->reads.by_file.count >= WAITING_MOST)
			return true;
		if (scan->directory == drive->setup->directory_count) {
			end_scan(drive);
			break;
		}
		if (scan->stream == NULL)
			open_stream(drive);
		if (scan->stream == NULL)
			continue;
		name = readdir(scan->stream);
		if (name != NULL) {
			if (sendmail_queue_is_name(name->d_name))
				name_found(drive, name->d_name, name->d_ino);
			continue;
		}
		closedir(scan->stream);
		scan->stream = NULL;
		scan->directory++;
	}
	return scan->runs;
}

void queue_directory_second(struct queue_drive *drive) {
	struct queue_scan *scan = &drive->scan;

	if (scan->runs)
		return;
	if (drive->now_ns >= scan->next_ns ||
	    (scan->room_ns != 0 && drive->now_ns >= scan->room_ns))
		rescan(drive, false);
}

int64_t queue_directory_next_ns(const struct queue_drive *drive) {
	return drive->scan.runs && drive->reads.by_file.count < WAITING_MOST ? 0 : INT64_MAX;
}

/* Where many messages wait for room, looking for them again must not take all the time. */
void queue_directory_room(void *context) {
	struct queue_drive *drive = context;
	struct queue_scan *scan = &drive->scan;
	int64_t took_ns = scan->ended_ns - scan->began_ns;

	if (scan->runs || scan->room_ns != 0)
		return;
	scan->room_ns = scan->ended_ns + (took_ns * ROOM_SHARE > ROOM_NS ?
	    took_ns * ROOM_SHARE : ROOM_NS);
}

/* --- inotify -------------------------------------------------------------------------- */

static void name_changed(struct queue_drive *drive, unsigned directory,
    const struct inotify_event *event) {
	const char *id = event->name + 2;

	if (event->len == 0 || !sendmail_queue_is_name(event->name))
		return;
	if ((event->mask & (IN_DELETE | IN_MOVED_FROM)) != 0)
		queue_forget_file(drive->queue, directory, id, true, drive->now_ns);
	else if (queue_wants(drive->queue, directory, id))
		queue_reads_add(drive, directory, id, false);
}

static void take_event(struct queue_drive *drive, const struct inotify_event *event) {
	struct queue_scan *scan = &drive->scan;

	if ((event->mask & IN_Q_OVERFLOW) != 0) {
		log_event(EVENT_QUEUE, "text=\"change notifications were lost; rereading all "
		    "queue directories\"");
		rescan(drive, true);
		return;
	}
	if (event->wd < 0 || event->wd >= QUEUE_WATCHES_MAX || scan->by_watch[event->wd] == 0)
		return;
	if ((event->mask & IN_IGNORED) != 0) {
		/* it was removed: the supervisor looks for others */
		scan->by_watch[event->wd] = 0;
		return;
	}
	name_changed(drive, (unsigned)scan->by_watch[event->wd] - 1, event);
}

void queue_directory_notified(struct queue_drive *drive) {
	_Alignas(struct inotify_event) char buffer[16384];
	ssize_t length = read(drive->setup->notify_fd, buffer, sizeof(buffer));

	for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= length;) {
		const struct inotify_event *event =
		    (const struct inotify_event *)(const void *)(buffer + at);

		take_event(drive, event);
		at += (ssize_t)(sizeof(*event) + event->len);
	}
}
