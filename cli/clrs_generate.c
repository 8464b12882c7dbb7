/* `whet clrs generate`: samples of one algorithm, length and seed, one after the other. */
#include "clrs.h"
#include "clrs_record.h"
#include "commands.h"
#include "messages.h"

#include <stdio.h>
#include <stdlib.h>

static const char command[] = "clrs generate";

typedef struct arguments {
    const char *algorithm, *decimals, *ties, *format;
    uint64_t length, seed, count, start;
    bool has_length, hints;
} arguments;

static options_result parse(int argc, char **argv, arguments *given) {
    const uint64_t not_given = UINT64_MAX;
    given->length = not_given;
    const option_spec options[] = {
        {"algo", OPTION_TEXT, &given->algorithm, "NAME", "the algorithm; see 'whet clrs list'"},
        {"length", OPTION_UNSIGNED, &given->length, "N", "the length of its instances"},
        {"seed", OPTION_UNSIGNED, &given->seed, "S", "from 0, the default, to 4294967295"},
        {"count", OPTION_UNSIGNED, &given->count, "K", "how many samples (default 1)"},
        {"start", OPTION_UNSIGNED, &given->start, "I", "the index of the first one (default 0)"},
        {"hints", OPTION_FLAG, &given->hints, NULL, clrs_hints_summary},
        {"decimals", OPTION_TEXT, &given->decimals, "D",
         "truncate numbers to so many decimals (default 3), or none"},
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
    options_result result = parse_options(&syntax, argc, argv, &operands);
    given->has_length = given->length != not_given;
    return result;
}

static int print_samples(clrs_stream *stream, const clrs_request *request, const arguments *given,
                         const clrs_record_form *form) {
    clrs_status status = clrs_stream_seek(stream, given->start);
    for (uint64_t i = 0; status == CLRS_OK && i < given->count && !ferror(stdout); i++) {
        clrs_sample sample;
        status = clrs_stream_next(stream, &sample);
        if (status == CLRS_OK)
            clrs_print_record(stdout, &sample, form);
    }
    return status == CLRS_OK ? STATUS_OK : clrs_refuse(command, request, status);
}

static int run(const arguments *given) {
    if (!given->algorithm || !given->has_length) {
        complain("%s: --algo NAME and --length N are needed", command);
        return STATUS_MISUSE;
    }
    const clrs_algorithm *algorithm = clrs_choose_algorithm(command, given->algorithm);
    if (!algorithm)
        return STATUS_MISUSE;
    int64_t length = given->length > INT64_MAX ? INT64_MAX : (int64_t)given->length;
    clrs_request request = clrs_request_default(algorithm->name, length);
    request.seed = given->seed;
    request.hints = given->hints;
    clrs_record_form form = {.as_text = false};
    if (!clrs_choose_decimals(command, given->decimals, &request.decimals) ||
        !clrs_choose_ties(command, given->ties, &request.ties) ||
        !clrs_choose_format(command, given->format, &form))
        return STATUS_MISUSE;
    form.decimals = request.decimals;
    form.ties = request.ties;
    clrs_stream *stream;
    clrs_status status = clrs_stream_create(&request, &stream);
    if (status != CLRS_OK)
        return clrs_refuse(command, &request, status);
    int result = print_samples(stream, &request, given, &form);
    clrs_stream_destroy(stream);
    return result;
}

int command_clrs_generate(int argc, char **argv) {
    arguments given = {.count = 1};
    options_result result = parse(argc, argv, &given);
    return result == OPTIONS_GIVEN ? run(&given) : options_status(result);
}
