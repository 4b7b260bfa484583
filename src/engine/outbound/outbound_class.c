/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  By what the class of an outbound connection is found.
 * MODEL    A connection has an address, and mostly a name: its own, or the one
 *          under which the address was last reached.  Mail that has none yet is
 *          classed by the relay that took the destination's mail last, else by the
 *          destination's own name.
 * ERRORS   What is not known is not used: in the end no class matches.
 * THREADS  Any; no locks.
 */
#include "engine/outbound/outbound.h"

#include <string.h>

#include "base/text.h"
#include "engine/internal.h"
#include "segment/destination/destinations.h"

const char *class_source_word(enum class_source source) {
	static const char *const words[] = {
		[CLASS_SOURCE_NONE] = "none",
		[CLASS_SOURCE_CONNECTION] = "connection",
		[CLASS_SOURCE_ADDRESS] = "address",
		[CLASS_SOURCE_RELAY] = "relay",
		[CLASS_SOURCE_DOMAIN] = "domain",
	};

	return words[source];
}

static void match(const struct generation *generation,
    const struct address *address, const char *name, size_t length,
    enum class_source source, struct outbound_class *out) {
	out->rule = generation_match_outbound(generation, address, name, length);
	if (out->rule == CLASS_NO_RULE)
		return;
	out->class_index = generation_rule(generation, out->rule)->class_index;
	out->source = source;
}

static void clear(struct outbound_class *out) {
	memset(out, 0, sizeof(*out));
	out->rule = out->class_index = CLASS_NO_RULE;
}

void outbound_class_of(const struct engine *engine,
    const struct generation *generation, const struct address *address,
    const char *name, size_t length, struct outbound_class *out) {
	clear(out);
	out->relay = *address;
	/* "[192.0.2.1]": whoever looked found no name */
	if (name != NULL && length > 0 && name[0] != '[') {
		if (length <= SEGMENT_NAME_MAX)
			memcpy(out->relay_name, name, length);
	} else if (!address_is_unknown(address) &&
	    relays_find(engine->segment, address, out->relay_name)) {
		name = out->relay_name;
		length = strlen(name);
	} else {
		match(generation, address, NULL, 0, CLASS_SOURCE_ADDRESS, out);
		return;
	}
	match(generation, address, name, length, CLASS_SOURCE_CONNECTION, out);
}

void outbound_class_find(const struct engine *engine,
    const struct generation *generation, const char *destination,
    size_t length, struct outbound_class *out) {
	struct destination_seen seen;
	struct address literal;

	clear(out);
	length = text_bare_host(&destination, length);
	if (address_parse(destination, length, &literal)) {
		outbound_class_of(engine, generation, &literal, NULL, 0, out);
		if (out->source == CLASS_SOURCE_CONNECTION)
			out->source = CLASS_SOURCE_RELAY;
		return;
	}
	if (!destinations_find(engine->segment, destination, length, &seen) ||
	    seen.relay_count == 0) {
		match(generation, NULL, destination, length,
		    CLASS_SOURCE_DOMAIN, out);
		return;
	}
	out->relay = seen.relays[0];
	(void)relays_find(engine->segment, &out->relay, out->relay_name);
	match(generation, &out->relay, out->relay_name,
	    strlen(out->relay_name), CLASS_SOURCE_RELAY, out);
}
