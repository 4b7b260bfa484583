/* SPDX-License-Identifier: ISC */
/* What of the system's files a service hides, by two mountinfo texts. */
#include "tests/unit/test.h"
#include "role/confine/confinement.h"

#define ROOT	"21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
#define DEV	"22 21 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw\n"
#define PROC	"23 21 0:20 / /proc rw,nosuid,nodev,noexec shared:3 - proc proc rw\n"
#define HOME	"24 21 8:2 /homes /home rw,relatime shared:4 - ext4 /dev/sda2 rw\n"
#define FIRST	ROOT DEV PROC HOME

static void compare(const char *ours, const char *first, const char *wanted) {
	char out[160] = "";

	confinement_compare_mounts(ours, first, out, sizeof(out));
	assert_string_equal(out, wanted);
}

TEST(the_same_files_are_no_confinement) {
	compare(FIRST, FIRST, "");
	/* the numbers are others, and propagation is */
	compare("91 90 8:1 / / rw,relatime master:1 - ext4 /dev/sda1 rw\n"
	    "92 91 8:2 /homes /home rw,relatime master:4 - ext4 /dev/sda2 rw\n", FIRST, "");
	/* bound to itself, for nothing */
	compare(FIRST "99 21 8:1 /srv /srv rw,relatime - ext4 /dev/sda1 rw\n", FIRST, "");
	compare("", "", "");
	compare("x\n\n1 2\n", FIRST, "");
}

TEST(a_home_that_cannot_be_written_to_is_named) {
	compare(FIRST "99 21 8:2 /homes /home ro,relatime - ext4 /dev/sda2 rw\n", FIRST,
	    "read-only /home");
	compare(ROOT "99 21 8:1 /usr /usr ro - ext4 /dev/sda1 rw\n"
	    "98 21 8:1 /etc /etc ro - ext4 /dev/sda1 rw\n", ROOT, "read-only /usr, read-only /etc");
	/* for the first process, too */
	compare("21 1 8:1 / / ro - ext4 /dev/sda1 ro\n", "21 1 8:1 / / ro - ext4 /dev/sda1 ro\n",
	    "");
	compare(FIRST "99 24 8:2 /homes/ann /home/ann rw,noexec - ext4 /dev/sda2 rw\n", FIRST,
	    "noexec /home/ann");
}

TEST(another_tmp_or_dev_is_named) {
	compare(FIRST "99 21 8:1 /tmp/systemd-private-x/tmp /tmp rw - ext4 /dev/sda1 rw\n", FIRST,
	    "other /tmp");
	compare(FIRST "99 21 0:77 / /dev rw,nosuid - tmpfs tmpfs rw\n", FIRST, "other /dev");
	compare(FIRST "99 21 0:78 / /home/ann ro - tmpfs tmpfs rw\n", FIRST, "other /home/ann");
	/* a name that only begins like it */
	compare(FIRST "99 21 8:2 /homesick /home rw - ext4 /dev/sda2 rw\n", FIRST, "other /home");
}

TEST(what_no_delivery_needs_is_no_matter) {
	compare(FIRST "99 23 0:20 /sys /proc/sys ro - proc proc rw\n"
	    "98 21 0:31 / /run/credentials/x ro - ramfs ramfs rw\n", FIRST, "");
}

TEST(what_is_covered_is_not_seen) {
	compare(FIRST "99 21 0:78 / /home ro - tmpfs tmpfs rw\n"
	    "98 21 8:2 /homes /home rw - ext4 /dev/sda2 rw\n", FIRST, "");
}

TEST(many_are_cut_short) {
	compare(ROOT "9 1 0:1 / /a rw -\n9 1 0:1 / /b rw -\n9 1 0:1 / /c rw -\n9 1 0:1 / /d rw -\n"
	    "9 1 0:1 / /e rw -\n9 1 0:1 / /f rw -\n", ROOT,
	    "other /a, other /b, other /c, other /d, ...");
}
