/* SPDX-License-Identifier: ISC */
/*
 * How a decision's number is written for people: in a log line (id=), in a reply, on the
 * command line of posternctl why.  Digits of 32 (0-9 and a-z but i, l, o, u), eleven at
 * least, and one behind them that tells most slips of a finger: the number modulo 29.
 * Any thread.
 */
#ifndef BASE_DECISION_ID_H
#define BASE_DECISION_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECISION_ID_MAX	16	/* with its NUL: 14 characters at most, 12 until the year 3058 */

/* "1ghq2m00002w"; "-" for 0, which is none.  Returns `out`. */
const char *decision_id_text(uint64_t id, char out[DECISION_ID_MAX]);

/* Reads what somebody copied: in any case, O for 0, I and L for 1, with "id=" before it, in
 * ( ) or quotes, with a comma or dot behind it.  False: no id, or one with a slip. */
bool decision_id_parse(const char *text, size_t length, uint64_t *id);

#endif
