/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The cluster at a glance: posternctl cluster.
 * MODEL    What the role wrote down of Redis and the other nodes; what this machine may use
 *          of each class comes from the classes' own records.
 * THREADS  One.
 */
#include "view/cluster.h"

#include <stdlib.h>

#include "base/clock.h"
#include "segment/cluster/cluster_told.h"
#include "view/classes.h"

#define SILENT_NS	(10 * NS_PER_SECOND)

struct shown {
	const struct view *view;
	const struct cluster_told *told;
	struct view_classes classes;
};

struct value view_cluster_state(const struct view *view, const struct cluster_told *told) {
	enum cluster_state state = (enum cluster_state)told->state;
	enum tone tone = state == CLUSTER_STATE_JOINED ? TONE_GOOD :
	    state == CLUSTER_STATE_CONNECTING || state == CLUSTER_STATE_WAITING ? TONE_WARN :
	    TONE_BAD;

	if (view->generation == NULL || !generation_has_cluster(view->generation))
		return value_text("none");
	/* the role is not there, or hangs */
	if (view->status.now_ns - told->told_ns > SILENT_NS)
		return value_toned(value_text("away"), TONE_BAD);
	return value_toned(value_text(cluster_state_word(state)), tone);
}

/* --- classes ------------------------------------------------------------------------- */

static const struct reader_class *class_of(const struct shown *shown, uint16_t record) {
	for (size_t i = 0; i < shown->classes.count; i++)
		if (shown->classes.list[i].record == record)
			return &shown->classes.list[i];
	return NULL;
}

static uint64_t overhang_of(const struct shown *shown) {
	uint64_t overhang = 0;

	for (size_t i = 0; i < shown->classes.count; i++) {
		struct view_share share;

		if (view_class_share(shown->view, &shown->classes.list[i], &share))
			overhang += share.overhang;
	}
	return overhang;
}

static void class_row(void *context, struct writer *writer, const void *item) {
	const struct shown *shown = context;
	const struct reader_class *class = item;

	writer_text(writer, "class", class->name);
	writer_member(writer, "hold_at", COLUMN_NUMBER, value_limit(class->sessions));
	writer_member(writer, "refuse_at", COLUMN_NUMBER, value_limit(class->inbound));
	writer_number(writer, "open", class->open);
	view_class_share_put(shown->view, class, writer);
}

static void class_rows(void *context, struct writer *writer) {
	const struct view_classes *classes = &((const struct shown *)context)->classes;

	for (size_t i = 0; i < classes->count; i++)
		if (classes->list[i].shared)
			writer_row(writer, &classes->list[i]);
}

/* --- nodes --------------------------------------------------------------------------- */

static void sum_up(const struct cluster_told *told, uint32_t node, uint64_t sums[2]) {
	sums[0] = sums[1] = 0;
	for (uint32_t i = 0; i < told->cell_count; i++) {
		if (told->cells[i].node != node)
			continue;
		sums[0] += (uint64_t)told->cells[i].leased_base + told->cells[i].leased_extra;
		sums[1] += told->cells[i].open;
	}
}

static void node_row(void *context, struct writer *writer, const void *item) {
	const struct shown *shown = context;
	const struct cluster_told_node *node = item;
	uint64_t sums[2];

	sum_up(shown->told, (uint32_t)(node - shown->told->nodes), sums);
	writer_text(writer, "node", node->name);
	writer_truth(writer, "itself", node->itself != 0);
	writer_member(writer, "alive", COLUMN_TRUTH, value_toned_if(value_truth(node->alive != 0),
	    node->alive == 0, TONE_WARN));
	writer_seconds(writer, "last_word", value_since( shown->view->status.now_ns,
	    node->word_ns));
	writer_number(writer, "leased", sums[0]);
	writer_number(writer, "open", sums[1]);
}

/* --- leases -------------------------------------------------------------------------- */

static bool differs_from(const struct reader_class *class, const struct cluster_told_cell *cell) {
	bool fewer = class->inbound < class->sessions;
	uint32_t base = fewer ? class->inbound : class->sessions;
	uint32_t most = fewer ? class->sessions : class->inbound;

	return cell->limit_base != base || cell->limit_extra != most - base;
}

static void lease_row(void *context, struct writer *writer, const void *item) {
	static const struct reader_class none;
	const struct shown *shown = context;
	const struct cluster_told_cell *cell = item;
	const struct reader_class *found = class_of(shown, cell->class_record);
	const struct reader_class *class = found == NULL ? &none : found;

	writer_text(writer, "class", class->name);
	writer_text(writer, "node", shown->told->nodes[cell->node].name);
	writer_number(writer, "share_fixed", (uint64_t)class->share_fixed[0] +
	    class->share_fixed[1]);
	writer_number(writer, "leased", (uint64_t)cell->leased_base + cell->leased_extra);
	writer_number(writer, "wanted", (uint64_t)cell->want_base + cell->want_extra);
	writer_number(writer, "open", cell->open);
	writer_member(writer, "limit", COLUMN_NUMBER, value_toned_if(value_number(
	    (uint64_t)cell->limit_base + cell->limit_extra), differs_from(class, cell),
	    TONE_WARN));
}

static void lease_rows(void *context, struct writer *writer) {
	const struct shown *shown = context;

	for (uint32_t i = 0; i < shown->told->cell_count; i++)
		if (class_of(shown, shown->told->cells[i].class_record) != NULL)
			writer_row(writer, &shown->told->cells[i]);
}

/* --- all of it ------------------------------------------------------------------------ */

static void write_state(struct writer *writer, const struct shown *shown) {
	const struct cluster_told *told = shown->told;
	const struct generation *g = shown->view->generation;
	int64_t now_ns = shown->view->status.now_ns;
	bool joined = told->state == CLUSTER_STATE_JOINED;
	bool waits = told->state == CLUSTER_STATE_WAITING;
	/* what went wrong before is not what is waited for */
	bool has_error = told->error != 0 && !(waits && told->error_ns < told->since_ns);

	writer_text_if(writer, "node", g == NULL ? "" : generation_text(g, g->cluster.node));
	writer_member(writer, "state", COLUMN_TEXT, view_cluster_state(shown->view, told));
	writer_seconds(writer, "age", value_since(now_ns, told->since_ns));
	writer_seconds(writer, "told", value_since(now_ns, told->told_ns));
	writer_text_if(writer, "server", told->server);
	writer_seconds(writer, "wait", value_until(now_ns, waits ? told->wait_until_ns : 0));
	writer_text(writer, "wait_text", !waits ? NULL : told->lost != 0 ? "the server was "
	    "restarted or has lost its data" : "the server is new, or was restarted");
	writer_seconds(writer, "retry", value_until(now_ns, joined ? 0 : told->next_ns));
	writer_member(writer, "error", COLUMN_TEXT, value_toned_if(value_text(!has_error ? NULL :
	    cluster_error_word((enum cluster_error)(told->error - 1))), has_error && !joined,
	    TONE_BAD));
	writer_seconds(writer, "error_age", value_since(now_ns, has_error ? told->error_ns :
	    0));
	writer_text_if(writer, "error_text", has_error ? told->why : "");
	writer_member(writer, "differs", COLUMN_TEXT, value_toned(value_text_if(told->differs),
	    TONE_WARN));
	writer_member(writer, "differs_text", COLUMN_TEXT, value_toned(value_text_if(
	    told->differs_why), TONE_WARN));
}

static void write_lease(struct writer *writer, const struct shown *shown) {
	const struct cluster_told *told = shown->told;
	const struct generation_cluster *settings = shown->view->generation == NULL ? NULL :
	    &shown->view->generation->cluster;
	int64_t now_ns = shown->view->status.now_ns;
	uint64_t overhang = overhang_of(shown);

	writer_member(writer, "nodes_most", COLUMN_NUMBER, settings == NULL ? value_unknown() :
	    value_number(settings->nodes));
	writer_number(writer, "nodes_known", told->nodes_known);
	writer_number(writer, "nodes_alive", told->nodes_alive);
	writer_seconds(writer, "lease", settings == NULL ? value_unknown() :
	    value_number((uint64_t)(settings->lease_ns / NS_PER_SECOND)));
	writer_seconds(writer, "renewed", value_since(now_ns, told->renewed_ns));
	writer_seconds(writer, "leased_for", value_until(now_ns, told->until_ns));
	writer_text(writer, "when_unreachable", settings == NULL ? NULL :
	    settings->when_unreachable == CLUSTER_ALONE ? "alone" : "fraction");
	writer_member(writer, "alone", COLUMN_TRUTH, value_toned_if(value_truth(told->alone != 0),
	    told->alone != 0, TONE_BAD));
	writer_member(writer, "overhang", COLUMN_NUMBER, value_counted(overhang));
	writer_text_if(writer, "epoch", told->epoch);
	writer_number(writer, "round_trips", told->rounds);
	writer_decimal(writer, "round_trip_median_ms", value_number_if( told->rounds != 0,
	    told->round_median_us));
	writer_decimal(writer, "round_trip_p99_ms", value_number_if( told->rounds != 0,
	    told->round_p99_us));
	writer_number(writer, "commands", told->commands);
}

static void write_knowledge(struct writer *writer, const struct shown *shown) {
	const struct cluster_told *told = shown->told;
	bool deaf = told->state == CLUSTER_STATE_JOINED && told->hears == 0;

	writer_member(writer, "hears", COLUMN_TRUTH, value_toned_if(value_truth(told->hears != 0),
	    deaf, TONE_WARN));
	writer_seconds(writer, "compared", value_since( shown->view->status.now_ns,
	    told->compared_ns));
	writer_number(writer, "destinations", told->destinations);
	writer_number(writer, "divided", told->divided);
	writer_number(writer, "unwritten", told->unwritten);
	writer_member(writer, "unplaced", COLUMN_NUMBER, value_toned_if(value_number(
	    told->unplaced), told->unplaced > 0, TONE_BAD));
}

static void write_errors(struct writer *writer, const struct cluster_told *told) {
	writer_object_begin(writer, "errors");
	for (unsigned i = 0; i < CLUSTER_ERRORS; i++)
		writer_member(writer, cluster_error_word((enum cluster_error)i), COLUMN_NUMBER,
		    value_counted(told->errors[i]));
	writer_object_end(writer);
}

int view_cluster_write(const struct view *view, struct writer *writer) {
	struct cluster_told told;
	struct shown shown = { .view = view, .told = &told };

	(void)reader_cluster(view->reader, &told);
	if (!view_classes_read(view, &shown.classes))
		return -1;
	writer_object_begin(writer, NULL);
	write_state(writer, &shown);
	write_lease(writer, &shown);
	write_knowledge(writer, &shown);
	write_errors(writer, &told);
	writer_table(writer, &(const struct table){ .name = "nodes", .row = node_row,
	    .context = &shown, .items = told.nodes, .count = told.node_count,
	    .each = sizeof(told.nodes[0]) });
	writer_table(writer, &(const struct table){ .name = "classes", .row = class_row,
	    .context = &shown, .rows = class_rows });
	writer_table(writer, &(const struct table){ .name = "leases", .row = lease_row,
	    .context = &shown, .rows = lease_rows });
	writer_object_end(writer);
	free(shown.classes.list);
	return 0;
}
