/* What the loops over many rows have in common. */
#ifndef WHET_ROWS_H
#define WHET_ROWS_H

#include "row/one_row.h"

/* Whether results go past the caches: large outputs, of rows that are whole lines. A line that is
 * written in part past the caches and in part through them goes to memory and back in between. */
bool whet_rows_are_nontemporal(const whet_rows *rows);

/* Rows of plain f32 by the loop that suits their length; whet_pipeline_takes them. */
whet_status whet_plain_rows(const whet_rows *rows, const row_job *job, size_t *first_bad_row);

#endif
