/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Run the gate's command.
 * MODEL    What is wanted last is run next, so that no queue can grow.
 * ERRORS   A command that fails, cannot be run or is killed is logged with what it
 *          said; nothing else comes of it.  The keeper asks again while the gate
 *          is shut, and what is not said again opens by itself.
 * THREADS  The supervisor's.
 */
#include "role/supervise/gate_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#define LIFE_NS		(2 * NS_PER_SECOND)
#define APART_NS	NS_PER_SECOND
#define PORTS_TEXT	(2 * GENERATION_PORTS_MAX * (int)sizeof("65535"))
#define WORDS		(sizeof(((struct generation *)0)->gate_words) / sizeof(uint32_t))

static const char *word_text(enum gate_word word) {
	return word == GATE_WORD_SHUT ? "shut" : "open";
}

void gate_command_want(struct supervisor *supervisor, enum gate_word word) {
	supervisor->gate.wanted = word;
}

static size_t add_port(char *text, size_t length, uint16_t port) {
	char word[8];
	size_t i = 0, digits;

	snprintf(word, sizeof(word), "%u", port);
	digits = strlen(word);
	while (i < length) {
		size_t end = i + strcspn(text + i, " ");

		if (end - i == digits && memcmp(text + i, word, digits) == 0)
			return length;
		i = end + (text[end] == ' ');
	}
	return text_append(text, PORTS_TEXT, length, "%s%s",
	    length == 0 ? "" : " ", word);
}

/* Service ports: those that are watched and those that classes name. */
static void write_ports(const struct generation *generation, char *text) {
	size_t length = 0;
	uint32_t i;

	text[0] = '\0';
	for (i = 0; i < generation->witness_port_count; i++)
		length = add_port(text, length, generation->witness_ports[i]);
	for (i = 0; i < generation->port_count; i++)
		length = add_port(text, length, generation->ports[i]);
}

static void gate_ended(void *owner, struct subprocess *child, const struct subprocess_end *end) {
	const struct gate_command *gate = owner;
	char text[SUBPROCESS_END_TEXT_MAX];

	(void)child;
	if (end->status != 0)
		log_event(EVENT_GATE_COMMAND, "word=%s %s", word_text(gate->last),
		    subprocess_end_text(end, text));
}

static const struct subprocess_calls gate_calls = { .ended = gate_ended };

static int gate_run(struct supervisor *supervisor, enum gate_word word, int64_t now_ns) {
	const struct generation *generation = supervisor->generation;
	struct gate_command *gate = &supervisor->gate;
	const char *arguments[WORDS + 1] = { NULL };
	char ports[PORTS_TEXT];
	char *variables[4] = { NULL };
	const struct subprocess_program line = { .arguments = arguments,
		.variables = (const char *const *)variables, .life_ns = LIFE_NS,
		.stdout_fd = SUBPROCESS_KEPT, .stderr_fd = SUBPROCESS_KEPT,
		.list = &supervisor->programs, .calls = &gate_calls, .owner = gate };
	uint32_t i;
	int result = -1;

	for (i = 0; i < generation->gate_word_count; i++)
		arguments[i] = generation_text(generation,
		    generation->gate_words[i]);
	arguments[i] = word_text(word);
	write_ports(generation, ports);
	if (asprintf(&variables[0], "POSTERN_GATE_PORTS=%s", ports) >= 0 &&
	    asprintf(&variables[1], "POSTERN_GATE_EXEMPT4=%s",
		generation_text(generation, generation->gate_exempt4)) >= 0 &&
	    asprintf(&variables[2], "POSTERN_GATE_EXEMPT6=%s",
		generation_text(generation, generation->gate_exempt6)) >= 0)
		result = subprocess_start(&gate->child, &line, now_ns);
	else
		errno = ENOMEM;
	for (i = 0; i < 3; i++)
		free(variables[i]);
	return result;
}

static void gate_start(struct supervisor *supervisor, int64_t now_ns) {
	struct gate_command *gate = &supervisor->gate;
	enum gate_word word = gate->wanted;

	gate->wanted = GATE_WORD_NONE;
	gate->started_ns = now_ns;
	if (word != gate->last)
		gate->changed_ns = now_ns;
	gate->last = word;
	if (gate_run(supervisor, word, now_ns) != 0)
		log_event(EVENT_GATE_COMMAND, "word=%s text=\"cannot start: %s\"",
		    word_text(word), strerror(errno));
}

static int64_t due_ns(const struct gate_command *gate) {
	return APART_NS + (gate->wanted != gate->last ? gate->changed_ns
						      : gate->started_ns);
}

void gate_command_turn(struct supervisor *supervisor, int64_t now_ns) {
	struct gate_command *gate = &supervisor->gate;

	if (supervisor->generation->gate_word_count == 0)
		gate->wanted = GATE_WORD_NONE;
	if (gate->child.pid != 0)
		return;
	if (gate->wanted != GATE_WORD_NONE && due_ns(gate) <= now_ns)
		gate_start(supervisor, now_ns);
}

int64_t gate_command_next_ns(const struct supervisor *supervisor) {
	const struct gate_command *gate = &supervisor->gate;

	return gate->child.pid != 0 || gate->wanted == GATE_WORD_NONE ? INT64_MAX : due_ns(gate);
}
