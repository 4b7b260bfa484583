/* SPDX-License-Identifier: ISC */
/* Classes while they are compiled: arrays that go into the block at the end. */
#ifndef CONFIG_CLASSES_H
#define CONFIG_CLASSES_H

#include "config/classes/mask_set.h"
#include "config/read/compilation.h"
#include "policy/limit/class.h"

struct class_work {
	struct compilation *c;
	struct generation_class *classes;
	const config_setting_t **groups;	/* of each class */
	uint32_t class_count;
	uint32_t good_text;	/* that was checked last, with a class name so long */
	size_t good_name;
	struct mask_set set;
	struct generation_rule *rules;	/* of each mask */
};

/* Writes classes, rules and all indexes into the block, and says which masks
 * and classes can never match. */
void build_indexes(struct class_work *w);

/* gate.c: the command's words, and the address prefixes of the exempt list. */
void compile_gate_command(struct compilation *c);
void compile_gate_exempt(struct compilation *c, const struct mask_set *set);

#endif
