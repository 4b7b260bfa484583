/* SPDX-License-Identifier: ISC */
#include "tests/crash/journal_oracle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const oracle_verdict_words[ORACLE_VERDICTS] = {
	[ORACLE_ALLOWED] = "allowed",
	[ORACLE_LOST] = "lost though it was synced",
	[ORACLE_CAME_BACK] = "came back though it was finished",
	[ORACLE_FORGOTTEN] = "a synced delivery is forgotten",
	[ORACLE_INVENTED] = "invented",
};

void oracle_close(struct oracle *oracle) {
	for (unsigned i = 0; i < ORACLE_MESSAGES; i++)
		free(oracle->messages[i].steps);
	memset(oracle, 0, sizeof(*oracle));
}

void oracle_copy(struct oracle *to, const struct oracle *from) {
	*to = *from;
	for (unsigned i = 0; i < ORACLE_MESSAGES; i++) {
		const struct oracle_message *message = &from->messages[i];
		struct oracle_step *steps = calloc(message->count, sizeof(*steps));

		if (steps == NULL)
			abort();
		memcpy(steps, message->steps, message->count * sizeof(*steps));
		to->messages[i].steps = steps;
		to->messages[i].room = message->count;
	}
}

struct oracle_state oracle_newest(const struct oracle *oracle, unsigned number) {
	const struct oracle_message *message = &oracle->messages[number];

	return message->steps[message->count - 1].state;
}

/* The steps before the last acknowledged one are no longer allowed. */
static void forget_old(struct oracle_message *message, uint64_t synced) {
	size_t first = 0;

	for (size_t i = 0; i < message->count; i++)
		if (message->steps[i].sequence <= synced)
			first = i;
	if (first > 0)
		memmove(message->steps, message->steps + first,
		    (message->count - first) * sizeof(*message->steps));
	message->count -= first;
}

static void note(struct oracle *oracle, unsigned number, uint64_t sequence,
    const struct oracle_state *state) {
	struct oracle_message *message = &oracle->messages[number];

	forget_old(message, oracle->synced);
	if (message->count == message->room) {
		message->room = 2 * message->room + 4;
		message->steps = realloc(message->steps,
		    message->room * sizeof(*message->steps));
		if (message->steps == NULL)
			abort();
	}
	message->steps[message->count++] = (struct oracle_step){ .sequence = sequence,
		.state = *state };
}

void oracle_begin(struct oracle *oracle, unsigned number, const struct oracle_state *state) {
	note(oracle, number, UINT64_MAX, state);
}

void oracle_end(struct oracle *oracle, unsigned number, uint64_t sequence) {
	struct oracle_message *message = &oracle->messages[number];

	if (sequence != 0)
		message->steps[message->count - 1].sequence = sequence;
}

void oracle_open(struct oracle *oracle) {
	memset(oracle, 0, sizeof(*oracle));
	for (unsigned i = 0; i < ORACLE_MESSAGES; i++)
		note(oracle, i, 0, &(struct oracle_state){ 0 });
}

void oracle_synced(struct oracle *oracle, uint64_t sequence) {
	if (sequence <= oracle->synced || oracle->forgets_nothing)
		return;
	oracle->synced = sequence;
	for (unsigned i = 0; i < ORACLE_MESSAGES; i++)
		forget_old(&oracle->messages[i], sequence);
}

void oracle_forsake(struct oracle *oracle) {
	for (unsigned i = 0; i < ORACLE_MESSAGES; i++)
		for (size_t k = 0; k < oracle->messages[i].count; k++)
			if (oracle->messages[i].steps[k].sequence > oracle->synced)
				oracle->messages[i].steps[k].sequence = UINT64_MAX;
}

unsigned oracle_left(const struct oracle_state *state) {
	unsigned left = state->unread;

	for (unsigned i = 0; i < ORACLE_GROUPS; i++)
		left += state->left[i];
	return left;
}

static bool same(const struct oracle_state *one, const struct oracle_state *other) {
	/* a message without recipients is none */
	if (oracle_left(one) == 0 || oracle_left(other) == 0)
		return oracle_left(one) == oracle_left(other);
	return one->generation == other->generation && one->unread == other->unread &&
	    memcmp(one->left, other->left, sizeof(one->left)) == 0;
}

enum oracle_verdict oracle_judge(const struct oracle *oracle, unsigned number,
    const struct oracle_state *state) {
	const struct oracle_message *message = &oracle->messages[number];
	const struct oracle_state *base = &message->steps[0].state;

	for (size_t i = 0; i < message->count; i++)
		if (same(&message->steps[i].state, state))
			return ORACLE_ALLOWED;
	if (oracle_left(state) == 0)
		return ORACLE_LOST;
	if (oracle_left(base) == 0)
		return ORACLE_CAME_BACK;
	if (state->generation < base->generation)
		return ORACLE_LOST;
	if (state->generation == base->generation &&
	    oracle_left(state) > oracle_left(base))
		return ORACLE_FORGOTTEN;
	return ORACLE_INVENTED;
}

bool oracle_is_mixture(const struct oracle *oracle, unsigned number,
    const struct oracle_state *state) {
	const struct oracle_message *message = &oracle->messages[number];
	struct oracle_state least = { .generation = 0 }, most = { .generation = 0 };

	for (size_t i = 0; i < message->count; i++) {
		const struct oracle_state *one = &message->steps[i].state;

		if (one->generation != state->generation || one->unread != state->unread)
			continue;
		if (most.generation == 0)
			least = most = *one;
		for (unsigned k = 0; k < ORACLE_GROUPS; k++) {
			if (one->left[k] < least.left[k])
				least.left[k] = one->left[k];
			if (one->left[k] > most.left[k])
				most.left[k] = one->left[k];
		}
	}
	for (unsigned k = 0; k < ORACLE_GROUPS; k++)
		if (state->left[k] < least.left[k] || state->left[k] > most.left[k])
			return false;
	return most.generation != 0 || state->generation == 0;
}

void oracle_found(struct oracle *oracle, unsigned number, uint64_t sequence,
    const struct oracle_state *state) {
	struct oracle_message *message = &oracle->messages[number];

	/* nothing of these is durable by itself any more: all of them, or the new one */
	for (size_t i = 0; i < message->count; i++)
		message->steps[i].sequence = i == 0 ? 0 : UINT64_MAX;
	note(oracle, number, sequence, state);
}

void oracle_settle(struct oracle *oracle, unsigned number, const struct oracle_state *state) {
	oracle->messages[number].count = 0;
	note(oracle, number, 0, state);
}

void oracle_print_state(const struct oracle_state *state) {
	if (state->generation == 0)
		fputs("none", stderr);
	else
		fprintf(stderr, "envelope %" PRIu32 ", left", state->generation);
	for (unsigned i = 0; i < ORACLE_GROUPS && state->generation != 0; i++)
		fprintf(stderr, " %u", state->left[i]);
	if (state->unread)
		fprintf(stderr, " and unread ones (%u)", state->unread);
}

void oracle_print(const struct oracle *oracle, unsigned number) {
	const struct oracle_message *message = &oracle->messages[number];

	for (size_t i = 0; i < message->count; i++) {
		fprintf(stderr, "    sequence %" PRIu64 ": ", message->steps[i].sequence);
		oracle_print_state(&message->steps[i].state);
		fputc('\n', stderr);
	}
	fprintf(stderr, "    synced up to %" PRIu64 "\n", oracle->synced);
}
