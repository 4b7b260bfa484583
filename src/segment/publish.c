/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Configuration generations in the segment's company: class records by
 *          name, the block in a file, its number in the header; what becomes of shares.
 * MODEL    The block is complete in PATH.config.N before the number N is stored.
 *          The one before it stays for roles that are just about to map it.
 * THREADS  The keeper alone.
 */
#include "base/text.h"
#include "segment/file/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_bytes.h"
#include "base/map.h"
#include "segment/destination/destinations.h"
#include "segment/destination/recipients.h"
#include "segment/session/sessions.h"
#include "segment/destination/shared.h"

/* Numbers that were not published are passed over. */
#define GENERATIONS_SWEPT 512

/* Nothing is leased any more; `since_ns`: shared from then on, 0: not at all. */
static void forget_share(struct class_record *record, int64_t since_ns) {
	atomic_store(&record->share_until_ns, 0);
	atomic_store(&record->share_parted, 0);
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&record->share[i], 0);
		atomic_store(&record->share_most[i], UINT32_MAX);
		atomic_store(&record->share_refused[i], 0);
		atomic_store(&record->share_wanted[i], 0);
		atomic_store(&record->share_fixed[i], 0);
		atomic_store(&record->share_whole[i], UINT32_MAX);
	}
	atomic_store(&record->share_alone, 0);
	atomic_store(&record->share_since_ns, since_ns);
}

/* It has left the scope: what the server has of it is to be given back. */
static void part_share(struct class_record *record, const struct generation *generation) {
	forget_share(record, 0);
	atomic_store(&record->share_parted, generation->number);
}

/* Gives a record another name.  False: sessions stand in it, as roles may still
 * work with the configuration that knew it, or its lock was not to be had. */
static bool record_name(struct segment *segment, uint16_t number,
    const char *name, int64_t now_ns) {
	struct class_record *record = &segment->records[number];

	if (!class_lock(segment, number, now_ns))
		return false;
	if (atomic_load(&record->open) != 0) {
		class_unlock(segment, number);
		return false;
	}
	if (atomic_load(&record->uses) != 0)
		clients_purge(segment, number, now_ns);
	seq_begin(&record->seq);
	atomic_store(&record->peak, 0);
	atomic_store(&record->admitted, 0);
	atomic_store(&record->refused, 0);
	atomic_store(&record->deferred, 0);
	atomic_store(&record->observed, 0);
	atomic_store(&record->refusing, 0);
	atomic_store(&record->adopted, 0);
	atomic_store(&record->rate_tat_ns, 0);
	forget_share(record, 0);
	memset(record->name, 0, sizeof(record->name));
	snprintf(record->name, sizeof(record->name), "%s", name);
	atomic_store(&record->in_use, CLASS_REMOVED);
	guarded_add(&record->uses, 1);
	seq_end(&record->seq);
	class_unlock(segment, number);
	return true;
}

static bool record_is(const struct segment *segment, uint32_t number, const char *name) {
	const struct class_record *record = &segment->records[number];

	return RELAXED(record->in_use) != CLASS_FREE &&
	    strncmp(record->name, name, sizeof(record->name)) == 0;
}

/* For many classes at once: a look through all records for each would be too much. */
struct record_finder {
	struct segment *segment;
	struct map names;	/* numbers by hash of the name */
	uint32_t at[3];		/* by `wanted`: those were looked through up to here */
	bool *taken;		/* by a class of the new generation */
	int64_t now_ns;
};

static uint64_t finder_hash(const struct record_finder *finder, const char *name) {
	return siphash13(&finder->segment->header->key, name,
	    strnlen(name, sizeof(finder->segment->records->name)));
}

static bool finder_open(struct record_finder *finder, struct segment *segment, int64_t now_ns) {
	uint32_t count = segment->header->record_count;

	*finder = (struct record_finder){ .segment = segment, .now_ns = now_ns };
	finder->taken = calloc(count, sizeof(*finder->taken));
	if (finder->taken == NULL || !map_reserve(&finder->names, count))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (RELAXED(segment->records[i].in_use) != CLASS_FREE)
			map_add(&finder->names, finder_hash(finder,
			    segment->records[i].name))->index = i;
	return true;
}

static void finder_close(struct record_finder *finder) {
	map_free(&finder->names);
	free(finder->taken);
}

/* The next that no class of the new generation has, of these, without a session. */
static uint16_t finder_next(struct record_finder *finder, uint32_t in_use) {
	while (finder->at[in_use] < finder->segment->header->record_count) {
		uint32_t i = finder->at[in_use]++;
		const struct class_record *record = &finder->segment->records[i];

		if (!finder->taken[i] && RELAXED(record->in_use) == in_use &&
		    RELAXED(record->open) == 0)
			return (uint16_t)i;
	}
	return SEGMENT_NO_CLASS;
}

/* One gets the name: a free one, else a removed one.  Of those that cannot be had now none is
 * tried twice. */
static uint16_t finder_take(struct record_finder *finder, const char *name) {
	uint16_t found;

	for (uint32_t in_use = 0; in_use <= 2; in_use += 2)
		while ((found = finder_next(finder, in_use)) != SEGMENT_NO_CLASS)
			if (record_name(finder->segment, found, name, finder->now_ns)) {
				finder->taken[found] = true;
				return found;
			}
	return SEGMENT_NO_CLASS;
}

static uint16_t finder_find(struct record_finder *finder, const char *name) {
	const struct map_cell *cell = map_find(&finder->names, finder_hash(finder, name));

	for (; cell != NULL; cell = map_next(&finder->names, cell))
		if (record_is(finder->segment, cell->index, name)) {
			finder->taken[cell->index] = true;
			return (uint16_t)cell->index;
		}
	return SEGMENT_NO_CLASS;
}

uint16_t segment_record(struct segment *segment, const char *name,
    int64_t now_ns) {
	struct record_finder finder;
	uint16_t found = SEGMENT_NO_CLASS;

	if (finder_open(&finder, segment, now_ns) &&
	    (found = finder_find(&finder, name)) == SEGMENT_NO_CLASS)
		found = finder_take(&finder, name);
	finder_close(&finder);
	return found;
}

static struct generation_class *class_of(struct generation *generation, uint32_t number) {
	return (struct generation_class *)(void *)((char *)generation + generation->classes) +
	    number;
}

/* A record for a class that has none.  When all others are gone, that of a class which is
 * removed only now: it is still in force, and gets its name last (name_records). */
static int resolve_class(struct record_finder *finder, const struct generation *generation,
    struct generation_class *class, struct diag *diag) {
	const char *name = generation_text(generation, class->name);
	uint16_t record = finder_take(finder, name);

	class->record_use = 0;
	if (record == SEGMENT_NO_CLASS) {
		record = finder_next(finder, 1);
		class->record_use = 1;
	}
	if (record == SEGMENT_NO_CLASS)
		return diag_set(diag, 0, "class %s: all %u class records are in use by "
		    "classes, or by sessions of removed classes; raise state.classes", name,
		    finder->segment->header->record_count);
	class->record = record;
	class->record_use += atomic_load(&finder->segment->records[record].uses);
	return 0;
}

static bool is_named(const struct segment *segment, const struct generation_class *class) {
	return atomic_load(&segment->records[class->record].uses) == class->record_use;
}

/* Until the generation is in force, which is soon, who asks about a class that loses its record
 * here is let in uncounted, as roles see that it has another use.  Where a session came in
 * between, a class has no record: so it is until the same is published once more. */
static void name_records(struct segment *segment, struct generation *generation,
    int64_t now_ns) {
	segment->unnamed = false;
	for (uint32_t c = 0; c < generation->class_count; c++) {
		const struct generation_class *class = class_of(generation, c);

		if (!is_named(segment, class) && !record_name(segment, (uint16_t)class->record,
			generation_text(generation, class->name), now_ns))
			segment->unnamed = true;
	}
}

/* Those that are there come first: nobody takes them then. */
static int resolve_records(struct segment *segment, struct generation *generation,
    int64_t now_ns, struct diag *diag) {
	struct record_finder finder;
	int result = finder_open(&finder, segment, now_ns) ? 0 :
	    diag_set(diag, 0, "no memory for the classes");

	for (uint32_t c = 0; c < generation->class_count && result == 0; c++) {
		struct generation_class *class = class_of(generation, c);
		uint16_t found = finder_find(&finder, generation_text(generation, class->name));

		class->record = found == SEGMENT_NO_CLASS ? GENERATION_NO_RECORD : found;
		if (found != SEGMENT_NO_CLASS)
			class->record_use = atomic_load(&segment->records[found].uses);
	}
	for (uint32_t c = 0; c < generation->class_count && result == 0; c++)
		if (class_of(generation, c)->record == GENERATION_NO_RECORD)
			result = resolve_class(&finder, generation, class_of(generation, c), diag);
	finder_close(&finder);
	return result;
}

/* What a lease is bound to besides the class; 0: there is no cluster. */
static uint64_t identity_of(const struct generation *generation) {
	const struct generation_cluster *cluster = &generation->cluster;
	const uint32_t texts[] = { cluster->redis, cluster->prefix, cluster->node };
	uint64_t hash = 0;

	if (!generation_has_cluster(generation))
		return 0;
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *text = generation_text(generation, texts[i]);

		hash = text_hash(hash, text, strlen(text) + 1);
	}
	hash = text_hash(hash, &cluster->nodes, sizeof(cluster->nodes));
	/* with a shorter one others would reckon with an end before that of what is leased */
	hash = text_hash(hash, &cluster->lease_ns, sizeof(cluster->lease_ns));
	return text_hash(hash, &cluster->fraction, sizeof(cluster->fraction)) | 1;
}

/* A share stands while the class is shared by this node of this cluster.  Where its lock is
 * not to be had what is leased ends all the same: each store alone makes it less. */
static void refresh_share(struct segment *segment, const struct generation *generation,
    const struct generation_class *class, bool same_node, int64_t now_ns) {
	struct class_record *record = &segment->records[class->record];
	bool was_shared = atomic_load(&record->share_since_ns) != 0;
	bool locked;

	if (!class->shared && !was_shared)
		return;
	locked = class_lock(segment, (uint16_t)class->record, now_ns);
	if (!class->shared)
		part_share(record, generation);
	else if (!was_shared || !same_node)
		forget_share(record, now_ns);
	if (class->shared) {
		atomic_store(&record->share_fixed[0], class->fixed_base);
		atomic_store(&record->share_fixed[1], class->fixed_extra);
		atomic_store(&record->share_alone,
		    generation->cluster.when_unreachable == CLUSTER_ALONE);
	}
	if (locked)
		class_unlock(segment, (uint16_t)class->record);
}

/* Who it is that leases: random, and the same as long as this state lives on. */
static void draw_instance(struct segment *segment, const struct generation *generation) {
	uint64_t instance = 0;

	if (!generation_has_cluster(generation) ||
	    atomic_load(&segment->header->cluster_instance) != 0)
		return;
	if (getrandom(&instance, sizeof(instance), 0) != sizeof(instance) || instance == 0)
		instance = (uint64_t)clock_now_ns() << 16 ^ (uint64_t)getpid();
	atomic_store(&segment->header->cluster_instance, instance);
}

static void refresh_shares(struct segment *segment, const struct generation *generation,
    int64_t now_ns) {
	uint64_t identity = identity_of(generation);
	bool same = identity == atomic_load(&segment->header->cluster_identity);

	draw_instance(segment, generation);
	if (!same)
		shared_set_until(segment, 0);
	for (uint32_t c = 0; c < generation->class_count; c++)
		refresh_share(segment, generation, generation_class(generation, c), same,
		    now_ns);
	atomic_store(&segment->header->cluster_identity, identity);
}

/* What is in force is shown with its limits; what is not goes when its last
 * session has ended. */
static void refresh_records(struct segment *segment,
    const struct generation *generation, uint8_t *in_force, int64_t now_ns) {
	for (uint32_t c = 0; c < generation->class_count; c++) {
		const struct generation_class *class =
		    generation_class(generation, c);
		struct class_record *record = &segment->records[class->record];

		if (!is_named(segment, class))
			continue;
		in_force[class->record] = 1;
		atomic_store(&record->sessions, class->limits.sessions);
		atomic_store(&record->inbound, class->limits.inbound);
		atomic_store(&record->observe, class->observe);
		atomic_store(&record->in_use, CLASS_IN_FORCE);
	}
	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		struct class_record *record = &segment->records[i];
		bool locked;

		if (in_force[i] || atomic_load(&record->in_use) == CLASS_FREE)
			continue;
		atomic_store(&record->in_use, CLASS_REMOVED);
		locked = class_lock(segment, (uint16_t)i, now_ns);
		if (atomic_load(&record->share_since_ns) != 0)
			part_share(record, generation);
		if (!locked)
			continue;
		if (atomic_load(&record->open) == 0)
			atomic_store(&record->in_use, CLASS_FREE);
		class_unlock(segment, (uint16_t)i);
	}
}

_Static_assert(SEGMENT_MTAS == GENERATION_MTAS_MAX, "one record each");

/* A number that stands for another mail server than before: what was learned of
 * that one is not this one's. */
static void refresh_mtas(struct segment *segment,
    const struct generation *generation, int64_t now_ns) {
	for (unsigned i = 0; i < SEGMENT_MTAS; i++) {
		struct mta_record *record = &segment->header->mtas[i];
		const char *name = i >= generation->mta_count ? "" :
		    generation_text(generation, generation->mtas[i].name);

		if (strncmp(record->name, name, sizeof(record->name)) == 0)
			continue;
		destinations_forget_mta(segment, i, now_ns);
		/* what a mail server delivered by another transport may be by this one */
		if (i < generation->mta_count && generation->mtas[i].transport != 0)
			destinations_forget_mta(segment, generation->mtas[i].parent, now_ns);
		memset(record->name, 0, sizeof(record->name));
		snprintf(record->name, sizeof(record->name), "%s", name);
	}
}

/* For those alone who may read the state: there are tokens in command lines. */
static int write_block(const char *path, gid_t readers, const struct generation *generation,
    struct diag *diag) {
	int fd, error;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	    0600);
	if (fd < 0)
		return diag_set(diag, errno, "cannot create %s", path);
	if (fchown(fd, (uid_t)-1, readers) != 0 || fchmod(fd, 0640) != 0)
		error = diag_set(diag, errno, "cannot set the readers' permissions of %s", path);
	else if ((error = file_write_at(fd, generation, (size_t)generation->bytes, 0)) != 0)
		error = diag_set(diag, -error, "cannot write to %s", path);
	close(fd);
	if (error != 0)
		unlink(path);
	return error;
}

/* Complete under its final name, or not there. */
static int put_block(const struct segment *segment,
    const struct generation *generation, struct diag *diag) {
	char temporary[PATH_MAX + 32], path[PATH_MAX + 32];

	segment_config_path(segment, generation->number, ".new", temporary);
	segment_config_path(segment, generation->number, "", path);
	if (write_block(temporary, segment->readers, generation, diag) != 0)
		return -1;
	if (rename(temporary, path) != 0) {
		diag_set(diag, errno, "cannot rename %s", temporary);
		unlink(temporary);
		return -1;
	}
	return 0;
}

int segment_publish(struct segment *segment, struct generation *generation,
    struct diag *diag) {
	uint64_t previous = atomic_load(&segment->header->generation);
	uint64_t number = generation->number != 0 ? generation->number :
	    previous < SEGMENT_GENERATION_MAX ? previous + 1 : 1;
	uint8_t *in_force = calloc(segment->header->record_count, 1);
	int64_t now_ns = clock_now_ns();
	char path[PATH_MAX + 32];

	generation->number = number;
	generation->loaded_wall_s = clock_wall_s();
	if (in_force == NULL)
		return diag_set(diag, errno, "no memory for the classes");
	if (resolve_records(segment, generation, now_ns, diag) != 0 ||
	    put_block(segment, generation, diag) != 0) {
		free(in_force);
		return -1;
	}
	name_records(segment, generation, now_ns);
	refresh_records(segment, generation, in_force, now_ns);
	refresh_shares(segment, generation, now_ns);
	refresh_mtas(segment, generation, now_ns);
	free(in_force);
	atomic_store(&segment->header->published_ns, now_ns);
	atomic_store_explicit(&segment->header->generation, number,
	    memory_order_release);
	for (uint64_t old = number > GENERATIONS_SWEPT ? number - GENERATIONS_SWEPT : 0;
	     old < number; old++) {
		segment_config_path(segment, old, "", path);
		if (old != previous)
			unlink(path);
	}
	return 0;
}
