/*
 * Attention by one plan, whose tasks the host's threads share; see attention.h.
 */
#include "attention.h"
#include "run.h"

/* ---- setting out ---- */

/* Replaces the mask by what it amounts to, where that is simple. */
static void simplify_mask(operation *o, whet_attention *a) {
    if (!a->mask.data)
        return;
    const mask_shape *shape =
        run_mask(o->run, o->node->src[HOST_ATTENTION_MASK], a->queries, a->keys);
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

/* The negated attention of the recorded rows. The mask may be simplified only where rows keep their
 * distance. */
static whet_attention negated_rows(const operation *o, const whet_attention *simplified) {
    size_t interval = operation_interval(o), recorded = operation_recorded(o);
    size_t first = recorded_query(o->attention.queries, interval, 0);
    bool is_simplified = interval == 1 || recorded == 1;
    whet_attention a = spread_negated(o, is_simplified ? simplified : &o->attention);
    if (recorded == 1)
        interval = 1;
    a.queries = recorded;
    a.q.data = (const char *)a.q.data + (ptrdiff_t)first * a.q.stride[2];
    a.q.stride[2] *= (ptrdiff_t)interval;
    if (a.mask.data) {
        a.mask.data = (const char *)a.mask.data + (ptrdiff_t)first * a.mask.stride[2];
        a.mask.stride[2] *= (ptrdiff_t)interval;
    }
    a.offset += (int64_t)first;
    a.stats = o->negated_stats;
    return a;
}

static size_t output_bytes(const whet_attention *a) {
    return a->batch * a->heads * a->queries * a->value_dim * sizeof(float);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* The place of its output is known only after the plan that says how much room it needs. */
static bool plan_negated(operation *o, const whet_attention *simplified, void *output) {
    whet_attention a = negated_rows(o, simplified);
    a.out.data = output;
    return operation_plan(&a, &o->negated_plan) == WHET_OK;
}

/* Shared memory: the plan's workspace, then what the recording's plan writes. */
static bool set_out(operation *o, size_t threads) {
    whet_attention a = o->attention;
    a.stats = o->stats;
    simplify_mask(o, &a);
    if (operation_plan(&a, &o->plan) != WHET_OK)
        return false;
    size_t workspace = o->plan.workspace_bytes, scratch = o->plan.scratch_bytes, output = 0;
    if (o->stats) {
        /* what it needs is asked first, as if it wrote to the result */
        if (!plan_negated(o, &a, a.out.data))
            return false;
        workspace = larger(workspace, o->negated_plan.workspace_bytes);
        scratch = larger(scratch, o->negated_plan.scratch_bytes);
        output = operation_aligned(output_bytes(&o->negated_plan.description.attention));
    }
    workspace = operation_aligned(workspace);
    if (!operation_memory(o, workspace + output, scratch, threads))
        return false;
    o->plan.workspace = o->shared;
    if (o->stats && !plan_negated(o, &a, o->shared + workspace))
        return false;
    o->negated_plan.workspace = o->shared;
    o->shared += workspace + output;
    return true;
}

/* ---- computing ---- */

static void run_plan(operation *o, const whet_plan *plan, int thread, int threads) {
    void *scratch = operation_thread_memory(o, thread);
    size_t task;
    for (unsigned phase = 0; phase < plan->phases; phase++) {
        while (team_take(&o->team, plan->tasks[phase], &task))
            whet_attention_run_task(plan, phase, task, scratch, NULL);
        team_wait(&o->team, (unsigned)threads);
    }
}

void attention_team_compute(host_tensor *result, int thread, int threads, void *context) {
    (void)result;
    operation *o = context;
    if (!operation_set_out(o, thread, threads, set_out))
        return;
    run_plan(o, &o->plan, thread, threads);
    if (o->stats) {
        run_plan(o, &o->negated_plan, thread, threads);
        if (thread == 0)
            spread_fill(o);
    }
}
