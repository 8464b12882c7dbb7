/*
 * Attention by one plan, whose tasks the host's threads share; see attention.h.
 */
#include "attention.h"
#include "last_rows.h"
#include "run.h"

/* ---- preparing ---- */

/* Replaces the mask by an equivalent shape, where there is one. */
static void simplify_mask(operation *o, whet_attention *a) {
    if (!a->mask.data)
        return;
    const mask_shape *shape = run_mask(o->run, o->mask, a->queries, a->keys);
    if (!shape->is_simple)
        return;
    a->mask = (whet_mask){.data = NULL};
    if (shape->is_causal) {
        a->flags |= WHET_CAUSAL;
        a->offset = shape->offset;
        a->window = shape->window;
        return;
    }
    a->k.data = (const char *)a->k.data + (ptrdiff_t)shape->low * a->k.stride[2];
    a->v.data = (const char *)a->v.data + (ptrdiff_t)shape->low * a->v.stride[2];
    a->keys = shape->high - shape->low;
}

static bool prepare(operation *o, size_t threads) {
    whet_attention a = o->attention;
    a.positions = run_positions(o->run, o);
    a.stats = o->stats;
    simplify_mask(o, &a);
    if (operation_plan(&a, &o->plan) != WHET_OK)
        return false;
    size_t workspace = operation_aligned(o->plan.workspace_bytes), place = attention_place_bytes(o);
    size_t each = o->plan.scratch_bytes, examined = last_rows_bytes(o);
    if (!operation_memory(o, workspace + place, each > examined ? each : examined, threads))
        return false;
    o->plan.workspace = o->shared;
    attention_place(o, o->shared + workspace);
    o->plan.description.attention.out.data = o->attention.out.data;
    o->shared += workspace + place;
    return true;
}

/* ---- computing ---- */

static void run_plan(operation *o, int thread, int threads) {
    const whet_plan *plan = &o->plan;
    void *scratch = operation_thread_memory(o, thread);
    size_t task;
    for (unsigned phase = 0; phase < plan->phases; phase++) {
        while (team_take(&o->team, plan->tasks[phase], &task))
            whet_attention_run_task(plan, phase, task, scratch, NULL);
        team_wait(&o->team, (unsigned)threads);
    }
}

/* All threads, once they have waited for the end of the last phase. */
static void record_last_rows(operation *o, int thread, int threads) {
    const whet_attention *a = &o->attention;
    size_t item_head;
    if (!o->details)
        return;
    while (team_take(&o->team, a->batch * a->heads, &item_head))
        if (last_row_is_wanted(o, item_head % a->heads))
            last_row_of_attention(o, item_head / a->heads, item_head % a->heads,
                                  operation_thread_memory(o, thread));
    team_wait(&o->team, (unsigned)threads);
}

/* Statistics of keys that began later than the host's, as if all of them had been there. */
static void count_hidden_keys(operation *o) {
    const whet_attention *a = &o->attention, *planned = &o->plan.description.attention;
    ptrdiff_t hidden = (const char *)planned->k.data - (const char *)a->k.data;
    if (!o->stats || hidden == 0)
        return;
    for (size_t row = 0; row < a->batch * a->heads * a->queries; row++) {
        whet_stats *s = &o->stats[row];
        s->sink_share = 0;
        if (s->argmax != UINT64_MAX)
            s->argmax += (uint64_t)(hidden / a->k.stride[2]);
    }
}

void attention_team_compute(host_tensor *result, int thread, int threads, void *context) {
    (void)result;
    operation *o = context;
    if (!operation_prepare(o, thread, threads, prepare))
        return;
    run_plan(o, thread, threads);
    record_last_rows(o, thread, threads);
    if (thread == 0) { /* all threads waited at the end of the last phase */
        attention_forget_sinks(&o->plan.description.attention);
        count_hidden_keys(o);
        attention_fetch_result(o);
    }
}
