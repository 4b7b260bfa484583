/* SPDX-License-Identifier: ISC */
/* Who keeps to what is decided about outbound mail, and what people read of it. */
#include "tests/unit/test.h"
#include "config/generation/enforcement.h"

static struct {
	struct generation g;
	char texts[64];
} block;

#define POSTFIX		0
#define SENDMAIL	1

/* mx1, a Postfix whose settings were read and that has lanes; out, a Sendmail that has a socket
 * map to ask. */
static struct generation *site(void) {
	struct generation *g = &block.g;

	memset(&block, 0, sizeof(block));
	g->bytes = sizeof(block);
	memcpy(block.texts, "\0mx1\0out", 9);
	g->mta_count = 2;
	g->mtas[POSTFIX] = (struct generation_mta){ .kind = MTA_POSTFIX, .site_known = 1,
		.site_lanes = 7, .name = (uint32_t)offsetof(typeof(block), texts) + 1,
		.site_refusal = (uint32_t)offsetof(typeof(block), texts) };
	g->mtas[SENDMAIL] = (struct generation_mta){ .kind = MTA_SENDMAIL,
		.name = (uint32_t)offsetof(typeof(block), texts) + 5,
		.site_refusal = (uint32_t)offsetof(typeof(block), texts) };
	g->listener_count = 1;
	g->listeners[0].kind = LISTENER_SOCKETMAP;
	return g;
}

static void is(struct enforcement found, enum enforcement_kind kind, const char *text) {
	char out[ENFORCEMENT_TEXT_MAX];

	assert_int_equal(found.kind, kind);
	assert_string_equal(enforcement_text(found.kind, found.mta, out), text);
}

TEST(a_mail_server_that_keeps_to_it) {
	is(enforcement_of(site(), 1U << POSTFIX, false), ENFORCEMENT_APPLIED, "");
	is(enforcement_of(site(), 1U << SENDMAIL, true), ENFORCEMENT_APPLIED, "");
	is(enforcement_of(site(), 0, false), ENFORCEMENT_APPLIED, "");
	is(enforcement_of(NULL, 0, false), ENFORCEMENT_APPLIED, "");
}

TEST(observe_mode_comes_first) {
	struct generation *g = site();

	g->outbound_observe = 1;
	g->mtas[POSTFIX].site_lanes = 0;
	is(enforcement_of(g, 1U << POSTFIX, true), ENFORCEMENT_OBSERVED, "observe mode");
}

TEST(what_a_postfix_lacks) {
	struct generation *g = site();

	g->mtas[POSTFIX].site_lanes = 0;
	is(enforcement_of(g, 1U << POSTFIX, true), ENFORCEMENT_NO_LANES, "not enforced: no lanes on mx1");
	g->mtas[POSTFIX].site_changed = 1;
	is(enforcement_of(g, 1U << POSTFIX, true), ENFORCEMENT_NO_HINTS, "not enforced: no hints for mx1");
	g->mtas[POSTFIX].site_changed = g->mtas[POSTFIX].site_known = 0;
	is(enforcement_of(g, 1U << POSTFIX, true), ENFORCEMENT_NO_HINTS, "not enforced: no hints for mx1");
	/* where it is not known by whom its mail goes, one that keeps to it is enough */
	is(enforcement_of(g, 0, true), ENFORCEMENT_APPLIED, "");
	is(enforcement_of(g, 1U << POSTFIX | 1U << SENDMAIL, true), ENFORCEMENT_APPLIED, "");
}

TEST(what_a_sendmail_lacks) {
	struct generation *g = site();

	is(enforcement_of(g, 1U << SENDMAIL, false), ENFORCEMENT_NOT_ASKED,
	    "not enforced: out asks no questions");
	g->listener_count = 0;
	is(enforcement_of(g, 1U << SENDMAIL, true), ENFORCEMENT_NO_MAP,
	    "not enforced: no socket map (listen.socketmap) for out");
}

TEST(what_people_read_of_a_state) {
	assert_string_equal(enforcement_effect(WINDOW_DEAD, true), "suspended");
	assert_string_equal(enforcement_effect(WINDOW_DEAD, false), "would suspend");
	assert_string_equal(enforcement_effect(WINDOW_HELD, true), "held");
	assert_string_equal(enforcement_effect(WINDOW_HELD, false), "would hold");
	assert_string_equal(enforcement_effect(WINDOW_LIMITED, false), "limited");
	assert_string_equal(enforcement_effect(WINDOW_OPEN, true), "open");
}

/* Whoever wrote it. */
TEST(a_kind_that_is_none) {
	char out[ENFORCEMENT_TEXT_MAX];

	assert_string_equal(enforcement_text(200, "x", out), "");
	assert_string_equal(enforcement_text(ENFORCEMENT_NO_LANES, "", out),
	    "not enforced: no lanes on the mail server");
}
