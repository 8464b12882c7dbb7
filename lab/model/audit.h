/*
 * What a model's weights allow its heads to do: Proposition 3.1 for every head of
 * a language model, from its file alone.
 *
 * The input of a layer's queries and keys has been through RMSNorm, so its length is at most
 * sqrt(width) before the gains, which are folded into the maps here. With the largest singular
 * values sigma of the head's query and key map (gains included), a query is no longer than sigma_q
 * sqrt(width) + |bias|, a key likewise, RoPE keeps lengths except for YaRN's factor, and so no two
 * logits of a query differ by more than
 *
 *     spread <= 2 scale |query| |key|.
 *
 * Heads whose queries and keys are normalised one by one have maps of their own: the gains, of
 * inputs of length sqrt(head_dim). With a soft cap c, a logit's bound B becomes c tanh(B / c).
 */
#ifndef WHET_LAB_MODEL_AUDIT_H
#define WHET_LAB_MODEL_AUDIT_H

#include "base/json.h"
#include "model/shape.h"

#include <stdio.h>

typedef struct audit_head {
    uint32_t layer;
    uint32_t head;
    double sigma_query, sigma_key;   /* largest singular values, gains included */
    double query_length, key_length; /* at most */
    double bound;                    /* of the spread, as in the proposition */
    /*
     * A tighter bound: RoPE rotates pairs of dimensions by the same angles in
     * queries and keys, so q . k <= sum over pairs |q_p| |k_p|, and queries may be
     * multiplied by any weights that keys are divided by, pair by pair.
     */
    double tighter;
    /* A spread that inputs of the allowed length, both at the same position, do reach: no valid
     * bound is below it. */
    double attained;
    /* log10 of the largest number of tokens among which one can still get `mass`, by `tighter`. */
    double log10_reach;
} audit_head;

typedef struct model_audit {
    model_shape shape;
    double mass;
    size_t count;
    audit_head *heads; /* layer after layer */
} model_audit;

/* Audits all heads, with progress on standard error unless quiet. False and an error on failure;
 * there is nothing to free then. */
bool audit_model(const gguf_file *file, double mass, bool quiet, model_audit *audit,
                 lab_error *error);
void audit_free(model_audit *audit);

/* log10(1 + exp(spread) (1 - mass) / mass), also where that overflows a double. */
double audit_log10_reach(double spread, double mass);

/* Results as JSON and CSV: an object with the model and a list of heads (a new reference), and a
 * line a head for replace_file. */

json_t *audit_json(const model_audit *audit);
void audit_csv(FILE *file, const void *context);

#endif
