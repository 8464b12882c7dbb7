/* The coefficients of the largest items. */
#include "retrieval/figure_data.h"

#include "base/signals.h"
#include "retrieval/chunked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Moves the `items` largest to the front of `order`, smallest of them first; the item to retrieve
 * counts as larger than those that are equal only by rounding. */
static bool is_less(const retrieval_set *set, size_t a, size_t b) {
    if (set->priority[a] != set->priority[b])
        return set->priority[a] < set->priority[b];
    return a != set->top && (b == set->top || a < b);
}

static void find_largest(const retrieval_set *set, size_t items, size_t *order) {
    size_t found = 0;
    for (size_t i = 0; i < set->n; i++) {
        if (found == items && is_less(set, i, order[0]))
            continue;
        if (found == items)
            memmove(order, order + 1, --found * sizeof *order);
        size_t at = found++;
        for (; at > 0 && is_less(set, i, order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static bool fill(retrieval_chunked *chunked, const whet_policy *policy, uint64_t seed,
                 size_t *order, retrieval_panel *panel, lab_error *error) {
    float *weights = retrieval_chunked_weights(chunked);
    for (size_t s = 0; s < panel->sets; s++) {
        retrieval_set set;
        whet_stats stats;
        retrieval_chunked_open(chunked, seed, panel->n, s, &set);
        if (lab_interrupted())
            return lab_fail(error, LAB_STOPPED, "stopped");
        whet_rows row = {.size = sizeof row,
                         .rows = 1,
                         .n = set.n,
                         .in = set.logits,
                         .out = weights,
                         .stats = &stats};
        whet_softmax(&row, policy, NULL);
        find_largest(&set, panel->items, order);
        for (size_t i = 0; i < panel->items; i++)
            panel->coefficients[s * panel->items + i] = weights[order[i]];
        panel->entropy[s] = stats.entropy_after;
    }
    return true;
}

bool retrieval_panel_make(const nn_engine *engine, const retrieval_head *head,
                          const whet_policy *policy, size_t n, size_t sets, size_t items,
                          uint64_t seed, retrieval_panel *panel, lab_error *error) {
    retrieval_model model = retrieval_head_model(head, engine);
    *panel = (retrieval_panel){.n = n, .sets = sets, .items = items < n ? items : n};
    panel->coefficients = calloc(sets * items + 1, sizeof *panel->coefficients);
    panel->entropy = calloc(sets + 1, sizeof *panel->entropy);
    size_t *order = calloc(items + 1, sizeof *order);
    retrieval_chunked *chunked = retrieval_chunked_create(&model, NULL, n, 1, error);
    bool is_good = panel->coefficients && panel->entropy && order && chunked
                       ? fill(chunked, policy, seed, order, panel, error)
                       : lab_fail_memory(error);
    retrieval_chunked_destroy(chunked);
    free(order);
    if (!is_good)
        retrieval_panel_free(panel);
    return is_good;
}

void retrieval_panel_free(retrieval_panel *panel) {
    free(panel->coefficients);
    free(panel->entropy);
    *panel = (retrieval_panel){.n = 0};
}

json_t *retrieval_panel_json(const retrieval_panel *panel) {
    unsigned mark = lab_json_mark();
    json_t *rows = json_array();
    for (size_t s = 0; s < panel->sets; s++)
        json_array_append_new(
            rows, lab_json_numbers(panel->coefficients + s * panel->items, panel->items));
    json_t *all = json_pack("{s:I, s:o, s:o}", "n", (json_int_t)panel->n, "coefficients", rows,
                            "entropy", lab_json_numbers(panel->entropy, panel->sets));
    return lab_json_whole(all, mark);
}
