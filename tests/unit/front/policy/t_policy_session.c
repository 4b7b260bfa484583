/* SPDX-License-Identifier: ISC */
/* What policy requests mean, and the log lines that come of it. */
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"
#include "front/policy/policy_session.h"
#include "tests/unit/caught_log.h"
#include "tests/unit/front/outbound/fake_engine.h"

static struct policy_session session;
static char reply[POLICY_REPLY_MAX + 1];

static int set_up(void **state) {
	fake_reset();
	memset(&session, 0, sizeof(session));
	catch_log(state);
	return 0;
}

/* Asks with the lines of a request, and checks the reply. */
static void ask(const char *attributes, const char *wanted) {
	struct policy_parser parser;
	struct policy_error error;
	char text[2048];
	size_t length;
	int n = snprintf(text, sizeof(text), "request=smtpd_access_policy\n%s\n", attributes);

	policy_parser_reset(&parser);
	assert_int_equal(policy_parser_feed(&parser, text, (size_t)n, &error), n);
	length = policy_session_answer(&session, &fake, &fake_block.generation, 3, text,
	    &parser.request, 1000, reply);
	assert_true(length < sizeof(reply));
	reply[length] = '\0';
	assert_string_equal(reply, wanted);
}

#define DUNNO "action=DUNNO\n\n"
#define USUAL(seconds) "Too many sessions; try again in " seconds " seconds (id=0000000000ww)"
#define DEFERRED "action=DEFER_IF_PERMIT 4.7.0 " USUAL("90") "\n\n"
#define CLIENT(port) "client_address=192.0.2.7\nclient_port=" port "\n" \
	"client_name=mx.customer.example\nserver_address=198.51.100.1\nserver_port=25\n"
#define CONNECT "protocol_state=CONNECT\n"
#define XCLIENT "protocol_state=XCLIENT\n"
#define RCPT "protocol_state=RCPT\nsender=a@b.example\nrecipient=c@d.example\n"

TEST_IN(set_up, NULL, a_connect_asks_with_all_that_is_known) {
	ask(CONNECT CLIENT("46407"), DUNNO);
	assert_int_equal(fake.opens, 1);
	address_is(&fake.asked.client, "192.0.2.7");
	address_is(&fake.asked.server, "198.51.100.1");
	assert_int_equal(fake.asked.client_port, 46407);
	assert_int_equal(fake.asked.server_port, 25);
	assert_string_equal(fake.name, "mx.customer.example");
	assert_int_equal(fake.asked.listener, 3);
	assert_int_equal(fake.asked.owner, OWNER_POLICY);
	assert_false(fake.asked.carried);
	assert_false(fake.asked.connect_only);
	assert_int_equal(logged, 0);
}

TEST_IN(set_up, NULL, a_refusal_has_its_text_and_its_line) {
	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	ask(CONNECT CLIENT("46407"), "action=421 4.7.0 Too many of you (id=0000000000ww)\n\n");
	assert_int_equal(logged, 1);
	assert_string_equal(last_line, "event=refused id=0000000000ww class=plain "
	    "client=192.0.2.7[46407] name=mx.customer.example count=80 limit=80 "
	    "reason=class-inbound rule=/etc/postern/postern.conf:14 mask=* action=421");
	fake.next.newly_decided = false;
	ask(CONNECT CLIENT("46407"), "action=421 4.7.0 Too many of you (id=0000000000ww)\n\n");
	assert_int_equal(logged, 1);
}

TEST_IN(set_up, NULL, a_text_is_filled_in_for_the_client) {
	fake_block.classes[0].text = fake_block.classes[1].name;
	memcpy(fake_block.text + (fake_block.classes[1].name -
	    offsetof(struct fake_generation, text)), "{id}", 5);
	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	ask(CONNECT CLIENT("1"), "action=421 4.7.0 0000000000ww\n\n");
	assert_non_null(strstr(last_line, "event=refused id=0000000000ww "));
}

TEST_IN(set_up, NULL, a_refusal_without_a_class_has_a_text_too) {
	fake_answer(VERDICT_REFUSE, REASON_GATE_SHUT, CLASS_NO_RULE);
	ask(CONNECT CLIENT("1"), "action=421 4.7.0 " USUAL("60") "\n\n");
	assert_non_null(strstr(last_line, "class=- client=192.0.2.7[1] "));
	assert_non_null(strstr(last_line, " rule=- mask=- action=421"));
	fake_answer(VERDICT_REFUSE, REASON_UNUSABLE, 0);
	ask(CONNECT CLIENT("2"),
	    "action=421 4.7.0 Service temporarily unavailable; try again later "
	    "(id=0000000000ww)\n\n");
	assert_non_null(strstr(last_line, "event=fault "));
}

TEST_IN(set_up, NULL, what_observe_mode_admits_is_logged) {
	fake_answer(VERDICT_ADMIT, REASON_CLASS_INBOUND, 0);
	fake.next.observed = true;
	ask(CONNECT CLIENT("1"), DUNNO);
	assert_non_null(strstr(last_line, "event=observed "));
	assert_non_null(strstr(last_line, " action=421"));
	fake_answer(VERDICT_ADMIT, REASON_CLASS_INBOUND, 1);
	ask(CONNECT CLIENT("2"), DUNNO);
	assert_non_null(strstr(last_line, " action=defer"));
}

TEST_IN(set_up, NULL, names_cannot_forge_log_lines) {
	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	ask(CONNECT "client_address=192.0.2.7\nclient_port=1\n"
	    "client_name=x reason=none\x01 %s\n", "action=421 4.7.0 Too many of you (id=0000000000ww)\n\n");
	assert_non_null(strstr(last_line, " name=x\\x20reason=none\\x01\\x20%s count="));
}

TEST_IN(set_up, NULL, the_next_connect_ends_the_session_before) {
	ask(CONNECT CLIENT("1"), DUNNO);
	assert_int_equal(fake.ended, 0);
	ask(CONNECT CLIENT("2"), DUNNO);
	assert_int_equal(fake.ended, 1);
	assert_int_equal(fake.last_ended.client_port, 1);
	/* another policy connection of the same process told it first, or again */
	ask(CONNECT CLIENT("2"), DUNNO);
	assert_int_equal(fake.ended, 1);
	policy_session_over(&session, &fake, &fake_block.generation, 0);
	assert_int_equal(fake.ended, 2);
	assert_int_equal(fake.last_ended.client_port, 2);
	policy_session_over(&session, &fake, &fake_block.generation, 0);
	assert_int_equal(fake.ended, 2);
}

TEST_IN(set_up, NULL, xclient_replaces_and_remembers_the_kernels_tuple) {
	ask(CONNECT CLIENT("1"), DUNNO);
	for (int i = 0; i < 2; i++) {
		ask(i == 0 ? XCLIENT "client_address=203.0.113.5\nclient_port=9\n" :
		    XCLIENT "client_address=203.0.113.6\nclient_port=9\n", DUNNO);
		assert_int_equal(fake.closed, i + 1);
		assert_int_equal(fake.last_closed.client_port, i == 0 ? 1 : 9);
		assert_true(fake.asked.carried);
		assert_int_equal(fake.asked.client_port, 9);
		address_is(&fake.asked.carrier_client, "192.0.2.7");
		assert_int_equal(fake.asked.carrier_port, 1);
	}
	assert_int_equal(fake.ended, 0);
	ask(CONNECT CLIENT("2"), DUNNO);
	assert_int_equal(fake.ended, 1);
	assert_int_equal(fake.last_ended.client_port, 9);
}

TEST_IN(set_up, NULL, xclient_without_a_port_takes_the_carriers) {
	ask(CONNECT CLIENT("46407"), DUNNO);
	ask(XCLIENT "client_address=203.0.113.5\nclient_port=unknown\n", DUNNO);
	assert_int_equal(fake.asked.client_port, 46407);
	assert_true(fake.asked.carried);
	fake_answer(VERDICT_DEFER, REASON_CLASS_INBOUND, 1);
	ask(RCPT "client_address=203.0.113.5\nclient_port=unknown\n",
	    DEFERRED);
	assert_int_equal(fake.asked.client_port, 46407);
}

TEST_IN(set_up, NULL, xclient_with_the_same_tuple_changes_nothing) {
	ask(CONNECT CLIENT("1"), DUNNO);
	ask(XCLIENT CLIENT("1"), DUNNO);
	assert_int_equal(fake.closed, 0);
	assert_false(fake.asked.carried);
}

TEST_IN(set_up, NULL, a_deferred_session_is_asked_about_at_each_recipient) {
	fake_answer(VERDICT_DEFER, REASON_CLASS_INBOUND, 1);
	ask(CONNECT CLIENT("1"), DUNNO);
	assert_int_equal(logged, 0);
	ask(RCPT CLIENT("1"),
	    DEFERRED);
	assert_int_equal(fake.recipients, 1);
	assert_int_equal(logged, 1);
	assert_non_null(strstr(last_line, "event=deferred id=0000000000ww class=soft "));
	assert_non_null(strstr(last_line, " action=defer"));
	fake_answer(VERDICT_ADMIT, REASON_BELOW_LIMIT, 1);
	ask(RCPT CLIENT("1"), DUNNO);
	assert_int_equal(fake.recipients, 2);
	/* the session was counted anew: that one is ended */
	policy_session_over(&session, &fake, &fake_block.generation, 0);
	assert_int_equal(fake.last_ended.serial, fake.serial);
}

TEST_IN(set_up, NULL, bulk_for_suspended_destinations_waits) {
	fake_answer(VERDICT_ADMIT, REASON_KNOWN_SESSION, 0);
	ask("protocol_state=RCPT\nsender=a@b\nrecipient=c@suspended.example\n" CLIENT("1"),
	    "action=DEFER_IF_PERMIT 4.4.1 Delivery to suspended.example is suspended; try "
	    "again later (id=0000000000ww)\n\n");
	assert_non_null(strstr(last_line, "event=back-pressure id=0000000000ww class="));
	assert_non_null(strstr(last_line, " destination=suspended.example for=1s observed=no"));
	ask("protocol_state=RCPT\nsender=a@b\nrecipient=c@other.example\n" CLIENT("1"), DUNNO);
	ask("protocol_state=RCPT\nsender=\nrecipient=c@suspended.example\n" CLIENT("1"), DUNNO);
	ask("protocol_state=RCPT\nsender=a@b\nrecipient=abuse@suspended.example\n" CLIENT("1"),
	    DUNNO);
	ask("protocol_state=RCPT\nsender=a@b\nsasl_username=u\n"
	    "recipient=c@suspended.example\n" CLIENT("1"), DUNNO);
}

TEST_IN(set_up, NULL, recipients_that_are_never_deferred) {
	static const char *const spared[] = {
		"sender=a@b\nrecipient=postmaster\n", "sender=a@b\nrecipient=PostMaster\n",
		"sender=a@b\nrecipient=postmaster@x.example\n",
		"sender=a@b\nrecipient=ABUSE@x.example\n", "sender=\nrecipient=c@d\n",
		"recipient=c@d\n", "sender=a@b\nrecipient=c@d\nsasl_username=u\n",
	};
	static const char *const asked[] = {
		"sender=a@b\nrecipient=postmasters@x\n", "sender=a@b\nrecipient=abuse\n",
		"sender=a@b\nrecipient=abuse.x@y\n", "sender=a@b\nrecipient=xpostmaster@y\n",
		"sender=a@b\n",
	};
	char text[512];

	fake_answer(VERDICT_DEFER, REASON_CLASS_INBOUND, 1);
	for (size_t i = 0; i < sizeof(spared) / sizeof(spared[0]); i++) {
		snprintf(text, sizeof(text), "protocol_state=RCPT\n%s" CLIENT("1"), spared[i]);
		ask(text, DUNNO);
		assert_int_equal(fake.recipients, 0);
	}
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		snprintf(text, sizeof(text), "protocol_state=RCPT\n%s" CLIENT("1"), asked[i]);
		ask(text, DEFERRED);
		assert_int_equal(fake.recipients, i + 1);
	}
}

/* By a connection of its own, and after a reload that let no class defer any
 * more.  Such a connection must not end what another holds. */
TEST_IN(set_up, NULL, recipients_are_asked_about_on_any_connection) {
	fake_block.classes[1].action = CLASS_ACTION_421;
	ask(RCPT CLIENT("1"), DUNNO);
	assert_int_equal(fake.recipients, 1);
	fake_answer(VERDICT_DEFER, REASON_CLASS_INBOUND, 1);
	ask(RCPT CLIENT("2"), DEFERRED);
	policy_session_over(&session, &fake, &fake_block.generation, 0);
	assert_int_equal(fake.ended, 0);
}

/* The connection that opened it led to a role that is gone. */
TEST_IN(set_up, NULL, a_session_of_a_lost_role_is_ended_by_its_next_connection) {
	fake.orphan = (struct session_ref){ .client_port = 4711, .serial = 9, .slot = 7 };
	ask("protocol_state=DATA\n" CLIENT("4711"), DUNNO);
	assert_int_equal(fake.opens, 0);
	fake.orphan = (struct session_ref){ .slot = 0 };
	ask(CONNECT CLIENT("4712"), DUNNO);
	assert_int_equal(fake.ended, 1);
	assert_int_equal(fake.last_ended.serial, 9);
}

TEST_IN(set_up, NULL, all_other_states_are_none_of_ours) {
	static const char *const states[] = { "EHLO", "HELO", "MAIL", "DATA", "END-OF-MESSAGE",
	    "VRFY", "ETRN", "", "NEW-ONE" };
	char text[512];

	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		snprintf(text, sizeof(text), "protocol_state=%s\n" CLIENT("1"), states[i]);
		ask(text, DUNNO);
	}
	assert_int_equal(fake.opens + fake.recipients, 0);
}

TEST_IN(set_up, NULL, bad_addresses_are_counted_and_pass) {
	ask(CONNECT CLIENT("1"), DUNNO);
	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	ask(CONNECT "client_address=nonsense\nclient_port=1\n", DUNNO);
	assert_int_equal(fake.counted[COUNTER_BAD_POLICY_REQUESTS], 1);
	assert_non_null(strstr(last_line, "event=bad-request from=policy attribute=client_address "));
	assert_int_equal(fake.opens, 1);
	/* whoever was here before is gone */
	assert_int_equal(fake.ended, 1);
	ask(CONNECT "client_address=unknown\nclient_port=unknown\n", DUNNO);
	assert_int_equal(fake.counted[COUNTER_BAD_POLICY_REQUESTS], 1);
	/* a server that is not known hinders nothing */
	ask(CONNECT "client_address=192.0.2.7\nclient_port=1\nserver_address=x\n",
	    "action=421 4.7.0 Too many of you (id=0000000000ww)\n\n");
	assert_int_equal(fake.counted[COUNTER_BAD_POLICY_REQUESTS], 2);
}
