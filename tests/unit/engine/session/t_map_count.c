/* SPDX-License-Identifier: ISC */
/* Sendmail asks about a client by socket map, and then by milter: one session, one count,
 * whichever of both is away, and however they end. */
#include "tests/unit/test.h"
#include "tests/unit/random.h"
#include "tests/unit/engine/session/witness_world.h"

#define LIMIT 4		/* of class "all" */

static void look(void) {
	pass(500);
	dump();
	witness_expire(witness, site.generation, now_ns);
}

static struct answer ask(enum session_owner owner, const char *client, uint16_t port) {
	struct question question = site_question(client, port, NULL);
	struct answer answer;

	question.owner = owner;
	question.connect_only = true;
	question.listener = owner == OWNER_MILTER ? site.milter_listener
						  : site.map_listener;
	answer = site_ask(&question, now_ns);
	return answer;
}

static void over(const struct answer *answer, enum session_owner word) {
	engine_session_ended(site.engine, site.generation, &answer->session, word, now_ns);
}

TEST_IN(set_up, tear_down, the_milter_takes_over_what_the_map_opened) {
	struct answer by_map[LIMIT], by_milter[LIMIT], more;

	for (uint16_t i = 0; i < LIMIT; i++) {
		by_map[i] = ask(OWNER_POLICY, "192.0.2.1", (uint16_t)(1001 + i));
		assert_int_equal(by_map[i].decision.verdict, VERDICT_ADMIT);
	}
	more = ask(OWNER_POLICY, "192.0.2.1", 1009);
	assert_int_equal(more.decision.verdict, VERDICT_REFUSE);
	assert_true(more.id != 0 && more.newly_decided);
	for (uint16_t i = 0; i < LIMIT; i++) {
		by_milter[i] = ask(OWNER_MILTER, "192.0.2.1", (uint16_t)(1001 + i));
		assert_int_equal(by_milter[i].decision.reason, REASON_KNOWN_SESSION);
		assert_false(by_milter[i].newly_decided);
		assert_int_equal(by_milter[i].session.slot, by_map[i].session.slot);
	}
	assert_int_equal(open_of("all"), LIMIT);
	assert_int_equal(atomic_load(&site_class(&site, "all")->admitted), LIMIT);
	/* the milter tells of the end, and the map's connection later */
	over(&by_milter[0], OWNER_MILTER);
	assert_int_equal(open_of("all"), LIMIT - 1);
	over(&by_map[0], OWNER_POLICY_GONE);
	assert_int_equal(open_of("all"), LIMIT - 1);
	/* or the other way round */
	over(&by_map[1], OWNER_POLICY_GONE);
	assert_int_equal(open_of("all"), LIMIT - 1);
	over(&by_milter[1], OWNER_MILTER);
	assert_int_equal(open_of("all"), LIMIT - 2);
}

TEST_IN(set_up, tear_down, without_the_milter_the_kernel_tells_the_end) {
	struct answer one = ask(OWNER_POLICY, "192.0.2.1", 1001);
	struct answer two = ask(OWNER_POLICY, "192.0.2.1", 1002);

	kernel_has("192.0.2.1", 1001);
	kernel_has("192.0.2.1", 1002);
	look();
	assert_int_equal(open_of("all"), 2);
	kernel_count = 1;
	destroyed("192.0.2.1", 1002);
	assert_int_equal(open_of("all"), 1);
	over(&two, OWNER_POLICY_GONE);
	over(&one, OWNER_POLICY_GONE);	/* so soon that the kernel still shows it */
	look();
	assert_int_equal(open_of("all"), 1);
	kernel_count = 0;
	look();
	assert_int_equal(open_of("all"), 0);
}

/* What no dump has ever shown, too. */
TEST_IN(set_up, tear_down, without_the_milter_a_short_session_is_not_counted_for_ever) {
	struct answer one = ask(OWNER_POLICY, "192.0.2.1", 1001);

	over(&one, OWNER_POLICY_GONE);
	look();
	assert_int_equal(open_of("all"), 0);
}

TEST_IN(set_up, tear_down, a_lost_role_leaves_nothing) {
	struct question question = site_question("192.0.2.1", 1001, NULL);
	struct answer answer;

	question.owner_socket = 71;
	question.listener = site.map_listener;
	answer = site_ask(&question, now_ns);
	sockets[0] = 71;
	socket_count = 1;
	site.segment->begun[role() - site.segment->header->roles].kind = ROLE_NONE;
	atomic_store(&role()->incarnation, 0);
	look();
	assert_lives(&answer.session);
	socket_count = 0;
	look();
	look();
	assert_over(&answer.session);
}

/* --- against a model ------------------------------------------------------------- */

#define CLIENTS 9

struct client {
	bool inside, has_map, has_milter;
	struct answer map, milter;
};

static struct client clients[CLIENTS];

static uint16_t port_of(unsigned number) {
	return (uint16_t)(2001 + number);
}

static unsigned inside(void) {
	unsigned count = 0;

	for (unsigned i = 0; i < CLIENTS; i++)
		count += clients[i].inside && (clients[i].has_map || clients[i].has_milter);
	return count;
}

static void kernel_forgets(uint16_t port) {
	for (size_t i = 0; i < kernel_count; i++)
		if (kernel[i].client_port == port)
			kernel[i--] = kernel[--kernel_count];
}

static void comes(unsigned number, bool map_is_there, bool milter_is_there) {
	struct client *client = &clients[number];
	bool room = inside() < LIMIT;

	*client = (struct client){ .inside = true };
	kernel_has("192.0.2.1", port_of(number));
	if (map_is_there) {
		client->map = ask(OWNER_POLICY, "192.0.2.1", port_of(number));
		client->inside = client->map.decision.verdict == VERDICT_ADMIT;
		assert_int_equal(client->inside, room);
		client->has_map = true;
	}
	/* who is refused is not shown to the milter */
	if (client->inside && milter_is_there) {
		client->milter = ask(OWNER_MILTER, "192.0.2.1", port_of(number));
		client->inside = client->milter.decision.verdict == VERDICT_ADMIT;
		assert_int_equal(client->inside, client->has_map || room);
		client->has_milter = true;
	}
}

static void leaves(struct random *random, unsigned number) {
	struct client *client = &clients[number];
	unsigned first = random_below(random, 3);

	for (unsigned i = 0; i < 3; i++) {
		switch ((first + i) % 3) {
		case 0:
			kernel_forgets(port_of(number));
			if (random_below(random, 2) == 0)
				destroyed("192.0.2.1", port_of(number));
			break;
		case 1:
			if (client->has_milter)
				over(&client->milter, OWNER_MILTER);
			break;
		default:
			if (client->has_map)
				over(&client->map, OWNER_POLICY_GONE);
		}
	}
	*client = (struct client){ .inside = false };
}

TEST_IN(set_up, tear_down, clients_at_random) {
	struct random random = random_seeded("clients_at_random");

	memset(clients, 0, sizeof(clients));
	for (unsigned step = 0; step < 3000; step++) {
		unsigned number = random_below(&random, CLIENTS);

		if (clients[number].inside)
			leaves(&random, number);
		else
			comes(number, random_below(&random, 3) > 0, random_below(&random, 3) > 0);
		if (!clients[number].inside && (clients[number].has_map ||
		    clients[number].has_milter))
			leaves(&random, number);	/* refused */
		if (random_below(&random, 4) > 0 && inside() == open_of("all"))
			continue;
		look();
		look();
		assert_int_equal(open_of("all"), inside());
	}
}
