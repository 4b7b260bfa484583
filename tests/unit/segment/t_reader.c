/* SPDX-License-Identifier: ISC */
/* Reading a segment from outside: what is there, and what is wrong with it. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "segment/file/internal.h"
#include "segment/reader.h"
#include "tests/unit/own_site.h"

#define CLASSES	"classes = ( { name = \"customer\"; match = [ \"192.0.2.0/24\" ]; " \
	"hold_at = 3; refuse_at = 2; observe = false; },\n" \
	"{ name = \"all\"; match = [ \"*\" ]; hold_at = 50; refuse_at = 40; observe = true; } );"

static const char *path(void) {
	return segment_path(site.segment);
}

static struct segment *opened(void) {
	struct segment *reader;
	struct diag diag;

	if (reader_open(&reader, path(), &diag) != 0)
		fail_msg("%s", diag.text);
	return reader;
}

static void refused_file(const char *file, int error, const char *text) {
	struct segment *reader = (struct segment *)1;
	struct diag diag = { 0 };

	assert_int_equal(reader_open(&reader, file, &diag), -1);
	assert_null(reader);
	assert_int_equal(diag.error, error);
	if (strstr(diag.text, text) == NULL)
		assert_string_equal(diag.text, text);
}

static int open_site(void **state) {
	site_open(&site, 1024, CLASSES);
	segment_beat(site.segment, clock_now_ns());
	return 0;
}

/* A role can write to the file of a configuration, and cut it: root's posternctl went on by
 * what stood there at the moment. */
TEST_IN(open_site, site_end, a_configuration_that_a_role_rewrites_stays_as_it_was_read) {
	char file[PATH_MAX + 32], spoiled[4096];
	const struct generation *read;
	struct diag diag;
	uint64_t bytes;
	int fd;

	segment_config_path(site.segment, site.generation->number, "", file);
	fd = open(file, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(reader_generation_open(fd, file, &read, &diag), 0);
	bytes = read->bytes;
	assert_int_equal(read->class_count, 2);
	memset(spoiled, 0xff, sizeof(spoiled));
	assert_int_equal(pwrite(fd, spoiled, sizeof(spoiled), 0), sizeof(spoiled));
	assert_int_equal(read->bytes, bytes);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(generation_verify(read, (size_t)bytes, &diag), 0);
	assert_int_equal(read->class_count, 2);
	segment_unmap_generation(read);
	assert_int_equal(reader_generation_open(fd, file, &read, &diag), -1);
	close(fd);
}

struct seen {
	struct reader_class classes[8];
	struct session sessions[64];
	size_t class_count, session_count;
};

static void see_class(void *context, const struct reader_class *class) {
	struct seen *seen = context;

	if (seen->class_count < 8)
		seen->classes[seen->class_count++] = *class;
}

static void see_session(void *context, const struct session *session) {
	struct seen *seen = context;

	if (seen->session_count < 64)
		seen->sessions[seen->session_count++] = *session;
}

static void see_destination(void *context, const struct destination_seen *seen) {
	memcpy(context, seen, sizeof(*seen));
}

TEST_IN(open_site, site_end, destinations_are_as_they_were_noted) {
	struct delivery_seen delivery = { .name = "Example.COM.",
		.name_length = 12, .relay_name = "mx.example.com",
		.relay_name_length = 14, .mta = 2, .cloned = true };
	struct segment *reader = opened();
	struct destination_seen seen = { .name = "" };
	struct reader_status status;

	reader_status(reader, &status);
	assert_int_equal(status.destinations_size, 256);
	assert_int_equal(status.relays_size, 256);
	assert_int_equal(status.destinations_used, 0);
	assert_int_equal(status.relays_used, 0);
	assert_true(address_parse("192.0.2.1", 9, &delivery.relay));
	assert_true(destinations_note(site.segment, &delivery, clock_now_ns()));
	assert_int_equal(destinations_each(reader, see_destination, &seen), 0);
	assert_string_equal(seen.name, "example.com");
	assert_int_equal(seen.relay_count, 1);
	assert_true(address_equal(&seen.relays[0], &delivery.relay));
	assert_int_equal(seen.cloned_by, 4);
	assert_true(seen.seen_ns <= clock_now_ns());
	reader_status(reader, &status);
	assert_int_equal(status.destinations_used, 1);
	assert_int_equal(status.relays_used, 1);
	segment_unmap(&reader);
}

TEST_IN(open_site, site_end, classes_and_sessions_are_as_the_engine_left_them) {
	struct segment *reader = opened();
	struct reader_status status;
	struct seen seen = { .class_count = 0 };
	char name[SEGMENT_NAME_MAX + 1];

	for (uint16_t port = 1000; port < 1003; port++)
		(void)site_verdict("192.0.2.7", port, NULL);
	(void)site_verdict("198.51.100.7", 1000, NULL);
	assert_int_equal(reader_classes(reader, see_class, &seen), 0);
	assert_int_equal(seen.class_count, 2);
	assert_string_equal(seen.classes[0].name, "customer");
	assert_int_equal(seen.classes[0].open, 2);
	assert_int_equal(seen.classes[0].open_inbound, 2);
	assert_int_equal(seen.classes[0].peak, 2);
	assert_int_equal(seen.classes[0].sessions, 3);
	assert_int_equal(seen.classes[0].inbound, 2);
	assert_int_equal(seen.classes[0].admitted, 2);
	assert_int_equal(seen.classes[0].refused, 1);
	assert_false(seen.classes[0].observe);
	assert_false(seen.classes[0].removed);
	assert_true(seen.classes[1].observe);
	assert_int_equal(seen.classes[1].open, 1);
	assert_string_equal(reader_class_name(reader, seen.classes[1].record, name), "all");
	assert_string_equal(reader_class_name(reader, SEGMENT_NO_CLASS, name), "-");
	assert_string_equal(reader_class_name(reader, 40, name), "-");

	assert_int_equal(reader_sessions(reader, see_session, &seen), 0);
	assert_int_equal(seen.session_count, 4);
	unsigned open = 0;
	for (size_t i = 0; i < seen.session_count; i++)
		open += seen.sessions[i].control.state == SESSION_OPEN;
	assert_int_equal(open, 3);
	reader_status(reader, &status);
	assert_int_equal(status.sessions_used, 4);
	assert_int_equal(status.records_used, 2);
	assert_int_equal(status.records_size, 64);
	assert_true(status.sessions_size >= 1024);
	assert_int_equal(status.counters[COUNTER_ADMITTED], 3);
	assert_int_equal(status.counters[COUNTER_REFUSED], 1);
	segment_unmap(&reader);
	assert_null(reader);
	segment_unmap(&reader);
}

TEST_IN(open_site, site_end, a_removed_class_is_gone_with_its_last_session) {
	struct segment *reader = opened();
	struct seen seen = { .class_count = 0 };
	struct session_ref ref;

	(void)site_inbound(&site, "192.0.2.7", 1000, NULL, &ref);
	site_reload(&site, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 50; refuse_at = 40; } );");
	assert_int_equal(reader_classes(reader, see_class, &seen), 0);
	assert_int_equal(seen.class_count, 2);
	assert_true(seen.classes[0].removed);
	assert_int_equal(seen.classes[0].open, 1);
	engine_session_close(site.engine, &ref, clock_now_ns());
	seen.class_count = 0;
	assert_int_equal(reader_classes(reader, see_class, &seen), 0);
	assert_int_equal(seen.class_count, 1);
	assert_string_equal(seen.classes[0].name, "all");
	segment_unmap(&reader);
}

TEST_IN(open_site, site_end, roles_are_listed) {
	struct segment *reader = opened();
	struct reader_role role;
	uint32_t count = 0;
	bool found = false;

	while (reader_role(reader, count, &role)) {
		count++;
		if (role.kind == ROLE_POLICY && role.number == 0) {
			found = true;
			assert_int_equal(role.pid, getpid());
		}
	}
	assert_true(found);
	segment_unmap(&reader);
}

TEST_IN(open_site, site_end, health_is_told) {
	struct segment_header *header = segment_header(site.segment);
	struct segment *reader = opened();
	int64_t now_ns = clock_now_ns();
	struct reader_status status;
	char other[400];

	reader_status(reader, &status);
	assert_int_equal(status.health, READER_LIVE);
	assert_int_equal(status.generation, 1);
	assert_true(status.file_bytes > 100000);
	atomic_store(&header->heartbeat_ns, now_ns - 9 * NS_PER_SECOND);
	reader_status(reader, &status);
	assert_int_equal(status.health, READER_LIVE);
	atomic_store(&header->heartbeat_ns, now_ns - 11 * NS_PER_SECOND);
	reader_status(reader, &status);
	assert_int_equal(status.health, READER_STALE);
	atomic_store(&header->heartbeat_ns, now_ns + 3600 * NS_PER_SECOND);
	reader_status(reader, &status);
	assert_int_equal(status.health, READER_STALE);
	atomic_store(&header->heartbeat_ns, now_ns);

	atomic_store(&header->replaced, 1);
	reader_status(reader, &status);
	assert_int_equal(status.health, READER_REPLACED);
	atomic_store(&header->replaced, 0);
	snprintf(other, sizeof(other), "%s/other", site.directory);
	close(open(other, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(rename(other, path()), 0);
	reader_status(reader, &status);
	assert_int_equal(status.health, READER_REPLACED);
	segment_unmap(&reader);
}

TEST_IN(open_site, site_end, a_writer_that_died_inside_is_torn_and_costs_little) {
	struct segment *segment = site.segment;
	struct segment *reader = opened();
	struct seen seen = { .class_count = 0 };
	unsigned torn_classes, torn_sessions;
	int64_t begin_ns;
	uint32_t shards = segment->header->shard_count;

	for (uint16_t port = 1; port <= 40; port++)
		(void)site_verdict("198.51.100.7", port, NULL);
	for (uint32_t i = 0; i < shards; i++)
		atomic_fetch_add(&segment->session_shards[i].seq, 1);
	atomic_fetch_add(&site_class(&site, "all")->seq, 1);
	begin_ns = clock_now_ns();
	torn_classes = reader_classes(reader, see_class, &seen);
	torn_sessions = reader_sessions(reader, see_session, &seen);
	assert_true(clock_now_ns() - begin_ns < 20 * NS_PER_SECOND);
	assert_int_equal(torn_classes, 1);
	assert_int_equal(seen.class_count, 1);
	assert_int_equal(torn_sessions, 40);
	assert_int_equal(seen.session_count, 0);
	for (uint32_t i = 0; i < shards; i++)
		atomic_fetch_add(&segment->session_shards[i].seq, 1);
	atomic_fetch_add(&site_class(&site, "all")->seq, 1);
	assert_int_equal(reader_sessions(reader, see_session, &seen), 0);
	assert_int_equal(seen.session_count, 40);
	segment_unmap(&reader);
}

/* A writer that always leaves counts which add up, and a name of one letter. */
struct churn {
	struct class_record *record;
	_Atomic bool stop;
};

static void *keep_changing(void *argument) {
	struct churn *churn = argument;
	struct class_record *record = churn->record;

	for (uint32_t i = 0; !atomic_load(&churn->stop); i++) {
		atomic_fetch_add(&record->seq, 1);
		atomic_store(&record->open, i % 1000);
		for (size_t c = 0; c < 20; c++)
			__atomic_store_n(&record->name[c], (char)('a' + i % 26),
			    __ATOMIC_RELAXED);
		atomic_store(&record->peak, i % 1000);
		atomic_fetch_add(&record->seq, 1);
	}
	return NULL;
}

static void check_copy(void *context, const struct reader_class *class) {
	unsigned *bad = context;

	if (class->record != 0)
		return;
	if (class->open != class->peak)
		++*bad;
	for (size_t i = 1; i < 20; i++)
		*bad += class->name[i] != class->name[0];
}

TEST_IN(open_site, site_end, copies_are_consistent_while_a_writer_writes) {
	struct churn churn = { .record = &site.segment->records[0] };
	struct segment *reader = opened();
	unsigned torn = 0, bad = 0;
	pthread_t thread;

	memset(churn.record->name, 'a', 20);
	atomic_store(&churn.record->open, 0);
	atomic_store(&churn.record->peak, 0);
	assert_int_equal(pthread_create(&thread, NULL, keep_changing, &churn), 0);
	for (unsigned i = 0; i < 20000; i++)
		torn += reader_classes(reader, check_copy, &bad);
	atomic_store(&churn.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(bad, 0);
	print_message("%u of 20000 copies torn\n", torn);
	segment_unmap(&reader);
}

TEST_IN(open_site, site_end, what_is_no_segment_is_told) {
	char file[400];

	snprintf(file, sizeof(file), "%s/file", site.directory);
	refused_file(file, ENOENT, "is posternd running?");
	refused_file(site.directory, 0, "not a regular file");
	refused_file("/dev/null", 0, "not a regular file");
	close(open(file, O_CREAT | O_WRONLY, 0600));
	refused_file(file, 0, "only 0 bytes");
	assert_int_equal(truncate(file, 1 << 20), 0);
	refused_file(file, 0, "not ready");
	assert_int_equal(unlink(file), 0);
	assert_int_equal(mkfifo(file, 0600), 0);
	refused_file(file, 0, "not a regular file");
}

/* A copy of the segment's file with some bytes changed. */
static void with_bytes(size_t offset, const void *bytes, size_t length, off_t size,
    const char *text) {
	struct segment_header *header = segment_header(site.segment);
	char file[400];
	int fd;

	snprintf(file, sizeof(file), "%s/copy", site.directory);
	fd = open(file, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, header, (size_t)header->bytes), header->bytes);
	if (length > 0)
		assert_int_equal(pwrite(fd, bytes, length, (off_t)offset), length);
	if (size >= 0)
		assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
	refused_file(file, 0, text);
}

#define WITH(field, number, text) do { \
	typeof(((struct segment_header *)0)->field) value_ = (number); \
	with_bytes(offsetof(struct segment_header, field), &value_, sizeof(value_), \
	    -1, text); \
} while (0)

TEST_IN(open_site, site_end, damage_is_told) {
	with_bytes(0, "", 0, 100, "only 100 bytes");
	with_bytes(0, "", 0, 1 << 18, "truncated: 262144 bytes");
	with_bytes(0, "", 0, 1 << 26, "truncated: 67108864 bytes");
	WITH(magic, 0, "not ready");
	WITH(magic, 1, "not a state file");
	WITH(version, SEGMENT_VERSION + 1, "another build");
	WITH(header_bytes, 8, "another build");
	WITH(layout, 1, "another build");
	WITH(bytes, 1, "truncated");
	WITH(session_count, UINT64_MAX, "damaged");
	WITH(session_count, 0, "damaged");
	WITH(session_count, 1 << 20, "damaged");
	WITH(record_count, UINT32_MAX, "damaged");
	WITH(shard_count, 0, "damaged");
	WITH(shard_count, UINT32_MAX, "damaged");
	WITH(slots_per_shard, UINT32_MAX, "damaged");
	WITH(lines_per_shard, UINT32_MAX, "damaged");
	WITH(clients.per_shard, UINT32_MAX, "damaged");
	WITH(clients.buckets_per_shard, 0, "damaged");
	WITH(records_offset, UINT64_MAX, "damaged");
	WITH(shards_offset, UINT64_MAX - 100, "damaged");
	WITH(lines_offset, 8, "damaged");
	WITH(slots_offset, UINT64_MAX / 2, "damaged");
	WITH(clients.tags_offset, 0, "damaged");
	WITH(clients.slots_offset, 1, "damaged");
	WITH(destination_count, 0, "damaged");
	WITH(destination_count, UINT64_MAX, "damaged");
	WITH(destinations.shards, 0, "damaged");
	WITH(destinations.per_shard, UINT32_MAX, "damaged");
	WITH(relays.buckets_per_shard, 0, "damaged");
	WITH(recipients.per_shard, UINT32_MAX, "damaged");
	WITH(states_offset, UINT64_MAX / 2, "damaged");
	WITH(reasons_per_shard, UINT32_MAX, "damaged");
	WITH(flight_count, UINT32_MAX, "damaged");
	WITH(flights_offset, 8, "damaged");
	WITH(attempt_lines, 0, "damaged");
	WITH(destinations.slots_offset, UINT64_MAX / 2, "damaged");
	WITH(relays.tags_offset, 8, "damaged");
	WITH(recipients.places_per_bucket, 33, "damaged");
}

static uint64_t random_state;

static uint64_t next_random(void) {
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void see_any_destination(void *context, const struct destination_seen *seen) {
	assert_true(seen->relay_count <= DESTINATION_RELAYS);
	assert_true(strlen(seen->name) <= SEGMENT_NAME_MAX);
}

static void see_window(void *context, const struct destination_window *window) {
	assert_true(strlen(window->name) <= SEGMENT_NAME_MAX);
	assert_true(strlen(window->reason) <= SEGMENT_REASON_MAX);
	assert_true(!window->state.begun ||
	    window->state.window.state < WINDOW_STATE_COUNT);
}

static void see_recipient(void *context, const struct recipient_held *held) {
	assert_true(strlen(held->address) <= RECIPIENT_MAX);
	assert_true(strlen(held->reason) <= SEGMENT_REASON_MAX);
}

/* Everything behind the sizes is noise: the reader reads on, within the file. */
TEST_IN(open_site, site_end, noise_behind_the_sizes_is_survived) {
	struct segment_header *header = segment_header(site.segment);
	size_t fixed = offsetof(struct segment_header, generation);
	struct segment *reader = opened();
	struct reader_status status;
	struct reader_role role;
	char name[SEGMENT_NAME_MAX + 1];

	for (random_state = 1; random_state <= 8;) {
		uint64_t seed = random_state;
		struct seen seen = { .class_count = 0 };

		for (size_t at = fixed; at + 8 <= header->bytes; at += 8) {
			uint64_t word = next_random();

			memcpy((char *)header + at, &word, sizeof(word));
		}
		for (uint32_t i = 0; i < header->shard_count; i++)
			atomic_fetch_and(&site.segment->session_shards[i].seq, ~1u);
		reader_status(reader, &status);
		for (uint32_t i = 0; reader_role(reader, i, &role); i++)
			assert_true(role.kind <= ROLE_KEEPER);
		(void)reader_classes(reader, see_class, &seen);
		assert_true(reader_sessions(reader, see_session, &seen) > 0);
		(void)destinations_each(reader, see_any_destination, &seen);
		(void)states_each(reader, see_window, &seen);
		(void)recipients_each(reader, clock_now_ns(), see_recipient, &seen);
		for (uint32_t i = 0; i <= UINT16_MAX; i++)
			assert_true(strlen(reader_class_name(reader, (uint16_t)i, name)) <=
			    SEGMENT_NAME_MAX);
		for (size_t i = 0; i < seen.session_count; i++)
			assert_true(seen.sessions[i].control.state < SESSION_STATES);
		random_state = seed + 1;
	}
	segment_unmap(&reader);
	/* so that the site can be closed */
	memset((char *)header + header->records_offset, 0,
	    (size_t)(header->bytes - header->records_offset));
}

/* posternctl, run by root, may be given any path by a role. */
TEST_IN(open_site, site_end, what_is_no_plain_file_is_not_even_opened) {
	char fifo[128], name[128], event[256];
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	snprintf(fifo, sizeof(fifo), "%s/fifo", site.directory);
	snprintf(name, sizeof(name), "%s/link", site.directory);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(symlink(path(), name), 0);
	assert_true(watch >= 0 && inotify_add_watch(watch, fifo, IN_OPEN) >= 0);
	assert_true(inotify_add_watch(watch, path(), IN_OPEN) >= 0);
	refused_file(fifo, 0, "not a regular file");
	refused_file(name, 0, "not a regular file");
	refused_file("/dev/null", 0, "not a regular file");
	assert_int_equal(read(watch, event, sizeof(event)), -1);
	assert_int_equal(errno, EAGAIN);
	close(watch);
	(void)unlink(fifo);
	(void)unlink(name);
}
