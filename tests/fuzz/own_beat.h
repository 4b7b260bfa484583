/* SPDX-License-Identifier: ISC */
/* Seconds of a front end, by hand: own_beat.c stands in the place of front/serve/beat.c. */
#ifndef TESTS_FUZZ_OWN_BEAT_H
#define TESTS_FUZZ_OWN_BEAT_H

/* What the front end that was opened last does each second. */
void own_beat(void);

#endif
