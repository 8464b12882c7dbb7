/* Many rows of other types, or with a mask, of up to half a block each: see staged.c. */
#ifndef WHET_STAGED_H
#define WHET_STAGED_H

#include "row/one_row.h"

bool whet_staged_take(const whet_rows *rows, const row_job *job, bool stores);
whet_status whet_staged_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row);

#endif
