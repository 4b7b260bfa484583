/* SPDX-License-Identifier: ISC */
/*
 * The hints file (DESIGN section 11): what postern-lookup answers Postfix's queue
 * manager, written by the keeper, read without the daemon.  One file PATH.hints
 * beside the state, mapped by both, under a key of its own.  It holds
 *
 *	header		magic, version, boot id, beat (CLOCK_BOOTTIME), replaced
 *	mtas		names, the widths of their lanes, and by which of them mail for
 *			domains goes that are no key
 *	groups		one for each host class: is it to be held now, and the text that
 *			tells why; how much room it has for mail that need not wait for
 *			a place in its lanes
 *	table		domain and mta -> group, and what its own mail is to do: go by
 *			lanes, be held, or whatever the mail server would do
 *	reasons		texts of those that are held
 *	recipients	address and mta -> held until, and the text that tells why
 *	paces		of destinations: how many messages may go, and which of those that wait
 *	sources		that are warmed up: in which order, and which file has their numbers
 *
 * What a key says changes in place, and new keys come as long as there is room; keys
 * never go.  For anything else there is another file, renamed into place.  A file
 * keeps its size for its whole life, so that no mapping of it can meet its end.
 *
 * The keeper's user can write it, the reader's decides over mail: to the reader every byte
 * is a stranger's.  No next hop and no transport's name is in it: those are root's
 * (config/generation/site_routes.h).
 */
#ifndef SEGMENT_HINTS_H
#define SEGMENT_HINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "base/siphash.h"

#define HINTS_TEXT_MAX		160
#define HINTS_NAME_MAX		255	/* bytes of a domain, an mta's name */
#define HINTS_ADDRESS_MAX	319	/* of a recipient that is held */
#define HINTS_STALE_NS		(INT64_C(5) * 1000 * 1000 * 1000)
#define HINTS_MTAS_MAX		8
#define HINTS_WIDTHS_MAX	16	/* different lanes of one mta */
#define HINTS_SET_MAX		4	/* lanes of one key */
#define HINTS_NO_GROUP		UINT32_MAX
#define HINTS_NO_PLACE		UINT32_MAX
#define HINTS_NO_LANE		UINT8_MAX
#define HINTS_ANY_ROOM		UINT32_MAX
#define HINTS_NO_PACE		UINT32_MAX
#define HINTS_PACES_MAX		1024
#define HINTS_PASSES		64	/* of one pace */
/* A message of a key that begins takes room of its group for so long: by then its connection
 * is counted by whoever says how much room there is. */
#define HINTS_BEGINS_NS		(INT64_C(2) * 1000 * 1000 * 1000)

/* --- writer: one thread ---------------------------------------------------- */

struct hints_writer;

/* Mail of a key goes by these lanes, in proportion to their shares (1 to 255).  One
 * message each goes by the canary's lane and by `single`: the first question after the
 * serial has changed gets that one; where the single's has moved on by more than one, as
 * many questions, single_count at most. */
struct hint_lanes {
	uint8_t count;			/* 1 to HINTS_SET_MAX */
	uint8_t lane[HINTS_SET_MAX];	/* places in the mta's widths */
	uint8_t share[HINTS_SET_MAX];
	uint8_t canary;			/* or HINTS_NO_LANE */
	uint8_t serial;			/* of the canary, 0 to 127 */
	uint8_t single;			/* or HINTS_NO_LANE */
	uint8_t single_count;		/* 0 and 1: one */
	uint16_t single_serial;
	int64_t canary_ns, single_ns;	/* when the serials changed: a reader that begins later
					 * leaves them to the one before */
	bool begins;			/* no mail waits in these lanes: each message goes only if
					 * its group has room for one more connection */
};

struct hints_mta {
	const char *name;		/* in the configuration */
	uint16_t widths[HINTS_WIDTHS_MAX];
	uint32_t width_count;
};

struct hint {
	const char *domain;	/* lower case; longer than HINTS_NAME_MAX: left out */
	uint8_t mta;		/* place in the table's mtas */
	uint32_t group;		/* or HINTS_NO_GROUP */
};

/* A source that is warmed up (DESIGN section 17), of its transport only what the reader knows it by. */
#define HINTS_SOURCES_MAX	16
#define HINTS_SOURCE_NAME_MAX	32
struct hints_source {
	const char *name;
	uint64_t transport;	/* hints_transport */
	uint64_t over;		/* the same of what is above its number: HINTS_OVER_WAITS, ... */
	bool is_per_provider;
};
#define HINTS_OVER_WAITS	0
#define HINTS_OVER_GOES_ON	1	/* as without sources */
/* The same everywhere; 2 at least. */
uint64_t hints_transport(const char *transport);
#define HINTS_WARM_BEGINS	"Postern: warm-up of "

struct hints_table {
	const struct hints_mta *mtas;
	size_t mta_count;		/* at most HINTS_MTAS_MAX */
	const struct hint_lanes *unknown;	/* of each, for domains that are no key; count 0, or
					 * NULL: none */
	const struct hint *hints;
	size_t count;
	const char *const *group_texts;	/* texts[i] follows "retry:4.7.1 " where group i is
					 * held, and is NULL where it is not */
	uint32_t group_count;
	size_t recipients;		/* that may be held at once */
	uint32_t paces;			/* at most HINTS_PACES_MAX */
	struct siphash_key pass_key;	/* hints_pass_add */
	const struct hints_source *sources;	/* mail goes by the first that has a number left */
	uint32_t source_count;		/* at most HINTS_SOURCES_MAX */
	uint64_t given_id;		/* of the file of their numbers (given.h) */
};

enum hints_kind {
	HINTS_NOTHING,	/* as without us */
	HINTS_LANE,
	HINTS_HELD,
	HINTS_SOURCE,	/* of answers alone: by that transport */
};

/* What mail of a key is told. */
struct hint_say {
	enum hints_kind kind;
	struct hint_lanes lanes;	/* LANE: by which it goes */
	char text[HINTS_TEXT_MAX + 1];	/* HELD: follows "retry:4.7.1 " */
	bool paced;			/* its window has a pace; not for the file */
	bool passing;			/* HELD: only until there is room; what is in none of its
					 * lanes need not wait */
};

/* `path` names the file that hints_writer_publish makes; `group`: whose it is, then
 * others cannot read it, or (gid_t)-1: everybody can.  A file that an earlier writer
 * left there is marked replaced by the first publication. */
int hints_writer_open(struct hints_writer **writer, const char *path, gid_t group,
    struct diag *diag);
void hints_writer_close(struct hints_writer **writer);

/* A new file, not in place yet: from here on all calls below speak of it, but
 * hints_writer_beat.  places[i] (unless NULL) is where hints[i] lies, or HINTS_NO_PLACE;
 * the first of two hints for the same domain and mta counts.  A fifth more keys than
 * these have room.  -1 with *diag: all is as it was. */
int hints_writer_build(struct hints_writer *writer, const struct hints_table *table,
    uint32_t *places, struct diag *diag);
/* Renames it into place.  -1 with *diag: the file before stays in force, and what was
 * built is given up. */
int hints_writer_publish(struct hints_writer *writer, int64_t now_ns, struct diag *diag);

/* Was the file in place cut short, as nobody of ours does?  Then it is let go of before
 * anything is written where it has ended, and nothing is said until there is another. */
bool hints_writer_was_cut(struct hints_writer *writer);
/* Is the file that was published still the one of its name, in its full size?  Looks at
 * the disk. */
bool hints_writer_is_in_place(const struct hints_writer *writer);

/* One more key; HINTS_NO_PLACE: no room, or no key. */
uint32_t hints_writer_add(struct hints_writer *writer, const struct hint *hint);
/* Of a key; false: there is none at this place. */
bool hints_writer_domain(const struct hints_writer *writer, uint32_t place,
    char out[HINTS_NAME_MAX + 1]);
void hints_writer_regroup(struct hints_writer *writer, uint32_t place, uint32_t group);

/* Holds or frees (text NULL) a group. */
void hints_writer_hold_group(struct hints_writer *writer, uint32_t group,
    const char *text);

/* How much room a group has, or HINTS_ANY_ROOM; `text` (NULL: as before) follows "retry:4.7.1 "
 * where that is not enough for a key that begins. */
void hints_writer_set_room(struct hints_writer *writer, uint32_t group, uint32_t room,
    const char *text);

/* What mail of the key does from now on. */
void hints_writer_set(struct hints_writer *writer, uint32_t place, const struct hint_say *say);

/* One recipient is held until then, or (text NULL) no more.  `address` in lower case.
 * False: no room. */
bool hints_writer_hold_recipient(struct hints_writer *writer, uint8_t mta,
    const char *address, int64_t until_ns, const char *text);

/* A pace (policy/window/pace.h): the reader takes a token for each message, by a bucket of its
 * own.  Where mail waits, only that goes for which a token was taken by whoever hands it out
 * again: it has a pass. */
struct hint_pace {
	int64_t interval_ns;		/* between messages; 0: none is kept back */
	uint32_t burst;
	bool waits;
	int64_t taken_ns;		/* tokens are taken until then, whoever took them */
	int64_t counted_ns;		/* the same, for a reader that begins: by results */
	uint32_t row;			/* of its provider, in given.h; 0: it has none */
	char text[HINTS_TEXT_MAX + 1];	/* follows "retry:4.7.1 " */
};
/* Paces of the file, and one that is given to a destination that had another, or none. */
uint32_t hints_writer_pace_count(const struct hints_writer *writer);
void hints_writer_begin_pace(struct hints_writer *writer, uint32_t pace);
void hints_writer_set_pace(struct hints_writer *writer, uint32_t pace,
    const struct hint_pace *say);
/* The pace that a key's mail keeps, or HINTS_NO_PACE. */
void hints_writer_follow_pace(struct hints_writer *writer, uint32_t place, uint32_t pace);
/* Lets a message go within HINTS_PASS_NS of issued_ns, a time that no pass of this pace had. */
#define HINTS_PASS_NS	(INT64_C(10) * 1000 * 1000 * 1000)
void hints_writer_pass(struct hints_writer *writer, uint32_t pace, uint32_t number,
    int64_t issued_ns, uint64_t word);
/* The word of a pass for one address more of a message; `word` 0: the first.  A message of unknown
 * addresses has HINTS_PASS_ANY: the first one that asks is let go. */
uint64_t hints_pass_add(const struct siphash_key *key, uint64_t word, const char *address,
    size_t length);
#define HINTS_PASS_ANY	((UINT64_C(1) << 57) - 1)

/* A sign of life of the file in place; readers believe nothing that is older than
 * HINTS_STALE_NS. */
void hints_writer_beat(struct hints_writer *writer, int64_t now_ns);

/* --- reader: one thread ---------------------------------------------------- */

struct hints_reader;

/* How often the reader looks whether its file is still whole: that costs as much as the
 * rest of an answer. */
#define HINTS_LOOK_NS	(INT64_C(10) * 1000 * 1000)

/* Opens nothing yet: the file may come later.  NULL: no memory. */
struct hints_reader *hints_reader_open(const char *path);
void hints_reader_close(struct hints_reader **reader);
/* From here on a file that is cut short while it is read does not end the process: the
 * answer is HINTS_NOTHING.  Takes the process's SIGBUS; all questions from one thread.
 * Whoever asks a reader more than once needs it. */
void hints_reader_outlive_cuts(void);

struct hints_answer {
	enum hints_kind kind;
	uint16_t width;				/* LANE */
	uint64_t transport;			/* SOURCE: hints_transport */
	bool unknown;				/* LANE: the domain is no key */
	char domain[HINTS_NAME_MAX + 1];	/* LANE, SOURCE: of the address, in lower case */
	char text[HINTS_TEXT_MAX + 1];		/* HELD: why */
};

/* Mail may go by sources that are warmed up: the next question alone, and by transports that the
 * site has. */
typedef bool hints_has_transport(const void *context, uint64_t transport);
void hints_reader_allow_sources(struct hints_reader *reader, hints_has_transport *has,
    const void *context);

/* There are sources, and the file of their numbers cannot be opened: none was used. */
bool hints_reader_lacks_numbers(const struct hints_reader *reader);

/* What mail for user@domain (any case) is to do now.  HINTS_NOTHING wherever there is
 * a doubt: no file, foreign, of another boot, stale, torn, cut short.  `only_held`: for what goes
 * by no lane of the key: HINTS_HELD, but not in passing, or HINTS_NOTHING; takes no turn and no
 * canary from mail. */
void hints_reader_ask(struct hints_reader *reader, const char *mta,
    const char *address, size_t length, bool only_held, int64_t now_ns,
    struct hints_answer *answer);

#endif
