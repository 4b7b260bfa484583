/* SPDX-License-Identifier: ISC */
/* A reply of any bytes, told in every way: a byte each for source, agent, status, phase
 * and dsn, then the text, and behind a NUL the reply. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "policy/reply/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct reply *reply, const char *from, size_t size) {
	const struct span words = reply->words;

	MUST((unsigned)reply->class < RESULT_CLASS_COUNT);
	MUST((unsigned)reply->phase < PHASE_COUNT);
	MUST(reply->code == 0 || (reply->code >= 200 && reply->code < 600));
	MUST(reply->enhanced[0] <= 5 && reply->enhanced[1] < 1000 && reply->enhanced[2] < 1000);
	MUST(words.length == 0 || (words.text >= from && words.length <= size &&
	    words.text <= from + size - words.length));
	MUST(result_class_word(reply->class)[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct delivery delivery = { .conn_use = 1 };
	struct reply reply;
	const char *nul;
	char *text;

	if (size < 5 || (text = malloc(size)) == NULL)
		return 0;
	memcpy(text, data, size);
	delivery.source = (enum delivery_source)(data[0] % 3);
	delivery.agent = (enum delivery_agent)(data[1] % 4);
	delivery.status = (enum delivery_status)(data[2] % 7);
	delivery.phase = (enum delivery_phase)(data[3] % PHASE_COUNT);
	delivery.dsn[0] = data[4] % 6;
	delivery.delays_ms[3] = data[4] / 6 - 1;
	nul = memchr(text + 5, '\0', size - 5);
	delivery.text = (struct span){ text + 5, (size_t)((nul ? nul : text + size) - text) - 5 };
	if (nul != NULL)
		delivery.reply = (struct span){ nul + 1, (size_t)(text + size - nul) - 1 };
	reply_judge(&delivery, &reply);
	check(&reply, text, size);
	reply_judge_text((struct span){ text + 5, size - 5 }, delivery.phase, &reply);
	check(&reply, text, size);
	free(text);
	return 0;
}
