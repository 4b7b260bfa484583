/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What this node asks for of limits that hold for all nodes.
 * MODEL    Each turn looks at the shared classes as they are in the segment and asks the law
 *          (policy/window/share.h) whether a call is due, and what it is to say of each.  Members are
 *          numbered as the classes of the generation are; one whose place another class takes
 *          begins anew.
 * ERRORS   A class whose lock cannot be had is left out of the call: nothing of it changes.
 * THREADS  One.
 */
#include "engine/cluster/shares_turn.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"

static int64_t in_ms(int64_t ns) {
	return ns / NS_PER_MS;
}

static struct share_seen seen_of(const struct shares_turns *turns,
    const struct shares_member *member) {
	const struct share_class *now = &member->now;

	return (struct share_seen){ .whole = now->whole, .fixed = now->fixed,
		.leased = now->leased, .most = now->most, .open = now->open,
		.open_small = now->open_small, .refused_small = now->refused_small,
		.refused_other = now->refused_other, .nodes = turns->nodes,
		.alive = turns->hears ? turns->alive : 0 };
}

/* --- turns --------------------------------------------------------------------------------- */

struct taking {
	struct shares_turns *turns;
	const struct generation *generation;
	unsigned count;
};

static void take_member(void *context, const struct share_class *class) {
	struct taking *taking = context;
	struct shares_member *member;

	if (taking->count == SHARES_CLASSES_MAX)
		return;
	member = &taking->turns->members[taking->count++];
	if (strcmp(member->name, class->name) != 0) {
		/* by another configuration, another class stands here */
		memset(member, 0, sizeof(*member));
		text_append(member->name, sizeof(member->name), 0, "%s", class->name);
	}
	member->record = (uint16_t)generation_class(taking->generation,
	    class->class_index)->record;
	member->now = *class;
	member->now.name = member->name;
}

void shares_turn(struct shares_turns *turns, const struct generation *generation,
    int64_t now_ns) {
	struct taking taking = { .turns = turns, .generation = generation };

	(void)shares_each(turns->engine, generation, now_ns, take_member, &taking);
	turns->member_count = taking.count;
	for (unsigned i = 0; i < turns->member_count; i++) {
		struct share_seen seen = seen_of(turns, &turns->members[i]);

		share_turn(&turns->members[i].memory, &seen, in_ms(now_ns));
	}
}

static enum share_news news_of(const struct shares_turns *turns, int64_t sent_ns,
    int64_t now_ns) {
	if (!turns->hears)
		return SHARE_NEWS_NONE;
	return turns->short_ns > sent_ns && in_ms(now_ns - turns->short_ns) < SHARE_NEWS_MS ?
	    SHARE_NEWS_SHORT : SHARE_NEWS_QUIET;
}

bool shares_are_due(const struct shares_turns *turns, int64_t sent_ns, int64_t wait_until_ns,
    int64_t now_ns) {
	int64_t gone_ms = in_ms(now_ns - sent_ns);

	/* it is over then, or as soon as another node has seen that it is */
	if (wait_until_ns != 0)
		return now_ns >= wait_until_ns || gone_ms >= SHARE_ASK_MS;
	if (sent_ns == 0 || gone_ms >= turns->lease_ms / 3 ||
	    (gone_ms >= SHARE_ASK_MS && shares_any_parted(turns->engine)))
		return true;
	for (unsigned i = 0; i < turns->member_count; i++) {
		struct share_seen seen = seen_of(turns, &turns->members[i]);

		if (share_due(&turns->members[i].memory, &seen, news_of(turns, sent_ns, now_ns),
			in_ms(sent_ns), turns->lease_ms, in_ms(now_ns)) != SHARE_NOT_DUE)
			return true;
	}
	return false;
}

/* --- calls --------------------------------------------------------------------------------- */

unsigned shares_call(struct shares_turns *turns, const struct generation *generation,
    int64_t now_ns, struct shares_call *calls) {
	unsigned count = 0;

	turns->tells = in_ms(now_ns - turns->told_ns) >= SHARE_TELL_MS;
	for (unsigned i = 0; i < turns->member_count; i++) {
		struct shares_member *member = &turns->members[i];
		struct share_seen seen = seen_of(turns, member);
		struct share_ask ask = share_asks(&member->memory, &seen);

		calls[count].member = i;
		if (!shares_lower(turns->engine, generation, member->now.class_index, ask.keep,
			now_ns, &calls[count].held))
			continue;
		member->asked = ask;
		count++;
	}
	return count;
}

void shares_called(struct shares_turns *turns, const struct shares_call *calls,
    unsigned count) {
	for (unsigned i = 0; i < count; i++) {
		struct shares_member *member = &turns->members[calls[i].member];
		struct share_seen seen = seen_of(turns, member);

		share_sent(&member->memory, &seen);
	}
}

void shares_reborn(struct shares_turns *turns, const struct generation *generation,
    int64_t now_ns) {
	const struct share_pools none = { 0, 0 };

	for (unsigned i = 0; i < turns->member_count; i++)
		(void)shares_grant(turns->engine, generation, turns->members[i].now.class_index,
		    none, none, now_ns, now_ns);
}

void shares_answered(struct shares_turns *turns, const struct generation *generation,
    unsigned member_number, const struct shares_answer *answer, int64_t until_ns,
    int64_t now_ns) {
	struct shares_member *member = &turns->members[member_number];
	struct share_seen seen = seen_of(turns, member);

	(void)shares_grant(turns->engine, generation, member->now.class_index, answer->granted,
	    answer->fair, until_ns, now_ns);
	shares_told(turns->engine, generation, member->now.class_index, answer->whole, now_ns);
	share_answered(&member->memory, &seen, &member->asked, answer->granted,
	    answer->others_short, answer->free);
	member->differs = answer->differs;
	if (turns->tells && (member->memory.short_self || member->memory.claimed))
		turns->told_ns = now_ns;
}
