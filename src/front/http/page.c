/* SPDX-License-Identifier: ISC */
/* The status page, out of the program itself: page_data.inc is made of front/page/ by
 * page/embed when this is built. */
#include "front/http/page.h"

#include "front/page_data.inc"

const struct page_file *page_file(size_t i) {
	static const struct page_file files[] = {
		{ "/", "text/html; charset=utf-8", (const char *)page_html,
		    sizeof(page_html) },
		{ "/page.css", "text/css; charset=utf-8", (const char *)page_css,
		    sizeof(page_css) },
		{ "/page.js", "text/javascript; charset=utf-8", (const char *)page_js,
		    sizeof(page_js) },
		{ "/parts.js", "text/javascript; charset=utf-8", (const char *)parts_js,
		    sizeof(parts_js) },
		{ "/detail.js", "text/javascript; charset=utf-8", (const char *)detail_js,
		    sizeof(detail_js) },
		{ "/icon.svg", "image/svg+xml", (const char *)icon_svg, sizeof(icon_svg) },
		{ "/icon-warn.svg", "image/svg+xml", (const char *)icon_warn_svg,
		    sizeof(icon_warn_svg) },
		{ "/icon-bad.svg", "image/svg+xml", (const char *)icon_bad_svg,
		    sizeof(icon_bad_svg) },
	};

	return i < sizeof(files) / sizeof(files[0]) ? &files[i] : NULL;
}
