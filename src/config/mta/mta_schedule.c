/* SPDX-License-Identifier: ISC */
/* What a mail server says of the order of its queue: mta[].schedule, mta[].local_schedule. */
#include <stdio.h>

#include "config/read/compilation.h"

/* As the bits of generation_transport.given, and its numbers. */
static const char *const names[] = {
	"delivery_slot_cost", "minimum_delivery_slots", "delivery_slot_discount",
	"delivery_slot_loan", "recipient_limit", "extra_recipient_limit",
	"recipient_refill_limit", "destination_recipient_limit",
};
_Static_assert(sizeof(names) / sizeof(names[0]) == GENERATION_TRANSPORT_NUMBERS, "all of them");

/* The member, or NULL with its path: `names` are below both. */
static bool value_of(const config_setting_t *group, const char *path, const char *name,
    struct setting_value *out) {
	char whole[SETTING_PATH_MAX];

	(void)snprintf(whole, sizeof(whole), "%s.%s", path, name);
	if (compilation_member(group, whole) == NULL)
		return false;
	compilation_value(group, whole, out);
	return true;
}

static void compile_transport(const config_setting_t *group, const char *path,
    struct generation_transport *out) {
	struct setting_value value;

	if (group == NULL)
		return;
	for (unsigned i = 0; i < GENERATION_TRANSPORT_NUMBERS; i++)
		if (value_of(group, path, names[i], &value)) {
			out->given |= UINT32_C(1) << i;
			out->numbers[i] = (uint32_t)value.number;
		}
	if (value_of(group, path, "recipient_refill_delay", &value))
		out->recipient_refill_delay_ns = value.number;
}

void compile_mta_schedule(const config_setting_t *group, struct generation_mta *mta) {
	static const char *const paths[GENERATION_TRANSPORTS] = { "mta[].schedule",
		"mta[].local_schedule" };

	for (unsigned i = 0; i < GENERATION_TRANSPORTS; i++)
		compile_transport(compilation_member(group, paths[i]), paths[i],
		    &mta->transports[i]);
}
