/* SPDX-License-Identifier: ISC */
/* When the text file of the state is written again, and what an old one means. */
#include "tests/unit/test.h"
#include <sys/stat.h>

#include "base/clock.h"
#include "segment/destination/destinations.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/unit/own_site.h"

#define ALL "classes = ( { name = \"all\"; match = [ \"*\" ]; " \
	"hold_at = 100; refuse_at = 100; client = { sessions = 50; }; } );"

static ino_t inode_of(const char *name) {
	char path[200];
	struct stat status;

	snprintf(path, sizeof(path), "%s/%s", site.directory, name);
	return stat(path, &status) == 0 ? status.st_ino : 0;
}

static struct segment_saved saved_sessions;

/* Was it written again? */
static bool renewed(void) {
	ino_t sessions = inode_of("state.sessions");
	struct diag diag;

	assert_int_equal(segment_renew_sessions(site.segment, &saved_sessions,
	    clock_now_ns(), &diag), 0);
	return sessions != inode_of("state.sessions");
}

/* A million sessions at rest cost a tenth of a processor. */
TEST_IN(NULL, site_end, the_text_file_is_written_again_only_after_a_change) {
	const struct delivery_seen seen = { .name = "a.example", .name_length = 9,
		.mta = UINT8_MAX };
	struct session_ref ref;
	char path[200];

	memset(&saved_sessions, 0, sizeof(saved_sessions));
	site_open(&site, 1000, ALL);
	(void)site_inbound(&site, "192.0.2.1", 1, NULL, &ref);
	assert_true(renewed());
	assert_false(renewed());
	assert_false(renewed());
	(void)site_verdict("192.0.2.1", 2, NULL);
	assert_true(renewed());
	assert_false(renewed());
	engine_session_close(site.engine, &ref, clock_now_ns());
	assert_true(renewed());
	atomic_fetch_add(&site_class(&site, "all")->refused, 1);
	assert_true(renewed());
	atomic_store(&site.segment->header->cluster_instance, 17);
	assert_true(renewed());
	assert_true(destinations_note(site.segment, &seen, clock_now_ns()));
	assert_false(renewed());
	snprintf(site.segment->header->mtas[1].name, 8, "mx1");
	assert_true(renewed());
	/* a file that somebody took away, or that another wrote */
	snprintf(path, sizeof(path), "%s/state.sessions", site.directory);
	assert_int_equal(unlink(path), 0);
	assert_true(renewed());
}

/* What nobody counted began when the state was last heard of, not when the file was written;
 * ages and leases are as if it had been written then. */
TEST_IN(NULL, site_end, an_old_text_file_holds_up_to_when_it_was_heard_of) {
	int64_t now_ns = clock_now_ns();
	/* a machine that booted a minute ago has no ten minutes to go back */
	int64_t old_s = now_ns / 2 < 600 * NS_PER_SECOND ? now_ns / 2 / NS_PER_SECOND : 600;
	int64_t then_ns = now_ns - old_s * NS_PER_SECOND;
	int64_t heard_ns = now_ns - 5 * NS_PER_SECOND;
	uint32_t left_ds = (uint32_t)(10000 - 10 * (old_s - 5));
	struct segment_saved saved = { .written = false };
	struct session session;
	struct diag diag;
	char path[200];

	site_open(&site, 1000, ALL);
	(void)site_verdict("192.0.2.1", 1, NULL);
	for (uint32_t i = 0; i < 8 * site.segment->header->slots_per_shard; i++) {
		if (session_load_control(site.segment, i).state == SESSION_FREE)
			continue;
		session_load(site.segment, i, &session);
		session.until_ds = 10000;
		session_store(site.segment, i, &session);
	}
	assert_int_equal(segment_renew_sessions(site.segment, &saved, then_ns, &diag), 0);
	assert_int_equal(segment_renew_sessions(site.segment, &saved, heard_ns, &diag), 0);
	snprintf(path, sizeof(path), "%s/state", site.directory);
	assert_int_equal(unlink(path), 0);
	site_restart(&site, 1000, ALL);
	assert_int_equal(site.report.sessions, 1);
	assert_true(atomic_load(&site.segment->header->roles[
	    segment_role_place(ROLE_KEEPER, 0)].heartbeat_ns) == heard_ns);
	for (uint32_t i = 0; i < 8 * site.segment->header->slots_per_shard; i++) {
		if (session_load_control(site.segment, i).state == SESSION_FREE)
			continue;
		session_load(site.segment, i, &session);
		/* 595 s of 1000 were over */
		assert_in_range(session.until_ds, left_ds - 10, left_ds + 10);
	}
}
