/* SPDX-License-Identifier: ISC */
/*
 * Two steps: what happened, and in which phase, as the mail server's own words tell
 * it (reply_read.h); then the class.  The phase goes before the reply: whatever is said in the greeting
 * is a failure of the site.
 */
#include "policy/reply/reply.h"

#include <string.h>

#include "policy/reply/reply_internal.h"
#include "policy/reply/reply_words.h"

const char *result_class_word(enum result_class class) {
	static const char *const words[] = {
#define RESULT(symbol, word, text) word,
#include "defs/results.def"
#undef RESULT
	};

	return (unsigned)class < RESULT_CLASS_COUNT ? words[class] : "";
}

const char *delivery_phase_word(enum delivery_phase phase) {
	static const char *const words[PHASE_COUNT] = {
		[PHASE_UNKNOWN] = "", [PHASE_NONE] = "none", [PHASE_DNS] = "dns",
		[PHASE_CONNECT] = "connect", [PHASE_GREETING] = "greeting", [PHASE_EHLO] = "ehlo",
		[PHASE_STARTTLS] = "starttls", [PHASE_AUTH] = "auth", [PHASE_MAIL] = "mail",
		[PHASE_RCPT] = "rcpt", [PHASE_DATA] = "data", [PHASE_END_OF_DATA] = "end-of-data",
	};

	return (unsigned)phase < PHASE_COUNT ? words[phase] : "";
}

/* --- the class ------------------------------------------------------------- */

/* A session is complete when MAIL may be said: what fails before is the site's. */
static bool is_handshake(enum delivery_phase phase) {
	return phase == PHASE_CONNECT || phase == PHASE_GREETING || phase == PHASE_EHLO ||
	    phase == PHASE_STARTTLS;
}

/* Of what is put off. */
static bool is_enhanced(const struct reply *reply, unsigned subject, unsigned detail) {
	return reply->enhanced[0] == 4 && reply->enhanced[1] == subject &&
	    reply->enhanced[2] == detail;
}

/* Codes that stand for a phase: Sendmail's own for TLS that failed, and the answer to
 * STARTTLS or AUTH (RFC 3207, RFC 4954). */
static enum delivery_phase phase_of_code(const struct reply *reply) {
	if (reply->phase != PHASE_UNKNOWN)
		return reply->phase;
	if (reply->code == 403)
		return PHASE_STARTTLS;
	if (reply->code == 454 && words_find(reply->words, "tls") != NULL)
		return PHASE_STARTTLS;
	if (reply->code == 454 && words_find(reply->words, "authenticat") != NULL)
		return PHASE_AUTH;
	return PHASE_UNKNOWN;
}

/* By a reply that was no acceptance, and did not bounce. */
static enum result_class class_of_reply(struct reply *reply) {
	struct asking asking;

	reply->phase = phase_of_code(reply);
	if (is_handshake(reply->phase))
		return RESULT_SITE_FAILURE;
	if (reply->phase == PHASE_AUTH)
		return RESULT_LOCAL;
	if (reply->code >= 500)
		return RESULT_PERMANENT;
	/* RFC 3463: a mailbox is full; "mail flood detected" is registered, too */
	if (is_enhanced(reply, 2, 2))
		return RESULT_RCPT_TEMPORARY;
	asking = words_ask(reply->words);
	if (asking.for_less || is_enhanced(reply, 7, 28))
		return RESULT_REMOTE_THROTTLE;
	return reply->code == 421 && !asking.again ? RESULT_SITE_FAILURE : RESULT_RCPT_TEMPORARY;
}

/* Of what did not bounce. */
static enum result_class class_of(const struct reading *reading, struct reply *reply) {
	switch (reading->happening) {
	case HAPPENING_REPLY:
		return class_of_reply(reply);
	case HAPPENING_LOST:
		return is_handshake(reply->phase) || reply->phase == PHASE_UNKNOWN ||
		    reply->phase == PHASE_AUTH ? RESULT_SITE_FAILURE : RESULT_RCPT_TEMPORARY;
	case HAPPENING_REFUSED:
		/* what we are and know is at fault, not the site */
		return reply->phase == PHASE_AUTH ? RESULT_LOCAL : RESULT_SITE_FAILURE;
	case HAPPENING_DNS:
		return reading->again ? RESULT_LOCAL : RESULT_PERMANENT;
	case HAPPENING_OWN_FAULT:
		return RESULT_LOCAL;
	case HAPPENING_HELD:
		return RESULT_SUSPENDED;
	case HAPPENING_UNKNOWN:
		break;
	}
	return RESULT_RCPT_TEMPORARY;
}

static bool has_bounced(const struct delivery *d) {
	return d->status == DELIVERY_BOUNCED || d->status == DELIVERY_EXPIRED ||
	    (d->status == DELIVERY_UNDELIVERABLE && d->dsn[0] != 4);
}

/* Nobody tried: error(8) and qmgr(8) hold for a dead destination, for a fault of
 * this host, or because somebody's table said so. */
static void judge_untried(const struct delivery *d, struct reading *reading,
    struct reply *out) {
	out->phase = PHASE_NONE;
	if (reading->happening == HAPPENING_HELD)
		out->class = RESULT_SUSPENDED;
	else if (has_bounced(d))
		out->class = RESULT_PERMANENT;
	else
		out->class = words_tell_own_fault(d->text) ? RESULT_LOCAL : RESULT_SUSPENDED;
}

static void judge_postfix(const struct delivery *d, struct reply *out) {
	struct reading reading = reply_read_text(d->text, out);
	uint16_t code;

	if (reading.happening == HAPPENING_UNKNOWN && d->agent == AGENT_SMTP &&
	    reply_begins_with_code(d->text, '4', &code)) {
		reply_take(d->text, out);
		reading.happening = HAPPENING_REPLY;
	}
	/* what was not given up may work later, whatever the resolver said */
	reading.again = reading.again || !has_bounced(d);
	if (d->agent == AGENT_ERROR || d->agent == AGENT_QUEUE) {
		judge_untried(d, &reading, out);
	} else if (d->agent == AGENT_LOCAL && reading.happening != HAPPENING_REPLY &&
	    reading.happening != HAPPENING_LOST) {
		out->class = RESULT_LOCAL;
	} else if (reading.happening == HAPPENING_UNKNOWN && !has_bounced(d) &&
	    words_tell_own_fault(d->text)) {
		out->class = RESULT_LOCAL;
	} else {
		out->class = class_of(&reading, out);
		/* an address probe's refusal stays that of the site */
		if (has_bounced(d) && !(d->status == DELIVERY_UNDELIVERABLE &&
		    out->class == RESULT_SITE_FAILURE))
			out->class = RESULT_PERMANENT;
	}
}

/* --- Sendmail -------------------------------------------------------------- */

/* What stands behind "Deferred: ", "Deferred" being all that it says without. */
static struct span behind_deferred(struct span text) {
	static const char deferred[] = "deferred";

	if (!words_begin(text, deferred))
		return text;
	text = words_behind(text, text.text + sizeof(deferred) - 1);
	while (text.length > 0 && (*text.text == ':' || *text.text == ' '))
		text = words_behind(text, text.text + 1);
	return text;
}

/* Without having connected: the status of that host was known from before, or a
 * check_compat rule held it. */
static bool was_not_tried(const struct delivery *d) {
	return address_is_unknown(&d->relay_address) && d->delays_ms[3] <= 0;
}

static struct reading read_sendmail(const struct delivery *d, struct reply *out) {
	struct reading reading = { HAPPENING_REPLY, false };
	struct span text = behind_deferred(d->text);
	bool deferred = text.length < d->text.length;

	/* a reply that accepted something is not why it failed */
	if (d->reply.length > 0 && reply_take_refusal(d->reply, out)) {
		/* what Sendmail makes of a greeting (smtp.c, smtpinit()) */
		if ((d->dsn[0] == 4 || d->dsn[0] == 5) && d->dsn[1] == 5 && d->dsn[2] == 0)
			out->phase = PHASE_GREETING;
		return reading;
	}
	*out = (struct reply){ .words = text };
	if (words_begin(d->text, "queued") || words_begin(d->text, "quarantined") ||
	    words_find(text, "deferred by postern") != NULL) {
		reading.happening = HAPPENING_HELD;
	} else if (deferred && text.length == 0) {
		/* the connection was lost behind the dot, or nothing was tried */
		reading.happening = d->dsn[1] == 4 && !was_not_tried(d) ? HAPPENING_LOST :
		    HAPPENING_HELD;
	} else {
		reading = reply_read_happening(text, out);
		if (reading.happening == HAPPENING_LOST && was_not_tried(d))
			reading.happening = HAPPENING_HELD;
	}
	if (reading.happening == HAPPENING_HELD)
		out->phase = PHASE_NONE;
	if (reading.happening == HAPPENING_UNKNOWN) {
		(void)reply_take_refusal(text, out);
		reading.happening = out->code == 0 && words_tell_own_fault(text) ?
		    HAPPENING_OWN_FAULT : HAPPENING_REPLY;
	}
	return reading;
}

static void judge_sendmail(const struct delivery *d, struct reply *out) {
	struct reading reading = read_sendmail(d, out);

	reading.again = reading.again || !has_bounced(d);
	if (d->agent == AGENT_LOCAL && reading.happening != HAPPENING_HELD)
		out->class = RESULT_LOCAL;
	else if (has_bounced(d))
		out->class = RESULT_PERMANENT;
	else
		out->class = class_of(&reading, out);
}

/* --- entries --------------------------------------------------------------- */

/* Without a code: does it tell that no new attempt follows?  qmail has its own place for
 * enhanced codes: "(#5.1.1)". */
static bool is_for_good(struct span words, const struct reply *reply) {
	const char *code = words_find(words, "(#");

	if (reply->enhanced[0] != 0)
		return reply->enhanced[0] == 5;
	if (code != NULL && words_behind(words, code).length > 2 && (code[2] == '4' ||
	    code[2] == '5'))
		return code[2] == '5';
	return words_refuse(words) && !words_put_off(words);
}

/* Without a phase, and where the words tell none. */
static enum result_class class_of_words(struct span words, struct reply *out) {
	(void)reply_take_refusal(words, out);
	if (out->phase == PHASE_UNKNOWN && out->code >= 400 && out->code < 500)
		out->phase = reply_phase_before(words_before(words, out->words.text));
	if (out->code >= 400)
		return class_of_reply(out);
	if (out->code >= 200)
		return RESULT_OK;
	if (reply_tells_connection(words)) {
		out->phase = PHASE_CONNECT;
		return RESULT_SITE_FAILURE;
	}
	if (words_tell_own_fault(words))
		return RESULT_LOCAL;
	if (is_for_good(words, out))
		return RESULT_PERMANENT;
	return class_of_reply(out);
}

static void judge_text(struct span words, enum delivery_phase phase, struct reply *out) {
	struct reading reading;

	reading = reply_read_text(words_trimmed(words), out);
	if (out->phase == PHASE_UNKNOWN)
		out->phase = phase;
	if (reading.happening != HAPPENING_UNKNOWN) {
		out->class = class_of(&reading, out);
		return;
	}
	switch (phase) {
	case PHASE_NONE:
		out->class = RESULT_SUSPENDED;
		return;
	case PHASE_DNS:
		out->class = reply_tells_dns_again(words) ? RESULT_LOCAL : RESULT_PERMANENT;
		return;
	case PHASE_AUTH:
		reply_take(words, out);
		out->class = RESULT_LOCAL;
		return;
	case PHASE_CONNECT:
	case PHASE_GREETING:
	case PHASE_EHLO:
	case PHASE_STARTTLS:
		reply_take(words, out);
		out->class = RESULT_SITE_FAILURE;
		return;
	default:
		out->class = class_of_words(words, out);
	}
}

/* Over the event socket, by a server that knows the phase. */
static void judge_told(const struct delivery *d, struct reply *out) {
	judge_text(d->text, d->phase, out);
	out->phase = d->phase;
	if (d->agent == AGENT_LOCAL)
		out->class = RESULT_LOCAL;
	else if (has_bounced(d))
		out->class = RESULT_PERMANENT;
	else if (out->class == RESULT_OK)	/* "250 ...", or "200 messages a day ..." */
		out->class = words_ask(d->text).for_less ? RESULT_REMOTE_THROTTLE :
		    RESULT_RCPT_TEMPORARY;
}

/* An empty span may point nowhere; arithmetic wants a place. */
static struct span placed(struct span span) {
	return span.text == NULL ? (struct span){ "", 0 } : span;
}

void reply_judge(const struct delivery *delivery, struct reply *out) {
	struct delivery d = *delivery;

	memset(out, 0, sizeof(*out));
	d.text = placed(d.text);
	d.reply = placed(d.reply);
	switch (d.status) {
	case DELIVERY_SENT:
	case DELIVERY_DELIVERABLE:
		reply_take(d.reply.length > 0 ? d.reply : d.text, out);
		out->class = RESULT_OK;
		return;
	case DELIVERY_EXPIRED:
		out->words = d.text;
		out->phase = PHASE_NONE;
		out->class = RESULT_PERMANENT;
		return;
	case DELIVERY_STATUS_OTHER:
		out->words = d.text;
		out->class = RESULT_LOCAL;
		return;
	case DELIVERY_DEFERRED:
	case DELIVERY_BOUNCED:
	case DELIVERY_UNDELIVERABLE:
		break;
	}
	if (d.phase != PHASE_UNKNOWN)
		judge_told(&d, out);
	else if (d.source == DELIVERY_OF_SENDMAIL)
		judge_sendmail(&d, out);
	else
		judge_postfix(&d, out);
}

void reply_judge_text(struct span words, enum delivery_phase phase, struct reply *out) {
	memset(out, 0, sizeof(*out));
	judge_text(placed(words), phase, out);
}
