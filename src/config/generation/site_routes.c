/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Next hops and lanes of a site's file, without the daemon.
 * MODEL    The file is read as a whole when its name leads to another one; masks become
 *          the same indexes that config/mta/site.c makes of them, so that both find the same.
 *          Lines that are for the daemon alone are passed over.
 * ERRORS   Any doubt: the site has no lanes.
 * THREADS  One.
 */
#include "config/generation/site_routes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "config/generation/mask_index.h"
#include "policy/limit/class.h"

#define BYTES_MAX	((size_t)64 << 20)
#define NEXT_HOP_MAX	255
#define WIDTHS_MAX	64
#define PARTS_MAX	8	/* transports of one mta */
#define WIDTH_MOST	10000
#define TRANSPORT_MAX	32

struct masks {
	struct class_rule *rules;
	const char **texts;		/* behind each mask */
	uint32_t count, room;
	void *index;			/* NULL: there are none */
};

/* What is told of one transport: that which the mta clones, whose name is "", is the first. */
struct part {
	const char *transport;
	struct masks routes, excluded;
	bool refused;
	uint16_t widths[WIDTHS_MAX];
	uint32_t width_count;
};

struct site_routes {
	char path[PATH_MAX];
	const char *mta;
	struct stat read;		/* of the file that was read; no inode: none was */
	int64_t looked_ns;		/* for another one; 0: never */
	bool usable;
	/* of it: */
	char *text;			/* its lines, each ended by a NUL */
	const char *relayhost;
	struct part parts[PARTS_MAX];
	uint32_t part_count;
	struct masks listed;
	bool named, only_listed;
	bool probes;			/* those of addresses have a lane */
};

struct site_routes *site_routes_open(const char *path, const char *mta) {
	struct site_routes *routes = calloc(1, sizeof(*routes));

	if (routes == NULL)
		return NULL;
	if (!text_copy(routes->path, sizeof(routes->path), path, strlen(path)))
		routes->path[0] = '\0';
	routes->mta = mta;
	return routes;
}

static void free_masks(struct masks *masks) {
	free(masks->rules);
	free(masks->texts);
	free(masks->index);
	*masks = (struct masks){ .rules = NULL };
}

static void forget(struct site_routes *routes) {
	for (uint32_t i = 0; i < routes->part_count; i++) {
		free_masks(&routes->parts[i].routes);
		free_masks(&routes->parts[i].excluded);
	}
	free_masks(&routes->listed);
	free(routes->text);
	routes->text = NULL;
	routes->relayhost = "";
	routes->named = routes->only_listed = routes->usable = false;
	routes->parts[0] = (struct part){ .transport = "" };
	routes->part_count = 1;
	routes->probes = false;
}

void site_routes_close(struct site_routes **routes) {
	if (*routes != NULL)
		forget(*routes);
	free(*routes);
	*routes = NULL;
}

/* --- lines ------------------------------------------------------------------- */

/* Ends the first word of *rest and moves *rest behind the blanks after it. */
static char *take_word(char **rest) {
	char *word = *rest;

	*rest += strcspn(*rest, " ");
	if (**rest != '\0')
		*(*rest)++ = '\0';
	*rest += strspn(*rest, " ");
	return word;
}

static bool is_one_word(const char *text) {
	return text[0] != '\0' && strchr(text, ' ') == NULL && strlen(text) <= NEXT_HOP_MAX;
}

static bool add_mask(struct masks *masks, const char *mask, const char *text) {
	struct class_rule *rule;
	const char *why;

	if (masks->count == masks->room) {
		uint32_t room = masks->room == 0 ? 64 : 2 * masks->room;
		struct class_rule *rules = reallocarray(masks->rules, room, sizeof(*rules));
		const char **texts;

		if (rules == NULL)
			return false;
		masks->rules = rules;
		texts = reallocarray(masks->texts, room, sizeof(*texts));
		if (texts == NULL)
			return false;
		masks->texts = texts;
		masks->room = room;
	}
	rule = &masks->rules[masks->count];
	memset(rule, 0, sizeof(*rule));
	if (!mask_parse(mask, strlen(mask), &rule->mask, &why))
		return false;
	masks->texts[masks->count++] = text;
	return true;
}

static bool add_width(struct part *part, const char *text) {
	uint32_t width;

	if (part->width_count == WIDTHS_MAX ||
	    !text_to_u32(text, strlen(text), WIDTH_MOST, &width))
		return false;
	part->widths[part->width_count++] = (uint16_t)width;
	return true;
}

/* The lines behind it are of this transport. */
static bool add_part(struct site_routes *routes, const char *transport) {
	if (routes->part_count == PARTS_MAX || !is_one_word(transport) ||
	    strlen(transport) > TRANSPORT_MAX)
		return false;
	routes->parts[routes->part_count++] = (struct part){ .transport = transport };
	return true;
}

/* False: a mistake, or no memory. */
static bool read_line(struct site_routes *routes, char *line) {
	struct part *part = &routes->parts[routes->part_count - 1];
	char *word = take_word(&line);

	if (strcmp(word, "mta") == 0) {
		routes->named = strcmp(line, routes->mta) == 0;
		return routes->named;
	}
	if (strcmp(word, "transport") == 0)
		return add_part(routes, line);
	if (strcmp(word, "refuse") == 0)
		part->refused = true;
	else if (strcmp(word, "only-listed") == 0)
		routes->only_listed = true;
	else if (strcmp(word, "probes") == 0)
		routes->probes = true;
	else if (strcmp(word, "lane") == 0)
		return add_width(part, line);
	else if (strcmp(word, "relayhost") == 0)
		return is_one_word(routes->relayhost = line);
	else if (strcmp(word, "route") == 0) {
		word = take_word(&line);
		return is_one_word(line) && add_mask(&part->routes, word, line);
	} else if (strcmp(word, "exclude") == 0)
		return add_mask(&part->excluded, take_word(&line), "");
	else if (strcmp(word, "own") == 0 && routes->part_count > 1)
		return add_mask(&part->routes, take_word(&line), "");
	else if (strcmp(word, "list") == 0)
		return is_one_word(line) && add_mask(&routes->listed, line, "");
	return true;
}

/* Makes the masks an index.  False: no memory. */
static bool build_index(struct masks *masks) {
	size_t bytes;

	if (masks->count == 0)
		return true;
	masks->index = mask_index_make(masks->rules, masks->count, &bytes);
	free(masks->rules);
	masks->rules = NULL;
	return masks->index != NULL;
}

static uint32_t match(const struct masks *masks, const char *domain, size_t length) {
	return masks->index == NULL ? CLASS_NO_RULE :
	    class_index_match(masks->index, NULL, domain, length);
}

static bool read_text(struct site_routes *routes, size_t length) {
	static const char first[] = "postern-site 1";
	char *line = routes->text, *end = line + length, *next;

	if (memchr(line, '\0', length) != NULL)
		return false;
	for (unsigned number = 1; line < end; line = next, number++) {
		char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t bytes = (size_t)((newline == NULL ? end : newline) - line);

		next = line + bytes + 1;
		while (bytes > 0 && line[bytes - 1] == ' ')
			bytes--;
		line[bytes] = '\0';
		if (number == 1 ? strcmp(line, first) != 0 :
		    line[0] != '\0' && line[0] != '#' && !read_line(routes, line))
			return false;
	}
	for (uint32_t i = 0; i < routes->part_count; i++)
		if (!build_index(&routes->parts[i].routes) ||
		    !build_index(&routes->parts[i].excluded))
			return false;
	return routes->named && !routes->parts[0].refused && build_index(&routes->listed);
}

/* --- the file ---------------------------------------------------------------- */

/* False: not whole. */
static bool load(struct site_routes *routes, int fd, size_t length) {
	size_t have = 0;

	routes->text = malloc(length + 1);
	while (routes->text != NULL && have < length) {
		ssize_t got = read(fd, routes->text + have, length - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		have += (size_t)got;
	}
	if (routes->text == NULL)
		return false;
	routes->text[length] = '\0';
	return true;
}

static void read_file_of(struct site_routes *routes) {
	struct stat *status = &routes->read;
	int fd = open(routes->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	forget(routes);
	memset(status, 0, sizeof(*status));
	if (fd < 0)
		return;
	if (fstat(fd, status) == 0 && S_ISREG(status->st_mode) &&
	    (status->st_uid == 0 || status->st_uid == geteuid()) &&
	    (status->st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
	    status->st_size > 0 && (uint64_t)status->st_size <= BYTES_MAX &&
	    load(routes, fd, (size_t)status->st_size))
		routes->usable = read_text(routes, (size_t)status->st_size);
	close(fd);
}

static bool is_read(const struct site_routes *routes) {
	const struct stat *read = &routes->read;
	struct stat now;

	return stat(routes->path, &now) == 0 && now.st_ino == read->st_ino &&
	    now.st_dev == read->st_dev && now.st_size == read->st_size &&
	    now.st_mtim.tv_sec == read->st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == read->st_mtim.tv_nsec &&
	    now.st_ctim.tv_sec == read->st_ctim.tv_sec &&
	    now.st_ctim.tv_nsec == read->st_ctim.tv_nsec;
}

bool site_routes_usable(const struct site_routes *routes) {
	return routes->usable;
}

bool site_is_host_name(const char *name, size_t length) {
	bool has_letter = false;	/* the last label: else it is an address */

	for (size_t i = 0; i < length; i++) {
		char lower = (char)(name[i] | 0x20);
		bool letter = (lower >= 'a' && lower <= 'z') || name[i] == '-' || name[i] == '_';

		if (!letter && name[i] != '.' && (name[i] < '0' || name[i] > '9'))
			return false;
		has_letter = name[i] != '.' && (has_letter || letter);
	}
	return has_letter;
}

static bool has_lane(const struct part *part, uint16_t width) {
	for (uint32_t i = 0; i < part->width_count; i++)
		if (part->widths[i] == width)
			return true;
	return false;
}

static void look(struct site_routes *routes, int64_t now_ns) {
	/* a look costs as much as the rest of an answer */
	if (routes->looked_ns == 0 || now_ns - routes->looked_ns >= SITE_ROUTES_LOOK_NS) {
		routes->looked_ns = now_ns;
		if (!is_read(routes))
			read_file_of(routes);
	}
}

/* The part whose mail it is: the clone's where it is no other's. */
static const struct part *part_of(const struct site_routes *routes, const char *domain,
    size_t length) {
	for (uint32_t i = 1; i < routes->part_count; i++) {
		const struct part *part = &routes->parts[i];

		if (match(&part->routes, domain, length) != CLASS_NO_RULE &&
		    match(&part->excluded, domain, length) == CLASS_NO_RULE)
			return part;
	}
	return &routes->parts[0];
}

const char *site_routes_transport(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns) {
	look(routes, now_ns);
	return !routes->usable ? "" : part_of(routes, domain, length)->transport;
}

/* Does the site leave the domain to hints? */
static bool is_left_to_us(const struct site_routes *routes, const struct part *part,
    const char *domain, size_t length) {
	return site_is_host_name(domain, length) &&
	    match(&part->excluded, domain, length) == CLASS_NO_RULE &&
	    (!routes->only_listed || match(&routes->listed, domain, length) != CLASS_NO_RULE);
}

bool site_routes_has_probes(struct site_routes *routes, int64_t now_ns) {
	look(routes, now_ns);
	return routes->usable && routes->probes;
}

const char *site_routes_probe_hop(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns) {
	const struct part *part;
	uint32_t rule;

	if (!site_routes_has_probes(routes, now_ns))
		return NULL;
	part = part_of(routes, domain, length);
	/* a further transport keeps its probes: the lane is a clone of the first one */
	if (part != &routes->parts[0] || !is_left_to_us(routes, part, domain, length))
		return NULL;
	rule = match(&part->routes, domain, length);
	return rule == CLASS_NO_RULE ? NULL : part->routes.texts[rule];
}

const char *site_routes_next_hop(struct site_routes *routes, const char *domain,
    size_t length, uint16_t width, int64_t now_ns) {
	const struct part *part;
	uint32_t rule;

	look(routes, now_ns);
	if (!routes->usable)
		return NULL;
	part = part_of(routes, domain, length);
	if (part->refused || !has_lane(part, width) ||
	    !is_left_to_us(routes, part, domain, length))
		return NULL;
	rule = match(&part->routes, domain, length);
	return rule == CLASS_NO_RULE ? routes->relayhost : part->routes.texts[rule];
}
