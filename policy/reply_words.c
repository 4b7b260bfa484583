/* SPDX-License-Identifier: ISC */
/*
 * Lists of phrases, looked up at each word's start in one pass.  A blank in a phrase
 * stands for whatever separates words there, and for the code that a reply of several
 * lines has at each ("unusual rate of 421-4.7.0 unsolicited mail").  A phrase matches
 * what begins with it ("throttl": throttled, throttling), unless a "." ends it: then
 * the word must end there, too.
 */
#include "policy/reply_words.h"

#include <stddef.h>
#include <string.h>

struct phrase {
	const char *text;
	unsigned kind;
};

enum {
	LESS = 1,	/* of a rate, a volume, connections at once, a server that is busy */
	NOT_LESS = 2,	/* looks like it, but is about one message, recipient or sender */
	/* 452 4.5.3 "too many recipients" is the limit of one message, and the next try
	 * has fewer; unless it is one of a time */
	OF_MESSAGE = 4,
	OF_TIME = 8,
	GREY = 16,	/* the same message may come again soon */
	FOUND = 1,
};

/* Each sorted, and with two letters at least at its start. */
static const struct phrase slower[] = {
	{ "at once.", LESS }, { "back off", LESS }, { "backoff", LESS },
	{ "backpressure", LESS }, { "busy.", LESS }, { "concurren", LESS }, { "congest", LESS },
	{ "connection count", LESS }, { "connection limit", LESS },
	{ "connections exceed", LESS }, { "connections limit", LESS },
	{ "connections per", LESS }, { "daily limit", LESS }, { "demasiad", LESS },
	{ "exceso de", LESS }, { "excessive", LESS }, { "excesso de", LESS }, { "flood", LESS },
	{ "frequency", LESS }, { "gray list", NOT_LESS | GREY }, { "graylist", NOT_LESS | GREY },
	{ "grey list", NOT_LESS | GREY }, { "greylist", NOT_LESS | GREY },
	{ "heavily loaded", LESS }, { "heavy load", LESS }, { "high load", LESS },
	{ "hourly limit", LESS }, { "limit connection", LESS }, { "limit for messages", LESS },
	{ "limit for the number", LESS }, { "limit of connection", LESS },
	{ "limit of messages", LESS }, { "limit on connection", LESS },
	{ "limit on messages", LESS }, { "limit on the number of connection", LESS },
	{ "limit on the number of messages", LESS }, { "limit polacz", LESS },
	{ "limite de conex", LESS }, { "limite de envio", LESS }, { "limite de mensa", LESS },
	{ "limite di conn", LESS }, { "limits for how many", LESS }, { "load average", LESS },
	{ "load is", LESS }, { "load limit", LESS }, { "load too", LESS },
	{ "mail limit", LESS }, { "mailbox busy", NOT_LESS }, { "mailbox is busy", NOT_LESS },
	{ "mailbox is receiving", NOT_LESS }, { "max connection", LESS },
	{ "max number of connection", LESS }, { "maximum concurrent", LESS },
	{ "maximum connection", LESS }, { "maximum number of connection", LESS },
	{ "maximum number of messages", LESS }, { "maximum number of sessions", LESS },
	{ "maximum number of smtp", LESS }, { "maximum session", LESS },
	{ "message limit", LESS }, { "message quota", LESS }, { "messages limit", LESS },
	{ "messages per", LESS }, { "muitas", LESS }, { "muitos", LESS },
	{ "number of connection", LESS }, { "number of messages", LESS }, { "overload", LESS },
	{ "per day.", LESS }, { "per hour.", LESS }, { "per minute.", LESS },
	{ "per second.", LESS }, { "przekroczono limit", LESS }, { "rate.", LESS },
	{ "ratecontrol", LESS }, { "ratelimit", LESS }, { "rates.", LESS },
	{ "receiving e mail at a rate", NOT_LESS }, { "receiving e mail too", NOT_LESS },
	{ "receiving email at a rate", NOT_LESS }, { "receiving email too", NOT_LESS },
	{ "receiving mail at a rate", NOT_LESS }, { "receiving mail too", NOT_LESS },
	{ "receiving messages at a rate", NOT_LESS }, { "receiving messages too", NOT_LESS },
	{ "recipient exceeded", NOT_LESS }, { "recipient has exceeded", NOT_LESS },
	{ "recipient is receiving", NOT_LESS }, { "reduce the", LESS }, { "reduce your", LESS },
	{ "resources restricted", LESS }, { "send limit", LESS }, { "sending limit", LESS },
	{ "sending quota", LESS }, { "session limit", LESS }, { "sessions exceed", LESS },
	{ "sessions limit", LESS }, { "simultaneous", LESS }, { "slow down", LESS },
	{ "slowdown", LESS }, { "slower", LESS }, { "slowly", LESS }, { "system load", LESS },
	{ "te veel", LESS }, { "this hour", LESS }, { "throttl", LESS }, { "too fast", LESS },
	{ "too frequent", LESS }, { "too many", LESS }, { "too many attachment", NOT_LESS },
	{ "too many bad", NOT_LESS }, { "too many dns", NOT_LESS },
	{ "too many error", NOT_LESS }, { "too many header", NOT_LESS },
	{ "too many hop", NOT_LESS }, { "too many lookup", NOT_LESS },
	{ "too many mx", NOT_LESS }, { "too many rcpt", OF_MESSAGE },
	{ "too many received", NOT_LESS }, { "too many recipient", OF_MESSAGE },
	{ "too many recipients from", OF_TIME }, { "too many recipients in a short", OF_TIME },
	{ "too many recipients in an hour", OF_TIME },
	{ "too many recipients in last", OF_TIME }, { "too many recipients in the", OF_TIME },
	{ "too many recipients in the message", NOT_LESS },
	{ "too many recipients in the transaction", NOT_LESS },
	{ "too many recipients per", OF_TIME }, { "too many recipients received", OF_TIME },
	{ "too many recipients recently", OF_TIME }, { "too many recipients sent", OF_TIME },
	{ "too many recipients this", OF_TIME }, { "too many redirect", NOT_LESS },
	{ "too many syntax", NOT_LESS }, { "too many unrecogni", NOT_LESS },
	{ "too many void", NOT_LESS }, { "too much", LESS }, { "too much data", NOT_LESS },
	{ "too often", LESS }, { "too quick", LESS }, { "trop de", LESS }, { "troppe", LESS },
	{ "troppi", LESS }, { "ts01.", LESS }, { "ts02.", LESS }, { "ts03.", LESS },
	{ "tss0", LESS }, { "unusual amount", LESS }, { "user has exceeded", NOT_LESS },
	{ "user is receiving", NOT_LESS }, { "volume.", LESS }, { "volumes.", LESS },
	{ "zbyt duzo", LESS }, { "zbyt wiele", LESS }, { "zu viele", LESS }, { NULL, 0 }
};

static const struct phrase refusal[] = {
	{ "access denied", FOUND }, { "account disabled", FOUND }, { "bad address", FOUND },
	{ "bad destination", FOUND }, { "block", FOUND }, { "cannot be delivered", FOUND },
	{ "cannot receive", FOUND }, { "could not be delivered", FOUND },
	{ "could not be found", FOUND }, { "could not find", FOUND },
	{ "couldn t be delivered", FOUND }, { "couldn t be found", FOUND },
	{ "couldn t find", FOUND }, { "denied", FOUND }, { "disabled", FOUND },
	{ "does not accept", FOUND }, { "does not exist", FOUND }, { "does not like", FOUND },
	{ "doesn t exist", FOUND }, { "exceed", FOUND }, { "expired", FOUND }, { "fail", FOUND },
	{ "full.", FOUND }, { "forbidden", FOUND }, { "inactive", FOUND }, { "invalid", FOUND },
	{ "malformed", FOUND }, { "no account", FOUND }, { "no longer", FOUND },
	{ "no mailbox", FOUND }, { "no such", FOUND }, { "no user", FOUND },
	{ "not accept", FOUND }, { "not allowed", FOUND }, { "not authorized", FOUND },
	{ "not deliver", FOUND }, { "not exist", FOUND }, { "not found", FOUND },
	{ "not known", FOUND }, { "not listed", FOUND }, { "not permitted", FOUND },
	{ "over quota", FOUND }, { "prohibited", FOUND }, { "refus", FOUND },
	{ "reject", FOUND }, { "spam", FOUND }, { "too big", FOUND }, { "too large", FOUND },
	{ "too many hop", FOUND }, { "unable to deliver", FOUND },
	{ "unable to receive", FOUND }, { "undeliver", FOUND }, { "unknown", FOUND },
	{ "unroutable", FOUND }, { "unrouteable", FOUND }, { "virus", FOUND },
	{ "was not delivered", FOUND }, { "wasn t delivered", FOUND }, { NULL, 0 }
};

static const struct phrase later[] = {
	{ "come back", FOUND }, { "defer", FOUND }, { "delayed", FOUND }, { "later", FOUND },
	{ "not yet", FOUND }, { "temporar", FOUND }, { "try again", FOUND },
	{ "will retry", FOUND }, { "will be retried", FOUND }, { NULL, 0 }
};

/* local(8), virtual(8), pipe(8), qmgr(8), trivial-rewrite(8), deliver.c. */
static const struct phrase own_fault[] = {
	{ "address resolver failure", FOUND }, { "alias database", FOUND },
	{ "bad command", FOUND }, { "can t create", FOUND }, { "cannot access mailbox", FOUND },
	{ "cannot create", FOUND }, { "cannot exec", FOUND }, { "cannot find alias", FOUND },
	{ "cannot open", FOUND }, { "cannot update mailbox", FOUND },
	{ "client tls configuration", FOUND }, { "command died with", FOUND },
	{ "command output", FOUND }, { "command time limit exceeded", FOUND },
	{ "configuration error", FOUND }, { "content filter", FOUND }, { "corrupt", FOUND },
	{ "could not create", FOUND }, { "delivery transport", FOUND },
	{ "disk quota exceeded", FOUND }, { "error writing", FOUND }, { "exited with", FOUND },
	{ "host lookup did not complete", FOUND }, { "input output error", FOUND },
	{ "internal error", FOUND }, { "local configuration", FOUND },
	{ "local data error", FOUND }, { "local mailer", FOUND }, { "lookup error", FOUND },
	{ "lookup failure", FOUND }, { "lookup table", FOUND },
	{ "mail forwarding loop", FOUND }, { "mail system configuration", FOUND },
	{ "mail transport", FOUND }, { "mailbox lock", FOUND }, { "maildir", FOUND },
	{ "no space left", FOUND }, { "on i o error", FOUND },
	{ "operating system error", FOUND }, { "out of memory", FOUND },
	{ "permission denied", FOUND }, { "queue file", FOUND }, { "temporary failure", FOUND },
	{ "transport unavailable", FOUND }, { "unable to create lock", FOUND },
	{ "unable to lock", FOUND }, { "unable to open", FOUND },
	{ "unknown mail transport", FOUND }, { "unknown mailer error", FOUND },
	{ "unreadable", FOUND }, { "unsupported", FOUND }, { "user lookup", FOUND },
	{ "user unknown in virtual", FOUND }, { NULL, 0 }
};

static unsigned char lower(char c)
{
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || (unsigned char)c >= 0x80;
}

/* Over "421-4.7.0 ", if it is that. */
static const char *pass_code(const char *at, const char *end)
{
	const char *start = at;

	while (at < end && is_digit(*at))
		at++;
	if (at - start != 3 || at == end || (*at != '-' && *at != ' '))
		return start;
	for (start = ++at; at < end && (is_digit(*at) || *at == '.'); at++)
		;
	while (at < end && *at == ' ')
		at++;
	return at;
}

/* Over what separates two words; NULL: nothing does. */
static const char *pass_gap(const char *at, const char *end)
{
	const char *start = at;

	while (at < end && !is_alnum(*at))
		at++;
	return at == start ? NULL : pass_code(at, end);
}

static bool matches(const char *at, const char *end, const char *phrase)
{
	for (; *phrase != '\0'; phrase++) {
		if (*phrase == '.' && phrase[1] == '\0')
			return at == end || !is_alnum(*at);
		if (*phrase == ' ') {
			at = pass_gap(at, end);
			if (at == NULL)
				return false;
		} else if (at == end || lower(*at++) != (unsigned char)*phrase) {
			return false;
		}
	}
	return true;
}

static bool has_byte(struct span words, char byte)
{
	return words.length > 0 && memchr(words.text, byte, words.length) != NULL;
}

/* Over addresses, "<host.example[192.0.2.7]>:" and URLs: others chose the words in them. */
static const char *pass_names(const char *at, const char *end)
{
	const char *token = at;
	bool is_name = false, bracketed = false;

	for (; at < end && *at != ' '; at++) {
		bracketed = bracketed || *at == '<';
		is_name = is_name || *at == '@' || (bracketed && (*at == '.' || *at == '[')) ||
		    (*at == ':' && end - at > 2 && at[1] == '/' && at[2] == '/');
	}
	return is_name ? at : token;
}

/* The kinds of all phrases in there that stand at the start of a word. */
static unsigned kinds_in(struct span words, const struct phrase *phrases)
{
	const char *end = words.text + words.length;
	const struct phrase *begin['z' - 'a' + 2];	/* those of each letter */
	unsigned kinds = 0, letter = 0;
	bool has_names = has_byte(words, '@') || has_byte(words, '<') || has_byte(words, '/');

	for (; letter < sizeof(begin) / sizeof(begin[0]); letter++) {
		while (phrases->text != NULL && (unsigned char)*phrases->text < 'a' + letter)
			phrases++;
		begin[letter] = phrases;
	}
	for (const char *at = words.text; at < end; at += at < end) {
		unsigned char second;

		if (has_names && (at == words.text || at[-1] == ' '))
			at = pass_names(at, end);
		letter = at < end ? lower(*at) : 0;
		if (letter >= 'a' && letter <= 'z' && at + 1 < end) {
			second = lower(at[1]);
			letter -= 'a';
			for (const struct phrase *phrase = begin[letter]; phrase < begin[letter + 1];
			    phrase++)
				if ((unsigned char)phrase->text[1] == second &&
				    matches(at + 2, end, phrase->text + 2))
					kinds |= phrase->kind;
		}
		while (at < end && is_alnum(*at))
			at++;
	}
	return kinds;
}

bool words_ask_for_less(struct span words)
{
	unsigned kinds = kinds_in(words, slower);

	return (kinds & LESS) != 0 && (kinds & NOT_LESS) == 0 &&
	    ((kinds & OF_MESSAGE) == 0 || (kinds & OF_TIME) != 0);
}

bool words_tell_greylisting(struct span words)
{
	return (kinds_in(words, slower) & GREY) != 0;
}

bool words_refuse(struct span words)
{
	return kinds_in(words, refusal) != 0;
}

bool words_put_off(struct span words)
{
	return kinds_in(words, later) != 0;
}

bool words_tell_own_fault(struct span words)
{
	return kinds_in(words, own_fault) != 0;
}

const char *words_find_exactly(struct span words, const char *text)
{
	return words.length == 0 ? NULL : memmem(words.text, words.length, text, strlen(text));
}

bool words_begin(struct span words, const char *lower_text)
{
	size_t length = strlen(lower_text);

	if (words.length < length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (lower(words.text[i]) != (unsigned char)lower_text[i])
			return false;
	return true;
}

const char *words_find(struct span words, const char *lower_text)
{
	size_t length = strlen(lower_text);
	unsigned char first = (unsigned char)(*lower_text | 0x20);

	for (; words.length >= length; words.text++, words.length--)
		if (((unsigned char)*words.text | 0x20) == first && words_begin(words, lower_text))
			return words.text;
	return NULL;
}
