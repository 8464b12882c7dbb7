/* `whet retrieval fit`: curves of the best beta against the entropy, as policies. */
#include "retrieval.h"

#include "messages.h"
#include "preferences.h"
#include "results.h"

#include "base/grouped.h"
#include "base/signals.h"
#include "retrieval/fit.h"

#include <stdio.h>

static const char name[] = "retrieval fit";

typedef struct arguments {
    const char *sizes, *json, *path;
    uint64_t seed, threads, degree;
    option_range count;
    double cap;
} arguments;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"degree", OPTION_UNSIGNED, &given->degree, "D",
         "degree of the polynomials, 1 to 8 (default 4)", .least = 1, .most = WHET_POLY_DEGREE_MAX},
        {"cap", OPTION_NUMBER, &given->cap, "B", "limit of beta, from 1/B to B (default 10)"},
        {"sizes", OPTION_TEXT, &given->sizes, "LIST",
         "items in a set, " LIST_FORM " (default 16..4096:x2)"},
        {"count", OPTION_RANGE, &given->count, "N",
         "number of sets of each size for each head (default 256)", .aliases = "sets"},
        seed_option(&given->seed, "seed of the sets (default 1)"),
        threads_option(&given->threads),
        json_option(&given->json, "points and curves as JSON instead of text, or in FILE"),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "HEADS",
        .about = "Finds, for many sets, the beta with the lowest cross-entropy and fits it to the\n"
                 "entropy of softmax: by least squares, and by least squares among curves that\n"
                 "never fall. Both results are policies that --policy accepts. HEADS is a\n"
                 "checkpoint, or a folder of 'whet retrieval train'.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples = "whet retrieval fit run --degree 4\n",
        .operands_limit = 1,
        .operands_least = 1,
        .operand_values = VALUE_FILE,
    };
    return parse_heads_options(&syntax, argc, argv, &given->path);
}

static int show(const arguments *given, const retrieval_fit *fit) {
    printf("%zu points (%zu more where no beta helps), H up to %.3f\n", fit->used,
           fit->count - fit->used, fit->entropy_max);
    printf("least squares, error %.3f:\n  %s\n", fit->least.error, fit->least.name);
    printf("never falling, error %.3f:\n  %s\n", fit->monotone.error, fit->monotone.name);
    return given->json ? keep_json(given->json, retrieval_fit_json(fit)) : STATUS_OK;
}

static int run(const arguments *given, const number_list *list) {
    laboratory lab;
    int status = reserve_output(&given->json, 1);
    if (status != STATUS_OK)
        return status;
    if (!open_laboratory(&lab, given->threads, given->path))
        return report_lab_error(&lab.error);
    size_t sizes[LIST_MAX];
    copy_sizes(list, sizes);
    retrieval_fit_request request = {.heads = &lab.heads,
                                     .sizes = sizes,
                                     .size_count = list->count,
                                     .sets = (size_t)given->count.value,
                                     .seed = given->seed,
                                     .degree = given->degree > 99 ? 99 : (unsigned)given->degree,
                                     .cap = given->cap,
                                     .executor = &lab.executor,
                                     .quiet = preferred.quiet};
    lab_catch_interrupts();
    retrieval_fit fit;
    if (retrieval_fit_make(&lab.engine, &request, &fit, &lab.error)) {
        status = show(given, &fit);
        retrieval_fit_free(&fit);
    } else {
        status = report_lab_error(&lab.error);
    }
    close_laboratory(&lab);
    return status;
}

int retrieval_fit_command(int argc, char **argv) {
    arguments given = {.sizes = "16..4096:x2",
                       .count = {256, 1, 1000000},
                       .seed = SEED_DEFAULT,
                       .degree = 4,
                       .cap = 10};
    options_result parsed = parse(argc, argv, &given);
    if (parsed != OPTIONS_GIVEN)
        return options_status(parsed);
    number_list sizes;
    if (!parse_number_list("sizes", given.sizes, 1, 1048576, &sizes))
        return STATUS_MISUSE;
    return run(&given, &sizes);
}
