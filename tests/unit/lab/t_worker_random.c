/* SPDX-License-Identifier: ISC */
/*
 * The allocator by property: the notes once more, as they stand there and without any
 * thought of cost, must choose the same; nothing is lost, nothing is above its limit; and
 * the notes' figures come out in virtual time.
 */
#include "tests/unit/test.h"
#include "tests/unit/random.h"
#include "tests/unit/lab/worker_world.h"

#define WORLDS		300
#define STEPS		600
#define DESTINATIONS	7
#define MESSAGES	5
#define WORKERS_MOST	12
#define JOBS_MOST	96

/* --- the notes, plainly ---------------------------------------------------------------- */

struct plain_connection {
	bool open, past_age;
	uint32_t destination;
	uint64_t order;
	int64_t opened_ns, idle_ns;
};

struct plain_job {
	bool there;
	uint32_t message, connection;
};

struct plain {
	struct random random;
	uint32_t workers;
	struct plain_connection connections[WORKERS_MOST];
	struct plain_job jobs[JOBS_MOST];
	uint32_t job_count;		/* there */
	struct {
		bool known;
		uint64_t order;
		int64_t closed_ns, retry_ns;
	} destinations[DESTINATIONS];
	uint64_t order;
	bool broken[DESTINATIONS];	/* connections to it fail */
	uint32_t *chosen;		/* by rule, in all worlds */
};

static uint32_t jobs_on(const struct plain *p, uint32_t connection) {
	uint32_t jobs = 0;

	for (uint32_t i = 0; i < JOBS_MOST; i++)
		jobs += p->jobs[i].there && p->jobs[i].connection == connection;
	return jobs;
}

static uint32_t connections_to(const struct plain *p, uint32_t destination) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < p->workers; i++)
		count += p->connections[i].open && p->connections[i].destination == destination;
	return count;
}

static uint32_t workers_of(const struct plain *p, uint32_t message) {
	bool on[WORKERS_MOST] = { false };
	uint32_t count = 0;

	for (uint32_t i = 0; i < JOBS_MOST; i++)
		if (p->jobs[i].there && p->jobs[i].message == message)
			on[p->jobs[i].connection] = true;
	for (uint32_t i = 0; i < p->workers; i++)
		count += on[i];
	return count;
}

enum plain_class { ACTIVE_OR_IDLE, CLOSED, UNUSED, RETRY, FAILED_CHECK };

static enum plain_class class_of(const struct plain *p, uint32_t d) {
	const struct worker_settings *s = w.settings;
	int64_t now_ns = w.now_ns, retry_ns = p->destinations[d].retry_ns;
	uint32_t count = connections_to(p, d);

	for (uint32_t i = 0; i < p->workers; i++)
		if (p->connections[i].open && p->connections[i].destination == d &&
		    !p->connections[i].past_age)
			return ACTIVE_OR_IDLE;
	if (!p->destinations[d].known)
		return UNUSED;
	if (count == 0 && retry_ns == 0 &&
	    now_ns >= p->destinations[d].closed_ns + s->closed_keep_ns)
		return UNUSED;
	if (count == 0 && retry_ns != 0 && now_ns >= retry_ns + s->retry_keep_ns)
		return UNUSED;
	if (retry_ns > now_ns)
		return FAILED_CHECK;
	if (s->destination_limit != 0 && count >= s->destination_limit)
		return ACTIVE_OR_IDLE;
	return retry_ns != 0 ? RETRY : CLOSED;
}

/* What may be chosen. */
struct plain_choice {
	enum worker_rule rule;
	bool destinations[DESTINATIONS];	/* for a new connection */
	uint32_t connection;			/* else */
	uint32_t list;
};

static bool is_in(const uint32_t *keys, uint32_t count, uint32_t key) {
	for (uint32_t i = 0; i < count; i++)
		if (keys[i] == key)
			return true;
	return false;
}

/* Most recent first. */
static uint32_t sorted(const struct plain *p, const uint32_t *keys, uint32_t count,
    bool active, uint32_t out[WORKERS_MOST]) {
	uint32_t found = 0;

	for (uint32_t i = 0; i < p->workers; i++) {
		const struct plain_connection *c = &p->connections[i];
		uint32_t at = found;

		if (!c->open || c->past_age || !is_in(keys, count, c->destination) ||
		    (jobs_on(p, i) > 0) != active)
			continue;
		for (; at > 0 && p->connections[out[at - 1]].order < c->order; at--)
			out[at] = out[at - 1];
		out[at] = i;
		found++;
	}
	return found;
}

static uint32_t free_of(const struct plain *p) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < p->workers; i++)
		count += !p->connections[i].open || jobs_on(p, i) == 0;
	return count;
}

static void plain_ride(const struct plain *p, const uint32_t *active, uint32_t count,
    enum worker_rule rule, struct plain_choice *out) {
	out->rule = count > 0 ? rule : WORKER_WAIT;
	if (count == 0)
		return;
	out->connection = active[0];
	for (uint32_t i = 0; i < count; i++)
		if (jobs_on(p, active[i]) < jobs_on(p, active[0])) {
			out->connection = active[i];
			return;
		}
}

static bool plain_new(const struct plain *p, const uint32_t *keys, uint32_t count,
    struct plain_choice *out) {
	const struct worker_settings *s = w.settings;
	uint32_t fewest = UINT32_MAX;
	uint64_t oldest = UINT64_MAX;
	uint32_t of[5] = { 0 };

	for (uint32_t i = 0; i < count; i++) {
		enum plain_class class = class_of(p, keys[i]);

		of[class]++;
		if (class == CLOSED && p->destinations[keys[i]].order < oldest)
			oldest = p->destinations[keys[i]].order;
		if (class == ACTIVE_OR_IDLE &&
		    p->destinations[keys[i]].retry_ns <= w.now_ns &&
		    connections_to(p, keys[i]) < fewest)
			fewest = connections_to(p, keys[i]);
	}
	out->rule = of[UNUSED] > 0 ? WORKER_UNUSED : of[CLOSED] > 0 ? WORKER_CLOSED :
	    of[RETRY] > 0 ? WORKER_RETRY : WORKER_ONE_MORE;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t d = keys[i];
		enum plain_class class = class_of(p, d);

		out->destinations[d] =
		    (out->rule == WORKER_UNUSED && class == UNUSED) ||
		    (out->rule == WORKER_CLOSED && class == CLOSED &&
		    p->destinations[d].order == oldest) ||
		    (out->rule == WORKER_RETRY && class == RETRY) ||
		    (out->rule == WORKER_ONE_MORE && class == ACTIVE_OR_IDLE &&
		    connections_to(p, d) == fewest &&
		    p->destinations[d].retry_ns <= w.now_ns);
	}
	return out->rule != WORKER_ONE_MORE || (fewest != UINT32_MAX &&
	    (s->destination_limit == 0 || fewest < s->destination_limit));
}

static struct plain_choice plain_place(const struct plain *p, uint32_t message,
    const struct worker_request *request) {
	const struct worker_settings *s = w.settings;
	const uint32_t *keys = request->destinations;
	struct plain_choice choice = { .rule = WORKER_DEFER, .connection = WORKER_NONE };
	uint32_t active[WORKERS_MOST], idle[WORKERS_MOST], actives, idles, count, works;
	bool allowed = worker_allowed(s, message == WORKER_VERIFICATION,
	    workers_of(p, message), free_of(p));

	for (uint32_t list = 0; list < request->list_count; list++, keys += count) {
		count = request->lists[list];
		works = 0;
		for (uint32_t i = 0; i < count; i++)
			works += class_of(p, keys[i]) != FAILED_CHECK;
		if (works == 0)
			continue;
		choice.list = list;
		choice.rule = WORKER_WAIT;
		actives = sorted(p, keys, count, true, active);
		idles = sorted(p, keys, count, false, idle);
		for (uint32_t i = 0; i < actives; i++)
			if (jobs_on(p, active[i]) < s->backlog) {
				choice.rule = WORKER_RECENT;
				choice.connection = active[i];
				return choice;
			}
		if (!allowed) {
			plain_ride(p, active, actives, WORKER_RIDE, &choice);
		} else if (idles > 0) {
			choice.rule = WORKER_IDLE;
			choice.connection = idle[0];
		} else if (free_of(p) == 0) {
			plain_ride(p, active, actives, WORKER_CROWDED, &choice);
		} else if (!plain_new(p, keys, count, &choice)) {
			plain_ride(p, active, actives, WORKER_FULL, &choice);
		}
		return choice;
	}
	return choice;
}

/* --- the same things happen to both ---------------------------------------------------- */

static void plain_close(struct plain *p, uint32_t connection) {
	p->destinations[p->connections[connection].destination].closed_ns = w.now_ns;
	p->connections[connection].open = false;
}

static void random_place(struct plain *p) {
	uint32_t keys[DESTINATIONS];
	uint32_t lists[3], used = 0, job, message = random_below(&p->random, MESSAGES);
	struct worker_request request = { keys, lists, 1 + random_below(&p->random, 3) };
	struct plain_choice want;
	struct worker_place place;
	struct plain_connection *c;
	bool forgotten;

	if (p->job_count == JOBS_MOST)
		return;
	for (uint32_t i = 0; i < request.list_count; i++) {
		lists[i] = random_below(&p->random, 4);
		for (uint32_t j = 0; j < lists[i] && used < DESTINATIONS; j++) {
			do
				keys[used] = random_below(&p->random, DESTINATIONS);
			while (is_in(keys, used, keys[used]));
			used++;
		}
		if (used == DESTINATIONS)
			lists[i] = 0, request.list_count = i;
	}
	want = plain_place(p, message, &request);
	for (job = 0; p->jobs[job].there; job++)
		;
	w.jobs[job].message = message;
	worker_place(w.workers, &w.jobs[job], &request, w.now_ns, random_next(&p->random),
	    &place);
	assert_string_equal(worker_rule_word(place.rule), worker_rule_word(want.rule));
	p->chosen[place.rule]++;
	assert_int_equal(place.opened, want.rule >= WORKER_UNUSED && want.rule <= WORKER_ONE_MORE);
	if (want.rule == WORKER_WAIT || want.rule == WORKER_DEFER) {
		assert_null(place.job);
		return;
	}
	assert_int_equal(place.list, want.list);
	c = &p->connections[place.connection];
	if (!place.opened) {
		assert_int_equal(place.connection, want.connection);
	} else {
		assert_true(want.destinations[place.destination]);
		if (place.closed != WORKER_NONE) {
			assert_int_equal(jobs_on(p, place.closed), 0);
			for (uint32_t i = 0; i < p->workers; i++)
				assert_true(p->connections[i].open);
			plain_close(p, place.closed);
		}
		assert_false(c->open);
		forgotten = class_of(p, place.destination) == UNUSED;
		*c = (struct plain_connection){ true, false, place.destination,
			++p->order, w.now_ns, w.now_ns };
		if (forgotten)
			p->destinations[c->destination].retry_ns = 0;
		p->destinations[c->destination].known = true;
		p->destinations[c->destination].order = p->order;
	}
	assert_int_equal(place.destination, c->destination);
	assert_ptr_equal(place.job, &w.jobs[job]);
	p->jobs[job] = (struct plain_job){ true, message, place.connection };
	p->job_count++;
}

static void random_done(struct plain *p) {
	uint32_t job = random_below(&p->random, JOBS_MOST), connection;
	bool closes;

	if (!p->jobs[job].there)
		return;
	connection = p->jobs[job].connection;
	p->jobs[job].there = false;
	p->job_count--;
	closes = p->connections[connection].past_age && jobs_on(p, connection) == 0;
	p->connections[connection].idle_ns = w.now_ns;
	assert_int_equal(worker_done(w.workers, &w.jobs[job], w.now_ns), closes);
	if (closes)
		plain_close(p, connection);
}

static void random_end(struct plain *p) {
	uint32_t connection = random_below(&p->random, p->workers), jobs, d, job;
	int64_t retry_ns = 0;
	struct worker_jobs lost = TAILQ_HEAD_INITIALIZER(lost);

	if (!p->connections[connection].open)
		return;
	d = p->connections[connection].destination;
	jobs = jobs_on(p, connection);
	if (p->broken[d])
		retry_ns = w.now_ns + (1 + random_below(&p->random, 100)) * SECOND;
	if (!p->broken[d] && random_below(&p->random, 3) > 0) {
		worker_connected(w.workers, connection);
		p->destinations[d].retry_ns = 0;
		return;
	}
	worker_lost(w.workers, connection, retry_ns, w.now_ns, &lost);
	if (retry_ns != 0)
		p->destinations[d].retry_ns = retry_ns;
	for (; !TAILQ_EMPTY(&lost); jobs--) {
		job = (uint32_t)(TAILQ_FIRST(&lost) - w.jobs);
		TAILQ_REMOVE(&lost, TAILQ_FIRST(&lost), of_list);
		assert_true(p->jobs[job].there);
		assert_int_equal(p->jobs[job].connection, connection);
		assert_int_equal(p->jobs[job].message, w.jobs[job].message);
		p->jobs[job].there = false;
		p->job_count--;
	}
	assert_int_equal(jobs, 0);
	plain_close(p, connection);
}

static void time_passes(struct plain *p) {
	const struct worker_settings *s = w.settings;
	uint32_t at;

	w.now_ns += random_below(&p->random, 20) * SECOND / 4;
	while ((at = worker_turn(w.workers, w.now_ns)) != WORKER_NONE) {
		assert_true(p->connections[at].open);
		assert_int_equal(jobs_on(p, at), 0);
		assert_true(w.now_ns >= p->connections[at].idle_ns + s->idle_age_ns ||
		    w.now_ns >= p->connections[at].opened_ns + s->active_age_ns);
		plain_close(p, at);
	}
	for (uint32_t i = 0; i < p->workers; i++) {
		struct plain_connection *c = &p->connections[i];

		if (c->open && w.now_ns >= c->opened_ns + s->active_age_ns)
			c->past_age = true;
		assert_false(c->open && jobs_on(p, i) == 0 && (c->past_age ||
		    w.now_ns >= c->idle_ns + s->idle_age_ns));
	}
	assert_true(worker_due_ns(w.workers) > w.now_ns);
}

static void counts_agree(const struct plain *p) {
	assert_int_equal(worker_idle_count(w.workers), free_of(p));
	for (uint32_t m = 0; m < MESSAGES; m++)
		assert_int_equal(w.workers->concurrency[m], workers_of(p, m));
	for (uint32_t d = 0; d < DESTINATIONS; d++)
		assert_true(connections_to(p, d) <= w.settings->destination_limit);
	assert_true(worker_is_sound(w.workers));
}

TEST(chooses_as_the_notes_say) {
	struct random random = random_seeded("chooses_as_the_notes_say");
	uint32_t chosen[WORKER_RULE_COUNT] = { 0 };
	struct plain *p = malloc(sizeof(*p));

	assert_non_null(p);
	for (int world = 0; world < WORLDS; world++) {
		memset(p, 0, sizeof(*p));
		p->chosen = chosen;
		p->random = (struct random){ random_next(&random) };
		p->workers = 1 + random_below(&p->random, WORKERS_MOST);
		world_open_sized(&(struct worker_sizes){ p->workers, 8, DESTINATIONS });
		w.settings->max_message_concurrency = random_below(&p->random, 4);
		w.settings->scale_max_concurrency = random_below(&p->random, 4);
		w.settings->verify_max_concurrency = random_below(&p->random, 3);
		w.settings->backlog = random_below(&p->random, 4);
		w.settings->destination_limit = 1 + random_below(&p->random, 4);
		w.settings->active_age_ns = (1 + random_below(&p->random, 90)) * SECOND;
		w.settings->idle_age_ns = (1 + random_below(&p->random, 30)) * SECOND;
		w.settings->closed_keep_ns = random_below(&p->random, 60) * SECOND;
		w.settings->retry_keep_ns = random_below(&p->random, 60) * SECOND;
		for (int step = 0; step < STEPS; step++) {
			uint32_t what = random_below(&p->random, 20);

			if (what < 8)
				random_place(p);
			else if (what < 15)
				random_done(p);
			else if (what < 17)
				random_end(p);
			else if (what < 19)
				time_passes(p);
			else
				p->broken[random_below(&p->random, DESTINATIONS)] ^= true;
			if (step % 16 == 0)
				counts_agree(p);
		}
		world_close(NULL);
	}
	for (uint32_t rule = 0; rule < WORKER_RULE_COUNT; rule++)
		assert_true(chosen[rule] > 100);
	free(p);
}

/* --- the notes' figures, in virtual time ----------------------------------------------- */

/* Messages that never run out of jobs, each job a destination of its own that takes between
 * half a second and one and a half; first come, first served among those that are
 * allowed. */
#define BIG	1000

struct big {
	struct random random;
	uint32_t messages;
	struct { int64_t end_ns; struct worker_job *job; uint32_t connection; } running[BIG];
	uint32_t count;
	uint32_t key;
};

static void fill(struct big *big) {
	for (uint32_t message = 1; message <= big->messages;) {
		uint32_t key = ++big->key, list = 1;
		struct worker_request request = { &key, &list, 1 };
		struct worker_place place;

		worker_place(w.workers, world_job(message), &request, w.now_ns,
		    random_next(&big->random), &place);
		if (place.rule != WORKER_UNUSED) {
			assert_int_equal(place.rule, WORKER_WAIT);
			message++;
			continue;
		}
		big->running[big->count].end_ns = w.now_ns + SECOND / 2 +
		    random_below(&big->random, 1000) * (SECOND / 1000);
		big->running[big->count].connection = place.connection;
		big->running[big->count++].job = place.job;
	}
}

static void end_one(struct big *big) {
	uint32_t next = 0;

	for (uint32_t i = 1; i < big->count; i++)
		if (big->running[i].end_ns < big->running[next].end_ns)
			next = i;
	w.now_ns = big->running[next].end_ns;
	(void)worker_done(w.workers, big->running[next].job, w.now_ns);
	worker_lost(w.workers, big->running[next].connection, 0, w.now_ns, &w.lost);
	big->running[next] = big->running[--big->count];
}

static uint32_t has(const struct big *big, uint32_t message) {
	return w.workers->concurrency[message];
}

TEST(figures_of_the_notes) {
	struct big *big = calloc(1, sizeof(*big));
	uint32_t before;

	assert_non_null(big);
	big->random = random_seeded("figures_of_the_notes");
	world_open_sized(&(struct worker_sizes){ BIG, 8, 1 << 16 });
	w.settings->max_message_concurrency = 100;
	w.settings->closed_keep_ns = 0;
	big->messages = 1;
	fill(big);
	/* 909 < 10 x 91, 910 is not < 10 x 90: 91 % */
	assert_int_equal(has(big, 1), 910);
	for (int i = 0; i < 3000; i++) {
		end_one(big);
		fill(big);
		assert_int_equal(has(big, 1), 910);
	}
	/* the second takes the remaining 9 %, as they are fewer than its maximum */
	big->messages = 2;
	fill(big);
	assert_int_equal(has(big, 1), 910);
	assert_int_equal(has(big, 2), 90);
	/* and takes over what the first gives up */
	for (int i = 0; i < 2000; i++) {
		before = has(big, 2);
		end_one(big);
		fill(big);
		if (i < 10)
			assert_true(has(big, 2) + 1 >= before && has(big, 1) <= 910);
	}
	/* until the equilibrium: c = 10 x (1000 - 2c), 47 % each */
	for (int i = 0; i < 2000; i++) {
		end_one(big);
		fill(big);
		for (uint32_t message = 1; message <= 2; message++)
			assert_in_range(has(big, message), 470, 480);
	}
	world_close(NULL);
	free(big);
}

/* The same by next_router_job, over workers that are all equal. */
TEST(figures_of_the_notes_for_routing) {
	struct random random = random_seeded("figures_of_the_notes_for_routing");
	struct worker_settings settings = worker_defaults;
	uint32_t concurrency[4] = { 0 }, free = BIG, done, job;

	settings.max_message_concurrency = 100;
	for (uint32_t messages = 1; messages <= 3; messages++) {
		static const uint32_t jobs[] = { 1, 2, 3 };
		/* 10/11, 10/21, 10/31 of all, and what one free worker more or less
		 * allows: the first of the list is asked first */
		uint32_t share = 10 * BIG / (10 * messages + 1);

		for (int i = 0; i < 10000; i++) {
			while ((job = worker_next_router_job(&settings, jobs, messages,
			    concurrency, free)) != WORKER_NONE) {
				concurrency[jobs[job]]++;
				free--;
			}
			if (messages == 2 && i == 0)
				assert_int_equal(concurrency[2], BIG - concurrency[1]);
			if (i >= 9000)
				for (uint32_t m = 1; m <= messages; m++)
					assert_in_range(concurrency[m], share - 12, share + 12);
			/* one of those that are at work, each as likely as the other */
			done = random_below(&random, BIG - free);
			for (job = 1; done >= concurrency[job]; job++)
				done -= concurrency[job];
			concurrency[job]--;
			free++;
		}
	}
}
