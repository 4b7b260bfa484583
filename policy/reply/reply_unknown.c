/* SPDX-License-Identifier: ISC */
/*
 * Does a result say that there is no such recipient?  By the enhanced status code, of the reply
 * or of the mail server; where that leaves it open, by words that mail servers use.  Which words
 * count depends on how much the code says: "mailbox unavailable" behind 5.7.1 is a refusal, and
 * "access denied" means an unknown recipient behind 5.4.1 only (Microsoft 365).  Words about the
 * sender, spam or policy outweigh them; a full mailbox outweighs 5.1.1, too (Orange).  Pure.
 */
#include "policy/reply/reply_unknown.h"

#include <stddef.h>

#include "policy/reply/reply_phrases.h"

enum {
	UNKNOWN = 1,
	VAGUE = 2,	/* only where the code says nothing */
	CLOSED = 4,	/* the mailbox is there no more: 5.2.1 */
	DENIED = 8,	/* 5.4.1 */
	REJECTED = 16,	/* 5.1.0 */
	ELSE = 32,	/* it is about something else */
	NO_ROOM = 64,	/* a mailbox that is there, and full */
};

static const struct phrase *const phrases[PHRASES_LETTERS] = {
	['a' - 'a'] = PHRASES { { "account closed", UNKNOWN }, { "account disabled", UNKNOWN },
	    { "account has been closed", UNKNOWN }, { "account has been deactivated", UNKNOWN },
	    { "account has been disabled", UNKNOWN }, { "account inactive", UNKNOWN },
	    { "account is closed", UNKNOWN }, { "account is disabled", UNKNOWN },
	    { "account is inactive", UNKNOWN }, { "account not found", UNKNOWN },
	    { "address is unknown", UNKNOWN }, { "address not found", UNKNOWN },
	    { "address rejected", REJECTED }, { "address rejected access denied", DENIED },
	    { "address unknown", UNKNOWN }, { "addressee unknown", UNKNOWN },
	    { "addresses rejected access denied", DENIED }, { "authentic", ELSE }, { NULL, 0 } },
	['b' - 'a'] = PHRASES { { "black list", ELSE }, { "blacklist", ELSE },
	    { "block list", ELSE }, { "blocked", ELSE }, { "blocklist", ELSE }, { NULL, 0 } },
	['d' - 'a'] = PHRASES { { "deactivated", CLOSED }, { "deactivated mailbox", UNKNOWN },
	    { "disabled", CLOSED }, { "discontinued", CLOSED }, { "dkim", ELSE },
	    { "dmarc", ELSE }, { "dns", ELSE }, { "does not exist", UNKNOWN },
	    { "doesn t exist", UNKNOWN }, { NULL, 0 } },
	['e' - 'a'] = PHRASES { { "ehlo", ELSE }, { "exceed", ELSE }, { NULL, 0 } },
	['f' - 'a'] = PHRASES { { "full.", NO_ROOM }, { NULL, 0 } },
	['g' - 'a'] = PHRASES { { "gray list", ELSE }, { "graylist", ELSE },
	    { "grey list", ELSE }, { "greylist", ELSE }, { NULL, 0 } },
	['h' - 'a'] = PHRASES { { "helo.", ELSE }, { NULL, 0 } },
	['i' - 'a'] = PHRASES { { "inactive", CLOSED }, { "inactive account", UNKNOWN },
	    { "inactive mailbox", UNKNOWN }, { "inactive recipient", UNKNOWN },
	    { "inactive user", UNKNOWN }, { "invalid mailbox", UNKNOWN },
	    { "invalid recipient", UNKNOWN }, { "invalid user", UNKNOWN }, { NULL, 0 } },
	['m' - 'a'] = PHRASES { { "mailbox disabled", UNKNOWN },
	    { "mailbox has been deactivated", UNKNOWN }, { "mailbox has been disabled", UNKNOWN },
	    { "mailbox inactive", UNKNOWN }, { "mailbox is disabled", UNKNOWN },
	    { "mailbox is inactive", UNKNOWN }, { "mailbox not found", UNKNOWN },
	    { "mailbox unavailable", VAGUE }, { "mailbox unknown", UNKNOWN }, { NULL, 0 } },
	['n' - 'a'] = PHRASES { { "no account by that name", UNKNOWN },
	    { "no mailbox by that name", UNKNOWN }, { "no mailbox found", UNKNOWN },
	    { "no mailbox here", UNKNOWN }, { "no such account", UNKNOWN },
	    { "no such address", UNKNOWN }, { "no such mailbox", UNKNOWN },
	    { "no such person", UNKNOWN }, { "no such recipient", UNKNOWN },
	    { "no such user", UNKNOWN }, { "non existent account", UNKNOWN },
	    { "non existent user", UNKNOWN },
	    { "nonexistent user", UNKNOWN }, { "not a known user", UNKNOWN },
	    { "not a registered", VAGUE }, { "not a valid mailbox", UNKNOWN },
	    { "not a valid recipient", UNKNOWN }, { "not a valid user", UNKNOWN },
	    { "not listed in domino", UNKNOWN }, { NULL, 0 } },
	['p' - 'a'] = PHRASES { { "pleine.", NO_ROOM }, { "polic", ELSE }, { NULL, 0 } },
	['q' - 'a'] = PHRASES { { "quota", NO_ROOM }, { NULL, 0 } },
	['r' - 'a'] = PHRASES { { "rbl.", ELSE },
	    { "recipient address rejected undeliverable", UNKNOWN },
	    { "recipient cannot be verified", UNKNOWN }, { "recipient not found", UNKNOWN },
	    { "recipient unknown", UNKNOWN }, { "relay access", ELSE }, { "relaying", ELSE },
	    { "reputation", ELSE }, { "return path", ELSE }, { NULL, 0 } },
	['s' - 'a'] = PHRASES { { "sender", ELSE }, { "spam", ELSE }, { "spf.", ELSE },
	    { "storage", NO_ROOM }, { "stuffed", NO_ROOM }, { NULL, 0 } },
	['t' - 'a'] = PHRASES { { "temporar", ELSE }, { "to relay", ELSE },
	    { "too large", ELSE }, { "too many", ELSE }, { NULL, 0 } },
	['u' - 'a'] = PHRASES { { "unknown account", UNKNOWN }, { "unknown address", UNKNOWN },
	    { "unknown e mail address", UNKNOWN }, { "unknown email address", UNKNOWN },
	    { "unknown local part", UNKNOWN }, { "unknown mailbox", UNKNOWN },
	    { "unknown or illegal", UNKNOWN }, { "unknown recipient", UNKNOWN },
	    { "unknown user", UNKNOWN }, { "unroutable address", UNKNOWN },
	    { "unrouteable address", UNKNOWN }, { "unsolicited", ELSE },
	    { "user does not have a.", UNKNOWN }, { "user doesn t have a.", UNKNOWN },
	    { "user is inactive", UNKNOWN }, { "user is unknown", UNKNOWN },
	    { "user not exist", UNKNOWN }, { "user not found", UNKNOWN },
	    { "user not known", UNKNOWN }, { "user unknown", UNKNOWN }, { NULL, 0 } },
	['v' - 'a'] = PHRASES { { "virus", ELSE }, { NULL, 0 } },
	['y' - 'a'] = PHRASES { { "your account", ELSE }, { NULL, 0 } },
};

static bool is_unknown_code(const uint16_t code[3]) {
	if (code[0] != 5)
		return false;
	if (code[1] == 1)	/* addressing: mailbox, system, syntax, ambiguous, moved, null MX */
		return code[2] == 1 || code[2] == 2 || code[2] == 3 || code[2] == 6 ||
		    code[2] == 10;
	return code[1] == 4 && code[2] == 4;	/* no such domain */
}

/* The kinds of words that decide behind this code; 0: it says itself that it is something else. */
static unsigned kinds_behind(const uint16_t code[3]) {
	static const struct {
		uint16_t subject, detail;
		unsigned kinds;
	} open[] = {
		{ 1, 0, UNKNOWN | VAGUE | REJECTED },
		{ 2, 1, UNKNOWN | CLOSED },
		{ 4, 1, UNKNOWN | DENIED },
		{ 7, 0, UNKNOWN },
		{ 7, 1, UNKNOWN },
	};

	if (code[0] != 5)
		return UNKNOWN | VAGUE;
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		if (code[1] == open[i].subject && code[2] == open[i].detail)
			return open[i].kinds;
	return code[2] == 0 ? UNKNOWN | VAGUE : 0;	/* "other or undefined" */
}

bool reply_is_unknown_recipient(const struct delivery *delivery, const struct reply *reply) {
	const uint16_t *code = reply->enhanced[0] != 0 ? reply->enhanced : delivery->dsn;
	unsigned kinds = kinds_behind(code), found;

	/* before RCPT it is the sender, or the session, that is not wanted */
	if (reply->class != RESULT_PERMANENT ||
	    (reply->phase >= PHASE_CONNECT && reply->phase <= PHASE_MAIL))
		return false;
	if (kinds == 0 && !is_unknown_code(code))
		return false;
	found = phrases_kinds(reply->words, phrases);
	if ((found & NO_ROOM) != 0)
		return false;
	return is_unknown_code(code) || ((found & kinds) != 0 && (found & ELSE) == 0);
}
