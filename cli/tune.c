/* `whet tune`: options become a request, the laboratory runs it, and what it found is printed and
 * kept. */
#include "tune.h"

#include "commands.h"
#include "confirm.h"
#include "lab_options.h"
#include "laboratory.h"
#include "lm.h"
#include "messages.h"
#include "options.h"
#include "preferences.h"
#include "ranks.h"
#include "results.h"

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/signals.h"
#include "tune/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char name[] = "tune";

enum { CONTEXT_MAX = 1 << 24, AMOUNT_MAX = 100000 };

typedef struct arguments {
    const char *model, *rope, *task, *limit, *by, *layers, *heads, *out, *json, *llama, *plugin;
    const char *prefix, *html, *mpi;
    text_list text, validate, check;
    index_set tuned_layers, tuned_heads; /* of those lists */
    option_range context, steps, batch, seeds, count, validation_count, check_count, task_length;
    option_range passes, learn_context, looks;
    double rate, text_weight;
    uint64_t seed, threads;
    bool is_confirmed, is_forward, has_gradients;
    const char **command; /* as it was given */
    size_t command_length;
} arguments;

/* ---- values of options ---- */

/* "0.5%" or "0.5", in per cent. */
static bool parse_limit(const char *text, double *share) {
    char *end;
    double value = strtod(text, &end);
    bool is_good = end != text && (*end == '\0' || strcmp(end, "%") == 0) && value >= 0 &&
                   value <= 100 && text[strspn(text, "0123456789.%")] == '\0';
    *share = value / 100;
    if (!is_good)
        refuse_value("limit", text, "a percentage such as 0.5%");
    return is_good;
}

static int check_values(const arguments *given, tune_request *request) {
    if (!parse_limit(given->limit, &request->limit))
        return STATUS_MISUSE;
    if (given->text.count == 0 || given->check.count == 0) {
        complain("missing --%s FILE; temperatures are learned on --text and judged on --check",
                 given->text.count == 0 ? "text" : "check");
        return STATUS_MISUSE;
    }
    if (!(given->rate > 0 && given->rate <= 1))
        return refuse_range("rate", given->rate, "above 0, up to 1");
    if (!(given->text_weight >= 0 && given->text_weight <= 1e6))
        return refuse_range("text-weight", given->text_weight, "0 to 1,000,000");
    if (given->has_gradients && !given->is_forward) {
        complain("--gradients: they are used anyway; the option is for runs with --forward");
        return STATUS_MISUSE;
    }
    bool has_gradients = given->has_gradients || !given->is_forward;
    const char *by = given->by ? given->by : has_gradients ? "head" : "layer";
    for (size_t i = 0; tune_by_names[i]; i++)
        if (strcmp(tune_by_names[i], by) == 0)
            request->by = (tune_by)i;
    if (!has_gradients && request->by == TUNE_BY_HEAD) {
        complain("--by head: forward passes find one set of parameters for all heads or for each "
                 "layer; use --by layer, add --gradients or leave out --forward");
        return STATUS_MISUSE;
    }
    return STATUS_OK;
}

static tune_paths paths_of(const text_list *list) { return (tune_paths){list->items, list->count}; }

static tune_request request_of(const arguments *given) {
    return (tune_request){.model = given->model,
                          .text = paths_of(&given->text),
                          .validate = paths_of(&given->validate),
                          .check = paths_of(&given->check),
                          .rope = given->rope,
                          .task = given->task,
                          .prefix = given->prefix,
                          .context = (size_t)given->context.value,
                          .learn_context = (size_t)given->learn_context.value,
                          .tuned_layers = given->tuned_layers,
                          .tuned_heads = given->tuned_heads,
                          .steps = (size_t)given->steps.value,
                          .batch = (size_t)given->batch.value,
                          .seeds = (size_t)given->seeds.value,
                          .count = (size_t)given->count.value,
                          .validation_count = (size_t)given->validation_count.value,
                          .check_count = (size_t)given->check_count.value,
                          .task_length = (size_t)given->task_length.value,
                          .rate = given->rate,
                          .bound = 0.7,
                          .text_weight = given->text_weight,
                          .seed = given->seed,
                          .is_forward = given->is_forward,
                          .has_gradients = given->has_gradients,
                          .looks = (size_t)given->looks.value,
                          .library = given->llama,
                          .plugin = given->plugin,
                          .threads = (uint32_t)(given->threads ? given->threads : lab_processors()),
                          .passes = (size_t)given->passes.value,
                          .quiet = preferred.quiet};
}

/* ---- running ---- */

/* Where a run keeps what it has, until it is complete. */
static char *state_path_of(const char *out) {
    size_t size = strlen(out) + sizeof ".partial";
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s.partial", out);
    return path;
}

static int keep(const arguments *given, const tune_request *request, const tune_result *result) {
    json_t *about = tune_result_json(request, result);
    int status = STATUS_OK;
    if (given->json)
        status = keep_json(given->json, json_incref(about));
    if (status != STATUS_OK) {
        json_decref(about);
        return status;
    }
    return keep_json(given->out, about ? tune_setting_config(&result->setting, about) : NULL);
}

/* The question before long work, and the exit status that its answer gives. */
typedef struct question {
    bool is_confirmed;
    int status;
} question;

static bool ask(void *context, double seconds) {
    question *asked = context;
    lab_end_on_interrupt(true);
    asked->status = confirm_seconds(seconds, "", asked->is_confirmed);
    lab_end_on_interrupt(false);
    return asked->status == STATUS_OK;
}

static bool keep_page(const arguments *given, const tune_request *request,
                      const tune_result *result, double seconds, lab_error *error) {
    const tune_page page = {.request = request,
                            .result = result,
                            .out = given->out,
                            .seconds = seconds,
                            .arguments = given->command,
                            .argument_count = given->command_length};
    return !given->html || tune_page_write(given->html, &page, error);
}

static int report_end(const tune_request *request, const lab_error *error) {
    if (error->kind != LAB_STOPPED || !request->state_path || !lab_is_first(request->ranks))
        return report_rank_error(request->ranks, error);
    complain("stopped; the same command continues from %s", request->state_path);
    return STATUS_STOPPED;
}

/* What the first rank writes and prints. */
static int keep_all(const arguments *given, const tune_request *request, const tune_result *result,
                    double seconds) {
    lab_error error = {.kind = LAB_NO_ERROR};
    int status = keep(given, request, result);
    if (status == STATUS_OK && !keep_page(given, request, result, seconds, &error))
        status = report_lab_error(&error);
    if (status == STATUS_OK && request->state_path)
        unlink(request->state_path);
    if (status == STATUS_OK && !print_tuned(request, result, given->out))
        status = complain_of_memory();
    if (status == STATUS_OK && !result->is_confirmed)
        status = STATUS_NOTHING;
    return status;
}

/* The status of the first rank, on all. */
static int status_for_all(const lab_ranks *ranks, int status) {
    lab_ranks_broadcast(ranks, &status, sizeof status);
    return status;
}

static int run(const arguments *given, const tune_request *asked_for) {
    tune_request request = *asked_for;
    double start = lab_now();
    question asked = {given->is_confirmed, STATUS_OK};
    tune_result result;
    lab_error error = {.kind = LAB_NO_ERROR};
    /* time is measured for the question, which ranks are not asked */
    request.confirm = given->is_confirmed || request.ranks ? NULL : ask;
    request.confirm_context = &asked;
    lab_catch_interrupts();
    bool good = tune_run(&request, &result, &error);
    int status = STATUS_OK;
    if (!good)
        status = error.kind == LAB_NO_ERROR ? asked.status : report_end(&request, &error);
    else if (lab_is_first(request.ranks))
        status = keep_all(given, &request, &result, lab_now() - start);
    tune_result_free(&result);
    return good ? status_for_all(request.ranks, status) : status;
}

/* The BLAS and threads, unless llama.cpp computes everything. */
static int open_and_run(const arguments *given, const tune_request *asked_for) {
    tune_request request = *asked_for;
    laboratory lab;
    if (given->is_forward && !given->has_gradients)
        return run(given, &request);
    bool is_open = open_laboratory(&lab, given->threads, NULL);
    if (!lab_ranks_agree(request.ranks, is_open, &lab.error)) {
        if (is_open)
            close_laboratory(&lab);
        return report_rank_error(request.ranks, &lab.error);
    }
    request.engine = &lab.engine;
    request.executor = &lab.executor;
    int status = run(given, &request);
    close_laboratory(&lab);
    return status;
}

static int keep_apart(const char *const *inputs, size_t input_count, const char *const *files,
                      size_t count) {
    int status = STATUS_OK;
    for (size_t i = 0; i < input_count && status == STATUS_OK; i++)
        status = inputs[i] ? refuse_to_overwrite(inputs[i], files, count) : STATUS_OK;
    return status;
}

/* Results replace nothing that is read, nor each other. */
static int check_files(const arguments *given, const char *state_path) {
    const char *const files[] = {given->out, given->json, given->html, state_path};
    enum { FILES = sizeof files / sizeof files[0], RESULTS = FILES - 1 };
    const text_list *const lists[] = {&given->text, &given->check, &given->validate};
    const char *const others[] = {given->model, given->task};
    int status = keep_apart(others, 2, files, FILES);
    for (size_t i = 0; i < 3 && status == STATUS_OK; i++)
        status = keep_apart(lists[i]->items, lists[i]->count, files, FILES);
    for (size_t i = 0; i < RESULTS && state_path && status == STATUS_OK; i++)
        if (files[i] && lab_is_same_file(files[i], state_path)) {
            complain("%s: the state of the run is kept there; choose another file", files[i]);
            status = STATUS_MISUSE;
        }
    return status == STATUS_OK ? reserve_output(files, RESULTS) : status;
}

static int run_request(const arguments *given, const tune_request *checked) {
    tune_request request = *checked;
    lab_ranks ranks;
    lab_error error = {.kind = LAB_NO_ERROR};
    if (!join_ranks(given->mpi, &ranks, &request.ranks, &request.quiet, &error))
        return report_lab_error(&error);
    char *state_path = is_standard_output(given->out) ? NULL : state_path_of(given->out);
    int status = state_path || is_standard_output(given->out) ? STATUS_OK : complain_of_memory();
    if (status == STATUS_OK && lab_is_first(request.ranks))
        status = check_files(given, state_path);
    status = status_for_all(request.ranks, status);
    request.state_path = state_path;
    if (status == STATUS_OK)
        status = open_and_run(given, &request);
    free(state_path);
    close_ranks(request.ranks, status);
    return status;
}

static int check_and_run(arguments *given) {
    int status = parse_index_list("layers", given->layers, &given->tuned_layers);
    if (status == STATUS_OK)
        status = parse_index_list("heads", given->heads, &given->tuned_heads);
    tune_request request = request_of(given);
    if (status == STATUS_OK)
        status = check_values(given, &request);
    if (status == STATUS_OK)
        status = run_request(given, &request);
    free(given->tuned_layers.ranges);
    free(given->tuned_heads.ranges);
    return status;
}

/* Parses the command line; *status is that of the model, which it must name. */
static options_result parse(int argc, char **argv, arguments *given, int *status) {
    int operands = 0;
    static const char *const tasks[] = {"copy", "keys", "needle", NULL};
    const option_spec options[] = {
        OPTIONS_ABOUT("texts"),
        {"text", OPTION_FILES, &given->text, "FILE...", "texts to learn from",
         .values = VALUE_FILE},
        {"check", OPTION_FILES, &given->check, "FILE...",
         "other texts, on which the result is judged; files of one folder are one domain",
         .values = VALUE_FILE},
        {"validate", OPTION_FILES, &given->validate, "FILE...",
         "texts to choose the result by, in at least two folders (default: a quarter of --text, "
         "and a text that whet has built in)",
         .values = VALUE_FILE},
        {"prefix", OPTION_TEXT, &given->prefix, "TEXT",
         "text before every sequence, which is not judged: a chat model needs the beginning of an "
         "answer, such as $'<|im_start|>assistant\\n'"},
        OPTIONS_ABOUT("model"),
        model_option(&given->model),
        {"context", OPTION_RANGE, &given->context, "N",
         "tokens of a sequence (default: as many as the model takes, at most 4096)"},
        {"learn-context", OPTION_RANGE, &given->learn_context, "N",
         "tokens of a sequence to learn from, where long ones take too long (default: as "
         "--context); sequences to choose and to judge by have --context tokens"},
        rope_option(&given->rope),
        OPTIONS_ABOUT("what is tuned"),
        {"by", OPTION_CHOICE, &given->by, "WHAT",
         "which heads share parameters: {} (default head; with --forward layer)",
         .values = VALUE_WORD, .words = tune_by_names},
        {"layers", OPTION_TEXT, &given->layers, "LIST",
         "layers to tune, such as 0-3,7 (default: all)"},
        {"heads", OPTION_TEXT, &given->heads, "LIST",
         "heads of these layers to tune, such as 0-3,7 (default: all)"},
        {"task", OPTION_TEXT, &given->task, "TASK",
         "task to become better at: copy, keys, needle or a file of JSON lines with \"prompt\" and "
         "\"answer\" (default: none; perplexity is what is to fall)",
         .values = VALUE_WORD, .words = tasks},
        {"task-length", OPTION_RANGE, &given->task_length, "N",
         "number of tokens in an example of copy, keys or needle (default 256)"},
        {"text-weight", OPTION_NUMBER, &given->text_weight, "W",
         "weight of the texts' loss beside that of a task's answers (default 30)"},
        {"limit", OPTION_TEXT, &given->limit, "PERCENT",
         "largest rise of perplexity in any domain (default 0.5%)"},
        OPTIONS_ABOUT("effort"),
        {"count", OPTION_RANGE, &given->count, "N",
         "largest number of sequences to learn from (default 50)"},
        {"validation-count", OPTION_RANGE, &given->validation_count, "N",
         "largest number of sequences of each domain to choose by (default 12)"},
        {"check-count", OPTION_RANGE, &given->check_count, "N",
         "largest number of sequences of each domain, or of examples of a task, to judge by "
         "(default 24, with a task 100)"},
        {"steps", OPTION_RANGE, &given->steps, "N", "number of training steps (default 60)"},
        {"looks", OPTION_RANGE, &given->looks, "N",
         "number of steps whose numbers are tried on the texts to choose by (default 6)"},
        {"batch", OPTION_RANGE, &given->batch, "N", "number of sequences in a step (default 4)"},
        {"rate", OPTION_NUMBER, &given->rate, "R", "learning rate (default 0.03)"},
        {"num-seeds", OPTION_RANGE, &given->seeds, "N", "number of repetitions (default 3)",
         .aliases = "seeds"},
        seed_option(&given->seed, "seed of the first repetition (default 1)"),
        threads_option(&given->threads),
        mpi_option(&given->mpi),
        yes_option(&given->is_confirmed),
        OPTIONS_ABOUT("llama.cpp"),
        {"forward", OPTION_FLAG, &given->is_forward, NULL,
         "run the model by llama.cpp, without gradients: for models that are too large for memory "
         "in f32, or unknown to whet"},
        {"gradients", OPTION_FLAG, &given->has_gradients, NULL,
         "with --forward: learn the numbers of layers or heads by gradients in f32, and leave "
         "judging to llama.cpp, which is faster for models of few bits"},
        {"passes", OPTION_RANGE, &given->passes, "N",
         "largest number of sequences that a search with --forward computes (default 2000)"},
        llama_option(&given->llama),
        plugin_option(&given->plugin),
        OPTIONS_ABOUT("results"),
        {"out", OPTION_TEXT, &given->out, "FILE",
         "file for the settings, to be named by WHET_CONFIG (default tuned.json)", .letter = 'o',
         .values = VALUE_FILE},
        json_option(&given->json, JSON_SUMMARY),
        {"html", OPTION_TEXT, &given->html, "FILE",
         "page to write: the verdict, tables and figures", .values = VALUE_FILE},
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "MODEL.gguf",
        .about = "Finds temperatures of a language model's heads that lower its perplexity, or\n"
                 "make it better at a task, without changing its weights. A head's temperature is\n"
                 "beta = exp(a + h max(0, ln(n / n0))) over n keys, where n0 is the context that\n"
                 "the model was trained on. Temperatures are learned on some texts, chosen on\n"
                 "others, and judged on yet others beside controls. If nothing is gained, beta is\n"
                 "1 and the exit status 3. Under mpirun, seeds and sequences are dealt to the\n"
                 "ranks, which must see the same folder.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "A run that was stopped continues when the same command is given again.\n",
        .examples = "whet tune model.gguf --text books/*.txt --check other/*.txt\n"
                    "whet tune model.gguf --text books/*.txt --check other/*.txt --rope yarn:2\n"
                    "whet tune model.gguf --text a/*.txt --check b/*.txt --html tuned.html\n"
                    "mpirun -n 4 whet tune model.gguf --text a/*.txt --check b/*.txt --threads 8\n"
                    "WHET_CONFIG=tuned.json llama-cli -m model.gguf\n",
        .operands_limit = 1,
        .operand_values = VALUE_FILE,
    };
    options_result parsed = parse_options(&syntax, argc, argv, &operands);
    if (parsed == OPTIONS_GIVEN)
        *status = take_model(&syntax, operands, argv, &given->model);
    return parsed;
}

/* Parsing moves operands to the front. */
static bool copy_command(int argc, char **argv, arguments *given) {
    given->command_length = (size_t)argc;
    given->command = malloc(given->command_length * sizeof *given->command);
    for (size_t i = 0; given->command && i < given->command_length; i++)
        given->command[i] = argv[i];
    return given->command != NULL;
}

int command_tune(int argc, char **argv) {
    arguments given = {.limit = "0.5%",
                       .out = "tuned.json",
                       .context = {0, 1, CONTEXT_MAX},
                       .learn_context = {0, 1, CONTEXT_MAX},
                       .looks = {6, 1, AMOUNT_MAX},
                       .steps = {60, 1, AMOUNT_MAX},
                       .batch = {4, 1, 1024},
                       .seeds = {3, 1, TUNE_SEEDS_MAX},
                       .count = {50, 1, AMOUNT_MAX},
                       .validation_count = {12, 2, AMOUNT_MAX},
                       .check_count = {0, 2, AMOUNT_MAX},
                       .task_length = {256, 1, CONTEXT_MAX},
                       .passes = {2000, 10, 100000000},
                       .rate = 0.03,
                       .text_weight = 30,
                       .seed = SEED_DEFAULT};
    if (!copy_command(argc, argv, &given))
        return complain_of_memory();
    int status = STATUS_OK;
    options_result parsed = parse(argc, argv, &given, &status);
    if (given.check_count.value == 0)
        given.check_count.value = given.task ? 100 : 24;
    if (parsed != OPTIONS_GIVEN)
        status = options_status(parsed);
    else if (status == STATUS_OK)
        status = check_and_run(&given);
    free(given.command);
    free(given.text.items);
    free(given.check.items);
    free(given.validate.items);
    return status;
}
