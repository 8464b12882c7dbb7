/* `whet clrs generate`: samples of one algorithm, length and seed, one after the other. */
#include "clrs.h"
#include "clrs_record.h"
#include "commands.h"
#include "messages.h"
#include "preferences.h"
#include "registry_words.h"

#include "base/grouped.h"
#include "base/number_range.h"
#include "base/progress.h"

#include <stdio.h>
#include <string.h>

static const char command[] = "clrs generate";

typedef struct arguments {
    const char *algorithm, *length, *decimals, *ties, *format;
    uint64_t count;
    option_range seed, start;
    bool hints;
} arguments;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"algo", OPTION_TEXT, &given->algorithm, "NAME", "algorithm (see 'whet clrs list')",
         .aliases = "algorithm", .values = VALUE_WORD, .words = algorithm_words()},
        {"length", OPTION_TEXT, &given->length, "N", "length of its instances"},
        {"count", OPTION_UNSIGNED, &given->count, "N", "number of samples (default 1)"},
        {"seed", OPTION_RANGE, &given->seed, "S",
         "seed of the samples, 0 to 4,294,967,295 (default 1)"},
        {"start", OPTION_RANGE, &given->start, "I",
         "index of the first sample (default 0, at most 4,294,967,295); those before it are drawn "
         "too, about 100,000 per second"},
        clrs_hints_option(&given->hints),
        clrs_decimals_option(&given->decimals),
        clrs_ties_option(&given->ties),
        clrs_format_option(&given->format),
    };
    const command_syntax syntax = {
        .name = command,
        .operands = "",
        .about = "Prints samples of CLRS-Text: an instance of an algorithm's problem as the\n"
                 "question, its solution as the answer. The same options always give the same\n"
                 "samples.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .examples = "whet clrs generate --algo bfs --length 8\n"
                    "whet clrs generate --algo insertion_sort --length 5 --hints --format text\n",
    };
    int operands = 0;
    return parse_options(&syntax, argc, argv, &operands);
}

/* Goes to the first sample, which may take minutes. */
static clrs_status go_to_start(clrs_sampler *sampler, uint64_t start) {
    enum { STRIDE = 4096 };
    lab_progress progress = lab_progress_begin("drawing", 0, start, preferred.quiet);
    clrs_status status = CLRS_OK;
    for (uint64_t at = 0; status == CLRS_OK && at < start;) {
        at = start - at > STRIDE ? at + STRIDE : start;
        status = clrs_sampler_seek(sampler, at);
        lab_progress_show(&progress, at, "sample %llu", (unsigned long long)at);
    }
    if (start > 0)
        lab_progress_end(&progress);
    return status;
}

static int print_samples(clrs_sampler *sampler, const clrs_request *request, const arguments *given,
                         const clrs_record_form *form) {
    clrs_status status = go_to_start(sampler, given->start.value);
    for (uint64_t i = 0; status == CLRS_OK && i < given->count && !ferror(stdout); i++) {
        clrs_sample sample;
        status = clrs_sampler_next(sampler, &sample);
        if (status == CLRS_OK)
            clrs_print_record(stdout, &sample, form);
    }
    return status == CLRS_OK ? STATUS_OK : clrs_refuse(request, status);
}

static bool choose_length(const clrs_algorithm *algorithm, const char *text, int64_t *length) {
    const char *end = text;
    uint64_t value;
    if (take_whole_number(&end, CLRS_LENGTH_MAX, &value) && !*end &&
        (int64_t)value >= algorithm->shortest) {
        *length = (int64_t)value;
        return true;
    }
    char longest[NUMBER_SIZE], range[128];
    snprintf(range, sizeof range, "%d to %s for %s", algorithm->shortest,
             grouped(CLRS_LENGTH_MAX, longest), algorithm->name);
    complain_of_number("length", text, range);
    return false;
}

static int run(const arguments *given) {
    if (!given->algorithm || !given->length) {
        complain("missing --%s", given->algorithm ? "length N" : "algo NAME");
        return STATUS_MISUSE;
    }
    const clrs_algorithm *algorithm = clrs_choose_algorithm(given->algorithm);
    int64_t length = 0;
    if (!algorithm || !choose_length(algorithm, given->length, &length))
        return STATUS_MISUSE;
    clrs_request request = clrs_request_default(algorithm->name, length);
    request.seed = given->seed.value;
    request.hints = given->hints;
    clrs_record_form form = {.as_text = given->format && strcmp(given->format, "text") == 0};
    if (!clrs_choose_decimals(given->decimals, &request.decimals) ||
        !clrs_choose_ties(given->ties, &request.ties))
        return STATUS_MISUSE;
    form.decimals = request.decimals;
    form.ties = request.ties;
    clrs_sampler *sampler;
    clrs_status status = clrs_sampler_create(&request, &sampler);
    if (status != CLRS_OK)
        return clrs_refuse(&request, status);
    int result = print_samples(sampler, &request, given, &form);
    clrs_sampler_destroy(sampler);
    return result;
}

int command_clrs_generate(int argc, char **argv) {
    arguments given = {.count = 1,
                       .seed = {.value = SEED_DEFAULT, .most = UINT32_MAX},
                       .start = {.most = CLRS_INDEX_MAX}};
    options_result result = parse(argc, argv, &given);
    return result == OPTIONS_GIVEN ? run(&given) : options_status(result);
}
