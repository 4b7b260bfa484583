/* SPDX-License-Identifier: ISC */
/*
 * Host masks, and first match over many of them (DESIGN section 5;
 * contrib/documents.md).
 *
 * A mask is
 *	host.name	this name
 *	*.domain	every name below domain, and domain itself
 *	prefix.*	every name that begins with "prefix."; where all labels are
 *			digits it is an address prefix instead (192.0.2.*), and a
 *			name never matches it: names are for others to choose
 *	*		everything, also what has neither name nor address
 *	ADDRESS[/BITS]	IPv4 or IPv6, the address in [ ] or not
 * Names are compared without (ASCII) case and without one trailing dot.  Labels
 * of a mask hold any printable ASCII but * / : [ ] @ and comma, 1 to 63 bytes.
 * What can only be an address, such as "192.0.2", is an address or an error.
 *
 * The index is an immutable block of memory without pointers: it may be
 * written to a file and mapped elsewhere on the same kind of machine; equal
 * rules give equal bytes.  A match costs a walk over the labels of the name and
 * one search for the address, however many rules there are (about 80 ns at 10
 * and 170 ns at 100,000).
 */
#ifndef POLICY_CLASS_H
#define POLICY_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/limit/address.h"

#define CLASS_NO_RULE	UINT32_MAX
#define MASK_NAME_MAX	255	/* longest host name in a mask or question */

enum mask_kind {
	MASK_ALL,		/* * */
	MASK_NAME,		/* host.name */
	MASK_DOMAIN,		/* *.domain */
	MASK_NAME_PREFIX,	/* prefix.* */
	MASK_ADDRESS,		/* address, prefix or digits.* */
};

struct mask {
	enum mask_kind kind;
	/* The name without "*.", ".*" and trailing dot, pointing into the parsed
	 * text (not NUL-terminated, case as written). */
	const char *name;
	size_t name_length;
	struct prefix prefix;	/* MASK_ADDRESS only */
};

/* False: *why is static text that says what is wrong. */
bool mask_parse(const char *text, size_t length, struct mask *out,
    const char **why);

/* One mask of one class, in file order: its place in the array is its number.
 * `mask` must be what mask_parse made. */
struct class_rule {
	struct mask mask;
	bool left_out;		/* not part of this index (its class has other ports) */
};

/* Bytes that class_index_build needs at most: for the index itself, and for
 * scratch memory that may be freed afterwards. */
void class_index_measure(const struct class_rule *rules, uint32_t count,
    size_t *index_bytes, size_t *scratch_bytes);

/* Builds the index into `index` (index_bytes long) and returns the bytes really
 * used: what lies behind them may be cut off.  Both blocks are 8-byte aligned;
 * an index that is 64-byte aligned, wherever it is used, is faster.  The rules'
 * names are copied into the index.  0, and nothing usable: a block is smaller
 * than measured, or there are more rules than 32-bit numbers hold (10^8 or so). */
size_t class_index_build(const struct class_rule *rules, uint32_t count,
    void *index, size_t index_bytes, void *scratch, size_t scratch_bytes);

/* The number of the first rule that matches, or CLASS_NO_RULE.  `address` may be
 * NULL or all zero, `name` NULL or empty (not known): then only the other and
 * `*` can match.  A name longer than MASK_NAME_MAX is taken as not known.  Any
 * number of threads. */
uint32_t class_index_match(const void *index, const struct address *address,
    const char *name, size_t name_length);

/* The lowest rule whose mask alone takes every host that `mask` takes, or
 * CLASS_NO_RULE.  A rule of the index covers itself: rule i can never match when
 * the answer for its mask is below i.  (Several masks that take it together are
 * not found.) */
uint32_t class_index_cover(const void *index, const struct mask *mask);

/* Of a block of `bytes`, 8-byte aligned, that anybody may have written: do all lookups in it
 * end, soon, and read nothing outside?  Costs one walk over its tables; what they answer is
 * any number. */
bool class_index_is_sound(const void *index, size_t bytes);

#endif
