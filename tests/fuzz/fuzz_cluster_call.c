/* SPDX-License-Identifier: ISC */
/* Answers of the lease script: whatever a server says, what is read of it has bounds, and a bad
 * answer changes nothing of what the node knows.  The input: a letter (operation), a digit
 * (pools of the call), then values with blanks between them: 7, text, !error, ~ (nothing),
 * ( list ). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/cluster/cluster_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VALUES	512

struct reader {
	char *at, *end;
	struct redis_value values[VALUES];
	size_t used;
};

static void skip_blanks(struct reader *reader) {
	while (reader->at < reader->end && *reader->at == ' ')
		*reader->at++ = '\0';
}

static void read_word(struct reader *reader, struct redis_value *value) {
	char *word = reader->at, *behind;

	while (reader->at < reader->end && *reader->at != ' ')
		reader->at++;
	*value = (struct redis_value){ .kind = REDIS_KIND_TEXT, .text = word,
		.length = (size_t)(reader->at - word) };
	if (reader->at < reader->end)
		*reader->at++ = '\0';
	if (word[0] == '~')
		value->kind = REDIS_KIND_NOTHING;
	if (word[0] == '!')
		value->kind = REDIS_KIND_ERROR;
	value->number = strtoll(word, &behind, 10);
	if (behind != word && *behind == '\0')
		value->kind = REDIS_KIND_NUMBER;
}

static struct redis_value read_list(struct reader *reader, unsigned depth) {
	struct redis_value one[64];
	size_t count = 0;

	for (;;) {
		skip_blanks(reader);
		if (reader->at == reader->end)
			break;
		if (*reader->at == ')') {
			reader->at++;
			break;
		}
		if (count == sizeof(one) / sizeof(one[0]))
			break;
		if (*reader->at == '(' && depth < REDIS_DEPTH_MAX) {
			reader->at++;
			one[count++] = read_list(reader, depth + 1);
		} else {
			read_word(reader, &one[count++]);
		}
	}
	if (count > VALUES - reader->used)
		count = VALUES - reader->used;
	memcpy(&reader->values[reader->used], one, count * sizeof(one[0]));
	reader->used += count;
	return (struct redis_value){ .kind = REDIS_KIND_LIST, .count = count,
		.list = &reader->values[reader->used - count] };
}

static void check_texts(const struct cluster_answer *answer) {
	MUST(strlen(answer->text) < sizeof(answer->text));
	for (const char *c = answer->text; *c != '\0'; c++)
		MUST(*c >= ' ' && *c <= '~');
}

static void check_shares(const struct cluster_share *shares, size_t count) {
	for (size_t i = 0; i < count; i++) {
		MUST(shares[i].granted <= CLUSTER_PLACES_MAX);
		MUST(shares[i].fair <= shares[i].leasable);
		MUST(shares[i].leasable <= shares[i].limit);
		MUST(shares[i].free <= shares[i].leasable);
	}
}

static void look(struct cluster_link *link, const struct cluster_sent *sent,
    const struct redis_value *value) {
	struct cluster_look_node nodes[8];
	struct cluster_look_share shares[8];
	struct cluster_answer answer;
	size_t node_count, share_count;

	(void)cluster_look_read(link, sent, value, 5000, &answer, nodes, &node_count, 8, shares,
	    &share_count, 8);
	check_texts(&answer);
	MUST(node_count <= 8 && share_count <= 8);
	for (size_t i = 0; i < share_count; i++)
		MUST(shares[i].pool < sent->pools && shares[i].node < node_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct reader *reader;
	struct cluster_link link = { .node = "mx1", .instance = "i1", .lease_ms = 15000, .nodes = 3,
		.epoch = "aaaa", .token = 1, .sequence = 4, .event = 3, .heard_ms = 900, .life = 2 };
	struct cluster_link before = link;
	struct cluster_sent sent = { .ms = 1000, .token = 1, .epoch = "aaaa" };
	struct cluster_share shares[9];
	struct cluster_answer answer;
	struct redis_value value;
	char *copy;

	if (size < 2)
		return 0;
	copy = malloc(size + 1);
	reader = calloc(1, sizeof(*reader));
	if (copy == NULL || reader == NULL)
		abort();
	memcpy(copy, data, size);
	copy[size] = '\0';
	sent.operation = copy[0] == 'h' ? CLUSTER_HELLO : copy[0] == 's' ? CLUSTER_SHARE :
	    copy[0] == 'f' ? CLUSTER_FORGET : CLUSTER_LOOK;
	sent.pools = (size_t)(unsigned char)copy[1] % 10;
	reader->at = copy + 2;
	reader->end = copy + size;
	value = read_list(reader, 1);
	if (value.count == 1 && value.list[0].kind != REDIS_KIND_TEXT)
		value = value.list[0];
	look(&link, &sent, &value);
	link = before;
	cluster_answer_read(&link, &sent, &value, 5000, &answer, shares);
	check_texts(&answer);
	MUST(answer.share_count <= sent.pools);
	check_shares(shares, answer.share_count);
	MUST(answer.until_ms == 0 || answer.until_ms == 1000 + 12950);
	MUST(link.lease_ms == 15000 && link.nodes == 3);
	if (answer.status == CLUSTER_NONSENSE || answer.status == CLUSTER_REFUSED)
		MUST(memcmp(&link, &before, sizeof(link)) == 0);
	free(reader);
	free(copy);
	return 0;
}
