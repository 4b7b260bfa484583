/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Load libsystemd.
 * MODEL    Its header says what the calls are, the dynamic linker where.  Newer versions load
 *          what unpacks long entries when they meet one, which a sandbox forbids: a library that
 *          is there already is not looked for.
 * THREADS  One.
 */
#include "front/serve/sd_library.h"

#ifdef HAVE_SD_JOURNAL

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <systemd/sd-journal.h>

_Static_assert(SD_LOCAL_ONLY == SD_JOURNAL_LOCAL_ONLY && SD_SYSTEM == SD_JOURNAL_SYSTEM,
    "as the library has them");

static struct sd_calls calls;

#define CALL(name) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&sd_journal_ ## name), \
	    __typeof__(calls.name)), #name);
#define CALLS \
	CALL(open) CALL(open_directory) CALL(close) CALL(add_match) CALL(add_disjunction) \
	CALL(seek_head) CALL(seek_realtime_usec) CALL(seek_cursor) CALL(next) \
	CALL(get_realtime_usec) CALL(get_cursor) CALL(get_data) CALL(set_data_threshold) \
	CALL(get_fd) CALL(process) CALL(has_runtime_files) CALL(has_persistent_files)
CALLS
#undef CALL

/* A function's address out of dlsym: ISO C has no cast for it. */
static bool library_find(void *library, const char *name, void *to) {
	void *found = dlsym(library, name);

	memcpy(to, &found, sizeof(found));
	return found != NULL;
}

static void load_unpackers(void) {
	static const char *const names[] = { "libzstd.so.1", "liblz4.so.1", "liblzma.so.5" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		(void)dlopen(names[i], RTLD_NOW);
}

const struct sd_calls *sd_library(struct diag *diag) {
	static bool loaded;
	bool all = true;
	void *library;

	if (loaded)
		return &calls;
	library = dlopen("libsystemd.so.0", RTLD_NOW);
	if (library == NULL) {
		diag_set(diag, 0, "libsystemd cannot be loaded: %s", dlerror());
		return NULL;
	}
#define CALL(name) all &= library_find(library, "sd_journal_" #name, &calls.name);
	CALLS
#undef CALL
	if (!all) {
		diag_set(diag, 0, "libsystemd is too old to read a journal");
		return NULL;
	}
	load_unpackers();
	loaded = true;
	return &calls;
}

#else

const struct sd_calls *sd_library(struct diag *diag) {
	diag_set(diag, 0, "this build cannot read systemd's journal");
	return NULL;
}

#endif
