/* SPDX-License-Identifier: ISC */
/* A judge is made; and what a judgement says to others: names, rules, weights (judge.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pattern.h"
#include "base/text.h"
#include "engine/judge/judge_internal.h"
#include "engine/judge/sieve.h"

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

bool judge_domain(struct span domain, char out[JUDGE_NAME_MAX + 1]) {
	struct address address;

	if (domain.length > 1 && domain.text[domain.length - 1] == '.')
		domain.length--;
	if (domain.length == 0 || domain.length > JUDGE_NAME_MAX)
		return false;
	if (domain.text[0] == '[') {	/* user@[192.0.2.1] */
		char text[ADDRESS_TEXT_MAX];

		if (!address_parse(domain.text, domain.length, &address))
			return false;
		address_format(&address, text);
		snprintf(out, JUDGE_NAME_MAX + 1, "[%s]", text);
		return true;
	}
	text_lower(out, domain.text, domain.length);
	for (size_t i = 0; i < domain.length; i++) {
		char c = out[i];

		if (c == '.' && (i == 0 || domain.text[i - 1] == '.'))
			return false;
		if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' &&
		    c != '_' && (unsigned char)c < 0x80)
			return false;
	}
	out[domain.length] = '\0';
	return true;
}

bool judge_transport_name(const struct generation *g, const struct generation_mta *mta,
    char name[JUDGE_NAME_MAX + 1]) {
	const char *transport = mta == NULL ? "" : generation_text(g, mta->transport);
	size_t length = strlen(name), prefix = strlen(transport) + 1;

	if (*transport == '\0' || generation_transport_prefix(name, length) != 0)
		return true;
	if (prefix + length > JUDGE_NAME_MAX) {
		name[0] = '\0';
		return false;
	}
	memmove(name + prefix, name, length + 1);
	text_lower(name, transport, prefix - 1);
	name[prefix - 1] = ':';
	return true;
}

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
	    rule->pace_alone == 0;
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
