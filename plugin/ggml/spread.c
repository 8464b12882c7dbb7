/*
 * The spread of logits in recorded rows of attention; see attention.h.
 */
#include "attention.h"
#include "recording.h"
#include <math.h>

/* Of the keys, which are taken for values: the fewest their type allows. */
size_t spread_columns(const operation *o) {
    switch (o->attention.k.type) {
    case WHET_Q8_0:
    case WHET_Q4_0:
    case WHET_CUSTOM:
        return (size_t)o->key_type->block_elements;
    default:
        return 1;
    }
}

whet_attention spread_negated(const operation *o, const whet_attention *a) {
    whet_attention negated = *a;
    negated.scale = -a->scale;
    negated.value_dim = spread_columns(o);
    negated.v = a->k;
    negated.sinks = NULL;
    negated.policies = NULL;
    negated.policy_count = 0;
    negated.stats = NULL;
    negated.out = (whet_tensor_out){.type = WHET_F32};
    return negated;
}

/* From the two statistics of a recorded row; where a sink is the largest logit, that of the keys is
 * not known. */
static float spread_of(const operation *o, size_t item_head, size_t recorded) {
    const whet_attention *a = &o->attention;
    size_t query = recorded_query(a->queries, operation_interval(o), recorded);
    const whet_stats *row = &o->stats[item_head * a->queries + query];
    const whet_stats *negated = &o->negated_stats[item_head * operation_recorded(o) + recorded];
    if (a->sinks && row->max == (double)a->sinks[item_head % a->heads])
        return NAN;
    return (float)(row->max + negated->max);
}

void spread_fill(operation *o) {
    size_t recorded = operation_recorded(o);
    for (size_t i = 0; i < o->attention.batch * o->attention.heads; i++)
        for (size_t j = 0; j < recorded; j++)
            o->spread[i * recorded + j] = spread_of(o, i, j);
}
