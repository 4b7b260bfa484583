/* SPDX-License-Identifier: ISC */
#include "policy/plain_recipient.h"

#include <string.h>

static bool is_domain_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	    c == '-' || c == '.';
}

static bool is_local_byte(char c)
{
	return is_domain_byte(c) || (c != '\0' && strchr("!#$%&'*+/=?^_`{|}~", c) != NULL);
}

bool recipient_take_plain(struct span *list, struct span *recipient)
{
	const char *at = list->text, *end = list->text + list->length, *start, *domain;
	bool bracketed = at < end && *at == '<';

	start = at += bracketed;
	while (at < end && is_local_byte(*at))
		at++;
	if (at == start || at == end || *at != '@')
		return false;
	domain = ++at;
	while (at < end && is_domain_byte(*at))
		at++;
	*recipient = (struct span){ start, (size_t)(at - start) };
	if (at == domain || recipient->length > PLAIN_RECIPIENT_MAX)
		return false;
	if (bracketed && (at == end || *at++ != '>'))
		return false;
	if (at < end && *at++ != ',')
		return false;
	*list = (struct span){ at, (size_t)(end - at) };
	return true;
}

struct span recipient_domain(struct span recipient)
{
	size_t at = recipient.length;

	while (at > 0 && recipient.text[at - 1] != '@')
		at--;
	return (struct span){ recipient.text + at, recipient.length - at };
}
