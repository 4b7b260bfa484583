/* SPDX-License-Identifier: ISC */
/* Destinations of mail, copied out of the state file and shown by name: their windows, as
 * they stand at this very moment by the settings in force, and what is held besides
 * (recipients, classes). */
#ifndef VIEW_DESTINATIONS_H
#define VIEW_DESTINATIONS_H

#include "config/generation/enforcement.h"
#include "view/view.h"

/* Which of them, and how many. */
struct view_choice {
	bool (*wants)(const void *context, const char *name);	/* NULL: all */
	const void *context;
	bool no_recipients;
	bool relays;		/* what was seen of them, too: for view_relays_write */
	/* So many at most, those that matter most: stopped ones, then those with deliveries
	 * in flight, then those seen last.  0: all, in the order of their names. */
	size_t most;
};

/* Copies of one kind. */
struct view_copies {
	char *list;
	size_t each, count, size;
	const struct view_choice *choice;
	bool no_memory;
};

struct view_destinations {
	const struct view *view;
	struct view_copies seen, windows, recipients;
	size_t known;			/* windows and recipients before `most` cut */
	unsigned torn_seen, torn_windows, torn_recipients;
	struct enforcement lacking;	/* of one that would be, why it is not; else APPLIED */
	bool has_pace;			/* some of them has one, or may */
};

/* -1: no memory (errno).  view_destinations_free it in both cases.  `view` and `choice`
 * outlive it. */
int view_destinations_gather(const struct view *view, const struct view_choice *choice,
    struct view_destinations *out);
void view_destinations_free(struct view_destinations *all);

/* How much a destination asks to be looked at; the order of all lists that people read. */
struct view_trouble {
	uint8_t rank;		/* 4: suspended, 3: held, 2: would be, 1: limited, 0 */
	bool has_reason;
	uint32_t in_flight;
	int64_t seen_ns;
};
struct view_trouble view_trouble_of(const struct view *view,
    const struct destination_window *one);
/* The one with more of it first. */
int view_trouble_compare(const struct view_trouble *one, const struct view_trouble *other);

/* A destination, a class that is held ("class:NAME") or a recipient that is. */
struct view_destination {
	const char *name;
	const char *reason;		/* "": none */
	bool begun;			/* false: of what follows nothing is known */
	bool has_window;		/* false: of what follows `until_ns` nothing is known */
	enum window_state state;
	int64_t until_ns;		/* INT64_MAX: until somebody says otherwise */
	enum window_law law;
	uint32_t window, ceiling, in_flight;	/* ceiling 0: none is known */
	bool ceiling_slow;		/* deliveries above it were slow, not refused */
	uint32_t share;			/* of a ceiling that nodes share; UINT32_MAX: it is not */
	uint8_t node;			/* whose suspension, or ceiling, it is: reader_node_name */
	unsigned by;			/* enum decided_by: what stopped it, there or here */
	struct enforcement enforcement;	/* of DEAD and HELD: does its mail wait? */
	uint64_t origin;		/* of a node's suspension: its id there; 0: not known */
	double success, failure, fail_cohorts;
	struct pace_view pace;		/* interval_ns 0: none is in force */
	int64_t pace_limit_ns;		/* the same, as it is configured; 0: none is */
	bool pace_by_hand;
	int64_t pace_wait_ns;		/* until the next message may go; 0: now */
	struct view_trouble trouble;
};

/* As its window stands now. */
struct view_destination view_destination_of(const struct view *view,
    const struct destination_window *one);
/* Windows, and recipients behind them. */
size_t view_destinations_count(const struct view_destinations *all);
struct view_destination view_destination_at(const struct view_destinations *all, size_t i);

/* Is it suspended or held, or would it be? */
bool view_destination_stops(const struct view_destination *one);
/* "suspended", "would suspend" ... */
const char *view_destination_effect(const struct view_destination *one);

/* Destinations whose mail does not go now, or would not, where that is only observed. */
struct view_stopped {
	uint64_t suspended, held;	/* destinations: by failures or a rule; by hand */
	char suspended_name[SEGMENT_NAME_MAX + 1];	/* of one that is suspended, */
	uint64_t suspended_event;	/* and the decision's id, or 0 */
	uint64_t open, limited;		/* all others whose window was begun */
	uint64_t slowed;		/* destinations whose pace replies have lowered */
	uint64_t classes, recipients;	/* held */
	uint64_t would_suspend, would_hold;	/* destinations, where nothing enforces it; classes
						 * and recipients among the second */
	struct enforcement lacking;	/* of one of them, why; APPLIED: there is none */
	const struct view *view;
};
struct view_stopped view_stopped(const struct view *view);

/* The table of posternctl destinations; `name` as of writer_table. */
void view_destinations_write(const struct view_destinations *all, struct writer *writer,
    const char *name);
/* And that of --relays; of a choice without `most`. */
void view_relays_write(const struct view_destinations *all, struct writer *writer);

#endif
