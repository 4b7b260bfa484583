/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What keys do in posternctl top.
 * MODEL    What is done to the daemon is done by posternctl itself, run once more with the
 *          same configuration and socket: its answer is shown as it stands.  Nothing is done
 *          before somebody said yes to the very name.
 * ERRORS   They are shown.
 * THREADS  One.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decision_id.h"
#include "base/log.h"
#include "base/text.h"
#include "ctl/cli/program.h"
#include "ctl/show/top.h"

#define WORDS_MAX	16
#define DURATION_MAX	16

static const char help[] =
    "Tab          next pane: classes, destinations, decisions\n1 2 3        show this pane "
    "only, or all panes again\nup down      move (also k, j); PgUp, PgDn, Home, End\ns S       "
    "   next sort order; reverse the order\n/            show only rows that contain a text; "
    "Esc clears it\nu            suspend: stop mail for this destination or recipient, or to "
    "the\n             hosts of this class, for a time; asks for the time and for\n            "
    " confirmation\nr            resume: end the hold or suspension\nw Enter      why: the "
    "basis of a decision; for a destination its latest\n             decision and its state; "
    "for a class its latest decision\nq            quit\n\nThe values are those of posternctl "
    "classes, destinations and status; /s is\nthe rate since the previous update, about a "
    "second ago.  At most 1000\ndestinations are shown; the filter finds the others.  A + "
    "marks a truncated\ntext; \\xNN is a byte that is not printable.\n";

static void top_say(struct top *top, bool is_bad, const char *before, const char *name) {
	char quoted[TOP_MESSAGE_MAX];

	text_append(top->message, sizeof(top->message), 0, "%s%s", before,
	    name == NULL ? "" : log_quote(quoted, sizeof(quoted), name, strlen(name)));
	top->message_is_bad = is_bad;
}

/* --- what somebody types ------------------------------------------------------------------ */

/* In the last row.  False: given up. */
static bool ask_for(struct top *top, const char *question, char *answer, size_t size) {
	size_t length = strlen(answer);

	for (;;) {
		int rows, columns, key, column;

		top_draw(top);
		screen_size(&rows, &columns);
		screen_fill(rows - 1, SCREEN_PLAIN);
		screen_put(rows - 1, 0, SCREEN_BOLD, question);
		column = (int)strlen(question);
		screen_put(rows - 1, column, SCREEN_PLAIN, answer);
		screen_cursor(rows - 1, column + (int)length);
		screen_show();
		key = screen_key(1000);
		if (key == SCREEN_KEY_ENTER)
			return true;
		if (key == SCREEN_KEY_ESCAPE || key == SCREEN_KEY_CLOSED)
			return false;
		if (key == SCREEN_KEY_ERASE && length > 0)
			answer[--length] = '\0';
		else if (key >= ' ' && key <= '~' && length + 1 < size) {
			answer[length++] = (char)key;
			answer[length] = '\0';
		}
	}
}

static bool is_meant(struct top *top, const char *question) {
	char answer[4] = "";

	return ask_for(top, question, answer, sizeof(answer)) &&
	    (strcmp(answer, "y") == 0 || strcmp(answer, "yes") == 0);
}

/* --- posternctl once more ------------------------------------------------------------------- */

struct order {
	const char *words[WORDS_MAX];
	size_t count;
};

static void order_add(struct order *order, const char *word) {
	if (order->count + 1 < WORDS_MAX)
		order->words[order->count++] = word;
	order->words[order->count] = NULL;
}

static void order_begin(const struct top *top, struct order *order, const char *verb) {
	order_add(order, "/proc/self/exe");
	if (top->ctl->config_given) {
		order_add(order, "-c");
		order_add(order, top->ctl->config_path);
	}
	if (top->ctl->socket != NULL) {
		order_add(order, "-s");
		order_add(order, top->ctl->socket);
	}
	order_add(order, verb);
}

static void order_run(const struct order *order, FILE *out) {
	struct program_output output;
	struct diag diag;

	if (program_run(order->words, NULL, "", 0, &output, &diag) != 0) {
		fprintf(out, "%scannot run posternctl\n", diag.text);
		return;
	}
	fprintf(out, "%s%s%s", output.out, output.error, output.error[0] != '\0' ? "\n" : "");
	program_free(&output);
}

/* What they say; one without words is not run. */
static void orders_show(const char *title, const struct order orders[2]) {
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (unsigned i = 0; out != NULL && i < 2; i++)
		if (orders[i].count > 0) {
			fputs(ftell(out) > 0 ? "\n" : "", out);
			order_run(&orders[i], out);
		}
	if (out != NULL)
		fclose(out);
	top_page(title, text == NULL ? "no memory" : text);
	free(text);
}

/* --- whom a row is about --------------------------------------------------------------------- */

struct target {
	char name[TOP_NAME_MAX + 1];
	bool is_class;
	uint64_t id;		/* of a decision, or 0 */
};

static void take_name(struct target *target, const char *name) {
	const char *class = view_class_of(name);

	target->is_class |= class != NULL;
	if (class != NULL)
		name = class;
	text_copy(target->name, sizeof(target->name), name, strlen(name));
}

/* The last decision that was about it. */
static uint64_t find_decision(const struct top *top, const struct target *target) {
	for (size_t i = 0; i < top->decisions.count; i++) {
		const struct decided *decided = &top->decisions.list[i];

		if (strcmp(decided_text(decided, target->is_class ? DECIDED_CLASS : DECIDED_NAME),
			target->name) == 0)
			return decided->id;
	}
	return 0;
}

/* False: there is no row. */
static bool find_target(const struct top *top, struct target *target) {
	size_t row = top->lists[top->pane].chosen;

	*target = (struct target){ .is_class = top->pane == TOP_CLASSES };
	if (row >= top_count(top, top->pane))
		return false;
	if (top->pane == TOP_DECISIONS) {
		const struct decided *decided = &top->decisions.list[top->shown[row]];
		bool of_client = decided_is_of_client(decided);

		target->id = decided->id;
		target->is_class = of_client || (decided->flags & DECIDED_IS_CLASS) != 0;
		take_name(target, decided_text(decided, of_client ? DECIDED_CLASS : DECIDED_NAME));
		return true;
	}
	take_name(target, top->pane == TOP_CLASSES ? top->classes[row].class.name :
	    top->destinations[row].name);
	target->id = find_decision(top, target);
	return true;
}

static const char *what_is(const struct target *target, const char *before, const char *after,
    char out[TOP_MESSAGE_MAX]) {
	char name[TOP_MESSAGE_MAX / 2];

	text_append(out, TOP_MESSAGE_MAX, 0, "%s%s%s%s", before,
	    target->is_class ? "outbound mail of class " : "",
	    log_quote(name, sizeof(name), target->name, strlen(target->name)), after);
	return out;
}

/* --- the keys ------------------------------------------------------------------------------------ */

/* False: given up. */
static bool ask_for_time(struct top *top, char duration[DURATION_MAX]) {
	int64_t ns;

	if (!ask_for(top, "suspend for how long (90s, 15m, 2h; empty: window.suspend)? ", duration,
		DURATION_MAX))
		return false;
	if (duration[0] == '\0' || text_to_duration_ns(duration, &ns))
		return true;
	top_say(top, true, "not a time such as 90s, 15m or 2h: ", duration);
	return false;
}

/* "suspend" or "resume" */
static void top_act(struct top *top, const char *verb, bool for_a_time) {
	char question[TOP_MESSAGE_MAX], before[64], tail[64], duration[DURATION_MAX] = "";
	struct order orders[2] = { { .count = 0 } }, *order = &orders[0];
	struct target target;

	if (!find_target(top, &target) || target.name[0] == '\0') {
		text_append(before, sizeof(before), 0, "this row has nothing to %s", verb);
		top_say(top, true, before, NULL);
		return;
	}
	if (for_a_time && !ask_for_time(top, duration))
		return;
	text_append(before, sizeof(before), 0, "%s ", verb);
	text_append(tail, sizeof(tail), 0, "%s%s? (y/n) ", duration[0] == '\0' ? "" : " for ",
	    duration);
	if (!is_meant(top, what_is(&target, before, tail, question)))
		return;
	order_begin(top, order, verb);
	if (duration[0] != '\0') {
		order_add(order, "--for");
		order_add(order, duration);
	}
	order_add(order, target.is_class ? "--class" : "--");
	order_add(order, target.name);
	text_append(before, sizeof(before), 0, "posternctl %s: ", verb);
	orders_show(what_is(&target, before, "", question), orders);
}

static void top_why(struct top *top) {
	char title[TOP_MESSAGE_MAX], id[DECISION_ID_MAX];
	struct order orders[2] = { { .count = 0 } };
	struct target target;

	if (!find_target(top, &target))
		return;
	if (target.id != 0) {
		order_begin(top, &orders[0], "why");
		order_add(&orders[0], decision_id_text(target.id, id));
	}
	if (top->pane == TOP_DESTINATIONS && !target.is_class &&
	    strchr(target.name, '@') == NULL) {
		order_begin(top, &orders[1], "explain");
		order_add(&orders[1], "destination");
		order_add(&orders[1], "--");
		order_add(&orders[1], target.name);
	}
	if (orders[0].count + orders[1].count == 0) {
		top_say(top, false, "no recent decision about ", target.name);
		return;
	}
	target.is_class = false;	/* its name says enough */
	orders_show(what_is(&target, "why: ", "", title), orders);
}

static void set_filter(struct top *top) {
	char filter[sizeof(top->filter)];

	memcpy(filter, top->filter, sizeof(filter));
	if (!ask_for(top, "show only rows with: ", filter, sizeof(filter)))
		return;
	memcpy(top->filter, filter, sizeof(top->filter));
	top->look_again = true;
}

static void top_move(struct top *top, int key) {
	long row = (long)top->lists[top->pane].chosen;
	int rows, columns;
	long page;

	screen_size(&rows, &columns);
	page = (long)top_room(top, top->pane, rows);
	if (key == SCREEN_KEY_UP || key == 'k')
		row--;
	else if (key == SCREEN_KEY_DOWN || key == 'j')
		row++;
	else if (key == SCREEN_KEY_PAGE_UP)
		row -= page;
	else if (key == SCREEN_KEY_PAGE_DOWN)
		row += page;
	else
		row = key == SCREEN_KEY_HOME ? 0 : (long)top_count(top, top->pane) - 1;
	top_choose(top, row);
	if (key == SCREEN_KEY_HOME)
		top->lists[top->pane].is_chosen = false;
}

static void top_sort(struct top *top, bool reverse) {
	struct top_list *list = &top->lists[top->pane];

	if (reverse)
		list->reversed = !list->reversed && top->pane != TOP_DECISIONS;
	else
		list->sort = (list->sort + 1) % top_sorts(top->pane);
	top_order(top);
}

static void take_pane(struct top *top, enum top_pane pane) {
	top->alone = !(top->alone && top->pane == pane);
	top->pane = pane;
}

void top_take_key(struct top *top, int key) {
	top->message[0] = '\0';
	switch (key) {
	case 'q': case SCREEN_KEY_CLOSED:
		top->ends = true;
		break;
	case '\t':
		top->pane = (enum top_pane)((top->pane + 1) % TOP_PANES);
		break;
	case '1': case '2': case '3':
		take_pane(top, (enum top_pane)(key - '1'));
		break;
	case SCREEN_KEY_UP: case SCREEN_KEY_DOWN: case SCREEN_KEY_PAGE_UP:
	case SCREEN_KEY_PAGE_DOWN: case SCREEN_KEY_HOME: case SCREEN_KEY_END: case 'k': case 'j':
		top_move(top, key);
		break;
	case 's': case 'S':
		top_sort(top, key == 'S');
		break;
	case '/':
		set_filter(top);
		break;
	case SCREEN_KEY_ESCAPE:
		top->filter[0] = '\0';
		top->look_again = true;
		break;
	case 'u':
		top_act(top, "suspend", true);
		break;
	case 'r':
		top_act(top, "resume", false);
		break;
	case 'w': case SCREEN_KEY_ENTER:
		top_why(top);
		break;
	case '?': case 'h':
		top_page("posternctl top", help);
		break;
	default:
		break;
	}
}
