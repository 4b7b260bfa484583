/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Calls of the lease script, one at a time.
 * MODEL    engine/cluster/shares_turn.h says whether a call is due for the shared classes and what it
 *          is to say of each; one call says all of them, and what there is of ceilings.
 * ERRORS   An answer that refuses ends the connection, which is tried again later; what was
 *          leased runs on until its end.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/text.h"
#include "front/cluster/internal.h"

#define GREET_AGAIN_NS	(250 * NS_PER_MS)
#define AGAINS_MOST	20

static int64_t in_ms(int64_t ns) {
	return ns / NS_PER_MS;
}

static uint64_t nonce(void) {
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = (uint64_t)clock_now_ns() ^ (uint64_t)clock_wall_ns() << 20;
	return number;
}

void cluster_members_turn(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns) {
	cluster->turns.hears = cluster->hears;
	/* numbers of classes are those of the call that is out */
	shares_turn(&cluster->turns, cluster->call.out ? cluster->call.generation : generation,
	    now_ns);
}

/* --- sending -------------------------------------------------------------------------- */

static void on_answer(void *context, uint64_t tag, const struct redis_value *value);

static const char *other_of(const struct cluster *cluster, enum cluster_operation operation) {
	if (operation == CLUSTER_FORGET)
		return cluster->call.other;
	if (operation != CLUSTER_SHARE)
		return NULL;
	if (cluster->link.life == 0 && !shares_are_leased(cluster->engine, clock_now_ns()))
		return CLUSTER_FRESH;
	return cluster->turns.tells ? CLUSTER_TELL : NULL;
}

struct cluster_call cluster_call_new(struct cluster *cluster, enum cluster_operation operation) {
	struct cluster_call words = { .words = cluster->words,
		.capacity = sizeof(cluster->words) / sizeof(cluster->words[0]),
		.text = cluster->text, .size = sizeof(cluster->text) };
	struct call *call = &cluster->call;

	/* read now: what was given back is used no more */
	call->sent_ns = clock_now_ns();
	call->knowledge_count = 0;
	cluster_call_begin(&words, &cluster->link, operation,
	    server_sha(cluster->server, CLUSTER_SCRIPT_LEASE), cluster->prefix, nonce(),
	    other_of(cluster, operation), in_ms(call->sent_ns));
	return words;
}

void cluster_call_send(struct cluster *cluster, const struct cluster_call *words,
    const struct generation *generation) {
	struct call *call = &cluster->call;

	if (!server_run(cluster->server, CLUSTER_SCRIPT_LEASE, words->words, words->count,
		on_answer, cluster, 0))
		return;
	call->out = true;
	call->sent = words->sent;
	call->generation = generation;
}

void cluster_call_member(struct cluster *cluster, struct cluster_call *words, unsigned number,
    struct share_pools held) {
	const struct shares_member *member = &cluster->turns.members[number];
	char name[POOL_NAME_BYTES];
	struct cluster_pool pool = { .name = name, .limit = member->now.whole.base,
		.fixed = member->now.fixed.base, .hold = held.base,
		.need = member->asked.claim.base, .want = member->asked.want.base,
		.open = member->now.open };

	pool.name_length = text_append(name, sizeof(name), 0, "b:%s", member->name);
	if (!cluster_call_pool(words, &pool))
		return;
	name[0] = 'e';
	pool.limit = member->now.whole.extra;
	pool.fixed = member->now.fixed.extra;
	pool.hold = held.extra;
	pool.need = member->asked.claim.extra;
	pool.want = member->asked.want.extra;
	pool.open = 0;
	/* there is room for all */
	(void)cluster_call_pool(words, &pool);
}

static void add_knowledge(struct cluster *cluster, struct cluster_call *words,
    const struct knowledge_pool *pools, size_t count) {
	struct call *call = &cluster->call;

	for (size_t i = 0; i < count; i++) {
		struct cluster_pool pool = { .name = pools[i].name,
			.name_length = strlen(pools[i].name), .limit = pools[i].limit,
			.version = pools[i].version, .fixed = pools[i].fixed,
			.hold = pools[i].hold, .need = pools[i].want, .want = pools[i].want,
			.open = pools[i].hold };

		if (!cluster_call_pool(words, &pool))
			continue;
		call->knowledge[call->knowledge_count] = pools[i];
		call->knowledge[call->knowledge_count++].name = NULL;
	}
}

/* Of their answers nothing is needed. */
static void add_parted(struct cluster *cluster, struct cluster_call *words, int64_t now_ns) {
	struct call *call = &cluster->call;

	call->parted_count = shares_parted(cluster->engine, now_ns, call->parted, PARTED_MAX);
	for (unsigned i = 0; i < call->parted_count; i++)
		for (const char *kind = "be"; *kind != '\0'; kind++) {
			char name[POOL_NAME_BYTES];
			/* a limit that is none: it is not to hold others back */
			struct cluster_pool pool = { .name = name, .limit = CLUSTER_PLACES_MAX };

			pool.name_length = text_append(name, sizeof(name), 0, "%c:%s", *kind,
			    call->parted[i].name);
			(void)cluster_call_pool(words, &pool);
		}
}

static void call_greet(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns) {
	struct cluster_call words;

	if (now_ns - cluster->greeted_ns < GREET_AGAIN_NS)
		return;
	cluster->greeted_ns = now_ns;
	words = cluster_call_new(cluster, CLUSTER_HELLO);
	cluster_call_send(cluster, &words, generation);
}

static void call_share(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns) {
	struct knowledge_pool pools[KNOWLEDGE_POOLS_MAX];
	struct shares_call calls[SHARES_CLASSES_MAX];
	struct call *call = &cluster->call;
	bool due;
	size_t pool_count = cluster->knowledge_joined ?
	    knowledge_pools(knowledge_front_store(cluster->knowledge), generation, now_ns,
	    pools, KNOWLEDGE_POOLS_MAX, &due) : 0;
	struct cluster_call words;

	call->member_count = shares_call(&cluster->turns, generation, now_ns, calls);
	words = cluster_call_new(cluster, CLUSTER_SHARE);
	for (unsigned i = 0; i < call->member_count; i++) {
		call->members[i] = calls[i].member;
		cluster_call_member(cluster, &words, calls[i].member, calls[i].held);
	}
	add_knowledge(cluster, &words, pools, pool_count);
	add_parted(cluster, &words, now_ns);
	cluster_call_send(cluster, &words, generation);
	if (!call->out)
		return;
	cluster->shared_ns = call->sent_ns;
	shares_called(&cluster->turns, calls, call->member_count);
	knowledge_asked(knowledge_front_store(cluster->knowledge));
}

/* --- when ------------------------------------------------------------------------------- */

/* How long what has to be told of destinations' ceilings may wait. */
static bool knowledge_is_due(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns) {
	struct knowledge_pool pools[KNOWLEDGE_POOLS_MAX];
	bool due = false;

	if (!cluster->knowledge_joined || cluster->told.wait_until_ns != 0 ||
	    now_ns - cluster->shared_ns < SHARE_ASK_MS * NS_PER_MS)
		return false;
	(void)knowledge_pools(knowledge_front_store(cluster->knowledge), generation, now_ns,
	    pools, KNOWLEDGE_POOLS_MAX, &due);
	return due;
}

static bool share_is_due(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns) {
	return shares_are_due(&cluster->turns, cluster->shared_ns, cluster->told.wait_until_ns,
	    now_ns) || knowledge_is_due(cluster, generation, now_ns);
}

static bool look_is_due(const struct cluster *cluster, int64_t now_ns) {
	int64_t often_ns = cluster->link.lease_ms * NS_PER_MS / 3;

	return cluster->looked_ns == 0 || now_ns - cluster->looked_ns >=
	    (often_ns > NS_PER_SECOND ? often_ns : NS_PER_SECOND);
}

void cluster_call_turn(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns) {
	struct cluster_call words;

	if (cluster->call.out || !server_is_ready(cluster->server))
		return;
	if (cluster->greets) {
		call_greet(cluster, generation, now_ns);
	} else if (share_is_due(cluster, generation, now_ns)) {
		call_share(cluster, generation, now_ns);
	} else if (cluster->call.other[0] != '\0') {
		words = cluster_call_new(cluster, CLUSTER_FORGET);
		cluster_call_send(cluster, &words, generation);
	} else if (look_is_due(cluster, now_ns)) {
		cluster_look(cluster, generation, now_ns);
	}
}

/* --- answers ------------------------------------------------------------------------------ */

static void take_grants(struct cluster *cluster, const struct cluster_answer *answer,
    int64_t now_ns) {
	const struct cluster_share *shares = cluster->shares;
	const struct call *call = &cluster->call;
	struct knowledge_store *store = knowledge_front_store(cluster->knowledge);
	int64_t until_ns = answer->until_ms * NS_PER_MS;

	if (answer->reborn) {
		shares_reborn(&cluster->turns, call->generation, now_ns);
		knowledge_reborn(store, call->generation, now_ns);
	}
	for (unsigned i = 0; i < call->member_count; i++, shares += 2) {
		const struct shares_answer part = {
			.granted = { shares[0].granted, shares[1].granted },
			.fair = { shares[0].fair, shares[1].fair },
			.others_short = shares[0].others_short + shares[1].others_short,
			.free = { shares[0].free, shares[1].free },
			.differs = shares[0].differs || shares[1].differs,
			.whole = { shares[0].limit, shares[1].limit } };

		shares_answered(&cluster->turns, call->generation, call->members[i], &part,
		    until_ns, now_ns);
	}
	knowledge_leased(store, until_ns);
	for (size_t i = 0; i < call->knowledge_count; i++, shares++)
		knowledge_granted(store, call->generation, call->knowledge[i].entry,
		    call->knowledge[i].life, call->knowledge[i].canary, shares->granted,
		    shares->fair, shares->others_short, shares->free, until_ns, now_ns);
	for (unsigned i = 0; i < call->parted_count; i++)
		shares_gave_back(cluster->engine, &call->parted[i]);
	cluster->told.until_ns = until_ns;
	cluster->told.renewed_ns = call->sent_ns;
}

/* Wrong is wrong in a way of its own. */
static enum cluster_error error_of(const struct cluster_answer *answer) {
	switch (answer->status) {
	case CLUSTER_TAKEN:
	case CLUSTER_FULL:
		return CLUSTER_ERROR_NODE;
	case CLUSTER_LEASE:
		return CLUSTER_ERROR_SETTINGS;
	case CLUSTER_NEWER:
		return CLUSTER_ERROR_SCHEMA;
	case CLUSTER_FOREIGN:
		return CLUSTER_ERROR_FOREIGN;
	case CLUSTER_REFUSED:
		return server_error_of(answer->text, strlen(answer->text));
	default:
		return CLUSTER_ERROR_PROTOCOL;
	}
}

/* Which key, and what was expected there. */
static void say_foreign(const struct cluster *cluster, const char *what, char *text,
    size_t size) {
	if (strcmp(what, "schema") == 0)
		text_append(text, size, 0, "another program uses the key %sschema: expected a "
		    "string with the number %d", cluster->prefix, CLUSTER_SCHEMA);
	else
		text_append(text, size, 0, "another program uses the key %s%d:leases: expected "
		    "a hash with a field is = \"postern 1\"%s", cluster->prefix, CLUSTER_SCHEMA,
		    strcmp(what, "node") == 0 ? " and node fields n:" : "");
}

void cluster_refused(struct cluster *cluster, const struct cluster_answer *answer) {
	const struct cluster_link *link = &cluster->link;
	int64_t least_ns = 0;
	char text[256];

	switch (answer->status) {
	case CLUSTER_TAKEN:
		/* without its ms: what is the same is told each minute only */
		text_append(text, sizeof(text), 0, "another node or state file uses the node "
		    "name %s (%s): stop it and wait for a lease, or choose another "
		    "cluster.node here",
		    link->node, answer->text);
		break;
	case CLUSTER_FULL:
		text_append(text, sizeof(text), 0, "the cluster already has %u nodes, the "
		    "maximum in cluster.nodes: run posternctl cluster forget NODE on one of "
		    "them (posternctl cluster lists the nodes)", link->nodes);
		break;
	case CLUSTER_LEASE:
		text_append(text, sizeof(text), 0, "node %s has cluster.lease %u ms, this node "
		    "%lld ms", answer->text, answer->ms, (long long)link->lease_ms);
		break;
	case CLUSTER_NEWER:
		text_append(text, sizeof(text), 0, "the key %sschema has schema %llu, this "
		    "version supports %d", cluster->prefix, (unsigned long long)answer->number,
		    CLUSTER_SCHEMA);
		break;
	case CLUSTER_FOREIGN:
		say_foreign(cluster, answer->text, text, sizeof(text));
		break;
	default:
		text_append(text, sizeof(text), 0, "%s%s%s", cluster_status_word(answer->status),
		    answer->text[0] == '\0' ? "" : ": ", answer->text);
	}
	if (answer->status == CLUSTER_TAKEN || answer->status == CLUSTER_FULL)
		least_ns = NS_PER_SECOND;
	server_drop(cluster->server, error_of(answer), text, least_ns);
}

/* Another connection of this node has taken over: our own of a moment ago, that was not
 * over yet; or another machine that runs with a copy of this state. */
static void come_again(struct cluster *cluster) {
	cluster_apart(cluster);
	cluster->greets = true;
	if (++cluster->agains < AGAINS_MOST)
		return;
	cluster->agains = 0;
	server_drop(cluster->server, CLUSTER_ERROR_NODE, "another process with this node's "
	    "name and a copy of its state keeps taking over", 5 * NS_PER_SECOND);
}

static void take_answer(struct cluster *cluster, const struct cluster_answer *answer,
    int64_t now_ns) {
	struct call *call = &cluster->call;

	switch (answer->status) {
	case CLUSTER_OK:
		break;
	case CLUSTER_AGAIN:
		come_again(cluster);
		return;
	case CLUSTER_OLD:
		/* repeated or overtaken: the next one has a number of its own */
		return;
	default:
		cluster_refused(cluster, answer);
		return;
	}
	cluster->told.wait_until_ns = answer->wait_ms == 0 ? 0 :
	    now_ns + answer->wait_ms * NS_PER_MS;
	cluster->told.nodes_known = answer->known;
	cluster->told.nodes_alive = answer->alive;
	cluster->turns.alive = answer->alive;
	if (call->sent.operation == CLUSTER_HELLO) {
		cluster->greets = false;
		cluster->belongs = true;
		cluster->answered = false;
		cluster->shared_ns = 0;
	} else if (call->sent.operation == CLUSTER_SHARE) {
		cluster->agains = 0;
		cluster->answered = true;
		if (answer->wait_ms == 0)
			take_grants(cluster, answer, now_ns);
		cluster_worked(cluster);
	}
}

static void on_answer(void *context, uint64_t tag, const struct redis_value *value) {
	struct cluster *cluster = context;
	struct call *call = &cluster->call;
	char epoch[sizeof(cluster->link.epoch)];
	int64_t now_ns = clock_now_ns();
	struct cluster_answer answer;

	(void)tag;
	if (!call->out)
		return;
	memcpy(epoch, cluster->link.epoch, sizeof(epoch));
	if (value != NULL)
		cluster_round(cluster, now_ns - call->sent_ns);
	if (value != NULL && call->sent.operation == CLUSTER_LOOK) {
		cluster_looked(cluster, value, now_ns);
	} else if (value != NULL) {
		cluster_answer_read(&cluster->link, &call->sent, value, in_ms(now_ns), &answer,
		    cluster->shares);
		if (call->sent.operation == CLUSTER_FORGET)
			cluster_forgot(cluster, &answer);
		else
			take_answer(cluster, &answer, now_ns);
	} else if (call->sent.operation == CLUSTER_FORGET) {
		cluster_end_order(cluster, call->other, CLUSTER_OUTCOME_UNSURE);
	}
	if (epoch[0] != '\0' && strcmp(epoch, cluster->link.epoch) != 0)
		cluster->told.lost = 1;
	call->out = false;
	engine_unpin(cluster->engine, call->generation);
	call->generation = NULL;
}
