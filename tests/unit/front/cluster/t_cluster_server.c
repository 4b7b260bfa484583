/* SPDX-License-Identifier: ISC */
/* What kind of error the words of a Redis are: those of versions 6 and 7, of Valkey, and of
 * scripts that met them. */
#include "tests/unit/test.h"

#include "front/cluster/server.h"

static const struct {
	const char *text;
	enum cluster_error error;
} said[] = {
	{ "NOAUTH Authentication required.", CLUSTER_ERROR_PASSWORD },
	{ "WRONGPASS invalid username-password pair or user is disabled.",
	    CLUSTER_ERROR_PASSWORD },
	{ "ERR AUTH <password> called without any password configured for the default user. Are "
	    "you sure your configuration is correct?", CLUSTER_ERROR_PASSWORD },
	{ "ERR Client sent AUTH, but no password is set", CLUSTER_ERROR_PASSWORD },
	{ "NOPERM this user has no permissions to run the 'evalsha' command",
	    CLUSTER_ERROR_PERMISSION },
	{ "NOPERM this user has no permissions to access one of the channels used as arguments",
	    CLUSTER_ERROR_PERMISSION },
	{ "ERR The user executing the script can't run this command or subcommand script: f35ba1, "
	    "on @user_script:80.", CLUSTER_ERROR_PERMISSION },
	{ "ERR Error running script (call to f_1): @user_script:3: NOPERM No permissions to access "
	    "a key", CLUSTER_ERROR_PERMISSION },
	{ "WRONGTYPE Operation against a key holding the wrong kind of value",
	    CLUSTER_ERROR_FOREIGN },
	{ "ERR Error running script (call to f_1): @user_script:3: WRONGTYPE Operation against a key "
	    "holding the wrong kind of value", CLUSTER_ERROR_FOREIGN },
	{ "ERR unknown command 'EVALSHA', with args beginning with: ", CLUSTER_ERROR_PROTOCOL },
	{ "LOADING Redis is loading the dataset in memory", CLUSTER_ERROR_SERVER },
	{ "READONLY You can't write against a read only replica.", CLUSTER_ERROR_SERVER },
	{ "OOM command not allowed when used memory > 'maxmemory'.", CLUSTER_ERROR_SERVER },
	{ "BUSY Redis is busy running a script.", CLUSTER_ERROR_SERVER },
	{ "ERR max number of clients reached", CLUSTER_ERROR_SERVER },
	{ "", CLUSTER_ERROR_SERVER },
};

TEST(test_errors_are_told_apart) {
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		enum cluster_error error = server_error_of(said[i].text, strlen(said[i].text));

		if (error != said[i].error)
			fail_msg("%s: %d", said[i].text, (int)error);
	}
}

/* Nothing behind the length counts: the text is a stranger's. */
TEST(test_only_what_was_said_counts) {
	assert_int_equal(server_error_of("NOPERM", 3), CLUSTER_ERROR_SERVER);
	assert_int_equal(server_error_of("WRONGTYPE", 0), CLUSTER_ERROR_SERVER);
	assert_int_equal(server_error_of("WRONGTYPE", 9), CLUSTER_ERROR_FOREIGN);
}

/* The log has room for so much, and a destination may have a long name. */
TEST(test_no_key_is_cut_but_the_last) {
	const char *keys = "a record was not written: another program uses a key: postern:1:di "
	    "(expected a zset), postern:1:dv (a string) or the hash postern:1:d:nnn";
	char name[81], text[192];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	server_say_foreign("postern:", "a record was not written", name, text, sizeof(text));
	assert_memory_equal(text, keys, strlen(keys));
	assert_int_equal(strlen(text), sizeof(text) - 1);
	server_say_foreign("postern:", "a page", NULL, text, sizeof(text));
	assert_string_equal(text, "a page: another program uses a key: postern:1:di (expected "
	    "a zset) or postern:1:dv (a string)");
}
