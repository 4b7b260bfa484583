/* SPDX-License-Identifier: ISC */
/*
 * A filter that looks at CONNECT alone and lets everybody in: what libmilter
 * can reach at best.  usage: null_milter unix:/path
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libmilter/mfapi.h>

static sfsistat negotiate(SMFICTX *context, unsigned long actions, unsigned long steps,
    unsigned long unused2, unsigned long unused3, unsigned long *out_actions,
    unsigned long *out_steps, unsigned long *out2, unsigned long *out3) {
	(void)context, (void)actions, (void)unused2, (void)unused3;
	*out_actions = 0;
	*out_steps = steps & (SMFIP_NOHELO | SMFIP_NOMAIL | SMFIP_NORCPT | SMFIP_NODATA |
	    SMFIP_NOHDRS | SMFIP_NOEOH | SMFIP_NOBODY | SMFIP_NOUNKNOWN);
	*out2 = *out3 = 0;
	return SMFIS_CONTINUE;
}

static sfsistat connected(SMFICTX *context, char *name, _SOCK_ADDR *address) {
	(void)context, (void)name, (void)address;
	return SMFIS_CONTINUE;
}

static sfsistat closed(SMFICTX *context) {
	(void)context;
	return SMFIS_CONTINUE;
}

/* Stacks as the daemon's: pages of large ones would be most of what is measured. */
static void use_small_stacks(void) {
	pthread_attr_t attributes;

	if (pthread_attr_init(&attributes) != 0)
		return;
	if (pthread_attr_setstacksize(&attributes, (size_t)256 * 1024) == 0)
		(void)pthread_setattr_default_np(&attributes);
	(void)pthread_attr_destroy(&attributes);
}

int main(int argc, char **argv) {
	char name[] = "null";
	struct smfiDesc filter = {
		.xxfi_name = name,
		.xxfi_version = SMFI_VERSION,
		.xxfi_connect = connected,
		.xxfi_close = closed,
		.xxfi_negotiate = negotiate,
	};

	if (argc != 2 || strncmp(argv[1], "unix:", 5) != 0) {
		fprintf(stderr, "usage: null_milter unix:/path\n");
		return 64;
	}
	use_small_stacks();
	unlink(argv[1] + 5);
	if (smfi_setconn(argv[1]) != MI_SUCCESS || smfi_setbacklog(1024) != MI_SUCCESS ||
	    smfi_register(filter) != MI_SUCCESS)
		return 1;
	return smfi_main() == MI_SUCCESS ? 0 : 1;
}
