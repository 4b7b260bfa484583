/* SPDX-License-Identifier: ISC */
/* Classes while they are compiled: arrays that go into the block at the end. */
#ifndef CONFIG_CLASSES_H
#define CONFIG_CLASSES_H

#include "config/read/compilation.h"
#include "policy/limit/class.h"

struct class_work {
	struct compilation *c;
	struct generation_class *classes;
	const config_setting_t **groups;	/* of each class */
	uint32_t class_count;
	uint32_t good_text;	/* that was checked last, with a class name so long */
	size_t good_name;
	/* One entry a mask: */
	struct generation_rule *rules;
	struct class_rule *masks;
	const config_setting_t **places;
	uint32_t rule_count;
	uint32_t rule_room;
};

/* Builds an index over the masks that are not left out, in the block: its
 * offset, or 0 when there are none. */
uint32_t build_index(struct class_work *w);

/* Writes classes, rules and all indexes into the block, and says which masks
 * and classes can never match. */
void build_indexes(struct class_work *w);

/* gate.c: the command's words, and the address prefixes of the exempt list. */
void compile_gate_command(struct compilation *c);
void compile_gate_exempt(struct class_work *w);

#endif
