/* SPDX-License-Identifier: ISC */
/*
 * Which worker a job goes to: the rules of choice (worker.h).
 *
 * Model: for each list of destinations two looks at their records and connections: what
 * there is of each kind, then the one that is meant.  A list is left for the next one only
 * where none of its destinations works: each waits for its retry time, and has no
 * connection that takes jobs.
 */
#include "lab/worker.h"
#include "policy/schedule/concurrency.h"

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
	return verification ?
	    concurrency_allows(settings->verify_max_concurrency,
		settings->verify_scale_concurrency, concurrency, free_workers) :
	    concurrency_allows(settings->max_message_concurrency,
		settings->scale_max_concurrency, concurrency, free_workers);
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
	const uint32_t *keys;
	uint32_t count;
	uint32_t of_kind[KIND_COUNT];
	struct worker_connection *recent;	/* newest below the backlog */
	struct worker_connection *newest;	/* newest active */
	struct worker_connection *idle;		/* newest idle */
	uint32_t oldest;	/* closed: which key */
	uint32_t fewest;	/* connections of those that may have one more */
	uint32_t with_fewest;	/* how many of them */
};

static bool is_full(const struct workers *w, const struct worker_destination *d) {
	return w->settings.destination_limit != 0 &&
	    d->connection_count >= w->settings.destination_limit;
}

static bool takes_jobs(const struct worker_destination *d) {
	const struct worker_connection *c;

	LIST_FOREACH(c, &d->connections, of_destination)
		if (!c->past_age)
			return true;
	return false;
}

static enum kind kind_of(const struct workers *w, const struct worker_destination *d,
    int64_t now_ns) {
	if (worker_is_stale(w, d, now_ns))
		return KIND_UNUSED;
	if (takes_jobs(d))
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

static bool is_newer(const struct worker_connection *a, const struct worker_connection *b) {
	return b == NULL || a->order > b->order;
}

static void see_connections(const struct workers *w, const struct worker_destination *d,
    struct list_view *view) {
	struct worker_connection *c;

	LIST_FOREACH(c, &d->connections, of_destination) {
		if (c->past_age)
			continue;
		if (c->job_count == 0) {
			if (is_newer(c, view->idle))
				view->idle = c;
			continue;
		}
		if (is_newer(c, view->newest))
			view->newest = c;
		if (c->job_count < w->settings.backlog && is_newer(c, view->recent))
			view->recent = c;
	}
}

static void see_list(const struct workers *w, struct list_view *view, int64_t now_ns) {
	uint64_t oldest = UINT64_MAX;

	view->fewest = UINT32_MAX;
	for (uint32_t i = 0; i < view->count; i++) {
		const struct worker_destination *d = &w->destinations[view->keys[i]];
		enum kind kind = kind_of(w, d, now_ns);

		view->of_kind[kind]++;
		if (kind == KIND_CLOSED && d->order < oldest) {
			oldest = d->order;
			view->oldest = i;
		}
		if (kind != KIND_OPEN)
			continue;
		see_connections(w, d, view);
		if (!may_grow(w, d, now_ns))
			continue;
		if (d->connection_count < view->fewest) {
			view->fewest = d->connection_count;
			view->with_fewest = 0;
		}
		view->with_fewest += d->connection_count == view->fewest;
	}
}

/* The nth destination of a kind, or (OPEN) of those with the fewest connections. */
static uint32_t nth_of_kind(const struct workers *w, const struct list_view *view, enum kind kind,
    uint32_t n, int64_t now_ns) {
	uint32_t i = 0;

	for (; i < view->count; i++) {
		const struct worker_destination *d = &w->destinations[view->keys[i]];

		if (kind_of(w, d, now_ns) != kind)
			continue;
		if (kind == KIND_OPEN &&
		    (d->connection_count != view->fewest || !may_grow(w, d, now_ns)))
			continue;
		if (n-- == 0)
			break;
	}
	return view->keys[i];
}

/* The most recent active connection that has fewer jobs than the newest, else that. */
static struct worker_connection *ride_on(const struct workers *w, const struct list_view *view) {
	struct worker_connection *best = NULL, *c;

	for (uint32_t i = 0; i < view->count && view->newest != NULL; i++) {
		const struct worker_destination *d = &w->destinations[view->keys[i]];

		LIST_FOREACH(c, &d->connections, of_destination)
			if (!c->past_age && c->job_count > 0 &&
			    c->job_count < view->newest->job_count && is_newer(c, best))
				best = c;
	}
	return best != NULL ? best : view->newest;
}

/* --- placing --------------------------------------------------------------------------- */

/* A destination for a new connection.  False: there is none; *out is not ONE_MORE then. */
static bool choose_new(const struct workers *w, const struct list_view *view, int64_t now_ns,
    uint64_t random, struct worker_place *out) {
	const uint32_t *of_kind = view->of_kind;

	if (of_kind[KIND_UNUSED] > 0) {
		out->rule = WORKER_UNUSED;
		out->destination = nth_of_kind(w, view, KIND_UNUSED,
		    (uint32_t)(random % of_kind[KIND_UNUSED]), now_ns);
	} else if (of_kind[KIND_CLOSED] > 0) {
		out->rule = WORKER_CLOSED;
		out->destination = view->keys[view->oldest];
	} else if (of_kind[KIND_RETRY] > 0) {
		out->rule = WORKER_RETRY;
		out->destination = nth_of_kind(w, view, KIND_RETRY,
		    (uint32_t)(random % of_kind[KIND_RETRY]), now_ns);
	} else if (view->with_fewest > 0) {
		out->rule = WORKER_ONE_MORE;
		out->destination = nth_of_kind(w, view, KIND_OPEN,
		    (uint32_t)(random % view->with_fewest), now_ns);
	} else {
		return false;
	}
	out->opened = true;
	return true;
}

/* An active connection, whatever it has, or the job waits. */
static struct worker_connection *choose_ride(const struct workers *w,
    const struct list_view *view, enum worker_rule why, struct worker_place *out) {
	out->rule = view->newest != NULL ? why : WORKER_WAIT;
	return ride_on(w, view);
}

/* NULL: it waits, or out->destination is to have a new one. */
static struct worker_connection *choose_connection(const struct workers *w,
    const struct list_view *view, bool allowed, int64_t now_ns, uint64_t random, struct worker_place *out) {
	if (view->recent != NULL) {
		out->rule = WORKER_RECENT;
		return view->recent;
	}
	if (!allowed)
		return choose_ride(w, view, WORKER_RIDE, out);
	if (view->idle != NULL) {
		out->rule = WORKER_IDLE;
		return view->idle;
	}
	if (worker_idle_count(w) == 0)
		return choose_ride(w, view, WORKER_CROWDED, out);
	return choose_new(w, view, now_ns, random, out) ? NULL :
	    choose_ride(w, view, WORKER_FULL, out);
}

static struct worker_connection *open_connection(struct workers *w, struct worker_place *out,
    int64_t now_ns) {
	struct worker_connection *c;
	struct worker_destination *d;

	if (TAILQ_EMPTY(&w->no_connection)) {
		c = TAILQ_FIRST(&w->idle);
		out->closed = (uint32_t)(c - w->connections);
		worker_close(w, c, now_ns);
	}
	d = &w->destinations[out->destination];
	if (worker_is_stale(w, d, now_ns))
		d->retry_ns = 0;
	c = TAILQ_FIRST(&w->no_connection);
	TAILQ_REMOVE(&w->no_connection, c, of_age);
	*c = (struct worker_connection){ .order = ++w->order, .opened_ns = now_ns,
		.idle_ns = now_ns, .destination = d };
	TAILQ_INIT(&c->jobs);
	TAILQ_INSERT_TAIL(&w->aged, c, of_age);
	TAILQ_INSERT_TAIL(&w->idle, c, of_idle);
	LIST_INSERT_HEAD(&d->connections, c, of_destination);
	d->connection_count++;
	d->order = w->order;
	w->open++;
	w->idle_count++;
	return c;
}

static void add_job(struct workers *w, struct worker_job *job, struct worker_connection *c,
    struct worker_place *out) {
	if (c->job_count++ == 0) {
		TAILQ_REMOVE(&w->idle, c, of_idle);
		w->idle_count--;
	}
	job->connection = c;
	TAILQ_INSERT_TAIL(&c->jobs, job, of_list);
	worker_pair_add(w, job->message, c);
	out->job = job;
	out->connection = (uint32_t)(c - w->connections);
	out->destination = (uint32_t)(c->destination - w->destinations);
}

void worker_place(struct workers *workers, struct worker_job *job,
    const struct worker_request *request, int64_t now_ns, uint64_t random,
    struct worker_place *out) {
	bool allowed = worker_allowed(&workers->settings, job->message == WORKER_VERIFICATION,
	    workers->concurrency[job->message], worker_idle_count(workers));
	struct list_view view = { .keys = request->destinations };
	struct worker_connection *c;
	uint32_t list = 0;

	*out = (struct worker_place){ .rule = WORKER_DEFER, .connection = WORKER_NONE,
		.closed = WORKER_NONE };
	for (; list < request->list_count; list++) {
		view = (struct list_view){ .keys = view.keys + view.count,
			.count = request->lists[list] };
		see_list(workers, &view, now_ns);
		if (view.of_kind[KIND_BROKEN] < view.count)
			break;
	}
	out->list = list;
	if (list == request->list_count)
		return;
	c = choose_connection(workers, &view, allowed, now_ns, random, out);
	if (out->opened)
		c = open_connection(workers, out, now_ns);
	if (c != NULL)
		add_job(workers, job, c, out);
}
