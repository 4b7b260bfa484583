/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Next hops and lanes of a site's file, without the daemon.
 * MODEL    The file is read as a whole when its name leads to another one, into a generation
 *          of this mail server and its transports alone: both find the same.
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
#include "config/generation/block.h"
#include "config/generation/generation_internal.h"
#include "config/generation/site_file.h"

struct site_routes {
	char path[PATH_MAX];
	const char *mta;
	uint64_t stamp;			/* of the file that was read; 0: none was */
	int64_t looked_ns;		/* for another one; 0: never */
	struct generation *generation;	/* of the mail server, and its transports; NULL: unusable */
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

void site_routes_close(struct site_routes **routes) {
	if (*routes != NULL)
		free((*routes)->generation);
	free(*routes);
	*routes = NULL;
}

/* --- the file ---------------------------------------------------------------- */

/* All lanes that are there are meant. */
static void add_part(struct block *block, const struct site_file *file, uint32_t number) {
	const struct site_part *part = &file->parts[number];
	struct generation_mta row = { .lane_count = part->lane_count };
	struct generation *header;

	memcpy(row.lanes, part->lanes, sizeof(row.lanes));
	if (number == 0) {
		site_file_store(block, file, &row);
	} else {
		row.transport = site_text_store(block, part->transport);
		site_part_store(block, file, part, &row);
	}
	header = (struct generation *)(void *)block->data;
	if (!block->failed)
		header->mtas[header->mta_count++] = row;
}

/* NULL: mistakes, another's, or no memory. */
static struct generation *read_text(const char *mta, const char *text, size_t length) {
	struct site_file file = { .mta = mta };
	struct generation *generation = NULL;
	struct block block;

	if (site_file_read(&file, text, length) && file.parts[0].refusal.length == 0) {
		block_begin(&block, sizeof(*generation));
		for (uint32_t i = 0; i < file.part_count; i++)
			add_part(&block, &file, i);
		generation = block_finish(&block);
	}
	site_file_free(&file);
	return generation;
}

static struct generation *read_open_file(const char *mta, int fd, size_t length) {
	struct generation *generation = NULL;
	char *text = malloc(length + 1);

	if (text != NULL && file_read_at(fd, text, length, 0) == (ssize_t)length)
		generation = read_text(mta, text, length);
	free(text);
	return generation;
}

static void read_file_of(struct site_routes *routes) {
	int fd = open(routes->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;

	free(routes->generation);
	routes->generation = NULL;
	routes->stamp = 0;
	if (fd < 0)
		return;
	if (fstat(fd, &status) == 0) {
		routes->stamp = file_stamp_of(&status);
		if (S_ISREG(status.st_mode) &&
		    (status.st_uid == 0 || status.st_uid == geteuid()) &&
		    (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && status.st_size > 0 &&
		    (uint64_t)status.st_size <= SITE_FILE_BYTES_MAX)
			routes->generation = read_open_file(routes->mta, fd,
			    (size_t)status.st_size);
	}
	close(fd);
}

static bool is_read(const struct site_routes *routes) {
	struct stat now;

	return stat(routes->path, &now) == 0 && file_stamp_of(&now) == routes->stamp;
}

bool site_routes_usable(const struct site_routes *routes) {
	return routes->generation != NULL;
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

/* --- questions --------------------------------------------------------------- */

/* The row by whose transport mail for the domain goes; NULL: nothing is known. */
static const struct generation_mta *find_row(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns) {
	const struct generation *g;

	/* a look costs as much as the rest of an answer */
	if (routes->looked_ns == 0 || now_ns - routes->looked_ns >= SITE_ROUTES_LOOK_NS) {
		routes->looked_ns = now_ns;
		if (!is_read(routes))
			read_file_of(routes);
	}
	g = routes->generation;
	return g == NULL ? NULL : &g->mtas[generation_site_transport(g, 0, domain, length)];
}

const char *site_routes_transport(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns) {
	const struct generation_mta *row = find_row(routes, domain, length, now_ns);

	return row == NULL ? "" : generation_text(routes->generation, row->transport);
}

/* Does the site leave the domain to hints? */
static bool is_left_to_us(const struct generation *g, const struct generation_mta *row,
    const char *domain, size_t length) {
	return site_is_host_name(domain, length) &&
	    !generation_site_excludes(g, row, domain, length, NULL) &&
	    generation_site_lists(g, &g->mtas[0], domain, length);
}

const char *site_routes_probe_hop(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns) {
	const struct generation_mta *row = find_row(routes, domain, length, now_ns);
	const struct generation *g = routes->generation;

	/* a further transport keeps its probes: the lane is a clone of the first one */
	if (row == NULL || row->transport != 0 || row->site_probes == 0 ||
	    !is_left_to_us(g, row, domain, length) ||
	    !generation_site_routes(g, row, domain, length))
		return NULL;
	return generation_site_next_hop(g, row, domain, length);
}

static bool has_lane(const struct generation_mta *row, uint16_t width) {
	for (uint32_t i = 0; i < row->lane_count; i++)
		if (row->lanes[i] == width)
			return true;
	return false;
}

const char *site_routes_next_hop(struct site_routes *routes, const char *domain,
    size_t length, uint16_t width, int64_t now_ns) {
	const struct generation_mta *row = find_row(routes, domain, length, now_ns);
	const struct generation *g = routes->generation;

	if (row == NULL || row->site_refusal != 0 || !has_lane(row, width) ||
	    !is_left_to_us(g, row, domain, length))
		return NULL;
	return generation_site_next_hop(g, row, domain, length);
}

bool site_routes_has_sources(const struct site_routes *routes) {
	return routes->generation != NULL && routes->generation->mtas[0].site_source_count > 0;
}

const char *site_routes_source_hop(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns) {
	const struct generation_mta *row = find_row(routes, domain, length, now_ns);
	const struct generation *g = routes->generation;

	if (row == NULL || row->transport != 0 || row->site_refusal != 0 ||
	    !is_left_to_us(g, row, domain, length))
		return NULL;
	return generation_site_next_hop(g, row, domain, length);
}

const char *site_routes_source(const struct site_routes *routes,
    bool (*is_it)(const char *transport, uint64_t which), uint64_t which) {
	const struct generation *g = routes->generation;

	for (uint32_t i = 0; g != NULL && i < g->mtas[0].site_source_count; i++) {
		const char *transport = generation_text_of(g, g->mtas[0].site_sources, i);

		if (is_it(transport, which))
			return transport;
	}
	return NULL;
}
