/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The other nodes, for people: posternctl cluster.
 * MODEL    A call now and then that changes nothing; what it says goes into the segment, so
 *          that whoever asks needs no way to Redis.  When a node was heard of last is told
 *          by when we noticed that it made another call, as no clock but our own counts.
 * ERRORS   An answer that makes no sense ends the connection, as any other.
 * THREADS  One.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/cluster/cluster.h"
#include "front/cluster/internal.h"

void cluster_look(struct cluster *cluster, const struct generation *generation,
    int64_t now_ns) {
	struct cluster_call words = cluster_call_new(cluster, CLUSTER_LOOK);
	struct call *call = &cluster->call;

	cluster->looked_ns = now_ns;
	call->member_count = 0;
	for (unsigned i = 0; i < cluster->turns.member_count; i++) {
		cluster_call_member(cluster, &words, i, (struct share_pools){ 0, 0 });
		call->members[call->member_count++] = i;
	}
	cluster_call_send(cluster, &words, generation);
}

/* --- nodes ------------------------------------------------------------------------ */

static const struct cluster_told_node *node_known(const struct cluster_told *told,
    const char *name) {
	for (uint32_t i = 0; i < told->node_count; i++)
		if (strcmp(told->nodes[i].name, name) == 0)
			return &told->nodes[i];
	return NULL;
}

static void take_nodes(struct cluster *cluster, size_t count, int64_t now_ns) {
	static struct cluster_told_node nodes[CLUSTER_TOLD_NODES];
	struct cluster_told *told = &cluster->told;

	memset(nodes, 0, sizeof(nodes));
	for (size_t i = 0; i < count; i++) {
		const struct cluster_look_node *from = &cluster->look_nodes[i];
		const struct cluster_told_node *before = node_known(told, from->name);
		struct cluster_told_node *to = &nodes[i];

		text_append(to->name, sizeof(to->name), 0, "%s", from->name);
		to->event = from->event;
		to->alive = from->alive;
		to->itself = strcmp(from->name, cluster->link.node) == 0;
		if (before != NULL)
			to->word_ns = before->word_ns;
		if (before != NULL && before->event != from->event)
			to->word_ns = now_ns;
		else if (before == NULL && from->alive)
			to->word_ns = now_ns;
		if (to->itself)
			to->word_ns = cluster->call.sent_ns;
	}
	memcpy(told->nodes, nodes, sizeof(nodes));
	told->node_count = (uint32_t)count;
}

/* --- leases ------------------------------------------------------------------------ */

static struct cluster_told_cell *cell_of(struct cluster *cluster,
    const struct shares_member *member, uint16_t node) {
	struct cluster_told *told = &cluster->told;
	struct cluster_told_cell *cell = told->cells;

	for (; cell < told->cells + told->cell_count; cell++)
		if (cell->class_record == member->record && cell->node == node)
			return cell;
	if (told->cell_count == CLUSTER_TOLD_CELLS)
		return NULL;
	told->cell_count++;
	/* a pool that is not told of is used by nobody, and as it is here */
	*cell = (struct cluster_told_cell){ .class_record = member->record, .node = node,
		.limit_base = member->now.whole.base, .limit_extra = member->now.whole.extra };
	return cell;
}

/* Pools come in pairs, base and extra, in the order of the call's classes. */
static void take_leases(struct cluster *cluster, size_t count) {
	const struct call *call = &cluster->call;

	cluster->told.cell_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct cluster_look_share *share = &cluster->look_shares[i];
		struct cluster_told_cell *cell;

		if (share->pool / 2 >= call->member_count ||
		    share->node >= cluster->told.node_count)
			continue;
		cell = cell_of(cluster, &cluster->turns.members[call->members[share->pool / 2]],
		    (uint16_t)share->node);
		if (cell == NULL)
			continue;
		if (share->pool % 2 == 0) {
			cell->limit_base = share->limit;
			cell->leased_base = share->granted;
			cell->want_base = share->need;
			cell->open = share->open;
		} else {
			cell->limit_extra = share->limit;
			cell->leased_extra = share->granted;
			cell->want_extra = share->need;
		}
	}
}

/* --- settings that differ ----------------------------------------------------------- */

static void say_difference(struct cluster *cluster, const char *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say_difference(struct cluster *cluster, const char *node, const char *format, ...) {
	char text[sizeof(cluster->told.differs_why)];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	text_append(cluster->told.differs_why, sizeof(cluster->told.differs_why), 0, "%s has %s",
	    node, text);
}

/* A pool of the class, as another node has it and as this one does. */
static bool pool_differs(struct cluster *cluster, const struct cluster_look_share *share,
    const struct shares_member *member) {
	const char *node = cluster->look_nodes[share->node].name;
	bool extra = share->pool % 2 != 0;
	uint32_t limit = extra ? member->now.whole.extra : member->now.whole.base;
	uint32_t fixed = extra ? member->now.fixed.extra : member->now.fixed.base;

	if (share->limit != limit && extra)
		say_difference(cluster, node, "%u between hold_at and refuse_at, this node %u: "
		    "the lowest limit of all nodes applies", share->limit, limit);
	else if (share->limit != limit)
		say_difference(cluster, node, "the limit %u, this node %u: the lowest limit of "
		    "all nodes applies", share->limit, limit);
	else if (share->fixed != fixed)
		say_difference(cluster, node, "another cluster.fraction or cluster.nodes "
		    "(fixed part of the class %u, this node %u): the highest value applies",
		    share->fixed, fixed);
	else
		return false;
	return true;
}

/* Who differs from this machine, and in what: of the class that is told of. */
static void find_difference(struct cluster *cluster, size_t node_count, size_t share_count) {
	const struct call *call = &cluster->call;

	cluster->told.differs_why[0] = '\0';
	for (size_t i = 0; i < share_count; i++) {
		const struct cluster_look_share *share = &cluster->look_shares[i];
		const struct shares_member *member;

		if (share->pool / 2 >= call->member_count || share->node >= node_count)
			continue;
		member = &cluster->turns.members[call->members[share->pool / 2]];
		if (member->differs && strcmp(cluster->look_nodes[share->node].name,
		    cluster->link.node) != 0 && pool_differs(cluster, share, member))
			return;
	}
	for (size_t i = 0; i < node_count; i++) {
		const struct cluster_look_node *node = &cluster->look_nodes[i];

		if (node->nodes == cluster->link.nodes)
			continue;
		say_difference(cluster, node->name, "cluster.nodes = %u, this node %u: the "
		    "highest value applies", node->nodes, cluster->link.nodes);
		return;
	}
}

void cluster_looked(struct cluster *cluster, const struct redis_value *value, int64_t now_ns) {
	size_t node_count = 0, share_count = 0;
	struct cluster_answer answer;

	if (!cluster_look_read(&cluster->link, &cluster->call.sent, value,
		now_ns / NS_PER_MS, &answer, cluster->look_nodes, &node_count,
		CLUSTER_TOLD_NODES, cluster->look_shares, &share_count,
		sizeof(cluster->look_shares) / sizeof(cluster->look_shares[0]))) {
		/* another epoch, or another connection: the next share is told the same */
		if (answer.status != CLUSTER_AGAIN && answer.status != CLUSTER_OLD)
			cluster_refused(cluster, &answer);
		return;
	}
	take_nodes(cluster, node_count, now_ns);
	take_leases(cluster, share_count);
	find_difference(cluster, node_count, share_count);
	cluster->looked = true;
}

/* --- orders ------------------------------------------------------------------------ */

/* At once, not only with the next look. */
static void drop_node(struct cluster_told *told, const char *name) {
	const struct cluster_told_node *node = node_known(told, name);
	uint32_t number, kept = 0;

	if (node == NULL)
		return;
	number = (uint32_t)(node - told->nodes);
	told->node_count--;
	memmove(&told->nodes[number], &told->nodes[number + 1],
	    (told->node_count - number) * sizeof(told->nodes[0]));
	for (uint32_t i = 0; i < told->cell_count; i++) {
		struct cluster_told_cell cell = told->cells[i];

		if (cell.node == number)
			continue;
		if (cell.node > number)
			cell.node--;
		told->cells[kept++] = cell;
	}
	told->cell_count = kept;
}

void cluster_end_order(struct cluster *cluster, const char *name,
    enum cluster_outcome outcome) {
	static const char *const words[CLUSTER_OUTCOMES] = {
		[CLUSTER_OUTCOME_DONE] = "done", [CLUSTER_OUTCOME_ALIVE] = "alive",
		[CLUSTER_OUTCOME_UNKNOWN] = "unknown", [CLUSTER_OUTCOME_ITSELF] = "itself",
		[CLUSTER_OUTCOME_FAILED] = "failed", [CLUSTER_OUTCOME_UNSURE] = "unsure",
	};
	char quoted[4 * CLUSTER_TOLD_NAME];

	log_event(EVENT_CLUSTER_FORGET, "node=%s name=%s outcome=%s uid=%ld", cluster->link.node,
	    log_quote(quoted, sizeof(quoted), name, strlen(name)), words[outcome],
	    (long)(int32_t)cluster->ordered_by);
	cluster->told.order_number = cluster->ordered;
	cluster->told.order_outcome = outcome;
	cluster->call.other[0] = '\0';
	cluster->looked_ns = 0;
	cluster->news = true;
}

void cluster_take_order(struct cluster *cluster) {
	char name[CLUSTER_TOLD_NAME];
	uid_t uid;
	uint64_t number = engine_cluster_ordered(cluster->engine, name, &uid);

	if (cluster->call.out || number == 0 || number == cluster->told.order_number)
		return;
	cluster->ordered = number;
	cluster->ordered_by = uid;
	if (strcmp(name, cluster->link.node) == 0)
		cluster_end_order(cluster, name, CLUSTER_OUTCOME_ITSELF);
	else if (!cluster->belongs || !cluster_node_name_is_good(name))
		cluster_end_order(cluster, name, CLUSTER_OUTCOME_FAILED);
	else
		text_append(cluster->call.other, sizeof(cluster->call.other), 0, "%s", name);
}

void cluster_forgot(struct cluster *cluster, const struct cluster_answer *answer) {
	switch (answer->status) {
	case CLUSTER_OK:
		cluster->told.nodes_known = answer->known;
		cluster->told.nodes_alive = answer->alive;
		drop_node(&cluster->told, cluster->call.other);
		cluster_end_order(cluster, cluster->call.other, CLUSTER_OUTCOME_DONE);
		break;
	case CLUSTER_ALIVE:
		cluster_end_order(cluster, cluster->call.other, CLUSTER_OUTCOME_ALIVE);
		break;
	case CLUSTER_BAD:
		if (strcmp(answer->text, CLUSTER_NO_SUCH_NODE) == 0) {
			cluster_end_order(cluster, cluster->call.other, CLUSTER_OUTCOME_UNKNOWN);
			break;
		}
		cluster_end_order(cluster, cluster->call.other, CLUSTER_OUTCOME_FAILED);
		cluster_refused(cluster, answer);
		break;
	case CLUSTER_AGAIN:
	case CLUSTER_OLD:
		/* another epoch knows nothing of it; nor does this answer, of a call before */
		cluster_end_order(cluster, cluster->call.other, CLUSTER_OUTCOME_UNSURE);
		break;
	case CLUSTER_REFUSED:
	case CLUSTER_NONSENSE:
		cluster_end_order(cluster, cluster->call.other, CLUSTER_OUTCOME_UNSURE);
		cluster_refused(cluster, answer);
		break;
	default:
		cluster_end_order(cluster, cluster->call.other, CLUSTER_OUTCOME_FAILED);
		cluster_refused(cluster, answer);
	}
}
