/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Read queue files into the engine.
 * MODEL    A file that is to be read has an entry until it was: it waits, then it is asked
 *          for, then it comes open.  It is read twice: whole, to its final point, so that
 *          nothing of a file counts that is cut or bad; then recipients are handed over
 *          until the engine has enough of them.
 * ERRORS   One that is cut may be being written: it is read again each second for some
 *          seconds.  One that is bad is logged once, and left to Sendmail's own runs.
 * THREADS  The loop's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_stamp.h"
#include "base/log.h"
#include "base/map.h"
#include "base/siphash.h"
#include "front/queue/queue_drive_internal.h"
#include "wire/queue/sendmail_queue_file.h"

#define ASKED_MOST	64	/* at a time: what the link takes at once */
#define BAD_KEPT	1024
#define CUT_TRIES	10
#define FILE_MOST	(256 << 20)

void queue_reads_open(struct queue_drive *drive) {
	TAILQ_INIT(&drive->reads.waiting);
	TAILQ_INIT(&drive->reads.asked);
	TAILQ_INIT(&drive->reads.resting);
}

static void drop_all(struct queue_read_list *list) {
	struct queue_read *entry;

	while ((entry = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, entry, in_list);
		free(entry);
	}
}

void queue_reads_close(struct queue_drive *drive) {
	struct queue_reads *reads = &drive->reads;

	drop_all(&reads->waiting);
	drop_all(&reads->asked);
	drop_all(&reads->resting);
	map_free(&reads->by_file);
	map_free(&reads->bad);
}

/* --- entries ----------------------------------------------------------------------- */

static uint64_t hash_of(unsigned directory, const char *id, uint64_t inode) {
	const struct siphash_key key = { directory, inode };

	return siphash13(&key, id, strlen(id));
}

static struct queue_read *find_entry(const struct queue_reads *reads, unsigned directory,
    const char *id) {
	const struct map_cell *cell = map_find(&reads->by_file, hash_of(directory, id, 0));

	for (; cell != NULL; cell = map_next(&reads->by_file, cell)) {
		struct queue_read *entry = cell->item;

		if (entry->directory == directory && strcmp(entry->id, id) == 0)
			return entry;
	}
	return NULL;
}

/* From the list that it is in to that one, or (NULL) to none. */
static void move_entry(struct queue_read *entry, struct queue_read_list *to, bool first) {
	if (entry->list != NULL)
		TAILQ_REMOVE(entry->list, entry, in_list);
	entry->list = to;
	if (to != NULL && first)
		TAILQ_INSERT_HEAD(to, entry, in_list);
	else if (to != NULL)
		TAILQ_INSERT_TAIL(to, entry, in_list);
}

static struct queue_read *make_entry(struct queue_reads *reads, unsigned directory, const char *id) {
	struct queue_read *entry = calloc(1, sizeof(*entry));

	if (entry == NULL || !sendmail_queue_id_is_sound(id, strlen(id))) {
		free(entry);
		return NULL;	/* the next rescan finds it */
	}
	entry->directory = directory;
	memcpy(entry->id, id, strlen(id) + 1);
	if (map_add_item(&reads->by_file, hash_of(directory, id, 0), entry))
		return entry;
	free(entry);
	return NULL;
}

static void wait_on(struct queue_reads *reads, struct queue_read *entry) {
	struct queue_read *other = find_entry(reads, entry->directory, entry->id);

	if (other != NULL)
		other->must |= entry->must;
	if (other != NULL || !map_add_item(&reads->by_file,
	    hash_of(entry->directory, entry->id, 0), entry)) {
		free(entry);
		return;
	}
	move_entry(entry, entry->again ? &reads->waiting : &reads->resting, entry->again);
	entry->again = entry->is_more = false;
}

void queue_reads_add(struct queue_drive *drive, unsigned directory, const char *id,
    bool must) {
	struct queue_reads *reads = &drive->reads;
	struct queue_read *entry = find_entry(reads, directory, id);

	if (entry == NULL)
		entry = make_entry(reads, directory, id);
	if (entry == NULL)
		return;
	entry->must |= must;
	entry->again = entry->list == &reads->asked;
	if (!entry->again)
		move_entry(entry, &reads->waiting, must);
}

void queue_reads_want(void *context, unsigned directory, const char *id, uint64_t place) {
	struct queue_drive *drive = context;
	struct queue_read *entry = find_entry(&drive->reads, directory, id);

	if (place == 0) {
		queue_reads_add(drive, directory, id, true);
		return;
	}
	/* one that waits may find the file as it was, and then goes on from there */
	if (entry == NULL) {
		entry = make_entry(&drive->reads, directory, id);
		if (entry == NULL)
			return;
		move_entry(entry, &drive->reads.waiting, true);
	}
	entry->is_more = true;
	entry->place = place;
}

void queue_reads_ask(struct queue_drive *drive) {
	struct queue_reads *reads = &drive->reads;
	struct queue_read *entry;

	while (reads->asked_count < ASKED_MOST && (entry = TAILQ_FIRST(&reads->waiting)) != NULL) {
		struct queue_order order = { .verb = QUEUE_ORDER_OPEN,
			.directory = entry->directory, .ticket = reads->next_ticket };

		(void)queue_order_add_id(&order.ids, entry->id);
		if (!queue_link_ask(drive->setup->link_fd, &order))
			break;
		entry->ticket = reads->next_ticket++;
		move_entry(entry, &reads->asked, false);
		reads->asked_count++;
	}
}

/* --- files that are not what they should be ------------------------------------------ */

bool queue_reads_is_bad(const struct queue_drive *drive, unsigned directory,
    const char *id, uint64_t inode) {
	return map_find(&drive->reads.bad, hash_of(directory, id, inode)) != NULL;
}

/* Known no more; logged once while it stays as it is. */
static void give_up_file(struct queue_drive *drive, const struct queue_read *entry, uint64_t inode,
    const char *why, unsigned line) {
	const struct queue_directory *place = &drive->setup->directories[entry->directory];
	char path[512];

	if (!queue_reads_is_bad(drive, entry->directory, entry->id, inode))
		log_event(EVENT_QUEUE_FILE, "directory=%s id=%s line=%u text=\"queue file is "
		    "not managed: %s\"",
		    log_quote(path, sizeof(path), place->path, strlen(place->path)), entry->id,
		    line, why);
	if (drive->reads.bad.count >= BAD_KEPT)
		map_clear(&drive->reads.bad);
	(void)map_set(&drive->reads.bad, hash_of(entry->directory, entry->id, inode));
	engine_count(drive->engine, COUNTER_QUEUE_FILES_BAD, 1);
	queue_forget_file(drive->queue, entry->directory, entry->id, false, drive->now_ns);
}

/* --- reading ------------------------------------------------------------------------- */

/* The next step of the file; at its end what became of it.  `data`, `length`: what is left
 * of the piece that was read last. */
static enum sendmail_queue_step step_file(struct queue_reads *reads, int fd, const char **data,
    size_t *length, struct sendmail_recipient *recipient) {
	for (;;) {
		enum sendmail_queue_step there = sendmail_queue_next(&reads->reader, data,
		    length, recipient);
		ssize_t got;

		if (there != SENDMAIL_QUEUE_MORE)
			return there;
		got = read(fd, reads->piece, sizeof(reads->piece));
		if (got <= 0)
			return sendmail_queue_finish(&reads->reader);
		*data = reads->piece;
		*length = (size_t)got;
	}
}

/* Is the whole file sound?  Counts its recipients. */
static bool check_file(struct queue_drive *drive, int fd) {
	struct queue_reads *reads = &drive->reads;
	struct sendmail_recipient recipient;
	enum sendmail_queue_step there;
	const char *data = reads->piece;
	size_t length = 0;
	unsigned steps = 0;

	sendmail_queue_begin(&reads->reader);
	while ((there = step_file(reads, fd, &data, &length, &recipient)) ==
	    SENDMAIL_QUEUE_RECIPIENT)
		if (++steps % 4096 == 0)
			queue_drive_beat(drive);
	return there == SENDMAIL_QUEUE_END;
}

/* From where the reader stands until the engine has enough. */
static void hand_over(struct queue_drive *drive, int fd, uint64_t place) {
	struct queue_reads *reads = &drive->reads;
	struct sendmail_recipient recipient;
	enum sendmail_queue_step there;
	const char *data = reads->piece;
	size_t length = 0;
	bool enough = false;

	while (!enough && (there = step_file(reads, fd, &data, &length, &recipient)) ==
	    SENDMAIL_QUEUE_RECIPIENT) {
		enough = !queue_read_recipient(drive->queue, recipient.domain.text,
		    recipient.domain.length);
		if (!enough)
			place = recipient.place;
	}
	if (enough || there == SENDMAIL_QUEUE_END)
		queue_read_end(drive->queue, !enough, place, drive->now_ns);
	else
		queue_read_abandon(drive->queue, drive->now_ns);
}

static int64_t clock_of(const struct queue_drive *drive, int64_t wall_s) {
	int64_t ago_s = drive->wall_s - wall_s;

	/* a clock that was set, or nonsense */
	if (ago_s < 0)
		ago_s = 0;
	if (ago_s > INT64_C(10000000000) / 2)
		ago_s = INT64_C(10000000000) / 2;
	return drive->now_ns - ago_s * NS_PER_SECOND;
}

static void read_anew(struct queue_drive *drive, const struct queue_read *entry, int fd,
    const struct stat *status) {
	const struct sendmail_queue_reader *reader = &drive->reads.reader;
	struct queue_file file;

	file = (struct queue_file){ .stamp = file_stamp_of(status),
	    .inode = status->st_ino,
	    .arrival_ns = clock_of(drive, reader->message.made_s),
	    .tried_ns = reader->message.tried_s == 0 ? 0 :
		clock_of(drive, reader->message.tried_s),
	    .tries = reader->message.tries,
	    .recipients = reader->message.recipient_count - reader->message.left_out,
	    .made_s = reader->message.made_s,
	    .origin = reader->origin, .sender = reader->sender.text,
	    .sender_length = reader->sender.length };
	if (!queue_read_begin(drive->queue, entry->directory, entry->id, &file))
		return;
	if (lseek(fd, 0, SEEK_SET) != 0) {
		queue_read_abandon(drive->queue, drive->now_ns);
		return;
	}
	sendmail_queue_begin(&drive->reads.reader);
	hand_over(drive, fd, 0);
}

/* False: it is another file by now. */
static bool read_more(struct queue_drive *drive, const struct queue_read *entry, int fd,
    uint64_t stamp) {
	if (!queue_knows(drive->queue, entry->directory, entry->id, stamp) ||
	    lseek(fd, (off_t)entry->place, SEEK_SET) != (off_t)entry->place)
		return false;
	if (!queue_read_more(drive->queue, entry->directory, entry->id))
		return true;
	sendmail_queue_resume(&drive->reads.reader, entry->place);
	hand_over(drive, fd, entry->place);
	return true;
}

/* True: done with it.  False: it is to be looked at again, as it may be being written. */
static bool read_file(struct queue_drive *drive, struct queue_read *entry, int fd) {
	const struct sendmail_queue_reader *reader = &drive->reads.reader;
	struct stat status;

	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
		give_up_file(drive, entry, 0, "not a regular file", 0);
		return true;
	}
	if (status.st_size > FILE_MOST) {
		give_up_file(drive, entry, status.st_ino, "too long", 0);
		return true;
	}
	if (entry->is_more && !entry->must &&
	    read_more(drive, entry, fd, file_stamp_of(&status)))
		return true;
	if (!entry->must && queue_knows(drive->queue, entry->directory, entry->id,
	    file_stamp_of(&status)))
		return true;
	if (check_file(drive, fd)) {
		if (reader->message.is_quarantined)
			queue_forget_file(drive->queue, entry->directory, entry->id, false, drive->now_ns);
		else
			read_anew(drive, entry, fd, &status);
		return true;
	}
	if (reader->cut && ++entry->cut_tries < CUT_TRIES)
		return false;
	give_up_file(drive, entry, status.st_ino, reader->fault, reader->line);
	return true;
}

static void not_opened(struct queue_drive *drive, const struct queue_read *entry, uint32_t error) {
	if (error == ESTALE)
		return;		/* not ours any more: we are about to end */
	if (error == ENOENT)
		queue_forget_file(drive->queue, entry->directory, entry->id, true, drive->now_ns);
	else
		give_up_file(drive, entry, 0, error == EINVAL ? "not a regular file" :
		    error == ELOOP ? "a symbolic link" : strerror((int)error), 0);
}

/* What was asked for by this ticket, or NULL. */
static struct queue_read *take_asked(struct queue_reads *reads, uint32_t ticket) {
	struct queue_read *entry;

	TAILQ_FOREACH(entry, &reads->asked, in_list)
		if (entry->ticket == ticket)
			break;
	if (entry != NULL) {
		move_entry(entry, NULL, false);
		reads->asked_count--;
	}
	return entry;
}

void queue_reads_opened(struct queue_drive *drive, uint32_t ticket, int fd, uint32_t error) {
	struct queue_reads *reads = &drive->reads;
	struct queue_read *entry = take_asked(reads, ticket);
	bool done = true;

	/* who wants the file while it is served makes another entry */
	if (entry != NULL)
		map_remove_item(&reads->by_file, hash_of(entry->directory, entry->id, 0), entry);
	if (entry != NULL && fd < 0)
		not_opened(drive, entry, error);
	else if (entry != NULL)
		done = read_file(drive, entry, fd);
	if (fd >= 0)
		close(fd);
	if (entry == NULL)
		return;
	if (done && !entry->again)
		free(entry);
	else
		wait_on(reads, entry);
}

void queue_reads_second(struct queue_drive *drive) {
	struct queue_reads *reads = &drive->reads;
	struct queue_read *entry;

	while ((entry = TAILQ_FIRST(&reads->resting)) != NULL)
		move_entry(entry, &reads->waiting, false);
}
