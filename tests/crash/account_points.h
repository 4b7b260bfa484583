/* SPDX-License-Identifier: ISC */
/* What the parts of account_points share. */
#ifndef TESTS_ACCOUNT_POINTS_H
#define TESTS_ACCOUNT_POINTS_H

#include "engine/account/accounts.h"
#include "tests/unit/site.h"

#define RACED	100	/* of the login that is raced for */
#define ACCOUNTS \
	"classes = ();\n" \
	"accounts = (\n" \
	"  { name = \"own\"; match = \"own*\"; all = { recipients = \"1000000/1h\"; };\n" \
	"    each = { recipients = [ \"6/1h\", \"100/1d\" ]; messages = \"4/1h\"; bytes = \"100M/1d\";\n" \
	"             networks = \"100/1h\"; }; },\n" \
	"  { name = \"tight\"; match = \"tight*\"; all = { recipients = \"3/1h\"; };\n" \
	"    each = { recipients = \"100/1h\"; }; },\n" \
	"  { name = \"raced\"; match = \"raced\"; all = { recipients = \"100/1h\"; };\n" \
	"    each = { recipients = \"100/1h\"; }; } );\n"

extern struct site site;
extern int64_t now_ns;
extern unsigned points_serial;	/* of names that nobody has had */

/* What counts now. */
struct points_used {
	uint64_t hour, day, messages, pool;
	unsigned networks;
};
struct points_used points_look(const char *login);

/* With all lengths, and a sender. */
struct account_answer points_ask(struct account_question question);
/* Answers that were not counted, as a lock was not to be had. */
uint64_t points_uncounted(void);
/* Memory that does not die with the process: zeros. */
void *points_shared(size_t size);

/* So many questions; false: more was in use than the limit, or less counted than was answered. */
bool account_race(uint64_t questions, uint64_t seed);

#endif
