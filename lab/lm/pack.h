/*
 * Batches packed by length: sequences sorted by length, divided into pieces of
 * about the same number of tokens, so that there is little padding. The
 * division depends on the sequences alone, never on threads.
 */
#ifndef WHET_LAB_LM_PACK_H
#define WHET_LAB_LM_PACK_H

#include "lm/data.h"
#include "lm/network.h"

/* Tokens in a piece: as many as the longest sequence has, or this many if that is more. */
enum { LM_PIECE_LEAST = 512, LM_PIECE_MOST = 2048, LM_PIECES_WANTED = 8 };

/* Zero it first; grown as needed and kept. */
typedef struct lm_packed {
    lm_piece *pieces;
    size_t count;
    size_t piece_capacity, token_capacity;
    uint32_t *order; /* sequences, the longest first */
    bool *exact;     /* of each, in that order; set when the piece is run */
    lm_token *tokens, *labels;
    uint32_t *at;
    float *weights;
    unsigned char *is_answer;
    double weight; /* of all targets */
} lm_packed;

/* False when memory runs out. */
bool lm_pack(const lm_sequences *sequences, lm_loss loss, lm_weigh weigh, lm_packed *packed);
void lm_packed_free(lm_packed *packed);

#endif
