/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Judges delivery results: the mail server, the owner, the meaning.
 * MODEL    The class comes from policy/reply/reply.h; rules for replies refine it, those of the
 *          relay's provider before those of all, the first that matches.  They are tried
 *          on what a remote site said or did to us alone.
 * ERRORS   A pattern that is given up on counts as no match; one that was given up often
 *          is not tried again, as who sends the replies may do it on purpose.
 * THREADS  A judge belongs to one thread.
 */
#include "engine/judge/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pattern.h"
#include "engine/judge/judge_internal.h"
#include "engine/judge/sieve.h"

#define GIVEN_UP_MAX 16

struct judge_pattern {
	struct pattern *pattern;	/* NULL: not to be tried */
	unsigned given_up;
};

struct judge {
	const struct generation *generation;
	struct pattern_room *room;
	struct sieve *sieve;
	uint64_t given_up;
	struct judge_pattern *patterns;	/* by number of the rule */
	char line[PATTERN_SUBJECT_MAX];	/* of a reply of several */
};

static struct sieve *open_sieve(const struct generation *g) {
	const char **patterns = calloc((size_t)g->reply_rule_count + 1, sizeof(*patterns));
	struct sieve *sieve;

	if (patterns == NULL)
		return NULL;
	for (uint32_t i = 0; i < g->reply_rule_count; i++)
		patterns[i] = generation_text(g, generation_reply_rule(g, i)->pattern);
	sieve = sieve_open(patterns, g->reply_rule_count);
	free(patterns);
	return sieve;
}

int judge_open(struct judge **judge, const struct generation *g, struct diag *diag) {
	struct judge *new = calloc(1, sizeof(*new));
	char why[160];
	size_t at;

	*judge = new;
	if (new == NULL)
		return diag_set(diag, 0, "no memory for the reply rules");
	new->generation = g;
	new->room = pattern_room_open();
	new->sieve = open_sieve(g);
	new->patterns = calloc((size_t)g->reply_rule_count + 1, sizeof(*new->patterns));
	if (new->room == NULL || new->sieve == NULL || new->patterns == NULL) {
		judge_close(judge);
		return diag_set(diag, 0, "no memory for the reply rules");
	}
	for (uint32_t i = 0; i < g->reply_rule_count; i++) {
		const char *text = generation_text(g, generation_reply_rule(g, i)->pattern);

		if (pattern_compile(&new->patterns[i].pattern, text, true, why, sizeof(why),
		    &at) != 0) {
			judge_close(judge);
			return diag_set(diag, 0, "pattern of rule %u: %s", i, why);
		}
	}
	return 0;
}

void judge_close(struct judge **judge) {
	struct judge *old = *judge;

	if (old == NULL)
		return;
	if (old->patterns != NULL)
		for (uint32_t i = 0; i < old->generation->reply_rule_count; i++)
			pattern_free(&old->patterns[i].pattern);
	free(old->patterns);
	sieve_close(&old->sieve);
	pattern_room_close(&old->room);
	free(old);
	*judge = NULL;
}

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

/* The lane of address verification probes clones the same transport. */
static bool is_probe_lane(struct span name) {
	return span_is(name, "probe/smtp");
}

/* That of probes of relay domains clones the transport which these use, if that is one of ours. */
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

static void find_mta(const struct generation *g, unsigned mtas, const struct delivery *d,
    struct judgement *out) {
	struct span transport, name;
	size_t rest = 0;

	switch (d->source) {
	case DELIVERY_OF_POSTFIX:
		out->mta = judge_postfix(g, mtas, d->program, &rest);
		break;
	case DELIVERY_OF_SENDMAIL:
		out->mta = find_sendmail(g, mtas, d->program);
		break;
	case DELIVERY_OF_OTHER:
		out->mta = find_first(g, mtas);
		break;
	}
	if (d->source != DELIVERY_OF_POSTFIX || out->mta == GENERATION_MTAS_MAX)
		return;
	name = (struct span){ d->program.text + rest, d->program.length - rest };
	if (is_relay_probe(g, d, name, out))
		return;
	out->lane = lane_of(name, &transport);
	out->cloned = out->lane != 0 || is_probe_lane(name) ||
	    span_is(d->program, generation_text(g, g->mtas[out->mta].clone_program));
	find_transport(g, d, transport, out);
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

void judge_delivery(struct judge *judge, unsigned mtas, const struct delivery *delivery,
    struct judgement *out) {
	const struct generation *g = judge->generation;

	memset(out, 0, sizeof(*out));
	out->owner.provider = JUDGE_NONE;
	out->rule = JUDGE_NONE;
	out->mta = GENERATION_MTAS_MAX;
	reply_judge(delivery, &out->reply);
	find_mta(g, mtas, delivery, out);
	if (out->mta == GENERATION_MTAS_MAX && delivery->source != DELIVERY_OF_OTHER)
		return;
	find_owner(g, out->mta < g->mta_count ? &g->mtas[out->mta] : NULL, delivery, out);
	if (delivery->agent == AGENT_SMTP)
		out->rule = judge_reply(judge, out->owner.provider, &out->reply);
}

/* --- for others ------------------------------------------------------------- */

bool judge_provider_destination(const struct generation *generation, uint32_t provider,
    char out[JUDGE_NAME_MAX + 1]) {
	int length = snprintf(out, JUDGE_NAME_MAX + 1, "provider:%s",
	    generation_text(generation, generation_provider(generation, provider)->name));

	return length > 0 && length <= JUDGE_NAME_MAX;
}

void judge_rule(const struct generation *generation, uint32_t rule, struct judge_rule *out) {
	const struct generation_reply_rule *row = generation_reply_rule(generation, rule);

	*out = (struct judge_rule){
		.action = (enum reply_action)row->action,
		.for_ns = row->for_ns,
		.ceiling = row->ceiling,
		.pace = generation_rule_pace(generation, row),
		.count = row->count,
		.period_ns = row->period_ns,
		.identity = row->identity,
		.provider = row->provider == GENERATION_NO_PROVIDER ? "" :
		    generation_text(generation, generation_provider(generation,
		    row->provider)->name),
		.name = generation_text(generation, row->name),
		.note = generation_text(generation, row->note),
		.file = generation_text(generation, row->file),
		.line = row->line,
	};
}

uint64_t judge_patterns_given_up(const struct judge *judge) {
	return judge->given_up;
}

bool judge_teaches(const struct generation *generation, const struct judgement *judgement) {
	const struct generation_reply_rule *rule;

	if (judgement->owner.kind == DESTINATION_NONE)
		return false;
	if (judgement->rule == JUDGE_NONE)
		return true;
	rule = generation_reply_rule(generation, judgement->rule);
	return rule->action != REPLY_ACTION_ALERT &&
	    (rule->action != REPLY_ACTION_SLOW || rule->has_class);
}

enum judged_weight judged_weight(enum result_class class) {
	switch (class) {
	case RESULT_OK:
	case RESULT_RCPT_TEMPORARY:
	case RESULT_PERMANENT:
		return JUDGED_POSITIVE;
	case RESULT_SITE_FAILURE:
	case RESULT_REMOTE_THROTTLE:
		return JUDGED_NEGATIVE;
	default:
		return JUDGED_NEUTRAL;
	}
}

enum result_class judge_heard(const struct generation *generation,
    const struct judgement *judgement) {
	const struct reply *reply = &judgement->reply;
	bool untried = reply->phase == PHASE_NONE || reply->phase == PHASE_DNS;

	if (reply->class == RESULT_SUSPENDED)
		return RESULT_SUSPENDED;
	if (!judge_teaches(generation, judgement) || (untried && reply->class != RESULT_OK &&
	    judged_weight(reply->class) == JUDGED_POSITIVE))
		return RESULT_LOCAL;
	return reply->class;
}

bool judge_keeps(const struct generation *generation, const struct judgement *judgement,
    const struct delivery *delivery) {
	uint32_t from = judgement->mta < generation->mta_count ?
	    generation->mtas[judgement->mta].cache_from : 0;

	return delivery->conn_use > 1 || (from != 0 && judgement->lane >= from);
}
