/* SPDX-License-Identifier: ISC */
/* The segment's life: made, adopted, rebuilt, refused; reload of classes. */
#include "tests/unit/test.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "config/compile/compile.h"
#include "segment/file/feed_position.h"
#include "segment/geometry.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/unit/own_site.h"

#define ALL "classes = ( { name = \"all\"; match = [ \"*\" ]; " \
	"hold_at = 100; refuse_at = 100; client = { sessions = 50; }; } );"
#define TWO "classes = ( { name = \"mail\"; match = [ \"*.example\" ]; " \
	"hold_at = 5; refuse_at = 5; }, { name = \"all\"; match = [ \"*\" ]; " \
	"hold_at = 7; refuse_at = 7; } );"

static uint64_t learned_bytes(const struct segment_header *header) {
	return header->bytes - header->destinations.shards_offset;
}

static int open_all(void **state) {
	site_open(&site, 1000, ALL);
	return 0;
}

TEST(a_session_costs_at_most_128_bytes) {
	struct segment_header header = { 0 };

	assert_true(segment_geometry(&header, 1024, 1000000, 1000, 0));
	assert_true(header.bytes - learned_bytes(&header) <=
	    128 * UINT64_C(1000000));
	assert_true(segment_geometry(&header, 1024, 65536, 1000, 0));
	assert_true(header.bytes - learned_bytes(&header) -
	    header.shards_offset <= 128 * 65536);
	assert_true(segment_geometry(&header, 1024, 1000000, 1000, 0));
	assert_true((uint64_t)header.shard_count * header.slots_per_shard >=
	    1000000);
	assert_true(segment_geometry_valid(&header, header.bytes));
	assert_false(segment_geometry_valid(&header, header.bytes - 4096));
	header.slots_offset += 64;
	assert_false(segment_geometry_valid(&header, header.bytes));
	assert_false(segment_geometry(&header, 0, 100, 100, 0));
	assert_false(segment_geometry(&header, 10, UINT64_C(1) << 40, 100, 0));
}

TEST(a_destination_costs_272_bytes_with_its_tag) {
	struct segment_header header = { 0 };
	uint64_t slots;

	assert_true(segment_geometry(&header, 1024, 1000, 1000000, 0));
	slots = (uint64_t)header.destinations.shards *
	    header.destinations.per_shard;
	/* one of 21 slots is room, a line of tags is of 32; as many relays */
	assert_true(slots >= 1000000 && slots < 1060000);
	assert_true(header.relays.shards_offset -
	    header.destinations.shards_offset <=
	    UINT64_C(1000000) * 272);
	assert_true(header.recipients.shards_offset -
	    header.relays.shards_offset <= UINT64_C(1000000) * 138);
	/* counted apart: recipients that are held, reasons, deliveries in flight, grants,
	 * decisions */
	assert_true(header.shared_offset - header.recipients.shards_offset -
	    sizeof(struct grant_table) <=
	    4096 * 420 + UINT64_C(1000000) * (176 / 16 + 2) + 50000);
	/* a part of them are known to other nodes, 72 bytes each */
	assert_true(header.decided_offset[0] - header.shared_offset <=
	    UINT64_C(1000000) * 17 + 50000);
	assert_true(segment_geometry_valid(&header, header.bytes));
	header.relays.slots_offset += 4096;
	assert_false(segment_geometry_valid(&header, header.bytes));
	assert_true(segment_geometry(&header, 1024, 1000, 1000000, 0));
	header.destinations.per_shard--;
	assert_false(segment_geometry_valid(&header, header.bytes));
	assert_false(segment_geometry(&header, 10, 100, 0, 0));
	assert_false(segment_geometry(&header, 10, 100, UINT64_C(1) << 40, 0));
}

TEST_IN(open_all, site_end, the_same_layout_is_adopted_with_its_sessions) {
	struct class_record *class;

	for (uint16_t i = 1; i <= 20; i++)
		(void)site_verdict("192.0.2.1", i, NULL);
	/* counters spoiled by a crash are counted again */
	atomic_store(&site_class(&site, "all")->open, 4711);
	site_restart(&site, 1000, ALL);
	assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
	assert_int_equal(site.report.sessions, 20);
	class = site_class(&site, "all");
	assert_int_equal(atomic_load(&class->open), 20);
	assert_int_equal(atomic_load(&class->admitted), 20);
	assert_true(site_is_consistent(&site));
	/* the same tuple is still the same session */
	(void)site_verdict("192.0.2.1", 7, NULL);
	assert_int_equal(atomic_load(&class->open), 20);
}

TEST_IN(open_all, site_end, another_size_is_rebuilt_from_the_text_file) {
	struct session_ref ref;

	for (uint16_t i = 1; i <= 20; i++)
		(void)site_inbound(&site, i % 2 ? "192.0.2.1" : "2001:db8::7", i,
		    NULL, &ref);
	site_save();
	site_restart(&site, 3000, ALL);
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_int_equal(site.report.sessions, 20);
	assert_int_equal(open_of("all"), 20);
	assert_true(site_is_consistent(&site));
	assert_int_equal(atomic_load(&site_class(&site, "all")->admitted), 20);
	(void)site_inbound(&site, "2001:db8::7", 20, NULL, &ref);
	assert_int_equal(open_of("all"), 20);
}

/* The text is renewed each second: nothing of the last second may be lost. */
TEST_IN(open_all, site_end, another_size_keeps_what_the_text_file_does_not_know_yet) {
	(void)site_verdict("192.0.2.9", 9, NULL);
	site_save();
	for (uint16_t i = 1; i <= 20; i++)
		(void)site_verdict("192.0.2.1", i, NULL);
	site_restart(&site, 200, ALL);
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_int_equal(site.report.sessions, 21);
	assert_int_equal(open_of("all"), 21);
	assert_true(site_is_consistent(&site));
}

#define GONE "classes = ( { name = \"gone\"; match = [ \"*\" ]; hold_at = 7; } );"

static const struct session witnessed = {
	.control = { .state = SESSION_OPEN, .direction = SESSION_OUTBOUND,
		.proof = SESSION_PROOF_WITNESS, .listener = 3, .client_bits = 255 },
	.client.bytes = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
	.server.bytes = { 0x20, 0x01, 0x0d, 0xb8, [15] = 5 },
	.client_port = 40000, .server_port = 25,
};

/* Held by process 4711, started at tick 123456789012. */
static const struct session asked = {
	.control = { .state = SESSION_OPEN, .direction = SESSION_OUTBOUND,
		.proof = SESSION_PROOF_OWNER, .listener = 255, .client_bits = 255,
		.flags = SESSION_FLAG_PROCESS },
	.client.bytes = { 0x01, [7] = 1, 0x67, 0x12 },
	.proof_address.bytes = { 0x67, 0x12, 0, 0, 0x14, 0x1a, 0x99, 0xbe,
		0x1c },
};

static struct session_key key_of(const struct session *session) {
	return (struct session_key){ session->client, session->client_port,
		session->control.direction };
}

/* An open session of a class, as the engine would make it. */
static void put(const struct session *like, uint16_t record,
    uint16_t port) {
	struct session session = *like;
	struct session_lock lock;
	struct session_key key;
	uint32_t slot;

	session.control.class_record = record;
	session.client_port = port;
	key = key_of(&session);
	sessions_aim(site.segment, &key, clock_now_ns(), &lock);
	assert_true(sessions_lock(&lock));
	slot = sessions_take(&lock);
	assert_true(slot != SEGMENT_NO_SLOT);
	assert_true(class_lock(site.segment, record, clock_now_ns()));
	sessions_link(&lock, slot);
	session_store(site.segment, slot, &session);
	class_add(site.segment, record, SESSION_OUTBOUND, 1);
	class_unlock(site.segment, record);
	sessions_unlock(&lock);
}

/* Finds it by its key and compares all that should have stayed. */
static void assert_is_there(const struct session *like,
    uint16_t record, uint16_t port) {
	struct session found, wanted = *like;
	struct session_lock lock;
	struct session_key key;
	uint32_t slot;

	wanted.client_port = port;
	key = key_of(&wanted);
	sessions_aim(site.segment, &key, clock_now_ns(), &lock);
	assert_true(sessions_lock(&lock));
	slot = sessions_find(&lock, &wanted.server, wanted.server_port);
	assert_true(slot != SEGMENT_NO_SLOT);
	session_load(site.segment, slot, &found);
	sessions_unlock(&lock);
	assert_int_equal(found.control.class_record, record);
	assert_int_equal(found.control.state, wanted.control.state);
	assert_int_equal(found.control.proof, wanted.control.proof);
	assert_int_equal(found.control.flags, wanted.control.flags |
	    SESSION_FLAG_RESTORED);
	assert_int_equal(found.control.listener, wanted.control.listener);
	assert_int_equal(found.control.client_bits, 255);
	assert_memory_equal(&found.server, &wanted.server, 16);
	assert_int_equal(found.server_port, wanted.server_port);
	assert_memory_equal(&found.proof_address, &wanted.proof_address, 16);
}

static uint16_t record_of(const char *class) {
	return (uint16_t)(site_class(&site, class) - site.segment->records);
}

TEST_IN(NULL, site_end, outbound_sessions_outlive_another_layout) {
	char path[200];
	uint16_t before;

	site_open(&site, 1000, GONE);
	site_reload(&site, ALL "mta = ( { name = \"out\"; } );");
	before = record_of("all");
	put(&witnessed, before, witnessed.client_port);
	put(&asked, before, (uint16_t)(before + 1));
	site_save();
	snprintf(path, sizeof(path), "%s/state", site.directory);
	assert_int_equal(unlink(path), 0);
	site_restart(&site, 1000, ALL "mta = ( { name = \"out\"; } );");
	assert_int_equal(site.report.sessions, 2);
	assert_int_not_equal(record_of("all"), before);
	assert_is_there(&witnessed, record_of("all"),
	    witnessed.client_port);
	/* its port stands for the class, which has another record now */
	assert_is_there(&asked, record_of("all"),
	    (uint16_t)(record_of("all") + 1));
	assert_int_equal(open_of("all"), 2);
	assert_int_equal(atomic_load(&site_class(&site, "all")->open_inbound), 0);
	assert_true(site_is_consistent(&site));
}

static void write_text(const char *form,
    const char *lines, unsigned count) {
	long long now_ns = clock_now_ns();
	char path[200];
	FILE *file;

	snprintf(path, sizeof(path), "%s/state.sessions", site.directory);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "postern-sessions %s\nboot %s\nsaved %lld %lld\n%send %u\n",
	    form, site.segment->header->boot_id, now_ns, now_ns, lines, count);
	fclose(file);
	snprintf(path, sizeof(path), "%s/state", site.directory);
	(void)unlink(path);
}

#define CLASS_LINE "class all 5 6 7 8 9 10\n"
#define IN_LINE "session 0 1 192.0.2.1 7 192.0.2.25 25 unknown 0 all 0 0 0 255 5 0\n"
#define HIDDEN(proof) "session 0 1 192.0.2.1 7 192.0.2.25 25 " proof \
	" 0 all 0 0 0 255 5 0\n"
#define ASKED(proof) "session 1 1 100::1 1 unknown 0 " proof " 0 all 0 32 255 255 5 0\n"

TEST(each_line_of_the_text_is_read) {
	static const struct {
		const char *form, *lines;
		unsigned count;
		uint64_t sessions;
	} rows[] = {
		{ "6", CLASS_LINE IN_LINE, 2, 1 },
		{ "5", CLASS_LINE IN_LINE, 2, 0 },
		{ "6", CLASS_LINE HIDDEN("sockets:71:0"), 2, 1 },
		{ "6", CLASS_LINE HIDDEN("sockets:71"), 2, 0 },
		{ "6", CLASS_LINE HIDDEN("sockets:71:9999999999"), 2, 0 },
		{ "6", CLASS_LINE ASKED("sockets:71:72"), 2, 0 },
		{ "6", "carrier 192.0.2.1 25\n" CLASS_LINE IN_LINE, 3, 1 },
		{ "6", "carrier 192.0.2.1\n" CLASS_LINE IN_LINE, 3, 0 },
		{ "6", "instance 7\n" CLASS_LINE IN_LINE, 3, 1 },
		{ "6", "instance x\n" CLASS_LINE IN_LINE, 3, 0 },
		{ "0", CLASS_LINE IN_LINE, 2, 0 },
		{ "6", CLASS_LINE ASKED("process:7:9"), 2, 1 },
		{ "6", CLASS_LINE ASKED("unknown"), 2, 0 },
		{ "6", CLASS_LINE ASKED("process:0:9"), 2, 0 },
		{ "6", CLASS_LINE ASKED("process:7"), 2, 0 },
		{ "6", CLASS_LINE ASKED("process:7:9x"), 2, 0 },
		{ "6", CLASS_LINE ASKED("process:9999999999:9"), 2, 0 },
		{ "6", "mta 0 out\n" CLASS_LINE IN_LINE, 3, 1 },
		{ "6", "mta 8 out\n" CLASS_LINE IN_LINE, 3, 0 },
		{ "6", "log 1 2 3 4 5 6 7 1\n" CLASS_LINE IN_LINE, 3, 0 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		site_open(&site, 64, ALL);
		write_text(rows[i].form, rows[i].lines, rows[i].count);
		site_restart(&site, 64, ALL);
		assert_int_equal(site.report.sessions, rows[i].sessions);
		assert_int_equal(open_of("all"), rows[i].sessions);
		assert_true(site_is_consistent(&site));
		site_close(&site);
	}
}

TEST_IN(open_all, site_end, a_torn_text_file_gives_nothing) {
	char path[200];
	struct stat status;

	for (uint16_t i = 1; i <= 20; i++)
		(void)site_verdict("192.0.2.1", i, NULL);
	site_save();
	snprintf(path, sizeof(path), "%s/state.sessions", site.directory);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(truncate(path, status.st_size * 2 / 3), 0);
	/* the state file would tell it all */
	snprintf(path, sizeof(path), "%s/state", site.directory);
	assert_int_equal(unlink(path), 0);
	site_restart(&site, 3000, ALL);
	assert_int_equal(site.report.sessions, 0);
	assert_int_equal(open_of("all"), 0);
	assert_true(site_is_consistent(&site));
}

/* Spoils the state file and expects a fresh, usable segment. */
static void expect_rebuilt(void (*spoil)(const char *path)) {
	char path[200];

	site_open(&site, 1000, ALL);
	(void)site_verdict("192.0.2.1", 1, NULL);
	snprintf(path, sizeof(path), "%s/state", site.directory);
	/* the mapping is of the old file: spoil a copy in its place */
	{
		char copy[220], command_data[4096];
		int from = open(path, O_RDONLY), to;
		ssize_t n;

		snprintf(copy, sizeof(copy), "%s.copy", path);
		to = open(copy, O_WRONLY | O_CREAT | O_TRUNC, 0640);
		assert_true(from >= 0 && to >= 0);
		while ((n = read(from, command_data, sizeof(command_data))) > 0)
			assert_int_equal(write(to, command_data, (size_t)n), n);
		close(from);
		close(to);
		spoil(copy);
		assert_int_equal(rename(copy, path), 0);
	}
	site_restart(&site, 1000, ALL);
	assert_int_equal(site.report.origin, SEGMENT_REBUILT);
	assert_true(site.report.reason[0] != '\0');
	(void)site_verdict("192.0.2.1", 2, NULL);
	assert_int_equal(open_of("all"), 1);
	assert_true(site_is_consistent(&site));
	site_close(&site);
}

static void spoil_truncate(const char *path) {
	assert_int_equal(truncate(path, 8192), 0);
}

static void spoil_empty(const char *path) {
	assert_int_equal(truncate(path, 0), 0);
}

static void overwrite(const char *path, off_t offset, const void *data,
    size_t length) {
	int fd = open(path, O_WRONLY);

	assert_int_equal(pwrite(fd, data, length, offset), (ssize_t)length);
	close(fd);
}

static void spoil_version(const char *path) {
	uint32_t version = 99;

	overwrite(path, offsetof(struct segment_header, version), &version, 4);
}

static void spoil_sizes(const char *path) {
	uint32_t many = UINT32_MAX;

	overwrite(path, offsetof(struct segment_header, slots_per_shard), &many,
	    4);
}

static void spoil_boot(const char *path) {
	overwrite(path, offsetof(struct segment_header, boot_id), "another", 7);
}

static void spoil_random(const char *path) {
	unsigned char bytes[4096];
	uint32_t state = 12345;

	for (unsigned i = 0; i < sizeof(bytes); i++) {
		state = state * 1664525 + 1013904223;
		bytes[i] = (unsigned char)(state >> 24);
	}
	overwrite(path, 0, bytes, sizeof(bytes));
}

TEST(files_that_make_no_sense_are_replaced) {
	expect_rebuilt(spoil_truncate);
	expect_rebuilt(spoil_empty);
	expect_rebuilt(spoil_version);
	expect_rebuilt(spoil_sizes);
	expect_rebuilt(spoil_boot);
	expect_rebuilt(spoil_random);
}

/* A valid header over random tables: adopted, and every number right. */
TEST_IN(open_all, site_end, random_slots_are_scrubbed_at_adoption) {
	uint32_t random = 99;
	unsigned char *from, *to;

	from = (unsigned char *)site.segment->session_shards;
	to = (unsigned char *)site.segment->header + site.segment->header->bytes;
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned char *c = from; c < to; c++) {
			random = random * 1664525 + 1013904223;
			if (round % 2 == 0 || random % 16 == 0)
				*c = (unsigned char)(random >> 24);
		}
		site_restart(&site, 1000, ALL);
		assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
		from = (unsigned char *)site.segment->session_shards;
		to = (unsigned char *)site.segment->header +
		    site.segment->header->bytes;
		assert_true(site_is_consistent(&site));
		(void)site_verdict("192.0.2.1", 2, NULL);
		assert_true(site_is_consistent(&site));
	}
}

/* Who knew it could choose addresses that all fall into one place. */
TEST(the_key_of_hashes_is_another_in_each_segment) {
	unsigned char first[sizeof(((struct segment_header *)NULL)->key)];

	site_open(&site, 1000, ALL);
	memcpy(first, &site.segment->header->key, sizeof(first));
	site_close(&site);
	site_open(&site, 1000, ALL);
	assert_memory_not_equal(first, &site.segment->header->key, sizeof(first));
	site_close(&site);
}

static void is_not_opened(const char *path, uid_t uid) {
	struct diag diag;

	assert_int_equal(segment_open_file(path, uid, &diag), -1);
}

/* Root opens it for the roles, where they can have put anything. */
TEST_IN(open_all, site_end, what_is_no_plain_file_of_the_roles_is_not_opened) {
	char link_path[120];
	const char *path;
	struct diag diag;
	int fd;

	path = segment_path(site.segment);
	snprintf(link_path, sizeof(link_path), "%s.link", path);
	fd = segment_open_file(path, geteuid(), &diag);
	assert_true(fd >= 0);
	close(fd);
	is_not_opened(path, geteuid() + 1);
	assert_int_equal(link(path, link_path), 0);
	is_not_opened(path, geteuid());
	assert_int_equal(unlink(link_path), 0);
	assert_int_equal(symlink(path, link_path), 0);
	is_not_opened(link_path, geteuid());
	assert_int_equal(unlink(link_path), 0);
	assert_int_equal(mkfifo(link_path, 0600), 0);
	is_not_opened(link_path, geteuid());
	assert_int_equal(unlink(link_path), 0);
}

TEST_IN(NULL, site_end, a_second_supervisor_is_told_who_holds_the_lock) {
	struct diag diag;
	char path[100], pid[32];
	int fd, other;

	site_open(&site, 100, ALL);
	snprintf(path, sizeof(path), "%s/state", site.directory);
	snprintf(pid, sizeof(pid), "pid %ld", (long)getpid());
	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	assert_int_equal(segment_lock(path, &other, &diag), -1);
	assert_non_null(strstr(diag.text, pid));
	close(fd);
	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	close(fd);
}

/* Whoever can open a lock's file can keep the daemon from starting. */
TEST_IN(NULL, site_end, nobody_else_can_hold_the_lock) {
	struct stat status;
	struct diag diag;
	char lock[120], path[100];
	int fd;

	site_open(&site, 100, ALL);
	snprintf(path, sizeof(path), "%s/state", site.directory);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	fd = open(lock, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0644), 0);
	close(fd);
	assert_int_equal(segment_lock(path, &fd, &diag), 0);
	assert_int_equal(stat(lock, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	close(fd);
}

TEST_IN(NULL, site_end, classes_keep_their_records_through_reloads) {
	struct session_ref refs[3];

	site_open(&site, 1000, TWO);
	for (uint16_t i = 0; i < 3; i++)
		(void)site_inbound(&site, "192.0.2.1", (uint16_t)(i + 1),
		    "a.example", &refs[i]);
	/* removed while sessions are open: the record stays until they end */
	site_reload(&site, ALL);
	assert_int_equal(open_of("mail"), 3);
	assert_int_equal(atomic_load(&site_class(&site, "mail")->in_use), 2);
	engine_session_close(site.engine, &refs[0], clock_now_ns());
	assert_int_equal(open_of("mail"), 2);
	/* back again: it goes on counting where it was */
	site_reload(&site, TWO);
	assert_int_equal(open_of("mail"), 2);
	for (uint16_t i = 10; i < 13; i++)
		assert_int_equal(site_verdict("192.0.2.1", i, "a.example"), VERDICT_ADMIT);
	assert_int_equal(site_verdict("192.0.2.1", 20, "a.example"), VERDICT_REFUSE);
	assert_true(site_is_consistent(&site));
}

TEST_IN(NULL, site_end, lowered_limits_bind_at_once_and_raised_ones_too) {
	site_open(&site, 1000, TWO);
	for (uint16_t i = 1; i <= 5; i++)
		(void)site_verdict("192.0.2.1", i, NULL);
	site_reload(&site, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 2; refuse_at = 2; } );");
	assert_int_equal(site_verdict("192.0.2.1", 50, NULL), VERDICT_REFUSE);
	assert_int_equal(open_of("all"), 5);
	site_reload(&site, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 6; refuse_at = 6; } );");
	assert_int_equal(site_verdict("192.0.2.1", 51, NULL), VERDICT_ADMIT);
	assert_int_equal(site_verdict("192.0.2.1", 52, NULL), VERDICT_REFUSE);
}

TEST_IN(NULL, site_end, a_pinned_generation_outlives_reloads) {
	const struct generation *old;

	site_open(&site, 1000, TWO);
	old = engine_pin(site.engine);
	for (unsigned i = 0; i < 40; i++)
		site_reload(&site, i % 2 ? TWO : ALL);
	assert_string_equal(generation_text(old, generation_class(old, 0)->name),
	    "mail");
	engine_unpin(site.engine, old);
	assert_ptr_not_equal(old, site.generation);
}

/* A list of free slots that one role spoiled leads no other outside of the segment.  The page
 * beyond stands for any memory of its own. */
TEST_IN(open_all, site_end, a_spoiled_free_list_writes_nothing_outside) {
	static const size_t beyond = 64 << 20, bytes = 1 << 16;
	struct session_slot *slots;
	unsigned char *own;

	slots = site.segment->session_slots;
	own = mmap((char *)site.segment->header + site.segment->header->bytes + beyond, bytes,
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(own != MAP_FAILED);
	for (uint32_t i = 0; i < site.segment->header->shard_count; i++)
		site.segment->session_shards[i].free_head =
		    (uint32_t)((size_t)(own - (unsigned char *)slots) / sizeof(*slots) + 1);
	assert_int_equal(site_verdict("192.0.2.77", 4711, NULL), VERDICT_ADMIT);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(own[i], 0);
	assert_int_equal(munmap(own, bytes), 0);
}

TEST_IN(open_all, site_end, a_session_of_a_class_that_there_is_not_ends) {
	struct session_control *control;
	struct session_ref ref;

	assert_int_equal(site_inbound(&site, "192.0.2.1", 4711, NULL, &ref), VERDICT_ADMIT);
	control = (void *)&site.segment->session_slots[ref.slot - 1];
	control->class_record = 0xfff0;
	assert_true(session_load_control(site.segment, ref.slot - 1).class_record ==
	    SEGMENT_NO_CLASS);
	engine_session_close(site.engine, &ref, clock_now_ns());
	assert_int_equal(control->state, SESSION_FREE);
}

TEST_IN(open_all, site_end, a_generation_of_records_that_there_are_not_is_not_mapped) {
	const struct generation *mapped;
	struct generation_class class;
	struct diag diag;
	char path[PATH_MAX + 32];
	uint64_t number;
	off_t at;
	int fd;

	number = site.generation->number;
	at = (const char *)generation_class(site.generation, 0) - (const char *)site.generation;
	snprintf(path, sizeof(path), "%s.config.%llu", segment_path(site.segment),
	    (unsigned long long)number);
	class = *generation_class(site.generation, 0);
	class.record = segment_header(site.segment)->record_count;
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, &class, sizeof(class), at), (ssize_t)sizeof(class));
	close(fd);
	assert_int_equal(segment_map_generation(site.segment, number, &mapped, &diag), -1);
	assert_string_equal(diag.text, "its class 0 has no record");
}

/* A role that was taken over writes into the file, and cuts it. */
TEST_IN(open_all, site_end, a_configuration_overwritten_after_it_was_checked_changes_nothing) {
	const struct generation *mapped;
	struct generation *before;
	struct diag diag;
	char path[PATH_MAX + 32];
	size_t bytes;
	int fd;

	bytes = (size_t)site.generation->bytes;
	segment_config_path(site.segment, site.generation->number, "", path);
	assert_int_equal(segment_map_generation(site.segment, site.generation->number, &mapped,
	    &diag), 0);
	before = malloc(bytes);
	assert_non_null(before);
	memcpy(before, mapped, bytes);
	fd = open(path, O_WRONLY);
	for (size_t at = 0; at < bytes; at++)
		assert_int_equal(pwrite(fd, "x", 1, (off_t)at), 1);
	assert_memory_equal(mapped, before, bytes);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_memory_equal(mapped, before, bytes);
	close(fd);
	segment_unmap_generation(mapped);
	free(before);
}

/* Sparse, it costs who makes it nothing. */
TEST_IN(open_all, site_end, a_configuration_too_large_for_any_is_not_mapped) {
	const struct generation *mapped;
	struct diag diag;
	char path[PATH_MAX + 32];

	segment_config_path(site.segment, site.generation->number, "", path);
	assert_int_equal(truncate(path, (off_t)GENERATION_BYTES_MAX + 1), 0);
	assert_int_equal(segment_map_generation(site.segment, site.generation->number, &mapped,
	    &diag), -1);
	assert_non_null(strstr(diag.text, "has an invalid size for a configuration"));
}

TEST_IN(open_all, site_end, what_is_in_force_cannot_be_written_to) {
	const struct generation *mapped;
	struct diag diag;
	int status;
	pid_t pid;

	assert_int_equal(segment_map_generation(site.segment, site.generation->number, &mapped,
	    &diag), 0);
	pid = fork();
	if (pid == 0) {
		(void)signal(SIGSEGV, SIG_DFL);
		*(volatile uint32_t *)(uintptr_t)&mapped->class_count = 0;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	segment_unmap_generation(mapped);
}

static void publish_as(uint64_t number) {
	struct generation *generation = malloc((size_t)site.generation->bytes);
	struct diag diag;

	assert_non_null(generation);
	memcpy(generation, site.generation, (size_t)site.generation->bytes);
	generation->number = number;
	assert_int_equal(segment_publish(site.segment, generation, &diag), 0);
	free(generation);
}

/* Numbers that were not used lie between them; a role may be about to map the one before. */
TEST_IN(NULL, site_end, the_generation_before_stays_and_older_ones_go) {
	struct segment_header *header;

	site_open(&site, 64, "classes = ( { name = \"all\"; match = \"*\"; } );");
	header = segment_header(site.segment);
	publish_as(100);
	publish_as(130);
	assert_false(segment_generation_is_there(site.segment, site.generation->number));
	assert_true(segment_generation_is_there(site.segment, 100));
	publish_as(0);
	assert_int_equal(atomic_load(&header->generation), 131);
	assert_false(segment_generation_is_there(site.segment, 100));
	assert_true(segment_generation_is_there(site.segment, 130));
	/* as a role may have written it there */
	atomic_store(&header->generation, UINT64_MAX);
	publish_as(0);
	assert_int_equal(atomic_load(&header->generation), 1);
	assert_true(segment_generation_is_there(site.segment, 1));
}
