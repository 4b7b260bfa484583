/* SPDX-License-Identifier: ISC */
/*
 * The way to Redis in virtual time: connections as front/cluster/redis.h has them, which hand over
 * late, break, and bring what was sent before they broke after what was sent later by another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "front/cluster/redis.h"
#include "tests/machine/network.h"

#define REDIS_MAX	512	/* connections of all lives of all roles */
#define RARELY		60	/* of so many commands one has an accident */
#define MESSAGE_BYTES	1500

enum item_kind { ITEM_OPENED, ITEM_ANSWER, ITEM_SUBSCRIBED, ITEM_MESSAGE, ITEM_ENDED };

/* Something that came for one end, in order. */
struct item {
	struct item *next;
	enum item_kind kind;
	uint32_t connection;
	struct lease_reply *reply;
	enum cluster_error error;
	char text[MESSAGE_BYTES];
};

struct waiting {
	redis_answer_fn *answer;
	void *context;
};

struct redis {
	struct process *process;	/* of this life: */
	int32_t pid;
	const struct redis_handlers *handlers;
	void *context;
	bool up, connecting, dropped, hears;
	uint32_t connection;		/* number of the one that stands; others are over */
	uint32_t server_life;		/* that it is with */
	struct item *items;
	struct waiting waiting[REDIS_AT_ONCE];
	unsigned waits;
	int64_t sign_ns;		/* by the node's clock */
	int64_t to_ns, from_ns;		/* when the last word arrives */
};

/* A command on its way. */
struct command {
	struct redis *redis;
	uint32_t connection, server_life;
	bool again;			/* repeated: nobody hears the answer */
	bool breaks;			/* the connection, before the answer comes */
	size_t count;
	char *words[];
};

static struct {
	const struct plan *plan;
	struct draws draws;
	bool calm;
	struct redis *all[REDIS_MAX];
	unsigned count;
	int64_t cut_until_ns[NODES_MAX];
} network;

/* --- the way -------------------------------------------------------------------------- */

static bool has_trouble(void) {
	return !network.calm && network.plan->cuts > 0;
}

static int64_t delay_ns(unsigned node) {
	int64_t now_ns = fibers_now_ns();
	int64_t delay = draw_scale(&network.draws, 50000, 2 * NS_PER_MS);

	if (has_trouble() && draw_below(&network.draws, 20) == 0)
		delay = draw_scale(&network.draws, NS_PER_MS, NS_PER_SECOND);
	return network.cut_until_ns[node] > now_ns ? network.cut_until_ns[node] - now_ns + delay :
	    delay;
}

static int64_t later_of(int64_t a, int64_t b) {
	return a > b ? a : b;
}

static bool is_alive(const struct redis *redis) {
	return redis->process->alive && redis->process->pid == redis->pid;
}

static void push(struct redis *redis, struct item item) {
	struct item *copy = malloc(sizeof(*copy)), **last = &redis->items;

	MUST(copy != NULL);
	*copy = item;
	copy->next = NULL;
	while (*last != NULL)
		last = &(*last)->next;
	*last = copy;
}

struct arrival {
	struct redis *redis;
	struct item item;
};

static void arrive(void *argument) {
	struct arrival *arrival = argument;
	struct redis *redis = arrival->redis;

	if (is_alive(redis) && redis->connection == arrival->item.connection && !redis->dropped) {
		push(redis, arrival->item);
		process_wake(redis->process);
	} else {
		free(arrival->item.reply);
	}
	free(arrival);
}

/* In the order in which they were sent. */
static void send_back(struct redis *redis, struct item item) {
	struct arrival *arrival = malloc(sizeof(*arrival));

	MUST(arrival != NULL);
	*arrival = (struct arrival){ redis, item };
	redis->from_ns = later_of(redis->from_ns, fibers_now_ns() + delay_ns(redis->process->node));
	timer_at(redis->from_ns, arrive, arrival);
}

static void hang_up(struct redis *redis, uint32_t connection) {
	struct item item = { .kind = ITEM_ENDED, .connection = connection,
		.error = CLUSTER_ERROR_CLOSED, .text = "connection reset" };

	send_back(redis, item);
}

/* --- commands ---------------------------------------------------------------------------- */

void network_tell(const char *text) {
	for (unsigned i = 0; i < network.count; i++) {
		struct redis *redis = network.all[i];
		struct item item = { .kind = ITEM_MESSAGE, .connection = redis->connection };

		if (!redis->hears || !is_alive(redis) || redis->server_life != redis_life())
			continue;
		snprintf(item.text, sizeof(item.text), "%s", text);
		send_back(redis, item);
	}
}

void network_lose(void) {
	for (unsigned i = 0; i < network.count; i++) {
		struct redis *redis = network.all[i];

		/* else it is noticed by who waits for an answer */
		if (is_alive(redis) && redis->up && draw_below(&network.draws, 8) > 0)
			hang_up(redis, redis->connection);
		redis->hears = false;
	}
}

static void command_free(struct command *command) {
	for (size_t i = 0; i < command->count; i++)
		free(command->words[i]);
	free(command);
}

static void on_command(void *argument) {
	struct command *command = argument;
	struct redis *redis = command->redis;
	struct item item = { .kind = ITEM_ANSWER, .connection = command->connection };

	if (redis_hangs_until_ns() > fibers_now_ns()) {
		timer_at(redis_hangs_until_ns(), on_command, command);
		return;
	}
	if (redis_life() == 0 || command->server_life != redis_life()) {
		if (!command->again)
			hang_up(redis, command->connection);
	} else if (strcmp(command->words[0], "SUBSCRIBE") == 0) {
		item.kind = ITEM_SUBSCRIBED;
		redis->hears = redis->connection == command->connection;
		send_back(redis, item);
	} else {
		item.reply = malloc(sizeof(*item.reply));
		MUST(item.reply != NULL);
		redis_execute(command->words, command->count, item.reply);
		if (command->breaks)
			hang_up(redis, command->connection);
		else if (!command->again)
			send_back(redis, item);
		if (command->breaks || command->again)
			free(item.reply);
	}
	command_free(command);
}

/* --- trouble ---------------------------------------------------------------------------- */

static void network_cut(unsigned node, int64_t for_ns) {
	world_log("node %u is cut off", node);
	network.cut_until_ns[node] = fibers_now_ns() + for_ns;
}

static void cut(void *argument) {
	(void)argument;
	if (!network.calm)
		network_cut(draw_below(&network.draws, network.plan->nodes + 1),
		    draw_scale(&network.draws, 50 * NS_PER_MS, 8 * NS_PER_SECOND));
}

void network_begin(const struct plan *plan) {
	int64_t most_ns = plan->spread * NS_PER_MS;

	network.plan = plan;
	network.draws.state = plan->seed ^ UINT64_C(0x2ed15);
	redis_begin(plan);
	for (uint32_t i = 0; i < plan->cuts; i++)
		timer_at(fibers_now_ns() + 1000 + (int64_t)(draw(&network.draws) % (uint64_t)most_ns),
		    cut, NULL);
}

void network_calm(void) {
	network.calm = true;
	memset(network.cut_until_ns, 0, sizeof(network.cut_until_ns));
	redis_calm();
}

/* --- front/cluster/redis.h -------------------------------------------------------------------- */

int redis_new(struct redis **redis, struct event_base *base,
    const struct redis_handlers *handlers, void *context, struct diag *diag) {
	struct redis *new = calloc(1, sizeof(*new));

	(void)base, (void)diag;
	MUST(new != NULL && network.count < REDIS_MAX);
	new->process = process_current();
	new->pid = new->process->pid;
	new->handlers = handlers;
	new->context = context;
	network.all[network.count++] = new;
	*redis = new;
	return 0;
}

void redis_free(struct redis **redis) {
	*redis = NULL;
}

struct connecting {
	struct redis *redis;
	uint32_t connection;
};

static void on_connect(void *argument) {
	struct connecting *attempt = argument;
	struct redis *redis = attempt->redis;
	struct item item = { .kind = ITEM_OPENED, .connection = attempt->connection };

	if (redis_life() != 0) {
		if (redis->connection == attempt->connection)
			redis->server_life = redis_life();
		send_back(redis, item);
	} else {
		item.kind = ITEM_ENDED;
		item.error = CLUSTER_ERROR_CONNECT;
		snprintf(item.text, sizeof(item.text), "connection refused");
		send_back(redis, item);
	}
	free(attempt);
}

void redis_connect(struct redis *redis, const char *address) {
	struct connecting *attempt = malloc(sizeof(*attempt));

	(void)address;
	MUST(attempt != NULL && !redis->up && !redis->connecting);
	redis->connecting = true;
	redis->dropped = redis->hears = false;
	redis->connection++;
	redis->sign_ns = clock_now_ns();
	redis->to_ns = redis->from_ns = 0;
	*attempt = (struct connecting){ redis, redis->connection };
	redis->to_ns = fibers_now_ns() + delay_ns(redis->process->node);
	timer_at(redis->to_ns, on_connect, attempt);
}

void redis_drop(struct redis *redis, enum cluster_error error, const char *text) {
	struct item item = { .kind = ITEM_ENDED, .connection = redis->connection, .error = error };

	if ((!redis->up && !redis->connecting) || redis->dropped)
		return;
	snprintf(item.text, sizeof(item.text), "%s", text);
	push(redis, item);
	redis->dropped = true;
	redis->hears = false;
}

static void send_command(struct redis *redis, const struct span *words, size_t count, bool again,
    bool breaks) {
	struct command *command = calloc(1, sizeof(*command) + count * sizeof(char *));
	int64_t at_ns = fibers_now_ns() + delay_ns(redis->process->node);

	MUST(command != NULL);
	*command = (struct command){ .redis = redis, .connection = redis->connection,
		.server_life = redis->server_life, .again = again, .breaks = breaks, .count = count };
	for (size_t i = 0; i < count; i++) {
		command->words[i] = strndup(words[i].text, words[i].length);
		MUST(command->words[i] != NULL);
	}
	if (again)
		at_ns += draw_scale(&network.draws, 100000, 4 * NS_PER_SECOND);
	else
		at_ns = redis->to_ns = later_of(redis->to_ns, at_ns);
	timer_at(at_ns, on_command, command);
}

bool redis_command(struct redis *redis, const struct span *words, size_t count,
    redis_answer_fn *answer, void *context) {
	uint32_t accident = has_trouble() ? draw_below(&network.draws, 3 * RARELY) : 3;

	if (!redis->up || redis->dropped || redis->waits == REDIS_AT_ONCE)
		return false;
	if (redis->waits == 0)
		redis->sign_ns = clock_now_ns();
	redis->waiting[redis->waits++] = (struct waiting){ answer, context };
	if (accident == 0) {
		hang_up(redis, redis->connection);	/* before it arrived */
		return true;
	}
	send_command(redis, words, count, false, accident == 1);
	if (accident == 2)
		send_command(redis, words, count, true, false);
	return true;
}

bool redis_subscribe(struct redis *redis, const char *channel) {
	const struct span words[2] = { { "SUBSCRIBE", 9 }, { channel, strlen(channel) } };

	if (!redis->up || redis->dropped)
		return false;
	send_command(redis, words, 2, false, false);
	return true;
}

bool redis_is_silent(const struct redis *redis, int64_t patience_ns, int64_t now_ns) {
	return (redis->connecting || redis->waits > 0) && now_ns - redis->sign_ns >= patience_ns;
}

/* --- what came ---------------------------------------------------------------------------------- */

static void end_connection(struct redis *redis, const struct item *item) {
	struct waiting waiting[REDIS_AT_ONCE];
	unsigned count = redis->waits;

	memcpy(waiting, redis->waiting, sizeof(waiting));
	redis->waits = 0;
	redis->up = redis->connecting = redis->dropped = redis->hears = false;
	redis->connection++;
	for (unsigned i = 0; i < count; i++)
		waiting[i].answer(waiting[i].context, NULL);
	redis->handlers->ended(redis->context, item->error, item->text);
}

static void take(struct redis *redis, struct item *item) {
	struct waiting first;

	redis->sign_ns = clock_now_ns();
	switch (item->kind) {
	case ITEM_OPENED:
		redis->connecting = false;
		redis->up = true;
		redis->handlers->opened(redis->context);
		break;
	case ITEM_ANSWER:
		MUST(redis->waits > 0);
		first = redis->waiting[0];
		redis->waits--;
		memmove(redis->waiting, redis->waiting + 1, redis->waits * sizeof(first));
		first.answer(first.context, &item->reply->value);
		break;
	case ITEM_SUBSCRIBED:
		redis->handlers->subscribed(redis->context);
		break;
	case ITEM_MESSAGE:
		redis->handlers->message(redis->context, item->text, strlen(item->text));
		break;
	case ITEM_ENDED:
		end_connection(redis, item);
		break;
	}
}

bool network_deliver(void) {
	const struct process *process = process_current();

	for (unsigned i = 0; i < network.count; i++) {
		struct redis *redis = network.all[i];
		struct item *item = redis->items;

		if (redis->process != process || redis->pid != process->pid || item == NULL)
			continue;
		redis->items = item->next;
		if (item->connection == redis->connection &&
		    (!redis->dropped || item->kind == ITEM_ENDED))
			take(redis, item);
		free(item->reply);
		free(item);
		return true;
	}
	return false;
}
