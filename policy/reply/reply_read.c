/* SPDX-License-Identifier: ISC */
/*
 * The texts are those of smtp_trouble.c, smtp_connect.c, smtp_addr.c and smtp_tls*.c of
 * Postfix and of deliver.c, daemon.c and domain.c of Sendmail, old ones too.
 */
#include "policy/reply/reply_internal.h"

#include <string.h>

#include "policy/reply/reply_words.h"

static bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

/* "421 ", "450-4.2.1", "591" at the start, with `least` as first digit or more. */
bool reply_begins_with_code(struct span words, char least, uint16_t *code) {
	const char *at = words.text;

	if (words.length < 3 || at[0] < least || at[0] > '5' || !is_digit(at[1]) ||
	    !is_digit(at[2]) || (words.length > 3 && (is_digit(at[3]) || at[3] == '.' ||
	    at[3] == ':' || at[3] == '/')))
		return false;
	*code = (uint16_t)((at[0] - '0') * 100 + (at[1] - '0') * 10 + (at[2] - '0'));
	return true;
}

/* "4.2.1" behind a code; true: it is of the class that `first` says, if not 0. */
static bool read_enhanced(struct span words, char first, uint16_t out[3]) {
	size_t i = 0;

	for (unsigned part = 0; part < 3; part++) {
		unsigned number = 0, digits = 0;

		if (part > 0 && (i == words.length || words.text[i++] != '.'))
			return false;
		for (; i < words.length && is_digit(words.text[i]) && digits < 3; i++, digits++)
			number = number * 10 + (unsigned)(words.text[i] - '0');
		if (digits == 0)
			return false;
		out[part] = (uint16_t)number;
	}
	return (i == words.length || !is_digit(words.text[i])) && out[0] >= 2 && out[0] <= 5 &&
	    (first == 0 || out[0] == (uint16_t)(first - '0'));
}

/* Where a reply begins, inside what others wrote around it ("host x [y]: 550 no"). */
static struct span find_reply(struct span words, uint16_t *code) {
	struct span rest = words_trimmed(words);

	*code = 0;
	if (reply_begins_with_code(rest, '2', code))
		return rest;
	for (size_t i = 1; i + 3 <= words.length; i++) {
		rest = words_behind(words, words.text + i);
		if (words.text[i - 1] == ' ' && reply_begins_with_code(rest, '4', code) &&
		    words.text[i + 1] <= '5' && rest.length > 3 &&
		    (rest.text[3] == ' ' || rest.text[3] == '-'))
			return rest;
	}
	return words_trimmed(words);
}

/* Fills in the remote's own words. */
void reply_take(struct span words, struct reply *out) {
	struct span rest;

	out->words = find_reply(words, &out->code);
	if (out->code == 0) {
		if (!read_enhanced(out->words, 0, out->enhanced))
			memset(out->enhanced, 0, sizeof(out->enhanced));
		return;
	}
	rest = words_behind(out->words, out->words.text + 3);
	while (rest.length > 0 && memchr(" -=#'", *rest.text, 5) != NULL)
		rest = words_behind(rest, rest.text + 1);
	if (!read_enhanced(rest, out->words.text[0], out->enhanced))
		memset(out->enhanced, 0, sizeof(out->enhanced));
}

bool reply_take_refusal(struct span words, struct reply *out) {
	struct reply later = *out;

	reply_take(words, out);
	if (out->code < 200 || out->code >= 400)
		return out->code >= 400;
	reply_take(words_behind(out->words, out->words.text + 3), &later);
	if (later.code < 400 || later.enhanced[0] == 0)
		return false;
	*out = later;
	return true;
}

/* "RCPT TO", "performing the EHLO handshake", "sending message body" */
static enum delivery_phase phase_of(struct span text) {
	static const struct {
		const char *text;
		enum delivery_phase phase;
	} phases[] = {
		/* first: "sending XFORWARD protocol/helo_name" */
		{ "xforward", PHASE_MAIL }, { "greeting", PHASE_GREETING },
		{ "starttls", PHASE_STARTTLS }, { "tls", PHASE_STARTTLS },
		{ "handshake", PHASE_EHLO }, { "ehlo", PHASE_EHLO }, { "helo", PHASE_EHLO },
		{ "lhlo", PHASE_EHLO }, { "auth", PHASE_AUTH }, { "sasl", PHASE_AUTH },
		{ "mail from", PHASE_MAIL }, { "xclient", PHASE_EHLO }, { "rcpt to", PHASE_RCPT },
		{ "end of data", PHASE_END_OF_DATA }, { "message body", PHASE_END_OF_DATA },
		{ "data", PHASE_DATA }, { "bdat", PHASE_DATA }, { "rset", PHASE_END_OF_DATA },
		{ "quit", PHASE_END_OF_DATA },
	};

	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
		if (words_find(text, phases[i].text) != NULL)
			return phases[i].phase;
	return PHASE_UNKNOWN;
}

enum delivery_phase reply_phase_before(struct span words) {
	static const struct {
		const char *text;
		enum delivery_phase phase;
	} phases[] = {
		{ "initial connection", PHASE_GREETING }, { "greeting", PHASE_GREETING },
		{ "refused to talk to me", PHASE_GREETING }, { "after ehlo", PHASE_EHLO },
		{ "after helo", PHASE_EHLO }, { "my name was rejected", PHASE_EHLO },
		{ "after starttls", PHASE_STARTTLS },
	};

	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
		if (words_find(words, phases[i].text) != NULL)
			return phases[i].phase;
	return PHASE_UNKNOWN;
}

/* Cuts " (in reply to RCPT TO command)" off: the last one, as a reply may hold more. */
static struct span cut_command(struct span text, enum delivery_phase *phase) {
	static const char mark[] = "(in reply to ";
	size_t length = sizeof(mark) - 1;

	for (size_t i = text.length >= length ? text.length - length + 1 : 0; i-- > 0;)
		if (memcmp(text.text + i, mark, length) == 0) {
			*phase = phase_of(words_behind(text, text.text + i + length));
			return words_trimmed(words_before(text, text.text + i));
		}
	return text;
}

static enum happening reply_in(struct span text, enum delivery_phase phase, struct reply *out) {
	out->phase = phase;
	reply_take(text, out);
	return HAPPENING_REPLY;
}

static enum happening lost_in(enum delivery_phase phase, struct reply *out) {
	out->phase = phase;
	return HAPPENING_LOST;
}

/* "host NAME[ADDRESS] said: REPLY (in reply to COMMAND)", "... refused to talk to
 * me: REPLY" */
static enum happening read_host(struct span text, struct reply *out) {
	static const char said[] = " said: ", refused[] = " refused to talk to me: ";
	enum delivery_phase phase = PHASE_UNKNOWN;
	const char *at = words_find_exactly(text, said);
	const char *other = words_find_exactly(text, refused);

	if (other != NULL && (at == NULL || other < at))
		return reply_in(words_behind(text, other + sizeof(refused) - 1), PHASE_GREETING, out);
	if (at == NULL)
		return HAPPENING_UNKNOWN;
	text = cut_command(words_behind(text, at + sizeof(said) - 1), &phase);
	return reply_in(text, phase, out);
}

/* "connect to NAME[ADDRESS]:PORT: REASON", and of old "... server refused to talk to
 * me: REPLY" */
static enum happening read_connect(struct span text, struct reply *out) {
	static const char refused[] = "refused to talk to me: ";
	const char *at = words_find(text, refused);

	if (at != NULL)
		return reply_in(words_behind(text, at + sizeof(refused) - 1), PHASE_GREETING, out);
	return lost_in(words_find(text, "greeting") != NULL ? PHASE_GREETING : PHASE_CONNECT, out);
}

/* "lost connection with X while PHASE", "conversation with X timed out while PHASE" */
static enum happening read_lost(struct span text, struct reply *out) {
	const char *at = words_find(text, " while ");

	return lost_in(phase_of(at == NULL ? text : words_behind(text, at)), out);
}

/* "SASL authentication failed; server X said: REPLY", "TLS is required, but ...: REPLY" */
static enum happening read_refused(struct span text, enum delivery_phase phase,
    struct reply *out) {
	static const char said[] = " said: ";
	const char *at = words_find(text, said);

	out->phase = phase;
	reply_take(at == NULL ? text : words_behind(text, at + sizeof(said) - 1), out);
	if (at == NULL && out->code == 0)
		out->words = text;
	return HAPPENING_REFUSED;
}

static bool begins_with_any(struct span text, const char *const *list) {
	for (; *list != NULL; list++)
		if (words_begin(text, *list))
			return true;
	return false;
}

static bool has_any(struct span text, const char *const *list) {
	for (; *list != NULL; list++)
		if (words_find(text, *list) != NULL)
			return true;
	return false;
}

static const char *const dns_texts[] = { "name service error", "host or domain name not found",
	"unable to look up host", "unable to look up mail", "host unknown", "name server:",
	"dns error", "no mx host for", "domain not found", "host name lookup failure",
	"no host records", "host not found", "nullmx", "does not accept mail (nullmx",
	"unable to find primary relay", "name server loop", "error looking up name=",
	"name service initialization failure", NULL };
static const char *const dns_again[] = { "try again", "lookup failure", "temporar", "timed out",
	"timeout", "servfail", "server failure", NULL };
static const char *const sasl_texts[] = { "sasl authentication", "sasl [cached] authentication",
	"cannot authenticate", "cannot sasl", "temporary auth failure", NULL };
static const char *const tls_texts[] = { "tls is required", "cannot start tls",
	"server certificate", "certificate verification failed", "tls handshake",
	"tlsa ", "unexpected server message", "verification not possible, mx", "non dnssec", "tls not available", "untrusted", "unable to start tls",
	"tls is not", "tls failed", "dane", "no tlsa", "starttls", "could not start tls",
	"peer certificate", "commonname mis-match", NULL };
/* of connections, in errno's words and in Sendmail's */
static const char *const connection_texts[] = { "connection refused", "connection timed out",
	"connection reset", "connection closed", "connection aborted", "connection dropped",
	"operation timed out", "no route to host", "network is unreachable", "network unreachable",
	"host is down", "host is unreachable", "host unreachable", "network is down",
	"network dropped connection", "destination unreachable", "software caused connection abort",
	"transport endpoint is not connected", "socket is not connected",
	"cannot send after transport endpoint shutdown", "can't send after socket shutdown",
	"machine is not on the network", "communication error on send", "link has been severed",
	"operation now in progress", "operation already in progress", "remote i/o error",
	"remote protocol error", "protocol error", "broken pipe", "read timeout", "i/o timeout", "connect timeout", "socket timeout",
	"protocol not available", "cannot connect", "could not connect", "unable to connect",
	"did not accept our requests to connect", "not connected", "read error from",
	"failed to connect", "server is not responding", "connection failed",
	"timed out with", "establish an smtp connection", "server unavailable or unable to receive",
	NULL };

/* "TLS is required, but our TLS engine is unavailable": no site is to blame. */
static bool tells_own_tls(struct span text) {
	return words_begin(text, "tls is required, but our");
}

static struct reading read_words(struct span text, struct reply *out) {
	struct reading reading = { HAPPENING_UNKNOWN, false };

	if (begins_with_any(text, dns_texts) || (words_begin(text, "mail for ") &&
	    words_find(text, " loops back to myself") != NULL)) {
		out->phase = PHASE_DNS;
		reading.happening = HAPPENING_DNS;
		reading.again = has_any(text, dns_again);
	} else if (words_begin(text, "retry time not reached")) {
		out->phase = PHASE_NONE;	/* Exim's own "temporarily suspended" */
		reading.happening = HAPPENING_HELD;
	} else if (begins_with_any(text, sasl_texts)) {
		reading.happening = read_refused(text, PHASE_AUTH, out);
	} else if (tells_own_tls(text)) {
		reading.happening = HAPPENING_OWN_FAULT;
	} else if (begins_with_any(text, tls_texts)) {
		reading.happening = read_refused(text, PHASE_STARTTLS, out);
	} else if (begins_with_any(text, connection_texts) || (words_begin(text, "host ") &&
	    words_find(text, " is down") != NULL)) {
		reading.happening = lost_in(PHASE_CONNECT, out);
	}
	return reading;
}

/* Behind "HOST.: ", "[192.0.2.7]: ": Sendmail puts the host before errno's words for the
 * network, and Postfix before "host not found"; all of it, if there is none. */
static struct span behind_host(struct span text) {
	size_t i = 0;

	while (i < text.length && text.text[i] != ' ')
		i++;
	return i < 2 || i == text.length || text.text[i - 1] != ':' ? text :
	    words_behind(text, text.text + i + 1);
}

/* What needs no code: the mail server's own words, or the resolver's, or errno's. */
struct reading reply_read_happening(struct span text, struct reply *out) {
	struct reading reading = read_words(text, out);
	struct span rest = behind_host(text);

	return reading.happening != HAPPENING_UNKNOWN || rest.length == text.length ? reading :
	    read_words(rest, out);
}

/* What Postfix says. */
struct reading reply_read_text(struct span text, struct reply *out) {
	static const char held[] = "delivery temporarily suspended", protocol[] = "protocol error: ";
	struct reading reading = { HAPPENING_UNKNOWN, false };

	if (words_begin(text, protocol))
		text = words_behind(text, text.text + sizeof(protocol) - 1);
	out->words = text;
	if (words_begin(text, held)) {
		out->phase = PHASE_NONE;
		out->words = words_behind(text, text.text + sizeof(held) - 1);
		while (out->words.length > 0 && (*out->words.text == ':' || *out->words.text == ' '))
			out->words = words_behind(out->words, out->words.text + 1);
		reading.happening = HAPPENING_HELD;
	} else if (words_begin(text, "host ") && words_find(text, "host or domain") != text.text &&
	    (reading.happening = read_host(text, out)) != HAPPENING_UNKNOWN) {
		return reading;
	} else if (words_begin(text, "connect to ")) {
		reading.happening = read_connect(text, out);
	} else if (words_begin(text, "lost connection") || words_begin(text, "conversation with ")) {
		reading.happening = read_lost(text, out);
	} else {
		reading = reply_read_happening(text, out);
	}
	if (reading.happening == HAPPENING_UNKNOWN)
		out->words = text;
	return reading;
}

bool reply_tells_connection(struct span words) {
	return has_any(words, connection_texts);
}

bool reply_tells_dns_again(struct span words) {
	return has_any(words, dns_again);
}
