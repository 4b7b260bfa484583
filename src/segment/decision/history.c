/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The file of the last 24 hours.
 * MODEL    Head, stamps, ring of changes, names, then the values of one series after the
 *          other.  A stamp is a minute and flags: a place of the ring of minutes is of that
 *          minute and no other.  A change has a check sum, and its number is its place.
 * ERRORS   A write that fails leaves a gap; the first error is kept for who asks.
 * THREADS  One a struct.
 */
#include "segment/decision/history.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_bytes.h"
#include "base/order.h"
#include "base/plain_file.h"
#include "base/siphash.h"
#include "base/text.h"
#include "segment/file/name.h"

#define MAGIC		UINT64_C(0x3174736948545350)
#define STAMP_MINUTE	(UINT32_MAX >> 4)
#define STAMP_SHIFT	28

struct head {
	uint64_t magic;
	uint32_t version, series, minutes, values, changes, change_bytes;
	uint64_t reserved[3];
};
_Static_assert(sizeof(struct head) == 56, "no gaps");
#define FILE_VERSION	1

struct name_slot {
	uint32_t kind, since;
	char name[SEGMENT_NAME_MAX + 8];
	uint64_t check;
};
_Static_assert(sizeof(struct name_slot) == 104, "no gaps");

struct change_slot {
	uint64_t number;
	struct history_change change;
	uint64_t check;
};

struct history {
	int fd;
	int error;
	unsigned size;
	uint64_t next_change, last_id;
	struct history_name *names;
};

static const struct siphash_key fixed_key = { UINT64_C(0x706f737465726e2e),
	UINT64_C(0x686973746f727921) };

/* --- where all stands ------------------------------------------------------------------- */

static off_t stamp_at(uint32_t minute) {
	return (off_t)(sizeof(struct head) + minute % HISTORY_MINUTES * sizeof(uint32_t));
}

static off_t change_at(uint64_t number) {
	return stamp_at(0) + (off_t)(HISTORY_MINUTES * sizeof(uint32_t) +
	    number % HISTORY_CHANGES * sizeof(struct change_slot));
}

static off_t name_at(unsigned series) {
	return change_at(0) + (off_t)(HISTORY_CHANGES * sizeof(struct change_slot) +
	    series * sizeof(struct name_slot));
}

static off_t values_at(unsigned size, unsigned series, uint32_t place) {
	return name_at(size) + (off_t)(((uint64_t)series * HISTORY_MINUTES + place) *
	    sizeof(struct history_values));
}

static unsigned size_for(uint64_t bytes) {
	uint64_t each = sizeof(struct name_slot) + HISTORY_MINUTES * sizeof(struct history_values);
	uint64_t fixed = (uint64_t)name_at(0);

	if (bytes > HISTORY_BYTES_MOST)
		bytes = HISTORY_BYTES_MOST;
	return bytes <= fixed ? 0 : (unsigned)((bytes - fixed) / each);
}

static bool read_all(const struct history *history, void *to, size_t bytes, off_t at) {
	return file_read_at(history->fd, to, bytes, (uint64_t)at) == (ssize_t)bytes;
}

static void write_all(struct history *history, const void *from, size_t bytes, off_t at) {
	int error = file_write_at(history->fd, from, bytes, (uint64_t)at);

	if (error != 0 && history->error == 0)
		history->error = -error;
}

static uint64_t check_of_name(const struct name_slot *slot) {
	return siphash13(&fixed_key, slot, offsetof(struct name_slot, check));
}

static uint64_t check_of_change(const struct change_slot *slot) {
	return siphash13(&fixed_key, slot, offsetof(struct change_slot, check));
}

static struct head head_of(unsigned size) {
	return (struct head){ .magic = MAGIC, .version = FILE_VERSION, .series = size,
		.minutes = HISTORY_MINUTES, .values = HISTORY_VALUES, .changes = HISTORY_CHANGES,
		.change_bytes = sizeof(struct change_slot) };
}

/* --- names ------------------------------------------------------------------------------- */

static void take_name(const struct name_slot *slot, struct history_name *out) {
	*out = (struct history_name){ .kind = HISTORY_NONE };
	if (slot->kind >= HISTORY_KINDS || slot->check != check_of_name(slot))
		return;
	out->kind = (enum history_kind)slot->kind;
	out->since = slot->since;
	memcpy(out->name, slot->name, SEGMENT_NAME_MAX);
}

/* Reads what each series is of anew; false: it cannot be read. */
static bool history_names(struct history *history) {
	size_t bytes = history->size * sizeof(struct name_slot);
	struct name_slot *slots = malloc(bytes + 1);
	bool there = slots != NULL && read_all(history, slots, bytes, name_at(0));

	for (unsigned i = 0; there && i < history->size; i++)
		take_name(&slots[i], &history->names[i]);
	free(slots);
	return there;
}

const char *history_folded(const char *name, char out[SEGMENT_NAME_MAX + 1]) {
	uint64_t words[NAME_WORDS];

	if (name_fold(name, strlen(name), words) == 0)
		return name;
	memcpy(out, words, SEGMENT_NAME_MAX);
	out[SEGMENT_NAME_MAX] = '\0';
	return out;
}

int history_find(const struct history *history, enum history_kind kind, const char *name) {
	for (unsigned i = 0; i < history->size; i++)
		if (history->names[i].kind == kind && strcmp(history->names[i].name, name) == 0)
			return (int)i;
	return -1;
}

/* --- opening ------------------------------------------------------------------------------ */

static void path_of(const char *state_path, char out[PATH_MAX + 16]) {
	snprintf(out, PATH_MAX + 16, "%s.history", state_path);
}

static void keep_number(struct history *history, const struct change_slot *slot) {
	if (slot->number < history->next_change)
		return;
	history->next_change = slot->number + 1;
	history->last_id = slot->change.decided.id;
}

/* The ring; what is not whole has number 0. */
static struct change_slot *read_changes(struct history *history,
    void (*number)(struct history *history, const struct change_slot *slot)) {
	struct change_slot *slots = malloc(HISTORY_CHANGES * sizeof(*slots));

	if (slots == NULL || !read_all(history, slots, HISTORY_CHANGES * sizeof(*slots),
		change_at(0))) {
		free(slots);
		return NULL;
	}
	for (unsigned i = 0; i < HISTORY_CHANGES; i++) {
		struct change_slot *slot = &slots[i];

		if (slot->number % HISTORY_CHANGES != i || slot->check != check_of_change(slot) ||
		    !decided_is_sound(&slot->change.decided))
			slot->number = 0;
		else if (slot->number != 0 && number != NULL)
			number(history, slot);
	}
	return slots;
}

/* Is it ours, and whole? */
static bool is_sound(struct history *history) {
	struct head head, wanted = head_of(history->size);
	struct stat status;

	return fstat(history->fd, &status) == 0 && S_ISREG(status.st_mode) &&
	    read_all(history, &head, sizeof(head), 0) &&
	    memcmp(&head, &wanted, sizeof(head)) == 0 &&
	    status.st_size == values_at(history->size, history->size, 0);
}

/* The head comes last: without it the file is none. */
static int file_make(struct history *history, const char *path, gid_t readers,
    struct diag *diag) {
	const struct head head = head_of(history->size);

	if (unlink(path) != 0 && errno != ENOENT)
		return diag_set(diag, errno, "cannot remove %s", path);
	history->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (history->fd < 0)
		return diag_set(diag, errno, "cannot create %s", path);
	if (fchown(history->fd, (uid_t)-1, readers) != 0 || fchmod(history->fd, 0640) != 0 ||
	    ftruncate(history->fd, values_at(history->size, history->size, 0)) != 0)
		return diag_set(diag, errno, "cannot create %s", path);
	write_all(history, &head, sizeof(head), 0);
	return history->error == 0 ? 0 : diag_set(diag, history->error, "cannot write %s", path);
}

static struct history *history_begin(unsigned size, struct diag *diag) {
	struct history *history = calloc(1, sizeof(*history));

	if (history != NULL)
		history->names = calloc(size + 1, sizeof(*history->names));
	if (history == NULL || history->names == NULL) {
		free(history);
		diag_set(diag, ENOMEM, "no memory for the history");
		return NULL;
	}
	history->size = size;
	history->fd = -1;
	history->next_change = 1;
	return history;
}

int history_open(struct history **result, const char *state_path, uint64_t bytes,
    gid_t readers, struct diag *diag) {
	struct history *history = history_begin(size_for(bytes), diag);
	char path[PATH_MAX + 16];

	*result = history;
	if (history == NULL)
		return -1;
	path_of(state_path, path);
	history->fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (history->fd >= 0 && is_sound(history) && history_names(history)) {
		free(read_changes(history, keep_number));
		return 0;
	}
	if (history->fd >= 0)
		close(history->fd);
	history->fd = -1;
	if (file_make(history, path, readers, diag) == 0)
		return 0;
	history_close(result);
	return -1;
}

int history_look(struct history **result, const char *state_path, struct diag *diag) {
	char path[PATH_MAX + 16];
	struct history *history;
	struct head head;
	int fd;

	*result = NULL;
	path_of(state_path, path);
	fd = plain_file_open(path);
	if (fd < 0)
		return diag_set(diag, errno, "cannot open %s", path);
	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) || head.magic != MAGIC ||
	    head.series > size_for(HISTORY_BYTES_MOST)) {
		close(fd);
		return diag_set(diag, 0, "%s: not a history of this version", path);
	}
	history = history_begin(head.series, diag);
	if (history == NULL) {
		close(fd);
		return -1;
	}
	history->fd = fd;
	*result = history;
	if (is_sound(history) && history_names(history))
		return 0;
	history_close(result);
	return diag_set(diag, 0, "%s: not a history of this version", path);
}

void history_close(struct history **history) {
	if (*history == NULL)
		return;
	if ((*history)->fd >= 0)
		close((*history)->fd);
	free((*history)->names);
	free(*history);
	*history = NULL;
}

/* --- writing -------------------------------------------------------------------------------- */

unsigned history_size(const struct history *history) {
	return history->size;
}

const struct history_name *history_at(const struct history *history, unsigned series) {
	return &history->names[series];
}

static void write_name(struct history *history, unsigned series) {
	const struct history_name *name = &history->names[series];
	struct name_slot slot = { .kind = (uint32_t)name->kind, .since = name->since };

	memcpy(slot.name, name->name, SEGMENT_NAME_MAX);
	slot.check = check_of_name(&slot);
	write_all(history, &slot, sizeof(slot), name_at(series));
}

void history_assign(struct history *history, unsigned series, enum history_kind kind,
    const char *name, uint32_t minute) {
	struct history_name *to = &history->names[series];

	*to = (struct history_name){ .kind = kind, .since = minute };
	(void)text_copy(to->name, sizeof(to->name), name, strlen(name));
	write_name(history, series);
}

void history_put(struct history *history, unsigned series, uint32_t minute,
    const struct history_values *values) {
	write_all(history, values, sizeof(*values), values_at(history->size, series,
	    minute % HISTORY_MINUTES));
}

void history_stamp(struct history *history, uint32_t minute, unsigned flags) {
	uint32_t stamp = (minute & STAMP_MINUTE) | (flags & HISTORY_FLAGS) << STAMP_SHIFT;

	write_all(history, &stamp, sizeof(stamp), stamp_at(minute));
}

void history_add_change(struct history *history, int64_t wall_ns,
    const struct decided *decided) {
	struct change_slot slot;

	memset(&slot, 0, sizeof(slot));
	slot.number = history->next_change++;
	slot.change.wall_ns = wall_ns;
	memcpy(&slot.change.decided, decided, offsetof(struct decided, texts) +
	    decided->text_bytes);
	slot.check = check_of_change(&slot);
	write_all(history, &slot, sizeof(slot), change_at(slot.number));
}

uint64_t history_last_change(const struct history *history) {
	return history->last_id;
}

int history_error(struct history *history) {
	int error = history->error;

	history->error = 0;
	return error;
}

/* --- reading --------------------------------------------------------------------------------- */

bool history_minutes(struct history *history, uint32_t minute, uint8_t out[HISTORY_MINUTES]) {
	uint32_t stamps[HISTORY_MINUTES];

	if (!read_all(history, stamps, sizeof(stamps), stamp_at(0)))
		return false;
	for (uint32_t i = 0; i < HISTORY_MINUTES; i++) {
		uint32_t one = minute - (HISTORY_MINUTES - 1 - i);
		uint32_t stamp = stamps[one % HISTORY_MINUTES];

		out[i] = (stamp & STAMP_MINUTE) != (one & STAMP_MINUTE) || stamp == 0 ? 0 :
		    (uint8_t)(HISTORY_KNOWN | (stamp >> STAMP_SHIFT & HISTORY_FLAGS));
	}
	return true;
}

bool history_read(struct history *history, unsigned series, uint32_t minute,
    const uint8_t known[HISTORY_MINUTES], unsigned count, struct history_values *out) {
	uint32_t first = minute - (count - 1), place = first % HISTORY_MINUTES;
	unsigned before = HISTORY_MINUTES - place < count ? HISTORY_MINUTES - place : count;

	if (series >= history->size || count == 0 || count > HISTORY_MINUTES ||
	    !read_all(history, out, before * sizeof(*out), values_at(history->size, series,
		place)) ||
	    !read_all(history, out + before, (count - before) * sizeof(*out),
		values_at(history->size, series, 0)))
		return false;
	for (unsigned i = 0; i < count; i++)
		if (known[HISTORY_MINUTES - count + i] == 0 ||
		    first + i < history->names[series].since)
			memset(&out[i], 0xff, sizeof(out[i]));
	return true;
}

static int compare_numbers(const void *a, const void *b) {
	const struct change_slot *one = a, *other = b;

	return ORDER(one->number, other->number);
}

void history_changes(struct history *history,
    void (*each)(void *context, const struct history_change *), void *context) {
	struct change_slot *slots = read_changes(history, NULL);

	if (slots == NULL)
		return;
	qsort(slots, HISTORY_CHANGES, sizeof(*slots), compare_numbers);
	for (unsigned i = 0; i < HISTORY_CHANGES; i++)
		if (slots[i].number != 0)
			each(context, &slots[i].change);
	free(slots);
}
