/* The report: one HTML file with all its pictures in it; data and PNGs lie beside it. */
#ifndef WHET_LAB_REPORT_PAGE_H
#define WHET_LAB_REPORT_PAGE_H

#include "report/experiment.h"

/* Writes FOLDER/index.html from the results there are and the pictures in FOLDER/figures; parts
 * whose picture is missing are left out. `seconds` is what the run took. */
bool page_write(experiment *experiment, double seconds, lab_error *error);

#endif
