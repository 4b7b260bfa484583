/* SPDX-License-Identifier: ISC */
/*
 * lease.c, for tests/mta/test_cluster_lease.py to compare it with lease.lua.  Reads lines:
 *	run ID			of the server, from now on
 *	stored ID		the same, as it stands in the data
 *	emptied
 *	HEAD POOL...		a call, its words with tabs between; its answer is written, as JSON
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/machine/lease.h"

#define WORDS_MAX 128

static struct lease_data data;
static char run[sizeof(data.run)];

static void write_value(const struct redis_value *value) {
	if (value->kind == REDIS_KIND_NUMBER)
		printf("%lld", (long long)value->number);
	else if (value->kind == REDIS_KIND_TEXT)
		printf("\"%s\"", value->text);
	else
		putchar('[');
	for (size_t i = 0; value->kind == REDIS_KIND_LIST && i < value->count; i++) {
		if (i > 0)
			putchar(',');
		write_value(&value->list[i]);
	}
	if (value->kind == REDIS_KIND_LIST)
		putchar(']');
}

static void call(char *line) {
	static struct lease_reply reply;
	const char *words[WORDS_MAX];
	size_t count = 0;
	char *rest = NULL;

	for (char *word = strtok_r(line, "\t", &rest); word != NULL && count < WORDS_MAX;
	    word = strtok_r(NULL, "\t", &rest))
		words[count++] = word;
	if (count > 0)
		(void)lease_run(&data, run, words[0], words + 1, count - 1, &reply);
	write_value(&reply.value);
	putchar('\n');
}

int main(void) {
	char *line = NULL;
	size_t size = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (getline(&line, &size, stdin) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "run ", 4) == 0)
			snprintf(run, sizeof(run), "%s", line + 4);
		else if (strncmp(line, "stored ", 7) == 0)
			snprintf(data.run, sizeof(data.run), "%s", line + 7);
		else if (strcmp(line, "emptied") == 0)
			memset(&data, 0, sizeof(data));
		else
			call(line);
	}
	free(line);
	return 0;
}
