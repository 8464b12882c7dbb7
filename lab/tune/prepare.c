/* Everything a run needs before it computes: model, texts, sequences, tasks, ledger. */
#define _POSIX_C_SOURCE 200809L

#include "tune/run.h"

#include "gguf/gguf.h"
#include "lm/gguf_tokenizer.h"
#include "lm/rope_scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the model ---- */

/* The model in lab/lm. */
static bool open_network(tune_run_state *run, tune_model *model) {
    lm_config config = run->opened.model.config;
    if (model->rope[0] && !lm_rope_scale(&config, model->rope, run->error))
        return false;
    config.context = (uint32_t)run->result->context;
    if (!lm_network_create(run->request->engine, &config, run->opened.model.weights, &model->lm,
                           run->error))
        return false;
    model->network =
        tune_network_open(&model->lm, run->request->executor, run->result->context, run->error);
    if (!model->network)
        return false;
    model->judge = tune_network_judge(model->network);
    return true;
}

/* The model in lab/lm beside that in llama.cpp, to learn by. */
static bool open_learner(tune_run_state *run) {
    const tune_request *request = run->request;
    const tune_result *result = run->result;
    if (!lm_open(request->model, NULL, &run->opened, run->error))
        return false;
    lm_config config = run->opened.model.config;
    if (config.layers != result->layers || config.heads != result->heads)
        return lab_fail(run->error, LAB_INPUT,
                        "%s: whet has %u layers of %u heads, llama.cpp %zu of %zu", request->model,
                        config.layers, config.heads, result->layers, result->heads);
    if (request->rope && !lm_rope_scale(&config, request->rope, run->error))
        return false;
    /* A task's examples may be as long as the context. */
    size_t longest = request->task ? result->context : result->learn_context;
    config.context = (uint32_t)longest;
    if (!lm_network_create(request->engine, &config, run->opened.model.weights, &run->learner_lm,
                           run->error))
        return false;
    run->learner = tune_network_open(&run->learner_lm, request->executor, longest, run->error);
    return run->learner != NULL;
}

void tune_close_learner(tune_run_state *run) {
    if (!run->learner)
        return;
    size_t bytes = tune_network_bytes(run->learner);
    run->result->bytes = bytes > run->result->bytes ? bytes : run->result->bytes;
    tune_network_close(run->learner);
    run->learner = NULL;
    lm_network_destroy(&run->learner_lm);
    lm_opened_free(&run->opened);
}

/* The model in llama.cpp. */
static bool open_llama(tune_run_state *run, tune_model *model) {
    const tune_request *request = run->request;
    const tune_llama_options options = {.model = request->model,
                                        .library = request->library,
                                        .plugin = request->plugin,
                                        .rope = model->rope[0] ? model->rope : NULL,
                                        .threads = request->threads};
    model->llama = tune_llama_open(&options, run->error);
    if (!model->llama)
        return false;
    model->judge = tune_llama_judge(model->llama);
    return true;
}

tune_model *tune_model_with(tune_run_state *run, const char *rope) {
    /* One model works at a time: the others need no activations. */
    for (size_t i = 0; i < run->model_count; i++)
        if (run->models[i].network && strcmp(run->models[i].rope, rope) != 0)
            tune_network_rest(run->models[i].network);
    for (size_t i = 0; i < run->model_count; i++)
        if (strcmp(run->models[i].rope, rope) == 0)
            return &run->models[i];
    if (run->model_count == TUNE_ROPES_MAX)
        return NULL;
    tune_model *model = &run->models[run->model_count++];
    *model = (tune_model){.network = NULL};
    snprintf(model->rope, sizeof model->rope, "%s", rope);
    bool good = run->request->is_forward ? open_llama(run, model) : open_network(run, model);
    if (good && run->together.ranks) {
        model->dealt = (tune_dealt_judge){model->judge, &run->together};
        model->judge = tune_deal_judge(&model->dealt);
    }
    return good ? model : NULL;
}

/* Tokens of a sequence: what was asked for, or what the scaled model can take. */
static bool choose_context(tune_run_state *run, size_t longest) {
    enum { USUAL = 4096, LEAST = 16 };
    size_t usual = longest < USUAL ? longest : USUAL;
    size_t context = run->request->context ? run->request->context : usual;
    run->result->context = context;
    if (context < LEAST)
        return lab_fail(run->error, LAB_INPUT, "--context: %zu tokens are too few; at least %d",
                        context, LEAST);
    size_t learn = run->request->learn_context ? run->request->learn_context : context;
    run->result->learn_context = learn;
    if (learn < LEAST || learn > context)
        return lab_fail(run->error, LAB_INPUT, "--learn-context: %zu is out of range (%d to %zu)",
                        learn, LEAST, context);
    return context <= longest ||
           lab_fail(run->error, LAB_INPUT,
                    "--context: the model takes %zu tokens, not %zu; stretch it by --rope, such as "
                    "--rope yarn:%.0f",
                    longest, context, ceil((double)context / run->result->n0));
}

/* Whether the model has all layers or heads of an option. */
static bool are_there(tune_run_state *run, const char *option, const index_set *set, size_t count) {
    return index_set_largest(set) < count ||
           lab_fail(run->error, LAB_INPUT, "--%s: %u is out of range; the model has %s 0 to %zu",
                    option, index_set_largest(set), option, count - 1);
}

static bool choose_heads(tune_run_state *run) {
    const tune_request *request = run->request;
    const tune_result *result = run->result;
    size_t heads = result->layers * result->heads;
    if (!are_there(run, "layers", &request->tuned_layers, result->layers) ||
        !are_there(run, "heads", &request->tuned_heads, result->heads))
        return false;
    run->is_tuned = malloc(heads);
    for (size_t i = 0; run->is_tuned && i < heads; i++)
        run->is_tuned[i] = index_set_has(&request->tuned_layers, (unsigned)(i / result->heads)) &&
                           index_set_has(&request->tuned_heads, (unsigned)(i % result->heads));
    return run->is_tuned || lab_fail_memory(run->error);
}

static bool read_model(tune_run_state *run, size_t *longest) {
    const tune_request *request = run->request;
    tune_result *result = run->result;
    if (!lm_open(request->model, NULL, &run->opened, run->error))
        return false;
    lm_config config = run->opened.model.config;
    result->layers = config.layers;
    result->heads = config.heads;
    result->n0 = lm_trained_context(&config);
    run->words = tune_words_of(&run->opened.tokenizer);
    bool good = !request->rope || lm_rope_scale(&config, request->rope, run->error);
    *longest = config.context;
    return good;
}

static bool tokenize_there(void *context, const char *const *texts, size_t count,
                           lm_token_list *lists, lab_error *error) {
    return tune_llama_tokens(context, texts, count, false, lists, error);
}

static bool load_model(tune_run_state *run, size_t *longest) {
    tune_result *result = run->result;
    tune_model *model = tune_model_with(run, run->request->rope ? run->request->rope : "");
    if (!model)
        return false;
    const tune_llama_model *about = tune_llama_about(model->llama);
    result->layers = about->layers;
    result->heads = about->heads;
    result->n0 = about->trained;
    *longest = about->context;
    run->words = (tune_words){.context = model->llama,
                              .begin = about->adds_begin ? about->begin : LM_NO_TOKEN,
                              .tokenize = tokenize_there};
    return true;
}

static bool open_model(tune_run_state *run) {
    const tune_request *request = run->request;
    tune_result *result = run->result;
    size_t longest;
    bool good = request->is_forward ? load_model(run, &longest) : read_model(run, &longest);
    return good && lab_sha256_file(request->model, result->hash, run->error) &&
           choose_context(run, longest) && choose_heads(run) &&
           (tune_setting_create(result->layers, result->heads, result->n0, &run->neutral) ||
            lab_fail_memory(run->error)) &&
           tune_model_with(run, request->rope ? request->rope : "") &&
           (!request->has_gradients || open_learner(run));
}

/* Tasks are tokenised by lab/lm, also where llama.cpp runs the model. */
static bool read_tokenizer(tune_run_state *run) {
    size_t vocabulary = tune_llama_about(run->models[0].llama)->vocabulary;
    gguf_file *file = gguf_open(run->request->model, run->error);
    bool good = file && lm_gguf_get_tokenizer(file, run->request->model, vocabulary,
                                              &run->opened.tokenizer, run->error);
    gguf_close(file);
    return good;
}

/* The given prefix, in which control tokens are recognised. */
static bool add_prefix(tune_run_state *run) {
    const char *text = run->request->prefix;
    return run->request->is_forward
               ? tune_llama_tokens(run->models[0].llama, &text, 1, true, &run->prefix, run->error)
               : lm_tokenize(&run->opened.tokenizer, text, strlen(text), &run->prefix, run->error);
}

/* The tokens before every sequence: the model's begin token, and the given text. */
static bool make_prefix(tune_run_state *run) {
    enum { LEAST = 8 }; /* tokens of text in a sequence */
    const tune_request *request = run->request;
    if (request->is_forward && !run->learner && request->task && !read_tokenizer(run))
        return false;
    if (run->words.begin != LM_NO_TOKEN && !lm_token_list_add(&run->prefix, run->words.begin))
        return lab_fail_memory(run->error);
    if (request->prefix && !add_prefix(run))
        return false;
    return run->prefix.count + LEAST <= run->result->learn_context ||
           lab_fail(run->error, LAB_INPUT,
                    "--prefix: its %zu tokens leave no space for text in %zu", run->prefix.count,
                    run->result->learn_context);
}

/* ---- texts ---- */

static bool read_texts(tune_run_state *run) {
    const tune_request *request = run->request;
    tune_result *result = run->result;
    const tune_words *words = &run->words;
    lab_error *error = run->error;
    return tune_texts_read(request->text.items, request->text.count, words, &result->text, error) &&
           tune_texts_read(request->check.items, request->check.count, words, &result->check,
                           error) &&
           tune_texts_read(request->validate.items, request->validate.count, words,
                           &result->validate, error) &&
           tune_texts_are_apart(&result->text, "text", &result->check, "check", error) &&
           tune_texts_are_apart(&result->text, "text", &result->validate, "validate", error) &&
           tune_texts_are_apart(&result->check, "check", &result->validate, "validate", error);
}

static bool fail_short(tune_run_state *run, const char *option, const tune_domain *domain,
                       size_t wanted, size_t length) {
    bool is_quarter = strcmp(option, "text") == 0 && wanted > 1;
    return lab_fail(run->error, LAB_INPUT,
                    "--%s: the files in folder '%s' have %zu tokens%s; %zu sequence%s of %zu %s "
                    "needed; give more text or a shorter --context",
                    option, domain->name, domain->tokens.count,
                    is_quarter ? " in the quarter kept to choose by" : "", wanted,
                    wanted == 1 ? "" : "s", length, wanted == 1 ? "is" : "are");
}

/* Tokens of a domain's sequences. The built-in text is short: it is cut into two at least. */
static size_t length_for(const tune_run_state *run, const tune_domain *domain, size_t context) {
    size_t half = run->prefix.count + domain->tokens.count / 2;
    return domain->is_built_in && half < context ? half : context;
}

/* Up to `limit` sequences of every domain; each needs `least`. */
static bool cut_domains(tune_run_state *run, const char *option, const tune_texts *texts,
                        size_t length, size_t limit, size_t least, tune_set **sets) {
    *sets = calloc(texts->count + 1, sizeof **sets);
    if (!*sets)
        return lab_fail_memory(run->error);
    for (size_t i = 0; i < texts->count; i++) {
        if (!tune_set_cut(&texts->domains[i], &run->prefix,
                          length_for(run, &texts->domains[i], length), limit, &(*sets)[i]))
            return lab_fail_memory(run->error);
        if ((*sets)[i].count < least && !texts->domains[i].is_built_in)
            return fail_short(run, option, &texts->domains[i], least, length);
    }
    return true;
}

/* Moves the tokens of every fourth stretch of a domain of calibration to one of validation.
 * Stretches are whole sequences, so that none is in both. */
static bool divide(tune_run_state *run, tune_domain *from) {
    tune_texts *validate = &run->result->validate;
    size_t own = run->result->context - run->prefix.count;
    tune_domain *domains =
        realloc(validate->domains, (validate->count + 1) * sizeof *validate->domains);
    if (!domains)
        return lab_fail_memory(run->error);
    validate->domains = domains;
    tune_domain *to = &domains[validate->count++];
    *to = (tune_domain){.name = strdup(from->name)};
    size_t kept = 0;
    for (size_t i = 0; i < from->tokens.count; i++) {
        if (i / own % 4 != 3)
            from->tokens.items[kept++] = from->tokens.items[i];
        else if (!lm_token_list_add(&to->tokens, from->tokens.items[i]))
            return lab_fail_memory(run->error);
    }
    from->tokens.count = kept;
    return to->name || lab_fail_memory(run->error);
}

/* The texts that the choice is made on: at least two domains. */
static bool find_validation(tune_run_state *run) {
    tune_result *result = run->result;
    if (result->validate.count == 0)
        for (size_t i = 0; i < result->text.count; i++)
            if (!divide(run, &result->text.domains[i]))
                return false;
    if (result->validate.count >= 2)
        return true;
    return tune_texts_add_built_in(&run->words, &result->validate, run->error) &&
           tune_texts_are_apart(&result->text, "text", &result->validate, "validate", run->error) &&
           tune_texts_are_apart(&result->check, "check", &result->validate, "validate", run->error);
}

/* The sequences of all domains of calibration in one set, in turns. */
static bool cut_calibration(tune_run_state *run) {
    tune_result *result = run->result;
    tune_set *sets = NULL;
    size_t domains = result->text.count, total = 0, at = 0;
    size_t each = (run->request->count + domains - 1) / domains;
    size_t length = result->learn_context;
    bool good = cut_domains(run, "text", &result->text, length, each, 1, &sets);
    for (size_t i = 0; good && i < domains; i++)
        total += sets[i].count;
    run->calibration = (tune_set){.count = total};
    if (good) {
        run->calibration.list = calloc(total, sizeof *run->calibration.list);
        run->calibration.tokens = malloc(total * length * sizeof(lm_token));
        good = (run->calibration.list && run->calibration.tokens) || lab_fail_memory(run->error);
    }
    for (size_t j = 0; good && at < total; j++)
        for (size_t i = 0; i < domains; i++) {
            if (j >= sets[i].count)
                continue;
            lm_token *to = run->calibration.tokens + at * length;
            memcpy(to, sets[i].list[j].tokens, length * sizeof *to);
            run->calibration.list[at] = sets[i].list[j];
            run->calibration.list[at++].tokens = to;
        }
    for (size_t i = 0; sets && i < domains; i++)
        tune_set_free(&sets[i]);
    free(sets);
    result->calibration_count = total;
    return good;
}

static size_t *counts_of(const tune_set *sets, size_t count) {
    size_t *counts = calloc(count + 1, sizeof *counts);
    for (size_t i = 0; counts && i < count; i++)
        counts[i] = sets[i].count;
    return counts;
}

/* A validation domain without sequences is dropped: the built-in one, where sequences are longer
 * than it is. */
static void drop_empty(tune_run_state *run) {
    tune_texts *validate = &run->result->validate;
    size_t last = validate->count - 1;
    if (!validate->domains[last].is_built_in || run->validation[last].count > 1)
        return;
    tune_set_free(&run->validation[last]);
    free(validate->domains[last].name);
    free(validate->domains[last].files);
    free(validate->domains[last].tokens.items);
    validate->count--;
}

static bool cut_texts(tune_run_state *run) {
    tune_result *result = run->result;
    if (!find_validation(run) || !cut_calibration(run) ||
        !cut_domains(run, run->request->validate.count ? "validate" : "text", &result->validate,
                     result->context, run->request->validation_count, 2, &run->validation) ||
        !cut_domains(run, "check", &result->check, result->context, run->request->check_count, 2,
                     &run->check))
        return false;
    drop_empty(run);
    result->validation_counts = counts_of(run->validation, result->validate.count);
    result->check_counts = counts_of(run->check, result->check.count);
    return (result->validation_counts && result->check_counts) || lab_fail_memory(run->error);
}

/* ---- tasks ---- */

/* Examples as sequences, whose answers are judged. */
static bool list_tasks(tune_run_state *run, size_t which) {
    const tune_examples *examples = &run->examples[which];
    run->tasks[which] = calloc(examples->count + 1, sizeof **run->tasks);
    for (size_t i = 0; run->tasks[which] && i < examples->count; i++)
        run->tasks[which][i] = (tune_sequence){.tokens = examples->list[i].tokens,
                                               .length = examples->list[i].length,
                                               .from = examples->list[i].answer};
    return run->tasks[which] || lab_fail_memory(run->error);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Divides the examples of a file among the three purposes: a half, a quarter and a quarter. */
static bool deal_examples(tune_run_state *run, tune_examples *all) {
    const tune_request *request = run->request;
    size_t count = all->count;
    size_t first = smaller(count / 2, request->count);
    size_t second = first + smaller(count / 4, request->check_count);
    const size_t ends[] = {first, second, second + smaller(count / 4, request->check_count)};
    if (count < 8)
        return lab_fail(run->error, LAB_INPUT,
                        "%s: %zu examples are too few to tune on; at least 8", run->task.name,
                        count);
    for (size_t which = 0, at = 0; which < 3; at = ends[which++]) {
        tune_examples *own = &run->examples[which];
        own->list = calloc(ends[which] - at + 1, sizeof *own->list);
        if (!own->list)
            return lab_fail_memory(run->error);
        for (; own->count < ends[which] - at; own->count++) {
            own->list[own->count] = all->list[at + own->count];
            all->list[at + own->count].tokens = NULL;
        }
    }
    return true;
}

static bool draw_file(tune_run_state *run) {
    tune_examples all;
    bool good =
        tune_task_draw(&run->task, &run->opened.tokenizer, &run->prefix, NULL, 0,
                       run->result->context, run->request->seed, SIZE_MAX, &all, run->error) &&
        deal_examples(run, &all);
    run->result->task_skipped = all.skipped;
    tune_examples_free(&all);
    return good;
}

static bool draw_tasks(tune_run_state *run) {
    const tune_request *request = run->request;
    tune_result *result = run->result;
    if (!request->task)
        return true;
    if (!tune_task_open(request->task, &run->task, run->error) ||
        (run->task.kind == TUNE_FILE &&
         !lab_sha256_file(request->task, run->task_hash, run->error)))
        return false;
    const lm_token_list *texts[] = {&result->text.domains[0].tokens,
                                    &result->validate.domains[0].tokens,
                                    &result->check.domains[0].tokens};
    const size_t counts[] = {request->count, request->check_count, request->check_count};
    size_t length = request->task_length < result->context ? request->task_length : result->context;
    bool good = run->task.kind != TUNE_FILE || draw_file(run);
    for (size_t i = 0; good && i < 3; i++) {
        /* More examples than the text has pieces would share most of it, and count twice. */
        size_t pieces = texts[i]->count / length, least = 2;
        size_t count = smaller(counts[i], pieces > least ? pieces : least);
        good = run->task.kind == TUNE_FILE ||
               tune_task_draw(&run->task, &run->opened.tokenizer, &run->prefix, texts[i]->items,
                              texts[i]->count, length, lab_seed_for(request->seed, "examples", i),
                              count, &run->examples[i], run->error);
        good = good && list_tasks(run, i);
    }
    result->task_count = run->examples[TUNE_CHECK].count;
    return good;
}

/* ---- the ledger ---- */

/* Whatever changes a result. */
static json_t *identity_of(const tune_run_state *run) {
    const tune_request *q = run->request;
    const tune_result *r = run->result;
    unsigned mark = lab_json_mark();
    json_t *tuned = json_array();
    for (size_t i = 0; i < r->layers * r->heads; i++)
        if (!run->is_tuned[i])
            json_array_append_new(tuned, json_integer((json_int_t)i));
    json_t *identity = json_pack(
        "{s:s, s:s, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I}",
        "model", r->hash, "rope", q->rope ? q->rope : "", "task",
        lab_json_text(q->task ? q->task : ""), "by", tune_by_names[q->by], "context",
        (json_int_t)r->context, "steps", (json_int_t)q->steps, "batch", (json_int_t)q->batch,
        "seeds", (json_int_t)q->seeds, "count", (json_int_t)q->count, "validation",
        (json_int_t)q->validation_count, "check", (json_int_t)q->check_count, "task_length",
        (json_int_t)q->task_length, "rate", q->rate, "bound", q->bound, "limit", q->limit,
        "text_weight", q->text_weight, "seed", (json_int_t)q->seed);
    json_object_set_new(identity, "prefix", lab_json_text(q->prefix ? q->prefix : ""));
    json_object_set_new(identity, "version", json_string(whet_version()));
    json_object_set_new(identity, "isa", json_string(whet_isa()));
    json_object_set_new(identity, "task_sha256", json_string(run->task_hash));
    json_object_set_new(identity, "forward", json_boolean(q->is_forward));
    if (q->is_forward)
        json_object_set_new(identity, "llama",
                            json_string(tune_llama_about(run->models[0].llama)->version));
    json_object_set_new(identity, "learn_context", json_integer((json_int_t)r->learn_context));
    json_object_set_new(identity, "looks", json_integer((json_int_t)q->looks));
    json_object_set_new(identity, "gradients", json_boolean(q->has_gradients));
    json_object_set_new(identity, "passes", json_integer((json_int_t)q->passes));
    json_object_set_new(identity, "left_alone", tuned);
    json_object_set_new(identity, "text", tune_texts_json(&r->text));
    json_object_set_new(identity, "validate", tune_texts_json(&r->validate));
    json_object_set_new(identity, "checked", tune_texts_json(&r->check));
    return lab_json_whole(identity, mark);
}

bool tune_prepare(tune_run_state *run) {
    if (!open_model(run) || !make_prefix(run) || !read_texts(run) || !cut_texts(run) ||
        !draw_tasks(run))
        return false;
    const char *path = lab_is_first(run->together.ranks) ? run->request->state_path : NULL;
    bool good = tune_ledger_open(path, identity_of(run), &run->ledger, run->error) &&
                tune_agree(&run->together, true, run->error) &&
                tune_ledger_share(&run->ledger, &run->together, run->error);
    run->result->is_resumed = good && tune_ledger_is_resumed(&run->ledger);
    return good;
}

void tune_clean_up(tune_run_state *run) {
    for (size_t i = 0; run->validation && i < run->result->validate.count; i++)
        tune_set_free(&run->validation[i]);
    for (size_t i = 0; run->check && i < run->result->check.count; i++)
        tune_set_free(&run->check[i]);
    for (size_t i = 0; i < run->candidate_count; i++)
        tune_setting_free(&run->candidates[i].setting);
    for (size_t i = 0; run->validation_base && i < run->result->validate.count; i++)
        tune_measure_free(&run->validation_base[i]);
    for (size_t i = 0; i < 3; i++) {
        tune_examples_free(&run->examples[i]);
        free(run->tasks[i]);
    }
    for (size_t i = 0; i < run->model_count; i++) {
        tune_llama_close(run->models[i].llama);
        tune_network_close(run->models[i].network);
        lm_network_destroy(&run->models[i].lm);
    }
    tune_network_close(run->learner);
    lm_network_destroy(&run->learner_lm);
    tune_measure_free(&run->task_base);
    tune_set_free(&run->calibration);
    tune_task_close(&run->task);
    tune_ledger_close(&run->ledger);
    tune_setting_free(&run->neutral);
    lm_opened_free(&run->opened);
    free(run->validation_base);
    free(run->prefix.items);
    free(run->candidates);
    free(run->validation);
    free(run->check);
    free(run->is_tuned);
}
