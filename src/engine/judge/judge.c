/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Judges delivery results: the mail server, the owner, the meaning.
 * MODEL    The class comes from policy/reply/reply.h; rules for replies refine it, those of the
 *          relay's provider before those of all, the first that matches.  They are tried
 *          on what a remote site said or did to us alone.
 *          A relay on this host, on a port that is none of the mail server's remote
 *          ports, or that all mail goes through is a destination of its own, so that a
 *          stopped content filter suspends no domain.  Else the provider of the relay,
 *          else the recipient's domain.
 * ERRORS   A pattern that is given up on counts as no match; one that was given up often
 *          is not tried again, as who sends the replies may do it on purpose.  What has no
 *          name that can be kept belongs to nobody.
 * THREADS  A judge belongs to one thread.
 * BUGS     A relayhost without [ ] is reached by its MX hosts, whose names the log alone
 *          tells: there each delivery of the cloned transport is taken for one by it.
 */
#include "engine/judge/judge_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/pattern.h"
#include "base/text.h"
#include "config/mta/relayhost.h"
#include "engine/judge/sieve.h"

#define GIVEN_UP_MAX 16

/* --- the mail server ------------------------------------------------------- */

static bool span_is(struct span span, const char *text) {
	return strlen(text) == span.length && memcmp(span.text, text, span.length) == 0;
}

unsigned judge_postfix(const struct generation *g, unsigned mtas, struct span program,
    size_t *rest) {
	unsigned found = GENERATION_MTAS_MAX;

	*rest = 0;
	for (unsigned i = 0; i < g->mta_count; i++) {
		const char *name = generation_text(g, g->mtas[i].syslog_name);
		size_t length = strlen(name);

		if ((mtas >> i & 1) == 0 || g->mtas[i].kind != MTA_POSTFIX ||
		    g->mtas[i].transport != 0 || length >= program.length || length < *rest ||
		    program.text[length] != '/' || memcmp(program.text, name, length) != 0)
			continue;
		found = i;
		*rest = length + 1;
	}
	return found;
}

/* The Sendmail that logs under this name, or the first that may have any. */
static unsigned find_sendmail(const struct generation *g, unsigned mtas, struct span program) {
	unsigned found = GENERATION_MTAS_MAX;

	for (unsigned i = 0; i < g->mta_count; i++) {
		const struct generation_mta *mta = &g->mtas[i];

		if ((mtas >> i & 1) == 0 || mta->kind != MTA_SENDMAIL)
			continue;
		if (mta->syslog_name != 0 &&
		    span_is(program, generation_text(g, mta->syslog_name)))
			return i;
		if (mta->syslog_name == 0 && found == GENERATION_MTAS_MAX)
			found = i;
	}
	return found;
}

static unsigned find_first(const struct generation *g, unsigned mtas) {
	for (unsigned i = 0; i < g->mta_count; i++)
		if ((mtas >> i & 1) != 0)
			return i;
	return GENERATION_MTAS_MAX;
}

/* "laneN/smtp", "laneN-TRANSPORT/smtp": N, or 0. */
static uint32_t lane_of(struct span name, struct span *transport) {
	static const char end[] = "/smtp";
	uint32_t number = 0;
	size_t at = 4, from;

	*transport = (struct span){ name.text, 0 };
	if (name.length < 4 || memcmp(name.text, "lane", 4) != 0)
		return 0;
	for (; at < name.length && name.text[at] >= '0' && name.text[at] <= '9'; at++)
		if (at > 8 || (at == 4 && name.text[at] == '0'))
			return 0;
		else
			number = number * 10 + (uint32_t)(name.text[at] - '0');
	if (at < name.length && name.text[at] == '-') {
		from = ++at;
		while (at < name.length && name.text[at] != '/')
			at++;
		*transport = (struct span){ name.text + from, at - from };
	}
	return name.length - at == sizeof(end) - 1 &&
	    memcmp(name.text + at, end, sizeof(end) - 1) == 0 ? number : 0;
}

/* Which of the Postfix's transports it was, if the mail server is more than one row: by the
 * lane's name, or by the original's, which several may have; then the site tells, as it does of
 * mail that no transport has tried. */
static void find_transport(const struct generation *g, const struct delivery *d,
    struct span transport, struct judgement *out) {
	unsigned routed, first = GENERATION_MTAS_MAX;

	if (transport.length > 0) {
		first = generation_find_transport(g, out->mta, transport.text, transport.length);
		out->cloned = first != GENERATION_MTAS_MAX;
		if (out->cloned)
			out->mta = first;
		else
			out->lane = 0;
		return;
	}
	if (out->lane != 0)
		return;
	routed = generation_site_transport(g, out->mta, d->domain.text, d->domain.length);
	if (routed != out->mta && (d->agent == AGENT_ERROR ||
	    span_is(d->program, generation_text(g, g->mtas[routed].clone_program)))) {
		out->cloned = d->agent != AGENT_ERROR;
		out->mta = routed;
		return;
	}
	for (unsigned i = 0; i < g->mta_count && !out->cloned; i++)
		if (g->mtas[i].transport != 0 && g->mtas[i].parent == out->mta &&
		    first == GENERATION_MTAS_MAX &&
		    span_is(d->program, generation_text(g, g->mtas[i].clone_program)))
			first = i;
	if (first != GENERATION_MTAS_MAX) {
		out->mta = first;
		out->cloned = true;
	}
}

/* "TRANSPORT/smtp": the source that is warmed up by it, and 1; or 0. */
static __attribute__((noinline, cold)) uint32_t source_of(const struct generation *g,
    struct span name) {
	static const char end[] = "/smtp";
	size_t length = name.length < sizeof(end) ? 0 : name.length - (sizeof(end) - 1);

	if (length == 0 || memcmp(name.text + length, end, sizeof(end) - 1) != 0)
		return 0;
	for (uint32_t i = 0; i < g->source_count; i++)
		if (span_is((struct span){ name.text, length },
			generation_text(g, generation_source(g, i)->transport)))
			return i + 1;
	return 0;
}

/* The lane of probes of relay domains clones the transport which these use, if that is one of ours. */
static bool is_relay_probe(const struct generation *g, const struct delivery *d, struct span name,
    struct judgement *out) {
	unsigned routed = span_is(name, "probe-relay/smtp") ?
	    generation_site_transport(g, out->mta, d->domain.text, d->domain.length) : out->mta;

	if (routed == out->mta)
		return false;
	out->mta = routed;
	out->cloned = true;
	return true;
}

/* --- whose it is ------------------------------------------------------------ */

static bool begins(struct span text, const char *start, size_t length) {
	return text.length >= length && memcmp(text.text, start, length) == 0;
}

static struct span behind(struct span text, size_t length) {
	return (struct span){ text.text + length, text.length - length };
}

/* "NAME[ADDRESS]" or "NAME[ADDRESS]:PORT" at the start. */
static void read_relay(struct span text, struct tried_relay *out) {
	const char *end = text.text + text.length, *open, *close;
	size_t length = 0;
	uint32_t port;

	while (length < text.length && text.text[length] > ' ' && text.text[length] < 0x7f &&
	    text.text[length] != '[')
		length++;
	if (length == text.length || text.text[length] != '[')
		return;
	open = text.text + length;
	close = memchr(open, ']', (size_t)(end - open));
	if (close == NULL || !address_parse(open, (size_t)(close - open) + 1, &out->address))
		return;
	out->name = (struct span){ text.text, length };
	if (length > 0 && open[-1] == '.')
		out->name.length--;
	if (++close == end || *close != ':')
		return;
	close++;
	for (length = 0; close + length < end && close[length] >= '0' && close[length] <= '9';)
		length++;
	if (text_to_u32(close, length, UINT16_MAX, &port))
		out->port = (uint16_t)port;
}

/* Postfix tells no relay when it found no session, but its text does. */
static void read_text(struct span text, struct tried_relay *out) {
	static const char held[] = "delivery temporarily suspended: ";
	static const struct {
		const char *start;
		size_t length;
	} starts[] = {
#define START(text) { text, sizeof(text) - 1 }
		START("connect to "), START("lost connection with "),
		START("conversation with "), START("host "),
		START("TLS is required, but was not offered by host "),
		START("SASL authentication failed; cannot authenticate to server "),
		START("SASL authentication failed; server "),
#undef START
	};

	if (begins(text, held, sizeof(held) - 1))
		text = behind(text, sizeof(held) - 1);
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (begins(text, starts[i].start, starts[i].length)) {
			read_relay(behind(text, starts[i].length), out);
			return;
		}
}

/* --- relayhost ----------------------------------------------------------------- */

uint16_t judge_relayhost_port(const struct generation *g, const struct generation_mta *mta) {
	return relayhost_port(generation_text(g, mta->relayhost), mta);
}

static bool is_host(struct span host, const struct tried_relay *tried) {
	struct address address;

	if (address_parse(host.text, host.length, &address))
		return address_equal(&address, &tried->address);
	if (host.length > 0 && host.text[host.length - 1] == '.')
		host.length--;
	return host.length > 0 && host.length == tried->name.length &&
	    strncasecmp(host.text, tried->name.text, host.length) == 0;
}

/* Did it go, or would it have gone, to the relay that all mail goes to? */
static bool is_by_relayhost(const struct generation *g, const struct generation_mta *mta,
    const struct delivery *d, const struct judgement *j) {
	bool bracketed, known = j->tried.name.length > 0 ||
	    !address_is_unknown(&j->tried.address);
	struct span host;

	if (d->source == DELIVERY_OF_SENDMAIL && d->mailer.length == 5 &&
	    memcmp(d->mailer.text, "relay", 5) == 0)
		return true;
	if (mta == NULL || mta->relayhost == 0)
		return false;
	host = relayhost_host(generation_text(g, mta->relayhost), &bracketed);
	if (known && is_host(host, &j->tried))
		return true;
	if (known && bracketed)
		return false;
	if (mta->kind == MTA_SENDMAIL)
		return true;
	return j->cloned && !generation_site_excludes(g, mta, d->domain.text,
	    d->domain.length, NULL) && strcmp(generation_site_next_hop(g, mta,
	    d->domain.text, d->domain.length), generation_text(g, mta->relayhost)) == 0;
}

/* `by_relayhost`: it is the one that all mail goes to. */
static bool name_relay(const struct generation *g, const struct generation_mta *mta,
    const struct tried_relay *tried, bool by_relayhost, char out[JUDGE_NAME_MAX + 1]) {
	unsigned port = tried->port != 0 ? tried->port : by_relayhost && mta != NULL ?
	    judge_relayhost_port(g, mta) : mta_usual_port(mta);
	char text[ADDRESS_TEXT_MAX], host[JUDGE_NAME_MAX + 1];
	struct span name = tried->name;
	bool bracketed;

	if (!address_is_unknown(&tried->address)) {
		address_format(&tried->address, text);
		snprintf(out, JUDGE_NAME_MAX + 1, "[%s]:%u", text, port);
		return true;
	}
	if (name.length == 0 && mta != NULL && mta->relayhost != 0)
		name = relayhost_host(generation_text(g, mta->relayhost), &bracketed);
	if (name.length > JUDGE_NAME_MAX - 8 || !judge_domain(name, host))
		return false;
	snprintf(out, JUDGE_NAME_MAX + 1, "[%.*s]:%u", JUDGE_NAME_MAX - 8, host, port);
	return true;
}

static void find_name(const struct generation *g, const struct generation_mta *mta,
    const struct delivery *d, bool by_relayhost, struct judgement *out) {
	const struct tried_relay *tried = &out->tried;
	bool addressed = !address_is_unknown(&tried->address);

	if ((addressed && address_is_loopback(&tried->address)) ||
	    (tried->port != 0 && !mta_has_port(mta, tried->port)) || by_relayhost) {
		if (name_relay(g, mta, tried, by_relayhost, out->owner.name))
			out->owner.kind = DESTINATION_RELAY;
		return;
	}
	if (addressed || tried->name.length > 0)
		out->owner.provider = generation_match_provider(g, tried->name.text,
		    tried->name.length, &tried->address);
	if (out->owner.provider != JUDGE_NONE) {
		if (judge_provider_destination(g, out->owner.provider, out->owner.name))
			out->owner.kind = DESTINATION_PROVIDER;
	} else if (judge_domain(d->domain, out->owner.name)) {
		out->owner.kind = DESTINATION_DOMAIN;
	}
}

/* Fills in tried (of relay=, or what the text names: "connect to host[address]:port: ...") and
 * owner.  `mta` is NULL for a mail server that the configuration does not name; cloned and
 * reply are set. */
static void find_owner(const struct generation *g, const struct generation_mta *mta,
    const struct delivery *d, struct judgement *out) {
	bool by_relayhost;

	out->tried = (struct tried_relay){ .name = d->relay_name, .address = d->relay_address,
		.port = d->relay_port };
	if (d->source != DELIVERY_OF_SENDMAIL && d->relay_name.length == 0 &&
	    address_is_unknown(&d->relay_address))
		read_text(d->text, &out->tried);
	out->owner.kind = DESTINATION_NONE;
	out->owner.name[0] = '\0';
	out->owner.provider = JUDGE_NONE;
	if (d->agent == AGENT_LOCAL ||
	    (d->agent != AGENT_SMTP && out->reply.class != RESULT_SUSPENDED))
		return;
	by_relayhost = is_by_relayhost(g, mta, d, out);
	find_name(g, mta, d, by_relayhost, out);
	if (!judge_transport_name(g, mta, out->owner.name))
		out->owner.kind = DESTINATION_NONE;
	if (out->owner.kind == DESTINATION_NONE)
		out->owner.name[0] = '\0';
}

/* --- rules --------------------------------------------------------------------- */

/* The first rule of `first`..`end`-1 that matches, or JUDGE_NONE.  The sieve has seen
 * the words. */
static uint32_t find_rule(struct judge *judge, uint32_t first, uint32_t end,
    struct span words) {
	for (uint32_t i = sieve_next(judge->sieve, first, end); i < end;
	     i = sieve_next(judge->sieve, i + 1, end)) {
		struct judge_pattern *p = &judge->patterns[i];

		if (p->given_up >= GIVEN_UP_MAX)
			continue;
		switch (pattern_match(p->pattern, judge->room, words.text, words.length)) {
		case PATTERN_MATCH:
			return i;
		case PATTERN_GAVE_UP:
			p->given_up++;
			judge->given_up++;
			break;
		case PATTERN_NO_MATCH:
			break;
		}
	}
	return JUDGE_NONE;
}

/* Over "421-4.7.0 " or "421 4.7.0 ", as each further line of a reply has it; NULL: it is not
 * that. */
static const char *pass_line_code(const char *at, const char *end, const char *code) {
	const char *dots;

	if (end - at < 4 || memcmp(at, code, 3) != 0 || (at[3] != '-' && at[3] != ' '))
		return NULL;
	at += 4;
	for (dots = at; dots < end && ((*dots >= '0' && *dots <= '9') || *dots == '.'); dots++)
		;
	if (dots - at >= 5 && at[0] == code[0] && at[1] == '.' && (dots == end || *dots == ' '))
		at = dots;
	while (at < end && *at == ' ')
		at++;
	return at;
}

/* A reply of several lines, which the mail server has put into one, without the code that
 * each of them has; where they were broken means nothing.  The first is kept as "421 ". */
static struct span one_line(struct judge *judge, const struct reply *reply) {
	struct span words = reply->words;
	const char *end = words.text + words.length, *at;
	size_t length = 4;

	if (reply->code == 0 || words.length < 4 || words.text[3] != '-')
		return words;
	at = words.text + length;
	memcpy(judge->line, words.text, 3);
	judge->line[3] = ' ';
	while (at < end && length < sizeof(judge->line)) {
		const char *next = at[-1] == ' ' ? pass_line_code(at, end, words.text) : NULL;
		const char *blank = memchr(at, ' ', (size_t)(end - at));
		size_t part = (size_t)((blank == NULL ? end : blank + 1) - at);

		if (next != NULL) {
			at = next;
			continue;
		}
		if (part > sizeof(judge->line) - length)
			part = sizeof(judge->line) - length;
		memcpy(judge->line + length, at, part);
		length += part;
		at += part;
	}
	return (struct span){ judge->line, length };
}

uint32_t judge_reply(struct judge *judge, uint32_t provider, struct reply *reply) {
	const struct generation *g = judge->generation;
	const struct generation_reply_rule *row;
	uint32_t rule = JUDGE_NONE;
	struct span line;

	/* our authentication that failed is our own fault, which the remote told us */
	if (reply->class == RESULT_OK || reply->class == RESULT_SUSPENDED ||
	    (reply->class == RESULT_LOCAL && reply->phase != PHASE_AUTH) ||
	    reply->words.length == 0)
		return JUDGE_NONE;
	line = one_line(judge, reply);
	sieve_shake(judge->sieve, line.text, line.length);
	if (provider != JUDGE_NONE) {
		const struct generation_provider *own = generation_provider(g, provider);

		rule = find_rule(judge, own->rules, own->rules + own->rule_count, line);
	}
	if (rule == JUDGE_NONE)
		rule = find_rule(judge, g->common_rules, g->reply_rule_count, line);
	if (rule == JUDGE_NONE)
		return JUDGE_NONE;
	row = generation_reply_rule(g, rule);
	if (row->has_class)
		reply->class = (enum result_class)row->class;
	return rule;
}

/* --- all of it --------------------------------------------------------------- */

void judge_delivery(struct judge *judge, unsigned mtas, const struct delivery *d,
    struct judgement *out) {
	const struct generation *g = judge->generation;
	struct span transport, name = d->program;
	size_t rest = 0;

	memset(out, 0, sizeof(*out));
	out->owner.provider = JUDGE_NONE;
	out->rule = JUDGE_NONE;
	reply_judge(d, &out->reply);
	if (d->source == DELIVERY_OF_POSTFIX) {
		out->mta = judge_postfix(g, mtas, d->program, &rest);
		name = (struct span){ name.text + rest, name.length - rest };
	} else if (d->source == DELIVERY_OF_SENDMAIL) {
		out->mta = find_sendmail(g, mtas, d->program);
	} else {
		out->mta = find_first(g, mtas);
	}
	if (out->mta == GENERATION_MTAS_MAX && d->source != DELIVERY_OF_OTHER)
		return;
	if (d->source == DELIVERY_OF_POSTFIX && !is_relay_probe(g, d, name, out)) {
		out->lane = lane_of(name, &transport);
		/* the lane of address verification probes clones the same transport */
		out->cloned = out->lane != 0 || span_is(name, "probe/smtp") ||
		    span_is(d->program, generation_text(g, g->mtas[out->mta].clone_program));
		find_transport(g, d, transport, out);
		out->source = g->source_count == 0 ? 0 : source_of(g, name);
		/* it is as good as a lane: the destination keeps its hints */
		out->cloned |= out->source != 0;
	}
	find_owner(g, out->mta < g->mta_count ? &g->mtas[out->mta] : NULL, d, out);
	if (d->agent == AGENT_SMTP)
		out->rule = judge_reply(judge, out->owner.provider, &out->reply);
}
