/* SPDX-License-Identifier: ISC */
/* Settings found in configuration files that do not parse. */
#include "tests/unit/test.h"
#include "ctl/cli/scan.h"

static void expect(const char *text, const char *group, const char *name,
    const char *expected) {
	char out[32] = "before";

	assert_int_equal(scan_setting(text, group, name, out, sizeof(out)),
	    expected != NULL);
	assert_string_equal(out, expected != NULL ? expected : "before");
}

TEST(a_plain_value) {
	expect("version = 1;\nstate = { path = \"/s\"; sessions = \"64k\"; };",
	    "state", "path", "/s");
	expect("state : { path : \"/s\" };", "state", "path", "/s");
	expect("listen={policy=[\"unix:/p\"];control=\"unix:/c\";};", "listen",
	    "control", "unix:/c");
}

TEST(arrays_lists_and_groups) {
	expect("listen = { control = [ \"unix:/a\", \"unix:/b\" ]; };", "listen",
	    "control", "unix:/a");
	expect("listen = { control = ( \"unix:/a\" ); };", "listen", "control",
	    "unix:/a");
	expect("listen = { control = ( { mode = \"0600\"; address = \"unix:/g\"; } ); };",
	    "listen", "control", "unix:/g");
	expect("listen = { control = [ ]; policy = \"unix:/p\"; };", "listen",
	    "control", NULL);
	expect("listen = { control = ( { mode = \"0600\"; } ); };", "listen",
	    "control", NULL);
}

TEST(only_in_its_group) {
	expect("path = \"/no\"; other = { path = \"/no\"; }; state = { "
	    "inner = { path = \"/no\"; }; path = \"/yes\"; };", "state", "path", "/yes");
	expect("x = { state = { path = \"/no\"; }; };", "state", "path", NULL);
	expect("state = \"path = \\\"/no\\\"\";", "state", "path", NULL);
}

TEST(comments_are_left_out) {
	expect("# state = { path = \"/no\"; };\n// state = { path = \"/no\"; };\n"
	    "/* state = { path = \"/no\"; }; */ state = { # {\n path = \"/#//\"; };",
	    "state", "path", "/#//");
}

TEST(whatever_is_wrong_around_it) {
	expect("classes = ( { name = \"x;\n } ;;; state = { path = \"/s\"; };",
	    "state", "path", "/s");
	expect("nonsense \x01\xff ) ] state = { path = \"/s\" } } }", "state", "path", "/s");
	expect("version = \"1\n; state = { path = \"/s\"", "state", "path", "/s");
	expect("", "state", "path", NULL);
	expect("state = {", "state", "path", NULL);
	expect("state = { path =", "state", "path", NULL);
	expect("state = { path = \"", "state", "path", NULL);
	expect("/* state = { path = \"/no\"; };", "state", "path", NULL);
	expect("\"\\", "state", "path", NULL);
}

TEST(a_value_that_does_not_fit_is_none) {
	expect("state = { path = \"/0123456789012345678901234567890123456789\"; };",
	    "state", "path", NULL);
}
