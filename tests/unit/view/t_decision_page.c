/* SPDX-License-Identifier: ISC */
/* Decisions for the page: alike ones are one group, a suspension stands apart, nobody's address
 * of a recipient is shown; and pages of destinations, in each order. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "segment/file/internal.h"
#include "segment/destination/states.h"
#include "tests/unit/own_site.h"
#include "view/decision_page.h"
#include "view/destination_page.h"

static struct view view;

static int begin(void **state) {
	struct diag diag;
	char path[128];

	site_open_sized(&site, 64, 4096, "classes = ( { name = \"c\"; match = \"*\"; refuse_at = 1; } );");
	snprintf(path, sizeof(path), "%s/state", site.directory);
	assert_int_equal(view_open(&view, path, &diag), 0);
	return 0;
}

static int end(void **state) {
	view_close(&view);
	site_close(&site);
	return 0;
}

static void decide(enum decided_kind kind, uint8_t reason, uint8_t flags, const char *name,
    const char *class, int64_t ago_ns) {
	struct decided d = { .kind = (uint8_t)kind, .reason = reason, .flags = flags,
		.at_ns = clock_now_ns() - ago_ns };

	d.id = decisions_claim(site.segment, decided_ring_of(kind));
	decided_put(&d, DECIDED_NAME, name, strlen(name));
	decided_put(&d, DECIDED_CLASS, class, strlen(class));
	decisions_write(site.segment, &d);
}

static char *page_of(struct decision_choice choice, bool changes) {
	char *out = NULL;
	size_t length;
	FILE *file = open_memstream(&out, &length);
	struct writer writer;

	assert_non_null(file);
	writer_init(&writer, file, true);
	if (choice.limit == 0)
		choice.limit = 40;
	assert_int_equal(changes ? decision_changes_write(&view, NULL, &choice, &writer, NULL) :
	    decision_groups_write(&view, &choice, &writer, NULL), 0);
	fclose(file);
	return out;
}

static unsigned rows_of(const char *page) {
	unsigned rows = 0;

	for (const char *at = page; (at = strstr(at, "{\"id\"")) != NULL; at++)
		rows++;
	return rows;
}

static void has(struct decision_choice choice, bool changes, unsigned rows, const char *part) {
	char *page = page_of(choice, changes);

	assert_int_equal(rows_of(page), rows);
	if (part != NULL)
		assert_non_null(strstr(page, part));
	free(page);
}

TEST_IN(begin, end, alike_ones_are_one_group) {
	for (unsigned i = 0; i < 412; i++)
		decide(DECIDED_FAILURE, DECIDED_NO_REASON, DECIDED_OUTBOUND, "provider:google", "",
		    60 * NS_PER_SECOND);
	decide(DECIDED_FAILURE, DECIDED_NO_REASON, DECIDED_OUTBOUND, "b.example", "", 0);
	for (unsigned i = 0; i < 7; i++)
		decide(DECIDED_REFUSED, REASON_CLASS_INBOUND, 0, i % 2 == 0 ? "x.example" :
		    "y.example", "c", 0);
	/* too long ago */
	decide(DECIDED_FAILURE, DECIDED_NO_REASON, DECIDED_OUTBOUND, "old.example", "",
	    700 * NS_PER_SECOND);
	has((struct decision_choice){ .limit = 40 }, false, 3, "\"count\": 412, \"first\": 60, "
	    "\"subject\": \"destination\", \"about\": \"provider:google\"");
	has((struct decision_choice){ .kind = "refused" }, false, 1, "\"count\": 7");
	has((struct decision_choice){ .find = "GOOGLE" }, false, 1, NULL);
	has((struct decision_choice){ .about = "c" }, false, 1, "\"subject\": \"class\"");
	has((struct decision_choice){ .kind = "none" }, false, 0, NULL);
	has((struct decision_choice){ .limit = 2 }, false, 2, NULL);
}

TEST_IN(begin, end, a_suspension_stands_apart) {
	decide(DECIDED_SUSPENDED, DECIDED_NO_REASON, DECIDED_OUTBOUND, "z.example", "",
	    700 * NS_PER_SECOND);	/* a machine may be up for no longer */
	for (unsigned i = 0; i < 300; i++)
		decide(DECIDED_FAILURE, DECIDED_NO_REASON, DECIDED_OUTBOUND, "b.example", "", 0);
	has((struct decision_choice){ .limit = 40 }, true, 1, "z.example");
}

TEST_IN(begin, end, no_address_of_a_recipient) {
	decide(DECIDED_RECIPIENT_HELD, DECIDED_NO_REASON, DECIDED_OUTBOUND |
	    DECIDED_IS_RECIPIENT, "u@d.example", "", 0);
	decide(DECIDED_BY_HAND, DECIDED_NO_REASON, DECIDED_OUTBOUND | DECIDED_IS_RECIPIENT,
	    "u@d.example", "", 0);
	has((struct decision_choice){ .limit = 40 }, false, 0, NULL);
	has((struct decision_choice){ .limit = 40 }, true, 0, NULL);
}

/* More kinds of them than there is room for. */
TEST_IN(begin, end, many_groups) {
	char name[32];

	for (unsigned i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "d%u.example", i);
		decide(DECIDED_FAILURE, DECIDED_NO_REASON, DECIDED_OUTBOUND, name, "", 0);
		decide(DECIDED_REFUSED, REASON_CLASS_INBOUND, 0, "x.example", name, 0);
	}
	has((struct decision_choice){ .limit = DECISION_GROUPS }, false, DECISION_GROUPS, NULL);
}

/* --- pages of destinations --------------------------------------------------------- */

static char *destinations(struct page_choice choice) {
	struct destination_index *index = destination_index_new();
	char *out = NULL;
	size_t length;
	FILE *file = open_memstream(&out, &length);
	struct writer writer;

	assert_non_null(index);
	assert_non_null(file);
	writer_init(&writer, file, true);
	assert_int_equal(destination_page_write(index, &view, &choice, true, &writer), 0);
	fclose(file);
	destination_index_free(&index);
	return out;
}

static void put_window(const char *name, uint32_t concurrency) {
	struct state_lock lock;

	assert_true(states_aim(site.segment, name, strlen(name), &lock));
	assert_int_equal(states_lock(&lock, clock_now_ns(), STATES_CREATE), STATES_HELD);
	window_begin(&lock.state.window, &window_defaults);
	lock.state.begun = true;
	lock.state.window.concurrency = (uint16_t)concurrency;
	states_store(&lock);
	states_unlock(&lock);
}

/* Each page in turn has the next rows of the whole order, and each row once. */
TEST_IN(begin, end, pages_follow_each_other) {
	static const enum page_sort sorts[] = { PAGE_BY_TROUBLE, PAGE_BY_NAME, PAGE_BY_WINDOW };
	char name[32], wanted[40], *page;

	for (unsigned i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "d%03u.example", i);
		put_window(name, 1 + i % 20);
	}
	for (unsigned s = 0; s < 3; s++) {
		bool seen[300] = { false };

		for (unsigned offset = 0; offset < 300; offset += 70) {
			page = destinations((struct page_choice){ .sort = sorts[s], .limit = 70,
				.offset = offset, .reversed = s == 2 });
			assert_non_null(strstr(page, "\"total\": 300"));
			assert_non_null(strstr(page, "\"found\": 300"));
			for (unsigned i = 0; i < 300; i++) {
				snprintf(wanted, sizeof(wanted), "\"d%03u.example\"", i);
				if (strstr(page, wanted) == NULL)
					continue;
				assert_false(seen[i]);
				seen[i] = true;
				if (sorts[s] == PAGE_BY_NAME)
					assert_in_range(i, offset, offset + 69);
			}
			free(page);
		}
		for (unsigned i = 0; i < 300; i++)
			assert_true(seen[i]);
	}
	page = destinations((struct page_choice){ .sort = PAGE_BY_NAME, .limit = 9, .find = "D01" });
	assert_non_null(strstr(page, "\"found\": 10"));
	free(page);
	page = destinations((struct page_choice){ .limit = 9, .find = "d017.example", .exact = true });
	assert_non_null(strstr(page, "\"found\": 1,"));
	free(page);
	page = destinations((struct page_choice){ .limit = 9, .offset = 5000 });
	assert_non_null(strstr(page, "\"rows\": []"));
	free(page);
}
