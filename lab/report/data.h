/* The numbers behind each part of the report as CSV: a header line, then a line a point. */
#ifndef WHET_LAB_REPORT_DATA_H
#define WHET_LAB_REPORT_DATA_H

#include "report/experiment.h"

#include <stdio.h>

/* Each writes what the experiment has; nothing where that is missing. */
void data_table1(FILE *file, const experiment *experiment);
void data_figure1(FILE *file, const experiment *experiment);
void data_figure2(FILE *file, const experiment *experiment);
void data_figure5(FILE *file, const experiment *experiment);
void data_figure6(FILE *file, const experiment *experiment);
void data_figure7(FILE *file, const experiment *experiment);
void data_ties(FILE *file, const experiment *experiment);
void data_policies(FILE *file, const experiment *experiment);
void data_accuracy(FILE *file, const experiment *experiment);
void data_accuracy_f32(FILE *file, const experiment *experiment);
void data_sharpness(FILE *file, const experiment *experiment);
void data_training(FILE *file, const experiment *experiment);
void data_beyond(FILE *file, const experiment *experiment);
void data_clrs(FILE *file, const experiment *experiment);

#endif
