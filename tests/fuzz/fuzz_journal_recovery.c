/* SPDX-License-Identifier: ISC */
/*
 * A directory of a journal that others wrote: recovery comes to an end, whatever stands in
 * it, what it finds can be worked with, and what is written then is found again.
 *
 * The input is a row of orders (a byte each, and what belongs to it) that write files: with
 * checksums that are right, else nothing would come of it, or any bytes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "journal/log.h"
#include "journal/queue/messages.h"
#include "journal/reader.h"
#include "tests/crash/storage_faulty.h"
#include "tests/crash/sync_log.h"

#define SALT		UINT32_C(0x5a17a11c)
#define FILE_MOST	65536
#define ROUNDS		3000
#define START_NS	(INT64_C(1800000000) * NS_PER_SECOND)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at, *end;
};

struct file {
	uint8_t bytes[FILE_MOST];
	size_t size;
	uint32_t number;	/* 0: none is being written */
};

static uint8_t byte(struct input *input) {
	return input->at < input->end ? *input->at++ : 0;
}

static size_t some(struct input *input, const uint8_t **bytes, size_t most) {
	size_t left, length = byte(input);

	*bytes = input->at;
	left = (size_t)(input->end - input->at);
	length = length < left ? length : left;
	length = length < most ? length : most;
	input->at += length;
	return length;
}

/* --- files --------------------------------------------------------------------------- */

static void end_file(struct disk *disk, struct file *file) {
	char name[JOURNAL_NAME_MAX + 1];

	if (file->number == 0)
		return;
	journal_file_name(file->number, name);
	disk_put(disk, name, file->bytes, file->size);
	file->number = 0;
}

static void begin_file(struct input *input, struct disk *disk, struct file *file,
    uint64_t sequence) {
	uint8_t flags = byte(input);
	struct journal_head head = { .salt = SALT, .kind = JOURNAL_QUEUE, .journal = 7,
		.created_ns = START_NS, .number = 1 + (flags & 15),
		.previous = byte(input) & 15, .previous_end = byte(input) * UINT32_C(16) };

	end_file(disk, file);
	file->number = 1 + (flags & 15);
	file->size = 0;
	if ((flags & 0xc0) == 0xc0)
		return;		/* any bytes will follow */
	if ((flags & 0x40) != 0)
		head.kind = flags >> 4;
	if ((flags & 0x20) != 0)
		head.previous_end = (uint32_t)UINT16_MAX * byte(input);
	journal_head_write(file->bytes, &head, sequence, byte(input));
	file->size = JOURNAL_HEAD_SIZE;
}

static void add(struct file *file, const void *bytes, size_t length) {
	if (length > sizeof(file->bytes) - file->size)
		length = sizeof(file->bytes) - file->size;
	memcpy(file->bytes + file->size, bytes, length);
	file->size += length;
}

static void add_record(struct input *input, struct file *file, uint8_t type,
    const uint8_t *payload, size_t length, uint64_t sequence) {
	static uint8_t out[JOURNAL_HEADER + 1024];
	uint8_t flags = byte(input);
	struct journal_frame frame = { .mark = (flags & 1) != 0 ? JOURNAL_GARBAGE :
		    (flags & 2) != 0 ? flags : JOURNAL_LIVE, .type = type,
		.version = (flags & 12) == 12 ? 2 : 1, .length = (uint32_t)length,
		.sequence = sequence, .behind = flags >> 4, .payload = payload };

	add(file, out, journal_frame_write(out, &frame, SALT));
}

static void add_envelope(struct input *input, struct file *file, uint64_t sequence) {
	static const char ids[4][4] = { "a", "b", "c", "d" };
	uint8_t payload[512], flags = byte(input);
	struct journal_group groups[2] = {
		{ .count = flags & 3, .domain = { "a.example", 9 } },
		{ .count = byte(input), .due_ns = INT64_MAX, .domain = { "", 0 } } };
	struct journal_envelope envelope = { .key = byte(input) & 7,
		.replaces = byte(input), .old = { byte(input) & 15, byte(input) },
		.written_ns = START_NS, .due_ns = (flags & 4) != 0 ? INT64_MAX : flags,
		.interval = flags >> 5, .unread = byte(input) & 1, .stamp = flags,
		.recipients = 1000, .rest = flags & 8, .mta = { "m", 1 },
		.directory = { "/q", 2 }, .id = { ids[flags & 3], 1 },
		.sender = { "s@x", 3 }, .groups = { .count = 2, .items = groups } };
	size_t length = journal_envelope_write(payload, sizeof(payload), &envelope);

	add_record(input, file, (flags & 16) != 0 ? JOURNAL_ENVELOPE : JOURNAL_REPLACEMENT,
	    payload, length, sequence);
}

static void add_work(struct input *input, struct file *file, uint64_t sequence) {
	uint8_t payload[256], which = byte(input);
	size_t length;

	if (which % 3 == 0) {
		struct journal_start start = { .key = byte(input) & 7,
			.envelope = { byte(input) & 15, byte(input) * UINT32_C(4) } };

		length = journal_start_write(payload, sizeof(payload), &start);
		add_record(input, file, JOURNAL_START, payload, length, sequence);
	} else if (which % 3 == 1) {
		struct journal_delivery delivery = { .key = byte(input) & 7,
			.start = byte(input), .recipients = byte(input),
			.left = byte(input), .domain = { "a.example", 9 } };

		if (delivery.left % 2 == 1) {
			delivery.id = (struct journal_text){ "AA", 2 };
			delivery.to = (struct journal_text){ "a@b,c@d", delivery.left % 8 };
			delivery.result = delivery.left % 16 == 15;
		}
		length = journal_delivery_write(payload, sizeof(payload), &delivery);
		add_record(input, file, JOURNAL_DELIVERY, payload, length, sequence);
	} else {
		struct journal_finish finish = { .key = byte(input) & 7,
			.start = byte(input), .old = { byte(input) & 15, byte(input) } };

		length = journal_finish_write(payload, sizeof(payload), &finish);
		add_record(input, file, JOURNAL_FINISH, payload, length, sequence);
	}
}

static void put_positions(struct input *input, struct disk *disk) {
	static uint8_t out[2 * JOURNAL_SLOT + JOURNAL_HEADER];
	uint8_t payload[1024], flags = byte(input);
	struct journal_positions positions = { .journal = 7, .synced = byte(input),
		.synced_place = { byte(input) & 15, byte(input) * UINT32_C(4) },
		.first_file = byte(input) & 15, .positions_count = 4 };
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = JOURNAL_POSITIONS,
		.version = 1, .sequence = flags, .payload = payload };
	static const char *const names[4] = { "suffix", "runner-0", "runner-5m", "last" };

	for (unsigned i = 0; i < positions.positions_count; i++) {
		positions.positions[i].place.file = byte(input) & 15;
		positions.positions[i].place.offset = byte(input) * UINT32_C(8);
		strncpy(positions.positions[i].name, names[i], JOURNAL_POSITION_NAME);
	}
	memset(out, 0, sizeof(out));
	frame.length = (uint32_t)journal_positions_write(payload, sizeof(payload), &positions);
	(void)journal_frame_write(out + (flags & 1) * JOURNAL_SLOT, &frame, 0);
	disk_put(disk, JOURNAL_POSITIONS_NAME, out, 2 * JOURNAL_SLOT);
}

static struct disk *write_files(struct input *input) {
	static struct file file;
	struct disk *disk = disk_new();
	const uint8_t *bytes;
	uint64_t sequence = 1;
	size_t length;

	file.number = 0;
	while (input->at < input->end) {
		uint8_t order = byte(input), type;

		if ((order & 0x40) != 0)
			sequence += (uint64_t)(int64_t)(int8_t)byte(input);
		switch (order % 8) {
		case 0:
			begin_file(input, disk, &file, sequence++);
			break;
		case 1:
			type = byte(input);
			length = some(input, &bytes, 1024);
			add_record(input, &file, type, bytes, length, sequence++);
			break;
		case 2:
			length = some(input, &bytes, FILE_MOST);
			add(&file, bytes, length);
			break;
		case 3:
			put_positions(input, disk);
			break;
		case 4: case 5:
			add_envelope(input, &file, sequence++);
			break;
		case 6:
			add_work(input, &file, sequence++);
			break;
		default:
			length = byte(input);
			if (file.size > 0)
				file.bytes[length * 7 % file.size] ^= byte(input);
			break;
		}
	}
	end_file(disk, &file);
	return disk;
}

/* --- what is made of them -------------------------------------------------------------- */

static void read_all(const struct journal_storage *storage) {
	struct journal_reader *reader = NULL;
	struct journal_cursor *cursor;
	struct journal_found found;
	struct diag diag;
	unsigned rounds = 0;

	MUST(journal_reader_open(&reader, storage, &diag) == 0);
	cursor = journal_cursor_open(&reader->files);
	MUST(cursor != NULL);
	journal_cursor_seek(cursor, journal_reader_begin(reader));
	while (journal_cursor_next(cursor, &found) != JOURNAL_FOUND_END)
		MUST(rounds++ < 40 * FILE_MOST / JOURNAL_HEADER);
	journal_cursor_close(&cursor);
	journal_reader_close(&reader);
}

static void count_shown(uint64_t *shown, const struct messages_envelope *envelope) {
	MUST(strlen(envelope->id) <= MESSAGES_DOMAIN_MAX);
	for (unsigned i = 0; i < envelope->group_count; i++)
		MUST(envelope->groups[i].length <= UINT16_MAX);
	++*shown;
}

static void put_nothing(void *context) {
	(void)context;
}

/* Opens and recovers; how many messages there are. */
static uint64_t recover(const struct journal_storage *storage, struct messages **messages,
    int64_t *now_ns) {
	const struct messages_calls calls = { .renewed = put_nothing };
	struct messages_settings settings = messages_defaults;
	uint64_t shown = 0;
	struct diag diag;
	struct messages_walk *walk;
	struct messages_envelope envelope;
	enum messages_answer answer;
	unsigned rounds = 0;

	settings.log = (struct journal_log_options){ .kind = JOURNAL_QUEUE,
		.file_size = 4096, .random = 99 };
	MUST(messages_open(messages, storage, &settings, &calls, *now_ns, *now_ns, &diag) == 0);
	while (!messages_is_indexed(*messages) && !messages_is_degraded(*messages)) {
		MUST(rounds++ < ROUNDS);
		*now_ns += NS_PER_MS;
		(void)messages_turn(*messages, *now_ns, *now_ns);
	}
	walk = messages_walk_open(*messages);
	while (walk != NULL &&
	    (answer = messages_walk_next(*messages, walk, &envelope)) != MESSAGES_NONE) {
		if (answer == MESSAGES_ONE) {
			count_shown(&shown, &envelope);
			continue;
		}
		MUST(rounds++ < ROUNDS);
		*now_ns += NS_PER_MS;
		(void)messages_turn(*messages, *now_ns, *now_ns);
	}
	messages_walk_close(&walk);
	return shown;
}

static void work(struct messages *messages, int64_t *now_ns) {
	struct messages_envelope envelope;
	char mta[256], directory[1024], id[256];
	int64_t next_ns;

	for (unsigned i = 0; i < 64; i++) {
		*now_ns += 400 * NS_PER_SECOND;
		(void)messages_turn(messages, *now_ns, *now_ns);
		if (messages_next(messages, *now_ns, &envelope, &next_ns) != MESSAGES_ONE)
			continue;
		snprintf(mta, sizeof(mta), "%s", envelope.mta);
		snprintf(directory, sizeof(directory), "%s", envelope.directory);
		snprintf(id, sizeof(id), "%s", envelope.id);
		if (i % 3 == 0)
			(void)messages_put(messages, &envelope, i % 2 == 0, *now_ns);
		(void)messages_start(messages, messages_key(mta, directory, id), 0, *now_ns);
		(void)messages_delivered(messages, messages_key(mta, directory, id),
		    &(const struct journal_delivery){ .id = journal_text_of(id),
		    .to = journal_text_of("u@a.example"), .domain = journal_text_of("a.example"),
		    .recipients = 1, .pid = 7 }, *now_ns);
		(void)messages_delivered(messages, messages_key(mta, directory, id),
		    &(const struct journal_delivery){ .domain = journal_text_of("a.example"),
		    .recipients = 1, .left = i & 3 }, *now_ns);
		if (i % 2 == 0)
			(void)messages_finish(messages, messages_key(mta, directory, id), *now_ns);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct input input = { .at = data, .end = data + size };
	struct disk *disk = write_files(&input);
	struct journal_storage *storage = storage_faulty(disk);
	struct messages *messages = NULL;
	struct messages_totals totals;
	int64_t now_ns = START_NS;

	read_all(storage);
	(void)recover(storage, &messages, &now_ns);
	work(messages, &now_ns);
	(void)sync_log(messages_log(messages), now_ns);
	messages_count(messages, &totals);
	messages_close(&messages);
	MUST(recover(storage, &messages, &now_ns) <= totals.messages);
	messages_close(&messages);
	storage_faulty_close(&storage);
	MUST(disk_handles(disk) == 0);
	disk_free(disk);
	return 0;
}
