/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Configuration generations in the segment's company: class records by
 *          name, the block in a file, its number in the header.
 * MODEL    The block is complete in PATH.config.N before the number N is stored.
 *          The one before it stays for roles that are just about to map it.
 * THREADS  Publishing: the supervisor alone.  Mapping: any.
 */
#include "segment/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/sessions.h"

static void config_path(const struct segment *segment, uint64_t number,
    const char *suffix, char out[PATH_MAX + 32]) {
	snprintf(out, PATH_MAX + 32, "%s.config.%llu%s", segment->path,
	    (unsigned long long)number, suffix);
}

/* May the record of a removed class get another name? */
static bool record_is_idle(const struct segment *segment, uint16_t number) {
	uint32_t first, count;

	if (atomic_load(&segment->records[number].open) != 0)
		return false;
	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t i = 0; i < count; i++) {
			struct session_control control =
			    session_load_control(segment, first + i);

			if (control.state != SESSION_FREE &&
			    control.class_record == number)
				return false;
		}
	}
	return true;
}

static void record_name(struct segment *segment, uint16_t number,
    const char *name, int64_t now_ns) {
	struct class_record *record = &segment->records[number];

	clients_purge(segment, number, now_ns);
	atomic_fetch_add(&record->seq, 1);
	atomic_store(&record->peak, 0);
	atomic_store(&record->admitted, 0);
	atomic_store(&record->refused, 0);
	atomic_store(&record->deferred, 0);
	atomic_store(&record->observed, 0);
	atomic_store(&record->adopted, 0);
	atomic_store(&record->rate_tat_ns, 0);
	memset(record->name, 0, sizeof(record->name));
	snprintf(record->name, sizeof(record->name), "%s", name);
	atomic_store(&record->in_use, 2);
	atomic_fetch_add(&record->seq, 1);
}

uint16_t segment_record(struct segment *segment, const char *name,
    int64_t now_ns) {
	uint32_t count = segment->header->record_count;
	uint32_t free_record = count;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t in_use = atomic_load(&segment->records[i].in_use);

		if (in_use != 0 && strcmp(segment->records[i].name, name) == 0)
			return (uint16_t)i;
		if (in_use == 0 && free_record == count)
			free_record = i;
	}
	for (uint32_t i = 0; i < count && free_record == count; i++) {
		if (atomic_load(&segment->records[i].in_use) == 2 &&
		    record_is_idle(segment, (uint16_t)i))
			free_record = i;
	}
	if (free_record == count)
		return SEGMENT_NO_CLASS;
	record_name(segment, (uint16_t)free_record, name, now_ns);
	return (uint16_t)free_record;
}

static int resolve_records(struct segment *segment, struct generation *generation,
    struct diag *diag) {
	int64_t now_ns = clock_now_ns();

	for (uint32_t i = 0; i < generation->class_count; i++) {
		struct generation_class *class = (struct generation_class *)
		    (void *)((char *)generation + generation->classes) + i;
		const char *name = generation_text(generation, class->name);
		uint16_t record = segment_record(segment, name, now_ns);

		if (record == SEGMENT_NO_CLASS)
			return diag_set(diag, 0, "class %s: all %u class records "
			    "are in use; raise state.classes", name,
			    segment->header->record_count);
		class->record = record;
	}
	return 0;
}

static void refresh_records(struct segment *segment,
    const struct generation *generation) {
	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		struct class_record *record = &segment->records[i];
		bool wanted = false;

		if (atomic_load(&record->in_use) == 0)
			continue;
		for (uint32_t c = 0; c < generation->class_count; c++) {
			const struct generation_class *class =
			    generation_class(generation, c);

			if (class->record != i)
				continue;
			wanted = true;
			atomic_store(&record->sessions, class->limits.sessions);
			atomic_store(&record->inbound, class->limits.inbound);
			atomic_store(&record->observe, class->observe);
			atomic_store(&record->in_use, 1);
		}
		if (wanted)
			continue;
		atomic_store(&record->in_use,
		    record_is_idle(segment, (uint16_t)i) ? 0 : 2);
	}
}

static int write_block(const char *path, const struct generation *generation,
    struct diag *diag) {
	const char *from = (const char *)generation;
	size_t left = generation->bytes;
	struct stat status;
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	    0644);
	if (fd < 0)
		return diag_set(diag, errno, "cannot create %s", path);
	while (left > 0) {
		ssize_t written = write(fd, from, left);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			diag_set(diag, errno, "cannot write to %s", path);
			close(fd);
			unlink(path);
			return -1;
		}
		from += written;
		left -= (size_t)written;
	}
	if (fstat(fd, &status) == 0)
		(void)fchmod(fd, 0644);
	close(fd);
	return 0;
}

int segment_publish(struct segment *segment, struct generation *generation,
    struct diag *diag) {
	uint64_t number = 1 + atomic_load(&segment->header->generation);
	char temporary[PATH_MAX + 32], path[PATH_MAX + 32];

	generation->number = number;
	generation->loaded_wall_s = clock_wall_s();
	if (resolve_records(segment, generation, diag) != 0)
		return -1;
	config_path(segment, number, ".new", temporary);
	config_path(segment, number, "", path);
	if (write_block(temporary, generation, diag) != 0)
		return -1;
	if (rename(temporary, path) != 0) {
		diag_set(diag, errno, "cannot rename %s", temporary);
		unlink(temporary);
		return -1;
	}
	refresh_records(segment, generation);
	atomic_store_explicit(&segment->header->generation, number,
	    memory_order_release);
	for (uint64_t old = number >= 18 ? number - 18 : 0; old + 1 < number;
	     old++) {
		config_path(segment, old, "", path);
		unlink(path);
	}
	return 0;
}

int segment_map_generation(const struct segment *segment, uint64_t number,
    const struct generation **generation, struct diag *diag) {
	char path[PATH_MAX + 32];
	struct stat status;
	void *mapping;
	int fd;

	config_path(segment, number, "", path);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return diag_set(diag, errno, "cannot open %s", path);
	if (fstat(fd, &status) != 0 ||
	    (uint64_t)status.st_size < sizeof(**generation)) {
		close(fd);
		return diag_set(diag, 0, "%s is too small", path);
	}
	mapping = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (mapping == MAP_FAILED)
		return diag_set(diag, errno, "cannot map %s", path);
	if (generation_verify(mapping, (size_t)status.st_size, diag) != 0) {
		munmap(mapping, (size_t)status.st_size);
		return -1;
	}
	*generation = mapping;
	return 0;
}

void segment_unmap_generation(const struct generation *generation) {
	munmap((void *)(uintptr_t)generation, generation->bytes);
}
