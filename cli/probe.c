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
#include "results.h"

#include "base/files.h"
#include "base/number_range.h"
#include "base/signals.h"
#include "report/plot.h"
#include "report/probe_figure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 64 << 20, PLACES_MAX = 65535 };

#define NOT_GIVEN UINT64_MAX /* an option that is left to the laboratory */

static const char *const default_policies[] = {"softmax", "adaptive"};
static const char numbers_by_default[] = "4..256", tokens_by_default[] = "16..32768";

typedef struct arguments {
    const char *name; /* of the command */
    const char *model, *llama, *plugin;
    const char *sizes, *range;
    const char *prompt_file, *text, *perplexity;
    const char *layers, *heads;
    const char *json, *csv;
    const char *figure;  /* of one layer */
    const char *figures; /* of all of them */
    text_list policies;
    uint64_t sequences, decimals, seed, answer_tokens, context, every, perplexity_tokens, threads;
    uint64_t layer;
    uint64_t largest_layer, largest_head; /* of those lists */
    bool is_chat, shows_heads, is_share, quiet;
} arguments;

static arguments usual_arguments(const char *name) {
    return (arguments){.name = name,
                       .range = "0..999",
                       .sequences = 8,
                       .seed = 1,
                       .answer_tokens = 12,
                       .perplexity_tokens = 8192,
                       .context = NOT_GIVEN,
                       .every = NOT_GIVEN,
                       .layer = UINT64_MAX};
}

static bool refuse(const arguments *given, const char *text) {
    complain("%s: %s", given->name, text);
    point_to_help(given->name);
    return false;
}

/* "0..999" */
static bool parse_range(const arguments *given, number_format *format) {
    const char *rest = given->range;
    number_range range;
    bool is_range = take_number_range(&rest, "..", PROMPT_NUMBER_MAX, &range) && !*rest &&
                    range.first < range.last;
    if (!is_range)
        return refuse(given, "--range: two whole numbers up to 1000000000, such as 0..999");
    if (given->decimals > PROMPT_DECIMALS_MAX)
        return refuse(given, "--decimals: at most 9");
    format->low = range.first;
    format->high = range.last;
    format->decimals = given->decimals;
    return true;
}

static bool are_good(const arguments *given) {
    if (!given->model)
        return refuse(given, "which model? -m MODEL.gguf");
    if (given->prompt_file && given->text)
        return refuse(given, "--prompt-file or --text, not both");
    if (given->sequences < 1 || given->sequences > 1000)
        return refuse(given, "--sequences: from 1 to 1000");
    if (given->answer_tokens < 1 || given->answer_tokens > 256)
        return refuse(given, "--answer-tokens: from 1 to 256");
    if (given->every != NOT_GIVEN && (given->every < 1 || given->every > PROBE_EVERY_MAX))
        return refuse(given, "--every: from 1 to 65535");
    if (given->context != NOT_GIVEN && (given->context < 1 || given->context > 1 << 24))
        return refuse(given, "--context: from 1 to 16777216");
    if (given->perplexity_tokens < PROBE_JUDGED_MIN)
        return refuse(given, "--perplexity-tokens: 4 or more");
    if (given->policies.count > PROBE_POLICIES_MAX)
        return refuse(given, "--policy: at most 16 of them");
    lab_error error = {.kind = LAB_NO_ERROR};
    if ((given->figure && !plot_knows(given->figure, &error)) ||
        (given->figures && !plot_knows(given->figures, &error)))
        return refuse(given, error.text);
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
    if (!parse_number_list(given->name, "sizes", given->sizes ? given->sizes : usual, true, 1,
                           1 << 20, sizes))
        return false;
    if (text && !given->sizes)
        sizes->count = sizes_within(sizes, text);
    for (size_t i = 1; i < sizes->count; i++)
        if (sizes->items[i] <= sizes->items[i - 1])
            return refuse(given, "--sizes: each has to be larger than the one before");
    return sizes->count <= PROBE_SIZES_MAX || refuse(given, "--sizes: at most 64 of them");
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
        status = keep_json(given->name, given->json, probe_json(request, result));
    if (given->csv && status == STATUS_OK)
        status = keep_table(given->name, given->csv, probe_csv, &table);
    if (given->figure && status == STATUS_OK && !figure_probe(given->figure, &figure, &error))
        status = report_lab_error(given->name, &error);
    figure.layer = UINT64_MAX;
    if (given->figures && status == STATUS_OK && !figure_probe(given->figures, &figure, &error))
        status = report_lab_error(given->name, &error);
    return status;
}

/* What was drawn, for those who asked for nothing else. */
static void tell_figures(const arguments *given, const probe_request *request) {
    const char *of = given->is_share ? "entropies as shares of ln n" : "entropies";
    printf("%s: Figure 3, %s of the heads in layer %llu of %s\n", given->figure, of,
           (unsigned long long)given->layer, base_name(request->model.path));
    if (given->figures)
        printf("%s: the same of all layers\n", given->figures);
}

/* An option that names layers or heads: the largest number in it, and how many the model has. */
static bool is_there(const arguments *given, const char *option, uint64_t largest, size_t count) {
    const char *what = strcmp(option, "--heads") == 0 ? "heads" : "layers";
    if (count == 0 || largest < count)
        return true;
    complain("%s: %s: the model has %s 0 to %zu", given->name, option, what, count - 1);
    return false;
}

/* The largest number of a list such as 0-3,7, as the plug-in reads them, 0 where none is given.
 * False where the text is no such list. */
static bool read_list(const char *list, uint64_t *largest) {
    number_range range;
    bool is_good = true;
    *largest = 0;
    for (const char *at = list; at && is_good && (at == list || *at);) {
        is_good = take_number_range(&at, "-", PLACES_MAX, &range);
        *largest = is_good && range.last > *largest ? range.last : *largest;
    }
    return is_good;
}

static bool read_lists(arguments *given) {
    const char *wrong = !read_list(given->layers, &given->largest_layer) ? "layers"
                        : !read_list(given->heads, &given->largest_head) ? "heads"
                                                                         : NULL;
    if (wrong)
        refuse_value(given->name, wrong, *wrong == 'l' ? given->layers : given->heads,
                     "a list such as 0-3,7");
    return !wrong;
}

/* 0: unknown; a model whose file does not say is looked at after its run. */
static bool are_places_there(const arguments *given, size_t layers, size_t heads) {
    return (given->layer == UINT64_MAX || is_there(given, "--layer", given->layer, layers)) &&
           is_there(given, "--layers", given->largest_layer, layers) &&
           is_there(given, "--heads", given->largest_head, heads);
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
                       .style = standard_output_style(true)};
    if (prints)
        return print_probe(&view);
    if (!given->quiet)
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
                                                    : report_lab_error(given->name, &error);
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
    return error.kind == LAB_NO_ERROR ? STATUS_OK : report_lab_error(given->name, &error);
}

static int request_and_run(const arguments *given, const texts *read, bool prints) {
    const char *own = read->prompt ? read->prompt : given->text;
    bool is_question = own && strstr(own, PROMPT_PLACE);
    const char *text = is_question ? NULL : own;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    number_list sizes;
    policy_list policies;
    probe_request request = {.library = given->llama,
                             .plugin = given->plugin,
                             .layers = given->layers,
                             .heads = given->heads,
                             .sizes = sizes.items,
                             .may_shrink = !given->sizes,
                             .sequences = (size_t)given->sequences,
                             .format.question = is_question ? own : NULL,
                             .seed = given->seed,
                             .text = text,
                             .is_chat = given->is_chat,
                             .answer_tokens = given->answer_tokens,
                             .context = given->context == NOT_GIVEN ? 0 : given->context,
                             .every = given->every == NOT_GIVEN ? 0 : given->every,
                             .judged = read->judged,
                             .judged_tokens_max = given->perplexity_tokens,
                             .threads = (uint32_t)(given->threads   ? given->threads
                                                   : processors > 0 ? (uint64_t)processors
                                                                    : 1),
                             .quiet = given->quiet};
    if (!parse_range(given, &request.format) || !parse_sizes(given, text, &sizes))
        return STATUS_MISUSE;
    request.size_count = sizes.count;
    bool has_names = given->policies.count > 0;
    size_t usual = prints ? 2 : 1; /* the figure is about softmax */
    int status = make_policy_list(given->name, has_names ? given->policies.items : default_policies,
                                  has_names ? given->policies.count : usual, &policies);
    if (status != STATUS_OK)
        return status;
    request.policies = policies.names;
    request.policy_count = policies.count;
    lab_error error = {.kind = LAB_NO_ERROR};
    if (!probe_read_model(given->model, &request.model, &error))
        status = report_lab_error(given->name, &error);
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
    const char *const files[] = {given->json, given->csv, given->figure, given->figures};
    enum { FILES = sizeof files / sizeof files[0] };
    const char *const inputs[] = {given->model, given->prompt_file, given->perplexity};
    int status = STATUS_OK;
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0] && status == STATUS_OK; i++)
        status = inputs[i] ? refuse_to_overwrite(given->name, inputs[i], files, FILES) : STATUS_OK;
    if (status == STATUS_OK)
        status = reserve_output(given->name, files, FILES);
    lab_error error = {.kind = LAB_NO_ERROR};
    if (status == STATUS_OK && (given->figure || given->figures) && !plot_has_program(&error))
        status = report_lab_error(given->name, &error);
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
    int status = options_status(parsed);
    if (parsed == OPTIONS_GIVEN && operands > 0 && given->model) {
        refuse(given, "the model is given twice");
        status = STATUS_MISUSE;
    } else if (parsed == OPTIONS_GIVEN) {
        given->model = operands > 0 ? argv[1] : given->model;
        status = check_and_run(given, prints);
    }
    free(given->policies.items);
    return status;
}

static const char more[] =
    "llama.cpp is needed as a library, libllama: any build of it with shared\n"
    "libraries, or 'npm install @node-llama-cpp/linux-x64'. The library is run and\n"
    "not your llama-cli, since programs differ in options and output from version to\n"
    "version and cannot be asked for logits. The model runs on the processor, each\n"
    "policy in a process of its own. Models that only encode keep no keys that could\n"
    "be looked into, and are refused.\n";

static const char more_of_the_figure[] =
    "The paper looked into Gemma 2B, whose weights cannot be had freely;\n"
    "TinyLlama-1.1B and MiniMind2-small stand in for it in docs/llama.cpp.md.\n"
    "libllama is needed, see 'whet probe --help'.\n";

int command_probe(int argc, char **argv) {
    arguments given = usual_arguments("probe");
    const option_spec options[] = {
        {"m", OPTION_TEXT, &given.model, "MODEL", "the model, as an operand or here"},
        {"policy", OPTION_LIST, &given.policies, "NAME",
         "run with this policy, may be repeated (default: softmax and adaptive)"},
        {"layers", OPTION_TEXT, &given.layers, "LIST", "policies act on these layers: 0-3,7"},
        {"heads", OPTION_TEXT, &given.heads, "LIST", "and on these heads"},
        {"sizes", OPTION_TEXT, &given.sizes, "LIST",
         "numbers in the sequence, or tokens of the text: 4..256 doubles, 3,5 lists (default: from "
         "4, or 16 tokens, to what fits or to the text's end)"},
        {"sequences", OPTION_UNSIGNED, &given.sequences, "N", "of each size (default 8)"},
        {"range", OPTION_TEXT, &given.range, "A..B", "of the numbers (default 0..999)"},
        {"decimals", OPTION_UNSIGNED, &given.decimals, "N", "digits after the point (default 0)"},
        {"seed", OPTION_UNSIGNED, &given.seed, "S", "draw other numbers (default 1)"},
        {"prompt-file", OPTION_TEXT, &given.prompt_file, "FILE",
         "beginnings of this text instead of numbers; or a question about them, with {seq} for the "
         "sequence"},
        {"text", OPTION_TEXT, &given.text, "TEXT", "the same, of this one"},
        {"chat", OPTION_FLAG, &given.is_chat, NULL, "ask in the model's chat template"},
        {"answer-tokens", OPTION_UNSIGNED, &given.answer_tokens, "N",
         "of an answer, at most (default 12)"},
        {"context", OPTION_UNSIGNED, &given.context, "N",
         "tokens there is room for (default: as many as the model was trained for)"},
        {"perplexity", OPTION_TEXT, &given.perplexity, "FILE",
         "also measure the perplexity of this text"},
        {"perplexity-tokens", OPTION_UNSIGNED, &given.perplexity_tokens, "N",
         "of its beginning, at most (default 8192)"},
        {"every", OPTION_UNSIGNED, &given.every, "N",
         "take means over every N-th position (default: about 32 of each 512)"},
        {"layer", OPTION_UNSIGNED, &given.layer, "N", "show and draw the heads of this layer"},
        {"all-heads", OPTION_FLAG, &given.shows_heads, NULL, "a line for each head"},
        {"json", OPTION_TEXT, &given.json, "FILE",
         "also write everything as JSON" OR_STANDARD_OUTPUT},
        {"csv", OPTION_TEXT, &given.csv, "FILE", "also write everything as CSV" OR_STANDARD_OUTPUT},
        {"figure", OPTION_TEXT, &given.figure, "FILE",
         "also draw the heads of --layer, or else of layer 0, as .svg or .png"},
        {"figures", OPTION_TEXT, &given.figures, "FILE", "also draw a panel for each layer"},
        {"share", OPTION_FLAG, &given.is_share, NULL, "those as shares of ln n"},
        {"llama", OPTION_TEXT, &given.llama, "DIR", "where libllama is (default: $WHET_LLAMA ...)"},
        {"plugin", OPTION_TEXT, &given.plugin, "FILE",
         "libggml-whet.so (default: $WHET_PLUGIN, beside the program ...)"},
        {"threads", OPTION_AMOUNT, &given.threads, "N", "threads (default: one a processor)"},
        quiet_option(&given.quiet),
    };
    const command_syntax syntax = {
        .name = given.name,
        .operands = "MODEL.gguf",
        .about = "Asks a language model for the maximum of longer and longer sequences of\n"
                 "numbers, and tells the entropy in nats of every attention head as they grow,\n"
                 "before and after a policy: which heads disperse, which stay sharp; how many\n"
                 "answers are right.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = more,
        .operands_limit = 1,
    };
    return parse_and_run(&syntax, &given, argc, argv, true);
}

int command_figure3(int argc, char **argv) {
    arguments given = usual_arguments("figure 3");
    given.figure = "figure3.svg";
    given.layer = 0;
    given.answer_tokens = 1;
    const option_spec options[] = {
        {"m", OPTION_TEXT, &given.model, "MODEL", "the model, as an operand or here"},
        {"out", OPTION_TEXT, &given.figure, "FILE",
         "where to, .svg or .png (default: figure3.svg)"},
        {"layer", OPTION_UNSIGNED, &given.layer, "N", "the layer to draw (default 0)"},
        {"figures", OPTION_TEXT, &given.figures, "FILE", "also a panel for each layer"},
        {"share", OPTION_FLAG, &given.is_share, NULL, "those as shares of ln n"},
        {"policy", OPTION_LIST, &given.policies, "NAME",
         "the first is drawn in full, of others the mean (default: softmax)"},
        {"sizes", OPTION_TEXT, &given.sizes, "LIST", "numbers in the sequence (default: 4 on)"},
        {"sequences", OPTION_UNSIGNED, &given.sequences, "N", "of each size (default 8)"},
        {"range", OPTION_TEXT, &given.range, "A..B", "of the numbers (default 0..999)"},
        {"decimals", OPTION_UNSIGNED, &given.decimals, "N", "digits after the point (default 0)"},
        {"seed", OPTION_UNSIGNED, &given.seed, "S", "draw other numbers (default 1)"},
        {"chat", OPTION_FLAG, &given.is_chat, NULL, "ask in the model's chat template"},
        {"llama", OPTION_TEXT, &given.llama, "DIR", "where libllama is"},
        {"plugin", OPTION_TEXT, &given.plugin, "FILE", "libggml-whet.so"},
        {"threads", OPTION_AMOUNT, &given.threads, "N", "threads (default: one a processor)"},
        {"quiet", OPTION_FLAG, &given.quiet, NULL, "no progress, and no word of what was drawn"},
    };
    const command_syntax syntax = {
        .name = given.name,
        .operands = "MODEL.gguf",
        .about = "Draws the paper's Figure 3 of any language model: the entropies (in nats)\n"
                 "of the heads of a layer against the length of the sequence whose maximum is\n"
                 "asked for.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = more_of_the_figure,
        .operands_limit = 1,
    };
    return parse_and_run(&syntax, &given, argc, argv, false);
}
