/*
 * The file that the plug-in records rows of attention weights in (WHET_STATS=file.csv), and
 * that `whet probe` reads: one line for each row, under the header
 *
 *     evaluation,layer,head,position,keys,entropy,entropy_after,beta,max_prob,spread
 *
 * evaluation     counts the graphs with attention that the host has computed, from 0: one for
 *                each micro-batch of a prompt, one for each generated token
 * layer, head    from 0; head is a query head
 * position       of the query in its sequence, as the host numbers tokens; where it does not
 *                tell (no rotary embedding), the number of the query in its evaluation
 * keys           that the query sees (not masked)
 * entropy        of softmax(e) in nats, before any policy
 * entropy_after  of the weights used; nan for maps that need not sum to one
 * beta           the inverse temperature; nan for maps that have none
 * max_prob       the largest weight used
 * spread         max e - min e over the keys it sees; nan where a sink is the largest logit
 *
 * e are the logits as they enter softmax: scaled, capped and with ALiBi's bias. Numbers are
 * written so that they read back as the same float.
 */
#ifndef WHET_LLAMA_RECORD_H
#define WHET_LLAMA_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const char record_header[]; /* with the end of its line */

#define RECORD_LINE_BYTES 256 /* ten numbers and their commas, with room to spare */

typedef struct record_row {
    uint64_t evaluation, layer, head;
    int64_t position;
    uint64_t keys;
    double entropy, entropy_after, beta, max_prob, spread;
} record_row;

/* The line of a row, with its end, under a locale whose numbers have a point; returns its length.
 */
size_t record_format(const record_row *row, char line[RECORD_LINE_BYTES]);

/* Reads a line back, likewise. False: it is none. */
bool record_parse(const char *line, record_row *row);

#endif
