/* SPDX-License-Identifier: ISC */
/* A site with a journal in virtual time, and its loss, for the tests of
 * engine/journal/journal_state.h and its like. */
#ifndef TESTS_JOURNAL_SITE_H
#define TESTS_JOURNAL_SITE_H

#include "tests/unit/check.h"
#include <dirent.h>
#include <poll.h>
#include <sys/stat.h>

#include "engine/journal/journal_keep.h"
#include "engine/journal/journal_manual.h"
#include "engine/journal/journal_restore.h"
#include "engine/journal/journal_state.h"
#include "journal/log_internal.h"
#include "segment/file/feed_position.h"
#include "segment/file/internal.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"
#include "tests/unit/engine/feed/results.h"

#define JOURNAL_SITE "classes = ( { name = \"Some\"; match = [ \"*.b\" ]; hold_at = 10; },\n" \
	"  { name = \"all\"; match = [ \"*\" ]; hold_at = 10; } );\n" \
	"mta = ( { name = \"postfix\"; log = \"/var/log/mail.log\"; } );\n"

static struct journal_states *states;
static struct journal_manual_log *manual;
static int64_t wall_ns;
static struct journal_news news[8];
static unsigned news_count;

static inline void note_news(void *context, const struct journal_news *one) {
	if (news_count < 8)
		news[news_count++] = *one;
}

static const struct journal_listener listener = { note_news, NULL };

static inline void room_path(const char *room, char out[160]) {
	snprintf(out, 160, "%s/journal%s%s", site.directory, room[0] == '\0' ? "" : "/", room);
}

static inline void make_rooms(void) {
	static const char *const rooms[] = { "", "feed", "keeper" };
	char path[160];

	for (unsigned i = 0; i < 3; i++) {
		room_path(rooms[i], path);
		(void)mkdir(path, 0700);
	}
}

/* Locks a destination with a window. */
static inline void lock_begun(const char *name, struct state_lock *lock) {
	assert_true(states_aim(site.segment, name, strlen(name), lock));
	assert_int_equal(states_lock(lock, now_ns, STATES_CREATE), STATES_HELD);
	if (!lock->state.begun)
		window_begin(&lock->state.window, &window_defaults);
	lock->state.begun = true;
}

/* A destination with a ceiling. */
static inline void learn_ceiling(const char *name, uint16_t ceiling, const char *reason) {
	struct state_lock lock;

	lock_begun(name, &lock);
	lock.state.window.ceiling = ceiling;
	lock.state.window.state = WINDOW_LIMITED;
	lock.state.ok++;
	lock.reason = reason;
	states_store(&lock);
	states_unlock(&lock);
}

static inline void open_journals(void) {
	struct diag diag;

	assert_int_equal(journal_states_open(&states, site.engine, site.generation, &listener,
	    now_ns, &diag), 0);
	assert_int_equal(journal_manual_open(&manual, site.engine, site.generation, &listener,
	    now_ns, &diag), 0);
}

static inline void close_journals(void) {
	journal_states_close(&states);
	journal_manual_close(&manual);
}

static inline int open_site_sized(uint64_t destinations) {
	site_open_sized(&site, 64, destinations, JOURNAL_SITE);
	now_ns = clock_now_ns();
	/* what is done by hand is dated by the real one */
	wall_ns = clock_wall_ns();
	news_count = 0;
	make_rooms();
	open_journals();
	return 0;
}

static inline int open_site(void **state) {
	return open_site_sized(256);
}

static inline int close_site(void **state) {
	close_journals();
	site_close(&site);
	return 0;
}

/* A second of both roles. */
static inline void turn(void) {
	now_ns += NS_PER_SECOND;
	wall_ns += NS_PER_SECOND;
	journal_states_turn(states, now_ns, wall_ns);
	journal_manual_turn(manual, now_ns, wall_ns);
}

/* NULL: none. */
static inline const struct journal_log *log_of(const void *keeps) {
	return keeps == NULL ? NULL : ((const struct journal_keep *)keeps)->log;
}

static inline void wait_for_job(const struct journal_log *log) {
	struct pollfd event = { .events = POLLIN };

	if (log == NULL || log->job.kind == JOB_NONE)
		return;
	event.fd = journal_log_event_fd(log);
	assert_int_equal(poll(&event, 1, 20000), 1);
}

/* With what other threads do for the journal: it is done when the next one begins. */
static inline void turns(unsigned count) {
	while (count-- > 0) {
		turn();
		wait_for_job(log_of(states));
		wait_for_job(log_of(manual));
	}
}

static inline void remove_state(void) {
	static const char *const names[] = { "state", "state.sessions" };
	char path[160];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", site.directory, names[i]);
		(void)unlink(path);
	}
}

/* All processes are killed, segment and text files are gone; the next daemon has a segment of
 * its own. */
static inline void lose_all(void) {
	close_journals();
	remove_state();
	site_restart(&site, 64, JOURNAL_SITE);
	assert_true(segment_is_unlearned(site.segment));
	news_count = 0;
}

static inline void restore(void) {
	engine_journal_restore(site.engine, site.generation, &listener, now_ns, wall_ns);
	segment_has_learned(site.segment, true);
}

static inline void lose_and_restore(void) {
	lose_all();
	restore();
}

static inline bool by_hand(enum manual_verb verb, const char *name, int64_t for_s,
    const char *reason) {
	struct by_hand request = { .verb = verb, .name = name, .name_length = strlen(name),
		.for_ns = for_s * NS_PER_SECOND, .reason = reason,
		.window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
	struct window_owner ignored;

	return windows_by_hand(site.engine, site.generation, &request, now_ns, &ignored) ==
	    BY_HAND_DONE;
}

static inline bool set_ceiling(const char *name, uint32_t ceiling) {
	struct by_hand request = { .verb = MANUAL_LIMIT, .name = name,
		.name_length = strlen(name), .window = BY_HAND_UNSET, .ceiling = ceiling };
	struct window_owner ignored;

	return windows_by_hand(site.engine, site.generation, &request, now_ns, &ignored) ==
	    BY_HAND_DONE;
}

static inline bool find_state(const char *name, struct destination_window *out) {
	return states_find(site.segment, name, strlen(name), out);
}

static inline bool room_has(const char *room, const char *name) {
	char path[160], file[420];

	room_path(room, path);
	snprintf(file, sizeof(file), "%s/%s", path, name);
	return access(file, F_OK) == 0;
}

static inline unsigned news_of(enum journal_news_kind kind, enum journal_room room) {
	unsigned count = 0;

	for (unsigned i = 0; i < news_count; i++)
		count += news[i].kind == kind && news[i].room == room;
	return count;
}

/* Files of a room; *bytes of them all. */
static inline unsigned room_files(const char *room, uint64_t *bytes) {
	char path[160], name[420];
	const struct dirent *entry;
	struct stat status;
	unsigned count = 0;
	DIR *directory;

	room_path(room, path);
	directory = opendir(path);
	*bytes = 0;
	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (strstr(entry->d_name, ".log") == NULL || stat(name, &status) != 0)
			continue;
		count++;
		*bytes += (uint64_t)status.st_size;
	}
	if (directory != NULL)
		closedir(directory);
	return count;
}

#endif
