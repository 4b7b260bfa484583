/* SPDX-License-Identifier: ISC */
/*
 * Reads a site's file in two steps: every line into arrays that point into the
 * text, and, when no line was wrong, the arrays into the block.
 */
#include "config/mta/site.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/text.h"
#include "config/classes/mask_set.h"
#include "config/read/read_file.h"
#include "config/mta/relayhost.h"

#define BYTES_MAX	((size_t)64 << 20)
#define MISTAKES_MAX	20	/* so many are named */

/* Masks of one kind of line, and what stands behind each. */
struct mask_list {
	struct class_rule *masks;
	struct span *reasons;
	uint32_t count;
	size_t mask_room, reason_room;
};

/* What is told of one transport. */
struct site_part {
	struct span clone_program;
	struct span refusal;
	unsigned refusal_line;
	struct mask_list excluded;
	struct mask_list routes;
	uint16_t lanes[GENERATION_LANES_MAX];
	uint32_t lane_count;
	uint32_t origin;
	uint32_t cohorts, backoff_s;
};

struct site_work {
	struct compilation *c;
	const char *file;
	unsigned order;
	unsigned line;
	unsigned mistakes;
	bool silent;			/* mistakes were noted already */
	const char *mta_name;
	const char *transport;		/* the part that is wanted; "": that of the clone */
	bool named;
	bool found;			/* that part is there */
	bool only_listed;
	bool by_setup;
	bool in_part;			/* behind a line "transport" */
	struct span relayhost;
	uint32_t probes;
	struct span no_probes;		/* why they have no lane */
	struct site_part wanted, other;	/* others are read for their mistakes */
	struct site_part *part;		/* of the line */
	struct mask_list listed;
	struct mask_list watches;	/* of masks it has none */
};

static void mistake(struct site_work *w, const char *what, struct span where) {
	char quoted[100];

	if (w->mistakes++ >= MISTAKES_MAX || w->silent)
		return;
	report_add(&w->c->report, MESSAGE_NOTE, w->file, w->line, w->order, "%s%s%s", what,
	    where.text ? ": " : "",
	    where.text ? log_quote(quoted, sizeof(quoted), where.text, where.length) : "");
}

static const struct span nothing;

/* The next word of *rest, which goes on behind the blanks after it. */
static struct span take_word(struct span *rest) {
	struct span word = { rest->text, 0 };

	while (word.length < rest->length && rest->text[word.length] != ' ')
		word.length++;
	rest->text += word.length;
	rest->length -= word.length;
	while (rest->length > 0 && *rest->text == ' ') {
		rest->text++;
		rest->length--;
	}
	return word;
}

static bool is(struct span word, const char *text) {
	return word.length == strlen(text) && memcmp(word.text, text, word.length) == 0;
}

static bool make_room(struct site_work *w, struct mask_list *list) {
	bool good = array_grow(&list->masks, &list->mask_room, list->count,
	    sizeof(*list->masks)) && array_grow(&list->reasons, &list->reason_room, list->count,
	    sizeof(*list->reasons));

	w->c->block.failed |= !good;
	return good;
}

static void add_mask(struct site_work *w, struct mask_list *list, struct span word,
    struct span reason) {
	struct class_rule *rule;
	const char *why;

	if (!make_room(w, list))
		return;
	rule = &list->masks[list->count];
	memset(rule, 0, sizeof(*rule));
	if (!mask_parse(word.text, word.length, &rule->mask, &why))
		mistake(w, why, word);
	else
		list->reasons[list->count++] = reason;
}

/* `rest` must have exactly one word. */
static bool one_word(struct site_work *w, struct span keyword, struct span rest,
    struct span *word) {
	*word = take_word(&rest);
	if (word->length > 0 && rest.length == 0)
		return true;
	mistake(w, "one word must follow", keyword);
	return false;
}

/* The same, and it must be a number up to `most`. */
static bool one_number(struct site_work *w, struct span keyword, struct span rest,
    uint32_t most, uint32_t *number) {
	struct span word;

	if (!one_word(w, keyword, rest, &word))
		return false;
	if (text_to_u32(word.text, word.length, most, number))
		return true;
	mistake(w, "not a number, or too large", word);
	return false;
}

static void read_route(struct site_work *w, struct span rest) {
	struct span word = take_word(&rest);

	if (rest.length == 0 || rest.length > 255 || memchr(rest.text, ' ', rest.length) != NULL)
		mistake(w, "a next hop must follow the mask", word);
	else
		add_mask(w, &w->part->routes, word, rest);
}

static void read_lane(struct site_work *w, struct span keyword, struct span rest) {
	uint32_t width;

	if (!one_number(w, keyword, rest, 10000, &width))
		return;
	if (w->part->lane_count == GENERATION_LANES_MAX)
		mistake(w, "more lanes than an mta can have", rest);
	else
		w->part->lanes[w->part->lane_count++] = (uint16_t)width;
}

static void read_refusal(struct site_work *w, struct span keyword, struct span rest) {
	/* what is refused to the mail server is to its transports */
	struct site_part *part = w->in_part ? w->part : &w->wanted;

	if (rest.length == 0) {
		mistake(w, "a reason must follow", keyword);
	} else if (part->refusal.length == 0) {
		part->refusal = rest;
		part->refusal_line = w->line;
	}
}

/* The rest of the file, or up to the next such line, is told of that transport. */
static void begin_part(struct site_work *w, struct span keyword, struct span rest) {
	struct span word;

	if (!one_word(w, keyword, rest, &word))
		return;
	w->in_part = true;
	w->other.lane_count = 0;
	w->part = *w->transport != '\0' && is(word, w->transport) ? &w->wanted : &w->other;
	w->found |= w->part == &w->wanted;
}

/* False: the word is none that tells of one transport. */
static bool read_part_fact(struct site_work *w, struct span keyword, struct span rest) {
	struct site_part *part = w->part;
	struct span word;

	if (is(keyword, "clone-program")) {
		if (one_word(w, keyword, rest, &word))
			part->clone_program = word;
	} else if (is(keyword, "clone-limit")) {
		(void)one_number(w, keyword, rest, INT32_MAX, &part->origin);
	} else if (is(keyword, "clone-cohorts")) {
		(void)one_number(w, keyword, rest, INT32_MAX, &part->cohorts);
	} else if (is(keyword, "clone-backoff")) {
		(void)one_number(w, keyword, rest, INT32_MAX, &part->backoff_s);
	} else if (is(keyword, "lane")) {
		read_lane(w, keyword, rest);
	} else if (is(keyword, "route")) {
		read_route(w, rest);
	} else if (is(keyword, "refuse")) {
		read_refusal(w, keyword, rest);
	} else if (is(keyword, "exclude")) {
		word = take_word(&rest);
		add_mask(w, &part->excluded, word, rest);
	} else if (is(keyword, "own") && w->in_part) {
		if (one_word(w, keyword, rest, &word))
			add_mask(w, &part->routes, word, nothing);
	} else {
		return false;
	}
	return true;
}

/* "STAMP PATH", 16 digits and an absolute path. */
static void add_watch(struct site_work *w, struct span rest) {
	static const char digits[] = "0123456789abcdef";
	struct mask_list *list = &w->watches;
	size_t length = 0;

	while (length < rest.length && strchr(digits, rest.text[length]) != NULL)
		length++;
	if (length != 16 || rest.length < 18 || rest.text[16] != ' ' || rest.text[17] != '/')
		mistake(w, "16 digits and a path must follow watch", rest);
	else if (make_room(w, list))
		list->reasons[list->count++] = rest;
}

static void read_fact(struct site_work *w, struct span keyword, struct span rest) {
	struct span word;

	if (is(keyword, "transport")) {
		begin_part(w, keyword, rest);
	} else if (read_part_fact(w, keyword, rest)) {
		return;
	} else if (w->in_part) {
		mistake(w, "unknown word for a transport", keyword);
	} else if (is(keyword, "mta")) {
		if (!one_word(w, keyword, rest, &word))
			return;
		if (!is(word, w->mta_name))
			mistake(w, "this file belongs to another mta", word);
		w->named = true;
	} else if (is(keyword, "made")) {
		(void)one_word(w, keyword, rest, &word);
	} else if (is(keyword, "relayhost")) {
		if (one_word(w, keyword, rest, &word))
			w->relayhost = word;
	} else if (is(keyword, "watch")) {
		add_watch(w, rest);
	} else if (is(keyword, "only-listed")) {
		if (rest.length > 0)
			mistake(w, "nothing may follow", keyword);
		w->only_listed = true;
	} else if (is(keyword, "probes")) {
		(void)one_number(w, keyword, rest, 10000, &w->probes);
	} else if (is(keyword, "no-probes")) {
		w->no_probes = rest;
	} else if (is(keyword, "by-setup")) {
		if (rest.length > 0)
			mistake(w, "nothing may follow", keyword);
		w->by_setup = true;
	} else if (is(keyword, "list")) {
		if (one_word(w, keyword, rest, &word))
			add_mask(w, &w->listed, word, nothing);
	} else {
		mistake(w, "unknown word", keyword);
	}
}

static void read_line(struct site_work *w, struct span line) {
	struct span keyword;

	for (size_t i = 0; i < line.length; i++)
		if (line.text[i] < ' ' || line.text[i] > '~') {
			mistake(w, "not printable ASCII", line);
			return;
		}
	while (line.length > 0 && line.text[line.length - 1] == ' ')
		line.length--;
	if (w->line == 1) {
		if (!is(line, "postern-site 1"))
			mistake(w, "must be \"postern-site 1\"", line);
		return;
	}
	if (line.length == 0 || line.text[0] == '#')
		return;
	keyword = take_word(&line);
	read_fact(w, keyword, line);
}

/* A text of the block; offsets are 32 bits. */
static uint32_t keep(struct site_work *w, struct span span) {
	char *copy = strndup(span.length ? span.text : "", span.length);
	uint32_t offset;

	if (copy == NULL) {
		w->c->block.failed = true;
		return 0;
	}
	offset = block_text(&w->c->block, copy);
	free(copy);
	return offset;
}

static uint32_t keep_reasons(struct site_work *w, const struct mask_list *list) {
	uint32_t offset = list->count == 0 ? 0 :
	    block_reserve(&w->c->block, list->count * sizeof(uint32_t));

	for (uint32_t i = 0; offset != 0 && i < list->count; i++) {
		uint32_t reason = keep(w, list->reasons[i]);

		((uint32_t *)block_at(&w->c->block, offset))[i] = reason;
	}
	return offset;
}

/* Lanes that are both configured and there. */
static uint32_t attached_lanes(const struct site_part *part, const struct generation_mta *mta) {
	uint32_t attached = 0;

	for (uint32_t i = 0; i < mta->lane_count; i++)
		for (uint32_t j = 0; j < part->lane_count; j++)
			if (part->lanes[j] == mta->lanes[i])
				attached |= UINT32_C(1) << i;
	return attached;
}

static void keep_part(struct site_work *w, struct generation_mta *mta) {
	struct site_part *part = &w->wanted;

	mta->site_known = 1;
	if (part->clone_program.length > 0)
		mta->clone_program = keep(w, part->clone_program);
	mta->site_refusal = keep(w, part->refusal);
	mta->site_excluded_index = mask_index_store(w->c, part->excluded.masks, part->excluded.count);
	mta->site_reasons = keep_reasons(w, &part->excluded);
	mta->site_excluded_count = mta->site_reasons == 0 ? 0 : part->excluded.count;
	mta->site_lanes = attached_lanes(part, mta);
	mta->site_origin = part->origin;
	mta->site_cohorts = part->cohorts;
	mta->site_backoff_s = part->backoff_s;
	mta->site_route_index = mask_index_store(w->c, part->routes.masks, part->routes.count);
	mta->site_routes = keep_reasons(w, &part->routes);
	mta->site_route_count = mta->site_routes == 0 ? 0 : part->routes.count;
	mta->site_route_names = mta->transport != 0 && mta->site_route_count > 0 ?
	    mask_names_store(w->c, part->routes.masks, part->routes.count, MASK_NAME_MAX) : 0;
}

static void keep_all(struct site_work *w, struct generation_mta *mta) {
	keep_part(w, mta);
	mta->site_only_listed = w->only_listed;
	mta->site_by_setup = w->by_setup;
	mta->site_probes = (uint16_t)w->probes;
	mta->relayhost = keep(w, w->relayhost);
	mta->site_listed_index = mask_index_store(w->c, w->listed.masks, w->listed.count);
	mta->site_watches = keep_reasons(w, &w->watches);
	mta->site_watch_count = mta->site_watches == 0 ? 0 : w->watches.count;
}

/* What the file tells is as old as it is. */
static void look_for_changes(struct site_work *w, struct generation_mta *mta) {
	const struct generation *g = compilation_header(w->c);
	char quoted[256];
	const char *path;
	uint64_t stamp;

	if (!w->c->reads_files || w->c->block.failed)
		return;
	mta->site_changed = generation_site_changed(g, mta);
	if (mta->site_changed == 0)
		return;
	path = generation_site_watch(g, mta, mta->site_changed - 1, &stamp);
	report_add(&w->c->report, MESSAGE_NOTE, w->file, 0, w->order, "%s has changed: no "
	    "destination of the mta gets a hint until %s has read it",
	    log_quote(quoted, sizeof(quoted), path, strlen(path)),
	    generation_site_reader(mta));
}

static void note_relayhost(const struct site_work *w, const struct generation_mta *mta) {
	char text[1024];

	if (mta->relayhost != 0 && !w->c->block.failed &&
	    relayhost_fault(block_at(&w->c->block, mta->relayhost), mta, text, sizeof(text)))
		report_add(&w->c->report, MESSAGE_NOTE, w->file, 0, w->order, "%s", text);
}

/* "refuse WORD TEXT": the text is for people. */
static void note_refusal(struct site_work *w) {
	struct span text = w->wanted.refusal;
	char words[256] = "", quoted[sizeof(words) + 64];

	if (text.length == 0)
		return;
	(void)take_word(&text);
	if (text.length == 0)
		text = w->wanted.refusal;
	(void)text_copy(words, sizeof(words), text.text,
	    text.length < sizeof(words) ? text.length : sizeof(words) - 1);
	report_add(&w->c->report, MESSAGE_NOTE, w->file, w->wanted.refusal_line, w->order,
	    "no destination of the %s%s gets a hint, and there are no lanes: %s",
	    *w->transport != '\0' ? "transport " : "mta", w->transport,
	    log_sentence(quoted, sizeof(quoted), words));
}

/* Where lines of ours are in master.cf, those of the probes are to be, too. */
static void note_probes(struct site_work *w, const struct generation_mta *mta) {
	char words[256] = "", quoted[sizeof(words) + 64];

	if (mta->probes == 0 || mta->site_probes != 0 ||
	    (mta->site_lanes == 0 && mta->site_by_setup == 0))
		return;
	(void)text_copy(words, sizeof(words), w->no_probes.text,
	    w->no_probes.length < sizeof(words) ? w->no_probes.length : sizeof(words) - 1);
	report_add(&w->c->report, MESSAGE_NOTE, w->file, 0, w->order, "address verification "
	    "probes have no lane in master.cf: they come on top of windows, and suspended "
	    "destinations are probed%s%s", words[0] == '\0' ? "; run " : ": ",
	    words[0] == '\0' ? generation_site_reader(mta) :
	    log_sentence(quoted, sizeof(quoted), words));
}

static void free_list(struct mask_list *list) {
	free(list->masks);
	free(list->reasons);
}

static void free_lists(struct site_work *w) {
	free_list(&w->wanted.excluded);
	free_list(&w->wanted.routes);
	free_list(&w->other.excluded);
	free_list(&w->other.routes);
	free_list(&w->listed);
	free_list(&w->watches);
}

static void read_lines(struct site_work *w, const char *text, size_t length) {
	const char *end = text + length;

	w->part = *w->transport == '\0' ? &w->wanted : &w->other;
	w->wanted.cohorts = 1000;
	w->wanted.backoff_s = 300;
	/* the block may move: its texts are looked at before it grows */
	while (text < end && w->mistakes < MISTAKES_MAX && !w->c->block.failed) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		struct span line = { text, (size_t)((newline ? newline : end) - text) };

		w->line++;
		read_line(w, line);
		text = newline ? newline + 1 : end;
	}
	w->line = 0;
	if (length == 0)
		mistake(w, "the file is empty", nothing);
	else if (!w->named)
		mistake(w, "the mta line is missing", nothing);
}

/* The name of its mail server stands before the slash. */
static void read_part(struct compilation *c, const char *text, size_t length,
    const char *file, unsigned order, struct generation_mta *row) {
	char mta[2 * GENERATION_DESTINATION_MAX] = "", transport[64];
	const char *full = block_at(&c->block, row->name), *slash = strrchr(full, '/');
	struct site_work w = { .c = c, .file = file, .order = order, .silent = true,
		.mta_name = mta, .transport = transport };

	if (slash == NULL || !text_copy(mta, sizeof(mta), full, (size_t)(slash - full)) ||
	    !text_copy(transport, sizeof(transport), slash + 1, strlen(slash + 1)))
		return;
	read_lines(&w, text, length);
	if (w.mistakes == 0 && !w.found && w.wanted.refusal.length == 0) {
		report_add(&c->report, MESSAGE_NOTE, file, 0, order, "transport %s is unknown: no "
		    "destination of it gets a hint until %s has read it", transport,
		    generation_site_reader(row));
	} else if (w.mistakes == 0 && !c->block.failed) {
		if (w.found)
			note_refusal(&w);
		keep_part(&w, row);
	}
	free_lists(&w);
}

void site_read_text(struct compilation *c, const char *text, size_t length,
    const char *name, unsigned order, struct generation_mta *mta) {
	struct site_work w = { .c = c, .file = name, .order = order, .transport = "",
		.mta_name = mta->name ? block_at(&c->block, mta->name) : "" };

	if (mta->transport != 0) {
		read_part(c, text, length, name, order, mta);
		return;
	}
	read_lines(&w, text, length);
	if (w.mistakes == 0 && !c->block.failed) {
		note_refusal(&w);
		keep_all(&w, mta);
		note_probes(&w, mta);
		look_for_changes(&w, mta);
		note_relayhost(&w, mta);
	} else {
		report_add(&c->report, MESSAGE_NOTE, name, 0, order,
		    "the file has errors: no destination of the mta gets a hint");
	}
	free_lists(&w);
}

void site_read_file(struct compilation *c, const config_setting_t *where,
    struct generation_mta *mta) {
	const char *path = block_at(&c->block, mta->site);
	char name[4096 + 1], quoted[256];
	size_t length;
	char *text;

	/* the block moves while it grows */
	if (!text_copy(name, sizeof(name), path, strlen(path)))
		return;
	text = read_file(name, BYTES_MAX, &length);
	log_quote(quoted, sizeof(quoted), name, strlen(name));
	if (text == NULL) {
		note(c, where, "site file %s cannot be read: %s: no destination of the mta gets a "
		    "hint (posternctl postfix-lanes writes it)", quoted, read_file_error());
	} else if (length > BYTES_MAX) {
		note(c, where, "site file %s is larger than %zu MiB: no destination of the mta "
		    "gets a hint", quoted, BYTES_MAX >> 20);
	} else {
		site_read_text(c, text, length, name, config_setting_source_line(where), mta);
	}
	free(text);
}

void site_begin_transport(struct compilation *c, const config_setting_t *where,
    struct generation_mta *row) {
	bool is_read = row->site_known != 0;

	row->site_known = 0;
	row->site_refusal = 0;
	row->site_excluded_index = row->site_excluded_count = row->site_reasons = 0;
	row->site_route_index = row->site_route_count = row->site_routes = 0;
	row->site_lanes = row->site_origin = row->site_route_names = 0;
	if (is_read && c->reads_files && c->report.messages->errors == 0)
		site_read_file(c, where, row);
}
