/* SPDX-License-Identifier: ISC */
/* The site of the test that runs, for programs with one at a time. */
#ifndef TESTS_OWN_SITE_H
#define TESTS_OWN_SITE_H

#include "base/clock.h"
#include "segment/file/internal.h"
#include "tests/unit/check.h"
#include "tests/unit/site.h"

#define ONE_CLASS "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 10; } );"

static struct site site;

/* Fixtures; a test with a configuration of its own begins with site_open. */
static inline int site_begin(void **state) {
	site_open(&site, 64, ONE_CLASS);
	return 0;
}

static inline int site_end(void **state) {
	site_close(&site);
	return 0;
}

static inline uint32_t open_of(const char *class) {
	return atomic_load(&site_class(&site, class)->open);
}

static inline uint64_t counted(enum counter counter) {
	return atomic_load(&site.segment->header->counters[counter]);
}

static inline struct answer site_ask(const struct question *question, int64_t now_ns) {
	struct answer answer;

	engine_session_open(site.engine, site.generation, question, now_ns, &answer);
	return answer;
}

/* May it open a session?  By a policy connection; the name may be NULL. */
static inline enum verdict site_verdict(const char *client, uint16_t port, const char *name) {
	return site_inbound(&site, client, port, name, NULL);
}

/* So many sessions of one client, by ports from this on. */
static inline void site_admits(unsigned count, const char *client, uint16_t port,
    const char *name) {
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(site_verdict(client, (uint16_t)(port + i), name), VERDICT_ADMIT);
}

static inline void site_save(void) {
	struct diag diag;

	assert_int_equal(segment_save_sessions(site.segment, clock_now_ns(), &diag), 0);
}

/* The segment once more, as another process has it; false: it makes no sense. */
static inline bool site_attach(struct segment **other) {
	struct diag diag;
	int fd = segment_open_file(segment_path(site.segment), geteuid(), &diag);

	return segment_attach(other, fd, segment_path(site.segment), &diag) == 0;
}

#endif
