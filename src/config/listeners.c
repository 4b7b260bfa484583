/* SPDX-License-Identifier: ISC */
/* The table of sockets, out of listen.*: those of this version's kinds only. */
#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "config/compilation.h"

/* The listener that has this address already, or NULL. */
static const struct generation_listener *same_address(const struct generation *header,
    uint32_t address)
{
	for (uint32_t i = 0; i < header->listener_count; i++)
		if (header->listeners[i].address == address)
			return &header->listeners[i];
	return NULL;
}

/* `element` is a text, a group, or NULL for the row's default. */
static void add_listener(struct compilation *c, const struct setting *row,
    const config_setting_t *where, const config_setting_t *element)
{
	bool grouped = element != NULL && config_setting_is_group(element);
	const config_setting_t *group = grouped ? element : NULL;
	struct generation_listener listener = { .kind = (uint8_t)row->offset };
	const struct generation_listener *same;
	struct setting_value address, mode, proof, owner, owner_group;
	char why[256];

	if (element == NULL) {
		if (!setting_parse_text(row, row->fallback, &address, why, sizeof(why)))
			complain(c, NULL, "%s: its default %s", row->path, why);
	} else if (!(grouped ? compilation_value(group, "listen.*[].address", &address) :
	    setting_parse(row, element, &address, why, sizeof(why)))) {
		return;		/* check.c has said why */
	}
	if (address.text == NULL)
		return;
	if (compilation_value(group, "listen.*[].mode", &mode))
		listener.mode = (uint16_t)mode.number;
	else
		listener.mode = listener.kind == LISTENER_CONTROL ? 0660 :
		    GENERATION_MODE_BY_DIRECTORY;
	listener.proof = (uint8_t)(compilation_value(group, "listen.*[].proof", &proof) ?
	    proof.number : c->proof);
	listener.address = block_text(&c->block, address.text);
	if (compilation_value(group, "listen.*[].owner", &owner))
		listener.owner = block_text(&c->block, owner.text);
	if (compilation_value(group, "listen.*[].group", &owner_group))
		listener.group = block_text(&c->block, owner_group.text);
	if (where != NULL)
		compilation_place(c, where, &listener.line);
	if (c->block.failed)
		return;
	same = same_address(compilation_header(c), listener.address);
	if (same != NULL) {
		complain(c, where, "%s: the address stands in listen already, in line %u",
		    row->path, same->line);
	} else if (compilation_header(c)->listener_count == GENERATION_LISTENERS_MAX) {
		complain(c, where, "listen: more than %d addresses", GENERATION_LISTENERS_MAX);
	} else {
		struct generation *header = compilation_header(c);

		header->listeners[header->listener_count++] = listener;
	}
}

/* Who names sockets for questions means those alone: the defaults of policy and
 * milter count only together. */
static bool default_applies(const struct compilation *c, const struct setting *row)
{
	return row->offset == LISTENER_CONTROL ||
	    (config_lookup(&c->config, "listen.policy") == NULL &&
	    config_lookup(&c->config, "listen.milter") == NULL);
}

void compile_listeners(struct compilation *c)
{
	size_t count;
	const struct setting *rows = settings(&count);

	for (size_t i = 0; i < count; i++) {
		const config_setting_t *value;

		if (rows[i].place != PLACE_LISTENERS)
			continue;
		value = config_lookup(&c->config, rows[i].path);
		if (value == NULL) {
			if (*rows[i].fallback != '\0' && default_applies(c, &rows[i]))
				add_listener(c, &rows[i], NULL, NULL);
			continue;
		}
		for (unsigned k = 0; k < setting_element_count(value); k++) {
			const config_setting_t *element = setting_element(value, k);

			add_listener(c, &rows[i], element, element);
		}
	}
}
