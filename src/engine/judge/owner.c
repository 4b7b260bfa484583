/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Tells the next hop that was tried, and the destination that it belongs to.
 * MODEL    A relay on this host, on a port that is none of the mail server's remote
 *          ports, or that all mail goes through is a destination of its own, so that a
 *          stopped content filter suspends no domain.  Else the provider of the relay,
 *          else the recipient's domain.
 * ERRORS   What has no name that can be kept belongs to nobody.
 * BUGS     A relayhost without [ ] is reached by its MX hosts, whose names the log alone
 *          tells: there each delivery of the cloned transport is taken for one by it.
 */
#include "engine/judge/judge_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/mta/relayhost.h"

static bool begins(struct span text, const char *start, size_t length) {
	return text.length >= length && memcmp(text.text, start, length) == 0;
}

static struct span behind(struct span text, size_t length) {
	return (struct span){ text.text + length, text.length - length };
}

/* "NAME[ADDRESS]" or "NAME[ADDRESS]:PORT" at the start. */
static void read_relay(struct span text, struct tried_relay *out) {
	const char *end = text.text + text.length, *open, *close;
	size_t length = 0;
	uint32_t port;

	while (length < text.length && text.text[length] > ' ' && text.text[length] < 0x7f &&
	    text.text[length] != '[')
		length++;
	if (length == text.length || text.text[length] != '[')
		return;
	open = text.text + length;
	close = memchr(open, ']', (size_t)(end - open));
	if (close == NULL || !address_parse(open, (size_t)(close - open) + 1, &out->address))
		return;
	out->name = (struct span){ text.text, length };
	if (length > 0 && open[-1] == '.')
		out->name.length--;
	if (++close == end || *close != ':')
		return;
	close++;
	for (length = 0; close + length < end && close[length] >= '0' && close[length] <= '9';)
		length++;
	if (text_to_u32(close, length, UINT16_MAX, &port))
		out->port = (uint16_t)port;
}

/* Postfix tells no relay when it found no session, but its text does. */
static void read_text(struct span text, struct tried_relay *out) {
	static const char held[] = "delivery temporarily suspended: ";
	static const struct {
		const char *start;
		size_t length;
	} starts[] = {
#define START(text) { text, sizeof(text) - 1 }
		START("connect to "), START("lost connection with "),
		START("conversation with "), START("host "),
		START("TLS is required, but was not offered by host "),
		START("SASL authentication failed; cannot authenticate to server "),
		START("SASL authentication failed; server "),
#undef START
	};

	if (begins(text, held, sizeof(held) - 1))
		text = behind(text, sizeof(held) - 1);
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (begins(text, starts[i].start, starts[i].length)) {
			read_relay(behind(text, starts[i].length), out);
			return;
		}
}

/* --- relayhost ----------------------------------------------------------------- */

uint16_t judge_relayhost_port(const struct generation *g, const struct generation_mta *mta) {
	return relayhost_port(generation_text(g, mta->relayhost), mta);
}

static bool is_host(struct span host, const struct tried_relay *tried) {
	struct address address;

	if (address_parse(host.text, host.length, &address))
		return address_equal(&address, &tried->address);
	if (host.length > 0 && host.text[host.length - 1] == '.')
		host.length--;
	return host.length > 0 && host.length == tried->name.length &&
	    strncasecmp(host.text, tried->name.text, host.length) == 0;
}

/* Did it go, or would it have gone, to the relay that all mail goes to? */
static bool is_by_relayhost(const struct generation *g, const struct generation_mta *mta,
    const struct delivery *d, const struct judgement *j) {
	bool bracketed, known = j->tried.name.length > 0 ||
	    !address_is_unknown(&j->tried.address);
	struct span host;

	if (d->source == DELIVERY_OF_SENDMAIL && d->mailer.length == 5 &&
	    memcmp(d->mailer.text, "relay", 5) == 0)
		return true;
	if (mta == NULL || mta->relayhost == 0)
		return false;
	host = relayhost_host(generation_text(g, mta->relayhost), &bracketed);
	if (known && is_host(host, &j->tried))
		return true;
	if (known && bracketed)
		return false;
	if (mta->kind == MTA_SENDMAIL)
		return true;
	return j->cloned && !generation_site_excludes(g, mta, d->domain.text,
	    d->domain.length, NULL) && strcmp(generation_site_next_hop(g, mta,
	    d->domain.text, d->domain.length), generation_text(g, mta->relayhost)) == 0;
}

/* --- names ------------------------------------------------------------------- */

bool judge_domain(struct span domain, char out[JUDGE_NAME_MAX + 1]) {
	struct address address;

	if (domain.length > 1 && domain.text[domain.length - 1] == '.')
		domain.length--;
	if (domain.length == 0 || domain.length > JUDGE_NAME_MAX)
		return false;
	if (domain.text[0] == '[') {	/* user@[192.0.2.1] */
		char text[ADDRESS_TEXT_MAX];

		if (!address_parse(domain.text, domain.length, &address))
			return false;
		address_format(&address, text);
		snprintf(out, JUDGE_NAME_MAX + 1, "[%s]", text);
		return true;
	}
	text_lower(out, domain.text, domain.length);
	for (size_t i = 0; i < domain.length; i++) {
		char c = out[i];

		if (c == '.' && (i == 0 || domain.text[i - 1] == '.'))
			return false;
		if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' &&
		    c != '_' && (unsigned char)c < 0x80)
			return false;
	}
	out[domain.length] = '\0';
	return true;
}

bool judge_transport_name(const struct generation *g, const struct generation_mta *mta,
    char name[JUDGE_NAME_MAX + 1]) {
	const char *transport = mta == NULL ? "" : generation_text(g, mta->transport);
	size_t length = strlen(name), prefix = strlen(transport) + 1;

	if (*transport == '\0' || generation_transport_prefix(name, length) != 0)
		return true;
	if (prefix + length > JUDGE_NAME_MAX) {
		name[0] = '\0';
		return false;
	}
	memmove(name + prefix, name, length + 1);
	text_lower(name, transport, prefix - 1);
	name[prefix - 1] = ':';
	return true;
}

/* `by_relayhost`: it is the one that all mail goes to. */
static bool name_relay(const struct generation *g, const struct generation_mta *mta,
    const struct tried_relay *tried, bool by_relayhost, char out[JUDGE_NAME_MAX + 1]) {
	unsigned port = tried->port != 0 ? tried->port : by_relayhost && mta != NULL ?
	    judge_relayhost_port(g, mta) : mta_usual_port(mta);
	char text[ADDRESS_TEXT_MAX], host[JUDGE_NAME_MAX + 1];
	struct span name = tried->name;
	bool bracketed;

	if (!address_is_unknown(&tried->address)) {
		address_format(&tried->address, text);
		snprintf(out, JUDGE_NAME_MAX + 1, "[%s]:%u", text, port);
		return true;
	}
	if (name.length == 0 && mta != NULL && mta->relayhost != 0)
		name = relayhost_host(generation_text(g, mta->relayhost), &bracketed);
	if (name.length > JUDGE_NAME_MAX - 8 || !judge_domain(name, host))
		return false;
	snprintf(out, JUDGE_NAME_MAX + 1, "[%.*s]:%u", JUDGE_NAME_MAX - 8, host, port);
	return true;
}

static void find_name(const struct generation *g, const struct generation_mta *mta,
    const struct delivery *d, bool by_relayhost, struct judgement *out) {
	const struct tried_relay *tried = &out->tried;
	bool addressed = !address_is_unknown(&tried->address);

	if ((addressed && address_is_loopback(&tried->address)) ||
	    (tried->port != 0 && !mta_has_port(mta, tried->port)) || by_relayhost) {
		if (name_relay(g, mta, tried, by_relayhost, out->owner.name))
			out->owner.kind = DESTINATION_RELAY;
		return;
	}
	if (addressed || tried->name.length > 0)
		out->owner.provider = generation_match_provider(g, tried->name.text,
		    tried->name.length, &tried->address);
	if (out->owner.provider != JUDGE_NONE) {
		if (judge_provider_destination(g, out->owner.provider, out->owner.name))
			out->owner.kind = DESTINATION_PROVIDER;
	} else if (judge_domain(d->domain, out->owner.name)) {
		out->owner.kind = DESTINATION_DOMAIN;
	}
}

void find_owner(const struct generation *g, const struct generation_mta *mta,
    const struct delivery *d, struct judgement *out) {
	bool by_relayhost;

	out->tried = (struct tried_relay){ .name = d->relay_name, .address = d->relay_address,
		.port = d->relay_port };
	if (d->source != DELIVERY_OF_SENDMAIL && d->relay_name.length == 0 &&
	    address_is_unknown(&d->relay_address))
		read_text(d->text, &out->tried);
	out->owner.kind = DESTINATION_NONE;
	out->owner.name[0] = '\0';
	out->owner.provider = JUDGE_NONE;
	if (d->agent == AGENT_LOCAL ||
	    (d->agent != AGENT_SMTP && out->reply.class != RESULT_SUSPENDED))
		return;
	by_relayhost = is_by_relayhost(g, mta, d, out);
	find_name(g, mta, d, by_relayhost, out);
	if (!judge_transport_name(g, mta, out->owner.name))
		out->owner.kind = DESTINATION_NONE;
	if (out->owner.kind == DESTINATION_NONE)
		out->owner.name[0] = '\0';
}
