/* SPDX-License-Identifier: ISC */
/* In lists by age, and in buckets by name.  What is done with when it was done, as a resume
 * is, stands in a list of its own: it goes first. */
#include "engine/journal/manual_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/siphash.h"

#define BUCKETS	4096
#define SWEEP_EVERY	(MANUAL_ACTIONS_MAX / 16)	/* entries that are pushed out */

/* In this order they are pushed out. */
enum age_list { AGES_DONE, AGES_LASTING, AGES };

struct entry {
	uint64_t serial;	/* rises with age */
	TAILQ_ENTRY(entry) by_age;
	LIST_ENTRY(entry) by_name;
	struct journal_manual action;	/* its texts: name, then reason, below */
	char text[];
};
TAILQ_HEAD(age, entry);
LIST_HEAD(bucket, entry);

struct manual_table {
	struct age ages[AGES];
	struct bucket buckets[BUCKETS];
	unsigned count;
	unsigned sweep_in;	/* so many may be pushed out before the next sweep */
	uint64_t serial, pushed_out;
};

struct manual_table *manual_table_open(void) {
	struct manual_table *table = calloc(1, sizeof(*table));

	for (unsigned i = 0; table != NULL && i < AGES; i++)
		TAILQ_INIT(&table->ages[i]);
	return table;
}

static struct age *list_of(struct manual_table *table, const struct entry *entry) {
	bool done = entry->action.verb == MANUAL_RESUME ||
	    entry->action.verb == MANUAL_FORGET;

	return &table->ages[done ? AGES_DONE : AGES_LASTING];
}

static void drop(struct manual_table *table, struct entry *entry) {
	TAILQ_REMOVE(list_of(table, entry), entry, by_age);
	LIST_REMOVE(entry, by_name);
	free(entry);
	table->count--;
}

void manual_table_close(struct manual_table **table) {
	struct entry *entry;

	if (*table == NULL)
		return;
	for (unsigned i = 0; i < AGES; i++)
		while ((entry = TAILQ_FIRST(&(*table)->ages[i])) != NULL)
			drop(*table, entry);
	free(*table);
	*table = NULL;
}

static const struct bucket *bucket_of(const struct manual_table *table, unsigned what,
    const char *name, size_t length) {
	/* whoever chooses these names has the rights to stop all mail */
	static const struct siphash_key key = { 1, 2 };

	return &table->buckets[(siphash13(&key, name, length) + what) % BUCKETS];
}

static bool is_of(const struct entry *entry, unsigned what, const char *name, size_t length) {
	return entry->action.what == what && entry->action.name.length == length &&
	    memcmp(entry->action.name.text, name, length) == 0;
}

static bool sets(const struct journal_manual *action) {
	return action->verb == MANUAL_LIMIT;
}

/* What the new one says nothing of. */
static void take_over(struct journal_manual *to, const struct journal_manual *from) {
	if (to->window == UINT32_MAX)
		to->window = from->window;
	if (to->ceiling == UINT32_MAX)
		to->ceiling = from->ceiling;
	if (to->until_ns == 0)
		to->until_ns = from->until_ns;
	if (to->reason.length == 0)
		to->reason = from->reason;
}

static struct entry *copy(const struct journal_manual *action) {
	struct entry *entry = calloc(1, sizeof(*entry) + action->name.length +
	    action->reason.length);

	if (entry == NULL)
		return NULL;
	entry->action = *action;
	if (action->name.length > 0)
		memcpy(entry->text, action->name.text, action->name.length);
	entry->action.name.text = entry->text;
	if (action->reason.length > 0)
		memcpy(entry->text + action->name.length, action->reason.text,
		    action->reason.length);
	entry->action.reason.text = entry->text + action->name.length;
	return entry;
}

/* Holds and suspensions that are over when the newest was done. */
static void sweep(struct manual_table *table, int64_t now_ns) {
	struct entry *entry, *next;

	for (entry = TAILQ_FIRST(&table->ages[AGES_LASTING]); entry != NULL; entry = next) {
		next = TAILQ_NEXT(entry, by_age);
		if (!sets(&entry->action) && entry->action.until_ns <= now_ns)
			drop(table, entry);
	}
}

static void push_out(struct manual_table *table, int64_t now_ns) {
	struct entry *entry = TAILQ_FIRST(&table->ages[AGES_DONE]);

	if (entry != NULL) {
		drop(table, entry);
		return;
	}
	if (table->sweep_in == 0) {
		table->sweep_in = SWEEP_EVERY;
		sweep(table, now_ns);
		if (table->count <= MANUAL_ACTIONS_MAX)
			return;
	}
	table->sweep_in--;
	table->pushed_out++;
	drop(table, TAILQ_FIRST(&table->ages[AGES_LASTING]));
}

bool manual_table_add(struct manual_table *table, const struct journal_manual *action) {
	struct bucket *bucket = (struct bucket *)(uintptr_t)bucket_of(table, action->what,
	    action->name.text, action->name.length);
	struct journal_manual merged = *action;
	struct entry *entry, *next, *old = NULL;

	for (entry = LIST_FIRST(bucket); entry != NULL; entry = LIST_NEXT(entry, by_name))
		if (sets(action) && sets(&entry->action) && is_of(entry, action->what,
		    action->name.text, action->name.length))
			old = entry;
	if (old != NULL)
		take_over(&merged, &old->action);
	entry = copy(&merged);
	if (entry == NULL)
		return false;
	for (old = LIST_FIRST(bucket); old != NULL; old = next) {
		next = LIST_NEXT(old, by_name);
		if (is_of(old, action->what, action->name.text, action->name.length) &&
		    (sets(&old->action) == sets(action) ||
		    action->verb == MANUAL_FORGET))
			drop(table, old);
	}
	LIST_INSERT_HEAD(bucket, entry, by_name);
	entry->serial = ++table->serial;
	TAILQ_INSERT_TAIL(list_of(table, entry), entry, by_age);
	if (++table->count > MANUAL_ACTIONS_MAX)
		push_out(table, action->when_ns);
	return true;
}

void manual_table_each(struct manual_table *table,
    bool (*each)(void *context, const struct journal_manual *action), void *context) {
	struct entry *next[AGES], *entry;

	for (unsigned i = 0; i < AGES; i++)
		next[i] = TAILQ_FIRST(&table->ages[i]);
	while (next[0] != NULL || next[1] != NULL) {
		unsigned i = next[0] == NULL ||
		    (next[1] != NULL && next[1]->serial < next[0]->serial);

		entry = next[i];
		next[i] = TAILQ_NEXT(entry, by_age);
		if (!each(context, &entry->action))
			drop(table, entry);
	}
}

uint64_t manual_table_pushed_out(const struct manual_table *table) {
	return table->pushed_out;
}

bool manual_table_has(const struct manual_table *table, unsigned what, const char *name) {
	const struct entry *entry;
	size_t length = strlen(name);

	LIST_FOREACH(entry, bucket_of(table, what, name, length), by_name)
		if (is_of(entry, what, name, length))
			return true;
	return false;
}

void manual_table_drop_older(struct manual_table *table, unsigned what,
    const struct journal_text *name, int64_t when_ns) {
	struct entry *entry, *next;

	for (entry = LIST_FIRST(bucket_of(table, what, name->text, name->length)); entry != NULL;
	     entry = next) {
		next = LIST_NEXT(entry, by_name);
		if (is_of(entry, what, name->text, name->length) &&
		    entry->action.when_ns <= when_ns)
			drop(table, entry);
	}
}
