/* Many rows of plain f32, of up to a block each: see pipeline.c. */
#ifndef WHET_PIPELINE_H
#define WHET_PIPELINE_H

#include "row/one_row.h"

/* Whether the rows suit the pipeline, or short_rows.c. */
bool whet_pipeline_takes(const whet_rows *rows, const row_job *job, bool stores);
whet_status whet_pipeline_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row);

#endif
