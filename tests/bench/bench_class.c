/* SPDX-License-Identifier: ISC */
/*
 * Nanoseconds of one first match (a name and an address together) at 10, 1,000
 * and 100,000 mixed rules: host names and domains, IPv4 and IPv6 prefixes, some
 * name prefixes.  Half of the names and half of the addresses asked are of the
 * rules.  Median of several runs; always the same rules and questions.
 *
 * The index lies in a file mapping with pages of 4 kB, as in the daemon.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "policy/limit/class.h"

#define RUNS		15
#define QUESTIONS	65536
#define TEXT_MAX	80

struct question {
	struct address address;
	char name[TEXT_MAX];
	size_t length;
};

static uint64_t state = 20260821;
/* 0, but the compiler does not know: makes a question wait for the last answer. */
static volatile uint32_t no_bits_source;

static uint32_t below(uint32_t limit) {
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) % limit);
}

static int64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *need(void *memory) {
	if (memory == NULL || memory == MAP_FAILED) {
		perror("bench_class");
		exit(1);
	}
	return memory;
}

static const char *top(void) {
	static const char *const tops[] = {
		"com", "com", "com", "net", "org", "de", "fr", "co.uk", "example"
	};

	return tops[below(sizeof tops / sizeof tops[0])];
}

/* A domain that `who` marks as known ("d") or strange ("s"). */
static int write_domain(char *out, size_t room, const char *who) {
	return snprintf(out, room, "%s%x-mail.%s", who, below(1u << 30), top());
}

static void make_rule(uint32_t i, char text[TEXT_MAX]) {
	char domain[TEXT_MAX / 2];

	write_domain(domain, sizeof domain, "d");
	switch (i % 20) {
	case 0 ... 5:
		snprintf(text, TEXT_MAX, "mx%u.%s", below(10), domain);
		break;
	case 6 ... 9:
		snprintf(text, TEXT_MAX, "*.%s", domain);
		break;
	case 10:
		snprintf(text, TEXT_MAX, "pool%u.*", below(1000000));
		break;
	case 11 ... 14:
		snprintf(text, TEXT_MAX, "%u.%u.%u.0/24", 1 + below(223), below(256), below(256));
		break;
	case 15 ... 16:
		snprintf(text, TEXT_MAX, "%u.%u.%u.%u", 1 + below(223), below(256), below(256),
		    below(256));
		break;
	default:
		snprintf(text, TEXT_MAX, "2%x:%x:%x::/48", below(0x1000), below(65536),
		    below(65536));
	}
}

static void ask(struct question *q, const struct class_rule *rules, uint32_t count, uint32_t i) {
	char domain[TEXT_MAX / 2];
	const struct mask *mask = &rules[below(count)].mask;

	while (mask->kind == MASK_ADDRESS)
		mask = &rules[below(count)].mask;
	if (i % 2 == 0) {
		write_domain(domain, sizeof domain, "s");
		snprintf(q->name, sizeof q->name, "mail%u.%s", below(10), domain);
	} else if (mask->kind == MASK_NAME_PREFIX) {
		write_domain(domain, sizeof domain, "s");
		snprintf(q->name, sizeof q->name, "%.*s.%s", (int)mask->name_length, mask->name,
		    domain);
	} else {
		snprintf(q->name, sizeof q->name, "%s%.*s", mask->kind == MASK_DOMAIN ? "out7." : "",
		    (int)mask->name_length, mask->name);
	}
	q->length = strlen(q->name);
	while (mask->kind != MASK_ADDRESS)
		mask = &rules[below(count)].mask;
	q->address = mask->prefix.base;
	q->address.bytes[15] ^= (uint8_t)(mask->prefix.bits < 120 ? below(256) : 0);
	if (i / 2 % 2 == 0)
		for (int byte = 13; byte < 15; byte++) {
			q->address.bytes[byte] = (uint8_t)below(256);
			if (!address_is_v4(&q->address))
				q->address.bytes[byte - 10] = (uint8_t)below(256);
		}
}

static int compare(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *values, int count) {
	qsort(values, (size_t)count, sizeof *values, compare);
	return values[count / 2];
}

static void *build(const struct class_rule *rules, uint32_t count, double *build_ms) {
	size_t most, scratch_bytes, bytes;
	void *block, *scratch, *mapped;
	FILE *file = tmpfile();
	int64_t begin;

	class_index_measure(rules, count, &most, &scratch_bytes);
	block = need(malloc(most));
	scratch = need(malloc(scratch_bytes + 1));
	begin = now_ns();
	bytes = class_index_build(rules, count, block, most, scratch, scratch_bytes);
	*build_ms = (double)(now_ns() - begin) / 1e6;
	if (bytes == 0 || fwrite(block, 1, bytes, need(file)) != bytes || fflush(file) != 0)
		need(NULL);
	mapped = need(mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fileno(file), 0));
	fclose(file);
	if (count == 100000)
		printf("class_index_bytes_%u %zu\n", count, bytes);
	free(block);
	free(scratch);
	return mapped;
}

static void run(uint32_t count) {
	struct class_rule *rules = need(calloc(count, sizeof *rules));
	char (*texts)[TEXT_MAX] = need(calloc(count, sizeof *texts));
	struct question *questions = need(calloc(QUESTIONS, sizeof *questions));
	double runs[RUNS], build_ms;
	uint32_t hits = 0, no_bits = no_bits_source;
	void *index;

	for (uint32_t i = 0; i < count; i++) {
		const char *why;

		make_rule(count < 20 ? i * 2 : i, texts[i]);
		if (!mask_parse(texts[i], strlen(texts[i]), &rules[i].mask, &why)) {
			fprintf(stderr, "%s: %s\n", texts[i], why);
			exit(1);
		}
	}
	for (uint32_t i = 0; i < QUESTIONS; i++)
		ask(&questions[i], rules, count, i);
	index = build(rules, count, &build_ms);
	if (count == 100000)
		printf("class_index_build_ms_%u %.1f\n", count, build_ms);
	for (int n = 0; n < RUNS; n++) {
		int64_t begin = now_ns();
		uint32_t rule = 0;

		hits = 0;
		for (uint32_t i = 0; i < QUESTIONS; i++) {
			const struct question *q = &questions[i ^ (rule & no_bits)];

			rule = class_index_match(index, &q->address, q->name, q->length);
			hits += rule != CLASS_NO_RULE;
		}
		runs[n] = (double)(now_ns() - begin) / QUESTIONS;
	}
	printf("class_match_ns_%u %.1f\n", count, median(runs, RUNS));
	fprintf(stderr, "%u rules: %u of %u questions matched\n", count, hits, QUESTIONS);
	free(rules);
	free(texts);
	free(questions);
}

int main(void) {
	run(10);
	run(1000);
	run(100000);
	return 0;
}
