/* SPDX-License-Identifier: ISC */
/*
 * What is restored out of feed/, keeper/ and accounts/ of a journal that anybody may have written:
 * several files, whose frames are whole, torn, damaged, cut, swapped, or none at all.  Whatever is
 * made of them makes sense, is the same when it is restored again, and can be written and read
 * once more; where a record within a file is damaged, that is told.
 *
 * Input: records, each its type, two bytes of length and its payload; those of actions go to
 * keeper/, of accounts to accounts/, all others to feed/.  Types from 0xe0 on are orders
 * (operations.h) instead, see order_one.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "engine/journal/journal_accounts.h"
#include "engine/journal/journal_manual.h"
#include "engine/journal/journal_restore.h"
#include "engine/journal/journal_state.h"
#include "journal/frame.h"
#include "journal/record.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"
#include "segment/file/internal.h"
#include "tests/fuzz/fresh_site.h"
#include "tests/fuzz/operations.h"
#include "tests/fuzz/own_clock.h"

#ifdef WITH_ACCOUNTS
#define ACCOUNTS "accounts = ( { name = \"all\"; match = \"*\"; each = { recipients = \"9/1h\"; }; } );"
#else
#define ACCOUNTS ""
#endif
#ifdef WITH_PACE
#define SOURCES "hints = { group = \"root\"; };\n" \
	"sources = ( { name = \"ip2\"; transport = \"smtp-ip2\"; warm = { plan = [ 5, 9 ]; }; } );\n"
#else
#define SOURCES ""
#endif
#define ALL "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 100; } );\n" \
	"mta = ( { name = \"out\"; log = \"/var/log/mail.log\"; } );\n" SOURCES ACCOUNTS
#define SALT 4711
#define ROOMS 3
#define FILES 6
#define FILE_MOST 65536
#define ORDERS 0xe0

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct file {
	uint8_t bytes[FILE_MOST];
	size_t size;
	uint32_t number;	/* its name; 0: it is none of the journal's */
	size_t last;		/* begin of the last frame, and of the one before it */
	size_t before;
};

struct room {
	struct file files[FILES];
	unsigned count;
	uint64_t sequence;
	bool odd;		/* not only records were put there, or damaged */
	bool damaged;		/* a record that another one follows */
};

static const char *const room_names[ROOMS] = { "feed", "keeper", "accounts" };
static const uint8_t kinds[ROOMS] = { JOURNAL_FEED, JOURNAL_KEEPER, JOURNAL_ACCOUNTS };
static struct fresh_site fresh;
static struct room rooms[ROOMS];
static uint32_t salt;
static struct { unsigned damaged, restored; } told;

/* --- files ---------------------------------------------------------------------------- */

static struct file *last_file(struct room *room) {
	return &room->files[room->count - 1];
}

static void put(struct file *file, const void *bytes, size_t length) {
	if (length > FILE_MOST - file->size)
		length = FILE_MOST - file->size;
	memcpy(file->bytes + file->size, bytes, length);
	file->size += length;
}

static void next_file(struct room *room, uint32_t number) {
	const struct file *before = room->count > 0 ? last_file(room) : NULL;
	struct journal_head head = { .salt = SALT, .kind = kinds[room - rooms], .journal = 1,
		.created_ns = 1, .number = number };
	uint8_t bytes[JOURNAL_HEAD_SIZE];
	struct file *file;

	if (room->count == FILES)
		return;
	if (before != NULL) {
		head.previous = before->number;
		head.previous_end = (uint32_t)before->size;
	}
	file = &room->files[room->count++];
	file->size = 0;
	file->number = number;
	journal_head_write(bytes, &head, ++room->sequence, 1);
	put(file, bytes, sizeof(bytes));
	file->last = file->before = 0;
}

static void add(struct room *room, uint8_t type, const void *payload, uint32_t length) {
	static uint8_t bytes[JOURNAL_FRAME_MAX];
	const struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = type,
		.version = JOURNAL_VERSION, .length = length, .sequence = ++room->sequence,
		.behind = 1, .payload = payload };
	struct file *file = last_file(room);

	if (file->size + JOURNAL_HEADER + length > FILE_MOST)
		return;
	file->before = file->last;
	file->last = file->size;
	put(file, bytes, journal_frame_write(bytes, &frame, salt));
}

static void add_group(struct room *room, uint8_t type) {
	uint8_t group[64];
	size_t length = journal_checkpoint_write(group, sizeof(group),
	    &(const struct journal_checkpoint){ .number = 1, .when_ns = 1 });

	add(room, type, group, (uint32_t)length);
}

static void swap_files(struct room *room, unsigned a, unsigned b) {
	static struct file between;
	uint32_t number = room->files[a].number;

	between = room->files[a];
	room->files[a] = room->files[b];
	room->files[b] = between;
	/* what is swapped is what stands there, not the names */
	room->files[b].number = room->files[a].number;
	room->files[a].number = number;
}

/* One bit of the payload of a frame that has another one behind it. */
static void damage(struct room *room, uint8_t which) {
	struct file *file = last_file(room);
	size_t begin = file->before + JOURNAL_HEADER;

	if (file->before == 0 || file->last <= begin || room->damaged)
		return;
	file->bytes[begin + which % (file->last - begin)] ^= 1;
	room->damaged = true;
}

static void order_one(struct operations *operations, uint8_t order) {
	uint8_t which = take_byte(operations), number = take_byte(operations);
	struct room *room = &rooms[which % ROOMS];
	struct file *file = last_file(room), *other = &room->files[number % room->count];
	const char *bytes;
	size_t length;

	room->odd |= order % 16 >= 4;
	switch (order % 16) {
	case 0:
		next_file(room, file->number + 1);
		break;
	case 1:
		damage(room, number);
		break;
	case 2:
		add_group(room, JOURNAL_GROUP);
		break;
	case 3:
		add_group(room, JOURNAL_CHECKPOINT_BEGIN);
		break;
	case 4:
		file->bytes[(which * 256U + number) % file->size] ^= take_byte(operations);
		break;
	case 5:
		file->size -= number < file->size ? number : 0;	/* torn */
		break;
	case 6:
		swap_files(room, (unsigned)(other - room->files), which / ROOMS % room->count);
		break;
	case 7:
		other->size = 0;
		break;
	case 8:
		other->number = 0;	/* it is not there */
		break;
	case 9:
		length = take_bytes(operations, &bytes);
		put(file, bytes, length);
		break;
	case 10:
		salt ^= number;		/* frames of another journal */
		rooms[0].odd = rooms[1].odd = rooms[2].odd = true;
		break;
	case 11:
		other->number = number;
		break;
	case 12:
		next_file(room, number);
		break;
	case 13:
		put(file, other->bytes, other->size);	/* one file behind another */
		break;
	case 14:
		room->sequence += (uint64_t)(int64_t)(int8_t)number;
		break;
	default:
		put(file, (const uint8_t[4096]){ 0 }, number * 16U);
		break;
	}
}

static void read_input(struct operations *operations) {
	while (operations->end - operations->at >= 3) {
		uint8_t type = take_byte(operations);
		uint32_t length;

		if (type >= ORDERS) {
			order_one(operations, type);
			continue;
		}
		length = take_byte(operations);
		length |= (uint32_t)take_byte(operations) << 8;
		if (length > (size_t)(operations->end - operations->at))
			length = (uint32_t)(operations->end - operations->at);
		add(&rooms[type == JOURNAL_MANUAL || type == JOURNAL_SOURCE ? 1 : type == JOURNAL_ACCOUNT ? 2 : 0], type,
		    operations->at, length);
		operations->at += length;
	}
}

static void path_of(const char *name, const char *file, char out[256]) {
	snprintf(out, 256, "%s/journal%s%s%s%s", fresh.site.directory, *name == '\0' ? "" : "/",
	    name, *file == '\0' ? "" : "/", file);
}

static void write_room(const struct room *room) {
	char name[JOURNAL_NAME_MAX + 1], path[256];

	path_of(room_names[room - rooms], "", path);
	MUST(mkdir(path, 0700) == 0);
	for (unsigned i = 0; i < room->count; i++) {
		const struct file *file = &room->files[i];
		FILE *out;

		if (file->number == 0)
			continue;
		journal_file_name(file->number, name);
		path_of(room_names[room - rooms], name, path);
		out = fopen(path, "w");
		MUST(out != NULL);
		(void)fwrite(file->bytes, 1, file->size, out);
		(void)fclose(out);
	}
}

/* --- what is restored ---------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t length) {
	const uint8_t *at = bytes;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static void check_text(const char *text) {
	for (; *text != '\0'; text++)
		MUST(*text >= ' ' && *text < 0x7f);
}

static void look(void *context, const struct destination_window *window) {
	uint64_t *all = context;
	uint64_t hash = mix(7, window->name, strlen(window->name));

	MUST(!window->state.begun || window_is_sound(&window->state.window));
	check_text(window->reason);
	hash = mix(hash, window->reason, strlen(window->reason));
	hash = mix(hash, (const uint64_t[3]){ window->state.window.state,
	    window->state.window.ceiling, window->state.ok }, sizeof(uint64_t[3]));
	*all += hash;
}

static void look_at_recipient(void *context, const struct recipient_held *held) {
	uint64_t *all = context;

	check_text(held->reason);
	MUST(strlen(held->address) <= RECIPIENT_MAX && held->until_ns > clock_now_ns());
	*all += mix(11, held->address, strlen(held->address));
}

/* Of all that it knows. */
static uint64_t digest(void) {
	uint64_t all = 0;

	(void)states_each(fresh.site.segment, look, &all);
	(void)recipients_each(fresh.site.segment, clock_now_ns(), look_at_recipient, &all);
	return all;
}

static void on_news(void *context, const struct journal_news *news) {
	(void)context;
	MUST(news->what != NULL && news->path != NULL);
	told.damaged += news->kind == JOURNAL_NEWS_DAMAGED || news->kind == JOURNAL_NEWS_LATER;
	told.restored += news->kind == JOURNAL_NEWS_RESTORED;
}

static const struct journal_listener listener = { on_news, NULL };

static void restore(void) {
	(void)engine_journal_restore(fresh.site.engine, fresh.site.generation, &listener,
	    clock_now_ns(), clock_wall_ns());
}

/* By those who write there from now on. */
static void write_on(void) {
	struct engine *engine = fresh.site.engine;
	const struct generation *generation = fresh.site.generation;
	struct journal_states *states;
	struct journal_manual_log *manual;
	struct diag diag;

	MUST(journal_states_open(&states, engine, generation, &listener, clock_now_ns(),
	    &diag) == 0);
	MUST(journal_manual_open(&manual, engine, generation, &listener, clock_now_ns(),
	    &diag) == 0);
	journal_states_begin(states);
	for (unsigned i = 0; i < 3; i++) {
		own_clock_pass(NS_PER_SECOND);
		journal_states_turn(states, clock_now_ns(), clock_wall_ns());
		journal_manual_turn(manual, clock_now_ns(), clock_wall_ns());
	}
	journal_manual_close(&manual);
	journal_states_close(&states);
}

static int remove_one(const char *path, const struct stat *status, int what, struct FTW *at) {
	(void)status, (void)what;
	return at->level > 0 ? remove(path) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct operations operations = { data, data + size };
	char path[256];
	uint64_t first;

	if (size > 60000)
		return 0;
	own_clock_begin();
	fresh_site_begin(&fresh, ALL);
	path_of("", "", path);
	(void)mkdir(path, 0700);
	salt = SALT;
	memset(&told, 0, sizeof(told));
	for (unsigned i = 0; i < ROOMS; i++) {
		rooms[i].count = 0;
		rooms[i].sequence = 0;
		rooms[i].odd = rooms[i].damaged = false;
		next_file(&rooms[i], 1);
	}
	add_group(&rooms[0], JOURNAL_CHECKPOINT_BEGIN);
	read_input(&operations);
	add_group(&rooms[0], JOURNAL_GROUP);
	for (unsigned i = 0; i < ROOMS; i++)
		write_room(&rooms[i]);
	restore();
	for (unsigned i = 0; i < 2; i++)
		MUST(!rooms[i].damaged || rooms[i].odd || told.damaged > 0);
	first = digest();
	restore();
	MUST(digest() == first);
	write_on();
	fresh_site_begin(&fresh, ALL);
	restore();
	(void)digest();
	(void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return 0;
}
