/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What posternctl top shows, copied out of the state file.
 * MODEL    Each look takes classes and destinations anew and adds the decisions that came
 *          since the last one.  What is counted becomes a rate over the time between two looks.
 * ERRORS   A state file that is gone leaves what was seen last, and says so.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/act/state.h"
#include "ctl/show/top.h"
#include "view/cluster.h"
#include "view/health.h"

#define ROLE_OLD_NS	(3 * NS_PER_SECOND)

/* --- the filter ------------------------------------------------------------------------- */

static bool wants(const void *context, const char *name) {
	return strcasestr(name, context) != NULL;
}

/* --- classes ------------------------------------------------------------------------------ */

/* A count that fell is of another segment. */
static double rate_of(uint64_t now, uint64_t before, double seconds) {
	return seconds <= 0 || now < before ? 0 : (double)(now - before) / seconds;
}

static void take_class(struct top *top, const struct reader_class *class, uint32_t place,
    double seconds) {
	struct top_counted *before = &top->counted_of[class->record];
	struct view_share share = { .share = 0 };

	if (view_class_share(&top->view, class, &share))
		top->cluster.overhang += share.overhang;
	if (strcasestr(class->name, top->filter) != NULL) {
		top->shares |= class->shared;
		top->classes[top->class_count++] = (struct top_class){ .class = *class,
			.share = share, .place = place,
			.trouble = view_class_trouble(&top->view, class),
			.admitted = rate_of(class->admitted, before->admitted, seconds),
			.refused = rate_of(class->refused, before->refused, seconds) };
	}
	*before = (struct top_counted){ class->admitted, class->refused };
}

static bool gather_classes(struct top *top, double seconds) {
	struct view_classes found;
	struct top_class *list = NULL;

	if (view_classes_read_in_order(&top->view, &found))
		list = calloc(found.count + 1, sizeof(*list));
	if (list == NULL) {
		free(found.list);
		errno = ENOMEM;
		return false;
	}
	free(top->classes);
	top->classes = list;
	top->class_count = 0;
	top->cluster.overhang = 0;
	top->shares = false;
	for (uint32_t i = 0; i < found.count; i++)
		take_class(top, &found.list[i], found.list[i].removed ? UINT32_MAX : i, seconds);
	free(found.list);
	return true;
}

/* --- destinations -------------------------------------------------------------------------- */

/* Windows and recipients: so many of each. */
static bool gather_destinations(struct top *top) {
	view_destinations_free(&top->found);
	top->destination_count = 0;
	top->choice = (struct view_choice){ .wants = wants, .context = top->filter,
		.most = TOP_DESTINATIONS_MAX };
	if (top->destinations == NULL)
		top->destinations = calloc(2 * (size_t)TOP_DESTINATIONS_MAX,
		    sizeof(*top->destinations));
	if (top->destinations == NULL ||
	    view_destinations_gather(&top->view, &top->choice, &top->found) != 0)
		return false;
	while (top->destination_count < view_destinations_count(&top->found)) {
		struct view_destination *taken = &top->destinations[top->destination_count];

		*taken = view_destination_at(&top->found, top->destination_count++);
		if (!taken->begun)
			taken->reason = "";
		if (!taken->has_window)
			taken->window = taken->ceiling = taken->in_flight = 0;
	}
	return true;
}

/* --- decisions ---------------------------------------------------------------------------- */

/* Of a flood the last ones count, of each ring: traffic does not wash out what became of
 * destinations. */
static void keep_last(struct decided_batch *batch) {
	size_t kept = 0, of_ring[DECIDED_RINGS] = { 0 };

	for (size_t i = 0; i < batch->count; i++) {
		enum decided_ring ring = decided_ring_of((enum decided_kind)batch->list[i].kind);

		if (of_ring[ring]++ < TOP_DECISIONS_MAX)
			batch->list[kept++] = batch->list[i];
	}
	batch->count = kept;
}

static bool gather_decisions(struct top *top, int64_t now_ns) {
	struct decided_batch *batch = &top->decisions;
	uint64_t lost = 0;	/* top shows the latest alone */

	batch->most = TOP_DECISIONS_MAX;
	decided_batch_follow(batch, top->view.reader, top->cursors, now_ns, &lost);
	decided_batch_sort(batch, true);
	keep_last(batch);
	return !batch->no_memory;
}

/* --- the header ------------------------------------------------------------------------------ */

static void gather_rates(struct top *top, double seconds) {
	const uint64_t *counters = top->view.status.counters;
	const uint64_t now[TOP_RATES] = {
		[TOP_QUESTIONS] = counters[COUNTER_QUESTIONS] +
		    counters[COUNTER_OUTBOUND_QUESTIONS],
		[TOP_REFUSED] = counters[COUNTER_REFUSED],
		[TOP_DEFERRED] = counters[COUNTER_DEFERRED],
		[TOP_OBSERVED] = counters[COUNTER_OBSERVED],
		[TOP_RESULTS] = counters[COUNTER_FEED_DELIVERIES],
	};

	for (unsigned i = 0; i < TOP_RATES; i++) {
		top->rates[i] = rate_of(now[i], top->counted[i], seconds);
		top->counted[i] = now[i];
	}
}

static void gather_roles(struct top *top) {
	const struct reader_status *status = &top->view.status;
	struct reader_role role;

	top->roles = top->roles_away = top->roles_old = top->roles_behind = 0;
	for (uint32_t i = 0; reader_role(top->view.reader, i, &role); i++) {
		top->roles++;
		if (role.pid <= 0)
			top->roles_away++;
		else if (status->now_ns - role.heartbeat_ns > ROLE_OLD_NS)
			top->roles_old++;
		else if (health_role_is_behind(&top->view, &role))
			top->roles_behind++;
	}
	top->journal_ill = false;
	for (unsigned i = 0; i < SEGMENT_JOURNALS; i++)
		top->journal_ill |= status->journals[i].fares == JOURNAL_FARES_ILL;
}

static void gather_cluster(struct top *top) {
	const struct generation *g = top->view.generation;
	struct top_cluster *cluster = &top->cluster;

	cluster->is_there = g != NULL && generation_has_cluster(g);
	if (!cluster->is_there)
		return;
	(void)reader_cluster(top->view.reader, &cluster->told);
	cluster->state = view_cluster_state(&top->view, &cluster->told);
	(void)text_append(cluster->node, sizeof(cluster->node), 0, "%s",
	    generation_text(g, g->cluster.node));
	cluster->most = g->cluster.nodes;
}

bool top_gather(struct top *top, int64_t now_ns) {
	double seconds = top->looked_ns == 0 ? 0 :
	    (double)(now_ns - top->looked_ns) / (double)NS_PER_SECOND;
	int64_t created_ns = top->view.status.created_ns;
	struct diag diag;

	if (view_refresh(&top->view, &diag) != 0) {
		top->is_there = false;
		text_copy(top->trouble, sizeof(top->trouble), diag.text, strlen(diag.text));
		return true;
	}
	state_look_for_daemon(&top->view);
	top->is_there = true;
	top->trouble[0] = '\0';
	if (created_ns != top->view.status.created_ns) {	/* another segment */
		memset(top->cursors, 0, sizeof(top->cursors));
		seconds = 0;
	}
	top->looked_ns = now_ns;
	gather_rates(top, seconds);
	gather_roles(top);
	view_verdict(&top->view, &top->verdict);
	gather_cluster(top);
	if (!gather_classes(top, seconds) || !gather_destinations(top) ||
	    !gather_decisions(top, now_ns))
		return false;
	top_order(top);
	return true;
}

void top_free(struct top *top) {
	free(top->classes);
	view_destinations_free(&top->found);
	free(top->destinations);
	free(top->decisions.list);
	top->classes = NULL;
	top->destinations = NULL;
	top->decisions.list = NULL;
	view_close(&top->view);
}
