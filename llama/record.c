/*
 * Lines of a recording; see record.h.
 */
#include "llama/record.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_OF_ALL                                                                             \
    "evaluation,layer,head,position,keys,entropy,entropy_after,beta,max_prob,spread,"              \
    "sink_share,argmax,skipped_share"

const char record_header[] = COLUMNS_OF_ALL "\n";
const char record_detailed_header[] = COLUMNS_OF_ALL ",largest_keys,gaps\n";

size_t record_format(const record_row *row, char line[RECORD_LINE_BYTES]) {
    int n = snprintf(line, RECORD_LINE_BYTES,
                     "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRIu64
                     ",%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%" PRIu64 ",%.9g\n",
                     row->evaluation, row->layer, row->head, row->position, row->keys, row->entropy,
                     row->entropy_after, row->beta, row->max_prob, row->spread, row->sink_share,
                     row->argmax, row->skipped_share);
    return (size_t)n;
}

/* The columns of all recordings, the last of which ends with `last`. Returns what follows it; NULL:
 * this is no such line. */
static const char *parse_row(const char *line, char last, record_row *row) {
    enum { COUNTS = 5, ARGMAX = 11, COLUMNS = 13 };
    double values[COLUMNS];
    char *end;
    for (int i = 0; i < COLUMNS; i++) {
        values[i] = strtod(line, &end);
        if (end == line || *end != (i + 1 < COLUMNS ? ',' : last))
            return NULL;
        line = end + 1;
    }
    for (int i = 0; i < COUNTS; i++)
        if (!(values[i] >= 0 && values[i] < 1e15))
            return NULL;
    if (!(values[ARGMAX] >= 0 && values[ARGMAX] < 1e15))
        return NULL;
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
    return line;
}

bool record_parse(const char *line, record_row *row) { return parse_row(line, '\n', row) != NULL; }

/* ---- details ---- */

enum { PAIR_BYTES = 40 };

static char *format_keys(const record_detail *detail, char *at) {
    for (size_t i = 0; i < detail->key_count; i++)
        at += snprintf(at, PAIR_BYTES, "%s%" PRIu64 ":%.9g", i ? " " : "", detail->keys[i].index,
                       detail->keys[i].weight);
    return at;
}

static char *format_gaps(const gap_histogram *gaps, char *at) {
    if (gaps->counts[0] == 0)
        return at;
    at += snprintf(at, PAIR_BYTES, "%.9g", (double)gaps->largest);
    for (size_t i = 0; i < GAP_BINS; i++)
        if (gaps->counts[i] > 0)
            at += snprintf(at, PAIR_BYTES, " %" PRId64 ":%" PRIu32, gaps->top - (int64_t)i,
                           gaps->counts[i]);
    return at;
}

size_t record_format_detailed(const record_row *row, const record_detail *detail,
                              char line[RECORD_DETAILED_BYTES]) {
    char *at = line + record_format(row, line);
    at[-1] = ','; /* instead of the newline */
    at = detail ? format_keys(detail, at) : at;
    *at++ = ',';
    at = detail ? format_gaps(&detail->gaps, at) : at;
    memcpy(at, "\n", 2);
    return (size_t)(at + 1 - line);
}

/* "index:value" and what ends it. NULL: it is something else. */
static const char *parse_pair(const char *at, double *index, double *value) {
    char *end;
    *index = strtod(at, &end);
    if (*at == ' ' || end == at || *end != ':' || !(*index > -1e15 && *index < 1e15))
        return NULL;
    at = end + 1;
    *value = strtod(at, &end);
    return end == at ? NULL : end;
}

static const char *parse_keys(const char *at, record_detail *detail) {
    while (*at != ',') {
        double index, weight;
        if (detail->key_count > 0 && *at++ != ' ')
            return NULL;
        at = parse_pair(at, &index, &weight);
        if (!at || index < 0 || detail->key_count == RECORD_KEYS_MAX)
            return NULL;
        detail->keys[detail->key_count++] = (record_key){(uint64_t)index, weight};
    }
    return at + 1;
}

static const char *parse_gaps(const char *at, gap_histogram *gaps) {
    char *end;
    if (*at == '\n')
        return at;
    float largest = (float)strtod(at, &end);
    if (end == at || *end != ' ')
        return NULL;
    for (at = end; *at == ' ';) {
        double bin, count;
        at = parse_pair(at + 1, &bin, &count);
        if (!at || !(count >= 1 && count < 4294967296.0))
            return NULL;
        gaps_add(gaps, (int64_t)bin, (uint32_t)count, largest);
    }
    return at;
}

bool record_parse_detailed(const char *line, record_row *row, record_detail *detail) {
    detail->key_count = 0;
    memset(&detail->gaps, 0, sizeof detail->gaps);
    line = parse_row(line, ',', row);
    line = line ? parse_keys(line, detail) : NULL;
    line = line ? parse_gaps(line, &detail->gaps) : NULL;
    return line && *line == '\n';
}
