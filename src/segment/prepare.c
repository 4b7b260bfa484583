/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Making, adopting and rebuilding the segment's file.
 * MODEL    An existing file is adopted when it is ours, of this layout, these
 *          sizes and this boot; then every slot is checked and everything else is
 *          derived anew.  Otherwise a new file is made beside it, filled from
 *          PATH.sessions (renewed first from the old file, where only its sizes
 *          differ), and renamed into place; readers of the old one see the mark
 *          "replaced".
 * ERRORS   Of the environment: diag.  Nothing in a file is trusted: a role of before may live on
 *          and write to it.
 * THREADS  One, in a process of its own before any role; the supervisor holds PATH.lock.
 */
#include "segment/account/accounts.h"
#include "segment/file/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "policy/window/share.h"
#include "segment/decision/decisions.h"
#include "segment/destination/destination_table.h"
#include "segment/file/feed_position.h"
#include "segment/geometry.h"
#include "segment/hints/sources.h"
#include "segment/queue/grants.h"
#include "segment/destination/recipients.h"
#include "segment/session/sessions.h"
#include "segment/destination/shared.h"

#define STATE_MODE 0640
#define DECIDED_PLAUSIBLE	(UINT64_C(1) << 48)	/* a million a second, for years */

static const char other_sizes[] = "the configured sizes are different";

/* Why it is not ours to go on with, or NULL. */
static const char *check_header(const struct segment_header *header,
    uint64_t bytes, const struct generation *generation) {
	const char *why = segment_check_layout(header, bytes);
	char boot_id[40];

	if (why != NULL)
		return why;
	if (!clock_boot_id(boot_id) ||
	    memcmp(boot_id, header->boot_id, sizeof(boot_id)) != 0)
		return "it is from an earlier boot";
	if (header->created_ns <= 0 || header->created_ns > clock_now_ns())
		return "its creation time is invalid";
	if (header->record_count != generation->record_count ||
	    header->session_count != generation->session_count ||
	    header->destination_count != generation->destination_count ||
	    header->account_count != generation->account_count)
		return other_sizes;
	return NULL;
}

/* What was leased on this boot is this state's still, but for no longer than any lease; who was
 * started just now is not alone yet. */
static void scrub_share(struct class_record *record) {
	int64_t now_ns = clock_now_ns(), until_ns = atomic_load(&record->share_until_ns);

	if (until_ns < 0 || until_ns > now_ns + SHARE_LEASE_MOST_MS * NS_PER_MS)
		atomic_store(&record->share_until_ns, 0);
	if (atomic_load(&record->share_since_ns) != 0)
		atomic_store(&record->share_since_ns, now_ns);
}

/* Class names are text from a file that others could have written. */
static void scrub_records(struct segment *segment) {
	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		struct class_record *record = &segment->records[i];

		if (atomic_load(&record->in_use) >= CLASS_USE_COUNT ||
		    memchr(record->name, '\0', sizeof(record->name)) == NULL ||
		    record->name[0] == '\0')
			atomic_store(&record->in_use, CLASS_FREE);
		if (atomic_load(&record->in_use) == CLASS_FREE) {
			memset(record->name, 0, sizeof(record->name));
			atomic_store(&record->share_parted, 0);
		} else {
			/* until the configuration names it again */
			atomic_store(&record->in_use, CLASS_REMOVED);
		}
		if (atomic_load(&record->seq) % 2 != 0)
			atomic_fetch_add(&record->seq, 1);
		scrub_share(record);
	}
}

/* A time that no clock has shown yet would spoil each difference with it. */
static void bound_time(_Atomic int64_t *time_ns, int64_t now_ns) {
	int64_t value = atomic_load(time_ns);

	if (value < 0 || value > now_ns)
		atomic_store(time_ns, now_ns);
}

static void scrub_roles(struct segment *segment) {
	int64_t now_ns = clock_now_ns();

	for (unsigned i = 0; i < SEGMENT_ROLES_MAX; i++) {
		struct role_record *role = &segment->header->roles[i];

		if (atomic_load(&role->kind) >= ROLE_KINDS)
			memset(role, 0, sizeof(*role));
		bound_time(&role->heartbeat_ns, now_ns);
		bound_time(&role->started_ns, now_ns);
		bound_time(&role->gap_begin_ns, now_ns);
		if (atomic_load(&role->gap_end_ns) != INT64_MAX)
			bound_time(&role->gap_end_ns, now_ns);
		if (atomic_load(&role->kind) != ROLE_NONE &&
		    atomic_load(&role->pid) != 0)
			(void)segment_role_died(segment, i, atomic_load(&role->pid));
	}
}

/* A key that none of ours can have would be a place lost. */
static void scrub_listeners(struct segment *segment) {
	for (unsigned i = 0; i < SEGMENT_LISTENERS; i++) {
		struct listener_record *record = &segment->header->listeners[i];
		uint32_t key = atomic_load(&record->key);

		if (key != 0 && (key >> 31 == 0 ||
			(key >> 16 & 0x7fff) > UINT8_MAX))
			memset(record, 0, sizeof(*record));
	}
}

/* Names as the configuration allows them; they stand in the text file too. */
static void scrub_mtas(struct segment *segment) {
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

	for (unsigned i = 0; i < SEGMENT_MTAS; i++) {
		struct mta_record *record = &segment->header->mtas[i];
		size_t length = strnlen(record->name, sizeof(record->name));

		if (length > SEGMENT_NAME_MAX ||
		    strspn(record->name, allowed) != length)
			memset(record, 0, sizeof(*record));
	}
}

static uint64_t decided_begin(int64_t wall_s) {
	return (uint64_t)(wall_s > 0 ? wall_s : 0) << DECIDED_BEGIN_SHIFT;
}

/* A number that nobody can have come to would make ids that lead nowhere, and a lower one
 * such as were given. */
static void scrub_decisions(struct segment_header *header) {
	uint64_t least = decided_begin(header->created_wall_s);

	for (unsigned i = 0; i < DECIDED_RINGS; i++) {
		uint64_t number = atomic_load(&header->decided_next[i].number);

		if (number < least || number - least > DECIDED_PLAUSIBLE)
			atomic_store(&header->decided_next[i].number,
			    decided_begin(clock_wall_s()));
	}
}

static const struct learned_kind *const learned_kinds[] = {
	&destination_state_kind, &relay_kind, &recipient_kind,
#ifdef WITH_ACCOUNTS
	&account_kind, &account_mail_kind, &account_health_kind, &account_queued_kind,
#endif
};
#define LEARNED_KINDS	(sizeof(learned_kinds) / sizeof(learned_kinds[0]))

static void scrub_learned(struct segment *segment, int64_t now_ns) {
	for (unsigned i = 0; i < LEARNED_KINDS; i++) {
		struct learned table = learned_table(segment, learned_kinds[i]);

		learned_scrub(&table, segment_ds(segment, now_ns));
	}
#ifdef WITH_ACCOUNTS
	accounts_scrub(segment, now_ns);
#endif
}

static uint64_t segment_adopt(struct segment *segment) {
	scrub_records(segment);
	scrub_roles(segment);
	scrub_listeners(segment);
	scrub_mtas(segment);
	grants_scrub(segment);
	shared_scrub(segment);
	sources_scrub(segment);
	scrub_decisions(segment->header);
	scrub_learned(segment, clock_now_ns());
	states_scrub(segment, clock_now_ns());
	atomic_store(&segment->header->replaced, 0);
	return sessions_rebuild(segment);
}

/* Only the sizes differ: the file itself tells the sessions better than the text,
 * which may be a second old, and it alone knows the destinations.  NULL: the text
 * has to do. */
static struct segment *open_for_rebuilding(const char *path, void *mapping) {
	struct segment *old = calloc(1, sizeof(*old));
	int64_t now_ns = clock_now_ns(), heard_ns;
	struct diag ignored;

	if (old == NULL)
		return NULL;
	snprintf(old->path, sizeof(old->path), "%s", path);
	segment_bind(old, mapping);
	heard_ns = atomic_load(&old->header->heartbeat_ns);
	segment_adopt(old);
	(void)segment_save_sessions(old,
	    heard_ns > 0 && heard_ns < now_ns ? heard_ns : now_ns, &ignored);
	return old;
}

/* What no text tells. */
static void carry_learned(const struct segment *from, struct segment *to) {
	struct feed_position positions[SEGMENT_LOG_FILES];
	unsigned count = feed_positions_all(from, positions);
	uint64_t given = 0;

	for (unsigned i = 0; i < LEARNED_KINDS; i++)
		learned_carry(learned_kinds[i], from, to);
	states_carry(from, to);
	sources_carry(from, to);
#ifdef WITH_ACCOUNTS
	accounts_carry(from, to);
#endif
	for (unsigned i = 0; i < DECIDED_RINGS; i++) {
		uint64_t id = atomic_load(&from->header->decided_next[i].number) *
		    DECIDED_RINGS + i;

		given = id > given ? id : given;
	}
	decisions_begin_after(to, given);
	for (unsigned i = 0; i < SEGMENT_MTAS; i++)
		memcpy(to->header->mtas[i].name, from->header->mtas[i].name,
		    sizeof(to->header->mtas[i].name));
	for (unsigned i = 0; i < count; i++)
		(void)feed_position_add(to, &positions[i]);
}

/* An errno, or 0.  Root gives the file away; its owner, who is in the group, names that. */
static int file_give(int fd, uid_t uid, gid_t gid) {
	bool root = geteuid() == 0;
	struct stat status;

	if (fstat(fd, &status) != 0)
		return errno;
	if (status.st_gid == gid && (!root || status.st_uid == uid))
		return 0;
	return fchown(fd, root ? uid : (uid_t)-1, gid) == 0 ? 0 : errno;
}

static const char died_of_it[] = "workers died because of it";

static bool on_tmpfs(const char *path) {
	struct statfs status;

	return statfs(path, &status) == 0 &&
	    ((uint32_t)status.f_type == TMPFS_MAGIC || (uint32_t)status.f_type == RAMFS_MAGIC);
}

/* A tmpfs counts nothing but pages of the file.  Asked once more for pages that nobody wrote to
 * yet, it would clear them all. */
static bool is_whole(const char *path, const struct stat *status) {
	return on_tmpfs(path) && status->st_blocks * 512 >= status->st_size;
}

/* Why the file is not adopted (static text), or NULL with the mapping.  *old: the
 * file as it was, where only its sizes were wrong. */
static const char *try_adopt(const char *path, uid_t uid, gid_t gid, bool damaged,
    const struct generation *generation, void **mapping, struct segment **old) {
	struct segment_header *header;
	struct stat status;
	const char *why;
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

	*mapping = MAP_FAILED;
	*old = NULL;
	if (fd < 0)
		return errno != ENOENT ? "it cannot be opened" : damaged ? died_of_it : "";
	/* its room is needed for the next one */
	if (damaged)
		(void)unlink(path);
	why = segment_check_file(fd, uid, &status);
	if (why == NULL)
		*mapping = segment_map(fd, (size_t)status.st_size, PROT_READ | PROT_WRITE);
	if (why == NULL && *mapping == MAP_FAILED)
		why = "it cannot be mapped";
	if (why == NULL && segment_own_fixed(*mapping, fd) != 0) {
		munmap(*mapping, (size_t)status.st_size);
		*mapping = MAP_FAILED;
		why = "its sizes cannot be copied";
	}
	if (why != NULL) {
		close(fd);
		return why;
	}
	header = *mapping;
	why = damaged ? died_of_it :
	    check_header(header, (uint64_t)status.st_size, generation);
	/* a store into a hole of a full file system would be our end */
	if ((why == NULL || why == other_sizes) && !is_whole(path, &status) &&
	    posix_fallocate(fd, 0, status.st_size) != 0)
		why = "the file system has no room for all of it";
	/* its readers may have been another group */
	if (why == NULL && file_give(fd, uid, gid) != 0)
		why = "its group cannot be set";
	close(fd);
	if (why == other_sizes)
		*old = open_for_rebuilding(path, header);
	if (why != NULL) {
		/* readers that still map it are to look for the new one */
		if (atomic_load(&header->magic) == SEGMENT_MAGIC &&
		    header->layout == segment_layout_hash())
			atomic_store(&header->replaced, 1);
		if (*old == NULL)
			munmap(*mapping, (size_t)status.st_size);
		*mapping = MAP_FAILED;
	}
	return why;
}

static int new_file(const char *path, uint64_t bytes, uid_t uid, gid_t gid,
    void **mapping, struct diag *diag) {
	int fd, error;

	if (unlink(path) != 0 && errno != ENOENT)
		return diag_set(diag, errno, "cannot remove %s", path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	    STATE_MODE);
	if (fd < 0)
		return diag_set(diag, errno, "cannot create %s", path);
	error = posix_fallocate(fd, 0, (off_t)bytes);
	if (error == 0)
		error = file_give(fd, uid, gid);
	if (error == 0 && fchmod(fd, STATE_MODE) != 0)
		error = errno;
	if (error == 0) {
		*mapping = segment_map(fd, (size_t)bytes, PROT_READ | PROT_WRITE);
		if (*mapping == MAP_FAILED)
			error = errno;
	}
	close(fd);
	if (error != 0) {
		unlink(path);
		return diag_set(diag, error, "cannot create %s of %llu bytes",
		    path, (unsigned long long)bytes);
	}
	return 0;
}

static int init_header(struct segment_header *header,
    const struct generation *generation, int64_t now_ns, struct diag *diag) {
	uint32_t within;

	if (!segment_geometry(header, generation->record_count,
		generation->session_count, generation->destination_count,
		generation->account_count))
		return diag_set(diag, 0, "state: cannot hold %llu sessions and "
		    "%llu destinations",
		    (unsigned long long)generation->session_count,
		    (unsigned long long)generation->destination_count);
	header->version = SEGMENT_VERSION;
	header->header_bytes = sizeof(*header);
	header->layout = segment_layout_hash();
	header->created_ns = now_ns;
	header->created_wall_s = clock_wall_s();
	if (!clock_boot_id(header->boot_id))
		return diag_set(diag, errno, "cannot read the boot ID");
	if (getrandom(&header->key, sizeof(header->key), 0) != sizeof(header->key) ||
	    getrandom(&within, sizeof(within), 0) != sizeof(within))
		return diag_set(diag, errno, "cannot generate a hash key");
	/* machines that were switched on together do not give the same ids */
	for (unsigned i = 0; i < DECIDED_RINGS; i++)
		atomic_store(&header->decided_next[i].number,
		    decided_begin(header->created_wall_s) + within % DECIDED_BEGIN_WITHIN);
	return 0;
}

static void init_locks(struct segment *segment) {
	for (uint32_t i = 0; i < segment->header->shard_count; i++)
		STORE(segment->session_shards[i].free_head, SEGMENT_NO_SLOT);
	scrub_learned(segment, segment->header->created_ns);
	sessions_rebuild(segment);
}

/* A new file beside the old one, filled, then renamed over it. */
static int file_make(struct segment *segment, const struct segment *old,
    const struct generation *generation, uid_t uid, gid_t gid,
    struct segment_report *report, struct diag *diag) {
	int64_t now_ns = clock_now_ns(), restored;
	struct segment_header wanted;
	char path[PATH_MAX + 8];
	struct diag unread;
	void *mapping;

	memset(&wanted, 0, sizeof(wanted));
	if (init_header(&wanted, generation, now_ns, diag) != 0)
		return -1;
	snprintf(path, sizeof(path), "%s.new", segment->path);
	if (new_file(path, wanted.bytes, uid, gid, &mapping, diag) != 0)
		return -1;
	memcpy(mapping, &wanted, sizeof(wanted));
	segment_bind(segment, mapping);
	init_locks(segment);
	restored = segment_restore_sessions(segment, now_ns, &unread);
	/* it was given up halfway */
	if (unread.error == EFBIG)
		memcpy(report->unread, unread.text, sizeof(report->unread));
	if (restored > 0)
		report->sessions = (uint64_t)restored;
	atomic_store(&segment->header->unlearned, old == NULL);
	if (old != NULL)
		carry_learned(old, segment);
	atomic_store(&segment->header->magic, SEGMENT_MAGIC);
	if (rename(path, segment->path) != 0) {
		diag_set(diag, errno, "cannot rename %s to %s", path,
		    segment->path);
		unlink(path);
		munmap(mapping, (size_t)wanted.bytes);
		return -1;
	}
	return 0;
}

bool segment_is_unlearned(const struct segment *segment) {
	return atomic_load(&segment->header->unlearned) == 1;
}

void segment_has_learned(struct segment *segment, bool all) {
	atomic_store(&segment->header->unlearned, all ? 0 : 2);
}

int segment_prepare(struct segment **result, const struct generation *generation,
    uid_t uid, gid_t gid, pid_t supervisor_pid, bool damaged,
    struct segment_report *report, struct diag *diag) {
	const char *path = generation_text(generation, generation->state_path);
	struct segment *segment = calloc(1, sizeof(*segment)), *old;
	void *mapping;
	int made = 0;

	*result = NULL;
	memset(report, 0, sizeof(*report));
	if (segment == NULL)
		return diag_set(diag, errno, "no memory for the state handle");
	if (snprintf(segment->path, sizeof(segment->path), "%s", path) >=
	    (int)sizeof(segment->path) - 16) {
		free(segment);
		return diag_set(diag, ENAMETOOLONG, "%s", path);
	}
	report->reason = try_adopt(path, uid, gid, damaged, generation, &mapping, &old);
	if (report->reason == NULL) {
		report->reason = "";
		report->origin = SEGMENT_ADOPTED;
		segment_bind(segment, mapping);
		report->sessions = segment_adopt(segment);
	} else {
		report->origin = report->reason[0] == '\0' ? SEGMENT_MADE
							   : SEGMENT_REBUILT;
		made = file_make(segment, old, generation, uid, gid, report, diag);
		/* who came while nobody served the state before this one is adopted */
		if (made == 0 && report->origin == SEGMENT_REBUILT)
			segment_roles_missed(segment);
		segment_unmap(&old);
	}
	if (made != 0) {
		free(segment);
		return -1;
	}
	segment->readers = gid;
	report->not_tmpfs = !on_tmpfs(segment->path);
	atomic_store(&segment->header->unconfirmed, report->sessions > 0);
	atomic_store(&segment->header->supervisor_pid, supervisor_pid);
	atomic_store(&segment->header->started_ns, clock_now_ns());
	segment_beat(segment, clock_now_ns());
	*result = segment;
	return 0;
}
