/* SPDX-License-Identifier: ISC */
/* Reads a site's file, line by line, into arrays that point into the text, and puts what it says
 * into a block. */
#include "config/generation/site_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "config/generation/block.h"
#include "config/generation/mask_index.h"

#define NEXT_HOP_MAX	255
#define TRANSPORT_MAX	32
#define WIDTH_MOST	10000
#define SITE_SOURCES_MAX (2 * GENERATION_SOURCES_MAX)

static const struct span nothing;

static void mistake(struct site_file *file, const char *what, struct span where) {
	if (file->mistakes++ < SITE_MISTAKES_MAX && file->mistake != NULL)
		file->mistake(file->context, file->line, what, where);
}

struct span site_word(struct span *rest) {
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

static bool span_is(struct span word, const char *text) {
	return word.length == strlen(text) && memcmp(word.text, text, word.length) == 0;
}

/* --- masks ------------------------------------------------------------------- */

static bool masks_grow(struct site_file *file, struct site_masks *list) {
	bool good = array_grow(&list->masks, &list->mask_room, list->count,
	    sizeof(*list->masks)) && array_grow(&list->texts, &list->text_room, list->count,
	    sizeof(*list->texts));

	file->no_memory |= !good;
	return good;
}

static void add_mask(struct site_file *file, struct site_masks *list, struct span word,
    struct span text) {
	struct class_rule *rule;
	const char *why;

	if (!masks_grow(file, list))
		return;
	rule = &list->masks[list->count];
	memset(rule, 0, sizeof(*rule));
	if (!mask_parse(word.text, word.length, &rule->mask, &why))
		mistake(file, why, word);
	else
		list->texts[list->count++] = text;
}

static void masks_free(struct site_masks *list) {
	free(list->masks);
	free(list->texts);
	*list = (struct site_masks){ .masks = NULL };
}

/* --- lines ------------------------------------------------------------------- */

/* `rest` must have exactly one word. */
static bool one_word(struct site_file *file, struct span keyword, struct span rest,
    struct span *word) {
	*word = site_word(&rest);
	if (word->length > 0 && rest.length == 0)
		return true;
	mistake(file, "one word must follow", keyword);
	return false;
}

/* The same, and it must be a number up to `most`. */
static bool one_number(struct site_file *file, struct span keyword, struct span rest,
    uint32_t most, uint32_t *number) {
	struct span word;

	if (!one_word(file, keyword, rest, &word))
		return false;
	if (text_to_u32(word.text, word.length, most, number))
		return true;
	mistake(file, "not a number, or too large", word);
	return false;
}

static void no_word(struct site_file *file, struct span keyword, struct span rest, bool *set) {
	if (rest.length > 0)
		mistake(file, "nothing may follow", keyword);
	*set = true;
}

static void read_route(struct site_file *file, struct site_part *part, struct span rest) {
	struct span word = site_word(&rest);

	if (rest.length == 0 || rest.length > NEXT_HOP_MAX ||
	    memchr(rest.text, ' ', rest.length) != NULL)
		mistake(file, "a next hop must follow the mask", word);
	else
		add_mask(file, &part->routes, word, rest);
}

static void read_lane(struct site_file *file, struct site_part *part, struct span keyword,
    struct span rest) {
	uint32_t width;

	if (!one_number(file, keyword, rest, WIDTH_MOST, &width))
		return;
	if (part->lane_count == GENERATION_LANES_MAX)
		mistake(file, "more lanes than an mta can have", rest);
	else
		part->lanes[part->lane_count++] = (uint16_t)width;
}

static void read_refusal(struct site_file *file, struct site_part *part, struct span keyword,
    struct span rest) {
	if (rest.length == 0) {
		mistake(file, "a reason must follow", keyword);
	} else if (part->refusal.length == 0) {
		part->refusal = rest;
		part->refusal_line = file->line;
	}
}

/* The rest of the file, or up to the next such line, is told of that transport. */
static void begin_part(struct site_file *file, struct span keyword, struct span rest) {
	struct span word;

	if (!one_word(file, keyword, rest, &word))
		return;
	if (word.length > TRANSPORT_MAX || file->part_count == SITE_PARTS_MAX) {
		mistake(file, "too long, or more transports than an mta can have", word);
		return;
	}
	file->parts[file->part_count++] = (struct site_part){ .transport = word,
		.cohorts = 1000, .backoff_s = 300 };
}

/* False: the word is none that tells of one transport. */
static bool read_part_fact(struct site_file *file, struct span keyword, struct span rest) {
	struct site_part *part = &file->parts[file->part_count - 1];
	struct span word;

	if (span_is(keyword, "clone-program")) {
		if (one_word(file, keyword, rest, &word))
			part->clone_program = word;
	} else if (span_is(keyword, "clone-limit")) {
		(void)one_number(file, keyword, rest, INT32_MAX, &part->limit);
	} else if (span_is(keyword, "clone-cohorts")) {
		(void)one_number(file, keyword, rest, INT32_MAX, &part->cohorts);
	} else if (span_is(keyword, "clone-backoff")) {
		(void)one_number(file, keyword, rest, INT32_MAX, &part->backoff_s);
	} else if (span_is(keyword, "lane")) {
		read_lane(file, part, keyword, rest);
	} else if (span_is(keyword, "route")) {
		read_route(file, part, rest);
	} else if (span_is(keyword, "refuse")) {
		read_refusal(file, part, keyword, rest);
	} else if (span_is(keyword, "exclude")) {
		word = site_word(&rest);
		add_mask(file, &part->excluded, word, rest);
	} else if (span_is(keyword, "own") && file->part_count > 1) {
		if (one_word(file, keyword, rest, &word))
			add_mask(file, &part->routes, word, nothing);
	} else {
		return false;
	}
	return true;
}

/* "STAMP PATH", 16 digits and an absolute path. */
static void add_watch(struct site_file *file, struct span rest) {
	static const char digits[] = "0123456789abcdef";
	struct site_masks *list = &file->watches;
	size_t length = 0;

	while (length < rest.length && strchr(digits, rest.text[length]) != NULL)
		length++;
	if (length != 16 || rest.length < 18 || rest.text[16] != ' ' || rest.text[17] != '/')
		mistake(file, "16 digits and a path must follow watch", rest);
	else if (masks_grow(file, list))
		list->texts[list->count++] = rest;
}

static void add_source(struct site_file *file, struct span keyword, struct span rest) {
	struct site_masks *list = &file->sources;
	struct span word;

	if (!one_word(file, keyword, rest, &word))
		return;
	if (word.length > TRANSPORT_MAX || list->count == SITE_SOURCES_MAX)
		mistake(file, "too long, or too many transports of sources", word);
	else if (masks_grow(file, list))
		list->texts[list->count++] = word;
}

static void read_fact(struct site_file *file, struct span keyword, struct span rest) {
	struct span word;

	if (span_is(keyword, "transport")) {
		begin_part(file, keyword, rest);
	} else if (read_part_fact(file, keyword, rest)) {
		return;
	} else if (file->part_count > 1) {
		mistake(file, "unknown word for a transport", keyword);
	} else if (span_is(keyword, "mta")) {
		if (!one_word(file, keyword, rest, &word))
			return;
		if (!span_is(word, file->mta))
			mistake(file, "this file belongs to another mta", word);
		file->named = true;
	} else if (span_is(keyword, "made")) {
		(void)one_word(file, keyword, rest, &word);
	} else if (span_is(keyword, "relayhost")) {
		if (one_word(file, keyword, rest, &word))
			file->relayhost = word;
	} else if (span_is(keyword, "watch")) {
		add_watch(file, rest);
	} else if (span_is(keyword, "source")) {
		add_source(file, keyword, rest);
	} else if (span_is(keyword, "only-listed")) {
		no_word(file, keyword, rest, &file->only_listed);
	} else if (span_is(keyword, "probes")) {
		(void)one_number(file, keyword, rest, WIDTH_MOST, &file->probes);
	} else if (span_is(keyword, "no-probes")) {
		file->no_probes = rest;
	} else if (span_is(keyword, "by-setup")) {
		no_word(file, keyword, rest, &file->by_setup);
	} else if (span_is(keyword, "list")) {
		if (one_word(file, keyword, rest, &word))
			add_mask(file, &file->listed, word, nothing);
	} else {
		mistake(file, "unknown word", keyword);
	}
}

static void read_line(struct site_file *file, struct span line) {
	struct span keyword;

	for (size_t i = 0; i < line.length; i++)
		if (line.text[i] < ' ' || line.text[i] > '~') {
			mistake(file, "not printable ASCII", line);
			return;
		}
	while (line.length > 0 && line.text[line.length - 1] == ' ')
		line.length--;
	if (file->line == 1) {
		if (!span_is(line, "postern-site 1"))
			mistake(file, "must be \"postern-site 1\"", line);
		return;
	}
	if (line.length == 0 || line.text[0] == '#')
		return;
	keyword = site_word(&line);
	read_fact(file, keyword, line);
}

/* --- all of it --------------------------------------------------------------- */

bool site_file_read(struct site_file *file, const char *text, size_t length) {
	const char *end = text + length;

	file->parts[0] = (struct site_part){ .cohorts = 1000, .backoff_s = 300 };
	file->part_count = 1;
	while (text < end && file->mistakes < SITE_MISTAKES_MAX && !file->no_memory) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		struct span line = { text, (size_t)((newline ? newline : end) - text) };

		file->line++;
		read_line(file, line);
		text = newline ? newline + 1 : end;
	}
	file->line = 0;
	if (length == 0)
		mistake(file, "the file is empty", nothing);
	else if (!file->named)
		mistake(file, "the mta line is missing", nothing);
	return file->mistakes == 0 && !file->no_memory;
}

void site_file_free(struct site_file *file) {
	for (uint32_t i = 0; i < file->part_count; i++) {
		masks_free(&file->parts[i].excluded);
		masks_free(&file->parts[i].routes);
	}
	masks_free(&file->listed);
	masks_free(&file->watches);
	masks_free(&file->sources);
	file->part_count = 0;
}

const struct site_part *site_file_part(const struct site_file *file, const char *transport) {
	for (uint32_t i = 0; i < file->part_count; i++)
		if (span_is(file->parts[i].transport, transport))
			return &file->parts[i];
	return NULL;
}

/* --- into a block ------------------------------------------------------------ */

uint32_t site_text_store(struct block *block, struct span span) {
	char *copy = strndup(span.length ? span.text : "", span.length);
	uint32_t offset;

	if (copy == NULL) {
		block->failed = true;
		return 0;
	}
	offset = block_text(block, copy);
	free(copy);
	return offset;
}

static uint32_t store_texts(struct block *block, const struct site_masks *list) {
	uint32_t offset = list->count == 0 ? 0 :
	    block_reserve(block, list->count * sizeof(uint32_t));

	for (uint32_t i = 0; offset != 0 && i < list->count; i++) {
		uint32_t text = site_text_store(block, list->texts[i]);

		((uint32_t *)block_at(block, offset))[i] = text;
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

void site_part_store(struct block *block, const struct site_file *file,
    const struct site_part *part, struct generation_mta *mta) {
	mta->site_known = 1;
	if (part->clone_program.length > 0)
		mta->clone_program = site_text_store(block, part->clone_program);
	/* what is refused to the mail server is to its transports */
	mta->site_refusal = site_text_store(block, file->parts[0].refusal.length > 0 ?
	    file->parts[0].refusal : part->refusal);
	mta->site_excluded_index = mask_index_store(block, part->excluded.masks,
	    part->excluded.count);
	mta->site_reasons = store_texts(block, &part->excluded);
	mta->site_excluded_count = mta->site_reasons == 0 ? 0 : part->excluded.count;
	mta->site_lanes = attached_lanes(part, mta);
	mta->site_origin = part->limit;
	mta->site_cohorts = part->cohorts;
	mta->site_backoff_s = part->backoff_s;
	mta->site_route_index = mask_index_store(block, part->routes.masks, part->routes.count);
	mta->site_routes = store_texts(block, &part->routes);
	mta->site_route_count = mta->site_routes == 0 ? 0 : part->routes.count;
	mta->site_route_names = mta->transport != 0 && mta->site_route_count > 0 ?
	    mask_names_store(block, part->routes.masks, part->routes.count, MASK_NAME_MAX) : 0;
}

void site_file_store(struct block *block, const struct site_file *file,
    struct generation_mta *mta) {
	site_part_store(block, file, &file->parts[0], mta);
	mta->site_only_listed = file->only_listed;
	mta->site_by_setup = file->by_setup;
	mta->site_probes = (uint16_t)file->probes;
	mta->relayhost = site_text_store(block, file->relayhost);
	mta->site_listed_index = mask_index_store(block, file->listed.masks, file->listed.count);
	mta->site_watches = store_texts(block, &file->watches);
	mta->site_watch_count = mta->site_watches == 0 ? 0 : file->watches.count;
	mta->site_sources = store_texts(block, &file->sources);
	mta->site_source_count = mta->site_sources == 0 ? 0 : file->sources.count;
}
