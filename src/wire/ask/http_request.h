/* SPDX-License-Identifier: ISC */
/*
 * Requests of HTTP/1.0 and 1.1 (RFC 9112) as far as a server needs them that only
 * shows things, sans I/O: what is asked for, for which host, and whether the connection
 * goes on.  Bodies are not read: where one follows, the connection is to be closed behind
 * the answer.  Strict where lenience has been a hole: lines end with CRLF, no blank before
 * a colon, no folded lines, one Host.
 */
#ifndef WIRE_HTTP_REQUEST_H
#define WIRE_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/ask/span.h"

#define HTTP_REQUEST_MAX	8192	/* bytes up to the empty line, with it */
#define HTTP_HEADERS_MAX	100

enum http_method { HTTP_GET, HTTP_HEAD, HTTP_OTHER };

struct http_request {
	enum http_method method;
	struct span path;	/* as sent, nothing decoded, up to a "?": begins with "/", or is "*" */
	struct span query;	/* behind the "?", as sent */
	struct span host;	/* without port; of the target where that names one, else Host */
	bool has_host;
	bool keep_alive;	/* the client can send another request on this connection */
	bool has_body;		/* one follows, or may */
};

struct http_error {
	unsigned status;	/* 400, 414, 431 or 505 */
	const char *reason;	/* static text */
	size_t offset;		/* in the data */
};

/* The request at the start of `data`: how many bytes it takes, 0 when it is not all
 * there, -1 with *error when no continuation can make it one. */
long http_request_parse(const char *data, size_t length, struct http_request *request,
    struct http_error *error);


/* The value of a key of a query ("find=a%20b&limit=10"), decoded; false: it is not there, is too
 * long for `out`, or has a NUL or a wrong escape.  The first one counts. */
bool http_query_get(struct span query, const char *key, char *out, size_t size);

/* Does the host name this machine itself, as only somebody on it means it: localhost,
 * 127.0.0.0/8 or [::1]?  A name that an attacker's DNS leads here is none of them. */
bool http_host_is_local(struct span host);

#endif
