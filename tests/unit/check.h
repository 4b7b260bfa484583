/* SPDX-License-Identifier: ISC */
/* cmocka's assertions, and what nearly every test needs of the C library. */
#ifndef TESTS_UNIT_CHECK_H
#define TESTS_UNIT_CHECK_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Fixtures and fakes have the arguments of what they are called by, needed or not. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif
