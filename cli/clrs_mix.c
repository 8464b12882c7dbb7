/*
 * `whet clrs mix`: samples of several algorithms and lengths in random order, as
 * the reference's generator for Hugging Face makes them.
 */
#include "clrs.h"
#include "clrs_record.h"
#include "commands.h"
#include "lab_options.h"
#include "messages.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

static const char command[] = "clrs mix";

typedef struct arguments {
    const char *spec, *decimals, *ties, *format;
    uint64_t count;
    option_range seed;
    bool hints;
} arguments;

/* What the specification comes to. */
typedef struct mixture {
    clrs_request *requests;
    size_t count;
} mixture;

static options_result parse(int argc, char **argv, arguments *given) {
    const option_spec options[] = {
        {"spec", OPTION_TEXT, &given->spec, "FILE",
         "what to mix: a JSON object of algorithms with the lengths of each"},
        {"seed", OPTION_RANGE, &given->seed, "S", "from 0, the default, to 4294967295"},
        {"count", OPTION_UNSIGNED, &given->count, "K", "how many samples (default 1)"},
        {"hints", OPTION_FLAG, &given->hints, NULL, clrs_hints_summary},
        {"decimals", OPTION_TEXT, &given->decimals, "D", clrs_decimals_summary},
        {"ties", OPTION_TEXT, &given->ties, "HOW", clrs_ties_summary},
        {"format", OPTION_TEXT, &given->format, "FORM", clrs_format_summary},
    };
    const command_syntax syntax = {
        .name = command,
        .operands = "",
        .about = "Prints samples of several algorithms and lengths. Each pair of them has a\n"
                 "stream of its own, all with one seed; whose turn it is, Python's random\n"
                 "decides.\n",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .more = "A specification is {\"bfs\": [4, 8], \"quicksort\": [16]}, or an object that "
                "has\nthis as its \"algos_and_lengths\". In a record, \"n\" is the place in the "
                "mixed\nstream and \"index\" that in the stream of its own.\n",
    };
    int operands = 0;
    return parse_options(&syntax, argc, argv, &operands);
}

/* Appends the lengths of one algorithm. */
static int add_lengths(mixture *mixed, const clrs_request *common, const char *name,
                       const json_t *lengths) {
    const clrs_algorithm *algorithm = clrs_choose_algorithm(command, name);
    if (!algorithm)
        return STATUS_MISUSE;
    if (!json_is_array(lengths)) {
        complain("%s: the lengths of %s are no array", command, name);
        return STATUS_MISUSE;
    }
    size_t count = json_array_size(lengths);
    clrs_request *requests =
        realloc(mixed->requests, (mixed->count + count + 1) * sizeof *requests);
    if (!requests)
        return complain_of_memory();
    mixed->requests = requests;
    for (size_t i = 0; i < count; i++) {
        const json_t *length = json_array_get(lengths, i);
        if (!json_is_integer(length)) {
            complain("%s: a length of %s is no whole number", command, name);
            return STATUS_MISUSE;
        }
        clrs_request request = *common;
        request.algorithm = algorithm->name;
        request.length = json_integer_value(length);
        clrs_status status = clrs_request_check(&request, NULL);
        if (status != CLRS_OK)
            return clrs_refuse(command, &request, status);
        requests[mixed->count++] = request;
    }
    return STATUS_OK;
}

static int add_all(mixture *mixed, const clrs_request *common, json_t *spec) {
    json_t *wrapped = json_object_get(spec, "algos_and_lengths");
    json_t *mapping = wrapped ? wrapped : spec;
    if (!json_is_object(mapping)) {
        complain("%s: the specification is no object of algorithms and their lengths", command);
        return STATUS_MISUSE;
    }
    const char *name;
    json_t *lengths;
    json_object_foreach(mapping, name, lengths) {
        int status = add_lengths(mixed, common, name, lengths);
        if (status != STATUS_OK)
            return status;
    }
    if (mixed->count > 0)
        return STATUS_OK;
    complain("%s: the specification has no lengths", command);
    return STATUS_MISUSE;
}

static int print_samples(const mixture *mixed, const arguments *given, clrs_record_form form) {
    clrs_mix *mix;
    size_t failed;
    clrs_status status =
        clrs_mix_create(mixed->requests, mixed->count, given->seed.value, &mix, &failed);
    if (status != CLRS_OK)
        return clrs_refuse(command, &mixed->requests[failed], status);
    uint64_t position = 0;
    form.position = &position;
    for (; status == CLRS_OK && position < given->count && !ferror(stdout); position++) {
        clrs_sample sample;
        status = clrs_mix_next(mix, &sample);
        if (status == CLRS_OK)
            clrs_print_record(stdout, &sample, &form);
    }
    clrs_mix_destroy(mix);
    if (status == CLRS_OK)
        return STATUS_OK;
    if (status == CLRS_ERROR_MEMORY)
        return complain_of_memory();
    complain("%s: sample %llu: %s", command, (unsigned long long)(position - 1),
             clrs_status_text(status));
    return STATUS_MISUSE;
}

static int run(const arguments *given) {
    clrs_request common = clrs_request_default(NULL, 0);
    common.seed = given->seed.value;
    common.hints = given->hints;
    clrs_record_form form = {.as_text = false};
    if (!given->spec) {
        complain("%s: --spec FILE is needed", command);
        return STATUS_MISUSE;
    }
    if (!clrs_choose_decimals(command, given->decimals, &common.decimals) ||
        !clrs_choose_ties(command, given->ties, &common.ties) ||
        !clrs_choose_format(command, given->format, &form))
        return STATUS_MISUSE;
    form.decimals = common.decimals;
    form.ties = common.ties;
    lab_error error = {.kind = LAB_NO_ERROR};
    json_t *spec = lab_json_read(given->spec, &error);
    if (!spec)
        return report_lab_error(command, &error);
    mixture mixed = {.requests = NULL};
    int status = add_all(&mixed, &common, spec);
    if (status == STATUS_OK)
        status = print_samples(&mixed, given, form);
    free(mixed.requests);
    json_decref(spec);
    return status;
}

int command_clrs_mix(int argc, char **argv) {
    arguments given = {.count = 1};
    options_result result = parse(argc, argv, &given);
    return result == OPTIONS_GIVEN ? run(&given) : options_status(result);
}
