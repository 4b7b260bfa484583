/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  postern-simulate workers.
 * MODEL    One object: figures, how often each rule chose, messages; with --every and
 *          --trace tables besides.
 * ERRORS   Complained about.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "lab/lab.h"
#include "lab/option_rows.h"
#include "lab/simulate_workers.h"

struct kept {
	const struct workers_simulation *simulation;
	const struct workers_result *result;
};

#define COUNT_MAX	1000000u

/* --- options ---------------------------------------------------------------------------- */

/* The next part of a list in `out'; false: it is too long, or there is none. */
static bool next_part(const char **list, char *out, size_t size) {
	size_t length = strcspn(*list, ",");

	if (length == 0 || !text_copy(out, size, *list, length))
		return false;
	*list += length;
	*list += **list == ',' && (*list)[1] != '\0';
	return true;
}

static bool parse_messages(void *values, const char *text) {
	struct workers_simulation *s = values;
	uint32_t count = option_parse_counts(text, false, COUNT_MAX, DAY, &s->messages[1],
	    WORKED_MESSAGES_MAX);

	s->message_count = count + 1;
	for (uint32_t m = 1; m <= count; m++)
		if (s->messages[m].count == 0)
			return false;
	return count > 0;
}

static bool parse_probes(void *values, const char *text) {
	struct workers_simulation *s = values;

	return option_parse_count_at(text, COUNT_MAX, &s->messages[WORKER_VERIFICATION]);
}

static bool parse_hosts(void *values, const char *text) {
	struct workers_simulation *s = values;
	uint32_t sum = 0;
	char part[16];

	for (s->list_count = 0; s->list_count < WORKED_LISTS_MAX;) {
		if (!next_part(&text, part, sizeof(part)) ||
		    !option_parse_count(part, strlen(part), 1, WORKED_HOSTS_MAX, &s->lists[s->list_count]))
			return false;
		sum += s->lists[s->list_count++];
		if (*text == '\0')
			return sum <= WORKED_HOSTS_MAX;
	}
	return false;
}

/* "3.1", "*.2" */
static bool parse_broken_one(char *text, struct worked_broken *broken) {
	char *point = strchr(text, '.');

	if (point == NULL)
		return false;
	*point++ = '\0';
	broken->site = 0;
	return (strcmp(text, "*") == 0 || option_parse_count(text, strlen(text), 1, COUNT_MAX, &broken->site)) &&
	    option_parse_count(point, strlen(point), 1, WORKED_HOSTS_MAX, &broken->host);
}

static bool parse_broken(void *values, const char *text) {
	struct workers_simulation *s = values;
	char list[512], part[32], *at;
	const char *next = list;

	if (!text_copy(list, sizeof(list), text, strlen(text)))
		return false;
	s->broken_until_ns = INT64_MAX;
	at = strchr(list, '@');
	if (at != NULL) {
		*at++ = '\0';
		if (!option_parse_duration(at, 0, DAY, &s->broken_until_ns))
			return false;
	}
	for (s->broken_count = 0; s->broken_count < WORKED_BROKEN_MAX;) {
		if (!next_part(&next, part, sizeof(part)) ||
		    !parse_broken_one(part, &s->broken[s->broken_count++]))
			return false;
		if (*next == '\0')
			return true;
	}
	return false;
}

#define OPTIONS_OF	struct workers_simulation
static const struct option_row option_rows[] = {
#include "defs/simulate_workers.def"
};

static const struct option_table option_table = { option_rows,
	sizeof(option_rows) / sizeof(option_rows[0]) };

static void set_defaults(struct workers_simulation *simulation) {
	*simulation = (struct workers_simulation){
		.settings = worker_defaults,
		.workers = 100,
		.messages = { [1] = { .count = 1000 } },
		.message_count = 2,
		.lists = { 1 },
		.list_count = 1,
		.connect_ns = 100 * NS_PER_MS,
		.service_ns = NS_PER_SECOND,
		.retry_ns = 300 * NS_PER_SECOND,
		.jitter = 0.05,
		.seed = 1,
	};
}

/* What the options must be together; NULL: they are. */
static const char *find_excess(const struct workers_simulation *simulation) {
	uint64_t jobs = 0, hosts = simulated_hosts(simulation);

	for (uint32_t m = 0; m < simulation->message_count; m++)
		jobs += simulation->messages[m].count;
	if (jobs > WORKED_JOBS_MAX)
		return "more than 1000000 jobs";
	if (hosts * (simulation->sites == 0 ? jobs : simulation->sites) > 4 * WORKED_JOBS_MAX)
		return "more than 4000000 destinations";
	return NULL;
}

/* --- tables ---------------------------------------------------------------------------- */

static const char *message_name(uint32_t message, char out[16]) {
	if (message == WORKER_VERIFICATION)
		return "probes";
	text_append(out, 16, 0, "%u", message);
	return out;
}

static struct value value_seconds(int64_t ns) {
	return ns < 0 ? value_unknown() : value_decimal((double)ns / 1e9);
}

static void rule_row(void *context, struct writer *writer, const void *item) {
	const struct kept *kept = context;
	unsigned rule = *(const unsigned *)item;

	writer_text(writer, "rule", worker_rule_word((enum worker_rule)rule));
	writer_number(writer, "times", kept->result->by_rule[rule]);
}

static void rule_rows(void *context, struct writer *writer) {
	(void)context;
	for (unsigned rule = 0; rule < WORKER_RULE_COUNT; rule++)
		writer_row(writer, &rule);
}

static void message_row(void *context, struct writer *writer, const void *item) {
	const struct kept *kept = context;
	uint32_t m = *(const uint32_t *)item;
	const struct worked_result *result = &kept->result->messages[m];
	char name[16];

	writer_text(writer, "message", message_name(m, name));
	writer_number(writer, "jobs", result->jobs);
	writer_number(writer, "done", result->done);
	writer_number(writer, "deferred", result->deferred);
	writer_number(writer, "peak_workers", result->most);
	writer_decimal(writer, "peak_percent", value_decimal(100 * result->most /
	    (double)kept->simulation->workers));
	writer_decimal(writer, "mean_workers", value_decimal(result->mean));
	writer_decimal(writer, "came_s", value_seconds( kept->simulation->messages[m].at_ns));
	writer_decimal(writer, "first_s", value_seconds(result->first_ns));
	writer_decimal(writer, "last_s", value_seconds(result->last_ns));
}

static void message_rows(void *context, struct writer *writer) {
	const struct kept *kept = context;

	for (uint32_t m = 0; m < kept->simulation->message_count; m++)
		if (kept->result->messages[m].jobs > 0)
			writer_row(writer, &m);
}

static void state_row(void *context, struct writer *writer, const void *item) {
	const struct kept *kept = context;
	const struct worked_row *row = item;
	char name[16];

	writer_decimal(writer, "time_s", value_seconds(row->at_ns));
	writer_text(writer, "message", message_name(row->message, name));
	writer_number(writer, "workers", row->number);
	writer_decimal(writer, "percent", value_decimal(100.0 * row->number /
	    kept->simulation->workers));
	writer_number(writer, "free", row->free);
}

static void decision_row(void *context, struct writer *writer, const void *item) {
	const struct kept *kept = context;
	const struct worked_row *row = item;
	const struct worker_place *place = &row->place;
	bool placed = place->job != NULL;
	char name[16], destination[32];

	text_append(destination, sizeof(destination), 0, "%u.%u",
	    simulated_site(kept->simulation, place->destination),
	    simulated_host(kept->simulation, place->destination));
	writer_decimal(writer, "time_s", value_seconds(row->at_ns));
	writer_text(writer, "message", message_name(row->message, name));
	writer_number(writer, "job", row->number);
	writer_text(writer, "rule", worker_rule_word(place->rule));
	writer_number_if(writer, "list", place->rule != WORKER_DEFER, place->list + 1);
	writer_text(writer, "destination", placed ? destination : NULL);
	writer_number_if(writer, "connection", placed, place->connection + 1);
	writer_truth(writer, "opened", place->opened);
}

/* --- the whole --------------------------------------------------------------------------- */

static void write_figures(struct writer *writer, const struct kept *kept) {
	const struct workers_result *result = kept->result;

	writer_decimal(writer, "duration_s", value_seconds(result->duration_ns));
	writer_number(writer, "workers", kept->simulation->workers);
	writer_number(writer, "peak_workers", result->most);
	writer_number(writer, "connections", result->connections);
	writer_number(writer, "failed_connections", result->failed);
	writer_number(writer, "closed_for_new", result->closed_for_new);
	writer_number(writer, "closed_by_age", result->aged);
	writer_number(writer, "closed_by_remote", result->closed_by_remote);
	writer_number(writer, "rescheduled", result->rescheduled);
}

static int write_result(struct writer *writer, struct kept *kept) {
	writer_object_begin(writer, NULL);
	write_figures(writer, kept);
	writer_table(writer, &(const struct table){ .name = "messages", .row = message_row,
	    .rows = message_rows, .context = kept });
	if (!kept->simulation->routing)
		writer_table(writer, &(const struct table){ .name = "rules", .row = rule_row,
		    .rows = rule_rows, .context = kept });
	if (kept->simulation->every_ns > 0)
		writer_table(writer, &(const struct table){ .name = "states", .row = state_row,
		    .context = kept, .items = kept->result->states.list, .count = kept->result->states.count,
		    .each = sizeof(struct worked_row) });
	if (kept->simulation->with_trace)
		writer_table(writer, &(const struct table){ .name = "decisions",
		    .row = decision_row, .context = kept, .items = kept->result->decisions.list,
		    .count = kept->result->decisions.count, .each = sizeof(struct worked_row) });
	writer_object_end(writer);
	return EX_OK;
}

int lab_WORKERS(struct lab *lab) {
	struct workers_simulation simulation;
	struct workers_result result;
	struct kept kept = { .simulation = &simulation, .result = &result };
	const char *excess;
	int code;

	set_defaults(&simulation);
	code = lab_parse(lab, &option_table, &simulation);
	if (code != LAB_RUN)
		return code;
	excess = find_excess(&simulation);
	if (excess != NULL)
		return lab_usage(lab, "%s", excess);
	simulate_workers(&simulation, &result);
	if (result.states.full || result.decisions.full)
		code = lab_complain(EX_USAGE, "--every, --trace: too many rows");
	else
		code = write_result(&lab->writer, &kept);
	free(result.states.list);
	free(result.decisions.list);
	return code;
}
