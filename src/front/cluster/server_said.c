/* SPDX-License-Identifier: ISC */
/* What kind of error the words of a server are, of Redis 6.2 and later and of Valkey. */
#include <string.h>

#include "base/text.h"
#include "front/cluster/server.h"
#include "wire/cluster/cluster_call.h"

/* The first one that fits counts.  Versions before 7 wrap what a script met in an error of
 * their own: then it stands anywhere. */
static const struct {
	const char *words;
	bool anywhere;
	enum cluster_error error;
} known[] = {
	{ "NOAUTH", false, CLUSTER_ERROR_PASSWORD },
	{ "WRONGPASS", false, CLUSTER_ERROR_PASSWORD },
	{ "ERR AUTH", false, CLUSTER_ERROR_PASSWORD },
	{ "ERR invalid password", false, CLUSTER_ERROR_PASSWORD },
	{ "ERR Client sent AUTH", false, CLUSTER_ERROR_PASSWORD },
	{ "NOPERM", true, CLUSTER_ERROR_PERMISSION },
	{ "ACL failure in script", true, CLUSTER_ERROR_PERMISSION },
	{ "The user executing the script", true, CLUSTER_ERROR_PERMISSION },
	{ "WRONGTYPE", true, CLUSTER_ERROR_FOREIGN },
	{ "ERR unknown command", false, CLUSTER_ERROR_PROTOCOL },
	{ "ERR Unknown subcommand", false, CLUSTER_ERROR_PROTOCOL },
	{ "ERR unknown subcommand", false, CLUSTER_ERROR_PROTOCOL },
};

enum cluster_error server_error_of(const char *text, size_t length) {
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const char *at = memmem(text, length, known[i].words, strlen(known[i].words));

		if (at == text || (at != NULL && known[i].anywhere))
			return known[i].error;
	}
	return CLUSTER_ERROR_SERVER;
}

void server_say_foreign(const char *prefix, const char *what, const char *name, char *text,
    size_t size) {
	size_t length = text_append(text, size, 0, "%s: another program uses a key: %s%d:di "
	    "(expected a zset)%s%s%d:dv (a string)",
	    what, prefix, CLUSTER_SCHEMA, name == NULL ? " or " : ", ",
	    prefix, CLUSTER_SCHEMA);

	/* the longest behind the others: it may be cut */
	if (name != NULL)
		(void)text_append(text, size, length, " or the hash %s%d:d:%s", prefix,
		    CLUSTER_SCHEMA, name);
}
