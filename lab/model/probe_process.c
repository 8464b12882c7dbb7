/*
 * The process that runs the model for a probe: the settings that the plug-in gets there, and what
 * becomes of its reports.
 */
#define _POSIX_C_SOURCE 200809L

#include "model/llama_process.h"
#include "model/probe_parts.h"
#include "model/probe_worker.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL_ROWS = 32 };

static bool set_environment(void *owner) {
    const probe *p = owner;
    const probe_request *request = p->request;
    char every[32], keys[32];
    bool has_gaps = request->has_gaps && p->policy == probe_plainest(request);
    snprintf(keys, sizeof keys, "%zu", request->keys);
    if (request->every)
        snprintf(every, sizeof every, "%llu", (unsigned long long)request->every);
    else
        snprintf(every, sizeof every, "~%d", USUAL_ROWS);
    return setenv("WHET_POLICY", request->policies[p->policy], 1) == 0 &&
           setenv("WHET_STATS", p->rows_path, 1) == 0 && setenv("WHET_STATS_ROWS", every, 1) == 0 &&
           (!request->keys || setenv("WHET_STATS_KEYS", keys, 1) == 0) &&
           (!request->has_gaps || setenv("WHET_STATS_GAPS", has_gaps ? "1" : "0", 1) == 0) &&
           (!request->layers || setenv("WHET_LAYERS", request->layers, 1) == 0) &&
           (!request->heads || setenv("WHET_HEADS", request->heads, 1) == 0);
}

static int work(void *owner, FILE *out) {
    const probe *p = owner;
    return probe_work(p->request, &p->prompts, p->library, p->plugin, out);
}

static bool take_plan(probe *p, const json_t *line) {
    const char *version = json_string_value(json_object_get(line, "version"));
    p->result->sizes = (size_t)json_integer_value(json_object_get(line, "sizes"));
    p->tokens_total = (uint64_t)json_integer_value(json_object_get(line, "tokens"));
    uint64_t whole = (uint64_t)json_integer_value(json_object_get(line, "whole"));
    p->result->has_whole_text = whole > 0;
    if (whole > 0)
        p->result->size[p->result->sizes - 1] = whole;
    snprintf(p->result->version, sizeof p->result->version, "%s", version ? version : "");
    p->progress.total = p->tokens_total * p->request->policy_count;
    p->progress.quiet = p->request->quiet;
    return true;
}

/* The text of the tokens of a size's first sequence. */
static bool take_pieces(probe *p, size_t size, json_t *pieces) {
    if (!pieces)
        return true;
    if (!p->result->pieces)
        p->result->pieces = json_array();
    while (json_array_size(p->result->pieces) < size)
        if (json_array_append_new(p->result->pieces, json_array()) != 0)
            return lab_fail_memory(p->error);
    return json_array_append(p->result->pieces, pieces) == 0 || lab_fail_memory(p->error);
}

static bool take_prompt(probe *p, const json_t *line) {
    size_t index = (size_t)json_integer_value(json_object_get(line, "prompt"));
    const char *answer = json_string_value(json_object_get(line, "answer"));
    if (index >= p->prompts.count)
        return lab_fail(p->error, LAB_SYSTEM,
                        "the probe's process reports more prompts than were asked for");
    const prompt *asked = &p->prompts.items[index];
    prompt_place *place = &p->places[index];
    place->first = (uint64_t)json_integer_value(json_object_get(line, "first"));
    place->count = (uint64_t)json_integer_value(json_object_get(line, "count"));
    place->tokens = (uint64_t)json_integer_value(json_object_get(line, "tokens"));
    if (asked->maximum[0]) {
        probe_score *score = &p->result->score[p->policy][asked->size];
        score->asked++;
        score->right += answer && answer_has_number(answer, asked->maximum);
    }
    p->tokens_done += place->tokens;
    if (p->policy == 0 && !take_pieces(p, asked->size, json_object_get(line, "pieces")))
        return false;
    return needles_take(&p->needles, json_object_get(line, "steps"), p->error);
}

/* One line from the process. */
static bool take_line(llama_process *process, const json_t *line, lab_error *error) {
    probe *p = process->owner;
    (void)error; /* which is the probe's */
    if (json_object_get(line, "version"))
        return take_plan(p, line);
    if (json_object_get(line, "prompt"))
        return take_prompt(p, line);
    if (json_object_get(line, "perplexity")) {
        p->result->judged_tokens = (uint64_t)json_integer_value(json_object_get(line, "judged"));
        p->result->perplexity[p->policy] = json_number_value(json_object_get(line, "perplexity"));
    }
    if (json_object_get(line, "evaluations")) {
        p->evaluations = (uint64_t)json_integer_value(json_object_get(line, "evaluations"));
        process->has_ended = true;
    }
    p->tokens_done += (uint64_t)json_integer_value(json_object_get(line, "fed"));
    return true;
}

static bool show(void *owner, lab_error *error) {
    probe *p = owner;
    (void)error;
    lab_progress_show(&p->progress, p->tokens_done, "policy %s", p->request->policies[p->policy]);
    return true;
}

bool probe_run_process(probe *p) {
    llama_process process = {.owner = p,
                             .log_path = p->log_path,
                             .folder = &p->folder,
                             .set_environment = set_environment,
                             .work = work,
                             .take = take_line,
                             .look = show};
    return llama_process_run(&process, p->error);
}
