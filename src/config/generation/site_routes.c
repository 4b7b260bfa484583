/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Next hops and lanes of a site's file, without the daemon.
 * MODEL    The file is read as a whole when its name leads to another one; masks become
 *          the same indexes that config/mta/site.c makes of them, so that both find the same.
 * ERRORS   Any doubt: the site has no lanes.
 * THREADS  One.
 */
#include "config/generation/site_routes.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_bytes.h"
#include "base/file_stamp.h"
#include "base/text.h"
#include "config/generation/mask_index.h"
#include "config/generation/site_file.h"
#include "policy/limit/class.h"

/* The indexes of a part of the file. */
struct part {
	void *routes, *excluded;	/* NULL: there are none */
};

struct site_routes {
	char path[PATH_MAX];
	const char *mta;
	uint64_t stamp;			/* of the file that was read; 0: none was */
	int64_t looked_ns;		/* for another one; 0: never */
	bool usable;
	/* of it: */
	char *text;			/* spans of the file end with a NUL there */
	struct site_file file;
	struct part parts[SITE_PARTS_MAX];
	void *listed;
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

static void routes_forget(struct site_routes *routes) {
	for (uint32_t i = 0; i < SITE_PARTS_MAX; i++) {
		free(routes->parts[i].routes);
		free(routes->parts[i].excluded);
		routes->parts[i] = (struct part){ .routes = NULL };
	}
	free(routes->listed);
	routes->listed = NULL;
	site_file_free(&routes->file);
	free(routes->text);
	routes->text = NULL;
	routes->usable = false;
}

void site_routes_close(struct site_routes **routes) {
	if (*routes != NULL)
		routes_forget(*routes);
	free(*routes);
	*routes = NULL;
}

/* --- its lines --------------------------------------------------------------- */

/* False: no memory. */
static bool build_index(const struct site_masks *masks, void **index) {
	size_t bytes;

	*index = masks->count == 0 ? NULL : mask_index_make(masks->masks, masks->count, &bytes);
	return *index != NULL || masks->count == 0;
}

static uint32_t match(const void *index, const char *domain, size_t length) {
	return index == NULL ? CLASS_NO_RULE : class_index_match(index, NULL, domain, length);
}

/* What the spans of an own text point at, as a string. */
static const char *text_of(const struct site_routes *routes, struct span span) {
	if (span.length == 0)
		return "";
	routes->text[(size_t)(span.text - routes->text) + span.length] = '\0';
	return span.text;
}

static bool read_text(struct site_routes *routes, size_t length) {
	struct site_file *file = &routes->file;

	*file = (struct site_file){ .mta = routes->mta };
	if (!site_file_read(file, routes->text, length) || file->parts[0].refusal.length > 0)
		return false;
	for (uint32_t i = 0; i < file->part_count; i++)
		if (!build_index(&file->parts[i].routes, &routes->parts[i].routes) ||
		    !build_index(&file->parts[i].excluded, &routes->parts[i].excluded))
			return false;
	return build_index(&file->listed, &routes->listed);
}

/* --- the file ---------------------------------------------------------------- */

/* False: not whole. */
static bool routes_load(struct site_routes *routes, int fd, size_t length) {
	routes->text = malloc(length + 1);
	if (routes->text == NULL || file_read_at(fd, routes->text, length, 0) != (ssize_t)length)
		return false;
	routes->text[length] = '\0';
	return true;
}

static void read_file_of(struct site_routes *routes) {
	int fd = open(routes->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;

	routes_forget(routes);
	routes->stamp = 0;
	if (fd < 0)
		return;
	if (fstat(fd, &status) == 0) {
		routes->stamp = file_stamp_of(&status);
		routes->usable = S_ISREG(status.st_mode) &&
		    (status.st_uid == 0 || status.st_uid == geteuid()) &&
		    (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && status.st_size > 0 &&
		    (uint64_t)status.st_size <= SITE_FILE_BYTES_MAX &&
		    routes_load(routes, fd, (size_t)status.st_size) &&
		    read_text(routes, (size_t)status.st_size);
	}
	close(fd);
}

static bool is_read(const struct site_routes *routes) {
	struct stat now;

	return stat(routes->path, &now) == 0 && file_stamp_of(&now) == routes->stamp;
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

static bool has_lane(const struct site_part *part, uint16_t width) {
	for (uint32_t i = 0; i < part->lane_count; i++)
		if (part->lanes[i] == width)
			return true;
	return false;
}

static void routes_look(struct site_routes *routes, int64_t now_ns) {
	/* a look costs as much as the rest of an answer */
	if (routes->looked_ns == 0 || now_ns - routes->looked_ns >= SITE_ROUTES_LOOK_NS) {
		routes->looked_ns = now_ns;
		if (!is_read(routes))
			read_file_of(routes);
	}
}

/* The number of the part whose mail it is: the clone's where it is no other's. */
static uint32_t part_of(const struct site_routes *routes, const char *domain, size_t length) {
	for (uint32_t i = 1; i < routes->file.part_count; i++)
		if (match(routes->parts[i].routes, domain, length) != CLASS_NO_RULE &&
		    match(routes->parts[i].excluded, domain, length) == CLASS_NO_RULE)
			return i;
	return 0;
}

const char *site_routes_transport(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns) {
	routes_look(routes, now_ns);
	return !routes->usable ? "" : text_of(routes,
	    routes->file.parts[part_of(routes, domain, length)].transport);
}

/* Does the site leave the domain to hints? */
static bool is_left_to_us(const struct site_routes *routes, uint32_t part,
    const char *domain, size_t length) {
	return site_is_host_name(domain, length) &&
	    match(routes->parts[part].excluded, domain, length) == CLASS_NO_RULE &&
	    (!routes->file.only_listed ||
	    match(routes->listed, domain, length) != CLASS_NO_RULE);
}

const char *site_routes_probe_hop(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns) {
	uint32_t rule;

	routes_look(routes, now_ns);
	/* a further transport keeps its probes: the lane is a clone of the first one */
	if (!routes->usable || routes->file.probes == 0 ||
	    part_of(routes, domain, length) != 0 || !is_left_to_us(routes, 0, domain, length))
		return NULL;
	rule = match(routes->parts[0].routes, domain, length);
	return rule == CLASS_NO_RULE ? NULL :
	    text_of(routes, routes->file.parts[0].routes.texts[rule]);
}

const char *site_routes_next_hop(struct site_routes *routes, const char *domain,
    size_t length, uint16_t width, int64_t now_ns) {
	const struct site_part *part;
	uint32_t number, rule;

	routes_look(routes, now_ns);
	if (!routes->usable)
		return NULL;
	number = part_of(routes, domain, length);
	part = &routes->file.parts[number];
	if (part->refusal.length > 0 || !has_lane(part, width) ||
	    !is_left_to_us(routes, number, domain, length))
		return NULL;
	rule = match(routes->parts[number].routes, domain, length);
	return text_of(routes, rule == CLASS_NO_RULE ? routes->file.relayhost :
	    part->routes.texts[rule]);
}
