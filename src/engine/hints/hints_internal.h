/* SPDX-License-Identifier: ISC */
/*
 * What the files of the hints share: hints.c (questions), hints_turn.c (the way of each change
 * into the file), hints_file.c (who may have hints, and the file made anew), hints_keys.c (keys of
 * the file), hints_queue.c (queues that carry mail), hints_lanes.c and hints_singles.c (by which
 * lanes), hints_classes.c and hints_shares.c (bounds on these, and what is held), hints_mta.c (mail
 * servers).  All of it but hints.c belongs to one thread.
 */
#ifndef ENGINE_HINTS_INTERNAL_H
#define ENGINE_HINTS_INTERNAL_H

#include "base/clock.h"
#include "base/map.h"
#include "engine/hints/hints.h"
#include "engine/internal.h"
#include "engine/destination/windows.h"
#include "policy/window/lane.h"
#include "segment/hints/given.h"
#include "segment/hints/hints.h"
#include "segment/hints/lane_uses.h"

#define NO_INDEX	MAP_NONE

/* --- keys and queues ---------------------------------------------------------------- */

/* Mail of one mail server for one recipient domain. */
struct hint_key {
	uint64_t domain;		/* lane_uses_hash */
	uint64_t owner;			/* of the name of the window that it runs by */
	uint64_t queue;			/* of the mail server and the next hop */
	uint32_t place;			/* in the file */
	uint32_t group;
	uint32_t next_of_owner, next_of_queue;	/* other keys, or NO_INDEX */
	uint32_t scan;			/* that saw it last */
	uint8_t mta;
	bool live;			/* it may have hints */
	/* Its window takes nothing now, and is not the one that its queue runs by: it is held,
	 * whatever the queue is told. */
	bool stopped;
};

struct queue_lane {
	/* Its last result; when mail was given to it, or no more; 0: never. */
	int64_t last_ns, moved_ns;
	int64_t blocked_ns;		/* until then Postfix itself suspends it */
	int64_t failed_ns;		/* its last failure */
	double failed_cohorts;		/* what it counts for that */
	/* Its last delivery that was accepted; the first of those that failed in a row, and how
	 * many there are; until then the site is taken to refuse it (lane_is_refused). */
	int64_t accepted_ns, row_ns, refused_ns;
	uint32_t row;
	uint32_t waited_ms;		/* in it, of late */
	uint16_t lift;			/* of its part of the mail, times LIFT_NONE */
};

/* A queue of the queue manager of which mail was delivered of late: all mail of one mail
 * server for one next hop. */
struct hint_queue {
	uint64_t hash;			/* 0: this place is free */
	uint64_t owner_hash;
	uint32_t share_serial;		/* of the share that it was looked at with last */
	struct window_owner owner;
	uint32_t owner_key;		/* one that ran by it, when it was looked for last */
	uint32_t group;			/* class of all its mail, or HINTS_NO_GROUP */
	uint8_t mta;
	bool dirty;			/* to be looked at in this turn */
	bool untold;			/* its keys do not know yet what is said */
	lane_set given, used, waiting;	/* policy/window/lane.h */
	struct queue_lane lanes[LANE_WIDTHS_MAX + 1];	/* the last: the transport itself */
	int64_t last_ns;		/* the last result of all */
	int64_t span;			/* number of a minute, and of a second, that what follows */
	int64_t longest_ns[2];		/* is of: deliveries in that minute and the one before */
	int64_t second;
	uint32_t took_ms[2];		/* all of them in that second and the one before */
	int64_t wide_ns;		/* since when its lanes are too wide; 0: they are not */
	int64_t reload_ns;		/* since when only a reload would help */
	bool reloading;			/* it was asked for: all mail is held until what was being
					 * delivered then has ended */
	int64_t due_ns;			/* when there is something to do */
	int64_t balanced_ns;		/* when the lanes' parts were last set right */
	int64_t blocked_ns;		/* when Postfix suspended one of its lanes */
	uint32_t canary;		/* its lane, or LANE_WIDTHS_MAX: none is out */
	int64_t issued_ns;		/* the last canary */
	int64_t offered_ns, canary_ns;	/* until when it is offered, and awaited */
	uint8_t serial;			/* of the last canary */
	uint32_t single;		/* lane of single messages (lane_singles) */
	uint32_t singles;		/* that are out */
	int64_t single_ns, singles_ns;	/* the last one; all are given up then */
	int64_t single_from_ns;		/* no other one before that */
	uint32_t single_row;		/* so many failed in a row */
	int64_t single_result_ns;	/* of the last one that ended */
	int64_t counted_ns;		/* since when there was always one out */
	uint16_t single_serial;
	struct hint_say said;
	uint32_t next_of_owner;		/* another queue, or NO_INDEX */
};

/* Queues that share a window. */
struct hint_share {
	uint32_t first;			/* queue; of a free one: the next free one, or NO_INDEX */
	int64_t made_ns;		/* when the numbers were */
	uint32_t rest, waiting;		/* see lane_share */
};

/* What a class leaves to lanes: hints_classes.c. */
struct hint_class {
	uint32_t limit;			/* HINTS_ANY_ROOM: there is none; so for the rest */
	uint32_t places;		/* that incoming sessions leave */
	uint32_t room;			/* for mail that begins */
	uint32_t told;			/* of it, to the file */
	uint32_t used;			/* widths of lanes of queues that are full, */
	uint32_t waiting;		/* and how many these are */
	uint32_t other;			/* connections that leave, beside those */
	uint32_t before[3];		/* places, used, waiting in the last turn */
	bool changed;
	int64_t quiet_ns;		/* since when no connection of it leaves; 0: some do */
	uint32_t quiet_dump;		/* the kernel's table was read so often by then */
	bool quiet;			/* for long enough: nothing is on its way */
};

struct hint_mta {
	uint64_t name;			/* hashed: whom the number meant last */
	unsigned server;		/* that it is, or is a transport of: it is reloaded */
	struct lane_widths widths;
	/* Mail for domains that are no key is given to these, unless the site names its next
	 * hop; 0: to none. */
	lane_set unknown;
	double cohort_limit;		/* of its queues: see policy/window/lane.h; 0: none */
	int64_t backoff_ns;
	bool may_reload;
	bool wants_reload;
	bool reloading;			/* asked for, not answered yet */
	int64_t reload_next_ns;
	int64_t answer_ns;		/* an answer that comes later is not waited for */
};

/* A window with a pace, and mail of one mail server. */
struct hint_paced {
	uint64_t owner_hash;
	struct window_owner owner;
	int64_t pass;			/* the last one that was carried to the file */
	struct hint_pace said;
};

struct engine_hints {
	struct engine *engine;
	struct hints_writer *writer;
	struct hints_calls calls;
	const struct generation *generation;	/* of this turn: pinned */
	int64_t now_ns;			/* the same */
	uint64_t made_of;		/* number of the generation that the table was made from */
	uint64_t version;		/* of the destinations, at the last look at all */
	uint64_t recipients_version;
	bool published;
	bool crowded;			/* another file is needed */
	bool failed;			/* the last table could not be written; it was told */
	bool lacked;			/* the same of the file of numbers of sources */
	int64_t looked_ns, next_ns;	/* at all destinations: when, and when again */
	int64_t look_spent_ns;		/* what that took */
	uint64_t mark;			/* segment_destinations_mark then */
	int64_t checked_ns;		/* that the file is there */
	int64_t turned_ns;
	uint32_t scan;
	bool leased;			/* shares of ceilings stood on a lease, when last looked at */
	struct hint_mta mtas[GENERATION_MTAS_MAX];

	struct hint_key *keys;
	uint32_t key_count, key_size;
	struct map by_domain, by_owner, by_queue;

	struct hint_queue *queues;
	uint32_t queue_count, queue_size, queue_free;
	struct map active;		/* hash of a queue to its place */
	struct hint_share *shares;
	uint32_t share_count, share_size, share_free;
	struct map share_of;	/* hash of an owner to its share */
	struct lane_uses_cursor cursor;

	uint32_t class_count;
	char (*class_texts)[HINT_TEXT_MAX + 1];	/* as the file says; "": free */
	struct hint_full *class_full;
	uint64_t class_generation;	/* that the classes are of */
	struct hint_class *bounds;	/* of each class */
	struct recipient_said *recipients;
	size_t recipient_count;

	struct hint_paced *paces;	/* by their numbers in the file */
	uint32_t pace_count, pace_size, pace_next;
	struct map pace_of;		/* hash of an owner and a mail server to its pace */
	bool paces_lack;		/* the file had too few places */

	gid_t group;			/* of the files */
	struct given_out *given;	/* numbers of sources; NULL: there are none, or no file */
};

/* --- hints.c ------------------------------------------------------------------------- */

/* " (ID)", or "" for 0. */
#define HINT_ID_MAX	(DECISION_ID_MAX + 6)
const char *hint_id(uint64_t id, char out[HINT_ID_MAX]);

/* "2026-11-21T12:34:56Z"; "" for INT64_MAX. */
#define HINT_TIME_MAX	24
const char *hint_time(int64_t at_ns, int64_t now_ns, char out[HINT_TIME_MAX]);

/* --- hints_turn.c -------------------------------------------------------------------- */

/* Looks at one destination; then at all keys that run by the window of that name. */
void hint_keys_renew(struct engine_hints *hints, const char *name);
/* Tells a key what its own window says, if that takes nothing or no queue carries its mail, else
 * what the queue is told; own NULL: that has changed.  queue: of the key, or NULL. */
void hint_key_say(struct engine_hints *hints, struct hint_key *key, struct hint_queue *queue,
    const struct hint_say *own);

/* --- hints_file.c -------------------------------------------------------------------- */

struct hint_candidate {
	const char *domain;
	size_t length;
	const char *next_hop;
	uint8_t mta;
	uint32_t group;
	bool barred;			/* it has none: but without a key it would be taken for
					 * unknown, and go by lanes */
};

/* A look at destinations: what is done with each candidate. */
struct hint_look {
	struct engine_hints *hints;
	void (*each)(struct hint_look *look, const struct hint_candidate *candidate,
	    const struct window_owner *owner);
	void *context;
	const struct destination_seen *seen;
	unsigned looked_at;
};
struct hint hint_of_candidate(const struct hint_candidate *candidate);
/* At every mail server whose mail for the destination may have hints, or must not though the
 * site's settings have nothing against it. */
void hint_look_at(struct hint_look *look, const struct destination_seen *seen);
void hint_look_at_all(struct hint_look *look);
/* Is there a file, of this configuration? */
bool hint_file_is_current(const struct engine_hints *hints);
/* Looks at all destinations where that is due (*looked), and makes the file anew where it has to
 * be.  -1 with *diag: that could not be, and it was not told before. */
int hint_file_keep(struct engine_hints *hints, bool *looked, struct diag *diag);

/* --- hints_keys.c -------------------------------------------------------------------- */

/* Looks at all destinations, and changes what is in the file. */
void hint_keys_scan(struct engine_hints *hints);
/* Looks at one destination: another window may be its keys', or its window that of other keys. */
void hint_keys_look_at(struct engine_hints *hints, const char *name);
static inline bool hint_is_stopped(const struct window_view *view) {
	return view->state == WINDOW_HELD || view->state == WINDOW_DEAD;
}
/* The class of all mail of the key's queue, or HINTS_NO_GROUP: others share it, or none is
 * known. */
uint32_t hint_key_class(const struct hint_key *key);
/* The key of a domain, or NULL. */
struct hint_key *hint_keys_find(const struct engine_hints *hints, uint8_t mta,
    uint64_t domain);
/* Another key; NULL: no memory. */
struct hint_key *hint_key_add(struct engine_hints *hints, const struct hint_candidate *candidate,
    uint64_t domain, uint64_t owner);
void hint_keys_free(struct engine_hints *hints);
/* Whose window its mail runs by.  False: it is not in the file. */
bool hint_key_owner(const struct engine_hints *hints, const struct hint_key *key,
    struct window_owner *out);
/* Tells a key what its queue is told, if that is in use, else what its own window says. */
void hint_key_tell(struct engine_hints *hints, struct hint_key *key,
    const struct window_owner *owner);
/* A key runs by another window; where no other mail of its queue runs by the one before,
 * the queue follows. */
void hint_key_follow(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner);
/* The queue runs by the key's window from now on, if that takes less than its own, but something. */
void hint_queue_run_by_less(struct engine_hints *hints, struct hint_queue *queue,
    const struct hint_key *key, const struct window_owner *owner, const struct window_view *view);
/* The window that a queue runs by takes nothing: it runs by that of other mail in it, if any
 * is to be had. */
bool hint_queue_elsewhere(struct engine_hints *hints, struct hint_queue *queue);

/* --- hints_queue.c ------------------------------------------------------------------- */

#define HINT_ORIGIN_LANE LANE_WIDTHS_MAX	/* place in hint_queue.lanes */
#define HINT_IDLE_NS	(600 * NS_PER_SECOND)	/* nothing was heard: it is not in use */
#define HINT_LONG_NS	(60 * NS_PER_SECOND)	/* deliveries of such a span tell the longest, */
#define HINT_LONG_SPANS	2	/* and for so many spans more, whether any result comes or not */

/* Mail of the key is delivered, by these lanes, or the cloned transport itself: seen at
 * seen_ns. */
void hint_queue_begin(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner, lane_set given, int64_t seen_ns);
/* The key's queue, if it is in use, runs by this window from now on. */
void hint_queue_adopt(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner);
/* The queue of this hash, if it is in use. */
struct hint_queue *hint_queue_find(const struct engine_hints *hints, uint64_t hash);
/* The queues of an owner; NULL: there are none. */
struct hint_share *hint_share_of(struct engine_hints *hints, uint64_t owner);
/* The same for a key of which a result was heard: it was told what an idle one is.  NULL: it
 * cannot be followed. */
struct hint_queue *hint_queue_begin_heard(struct engine_hints *hints, const struct hint_key *key);
void hint_queue_end(struct engine_hints *hints, struct hint_queue *queue);
void hint_queues_free(struct engine_hints *hints);

/* Results were missed: they may have been of any lane that was used. */
void hint_queues_missed(struct engine_hints *hints);
/* A result: how long it took; how its lane did, for the queue manager and the site; that a single
 * message ended; that the queue manager has suspended a lane. */
void hint_queue_note_time(struct hint_queue *queue, const struct lane_use *use);
void hint_lane_note_result(const struct hint_mta *mta, struct hint_queue *queue,
    struct queue_lane *lane, uint16_t width, const struct lane_use *use);
void hint_queue_note_single(struct hint_queue *queue, const struct lane_use *use);
void hint_queue_note_suspension(const struct hint_mta *mta, struct hint_queue *queue,
    const struct lane_use *use);
/* Its longest delivery of late; 0: none was heard of. */
int64_t hint_queue_longest_ns(const struct hint_queue *queue, int64_t now_ns);

/* --- hints_shares.c ------------------------------------------------------------------ */

/* What this queue alone may take of the window that it shares. */
uint32_t hint_queue_share(struct engine_hints *hints, const struct hint_queue *queue,
    uint32_t window);
/* After all queues were looked at: what lanes use of ceilings that a cluster divides.  Where
 * the lease has just ended, or begun, the mail of these is told anew. */
void hint_shares_turn(struct engine_hints *hints);

/* --- hints_classes.c ----------------------------------------------------------------- */

/* Recipients that are held.  `anew`: the file says nothing of any of them yet; `looked`: whose
 * domain is in doubt may be another one. */
void hint_recipients_renew(struct engine_hints *hints, bool anew, bool looked);
/* The file in place may say anything of classes by now. */
void hint_classes_forget(struct engine_hints *hints);
/* The states of the classes, and that we live. */
void hint_classes_renew(struct engine_hints *hints, int64_t now_ns);
/* Those that a new file begins with: NULL or a text, for each.  False: no memory. */
bool hint_classes_begin(struct engine_hints *hints, const char **texts);
/* Counts what all queues use of their classes' places; those of classes where that has changed
 * are to be looked at. */
void hint_classes_count(struct engine_hints *hints);
/* A queue of the class has lanes of another sum by now. */
void hint_class_used(struct engine_hints *hints, uint32_t group, uint32_t before,
    uint32_t now);
/* Mail waits in it for a place, so that all its lanes count: their widths, or 0. */
bool hint_queue_is_full(const struct engine_hints *hints, const struct hint_queue *queue);
uint32_t hint_class_use(const struct engine_hints *hints, const struct hint_queue *queue);
bool hint_class_bounds(const struct engine_hints *hints, const struct hint_queue *queue);
/* So much of its class the queue may have; HINTS_ANY_ROOM: no class bounds it. */
uint32_t hint_class_part(const struct engine_hints *hints, const struct hint_queue *queue);
/* Sessions that the class may have in all; HINTS_ANY_ROOM: any number. */
uint32_t hint_class_limit(const struct engine_hints *hints, uint32_t class_index);
/* Is any queue full?  Then turns are due to see when they are not any more. */
bool hint_classes_watch(const struct engine_hints *hints);
/* To the file, if it has changed. */
void hint_class_tell_room(struct engine_hints *hints, uint32_t index);
/* For so many classes, of a file that says nothing of them yet.  False: no memory. */
bool hint_classes_begin_bounds(struct engine_hints *hints, uint32_t count);

/* --- hints_paces.c ------------------------------------------------------------------- */

/* Places that a new file is to have for paces; then they are given away anew. */
uint32_t hint_paces_wanted(const struct engine_hints *hints);
void hint_paces_begin(struct engine_hints *hints);
/* The key's mail keeps the pace of its owner, if that has one. */
void hint_pace_follow(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner, bool is_paced);
/* What the paces are by now; passes of mail that waits. */
void hint_paces_turn(struct engine_hints *hints);
void hint_paces_free(struct engine_hints *hints);

/* --- hints_sources.c ----------------------------------------------------------------- */

/* Numbers that were released, in a file before, come back; a new one is made for a new hints file,
 * whose table is told of it.  Where none could be made, *diag says why. */
void hint_sources_begin(struct engine_hints *hints, struct hints_source sources[HINTS_SOURCES_MAX],
    struct hints_table *table, struct diag *diag);
/* ... and mail goes as without sources. */
bool hint_sources_lack_file(const struct engine_hints *hints);
/* Counts what was used, and releases more. */
void hint_sources_turn(struct engine_hints *hints);
/* Where the numbers of an owner's mail stand: 0, or the row of its provider. */
uint32_t hint_source_row(const struct engine_hints *hints, const struct window_owner *owner);

/* --- hints_lanes.c ------------------------------------------------------------------- */

/* Mail waits for so long in lanes beside the widest, and a delivery more, where their part is
 * right. */
#define HINT_SHORT_MS	9000
#define HINT_LIFT_NONE	256	/* of a lane whose part of the mail is its width's */
#define HINT_OFFER_NS	(5 * NS_PER_SECOND)	/* a canary or a single message is offered */

/* What mail of a queue that nobody uses now is told; `group`: its class. */
void hint_queue_idle(const struct engine_hints *hints, uint8_t mta,
    const struct window_owner *owner, const struct window_view *view, uint32_t group,
    struct hint_say *say);
/* Deliveries of a queue at once, of late: what it takes of a window though nothing waits in
 * it. */
uint32_t hint_queue_busy(const struct hint_queue *queue, int64_t now_ns);
/* Mail of the queue is given to these from now on. */
void hint_queue_give(struct hint_queue *queue, lane_set set, int64_t now_ns);
/* It is looked at then at the latest. */
static inline void hint_queue_wait(struct hint_queue *queue, int64_t at_ns) {
	if (at_ns < queue->due_ns)
		queue->due_ns = at_ns;
}
void hint_queue_drain(struct hint_queue *queue, int64_t now_ns);
lane_set hint_queue_blocked(struct hint_queue *queue, const struct window_view *view,
    int64_t now_ns);
lane_set hint_queue_refused(struct hint_queue *queue, int64_t now_ns);
void hint_queue_wait_for_drains(struct hint_queue *queue, int64_t now_ns);
void hint_queue_balance(struct hint_queue *queue, uint32_t count, int64_t now_ns);
uint32_t hint_queue_short_ms(const struct hint_queue *queue, int64_t now_ns);
/* What a key is told: lanes, of which `lanes` says how they do, or NULL; that nothing may run now;
 * that others go first. */
void hint_say_lanes(const struct lane_widths *widths, lane_set set, const struct queue_lane *lanes,
    uint32_t most_ms, struct hint_say *say);
void hint_say_closed(const struct window_owner *owner, const struct window_view *view,
    int64_t now_ns, struct hint_say *say);
void hint_say_draining(const struct window_owner *owner, struct hint_say *say);

/* --- hints_singles.c ------------------------------------------------------------------ */

void hint_queue_end_canary(struct hint_queue *queue, const struct window_view *view, int64_t now_ns);
/* The next single message, if there is room for one. */
void hint_queue_send_single(const struct engine_hints *hints, struct hint_queue *queue,
    struct lane_now *now);
/* A canary, if the window waits for one and it would be one. */
void hint_queue_send_canary(struct engine_hints *hints, struct hint_queue *queue,
    const struct window_view *view, const struct lane_now *now);

/* --- hints_mta.c ---------------------------------------------------------------------- */

/* Lanes and rights of each mail server, of this generation. */
void hint_queues_configure(struct engine_hints *hints);
/* A choice of lanes that only a reload would carry out whole: asks for it after a moment.
 * Holds the queue's mail while one is under way. */
void hint_queue_want_reload(struct hint_mta *mta, struct hint_queue *queue,
    struct lane_choice *choice, int64_t now_ns);
/* Asks the supervisor for those that are wanted. */
void hint_queues_reload(struct engine_hints *hints);

/* A queue manager is told to hold all mail of a class, as `open` have come to `limit` (its own, or
 * this node's share of it): noted for posternctl why.  Its ID. */
uint64_t hint_note_class_full(struct engine *engine, const struct generation *generation,
    uint32_t class_index, uint32_t open, uint32_t limit, int64_t now_ns);

#endif
