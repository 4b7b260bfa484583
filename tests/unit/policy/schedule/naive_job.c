/* SPDX-License-Identifier: ISC */
#include "tests/unit/policy/schedule/naive_job.h"

#include <assert.h>
#include <string.h>

static int where(const struct naive_list *list, int value) {
	for (int i = 0; i < list->count; i++)
		if (list->item[i] == value)
			return i;
	return NONE;
}

static void insert(struct naive_list *list, int at, int value) {
	memmove(&list->item[at + 1], &list->item[at], sizeof(int) * (size_t)(list->count - at));
	list->item[at] = value;
	list->count++;
}

static void drop(struct naive_list *list, int value) {
	int at = where(list, value);

	assert(at >= 0);
	list->count--;
	memmove(&list->item[at], &list->item[at + 1], sizeof(int) * (size_t)(list->count - at));
}

static int behind(const struct naive_list *list, int value) {
	int at = where(list, value);

	return at + 1 < list->count ? list->item[at + 1] : NONE;
}

static struct naive_message *message_of(struct naive *naive, int job) {
	return &naive->message[naive->job[job].message];
}

static bool waits(const struct naive_job *job) {
	return job->selected < job->read;
}

bool naive_is_blocker(const struct naive *naive, int job) {
	return naive->job[job].level >= 0 &&
	    naive->job[job].tag == naive->transport[naive->job[job].transport].tag;
}

bool naive_has_children(const struct naive *naive, int job) {
	const struct naive_list *list = &naive->transport[naive->job[job].transport].list;

	for (int i = 0; i < list->count; i++)
		if (naive->job[list->item[i]].parent == job)
			return true;
	return false;
}

/* --- recipient slots ------------------------------------------------------------- */

static void move_limits(struct naive *naive, int number) {
	struct naive_job *job = &naive->job[number];
	struct naive_transport *transport = &naive->transport[job->transport];
	struct naive_message *message = &naive->message[job->message];
	int free = job->slots - job->in_core, message_free = message->slots - message->in_core;

	if (transport->next_unread == number) {
		int next = number;

		do {
			next = behind(&transport->by_time, next);
		} while (next != NONE && !message_of(naive, next)->more);
		transport->next_unread = next;
	}
	if (message_free < free)
		free = message_free;
	if (free <= 0)
		return;
	job->slots -= free;
	message->slots -= free;
	transport->unused += free;
	if (transport->next_unread != NONE && transport->unused > 0) {
		naive->job[transport->next_unread].slots += transport->unused;
		message_of(naive, transport->next_unread)->slots += transport->unused;
		transport->unused = 0;
	}
}

/* --- the list ----------------------------------------------------------------------- */

static void link_job(struct naive *naive, int number) {
	struct naive_job *job = &naive->job[number];
	struct naive_transport *transport = &naive->transport[job->transport];
	int64_t queued = message_of(naive, number)->queued_s;
	int current = transport->current, unread = transport->next_unread, at;

	for (at = transport->list.count; at > 0; at--) {
		int before = transport->list.item[at - 1];

		if (naive->job[before].parent == NONE &&
		    message_of(naive, before)->queued_s <= queued)
			break;
		if (before == current)
			current = NONE;
	}
	insert(&transport->list, at, number);
	for (at = transport->by_time.count; at > 0; at--) {
		int before = transport->by_time.item[at - 1];

		if (message_of(naive, before)->queued_s <= queued)
			break;
		if (before == unread)
			unread = NONE;
	}
	insert(&transport->by_time, at, number);
	job->level = 0;
	if (current == NONE)
		transport->current = number;
	if (unread == NONE) {
		unread = transport->next_unread;
		transport->next_unread = number;
		if (unread != NONE)
			move_limits(naive, unread);
	}
	if (transport->unused > 0) {
		job->slots += transport->unused;
		message_of(naive, number)->slots += transport->unused;
		transport->unused = 0;
	}
}

static void new_parent(struct naive *naive, int number, int parent) {
	const struct naive_list *list = &naive->transport[naive->job[number].transport].list;

	for (int i = 0; i < list->count; i++)
		if (naive->job[list->item[i]].parent == number)
			naive->job[list->item[i]].parent = parent;
}

static void unlink_job(struct naive *naive, int number) {
	struct naive_job *job = &naive->job[number];
	struct naive_transport *transport = &naive->transport[job->transport];

	new_parent(naive, number, NONE);
	if (transport->current == number)
		transport->current = behind(&transport->list, number);
	if (transport->cache == number || transport->cache_current == number)
		transport->cache_current = NONE;
	drop(&transport->list, number);
	drop(&transport->by_time, number);
	job->level = -1;
	job->tag = 0;
}

static void pop(struct naive *naive, int number) {
	struct naive_job *job = &naive->job[number];
	struct naive_transport *transport = &naive->transport[job->transport];
	int parent = job->parent;

	if (parent != NONE && naive->job[parent].level + 1 == job->level)
		naive->job[parent].available -= job->used *
		    (int)transport->settings.delivery_slot_cost;
	job->parent = NONE;
	new_parent(naive, number, parent);
	job->level = 0;
	transport->cache_current = NONE;
}

static void retire(struct naive *naive, int number) {
	if (naive->job[number].level > 0)
		pop(naive, number);
	move_limits(naive, number);
	unlink_job(naive, number);
}

static int obtain(struct naive *naive, int message, int transport) {
	int number = naive_job_of(message, transport);
	struct naive_job *job = &naive->job[number];

	if (!job->exists) {
		*job = (struct naive_job){ .exists = true, .message = message,
			.transport = transport, .parent = NONE, .level = -1 };
		insert(&naive->message[message].jobs, naive->message[message].jobs.count, number);
	}
	if (job->level < 0)
		link_job(naive, number);
	naive->transport[transport].cache_current = NONE;
	if (naive_is_blocker(naive, number)) {
		job->tag = 0;
		naive->transport[transport].current = naive->transport[transport].list.item[0];
	}
	return number;
}

static void blocker_update(struct naive *naive, int number) {
	struct naive_queue *queue = &naive->queue[number];
	struct naive_transport *transport = &naive->transport[queue->transport];

	if (queue->tag != transport->tag || queue->window <= queue->busy)
		return;
	if (queue->waiting > 0) {
		transport->tag += 2;
		transport->current = transport->list.item[0];
		transport->cache_current = NONE;
	}
	queue->tag = 0;
}

/* --- begin, batches ------------------------------------------------------------------ */

void naive_begin(struct naive *naive, const struct pool_settings *pool) {
	memset(naive, 0, sizeof *naive);
	naive->pool = *pool;
}

void naive_transport(struct naive *naive, int transport, const struct job_settings *settings) {
	naive->transport[transport] = (struct naive_transport){ .settings = *settings,
		.current = NONE, .next_unread = NONE, .cache = NONE, .cache_current = NONE,
		.tag = 1, .unused = (int)settings->recipient_limit };
	naive->transports++;
	/* The newest has the first turn. */
	naive->turn = transport;
}

bool naive_message(struct naive *naive, int message, int64_t queued_s) {
	naive->message[message] = (struct naive_message){ .queued_s = queued_s,
		.slots = (int)naive->pool.message_recipient_minimum };
	naive->message[message].promised = naive_first(naive, message);
	return naive->message[message].promised > 0;
}

void naive_batch_begin(struct naive *naive, int message, int unread, int64_t now_s) {
	naive->message[message].promised = 0;
	naive->message[message].reading = false;
	naive->message[message].more = unread > 0;
	naive->message[message].unread = unread;
	naive->message[message].refill_s = now_s;
}

static struct naive_peer *peer_of(struct naive *naive, int number, int queue) {
	struct naive_job *job = &naive->job[number];

	for (int i = 0; i < job->peers; i++)
		if (job->peer[i].queue == queue)
			return &job->peer[i];
	return NULL;
}

void naive_batch_add(struct naive *naive, int message, int queue, int recipients) {
	int transport = naive->queue[queue].transport, job = obtain(naive, message, transport);
	struct naive_peer *peer = peer_of(naive, job, queue);
	int limit = (int)naive->transport[transport].settings.destination_recipient_limit;

	if (peer == NULL) {
		peer = &naive->job[job].peer[naive->job[job].peers++];
		*peer = (struct naive_peer){ .queue = queue };
	}
	for (; recipients > 0; recipients--) {
		if (peer->waiting == 0 ||
		    (limit > 0 && peer->recipients[peer->waiting - 1] >= limit)) {
			assert(peer->waiting < NAIVE_ENTRIES);
			peer->recipients[peer->waiting++] = 0;
			naive->job[job].read++;
			naive->queue[queue].waiting++;
			naive->message[message].entries++;
		}
		peer->recipients[peer->waiting - 1]++;
		naive->job[job].in_core++;
		naive->message[message].in_core++;
		naive->in_core++;
	}
}

void naive_batch_end(struct naive *naive, int message) {
	const struct naive_list *jobs = &naive->message[message].jobs;

	for (int i = 0; i < jobs->count; i++)
		if (waits(&naive->job[jobs->item[i]]) && !naive_is_blocker(naive, jobs->item[i]))
			naive->transport[naive->job[jobs->item[i]].transport].cache_current = NONE;
	for (int i = 0; !naive->message[message].more && i < jobs->count; i++)
		move_limits(naive, jobs->item[i]);
}

/* --- done ------------------------------------------------------------------------------ */

static void forget_peer(struct naive *naive, int number, int queue) {
	struct naive_job *job = &naive->job[number];
	struct naive_peer *peer = peer_of(naive, number, queue);

	if (peer->waiting > 0 || peer->running > 0)
		return;
	job->peers--;
	memmove(peer, peer + 1, sizeof *peer * (size_t)(&job->peer[job->peers] - peer));
}

static void slots_after_done(struct naive *naive, int number) {
	struct naive_message *message = message_of(naive, number);

	for (int i = 0; i < message->jobs.count; i++) {
		const struct naive_job *sponsor = &naive->job[message->jobs.item[i]];

		if (message->jobs.item[i] != number && sponsor->in_core < sponsor->slots &&
		    (sponsor->level < 0 || !message->more))
			move_limits(naive, message->jobs.item[i]);
	}
	if (!message->more)
		move_limits(naive, number);
}

int naive_done(struct naive *naive, const struct naive_taken *taken) {
	struct naive_message *message = message_of(naive, taken->job);

	peer_of(naive, taken->job, taken->queue)->running -= taken->entries;
	naive->queue[taken->queue].busy -= taken->places;
	naive->transport[naive->job[taken->job].transport].busy -= taken->places;
	naive->job[taken->job].in_core -= taken->recipients;
	message->in_core -= taken->recipients;
	message->entries -= taken->entries;
	naive->in_core -= taken->recipients;
	slots_after_done(naive, taken->job);
	blocker_update(naive, taken->queue);
	forget_peer(naive, taken->job, taken->queue);
	if (message->entries == 0 && message->reading)
		return 1;
	if (message->entries == 0 && message->more) {
		message->reading = true;
		message->promised = naive_room(naive, naive->job[taken->job].message);
	}
	return message->entries;
}

static void withdraw_peer(struct naive *naive, int number, int queue) {
	struct naive_peer *peer = peer_of(naive, number, queue);

	if (peer == NULL || peer->waiting == 0)
		return;
	for (; peer->waiting > 0; peer->waiting--) {
		int recipients = peer->recipients[peer->waiting - 1];

		naive->job[number].selected++;
		naive->job[number].in_core -= recipients;
		naive->queue[queue].waiting--;
		message_of(naive, number)->entries--;
		message_of(naive, number)->in_core -= recipients;
		naive->in_core -= recipients;
	}
	slots_after_done(naive, number);
	blocker_update(naive, queue);
	forget_peer(naive, number, queue);
}

void naive_withdraw(struct naive *naive, int message, int queue) {
	for (int i = 0; i < naive->message[message].jobs.count; i++) {
		int number = naive->message[message].jobs.item[i];
		struct naive_job *job = &naive->job[number];

		if (queue != NONE) {
			if (naive->queue[queue].transport == job->transport)
				withdraw_peer(naive, number, queue);
			continue;
		}
		for (int peer = 0; peer < job->peers; ) {
			int peers = job->peers;

			withdraw_peer(naive, number, job->peer[peer].queue);
			peer += job->peers == peers;
		}
	}
}

void naive_close(struct naive *naive, int message) {
	struct naive_list *jobs = &naive->message[message].jobs;

	naive->message[message].more = false;
	naive->message[message].promised = 0;
	naive->message[message].unread = 0;
	naive_withdraw(naive, message, NONE);
	assert(naive->message[message].entries == 0);
	while (jobs->count > 0) {
		int number = jobs->item[0];

		if (naive->job[number].level > 0)
			pop(naive, number);
		move_limits(naive, number);
		assert(naive->job[number].slots == 0);
		if (naive->job[number].level >= 0)
			unlink_job(naive, number);
		naive->job[number].exists = false;
		drop(jobs, number);
	}
}

void naive_window(struct naive *naive, int queue, int window) {
	naive->queue[queue].window = window;
	blocker_update(naive, queue);
}

/* --- next --------------------------------------------------------------------------------- */

static void select_entry(struct naive *naive, int number, struct naive_peer *peer, int places,
    struct naive_taken *out) {
	struct naive_job *job = &naive->job[number];
	struct naive_transport *transport = &naive->transport[job->transport];

	*out = (struct naive_taken){ number, peer->queue, out->entries + 1,
		out->recipients + peer->recipients[0], places };
	peer->waiting--;
	memmove(peer->recipients, peer->recipients + 1, sizeof(int) * (size_t)peer->waiting);
	peer->running++;
	naive->queue[peer->queue].waiting--;
	job->selected++;
	job->available++;
	job->used++;
	if (transport->cache_current != number)
		transport->cache_current = NONE;
}

static int candidate(struct naive *naive, int number, int64_t now_s) {
	struct naive_job *current = &naive->job[number];
	struct naive_transport *transport = &naive->transport[current->transport];
	int slots = (current->read - current->selected + current->available) /
	    (int)transport->settings.delivery_slot_cost;
	int best_job = NONE;
	double best = 0;

	if (transport->cache_current == number &&
	    (transport->cache_s == now_s || transport->cache == NONE))
		return transport->cache;
	for (int i = where(&transport->list, number) + 1; slots > 0 && i < transport->list.count;
	    i++) {
		const struct naive_job *job = &naive->job[transport->list.item[i]];
		int64_t age = now_s - naive->message[job->message].queued_s + 1;
		int most = job->read + naive->message[job->message].unread;
		int left = most - job->selected;

		if (naive_has_children(naive, transport->list.item[i]) ||
		    naive_is_blocker(naive, transport->list.item[i]))
			continue;
		if (left > 0 && left <= slots && (double)age / most > best) {
			best = (double)age / most;
			best_job = transport->list.item[i];
		}
		if ((double)age <= best && job->level == 0)
			break;
	}
	transport->cache = best_job;
	transport->cache_current = number;
	transport->cache_s = now_s;
	return best_job;
}

static int preempt(struct naive *naive, int number, int64_t now_s) {
	struct naive_job *current = &naive->job[number], *job;
	struct naive_transport *transport = &naive->transport[current->transport];
	int cost = (int)transport->settings.delivery_slot_cost, found, expected;

	if (current->available <= 0 || current->read + message_of(naive, number)->unread <
	    (int)transport->settings.minimum_delivery_slots * cost)
		return number;
	found = candidate(naive, number, now_s);
	if (found == NONE)
		return number;
	job = &naive->job[found];
	expected = job->read + message_of(naive, found)->unread - job->selected;
	if (current->available / cost + (int)transport->settings.delivery_slot_loan <
	    expected * (100 - (int)transport->settings.delivery_slot_discount) / 100.0)
		return number;
	if (job->level > 0)
		pop(naive, found);
	drop(&transport->list, found);
	insert(&transport->list, where(&transport->list, number), found);
	job->parent = number;
	job->level = current->level + 1;
	transport->current = found;
	transport->cache_current = NONE;
	current->available -= expected * cost;
	job->used = -expected;
	if (message_of(naive, found)->more) {
		int extra = ((int)transport->settings.extra_recipient_limit + transport->unused + 1) /
		    2;

		job->slots += extra;
		message_of(naive, found)->slots += extra;
		transport->unused -= extra;
	}
	return found;
}

static struct naive_peer *peer_in_turn(struct naive *naive, int number) {
	struct naive_job *job = &naive->job[number];

	for (int i = 0; i < job->peers; i++) {
		const struct naive_queue *queue = &naive->queue[job->peer[i].queue];
		static struct naive_peer turned[NAIVE_QUEUES];

		if (queue->window <= queue->busy || job->peer[i].waiting == 0)
			continue;
		for (int k = 0; k < job->peers; k++)
			turned[k] = job->peer[(i + 1 + k) % job->peers];
		memcpy(job->peer, turned, sizeof *turned * (size_t)job->peers);
		return &job->peer[job->peers - 1];
	}
	return NULL;
}

static void read_more(struct naive *naive, int message, naive_read_fn *read, void *context) {
	int room = naive_room(naive, message);

	if (room == 0)
		return;
	naive->message[message].promised = room;
	naive->message[message].reading = true;
	read(context, message, room);
}

static struct naive_peer *select_peer(struct naive *naive, int number, naive_read_fn *read,
    void *context, int64_t now_s) {
	struct naive_job *job = &naive->job[number];
	struct naive_message *message = message_of(naive, number);
	const struct job_settings *settings = &naive->transport[job->transport].settings;
	struct naive_peer *peer;

	if (read != NULL && message->more && !message->reading && message->entries > 0 &&
	    message->slots > message->in_core &&
	    (message->slots - message->in_core >= (int)settings->recipient_refill_limit ||
	    now_s - message->refill_s >= settings->recipient_refill_delay_ns / 1000000000))
		read_more(naive, job->message, read, context);
	if (waits(job) && (peer = peer_in_turn(naive, number)) != NULL)
		return peer;
	if (read != NULL && message->more && !message->reading && message->entries > 0 &&
	    message->slots > message->in_core) {
		read_more(naive, job->message, read, context);
		if (waits(job))
			return peer_in_turn(naive, number);
	}
	return NULL;
}

static bool is_ready(const struct naive *naive, int number) {
	const struct naive_transport *transport = &naive->transport[number];

	if (transport->settings.process_limit > 0 &&
	    transport->busy >= (int)transport->settings.process_limit)
		return false;
	for (int i = 0; i < NAIVE_QUEUES; i++)
		if (naive->queue[i].transport == number && naive->queue[i].waiting > 0 &&
		    naive->queue[i].window > naive->queue[i].busy)
			return true;
	return false;
}

static bool next_of(struct naive *naive, int number, naive_read_fn *read, void *context,
    int64_t now_s, struct naive_taken *out) {
	struct naive_transport *transport = &naive->transport[number];
	int job = transport->current, next;

	if (!is_ready(naive, number) || job == NONE)
		return false;
	if (transport->settings.delivery_slot_cost >= 2)
		job = preempt(naive, job, now_s);
	for (; job != NONE; job = next) {
		struct naive_peer *peer;

		next = behind(&transport->list, job);
		if (naive_is_blocker(naive, job))
			continue;
		peer = select_peer(naive, job, read, context, now_s);
		if (peer != NULL) {
			*out = (struct naive_taken){ 0, 0, 0, 0, 0 };
			naive->queue[peer->queue].busy++;
			transport->busy++;
			select_entry(naive, job, peer, 1, out);
			transport->current = job;
			if (!waits(&naive->job[job]) && !message_of(naive, job)->more)
				retire(naive, job);
			return true;
		}
		if (!waits(&naive->job[job])) {
			retire(naive, job);
			continue;
		}
		naive->job[job].tag = transport->tag;
		for (int i = 0; i < naive->job[job].peers; i++)
			if (naive->job[job].peer[i].waiting > 0)
				naive->queue[naive->job[job].peer[i].queue].tag = transport->tag;
	}
	transport->current = NONE;
	return false;
}

bool naive_next(struct naive *naive, int transport, naive_read_fn *read, void *context,
    int64_t now_s, struct naive_taken *out) {
	if (transport != NONE)
		return next_of(naive, transport, read, context, now_s, out);
	/* Newest first, in a ring. */
	for (int i = 0; i < naive->transports; i++) {
		int each = (naive->turn - i + naive->transports) % naive->transports;

		if (next_of(naive, each, read, context, now_s, out)) {
			naive->turn = (each - 1 + naive->transports) % naive->transports;
			return true;
		}
	}
	return false;
}

bool naive_take(struct naive *naive, int message, int queue, int entries, int places,
    struct naive_taken *out) {
	int job = naive_job_of(message, naive->queue[queue].transport);
	struct naive_peer *peer = naive->job[job].exists ? peer_of(naive, job, queue) : NULL;

	if (peer == NULL || peer->waiting == 0 || entries == 0)
		return false;
	*out = (struct naive_taken){ 0, 0, 0, 0, 0 };
	naive->queue[queue].busy += places;
	naive->transport[naive->queue[queue].transport].busy += places;
	while (entries-- > 0 && peer->waiting > 0)
		select_entry(naive, job, peer, places, out);
	if (!waits(&naive->job[job]) && !naive->message[message].more)
		retire(naive, job);
	return true;
}

void naive_put_back(struct naive *naive, const struct naive_taken *taken) {
	struct naive_job *job = &naive->job[taken->job];
	struct naive_peer *peer = peer_of(naive, taken->job, taken->queue);

	assert(taken->entries == 1);
	(void)obtain(naive, job->message, job->transport);
	naive->queue[taken->queue].busy -= taken->places;
	naive->transport[job->transport].busy -= taken->places;
	peer->running--;
	memmove(peer->recipients + 1, peer->recipients, sizeof(int) * (size_t)peer->waiting);
	peer->recipients[0] = taken->recipients;
	peer->waiting++;
	naive->queue[taken->queue].waiting++;
	job->selected--;
	job->available--;
	job->used--;
	blocker_update(naive, taken->queue);
}

/* What the document's formulas leave; transport NONE: for all. */
static int bound_left(const struct naive *naive, int transport) {
	int most = (int)(naive->pool.message_recipient_minimum * naive->pool.message_active_limit);

	for (int i = 0; i < naive->transports; i++)
		if (i == transport || transport == NONE)
			most += (int)(naive->transport[i].settings.recipient_limit +
			    naive->transport[i].settings.extra_recipient_limit);
	if (most < (int)naive->pool.message_recipient_limit)
		most = (int)naive->pool.message_recipient_limit;
	for (int i = 0; i < NAIVE_MESSAGES; i++)
		most -= naive->message[i].promised;
	for (int i = 0; i < NAIVE_JOBS; i++)
		if (naive->job[i].exists &&
		    (transport == NONE || naive->job[i].transport == transport))
			most -= naive->job[i].in_core;
	return most < 0 ? 0 : most;
}

static int limited(const struct naive *naive, int message, int room) {
	if (room > (int)naive->pool.batch_most)
		room = (int)naive->pool.batch_most;
	for (int i = NONE; i < naive->transports; i++)
		if (i == NONE || naive->message[message].jobs.count == 0 ||
		    naive->job[naive_job_of(message, i)].exists)
			room = room < bound_left(naive, i) ? room : bound_left(naive, i);
	return room == 0 && naive->message[message].more && naive->message[message].entries == 0 ?
	    1 : room;
}

int naive_room(const struct naive *naive, int message) {
	int room = naive->message[message].slots - naive->message[message].in_core;

	if (!naive->message[message].more)
		return 0;
	if (naive->message[message].promised > 0)
		return naive->message[message].promised;
	return limited(naive, message, room < 1 ? naive->message[message].entries == 0 : room);
}

int naive_first(const struct naive *naive, int message) {
	int room = (int)naive->pool.message_recipient_limit - naive->in_core;

	if (naive->message[message].promised > 0)
		return naive->message[message].promised;
	return limited(naive, message, room < naive->message[message].slots ?
	    naive->message[message].slots : room);
}
