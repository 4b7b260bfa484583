/* SPDX-License-Identifier: ISC */
/*
 * A ceiling that three machines divide, in virtual time: two Postfixes by lanes, and a Sendmail
 * by its questions, with mail that comes and goes.  Real are what the cluster role does with
 * ceilings, windows, hints and what hands out mail that was kept; of the test's own are queue
 * managers, queue runs, and the server (lease_server.h).  Roles begin anew, answers are lost.
 * No more run than the ceiling, and no machine's mail waits for long.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/test.h"
#include "base/clock.h"
#include "base/process.h"
#include "config/compile/compile.h"
#include "engine/hints/hints.h"
#include "engine/internal.h"
#include "engine/cluster/knowledge.h"
#include "engine/requeue/requeue.h"
#include "engine/destination/windows.h"
#include "segment/destination/destinations.h"
#include "segment/hints/hints.h"
#include "segment/hints/lane_uses.h"
#include "segment/destination/shared.h"
#include "segment/destination/states.h"
#include "tests/sim/lease_server.h"
#include "tests/unit/random.h"
#include "tests/unit/site.h"

#define NODES		LEASE_NODES
#define SENDMAIL	1		/* this one; the others are Postfixes */
#define STEP_NS		(20 * NS_PER_MS)
#define TURN_NS		(100 * NS_PER_MS)
#define LEASE_NS	(15 * NS_PER_SECOND)
#define USE_NS		(LEASE_NS - 700 * NS_PER_MS)
#define MAILS		64		/* that a node has at once */
#define LANES		8
#define RUNS		3		/* queue runs of Sendmail at once */
#define NAME		"limited.example"
#define REMEMBERED_NS	(30 * NS_PER_SECOND)

#define CONFIGURATION "classes = ( { name = \"c\"; match = \"*\"; } );\n" \
    "cluster = { redis = \"unix:/run/redis\"; node = \"a\"; nodes = 3; lease = \"15s\"; };\n" \
    "window = { canary = \"30d\"; canary_most = \"30d\"; };\n" \
    "outbound = { observe = false; requeue_rate = \"1000/1s\"; };\n"

enum mail_state { MAIL_NONE, MAIL_NEW, MAIL_IN_LANE, MAIL_RUNS, MAIL_KEPT, MAIL_ENDED };

struct mail {
	enum mail_state state;
	uint32_t number;
	uint32_t lane;			/* width */
	int64_t came_ns, due_ns, placed_ns, began_ns, ends_ns;
	bool held;			/* its result is that of a hint */
};

struct run {
	struct windows_places *places;
	struct mail *mail;
	int64_t again_ns;
};

struct node {
	unsigned number;
	struct site site;
	char file[160], facts[160];
	struct knowledge_store *store;
	struct engine_hints *hints;
	struct hints_reader *reader;
	struct requeue *requeue;
	struct mail mails[MAILS];
	uint32_t numbers;
	uint32_t remembered;		/* the mail whose address was asked about last, */
	int64_t remembered_ns;
	struct hints_answer answer;	/* and what was said */
	struct run runs[RUNS];
	int64_t turn_ns, called_ns, opened_ns;
	/* a call that is out */
	bool out, lost;
	int64_t sent_ns, arrives_ns, answers_ns;
	struct knowledge_pool pool;
	struct lease_answer said;
	uint32_t delivered;
	int64_t slowest_ns;
};

static struct world {
	struct random random;
	struct lease_server server;
	struct node nodes[NODES];
	uint32_t ceiling, open, most;
	uint32_t above;			/* deliveries that began above the ceiling */
	int64_t now_ns;
} world;

/* --- set-up ------------------------------------------------------------------------------ */

static const struct generation *generation_of(const struct node *node) {
	return node->site.generation;
}

static void write_file(const char *path, const char *text) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void publish(struct node *node) {
	struct config_messages messages;
	struct generation *generation;
	char text[2048], mta[256];
	struct diag diag;

	write_file(node->facts, "postern-site 1\nmta out\nclone-limit 20\nlane 1\nlane 2\n"
	    "lane 3\nlane 5\n");
	if (node->number == SENDMAIL)
		snprintf(mta, sizeof(mta), "kind = \"sendmail\"; log = \"\";");
	else
		snprintf(mta, sizeof(mta), "kind = \"postfix\"; site = \"%s\";", node->facts);
	snprintf(text, sizeof(text), "version = 1; state = { path = \"%s/state\"; "
	    "sessions = \"1k\"; };\n" CONFIGURATION "mta = ( { name = \"out\"; %s } );\n",
	    node->site.directory, mta);
	write_file(node->file, text);
	generation = config_compile(node->file, &messages);
	if (generation == NULL)
		fail_msg("%s", messages.list[0].text);
	config_messages_free(&messages);
	assert_int_equal(segment_publish(node->site.segment, generation, &diag), 0);
	free(generation);
	engine_unpin(node->site.engine, node->site.generation);
	node->site.generation = engine_pin(node->site.engine);
}

static void open_store(struct node *node) {
	static const char *const names[NODES] = { "a", "b", "c" };
	struct diag diag;

	assert_int_equal(knowledge_open(&node->store, node->site.engine, names[node->number],
	    &diag), 0);
	knowledge_begin_hearing(node->store);
	knowledge_heard_all(node->store, true, world.now_ns);
	node->out = false;
	node->called_ns = 0;
	node->opened_ns = world.now_ns;
}

static bool flush(void *context, unsigned mta, const char *queue_id) {
	struct node *node = context;
	uint32_t number = (uint32_t)strtoul(queue_id, NULL, 16);

	(void)mta;
	for (unsigned i = 0; i < MAILS; i++)
		if (node->mails[i].state == MAIL_KEPT && node->mails[i].number == number) {
			node->mails[i].state = MAIL_NEW;
			node->mails[i].due_ns = world.now_ns + 50 * NS_PER_MS;
		}
	return true;
}

static bool list(void *context, unsigned mta) {
	(void)context;
	(void)mta;
	return false;
}

static void returned(void *context, const char *destination, uint32_t messages) {
	(void)context;
	(void)destination;
	(void)messages;
}

static void open_node(struct node *node, unsigned number) {
	const struct delivery_seen seen = { .name = NAME, .name_length = strlen(NAME),
		.cloned = true };
	const struct requeue_calls calls = { flush, list, returned, node };
	char path[200];
	struct diag diag;

	*node = (struct node){ .number = number };
	site_open(&node->site, 1024, "classes = ( { name = \"c\"; match = \"*\"; } );\n");
	snprintf(node->file, sizeof(node->file), "%s/conf", node->site.directory);
	snprintf(node->facts, sizeof(node->facts), "%s/facts", node->site.directory);
	publish(node);
	snprintf(path, sizeof(path), "%s.hints", segment_path(node->site.segment));
	assert_true(destinations_note(node->site.segment, &seen, world.now_ns));
	assert_int_equal(engine_hints_open(&node->hints, node->site.engine, (gid_t)-1, NULL,
	    &diag), 0);
	node->reader = hints_reader_open(path);
	assert_int_equal(requeue_open(&node->requeue, node->site.engine, &calls, &diag), 0);
	open_store(node);
}

static void close_node(struct node *node) {
	for (unsigned i = 0; i < RUNS; i++)
		if (node->runs[i].places != NULL)
			windows_places_close(&node->runs[i].places, true, world.now_ns);
	requeue_close(&node->requeue);
	hints_reader_close(&node->reader);
	engine_hints_close(&node->hints);
	knowledge_close(&node->store);
	site_close(&node->site);
}

/* --- the sink ----------------------------------------------------------------------------- */

static double ago(int64_t time_ns) {
	return (double)(time_ns - world.now_ns) / 1e9;
}

/* What there is, before the test fails. */
static void show(void) {
	for (unsigned i = 0; i < NODES; i++) {
		const struct node *node = &world.nodes[i];
		struct shared_seen seen = { .known = false };
		struct state_key key;

		if (states_key(node->site.segment, NAME, strlen(NAME), &key))
			(void)shared_find(node->site.segment, key.hash, &seen);
		printf("# node %u: share %u (%u), by lanes %u (%u), asked %.2f; told "
		    "hold %u want %u at %.2f, was told %u fair %u; role of %.2f\n", i, seen.share,
		    seen.serial, seen.lanes, seen.lanes_serial, ago(seen.asked_ns),
		    node->pool.hold, node->pool.want,
		    ago(node->sent_ns), node->said.granted, node->said.fair,
		    ago(node->opened_ns));
		for (const struct mail *m = node->mails; m < node->mails + MAILS; m++)
			if (m->state == MAIL_IN_LANE || m->state == MAIL_RUNS)
				printf("#   %u, lane %u of %.2f, begun %.2f\n", m->number,
				    m->lane, ago(m->placed_ns), ago(m->began_ns));
	}
}

static void begin_delivery(struct mail *mail) {
	mail->state = MAIL_RUNS;
	mail->began_ns = world.now_ns;
	mail->ends_ns = world.now_ns +
	    (100 + random_below(&world.random, 200)) * NS_PER_MS;
	if (++world.open > world.most)
		world.most = world.open;
	/* Mail may come, after long, to a lane just when its share changes, and more of it by
	 * another lane before anything of that is heard. */
	if (world.open > world.ceiling + 1)
		show();
	if (world.open > world.ceiling + 1)
		fail_msg("%u of %u run", world.open, world.ceiling);
	if (world.open == world.ceiling + 1)
		world.above++;
}

static void end_delivery(struct node *node, struct mail *mail) {
	int64_t waited_ns = world.now_ns - mail->came_ns;

	world.open--;
	node->delivered++;
	if (waited_ns > node->slowest_ns)
		node->slowest_ns = waited_ns;
	mail->state = MAIL_ENDED;
	mail->due_ns = world.now_ns + random_below(&world.random, 100) * NS_PER_MS;
}

/* --- a Postfix ------------------------------------------------------------------------------ */

static void tell_requeue(struct node *node, const struct mail *mail) {
	char id[16];
	struct requeue_result result = { .destination = NAME, .queue_id = { id, 8 },
		.status = mail->held ? DELIVERY_DEFERRED : DELIVERY_SENT,
		.class = mail->held ? RESULT_SUSPENDED : RESULT_OK,
		.words = { "Postern: full", 13 }, .arrival_ns = mail->came_ns };

	snprintf(id, sizeof(id), "%08X", mail->number);
	(void)requeue_note(node->requeue, generation_of(node), &result, world.now_ns);
}

/* The queue manager asks where a message is to go; not again about an address that it asked
 * about just now. */
static void place(struct node *node, struct mail *mail) {
	char address[64];
	size_t length = (size_t)snprintf(address, sizeof(address), "u%u@" NAME, mail->number);

	if (node->remembered != mail->number ||
	    world.now_ns - node->remembered_ns >= REMEMBERED_NS) {
		hints_reader_ask(node->reader, "out", address, length, false, world.now_ns,
		    &node->answer);
		node->remembered = mail->number;
		node->remembered_ns = world.now_ns;
	}
	mail->held = node->answer.kind == HINTS_HELD;
	mail->placed_ns = world.now_ns;
	if (mail->held) {
		mail->state = MAIL_ENDED;
		mail->due_ns = world.now_ns + random_below(&world.random, 100) * NS_PER_MS;
		return;
	}
	assert_int_equal(node->answer.kind, HINTS_LANE);
	mail->state = MAIL_IN_LANE;
	mail->lane = node->answer.width;
}

static void hear_result(struct node *node, struct mail *mail) {
	struct segment *segment = node->site.segment;
	struct state_key key;

	tell_requeue(node, mail);
	if (mail->held) {
		/* as the feed does */
		assert_true(states_key(segment, NAME, strlen(NAME), &key));
		shared_ask(segment, key.hash, world.now_ns);
		mail->state = MAIL_KEPT;
		return;
	}
	lane_uses_note(segment, &(struct lane_use){ .ended_ns = mail->ends_ns,
		.waited_ms = (uint32_t)((mail->began_ns - mail->placed_ns) / NS_PER_MS),
		.took_ms = (uint32_t)((mail->ends_ns - mail->began_ns) / NS_PER_MS),
		.width = (uint16_t)mail->lane, .tried = true,
		.domain = lane_uses_hash(segment, NAME, strlen(NAME)) });
	mail->state = MAIL_NONE;
}

static void step_postfix(struct node *node) {
	unsigned running[LANES] = { 0 };
	struct mail *first;

	for (unsigned i = 0; i < MAILS; i++) {
		struct mail *mail = &node->mails[i];

		if (mail->state == MAIL_NEW && world.now_ns >= mail->due_ns)
			place(node, mail);
		else if (mail->state == MAIL_RUNS && world.now_ns >= mail->ends_ns)
			end_delivery(node, mail);
		else if (mail->state == MAIL_ENDED && world.now_ns >= mail->due_ns)
			hear_result(node, mail);
		if (mail->state == MAIL_RUNS)
			running[mail->lane]++;
	}
	for (unsigned lane = 1; lane < LANES; lane++)
		while (running[lane] < lane) {
			first = NULL;
			for (unsigned i = 0; i < MAILS; i++)
				if (node->mails[i].state == MAIL_IN_LANE &&
				    node->mails[i].lane == lane && (first == NULL ||
				    node->mails[i].placed_ns < first->placed_ns))
					first = &node->mails[i];
			if (first == NULL)
				break;
			begin_delivery(first);
			running[lane]++;
		}
}

/* --- a Sendmail ------------------------------------------------------------------------------ */

static void ask(struct node *node, struct run *run, struct mail *mail) {
	struct window_owner owner;
	char id[16];
	struct window_question question = { .owner = &owner, .places = run->places,
		.queue_id = id, .queue_id_length = 8 };
	struct window_asked asked;

	snprintf(id, sizeof(id), "%08X", mail->number);
	windows_owner(node->site.engine, generation_of(node), NAME, strlen(NAME), &owner);
	windows_ask(node->site.engine, generation_of(node), &question, world.now_ns, &asked);
	if (asked.answer != WINDOW_GO)
		return;
	run->mail = mail;
	begin_delivery(mail);
}

static struct mail *next_mail(struct node *node) {
	for (unsigned i = 0; i < MAILS; i++)
		if (node->mails[i].state == MAIL_NEW)
			return &node->mails[i];
	return NULL;
}

static void step_run(struct node *node, struct run *run, unsigned number) {
	const struct process_identity process = { .pid = 5000 + (int)number, .start_ticks = 7 };
	struct mail *mail;

	if (run->mail != NULL) {
		if (world.now_ns < run->mail->ends_ns)
			return;
		end_delivery(node, run->mail);
		run->mail->state = MAIL_NONE;
		run->mail = NULL;
	}
	mail = next_mail(node);
	if (run->places == NULL && mail != NULL && world.now_ns >= run->again_ns)
		run->places = windows_places_open(node->site.engine, &process);
	if (run->places == NULL)
		return;
	if (mail != NULL)
		ask(node, run, mail);
	if (run->mail != NULL)
		return;
	/* the run is over; another one comes */
	windows_places_close(&run->places, true, world.now_ns);
	run->again_ns = world.now_ns + (1 + random_below(&world.random, 3)) * NS_PER_SECOND;
}

/* --- the cluster role -------------------------------------------------------------------------- */

static void hear_answer(struct node *node) {
	const struct knowledge_pool *pool = &node->pool;
	int64_t until_ns = node->sent_ns + USE_NS;

	node->out = false;
	if (node->lost) {
		node->called_ns = 0;	/* it connects anew, and asks */
		return;
	}
	knowledge_leased(node->store, until_ns);
	if (pool->limit > 0)
		knowledge_granted(node->store, generation_of(node), pool->entry, pool->life,
		    pool->canary, node->said.granted, node->said.fair,
		    node->said.others_short, 0, until_ns, world.now_ns);
}

static void call(struct node *node) {
	struct knowledge_pool pools[KNOWLEDGE_POOLS_MAX];
	size_t count;
	bool due;

	count = knowledge_pools(node->store, generation_of(node), world.now_ns, pools,
	    KNOWLEDGE_POOLS_MAX, &due);
	if (!due && node->called_ns != 0 && world.now_ns - node->called_ns < LEASE_NS / 3)
		return;
	knowledge_asked(node->store);
	node->pool.limit = 0;
	/* what is told of a canary that nobody has is of no interest */
	for (size_t i = 0; i < count; i++)
		if (!pools[i].canary)
			node->pool = pools[i];
		else
			knowledge_granted(node->store, generation_of(node), pools[i].entry,
			    pools[i].life, true, 0, 0, 0, 0,
			    shared_until(node->site.segment), world.now_ns);
	node->out = true;
	node->lost = random_below(&world.random, 20) == 0;
	node->sent_ns = node->called_ns = world.now_ns;
	node->arrives_ns = world.now_ns + random_below(&world.random, 40) * NS_PER_MS;
	node->answers_ns = node->arrives_ns + random_below(&world.random, 40) * NS_PER_MS;
}

static void step_role(struct node *node) {
	if (node->out && node->arrives_ns != 0 && world.now_ns >= node->arrives_ns) {
		if (node->pool.limit == 0)
			lease_renew(&world.server, node->number, world.now_ns / NS_PER_MS);
		else
			node->said = lease_call(&world.server, node->number, node->pool.hold,
			    node->pool.want, world.now_ns / NS_PER_MS);
		node->arrives_ns = 0;
	}
	if (node->out && world.now_ns >= node->answers_ns)
		hear_answer(node);
	if (world.now_ns < node->turn_ns)
		return;
	node->turn_ns = world.now_ns + TURN_NS;
	if (!node->out && random_below(&world.random, 600) == 0) {
		knowledge_close(&node->store);
		open_store(node);
	}
	knowledge_turn(node->store, generation_of(node), world.now_ns);
	if (!node->out && world.now_ns - node->called_ns >= 250 * NS_PER_MS)
		call(node);
}

/* --- all of it ----------------------------------------------------------------------------------- */

static void step(void) {
	struct diag diag;

	world.now_ns += STEP_NS;
	for (unsigned i = 0; i < NODES; i++) {
		struct node *node = &world.nodes[i];

		step_role(node);
		if (i == SENDMAIL) {
			for (unsigned j = 0; j < RUNS; j++)
				step_run(node, &node->runs[j], j);
			continue;
		}
		/* the keeper's and the feed's turns */
		if (random_below(&world.random, 2) == 0)
			assert_int_equal(engine_hints_turn(node->hints, world.now_ns, &diag), 0);
		if (random_below(&world.random, 4) == 0)
			(void)requeue_turn(node->requeue, generation_of(node), world.now_ns);
		step_postfix(node);
	}
}

static void submit(struct node *node, unsigned count) {
	for (unsigned i = 0; i < MAILS && count > 0; i++) {
		struct mail *mail = &node->mails[i];

		if (mail->state != MAIL_NONE)
			continue;
		*mail = (struct mail){ .state = MAIL_NEW, .number = ++node->numbers,
			.came_ns = world.now_ns,
			.due_ns = world.now_ns + random_below(&world.random, 500) * NS_PER_MS };
		count--;
	}
}

static unsigned count_mail(const struct node *node) {
	unsigned count = 0;

	for (unsigned i = 0; i < MAILS; i++)
		count += node->mails[i].state != MAIL_NONE;
	return count;
}

static void set_ceiling(struct node *node) {
	const struct by_hand request = { .verb = MANUAL_LIMIT, .name = NAME,
		.name_length = strlen(NAME), .window = BY_HAND_UNSET, .ceiling = world.ceiling };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(node->site.engine, generation_of(node), &request,
	    world.now_ns, &owner), BY_HAND_DONE);
	knowledge_turn(node->store, generation_of(node), world.now_ns);
}

static void begin(uint32_t ceiling) {
	struct diag diag;

	world.now_ns = clock_now_ns();
	world.ceiling = ceiling;
	world.open = world.most = world.above = 0;
	for (unsigned i = 0; i < NODES; i++) {
		open_node(&world.nodes[i], i);
		set_ceiling(&world.nodes[i]);
		assert_int_equal(engine_hints_turn(world.nodes[i].hints, world.now_ns, &diag), 0);
	}
	/* three nodes of 6 have one for good */
	lease_begin(&world.server, ceiling, ceiling >= 6 ? 1 : 0, world.now_ns / NS_PER_MS);
	/* until all leases have begun each is alone, and may use 1 */
	for (unsigned i = 0; i < 100; i++)
		step();
}

static void end(void) {
	for (unsigned i = 0; i < NODES; i++)
		close_node(&world.nodes[i]);
}

/* Mail comes in bursts, to one node or another. */
TEST(never_more_than_the_ceiling_run) {
	static const uint32_t ceilings[] = { 1, 2, 4, 7 };

	world.random = random_seeded("t_ceilings");
	for (unsigned round = 0; round < 4; round++) {
		int64_t burst_ns = 0, end_ns;

		begin(ceilings[round]);
		end_ns = world.now_ns + 120 * NS_PER_SECOND;
		while (world.now_ns < end_ns) {
			if (world.now_ns >= burst_ns) {
				submit(&world.nodes[random_below(&world.random, NODES)],
				    random_below(&world.random, 20));
				burst_ns = world.now_ns +
				    random_below(&world.random, 6000) * NS_PER_MS;
			}
			step();
		}
		for (unsigned i = 0; i < 600 * 50 && count_mail(&world.nodes[0]) +
		    count_mail(&world.nodes[1]) + count_mail(&world.nodes[2]) > 0; i++)
			step();
		for (unsigned i = 0; i < NODES; i++) {
			const struct node *node = &world.nodes[i];

			printf("# ceiling %u, node %u: %u delivered, the slowest after %.1f s\n",
			    world.ceiling, i, node->delivered, (double)node->slowest_ns / 1e9);
			if (count_mail(node) > 0)
				fail_msg("ceiling %u: %u messages of node %u wait for ever",
				    world.ceiling, count_mail(node), i);
		}
		if (world.above > 10)
			fail_msg("ceiling %u: %u deliveries began above it", world.ceiling,
			    world.above);
		end();
	}
}

/* One has a few messages while two have had some: its turn comes within seconds. */
TEST(whoever_has_mail_gets_a_place_within_seconds) {
	int64_t began_ns;

	world.random = random_seeded("t_ceilings");
	for (unsigned late = 0; late < NODES; late++) {
		begin(2);
		for (unsigned i = 0; i < NODES; i++)
			submit(&world.nodes[i], 12);
		began_ns = world.now_ns;
		while (world.nodes[0].delivered + world.nodes[1].delivered +
		    world.nodes[2].delivered < 36) {
			step();
			if (world.now_ns - began_ns > 90 * NS_PER_SECOND)
				fail_msg("%u, %u and %u of 12 in 90 s",
				    world.nodes[0].delivered, world.nodes[1].delivered,
				    world.nodes[2].delivered);
		}
		printf("# 36 messages in %.1f s\n", (double)(world.now_ns - began_ns) / 1e9);
		/* the others are done: they keep nothing */
		submit(&world.nodes[late], 3);
		began_ns = world.now_ns;
		while (world.nodes[late].delivered < 15)
			step();
		printf("# 3 more of node %u in %.1f s\n", late,
		    (double)(world.now_ns - began_ns) / 1e9);
		assert_true(world.now_ns - began_ns < 70 * NS_PER_SECOND);
		end();
	}
}

/* One whose mail comes all the time, so that its lanes are never empty. */
TEST(a_steady_stream_leaves_others_their_part) {
	static const uint32_t ceilings[] = { 1, 2, 4, 7 };

	world.random = random_seeded("t_ceilings");
	for (unsigned round = 0; round < 4; round++) {
		int64_t began_ns, often_ns = 200 / ceilings[round] * NS_PER_MS, next_ns = 0;

		begin(ceilings[round]);
		began_ns = world.now_ns;
		while (world.nodes[2].delivered < 8) {
			if (world.now_ns - began_ns > 5 * NS_PER_SECOND && world.nodes[2].numbers == 0)
				submit(&world.nodes[2], 8);
			if (world.now_ns >= next_ns) {
				submit(&world.nodes[0], 1);
				next_ns = world.now_ns + often_ns;
			}
			step();
			if (world.now_ns - began_ns > 65 * NS_PER_SECOND)
				fail_msg("ceiling %u: %u of 8 in a minute", world.ceiling,
				    world.nodes[2].delivered);
		}
		printf("# ceiling %u: 8 messages after %.1f s\n", world.ceiling,
		    (double)(world.now_ns - began_ns) / 1e9 - 5);
		end();
	}
}
