/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/diag.h"
#include "tests/machine/network.h"

static int64_t wall_ms(void) {
	return (fibers_now_ns() + world_wall_offset_ns()) / NS_PER_MS;
}

static struct known_name *find(struct redis_known *known, const char *name, bool make) {
	struct known_name *new;

	for (unsigned i = 0; i < known->count; i++)
		if (strcmp(known->names[i].name, name) == 0)
			return &known->names[i];
	if (!make)
		return NULL;
	MUST(known->count < KNOWN_NAMES);
	new = &known->names[known->count++];
	*new = (struct known_name){ .number = 0 };
	snprintf(new->name, sizeof(new->name), "%s", name);
	return new;
}

static unsigned node_of(const char *name) {
	MUST(name[0] == 'n' && name[1] >= '0' && name[1] < '0' + NODES_MAX && name[2] == '\0');
	return (unsigned)(name[1] - '0');
}

/* `words`: node, record, name, and what is of no matter here. */
static void put(struct redis_known *known, char *const *words, struct lease_reply *reply) {
	struct known_name *name = find(known, words[2], words[1][0] != '\0');
	unsigned node = node_of(words[0]);
	char message[sizeof(name->records[0]) + 200];

	reply_text(reply, "ok");
	if (words[1][0] == '\0') {
		if (name != NULL)
			name->records[node][0] = '\0';
		reply_number(reply, known->number);
		return;
	}
	MUST(strlen(words[1]) + 24 < KNOWN_RECORD);
	snprintf(name->records[node], KNOWN_RECORD, "%lld %s", (long long)wall_ms(), words[1]);
	name->number = ++known->number;
	snprintf(message, sizeof(message), "%lld %s %s %s", (long long)known->number, words[0],
	    words[2], words[1]);
	network_tell(message);
	reply_number(reply, known->number);
}

/* In the order of their numbers. */
static void changed(const struct redis_known *known, char *const *words,
    struct lease_reply *reply) {
	int64_t number = strtoll(words[0], NULL, 10);
	long most = strtol(words[1], NULL, 10);
	const struct known_name *next;

	reply_text(reply, "ok");
	reply_number(reply, known->number);
	do {
		next = NULL;
		for (unsigned i = 0; i < known->count; i++)
			if (known->names[i].number > number &&
			    (next == NULL || known->names[i].number < next->number))
				next = &known->names[i];
		if (next == NULL)
			break;
		number = next->number;
		reply_text(reply, next->name);
		reply_number(reply, next->number);
	} while (--most > 0);
}

static void get(struct redis_known *known, char *const *words, size_t count,
    struct lease_reply *reply) {
	reply_text(reply, "ok");
	reply_number(reply, wall_ms());
	for (size_t i = 0; i < count; i++) {
		const struct known_name *name = find(known, words[i], false);

		for (unsigned node = 0; name != NULL && node < NODES_MAX; node++) {
			char text[4] = { 'n', (char)('0' + node), '\0' };

			if (name->records[node][0] == '\0')
				continue;
			reply_number(reply, (int64_t)i + 1);
			reply_text(reply, text);
			reply_text(reply, name->records[node]);
		}
	}
}

void redis_knowledge(struct redis_known *known, enum cluster_script script, char *const *words,
    size_t count, struct lease_reply *reply) {
	size_t keys = (size_t)strtoul(words[2], NULL, 10);

	reply_begin(reply);
	if (script == CLUSTER_SCRIPT_PUT)
		put(known, words + 3 + keys, reply);
	else if (script == CLUSTER_SCRIPT_CHANGED)
		changed(known, words + 3 + keys, reply);
	else
		get(known, words + 3 + keys, count - 3 - keys, reply);
}
