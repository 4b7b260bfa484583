/* SPDX-License-Identifier: ISC */
/*
 *	ask_accounts CONFIGURATION OVERRIDES
 *
 * The accounts of a configuration file, asked in virtual time, line by line on standard input:
 *	T NS				it is now so many ns after the begin
 *	R LOGIN INSTANCE SIZE RECIPIENT NETWORK	a recipient; the client is in 10.0.NETWORK.0/24
 *	E LOGIN INSTANCE SIZE COUNT NETWORK	the end of a message
 *	O INSTANCE			the connection of its process ended
 * Each of R and E is answered by a line: "yes", or "no REASON USED LIMIT", or "never ..." where
 * that is for good, or "observed ...": yes, but for observe it would have been no.  For
 * tests/mta/test_accounts_model.py, whose model knows nothing of this code.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/account/accounts.h"
#include "tests/unit/site.h"

#define WORDS	6
#define PROCESSES 64
#define TEXT_MAX 65536

/* The last transaction of each process that was told of. */
static struct { uint64_t process; } processes[PROCESSES];

static unsigned place_of(const char *instance) {
	return (unsigned)strtoul(instance, NULL, 16) % PROCESSES;
}

static void answer(struct site *site, const struct account_question *question, int64_t now_ns) {
	static const char *const reasons[REASON_COUNT] = {
#define REASON(symbol, word, text) [REASON_##symbol] = word,
#include "defs/reasons.def"
#undef REASON
	};
	struct account_answer told;

	engine_account_ask(site->engine, site->generation, question, now_ns, &told);
	processes[place_of(question->instance)].process = told.process;
	if (told.verdict == VERDICT_ADMIT && !told.observed)
		puts("yes");
	else
		printf("%s %s %" PRIu64 " %" PRIu64 "\n", told.observed ? "observed" :
		    told.verdict == VERDICT_REFUSE ? "never" : "no", reasons[told.reason],
		    told.used, told.limit);
	fflush(stdout);
}

static void ask(struct site *site, char *const words[], int64_t now_ns) {
	bool at_end = words[0][0] == 'E';
	const struct account_question question = {
		.login = words[1], .login_length = strlen(words[1]),
		.sender = "a@b", .sender_length = 3,
		.instance = words[2], .instance_length = strlen(words[2]),
		.size = strtoull(words[3], NULL, 10), .at_end = at_end,
		.recipient_count = at_end ? (uint32_t)strtoul(words[4], NULL, 10) : 0,
		.recipient = at_end ? NULL : words[4],
		.recipient_length = at_end ? 0 : strlen(words[4]),
		.client.bytes = { [10] = 0xff, [11] = 0xff, 10, 0,
		    (uint8_t)strtoul(words[5], NULL, 10), 7 },
	};

	answer(site, &question, now_ns);
}

static char *read_file(const char *path) {
	char *text = calloc(1, TEXT_MAX);
	FILE *file = fopen(path, "r");
	size_t length = file == NULL || text == NULL ? 0 : fread(text, 1, TEXT_MAX - 1, file);

	if (length == 0)
		exit(2);
	fclose(file);
	return text;
}

int main(int argc, char **argv) {
	static struct site site;
	int64_t begun_ns = clock_now_ns(), now_ns = begun_ns;
	char line[4096];

	if (argc != 3)
		return 2;
	site_accounts = "16k";		/* nobody is evicted */
	site_overrides = read_file(argv[2]);
	site_open(&site, 64, read_file(argv[1]));
	while (fgets(line, sizeof(line), stdin) != NULL) {
		char *words[WORDS], *rest = NULL;
		unsigned count = 0;

		for (char *word = strtok_r(line, " \n", &rest); word != NULL && count < WORDS;
		     word = strtok_r(NULL, " \n", &rest))
			words[count++] = word;
		if (count == 2 && words[0][0] == 'T')
			now_ns = begun_ns + strtoll(words[1], NULL, 10);
		else if (count == 2 && words[0][0] == 'O')
			engine_account_process_over(site.engine,
			    processes[place_of(words[1])].process, false, now_ns);
		else if (count == 6)
			ask(&site, words, now_ns);
	}
	site_close(&site);
	return 0;
}
