/* Judges by llama.cpp: what the parent of the process does; see llama_judge.h. */
#define _POSIX_C_SOURCE 200809L

#include "tune/llama_judge.h"
#include "tune/llama_rope.h"
#include "tune/llama_worker.h"

#include "base/files.h"
#include "base/temporary_folder.h"
#include "model/llama_process.h"
#include "model/runner.h"

#include <stdlib.h>
#include <string.h>

struct tune_llama {
    tune_llama_options options;
    tune_llama_model model;
    char library[RUNNER_PATH_SIZE], plugin[RUNNER_PATH_SIZE];
    libllama_rope rope;
    lab_temporary_folder folder;
    char *config_path, *log_path;
};

/* One process, and where its results go. */
typedef struct llama_run {
    tune_llama *llama;
    llama_job job;
    bool has_config;
    lm_token_list *lists; /* [text_count] */
    tune_losses *losses;
    size_t received, expected; /* losses */
    size_t done;               /* sequences */
    tune_heard heard;
    void *listener;
} llama_run;

/* ---- the process ---- */

static bool set_environment(void *owner) {
    const llama_run *run = owner;
    return !run->has_config || setenv("WHET_CONFIG", run->llama->config_path, 1) == 0;
}

static int work(void *owner, FILE *out) {
    const llama_run *run = owner;
    return tune_llama_work(&run->job, out);
}

static size_t count_of(const json_t *line, const char *key) {
    json_int_t value = json_integer_value(json_object_get(line, key));
    return value > 0 ? (size_t)value : 0;
}

static bool take_model(llama_run *run, const json_t *line) {
    tune_llama_model *m = &run->llama->model;
    json_int_t begin = json_integer_value(json_object_get(line, "begin"));
    const char *version = json_string_value(json_object_get(line, "version"));
    snprintf(m->version, sizeof m->version, "%s", version ? version : "");
    m->layers = count_of(line, "layers");
    m->heads = count_of(line, "heads");
    m->vocabulary = count_of(line, "vocabulary");
    m->adds_begin = json_is_true(json_object_get(line, "adds_begin"));
    m->begin = begin >= 0 ? (lm_token)begin : LM_NO_TOKEN;
    m->has_rotations = json_is_true(json_object_get(line, "rotates"));
    return true;
}

static bool fail_report(lab_error *error) {
    return lab_fail(error, LAB_SYSTEM, "llama.cpp's process reports what it was not asked for");
}

static bool take_tokens(llama_run *run, const json_t *line, lab_error *error) {
    size_t text = count_of(line, "text"), i;
    const json_t *tokens = json_object_get(line, "tokens"), *token;
    if (text >= run->job.text_count)
        return fail_report(error);
    json_array_foreach(tokens, i, token) {
        if (!lm_token_list_add(&run->lists[text], (lm_token)json_integer_value(token)))
            return lab_fail_memory(error);
    }
    return true;
}

static bool take_losses(llama_run *run, const json_t *line, lab_error *error) {
    const json_t *losses = json_object_get(line, "loss"), *loss;
    const char *right = json_string_value(json_object_get(line, "right"));
    size_t count = json_array_size(losses), i;
    if (!right || strlen(right) != count || count > run->expected - run->received)
        return fail_report(error);
    json_array_foreach(losses, i, loss) {
        run->losses->loss[run->received] = (float)json_number_value(loss);
        run->losses->right[run->received++] = right[i] == '1';
    }
    run->done = count_of(line, "sequence"); /* those before it */
    return true;
}

static bool take_end(llama_process *process, llama_run *run, lab_error *error) {
    if (run->received != run->expected)
        return lab_fail(error, LAB_SYSTEM, "llama.cpp's process reports %zu losses of %zu",
                        run->received, run->expected);
    run->done = run->job.sequence_count;
    process->has_ended = true;
    return true;
}

static bool take_line(llama_process *process, const json_t *line, lab_error *error) {
    llama_run *run = process->owner;
    if (json_object_get(line, "version"))
        return take_model(run, line);
    if (json_object_get(line, "text"))
        return take_tokens(run, line, error);
    if (json_object_get(line, "sequence"))
        return take_losses(run, line, error);
    if (json_object_get(line, "end"))
        return take_end(process, run, error);
    return fail_report(error);
}

static bool look(void *owner, lab_error *error) {
    const llama_run *run = owner;
    return !run->heard || run->heard(run->listener, run->done) ||
           lab_fail(error, LAB_STOPPED, "stopped");
}

static bool run_process(llama_run *run, lab_error *error) {
    tune_llama *l = run->llama;
    llama_process process = {.owner = run,
                             .log_path = l->log_path,
                             .folder = &l->folder,
                             .set_environment = set_environment,
                             .work = work,
                             .take = take_line,
                             .look = look};
    run->job.library = l->library;
    run->job.plugin = l->plugin;
    run->job.model = l->options.model;
    run->job.context = (libllama_context_options){.threads = l->options.threads,
                                                  .rope = l->options.rope ? &l->rope : NULL,
                                                  .has_f32_cache = l->options.has_f32_cache};
    return llama_process_run(&process, error);
}

/* ---- opening ---- */

static bool make_places(tune_llama *l, lab_error *error) {
    if (!lab_temporary_folder_make(&l->folder, "whet-tune-run", error))
        return false;
    l->config_path = lab_path(l->folder.path, "config.json");
    l->log_path = lab_path(l->folder.path, "log");
    return (l->config_path && l->log_path) || lab_fail_memory(error);
}

static bool read_model(tune_llama *l, lab_error *error) {
    llama_run run = {.llama = l};
    if (!run_process(&run, error))
        return false;
    if (l->options.rope && !l->model.has_rotations)
        return lab_fail(error, LAB_INPUT, "--rope: the model has no rotary positions to scale");
    return (l->model.layers > 0 && l->model.heads > 0) ||
           lab_fail(error, LAB_INPUT, "%s: the model has no attention heads", l->options.model);
}

tune_llama *tune_llama_open(const tune_llama_options *options, lab_error *error) {
    tune_llama *l = calloc(1, sizeof *l);
    if (!l) {
        lab_fail_memory(error);
        return NULL;
    }
    l->options = *options;
    if (tune_llama_rope(options->model, options->rope, &l->rope, &l->model.trained,
                        &l->model.context, error) &&
        runner_find_library(options->library, l->library, error) &&
        runner_find_plugin(options->plugin, l->plugin, error) && make_places(l, error) &&
        read_model(l, error))
        return l;
    tune_llama_close(l);
    return NULL;
}

void tune_llama_close(tune_llama *l) {
    if (!l)
        return;
    lab_temporary_folder_remove(&l->folder);
    free(l->config_path);
    free(l->log_path);
    free(l);
}

const tune_llama_model *tune_llama_about(const tune_llama *llama) { return &llama->model; }

bool tune_llama_tokens(tune_llama *llama, const char *const *texts, size_t count, bool are_prompts,
                       lm_token_list *lists, lab_error *error) {
    llama_run run = {.llama = llama,
                     .lists = lists,
                     .job = {.texts = texts, .text_count = count, .are_prompts = are_prompts}};
    return run_process(&run, error);
}

/* ---- judging ---- */

static bool check_sequence(const tune_llama_model *model, const tune_sequence *s, size_t index,
                           lab_error *error) {
    if (s->from < 1 || s->from >= s->length || s->length > INT32_MAX)
        return lab_fail(error, LAB_INPUT, "sequence %zu has no tokens to judge", index);
    for (size_t i = 0; i < s->length; i++)
        if (s->tokens[i] >= model->vocabulary)
            return lab_fail(error, LAB_INPUT,
                            "sequence %zu: token %u is not one of the model's %zu", index,
                            s->tokens[i], model->vocabulary);
    return true;
}

static bool check_arm(const tune_llama_model *model, const tune_arm *arm, lab_error *error) {
    const tune_setting *s = arm->setting;
    if (arm->window > 0)
        return lab_fail(error, LAB_INPUT, "llama.cpp cannot run the model with a window");
    return (s->layers == model->layers && s->heads == model->heads) ||
           lab_fail(error, LAB_INPUT,
                    "a setting of %zu layers with %zu heads does not fit a model of %zu with %zu",
                    s->layers, s->heads, model->layers, model->heads);
}

static bool write_config(const tune_llama *l, const tune_setting *setting, lab_error *error) {
    json_t *config = tune_setting_config(setting, NULL);
    bool is_written = lab_json_write(l->config_path, config, error);
    json_decref(config);
    return is_written;
}

static bool judge(void *context, const tune_arm *arm, const tune_sequence *sequences, size_t count,
                  tune_losses *losses, tune_heard heard, void *listener, lab_error *error) {
    tune_llama *l = context;
    llama_run run = {.llama = l,
                     .job = {.sequences = sequences, .sequence_count = count},
                     .has_config = true,
                     .losses = losses,
                     .heard = heard,
                     .listener = listener};
    if (!check_arm(&l->model, arm, error))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!check_sequence(&l->model, &sequences[i], i, error))
            return false;
    run.expected = tune_judged_count(sequences, count);
    return write_config(l, arm->setting, error) && run_process(&run, error);
}

tune_judge tune_llama_judge(tune_llama *llama) {
    return (tune_judge){.context = llama, .has_windows = false, .run = judge};
}
