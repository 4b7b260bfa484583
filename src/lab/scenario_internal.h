/* SPDX-License-Identifier: ISC */
/* What the parts of the reader of scenarios share while one is read. */
#ifndef LAB_SCENARIO_INTERNAL_H
#define LAB_SCENARIO_INTERNAL_H

#include "base/map.h"
#include "config/read/compilation.h"
#include "lab/memory.h"
#include "lab/scenario.h"

#define SCENARIO_NAME_MAX	64
#define SCENARIO_TEXT_MAX	150	/* of an element of recipients or completions */

struct scenario_work {
	struct compilation c;		/* its block is not used */
	struct scenario *scenario;
	size_t destination_room, change_room, run_room, names_room;
	size_t names_used;
	struct map by_name;		/* numbers of destinations */
	int64_t refusal_ns;		/* of those without their own */
	bool full;			/* too much of something: said so */
};

bool scenario_value(const config_setting_t *group, const char *path,
    struct setting_value *out);

/* The destination of a name, or SCENARIO_NONE. */
uint32_t scenario_find(const struct scenario_work *w, const char *name, size_t length);
/* A new one, of a name that there is none of. */
uint32_t scenario_add(struct scenario_work *w, const char *name, size_t length,
    uint32_t transport);
/* A part of a name that people give. */
bool scenario_good_name(const char *name, size_t length);

/* scenario_messages.c: messages and completions, once the destinations are known. */
void scenario_read_messages(struct scenario_work *w);
void scenario_read_completions(struct scenario_work *w);

#endif
