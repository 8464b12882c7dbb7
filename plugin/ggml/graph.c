/*
 * Computing graphs; see graph.h.
 */
#include "graph.h"
#include "places.h"
#include "run.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(LLAMA_LAYER_MAX == INDEX_MAX, "every layer that is recognised can be named");

static struct {
    const host *host;
    const settings *settings;
    recording *recording;
    bool is_refused;
    pthread_mutex_t lock; /* protects what follows, up to the counts */
    run *spare;           /* runs that no graph uses */
    bool has_reported_left, has_reported_refused, has_reported_memory; /* each is printed once */
    atomic_ullong handled, with_policy, left;
    places places;
} graphs = {.lock = PTHREAD_MUTEX_INITIALIZER};

void graph_start(const host *h, const settings *s, recording *rows) {
    graphs.host = h;
    graphs.settings = s;
    graphs.recording = rows;
}

void graph_refuse(void) { graphs.is_refused = true; }

graph_counts graph_count(void) {
    return (graph_counts){.handled = atomic_load(&graphs.handled),
                          .with_policy = atomic_load(&graphs.with_policy),
                          .left = atomic_load(&graphs.left)};
}

void graph_report_missing(void (*report)(const char *line)) {
    if (graphs.settings)
        places_report(&graphs.places, graphs.settings, report);
}

/* Whether something is printed for the first time. */
static bool is_first(bool *has_reported) {
    pthread_mutex_lock(&graphs.lock);
    bool first = !*has_reported;
    *has_reported = true;
    pthread_mutex_unlock(&graphs.lock);
    return first;
}

static int no_memory(void) {
    if (is_first(&graphs.has_reported_memory))
        message_print("out of memory for attention; the computation fails");
    return HOST_NO_MEMORY;
}

/* ---- runs ---- */

static run *take_run(void) {
    pthread_mutex_lock(&graphs.lock);
    run *r = graphs.spare;
    if (r)
        graphs.spare = r->next;
    pthread_mutex_unlock(&graphs.lock);
    return r ? r : run_create(graphs.host, graphs.settings);
}

static void give_back(run *r) {
    pthread_mutex_lock(&graphs.lock);
    r->next = graphs.spare;
    graphs.spare = r;
    pthread_mutex_unlock(&graphs.lock);
}

/* ---- describing ---- */

static size_t count_attention(host_graph *graph, int nodes) {
    size_t count = 0;
    for (int i = 0; i < nodes; i++)
        count += recognise_attention(graphs.host, graphs.host->graph_node(graph, i)) >= 0;
    return count;
}

/* Leaves an operation to the host: fine for plain softmax, which the host computes, and for nothing
 * else. */
static bool leave(const operation *o, const message *why) {
    bool may_stay = o->policies && o->policies->is_softmax;
    if (may_stay)
        atomic_fetch_add(&graphs.left, 1);
    if (!may_stay && is_first(&graphs.has_reported_refused))
        message_print("layer %d, %s: %s; cannot apply the policy, refusing to compute", o->layer,
                      o->node->name, why->text);
    if (may_stay && (graphs.settings->verbose || graphs.recording) &&
        is_first(&graphs.has_reported_left))
        message_print("layer %d, %s: %s; leaving it to llama.cpp", o->layer, o->node->name,
                      why->text);
    return may_stay;
}

/* Looks for the patterns of attention that the host composes; false: out of memory. */
static bool find_patterns(run *r, host_graph *graph, int nodes, size_t count) {
    size_t found = 0;
    for (int i = 0; i < nodes && found < count; i++)
        if (recognise_attention(graphs.host, graphs.host->graph_node(graph, i)) >= 0)
            pattern_find(graphs.host, graph, nodes, i, &r->patterns[found++]);
    return patterns_keep_private(graphs.host, graph, nodes, r->patterns, found);
}

/* Describes all attention of a graph; false: the graph must not be computed. */
static bool describe_graph(run *r, host_graph *graph, int nodes) {
    message why = {""};
    const pattern *next = r->patterns;
    for (int i = 0; i < nodes; i++) {
        host_tensor *node = graphs.host->graph_node(graph, i);
        if (recognise_attention(graphs.host, node) < 0)
            continue;
        const pattern *whole = next++;
        operation *o = &r->operations[r->count];
        bool is_described = operation_describe(o, r, node, whole->product ? whole : NULL, &why);
        if (o->policies)
            places_see(&graphs.places, (unsigned)o->layer, o->policies->heads);
        if (is_described)
            r->count++;
        else if (!leave(o, &why))
            return false;
    }
    return true;
}

/* ---- computing ---- */

/* Copies the positions, since the host may reuse the input's memory before the graph is done. */
static int32_t *copy_positions(host_graph *graph, int nodes, size_t tokens) {
    const int32_t *positions = recognise_positions(graphs.host, graph, nodes, tokens);
    int32_t *copy = positions && tokens ? malloc(tokens * sizeof *copy) : NULL;
    if (copy)
        memcpy(copy, positions, tokens * sizeof *copy);
    return copy;
}

/* Whether some policy is not softmax, and so may need positions. */
static bool has_policy(const run *r) {
    bool any = false;
    for (size_t i = 0; i < r->count; i++)
        any = any || !r->operations[i].policies->is_softmax;
    return any;
}

/* Converts positions for libwhet; false: out of memory. */
static bool widen_positions(run *r, const int32_t *positions) {
    size_t tokens = positions ? run_tokens(r) : 0;
    r->positions = tokens ? malloc(tokens * sizeof *r->positions) : NULL;
    for (size_t i = 0; r->positions && i < tokens; i++)
        r->positions[i] = positions[i];
    return r->positions || !tokens;
}

static void count_handled(const run *r) {
    for (size_t i = 0; i < r->count; i++) {
        const operation *o = &r->operations[i];
        if (atomic_load(&o->ready) <= 0)
            continue; /* the host did not compute this node */
        atomic_fetch_add(&graphs.handled, 1);
        if (!o->policies->is_softmax)
            atomic_fetch_add(&graphs.with_policy, 1);
    }
}

static int compute_replaced(host_backend *backend, host_graph *graph, int nodes, run *r) {
    if (graphs.recording && !run_prepare_recording(r))
        return no_memory();
    int32_t *positions = NULL;
    if (graphs.recording || has_policy(r))
        positions = copy_positions(graph, nodes, run_tokens(r));
    if (has_policy(r) && !widen_positions(r, positions)) {
        free(positions);
        return no_memory();
    }
    for (size_t i = 0; i < r->count; i++)
        operation_replace(&r->operations[i]);
    int status = graphs.host->compute(backend, graph);
    for (size_t i = 0; i < r->count; i++)
        operation_restore(&r->operations[i]);
    free(r->positions);
    r->positions = NULL;
    if (status == HOST_SUCCESS && atomic_load(&r->has_failed))
        status = no_memory();
    count_handled(r);
    if (graphs.recording && status == HOST_SUCCESS)
        run_write_recording(r, graphs.recording, positions);
    free(positions);
    return status;
}

int graph_compute(host_backend *backend, host_graph *graph) {
    if (graphs.is_refused)
        return HOST_FAILED;
    int nodes = graphs.host->graph_size(graph);
    size_t count = count_attention(graph, nodes);
    if (count == 0)
        return graphs.host->compute(backend, graph);
    run *r = take_run();
    if (!r || !run_begin(r, count) || !find_patterns(r, graph, nodes, count)) {
        if (r)
            give_back(r);
        return no_memory();
    }
    int status = HOST_FAILED;
    if (describe_graph(r, graph, nodes))
        status = r->count ? compute_replaced(backend, graph, nodes, r)
                          : graphs.host->compute(backend, graph);
    give_back(r);
    return status;
}
