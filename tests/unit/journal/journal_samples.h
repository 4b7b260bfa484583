/* SPDX-License-Identifier: ISC */
/* One record of each type, every field another value: for the golden files (which never
 * change) and for what else wants some. */
#ifndef TESTS_UNIT_JOURNAL_SAMPLES_H
#define TESTS_UNIT_JOURNAL_SAMPLES_H

#include <string.h>

#include "journal/record.h"

#define SAMPLE_TEXT(text)	{ text, sizeof(text) - 1 }

static const struct journal_group sample_groups[] = {
	{ .count = 3, .due_ns = 0, .domain = SAMPLE_TEXT("a.example") },
	{ .count = 1, .due_ns = 1700000500000000000, .domain = SAMPLE_TEXT("") },
	{ .count = 70000, .due_ns = INT64_MAX, .domain = SAMPLE_TEXT("b\xff\n.example") },
};
static const struct journal_envelope sample_envelope = { .key = 0x0102030405060708,
	.replaces = 0, .old = { 0, 0 }, .written_ns = 1700000000000000001,
	.due_ns = 1700000300000000002, .interval = 2, .flags = JOURNAL_ENVELOPE_SUSPENDED,
	.stamp = 0x1112131415161718, .arrival_ns = 1699999000000000003,
	.tried_ns = 1699999500000000004, .tries = 5, .recipients = 70010, .rest = 123456,
	.mta = SAMPLE_TEXT("out"), .directory = SAMPLE_TEXT("/var/spool/mqueue/q1"),
	.id = SAMPLE_TEXT("5AM30Xab001234"), .sender = SAMPLE_TEXT("<s@sender.example>"),
	.group_count = 3 };
static const struct journal_envelope sample_replacement = { .key = 0x0102030405060708,
	.replaces = 4, .old = { 1, 84 }, .written_ns = 1700000000000000011, .interval = 4,
	.flags = JOURNAL_ENVELOPE_UNREAD, .stamp = 1, .mta = SAMPLE_TEXT("out"),
	.directory = SAMPLE_TEXT("/q"), .id = SAMPLE_TEXT("x"), .recipients = 9 };
static const struct journal_start sample_start = { .key = 0x0102030405060708,
	.envelope = { 1, 84 }, .sequence = 2, .when_ns = 1700000000000000021, .run = 31 };
static const struct journal_delivery sample_delivery = { .key = 0x0102030405060708,
	.start = 3, .when_ns = 1700000000000000041, .result = JOURNAL_RESULT_WAITS,
	.recipients = 42, .left = 43, .domain = SAMPLE_TEXT("a.example") };
static const struct journal_finish sample_finish = { .key = 0x0102030405060708, .start = 51,
	.old = { 52, 53 }, .when_ns = 1700000000000000054, .why = JOURNAL_FINISH_GONE };
static const struct journal_destination sample_destination = {
	.when_ns = 1700000000000000061, .origin = 0x6263646566676869, .flags = 0x83,
	.name = SAMPLE_TEXT("mx.example"), .state = SAMPLE_TEXT("law=0 state=1 size=5 ceiling=7"),
	.reason = SAMPLE_TEXT("421 too many") };
static const struct journal_log_position sample_log_position = {
	.when_ns = 1700000000000000071, .log = 0x7273747576777879, .device = 0x7a, .inode = 0x7b,
	.epoch = 0x7c, .rank = 0x7d, .offset = 0x7e7f808182, .tail = 0x83, .skipping = true,
	.forgotten = false };
static const struct journal_account sample_account = { .when_ns = 1700000000000000101,
	.boot = 102, .clock_ns = 103, .what = JOURNAL_ACCOUNT_LOGIN, .key = { 104, 105 },
	.name = { "alice@example.org", 17 }, .first_ns = 106, .guard_ns = 107, .accepted = 108,
	.refused = 109, .held_by = 110, .counter_count = 2,
	.counters = { { 1u << 28 | 3600, 111, { 1, 2, 3 } }, { 2u << 28 | 86400, 112, { 4 } } } };
static const struct journal_manual sample_manual = { .when_ns = 1700000000000000091,
	.until_ns = INT64_MAX, .verb = MANUAL_HOLD, .what = JOURNAL_ON_RECIPIENT,
	.who = 1000, .window = UINT32_MAX, .ceiling = 92, .name = SAMPLE_TEXT("u@a.example"),
	.reason = SAMPLE_TEXT("their request") };
static const struct journal_held_recipient sample_held = { .when_ns = 1700000000000000101,
	.since_ns = 1700000000000000102, .until_ns = 1700000000000000103,
	.address = SAMPLE_TEXT("v@a.example"), .reason = SAMPLE_TEXT("452 mailbox full"),
	.flags = JOURNAL_HELD_BY_RULE };
static const struct journal_note sample_notes[] = {
	{ 1, SAMPLE_TEXT("d.example") }, { 10, SAMPLE_TEXT("421 4.7.0 \xff busy") },
};
static const struct journal_decision sample_decision = { .when_ns = 1700000000000000151,
	.until_ns = INT64_MAX, .id = 0x5152535455565758, .cause = 0x6162636465666768,
	.client = { 0x71, [10] = 0xff, 0xff, 192, 0, 2, 7 }, .client_port = 152,
	.server_port = 25, .verdict = 1, .by = 2, .action = 3, .flags = 4, .line = 153,
	.limit_line = 154, .count = 155, .limit = 156, .before = 157, .window = 158,
	.ceiling_before = 159, .ceiling = 160, .uid = 161, .pid = 162, .code = 421,
	.success = 0x3f000000, .failure = 0x40000000, .fail_cohorts = 0x41a00000,
	.observe_line = 163,
	.kind = SAMPLE_TEXT("suspended"), .reason = SAMPLE_TEXT("suspended"),
	.stage = SAMPLE_TEXT("result"), .result = SAMPLE_TEXT("site-failure"),
	.text_count = 2 };
static const struct journal_checkpoint sample_begin = { .number = 111,
	.when_ns = 1700000000000000112, .records = 0 };
static const struct journal_checkpoint sample_end = { .number = 111,
	.when_ns = 1700000000000000122, .records = 4 };
static const struct journal_checkpoint sample_group = { .number = 131,
	.when_ns = 1700000000000000132, .records = 2 };
static const struct journal_positions sample_positions = { .when_ns = 1700000000000000141,
	.journal = 142, .synced = 143, .synced_place = { 144, 145 }, .first_file = 1,
	.syncs = 147, .results = 148, .count = 2,
	.positions = { { { 1, 84 }, "suffix" }, { { 1, 0 }, "fifteen-letters" } }, .kept = 149 };

/* The payload of the sample of that type; 0: there is none. */
static inline size_t sample_payload(unsigned type, uint8_t *out, size_t size) {
	switch (type) {
	case JOURNAL_POSITIONS:
		return journal_positions_write(out, size, &sample_positions);
	case JOURNAL_ENVELOPE:
		return journal_envelope_write(out, size, &sample_envelope, sample_groups);
	case JOURNAL_START: return journal_start_write(out, size, &sample_start);
	case JOURNAL_DELIVERY: return journal_delivery_write(out, size, &sample_delivery);
	case JOURNAL_FINISH: return journal_finish_write(out, size, &sample_finish);
	case JOURNAL_REPLACEMENT:
		return journal_envelope_write(out, size, &sample_replacement, NULL);
	case JOURNAL_DESTINATION:
		return journal_destination_write(out, size, &sample_destination);
	case JOURNAL_LOG_POSITION:
		return journal_log_position_write(out, size, &sample_log_position);
	case JOURNAL_MANUAL: return journal_manual_write(out, size, &sample_manual);
	case JOURNAL_HELD_RECIPIENT:
		return journal_held_recipient_write(out, size, &sample_held);
	case JOURNAL_DECISION:
		return journal_decision_write(out, size, &sample_decision, sample_notes);
	case JOURNAL_ACCOUNT: return journal_account_write(out, size, &sample_account);
	case JOURNAL_CHECKPOINT_BEGIN: return journal_checkpoint_write(out, size, &sample_begin);
	case JOURNAL_CHECKPOINT_END: return journal_checkpoint_write(out, size, &sample_end);
	case JOURNAL_GROUP: return journal_checkpoint_write(out, size, &sample_group);
	default: return 0;
	}
}

/* Reads a payload of that type and writes what was read; -1: it is spoiled, or of no type
 * that has one.  0 and more: its bytes. */
#define SAMPLE_GROUPS_MOST	65536
static inline long sample_rewrite(unsigned type, const uint8_t *in, size_t length,
    uint8_t *out, size_t size) {
	static struct journal_group groups[SAMPLE_GROUPS_MOST];
	static struct journal_note notes[SAMPLE_GROUPS_MOST];
	union {
		struct journal_envelope envelope;
		struct journal_start start;
		struct journal_delivery delivery;
		struct journal_finish finish;
		struct journal_destination destination;
		struct journal_log_position log_position;
		struct journal_manual manual;
		struct journal_held_recipient held;
		struct journal_decision decision;
		struct journal_account account;
		struct journal_checkpoint checkpoint;
		struct journal_positions positions;
	} u;
	struct journal_groups list;

	switch (type) {
	case JOURNAL_POSITIONS:
		return !journal_positions_read(in, length, &u.positions) ? -1 :
		    (long)journal_positions_write(out, size, &u.positions);
	case JOURNAL_ENVELOPE:
	case JOURNAL_REPLACEMENT:
		if (!journal_envelope_read(in, length, &u.envelope, &list) ||
		    u.envelope.group_count > SAMPLE_GROUPS_MOST)
			return -1;
		for (uint32_t i = 0; i < u.envelope.group_count; i++)
			if (!journal_group_next(&list, &groups[i]))
				return -1;
		return (long)journal_envelope_write(out, size, &u.envelope, groups);
	case JOURNAL_START:
		return !journal_start_read(in, length, &u.start) ? -1 :
		    (long)journal_start_write(out, size, &u.start);
	case JOURNAL_DELIVERY:
		return !journal_delivery_read(in, length, &u.delivery) ? -1 :
		    (long)journal_delivery_write(out, size, &u.delivery);
	case JOURNAL_FINISH:
		return !journal_finish_read(in, length, &u.finish) ? -1 :
		    (long)journal_finish_write(out, size, &u.finish);
	case JOURNAL_DESTINATION:
		return !journal_destination_read(in, length, &u.destination) ? -1 :
		    (long)journal_destination_write(out, size, &u.destination);
	case JOURNAL_LOG_POSITION:
		return !journal_log_position_read(in, length, &u.log_position) ? -1 :
		    (long)journal_log_position_write(out, size, &u.log_position);
	case JOURNAL_MANUAL:
		return !journal_manual_read(in, length, &u.manual) ? -1 :
		    (long)journal_manual_write(out, size, &u.manual);
	case JOURNAL_HELD_RECIPIENT:
		return !journal_held_recipient_read(in, length, &u.held) ? -1 :
		    (long)journal_held_recipient_write(out, size, &u.held);
	case JOURNAL_DECISION:
		if (!journal_decision_read(in, length, &u.decision, &list) ||
		    u.decision.text_count > SAMPLE_GROUPS_MOST)
			return -1;
		for (uint32_t i = 0; i < u.decision.text_count; i++)
			if (!journal_note_next(&list, &notes[i]))
				return -1;
		return (long)journal_decision_write(out, size, &u.decision, notes);
	case JOURNAL_ACCOUNT:
		return !journal_account_read(in, length, &u.account) ? -1 :
		    (long)journal_account_write(out, size, &u.account);
	case JOURNAL_CHECKPOINT_BEGIN:
	case JOURNAL_CHECKPOINT_END:
	case JOURNAL_GROUP:
		return !journal_checkpoint_read(in, length, &u.checkpoint) ? -1 :
		    (long)journal_checkpoint_write(out, size, &u.checkpoint);
	default:
		return -1;
	}
}

#endif
