/* SPDX-License-Identifier: ISC */
/* Judges deliveries out of a log; no state of its own. */
#include "engine/feed.h"

#include <string.h>

#include "engine/internal.h"
#include "segment/destinations.h"
#include "segment/feed_position.h"

/* Does the program's name begin with `start` and "/"?  How long that is, or 0. */
static size_t begins_with(const struct feed_delivery *d, const char *start)
{
	size_t length = strlen(start);

	if (d->program_length <= length || memcmp(d->program, start, length) != 0 ||
	    d->program[length] != '/')
		return 0;
	return length + 1;
}

static bool is_program(const struct feed_delivery *d, const char *name)
{
	return strlen(name) == d->program_length &&
	    memcmp(d->program, name, d->program_length) == 0;
}

/* The mail server that wrote it, or GENERATION_MTAS_MAX; *rest: where its own part
 * of the program's name begins. */
static unsigned find_mta(const struct generation *g, unsigned mtas,
    const struct feed_delivery *d, size_t *rest)
{
	unsigned found = GENERATION_MTAS_MAX;

	*rest = 0;
	for (unsigned i = 0; i < g->mta_count; i++) {
		const struct generation_mta *mta = &g->mtas[i];
		size_t length;

		if ((mtas >> i & 1) == 0 || mta->kind != MTA_POSTFIX)
			continue;
		length = begins_with(d, generation_text(g, mta->syslog_name));
		if (length > *rest) {
			found = i;
			*rest = length;
		}
	}
	return found;
}

static bool is_client(const struct feed_delivery *d)
{
	const char *end = d->program + d->program_length;

	return d->program_length > 5 &&
	    (memcmp(end - 5, "/smtp", 5) == 0 || memcmp(end - 5, "/lmtp", 5) == 0);
}

/* "lane", digits, "/smtp" */
static bool is_lane(const char *name, size_t length)
{
	size_t at = 4;

	if (length < 4 || memcmp(name, "lane", 4) != 0)
		return false;
	while (at < length && name[at] >= '0' && name[at] <= '9')
		at++;
	return at > 4 && length - at == 5 && memcmp(name + at, "/smtp", 5) == 0;
}

static bool has_port(const struct generation_mta *mta, uint16_t port)
{
	for (uint32_t i = 0; i < mta->port_count; i++)
		if (mta->ports[i] == port)
			return true;
	return false;
}

bool engine_feed_note(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct feed_delivery *delivery, int64_t now_ns)
{
	size_t rest;
	unsigned number = find_mta(generation, mtas, delivery, &rest);
	const struct generation_mta *mta = &generation->mtas[number];
	struct delivery_seen seen = {
		.name = delivery->domain,
		.name_length = delivery->domain_length,
		.relay = delivery->relay,
		.relay_name = delivery->relay_name_length > 0 ? delivery->relay_name : NULL,
		.relay_name_length = delivery->relay_name_length,
		.mta = (uint8_t)number,
	};

	if (number == GENERATION_MTAS_MAX || !is_client(delivery) ||
	    delivery->domain_length == 0 || address_is_unknown(&delivery->relay) ||
	    !has_port(mta, delivery->relay_port))
		return false;
	seen.cloned = is_program(delivery, generation_text(generation, mta->clone_program)) ||
	    is_lane(delivery->program + rest, delivery->program_length - rest);
	return destinations_note(engine->segment, &seen, now_ns);
}

bool engine_feed_delivery(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *d, const struct feed_origin *origin,
    int64_t now_ns)
{
	const struct feed_delivery note = {
		.program = d->program.text, .program_length = d->program.length,
		.domain = d->domain.text, .domain_length = d->domain.length,
		.relay_name = d->relay_name.text, .relay_name_length = d->relay_name.length,
		.relay = d->relay_address, .relay_port = d->relay_port,
	};

	(void)origin;
	return engine_feed_note(engine, generation, mtas, &note, now_ns);
}

const struct judgement *engine_feed_judged(const struct engine *engine)
{
	(void)engine;
	return NULL;
}

void engine_feed_start(struct engine *engine, const struct generation *generation,
    unsigned mtas, const struct delivery *delivery, int64_t now_ns)
{
	(void)engine;
	(void)generation;
	(void)mtas;
	(void)delivery;
	(void)now_ns;
}

void engine_feed_turn(struct engine *engine, const struct generation *generation,
    int64_t now_ns)
{
	(void)engine;
	(void)generation;
	(void)now_ns;
}

/* By their numbers, until the feed keeps a place for each file (feed_places.h). */
bool engine_feed_place(const struct engine *engine, unsigned mta, struct feed_place *out)
{
	struct feed_position all[FEED_FILES_MAX];
	uint32_t records[FEED_FILES_MAX];
	unsigned count = feed_positions(engine->segment, mta + 1, all, records);

	if (count == 0)
		return false;
	*out = (struct feed_place){ all[0].device, all[0].inode, all[0].spot.offset };
	return true;
}

void engine_feed_keep_place(struct engine *engine, unsigned mta, const struct feed_place *place)
{
	struct feed_position all[FEED_FILES_MAX];
	uint32_t records[FEED_FILES_MAX];
	unsigned count = feed_positions(engine->segment, mta + 1, all, records);
	const struct feed_position position = { .log = mta + 1, .device = place->device,
		.inode = place->inode, .spot.offset = place->offset };

	if (count > 0 && all[0].device == place->device && all[0].inode == place->inode) {
		feed_position_move(engine->segment, records[0], &position.spot);
		return;
	}
	if (count > 0)
		feed_position_forget(engine->segment, records[0]);
	(void)feed_position_begin(engine->segment, &position);
}
