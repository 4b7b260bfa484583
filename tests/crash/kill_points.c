/* SPDX-License-Identifier: ISC */
/*
 * Kills a process at the n-th store of its opens and closes, inbound and outbound,
 * and of what it notes of destinations, for many random n, while others go on.  After
 * each death the counters are compared with the slots, no entry of a destination, its
 * state, its reason or a recipient may be half of one and half of another, what is in
 * flight is what is counted, and of a shared limit no more is used than was granted.
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
#include "engine/session/witness.h"
#include "segment/destination/destinations.h"
#include "segment/file/feed_position.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "segment/decision/decisions.h"
#include "tests/crash/kill_points.h"
#include "tests/unit/site.h"

#define SKIPPED 77

struct site site;

#ifdef POSTERN_FAILPOINTS
#define CLASSES "cluster = { redis = \"unix:/nowhere\"; node = \"a\"; nodes = 3; }; " \
	"classes = ( " \
	"{ name = \"s\"; match = [ \"*.s\" ]; hold_at = 20; refuse_at = 30; " \
	"  scope = \"cluster\"; }, " \
	"{ name = \"a\"; match = [ \"*.a\", \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" ]; " \
	"  hold_at = 30; refuse_at = 30; " \
	"  action = \"defer\"; client = { sessions = 5; rate = \"1000000/1s\"; }; }, " \
	"{ name = \"all\"; match = [ \"*\" ]; hold_at = 60; refuse_at = 60; " \
	"  client = { sessions = 20; ipv4 = 24; }; } );"

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


static unsigned my_log;	/* a position has one writer */

/* Both halves of a relay's address tell its number, and one the name. */
static struct address relay_of(unsigned name, unsigned relay) {
	return (struct address){ .bytes = { 0x20, [7] = (uint8_t)relay,
		[13] = (uint8_t)(name / 256), [14] = (uint8_t)name,
		[15] = (uint8_t)relay } };
}

/* Relays are named by one letter repeated. */
static bool note_delivery(unsigned name, unsigned relay, unsigned letter,
    uint8_t mta) {
	static const char letters[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
	char text[32];
	struct delivery_seen seen = { .name = text, .mta = mta,
		.cloned = letter != 0, .relay_name = letters + 32 * letter,
		.relay_name_length = 32 + 16 * letter };

	seen.name_length = (size_t)snprintf(text, sizeof(text),
	    "name%u.example", name);
	seen.relay = relay_of(name, relay);
	return destinations_note(site.segment, &seen, clock_now_ns());
}

static void learn_something(uint64_t *random) {
	struct feed_position position = { .log = 1, .device = draw(random) };
	uint32_t record;

	(void)note_delivery(draw(random) % NAMES, draw(random) % 5,
	    draw(random) % 2, (uint8_t)(draw(random) % 8));
	states_step(random);
	/* as the feed, positions have one writer: two took the same free record; so has a
	 * share */
	if (!my_log)
		return;
	for (unsigned turns = draw(random) % 8; turns > 0; turns--)
		shares_step(random);
	told_step(random);
	/* whatever comes back is of one file */
	position.inode = ~position.device;
	position.spot.offset = position.device & FEED_OFFSET_MAX;
	record = feed_position_begin(site.segment, &position);
	if (draw(random) % 4 == 0)
		feed_position_cut(site.segment, record);
	else
		feed_position_move(site.segment, record, &position.spot);
	if (draw(random) % 4 == 0)
		feed_position_forget(site.segment, record);
}

#define PROCESSES 4	/* that deliver */
#define CONNECTIONS 6	/* outbound, in a dump */

static struct outbound_process *processes[PROCESSES];

/* Both workers are asked for the same processes, as when a role has died. */
static void ask_or_end(uint64_t *random) {
	const struct process_identity identity = { .pid =
		(int32_t)(1 + draw(random) % PROCESSES), .start_ticks = 7 };
	struct outbound_process **process = &processes[identity.pid - 1];
	char host[] = "name0.example";
	struct outbound_question question = { .destination = host,
		.destination_length = strlen(host), .mta = UINT8_MAX };
	unsigned name = draw(random) % 3;
	struct outbound_answer answer;

	host[4] = (char)('0' + name);
	if (*process == NULL)
		*process = outbound_process_open(site.engine, &identity);
	if (draw(random) % 4 == 0) {
		outbound_process_close(process, site.generation, clock_now_ns());
		return;
	}
	if (draw(random) % 2 == 0) {
		question.stage = OUTBOUND_CONNECTED;
		question.server = relay_of(name, draw(random) % 2);
	}
	outbound_process_ask(*process, site.generation, &question,
	    clock_now_ns(), &answer);
}

static enum lookup_result look_up(void *context, const struct connection *which,
    struct connection *found) {
	(void)context;
	(void)found;
	return which->outbound ? LOOKUP_GONE : LOOKUP_UNKNOWN;
}

/* Connections come and go, and the names of their relays change. */
static void dump(struct witness *witness, uint64_t *random) {
	struct connection list[CONNECTIONS];
	uint32_t sequence = witness_dump_begin(witness);
	size_t count = draw(random) % (CONNECTIONS + 1);

	for (unsigned i = 0; i < 2; i++)
		(void)note_delivery(i, draw(random) % 2, draw(random) % 2, 0);
	for (size_t i = 0; i < count; i++)
		list[i] = (struct connection){ .client = { .bytes = { 0xfd } },
			.client_port = (uint16_t)(1 + draw(random) % CONNECTIONS),
			.server = relay_of((unsigned)i % 2, draw(random) % 2),
			.server_port = 25, .alive = true, .outbound = true };
	witness_dump_end(witness, site.generation, sequence, list, count,
	    clock_now_ns());
}

struct check {
	unsigned count;
	bool whole;
};

static void check_destination(void *context, const struct destination_seen *seen) {
	struct destination_seen again;
	struct check *check = context;
	unsigned name;

	check->count++;
	if (sscanf(seen->name, "name%u.example", &name) != 1) {
		check->whole = false;
		return;
	}
	for (unsigned i = 0; i < seen->relay_count; i++) {
		struct address wanted = relay_of(name, seen->relays[i].bytes[15]);

		check->whole &= address_equal(&seen->relays[i], &wanted);
		for (unsigned k = 0; k < i; k++)
			check->whole &= !address_equal(&seen->relays[i],
			    &seen->relays[k]);
	}
	check->whole &= destinations_find(site.segment, seen->name,
	    strlen(seen->name), &again);
}

static bool relays_are_whole(void) {
	for (unsigned i = 0; i < NAMES * 5; i++) {
		struct address relay = relay_of(i / 5, i % 5);
		char name[SEGMENT_NAME_MAX + 1];

		if (relays_find(site.segment, &relay, name) &&
		    !(strspn(name, "a") == 32 && name[32] == '\0') &&
		    !(strspn(name, "b") == 48 && name[48] == '\0'))
			return false;
	}
	return true;
}

static bool positions_are_whole(void) {
	for (uint64_t log = 1; log <= SEGMENT_MTAS; log++) {
		struct feed_position p[FEED_FILES_MAX];
		uint32_t records[FEED_FILES_MAX];
		unsigned count = feed_positions(site.segment, log, p, records);

		for (unsigned i = 0; i < count; i++)
			if (p[i].inode != ~p[i].device || (p[i].spot.offset != 0 &&
			    p[i].spot.offset != (p[i].device & FEED_OFFSET_MAX)) ||
			    (i > 0 && p[i].rank <= p[i - 1].rank))
				return false;
	}
	return true;
}

/* What was noted of sessions names one of our classes, or none; of destinations what a state
 * can be. */
static bool decisions_are_whole(void) {
	struct decided d;

	for (unsigned ring = 0; ring < DECIDED_RINGS; ring++) {
		struct decisions_cursor cursor = { .begun = false };
		uint64_t lost = 0;

		while (decisions_next(site.segment, (enum decided_ring)ring, &cursor, 0, &d,
		    NULL, &lost)) {
			const char *class = decided_text(&d, DECIDED_CLASS);

			if (!decided_is_sound(&d) || (class[0] != '\0' &&
			    strcmp(class, "a") != 0 && strcmp(class, "all") != 0 &&
			    strcmp(class, "s") != 0))
				return false;
		}
	}
	return true;
}

/* What a reader sees; `used` of both tables comes out too. */
static bool learned_is_whole(unsigned *listed) {
	struct check check = { 0, true };

	destinations_each(site.segment, check_destination, &check);
	*listed = check.count;
	return check.whole && decisions_are_whole() && states_are_whole() && told_is_whole() &&
	    relays_are_whole() && positions_are_whole();
}

/* The slots in use are those that have a tag, and as many as are counted. */
static bool places_add_up(const struct table_place *place, size_t slot_bytes) {
	const char *base = (const char *)site.segment->header;
	const struct shard *shards = (const void *)(base + place->shards_offset);
	const struct tag_line *lines = (const void *)(base + place->tags_offset);

	for (uint32_t i = 0; i < place->shards; i++) {
		uint32_t used = 0;

		for (uint32_t k = 0; k < place->per_shard; k++) {
			const char *slot = base + place->slots_offset +
			    ((size_t)i * place->per_shard + k) * slot_bytes;
			uint32_t bucket = k / place->places_per_bucket;
			bool has_tag = lines[i * place->buckets_per_shard + bucket]
			    .tag[k % place->places_per_bucket] != 0;

			if (has_tag != (slot[0] != 0))
				return false;
			used += has_tag;
		}
		if (used != atomic_load(&shards[i].used) || atomic_load(&shards[i].seq) % 2 != 0)
			return false;
	}
	return true;
}

/* First as it was left, then repaired by whoever comes next. */
static bool check_learned(void) {
	uint64_t known, relays;
	unsigned listed;

	if (!learned_is_whole(&listed))
		return false;
	for (unsigned i = 0; i < NAMES; i++) {
		if (!note_delivery(i, i % 5, 0, 0))
			return false;
	}
	destinations_used(site.segment, &known,
	    &relays);
	return learned_is_whole(&listed) && listed == known && states_add_up() &&
	    places_add_up(&site.segment->header->destinations,
		sizeof(struct destination)) &&
	    places_add_up(&site.segment->header->recipients,
		sizeof(struct recipient)) &&
	    places_add_up(&site.segment->header->relays, sizeof(struct relay));
}

static void one_step(uint64_t *random, struct session_ref *held, unsigned *count) {
	struct question question = site_question("192.0.2.1", 1,
	    draw(random) % 2 ? "host.a" : NULL);
	struct answer answer;

	if (draw(random) % 4 == 0)
		question = site_question("192.0.2.1", 1, "host.s");
	question.client.bytes[15] = (uint8_t)(draw(random) % 20);
	question.client.bytes[14] = (uint8_t)(draw(random) % 3);
	question.client_port = (uint16_t)(1 + draw(random) % 5000);
	engine_session_open(site.engine, site.generation, &question,
	    clock_now_ns(), &answer);
	if (answer.session.slot != 0)
		held[(*count)++] = answer.session;
	one_more_event(random, &question);
	learn_something(random);
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
	const struct witness_calls calls = { .lookup = look_up };
	struct session_ref held[16];
	struct witness *witness;
	unsigned count = 0;
	struct diag diag;

	if (witness_open(&witness, site.engine, &calls, 16, &diag) != 0)
		abort();
	for (unsigned i = 0; i < steps; i++) {
		one_step(&random, held, &count);
		ask_or_end(&random);
		if (draw(&random) % 4 == 0)
			dump(witness, &random);
	}
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

		client_aim(segment, 0, &client, 128, 0, &lock);
		if (!client_lock(&lock))
			abort();
		seen |= UINT32_C(1) << lock.key.shard;
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
		my_log = die_at != 0;
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
	/* a step passes some hundred points: everywhere in the first dozens of steps */
	uint64_t die_at = 1 + draw(random) % 3000;
	uint64_t seeds[2] = { (uint64_t)draw(random) << 8 | 1,
		(uint64_t)draw(random) << 8 | 1 };
	pid_t other = start(seeds[0], 60, 0);
	pid_t victim = start(seeds[1], 1000000, die_at);

	if (other < 0 || victim < 0 || !died_as_planned(victim, other))
		return false;
	touch_everything();
	if (!shares_are_covered())
		return false;
	if (!check_learned()) {
		fprintf(stderr, "a destination, a relay, a recipient or a log position is torn\n");
		return false;
	}
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
	shares_begin();
	while (done < kills && one_kill(&random)) {
		done++;
		if (done % 50 == 0)
			close_everything();
	}
	close_everything();
	left = atomic_load(&site_class(&site, "s")->open) +
	    atomic_load(&site_class(&site, "a")->open) +
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
