/* SPDX-License-Identifier: ISC */
/*
 * Addresses and prefixes.  One form for both families: IPv4 is kept
 * v4-mapped (::ffff:a.b.c.d), so that 192.0.2.1 and ::ffff:192.0.2.1 are the
 * same host.  Pure: no allocation, no locale, no resolver.
 */
#ifndef POLICY_ADDRESS_H
#define POLICY_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Longest text with its NUL: "xxxx:...:xxxx/128". */
#define ADDRESS_TEXT_MAX	48

/* Network byte order; all zero means "not known". */
struct address {
	uint8_t bytes[16];
};

/* The first `bits` (0..128, IPv4 96..128) of `base`; the rest of base is 0. */
struct prefix {
	struct address base;
	uint8_t bits;
};

/* Parses exactly `length` characters: IPv4 dotted quad (decimal, no leading
 * zeros) or IPv6 of RFC 4291 (no zone), v4-mapped folded; IPv6 may have "IPv6:"
 * before it; all of it may stand in [ ].  False: *out is untouched. */
bool address_parse(const char *text, size_t length, struct address *out);

/* Writes the usual text (RFC 5952; IPv4 as a dotted quad; "unknown" for the
 * all-zero address) and returns its length. */
size_t address_format(const struct address *address,
    char text[ADDRESS_TEXT_MAX]);

/* What an IPv4 address begins with; its four bytes follow. */
extern const uint8_t address_v4_head[12];

static inline bool address_equal(const struct address *a, const struct address *b) {
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static inline bool address_is_unknown(const struct address *address) {
	return address_equal(address, &(const struct address){ .bytes = { 0 } });
}

static inline bool address_is_v4(const struct address *address) {
	return memcmp(address->bytes, address_v4_head, sizeof(address_v4_head)) == 0;
}

bool address_is_loopback(const struct address *address);

/* Zeroes all but the first `bits` (0..128, of the 128-bit form). */
void address_truncate(struct address *address, unsigned bits);

/* Parses ADDRESS or ADDRESS/BITS, bits in the count of the family that it is
 * written in (0..32 for a dotted quad; ::ffff:192.0.2.0/120 is 192.0.2.0/24).
 * Bits set beyond the prefix are an error, as they are a mistake more often than
 * a habit.  False: *why says so in static text, *out is untouched. */
bool prefix_parse(const char *text, size_t length, struct prefix *out,
    const char **why);

/* An IPv6 prefix, ::/0 too, contains no IPv4 address; none contains the unknown
 * address. */
bool prefix_contains(const struct prefix *prefix, const struct address *address);

/* As address_format, with /bits in the family's count. */
size_t prefix_format(const struct prefix *prefix, char text[ADDRESS_TEXT_MAX]);

#endif
