/* SPDX-License-Identifier: ISC */
/* A server that restarts with its data, older ones or none, and answers what makes no sense. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "front/cluster/script.h"
#include "tests/machine/network.h"
#include "wire/cluster/cluster_call.h"

struct data {
	struct lease_data lease;
	struct redis_known knowledge;
};

static struct {
	const struct plan *plan;
	struct draws draws;
	bool calm, up;
	uint32_t life;
	uint64_t runs;
	char run[24];
	struct data data, old;
	bool knows_scripts;
	int64_t hangs_until_ns, errs_until_ns;
	const char *error;		/* "": the keys are another program's */
} server;

/* --- what it answers ------------------------------------------------------------------------ */

static void server_error(struct lease_reply *reply, const char *text) {
	reply_begin(reply);
	reply_text(reply, text);
	reply->value = reply->items[0];
	reply->value.kind = REDIS_KIND_ERROR;
}

/* What cannot be read, or stands where it should not.  (A number for another that is as good
 * nobody could tell.) */
static void damage(struct lease_reply *reply) {
	struct redis_value *at;

	if (reply->value.kind != REDIS_KIND_LIST || reply->value.count == 0)
		return;
	at = &reply->items[draw_below(&server.draws, (uint32_t)reply->value.count)];
	switch (draw_below(&server.draws, 7)) {
	case 0:
		reply->value.count = draw_below(&server.draws, (uint32_t)reply->value.count);
		break;
	case 1:
		at->kind = REDIS_KIND_NOTHING;
		break;
	case 2:
		at->kind = at->kind == REDIS_KIND_TEXT ? REDIS_KIND_NUMBER : REDIS_KIND_TEXT;
		at->text = "x\n\x80";
		at->length = 3;
		break;
	case 3:
		*at = (struct redis_value){ .kind = REDIS_KIND_NUMBER, .number = -1 };
		break;
	case 4:
		*at = (struct redis_value){ .kind = REDIS_KIND_NUMBER, .number = INT64_MAX };
		break;
	case 5:
		*at = reply->value;
		break;
	default:
		reply_number(reply, 1);
	}
}

static void run_lease(char *const *words, size_t count, struct lease_reply *reply) {
	bool tells = lease_run(&server.data.lease, server.run, words[6],
	    (const char *const *)&words[7], count - 7, reply);

	if (tells)
		network_tell(CLUSTER_NEWS_SHORT);
}

static void script_sha(unsigned script, char out[41]) {
	snprintf(out, 41, "%040x", script + 10);
}

static void load_script(char *const *words, struct lease_reply *reply) {
	char sha[41];

	for (unsigned i = 0; i < CLUSTER_SCRIPT_COUNT; i++) {
		size_t length;
		const char *text = cluster_script_text((enum cluster_script)i, &length);

		if (strlen(words[2]) != length || memcmp(words[2], text, length) != 0)
			continue;
		script_sha(i, sha);
		reply_begin(reply);
		reply_text(reply, sha);
		reply->value = reply->items[0];
		server.knows_scripts = true;
		return;
	}
	world_fail("script", "unknown");
}

void redis_execute(char *const *words, size_t count, struct lease_reply *reply) {
	unsigned script;

	if (strcmp(words[0], "SCRIPT") == 0) {
		load_script(words, reply);
		return;
	}
	MUST(strcmp(words[0], "EVALSHA") == 0);
	script = (unsigned)strtoul(words[1], NULL, 16) - 10;
	MUST(script < CLUSTER_SCRIPT_COUNT);
	if (server.errs_until_ns > fibers_now_ns() && *server.error != '\0')
		server_error(reply, server.error);
	else if (!server.knows_scripts)
		server_error(reply, "NOSCRIPT No matching script. Please use EVAL.");
	else if (server.errs_until_ns > fibers_now_ns() && script == CLUSTER_SCRIPT_LEASE) {
		reply_begin(reply);
		reply_text(reply, "foreign");
		reply_text(reply, "-");
		reply_number(reply, 0);
		reply_text(reply, "leases");
	} else if (script == CLUSTER_SCRIPT_LEASE)
		run_lease(words, count, reply);
	else
		redis_knowledge(&server.data.knowledge, (enum cluster_script)script, words, count, reply);
	if (!server.calm && draw_below(&server.draws, 1000) < server.plan->damages)
		damage(reply);
}

/* --- what becomes of the server ------------------------------------------------------------- */

static void server_start(void) {
	snprintf(server.run, sizeof(server.run), "run%llu", (unsigned long long)++server.runs);
	server.life++;
	server.up = true;
	server.knows_scripts = false;
	world_log("redis starts: epoch %s, event %lld", server.data.lease.epoch,
	    (long long)server.data.lease.event);
}

static void server_up(void *argument) {
	(void)argument;
	if (!server.up)
		server_start();
}

static void server_down(int64_t for_ns) {
	server.up = false;
	network_lose();
	timer_at(fibers_now_ns() + for_ns, server_up, NULL);
}

static void keep_old(void *argument) {
	if (draw_below(&server.draws, 2) == 0)
		server.old = server.data;
	timer_at(fibers_now_ns() + NS_PER_SECOND / 2, keep_old, argument);
}

static void fail(void *argument) {
	static const char *const errors[] = {
		"",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory",
		"NOSCRIPT No matching script.",
	};
	static const char *const kinds[] = { "restarts empty", "restarts", "restarts with old data",
		"fails over", "is emptied", "errs", "hangs" };
	uint32_t kind = draw_below(&server.draws, 7);
	int64_t for_ns = draw_scale(&server.draws, 20 * NS_PER_MS, 4 * NS_PER_SECOND);

	(void)argument;
	if (server.calm || !server.up)
		return;
	world_log("redis %s", kinds[kind]);
	switch (kind) {
	case 0:
	case 4:
		memset(&server.data, 0, sizeof(server.data));
		break;
	case 2:
	case 3:
		server.data = server.old;
		break;
	case 5:
		server.errs_until_ns = fibers_now_ns() + for_ns;
		server.error = errors[draw_below(&server.draws, 5)];
		break;
	case 6:
		server.hangs_until_ns = fibers_now_ns() + for_ns;
		break;
	default:
		break;
	}
	if (kind < 3)
		server_down(for_ns);
	else if (kind == 3)
		server_down(for_ns / 10);
}

void redis_begin(const struct plan *plan) {
	int64_t most_ns = plan->spread * NS_PER_MS;

	server.plan = plan;
	server.draws.state = plan->seed ^ UINT64_C(0x2ed15e);
	server_start();
	keep_old(NULL);
	for (uint32_t i = 0; i < plan->failures; i++)
		timer_at(fibers_now_ns() + 1000 + (int64_t)(draw(&server.draws) % (uint64_t)most_ns),
		    fail, NULL);
}

void redis_calm(void) {
	server.calm = true;
	server.hangs_until_ns = server.errs_until_ns = 0;
	server_up(NULL);
}

uint32_t redis_life(void) {
	return server.up ? server.life : 0;
}

int64_t redis_hangs_until_ns(void) {
	return server.up ? server.hangs_until_ns : 0;
}

const struct lease_data *redis_lease(void) {
	return server.up ? &server.data.lease : NULL;
}
