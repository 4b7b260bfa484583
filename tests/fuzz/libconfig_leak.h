/* SPDX-License-Identifier: ISC */
/* libconfig forgets the text of a string that stands where none may.  Whoever parses with it ends
 * soon: a program, or the process that compiles a reload. */
#ifndef TESTS_FUZZ_LIBCONFIG_LEAK_H
#define TESTS_FUZZ_LIBCONFIG_LEAK_H

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
	return "leak:libconfig.so\n";
}

#endif
