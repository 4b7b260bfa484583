/* SPDX-License-Identifier: ISC */
/*
 * A main for a fuzz target without libFuzzer: gives it every file named on the
 * command line (directories: every file in them).  Without arguments it plays
 * $top_srcdir/tests/fuzz/corpus/X, X being what follows "replay_" in its own
 * name.  Each input is also given in every shorter length up to 64 bytes and
 * cut in half: parsers fail at their ends.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned played;

/* A copy of exactly `size` bytes, so that a read past the end is seen. */
static void play_bytes(const uint8_t *data, size_t size) {
	uint8_t *copy = malloc(size ? size : 1);

	if (copy == NULL) {
		perror("malloc");
		exit(1);
	}
	if (size)
		memcpy(copy, data, size);
	(void)LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void play_file(const char *path, off_t file_size) {
	size_t size = (size_t)file_size;
	uint8_t *data = malloc(size + 1);
	FILE *file = fopen(path, "rb");

	if (data == NULL || file == NULL || fread(data, 1, size, file) != size) {
		perror(path);
		exit(1);
	}
	fclose(file);
	play_bytes(data, size);
	for (size_t cut = 0; cut < size && cut < 64; cut++)
		play_bytes(data, cut);
	play_bytes(data, size / 2);
	free(data);
	played++;
}

static void play(const char *path) {
	struct stat status;
	struct dirent **names;
	int count;

	if (stat(path, &status) != 0) {
		perror(path);
		exit(1);
	}
	if (!S_ISDIR(status.st_mode)) {
		play_file(path, status.st_size);
		return;
	}
	count = scandir(path, &names, NULL, alphasort);
	if (count < 0) {
		perror(path);
		exit(1);
	}
	for (int i = 0; i < count; i++) {
		char inner[4096];

		if (names[i]->d_name[0] != '.') {
			int length = snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);

			if (length > 0 && (size_t)length < sizeof inner)
				play(inner);
		}
		free(names[i]);
	}
	free(names);
}

int main(int argc, char **argv) {
	if (argc > 1) {
		for (int i = 1; i < argc; i++)
			play(argv[i]);
	} else {
		const char *root = getenv("top_srcdir");
		const char *name = strstr(argv[0], "replay_");
		char path[4096];
		int length = -1;

		if (name != NULL)
			length = snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s",
			    root ? root : ".", name + strlen("replay_"));
		if (length < 0 || (size_t)length >= sizeof path) {
			fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
			return 64;
		}
		play(path);
	}
	play_bytes((const uint8_t *)"", 0);
	printf("%u inputs played\n", played);
	return played ? 0 : 1;
}
