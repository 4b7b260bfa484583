/* SPDX-License-Identifier: ISC */
/* Which replies say that there is no such recipient: wordings of real servers, and those that look
 * alike. */
#include "tests/unit/test.h"
#include "policy/reply/reply.h"
#include "policy/reply/reply_unknown.h"

static bool is_unknown_in(const char *reply, enum delivery_phase phase) {
	struct delivery d = { .dsn = { 5, 0, 0 } };
	struct reply out;

	reply_judge_text((struct span){ reply, strlen(reply) }, phase, &out);
	assert_int_equal(out.class, RESULT_PERMANENT);
	return reply_is_unknown_recipient(&d, &out);
}

static void all_are(const char *const *replies, size_t count, bool unknown) {
	for (size_t i = 0; i < count; i++) {
		print_message("%s\n", replies[i]);
		assert_int_equal(is_unknown_in(replies[i], PHASE_RCPT), unknown);
	}
}

#define ALL_ARE(unknown, ...) do { \
		static const char *const replies[] = { __VA_ARGS__ }; \
		all_are(replies, sizeof(replies) / sizeof(replies[0]), unknown); \
	} while (0)

TEST(microsoft_365_denies_access_to_unknown_recipients) {
	ALL_ARE(true,
	    "550 5.4.1 Recipient address rejected: Access denied. For more information see "
	    "https://aka.ms/EXOSmtpErrors [BN8NAM12FT012.eop-nam12.prod.protection.outlook.com]",
	    "550 5.4.1 [x@example.net]: Recipient address rejected: Access denied",
	    "550 5.4.1 All recipient addresses rejected : Access denied");
	ALL_ARE(false,
	    "554 5.7.1 <x@example.net>: Recipient address rejected: Access denied",
	    "550 5.7.504 x@example.com: Recipient address rejected: Access denied",
	    "550 5.4.1 No answer from host",
	    "541 5.4.1 Mail rejected by destination domain (zoho)");
}

TEST(a_code_of_policy_with_words_for_an_unknown_user) {
	ALL_ARE(true,
	    "550 5.7.1 No such user!",
	    "550 5.7.1 550 User Unknown: x@example.org",
	    "550 5.7.1 <x@example.net>: Recipient address rejected: Mailbox does not exist");
	ALL_ARE(false,
	    "550 5.7.1 Requested action not taken: mailbox unavailable",
	    "550 5.7.1 user unknown to our policy",
	    "550 5.7.1 <a@example.com>: Sender address rejected: User unknown",
	    "550 5.7.1 <x@example.com>: Recipient address rejected: User x@example.com temporary "
	    "locked. Please try again later!",
	    "550 5.7.0, Mail Sending denied. This error occurs if the sender account is disabled",
	    "554 5.7.1 <x@example.net>: Relay access denied",
	    "550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain",
	    "550 5.7.1 Blocked by SpamAssassin");
}

TEST(other_address_status) {
	ALL_ARE(true,
	    "550 5.1.0 <x@example.net> No such user here",
	    "550 #5.1.0 Address rejected.",
	    "553 5.1.0 x example.net does not exist E2110");
	ALL_ARE(false,
	    "550 5.1.0 <a@example.com>: Sender address rejected: User unknown in relay recipient table",
	    "550 5.1.0 <a@example.com> sender rejected : invalid sender domain CXSNDR",
	    "550 5.1.0 192.0.2.7 is not allowed to send from <example.com> per it's SPF Record");
}

TEST(mailboxes_that_are_disabled_or_inactive) {
	ALL_ARE(true,
	    "550 5.2.1 The email account that you tried to reach is disabled",
	    "550-5.2.1 The email account that you tried to reach is 550-5.2.1 inactive. For more",
	    "550 5.2.1 <x@example.net>... User is inactive",
	    "550 5.2.1 <x@example.net>... User Unknown",
	    "550 5.2.1 <x@example.net>... Addressee unknown, relay=[192.0.2.7]",
	    "553 5.3.0 <x@example.net>... Mailbox disabled for this recipient",
	    "554 30 Sorry, your message to x@yahoo.com cannot be delivered. This mailbox is disabled "
	    "(554.30)",
	    "554 delivery error: Sorry your message to x@yahoo.com cannot be delivered. This account "
	    "has been disabled or discontinued");
	ALL_ARE(false,
	    "550 5.2.1 Mailbox unavailable. Your IP address 192.0.2.7 is blacklisted using X",
	    "521 5.2.1 This host does not accept mail",
	    "550 5.2.1 The user you are trying to contact is receiving mail at a rate that prevents "
	    "additional messages from being delivered",
	    "550 5.2.1 Mailbox temporarily disabled",
	    "550 Your account is disabled");
}

TEST(no_code_but_words) {
	ALL_ARE(true,
	    "554 delivery error: dd This user doesn't have a yahoo.com account (x@yahoo.com) [-20] - "
	    "mta1254.mail.bf1.yahoo.com",
	    "554 delivery error: dd Not a valid recipient - example.mail.yahoo.com",
	    "550 Requested action not taken: mailbox unavailable",
	    "550 <x@example.net>: Recipient address rejected: User unknown in relay recipient table",
	    "550 'x@example.net' is not a registered gateway user",
	    "550 The recipient may contain a non-existent account, please check the recipient address.",
	    "550 5.5.0 Adresse destinataire invalide. Invalid recipient. LPN007_416");
	ALL_ARE(false,
	    "550-Requested action not taken: mailbox unavailable 550 invalid DNS MX or A/AAAA resource "
	    "record",
	    "550 Too many invalid recipients",
	    "554 This IP has been blocked for the day, for attempting to mail too many invalid "
	    "recipients. IB113",
	    "550-Verification failed for <a@example.com> 550-No such user 550 Sender verify failed",
	    "554 delivery error: dd Sorry, your message to x@yahoo.com cannot be delivered. This "
	    "account is over quota.",
	    "550 spam detected");
}

TEST(a_full_mailbox_is_there) {
	ALL_ARE(false,
	    "552 5.1.1 Quota depasse. Mailbox quota exceeded. OFR_417 [417]",
	    "552 5.1.1 Boite du destinataire pleine.",
	    "552 5.2.2 Mailbox full",
	    "552-5.2.2 The recipient's inbox is out of storage space and inactive. Please");
}

/* The recipient's name is not the server's words. */
TEST(words_in_an_address_do_not_count) {
	ALL_ARE(false, "550 <user.unknown@example.net>: go away");
	ALL_ARE(true, "550 <quota@example.net>: User unknown", "550 5.1.1 <full@example.net>: no");
}

TEST(before_the_recipient_it_is_the_sender) {
	assert_false(is_unknown_in("550 5.1.1 <a@example.com>: user unknown", PHASE_MAIL));
	assert_true(is_unknown_in("552 1 Requested mail action aborted, mailbox not found",
	    PHASE_END_OF_DATA));
}
