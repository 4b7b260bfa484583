/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl tail: decisions and events as they come.
 * MODEL    First those that the rings of the state file still have, in the order of their
 *          times, the last ones of them; then whatever comes, as long as somebody wants it.
 *          A state file that took the place of this one is gone on with from its start.
 * ERRORS   What was overwritten before it was read is told of, how much it was.  A daemon that
 *          is away is waited for.
 * THREADS  One.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/text.h"
#include "ctl/cli/ctl.h"
#include "ctl/act/state.h"
#include "view/classes.h"
#include "view/decided_batch.h"
#include "view/decided_line.h"
#include "view/name_pattern.h"

#define LINES_MOST	1000000
#define LINES_USUAL	10
#define LOOK_NS		(100 * NS_PER_MS)
#define HEALTH_NS	NS_PER_SECOND

struct wanted {
	const char *class;		/* NULL: any; so are those that follow */
	struct mask destination;
	bool has_destination;
	struct prefix address;
	bool has_address;
	uint32_t kinds;			/* a bit each */
	uint32_t lines;			/* of what is there already */
	int64_t since_ns;		/* not before; 0: no matter */
};

struct tailing {
	struct ctl *ctl;
	struct state state;
	struct wanted wanted;
	struct decisions_cursor cursors[DECIDED_RINGS];
	struct decided_batch batch;
	enum reader_health health;	/* as was told */
	bool gone;			/* the state file was, and that was told */
	int64_t looked_ns;		/* at the health */
};

/* --- what is wanted ---------------------------------------------------------------------- */

/* "refused,deferred" */
static bool take_kinds(const char *text, uint32_t *kinds) {
	while (*text != '\0') {
		size_t length = strcspn(text, ",");
		unsigned kind = 0;

		while (kind < DECIDED_KINDS && (strlen(decided_word(kind)) != length ||
			memcmp(decided_word(kind), text, length) != 0))
			kind++;
		if (kind == DECIDED_KINDS)
			return false;
		*kinds |= 1u << kind;
		text += length + (text[length] == ',');
	}
	return *kinds != 0;
}

static int bad_kind(const char *given) {
	char words[256] = "";
	size_t length = 0;

	for (unsigned i = 0; i < DECIDED_KINDS; i++)
		length = text_append(words, sizeof(words), length, "%s%s", i > 0 ? ", " : "",
		    decided_word(i));
	return ctl_usage(COMMAND_TAIL, "--kind %s: must be one or more, separated by commas, "
	    "of %s",
	    given, words);
}

static int take_wishes(const struct ctl *ctl, struct wanted *wanted) {
	const char *why = "";
	int64_t ago_ns;

	*wanted = (struct wanted){ .class = ctl->class, .lines = LINES_USUAL };
	if (ctl->destination != NULL) {
		if (!name_pattern(ctl->destination, &wanted->destination, &why))
			return ctl_usage(COMMAND_TAIL, "bad pattern %s: %s", ctl->destination, why);
		wanted->has_destination = true;
	}
	if (ctl->address != NULL) {
		if (!prefix_parse(ctl->address, strlen(ctl->address), &wanted->address, &why))
			return ctl_usage(COMMAND_TAIL, "--address %s: %s", ctl->address, why);
		wanted->has_address = true;
	}
	if (ctl->kind != NULL && !take_kinds(ctl->kind, &wanted->kinds))
		return bad_kind(ctl->kind);
	if (ctl->since != NULL) {
		if (!text_to_duration_ns(ctl->since, &ago_ns) || ago_ns <= 0)
			return ctl_usage(COMMAND_TAIL, "--since %s: must be a time such as "
			    "90s, 15m or 2h", ctl->since);
		wanted->since_ns = clock_now_ns() - ago_ns;
		if (wanted->since_ns <= 0)	/* before the boot */
			wanted->since_ns = 1;
		wanted->lines = LINES_MOST;
	}
	if (ctl->lines != NULL && !text_to_u32(ctl->lines, strlen(ctl->lines), LINES_MOST,
		&wanted->lines))
		return ctl_usage(COMMAND_TAIL, "--lines %s: must be a number up to %d",
		    ctl->lines,
		    LINES_MOST);
	return EX_OK;
}

/* Its own name, the domain of a recipient, or whose window it runs by. */
static bool is_to(const struct decided *decided, const struct mask *pattern) {
	const char *name = decided_text(decided, DECIDED_NAME);
	const char *recipient = decided_text(decided, DECIDED_RECIPIENT);
	const char *at = strrchr(recipient, '@');

	return (!decided_is_of_client(decided) && *name != '\0' && name_fits(name, pattern)) ||
	    (*recipient != '\0' && name_fits(at != NULL ? at + 1 : recipient, pattern)) ||
	    (*decided_text(decided, DECIDED_WINDOW_OF) != '\0' &&
		name_fits(decided_text(decided, DECIDED_WINDOW_OF), pattern));
}

static bool is_wanted(const void *context, const struct decided *decided) {
	const struct wanted *wanted = context;
	bool is_class = (decided->flags & DECIDED_IS_CLASS) != 0;

	if (wanted->since_ns != 0 && decided->at_ns < wanted->since_ns)
		return false;
	if (wanted->kinds != 0 && (wanted->kinds >> decided->kind & 1) == 0)
		return false;
	if (wanted->class != NULL && strcmp(decided_text(decided, is_class ? DECIDED_NAME :
		DECIDED_CLASS), wanted->class) != 0)
		return false;
	if (wanted->has_address && (address_is_unknown(&decided->client) ||
		!prefix_contains(&wanted->address, &decided->client)))
		return false;
	return !wanted->has_destination || is_to(decided, &wanted->destination);
}

/* --- one after the other ------------------------------------------------------------------- */

static enum tone tone_of(const struct decided *decided) {
	if (decided->flags & DECIDED_OBSERVED_ONLY)
		return TONE_NONE;
	switch (decided->kind) {
	case DECIDED_SUSPENDED: case DECIDED_ALERT: case DECIDED_ACCOUNT_HELD: case DECIDED_FAULT: case DECIDED_UNTRACKED:
		return TONE_BAD;
	case DECIDED_REFUSED: case DECIDED_DEFERRED: case DECIDED_RECIPIENT_HELD:
	case DECIDED_BACK_PRESSURE: case DECIDED_ACCOUNT:
		return TONE_WARN;
	case DECIDED_BACK:
		return TONE_GOOD;
	default:
		return TONE_NONE;
	}
}

static void write_one(struct tailing *tailing, const struct decided *decided,
    int64_t now_ns, int64_t wall_ns) {
	struct writer *writer = &tailing->ctl->writer;
	char time[VIEW_TIME_MAX], id[DECISION_ID_MAX], subject[DECIDED_LINE_MAX], text[DECIDED_LINE_MAX];
	const struct decided_shown shown = { .d = decided,
		.wall_ns = wall_ns - (now_ns - decided->at_ns) };

	if (writer->json) {
		writer_line_begin(writer);
		decided_write(&shown, DECIDED_FOR_TAIL, writer, writer_member);
		writer_line_end(writer);
		return;
	}
	/* as why and the log spell it */
	fprintf(writer->out, "%s  %s  ", view_time(shown.wall_ns, time),
	    decision_id_text(decided->id, id));
	writer_tone(writer, tone_of(decided));
	fprintf(writer->out, "%-13s", decided_shown_word(decided));
	writer_tone(writer, TONE_NONE);
	fprintf(writer->out, "  %s", decided_line_subject(decided, subject));
	if (*decided_line_text(decided, text) != '\0')
		fprintf(writer->out, "  %s", text);
	putc('\n', writer->out);
}

/* The names of each other row, without values. */
static void write_unknown(struct writer *writer, const char *name, enum column_kind kind,
    struct value value) {
	(void)value;
	if (strcmp(name, "kind") != 0 && strcmp(name, "count") != 0)
		writer_member(writer, name, kind, value_unknown());
}

/* Of kind "lost", how many. */
static void write_lost(struct tailing *tailing, uint64_t lost) {
	static const struct decided none;
	const struct decided_shown shown = { .d = &none };
	struct writer *writer = &tailing->ctl->writer;

	if (!writer->json) {
		ctl_complain("%llu decision%s arrived too fast to be shown, and %s lost",
		    (unsigned long long)lost, lost == 1 ? "" : "s", lost == 1 ? "is" : "are");
		return;
	}
	writer_line_begin(writer);
	writer_text(writer, "kind", "lost");
	writer_number(writer, "count", lost);
	decided_write(&shown, DECIDED_FOR_TAIL, writer, write_unknown);
	writer_line_end(writer);
}

/* `most` of them, the last ones.  False: no memory, or nobody reads. */
static bool write_all(struct tailing *tailing, size_t most, bool tells_lost) {
	struct decided_batch *batch = &tailing->batch;
	int64_t now_ns, wall_ns;
	uint64_t lost = 0;

	if (tailing->state.view.reader == NULL)
		return true;
	clock_pair(&now_ns, &wall_ns);
	batch->count = 0;
	decided_batch_follow(batch, tailing->state.view.reader, tailing->cursors, now_ns, &lost);
	decided_batch_sort(batch, false);
	if (batch->no_memory) {
		ctl_complain("%s", strerror(ENOMEM));
		return false;
	}
	if (lost > 0 && tells_lost)
		write_lost(tailing, lost);
	for (size_t i = batch->count > most ? batch->count - most : 0; i < batch->count; i++)
		write_one(tailing, &batch->list[i], now_ns, wall_ns);
	return writer_finish(&tailing->ctl->writer);
}

/* --- as long as somebody wants it ------------------------------------------------------------- */

static void tell_health(struct tailing *tailing) {
	const struct view *view = &tailing->state.view;
	char away[VIEW_AWAY_MAX];

	if (view->status.health == tailing->health)
		return;
	tailing->health = view->status.health;
	if (tailing->health == READER_STALE)
		ctl_complain("%s; waiting for it", view_away(view, away));
	else if (tailing->health == READER_LIVE)
		ctl_complain("posternd is running again");
}

static void look_after(struct tailing *tailing, int64_t now_ns) {
	struct view *view = &tailing->state.view;
	int64_t created_ns = view->status.created_ns;
	struct diag diag;

	if (now_ns - tailing->looked_ns < HEALTH_NS)
		return;
	tailing->looked_ns = now_ns;
	if (view_refresh(view, &diag) != 0) {
		if (!tailing->gone)
			ctl_complain("%s; waiting for it", diag.text);
		tailing->gone = true;
		return;
	}
	state_look_for_daemon(view);
	if (tailing->gone || view->status.created_ns != created_ns) {
		memset(tailing->cursors, 0, sizeof(tailing->cursors));
		ctl_complain("the state file was recreated; restarting from the beginning");
	}
	tailing->gone = false;
	tell_health(tailing);
}

static void follow(struct tailing *tailing) {
	bool wanted = true;

	while (wanted) {
		clock_pause(LOOK_NS);
		wanted = write_all(tailing, SIZE_MAX, true);
		look_after(tailing, clock_now_ns());
	}
}

int command_TAIL(struct ctl *ctl) {
	struct tailing tailing = { .ctl = ctl, .batch = { .wants = is_wanted,
		.context = &tailing.wanted } };
	struct reader_class class;
	int result = take_wishes(ctl, &tailing.wanted);

	if (result != EX_OK)
		return result;
	result = state_open(ctl, &tailing.state);
	/* decisions of a class that was removed can be there */
	if (result == EX_OK && ctl->class != NULL &&
	    !view_class_find(&tailing.state.view, ctl->class, &class))
		ctl_complain("the configuration has no class %s", ctl->class);
	if (result == EX_OK) {
		tailing.health = tailing.state.view.status.health;
		tailing.looked_ns = clock_now_ns();
		if (write_all(&tailing, tailing.wanted.lines, false) && !ctl->once) {
			tailing.wanted.since_ns = 0;
			follow(&tailing);
		}
	}
	free(tailing.batch.list);
	return state_close(&tailing.state, result);
}
