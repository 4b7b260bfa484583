/* SPDX-License-Identifier: ISC */
/*
 * hold_sessions STATE COUNT: opens so many sessions in the state of a daemon that runs, as a
 * policy role of it would that then dies: they stand on their leases (listener 0).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/engine.h"
#include "segment/file/internal.h"

static int fail(const char *what) {
	fprintf(stderr, "hold_sessions: %s\n", what);
	return 1;
}

static bool open_number(struct engine *engine, const struct generation *generation,
    uint32_t number) {
	struct question question = { .server_port = 25, .owner = OWNER_POLICY,
		.client_port = (uint16_t)(1024 + number % 60000) };
	uint32_t address = number * 2654435761u;
	struct answer answer;

	memcpy(question.client.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	memcpy(question.client.bytes + 12, &address, 4);
	engine_session_open(engine, generation, &question, clock_now_ns(), &answer);
	return answer.session.slot != 0;
}

int main(int argc, char **argv) {
	unsigned number = GENERATION_ROLES_MAX - 1, place = segment_role_place(ROLE_POLICY, number);
	const struct generation *generation;
	struct segment *segment;
	struct engine *engine;
	struct stat status;
	struct diag diag;
	uint32_t count;
	int fd;

	if (argc != 3 || !text_to_u32(argv[2], strlen(argv[2]), UINT32_MAX, &count) ||
	    stat(argv[1], &status) != 0)
		return fail("usage: hold_sessions STATE COUNT");
	/* as the user of the roles */
	if (setgid(status.st_gid) != 0 || setuid(status.st_uid) != 0)
		return fail("cannot become the owner of the state");
	fd = segment_open_file(argv[1], status.st_uid, &diag);
	if (fd < 0 || segment_attach(&segment, fd, argv[1], &diag) != 0)
		return fail(diag.text);
	segment_role_starting(segment, ROLE_POLICY, number, clock_now_ns());
	if (engine_open(&engine, segment, place, &diag) != 0)
		return fail(diag.text);
	generation = engine_pin(engine);
	for (uint32_t i = 0; i < count; i++)
		if (!open_number(engine, generation, i))
			return fail("a session was not counted");
	(void)segment_role_died(segment, place, getpid());
	segment_role_forget(segment, place);
	return 0;
}
