/* SPDX-License-Identifier: ISC */
/*
 * The log of a queue against a naive model, in virtual time: an owner that puts, takes,
 * starts, delivers and finishes by chance, whose process dies now and then.  At any time
 * what is given, known, shown and counted is what the model has; whatever is due has been
 * given once the owner has taken all that it is given; and the log stays small.
 */
#include "tests/unit/test.h"
#include "tests/unit/journal/queue/messages_world.h"

#include "journal/queue/messages_internal.h"
#include "tests/unit/random.h"

#define MESSAGES	48
#define DOMAINS		3
#define STEPS		6000

static const char *const domains[DOMAINS] = { "a.example", "b.example", "" };
enum status { ABSENT, WAITS, IN_MEMORY, WORKS };

struct model {
	enum status status;
	uint32_t left[DOMAINS];
	uint64_t stamp;
	int64_t due_ns;
	int64_t earliest_ns;	/* no runner may bring it before */
	bool seen, shown, unseen;
};

static struct model model[MESSAGES];
static struct random chance;

static unsigned below(unsigned n) {
	return random_below(&chance, n);
}

static const char *id_of(unsigned i) {
	static char id[8];

	snprintf(id, sizeof(id), "q%u", i);
	return id;
}

static unsigned index_of(const char *id) {
	unsigned i;

	assert_int_equal(sscanf(id, "q%u", &i), 1);
	assert_true(i < MESSAGES);
	return i;
}

/* The longest interval that is no longer than what it waits. */
static int64_t interval_ns(int64_t wait_ns) {
	static const int minutes[] = { 30, 20, 10, 5 };

	for (unsigned i = 0; i < 4; i++)
		if (wait_ns >= minutes[i] * 60 * S)
			return minutes[i] * 60 * S;
	return 0;
}

static int64_t some_due(void) {
	switch (below(6)) {
	case 0:
	case 1:
		return 0;
	case 2:
		return INT64_MAX;
	default:
		return world.wall_ns + (1 + below(3000)) * S;
	}
}

/* --- what the owner does --------------------------------------------------------------- */

static void put_one(unsigned i) {
	struct model *x = &model[i];
	struct messages_group groups[DOMAINS];
	struct messages_envelope e = { .mta = "m", .directory = "/q", .id = id_of(i),
		.stamp = ++x->stamp, .sender = "", .groups = groups, .due_ns = some_due() };
	bool held = below(2) == 0;
	bool works = x->status == WORKS;

	for (unsigned k = 0; k < DOMAINS; k++) {
		if (!works && (x->status == ABSENT || below(4) == 0))
			x->left[k] = below(4);
		if (x->left[k] > 0)
			groups[e.group_count++] = (struct messages_group){ domains[k],
				strlen(domains[k]), x->left[k], e.due_ns };
		e.recipients += x->left[k];
	}
	assert_int_not_equal(messages_put(world.m, &e, held, world.wall_ns), 0);
	x->status = held ? IN_MEMORY : WAITS;
	x->due_ns = e.due_ns;
	x->earliest_ns = world.wall_ns + (e.due_ns == INT64_MAX ? 1800 * S :
	    e.due_ns == 0 ? 0 : interval_ns(e.due_ns - world.wall_ns));
	x->seen = true;
}

static void compare(const struct model *x, const struct messages_envelope *e) {
	uint32_t left[DOMAINS] = { 0 };

	assert_true(e->stamp == x->stamp);
	for (unsigned i = 0; i < e->group_count; i++)
		for (unsigned k = 0; k < DOMAINS; k++)
			if (e->groups[i].length == strlen(domains[k]) && memcmp(
			    e->groups[i].domain, domains[k], strlen(domains[k])) == 0)
				left[k] += e->groups[i].recipients;
	assert_memory_equal(left, x->left, sizeof(left));
}

/* One that is given; false: none is, for now. */
static bool take_one(void) {
	struct messages_envelope e;
	int64_t next_ns;
	struct model *x;
	enum messages_answer answer = messages_next(world.m, world.wall_ns, &e, &next_ns);

	if (answer != MESSAGES_ONE) {
		assert_true(next_ns >= world.wall_ns);
		if (answer == MESSAGES_NONE && next_ns > world.wall_ns)
			return false;
		world_turn();
		return true;
	}
	x = &model[index_of(e.id)];
	assert_int_equal(x->status, WAITS);
	assert_true(world.wall_ns >= x->earliest_ns);
	compare(x, &e);
	x->status = IN_MEMORY;
	return true;
}

static void take_all(void) {
	world_turn();
	while (take_one())
		;
	for (unsigned i = 0; i < MESSAGES; i++)
		assert_false(model[i].status == WAITS && model[i].due_ns <= world.wall_ns);
}

static void work_on(unsigned i) {
	struct model *x = &model[i];
	unsigned k = below(DOMAINS);
	uint32_t recipients;

	if (x->status == WAITS || x->status == IN_MEMORY) {
		assert_int_not_equal(start(id_of(i)), 0);
		x->status = WORKS;
		x->seen = true;
		return;
	}
	if (x->status == ABSENT || x->left[k] == 0) {
		assert_int_equal(start(id_of(i)), 0);
		return;
	}
	recipients = 1 + below(x->left[k]);
	assert_int_not_equal(delivered(id_of(i), domains[k], recipients), 0);
	x->left[k] -= recipients;
}

static void finish_one(unsigned i) {
	if (model[i].status == ABSENT)
		assert_int_equal(finish(id_of(i)), 0);
	else
		assert_int_not_equal(finish(id_of(i)), 0);
	model[i].status = ABSENT;
}

/* --- what is asked ----------------------------------------------------------------------- */

static void show(const struct messages_envelope *e) {
	struct model *x = &model[index_of(e->id)];

	assert_int_equal(x->status, WAITS);
	compare(x, e);
	x->shown = true;
}

static void look(void) {
	struct messages_walk *walk;
	struct messages_envelope e;
	enum messages_answer answer;

	for (unsigned i = 0; i < MESSAGES; i++)
		model[i].shown = false;
	walk = messages_walk_open(world.m);
	while ((answer = messages_walk_next(world.m, walk, &e)) != MESSAGES_NONE) {
		if (answer == MESSAGES_ONE)
			show(&e);
		else
			world_turn();
	}
	messages_walk_close(&walk);
	for (unsigned i = 0; i < MESSAGES; i++) {
		assert_true(model[i].shown || model[i].status != WAITS);
		if (!model[i].shown || below(10) != 0)
			continue;
		assert_true(messages_take(world.m, messages_key("m", "/q", id_of(i)), &e));
		compare(&model[i], &e);
		model[i].status = IN_MEMORY;
	}
}

static void tell_unseen(void *context, const char *mta, const char *directory, const char *id) {
	model[index_of(id)].unseen = true;
}

static void look_for_unseen(void) {
	world_turn();
	messages_seen_begin(world.m);
	for (unsigned i = 0; i < MESSAGES; i++) {
		model[i].unseen = false;
		model[i].seen = below(4) != 0;
		if (model[i].seen)
			assert_int_equal(messages_knows(world.m, messages_key("m", "/q", id_of(i)),
			    model[i].stamp), model[i].status != ABSENT);
		else if (below(2) == 0)
			put_one(i);
	}
	messages_seen_end(world.m, tell_unseen, NULL);
	world_turn();
	for (unsigned i = 0; i < MESSAGES; i++)
		assert_int_equal(model[i].unseen, !model[i].seen &&
		    (model[i].status == WAITS || model[i].status == IN_MEMORY));
}

static void check_counts(void) {
	struct messages_totals t = totals();
	unsigned by[WORKS + 1] = { 0 };

	for (unsigned i = 0; i < MESSAGES; i++)
		by[model[i].status]++;
	assert_int_equal(t.waiting, by[WAITS]);
	assert_int_equal(t.held, by[IN_MEMORY]);
	assert_int_equal(t.working, by[WORKS]);
}

/* The process dies: what was working comes back at once, less what was delivered. */
static void die(void) {
	world_turn();
	world_kill();
	world_open();
	for (unsigned i = below(4); i > 0; i--)
		messages_turn(world.m, world.wall_ns, world.now_ns);
	if (below(3) == 0) {
		world_kill();
		world_open();
	}
	world_turn();
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct model *x = &model[i];

		if (x->status == WORKS) {
			x->status = x->left[0] + x->left[1] + x->left[2] > 0 ? WAITS : ABSENT;
			x->due_ns = 0;
			x->earliest_ns = 0;
		} else if (x->status == IN_MEMORY) {
			x->status = WAITS;
		}
	}
	assert_true(messages_is_indexed(world.m));
	check_counts();
}

static void step(void) {
	unsigned i = below(MESSAGES);

	switch (below(40)) {
	default:
		put_one(i);
		break;
	case 10 ... 14:
		(void)take_one();
		break;
	case 15 ... 26:
		work_on(i);
		break;
	case 27 ... 30:
		finish_one(i);
		break;
	case 31 ... 34:
		world_pass(below(10));
		break;
	case 35:
		world_pass(below(1500));
		break;
	case 36:
		take_all();
		break;
	case 37:
		if (below(4) == 0)
			look();
		break;
	case 38:
		if (below(4) == 0)
			look_for_unseen();
		break;
	case 39:
		if (below(3) == 0)
			die();
		break;
	}
}

TEST_IN(world_begin, world_end, test_the_log_is_as_the_model) {
	uint64_t most = 0;

	chance = random_seeded("t_journal_random");
	for (unsigned i = 0; i < STEPS; i++) {
		step();
		if (i % 16 == 0)
			check_counts();
		if (counts().disk_bytes > most)
			most = counts().disk_bytes;
	}
	for (unsigned i = 0; i < MESSAGES; i++)
		finish_one(i);
	world_pass(120);
	put_one(0);
	world_pass(120);
	assert_in_range(files(), 1, 2);
	/* 6000 steps are some 600 kB, and cover some days; each file is 64 kB at most */
	assert_in_range(most, 1, 256 << 10);
	assert_int_equal(totals().unreadable, 0);
}

/* --- the index -------------------------------------------------------------------------------- */

#define KEYS	4000

/* Keys that crowd in a few tables, and at one place of each. */
static uint64_t key_of(unsigned i) {
	return (uint64_t)(i % 3) << 56 | (i % 2 == 0 ? (uint64_t)i * UINT64_C(2654435761) :
	    UINT64_C(0xfffffff0) - i % 7) | (uint64_t)i << 34;
}

TEST(test_the_index_is_as_a_list) {
	static bool there[KEYS];
	static struct messages m;
	struct messages_settings settings = messages_defaults;

	memset(there, 0, sizeof(there));
	m.settings = settings;
	chance = random_seeded("t_journal_random, index");
	for (unsigned i = 0; i < 200000; i++) {
		unsigned k = below(i % 50000 < 25000 ? KEYS : 300) + 1;
		struct entry *entry = messages_index_find(&m, key_of(k));

		k--;
		assert_int_equal(entry != NULL, there[k]);
		if (entry == NULL) {
			entry = messages_index_make(&m, key_of(k + 1));
			assert_non_null(entry);
			entry->stamp = k;
			there[k] = true;
			continue;
		}
		assert_int_equal(entry->stamp, k);
		if (below(2) == 0 || i % 50000 > 25000) {
			messages_index_remove(&m, entry);
			there[k] = false;
		}
	}
	for (unsigned k = 0; k < KEYS; k++)
		assert_int_equal(messages_index_find(&m, key_of(k + 1)) != NULL, there[k]);
	messages_index_clear(&m);
}
