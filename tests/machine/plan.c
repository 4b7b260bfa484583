/* SPDX-License-Identifier: ISC */
#include "tests/machine/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	size_t offset;
} numbers[] = {
#define NUMBER(name) { #name, offsetof(struct plan, name) },
	PLAN_NUMBERS(NUMBER)
#undef NUMBER
};

/* Half of the seeds have each kind of trouble, so that each is met without the others, too. */
static uint32_t some(struct draws *draws, uint32_t most) {
	return draw_below(draws, 2) == 0 ? 0 : 1 + draw_below(draws, most);
}

struct plan plan_of(uint64_t seed) {
	static const uint32_t paces[] = { 3, 10, 40, 150, 1000 };
	static const uint32_t spreads[] = { 3, 300, 2000, 8000 };
	struct draws draws = { seed * 2 + 1 };
	struct plan plan = {
		.seed = seed,
		.policies = 1 + draw_below(&draws, 3),
		.milters = draw_below(&draws, 3),
		.servers = 2 + draw_below(&draws, 14),
		.sessions = 10 + draw_below(&draws, 90),
		.hosts = 1 + draw_below(&draws, 12),
		.ports = 1 + draw_below(&draws, 5),
		.kills = some(&draws, 12),
		.stops = some(&draws, 8),
		.restarts = some(&draws, 2),
		.deaths = some(&draws, 4),
		.steps = some(&draws, 3),
		.lies = some(&draws, 200),
		.switches = 1000000,
		.pace = paces[draw_below(&draws, 5)],
		.spread = spreads[draw_below(&draws, 4)],
		.mails = some(&draws, 150),
		.domains = 1 + draw_below(&draws, 6),
		.outages = some(&draws, 4),
		.letters = some(&draws, 80),
		.orders = some(&draws, 8),
		.filters = some(&draws, 150),
		.rules = some(&draws, 300),
		.deletions = some(&draws, 150),
		.typos = some(&draws, 150),
	};

#ifndef WITH_CLUSTER
	return plan;
#endif
	if (draw_below(&draws, 4) > 0)
		return plan;
	plan.spread = draw_below(&draws, 2) == 0 ? 8000 : 20000;
	plan.nodes = 1 + draw_below(&draws, NODES_OTHERS_MAX);
	plan.cuts = some(&draws, 8);
	plan.failures = some(&draws, 5);
	plan.falls = some(&draws, 12);
	plan.damages = some(&draws, 40);
	return plan;
}

uint32_t *plan_number(struct plan *plan, size_t index) {
	return (uint32_t *)(void *)((char *)plan + numbers[index].offset);
}

bool plan_change(struct plan *plan, const char *text) {
	while (*text != '\0') {
		size_t length = strcspn(text, "="), i = 0;
		char *end;

		while (i < PLAN_COUNT && (strlen(numbers[i].name) != length ||
		    strncmp(numbers[i].name, text, length) != 0))
			i++;
		if (i == PLAN_COUNT || text[length] != '=')
			return false;
		*plan_number(plan, i) = (uint32_t)strtoul(text + length + 1, &end, 10);
		if (end == text + length + 1 || (*end != ',' && *end != '\0'))
			return false;
		text = *end == ',' ? end + 1 : end;
	}
	return true;
}

bool plan_is_sound(const struct plan *plan) {
	return plan->policies > 0 && plan->policies <= 3 && plan->milters <= 2 && plan->servers > 0 &&
	    plan->servers <= 16 && plan->hosts > 0 && plan->hosts <= 12 && plan->ports > 0 &&
	    plan->hosts * plan->ports <= 60 && plan->pace > 0 && plan->spread > 0 &&
	    plan->nodes <= NODES_OTHERS_MAX && plan->mails <= 400 && plan->letters <= 200 && plan->domains > 0 && plan->domains <= 6;
}

void plan_print(const struct plan *plan) {
	struct plan copy = *plan;

	for (size_t i = 0; i < PLAN_COUNT; i++)
		printf("%s%s=%u", i == 0 ? "" : ",", numbers[i].name, *plan_number(&copy, i));
}
