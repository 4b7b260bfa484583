/* SPDX-License-Identifier: ISC */
/* A handle stands before `at`; entries that are added go behind all others. */
#include "tests/unit/front/serve/fake_sd_journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/mail/sd_entry.h"

struct sd_journal {
	unsigned at;
	bool matches;		/* lines of the mail log, and of journald itself */
	unsigned vacuumed;
	char data[1024];
};

struct fake_journals fake_journals;
static unsigned vacuumed;

void fake_reset(void) {
	memset(&fake_journals, 0, sizeof(fake_journals));
	vacuumed = 0;
}

void fake_add(uint64_t id, uint64_t number, uint64_t time_us, const char *fields) {
	fake_journals.list[fake_journals.count++] = (struct fake_entry){ id, number, time_us,
		fields, false };
}

void fake_vacuum(unsigned count) {
	fake_journals.count -= count;
	vacuumed += count;
	memmove(fake_journals.list, fake_journals.list + count,
	    fake_journals.count * sizeof(fake_journals.list[0]));
}

/* Entries before it may have been deleted. */
static struct sd_journal *settle(struct sd_journal *journal) {
	unsigned gone = vacuumed - journal->vacuumed;

	journal->at = journal->at > gone ? journal->at - gone : 0;
	journal->vacuumed = vacuumed;
	return journal;
}

static int fake_open(struct sd_journal **out, int flags) {
	(void)flags;
	*out = calloc(1, sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	(*out)->vacuumed = vacuumed;
	fake_journals.open++;
	return 0;
}

static int fake_open_directory(struct sd_journal **out, const char *path, int flags) {
	(void)path;
	return fake_open(out, flags);
}

static void fake_close(struct sd_journal *journal) {
	fake_journals.open--;
	free(journal);
}

static int fake_add_match(struct sd_journal *journal, const void *data, size_t size) {
	(void)data, (void)size;
	journal->matches = true;
	return 0;
}

static int fake_add_disjunction(struct sd_journal *journal) {
	(void)journal;
	return 0;
}

static int fake_seek_head(struct sd_journal *journal) {
	settle(journal)->at = 0;
	return 0;
}

static int fake_seek_realtime(struct sd_journal *journal, uint64_t time_us) {
	settle(journal)->at = 0;
	while (journal->at < fake_journals.count &&
	    fake_journals.list[journal->at].time_us < time_us)
		journal->at++;
	return 0;
}

/* By number in files of that ID, by time in others: where the first of them stands. */
static int fake_seek_cursor(struct sd_journal *journal, const char *cursor) {
	uint64_t id[2], number;
	unsigned long long time_us;
	const char *at = strstr(cursor, ";t=");

	if (at == NULL || sscanf(at, ";t=%llx", &time_us) != 1 ||
	    !sd_cursor_read(cursor, id, &number))
		return -EINVAL;
	settle(journal)->at = 0;
	for (; journal->at < fake_journals.count; journal->at++) {
		const struct fake_entry *entry = &fake_journals.list[journal->at];

		if (entry->id == id[1] ? entry->number >= number : entry->time_us >= time_us)
			break;
	}
	return 0;
}

static bool is_matched(const struct sd_journal *journal, const struct fake_entry *entry) {
	return !journal->matches || strstr(entry->fields, "SYSLOG_FACILITY=2") != NULL ||
	    strstr(entry->fields, "MESSAGE_ID=") != NULL;
}

static int fake_next(struct sd_journal *journal) {
	int error = fake_journals.next_fails;

	settle(journal);
	fake_journals.next_fails = 0;
	if (error != 0)
		return -error;
	while (journal->at < fake_journals.count) {
		const struct fake_entry *entry = &fake_journals.list[journal->at++];

		if (is_matched(journal, entry) && !entry->was_read)
			return 1;
	}
	return 0;
}

static const struct fake_entry *entry_of(const struct sd_journal *journal) {
	return &fake_journals.list[journal->at - 1];
}

static int fake_realtime(struct sd_journal *journal, uint64_t *out) {
	*out = entry_of(journal)->time_us;
	return 0;
}

static int fake_cursor(struct sd_journal *journal, char **out) {
	const struct fake_entry *entry = entry_of(journal);

	*out = calloc(1, SD_CURSOR_MAX);
	if (*out == NULL)
		return -ENOMEM;
	sd_cursor_write(*out, (const uint64_t[2]){ 7, entry->id }, entry->number, entry->time_us);
	return 0;
}

static int fake_data(struct sd_journal *journal, const char *field, const void **data,
    size_t *size) {
	size_t length = strlen(field);
	const char *at = entry_of(journal)->fields;

	for (; *at != '\0'; at += *at == '|') {
		size_t part = strcspn(at, "|");

		if (part > length && part < sizeof(journal->data) &&
		    memcmp(at, field, length) == 0 && at[length] == '=') {
			memcpy(journal->data, at, part);
			*data = journal->data;
			*size = part;
			return 0;
		}
		at += part;
	}
	return -ENOENT;
}

static int fake_threshold(struct sd_journal *journal, size_t size) {
	(void)journal, (void)size;
	return 0;
}

static int fake_fd(struct sd_journal *journal) {
	(void)journal;
	return -ENOTSUP;
}

static int fake_process(struct sd_journal *journal) {
	(void)journal;
	return 0;
}

static int fake_has_files(struct sd_journal *journal) {
	(void)journal;
	return !fake_journals.without_files;
}

const struct sd_calls fake_sd_calls = { .open = fake_open, .open_directory = fake_open_directory,
	.close = fake_close, .add_match = fake_add_match, .add_disjunction = fake_add_disjunction,
	.seek_head = fake_seek_head, .seek_realtime_usec = fake_seek_realtime,
	.seek_cursor = fake_seek_cursor, .next = fake_next, .get_realtime_usec = fake_realtime,
	.get_cursor = fake_cursor, .get_data = fake_data, .set_data_threshold = fake_threshold,
	.get_fd = fake_fd, .process = fake_process, .has_runtime_files = fake_has_files,
	.has_persistent_files = fake_has_files };
