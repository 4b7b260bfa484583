/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Spares patterns that cannot match (sieve.h).
 * MODEL    Out of each pattern three letters in a row are taken that every match must
 *          have, rare ones, one such piece for each of its alternatives.  A pattern in which
 *          anything is not understood has none, and is always tried.  The pieces stand
 *          in a hash table, behind a bit set that most places of a text do not pass.
 *          Letters are folded by one bit, which makes more of them equal than are.
 * ERRORS   None but no memory.
 * THREADS  One.
 */
#include "engine/judge/sieve.h"

#include <stdlib.h>
#include <string.h>

#include "base/pattern.h"

#define PIECE		3	/* letters */
#define PIECES_MAX	32	/* of one pattern */
#define DEPTH_MAX	8	/* of brackets */
#define FILTER_BITS	8192

struct piece_slot {
	uint32_t letters;	/* folded */
	uint32_t rule;		/* number + 1; 0: free */
};

struct sieve {
	uint32_t words;		/* of the two sets of rules */
	uint64_t *always;	/* those without pieces */
	uint64_t *may;		/* what the last text may match */
	uint32_t slot_mask;
	struct piece_slot *slots;
	uint64_t filter[FILTER_BITS / 64];
};

/* --- pieces out of a pattern ---------------------------------------------------- */

struct pieces {
	uint32_t list[PIECES_MAX];
	unsigned count;
};

struct reader {
	const char *at;
	unsigned depth;
};

/* Three letters as a number. */
static uint32_t fold(const char *text) {
	const unsigned char *t = (const unsigned char *)text;

	return (t[0] | (uint32_t)t[1] << 8 | (uint32_t)t[2] << 16) | UINT32_C(0x202020);
}

/* Letters in a row within one alternative. */
struct run {
	char text[PATTERN_TEXT_MAX];
	size_t length;
	bool found;		/* `piece` is the rarest in a run that has ended */
	uint32_t piece;
	unsigned rarity;
};

/* About how rare a letter is in what mail servers say. */
static unsigned rarity(char c) {
	c = (char)(c | 0x20);
	if (c == ' ' || strchr("etaoinsr", c) != NULL)
		return 0;
	if (strchr("ldcumhpf.0123456789", c) != NULL)
		return 1;
	return strchr("gbvywkjqxz", c) != NULL ? 2 : 3;
}

static void end_run(struct run *run) {
	for (size_t i = 0; i + PIECE <= run->length; i++) {
		unsigned rare = 1;

		for (size_t k = 0; k < PIECE; k++)
			rare += rarity(run->text[i + k]);
		if (rare > run->rarity) {
			run->piece = fold(run->text + i);
			run->rarity = rare;
			run->found = true;
		}
	}
	run->length = 0;
}

static bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

enum repeat { REPEAT_ONCE, REPEAT_MORE, REPEAT_MAYBE };

/* A quantifier behind something; false: not understood. */
static bool read_repeat(struct reader *r, enum repeat *repeat) {
	*repeat = REPEAT_ONCE;
	switch (*r->at) {
	case '*': case '?':
		*repeat = REPEAT_MAYBE;
		r->at++;
		break;
	case '+':
		*repeat = REPEAT_MORE;
		r->at++;
		break;
	case '{':
		*repeat = REPEAT_MAYBE;		/* whatever the number */
		if (!is_digit(r->at[1]))
			return false;
		r->at += 1 + strspn(r->at + 1, "0123456789,");
		if (*r->at++ != '}')
			return false;
		break;
	default:
		return true;
	}
	if (*r->at == '?' || *r->at == '+')	/* lazy, possessive */
		r->at++;
	return *r->at != '*' && *r->at != '{';
}

/* [...]; false: not understood. */
static bool skip_class(struct reader *r) {
	const char *at = r->at + 1;

	at += *at == '^';
	at += *at == ']';
	for (; *at != ']'; at++) {
		if (*at == '\0' || (*at == '[' && (at[1] == ':' || at[1] == '.' || at[1] == '=')))
			return false;
		if (*at == '\\') {
			at++;
			if (*at == '\0' || *at == 'Q' || *at == 'E' || *at == 'c')
				return false;
		}
	}
	r->at = at + 1;
	return true;
}

static bool read_alternatives(struct reader *r, struct pieces *out);

/* What stands between two "|": a piece of its own letters, or else those of a bracket
 * in it.  False: not understood. */
struct alternative {
	struct run run;
	struct pieces group;	/* of the first bracket that has some */
};

static bool read_group(struct reader *r, struct alternative *a) {
	struct pieces inner = { .count = 0 };
	enum repeat repeat;
	bool known;

	end_run(&a->run);
	r->at++;
	if (*r->at == '*' || (*r->at == '?' && r->at[1] != ':') || ++r->depth > DEPTH_MAX)
		return false;
	if (*r->at == '?')
		r->at += 2;
	known = read_alternatives(r, &inner);
	r->depth--;
	if (!known || *r->at != ')')
		return false;
	r->at++;
	if (!read_repeat(r, &repeat))
		return false;
	if (repeat != REPEAT_MAYBE && inner.count > 0 && a->group.count == 0)
		a->group = inner;
	return true;
}

/* One letter, and how often. */
static bool read_letter(struct reader *r, struct run *run, char letter) {
	enum repeat repeat;

	if (!read_repeat(r, &repeat))
		return false;
	if (repeat == REPEAT_MAYBE) {
		end_run(run);
		return true;
	}
	if (run->length == sizeof(run->text))
		return false;
	run->text[run->length++] = letter;
	if (repeat == REPEAT_MORE)
		end_run(run);
	return true;
}

/* "\." is a letter, "\d" and the like are none. */
static bool read_escape(struct reader *r, struct run *run) {
	enum repeat repeat;
	char c = r->at[1];

	if (c == '\0' || (unsigned char)c >= 0x80 || is_digit(c))
		return false;
	r->at += 2;
	if (!is_letter(c))
		return read_letter(r, run, c);
	end_run(run);
	return strchr("bBdDwWsSAzZ", c) != NULL && read_repeat(r, &repeat);
}

static bool read_atom(struct reader *r, struct alternative *a) {
	enum repeat repeat;
	char c = *r->at;

	switch (c) {
	case '(':
		return read_group(r, a);
	case '[':
		end_run(&a->run);
		return skip_class(r) && read_repeat(r, &repeat);
	case '.': case '^': case '$':
		end_run(&a->run);
		r->at++;
		return read_repeat(r, &repeat);
	case '\\':
		return read_escape(r, &a->run);
	case '*': case '+': case '?': case '{':
		return false;
	default:
		r->at++;
		return read_letter(r, &a->run, c);
	}
}

/* Up to the end, or the ")" of the bracket.  No pieces: some alternative has none.
 * False: not understood. */
static bool read_alternatives(struct reader *r, struct pieces *out) {
	struct alternative *a = malloc(sizeof(*a));
	bool known = a != NULL, all = true;

	while (known) {
		memset(a, 0, sizeof(*a));
		while (known && *r->at != '\0' && *r->at != '|' && *r->at != ')')
			known = read_atom(r, a);
		end_run(&a->run);
		if (a->run.found) {
			a->group.list[0] = a->run.piece;
			a->group.count = 1;
		}
		if (a->group.count == 0 || a->group.count > PIECES_MAX - out->count)
			all = false;
		for (unsigned i = 0; all && i < a->group.count; i++)
			out->list[out->count++] = a->group.list[i];
		if (*r->at != '|')
			break;
		r->at++;
	}
	free(a);
	if (!all)
		out->count = 0;
	return known;
}

static void read_pattern(const char *pattern, struct pieces *out) {
	struct reader r = { .at = pattern };

	out->count = 0;
	if (!read_alternatives(&r, out) || *r.at != '\0')
		out->count = 0;
}

/* --- the table ------------------------------------------------------------------- */

static uint32_t mix(uint32_t letters) {
	uint32_t hash = letters * UINT32_C(0x9e3779b1);

	return hash ^ hash >> 15;
}

static void add_piece(struct sieve *sieve, uint32_t letters, uint32_t rule) {
	uint32_t hash = mix(letters), at = hash & sieve->slot_mask;

	while (sieve->slots[at].rule != 0)
		at = (at + 1) & sieve->slot_mask;
	sieve->slots[at] = (struct piece_slot){ letters, rule + 1 };
	hash %= FILTER_BITS;
	sieve->filter[hash / 64] |= UINT64_C(1) << hash % 64;
}

static bool fill(struct sieve *sieve, const struct pieces *pieces, uint32_t count) {
	uint32_t total = 0, room = 16;

	for (uint32_t i = 0; i < count; i++)
		total += pieces[i].count;
	while (room < total * 2)
		room *= 2;
	sieve->slots = calloc(room, sizeof(*sieve->slots));
	if (sieve->slots == NULL)
		return false;
	sieve->slot_mask = room - 1;
	for (uint32_t i = 0; i < count; i++) {
		if (pieces[i].count == 0)
			sieve->always[i / 64] |= UINT64_C(1) << i % 64;
		for (unsigned k = 0; k < pieces[i].count; k++)
			add_piece(sieve, pieces[i].list[k], i);
	}
	return true;
}

struct sieve *sieve_open(const char *const *patterns, uint32_t count) {
	struct sieve *sieve = calloc(1, sizeof(*sieve));
	struct pieces *pieces = calloc((size_t)count + 1, sizeof(*pieces));
	bool good = sieve != NULL && pieces != NULL;

	if (good) {
		sieve->words = count / 64 + 1;
		sieve->always = calloc(sieve->words, sizeof(*sieve->always));
		sieve->may = calloc(sieve->words, sizeof(*sieve->may));
		for (uint32_t i = 0; i < count; i++)
			read_pattern(patterns[i], &pieces[i]);
		good = sieve->always != NULL && sieve->may != NULL && fill(sieve, pieces, count);
	}
	free(pieces);
	if (!good && sieve != NULL)
		sieve_close(&sieve);
	return sieve;
}

void sieve_close(struct sieve **sieve) {
	if (*sieve != NULL) {
		free((*sieve)->always);
		free((*sieve)->may);
		free((*sieve)->slots);
	}
	free(*sieve);
	*sieve = NULL;
}

/* Rules whose piece this is. */
static void mark(struct sieve *sieve, uint32_t letters, uint32_t hash) {
	for (uint32_t at = hash & sieve->slot_mask; sieve->slots[at].rule != 0;
	     at = (at + 1) & sieve->slot_mask) {
		uint32_t rule = sieve->slots[at].rule - 1;

		if (sieve->slots[at].letters == letters)
			sieve->may[rule / 64] |= UINT64_C(1) << rule % 64;
	}
}

void sieve_shake(struct sieve *sieve, const char *text, size_t length) {
	if (length > PATTERN_SUBJECT_MAX)
		length = PATTERN_SUBJECT_MAX;
	memcpy(sieve->may, sieve->always, sieve->words * sizeof(*sieve->may));
	for (size_t i = 0; i + PIECE <= length; i++) {
		uint32_t letters = fold(text + i), hash = mix(letters);
		uint32_t bit = hash % FILTER_BITS;

		if ((sieve->filter[bit / 64] >> bit % 64 & 1) != 0)
			mark(sieve, letters, hash);
	}
}

uint32_t sieve_next(const struct sieve *sieve, uint32_t from, uint32_t end) {
	while (from < end) {
		uint64_t word = sieve->may[from / 64] >> from % 64;

		if (word != 0) {
			from += (uint32_t)__builtin_ctzll(word);
			return from < end ? from : end;
		}
		from = (from / 64 + 1) * 64;
	}
	return end;
}
