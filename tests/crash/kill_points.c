/* SPDX-License-Identifier: ISC */
/*
 * Kills a process at the n-th store of its opens and closes, for many random n,
 * while others go on, and compares the counters with the slots after each death.
 *
 *	kill_points [-k KILLS] [-s SEED]
 *
 * Needs a build with failpoints; says so and is skipped otherwise.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "engine/witness.h"
#include "segment/internal.h"
#include "segment/sessions.h"
#include "tests/unit/site.h"

#define SKIPPED 77

#ifdef POSTERN_FAILPOINTS
static struct site site;

#define CLASSES "classes = ( " \
	"{ name = \"a\"; match = [ \"*.a\" ]; sessions = 30; inbound = 30; " \
	"  action = \"defer\"; client = { sessions = 5; rate = \"1000000/1s\"; }; }, " \
	"{ name = \"all\"; match = [ \"*\" ]; sessions = 60; inbound = 60; " \
	"  client = { sessions = 20; ipv4 = 24; }; } );"

static uint32_t draw(uint64_t *state) {
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 32);
}

/* What else happens to a session: recipients, its milter, an outage. */
static void one_more_event(uint64_t *random, struct question *question) {
	struct answer answer;
	struct connection connection = { .client = question->client,
		.client_port = question->client_port,
		.server = question->server, .server_port = 25, .alive = true };

	switch (draw(random) % 4) {
	case 0:
		engine_session_recipient(site.engine, site.generation, question,
		    clock_now_ns(), &answer);
		break;
	case 1:
		question->owner = OWNER_MILTER;
		question->connect_only = true;
		engine_session_open(site.engine, site.generation, question,
		    clock_now_ns(), &answer);
		break;
	case 2:
		(void)engine_session_adopt(site.engine, site.generation,
		    &connection, site.auto_listener, clock_now_ns());
		break;
	default:
		break;
	}
}

static void one_step(uint64_t *random, struct session_ref *held, unsigned *count) {
	struct question question = site_question("192.0.2.1", 1,
	    draw(random) % 2 ? "host.a" : NULL);
	struct answer answer;

	question.client.bytes[15] = (uint8_t)(draw(random) % 20);
	question.client.bytes[14] = (uint8_t)(draw(random) % 3);
	question.client_port = (uint16_t)(1 + draw(random) % 5000);
	engine_session_open(site.engine, site.generation, &question,
	    clock_now_ns(), &answer);
	if (answer.session.slot != 0)
		held[(*count)++] = answer.session;
	one_more_event(random, &question);
	if (*count >= 10 || (*count > 0 && draw(random) % 2 == 0)) {
		unsigned at = draw(random) % *count;

		if (draw(random) % 4 == 0)
			engine_session_ended(site.engine, site.generation, &held[at],
			    OWNER_POLICY, clock_now_ns());
		else
			engine_session_close(site.engine, &held[at],
			    clock_now_ns());
		held[at] = held[--*count];
	}
}

static void work(uint64_t random, unsigned steps) {
	struct session_ref held[16];
	unsigned count = 0;

	for (unsigned i = 0; i < steps; i++)
		one_step(&random, held, &count);
	while (count > 0)
		engine_session_close(site.engine, &held[--count],
		    clock_now_ns());
}

/* Every lock once, so that whatever a dead owner left is repaired. */
static void touch_everything(void) {
	struct segment *segment = site.segment;
	uint32_t seen = 0, all = (UINT32_C(1) << segment->header->shard_count) - 1;

	for (uint16_t port = 1; seen != all; port++) {
		struct session_key key = { .client_port = port };
		struct session_lock lock;

		sessions_aim(segment, &key, 0, &lock);
		if (!sessions_lock(&lock))
			abort();
		seen |= UINT32_C(1) << lock.shard_number;
		sessions_unlock(&lock);
	}
	for (uint16_t i = 0; i < segment->header->record_count; i++) {
		if (!class_lock(segment, i, 0))
			abort();
		class_unlock(segment, i);
	}
	for (seen = 0; seen != all;) {
		static uint8_t byte;
		struct address client = { .bytes = { byte++ } };
		struct client_lock lock;

		if (!client_lock(segment, 0, &client, 128, 0, &lock))
			abort();
		seen |= UINT32_C(1) << lock.shard_number;
		client_unlock(&lock);
	}
}

static void close_everything(void) {
	const struct segment_header *header = site.segment->header;

	for (uint32_t slot = 0; slot < header->shard_count *
	     header->slots_per_shard; slot++) {
		struct session session;
		struct session_ref ref;

		session_load(site.segment, slot, &session);
		ref = (struct session_ref){ .client = session.client,
			.client_port = session.client_port,
			.serial = session.serial, .slot = slot + 1,
			.direction = session.control.direction };
		if (session.control.state != SESSION_FREE)
			engine_session_close(site.engine, &ref, clock_now_ns());
	}
}

static pid_t start(uint64_t random, unsigned steps, uint64_t die_at) {
	pid_t pid = fork();

	if (pid == 0) {
		if (die_at != 0)
			failpoint_arm(die_at);
		work(random, steps);
		_exit(0);
	}
	return pid;
}

static bool died_as_planned(pid_t victim, pid_t other) {
	int status, other_status;

	if (waitpid(victim, &status, 0) != victim ||
	    waitpid(other, &other_status, 0) != other)
		return false;
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
	    WIFEXITED(other_status) && WEXITSTATUS(other_status) == 0;
}

static bool one_kill(uint64_t *random) {
	/* a step passes some forty points: everywhere in the first dozens of steps */
	uint64_t die_at = 1 + draw(random) % 2000;
	uint64_t seeds[2] = { (uint64_t)draw(random) << 8 | 1,
		(uint64_t)draw(random) << 8 | 1 };
	pid_t other = start(seeds[0], 60, 0);
	pid_t victim = start(seeds[1], 1000000, die_at);

	if (other < 0 || victim < 0 || !died_as_planned(victim, other))
		return false;
	touch_everything();
	return site_is_consistent(&site);
}

int main(int argc, char **argv) {
	unsigned kills = 1000, done = 0;
	uint64_t seed = 1, random;
	uint32_t left;
	int option;

	while ((option = getopt(argc, argv, "k:s:")) != -1) {
		if (option == 'k')
			kills = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 's')
			seed = strtoull(optarg, NULL, 10);
		else
			return 2;
	}
	random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	/* room enough that clients are counted, little enough that it fills */
	site_open(&site, 400, CLASSES);
	while (done < kills && one_kill(&random)) {
		done++;
		if (done % 50 == 0)
			close_everything();
	}
	close_everything();
	left = atomic_load(&site_class(&site, "a")->open) +
	    atomic_load(&site_class(&site, "all")->open);
	printf("kills %u of %u, repairs %llu, left %u, seed %llu\n", done, kills,
	    (unsigned long long)atomic_load(&site.segment->header->counters[
		COUNTER_REPAIRS]), left, (unsigned long long)seed);
	site_close(&site);
	printf("%s\n", done == kills && left == 0 ? "ok" : "FAILED");
	return done == kills && left == 0 ? 0 : 1;
}
#else
int main(void) {
	printf("skipped: not built with --enable-failpoints\n");
	return SKIPPED;
}
#endif
