/* `whet clrs generate`: samples of one algorithm, length and seed, one after the other. */
#include "clrs.h"
#include "clrs_record.h"
#include "commands.h"
#include "messages.h"

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
        {"algo", OPTION_TEXT, &given->algorithm, "NAME", "the algorithm; see 'whet clrs list'"},
        {"length", OPTION_TEXT, &given->length, "N", "the length of its instances"},
        {"seed", OPTION_RANGE, &given->seed, "S", "from 0, the default, to 4294967295"},
        {"count", OPTION_UNSIGNED, &given->count, "K", "how many samples (default 1)"},
        {"start", OPTION_RANGE, &given->start, "I",
         "the index of the first one (default 0, at most 4294967295); those before it are drawn "
         "on the way, some hundred thousand a second"},
        {"hints", OPTION_FLAG, &given->hints, NULL, clrs_hints_summary},
        {"decimals", OPTION_TEXT, &given->decimals, "D", clrs_decimals_summary},
        {"ties", OPTION_TEXT, &given->ties, "HOW", clrs_ties_summary},
        {"format", OPTION_TEXT, &given->format, "FORM", clrs_format_summary},
    };
    const command_syntax syntax = {
        .name = command,
        .operands = "",
        .about = "Prints samples of CLRS-Text: an instance of an algorithm's problem as a\n"
                 "question, its solution as the answer. The same options always give the same\n"
                 "samples.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
    };
    int operands = 0;
    return parse_options(&syntax, argc, argv, &operands);
}

/* Goes to the first sample, which may take minutes. */
static clrs_status go_to_start(clrs_sampler *sampler, uint64_t start) {
    enum { STRIDE = 4096 };
    lab_progress progress = lab_progress_begin("drawing", 0, start, false);
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
    return status == CLRS_OK ? STATUS_OK : clrs_refuse(command, request, status);
}

/* Whatever was given instead of a length gets the same answer: which lengths there are. */
static bool choose_length(const clrs_algorithm *algorithm, const char *text, int64_t *length) {
    const char *end = text;
    uint64_t value;
    if (take_whole_number(&end, CLRS_LENGTH_MAX, &value) && !*end &&
        (int64_t)value >= algorithm->shortest) {
        *length = (int64_t)value;
        return true;
    }
    complain("%s: %s takes lengths from %d to %d, not %s", command, algorithm->name,
             algorithm->shortest, CLRS_LENGTH_MAX, *text ? text : "''");
    return false;
}

static int run(const arguments *given) {
    if (!given->algorithm || !given->length) {
        complain("%s: --algo NAME and --length N are needed", command);
        return STATUS_MISUSE;
    }
    const clrs_algorithm *algorithm = clrs_choose_algorithm(command, given->algorithm);
    int64_t length = 0;
    if (!algorithm || !choose_length(algorithm, given->length, &length))
        return STATUS_MISUSE;
    clrs_request request = clrs_request_default(algorithm->name, length);
    request.seed = given->seed.value;
    request.hints = given->hints;
    clrs_record_form form = {.as_text = false};
    if (!clrs_choose_decimals(command, given->decimals, &request.decimals) ||
        !clrs_choose_ties(command, given->ties, &request.ties) ||
        !clrs_choose_format(command, given->format, &form))
        return STATUS_MISUSE;
    form.decimals = request.decimals;
    form.ties = request.ties;
    clrs_sampler *sampler;
    clrs_status status = clrs_sampler_create(&request, &sampler);
    if (status != CLRS_OK)
        return clrs_refuse(command, &request, status);
    int result = print_samples(sampler, &request, given, &form);
    clrs_sampler_destroy(sampler);
    return result;
}

int command_clrs_generate(int argc, char **argv) {
    arguments given = {.count = 1, .seed = {.most = UINT32_MAX}, .start = {.most = CLRS_INDEX_MAX}};
    options_result result = parse(argc, argv, &given);
    return result == OPTIONS_GIVEN ? run(&given) : options_status(result);
}
