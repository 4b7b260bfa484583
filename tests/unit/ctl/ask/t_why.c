/* SPDX-License-Identifier: ISC */
/* What undoes a decision, as a shell takes it. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "ctl/ask/why.h"
#include "policy/limit/decision.h"
#include "view/shell_word.h"

#define FILE_NAME	"/etc/postern/postern.conf"

static const struct ctl plain;

static const char *quoted(const char *word) {
	static char out[256];

	assert_true(shell_word(word, out, sizeof(out)));
	return out;
}

TEST(words_are_quoted_where_a_shell_would_read_them) {
	char small[16];

	assert_string_equal(quoted("d.example"), "d.example");
	assert_string_equal(quoted("user+tag@d.example"), "user+tag@d.example");
	assert_string_equal(quoted("provider:big"), "provider:big");
	assert_string_equal(quoted("[192.0.2.1]:25"), "'[192.0.2.1]:25'");
	assert_string_equal(quoted(""), "''");
	assert_string_equal(quoted("a b"), "'a b'");
	assert_string_equal(quoted("$(reboot).example"), "'$(reboot).example'");
	assert_string_equal(quoted("`x`;&|<>*?~#!"), "'`x`;&|<>*?~#!'");
	assert_string_equal(quoted("it's"), "'it'\\''s'");
	assert_string_equal(quoted("a\\b"), "'a\\b'");
	assert_false(shell_word("much-too-long.example", small, sizeof(small)));
}

static struct why_event event_of(enum decided_kind kind, unsigned reason, const char *name) {
	struct why_event event;

	memset(&event, 0, sizeof(event));
	event.d.kind = (uint8_t)kind;
	event.d.reason = (uint8_t)reason;
	decided_put(&event.d, DECIDED_NAME, name, strlen(name));
	return event;
}

#define WALL_NS	(1000 * NS_PER_SECOND)	/* now */

static const struct why_undo *undo(const struct ctl *ctl, const struct why_event *event,
    const struct why_event *held) {
	static struct why_undo out;

	why_undo(ctl, event, held, WALL_NS, &out);
	return &out;
}

TEST(what_holds_mail_is_resumed) {
	static const struct ctl named = { .config_path = "/tmp/my conf", .config_given = true,
		.socket = "unix:/s" };
	struct why_event suspended = event_of(DECIDED_SUSPENDED, DECIDED_NO_REASON, "d.example");
	struct why_event deferred = event_of(DECIDED_DEFERRED, REASON_SUSPENDED, "mx.d.example");
	struct why_event hand = event_of(DECIDED_BY_HAND, DECIDED_NO_REASON, "Some class");

	assert_string_equal(undo(&plain, &suspended, &suspended)->command,
	    "posternctl resume d.example");
	assert_string_equal(undo(&named, &suspended, &suspended)->command,
	    "posternctl -c '/tmp/my conf' -s unix:/s resume d.example");
	/* of a deferral: what it came of; where that is not known any more, its window */
	assert_string_equal(undo(&plain, &deferred, &suspended)->command,
	    "posternctl resume d.example");
	decided_put(&deferred.d, DECIDED_WINDOW_OF, "[192.0.2.1]:25", 14);
	assert_string_equal(undo(&plain, &deferred, NULL)->command,
	    "posternctl resume '[192.0.2.1]:25'");
	hand.d.by = 2;
	hand.d.flags = DECIDED_IS_CLASS;
	assert_string_equal(undo(&plain, &hand, &hand)->command,
	    "posternctl resume --class 'Some class'");
	suspended = event_of(DECIDED_RECIPIENT_HELD, DECIDED_NO_REASON, "-u@d.example");
	assert_string_equal(undo(&plain, &suspended, &suspended)->command,
	    "posternctl resume -- -u@d.example");
}

/* dash and others do not know $'...': there the ' in it would end the word. */
TEST(no_shell_runs_what_is_in_an_unprintable_name) {
	struct why_event event = event_of(DECIDED_SUSPENDED, DECIDED_NO_REASON,
	    "\xff'$(reboot)'.example");
	const struct why_undo *out = undo(&plain, &event, &event);

	assert_string_equal(out->command, "");
	assert_non_null(strstr(out->none, "no command"));
	event = event_of(DECIDED_BY_HAND, DECIDED_NO_REASON, "a\nb");
	event.d.by = 3;
	assert_string_equal(undo(&plain, &event, NULL)->command, "");
}

TEST(numbers_get_back_what_they_were) {
	struct why_event window = event_of(DECIDED_WINDOW, DECIDED_NO_REASON, "d.example");
	struct why_event hand = event_of(DECIDED_BY_HAND, DECIDED_NO_REASON, "d.example");

	window.d.before = 20;
	window.d.window = 3;
	window.d.ceiling = 3;
	assert_string_equal(undo(&plain, &window, NULL)->command,
	    "posternctl limit d.example --window 20 --ceiling 0");
	window.d.before = 3;
	window.d.ceiling_before = 9;
	assert_string_equal(undo(&plain, &window, NULL)->command,
	    "posternctl limit d.example --ceiling 9");
	window.d.ceiling = 9;
	assert_string_equal(undo(&plain, &window, NULL)->command, "");
	assert_string_equal(undo(&plain, &window, NULL)->none, "nothing was changed");
	hand.d.by = 5;
	hand.d.before = hand.d.window = 5;
	hand.d.ceiling = 7;
	assert_string_equal(undo(&plain, &hand, NULL)->command,
	    "posternctl limit d.example --ceiling 0");
	hand.d.by = 3;
	assert_string_equal(undo(&plain, &hand, NULL)->command, "posternctl suspend d.example");
	hand.d.by = 4;
	assert_string_equal(undo(&plain, &hand, NULL)->command, "");
}

TEST(a_limit_is_a_line_and_a_reload) {
	struct why_event refused = event_of(DECIDED_REFUSED, REASON_CLASS_INBOUND, "h.example");

	decided_put(&refused.d, DECIDED_CLASS, "few", 3);
	decided_put(&refused.d, DECIDED_FILE, FILE_NAME, strlen(FILE_NAME));
	refused.d.line = 12;
	refused.d.limit_line = 14;
	assert_string_equal(undo(&plain, &refused, NULL)->command, "posternctl reload");
	assert_string_equal(undo(&plain, &refused, NULL)->edit,
	    "raise refuse_at of class few in " FILE_NAME ":14");
	refused.d.limit_line = 0;
	refused.d.reason = REASON_CLIENT_RATE;
	assert_string_equal(undo(&plain, &refused, NULL)->edit,
	    "raise or set client.rate of class few in " FILE_NAME ":12");
	refused.d.flags = DECIDED_OBSERVED_ONLY;
	assert_string_equal(undo(&plain, &refused, NULL)->command, "");
	assert_string_equal(undo(&plain, &refused, NULL)->none,
	    "nothing to undo: observe mode");
}

/* Redis was away: then "raise refuse_at" is no help at 3 a.m. */
TEST(a_share_without_a_lease_is_no_limit_to_raise) {
	struct why_event refused = event_of(DECIDED_REFUSED, REASON_CLASS_SHARE, "h.example");

	decided_put(&refused.d, DECIDED_CLASS, "few", 3);
	decided_put(&refused.d, DECIDED_FILE, FILE_NAME, strlen(FILE_NAME));
	refused.d.line = 12;
	refused.d.by = LEASE_ENDED;
	assert_string_equal(undo(&plain, &refused, NULL)->edit, "");
	assert_string_equal(undo(&plain, &refused, NULL)->command, "");
	assert_non_null(strstr(undo(&plain, &refused, NULL)->none, "posternctl cluster"));
	refused.d.by = LEASE_HELD;
	assert_string_equal(undo(&plain, &refused, NULL)->command, "posternctl reload");
	assert_non_null(strstr(undo(&plain, &refused, NULL)->edit, "refuse_at of class few"));
}

/* Not "posternctl resume ''", nor a part of a name. */
TEST(what_is_not_known_any_more_is_in_no_command) {
	struct why_event deferred = event_of(DECIDED_DEFERRED, REASON_SUSPENDED, "mx.d.example");

	for (unsigned reason = REASON_SUSPENDED; reason <= REASON_CLASS_HELD; reason++) {
		deferred.d.reason = (uint8_t)reason;
		assert_string_equal(undo(&plain, &deferred, NULL)->command, "");
		assert_non_null(undo(&plain, &deferred, NULL)->none);
	}
}

/* In observe mode it holds no mail, but it would as soon as that is over. */
TEST(what_was_held_by_hand_in_observe_mode_is_undone) {
	struct why_event hand = event_of(DECIDED_BY_HAND, DECIDED_NO_REASON, "d.example");

	hand.d.by = 2;
	hand.d.flags = DECIDED_OBSERVED_ONLY;
	assert_string_equal(undo(&plain, &hand, &hand)->command, "posternctl resume d.example");
}

/* It was offered without an end, and "suspend" for a recipient. */
TEST(a_resumed_hold_is_held_again_for_the_time_that_is_left) {
	struct why_event hand = event_of(DECIDED_BY_HAND, DECIDED_NO_REASON, "-u@d.example");

	hand.d.by = 3;
	hand.d.flags = DECIDED_WAS_HELD;
	hand.until_wall_ns = WALL_NS + 90 * NS_PER_SECOND - 1;
	assert_string_equal(undo(&plain, &hand, NULL)->command,
	    "posternctl hold --for 90s -- -u@d.example");
	hand.until_wall_ns = INT64_MAX;
	assert_string_equal(undo(&plain, &hand, NULL)->command, "posternctl hold -- -u@d.example");
	hand.until_wall_ns = WALL_NS;
	assert_string_equal(undo(&plain, &hand, NULL)->command, "");
	assert_non_null(undo(&plain, &hand, NULL)->none);
}

/* No kind, reason or verb leaves it without an answer. */
TEST(there_is_always_an_answer) {
	for (unsigned kind = 0; kind < DECIDED_KINDS; kind++)
		for (unsigned reason = 0; reason <= REASON_COUNT; reason++)
			for (unsigned by = 0; by < 8; by++) {
				struct why_event event = event_of((enum decided_kind)kind,
				    reason == REASON_COUNT ? DECIDED_NO_REASON : reason, "n");
				const struct why_undo *out;

				event.d.by = (uint8_t)by;
				out = undo(&plain, &event, NULL);
				assert_true((out->command[0] != '\0') != (out->none != NULL));
			}
}
