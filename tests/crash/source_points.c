/* SPDX-License-Identifier: ISC */
/*
 * A process dies at each store of what it does with numbers of sources that are warmed up, one after
 * the other: they are released, used, counted, taken back, and another file is made.  After each
 * death all that went is counted, no more went than the number of the day, and the rest of it goes.
 *
 *	source_points
 *
 * Needs a build with failpoints; says so and is skipped otherwise.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "engine/destination/sources.h"
#include "engine/hints/hints.h"
#include "segment/file/internal.h"
#include "segment/hints/hints.h"
#include "tests/unit/site.h"

#define SKIPPED 77

#ifdef POSTERN_FAILPOINTS
#define NUMBER	40
#define SITE \
	"classes = ();\n" \
	"mta = ( { name = \"out\"; kind = \"postfix\"; log = \"\"; } );\n" \
	"hints = { group = \"root\"; };\n" \
	"sources = ( { name = \"ip2\"; transport = \"smtp-ip2\"; warm = { plan = [ 40, 1000 ]; }; } );\n"
#define MOST_POINTS	5000

static struct site site;
static int64_t now_ns;
static _Atomic uint32_t *went;		/* that a dead process does not take along */

static struct engine_hints *open_keeper(void) {
	static const struct hints_calls calls = { .context = NULL };
	struct engine_hints *hints = NULL;
	struct diag diag;

	if (engine_hints_open(&hints, site.engine, (gid_t)-1, &calls, &diag) != 0)
		abort();
	return hints;
}

static void turn(struct engine_hints *hints) {
	struct diag diag;

	now_ns += NS_PER_SECOND;
	if (engine_hints_turn(hints, now_ns, &diag) != 0)
		abort();
}

static bool has_any(const void *context, uint64_t transport) {
	(void)context, (void)transport;
	return true;
}

static void take(struct hints_reader *reader, unsigned questions) {
	struct hints_answer answer;

	while (questions-- > 0) {
		hints_reader_allow_sources(reader, has_any, NULL);
		hints_reader_ask(reader, "out", "u@a.example", 11, false, now_ns, &answer);
		if (answer.kind == HINTS_SOURCE)
			atomic_fetch_add(went, 1);
	}
}

static struct hints_reader *open_reader(void) {
	char path[160];

	snprintf(path, sizeof(path), "%s/state.hints", site.directory);
	return hints_reader_open(path);
}

/* A keeper, a reader and a feed in one. */
static void act(void) {
	struct engine_hints *hints = open_keeper();
	struct hints_reader *reader = open_reader();
	struct source_result result = { .counts = true };

	for (unsigned i = 0; i < 4; i++) {
		turn(hints);
		take(reader, 5);
		turn(hints);
		/* what nobody asked for */
		for (unsigned lines = 0; lines < 6; lines++)
			engine_source_result(site.engine, site.generation, 0, SOURCE_OTHERS, &result,
			    now_ns);
	}
	engine_hints_close(&hints);
	hints_reader_close(&reader);
}

static bool is_counted(const char *when, uint64_t point) {
	struct source_view view;

	engine_source_look(site.engine, site.generation, 0, SOURCE_OTHERS, now_ns, &view);
	if (view.warm.sent >= atomic_load(went) && atomic_load(went) <= NUMBER)
		return true;
	printf("point %llu, %s: %u went, %u are counted\n", (unsigned long long)point, when,
	    atomic_load(went), view.warm.sent);
	return false;
}

/* -1: something is wrong; 0: it lived to its end. */
static int one_point(uint64_t point) {
	struct engine_hints *hints;
	struct hints_reader *reader;
	int status;
	pid_t pid;

	site_open(&site, 64, SITE);
	site.segment->header->journals[JOURNAL_ROOM_KEEPER].fares = JOURNAL_FARES_ILL;
	now_ns = clock_now_ns();
	atomic_store(went, 0);
	pid = fork();
	if (pid == 0) {
		failpoint_arm(point);
		act();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid ||
	    !(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0))
		return -1;
	now_ns += 60 * NS_PER_SECOND;
	hints = open_keeper();
	reader = open_reader();
	turn(hints);
	turn(hints);
	if (!is_counted("after its death", point))
		return -1;
	for (unsigned i = 0; i < 2 * NUMBER; i++) {
		take(reader, 1);
		turn(hints);
	}
	engine_hints_close(&hints);
	hints_reader_close(&reader);
	if (!is_counted("at the end", point))
		return -1;
	/* what was lost with it are numbers that it held, not the day */
	if (atomic_load(went) < NUMBER / 4) {
		printf("point %llu: only %u went\n", (unsigned long long)point, atomic_load(went));
		return -1;
	}
	site_close(&site);
	return WIFSIGNALED(status);
}

int main(void) {
	uint64_t point = 0;
	int result = 1;

	went = mmap(NULL, sizeof(*went), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (went == MAP_FAILED)
		return 2;
	while (result > 0 && ++point < MOST_POINTS)
		result = one_point(point);
	printf("%llu stores: %s\n", (unsigned long long)point - 1, result == 0 && point > 50 ? "ok" :
	    "FAILED");
	return result == 0 && point > 50 ? 0 : 1;
}
#else
int main(void) {
	printf("skipped: not built with --enable-failpoints\n");
	return SKIPPED;
}
#endif
