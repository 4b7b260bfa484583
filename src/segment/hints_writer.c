/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Writes the hints file.
 * MODEL    Sized and filled under another name, then renamed; the file before is
 *          told so afterwards.  A table whose names crowd is built again with
 *          twice the buckets, so that readers need look at few.
 * ERRORS   Of the environment: diag; the file before stays in force, and goes
 *          stale when its beat stops.
 * THREADS  One.
 */
#include "segment/hints_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

#define BUCKETS_LEAST	8
#define BUCKETS_MOST	(1u << 24)

struct hints_writer {
	char path[PATH_MAX];
	char boot_id[CLOCK_BOOT_ID];
	struct hints_header *header;	/* mapped; NULL: nothing is published */
	struct hints_group *groups;
	size_t bytes;
};

/* What a file of these hints takes. */
struct plan {
	const struct hint *hints;
	size_t count;
	uint32_t group_count;
	uint32_t bucket_count;
	uint64_t groups_offset, buckets_offset, names_offset, names_bytes, bytes;
};

static bool is_fit(const struct plan *plan, const struct hint *hint) {
	return hint->domain[0] != '\0' && strlen(hint->domain) <= HINTS_NAME_MAX &&
	    strlen(hint->mta) <= HINTS_NAME_MAX && hint->group < plan->group_count;
}

static void lay_out(struct plan *plan) {
	plan->names_bytes = 0;
	for (size_t i = 0; i < plan->count; i++)
		if (is_fit(plan, &plan->hints[i]))
			plan->names_bytes += 2 + strlen(plan->hints[i].mta) +
			    strlen(plan->hints[i].domain);
	plan->groups_offset = sizeof(struct hints_header);
	plan->buckets_offset = plan->groups_offset +
	    (uint64_t)plan->group_count * sizeof(struct hints_group);
	plan->names_offset = plan->buckets_offset +
	    (uint64_t)plan->bucket_count * sizeof(struct hints_bucket);
	plan->bytes = plan->names_offset + plan->names_bytes;
}

int hints_writer_open(struct hints_writer **writer, const char *path,
    struct diag *diag) {
	struct hints_writer *new = calloc(1, sizeof(*new));

	if (new == NULL)
		return diag_set(diag, errno, "no memory for the hints");
	if (!text_copy(new->path, sizeof(new->path), path, strlen(path)) ||
	    !clock_boot_id(new->boot_id)) {
		free(new);
		return diag_set(diag, 0, "%s: the path is too long, or there is no boot id",
		    path);
	}
	*writer = new;
	return 0;
}

void hints_writer_close(struct hints_writer **writer) {
	if (*writer != NULL && (*writer)->header != NULL)
		munmap((*writer)->header, (*writer)->bytes);
	free(*writer);
	*writer = NULL;
}

/* An empty file of its full size, whose pages are there: neither a full disk nor
 * a short file can end us later. */
static int make_file(const char *path, uint64_t bytes, struct diag *diag) {
	int fd, error;

	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return diag_set(diag, errno, "cannot create %s", path);
	error = posix_fallocate(fd, 0, (off_t)bytes);
	if (error == 0 && fchmod(fd, 0644) != 0)
		error = errno;
	if (error != 0) {
		close(fd);
		unlink(path);
		return diag_set(diag, error, "cannot make %s", path);
	}
	return fd;
}

/* False: too many names crowd in one place. */
static bool insert(const struct plan *plan, struct hints_header *header,
    const struct hint *hint, uint32_t *names_used) {
	char *base = (char *)header, *names = base + plan->names_offset;
	struct hints_bucket *buckets = (void *)(base + plan->buckets_offset);
	size_t mta = strlen(hint->mta), domain = strlen(hint->domain);
	char name[2 * HINTS_NAME_MAX + 2];
	uint64_t hash;

	memcpy(name, hint->mta, mta + 1);
	memcpy(name + mta + 1, hint->domain, domain);
	hash = hints_hash(&header->key, name, mta + 1 + domain);
	for (uint32_t probe = 0; probe < HINTS_PROBES; probe++) {
		struct hints_bucket *bucket =
		    &buckets[(hash + probe) & (plan->bucket_count - 1)];
		char *at = names + *names_used;

		if (bucket->name != 0) {
			const char *there = names + bucket->name - 1;

			if ((uint8_t)there[0] == mta && (uint8_t)there[1] == domain &&
			    memcmp(there + 2, hint->mta, mta) == 0 &&
			    memcmp(there + 2 + mta, hint->domain, domain) == 0)
				return true;
			continue;
		}
		at[0] = (char)mta;
		at[1] = (char)domain;
		memcpy(at + 2, hint->mta, mta);
		memcpy(at + 2 + mta, hint->domain, domain);
		bucket->name = *names_used + 1;
		bucket->group = hint->group;
		*names_used += (uint32_t)(2 + mta + domain);
		return true;
	}
	return false;
}

static void store_text(struct hints_group *group, const char *text) {
	uint64_t words[HINTS_TEXT_WORDS] = { 0 };

	if (text != NULL)
		text_copy((char *)words, HINTS_TEXT_MAX + 1, text, strlen(text));
	atomic_store_explicit(&group->seq, 1 + atomic_load_explicit(&group->seq,
	    memory_order_relaxed), memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < HINTS_TEXT_WORDS; i++)
		atomic_store_explicit(&group->text[i], words[i], memory_order_relaxed);
	atomic_store_explicit(&group->seq, 1 + atomic_load_explicit(&group->seq,
	    memory_order_relaxed), memory_order_release);
}

static bool fill(const struct hints_writer *writer, const struct plan *plan,
    struct hints_header *header, const char *const *texts, int64_t now_ns) {
	struct hints_group *groups = (void *)((char *)header + plan->groups_offset);
	uint32_t names_used = 0;

	header->version = HINTS_VERSION;
	header->header_bytes = sizeof(*header);
	header->bytes = plan->bytes;
	memcpy(header->boot_id, writer->boot_id, sizeof(header->boot_id));
	if (getrandom(&header->key, sizeof(header->key), 0) != sizeof(header->key))
		return false;
	header->group_count = plan->group_count;
	header->bucket_count = plan->bucket_count;
	header->names_bytes = (uint32_t)plan->names_bytes;
	header->groups_offset = plan->groups_offset;
	header->buckets_offset = plan->buckets_offset;
	header->names_offset = plan->names_offset;
	for (uint32_t i = 0; i < plan->group_count; i++)
		store_text(&groups[i], texts[i]);
	for (size_t i = 0; i < plan->count; i++)
		if (is_fit(plan, &plan->hints[i]) &&
		    !insert(plan, header, &plan->hints[i], &names_used))
			return false;
	atomic_store(&header->beat_ns, now_ns);
	atomic_store_explicit(&header->magic, HINTS_MAGIC, memory_order_release);
	return true;
}

/* A mapping of the finished file PATH.new, or NULL: with diag->error 0 the names
 * crowd. */
static struct hints_header *build(const struct hints_writer *writer,
    const struct plan *plan, const char *temporary, const char *const *texts,
    int64_t now_ns, struct diag *diag) {
	int fd = make_file(temporary, plan->bytes, diag);
	struct hints_header *header;

	if (fd < 0)
		return NULL;
	header = mmap(NULL, (size_t)plan->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
	    fd, 0);
	close(fd);
	if (header == MAP_FAILED) {
		diag_set(diag, errno, "cannot map %s", temporary);
	} else if (!fill(writer, plan, header, texts, now_ns)) {
		munmap(header, (size_t)plan->bytes);
		diag_set(diag, 0, "%s: too many names in one place", temporary);
	} else {
		return header;
	}
	unlink(temporary);
	return NULL;
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
			writer->header = header;
			writer->bytes = sizeof(*header);
		}
	}
	close(fd);
}

static void replace(struct hints_writer *writer, struct hints_header *header,
    const struct plan *plan) {
	if (writer->header != NULL) {
		if (atomic_load(&writer->header->magic) == HINTS_MAGIC)
			atomic_store(&writer->header->replaced, 1);
		munmap(writer->header, writer->bytes);
	}
	writer->header = header;
	writer->groups = (void *)((char *)header + plan->groups_offset);
	writer->bytes = (size_t)plan->bytes;
}

int hints_writer_publish(struct hints_writer *writer, const struct hint *hints,
    size_t count, const char *const *texts, uint32_t group_count, int64_t now_ns,
    struct diag *diag) {
	struct plan plan = { .hints = hints, .count = count,
		.group_count = group_count, .bucket_count = BUCKETS_LEAST };
	struct hints_header *header = NULL;
	char temporary[PATH_MAX + 8];

	snprintf(temporary, sizeof(temporary), "%s.new", writer->path);
	while (plan.bucket_count < 2 * count && plan.bucket_count < BUCKETS_MOST)
		plan.bucket_count *= 2;
	for (; header == NULL; plan.bucket_count *= 2) {
		lay_out(&plan);
		if (plan.bucket_count > BUCKETS_MOST || plan.names_bytes >= UINT32_MAX)
			return diag_set(diag, 0, "%s: too many hints", writer->path);
		header = build(writer, &plan, temporary, texts, now_ns, diag);
		if (header != NULL)
			break;
		if (diag->error != 0)
			return -1;
	}
	if (writer->header == NULL)
		find_left(writer);
	if (rename(temporary, writer->path) != 0) {
		diag_set(diag, errno, "cannot rename %s", temporary);
		munmap(header, (size_t)plan.bytes);
		unlink(temporary);
		return -1;
	}
	replace(writer, header, &plan);
	return 0;
}

void hints_writer_hold(struct hints_writer *writer, uint32_t group,
    const char *text) {
	if (writer->groups != NULL && group < writer->header->group_count)
		store_text(&writer->groups[group], text);
}

void hints_writer_beat(struct hints_writer *writer, int64_t now_ns) {
	if (writer->groups != NULL)
		atomic_store_explicit(&writer->header->beat_ns, now_ns,
		    memory_order_relaxed);
}
