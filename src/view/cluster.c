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

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define SILENT_NS	(10 * NS_PER_SECOND)

struct shown {
	const struct view *view;
	const struct generation_cluster *settings;	/* NULL: not known */
	const struct cluster_told *told;
	struct reader_class *classes;
	size_t class_count, class_size;
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

/* Seconds until `then_ns`, not known where that is past. */
static struct value value_until(int64_t now_ns, int64_t then_ns) {
	if (then_ns <= now_ns)
		return value_unknown();
	return value_number((uint64_t)((then_ns - now_ns + NS_PER_SECOND - 1) / NS_PER_SECOND));
}

static struct value value_ms(uint64_t us, uint64_t rounds) {
	return rounds == 0 ? value_unknown() : (struct value){ .known = true, .number = us };
}

static struct value text_or_none(const char *text) {
	return value_text(text[0] == '\0' ? NULL : text);
}

/* --- classes ------------------------------------------------------------------------- */

static void keep_class(void *context, const struct reader_class *class) {
	struct shown *shown = context;

	if (class->shared && shown->class_count < shown->class_size)
		shown->classes[shown->class_count++] = *class;
}

static const struct reader_class *class_of(const struct shown *shown, uint16_t record) {
	for (size_t i = 0; i < shown->class_count; i++)
		if (shown->classes[i].record == record)
			return &shown->classes[i];
	return NULL;
}

static uint64_t overhang_of(const struct shown *shown) {
	uint64_t overhang = 0;

	for (size_t i = 0; i < shown->class_count; i++) {
		struct view_share share;

		if (view_class_share(shown->view, &shown->classes[i], &share))
			overhang += share.overhang;
	}
	return overhang;
}

static void class_rows(void *context, struct writer *writer) {
	const struct shown *shown = context;

	for (size_t i = 0; i < shown->class_count; i++) {
		const struct reader_class *class = &shown->classes[i];
		struct view_share share;
		const struct view_limits limits = view_class_limits(shown->view, class);
		const struct value values[] = {
			value_text(class->name),
			value_limit(class->sessions), value_limit(class->inbound),
			value_number(class->open),
			view_class_share(shown->view, class, &share) ? value_text(share.lease) :
			    value_unknown(),
			value_number(share.share), value_number(share.fixed),
			value_toned_if(value_number(share.overhang), share.overhang > 0, TONE_WARN),
			value_number(class->share_refused[0] + class->share_refused[1]),
			view_in_force(limits.sessions, class->sessions),
			view_in_force(limits.inbound, class->inbound),
		};

		writer_row(writer, values);
	}
}

static void write_classes(struct writer *writer, struct shown *shown) {
	static const struct column columns[] = {
		{ "class", COLUMN_TEXT },
		{ "hold_at", COLUMN_NUMBER },
		{ "refuse_at", COLUMN_NUMBER },
		{ "open", COLUMN_NUMBER },
		{ "lease", COLUMN_TEXT },
		{ "share", COLUMN_NUMBER },
		{ "share_fixed", COLUMN_NUMBER },
		{ "overhang", COLUMN_NUMBER },
		{ "refused_share", COLUMN_NUMBER },
		{ "sessions_in_force", COLUMN_NUMBER },
		{ "inbound_in_force", COLUMN_NUMBER },
	};

	writer_table(writer, "classes", columns, COUNT_OF(columns), class_rows, shown);
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

static void node_rows(void *context, struct writer *writer) {
	const struct shown *shown = context;
	const struct cluster_told *told = shown->told;

	for (uint32_t i = 0; i < told->node_count; i++) {
		const struct cluster_told_node *node = &told->nodes[i];
		uint64_t sums[2];

		sum_up(told, i, sums);
		writer_row(writer, (const struct value[]){
			value_text(node->name), value_truth(node->itself != 0),
			value_toned_if(value_truth(node->alive != 0), node->alive == 0, TONE_WARN),
			value_since(shown->view->status.now_ns, node->word_ns),
			value_number(sums[0]), value_number(sums[1]) });
	}
}

static void write_nodes(struct writer *writer, struct shown *shown) {
	static const struct column columns[] = {
		{ "node", COLUMN_TEXT },
		{ "itself", COLUMN_TRUTH },
		{ "alive", COLUMN_TRUTH },
		{ "last_word", COLUMN_SECONDS },
		{ "leased", COLUMN_NUMBER },
		{ "open", COLUMN_NUMBER },
	};

	writer_table(writer, "nodes", columns, COUNT_OF(columns), node_rows, shown);
}

/* --- leases -------------------------------------------------------------------------- */

static bool differs_from(const struct reader_class *class, const struct cluster_told_cell *cell) {
	bool fewer = class->inbound < class->sessions;
	uint32_t base = fewer ? class->inbound : class->sessions;
	uint32_t most = fewer ? class->sessions : class->inbound;

	return cell->limit_base != base || cell->limit_extra != most - base;
}

static void lease_rows(void *context, struct writer *writer) {
	const struct shown *shown = context;
	const struct cluster_told *told = shown->told;

	for (uint32_t i = 0; i < told->cell_count; i++) {
		const struct cluster_told_cell *cell = &told->cells[i];
		const struct reader_class *class = class_of(shown, cell->class_record);

		if (class == NULL)
			continue;
		writer_row(writer, (const struct value[]){
			value_text(class->name), value_text(told->nodes[cell->node].name),
			value_number((uint64_t)class->share_fixed[0] + class->share_fixed[1]),
			value_number((uint64_t)cell->leased_base + cell->leased_extra),
			value_number((uint64_t)cell->want_base + cell->want_extra),
			value_number(cell->open),
			value_toned_if(value_number((uint64_t)cell->limit_base + cell->limit_extra),
			    differs_from(class, cell), TONE_WARN) });
	}
}

static void write_leases(struct writer *writer, struct shown *shown) {
	static const struct column columns[] = {
		{ "class", COLUMN_TEXT },
		{ "node", COLUMN_TEXT },
		{ "share_fixed", COLUMN_NUMBER },
		{ "leased", COLUMN_NUMBER },
		{ "wanted", COLUMN_NUMBER },
		{ "open", COLUMN_NUMBER },
		{ "limit", COLUMN_NUMBER },
	};

	writer_table(writer, "leases", columns, COUNT_OF(columns), lease_rows, shown);
}

/* --- all of it ------------------------------------------------------------------------ */

static void write_state(struct writer *writer, const struct shown *shown) {
	static const struct column columns[] = {
		{ "node", COLUMN_TEXT },
		{ "state", COLUMN_TEXT },
		{ "age", COLUMN_SECONDS },
		{ "told", COLUMN_SECONDS },
		{ "server", COLUMN_TEXT },
		{ "wait", COLUMN_SECONDS },
		{ "wait_text", COLUMN_TEXT },
		{ "retry", COLUMN_SECONDS },
		{ "error", COLUMN_TEXT },
		{ "error_age", COLUMN_SECONDS },
		{ "error_text", COLUMN_TEXT },
		{ "differs", COLUMN_TEXT },
		{ "differs_text", COLUMN_TEXT },
	};
	const struct cluster_told *told = shown->told;
	const struct generation *g = shown->view->generation;
	int64_t now_ns = shown->view->status.now_ns;
	bool joined = told->state == CLUSTER_STATE_JOINED;
	bool waits = told->state == CLUSTER_STATE_WAITING;
	/* what went wrong before is not what is waited for */
	bool has_error = told->error != 0 && !(waits && told->error_ns < told->since_ns);
	bool failed = has_error && !joined;
	const struct value values[] = {
		text_or_none(g == NULL ? "" : generation_text(g, g->cluster.node)),
		view_cluster_state(shown->view, told),
		value_since(now_ns, told->since_ns),
		value_since(now_ns, told->told_ns),
		text_or_none(told->server),
		value_until(now_ns, waits ? told->wait_until_ns : 0),
		value_text(!waits ? NULL : told->lost != 0 ? "the server was restarted or has "
		    "lost its data" : "the server is new, or was restarted"),
		value_until(now_ns, joined ? 0 : told->next_ns),
		value_toned_if(value_text(!has_error ? NULL :
		    cluster_error_word((enum cluster_error)(told->error - 1))), failed, TONE_BAD),
		value_since(now_ns, has_error ? told->error_ns : 0),
		text_or_none(has_error ? told->why : ""),
		value_toned_if(text_or_none(told->differs), true, TONE_WARN),
		value_toned_if(text_or_none(told->differs_why), true, TONE_WARN),
	};

	writer_members(writer, columns, values, COUNT_OF(columns));
}

static void write_lease(struct writer *writer, const struct shown *shown) {
	static const struct column columns[] = {
		{ "nodes_most", COLUMN_NUMBER },
		{ "nodes_known", COLUMN_NUMBER },
		{ "nodes_alive", COLUMN_NUMBER },
		{ "lease", COLUMN_SECONDS },
		{ "renewed", COLUMN_SECONDS },
		{ "leased_for", COLUMN_SECONDS },
		{ "when_unreachable", COLUMN_TEXT },
		{ "alone", COLUMN_TRUTH },
		{ "overhang", COLUMN_NUMBER },
		{ "epoch", COLUMN_TEXT },
		{ "round_trips", COLUMN_NUMBER },
		{ "round_trip_median_ms", COLUMN_DECIMAL },
		{ "round_trip_p99_ms", COLUMN_DECIMAL },
		{ "commands", COLUMN_NUMBER },
	};
	const struct cluster_told *told = shown->told;
	const struct generation_cluster *settings = shown->settings;
	int64_t now_ns = shown->view->status.now_ns;
	uint64_t overhang = overhang_of(shown);
	const struct value values[] = {
		settings == NULL ? value_unknown() : value_number(settings->nodes),
		value_number(told->nodes_known),
		value_number(told->nodes_alive),
		settings == NULL ? value_unknown() :
		    value_number((uint64_t)(settings->lease_ns / NS_PER_SECOND)),
		value_since(now_ns, told->renewed_ns),
		value_until(now_ns, told->until_ns),
		settings == NULL ? value_unknown() :
		    value_text(settings->when_unreachable == CLUSTER_ALONE ? "alone" : "fraction"),
		value_toned_if(value_truth(told->alone != 0), told->alone != 0, TONE_BAD),
		value_toned_if(value_number(overhang), overhang > 0, TONE_WARN),
		text_or_none(told->epoch),
		value_number(told->rounds),
		value_ms(told->round_median_us, told->rounds),
		value_ms(told->round_p99_us, told->rounds),
		value_number(told->commands),
	};

	writer_members(writer, columns, values, COUNT_OF(columns));
}

static void write_knowledge(struct writer *writer, const struct shown *shown) {
	static const struct column columns[] = {
		{ "hears", COLUMN_TRUTH },
		{ "compared", COLUMN_SECONDS },
		{ "destinations", COLUMN_NUMBER },
		{ "divided", COLUMN_NUMBER },
		{ "unwritten", COLUMN_NUMBER },
		{ "unplaced", COLUMN_NUMBER },
	};
	const struct cluster_told *told = shown->told;
	bool deaf = told->state == CLUSTER_STATE_JOINED && told->hears == 0;

	writer_members(writer, columns, (const struct value[]){
		value_toned_if(value_truth(told->hears != 0), deaf, TONE_WARN),
		value_since(shown->view->status.now_ns, told->compared_ns),
		value_number(told->destinations), value_number(told->divided),
		value_number(told->unwritten),
		value_toned_if(value_number(told->unplaced), told->unplaced > 0, TONE_BAD) },
	    COUNT_OF(columns));
}

static void write_errors(struct writer *writer, const struct cluster_told *told) {
	writer_object_begin(writer, "errors");
	for (unsigned i = 0; i < CLUSTER_ERRORS; i++) {
		const struct column column = { cluster_error_word((enum cluster_error)i),
			COLUMN_NUMBER };
		const struct value value = value_toned_if(value_number(told->errors[i]),
		    told->errors[i] > 0, TONE_WARN);

		writer_members(writer, &column, &value, 1);
	}
	writer_object_end(writer);
}

int view_cluster_write(const struct view *view, struct writer *writer) {
	struct cluster_told told;
	struct shown shown = { .view = view, .told = &told,
		.settings = view->generation == NULL ? NULL : &view->generation->cluster,
		.class_size = view->status.records_size };

	(void)reader_cluster(view->reader, &told);
	shown.classes = calloc(shown.class_size, sizeof(*shown.classes));
	if (shown.classes == NULL)
		return -1;
	(void)reader_classes(view->reader, keep_class, &shown);
	writer_object_begin(writer, NULL);
	write_state(writer, &shown);
	write_lease(writer, &shown);
	write_knowledge(writer, &shown);
	write_errors(writer, &told);
	write_nodes(writer, &shown);
	write_classes(writer, &shown);
	write_leases(writer, &shown);
	writer_object_end(writer);
	free(shown.classes);
	return 0;
}
