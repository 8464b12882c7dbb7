/* `whet retrieval fit`: curves of the best beta against the entropy, as policies. */
#include "retrieval.h"

#include "messages.h"
#include "results.h"

#include "base/signals.h"
#include "retrieval/fit.h"

#include <stdio.h>

static const char name[] = "retrieval fit";

typedef struct arguments {
    const char *sizes, *json, *path;
    uint64_t sets, seed, threads, degree;
    double cap;
    bool quiet;
} arguments;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"degree", OPTION_UNSIGNED, &given->degree, "D", "of the polynomials, 1 to 8 (default 4)"},
        {"cap", OPTION_NUMBER, &given->cap, "B", "seek betas from 1/B to B (default 10)"},
        {"sizes", OPTION_TEXT, &given->sizes, "LIST",
         "items in a set: 16,100 or, doubling, 16..4096 (the default)"},
        {"sets", OPTION_UNSIGNED, &given->sets, "N",
         "sets of each size for each head (default 256)"},
        {"seed", OPTION_UNSIGNED, &given->seed, "S", "draw other sets (default 6)"},
        {"json", OPTION_TEXT, &given->json, "FILE",
         "write points and curves as JSON" OR_STANDARD_OUTPUT},
        threads_option(&given->threads),
        quiet_option(&given->quiet),
    };
    const command_syntax syntax = {
        .name = name,
        .operands = "HEADS",
        .about =
            "Finds, for many sets, the beta with the lowest cross-entropy and fits it against\n"
            "the entropy of softmax: by least squares, and by the same among curves that\n"
            "never fall. What is printed can be given to --policy everywhere.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = NULL,
        .operands_limit = 1,
    };
    return parse_heads_options(&syntax, argc, argv, &given->path);
}

static int show(const arguments *given, const retrieval_fit *fit) {
    printf("%zu points (%zu more where no beta helps), H up to %.3f\n", fit->used,
           fit->count - fit->used, fit->entropy_max);
    printf("least squares, error %.3f:\n  %s\n", fit->least.error, fit->least.name);
    printf("never falling, error %.3f:\n  %s\n", fit->monotone.error, fit->monotone.name);
    return given->json ? keep_json(name, given->json, retrieval_fit_json(fit)) : STATUS_OK;
}

static int run(const arguments *given, const number_list *list) {
    laboratory lab;
    int status = reserve_output(name, &given->json, 1);
    if (status != STATUS_OK)
        return status;
    if (!open_laboratory(&lab, given->threads, given->path))
        return report_lab_error(name, &lab.error);
    size_t sizes[LIST_MAX];
    copy_sizes(list, sizes);
    retrieval_fit_request request = {.heads = &lab.heads,
                                     .sizes = sizes,
                                     .size_count = list->count,
                                     .sets = (size_t)given->sets,
                                     .seed = given->seed,
                                     .degree = given->degree > 99 ? 99 : (unsigned)given->degree,
                                     .cap = given->cap,
                                     .executor = &lab.executor,
                                     .quiet = given->quiet};
    lab_catch_interrupts();
    retrieval_fit fit;
    if (retrieval_fit_make(&lab.engine, &request, &fit, &lab.error)) {
        status = show(given, &fit);
        retrieval_fit_free(&fit);
    } else {
        status = report_lab_error(name, &lab.error);
    }
    close_laboratory(&lab);
    return status;
}

int retrieval_fit_command(int argc, char **argv) {
    arguments given = {.sizes = "16..4096", .sets = 256, .seed = 6, .degree = 4, .cap = 10};
    options_result parsed = parse(argc, argv, &given);
    if (parsed != OPTIONS_GIVEN)
        return options_status(parsed);
    number_list sizes;
    if (!parse_number_list(name, "sizes", given.sizes, true, 1, 1048576, &sizes))
        return STATUS_MISUSE;
    if (given.sets < 1 || given.sets > 1000000) {
        complain("%s: --sets: %llu is not from 1 to 1000000", name, (unsigned long long)given.sets);
        return STATUS_MISUSE;
    }
    return run(&given, &sizes);
}
