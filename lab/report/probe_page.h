/* The page of `whet probe --html`: every head of a model, to be looked at in a browser. */
#ifndef WHET_LAB_REPORT_PROBE_PAGE_H
#define WHET_LAB_REPORT_PROBE_PAGE_H

#include "model/probe.h"

/* One file that loads nothing: measurements as JSON, and the script that shows them
 * (probe_page.js). Without scripts it has a table of the heads that disperse. */
bool probe_page(const char *path, const probe_request *request, const probe_result *result,
                lab_error *error);

#endif
