/* SPDX-License-Identifier: ISC */
/*
 * Views and coverage.  A view is the list of classes that one kind of question
 * looks at: inbound on a named port, inbound on any other port, outbound.  Equal
 * views share one index.  A mask can never match when in each view of its
 * class an earlier mask takes all it would; a class, when that is so for all its
 * masks.  (Outbound questions look at all classes, hence never find more.)
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/classes/classes.h"

#define VIEWS_MAX (GENERATION_PORTS_MAX + 2)

struct views {
	unsigned count;
	uint32_t index[VIEWS_MAX];
	uint8_t *serves[VIEWS_MAX];	/* by class */
};

struct coverage {
	uint8_t *reached;	/* by rule: some view lets it match */
	uint32_t *taken_by;	/* by rule: else which rule comes first */
};

static bool serves_port(const struct class_work *w, const struct generation_class *class,
    uint16_t port) {
	const uint16_t *ports = block_at(&w->c->block, class->ports);

	if (class->any_port)
		return true;
	for (uint32_t i = 0; i < class->port_count; i++)
		if (ports[i] == port)
			return true;
	return false;
}

/* Which masks of this view can match? */
static void cover(const struct class_work *w, uint32_t index, struct coverage *coverage) {
	for (uint32_t i = 0; i < w->set.count; i++) {
		uint32_t by;

		if (w->set.masks[i].left_out || coverage->reached[i])
			continue;
		by = class_index_cover(block_at(&w->c->block, index), &w->set.masks[i].mask);
		if (by >= i)
			coverage->reached[i] = 1;
		else
			coverage->taken_by[i] = by;
	}
}

/* The index of the view whose classes are `serves` (taken over), new or shared. */
static uint32_t view(struct class_work *w, struct views *views, uint8_t *serves,
    struct coverage *coverage) {
	uint32_t index;

	for (unsigned i = 0; i < views->count; i++)
		if (memcmp(views->serves[i], serves, w->class_count) == 0) {
			free(serves);
			return views->index[i];
		}
	for (uint32_t i = 0; i < w->set.count; i++)
		w->set.masks[i].left_out = !serves[w->set.owners[i]];
	index = mask_index_store(&w->c->block, w->set.masks, w->set.count);
	if (index != 0)
		cover(w, index, coverage);
	views->serves[views->count] = serves;
	views->index[views->count++] = index;
	return index;
}

/* port 0: no port that is named; -1: outbound. */
static uint32_t view_of_port(struct class_work *w, struct views *views, int port,
    struct coverage *coverage) {
	uint8_t *serves = malloc((size_t)w->class_count + 1);

	if (serves == NULL || w->c->block.failed) {
		free(serves);
		w->c->block.failed = true;
		return 0;
	}
	for (uint32_t i = 0; i < w->class_count; i++)
		serves[i] = port < 0 || (port == 0 ? w->classes[i].any_port != 0 :
		    serves_port(w, &w->classes[i], (uint16_t)port));
	return view(w, views, serves, coverage);
}

/* The ports that classes name, sorted; false (and said) when there are too many. */
static bool gather_ports(struct class_work *w, uint16_t *ports, uint32_t *count) {
	static const uint32_t most = GENERATION_PORTS_MAX;

	*count = 0;
	for (uint32_t i = 0; i < w->class_count; i++) {
		const uint16_t *list = block_at(&w->c->block, w->classes[i].ports);

		for (uint32_t k = 0; k < w->classes[i].port_count; k++)
			if (!compilation_add_number(ports, count, most, list[k])) {
				complain(w->c, w->groups[i],
				    "classes name more than %u different ports", most);
				return false;
			}
	}
	return true;
}

static void name_rule(const struct class_work *w, uint32_t rule, char *out, size_t size) {
	const char *text = block_at(&w->c->block, w->rules[rule].text);

	log_quote(out, size, text, strlen(text));
}

static void name_class(const struct class_work *w, uint32_t class, char *out, size_t size) {
	const char *name = w->classes[class].name == 0 ? "?" :
	    block_at(&w->c->block, w->classes[class].name);

	log_quote(out, size, name, strlen(name));
}

static void say_mask(struct class_work *w, uint32_t rule, uint32_t by) {
	char mask[64], other[64], class[96];
	const char *file = block_at(&w->c->block, w->rules[by].file);
	bool same = w->set.owners[rule] == w->set.owners[by];

	name_rule(w, rule, mask, sizeof(mask));
	name_rule(w, by, other, sizeof(other));
	name_class(w, w->set.owners[by], class, sizeof(class));
	note(w->c, w->set.places[rule], "mask \"%s\" can never match: \"%s\" of %s%s at %.100s:%u "
	    "matches first", mask, other, same ? "the same class" : "class ", same ? "" : class,
	    file, w->rules[by].line);
}

static void say_class(struct class_work *w, uint32_t index, uint32_t rule, uint32_t by) {
	char name[96], mask[64], other[64], class[96];
	const char *file = block_at(&w->c->block, w->rules[by].file);

	name_class(w, index, name, sizeof(name));
	name_rule(w, rule, mask, sizeof(mask));
	name_rule(w, by, other, sizeof(other));
	name_class(w, w->set.owners[by], class, sizeof(class));
	complain(w->c, w->groups[index], "class %s can never match: earlier classes match all "
	    "its masks (\"%s\" of class %s at %.100s:%u matches \"%s\")", name, other, class,
	    file, w->rules[by].line, mask);
}

/* Rules stand by class. */
static void say_what_is_taken(struct class_work *w, const struct coverage *coverage) {
	for (uint32_t first = 0, next; first < w->set.count; first = next) {
		uint32_t class = w->set.owners[first];
		bool reached = false;

		for (next = first; next < w->set.count &&
		    w->set.owners[next] == class; next++)
			reached |= coverage->reached[next] != 0;
		if (!reached && (w->classes[class].any_port || w->classes[class].port_count > 0)) {
			say_class(w, class, first, coverage->taken_by[first]);
			continue;
		}
		for (uint32_t i = first; i < next && reached; i++)
			if (!coverage->reached[i])
				say_mask(w, i, coverage->taken_by[i]);
	}
}

static void note_missing_catch_all(struct class_work *w) {
	for (uint32_t i = 0; i < w->set.count; i++)
		if (w->set.masks[i].mask.kind == MASK_ALL)
			return;
	if (w->set.count == 0)
		return;
	note(w->c, config_lookup(&w->c->config, "classes"),
	    "no class matches all hosts (match = \"*\"): hosts that match no class are "
	    "admitted uncounted");
}

static void build_views(struct class_work *w, struct views *views, struct coverage *coverage) {
	uint16_t ports[GENERATION_PORTS_MAX];
	uint32_t index[GENERATION_PORTS_MAX], count, other, outbound;
	struct generation *header;

	if (!gather_ports(w, ports, &count))
		return;
	for (uint32_t i = 0; i < count; i++)
		index[i] = view_of_port(w, views, ports[i], coverage);
	other = view_of_port(w, views, 0, coverage);
	if (!w->c->block.failed)
		say_what_is_taken(w, coverage);
	outbound = view_of_port(w, views, -1, coverage);
	if (w->c->block.failed)
		return;
	header = compilation_header(w->c);
	header->port_count = count;
	memcpy(header->ports, ports, count * sizeof(ports[0]));
	memcpy(header->port_index, index, count * sizeof(index[0]));
	header->other_index = other;
	header->outbound_index = outbound;
}

void build_indexes(struct class_work *w) {
	struct coverage coverage = {
		.reached = calloc((size_t)w->set.count + 1, 1),
		.taken_by = calloc((size_t)w->set.count + 1, sizeof(uint32_t)),
	};
	struct views views = { .count = 0 };
	struct generation *header;
	uint32_t classes, rules;

	if (coverage.reached == NULL || coverage.taken_by == NULL) {
		w->c->block.failed = true;
	} else {
		note_missing_catch_all(w);
		classes = block_store(&w->c->block, w->classes,
		    w->class_count * sizeof(*w->classes));
		rules = block_store(&w->c->block, w->rules, w->set.count * sizeof(*w->rules));
		if (!w->c->block.failed) {
			header = compilation_header(w->c);
			header->classes = classes;
			header->class_count = w->class_count;
			header->rules = rules;
			header->rule_count = w->set.count;
			build_views(w, &views, &coverage);
		}
	}
	for (unsigned i = 0; i < views.count; i++)
		free(views.serves[i]);
	free(coverage.reached);
	free(coverage.taken_by);
}
