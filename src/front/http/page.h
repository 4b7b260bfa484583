/* SPDX-License-Identifier: ISC */
/* The files of the status page (front/page/), as they were when this was built. */
#ifndef FRONT_PAGE_H
#define FRONT_PAGE_H

#include <stddef.h>

struct page_file {
	const char *path;	/* "/page.css" */
	const char *type;	/* Content-Type */
	const char *text;
	size_t length;
};

/* File number `i`; NULL: there are no more. */
const struct page_file *page_file(size_t i);

#endif
