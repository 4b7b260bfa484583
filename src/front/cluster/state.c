/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the cluster role tells of itself: in the segment, in the log, in counters.
 * MODEL    The state follows from what there is: a connection that belongs, an end of what
 *          is leased, an error that people have to mend.  A log line comes with each change,
 *          and each minute where something is wrong.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/order.h"
#include "base/text.h"
#include "engine/cluster/cluster.h"
#include "front/cluster/internal.h"
#include "segment/cluster/cluster_told.h"

#define TELL_NS		NS_PER_SECOND
/* The same kind of error, for another reason. */
#define OTHER_NS	(2 * NS_PER_SECOND)
#define AGAIN_NS	(60 * NS_PER_SECOND)

/* --- errors ------------------------------------------------------------------------ */

void cluster_failed(struct cluster *cluster, enum cluster_error error, const char *text,
    int64_t now_ns) {
	struct cluster_told *told = &cluster->told;
	char sentence[sizeof(told->why)], before[sizeof(told->why)];

	memcpy(before, told->why, sizeof(before));
	told->errors[error]++;
	told->error = (uint32_t)error + 1;
	told->error_ns = now_ns;
	/* of a script's command Redis does not tell the name */
	text_append(told->why, sizeof(told->why), 0, "%s%s", error == CLUSTER_ERROR_PERMISSION ?
	    "compare the Redis user with redis-postern.conf: " : "",
	    log_sentence(sentence, sizeof(sentence), text));
	engine_count(cluster->engine, COUNTER_CLUSTER_ERRORS, 1);
	cluster->news = true;
	if (cluster->complained_of == told->error && now_ns - cluster->complained_ns <
	    (strcmp(before, told->why) == 0 ? AGAIN_NS : OTHER_NS))
		return;
	cluster->complained_of = told->error;
	cluster->complained_ns = now_ns;
	log_event(EVENT_CLUSTER_FAILED, "node=%s error=%s text=\"%s\"", cluster->link.node,
	    cluster_error_word(error), told->why);
}

void cluster_worked(struct cluster *cluster) {
	cluster->refused_ns = 0;
	server_works(cluster->server);
}

/* --- round trips --------------------------------------------------------------------- */

static int by_length(const void *a, const void *b) {
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return ORDER(x, y);
}

void cluster_round(struct cluster *cluster, int64_t took_ns) {
	int64_t us = took_ns / 1000;

	cluster->rounds_us[cluster->round_count++ % ROUNDS] =
	    us < 0 ? 0 : us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
	cluster->told.rounds++;
}

static void measure_rounds(struct cluster *cluster) {
	uint32_t sorted[ROUNDS];
	size_t count = cluster->round_count < ROUNDS ? cluster->round_count : ROUNDS;

	if (count == 0)
		return;
	memcpy(sorted, cluster->rounds_us, count * sizeof(sorted[0]));
	qsort(sorted, count, sizeof(sorted[0]), by_length);
	cluster->told.round_median_us = sorted[count / 2];
	cluster->told.round_p99_us = sorted[(count * 99 - 1) / 100];
}

/* --- the state ------------------------------------------------------------------------- */

static enum cluster_state state_of(const struct cluster *cluster, int64_t now_ns) {
	const struct cluster_told *told = &cluster->told;
	int64_t lease_ns = cluster->link.lease_ms * NS_PER_MS;
	/* what ended before this role began is no news, as long as nothing has failed */
	bool ended = told->until_ns > cluster->began_ns ||
	    (told->until_ns > 0 && told->error_ns >= cluster->began_ns);
	int64_t end_ns = ended ? told->until_ns : cluster->began_ns + lease_ns;

	/* until an answer says that the time is over */
	if (cluster->belongs && told->wait_until_ns != 0)
		return CLUSTER_STATE_WAITING;
	if (cluster->belongs && cluster->shared_ns != 0 && told->until_ns > now_ns)
		return CLUSTER_STATE_JOINED;
	if (!cluster->belongs && told->error != 0 &&
	    cluster_error_refuses((enum cluster_error)(told->error - 1)))
		return CLUSTER_STATE_REFUSED;
	return now_ns < end_ns || (cluster->belongs && !cluster->answered) ?
	    CLUSTER_STATE_CONNECTING : CLUSTER_STATE_WITHOUT;
}

static void change_state(struct cluster *cluster, enum cluster_state state, int64_t now_ns) {
	struct cluster_told *told = &cluster->told;
	bool well = state == CLUSTER_STATE_JOINED || state == CLUSTER_STATE_WAITING;

	told->state = state;
	told->since_ns = now_ns;
	cluster->news = true;
	if (well)
		cluster->complained_of = 0;
	if (state == CLUSTER_STATE_JOINED)
		told->lost = 0;
	if (state == CLUSTER_STATE_WITHOUT)
		log_event(EVENT_CLUSTER_FAILED, "node=%s state=without text=\"all leases of "
		    "this node have ended; cluster.when_unreachable applies\"", cluster->link.node);
	else if (state == CLUSTER_STATE_WAITING)
		log_event(EVENT_CLUSTER, "node=%s state=waiting nodes=%u text=\"the server %s: "
		    "no leases for %llu s\"", cluster->link.node,
		    (unsigned)told->nodes_alive, told->lost != 0 ? "was restarted or has lost "
		    "its data" : "is new, or was restarted", (unsigned long long)
		    (told->wait_until_ns > now_ns ? (told->wait_until_ns - now_ns + NS_PER_SECOND - 1) /
		    NS_PER_SECOND : 0));
	else
		log_event(EVENT_CLUSTER, "node=%s state=%s nodes=%u", cluster->link.node,
		    cluster_state_word(state), (unsigned)told->nodes_alive);
}

/* Loud: others may do the same. */
static void watch_alone(struct cluster *cluster, int64_t now_ns) {
	unsigned count = 0;

	for (unsigned i = 0; i < cluster->turns.member_count; i++)
		count += cluster->turns.members[i].now.state == SHARE_ALONE;
	cluster->told.alone = count > 0;
	if (count == 0) {
		cluster->alone_ns = 0;
		return;
	}
	if (cluster->alone_ns != 0 && now_ns - cluster->alone_ns < AGAIN_NS)
		return;
	cluster->alone_ns = now_ns;
	cluster->news = true;
	log_event(EVENT_CLUSTER_ALONE, "node=%s classes=%u", cluster->link.node, count);
}

static const struct shares_member *first_that_differs(const struct shares_turns *turns) {
	for (unsigned i = 0; i < turns->member_count; i++)
		if (turns->members[i].differs)
			return &turns->members[i];
	return NULL;
}

static const struct shares_member *member_called(const struct shares_turns *turns,
    const char *quoted) {
	char name[sizeof(((struct cluster_told *)NULL)->differs)];

	for (unsigned i = 0; i < turns->member_count; i++)
		if (strcmp(log_quote(name, sizeof(name), turns->members[i].name,
			strlen(turns->members[i].name)), quoted) == 0)
			return &turns->members[i];
	return NULL;
}

/* The class that differs is another one now, or none. */
static void change_difference(struct cluster *cluster, const char *differs) {
	struct cluster_told *told = &cluster->told;
	const struct shares_member *last = member_called(&cluster->turns, told->differs);

	/* else it differs still, behind another one */
	if (cluster->differed[0] != '\0' && (last == NULL || !last->differs))
		log_event(EVENT_CLUSTER, "node=%s class=%s text=\"%s\"", cluster->link.node,
		    told->differs, last == NULL ? "the class is no longer shared" :
		    "its limits, fraction and number of nodes are the same on all nodes again");
	text_append(told->differs, sizeof(told->differs), 0, "%s", differs);
	told->differs_why[0] = cluster->differed[0] = '\0';
	/* who, and in what: a look tells */
	cluster->looked_ns = 0;
	cluster->looked = false;
}

static void watch_differences(struct cluster *cluster) {
	struct cluster_told *told = &cluster->told;
	const struct shares_member *member = first_that_differs(&cluster->turns);
	char differs[sizeof(told->differs)] = "";

	/* what the role before this one knew holds until an answer says that it is over */
	if (member == NULL && (!cluster->answered || told->wait_until_ns != 0))
		return;
	if (member != NULL)
		log_quote(differs, sizeof(differs), member->name, strlen(member->name));
	if (strcmp(differs, told->differs) != 0)
		change_difference(cluster, differs);
	if (member == NULL || !cluster->looked)
		return;
	/* none: it was mended, and the next answer says so; or there was no room for it */
	if (told->differs_why[0] == '\0')
		text_append(told->differs_why, sizeof(told->differs_why), 0, "%s",
		    cluster->differed[0] != '\0' ? cluster->differed : "other nodes have a "
		    "different limit, fraction or number of nodes: the lowest limit applies");
	if (strcmp(cluster->differed, told->differs_why) == 0)
		return;
	text_append(cluster->differed, sizeof(cluster->differed), 0, "%s", told->differs_why);
	log_event(EVENT_CLUSTER_FAILED, "node=%s class=%s text=\"%s\"", cluster->link.node,
	    told->differs, told->differs_why);
}

static void count_knowledge(struct cluster *cluster) {
	struct knowledge_counts counts;

	knowledge_front_count(cluster->knowledge, &counts);
	cluster->told.destinations = counts.destinations;
	cluster->told.divided = counts.divided;
	cluster->told.unwritten = counts.waiting;
	/* until then the count of the role before this one holds */
	cluster->placed = cluster->placed || (counts.synced_ns != 0 && counts.untried == 0);
	if (cluster->placed)
		cluster->told.unplaced = counts.unplaced;
	cluster->told.compared_ns = counts.synced_ns;
}

/* At the first that has no place, and when all have one; once, whatever becomes of roles. */
static void watch_places(struct cluster *cluster) {
	unsigned long long unplaced = cluster->told.unplaced;

	if (cluster->was_full == (unplaced > 0))
		return;
	cluster->was_full = unplaced > 0;
	if (unplaced > 0)
		log_event(EVENT_CLUSTER_FAILED, "node=%s unplaced=%llu text=\"the table of "
		    "destinations is full: states of %llu destinations from other nodes have "
		    "no effect here; raise state.destinations and restart\"",
		    cluster->link.node, unplaced, unplaced);
	else
		log_event(EVENT_CLUSTER, "node=%s unplaced=0 text=\"the table of destinations "
		    "has room again for the states of other nodes\"", cluster->link.node);
}

void cluster_tell(struct cluster *cluster, int64_t now_ns) {
	enum cluster_state state = state_of(cluster, now_ns);
	struct cluster_told *told = &cluster->told;
	uint64_t commands = server_commands(cluster->server);

	if (state != (enum cluster_state)told->state || told->since_ns == 0)
		change_state(cluster, state, now_ns);
	watch_alone(cluster, now_ns);
	if (!cluster->news && now_ns - cluster->told_ns < TELL_NS)
		return;
	watch_differences(cluster);
	engine_count(cluster->engine, COUNTER_CLUSTER_COMMANDS, commands - told->commands);
	told->commands = commands;
	told->hears = cluster->hears;
	text_append(told->epoch, sizeof(told->epoch), 0, "%s", cluster->link.epoch);
	measure_rounds(cluster);
	count_knowledge(cluster);
	watch_places(cluster);
	told->told_ns = now_ns;
	cluster_told_write(engine_cluster_told(cluster->engine), told);
	cluster->told_ns = now_ns;
	cluster->news = false;
}
