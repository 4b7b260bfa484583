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
	.due_ns = 1700000300000000002, .interval = 2, .suspended = true,
	.stamp = 0x1112131415161718, .arrival_ns = 1699999000000000003,
	.tried_ns = 1699999500000000004, .tries = 5, .recipients = 70010, .rest = 123456,
	.mta = SAMPLE_TEXT("out"), .directory = SAMPLE_TEXT("/var/spool/mqueue/q1"),
	.id = SAMPLE_TEXT("5AM30Xab001234"), .sender = SAMPLE_TEXT("<s@sender.example>"),
	.groups = { .count = 3, .items = sample_groups } };
static const struct journal_envelope sample_replacement = { .key = 0x0102030405060708,
	.replaces = 4, .old = { 1, 84 }, .written_ns = 1700000000000000011, .interval = 4,
	.unread = true, .stamp = 1, .mta = SAMPLE_TEXT("out"),
	.directory = SAMPLE_TEXT("/q"), .id = SAMPLE_TEXT("x"), .recipients = 9 };
static const struct journal_start sample_start = { .key = 0x0102030405060708,
	.envelope = { 1, 84 }, .when_ns = 1700000000000000021, .run = 31 };
static const struct journal_delivery sample_delivery = { .key = 0x0102030405060708,
	.start = 3, .when_ns = 1700000000000000041, .result = JOURNAL_RESULT_WAITS,
	.recipients = 42, .left = 43, .domain = SAMPLE_TEXT("a.example") };
static const struct journal_finish sample_finish = { .key = 0x0102030405060708, .start = 51,
	.old = { 52, 53 }, .when_ns = 1700000000000000054, .why = JOURNAL_FINISH_GONE };
static const struct journal_destination sample_destination = {
	.when_ns = 1700000000000000061, .origin = 0x6263646566676869,
	.name = SAMPLE_TEXT("mx.example"), .state = SAMPLE_TEXT("law=0 state=1 size=5 ceiling=7"),
	.reason = SAMPLE_TEXT("421 too many") };
static const struct journal_log_position sample_log_position = {
	.when_ns = 1700000000000000071, .position = { .log = 0x7273747576777879, .device = 0x7a,
	.inode = 0x7b, .epoch = 0x7c, .rank = 0x7d, .spot = { .offset = 0x7e7f808182,
	.tail = 0x83, .skipping = true, .time_us = 1795652590899127 } } };
static const struct journal_account sample_account = { .when_ns = 1700000000000000101,
	.boot = 102, .clock_ns = 103, .what = JOURNAL_ACCOUNT_LOGIN, .key = { 104, 105 },
	.name = { "alice@example.org", 17 }, .first_ns = 106, .guard_ns = 107, .accepted = 108,
	.refused = 109, .held_by = 110, .counters_count = 2,
	.counters = { { 1u << 28 | 3600, { 1, 2, 3 }, 111 }, { 2u << 28 | 86400, { 4 }, 112 } } };
static const struct journal_source sample_source = { .when_ns = 1700000000000000111,
	.boot = 112, .clock_ns = 113, .name = SAMPLE_TEXT("ip2"), .provider = SAMPLE_TEXT("google"),
	.day_ns = 1699999000000000114, .sent = 115, .answered = 116, .throttled = 117, .step = 118,
	.verdict = 119, .ahead = 120 };
static const struct journal_manual sample_manual = { .when_ns = 1700000000000000091,
	.until_ns = INT64_MAX, .verb = MANUAL_HOLD, .what = JOURNAL_ON_RECIPIENT,
	.who = 1000, .window = UINT32_MAX, .ceiling = 92, .name = SAMPLE_TEXT("u@a.example"),
	.reason = SAMPLE_TEXT("their request") };
static const struct journal_held_recipient sample_held = { .when_ns = 1700000000000000101,
	.since_ns = 1700000000000000102, .until_ns = 1700000000000000103,
	.address = SAMPLE_TEXT("v@a.example"),
	.reason = SAMPLE_TEXT("452 mailbox full"), .by_rule = true,
	.event = 0x9192939495969798 };
#define SAMPLE_TEXTS	"\1\11" "d.example\0" "\12\17" "421 4.7.0 \xff bus\0"
static const struct journal_decision sample_decision = { .d = {
	.at_ns = 1700000000000000151, .until_ns = INT64_MAX, .id = 0x5152535455565759,
	.cause = 0x6162636465666768, .client = { { 0x71, [10] = 0xff, 0xff, 192, 0, 2, 7 } },
	.client_port = 152, .server_port = 25, .verdict = 1, .by = 2, .action = 3, .flags = 4,
	.line = 153, .limit_line = 154, .count = 155, .limit = 156, .before = 157, .window = 158,
	.ceiling_before = 159, .ceiling = 160, .uid = 161, .pid = 162, .code = 421,
	.success = 0.5F, .failure = 2, .fail_cohorts = 20, .observe_line = 163,
	.kind = DECIDED_SUSPENDED, .reason = DECIDED_NO_REASON, .stage = DECIDED_BY_RESULT,
	.result = 3 },
	.texts = SAMPLE_TEXT(SAMPLE_TEXTS) };
static const struct journal_checkpoint sample_begin = { .number = 111,
	.when_ns = 1700000000000000112, .records = UINT32_MAX };
static const struct journal_checkpoint sample_end = { .number = 111,
	.when_ns = 1700000000000000122, .records = 4 };
static const struct journal_checkpoint sample_group = { .number = 131,
	.when_ns = 1700000000000000132, .records = 2 };
static const struct journal_positions sample_positions = { .when_ns = 1700000000000000141,
	.journal = 142, .synced = 143, .synced_place = { 144, 145 }, .first_file = 1,
	.syncs = 147, .results = 148, .positions_count = 2,
	.positions = { { "suffix", { 1, 84 } }, { "fifteen-letters", { 1, 0 } } }, .kept = 149 };

/* The payload of the sample of that type; 0: there is none. */
static inline size_t sample_payload(unsigned type, uint8_t *out, size_t size) {
	static const void *const samples[] = { [JOURNAL_POSITIONS] = &sample_positions,
		[JOURNAL_ENVELOPE] = &sample_envelope, [JOURNAL_START] = &sample_start,
		[JOURNAL_DELIVERY] = &sample_delivery, [JOURNAL_FINISH] = &sample_finish,
		[JOURNAL_REPLACEMENT] = &sample_replacement,
		[JOURNAL_DESTINATION] = &sample_destination,
		[JOURNAL_LOG_POSITION] = &sample_log_position, [JOURNAL_MANUAL] = &sample_manual,
		[JOURNAL_HELD_RECIPIENT] = &sample_held, [JOURNAL_DECISION] = &sample_decision,
		[JOURNAL_ACCOUNT] = &sample_account, [JOURNAL_CHECKPOINT_BEGIN] = &sample_begin,
		[JOURNAL_CHECKPOINT_END] = &sample_end, [JOURNAL_GROUP] = &sample_group,
		[JOURNAL_SOURCE] = &sample_source };

	return type >= sizeof(samples) / sizeof(samples[0]) || samples[type] == NULL ? 0 :
	    journal_record_write(journal_shape_of(type), out, size, samples[type]);
}

/* Reads a payload of that type and writes what was read; -1: it is spoiled, or of no type
 * that has one.  0 and more: its bytes. */
#define SAMPLE_GROUPS_MOST	65536
static inline long sample_rewrite(unsigned type, const uint8_t *in, size_t length,
    uint8_t *out, size_t size) {
	static struct journal_group groups[SAMPLE_GROUPS_MOST];
	const struct journal_shape *shape = journal_shape_of(type);
	union journal_any any;

	if (shape == NULL || !journal_record_read(shape, in, length, &any))
		return -1;
	if (shape == journal_envelope_shape()) {
		struct journal_list *list = &any.envelope.groups;
		uint32_t count = list->count;

		if (count > SAMPLE_GROUPS_MOST)
			return -1;
		for (uint32_t i = 0; i < count; i++)
			if (!journal_group_next(list, &groups[i]))
				return -1;
		*list = (struct journal_list){ .count = count, .items = groups };
	}
	return (long)journal_record_write(shape, out, size, &any);
}

#endif
