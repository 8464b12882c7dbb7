/*
 * Probing a model: a process for each policy runs it (probe_process, probe_worker),
 * the plug-in writes what each head did into a file (probe_record), and both are
 * put together here.
 */
#define _POSIX_C_SOURCE 200809L

#include "model/probe.h"
#include "model/probe_parts.h"

#include "base/files.h"
#include "gguf/gguf.h"

#include "built_in_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const probe_measure_names[PROBE_MEASURES] = {
    "entropy",      "entropy_after",      "beta",          "largest_weight", "spread",
    "mean_entropy", "mean_entropy_after", "widest_spread", "sink_share"};

const char *const probe_built_in_text = built_in_text;

static bool make_prompts(probe *p) {
    const probe_request *q = p->request;
    bool is_made = q->has_needles ? prompts_of_needles(q->sizes, q->size_count, q->sequences,
                                                       q->text, q->seed, &p->prompts)
                   : q->text      ? prompts_of_text(q->sizes, q->size_count, q->text, &p->prompts)
                             : prompts_of_numbers(q->sizes, q->size_count, q->sequences, &q->format,
                                                  q->seed, &p->prompts);
    p->places = is_made ? calloc(p->prompts.count + 1, sizeof *p->places) : NULL;
    return p->places || lab_fail_memory(p->error);
}

static bool make_places(probe *p) {
    if (!lab_temporary_folder_make(&p->folder, "whet-probe-run", p->error))
        return false;
    p->rows_path = lab_path(p->folder.path, "rows.csv");
    p->log_path = lab_path(p->folder.path, "log");
    return (p->rows_path && p->log_path) || lab_fail_memory(p->error);
}

static void remove_places(probe *p) {
    lab_temporary_folder_remove(&p->folder);
    free(p->rows_path);
    free(p->log_path);
    free(p->places);
    free(p->stretches);
    needles_forget(&p->needles);
    prompts_free(&p->prompts);
}

/* A number from the model's metadata, such as "llama.block_count"; 0 if missing. */
static uint32_t model_number(const gguf_file *file, gguf_text architecture, const char *what) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    uint32_t number = 0;
    char key[128];
    snprintf(key, sizeof key, "%.*s.%s", (int)(architecture.length < 64 ? architecture.length : 64),
             architecture.bytes, what);
    return gguf_get_u32(file, key, &number, &unimportant) ? number : 0;
}

bool probe_read_model(const char *path, probe_model *model, lab_error *error) {
    lab_error unimportant = {.kind = LAB_NO_ERROR};
    gguf_text architecture;
    *model = (probe_model){.path = path};
    gguf_file *file = gguf_open(path, error);
    if (!file)
        return false;
    if (gguf_get_text(file, "general.architecture", &architecture, &unimportant)) {
        model->layers = model_number(file, architecture, "block_count");
        model->heads = model_number(file, architecture, "attention.head_count");
        model->context = model_number(file, architecture, "context_length");
    }
    gguf_close(file);
    return true;
}

/* Sizes that cannot fit, since each number takes at least one token, get no prompts; the process
 * that runs the model checks the rest. */
static bool check_sizes(probe_request *q, lab_error *error) {
    uint64_t limit = q->context ? q->context : q->model.context;
    if (q->text) /* its length is known later */
        return true;
    for (size_t i = 0; limit && i < q->size_count; i++) {
        if (q->sizes[i] <= limit)
            continue;
        if (!q->may_shrink || i == 0)
            return lab_fail(error, LAB_INPUT,
                            "the %llu numbers of a prompt exceed the context of %llu; use smaller "
                            "--sizes or a larger --context",
                            (unsigned long long)q->sizes[i], (unsigned long long)limit);
        q->size_count = i;
    }
    return true;
}

static void mean_tokens(probe *p) {
    uint64_t counts[PROBE_SIZES_MAX] = {0};
    for (size_t i = 0; i < p->prompts.count; i++) {
        size_t size = p->prompts.items[i].size;
        p->result->tokens[size] += (double)p->places[i].tokens;
        counts[size]++;
    }
    for (size_t s = 0; s < p->result->sizes; s++)
        p->result->tokens[s] /= counts[s] ? (double)counts[s] : 1;
}

static bool run_policies(probe *p) {
    const probe_request *q = p->request;
    bool is_good = true;
    p->progress = lab_progress_begin("probe", 0, 0, true);
    for (p->policy = 0; is_good && p->policy < q->policy_count; p->policy++) {
        memset(p->places, 0, p->prompts.count * sizeof *p->places);
        needles_forget(&p->needles);
        is_good = probe_run_process(p);
        if (is_good && p->policy == 0)
            mean_tokens(p);
        is_good = is_good && probe_gather(p);
    }
    lab_progress_end(&p->progress);
    return is_good;
}

bool probe_run(const probe_request *request, probe_result *result, lab_error *error) {
    probe_request fitting = *request;
    probe p = {.request = &fitting, .result = result, .error = error};
    *result = (probe_result){.policies = request->policy_count,
                             .sizes = request->size_count,
                             .sequences =
                                 request->text && !request->has_needles ? 1 : request->sequences};
    memcpy(result->size, request->sizes, request->size_count * sizeof *result->size);
    for (size_t i = 0; i < PROBE_POLICIES_MAX; i++)
        result->perplexity[i] = (double)NAN;
    bool is_good = check_sizes(&fitting, error) &&
                   runner_find_library(request->library, p.library, error) &&
                   runner_find_plugin(request->plugin, p.plugin, error) && make_prompts(&p) &&
                   make_places(&p) && run_policies(&p);
    snprintf(result->library, sizeof result->library, "%.500s", p.library);
    remove_places(&p);
    if (!is_good)
        probe_free(result);
    return is_good;
}

void probe_free(probe_result *result) {
    free(result->values);
    free(result->retrieval);
    free(result->along);
    free(result->keys);
    free(result->gaps);
    json_decref(result->pieces);
    result->values = result->retrieval = result->along = result->gaps = NULL;
    result->keys = NULL;
    result->pieces = NULL;
}

double probe_mean(const probe_result *result, size_t policy, size_t size, size_t layer, size_t head,
                  probe_measure measure) {
    double sum = 0, largest = 0;
    for (size_t i = 0; i < result->sequences; i++) {
        double value = (double)probe_values(result, policy, size, i, layer, head)[measure];
        sum += value;
        largest = fmax(largest, value);
    }
    return measure == PROBE_WIDEST_SPREAD && !isnan(sum) ? largest
                                                         : sum / (double)result->sequences;
}

double probe_ceiling(const probe_result *result, size_t size) { return log(result->tokens[size]); }

double probe_retrieval(const probe_result *r, size_t policy, size_t layer, size_t head) {
    return r->retrieval ? (double)r->retrieval[(policy * r->layers + layer) * r->heads + head]
                        : (double)NAN;
}
