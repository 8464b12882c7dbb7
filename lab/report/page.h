/* The report: one self-contained HTML file that tells the story from top to bottom. */
#ifndef WHET_LAB_REPORT_PAGE_H
#define WHET_LAB_REPORT_PAGE_H

#include "report/experiment.h"

/* Writes FOLDER/index.html from the results there are and the pictures in FOLDER/figures; parts
 * whose picture is missing are left out. */
bool page_write(experiment *experiment, lab_error *error);

#endif
