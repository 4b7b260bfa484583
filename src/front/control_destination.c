/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The control server's answer to "explain destination".
 * ERRORS   All are answers.
 * THREADS  The keeper's one.
 */
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/hints.h"
#include "engine/outbound.h"
#include "front/control_answer.h"
#include "front/control_row.h"

static void add_relay(struct control_writer *writer,
    const struct outbound_class *found) {
	char address[ADDRESS_TEXT_MAX];

	if (address_is_unknown(&found->relay))
		return;
	address_format(&found->relay, address);
	control_writer_add(writer, "relay", "%s", address);
	if (found->relay_name[0] != '\0')
		control_writer_add(writer, "relay_name", "%s",
		    found->relay_name);
}

static void add_counts(struct control_writer *writer,
    const struct generation *generation, const struct answer *answer,
    uint32_t open) {
	const struct limits *limits =
	    &generation_class(generation, answer->class_index)->limits;

	control_writer_add(writer, "count", "%u", answer->decision.count);
	control_answer_limit(writer, "limit", answer->decision.limit);
	control_writer_add(writer, "open", "%u", open);
	control_answer_limit(writer, "sessions", limits->sessions);
	control_answer_limit(writer, "inbound", limits->inbound);
}

/* What a Postfix's queue manager is told about mail for it. */
static void add_hint(struct control_writer *writer, const struct engine *engine,
    const struct generation *generation, const char *destination, size_t length,
    uint32_t class_index) {
	struct hint_explained hint;

	hint_explain(engine, generation, destination, length, class_index, clock_now_ns(), &hint);
	if (hint.mta == UINT8_MAX)
		return;
	control_writer_add(writer, "hint_mta", "%s", generation_text(generation,
	    generation->mtas[hint.mta].name));
	control_writer_add(writer, "hint", "%s", hint.kind);
	control_writer_add(writer, "hint_answer", "%s", hint.answer);
	control_writer_add(writer, "doubt", "%s", hint_doubt_word(hint.doubt));
	control_writer_add(writer, "doubt_text", "%s", hint.why);
}

static size_t explain(struct engine *engine, const struct generation *generation,
    const char *destination, size_t length, char *out) {
	struct control_writer writer;
	struct outbound_answer explained;
	const struct answer *answer = &explained.answer;
	uint32_t open;

	outbound_explain(engine, generation, destination, length, &explained,
	    &open);
	control_writer_begin(&writer, out, CONTROL_ANSWER_BYTES);
	control_writer_add(&writer, "row", "1");
	control_writer_add(&writer, "destination", "%.*s", (int)length,
	    destination);
	if (answer->rule != CLASS_NO_RULE)
		control_answer_class(&writer, generation, answer);
	control_writer_add(&writer, "found_by", "%s",
	    class_source_word(explained.found.source));
	add_relay(&writer, &explained.found);
	if (answer->rule != CLASS_NO_RULE)
		add_counts(&writer, generation, answer, open);
	control_answer_decision(&writer, answer);
	add_hint(&writer, engine, generation, destination, length,
	    answer->class_index);
	return control_writer_finish(&writer);
}

size_t control_answer_destination(struct engine *engine,
    const struct control_frame *request, char *out) {
	const char *destination = control_frame_get(request, "destination");
	const struct generation *generation;
	size_t length = destination == NULL ? 0 :
	    text_bare_host(&destination, strlen(destination));

	if (length == 0 || length > MASK_NAME_MAX)
		return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_USAGE,
		    "destination: a name of 1 to 255 characters, or an address");
	generation = engine_pin(engine);
	length = explain(engine, generation, destination, length, out);
	engine_unpin(engine, generation);
	return length + control_answer_end(out + length,
	    CONTROL_ANSWER_BYTES - length, EX_OK, "");
}
