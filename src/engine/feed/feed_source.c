/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What a result says of the source that its mail went by (DESIGN section 17).
 * MODEL    It counts for the provider that took it, or all others.  That a new address is put off is
 *          the source's affair alone: its destination's window and pace do not hear of it.
 * ERRORS   engine/destination/sources.c.
 * THREADS  One.
 */
#include "engine/destination/sources.h"
#include "engine/feed/feed_internal.h"

/* A server that puts it off says so with a code; where none was reached, nothing is said. */
void feed_source(const struct feed_result *result) {
	const struct judgement *judgement = result->judgement;
	struct source_result counted = { .log = result->origin.log, .offset = result->origin.offset,
		.sent_ns = result->has_start ? result->start_ns - result->slack_ns : 0 };
	struct judge_rule rule = { .action = REPLY_ACTION_NONE };

	if (result->delivery->agent != AGENT_SMTP)
		return;
	if (judgement->rule != JUDGE_NONE)
		judge_rule(result->generation, judgement->rule, &rule);
	counted.throttled = judgement->reply.class == RESULT_REMOTE_THROTTLE ||
	    rule.action == REPLY_ACTION_SLOW ||
	    (judgement->reply.class == RESULT_SITE_FAILURE && judgement->reply.code != 0);
	counted.counts = counted.throttled || judgement->reply.class == RESULT_OK;
	engine_source_result(result->memory->engine, result->generation, judgement->source - 1,
	    judgement->owner.provider, &counted, result->clock_ns);
}

enum result_class feed_class_of_source(struct feed_learning *l, enum result_class class) {
	struct judge_rule rule;

	if (l->has_rule) {
		judge_rule(l->result->generation, l->result->judgement->rule, &rule);
		l->has_rule = rule.action != REPLY_ACTION_SLOW;
	}
	return class == RESULT_REMOTE_THROTTLE ? RESULT_LOCAL : class;
}
