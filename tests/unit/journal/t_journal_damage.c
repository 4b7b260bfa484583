/* SPDX-License-Identifier: ISC */
/*
 * A journal in which bits are flipped, bytes overwritten, files missing or of a later
 * version, upon a disk that fails: it is opened, says what is wrong, ends what it does, and
 * never tells of a message what was never so.
 */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "journal/reader.h"
#include "tests/crash/journal_world.h"
#include "tests/crash/storage_faulty.h"

#define NAMES_MAX 64

/* The sanitizers make it ten times as slow: they see one place of a few. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PLACES_APART 4
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define PLACES_APART 4
#endif
#ifndef PLACES_APART
#define PLACES_APART 1
#endif

static const struct world_kind kind = { .file_size = 4096, .messages = 12,
	.positions_ns = 500 * NS_PER_MS };
static struct random dice;
static struct disk *journal;	/* all of it synced */
static struct oracle known;

struct names {
	char name[NAMES_MAX][DISK_NAME_MAX];
	unsigned count;
};

static bool add_name(void *context, const char *name) {
	struct names *names = context;

	if (strcmp(name, JOURNAL_LOCK_NAME) != 0 && names->count < NAMES_MAX)
		memcpy(names->name[names->count++], name, strlen(name) + 1);
	return true;
}

static struct names names_of(struct disk *disk) {
	struct names names = { .count = 0 };

	(void)disk_list(disk, add_name, &names);
	return names;
}

/* Has been used for a while, with messages waiting, held and worked on; some garbage. */
static int make_journal(void **state) {
	struct world world;

	dice = random_seeded("journal_damage");
	world_open(&world, &kind, disk_new(), NULL, random_next(&dice), 0);
	assert_true(world_recover(&world));
	world_settle(&world, true);
	world.oracle.forgets_nothing = true;
	for (unsigned i = 0; i < 300 || names_of(world.disk).count < 4; i++) {
		world_step(&world);
		assert_false(world.failed);
		assert_true(i < 20000);
	}
	world_sync(&world);
	journal = disk_crash(world.disk, DISK_CRASH_DROP, &dice);
	oracle_copy(&known, &world.oracle);
	world_close(&world);
	assert_false(world.failed);
	return 0;
}

static int end_journal(void **state) {
	disk_free(journal);
	oracle_close(&known);
	return 0;
}

static struct disk *copy_of_journal(void) {
	return disk_crash(journal, DISK_CRASH_DROP, &dice);
}

/* Whatever was changed in its bytes is on the disk for good. */
static void keep(struct disk *disk, const char *name) {
	size_t size = 0;
	const uint8_t *bytes = disk_bytes(disk, name, &size);
	uint8_t *copy = malloc(size + 1);

	memcpy(copy, bytes, size);
	disk_put(disk, name, copy, size);
	free(copy);
}

/* Bytes and records that it says it could not read. */
static uint64_t told(const struct world *world) {
	struct messages_totals totals;
	struct journal_log_counts counts;

	messages_count(world->messages, &totals);
	journal_log_count(world->log, &counts);
	return totals.unreadable + counts.torn_bytes + counts.damages +
	    counts.files_lost;
}

static bool all_newest(const struct world *world) {
	for (unsigned i = 0; i < ORACLE_MESSAGES; i++) {
		struct oracle_state newest = oracle_newest(&known, i);

		if (oracle_left(&newest) == 0 ? world->shown[i] : !world->shown[i] ||
		    memcmp(&newest, &world->found[i], sizeof(newest)) != 0)
			return false;
	}
	return true;
}

/* Recovers upon `disk', works on, is closed, and recovers once more. */
static bool use(struct disk *disk, bool *newest, uint64_t *says) {
	struct world world, later;
	bool good;

	world_open(&world, &kind, disk, &known, random_next(&dice), 0);
	world.excused = world.damaged = true;
	good = world_recover(&world);
	*newest = good && all_newest(&world);
	*says = told(&world);
	if (!good || random_below(&dice, 8) != 0) {
		world_close(&world);
		return good && !world.failed;
	}
	world_settle(&world, true);
	for (unsigned i = 0; i < 60 && !world.failed; i++)
		world_step(&world);
	if (!world.failed)
		world_sync(&world);
	world_open(&later, &kind, disk_crash(world.disk, DISK_CRASH_DROP, &dice),
	    &world.oracle, random_next(&dice), world.wall_ns);
	good = !world.failed && world_recover(&later);
	world_close(&later);
	world_close(&world);
	return good && !later.failed && !world.failed;
}

/* One bit at each place of each file, a mark's too. */
TEST(test_flipped_bits) {
	struct names names = names_of(journal);
	unsigned harmless = 0, lost = 0;

	for (unsigned i = 0; i < names.count; i++) {
		size_t size = 0;

		(void)disk_bytes(journal, names.name[i], &size);
		for (size_t at = random_below(&dice, PLACES_APART); at < size; at += PLACES_APART) {
			struct disk *disk = copy_of_journal();
			unsigned bit = random_below(&dice, 8);
			bool newest;
			uint64_t says;

			disk_bytes(disk, names.name[i], &size)[at] ^= (uint8_t)(1u << bit);
			keep(disk, names.name[i]);
			if (!use(disk, &newest, &says))
				fail_msg("bit %u of byte %zu of %s", bit, at, names.name[i]);
			if (!newest && says == 0)
				fail_msg("bit %u of byte %zu of %s: something is lost, and "
				    "nothing is told", bit, at, names.name[i]);
			harmless += newest;
			lost += !newest;
		}
	}
	printf("# %u flips did no harm, %u did, and were told\n", harmless, lost);
	assert_true(harmless > 0 && lost > 0);
}

/* A row of bytes is overwritten, or what follows it is cut off. */
TEST(test_overwritten) {
	struct names names = names_of(journal);

	for (unsigned i = 0; i < 1000; i++) {
		const char *name = names.name[random_below(&dice, names.count)];
		struct disk *disk = copy_of_journal();
		uint8_t with = (uint8_t)random_below(&dice, 256);
		size_t size = 0, at, length;
		uint8_t *bytes = disk_bytes(disk, name, &size);
		bool newest;
		uint64_t says;

		at = random_below(&dice, (uint32_t)size);
		length = random_below(&dice, 600);
		if (length > size - at)
			length = size - at;
		for (size_t k = 0; k < length; k++)
			bytes[at + k] = i % 2 == 0 ? with : (uint8_t)random_next(&dice);
		keep(disk, name);
		if (i % 5 == 0) {
			size_t longer;
			uint8_t *copy = malloc(size);

			memcpy(copy, disk_bytes(disk, name, &longer), at);
			disk_put(disk, name, copy, at);
			free(copy);
		}
		if (!use(disk, &newest, &says))
			fail_msg("%s overwritten at %zu, %zu bytes", name, at, length);
	}
}

/* How far the positions say that it was synced; 0: there are none. */
static uint32_t file_that_positions_know(void) {
	struct journal_storage *storage = storage_faulty(journal);
	struct journal_reader *reader;
	struct diag diag;
	uint32_t number;

	assert_int_equal(journal_reader_open(&reader, storage, &diag), 0);
	number = reader->slot < 0 ? 0 :
	    reader->slots[reader->slot].positions.synced_place.file;
	journal_reader_close(&reader);
	storage_faulty_close(&storage);
	return number;
}

/* Of the last file no other's head tells, nor do records: each tells what was synced before
 * it.  What positions were recorded for since it was begun is known all the same. */
static bool is_unheard_of(const struct names *names, const char *name) {
	uint32_t number = journal_file_number(name);

	for (unsigned i = 0; i < names->count; i++)
		if (journal_file_number(names->name[i]) > number)
			return false;
	return number > file_that_positions_know();
}

/* Each file missing, empty, or twice as long; and all of them. */
TEST(test_files_missing) {
	struct names names = names_of(journal);
	bool newest;
	uint64_t says;

	for (unsigned i = 0; i < 3 * names.count; i++) {
		const char *name = names.name[i / 3];
		struct disk *disk = copy_of_journal();
		uint8_t twice[2 * 16384], *bytes;
		size_t size = 0;

		bytes = disk_bytes(disk, name, &size);
		if (i % 3 == 0) {
			disk_remove(disk, name);
		} else if (i % 3 == 1) {
			disk_put(disk, name, "", 0);
		} else {
			assert_true(2 * size <= sizeof(twice));
			memcpy(twice, bytes, size);
			memcpy(twice + size, bytes, size);
			disk_put(disk, name, twice, 2 * size);
		}
		if (!use(disk, &newest, &says))
			fail_msg("%s: way %u", name, i % 3);
		if (!newest && says == 0 && !is_unheard_of(&names, name))
			fail_msg("%s: way %u: something is lost, nothing is told", name, i % 3);
	}
	assert_true(use(disk_new(), &newest, &says));
}

/* Other people's files are left alone. */
TEST(test_foreign_files) {
	static const char *const foreign[] = { "README", "0000000001.log.bak", "00000000001.log",
		".hidden", "1.log", "9999999999.log", "positions~" };
	struct disk *disk = copy_of_journal();
	struct names names;
	struct world world;
	unsigned left = 0;

	for (unsigned i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		disk_put(disk, foreign[i], "something else", 14);
	world_open(&world, &kind, disk, &known, random_next(&dice), 0);
	assert_true(world_recover(&world));
	assert_true(all_newest(&world));
	world_settle(&world, true);
	for (unsigned i = 0; i < 500; i++)
		world_step(&world);
	names = names_of(disk);
	for (unsigned i = 0; i < names.count; i++)
		for (unsigned k = 0; k < sizeof(foreign) / sizeof(foreign[0]); k++)
			left += strcmp(names.name[i], foreign[k]) == 0;
	world_close(&world);
	assert_false(world.failed);
	assert_int_equal(left, sizeof(foreign) / sizeof(foreign[0]));
}

/* --- a file of a later version ------------------------------------------------------------- */

/* The head says version 9, with a checksum that is right. */
static void make_later(struct disk *disk, const char *name) {
	size_t size = 0;
	uint8_t *bytes = disk_bytes(disk, name, &size);
	struct journal_head head;
	struct journal_frame frame;
	uint8_t payload[JOURNAL_HEAD_PAYLOAD];

	(void)journal_head_read(bytes, size, &head, &frame);
	memcpy(payload, bytes + JOURNAL_HEADER, sizeof(payload));
	frame.version = 9;
	frame.length = JOURNAL_HEAD_PAYLOAD;
	frame.payload = payload;
	assert_int_equal(journal_frame_write(bytes, &frame, 0), JOURNAL_HEAD_SIZE);
	assert_int_equal(journal_head_read(bytes, size, &head, &frame), JOURNAL_HEAD_LATER);
}

static bool has_head(const char *name) {
	struct journal_head head;
	struct journal_frame frame;
	size_t size;
	const uint8_t *bytes = disk_bytes(journal, name, &size);

	return journal_file_number(name) != 0 &&
	    journal_head_read(bytes, size, &head, &frame) == JOURNAL_HEAD_GOOD;
}

TEST(test_later_version) {
	struct names names = names_of(journal);

	for (unsigned i = 0; i < names.count; i++) {
		struct disk *disk;
		bool newest, left = false;
		uint64_t says;
		struct names after;
		struct world world;

		if (!has_head(names.name[i]))
			continue;
		disk = copy_of_journal();
		make_later(disk, names.name[i]);
		keep(disk, names.name[i]);
		assert_true(use(disk, &newest, &says));
		disk = copy_of_journal();
		make_later(disk, names.name[i]);
		keep(disk, names.name[i]);
		world_open(&world, &kind, disk, &known, random_next(&dice), 0);
		world.excused = world.damaged = true;
		assert_true(world_recover(&world));
		world_settle(&world, true);
		for (unsigned k = 0; k < 800; k++)
			world_step(&world);
		after = names_of(disk);
		for (unsigned k = 0; k < after.count; k++)
			left |= strcmp(after.name[k], names.name[i]) == 0;
		world_close(&world);
		assert_false(world.failed);
		assert_true(left);	/* a later Postern may want it */
	}
}

/* --- a disk that fails ------------------------------------------------------------------------ */

struct failing {
	enum disk_act act;
	int error;
	unsigned from, count;	/* the acts of that kind that fail */
	unsigned seen;
	bool ended;
};

static int failing_disk(void *context, const struct disk_step *step) {
	struct failing *failing = context;

	if (failing->ended || step->act != failing->act)
		return 0;
	failing->seen++;
	return failing->seen > failing->from &&
	    failing->seen - failing->from <= failing->count ? failing->error : 0;
}

/* It starts on a bad disk, which is mended: then it works, and what it writes stays. */
static void start_badly(struct failing *failing) {
	struct disk *disk = copy_of_journal();
	struct world world, later;

	disk->fault = failing_disk;
	disk->context = failing;
	world_open(&world, &kind, disk, &known, random_next(&dice), 0);
	for (unsigned i = 0; i < 50; i++) {
		world.now_ns += 100 * NS_PER_MS;
		(void)messages_turn(world.messages, world.wall_ns, world.now_ns);
	}
	failing->ended = true;
	for (unsigned i = 0; messages_is_degraded(world.messages) ||
	    !messages_is_indexed(world.messages); i++) {
		assert_true(i < 1000);
		world.now_ns += 100 * NS_PER_MS;
		(void)messages_turn(world.messages, world.wall_ns, world.now_ns);
	}
	world.excused = world.damaged = true;
	if (!world_recover(&world))
		fail_msg("act %d error %d from %u", failing->act, failing->error, failing->from);
	world_settle(&world, true);
	for (unsigned i = 0; i < 40; i++)
		world_step(&world);
	world_sync(&world);
	world_open(&later, &kind, disk_crash(disk, DISK_CRASH_DROP, &dice), &world.oracle,
	    random_next(&dice), world.wall_ns);
	if (world.failed || !world_recover(&later))
		fail_msg("act %d error %d from %u", failing->act, failing->error, failing->from);
	world_close(&later);
	disk->fault = NULL;
	world_close(&world);
	assert_false(world.failed || later.failed);
}

TEST(test_starts_on_a_bad_disk) {
	static const struct { enum disk_act act; int error; } ways[] = {
		{ DISK_LIST, EIO }, { DISK_OPEN, EIO }, { DISK_OPEN, EACCES },
		{ DISK_READ, EIO }, { DISK_CREATE, EROFS }, { DISK_CREATE, ENOSPC },
		{ DISK_WRITE, ENOSPC }, { DISK_WRITE, EIO }, { DISK_WRITE, EINTR },
		{ DISK_SYNC, EIO }, { DISK_SYNC_NAMES, EIO }, { DISK_UNLINK, EROFS } };

	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		for (unsigned from = 0; from < 12; from++)
			for (unsigned always = 0; always < 2; always++)
				start_badly(&(struct failing){ .act = ways[i].act,
					.error = ways[i].error, .from = from,
					.count = always ? UINT32_MAX : 1 });
}

TEST_GROUP(make_journal, end_journal)
