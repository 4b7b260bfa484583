/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The cluster role's loop.
 * MODEL    A turn each 100 ms: the connection, the classes, what is due; nothing else makes
 *          a call, so that the same is said at the same pace whatever Redis does.  All state
 *          that matters is in the segment or with Redis; whoever comes after this process
 *          says hello anew and goes on.
 * ERRORS   None ends the role, but a password that has to be read again.
 * THREADS  One.
 */
#include "front/cluster/cluster.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file_stamp.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/cluster/cluster.h"
#include "front/cluster/internal.h"
#include "segment/cluster/cluster_told.h"

#define TURN_US		95000	/* SHARE_TURN_MS, or a little less */
#define BEAT_NS		(500 * NS_PER_MS)
#define PATIENCE_MOST_NS	(5 * NS_PER_SECOND)
#define FILE_LOOK_NS	NS_PER_SECOND
#define READ_AGAIN_NS	(30 * NS_PER_SECOND)

/* --- what is known of destinations ------------------------------------------------------ */

static void knowledge_follow(struct cluster *cluster, int64_t now_ns) {
	bool joined = cluster->belongs && cluster->hears;

	if (joined == cluster->knowledge_joined)
		return;
	cluster->knowledge_joined = joined;
	if (joined)
		knowledge_front_joined(cluster->knowledge, now_ns);
	else
		knowledge_front_lost(cluster->knowledge);
}

void cluster_apart(struct cluster *cluster) {
	cluster->belongs = false;
	cluster->news = true;
	if (cluster->knowledge_joined)
		knowledge_front_lost(cluster->knowledge);
	cluster->knowledge_joined = false;
}

static void on_knowledge_answer(void *context, uint64_t tag, const struct redis_value *answer) {
	struct cluster *cluster = context;
	const struct generation *generation;

	cluster->runs--;
	if (answer == NULL || !cluster->knowledge_joined)
		return;
	generation = engine_pin(cluster->engine);
	knowledge_front_answer(cluster->knowledge, generation, tag, answer, clock_now_ns());
	engine_unpin(cluster->engine, generation);
}

static bool add_key(const struct cluster *cluster, struct span *word, char *text,
    size_t size, const struct span *key) {
	size_t length = text_append(text, size, 0, "%s%d:", cluster->prefix, CLUSTER_SCHEMA);

	if (key->length >= size - length)
		return false;
	memcpy(text + length, key->text, key->length);
	*word = (struct span){ text, length + key->length };
	return true;
}

/* struct knowledge_calls. */
static bool run_for_knowledge(void *context, enum cluster_script script,
    const struct span *keys, size_t key_count, const struct span *words,
    size_t word_count, uint64_t tag) {
	struct span all[3 + KNOWLEDGE_KEYS_MAX + KNOWLEDGE_WORDS_MAX];
	static char texts[KNOWLEDGE_KEYS_MAX][CLUSTER_PREFIX_MAX + 320];
	struct cluster *cluster = context;
	char count[16];
	size_t used = 3;

	if (!cluster->knowledge_joined || cluster->runs == RUNS_MAX ||
	    key_count > KNOWLEDGE_KEYS_MAX || word_count > KNOWLEDGE_WORDS_MAX)
		return false;
	all[0] = (struct span){ "EVALSHA", 7 };
	all[1] = (struct span){ server_sha(cluster->server, script), SERVER_SHA_BYTES - 1 };
	all[2] = (struct span){ count,
		text_append(count, sizeof(count), 0, "%zu", key_count) };
	for (size_t i = 0; i < key_count; i++)
		if (!add_key(cluster, &all[used++], texts[i], sizeof(texts[i]), &keys[i]))
			return false;
	for (size_t i = 0; i < word_count; i++)
		all[used++] = words[i];
	if (!server_run(cluster->server, script, all, used, on_knowledge_answer, cluster, tag))
		return false;
	cluster->runs++;
	return true;
}

static void on_knowledge_failed(void *context, enum cluster_error error, const char *text) {
	cluster_failed(context, error, text, clock_now_ns());
}

/* --- the server -------------------------------------------------------------------------- */

static void on_ready(void *context) {
	struct cluster *cluster = context;

	cluster->greets = true;
	cluster->greeted_ns = 0;
	cluster->password_was_taken = true;
}

static void on_lost(void *context, enum cluster_error error, const char *text,
    int64_t next_ns) {
	struct cluster *cluster = context;
	int64_t now_ns = clock_now_ns();

	if (error == CLUSTER_ERROR_PASSWORD && cluster->refused_ns == 0)
		cluster->refused_ns = now_ns;
	cluster->hears = false;
	cluster_apart(cluster);
	cluster->told.next_ns = next_ns;
	cluster_failed(cluster, error, text, now_ns);
}

static void on_hears(void *context, bool hears) {
	struct cluster *cluster = context;

	cluster->hears = hears;
	cluster->news = true;
}

static void on_deaf(void *context, enum cluster_error error, const char *text) {
	cluster_failed(context, error, text, clock_now_ns());
}

static void on_news(void *context, const char *text, size_t length) {
	struct cluster *cluster = context;
	const struct generation *generation;

	if (length == strlen(CLUSTER_NEWS_SHORT) && memcmp(text, CLUSTER_NEWS_SHORT, length) == 0) {
		cluster->turns.short_ns = clock_now_ns();
		return;
	}
	if (!cluster->knowledge_joined)
		return;
	generation = engine_pin(cluster->engine);
	knowledge_front_heard(cluster->knowledge, generation, text, length, clock_now_ns());
	engine_unpin(cluster->engine, generation);
}

static const struct server_handlers handlers = {
	.ready = on_ready, .lost = on_lost, .hears = on_hears, .deaf = on_deaf, .news = on_news,
};

/* --- turns -------------------------------------------------------------------------------- */

static bool texts_differ(const struct generation *a, uint32_t text_a, const struct generation *b,
    uint32_t text_b) {
	return strcmp(generation_text(a, text_a), generation_text(b, text_b)) != 0;
}

/* The file can be seen, though not read: is it another one by now?  Where it cannot, that is
 * supposed after a reload, and when a password is refused that was taken before. */
static bool file_has_changed(const struct cluster *cluster, const char *path, bool reloaded) {
	uint64_t stamp = file_stamp(path);

	if (stamp == 0)
		return reloaded || cluster->password_was_taken;
	return stamp != cluster->setup->password_stamp;
}

/* Another user, another password file, or another password in it: root has to read it.  It is
 * looked at after a reload, and while the password is refused. */
static bool must_read_again(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns) {
	const struct generation *started = cluster->started;
	bool reloaded = generation->number != cluster->reload_seen;

	if (texts_differ(started, started->cluster.user, generation, generation->cluster.user) ||
	    texts_differ(started, started->cluster.password_file, generation,
		generation->cluster.password_file))
		return true;
	if (started->cluster.password_file == 0 || (!reloaded && (cluster->refused_ns == 0 ||
	    now_ns - cluster->file_looked_ns < FILE_LOOK_NS)))
		return false;
	cluster->reload_seen = generation->number;
	cluster->file_looked_ns = now_ns;
	return file_has_changed(cluster, generation_text(started,
	    started->cluster.password_file), reloaded) ||
	    (cluster->refused_ns != 0 && now_ns - cluster->refused_ns > READ_AGAIN_NS);
}

static void turn_server(struct cluster *cluster, int64_t now_ns) {
	if (cluster->setup->password_error == NULL) {
		server_turn(cluster->server, now_ns);
		return;
	}
	if (cluster->refused_ns == 0) {
		cluster->refused_ns = now_ns;
		cluster_failed(cluster, CLUSTER_ERROR_PASSWORD, cluster->setup->password_error,
		    now_ns);
	}
}

/* It is not that there are no others. */
static bool is_turned_away(const struct cluster *cluster) {
	return !cluster->belongs && (cluster->told.error == CLUSTER_ERROR_NODE + 1 ||
	    cluster->told.error == CLUSTER_ERROR_SETTINGS + 1);
}

static void on_tick(evutil_socket_t fd, short what, void *argument) {
	struct cluster *cluster = argument;
	int64_t now_ns = clock_now_ns();
	const struct generation *generation = engine_pin(cluster->engine);
	bool was_out = cluster->call.out;

	(void)fd, (void)what;
	if (now_ns - cluster->beat_ns >= BEAT_NS) {
		cluster->beat_ns = now_ns;
		engine_heartbeat(cluster->engine, now_ns);
		log_flush();
	}
	cluster_members_turn(cluster, generation, now_ns);
	turn_server(cluster, now_ns);
	if (is_turned_away(cluster))
		shares_not_alone(cluster->engine, generation, now_ns);
	knowledge_follow(cluster, now_ns);
	knowledge_front_turn(cluster->knowledge, generation, now_ns);
	cluster_take_order(cluster);
	cluster_call_turn(cluster, generation, now_ns);
	cluster_tell(cluster, now_ns);
	if (must_read_again(cluster, generation, now_ns)) {
		cluster->ended = true;
		(void)event_base_loopbreak(cluster->base);
	}
	/* a call that was sent keeps it until its answer */
	if (was_out || !cluster->call.out)
		engine_unpin(cluster->engine, generation);
}

/* --- life ---------------------------------------------------------------------------------- */

static void take_settings(struct cluster *cluster, const struct generation *generation) {
	const struct generation_cluster *settings = &generation->cluster;
	struct cluster_link *link = &cluster->link;
	char instance[SHARES_INSTANCE_MAX];

	cluster->prefix = generation_text(generation, settings->prefix);
	text_append(link->node, sizeof(link->node), 0, "%s",
	    generation_text(generation, settings->node));
	text_append(link->instance, sizeof(link->instance), 0, "%s",
	    shares_instance(cluster->engine, instance));
	link->lease_ms = settings->lease_ns / NS_PER_MS;
	link->nodes = settings->nodes;
	cluster->turns.engine = cluster->engine;
	cluster->turns.nodes = link->nodes;
	cluster->turns.lease_ms = link->lease_ms;
}

/* An order that the role before did not end may have been done; it is not given again. */
static void drop_order(struct cluster *cluster) {
	char name[CLUSTER_TOLD_NAME];

	cluster->ordered = engine_cluster_ordered(cluster->engine, name, &cluster->ordered_by);
	if (cluster->ordered != 0 && cluster->ordered != cluster->told.order_number)
		cluster_end_order(cluster, name, CLUSTER_OUTCOME_UNSURE);
}

/* What the role before this one told goes on. */
static void take_over(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns) {
	struct cluster_told *told = &cluster->told;
	struct cluster_told before;

	(void)cluster_told_read(engine_cluster_told(cluster->engine), &before);
	memset(told, 0, sizeof(*told));
	memcpy(told->errors, before.errors, sizeof(told->errors));
	told->rounds = before.rounds;
	memcpy(told->differs, before.differs, sizeof(told->differs));
	memcpy(told->differs_why, before.differs_why, sizeof(told->differs_why));
	memcpy(cluster->differed, before.differs_why, sizeof(cluster->differed));
	told->until_ns = before.until_ns;
	told->renewed_ns = before.renewed_ns;
	told->unplaced = before.unplaced;
	cluster->was_full = before.unplaced > 0;
	told->order_number = before.order_number;
	told->order_outcome = before.order_outcome;
	text_append(told->server, sizeof(told->server), 0, "%s",
	    generation_text(generation, generation->cluster.redis));
	cluster->began_ns = cluster->file_looked_ns = now_ns;
	cluster->reload_seen = generation->number;
	cluster->news = true;
	drop_order(cluster);
}

static int open_all(struct cluster *cluster, struct diag *diag) {
	const struct timeval turn = { .tv_usec = TURN_US };
	const struct generation *generation = cluster->started;
	const struct knowledge_calls calls = { .run = run_for_knowledge,
		.failed = on_knowledge_failed, .context = cluster,
		.prefix = generation_text(generation, generation->cluster.prefix) };
	int64_t patience_ns = generation->cluster.lease_ns / 3;
	struct server_setup setup = {
		.address = generation_text(generation, generation->cluster.redis),
		.user = generation_text(generation, generation->cluster.user),
		.password = cluster->setup->password,
		.password_length = cluster->setup->password_length,
		.channel = cluster->channel,
		.patience_ns = patience_ns < PATIENCE_MOST_NS ? patience_ns : PATIENCE_MOST_NS,
	};

	take_settings(cluster, generation);
	take_over(cluster, generation, clock_now_ns());
	text_append(cluster->channel, sizeof(cluster->channel), 0, "%s%d:%s", cluster->prefix, CLUSTER_SCHEMA,
	    KNOWLEDGE_CHANNEL);
	cluster->base = event_base_new();
	if (cluster->base == NULL)
		return diag_set(diag, 0, "cannot create an event loop");
	cluster->tick = event_new(cluster->base, -1, EV_PERSIST, on_tick, cluster);
	if (cluster->tick == NULL || event_add(cluster->tick, &turn) != 0)
		return diag_set(diag, 0, "no memory for a timer");
	if (server_open(&cluster->server, cluster->base, &setup, &handlers, cluster, diag) != 0)
		return -1;
	return knowledge_front_open(&cluster->knowledge, cluster->engine,
	    cluster->link.node, &calls, diag);
}

int cluster_run(struct engine *engine, const struct cluster_setup *setup, struct diag *diag) {
	struct cluster *cluster = calloc(1, sizeof(*cluster));

	if (cluster == NULL)
		return diag_set(diag, 0, "no memory for the cluster");
	cluster->engine = engine;
	cluster->setup = setup;
	cluster->started = engine_pin(engine);
	engine_heartbeat(engine, clock_now_ns());
	if (!generation_has_cluster(cluster->started))
		return diag_set(diag, 0, "no cluster is configured");
	if (open_all(cluster, diag) != 0)
		return -1;
	(void)event_base_dispatch(cluster->base);
	return cluster->ended ? 0 : diag_set(diag, 0, "the event loop ended");
}
