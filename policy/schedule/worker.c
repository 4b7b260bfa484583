/* SPDX-License-Identifier: ISC */
/*
 * Which worker a job goes to: the rules of choice (worker.h).
 *
 * Model: for each list of destinations two looks at their records and connections: what
 * there is of each kind, then the one that is meant.  A list is left for the next one only
 * where none of its destinations works: each waits for its retry time, and has no
 * connection that takes jobs.
 */
#include "policy/schedule/worker_internal.h"

const struct worker_settings worker_defaults = {
	.max_message_concurrency = 5,
	.scale_max_concurrency = 10,
	.verify_max_concurrency = 2,
	.verify_scale_concurrency = 1,
	.backlog = 10,
	.destination_limit = 20,
	.active_age_ns = INT64_C(300000000000),
	.idle_age_ns = INT64_C(10000000000),
	.closed_keep_ns = INT64_C(3600000000000),
	.retry_keep_ns = INT64_C(3600000000000),
};

const char *worker_rule_word(enum worker_rule rule) {
	static const char *const words[WORKER_RULE_COUNT] = {
		[WORKER_RECENT] = "recent",
		[WORKER_IDLE] = "idle",
		[WORKER_UNUSED] = "unused",
		[WORKER_CLOSED] = "closed",
		[WORKER_RETRY] = "retry",
		[WORKER_ONE_MORE] = "one-more",
		[WORKER_RIDE] = "ride",
		[WORKER_CROWDED] = "crowded",
		[WORKER_FULL] = "full",
		[WORKER_WAIT] = "wait",
		[WORKER_DEFER] = "defer",
	};

	return rule < WORKER_RULE_COUNT ? words[rule] : "unknown";
}

bool worker_allowed(const struct worker_settings *settings, bool verification,
    uint32_t concurrency, uint32_t free_workers) {
	uint32_t most = verification ? settings->verify_max_concurrency :
	    settings->max_message_concurrency;
	uint32_t scale = verification ? settings->verify_scale_concurrency :
	    settings->scale_max_concurrency;

	return concurrency < most || concurrency < (uint64_t)scale * free_workers;
}

uint32_t worker_next_router_job(const struct worker_settings *settings,
    const uint32_t *jobs, uint32_t count, const uint32_t *concurrency,
    uint32_t free_workers) {
	for (uint32_t i = 0; i < count && free_workers > 0; i++)
		if (worker_allowed(settings, jobs[i] == WORKER_VERIFICATION,
		    concurrency[jobs[i]], free_workers))
			return i;
	return WORKER_NONE;
}

/* --- one list of destinations ---------------------------------------------------------- */

/* The notes' kinds, and those that failed the check of the retry time.  OPEN: with
 * connections, active or idle. */
enum kind { KIND_OPEN, KIND_CLOSED, KIND_UNUSED, KIND_RETRY, KIND_BROKEN, KIND_COUNT };

struct list_view {
	const uint64_t *keys;
	uint32_t count;
	uint32_t of_kind[KIND_COUNT];
	uint32_t recent;	/* connections: newest below the backlog */
	uint32_t newest;	/* newest active */
	uint32_t idle;		/* newest idle */
	uint32_t oldest;	/* closed: which key */
	uint32_t fewest;	/* connections of those that may have one more */
	uint32_t with_fewest;	/* how many of them */
	int64_t retry_ns;	/* first retry time of the broken ones */
};

static bool is_full(const struct workers *w, const struct worker_destination *d) {
	return w->settings.destination_limit != 0 &&
	    d->connections.count >= w->settings.destination_limit;
}

static bool takes_jobs(const struct workers *w, const struct worker_destination *d) {
	uint32_t at = d->connections.first;

	while (at != NONE && connections_of(w)[at].past_age)
		at = connection_links_of(w)[at].next;
	return at != NONE;
}

static enum kind kind_of(const struct workers *w, uint32_t at, int64_t now_ns) {
	const struct worker_destination *d;

	if (at == NONE)
		return KIND_UNUSED;
	d = &destinations_of(w)[at];
	if (takes_jobs(w, d))
		return KIND_OPEN;
	if (d->retry_ns > now_ns)
		return KIND_BROKEN;
	if (is_full(w, d))
		return KIND_OPEN;	/* of connections past their age: works, and is waited for */
	if (d->retry_ns != 0)
		return KIND_RETRY;
	return d->order != 0 ? KIND_CLOSED : KIND_UNUSED;
}

/* May it have one more connection? */
static bool may_grow(const struct workers *w, const struct worker_destination *d,
    int64_t now_ns) {
	return d->retry_ns <= now_ns && !is_full(w, d);
}

static bool is_newer(const struct workers *w, uint32_t a, uint32_t b) {
	return b == NONE || connections_of(w)[a].order > connections_of(w)[b].order;
}

static void see_connections(const struct workers *w, const struct worker_destination *d,
    struct list_view *view) {
	const struct worker_connection *all = connections_of(w);

	for (uint32_t at = d->connections.first; at != NONE;
	     at = connection_links_of(w)[at].next) {
		if (all[at].past_age)
			continue;
		if (all[at].jobs.count == 0) {
			if (is_newer(w, at, view->idle))
				view->idle = at;
			continue;
		}
		if (is_newer(w, at, view->newest))
			view->newest = at;
		if (all[at].jobs.count < w->settings.backlog && is_newer(w, at, view->recent))
			view->recent = at;
	}
}

static void see(const struct workers *w, struct list_view *view, int64_t now_ns) {
	uint64_t oldest = UINT64_MAX;

	view->recent = view->newest = view->idle = NONE;
	view->fewest = UINT32_MAX;
	for (uint32_t i = 0; i < view->count; i++) {
		uint32_t at = worker_find(w, view->keys[i], now_ns);
		const struct worker_destination *d = &destinations_of(w)[at != NONE ? at : 0];
		enum kind kind = kind_of(w, at, now_ns);

		view->of_kind[kind]++;
		if (kind == KIND_BROKEN && d->retry_ns < view->retry_ns)
			view->retry_ns = d->retry_ns;
		if (kind == KIND_CLOSED && d->order < oldest) {
			oldest = d->order;
			view->oldest = i;
		}
		if (kind != KIND_OPEN)
			continue;
		see_connections(w, d, view);
		if (!may_grow(w, d, now_ns))
			continue;
		if (d->connections.count < view->fewest) {
			view->fewest = d->connections.count;
			view->with_fewest = 0;
		}
		view->with_fewest += d->connections.count == view->fewest;
	}
}

/* The nth destination of a kind, or (OPEN) of those with the fewest connections. */
static uint64_t nth(const struct workers *w, const struct list_view *view, enum kind kind,
    uint32_t n, int64_t now_ns) {
	uint32_t i = 0;

	for (; i < view->count; i++) {
		uint32_t at = worker_find(w, view->keys[i], now_ns);

		if (kind_of(w, at, now_ns) != kind)
			continue;
		if (kind == KIND_OPEN &&
		    (destinations_of(w)[at].connections.count != view->fewest ||
		    !may_grow(w, &destinations_of(w)[at], now_ns)))
			continue;
		if (n-- == 0)
			break;
	}
	return view->keys[i];
}

/* The most recent active connection that has fewer jobs than the newest, else that. */
static uint32_t ride(const struct workers *w, const struct list_view *view, int64_t now_ns) {
	const struct worker_connection *all = connections_of(w);
	uint32_t best = NONE, jobs;

	if (view->newest == NONE)
		return NONE;
	jobs = all[view->newest].jobs.count;
	for (uint32_t i = 0; i < view->count; i++) {
		uint32_t at = worker_find(w, view->keys[i], now_ns);

		at = at != NONE ? destinations_of(w)[at].connections.first : NONE;
		for (; at != NONE; at = connection_links_of(w)[at].next)
			if (!all[at].past_age && all[at].jobs.count > 0 &&
			    all[at].jobs.count < jobs && is_newer(w, at, best))
				best = at;
	}
	return best != NONE ? best : view->newest;
}

/* --- placing --------------------------------------------------------------------------- */

static uint32_t free_workers(const struct workers *w) {
	return w->no_connection.count + w->idle.count;
}

/* A destination for a new connection.  False: there is none; *out is not ONE_MORE then. */
static bool choose_new(const struct workers *w, const struct list_view *view, int64_t now_ns,
    uint64_t random, struct worker_place *out) {
	const uint32_t *of_kind = view->of_kind;

	if (of_kind[KIND_UNUSED] > 0) {
		out->rule = WORKER_UNUSED;
		out->destination = nth(w, view, KIND_UNUSED,
		    (uint32_t)(random % of_kind[KIND_UNUSED]), now_ns);
	} else if (of_kind[KIND_CLOSED] > 0) {
		out->rule = WORKER_CLOSED;
		out->destination = view->keys[view->oldest];
	} else if (of_kind[KIND_RETRY] > 0) {
		out->rule = WORKER_RETRY;
		out->destination = nth(w, view, KIND_RETRY,
		    (uint32_t)(random % of_kind[KIND_RETRY]), now_ns);
	} else if (view->with_fewest > 0) {
		out->rule = WORKER_ONE_MORE;
		out->destination = nth(w, view, KIND_OPEN,
		    (uint32_t)(random % view->with_fewest), now_ns);
	} else {
		return false;
	}
	out->opened = true;
	return true;
}

/* An active connection, whatever it has, or the job waits. */
static void choose_ride(const struct workers *w, const struct list_view *view,
    enum worker_rule why, int64_t now_ns, struct worker_place *out) {
	out->connection = ride(w, view, now_ns);
	out->rule = out->connection != NONE ? why : WORKER_WAIT;
}

static void choose(const struct workers *w, const struct list_view *view, bool allowed,
    int64_t now_ns, uint64_t random, struct worker_place *out) {
	if (view->recent != NONE) {
		out->rule = WORKER_RECENT;
		out->connection = view->recent;
	} else if (!allowed) {
		choose_ride(w, view, WORKER_RIDE, now_ns, out);
	} else if (view->idle != NONE) {
		out->rule = WORKER_IDLE;
		out->connection = view->idle;
	} else if (free_workers(w) == 0) {
		choose_ride(w, view, WORKER_CROWDED, now_ns, out);
	} else if (!choose_new(w, view, now_ns, random, out)) {
		choose_ride(w, view, WORKER_FULL, now_ns, out);
	}
}

static void open_connection(struct workers *w, struct worker_place *out, int64_t now_ns) {
	struct worker_connection *connection;
	struct worker_destination *d;
	uint32_t at, destination;

	if (w->no_connection.count == 0) {
		out->closed = w->idle.first;
		at = connections_of(w)[out->closed].destination;
		out->closed_destination = destinations_of(w)[at].key;
		worker_close(w, out->closed, now_ns);
	}
	destination = worker_record(w, out->destination, now_ns);
	d = &destinations_of(w)[destination];
	at = w->no_connection.first;
	worker_list_remove(&w->no_connection, age_links_of(w), at);
	connection = &connections_of(w)[at];
	*connection = (struct worker_connection){ .order = ++w->order, .opened_ns = now_ns,
		.idle_ns = now_ns, .destination = destination };
	worker_list_begin(&connection->jobs);
	worker_list_append(&w->aged, age_links_of(w), at);
	worker_list_append(&w->idle, idle_links_of(w), at);
	worker_list_prepend(&d->connections, connection_links_of(w), at);
	d->order = w->order;
	w->open++;
	out->connection = at;
}

static void add_job(struct workers *w, const struct worker_request *request,
    struct worker_place *out) {
	struct worker_connection *connection = &connections_of(w)[out->connection];
	uint32_t job = w->no_job.first;

	worker_list_remove(&w->no_job, job_links_of(w), job);
	if (connection->jobs.count == 0)
		worker_list_remove(&w->idle, idle_links_of(w), out->connection);
	worker_list_append(&connection->jobs, job_links_of(w), job);
	jobs_of(w)[job] = (struct worker_job){
		.tag = request->tag,
		.message = request->message,
		.connection = out->connection,
		.pair = worker_pair_add(w, request->message, out->connection),
	};
	w->placed++;
	out->job = job;
	out->destination = destinations_of(w)[connection->destination].key;
}

void worker_place(struct workers *workers, const struct worker_request *request,
    int64_t now_ns, uint64_t random, struct worker_place *out) {
	bool allowed = worker_allowed(&workers->settings,
	    request->message == WORKER_VERIFICATION,
	    concurrency_of(workers)[request->message], free_workers(workers));
	struct list_view view = { .keys = request->destinations, .retry_ns = INT64_MAX };
	uint32_t list = 0;

	*out = (struct worker_place){ .rule = WORKER_DEFER, .job = NONE, .connection = NONE,
		.closed = NONE };
	for (; list < request->list_count; list++) {
		view = (struct list_view){ .keys = view.keys + view.count,
			.count = request->lists[list], .retry_ns = view.retry_ns };
		see(workers, &view, now_ns);
		if (view.of_kind[KIND_BROKEN] < view.count)
			break;
	}
	out->list = list;
	out->retry_ns = view.retry_ns;
	if (list == request->list_count)
		return;
	out->rule = WORKER_WAIT;
	if (workers->no_job.count > 0)
		choose(workers, &view, allowed, now_ns, random, out);
	if (out->opened)
		open_connection(workers, out, now_ns);
	if (out->rule != WORKER_WAIT)
		add_job(workers, request, out);
}
