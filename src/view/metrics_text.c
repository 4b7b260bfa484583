/* SPDX-License-Identifier: ISC */
/* The text format of Prometheus: names, labels, values. */
#include "view/metrics_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"

void metrics_label(FILE *out, const char *value) {
	for (const unsigned char *at = (const unsigned char *)value; *at != '\0';) {
		size_t length = writer_utf8_length((const char *)at);

		if (length == 0 || *at < ' ' || *at == 0x7f) {
			fprintf(out, "\\\\x%02x", (unsigned)*at);
			at++;
			continue;
		}
		if (*at == '"' || *at == '\\')
			putc('\\', out);
		fwrite(at, 1, length, out);
		at += length;
	}
}

void metrics_begin(struct scrape *scrape, const char *name, const char *type,
    const char *text) {
	size_t length = strcspn(type, " ");

	scrape->metric = name;
	scrape->labels = type + length;
	fprintf(scrape->out, "# HELP %s ", name);
	for (; *text != '\0'; text++) {
		if (*text == '\\')
			putc('\\', scrape->out);
		putc(*text, scrape->out);
	}
	fprintf(scrape->out, "\n# TYPE %s %.*s\n", name, (int)length, type);
}

void metrics_sample(struct scrape *scrape, const char *suffix, const char *const *values,
    size_t count) {
	const char *label = scrape->labels;

	fprintf(scrape->out, "%s%s", scrape->metric, suffix);
	for (size_t i = 0; i < count; i++) {
		int length;

		label += strspn(label, " ");
		length = (int)strcspn(label, " ");
		fprintf(scrape->out, "%s%.*s=\"", i == 0 ? "{" : ",", length > 0 ? length : 2,
		    length > 0 ? label : "le");
		label += length;
		metrics_label(scrape->out, values[i]);
		putc('"', scrape->out);
	}
	fputs(count > 0 ? "} " : " ", scrape->out);
}

void metrics_number_of(struct scrape *scrape, const char *of, uint64_t value) {
	metrics_sample(scrape, "", &of, of != NULL);
	fprintf(scrape->out, "%" PRIu64 "\n", value);
}

void metrics_ns(FILE *out, int64_t ns) {
	if (ns < 0)
		ns = 0;
	fprintf(out, "%" PRId64 ".%09" PRId64 "\n", ns / NS_PER_SECOND, ns % NS_PER_SECOND);
}

void metrics_seconds_of(struct scrape *scrape, const char *of, int64_t ns) {
	metrics_sample(scrape, "", &of, of != NULL);
	metrics_ns(scrape->out, ns);
}
