/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Whose window mail for a name runs by, and by which settings.
 * MODEL    A name stands for itself, or for the provider or the relay that its mail server
 *          reaches it by, as far as destinations were seen.
 * ERRORS   What was never seen stands for itself.
 * THREADS  Any.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/mta/relayhost.h"
#include "engine/destination/windows_internal.h"

#define PROVIDER_LENGTH	(sizeof(WINDOW_PROVIDER_PREFIX) - 1)

static bool begins_with(const char *name, size_t length, const char *prefix) {
	return length > strlen(prefix) && strncasecmp(name, prefix, strlen(prefix)) == 0;
}

static void set_provider(const struct generation *generation, uint32_t provider,
    struct window_owner *out) {
	out->kind = DESTINATION_PROVIDER;
	out->provider = provider;
	snprintf(out->name, sizeof(out->name), WINDOW_PROVIDER_PREFIX "%s",
	    generation_text(generation, generation_provider(generation, provider)->name));
}

bool windows_owner_named(const struct generation *generation, const char *name,
    size_t length, struct window_owner *out) {
	size_t prefix;

	*out = (struct window_owner){ .provider = JUDGE_NONE };
	if (length > 0 && name[length - 1] == '.')
		length--;
	if (length == 0 || length > SEGMENT_NAME_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f)
			return false;
	text_lower(out->name, name, length);
	prefix = generation_transport_prefix(out->name, length);
	name = out->name + prefix;
	length -= prefix;
	out->kind = *name == '[' ? DESTINATION_RELAY : DESTINATION_DOMAIN;
	if (begins_with(name, length, WINDOW_PROVIDER_PREFIX)) {
		out->kind = DESTINATION_PROVIDER;
		out->provider = generation_find_provider(generation,
		    name + PROVIDER_LENGTH, length - PROVIDER_LENGTH);
	}
	return true;
}

/* The owner's name without the transport that it is of. */
static const char *bare_name(const struct window_owner *owner) {
	return owner->name + generation_transport_prefix(owner->name, strlen(owner->name));
}

bool windows_owner_by_transport(const struct generation *generation, unsigned mta,
    struct window_owner *out) {
	return out->kind == DESTINATION_NONE || mta >= generation->mta_count ||
	    judge_transport_name(generation, &generation->mtas[mta], out->name);
}

/* Does the mail server give its mail for the domain to the relay that all its mail goes
 * to?  An entry of its transport maps may say otherwise. */
static bool is_by_relayhost(const struct generation *generation, unsigned mta,
    const struct destination_seen *seen) {
	const struct generation_mta *row = generation->mtas;
	const char *relayhost;

	if (mta >= generation->mta_count)
		return false;
	row += mta;
	relayhost = generation_text(generation, row->relayhost);
	return *relayhost != '\0' && (row->kind == MTA_SENDMAIL ||
	    strcmp(generation_site_next_hop(generation, row, seen->name,
	    strlen(seen->name)), relayhost) == 0);
}

/* Which of the relays of a domain is that one?  It is found by its address or name;
 * *certain becomes false where other mail servers reach the domain, too, and it may be any. */
static const struct address *find_relayhost(const struct engine *engine,
    const struct generation *generation, unsigned mta, const struct destination_seen *seen,
    bool *certain) {
	char relay[SEGMENT_NAME_MAX + 1];
	struct address literal;
	bool bracketed;
	struct span host = relayhost_host(generation_text(generation,
	    generation->mtas[mta].relayhost), &bracketed);
	bool is_literal = address_parse(host.text, host.length, &literal);

	for (unsigned i = 0; i < seen->relay_count; i++) {
		if (is_literal ? address_equal(&literal, &seen->relays[i]) :
		    (relays_find(engine->segment, &seen->relays[i], relay) &&
			strlen(relay) == host.length &&
			strncasecmp(relay, host.text, host.length) == 0))
			return &seen->relays[i];
	}
	*certain = ((seen->cloned_by | seen->other_by) & ~(1u << mta)) == 0;
	return &seen->relays[0];
}

/* "[192.0.2.1]:25", as the judge writes it. */
static void set_relay(const struct generation *generation, unsigned mta,
    const struct address *relay, struct window_owner *out) {
	char address[ADDRESS_TEXT_MAX];

	address_format(relay, address);
	out->kind = DESTINATION_RELAY;
	snprintf(out->name, sizeof(out->name), "[%s]:%u", address,
	    judge_relayhost_port(generation, &generation->mtas[mta]));
}

bool windows_roll_up(const struct engine *engine, const struct generation *generation,
    const struct destination_seen *seen, unsigned mta, struct window_owner *out) {
	char relay[SEGMENT_NAME_MAX + 1];
	bool certain = true;
	uint32_t provider;

	if (seen->relay_count == 0)
		return true;
	if (is_by_relayhost(generation, mta, seen)) {
		set_relay(generation, mta, find_relayhost(engine, generation, mta, seen,
		    &certain), out);
		return certain;
	}
	for (unsigned i = 0; i < seen->relay_count && generation->provider_count > 0; i++) {
		(void)relays_find(engine->segment, &seen->relays[i], relay);
		provider = generation_match_provider(generation, relay, strlen(relay), &seen->relays[i]);
		if (provider != JUDGE_NONE) {
			set_provider(generation, provider, out);
			break;
		}
	}
	return true;
}

static bool is_held_by_hand(const struct engine *engine, const struct window_owner *owner) {
	struct destination_window own;

	return states_find(engine->segment, owner->name, strlen(owner->name), &own) &&
	    own.state.begun && window_is_by_hand(&own.state.window);
}

/* The window of a transport stands for *out, but where somebody holds by hand what mail of all
 * transports runs by: `alone` or that. */
static bool owner_of_transport(const struct engine *engine, const struct generation *generation,
    const struct window_owner *alone, unsigned mta, struct window_owner *out) {
	struct window_owner all = *out, own = *alone;

	if (!windows_owner_by_transport(generation, mta, out) ||
	    !windows_owner_by_transport(generation, mta, &own)) {
		*out = all;
		return false;
	}
	if (is_held_by_hand(engine, alone))
		*out = *alone;
	else if (is_held_by_hand(engine, &own))
		*out = own;
	else if (all.kind != DESTINATION_DOMAIN && is_held_by_hand(engine, &all))
		*out = all;
	return true;
}

bool windows_owner_of_mta(const struct engine *engine, const struct generation *generation,
    const struct destination_seen *seen, unsigned mta, struct window_owner *out) {
	struct window_owner alone;
	bool certain;

	if (!windows_owner_named(generation, seen->name, strlen(seen->name), out) ||
	    out->kind != DESTINATION_DOMAIN)
		return true;
	alone = *out;
	certain = windows_roll_up(engine, generation, seen, mta, out);
	if (mta < generation->mta_count && generation->mtas[mta].transport != 0)
		return owner_of_transport(engine, generation, &alone, mta, out) && certain;
	/* what somebody holds by hand stands alone, whatever relay it would go by */
	if (out->kind == DESTINATION_DOMAIN || !is_held_by_hand(engine, &alone))
		return certain;
	*out = alone;
	return true;
}

/* The row by which mail for the domain goes: of the first mail server that was seen to deliver
 * there. */
static unsigned row_of(const struct generation *generation, const struct destination_seen *seen) {
	unsigned bits = seen->cloned_by | seen->other_by;

	for (unsigned i = 0; i < generation->mta_count; i++) {
		unsigned row = generation_site_transport(generation, i, seen->name,
		    strlen(seen->name));

		/* what the site's file does not tell the log does */
		if ((bits >> i & 1) != 0)
			return generation->mtas[row].transport == 0 && (bits >> row & 1) == 0 ? i :
			    row;
	}
	return generation->mta_count == 1 ? 0 : GENERATION_MTAS_MAX;
}

static void owner_seen(const struct engine *engine, const struct generation *generation,
    const struct destination_seen *seen, struct window_owner *out) {
	(void)windows_owner_of_mta(engine, generation, seen, row_of(generation, seen), out);
}

/* Nothing was seen of the domain *out: the site may send it by a transport. */
static void owner_of_new(const struct generation *generation, unsigned mta,
    struct window_owner *out) {
	for (unsigned i = 0; mta >= generation->mta_count && i < generation->mta_count; i++) {
		unsigned row = generation_site_transport(generation, i, out->name,
		    strlen(out->name));

		if (row != i)
			mta = row;
	}
	(void)windows_owner_by_transport(generation, mta, out);
}

/* "TRANSPORT:example.com": mail of that transport alone. */
static void owner_by_name(const struct engine *engine, const struct generation *generation,
    size_t prefix, unsigned mta, struct window_owner *out) {
	unsigned row = generation_find_transport(generation, mta >= generation->mta_count ?
	    GENERATION_MTAS_MAX : generation_parent(generation, mta), out->name, prefix - 1);
	struct window_owner named = *out;
	struct destination_seen seen;

	if (row == GENERATION_MTAS_MAX || !destinations_find(engine->segment, bare_name(out),
	    strlen(bare_name(out)), &seen) ||
	    !windows_owner_of_mta(engine, generation, &seen, row, out))
		*out = named;
}

void windows_owner_by(const struct engine *engine, const struct generation *generation,
    const char *destination, size_t length, unsigned mta, struct window_owner *out) {
	struct destination_seen seen;
	struct address address;
	const char *bare = destination;
	size_t bare_length = text_bare_host(&bare, length), prefix;

	/* "[host.example]" is not the domain's own mail exchanger, but its name is all
	 * that is known of it before the connect; "[192.0.2.1]:25" is a relay's */
	if (length > 0 && *destination == '[' && bare_length + 2 >= length &&
	    !address_parse(bare, bare_length, &address)) {
		destination = bare;
		length = bare_length;
	}
	if (!windows_owner_named(generation, destination, length, out) ||
	    out->kind != DESTINATION_DOMAIN)
		return;
	prefix = generation_transport_prefix(out->name, strlen(out->name));
	if (prefix != 0) {
		owner_by_name(engine, generation, prefix, mta, out);
		return;
	}
	mta = generation_site_transport(generation, mta, out->name, strlen(out->name));
	if (!destinations_find(engine->segment, out->name, strlen(out->name), &seen))
		owner_of_new(generation, mta, out);
	else if (mta >= generation->mta_count)
		owner_seen(engine, generation, &seen, out);
	else if (!windows_owner_of_mta(engine, generation, &seen, mta, out) &&
	    (out->kind == DESTINATION_RELAY || generation->mtas[mta].transport != 0))
		*out = (struct window_owner){ .kind = DESTINATION_NONE, .provider = JUDGE_NONE };
}

void windows_owner(const struct engine *engine, const struct generation *generation,
    const char *destination, size_t length, struct window_owner *out) {
	windows_owner_by(engine, generation, destination, length, GENERATION_MTAS_MAX, out);
}

void windows_owner_of_host(const struct engine *engine, const struct generation *generation,
    const char *host, size_t length, unsigned mta, struct window_owner *out) {
	char name[JUDGE_NAME_MAX + 1];
	const char *bare = host;
	size_t bare_length = text_bare_host(&bare, length);
	struct address address;

	*out = (struct window_owner){ .kind = DESTINATION_NONE, .provider = JUDGE_NONE };
	if (bare == host || address_parse(bare, bare_length, &address)) {
		bare = host;
		bare_length = length;
	}
	if (judge_domain((struct span){ bare, bare_length }, name))
		windows_owner_by(engine, generation, name, strlen(name), mta, out);
}

bool windows_owner_is_for_host(const struct engine *engine, const struct window_owner *owner) {
	struct address address;
	size_t length = strlen(owner->name);

	if (owner->kind == DESTINATION_PROVIDER || is_held_by_hand(engine, owner))
		return true;
	/* without a port it is as the mail server wrote it */
	return owner->kind == DESTINATION_RELAY && (owner->name[length - 1] != ']' ||
	    (address_parse(owner->name, length, &address) && address_is_loopback(&address)));
}

/* The mail servers that send to it, as far as it was seen. */
static unsigned owner_seen_bits(const struct engine *engine, const struct window_owner *owner) {
	struct destination_seen seen;

	if (!destinations_find(engine->segment, owner->name, strlen(owner->name), &seen))
		return 0;
	return seen.cloned_by | seen.other_by;
}

unsigned windows_mta(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner) {
	return generation_window_mta(generation, owner->name, strlen(owner->name),
	    owner_seen_bits(engine, owner));
}

void windows_rules(const struct generation *generation, unsigned mta,
    const struct window_owner *owner, struct window_rules *out) {
	out->debug = generation_settings(generation, mta, owner->name, strlen(owner->name),
	    owner->provider, &out->settings, &out->pace, &out->is_paced);
}
