/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Where posternctl why finds decisions.
 * MODEL    The segment's rings first; what they have lost stands in the journal, of which
 *          the places are listed once, by id; lists merge both by time.  Of two records of one id the later counts.
 * ERRORS   A journal that cannot be read is complained about once; then only the rings
 *          are looked at.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/order.h"
#include "base/text.h"
#include "ctl/ask/why.h"
#include "journal/reader.h"
#include "journal/record.h"
#include "policy/limit/decision.h"
#include "view/decided_batch.h"

struct listed {
	uint64_t id;
	int64_t when_ns;	/* by the wall clock */
	struct journal_place place;
};

struct why_journal {
	struct journal_reader *reader;
	struct journal_cursor *cursor;
	struct listed *list;
	size_t count, room;
};

void why_sources_begin(struct why_sources *sources, struct state *state,
    const char *journal_path) {
	*sources = (struct why_sources){ .state = state, .journal_path = journal_path };
	clock_pair(&sources->now_ns, &sources->wall_ns);
}

static void close_journal(struct why_journal *journal) {
	if (journal->cursor != NULL)
		journal_cursor_close(&journal->cursor);
	if (journal->reader != NULL)
		journal_reader_close(&journal->reader);
	free(journal->list);
	free(journal);
}

void why_sources_end(struct why_sources *sources) {
	if (sources->journal != NULL)
		close_journal(sources->journal);
	sources->journal = NULL;
}

/* --- the journal ---------------------------------------------------------------------- */

static bool event_decode(const struct journal_frame *frame, struct why_event *out) {
	struct journal_decision decision;

	memset(out, 0, sizeof(*out));
	if (!journal_decision_read(frame->payload, frame->length, &decision) ||
	    !journal_decision_get(&decision, &out->d))
		return false;
	out->wall_ns = clock_bounded_ns(decision.d.at_ns);
	out->until_wall_ns = decision.d.until_ns == INT64_MAX ? INT64_MAX :
	    clock_bounded_ns(decision.d.until_ns);
	out->source = "journal";
	return true;
}

static bool list_decision(void *context, const struct journal_found *found) {
	struct why_journal *journal = context;
	struct journal_decision decision;

	if (found->kind != JOURNAL_FOUND_RECORD || found->frame.type != JOURNAL_DECISION ||
	    !journal_decision_read(found->frame.payload, found->frame.length, &decision))
		return true;
	if (!array_grow(&journal->list, &journal->room, journal->count, sizeof(*journal->list)))
		return false;
	journal->list[journal->count++] = (struct listed){ decision.d.id, decision.d.at_ns,
	    found->place };
	return true;
}

static int by_id(const void *a, const void *b) {
	const struct listed *x = a, *y = b;
	uint64_t px = journal_place_pack(x->place), py = journal_place_pack(y->place);

	return order_then(ORDER(x->id, y->id), ORDER(px, py));
}

static struct why_journal *open_journal(const char *path) {
	struct why_journal *journal = calloc(1, sizeof(*journal));
	struct diag diag = { .error = 0 };

	if (journal == NULL)
		return NULL;
	if (journal_reader_open_path(&journal->reader, path, &diag) != 0) {
		if (diag.error == EACCES || diag.error == EPERM)
			ctl_complain("%s: only root and the daemon's user may read the "
			    "journal; older decisions are not searched", path);
		else if (diag.error != ENOENT)
			ctl_complain("%s", diag.text);
		close_journal(journal);
		return NULL;
	}
	journal->cursor = journal_cursor_open(&journal->reader->files);
	if (journal->cursor == NULL) {
		close_journal(journal);
		return NULL;
	}
	(void)journal_each(&journal->reader->files, journal_reader_begin(journal->reader),
	    list_decision, journal);
	if (journal->count > 0)
		qsort(journal->list, journal->count, sizeof(journal->list[0]), by_id);
	return journal;
}

static struct why_journal *journal_of(struct why_sources *sources) {
	if (!sources->journal_tried && sources->journal_path[0] != '\0')
		sources->journal = open_journal(sources->journal_path);
	sources->journal_tried = true;
	return sources->journal;
}

static bool read_at(struct why_journal *journal, struct journal_place place,
    struct why_event *out) {
	struct journal_found found;

	journal_cursor_seek(journal->cursor, place);
	return journal_cursor_next(journal->cursor, &found) == JOURNAL_FOUND_RECORD &&
	    journal_place_pack(found.place) == journal_place_pack(place) &&
	    found.frame.type == JOURNAL_DECISION && event_decode(&found.frame, out);
}

static bool find_in_journal(struct why_sources *sources, uint64_t id, struct why_event *out) {
	struct why_journal *journal = journal_of(sources);
	size_t low = 0, high = journal == NULL ? 0 : journal->count;

	/* behind the last one of that id */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (journal->list[middle].id <= id)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && journal->list[low - 1].id == id &&
	    read_at(journal, journal->list[low - 1].place, out);
}

/* --- the segment --------------------------------------------------------------------------- */

int64_t why_wall_ns(const struct why_sources *sources, int64_t time_ns) {
	if (time_ns == 0 || time_ns == INT64_MAX)
		return time_ns;
	return sources->wall_ns - sources->now_ns + time_ns;
}

static void event_of(const struct why_sources *sources, const struct decided *d,
    struct why_event *out) {
	out->d = *d;
	out->wall_ns = why_wall_ns(sources, d->at_ns);
	out->until_wall_ns = why_wall_ns(sources, d->until_ns);
	out->source = "state";
}

bool why_find(struct why_sources *sources, uint64_t id, struct why_event *out) {
	struct decided d;

	if (sources->state->view.reader != NULL && decisions_find(sources->state->view.reader, id, &d)) {
		event_of(sources, &d, out);
		return true;
	}
	return find_in_journal(sources, id, out);
}

/* --- the latest ------------------------------------------------------------------------------ */

/* The events of the journal that the rings have lost, the newest first. */
struct older {
	struct listed *list;
	size_t count, next;
	struct why_event event;
	bool has;
};

static int latest_first(const void *a, const void *b) {
	const struct listed *x = a, *y = b;

	return order_then(ORDER(y->when_ns, x->when_ns), ORDER(y->id, x->id));
}

static void older_next(struct older *older, struct why_journal *journal) {
	older->has = false;
	while (!older->has && older->next < older->count)
		older->has = read_at(journal, older->list[older->next++].place, &older->event);
}

/* Without memory, or a journal, there are none. */
static void older_begin(struct older *older, struct why_journal *journal,
    const struct decided_batch *gathered) {
	size_t most = journal == NULL ? 0 : journal->count;
	uint64_t *known = calloc(gathered->count + 1, sizeof(*known));

	older->list = calloc(most + 1, sizeof(*older->list));
	if (known == NULL || older->list == NULL)
		most = 0;
	for (size_t i = 0; most > 0 && i < gathered->count; i++)
		known[i] = gathered->list[i].id;
	if (most > 0)
		qsort(known, gathered->count, sizeof(*known), order_u64);
	for (size_t i = 0; i < most; i++) {
		const struct listed *one = &journal->list[i];

		/* of two records of one id the later counts */
		if ((i + 1 == most || journal->list[i + 1].id != one->id) &&
		    bsearch(&one->id, known, gathered->count, sizeof(*known), order_u64) == NULL)
			older->list[older->count++] = *one;
	}
	free(known);
	if (older->count > 0)
		qsort(older->list, older->count, sizeof(*older->list), latest_first);
	older_next(older, journal);
}

/* From when on the rings have everything: each has lost what is older than its oldest. */
static int64_t complete_from_ns(const struct view *view, const struct decided_batch *gathered) {
	int64_t oldest_ns[DECIDED_RINGS], from_ns = INT64_MIN;
	bool any[DECIDED_RINGS] = { false };

	for (size_t i = 0; i < gathered->count; i++) {
		const struct decided *d = &gathered->list[i];
		enum decided_ring ring = decided_ring_of((enum decided_kind)d->kind);

		if (!any[ring] || d->at_ns < oldest_ns[ring])
			oldest_ns[ring] = d->at_ns;
		any[ring] = true;
	}
	for (unsigned ring = 0; ring < DECIDED_RINGS; ring++) {
		int64_t ns = any[ring] ? oldest_ns[ring] : view->status.created_ns;

		if (ns > from_ns)
			from_ns = ns;
	}
	return from_ns;
}

void why_each(struct why_sources *sources,
    bool (*each)(void *context, const struct why_event *), void *context) {
	const struct view *view = &sources->state->view;
	struct decided_batch gathered = { .list = NULL };
	struct older older = { .list = NULL };
	struct why_event event;
	bool more = true, begun = false;
	int64_t from_ns;
	size_t i = 0;

	if (view->reader != NULL)
		decided_batch_read(&gathered, view->reader);
	decided_batch_sort(&gathered, true);
	from_ns = complete_from_ns(view, &gathered);
	while (more && (i < gathered.count || older.has || !begun)) {
		if (!begun && (i == gathered.count || gathered.list[i].at_ns < from_ns)) {
			begun = true;
			older_begin(&older, journal_of(sources), &gathered);
			continue;
		}
		if (i < gathered.count)
			event_of(sources, &gathered.list[i], &event);
		if (older.has && (i == gathered.count || older.event.wall_ns > event.wall_ns)) {
			more = each(context, &older.event);
			older_next(&older, sources->journal);
		} else {
			more = each(context, &event);
			i++;
		}
	}
	free(older.list);
	free(gathered.list);
}
