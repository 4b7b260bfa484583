/* SPDX-License-Identifier: ISC */
/* The relay that all mail of a mail server goes to: relayhost, SMART_HOST. */
#ifndef CONFIG_RELAYHOST_H
#define CONFIG_RELAYHOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/generation/generation.h"
#include "policy/reply/delivery.h"

/* Is it one of the ports that its mail leaves for?  NULL: port 25 alone is. */
bool mta_has_port(const struct generation_mta *mta, uint16_t port);
/* The port where a next hop tells none. */
uint16_t mta_usual_port(const struct generation_mta *mta);

/* The host of a next hop as written, and whether it is in [ ]: its MX hosts are not meant
 * then. */
struct span relayhost_host(const char *relayhost, bool *bracketed);

/* The port of a next hop as written ("[host]:587", "host:submission", "host"). */
uint16_t relayhost_port(const char *relayhost, const struct generation_mta *mta);

/* Is it on a port that is none of the mail server's?  Then what that means, and what to
 * do: one sentence.  What is delivered there teaches nothing, as it may be a content
 * filter's. */
bool relayhost_fault(const char *relayhost, const struct generation_mta *mta, char *text,
    size_t size);

#endif
