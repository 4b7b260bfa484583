/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Who is held: the law of classes for mail that a queue manager is about to
 *          hand out (DESIGN sections 5 and 11).
 * MODEL    Groups of the hints file are the classes of the configuration.  The table
 *          is made anew where what it was made from may have changed; between, a
 *          turn looks at each class's count alone.
 * ERRORS   A table that cannot be made or written leaves the one before; it goes
 *          stale, and then nothing is held.
 * THREADS  One for the file; the questions: any.
 */
#include "engine/hints.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/internal.h"
#include "engine/outbound.h"
#include "segment/hints.h"

#define SHARE		20
#define REBUILD_LEAST_NS (250 * NS_PER_MS)
/* A destination's relays may change their order unseen. */
#define REBUILD_MOST_NS	(5 * NS_PER_SECOND)
/* Classes that become full while many destinations are looked at do not wait. */
#define LOOKED_AT	4096
#define NOT_HELD	UINT32_MAX

_Static_assert(HINT_TEXT_MAX == HINTS_TEXT_MAX, "texts fit the file");

struct candidate {
	char domain[SEGMENT_NAME_MAX + 1];
	uint8_t mta;
	uint32_t class_index;
};

struct engine_hints {
	struct engine *engine;
	struct hints_writer *writer;
	uint64_t generation, version;	/* that the table was made from */
	bool published;
	bool failed;			/* the last table could not be written; it was told */
	int64_t made_ns, next_ns;	/* when it was made, and may be again */
	uint32_t class_count;
	uint32_t *shown;		/* open sessions that a class's text tells, or NOT_HELD */
};

/* The list that is being made. */
struct gathering {
	struct engine_hints *hints;
	const struct generation *generation;
	struct candidate *list;
	size_t count, size;
	unsigned looked_at;
	bool failed;
};

static const char *const doubt_words[] = {
#define DOUBT(symbol, word, text) [HINT_DOUBT_##symbol] = word,
#include "defs/doubts.def"
#undef DOUBT
};

static const char *const doubt_texts[] = {
#define DOUBT(symbol, word, text) [HINT_DOUBT_##symbol] = text,
#include "defs/doubts.def"
#undef DOUBT
};

const char *hint_doubt_word(enum hint_doubt doubt) {
	return doubt_words[doubt];
}

/* Of letters, digits, '.', '-' and '_', and no address. */
static bool is_host_name(const char *name, size_t length) {
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz-_"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	bool has_letter = false;

	for (size_t i = 0; i < length; i++) {
		bool letter = name[i] != '\0' && strchr(letters, name[i]) != NULL;

		if (!letter && name[i] != '.' && (name[i] < '0' || name[i] > '9'))
			return false;
		has_letter = name[i] != '.' && (has_letter || letter);
	}
	return has_letter;
}

enum hint_doubt hint_destination_doubt(const struct generation *generation,
    uint8_t mta, const char *domain, size_t length,
    const struct destination_seen *seen, const char **detail) {
	const struct generation_mta *site = &generation->mtas[mta];

	*detail = "";
	if (site->kind != MTA_POSTFIX)
		return HINT_DOUBT_NOT_POSTFIX;
	if (!site->site_known)
		return HINT_DOUBT_SITE_UNKNOWN;
	*detail = generation_text(generation, site->site_refusal);
	if (**detail != '\0')
		return HINT_DOUBT_SITE_REFUSED;
	if (!is_host_name(domain, length))
		return HINT_DOUBT_ODD_NAME;
	if (generation_site_excludes(generation, site, domain, length, detail))
		return HINT_DOUBT_EXCLUDED;
	if (!generation_site_lists(generation, site, domain, length))
		return HINT_DOUBT_NOT_LISTED;
	if (seen != NULL && (seen->other_by >> mta & 1) != 0)
		return HINT_DOUBT_OTHER_TRANSPORT;
	if (seen == NULL || (seen->cloned_by >> mta & 1) == 0)
		return HINT_DOUBT_NEVER_SEEN;
	return HINT_DOUBT_NONE;
}

enum hint_doubt hint_class_doubt(const struct generation *generation,
    uint32_t class_index) {
	const struct generation_class *class;

	if (class_index == CLASS_NO_RULE)
		return HINT_DOUBT_NO_CLASS;
	class = generation_class(generation, class_index);
	if (class->limits.sessions == LIMIT_NONE)
		return HINT_DOUBT_NO_LIMIT;
	if (class->outbound_observe)
		return HINT_DOUBT_OBSERVED;
	return HINT_DOUBT_NONE;
}

/* The open sessions of a class that is full, or NOT_HELD.  The count is read without
 * locks: a turn later it is read again. */
static uint32_t held_by(const struct engine *engine,
    const struct generation *generation, uint32_t class_index) {
	const struct generation_class *class =
	    generation_class(generation, class_index);
	const struct class_record *record;
	uint32_t open;

	if (hint_class_doubt(generation, class_index) != HINT_DOUBT_NONE ||
	    class->record >= engine->segment->header->record_count)
		return NOT_HELD;
	record = &engine->segment->records[class->record];
	if (atomic_load_explicit(&record->uses, memory_order_relaxed) !=
	    class->record_use)
		return NOT_HELD;
	open = atomic_load_explicit(&record->open, memory_order_relaxed);
	return open >= class->limits.sessions ? open : NOT_HELD;
}

static void say(const struct generation *generation, uint32_t class_index,
    uint32_t open, char text[HINT_TEXT_MAX + 1]) {
	const struct generation_class *class =
	    generation_class(generation, class_index);
	const char *name = generation_text(generation, class->name);
	char quoted[GENERATION_CLASS_NAME_MAX + 1];

	snprintf(text, HINT_TEXT_MAX + 1, "Postern: class %s holds %u of %u sessions",
	    log_quote(quoted, sizeof(quoted), name, strlen(name)), open,
	    class->limits.sessions);
}

bool hint_class_holds(const struct engine *engine,
    const struct generation *generation, uint32_t class_index,
    char text[HINT_TEXT_MAX + 1]) {
	uint32_t open = class_index == CLASS_NO_RULE ? NOT_HELD :
	    held_by(engine, generation, class_index);

	text[0] = '\0';
	if (open != NOT_HELD)
		say(generation, class_index, open, text);
	return open != NOT_HELD;
}

void hint_explain(const struct engine *engine, const struct generation *generation,
    const char *domain, size_t length, uint32_t class_index,
    struct hint_explained *out) {
	struct destination_seen seen;
	bool is_seen = destinations_find(engine->segment, domain, length, &seen);
	char text[HINT_TEXT_MAX + 1];

	*out = (struct hint_explained){ .mta = UINT8_MAX, .why = "" };
	for (uint8_t mta = 0; mta < generation->mta_count; mta++) {
		const char *detail;
		enum hint_doubt doubt;

		if (generation->mtas[mta].kind != MTA_POSTFIX)
			continue;
		doubt = hint_destination_doubt(generation, mta, domain, length,
		    is_seen ? &seen : NULL, &detail);
		if (doubt == HINT_DOUBT_NONE)
			doubt = hint_class_doubt(generation, class_index);
		if (out->mta != UINT8_MAX && doubt != HINT_DOUBT_NONE)
			continue;
		*out = (struct hint_explained){ .mta = mta, .doubt = doubt,
			.why = *detail != '\0' ? detail : doubt_texts[doubt] };
		if (doubt == HINT_DOUBT_NONE)
			break;
	}
	out->held = out->mta != UINT8_MAX && out->doubt == HINT_DOUBT_NONE &&
	    hint_class_holds(engine, generation, class_index, text);
}

int engine_hints_open(struct engine_hints **hints, struct engine *engine,
    struct diag *diag) {
	struct engine_hints *new = calloc(1, sizeof(*new));
	char path[PATH_MAX + 8];

	if (new == NULL)
		return diag_set(diag, errno, "no memory for the hints");
	new->engine = engine;
	snprintf(path, sizeof(path), "%s.hints", segment_path(engine->segment));
	if (hints_writer_open(&new->writer, path, diag) != 0) {
		free(new);
		return -1;
	}
	*hints = new;
	return 0;
}

void engine_hints_close(struct engine_hints **hints) {
	if (*hints == NULL)
		return;
	hints_writer_close(&(*hints)->writer);
	free((*hints)->shown);
	free(*hints);
	*hints = NULL;
}

static void add(struct gathering *gathering, const struct destination_seen *seen,
    uint8_t mta, uint32_t class_index) {
	struct candidate *grown;

	if (gathering->count == gathering->size) {
		gathering->size = gathering->size == 0 ? 64 : 2 * gathering->size;
		grown = reallocarray(gathering->list, gathering->size, sizeof(*grown));
		if (grown == NULL) {
			gathering->failed = true;
			return;
		}
		gathering->list = grown;
	}
	grown = &gathering->list[gathering->count++];
	memcpy(grown->domain, seen->name, sizeof(grown->domain));
	grown->mta = mta;
	grown->class_index = class_index;
}

/* What the table in force says of the classes, and that we live. */
static void renew_states(struct engine_hints *hints,
    const struct generation *generation, int64_t now_ns) {
	char text[HINT_TEXT_MAX + 1];

	if (!hints->published || hints->generation != generation->number)
		return;
	for (uint32_t i = 0; i < hints->class_count; i++) {
		uint32_t held = held_by(hints->engine, generation, i);

		if (held == hints->shown[i])
			continue;
		if (held != NOT_HELD)
			say(generation, i, held, text);
		hints_writer_hold(hints->writer, i, held == NOT_HELD ? NULL : text);
		hints->shown[i] = held;
	}
	hints_writer_beat(hints->writer, now_ns);
}

static void consider(void *context, const struct destination_seen *seen) {
	struct gathering *gathering = context;
	const struct generation *generation = gathering->generation;
	size_t length = strlen(seen->name);
	struct outbound_class found = { .class_index = CLASS_NO_RULE };
	bool is_found = false;
	const char *detail;

	if (++gathering->looked_at % LOOKED_AT == 0)
		renew_states(gathering->hints, generation, clock_now_ns());
	for (uint8_t mta = 0; mta < generation->mta_count && !gathering->failed; mta++) {
		if (hint_destination_doubt(generation, mta, seen->name, length, seen,
			&detail) != HINT_DOUBT_NONE)
			continue;
		if (!is_found)
			outbound_class_find(gathering->hints->engine, generation,
			    seen->name, length, &found);
		is_found = true;
		if (hint_class_doubt(generation, found.class_index) == HINT_DOUBT_NONE)
			add(gathering, seen, mta, found.class_index);
	}
}

/* The texts of all classes, as the new table begins with them: NULL or into
 * `room`. */
static void begin_states(struct engine_hints *hints,
    const struct generation *generation, uint32_t *shown,
    char (*room)[HINT_TEXT_MAX + 1], const char **texts) {
	for (uint32_t i = 0; i < generation->class_count; i++) {
		shown[i] = held_by(hints->engine, generation, i);
		texts[i] = NULL;
		if (shown[i] == NOT_HELD)
			continue;
		say(generation, i, shown[i], room[i]);
		texts[i] = room[i];
	}
}

static int publish(struct engine_hints *hints, const struct gathering *gathering,
    int64_t now_ns, struct diag *diag) {
	const struct generation *generation = gathering->generation;
	uint32_t classes = generation->class_count;
	struct hint *list = calloc(gathering->count + 1, sizeof(*list));
	const char **texts = calloc(classes + 1, sizeof(*texts));
	char (*room)[HINT_TEXT_MAX + 1] = calloc(classes + 1, sizeof(*room));
	uint32_t *shown = calloc(classes + 1, sizeof(*shown));
	int result = -1;

	for (size_t i = 0; list != NULL && i < gathering->count; i++) {
		const struct candidate *candidate = &gathering->list[i];

		list[i] = (struct hint){ candidate->domain,
			generation_text(generation, generation->mtas[candidate->mta].name),
			candidate->class_index };
	}
	if (list == NULL || texts == NULL || room == NULL || shown == NULL ||
	    gathering->failed) {
		diag_set(diag, ENOMEM, "no memory for the hints");
	} else {
		begin_states(hints, generation, shown, room, texts);
		result = hints_writer_publish(hints->writer, list, gathering->count,
		    texts, classes, now_ns, diag);
	}
	if (result == 0) {
		free(hints->shown);
		hints->shown = shown;
		hints->class_count = classes;
		shown = NULL;
	}
	free(list);
	free(texts);
	free(room);
	free(shown);
	return result;
}

static int rebuild(struct engine_hints *hints, const struct generation *generation,
    int64_t now_ns, struct diag *diag) {
	struct gathering gathering = { .hints = hints, .generation = generation };
	uint64_t version = destinations_version(hints->engine->segment);
	int64_t spent_ns;
	int result;

	destinations_each(hints->engine->segment, consider, &gathering);
	result = publish(hints, &gathering, clock_now_ns(), diag);
	free(gathering.list);
	spent_ns = clock_now_ns() - now_ns;
	hints->made_ns = now_ns;
	hints->next_ns = now_ns + (SHARE * spent_ns > REBUILD_LEAST_NS ?
	    SHARE * spent_ns : REBUILD_LEAST_NS);
	if (result == 0) {
		hints->generation = generation->number;
		hints->version = version;
		hints->published = true;
	}
	return result;
}

static bool is_due(const struct engine_hints *hints,
    const struct generation *generation, int64_t now_ns) {
	return now_ns >= hints->next_ns &&
	    (hints->generation != generation->number ||
	     hints->version != destinations_version(hints->engine->segment) ||
	     now_ns - hints->made_ns >= REBUILD_MOST_NS);
}

/* Is there any Postfix to give hints to? */
static bool is_wanted(const struct generation *generation) {
	for (uint32_t i = 0; i < generation->mta_count; i++)
		if (generation->mtas[i].kind == MTA_POSTFIX)
			return true;
	return false;
}

int engine_hints_turn(struct engine_hints *hints, int64_t now_ns,
    struct diag *diag) {
	const struct generation *generation = engine_pin(hints->engine);
	int result = 0;

	if (!hints->published && !is_wanted(generation)) {
		engine_unpin(hints->engine, generation);
		return 0;
	}
	if (is_due(hints, generation, now_ns)) {
		bool had_failed = hints->failed;

		hints->failed = rebuild(hints, generation, now_ns, diag) != 0;
		result = hints->failed && !had_failed ? -1 : 0;
	}
	renew_states(hints, generation, now_ns);
	engine_unpin(hints->engine, generation);
	return result;
}
