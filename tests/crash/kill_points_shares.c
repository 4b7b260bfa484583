/* SPDX-License-Identifier: ISC */
/* A node's share of a limit of many, leased from a server that stands beside the process
 * that dies: what it has written down is never less than what the node may use. */
#include "tests/crash/kill_points.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "engine/cluster/shares.h"
#include "segment/file/internal.h"
#include "tests/unit/site.h"

#ifdef POSTERN_FAILPOINTS
#define BASE_TO_LEASE	17	/* of 20, 1 fixed for each of 3 */
#define EXTRA_TO_LEASE	7	/* of 10 */

/* What the server has written down, in one word: it does not die with us. */
static _Atomic uint64_t *server;

static void write_down(struct share_pools pools) {
	FAILPOINT();
	atomic_store(server, (uint64_t)pools.base << 32 | pools.extra);
	FAILPOINT();
}

static struct share_pools written(void) {
	uint64_t word = atomic_load(server);

	return (struct share_pools){ (uint32_t)(word >> 32), (uint32_t)word };
}

void shares_begin(void) {
	server = mmap(NULL, sizeof(*server), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (server == MAP_FAILED)
		abort();
	atomic_store(server, 0);
}

static uint32_t more(uint64_t *random, uint32_t from, uint32_t most) {
	return from >= most ? from : from + draw(random) % (most - from + 1);
}

/* One turn of the role: lowered, perhaps told, perhaps granted more, perhaps heard of. */
void shares_step(uint64_t *random) {
	struct share_pools to = { draw(random) % 20, draw(random) % 10 }, held, granted;
	const struct share_pools most = { UINT32_MAX, UINT32_MAX };
	int64_t now_ns = clock_now_ns();

	if (!shares_lower(site.engine, site.generation, SHARED_CLASS, to, now_ns, &held))
		return;
	if (draw(random) % 4 == 0)
		return;		/* the call is lost */
	granted = (struct share_pools){ more(random, held.base, BASE_TO_LEASE),
		more(random, held.extra, EXTRA_TO_LEASE) };
	write_down(granted);
	if (draw(random) % 4 != 0)	/* else its answer is */
		(void)shares_grant(site.engine, site.generation, SHARED_CLASS, granted, most,
		    now_ns + (int64_t)(draw(random) % 64) * NS_PER_MS, now_ns);
}

bool shares_are_covered(void) {
	const struct class_record *record = site_class(&site, "s");
	uint32_t base = atomic_load(&record->share[0]), extra = atomic_load(&record->share[1]);
	struct share_pools known = written();

	if (base <= known.base && extra <= known.extra)
		return true;
	fprintf(stderr, "the node may use %u and %u, the server knows of %u and %u\n", base,
	    extra, known.base, known.extra);
	return false;
}
#endif
