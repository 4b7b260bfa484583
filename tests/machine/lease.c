/* SPDX-License-Identifier: ISC */
#include "tests/machine/lease_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

#define SEEN		500

static void answer_head(struct turn *t, const char *status) {
	reply_begin(t->reply);
	reply_text(t->reply, status);
	reply_text(t->reply, t->now.epoch[0] == '\0' ? "-" : t->now.epoch);
	reply_number(t->reply, t->now.event);
}

static void finish(struct turn *t) {
	*t->stored = t->now;
}

/* --- time ------------------------------------------------------------------------------- */

static int64_t gone_after(int64_t lease) {
	return lease - SEEN;
}

static int64_t wait_for(int64_t lease) {
	return lease + lease / 10 + 50;
}

static struct lease_mark *mark_of(struct lease_marks *row, const char *who) {
	for (unsigned i = 0; i < row->count; i++)
		if (strcmp(row->marks[i].who, who) == 0)
			return &row->marks[i];
	return NULL;
}

static int64_t seen(struct turn *t, unsigned row_number, const char *who, int64_t last) {
	struct lease_marks *row = &t->now.rows[row_number];
	struct lease_mark *mark = mark_of(row, who);

	if (mark == NULL && t->has_heard && t->head.event >= last) {
		MUST(row->count < LEASE_MARKS);
		mark = &row->marks[row->count++];
		snprintf(mark->who, sizeof(mark->who), "%s", who);
		mark->ms = t->head.heard;
	}
	return mark == NULL ? 0 : most_of(0, t->head.sent - mark->ms);
}

static void slot_text(unsigned slot, char out[36]) {
	snprintf(out, 36, "%u", slot);
}

/* `own`: the slot of the observer, which does not observe itself; 0: it has none. */
static void observe(struct turn *t, const char *who, unsigned own) {
	for (unsigned i = 1; i <= LEASE_SLOTS; i++) {
		struct lease_node *node = &t->now.nodes[i];

		if (node->used && i != own && node->alive &&
		    seen(t, i, who, node->last) >= gone_after(node->lease))
			node->alive = false;
	}
	if (!t->now.ready && seen(t, 0, who, 0) >= wait_for(t->now.longest))
		t->now.ready = true;
}

static int64_t passed(struct turn *t, unsigned row, const char *who) {
	const struct lease_mark *mark = mark_of(&t->now.rows[row], who);

	return mark == NULL ? 0 : t->head.sent - mark->ms;
}

static int64_t left(struct turn *t, unsigned slot, const char *who) {
	return most_of(1, gone_after(t->now.nodes[slot].lease) - passed(t, slot, who));
}

static void forget_observer(struct turn *t, unsigned slot) {
	char who[36];

	slot_text(slot, who);
	for (unsigned i = 0; i <= LEASE_SLOTS; i++) {
		struct lease_marks *row = &t->now.rows[i];
		struct lease_mark *mark = mark_of(row, who);

		if (mark != NULL)
			*mark = row->marks[--row->count];
	}
}

struct totals {
	int64_t most, alive, known;
};

static struct totals totals(const struct turn *t) {
	struct totals sum = { .most = t->head.nodes };

	for (unsigned i = 1; i <= LEASE_SLOTS; i++) {
		const struct lease_node *node = &t->now.nodes[i];

		sum.known += node->used;
		sum.alive += node->used && node->alive;
		if (node->used && node->alive)
			sum.most = most_of(sum.most, node->nodes);
	}
	sum.most = most_of(sum.most, sum.known);
	return sum;
}

static int64_t wait_left(struct turn *t) {
	char who[36];

	slot_text(t->slot, who);
	return t->now.ready ? 0 :
	    most_of(1, wait_for(t->now.longest) - passed(t, 0, who));
}

static void answer_ok(struct turn *t) {
	struct totals sum = totals(t);

	answer_head(t, "ok");
	reply_number(t->reply, t->now.nodes[t->slot].token);
	reply_number(t->reply, t->now.nodes[t->slot].life);
	reply_number(t->reply, wait_left(t));
	reply_number(t->reply, sum.most);
	reply_number(t->reply, sum.alive);
	reply_number(t->reply, sum.known);
}

static bool refuses_lease(struct turn *t) {
	for (unsigned i = 1; i <= LEASE_SLOTS; i++) {
		const struct lease_node *node = &t->now.nodes[i];

		if (i == t->slot || !node->used || !node->alive || node->lease == t->head.lease)
			continue;
		answer_head(t, "lease");
		reply_number(t->reply, node->lease);
		reply_text(t->reply, node->name);
		finish(t);
		return true;
	}
	return false;
}

/* --- hello --------------------------------------------------------------------------------- */

static bool take_slot(struct turn *t) {
	struct totals sum = totals(t);

	if (sum.known >= sum.most) {
		answer_head(t, "full");
		reply_number(t->reply, sum.most);
		return false;
	}
	for (t->slot = 1; t->now.nodes[t->slot].used; t->slot++)
		MUST(t->slot < LEASE_SLOTS);
	t->now.nodes[t->slot] = (struct lease_node){ .used = true };
	memcpy(t->now.nodes[t->slot].name, t->head.name, sizeof(t->head.name));
	memcpy(t->now.nodes[t->slot].instance, t->head.instance, sizeof(t->head.instance));
	return true;
}

static void hello(struct turn *t) {
	bool is_own = t->slot != 0 &&
	    strcmp(t->now.nodes[t->slot].instance, t->head.instance) == 0;
	struct lease_node *node;
	char watcher[36];

	if (is_own)
		slot_text(t->slot, watcher);
	else
		snprintf(watcher, sizeof(watcher), "@%s", t->head.instance);
	t->now.longest = most_of(t->now.longest, t->head.lease);
	observe(t, watcher, is_own ? t->slot : 0);
	if (t->slot != 0 && !is_own) {
		node = &t->now.nodes[t->slot];
		if (node->alive) {
			answer_head(t, "taken");
			reply_number(t->reply, left(t, t->slot, watcher));
			reply_text(t->reply, node->instance);
			finish(t);
			return;
		}
		forget_observer(t, t->slot);
		memcpy(node->instance, t->head.instance, sizeof(node->instance));
	}
	if (refuses_lease(t) || (t->slot == 0 && !take_slot(t)))
		return;
	t->now.event++;
	t->now.tokens++;
	node = &t->now.nodes[t->slot];
	slot_text(t->slot, watcher);
	observe(t, watcher, t->slot);
	node->token = t->now.tokens;
	node->sequence = 0;
	if (!node->alive) {
		node->lease = t->head.lease;
		node->nodes = t->head.nodes;
	}
	finish(t);
	answer_ok(t);
}

/* --- share ----------------------------------------------------------------------------------- */

static void read_ask(const char *text, struct ask *ask) {
	int64_t *const numbers[] = { &ask->limit, &ask->version, &ask->fixed, &ask->hold,
		&ask->need, &ask->want, &ask->open };
	char *end = NULL;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		*numbers[i] = strtoll(text, &end, 10);
		MUST(end > text && *end == ' ');
		text = end + 1;
	}
	MUST(strlen(text) < sizeof(ask->name));
	memcpy(ask->name, text, strlen(text) + 1);
}

static bool share(struct turn *t, const char *const *pools, size_t count) {
	struct lease_node *node = &t->now.nodes[t->slot];
	int64_t before = node->last, most;
	char who[36];

	if (t->head.sequence <= node->sequence) {
		answer_head(t, "old");
		return false;
	}
	slot_text(t->slot, who);
	observe(t, who, t->slot);
	if (refuses_lease(t))
		return false;
	t->now.event++;
	if (strcmp(t->head.other, "fresh") == 0)
		node->alive = false;
	if (!node->alive) {
		node->alive = true;
		node->life = t->now.event;
	}
	node->sequence = t->head.sequence;
	node->last = t->now.event;
	node->lease = t->head.lease;
	node->nodes = t->head.nodes;
	t->now.longest = most_of(t->now.longest, t->head.lease);
	t->now.rows[t->slot].count = 0;
	answer_ok(t);
	most = totals(t).most;
	for (size_t i = 0; i < count; i++) {
		struct ask ask;

		read_ask(pools[i], &ask);
		lease_settle(t, &ask, most, !t->now.ready, before);
	}
	finish(t);
	return t->lacks && strcmp(t->head.other, "tell") == 0;
}

/* --- by hand, and to look ------------------------------------------------------------------------- */

static void forget(struct turn *t) {
	unsigned whose = 0;
	char who[36];

	for (unsigned i = 1; i <= LEASE_SLOTS; i++)
		if (t->now.nodes[i].used && strcmp(t->now.nodes[i].name, t->head.other) == 0)
			whose = i;
	if (whose == 0) {
		answer_head(t, "bad");
		reply_text(t->reply, "no such node");
		return;
	}
	t->now.event++;
	slot_text(t->slot, who);
	observe(t, who, t->slot);
	if (t->now.nodes[whose].alive) {
		answer_head(t, "alive");
		reply_number(t->reply, whose == t->slot ? t->now.nodes[whose].lease :
		    left(t, whose, who));
		finish(t);
		return;
	}
	forget_observer(t, whose);
	t->now.nodes[whose].used = false;
	t->now.rows[whose].count = 0;
	if (whose == t->slot)
		answer_head(t, "again");
	else
		answer_ok(t);
	finish(t);
}

static void look_at_pool(struct turn *t, const struct ask *ask, int64_t number,
    const int64_t *places, struct redis_value *shares, size_t *count, size_t most) {
	struct lease_pool pool;

	(void)lease_read_pool(t, ask->name, &pool);
	for (unsigned i = 0; i < pool.count; i++) {
		const struct lease_part *part = &pool.parts[i];
		const int64_t words[] = { number, places[part->slot], part->granted, part->need,
			part->open, part->limit, part->fixed };
		struct redis_value *items;

		if (*count >= most || (part->granted == 0 && part->need == 0 && part->open == 0 &&
		    part->limit == ask->limit && part->fixed == ask->fixed))
			continue;
		items = reply_list(t->reply, 7);
		for (unsigned k = 0; k < 7; k++)
			items[k] = (struct redis_value){ .kind = REDIS_KIND_NUMBER, .number = words[k] };
		reply_set_list(&shares[(*count)++], items, 7);
	}
}

static size_t look_at_nodes(struct turn *t, struct redis_value *nodes, int64_t *places) {
	size_t count = 0;

	for (unsigned i = 1; i <= LEASE_SLOTS; i++) {
		const struct lease_node *node = &t->now.nodes[i];
		const int64_t words[] = { node->alive, node->last, node->nodes };
		struct redis_value *items;

		if (!node->used)
			continue;
		items = reply_list(t->reply, 4);
		items[0] = reply_text_value(t->reply, node->name);
		for (unsigned k = 0; k < 3; k++)
			items[k + 1] = (struct redis_value){ .kind = REDIS_KIND_NUMBER,
				.number = words[k] };
		places[i] = (int64_t)count;
		reply_set_list(&nodes[count++], items, 4);
	}
	return count;
}

static void look(struct turn *t, const char *const *pools, size_t pool_count) {
	const size_t most = LEASE_SLOTS * 8;
	struct redis_value *nodes, *shares;
	size_t count, share_count = 0;
	int64_t places[LEASE_SLOTS + 1] = { 0 };

	answer_ok(t);
	nodes = reply_list(t->reply, LEASE_SLOTS);
	count = look_at_nodes(t, nodes, places);
	reply_set_list(reply_item(t->reply), nodes, count);
	shares = reply_list(t->reply, most);
	for (size_t i = 0; i < pool_count; i++) {
		struct ask ask;

		read_ask(pools[i], &ask);
		look_at_pool(t, &ask, (int64_t)i, places, shares, &share_count, most);
	}
	reply_set_list(reply_item(t->reply), shares, share_count);
}

/* --- a call ---------------------------------------------------------------------------------------- */

static void read_head(const char *text, struct head *head) {
	long long numbers[7], schema;
	int words = sscanf(text, "%7s %lld %31s %32s %lld %lld %19s %lld %lld %lld %lld %lld %19s %33s",
	    head->operation, &schema, head->name, head->instance, &numbers[0], &numbers[1],
	    head->epoch, &numbers[2], &numbers[3], &numbers[4], &numbers[5], &numbers[6],
	    head->nonce, head->other);

	MUST(words == 14);
	head->token = numbers[0];
	head->sequence = numbers[1];
	head->event = numbers[2];
	head->heard = numbers[3];
	head->sent = numbers[4];
	head->lease = numbers[5];
	head->nodes = numbers[6];
}

/* False: the call comes of another epoch. */
static bool begin_epoch(struct turn *t, const char *run) {
	if (t->now.is && strcmp(t->now.run, run) == 0)
		return true;
	if (strcmp(t->head.operation, "hello") != 0)
		return false;
	memset(&t->now, 0, sizeof(t->now));
	t->now.is = true;
	snprintf(t->now.run, sizeof(t->now.run), "%s", run);
	memcpy(t->now.epoch, t->head.nonce, sizeof(t->now.epoch));
	return true;
}

static bool is_another(const struct turn *t) {
	const struct lease_node *node = &t->now.nodes[t->slot];

	return t->slot == 0 || strcmp(node->instance, t->head.instance) != 0 ||
	    node->token != t->head.token || strcmp(t->head.epoch, t->now.epoch) != 0;
}

bool lease_run(struct lease_data *lease, const char *run, const char *head, const char *const *pools,
    size_t count, struct lease_reply *reply) {
	struct turn t = { .stored = lease, .now = *lease, .reply = reply };

	memset(&t.head, 0, sizeof(t.head));
	read_head(head, &t.head);
	if (!begin_epoch(&t, run)) {
		reply_begin(reply);
		reply_text(reply, "again");
		reply_text(reply, "-");
		reply_number(reply, 0);
		return false;
	}
	for (unsigned i = 1; i <= LEASE_SLOTS; i++)
		if (t.now.nodes[i].used && strcmp(t.now.nodes[i].name, t.head.name) == 0)
			t.slot = i;
	t.has_heard = strcmp(t.head.epoch, t.now.epoch) == 0 && t.head.event <= t.now.event &&
	    t.head.heard <= t.head.sent && t.head.heard > 0;
	if (strcmp(t.head.operation, "hello") == 0) {
		hello(&t);
	} else if (is_another(&t)) {
		answer_head(&t, "again");
	} else if (strcmp(t.head.operation, "share") == 0) {
		return share(&t, pools, count);
	} else if (strcmp(t.head.operation, "forget") == 0) {
		forget(&t);
	} else {
		look(&t, pools, count);
	}
	return false;
}
