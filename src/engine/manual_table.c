/* SPDX-License-Identifier: ISC */
/* In a list by age, and in buckets by name. */
#include "engine/manual_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/siphash.h"

#define BUCKETS	4096

struct entry {
	TAILQ_ENTRY(entry) by_age;
	LIST_ENTRY(entry) by_name;
	struct journal_manual action;	/* its texts: name, then reason, below */
	char text[];
};
TAILQ_HEAD(age, entry);
LIST_HEAD(bucket, entry);

struct manual_table {
	struct age age;
	struct bucket buckets[BUCKETS];
	unsigned count;
};

struct manual_table *manual_table_open(void) {
	struct manual_table *table = calloc(1, sizeof(*table));

	if (table != NULL)
		TAILQ_INIT(&table->age);
	return table;
}

static void drop(struct manual_table *table, struct entry *entry) {
	TAILQ_REMOVE(&table->age, entry, by_age);
	LIST_REMOVE(entry, by_name);
	free(entry);
	table->count--;
}

void manual_table_close(struct manual_table **table) {
	struct entry *entry;

	if (*table == NULL)
		return;
	while ((entry = TAILQ_FIRST(&(*table)->age)) != NULL)
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
	return action->verb == JOURNAL_VERB_SET;
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
	entry->action.mta = (struct journal_text){ NULL, 0 };
	if (action->name.length > 0)
		memcpy(entry->text, action->name.text, action->name.length);
	entry->action.name.text = entry->text;
	if (action->reason.length > 0)
		memcpy(entry->text + action->name.length, action->reason.text,
		    action->reason.length);
	entry->action.reason.text = entry->text + action->name.length;
	return entry;
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
		    action->verb == JOURNAL_VERB_FORGET))
			drop(table, old);
	}
	LIST_INSERT_HEAD(bucket, entry, by_name);
	TAILQ_INSERT_TAIL(&table->age, entry, by_age);
	if (++table->count > MANUAL_ACTIONS_MAX)
		drop(table, TAILQ_FIRST(&table->age));
	return true;
}

void manual_table_each(struct manual_table *table,
    bool (*each)(void *context, const struct journal_manual *action), void *context) {
	struct entry *entry, *next;

	for (entry = TAILQ_FIRST(&table->age); entry != NULL; entry = next) {
		next = TAILQ_NEXT(entry, by_age);
		if (!each(context, &entry->action))
			drop(table, entry);
	}
}

bool manual_table_has(const struct manual_table *table, unsigned what, const char *name) {
	const struct entry *entry;
	size_t length = strlen(name);

	LIST_FOREACH(entry, bucket_of(table, what, name, length), by_name)
		if (is_of(entry, what, name, length))
			return true;
	return false;
}

unsigned manual_table_count(const struct manual_table *table) {
	return table->count;
}
