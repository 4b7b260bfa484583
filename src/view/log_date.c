/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  When a line of a mail log was written.
 * MODEL    The first bytes of the line, and nothing else of the file.
 * ERRORS   0: not known.
 * THREADS  One: strptime and mktime.
 */
#include "view/log_date.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DAY_S	86400

int64_t log_date(const char *line, int64_t now_s) {
	struct tm date = { .tm_isdst = -1 }, today;
	time_t now = (time_t)now_s, when;
	unsigned hours = 0, minutes = 0;
	const char *end = strptime(line, "%Y-%m-%dT%H:%M:%S", &date);

	if (end != NULL) {
		if (*end == '.')
			end += 1 + strspn(end + 1, "0123456789");
		if (*end != 'Z' && sscanf(end + 1, "%2u:%2u", &hours, &minutes) != 2)
			return 0;
		return (int64_t)timegm(&date) -
		    (*end == '-' ? -1 : 1) * (int64_t)(hours * 3600 + minutes * 60);
	}
	if (localtime_r(&now, &today) == NULL ||
	    strptime(line, "%b %d %H:%M:%S", &date) == NULL)
		return 0;
	date.tm_year = today.tm_year;
	date.tm_isdst = -1;
	when = mktime(&date);
	if (when > now + DAY_S) {
		date.tm_year--;
		when = mktime(&date);
	}
	return when < 0 ? 0 : (int64_t)when;
}

int64_t log_date_at(const char *path, uint64_t offset, int64_t now_s) {
	char line[48];
	struct stat status;
	ssize_t length = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return 0;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
		length = pread(fd, line, sizeof(line) - 1, (off_t)offset);
	close(fd);
	if (length <= 0)
		return 0;
	line[length] = '\0';
	return log_date(line, now_s);
}
