/* SPDX-License-Identifier: ISC */
/*
 * What is restored out of feed/ and keeper/ of a journal, whose records anybody may have
 * written.  Input: records, each its type, two bytes of length and its payload; those of
 * actions go to keeper/, all others to feed/.  Whatever is made of them makes sense.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/journal/journal_restore.h"
#include "journal/frame.h"
#include "journal/record.h"
#include "segment/file/internal.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"
#include "tests/unit/site.h"

#define ALL "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 100; } );\n" \
	"mta = ( { name = \"out\"; log = \"/var/log/mail.log\"; } );"
#define SALT 4711

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct site site;

static void close_site(void) {
	site_close(&site);
}

static void open_once(void) {
	static const char *const rooms[] = { "", "/feed", "/keeper" };
	char path[160];

	if (site.segment != NULL)
		return;
	site_open_sized(&site, 64, 64, ALL);
	atexit(close_site);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/journal%s", site.directory, rooms[i]);
		if (mkdir(path, 0700) != 0)
			abort();
	}
}

struct out {
	FILE *file;
	uint64_t sequence;
};

static void begin(struct out *out, const char *room, uint8_t kind) {
	const struct journal_head head = { .salt = SALT, .kind = kind, .journal = 1,
		.created_ns = 1, .number = 1 };
	uint8_t bytes[JOURNAL_HEAD_SIZE];
	char path[200];

	snprintf(path, sizeof(path), "%s/journal/%s/0000000001.log", site.directory, room);
	out->file = fopen(path, "w");
	if (out->file == NULL)
		abort();
	out->sequence = 1;
	journal_head_write(bytes, &head, out->sequence, 1);
	(void)fwrite(bytes, 1, sizeof(bytes), out->file);
}

static void add(struct out *out, uint8_t type, const uint8_t *payload, uint32_t length) {
	static uint8_t bytes[JOURNAL_FRAME_MAX];
	const struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = type,
		.version = JOURNAL_VERSION, .length = length, .sequence = ++out->sequence,
		.behind = 1, .payload = payload };

	(void)fwrite(bytes, 1, journal_frame_write(bytes, &frame, SALT), out->file);
}

static void write_all(const uint8_t *data, size_t size) {
	struct out feed, keeper;
	uint8_t group[64];
	size_t group_length = journal_checkpoint_write(group, sizeof(group),
	    &(const struct journal_checkpoint){ .number = 1, .when_ns = 1 });

	begin(&feed, "feed", JOURNAL_FEED);
	begin(&keeper, "keeper", JOURNAL_KEEPER);
	add(&feed, JOURNAL_CHECKPOINT_BEGIN, group, (uint32_t)group_length);
	while (size >= 3) {
		uint32_t length = (uint32_t)(data[1] | data[2] << 8);

		if (length > size - 3)
			length = (uint32_t)size - 3;
		add(data[0] == JOURNAL_MANUAL ? &keeper : &feed, data[0], data + 3, length);
		data += 3 + length;
		size -= 3 + length;
	}
	add(&feed, JOURNAL_GROUP, group, (uint32_t)group_length);
	fclose(feed.file);
	fclose(keeper.file);
}

static void look(void *context, const struct destination_window *window) {
	(void)context;
	if (window->state.begun && !window_is_sound(&window->state.window))
		abort();
	for (const char *c = window->reason; *c != '\0'; c++)
		if (*c < ' ' || *c >= 0x7f)
			abort();
}

static void ignore(void *context, const struct journal_news *news) {
	(void)context, (void)news;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const struct journal_listener nobody = { ignore, NULL };

	if (size > 60000)
		return 0;
	open_once();
	write_all(data, size);
	engine_journal_restore(site.engine, site.generation, &nobody, clock_now_ns(),
	    clock_wall_ns());
	(void)states_each(site.segment, look, NULL);
	return 0;
}
