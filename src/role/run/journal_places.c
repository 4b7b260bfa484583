/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The journal's directories: accounts/, decisions/, feed/, keeper/, queue/ below journal.path.
 * MODEL    Looked at at the start, and every 2 s while a role cannot write, so that one that
 *          somebody removed comes back and its role goes on in it.  The path itself may hold links of
 *          root's, as the administrator made it; no other is followed, as a part of it may
 *          be an unprivileged user's.
 * ERRORS   Told once: the roles work without a journal.
 * THREADS  One, the supervisor's.
 */
#include "role/run/journal_places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/trusted_path.h"
#include "engine/journal/journal_room.h"
#include "role/run/feed_role.h"

#define LOOK_NS		(2 * NS_PER_SECOND)
#define PLACE_MODE	0700

static bool is_needed(const struct generation *generation, enum journal_room room) {
	switch (room) {
	case JOURNAL_ROOM_FEED:
		return feed_role_needed(generation);
	case JOURNAL_ROOM_QUEUE:
		return generation_drives(generation);
	case JOURNAL_ROOM_ACCOUNTS:
		return generation->accounts.count > 0;
	case JOURNAL_ROOM_KEEPER:
	case JOURNAL_ROOM_DECISIONS:
	case JOURNAL_ROOMS:
		break;
	}
	return true;
}

/* All of it that is not there, opened. */
static int open_base(const char *base, struct diag *diag) {
	int fd = trusted_path_open(base);

	return fd >= 0 ? fd : errno == EPERM ?
	    diag_set(diag, 0, "%s: symbolic links of users other than root are not followed",
	    base) :
	    diag_set(diag, errno, "cannot create directory %s", base);
}

static DIR *read_names(int fd) {
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = copy < 0 ? NULL : fdopendir(copy);

	if (directory == NULL && copy >= 0)
		close(copy);
	return directory;
}

/* What is somebody else's, and holds other things than a journal, is no directory of ours. */
static bool is_for_us(int fd, struct diag *diag) {
	DIR *directory = read_names(fd);
	const struct dirent *entry = NULL;
	bool ours = directory != NULL;

	while (ours && (entry = readdir(directory)) != NULL)
		ours = journal_room_is_name(entry->d_name);
	if (!ours)
		diag_set(diag, 0, "a directory of the journal belongs to another user and has "
		    "%s in it, which is not part of a journal: not changed",
		    entry == NULL ? "something" : entry->d_name);
	if (directory != NULL)
		closedir(directory);
	return ours;
}

/* Files that another user of ours wrote: regular ones of one name. */
static void give_files(int fd, const struct identity *identity) {
	DIR *directory = read_names(fd);
	const struct dirent *entry;
	struct stat status;

	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		int file = !journal_room_is_name(entry->d_name) ? -1 : openat(fd, entry->d_name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

		if (file < 0)
			continue;
		/* one that stays another's is told by whoever opens it */
		if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
		    status.st_nlink == 1 &&
		    fchown(file, identity->uid, identity->gid) != 0)
			errno = 0;
		close(file);
	}
	if (directory != NULL)
		closedir(directory);
}

static int place_give(int fd, const struct identity *identity, struct diag *diag) {
	struct stat status;

	if (fstat(fd, &status) != 0)
		return diag_set(diag, errno, "cannot examine a directory of the journal");
	if (identity->drop && status.st_uid != identity->uid) {
		if (!is_for_us(fd, diag))
			return -1;
		give_files(fd, identity);
		if (fchown(fd, identity->uid, identity->gid) != 0)
			return diag_set(diag, errno,
			    "cannot set the owner of a directory of the journal");
	}
	if ((status.st_mode & 07777) != PLACE_MODE && fchmod(fd, PLACE_MODE) != 0)
		return diag_set(diag, errno,
		    "cannot set the mode of a directory of the journal");
	return 0;
}

int journal_place_make(const char *base, const char *word, const struct identity *identity,
    struct diag *diag) {
	int base_fd = open_base(base, diag), fd, result;

	if (base_fd < 0)
		return -1;
	if (mkdirat(base_fd, word, PLACE_MODE) != 0 && errno != EEXIST) {
		diag_set(diag, errno, "cannot create directory %s/%s", base, word);
		close(base_fd);
		return -1;
	}
	fd = openat(base_fd, word, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	close(base_fd);
	if (fd < 0)
		return diag_set(diag, errno, "cannot open %s/%s", base, word);
	result = place_give(fd, identity, diag);
	close(fd);
	return result;
}

/* One message for all that it holds. */
static bool look_at_base(struct journal_places *places, const char *base) {
	char text[PATH_MAX];
	struct diag diag;
	int fd = open_base(base, &diag);
	bool failed = fd < 0;

	if (fd >= 0)
		close(fd);
	if (failed && !places->told_base)
		log_event(EVENT_JOURNAL_FAILED, "text=\"%s: no journal until the directory can "
		    "be created (journal.path)\"", log_sentence(text, sizeof(text), diag.text));
	else if (!failed && places->told_base)
		log_event(EVENT_JOURNAL, "text=\"the directory of journal.path exists again\"");
	places->told_base = failed;
	return !failed;
}

static bool is_well(const char *path, const struct identity *identity) {
	struct stat status;

	return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
	    (status.st_mode & 07777) == PLACE_MODE &&
	    (!identity->drop || status.st_uid == identity->uid);
}

static void place_look(struct journal_places *places, const struct generation *generation,
    const struct identity *identity, enum journal_room room) {
	const char *base = generation_text(generation, generation->journal.path);
	const char *word = generation_journal_word(room);
	char path[PATH_MAX], quoted[PATH_MAX], text[PATH_MAX];
	bool failed = false;
	struct diag diag;

	if (!is_needed(generation, room) ||
	    !generation_journal_directory(generation, room, path))
		return;
	if (!is_well(path, identity))
		failed = journal_place_make(base, word, identity, &diag) != 0;
	if (failed && !places->told[room])
		log_event(EVENT_JOURNAL_FAILED, "room=%s path=%s text=\"%s\"", word,
		    log_quote(quoted, sizeof(quoted), path, strlen(path)), log_sentence(text, sizeof(text), diag.text));
	else if (!failed && places->told[room])
		log_event(EVENT_JOURNAL, "room=%s text=\"its directory exists again\"", word);
	places->told[room] = failed;
}

static void warn_of_tmpfs(const struct generation *generation) {
	const char *base = generation_text(generation, generation->journal.path);
	struct statfs status;
	char quoted[PATH_MAX];

	if (statfs(base, &status) == 0 &&
	    ((uint32_t)status.f_type == TMPFS_MAGIC || (uint32_t)status.f_type == RAMFS_MAGIC))
		log_event(EVENT_CONFIG_NOTE,
		    "text=\"journal.path is on a tmpfs: it does not survive a reboot\" path=%s",
		    log_quote(quoted, sizeof(quoted), base, strlen(base)));
}

void journal_places_turn(struct journal_places *places, const struct generation *generation,
    const struct identity *identity, bool ill, int64_t now_ns) {
	bool well;

	/* a disk that hangs would have us hang */
	if (generation_text(generation, generation->journal.path)[0] == '\0' ||
	    (places->looked && (!ill || now_ns - places->looked_ns < LOOK_NS)))
		return;
	well = look_at_base(places, generation_text(generation, generation->journal.path));
	for (enum journal_room room = 0; well && room < JOURNAL_ROOMS; room++)
		place_look(places, generation, identity, room);
	if (!places->looked)
		warn_of_tmpfs(generation);
	places->looked = true;
	places->looked_ns = now_ns;
}
