/* SPDX-License-Identifier: ISC */
/*
 * Sendmail's delivering processes: each takes one message, asks before it connects and, now and
 * then, once it is connected, by a map connection of its own; and ends.
 */
#include "tests/machine/senders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/machine/mail.h"

#define LETTERS_MAX	200

enum letter_state { LETTER_COMING, LETTER_ASKING, LETTER_OUT, LETTER_DEFERRED, LETTER_DONE };

struct sender senders[SENDERS_MAX];

static struct {
	const struct plan *plan;
	struct draws draws;
	enum letter_state letters[LETTERS_MAX];
	int32_t next_pid;
	uint32_t next_try;
	bool calm;
} all;

static void letter_goes(void *argument);
static void sender_connects(struct sender *sender);
static bool sender_takes_another(struct sender *sender);

static void letter_later(unsigned letter) {
	all.letters[letter] = LETTER_DEFERRED;
	timer_at(fibers_now_ns() + draw_scale(&all.draws, 200 * NS_PER_MS, 4 * NS_PER_SECOND),
	    letter_goes, &all.letters[letter]);
}

/* The process ends, and its map connection with it. */
static void sender_ends(struct sender *sender) {
	world_log("sender %d ends", sender->pid);
	sender->alive = false;
	sender->turn++;
	if (sender->link != NULL)
		role_end_link(sender->link);
	sender->link = NULL;
}

struct step {
	struct sender *sender;
	uint32_t turn;
	void (*call)(struct sender *);
};

static void step(void *argument) {
	struct step *step = argument;

	if (step->sender->alive && step->sender->turn == step->turn)
		step->call(step->sender);
	free(step);
}

static void sender_later(struct sender *sender, int64_t least_ns, int64_t most_ns,
    void (*call)(struct sender *)) {
	struct step *next = malloc(sizeof(*next));

	MUST(next != NULL);
	*next = (struct step){ sender, sender->turn, call };
	timer_at(fibers_now_ns() + draw_scale(&all.draws, least_ns, most_ns), step, next);
}

/* Asks about its letter, by the connection that it has or by another one. */
static void sender_asks(struct sender *sender) {
	struct policy_link *link = sender->link;

	sender->turn++;
	sender->try = ++all.next_try;
	all.letters[sender->letter] = LETTER_ASKING;
	if (link == NULL) {
		link = calloc(1, sizeof(*link));
		MUST(link != NULL);
		link->sender = sender;
		link->identity = (struct process_identity){ .pid = sender->pid,
			.start_ticks = (uint32_t)sender->pid * 7u };
		if (!role_connect(link, false, &all.draws)) {
			free(link);
			sender_connects(sender);
			return;
		}
	}
	link->domain = sender->domain;
	link->letter = sender->letter;
	link->try = sender->try;
	sender->link = link;
	sender->asks = true;
	role_ask(link, "before");
}

/* The next of its queue run, which is of the same domain or not. */
static bool sender_takes_another(struct sender *sender) {
	uint32_t first = draw_below(&all.draws, all.plan->letters);

	for (uint32_t i = 0; i < all.plan->letters; i++) {
		unsigned letter = (first + i) % all.plan->letters;

		if (all.letters[letter] != LETTER_DEFERRED)
			continue;
		sender->placed &= sender->domain == MAIL_SENDERS_FROM + letter % MAIL_SENDERS_DOMAINS;
		sender->letter = letter;
		sender->domain = MAIL_SENDERS_FROM + letter % MAIL_SENDERS_DOMAINS;
		world_log("sender %d goes on with letter %u", sender->pid, letter);
		if (sender->link != NULL && (!link_lives(sender->link) ||
		    draw_below(&all.draws, 4) == 0)) {
			role_end_link(sender->link);
			sender->link = NULL;
		}
		sender_asks(sender);
		return true;
	}
	return false;
}

static void sender_sent(struct sender *sender) {
	site_leave(sender->domain);
	sender->connected = false;
	mail_told(sender->try, sender->letter, sender->domain, true);
	all.letters[sender->letter] = LETTER_DONE;
	if (draw_below(&all.draws, 1000) < all.plan->chains && sender_takes_another(sender))
		return;
	sender_ends(sender);
}

static void sender_refused(struct sender *sender) {
	mail_told(sender->try, sender->letter, sender->domain, false);
	letter_later(sender->letter);
	sender_ends(sender);
}

static void sender_sends(struct sender *sender) {
	sender_later(sender, 2 * NS_PER_MS, 300 * NS_PER_MS, sender_sent);
}

static void sender_connects(struct sender *sender) {
	all.letters[sender->letter] = LETTER_OUT;
	if (!site_enter(sender->domain)) {
		sender_later(sender, NS_PER_MS, 10 * NS_PER_MS, sender_refused);
		return;
	}
	sender->connected = true;
	if (sender->link != NULL && link_lives(sender->link) && draw_below(&all.draws, 2) == 0) {
		sender->asks = true;
		role_ask(sender->link, "connected");
		return;
	}
	sender_sends(sender);
}

void sender_answered(struct policy_link *link, const struct outbound_answer *answer) {
	struct sender *sender = link->sender;

	if (!sender->alive || sender->link != link || !sender->asks)
		return;
	sender->asks = false;
	sender->turn++;
	if (answer->answer.decision.verdict == VERDICT_DEFER && !sender->connected) {
		letter_later(sender->letter);
		sender_ends(sender);
		return;
	}
	if (sender->connected)
		sender_sends(sender);
	else
		sender_later(sender, NS_PER_MS / 10, NS_PER_MS, sender_connects);
}

void senders_lose(const struct role *role, uint32_t start) {
	for (unsigned i = 0; i < SENDERS_MAX; i++) {
		struct sender *sender = &senders[i];

		if (!sender->alive || sender->link == NULL || sender->link->role != role ||
		    sender->link->start != start)
			continue;
		sender->link = NULL;
		if (!sender->asks)
			continue;
		/* its map says nothing: it goes on */
		sender->asks = false;
		sender->turn++;
		sender_later(sender, NS_PER_MS / 10, NS_PER_MS,
		    sender->connected ? sender_sends : sender_connects);
	}
}

static void sender_begins(struct sender *sender, unsigned letter) {
	*sender = (struct sender){ .alive = true, .pid = ++all.next_pid, .letter = letter,
		.domain = MAIL_SENDERS_FROM + letter % MAIL_SENDERS_DOMAINS,
		.turn = sender->turn + 1 };
	world_log("sender %d begins with letter %u", sender->pid, letter);
	sender_asks(sender);
}

static void letter_goes(void *argument) {
	unsigned letter = (unsigned)((enum letter_state *)argument - all.letters);

	/* a process has it already */
	if (all.letters[letter] != LETTER_COMING && all.letters[letter] != LETTER_DEFERRED)
		return;
	for (unsigned i = 0; i < SENDERS_MAX; i++) {
		if (senders[i].alive)
			continue;
		sender_begins(&senders[i], letter);
		return;
	}
	letter_later(letter);
}

static void sender_dies(void *argument) {
	struct sender *sender = &senders[draw_below(&all.draws, SENDERS_MAX)];

	(void)argument;
	if (all.calm || !sender->alive)
		return;
	world_log("sender %d is killed", sender->pid);
	if (sender->connected)
		site_leave(sender->domain);
	letter_later(sender->letter);
	sender_ends(sender);
}

void senders_begin(const struct plan *plan) {
	int64_t now_ns = fibers_now_ns() + NS_PER_MS;

	all.plan = plan;
	all.draws.state = plan->seed ^ UINT64_C(0x5e4d);
	all.next_pid = 100000;
	for (uint32_t i = 0; i < plan->letters; i++)
		timer_at(now_ns + (int64_t)draw_below(&all.draws, plan->spread * 1000) * 1000,
		    letter_goes, &all.letters[i]);
	for (uint32_t i = 0; plan->letters > 0 && i < plan->deaths; i++)
		timer_at(now_ns + (int64_t)draw_below(&all.draws, plan->spread * 1000) * 1000,
		    sender_dies, NULL);
}

void senders_calm(void) {
	all.calm = true;
}

bool senders_are_done(void) {
	for (unsigned i = 0; i < all.plan->letters; i++)
		if (all.letters[i] != LETTER_DONE)
			return false;
	return true;
}

unsigned senders_undone(void) {
	for (unsigned i = 0; i < all.plan->letters; i++)
		if (all.letters[i] != LETTER_DONE)
			return MAIL_SENDERS_FROM + i % MAIL_SENDERS_DOMAINS;
	return DOMAINS_MAX;
}

bool sender_is_over(int32_t pid) {
	for (unsigned i = 0; i < SENDERS_MAX; i++)
		if (senders[i].alive && senders[i].pid == pid)
			return false;
	return true;
}
