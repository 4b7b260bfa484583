/* SPDX-License-Identifier: ISC */
/* The phrases that say what a reply is about, and what else is looked for in one. */
#include "policy/reply/reply_words.h"

#include <stddef.h>
#include <string.h>

#include "policy/reply/reply_phrases.h"

enum {
	LESS = 1,	/* of a rate, a volume, connections at once, a server that is busy */
	NOT_LESS = 2,	/* looks like it, but is about one message, recipient or sender */
	/* 452 4.5.3 "too many recipients" is the limit of one message, and the next try
	 * has fewer; unless it is one of a time */
	OF_MESSAGE = 4,
	OF_TIME = 8,
	AGAIN = 16,	/* the same message may come again soon */
	/* one connection took what it takes; the next one takes as much */
	OF_SESSION = OF_MESSAGE | AGAIN,
	IN_SESSION = 32,	/* so it is where it speaks of messages, too */
	MESSAGES = 64,
	ENDED = 128,	/* and does not just say that it ends */
	FOUND = 1,
};

static const struct phrase *const slower[PHRASES_LETTERS] = {
	['a' - 'a'] = PHRASES { { "at once.", LESS }, { "attachment limit", NOT_LESS },
	    { NULL, 0 } },
	['b' - 'a'] = PHRASES { { "back off", LESS }, { "backoff", LESS },
	    { "backpressure", LESS }, { "busy.", LESS }, { NULL, 0 } },
	['c' - 'a'] = PHRASES { { "close this", ENDED }, { "closing this", ENDED },
	    { "command limit", NOT_LESS }, { "concurren", LESS }, { "congest", LESS },
	    { "connection count", LESS }, { "connection expired", AGAIN },
	    { "connection limit", LESS }, { "connections exceed", LESS },
	    { "connections in #", LESS }, { "connections limit", LESS },
	    { "connections per", LESS }, { "connections within #", LESS }, { NULL, 0 } },
	['d' - 'a'] = PHRASES { { "daily limit", LESS | OF_TIME },
	    { "daily message", LESS | OF_TIME }, { "daily quota", LESS | OF_TIME },
	    { "daily sending", LESS | OF_TIME }, { "demasiad", LESS },
	    { "disk limit", NOT_LESS }, { "dropping this", ENDED }, { NULL, 0 } },
	['e' - 'a'] = PHRASES { { "emails", MESSAGES }, { "emails in #", LESS },
	    { "emails per", LESS }, { "ending this", ENDED }, { "error limit", NOT_LESS },
	    { "exceeded your limit", LESS }, { "exceso de", LESS }, { "excessive", LESS },
	    { "excesso de", LESS }, { NULL, 0 } },
	['f' - 'a'] = PHRASES { { "flood", LESS }, { "frequency", LESS }, { NULL, 0 } },
	['g' - 'a'] = PHRASES { { "gray list", NOT_LESS | AGAIN },
	    { "graylist", NOT_LESS | AGAIN }, { "grey list", NOT_LESS | AGAIN },
	    { "greylist", NOT_LESS | AGAIN }, { NULL, 0 } },
	['h' - 'a'] = PHRASES { { "header limit", NOT_LESS }, { "heavily loaded", LESS },
	    { "heavy load", LESS }, { "high load", LESS }, { "hop limit", NOT_LESS },
	    { "hops limit", NOT_LESS }, { "hourly limit", LESS | OF_TIME },
	    { "hourly message", LESS | OF_TIME }, { "hourly quota", LESS | OF_TIME },
	    { "hourly sending", LESS | OF_TIME }, { NULL, 0 } },
	['i' - 'a'] = PHRASES { { "in the last", OF_TIME }, { "in the past", OF_TIME },
	    { "inbox limit", NOT_LESS }, { "internal resource", NOT_LESS | AGAIN },
	    { NULL, 0 } },
	['l' - 'a'] = PHRASES { { "length limit", NOT_LESS }, { "limit connection", LESS },
	    { "limit exceed", LESS }, { "limit for messages", LESS },
	    { "limit for the number", LESS }, { "limit has been exceed", LESS },
	    { "limit has been reach", LESS }, { "limit is exceed", LESS },
	    { "limit is reach", LESS }, { "limit of connection", LESS },
	    { "limit of messages", LESS }, { "limit on connection", LESS },
	    { "limit on messages", LESS }, { "limit on the number of connection", LESS },
	    { "limit on the number of messages", LESS }, { "limit polacz", LESS },
	    { "limit reach", LESS }, { "limit was exceed", LESS },
	    { "limit was reach", LESS }, { "limite de conex", LESS },
	    { "limite de envio", LESS }, { "limite de mensa", LESS },
	    { "limite di conn", LESS }, { "limits exceed", LESS },
	    { "limits for how many", LESS }, { "limits reach", LESS },
	    { "line length", NOT_LESS }, { "line limit", NOT_LESS }, { "load average", LESS },
	    { "load is", LESS }, { "load limit", LESS }, { "load too", LESS },
	    { "lookup limit", NOT_LESS }, { NULL, 0 } },
	['m' - 'a'] = PHRASES { { "mail limit", LESS }, { "mailbox busy", NOT_LESS },
	    { "mailbox is busy", NOT_LESS }, { "mailbox is receiving", NOT_LESS },
	    { "mailbox limit", NOT_LESS }, { "mails", MESSAGES }, { "mails in #", LESS },
	    { "mails per", LESS }, { "max connection", LESS },
	    { "max number of connection", LESS }, { "maximum concurrent", LESS },
	    { "maximum connection", LESS }, { "maximum number of connection", LESS },
	    { "maximum number of messages", LESS }, { "maximum number of sessions", LESS },
	    { "maximum number of smtp", LESS }, { "maximum session", LESS },
	    { "message", MESSAGES }, { "message limit", LESS }, { "message quota", LESS },
	    { "messages in #", LESS }, { "messages limit", LESS }, { "messages per", LESS },
	    { "messages within #", LESS }, { "muitas", LESS }, { "muitos", LESS },
	    { NULL, 0 } },
	['n' - 'a'] = PHRASES { { "number of connection", LESS },
	    { "number of messages", LESS }, { "number of recipients", OF_MESSAGE },
	    { NULL, 0 } },
	['o' - 'a'] = PHRASES { { "one connection", IN_SESSION },
	    { "one session", IN_SESSION }, { "one smtp", IN_SESSION }, { "overload", LESS },
	    { NULL, 0 } },
	['p' - 'a'] = PHRASES { { "per # day", LESS | OF_TIME },
	    { "per # hour", LESS | OF_TIME }, { "per # hr", LESS | OF_TIME },
	    { "per # min", LESS | OF_TIME }, { "per # sec", LESS | OF_TIME },
	    { "per connection", OF_SESSION }, { "per day.", LESS | OF_TIME },
	    { "per hour.", LESS | OF_TIME }, { "per hr.", LESS | OF_TIME },
	    { "per min.", LESS | OF_TIME }, { "per minute.", LESS | OF_TIME },
	    { "per sec.", LESS | OF_TIME }, { "per second.", LESS | OF_TIME },
	    { "per session", OF_SESSION }, { "per smtp connection", OF_SESSION },
	    { "per smtp session", OF_SESSION }, { "przekroczono limit", LESS }, { NULL, 0 } },
	['q' - 'a'] = PHRASES { { "quota limit", NOT_LESS }, { NULL, 0 } },
	['r' - 'a'] = PHRASES { { "rate.", LESS }, { "ratecontrol", LESS },
	    { "ratelimit", LESS }, { "rates.", LESS },
	    { "receiving e mail at a rate", NOT_LESS }, { "receiving e mail too", NOT_LESS },
	    { "receiving email at a rate", NOT_LESS }, { "receiving email too", NOT_LESS },
	    { "receiving mail at a rate", NOT_LESS }, { "receiving mail too", NOT_LESS },
	    { "receiving messages at a rate", NOT_LESS },
	    { "receiving messages too", NOT_LESS }, { "recipient exceeded", NOT_LESS },
	    { "recipient has exceeded", NOT_LESS }, { "recipient is receiving", NOT_LESS },
	    { "recipient limit", OF_MESSAGE }, { "recipients", MESSAGES },
	    { "recipients in #", LESS | OF_TIME }, { "recipients limit", OF_MESSAGE },
	    { "recipients per envelope", NOT_LESS }, { "recipients per mail", NOT_LESS },
	    { "recipients per message", NOT_LESS },
	    { "recipients per transaction", NOT_LESS },
	    { "recipients within #", LESS | OF_TIME }, { "reduce the", LESS },
	    { "reduce your", LESS }, { "resource limit", LESS },
	    { "resource not available", LESS }, { "resource temporar", LESS },
	    { "resource unavailable", LESS }, { "resources are current", LESS },
	    { "resources are not available", LESS }, { "resources are temporar", LESS },
	    { "resources are unavailable", LESS }, { "resources current", LESS },
	    { "resources not available", LESS }, { "resources restricted", LESS },
	    { "resources temporar", LESS }, { "resources unavailable", LESS }, { NULL, 0 } },
	['s' - 'a'] = PHRASES { { "same connection", IN_SESSION },
	    { "same session", IN_SESSION }, { "same smtp", IN_SESSION },
	    { "send limit", LESS }, { "sending limit", LESS }, { "sending quota", LESS },
	    { "session limit", LESS }, { "sessions exceed", LESS },
	    { "sessions limit", LESS }, { "simultaneous", LESS },
	    { "single connection", IN_SESSION }, { "single session", IN_SESSION },
	    { "single smtp", IN_SESSION }, { "size limit", NOT_LESS }, { "slow down", LESS },
	    { "slowdown", LESS }, { "slower", LESS }, { "slowly", LESS },
	    { "space limit", NOT_LESS }, { "storage limit", NOT_LESS },
	    { "system load", LESS }, { NULL, 0 } },
	['t' - 'a'] = PHRASES { { "te veel", LESS }, { "terminating this", ENDED },
	    { "this connection", IN_SESSION }, { "this day", LESS | OF_TIME },
	    { "this hour", LESS | OF_TIME }, { "this minute", LESS | OF_TIME },
	    { "this session", IN_SESSION }, { "this smtp", IN_SESSION },
	    { "thread limit", NOT_LESS }, { "throttl", LESS }, { "time limit", NOT_LESS },
	    { "too fast", LESS }, { "too frequent", LESS }, { "too many", LESS },
	    { "too many attachment", NOT_LESS }, { "too many bad", NOT_LESS },
	    { "too many dns", NOT_LESS }, { "too many error", NOT_LESS },
	    { "too many header", NOT_LESS }, { "too many hop", NOT_LESS },
	    { "too many lookup", NOT_LESS }, { "too many mx", NOT_LESS },
	    { "too many rcpt", OF_MESSAGE }, { "too many received", NOT_LESS },
	    { "too many recipient", OF_MESSAGE }, { "too many recipients from", OF_TIME },
	    { "too many recipients in a short", OF_TIME },
	    { "too many recipients in an hour", OF_TIME },
	    { "too many recipients in last", OF_TIME },
	    { "too many recipients in the", OF_TIME },
	    { "too many recipients in the message", NOT_LESS },
	    { "too many recipients in the transaction", NOT_LESS },
	    { "too many recipients per account", OF_TIME },
	    { "too many recipients per address", OF_TIME },
	    { "too many recipients per client", OF_TIME },
	    { "too many recipients per domain", OF_TIME },
	    { "too many recipients per host", OF_TIME },
	    { "too many recipients per ip.", OF_TIME },
	    { "too many recipients per sender", OF_TIME },
	    { "too many recipients per source", OF_TIME },
	    { "too many recipients per user", OF_TIME },
	    { "too many recipients received", OF_TIME },
	    { "too many recipients recently", OF_TIME },
	    { "too many recipients sent", OF_TIME }, { "too many redirect", NOT_LESS },
	    { "too many syntax", NOT_LESS }, { "too many unrecogni", NOT_LESS },
	    { "too many void", NOT_LESS }, { "too much", LESS },
	    { "too much data", NOT_LESS }, { "too often", LESS }, { "too quick", LESS },
	    { "transactions", MESSAGES }, { "trop de", LESS }, { "troppe", LESS },
	    { "troppi", LESS }, { "ts01.", LESS }, { "ts02.", LESS }, { "ts03.", LESS },
	    { "tss0", LESS }, { NULL, 0 } },
	['u' - 'a'] = PHRASES { { "unusual amount", LESS }, { "user has exceeded", NOT_LESS },
	    { "user is receiving", NOT_LESS }, { NULL, 0 } },
	['v' - 'a'] = PHRASES { { "volume.", LESS }, { "volumes.", LESS }, { NULL, 0 } },
	['w' - 'a'] = PHRASES { { "within the last", OF_TIME }, { NULL, 0 } },
	['y' - 'a'] = PHRASES { { "you exceeded", LESS }, { "you have exceeded", LESS },
	    { "you ve exceeded", LESS }, { NULL, 0 } },
	['z' - 'a'] = PHRASES { { "zbyt duzo", LESS }, { "zbyt wiele", LESS },
	    { "zu viele", LESS }, { NULL, 0 } }
};

static const struct phrase *const refusal[PHRASES_LETTERS] = {
	['a' - 'a'] = PHRASES { { "access denied", FOUND }, { "account disabled", FOUND },
	    { NULL, 0 } },
	['b' - 'a'] = PHRASES { { "bad address", FOUND }, { "bad destination", FOUND },
	    { "block", FOUND }, { NULL, 0 } },
	['c' - 'a'] = PHRASES { { "cannot be delivered", FOUND }, { "cannot receive", FOUND },
	    { "could not be delivered", FOUND }, { "could not be found", FOUND },
	    { "could not find", FOUND }, { "couldn t be delivered", FOUND },
	    { "couldn t be found", FOUND }, { "couldn t find", FOUND }, { NULL, 0 } },
	['d' - 'a'] = PHRASES { { "denied", FOUND }, { "disabled", FOUND },
	    { "does not accept", FOUND }, { "does not exist", FOUND },
	    { "does not like", FOUND }, { "doesn t exist", FOUND }, { NULL, 0 } },
	['e' - 'a'] = PHRASES { { "exceed", FOUND }, { "expired", FOUND }, { NULL, 0 } },
	['f' - 'a'] = PHRASES { { "fail", FOUND }, { "forbidden", FOUND }, { "full.", FOUND },
	    { NULL, 0 } },
	['i' - 'a'] = PHRASES { { "inactive", FOUND }, { "invalid", FOUND }, { NULL, 0 } },
	['m' - 'a'] = PHRASES { { "malformed", FOUND }, { NULL, 0 } },
	['n' - 'a'] = PHRASES { { "no account", FOUND }, { "no longer", FOUND },
	    { "no mailbox", FOUND }, { "no such", FOUND }, { "no user", FOUND },
	    { "not accept", FOUND }, { "not allowed", FOUND }, { "not authorized", FOUND },
	    { "not deliver", FOUND }, { "not exist", FOUND }, { "not found", FOUND },
	    { "not known", FOUND }, { "not listed", FOUND }, { "not permitted", FOUND },
	    { NULL, 0 } },
	['o' - 'a'] = PHRASES { { "over quota", FOUND }, { NULL, 0 } },
	['p' - 'a'] = PHRASES { { "prohibited", FOUND }, { NULL, 0 } },
	['r' - 'a'] = PHRASES { { "refus", FOUND }, { "reject", FOUND }, { NULL, 0 } },
	['s' - 'a'] = PHRASES { { "spam", FOUND }, { NULL, 0 } },
	['t' - 'a'] = PHRASES { { "too big", FOUND }, { "too large", FOUND },
	    { "too many hop", FOUND }, { NULL, 0 } },
	['u' - 'a'] = PHRASES { { "unable to deliver", FOUND },
	    { "unable to receive", FOUND }, { "undeliver", FOUND }, { "unknown", FOUND },
	    { "unroutable", FOUND }, { "unrouteable", FOUND }, { NULL, 0 } },
	['v' - 'a'] = PHRASES { { "virus", FOUND }, { NULL, 0 } },
	['w' - 'a'] = PHRASES { { "was not delivered", FOUND }, { "wasn t delivered", FOUND },
	    { NULL, 0 } }
};

static const struct phrase *const later[PHRASES_LETTERS] = {
	['c' - 'a'] = PHRASES { { "come back", FOUND }, { NULL, 0 } },
	['d' - 'a'] = PHRASES { { "defer", FOUND }, { "delayed", FOUND }, { NULL, 0 } },
	['l' - 'a'] = PHRASES { { "later", FOUND }, { NULL, 0 } },
	['n' - 'a'] = PHRASES { { "not yet", FOUND }, { NULL, 0 } },
	['t' - 'a'] = PHRASES { { "temporar", FOUND }, { "try again", FOUND }, { NULL, 0 } },
	['w' - 'a'] = PHRASES { { "will be retried", FOUND }, { "will retry", FOUND },
	    { NULL, 0 } }
};

/* local(8), virtual(8), pipe(8), qmgr(8), trivial-rewrite(8), deliver.c, and errno's words
 * for what has no network in it. */
static const struct phrase *const own_fault[PHRASES_LETTERS] = {
	['a' - 'a'] = PHRASES { { "address already in use", FOUND },
	    { "address family not supported", FOUND }, { "address resolver failure", FOUND },
	    { "alias database", FOUND }, { "all network protocols are disabled", FOUND },
	    { "argument list too long", FOUND }, { NULL, 0 } },
	['b' - 'a'] = PHRASES { { "bad command", FOUND }, { "bad file descriptor", FOUND },
	    { NULL, 0 } },
	['c' - 'a'] = PHRASES { { "can t assign requested address", FOUND },
	    { "can t create", FOUND }, { "cannot access mailbox", FOUND },
	    { "cannot allocate memory", FOUND }, { "cannot assign requested address", FOUND },
	    { "cannot create", FOUND }, { "cannot exec", FOUND },
	    { "cannot find alias", FOUND }, { "cannot open", FOUND },
	    { "cannot update mailbox", FOUND }, { "client tls configuration", FOUND },
	    { "command died with", FOUND }, { "command output", FOUND },
	    { "command time limit exceeded", FOUND }, { "configuration error", FOUND },
	    { "content filter", FOUND }, { "corrupt", FOUND }, { "could not create", FOUND },
	    { NULL, 0 } },
	['d' - 'a'] = PHRASES { { "delivery transport", FOUND },
	    { "device or resource busy", FOUND }, { "disk quota exceeded", FOUND },
	    { NULL, 0 } },
	['e' - 'a'] = PHRASES { { "error writing", FOUND }, { "exec format error", FOUND },
	    { "executable files not allowed", FOUND }, { "exited with", FOUND },
	    { NULL, 0 } },
	['f' - 'a'] = PHRASES { { "file changed after open", FOUND },
	    { "file table overflow", FOUND }, { "file too large", FOUND },
	    { "function not implemented", FOUND }, { NULL, 0 } },
	['g' - 'a'] = PHRASES { { "group writable", FOUND }, { NULL, 0 } },
	['h' - 'a'] = PHRASES { { "hard links not allowed", FOUND },
	    { "host lookup did not complete", FOUND }, { NULL, 0 } },
	['i' - 'a'] = PHRASES { { "input output error", FOUND },
	    { "insufficient permission", FOUND }, { "internal error", FOUND },
	    { "interrupted system call", FOUND }, { "invalid argument", FOUND },
	    { "is a directory", FOUND }, { NULL, 0 } },
	['l' - 'a'] = PHRASES { { "local configuration", FOUND },
	    { "local data error", FOUND }, { "local mailer", FOUND },
	    { "lookup error", FOUND }, { "lookup failure", FOUND }, { "lookup table", FOUND },
	    { NULL, 0 } },
	['m' - 'a'] = PHRASES { { "mail forwarding loop", FOUND },
	    { "mail system configuration", FOUND }, { "mail transport", FOUND },
	    { "mailbox lock", FOUND }, { "maildir", FOUND }, { NULL, 0 } },
	['n' - 'a'] = PHRASES { { "network address conversion", FOUND },
	    { "no buffer space", FOUND }, { "no child processes", FOUND },
	    { "no locks available", FOUND }, { "no space left", FOUND },
	    { "no such device", FOUND }, { "no such file", FOUND },
	    { "no such process", FOUND }, { "not a directory", FOUND },
	    { "not enough memory", FOUND }, { "not enough space", FOUND },
	    { "not owner", FOUND }, { NULL, 0 } },
	['o' - 'a'] = PHRASES { { "on i o error", FOUND },
	    { "operating system error", FOUND }, { "operation not permitted", FOUND },
	    { "operation not supported", FOUND }, { "out of memory", FOUND }, { NULL, 0 } },
	['p' - 'a'] = PHRASES { { "permission denied", FOUND },
	    { "protocol family not supported", FOUND }, { "protocol not supported", FOUND },
	    { NULL, 0 } },
	['q' - 'a'] = PHRASES { { "queue file", FOUND }, { NULL, 0 } },
	['r' - 'a'] = PHRASES { { "read only file system", FOUND },
	    { "regular files only", FOUND }, { "resource deadlock", FOUND },
	    { "resource temporarily unavailable", FOUND }, { NULL, 0 } },
	['s' - 'a'] = PHRASES { { "socket type not supported", FOUND },
	    { "stale file handle", FOUND }, { "stale nfs file handle", FOUND },
	    { "symbolic links not allowed", FOUND }, { "system file missing", FOUND },
	    { NULL, 0 } },
	['t' - 'a'] = PHRASES { { "temporary failure", FOUND }, { "text file busy", FOUND },
	    { "timeout on file open", FOUND }, { "too many levels of symbolic", FOUND },
	    { "too many open files", FOUND }, { "transport unavailable", FOUND },
	    { NULL, 0 } },
	['u' - 'a'] = PHRASES { { "unable to create lock", FOUND },
	    { "unable to lock", FOUND }, { "unable to open", FOUND },
	    { "unknown mail transport", FOUND }, { "unknown mailer error", FOUND },
	    { "unreadable", FOUND }, { "unsupported", FOUND }, { "user lookup", FOUND },
	    { "user unknown in virtual", FOUND }, { NULL, 0 } },
	['v' - 'a'] = PHRASES { { "value too large", FOUND }, { NULL, 0 } },
	['w' - 'a'] = PHRASES { { "world writable", FOUND }, { NULL, 0 } }
};

static unsigned char lower(char c) {
	return (unsigned char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

struct asking words_ask(struct span words) {
	unsigned kinds = phrases_kinds(words, slower);

	if ((kinds & (IN_SESSION | MESSAGES | ENDED)) == (IN_SESSION | MESSAGES))
		kinds |= OF_SESSION;
	return (struct asking){
		.for_less = (kinds & LESS) != 0 && (kinds & NOT_LESS) == 0 &&
		    ((kinds & OF_MESSAGE) == 0 || (kinds & OF_TIME) != 0),
		.again = (kinds & AGAIN) != 0,
	};
}

bool words_refuse(struct span words) {
	return phrases_kinds(words, refusal) != 0;
}

bool words_put_off(struct span words) {
	return phrases_kinds(words, later) != 0;
}

bool words_tell_own_fault(struct span words) {
	return phrases_kinds(words, own_fault) != 0;
}

const char *words_find_exactly(struct span words, const char *text) {
	return words.length == 0 ? NULL : memmem(words.text, words.length, text, strlen(text));
}

bool words_begin(struct span words, const char *lower_text) {
	size_t length = strlen(lower_text);

	if (words.length < length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (lower(words.text[i]) != (unsigned char)lower_text[i])
			return false;
	return true;
}

const char *words_find(struct span words, const char *lower_text) {
	size_t length = strlen(lower_text);
	unsigned char first = (unsigned char)(*lower_text | 0x20);

	for (; words.length >= length; words.text++, words.length--)
		if (((unsigned char)*words.text | 0x20) == first && words_begin(words, lower_text))
			return words.text;
	return NULL;
}
