/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Opens what status, classes and sessions read.
 * MODEL    A state file that was replaced between open and look is opened again.
 *          The configuration in force is the block that the daemon published
 *          beside the state, not the file that an admin may be editing.
 * ERRORS   No state file: an exit code.  No block: the parts that need it are
 *          not known.
 * THREADS  One.
 */
#include "ctl/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/control_client.h"

#define REOPEN_TRIES	5
#define PING_TIMEOUT_MS	10000

static int map_block(const char *path, const struct generation **out,
    struct diag *diag) {
	struct stat st;
	void *block;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return diag_set(diag, errno, "%s", path);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
		close(fd);
		return diag_set(diag, 0, "%s: not a configuration block", path);
	}
	block = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (block == MAP_FAILED)
		return diag_set(diag, errno, "%s", path);
	if (generation_verify(block, (size_t)st.st_size, diag) != 0) {
		munmap(block, (size_t)st.st_size);
		return -1;
	}
	*out = block;
	return 0;
}

static void open_generation(struct state *state) {
	char path[PATH_MAX + 32];
	struct diag diag;

	if (state->status.generation == 0)
		return;
	snprintf(path, sizeof(path), "%s.config.%llu", state->places.state,
	    (unsigned long long)state->status.generation);
	if (map_block(path, &state->generation, &diag) != 0)
		ctl_complain("%s", diag.text);
}

static void complain_if_away(const struct reader_status *status) {
	int64_t age_s = (status->now_ns - status->heartbeat_ns) / NS_PER_SECOND;

	if (status->health == READER_LIVE)
		return;
	if (status->heartbeat_ns <= 0 || age_s < 0)
		ctl_complain("posternd gave no sign of life since the last boot: "
		    "this is what it left");
	else
		ctl_complain("posternd gave no sign of life for %lld s: "
		    "this is what it left", (long long)age_s);
}

static void ping_row(void *context, const struct control_frame *frame) {
	const char *path = control_frame_get(frame, "state");
	struct places *places = context;

	if (path != NULL)
		text_copy(places->state, sizeof(places->state), path, strlen(path));
}

/* A daemon that is named by its socket alone tells where its state file is. */
static int ask_for_state(struct places *places) {
	static const struct control_field request = { "command", "ping" };
	struct control_reply reply;
	struct diag diag;

	if (control_ask(places->control, &request, 1, PING_TIMEOUT_MS, ping_row,
		places, &reply, &diag) != 0)
		return ctl_fail(&diag);
	return EX_OK;
}

int state_open(const struct ctl *ctl, struct state *state) {
	struct diag diag;
	int result;

	memset(state, 0, sizeof(*state));
	result = places_find(ctl, &state->places);
	if (result == EX_OK && ctl->socket != NULL && !ctl->config_given)
		result = ask_for_state(&state->places);
	if (result != EX_OK)
		return result;
	for (unsigned tries = 0; tries < REOPEN_TRIES; tries++) {
		reader_close(&state->reader);
		if (reader_open(&state->reader, state->places.state, &diag) != 0)
			return ctl_fail(&diag);
		reader_status(state->reader, &state->status);
		if (state->status.health != READER_REPLACED)
			break;
	}
	complain_if_away(&state->status);
	open_generation(state);
	return EX_OK;
}

void state_close(struct state *state) {
	reader_close(&state->reader);
	if (state->generation != NULL)
		munmap((void *)(uintptr_t)state->generation,
		    (size_t)state->generation->bytes);
	state->generation = NULL;
	places_free(&state->places);
}

void state_torn(unsigned torn, const char *what) {
	if (torn > 0)
		ctl_complain("%u %s left out: they changed while they were read",
		    torn, what);
}

const char *state_health(enum reader_health health) {
	static const char *const words[] = {
		[READER_LIVE] = "live",
		[READER_STALE] = "stale",
		[READER_REPLACED] = "replaced",
	};

	return words[health];
}
