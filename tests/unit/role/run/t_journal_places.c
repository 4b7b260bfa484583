/* SPDX-License-Identifier: ISC */
/* The directories of the journal. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "base/log.h"
#include "config/compile/compile.h"
#include "role/run/journal_places.h"
#include "tests/unit/scratch.h"

#define NOBODY 65534

static char base[128];

static struct identity ours(void) {
	bool drop = geteuid() == 0;

	return (struct identity){ .drop = drop, .uid = drop ? NOBODY : geteuid(),
		.gid = drop ? NOBODY : getegid() };
}

static int set_up(void **state) {
	assert_int_equal(scratch_open(state), 0);
	snprintf(base, sizeof(base), "%s/a/b", scratch);
	return 0;
}

static struct stat look(const char *word) {
	char path[256];
	struct stat status = { 0 };

	snprintf(path, sizeof(path), "%s/%s", base, word);
	(void)lstat(path, &status);
	return status;
}

TEST_IN(set_up, scratch_close, one_is_made_with_all_above_it) {
	struct identity identity = ours();
	struct diag diag;

	assert_int_equal(journal_place_make(base, "feed", &identity, &diag), 0);
	assert_true(S_ISDIR(look("feed").st_mode));
	assert_int_equal(look("feed").st_mode & 07777, 0700);
	assert_int_equal(look("feed").st_uid, identity.uid);
	assert_int_equal(look("").st_mode & 0777, 0755);
	/* again: as it is */
	assert_int_equal(journal_place_make(base, "feed", &identity, &diag), 0);
}

TEST_IN(set_up, scratch_close, another_mode_and_another_owner_are_put_right) {
	struct identity identity = ours();
	char path[256];
	struct diag diag;
	FILE *file;

	assert_int_equal(journal_place_make(base, "feed", &identity, &diag), 0);
	snprintf(path, sizeof(path), "%s/feed/0000000001.log", base);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	snprintf(path, sizeof(path), "%s/feed", base);
	assert_int_equal(chmod(path, 0755), 0);
	if (identity.drop)
		assert_int_equal(chown(path, 0, 0), 0);
	assert_int_equal(journal_place_make(base, "feed", &identity, &diag), 0);
	assert_int_equal(look("feed").st_mode & 07777, 0700);
	assert_int_equal(look("feed").st_uid, identity.uid);
	assert_int_equal(look("feed/0000000001.log").st_uid, identity.uid);
}

/* Mail that lies there by mistake of a path stays its owner's. */
TEST_IN(set_up, scratch_close, a_directory_that_holds_other_things_is_left_alone) {
	struct identity identity = ours();
	char path[256];
	struct diag diag;
	FILE *file;

	if (!identity.drop)
		return;
	assert_int_equal(journal_place_make(base, "feed", &identity, &diag), 0);
	snprintf(path, sizeof(path), "%s/feed/inbox", base);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	snprintf(path, sizeof(path), "%s/feed", base);
	assert_int_equal(chown(path, 1, 1), 0);
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(journal_place_make(base, "feed", &identity, &diag), -1);
	assert_non_null(strstr(diag.text, "inbox"));
	assert_int_equal(look("feed").st_uid, 1);
	assert_int_equal(look("feed").st_mode & 07777, 0755);
	assert_int_equal(look("feed/inbox").st_uid, 0);
}

/* Whoever owns the directory above must not have ours given to him. */
TEST_IN(set_up, scratch_close, a_link_in_its_place_is_not_followed) {
	struct identity identity = ours();
	char path[256], elsewhere[256];
	struct stat status;
	struct diag diag;

	assert_int_equal(journal_place_make(base, "keeper", &identity, &diag), 0);
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", scratch);
	assert_int_equal(mkdir(elsewhere, 0755), 0);
	snprintf(path, sizeof(path), "%s/feed", base);
	assert_int_equal(symlink(elsewhere, path), 0);
	assert_int_equal(journal_place_make(base, "feed", &identity, &diag), -1);
	assert_int_equal(stat(elsewhere, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0755);
	assert_int_equal(status.st_uid, geteuid());
}

/* STATE.journal stands in the roles' own directory: a link there would have root give /etc away. */
TEST_IN(set_up, scratch_close, a_link_of_another_user_above_it_is_not_followed) {
	struct identity identity = ours();
	struct diag diag;
	struct stat status;
	char link[128], there[128];

	if (geteuid() != 0)
		skip();
	snprintf(there, sizeof(there), "%s/etc", scratch);
	snprintf(link, sizeof(link), "%s/run", scratch);
	snprintf(base, sizeof(base), "%s/run/journal", scratch);
	assert_int_equal(mkdir(there, 0755), 0);
	assert_int_equal(symlink("etc", link), 0);
	assert_int_equal(lchown(link, NOBODY, NOBODY), 0);
	assert_int_equal(journal_place_make(base, "keeper", &identity, &diag), -1);
	assert_non_null(strstr(diag.text, ": symbolic links of users other than root are not "
	    "followed"));
	snprintf(there, sizeof(there), "%s/etc/journal", scratch);
	assert_int_equal(stat(there, &status), -1);
	/* root's own is how an administrator moves it to another disk */
	assert_int_equal(lchown(link, 0, 0), 0);
	assert_int_equal(journal_place_make(base, "keeper", &identity, &diag), 0);
	assert_int_equal(stat(there, &status), 0);
	/* and round and round */
	assert_int_equal(unlink(link), 0);
	assert_int_equal(symlink("run", link), 0);
	assert_int_equal(journal_place_make(base, "keeper", &identity, &diag), -1);
}

TEST_IN(set_up, scratch_close, a_file_in_the_way_is_told) {
	struct identity identity = ours();
	char path[256];
	struct diag diag;
	FILE *file;

	snprintf(path, sizeof(path), "%s/a", scratch);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_int_equal(journal_place_make(base, "feed", &identity, &diag), -1);
	assert_non_null(strstr(diag.text, base));
}

/* Without a driven queue and a log there is the keeper's alone; what is removed comes
 * back. */
TEST_IN(set_up, scratch_close, a_site_has_those_that_it_needs) {
	struct identity identity = ours();
	struct journal_places places = { .looked = false };
	struct config_messages messages;
	struct generation *generation;
	char text[512], path[256];

	snprintf(text, sizeof(text), "version = 1; journal = { path = \"%s\"; };\n"
	    "listen = { milter = \"unix:/m\"; events = \"unix:/e\"; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );", base);
	generation = config_compile_text(text, "test", &messages);
	config_messages_free(&messages);
	assert_non_null(generation);
	journal_places_turn(&places, generation, &identity, false, NS_PER_SECOND);
	assert_true(S_ISDIR(look("keeper").st_mode));
	assert_true(S_ISDIR(look("feed").st_mode));
	assert_int_equal(look("queue").st_mode, 0);
	snprintf(path, sizeof(path), "%s/keeper", base);
	assert_int_equal(rmdir(path), 0);
	journal_places_turn(&places, generation, &identity, true, 2 * NS_PER_SECOND);
	assert_int_equal(look("keeper").st_mode, 0);
	journal_places_turn(&places, generation, &identity, true, 3 * NS_PER_SECOND);
	assert_true(S_ISDIR(look("keeper").st_mode));
	free(generation);
}

static unsigned told;

static void count_line(void *context, const char *line) {
	told += strstr(line, "event=journal") != NULL;
}

/* Whatever it is that cannot be made: one line, and one when it could be. */
TEST_IN(set_up, scratch_close, a_path_that_cannot_be_made_is_told_once) {
	struct identity identity = ours();
	struct journal_places places = { .looked = false };
	struct config_messages messages;
	struct generation *generation;
	char text[512], path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/a", scratch);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	snprintf(text, sizeof(text), "version = 1; journal = { path = \"%s\"; };\n"
	    "listen = { milter = \"unix:/m\"; events = \"unix:/e\"; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );", base);
	generation = config_compile_text(text, "test", &messages);
	config_messages_free(&messages);
	assert_non_null(generation);
	told = 0;
	log_redirect(count_line, NULL);
	for (int64_t i = 1; i < 10; i++)
		journal_places_turn(&places, generation, &identity, true, 3 * i * NS_PER_SECOND);
	assert_int_equal(told, 1);
	assert_int_equal(unlink(path), 0);
	for (int64_t i = 10; i < 20; i++)
		journal_places_turn(&places, generation, &identity, true, 3 * i * NS_PER_SECOND);
	log_redirect(NULL, NULL);
	assert_int_equal(told, 2);
	assert_true(S_ISDIR(look("feed").st_mode));
	free(generation);
}
