/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What of the system's files a process cannot reach as the first process does.
 * MODEL    Each mount of ours is held against the one that has its place there: the same
 *          directory of the same file system, with no flag more?  Texts alone: to look at a
 *          file would mount, or wait for, what is far away.
 * ERRORS   A line that is none is passed over.
 * THREADS  Any.
 */
#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "role/confine/confinement.h"
#include "wire/ask/span.h"

#define NAMED_MOST 4

struct mount {
	struct span device, root, place, options;
};

static struct span next_word(const char **at) {
	struct span word = { *at, strcspn(*at, " \n") };

	*at += word.length;
	*at += **at == ' ';
	return word;
}

static const char *next_line(const char *at) {
	at += strcspn(at, "\n");
	return *at == '\n' ? at + 1 : at;
}

/* "36 35 98:0 /root /place rw,nosuid ..." */
static bool mount_parse(const char *line, struct mount *mount) {
	(void)next_word(&line);
	(void)next_word(&line);
	mount->device = next_word(&line);
	mount->root = next_word(&line);
	mount->place = next_word(&line);
	mount->options = next_word(&line);
	return mount->options.length > 0 && mount->root.text[0] == '/' &&
	    mount->place.text[0] == '/';
}

static bool same(struct span a, struct span b) {
	return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

/* "/" is the beginning of no name. */
static size_t length_of(struct span path) {
	return path.length == 1 ? 0 : path.length;
}

static bool is_below(struct span path, struct span directory) {
	size_t length = length_of(directory);

	return path.length >= length && memcmp(path.text, directory.text, length) == 0 &&
	    (path.length == length || path.text[length] == '/');
}

static bool has(struct span options, const char *flag) {
	while (options.length > 0)
		if (span_is(span_until(&options, ','), flag))
			return true;
	return false;
}

/* The mount that has the path there: the deepest, and of these the last. */
static bool mount_find(const char *mounts, struct span path, struct mount *found) {
	struct mount mount;
	bool any = false;

	for (const char *line = mounts; *line != '\0'; line = next_line(line)) {
		if (!mount_parse(line, &mount) || !is_below(path, mount.place) ||
		    (any && mount.place.length < found->place.length))
			continue;
		*found = mount;
		any = true;
	}
	return any;
}

/* Do both have the same directory at our mount's place? */
static bool is_same_directory(const struct mount *ours, const struct mount *first) {
	size_t above = length_of(first->root);
	struct span rest = { ours->place.text + length_of(first->place),
		ours->place.length - length_of(first->place) };

	if (rest.length == 1)
		rest.length = 0;
	if (!same(ours->device, first->device) || ours->root.length == 0)
		return false;
	return length_of(ours->root) == above + rest.length &&
	    memcmp(ours->root.text, first->root.text, above) == 0 &&
	    memcmp(ours->root.text + above, rest.text, rest.length) == 0;
}

/* No delivery has business there. */
static bool is_no_matter(struct span place) {
	static const char *const places[] = { "/proc", "/sys", "/run/systemd", "/run/credentials",
		"/boot", "/efi" };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (is_below(place, span_text(places[i])))
			return true;
	return false;
}

/* What is wrong with it, or NULL. */
static const char *fault_of(const struct mount *ours, const char *first_mounts) {
	static const char *const flags[][2] = { { "ro", "read-only" }, { "noexec", "noexec" },
		{ "nosuid", "nosuid" }, { "nodev", "nodev" } };
	struct mount first;

	if (!mount_find(first_mounts, ours->place, &first) || !is_same_directory(ours, &first))
		return "other";
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (has(ours->options, flags[i][0]) && !has(first.options, flags[i][0]))
			return flags[i][1];
	return NULL;
}

void confinement_compare_mounts(const char *ours, const char *first, char *out, size_t size) {
	struct mount mount, last;
	unsigned named = 0;

	for (const char *line = ours; *line != '\0'; line = next_line(line)) {
		const char *fault;
		size_t length = strlen(out);

		/* one below another at the same place is not seen */
		if (!mount_parse(line, &mount) || is_no_matter(mount.place) ||
		    !mount_find(ours, mount.place, &last) || last.device.text != mount.device.text)
			continue;
		fault = fault_of(&mount, first);
		if (fault == NULL || named++ > NAMED_MOST)
			continue;
		if (named > NAMED_MOST)
			(void)text_append(out, size, length, ", ...");
		else
			(void)text_append(out, size, length, "%s%s %.*s", length == 0 ? "" : ", ",
			    fault, (int)mount.place.length, mount.place.text);
	}
}
