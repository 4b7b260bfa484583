/* SPDX-License-Identifier: ISC */
/* What the journal keeps: what was learned some turns of its writer ago is there whatever is lost
 * since, and what has not changed since is there as it was. */
#include <string.h>

#include "segment/destination/states.h"
#include "segment/file/layout.h"
#include "segment/file/segment.h"
#include "tests/machine/mail.h"
#include "tests/machine/role.h"

#define TURNS	3	/* a group may have begun before, and go on for one more */

struct known {
	bool is_known;
	uint32_t ok, failed;
	uint16_t ceiling;
	bool by_hand;
};

struct picture {
	bool is_valid;
	struct known of[DOMAINS_MAX];
};

static struct picture kept, turns[TURNS];	/* the newest first */

static void take_picture(const struct segment *segment, struct picture *picture) {
	struct destination_window window;

	*picture = (struct picture){ .is_valid = true };
	for (unsigned i = 0; i < DOMAINS_MAX; i++)
		if (states_find(segment, mail_domain(i), strlen(mail_domain(i)), &window))
			picture->of[i] = (struct known){ true, window.state.ok, window.state.failed,
				window.state.window.ceiling, window_is_by_hand(&window.state.window) };
}

void kept_feed_begins(void) {
	memset(turns, 0, sizeof(turns));
}

void kept_turns(const struct segment *segment) {
	memmove(&turns[1], &turns[0], sizeof(turns) - sizeof(turns[0]));
	take_picture(segment, &turns[0]);
}

void kept_turned(const struct segment *segment) {
	/* what somebody is in the middle of storing is left to a later group */
	if (segment_header(segment)->journals[JOURNAL_ROOM_FEED].fares != JOURNAL_FARES_WELL ||
	    roles_stand_still())
		kept_feed_begins();
	else if (turns[TURNS - 1].is_valid)
		kept = turns[TURNS - 1];
}

bool kept_has_place(void) {
	return kept.is_valid;
}

void kept_restored(const struct segment *before, const struct segment *segment) {
	struct picture had, now;
	unsigned count = 0;

	if (!kept.is_valid)
		return;
	take_picture(before, &had);
	take_picture(segment, &now);
	for (unsigned i = 0; i < DOMAINS_MAX; i++) {
		const struct known *old = &kept.of[i], *new = &now.of[i];

		if (!old->is_known || old->ok + old->failed == 0)
			continue;
		if (!new->is_known || new->ok < old->ok || new->failed < old->failed)
			world_fail("kept", "%s had %u and %u failed, and is restored with %u and %u",
			    mail_domain(i), old->ok, old->failed, new->ok, new->failed);
		count++;
		if (memcmp(old, &had.of[i], sizeof(*old)) == 0 && new->ceiling != old->ceiling)
			world_fail("kept", "%s had a ceiling of %u, and is restored with %u",
			    mail_domain(i), old->ceiling, new->ceiling);
	}
	world_log("kept: %u destinations", count);
}
