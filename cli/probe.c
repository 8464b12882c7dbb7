/*
 * `whet probe`: what the heads of a language model do as its input grows, and
 * `whet figure 3`, the picture of it. Options become a request, the laboratory
 * runs it, and what came out is printed, kept and drawn.
 */
#include "probe.h"

#include "commands.h"
#include "lab_options.h"
#include "messages.h"
#include "options.h"
#include "policy_list.h"
#include "preferences.h"
#include "registry_words.h"
#include "results.h"

#include "base/files.h"
#include "base/grouped.h"
#include "base/machine.h"
#include "base/number_range.h"
#include "base/signals.h"
#include "llama/index_set.h"
#include "model/shape.h"
#include "report/plot.h"
#include "report/probe_figure.h"
#include "report/probe_page.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TEXT_MAX = 64 << 20,
    MODEL_CONTEXT_MAX = 1 << 24,
    SEQUENCES_MAX = 1000,
    ANSWER_TOKENS_MAX = 256
};

#define NOT_GIVEN UINT64_MAX /* an option that is left to the laboratory */

static const char *const default_policies[] = {"softmax", "adaptive"};
static const char numbers_by_default[] = "4..256:x2", tokens_by_default[] = "16..32768:x2";

typedef struct arguments {
    const char *name; /* of the command */
    const char *model, *llama, *plugin;
    const char *sizes, *range;
    const char *prompt_file, *prompt, *perplexity;
    const char *layers, *heads;
    const char *json, *csv, *html;
    const char *figure;  /* of one layer */
    const char *figures; /* of all of them */
    const char *gaps_figure;
    text_list policies;
    uint64_t count, decimals, seed, tokens, context, every, perplexity_tokens, threads;
    uint64_t layer, keys;
    unsigned largest_layer, largest_head; /* of those lists */
    bool is_chat, shows_heads, is_share, has_needles, has_gaps;
} arguments;

static arguments usual_arguments(const char *name) {
    return (arguments){.name = name,
                       .range = "0-999",
                       .count = 8,
                       .seed = SEED_DEFAULT,
                       .tokens = 12,
                       .perplexity_tokens = 8192,
                       .context = NOT_GIVEN,
                       .every = NOT_GIVEN,
                       .keys = NOT_GIVEN,
                       .layer = UINT64_MAX};
}

__attribute__((format(printf, 1, 2))) static bool refuse(const char *format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    complain("%s", text);
    return false;
}

static bool parse_range(const arguments *given, number_format *format) {
    number_range range;
    if (!parse_draw_range("range", given->range, 0, PROMPT_NUMBER_MAX, &range))
        return false;
    format->low = range.first;
    format->high = range.last;
    format->decimals = given->decimals;
    return true;
}

static bool are_good(const arguments *given) {
    if (given->prompt_file && given->prompt)
        return refuse_together("prompt", "prompt-file") == STATUS_OK;
    if (given->policies.count > PROBE_POLICIES_MAX)
        return refuse("--policy: %zu policies given; at most %d can be compared",
                      given->policies.count, PROBE_POLICIES_MAX);
    lab_error error = {.kind = LAB_NO_ERROR};
    if ((given->figure && !plot_knows(given->figure, &error)) ||
        (given->figures && !plot_knows(given->figures, &error)) ||
        (given->gaps_figure && !plot_knows(given->gaps_figure, &error)))
        return refuse("%s", error.text);
    return true;
}

/* Sizes of our own choice end with the text, which has no more tokens than bytes and a space in
 * front of it. */
static size_t sizes_within(const number_list *sizes, const char *text) {
    size_t count = 1, length = strlen(text);
    while (count < sizes->count && sizes->items[count - 1] <= length)
        count++;
    return count;
}

static bool parse_sizes(const arguments *given, const char *text, number_list *sizes) {
    const char *usual = text ? tokens_by_default : numbers_by_default;
    if (!parse_number_list("sizes", given->sizes ? given->sizes : usual, 1, 1 << 20, sizes))
        return false;
    if (text && !given->sizes)
        sizes->count = sizes_within(sizes, text);
    for (size_t i = 1; i < sizes->count; i++)
        if (sizes->items[i] <= sizes->items[i - 1])
            return refuse("--sizes: each must be larger than the one before");
    return sizes->count <= PROBE_SIZES_MAX ||
           refuse("--sizes: %zu sizes given; at most %d are possible", sizes->count,
                  PROBE_SIZES_MAX);
}

/* ---- what comes of it ---- */

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int keep(const arguments *given, const probe_request *request, const probe_result *result) {
    lab_error error = {.kind = LAB_NO_ERROR};
    probe_table table = {request, result};
    probe_figure figure = {.request = request,
                           .result = result,
                           .title = base_name(request->model.path),
                           .layer = given->layer == UINT64_MAX ? 0 : given->layer,
                           .is_share = given->is_share};
    int status = STATUS_OK;
    if (given->json)
        status = keep_json(given->json, probe_json(request, result));
    if (given->csv && status == STATUS_OK)
        status = keep_table(given->csv, probe_csv, &table);
    if (given->html && status == STATUS_OK && !probe_page(given->html, request, result, &error))
        status = report_lab_error(&error);
    if (given->figure && status == STATUS_OK && !figure_probe(given->figure, &figure, &error))
        status = report_lab_error(&error);
    figure.layer = UINT64_MAX;
    if (given->gaps_figure && status == STATUS_OK &&
        !figure_gaps(given->gaps_figure, &figure, &error))
        status = report_lab_error(&error);
    if (given->figures && status == STATUS_OK && !figure_probe(given->figures, &figure, &error))
        status = report_lab_error(&error);
    return status;
}

/* What was drawn. */
static void tell_figures(const arguments *given, const probe_request *request) {
    const char *of = given->is_share ? "entropies as shares of ln n" : "entropies";
    printf("%s: Figure 3, %s of the heads in layer %llu of %s\n", given->figure, of,
           (unsigned long long)given->layer, base_name(request->model.path));
    if (given->figures)
        printf("%s: Figure 3 of all layers\n", given->figures);
}

/* An option that names layers or heads: the largest number in it, and how many the model has. */
static bool is_there(const char *option, uint64_t largest, size_t count) {
    const char *what = strcmp(option, "--heads") == 0 ? "heads" : "layers";
    if (count == 0 || largest < count)
        return true;
    complain("%s: %llu is out of range; the model has %s 0 to %zu", option,
             (unsigned long long)largest, what, count - 1);
    return false;
}

/* The largest number of a list, 0 where none is given. False after a message. */
static bool read_list(const char *option, const char *list, unsigned *largest) {
    index_set set;
    bool is_good = parse_index_list(option, list, &set) == STATUS_OK;
    *largest = index_set_largest(&set);
    free(set.ranges);
    return is_good;
}

static bool read_lists(arguments *given) {
    return read_list("layers", given->layers, &given->largest_layer) &&
           read_list("heads", given->heads, &given->largest_head);
}

/* 0: unknown; a model whose file does not say is looked at after its run. */
static bool are_places_there(const arguments *given, size_t layers, size_t heads) {
    return (given->layer == UINT64_MAX || is_there("--layer", given->layer, layers)) &&
           is_there("--layers", given->largest_layer, layers) &&
           is_there("--heads", given->largest_head, heads);
}

static int finish(const arguments *given, const probe_request *request, const probe_result *result,
                  bool prints) {
    if (!are_places_there(given, result->layers, result->heads))
        return STATUS_MISUSE;
    int status = keep(given, request, result);
    if (status != STATUS_OK)
        return status;
    probe_view view = {.request = request,
                       .result = result,
                       .model = base_name(request->model.path),
                       .shows_heads = given->shows_heads,
                       .layer = given->layer,
                       .style = standard_output_style()};
    if (prints)
        return print_probe(&view);
    if (!preferred.quiet)
        tell_figures(given, request);
    return STATUS_OK;
}

static int run(const arguments *given, probe_request *request, bool prints) {
    lab_error error = {.kind = LAB_NO_ERROR};
    probe_result *result = malloc(sizeof *result);
    if (!result)
        return complain_of_memory();
    lab_catch_interrupts();
    int status = probe_run(request, result, &error) ? finish(given, request, result, prints)
                                                    : report_lab_error(&error);
    probe_free(result);
    free(result);
    return status;
}

/* Texts that are read from files. */
typedef struct texts {
    char *prompt, *judged;
} texts;

static int read_texts(const arguments *given, texts *read) {
    lab_error error = {.kind = LAB_NO_ERROR};
    size_t size;
    if (given->prompt_file)
        read->prompt = lab_read_text(given->prompt_file, TEXT_MAX, &size, &error);
    if (read->prompt) { /* editors end a file with a line's end, which is not asked about */
        size_t length = strlen(read->prompt);
        read->prompt[length > 0 && read->prompt[length - 1] == '\n' ? length - 1 : length] = '\0';
    }
    if (error.kind == LAB_NO_ERROR && given->perplexity)
        read->judged = lab_read_text(given->perplexity, TEXT_MAX, &size, &error);
    return error.kind == LAB_NO_ERROR ? STATUS_OK : report_lab_error(&error);
}

static int request_and_run(const arguments *given, const texts *read, bool prints) {
    const char *own = read->prompt ? read->prompt : given->prompt;
    bool is_question = own && strstr(own, PROMPT_PLACE);
    const char *text = is_question ? NULL : own;
    if (given->has_needles && is_question)
        return refuse("--retrieval takes a text, not a question with " PROMPT_PLACE)
                   ? STATUS_OK
                   : STATUS_MISUSE;
    if (given->has_needles && given->is_chat)
        return refuse_together("retrieval", "chat");
    if (given->has_needles && !text)
        text = probe_built_in_text;
    number_list sizes;
    policy_list policies;
    probe_request request = {.library = given->llama,
                             .plugin = given->plugin,
                             .layers = given->layers,
                             .heads = given->heads,
                             .sizes = sizes.items,
                             .may_shrink = !given->sizes,
                             .sequences = (size_t)given->count,
                             .format.question = is_question ? own : NULL,
                             .seed = given->seed,
                             .text = text,
                             .has_needles = given->has_needles,
                             .keys = given->keys == NOT_GIVEN ? 0 : (size_t)given->keys,
                             .has_gaps = given->has_gaps || given->gaps_figure,
                             .is_chat = given->is_chat,
                             .answer_tokens = given->tokens,
                             .context = given->context == NOT_GIVEN ? 0 : given->context,
                             .every = given->every == NOT_GIVEN ? 0 : given->every,
                             .judged = read->judged,
                             .judged_tokens_max = given->perplexity_tokens,
                             .threads =
                                 (uint32_t)(given->threads ? given->threads : lab_processors()),
                             .quiet = preferred.quiet};
    if (!parse_range(given, &request.format) || !parse_sizes(given, text, &sizes))
        return STATUS_MISUSE;
    request.size_count = sizes.count;
    bool has_names = given->policies.count > 0;
    size_t usual = prints ? 2 : 1; /* the figure is about softmax */
    int status = make_policy_list(has_names ? given->policies.items : default_policies,
                                  has_names ? given->policies.count : usual, &policies);
    if (status != STATUS_OK)
        return status;
    request.policies = policies.names;
    request.policy_count = policies.count;
    lab_error error = {.kind = LAB_NO_ERROR};
    if (!probe_read_model(given->model, &request.model, &error))
        status = report_lab_error(&error);
    else if (!are_places_there(given, request.model.layers, request.model.heads))
        status = STATUS_MISUSE; /* before a run that may take long */
    else
        status = run(given, &request, prints);
    free_policy_list(&policies);
    return status;
}

static int check_and_run(arguments *given, bool prints) {
    texts read = {0};
    if (!are_good(given) || !read_lists(given))
        return STATUS_MISUSE;
    const char *const files[] = {given->json,   given->csv,     given->html,
                                 given->figure, given->figures, given->gaps_figure};
    enum { FILES = sizeof files / sizeof files[0] };
    const char *const inputs[] = {given->model, given->prompt_file, given->perplexity};
    int status = STATUS_OK;
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0] && status == STATUS_OK; i++)
        status = inputs[i] ? refuse_to_overwrite(inputs[i], files, FILES) : STATUS_OK;
    if (status == STATUS_OK)
        status = reserve_output(files, FILES);
    lab_error error = {.kind = LAB_NO_ERROR};
    if (status == STATUS_OK && (given->figure || given->figures || given->gaps_figure) &&
        !plot_has_program(&error))
        status = report_lab_error(&error);
    if (status == STATUS_OK)
        status = read_texts(given, &read);
    if (status == STATUS_OK)
        status = request_and_run(given, &read, prints);
    free(read.prompt);
    free(read.judged);
    return status;
}

/* ---- the commands ---- */

static int parse_and_run(const command_syntax *syntax, arguments *given, int argc, char **argv,
                         bool prints) {
    int operands = 0;
    options_result parsed = parse_options(syntax, argc, argv, &operands);
    int status = parsed == OPTIONS_GIVEN ? take_model(syntax, operands, argv, &given->model)
                                         : options_status(parsed);
    if (parsed == OPTIONS_GIVEN && status == STATUS_OK)
        status = check_and_run(given, prints);
    free(given->policies.items);
    return status;
}

static const char more[] =
    "llama.cpp is needed as a library, libllama: any build of it with shared\n"
    "libraries, or 'npm install @node-llama-cpp/linux-x64'. The model runs on the\n"
    "processor, each policy in its own process. Models that only encode are refused.\n";

static const char more_of_the_figure[] =
    "The paper used Gemma 2B, whose weights are not freely available;\n"
    "docs/llama.cpp.md has the figure of TinyLlama-1.1B and MiniMind2-small.\n"
    "libllama is needed, see 'whet probe --help'.\n";

/* Options that both commands have. */
static option_spec sizes_option(arguments *given, const char *summary) {
    return (option_spec){"sizes", OPTION_TEXT, &given->sizes, "LIST", summary};
}

static option_spec count_option(arguments *given) {
    return (option_spec){"count",
                         OPTION_UNSIGNED,
                         &given->count,
                         "N",
                         "number of sequences of each size (default 8)",
                         .aliases = "sequences",
                         .least = 1,
                         .most = SEQUENCES_MAX};
}

static option_spec range_option(arguments *given) {
    return (option_spec){"range", OPTION_TEXT, &given->range, "A-B",
                         "range that the numbers are drawn from, or one number (default 0-999)"};
}

static option_spec decimals_option(arguments *given) {
    return (option_spec){"decimals",
                         OPTION_UNSIGNED,
                         &given->decimals,
                         "N",
                         "decimals of the numbers (default 0)",
                         .most = PROMPT_DECIMALS_MAX};
}

static option_spec chat_option(arguments *given) {
    return (option_spec){"chat", OPTION_FLAG, &given->is_chat, NULL,
                         "ask in the model's chat template"};
}

static option_spec figures_option(arguments *given) {
    return (option_spec){"figures",
                         OPTION_TEXT,
                         &given->figures,
                         "FILE",
                         "figure to write as well, .svg or .png: a panel for each layer",
                         .values = VALUE_FILE};
}

static option_spec share_option(arguments *given) {
    return (option_spec){"share", OPTION_FLAG, &given->is_share, NULL,
                         "draw entropies as shares of ln n"};
}

int command_probe(int argc, char **argv) {
    arguments given = usual_arguments("probe");
    const option_spec options[] = {
        OPTIONS_ABOUT("model"),
        model_option(&given.model),
        {"context", OPTION_UNSIGNED, &given.context, "N",
         "context in tokens (default: what the model was trained for)", .least = 1,
         .most = MODEL_CONTEXT_MAX},
        llama_option(&given.llama),
        plugin_option(&given.plugin),
        threads_option(&given.threads),
        OPTIONS_ABOUT("policies"),
        {"policy", OPTION_LIST, &given.policies, "NAME",
         "policy to run with (default: softmax and adaptive); may be repeated",
         .values = VALUE_WORD, .words = policy_words()},
        {"layers", OPTION_TEXT, &given.layers, "LIST",
         "layers that policies act on, such as 0-3,7 (default: all)"},
        {"heads", OPTION_TEXT, &given.heads, "LIST",
         "heads that policies act on, such as 0-3,7 (default: all)"},
        OPTIONS_ABOUT("input"),
        sizes_option(&given, "numbers in a sequence, or tokens of the text, " LIST_FORM
                             " (default: doubling from 4, or 16 tokens, to what fits)"),
        count_option(&given),
        range_option(&given),
        decimals_option(&given),
        seed_option(&given.seed, "seed of the numbers (default 1)"),
        {"prompt", OPTION_TEXT, &given.prompt, "TEXT",
         "text to read, in growing prefixes, instead of numbers; with {seq}, a question about the "
         "numbers, which take its place",
         .aliases = "text"},
        {"prompt-file", OPTION_TEXT, &given.prompt_file, "FILE", "file with that text",
         .values = VALUE_FILE},
        {"retrieval", OPTION_FLAG, &given.has_needles, NULL,
         "hide numbers in the text (default: one built in), ask for them, and score every head by "
         "how often its largest weight lies on the token to be copied"},
        chat_option(&given),
        {"tokens", OPTION_UNSIGNED, &given.tokens, "N",
         "maximum number of tokens of an answer (default 12)", .aliases = "answer-tokens",
         .least = 1, .most = ANSWER_TOKENS_MAX},
        {"perplexity", OPTION_TEXT, &given.perplexity, "FILE",
         "text to measure the perplexity of as well", .values = VALUE_FILE},
        {"perplexity-tokens", OPTION_UNSIGNED, &given.perplexity_tokens, "N",
         "maximum number of tokens of that text (default 8192)", .least = PROBE_JUDGED_MIN,
         .most = TEXT_MAX},
        OPTIONS_ABOUT("output"),
        {"every", OPTION_UNSIGNED, &given.every, "N",
         "number of positions from one that is averaged to the next (default: about 32 of each 512 "
         "are)",
         .least = 1, .most = PROBE_EVERY_MAX},
        {"keys", OPTION_UNSIGNED, &given.keys, "N",
         "number of largest weights to record of the heads that policies act on, with their tokens "
         "(1 to 64): for --json, --csv and --html",
         .least = 1, .most = PROBE_KEYS_MAX},
        {"gaps", OPTION_FLAG, &given.has_gaps, NULL,
         "count the logits close to the largest, and find the beta that each length calls for"},
        {"layer", OPTION_UNSIGNED, &given.layer, "N", "layer whose heads to print and draw",
         .most = MODEL_LAYERS_MAX - 1},
        {"all-heads", OPTION_FLAG, &given.shows_heads, NULL, "print a line for each head"},
        json_option(&given.json, JSON_SUMMARY),
        csv_option(&given.csv, CSV_SUMMARY),
        {"html", OPTION_TEXT, &given.html, "FILE",
         "page to write: a grid of all heads with their curves, for a browser",
         .values = VALUE_FILE},
        {"figure", OPTION_TEXT, &given.figure, "FILE",
         "figure to write, .svg or .png: the heads of --layer (default layer 0)",
         .values = VALUE_FILE},
        figures_option(&given),
        {"gaps-figure", OPTION_TEXT, &given.gaps_figure, "FILE",
         "figure to write, .svg or .png: the beta that each head needs at each length; implies "
         "--gaps",
         .values = VALUE_FILE},
        share_option(&given),
    };
    const command_syntax syntax = {
        .name = given.name,
        .operands = "MODEL.gguf",
        .about =
            "Asks a language model for the maximum of longer and longer sequences of numbers,\n"
            "and prints the entropy in nats of every attention head as they grow, before and\n"
            "after a policy: which heads disperse, which stay sharp, and how many answers\n"
            "are right.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = more,
        .examples = "whet probe model.gguf\n"
                    "whet probe model.gguf --policy adaptive --layers 20-21 --json probe.json\n"
                    "whet probe model.gguf --retrieval --html heads.html\n",
        .operands_limit = 1,
        .operand_values = VALUE_FILE,
    };
    return parse_and_run(&syntax, &given, argc, argv, true);
}

int command_figure3(int argc, char **argv) {
    arguments given = usual_arguments("figure 3");
    given.figure = "figure3.svg";
    given.layer = 0;
    given.tokens = 1;
    const option_spec options[] = {
        OPTIONS_ABOUT("figure"),
        {"out", OPTION_TEXT, &given.figure, "FILE",
         "figure to write, .svg or .png (default figure3.svg)", .letter = 'o',
         .values = VALUE_FILE},
        {"layer", OPTION_UNSIGNED, &given.layer, "N", "layer to draw (default 0)",
         .most = MODEL_LAYERS_MAX - 1},
        figures_option(&given),
        share_option(&given),
        OPTIONS_ABOUT("model"),
        model_option(&given.model),
        {"policy", OPTION_LIST, &given.policies, "NAME",
         "policy to run with (default softmax); the first is drawn in full, of others the mean; "
         "may "
         "be repeated",
         .values = VALUE_WORD, .words = policy_words()},
        llama_option(&given.llama),
        plugin_option(&given.plugin),
        threads_option(&given.threads),
        OPTIONS_ABOUT("input"),
        sizes_option(&given, "numbers in a sequence, " LIST_FORM
                             " (default: doubling from 4 to what fits)"),
        count_option(&given),
        range_option(&given),
        decimals_option(&given),
        seed_option(&given.seed, "seed of the numbers (default 1)"),
        chat_option(&given),
    };
    const command_syntax syntax = {
        .name = given.name,
        .operands = "MODEL.gguf",
        .about = "Draws the paper's Figure 3 of any language model: the entropy in nats of each\n"
                 "head of a layer against the length of the sequence whose maximum is asked for.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = more_of_the_figure,
        .examples = "whet figure 3 model.gguf --layer 5\n",
        .operands_limit = 1,
        .operand_values = VALUE_FILE,
    };
    return parse_and_run(&syntax, &given, argc, argv, false);
}
