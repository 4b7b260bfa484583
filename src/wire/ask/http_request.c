/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  HTTP requests out of bytes.
 * MODEL    Nothing is looked at before the empty line is there; then line by line.
 * THREADS  Any; nothing is kept.
 */
#include "wire/ask/http_request.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

#define METHOD_MAX 32

static long request_fail(struct http_error *error, unsigned status, const char *reason,
    size_t offset) {
	*error = (struct http_error){ .status = status, .reason = reason, .offset = offset };
	return -1;
}

/* tchar of RFC 9110. */
static bool is_token(char c) {
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static size_t skip(const char *at, size_t length, char c) {
	size_t i = 0;

	while (i < length && at[i] != c)
		i++;
	return i;
}

/* A host with or without ":port"; "[...]" stays in its brackets. */
static bool take_host(struct span authority, struct span *host) {
	size_t end = 0, port;

	if (authority.length > 0 && authority.text[0] == '[') {
		end = skip(authority.text, authority.length, ']');
		if (end == authority.length)
			return false;
		end++;
	} else {
		end = skip(authority.text, authority.length, ':');
	}
	for (port = end; port < authority.length; port++)
		if (port == end ? authority.text[port] != ':' :
		    authority.text[port] < '0' || authority.text[port] > '9')
			return false;
	*host = (struct span){ authority.text, end };
	return true;
}

/* "/path?query", "*", or "http://host:port/path?query". */
static bool take_target(struct span target, struct http_request *request) {
	static const char scheme[] = "http://";
	size_t at;

	if (target.length > sizeof(scheme) - 1 &&
	    strncasecmp(target.text, scheme, sizeof(scheme) - 1) == 0) {
		target.text += sizeof(scheme) - 1;
		target.length -= sizeof(scheme) - 1;
		at = skip(target.text, target.length, '/');
		if (at == 0 || at == target.length ||
		    !take_host((struct span){ target.text, at }, &request->host))
			return false;
		request->has_host = true;
		target.text += at;
		target.length -= at;
	} else if (target.text[0] != '/' && !span_is(target, "*")) {
		return false;
	}
	request->path = (struct span){ target.text,
		skip(target.text, target.length, '?') };
	if (request->path.length < target.length)
		request->query = (struct span){ target.text + request->path.length + 1,
			target.length - request->path.length - 1 };
	return true;
}

static long take_line(const char *data, size_t from, size_t length,
    struct http_request *request, struct http_error *error) {
	const char *line = data + from, *version;
	size_t method = skip(line, length, ' '), target;

	for (size_t i = 0; i < method; i++)
		if (!is_token(line[i]))
			return request_fail(error, 400, "invalid method", from + i);
	if (method == 0 || method > METHOD_MAX || method == length)
		return request_fail(error, 400, "not a request line", from);
	request->method = span_is((struct span){ line, method }, "GET") ? HTTP_GET :
	    span_is((struct span){ line, method }, "HEAD") ? HTTP_HEAD : HTTP_OTHER;
	target = skip(line + method + 1, length - method - 1, ' ');
	version = line + method + 1 + target;
	if (target == 0 || version == line + length)
		return request_fail(error, 400, "not a request line", from + method);
	for (size_t i = 0; i < target; i++)
		if (line[method + 1 + i] <= ' ' || line[method + 1 + i] > '~')
			return request_fail(error, 400, "invalid byte in the target",
			    from + method + 1 + i);
	version++;
	if ((size_t)(line + length - version) != 8 || memcmp(version, "HTTP/", 5) != 0 ||
	    version[5] < '0' || version[5] > '9' || version[6] != '.' || version[7] < '0' ||
	    version[7] > '9')
		return request_fail(error, 400, "not a request line", (size_t)(version - data));
	if (version[5] != '1')
		return request_fail(error, 505, "only HTTP/1 is supported", (size_t)(version - data));
	request->keep_alive = version[7] != '0';
	if (request->method == HTTP_OTHER)
		request->path = (struct span){ line + method + 1, target };
	else if (!take_target((struct span){ line + method + 1, target }, request))
		return request_fail(error, 400, "not a target", from + method + 1);
	return 0;
}

/* Of a list "close, x". */
static bool lists_word(struct span value, const char *word) {
	while (value.length > 0)
		if (span_is_nocase(span_trimmed(span_until(&value, ',')), word))
			return true;
	return false;
}

/* What the header lines say. */
struct headers {
	bool close, keep_alive, host;
	struct span host_value;
};

static void take_header(struct span name, struct span value, struct headers *headers,
    struct http_request *request) {
	if (span_is_nocase(name, "connection")) {
		headers->close |= lists_word(value, "close");
		headers->keep_alive |= lists_word(value, "keep-alive");
	} else if (span_is_nocase(name, "transfer-encoding")) {
		request->has_body = true;
	} else if (span_is_nocase(name, "content-length")) {
		request->has_body |= !span_is(value, "0");
	}
}

static long take_header_line(const char *data, size_t from, size_t length,
    struct headers *headers, struct http_request *request, struct http_error *error) {
	const char *line = data + from;
	size_t name = skip(line, length, ':');
	struct span value;

	for (size_t i = 0; i < name; i++)
		if (!is_token(line[i]))
			return request_fail(error, 400, "invalid header name", from + i);
	if (name == 0 || name == length)
		return request_fail(error, 400, "a line is not a header", from);
	for (size_t i = name + 1; i < length; i++)
		if ((unsigned char)line[i] < ' ' && line[i] != '\t')
			return request_fail(error, 400, "a control character in a header", from + i);
	value = span_trimmed((struct span){ line + name + 1, length - name - 1 });
	if (span_is_nocase((struct span){ line, name }, "host")) {
		if (headers->host)
			return request_fail(error, 400, "a second Host", from);
		headers->host = true;
		if (!take_host(value, &headers->host_value))
			return request_fail(error, 400, "invalid Host", (size_t)(value.text - data));
	}
	take_header((struct span){ line, name }, value, headers, request);
	return 0;
}

/* The length up to and with the empty line, or 0; -1: too long, or a line end that is
 * none. */
static long find_end(const char *data, size_t from, size_t length, struct http_error *error) {
	size_t most = length < HTTP_REQUEST_MAX ? length : HTTP_REQUEST_MAX;

	for (size_t i = from; i < most; i++) {
		if (data[i] == '\0')
			return request_fail(error, 400, "a NUL", i);
		if (data[i] == '\n' && (i == from || data[i - 1] != '\r'))
			return request_fail(error, 400, "a line that does not end with CR LF", i);
		if (data[i] == '\r' && i + 1 < most && data[i + 1] != '\n')
			return request_fail(error, 400, "a CR within a line", i);
		if (data[i] == '\n' && i >= from + 3 && data[i - 2] == '\n')
			return (long)(i + 1);
	}
	if (length < HTTP_REQUEST_MAX)
		return 0;
	return skip(data + from, most - from, '\n') == most - from ?
	    request_fail(error, 414, "the request line is too long", 0) :
	    request_fail(error, 431, "the request is too long", 0);
}

long http_request_parse(const char *data, size_t length, struct http_request *request,
    struct http_error *error) {
	struct headers headers = { .close = false };
	size_t at = 0, line;
	unsigned count = 0;
	long end;

	memset(request, 0, sizeof(*request));
	/* some clients send an empty line behind a body */
	if (length >= 2 && memcmp(data, "\r\n", 2) == 0)
		at = 2;
	end = find_end(data, at, length, error);
	if (end <= 0)
		return end;
	line = skip(data + at, (size_t)end - at, '\r');
	if (take_line(data, at, line, request, error) != 0)
		return -1;
	for (at += line + 2; at + 2 < (size_t)end; at += line + 2) {
		line = skip(data + at, (size_t)end - at, '\r');
		if (++count > HTTP_HEADERS_MAX)
			return request_fail(error, 431, "too many headers", at);
		if (take_header_line(data, at, line, &headers, request, error) != 0)
			return -1;
	}
	if (!headers.host && request->keep_alive)
		return request_fail(error, 400, "no Host", 0);
	if (!request->has_host) {
		request->host = headers.host_value;
		request->has_host = headers.host;
	}
	request->keep_alive = !headers.close && !request->has_body &&
	    (request->keep_alive || headers.keep_alive);
	return end;
}

static bool query_decode(const char *text, size_t length, char *out, size_t size) {
	size_t used = 0;

	for (size_t i = 0; i < length; i++) {
		int c = text[i] == '+' ? ' ' : (unsigned char)text[i];

		if (c == '%') {
			c = text_hex_byte(text + i + 1, text + length);
			i += 2;
		}
		if (c <= 0 || used + 1 >= size)
			return false;
		out[used++] = (char)c;
	}
	out[used] = '\0';
	return true;
}

bool http_query_get(struct span query, const char *key, char *out, size_t size) {
	size_t wanted = strlen(key);

	while (query.length > 0) {
		struct span pair = span_until(&query, '&');

		if (pair.length > wanted && pair.text[wanted] == '=' &&
		    memcmp(pair.text, key, wanted) == 0)
			return query_decode(pair.text + wanted + 1, pair.length - wanted - 1, out,
			    size);
	}
	return false;
}

/* "127.1.2.3", of digits and points alone. */
static bool is_loopback_v4(struct span host) {
	unsigned part = 0, number = 0, digits = 0;

	for (size_t i = 0; i <= host.length; i++) {
		char c = i < host.length ? host.text[i] : '.';

		if (c == '.') {
			if (digits == 0 || number > 255 || (part == 0 && number != 127))
				return false;
			part++;
			number = digits = 0;
		} else if (c >= '0' && c <= '9' && digits < 3) {
			number = number * 10 + (unsigned)(c - '0');
			digits++;
		} else {
			return false;
		}
	}
	return part == 4;
}

bool http_host_is_local(struct span host) {
	return span_is_nocase(host, "localhost") || span_is_nocase(host, "localhost.") ||
	    span_is(host, "[::1]") || is_loopback_v4(host);
}
