/* SPDX-License-Identifier: ISC */
/* What a mail server says of the order of its queue: mta[].schedule, mta[].local_schedule. */
#include <stddef.h>
#include <stdio.h>

#include "config/read/compilation.h"

static const struct {
	const char *name;
	size_t at;
} numbers[] = {
#define NUMBER(name) { #name, offsetof(struct job_settings, name) }
	NUMBER(delivery_slot_cost), NUMBER(minimum_delivery_slots),
	NUMBER(delivery_slot_discount), NUMBER(delivery_slot_loan), NUMBER(recipient_limit),
	NUMBER(extra_recipient_limit), NUMBER(recipient_refill_limit),
	NUMBER(destination_recipient_limit),
#undef NUMBER
};

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
    struct job_settings *out) {
	struct setting_value value;

	if (group == NULL)
		return;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (value_of(group, path, numbers[i].name, &value))
			*(uint32_t *)(void *)((char *)out + numbers[i].at) =
			    (uint32_t)value.number;
	if (value_of(group, path, "recipient_refill_delay", &value))
		out->recipient_refill_delay_ns = value.number;
}

void compile_mta_schedule(const config_setting_t *group, const struct job_settings *of_all,
    struct generation_mta *mta) {
	static const char *const paths[GENERATION_TRANSPORTS] = { "mta[].schedule",
		"mta[].local_schedule" };

	for (unsigned i = 0; i < GENERATION_TRANSPORTS; i++) {
		mta->transports[i] = *of_all;
		compile_transport(compilation_member(group, paths[i]), paths[i],
		    &mta->transports[i]);
	}
}
