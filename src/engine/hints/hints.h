/* SPDX-License-Identifier: ISC */
/*
 * Hints for Postfix's queue manager (DESIGN section 11): which destinations may have
 * any at all; by which lanes their mail goes, so that their windows are kept; who is
 * held, by a window, by hand or by a class that is full.  Whatever is in doubt gets
 * none: an answer for a full address overrides all that the site says by domain.
 */
#ifndef ENGINE_HINTS_H
#define ENGINE_HINTS_H

#include <sys/types.h>

#include "engine/engine.h"
#include "segment/destination/destinations.h"

/* Why not (defs/doubts.def). */
enum hint_doubt {
#define DOUBT(symbol, word, text) HINT_DOUBT_##symbol,
#include "defs/doubts.def"
#undef DOUBT
};
const char *hint_doubt_word(enum hint_doubt doubt);

/* How every text begins that mail is held with: by it a log tells ours. */
#define ENGINE_HOLD_BEGINS	"Postern: "
#define ENGINE_PACE_BEGINS	ENGINE_HOLD_BEGINS "pace of "

/* May mail of mta number `mta` have hints at all, whatever its destination?  `detail`: why it
 * may not, of the generation, or "". */
enum hint_doubt hint_site_doubt(const struct generation *generation, uint8_t mta,
    const char **detail);

/* May mail of mta number `mta` for this destination have hints at all?  `seen`: what is
 * known of it (NULL: nothing).  `detail`: what the site's file says about it, or
 * "". */
enum hint_doubt hint_destination_doubt(const struct generation *generation,
    uint8_t mta, const char *domain, size_t length,
    const struct destination_seen *seen, const char **detail);

/* And by this class (or CLASS_NO_RULE)? */
enum hint_doubt hint_class_doubt(const struct generation *generation,
    uint32_t class_index);

/* The decision by which a class is full. */
struct hint_full {
	uint64_t id;			/* 0: none */
	int64_t noted_ns;
};

/* Is mail of the class held now, as it is full or by hand?  Then `text` says why, and by which
 * decision.  *full: the one that it is full by, or was within a minute; it is noted when it
 * becomes so. */
#define HINT_TEXT_MAX	160
bool hint_class_holds(struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct hint_full *full,
    char text[HINT_TEXT_MAX + 1]);

/* All of it about one destination, for the Postfix whose mail for it may have hints, else
 * for the first one. */
struct hint_explained {
	uint8_t mta;		/* UINT8_MAX: there is no Postfix; nothing else is set */
	enum hint_doubt doubt;
	const char *why;	/* the doubt in words, or the site's about it; never NULL */
	const char *kind;	/* "retry", "lane", "none": of the answer */
	char answer[512];	/* of postern-lookup now: "lane5:", "retry:...", "NOTFOUND" */
};
void hint_explain(const struct engine *engine, const struct generation *generation,
    const char *domain, size_t length, uint32_t class_index, int64_t now_ns,
    struct hint_explained *out);

/* The hints file, PATH.hints beside the state.  One thread. */
struct engine_hints;
struct hints_calls {
	/* Asks for a reload of a mail server, whose configuration allows it.  False: not now.
	 * engine_hints_reloaded tells what became of it.  NULL: never. */
	bool (*reload)(void *context, unsigned mta, uint64_t generation);
	void *context;
};
/* `group`: that may read it (hints.group); (gid_t)-1: everybody.  Takes the process's SIGBUS, as
 * hints_reader_outlive_cuts.  -1 with *diag. */
int engine_hints_open(struct engine_hints **hints, struct engine *engine, gid_t group,
    const struct hints_calls *calls, struct diag *diag);
void engine_hints_close(struct engine_hints **hints);

/* Follows windows, classes and results within one turn, and all destinations where
 * they or the configuration changed (at most four times a second, and never more than a
 * twentieth of the time).  Every 50 to 100 ms while anything changes, and when
 * engine_hints_rest_ns says; takes some microseconds for each destination that changed.  -1 with
 * *diag: the file, or that of numbers of sources, could not be written; it tries again, and tells
 * no more until that works. */
int engine_hints_turn(struct engine_hints *hints, int64_t now_ns, struct diag *diag);

/* How long after a turn the next one is to come where nobody changes anything. */
int64_t engine_hints_rest_ns(struct engine_hints *hints, int64_t now_ns);

/* A reload that was asked for is done, or was not. */
void engine_hints_reloaded(struct engine_hints *hints, unsigned mta, bool done,
    int64_t now_ns);

#endif
