/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Questions about hints: who may have them at all, which class holds its mail
 *          now (DESIGN sections 5 and 11).
 * ERRORS   Whatever is in doubt has no hints.
 * THREADS  Any.
 */
#include "engine/hints/hints.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "config/generation/site_routes.h"
#include "engine/decision/decided.h"
#include "engine/hints/hints_internal.h"

/* A class that is at its limit comes and goes many times a minute. */
#define FULL_AGAIN_NS	(60 * NS_PER_SECOND)

_Static_assert(HINT_TEXT_MAX == HINTS_TEXT_MAX, "texts fit the file");

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

enum hint_doubt hint_site_doubt(const struct generation *generation, uint8_t mta,
    const char **detail) {
	const struct generation_mta *site = &generation->mtas[mta];

	*detail = "";
	if (site->kind != MTA_POSTFIX)
		return HINT_DOUBT_NOT_POSTFIX;
	if (!site->site_known)
		return HINT_DOUBT_SITE_UNKNOWN;
	*detail = generation_text(generation, site->site_refusal);
	if (**detail != '\0')
		return HINT_DOUBT_SITE_REFUSED;
	return site->site_changed != 0 ? HINT_DOUBT_SITE_CHANGED : HINT_DOUBT_NONE;
}

/* Did another transport of the same Postfix deliver there?  Where the site names this one for
 * the domain, those that are rows may have: it named them before. */
static bool by_another(const struct generation *generation, uint8_t mta,
    const struct destination_seen *seen) {
	unsigned rows = generation_mta_bits(generation, mta), bits = seen->other_by;

	if (generation->mtas[mta].transport == 0)
		bits |= seen->cloned_by & ~(1U << mta);
	return (bits & rows) != 0;
}

enum hint_doubt hint_destination_doubt(const struct generation *generation,
    uint8_t mta, const char *domain, size_t length,
    const struct destination_seen *seen, const char **detail) {
	const struct generation_mta *site = &generation->mtas[mta];
	enum hint_doubt doubt = hint_site_doubt(generation, mta, detail);

	if (doubt != HINT_DOUBT_NONE)
		return doubt;
	if (!site_is_host_name(domain, length))
		return HINT_DOUBT_ODD_NAME;
	if (generation_site_excludes(generation, site, domain, length, detail))
		return HINT_DOUBT_EXCLUDED;
	if (!generation_site_lists(generation, site, domain, length))
		return HINT_DOUBT_NOT_LISTED;
	if (seen != NULL && by_another(generation, mta, seen))
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

/* The open sessions of a class that is full; false: it has room.  The count is read
 * without locks: a turn later it is read again. */
static bool is_full(const struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, uint32_t *open, uint32_t *limit) {
	const struct generation_class *class =
	    generation_class(generation, class_index);
	const struct class_record *record;
	struct limits own;

	if (hint_class_doubt(generation, class_index) != HINT_DOUBT_NONE ||
	    class->record >= engine->segment->header->record_count)
		return false;
	record = &engine->segment->records[class->record];
	if (atomic_load_explicit(&record->uses, memory_order_relaxed) !=
	    class->record_use)
		return false;
	*open = atomic_load_explicit(&record->open, memory_order_relaxed);
	*limit = class_limits(engine->segment, generation, class, now_ns, &own)->sessions;
	if (*open < *limit)
		return false;
	/* nobody asks as long as mail is held: what more would serve is asked for here */
	if (class->shared)
		shares_wanted(engine->segment, class, false);
	return true;
}

const char *hint_id(uint64_t id, char out[HINT_ID_MAX]) {
	char text[DECISION_ID_MAX];

	out[0] = '\0';
	if (id != 0)
		snprintf(out, HINT_ID_MAX, " (id=%s)", decision_id_text(id, text));
	return out;
}

/* Where no Postfix has hints no mail waits, and nothing is decided. */
static bool takes_hints(const struct generation *generation) {
	const char *detail;

	for (unsigned i = 0; i < generation->mta_count; i++)
		if (hint_site_doubt(generation, (uint8_t)i, &detail) == HINT_DOUBT_NONE)
			return true;
	return false;
}

uint64_t hint_note_class_full(struct engine *engine, const struct generation *generation,
    uint32_t class_index, uint32_t open, uint32_t limit, int64_t now_ns) {
	const struct generation_class *class = generation_class(generation, class_index);
	struct limits whole, own;
	struct decided d;

	decided_begin(&d, decisions_claim(engine->segment, DECIDED_OF_SESSIONS),
	    DECIDED_DEFERRED, DECIDED_IN_QUEUE, now_ns);
	d.reason = limit < class->limits.sessions ? REASON_CLASS_SHARE : REASON_CLASS_SESSIONS;
	d.verdict = VERDICT_DEFER;
	d.flags = DECIDED_OUTBOUND;
	d.count = open;
	d.limit = limit;
	shares_whole(engine, generation, class_index, now_ns, &whole);
	if (d.reason == REASON_CLASS_SHARE) {
		d.before = whole.sessions;
		d.by = (uint8_t)shares_limits(engine->segment, generation, class, now_ns, &own);
	}
	decided_put_class(&d, generation, class_index, CLASS_NO_RULE, true);
	decisions_write(engine->segment, &d);
	return d.id;
}

/* The decision that mail of a full class is told; a class that fills again within a minute has
 * the one before. */
static void note_full(struct engine *engine, const struct generation *generation,
    uint32_t class_index, uint32_t open, uint32_t limit, int64_t now_ns,
    struct hint_full *full) {
	if (full->id != 0 || !takes_hints(generation))
		return;
	full->id = hint_note_class_full(engine, generation, class_index, open, limit, now_ns);
	full->noted_ns = now_ns;
	/* by the mail server, with each message that waits */
	engine_decision_logged(engine, full->id);
}

bool hint_class_holds(struct engine *engine, const struct generation *generation,
    uint32_t class_index, int64_t now_ns, struct hint_full *full,
    char text[HINT_TEXT_MAX + 1]) {
	char quoted[GENERATION_CLASS_NAME_MAX + 1], until[HINT_TIME_MAX], id[HINT_ID_MAX];
	const struct generation_class *class;
	struct window_held held;
	const char *name;
	uint32_t open, limit;
	char share[32] = "";

	text[0] = '\0';
	if (class_index == CLASS_NO_RULE)
		return false;
	class = generation_class(generation, class_index);
	name = generation_text(generation, class->name);
	(void)log_quote(quoted, sizeof(quoted), name, strlen(name));
	if (windows_class_held(engine, generation, class_index, now_ns, &held) &&
	    !held.observed)
		(void)text_append(text, HINT_TEXT_MAX + 1, 0, "Postern: class %s is held%s%s%s%s%s",
		    quoted,
		    held.until_ns == INT64_MAX ? "" : " until ",
		    hint_time(held.until_ns, now_ns, until), hint_id(held.event, id),
		    held.reason[0] == '\0' ? "" : ": ", held.reason);
	else if (is_full(engine, generation, class_index, now_ns, &open, &limit)) {
		note_full(engine, generation, class_index, open, limit, now_ns, full);
		if (limit < class->limits.sessions)
			(void)text_append(share, sizeof(share), 0, ", its share of %u",
			    class->limits.sessions);
		(void)text_append(text, HINT_TEXT_MAX + 1, 0,
		    "Postern: class %s has %u of %u sessions%s%s", quoted, open, limit,
		    share, hint_id(full->id, id));
		return true;
	}
	if (now_ns - full->noted_ns >= FULL_AGAIN_NS)
		full->id = 0;
	return text[0] != '\0';
}

const char *hint_time(int64_t at_ns, int64_t now_ns, char out[HINT_TIME_MAX]) {
	time_t at = (time_t)(clock_wall_s() + (at_ns - now_ns) / NS_PER_SECOND);
	struct tm tm;

	out[0] = '\0';
	if (at_ns != INT64_MAX && gmtime_r(&at, &tm) != NULL)
		(void)strftime(out, HINT_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return out;
}

/* As postern-lookup does it, which has the site's file. */
static bool goes_by_lane(const struct generation *generation, uint8_t mta, const char *domain,
    size_t length, const struct hints_answer *answer, const char *next_hop) {
	const char *detail;

	if (answer->kind != HINTS_LANE || !answer->unknown)
		return answer->kind == HINTS_LANE;
	return *next_hop == '\0' && hint_destination_doubt(generation, mta, domain, length, NULL,
	    &detail) == HINT_DOUBT_NEVER_SEEN;
}

/* What postern-lookup answers now, with the site's file as we have read it. */
static void read_answer(const struct engine *engine, const struct generation *generation,
    uint8_t mta, const char *domain, size_t length, int64_t now_ns,
    struct hint_explained *out) {
	char path[PATH_MAX + 8], address[HINTS_NAME_MAX + 8];
	const char *next_hop, *transport;
	struct hints_answer answer;
	struct hints_reader *reader;

	if (length > HINTS_NAME_MAX)
		return;
	snprintf(path, sizeof(path), "%s.hints", segment_path(engine->segment));
	snprintf(address, sizeof(address), "x@%.*s", (int)length, domain);
	reader = hints_reader_open(path);
	if (reader == NULL)
		return;
	hints_reader_ask(reader, generation_text(generation, generation->mtas[mta].name), address,
	    strlen(address), false, now_ns, &answer);
	hints_reader_close(&reader);
	next_hop = generation_site_next_hop(generation, &generation->mtas[mta], domain, length);
	transport = generation_text(generation, generation->mtas[mta].transport);
	if (goes_by_lane(generation, mta, domain, length, &answer, next_hop))
		snprintf(out->answer, sizeof(out->answer), "lane%u%s%s:%s", answer.width,
		    *transport != '\0' ? "-" : "", transport, next_hop);
	else if (answer.kind == HINTS_HELD)
		snprintf(out->answer, sizeof(out->answer), "retry:4.7.1 %s", answer.text);
}

void hint_explain(const struct engine *engine, const struct generation *generation,
    const char *domain, size_t length, uint32_t class_index, int64_t now_ns,
    struct hint_explained *out) {
	struct destination_seen seen;
	bool is_seen = destinations_find(engine->segment, domain, length, &seen);

	*out = (struct hint_explained){ .mta = UINT8_MAX, .why = "" };
	for (unsigned i = 0; i < generation->mta_count; i++) {
		uint8_t mta = (uint8_t)generation_site_transport(generation, i, domain, length);
		struct window_owner owner;
		const char *detail;
		enum hint_doubt doubt;

		if (generation->mtas[i].kind != MTA_POSTFIX || generation->mtas[i].transport != 0)
			continue;
		doubt = hint_destination_doubt(generation, mta, domain, length,
		    is_seen ? &seen : NULL, &detail);
		if (doubt == HINT_DOUBT_NONE && !windows_owner_of_mta(engine, generation, &seen,
			mta, &owner))
			doubt = HINT_DOUBT_RELAY_UNKNOWN;
		/* windows have hints for all of them */
		if (doubt == HINT_DOUBT_NONE && generation->outbound_observe)
			doubt = hint_class_doubt(generation, class_index);
		if (out->mta != UINT8_MAX && doubt != HINT_DOUBT_NONE)
			continue;
		*out = (struct hint_explained){ .mta = mta, .doubt = doubt,
			.why = *detail != '\0' ? detail : doubt_texts[doubt] };
		if (doubt == HINT_DOUBT_NONE)
			break;
	}
	snprintf(out->answer, sizeof(out->answer), "NOTFOUND");
	if (out->mta != UINT8_MAX)
		read_answer(engine, generation, out->mta, domain, length, now_ns, out);
	out->kind = strncmp(out->answer, "retry:", 6) == 0 ? "retry" :
	    strncmp(out->answer, "lane", 4) == 0 ? "lane" : "none";
}
