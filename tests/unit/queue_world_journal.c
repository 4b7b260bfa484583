/* SPDX-License-Identifier: ISC */
#include "tests/unit/queue_world_journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/queue_world.h"

#ifndef WORLD_JOURNAL
#define WORLD_JOURNAL 0
#endif
#define EPOCH_NS	(INT64_C(1800000000) * NS_PER_SECOND)

bool world_has_journal = WORLD_JOURNAL;
int64_t world_wall_ns;
static char path[64];

const char *world_journal_path(void)
{
	return path;
}

void world_journal_open(struct queue *queue, int64_t now_ns)
{
	static const struct queue_journal_directory directories[WORLD_DIRECTORIES] = {
		{ 0, "s", "/q/0" }, { 0, "s", "/q/1" }, { 0, "s", "/q/2" }, { 0, "s", "/q/3" },
	};
	const struct queue_journal_setup setup = { .path = path, .file_size = 1 << 16,
		.sync_delay_ns = 100 * NS_PER_MS, .envelope_delay_ns = NS_PER_SECOND,
		.directories = directories, .directory_count = WORLD_DIRECTORIES };
	struct diag diag;

	if (!world_has_journal)
		return;
	if (path[0] == '\0') {
		(void)snprintf(path, sizeof(path), "/dev/shm/postern-queue-XXXXXX");
		assert_non_null(mkdtemp(path));
	}
	if (queue_journal_open(queue, &setup, now_ns, now_ns + EPOCH_NS + world_wall_ns,
	    &diag) != 0)
		fail_msg("%s", diag.text);
}

void world_journal_remove(void)
{
	DIR *directory = path[0] == '\0' ? NULL : opendir(path);
	const struct dirent *entry;

	while (directory != NULL && (entry = readdir(directory)) != NULL)
		(void)unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory != NULL)
		closedir(directory);
	if (path[0] != '\0')
		(void)rmdir(path);
	path[0] = '\0';
	world_wall_ns = 0;
}

struct queue_journal_view world_journal(void)
{
	struct queue_journal_view view;

	queue_journal_look(world.queue, &view);
	return view;
}
