/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Many decisions in few rows.
 * MODEL    Alike are those of one kind and reason about the same class, destination or client
 *          network (a client's own class counts, not its address: a flood has many).
 *          A group keeps its latest.  Of more groups than there is room for the oldest go.
 * ERRORS   No memory.
 * THREADS  One.
 */
#include "view/decision_page.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/map.h"
#include "base/order.h"
#include "base/text.h"
#include "view/decided.h"

#define LATELY_NS	(600 * NS_PER_SECOND)

struct group {
	uint64_t hash;
	uint64_t count;
	int64_t first_ns, last_wall_ns;
	struct decided last;
};

struct groups {
	const struct decision_choice *choice;
	struct group *list;
	size_t count;
	struct map by_hash;
	int64_t now_ns, wall_ns;
};

/* --- who it is about ---------------------------------------------------------------------- */

/* "class", "destination" or "client"; and its name. */
static const char *subject_of(const struct decided *d, char out[SEGMENT_NAME_MAX + 1]) {
	const char *class = decided_text(d, DECIDED_CLASS), *name = decided_text(d, DECIDED_NAME);
	const char *window = decided_text(d, DECIDED_WINDOW_OF);
	bool is_class = (d->flags & DECIDED_IS_CLASS) != 0;
	char address[ADDRESS_TEXT_MAX];
	const char *text;

	if (decided_is_of_sessions(d) && *window != '\0')
		text = window;
	else if (decided_is_of_sessions(d) && *class != '\0')
		text = class, is_class = true;
	else
		text = name;
	if (decided_is_of_sessions(d) && *window == '\0' && *class == '\0' &&
	    !address_is_unknown(&d->client)) {
		address_format(&d->client, address);
		(void)text_append(out, SEGMENT_NAME_MAX + 1, 0, "%s", address);
		return "client";
	}
	(void)text_append(out, SEGMENT_NAME_MAX + 1, 0, "%s", text);
	return is_class ? "class" : "destination";
}

static bool is_wanted(const struct decision_choice *choice, const struct decided *d) {
	const uint32_t names = 1u << DECIDED_NAME | 1u << DECIDED_CLASS | 1u << DECIDED_WINDOW_OF;
	const uint32_t all = names | 1u << DECIDED_REASON | 1u << DECIDED_NOTE |
	    1u << DECIDED_RULE | 1u << DECIDED_RELAY;
	char id[DECISION_ID_MAX];

	if ((d->flags & DECIDED_IS_RECIPIENT) != 0 ||
	    (choice->kind[0] != '\0' && strcmp(choice->kind, decided_word(d->kind)) != 0))
		return false;
	return (choice->about[0] == '\0' || view_decided_has(d, names, choice->about, true)) &&
	    (view_decided_has(d, all, choice->find, false) ||
	    strcasestr(decision_id_text(d->id, id), choice->find) != NULL);
}

/* --- rows --------------------------------------------------------------------------------- */

static void group_row(void *context, struct writer *writer, const void *item) {
	const struct groups *groups = context;
	const struct group *group = item;
	const struct decided *d = &group->last;
	char about[SEGMENT_NAME_MAX + 1];
	const char *subject = subject_of(d, about);
	int64_t ago_ns = groups->now_ns - group->first_ns;

	view_decided_put(writer, d, group->last_wall_ns);
	writer_number(writer, "count", group->count);
	writer_seconds(writer, "first", value_number(ago_ns < 0 ? 0 : (uint64_t)(ago_ns /
	    NS_PER_SECOND)));
	writer_text(writer, "subject", subject);
	writer_text_if(writer, "about", about);
	writer_truth(writer, "observed", (d->flags & DECIDED_OBSERVED_ONLY) != 0);
}

static int compare_groups(const void *a, const void *b) {
	const struct group *one = a, *other = b;

	return order_then(ORDER(other->last_wall_ns, one->last_wall_ns),
	    ORDER(other->last.id, one->last.id));
}

static bool groups_begin(struct groups *groups, const struct decision_choice *choice, size_t most) {
	memset(groups, 0, sizeof(*groups));
	groups->choice = choice;
	groups->list = calloc(most, sizeof(*groups->list));
	clock_pair(&groups->now_ns, &groups->wall_ns);
	return groups->list != NULL;
}

static void groups_end(struct groups *groups, struct writer *writer, const char *name) {
	qsort(groups->list, groups->count, sizeof(*groups->list), compare_groups);
	writer_table(writer, &(const struct table){ .name = name, .row = group_row,
	    .context = groups, .items = groups->list, .each = sizeof(*groups->list),
	    .count = groups->count < groups->choice->limit ? groups->count :
	    groups->choice->limit });
	free(groups->list);
	map_free(&groups->by_hash);
}

/* --- groups --------------------------------------------------------------------------------- */

uint64_t decision_group_key(const struct decided *d) {
	char about[SEGMENT_NAME_MAX + 1];

	(void)subject_of(d, about);
	return text_hash((uint64_t)d->flags << 16 ^ ((uint64_t)d->kind << 8 | d->reason), about,
	    strlen(about));
}

static struct group *oldest_of(struct groups *groups) {
	struct group *oldest = &groups->list[0];

	for (size_t i = 1; i < groups->count; i++)
		if (groups->list[i].last_wall_ns < oldest->last_wall_ns)
			oldest = &groups->list[i];
	return oldest;
}

/* The oldest makes room.  NULL: no memory. */
static struct group *new_group(struct groups *groups, uint64_t hash) {
	struct group *group = groups->count < DECISION_GROUPS ? &groups->list[groups->count++] :
	    oldest_of(groups);

	map_remove_hash(&groups->by_hash, group->hash);
	return map_set_index(&groups->by_hash, hash, (uint32_t)(group - groups->list)) ? group :
	    NULL;
}

/* Decisions come with the oldest first. */
static void groups_add(void *context, const struct decided *d) {
	struct groups *groups = context;
	uint64_t hash = decision_group_key(d);
	uint32_t at = map_index(&groups->by_hash, hash);
	struct group *group;

	if (groups->now_ns - d->at_ns > LATELY_NS || !is_wanted(groups->choice, d))
		return;
	group = at != MAP_NONE ? &groups->list[at] : new_group(groups, hash);
	if (group == NULL)
		return;
	if (group->hash != hash)
		*group = (struct group){ .hash = hash, .first_ns = d->at_ns };
	group->count++;
	group->last = *d;
	group->last_wall_ns = groups->wall_ns - (groups->now_ns - d->at_ns);
}

int decision_groups_write(const struct view *view, const struct decision_choice *choice,
    struct writer *writer, const char *name) {
	struct groups groups;

	if (!groups_begin(&groups, choice, DECISION_GROUPS))
		return -1;
	for (unsigned ring = 0; ring < DECIDED_RINGS; ring++)
		reader_decisions(view->reader, (enum decided_ring)ring, groups_add, &groups);
	groups_end(&groups, writer, name);
	return 0;
}

/* --- changes ---------------------------------------------------------------------------------- */

/* The last ones: a ring. */
static void add_change(void *context, const struct history_change *change) {
	struct groups *groups = context;
	size_t most = groups->choice->limit;
	struct group *group;

	if (!decided_is_change(&change->decided) || !is_wanted(groups->choice, &change->decided) ||
	    most == 0)
		return;
	group = groups->count < most ? &groups->list[groups->count++] : oldest_of(groups);
	*group = (struct group){ .count = 1, .last = change->decided,
		.last_wall_ns = change->wall_ns,
		.first_ns = groups->now_ns - (groups->wall_ns - change->wall_ns) };
}

static void add_from_ring(void *context, const struct decided *d) {
	struct groups *groups = context;

	add_change(groups, &(const struct history_change){
	    groups->wall_ns - (groups->now_ns - d->at_ns), *d });
}

int decision_changes_write(const struct view *view, struct history *history,
    const struct decision_choice *choice, struct writer *writer, const char *name) {
	struct groups groups;

	if (!groups_begin(&groups, choice, choice->limit + 1))
		return -1;
	if (history != NULL)
		history_changes(history, add_change, &groups);
	else
		reader_decisions(view->reader, DECIDED_OF_DESTINATIONS, add_from_ring, &groups);
	groups_end(&groups, writer, name);
	return 0;
}
