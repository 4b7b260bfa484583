/* SPDX-License-Identifier: ISC */
#ifndef POLICY_REPLY_UNKNOWN_H
#define POLICY_REPLY_UNKNOWN_H

#include <stdbool.h>

#include "policy/reply/reply.h"

/* `reply`: what reply_judge made of the delivery.  Pure; any thread. */
bool reply_is_unknown_recipient(const struct delivery *delivery, const struct reply *reply);

#endif
