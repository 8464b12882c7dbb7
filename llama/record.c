/*
 * Lines of a recording; see record.h.
 */
#include "llama/record.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char record_header[] =
    "evaluation,layer,head,position,keys,entropy,entropy_after,beta,max_prob,spread,"
    "sink_share,argmax,skipped_share\n";

size_t record_format(const record_row *row, char line[RECORD_LINE_BYTES]) {
    int n = snprintf(line, RECORD_LINE_BYTES,
                     "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRIu64
                     ",%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%" PRIu64 ",%.9g\n",
                     row->evaluation, row->layer, row->head, row->position, row->keys, row->entropy,
                     row->entropy_after, row->beta, row->max_prob, row->spread, row->sink_share,
                     row->argmax, row->skipped_share);
    return (size_t)n;
}

bool record_parse(const char *line, record_row *row) {
    enum { COUNTS = 5, ARGMAX = 11, COLUMNS = 13 };
    double values[COLUMNS];
    char *end;
    for (int i = 0; i < COLUMNS; i++) {
        values[i] = strtod(line, &end);
        if (end == line || *end != (i + 1 < COLUMNS ? ',' : '\n'))
            return false;
        line = end + 1;
    }
    for (int i = 0; i < COUNTS; i++)
        if (!(values[i] >= 0 && values[i] < 1e15))
            return false;
    if (!(values[ARGMAX] >= 0 && values[ARGMAX] < 1e15))
        return false;
    *row = (record_row){.evaluation = (uint64_t)values[0],
                        .layer = (uint64_t)values[1],
                        .head = (uint64_t)values[2],
                        .position = (int64_t)values[3],
                        .keys = (uint64_t)values[4],
                        .entropy = values[5],
                        .entropy_after = values[6],
                        .beta = values[7],
                        .max_prob = values[8],
                        .spread = values[9],
                        .sink_share = values[10],
                        .argmax = (uint64_t)values[ARGMAX],
                        .skipped_share = values[12]};
    return true;
}
