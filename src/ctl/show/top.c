/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl top: classes, destinations and decisions, live.
 * MODEL    A look at the state file each second, or as much more seldom as it takes long, and
 *          keys in between.  A daemon that goes away is told of in the first row; its successor
 *          is taken up as soon as it is there.
 * ERRORS   Without a terminal that can do it, or without ncurses: said, and no screen.
 * THREADS  One.
 */
#include "ctl/show/top.h"

#include <errno.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/cli/color.h"
#include "ctl/act/state.h"

#define LOOK_NS		NS_PER_SECOND
#define LOOK_SHARE	10	/* a tenth of the time at most */

#ifdef HAVE_NCURSES
static bool top_look(struct top *top, int64_t *next_ns) {
	int64_t began_ns = clock_now_ns(), took_ns;

	top->look_again = false;
	if (!top_gather(top, began_ns))
		return false;
	took_ns = clock_now_ns() - began_ns;
	*next_ns = began_ns + (took_ns * LOOK_SHARE > LOOK_NS ? took_ns * LOOK_SHARE : LOOK_NS);
	return true;
}

static int top_run(struct top *top) {
	int64_t next_ns = 0;

	while (!top->ends) {
		int64_t now_ns = clock_now_ns(), left_ns;
		int key;

		if ((now_ns >= next_ns || top->look_again) && !top_look(top, &next_ns))
			return ENOMEM;
		top_draw(top);
		left_ns = next_ns - clock_now_ns();
		key = screen_key(left_ns < NS_PER_MS ? 1 : (int)(left_ns / NS_PER_MS));
		if (key != SCREEN_KEY_NONE && key != SCREEN_KEY_RESIZED)
			top_take_key(top, key);
	}
	return 0;
}

static int top_show(struct ctl *ctl, const char *state_path) {
	static struct top top;
	struct diag diag;
	int error;

	top.ctl = ctl;
	if (view_open(&top.view, state_path, &diag) != 0) {
		top_free(&top);
		return ctl_fail(&diag);
	}
	if (screen_open(color_is_wanted(ctl->color), &diag) != 0) {
		top_free(&top);
		ctl_complain("%s", diag.text);
		return EX_UNAVAILABLE;
	}
	error = top_run(&top);
	screen_close();
	top_free(&top);
	if (error == 0)
		return EX_OK;
	ctl_complain("%s", strerror(error));
	return EX_OSERR;
}

#else
static int top_show(const struct ctl *ctl, const char *state_path) {
	(void)ctl, (void)state_path;
	ctl_complain("this posternctl was built without ncurses (--without-ncurses); use status, "
	    "classes, destinations and tail instead");
	return EX_UNAVAILABLE;
}
#endif

int command_TOP(struct ctl *ctl) {
	struct state state;
	char path[PATH_MAX];
	int result;

	if (ctl->writer.json)
		return ctl_usage(COMMAND_TOP, "top has no JSON output; use status, classes, "
		    "destinations or tail");
	result = state_open(ctl, &state);
	text_copy(path, sizeof(path), state.places.state, strlen(state.places.state));
	(void)state_close(&state, result);
	return result == EX_OK ? top_show(ctl, path) : result;
}
