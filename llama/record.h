/*
 * The file in which the plug-in records rows of attention weights (WHET_STATS=file.csv), and which
 * `whet probe` reads: one line for each row, under the header
 *
 *     evaluation,layer,head,position,keys,entropy,entropy_after,beta,max_prob,spread,
 *     sink_share,argmax,skipped_share                            (in one line)
 *
 *     evaluation     number of the graph with attention that the host computed, from 0:
 *                    one for each micro-batch of a prompt, one for each generated token
 *     layer, head    from 0; head is a query head
 *     position       of the query in its sequence, as the host numbers tokens; without
 *                    rotary embeddings, the index of the query in its evaluation
 *     keys           number of keys that the query sees (not masked)
 *     entropy        of softmax(e) in nats, before any policy
 *     entropy_after  of the weights used; nan for maps that need not sum to one
 *     beta           the inverse temperature; nan for maps that have none
 *     max_prob       the largest weight used
 *     spread         max e - min e over the visible keys; nan where a sink is the largest
 *                    logit
 *     sink_share     the weight of the first key
 *     argmax         index of the key with the largest logit, counted from the first key of
 *                    the host's cache
 *     skipped_share  how large a part of the values was left out (WHET_SKIP), 0 to 1
 *
 * e are the logits as they enter softmax: scaled, capped and with ALiBi's bias. Numbers are
 * written such that they read back as the same float.
 *
 * With WHET_STATS_KEYS or WHET_STATS_GAPS two columns follow, which are empty where nothing was
 * asked for, and in all rows but the last of an evaluation:
 *
 *     largest_keys   the largest weights used, from the largest on: "17:0.52 3:0.25", each after
 *                    the index of its key, counted like argmax
 *     gaps           the histogram of llama/gaps.h: the largest logit, then the number of logits
 *                    in each bin that has any, "2.71 43:1 41:2 40:5"
 */
#ifndef WHET_LLAMA_RECORD_H
#define WHET_LLAMA_RECORD_H

#include "llama/gaps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Including their newlines. */
extern const char record_header[], record_detailed_header[];

/* In the plug-in's message when a file can no longer be written; `whet probe` looks for it. */
#define RECORD_STOPS "recording stops"

#define RECORD_LINE_BYTES 256 /* enough for thirteen numbers and their commas */

typedef struct record_row {
    uint64_t evaluation, layer, head;
    int64_t position;
    uint64_t keys;
    double entropy, entropy_after, beta, max_prob, spread, sink_share;
    uint64_t argmax;
    double skipped_share;
} record_row;

/* Formats a row as a line with its newline, under a locale with a decimal point; returns its
 * length. */
size_t record_format(const record_row *row, char line[RECORD_LINE_BYTES]);

/* Parses such a line, under the same kind of locale. False: it is not one. */
bool record_parse(const char *line, record_row *row);

/* ---- with the details of a row ---- */

enum { RECORD_KEYS_MAX = 64 };

typedef struct record_key {
    uint64_t index;
    double weight;
} record_key;

typedef struct record_detail {
    size_t key_count; /* 0: none recorded */
    record_key keys[RECORD_KEYS_MAX];
    gap_histogram gaps; /* empty: not recorded */
} record_detail;

#define RECORD_DETAILED_BYTES ((size_t)(RECORD_LINE_BYTES + 40 * RECORD_KEYS_MAX + 40 * GAP_BINS))

/* The same with both columns; detail NULL: both are empty. */
size_t record_format_detailed(const record_row *row, const record_detail *detail,
                              char line[RECORD_DETAILED_BYTES]);
bool record_parse_detailed(const char *line, record_row *row, record_detail *detail);

#endif
