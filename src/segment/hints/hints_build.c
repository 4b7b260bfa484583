/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Makes hints files.
 * MODEL    Sized and filled under another name, then renamed; the file before is
 *          told so afterwards.  A table whose names crowd is built again with
 *          twice the buckets, so that readers need look at few.
 * ERRORS   Of the environment: diag; the file before stays in force, and goes
 *          stale when its beat stops.
 * THREADS  One.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "segment/hints/hints_internal.h"

#define BUCKETS_LEAST	64
#define NAMES_SPARE	4096	/* bytes, besides a fifth more than there are */
#define REASONS_LEAST	256
#define REASONS_SHARE	8	/* of the keys: so many can be held, each for a reason of
				 * its own */
#define RECIPIENTS_LEAST 64

int hints_writer_open(struct hints_writer **writer, const char *path, gid_t group,
    struct diag *diag) {
	struct hints_writer *new = calloc(1, sizeof(*new));

	if (new == NULL)
		return diag_set(diag, errno, "no memory for the hints");
	new->group = group;
	if (!text_copy(new->path, sizeof(new->path), path, strlen(path)) ||
	    !clock_boot_id(new->boot_id)) {
		free(new);
		return diag_set(diag, 0, "%s: the path is too long, or there is no boot id",
		    path);
	}
	*writer = new;
	return 0;
}

static void file_forget(struct hints_file *file) {
	if (file->header != NULL) {
		munmap(file->header, file->bytes);
		close(file->fd);
	}
	free(file->reason_of);
	free(file->reasons_free);
	*file = (struct hints_file){ .header = NULL };
}

static void temporary_of(const struct hints_writer *writer, char out[PATH_MAX + 8]) {
	snprintf(out, PATH_MAX + 8, "%s.new", writer->path);
}

static void give_up(struct hints_writer *writer) {
	char temporary[PATH_MAX + 8];

	if (writer->built.header == NULL)
		return;
	temporary_of(writer, temporary);
	unlink(temporary);
	file_forget(&writer->built);
}

void hints_writer_close(struct hints_writer **writer) {
	if (*writer != NULL) {
		give_up(*writer);
		file_forget(&(*writer)->placed);
	}
	free(*writer);
	*writer = NULL;
}

static uint32_t power_of_two(uint32_t least, uint64_t wanted, uint32_t most) {
	uint32_t count = least;

	while (count < wanted && count < most)
		count *= 2;
	return count;
}

static void fill_sources(const struct hints_table *table, struct hints_header *plan) {
	plan->given_id = table->given_id;
	plan->source_count = table->source_count < HINTS_SOURCES_MAX ? table->source_count :
	    HINTS_SOURCES_MAX;
	for (uint32_t i = 0; i < plan->source_count; i++) {
		const struct hints_source *source = &table->sources[i];
		struct hints_file_source *to = &plan->sources[i];

		(void)text_copy(to->name, sizeof(to->name), source->name, strlen(source->name));
		to->transport = source->transport;
		to->over = source->over;
		to->is_per_provider = source->is_per_provider;
	}
}

/* The sizes in *plan, but of the names and groups, are known.  False: too many names. */
static bool lay_out(const struct hints_table *table, struct hints_header *plan) {
	uint64_t names = 0;

	for (size_t i = 0; i < table->count; i++)
		names += hints_name_bytes(&table->hints[i]);
	names += names / 5 + NAMES_SPARE;
	if (names >= UINT32_MAX)
		return false;
	plan->names_bytes = (uint32_t)names;
	plan->group_count = table->group_count;
	plan->pace_count = table->paces < HINTS_PACES_MAX ? table->paces : HINTS_PACES_MAX;
	memcpy(&plan->pass_key, &table->pass_key, sizeof(plan->pass_key));
	fill_sources(table, plan);
	hints_geometry(plan);
	return true;
}

/* An empty file of its full size, whose pages are there: neither a full disk nor
 * a short file can end us later. */
static int make_file(const struct hints_writer *writer, const char *path,
    uint64_t bytes, struct diag *diag) {
	bool is_open = writer->group == (gid_t)-1;
	int fd, error;

	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return diag_set(diag, errno, "cannot create %s", path);
	error = posix_fallocate(fd, 0, (off_t)bytes);
	if (error == 0 && !is_open && fchown(fd, (uid_t)-1, writer->group) != 0)
		error = errno;
	if (error == 0 && fchmod(fd, is_open ? 0644 : 0640) != 0)
		error = errno;
	if (error != 0) {
		close(fd);
		unlink(path);
		return diag_set(diag, error, "cannot create %s", path);
	}
	return fd;
}

static bool fill_header(const struct hints_writer *writer, const struct hints_table *table,
    const struct hints_header *plan, struct hints_header *header) {
	memcpy(header, plan, sizeof(*header));
	header->version = HINTS_VERSION;
	header->header_bytes = sizeof(*header);
	memcpy(header->boot_id, writer->boot_id, sizeof(header->boot_id));
	if (getrandom(&header->key, sizeof(header->key), 0) != sizeof(header->key))
		return false;
	header->mta_count = (uint32_t)table->mta_count;
	for (size_t i = 0; i < table->mta_count; i++) {
		struct hints_file_mta *mta = &header->mtas[i];

		text_copy(mta->name, sizeof(mta->name), table->mtas[i].name,
		    strlen(table->mtas[i].name));
		mta->width_count = table->mtas[i].width_count;
		memcpy(mta->widths, table->mtas[i].widths, sizeof(mta->widths));
		if (table->unknown != NULL && table->unknown[i].count > 0)
			mta->unknown = hints_word_lanes(&table->unknown[i]);
	}
	return true;
}

/* False: the names crowd. */
static bool fill_keys(struct hints_file *file, const struct hints_table *table,
    uint32_t *places) {
	for (size_t i = 0; i < table->count; i++) {
		uint32_t place;
		enum hints_insertion done = hints_file_insert(file,
		    &table->hints[i], &place);

		if (done == HINTS_CROWDED)
			return false;
		if (places != NULL)
			places[i] = place;
	}
	return true;
}

enum built { BUILT, BUILT_CROWDED, BUILT_FAILED };

static enum built file_build(struct hints_writer *writer, const struct hints_table *table,
    const struct hints_header *plan, uint32_t *places, struct diag *diag) {
	struct hints_file *file = &writer->built;
	char temporary[PATH_MAX + 8];
	struct stat status;
	void *mapping;
	int fd;

	temporary_of(writer, temporary);
	fd = make_file(writer, temporary, plan->bytes, diag);
	if (fd < 0)
		return BUILT_FAILED;
	if (fstat(fd, &status) != 0)
		memset(&status, 0, sizeof(status));
	mapping = mmap(NULL, (size_t)plan->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
	    fd, 0);
	if (mapping == MAP_FAILED) {
		diag_set(diag, errno, "cannot map %s", temporary);
		close(fd);
		unlink(temporary);
		return BUILT_FAILED;
	}
	*file = (struct hints_file){ .header = mapping, .bytes = (size_t)plan->bytes,
		.device = status.st_dev, .inode = status.st_ino, .fd = fd };
	file->reason_of = calloc(plan->bucket_count, sizeof(*file->reason_of));
	if (file->reason_of == NULL || !fill_header(writer, table, plan, file->header)) {
		diag_set(diag, errno, "no memory for the hints");
		give_up(writer);
		return BUILT_FAILED;
	}
	hints_file_begin_reasons(file);
	if (!fill_keys(file, table, places)) {
		give_up(writer);
		return BUILT_CROWDED;
	}
	return BUILT;
}

int hints_writer_build(struct hints_writer *writer, const struct hints_table *table,
    uint32_t *places, struct diag *diag) {
	struct hints_header plan = { .magic = 0 };
	uint64_t keys = table->count + table->count / 5;

	give_up(writer);
	if (table->mta_count > HINTS_MTAS_MAX || keys > UINT32_MAX / 4)
		return diag_set(diag, 0, "%s: too many hints", writer->path);
	plan.bucket_count = power_of_two(BUCKETS_LEAST, 2 * keys, HINTS_BUCKETS_MOST);
	plan.reason_count = REASONS_LEAST + (uint32_t)(keys / REASONS_SHARE) +
	    (uint32_t)table->recipients;
	plan.recipient_count = power_of_two(RECIPIENTS_LEAST,
	    2 * (uint64_t)table->recipients, HINTS_BUCKETS_MOST);
	for (;; plan.bucket_count *= 2) {
		enum built done;

		if (plan.bucket_count > HINTS_BUCKETS_MOST || !lay_out(table, &plan))
			return diag_set(diag, 0, "%s: too many hints", writer->path);
		done = file_build(writer, table, &plan, places, diag);
		if (done != BUILT_CROWDED)
			break;
	}
	if (writer->built.header == NULL)
		return -1;
	for (uint32_t i = 0; i < table->group_count; i++)
		hints_writer_hold_group(writer, i, table->group_texts[i]);
	return 0;
}

/* The file that an earlier writer left is ours to mark, if it is one. */
static void find_left(struct hints_writer *writer) {
	struct hints_header *header;
	struct stat status;
	int fd = open(writer->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	    (uint64_t)status.st_size >= sizeof(*header)) {
		header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE,
		    MAP_SHARED, fd, 0);
		if (header != MAP_FAILED) {
			writer->placed.header = header;
			writer->placed.bytes = sizeof(*header);
			writer->placed.fd = fd;
			return;
		}
	}
	close(fd);
}

int hints_writer_publish(struct hints_writer *writer, int64_t now_ns,
    struct diag *diag) {
	struct hints_file *built = &writer->built, *placed = &writer->placed;
	char temporary[PATH_MAX + 8];

	if (built->header == NULL)
		return diag_set(diag, 0, "%s: nothing was built", writer->path);
	(void)hints_writer_was_cut(writer);
	if (placed->header == NULL)
		find_left(writer);
	atomic_store(&built->header->beat_ns, now_ns);
	atomic_store_explicit(&built->header->magic, HINTS_MAGIC, memory_order_release);
	temporary_of(writer, temporary);
	if (rename(temporary, writer->path) != 0) {
		diag_set(diag, errno, "cannot rename %s", temporary);
		give_up(writer);
		return -1;
	}
	if (placed->header != NULL &&
	    atomic_load(&placed->header->magic) == HINTS_MAGIC)
		atomic_store(&placed->header->replaced, 1);
	file_forget(placed);
	*placed = *built;
	*built = (struct hints_file){ .header = NULL };
	return 0;
}

bool hints_writer_was_cut(struct hints_writer *writer) {
	struct hints_file *placed = &writer->placed;
	struct stat status;

	if (placed->header == NULL || (fstat(placed->fd, &status) == 0 &&
	    (uint64_t)status.st_size >= placed->bytes))
		return false;
	file_forget(placed);
	return true;
}

bool hints_writer_is_in_place(const struct hints_writer *writer) {
	struct stat status;

	return writer->placed.reason_of != NULL &&
	    lstat(writer->path, &status) == 0 &&
	    status.st_dev == writer->placed.device &&
	    status.st_ino == writer->placed.inode &&
	    status.st_size == (off_t)writer->placed.bytes;
}
