/* SPDX-License-Identifier: ISC */
#include "tests/unit/journal/queue/messages_world.h"
#include "tests/crash/sync_log.h"

#include <dirent.h>

struct messages_world world;

static int64_t wall(void) {
	return world.wall_ns;
}

static void changed(void *context, enum journal_state state, int error, const char *what) {
	if (state == JOURNAL_GOOD)
		world.good++;
	else
		world.failed++;
}

static void renewed(void *context) {
	world.renewed++;
}

void world_open(void) {
	struct messages_calls calls = { changed, renewed, world.recovered, NULL };
	struct diag diag;

	world.storage = world.open_storage != NULL ? world.open_storage() :
	    journal_storage_posix(world.path, false, &diag);
	assert_non_null(world.storage);
	assert_int_equal(messages_open(&world.m, world.storage, &world.settings, &calls,
	    world.wall_ns, world.now_ns, &diag), 0);
}

void world_kill(void) {
	messages_close(&world.m);
	if (world.close_storage != NULL)
		world.close_storage(&world.storage);
	else
		journal_storage_close(&world.storage);
}

int world_begin(void **state) {
	return world_begin_upon(NULL, NULL);
}

int world_begin_upon(struct journal_storage *(*open_storage)(void),
    void (*close_storage)(struct journal_storage **storage)) {
	memset(&world, 0, sizeof(world));
	world.open_storage = open_storage;
	world.close_storage = close_storage;
	snprintf(world.path, sizeof(world.path), "/dev/shm/t_messages.XXXXXX");
	assert_non_null(mkdtemp(world.path));
	world.wall_ns = WORLD_EPOCH;
	world.now_ns = 1000 * S;
	world.settings = messages_defaults;
	world.settings.positions_ns = 60 * S;
	world.settings.log.threaded = false;
	world.settings.log.file_size = 64 << 10;
	world.settings.log.random = 7;
	world.settings.log.wall_ns = wall;
	world_open();
	world_turn();
	return 0;
}

int world_end(void **state) {
	struct dirent *entry;
	DIR *directory;

	world_kill();
	directory = opendir(world.path);
	assert_non_null(directory);
	while ((entry = readdir(directory)) != NULL)
		unlinkat(dirfd(directory), entry->d_name, 0);
	closedir(directory);
	return rmdir(world.path);
}

void world_turn(void) {
	for (unsigned i = 0; i < 10000; i++)
		if (messages_turn(world.m, world.wall_ns, world.now_ns) > world.now_ns)
			return;
	fail_msg("there is always more to do");
}

void world_pass(double seconds) {
	int64_t end = world.now_ns + (int64_t)(seconds * 1e9);

	while (world.now_ns < end) {
		int64_t step = messages_turn(world.m, world.wall_ns, world.now_ns);

		step = step > end ? end : step;
		world.wall_ns += step - world.now_ns;
		world.now_ns = step;
	}
	world_turn();
}

void world_sync(void) {
	world_turn();
	assert_int_equal(sync_log(messages_log(world.m), world.now_ns), 0);
	world_turn();
}

/* --- what is told ----------------------------------------------------------------------- */

uint64_t put(const char *id, const char *recipients, double after, bool held) {
	struct messages_group groups[16];
	struct messages_envelope envelope = { .mta = "m", .directory = "/q", .id = id,
		.stamp = 1, .sender = "s@example.org", .arrival_ns = world.wall_ns,
		.groups = groups };
	const char *at = recipients;

	if (after < 0)
		envelope.due_ns = INT64_MAX;
	else if (after > 0)
		envelope.due_ns = world.wall_ns + (int64_t)(after * 1e9);
	while (*at != '\0') {
		size_t length = strcspn(at, "* ");
		struct messages_group *group = &groups[envelope.group_count++];

		*group = (struct messages_group){ .domain = at, .length = length,
			.recipients = 1, .due_ns = envelope.due_ns };
		at += length;
		if (*at == '*')
			group->recipients = (uint32_t)strtoul(at + 1, (char **)&at, 10);
		envelope.recipients += group->recipients;
		at += strspn(at, " ");
	}
	return messages_put(world.m, &envelope, held, world.wall_ns);
}

uint64_t start(const char *id) {
	return messages_start(world.m, messages_key("m", "/q", id), 0, world.wall_ns);
}

uint64_t delivered(const char *id, const char *domain, uint32_t recipients) {
	return messages_delivered(world.m, messages_key("m", "/q", id),
	    &(const struct journal_delivery){ .domain = journal_text_of(domain),
	    .recipients = recipients }, world.wall_ns);
}

uint64_t finish(const char *id) {
	return messages_finish(world.m, messages_key("m", "/q", id), world.wall_ns);
}

static int64_t next_ns;

const char *next(void) {
	struct messages_envelope e;
	enum messages_answer answer;
	int at;

	do {
		answer = messages_next(world.m, world.wall_ns, &e, &next_ns);
		if (answer != MESSAGES_ONE && (answer == MESSAGES_MORE || next_ns == world.wall_ns))
			world_turn();
		else
			break;
	} while (true);
	if (answer == MESSAGES_NONE)
		return "";
	assert_string_equal(e.mta, "m");
	assert_string_equal(e.directory, "/q");
	at = snprintf(world.text, sizeof(world.text), "%s", e.id);
	for (unsigned i = 0; i < e.group_count; i++)
		at += snprintf(world.text + at, sizeof(world.text) - (size_t)at, " %.*s*%u",
		    (int)e.groups[i].length, e.groups[i].domain, e.groups[i].recipients);
	return world.text;
}

const char *all_next(void) {
	static char all[4096];
	size_t at = 0;

	all[0] = '\0';
	for (const char *one = next(); one[0] != '\0'; one = next())
		at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s", at > 0 ? ", " : "", one);
	return all;
}

double next_in(void) {
	return next_ns == INT64_MAX ? -1 : (double)(next_ns - world.wall_ns) / 1e9;
}

/* --- what is there ------------------------------------------------------------------------ */

static int tell(char *out, size_t size, const struct journal_found *found) {
	const struct journal_frame *frame = &found->frame;
	struct journal_envelope e;
	static struct { uint64_t key; char id[32]; } names[1024];
	static unsigned count;
	uint64_t key = 0;

	if (frame->type == JOURNAL_ENVELOPE || frame->type == JOURNAL_REPLACEMENT) {
		assert_true(journal_envelope_read(frame->payload, frame->length, &e));
		key = e.key;
		if (count < 1024) {
			names[count].key = key;
			snprintf(names[count++].id, 32, "%.*s", (int)e.id.length, e.id.text);
		}
	} else if (frame->length >= 8) {
		memcpy(&key, frame->payload, sizeof(key));
	}
	for (unsigned i = 0; i < count; i++)
		if (names[i].key == key)
			return snprintf(out, size, "%c:%s", "---ESDFR"[frame->type], names[i].id);
	return snprintf(out, size, "%c:?", "---ESDFR"[frame->type]);
}

const char *records(void) {
	struct journal_log *log = messages_log(world.m);
	struct journal_cursor *cursor = journal_cursor_open(journal_log_files(log));
	struct journal_found found;
	size_t at = 0;

	world.text[0] = '\0';
	journal_log_flush(log);
	while (journal_cursor_next(cursor, &found) != JOURNAL_FOUND_END) {
		char one[64];

		if (found.kind != JOURNAL_FOUND_RECORD || found.frame.type == JOURNAL_HEAD ||
		    found.frame.type == JOURNAL_CHECKPOINT_BEGIN)
			continue;
		tell(one, sizeof(one), &found);
		at += (size_t)snprintf(world.text + at, sizeof(world.text) - at,
		    journal_mark_is_live(found.frame.mark) ? "%s%s" : "%s[%s]",
		    at > 0 ? " " : "", one);
	}
	journal_cursor_close(&cursor);
	return world.text;
}

struct messages_totals totals(void) {
	struct messages_totals out;

	messages_count(world.m, &out);
	return out;
}

struct journal_log_counts counts(void) {
	struct journal_log_counts out;

	journal_log_count(messages_log(world.m), &out);
	return out;
}

unsigned files(void) {
	return journal_log_files(messages_log(world.m))->count;
}

uint64_t bytes_read(void) {
	return journal_log_files(messages_log(world.m))->bytes_read;
}

void traffic(unsigned bytes) {
	char domain[256];
	char id[16];

	snprintf(domain, sizeof(domain), "%0200d.example", 0);
	for (unsigned i = 0; i * 450 < bytes; i++) {
		snprintf(id, sizeof(id), "t%u", i);
		put(id, domain, 0, HELD);
		start(id);
		finish(id);
	}
}
