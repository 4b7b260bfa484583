/* SPDX-License-Identifier: ISC */
/* The name of a log that is systemd's journal. */
#include "base/sd_log.h"

#include <string.h>

#include "base/text.h"

static const char prefix[] = "journal:";

bool sd_log_is(const char *text) {
	return strncmp(text, prefix, sizeof(prefix) - 1) == 0;
}

/* "unit=NAME", of `length` bytes. */
static bool take_part(const char *part, size_t length, struct sd_log *out, const char **why) {
	const struct { const char *key; char *to; size_t size; } keys[] = {
		{ "unit=", out->unit, sizeof(out->unit) },
		{ "identifier=", out->identifier, sizeof(out->identifier) },
		{ "user=", out->user, sizeof(out->user) },
		{ "directory=", out->directory, sizeof(out->directory) },
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		size_t key = strlen(keys[i].key);

		if (length < key || memcmp(part, keys[i].key, key) != 0)
			continue;
		if (*keys[i].to != '\0')
			*why = "names the same thing twice";
		else if (length == key)
			*why = "has a key without a value";
		else if (!text_copy(keys[i].to, keys[i].size, part + key, length - key))
			*why = "has a value that is too long";
		return *why == NULL;
	}
	*why = "must be \"journal:\", or that and unit=, identifier=, user= or directory=, with "
	    "commas between";
	return false;
}

bool sd_log_parse(const char *text, struct sd_log *out, const char **why) {
	const char *part = text + sizeof(prefix) - 1;

	memset(out, 0, sizeof(*out));
	*why = NULL;
	while (*part != '\0') {
		size_t length = strcspn(part, ",");

		if (!take_part(part, length, out, why))
			return false;
		part += length;
		if (*part == ',' && *++part == '\0')
			*why = "ends with a comma";
	}
	if (*why == NULL && out->directory[0] != '\0' && out->directory[0] != '/')
		*why = "has a directory that is no absolute path";
	return *why == NULL;
}
