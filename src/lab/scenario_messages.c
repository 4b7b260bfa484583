/* SPDX-License-Identifier: ISC */
/*
 * Scenarios: messages with their recipients, and completions.
 *
 * Model: a destination that nobody declared is made where it is first named, if there is one
 * transport.  Where a transport delivers to one recipient at a time each recipient is a
 * destination of its own, as it is for Postfix.  Errors and bounds: as scenario.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "lab/scenario_internal.h"

/* "USER@DESTINATION:N" in its parts. */
struct spelled {
	const char *user, *destination;
	size_t user_length, destination_length;
	uint32_t count;
};

static bool message_spell(const char *text, struct spelled *out) {
	size_t length = strlen(text);
	const char *colon = memchr(text, ':', length);
	const char *at = memchr(text, '@', length);

	*out = (struct spelled){ .destination = text, .count = 1 };
	if (colon != NULL) {
		size_t digits = length - (size_t)(colon + 1 - text);

		if (!text_to_u32(colon + 1, digits, SCENARIO_RECIPIENTS_MAX, &out->count) ||
		    out->count == 0)
			return false;
		length = (size_t)(colon - text);
	}
	if (at != NULL) {
		if (colon != NULL)
			return false;	/* one recipient */
		out->user = text;
		out->user_length = (size_t)(at - text);
		out->destination = at + 1;
		length -= out->user_length + 1;
		if (!scenario_good_name(out->user, out->user_length))
			return false;
	}
	out->destination_length = length;
	return scenario_good_name(out->destination, length);
}

/* The destination that a run names; SCENARIO_NONE after a complaint. */
static uint32_t destination_of(struct scenario_work *w, const struct spelled *spelled,
    const config_setting_t *place) {
	uint32_t number = scenario_find(w, spelled->destination, spelled->destination_length);

	if (number == SCENARIO_NONE && w->scenario->transport_count > 1) {
		complain(&w->c, place, "messages.recipients: there are several transports; "
		    "list a destination named %.*s in destinations",
		    (int)spelled->destination_length,
		    spelled->destination);
		return SCENARIO_NONE;
	}
	return number != SCENARIO_NONE ? number :
	    scenario_add(w, spelled->destination, spelled->destination_length, 0);
}

static void add_run(struct scenario_work *w, uint32_t destination, uint32_t count) {
	struct scenario *s = w->scenario;

	memory_grow(&s->runs, &w->run_room, s->run_count, sizeof(*s->runs));
	s->runs[s->run_count++] = (struct scenario_recipients){ destination, count };
}

/* The k-th recipient of a message (from 1) is a destination of its own. */
static void add_own(struct scenario_work *w, const struct spelled *spelled, uint32_t of,
    uint32_t message, uint32_t k) {
	struct scenario *s = w->scenario;
	char name[2 * SCENARIO_NAME_MAX + 32];
	size_t length;
	uint32_t number;

	name[0] = '\0';
	length = spelled->user == NULL ?
	    text_append(name, sizeof(name), 0, "%u.%u", message + 1, k) :
	    text_append(name, sizeof(name), 0, "%.*s", (int)spelled->user_length, spelled->user);
	length = text_append(name, sizeof(name), length, "@%.*s",
	    (int)spelled->destination_length, spelled->destination);
	number = scenario_find(w, name, length);
	if (number == SCENARIO_NONE) {
		uint32_t at;

		number = scenario_add(w, name, length, s->destinations[of].transport);
		at = s->destinations[number].name;
		s->destinations[number] = s->destinations[of];
		s->destinations[number].name = at;
	}
	add_run(w, number, 1);
}

/* One element of recipients; false: nothing more of this message. */
static bool read_recipients(struct scenario_work *w, const config_setting_t *element,
    uint32_t message, struct scenario_message *m) {
	struct scenario *s = w->scenario;
	const char *text = config_setting_type(element) == CONFIG_TYPE_STRING ?
	    config_setting_get_string(element) : "";
	char quoted[SCENARIO_TEXT_MAX + 1];
	struct spelled spelled;
	uint32_t destination;

	if (strlen(text) > SCENARIO_TEXT_MAX)
		return true;	/* said so already */
	if (!message_spell(text, &spelled)) {
		complain(&w->c, element, "messages.recipients: \"%s\" is not DESTINATION, "
		    "DESTINATION:N or USER@DESTINATION",
		    log_sentence(quoted, sizeof(quoted), text));
		return true;
	}
	if (spelled.count > SCENARIO_RECIPIENTS_MAX - s->recipient_count) {
		complain(&w->c, element, "messages.recipients: more than %u in all",
		    SCENARIO_RECIPIENTS_MAX);
		w->full = true;
		return false;
	}
	destination = destination_of(w, &spelled, element);
	if (destination == SCENARIO_NONE)
		return true;
	if (s->transports[s->destinations[destination].transport].job.destination_recipient_limit != 1) {
		add_run(w, destination, spelled.count);
	} else {
		for (uint32_t k = 0; k < spelled.count; k++)
			add_own(w, &spelled, destination, message, m->recipients + k + 1);
	}
	m->recipients += spelled.count;
	s->recipient_count += spelled.count;
	return true;
}

static bool is_deferred(struct scenario_work *w, const config_setting_t *group) {
	struct setting_value value;
	char quoted[32];

	scenario_value(group, "messages[].queue", &value);
	if (strcmp(value.text, "deferred") == 0)
		return true;
	if (strcmp(value.text, "incoming") != 0)
		complain(&w->c, compilation_member(group, "queue"), "messages.queue: \"%s\" is not "
		    "incoming or deferred", log_sentence(quoted, sizeof(quoted), value.text));
	return false;
}

/* The next message, from a group. */
static bool read_message(struct scenario_work *w, const config_setting_t *group) {
	const config_setting_t *recipients = compilation_member(group, "recipients");
	struct scenario *s = w->scenario;
	uint32_t number = s->message_count;
	struct scenario_message *m = &s->messages[number];
	struct setting_value value;

	*m = (struct scenario_message){ .service_ns = -1, .runs = s->run_count };
	scenario_value(group, "messages[].arrive", &value);
	m->arrive_ns = value.number;
	if (scenario_value(group, "messages[].service", &value))
		m->service_ns = value.number;
	m->deferred = is_deferred(w, group);
	s->message_count++;
	if (recipients == NULL || setting_element_count(recipients) == 0) {
		complain(&w->c, recipients != NULL ? recipients : group,
		    "messages: a message has no recipients");
		return false;
	}
	for (unsigned i = 0; i < setting_element_count(recipients); i++)
		if (!read_recipients(w, setting_element(recipients, i), number, m))
			return false;
	m->run_count = s->run_count - m->runs;
	return true;
}

static uint32_t copies_of(const config_setting_t *group) {
	struct setting_value value;

	if (!config_setting_is_group(group))
		return 0;
	scenario_value(group, "messages[].count", &value);
	return (uint32_t)value.number;
}

void scenario_read_messages(struct scenario_work *w) {
	const config_setting_t *list = config_lookup(&w->c.config, "messages");
	struct scenario *s = w->scenario;
	uint32_t length = list != NULL && config_setting_is_list(list) ?
	    (uint32_t)config_setting_length(list) : 0;
	uint64_t total = 0;

	for (uint32_t i = 0; i < length; i++)
		total += copies_of(config_setting_get_elem(list, i));
	if (total > SCENARIO_MESSAGES_MAX)
		complain(&w->c, list, "messages: more than %u", SCENARIO_MESSAGES_MAX);
	else if (total == 0)
		complain(&w->c, list, "messages: the list is empty");
	w->full = total > SCENARIO_MESSAGES_MAX || total == 0;
	if (w->full)
		return;
	s->messages = memory_of((size_t)total, sizeof(*s->messages));
	for (uint32_t i = 0; i < length; i++) {
		const config_setting_t *group = config_setting_get_elem(list, i);
		uint32_t copies = copies_of(group);
		size_t said = w->c.report.messages->errors;

		/* what is wrong with one is wrong with all its copies */
		while (copies-- > 0 && !w->full &&
		    read_message(w, group) && w->c.report.messages->errors == said)
			;
	}
}

/* --- completions ---------------------------------------------------------------------- */

/* "MESSAGE:DESTINATION@TIME": what is wrong with it, or NULL. */
static const char *read_completion(const struct scenario_work *w, const char *text,
    struct scenario_completion *out) {
	const char *at = strrchr(text, '@');
	size_t length = strlen(text), digits;

	out->at_ns = 0;
	out->destination = SCENARIO_NONE;
	if (at != NULL && text_to_duration_ns(at + 1, &out->at_ns))
		length = (size_t)(at - text);
	digits = strspn(text, "0123456789");
	if (!text_to_u32(text, digits, w->scenario->message_count, &out->message) ||
	    out->message == 0)
		return "unknown message";
	out->message--;
	if (length == digits)
		return NULL;
	if (text[digits] != ':')
		return "must be MESSAGE or MESSAGE:DESTINATION, optionally with @TIME";
	out->destination = scenario_find(w, text + digits + 1, length - digits - 1);
	return out->destination == SCENARIO_NONE ? "unknown destination" : NULL;
}

void scenario_read_completions(struct scenario_work *w) {
	const config_setting_t *list = config_lookup(&w->c.config, "completions");
	struct scenario *s = w->scenario;
	unsigned length = list != NULL ? setting_element_count(list) : 0;

	if (length > 0 && s->fails)
		complain(&w->c, list, "completions: cannot be used with destinations.accepts or "
		    "transports.works");
	if (length > SCENARIO_COMPLETIONS_MAX) {
		complain(&w->c, list, "completions: more than %u", SCENARIO_COMPLETIONS_MAX);
		return;
	}
	s->completions = memory_of(length, sizeof(*s->completions));
	for (unsigned i = 0; i < length; i++) {
		const config_setting_t *element = setting_element(list, i);
		struct scenario_completion *completion = &s->completions[s->completion_count];
		const char *text = config_setting_type(element) == CONFIG_TYPE_STRING ?
		    config_setting_get_string(element) : "";
		char quoted[SCENARIO_TEXT_MAX + 1];
		const char *why;
		unsigned line;

		if (*text == '\0' || strlen(text) > SCENARIO_TEXT_MAX)
			continue;	/* said so already */
		why = read_completion(w, text, completion);
		if (why != NULL) {
			complain(&w->c, element, "completions: \"%s\": %s",
			    log_sentence(quoted, sizeof(quoted), text), why);
			continue;
		}
		(void)source_place(&w->c.source, config_setting_source_line(element), &line);
		completion->line = (int)line;
		s->completion_count++;
	}
}
