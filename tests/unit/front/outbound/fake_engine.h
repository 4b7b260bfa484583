/* SPDX-License-Identifier: ISC */
/* An engine that answers what the test tells it and remembers what it was asked;
 * included by one test program, in place of the real one.  Its generation has two
 * classes: "plain" (421) and "soft" (defer). */
#ifndef TESTS_UNIT_FAKE_ENGINE_H
#define TESTS_UNIT_FAKE_ENGINE_H

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "config/generation/generation.h"
#include "engine/engine.h"
#include "engine/destination/windows.h"

#define FAKE_TEXT_MAX 1024

static struct fake_generation {
	struct generation generation;
	struct generation_class classes[2];
	struct generation_rule rules[2];
	char text[FAKE_TEXT_MAX];
} fake_block;

struct engine {
	struct answer next;		/* of the next question */
	struct question asked;		/* the last one */
	char name[256];			/* its name, "" for none */
	unsigned opens, recipients, ended, closed, heartbeats;
	struct session_ref last_ended, last_closed;
	struct session_ref orphan;	/* what engine_session_kept gives */
	uint64_t counted[COUNTER_COUNT];
	unsigned timed[TIMING_KINDS];
	int pins;
	uint16_t serial;
	bool keeper_is_busy;
	int nudge_fd;			/* of the supervisor's nudges; -1: there are none */
};

static struct engine fake;

static uint32_t fake_text(size_t *used, const char *text) {
	size_t at = *used;

	memcpy(fake_block.text + at, text, strlen(text) + 1);
	*used += strlen(text) + 1;
	return (uint32_t)(offsetof(struct fake_generation, text) + at);
}

static void fake_reset(void) {
	static uint64_t number;
	struct generation *g = &fake_block.generation;
	size_t used = 1;

	memset(&fake, 0, sizeof(fake));
	fake.nudge_fd = -1;
	memset(&fake_block, 0, sizeof(fake_block));
	g->bytes = sizeof(fake_block);
	g->number = ++number;
	g->class_count = g->rule_count = 2;
	g->classes = offsetof(struct fake_generation, classes);
	g->rules = offsetof(struct fake_generation, rules);
	g->policy_connections = 8;
	fake_block.classes[0].name = fake_text(&used, "plain");
	fake_block.classes[0].text = fake_text(&used, "Too many of you");
	fake_block.classes[1].name = fake_text(&used, "soft");
	fake_block.classes[1].action = CLASS_ACTION_DEFER;
	fake_block.classes[1].retry_s = 90;
	for (uint32_t i = 0; i < 2; i++) {
		fake_block.rules[i].class_index = i;
		fake_block.rules[i].file = fake_text(&used, "/etc/postern/postern.conf");
		fake_block.rules[i].line = 14 + i;
		fake_block.rules[i].text = fake_text(&used, "*");
	}
	fake.next.newly_decided = true;
	fake.next.class_index = fake.next.rule = CLASS_NO_RULE;
}

/* What the next questions are answered, out of class `class_index`. */
static inline void fake_answer(enum verdict verdict, enum reason reason, uint32_t class_index) {
	fake.next.decision = (struct decision){ .verdict = verdict, .reason = reason,
	    .count = 80, .limit = 80 };
	fake.next.class_index = fake.next.rule = class_index;
	fake.next.id = verdict == VERDICT_ADMIT ? 0 : 28;
}

static void fake_question(struct engine *engine, const struct question *question,
    struct answer *answer) {
	engine->asked = *question;
	snprintf(engine->name, sizeof(engine->name), "%.*s", (int)question->name_length,
	    question->name == NULL ? "" : question->name);
	*answer = engine->next;
	answer->session = (struct session_ref){ .client = question->client,
	    .client_port = question->client_port, .serial = ++engine->serial, .slot = 7 };
}

const struct generation *engine_pin(struct engine *engine) {
	engine->pins++;
	return &fake_block.generation;
}

void engine_unpin(struct engine *engine, const struct generation *generation) {
	(void)generation;
	engine->pins--;
}

const struct generation *engine_pin_newer(struct engine *engine,
    const struct generation *held) {
	return held != NULL ? held : engine_pin(engine);
}

void engine_session_open(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t now_ns, struct answer *answer) {
	(void)now_ns;
	if (question->over != NULL && question->over->slot != 0)
		engine_session_ended(engine, generation, question->over, question->owner, now_ns);
	engine->opens++;
	fake_question(engine, question, answer);
}

void engine_session_recipient(struct engine *engine, const struct generation *generation,
    const struct question *question, int64_t now_ns, struct answer *answer) {
	(void)generation, (void)now_ns;
	engine->recipients++;
	fake_question(engine, question, answer);
}

bool windows_press_back(struct engine *engine, const struct generation *generation,
    const struct question *question, uint32_t class_index, const char *recipient,
    size_t length, int64_t now_ns, struct window_pressure *out) {
	static const char domain[] = "@suspended.example";
	size_t end = sizeof(domain) - 1;

	(void)engine, (void)generation, (void)question, (void)class_index, (void)now_ns;
	*out = (struct window_pressure){ .owner.name = "suspended.example",
		.for_ns = 1000000000, .id = 28 };
	return length > end && memcmp(recipient + length - end, domain, end) == 0;
}

void engine_session_ended(struct engine *engine, const struct generation *generation,
    const struct session_ref *session, enum session_owner owner, int64_t now_ns) {
	(void)generation, (void)owner, (void)now_ns;
	engine->ended++;
	engine->last_ended = *session;
}

void engine_session_close(struct engine *engine, const struct session_ref *session,
    int64_t now_ns) {
	(void)now_ns;
	engine->closed++;
	engine->last_closed = *session;
}

uint32_t engine_peer_socket(struct engine *engine, int fd) {
	(void)engine, (void)fd;
	return 4711;
}

void engine_owner_proof(struct engine *engine, const struct generation *generation,
    struct question *question, int fd) {
	(void)engine, (void)generation;
	question->owner_socket = fd < 0 ? 0 : 4711;
}

void engine_session_kept(struct engine *engine, const struct question *question,
    int64_t now_ns, struct session_ref *session) {
	(void)question, (void)now_ns;
	*session = engine->orphan;
}

void engine_decision_logged(struct engine *engine, uint64_t id) {
	(void)engine, (void)id;
}

void engine_count(struct engine *engine, enum counter counter, uint64_t amount) {
	engine->counted[counter] += amount;
}

int64_t engine_timed(struct engine *engine, enum timing_kind kind, unsigned count,
    int64_t began_ns) {
	(void)began_ns;
	engine->timed[kind] += count;
	return clock_now_ns();
}

bool engine_is_at_rest(const struct engine *engine) {
	return !engine->keeper_is_busy;
}

int engine_nudge_fd(const struct engine *engine) {
	return engine->nudge_fd;
}

void engine_heartbeat(struct engine *engine, int64_t now_ns) {
	(void)now_ns;
	engine->heartbeats++;
}

#endif
