/* SPDX-License-Identifier: ISC */
/* What an answer says of itself: the class that a client's name has, by no other code than this,
 * and a verdict that follows from count and limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/decision/decisions.h"
#include "tests/machine/world.h"

#define CLIENTS_MAX	256
#define SEEN_NS		(500 * NS_PER_MS)	/* by then an end is seen */
#define ADMITTED_MAX	128
#define LOOKS_NS	(300 * NS_PER_MS)

static int64_t wrong_since_ns[CLIENTS_MAX];	/* a client is turned away though it has room; 0: not */

static bool ends_with(const char *text, const char *end) {
	return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

static const char *class_of(const struct tcp *tcp, const struct generation *generation) {
	static const char *const names[] = { "a", "b", "c", "o" };
	char end[3] = ".";

	for (unsigned i = 0; tcp->name != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
		end[1] = names[i][0];
		if (ends_with(tcp->name, end) &&
		    generation_find_class(generation, names[i]) != UINT32_MAX)
			return names[i];
	}
	return "all";
}

static bool is_at_milter(const struct policy_link *link) {
	return link->client_port != 0;
}

/* Where several machines share it each has less. */
static bool is_limit(const struct generation_class *class, uint32_t limit) {
	return class->shared ? limit <= class->limits.inbound : limit == class->limits.inbound;
}

/* What no reason of a new decision can be. */
static const char *wrong_of(const struct policy_link *link, const struct generation_class *class,
    const char *name, const struct decision *decision, bool at_recipient) {
	bool defers = strcmp(name, "b") == 0 && (at_recipient || !is_at_milter(link));
	bool observes = strcmp(name, "o") == 0;
	enum verdict no = observes ? VERDICT_ADMIT : defers ? VERDICT_DEFER : VERDICT_REFUSE;

	switch (decision->reason) {
	case REASON_BELOW_LIMIT:
		return decision->verdict != VERDICT_ADMIT ? "not admitted" :
		    !is_limit(class, decision->limit) ? "by another limit" :
		    decision->count >= decision->limit ? "at the limit" : NULL;
	case REASON_CLASS_INBOUND:
	case REASON_GATE_SHUT:
		return decision->verdict != no ? "by another action" :
		    decision->limit != class->limits.inbound ? "by another limit" :
		    decision->count < decision->limit ? "below the limit" : NULL;
	case REASON_CLASS_SHARE:
		return !class->shared ? "of no share" : decision->verdict != no ? "by another action" :
		    decision->limit >= class->limits.inbound ? "by all of the limit" :
		    decision->count < decision->limit ? "below the share" : NULL;
	case REASON_CLIENT_SESSIONS:
		return class->limits.client_sessions == LIMIT_NONE ? "where no client is limited" :
		    decision->verdict != VERDICT_REFUSE ? "by another action" :
		    decision->limit != class->limits.client_sessions ? "by another limit" :
		    decision->count < decision->limit ? "below the limit" : NULL;
	case REASON_CLASS_RATE:
	case REASON_CLIENT_RATE:
		return strcmp(name, "c") != 0 ? "where no rate is" :
		    decision->verdict != VERDICT_REFUSE ? "by another action" : NULL;
	case REASON_UNUSABLE:
	case REASON_UNTRACKED:
		return decision->verdict != VERDICT_ADMIT ? "not admitted" : NULL;
	default:
		return "that is none";
	}
}

static void check_client_refusal(const struct tcp *tcp, const struct generation_class *class,
    uint32_t class_index) {
	int64_t *since_ns = &wrong_since_ns[tcp->client.bytes[15]];
	uint32_t count = tcps_ended(class_index, &tcp->client, fibers_now_ns() - SEEN_NS);

	if (world_plan()->lies > 0)
		return;
	for (unsigned i = 0; i < TCP_MAX; i++)
		count += &tcps[i] != tcp && tcps[i].state == TCP_OPEN &&
		    address_equal(&tcps[i].client, &tcp->client);
	if (count >= class->limits.client_sessions)
		*since_ns = 0;
	else if (*since_ns == 0)
		*since_ns = fibers_now_ns();
	else if (fibers_now_ns() - *since_ns > LOOKS_NS)
		world_fail("refused", "client 192.0.2.%u has %u sessions of %u, and one is turned away",
		    tcp->client.bytes[15], count, class->limits.client_sessions);
}

/* Admissions of class c that were heard of, by time: never more in a span than a bucket has. */
static struct {
	int64_t at_ns[ADMITTED_MAX];
	uint8_t client[ADMITTED_MAX];
	uint32_t count;
} admitted;

void check_law_begins(void) {
	admitted.count = 0;	/* the state was made anew, and what a rate had used with it */
}

static void check_rate(const struct rate_limit *rate, int client, int64_t now_ns,
    const char *what) {
	uint32_t count = 0;

	for (uint32_t i = admitted.count; i > 0 && admitted.count - i < ADMITTED_MAX - 1; i--) {
		uint32_t at = (i - 1) % ADMITTED_MAX;
		int64_t span_ns = llabs(now_ns - admitted.at_ns[at]);

		if (client >= 0 && admitted.client[at] != client)
			continue;
		if (++count > rate_burst(rate) + (uint64_t)span_ns * rate->count /
		    (uint64_t)rate->period_ns)
			world_fail("rate", "%s: %u admitted in %lld us", what, count,
			    (long long)(span_ns / 1000));
	}
}

static void check_rates(const struct policy_link *link, const struct generation_class *class) {
	uint8_t client = link->tcp->client.bytes[15];

	if (class->limits.rate.count == 0)
		return;
	admitted.at_ns[admitted.count % ADMITTED_MAX] = link->asked_ns;
	admitted.client[admitted.count % ADMITTED_MAX] = client;
	admitted.count++;
	check_rate(&class->limits.rate, -1, link->asked_ns, "class c");
	check_rate(&class->limits.client_rate, client, link->asked_ns, "a client of class c");
}

void check_law(const struct policy_link *link, const struct generation *generation,
    const struct answer *answer, bool at_recipient) {
	const struct tcp *tcp = link->tcp;
	const struct generation_class *class;
	const char *name, *wrong;

	if (answer->class_index == CLASS_NO_RULE)
		world_fail("law", "session %u is of no class", tcp->number);
	class = generation_class(generation, answer->class_index);
	name = generation_text(generation, class->name);
	if (strcmp(name, class_of(tcp, generation)) != 0)
		world_fail("law", "session %u of %s is of class %s, not %s", tcp->number,
		    tcp->name == NULL ? "no name" : tcp->name, name, class_of(tcp, generation));
	if (!answer->newly_decided) {
		if (answer->decision.reason != REASON_KNOWN_SESSION ||
		    answer->decision.verdict != VERDICT_ADMIT)
			world_fail("law", "session %u is known: verdict %d", tcp->number,
			    (int)answer->decision.verdict);
		return;
	}
	wrong = wrong_of(link, class, name, &answer->decision, at_recipient);
	if (wrong != NULL)
		world_fail("law", "session %u of class %s: verdict %d reason %d count %u of %u: %s",
		    tcp->number, name, (int)answer->decision.verdict, (int)answer->decision.reason,
		    answer->decision.count, answer->decision.limit, wrong);
	if (answer->decision.reason == REASON_BELOW_LIMIT)
		check_rates(link, class);
	if (answer->decision.reason == REASON_CLIENT_SESSIONS)
		check_client_refusal(tcp, class, answer->class_index);
	else if (answer->decision.verdict == VERDICT_ADMIT)
		wrong_since_ns[tcp->client.bytes[15]] = 0;
}

void check_why(const struct segment *segment, const struct tcp *tcp,
    const struct generation *generation, const struct answer *answer) {
	struct decided why;

	if (answer->id == 0 || !decisions_find(segment, answer->id, &why) ||
	    !decided_is_sound(&why) || why.client_port != tcp->client_port ||
	    !address_equal(&why.client, &tcp->client) ||
	    why.verdict != (uint8_t)answer->decision.verdict)
		world_fail("why", "session %u: decision %llx is not there", tcp->number,
		    (unsigned long long)answer->id);
	if (why.reason != (uint8_t)answer->decision.reason || why.count != answer->decision.count ||
	    why.limit != answer->decision.limit || (answer->decision.reason != REASON_UNUSABLE &&
		strcmp(decided_text(&why, DECIDED_CLASS), generation_text(generation,
		    generation_class(generation, answer->class_index)->name)) != 0))
		world_fail("why", "session %u: decision %llx says class %s, reason %u, %u of %u",
		    tcp->number, (unsigned long long)answer->id, decided_text(&why, DECIDED_CLASS),
		    why.reason, why.count, why.limit);
}
