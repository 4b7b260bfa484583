/* SPDX-License-Identifier: ISC */
/* What the files of the windows share: windows*.c, by_hand.c, feed*.c. */
#ifndef ENGINE_WINDOWS_INTERNAL_H
#define ENGINE_WINDOWS_INTERNAL_H

#include "engine/internal.h"
#include "engine/destination/windows.h"
#include "segment/destination/states.h"

/* Settings of one destination, and whether each change of its window is logged. */
struct window_rules {
	struct window_settings settings;
	struct pace_settings pace;
	bool is_paced;		/* a pace may be in force, by these settings */
	bool debug;
};
/* `mta`: whose results count for it, or GENERATION_MTAS_MAX. */
void windows_rules(const struct generation *generation, unsigned mta,
    const struct window_owner *owner, struct window_rules *out);

/* The mail server, or the transport's row, whose settings count for the owner's window;
 * GENERATION_MTAS_MAX: none. */
unsigned windows_mta(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner);

/* Takes a token, inside a state_lock, which states_store is to follow: 0, or after how many ns
 * there is one. */
int64_t windows_pace_take_held(struct state_lock *lock, const struct window_rules *rules,
    int64_t now_ns);

/* A message went whose token postern-lookup took by itself: not where mail waits, which has
 * tokens before it goes.  Inside a state_lock, as above. */
void windows_pace_count(struct state_lock *lock, const struct window_rules *rules,
    const struct window_owner *owner, int64_t now_ns);

/* One transaction on the owner's window, made if need be.  Only with STATES_HELD anything
 * is held: the window is begun then, of the law and the limits of *rules, and the time
 * up to now_ns has passed for it (*change). */
enum states_locked windows_lock(struct state_lock *lock, struct engine *engine,
    const struct window_owner *owner, const struct window_rules *rules, int64_t now_ns,
    enum states_create create, struct window_change *change);
/* The same of an owner whose key is known. */
enum states_locked windows_lock_at(struct state_lock *lock, struct engine *engine,
    const struct state_key *key, const struct window_rules *rules, int64_t now_ns,
    enum states_create create, struct window_change *change);

/* Bits of destination_state.flags. */
#define WINDOW_LANE_SHIFT	3
#define WINDOW_LANE_FLAGS	0xf8

/* Is a result from this lane (0: none) that of the canary that is out? */
bool windows_is_canary_lane(const struct generation *generation, unsigned mta, uint32_t lane,
    const struct destination_state *state);

/* How many deliveries may run here at once of a window that a cluster divides, whatever the
 * window itself says; UINT32_MAX: it does not.  *shared: as it was found, or not. */
#ifdef WITH_CLUSTER
uint32_t windows_share(const struct generation *generation, const struct window_owner *owner,
    const struct window_settings *settings, const struct shared_seen *shared,
    int64_t now_ns);
/* The same for *out, which says by now what the window itself says. */
void windows_view_shared(const struct generation *generation, const struct window_owner *owner,
    const struct window_settings *settings, const struct shared_seen *shared, int64_t now_ns,
    struct window_view *out);

/* Is it this node's turn to try more than a ceiling that nodes share?  If not, it has asked
 * for it.  Inside a state_lock. */
bool windows_may_send_canary(const struct state_lock *lock, int64_t now_ns);
#else
static inline uint32_t windows_share(const struct generation *generation,
    const struct window_owner *owner, const struct window_settings *settings,
    const struct shared_seen *shared, int64_t now_ns) {
	(void)generation, (void)owner, (void)settings, (void)shared, (void)now_ns;
	return UINT32_MAX;
}

static inline void windows_view_shared(const struct generation *generation,
    const struct window_owner *owner, const struct window_settings *settings,
    const struct shared_seen *shared, int64_t now_ns, struct window_view *out) {
	(void)generation, (void)owner, (void)settings, (void)shared, (void)now_ns;
	out->share = UINT32_MAX;
}

static inline bool windows_may_send_canary(const struct state_lock *lock, int64_t now_ns) {
	(void)lock, (void)now_ns;
	return true;
}
#endif

/* When a canary that is issued now is given up. */
int64_t windows_canary_end_ns(int64_t now_ns);

/* All that runs there, as far as anybody knows. */
static inline uint32_t windows_running(const struct destination_state *state) {
	return (uint32_t)state->in_flight + state->running;
}

/* Notes it (engine/decision/decided.h) and tells whoever listens.  No lock may be held. */
void windows_report(struct engine *engine, struct window_report *report);

/* A report of what a transaction made of the state. */
struct window_report windows_report_of(const struct generation *generation,
    const struct window_owner *owner, const struct destination_state *state,
    const struct window_settings *settings, enum window_happened what, int64_t now_ns);

/* The same at once, if time brought it back. */
void windows_report_back(struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, const struct destination_state *state,
    const struct window_settings *settings, const struct window_change *change,
    int64_t now_ns);

/* Printable ASCII, one line, cut at WINDOW_REASON_MAX; returns `out`. */
const char *windows_reason(const char *text, size_t length, char out[WINDOW_REASON_MAX + 1]);

#define WINDOW_CLASS_PREFIX	"class:"
#define WINDOW_PROVIDER_PREFIX	"provider:"

/* The name under which a class is held: of each class another one, though names of
 * destinations have no capitals ("^" stands before what was one), and are shorter (then
 * a hash stands at the end). */
void windows_class_name(const char *name, char out[SEGMENT_NAME_MAX + 1]);

/* The provider's or the relay's that a mail server reaches the domain *out by, if there is
 * one.  False: it may be another relay. */
bool windows_roll_up(const struct engine *engine, const struct generation *generation,
    const struct destination_seen *seen, unsigned mta, struct window_owner *out);

/* Of what *out is for all mail: for mail of this row, where that is a transport's.  False: its
 * name would be too long. */
bool windows_owner_by_transport(const struct generation *generation, unsigned mta,
    struct window_owner *out);

/* What happened to a window, noted for posternctl why: claims report->id where that is 0. */
void windows_note(struct engine *engine, struct window_report *report);
/* A recipient that back-pressure turned away, or would have. */
uint64_t windows_note_pressure(struct engine *engine, const struct generation *generation,
    const struct question *question, uint32_t class_index, const char *recipient,
    size_t length, int64_t now_ns, const struct window_pressure *pressure, uint64_t cause);

/* An owner of this very name. */
bool windows_owner_named(const struct generation *generation, const char *name,
    size_t length, struct window_owner *out);

#endif
