/* Many rows of plain f32, of up to SHORT_MAX entries each: see short_rows.c. */
#ifndef WHET_SHORT_ROWS_H
#define WHET_SHORT_ROWS_H

#include "row/one_row.h"

whet_status whet_short_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row);

#endif
