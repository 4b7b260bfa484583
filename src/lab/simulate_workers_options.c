/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The options of `posternctl simulate workers'.
 * MODEL    A row for each option of defs/workers.def: how it is read, and between what.
 *          What is not given stays as by default.
 * ERRORS   The caller complains, with what it should be.
 * THREADS  One.
 */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "lab/simulate_workers.h"

#define WORKERS_MAX	100000u
#define COUNT_MAX	1000000u
#define DURATION_MAX	(24 * 3600 * NS_PER_SECOND)

static bool take_count(const char *text, uint32_t least, uint32_t most, uint32_t *out) {
	return text_to_u32(text, strlen(text), most, out) && *out >= least;
}

static bool take_duration(const char *text, int64_t least, int64_t *out) {
	return text_to_duration_ns(text, out) && *out >= least && *out <= DURATION_MAX;
}

/* The next part of a list in `out'; false: it is too long, or there is none. */
static bool next_part(const char **list, char *out, size_t size) {
	size_t length = strcspn(*list, ",");

	if (length == 0 || !text_copy(out, size, *list, length))
		return false;
	*list += length;
	*list += **list == ',' && (*list)[1] != '\0';
	return true;
}

/* "N", "N@TIME" */
static bool take_message(char *text, struct worked_message *message) {
	char *at = strchr(text, '@');

	message->at_ns = 0;
	if (at != NULL) {
		*at++ = '\0';
		if (!take_duration(at, 0, &message->at_ns))
			return false;
	}
	return take_count(text, 0, COUNT_MAX, &message->jobs);
}

/* --- one option each ---------------------------------------------------------------- */

static bool take_workers(struct workers_simulation *s, const char *text) {
	return take_count(text, 1, WORKERS_MAX, &s->workers);
}

static bool take_messages(struct workers_simulation *s, const char *text) {
	int64_t last_ns = 0;
	char part[64];

	for (s->message_count = 1; s->message_count <= WORKED_MESSAGES_MAX;) {
		struct worked_message *message = &s->messages[s->message_count++];

		if (!next_part(&text, part, sizeof(part)) || !take_message(part, message) ||
		    message->jobs == 0 || message->at_ns < last_ns)
			return false;
		last_ns = message->at_ns;
		if (*text == '\0')
			return true;
	}
	return false;
}

static bool take_probes(struct workers_simulation *s, const char *text) {
	char part[64];

	return text_copy(part, sizeof(part), text, strlen(text)) &&
	    take_message(part, &s->messages[WORKER_VERIFICATION]);
}

static bool take_sites(struct workers_simulation *s, const char *text) {
	return take_count(text, 0, COUNT_MAX, &s->sites);
}

static bool take_hosts(struct workers_simulation *s, const char *text) {
	uint32_t sum = 0;
	char part[16];

	for (s->list_count = 0; s->list_count < WORKED_LISTS_MAX;) {
		if (!next_part(&text, part, sizeof(part)) ||
		    !take_count(part, 1, WORKED_HOSTS_MAX, &s->lists[s->list_count]))
			return false;
		sum += s->lists[s->list_count++];
		if (*text == '\0')
			return sum <= WORKED_HOSTS_MAX;
	}
	return false;
}

/* "3.1", "*.2" */
static bool take_broken_one(char *text, struct worked_broken *broken) {
	char *point = strchr(text, '.');

	if (point == NULL)
		return false;
	*point++ = '\0';
	broken->site = 0;
	return (strcmp(text, "*") == 0 || take_count(text, 1, COUNT_MAX, &broken->site)) &&
	    take_count(point, 1, WORKED_HOSTS_MAX, &broken->host);
}

static bool take_broken(struct workers_simulation *s, const char *text) {
	char list[512], part[32], *at;
	const char *next = list;

	if (!text_copy(list, sizeof(list), text, strlen(text)))
		return false;
	s->broken_until_ns = INT64_MAX;
	at = strchr(list, '@');
	if (at != NULL) {
		*at++ = '\0';
		if (!take_duration(at, 0, &s->broken_until_ns))
			return false;
	}
	for (s->broken_count = 0; s->broken_count < WORKED_BROKEN_MAX;) {
		if (!next_part(&next, part, sizeof(part)) ||
		    !take_broken_one(part, &s->broken[s->broken_count++]))
			return false;
		if (*next == '\0')
			return true;
	}
	return false;
}

static bool take_routing(struct workers_simulation *s, const char *text) {
	s->routing = strcmp(text, "yes") == 0;
	return s->routing || strcmp(text, "no") == 0;
}

static bool take_connect(struct workers_simulation *s, const char *text) {
	return take_duration(text, 0, &s->connect_ns);
}

static bool take_service(struct workers_simulation *s, const char *text) {
	return take_duration(text, NS_PER_MS, &s->service_ns);
}

/* "0.25", "25%" */
static bool take_jitter(struct workers_simulation *s, const char *text) {
	return text_to_share(text, &s->jitter);
}

static bool take_close_after(struct workers_simulation *s, const char *text) {
	return take_count(text, 0, COUNT_MAX, &s->close_after);
}

static bool take_retry(struct workers_simulation *s, const char *text) {
	return take_duration(text, NS_PER_MS, &s->retry_ns);
}

static bool take_max(struct workers_simulation *s, const char *text) {
	return take_count(text, 1, COUNT_MAX, &s->settings.max_message_concurrency);
}

static bool take_scale(struct workers_simulation *s, const char *text) {
	return take_count(text, 0, COUNT_MAX, &s->settings.scale_max_concurrency);
}

static bool take_verify_max(struct workers_simulation *s, const char *text) {
	return take_count(text, 1, COUNT_MAX, &s->settings.verify_max_concurrency);
}

static bool take_verify_scale(struct workers_simulation *s, const char *text) {
	return take_count(text, 0, COUNT_MAX, &s->settings.verify_scale_concurrency);
}

static bool take_backlog(struct workers_simulation *s, const char *text) {
	return take_count(text, 1, COUNT_MAX, &s->settings.backlog);
}

static bool take_destination_limit(struct workers_simulation *s, const char *text) {
	return take_count(text, 0, WORKERS_MAX, &s->settings.destination_limit);
}

static bool take_active_age(struct workers_simulation *s, const char *text) {
	return take_duration(text, 0, &s->settings.active_age_ns);
}

static bool take_idle_age(struct workers_simulation *s, const char *text) {
	return take_duration(text, 0, &s->settings.idle_age_ns);
}

static bool take_closed_keep(struct workers_simulation *s, const char *text) {
	return take_duration(text, 0, &s->settings.closed_keep_ns);
}

static bool take_retry_keep(struct workers_simulation *s, const char *text) {
	return take_duration(text, 0, &s->settings.retry_keep_ns);
}

static bool take_seed(struct workers_simulation *s, const char *text) {
	uint32_t seed;

	if (!take_count(text, 0, UINT32_MAX, &seed))
		return false;
	s->seed = seed;
	return true;
}

static bool take_every(struct workers_simulation *s, const char *text) {
	return take_duration(text, NS_PER_MS, &s->every_ns);
}

/* --- all ---------------------------------------------------------------------------- */

#define COUNT		"0 to 1000000"
#define COUNT_FROM_1	"1 to 1000000"
#define TIME		"0s to 1d"
#define TIME_FROM_1MS	"1ms to 1d"

static const struct {
	bool (*take)(struct workers_simulation *simulation, const char *text);
	const char *should;
} options[WORKED_COUNT] = {
#define FIELD(symbol, take, should) [WORKED_##symbol] = { take, should }
	FIELD(WORKERS, take_workers, "1 to 100000"),
	FIELD(MESSAGES, take_messages,
	    "N, or N,N@TIME with increasing times, such as \"5000,200@10s\""),
	FIELD(PROBES, take_probes, "N, or N@TIME"),
	FIELD(SITES, take_sites, COUNT),
	FIELD(HOSTS, take_hosts, "N, or N,N... with a sum of at most 32, such as \"2,1\""),
	FIELD(BROKEN, take_broken,
	    "SITE.HOST,..., optionally with @TIME, such as \"1.2,*.1@10m\""),
	FIELD(ROUTING, take_routing, "yes or no"),
	FIELD(CONNECT, take_connect, TIME),
	FIELD(SERVICE, take_service, TIME_FROM_1MS),
	FIELD(JITTER, take_jitter, "0 to 1, or 0% to 100%"),
	FIELD(CLOSE_AFTER, take_close_after, COUNT),
	FIELD(RETRY, take_retry, TIME_FROM_1MS),
	FIELD(MAX, take_max, COUNT_FROM_1),
	FIELD(SCALE, take_scale, COUNT),
	FIELD(VERIFY_MAX, take_verify_max, COUNT_FROM_1),
	FIELD(VERIFY_SCALE, take_verify_scale, COUNT),
	FIELD(BACKLOG, take_backlog, COUNT_FROM_1),
	FIELD(DESTINATION_LIMIT, take_destination_limit, "0 to 100000"),
	FIELD(ACTIVE_AGE, take_active_age, TIME),
	FIELD(IDLE_AGE, take_idle_age, TIME),
	FIELD(CLOSED_KEEP, take_closed_keep, TIME),
	FIELD(RETRY_KEEP, take_retry_keep, TIME),
	FIELD(SEED, take_seed, "0 to 4294967295"),
	FIELD(EVERY, take_every, TIME_FROM_1MS),
#undef FIELD
};

void simulate_workers_defaults(struct workers_simulation *simulation) {
	*simulation = (struct workers_simulation){
		.settings = worker_defaults,
		.workers = 100,
		.messages = { [1] = { .jobs = 1000 } },
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

bool simulate_workers_take(struct workers_simulation *simulation, enum worked_option option,
    const char *text, const char **should) {
	*should = options[option].should;
	return options[option].take(simulation, text);
}

const char *simulate_workers_wrong(const struct workers_simulation *simulation) {
	uint64_t jobs = 0, hosts = 0;

	for (uint32_t m = 0; m < simulation->message_count; m++)
		jobs += simulation->messages[m].jobs;
	for (uint32_t i = 0; i < simulation->list_count; i++)
		hosts += simulation->lists[i];
	if (jobs > WORKED_JOBS_MAX)
		return "more than 1000000 jobs";
	if (hosts * (simulation->sites == 0 ? jobs : simulation->sites) > 4 * WORKED_JOBS_MAX)
		return "more than 4000000 destinations";
	return NULL;
}
