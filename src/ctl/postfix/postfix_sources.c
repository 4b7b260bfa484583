/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Transports of sources that are warmed up, by master.cf.
 * MODEL    One that is not there would keep its mail queued; of one whose name the log does not
 *          show, no result is known, and each day would look good.  Both get no mail.
 * ERRORS   All are told.
 * THREADS  One.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "ctl/postfix/postfix_lanes.h"

/* The syslog_name of a service, as it is written out. */
static bool has_its_name(const struct lanes *lanes, const char *transport) {
	static const char own_name[] = "$service_name";
	const char *value = postfix_value(lanes->settings, transport, "syslog_name", false);
	const char *from = value == NULL ? NULL : strstr(value, own_name);
	char written[256] = "", wanted[256] = "";

	if (value == NULL)
		return false;
	if (from == NULL)
		(void)text_append(written, sizeof(written), 0, "%s", value);
	else
		(void)text_append(written, sizeof(written), 0, "%.*s%s%s", (int)(from - value), value,
		    transport, from + sizeof(own_name) - 1);
	(void)text_append(wanted, sizeof(wanted), 0, "%s/%s", generation_text(lanes->generation,
	    lanes->mta->syslog_name), transport);
	return strcmp(written, wanted) == 0;
}

bool lanes_source_fault(const struct lanes *lanes, const char *transport, bool is_source,
    char out[LANES_SOURCE_TEXT]) {
	out[0] = '\0';
	if (postfix_service(lanes->settings, transport) == NULL)
		snprintf(out, LANES_SOURCE_TEXT, "master.cf has no service %s", transport);
	else if (is_source && !has_its_name(lanes, transport))
		snprintf(out, LANES_SOURCE_TEXT, "master.cf must have -o syslog_name=%s/%s for %s",
		    generation_text(lanes->generation, lanes->mta->syslog_name), transport, transport);
	return out[0] != '\0';
}

/* Mail by it is no warm-up of another address. */
static bool has_no_address(const struct lanes *lanes, const char *transport) {
	return postfix_override(lanes->settings, transport, "smtp_bind_address", false) == NULL &&
	    postfix_override(lanes->settings, transport, "smtp_bind_address6", false) == NULL;
}

void lanes_complain_of_sources(const struct lanes *lanes) {
	const struct generation *g = lanes->generation;
	char why[LANES_SOURCE_TEXT];

	for (uint32_t i = 0; g != NULL && i < g->source_count; i++) {
		const struct generation_source *source = generation_source(g, i);
		const char *name = generation_text(g, source->name);
		const char *transport = generation_text(g, source->transport);
		const char *over = generation_text(g, source->over);

		if (lanes_source_fault(lanes, transport, true, why))
			ctl_complain("source %s gets no mail: %s", name, why);
		else if (has_no_address(lanes, transport))
			ctl_complain("source %s: %s has no smtp_bind_address of its own", name,
			    transport);
		if (over[0] != '\0' && lanes_source_fault(lanes, over, false, why))
			ctl_complain("source %s: over is not used: %s", name, why);
	}
}

void lanes_write_sources(struct writer *writer, const struct lanes *lanes) {
	const struct generation *g = lanes->generation;
	char why[LANES_SOURCE_TEXT];

	writer_list_begin(writer, "sources");
	for (uint32_t i = 0; g != NULL && i < g->source_count; i++) {
		const struct generation_source *source = generation_source(g, i);
		const char *transport = generation_text(g, source->transport);

		writer_row_begin(writer);
		writer_text(writer, "source", generation_text(g, source->name));
		writer_text(writer, "transport", transport);
		writer_text(writer, "fault", lanes_source_fault(lanes, transport, true, why) ? why :
		    NULL);
		writer_row_end(writer);
	}
	writer_list_end(writer);
}
