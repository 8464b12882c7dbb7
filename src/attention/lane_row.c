/* One row of a panel: see lane_row.h. */
#include "attention/lane_row.h"
#include <math.h>

size_t whet_lane_take(const lane_row *lane, float *row) {
    size_t n = lane->row->high - lane->row->low;
    const float *from = lane->entries + (lane->row->low - lane->first) * lane->stride;
    for (size_t i = 0; i < n; i++)
        row[i] = from[i * lane->stride];
    return n;
}

void whet_lane_put(const lane_row *lane, const lane_row *logits, const float *row) {
    for (size_t j = lane->first, at = 0; j < lane->end; j++, at += lane->stride)
        lane->entries[at] = logits->entries[at] == -INFINITY ? 0 : row[j - lane->row->low];
}

void whet_lane_fill(const lane_row *lane, const lane_row *logits, float value) {
    for (size_t i = 0; i < (lane->end - lane->first) * lane->stride; i += lane->stride)
        lane->entries[i] = logits->entries[i] == -INFINITY ? 0 : value;
}
