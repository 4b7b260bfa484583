/* SPDX-License-Identifier: ISC */
/* A Postfix, its lanes and its hints file, in virtual time. */
#ifndef TESTS_HINTS_WORLD_H
#define TESTS_HINTS_WORLD_H

#include "base/clock.h"
#include "engine/destination/windows.h"
#include "engine/hints/hints.h"
#include "segment/hints/hints.h"
#include "segment/hints/lane_uses.h"
#include "tests/unit/check.h"
#include "tests/unit/site.h"

#define S	NS_PER_SECOND
#define LANES	"postern-site 1\nmta out\nclone-limit 20\nlane 1\nlane 2\nlane 3\n" \
	"lane 5\nlane 10\nlane 20\n"

struct hints_world {
	struct site site;
	char file[160], facts[160];
	char path[200];			/* of the hints file */
	struct engine_hints *hints;
	struct hints_reader *reader;
	struct generation *generation;	/* a copy, to be spoiled */
	bool may_reload;		/* of the next publication */
	const char *more;		/* settings of it */
	unsigned reloads;
	int64_t now_ns;
};

extern struct hints_world *world;	/* of the test that runs */

int world_open(void **state);
int world_close(void **state);

/* Publishes a configuration with a Postfix whose site file holds `facts`. */
void publish(const char *facts);
void see(const char *name, uint8_t mta, bool cloned);
enum hint_doubt doubt(const char *name);

/* Time goes by; then a turn of the thread: its result. */
int try_turn(int64_t ns);
void turn(int64_t ns);

const struct hints_answer *look_up(const char *domain);
/* Why postern-lookup would hold it after a turn; NULL: it does not. */
const char *ask(const char *domain, int64_t ns);
/* The lanes that mail for the domain goes by, as "5+2"; "-": as without us; "held". */
const char *lanes(const char *domain);
const char *lanes_after(const char *domain, int64_t ns);

/* Results of deliveries by a lane, or (0) the transport itself, that end so much later: one of
 * 200 ms; ... */
void result(const char *domain, uint16_t width, uint32_t waited_ms, int64_t ns);
void note_use(const char *domain, struct lane_use use);
/* ... as many as the lane is wide, all of which fail. */
void fails(uint16_t width, int64_t ns);

void by_hand(enum manual_verb verb, const char *name);
void resume_with(const char *name, uint32_t window);
void set_window(const char *name, uint32_t window);
/* a.example is seen and has that window, and a second later the lanes. */
void begin_with(uint32_t window, const char *expected);

#endif
