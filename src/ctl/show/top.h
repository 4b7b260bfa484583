/* SPDX-License-Identifier: ISC */
/*
 * posternctl top: what is shown (top_gather.c), how its rows read (top_rows.c), how they lie
 * on the screen (top_draw.c), and what keys do (top_keys.c).
 */
#ifndef CTL_TOP_H
#define CTL_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/cli/ctl.h"
#include "ctl/show/screen.h"
#include "segment/decision/decisions.h"
#include "view/classes.h"
#include "view/decided_batch.h"
#include "view/destinations.h"
#include "view/verdict.h"
#include "view/view.h"

#define TOP_NAME_MAX		160	/* of a recipient, the longest */
#define TOP_DESTINATIONS_MAX	1000	/* that matter most, after the filter */
#define TOP_DECISIONS_MAX	500	/* of each ring */
#define TOP_SHOWN_MAX	(DECIDED_RINGS * TOP_DECISIONS_MAX)
#define TOP_FILTER_MAX		64
#define TOP_MESSAGE_MAX		256
#define TOP_TEXT_MAX		512	/* of a row */

enum top_pane { TOP_CLASSES, TOP_DESTINATIONS, TOP_DECISIONS, TOP_PANES };

struct top_class {
	struct reader_class class;
	uint32_t place;			/* in the configuration in force */
	double trouble;			/* view_class_trouble */
	double admitted, refused;	/* a second, since the last look */
	struct view_share share;	/* where class.shared */
};

/* Of a class, at the last look. */
struct top_counted {
	uint64_t admitted, refused;
};

/* The header's words of it. */
struct top_cluster {
	bool is_there;			/* one is configured */
	struct cluster_told told;
	struct value state;		/* view_cluster_state */
	char node[CLUSTER_TOLD_NAME];
	uint32_t most;			/* machines */
	uint64_t overhang;		/* of all classes, whatever the filter */
};

/* Which rows there are, and which of them keys act on. */
struct top_list {
	unsigned sort;		/* 0: what is in trouble first */
	bool reversed;
	bool is_chosen;		/* by somebody; else it is the first one, whichever that is */
	size_t chosen;		/* index of the row */
	uint64_t chosen_key;	/* it is found again by that */
	size_t first;		/* the first one on the screen */
};

/* Of all counters of which the header tells, a second. */
enum top_rate { TOP_QUESTIONS, TOP_REFUSED, TOP_DEFERRED, TOP_OBSERVED, TOP_RESULTS, TOP_RATES };

struct top {
	struct ctl *ctl;
	struct view view;
	bool is_there;			/* the state file can be read */
	char trouble[TOP_MESSAGE_MAX];	/* why not, or "" */
	int64_t looked_ns;

	struct top_class *classes;
	size_t class_count;
	struct top_counted counted_of[UINT16_MAX + 1];	/* by its record */
	struct view_choice choice;	/* by the filter */
	struct view_destinations found;
	struct view_destination *destinations;	/* of these */
	size_t destination_count;
	struct decided_batch decisions;	/* the newest first */
	size_t shown[TOP_SHOWN_MAX];	/* of them: that fit the filter, the last one of those alike */
	uint64_t shown_keys[TOP_SHOWN_MAX];	/* decision_group_key */
	unsigned alike[TOP_SHOWN_MAX];	/* how many are */
	size_t shown_count;
	struct decisions_cursor cursors[2];	/* enum decided_ring */
	struct view_verdict verdict;
	double rates[TOP_RATES];
	uint64_t counted[TOP_RATES];	/* at the last look */
	unsigned roles, roles_away, roles_old, roles_behind;
	bool journal_ill;
	struct top_cluster cluster;
	bool shares;			/* a class of the list has one */

	struct top_list lists[TOP_PANES];
	enum top_pane pane;		/* that keys act on */
	bool alone;			/* it has the whole screen */
	char filter[TOP_FILTER_MAX + 1];
	char message[TOP_MESSAGE_MAX];	/* of the last action */
	bool message_is_bad;
	bool look_again;		/* at once */
	bool ends;
};

/* --- what is shown ------------------------------------------------------------------ */

/* Looks at the state file.  False: no memory (errno). */
bool top_gather(struct top *top, int64_t now_ns);
void top_free(struct top *top);

/* Orders the rows by the sort of each pane, and finds the chosen ones again. */
void top_order(struct top *top);
/* "name", "open" ...; how many there are. */
const char *top_sort_word(enum top_pane pane, unsigned sort);
unsigned top_sorts(enum top_pane pane);

size_t top_count(const struct top *top, enum top_pane pane);
/* Moves the choice. */
void top_choose(struct top *top, long row);

/* --- how it reads --------------------------------------------------------------------- */

/* The first rows; printable ASCII, as all that follows.  Four, the second of which says what is
 * wrong, and one of the cluster. */
unsigned top_header_rows(const struct top *top);
enum screen_style top_header(const struct top *top, unsigned row, int width,
    char out[TOP_TEXT_MAX]);
/* The heading of a pane's columns, for a screen so wide. */
void top_heading(const struct top *top, enum top_pane pane, int width, char out[TOP_TEXT_MAX]);
enum screen_style top_row(const struct top *top, enum top_pane pane, size_t row, int width,
    char out[TOP_TEXT_MAX]);

/* --- on the screen -------------------------------------------------------------------- */

void top_draw(struct top *top);
/* How many rows of a pane there is room for, on a screen of so many. */
unsigned top_room(const struct top *top, enum top_pane pane, int rows);
/* Lines of text over everything, until a key; they may be scrolled. */
void top_page(const char *title, const char *text);

/* --- keys ------------------------------------------------------------------------------- */

void top_take_key(struct top *top, int key);

#endif
